"""Networks of the kind `topk`: its protocols over all brokers of a shard at once and beside their author's view.

Each broker has as many filters, of clients whose interests are regional; filters are replaced all along. Both views
handle the same traffic. A speed is over the loop of windows: filters stand from the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.bench.models import SEED, overlay
from analysis.bench.rows import Row, medians, row
from brokers.engine.model import Model, ServiceSpec, SourceSpec

PROTOCOLS = {
    "topk-ingress": "protocols.topk.ingress:Ingress", "topk-gather": "protocols.topk.gather:Gather",
    "topk-bounded": "protocols.topk.bounded:Bounded",
}  # fmt: skip
LEAST, RATIO_LEAST = 1e5, 20.0
_HOPS = "hops/s"


@dataclass(frozen=True)
class Setting:
    """What is measured."""

    brokers: int = 1000
    filters: int = 100_000
    changes_per_s: float = 100.0
    publications_per_s: float = 1000.0
    seconds: float = 1.0
    view: str = "auto"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    repeats: int = 3
    whole: Setting = Setting()
    beside: Setting = Setting(brokers=200, filters=20_000, seconds=0.2)  # what the author's view can be set up with


def rows(sizes: Sizes) -> Iterator[Row]:
    """Every row of the networks."""
    for name, protocol in PROTOCOLS.items():
        (speed,) = medians([_speed(protocol, sizes.whole)], sizes.repeats)
        yield row(f"{_named(sizes.whole)}: {name}", speed, _HOPS, least=LEAST)
        plain = replace(sizes.beside, view="message")
        speed, author = medians([_speed(protocol, sizes.beside), _speed(protocol, plain)], sizes.repeats)
        yield row(
            f"{_named(sizes.beside)}: {name}", speed, _HOPS, baseline=author, ratio_least=RATIO_LEAST,
            against="the author's view",
        )


def _named(setting: Setting) -> str:
    return f"{setting.brokers:,} brokers, {setting.filters:,} filters, {setting.changes_per_s:g} changes/s"


def _speed(protocol: str, setting: Setting) -> Any:
    from brokers.engine.simulate import simulate

    built = model(protocol, setting)
    return lambda: float(simulate(built).metrics["run"]["events_per_s"])


def model(protocol: str, setting: Setting) -> Model:
    """The model of a setting."""
    brokers, filters = setting.brokers, setting.filters
    sources = [
        SourceSpec(
            "protocols.topk.ranked:RankSubscribe",
            {
                "number": 1, "constraints": [2, 4], "width": 0.2, "region": 0.1, "ramp": 0,
                "churn": {"process": "replace", "rate": setting.changes_per_s / filters},
            },
            "subscribers",
        ),
        SourceSpec(
            "protocols.topk.ranked:RankPublish",
            {"process": "poisson", "total_rate": setting.publications_per_s, "region": 0.1},
            "publishers",
        ),
    ]  # fmt: skip
    service = ServiceSpec(
        "bench", "protocols.topk.kind:TopK", protocol, "brokers.indexes.topk.sliced:Sliced", view=setting.view,
        settled=True, params={"attributes": 8, "k": 10}, sources=sources,
    )
    return Model(
        "bench", SEED, int(setting.seconds * 1e9), overlay(brokers),
        (np.arange(brokers + filters) % brokers).astype(np.int32),
        {"publishers": (0, brokers), "subscribers": (brokers, filters)}, [service], trace_level="none",
    )
