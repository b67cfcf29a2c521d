"""The second half of a round: what protocols decided is dated, numbered, fingerprinted and put onto links.

`settle` goes over the batch in steps, each a loop of its own over what it needs of the world:

    serve        when each broker is done with each event
    account      digests and counts; what brought an event has arrived
    number       what each broker sends and sets, in the order of its events
    travel       when each send arrives, if it does; of those that find no place their brokers may be told
    hand over    sends into the rings of their links, or into the outbox
    set timers   into the rings of their brokers

`deliver` enters what clients got; `push_arrivals` takes in what other shards sent.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from brokers.contract import Ints
from brokers.engine.bursts import loses
from brokers.engine.crowding import no_room_ahead, note_done, note_left
from brokers.engine.latency import bucket_of
from brokers.engine.layout import (
    B_BUSY,
    B_DELIVERED,
    B_DIGEST_A,
    B_DIGEST_B,
    B_HANDLED,
    B_SEQUENCE,
    B_WORK,
    BESIDE,
    BODILESS_BYTES,
    C_FINISH,
    C_HANDLED,
    C_LOST,
    C_SENT,
    COST_BASE,
    COST_PER_BYTE,
    COST_PER_LINK,
    D_AWAY,
    D_COUNT,
    D_LATENCY,
    D_LONGEST,
    D_TIMED,
    F_BANDWIDTH,
    F_DELAY,
    F_JITTER,
    F_LOCAL,
    F_TARGET,
    KIND_MESSAGE,
    L_BUSY,
    L_BYTES,
    L_DROPPED,
    L_FREE,
    L_LAST,
    L_LOST,
    L_SENT,
    LOST,
    M_CAUSE,
    M_PACKED,
    M_SEQUENCE,
    M_TIME,
    M_WORD,
    N_BODY,
    N_BROKER,
    N_CAUSE,
    N_KIND,
    N_LINK,
    N_SERVICE,
    N_TYPE,
    NEVER,
    NS_PER_S,
    O_LINK,
    P_FIRST,
    P_NODES,
    P_RINGS,
    POST_SOURCE,
    S_BODY,
    S_CAUSE,
    S_SIZE,
    S_TYPE,
    S_WORD,
    T_BODY,
    T_CAUSE,
    T_DELAY,
    T_EVENT,
    T_TYPE,
    T_WORD,
    W_SEQUENCE,
    W_SOURCE,
    W_TIME,
    W_WORD,
    X_REASON,
    X_SEND,
    X_TIME,
)
from brokers.engine.outages import (
    clear_link,
    copies,
    done_at,
    falls,
    fate,
    forgotten,
    lengthened,
    rise,
    slowed,
    up_at,
    worn,
)
from brokers.engine.rings import insert, packed, push
from brokers.faults import AWAY, CRASHED, DOUBLED, NO_PLACE_AHEAD, ON_LINK
from brokers.fingerprint import GOLDEN, OTHER, absorb, draw, scramble
from brokers.limits import TOLD

OK, LATE_MESSAGE, TIMER_TOO_SOON, WRONG_LINK, BAD_COST = range(5)

_COST_MAX = 4e18  # a float below it is an int64


@njit(forceinline=True, cache=True)
def put_under_way(world, rows, event, link, sends, detail, timers, timed):
    """Date the outputs of rows[0]:rows[1] of the batch and put them under way; they come in order of their events.

    The sends are sends[0]:sends[1] of `event` and `link`. `detail` says what each carries; where it is empty, sends
    repeat what their events brought. The timers are timed[0]:timed[1] of `timers`. Losses and what is doubled are
    noted from `losses[course[LOST]]` on, which counts them.
    Returns (code, which output or event is wrong, messages now under way minus before).
    """
    lost = world.course[LOST]
    world.course[BESIDE] = 0
    wrong = _serve(world, rows, event, sends)
    if wrong >= 0:
        return BAD_COST, wrong, 0
    _account(world, rows)
    _number(world, event, sends, timers, timed)
    wrong = _travel(world, event, link, sends, detail)
    if wrong >= 0:
        return WRONG_LINK, wrong, 0
    wrong = _hand_over(world, event, link, sends, detail)
    if wrong >= 0:
        return LATE_MESSAGE, wrong, 0
    wrong = _set_timers(world, timers, timed)
    if wrong >= 0:
        return TIMER_TOO_SOON, wrong, 0
    more = sends[1] - sends[0] + timed[1] - timed[0] + world.course[BESIDE]
    return OK, 0, more - (world.course[LOST] - lost) - (rows[1] - rows[0])


@njit(forceinline=True, cache=True)
def _serve(world, rows, event, sends):
    """Date the end of each event's service, of which there is one queue per broker; the event with a bad cost, or -1.

    State changed at the event's place already: only outputs are dated.
    """
    wide, narrow, cost, finish = world.wide, world.narrow, world.cost, world.finish
    broker_state, cost_model, body_size = world.broker_state, world.cost_model, world.body_size
    charging, faulty, limited = world.charging[0], world.faulty[0], world.limited[0]
    at = sends[0]
    for i in range(rows[0], rows[1]):
        extra = cost[i]
        if charging:
            first = at
            while at < sends[1] and event[at] == i:
                at += 1
            service = narrow[N_SERVICE, i]
            charge = cost_model[service, COST_BASE] + cost_model[service, COST_PER_LINK] * (at - first)
            body = narrow[N_BODY, i]
            if body >= 0:
                charge += cost_model[service, COST_PER_BYTE] * body_size[body]
            if not charge < _COST_MAX:
                return i
            extra += np.int64(charge + 0.5)
        b = narrow[N_BROKER, i]
        if faulty:
            rise(world, b, wide[W_TIME, i])
        begun = max(wide[W_TIME, i], broker_state[b, B_BUSY])
        if extra < 0 or extra > NEVER - begun:
            return i
        done = done_at(world.paces_first, world.paces, b, begun, extra) if faulty else begun + extra
        finish[i] = done
        if limited and narrow[N_KIND, i] == KIND_MESSAGE:
            note_done(world, b, done)
        broker_state[b, B_BUSY] = done
        broker_state[b, B_WORK] += done - begun
    return -1


@njit(forceinline=True, cache=True)
def _account(world, rows):
    """Enter what was handled into digests and counts. A digest is a sum, so that no order of combination shows."""
    wide, narrow, finish, broker_state = world.wide, world.narrow, world.finish, world.broker_state
    body_hash, body_refs, seconds = world.body_hash, world.body_refs, world.seconds
    causes, cause_key = world.causes, world.cause_key
    for i in range(rows[0], rows[1]):
        b = narrow[N_BROKER, i]
        body, cause = narrow[N_BODY, i], narrow[N_CAUSE, i]
        h = absorb(GOLDEN, (np.int64(b) << 40) ^ broker_state[b, B_HANDLED])
        h = absorb(h, wide[W_TIME, i])
        h = absorb(h, (wide[W_SOURCE, i] << 32) ^ wide[W_SEQUENCE, i])
        h = absorb(
            h,
            (np.int64(narrow[N_KIND, i]) << 56)
            ^ (np.int64(narrow[N_SERVICE, i]) << 48)
            ^ (np.int64(narrow[N_TYPE, i]) << 32)
            ^ np.int64(narrow[N_LINK, i] + 1),
        )
        if body >= 0:
            h = absorb(h, body_hash[body])
            body_refs[body] -= 1
        h = absorb(h, wide[W_WORD, i])
        if cause >= 0:
            h = absorb(h, cause_key[cause])
            causes[cause, C_HANDLED] += 1
            causes[cause, C_FINISH] = max(causes[cause, C_FINISH], finish[i])
        h = absorb(h, finish[i])
        digest = np.int64(scramble(h))
        broker_state[b, B_DIGEST_A] += digest
        broker_state[b, B_DIGEST_B] += np.int64(scramble(h ^ OTHER))
        broker_state[b, B_HANDLED] += 1
        seconds[min(wide[W_TIME, i] // NS_PER_S, seconds.size - 1)] += digest


# ---- onto the links ----------------------------------------------------------------------------------


@njit(forceinline=True, cache=True)
def _number(world, event, sends, timers, timed):
    """Number the outputs of each broker in the order of its events; of one event, sends come before timers."""
    narrow, broker_state = world.narrow, world.broker_state
    send_number, timer_number = world.send_number, world.timer_number
    at = timed[0]
    for s in range(sends[0], sends[1]):
        while at < timed[1] and timers[T_EVENT, at] < event[s]:
            timer_number[at] = broker_state[narrow[N_BROKER, timers[T_EVENT, at]], B_SEQUENCE]
            broker_state[narrow[N_BROKER, timers[T_EVENT, at]], B_SEQUENCE] += 1
            at += 1
        b = narrow[N_BROKER, event[s]]
        send_number[s] = broker_state[b, B_SEQUENCE]
        broker_state[b, B_SEQUENCE] += 1
    for t in range(at, timed[1]):
        b = narrow[N_BROKER, timers[T_EVENT, t]]
        timer_number[t] = broker_state[b, B_SEQUENCE]
        broker_state[b, B_SEQUENCE] += 1


@njit(forceinline=True, cache=True)
def _travel(world, event, link, sends, detail):
    """Take each send over its link: when it arrives, or -1 if it is lost. Links are FIFO.

    Returns the send that is not over a link of its broker, or -1.
    """
    wide, narrow, finish, arrival = world.wide, world.narrow, world.finish, world.arrival
    facts, link_state, link_source, body_size = world.facts, world.link_state, world.link_source, world.body_size
    loss_limit, loss_key, jitter_key = world.loss_limit, world.loss_key, world.jitter_key
    faulty, limited = world.faulty[0], world.limited[0]
    wear = np.int64(-1)
    for s in range(sends[0], sends[1]):
        i, over = event[s], link[s]
        if link_source[over] != narrow[N_BROKER, i]:
            return s
        body = detail[S_BODY, s] if detail.shape[1] else np.int64(narrow[N_BODY, i])
        length = detail[S_SIZE, s] if detail.shape[1] else np.int64(-1)
        if length < 0:
            length = body_size[body] if body >= 0 else np.int64(BODILESS_BYTES)
        leaves = finish[i]
        if faulty:
            clear_link(world, over, narrow[N_BROKER, i], wide[W_TIME, i])
            wear = worn(world, over, leaves)
        bandwidth = facts[over, F_BANDWIDTH]
        if limited and bandwidth > 0:
            waiting_ns = _transmission(world.may_wait[0], bandwidth)
            if no_room_ahead(world, over, leaves, link_state[over, L_FREE], waiting_ns):
                link_state[over, L_DROPPED] += 1
                _lose(world, s, leaves, NO_PLACE_AHEAD)
                if world.drops_told[narrow[N_SERVICE, i]] > 0:
                    type_, cause = np.int64(narrow[N_TYPE, i]), np.int64(narrow[N_CAUSE, i])
                    if detail.shape[1]:
                        type_, cause = detail[S_TYPE, s], detail[S_CAUSE, s]
                    _tell_of_drop(world, s, i, over, leaves, type_, body, cause)
                continue
        if bandwidth > 0:
            transmission = slowed(world, wear, _transmission(length, bandwidth))
            leaves = max(leaves, link_state[over, L_FREE]) + transmission
            link_state[over, L_FREE] = leaves
            link_state[over, L_BUSY] += transmission
        if faulty and falls(world, narrow[N_BROKER, i], wide[W_TIME, i], leaves):
            _lose(world, s, leaves, CRASHED)
            continue
        if limited:
            note_left(world, over, leaves)
        number = link_state[over, L_SENT]
        link_state[over, L_SENT] = number + 1
        link_state[over, L_BYTES] += length
        if loss_limit[over] > uint64(0) and draw(loss_key[over], number) < loses(world, over, number):
            link_state[over, L_LOST] += 1
            _lose(world, s, leaves, ON_LINK)
            continue
        arrives = leaves + facts[over, F_DELAY] + lengthened(world, wear)
        if facts[over, F_JITTER] > 0:
            spread = uint64(facts[over, F_JITTER]) + uint64(1)
            arrives += np.int64(draw(jitter_key[over], number) % spread)
        if faulty or facts[over, F_JITTER] > 0:
            arrives = max(arrives, link_state[over, L_LAST])  # never before the one ahead of it
        if faulty:
            reason = fate(world, over, wear, number, facts[over, F_TARGET], leaves, arrives)
            if reason >= 0:
                link_state[over, L_LOST] += 1
                _lose(world, s, leaves, reason)
                continue
            world.copies[s] = copies(world, over, wear, number)
            if world.copies[s] > 1:
                _note(world, s, leaves, DOUBLED)
                world.course[BESIDE] += 1  # what is noted counts as one that is not under way
        if faulty or facts[over, F_JITTER] > 0:
            link_state[over, L_LAST] = arrives
        arrival[s] = arrives
    return -1


@njit(forceinline=True, cache=True)
def _lose(world, s, leaves, reason):
    """A send does not arrive."""
    _note(world, s, leaves, reason)
    world.arrival[s] = -1


@njit(cache=True)
def _tell_of_drop(world, s, i, over, dropped, type_, body, cause):
    """Tell a broker of a send that found no place, by a timer with the number of that send."""
    b, came, service = np.int64(world.narrow[N_BROKER, i]), world.wide[W_TIME, i], world.narrow[N_SERVICE, i]
    time = dropped + world.drops_told[service]
    if world.faulty[0]:
        time = up_at(world.downs_first, world.downs, b, time)
        if time == NEVER or falls(world, b, came, dropped) or forgotten(world, b, came, time):
            return
    if cause >= 0:
        world.causes[cause, C_SENT] += 1
    if body >= 0:
        world.body_refs[body] += 1
    word, carried = np.int64(over) | (np.int64(type_) << 32), packed(body, TOLD, service)
    insert(world.rings, world.arena, world.facts.shape[0] + b, time, world.send_number[s], word, carried, cause)
    world.next_time[b] = min(world.next_time[b], time)
    world.course[BESIDE] += 1


@njit(forceinline=True, cache=True)
def _note(world, s, leaves, reason):
    """Something befell a send."""
    losses, course = world.losses, world.course
    losses[course[LOST], X_SEND] = s
    losses[course[LOST], X_TIME] = leaves
    losses[course[LOST], X_REASON] = reason
    course[LOST] += 1


@njit(forceinline=True, cache=True)
def _hand_over(world, event, link, sends, detail):
    """Lay what is not lost into rings, and for other shards into the outbox; the send that comes too late, or -1."""
    wide, narrow, arrival, send_number = world.wide, world.narrow, world.arrival, world.send_number
    facts, rings, arena, outbox, outbox_used = world.facts, world.rings, world.arena, world.outbox, world.outbox_used
    frontier, next_time, body_refs, causes = world.frontier, world.next_time, world.body_refs, world.causes
    faulty, times = world.faulty[0], np.int64(1)
    links = listed(world)
    used = outbox_used[0]
    for s in range(sends[0], sends[1]):
        i, over, arrives = event[s], link[s], arrival[s]
        if detail.shape[1]:
            type_, body, word, cause = detail[S_TYPE, s], detail[S_BODY, s], detail[S_WORD, s], detail[S_CAUSE, s]
        else:
            type_, body = np.int64(narrow[N_TYPE, i]), np.int64(narrow[N_BODY, i])
            word, cause = wide[W_WORD, i], np.int64(narrow[N_CAUSE, i])
        if cause >= 0:
            causes[cause, C_SENT] += 1
        if arrives < 0:
            if cause >= 0:
                causes[cause, C_LOST] += 1
            continue
        if faulty:
            times = world.copies[s]
            world.course[BESIDE] += times - 1
            if cause >= 0:
                causes[cause, C_SENT] += times - 1
        if body >= 0:
            body_refs[body] += times
        carried = packed(body, type_, narrow[N_SERVICE, i])
        target = facts[over, F_TARGET]
        if facts[over, F_LOCAL]:
            if arrives < frontier[target]:
                return s
            for _ in range(times):
                if over < links:
                    push(rings, arena, over, arrives, send_number[s], word, carried, cause)
                else:
                    post(world, np.int64(narrow[N_BROKER, i]), target, arrives, send_number[s], word, carried, cause)
            if arrives < next_time[target]:
                next_time[target] = arrives
        else:
            for _ in range(times):
                outbox[used, M_TIME] = arrives
                outbox[used, M_SEQUENCE] = send_number[s]
                outbox[used, M_WORD] = word
                outbox[used, M_PACKED] = carried
                outbox[used, M_CAUSE] = cause
                outbox[used, O_LINK] = over if over < links else described(world, narrow[N_BROKER, i], target)
                used += 1
    outbox_used[0] = used
    return -1


@njit(forceinline=True, cache=True)
def _set_timers(world, timers, timed):
    """Lay timers into the rings of their brokers; the one that rings before its protocol said any would, or -1."""
    wide, narrow, timer_min, timer_number = world.wide, world.narrow, world.timer_min, world.timer_number
    rings, arena, next_time, body_refs, causes = (
        world.rings, world.arena, world.next_time, world.body_refs, world.causes,
    )  # fmt: skip
    links = listed(world)  # the rings of timers come after those of links
    for t in range(timed[0], timed[1]):
        i, delay, body, cause = timers[T_EVENT, t], timers[T_DELAY, t], timers[T_BODY, t], timers[T_CAUSE, t]
        b, service = narrow[N_BROKER, i], narrow[N_SERVICE, i]
        if delay < 1 or delay < timer_min[service, b]:
            return t
        if cause >= 0:
            causes[cause, C_SENT] += 1
        time = wide[W_TIME, i] + delay
        if world.faulty[0]:
            dies = forgotten(world, b, wide[W_TIME, i], time)
            time = up_at(world.downs_first, world.downs, b, time)
            if dies or time == NEVER:
                world.course[BESIDE] -= 1
                if cause >= 0:
                    causes[cause, C_LOST] += 1
                continue
        if body >= 0:
            body_refs[body] += 1
        carried = packed(body, timers[T_TYPE, t], service)
        insert(rings, arena, links + b, time, timer_number[t], timers[T_WORD, t], carried, cause)
        next_time[b] = min(next_time[b], time)
    return -1


# ---- links that are described ------------------------------------------------------------------------


@njit(forceinline=True, cache=True)
def listed(world):
    """How many links are listed; rows of facts from there on are of described ones that this shard sends over."""
    return world.in_delay.size


@njit(forceinline=True, cache=True)
def described(world, source, target):
    """The number of the link from one node to another."""
    return world.posting[P_FIRST] + np.int64(source) * world.posting[P_NODES] + target


@njit(forceinline=True, cache=True)
def ring_over(world, link):
    """The ring that takes what is sent over a link."""
    return link if link < listed(world) else world.posting[P_RINGS] + world.facts[link, F_TARGET]


@njit(forceinline=True, cache=True)
def post(world, source, target, time, number, word, carried, cause):
    """Put what comes over such a link into the post of its target."""
    ring, order = world.posting[P_RINGS] + target, (source << POST_SOURCE) | number
    insert(world.rings, world.arena, ring, time, order, word, carried, cause)


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
def push_arrivals(world, rows, links):
    """Put what other shards sent onto the links; returns -1, or the row that came too late."""
    facts, frontier, next_time = world.facts, world.frontier, world.next_time
    rings, arena, posting = world.rings, world.arena, world.posting
    for i in range(rows.shape[0]):
        time, link = rows[i, M_TIME], links[i]
        number, word, carried, cause = rows[i, M_SEQUENCE], rows[i, M_WORD], rows[i, M_PACKED], rows[i, M_CAUSE]
        far = link >= posting[P_FIRST]
        b = (link - posting[P_FIRST]) % posting[P_NODES] if far else facts[link, F_TARGET]
        if time < frontier[b]:
            return i
        if far:
            post(world, (link - posting[P_FIRST]) // posting[P_NODES], b, time, number, word, carried, cause)
        else:
            push(rings, arena, link, time, number, word, carried, cause)
        if time < next_time[b]:
            next_time[b] = time
    return -1


# ---- deliveries --------------------------------------------------------------------------------------


@njit(forceinline=True, cache=True)
def fallen(client, reason):
    """In the place of a client, that a delivery to it did not come about; `for_whom` reads it."""
    return -1 - (client << 3 | reason)


def for_whom(told: Ints) -> tuple[Ints, Ints]:
    """The clients and reasons of deliveries that did not come about."""
    return (-1 - told) >> 3, (-1 - told) & 7


@njit(cache=True)
def hand_out(world, event, client, body, which):
    """Enter deliveries which[0]:which[1] into digest, counts and the latency histogram of their service.

    Where there is no `body`, each is that of its event. Where it does not come about, the client becomes a number below
    0 that says for whom it was and why not (`fallen`): the broker crashes before, or the client has left.
    """
    wide, narrow, finish, broker_state = world.wide, world.narrow, world.finish, world.broker_state
    body_hash, body_time, seconds = world.body_hash, world.body_time, world.seconds
    histogram, totals, faulty = world.histogram, world.totals, world.faulty[0]
    moving, leaves = world.moving[0], world.leaves
    for d in range(which[0], which[1]):
        i = event[d]
        what = body[d] if body.size else np.int64(narrow[N_BODY, i])
        b, service = narrow[N_BROKER, i], narrow[N_SERVICE, i]
        if faulty and falls(world, b, wide[W_TIME, i], finish[i]):
            client[d] = fallen(client[d], CRASHED)
            continue
        if moving and finish[i] >= leaves[client[d]]:
            client[d] = fallen(client[d], AWAY)
            totals[service, D_AWAY] += 1
            continue
        h = absorb(OTHER, (np.int64(b) << 40) ^ client[d])
        h = absorb(h, wide[W_SOURCE, i] << 32 ^ wide[W_SEQUENCE, i])
        h = absorb(h, wide[W_TIME, i])
        if what >= 0:
            h = absorb(h, body_hash[what])
        h = absorb(h, finish[i])
        h = absorb(h, service)
        digest = np.int64(scramble(h))
        broker_state[b, B_DIGEST_A] += digest
        broker_state[b, B_DIGEST_B] += np.int64(scramble(h ^ OTHER))
        broker_state[b, B_DELIVERED] += 1
        seconds[min(wide[W_TIME, i] // NS_PER_S, seconds.size - 1)] += digest
        totals[service, D_COUNT] += 1
        if what >= 0 and body_time[what] >= 0:  # a body that a protocol made has no publication to count from
            latency = finish[i] - body_time[what]
            histogram[service, bucket_of(latency)] += 1
            totals[service, D_TIMED] += 1
            totals[service, D_LATENCY] += latency
            totals[service, D_LONGEST] = max(totals[service, D_LONGEST], latency)
