"""The room of what is limited: queues of brokers with so many places, and what may wait in front of links.

What the engine hands to a protocol is decided on when it comes, and served when its turn comes. So a message that finds
no place has to be known before it is handed over, and what is known is when everything before it is done:

- *newest*, *refuse*: a broker is given no more messages at once than it has free places when the first of them comes.
  The next finds a place unless all that it holds are done later; then it is dropped, or its link waits until the first
  of them is done.
- *oldest*: a broker is given one thing at a time, when it can begin with it. All that has come by then is known, and of
  the messages among it only so many stay as there are places to wait.

Timers and what a broker is told of faults need no place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from brokers.columns import BadState, Column, check_columns
from brokers.contract import Ints
from brokers.engine.layout import (
    B_BUSY,
    B_DROPPED,
    B_UP,
    C_LOST,
    DROPPED,
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
    N_BODY,
    N_BROKER,
    N_CAUSE,
    N_KIND,
    N_LINK,
    N_SERVICE,
    N_TYPE,
    NEVER,
    Q_BROKER,
    Q_CAUSE,
    Q_LINK,
    Q_PACKED,
    Q_REASON,
    Q_TIME,
    R_CAPACITY,
    R_COUNT,
    R_HEAD,
    R_OFFSET,
    W_SEQUENCE,
    W_SOURCE,
    W_TIME,
    W_WORD,
    Z_BEGIN,
    Z_END,
)
from brokers.engine.outages import follows, forgotten, within
from brokers.faults import CRASHED, NO_PLACE, RESTART
from brokers.limits import OLDEST, REFUSE, Limits

_DROPS = 4096  # that are kept until they are written down
_INPUTS = -1  # in the place of a ring
_STATE = {
    "brokers": Column("i8", ("own",), 0, "brokers"),
    "done": Column("i8", (None,), 0),
    "at": Column("i8", ("own",), 0),
    "links": Column("i8", ("over",), 0, "links"),
    "left": Column("i8", ("over", None), 0),
    "left_at": Column("i8", ("over",), 0),
    "into": Column("i8", ("into",), 0, "links"),
    "open_from": Column("i8", ("into",), 0),
    "asked_from": Column("i8", ("into",), 0),
}


class Crowding:
    """The limits of a model, and how full it is."""

    def __init__(self, limits: Limits, brokers: int, links: int, alone: bool, tells: bool) -> None:
        """`alone`: brokers get their events one at a time, since protocols look at their load.

        `tells`: some are told of what finds no place in front of their links.
        """
        self.tells = tells
        self.any = bool(limits)
        places = np.array([*limits.places, *[0] * (brokers - len(limits.places))], np.int64)
        self._limited = np.array([self.any, limits.full == OLDEST, limits.full == REFUSE, alone, tells])
        self._first = np.concatenate(([0], np.cumsum(places)))
        self.done = np.zeros(int(self._first[-1]), np.int64)  # when the last messages of each were done, as in a ring
        self.at = np.zeros(brokers, np.int64)  # which place of the ring is next
        self.left = np.zeros((links, limits.messages), np.int64)  # when the last messages left, by link, likewise
        self.left_at = np.zeros(links, np.int64)
        self.open_from = np.zeros(links if limits.full == REFUSE else 0, np.int64)  # a link brings nothing before
        self.asked_from = np.zeros(self.open_from.size, np.int64)  # since when it waits, one tick later; 0: it does not
        self._waiting = np.array([limits.bytes], np.int64)
        self.drops = np.zeros((_DROPS if self.any else 0, DROPPED), np.int64)
        self._used = np.zeros(1, np.int64)

    def arrays(self) -> dict[str, Any]:
        """What kernels see of it."""
        return {
            "limited": self._limited, "places_first": self._first, "done": self.done, "done_at": self.at,
            "left": self.left, "left_at": self.left_at, "open_from": self.open_from,
            "asked_from": self.asked_from, "may_wait": self._waiting,
            "drops": self.drops, "drops_used": self._used,
        }  # fmt: skip

    def held(self, broker: int, time: int) -> int:
        """How many messages a broker with a limited queue holds at a time, of which all that came before is known."""
        return int((self.done[self._first[broker] : self._first[broker + 1]] > time).sum())

    # ---- checkpoints ---------------------------------------------------------------------------------

    def state(self, links: Any, mine: Ints) -> dict[str, Ints]:
        """How full local brokers are and the links that leave them, and which of those that reach them wait."""
        into = np.flatnonzero(links.local[links.table.target][: self.open_from.size])
        places = np.concatenate([np.arange(self._first[b], self._first[b + 1]) for b in mine.tolist()] or [mine])
        return {
            "brokers": mine, "done": self.done[places], "at": self.at[mine],
            "links": links.mine, "left": self.left[links.mine], "left_at": self.left_at[links.mine],
            "into": into, "open_from": self.open_from[into], "asked_from": self.asked_from[into],
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave, of whatever shard; what is not ours nobody looks at."""
        brokers, links, into = state["brokers"], state["links"], state["into"]
        sizes = np.diff(self._first)[brokers]
        begin = np.cumsum(sizes) - sizes
        if state["done"].size != sizes.sum() or state["left"].shape[1] != self.left.shape[1]:
            raise BadState("queues have other places than in this scenario")
        if (into >= self.open_from.size).any() or (state["at"] >= np.maximum(sizes, 1)).any():
            raise BadState("a queue goes on at a place that it does not have")
        if (state["left_at"] >= max(self.left.shape[1], 1)).any():
            raise BadState("what waits for a link goes on at a place that there is not")
        for b, first, size in zip(brokers.tolist(), begin.tolist(), sizes.tolist()):
            self.done[self._first[b] : self._first[b] + size] = state["done"][first : first + size]
        self.at[brokers], self.left[links], self.left_at[links] = state["at"], state["left"], state["left_at"]
        self.open_from[into], self.asked_from[into] = state["open_from"], state["asked_from"]

    def take_drops(self) -> Ints:
        """What was dropped since the last call, a row each."""
        used, self._used[0] = int(self._used[0]), 0
        return self.drops[:used].copy()


