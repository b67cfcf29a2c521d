"""From a valid scenario to the model that an engine runs, and what running it would take.

`resolve` builds the network, attaches the clients, reads the files a scenario names, and sets up kinds, indexes and
sources as a run would, so that whatever is wrong with them shows before a run, and where. `plan` adds an estimate.

Theory of λ (OMNeT++): parallel simulation pays where each window holds much work against what its
exchange costs,

    λ = L·E / (τ·P)

with the lookahead L in simulated seconds, E events per simulated second, the exchange τ in seconds, and P
events per second of one core. Below about 10, several runs side by side finish sooner than one run over
several cores.

E is what sources and protocols declare (`scenarios.expected`): within a factor of two of what is measured for the
scenarios that come with the program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokers.errors import InvalidInput
from brokers.programs import spelling
from scenarios.adversities import attackers_of, faults_of, limits_of, notes_of, stays_of
from scenarios.checks import (
    check_promises,
    check_samples,
    check_service,
    check_source,
    note_of_promise,
    notes_of_protocol,
)
from scenarios.measuring import lacking
from scenarios.problems import Path as DataPath
from scenarios.schema import ResolvedService, Scenario

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from brokers.engine.model import Model, SourceSpec
    from topology.overlay import Overlay
    from topology.partition import Partition

LAMBDA_WORTHWHILE = 10.0
# Measured on a 2-core virtual machine; other machines differ by small factors, which λ does not mind. A window
# of threads costs 2 µs by itself (`brokerlab bench network`); what counts is that rounds end with it, and that one
# thread has less to do than the other.
EXCHANGE_S = {"ray": 1.5e-3, "inline": 50e-6, "threads": 40e-6}
EVENTS_PER_S = 1_000_000.0
COMPILED_PER_S = 5_000_000.0  # where all protocols have compiled handlers
PROCESS_BYTES = 150_000_000  # an actor with its libraries and compiled kernels
BROKER_BYTES = 2_000
SUBSCRIPTION_BYTES = 600
FLIGHT_BYTES = 200  # an event under way


def resolve(scenario: Scenario) -> Model:
    """The model of a scenario; ScenarioErrors if its network or its files do not fit."""
    from brokers.engine.model import Model, ServiceSpec, at_worst

    model = scenario.model
    brokers = _overlay(scenario)
    placed, groups = _clients(scenario, brokers)
    overlay = _with_servers(scenario, brokers)
    check_samples(scenario, overlay.nodes)
    faults = faults_of(scenario, overlay)
    limits = limits_of(scenario, overlay)
    stays, client_broker = stays_of(scenario, overlay, placed, groups, faults)
    server_of = {name: brokers.brokers + i for i, name in enumerate(model.servers)}
    files: dict[str, str] = {}
    notes = notes_of(scenario, overlay, faults, limits)
    services = []
    for i, service in enumerate(scenario.services):
        params = _params(scenario, i, service, files)
        if spelling.is_program(service.protocol.target):
            found = spelling.files_of(service.section.protocol, scenario.folder)
            files |= {word: _hash(str(path)) for word, path in found.items()}
        check_service(scenario, i, service, params, at_worst(overlay, faults, limits))
        check_promises(scenario, service, overlay, faults)
        if note := note_of_promise(scenario, i, service, overlay):
            notes.append(note)
        notes += [f"{service.section.name}: {told}" for told in notes_of_protocol(scenario, i, service, overlay)]
        sources = _sources(scenario, i, service, params, groups, overlay, client_broker, files, notes)
        services.append(
            ServiceSpec(
                name=service.section.name,
                kind_target=service.kind.target,
                protocol_target=spelling.placed(service.protocol.target, scenario.folder),
                index_target=service.index.target if service.index else None,
                tables="own" if service.section.tables == "own" else "shared",
                view=service.section.view,
                settled=service.section.subscriptions == "settled",
                options=service.options,
                params=params,
                cost=service.section.cost.model_dump(),
                sources=sources,
                server=-1 if service.server is None else server_of[service.server],
                attackers=attackers_of(scenario, i, service, brokers),
            )
        )
    notes += [f"{name} will not be measured: {why}" for name, why in lacking(scenario.services).items()]
    parts = {**scenario.model_parts(), "overlay": _fingerprint(overlay), "files": files}
    if faults or faults.opens:  # a class of the same name may give others tomorrow
        parts["schedule"] = hashlib.sha256(repr(faults).encode()).hexdigest()
    if stays is not None:
        columns = (stays.number, stays.client, stays.broker, stays.begin, stays.end, stays.keep_ns, stays.most)
        parts["stays"] = hashlib.sha256(b"".join(column.astype("<i8").tobytes() for column in columns)).hexdigest()
    return Model(
        name=model.name,
        seed=model.seed,
        duration_ns=model.duration,
        overlay=overlay,
        client_broker=client_broker,
        groups=groups,
        services=services,
        trace_level=model.trace.level,
        sample_every_ns=model.sample_every_ns,
        drain_ns=model.drain,
        faults=faults,
        limits=limits,
        stays=stays,
        facts={"scenario": scenario.resolved(), "model_parts": parts, "folder": scenario.folder, "notes": tuple(notes)},
    )


def _overlay(scenario: Scenario) -> Overlay:
    from topology.build import build
    from topology.errors import TopologyError
    from topology.latent import with_latent

    model = scenario.model
    try:
        kind, params = model.topology.kind, scenario.topology_params
        built = build(kind, params, model.links, model.seed, scenario.folder, scenario.topology.object)
        return with_latent(built, model.links.latent, model.seed)
    except TopologyError as error:
        section, _, rest = str(error).partition(": ")
        path: DataPath = ("links",) if section == "links" else ("topology",)
        message = rest if section in ("links", f"topology {model.topology.kind}") else str(error)
        raise scenario.wrong(path, message) from error


def _with_servers(scenario: Scenario, overlay: Overlay) -> Overlay:
    from topology.errors import TopologyError
    from topology.servers import Server, with_servers

    for name, each in scenario.model.servers.items():
        if name in overlay.names:
            raise scenario.wrong(("servers", name), f"a broker is named {name!r} already; choose another name")
        try:
            overlay.broker(each.broker)
        except TopologyError as error:
            raise scenario.wrong(("servers", name, "broker"), str(error).removeprefix("broker: ")) from error
    return with_servers(
        overlay,
        [
            Server(name, each.broker, each.delay, each.jitter, each.bandwidth, each.loss)
            for name, each in scenario.model.servers.items()
        ],
    )


def _clients(
    scenario: Scenario, overlay: Overlay
) -> tuple[list[NDArray[np.int32]], dict[str, tuple[int, int]]]:
    """The broker of each client, group after group in the order of the file."""
    from topology.errors import TopologyError
    from topology.placing import place

    brokers, groups, first = [], {}, 0
    for name, group in scenario.model.clients.items():
        try:
            brokers.append(place(overlay, group.count, group.placement, scenario.model.seed, name))
        except TopologyError as error:
            message = str(error).removeprefix("placement: ")
            raise scenario.wrong(("clients", name, "placement"), message) from error
        groups[name] = (first, group.count)
        first += group.count
    return brokers, groups


def _params(scenario: Scenario, i: int, service: ResolvedService, files: dict[str, str]) -> dict[str, Any]:
    """The parameters of a service's kind; files that they name are found and hashed."""
    params = dict(service.params)
    for key in getattr(service.kind.object, "paths", ()):
        if isinstance(params.get(key), str):
            params[key] = str(Path(scenario.folder) / params[key])
            try:
                files[service.params[key]] = _hash(params[key])
            except OSError as error:
                message = f"cannot read {service.params[key]}: {error.strerror}"
                raise scenario.wrong(("services", i, key), message) from error
    return params


