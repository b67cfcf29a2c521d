"""The conformance kit: with it anyone checks a protocol, a built-in one or their own.

Three questions, three tools:

- Is handling a batch the same as handling its events one by one? `variants` are the ways of running one
  model that must give one trace; `check_digests` runs them and tells the first event that differs.
- Does it deliver what it declares? `audit` goes through a full trace by brute force, in plain Python.
- What does one broker say to the next? `join` connects a few real brokers for a unit test.

`python -m protocols.conformance package.module:Class` asks the first two on a few small overlays.

Theory of the audit. A change is settled when everything it caused has been handled. A publication is under
way from its sending to the last event that handled a copy of it. For it, a client must be served if one of
its matching interests had settled before the sending and was not revoked before the end; the client must
not be served if none of them had been issued by the end, or all that were had gone before the sending.
Everything between is free. A change that leans on others (covering leans on the covering subscription) has
settled only once they have, and once those of them that were revoked have gone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from brokers import registry
from brokers.contract import NEVER, BrokerProtocol, Emission, Guarantees, Kind, SourceContext
from brokers.engine.model import Model, ServiceSpec, SourceSpec
from brokers.engine.run import MemoryTraces, Result, execute, tables_of
from brokers.engine.shard import Cutting
from brokers.engine.trace import DRIVER
from brokers.errors import BrokerlabError, InvalidInput
from brokers.indexes.registry import INDEXES
from protocols.registry import KINDS, PROTOCOLS
from topology import draws
from topology.build import build
from topology.links import LinkModel
from topology.overlay import Overlay
from topology.servers import Server, with_servers

_EXAMPLES = 5  # of each kind of mistake that an audit keeps
_HERE = "protocols.conformance"


# ---- a workload that is written down -----------------------------------------------------------------


class Script:
    """A source that plays messages from a list: dicts of the columns of an `Emission`, in any order."""

    publishes: ClassVar[bool] = True

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        mine = set(context.clients.tolist())
        self._played = False
        self._standing = [_emission(part, None) for part in params.get("standing", ())]
        self._emissions = [_emission(part, mine) for part in params["emissions"]]
        self._emissions = [e for e in self._emissions if e.time.size]

    def next_wake(self) -> int:
        if self._played:
            return NEVER
        return min((int(e.time.min()) for e in self._emissions), default=NEVER)

    def take(self) -> list[Emission]:
        self._played = True
        return self._emissions

    def standing(self, clients: Any) -> list[Emission]:
        return self._standing

    def state(self) -> Any:
        return self._played

    def load(self, state: Any) -> None:
        self._played = bool(state)


def _emission(part: Mapping[str, Any], clients: set[int] | None) -> Emission:
    at = [i for i, c in enumerate(part["client"]) if clients is None or c in clients]
    size = len(part["client"])
    rows, objects = part.get("rows"), part.get("objects")
    return Emission(
        part["type"],
        np.array([part["time"][i] for i in at], np.int64),
        np.array([part["client"][i] for i in at], np.int64),
        np.array([part.get("word", [0] * size)[i] for i in at], np.int64),
        None if rows is None else np.asarray(rows, np.float64).reshape(size, -1)[at],
        None if objects is None else [objects[i] for i in at],
    )


# ---- ways of running a model -------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """One way of running a model. None of them may show in a trace."""

    name: str
    cutting: Cutting = field(default_factory=Cutting)
    actors: int = 1
    partition: str = "auto"
    tables: str | None = None  # None: as the model says
    view: str | None = None
    run_from: int | None = None  # messages in a stretch from which `on_run` is called
    max_window_ns: int | None = None
    engine: str = "inline"

    def model(self, model: Model) -> Model:
        """The same model under this variant's tables and view."""
        return replace(
            model,
            services=[
                replace(service, tables=self.tables or service.tables, view=self.view or service.view)
                for service in model.services
            ],
        )

    def run(self, model: Model, trace: Callable[[int], Any] | None = None) -> Result:
        with _run_from(self.run_from):
            return execute(
                self.model(model),
                engine=self.engine,
                actors=self.actors,
                partition=self.partition,
                trace=trace,
                cutting=self.cutting,
                max_window_ns=self.max_window_ns,
            )