def check_crowding(state: Any, brokers: int, links: int) -> None:
    """Refuse what is no state of a `Crowding`."""
    check_columns(state, _STATE, {"brokers": brokers, "links": links})


# ---- how full it is ----------------------------------------------------------------------------------


@njit(forceinline=True, cache=True)
def is_limited(world, broker):
    """Whether a broker has so many places only."""
    return world.limited[0] and world.places_first[broker + 1] > world.places_first[broker]


@njit(forceinline=True, cache=True)
def note_done(world, broker, finish):
    """A message of a broker is done then."""
    first, last = world.places_first[broker], world.places_first[broker + 1]
    if last > first:
        world.done[first + world.done_at[broker]] = finish
        world.done_at[broker] = (world.done_at[broker] + 1) % (last - first)


@njit(forceinline=True, cache=True)
def note_left(world, link, leaves):
    """A message leaves over a link then."""
    if world.left.shape[1] > 0:
        world.left[link, world.left_at[link]] = leaves
        world.left_at[link] = (world.left_at[link] + 1) % world.left.shape[1]


@njit(forceinline=True, cache=True)
def no_room_ahead(world, link, time, free, waiting_ns):
    """Whether a message finds no place in front of a link that is free again at a time."""
    if world.left.shape[1] > 0 and world.left[link, world.left_at[link]] > time:
        return True
    return world.may_wait[0] > 0 and free - time > waiting_ns


@njit(forceinline=True, cache=True)
def _free_places(world, broker, time):
    """How many places a broker has, when all that it was given is known."""
    first, size = world.places_first[broker], world.places_first[broker + 1] - world.places_first[broker]
    at, held = world.done_at[broker], 0
    while held < size and world.done[first + (at - 1 - held) % size] > time:
        held += 1
    return size - held


