"""Small random models that strain one thing each, and what they are made of.

A rehearsal is an overlay with clients who play a script. What they say is up to the kind, whose manifest names as
`rehearsal` a function that writes it: (rehearsal, nodes, clients, the service's params, seed) to the `params` of a
`Script`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from brokers import names
from brokers.contract import NEVER, Emission, SourceContext
from brokers.engine.model import Model, ServiceSpec, SourceSpec
from brokers.errors import InvalidInput
from brokers.kinds import all_that, kinds_of, kinds_told, unmet
from brokers.limits import NO_LIMITS, Limits
from brokers.programs.spelling import is_program, is_target
from brokers.registry import did_you_mean
from topology import draws
from topology.build import build
from topology.latent import with_latent
from topology.links import Latent, Links
from topology.servers import Server, with_servers

SCRIPT = "protocols.rehearsing:Script"
MESSAGES_MOST = 200_000  # of a rehearsal, whose brokers handle some thousands: more is a storm, which would never end


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


def columns(messages: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Messages (time, client, word[, row]) as the columns that `Script` takes."""
    names = ("time", "client", "word")
    found: dict[str, Any] = {name: [m[i] for m in messages] for i, name in enumerate(names)}
    if messages and len(messages[0]) > 3:
        found["rows"] = [m[3] for m in messages]
    return found


# ---- naming protocols and kinds -----------------------------------------------------------------------


def target_of(named: str | type, group: str = "protocols") -> str:
    """The "module:Class" of a registered name, of a target, or of a class.

    Whoever calls this names it in code or on a command line, so code from outside is imported. A class that its module
    does not hold under its name, as one made in a function, is named for this process only.
    """
    if is_target(named):
        return str(named)  # so that a program need not be asked each time what it is
    if isinstance(named, str):
        return names.find(group, named, trust=True).target
    module = sys.modules.get(named.__module__)
    if getattr(module, named.__qualname__, None) is named and "." not in named.__qualname__:
        return f"{named.__module__}:{named.__qualname__}"
    name = f"local_{named.__name__}_{id(named):x}"
    setattr(sys.modules[__name__], name, named)
    return f"{__name__}:{name}"


def service_of(
    protocol: str | type,
    name: str = "service",
    index: str | None = None,
    kind: str | type | None = None,
    **said: Any,
) -> ServiceSpec:
    """A service of this protocol: its kind and the kind's default index, and what else is said.

    The kind is found by the name that the protocol gives, so one that is not registered has to be handed over. Unless
    parameters are said, the service asks for all that the protocol can do.
    """
    target = target_of(protocol)
    loaded = names.load_as("protocols", target)
    serves = kinds_of(loaded)
    usual = serves[0]
    if kind is None and usual not in names.table("kinds"):
        known = did_you_mean(usual, names.table("kinds"))
        raise InvalidInput(f"{target}: there is no kind {usual!r}; {known}; or hand it over as `kind`, module:Name")
    found = names.find("kinds", target_of(kind, "kinds") if kind else usual, trust=True)
    if found.object.name not in serves:
        raise InvalidInput(f"{target} serves {kinds_told(serves)}, not {found.object.name!r}")
    index = index or found.object.manifest.default_index
    said.setdefault("params", found.object.Params(**all_that(loaded, found.object)).model_dump())
    for key, told in unmet(found.object, loaded, said["params"]):
        raise InvalidInput(f"{key}: {told}, which {target} cannot do")
    index_target = None if index is None else names.find("indexes", index, trust=True).target
    return ServiceSpec(name, found.target, target, index_target, **said)


# ---- rehearsals ---------------------------------------------------------------------------------------


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
    limits: Limits = NO_LIMITS

    @property
    def tree(self) -> bool:
        return self.topology in ("line", "star", "balanced-tree", "random-tree")