@contextmanager
def _run_from(count: int | None) -> Iterator[None]:
    from brokers.engine import adaptor

    before = adaptor.RUN_FROM
    adaptor.RUN_FROM = before if count is None else count
    try:
        yield
    finally:
        adaptor.RUN_FROM = before


ORACLE = Variant("one event at a time", Cutting("one"))


def variants(model: Model) -> list[Variant]:
    """The ways of running `model` that must agree; the first is the oracle, one event at a time."""
    brokers = model.overlay.brokers
    found = [
        ORACLE,
        Variant("batches up to the horizon"),
        Variant("batches of at most 7", Cutting("horizon", limit=7)),
        *(
            Variant(f"cut at random, seed {seed}, at most {limit}", Cutting("random", limit=limit, seed=seed))
            for seed, limit in ((1, 8192), (2, 8192), (3, 40), (4, 5))
        ),
        Variant("short windows", max_window_ns=1_700_000),
    ]
    for actors in (2, 3, 7):
        if actors < brokers:
            found += [
                Variant(f"{actors} shards, {how}", actors=actors, partition=how)
                for how in ("auto", "round-robin")
            ]
    if brokers > 1:
        found += [
            Variant("one shard per broker", actors=brokers),
            Variant("one shard per broker, cut at random", Cutting("random", seed=5), actors=brokers),
        ]
    runs = False
    for service in model.services:
        protocol = registry.load(service.protocol_target)
        plain = protocol if issubclass(protocol, BrokerProtocol) else getattr(protocol, "plain", None)
        runs = runs or plain is not None
    if runs:
        for tables in ("shared", "own"):
            found += [
                Variant(f"on_message, {tables} tables", tables=tables, view="message"),
                Variant(f"on_run, {tables} tables", tables=tables, view="run"),
            ]
        found += [
            Variant("on_run for every stretch", view="run", run_from=1),
            Variant("on_run, cut at random", Cutting("random", seed=6), view="run", run_from=2),
            Variant("on_message, cut at random", Cutting("random", seed=7), view="message"),
            Variant("on_message, 2 shards", actors=min(2, brokers), view="message"),
            Variant(
                "on_run, own tables, 3 shards", actors=min(3, brokers), view="run", tables="own", run_from=1
            ),
        ]
    else:
        found.append(Variant("own tables", tables="own"))
    return found


class Disagreement(NamedTuple):
    """A variant that did not run as the oracle did."""

    variant: str
    digest: str  # empty where it failed
    told: str  # the first diverging event, or the failure, as a sentence


class Recorded:
    """The trace of all shards of a run together, to be compared and audited."""

    def __init__(self, traces: MemoryTraces) -> None:
        self._traces = traces

    def model_tables(self) -> tuple[str, ...]:
        return self._traces(DRIVER).model_tables()

    def read(self, table: str) -> Any:
        import pyarrow as pa

        return pa.concat_tables([part.read(table) for _, part in sorted(self._traces.parts.items())])


def check_digests(model: Model, ways: Sequence[Variant] | None = None) -> list[Disagreement]:
    """Run the model in all these ways and name those whose digest or model tables differ from the first's."""
    from brokers.engine.trace_compare import first_difference

    ways = variants(model) if ways is None else ways
    first = MemoryTraces("full", tables_of(model))
    digest = ways[0].run(model, first).digest
    found = []
    for way in ways[1:]:
        traces = MemoryTraces("full", tables_of(model))
        try:
            result = way.run(model, None if way.engine == "ray" else traces)
        except Exception as error:  # of the protocol, which may raise anything
            found.append(Disagreement(way.name, "", f"it failed: {_said(error)}"))
            continue
        if way.engine == "ray":  # actors keep their traces to themselves
            told = None if result.digest == digest else "no trace to compare on Ray"
        else:
            told = first_difference(Recorded(first), Recorded(traces), ways[0].name, way.name)
            if told is None and result.digest != digest:
                told = "the digests differ, but no table does"
        if told is not None:
            found.append(Disagreement(way.name, result.digest, told))
    return found


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, BrokerlabError) else f"{type(error).__name__}: {error}"


