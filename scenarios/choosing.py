"""On which engine a run goes, and on how many shards: as asked for, or as λ and size have it.

Unless an engine is named (`auto`), several cores carry a run where there is a reason for it. Ray does where an address
is given, where several actors are asked for, or where an estimate says that they will be done before one would be;
threads of this process do where all protocols are compiled and an estimate says so. All else stays on one core, where a
run of a second is not kept waiting for a cluster to start.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, NamedTuple

from brokers.errors import EnvironmentProblem, InvalidInput
from scenarios.plan import LAMBDA_WORTHWHILE, actors_of, strength
from scenarios.schema import Scenario

if TYPE_CHECKING:
    from brokers.engine.model import Model

AUTO, RAY, THREADS, INLINE = "auto", "ray", "threads", "inline"
ENGINES = (AUTO, RAY, THREADS, INLINE)
# Events from which several cores are worth their start: a second of compiled code, half a minute of Python.
LEAST = {THREADS: 5_000_000, RAY: 3_000_000}


class Choice(NamedTuple):
    """What carries a run."""

    engine: str
    shards: int
    why: str = ""  # as the end of a sentence; nothing where it was asked for


def where_ray_is(engine: str | None, address: str | None) -> str:
    """The engine asked for, else Ray where it is installed; refused where it cannot run."""
    if engine is not None and engine not in ENGINES:
        raise InvalidInput(f"no engine {engine!r}; known: {', '.join(ENGINES)}")
    if address is not None and engine in (INLINE, THREADS):
        raise InvalidInput(f"the engine {engine} uses no cluster; leave out the address {address!r}")
    if engine in (None, AUTO):
        engine = RAY if address is not None or installed() else INLINE
    if engine == RAY and not installed():
        raise EnvironmentProblem(
            "Ray is not installed: pip install 'brokerlab[ray]', or use the engine inline, which needs no Ray"
        )
    return str(engine)


def choose(
    scenario: Scenario, model: Model, engine: str | None, actors: int | None, address: str | None
) -> Choice:
    """What carries this run. O(1) for small runs; else what partitioning the network costs."""
    if actors is not None and actors < 1:
        raise InvalidInput(f"a run needs at least one actor (got {actors})")
    possible = where_ray_is(engine, address)
    asked = actors if actors is not None else scenario.model.engine.actors
    if engine not in (None, AUTO):
        return Choice(possible, _shards(scenario, possible, actors, address))
    if address is not None:
        return Choice(RAY, _shards(scenario, RAY, actors, address), "since an address is given")
    if asked is not None and (asked == 1 or possible == INLINE):
        lacking = "" if asked == 1 else " and Ray is not installed"
        return Choice(INLINE, asked, f"since {_actors(asked)} asked for{lacking}")
    if asked is not None:
        return Choice(RAY, asked, f"since {_actors(asked)} asked for")
    taken = _by_estimate(scenario, model)
    if taken.engine == RAY and possible == INLINE:
        return Choice(INLINE, 1, "since Ray is not installed")
    return taken


def _by_estimate(scenario: Scenario, model: Model) -> Choice:
    """Ray where several actors will be done before one would; where nobody knows, this process."""
    from brokers.engine.course import will_be_compiled
    from scenarios.expected import expected
    from scenarios.many.pool import cpus

    named = scenario.model.engine.partition
    shards = max(named) + 1 if isinstance(named, list) else min(cpus(), model.overlay.brokers)
    if shards < 2:
        return Choice(INLINE, 1, f"since there is one {'shard' if isinstance(named, list) else 'CPU or broker'}")
    services = expected(model)
    if any(each.silent for each in services):
        return Choice(INLINE, 1, "since it is not known how much clients will do")
    events_per_s = sum(each.events_per_s or 0.0 for each in services)
    compiled = will_be_compiled(model)
    engine = THREADS if compiled else RAY
    events = events_per_s * model.duration_ns / 1e9
    if events < LEAST[engine]:
        return Choice(INLINE, 1, f"since about {float(f'{events:.2g}'):,.0f} events are expected, too few to share out")
    found = strength(scenario, model.overlay, shards, engine, events_per_s)
    them = "threads" if compiled else "actors"
    if found is not None and found < LAMBDA_WORTHWHILE:
        return Choice(INLINE, 1, f"since λ is {found:.2g}, below {LAMBDA_WORTHWHILE:g}: {them} would only wait")
    said = f"since {them} never wait for each other" if found is None else f"since λ is {found:.3g}: {them} pay"
    return Choice(engine, shards, said)


def _actors(count: int) -> str:
    return "one actor is" if count == 1 else f"{count} actors are"


def _shards(scenario: Scenario, engine: str, actors: int | None, address: str | None) -> int:
    if address is not None and actors is None and scenario.model.engine.actors is None:
        from brokers.engine.ray import cluster_cpus

        return cluster_cpus(address)
    return actors_of(scenario, engine, actors)


def installed() -> bool:
    """Whether there is a Ray to run on."""
    return importlib.util.find_spec("ray") is not None
