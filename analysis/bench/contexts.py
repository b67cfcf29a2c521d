"""The group `contexts`: the context protocols in both views, over a tree, with everything changing.

Things, one per broker, have a context of four attributes each; profiles stand at time 0, spread evenly, and name two
values each in the mean, of any thing; two thirds of them need a value, as an atom names one with probability one half.
Publications, changes of profiles (one ends, one begins) and updates of values are Poisson processes.

Rules as in `engine`: a speed is broker-hops per second of wall time over the loop of windows, memory the peak of a
process of its own. The author's view runs a model of the same kind that is small enough for it, and the shard's view
the same one beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from analysis.bench.models import SEED, overlay
from analysis.bench.rows import Row, medians, row
from brokers.engine.model import Model, ServiceSpec, SourceSpec
from brokers.registry import load

_HOPS = "hops/s"
PROTOCOLS = ("context-edge", "context-replicated", "context-escalated")


@dataclass(frozen=True)
class Traffic:
    """What is measured. Every field shows in the model and nothing else does."""

    protocol: str = "context-edge"
    brokers: int = 1000
    profiles: int = 100_000
    publications_per_s: float = 100.0
    changes_per_s: float = 100.0  # of profiles
    updates_per_s: float = 100.0
    seconds: float = 3.0
    view: str = "auto"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    repeats: int = 3
    beside: Traffic = Traffic(brokers=100, profiles=500, seconds=1.0)  # in both views
    full: tuple[Traffic, ...] = (Traffic(), Traffic(brokers=10_000, publications_per_s=20.0, seconds=1.0))
    replicated_most: int = 1000  # brokers at which each may be told each value, of which there are four times as many


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    yield from measured(Sizes())


def measured(sizes: Sizes) -> Iterator[Row]:
    """The protocols in both views, and at full size."""
    for protocol in PROTOCOLS:
        small = replace(sizes.beside, protocol=protocol)
        ours, plain = medians([hops_per_s(small), hops_per_s(replace(small, view="message"))], sizes.repeats)
        yield row(_named(small), ours, _HOPS, baseline=plain, ratio_least=20, against="the author's view")
        for traffic in sizes.full:
            if protocol == "context-replicated" and traffic.brokers > sizes.replicated_most:
                continue
            found = alone(replace(traffic, protocol=protocol))
            yield row(_named(replace(traffic, protocol=protocol)), found["hops_per_s"], _HOPS, least=1e5)
            name = f"{_named(replace(traffic, protocol=protocol))}: memory"
            yield row(name, found["peak_bytes"] / 1e9, "GB", most=4)


def _named(traffic: Traffic) -> str:
    return f"{traffic.protocol}, {traffic.brokers:,} brokers, {traffic.profiles:,} profiles"


def hops_per_s(traffic: Traffic) -> Callable[[], float]:
    """A measurement in this process."""
    built = model(traffic)

    def measure() -> float:
        from brokers.engine.simulate import simulate

        return float(simulate(built).metrics["run"]["events_per_s"])

    return measure


def alone(traffic: Traffic) -> dict[str, Any]:
    """Measure in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "analysis.bench.contexts", json.dumps(asdict(traffic))],
        capture_output=True, text=True, check=False,
    )
    if done.returncode:
        raise RuntimeError(f"measuring {traffic} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout))


def model(traffic: Traffic) -> Model:
    """The model of what is measured."""
    from protocols.context.kind import Context
    from protocols.rehearsing import target_of

    t, network = traffic, overlay(traffic.brokers)
    target = target_of(t.protocol)
    things, people = t.brokers, t.profiles
    workloads = Context.manifest.workloads
    profiles: dict[str, Any] = {
        "number": 1, "constraints": 2, "width": 0.2, "bound": 0.5, "contexts": (0, things - 1),
    }  # fmt: skip
    if t.changes_per_s:
        profiles["churn"] = {"process": "replace", "rate": t.changes_per_s / 2 / people}
    sources = [
        SourceSpec(workloads["context-updates"].target, {"total_rate": t.updates_per_s}, "things"),
        SourceSpec(workloads["context-profiles"].target, profiles, "people"),
        SourceSpec(workloads["publish"].target, {"process": "poisson", "total_rate": t.publications_per_s}, "things"),
    ]
    service = ServiceSpec(
        "bench", "protocols.context.kind:Context", target, "brokers.indexes.context.cells:CellFilter",
        view=t.view, settled=True, params=Context.Params().model_dump(),
        options=load(target).Options().model_dump(), sources=sources,
    )
    return Model(
        "bench", SEED, int(t.seconds * 1e9), network,
        (np.arange(things + people) % t.brokers).astype(np.int32),
        {"things": (0, things), "people": (things, people)}, [service], trace_level="none",
    )


def _measure(traffic: Traffic) -> dict[str, Any]:
    """Run it once, after a small one that compiles; figures as plain data."""
    from analysis.bench.alone import peak_bytes
    from brokers.engine.simulate import simulate

    simulate(model(replace(traffic, brokers=20, profiles=100, seconds=0.5)))
    result = simulate(model(traffic))
    run = result.metrics["run"]
    return {
        "hops_per_s": run["events_per_s"], "events": result.metrics["network"]["events"],
        "loop_s": run["loop_wall_s"], "setup_s": run["wall_s"] - run["loop_wall_s"],
        "peak_bytes": peak_bytes(), "deliveries": result.metrics["services"]["bench"]["deliveries"],
    }


if __name__ == "__main__":
    print(json.dumps(_measure(Traffic(**json.loads(sys.argv[1])))))
