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
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.experimental import structref
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.contract import claim
from brokers.indexes.intrinsics import trailing_zeros

LEVELS = 16  # nodes have heights 1..15; the edge of level 15 always leads from the first node to the last
EXACT, PARTIAL, GBU, PIECEWISE, RANGE = range(5)  # how K follows I
FULL, STEP = range(2)  # how K shrinks
WORK = ("nodes_in", "nodes_out", "remarked")  # counted in `work`

_AT, _SIZE, _CLASS, _NEXT = range(4)  # columns of `link`; the first three of `record` too
_NODES_IN, _NODES_OUT, _REMARKED = range(3)
_HEAD = 0
_TAIL = LEVELS + 1
_NOWHERE = -1
_SET_CLASS_MIN, _RECORD_CLASS_MIN = 2, 4
_BLOCK_CLASSES = 31


class IntervalSkipList:
    """Entries 0 .. entries - 1, at first all without a region."""

    def __init__(self, entries: int, seed: int = 0, scope: tuple[float, float] = (-np.inf, np.inf)) -> None:
        self.state = _new_state(entries, seed, scope)
        # Out of scope: K is everything. Such entries are marked nowhere, and counted off here.
        self.needs = np.zeros(entries, np.uint8)

    def reserve(self, entries: int) -> None:
        """Make room for more entries. O(entries)."""
        _reserve(self.state, entries)
        if entries > len(self.needs):
            self.needs = np.concatenate([self.needs, np.zeros(entries - len(self.needs), np.uint8)])

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
        return int(_update_many(self.state, self.needs, rule, entries, asked))

    def remove_many(self, entries: NDArray[np.int64]) -> None:
        """`remove` for each entry."""
        nothing = np.empty((len(entries), 2))
        nothing[:, 0], nothing[:, 1] = np.inf, -np.inf
        self.update_many(entries, nothing, EXACT)

    def shrink(self, entry: int, low: float, high: float, how: int = FULL) -> bool:
        """I is [low, high]: shrink K fully or by a step; whether there was anything to do."""
        self._check_entry(entry)
        return bool(_shrink(self.state, self.needs, entry, low, high, how))

    def probe(self, value: float) -> NDArray[np.int64]:
        """The entries whose K contains the value, ascending. O(log n + answers), and one look at each entry."""
        everywhere = np.flatnonzero((self.reach[:, 0] == -np.inf) & (self.reach[:, 1] == np.inf))
        return np.sort(np.concatenate([_members_at(self.state, float(value)), everywhere]))

    def arrays(self) -> Arrays:
        """What the state holds, not copied; stale after the next change."""
        return Arrays(*_arrays(self.state))

    @property
    def reach(self) -> NDArray[np.float64]:
        """K of every entry, [inf, -inf] for nothing."""
        return self.arrays().reach

    def work(self) -> dict[str, int]:
        """Nodes that came and went, and entries marked anew because of it."""
        return dict(zip(WORK, self.arrays().work.tolist()))

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
        return sum(array.nbytes for array in self.arrays()) + self.needs.nbytes

    def check(self) -> None:
        """Every invariant. O(nodes * (nodes + entries))."""
        nodes, keys, height, owners = self._walk()
        claim(keys == sorted(set(keys)), "keys ascend")
        for i, key in enumerate(keys[1:-1], 1):
            claim(height[i] == _height_of(self.state, key), "a height follows from the key")
        reach, ends = self.reach, self.arrays().ends
        number = {node: i for i, node in enumerate(nodes)}
        absent = ends[:, 0] == _NOWHERE
        claim((reach[absent, 0] > reach[absent, 1]).all(), "what has no ends contains nothing")
        held = np.flatnonzero(~absent)
        for side in range(2):
            of = [keys[number[node]] for node in ends[held, side].tolist()]
            claim(np.array_equal(of, reach[held, side]), "K ends at the keys of its nodes")
        inner = ends[held].ravel()
        inner = inner[(inner != _HEAD) & (inner != _TAIL)]
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
        for level in range(LEVELS):
            tall = [i for i in range(len(nodes)) if height[i] > level or i == len(nodes) - 1]
            taller = np.array([keys[i] for i in tall if height[i] > level + 1 or i == len(nodes) - 1])
            for i, j in pairwise(tall):
                within = (low <= keys[i]) & (keys[j] <= high)
                if level + 1 < LEVELS:
                    above = keys[0] if len(taller) == 0 else max(k for k in [-np.inf, *taller] if k <= keys[i])
                    beyond = min(k for k in [*taller, np.inf] if k >= keys[j])
                    within &= ~((low <= above) & (beyond <= high))
                claim(sorted(self._set(nodes[i] + 1 + level)) == held[within].tolist(),
                      "an entry is marked on its maximal edges, and there only")

    def _walk(self) -> tuple[list[int], list[float], list[int], list[int]]:
        """Nodes, keys, heights, owners in key order, the two sentinels included."""
        arrays = self.arrays()
        nodes = [_HEAD]
        while nodes[-1] != _TAIL:
            nodes.append(int(arrays.link[nodes[-1] + 1, _NEXT]))
        columns = arrays.key, arrays.height, arrays.owners
        return nodes, *(column[nodes].tolist() for column in columns)

    def _set(self, slot: int) -> list[int]:
        arrays = self.arrays()
        at, size = arrays.link[slot, :2]
        return [int(entry) for entry in arrays.pool[at : at + size]]

    def _contains(self, entry: int, key: float) -> bool:
        return bool(self.reach[entry, 0] <= key <= self.reach[entry, 1])

    def _check_entry(self, entry: int) -> None:
        if not 0 <= entry < len(self.needs):
            raise InvalidInput(f"entry {entry} lies outside 0..{len(self.needs) - 1}; reserve more")


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
    for entry in range(len(index.needs)):
        at, size = arrays.record[entry, :2]
        pairs = arrays.pool[at : at + size].reshape(-1, 2)
        recorded |= {(entry, int(slot), int(position)) for slot, position in pairs}
    claim(marked == recorded, "an entry records where it is marked")


