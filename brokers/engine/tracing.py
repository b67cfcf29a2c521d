"""What a shard writes into its trace while it runs: rows of a round, and samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.contract import Ints
from brokers.engine import layout as L
from brokers.engine.batching import Workbench
from brokers.engine.collect import Deliveries, Sends
from brokers.engine.queues import Queues
from brokers.engine.services import Services
from brokers.errors import ProtocolFault
from brokers.faults import CRASHED, DOUBLED

_SAMPLE_ROWS = 1 << 16  # rows of samples that are written at once
_WAITING_MOST = 1 << 13  # rows of small rounds that wait, at most
_GIVEN = 5  # columns of a delivery that waits


class Tracing:
    """The trace of a shard, with what its rows are made of.

    Rows of small rounds wait until there are many: to write some takes as long as a round, however few they are.
    """

    def __init__(self, trace: Any, services: Services, queues: Queues, bench: Workbench) -> None:
        self._trace = trace
        self._services = services
        self._queues = queues
        self._bench = bench
        self.sampling = bool(trace.wants("samples"))
        overlay = services.model.overlay
        self._described = overlay.numbers if overlay.described is not None else (int(L.NEVER), 0)
        self._hops, self._deliveries = bool(trace.wants("hops")), bool(trace.wants("deliveries"))
        # Whether rows are looked at once they are handled.
        self.listening = self._hops or self._deliveries or bool(trace.wants("losses"))
        room = _WAITING_MOST if self._hops else 0
        self._wide, self._narrow = np.empty((L.WIDE, room), np.int64), np.empty((L.NARROW, room), np.int32)
        self._finish = np.empty(room, np.int64)
        self._handled = 0  # rows that wait
        self._given = np.empty((_GIVEN, _WAITING_MOST if self._deliveries else 0), np.int64)
        self._delivered = 0

    # ---- rounds --------------------------------------------------------------------------------------

    def round(self, size: int, sends: Sends, deliveries: Deliveries) -> None:
        """A batch that was handled: all of it, what links lost and what clients got."""
        if deliveries.event.size and self._deliveries:
            self.deliveries(*deliveries)
        if self._hops:
            self.hops(size)
        course = self._bench.course
        if lost := int(course[L.LOST]):
            self.losses(lost, sends)
            course[L.LOST] = 0

    def hops(self, size: int) -> None:
        """Everything that was handled in a batch."""
        if not self._hops:
            return
        bench, first = self._bench, self._handled
        last = first + size
        if last > _WAITING_MOST:
            self._write_waiting_hops()
            first, last = 0, size
        if size > _WAITING_MOST // 4:
            self._write_waiting_hops()
            self._write_hops(bench.wide[:, :size], bench.narrow[:, :size], bench.finish[:size])
        else:
            self._wide[:, first:last] = bench.wide[:, :size]
            self._narrow[:, first:last] = bench.narrow[:, :size]
            self._finish[first:last] = bench.finish[:size]
            self._handled = last

    def deliveries(self, event: Ints, client: Ints, body: Ints) -> None:
        """What clients got."""
        if not self._deliveries:
            return
        at = 0
        while at < event.size:
            if self._delivered == _WAITING_MOST:
                self._write_deliveries()
            stop = min(event.size, at + _WAITING_MOST - self._delivered)
            _note(self._bench.narrow, self._bench.finish, event, client, body, (at, stop), self._given, self._delivered)
            self._delivered += stop - at
            at = stop

    def fallen(self, event: Ints, body: Ints, client: Ints, reason: Ints) -> None:
        """Deliveries that did not come about, lost on no link: the broker crashed before, or the client had left."""
        if event.size and self._trace.wants("losses"):
            narrow = self._bench.narrow
            service, when = narrow[L.N_SERVICE, event], self._bench.wide[L.W_TIME, event]
            reason = self._services.expired(service, client, when, reason)
            self._trace.write(
                "losses",
                link=np.full(event.size, -1, np.int32),
                time_ns=self._bench.finish[event],
                service=service.astype(np.int16),
                type=narrow[L.N_TYPE, event].astype(np.int8),
                body=self._services.bodies.keys(body),
                cause=np.full(event.size, -1, np.int64),
                reason=reason.astype(np.int8),
                client=self._queues.local.size + client,
            )

    def unrung(self, timers: NDArray[Any]) -> None:
        """Timers, as a round has them, that die with their brokers: lost, on no link."""
        if self._trace.wants("losses"):
            event = timers[L.T_EVENT]
            self._trace.write(
                "losses",
                link=np.full(event.size, -1, np.int32),
                time_ns=self._bench.wide[L.W_TIME, event],
                service=self._bench.narrow[L.N_SERVICE, event].astype(np.int16),
                type=timers[L.T_TYPE].astype(np.int8),
                body=self._services.bodies.keys(timers[L.T_BODY]),
                cause=self._services.causes.keys(timers[L.T_CAUSE]),
                reason=np.full(event.size, CRASHED, np.int8),
                client=np.full(event.size, -1, np.int64),
            )

    def dropped(self, drops: Ints) -> None:
        """What found no place in a queue, as `Crowding` has it."""
        if len(drops) and self._trace.wants("losses"):
            packed = drops[:, L.Q_PACKED]
            self._trace.write(
                "losses",
                link=drops[:, L.Q_LINK].astype(np.int32),
                time_ns=drops[:, L.Q_TIME].copy(),
                service=(packed & 0xFF).astype(np.int16),
                type=((packed >> 8) & 0xFFFF).astype(np.int8),
                body=self._services.bodies.keys(packed >> 24),
                cause=self._services.causes.keys(drops[:, L.Q_CAUSE].copy()),
                reason=drops[:, L.Q_REASON].astype(np.int8),
                client=np.full(len(drops), -1, np.int64),
            )

    def flush(self) -> None:
        """Write what waits, as long as the handles in it mean what they did."""
        self._write_waiting_hops()
        self._write_deliveries()

    def _write_waiting_hops(self) -> None:
        if size := self._handled:
            self._handled = 0
            self._write_hops(self._wide[:, :size], self._narrow[:, :size], self._finish[:size])

    def _write_hops(self, wide: NDArray[Any], narrow: NDArray[Any], finish: Ints) -> None:
        self._trace.write(
            "hops",
            broker=narrow[L.N_BROKER],
            time_ns=wide[L.W_TIME],
            kind=narrow[L.N_KIND].astype(np.int8),
            source=wide[L.W_SOURCE],
            sequence=wide[L.W_SEQUENCE],
            link=_there(narrow[L.N_LINK], narrow[L.N_BROKER], wide[L.W_SOURCE], *self._described),
            service=narrow[L.N_SERVICE].astype(np.int16),
            type=narrow[L.N_TYPE].astype(np.int8),
            body=self._services.bodies.keys(narrow[L.N_BODY]),
            word=wide[L.W_WORD],
            cause=self._services.causes.keys(narrow[L.N_CAUSE]),
            finish_ns=finish,
        )

    def _write_deliveries(self) -> None:
        if not self._delivered:
            return
        service, broker, client, body, finish = self._given[:, : self._delivered]
        self._delivered = 0
        bodies = self._services.bodies
        self._trace.write(
            "deliveries",
            service=service.astype(np.int16),
            publication=bodies.keys(body),
            broker=broker.astype(np.int32),
            client=self._queues.local.size + client,
            published_ns=np.where(body >= 0, bodies.time[np.maximum(body, 0)], -1),
            time_ns=finish,
        )

    def losses(self, lost: int, sends: Sends) -> None:
        """What was lost of the sends of a batch, and what was doubled."""
        if not lost or not self._trace.wants("losses"):
            return
        at, when, reason = self._bench.losses[:lost].T.copy()
        narrow, event = self._bench.narrow, sends.event[at]
        detail = sends.detail[:, at] if sends.detail.size else None
        type_ = narrow[L.N_TYPE, event] if detail is None else detail[L.S_TYPE]
        body = narrow[L.N_BODY, event] if detail is None else detail[L.S_BODY]
        cause = narrow[L.N_CAUSE, event] if detail is None else detail[L.S_CAUSE]
        columns = {
            "link": sends.link[at].astype(np.int32),
            "time_ns": when,
            "service": narrow[L.N_SERVICE, event].astype(np.int16),
            "type": type_.astype(np.int8),
            "body": self._services.bodies.keys(body),
            "cause": self._services.causes.keys(cause.astype(np.int64)),
        }
        doubled = reason == DOUBLED
        if doubled.any():
            self._trace.write("doubled", **{name: values[doubled] for name, values in columns.items()})
        if not doubled.all():
            gone = {name: values[~doubled] for name, values in columns.items()}
            nobody = np.full(int((~doubled).sum()), -1, np.int64)
            self._trace.write("losses", **gone, reason=reason[~doubled].astype(np.int8), client=nobody)

    def record(self, table: str, event: Any, service: int, columns: dict[str, Any]) -> None:
        """Rows of a table of a kind's or protocol's own."""
        declared = self._services.tables[service]
        if table not in declared:
            raise ProtocolFault(
                f"service {self._services.name(service)!r} writes to the trace table {table!r}, which neither "
                f"its kind nor its protocol declares (they declare {', '.join(declared) or 'none'})"
            )
        if not self._trace.wants(table):
            return
        single = isinstance(event, int) and not any(isinstance(each, np.ndarray) for each in columns.values())
        at = event if single else np.atleast_1d(np.asarray(event, np.int64))
        broker, time_ns = self._bench.narrow[L.N_BROKER, at], self._bench.wide[L.W_TIME, at]
        self._trace.write(table, service=service, broker=broker, time_ns=time_ns, **columns)

    # ---- samples -------------------------------------------------------------------------------------

    def samples(self, times: range) -> None:
        """Samples at these times: of a quiet stretch in blocks, since then queues only drain, and tables stay."""
        queues, protocols = self._queues, self._services.protocols
        mine = queues.mine
        services = len(protocols)
        entries = np.concatenate([protocol.entries()[mine] for protocol in protocols])
        service = np.repeat(np.arange(services), mine.size)
        at_once = max(1, _SAMPLE_ROWS // max(1, entries.size))
        while times:
            block, times = times[:at_once], times[at_once:]
            queued = np.zeros((len(block), mine.size), np.int32)
            backlog = np.zeros((len(block), mine.size), np.int64)
            for row, at in enumerate(block):
                backlog[row] = queues.backlog_ns(at)[mine]
                queued[row] = queues.lengths(at)[mine]
                if queues.idle and not backlog[row].any():
                    break
            self._trace.write(
                "samples",
                time_ns=np.repeat(np.array(block, np.int64), entries.size),
                broker=np.tile(mine.astype(np.int32), len(block) * services),
                backlog_ns=np.tile(backlog, services).ravel(),
                queued=np.tile(queued, services).ravel(),
                service=np.tile(service, len(block)),
                entries=np.tile(entries, len(block)),
            )


@njit(cache=True)
def _there(links, brokers, sources, first, nodes):
    """Links as those who sent over them name them; -1 stays. Those that are described are numbered from `first` on."""
    found = np.empty_like(links)
    for i in range(links.size):
        if links[i] >= first:
            found[i] = first + sources[i] * nodes + brokers[i]
        else:
            found[i] = links[i] ^ 1 if links[i] >= 0 else -1
    return found


@njit(cache=True)
def _note(narrow, finish, event, client, body, which, given, at):
    """Note deliveries which[0]:which[1] behind the first `at` that wait."""
    for d in range(which[0], which[1]):
        i = event[d]
        given[0, at], given[1, at] = narrow[L.N_SERVICE, i], narrow[L.N_BROKER, i]
        given[2, at], given[3, at], given[4, at] = client[d], body[d], finish[i]
        at += 1
