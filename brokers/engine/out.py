"""What a protocol answers: sends, deliveries, timers, costs. Collected per service, merged per batch.

Every call takes scalars or arrays of one length. `event` is a row of the batch that was handed in. Outputs
of one event keep the order of the calls, whatever the order between events; the engine sorts by event once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.bodies import Bodies
from brokers.contract import NEVER, Batch, CostModel, Ints
from brokers.engine import kernels
from brokers.errors import ProtocolFault

TYPE_MAX = 127  # a type is an int8 in the trace
SAME = -2  # for a cause: the cause of the event itself


@dataclass(frozen=True)
class Sends:
    """Sends of a batch, by event."""

    count: int
    event: Ints
    link: Ints
    copy: bool  # every send repeats its event's type, body, word and cause
    type: Ints
    body: Ints
    word: Ints
    size: Ints
    cause: Ints


@dataclass(frozen=True)
class Timers:
    """Timers of a batch, by event."""

    count: int
    event: Ints
    delay: Ints
    type: Ints
    body: Ints
    word: Ints
    cause: Ints


_NONE = np.empty(0, np.int64)
NO_SENDS = Sends(0, _NONE, _NONE, True, _NONE, _NONE, _NONE, _NONE, _NONE)
NO_TIMERS = Timers(0, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE)


def _ints(value: Any, size: int) -> Ints:
    array = np.asarray(value, np.int64)
    return np.full(size, array) if array.size == 1 and array.shape != (size,) else array


class Out:
    """The answers of one service to one batch."""

    def __init__(self, service: int, bodies: Bodies, cost: CostModel) -> None:
        self.service = service
        self._bodies = bodies
        self._cost = cost
        self._batch: Batch
        self._forwards_only = True
        self.sends: list[tuple[Any, ...]] = []
        self.deliveries: list[tuple[Any, ...]] = []
        self.timers: list[tuple[Any, ...]] = []
        self.costs: list[tuple[Any, Any]] = []
        self.dependencies: list[tuple[Any, Any]] = []
        self.leanings: list[tuple[Any, Any]] = []
        self.records: list[tuple[str, Any, dict[str, Any]]] = []

    def begin(self, batch: Batch) -> None:
        self._batch = batch
        self.sends.clear()
        self.deliveries.clear()
        self.timers.clear()
        self.costs.clear()
        self.dependencies.clear()
        self.leanings.clear()
        self.records.clear()

    def forward(self, event: Any, link: Any) -> None:
        """Send what the event brought over `link`: same type, body, word and cause."""
        self.sends.append((event, link))

    def send(
        self,
        event: Any,
        link: Any,
        type: Any,
        body: Any = -1,
        word: Any = 0,
        size: Any = -1,
        cause: Any = SAME,
    ) -> None:
        """Send a message over `link`. `size` in bytes; -1 is the body's own (16 without one)."""
        self.sends.append((event, link, type, body, word, size, cause))

    def deliver(self, event: Any, client: Any, body: Any = None) -> None:
        """Hand a body (by default the event's) to a client, given by its client number."""
        self.deliveries.append((event, client, body))

    def timer(
        self, event: Any, delay_ns: Any, type: Any, word: Any = 0, body: Any = -1, cause: Any = SAME
    ) -> None:
        """Wake this event's broker `delay_ns` after the event."""
        self.timers.append((event, delay_ns, type, body, word, cause))

    def cost(self, event: Any, ns: Any) -> None:
        """Charge service time beyond what the scenario's cost model charges by itself."""
        self.costs.append((event, ns))

    def work(self, event: Any, entries: Any = 0, matches: Any = 0) -> None:
        """Charge the scenario's cost model for table entries looked at and matches found (logical counts)."""
        model = self._cost
        if model.per_entry or model.per_match:
            ns = model.per_entry * np.asarray(entries, np.float64) + model.per_match * np.asarray(
                matches, np.float64
            )
            self.costs.append((event, (ns + 0.5).astype(np.int64)))

    def body(self, body: Any, type: int, about: int | None = None, like: int = -1) -> int:
        """Make a body of plain data; returns its handle. It lives while a message carries it or `held()` names it.

        `about` is an event whose body this one stands for: a delivery of it then counts for that publication.
        `like` is the handle of such a body itself.
        """
        source = like if about is None else int(self._batch.body[about])
        return self._bodies.add_object(self.service, type, body, *self._bodies.stands_for(source))

    def record(self, table: str, event: Any, **columns: Any) -> None:
        """Write rows of one of the kind's own trace tables.

        One row per event; its `service`, `broker` and `time_ns` are filled in, the other columns are given.
        """
        self.records.append((table, event, columns))

    def depends(self, change: Any, on: Any) -> None:
        """Note that a change is settled only once another one is; both by id, -1 is passed over."""
        self.dependencies.append((change, on))

    def leans(self, interest: Any, on: Any) -> None:
        """Note that an interest is in force only while another one is; both by id.

        For one that was kept back because another covers it: a broker knows the ids, not which change issued them.
        """
        self.leanings.append((interest, on))


