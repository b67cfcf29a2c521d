"""Rows of the group `routing` about `neighbourhood`: how far publications come past brokers that are down.

*Outages*: a share of the brokers is down from some time on, each by itself, and nobody comes back. Then brokers that
are up publish once each, and everybody asks for everything. Of two that are up the one is served by the other or not;
that is compared with whether more than δ in a row are down between them, pair by pair, and on lines with the recurrence
of the module `protocols.content.neighbourhood.broker`, by distance. *Over time*: the crashes of `routing_reliable`,
each for a second or two; nothing is missed in the end, and what comes late is told beside `reliable`.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import numpy as np

from analysis.bench import routing_reliable
from analysis.bench.rows import Row, row
from brokers.faults import Crash, Schedule

NEIGHBOURHOOD = "protocols.content.neighbourhood:Neighbourhood"
_MS, _S = 1_000_000, 1_000_000_000
_EVERYTHING = [0.0, 0.0, 1.0]
_DRAWN = 4_000  # lines, to know how their shares vary
_SPREAD = 3  # a share is as expected if it is so many standard errors from it at most


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    line: int = 60  # brokers of a line
    lines: int = 20  # of them for each δ, drawn with seeds from the first on
    share: float = 0.17  # of brokers that are down
    distances: tuple[tuple[int, int], ...] = ((1, 8), (3, 12))  # δ, and how far apart
    tree: int = 500  # brokers of a tree
    publishers: int = 15  # of its brokers that are up
    tree_delta: int = 3
    over_time: routing_reliable.Sizes = field(default=routing_reliable.Sizes())
    soon_ms: int = 1_000
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)


def rows(sizes: Sizes) -> Iterator[Row]:
    """Every row."""
    yield from on_lines(sizes)
    yield from on_trees(sizes)
    yield from over_time(sizes)


def on_lines(sizes: Sizes) -> Iterator[Row]:
    """Pairs on lines, beside the recurrence."""
    for delta, apart in sizes.distances:
        found = [outage(line(sizes.line), delta, sizes.share, sizes.seeds[0] + each) for each in range(sizes.lines)]
        told = f"δ {delta}, {sizes.share:.0%} down on lines"
        yield row(f"{told}: pairs served although more than δ are down in a row, or not served although not",
                  sum(each.wrong for each in found), "pairs", most=0)  # fmt: skip
        mean, survives = share_of(found, apart), survival(apart, delta, sizes.share)
        error = spread(sizes, delta, apart) / sqrt(len(found))
        name = f"{told}: pairs {apart} apart that are served; the recurrence ± {_SPREAD} standard errors"
        yield row(
            name, mean, "share", least=survives - _SPREAD * error, most=survives + _SPREAD * error, baseline=survives,
        )  # fmt: skip


def on_trees(sizes: Sizes) -> Iterator[Row]:
    """Pairs on random trees."""
    delta = sizes.tree_delta
    found = [outage(tree(sizes.tree, seed), delta, sizes.share, seed, sizes.publishers) for seed in sizes.seeds]
    told = f"δ {delta}, {sizes.share:.0%} of {sizes.tree} brokers of random trees down at once"
    yield row(f"{told}: pairs served wrongly or not", sum(each.wrong for each in found), "pairs", most=0)
    shares = [share_of([each]) for each in found]
    spread = f"{min(shares):.1%} to {max(shares):.1%} over {len(shares)} seeds"
    yield row(f"{told}: pairs served ({spread}); printed: 97 %", float(np.mean(shares)), "share", least=0.97)


def over_time(sizes: Sizes) -> Iterator[Row]:
    """What came in the end, and what soon, where brokers crash and come back."""
    spans = sizes.over_time
    told = f"δ 1, {spans.brokers} brokers, {spans.share:.0%} crashed over time"
    found = {
        name: [struck(sizes, protocol, seed) for seed in sizes.seeds]
        for name, protocol in (("neighbourhood", NEIGHBOURHOOD), ("reliable", routing_reliable.RELIABLE))
    }
    ours, theirs = found["neighbourhood"], found["reliable"]
    wrong = sum(each["missed"] + each["wrong"] for each in ours)
    yield row(f"neighbourhood, {told}: missed, twice, out of order or unwanted", wrong, "pairs", most=0)
    yield row(f"neighbourhood, {told}: had to come", sum(each["wanted"] for each in ours), "pairs", least=1)
    for name, what, unit in (
        (f"came later than after {sizes.soon_ms} ms", "late", "pairs"), ("all messages", "messages", "messages"),
    ):  # fmt: skip
        mine, other = (float(np.mean([each[what] for each in every])) for every in (ours, theirs))
        yield row(f"neighbourhood, {told}: {name}", mine, unit, baseline=other, against="reliable")


def survival(hops: int, delta: int, down: float) -> float:
    """The probability that two brokers that are up are served, so many hops apart on a line."""
    found = [1.0]
    for h in range(1, hops + 1):
        ways = ((down**i, h - 1 - i) for i in range(min(delta, h - 1) + 1))
        found.append(sum(skipped * ((1 - down) * found[left] if left else 1.0) for skipped, left in ways))
    return found[hops]


def spread(sizes: Sizes, delta: int, apart: int) -> float:
    """The standard deviation of the share of a line's pairs so far apart that are served, by drawing lines."""
    down = np.random.default_rng(0).random((_DRAWN, sizes.line)) < sizes.share
    pairs = sizes.line - apart
    between = np.stack([down[:, at : at + pairs] for at in range(1, apart)])
    in_a_row = [between[at : at + delta + 1].all(axis=0) for at in range(apart - 1 - delta)]
    served = ~np.any(in_a_row, axis=0)
    up = ~down[:, :pairs] & ~down[:, apart:]
    shares = (served & up).sum(axis=1) / np.maximum(up.sum(axis=1), 1)
    return float(shares[up.any(axis=1)].std())


