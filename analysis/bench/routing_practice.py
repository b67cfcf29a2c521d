"""Rows of the group `routing`: clusters, gateways and bridges beside the closed forms of what they cost.

What is counted is messages and entries, so a row holds if it is the closed form to the last one; of shares, which are
drawn, within three parts in a hundred. Both of five seeds, where anything is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from analysis.bench.rows import Row, row
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.indexes.topics.syntax import HASH
from protocols.joining import Joined, overlay_of
from protocols.practice.interest import INTEREST
from protocols.rehearsing import Dice, service_of
from protocols.topics.kind import PUBLISH

_MS = 1_000_000
_SECOND = 1_000 * _MS
_SHARE = 0.03  # how far a mean may be off

SEEDS = range(1, 6)

Links = list[tuple[int, int]]


def clusters(sizes: Any, seeds: Sequence[int] = SEEDS) -> Iterator[Row]:
    """What a cluster tells, keeps and sends, with filters and names that are drawn."""
    brokers = 12
    drawn = [cluster(brokers, seed) for seed in seeds]
    for what, unit in (
        ("control messages", "messages"), ("entries of a table", "entries"), ("copies of 100 publications", "messages"),
    ):  # fmt: skip
        pairs = [each[what] for each in drawn]
        measured, expected = (float(np.mean(each)) for each in zip(*pairs))
        name = f"cluster of {brokers} brokers: {what}, {_spread([each for each, _ in pairs])}"
        found = row(name, measured, unit, baseline=expected)
        yield {**found, "target": "the closed form, with every seed", "holds": all(a == b for a, b in pairs)}


def cluster(brokers: int, seed: int) -> dict[str, tuple[int, int]]:
    """What is counted, and by the closed form."""
    clients, names = 60, 40
    dice = Dice(seed, 0, "bench/practice")
    homes = [dice.below(brokers) for _ in range(clients)]
    net = _joined("cluster", _mesh(brokers), homes)
    wants = [1 + dice.below(names) for _ in range(clients)]
    for client, name in enumerate(wants):
        net.send(client, "subscribe", [0, 0, name], word=net.interest(client))
    asked = set(zip(homes, wants))
    forwarded = 0
    for _ in range(100):
        at, name = dice.below(clients), 1 + dice.below(names)
        net.send(at, "publish", [name])
        forwarded += len({home for home, want in asked if want == name} - {homes[at]})
    return {
        "control messages": (_over(net, INTEREST), len(asked) * (brokers - 1)),
        "entries of a table": (max(map(net.entries, range(brokers))), len(asked)),
        "copies of 100 publications": (_over(net, PUBLISH), forwarded),
    }


def groups(sizes: Any, seeds: Sequence[int] = SEEDS) -> Iterator[Row]:
    """Who serves a group of which nobody is where a publication enters, and where some are."""
    by_seed = [served(0, 2000, seed) for seed in seeds]
    shares = [each.count(2) / len(each) for each in by_seed]
    name = f"group with weights 1 and 3 elsewhere: share of the second, {_spread(shares)}"
    yield _mean(name, float(np.mean(shares)), 3 / 4)
    by_seed = [served(1, 200, seed) for seed in seeds]
    elsewhere = sum(len(each) - each.count(0) for each in by_seed)
    yield _exact("group with a member here: served elsewhere", elsewhere, 0, "publications")


def served(here: int, times: int, seed: int) -> list[int]:
    """At which brokers the members were that got a publication of broker 0, which has so many of them itself."""
    homes = [0] * here + [1, 2, 2, 2]
    net = _joined("cluster", _mesh(3), [*homes, 0], options={}, params={"groups": True})
    for client in range(len(homes)):
        net.send(client, "subscribe", [0, 1, HASH], word=net.interest(client))
    for _ in range(times):
        net.send(len(homes), "publish", [1])
    traces = MemoryTraces("full", tables_of(net.model()))
    simulate(replace(net.model(), seed=seed), trace=traces)
    return list(traces.tables()["deliveries"]["broker"].tolist())


def gateways(sizes: Any) -> Iterator[Row]:
    """What optimistic gateways send in vain: one publication of each broker and name into each other cluster."""
    regions, names = [0, 0, 0, 1, 1, 1, 2, 2, 2], 20
    brokers = len(regions)
    for mode, expected in (("optimistic", brokers * names * 2), ("interest-only", 0)):
        net = _joined("gateway", _mesh(brokers), range(brokers), regions, options={"mode": mode})
        for _ in range(2):
            for client in range(brokers):
                for name in range(1, names + 1):
                    net.send(client, "publish", [name])
        yield _exact(f"{mode} gateways of 3 clusters: publications in vain", _over(net, PUBLISH), expected, "messages")


def bridges(sizes: Any) -> Iterator[Row]:
    """How often a publication goes on over naive bridges."""
    ring: Links = [(i, i + 1) for i in range(4)] + [(0, 4)]
    rounds = 20
    found = _circled(ring, 5 * rounds)
    yield _exact(f"bridges in a ring of 5: copies in {rounds} rounds", found, 2 * 5 * rounds, "messages")
    for brokers, hops in ((3, 20), (4, 10)):
        expected = sum((brokers - 1) * (brokers - 2) ** (h - 1) for h in range(1, hops + 1))
        found = _circled(_mesh(brokers), hops)
        yield _exact(f"bridges in a mesh of {brokers}: copies in {hops} hops", found, expected, "messages")
    for spokes, expected in ((1, 2), (2, 100)):
        star = [(0, 1 + spoke) for spoke in range(spokes)]
        found = _circled(star, 50, echo="hub")
        yield _exact(f"echo rule at the hub alone, {spokes} spokes: copies in 50 hops", found, expected, "messages")
    line = [(0, 1), (1, 2), (2, 3)]
    found = _circled(line, 10, declared="both-ends")
    yield _exact("declared at both ends, a line of 4: copies", found, 2 + 4 + 8, "messages")


DRAWN = (clusters, groups)  # for several seeds
FIXED = (gateways, bridges)
PARTS = (*DRAWN, *FIXED)


def _mesh(brokers: int) -> Links:
    return list(combinations(range(brokers), 2))


def _joined(protocol: str, links: Links, homes: Any, regions: list[int] | None = None, **said: Any) -> Joined:
    region = None if regions is None else np.array(regions)
    said.setdefault("kind", "topics")
    return Joined(overlay_of(links, region=region), list(homes), service_of(protocol, **said))


def _over(net: Joined, type: int) -> int:
    """How many messages of a type went over links."""
    traces = MemoryTraces("full", tables_of(net.model()))
    simulate(net.model(), trace=traces)
    return _count(traces, type)


def _count(traces: MemoryTraces, type: int) -> int:
    hops = traces.tables()["hops"]
    return int(((hops["type"] == type) & (hops["link"] >= 0)).sum())


def _circled(links: Links, hops: int, **options: Any) -> int:
    """How many copies of a publication, at broker 0, went over links of a millisecond until so many hops."""
    net = _joined("bridges", links, [0], options={"loops": True, **options})
    net.send(0, "publish", [1])
    model = replace(net.model(), duration_ns=_SECOND + hops * _MS + 1, drain_ns=0)
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    return _count(traces, PUBLISH)


def _spread(values: Sequence[float]) -> str:
    return f"± {float(np.std(values, ddof=1)):.2g} over {len(values)} seeds"


def _exact(name: str, value: float, expected: float, unit: str) -> Row:
    bounds = {"ratio_least": 1.0, "ratio_most": 1.0} if expected else {"most": 0.0}
    return row(name, value, unit, baseline=expected or None, against="the closed form", **bounds)


def _mean(name: str, value: float, expected: float) -> Row:
    return row(
        name, value, "", baseline=expected, ratio_least=1 - _SHARE, ratio_most=1 + _SHARE, against="the closed form"
    )
