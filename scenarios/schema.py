"""What a scenario may say: pydantic models of every section, and the resolved `Scenario`.

Rules: unknown keys are refused; every default stands here, with a line of prose; quantities are in base units
after validation. What depends on a name (the parameters of a topology, a workload, a kind, a protocol) is
not fixed here: its model belongs to whatever the name stands for, and is told by `scenarios.parameters`. What links
and placements are like is said once, in `topology.links` and `topology.placement`.
"""

from __future__ import annotations

import re
from copy import copy
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)

from brokers.kinds import own_tables
from brokers.metrics import Metric
from brokers.names import Found
from brokers.programs import spelling
from scenarios.document import Document
from scenarios.many import expect
from scenarios.problems import Path, ScenarioErrors
from topology.links import LinkBandwidth, LinkDelay, LinkJitter, LinkLoss, Links
from topology.placement import Placement, UniformPlacement
from topology.sections import Count, Section
from topology.units import Cost, Duration, Fraction, PositiveDuration, Size

NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")
MOVEMENTS = ("connections", "mobility")  # sections of a group
CLIENTS_MAX = 100_000_000  # of a group: some 30 bytes each before any of them acts


def _name(value: object) -> object:
    if isinstance(value, str) and not NAME.fullmatch(value):
        raise ValueError("must be lower-case letters, digits, - and _, at most 64, as in quickstart-2")
    return value


_NAME_SCHEMA = {"type": "string", "pattern": f"^{NAME.pattern}$"}
Name = Annotated[str, BeforeValidator(_name), WithJsonSchema(_NAME_SCHEMA)]
Expectation = Annotated[str, AfterValidator(expect.checked)]


