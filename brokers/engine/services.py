"""The room of services: kinds and protocols, what clients send them, and the bodies and causes that they deal in."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from brokers.arising import Latent
from brokers.attackers import classes
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
from brokers.engine.adaptor import PlainAdaptor
from brokers.engine.batching import Workbench
from brokers.engine.causes import Causes
from brokers.engine.clock import Clock
from brokers.engine.collect import Answers
from brokers.engine.inputs import Inputs
from brokers.engine.links import Links
from brokers.engine.model import Model, ServiceSpec, protocol_class, why_plain
from brokers.engine.movers import Movers
from brokers.engine.notices import Notices, of_peers
from brokers.engine.outages import Outages
from brokers.engine.served import Served
from brokers.errors import BrokerlabError, InvalidInput, ProtocolFault
from brokers.faults import AWAY, EXPIRED
from brokers.kinds import own_tables
from brokers.load import Loads
from brokers.out import Out

SERVICES_MAX = 256  # a service's number travels in eight bits


class _Blamed:
    """A context in which what goes wrong is the fault of a service's protocol."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, InvalidInput):  # a body that cannot be sent, say: not the scenario's fault
            raise ProtocolFault(f"service {self._name!r}: its protocol: {error}") from error
        if isinstance(error, Exception | SystemExit) and not isinstance(error, BrokerlabError):
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise ProtocolFault(
                f"service {self._name!r}: its protocol raised {type(error).__name__}: {error} "
                f"({Path(where.filename).name}:{where.lineno}, in {where.name})"
            ) from error


class Common:
    """What shards of one process have in common."""

    def __init__(self, model: Model, shards: int) -> None:
        self.bodies = Bodies([spec.kind_class(spec.params) for spec in model.services], 0, shards)
        self.causes = Causes(shards)