# ---- state and kernels: one family, compiled together --------------------------------------------------


@structref.register
class _StateType(types.StructRef):
    def preprocess_fields(self, fields: Any) -> Any:
        return tuple((name, types.unliteral(type_)) for name, type_ in fields)


_FIELDS = (
    # by slot: a node is a slot, followed by one slot per edge that leaves it
    "key",  # float64, of a node
    "height",  # int8, of a node
    "owners",  # int32, ends of regions at a node
    "link",  # int32[4]: a set (block, size, class) - of an edge its markers, of a node what begins there - and
    #          the node that an edge leads to
    "slots_used", "free_towers",  # int64; int32 by height, chained through `link`
    "pool", "pool_used", "free_blocks",  # int32; int64; int32 by class, chained through the pool
    # by entry
    "record",  # int32[3]: a block of pairs (slot, position in its set)
    "ends",  # int32[2]: the nodes at the ends of K
    "reach",  # float64[2]: K
    "level",  # int8
    "top", "seed", "scope", "work", "scratch", "scratch_bits",
)


class State(structref.StructRefProxy):
    """The arrays of one list; kernels replace those that grow."""

    def __new__(cls, *fields: Any) -> Any:
        return structref.StructRefProxy.__new__(cls, *fields)


structref.define_proxy(State, _StateType, list(_FIELDS))


def _new_state(entries: int, seed: int, scope: tuple[float, float]) -> Any:
    slots = 64
    scratch = np.zeros(1)
    link = np.zeros((slots, 4), np.int32)
    link[:, _CLASS] = -1
    link[1 : LEVELS + 1, _NEXT] = _TAIL
    key, height = np.zeros(slots), np.zeros(slots, np.int8)
    key[_HEAD], key[_TAIL], height[_HEAD] = -np.inf, np.inf, LEVELS
    state = State(
        key, height, np.zeros(slots, np.int32), link, _TAIL + 1, np.full(LEVELS + 1, -1, np.int32),
        np.empty(1024, np.int32), 0, np.full(_BLOCK_CLASSES, -1, np.int32),
        np.empty((0, 3), np.int32), np.empty((0, 2), np.int32), np.empty((0, 2)), np.empty(0, np.int8),
        0, seed, np.array(scope, float), np.zeros(len(WORK), np.int64), scratch, scratch.view(np.uint64),
    )
    _reserve(state, entries)
    return state


