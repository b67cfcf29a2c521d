"""The group `maps`: a server that answers map queries, its brokers over arrays beside the same in the author's view.

Rules:
- Every client has a query with a period of one second, around one of six hot spots or anywhere; the network is a random
  tree. Plans are computed aside, and both views plan alike: what planning costs is in both figures.
- Figures are events per second of CPU time over the loop of windows, on one shard in this process, without a trace.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from analysis.bench.rows import REPEATS, Row, medians, row
from brokers.engine.model import Model

_RATE = "events/s of CPU"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    repeats: int = REPEATS
    brokers: int = 200
    clients: int = 1000
    objects: int = 5000
    seconds: tuple[float, float] = (2.0, 8.0)  # with changes, and without


def rows(sizes: Sizes | None = None) -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    sizes = sizes or Sizes()
    for moving, ratio_least in ((True, 2.0), (False, 5.0)):
        built = model(sizes, moving)
        plain = replace(built, services=[replace(built.services[0], view="message")])
        fast, slow = medians([events_per_s(built), events_per_s(plain)], sizes.repeats)
        how = "each moved twice a minute" if moving else "which stand and stay"
        name = f"{sizes.clients:,} queries over {sizes.brokers:,} brokers, {how}"
        yield row(name, fast, _RATE, baseline=slow, ratio_least=ratio_least, against="the author's view")


@lru_cache(maxsize=2)
def model(sizes: Sizes, moving: bool) -> Model:
    """Queries that are issued within a second and move, or that stand from the start."""
    from scenarios.loader import from_data
    from scenarios.plan import resolve

    source: dict[str, Any] = {"source": "map-queries", "period": ["1 s"], "width": [40, 80], "clusters": 6, "snap": 20}
    source |= {"ramp": "1 s", "move": "2/min"} if moving else {}
    service = {
        "name": "maps", "kind": "channels", "protocol": "channels", "objects": sizes.objects,
        "subscriptions": "messages" if moving else "settled", "cost": {"base": "20 us"}, "workload": [source],
        "options": {"mode": "merged", "planning_base_us": 2000, "planning_per_pair_ns": 500},
    }  # fmt: skip
    return resolve(from_data({
        "name": "bench", "duration": f"{sizes.seconds[0 if moving else 1]:g} s",
        "topology": {"kind": "random-tree", "nodes": sizes.brokers},
        "links": {"delay": {"kind": "uniform", "low": "2 ms", "high": "10 ms"}},
        "servers": {"atlas": {"broker": 0, "delay": "1 ms"}}, "clients": {"people": {"count": sizes.clients}},
        "services": [service],
    }))  # fmt: skip


def events_per_s(built: Model) -> Callable[[], float]:
    """A measurement of the engine in this process."""

    def measure() -> float:
        from brokers.engine.simulate import simulate

        metrics = simulate(built).metrics
        return float(metrics["network"]["events"] / metrics["run"]["cpu_s"])

    return measure