# ---- the audit ---------------------------------------------------------------------------------------


@dataclass
class Mistakes:
    """How often something went wrong, with a few examples."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, told: str) -> None:
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(told)


@dataclass
class Audit:
    """What the audit of one service found. Pairs are of a publication and a client."""

    guarantees: Guarantees
    publications: int = 0
    deliveries: int = 0
    forced_yes: int = 0  # pairs that had to be delivered
    forced_no: int = 0  # pairs that had not to be, where the client has or had some interest
    free: int = 0
    excused: int = 0  # of the free ones: free only because a link lost something
    missed: Mistakes = field(default_factory=Mistakes)
    unwanted: Mistakes = field(default_factory=Mistakes)
    duplicated: Mistakes = field(default_factory=Mistakes)
    out_of_order: Mistakes = field(default_factory=Mistakes)

    @property
    def broken(self) -> list[str]:
        """Each declared guarantee that the run broke, with an example."""
        held = self.guarantees
        told = []
        for name, declared, mistakes in (
            ("missed", held.exact, self.missed),
            ("unwanted", held.exact, self.unwanted),
            ("duplicated", held.no_duplicates, self.duplicated),
            ("out of order", held.fifo_per_publisher, self.out_of_order),
        ):
            if declared and mistakes.count:
                told.append(f"{mistakes.count} {name}, e.g. {mistakes.examples[0]}")
        return told

    @property
    def verdict(self) -> str:
        """`correct`, `wrong`, or `unknown` where the run forced too little to tell."""
        if self.broken:
            return "wrong"
        # Where next to nothing had to be delivered, a protocol that never settles would pass too.
        return "correct" if self.forced_yes * 20 >= max(self.free, 1) else "unknown"

    def __str__(self) -> str:
        counts = (
            f"{self.publications} publications, {self.deliveries} deliveries; {self.forced_yes} forced, "
            f"{self.forced_no} forbidden, {self.free} free ({self.excused} by losses)"
        )
        return f"{self.verdict}: {'; '.join([counts, *self.broken])}"


class _Changes:
    """The changes of a service, and when they can be relied on."""

    def __init__(
        self, tables: Mapping[str, Mapping[str, Any]], kind: Kind, service: int, under_loss: bool
    ) -> None:
        table = tables["changes"]
        self.settled: dict[int, int] = {}
        self.revoked: dict[int, int] = {}  # change that begins an interest -> when its end was issued
        self.revocation: dict[int, int] = {}  # ... -> the change that ends it
        self.issued: dict[int, int] = {}
        self.client: dict[int, int] = {}
        self.rows: dict[int, Any] = {}
        self.spoilt: set[int] = set()  # changes of which a link lost something
        self._leans: dict[int, list[int]] = {}
        ends: dict[int, int] = {}
        begins: dict[int, int] = {}
        columns = ("change", "service", "operation", "interest", "client", "issued_ns", "settled_ns", "lost")
        for row, (change, of, operation, interest, client, issued, settled, lost) in enumerate(
            zip(*(table[name].tolist() for name in columns))
        ):
            if of != service:
                continue
            # What stands from the start was issued and settled before everything.
            self.settled[change] = -1 if issued < 0 else settled if settled >= 0 else NEVER
            self.issued[change] = issued
            if lost and not under_loss:
                self.spoilt.add(change)
            if operation in kind.interests:
                begins[interest] = change
                self.client[change] = client
                self.rows[change] = np.asarray(table["values"][row])
            elif operation in kind.revocations:
                ends[interest] = change
        for interest, change in begins.items():
            if interest in ends:
                self.revocation[change] = ends[interest]
                self.revoked[change] = self.issued[ends[interest]]
        leans = tables["dependencies"]
        for change, on in zip(leans["change"].tolist(), leans["depends_on"].tolist()):
            self._leans.setdefault(change, []).append(on)

    def settled_before(self, change: int, sent: int, end: int, forgive: bool = False) -> bool:
        """Whether this change, and all it leans on, had settled before `sent`.

        `end` is when the publication's way ended; `forgive` asks as if no link had lost anything.
        """
        seen: set[int] = set()
        ahead = [change]
        while ahead:
            one = ahead.pop()
            if one in seen:
                continue
            seen.add(one)
            if self.settled.get(one, NEVER) >= sent or (one in self.spoilt and not forgive):
                return False
            for on in self._leans.get(one, ()):
                ahead.append(on)
                if self.revoked.get(on, NEVER) <= end:
                    ahead.append(self.revocation[on])
        return True


def audit(
    tables: Mapping[str, Mapping[str, Any]], kind: Kind, guarantees: Guarantees, service: int = 0
) -> Audit:
    """Judge a run by its full trace (`MemoryTraces.tables()`), pair by pair. O(publications x interests).

    Kinds whose answers are not made of pairs bring a judge of their own.
    """
    if kind.judge:
        return cast(Audit, registry.load(kind.judge)(tables, kind, guarantees, service))
    found = Audit(guarantees)
    changes = _Changes(tables, kind, service, guarantees.under_loss)
    losses = tables["losses"]
    lost = set() if guarantees.under_loss else set(losses["body"][losses["service"] == service].tolist())
    handled = handled_last(tables)
    got: dict[int, dict[int, int]] = {}  # publication -> client -> deliveries
    deliveries = tables["deliveries"]
    mine = deliveries["service"] == service
    publication, client = (deliveries[name][mine].tolist() for name in ("publication", "client"))
    for p, c in zip(publication, client):
        counts = got.setdefault(p, {})
        counts[c] = counts.get(c, 0) + 1
    found.deliveries = len(publication)

    published = tables["publications"]
    known = set()
    for row in np.flatnonzero(published["service"] == service).tolist():
        p, sent = int(published["publication"][row]), int(published["time_ns"][row])
        known.add(p)
        found.publications += 1
        end = max(handled.get(p, sent), sent)
        _judge(found, changes, kind, p, sent, end, published["values"][row], got.get(p, {}), p in lost)
    for p in got.keys() - known:
        found.unwanted.add(f"publication {message_name(p)}, which nobody published")
    times = (deliveries[name][mine].tolist() for name in ("published_ns", "time_ns"))
    judge_order(found, publication, client, *times)
    return found


def handled_last(tables: Mapping[str, Mapping[str, Any]]) -> dict[int, int]:
    """When a broker last handled something that is, or stands for, each publication."""
    hops = tables["hops"]
    handled: dict[int, int] = {}
    for body, time in zip(hops["body"].tolist(), hops["time_ns"].tolist()):
        handled[body] = max(handled.get(body, -1), time)
    return handled


def _judge(
    found: Audit,
    changes: _Changes,
    kind: Kind,
    p: int,
    sent: int,
    end: int,
    values: Any,
    got: Mapping[int, int],
    lost: bool,
) -> None:
    """All pairs of one publication."""
    must: set[int] = set()
    excused: set[int] = set()
    may: set[int] = set()
    for change in kind.oracle(changes.rows, values):
        client = changes.client[change]
        if changes.issued[change] > end:
            continue
        revocation = changes.revocation.get(change)
        if revocation is not None and changes.settled_before(revocation, sent, end):
            continue
        may.add(client)
        if changes.revoked.get(change, NEVER) <= end:
            continue
        if changes.settled_before(change, sent, end) and not lost:
            must.add(client)
        elif changes.settled_before(change, sent, end, forgive=True):
            excused.add(client)
    for client in sorted(must - got.keys()):
        found.missed.add(f"client {client} got nothing of publication {message_name(p)}, sent at {sent} ns")
    for client, count in sorted(got.items()):
        if client not in may:
            found.unwanted.add(
                f"client {client} got publication {message_name(p)}, sent at {sent} ns, which it did not ask for"
            )
        if count > 1:
            found.duplicated.add(f"client {client} got publication {message_name(p)} {count} times")
    found.forced_yes += len(must)
    found.free += len(may - must)
    found.excused += len((may & excused) - must)
    found.forced_no += len(set(changes.client.values()) - may)


def judge_order(
    found: Audit, publication: list[int], client: list[int], sent: list[int], time: list[int]
) -> None:
    """What one client gets from one publisher comes in the order in which it was sent."""
    first: dict[tuple[int, int], tuple[int, int]] = {}
    for p, c, when, at in zip(publication, client, sent, time):
        if p >= 0:
            first[c, p] = min(first.get((c, p), (at, when)), (at, when))
    pairs: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for (c, p), (at, when) in first.items():
        pairs.setdefault((c, p >> 32), []).append((at, when, p))
    for (c, publisher), rows in pairs.items():
        rows.sort()
        latest = (-1, -1)  # of what came strictly earlier: at one instant the trace keeps no order
        ahead = latest
        now = -1
        for at, when, p in rows:
            if at > now:
                now, latest = at, max(latest, ahead)
            if (when, p) < latest:
                late = f"publication {message_name(p)} of client {publisher}"
                found.out_of_order.add(f"client {c} got {late} after {message_name(latest[1])}")
            ahead = max(ahead, (when, p))


def message_name(publication: int) -> str:
    """37#5 for the sixth message of client 37."""
    return f"{publication >> 32}#{publication & 0xFFFFFFFF}" if publication >= 0 else str(publication)