class Arrays(NamedTuple):
    """The arrays of a state as they are now."""

    key: NDArray[np.float64]
    height: NDArray[np.int8]
    owners: NDArray[np.int32]
    link: NDArray[np.int32]
    pool: NDArray[np.int32]
    record: NDArray[np.int32]
    ends: NDArray[np.int32]
    reach: NDArray[np.float64]
    level: NDArray[np.int8]
    work: NDArray[np.int64]


@njit(cache=True)
def _arrays(s):
    return s.key, s.height, s.owners, s.link, s.pool, s.record, s.ends, s.reach, s.level, s.work


@njit(cache=True)
def _reserve(s, entries):
    old = s.level.size
    if entries <= old:
        return
    record = np.zeros((entries, 3), np.int32)
    record[:, _CLASS] = -1
    ends = np.full((entries, 2), _NOWHERE, np.int32)
    reach = np.empty((entries, 2))
    reach[:, 0], reach[:, 1] = np.inf, -np.inf
    level = np.zeros(entries, np.int8)
    record[:old], ends[:old], reach[:old], level[:old] = s.record, s.ends, s.reach, s.level
    s.record, s.ends, s.reach, s.level = record, ends, reach, level


# ---- blocks of the pool --------------------------------------------------------------------------------


@njit(cache=True)
def _take_block(s, class_):
    at = s.free_blocks[class_]
    if at >= 0:
        s.free_blocks[class_] = s.pool[at]
        return np.int64(at)
    size = np.int64(1) << class_
    if s.pool_used + size > s.pool.size:
        larger = np.empty(s.pool.size + max(size, s.pool.size >> 1), np.int32)
        larger[: s.pool_used] = s.pool[: s.pool_used]
        s.pool = larger
    at = s.pool_used
    s.pool_used += size
    return at


@njit(cache=True)
def _give_block(s, at, class_):
    s.pool[at] = s.free_blocks[class_]
    s.free_blocks[class_] = at


@njit(cache=True)
def _room(s, head, extra, class_min):
    """Make room for more at the end of the block that the head describes."""
    class_ = head[_CLASS]
    if class_ >= 0 and head[_SIZE] + extra <= (1 << class_):
        return
    wider = max(class_ + 1, class_min)
    at = _take_block(s, wider)
    if class_ >= 0:
        pool, old = s.pool, head[_AT]
        for i in range(head[_SIZE]):
            pool[at + i] = pool[old + i]
        _give_block(s, old, class_)
    head[_AT], head[_CLASS] = at, wider


# ---- markers -------------------------------------------------------------------------------------------


@njit(cache=True)
def _mark(s, slot, entry):
    head = s.link[slot]
    _room(s, head, 1, _SET_CLASS_MIN)
    position = head[_SIZE]
    s.pool[head[_AT] + position] = entry
    head[_SIZE] += 1
    mine = s.record[entry]
    _room(s, mine, 2, _RECORD_CLASS_MIN)
    at = mine[_AT] + mine[_SIZE]
    s.pool[at] = slot
    s.pool[at + 1] = position
    mine[_SIZE] += 2


@njit(cache=True)
def _unmark(s, entry):
    """Take all markers of an entry. O(markers) expected."""
    pool, link, record = s.pool, s.link, s.record
    begin, size = record[entry, _AT], record[entry, _SIZE]
    for i in range(begin, begin + size, 2):
        slot, position = pool[i], pool[i + 1]
        head = link[slot]
        last = head[_SIZE] - 1
        head[_SIZE] = last
        if position != last:
            moved = pool[head[_AT] + last]
            pool[head[_AT] + position] = moved
            j = record[moved, _AT]
            while pool[j] != slot:
                j += 2
            pool[j + 1] = position
        if last == 0:
            _give_block(s, head[_AT], head[_CLASS])
            head[_CLASS] = -1
    record[entry, _SIZE] = 0


