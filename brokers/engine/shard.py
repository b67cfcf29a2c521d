"""A shard: the brokers that one actor carries, advanced window by window.

One window: take in what other shards sent, let the clock emit what clients send before the window's end,
then rounds until nothing before the end is left. A round gathers what has reached each broker before its
horizon (kernels.gather), hands each service its part, and settles the answers (kernels.settle). At the end,
what goes to other shards is packed into one blob per peer.

The same object runs in this process and inside a Ray actor.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers import registry
from brokers.bodies import Bodies
from brokers.contract import (
    NEVER, Batch, BrokerProtocol, CostModel, Emission, Interests, Ints, Kind, LinkTable, ShardEnv, ShardProtocol,
    SourceContext,
)
from brokers.engine import kernels as K
from brokers.engine.adaptor import PlainAdaptor
from brokers.engine.clock import Clock
from brokers.engine.model import Model, ServiceSpec
from brokers.engine.out import (
    Out, Scratch, collect_costs, collect_deliveries, collect_sends, collect_timers,
)
from brokers.errors import InvalidInput, ProtocolFault
from brokers.wire import decode_frame, encode_frame
from topology import draws

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
    changes: dict[str, Any]
    dependencies: NDArray[np.int64]
    publications: NDArray[np.int64]  # per service
    in_flight: int
    tables: dict[str, Any] = field(default_factory=dict)
    files: list[dict[str, Any]] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)


class Shard:
    """See the module. `assignment` says which shard carries each broker."""

    def __init__(
        self, model: Model, number: int, assignment: NDArray[np.int32], trace: Any, cutting: Cutting | None = None
    ) -> None:
        cutting = cutting or Cutting()
        self.model = model
        self.number = number
        self.trace = trace
        self.peers = int(assignment.max()) + 1
        overlay = model.overlay
        brokers = len(overlay.names)
        self.brokers = brokers
        self.local = np.ascontiguousarray(assignment == number)
        self.links = LinkTable.of(overlay)
        links = self.links.source.size
        self._assignment = assignment

        # -- links
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
        self._loss_key = draws.streams(draws.purpose_key(model.seed, "link/loss"), ends)
        self._jitter_key = draws.streams(draws.purpose_key(model.seed, "link/jitter"), ends)

        # -- brokers
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

        # -- lanes: one per directed link, one per broker for timers
        lanes = links + brokers
        small = 8
        self._lanes = np.zeros((lanes, 4), np.int64)
        self._lanes[:, K.R_OFFSET] = np.arange(lanes) * small
        self._lanes[:, K.R_CAPACITY] = small
        self._arena_used = lanes * small
        self._arena = np.zeros((max(2 * self._arena_used, 4096), K.ROW), np.int64)
        self._wanted = np.zeros(lanes, np.int64)
        fan = int(np.diff(self._in_start).max(initial=0)) + 3
        self._lane_time = np.empty(fan, np.int64)
        self._lane_order = np.empty(fan, np.int64)
        self._lane_id = np.empty(fan, np.int64)

        # -- batch
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
        self._outbox = np.zeros((256, K.OUT_ROW), np.int64)
        self._outbox_used = 0

        # -- clients and inputs
        self.client_broker = model.client_broker
        self._client_sequence = np.zeros(self.client_broker.size, np.int64)
        self._local_client = self.local[self.client_broker] if self.client_broker.size else np.zeros(0, np.bool_)
        self._staged: list[tuple[int, int, Emission]] = []
        self._staged_first = NEVER
        self._inputs = np.zeros((1, K.INPUT), np.int64)
        self._input_at = np.zeros(brokers, np.int64)
        self._input_end = np.zeros(brokers, np.int64)

        # -- causes
        self._causes = np.zeros((256, 4), np.int64)
        self._cause_key = np.zeros(256, np.int64)
        self._cause_count = 0
        self._cause_of: dict[int, int] = {}
        self._changes: list[dict[str, Any]] = []
        self._dependencies: set[tuple[int, int]] = set()

        # -- services
        self.kinds: list[Kind] = [registry.load(s.kind_target)(s.params) for s in model.services]
        self.bodies = Bodies(self.kinds, number)
        self.bodies.shared = self.peers > 1
        self.protocols: list[ShardProtocol] = []
        self._outs: list[Out] = []
        self._batches: list[Batch] = []
        self._clock = Clock(self._stage)
        costs = [CostModel(**s.cost) for s in model.services]
        self._cost_model = np.array([list(c) for c in costs], np.float64).reshape(len(costs), 5)
        self._queueing = bool((self._cost_model != 0).any())
        for i, spec in enumerate(model.services):
            self._add_service(i, spec, costs[i])
        self._timer_min = np.array([p.timer_min_ns for p in self.protocols] or [NEVER], np.int64)
        self._shortest_timer = int(self._timer_min.min())
        self._unfinished: list[tuple[NDArray[Any], Ints]] = []

        # -- results
        self._finish_by = model.duration_ns + model.drain_ns
        seconds = int(min(self._finish_by // 1_000_000_000 + 2, 1_000_000))
        self._seconds = np.zeros(seconds, np.int64)
        services = len(model.services)
        self._histogram = np.zeros((services, K.BUCKETS), np.int64)
        self._totals = np.zeros((services, 3), np.int64)
        self._publications = np.zeros(services, np.int64)
        self.in_flight = 0
        self.now = 0
        self._since_sweep = 0
        self._start_timers()

    # ---- setting up ----------------------------------------------------------------------------------

    def _add_service(self, number: int, spec: ServiceSpec, cost: CostModel) -> None:
        model = self.model
        kind = self.kinds[number]
        publishers = [model.groups[s.group] for s in spec.sources if getattr(registry.load(s.target), "publishes", True)]
        clients = np.concatenate([np.arange(a, a + n) for a, n in publishers]) if publishers else np.zeros(0, np.int64)
        protocol: Any = registry.load(spec.protocol_target)
        options: Any = spec.options
        if getattr(protocol, "Options", None) is not None:
            options = protocol.Options(**spec.options)
        index = registry.load(spec.index_target) if spec.index_target else None
        env = ShardEnv(
            seed=model.seed, service=number, kind=kind, options=options, overlay=model.overlay, local=self.local,
            client_broker=self.client_broker, duration_ns=model.duration_ns, cost=cost, bodies=self.bodies,
            publisher_brokers=np.unique(self.client_broker[clients]).astype(np.int32), tables=spec.tables,
            new_index=None if index is None else lambda: kind.new_index(index), links=self.links,
        )
        if spec.view != "auto" and getattr(protocol, "plain", None) is not None:
            protocol = protocol.plain
        built: ShardProtocol
        if issubclass(protocol, BrokerProtocol):
            built = PlainAdaptor(env, protocol, runs=spec.view != "message")
        elif issubclass(protocol, ShardProtocol):
            built = protocol(env)
        else:
            raise InvalidInput(f"service {spec.name!r}: {spec.protocol_target!r} is neither a BrokerProtocol nor a ShardProtocol")
        self.protocols.append(built)
        self._outs.append(Out(number, self.bodies, cost))
        self._batches.append(Batch())
        for n, source in enumerate(spec.sources):
            first, count = model.groups[source.group]
            numbers = np.arange(first, first + count, dtype=np.int64)
            made = registry.load(source.target)(source.params, SourceContext(
                seed=model.seed, service=number, source=n, clients=numbers[self._local_client[numbers]],
                entity_base=self.brokers, population=count, duration_ns=model.duration_ns, settled=spec.settled,
                service_params=spec.params,
            ))
            if spec.settled and hasattr(made, "standing"):
                for emission in made.standing(numbers):
                    built.stand(Interests(emission.word, emission.client, emission.rows, emission.objects))
                    self._trace_standing(number, emission)
            self._clock.add(number, n, made)

    def _trace_standing(self, service: int, emission: Emission) -> None:
        """Interests that stand from the start are changes settled at time 0, before everything."""
        mine = self._local_client[emission.client]
        if not mine.any():
            return
        n = int(mine.sum())
        client = emission.client[mine]
        none = np.full(n, -1, np.int64)
        self._changes.append({
            "change": -emission.word[mine], "service": service, "operation": emission.type,
            "interest": emission.word[mine], "broker": self.client_broker[client], "client": self.brokers + client,
            "issued_ns": none, "standing": True,
            "values": None if emission.rows is None else emission.rows[mine],
        })

    def _start_timers(self) -> None:
        for service, protocol in enumerate(self.protocols):
            for broker, delay, type_, word in protocol.first_timers():
                if delay < max(1, protocol.timer_min_ns):
                    raise ProtocolFault(f"service {service}: a first timer of {delay} ns is below timer_min_ns")
                self._reserve(np.array([self.links.source.size + broker]))
                state = self._broker_state[broker]
                K.push_timer(
                    self._lanes, self._arena, self.links.source.size + broker, delay, int(state[K.B_SEQUENCE]), word,
                    K.pack_event(-1, type_, service), -1,
                )
                state[K.B_SEQUENCE] += 1
                self._nxt[broker] = min(self._nxt[broker], delay)
                self.in_flight += 1

    # ---- inputs --------------------------------------------------------------------------------------

    def _stage(self, service: int, source: int, emissions: list[Emission]) -> None:
        for emission in emissions:
            if emission.time.size:
                self._staged.append((service, source, emission))
                self._staged_first = min(self._staged_first, int(emission.time.min()))

    def _admit(self, end: int) -> None:
        """Move staged emissions before `end` into the brokers' input lanes, in order."""
        self._clock.advance(end)
        if self._staged_first >= end:
            return
        keep: list[tuple[int, int, Emission]] = []
        parts: list[tuple[Any, ...]] = []
        first = NEVER
        for service, source, emission in self._staged:
            now = emission.time < end
            if not now.all():
                later = ~now & (emission.time < self.model.duration_ns)
                if later.any():
                    rest = _select(emission, later)
                    keep.append((service, source, rest))
                    first = min(first, int(rest.time.min()))
                emission = _select(emission, now)
            if emission.time.size and int(emission.time.max()) >= self.model.duration_ns:
                emission = _select(emission, emission.time < self.model.duration_ns)
            if emission.time.size:
                if int(emission.time.min()) < self.now:
                    raise ProtocolFault(
                        f"service {self.model.services[service].name!r}: a source emitted for "
                        f"{int(emission.time.min())} ns when the simulation had reached {self.now} ns"
                    )
                parts.append((service, source, emission))
        self._staged, self._staged_first = keep, first
        if not parts:
            return

        n = sum(e.time.size for _, _, e in parts)
        column = np.empty((8, n), np.int64)
        at = 0
        for order, (service, source, emission) in enumerate(parts):
            size = emission.time.size
            part = column[:, at : at + size]
            part[0], part[1], part[2] = emission.time, emission.client, emission.word
            part[3], part[4], part[5] = service, source, emission.type
            part[6], part[7] = order, np.arange(size)
            at += size
        when, client, _, service_of, source_of, _, part_of, row_of = column
        by_client = np.lexsort((row_of, part_of, source_of, service_of, when, client))
        column = column[:, by_client]
        when, client, word, service_of, source_of, type_of, part_of, row_of = column
        new = np.concatenate(([True], client[1:] != client[:-1]))
        starts = np.flatnonzero(new)
        counts = np.diff(np.append(starts, n))
        rank = np.arange(n) - np.repeat(starts, counts)
        sequence = self._client_sequence[client] + rank
        self._client_sequence[client[starts]] += counts
        entity = self.brokers + client
        key = (entity << 32) | sequence
        broker = self.client_broker[client]

        body = np.full(n, -1, np.int64)
        cause = np.full(n, -1, np.int64)
        for order, (service, _, emission) in enumerate(parts):
            mine = np.flatnonzero(part_of == order)
            rows = row_of[mine]
            kind = self.kinds[service]
            if emission.rows is not None:
                body[mine] = self.bodies.add_rows(
                    service, emission.type, emission.rows[rows], when[mine], key[mine], broker[mine],
                    key[mine] | np.int64(-1 << 63),
                )
            elif emission.objects is not None:
                body[mine] = [
                    self.bodies.add_object(service, emission.type, emission.objects[r], t, k, b, k | (-1 << 63))
                    for r, t, k, b in zip(rows.tolist(), when[mine].tolist(), key[mine].tolist(), broker[mine].tolist())
                ]
            if emission.type in kind.publications:
                self._publications[service] += mine.size
                if self.trace.wants("publications"):
                    self.trace.write(
                        "publications", publication=key[mine], time_ns=when[mine], service=service, broker=broker[mine],
                        client=entity[mine], size_bytes=self._sizes(body[mine]),
                        values=None if emission.rows is None else emission.rows[rows],
                    )
            if emission.type in kind.changes:
                cause[mine] = self._new_causes(key[mine])
                self._changes.append({
                    "change": key[mine], "service": service, "operation": emission.type, "interest": word[mine],
                    "broker": broker[mine], "client": entity[mine], "issued_ns": when[mine], "standing": False,
                    "values": None if emission.rows is None else emission.rows[rows],
                })
        K.count_bodies(body, self.bodies.refs, 1)

        order = np.lexsort((sequence, client, when, broker))
        inputs = np.empty((n, K.INPUT), np.int64)
        inputs[:, K.M_TIME] = when[order]
        inputs[:, K.M_SEQUENCE] = sequence[order]
        inputs[:, K.M_WORD] = word[order]
        inputs[:, K.M_PACKED] = ((body << 24) | (type_of << 8) | service_of)[order]
        inputs[:, K.M_CAUSE] = cause[order]
        inputs[:, K.I_SOURCE] = entity[order]
        sorted_broker = broker[order]
        starts = np.flatnonzero(np.concatenate(([True], sorted_broker[1:] != sorted_broker[:-1])))
        holders = sorted_broker[starts]
        self._inputs = inputs
        self._input_at[:] = 0
        self._input_end[:] = 0
        self._input_at[holders] = starts
        self._input_end[holders] = np.append(starts[1:], n)
        self._nxt[holders] = np.minimum(self._nxt[holders], inputs[starts, K.M_TIME])
        self.in_flight += n

    def _sizes(self, bodies: Ints) -> Ints:
        return np.where(bodies >= 0, self.bodies.size[np.maximum(bodies, 0)], 0)

    def _new_causes(self, keys: Ints) -> Ints:
        n = keys.size
        first = self._cause_count
        if first + n > self._cause_key.size:
            size = max(2 * self._cause_key.size, first + n)
            causes = np.zeros((size, 4), np.int64)
            causes[:first] = self._causes[:first]
            key = np.zeros(size, np.int64)
            key[:first] = self._cause_key[:first]
            self._causes, self._cause_key = causes, key
        handles = np.arange(first, first + n)
        self._cause_key[handles] = keys
        self._cause_count += n
        if self.peers > 1:
            self._cause_of.update(zip(keys.tolist(), handles.tolist()))
        return handles

    # ---- a window ------------------------------------------------------------------------------------

    def next_time(self) -> int:
        """The time of the next thing known to happen in this shard."""
        return min(int(self._nxt.min(initial=NEVER)), self._staged_first, self._clock.next_wake())

    def window(self, end: int, blobs: list[bytes], sample: bool = False) -> tuple[Window, list[bytes]]:
        """Advance to `end`. `blobs` is what other shards packed for this one."""
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        handled = int(self._broker_state[:, K.B_HANDLED].sum())
        for blob in blobs:
            if blob:
                self._take_in(blob)
        self._admit(end)
        rounds = 0
        while True:
            size, self._cursor = K.gather(
                end, self._limit, self._cursor, self._mode, self._cut_key, self._cut_count, self._shortest_timer,
                self._nxt, self._horizon, self._frontier, self.local, self._patience, self._in_start, self._in_link,
                self._in_source, self._in_delay, self._lanes, self._arena, self._inputs, self._input_at,
                self._input_end, self._wide, self._narrow, self._lane_time, self._lane_order, self._lane_id,
            )
            if size == 0:
                break
            self._cut_count += self.brokers
            self._round(size)
            rounds += 1
        self.now = end
        if sample:
            self._sample(end)
        packed, first, sizes = self._pack_outboxes()
        self._since_sweep += rounds
        if self._since_sweep > 16:
            self._since_sweep = 0
            self.bodies.sweep([p.held() for p in self.protocols])
        report = Window(
            self.next_time(), first, int(self._broker_state[:, K.B_HANDLED].sum()) - handled, self.in_flight,
            time.perf_counter_ns() - wall, time.process_time_ns() - cpu, rounds, sizes,
        )
        return report, packed

    def _round(self, size: int) -> None:
        wide, narrow = self._wide, self._narrow
        cost = self._cost[:size]
        cost[:] = 0
        outs = self._handle(size)
        sends = collect_sends(outs, size, narrow, wide, self._scratch)
        timers = collect_timers(outs, size, narrow, self._scratch)
        collect_costs(outs, cost)
        if sends.count:
            links = sends.link
            if links.min() < 0 or links.max() >= self._facts.shape[0]:
                raise ProtocolFault(f"a send names link {int(links.max())}; there are links 0 to {self._facts.shape[0] - 1}")
            self._reserve(links)
            if self._outbox_used + sends.count > len(self._outbox) and self.peers > 1:
                grown = np.zeros((2 * (self._outbox_used + sends.count), K.OUT_ROW), np.int64)
                grown[: self._outbox_used] = self._outbox[: self._outbox_used]
                self._outbox = grown
            if sends.count > len(self._loss_rows):
                self._loss_rows = np.empty((2 * sends.count, 2), np.int64)
        if timers.count:
            self._reserve(self.links.source.size + narrow[K.N_BROKER, timers.event].astype(np.int64))
        bodies = self.bodies
        code, detail, used, moved, lost = K.settle(
            size, wide, narrow, cost, self._cost_model, self._queueing, self._finish,
            sends.count, sends.event, sends.link, sends.copy, sends.type, sends.body, sends.word, sends.size, sends.cause,
            timers.count, timers.event, timers.delay, timers.type, timers.body, timers.word, timers.cause, self._timer_min,
            self._facts, self._link_state, self._loss_limit, self._loss_key, self._jitter_key, self.links.source,
            self._broker_state, self._frontier, self._nxt, self._lanes, self._arena, self._outbox, self._outbox_used,
            bodies.hash, bodies.size, bodies.refs, self._causes, self._cause_key, self._seconds, self._loss_rows,
        )
        self._outbox_used = used
        self.in_flight += moved
        if code != K.OK:
            self._fail(code, detail, sends, timers)
        finish = self._finish[:size]
        deliveries = collect_deliveries(outs, size, narrow)
        if deliveries is not None:
            self._deliver(*deliveries, finish)
        for _, out in outs:
            for cause, on in out.dependencies:
                pairs = np.broadcast_arrays(np.atleast_1d(cause), np.atleast_1d(on))
                for a, b in zip(*(self._cause_key[p].tolist() for p in pairs)):
                    self._dependencies.add((a, b))
        if self._queueing:
            self._unfinished.append((narrow[K.N_BROKER, :size].copy(), finish.copy()))
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
            parts = [(int(s), None) for s in present] if present.size == 1 else [
                (int(s), np.flatnonzero(service == s)) for s in present
            ]
        outs: list[tuple[NDArray[Any] | None, Out]] = []
        for s, rows in parts:
            batch = self._batches[s]
            batch.rows = rows
            batch._starts = None
            if rows is None:
                batch.size = size
                batch.time, batch.source, batch.sequence, batch.word = wide[:, :size]
                batch.broker, batch.kind, batch.link, batch.type, _, batch.body, batch.cause = narrow[:, :size]
            else:
                batch.size = rows.size
                batch.time, batch.source, batch.sequence, batch.word = wide[:, rows]
                batch.broker, batch.kind, batch.link, batch.type, _, batch.body, batch.cause = narrow[:, rows]
            out = self._outs[s]
            out.begin(batch)
            self.protocols[s].handle(batch, out)
            outs.append((rows, out))
        return outs

    def _reserve(self, lane_of: Ints) -> None:
        """Room for one more row in each lane named."""
        used = K.grow_lanes(lane_of, lane_of.size, self._lanes, self._arena, self._arena_used, self._wanted)
        while used < 0:
            live = int(self._lanes[:, K.R_CAPACITY].sum())
            fresh = np.zeros((2 * (live - used), K.ROW), np.int64)
            self._arena_used = K.move_lanes(self._lanes, self._arena, fresh)
            self._arena = fresh
            used = K.grow_lanes(lane_of, lane_of.size, self._lanes, self._arena, self._arena_used, self._wanted)
        self._arena_used = used

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
                f"broker {self.model.overlay.names[broker]} ({broker}) sent over {self._link_name(link)}, which is not one of its own"
            )
        if code == K.TIMER_TOO_SOON:
            service = int(self._narrow[K.N_SERVICE, timers.event[detail]])
            raise ProtocolFault(
                f"service {self.model.services[service].name!r} set a timer of {int(timers.delay[detail])} ns, below its "
                f"declared timer_min_ns of {int(self._timer_min[service])} ns (and a timer takes at least 1 ns)"
            )
        if code == K.BAD_COST:
            raise ProtocolFault(f"an event was charged a negative service time ({int(self._cost[detail])} ns)")
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
        K.deliver(
            event, client, body, False, finish, self._wide, narrow, bodies.hash, bodies.time, self._broker_state,
            self._seconds, self._histogram, self._totals,
        )
        if self.trace.wants("deliveries"):
            known = np.maximum(body, 0)
            self.trace.write(
                "deliveries", service=narrow[K.N_SERVICE, event].astype(np.int16),
                publication=np.where(body >= 0, bodies.key[known], -1), broker=broker, client=self.brokers + client,
                published_ns=np.where(body >= 0, bodies.time[known], -1), time_ns=finish[event],
            )

    def _trace_hops(self, size: int, finish: Ints) -> None:
        wide, narrow = self._wide[:, :size].copy(), self._narrow[:, :size].copy()
        body, cause, link = narrow[K.N_BODY], narrow[K.N_CAUSE], narrow[K.N_LINK]
        self.trace.write(
            "hops", broker=narrow[K.N_BROKER], time_ns=wide[K.W_TIME], kind=narrow[K.N_KIND].astype(np.int8),
            source=wide[K.W_SOURCE], sequence=wide[K.W_SEQUENCE], link=np.where(link >= 0, link ^ 1, -1),
            service=narrow[K.N_SERVICE].astype(np.int16), type=narrow[K.N_TYPE].astype(np.int8),
            body=np.where(body >= 0, self.bodies.key[np.maximum(body, 0)], -1), word=wide[K.W_WORD],
            cause=np.where(cause >= 0, self._cause_key[np.maximum(cause, 0)], -1), finish_ns=finish.copy(),
        )

    def _trace_losses(self, lost: int, sends: Any) -> None:
        at, when = self._loss_rows[:lost, 0], self._loss_rows[:lost, 1].copy()
        event = sends.event[at]
        body = (self._narrow[K.N_BODY, event] if sends.copy else sends.body[at]).astype(np.int64)
        cause = (self._narrow[K.N_CAUSE, event] if sends.copy else sends.cause[at]).astype(np.int64)
        self.trace.write(
            "losses", link=sends.link[at].astype(np.int32), time_ns=when,
            service=self._narrow[K.N_SERVICE, event].astype(np.int16),
            type=(self._narrow[K.N_TYPE, event] if sends.copy else sends.type[at]).astype(np.int8),
            body=np.where(body >= 0, self.bodies.key[np.maximum(body, 0)], -1),
            cause=np.where(cause >= 0, self._cause_key[np.maximum(cause, 0)], -1),
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

    def _sample(self, at: int) -> None:
        if not self.trace.wants("samples"):
            self._unfinished = [p for p in self._unfinished if (p[1] > at).any()]
            return
        mine = np.flatnonzero(self.local)
        queued = self.queue_lengths(at)[mine].astype(np.int32)
        backlog = np.maximum(self._broker_state[mine, K.B_BUSY] - at, 0)
        for service, protocol in enumerate(self.protocols):
            self.trace.write(
                "samples", time_ns=at, broker=mine.astype(np.int32), backlog_ns=backlog, queued=queued, service=service,
                entries=protocol.entries()[mine],
            )

    # ---- other shards --------------------------------------------------------------------------------

    def _pack_outboxes(self) -> tuple[list[bytes], int, int]:
        """One blob per shard (empty for itself and for those that get nothing)."""
        blobs = [b""] * self.peers
        used, self._outbox_used = self._outbox_used, 0
        if used == 0:
            return blobs, NEVER, 0
        rows = self._outbox[:used]
        peer = self._assignment[self.links.target[rows[:, K.ROW]]]
        body = rows[:, K.M_PACKED] >> 24
        for p in np.unique(peer).tolist():
            mine = rows[peer == p]
            handles = np.unique(mine[:, K.M_PACKED] >> 24)
            handles = handles[handles >= 0].astype(np.int32)
            causes = np.unique(mine[:, K.M_CAUSE])
            causes = causes[causes >= 0]
            uid = np.full(len(mine), -1, np.int64)
            has = (mine[:, K.M_PACKED] >> 24) >= 0
            uid[has] = self.bodies.uid[mine[has, K.M_PACKED] >> 24]
            key = np.where(mine[:, K.M_CAUSE] >= 0, self._cause_key[np.maximum(mine[:, K.M_CAUSE], 0)], -1)
            blobs[p] = encode_frame("window", {
                "rows": np.ascontiguousarray(mine), "uid": uid, "cause": key, "bodies": self.bodies.pack(handles),
            })
        K.count_bodies(body, self.bodies.refs, -1)
        self.in_flight -= used
        return blobs, int(rows[:, K.M_TIME].min()), sum(map(len, blobs))

    def _take_in(self, blob: bytes) -> None:
        _, frame = decode_frame(blob)
        handles = self.bodies.unpack(frame["bodies"])
        rows = frame["rows"].copy()
        has = frame["uid"] != -1
        body = np.full(len(rows), -1, np.int64)
        body[has] = np.fromiter((handles[u] for u in frame["uid"][has].tolist()), np.int64, int(has.sum()))
        rows[:, K.M_PACKED] = (body << 24) | (rows[:, K.M_PACKED] & 0xFFFFFF)
        cause = np.full(len(rows), -1, np.int64)
        caused = frame["cause"] != -1
        for key in np.unique(frame["cause"][caused]).tolist():
            if key not in self._cause_of:
                self._new_causes(np.array([key]))
        cause[caused] = [self._cause_of[k] for k in frame["cause"][caused].tolist()]
        rows[:, K.M_CAUSE] = cause
        links = rows[:, K.ROW].copy()
        self._reserve(links)
        K.count_bodies(body, self.bodies.refs, 1)
        late = K.push_arrivals(
            rows, links, self.links.target, self._lanes, self._arena, self._nxt, self._frontier
        )
        if late >= 0:
            link = int(links[late])
            raise ProtocolFault(
                f"lookahead violated: a message over {self._link_name(link)} for {int(rows[late, K.M_TIME])} ns came when "
                f"its target had handled everything up to {int(self._frontier[self.links.target[link]])} ns"
            )
        self.in_flight += len(rows)

    # ---- the end -------------------------------------------------------------------------------------

    def finish(self) -> ShardResult:
        """Close the trace and hand over what the run's result is made of."""
        mine = np.flatnonzero(self.local)
        links = np.flatnonzero(self.local[self.links.source])
        used = self._cause_count
        return ShardResult(
            local=mine, broker_state=self._broker_state[mine], link=links, link_state=self._link_state[links],
            histogram=self._histogram, totals=self._totals, seconds=self._seconds,
            cause_key=self._cause_key[:used].copy(), causes=self._causes[:used].copy(),
            changes={"parts": self._changes},
            dependencies=np.array(sorted(self._dependencies), np.int64).reshape(-1, 2),
            publications=self._publications, in_flight=self.in_flight,
        )


def _select(emission: Emission, mask: NDArray[np.bool_]) -> Emission:
    at = np.flatnonzero(mask)
    return Emission(
        emission.type, emission.time[at], emission.client[at], np.asarray(emission.word)[at] if np.ndim(emission.word)
        else np.full(at.size, emission.word), None if emission.rows is None else emission.rows[at],
        None if emission.objects is None else [emission.objects[i] for i in at.tolist()],
    )
