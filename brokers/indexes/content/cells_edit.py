"""How CellBitset inserts and deletes in place: an R-tree per class, two levels deep.

An insert goes to the node and leaf of its class that it widens least. A full leaf is split at the median
midpoint of its widest column, a full node likewise. A delete frees the lane; the leaf's box is set anew by
the next insert, and an empty leaf is given up at once.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.errors import EndlessWalk
from brokers.indexes.content.cells_blocks import (
    FREE_LEAF,
    LEAVES,
    NODES,
    cover_leaf,
    highest,
    lowest,
    open_leaf,
    open_node,
    put,
)
from brokers.indexes.content.cells_plan import class_of, count, path_of, quantised
from brokers.indexes.ids import take_one

_CELL = 1 / 256
_TIE = 1e-6
_SPLIT = 0.05  # of a full leaf's box, charged for splitting it


@njit(cache=True)
def insert(tree, items, columns, state, border_from, borders, routes, rows, ids, start, slots, moved, seen):
    """Insert rows from `start` on while there is room, up to the first that splits a leaf.

    Fills `slots` for those inserted and `moved` with the new slots of the subscriptions that a split moved;
    `seen`, if it has rows, counts the ends; returns the row to go on with, and how many moved.
    O(nodes of the class * columns) each.
    """
    heads, nodes, children, next_node, parent, held, first_node = tree
    leaves, further, records = items
    rank, groups, weight, trie_key, trie_child = routes
    attribute, cell = quantised(rows[start:], border_from, borders)
    scores, path = np.empty(groups), np.empty(attribute.shape[1], np.int32)
    column, others = np.empty(2 * columns.shape[1], np.uint8), np.empty(attribute.shape[1], np.int32)
    at, moves = start, 0
    while at < ids.size and moves == 0:
        if state[NODES] + 2 > heads.shape[0] or (state[FREE_LEAF] < 0 and state[LEAVES] >= parent.size):
            break
        mine, mine_cell = attribute[at - start], cell[at - start]
        length = path_of(mine, mine_cell, rank, groups, weight, scores, path)
        kind = class_of(mine, path, length, trie_key, trie_child)
        if seen.shape[0] > 0:
            count(mine, mine_cell, seen)
        _columns_of(mine, mine_cell, columns[kind], column)
        node = _nearest_node(heads, next_node, first_node[kind], column)
        if node < 0:
            node = state[NODES]
            state[NODES] += 1
            open_node(heads, nodes, children, next_node, first_node, node, kind, columns[kind])
        position = _nearest_leaf(heads, nodes, children, held, node, column)
        if position < 0:
            leaf = _new_leaf(parent, state)
            open_leaf(children, parent, held, leaves, records, leaf, node, np.int64(0))
        else:
            leaf = np.int64(children[node, position])
            if held[leaf] == 64:
                leaf = _split_leaf(tree, items, columns[kind], state, leaf, column, moved)
                moves = 32
        slot = 64 * leaf
        for slot in range(64 * leaf, 64 * leaf + 64):
            if leaves[leaf, slot & 63] > leaves[leaf, 64 + (slot & 63)]:
                break
        else:
            raise EndlessWalk("a leaf that counts fewer than 64 is full")
        put(leaves, further, records, slot, columns[kind], mine, mine_cell, rows[at], ids[at], column, others)
        held[leaf] += 1
        cover_leaf(heads, nodes, parent, leaves, leaf)
        slots[at] = slot
        at += 1
    return at, moves


@njit(cache=True)
def delete(nodes, children, parent, held, leaves, records, state, places, side):
    """Free the slots of those places, 2 * slot + side, that are on this side. O(columns) each."""
    for i in range(places.size):
        if places[i] & 1 != side:
            continue
        slot = places[i] >> 1
        leaf = slot >> 6
        _free_lane(leaves, records, leaf, slot & 63)
        held[leaf] -= 1
        if held[leaf] == 0:
            give_up(nodes, children, parent, state, leaf)


@njit(cache=True)
def delete_one(keys, slots, leaves, records, held, ids):
    """Remove the only id and free its slot, where there is one side only; few arguments, since each costs time.

    Returns -1 for an unknown id, and -2 - leaf if it was the last of a leaf, which then is to be given up.
    """
    place = take_one(keys, slots, ids)
    if place < 0:
        return np.int64(-1)
    leaf = place >> 7
    _free_lane(leaves, records, leaf, (place >> 1) & 63)
    held[leaf] -= 1
    return np.int64(0) if held[leaf] > 0 else -2 - leaf


@njit(cache=True)
def give_up(nodes, children, parent, state, leaf):
    """Take an empty leaf from its node, and list it as free."""
    _forget_child(nodes, children, parent[leaf] >> 6, parent[leaf] & 63)
    parent[leaf] = ~(state[FREE_LEAF] + 1)
    state[FREE_LEAF] = leaf


@njit(cache=True)
def _free_lane(leaves, records, leaf, lane):
    for c in range(0, leaves.shape[1], 128):
        leaves[leaf, c + lane] = 255
        leaves[leaf, c + 64 + lane] = 0
    records[64 * leaf + lane, 0] = -1


@njit(cache=True)
def _forget_child(nodes, children, node, position):
    children[node, position] = -1
    for c in range(0, nodes.shape[1], 128):
        nodes[node, c + position] = 255
        nodes[node, c + 64 + position] = 0


@njit(cache=True)
def _columns_of(attribute, cell, columns, column):
    for c in range(columns.size):
        column[2 * c], column[2 * c + 1] = 0, 255
        for j in range(attribute.size):
            if attribute[j] == columns[c] and attribute[j] >= 0:
                column[2 * c], column[2 * c + 1] = cell[2 * j], cell[2 * j + 1]


@njit(cache=True)
def _nearest_node(heads, next_node, first, column):
    """The node listed from `first` whose box grows least, the smallest of these; -1 if there is none."""
    best, best_cost = np.int64(-1), np.inf
    node = np.int64(first)
    for _ in range(heads.shape[0] + 1):
        if node < 0:
            break
        size, wider = 1.0, 1.0
        for c in range(heads[node, 0]):
            low, high = np.int64(heads[node, 3 + 3 * c]), np.int64(heads[node, 4 + 3 * c])
            size *= (high - low + 1) * _CELL if high >= low else 0.0
            wider *= (max(high, column[2 * c + 1]) - min(low, column[2 * c]) + 1) * _CELL
        cost = wider - size + _TIE * size
        if cost < best_cost:
            best, best_cost = node, cost
        node = np.int64(next_node[node])
    else:
        raise EndlessWalk("the nodes of a class form a ring")
    return best


@njit(cache=True)
def _nearest_leaf(heads, nodes, children, held, node, column):
    """The position of the leaf whose box grows least, counting a split; -1 if there is none.

    The size of a box is the part of all events that lie in it, so this is what the insert costs a match.
    """
    best, best_cost = np.int64(-1), np.inf
    for position in range(64):
        leaf = children[node, position]
        if leaf < 0:
            continue
        size, wider = 1.0, 1.0
        for c in range(heads[node, 0]):
            low = np.int64(nodes[node, 128 * c + position])
            high = np.int64(nodes[node, 128 * c + 64 + position])
            size *= (high - low + 1) * _CELL
            wider *= (max(high, column[2 * c + 1]) - min(low, column[2 * c]) + 1) * _CELL
        cost = wider - size + _TIE * size
        if held[leaf] == 64:
            cost += _SPLIT * wider
        if cost < best_cost:
            best, best_cost = np.int64(position), cost
    return best


@njit(cache=True)
def _new_leaf(parent, state):
    leaf = state[FREE_LEAF]
    if leaf >= 0:
        state[FREE_LEAF] = ~np.int64(parent[leaf]) - 1
        return leaf
    state[LEAVES] += 1
    return state[LEAVES] - 1


@njit(cache=True)
def _upper_half(cells, row, columns):
    """Of 64 lanes of cells, those 32 with the highest midpoints in the column where these differ most."""
    best, best_share = 0, -1.0
    for c in range(columns):
        low, high, key_low, key_high = np.int64(255), np.int64(0), np.int64(511), np.int64(0)
        for lane in range(64):
            a, b = np.int64(cells[row, 128 * c + lane]), np.int64(cells[row, 128 * c + 64 + lane])
            low, high = min(low, a), max(high, b)
            key_low, key_high = min(key_low, a + b), max(key_high, a + b)
        share = (key_high - key_low) / (high - low + 1)
        if share > best_share:
            best, best_share = c, share
    keys, lanes = np.empty(64, np.int64), np.empty(64, np.int64)
    for lane in range(64):
        key = np.int64(cells[row, 128 * best + lane]) + cells[row, 128 * best + 64 + lane]
        at = lane
        while at > 0 and keys[at - 1] > key:
            keys[at], lanes[at] = keys[at - 1], lanes[at - 1]
            at -= 1
        keys[at], lanes[at] = key, lane
    return lanes[32:]


@njit(cache=True)
def _split_node(tree, columns, state, node):
    """Give half of a full node's leaves to a new node."""
    heads, nodes, children, next_node, parent, _, first_node = tree
    new = state[NODES]
    state[NODES] += 1
    open_node(heads, nodes, children, next_node, first_node, new, heads[node, 1], columns)
    half = _upper_half(nodes, node, np.int64(heads[node, 0]))
    for i in range(half.size):
        leaf = children[node, half[i]]
        children[new, i] = leaf
        parent[leaf] = 64 * new + i
        for c in range(0, nodes.shape[1], 64):
            nodes[new, c + i] = nodes[node, c + half[i]]
        _forget_child(nodes, children, node, half[i])
    for part in (np.int64(node), new):
        for c in range(heads[part, 0]):
            heads[part, 3 + 3 * c] = lowest(nodes, part, 128 * c)
            heads[part, 4 + 3 * c] = highest(nodes, part, 128 * c + 64)