# ---- outages -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outage:
    """Who was served while brokers were down."""

    got: Any  # by publisher and subscriber
    expected: Any  # whether at most δ are down in a row between them
    apart: Any  # how many hops
    asked: Any  # whether both are up, and one of them published

    @property
    def wrong(self) -> int:
        return int((self.got != self.expected)[self.asked].sum())

    def pairs(self, apart: int | None = None) -> Any:
        """Of each pair, or of those so far apart, whether it is served."""
        return self.got[self.asked if apart is None else self.asked & (self.apart == apart)]


def share_of(outages: Sequence[Outage], apart: int | None = None) -> float:
    """The share of all pairs that are served: shares of single lines have another mean, as they have few pairs."""
    return float(np.concatenate([each.pairs(apart) for each in outages]).mean())


def outage(
    links: Sequence[tuple[int, int]], delta: int, share: float, seed: int, publishers: int | None = None
) -> Outage:
    """One tree of which brokers go down. O(brokers^2)."""
    from brokers.engine.simulate import MemoryTraces, simulate, tables_of
    from protocols.joining import join

    dice = np.random.default_rng(seed)
    brokers = len(links) + 1
    down = dice.random(brokers) < share
    net = join(NEIGHBOURHOOD, links, options={"delta": delta}, params={"attributes": 1}, settled=True)
    up = np.flatnonzero(~down)
    speakers = np.sort(dice.permutation(up)[:publishers])
    for at, broker in enumerate(speakers.tolist()):
        net.send(broker, "publish", [0.5], at_ns=2 * _S + at * _MS)
    model = net.model()
    standing = [{"type": net.kind.types["subscribe"], "time": [0] * brokers, "client": list(range(brokers)),
                 "word": [net.interest(b) for b in range(brokers)], "rows": [_EVERYTHING] * brokers}]  # fmt: skip
    (service,), (source,) = model.services, model.services[0].sources
    source = replace(source, params={**source.params, "standing": standing})
    crashes = tuple(Crash(broker, _S) for broker in np.flatnonzero(down).tolist())
    model = replace(
        model, services=[replace(service, sources=[source])], faults=Schedule(crashes, 10 * _MS), drain_ns=_S
    )
    traces = MemoryTraces("deliveries", tables_of(model))
    simulate(model, trace=traces)
    got = np.zeros((brokers, brokers), np.bool_)
    table = traces.tables()["deliveries"]
    got[(table["publication"] >> 32) - brokers, table["client"] - brokers] = True
    expected, apart = reachable(links, down, delta)
    asked = np.zeros_like(got)
    asked[np.ix_(speakers, up)] = True
    np.fill_diagonal(asked, False)
    return Outage(got, expected, apart, asked)


def reachable(links: Sequence[tuple[int, int]], down: Any, delta: int) -> tuple[Any, Any]:
    """By pair, whether at most δ in a row are down on the way, and how long it is; by walking from each broker."""
    brokers = len(links) + 1
    beside: list[list[int]] = [[] for _ in range(brokers)]
    for a, b in links:
        beside[a].append(b)
        beside[b].append(a)
    served, apart = np.zeros((brokers, brokers), np.bool_), np.zeros((brokers, brokers), np.int64)
    for start in range(brokers):
        ahead = [(start, -1, 0, 0)]
        for at, before, hops, in_a_row in ahead:
            apart[start, at], served[start, at] = hops, in_a_row <= delta
            if at == start:
                so_far = 0
            else:
                so_far = in_a_row + 1 if down[at] or in_a_row > delta else 0
            ahead += [(other, at, hops + 1, so_far) for other in beside[at] if other != before]
    return served, apart


def line(brokers: int) -> list[tuple[int, int]]:
    """The links of a line."""
    return [(at, at + 1) for at in range(brokers - 1)]


def tree(brokers: int, seed: int) -> list[tuple[int, int]]:
    """The links of a random tree."""
    from topology.build import build
    from topology.links import Links

    drawn = build("random-tree", {"nodes": brokers}, Links(), seed)
    return list(zip(drawn.link_a.tolist(), drawn.link_b.tolist()))


def struck(sizes: Sizes, protocol: str, seed: int) -> dict[str, int]:
    """As `routing_reliable` measures it, on its tree with links that may arise, and where failures are told."""
    from topology.latent import with_latent
    from topology.links import Latent

    built = routing_reliable.struck(sizes.over_time, protocol, seed)
    overlay, faults = with_latent(built.overlay, Latent(hops=2)), replace(built.faults, detect_ns=100 * _MS)
    return routing_reliable.measured_of(replace(built, overlay=overlay, faults=faults), sizes.soon_ms * _MS)
