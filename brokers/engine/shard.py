"""A shard: the brokers that one actor carries, advanced window by window.

One window: take in what other shards sent, let the clock emit what clients send before the window's end,
then rounds until nothing before the end is left. A round gathers what has reached each broker before its
horizon (kernels.gather), hands each service its part, and settles the answers (kernels.settle). At the end,
what goes to other shards is packed into one blob per peer.

The same object runs in this process and inside a Ray actor.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers import names
from brokers.bodies import Bodies
from brokers.columns import taken_over
from brokers.contract import (
    NEVER,
    Batch,
    BrokerProtocol,
    CostModel,
    Interests,
    Ints,
    Kind,
    LinkTable,
    ShardEnv,
    ShardProtocol,
    SourceContext,
)
from brokers.engine import checkpoint
from brokers.engine import kernels as K
from brokers.engine.adaptor import PlainAdaptor
from brokers.engine.causes import Causes
from brokers.engine.checkpoint_check import seconds_of
from brokers.engine.clock import Clock
from brokers.engine.exchange import Outbox, unpack
from brokers.engine.inputs import Inputs
from brokers.engine.lanes import Lanes
from brokers.engine.model import Model, ServiceSpec
from brokers.engine.out import (
    Out,
    Scratch,
    collect_costs,
    collect_deliveries,
    collect_sends,
    collect_timers,
)
from brokers.errors import BrokerlabError, InvalidInput, ProtocolFault
from topology import draws

SERVICES_MAX = 256  # a service's number travels in eight bits

NONE = range(0)  # no sample is due
_SAMPLE_ROWS = 1 << 16  # rows of samples that are written at once

MODES = {"horizon": K.MODE_HORIZON, "one": K.MODE_ONE, "random": K.MODE_RANDOM}


@dataclass(frozen=True)
class Cutting:
    """How a shard cuts what reached its brokers into batches. Never shows in a trace; tests vary it."""

    mode: str = "horizon"  # "one": one event at a time, the oracle; "random": cut at random
    limit: int = 8192  # events per batch: the columns of a batch stay in the second-level cache
    seed: int = 0


@dataclass
class Window:
    """What a shard reports after a window."""

    next_time: int  # the next thing known to happen here
    sent_first: int  # the earliest arrival among what went to other shards
    events: int
    in_flight: int
    wall_ns: int
    cpu_ns: int
    rounds: int
    blob_bytes: int = 0


@dataclass
class ShardResult:
    """What a shard contributes to the run's result."""

    local: NDArray[np.int64]  # broker numbers
    broker_state: NDArray[np.int64]
    link: NDArray[np.int64]  # directed links that leave local brokers
    link_state: NDArray[np.int64]
    histogram: NDArray[np.int64]
    totals: NDArray[np.int64]
    seconds: NDArray[np.int64]
    cause_key: NDArray[np.int64]
    causes: NDArray[np.int64]
    changes: list[dict[str, Any]]  # columns, one part per emission
    dependencies: NDArray[np.int64]  # (change, on change)
    leanings: NDArray[np.int64]  # (service, interest, on interest)
    publications: NDArray[np.int64]  # per service
    in_flight: int


