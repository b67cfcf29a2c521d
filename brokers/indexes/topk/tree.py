"""An interval tree that changes: which intervals share a point with a query?

A B+-tree over (low, slot). A node knows the largest high below each of its children, and a leaf is a block of
entries sorted by high, the largest first. Where all lows of a subtree are at or below the query's high, the
children worth a visit are those whose largest high reaches the query's low, and each has a hit; in a leaf the
hits come first and the walk ends behind them. Only along the one path where lows pass the query's high is
anything looked at in vain. So a query costs O(log n) and, for each hit, at most one node per level: there are
three levels for the first million intervals. Equal intervals are told apart by their slots.

Leaves of contiguous arrays keep neighbours together, however the tree was grown. Full nodes are split on the
way down; a leaf or node that runs empty is taken out, others are not merged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import EndlessWalk
from brokers.indexes.contract import claim
from brokers.indexes.space import grown
from brokers.indexes.topk.contract import Floats
from brokers.indexes.topk.kernels import share_of

LEAF = 128
FAN = 64

_LEAVES_MIN, _NODES_MIN = 2, 1
_ROOT, _HEIGHT, _SIZE, _LEAVES, _NODES, _FREE_LEAF, _FREE_NODE = range(7)  # places in `head`


class IntervalTree:
    """Intervals [low, high], each with a slot and a weight. Insert, delete, weight O(log n)."""

    def __init__(self) -> None:
        # root, height (0: the root is a leaf), intervals, leaves and nodes ever used, heads of the free lists
        self.head = np.array([0, 0, 0, 1, 0, -1, -1], np.int64)
        self.leaf_size = np.zeros(_LEAVES_MIN, np.int64)
        self.leaf_slot = np.empty((_LEAVES_MIN, LEAF), np.int64)
        self.leaf = np.empty((3, _LEAVES_MIN, LEAF))  # low, high, weight
        self.node_size = np.zeros(_NODES_MIN, np.int64)
        self.node_child = np.empty((2, _NODES_MIN, FAN), np.int64)  # child, slot of its lower separator
        self.node_key = np.empty((2, _NODES_MIN, FAN))  # low of its lower separator, largest high below
        self._gather()

    def __len__(self) -> int:
        return int(self.head[_SIZE])

    def insert(self, low: Floats, high: Floats, weight: Floats, slots: NDArray[np.int64]) -> None:
        """Enter intervals whose (low, slot) are not there. O(log n) each."""
        done = 0
        while done < len(slots):
            self._reserve()
            done = _insert(*self._arrays, low, high, weight, slots, done)

    def remove(self, low: Floats, slots: NDArray[np.int64]) -> int:
        """Take out intervals that are there; returns how many are left. O(log n) each."""
        return int(_remove(*self._arrays, low, slots))

    def reweigh(self, low: float, slot: int, weight: float) -> None:
        """Change the weight of an interval that is there. O(log n)."""
        _reweigh(*self._arrays, low, slot, weight)

    def accumulate(
        self, low: float, high: float, sent: float, prorate: bool,
        state: Floats, epoch: float, touched: NDArray[np.int64], work: NDArray[np.int64],
    ) -> None:
        """Add each hit's weight (`sent` unless NaN) to its slot's score. O(log n + hits).

        `state` is (score, epoch) by slot; slots not of this epoch are begun and listed in `touched`. `work`
        counts what is compared, the hits, and the slots listed.
        """
        _accumulate(*self._arrays, low, high, sent, prorate, state, epoch, touched, work)

    def items(self) -> list[tuple[int, float, float, float]]:
        """(slot, low, high, weight) of all intervals, in order of slots. O(n log n)."""
        found: list[tuple[int, float, float, float]] = []
        nodes = [(int(self.head[_ROOT]), int(self.head[_HEIGHT]))]
        while nodes:
            node, height = nodes.pop()
            if height:
                nodes += [(c, height - 1) for c in self.node_child[0, node, : self.node_size[node]].tolist()]
            else:
                size = self.leaf_size[node]
                found += zip(self.leaf_slot[node, :size].tolist(), *self.leaf[:, node, :size].tolist())
        return sorted(found)

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(a.nbytes for a in self._arrays)

    def check(self) -> None:
        """Every invariant. O(n)."""
        head = self.head
        count = self._check(int(head[_ROOT]), int(head[_HEIGHT]), (-np.inf, -1), (np.inf, np.inf))[0]
        claim(count == head[_SIZE], "the tree counts its intervals")
        claim(head[_HEIGHT] == 0 or self.node_size[head[_ROOT]] > 1, "a root has children to choose from")

    def _check(self, node: int, height: int, least: Any, most: Any) -> tuple[int, float]:
        """(intervals, largest high) of a subtree whose keys lie in least <= (low, slot) < most."""
        if height == 0:
            size = int(self.leaf_size[node])
            low, high, _ = self.leaf[:, node, :size]
            claim((high[1:] <= high[:-1]).all(), "the largest high comes first in a leaf")
            keys = list(zip(low.tolist(), self.leaf_slot[node, :size].tolist()))
            claim(all(least <= key < most for key in keys), "a leaf's keys lie between its separators")
            claim(size > 0 or self.head[_HEIGHT] == 0, "only the root may be an empty leaf")
            return size, float(high[0]) if size else -np.inf
        size = int(self.node_size[node])
        keys = list(zip(self.node_key[0, node, :size].tolist(), self.node_child[1, node, :size].tolist()))
        keys[0] = least
        claim(keys == sorted(keys) and size > 0, "separators ascend")
        total, top = 0, -np.inf
        for i, (child, largest) in enumerate(zip(self.node_child[0, node], self.node_key[1, node, :size])):
            count, high = self._check(int(child), height - 1, keys[i], keys[i + 1] if i + 1 < size else most)
            claim(high == largest, "a node knows the largest high below each child")
            total, top = total + count, max(top, high)
        return total, top

    def _gather(self) -> None:
        """Keep what the kernels take at hand."""
        self._arrays = (
            self.head, self.leaf_size, self.leaf_slot, self.leaf,
            self.node_size, self.node_child, self.node_key,
        )

    def _reserve(self) -> None:
        """Room for one insertion: a split on each level, and a new root."""
        height = int(self.head[_HEIGHT])
        if self.head[_LEAVES] + 1 > len(self.leaf_size):
            more = 2 * len(self.leaf_size)
            self.leaf_size = _longer(self.leaf_size, more, 0)
            self.leaf_slot, self.leaf = _longer(self.leaf_slot, more, 0), _longer(self.leaf, more, 1)
            self._gather()
        if self.head[_NODES] + height + 1 > len(self.node_size):
            more = 2 * len(self.node_size) + height + 1
            self.node_size = _longer(self.node_size, more, 0)
            self.node_child = _longer(self.node_child, more, 1)
            self.node_key = _longer(self.node_key, more, 1)
            self._gather()


def _longer(column: NDArray[Any], length: int, axis: int) -> NDArray[Any]:
    shape = list(column.shape)
    shape[axis] = length
    return grown(column, tuple(shape))


@njit(inline="always", cache=True)
def _key_before(low, slot, other_low, other_slot):
    return low < other_low or (low == other_low and slot < other_slot)


@njit(inline="always", cache=True)
def _child_of(node_size, node_child, node_key, node, low, slot):
    """The last child whose separator is not behind (low, slot); the first child's is not looked at."""
    first, last = 0, node_size[node] - 1
    while first < last:
        middle = (first + last + 1) >> 1
        if _key_before(low, slot, node_key[0, node, middle], node_child[1, node, middle]):
            last = middle - 1
        else:
            first = middle
    return first


