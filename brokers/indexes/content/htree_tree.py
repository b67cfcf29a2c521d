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
`where[slot]` is the stored path: twice the slot's bucket, one more in the second of two trees, and its place in
the bucket; so a block moves without a look at where its slots are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.indexes.content import htree_kernels as kernels
from brokers.indexes.contract import claim
from brokers.indexes.space import STEP_BYTES, Growing

Slots = NDArray[np.int64]
Paths = NDArray[np.uint8]
Codes = NDArray[np.uint64]
Levels = NDArray[np.int64]

_POOL_MIN = 64
_BUCKET_WORDS = 5


class Places:
    """The stored path of each slot, for both of two trees."""

    def __init__(self) -> None:
        self._rows = Growing(np.int32, 2, 0)

    @property
    def rows(self) -> NDArray[np.int32]:
        """int32[slots, 2], by slot."""
        return self._rows.rows

    def reach(self, slots: int) -> None:
        """Have so many slots at least."""
        if slots > len(self._rows.rows):
            self._rows.grow(slots)

    def second(self, slots: Slots) -> NDArray[np.bool_]:
        """Which of these slots stand in the second tree."""
        return np.asarray(self.rows[slots, 0] & 1 == 1)


class Tree:
    """Slots under paths. Enter and remove O(levels) each, amortised."""

    def __init__(self, plan: Levels, places: Places, side: int = 0, like: Tree | None = None) -> None:
        """The tree `side` of two. One that becomes as large as another has that one's space from the beginning."""
        self.plan, self._places = plan, places
        used = (_POOL_MIN,) * 3 if like is None else tuple(like.state[: kernels.ENTRIES_USED + 1].tolist())
        nodes, buckets, entries = (max(_POOL_MIN, rows) for rows in used)
        self._pools = (Growing(np.int32, 1, nodes), Growing(np.int32, _BUCKET_WORDS, buckets),
                       Growing(np.uint64, 1, entries), Growing(np.int32, 1, entries))
        self.state: Levels = np.zeros(kernels.LEVELS + 2 * len(plan), np.int64)
        self.state[kernels.NODE_WORDS] = 1
        self.state[kernels.SIDE] = side
        self._view()

    @property
    def bucket_count(self) -> int:
        return int(self.state[kernels.BUCKETS])

    @property
    def entry_count(self) -> int:
        return int(self.state[kernels.ENTRIES])

    @property
    def node_count(self) -> int:
        return int(self.state[kernels.LEVELS + 1 :: 2].sum())

    @property
    def where(self) -> NDArray[np.int32]:
        """The stored paths, by slot."""
        return self._places.rows

    def enter(self, paths: Paths, codes: Codes, slots: Slots) -> None:
        """Put each slot into the bucket of its path."""
        if len(slots) > 1:
            order = _sorted(paths)
            paths, codes, slots = paths[order], codes[order], slots[order]
        done = 0
        while True:
            done = kernels.enter(*self._arrays(), paths, codes, slots, done)  # type: ignore[call-arg]
            if done == len(slots):
                return
            self._grow()

    def remove(self, slots: Slots) -> None:
        """Take out slots that stand in one bucket each."""
        kernels.remove(self.nodes, self.buckets, self.quick, self.owner, self.state, self.where, slots)

    def remove_paths(self, paths: Paths, slots: Slots) -> None:
        """Take slot i out of the bucket of path i. Longer by the length of the bucket."""
        kernels.remove_paths(*self._arrays(), paths, slots)  # type: ignore[call-arg]

    def last_slots(self, left: int, count: int) -> tuple[Slots, int]:
        """Up to `count` slots of the last of the first `left` buckets, and how many buckets may hold more."""
        slots = np.empty(count, np.int64)
        found, left = kernels.last_slots(self.buckets, self.owner, left, slots)
        return slots[:found], left

    def given_back(self) -> Iterator[None]:
        """Give all memory back in steps; nothing may be asked of the tree any more."""
        for pool in self._pools:
            yield from pool.given_back()

    def memory_bytes(self) -> int:
        arrays = self.nodes, self.buckets, self.quick, self.owner, self.state, self.plan
        return sum(array.nbytes for array in arrays)

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

    def _arrays(self) -> Any:
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
        entries = state[kernels.ENTRIES_USED] + state[kernels.ENTRIES_WANTED]
        state[kernels.ENTRIES_WANTED] = 0
        wanted = state[kernels.NODE_WORDS] + words, state[kernels.BUCKETS_USED] + 1, entries, entries
        for pool, rows in zip(self._pools, wanted):
            _make_room(pool, int(rows))
        self._view()

    def _view(self) -> None:
        nodes, buckets, quick, owner = (pool.rows for pool in self._pools)
        self.nodes, self.buckets = nodes.reshape(-1), buckets
        self.quick, self.owner = quick.reshape(-1), owner.reshape(-1)


def _sorted(paths: Paths) -> NDArray[np.intp]:
    """An order in which equal paths stand side by side, neighbours near each other."""
    words = -(-paths.shape[1] // 8)
    padded = np.zeros((len(paths), 8 * words), np.uint8)
    padded[:, : paths.shape[1]] = paths
    keys = padded.view(">u8").astype(np.uint64)
    return np.lexsort(keys.T[::-1]) if words else np.arange(len(paths))


def _make_room(pool: Growing, used: int) -> None:
    """Room for `used` rows; if there is none, for half as many again as there were, but not many at once."""
    rows = len(pool.rows)
    if used > rows:
        pool.grow(max(used, rows + min(rows // 2, STEP_BYTES // (pool.width * pool.dtype.itemsize))))