@njit(cache=True)
def _absent_child(children, node):
    """A position of the node without a leaf, -1 if it is full."""
    for position in range(64):
        if children[node, position] < 0:
            return np.int64(position)
    return np.int64(-1)


@njit(cache=True)
def _split_leaf(tree, items, columns, state, leaf, column, moved):
    """Move half of a full leaf to a new one; returns the one of the two that `column` widens less."""
    heads, nodes, children, _, parent, held, _ = tree
    leaves, further, records = items
    position = _absent_child(children, parent[leaf] >> 6)
    if position < 0:
        _split_node(tree, columns, state, np.int64(parent[leaf] >> 6))
        position = _absent_child(children, parent[leaf] >> 6)
    node = np.int64(parent[leaf] >> 6)
    new = _new_leaf(parent, state)
    open_leaf(children, parent, held, leaves, records, new, node, position)
    half = _upper_half(leaves, leaf, np.int64(heads[node, 0]))
    for i in range(half.size):
        lane = half[i]
        for c in range(0, leaves.shape[1], 64):
            leaves[new, c + i] = leaves[leaf, c + lane]
        further[64 * new + i] = further[64 * leaf + lane]
        records[64 * new + i] = records[64 * leaf + lane]
        _free_lane(leaves, records, leaf, lane)
        moved[i] = 64 * new + i
    held[new], held[leaf] = 32, 32
    cover_leaf(heads, nodes, parent, leaves, leaf)
    cover_leaf(heads, nodes, parent, leaves, new)
    wider = np.zeros(2, np.int64)
    for which, part in enumerate((np.int64(parent[leaf] & 63), position)):
        for c in range(heads[node, 0]):
            wider[which] += max(0, np.int64(nodes[node, 128 * c + part]) - column[2 * c])
            wider[which] += max(0, column[2 * c + 1] - np.int64(nodes[node, 128 * c + 64 + part]))
    return new if wider[1] < wider[0] else leaf