@njit(forceinline=True, cache=True)
def _next_free(world, broker, time):
    """When the first of the messages that it holds is done."""
    first, size = world.places_first[broker], world.places_first[broker + 1] - world.places_first[broker]
    at, found = world.done_at[broker], NEVER
    for held in range(size):
        done = world.done[first + (at - 1 - held) % size]
        if done <= time:
            break
        found = done
    return found


@njit(forceinline=True, cache=True)
def _fell(world, broker, time):
    """When a broker that is up crashed last, if it has done nothing since; NEVER if it has."""
    at = follows(world.downs_first, world.downs, broker, time) - 1
    if at >= world.downs_first[broker] and world.broker_state[broker, B_UP] < world.downs[Z_END, at]:
        return world.downs[Z_BEGIN, at]
    return NEVER


@njit(forceinline=True, cache=True)
def _empty(world, broker, time):
    """What a broker held when it crashed has its place no more."""
    fell = _fell(world, broker, time)
    if fell != NEVER:
        for place in range(world.places_first[broker], world.places_first[broker + 1]):
            world.done[place] = min(world.done[place], fell)


@njit(forceinline=True, cache=True)
def free_from(world, broker, time):
    """From when a broker that takes one thing at a time can begin with what comes at a time."""
    busy = world.broker_state[broker, B_BUSY]
    if world.faulty[0]:
        busy = min(busy, _fell(world, broker, time))
    return max(busy, time)


# ---- what comes to a broker --------------------------------------------------------------------------


@njit(cache=True)
def lay_crowded(world, rows, broker, until, room):
    """Lay what reaches a broker with so many places; returns the rows on the bench, and when something follows."""
    size = _lanes(world, broker)
    base, taken, oldest = rows, 0, world.limited[1]
    rest = NEVER
    while size > 0:
        best = _first(world, size)
        time, ring = world.heap[HEAP_TIME, best], world.heap[HEAP_RING, best]
        begins = free_from(world, broker, time) if oldest else time
        if world.faulty[0] and not oldest:
            _empty(world, broker, time)
        if begins >= until or rows >= room or world.drops_used[0] >= world.drops.shape[0]:
            rest = time
            break
        reason: Any = np.int64(-1)
        if not _is_message(world, broker, ring):
            begins, reason = _put_off(world, broker, time, begins)
        else:
            reason = _turned_away(world, broker, ring, time, begins)
            if reason < 0 and not oldest and taken >= _free_places(world, broker, time):
                if taken > 0:
                    rest = time
                    break  # what was laid may be done by then, which is not known yet
                if world.limited[2] and ring != _INPUTS:
                    if world.asked_from[ring] == 0:
                        world.asked_from[ring] = time + 1
                    world.open_from[ring] = _next_free(world, broker, time)
                    world.heap[HEAP_TIME, best] = world.open_from[ring]
                    continue
                reason = NO_PLACE
            if reason < 0:
                taken += 1
        if reason >= 0:
            _drop(world, broker, ring, time, reason)
        elif begins >= until:
            rest = time
            break
        else:
            _lay(world, rows, broker, ring, begins)
            rows += 1
        size = _take_out(world, broker, best, size)
        if oldest and rows > base:
            rest = min(rest, _earliest(world, size))
            break
    return rows, rest


@njit(forceinline=True, cache=True)
def _turned_away(world, broker, ring, time, begins):
    """Why a message that has come is dropped when its turn comes; -1 unless it is."""
    if world.limited[1]:
        if world.faulty[0] and within(world.downs_first, world.downs, broker, time, begins):
            return CRASHED
        waiting = world.places_first[broker + 1] - world.places_first[broker] - 1
        return NO_PLACE if begins > time and _waits(world, broker, begins) > waiting else -1
    if world.limited[2] and world.faulty[0] and ring != _INPUTS:
        came = world.arena[world.rings[ring, R_OFFSET] + world.rings[ring, R_HEAD], M_TIME]
        if came < time and within(world.downs_first, world.downs, broker, came, time):
            return CRASHED
    return -1


