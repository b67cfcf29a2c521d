"""How CellBitset lays out many subscriptions at once: by class, then split at midpoints."""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.indexes.content.cells_blocks import (
    LEAVES,
    NODES,
    Blocks,
    cover_leaf,
    open_leaf,
    open_node,
    put,
)
from brokers.indexes.content.cells_plan import LEAF_ROWS, Layout, classify, quantised
from brokers.indexes.content.contract import Floats
from brokers.indexes.contract import Ids


def build(plan: Layout, ids: Ids, rows: Floats) -> Blocks:
    """New blocks that hold these subscriptions. O(n (k + log n))."""
    ranges = int((rows[:, 0::3] == rows[:, 0::3]).sum(axis=1).max(initial=0))
    attribute, cell = quantised(rows, plan.border_from, plan.borders)
    kinds = classify(attribute, cell, *plan.routes)
    order = np.argsort(kinds, kind="stable").astype(np.int32)
    starts, first = _split(_cells_by_column(attribute, cell, kinds, plan.columns), kinds, plan.columns, order)
    blocks = Blocks(plan, max(1, ranges), max(1, int(first.sum())), max(1, len(first)))
    _fill(order, starts, first, kinds, plan.columns, attribute, cell, rows, ids, *blocks.tree, *blocks.items)
    blocks.state[LEAVES], blocks.state[NODES] = len(first), first.sum()
    return blocks


# ---- kernels ------------------------------------------------------------------------------------------


@njit(cache=True)
def _cells_by_column(attribute, cell, kinds, columns):
    """uint8[n, 2 columns]: lowest and highest cell of all rows by their classes' columns. O(n k columns)."""
    out = np.empty((attribute.shape[0], 2 * columns.shape[1]), np.uint8)
    for i in range(attribute.shape[0]):
        for c in range(columns.shape[1]):
            out[i, 2 * c], out[i, 2 * c + 1] = 0, 255
            for j in range(attribute.shape[1]):
                if attribute[i, j] == columns[kinds[i], c] and attribute[i, j] >= 0:
                    out[i, 2 * c], out[i, 2 * c + 1] = cell[i, 2 * j], cell[i, 2 * j + 1]
                    break
    return out


@njit(cache=True)
def _widest(cells, order, start, end, columns):
    """The column whose split narrows the two halves most, or -1 if none can be split.

    A column that some rows do not constrain is as wide before as after; it is taken if there is no other.
    """
    best, best_share = -1, 0.0
    for c in range(columns):
        low, high, key_low, key_high = np.int64(255), np.int64(0), np.int64(511), np.int64(0)
        for i in range(start, end):
            a, b = np.int64(cells[order[i], 2 * c]), np.int64(cells[order[i], 2 * c + 1])
            low, high = min(low, a), max(high, b)
            key_low, key_high = min(key_low, a + b), max(key_high, a + b)
        share = (key_high - key_low) / (2.0 * (high - low + 1))
        if low == 0:
            share *= 0.001
        if share > best_share:
            best, best_share = c, share
    return best


@njit(cache=True)
def _part(cells, order, spare, start, middle, end, column):
    """Reorder so that order[start:middle] have the lowest midpoints in the column. O(end - start)."""
    seen = np.zeros(512, np.int64)
    for i in range(start, end):
        seen[np.int64(cells[order[i], 2 * column]) + cells[order[i], 2 * column + 1]] += 1
    key, below = 0, 0
    while below + seen[key] <= middle - start:
        below += seen[key]
        key += 1
    ties = middle - start - below  # rows with this key that go left
    left, right = start, 0
    for i in range(start, end):
        row = order[i]
        mine = np.int64(cells[row, 2 * column]) + cells[row, 2 * column + 1]
        if mine < key or (mine == key and ties > 0):
            if mine == key:
                ties -= 1
            order[left] = row
            left += 1
        else:
            spare[right] = row
            right += 1
    for i in range(right):
        order[left + i] = spare[i]


@njit(cache=True)
def _split(cells, kinds, columns, order):
    """Reorder rows that stand by kind; returns where each leaf starts, and whether it opens a node."""
    n = order.size
    spare = np.empty(n, np.int32)
    starts, first = np.empty(n + 1, np.int64), np.empty(n, np.bool_)
    leaves = 0
    stack = np.empty((128, 3), np.int64)
    here = 0
    while here < n:
        kind = kinds[order[here]]
        end = here
        while end < n and kinds[order[end]] == kind:
            end += 1
        width = 0
        while width < columns.shape[1] and columns[kind, width] >= 0:
            width += 1
        depth, node_end, opened = 1, here, False
        stack[0] = here, end, -(-(end - here) // LEAF_ROWS)
        while depth > 0:
            depth -= 1
            start, stop, parts = stack[depth]
            if start >= node_end and parts <= 64:
                node_end, opened = stop, True
            if parts == 1:
                starts[leaves], first[leaves] = start, opened
                leaves += 1
                opened = False
                continue
            nodes = -(-parts // 64)
            left = parts // 2 if nodes == 1 else parts * (nodes // 2) // nodes
            middle = start + (stop - start) * left // parts
            column = _widest(cells, order, start, stop, width)
            if column >= 0:
                _part(cells, order, spare, start, middle, stop, column)
            stack[depth] = middle, stop, parts - left
            stack[depth + 1] = start, middle, left
            depth += 2
        here = end
    starts[leaves] = n
    return starts[: leaves + 1].copy(), first[:leaves].copy()


@njit(cache=True)
def _fill(order, starts, first, kinds, columns, attribute, cell, rows, ids, heads, nodes, children, next_node,
          parent, held, first_node, leaves, further, records):
    """Write all rows into new nodes and leaves. O(n k)."""
    column, others = np.empty(2 * columns.shape[1], np.uint8), np.empty(attribute.shape[1], np.int32)
    node, position = np.int64(-1), np.int64(0)
    for leaf in range(first.size):
        kind = kinds[order[starts[leaf]]]
        if first[leaf]:
            node, position = node + 1, np.int64(0)
            open_node(heads, nodes, children, next_node, first_node, node, kind, columns[kind])
        open_leaf(children, parent, held, leaves, records, leaf, node, position)
        for lane in range(starts[leaf + 1] - starts[leaf]):
            i = order[starts[leaf] + lane]
            put(leaves, further, records, 64 * leaf + lane, columns[kind], attribute[i], cell[i], rows[i],
                ids[i], column, others)
        held[leaf] = starts[leaf + 1] - starts[leaf]
        cover_leaf(heads, nodes, parent, leaves, leaf)
        position += 1