class Services:
    """The services of a model on one shard, by number."""

    def __init__(
        self,
        model: Model,
        number: int,
        links: Links,
        shared: bool,
        trace: Any,
        resuming: bool,
        common: Common | None,
        outages: Outages,
    ) -> None:
        """`shared`: other shards carry brokers too. `resuming`: what stands comes from a checkpoint."""
        if len(model.services) > SERVICES_MAX:
            raise InvalidInput(f"{len(model.services)} services; a run has at most {SERVICES_MAX}")
        self.model = model
        self.local = local = links.local
        self._links = links.table
        self._overlay = model.counted_on
        self.kinds: list[Kind] = [spec.kind_class(spec.params) for spec in model.services]
        self.tables = [
            own_tables(kind, spec.protocol_class) for kind, spec in zip(self.kinds, model.services, strict=True)
        ]
        self.lane = 0 if common is None else number  # which of the shards that have bodies and causes in common
        self.bodies = Bodies(self.kinds, number) if common is None else common.bodies
        self.bodies.shared = shared and common is None
        self.causes = Causes() if common is None else common.causes
        self.inputs = Inputs(model, local.size, self.kinds, self.bodies, self.causes, trace, outages, self.lane)
        self.clock = Clock(self.inputs.stage)
        self._resuming = resuming
        costs = [CostModel(**spec.cost) for spec in model.services]
        shape = len(costs), len(CostModel._fields)
        self.cost_model = np.array([list(cost) for cost in costs], np.float64).reshape(shape)
        self.queueing = bool((self.cost_model != 0).any())
        self._charging = np.array([self.queueing])
        self._client_broker = np.array(model.client_broker, np.int32)  # one that kernels may write to
        self.moving, self._leaves = model.stays is not None, np.zeros(1, np.int64)
        self._sessions = None if model.stays is None else model.stays.sessions(model.client_broker.size)
        if model.stays is not None:
            self._leaves = model.stays.leaves(model.client_broker.size)
            self.inputs.movers = Movers(model.stays, self.kinds, local, model.client_broker, model.duration_ns)
        self._keeping = np.array([bool(spec.protocol_class.hands_over) for spec in model.services])
        self._told = of_peers(outages, model.faults.detect_ns)
        self.protocols: list[ShardProtocol] = []
        self.loads: Loads | None = None  # what protocols may see of their brokers' load, once there is something
        for i, spec in enumerate(model.services):
            self.protocols.append(self._protocol(i, spec, costs[i]))
            for n in range(len(spec.sources)):
                self._add_source(i, n)
        if outages.any or model.faults.opens:
            hearing = [number for number, protocol in enumerate(self.protocols) if protocol.hears_faults]
            self.inputs.notices = Notices(
                outages, model.faults, self._links, local, hearing, [p.opens for p in self.protocols],
                model.overlay.latent,
            )
        self.blamed = [_Blamed(spec.name) for spec in model.services]
        self._outs = [Out(i, self.bodies, cost) for i, cost in enumerate(costs)]
        self._batches = [Batch() for _ in costs]
        declared = [protocol.timer_min_by_broker() for protocol in self.protocols]
        self.timer_min = np.array(declared, np.int64).reshape(-1, local.size)  # by service and broker
        told = [protocol.drops_told_ns if model.limits.ahead else 0 for protocol in self.protocols]
        self.drops_told = np.array(told, np.int64)  # by service

    def arrays(self) -> dict[str, Any]:
        """What kernels see; inputs, bodies and causes are replaced when there are more of them."""
        return {
            "cost_model": self.cost_model, "timer_min": self.timer_min, "drops_told": self.drops_told,
            "charging": self._charging,
            "client_broker": self._client_broker, "moving": np.array([self.moving]), "leaves": self._leaves,
            **self.inputs.arrays(),
            **{name: getattr(owner, attribute) for name, (owner, attribute) in self.growing().items()},
        }  # fmt: skip

    def growing(self) -> dict[str, tuple[Any, str]]:
        """Where those of them are that may be replaced."""
        return {
            "inputs": (self.inputs, "rows"), **self.bodies.growing(self.lane), **self.causes.growing(self.lane),
        }  # fmt: skip

    def shortest_timer_ns(self) -> Ints:
        """By broker, the shortest delay of a timer that any service sets, or that tells of what was dropped."""
        told = self.drops_told[self.drops_told > 0].min(initial=NEVER)
        return np.minimum(self.timer_min.min(axis=0, initial=NEVER), told)

    def name(self, service: int) -> str:
        return self.model.services[service].name

    def held(self) -> list[Any]:
        """The bodies that protocols need, by protocol, and those that clients may tell again."""
        return [*(protocol.held() for protocol in self.protocols), self.inputs.reminders.held()]

    def close(self) -> None:
        """Have protocols let go of what lies outside of this process."""
        for protocol in self.protocols:
            protocol.close()

    # ---- setting up ----------------------------------------------------------------------------------

    def _protocol(self, number: int, spec: ServiceSpec, cost: CostModel) -> ShardProtocol:
        model, kind = self.model, self.kinds[number]
        publishers = [model.groups[source.group] for source in spec.sources if source.publishes]
        clients = np.concatenate([np.zeros(0, np.int64), *(np.arange(a, a + n) for a, n in publishers)])
        if model.stays is not None:
            clients = model.stays.numbers_of(clients)
        declared: Any = spec.protocol_class
        options: Any = spec.options
        if getattr(declared, "Options", None) is not None:
            options = declared.Options(**spec.options)
        index = spec.index_class
        env = ShardEnv(
            seed=model.seed,
            service=number,
            kind=kind,
            options=options,
            overlay=self._overlay,
            local=self.local,
            client_broker=model.client_broker,
            duration_ns=model.duration_ns,
            cost=cost,
            bodies=self.bodies,
            causes=self.causes,
            publisher_brokers=np.unique(model.client_broker[clients]).astype(np.int32),
            tables=spec.tables,
            new_index=None if index is None else lambda: kind.new_index(index),
            links=self._links_of(spec),
            server=spec.server,
            forgetful=model.faults.forgetful,
            unsure=model.faults.forgetful or bool(model.limits),
            loads=self._loads,
            latent=Latent.of(model.overlay, self._links, self._told),
            sessions=self._sessions,
            lane=self.lane,
            attackers=classes(spec.attackers, model.overlay.nodes) if spec.attackers else None,
        )
        protocol = protocol_class(spec)
        if issubclass(protocol, BrokerProtocol):
            return PlainAdaptor(env, protocol, runs=spec.view != "message", attackers=spec.attackers)
        if issubclass(protocol, ShardProtocol):
            if protocol.plain is not None and why_plain(protocol, options, model):
                return PlainAdaptor(env, protocol.plain)
            if env.forgetful and not protocol.forgets:
                raise InvalidInput(
                    f"service {spec.name!r}: {protocol.__name__} cannot forget what one broker knew: let crashes keep "
                    "state, or give it `forgets` or a `plain` form"
                )
            return protocol(env) if spec.server < 0 or protocol.server is None else Served(env, protocol)
        raise InvalidInput(
            f"service {spec.name!r}: {spec.protocol_target!r} is neither a BrokerProtocol nor a ShardProtocol"
        )

    def expired(self, service: Ints, client: Ints, time: Ints, reason: Ints) -> Ints:
        """Reasons of deliveries that fell, of which protocols that hand over gave up some long after a client left."""
        if self._sessions is None:
            return reason
        kept = self._keeping[service] & (self._sessions.keep_ns[client] > 0)
        return np.where((reason == AWAY) & kept & (time >= self._leaves[client]), EXPIRED, reason)

    def _loads(self) -> Loads:
        if self.loads is None:
            raise ProtocolFault("node.load is asked for before anything has come")
        return self.loads

    def _links_of(self, spec: ServiceSpec) -> LinkTable:
        """The links that a service may use: none to another service's server."""
        overlay = self.model.overlay
        others = frozenset(range(overlay.brokers, overlay.nodes)) - {spec.server}
        return LinkTable.of(overlay, others, overlay.latent) if others or overlay.has_latent else self._links

    def _add_source(self, number: int, place: int) -> None:
        model, spec = self.model, self.model.services[number]
        source = spec.sources[place]
        first, count = model.groups[source.group]
        clients = np.arange(first, first + count, dtype=np.int64)
        movers = self.inputs.movers
        here = self.local[model.client_broker[clients]]
        if movers is not None:
            here = here | movers.carried[clients]
        made = source.source_class(
            source.params,
            SourceContext(
                seed=model.seed,
                service=number,
                source=place,
                clients=clients[here],
                entity_base=self.local.size,
                population=count,
                duration_ns=model.duration_ns,
                settled=spec.settled,
                service_params=spec.params,
                client_broker=model.client_broker,
                kind=self.kinds[number],
            ),
        )
        # A resumed shard gets what stands, and what has come and gone since, from the checkpoint.
        if spec.settled and hasattr(made, "standing") and (movers is not None or not self._resuming):
            for emission in made.standing(clients):
                if emission.type in self.kinds[number].offers:
                    raise InvalidInput(f"service {spec.name!r}: what clients offer cannot stand from the start")
                if movers is not None:
                    emission = movers.standing(number, place, emission)
                if self._resuming:
                    continue
                interests = Interests(emission.word, emission.client, emission.rows, emission.objects)
                self.protocols[number].stand(interests)
                self.inputs.note_standing(number, emission, self.local)
        self.clock.add(number, place, made)

    def first_timers(self) -> list[tuple[int, int, int, int, int]]:
        """Timers that stand at time 0: (service, broker, delay_ns, type, word)."""
        timers = []
        for service, protocol in enumerate(self.protocols):
            for broker, delay, type_, word in protocol.first_timers():
                if delay < max(1, int(self.timer_min[service, broker])):
                    raise ProtocolFault(f"service {service}: a first timer of {delay} ns is below timer_min_ns")
                timers.append((service, broker, delay, type_, word))
        return timers

    # ---- a round -------------------------------------------------------------------------------------

    def handle(self, bench: Workbench, size: int) -> Answers:
        """Have each service decide on its part of the batch."""
        answers: Answers = []
        for service, rows in bench.parts(size, len(self.protocols)):
            batch, out = self._batches[service], self._outs[service]
            bench.lay_out(batch, size, rows)
            out.begin(batch)
            with self.blamed[service]:
                self.protocols[service].handle(batch, out)
            answers.append((rows, out))
        return answers

    # ---- checkpoints ---------------------------------------------------------------------------------

    def state(self, carried: Ints) -> dict[str, Any]:
        """What services go on from; of the bodies those that are `carried` under way, or that a protocol holds."""
        held = [np.asarray(handles, np.int64) for handles in self.held()]
        held.append(self.inputs.waiting_bodies())
        needed = np.unique(np.concatenate([carried[carried >= 0], *held])).astype(np.int32)
        return {
            **self.bodies.state(needed),
            **self.causes.state(self.lane),
            **self.inputs.state(self.local),
            "protocols": [protocol.state() for protocol in self.protocols],
        }

    def load(self, states: Sequence[dict[str, Any]], now: int, sums: bool) -> dict[int, int]:
        """Take over, from the states of all shards, what belongs here, and with `sums` what belongs to the whole run.

        Returns the handles of bodies by their uid, for `load_protocols`, which comes when all else is in place.
        """
        handle_of = self.bodies.load(states)
        if sums:
            self.causes.load(states)
        self.inputs.load(states, now, sums, self.local, handle_of)
        return handle_of

    def load_protocols(self, states: Sequence[dict[str, Any]], handle_of: dict[int, int]) -> None:
        for number, protocol in enumerate(self.protocols):
            with taken_over(f"service {self.name(number)!r}"):
                protocol.load([state["protocols"][number] for state in states], handle_of)
