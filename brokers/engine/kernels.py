"""The inner loop of a shard: horizons, order, queues, links, digest.

Two kernels per round. `gather` finds how far each broker may run and lays what has reached it, in order,
into the batch. `settle` takes what the protocols decided, dates it, and puts every message onto its link.

Because links are FIFO, the messages under way on one link are already in order: each directed link is a
ring of rows in one arena, each broker merges the heads of its in-links, its clients' inputs and its timers.
Nothing is ever sorted. All state is in flat arrays; what governs the speed is how many cache lines an event
touches, so rows of one link and of one broker lie together.

One module, because editing a kernel in another file would not invalidate cached callers here.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

NEVER = np.int64(1 << 62)

# Columns of the per-link state.
L_FREE, L_LAST, L_SENT, L_BYTES, L_LOST, L_BUSY = range(6)
LINK_STATE = 6
# Columns of the fixed per-link facts.
F_DELAY, F_JITTER, F_BANDWIDTH, F_TARGET, F_LOCAL = range(5)
LINK_FACTS = 5
# Columns of the per-broker state.
B_BUSY, B_SEQUENCE, B_HANDLED, B_WORK, B_DELIVERED, B_DIGEST_A, B_DIGEST_B = range(7)
BROKER_STATE = 7
# Columns of a lane: a ring of message rows.
R_OFFSET, R_CAPACITY, R_HEAD, R_COUNT = range(4)
# Columns of a row in a ring.
M_TIME, M_SEQUENCE, M_WORD, M_PACKED, M_CAUSE = range(5)
ROW = 5
# Columns of an input row (what a client sends): the row of a ring and its source.
I_SOURCE = 5
INPUT = 6
# Wide and narrow columns of a batch.
W_TIME, W_SOURCE, W_SEQUENCE, W_WORD = range(4)
N_BROKER, N_KIND, N_LINK, N_TYPE, N_SERVICE, N_BODY, N_CAUSE = range(7)
# Columns of a cause: what a change has set in motion.
C_SENT, C_HANDLED, C_FINISH, C_LOST = range(4)
# Columns of a service's totals over deliveries.
T_DELIVERIES, T_LATENCY, T_LONGEST, T_TIMED = range(4)
TOTALS = 4
# Columns of an outbox row, for links whose far end another shard carries.
OUT_ROW = 6  # a ring row, then the link

KIND_MESSAGE, KIND_TIMER = 1, 2
_PASSES = 3  # over all horizons per round; more cost more than the rounds they save

MODE_HORIZON, MODE_ONE, MODE_RANDOM = 0, 1, 2

OK, LATE_MESSAGE, TIMER_TOO_SOON, WRONG_LINK, WRONG_EVENT, BAD_COST = range(6)

_C1 = np.uint64(0x9E3779B97F4A7C15)
_C2 = np.uint64(0xC2B2AE3D27D4EB4F)
_C3 = np.uint64(0x165667B19E3779F9)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27, _S29, _S30, _S31, _S32, _S11 = (np.uint64(n) for n in (27, 29, 30, 31, 32, 11))


@njit(inline="always")
def _scramble(x):
    x = uint64(x)
    x = (x ^ (x >> _S30)) * _MIX_1
    x = (x ^ (x >> _S27)) * _MIX_2
    return x ^ (x >> _S31)


@njit(inline="always")
def _draw(key, counter):
    """The same draw as topology.draws.bits (a test holds the two together)."""
    return _scramble(uint64(key) + uint64(counter) * _C1)


@njit(inline="always")
def _absorb(h, x):
    h = (h ^ uint64(x)) * _C2
    return h ^ (h >> _S32)


@njit(inline="always")
def _pack(body, type_, service):
    return (np.int64(body) << 24) | (np.int64(type_) << 8) | np.int64(service)


@njit(inline="always")
def pack_event(body, type_, service):
    return _pack(body, type_, service)


@njit(cache=True)
def hash_rows(rows, service, type_, out):
    """A fingerprint of each numeric body. NaN is nothing, so padding does not show."""
    bits = rows.view(np.uint64)
    for i in range(rows.shape[0]):
        h = _absorb(_absorb(_C3, service), type_)
        for j in range(rows.shape[1]):
            if rows[i, j] == rows[i, j]:
                h = _absorb(_absorb(h, bits[i, j]), j)
        out[i] = _scramble(h)


# ---- gather ------------------------------------------------------------------------------------------


@njit(cache=True)
def _relax(nxt, horizon, local, in_start, in_source, in_delay, floor, end, rounds):
    """Raise horizons: nothing reaches a broker before its neighbours' next event plus the link's delay.

    A neighbour's own bound is the earlier of its next event and its horizon, so each pass carries bounds
    one hop further; a stale horizon stays true, so they only ever rise. Brokers of other shards send
    nothing that lands before the window's end.
    """
    for _ in range(rounds):
        changed = False
        for b in range(nxt.size):
            if not local[b]:
                continue
            h = end
            for i in range(in_start[b], in_start[b + 1]):
                s = in_source[i]
                if s < 0:
                    continue
                bound = nxt[s] if nxt[s] < horizon[s] else horizon[s]
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
def gather(
    end,
    limit,
    cursor,
    mode,
    draw_key,
    draw_count,
    timer_min,
    nxt,
    horizon,
    frontier,
    local,
    patience,
    in_start,
    in_link,
    in_source,
    in_delay,
    lanes,
    arena,
    inputs,
    input_at,
    input_end,
    wide,
    narrow,
    lane_time,
    lane_order,
    lane_id,
):
    """Lay what may be handled now into the batch; returns (rows, next cursor). Zero rows: the window is done."""
    brokers = nxt.size
    floor = NEVER
    first = 0
    for b in range(brokers):
        if nxt[b] < floor:
            floor = nxt[b]
            first = b
    if floor >= end:
        return 0, cursor
    if mode != MODE_ONE:
        _relax(nxt, horizon, local, in_start, in_source, in_delay, floor, end, _PASSES)
    rows = 0
    links = in_link.size  # every directed link into some broker: the timer lanes come after them
    start = cursor
    for step in range(brokers):
        b = start + step
        if b >= brokers:
            b -= brokers
        if mode == MODE_ONE:
            b = first
        if nxt[b] >= end:
            continue
        h = horizon[b] if horizon[b] < end else end
        if mode == MODE_ONE:
            h = floor + 1
        if timer_min[b] < NEVER - nxt[b] and nxt[b] + timer_min[b] < h:
            h = nxt[b] + timer_min[b]
        if nxt[b] >= h:
            continue
        room = limit
        if mode == MODE_HORIZON:
            # Waiting makes stretches longer and rounds fewer; the earliest broker never waits.
            if nxt[b] != floor and h < end and h - nxt[b] < patience[b]:
                continue
        elif mode == MODE_RANDOM:
            coin = _draw(draw_key, draw_count + step)
            if nxt[b] != floor and (coin & np.uint64(3)) == np.uint64(0):
                continue
            room = rows + 1 + np.int64((coin >> np.uint64(8)) % np.uint64(24))
            if room > limit:
                room = limit
            cut = np.int64((coin >> np.uint64(32)) % np.uint64(1024))
            shorter = nxt[b] + 1 + ((h - nxt[b] - 1) * cut) // 1023
            if shorter < h:
                h = shorter
        else:
            room = 1

        # What lanes hold something below h, and what remains the earliest above it.
        k = 0
        rest = NEVER
        for i in range(in_start[b], in_start[b + 1]):
            lane = in_link[i]
            if lanes[lane, R_COUNT] > 0:
                t = arena[lanes[lane, R_OFFSET] + lanes[lane, R_HEAD], M_TIME]
                if t < h:
                    lane_time[k] = t
                    lane_order[k] = np.int64(in_source[i] if in_source[i] >= 0 else -1 - in_source[i])
                    lane_id[k] = lane
                    k += 1
                elif t < rest:
                    rest = t
        if input_at[b] < input_end[b]:
            t = inputs[input_at[b], M_TIME]
            if t < h:
                lane_time[k] = t
                lane_order[k] = inputs[input_at[b], I_SOURCE]
                lane_id[k] = -1
                k += 1
            elif t < rest:
                rest = t
        lane = links + b
        if lanes[lane, R_COUNT] > 0:
            t = arena[lanes[lane, R_OFFSET] + lanes[lane, R_HEAD], M_TIME]
            if t < h:
                lane_time[k] = t
                lane_order[k] = (np.int64(KIND_TIMER) << 48) + b
                lane_id[k] = lane
                k += 1
            elif t < rest:
                rest = t

        heap = k > 8
        if heap:
            for root in range(k // 2 - 1, -1, -1):
                _sift(lane_time, lane_order, lane_id, root, k)
        while k > 0 and rows < room:
            # The lane to take from, and the time up to which it stays the one to take from.
            best = 0
            other = h
            if heap:
                if k > 1 and lane_time[1] < other:
                    other = lane_time[1]
                if k > 2 and lane_time[2] < other:
                    other = lane_time[2]
            elif k > 1:
                for j in range(1, k):
                    if lane_time[j] < lane_time[best] or (
                        lane_time[j] == lane_time[best] and lane_order[j] < lane_order[best]
                    ):
                        best = j
                for j in range(k):
                    if j != best and lane_time[j] < other:
                        other = lane_time[j]
            lane = lane_id[best]
            first_taken = True
            t = lane_time[best]
            if lane < 0:
                p = input_at[b]
                stop = input_end[b]
                while rows < room and t < h and (first_taken or t < other):
                    wide[W_TIME, rows] = t
                    wide[W_SOURCE, rows] = inputs[p, I_SOURCE]
                    wide[W_SEQUENCE, rows] = inputs[p, M_SEQUENCE]
                    wide[W_WORD, rows] = inputs[p, M_WORD]
                    packed = inputs[p, M_PACKED]
                    narrow[N_BROKER, rows] = b
                    narrow[N_KIND, rows] = KIND_MESSAGE
                    narrow[N_LINK, rows] = -1
                    narrow[N_TYPE, rows] = (packed >> 8) & 0xFFFF
                    narrow[N_SERVICE, rows] = packed & 0xFF
                    narrow[N_BODY, rows] = packed >> 24
                    narrow[N_CAUSE, rows] = inputs[p, M_CAUSE]
                    rows += 1
                    p += 1
                    first_taken = False
                    t = inputs[p, M_TIME] if p < stop else NEVER
                input_at[b] = p
                if t < NEVER:
                    lane_order[best] = inputs[p, I_SOURCE]
            else:
                offset = lanes[lane, R_OFFSET]
                mask = lanes[lane, R_CAPACITY] - 1
                head = lanes[lane, R_HEAD]
                count = lanes[lane, R_COUNT]
                timer = lane >= links
                kind = KIND_TIMER if timer else KIND_MESSAGE
                link = -1 if timer else lane ^ 1  # as its own broker names it: the way back
                source = np.int64(b) if timer else lane_order[best]
                while rows < room and t < h and (first_taken or t < other):
                    at = offset + head
                    wide[W_TIME, rows] = t
                    wide[W_SOURCE, rows] = source
                    wide[W_SEQUENCE, rows] = arena[at, M_SEQUENCE]
                    wide[W_WORD, rows] = arena[at, M_WORD]
                    packed = arena[at, M_PACKED]
                    narrow[N_BROKER, rows] = b
                    narrow[N_KIND, rows] = kind
                    narrow[N_LINK, rows] = link
                    narrow[N_TYPE, rows] = (packed >> 8) & 0xFFFF
                    narrow[N_SERVICE, rows] = packed & 0xFF
                    narrow[N_BODY, rows] = packed >> 24
                    narrow[N_CAUSE, rows] = arena[at, M_CAUSE]
                    rows += 1
                    head = (head + 1) & mask
                    count -= 1
                    first_taken = False
                    t = arena[offset + head, M_TIME] if count > 0 else NEVER
                lanes[lane, R_HEAD] = head
                lanes[lane, R_COUNT] = count
            lane_time[best] = t
            if t >= h:
                if t < rest:
                    rest = t
                k -= 1
                lane_time[best] = lane_time[k]
                lane_order[best] = lane_order[k]
                lane_id[best] = lane_id[k]
            if heap and k > 1:
                _sift(lane_time, lane_order, lane_id, best, k)
        for j in range(k):
            if lane_time[j] < rest:
                rest = lane_time[j]
        nxt[b] = rest
        # What is left below h was cut off by the room; the broker is handled up to its next event.
        frontier[b] = h if rest >= h else rest
        if mode == MODE_ONE:
            break
        if rows >= limit:
            cursor = b
            break
    return rows, cursor


@njit(inline="always")
def _before(lane_time, lane_order, i, j):
    return lane_time[i] < lane_time[j] or (lane_time[i] == lane_time[j] and lane_order[i] < lane_order[j])


@njit(cache=True)
def _sift(lane_time, lane_order, lane_id, root, size):
    while True:
        child = 2 * root + 1
        if child >= size:
            return
        if child + 1 < size and _before(lane_time, lane_order, child + 1, child):
            child += 1
        if not _before(lane_time, lane_order, child, root):
            return
        lane_time[root], lane_time[child] = lane_time[child], lane_time[root]
        lane_order[root], lane_order[child] = lane_order[child], lane_order[root]
        lane_id[root], lane_id[child] = lane_id[child], lane_id[root]
        root = child


# ---- room in the rings -------------------------------------------------------------------------------


@njit(cache=True)
def grow_lanes(lane_of, count, lanes, arena, used, wanted):
    """Make room for `count` more rows, row i in lane lane_of[i].

    Returns the rows of the arena in use, or minus the rows needed if it is short.
    """
    for i in range(count):
        wanted[lane_of[i]] += 1
    need = 0
    for i in range(count):
        lane = lane_of[i]
        total = lanes[lane, R_COUNT] + wanted[lane]
        if wanted[lane] > 0 and total > lanes[lane, R_CAPACITY]:
            capacity = lanes[lane, R_CAPACITY]
            while capacity < total:
                capacity *= 2
            need += capacity
            wanted[lane] = -capacity
        elif wanted[lane] > 0:
            wanted[lane] = 0
    if used + need > arena.shape[0]:
        for i in range(count):
            wanted[lane_of[i]] = 0
        return -need
    for i in range(count):
        lane = lane_of[i]
        if wanted[lane] < 0:
            capacity = -wanted[lane]
            wanted[lane] = 0
            offset, head = lanes[lane, R_OFFSET], lanes[lane, R_HEAD]
            mask = lanes[lane, R_CAPACITY] - 1
            for j in range(lanes[lane, R_COUNT]):
                arena[used + j] = arena[offset + ((head + j) & mask)]
            lanes[lane, R_OFFSET] = used
            lanes[lane, R_CAPACITY] = capacity
            lanes[lane, R_HEAD] = 0
            used += capacity
    return used


@njit(cache=True)
def move_lanes(lanes, arena, fresh):
    """Copy all rings next to each other into a fresh arena; returns the rows used."""
    used = 0
    for lane in range(lanes.shape[0]):
        offset, head = lanes[lane, R_OFFSET], lanes[lane, R_HEAD]
        mask = lanes[lane, R_CAPACITY] - 1
        for j in range(lanes[lane, R_COUNT]):
            fresh[used + j] = arena[offset + ((head + j) & mask)]
        lanes[lane, R_OFFSET] = used
        lanes[lane, R_HEAD] = 0
        used += lanes[lane, R_CAPACITY]
    return used


@njit(inline="always")
def _push(lanes, arena, lane, time, sequence, word, packed, cause):
    at = lanes[lane, R_OFFSET] + (
        (lanes[lane, R_HEAD] + lanes[lane, R_COUNT]) & (lanes[lane, R_CAPACITY] - 1)
    )
    arena[at, M_TIME] = time
    arena[at, M_SEQUENCE] = sequence
    arena[at, M_WORD] = word
    arena[at, M_PACKED] = packed
    arena[at, M_CAUSE] = cause
    lanes[lane, R_COUNT] += 1


@njit(cache=True)
def push_timer(lanes, arena, lane, time, sequence, word, packed, cause):
    """Insert by (time, sequence) from the back: timers of one delay come in order, so this is O(1) for them."""
    offset, head, mask = lanes[lane, R_OFFSET], lanes[lane, R_HEAD], lanes[lane, R_CAPACITY] - 1
    j = lanes[lane, R_COUNT]
    while j > 0:
        before = offset + ((head + j - 1) & mask)
        if arena[before, M_TIME] < time or (
            arena[before, M_TIME] == time and arena[before, M_SEQUENCE] < sequence
        ):
            break
        arena[offset + ((head + j) & mask)] = arena[before]
        j -= 1
    at = offset + ((head + j) & mask)
    arena[at, M_TIME] = time
    arena[at, M_SEQUENCE] = sequence
    arena[at, M_WORD] = word
    arena[at, M_PACKED] = packed
    arena[at, M_CAUSE] = cause
    lanes[lane, R_COUNT] += 1


@njit(cache=True)
def push_rows(rows, lane_of, lanes, arena):
    """Put rows back into their rings, in order."""
    for i in range(rows.shape[0]):
        _push(
            lanes, arena, lane_of[i], rows[i, M_TIME], rows[i, M_SEQUENCE], rows[i, M_WORD], rows[i, M_PACKED],
            rows[i, M_CAUSE],
        )


@njit(cache=True)
def push_arrivals(rows, links, targets, lanes, arena, nxt, frontier):
    """Put what other shards sent onto the links; returns -1, or the row that came too late."""
    for i in range(rows.shape[0]):
        link = links[i]
        b = targets[link]
        if rows[i, M_TIME] < frontier[b]:
            return i
        _push(
            lanes,
            arena,
            link,
            rows[i, M_TIME],
            rows[i, M_SEQUENCE],
            rows[i, M_WORD],
            rows[i, M_PACKED],
            rows[i, M_CAUSE],
        )
        if rows[i, M_TIME] < nxt[b]:
            nxt[b] = rows[i, M_TIME]
    return -1


# ---- settle ------------------------------------------------------------------------------------------


@njit(cache=True)
def order_by_event(event, size, count, out):
    """Stable counting sort of output rows by the event they belong to."""
    for i in range(size + 1):
        count[i] = 0
    for i in range(event.size):
        count[event[i] + 1] += 1
    for i in range(size):
        count[i + 1] += count[i]
    for i in range(event.size):
        e = event[i]
        out[count[e]] = i
        count[e] += 1


@njit(cache=True)
def settle(
    size,
    wide,
    narrow,
    cost_extra,
    cost_model,
    queueing,
    finish,
    sends,
    s_event,
    s_link,
    copy,
    s_type,
    s_body,
    s_word,
    s_size,
    s_cause,
    timers,
    t_event,
    t_delay,
    t_type,
    t_body,
    t_word,
    t_cause,
    timer_min,
    facts,
    link_state,
    loss_limit,
    loss_key,
    jitter_key,
    link_source,
    broker_state,
    frontier,
    nxt,
    lanes,
    arena,
    outbox,
    out_used,
    body_hash,
    body_size,
    body_refs,
    causes,
    cause_key,
    seconds,
    loss_rows,
):
    """Date the batch's outputs and put them under way.

    Returns (code, detail, outbox rows used, messages now under way minus before, rows lost).
    """
    links = facts.shape[0]
    at = 0
    at_timer = 0
    moved = 0
    lost = 0
    used = out_used
    for i in range(size):
        b = narrow[N_BROKER, i]
        time = wide[W_TIME, i]
        service = narrow[N_SERVICE, i]
        body = narrow[N_BODY, i]
        cause = narrow[N_CAUSE, i]
        state = broker_state[b]

        # Service: state changed at the event's place; only the outputs are dated.
        first = at
        while at < sends and s_event[at] == i:
            at += 1
        cost = cost_extra[i]
        if queueing:
            charge = cost_model[service, 0] + cost_model[service, 3] * (at - first)
            if body >= 0:
                charge += cost_model[service, 4] * body_size[body]
            if not charge < 4e18:
                return BAD_COST, i, used, moved, lost
            cost += np.int64(charge + 0.5)
        begun = time if time > state[B_BUSY] else state[B_BUSY]
        if cost < 0 or cost > NEVER - begun:
            return BAD_COST, i, used, moved, lost
        done = begun + cost
        state[B_BUSY] = done
        state[B_WORK] += cost
        finish[i] = done

        # The digest: a sum per broker, so that no order of combination shows.
        h = _absorb(_C1, (np.int64(b) << 40) ^ state[B_HANDLED])
        h = _absorb(h, time)
        h = _absorb(h, (wide[W_SOURCE, i] << 32) ^ wide[W_SEQUENCE, i])
        h = _absorb(
            h,
            (np.int64(narrow[N_KIND, i]) << 56)
            ^ (np.int64(service) << 48)
            ^ (np.int64(narrow[N_TYPE, i]) << 32)
            ^ np.int64(narrow[N_LINK, i] + 1),
        )
        if body >= 0:
            h = _absorb(h, body_hash[body])
            body_refs[body] -= 1
        h = _absorb(h, wide[W_WORD, i])
        if cause >= 0:
            h = _absorb(h, cause_key[cause])
            causes[cause, C_HANDLED] += 1
            if done > causes[cause, C_FINISH]:
                causes[cause, C_FINISH] = done
        h = _absorb(h, done)
        digest = np.int64(_scramble(h))
        state[B_DIGEST_A] += digest
        state[B_DIGEST_B] += np.int64(_scramble(h ^ _C3))
        seconds[min(time // 1_000_000_000, seconds.size - 1)] += digest
        state[B_HANDLED] += 1
        moved -= 1

        for s in range(first, at):
            link = s_link[s]
            if link < 0 or link >= links or link_source[link] != b:
                return WRONG_LINK, s, used, moved, lost
            if copy:
                type_ = narrow[N_TYPE, i]
                s_b = body
                word = wide[W_WORD, i]
                s_c = cause
                length = np.int64(body_size[body]) if body >= 0 else np.int64(16)
            else:
                type_ = s_type[s]
                s_b = s_body[s]
                word = s_word[s]
                s_c = s_cause[s]
                length = np.int64(s_size[s])
                if length < 0:
                    length = np.int64(body_size[s_b]) if s_b >= 0 else np.int64(16)
            sequence = state[B_SEQUENCE]
            state[B_SEQUENCE] = sequence + 1
            leaves = done
            ls = link_state[link]
            if facts[link, F_BANDWIDTH] > 0:
                if ls[L_FREE] > leaves:
                    leaves = ls[L_FREE]
                bandwidth = facts[link, F_BANDWIDTH]
                transmission = _transmission(length, bandwidth)
                leaves += transmission
                ls[L_FREE] = leaves
                ls[L_BUSY] += transmission
            number = ls[L_SENT]
            ls[L_SENT] = number + 1
            ls[L_BYTES] += length
            if s_c >= 0:
                causes[s_c, C_SENT] += 1
            if loss_limit[link] > uint64(0) and _draw(loss_key[link], number) < loss_limit[link]:
                ls[L_LOST] += 1
                if s_c >= 0:
                    causes[s_c, C_LOST] += 1
                loss_rows[lost, 0] = s
                loss_rows[lost, 1] = leaves
                lost += 1
                continue
            arrives = leaves + facts[link, F_DELAY]
            if facts[link, F_JITTER] > 0:
                spread = uint64(facts[link, F_JITTER]) + uint64(1)
                arrives += np.int64(_draw(jitter_key[link], number) % spread)
                if arrives < ls[L_LAST]:
                    arrives = ls[L_LAST]
                ls[L_LAST] = arrives
            if s_b >= 0:
                body_refs[s_b] += 1
            packed = _pack(s_b, type_, service)
            moved += 1
            if facts[link, F_LOCAL]:
                target = facts[link, F_TARGET]
                if arrives < frontier[target]:
                    return LATE_MESSAGE, s, used, moved, lost
                _push(lanes, arena, link, arrives, sequence, word, packed, s_c)
                if arrives < nxt[target]:
                    nxt[target] = arrives
            else:
                outbox[used, M_TIME] = arrives
                outbox[used, M_SEQUENCE] = sequence
                outbox[used, M_WORD] = word
                outbox[used, M_PACKED] = packed
                outbox[used, M_CAUSE] = s_c
                outbox[used, ROW] = link
                used += 1

        while at_timer < timers and t_event[at_timer] == i:
            delay = t_delay[at_timer]
            if delay < 1 or delay < timer_min[service, b]:
                return TIMER_TOO_SOON, at_timer, used, moved, lost
            t_c = t_cause[at_timer]
            t_b = t_body[at_timer]
            if t_c >= 0:
                causes[t_c, C_SENT] += 1
            if t_b >= 0:
                body_refs[t_b] += 1
            sequence = state[B_SEQUENCE]
            state[B_SEQUENCE] = sequence + 1
            push_timer(
                lanes,
                arena,
                links + b,
                time + delay,
                sequence,
                t_word[at_timer],
                _pack(t_b, t_type[at_timer], service),
                t_c,
            )
            if time + delay < nxt[b]:
                nxt[b] = time + delay
            moved += 1
            at_timer += 1
    if at != sends or at_timer != timers:
        return WRONG_EVENT, at, used, moved, lost
    return OK, 0, used, moved, lost


@njit(inline="always")
def _transmission(length, bandwidth):
    """ceil(bits * 10^9 / bandwidth) ns, without overflow for any size below 2^60 bits."""
    bits = length * 8
    whole = bits // bandwidth
    rest = bits - whole * bandwidth
    # rest < bandwidth; split 10^9 so that the products stay in 63 bits up to 2^43 bit/s
    high = rest * 31250
    seconds_part = high // bandwidth
    low = high - seconds_part * bandwidth
    low_part = (low * 32000 + bandwidth - 1) // bandwidth
    return whole * 1_000_000_000 + seconds_part * 32000 + low_part


@njit(cache=True)
def transmission_ns(length, bandwidth):
    return _transmission(length, bandwidth)


@njit(cache=True)
def deliver(
    event,
    client,
    body,
    finish,
    wide,
    narrow,
    body_hash,
    body_time,
    broker_state,
    seconds,
    histogram,
    totals,
):
    """Deliveries into digest, counts and the latency histogram of their service."""
    for d in range(event.size):
        i = event[d]
        b = narrow[N_BROKER, i]
        service = narrow[N_SERVICE, i]
        what = body[d]
        state = broker_state[b]
        h = _absorb(_C3, (np.int64(b) << 40) ^ client[d])
        h = _absorb(h, wide[W_SOURCE, i] << 32 ^ wide[W_SEQUENCE, i])
        h = _absorb(h, wide[W_TIME, i])
        if what >= 0:
            h = _absorb(h, body_hash[what])
        h = _absorb(h, finish[i])
        h = _absorb(h, service)
        digest = np.int64(_scramble(h))
        state[B_DIGEST_A] += digest
        state[B_DIGEST_B] += np.int64(_scramble(h ^ _C3))
        seconds[min(wide[W_TIME, i] // 1_000_000_000, seconds.size - 1)] += digest
        state[B_DELIVERED] += 1
        totals[service, T_DELIVERIES] += 1
        if what >= 0 and body_time[what] >= 0:  # a body that a protocol made has no publication to count from
            latency = finish[i] - body_time[what]
            histogram[service, _bucket(latency)] += 1
            totals[service, T_TIMED] += 1
            totals[service, T_LATENCY] += latency
            if latency > totals[service, T_LONGEST]:
                totals[service, T_LONGEST] = latency


BUCKETS_PER_OCTAVE = 64
BUCKETS = 64 * 64


@njit(inline="always")
def _bucket(value):
    """Exact below 64, then 64 buckets per octave: a value is known to within 1.6 %."""
    if value < 64:
        return value if value > 0 else 0
    shift = 0
    v = value
    while v >= 128:
        v >>= 1
        shift += 1
    return (shift + 1) * 64 + (v - 64)


def bucket_value(bucket: int) -> int:
    """The largest value in a bucket of the latency histogram."""
    if bucket < 64:
        return bucket
    shift = bucket // 64 - 1
    return ((bucket % 64 + 64 + 1) << shift) - 1


@njit(cache=True)
def count_bodies(bodies, refs, by):
    for i in range(bodies.size):
        if bodies[i] >= 0:
            refs[bodies[i]] += by
