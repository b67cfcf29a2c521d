"""The first half of a round: how far each broker may run, and what has reached it until then, in order.

Per broker, the heads of its in-links, its clients' inputs and its timers are merged; each of them is in order.

Who may run is decided first, then one broker after the other is laid out. Numba counts references to each array that
a function is given, also where it is inlined: a tuple of twelve arrays per stretch costs more than laying it out.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.engine.crowding import free_from, is_limited, lay_crowded
from brokers.engine.layout import (
    CUT_CURSOR,
    CUT_DRAWN,
    CUT_KEY,
    CUT_LIMIT,
    CUT_MODE,
    HEAP,
    HEAP_ORDER,
    HEAP_RING,
    HEAP_TIME,
    I_SOURCE,
    KIND_FAULT,
    KIND_MESSAGE,
    KIND_TIMER,
    M_CAUSE,
    M_PACKED,
    M_SEQUENCE,
    M_TIME,
    M_WORD,
    MODE_HORIZON,
    MODE_ONE,
    MODE_RANDOM,
    N_BODY,
    N_BROKER,
    N_CAUSE,
    N_KIND,
    N_LINK,
    N_SERVICE,
    N_TYPE,
    NEVER,
    P_FIRST,
    P_NODES,
    P_RINGS,
    P_SHORTEST,
    POST_SEQUENCE,
    POST_SOURCE,
    R_CAPACITY,
    R_COUNT,
    R_HEAD,
    R_OFFSET,
    TIMER_ORDER,
    TURN_BROKER,
    TURN_ROWS,
    TURN_UNTIL,
    W_SEQUENCE,
    W_SOURCE,
    W_TIME,
    W_WORD,
)
from brokers.faults import RESTART
from brokers.fingerprint import draw

_PASSES = 3  # over all horizons per round; more cost more than the rounds they save
_HEAP_FROM = 9  # rings with something to take, from which a heap beats looking at all of them

_S8, _S32, _COIN, _HEADS, _STRETCHES, _CUTS = (np.uint64(n) for n in (8, 32, 3, 0, 24, 1024))


@njit(cache=True)
def gather(world, base, end):
    """Lay what may be handled now into the batch, from row `base` on; returns how many rows, 0 at the window's end.

    -1: nothing was laid, and what was dropped has to be written down before more can be.
    """
    while True:
        if world.limited[1]:
            _put_off(world)
        first, floor = _earliest(world.next_time)
        if floor >= end:
            return 0
        if world.cut[CUT_MODE] != MODE_ONE:
            _relax(world, floor, end)
        rows = _lay(world, base, _take_turns(world, first, floor, end))
        if rows > 0 or not world.limited[0]:
            return rows
        if world.drops_used[0] >= world.drops.shape[0]:
            return -1


@njit(cache=True)
def _put_off(world):
    """What comes to brokers that take one thing at a time waits until they are free."""
    for b in range(world.next_time.size):
        if world.next_time[b] < NEVER and is_limited(world, b):
            world.next_time[b] = free_from(world, b, world.next_time[b])


@njit(inline="always")
def _earliest(next_time):
    first, floor = 0, NEVER
    for b in range(next_time.size):
        if next_time[b] < floor:
            first, floor = b, next_time[b]
    return first, floor


@njit(cache=True)
def _relax(world, floor, end):
    """Raise horizons: nothing reaches a broker before its neighbours' next event plus the link's delay.

    A neighbour's own bound is the earlier of its next event and its horizon, so each pass carries bounds
    one hop further; a stale horizon stays true, so they only ever rise. Brokers of other shards send
    nothing that lands before the window's end.
    """
    next_time, horizon, local = world.next_time, world.horizon, world.local
    in_start, in_source, in_delay = world.in_start, world.in_source, world.in_delay
    reach = min(end, floor + world.posting[P_SHORTEST])  # by a link that anybody may have opened
    for _ in range(_PASSES):
        changed = False
        for b in range(next_time.size):
            if not local[b]:
                continue
            h = reach
            for i in range(in_start[b], in_start[b + 1]):
                s = in_source[i]
                if s < 0:
                    continue
                bound = next_time[s] if next_time[s] < horizon[s] else horizon[s]
                if bound < floor:
                    bound = floor
                bound += in_delay[i]
                if bound < h:
                    h = bound
            if h > horizon[b]:
                horizon[b] = h
                changed = True
        if not changed:
            break


@njit(cache=True)
def _take_turns(world, first, floor, end):
    """Who is handled in this round, in turn, until when, and up to how many rows; returns how many brokers."""
    next_time, horizon, patience, shortest_timer = world.next_time, world.horizon, world.patience, world.shortest_timer
    turns, cut = world.turns, world.cut
    mode, limit = cut[CUT_MODE], cut[CUT_LIMIT]
    start = first if mode == MODE_ONE else cut[CUT_CURSOR]
    turn = 0
    for step in range(next_time.size):
        b = start + step
        if b >= next_time.size:
            b -= next_time.size
        begin = next_time[b]
        if begin >= end:
            continue
        until = floor + 1 if mode == MODE_ONE else min(horizon[b], end)
        if shortest_timer[b] < NEVER - begin:
            until = min(until, begin + shortest_timer[b])
        if begin >= until:
            continue
        rows = limit
        if mode == MODE_HORIZON:
            # Waiting makes stretches longer and rounds fewer; the earliest broker never waits.
            if begin != floor and until < end and until - begin < patience[b]:
                continue
        elif mode == MODE_RANDOM:
            coin = draw(cut[CUT_KEY], cut[CUT_DRAWN] + step)
            if begin != floor and coin & _COIN == _HEADS:
                continue
            rows = 1 + np.int64((coin >> _S8) % _STRETCHES)
            share = np.int64((coin >> _S32) % _CUTS)
            until = min(until, begin + 1 + ((until - begin - 1) * share) // 1023)
        turns[TURN_BROKER, turn], turns[TURN_UNTIL, turn], turns[TURN_ROWS, turn] = b, until, rows
        turn += 1
        if mode == MODE_ONE:
            turns[TURN_ROWS, 0] = 1
            break
    cut[CUT_DRAWN] += next_time.size
    return turn


# ---- one broker after the other ----------------------------------------------------------------------


@njit(cache=True)
def _lay(world, base, turns_taken):
    """Lay what reaches brokers into the batch, as far as each may run; returns how many rows."""
    turns, cut, next_time, frontier = world.turns, world.cut, world.next_time, world.frontier
    lane_start, lane_ring, lane_order = world.lane_start, world.lane_ring, world.lane_order
    rings, arena, heap, wide, narrow = world.rings, world.arena, world.heap, world.wide, world.narrow
    inputs, input_at, input_end = world.inputs, world.input_at, world.input_end
    posting = world.posting
    limit, limited, alone = base + cut[CUT_LIMIT], world.limited[0], world.limited[3]
    rows = base
    for turn in range(turns_taken):
        b, until = turns[TURN_BROKER, turn], turns[TURN_UNTIL, turn]
        room = min(rows + (1 if alone else turns[TURN_ROWS, turn]), limit)
        begun = rows
        if limited and is_limited(world, b):
            rows, rest = lay_crowded(world, rows, b, until, room)
            next_time[b], frontier[b] = rest, min(until, rest)
            if rows >= limit:
                cut[CUT_CURSOR] = b
                break
            continue
        lanes = lane_start[b], lane_start[b + 1]
        size, rest = _open(heap, rings, arena, lane_ring, lane_order, lanes, posting, until)
        at, stop = input_at[b], input_end[b]
        if at < stop:
            time = inputs[at, M_TIME]
            if time < until:
                heap[HEAP_TIME, size], heap[HEAP_ORDER, size], heap[HEAP_RING, size] = time, inputs[at, I_SOURCE], -1
                size += 1
            elif time < rest:
                rest = time
        ordered = size >= _HEAP_FROM
        if ordered:
            for root in range(size // 2 - 1, -1, -1):
                _sift(heap, root, size)
        while size > 0 and rows < room:
            best, other = _choose(heap, size, ordered, until)
            before = min(until, other)
            if heap[HEAP_RING, best] < 0:
                time, rows, at = _take_inputs(wide, narrow, rows, inputs, at, stop, (before, room))
                if at < stop:
                    heap[HEAP_ORDER, best] = inputs[at, I_SOURCE]
            else:
                time, rows = _take_ring(wide, narrow, rows, rings, arena, heap, best, posting, (b, before, room))
            heap[HEAP_TIME, best] = time
            if time >= until:
                rest = min(rest, time)
                size -= 1
                for row in range(HEAP):
                    heap[row, best] = heap[row, size]
            if ordered and size > 1:
                _sift(heap, best, size)
        for j in range(size):
            rest = min(rest, heap[HEAP_TIME, j])
        for row in range(begun, rows):
            narrow[N_BROKER, row] = b
        input_at[b] = at
        next_time[b] = rest
        # What is left before `until` was cut off for want of room; the broker is handled up to its next event.
        frontier[b] = min(until, rest)
        if rows >= limit:
            cut[CUT_CURSOR] = b
            break
    return rows - base


@njit(inline="always")
def _open(heap, rings, arena, lane_ring, lane_order, lanes, posting, until):
    """List the rings of lanes that hold something before `until`; returns how many, and the earliest of the rest."""
    size, rest = 0, NEVER
    for i in range(lanes[0], lanes[1]):
        ring = lane_ring[i]
        if rings[ring, R_COUNT] > 0:
            first = rings[ring, R_OFFSET] + rings[ring, R_HEAD]
            time = arena[first, M_TIME]
            if time < until:
                order = lane_order[i] if ring < posting[P_RINGS] else arena[first, M_SEQUENCE] >> POST_SOURCE
                heap[HEAP_TIME, size], heap[HEAP_ORDER, size], heap[HEAP_RING, size] = time, order, ring
                size += 1
            elif time < rest:
                rest = time
    return size, rest


@njit(inline="always")
def _choose(heap, size, ordered, until):
    """Where to take from, and the time before which it stays the one to take from."""
    best = 0
    other = until
    if ordered:
        if size > 1 and heap[HEAP_TIME, 1] < other:
            other = heap[HEAP_TIME, 1]
        if size > 2 and heap[HEAP_TIME, 2] < other:
            other = heap[HEAP_TIME, 2]
    elif size > 1:
        for j in range(1, size):
            if _before(heap, j, best):
                best = j
        for j in range(size):
            if j != best and heap[HEAP_TIME, j] < other:
                other = heap[HEAP_TIME, j]
    return best, other


@njit(inline="always")
def _take_inputs(wide, narrow, rows, inputs, at, stop, limits):
    """Lay what clients sent and what broke, one row at least, within `limits` (before when, up to which row).

    Returns the time of what follows, the rows laid, and the input that follows.
    """
    before, room = limits
    time = inputs[at, M_TIME]
    for row in range(rows, room):
        wide[W_TIME, row] = time
        wide[W_SOURCE, row] = inputs[at, I_SOURCE]
        wide[W_SEQUENCE, row] = inputs[at, M_SEQUENCE]
        wide[W_WORD, row] = inputs[at, M_WORD]
        carried = inputs[at, M_PACKED]
        fault = inputs[at, I_SOURCE] < 0
        narrow[N_KIND, row] = KIND_FAULT if fault else KIND_MESSAGE
        type_ = (carried >> 8) & 0xFFFF
        narrow[N_LINK, row] = inputs[at, M_WORD] if fault and type_ != RESTART else -1
        narrow[N_TYPE, row] = type_
        narrow[N_SERVICE, row] = carried & 0xFF
        narrow[N_BODY, row] = carried >> 24
        narrow[N_CAUSE, row] = inputs[at, M_CAUSE]
        rows += 1
        at += 1
        time = inputs[at, M_TIME] if at < stop else NEVER
        if time >= before:
            break
    return time, rows, at


@njit(inline="always")
def _take_ring(wide, narrow, rows, rings, arena, heap, best, posting, limits):
    """Lay rows of a ring, one at least, within `limits` (of which broker, before when, up to which row).

    Returns the time of what follows, and the rows laid.
    """
    broker, before, room = limits
    ring = heap[HEAP_RING, best]
    post = ring >= posting[P_RINGS]
    timer = heap[HEAP_ORDER, best] >= TIMER_ORDER
    kind = KIND_TIMER if timer else KIND_MESSAGE
    link = -1 if timer else ring ^ 1  # as its own broker names it: the way back
    source = heap[HEAP_ORDER, best] - TIMER_ORDER if timer else heap[HEAP_ORDER, best]
    offset = rings[ring, R_OFFSET]
    mask = rings[ring, R_CAPACITY] - 1
    head = rings[ring, R_HEAD]
    count = rings[ring, R_COUNT]
    time = heap[HEAP_TIME, best]
    for row in range(rows, room):
        at = offset + head
        wide[W_TIME, row] = time
        sequence = arena[at, M_SEQUENCE]
        if post:
            source = sequence >> POST_SOURCE
            sequence &= POST_SEQUENCE
            link = posting[P_FIRST] + broker * posting[P_NODES] + source
        wide[W_SOURCE, row] = source
        wide[W_SEQUENCE, row] = sequence
        wide[W_WORD, row] = arena[at, M_WORD]
        carried = arena[at, M_PACKED]
        narrow[N_KIND, row] = kind
        narrow[N_LINK, row] = link
        narrow[N_TYPE, row] = (carried >> 8) & 0xFFFF
        narrow[N_SERVICE, row] = carried & 0xFF
        narrow[N_BODY, row] = carried >> 24
        narrow[N_CAUSE, row] = arena[at, M_CAUSE]
        rows += 1
        head = (head + 1) & mask
        count -= 1
        time = arena[offset + head, M_TIME] if count > 0 else NEVER
        if time >= before:
            break
    rings[ring, R_HEAD] = head
    rings[ring, R_COUNT] = count
    if post and count > 0:
        heap[HEAP_ORDER, best] = arena[offset + head, M_SEQUENCE] >> POST_SOURCE
    return time, rows


# ---- a heap of what holds something for one broker ---------------------------------------------------


@njit(inline="always")
def _before(heap, i, j):
    return heap[HEAP_TIME, i] < heap[HEAP_TIME, j] or (
        heap[HEAP_TIME, i] == heap[HEAP_TIME, j] and heap[HEAP_ORDER, i] < heap[HEAP_ORDER, j]
    )


@njit(cache=True)
def _sift(heap, root, size):
    while True:
        child = 2 * root + 1
        if child >= size:
            return
        if child + 1 < size and _before(heap, child + 1, child):
            child += 1
        if not _before(heap, child, root):
            return
        for row in range(HEAP):
            heap[row, root], heap[row, child] = heap[row, child], heap[row, root]
        root = child
