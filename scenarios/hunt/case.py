"""A case: one small run as plain data, and the scenario that says the same.

A case is run by way of its scenario, so that what was found and what the file repeats are one thing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

from brokers.errors import InvalidInput
from scenarios.loader import from_data
from scenarios.plan import resolve
from scenarios.schema import Scenario

SERVICE, CLIENTS = "service", "all"
_DELAYS = {"fault", "at", "lasts", "link", "way", "delay"}  # what a link's fault says that only delays
_DRAIN_NS = 12_000_000_000


class Edge(NamedTuple):
    """A link between two brokers, the lower number first."""

    a: int
    b: int
    delay_ns: int
    jitter_ns: int = 0
    bandwidth: int = 0
    loss: float = 0.0


class Act(NamedTuple):
    """Something that a client does."""

    at: int
    client: int
    op: str
    number: int | None = None  # of what it begins, changes or ends
    word: int | None = None  # or the word itself
    body: tuple[float | None, ...] | None = None
    data: Any = None
    text: str | None = None
    flags: tuple[str, ...] = ()

    @property
    def about(self) -> tuple[int, int | None, int | None] | None:
        """What it begins, changes or ends; None if it is a message about nothing else."""
        return None if self.number is None and self.word is None else (self.client, self.number, self.word)


class Move(NamedTuple):
    """A client is somewhere else from now on."""

    client: int
    at: int
    broker: int | None = None  # None: away


@dataclass(frozen=True)
class Case:
    """See the module. Times in ns."""

    protocol: str
    kind: str
    brokers: int
    edges: tuple[Edge, ...]
    clients: tuple[int, ...]  # the broker of each
    acts: tuple[Act, ...]
    duration_ns: int
    seed: int = 1
    params: Mapping[str, Any] = field(default_factory=dict)  # of the kind
    options: Mapping[str, Any] = field(default_factory=dict)  # of the protocol
    faults: tuple[Mapping[str, Any], ...] = ()
    detect_ns: int | None = None  # None: brokers are told nothing
    cost: Mapping[str, float] = field(default_factory=dict)
    settled: bool = False
    view: str = "auto"
    tables: str = "auto"
    moves: tuple[Move, ...] = ()
    session: Mapping[str, Any] = field(default_factory=dict)  # of the clients that come and go
    queues: Mapping[str, Any] = field(default_factory=dict)  # their limits
    latent: Mapping[str, Any] = field(default_factory=dict)  # links that may arise
    thresholds: int | None = None  # at which tables and indexes are tidied, where that is lower than usual

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process gets the fields, and not what was made of them."""
        return Case, tuple(getattr(self, each.name) for each in fields(self))

    @cached_property
    def key(self) -> str:
        """A name that follows from the content."""
        return hashlib.sha256(json.dumps(self._content, sort_keys=True, default=str).encode()).hexdigest()[:16]

    @cached_property
    def _content(self) -> dict[str, Any]:
        """What it says, field by field."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def loses(self) -> bool:
        """Whether any of its faults may lose, double or stop something: what only delays excuses nothing."""
        return any(set(each) - _DELAYS for each in self.faults) or any(
            each["fault"] != "degrade" for each in self.faults
        )

    @property
    def size(self) -> tuple[int, ...]:
        """How large it is, the more important first."""
        faults = len(self.faults)
        happens = len(self.acts) + faults + len(self.moves)
        said = len(self.options) + len(self.params)
        return (happens, self.brokers, len(self.edges), len(self.clients), said)

    @cached_property
    def weight(self) -> tuple[int, ...]:
        """By which one case is smaller than another: its size, then how long and how large its numbers are."""
        said = [
            self.settled,
            self.view != "auto",
            self.tables != "auto",
            self.thresholds is not None,
            bool(self.cost),
            bool(self.session),
            len(self.queues),
            bool(self.latent),
        ]
        numbers = list(_numbers(self._content))
        digits = sum(len(f"{number:.15g}".strip("0.")) for number in numbers)
        return (*self.size, sum(said), len(numbers), digits, int(sum(map(abs, numbers))))

    def scenario(self) -> dict[str, Any]:
        """The same as a scenario, as plain data."""
        common = _common(self.edges)
        service: dict[str, Any] = {
            "name": SERVICE, "kind": self.kind, "protocol": self.protocol, **self.params,
            **({"view": self.view} if self.view != "auto" else {}),
            **({"tables": self.tables} if self.tables != "auto" else {}),
            **({"subscriptions": "settled"} if self.settled else {}),
            **({"options": dict(self.options)} if self.options else {}),
            **({"cost": dict(self.cost)} if self.cost else {}),
            "workload": [{"source": "script", "clients": CLIENTS, "actions": [_said(act) for act in self.acts]}],
        }  # fmt: skip
        data: dict[str, Any] = {
            "name": f"hunt-{self.key[:8]}",
            "seed": self.seed,
            "duration": self.duration_ns,
            "drain": _DRAIN_NS,
            "topology": {
                "kind": "explicit",
                "nodes": self.brokers,
                "links": [[e.a, e.b] for e in self.edges],
            },
            "links": {
                **common,
                **({"overrides": overrides} if (overrides := _overrides(self.edges, common)) else {}),
                **({"latent": dict(self.latent)} if self.latent else {}),
            },
            "clients": {
                CLIENTS: {
                    "count": len(self.clients),
                    "placement": {"kind": "explicit", "brokers": list(self.clients)},
                    **({"mobility": {"kind": "itinerary", "moves": self._moves()}} if self.moves else {}),
                    **({"session": dict(self.session)} if self.session else {}),
                }
            },
            "services": [service],
            "trace": {"level": "full", "sample_every": self.duration_ns},
        }
        if self.queues:
            data["queues"] = dict(self.queues)
        if _kind(self.kind).server:
            data["servers"] = {"server": {"broker": 0}}
        if self.faults or self.detect_ns is not None:
            detect = {} if self.detect_ns is None else {"detect": self.detect_ns}
            data["faults"] = {**detect, "schedule": [dict(each) for each in self.faults]}
        return data

    def _moves(self) -> list[dict[str, Any]]:
        """In order of time, as `itinerary` takes them; a broker that is not said is none."""
        ordered = sorted(self.moves, key=lambda move: move.at)
        return [{key: value for key, value in move._asdict().items() if value is not None} for move in ordered]

    def loaded(self) -> Scenario:
        """The scenario, checked."""
        return from_data(json.loads(json.dumps(self.scenario())), trust=True)

    @cached_property
    def model(self) -> Any:
        """What is run; InvalidInput where the program refuses to."""
        return resolve(self.loaded())

    def but(self, **changes: Any) -> Case:
        """The same but for some fields."""
        return replace(self, **changes)

    @classmethod
    def of(cls, scenario: Scenario) -> Case:
        """The case that a scenario is; InvalidInput if it is none."""
        model = scenario.model
        wrong = _no_case(scenario)
        if wrong:
            raise InvalidInput(f"{scenario.where}: no case of a hunt: {wrong}")
        (service,), (group,) = scenario.services, model.clients.values()
        resolved = resolve(scenario)
        overlay = resolved.overlay
        ends = zip(overlay.link_a.tolist(), overlay.link_b.tolist())
        edges = tuple(
            Edge(
                a,
                b,
                *(
                    getattr(overlay, name)[i].item()
                    for name in ("delay_ns", "jitter_ns", "bandwidth_bps", "loss")
                ),
            )
            for i, (a, b) in enumerate(ends)
            if b < overlay.brokers and not (overlay.has_latent and overlay.latent[i])
        )
        placed = resolved.client_broker.tolist()
        acts = tuple(_act(each) for each in service.sources[0].params["actions"])
        detect = model.faults.detect
        cost = {k: v for k, v in service.section.cost.model_dump().items() if v}
        return cls(
            protocol=service.section.protocol, kind=service.section.kind, brokers=overlay.brokers, edges=edges,
            clients=tuple(placed[: group.count]), acts=acts, duration_ns=model.duration, seed=model.seed,
            params=_said_params(service), moves=_moves_of(scenario), **_surroundings(model),
            options=_said_options(service), cost=cost, settled=service.section.subscriptions == "settled",
            faults=tuple({"fault": each.name, **each.params} for each in scenario.faults),
            detect_ns=None if detect == "never" else detect, view=service.section.view, tables=service.section.tables,
        )  # fmt: skip


def _said_options(service: Any) -> dict[str, Any]:
    """Options that are not as they are by default."""
    model = getattr(service.protocol.object, "Options", None)
    if model is None:
        return {}
    usual = model().model_dump(mode="json")
    return {key: value for key, value in service.options.items() if usual.get(key) != value}


def _said_params(service: Any) -> dict[str, Any]:
    """Parameters of the kind that are not as they are by default."""
    usual = service.kind.object.Params().model_dump(mode="json")
    said = service.kind.object.Params(**service.params).model_dump(mode="json")
    return {key: value for key, value in said.items() if usual.get(key) != value}


def _moves_of(scenario: Scenario) -> tuple[Move, ...]:
    (moves,) = [each.params["moves"] for each in scenario.movements] or [[]]
    return tuple(Move(each["client"], each["at"], each["broker"]) for each in moves)


def _surroundings(model: Any) -> dict[str, Any]:
    """Session, limits and latent links, as far as they are said."""
    (group,) = model.clients.values()
    found = {"session": group.session, "latent": model.links.latent, "queues": model.queues}
    return {
        name: {} if each is None else each.model_dump(mode="json", exclude_defaults=True)
        for name, each in found.items()
    }


def _no_case(scenario: Scenario) -> str | None:
    """What keeps a scenario from being a case."""
    if len(scenario.services) != 1 or len(scenario.model.clients) != 1:
        return "it has one service and one group of clients"
    sources = [each.name for each in scenario.services[0].sources]
    if sources != ["script"]:
        return f"its workload is one `script` (got {', '.join(sources) or 'nothing'})"
    if [each.name for each in scenario.movements] not in ([], ["itinerary"]):
        return "its clients stay where they are, or move by an `itinerary`"
    return None


def _said(act: Act) -> dict[str, Any]:
    """An action as the workload `script` takes it."""
    said: dict[str, Any] = {"at": act.at, "client": act.client, "op": act.op}
    for name in ("number", "word", "data", "text"):
        if (value := getattr(act, name)) is not None:
            said[name] = value
    said |= {"flags": list(act.flags)} if act.flags else {}
    return {**said, "body": list(act.body)} if act.body is not None else said


def _act(said: Mapping[str, Any]) -> Act:
    body = said.get("body")
    return Act(
        said["at"], said["client"], said["op"], said.get("number"), said.get("word"),
        None if body is None else tuple(body), said.get("data"), said.get("text"),
        tuple(said.get("flags", ())),
    )  # fmt: skip


_COLUMNS = {"delay": "delay_ns", "jitter": "jitter_ns", "bandwidth": "bandwidth", "loss": "loss"}


def _common(edges: tuple[Edge, ...]) -> dict[str, Any]:
    """What most links have."""
    found: dict[str, Any] = {}
    for key, name in _COLUMNS.items():
        values = [getattr(edge, name) for edge in edges] or [1_000_000 if key == "delay" else 0]
        value = max(sorted(set(values)), key=values.count)
        if value or key == "delay":
            found[key] = value
    return found


def _overrides(edges: tuple[Edge, ...], common: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What single links have otherwise."""
    found = []
    for edge in edges:
        other = {
            key: getattr(edge, name)
            for key, name in _COLUMNS.items()
            if getattr(edge, name) != common.get(key, 0)
        }
        if other:
            found.append({"between": [edge.a, edge.b], **other})
    return found


def _kind(name: str) -> Any:
    from brokers import names

    return names.find("kinds", name, trust=True).object


def connected(brokers: int, edges: tuple[Edge, ...]) -> bool:
    """Whether all brokers can reach one another."""
    near: dict[int, list[int]] = {}
    for edge in edges:
        near.setdefault(edge.a, []).append(edge.b)
        near.setdefault(edge.b, []).append(edge.a)
    seen, ahead = {0}, [0]
    while ahead:
        for other in near.get(ahead.pop(), ()):
            if other not in seen:
                seen.add(other)
                ahead.append(other)
    return len(seen) == brokers


def _numbers(data: Any) -> Iterator[float]:
    """Every number in plain data."""
    if isinstance(data, Mapping):
        for each in data.values():
            yield from _numbers(each)
    elif isinstance(data, list | tuple):
        for each in data:
            yield from _numbers(each)
    elif isinstance(data, int | float) and not isinstance(data, bool):
        yield data
