"""A few real brokers joined by links, for a unit test of a protocol: send, and look at what went over each link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from brokers.contract import Kind
from brokers.engine.model import Model, ServiceSpec, SourceSpec
from brokers.engine.simulate import MemoryTraces, Result, simulate, tables_of
from brokers.errors import InvalidInput
from brokers.promises import Faced, promised
from protocols.judging import Audit, audit
from protocols.rehearsing import SCRIPT, options_of, service_of, with_needed
from topology.overlay import Overlay


class Hop(NamedTuple):
    """A message that went over a link, and when it arrived."""

    time_ns: int
    type: int
    body: int  # id of the client's message whose body it carries; -1 for none, or a protocol's own
    word: int
    cause: int


class Delivery(NamedTuple):
    time_ns: int
    client: int  # client number
    publication: int


class Joined:
    """Real brokers joined by links, for a unit test of a protocol. Made by `join`.

    What is sent goes out a simulated second after what was sent before, unless `at_ns` says when; so by
    default each message meets a network at rest.
    """

    def __init__(self, overlay: Overlay, clients: Sequence[int], spec: ServiceSpec) -> None:
        self.kind: Kind = spec.kind_class(spec.params)
        self._overlay = overlay
        self._clients = list(clients)
        self._spec = spec
        self._sent: list[dict[str, Any]] = []
        self._number = [0] * len(self._clients)
        self._clock_ns = 0
        self._result: Result | None = None
        self._traces = MemoryTraces("full")
        self._described: list[dict[str, Any]] = []

    def send(
        self,
        client: int,
        type: str | int,
        row: Sequence[float] | None = None,
        body: Any = None,
        word: int = 0,
        at_ns: int | None = None,
    ) -> int:
        """Have a client send a message of its kind; returns the message's id."""
        code = self.kind.types[type] if isinstance(type, str) else type
        time = self._clock_ns + 1_000_000_000 if at_ns is None else at_ns
        if time < self._clock_ns:
            raise InvalidInput(f"messages are sent in order of time: {time} ns is before {self._clock_ns} ns")
        self._clock_ns = time
        self._result = None
        self._sent.append(
            {
                "type": code,
                "time": [time],
                "client": [client],
                "word": [word],
                "rows": None if row is None else [list(row)],
                "objects": None if body is None else [body],
            }
        )
        number = self._number[client]
        self._number[client] += 1
        return (self._entity(client) << 32) | number

    def interest(self, client: int, number: int = 0) -> int:
        """The id of a client's interest, the `word` of what begins or ends it."""
        return (self._entity(client) << 32) | number

    def over(self, a: int, b: int) -> list[Hop]:
        """What arrived at broker `b` from its neighbour `a`, in order."""
        self._run()
        ends = zip(self._overlay.link_a.tolist(), self._overlay.link_b.tolist())
        link = {pair: 2 * e for e, pair in enumerate(ends)}
        number = link[a, b] if a < b else link[b, a] + 1
        hops = self._traces.tables()["hops"]
        rows = np.flatnonzero(hops["link"] == number)
        rows = rows[np.lexsort((hops["sequence"][rows], hops["time_ns"][rows]))]
        return [Hop(*(int(hops[name][row]) for name in Hop._fields)) for row in rows]

    def deliveries(self, client: int | None = None) -> list[Delivery]:
        """What clients got, by time; of one client or of all."""
        self._run()
        table = self._traces.tables()["deliveries"]
        every = sorted(
            Delivery(at, entity - self._overlay.nodes, p)
            for at, entity, p in zip(*(table[name].tolist() for name in ("time_ns", "client", "publication")))
        )
        return [d for d in every if client is None or d.client == client]

    def table(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table of the trace."""
        self._run()
        columns = self._traces.tables()[name]
        return [dict(zip(columns, row)) for row in zip(*(column.tolist() for column in columns.values()))]

    def describe(self, broker: int) -> dict[str, Any]:
        """A broker's tables after everything."""
        self._run()
        return self._described[broker]

    def entries(self, broker: int) -> int:
        """The size of a broker's tables after everything."""
        self._run()
        return self._entries[broker]

    def result(self) -> Result:
        return self._run()

    def audit(self) -> Audit:
        self._run()
        guarantees = promised(self._spec.protocol_class, self._spec.options, self._overlay, Faced())
        return audit(self._traces.tables(), self.kind, guarantees)

    def _entity(self, client: int) -> int:
        return self._overlay.nodes + client

    def model(self) -> Model:
        """The model of what was sent so far, to run it in all variants."""
        size = len(self._clients)
        source = SourceSpec(SCRIPT, {"emissions": self._sent}, "all")
        return Model(
            "joined",
            1,
            self._clock_ns + 1_000_000_000,
            self._overlay,
            np.array(self._clients, np.int32),
            {"all": (0, size)},
            [replace(self._spec, sources=[source])],
        )

    def _run(self) -> Result:
        if self._result is None:
            self._traces = MemoryTraces("full", tables_of(self.model()))
            self._result = simulate(self.model(), trace=self._traces, observe=self._observe)
        return self._result

    def _observe(self, shards: Any) -> None:
        protocol = shards.shards[0].services.protocols[0]
        self._described = [protocol.describe(b) for b in range(self._overlay.nodes)]
        self._entries = protocol.entries().tolist()


def overlay_of(
    links: Sequence[tuple[int, int]], delay_ns: int | Sequence[int] = 1_000_000, **said: Any
) -> Overlay:
    """An overlay from a list of links; `jitter_ns`, `bandwidth_bps` and `loss` for all, or one for each."""
    ordered = sorted(range(len(links)), key=lambda i: sorted(links[i]))
    ends = np.array([sorted(links[i]) for i in ordered], np.int32).reshape(-1, 2)

    def column(value: Any, dtype: type) -> Any:
        return np.broadcast_to(np.asarray(value, dtype), len(links))[ordered].astype(dtype)

    brokers = int(ends.max(initial=0)) + 1
    return Overlay(
        tuple(f"b{i}" for i in range(brokers)),
        np.full((brokers, 2), np.nan),
        ends[:, 0],
        ends[:, 1],
        column(delay_ns, np.int64),
        column(said.pop("jitter_ns", 0), np.int64),
        column(said.pop("bandwidth_bps", 0), np.int64),
        column(said.pop("loss", 0.0), np.float64),
        **said,
    )


def join(
    protocol: str | type,
    links: Sequence[tuple[int, int]],
    clients: Sequence[int] | None = None,
    delay_ns: int | Sequence[int] = 1_000_000,
    **service: Any,
) -> Joined:
    """Join brokers 0..n-1 by `links`; client i is attached to broker clients[i] (by default one per broker).

    >>> pair = join("flooding", [(0, 1)])
    >>> _ = pair.send(1, "subscribe", [0, 0.2, 0.8], word=pair.interest(1))
    >>> sent = pair.send(0, "publish", [0.5, 0.0, 0.0, 0.0])
    >>> [(d.client, d.publication == sent) for d in pair.deliveries()]
    [(1, True)]
    """
    spec = service_of(protocol, **service)
    overlay = with_needed(overlay_of(links, delay_ns), spec.protocol_class, options_of(spec))
    at = range(overlay.brokers) if clients is None else clients
    return Joined(overlay, at, spec)