def audit_run(model: Model, service: int = 0) -> Audit:
    """Run a model and audit one of its services on what its protocol declares."""
    traces = MemoryTraces("full", tables_of(model))
    execute(model, trace=traces)
    spec = model.services[service]
    return audit(
        traces.tables(),
        registry.load(spec.kind_target)(spec.params),
        registry.load(spec.protocol_target).guarantees_for(model.overlay),
        service,
    )


# ---- naming a protocol -------------------------------------------------------------------------------


def target_of(protocol: str | type) -> str:
    """The "module:Class" of a registered name, of a target, or of a class.

    A class that its module does not hold under its name, as one made in a function, is named for this
    process only.
    """
    if isinstance(protocol, str):
        return registry.resolve(protocol, registry.entries(PROTOCOLS, "protocols"), "protocol")
    module = sys.modules.get(protocol.__module__)
    if getattr(module, protocol.__qualname__, None) is protocol and "." not in protocol.__qualname__:
        return f"{protocol.__module__}:{protocol.__qualname__}"
    name = f"local_{protocol.__name__}_{id(protocol):x}"
    setattr(sys.modules[__name__], name, protocol)
    return f"{__name__}:{name}"


def service_of(
    protocol: str | type, name: str = "service", index: str | None = None, **said: Any
) -> ServiceSpec:
    """A service of this protocol: its kind and the kind's default index, and what else is said."""
    target = target_of(protocol)
    kind = registry.load(target).kind
    entry = registry.entries(KINDS, "kinds").get(kind)
    if entry is None:
        raise InvalidInput(f"{target}: there is no kind {kind!r}; known: {', '.join(sorted(KINDS))}")
    index = index or entry.facts.get("default_index")
    said.setdefault("params", registry.load(entry.target).Params().model_dump())
    index_target = None if index is None else registry.resolve(index, INDEXES, "index")
    return ServiceSpec(name, entry.target, target, index_target, **said)


