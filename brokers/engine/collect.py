"""What services answered to a batch, merged for the kernels: ordered by event, then service, then call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.contract import Ints
from brokers.engine import layout as L
from brokers.engine.batching import Workbench
from brokers.errors import ProtocolFault
from brokers.out import SAME, TYPE_MAX, Out

Answers = list[tuple[NDArray[Any] | None, Out]]  # of each service: its rows of the batch (None: all), what it said
_Calls = list[tuple[NDArray[Any] | None, tuple[Any, ...]]]


@dataclass(frozen=True)
class Sends:
    """Sends of a batch, by event."""

    event: Ints
    link: Ints
    detail: Ints  # rows S_*; empty where every send repeats its event's type, body, word and cause
    on_links: bool = False  # whether it is known that all of the links exist


@dataclass(frozen=True)
class Timers:
    """Timers of a batch, by event."""

    table: Ints  # rows T_*

    @property
    def event(self) -> Ints:
        return self.table[L.T_EVENT]


_INT64 = np.dtype(np.int64)  # NumPy has one object for it, and to compare by identity is quick
_NONE = np.empty(0, np.int64)
_NO_DETAIL = np.empty((L.SEND_DETAIL, 0), np.int64)
NO_SENDS = Sends(_NONE, _NONE, _NO_DETAIL)
NO_TIMERS = Timers(np.empty((L.TIMER, 0), np.int64))


class Collector:
    """Merges answers batch by batch; its scratch arrays are used again."""

    def __init__(self, bench: Workbench, links: int) -> None:
        self._links = links
        self._narrow = bench.narrow
        self._wide = bench.wide
        self._count = np.empty(len(bench.finish) + 2, np.int64)

    def sends(self, answers: Answers, size: int) -> Sends:
        """The sends of all services."""
        calls = [(rows, call) for rows, out in answers for call in out.sends]
        if not calls:
            return NO_SENDS
        if len(calls) == 1 and len(calls[0][1]) == 2 and _as_is(*calls[0]):
            event, link = calls[0][1]
            if _in_order(event, size) and _below(link, self._links):
                return Sends(event, link, _NO_DETAIL, on_links=True)
        if all(len(call) == 2 for _, call in calls):
            event, link = self._ordered(_columns(calls, 2, size), size)
            return Sends(event, link, _NO_DETAIL)
        full = [self._in_full(call, size) for call in calls]
        event, link, *more = self._ordered(_columns(full, 2 + L.SEND_DETAIL, size), size)
        detail = np.array(more)
        _check_types(detail[L.S_TYPE])
        self._name_causes(event, detail[L.S_CAUSE])
        return Sends(event, link, detail)

    def timers(self, answers: Answers, size: int) -> Timers:
        """The timers of all services."""
        calls = [(rows, call) for rows, out in answers for call in out.timers]
        if not calls:
            return NO_TIMERS
        table = np.array(self._ordered(_columns(calls, L.TIMER, size), size))
        _check_types(table[L.T_TYPE])
        self._name_causes(table[L.T_EVENT], table[L.T_CAUSE])
        return Timers(table)

    def deliveries(self, answers: Answers, size: int) -> tuple[Ints, Ints, Ints] | None:
        """The deliveries of all services: (event, client, body), in the order of the calls."""
        calls: _Calls = []
        for rows, out in answers:
            for event, client, body in out.deliveries:
                alone = body is None and len(answers) == len(out.deliveries) == 1
                if alone and _as_is(rows, (event, client)) and _below(event, size):
                    return event, client, self._narrow[L.N_BODY, event].astype(np.int64)
                if body is None:
                    body = self._narrow[L.N_BODY, _events(event, rows, size)]
                calls.append((rows, (event, client, body)))
        if not calls:
            return None
        event, client, body = _columns(calls, 3, size)
        return event, client, body

    def _in_full(self, call: Any, size: int) -> Any:
        """A send with everything that it carries; a forward repeats what its event brought."""
        rows, said = call
        if len(said) > 2:
            return call
        at = _events(said[0], rows, size)
        return rows, (*said, self._narrow[L.N_TYPE, at], self._narrow[L.N_BODY, at], self._wide[L.W_WORD, at], -1, SAME)

    def _name_causes(self, event: Ints, cause: Ints) -> None:
        same = cause == SAME
        cause[same] = self._narrow[L.N_CAUSE, event[same]]

    def _ordered(self, columns: list[Ints], size: int) -> list[Ints]:
        """Outputs in the order of their events, which keeps the order of the calls."""
        event = columns[0]
        if event.size < 2 or bool((event[1:] >= event[:-1]).all()):
            return columns
        order = np.empty(event.size, np.int64)
        order_by_event(event, size, self._count, order)
        return [column[order] for column in columns]


def collect_costs(answers: Answers, cost: Ints) -> None:
    """Add up what protocols charged, per event, into `cost`."""
    for rows, out in answers:
        for event, ns in out.costs:
            np.add.at(cost, _events(event, rows, cost.size), np.asarray(ns, np.int64))


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


def _events(event: Any, rows: NDArray[Any] | None, total: int) -> Ints:
    """Events of a service's part of the batch as rows of the shard's batch of `total`."""
    at = np.atleast_1d(np.asarray(event, np.int64))
    if rows is None:
        _check_events(at, total)
        return at
    _check_events(at, rows.size)
    return rows[at]


def _columns(calls: _Calls, width: int, total: int) -> list[Ints]:
    """Calls of `width` columns behind each other, scalars stretched, events mapped to rows of the shard's batch."""
    parts: list[list[Ints]] = []
    for rows, call in calls:
        columns = [_events(call[0], rows, total), *(np.asarray(value, np.int64) for value in call[1:])]
        size = columns[0].size
        if size == 1:
            size = next((column.size for column in columns if column.ndim and column.size != 1), 1)
        for i, column in enumerate(columns):
            if column.size == 1 and column.shape != (size,):
                columns[i] = np.full(size, column)
            elif column.size != size:
                raise ProtocolFault(
                    f"an output call has {size} events but {column.size} values in one of its columns"
                )
        parts.append(columns)
    return parts[0] if len(parts) == 1 else [np.concatenate(column) for column in zip(*parts, strict=True)]