@njit(cache=True)
def _staircase(s, entry):
    """Mark an entry on the maximal edges of its K, and where it begins. O(log n) expected."""
    node, end = s.ends[entry, 0], s.ends[entry, 1]
    high = s.key[end]
    _mark(s, node, entry)
    level = 0
    while node != end:
        link, key = s.link, s.key
        while level + 1 < s.height[node] and key[link[node + 2 + level, _NEXT]] <= high:
            level += 1
        while key[link[node + 1 + level, _NEXT]] > high:
            level -= 1
        _mark(s, node + 1 + level, entry)
        node = s.link[node + 1 + level, _NEXT]


# ---- nodes ---------------------------------------------------------------------------------------------


@njit(cache=True)
def _height_of(s, key):
    s.scratch[0] = key + 0.0  # -0.0 is 0.0
    x = s.scratch_bits[0] + np.uint64(s.seed) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = (x ^ (x >> np.uint64(31))) | (np.uint64(1) << np.uint64(2 * (LEVELS - 2)))
    return 1 + np.int64(trailing_zeros(x)) // 2  # type: ignore[call-arg]


@njit(cache=True)
def _left_of(s, key, path):
    """The last node left of the key on each level; returns the first that is not left of it."""
    link, keys = s.link, s.key
    node = _HEAD
    for level in range(LEVELS - 1, -1, -1):
        if level < LEVELS - 1 and level >= s.top:
            path[level] = _HEAD
            continue
        following = link[node + 1 + level, _NEXT]
        while keys[following] < key:
            node = following
            following = link[node + 1 + level, _NEXT]
        path[level] = node
    return link[path[0] + 1, _NEXT]


@njit(cache=True)
def _floor(s, key, level):
    """The last node of this level whose key is at most `key`, which is below infinity."""
    link, keys = s.link, s.key
    node = _HEAD
    for at in range(max(level, s.top - 1), level - 1, -1):
        following = link[node + 1 + at, _NEXT]
        while keys[following] <= key:
            node = following
            following = link[node + 1 + at, _NEXT]
    return np.int32(node)


@njit(cache=True)
def _ceiling(s, key, level):
    """The first node of this level whose key is at least `key`."""
    link, keys = s.link, s.key
    node = _HEAD
    following = np.int32(_TAIL)
    for at in range(max(level, s.top - 1), level - 1, -1):
        following = link[node + 1 + at, _NEXT]
        while keys[following] < key:
            node = following
            following = link[node + 1 + at, _NEXT]
    return following


@njit(cache=True)
def _take_tower(s, height):
    tower = s.free_towers[height]
    if tower >= 0:
        s.free_towers[height] = s.link[tower, _NEXT]
        return np.int64(tower)
    if s.slots_used + height + 1 > s.height.size:
        old, slots = s.height.size, 2 * s.height.size
        key, heights, owners = np.zeros(slots), np.zeros(slots, np.int8), np.zeros(slots, np.int32)
        link = np.zeros((slots, 4), np.int32)
        link[:, _CLASS] = -1
        key[:old], heights[:old], owners[:old], link[:old] = s.key, s.height, s.owners, s.link
        s.key, s.height, s.owners, s.link = key, heights, owners, link
    tower = s.slots_used
    s.slots_used += height + 1
    return tower


@njit(cache=True)
def _unmark_edges(s, path, height):
    """Take the markers of all entries on these edges, level by level; returns the entries."""
    link = s.link
    count = 0
    for level in range(height):
        count += link[path[level] + 1 + level, _SIZE]
    entries = np.empty(count, np.int32)
    count = 0
    for level in range(height):
        head = link[path[level] + 1 + level]
        for i in range(head[_SIZE]):
            entries[count] = s.pool[head[_AT] + i]
            count += 1
    for i in range(count):
        _unmark(s, entries[i])
    s.work[_REMARKED] += count
    return entries


