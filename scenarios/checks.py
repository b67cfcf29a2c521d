"""What shows only when kinds, indexes and sources are set up; said at its place in the scenario.

Set up as a run does, but for one client, and nothing is simulated: so what `validate` passes, `run` begins.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from brokers import names
from brokers.contract import NEVER, BrokerProtocol, Kind, ShardProtocol
from brokers.errors import BrokerlabError
from brokers.faults import Crash
from brokers.kinds import unmet
from brokers.promises import RELIABLE, Faced, farthest_ns, promised
from brokers.words import PARAMETER
from scenarios.problems import Path, ScenarioErrors
from scenarios.schema import ResolvedService, Scenario
from topology.units import format_duration

if TYPE_CHECKING:
    from brokers.contract import SourceContext
    from brokers.faults import Schedule
    from topology.overlay import Overlay


# A minute of writing, and a table of gigabytes.
SAMPLE_ROWS_MAX = 1_000_000_000


def check_samples(scenario: Scenario, nodes: int) -> None:
    """ScenarioErrors if so many samples are asked for that a run would do nothing else."""
    model = scenario.model
    samples, services = model.duration // model.sample_every_ns, len(scenario.services)
    if samples * nodes * services > SAMPLE_ROWS_MAX:
        least = -(-model.duration * nodes * services // SAMPLE_ROWS_MAX)
        raise scenario.wrong(
            ("trace", "sample_every"),
            f"makes {samples:,} samples, a row for each of {nodes * services:,} brokers and services; a run takes "
            f"{SAMPLE_ROWS_MAX:,} rows at most: say {format_duration(least)} or more",
        )


def check_service(
    scenario: Scenario, i: int, service: ResolvedService, params: dict[str, Any], overlay: Overlay
) -> None:
    """ScenarioErrors if kind, index, protocol, their parameters and the overlay do not go together."""
    path: Path = ("services", i)
    kind, protocol = service.kind.object, service.protocol.object
    index = service.index.object if service.index else None
    options: Any = service.options
    if getattr(protocol, "Options", None) is not None:
        options = protocol.Options(**service.options)
    found = _tried(scenario, path, lambda: kind.misfits(params, index))
    found += [
        (key, f"{told}, which {service.section.protocol!r} cannot do; {_that_can(kind, key)}")
        for key, told in unmet(kind, protocol, params)
    ]
    found += _tried(scenario, path, lambda: kind.misfits_of_workload(params, service.sources))
    if issubclass(protocol, BrokerProtocol | ShardProtocol):
        found += _not_said(protocol, params, service.section.protocol)
        found += _tried(scenario, path, lambda: protocol.misfits(options, overlay, params))
    if found:
        raise _misfits(scenario, path, found)
    made = _tried(scenario, path, lambda: kind(params))
    if index is not None:
        _tried(scenario, (*path, "index"), lambda: made.new_index(index))


def _that_can(kind: Any, key: str) -> str:
    """Which of the kind's own protocols can do what a parameter asks for."""
    offered = {name: names.load_as("protocols", entry.target) for name, entry in kind.manifest.protocols.items()}
    able = [name for name, protocol in offered.items() if key in protocol.meets]
    return f"a protocol that can: {', '.join(able)}" if able else "leave it out"


def _not_said(protocol: Any, params: dict[str, Any], name: str) -> list[tuple[str, str]]:
    """What a protocol needs that the parameters of its kind do not say."""
    return [
        (key, f"the protocol {name!r} needs `{key}: {json.dumps(value)}`")
        for key, value in protocol.requires.items()
        if params.get(key) != value
    ]


def note_of_promise(scenario: Scenario, i: int, service: ResolvedService, overlay: Overlay) -> str | None:
    """What to say where publications may be under way for longer than exactness is promised of them."""
    owed = _tried(
        scenario, ("services", i), lambda: promised(service.protocol.object, service.options, overlay, Faced())
    )
    if not (owed.exact and owed.ends):
        return None
    farthest = farthest_ns(overlay.link_a, overlay.link_b, overlay.delay_ns)
    if owed.within_ns > farthest:
        return None
    return (
        f"{service.section.name}: exactness is promised of publications that are under way for less than "
        f"{format_duration(owed.within_ns)}; from the first broker to the farthest they take "
        f"{format_duration(farthest)}, and what is missed by then is not held against the protocol"
    )