class Named(BaseModel):
    """A section that begins with a name; its further keys belong to what the name stands for."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Engine(Section):
    """How it is executed. None of it changes the trace."""

    actors: Annotated[Count, Field(ge=1, le=4096)] | None = Field(
        default=None, description="number of shards; default: one per CPU, 1 under inline"
    )
    partition: Literal["auto", "contiguous", "round-robin"] | list[Annotated[Count, Field(ge=0)]] = Field(
        default="auto", description="which shard carries which broker; or a list, one shard number per broker"
    )
    checkpoint_every: Duration = Field(
        default=30_000_000_000,
        description="wall time between checkpoints, from which an interrupted run goes on; 0: none",
    )
    window_max: PositiveDuration | None = Field(
        default=None, description="upper bound of a window; default: the smallest delay of a cut link"
    )
    messages_max: Annotated[Count, Field(ge=1)] | None = Field(
        default=None,
        description="messages and timers after which a run counts as one that never gets quiet; default: a hundred "
        "times what network and workload lead to expect",
    )


class Connections(Named):
    """When clients are connected; parameters of the kind stand beside `kind`."""

    kind: str = Field(description="connections of `brokerlab list`, or package.module:Class")


class Mobility(Named):
    """Where clients are; parameters of the kind stand beside `kind`."""

    kind: str = Field(description="mobility of `brokerlab list`, or package.module:Class")


class Session(Section):
    """What is kept for clients that are away, and reaches them where they are next."""

    keep: PositiveDuration = Field(description="for how long after a client has left")
    messages: Annotated[Count, Field(ge=1, le=10**9)] | None = Field(
        default=None, description="how many of each client, the newest; all unless given"
    )


class Clients(Section):
    """A group of clients and the brokers they are attached to."""

    count: Annotated[Count, Field(ge=1, le=CLIENTS_MAX)]
    placement: Placement = Field(default=UniformPlacement(), description="a kind, or a section with kind")
    connections: Connections | None = Field(default=None, description="when they are connected; always unless given")
    mobility: Mobility | None = Field(default=None, description="where they go; nowhere unless given")
    session: Session | None = Field(default=None, description="what is kept for them; nothing unless given")


class Server(Section):
    """A node behind a link of its own, for a service whose kind has a server."""

    broker: StrictStr | StrictInt = Field(description="the broker its link leads to, by name or number")
    delay: LinkDelay = Field(default=1_000_000, description="of its link")
    jitter: LinkJitter = Field(default=0, description="of its link")
    bandwidth: LinkBandwidth = Field(default=0, description="of its link; unlimited unless given")
    loss: LinkLoss = Field(default=0.0, description="of its link")


class ServiceCost(Section):
    """Service time of one message at a broker: base + per_entry · table entries + per_match · matches + …"""

    base: Cost = 0.0
    per_entry: Cost = 0.0
    per_match: Cost = 0.0
    per_link: Cost = 0.0
    per_byte: Cost = 0.0
    per_write: Cost = Field(default=0.0, description="per entry that a protocol writes into its store")

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, dump: Any) -> dict[str, Any]:
        """Services that write nothing are told as before there was such a thing, and keep the ids of their runs."""
        return {key: value for key, value in dump(self).items() if key != "per_write" or value}


class Workload(Named):
    """A workload source; its parameters stand beside `source`."""

    source: str = Field(description="a workload of `brokerlab list`, or package.module:Class")
    clients: str | None = Field(
        default=None, description="the group that acts; may be left out if there is one group"
    )


class Attackers(Named):
    """Brokers that do something else than their protocol; parameters of the behaviour stand beside `behaviour`."""

    behaviour: str = Field(description="a behaviour of `brokerlab list`, or package.module:Class")
    brokers: Annotated[list[StrictStr | StrictInt], Field(min_length=1)] | None = Field(
        default=None, description="which do it, by name, as in `s*`, or number"
    )
    share: Fraction | None = Field(default=None, description="or which share of all brokers; they are drawn")
    beside: Annotated[list[StrictStr | StrictInt], Field(min_length=1)] | None = Field(
        default=None, description="of a share: only neighbours of these brokers"
    )

    @model_validator(mode="after")
    def _one_way(self) -> Attackers:
        if (self.brokers is None) == (self.share is None):
            raise ValueError("say which brokers in one way: `brokers`, or a `share` of them")
        if self.brokers is not None and self.beside is not None:
            raise ValueError("`beside` goes with `share`; leave it out")
        return self


class Service(Named):
    """One kind, one protocol, one index, one workload; parameters of the kind stand beside these."""

    name: Name
    kind: str = Field(description="a kind of `brokerlab list`, or package.module:Class")
    protocol: Annotated[str, BeforeValidator(spelling.from_section)] = Field(
        description="a protocol of `brokerlab list`, package.module:Class, or a program: {exec: [./broker]}"
    )
    index: str | None = Field(
        default=None, description="an index of `brokerlab list`; default: the kind's own"
    )
    tables: Literal["auto", "shared", "own"] = Field(
        default="auto", description="changes memory and speed, nothing else"
    )
    view: Literal["auto", "run", "message"] = Field(default="auto", description="changes speed, nothing else")
    subscriptions: Literal["messages", "settled"] = Field(
        default="messages", description="issued as messages, or standing at time 0"
    )
    server: Name | None = Field(
        default=None, description="for a kind that has one: which of `servers`; may be left out if there is one"
    )
    options: dict[str, Any] = Field(default={}, description="options of the protocol")
    attackers: list[Attackers] = Field(default=[], description="brokers that do something else than the protocol says")
    cost: ServiceCost = ServiceCost()
    workload: list[Workload] = Field(default=[], description="what the clients do")
    metrics: list[str] = Field(
        default=[], description="what to measure beside what the kind does: metrics of `brokerlab list`, or module:Name"
    )


class FaultEntry(Named):
    """A fault, or many of one sort; their parameters stand beside `fault`."""

    fault: str = Field(description="a fault of `brokerlab list`, or package.module:Class")


class Faults(Section):
    """What fails, and when."""

    detect: Literal["never"] | Duration = Field(
        default="never", description="after what time brokers are told that a link is down or up"
    )
    schedule: list[FaultEntry] = Field(default=[], description="what fails")


class TopologyHead(Named):
    """The network of brokers; parameters of the kind stand beside `kind`."""

    kind: str = Field(description="a topology of `brokerlab list`, or package.module:function")


_SECOND_NS = 1_000_000_000
_SAMPLES_MAX = 3_000
_STEPS_S = tuple(
    factor * unit
    for unit, factors in ((1, (1, 2, 5, 10, 20, 30)), (60, (1, 2, 5, 10, 20, 30)), (3600, (1, 2, 6, 12)))
    for factor in factors
)


def sampling_of(duration_ns: int) -> int:
    """The time between samples of a run that does not say it: a round one, at most some thousand of them."""
    for step_s in _STEPS_S:
        if duration_ns <= step_s * _SECOND_NS * _SAMPLES_MAX:
            return step_s * _SECOND_NS
    day_ns = 86_400 * _SECOND_NS
    return -(-duration_ns // (day_ns * _SAMPLES_MAX)) * day_ns


class Trace(Section):
    """What is written down."""

    level: Literal["none", "summary", "deliveries", "full"] = "deliveries"
    sample_every: PositiveDuration | None = Field(
        default=None,
        description="time between samples of queues and tables; default: a second in runs of up to 50 minutes, in "
        "longer ones as much as gives at most 3,000 samples",
    )


class LinkQueues(Section):
    """How much may wait in front of a directed link with a bandwidth; what finds no place is lost."""

    messages: Annotated[Count, Field(ge=0, le=1_000_000)] = Field(
        default=0, description="so many messages, the one being sent among them; unlimited unless given"
    )
    bytes: Size = Field(default=0, description="so many bytes; unlimited unless given")


class Queues(Section):
    """Places in the queues of brokers, and in front of links."""

    places: Annotated[Count, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="messages that a broker holds, the one it serves among them; unlimited unless given"
    )
    full: Literal["newest", "oldest", "refuse"] = Field(
        default="newest",
        description="what gives way where there is no place: what comes, what has waited longest, or nothing: it waits "
        "on its link, with all that comes behind it",
    )
    brokers: Annotated[list[StrictStr | StrictInt], Field(min_length=1)] | None = Field(
        default=None, description="which, by name or number; all unless given"
    )
    links: LinkQueues = LinkQueues()

    @model_validator(mode="after")
    def _places_to_be_full(self) -> Queues:
        idle = sorted({"full", "brokers"} & self.model_fields_set)
        if idle and "places" not in self.model_fields_set:
            raise ValueError(f"`{idle[0]}` goes with `places`: say how many messages a broker holds")
        return self


class ScenarioModel(Section):
    """A brokerlab scenario."""

    name: Name = Field(
        default="scenario", description="part of the run folder's name; default: the file's name"
    )
    title: str = Field(default="", description="one line: what it shows")
    seed: Annotated[Count, Field(ge=0, lt=2**63)] = 1
    duration: PositiveDuration = Field(description="simulated time in which clients act")
    drain: Duration = Field(default=60_000_000_000, description="time after that for messages under way")
    engine: Engine = Engine()
    topology: TopologyHead
    links: Links = Links()
    clients: Annotated[dict[str, Clients], Field(min_length=1)] = Field(
        description="groups of clients, by name"
    )
    servers: dict[Name, Server] = Field(default={}, description="nodes that serve, by name")
    services: Annotated[list[Service], Field(min_length=1, max_length=256)]
    faults: Faults = Faults()
    queues: Queues = Queues()
    trace: Trace = Trace()
    expect: list[Expectation] = Field(
        default=[], description="thresholds on metrics, as in latency.p99 < 80 ms; see many-runs.md"
    )

    @property
    def sample_every_ns(self) -> int:
        """The time between samples, said or not."""
        return self.trace.sample_every or sampling_of(self.duration)

    @field_validator("title")
    @classmethod
    def _one_line(cls, title: str) -> str:
        if "\n" in title:
            raise ValueError("must be one line")
        return title


@dataclass(frozen=True)
class ResolvedSource:
    """A workload source whose class is found and whose parameters are valid."""

    name: str
    source: Found
    group: str
    params: dict[str, Any]


@dataclass(frozen=True)
class ResolvedFault:
    """An entry of the schedule whose class is found and whose parameters are valid."""

    name: str
    fault: Found
    params: dict[str, Any]


@dataclass(frozen=True)
class ResolvedAttackers:
    """An entry of attackers whose class is found and whose parameters are valid."""

    section: Attackers
    behaviour: Found
    params: dict[str, Any]

    def resolved(self) -> dict[str, Any]:
        """The entry as plain data, without what is not said."""
        where = self.section.model_dump(mode="json", include=set(Attackers.model_fields), exclude_defaults=True)
        return {**where, **self.params}


@dataclass(frozen=True)
class ResolvedMovement:
    """Connections or mobility of a group, whose class is found and whose parameters are valid."""

    group: str
    sort: str  # "connections" or "mobility"
    name: str
    movement: Found
    params: dict[str, Any]


@dataclass(frozen=True)
class ResolvedService:
    """A service whose names are found and whose parameters are valid."""

    section: Service
    kind: Found
    protocol: Found
    index: Found | None
    index_name: str | None
    params: dict[str, Any]
    options: dict[str, Any]
    sources: tuple[ResolvedSource, ...]
    server: str | None = None
    metrics: tuple[Metric, ...] = ()  # beside those that every service has
    attackers: tuple[ResolvedAttackers, ...] = ()

    @property
    def own_tables(self) -> dict[str, Any]:
        """The tables that the service adds to a trace."""
        from brokers import attackers

        tables = own_tables(self.kind.object, self.protocol.object)
        return {**tables, **attackers.TABLES} if self.attackers else tables


@dataclass(frozen=True)
class Scenario:
    """A valid scenario: sections as models, names resolved, all values plain and in base units."""

    model: ScenarioModel
    topology: Found
    topology_params: dict[str, Any]
    services: tuple[ResolvedService, ...]
    faults: tuple[ResolvedFault, ...]
    movements: tuple[ResolvedMovement, ...]
    folder: str  # relative paths in it start here
    trust: bool  # whether it may name code from outside; the caller's decision, and never kept in a file
    document: Document = field(repr=False, compare=False)  # where each value stood

    @property
    def where(self) -> str:
        """The file it came from, for messages."""
        return self.document.where

    def wrong(self, path: Path, message: str) -> ScenarioErrors:
        """A mistake that shows only when the scenario is put to work: in a topology, in a file it names."""
        document = copy(self.document)
        document.problems = []
        document.problem(path, message)
        return ScenarioErrors(document.problems)

    @property
    def name(self) -> str:
        return self.model.name

    def resolved(self) -> dict[str, Any]:
        """The whole scenario as plain data, defaults filled in; reads back as the same scenario."""
        data = self.model.model_dump(mode="json", exclude={"topology", "services", "faults", "queues"})
        if not data["servers"]:
            del data["servers"]
        for group in data["clients"].values():
            for sort in (*MOVEMENTS, "session"):
                if group[sort] is None:
                    del group[sort]
        for each in self.movements:
            data["clients"][each.group][each.sort] = {"kind": each.name, **each.params}
        if not data["links"]["regions"]:
            del data["links"]["regions"]
        idle = {"full", "brokers"} if self.model.queues.places is None else set[str]()
        if queues := self.model.queues.model_dump(mode="json", exclude_defaults=True, exclude=idle):
            data["queues"] = queues
        if self.faults:
            schedule = [{"fault": each.name, **each.params} for each in self.faults]
            data["faults"] = {"detect": self.model.faults.detect, "schedule": schedule}
        data["trace"]["sample_every"] = self.model.sample_every_ns
        data["topology"] = {"kind": self.model.topology.kind, **self.topology_params}
        data["services"] = []
        for service in self.services:
            head = {key: getattr(service.section, key) for key in ("name", "kind", "protocol")}
            head |= {"index": service.index_name} if service.index_name else {}
            head |= {"server": service.server} if service.server else {}
            head |= {key: getattr(service.section, key) for key in ("tables", "view", "subscriptions")}
            workload = [{"source": s.name, "clients": s.group, **s.params} for s in service.sources]
            data["services"].append(
                {
                    **head,
                    **service.params,
                    "options": service.options,
                    **({"attackers": [each.resolved() for each in service.attackers]} if service.attackers else {}),
                    "cost": service.section.cost.model_dump(),
                    "workload": workload,
                    **({"metrics": service.section.metrics} if service.section.metrics else {}),
                }
            )
        return data

    def further_metrics(self) -> dict[str, tuple[Metric, ...]]:
        """Of each service, the metrics beside those that every service has."""
        return {service.section.name: service.metrics for service in self.services}

    def own_tables(self) -> dict[str, Any]:
        """The tables that the services add to a trace."""
        return {name: table for each in self.services for name, table in each.own_tables.items()}

    def stands_for(self) -> dict[str, Any]:
        """What every name was resolved to, for the manifest of a run."""
        return {
            "topology": self.topology.target,
            **({"faults": [each.fault.target for each in self.faults]} if self.faults else {}),
            **({"movements": [each.movement.target for each in self.movements]} if self.movements else {}),
            "services": [
                {
                    "kind": service.kind.target,
                    "protocol": service.protocol.target,
                    "index": service.index.target if service.index else None,
                    "workload": [source.source.target for source in service.sources],
                    **({"attackers": [a.behaviour.target for a in service.attackers]} if service.attackers else {}),
                    "audit_rule": service.kind.object.manifest.audit_rule or None,
                    "metrics": [
                        {"name": each.name, "together": each.together.value, "measure": each.measure}
                        for each in service.metrics
                    ],
                }
                for service in self.services
            ],
        }

    def model_parts(self) -> dict[str, Any]:
        """What determines the trace: the scenario without what only says how it is run, shown and judged."""
        data = self.resolved()
        for key in ("engine", "trace", "title", "name", "expect"):
            del data[key]
        for service in data["services"]:
            del service["tables"], service["view"]
            service.pop("metrics", None)
        return data
