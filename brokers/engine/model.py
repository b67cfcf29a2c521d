"""The model of a run: everything that determines its trace, as plain data that pickles.

Nothing here says how it is executed: engine, actors and host are arguments of `simulate`. Names have been resolved when
the scenario was loaded; a model holds the targets, so that it can go to another process, and the classes behind them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers import names
from brokers.attackers import AttackSpec
from brokers.faults import NEVER, NOTHING, Schedule
from brokers.limits import NO_LIMITS, Limits
from brokers.stays import Stays

_SOME_LOSS = 1e-9  # nobody draws by it


@dataclass
class SourceSpec:
    """One workload source of a service."""

    target: str  # "module:Class"
    params: dict[str, Any]
    group: str  # the client group that acts

    @property
    def source_class(self) -> Any:
        """The class behind the target."""
        return names.load_as("workloads", self.target)

    @property
    def publishes(self) -> bool:
        """Whether publications enter at its clients; what its class says, or says of these parameters."""
        made = self.source_class
        if hasattr(made, "publishes_with"):
            return bool(made.publishes_with(self.params))
        return bool(getattr(made, "publishes", True))


@dataclass
class ServiceSpec:
    """One service: a kind, a protocol, an index, a workload."""

    name: str
    kind_target: str
    protocol_target: str
    index_target: str | None
    tables: str = "shared"  # "shared" or "own"
    view: str = "auto"  # "auto", or "run" / "message": the author's view of a built-in protocol
    settled: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)  # fields of CostModel
    sources: list[SourceSpec] = field(default_factory=list)
    server: int = -1  # the overlay's node that is this service's server; -1: none
    attackers: tuple[AttackSpec, ...] = ()  # brokers that do something else

    @property
    def kind_class(self) -> Any:
        """The class behind the kind's target; those of the others likewise."""
        return names.load_as("kinds", self.kind_target)

    @property
    def protocol_class(self) -> Any:
        return names.load_as("protocols", self.protocol_target)

    @property
    def index_class(self) -> Any:
        """None where the kind uses no index."""
        return names.load_as("indexes", self.index_target) if self.index_target else None


@dataclass
class Model:
    """A resolved scenario."""

    name: str
    seed: int
    duration_ns: int
    overlay: Any  # topology.overlay.Overlay
    client_broker: NDArray[np.int32]  # per client number, and behind them per stay of those that come and go
    groups: dict[str, tuple[int, int]]  # name -> (first client number, count)
    services: list[ServiceSpec]
    trace_level: str = "deliveries"
    sample_every_ns: int = 1_000_000_000
    drain_ns: int = 60_000_000_000  # how long after `duration` messages under way may still be handled
    faults: Schedule = NOTHING  # what fails when
    limits: Limits = NO_LIMITS  # how much may wait
    stays: Stays | None = None  # where clients are when that come and go; None: all stay
    messages_max: int = NEVER  # handled messages and timers after which a run will never get quiet again
    facts: dict[str, Any] = field(default_factory=dict)  # the resolved scenario, for manifest and run id

    @property
    def clients(self) -> int:
        """How many clients there are, without the numbers that stays go under."""
        return int(self.client_broker.size) if self.stays is None else self.stays.clients

    @property
    def counted_on(self) -> Any:
        """The overlay as protocols may count on it."""
        return at_worst(self.overlay, self.faults, self.limits)


def at_worst(overlay: Any, faults: Schedule, limits: Limits) -> Any:
    """An overlay as protocols may count on it: where something fails or overflows, any link may lose messages."""
    return replace(overlay, loss=np.maximum(overlay.loss, _SOME_LOSS)) if faults or limits else overlay


def protocol_class(spec: ServiceSpec) -> Any:
    """The class that runs a service: the protocol, or the same in the author's view where that is asked for."""
    protocol: Any = spec.protocol_class
    if (spec.view != "auto" or spec.tables == "own" or spec.attackers) and getattr(protocol, "plain", None) is not None:
        protocol = protocol.plain
    return protocol


def why_plain(protocol: Any, options: Any, model: Model) -> str:
    """Why the plain form of a `ShardProtocol` runs in its place; empty where it is written for what is asked of it."""
    if model.faults.forgetful and not protocol.forgets:
        return "brokers of this schedule forget what they knew"
    if protocol.hands_over and model.stays is not None and model.stays.keep_ns.any():
        return "clients have sessions"
    hears = protocol.plain is not None and protocol.plain.wants_faults(options) and not protocol.hears_faults
    if model.faults and hears:
        return "something fails, and its plain form is told of it"
    if model.limits.ahead and protocol.plain is not None and protocol.plain.drops_told_ns != protocol.drops_told_ns:
        return "its plain form is told of what links drop"
    return str(protocol.unsuited(options, model.counted_on))