@njit(cache=True)
def _new_leaf(head, leaf_size, leaf_slot):
    leaf = head[_FREE_LEAF]
    if leaf >= 0:
        head[_FREE_LEAF] = leaf_slot[leaf, 0]
    else:
        leaf = head[_LEAVES]
        head[_LEAVES] += 1
    leaf_size[leaf] = 0
    return leaf


@njit(cache=True)
def _new_node(head, node_size, node_child):
    node = head[_FREE_NODE]
    if node >= 0:
        head[_FREE_NODE] = node_child[0, node, 0]
    else:
        node = head[_NODES]
        head[_NODES] += 1
    node_size[node] = 0
    return node


@njit(cache=True)
def _split_leaf(head, leaf_size, leaf_slot, leaf, old):
    """Move the upper half of a full leaf to a new one: (it, low and slot of its separator)."""
    lows, slots = leaf[0, old].copy(), leaf_slot[old].copy()
    for i in range(1, LEAF):
        low, slot, at = lows[i], slots[i], i
        while at > 0 and _key_before(low, slot, lows[at - 1], slots[at - 1]):
            lows[at], slots[at] = lows[at - 1], slots[at - 1]
            at -= 1
        lows[at], slots[at] = low, slot
    low, slot = lows[LEAF // 2], slots[LEAF // 2]
    new = _new_leaf(head, leaf_size, leaf_slot)
    kept = moved = 0
    for i in range(LEAF):  # in order of highs, which both halves keep
        upper = not _key_before(leaf[0, old, i], leaf_slot[old, i], low, slot)
        target, at = (new, moved) if upper else (old, kept)
        for column in range(3):
            leaf[column, target, at] = leaf[column, old, i]
        leaf_slot[target, at] = leaf_slot[old, i]
        moved += upper
        kept += not upper
    leaf_size[old], leaf_size[new] = kept, moved
    return new, low, slot


@njit(cache=True)
def _split_node(head, node_size, node_child, node_key, old):
    """Move the upper half of a full node to a new one: (it, low and slot of its separator)."""
    new = _new_node(head, node_size, node_child)
    half = FAN // 2
    node_child[:, new, :half] = node_child[:, old, half:]
    node_key[:, new, :half] = node_key[:, old, half:]
    node_size[old], node_size[new] = half, FAN - half
    return new, node_key[0, new, 0], node_child[1, new, 0]


@njit(cache=True)
def _top(leaf_size, leaf, node_size, node_key, node, height):
    """The largest high below."""
    if height == 0:
        return leaf[1, node, 0] if leaf_size[node] else -np.inf
    return node_key[1, node, : node_size[node]].max()


@njit(cache=True)
def _split_child(head, leaf_size, leaf_slot, leaf, node_size, node_child, node_key, parent, at, height):
    """Split the full child at a place of a parent that is not full; the child's height is given."""
    old = node_child[0, parent, at]
    if height == 0:
        new, low, slot = _split_leaf(head, leaf_size, leaf_slot, leaf, old)
    else:
        new, low, slot = _split_node(head, node_size, node_child, node_key, old)
    for i in range(node_size[parent], at + 1, -1):
        node_child[:, parent, i] = node_child[:, parent, i - 1]
        node_key[:, parent, i] = node_key[:, parent, i - 1]
    node_size[parent] += 1
    node_child[0, parent, at + 1], node_child[1, parent, at + 1] = new, slot
    node_key[0, parent, at + 1] = low
    node_key[1, parent, at] = _top(leaf_size, leaf, node_size, node_key, old, height)
    node_key[1, parent, at + 1] = _top(leaf_size, leaf, node_size, node_key, new, height)


@njit(inline="always", cache=True)
def _is_full(leaf_size, node_size, node, height):
    return leaf_size[node] == LEAF if height == 0 else node_size[node] == FAN


@njit(cache=True)
def _insert(
    head, leaf_size, leaf_slot, leaf, node_size, node_child, node_key, lows, highs, weights, slots, done
):
    """Enter intervals from number `done` on while there is room for splits; how many are done then."""
    while done < slots.size:
        if head[_LEAVES] + 1 > leaf_size.size or head[_NODES] + head[_HEIGHT] + 1 > node_size.size:
            return done
        low, high, slot = lows[done], highs[done], slots[done]
        if _is_full(leaf_size, node_size, head[_ROOT], head[_HEIGHT]):
            root = _new_node(head, node_size, node_child)
            node_size[root] = 1
            node_child[0, root, 0], node_child[1, root, 0] = head[_ROOT], -1
            node_key[0, root, 0] = -np.inf
            head[_ROOT] = root
            head[_HEIGHT] += 1
            _split_child(
                head, leaf_size, leaf_slot, leaf, node_size, node_child, node_key, root, 0, head[_HEIGHT] - 1
            )
        node = head[_ROOT]
        for height in range(head[_HEIGHT] - 1, -1, -1):
            at = _child_of(node_size, node_child, node_key, node, low, slot)
            if _is_full(leaf_size, node_size, node_child[0, node, at], height):
                _split_child(
                    head, leaf_size, leaf_slot, leaf, node_size, node_child, node_key, node, at, height
                )
                at += not _key_before(low, slot, node_key[0, node, at + 1], node_child[1, node, at + 1])
            node_key[1, node, at] = max(node_key[1, node, at], high)
            node = node_child[0, node, at]
        at = leaf_size[node]
        while at > 0 and leaf[1, node, at - 1] < high:
            for column in range(3):
                leaf[column, node, at] = leaf[column, node, at - 1]
            leaf_slot[node, at] = leaf_slot[node, at - 1]
            at -= 1
        leaf[0, node, at], leaf[1, node, at], leaf[2, node, at] = low, high, weights[done]
        leaf_slot[node, at] = slot
        leaf_size[node] += 1
        head[_SIZE] += 1
        done += 1
    return done


@njit(cache=True)
def _find(head, leaf_size, leaf_slot, node_size, node_child, node_key, low, slot, path, places):
    """The place of an interval in its leaf; fills the nodes on the way there, and the places taken in them."""
    node = head[_ROOT]
    for depth in range(head[_HEIGHT]):
        path[depth] = node
        places[depth] = _child_of(node_size, node_child, node_key, node, low, slot)
        node = node_child[0, node, places[depth]]
    path[head[_HEIGHT]] = node
    for at in range(leaf_size[node]):
        if leaf_slot[node, at] == slot:
            return at
    raise EndlessWalk("an interval is not in the leaf that its key leads to")


@njit(cache=True)
def _remove(head, leaf_size, leaf_slot, leaf, node_size, node_child, node_key, lows, slots):
    path, places = np.empty(64, np.int64), np.empty(64, np.int64)
    for i in range(slots.size):
        at = _find(
            head, leaf_size, leaf_slot, node_size, node_child, node_key, lows[i], slots[i], path, places
        )
        height = head[_HEIGHT]
        node = path[height]
        leaf_size[node] -= 1
        head[_SIZE] -= 1
        last = leaf_size[node]
        for column in range(3):
            for p in range(at, last):
                leaf[column, node, p] = leaf[column, node, p + 1]
        for p in range(at, last):
            leaf_slot[node, p] = leaf_slot[node, p + 1]
        if at > 0:
            continue  # the largest high stays, here and above
        empty = last == 0
        if empty and height > 0:
            leaf_slot[node, 0] = head[_FREE_LEAF]
            head[_FREE_LEAF] = node
        for depth in range(height - 1, -1, -1):
            below, node, at = path[depth + 1], path[depth], places[depth]
            if empty:
                node_size[node] -= 1
                for p in range(at, node_size[node]):
                    node_child[:, node, p] = node_child[:, node, p + 1]
                    node_key[:, node, p] = node_key[:, node, p + 1]
                empty = node_size[node] == 0
                if empty:
                    node_child[0, node, 0] = head[_FREE_NODE]
                    head[_FREE_NODE] = node
            else:
                largest = _top(leaf_size, leaf, node_size, node_key, below, height - 1 - depth)
                if node_key[1, node, at] == largest:
                    break
                node_key[1, node, at] = largest
        if empty and height > 0:
            head[_HEIGHT] = 0
            head[_ROOT] = _new_leaf(head, leaf_size, leaf_slot)
        while head[_HEIGHT] > 0 and node_size[head[_ROOT]] == 1:
            root = head[_ROOT]
            head[_ROOT] = node_child[0, root, 0]
            head[_HEIGHT] -= 1
            node_child[0, root, 0] = head[_FREE_NODE]
            head[_FREE_NODE] = root
    return head[_SIZE]


@njit(cache=True)
def _reweigh(head, leaf_size, leaf_slot, leaf, node_size, node_child, node_key, low, slot, weight):
    path, places = np.empty(64, np.int64), np.empty(64, np.int64)
    at = _find(head, leaf_size, leaf_slot, node_size, node_child, node_key, low, slot, path, places)
    leaf[2, path[head[_HEIGHT]], at] = weight


@njit(cache=True)
def _accumulate(
    head, leaf_size, leaf_slot, leaf, node_size, node_child, node_key, low, high, sent, prorate,
    state, epoch, touched, work,
):
    given = sent == sent
    compared, hits, count = 0, 0, work[2]
    # (node, height, whether all lows below are at or below the query's high), at most FAN per level
    stack = np.empty((FAN * (head[_HEIGHT] + 1) + 1, 3), np.int64)
    stack[0] = head[_ROOT], head[_HEIGHT], 0
    depth = 1
    for _ in range(node_size.size + leaf_size.size + 1):
        if depth == 0:
            break
        depth -= 1
        node, height, inside = stack[depth]
        if height > 0:
            size = node_size[node]
            for i in range(size):
                if i > 0 and not inside and node_key[0, node, i] > high:
                    break
                compared += 1
                if node_key[1, node, i] >= low:
                    stack[depth, 0], stack[depth, 1] = node_child[0, node, i], height - 1
                    stack[depth, 2] = inside or (i + 1 < size and node_key[0, node, i + 1] <= high)
                    depth += 1
            continue
        for i in range(leaf_size[node]):
            compared += 1
            if leaf[1, node, i] < low:
                break
            if inside or leaf[0, node, i] <= high:
                hits += 1
                slot = leaf_slot[node, i]
                counted = sent if given else leaf[2, node, i]
                if prorate:
                    counted = share_of(counted, leaf[0, node, i], leaf[1, node, i], low, high)
                if state[slot, 1] != epoch:
                    state[slot, 0], state[slot, 1] = 0.0, epoch
                    touched[count] = slot
                    count += 1
                state[slot, 0] += counted
    else:
        raise EndlessWalk("a tree has a ring")
    work[0] += compared
    work[1] += hits
    work[2] = count