_UNIFORM = {"delay": {"kind": "uniform", "low": 200_000, "high": 9_000_000}}
_EQUAL = {"delay": {"kind": "constant", "delay": 2_000_000}}

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
        {**_UNIFORM, "jitter": 3_000_000, "bandwidth": 400_000},
        {"base": 2e6, "per_entry": 9e3, "per_match": 5e4, "per_link": 2e4, "per_byte": 100.0},
    ),
    Rehearsal(
        "a tree that loses messages",
        "random-tree",
        {"nodes": 8},
        {**_UNIFORM, "jitter": 1_000_000, "loss": 0.05},
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

NARROW = Rehearsal(
    "a tree of narrow links, each with room for two messages", "random-tree", {"nodes": 8},
    {**_UNIFORM, "jitter": 3_000_000, "bandwidth": 40_000}, limits=Limits(messages=2),
)  # fmt: skip


def rehearsals_for(protocol: str | type) -> tuple[Rehearsal, ...]:
    """All rehearsals, and one more for those who are told of what their links drop."""
    told = names.load_as("protocols", target_of(protocol)).drops_told_ns
    return (*REHEARSALS, NARROW) if told else REHEARSALS


def rehearse(
    rehearsal: Rehearsal, protocol: str | type, seed: int = 1, clients: int = 14, **service: Any
) -> Model:
    """The model of a rehearsal for one protocol. `service` goes into the service's description.

    Where a protocol does not take the overlay, as many brokers are linked each with each, in regions of three, or else
    in a tree.
    """
    spec = service_of(protocol, **{"cost": dict(rehearsal.cost), **service})
    links = Links.model_validate(dict(rehearsal.links))
    overlay = build(rehearsal.topology, dict(rehearsal.params), links, seed)
    if not is_program(spec.protocol_target):  # which may be asked what it does not take
        brokers, asked = overlay.brokers, spec.protocol_class
        misfits, overlay = asked.misfits, with_needed(overlay, asked, options_of(spec))
        if misfits(options_of(spec), overlay, spec.params):
            overlay = replace(build("clusters", {"size": brokers}, links, seed), region=np.arange(brokers) // 3)
        if misfits(options_of(spec), overlay, spec.params):
            overlay = build("random-tree", {"nodes": brokers}, links, seed)
            overlay = with_needed(overlay, asked, options_of(spec))
    kind = spec.kind_class
    if not kind.manifest.rehearsal:
        raise InvalidInput(f"the kind {kind.name!r} has no rehearsal; name a function as `rehearsal` in its manifest")
    if kind.server:
        overlay = with_servers(overlay, [Server("server", 0, 1_000_000)])
        spec = replace(spec, server=overlay.brokers)
    script = names.load_as("rehearsals", kind.manifest.rehearsal)(rehearsal, overlay.nodes, clients, spec.params, seed)
    script["standing"] = script["standing"] if rehearsal.settled else []
    at = [Dice(seed, client, "conformance/broker").below(overlay.brokers) for client in range(clients)]
    source = SourceSpec(SCRIPT, script, "all")
    return Model(
        rehearsal.name,
        seed,
        rehearsal.duration_ns,
        overlay,
        np.array(at, np.int32),
        {"all": (0, clients)},
        [replace(spec, settled=rehearsal.settled, sources=[source])],
        sample_every_ns=50_000_000,
        limits=rehearsal.limits,
        messages_max=MESSAGES_MOST * max(1, rehearsal.publications // 100, rehearsal.duration_ns // 300_000_000),
    )


def with_needed(overlay: Any, protocol: Any, options: Any) -> Any:
    """The overlay with the latent links that a protocol needs."""
    hops = protocol.latent_hops(options)
    return with_latent(overlay, Latent(hops=hops)) if hops else overlay


def options_of(spec: ServiceSpec) -> Any:
    """The options of a service, as its protocol gets them."""
    model = spec.protocol_class.Options
    return spec.options if model is None or isinstance(spec.options, model) else model(**spec.options)


class Dice:
    """Plain draws from one named stream."""

    def __init__(self, seed: int, entity: int, purpose: str) -> None:
        self._key = draws.stream(seed, entity, purpose)
        self._count = 0

    def below(self, limit: int) -> int:
        self._count += 1
        return int(draws.bits(self._key, self._count)) % limit
