"""What befalls the network of a scenario: faults, queues that are full, clients that come and go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scenarios.problems import Path as DataPath
from scenarios.schema import Attackers, ResolvedFault, ResolvedService, Scenario
from topology.errors import TopologyError
from topology.units import format_duration

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from brokers.attackers import AttackSpec
    from brokers.faults import Fault, FaultContext, Open, Schedule
    from brokers.limits import Limits
    from brokers.stays import Stay, Stays
    from topology.overlay import Overlay


def faults_of(scenario: Scenario, overlay: Overlay) -> Schedule:
    """What fails, entry by entry."""
    from brokers.faults import NEVER, FaultContext, Open, Schedule, WrongFault
    from scenarios.faults.given import one_too_many

    model = scenario.model
    faults: list[Any] = []
    for i, each in enumerate(scenario.faults):
        path: DataPath = ("faults", "schedule", i)
        try:
            made = _made(each, FaultContext(model.seed, i, overlay, model.duration))
        except WrongFault as error:
            raise scenario.wrong((*path, *error.path), str(error)) from error
        except Exception as error:  # whatever a third party's class does
            raise scenario.wrong(path, f"cannot be set up: {type(error).__name__}: {error}") from error
        faults += [fault._replace(entry=i) for fault in made]
    if found := one_too_many([fault for fault in faults if isinstance(fault, Open)], overlay):
        one, broker = found
        told = f"opens one link of {overlay.names[broker]} too many at {format_duration(one.begin)}"
        most = f"`links.latent.most` lets a broker have {overlay.open_most} open at once"
        raise scenario.wrong(("faults", "schedule", one.entry), f"{told}; {most}")
    detect = model.faults.detect
    return Schedule.made_of(faults, NEVER if detect == "never" else detect)


def _made(entry: ResolvedFault, context: FaultContext) -> list[Fault | Open]:
    """What an entry has fail; WrongFault if that is nothing to rely on."""
    from brokers.faults import WrongFault
    from scenarios.faults.given import taken
    from scenarios.faults.registry import FAULTS

    def asked() -> list[Fault | Open]:
        return taken(entry.fault.object(entry.params, context).schedule(), context.overlay)

    made = asked()
    if entry.name not in FAULTS and asked() != made:
        raise WrongFault(
            "gives other faults when it is asked again, and a run of this seed has to have the same each time; draw "
            "from random.Random(context.seed), not from what all programs share"
        )
    return made


def attackers_of(scenario: Scenario, i: int, service: ResolvedService, overlay: Overlay) -> tuple[AttackSpec, ...]:
    """Which brokers attack, entry by entry; no broker does so twice."""
    from brokers.attackers import AttackSpec

    taken: set[int] = set()
    found = []
    for j, each in enumerate(service.attackers):
        path: DataPath = ("services", i, "attackers", j)
        said, name = each.section, each.section.behaviour
        try:
            if said.brokers is not None:
                chosen = [b for broker in said.brokers for b in overlay.brokers_like(broker)]
            else:
                chosen = _share(scenario, service, said, overlay, taken)
        except TopologyError as error:
            raise scenario.wrong(path, str(error).removeprefix("broker: ")) from error
        for broker in chosen:
            if broker in taken:
                raise scenario.wrong(path, f"{overlay.names[broker]} is an attacker already; say each once")
            taken.add(broker)
        found.append(AttackSpec(name, each.behaviour.target, each.params, tuple(sorted(chosen))))
    return tuple(found)


def _share(
    scenario: Scenario, service: ResolvedService, said: Attackers, overlay: Overlay, taken: set[int]
) -> list[int]:
    """So many of the brokers that are not taken, the first in an order that is drawn by names."""
    from topology import draws

    near = set(range(overlay.brokers))
    if said.beside is not None:
        victims = {b for broker in said.beside for b in overlay.brokers_like(broker)}
        ends = zip(overlay.link_a.tolist(), overlay.link_b.tolist(), strict=True)
        hidden = overlay.latent if overlay.latent is not None else [False] * overlay.links
        near = {b for pair, latent in zip(ends, hidden) if victims & set(pair) and not latent for b in pair} - victims
        near &= set(range(overlay.brokers))
    count = round((said.share or 0.0) * overlay.brokers)
    left = sorted(near - taken)
    if count > len(left):
        raise TopologyError(f"a share of {said.share:g} is {count} brokers, and there are {len(left)} to choose from")
    purpose = f"attackers/{service.section.name}/{said.behaviour}"
    drawn = {b: int(draws.bits(draws.stream(scenario.model.seed, b, purpose), 0)) for b in left}
    return sorted(left, key=lambda b: drawn[b])[:count]


def limits_of(scenario: Scenario, overlay: Overlay) -> Limits:
    """How much may wait, by broker and in front of links."""
    from brokers.limits import NO_LIMITS, WAYS, Limits

    said = scenario.model.queues
    limits = NO_LIMITS._replace(messages=said.links.messages, bytes=said.links.bytes)
    if said.places is None:
        return limits
    places = [said.places if said.brokers is None else 0] * overlay.brokers
    for i, name in enumerate(said.brokers or ()):
        try:
            places[overlay.broker(name)] = said.places
        except TopologyError as error:
            raise scenario.wrong(("queues", "brokers", i), str(error).removeprefix("broker: ")) from error
    return Limits((*places, *[0] * (overlay.nodes - len(places))), WAYS.index(said.full), *limits[2:])


def notes_of(scenario: Scenario, overlay: Overlay, faults: Schedule, limits: Limits) -> list[str]:
    """What a scenario asks for that will do nothing."""
    begins: dict[int, int] = {}
    for each in (*faults.faults, *faults.opens):
        begins[each.entry] = min(each.begin, begins.get(each.entry, each.begin))
    duration = scenario.model.duration
    found = [
        f"faults.schedule[{i}] ({scenario.faults[i].name}) begins at {format_duration(begin)}, when clients do nothing "
        f"any more: duration is {format_duration(duration)}"
        for i, begin in sorted(begins.items())
        if begin >= duration
    ]
    if (limits.messages or limits.bytes) and not overlay.bandwidth_bps.any():
        found.append("queues.links has no effect: no link has a bandwidth, so nothing waits in front of one")
    return found


def stays_of(
    scenario: Scenario,
    overlay: Overlay,
    placed: list[NDArray[np.int32]],
    groups: Mapping[str, tuple[int, int]],
    faults: Schedule,
) -> tuple[Stays | None, NDArray[np.int32]]:
    """Where clients are when, group by group, and the broker of each number of a client or stay."""
    import numpy as np

    from brokers.contract import NEVER
    from brokers.stays import WrongMovement, numbered
    from scenarios.moving import movement

    client_broker = np.concatenate(placed)
    for group, section in scenario.model.clients.items():
        if section.session is not None and section.connections is None and section.mobility is None:
            raise scenario.wrong(
                ("clients", group, "session"), "these clients never leave; give them `connections` or `mobility`"
            )
        if section.session is not None and not any(each.protocol.object.hands_over for each in scenario.services):
            raise scenario.wrong(
                ("clients", group, "session"),
                "no protocol of these services hands over what came for clients that were away; subscription, "
                "covering and merging do, or leave it out",
            )
    if not scenario.movements:
        return None, client_broker
    model = scenario.model
    found: list[Stay] = []
    for (group, (first, _)), home in zip(groups.items(), placed):
        context = movement.MovementContext(model.seed, group, home, overlay, model.duration, faults)
        made: dict[str, Any] = {"connections": None, "mobility": None}
        path: DataPath = ("clients", group)
        try:
            for each in scenario.movements:
                if each.group == group:
                    path = ("clients", group, each.sort)
                    made[each.sort] = each.movement.object(each.params, context)
            session = model.clients[group].session
            keep = {} if session is None else {"keep_ns": session.keep, "most": session.messages or NEVER}
            for stay in movement.stays_of(first, context, made["connections"], made["mobility"]):
                found.append(stay._replace(**keep))
        except WrongMovement as error:
            raise scenario.wrong((*path, *error.path), str(error)) from error
        except Exception as error:  # whatever a third party's class does
            raise scenario.wrong(path, f"cannot be set up: {type(error).__name__}: {error}") from error
    return numbered(found, client_broker, model.duration) if found else (None, client_broker)