class Scratch:
    """Arrays reused from batch to batch for sorting outputs."""

    def __init__(self) -> None:
        self.count = np.empty(1024, np.int64)

    def order(self, event: Ints, size: int) -> Ints | None:
        """The stable order of outputs by event, or None if they are in order already."""
        if event.size < 2 or bool((event[1:] >= event[:-1]).all()):
            return None
        if self.count.size < size + 2:
            self.count = np.empty(2 * size + 2, np.int64)
        out = np.empty(event.size, np.int64)
        kernels.order_by_event(event, size, self.count, out)
        return out


def _events(event: Any, rows: NDArray[Any] | None, total: int) -> Ints:
    """Events of a service's part of the batch as rows of the shard's batch of `total`."""
    at = np.atleast_1d(np.asarray(event, np.int64))
    if rows is None:
        _check_events(at, total)
        return at
    _check_events(at, rows.size)
    return rows[at]


def _gather(calls: list[tuple[NDArray[Any] | None, tuple[Any, ...]]], width: int, total: int) -> list[Ints]:
    """Concatenate calls of `width` columns, scalars stretched, events mapped to rows of the shard's batch."""
    columns: list[list[Ints]] = [[] for _ in range(width)]
    for rows, call in calls:
        event = _events(call[0], rows, total)
        size = event.size
        for value in call[1:]:
            if np.ndim(value) and len(value) != size and size == 1:
                size = len(value)
        if event.size != size:
            event = np.full(size, event[0])
        columns[0].append(event)
        for i in range(1, width):
            column = _ints(call[i], size)
            if column.size != size:
                raise ProtocolFault(
                    f"an output call has {size} events but {column.size} values in one of its columns"
                )
            columns[i].append(column)
    return [c[0] if len(c) == 1 else np.concatenate(c) for c in columns]


def collect_sends(
    outs: list[tuple[NDArray[Any] | None, Out]], size: int, narrow: Any, wide: Any, scratch: Scratch
) -> Sends:
    """Merge the sends of all services of a batch, ordered by event, then service, then call."""
    calls = [(rows, call) for rows, out in outs for call in out.sends]
    if not calls:
        return NO_SENDS
    if all(len(call) == 2 for _, call in calls):
        event, link = _gather(calls, 2, size)
        order = scratch.order(event, size)
        if order is not None:
            event, link = event[order], link[order]
        return Sends(event.size, event, link, True, _NONE, _NONE, _NONE, _NONE, _NONE)
    full: list[tuple[NDArray[Any] | None, tuple[Any, ...]]] = []
    for rows, call in calls:
        if len(call) == 2:
            at = _events(call[0], rows, size)
            full.append(
                (
                    rows,
                    (
                        *call,
                        narrow[kernels.N_TYPE, at],
                        narrow[kernels.N_BODY, at],
                        wide[kernels.W_WORD, at],
                        -1,
                        SAME,
                    ),
                )
            )
        else:
            full.append((rows, call))
    columns = _gather(full, 7, size)
    order = scratch.order(columns[0], size)
    if order is not None:
        columns = [column[order] for column in columns]
    event, link, type_, body, word, length, cause = columns
    _check_types(type_)
    cause = np.where(cause == SAME, narrow[kernels.N_CAUSE, event], cause)
    return Sends(event.size, event, link, False, type_, body, word, length, cause)


def collect_timers(
    outs: list[tuple[NDArray[Any] | None, Out]], size: int, narrow: Any, scratch: Scratch
) -> Timers:
    """Merge the timers of all services of a batch."""
    calls = [(rows, call) for rows, out in outs for call in out.timers]
    if not calls:
        return NO_TIMERS
    columns = _gather(calls, 6, size)
    order = scratch.order(columns[0], size)
    if order is not None:
        columns = [column[order] for column in columns]
    event, delay, type_, body, word, cause = columns
    _check_types(type_)
    cause = np.where(cause == SAME, narrow[kernels.N_CAUSE, event], cause)
    return Timers(event.size, event, delay, type_, body, word, cause)


def collect_deliveries(
    outs: list[tuple[NDArray[Any] | None, Out]], size: int, narrow: Any
) -> tuple[Ints, Ints, Ints] | None:
    """Merge deliveries: (event, client, body)."""
    calls = [(rows, call) for rows, out in outs for call in out.deliveries]
    if not calls:
        return None
    full = []
    for rows, (event, client, body) in calls:
        if body is None:
            body = narrow[kernels.N_BODY, _events(event, rows, size)]
        full.append((rows, (event, client, body)))
    event, client, body = _gather(full, 3, size)
    return event, client, body


def collect_costs(outs: list[tuple[NDArray[Any] | None, Out]], cost: Ints) -> None:
    """Add up what protocols charged, per event, into `cost`."""
    for rows, out in outs:
        for event, ns in out.costs:
            np.add.at(cost, _events(event, rows, cost.size), np.asarray(ns, np.int64))


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


__all__ = [
    "NEVER",
    "NO_SENDS",
    "NO_TIMERS",
    "SAME",
    "Out",
    "Scratch",
    "Sends",
    "Timers",
    "collect_costs",
    "collect_deliveries",
    "collect_sends",
    "collect_timers",
]