@njit(forceinline=True, cache=True)
def _put_off(world, broker, time, begins):
    """When a broker turns to a timer, or to what it is told, that came while it was busy; and why it never does."""
    if not world.faulty[0] or begins == time:
        return begins, np.int64(-1)
    at = follows(world.downs_first, world.downs, broker, time)
    if at == world.downs_first[broker + 1] or world.downs[Z_BEGIN, at] > begins:
        return begins, np.int64(-1)
    begins = world.downs[Z_END, at]
    return begins, CRASHED if begins == NEVER or forgotten(world, broker, time, begins) else np.int64(-1)


@njit(forceinline=True, cache=True)
def _waits(world, broker, until):
    """How many messages have come to a broker before a time, and were not given to it."""
    rings, arena, inputs = world.rings, world.arena, world.inputs
    found = 0
    for i in range(world.lane_start[broker], world.lane_start[broker + 1]):
        ring = world.lane_ring[i]
        if ring >= world.facts.shape[0]:
            continue
        mask = rings[ring, R_CAPACITY] - 1
        for j in range(rings[ring, R_COUNT]):
            if arena[rings[ring, R_OFFSET] + ((rings[ring, R_HEAD] + j) & mask), M_TIME] >= until:
                break
            found += 1
    for at in range(world.input_at[broker], world.input_end[broker]):
        if inputs[at, M_TIME] >= until:
            break
        found += inputs[at, I_SOURCE] >= 0
    return found


@njit(forceinline=True, cache=True)
def _lanes(world, broker):
    """List all that holds something for a broker; returns how many do."""
    rings, heap = world.rings, world.heap
    size = 0
    for i in range(world.lane_start[broker], world.lane_start[broker + 1]):
        ring = world.lane_ring[i]
        if rings[ring, R_COUNT] > 0:
            heap[HEAP_TIME, size] = _head(world, ring)
            heap[HEAP_ORDER, size], heap[HEAP_RING, size] = world.lane_order[i], ring
            size += 1
    at = world.input_at[broker]
    if at < world.input_end[broker]:
        heap[HEAP_TIME, size], heap[HEAP_ORDER, size] = world.inputs[at, M_TIME], world.inputs[at, I_SOURCE]
        heap[HEAP_RING, size] = _INPUTS
        size += 1
    return size


@njit(forceinline=True, cache=True)
def _head(world, ring):
    """When the first of a ring comes, at the end of a link that waits or not."""
    time = world.arena[world.rings[ring, R_OFFSET] + world.rings[ring, R_HEAD], M_TIME]
    return max(time, world.open_from[ring]) if ring < world.open_from.size else time


@njit(forceinline=True, cache=True)
def _first(world, size):
    """Which of the lanes has what comes first."""
    heap, best, since = world.heap, 0, _asked(world, 0)
    for j in range(1, size):
        time, earliest = heap[HEAP_TIME, j], heap[HEAP_TIME, best]
        if time > earliest:
            continue
        asked = _asked(world, j)
        if time < earliest or asked < since or (asked == since and heap[HEAP_ORDER, j] < heap[HEAP_ORDER, best]):
            best, since = j, asked
    return best


@njit(forceinline=True, cache=True)
def _asked(world, place):
    """Since when the first of a lane asks for a place."""
    ring = world.heap[HEAP_RING, place]
    if 0 <= ring < world.asked_from.size and world.asked_from[ring] > 0:
        return world.asked_from[ring] - 1
    return world.heap[HEAP_TIME, place]


@njit(forceinline=True, cache=True)
def _earliest(world, size):
    earliest = NEVER
    for j in range(size):
        earliest = min(earliest, world.heap[HEAP_TIME, j])
    return earliest


@njit(forceinline=True, cache=True)
def _is_message(world, broker, ring):
    if ring == _INPUTS:
        return world.inputs[world.input_at[broker], I_SOURCE] >= 0
    return ring < world.facts.shape[0]


