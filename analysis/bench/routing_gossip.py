"""What `gossipsub` does in a second of CPU: compiled, in the author's form, and beside flooding in the author's view.

All run over one graph in which each broker has some twenty neighbours, with a subscriber at every broker. The group
`gossip-large` has the sizes that take minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from analysis.bench.rows import REPEATS, Row, medians, row
from analysis.papers.gossip_runs import SECOND, Setting, dialled, uniform_delays
from brokers.engine.model import Model
from protocols.rehearsing import service_of


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    repeats: int = REPEATS
    brokers: int = 1000
    dials: int = 10
    publications: int = 100


def rows(sizes: Sizes) -> Iterator[Row]:
    """Hops per second of CPU."""
    compiled = model(sizes)
    gossip = replace(compiled, services=[replace(compiled.services[0], view="message")])
    flood = service_of("flooding", kind="topics", view="message", sources=gossip.services[0].sources)
    forms = [speed(compiled), speed(gossip), speed(replace(gossip, services=[flood]))]
    quick, value, baseline = medians(forms, sizes.repeats)
    over = f"{sizes.brokers:,} brokers with {2 * sizes.dials} neighbours"
    yield row(f"gossipsub, compiled beside the author's form, {over}", quick, "hops/CPU s", baseline=value)
    yield row(f"gossipsub beside flooding, author's view, {over}", value, "hops/CPU s", baseline=baseline)


def model(sizes: Sizes) -> Model:
    """Ten publications a second, once meshes stand."""
    graph = dialled(sizes.brokers, sizes.dials, 1)
    published = [(5 * SECOND + at * SECOND // 10, at * 7 % sizes.brokers) for at in range(sizes.publications)]
    setting = Setting(graph, uniform_delays(graph, 5, 50, 1), published, seconds=6 + sizes.publications // 10)
    return replace(setting.model(1), trace_level="none")


def speed(built: Model) -> Callable[[], float]:
    """Events handled per second of CPU."""
    from brokers.engine.simulate import simulate

    def measure() -> float:
        run: Any = simulate(built, engine="inline").metrics["run"]
        return float(run["events_per_s"] * run["loop_wall_s"] / run["cpu_s"])

    return measure
