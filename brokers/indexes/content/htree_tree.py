"""The tree itself: nodes, buckets and entries in three pools of flat arrays.

- `nodes`, int32. Word 0 points to the root. A node is its parent, the word that points to it, how many
  children it has, and one word per cell of its level: special first, then regular, 0 where there is none. A
  word of the last level points to bucket word - 1. A node or bucket exists only while something is in it.
- `buckets`, int32: start and count of the entries, the logarithm of their room, the last node on the path and
  the word there that points to the bucket. With no level, word 0 of `nodes` points to the one bucket.
- entries, side by side per bucket: `owner` is a slot, `quick` holds two of its ranges, quantised to a byte
  per end, so that most candidates are turned away without a look at their subscription.

Entries of a bucket stand in one block of 2^c places; a full block moves to one of twice the size, and free
blocks are kept by size. What is freed is used again, so churn does not grow the pools.
`where[slot]` is the stored path: the slot's bucket and its place there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.indexes.content import htree_kernels as kernels
from brokers.indexes.contract import claim

Slots = NDArray[np.int64]
Paths = NDArray[np.uint8]
Codes = NDArray[np.uint64]
Levels = NDArray[np.int64]

_POOL_MIN = 64


class Tree:
    """Slots under paths. Enter and remove O(levels) each, amortised."""

    def __init__(self, plan: Levels) -> None:
        self.plan = plan
        self.nodes = np.zeros(_POOL_MIN, np.int32)
        self.buckets = np.zeros((_POOL_MIN, 5), np.int32)
        self.quick = np.zeros(_POOL_MIN, np.uint64)
        self.owner = np.zeros(_POOL_MIN, np.int32)
        self.state = np.zeros(kernels.LEVELS + 2 * len(plan), np.int64)
        self.state[kernels.NODE_WORDS] = 1
        self.where = np.full((_POOL_MIN, 2), -1, np.int32)

    @property
    def bucket_count(self) -> int:
        return int(self.state[kernels.BUCKETS])

    @property
    def entry_count(self) -> int:
        return int(self.state[kernels.ENTRIES])

    @property
    def node_count(self) -> int:
        return int(self.state[kernels.LEVELS + 1 :: 2].sum())

    def enter(self, paths: Paths, codes: Codes, slots: Slots, slots_room: int) -> None:
        """Put each slot into the bucket of its path; slots stay below `slots_room`."""
        if slots_room > len(self.where):
            self.where = _grown(self.where, slots_room, -1)
        if len(slots) > 1:
            order = _sorted(paths)
            paths, codes, slots = paths[order], codes[order], slots[order]
        done = 0
        while True:
            done = kernels.enter(*self._pools(), paths, codes, slots, done)  # type: ignore[call-arg]
            if done == len(slots):
                return
            self._grow()

    def remove(self, slots: Slots) -> None:
        """Take out slots that stand in one bucket each."""
        kernels.remove(self.nodes, self.buckets, self.quick, self.owner, self.state, self.where, slots)

    def remove_paths(self, paths: Paths, slots: Slots) -> None:
        """Take slot i out of the bucket of path i. Longer by the length of the bucket."""
        kernels.remove_paths(*self._pools(), paths, slots)  # type: ignore[call-arg]

    def memory_bytes(self) -> int:
        return sum(array.nbytes for array in self._pools())

    def contents(self) -> tuple[Paths, Codes, Slots]:
        """Path, code and slot of every entry. Walks all of the tree and checks it on the way."""
        state = self.state
        levels = len(self.plan)
        roots = self.nodes[:1][self.nodes[:1] > 0].astype(np.int64)
        at, paths = roots, np.zeros((len(roots), 0), np.uint8)
        parents, words = np.zeros(len(roots), np.int64), np.zeros(len(roots), np.int64)
        for level in range(levels):
            claim(np.array_equal(self.nodes[at + kernels.PARENT], parents), "a node knows its parent")
            claim(np.array_equal(self.nodes[at + kernels.UP], words), "a node knows what points to it")
            claim(state[kernels.LEVELS + 2 * level + 1] == len(at), "live nodes are counted")
            cells = int(self.plan[level, kernels.REGULAR]) + 1
            children = at[:, None] + kernels.CHILDREN + np.arange(cells)
            below = self.nodes[children]
            live = (below > 0).sum(axis=1)
            claim(np.array_equal(self.nodes[at + kernels.LIVE], live), "children are counted")
            claim((live > 0).all(), "no node is empty")
            node, cell = np.nonzero(below)
            paths = np.column_stack([paths[node], cell.astype(np.uint8)])
            parents, words = at[node], children[node, cell]
            at = below[node, cell].astype(np.int64)
        bucket = at - 1
        claim(len(np.unique(bucket)) == len(bucket) == self.bucket_count, "every bucket is reached, once")
        start, count, size, parent, up = self.buckets[bucket].T.astype(np.int64)
        claim((count > 0).all() and (count <= 1 << size).all(), "no bucket is empty or overfull")
        claim(np.array_equal(parent, parents) and np.array_equal(up, words), "a bucket knows where it hangs")
        claim(count.sum() == self.entry_count, "entries are counted")
        which = np.repeat(np.arange(len(bucket)), count)
        entries = start[which] + np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        self._check_pools(start, size)
        return paths[which], self.quick[entries], self.owner[entries].astype(np.int64)

    def _pools(self) -> Any:
        return self.nodes, self.buckets, self.quick, self.owner, self.state, self.plan, self.where

    def _check_pools(self, start: Slots, size: Slots) -> None:
        """Blocks, nodes and buckets, live and free, fill what is used of their pools."""
        state, free_start, free_size = self.state, [], []
        for kind in range(kernels.BLOCK_CLASSES):
            head = state[kernels.FREE_BLOCKS + kind]
            while head:
                free_start.append(head - 1)
                free_size.append(kind)
                head = self.owner[head - 1]
        starts = np.concatenate([start, np.array(free_start, np.int64)])
        ends = starts + (1 << np.concatenate([size, np.array(free_size, np.int64)]))
        borders = np.sort(starts), np.sort(ends)
        claim(np.array_equal(np.append(borders[0], state[kernels.ENTRIES_USED]), np.insert(borders[1], 0, 0)),
              "blocks fill the pool of entries without a gap")
        words, buckets, head = 1, self.bucket_count, state[kernels.FREE_BUCKET]
        while head:
            buckets, head = buckets + 1, self.buckets[head - 1, kernels.START]
        claim(buckets == state[kernels.BUCKETS_USED], "each used bucket is live or free")
        for level in range(len(self.plan)):
            nodes, head = state[kernels.LEVELS + 2 * level + 1], state[kernels.LEVELS + 2 * level]
            while head:
                nodes, head = nodes + 1, self.nodes[head + kernels.PARENT]
            words += nodes * (kernels.CHILDREN + 1 + self.plan[level, kernels.REGULAR])
        claim(words == state[kernels.NODE_WORDS], "each used word is a live or a free node's")

    def _grow(self) -> None:
        """Room for one path more in each pool, and for the block that was wanted."""
        state = self.state
        words = int((kernels.CHILDREN + 1 + self.plan[:, kernels.REGULAR]).sum())
        self.nodes = _with_room(self.nodes, state[kernels.NODE_WORDS] + words)
        self.buckets = _with_room(self.buckets, state[kernels.BUCKETS_USED] + 1)
        entries = state[kernels.ENTRIES_USED] + state[kernels.ENTRIES_WANTED]
        state[kernels.ENTRIES_WANTED] = 0
        self.quick, self.owner = _with_room(self.quick, entries), _with_room(self.owner, entries)


def _sorted(paths: Paths) -> NDArray[np.intp]:
    """An order in which equal paths stand side by side, neighbours near each other."""
    words = -(-paths.shape[1] // 8)
    padded = np.zeros((len(paths), 8 * words), np.uint8)
    padded[:, : paths.shape[1]] = paths
    keys = padded.view(">u8").astype(np.uint64)
    return np.lexsort(keys.T[::-1]) if words else np.arange(len(paths))


def _with_room(array: NDArray[Any], used: int) -> NDArray[Any]:
    """The array, or a copy half as long again or longer, with room for `used` rows."""
    return array if used <= len(array) else _grown(array, max(used, len(array) + len(array) // 2), 0)


def _grown(array: NDArray[Any], rows: int, filler: int) -> NDArray[Any]:
    larger = np.full((rows, *array.shape[1:]), filler, array.dtype)
    larger[: len(array)] = array
    return larger
