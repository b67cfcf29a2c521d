"""State and kernels of the interval skip list; `skiplist.py` says how it works.

One family, compiled together: all state is in one struct whose arrays kernels replace as they grow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.experimental import structref
from numpy.typing import NDArray

from brokers.errors import EndlessWalk
from brokers.indexes.intrinsics import prefetch, trailing_zeros

LEVELS = 16  # nodes have heights 1..15; the edge of level 15 always leads from the first node to the last
EXACT, PARTIAL, GBU, PIECEWISE, RANGE = range(5)  # how K follows I
FULL, STEP = range(2)  # how K shrinks
WORK = ("nodes_in", "nodes_out", "remarked")  # counted in `work`
HEAD, TAIL, NOWHERE = 0, LEVELS + 1, -1  # nodes
NEXT = 3  # column of `link`

_AT, _SIZE, _CLASS = range(3)  # columns of `link` and `record`
_NODES_IN, _NODES_OUT, _REMARKED = range(3)
_SET_CLASS_MIN, _RECORD_CLASS_MIN = 2, 4
_BLOCK_CLASSES = 31
_RING = "the nodes of a level form a ring"
_AHEAD = 8  # updates whose memory is asked for before their turn


@structref.register
class _StateType(types.StructRef):
    def preprocess_fields(self, fields: Any) -> Any:
        return tuple((name, types.unliteral(type_)) for name, type_ in fields)


def _array(of: Any, dimensions: int = 1) -> Any:
    return types.Array(of, dimensions, "C")


_TYPE = _StateType(
    [
        # by slot: a node is a slot, followed by one slot per edge that leaves it
        ("key", _array(types.float64)),  # of a node
        ("height", _array(types.int8)),  # of a node
        ("owners", _array(types.int32)),  # ends of regions at a node
        # a set (block, size, class) - of an edge its markers, of a node what begins there - and the node that an
        # edge leads to
        ("link", _array(types.int32, 2)),
        ("slots_used", types.int64),
        ("free_towers", _array(types.int32)),  # by height, chained through `link`
        ("pool", _array(types.int32)),
        ("pool_used", types.int64),
        ("free_blocks", _array(types.int32)),  # by class, chained through the pool
        # by entry
        ("record", _array(types.int32, 2)),  # a block of pairs (slot, position in its set)
        ("ends", _array(types.int32, 2)),  # the nodes at the ends of K
        ("reach", _array(types.float64, 2)),  # K
        ("level", _array(types.int8)),
        ("top", types.int64),
        ("seed", types.int64),
        ("scope", _array(types.float64)),
        ("work", _array(types.int64)),
        ("scratch", _array(types.float64)),
        ("scratch_bits", _array(types.uint64)),
    ]
)


class State(structref.StructRefProxy):
    """The arrays of one list; kernels replace those that grow. Made by `new_state`."""


# Not `define_proxy`: the constructor that it makes is compiled anew in every process.
structref.define_boxing(_StateType, State)
_new: Any = structref.new


@njit(cache=True)
def _state(
    key, height, owners, link, slots_used, free_towers, pool, pool_used, free_blocks, record, ends, reach, level, top,
    seed, scope, work, scratch, scratch_bits,
):  # fmt: skip
    s = _new(_TYPE)
    s.key, s.height, s.owners, s.link, s.slots_used = key, height, owners, link, slots_used
    s.free_towers, s.pool, s.pool_used, s.free_blocks = free_towers, pool, pool_used, free_blocks
    s.record, s.ends, s.reach, s.level, s.top, s.seed = record, ends, reach, level, top, seed
    s.scope, s.work, s.scratch, s.scratch_bits = scope, work, scratch, scratch_bits
    return s


def _with_scratch(*fields: Any) -> Any:
    scratch = np.zeros(1)
    make: Any = _state
    return make(*fields, scratch, scratch.view(np.uint64))


def new_state(entries: int, seed: int, scope: tuple[float, float]) -> Any:
    slots = 64
    link = np.zeros((slots, 4), np.int32)
    link[:, _CLASS] = -1
    link[1 : LEVELS + 1, NEXT] = TAIL
    key, height = np.zeros(slots), np.zeros(slots, np.int8)
    key[HEAD], key[TAIL], height[HEAD] = -np.inf, np.inf, LEVELS
    state = _with_scratch(
        key, height, np.zeros(slots, np.int32), link, TAIL + 1, np.full(LEVELS + 1, -1, np.int32),
        np.empty(1024, np.int32), 0, np.full(_BLOCK_CLASSES, -1, np.int32),
        np.empty((0, 3), np.int32), np.empty((0, 2), np.int32), np.empty((0, 2)), np.empty(0, np.int8),
        0, seed, np.array(scope, float), np.zeros(len(WORK), np.int64),
    )
    reserve(state, entries)
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
def arrays(s):
    return s.key, s.height, s.owners, s.link, s.pool, s.record, s.ends, s.reach, s.level, s.work


@njit(cache=True)
def reserve(s, entries):
    old = s.level.size
    if entries <= old:
        return
    record = np.zeros((entries, 3), np.int32)
    record[:, _CLASS] = -1
    ends = np.full((entries, 2), NOWHERE, np.int32)
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
    # Who stands last in a set moves to the gap. All sets differ, so that the records of all these can be asked for.
    for i in range(begin, begin + size, 2):
        head = link[pool[i]]
        prefetch(pool, np.int64(head[_AT] + pool[i + 1]))  # type: ignore[call-arg]
        prefetch(record, 3 * np.int64(pool[head[_AT] + head[_SIZE] - 1]))
    for i in range(begin, begin + size, 2):
        head = link[pool[i]]
        prefetch(pool, np.int64(record[pool[head[_AT] + head[_SIZE] - 1], _AT]))  # type: ignore[call-arg]
    for i in range(begin, begin + size, 2):
        slot, position = pool[i], pool[i + 1]
        head = link[slot]
        last = head[_SIZE] - 1
        head[_SIZE] = last
        if position != last:
            moved = pool[head[_AT] + last]
            pool[head[_AT] + position] = moved
            theirs = record[moved, _AT]
            for j in range(theirs, theirs + record[moved, _SIZE], 2):
                if pool[j] == slot:
                    pool[j + 1] = position
                    break
            else:
                raise EndlessWalk("an entry has no record of a marker")
        if last == 0:
            _give_block(s, head[_AT], head[_CLASS])
            head[_CLASS] = -1
    record[entry, _SIZE] = 0


@njit(cache=True)
def _staircase(s, entry):
    """Mark an entry on the maximal edges of its K, and where it begins. O(log n) expected."""
    node, end = s.ends[entry, 0], s.ends[entry, 1]
    link, key, height = s.link, s.key, s.height
    high = key[end]
    slot, level = node, 0  # first the set of the node where it begins
    for _ in range(height.size):
        _mark(s, slot, entry)
        if node == end:
            return
        if slot != node:
            node = link[slot, NEXT]
            if node == end:
                return
        while level + 1 < height[node] and key[link[node + 2 + level, NEXT]] <= high:
            level += 1
        while level > 0 and key[link[node + 1 + level, NEXT]] > high:
            level -= 1
        slot = node + 1 + level
    raise EndlessWalk("the edges of a region do not lead to its end")


# ---- nodes ---------------------------------------------------------------------------------------------


@njit(cache=True)
def height_of(s, key):
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
    node = HEAD
    for level in range(LEVELS - 1, -1, -1):
        if level < LEVELS - 1 and level >= s.top:
            path[level] = HEAD
            continue
        following = link[node + 1 + level, NEXT]
        for _ in range(keys.size):
            if not keys[following] < key:
                break
            node = following
            following = link[node + 1 + level, NEXT]
        else:
            raise EndlessWalk(_RING)
        path[level] = node
    return link[path[0] + 1, NEXT]


@njit(cache=True)
def _floor(s, key, level):
    """The last node of this level, but for the tail, whose key is at most `key`."""
    link, keys = s.link, s.key
    node = HEAD
    for at in range(max(level, s.top - 1), level - 1, -1):
        following = link[node + 1 + at, NEXT]
        for _ in range(keys.size):
            if following == TAIL or not keys[following] <= key:
                break
            node = following
            following = link[node + 1 + at, NEXT]
        else:
            raise EndlessWalk(_RING)
    return np.int32(node)


@njit(cache=True)
def _ceiling(s, key, level):
    """The first node of this level whose key is at least `key`."""
    link, keys = s.link, s.key
    node = HEAD
    following = np.int32(TAIL)
    for at in range(max(level, s.top - 1), level - 1, -1):
        following = link[node + 1 + at, NEXT]
        for _ in range(keys.size):
            if not keys[following] < key:
                break
            node = following
            following = link[node + 1 + at, NEXT]
        else:
            raise EndlessWalk(_RING)
    return following


@njit(cache=True)
def _take_tower(s, height):
    tower = s.free_towers[height]
    if tower >= 0:
        s.free_towers[height] = s.link[tower, NEXT]
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
        return np.int64(HEAD)
    if key == np.inf:
        return np.int64(TAIL)
    path = np.empty(LEVELS, np.int32)
    node = np.int64(_left_of(s, key, path))
    if s.key[node] == key:
        s.owners[node] += 1
        return node
    height = height_of(s, key)
    entries = _unmark_edges(s, path, height)
    node = _take_tower(s, height)
    s.key[node], s.height[node], s.owners[node] = key, height, 1
    for level in range(height):
        s.link[node + 1 + level, NEXT] = s.link[path[level] + 1 + level, NEXT]
        s.link[path[level] + 1 + level, NEXT] = node
    s.top = max(s.top, height)
    for i in range(entries.size):
        _staircase(s, entries[i])
    s.work[_NODES_IN] += 1
    return node


@njit(cache=True)
def _release(s, node):
    """One owner less; without any the node goes."""
    if node in (HEAD, TAIL):
        return
    s.owners[node] -= 1
    if s.owners[node] > 0:
        return
    path = np.empty(LEVELS, np.int32)
    _left_of(s, s.key[node], path)
    height = np.int64(s.height[node])
    entries = _unmark_edges(s, path, height)
    for level in range(height):
        s.link[path[level] + 1 + level, NEXT] = s.link[node + 1 + level, NEXT]
    s.link[node, NEXT] = s.free_towers[height]
    s.free_towers[height] = node
    while s.top > 0 and s.link[HEAD + s.top, NEXT] == TAIL:
        s.top -= 1
    for i in range(entries.size):
        _staircase(s, entries[i])
    s.work[_NODES_OUT] += 1


# ---- regions -------------------------------------------------------------------------------------------


@njit(cache=True)
def _move(s, always, entry, low, high, low_node, high_node, level):
    """K becomes the stretch between two nodes, or with `low_node` nowhere exactly [low, high]."""
    before = s.ends[entry].copy()
    _unmark(s, entry)
    for side in range(2):
        node = high_node if side else low_node
        if low_node == NOWHERE:
            node = _acquire(s, high if side else low) if low <= high else np.int64(NOWHERE)
        else:
            s.owners[node] += 1
        s.ends[entry, side] = node
    for side in range(2):
        if before[side] != NOWHERE:
            _release(s, before[side])
    s.level[entry] = level
    was_everywhere = before[0] == HEAD and before[1] == TAIL
    everywhere = s.ends[entry, 0] == HEAD and s.ends[entry, 1] == TAIL
    if was_everywhere != everywhere:
        always[entry >> 6] ^= np.uint64(1) << np.uint64(entry & 63)
    if s.ends[entry, 0] == NOWHERE:
        s.reach[entry, 0], s.reach[entry, 1] = np.inf, -np.inf
        return
    for side in range(2):
        s.reach[entry, side] = s.key[s.ends[entry, side]]
    if not everywhere:
        _staircase(s, entry)


@njit(cache=True)
def _covering_edge(s, low, high, level):
    """The lowest edge of this level or above that covers an interval: (from, to, its level)."""
    for _ in range(LEVELS + 2):
        low_node = _floor(s, low, level)
        high_node = s.link[low_node + 1 + level, NEXT]
        if s.key[high_node] >= high:
            return np.int64(low_node), np.int64(high_node), level
        # Above the highest node there is only the one edge that covers everything.
        level = level + 1 if level < s.top else LEVELS - 1
    raise EndlessWalk("no edge of the highest level covers everything")


@njit(cache=True)
def _update(s, always, rule, entry, low, high):
    """I is [low, high]; whether K moved."""
    k_low, k_high = s.reach[entry, 0], s.reach[entry, 1]
    if rule == PARTIAL and not (s.scope[0] <= low and high <= s.scope[1]) and low <= high:
        low, high = -np.inf, np.inf
    if rule <= PARTIAL:
        if (low == k_low and high == k_high) or (low > high and k_low > k_high):
            return False
    elif low > high or (k_low <= low and high <= k_high):
        return False
    low_node, high_node, level = np.int64(NOWHERE), np.int64(NOWHERE), 0
    if rule > PARTIAL and k_low <= k_high:
        if rule != GBU:
            level = min(int(s.level[entry]) + 1, LEVELS - 1)
        if rule == RANGE:
            low_node, high_node, level = _covering_edge(s, min(low, k_low), max(high, k_high), level)
        else:
            # Each side that sticks out goes to the nearest node of a height above the level.
            low_node, high_node = np.int64(s.ends[entry, 0]), np.int64(s.ends[entry, 1])
            if rule == GBU or low < k_low:
                low_node = np.int64(_floor(s, low, level))
            if rule == GBU or high > k_high:
                high_node = np.int64(_ceiling(s, high, level))
    _move(s, always, entry, low, high, low_node, high_node, level)
    return True


@njit(cache=True)
def update_many(s, always, rule, number, entries, asked):
    """One update after the other for those rows of (list, entry) that are this list's; how many regions moved."""
    moved = 0
    for i in range(entries.shape[0]):
        if i + _AHEAD < entries.shape[0]:
            entry = entries[i + _AHEAD, 1]
            prefetch(s.reach, 2 * entry)  # type: ignore[call-arg]
            prefetch(s.record, 3 * entry)
            prefetch(s.ends, 2 * entry)
        if i + _AHEAD // 2 < entries.shape[0]:
            entry = entries[i + _AHEAD // 2, 1]
            prefetch(s.pool, np.int64(s.record[entry, _AT]))  # type: ignore[call-arg]
        if entries[i, 0] == number:
            moved += int(_update(s, always, rule, entries[i, 1], asked[i, 0], asked[i, 1]))
    return moved


@njit(cache=True)
def shrink(s, always, entry, low, high, how):
    """De-escalate: K becomes I, or the stretch around I one level lower; whether there was anything to do."""
    k_low, k_high = s.reach[entry, 0], s.reach[entry, 1]
    if (k_low == low and k_high == high) or s.ends[entry, 0] == NOWHERE:
        return False
    low_node, high_node, level = np.int64(NOWHERE), np.int64(NOWHERE), 0
    if how == STEP and low <= high and min(int(s.level[entry]), s.top) > 0:
        level = min(int(s.level[entry]), s.top) - 1
        low_node, high_node = np.int64(_floor(s, low, level)), np.int64(_ceiling(s, high, level))
        if k_low > s.key[low_node]:
            low_node = np.int64(s.ends[entry, 0])
        if k_high < s.key[high_node]:
            high_node = np.int64(s.ends[entry, 1])
    _move(s, always, entry, low, high, low_node, high_node, level)
    return True


# ---- probes --------------------------------------------------------------------------------------------


@njit(cache=True)
def members_at(s, value):
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
def gather(s, always, value, row):
    """Set the bits of the entries at the value, and those of `always`; returns how many were read.

    At NaN are those of `always` only.
    """
    row[:] = always
    if value != value:
        return 0
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
            entry = np.uint64(members[i])
            row[entry >> np.uint64(6)] |= np.uint64(1) << (entry & np.uint64(63))
    return read
