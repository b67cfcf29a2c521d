"""Kernels from values to cells, and from an event to the subscriptions it matches.

Nodes, buckets, state and `plan` are laid out as `htree_kernels` says. When a constant there changes, change
this file too, or the cached kernels keep the old one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.indexes.content.htree_kernels import (
    ATTRIBUTE,
    BACK,
    BUCKETS,
    BUCKETS_USED,
    CHILDREN,
    COUNT,
    REGULAR,
    SEGMENTS,
    START,
)
from brokers.indexes.intrinsics import prefetch

# What `habit` holds: events to be scanned for unasked, the same when the last of these began, how many entries of an
# event may survive the quick check, and slots in use.
UNASKED, STREAK, LIMIT, SLOTS = range(4)
_UNASKED_MOST = 63

LEVEL_MAX = 254  # of a quantised value; one above it stands for a missing one
_MISSING = LEVEL_MAX + 1
_SIFTED = 1024  # entries between two verifications
_AHEAD = 8  # buckets or survivors whose memory is asked for in advance


@njit(cache=True)
def position(knots, begin, end, value):
    """F(value) in 0..1: monotone, clamped, linear between knots; of half values, which do not overflow."""
    if value <= knots[begin]:
        return 0.0
    if value >= knots[end - 1]:
        return 1.0
    low, high = begin, end - 1  # knots[low] <= value < knots[high]
    while high - low > 1:
        middle = (low + high) >> 1
        if knots[middle] <= value:
            low = middle
        else:
            high = middle
    gap = 0.5 * knots[high] - 0.5 * knots[low]
    part = min((0.5 * value - 0.5 * knots[low]) / gap, 1.0) if gap > 0.0 else 0.0
    return (low - begin + part) / (end - 1 - begin)


@njit(cache=True)
def positions(knots, first, attribute, values):
    """F(value) of each value on its attribute; NaN stays NaN."""
    out = np.empty(values.size)
    for i in range(values.size):
        a = attribute[i]
        out[i] = position(knots, first[a], first[a + 1], values[i]) if values[i] == values[i] else np.nan
    return out


@njit(inline="always", cache=True)
def _segment(place, segments):
    """The segment of a position: the one rule for ends of ranges and for events."""
    return min(int(place * segments), segments - 1)


@njit(cache=True)
def segments_of(places, segments):
    """The segment of each position, -1 where it is NaN."""
    out = np.empty(places.size, np.int64)
    for i in range(places.size):
        out[i] = _segment(places[i], segments) if places[i] == places[i] else -1
    return out


@njit(inline="always", cache=True)
def _quantised(place):
    return min(int(place * 255.0), LEVEL_MAX)


@njit(cache=True)
def _cells(low, high, segments, overlapping):
    """First and last segment of the cells that take a range of positions; -1 and -1 if it is too wide."""
    first, last = _segment(low, segments), _segment(high, segments)
    if last - first > 1 or (overlapping and segments < 2):
        return -1, -1
    if not overlapping:
        return first, last
    nearest = int(0.5 * (low + high) * segments + 0.5) - 1  # of equally near centres the higher
    # Rounding may put the centre beside the one or two cells that hold both ends.
    cell = max(min(nearest, first, segments - 2), last - 1, 0)
    return cell, cell + 1


@njit(cache=True)
def cells_of(low, high, segments, overlapping):
    """First and last segment of the cells of each range; an overlapping cell is named by its first."""
    first, last = np.empty(low.size, np.int64), np.empty(low.size, np.int64)
    for i in range(low.size):
        first[i], last[i] = _cells(low[i], high[i], segments, overlapping)
    return first, last


@njit(cache=True)
def describe(attribute, ends, slots, plan, level_of, knots, first, seen, paths, spans, codes, tally):
    """The path, the number of neighbouring cells per level, and the quick check of each slot's subscription.

    `tally`, if it has rows, counts two rows per level: who has which regular cell, and who has one at all.
    Returns (ranges on indexed attributes, how many of them are too wide for a cell).
    """
    indexed, wide = 0, 0
    nobody = np.uint64(level_of.size) | np.uint64(LEVEL_MAX << 24)
    for i in range(slots.size):
        slot = slots[i]
        paths[i, :] = 0
        spans[i, :] = 1
        best, second = np.inf, np.inf
        code, code_second = nobody, nobody
        for j in range(attribute.shape[1]):
            a = np.int64(attribute[slot, j])
            if a < 0:
                break
            seen[a] = 1
            low = position(knots, first[a], first[a + 1], ends[slot, 2 * j])
            high = position(knots, first[a], first[a + 1], ends[slot, 2 * j + 1])
            chance = high - low  # that it holds, once the event has come to the bucket
            level = level_of[a]
            if level >= 0:
                indexed += 1
                segments, overlapping = plan[level, SEGMENTS], plan[level, BACK] == 1
                begin, end = _cells(low, high, segments, overlapping)
                if begin < 0:
                    wide += 1
                else:
                    paths[i, level] = begin + 1
                    spans[i, level] = 1 if overlapping else end - begin + 1
                    chance *= 0.5 * segments
            mine = (np.uint64(a) | np.uint64(_quantised(low)) << np.uint64(16)
                    | np.uint64(_quantised(high)) << np.uint64(24))
            if chance < best:
                second, code_second = best, code
                best, code = chance, mine
            elif chance < second:
                second, code_second = chance, mine
        codes[i] = code | code_second << np.uint64(32)
        for level in range(tally.shape[0] >> 1):
            cell = paths[i, level]
            tally[2 * level, cell] += int(cell > 0)
            tally[2 * level + 1, int(cell > 0)] += 1
    return indexed, wide


@njit(cache=True)
def match(trees, ids, attribute, ends, seen, lows, highs, ptr, work, habit):
    """Events lows..highs (the same array twice for values): fill ptr, add to work, return ids, unordered.

    `trees` are one or two, each a tuple of its arrays and knots; what is held stands in one of them. `work` counts
    nodes and buckets visited, entries sifted. An event that more than habit[LIMIT] entries survive is answered by a
    scan, and so are some after it unasked, twice as many each time.
    """
    level_low = np.empty(seen.size + 1, np.uint32)
    level_high = np.empty(seen.size + 1, np.uint32)
    survivors = np.empty(2 * _SIFTED, np.int32)
    found = np.empty(64, np.int64)
    total = 0
    for e in range(lows.shape[0]):
        asked, passed, count, before = habit[UNASKED] == 0, 0, 0, total
        if asked:
            for tree in trees:
                nodes, buckets, quick, owner, state, plan, knots, first = tree
                probes = np.empty((plan.shape[0], 2), np.int64)
                _encode(plan, knots, first, seen, lows[e], highs[e], level_low, level_high, probes)
                reached = _descend(nodes, buckets, state, plan, probes, work)
                for i in range(reached.size):
                    if i + _AHEAD < reached.size:
                        ahead = buckets[reached[i + _AHEAD] - 1, START]
                        prefetch(quick, ahead)  # type: ignore[call-arg]
                        prefetch(owner, ahead)
                    at = np.int64(buckets[reached[i] - 1, START])
                    end = at + buckets[reached[i] - 1, COUNT]
                    work[2] += end - at
                    while at < end:
                        stop = min(at + _SIFTED, end)
                        passed -= count
                        count = _sift(quick, owner, at, stop, level_low, level_high, survivors, count)
                        passed += count
                        at = stop
                        if count > _SIFTED:
                            found, total = _verify(ids, attribute, ends, lows[e], highs[e], survivors[:count],
                                                   found, total)
                            count = 0
                    if passed > habit[LIMIT]:
                        break
        if asked and passed <= habit[LIMIT]:
            found, total = _verify(ids, attribute, ends, lows[e], highs[e], survivors[:count], found, total)
            habit[STREAK] = 0
        else:
            if asked:
                habit[STREAK] = min(2 * habit[STREAK] + 1, _UNASKED_MOST)
            habit[UNASKED] = habit[STREAK] if asked else habit[UNASKED] - 1
            found, total = _scan(ids, attribute, ends, habit[SLOTS], lows[e], highs[e], found, before)
            work[2] += habit[SLOTS]
        ptr[e + 1] = total
    return found[:total].copy()


@njit(cache=True)
def _scan(ids, attribute, ends, slots, low, high, found, total):
    """The same by looking at every slot."""
    if total + slots > found.size:
        larger = np.empty(2 * total + slots, np.int64)
        larger[:total] = found[:total]
        found = larger
    return found, _scan_into(ids, attribute, ends, slots, low, high, found, total)


@njit(cache=True)
def _scan_into(ids, attribute, ends, slots, low, high, found, total):
    width = attribute.shape[1]
    for slot in range(slots):
        prefetch(ends, (slot + _AHEAD) * 2 * width)  # type: ignore[call-arg]
        holds = True
        for j in range(width):
            asked = attribute[slot, j]
            if asked < 0:
                break
            if not (ends[slot, 2 * j] <= high[asked] and low[asked] <= ends[slot, 2 * j + 1]):
                holds = False
                break
        if holds:
            found[total] = ids[slot]
            total += 1
    return total


@njit(cache=True)
def _encode(plan, knots, first, seen, low, high, level_low, level_high, probes):
    """Quantised values per attribute, and per level the first and last regular cell to probe (1-based)."""
    for a in range(seen.size):
        if seen[a] == 0:
            continue
        if low[a] == low[a]:
            level_low[a] = _quantised(position(knots, first[a], first[a + 1], low[a]))
            level_high[a] = _quantised(position(knots, first[a], first[a + 1], high[a]))
        else:
            level_low[a], level_high[a] = _MISSING, 0
    level_low[seen.size], level_high[seen.size] = 0, LEVEL_MAX
    for level in range(plan.shape[0]):
        a, segments = plan[level, ATTRIBUTE], plan[level, SEGMENTS]
        if low[a] == low[a]:
            begin = _segment(position(knots, first[a], first[a + 1], low[a]), segments)
            end = _segment(position(knots, first[a], first[a + 1], high[a]), segments)
            probes[level, 0] = max(begin - plan[level, BACK], 0) + 1
            probes[level, 1] = min(end, plan[level, REGULAR] - 1) + 1
        else:
            probes[level, 0], probes[level, 1] = 1, 0


@njit(cache=True)
def _descend(nodes, buckets, state, plan, probes, work):
    """The buckets (1-based) that an event reaches, level by level, so that cache misses overlap."""
    levels = plan.shape[0]
    reached = np.empty(1, np.int32)
    reached[0] = nodes[0]
    count = 1 if nodes[0] else 0
    for level in range(levels):
        begin, end = probes[level, 0], probes[level, 1]
        if end - begin > 1 and count * (end - begin + 2) > state[BUCKETS]:
            return _all_buckets(buckets, state, work)
        below = np.empty(count * (end - begin + 2) + 1, np.int32)
        ahead = probes[level + 1, 0] if level + 1 < levels else 0
        size = 0
        for i in range(count):
            children = reached[i] + CHILDREN
            for cell in range(begin - 1, end + 1):
                child = nodes[children + (0 if cell < begin else cell)]
                below[size] = child
                if child:
                    size += 1
                    if level + 1 < levels:
                        prefetch(nodes, child + CHILDREN)  # type: ignore[call-arg]
                        prefetch(nodes, child + CHILDREN + ahead)
                    else:
                        prefetch(buckets, (child - 1) * buckets.shape[1])  # type: ignore[call-arg]
        work[0] += count
        reached, count = below, size
    work[1] += count
    return reached[:count]


@njit(cache=True)
def _all_buckets(buckets, state, work):
    """For a message so wide that walking the tree would cost more than looking into every bucket."""
    reached = np.empty(state[BUCKETS], np.int32)
    count = 0
    for bucket in range(state[BUCKETS_USED]):
        if buckets[bucket, COUNT] > 0:
            reached[count] = bucket + 1
            count += 1
    work[1] += count
    return reached


@njit(inline="always", cache=True)
def _may_hold(code, level_low, level_high):
    asked = code & np.uint32(0xFFFF)
    low, high = (code >> np.uint32(16)) & np.uint32(0xFF), code >> np.uint32(24)
    return (low <= level_high[asked]) & (high >= level_low[asked])


@njit(cache=True)
def _sift(quick, owner, begin, end, level_low, level_high, survivors, count):
    """Append the slots whose two most telling ranges may hold."""
    for at in range(begin, end):
        code = quick[at]
        holds = _may_hold(np.uint32(code), level_low, level_high)
        holds &= _may_hold(np.uint32(code >> np.uint64(32)), level_low, level_high)
        survivors[count] = owner[at]
        count += int(holds)
    return count


@njit(cache=True)
def _verify(ids, attribute, ends, low, high, survivors, found, total):
    """Append the ids whose ranges all meet low..high; `found` grows as needed."""
    if total + survivors.size > found.size:
        larger = np.empty(max(total + survivors.size, 2 * found.size), np.int64)
        larger[:total] = found[:total]
        found = larger
    width = attribute.shape[1]
    for i in range(survivors.size):
        if i + _AHEAD < survivors.size:
            prefetch(attribute, survivors[i + _AHEAD] * width)  # type: ignore[call-arg]
            prefetch(ends, survivors[i + _AHEAD] * 2 * width)
        slot = survivors[i]
        holds = True
        for j in range(width):
            asked = attribute[slot, j]
            if asked < 0:
                break
            if not (ends[slot, 2 * j] <= high[asked] and low[asked] <= ends[slot, 2 * j + 1]):
                holds = False
                break
        if holds:
            found[total] = ids[slot]
            total += 1
    return found, total