def notes_of_protocol(scenario: Scenario, i: int, service: ResolvedService, overlay: Overlay) -> list[str]:
    """What a protocol has to say of its options on this overlay."""
    protocol = service.protocol.object
    model, told = getattr(protocol, "Options", None), getattr(protocol, "remarks", None)
    if told is None:
        return []

    def asked() -> list[str]:
        return list(told(service.options if model is None else model(**service.options), overlay))

    found: list[str] = _tried(scenario, ("services", i), asked)
    return found


def check_promises(scenario: Scenario, service: ResolvedService, overlay: Overlay, faults: Schedule) -> None:
    """ScenarioErrors if a service promises to recover from what is never over, or to be reliable through it.

    A broker that never comes back is another matter, of a protocol that lets go of whoever is out of reach.
    """
    protocol = service.protocol.object
    endless = next((fault for fault in faults.faults if fault.end >= NEVER), None)
    if endless is None or not hasattr(protocol, "recovery"):
        return
    path: Path = ("faults", "schedule", endless.entry)
    options: Any = service.options if protocol.Options is None else protocol.Options(**service.options)
    found = _tried(scenario, path, lambda: protocol.recovery(options, overlay, Faced.of(faults, overlay)))
    gone = all(isinstance(fault, Crash) for fault in faults.faults if fault.end >= NEVER)
    owed = _tried(scenario, path, lambda: promised(protocol, service.options, overlay, Faced()))
    if owed.under_faults == RELIABLE:
        raise scenario.wrong(
            path,
            f"this is never over, and {service.section.name!r} promises to deliver in the end; say how long it lasts",
        )
    if found is not None and not (found.lets_go and gone):
        raise scenario.wrong(
            path,
            f"this is never over, and {service.section.name!r} promises to recover so long after the last fault; say "
            "how long it lasts, or let the service promise nothing (without its option `recover`)",
        )


def check_source(
    scenario: Scenario,
    service: ResolvedService,
    source: Any,
    params: dict[str, Any],
    context: SourceContext,
    path: Path,
) -> tuple[dict[str, Any], Any]:
    """(parameters, what was found) of a source that reads files or text once before the run; else None was found.

    ScenarioErrors if it cannot be set up, or gives interests to a protocol that cannot begin with any.
    """
    if hasattr(source, "prepared"):
        prepared: tuple[dict[str, Any], Any] = _tried(scenario, path, lambda: source.prepared(params, context))
        return prepared

    found: Read | None = None
    if hasattr(source, "words"):
        found = Read(_tried(scenario, path, lambda: source.words(params, context.kind)))
        context = _with_words(context, found.words)

    def begin() -> bool:
        made = source(params, context)
        return bool(context.settled and hasattr(made, "standing") and made.standing(context.clients))

    stands = _tried(scenario, path, begin)
    if stands and not _can_stand(service.protocol.object):
        message = f"the protocol {service.section.protocol!r} cannot start with settled subscriptions; say `messages`"
        raise scenario.wrong(("services", context.service, "subscriptions"), message)
    return params, found


class Read(NamedTuple):
    """What a source has that reads text."""

    words: dict[int, set[str]]  # by attribute


def _with_words(context: SourceContext, words: dict[int, set[str]]) -> SourceContext:
    """The same where these are the words of the service."""
    if not words:
        return context
    params = {**context.service_params, PARAMETER: {attribute: sorted(each) for attribute, each in words.items()}}
    return replace(context, service_params=params, kind=type(cast(Kind, context.kind))(params))


def _can_stand(protocol: Any) -> bool:
    if issubclass(protocol, ShardProtocol):
        return protocol.stand is not ShardProtocol.stand
    return not issubclass(protocol, BrokerProtocol) or protocol.on_standing is not BrokerProtocol.on_standing


def _tried(scenario: Scenario, path: Path, act: Callable[[], Any]) -> Any:
    try:
        return act()
    except ScenarioErrors:
        raise
    except BrokerlabError as error:
        raise scenario.wrong((*path, *getattr(error, "path", ())), str(error)) from error
    except Exception as error:  # whatever a third party's class does with what it is given
        raise scenario.wrong(path, f"cannot be set up: {type(error).__name__}: {error}") from error


def _misfits(scenario: Scenario, path: Path, found: list[tuple[str, str]]) -> ScenarioErrors:
    problems = [
        problem
        for where, message in found
        for problem in scenario.wrong((*path, *_place(where)), message).problems
    ]
    return ScenarioErrors(problems)


def _place(where: str) -> Path:
    """A key of a service; places in lists are numbers."""
    return tuple(int(part) if part.isdigit() else part for part in where.split("."))
