"""The group `nearby`: the spatial protocols over all brokers of a shard at once, beside the author's view.

The tree is that of `analysis.bench.models`. Every broker has a client that publishes objects, and as many clients with
one standing subscription as come to it; some replace theirs now and then. Both views run the same model, and have to
agree on its digest. The large network is run in the shard's view alone: to set it up, the author's view tells every
broker of every subscription.

`Sizes` holds everything that may be scaled down.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.bench.models import SEED, overlay
from analysis.bench.rows import Row, row
from brokers.engine.model import Model, ServiceSpec, SourceSpec

PROTOCOLS = ("spatial-flooding", "spatial-keyword", "spatial")
_KIND = "protocols.spatial.kind:Spatial"
_INDEX = "brokers.indexes.spatial.materialised:Materialised"
_SOURCES = "protocols.spatial.objects"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    brokers: int = 100
    subscriptions: int = 10_000
    objects_per_s: float = 100.0
    changes_per_s: float = 20.0
    seconds: float = 1.0
    large_brokers: int = 1000
    large_subscriptions: int = 100_000
    large_changes_per_s: float = 100.0
    large_seconds: float = 2.0


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    sizes = Sizes()
    for protocol in PROTOCOLS:
        yield beside(sizes, protocol)
    for protocol in PROTOCOLS:
        yield large(sizes, protocol)


def beside(sizes: Sizes, protocol: str) -> Row:
    """Both views of one model."""
    from brokers.engine.simulate import simulate

    built = model(sizes, protocol)
    simulate(model(replace(sizes, seconds=sizes.seconds / 10), protocol))  # which loads the kernels
    shard = simulate(built)
    plain = simulate(replace(built, services=[replace(built.services[0], view="message")]))
    if plain.digest != shard.digest:
        raise AssertionError(f"{protocol}: the two views give different traces")
    speeds = [float(result.metrics["run"]["events_per_s"]) for result in (shard, plain)]
    name = f"{protocol}, {sizes.brokers:,} brokers, {sizes.subscriptions:,} subscriptions"
    return row(name, speeds[0], "hops/s", baseline=speeds[1], ratio_least=20.0, against="its author's view")


def large(sizes: Sizes, protocol: str) -> Row:
    """Many brokers, in the shard's view."""
    from brokers.engine.simulate import simulate

    many = replace(
        sizes, brokers=sizes.large_brokers, subscriptions=sizes.large_subscriptions,
        changes_per_s=sizes.large_changes_per_s, seconds=sizes.large_seconds,
    )  # fmt: skip
    speed = float(simulate(model(many, protocol)).metrics["run"]["events_per_s"])
    return row(f"{protocol}, {many.brokers:,} brokers, {many.subscriptions:,} subscriptions", speed, "hops/s")


def model(sizes: Sizes, protocol: str) -> Model:
    """Objects of 10 kB for six seconds, with one to three of 200 Zipf keywords, as subscriptions have them."""
    from protocols.spatial.manifest import SPATIAL

    near: dict[str, Any] = {"words": (1, 3), "region": 0.1}
    subscribe = {**near, "number": 1, "churn": {"process": "replace", "rate": _rate(sizes)}}
    publish = {
        **near, "process": "poisson", "total_rate": sizes.objects_per_s, "payload": 10_000, "lifetime": 6_000_000_000,
    }  # fmt: skip
    service = ServiceSpec(
        "nearby", _KIND, SPATIAL.protocols[protocol].target, _INDEX, settled=True,
        params={"keywords": 200, "k_max": 5},
        sources=[
            SourceSpec(f"{_SOURCES}:ObjectSubscribe", subscribe, "subscribers"),
            SourceSpec(f"{_SOURCES}:Objects", publish, "publishers"),
        ],
    )  # fmt: skip
    homes = (np.arange(sizes.brokers + sizes.subscriptions) % sizes.brokers).astype(np.int32)
    groups = {"publishers": (0, sizes.brokers), "subscribers": (sizes.brokers, sizes.subscriptions)}
    return Model(
        "nearby", SEED, int(sizes.seconds * 1e9), overlay(sizes.brokers), homes, groups, [service], trace_level="none"
    )


def _rate(sizes: Sizes) -> float:
    """Replacements per second of one client; each is two changes."""
    return sizes.changes_per_s / 2 / sizes.subscriptions
