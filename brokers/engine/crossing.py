"""Windows of a shard that runs as a thread beside others: it handles its own, meets them, and takes in what they sent.

    until the end:  everything before `until`
                    a meeting: all have handled theirs, and what they sent to others lies in their outboxes
                    what is for this shard comes onto its links
                    a meeting: all have taken theirs; the next window begins with the earliest thing of anybody

All of it is compiled and free of the interpreter's lock. `own` keeps the step, so that it can be left for what needs
Python, and entered again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from brokers.engine.advance import DONE, advance
from brokers.engine.heads import sooner
from brokers.engine.layout import (
    F_TARGET,
    M_CAUSE,
    M_PACKED,
    M_SEQUENCE,
    M_TIME,
    M_WORD,
    MOVED,
    NEVER,
    O_LINK,
    OUT_ROW,
    R_CAPACITY,
    R_COUNT,
    WRONG,
)
from brokers.engine.meeting import EPOCH, NEXT, OUT, USED, Meeting, await_all, tell
from brokers.engine.rings import push
from brokers.records import Held
from brokers.views import TABLE, viewed, where

# Why the windows were left, beside the codes of `advance`.
RENEW, RING, LATE, STOPPED = range(50, 54)
_STEP, UNTIL, _PEER, _ROW, _SEEN, _LOOKAHEAD, WINDOWS = range(7)
_OWN = 7
_RUN, _MEET, _PULL, _PART = range(4)


class Crossing:
    """The windows of one shard of several."""

    def __init__(self, meeting: Meeting, number: int, carrier_of: NDArray[np.int32], lookahead_ns: int) -> None:
        """`carrier_of`: by link, the shard of its far end."""
        self.meeting = meeting
        self.number = number
        self._carrier_of = carrier_of
        self._own = np.zeros(_OWN, np.int64)
        self._own[_LOOKAHEAD] = min(lookahead_ns, int(NEVER) // 2)

    def begin(self, now: int, end: int) -> None:
        """The first window begins at `now`."""
        self._own[_STEP], self._own[UNTIL] = _RUN, min(now + int(self._own[_LOOKAHEAD]), end)

    @property
    def until(self) -> int:
        """Where the window ends that is under way."""
        return int(self._own[UNTIL])

    @property
    def windows(self) -> int:
        """How many windows are over."""
        return int(self._own[WINDOWS])

    def seen(self) -> None:
        """This shard sees all arrays as they are now."""
        self._own[_SEEN] = self.meeting.epoch

    def travel(self, world: Held, crew: Any, end: int, thin: bool) -> int:
        """Windows until `end`, or something needs Python; returns why it stopped."""
        code: int = travel(world, crew, end, thin, self.meeting.table, self.number, self._carrier_of, self._own)
        return code


@njit(nogil=True, cache=True)
def travel(world, crew, end, thin, meeting, me, carrier_of, own):
    """See the module."""
    table = viewed(meeting)
    while True:
        if own[_STEP] == _RUN:
            code = advance(world, crew, own[UNTIL], thin)
            if code != DONE:
                return code
            table[me, OUT], table[me, USED] = where(world.outbox), world.outbox_used[0]
            tell(table, me)
            own[_STEP], own[_PEER], own[_ROW] = _MEET, 0, 0
        if own[_STEP] == _MEET:
            if not await_all(table, me):
                return STOPPED
            own[_STEP] = _PULL
        if own[_STEP] == _PULL:
            if own[_SEEN] != table[table.rows - 1, EPOCH]:
                return RENEW
            code = _take_in(world, table, me, carrier_of, own, thin)
            if code != DONE:
                return code
            table[me, NEXT] = world.head_time[1] if thin else _earliest(world.next_time)
            tell(table, me)
            own[_STEP] = _PART
        if not await_all(table, me):
            return STOPPED
        _clear(world)
        own[WINDOWS] += 1
        now = NEVER
        for other in range(table.rows - 1):
            now = min(now, table[other, NEXT])
        own[_STEP] = _RUN
        if now >= end:
            return DONE
        own[UNTIL] = min(now + own[_LOOKAHEAD], end)


@njit(forceinline=True, cache=True)
def _take_in(world, table, me, carrier_of, own, thin):
    """Put what others sent to this shard onto its links."""
    rings, arena, facts, next_time = world.rings, world.arena, world.facts, world.next_time
    body_refs, course = world.body_refs, world.course
    while own[_PEER] < table.rows - 1:
        peer = own[_PEER]
        rows = _rows_at(table[peer, OUT], table[peer, USED])
        while own[_ROW] < rows.rows:
            i = own[_ROW]
            link = rows[i, O_LINK]
            if carrier_of[link] == me:
                time, body = rows[i, M_TIME], rows[i, M_PACKED] >> 24
                if rings[link, R_COUNT] == rings[link, R_CAPACITY]:
                    course[WRONG] = link
                    return RING
                if time < own[UNTIL]:
                    course[WRONG] = link
                    return LATE
                push(
                    rings, arena, link, time, rows[i, M_SEQUENCE], rows[i, M_WORD], rows[i, M_PACKED], rows[i, M_CAUSE]
                )  # fmt: skip
                if body >= 0:
                    body_refs[body] += 1
                course[MOVED] += 1
                next_time[facts[link, F_TARGET]] = min(next_time[facts[link, F_TARGET]], time)
                if thin:
                    sooner(world.head_time, world.head_leaf, world.head_order, link, time)
            own[_ROW] += 1
        own[_PEER] += 1
        own[_ROW] = 0
    return DONE


@njit(forceinline=True, cache=True)
def _clear(world):
    """All have taken what was sent to them."""
    used, outbox, body_refs = world.outbox_used, world.outbox, world.body_refs
    for i in range(used[0]):
        body = outbox[i, M_PACKED] >> 24
        if body >= 0:
            body_refs[body] -= 1
    world.course[MOVED] -= used[0]
    used[0] = 0


@njit(inline="always")
def _earliest(next_time):
    found = NEVER
    for b in range(next_time.size):
        found = min(found, next_time[b])
    return found


@intrinsic
def _shown(_context: Any, address: Any, rows: Any) -> Any:
    """An outbox, by where it is."""

    def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        made = cgutils.create_struct_proxy(TABLE)(context, builder)
        made.data = builder.inttoptr(args[0], context.get_value_type(types.CPointer(types.int64)))
        made.rows = args[1]
        made.columns = context.get_constant(types.int64, OUT_ROW)
        return made._getvalue()

    return TABLE(types.int64, types.int64), code


_rows_at: Any = _shown