class Shard:
    """See the module. `assignment` says which shard carries each broker."""

    def __init__(
        self,
        model: Model,
        number: int,
        assignment: NDArray[np.int32],
        trace: Any,
        cutting: Cutting | None = None,
        resume: str | None = None,
    ) -> None:
        self.model = model
        self.number = number
        self.trace = trace
        self.peers = int(assignment.max()) + 1
        self.brokers = model.overlay.nodes
        self.local = np.ascontiguousarray(assignment == number)
        self.client_broker = model.client_broker
        self._resuming = resume is not None
        self._set_up_links(assignment)
        self._set_up_brokers()
        self._set_up_batch(cutting or Cutting())
        self._set_up_services()
        self._set_up_results()
        if resume is None:
            self._start_timers()
        else:
            self.restore(resume)

    # ---- setting up ----------------------------------------------------------------------------------

    def _set_up_links(self, assignment: NDArray[np.int32]) -> None:
        overlay = self.model.overlay
        self.links = LinkTable.of(overlay)
        links = self.links.source.size
        self._peer_of_link = assignment[self.links.target]
        self._facts = np.zeros((links, K.LINK_FACTS), np.int64)
        self._facts[:, K.F_DELAY] = self.links.delay_ns
        self._facts[:, K.F_JITTER] = np.repeat(overlay.jitter_ns, 2)
        self._facts[:, K.F_BANDWIDTH] = np.repeat(overlay.bandwidth_bps, 2)
        self._facts[:, K.F_TARGET] = self.links.target
        self._facts[:, K.F_LOCAL] = self.local[self.links.target]
        self._link_state = np.zeros((links, K.LINK_STATE), np.int64)
        loss = np.repeat(overlay.loss, 2)
        self._loss_limit = np.array([int(p * 2.0**64) for p in loss], np.uint64)
        ends = (self.links.source.astype(np.int64) << 32) | self.links.target
        self._loss_key = draws.streams(draws.purpose_key(self.model.seed, "link/loss"), ends)
        self._jitter_key = draws.streams(draws.purpose_key(self.model.seed, "link/jitter"), ends)

    def _set_up_brokers(self) -> None:
        brokers = self.brokers
        self._broker_state = np.zeros((brokers, K.BROKER_STATE), np.int64)
        self._nxt = np.full(brokers, NEVER, np.int64)
        self._horizon = np.zeros(brokers, np.int64)
        self._frontier = np.zeros(brokers, np.int64)
        self._in_start = self.links.in_start
        self._in_link = self.links.in_link
        sources = self.links.source[self._in_link].astype(np.int64)
        self._in_source = np.where(self.local[sources], sources, -1 - sources)
        self._in_delay = self.links.delay_ns[self._in_link]
        patience = np.full(brokers, NEVER, np.int64)
        np.minimum.at(patience, self.links.target, self.links.delay_ns)
        self._patience = patience // 2

        self._lanes = Lanes(self.links.source.size, brokers)
        fan = int(np.diff(self._in_start).max(initial=0)) + 3
        self._lane_time = np.empty(fan, np.int64)
        self._lane_order = np.empty(fan, np.int64)
        self._lane_id = np.empty(fan, np.int64)

    def _set_up_batch(self, cutting: Cutting) -> None:
        self._limit = cutting.limit
        self._mode = MODES[cutting.mode]
        self._cut_key = draws.stream(cutting.seed, 0, "cut")
        self._cut_count = 0
        self._cursor = 0
        self._wide = np.zeros((4, cutting.limit), np.int64)
        self._narrow = np.zeros((7, cutting.limit), np.int32)
        self._finish = np.zeros(cutting.limit, np.int64)
        self._cost = np.zeros(cutting.limit, np.int64)
        self._scratch = Scratch()
        self._loss_rows = np.empty((256, 2), np.int64)
        self._outbox = Outbox()

    def _set_up_services(self) -> None:
        model = self.model
        if len(model.services) > SERVICES_MAX:
            raise InvalidInput(f"{len(model.services)} services; a run has at most {SERVICES_MAX}")
        self.kinds: list[Kind] = [names.load_as("kinds", s.kind_target)(s.params) for s in model.services]
        self.bodies = Bodies(self.kinds, self.number)
        self.bodies.shared = self.peers > 1
        self._causes = Causes()
        self._inputs = Inputs(model, self.brokers, self.kinds, self.bodies, self._causes, self.trace)
        self.protocols: list[ShardProtocol] = []
        self._outs: list[Out] = []
        self._batches: list[Batch] = []
        self._clock = Clock(self._inputs.stage)
        costs = [CostModel(**s.cost) for s in model.services]
        self._cost_model = np.array([list(c) for c in costs], np.float64).reshape(len(costs), 5)
        self._queueing = bool((self._cost_model != 0).any())
        for i, spec in enumerate(model.services):
            self._add_service(i, spec, costs[i])
        declared = [protocol.timer_min_by_broker() for protocol in self.protocols]
        self._timer_min = np.array(declared, np.int64).reshape(-1, self.brokers)  # by service and broker
        self._shortest_timer = self._timer_min.min(axis=0, initial=NEVER)
        self._unfinished: list[tuple[NDArray[Any], Ints]] = []

    def _set_up_results(self) -> None:
        model = self.model
        self._dependencies: set[tuple[int, int]] = set()  # (change, on change)
        self._leanings: set[tuple[int, int, int]] = set()  # (service, interest, on interest)
        self._finish_by = model.duration_ns + model.drain_ns
        self._seconds = np.zeros(seconds_of(model), np.int64)
        services = len(model.services)
        self._histogram = np.zeros((services, K.BUCKETS), np.int64)
        self._totals = np.zeros((services, K.TOTALS), np.int64)
        self.in_flight = 0
        self._sent = 0  # messages in the blobs of the last window, which nobody has taken in yet
        self.now = 0
        self._since_sweep = 0

    def _add_service(self, number: int, spec: ServiceSpec, cost: CostModel) -> None:
        model = self.model
        kind = self.kinds[number]
        publishers = [model.groups[s.group] for s in spec.sources if s.publishes]
        clients = (
            np.concatenate([np.arange(a, a + n) for a, n in publishers])
            if publishers
            else np.zeros(0, np.int64)
        )
        protocol: Any = names.load_as("protocols", spec.protocol_target)
        options: Any = spec.options
        if getattr(protocol, "Options", None) is not None:
            options = protocol.Options(**spec.options)
        index = names.load_as("indexes", spec.index_target) if spec.index_target else None
        env = ShardEnv(
            seed=model.seed,
            service=number,
            kind=kind,
            options=options,
            overlay=model.overlay,
            local=self.local,
            client_broker=self.client_broker,
            duration_ns=model.duration_ns,
            cost=cost,
            bodies=self.bodies,
            causes=self._causes,
            publisher_brokers=np.unique(self.client_broker[clients]).astype(np.int32),
            tables=spec.tables,
            new_index=None if index is None else lambda: kind.new_index(index),
            links=self._links_of(spec),
            server=spec.server,
        )
        protocol = checkpoint.protocol_class(spec)
        built: ShardProtocol
        if issubclass(protocol, BrokerProtocol):
            built = PlainAdaptor(env, protocol, runs=spec.view != "message")
        elif issubclass(protocol, ShardProtocol):
            built = protocol(env)
        else:
            raise InvalidInput(
                f"service {spec.name!r}: {spec.protocol_target!r} is neither a BrokerProtocol nor a ShardProtocol"
            )
        self.protocols.append(built)
        self._outs.append(Out(number, self.bodies, cost))
        self._batches.append(Batch())
        for n, source in enumerate(spec.sources):
            first, count = model.groups[source.group]
            numbers = np.arange(first, first + count, dtype=np.int64)
            made = names.load_as("workloads", source.target)(
                source.params,
                SourceContext(
                    seed=model.seed,
                    service=number,
                    source=n,
                    clients=numbers[self.local[self.client_broker[numbers]]],
                    entity_base=self.brokers,
                    population=count,
                    duration_ns=model.duration_ns,
                    settled=spec.settled,
                    service_params=spec.params,
                    client_broker=self.client_broker,
                    kind=kind,
                ),
            )
            # A resumed shard gets what stands, and what has come and gone since, from the checkpoint.
            if spec.settled and not self._resuming and hasattr(made, "standing"):
                for emission in made.standing(numbers):
                    built.stand(Interests(emission.word, emission.client, emission.rows, emission.objects))
                    self._inputs.note_standing(number, emission, self.local)
            self._clock.add(number, n, made)

    def _links_of(self, spec: ServiceSpec) -> LinkTable:
        """The links that a service may use: none to another service's server."""
        overlay = self.model.overlay
        servers = range(overlay.brokers, overlay.nodes)
        others = frozenset(servers) - {spec.server}
        return LinkTable.of(overlay, others) if others else self.links

    def _start_timers(self) -> None:
        for service, protocol in enumerate(self.protocols):
            for broker, delay, type_, word in protocol.first_timers():
                if delay < max(1, int(self._timer_min[service, broker])):
                    raise ProtocolFault(
                        f"service {service}: a first timer of {delay} ns is below timer_min_ns"
                    )
                lane = self._lanes.links + broker
                self._lanes.reserve(np.array([lane]))
                state = self._broker_state[broker]
                K.push_timer(
                    self._lanes.table,
                    self._lanes.arena,
                    lane,
                    delay,
                    int(state[K.B_SEQUENCE]),
                    word,
                    K.pack_event(-1, type_, service),
                    -1,
                )
                state[K.B_SEQUENCE] += 1
                self._nxt[broker] = min(self._nxt[broker], delay)
                self.in_flight += 1

    # ---- a window ------------------------------------------------------------------------------------

    def next_time(self) -> int:
        """The time of the next thing known to happen in this shard."""
        return min(int(self._nxt.min(initial=NEVER)), self._inputs.first, self._clock.next_wake())

    def window(self, end: int, blobs: list[bytes], samples: range = NONE) -> tuple[Window, list[bytes]]:
        """Advance to `end`. `blobs` is what other shards packed for this one.

        `samples` are the times at which to sample, the last of them `end`; if there are several, nothing happens from
        the first of them on.
        """
        collecting = gc.isenabled()
        gc.disable()  # what a batch makes dies with it; looking for cycles in it took half the time of on_message
        try:
            return self._window(end, blobs, samples)
        finally:
            if collecting:
                gc.enable()

    def _window(self, end: int, blobs: list[bytes], samples: range) -> tuple[Window, list[bytes]]:
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        handled = int(self._broker_state[:, K.B_HANDLED].sum())
        for blob in blobs:
            if blob:
                self._take_in(blob)
        self._clock.advance(end)
        self.in_flight += self._inputs.admit(self.now, end, self._nxt)
        rounds = 0
        while True:
            # fmt: off
            size, self._cursor = K.gather(
                end, self._limit, self._cursor, self._mode, self._cut_key, self._cut_count, self._shortest_timer,
                self._nxt, self._horizon, self._frontier, self.local, self._patience,
                self._in_start, self._in_link, self._in_source, self._in_delay, self._lanes.table, self._lanes.arena,
                self._inputs.rows, self._inputs.at, self._inputs.end, self._wide, self._narrow,
                self._lane_time, self._lane_order, self._lane_id,
            )
            # fmt: on
            if size == 0:
                break
            self._cut_count += self.brokers
            self._round(size)
            rounds += 1
        self.now = end
        if samples:
            self._sample(samples)
        self.in_flight -= self._outbox.used
        self._sent = self._outbox.used
        packed, first = self._outbox.pack(self.peers, self._peer_of_link, self.bodies, self._causes)
        self._since_sweep += rounds
        if self._since_sweep > 16:
            self._since_sweep = 0
            self.bodies.sweep([p.held() for p in self.protocols])
        report = Window(
            self.next_time(),
            first,
            int(self._broker_state[:, K.B_HANDLED].sum()) - handled,
            self.in_flight,
            time.perf_counter_ns() - wall,
            time.process_time_ns() - cpu,
            rounds,
            sum(map(len, packed)),
        )
        return report, packed

    def _round(self, size: int) -> None:
        wide, narrow = self._wide, self._narrow
        cost = self._cost[:size]
        cost[:] = 0
        outs = self._handle(size)
        with _understood("sends, timers and costs"):
            sends = collect_sends(outs, size, narrow, wide, self._scratch)
            timers = collect_timers(outs, size, narrow, self._scratch)
            collect_costs(outs, cost)
        if sends.count:
            links = sends.link
            if links.min() < 0 or links.max() >= self._facts.shape[0]:
                raise ProtocolFault(
                    f"a send names link {int(links.max())}; there are links 0 to {self._facts.shape[0] - 1}"
                )
            self._lanes.reserve(links)
            if self.peers > 1:
                self._outbox.reserve(sends.count)
            if sends.count > len(self._loss_rows):
                self._loss_rows = np.empty((2 * sends.count, 2), np.int64)
        if timers.count:
            self._lanes.reserve(self._lanes.links + narrow[K.N_BROKER, timers.event].astype(np.int64))
        bodies = self.bodies
        # fmt: off
        code, detail, used, moved, lost = K.settle(
            size, wide, narrow, cost, self._cost_model, self._queueing, self._finish,
            sends.count, sends.event, sends.link, sends.copy,
            sends.type, sends.body, sends.word, sends.size, sends.cause,
            timers.count, timers.event, timers.delay, timers.type, timers.body, timers.word, timers.cause,
            self._timer_min, self._facts, self._link_state,
            self._loss_limit, self._loss_key, self._jitter_key, self.links.source,
            self._broker_state, self._frontier, self._nxt, self._lanes.table, self._lanes.arena,
            self._outbox.rows, self._outbox.used, bodies.hash, bodies.size, bodies.refs,
            self._causes.counts, self._causes.key, self._seconds, self._loss_rows,
        )
        # fmt: on
        self._outbox.used = used
        self.in_flight += moved
        if code != K.OK:
            self._fail(code, detail, sends, timers)
        finish = self._finish[:size]
        with _understood("deliveries"):
            deliveries = collect_deliveries(outs, size, narrow)
        if deliveries is not None:
            self._deliver(*deliveries, finish)
        with _understood("what depends and leans on what"):
            for _, out in outs:
                if out.dependencies:
                    self._dependencies.update(_pairs(out.dependencies))
                if out.leanings:
                    self._leanings.update((out.service, a, b) for a, b in _pairs(out.leanings))
        if self._queueing:
            self._unfinished.append((narrow[K.N_BROKER, :size].copy(), finish.copy()))
        for rows, out in outs:
            with _understood("rows of its kind's tables"):
                for table, event, columns in out.records:
                    self._trace_record(table, event if rows is None else rows[event], out.service, columns)
        if self.trace.wants("hops"):
            self._trace_hops(size, finish)
        if lost and self.trace.wants("losses"):
            self._trace_losses(lost, sends)

    def _handle(self, size: int) -> list[tuple[NDArray[Any] | None, Out]]:
        """Give each service its part of the batch; returns (rows of the shard's batch or None for all, answers)."""
        wide, narrow = self._wide, self._narrow
        if len(self.protocols) == 1:
            parts: list[tuple[int, NDArray[Any] | None]] = [(0, None)]
        else:
            service = narrow[K.N_SERVICE, :size]
            present = np.flatnonzero(np.bincount(service, minlength=len(self.protocols)))
            parts = (
                [(int(s), None) for s in present]
                if present.size == 1
                else [(int(s), np.flatnonzero(service == s)) for s in present]
            )
        outs: list[tuple[NDArray[Any] | None, Out]] = []
        for s, rows in parts:
            batch = self._batches[s]
            batch.rows = rows
            batch._starts = None
            if rows is None:
                batch.size = size
                batch.time, batch.source, batch.sequence, batch.word = wide[:, :size]
                batch.broker, batch.kind, batch.link, batch.type, _, batch.body, batch.cause = narrow[
                    :, :size
                ]
            else:
                batch.size = rows.size
                batch.time, batch.source, batch.sequence, batch.word = wide[:, rows]
                batch.broker, batch.kind, batch.link, batch.type, _, batch.body, batch.cause = narrow[:, rows]
            out = self._outs[s]
            out.begin(batch)
            try:
                self.protocols[s].handle(batch, out)
            except InvalidInput as error:  # a body that cannot be sent, say: not the scenario's fault
                raise ProtocolFault(
                    f"service {self.model.services[s].name!r}: its protocol: {error}"
                ) from error
            except BrokerlabError:
                raise
            except (Exception, SystemExit) as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                raise ProtocolFault(
                    f"service {self.model.services[s].name!r}: its protocol raised {type(error).__name__}: {error} "
                    f"({Path(where.filename).name}:{where.lineno}, in {where.name})"
                ) from error
            outs.append((rows, out))
        return outs

    def _fail(self, code: int, detail: int, sends: Any, timers: Any) -> None:
        if code == K.LATE_MESSAGE:
            link = int(sends.link[detail])
            raise ProtocolFault(
                f"lookahead violated: a message over {self._link_name(link)} would land behind what its target has "
                f"handled ({self._frontier[self.links.target[link]]} ns)"
            )
        if code == K.WRONG_LINK:
            link, event = int(sends.link[detail]), int(sends.event[detail])
            broker = int(self._narrow[K.N_BROKER, event])
            raise ProtocolFault(
                f"broker {self.model.overlay.names[broker]} ({broker}) sent over {self._link_name(link)}, "
                "which is not one of its own"
            )
        if code == K.TIMER_TOO_SOON:
            event = timers.event[detail]
            service, broker = int(self._narrow[K.N_SERVICE, event]), int(self._narrow[K.N_BROKER, event])
            raise ProtocolFault(
                f"service {self.model.services[service].name!r} set a timer of {int(timers.delay[detail])} ns, "
                f"below its declared timer_min_ns of {int(self._timer_min[service, broker])} ns (and at least 1 ns)"
            )
        if code == K.BAD_COST:
            charged = int(self._cost[detail])
            if charged < 0:
                raise ProtocolFault(f"an event was charged a negative service time ({charged} ns)")
            broker = self.model.overlay.names[self._narrow[K.N_BROKER, detail]]
            raise ProtocolFault(
                f"the service of a message at broker {broker} would end beyond "
                f"{NEVER / 1e9:.3g} s of simulated time: check the cost model, and what the protocol charges"
            )
        raise ProtocolFault("an output names an event outside its batch")

    def _link_name(self, link: int) -> str:
        names = self.model.overlay.names
        return f"link {link} ({names[self.links.source[link]]} to {names[self.links.target[link]]})"

    def _deliver(self, event: Ints, client: Ints, body: Ints, finish: Ints) -> None:
        narrow, bodies = self._narrow, self.bodies
        broker = narrow[K.N_BROKER, event]
        bad = (client < 0) | (client >= self.client_broker.size)
        if not bad.any():
            bad = self.client_broker[client] != broker
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            raise ProtocolFault(
                f"broker {int(broker[i])} delivered to client {int(client[i])}, which is not attached to it"
            )
        # fmt: off
        K.deliver(
            event, client, body, finish, self._wide, narrow, bodies.hash, bodies.time, self._broker_state,
            self._seconds, self._histogram, self._totals,
        )
        # fmt: on
        if self.trace.wants("deliveries"):
            known = np.maximum(body, 0)
            self.trace.write(
                "deliveries",
                service=narrow[K.N_SERVICE, event].astype(np.int16),
                publication=np.where(body >= 0, bodies.key[known], -1),
                broker=broker,
                client=self.brokers + client,
                published_ns=np.where(body >= 0, bodies.time[known], -1),
                time_ns=finish[event],
            )

    def _trace_record(self, table: str, event: Any, service: int, columns: dict[str, Any]) -> None:
        if table not in self.kinds[service].tables:
            raise ProtocolFault(
                f"service {self.model.services[service].name!r} writes to the trace table {table!r}, which its kind "
                f"does not declare (it declares {', '.join(self.kinds[service].tables) or 'none'})"
            )
        at = np.atleast_1d(np.asarray(event, np.int64))
        self.trace.write(
            table,
            service=np.int16(service),
            broker=self._narrow[K.N_BROKER, at],
            time_ns=self._wide[K.W_TIME, at],
            **columns,
        )

    def _trace_hops(self, size: int, finish: Ints) -> None:
        wide, narrow = self._wide[:, :size].copy(), self._narrow[:, :size].copy()
        body, cause, link = narrow[K.N_BODY], narrow[K.N_CAUSE], narrow[K.N_LINK]
        self.trace.write(
            "hops",
            broker=narrow[K.N_BROKER],
            time_ns=wide[K.W_TIME],
            kind=narrow[K.N_KIND].astype(np.int8),
            source=wide[K.W_SOURCE],
            sequence=wide[K.W_SEQUENCE],
            link=np.where(link >= 0, link ^ 1, -1),
            service=narrow[K.N_SERVICE].astype(np.int16),
            type=narrow[K.N_TYPE].astype(np.int8),
            body=np.where(body >= 0, self.bodies.key[np.maximum(body, 0)], -1),
            word=wide[K.W_WORD],
            cause=self._causes.keys(cause),
            finish_ns=finish.copy(),
        )

    def _trace_losses(self, lost: int, sends: Any) -> None:
        at, when = self._loss_rows[:lost, 0], self._loss_rows[:lost, 1].copy()
        event = sends.event[at]
        body = (self._narrow[K.N_BODY, event] if sends.copy else sends.body[at]).astype(np.int64)
        cause = (self._narrow[K.N_CAUSE, event] if sends.copy else sends.cause[at]).astype(np.int64)
        self.trace.write(
            "losses",
            link=sends.link[at].astype(np.int32),
            time_ns=when,
            service=self._narrow[K.N_SERVICE, event].astype(np.int16),
            type=(self._narrow[K.N_TYPE, event] if sends.copy else sends.type[at]).astype(np.int8),
            body=np.where(body >= 0, self.bodies.key[np.maximum(body, 0)], -1),
            cause=self._causes.keys(cause),
        )

    def queue_lengths(self, at: int) -> Ints:
        """How many handled messages of each broker are not finished at time `at`."""
        counts = np.zeros(self.brokers, np.int64)
        keep: list[tuple[NDArray[Any], Ints]] = []
        for broker, finish in self._unfinished:
            open_ = finish > at
            if open_.any():
                keep.append((broker[open_], finish[open_]))
                counts += np.bincount(broker[open_], minlength=self.brokers)
        self._unfinished = keep
        return counts

    def backlog_ns(self, at: int) -> Ints:
        """Service time that each broker still owes at time `at` for what it has handled."""
        return np.maximum(self._broker_state[:, K.B_BUSY] - at, 0)

    def _sample(self, samples: range) -> None:
        """Write samples: of a quiet stretch in blocks, since then queues only drain, and tables stay as they are."""
        if not self.trace.wants("samples"):
            self._unfinished = [p for p in self._unfinished if (p[1] > samples[-1]).any()]
            return
        mine = np.flatnonzero(self.local)
        services = len(self.protocols)
        entries = np.concatenate([protocol.entries()[mine] for protocol in self.protocols])
        service = np.repeat(np.arange(services), mine.size)
        at_once = max(1, _SAMPLE_ROWS // max(1, entries.size))
        while samples:
            block, samples = samples[:at_once], samples[at_once:]
            queued = np.zeros((len(block), mine.size), np.int32)
            backlog = np.zeros((len(block), mine.size), np.int64)
            for row, at in enumerate(block):
                backlog[row] = self.backlog_ns(at)[mine]
                queued[row] = self.queue_lengths(at)[mine]
                if not self._unfinished and not backlog[row].any():
                    break
            self.trace.write(
                "samples",
                time_ns=np.repeat(np.array(block, np.int64), entries.size),
                broker=np.tile(mine.astype(np.int32), len(block) * services),
                backlog_ns=np.tile(backlog, services).ravel(),
                queued=np.tile(queued, services).ravel(),
                service=np.tile(service, len(block)),
                entries=np.tile(entries, len(block)),
            )

    def _take_in(self, blob: bytes) -> None:
        """Put what another shard sent onto the links."""
        rows, links = unpack(blob, self.bodies, self._causes)
        self._lanes.reserve(links)
        late = K.push_arrivals(
            rows, links, self.links.target, self._lanes.table, self._lanes.arena, self._nxt, self._frontier
        )
        if late >= 0:
            link = int(links[late])
            raise ProtocolFault(
                f"lookahead violated: a message over {self._link_name(link)} for {int(rows[late, K.M_TIME])} ns "
                "came when its target had handled everything up to "
                f"{int(self._frontier[self.links.target[link]])} ns"
            )
        self.in_flight += len(rows)

    def checkpoint(self, folder: str, number: int, blobs: list[bytes]) -> int:
        """Keep everything up to `now`, with what other shards have sent; returns bytes. Call between windows."""
        for blob in blobs:
            if blob:
                self._take_in(blob)
        self._sent = 0
        self.trace.commit(number)
        return checkpoint.write_shard(folder, self.number, checkpoint.capture(self))

    def restore(self, folder: str) -> None:
        """Go on from a checkpoint, whatever shards it was taken over. For a fresh shard only."""
        with taken_over(folder):
            checkpoint.restore(self, checkpoint.read_shards(folder))

    # ---- the end -------------------------------------------------------------------------------------

    def finish(self) -> ShardResult:
        """Close the trace and hand over what the run's result is made of."""
        mine = np.flatnonzero(self.local)
        links = np.flatnonzero(self.local[self.links.source])
        used = self._causes.used
        return ShardResult(
            local=mine,
            broker_state=self._broker_state[mine],
            link=links,
            link_state=self._link_state[links],
            histogram=self._histogram,
            totals=self._totals,
            seconds=self._seconds,
            cause_key=self._causes.key[:used].copy(),
            causes=self._causes.counts[:used].copy(),
            changes=self._inputs.changes,
            dependencies=np.array(sorted(self._dependencies), np.int64).reshape(-1, 2),
            leanings=np.array(sorted(self._leanings), np.int64).reshape(-1, 3),
            publications=self._inputs.publications,
            in_flight=self.in_flight + self._sent,
        )


@contextmanager
def _understood(what: str) -> Iterator[None]:
    """What a protocol answered is numbers, or its fault."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise ProtocolFault(f"what a protocol answered are no numbers as {what} have them: {error}") from error


def _pairs(calls: list[tuple[Any, Any]]) -> Iterator[tuple[int, int]]:
    """What protocols noted as depending on what, one pair at a time; -1 stands for nothing."""
    for first, second in calls:
        ones, others = np.broadcast_arrays(
            np.atleast_1d(np.asarray(first, np.int64)), np.atleast_1d(np.asarray(second, np.int64))
        )
        for pair in zip(ones.tolist(), others.tolist()):
            if -1 not in pair:
                yield pair