@njit(cache=True)
def _acquire(s, key):
    """The node with this key, made if there is none, with one owner more."""
    if key == -np.inf:
        return np.int64(_HEAD)
    if key == np.inf:
        return np.int64(_TAIL)
    path = np.empty(LEVELS, np.int32)
    node = np.int64(_left_of(s, key, path))
    if s.key[node] == key:
        s.owners[node] += 1
        return node
    height = _height_of(s, key)
    entries = _unmark_edges(s, path, height)
    node = _take_tower(s, height)
    s.key[node], s.height[node], s.owners[node] = key, height, 1
    for level in range(height):
        s.link[node + 1 + level, _NEXT] = s.link[path[level] + 1 + level, _NEXT]
        s.link[path[level] + 1 + level, _NEXT] = node
    s.top = max(s.top, height)
    for i in range(entries.size):
        _staircase(s, entries[i])
    s.work[_NODES_IN] += 1
    return node


@njit(cache=True)
def _release(s, node):
    """One owner less; without any the node goes."""
    if node in (_HEAD, _TAIL):
        return
    s.owners[node] -= 1
    if s.owners[node] > 0:
        return
    path = np.empty(LEVELS, np.int32)
    _left_of(s, s.key[node], path)
    height = np.int64(s.height[node])
    entries = _unmark_edges(s, path, height)
    for level in range(height):
        s.link[path[level] + 1 + level, _NEXT] = s.link[node + 1 + level, _NEXT]
    s.link[node, _NEXT] = s.free_towers[height]
    s.free_towers[height] = node
    while s.top > 0 and s.link[_HEAD + s.top, _NEXT] == _TAIL:
        s.top -= 1
    for i in range(entries.size):
        _staircase(s, entries[i])
    s.work[_NODES_OUT] += 1


# ---- regions -------------------------------------------------------------------------------------------


@njit(cache=True)
def _settle(s, needs, entry, low_node, high_node, level):
    """Give an unmarked entry new ends, which it has acquired; the old ones are released."""
    was_everywhere = s.ends[entry, 0] == _HEAD and s.ends[entry, 1] == _TAIL
    for side in range(2):
        if s.ends[entry, side] != _NOWHERE:
            _release(s, s.ends[entry, side])
    s.ends[entry, 0], s.ends[entry, 1] = low_node, high_node
    s.level[entry] = level
    everywhere = low_node == _HEAD and high_node == _TAIL
    if was_everywhere != everywhere:
        needs[entry] += np.uint8(1) if was_everywhere else np.uint8(255)
    if low_node == _NOWHERE:
        s.reach[entry, 0], s.reach[entry, 1] = np.inf, -np.inf
        return
    s.reach[entry, 0], s.reach[entry, 1] = s.key[low_node], s.key[high_node]
    if not everywhere:
        _staircase(s, entry)


@njit(cache=True)
def _set_exactly(s, needs, entry, low, high):
    _unmark(s, entry)
    if low > high:
        _settle(s, needs, entry, _NOWHERE, _NOWHERE, 0)
    else:
        low_node = _acquire(s, low)
        _settle(s, needs, entry, low_node, _acquire(s, high), 0)


@njit(cache=True)
def _set_nodes(s, needs, entry, low_node, high_node, level):
    """K becomes the stretch between two nodes that there are."""
    _unmark(s, entry)
    s.owners[low_node] += 1
    s.owners[high_node] += 1
    _settle(s, needs, entry, low_node, high_node, level)


@njit(cache=True)
def _escalate_piecewise(s, needs, entry, low, high):
    """Each side that sticks out goes to the nearest node of a height above the new level."""
    level = min(s.level[entry] + 1, LEVELS - 1)
    low_node, high_node = s.ends[entry, 0], s.ends[entry, 1]
    if low < s.reach[entry, 0]:
        low_node = _floor(s, low, level)
    if high > s.reach[entry, 1]:
        high_node = _ceiling(s, high, level)
    _set_nodes(s, needs, entry, low_node, high_node, level)