# ---- a few brokers, joined ---------------------------------------------------------------------------


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
        self.kind: Kind = registry.load(spec.kind_target)(spec.params)
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
        guarantees = registry.load(self._spec.protocol_target).guarantees_for(self.model().overlay)
        return audit(self._traces.tables(), self.kind, guarantees)

    def _entity(self, client: int) -> int:
        return self._overlay.nodes + client

    def model(self) -> Model:
        """The model of what was sent so far, to run it in all variants."""
        size = len(self._clients)
        source = SourceSpec(f"{_HERE}:Script", {"emissions": self._sent}, "all")
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
            self._result = execute(self.model(), trace=self._traces, observe=self._observe)
        return self._result

    def _observe(self, shards: Any) -> None:
        protocol = shards.shards[0].protocols[0]
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
    overlay = overlay_of(links, delay_ns)
    at = range(overlay.brokers) if clients is None else clients
    return Joined(overlay, at, service_of(protocol, **service))


# ---- rehearsals: small random models -----------------------------------------------------------------


@dataclass(frozen=True)
class Rehearsal:
    """A small model that strains one thing."""

    name: str
    topology: str
    params: Mapping[str, Any]
    links: Mapping[str, Any]
    cost: Mapping[str, float] = field(default_factory=dict)
    grid_ns: int = 1  # clients act at multiples of this: the coarser, the more ties
    duration_ns: int = 300_000_000
    publications: int = 150
    settled: bool = False

    @property
    def tree(self) -> bool:
        return self.topology in ("line", "star", "balanced-tree", "random-tree")


