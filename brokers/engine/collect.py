"""What services answered to a batch, merged for the kernels: ordered by event, then service, then call."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.contract import Ints
from brokers.engine import layout as L
from brokers.errors import ProtocolFault
from brokers.out import TYPE_MAX, Out

Answers = list[tuple[NDArray[Any] | None, Out]]  # of each service: its rows of the batch (None: all), what it said
_Calls = list[tuple[NDArray[Any] | None, tuple[Any, ...]]]

_SEND = 2 + L.SEND_DETAIL


class Sends(NamedTuple):
    """Sends of a batch."""

    event: Ints
    link: Ints
    detail: Ints  # rows S_*, REPEATED where a send repeats what its event brought; empty where all of them do

    def ordered(self, size: int) -> Sends:
        """In the order of their events, which keeps the order of the calls."""
        order = _order(self.event, size)
        detail = self.detail[:, order] if self.detail.size else self.detail
        return Sends(self.event[order], self.link[order], np.ascontiguousarray(detail))


class Timers(NamedTuple):
    """Timers of a batch."""

    table: Ints  # rows T_*

    @property
    def event(self) -> Ints:
        return self.table[L.T_EVENT]

    def ordered(self, size: int) -> Timers:
        """In the order of their events, which keeps the order of the calls."""
        return Timers(np.ascontiguousarray(self.table[:, _order(self.event, size)]))


class Deliveries(NamedTuple):
    """Deliveries of a batch, in the order of the calls."""

    event: Ints
    client: Ints
    body: Ints  # REPEATED: that of the event

    def of(self, rows: NDArray[np.bool_]) -> Deliveries:
        """Some of them."""
        return Deliveries(*(column[rows] for column in self))


_INT64 = np.dtype(np.int64)  # NumPy has one object for it, and to compare by identity is quick
_NONE = np.empty(0, np.int64)
_NO_DETAIL = np.empty((L.SEND_DETAIL, 0), np.int64)
NO_SENDS = Sends(_NONE, _NONE, _NO_DETAIL)
NO_TIMERS = Timers(np.empty((L.TIMER, 0), np.int64))
NO_DELIVERIES = Deliveries(_NONE, _NONE, _NONE)


def sends_of(answers: Answers) -> Sends:
    """The sends of all services."""
    calls = [(rows, call) for rows, out in answers for call in out.sends]
    if not calls:
        return NO_SENDS
    if all(len(call) == 2 for _, call in calls):
        if len(calls) == 1 and calls[0][0] is None and _is_plain(calls[0][1]):
            event, link = calls[0][1]
            return Sends(event, link, _NO_DETAIL)
        event, link = _together(calls, 2)
        return Sends(event, link, _NO_DETAIL)
    table = _together(calls, _SEND)
    return Sends(table[0], table[1], table[2:])


def timers_of(answers: Answers) -> Timers:
    """The timers of all services."""
    calls = [(rows, call) for rows, out in answers for call in out.timers]
    return Timers(_together(calls, L.TIMER)) if calls else NO_TIMERS


def deliveries_of(answers: Answers) -> Deliveries:
    """The deliveries of all services."""
    calls = [
        (rows, (event, client, L.REPEATED if body is None else body))
        for rows, out in answers
        for event, client, body in out.deliveries
    ]
    return Deliveries(*_together(calls, 3)) if calls else NO_DELIVERIES


def collect_costs(answers: Answers, cost: Ints) -> None:
    """Add up what protocols charged, per event, into `cost`."""
    for rows, out in answers:
        for call in out.costs:
            event, ns = _together([(rows, call)], 2)
            if (wrong := _add(event, ns, cost)) >= 0:
                raise wrong_event(int(event[wrong]), cost.size)


def wrong_event(event: int, size: int) -> ProtocolFault:
    """An answer to what is not in the batch."""
    return ProtocolFault(
        f"an output names event {event}, but the batch has {size} events: use the event numbers of the batch that was "
        "handed in"
    )


def wrong_type(type_: int) -> ProtocolFault:
    """A message of a type that a trace cannot tell."""
    return ProtocolFault(f"a message has type {type_}; types are 0 to {TYPE_MAX}")


# ---- calls behind each other -------------------------------------------------------------------------


def _together(calls: _Calls, width: int) -> Ints:
    """Calls as columns of one table, scalars stretched, events as rows of the shard's batch."""
    sizes = [_rows(call) for _, call in calls]
    table = np.empty((width, sum(sizes)), np.int64)
    first = 0
    for (rows, call), size in zip(calls, sizes):
        last = first + size
        for column, value in zip(table, call):
            column[first:last] = value
        if len(call) < width:  # a forward among sends
            table[len(call) :, first:last] = L.REPEATED
        if rows is not None and (wrong := _name_rows(table[0, first:last], rows)) >= 0:
            raise wrong_event(int(table[0, first + wrong]), rows.size)
        first = last
    return table


def _rows(call: tuple[Any, ...]) -> int:
    """How many rows a call has, whose columns are numbers or of one length."""
    found = 1
    for value in call:
        size = value.size if type(value) is np.ndarray else 1 if type(value) is int else np.size(value)
        if size != 1:
            if found not in (1, size):
                raise ProtocolFault(
                    f"an output call has {found} events but {size} values in one of its columns"
                )
            found = size
    return found


def _is_plain(call: tuple[Any, ...]) -> bool:
    """Whether the two columns of a call can be taken as they are: plain arrays of one length."""
    one, other = call
    return (
        type(one) is type(other) is np.ndarray
        and one.dtype is other.dtype is _INT64
        and one.ndim == other.ndim == 1
        and one.size == other.size
        and one.flags.c_contiguous
        and other.flags.c_contiguous
    )


@njit(cache=True)
def _name_rows(event, rows):
    """Make events of a part of the batch rows of the batch; returns which is not in that part, or -1."""
    for i in range(event.size):
        if event[i] < 0 or event[i] >= rows.size:
            return i
        event[i] = rows[event[i]]
    return -1


@njit(cache=True)
def _add(event, ns, cost):
    """Add what events cost; returns which of them is not in the batch, or -1."""
    for i in range(event.size):
        if event[i] < 0 or event[i] >= cost.size:
            return i
        cost[event[i]] += ns[i]
    return -1


@njit(cache=True)
def _order(event, size):
    """Stable counting sort of output rows by the event that they belong to."""
    count = np.zeros(size + 1, np.int64)
    for i in range(event.size):
        count[event[i] + 1] += 1
    for i in range(size):
        count[i + 1] += count[i]
    order = np.empty(event.size, np.int64)
    for i in range(event.size):
        order[count[event[i]]] = i
        count[event[i]] += 1
    return order
