"""The loop of a window in compiled code, for shards all of whose protocols have a compiled handler.

Each turn takes what comes next onto the bench, has handlers decide on it, and settles what they answered. What is taken
is either a round (`gather`), or one event, the earliest of the shard, from the winner tree of `heads`. Rounds share
what a turn costs among many events, but horizons cost about as much for three events as for three hundred; where
rounds are thin, one event at a time is quicker. How it is taken shows in no trace (rule 5 of the design).

Turns come one behind the other on the bench, until it is full: what a trace wants of them is written then, at once.
`course` says how far it is, so that the loop can be left anywhere for what needs Python, and entered again.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.compiled import ANSWERED, DELIVERIES, SENDS, SENDS_WANTED, TIMERS, desk_at
from brokers.engine.gather import gather
from brokers.engine.heads import moved, sooner
from brokers.engine.layout import (
    CUT_LIMIT,
    DELIVERED,
    EVENTS,
    F_LOCAL,
    F_TARGET,
    HANDLED,
    I_SOURCE,
    KIND_FAULT,
    KIND_MESSAGE,
    KIND_TIMER,
    LAID,
    LOST,
    M_CAUSE,
    M_PACKED,
    M_SEQUENCE,
    M_TIME,
    M_WORD,
    MOVED,
    N_BODY,
    N_BROKER,
    N_CAUSE,
    N_KIND,
    N_LINK,
    N_SERVICE,
    N_TYPE,
    NEVER,
    R_CAPACITY,
    R_COUNT,
    R_HEAD,
    R_OFFSET,
    ROUNDS,
    ROWS,
    S_TYPE,
    SENT,
    T_EVENT,
    T_TYPE,
    TIMED,
    TIMER_ORDER,
    W_SEQUENCE,
    W_SOURCE,
    W_TIME,
    W_WORD,
    WANTED,
    WRONG,
)
from brokers.engine.rings import grow
from brokers.engine.settle import OK, hand_out, put_under_way
from brokers.out import TYPE_MAX

# Why the loop was left, beside the codes of `settle`.
DONE, FULL, ROOM, RINGS, OUTBOX, PYTHON, OTHERWISE = range(10, 17)
WRONG_EVENT, NO_LINK, NO_CLIENT, NO_ROW, NO_TYPE, NO_TIMER_TYPE = range(17, 23)


@njit(cache=True)
def advance(world, crew, end, thin):
    """Take turns until nothing before `end` is left, or something needs Python; returns why it stopped."""
    course, answered, handlers = world.course, world.answered, crew.handlers
    while True:
        if course[HANDLED] == course[ROWS]:
            if course[LAID] == course[ROWS]:
                code = _lay(world, end, thin)
                if code != OK:
                    return code
            for wanted in range(SENDS_WANTED, ANSWERED):
                answered[wanted] = 0
            code = _decide(world, handlers)
            if code == OK:
                code = _check(world)
            if code != OK:
                return code
        if course[HANDLED] > course[ROWS]:
            code = _make_room(world)
            if code != OK:
                return code
            if thin:
                _take_out(world)
            code = _settle(world)
            if code != OK:
                return code
            if thin:
                _expect(world)
            course[SENT], course[DELIVERED], course[TIMED] = answered[SENDS], answered[DELIVERIES], answered[TIMERS]
            course[ROWS] = course[HANDLED]
        if course[LAID] > course[ROWS]:
            if thin:
                course[LAID] = course[ROWS]  # it was not taken out
            return ROOM if _wants(answered) else PYTHON


@njit(inline="always")
def _wants(answered):
    """Whether a handler had no room for its answers."""
    found = False
    for wanted in range(SENDS_WANTED, ANSWERED):
        found |= answered[wanted] > 0
    return found


@njit(forceinline=True, cache=True)
def _lay(world, end, thin):
    """Lay what comes next behind what is on the bench."""
    course, cost = world.course, world.cost
    most = world.wide.shape[1]
    base = course[ROWS]
    if thin:
        if world.head_time[1] >= end:
            return DONE
        if base == most:
            if course[WANTED] != 0:
                return FULL
            _clear(world)
            base = course[ROWS]
        if course[EVENTS] >= _THIN_EVENTS:
            return OTHERWISE
        _lay_first(world, base)
        cost[base] = 0
        course[LAID] = base + 1
        course[EVENTS] += 1
        return OK
    if base + world.cut[CUT_LIMIT] > most:
        if course[WANTED] != 0:
            return FULL
        _clear(world)
        base = course[ROWS]
    if course[ROUNDS] >= _ROUNDS_TRIED and course[EVENTS] < _events_least(world.next_time.size) * course[ROUNDS]:
        return OTHERWISE
    size = gather(world, base, end)
    if size <= 0:
        return DONE if size == 0 else FULL
    for i in range(base, base + size):
        cost[i] = 0
    course[LAID] = base + size
    course[EVENTS] += size
    course[ROUNDS] += 1
    return OK


@njit(forceinline=True, cache=True)
def _clear(world):
    """Begin anew at the front of the bench, where nobody wants to see the rows on it."""
    course, answered = world.course, world.answered
    course[ROWS] = course[HANDLED] = course[LAID] = 0
    course[SENT] = course[DELIVERED] = course[TIMED] = course[LOST] = 0
    answered[SENDS] = answered[DELIVERIES] = answered[TIMERS] = 0


_ROUNDS_TRIED = 16  # rounds, from which how full they are says something
_THIN_EVENTS = 1 << 15  # events one at a time, after which it is tried whether rounds are full by now


@njit(inline="always")
def _events_least(brokers):
    """How many events a round has to hold to be quicker than one event at a time."""
    return 16 + 2 * brokers // 5


@njit(forceinline=True, cache=True)
def _lay_first(world, row):
    """Lay the earliest event of the shard, and leave it where it is."""
    wide, narrow, facts = world.wide, world.narrow, world.facts
    rings, arena, inputs = world.rings, world.arena, world.inputs
    leaf = np.int64(world.head_leaf[1])
    links = facts.shape[0]
    if leaf >= rings.shape[0]:
        b = leaf - rings.shape[0]
        at = world.input_at[b]
        wide[W_TIME, row], wide[W_SOURCE, row] = inputs[at, M_TIME], inputs[at, I_SOURCE]
        wide[W_SEQUENCE, row], wide[W_WORD, row] = inputs[at, M_SEQUENCE], inputs[at, M_WORD]
        carried, cause = inputs[at, M_PACKED], inputs[at, M_CAUSE]
        narrow[N_BROKER, row], narrow[N_KIND, row], narrow[N_LINK, row] = b, KIND_MESSAGE, -1
        if inputs[at, I_SOURCE] < 0:
            narrow[N_KIND, row], narrow[N_LINK, row] = KIND_FAULT, inputs[at, M_WORD]
    else:
        at = rings[leaf, R_OFFSET] + rings[leaf, R_HEAD]
        source = world.head_order[leaf]
        if leaf < links:
            narrow[N_BROKER, row], narrow[N_KIND, row] = facts[leaf, F_TARGET], KIND_MESSAGE
            narrow[N_LINK, row] = leaf ^ 1
        else:
            narrow[N_BROKER, row], narrow[N_KIND, row], narrow[N_LINK, row] = leaf - links, KIND_TIMER, -1
            source -= TIMER_ORDER
        wide[W_TIME, row], wide[W_SOURCE, row] = arena[at, M_TIME], source
        wide[W_SEQUENCE, row], wide[W_WORD, row] = arena[at, M_SEQUENCE], arena[at, M_WORD]
        carried, cause = arena[at, M_PACKED], arena[at, M_CAUSE]
    narrow[N_TYPE, row] = (carried >> 8) & 0xFFFF
    narrow[N_SERVICE, row] = carried & 0xFF
    narrow[N_BODY, row] = carried >> 24
    narrow[N_CAUSE, row] = cause


@njit(forceinline=True, cache=True)
def _take_out(world):
    """What was laid first is handled: it leaves its ring or its inputs."""
    rings, arena, inputs, input_at = world.rings, world.arena, world.inputs, world.input_at
    time, leaves, order = world.head_time, world.head_leaf, world.head_order
    leaf = np.int64(leaves[1])
    follows = NEVER
    if leaf >= rings.shape[0]:
        b = leaf - rings.shape[0]
        input_at[b] += 1
        if input_at[b] < world.input_end[b]:
            follows = inputs[input_at[b], M_TIME]
            order[leaf] = inputs[input_at[b], I_SOURCE]
    else:
        rings[leaf, R_HEAD] = (rings[leaf, R_HEAD] + 1) & (rings[leaf, R_CAPACITY] - 1)
        rings[leaf, R_COUNT] -= 1
        if rings[leaf, R_COUNT] > 0:
            follows = arena[rings[leaf, R_OFFSET] + rings[leaf, R_HEAD], M_TIME]
    moved(time, leaves, order, leaf, follows)


@njit(forceinline=True, cache=True)
def _expect(world):
    """What was sent comes next on links that had nothing under way, and timers that are the first to ring."""
    course, answered, send_link, arrival = world.course, world.answered, world.send_link, world.arrival
    time, leaves, order, facts = world.head_time, world.head_leaf, world.head_order, world.facts
    for s in range(course[SENT], answered[SENDS]):
        if arrival[s] >= 0 and facts[send_link[s], F_LOCAL]:
            sooner(time, leaves, order, send_link[s], arrival[s])
    timers, narrow, rings, arena = world.timers, world.narrow, world.rings, world.arena
    for t in range(course[TIMED], answered[TIMERS]):
        ring = facts.shape[0] + narrow[N_BROKER, timers[T_EVENT, t]]
        if rings[ring, R_COUNT] > 0:
            sooner(time, leaves, order, ring, arena[rings[ring, R_OFFSET] + rings[ring, R_HEAD], M_TIME])


@njit(forceinline=True, cache=True)
def _before_fault(narrow, at, stop):
    """Where the rows end that come before one that tells of a fault, which is for Python."""
    while at < stop and narrow[N_KIND, at] != KIND_FAULT:
        at += 1
    return at


@njit(inline="always")
def _decide(world, handlers):
    """Have handlers decide on what is laid, as far as they do."""
    course, narrow, mine, desks = world.course, world.narrow, world.mine, world.desks
    at, stop = course[ROWS], course[LAID]
    if world.faulty[0]:
        stop = _before_fault(narrow, at, stop)
    while at < stop:
        service = narrow[N_SERVICE, at]
        until = at + 1
        while until < stop and narrow[N_SERVICE, until] == service:
            until += 1
        reached = handlers[service](desk_at(desks[service]), mine[service], at, until)
        if reached < at or reached > until:
            course[WRONG] = at
            return NO_ROW
        at = reached
        if reached < until:
            break
    course[HANDLED] = at
    return OK


@njit(forceinline=True, cache=True)
def _check(world):
    """Whether answers name events, links and clients that are there."""
    course, answered, narrow, client_broker = world.course, world.answered, world.narrow, world.client_broker
    event, link, links = world.send_event, world.send_link, world.facts.shape[0]
    detail = world.send_detail
    first, last = course[ROWS], course[HANDLED] - 1
    for s in range(course[SENT], answered[SENDS]):
        course[WRONG] = s
        if event[s] < first or event[s] > last:
            return WRONG_EVENT
        if link[s] < 0 or link[s] >= links:
            return NO_LINK
        if detail.columns > 0 and not 0 <= detail[S_TYPE, s] <= TYPE_MAX:
            return NO_TYPE
        first = event[s]
    timers, first = world.timers, course[ROWS]
    for t in range(course[TIMED], answered[TIMERS]):
        course[WRONG] = t
        if timers[T_EVENT, t] < first or timers[T_EVENT, t] > last:
            return WRONG_EVENT
        if not 0 <= timers[T_TYPE, t] <= TYPE_MAX:
            return NO_TIMER_TYPE
        first = timers[T_EVENT, t]
    event, client = world.deliver_event, world.deliver_client
    for d in range(course[DELIVERED], answered[DELIVERIES]):
        course[WRONG] = d
        if event[d] < course[ROWS] or event[d] > last:
            return WRONG_EVENT
        if not 0 <= client[d] < client_broker.size or client_broker[client[d]] != narrow[N_BROKER, event[d]]:
            return NO_CLIENT
    return OK


@njit(forceinline=True, cache=True)
def _make_room(world):
    """In the rings of links for what is sent, and of timers, as far as the arena reaches."""
    course, answered, rings, link = world.course, world.answered, world.rings, world.send_link
    first, last = course[SENT], answered[SENDS]
    times = 2 if world.faulty[0] else 1
    most = times * (last - first)
    if world.outbox_used[0] + most > world.outbox.shape[0]:
        return OUTBOX
    for s in range(first, last):
        if rings[link[s], R_COUNT] + most > rings[link[s], R_CAPACITY]:
            if grow(link, (first, last), rings, world.arena, world.arena_used, world.ring_wanted, times) > 0:
                return RINGS
            break
    if world.limited[4]:  # a broker may be told of each
        told = world.send_number  # which nobody needs yet
        for s in range(first, last):
            told[s] = world.facts.shape[0] + world.narrow[N_BROKER, world.send_event[s]]
        if grow(told, (first, last), rings, world.arena, world.arena_used, world.ring_wanted, 1) > 0:
            return RINGS
    timers, narrow, ring_of = world.timers, world.narrow, world.timer_number
    first, last = course[TIMED], answered[TIMERS]
    for t in range(first, last):
        ring_of[t] = world.facts.shape[0] + narrow[N_BROKER, timers[T_EVENT, t]]
    told_most = answered[SENDS] - course[SENT] if world.limited[4] else 0  # which come into the same rings
    for t in range(first, last):
        if rings[ring_of[t], R_COUNT] + last - first + told_most > rings[ring_of[t], R_CAPACITY]:
            times = 1 + told_most
            lacking = grow(ring_of, (first, last), rings, world.arena, world.arena_used, world.ring_wanted, times)
            return RINGS if lacking > 0 else OK
    return OK


@njit(forceinline=True, cache=True)
def _settle(world):
    """Put what is decided under way, and enter what clients got."""
    course, answered = world.course, world.answered
    rows, sends = (course[ROWS], course[HANDLED]), (course[SENT], answered[SENDS])
    timed = course[TIMED], answered[TIMERS]
    code, wrong, more = put_under_way(
        world, rows, world.send_event, world.send_link, sends, world.send_detail, world.timers, timed
    )
    if code != OK:
        course[WRONG] = wrong
        return code
    course[MOVED] += more
    if answered[DELIVERIES] > course[DELIVERED]:
        got = (course[DELIVERED], answered[DELIVERIES])
        hand_out(world, world.deliver_event, world.deliver_client, world.no_bodies, got)
    return OK


@njit(cache=True)
def leave(world, end):
    """What rounds know of brokers, after events were taken one at a time: what comes next, and how far they are."""
    time, facts, rings, next_time = world.head_time, world.facts, world.rings, world.next_time
    frontier, links = world.frontier, world.facts.shape[0]
    reached = min(time[1], end)
    for b in range(next_time.size):
        next_time[b] = NEVER
        frontier[b] = max(frontier[b], reached)
    for leaf in range(rings.shape[0] + next_time.size):
        follows = time[time.size // 2 + leaf]
        if follows != NEVER:
            if leaf < links:
                b = facts[leaf, F_TARGET]
            elif leaf < rings.shape[0]:
                b = leaf - links
            else:
                b = leaf - rings.shape[0]
            next_time[b] = min(next_time[b], follows)
