"""The group `routing`: topics, and routing among brokers as practice and papers have it.

`PARTS` are functions that yield rows; `Sizes` holds everything that may be scaled down, and the tests do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from analysis.bench.models import SUBSCRIPTION, Setting, model
from analysis.bench.rows import REPEATS, Row, medians, row
from brokers.engine.model import Model, SourceSpec
from brokers.kinds import KindManifest
from protocols.topics.manifest import TOPICS


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    repeats: int = REPEATS
    topics: Setting = field(default=Setting(
        brokers=1000, publications_per_s=2_000.0, seconds=2.0, subscriptions=100_000, protocol=SUBSCRIPTION,
    ))  # fmt: skip
    names: int = 100_000


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    for part in PARTS:
        yield from part(Sizes())


def topic_networks(sizes: Sizes) -> Iterator[Row]:
    """`subscription` over topics, beside the same over ranges that are asked for as often."""
    setting = sizes.topics
    named, ranged = topic_model(setting, sizes.names), model(setting)
    for wildcards in (0.0, 0.1):
        named = topic_model(setting, sizes.names, wildcards)
        value, baseline = medians([_speed(named), _speed(ranged)], sizes.repeats)
        what = "literal names" if not wildcards else f"{wildcards:.0%} wildcards"
        name = f"subscription over topics, {setting.brokers:,} brokers, {setting.subscriptions:,} filters, {what}"
        yield row(name, value, "hops/s", least=1e6, baseline=baseline)


def topic_model(setting: Setting, names: int, wildcards: float = 0.1, manifest: KindManifest = TOPICS) -> Model:
    """The model of a setting with filters over a tree of so many names in the place of ranges."""
    base = model(setting)
    tree = {"topics": names, "depth": [3, 5], "branching": 20, "popularity": 0.8}
    sources = [
        SourceSpec("protocols.topics.subscribe:TopicSubscribe", {**tree, "wildcards": wildcards}, "subscribers"),
        SourceSpec(
            "protocols.topics.publish:TopicPublish",
            {**tree, "process": "poisson", "total_rate": setting.publications_per_s}, "publishers",
        ),
    ]  # fmt: skip
    index = names_target(manifest)
    service = replace(
        base.services[0], kind_target=manifest.kind, index_target=index, params={"syntax": "mqtt", "levels": 8},
        sources=sources,
    )  # fmt: skip
    return replace(base, services=[service])


def names_target(manifest: KindManifest) -> str:
    """The usual index of a kind."""
    from brokers import names

    return names.find("indexes", str(manifest.default_index)).target


def _speed(built: Any) -> Callable[[], float]:
    from brokers.engine.simulate import simulate

    return lambda: float(simulate(built, engine="inline").metrics["run"]["events_per_s"])


PARTS: tuple[Callable[[Sizes], Iterator[Row]], ...] = (topic_networks,)