def _hash(path: str) -> str:
    """The sha256 of a file of any size."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sources(
    scenario: Scenario,
    i: int,
    service: ResolvedService,
    service_params: dict[str, Any],
    groups: Mapping[str, tuple[int, int]],
    overlay: Overlay,
    client_broker: NDArray[np.int32],
    files: dict[str, str],
    notes: list[str],
) -> list[SourceSpec]:
    """The sources of a service, tried; what those that read files found is kept in their parameters.

    The words that files hold join those of the service, in its parameters.
    """
    import numpy as np

    from brokers.contract import SourceContext
    from brokers.engine.model import SourceSpec
    from brokers.words import PARAMETER

    specs = []
    words: dict[int, set[str]] = {}
    kind = service.kind.object
    for j, source in enumerate(service.sources):
        loaded = source.source.object
        params = dict(source.params)
        first, count = groups[source.group]
        if "first_client" in params:
            params["first_client"] = first
        named = [key for key in getattr(loaded, "paths", ()) if isinstance(params.get(key), str)]
        for key in named:
            params[key] = str(Path(scenario.folder) / params[key])
        path: DataPath = ("services", i, "workload", j)
        context = SourceContext(
            seed=scenario.model.seed,
            service=i,
            source=j,
            clients=np.array([first]),  # one stands for all
            entity_base=overlay.nodes,
            population=count,
            duration_ns=scenario.model.duration,
            settled=service.section.subscriptions == "settled",
            service_params=service_params,
            client_broker=client_broker,
            kind=kind(service_params),
        )
        params, found = check_source(scenario, service, loaded, params, context, (*path, *named[:1]))
        for attribute, each in getattr(found, "words", {}).items():
            words.setdefault(attribute, set()).update(each)
        notes += getattr(found, "notes", ())
        for key in named:
            files[source.params[key]] = _hash(params[key])
        specs.append(SourceSpec(source.source.target, params, source.group))
    if words:
        service_params[PARAMETER] = {attribute: sorted(each) for attribute, each in sorted(words.items())}
        try:
            kind(service_params)
        except InvalidInput as error:
            raise scenario.wrong(("services", i), str(error)) from error
    return specs


def _fingerprint(overlay: Overlay) -> str:
    """A hash of the network: a file of the same name may hold another one tomorrow."""
    digest = hashlib.sha256("\0".join(overlay.names).encode())
    for column in ("link_a", "link_b", "delay_ns", "jitter_ns", "bandwidth_bps", "loss"):
        digest.update(getattr(overlay, column).astype("<f8" if column == "loss" else "<i8").tobytes())
    if overlay.latent is not None:
        digest.update(overlay.latent.tobytes() + str(overlay.open_most).encode())
    if overlay.described is not None:
        digest.update(f"{overlay.described.delay!r} {overlay.open_most}".encode())
        digest.update(overlay.position.astype("<f8").tobytes())
    if overlay.bursts is not None:
        digest.update(overlay.bursts.astype("<f8").tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Plan:
    """What a run would take."""

    name: str
    title: str
    engine: str
    brokers: int
    servers: int  # each on an actor of its own, beyond `actors`, where there are several
    links: int
    tree: bool
    clients: int
    services: tuple[str, ...]
    forms: dict[str, str]  # of services whose protocol has several: which one runs, and why none that is quicker
    actors: int
    cut_links: int
    imbalance: float  # heaviest shard over the mean, minus one
    lookahead_ns: int | None  # None where no link is cut
    delay_ns_min: int | None
    events_per_s: float  # per simulated second, estimated, of the services that say
    events_by_service: dict[str, float | None]  # the same of each; None: a source does not say what it will do
    lambda_: float | None
    memory_bytes: int  # of all processes, estimated
    auto: str  # the engine that a run takes unless one is named, and why
    notes: tuple[str, ...] = field(default=())
    faults: tuple[str, ...] = field(default=())  # what fails when, in words
    movements: tuple[str, ...] = field(default=())  # which clients come and go, in words

    @property
    def unknown(self) -> tuple[str, ...]:
        """The services of which nobody knows how many events they make."""
        return tuple(name for name, events in self.events_by_service.items() if events is None)

    @property
    def advice(self) -> str:
        """Whether to run in parallel."""
        if self.actors == 1:
            return "one actor: nothing is exchanged"
        if self.lambda_ is None and self.unknown:
            return "λ is not known: try one actor and several, and compare the times"
        if self.lambda_ is None:
            return "no link is cut: the actors never wait for one another"
        if self.lambda_ < LAMBDA_WORTHWHILE:
            return (
                f"λ is below {LAMBDA_WORTHWHILE:g}: one run on one actor, and several seeds side by side, "
                "will be faster than one run on several actors"
            )
        return "λ is large enough for several actors to pay"

    def as_data(self) -> dict[str, Any]:
        """Plain data, for --json."""
        data = asdict(self)
        return {"lambda" if key == "lambda_" else key: value for key, value in data.items()} | {
            "advice": self.advice
        }


def actors_of(scenario: Scenario, engine: str, actors: int | None) -> int:
    """The number of shards: as asked for, else as the scenario says, else one per CPU, inline one."""
    asked = actors if actors is not None else scenario.model.engine.actors
    if asked is not None:
        return asked
    from scenarios.many.pool import cpus

    return 1 if engine == "inline" else cpus()


def cut(scenario: Scenario, overlay: Overlay, shards: int, apart: bool = False) -> Partition:
    """Which shard carries which broker; `apart`: servers have shards of their own."""
    from topology.errors import TopologyError
    from topology.partition import partition

    try:
        method = scenario.model.engine.partition if shards > 1 else "auto"
        return partition(overlay, shards, method, apart=apart)
    except TopologyError as error:
        message = str(error).removeprefix("partition: ")
        raise scenario.wrong(("engine", "partition"), message) from error


def strength(
    scenario: Scenario, overlay: Overlay, shards: int, engine: str, events_per_s: float
) -> float | None:
    """λ of a run on so many shards; None where they never wait for one another."""
    return _strength(_lookahead_ns(scenario, cut(scenario, overlay, shards, apart=True)), engine, events_per_s)


def _strength(lookahead_ns: int | None, engine: str, events_per_s: float) -> float | None:
    if lookahead_ns is None:
        return None
    core = COMPILED_PER_S if engine == "threads" else EVENTS_PER_S
    return lookahead_ns / 1e9 * events_per_s / (EXCHANGE_S[engine] * core)


def _lookahead_ns(scenario: Scenario, parts: Partition) -> int | None:
    from topology.overlay import NEVER

    window_max = scenario.model.engine.window_max
    if parts.lookahead_ns >= NEVER:
        return None
    return parts.lookahead_ns if window_max is None else min(parts.lookahead_ns, window_max)


def plan(scenario: Scenario, engine: str | None = None, actors: int | None = None) -> Plan:
    """Resolve a scenario and estimate what a run of it would take, by default under Ray where that is installed."""
    from brokers.engine.forms import forms_of
    from scenarios.choosing import choose, installed
    from scenarios.expected import expected
    from scenarios.faults.telling import lines
    from scenarios.moving import telling as moving

    model = resolve(scenario)
    overlay = model.overlay
    brokers = overlay.brokers
    if actors is not None and actors > brokers:
        raise InvalidInput(f"{actors} actors for {brokers} brokers; each needs at least one")
    taken = choose(scenario, model, None, actors, None)
    if engine in (None, "auto"):  # what Ray would make of it is of interest where it is not taken, too
        engine = "ray" if installed() else "inline"
    shards = min(actors_of(scenario, engine, actors), brokers)
    parts = cut(scenario, overlay, shards, apart=engine == "ray" or shards > 1)
    services = expected(model)
    events = sum(service.events_per_s or 0.0 for service in services)
    silent = [
        f"{each.name}: {', '.join(each.silent)} does not say how much its clients will do"
        for each in services
        if each.silent
    ]
    lookahead = _lookahead_ns(scenario, parts)
    exchanging = parts.shards > 1 and not silent
    return Plan(
        name=scenario.name,
        title=scenario.model.title,
        engine=engine,
        brokers=brokers,
        servers=overlay.servers,
        links=overlay.links,
        tree=overlay.is_tree,
        clients=model.clients,
        services=tuple(
            f"{s.section.name}: {s.section.kind} by {s.section.protocol}" for s in scenario.services
        ),
        forms={
            s.section.name: str(form) for s, form in zip(scenario.services, forms_of(model)) if form.several
        },
        actors=shards,
        cut_links=int(parts.cut_links.size),
        imbalance=parts.imbalance,
        lookahead_ns=lookahead,
        delay_ns_min=int(overlay.delay_ns.min()) if overlay.links else None,
        events_per_s=events,
        events_by_service={service.name: service.events_per_s for service in services},
        lambda_=_strength(lookahead, engine, events) if exchanging else None,
        auto=f"{taken.engine}, {taken.why}",
        memory_bytes=_memory(sum(each.interests for each in services), overlay, shards, engine, events),
        notes=(*overlay.notes, *model.facts["notes"], *silent),
        faults=tuple(lines(model.faults, [each.name for each in scenario.faults], overlay)),
        movements=tuple(moving.lines(model, scenario.movements)),
    )


def _memory(interests: float, overlay: Overlay, shards: int, engine: str, events_per_s: float) -> int:
    processes = 1 + (shards if engine == "ray" else 0)
    delay_s = float(overlay.delay_ns.mean()) / 1e9 if overlay.links else 0.0
    # Every shard may hold every interest.
    tables = interests * SUBSCRIPTION_BYTES * shards
    return int(
        processes * PROCESS_BYTES
        + overlay.brokers * BROKER_BYTES
        + tables
        + events_per_s * delay_s * FLIGHT_BYTES
    )
