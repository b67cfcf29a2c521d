"""Interval skip list (Hanson), on flat arrays, with the moves that AGILE makes on it.

Every entry (a small integer) has a region K, a closed interval whose ends are nodes of a skip list or
infinite. `probe(x)` is {entry : x in K}. K may be wider than the interval I that it stands for: that is the
filter's business; here are the list, and the rules by which K grows and shrinks.

Theory of operation
- An edge of level l leads from a node to the next node whose height is above l. K is marked on its maximal
  edges: those within K that no edge of the next level within K covers. They form a staircase up and down.
- The maximal edges of K between two of its nodes are disjoint, so an entry is met at most once on a descent.
- Hanson gives each node a set of eq-markers: the entries that contain its key and are marked on an adjacent
  edge. Here they follow from what there is: the markers of the edges that end at the node, and the entries
  that *begin* at it. A descent that keeps strictly left of x meets the first, and the second are one set per
  node. That is one marker per entry instead of one per marked edge, and no special case in the probe.
- A node lives as long as some K has an end there (`owners`). When a node comes, the edges it splits lose their
  entries, which are marked anew; when it goes, the edges that end at it do. Nothing else can change: an entry
  not marked there has an edge across the node that is higher than the node.
- A node's height is a hash of its key and the seed, one level more with probability 1/4: the same keys give
  the same list, whatever the order in which they came.
- A set of markers is a contiguous block, so that a probe reads it in order. An entry records where in each set it
  stands, so that it leaves by a swap with the last. Blocks have powers of two; sets and records share one pool.

Costs: probe O(log n + answers); move O(log^2 n) expected, plus what the coming and going of nodes re-marks.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.context import skiplist_kernels as kernels
from brokers.indexes.context.skiplist_kernels import EXACT, FULL, Arrays
from brokers.indexes.contract import claim


class IntervalSkipList:
    """Entries 0 .. entries - 1, at first all without a region."""

    def __init__(self, entries: int, seed: int = 0, scope: tuple[float, float] = (-np.inf, np.inf)) -> None:
        self.state = kernels.new_state(entries, seed, scope)
        # A bit per entry whose K is everything. Such entries are marked nowhere: they are at every value.
        self.always = np.zeros((entries + 63) // 64, np.uint64)

    def reserve(self, entries: int) -> None:
        """Make room for more entries. O(entries)."""
        kernels.reserve(self.state, entries)
        words = (entries + 63) // 64
        if words > len(self.always):
            self.always = np.concatenate([self.always, np.zeros(words - len(self.always), np.uint64)])

    def place(self, entry: int, low: float, high: float) -> None:
        """K becomes [low, high], nothing if low > high. O(log^2 n) expected."""
        self.update(entry, low, high, EXACT)

    def remove(self, entry: int) -> None:
        """K becomes nothing. O(log^2 n) expected."""
        self.update(entry, np.inf, -np.inf, EXACT)

    def update(self, entry: int, low: float, high: float, rule: int) -> bool:
        """I is now [low, high]: move K by the rule unless it covers that; whether it moved."""
        self._check_entry(entry)
        if low != low or high != high:
            raise InvalidInput(f"the interval [{low}, {high}] has an end that is NaN")
        return self.update_many(np.array([entry]), np.array([[low, high]], float), rule) > 0

    def update_many(self, entries: NDArray[np.int64], asked: NDArray[np.float64], rule: int) -> int:
        """`update` for each entry and row of (low, high), in order; how many moved."""
        rows = np.zeros((len(entries), 2), np.int64)
        rows[:, 1] = entries
        return self.update_mine(0, rows, asked, rule)

    def update_mine(
        self, number: int, rows: NDArray[np.int64], asked: NDArray[np.float64], rule: int
    ) -> int:
        """The same for those rows of (list, entry) that name this list."""
        return int(kernels.update_many(self.state, self.always, rule, number, rows, asked))

    def remove_many(self, entries: NDArray[np.int64]) -> None:
        """`remove` for each entry."""
        nothing = np.empty((len(entries), 2))
        nothing[:, 0], nothing[:, 1] = np.inf, -np.inf
        self.update_many(entries, nothing, EXACT)

    def shrink(self, entry: int, low: float, high: float, how: int = FULL) -> bool:
        """I is [low, high]: shrink K fully or by a step; whether there was anything to do."""
        self._check_entry(entry)
        return bool(kernels.shrink(self.state, self.always, entry, low, high, how))

    def probe(self, value: float) -> NDArray[np.int64]:
        """The entries whose K contains the value, ascending. O(log n + answers), and one look at each entry."""
        everywhere = np.flatnonzero((self.reach[:, 0] == -np.inf) & (self.reach[:, 1] == np.inf))
        return np.sort(np.concatenate([kernels.members_at(self.state, float(value)), everywhere]))

    def arrays(self) -> Arrays:
        """What the state holds, not copied; stale after the next change."""
        return Arrays(*kernels.arrays(self.state))

    @property
    def reach(self) -> NDArray[np.float64]:
        """K of every entry, [inf, -inf] for nothing."""
        return self.arrays().reach

    def work(self) -> dict[str, int]:
        """Nodes that came and went, and entries marked anew because of it."""
        return dict(zip(kernels.WORK, self.arrays().work.tolist()))

    @property
    def level(self) -> NDArray[np.int8]:
        """How far each entry is escalated."""
        return self.arrays().level

    def keys(self) -> NDArray[np.float64]:
        """The keys of all nodes, ascending."""
        _, keys, _, _ = self._walk()
        return np.array(keys[1:-1])

    def eq_markers(self, key: float) -> set[int]:
        """Hanson's set at a node: what contains its key and is marked on an edge that begins or ends there."""
        nodes, keys, height, _ = self._walk()
        at = keys.index(key)
        edges = [(nodes[at], level) for level in range(height[at])]
        for level in range(height[at]):
            edges.append((next(nodes[i] for i in range(at - 1, -1, -1) if height[i] > level), level))
        marked = {entry for node, level in edges for entry in self._set(node + 1 + level)}
        return {entry for entry in marked | set(self._set(nodes[at])) if self._contains(entry, key)}

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays()) + self.always.nbytes

    def check(self) -> None:
        """Every invariant. O(nodes * (nodes + entries))."""
        nodes, keys, height, owners = self._walk()
        claim(keys == sorted(set(keys)), "keys ascend")
        for i, key in enumerate(keys[1:-1], 1):
            claim(height[i] == kernels.height_of(self.state, key), "a height follows from the key")
        reach, ends = self.reach, self.arrays().ends
        number = {node: i for i, node in enumerate(nodes)}
        absent = ends[:, 0] == kernels.NOWHERE
        claim((reach[absent, 0] > reach[absent, 1]).all(), "what has no ends contains nothing")
        held = np.flatnonzero(~absent)
        for side in range(2):
            of = [keys[number[node]] for node in ends[held, side].tolist()]
            claim(np.array_equal(of, reach[held, side]), "K ends at the keys of its nodes")
        inner = ends[held].ravel()
        inner = inner[(inner != kernels.HEAD) & (inner != kernels.TAIL)]
        counted = np.bincount([number[node] for node in inner.tolist()], minlength=len(nodes))
        claim(counted[1:-1].tolist() == owners[1:-1], "a node counts the ends that stand on it")
        claim(all(counted[1:-1] > 0), "a node without ends is gone")
        self._check_markers(nodes, keys, height, held)
        _check_records(self, nodes, height)

    def _check_markers(
        self, nodes: list[int], keys: list[float], height: list[int], held: NDArray[np.int64]
    ) -> None:
        low, high = self.reach[held, 0], self.reach[held, 1]
        inside = ~((low == -np.inf) & (high == np.inf))
        held, low, high = held[inside], low[inside], high[inside]
        for i, node in enumerate(nodes[:-1]):
            claim(sorted(self._set(node)) == held[low == keys[i]].tolist(), "entries are listed where they begin")
        for level in range(kernels.LEVELS):
            tall = [i for i in range(len(nodes)) if height[i] > level or i == len(nodes) - 1]
            taller = np.array([keys[i] for i in tall if height[i] > level + 1 or i == len(nodes) - 1])
            for i, j in pairwise(tall):
                within = (low <= keys[i]) & (keys[j] <= high)
                if level + 1 < kernels.LEVELS:
                    above = keys[0] if len(taller) == 0 else max(k for k in [-np.inf, *taller] if k <= keys[i])
                    beyond = min(k for k in [*taller, np.inf] if k >= keys[j])
                    within &= ~((low <= above) & (beyond <= high))
                claim(sorted(self._set(nodes[i] + 1 + level)) == held[within].tolist(),
                      "an entry is marked on its maximal edges, and there only")

    def _walk(self) -> tuple[list[int], list[float], list[int], list[int]]:
        """Nodes, keys, heights, owners in key order, the two sentinels included."""
        arrays = self.arrays()
        nodes = [kernels.HEAD]
        while nodes[-1] != kernels.TAIL:
            nodes.append(int(arrays.link[nodes[-1] + 1, kernels.NEXT]))
        columns = arrays.key, arrays.height, arrays.owners
        return nodes, *(column[nodes].tolist() for column in columns)

    def _set(self, slot: int) -> list[int]:
        arrays = self.arrays()
        at, size = arrays.link[slot, :2]
        return [int(entry) for entry in arrays.pool[at : at + size]]

    def _contains(self, entry: int, key: float) -> bool:
        return bool(self.reach[entry, 0] <= key <= self.reach[entry, 1])

    def _check_entry(self, entry: int) -> None:
        if not 0 <= entry < len(self.level):
            raise InvalidInput(f"entry {entry} lies outside 0..{len(self.level) - 1}; reserve more")


def _check_records(index: IntervalSkipList, nodes: list[int], height: list[int]) -> None:
    """Markers and records point at each other."""
    arrays = index.arrays()
    marked = {
        (entry, slot, position)
        for node, tall in zip(nodes, height)
        for slot in range(node, node + 1 + tall)
        for position, entry in enumerate(index._set(slot))
    }
    recorded = set()
    for entry in range(len(index.level)):
        at, size = arrays.record[entry, :2]
        pairs = arrays.pool[at : at + size].reshape(-1, 2)
        recorded |= {(entry, int(slot), int(position)) for slot, position in pairs}
    claim(marked == recorded, "an entry records where it is marked")
