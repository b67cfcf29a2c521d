"""Where CellBitset keeps subscriptions: slots in leaves of 64, leaves in nodes of 64.

Slot s is lane s % 64 of leaf s // 64. For columns c of the class of its node,

- `leaves.rows[leaf]` has, per column, 64 lowest and then 64 highest cells: the two halves of one comparison;
- `nodes.rows[node]` likewise the cells that each of its leaves covers, and `heads.rows[node]` the number of
  columns, the class, and per column attribute, lowest and highest cell of all its leaves;
- `further.rows[slot]` has ranges outside the columns by cell, two to a word: lowest cell, highest cell and
  attribute in 8, 8 and 16 bits. It may leave some out: it only saves work;
- `records.rows[slot]` has what was inserted: id (-1 if the slot is free), attributes four to a word (-1 after
  the last), then both ends of each range. Side by side, since a verification waits for cache lines.

A free lane and an absent leaf have cells 255..0, in which no event lies, so that matching tests for neither.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.indexes.content.cells_plan import Layout, classify, quantised
from brokers.indexes.content.contract import Floats
from brokers.indexes.contract import claim
from brokers.indexes.space import STEP_BYTES, Growing

# What `state` holds: how much is used, the free leaf last given up (-1: none), and work since it was read.
NODES, LEAVES, FREE_LEAF, PROBED, WORDS, VERIFIED = range(6)


class Blocks:
    """The arrays of one plan, and how they grow."""

    def __init__(self, plan: Layout, ranges: int, nodes: int, leaves: int) -> None:
        self.plan = plan
        self.ranges = ranges  # that a record has room for
        columns = plan.columns.shape[1]
        # Room for twice what is expected, in leaves that are half full.
        room = 4 * plan.expected // 64
        self.heads = Growing(np.int16, 2 + 3 * columns, nodes)
        self.nodes = Growing(np.uint8, 128 * columns, nodes, room // 32)
        self.children = Growing(np.int32, 64, nodes, room // 32)
        self.next_node = Growing(np.int32, 1, nodes)  # of the same class, -1 after the last
        self.leaves = Growing(np.uint8, 128 * columns, leaves, room)
        self.further = Growing(np.uint64, plan.further_words, 64 * leaves, 64 * room)
        self.records = Growing(np.int64, ends_from(ranges) + 2 * ranges, 64 * leaves, 64 * room)
        self.parent = Growing(np.int32, 1, leaves, room)  # 64 * node + position; if free, ~(next free leaf + 1)
        self.held = Growing(np.int32, 1, leaves, room)  # subscriptions in the leaf
        self.first_node = np.full(len(plan.columns), -1, np.int32)  # per class
        self.state = np.zeros(6, np.int64)
        self.state[FREE_LEAF] = -1
        self._arrange()

    def given_back(self) -> Iterator[None]:
        """Give all memory back in steps; nothing may be asked of the blocks any more."""
        for array in (self.leaves, self.further, self.records, self.nodes):
            yield from array.given_back()

    def have_room(self) -> bool:
        """Whether one more subscription surely fits: it may take a leaf and two nodes."""
        state = self.state
        leaf = state[FREE_LEAF] >= 0 or state[LEAVES] < len(self.parent.rows)
        return bool(leaf and state[NODES] + 2 <= len(self.heads.rows))

    def grow(self) -> None:
        """Make room for more. O(rows added)."""
        leaf_bytes = 64 * (self.records.width + self.further.width) * 8
        leaves = len(self.parent.rows)
        leaves += max(1, min(leaves // 2, STEP_BYTES // leaf_bytes))
        nodes = len(self.heads.rows)
        if nodes < self.state[NODES] + 2:
            nodes += 2 + min(nodes // 2, STEP_BYTES // self.nodes.width)
        for array in (self.heads, self.nodes, self.children, self.next_node):
            array.grow(nodes)
        for array in (self.leaves, self.parent, self.held):
            array.grow(leaves)
        for array in (self.further, self.records):
            array.grow(64 * leaves)
        self._arrange()

    def _arrange(self) -> None:
        """What the kernels take, kept at hand since each argument costs a call."""
        plan = self.plan
        self.tree = (self.heads.rows, self.nodes.rows, self.children.rows, self.next_node.rows.reshape(-1),
                     self.parent.rows.reshape(-1), self.held.rows.reshape(-1), self.first_node)
        self.items = self.leaves.rows, self.further.rows, self.records.rows
        heads, nodes, children, _, parent, held, _ = self.tree
        self.cleared = self.leaves.rows, self.records.rows, held
        self.freed = nodes, children, parent, held, self.leaves.rows, self.records.rows, self.state
        self.asked = heads, nodes, children, *self.items, plan.border_from, plan.borders, self.state

    def slots(self) -> NDArray[np.int64]:
        """The slots that hold a subscription, ascending. O(slots)."""
        return np.flatnonzero(self.records.rows[: 64 * self.state[LEAVES], 0] >= 0)

    def rows(self, slots: NDArray[np.int64]) -> Floats:
        """The subscriptions in these slots, as the contract writes them. O(n k)."""
        return _rows(self.records.rows, slots)

    def memory_bytes(self) -> int:
        arrays = (self.heads, self.nodes, self.children, self.next_node,
                  self.leaves, self.further, self.records, self.parent, self.held)
        return sum(a.rows.nbytes for a in arrays) + self.first_node.nbytes + self.plan.memory_bytes()

    def check(self) -> None:
        """Every invariant. O(slots * ranges)."""
        plan, slots = self.plan, self.slots()
        heads, _, children, next_node, parent, held, first_node = self.tree
        leaves, columns = int(self.state[LEAVES]), plan.columns.shape[1]
        used = np.flatnonzero(parent[:leaves] >= 0)
        counted = np.bincount(slots >> 6, minlength=leaves)
        claim(np.array_equal(counted, held[:leaves]), "leaves count what they hold")
        claim((held[used] > 0).all() and held[:leaves].sum() == held[used].sum(), "no leaf in use is empty")
        listed_leaves = children[parent[used] >> 6, parent[used] & 63]
        claim((listed_leaves == used).all(), "leaves stand where their node says")
        claim((children[: self.state[NODES]] >= 0).sum() == len(used), "nodes have no other leaves")
        free, at = 0, int(self.state[FREE_LEAF])
        while at >= 0:
            free, at = free + 1, ~int(parent[at]) - 1
        claim(free == leaves - len(used), "the other leaves are free, once")
        listed = []
        for kind, node in enumerate(first_node.tolist()):
            while node >= 0:
                claim(heads[node, 1] == kind, "nodes are listed under their class")
                listed.append(node)
                node = int(next_node[node])
        claim(sorted(listed) == list(range(int(self.state[NODES]))), "each node is listed once")
        kinds = heads[parent[slots >> 6] >> 6, 1]
        expected = Blocks(plan, self.ranges, 1, max(1, -(-len(slots) // 64)))
        rows = self.rows(slots)
        attribute, cell = quantised(rows, plan.border_from, plan.borders)
        routed = classify(attribute, cell, *plan.routes)
        claim(np.array_equal(kinds, routed), "subscriptions are in their class")
        _put_all(*expected.items, plan.columns, kinds, attribute, cell, rows, self.records.rows[slots, 0])
        lanes = self.leaves.rows[:leaves].reshape(leaves, columns, 2, 64)
        others = expected.leaves.rows.reshape(-1, columns, 2, 64)
        again = np.arange(len(slots))
        same = np.array_equal(lanes[slots >> 6, :, :, slots & 63], others[again >> 6, :, :, again & 63])
        claim(same, "cells say what the stored ranges say")
        claim(np.array_equal(self.further.rows[slots], expected.further.rows[again]), "so do further ranges")
        empty = np.ones(64 * leaves, np.bool_)
        empty[slots] = False
        barred = lanes[:, 0, 0] > lanes[:, 0, 1]
        claim(barred[empty.reshape(leaves, 64)].all(), "no event lies in a free lane")
        _check_boxes(self, used)


def _check_boxes(blocks: Blocks, used: NDArray[np.int64]) -> None:
    heads, nodes, children, _, parent, _, _ = blocks.tree
    columns = blocks.plan.columns.shape[1]
    lanes = blocks.leaves.rows[used].reshape(len(used), columns, 2, 64)
    node, position = parent[used] >> 6, parent[used] & 63
    boxes = nodes.reshape(len(nodes), columns, 2, 64)[: blocks.state[NODES]]
    mine = boxes[node, :, :, position]
    valid = np.arange(columns) < heads[node, 0][:, None]
    below = mine[:, :, 0] <= lanes[:, :, 0].min(axis=2)
    above = mine[:, :, 1] >= lanes[:, :, 1].max(axis=2)
    claim(below[valid].all(), "a leaf's box covers its cells from below")
    claim(above[valid].all(), "a leaf's box covers its cells from above")
    ends = heads[: len(boxes), 2:].reshape(len(boxes), columns, 3)
    valid = np.arange(columns) < heads[: len(boxes), :1]
    below = ends[:, :, 1] <= boxes[:, :, 0].min(axis=2)
    above = ends[:, :, 2] >= boxes[:, :, 1].max(axis=2)
    claim(below[valid].all(), "a node's box covers its leaves from below")
    claim(above[valid].all(), "a node's box covers its leaves from above")
    absent = children[: len(boxes)] < 0
    claim((boxes[:, 0, 0] > boxes[:, 0, 1])[absent].all(), "no event lies in an absent leaf")


def ends_from(ranges: int) -> int:
    """The word of a record where the ends begin: after the id, and four attributes to a word."""
    return 1 + (ranges + 3) // 4


# ---- kernels that write or read one item --------------------------------------------------------------


@njit(cache=True)
def put(leaves, further, records, slot, columns, attribute, cell, row, id_, column, others):
    """Write a subscription into a free slot; `column` and `others` are room to work in. O(k * columns)."""
    for c in range(columns.size):
        column[2 * c], column[2 * c + 1] = 0, 255
    count = 0
    for j in range(attribute.size):
        if attribute[j] < 0:
            break
        known = False
        for c in range(columns.size):
            if columns[c] == attribute[j]:
                column[2 * c], column[2 * c + 1] = cell[2 * j], cell[2 * j + 1]
                known = True
                break
        if not known:
            others[count] = j
            count += 1
    leaf, lane = slot >> 6, slot & 63
    for c in range(columns.size):
        leaves[leaf, 128 * c + lane] = column[2 * c]
        leaves[leaf, 128 * c + 64 + lane] = column[2 * c + 1]
    for word in range(further.shape[1]):
        both = np.uint64(0)
        for half in range(2):
            entry = np.uint64(255 << 8)  # attribute 0 in 0..255: always holds
            if 2 * word + half < count:
                j = others[2 * word + half]
                entry = np.uint64(attribute[j]) << np.uint64(16)
                entry |= np.uint64(cell[2 * j + 1]) << np.uint64(8) | np.uint64(cell[2 * j])
            both |= entry << np.uint64(32 * half)
        further[slot, word] = both
    _record(records, slot, row, id_)


@njit(cache=True)
def _record(records, slot, row, id_):
    ends = record_shape(records.shape[1])[1]
    records[slot, 0] = id_
    for word in range(1, ends):
        records[slot, word] = -1
    attributes, floats = records.view(np.int16), records.view(np.float64)
    count = 0
    for j in range(0, row.size, 3):
        if row[j] == row[j]:
            attributes[slot, 4 + count] = np.int16(row[j])
            floats[slot, ends + 2 * count] = row[j + 1]
            floats[slot, ends + 2 * count + 1] = row[j + 2]
            count += 1


@njit(inline="always", cache=True)
def record_shape(words):
    """(ranges, first word of the ends) of records with so many words: 1 + ceil(ranges / 4) + 2 ranges."""
    width = (words - 1) * 4 // 9
    return width, words - 2 * width


@njit(cache=True)
def _rows(records, slots):
    width, ends = record_shape(records.shape[1])
    attributes, floats = records.view(np.int16), records.view(np.float64)
    out = np.full((slots.size, 3 * width), np.nan)
    for i in range(slots.size):
        slot = slots[i]
        for j in range(width):
            if attributes[slot, 4 + j] < 0:
                break
            out[i, 3 * j] = attributes[slot, 4 + j]
            out[i, 3 * j + 1] = floats[slot, ends + 2 * j]
            out[i, 3 * j + 2] = floats[slot, ends + 2 * j + 1]
    return out


@njit(cache=True)
def _put_all(leaves, further, records, columns, kinds, attribute, cell, rows, ids):
    """Write rows into slots 0, 1, ..."""
    column, others = np.empty(2 * columns.shape[1], np.uint8), np.empty(attribute.shape[1], np.int32)
    for i in range(ids.size):
        mine = columns[kinds[i]]
        put(leaves, further, records, i, mine, attribute[i], cell[i], rows[i], ids[i], column, others)


@njit(cache=True)
def open_node(heads, nodes, children, next_node, first_node, node, kind, columns):
    """A node without leaves, the first of its class now."""
    heads[node, 0], heads[node, 1] = 0, kind
    for c in range(columns.size):
        if columns[c] >= 0:
            heads[node, 0] = c + 1
            heads[node, 2 + 3 * c] = columns[c]
        heads[node, 3 + 3 * c], heads[node, 4 + 3 * c] = 255, 0
        for lane in range(128 * c, 128 * c + 64):
            nodes[node, lane], nodes[node, lane + 64] = 255, 0
    for position in range(64):
        children[node, position] = -1
    next_node[node] = first_node[kind]
    first_node[kind] = node


@njit(cache=True)
def open_leaf(children, parent, held, leaves, records, leaf, node, position):
    """A leaf without subscriptions."""
    children[node, position] = leaf
    parent[leaf] = 64 * node + position
    held[leaf] = 0
    for c in range(0, leaves.shape[1], 128):
        for lane in range(c, c + 64):
            leaves[leaf, lane], leaves[leaf, lane + 64] = 255, 0
    for slot in range(64 * leaf, 64 * leaf + 64):
        records[slot, 0] = -1


@njit(cache=True)
def lowest(cells, row, start):
    """The least of 64 cells."""
    out = np.uint8(255)
    for i in range(start, start + 64):
        out = min(out, cells[row, i])
    return out


@njit(cache=True)
def highest(cells, row, start):
    """The greatest of 64 cells."""
    out = np.uint8(0)
    for i in range(start, start + 64):
        out = max(out, cells[row, i])
    return out


@njit(cache=True)
def cover_leaf(heads, nodes, parent, leaves, leaf):
    """Set a leaf's box to what its subscriptions cover, and widen its node's. O(columns)."""
    node, position = parent[leaf] >> 6, parent[leaf] & 63
    for c in range(heads[node, 0]):
        low, high = lowest(leaves, leaf, 128 * c), highest(leaves, leaf, 128 * c + 64)
        nodes[node, 128 * c + position] = low
        nodes[node, 128 * c + 64 + position] = high
        heads[node, 3 + 3 * c] = min(heads[node, 3 + 3 * c], np.int16(low))
        heads[node, 4 + 3 * c] = max(heads[node, 4 + 3 * c], np.int16(high))
