"""The group `routing`: topics, and routing among brokers as practice and papers have it.

Speeds are hops per second of CPU, so that a busy neighbour does not show. `PARTS` are functions that yield rows;
`Sizes` holds everything that may be scaled down, and the tests do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from analysis.bench import (
    filters_of_topics,
    routing_adverts,
    routing_compared,
    routing_gossip,
    routing_merging,
    routing_neighbourhood,
    routing_plumtree,
    routing_practice,
    routing_reliable,
    routing_retained,
    routing_trees,
)
from analysis.bench.models import SUBSCRIPTION, Setting, model
from analysis.bench.rows import REPEATS, Row, medians, row
from brokers.engine.model import Model, SourceSpec
from brokers.names import find
from protocols.topics.manifest import TOPICS


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    repeats: int = REPEATS
    topics: Setting = field(default=Setting(
        brokers=1000, publications_per_s=2_000.0, seconds=2.0, subscriptions=100_000, protocol=SUBSCRIPTION,
    ))  # fmt: skip
    names: int = 100_000
    filters: filters_of_topics.Sizes = field(default=filters_of_topics.Sizes())
    adverts: routing_adverts.Sizes = field(default=routing_adverts.Sizes())
    merging: routing_merging.Sizes = field(default=routing_merging.Sizes())
    reliable: routing_reliable.Sizes = field(default=routing_reliable.Sizes())
    trees: routing_trees.Sizes = field(default=routing_trees.Sizes())
    neighbourhood: routing_neighbourhood.Sizes = field(default=routing_neighbourhood.Sizes())
    plumtree: routing_plumtree.Sizes = field(default=routing_plumtree.Sizes())
    compared: routing_compared.Sizes = field(default=routing_compared.Sizes())
    gossip: routing_gossip.Sizes = field(default=routing_gossip.Sizes())


def rows(sizes: Sizes | None = None) -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    for part in PARTS:
        yield from part(sizes or Sizes())


def topic_networks(sizes: Sizes) -> Iterator[Row]:
    """`subscription` over topics, beside the same over ranges that are asked for as often."""
    setting = sizes.topics
    ranged = routing_gossip.speed(model(setting))
    size = f"{setting.brokers:,} brokers, {setting.subscriptions:,} filters"
    for wildcards, what in ((0.0, "literal names"), (0.1, "a tenth wildcards")):
        named = routing_gossip.speed(topic_model(setting, sizes.names, wildcards))
        value, baseline = medians([named, ranged], sizes.repeats)
        name = f"subscription over topics, {size}, {what}"
        yield row(name, value, "hops/CPU s", least=1e6, baseline=baseline)


def topic_indexes(sizes: Sizes) -> Iterator[Row]:
    """The indexes by themselves."""
    yield from filters_of_topics.rows(sizes.filters)


def advertisements(sizes: Sizes) -> Iterator[Row]:
    """What advertisements cost and save, beside the closed forms."""
    yield from routing_adverts.rows(sizes.adverts)


def merging_and_leases(sizes: Sizes) -> Iterator[Row]:
    """Tables, messages and waste, beside covering and beside closed forms."""
    yield from routing_merging.rows(sizes.merging)


def reliable_delivery(sizes: Sizes) -> Iterator[Row]:
    """What comes through crashes."""
    yield from routing_reliable.rows(sizes.reliable)


def trees(sizes: Sizes) -> Iterator[Row]:
    """Trees of advertisements on overlays with cycles, kept and re-chosen by load."""
    yield from routing_trees.rows(sizes.trees)


def past_outages(sizes: Sizes) -> Iterator[Row]:
    """What comes past brokers that are down."""
    yield from routing_neighbourhood.rows(sizes.neighbourhood)


def gossip(sizes: Sizes) -> Iterator[Row]:
    """GossipSub; Plumtree and HyParView, beside closed forms and published bounds."""
    yield from routing_gossip.rows(sizes.gossip)
    yield from routing_plumtree.rows(sizes.plumtree)


def all_compared(sizes: Sizes) -> Iterator[Row]:
    """Every protocol beside the others: the table of docs/routing.md."""
    yield from routing_compared.rows(sizes.compared)


def topic_model(setting: Setting, names: int, wildcards: float) -> Model:
    """The model of a setting with filters over a tree of so many names in the place of ranges."""
    base = model(setting)
    tree = {"topics": names, "depth": [3, 5], "branching": 20, "popularity": 0.8}
    rate = {"process": "poisson", "total_rate": setting.publications_per_s}
    sources = [
        SourceSpec("protocols.topics.subscribe:TopicSubscribe", {**tree, "wildcards": wildcards}, "subscribers"),
        SourceSpec("protocols.topics.publish:TopicPublish", {**tree, **rate}, "publishers"),
    ]
    service = replace(
        base.services[0], kind_target=TOPICS.kind, index_target=find("indexes", str(TOPICS.default_index)).target,
        params={"syntax": "mqtt", "levels": 8}, sources=sources,
    )  # fmt: skip
    return replace(base, services=[service])


PARTS: tuple[Callable[[Sizes], Iterator[Row]], ...] = (
    topic_networks, topic_indexes, advertisements, merging_and_leases, reliable_delivery, past_outages, trees,
    *routing_practice.PARTS, *routing_retained.PARTS, gossip, all_compared,
)  # fmt: skip