def _as_is(rows: NDArray[Any] | None, call: tuple[Any, ...]) -> bool:
    """Whether a call of two columns needs no more than checking: of the whole batch, two plain arrays of one length."""
    if rows is not None:
        return False
    event, other = call
    return (
        type(event) is type(other) is np.ndarray
        and event.dtype is other.dtype is _INT64
        and event.ndim == other.ndim == 1
        and event.size == other.size > 0
        and event.flags.c_contiguous
        and other.flags.c_contiguous
    )


@njit(cache=True)
def _in_order(event, size):
    """Whether these are rows of a batch of `size`, none before the one ahead of it."""
    last = 0
    for e in event:
        if e < last:
            return False
        last = e
    return last < size


@njit(cache=True)
def _below(numbers, count):
    """Whether all of them are numbers from 0 on and below `count`."""
    outside = 0
    for n in numbers:
        outside += n < 0 or n >= count
    return outside == 0


def _check_types(type_: Ints) -> None:
    if type_.size and (type_.min() < 0 or type_.max() > TYPE_MAX):
        wrong = int(type_.max() if type_.max() > TYPE_MAX else type_.min())
        raise ProtocolFault(f"a message has type {wrong}; types are 0 to {TYPE_MAX}")


def _check_events(event: Ints, size: int) -> None:
    if event.size and (event.min() < 0 or event.max() >= size):
        raise ProtocolFault(
            f"an output names event {int(event.max() if event.max() >= size else event.min())}, "
            f"but the batch has {size} events: use the event numbers of the batch that was handed in"
        )