@njit(cache=True)
def _escalate_range(s, needs, entry, low, high):
    """The lowest edge above the present level that covers the old and the new."""
    low, high = min(low, s.reach[entry, 0]), max(high, s.reach[entry, 1])
    level = min(s.level[entry] + 1, LEVELS - 1)
    while True:
        low_node = _floor(s, low, level)
        high_node = s.link[low_node + 1 + level, _NEXT]
        if s.key[high_node] >= high:
            break
        # Above the highest node there is only the one edge that covers everything.
        level = level + 1 if level < s.top else LEVELS - 1
    _set_nodes(s, needs, entry, low_node, high_node, level)


@njit(cache=True)
def _update(s, needs, rule, entry, low, high):
    """I is [low, high]; whether K moved."""
    k_low, k_high = s.reach[entry, 0], s.reach[entry, 1]
    if rule == PARTIAL and not (s.scope[0] <= low and high <= s.scope[1]) and low <= high:
        low, high = -np.inf, np.inf
    if rule <= PARTIAL:
        if (low == k_low and high == k_high) or (low > high and k_low > k_high):
            return False
        _set_exactly(s, needs, entry, low, high)
        return True
    if low > high or (k_low <= low and high <= k_high):
        return False
    if k_low > k_high:
        _set_exactly(s, needs, entry, low, high)
    elif rule == GBU:
        _set_nodes(s, needs, entry, _floor(s, low, 0), _ceiling(s, high, 0), 0)
    elif rule == PIECEWISE:
        _escalate_piecewise(s, needs, entry, low, high)
    else:
        _escalate_range(s, needs, entry, low, high)
    return True


@njit(cache=True)
def _update_many(s, needs, rule, entries, asked):
    """One update after the other; how many regions moved. O(log^2 n) expected for each."""
    moved = 0
    for i in range(entries.size):
        moved += int(_update(s, needs, rule, entries[i], asked[i, 0], asked[i, 1]))
    return moved


@njit(cache=True)
def _shrink(s, needs, entry, low, high, how):
    """De-escalate: K becomes I, or the stretch around I one level lower; whether there was anything to do."""
    if (s.reach[entry, 0] == low and s.reach[entry, 1] == high) or s.ends[entry, 0] == _NOWHERE:
        return False
    if how == STEP and s.level[entry] > 0 and low <= high:
        level = min(s.level[entry], s.top) - 1
        if level >= 0:
            low_node, high_node = _floor(s, low, level), _ceiling(s, high, level)
            if s.reach[entry, 0] > s.key[low_node]:
                low_node = s.ends[entry, 0]
            if s.reach[entry, 1] < s.key[high_node]:
                high_node = s.ends[entry, 1]
            _set_nodes(s, needs, entry, low_node, high_node, level)
            return True
    _set_exactly(s, needs, entry, low, high)
    return True


# ---- probes --------------------------------------------------------------------------------------------


@njit(cache=True)
def _members_at(s, value):
    path = np.empty(LEVELS, np.int32)
    node = _left_of(s, value, path)
    out = np.empty(0, np.int64)
    for level in range(LEVELS + 1):
        if level < LEVELS:
            head = s.link[path[level] + 1 + level]
        elif s.key[node] == value:
            head = s.link[node]
        else:
            break
        out = np.append(out, s.pool[head[_AT] : head[_AT] + head[_SIZE]].astype(np.int64))
    return out


@njit(cache=True)
def count_off(s, value, left, out, count):
    """Take one from `left` of each entry at the value, and append those that come to 0 to `out`.

    Returns how many `out` holds then, and how many entries were read.
    """
    path = np.empty(LEVELS, np.int32)
    node = _left_of(s, value, path)
    pool, read = s.pool, 0
    for level in range(LEVELS + 1):
        if level < LEVELS:
            head = s.link[path[level] + 1 + level]
        elif s.key[node] == value:
            head = s.link[node]
        else:
            break
        members = pool[head[_AT] : head[_AT] + head[_SIZE]]
        read += members.size
        for i in range(members.size):
            entry = members[i]
            now = left[entry] - np.uint8(1)
            left[entry] = now
            out[count] = entry
            count += int(now == 0)
    return count, read