_UNIFORM = {"delay": {"kind": "uniform", "low_ns": 200_000, "high_ns": 9_000_000}}
_EQUAL = {"delay": {"kind": "constant", "delay_ns": 2_000_000}}

REHEARSALS = (
    Rehearsal("a tree of unequal links", "random-tree", {"nodes": 9}, _UNIFORM),
    Rehearsal(
        "a tree of equal links, ties everywhere",
        "balanced-tree",
        {"branching": 2, "height": 2},
        _EQUAL,
        grid_ns=2_000_000,
    ),
    Rehearsal(
        "a tree with jitter, little bandwidth and brokers in overload",
        "random-tree",
        {"nodes": 8},
        {**_UNIFORM, "jitter_ns": 3_000_000, "bandwidth_bps": 400_000},
        {"base": 2e6, "per_entry": 9e3, "per_match": 5e4, "per_link": 2e4, "per_byte": 100.0},
    ),
    Rehearsal(
        "a tree that loses messages",
        "random-tree",
        {"nodes": 8},
        {**_UNIFORM, "jitter_ns": 1_000_000, "loss": 0.05},
    ),
    Rehearsal("subscriptions that stand from the start", "random-tree", {"nodes": 7}, _UNIFORM, settled=True),
    Rehearsal("a ring of equal links, ties everywhere", "ring", {"nodes": 6}, _EQUAL, grid_ns=2_000_000),
    Rehearsal(
        "a graph with cycles",
        "erdos-renyi",
        {"nodes": 9, "probability": 0.35},
        _UNIFORM,
        {"base": 3e4, "per_match": 5e3},
    ),
)


def rehearse(
    rehearsal: Rehearsal, protocol: str | type, seed: int = 1, clients: int = 14, **service: Any
) -> Model:
    """The model of a rehearsal for one protocol. `service` goes into the service's description."""
    spec = service_of(protocol, **{"cost": dict(rehearsal.cost), **service})
    links = LinkModel.model_validate(dict(rehearsal.links))
    overlay = build(rehearsal.topology, dict(rehearsal.params), links, seed)
    kind = registry.load(spec.kind_target)
    if kind.rehearsal:
        scripted = registry.load(kind.rehearsal)
    elif kind.name in SCRIPTS:
        scripted = SCRIPTS[kind.name]
    else:
        raise InvalidInput(f"the kind {kind.name!r} has no rehearsal; name a function in its attribute `rehearsal`")
    if kind.server:
        overlay = with_servers(overlay, [Server("server", 0, 1_000_000)])
        spec = replace(spec, server=overlay.brokers)
    script = scripted(rehearsal, overlay.nodes, clients, spec.params, seed)
    script["standing"] = script["standing"] if rehearsal.settled else []
    at = [Dice(seed, client, "conformance/broker").below(overlay.brokers) for client in range(clients)]
    source = SourceSpec(f"{_HERE}:Script", script, "all")
    return Model(
        rehearsal.name,
        seed,
        rehearsal.duration_ns,
        overlay,
        np.array(at, np.int32),
        {"all": (0, clients)},
        [replace(spec, settled=rehearsal.settled, sources=[source])],
        sample_every_ns=50_000_000,
    )


class Dice:
    """Plain draws from one named stream."""

    def __init__(self, seed: int, entity: int, purpose: str) -> None:
        self._key = draws.stream(seed, entity, purpose)
        self._count = 0

    def below(self, limit: int) -> int:
        self._count += 1
        return int(draws.bits(self._key, self._count)) % limit


