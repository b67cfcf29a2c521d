"""One R-tree per keyword over the items that have it, in flat arrays that all trees share.

A node is a row. `box[node]` holds the boxes of its children side by side, one row per end (lows of each axis,
then highs), so that a kernel bounds all children of a node in one sequential sweep. A leaf's children are
slots of items, an inner node's are nodes; `mbr` is the node's own box and `below` counts the items under each
child. Boxes are tight after every change, growing or shrinking.

Theory of operation
- Many items at once are packed by sort-tile-recurse: cut into slabs along the first axis, the slabs along the
  next, runs of `fan_out` become nodes, and the nodes' centres are packed again, until one is left. A tree is
  packed anew when a call brings more than a quarter of what it holds, or when deletes have left its leaves
  three quarters empty.
- Single items go down to where the boxes' edges grow least. A full node is split along the axis whose halves
  have the shortest edges, where they overlap least.
- A delete finds its leaf by a pointer per item and keyword, and tightens the boxes upwards. An empty node is
  freed; thin ones stay, which costs some search and no correctness.

`touched` in a leaf says that an item was added to it; who keeps sums per leaf reads and clears it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokers.indexes.contract import claim
from brokers.indexes.spatial import tree_kernels as kernels
from brokers.indexes.spatial.items import Items, Slots
from brokers.indexes.spatial.tree_kernels import (
    COUNT,
    FREE,
    HEIGHT_MAX,
    LEVEL,
    NONE,
    PARENT,
    PLACE,
    Forest,
)

_NODES_MIN = 64


class KeywordTrees:
    """R-trees over items in slots; fan-out children per node, and that many items per leaf."""

    def __init__(self, items: Items, fan_out: int) -> None:
        self.items = items
        self.fan_out = fan_out
        self.leaf_of = np.full(items.words.shape, NONE, np.int32)  # per slot and column of its words
        self.forest = _empty_forest(_NODES_MIN, items.points.shape[1], fan_out, 0)

    def insert(self, slots: Slots) -> None:
        """Enter items whose points and words stand in their slots. O(log n) per keyword; bulk O(n log n)."""
        self._fit_to_items()
        if len(slots) == 1:  # which makes no tree worth packing
            row = self.items.words[slots[0]]
            words = row[row != NONE]
            self._insert_each(np.full(len(words), slots[0]), words)
            return
        order, words = self._entries(slots)
        starts = np.flatnonzero(np.diff(words, prepend=NONE))
        ends = np.append(starts[1:], len(words))
        for start, end in zip(starts.tolist(), ends.tolist()):
            word, coming = int(words[start]), order[start:end]
            held = int(self.forest.size[word])
            if len(coming) > self.fan_out and 4 * len(coming) > held:
                self._pack(word, np.concatenate([self._slots_of(word), coming]))
                order[start:end] = NONE
        single = order != NONE
        self._insert_each(order[single], words[single])

    def delete(self, slots: Slots) -> None:
        """Remove items, whose slots still hold them. O(log n) per keyword, amortised."""
        order, words = self._entries(slots)
        kernels.delete(self.forest, self.items.words, self.leaf_of, order, words)
        for word in np.unique(words).tolist():
            size, leaves = int(self.forest.size[word]), int(self.forest.leaves[word])
            if leaves * self.fan_out > 4 * (size + self.fan_out):
                self._pack(word, self._slots_of(word))

    def memory_bytes(self) -> int:
        return sum(array.nbytes for array in self.forest) + self.leaf_of.nbytes

    def check(self) -> None:
        """Every invariant. O(nodes * fan-out)."""
        forest, items = self.forest, self.items
        used = np.zeros(len(forest.meta), np.bool_)
        slots = items.all_slots()
        order, words = self._entries(slots)
        claim(int(forest.size.sum()) == len(order), "trees hold each item once per keyword")
        for word in range(len(forest.root)):
            expected = np.sort(order[words == word])
            found = self._check_tree(word, used)
            claim(np.array_equal(np.sort(found), expected), "a tree holds the items with its keyword")
        free = forest.free[: forest.spare[0]]
        claim(not used[free].any() and len(np.unique(free)) == len(free), "free nodes are free, once")
        claim(used.sum() + len(free) == len(used), "each node is used or free")
        claim((forest.meta[free, LEVEL] == FREE).all(), "free nodes are marked")

    def _check_tree(self, word: int, used: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The items of a tree, whose invariants hold."""
        forest, items = self.forest, self.items
        root = int(forest.root[word])
        if root == NONE:
            claim(forest.size[word] == 0 and forest.leaves[word] == 0, "no tree, no items")
            return np.empty(0, np.int64)
        claim(forest.meta[root, PARENT] == NONE, "a root has no parent")
        found: list[int] = []
        leaves, stack = 0, [root]
        while stack:
            n = stack.pop()
            claim(not used[n], "a node stands in one place")
            used[n] = True
            level, count = int(forest.meta[n, LEVEL]), int(forest.meta[n, COUNT])
            claim(1 <= count <= self.fan_out, "no node is empty or too full")
            children, box, axes = forest.child[n, :count], forest.box[n, :, :count], items.points.shape[1]
            tight = np.concatenate([box[:axes].min(axis=1), box[axes:].max(axis=1)])
            claim(np.array_equal(forest.mbr[n], tight), "a node's box is tight")
            if level == 0:
                leaves += 1
                points = items.points[children].T
                claim(np.array_equal(box, np.concatenate([points, points])), "a leaf holds its items' points")
                claim((forest.below[n, :count] == 1).all(), "an item counts once")
                columns = (items.words[children] == word).argmax(axis=1)
                claim((self.leaf_of[children, columns] == n).all(), "an item knows its leaf")
                found.extend(children.tolist())
                continue
            claim(np.array_equal(forest.mbr[children].T, box), "a node holds its children's boxes")
            claim((forest.meta[children, LEVEL] == level - 1).all(), "trees are balanced")
            claim((forest.meta[children, PARENT] == n).all(), "children know their parent")
            claim(np.array_equal(forest.meta[children, PLACE], np.arange(count)), "and their place")
            sums = [int(forest.below[c, : forest.meta[c, COUNT]].sum()) for c in children]
            claim(forest.below[n, :count].tolist() == sums, "items below are counted")
            stack.extend(children.tolist())
        claim(leaves == forest.leaves[word], "leaves are counted")
        claim(len(found) == forest.size[word], "items are counted")
        return np.array(found, np.int64)

    def _entries(self, slots: Slots) -> tuple[Slots, NDArray[np.int32]]:
        """(slot, word) of all keywords of the items, by word, then in the order given."""
        words = self.items.words[slots]
        row, column = np.nonzero(words != NONE)
        flat = words[row, column]
        order = np.argsort(flat, kind="stable")
        return slots[row[order]], flat[order]

    def _slots_of(self, word: int) -> Slots:
        return kernels.slots_below(self.forest, int(self.forest.root[word]), int(self.forest.size[word]))

    def _pack(self, word: int, slots: Slots) -> None:
        nodes_max = 2 * _pages_max(len(slots), self.fan_out, self.items.points.shape[1])
        self._reserve(nodes_max)
        kernels.pack(self.forest, self.items.points, self.items.words, self.leaf_of, word, slots)

    def _insert_each(self, slots: Slots, words: NDArray[np.int32]) -> None:
        done = 0
        while done < len(slots):
            self._reserve(HEIGHT_MAX)
            done += kernels.insert(
                self.forest, self.items.points, self.items.words, self.leaf_of, slots[done:], words[done:]
            )

    def _reserve(self, nodes: int) -> None:
        """Have at least so many free nodes."""
        old = self.forest
        if old.spare[0] >= nodes:
            return
        held = len(old.meta)
        new = _empty_forest(held + max(nodes, held // 2), old.mbr.shape[1] // 2, self.fan_out, len(old.root))
        for name in ("box", "child", "below", "mbr", "meta"):
            getattr(new, name)[:held] = getattr(old, name)
        spare = int(old.spare[0])
        added = np.arange(len(new.meta) - 1, held - 1, -1, dtype=np.int32)
        new.free[: len(added)] = added
        new.free[len(added) : len(added) + spare] = old.free[:spare]
        new.spare[0] = len(added) + spare
        self.forest = new._replace(root=old.root, size=old.size, leaves=old.leaves)

    def _fit_to_items(self) -> None:
        """Room for all slots, columns and words that the items have."""
        shape = self.items.words.shape
        if shape != self.leaf_of.shape:
            larger = np.full(shape, NONE, np.int32)
            larger[: len(self.leaf_of), : self.leaf_of.shape[1]] = self.leaf_of
            self.leaf_of = larger
        words, old = int(self.items.words.max(initial=NONE)) + 1, self.forest
        if words > len(old.root):
            words = max(words, 2 * len(old.root))
            root, counts = np.full(words, NONE, np.int32), np.zeros((2, words), np.int32)
            root[: len(old.root)] = old.root
            counts[:, : len(old.root)] = old.size, old.leaves
            self.forest = old._replace(root=root, size=counts[0], leaves=counts[1])


def _empty_forest(nodes: int, axes: int, fan_out: int, words: int) -> Forest:
    meta = np.zeros((nodes, 5), np.int32)
    meta[:, LEVEL] = FREE
    return Forest(
        np.zeros((nodes, 2 * axes, fan_out)), np.zeros((nodes, fan_out), np.int32),
        np.zeros((nodes, fan_out), np.int32), np.zeros((nodes, 2 * axes)), meta,
        np.full(words, NONE, np.int32), np.zeros(words, np.int32), np.zeros(words, np.int32),
        np.arange(nodes - 1, -1, -1, dtype=np.int32), np.array([nodes], np.int64),
    )  # fmt: skip


def _pages_max(count: int, fan_out: int, axes: int) -> int:
    """No fewer than the nodes of one level of sort-tile-recurse: each slab may end in a part-filled node."""
    pages = -(-count // fan_out)
    slabs = 1
    while slabs**axes < pages:
        slabs += 1
    return pages + slabs ** (axes - 1) + 2 * slabs
