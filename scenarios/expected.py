"""What a model is expected to do, by what its sources and protocols declare (`brokers.rates`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from brokers.contract import NEVER, LinkTable, Rates, SourceContext
from brokers.errors import InvalidInput
from brokers.rates import demand
from scenarios.workloads.replay import SAMPLE
from scenarios.workloads.replaying.reader import share_of

if TYPE_CHECKING:
    from brokers.engine.model import Model, ServiceSpec, SourceSpec


@dataclass(frozen=True)
class Expected:
    """Of one service."""

    name: str
    events_per_s: float | None  # per simulated second, in the mean of the run; None: a source does not say
    interests: float  # that stand at one time, as far as sources say
    silent: tuple[str, ...]  # the sources that do not say what they will do


def expected(model: Model) -> list[Expected]:
    """What each service of a model is expected to do."""
    return [_service(model, number, spec) for number, spec in enumerate(model.services)]


NOISE_PER_EVENT = 100  # so many times what is expected is not explained by estimates that are rough
NOISE_MORE = 1_000_000  # of runs with next to no workload


def messages_max(model: Model) -> int:
    """Messages and timers after which a run is taken never to get quiet; NEVER where a source says nothing of itself.

    From what sources and protocols say of themselves, and what faults may have told again of every interest.
    """
    services = expected(model)
    if any(each.silent for each in services):
        return NEVER
    told = sum(each.events_per_s or 0.0 for each in services) * model.duration_ns / 1e9
    again = len(model.faults.faults) * sum(each.interests + 1.0 for each in services) * model.overlay.nodes
    return int(NOISE_PER_EVENT * (told + again)) + NOISE_MORE


def _service(model: Model, number: int, spec: ServiceSpec) -> Expected:
    parts, silent = [], []
    for i, source in enumerate(spec.sources):
        rates = _rates(model, number, i, spec, source)
        if rates is None:
            silent.append(source.target)
            continue
        first, count = model.groups[source.group]
        rates = replace(rates, changes=rates.changes + rates.interests / count * _moves_per_s(model, first, count))
        parts.append((rates, source.publishes, model.client_broker[first : first + count]))
    parts = _by_samples(spec, parts)
    interests = sum(rates.interests for rates, _, _ in parts)
    if silent:
        return Expected(spec.name, None, interests, tuple(silent))
    protocol = spec.protocol_class
    options: Any = spec.options
    if getattr(protocol, "Options", None) is not None:
        options = protocol.Options(**spec.options)
    others = frozenset(range(model.overlay.brokers, model.overlay.nodes)) - {spec.server}
    asked = demand(
        parts, model.overlay, LinkTable.of(model.overlay, others, model.overlay.latent), spec.params, options,
        model.duration_ns / 1e9, spec.settled, spec.server,
    )  # fmt: skip
    return Expected(spec.name, float(protocol.expected_events(asked)), interests, ())


def _moves_per_s(model: Model, first: int, count: int) -> float:
    """How often clients of a group come or leave: then each of their interests is made or withdrawn."""
    if model.stays is None:
        return 0.0
    mine = (model.stays.client >= first) & (model.stays.client < first + count)
    times = np.concatenate((model.stays.begin[mine], model.stays.end[mine]))
    return float(np.count_nonzero((times > 0) & (times < model.duration_ns)) * 1e9 / model.duration_ns)


def _by_samples(spec: ServiceSpec, parts: list[Any]) -> list[Any]:
    """With what the interests of each file ask for, of the publications of all files of the service."""
    samples = [rates.more.get(SAMPLE, ((), ())) for rates, _, _ in parts]
    published = [row for _, rows in samples for row in rows]
    if not published or not any(len(asked) for asked, _ in samples):
        return parts
    kind = spec.kind_class(spec.params)
    return [
        (replace(rates, share=share_of(kind, asked, published)) if len(asked) else rates, publishes, brokers)
        for (rates, publishes, brokers), (asked, _) in zip(parts, samples, strict=True)
    ]


def _rates(model: Model, number: int, i: int, spec: ServiceSpec, source: SourceSpec) -> Rates | None:
    """What a source says of itself; None if it says nothing."""
    say = getattr(source.source_class, "rates", None)
    if say is None:
        return None
    first, count = model.groups[source.group]
    context = SourceContext(
        seed=model.seed,
        service=number,
        source=i,
        clients=np.arange(first, first + count, dtype=np.int64),
        entity_base=model.overlay.nodes,
        population=count,
        duration_ns=model.duration_ns,
        settled=spec.settled,
        service_params=spec.params,
        client_broker=model.client_broker,
        kind=spec.kind_class(spec.params),
    )
    try:
        found = say(source.params, context)
    except ValidationError:  # of a class that inherits what its parent says of other parameters
        return None
    if found is not None and not isinstance(found, Rates):
        raise InvalidInput(f"{source.target}: `rates` gives brokers.contract.Rates or None, not {type(found).__name__}")
    return found