def _content_script(
    rehearsal: Rehearsal, brokers: int, clients: int, params: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """Subscriptions nested in each other, half of them taken back, and publications all along.

    Values and bounds lie on a grid of tenths, so that ends of ranges are hit exactly.
    """
    attributes = int(params["attributes"])
    grid, end = rehearsal.grid_ns, rehearsal.duration_ns
    subscribed: list[tuple[int, int, int, list[float]]] = []
    revoked: list[tuple[int, int, int]] = []
    standing: list[tuple[int, int, int, list[float]]] = []
    for client in range(0, clients, 2):
        dice = Dice(seed, brokers + client, "conformance/interests")
        for number in range(5):
            row: list[float] = []
            for attribute in sorted({dice.below(min(attributes, 2)) for _ in range(2)}):
                low = dice.below(8)
                row += [attribute, low / 10, (low + 1 + dice.below(10 - low)) / 10]
            row += [np.nan] * (6 - len(row))
            id_ = ((brokers + client) << 32) | number
            if rehearsal.settled and number < 3:
                begun = 0
                standing.append((0, client, id_, row))
            else:
                begun = 1 + dice.below(end // 2 if number else end // 8)
                begun += -begun % grid
                subscribed.append((begun, client, id_, row))
            if number % 2:
                ended = begun + 1 + dice.below(end // 3)
                revoked.append((ended + -ended % grid, client, id_))
    published = []
    dice = Dice(seed, 0, "conformance/publications")
    for _ in range(rehearsal.publications):
        at = 1 + dice.below(end - grid)
        values = [float(dice.below(11)) / 10 if dice.below(12) else np.nan for _ in range(attributes)]
        published.append((at + -at % grid, dice.below(clients), 0, values))
    return {
        "emissions": [
            {"type": 0, **columns(sorted(published, key=lambda m: m[:2]))},
            {"type": 1, **columns(sorted(subscribed, key=lambda m: m[:2]))},
            {"type": 2, **columns(sorted(revoked))},
        ],
        "standing": [{"type": 1, **columns(standing)}] if standing else [],
    }


def columns(messages: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Messages (time, client, word[, row]) as the columns that `Script` takes."""
    names = ("time", "client", "word")
    found: dict[str, Any] = {name: [m[i] for m in messages] for i, name in enumerate(names)}
    if messages and len(messages[0]) > 3:
        found["rows"] = [m[3] for m in messages]
    return found


# What clients do in a rehearsal, by kind: (rehearsal, brokers, clients, service's params, seed) to a script.
Scripted = Callable[[Rehearsal, int, int, Mapping[str, Any], int], dict[str, Any]]
SCRIPTS: dict[str, Scripted] = {"content": _content_script}


# ---- the command -------------------------------------------------------------------------------------


def report(
    protocol: str | type, seeds: Sequence[int] = (1, 2), trees_only: bool = False, **service: Any
) -> tuple[bool, str]:
    """Ask a protocol everything on small overlays: whether it passed, and what to read."""
    lines = []
    passed = True
    for rehearsal in REHEARSALS:
        if trees_only and not rehearsal.tree:
            continue
        for seed in seeds:
            model = rehearse(rehearsal, protocol, seed, **service)
            lines.append(f"{rehearsal.name} ({model.overlay.brokers} brokers, seed {seed})")
            try:
                ways = variants(model)
                found = check_digests(model, ways)
                judged = audit_run(model)
            except Exception as error:  # of the protocol, which may raise anything
                lines.append(f"  failed: {_said(error)}")
                passed = False
                continue
            lines.append(f"  {len(ways) - len(found)} of {len(ways)} ways of running it give the same trace")
            lines += [f"  {way}: {told}" for way, _, told in found[:3]]
            lines.append(f"  {judged}")
            passed = passed and not found and judged.verdict == "correct"
    lines.append(f"{target_of(protocol)} {'passed' if passed else 'did not pass'}")
    return passed, "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m protocols.conformance package.module:Class`"""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m protocols.conformance", description="Check a protocol.")
    parser.add_argument("protocol", help="a registered name, or package.module:Class")
    parser.add_argument("--seeds", type=int, default=2, help="random overlays of each sort")
    parser.add_argument("--trees-only", action="store_true", help="leave out graphs with cycles")
    given = parser.parse_args(arguments)
    try:
        passed, text = report(given.protocol, range(1, given.seeds + 1), given.trees_only)
    except BrokerlabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(text)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