@njit(forceinline=True, cache=True)
def _take_out(world, broker, place, size):
    """What comes first of a lane is taken; returns how many lanes hold something."""
    rings, heap = world.rings, world.heap
    ring = heap[HEAP_RING, place]
    if ring == _INPUTS:
        world.input_at[broker] += 1
        at = world.input_at[broker]
        if at < world.input_end[broker]:
            heap[HEAP_TIME, place], heap[HEAP_ORDER, place] = world.inputs[at, M_TIME], world.inputs[at, I_SOURCE]
            return size
    else:
        if ring < world.open_from.size:
            world.open_from[ring], world.asked_from[ring] = heap[HEAP_TIME, place], 0  # links are FIFO
        rings[ring, R_HEAD] = (rings[ring, R_HEAD] + 1) & (rings[ring, R_CAPACITY] - 1)
        rings[ring, R_COUNT] -= 1
        if rings[ring, R_COUNT] > 0:
            heap[HEAP_TIME, place] = _head(world, ring)
            return size
    for row in range(heap.shape[0]):
        heap[row, place] = heap[row, size - 1]
    return size - 1


@njit(forceinline=True, cache=True)
def _lay(world, row, broker, ring, time):
    """Lay what comes first of a lane into a row of the batch, as of a time."""
    wide, narrow = world.wide, world.narrow
    if ring == _INPUTS:
        at = world.input_at[broker]
        source, sequence, word = world.inputs[at, I_SOURCE], world.inputs[at, M_SEQUENCE], world.inputs[at, M_WORD]
        carried, cause = world.inputs[at, M_PACKED], world.inputs[at, M_CAUSE]
        kind, link = KIND_FAULT if source < 0 else KIND_MESSAGE, np.int64(-1)
        if source < 0 and (carried >> 8) & 0xFFFF != RESTART:
            link = word
    else:
        at = world.rings[ring, R_OFFSET] + world.rings[ring, R_HEAD]
        arena, links = world.arena, world.facts.shape[0]
        sequence, word = arena[at, M_SEQUENCE], arena[at, M_WORD]
        carried, cause = arena[at, M_PACKED], arena[at, M_CAUSE]
        if ring < links:
            kind, link, source = KIND_MESSAGE, ring ^ 1, np.int64(world.link_source[ring])
        else:
            kind, link, source = KIND_TIMER, np.int64(-1), np.int64(broker)
    wide[W_TIME, row], wide[W_SOURCE, row], wide[W_SEQUENCE, row], wide[W_WORD, row] = time, source, sequence, word
    narrow[N_BROKER, row], narrow[N_KIND, row], narrow[N_LINK, row], narrow[N_CAUSE, row] = broker, kind, link, cause
    narrow[N_TYPE, row], narrow[N_SERVICE, row] = (carried >> 8) & 0xFFFF, carried & 0xFF
    narrow[N_BODY, row] = carried >> 24


@njit(forceinline=True, cache=True)
def _drop(world, broker, ring, time, reason):
    """What comes first of a lane is lost."""
    if ring == _INPUTS:
        at = world.input_at[broker]
        carried, cause = world.inputs[at, M_PACKED], world.inputs[at, M_CAUSE]
    else:
        at = world.rings[ring, R_OFFSET] + world.rings[ring, R_HEAD]
        carried, cause = world.arena[at, M_PACKED], world.arena[at, M_CAUSE]
    drops, used = world.drops, world.drops_used[0]
    drops[used, Q_TIME], drops[used, Q_BROKER], drops[used, Q_LINK] = time, broker, ring
    drops[used, Q_PACKED], drops[used, Q_CAUSE], drops[used, Q_REASON] = carried, cause, reason
    world.drops_used[0] = used + 1
    world.broker_state[broker, B_DROPPED] += 1
    if carried >> 24 >= 0:
        world.body_refs[carried >> 24] -= 1
    if cause >= 0:
        world.causes[cause, C_LOST] += 1


__all__ = [
    "Crowding", "check_crowding", "free_from", "is_limited", "lay_crowded", "no_room_ahead", "note_done", "note_left",
]
