"""The second half of a round whose answers come from Python: they are checked, put in full, and carried out at once.

One kernel, since what a round costs beside its events is mostly what is called, not what is done.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.engine.layout import (
    N_BODY,
    N_BROKER,
    N_CAUSE,
    N_TYPE,
    R_CAPACITY,
    R_COUNT,
    REPEATED,
    S_BODY,
    S_CAUSE,
    S_SIZE,
    S_TYPE,
    S_WORD,
    T_CAUSE,
    T_EVENT,
    T_TYPE,
    W_WORD,
)
from brokers.engine.rings import grow
from brokers.engine.settle import OK, hand_out, listed, put_under_way, ring_over
from brokers.out import SAME, TYPE_MAX
from brokers.views import viewed

# What is wrong with answers, or what they wait for, beside the codes of `settle`.
NO_EVENT, NO_TIMED_EVENT, NO_DELIVERED_EVENT, NO_LINK, NO_CLIENT = range(30, 35)
BAD_TYPE, BAD_TIMER_TYPE, UNORDERED, ROOM = range(35, 39)


@njit(cache=True)
def carry_out(world, size, event, link, detail, timers, deliver_event, deliver_client, deliver_body):
    """Do what services answered to the first rows of the batch.

    Returns (code, which of the answers is meant, messages now under way minus before). Codes from NO_EVENT on are found
    before anything is done.
    """
    event, link, detail, timers = viewed(event), viewed(link), viewed(detail), viewed(timers)
    got_event, client, body = viewed(deliver_event), viewed(deliver_client), viewed(deliver_body)
    code, wrong = _sound(world, size, event, link, timers)
    if code == OK:
        code, wrong = _receivable(world, size, got_event, client)
    if code == OK:
        code, wrong = _in_full(world, event, detail, timers)
    if code == OK and not _make_room(world, event, link, timers):
        code = ROOM
    if code != OK:
        return code, wrong, 0
    sends, timed = (0, event.size), (0, timers.columns)
    code, wrong, moved = put_under_way(world, (0, size), event, link, sends, detail, timers, timed)
    if code == OK:
        for d in range(got_event.size):
            if body[d] == REPEATED:
                body[d] = world.narrow[N_BODY, got_event[d]]
        hand_out(world, got_event, client, body, (0, got_event.size))
    return code, wrong, moved


@njit(forceinline=True, cache=True)
def _sound(world, size, event, link, timers):
    """Whether sends and timers name events and links that are there, in order."""
    links = world.facts.shape[0]
    last = np.int64(0)
    for s in range(event.size):
        if event[s] < 0 or event[s] >= size:
            return NO_EVENT, s
        if link[s] < 0 or link[s] >= links:
            return NO_LINK, s
    for t in range(timers.columns):
        if timers[T_EVENT, t] < 0 or timers[T_EVENT, t] >= size:
            return NO_TIMED_EVENT, t
    for s in range(event.size):
        if event[s] < last:
            return UNORDERED, s
        last = event[s]
    last = np.int64(0)
    for t in range(timers.columns):
        if timers[T_EVENT, t] < last:
            return UNORDERED, t
        last = timers[T_EVENT, t]
    return OK, 0


@njit(forceinline=True, cache=True)
def _receivable(world, size, event, client):
    """Whether deliveries name events, and clients of their brokers."""
    narrow, client_broker = world.narrow, world.client_broker
    for d in range(event.size):
        if event[d] < 0 or event[d] >= size:
            return NO_DELIVERED_EVENT, d
        if not 0 <= client[d] < client_broker.size or client_broker[client[d]] != narrow[N_BROKER, event[d]]:
            return NO_CLIENT, d
    return OK, 0


@njit(forceinline=True, cache=True)
def _in_full(world, event, detail, timers):
    """Put what sends and timers repeat of their events in its place."""
    wide, narrow = world.wide, world.narrow
    for s in range(detail.columns):
        i = event[s]
        if detail[S_TYPE, s] == REPEATED:
            detail[S_TYPE, s], detail[S_BODY, s] = narrow[N_TYPE, i], narrow[N_BODY, i]
            detail[S_WORD, s], detail[S_SIZE, s], detail[S_CAUSE, s] = wide[W_WORD, i], -1, narrow[N_CAUSE, i]
        elif detail[S_CAUSE, s] == SAME:
            detail[S_CAUSE, s] = narrow[N_CAUSE, i]
        if detail[S_TYPE, s] < 0 or detail[S_TYPE, s] > TYPE_MAX:
            return BAD_TYPE, s
    for t in range(timers.columns):
        if timers[T_CAUSE, t] == SAME:
            timers[T_CAUSE, t] = narrow[N_CAUSE, timers[T_EVENT, t]]
        if timers[T_TYPE, t] < 0 or timers[T_TYPE, t] > TYPE_MAX:
            return BAD_TIMER_TYPE, t
    return OK, 0


@njit(forceinline=True, cache=True)
def _make_room(world, event, link, timers):
    """In the rings of links and timers, as far as the arena reaches; whether there is room for everything."""
    rings, links, narrow, ring_of = world.rings, listed(world), world.narrow, world.timer_number
    over = world.arrival  # by send, until it is dated
    times = 2 if world.faulty[0] else 1
    most = times * event.size
    if world.outbox_used[0] + most > world.outbox.shape[0]:
        return False
    for s in range(event.size):
        over[s] = ring_over(world, link[s])
    for s in range(event.size):
        if rings[over[s], R_COUNT] + most > rings[over[s], R_CAPACITY]:
            if grow(over, (0, event.size), rings, world.arena, world.arena_used, world.ring_wanted, times) > 0:
                return False
            break
    for t in range(timers.columns):
        ring_of[t] = links + narrow[N_BROKER, timers[T_EVENT, t]]
    if world.limited[4]:
        return _room_to_tell(world, event, timers.columns)
    for t in range(timers.columns):
        if rings[ring_of[t], R_COUNT] + timers.columns > rings[ring_of[t], R_CAPACITY]:
            room = (0, timers.columns)
            return grow(ring_of, room, rings, world.arena, world.arena_used, world.ring_wanted, 1) == 0
    return True


@njit(forceinline=True, cache=True)
def _room_to_tell(world, event, timers):
    """For timers, and for each send that its broker may be told of; twice for either is enough for both together."""
    told = world.send_number  # which nobody needs yet
    for s in range(event.size):
        told[s] = world.facts.shape[0] + world.narrow[N_BROKER, event[s]]
    lacking = grow(told, (0, event.size), world.rings, world.arena, world.arena_used, world.ring_wanted, 2)
    if lacking == 0:
        set_ = world.timer_number
        lacking = grow(set_, (0, timers), world.rings, world.arena, world.arena_used, world.ring_wanted, 2)
    return lacking == 0
