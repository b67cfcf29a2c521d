"""Rows of the group `routing` about `trees`: closed forms on cyclic overlays, and what re-choosing by load is worth.

Closed forms are counted on random graphs: messages of advertisements and their ends, of subscriptions, and entries.

The other rows are of congestion: a grid of brokers whose links have little bandwidth, over which publishers reach
subscribers everywhere; for some seconds other traffic of the same overlay fills a few links. Delays are those of what
is published while it does, and for a second after; messages are all that `trees` sent over links. Beside the same
seeds without the other traffic, where there is nothing to gain, and without `by_load`. Each seed is another grid of
delays, other places of clients, other links that fill.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import networkx as nx
import numpy as np

from analysis.bench.rows import Row, row
from protocols.content.kind import PUBLISH
from protocols.content.ranges import box_of, meet
from protocols.content.trees import CLIMB, FELL, PLANT
from protocols.joining import join
from protocols.rehearsing import Dice

_S = 1_000_000_000
FROM_NS, UNTIL_NS = 3 * _S, 8 * _S  # what is published when links are full


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    seeds: int = 5
    first: int = 1
    brokers: int = 30  # of the random graphs
    adverts: int = 8
    subscriptions: int = 60
    side: int = 5  # of the grid
    publishers: int = 4
    subscribers: int = 40
    rates: tuple[int, ...] = (30, 50)  # of other traffic; links carry 34 such messages per second


def rows(sizes: Sizes | None = None) -> Iterator[Row]:
    """Every row about trees."""
    sizes = sizes or Sizes()
    yield from counted(sizes)
    yield from congested(sizes)


# ---- closed forms ---------------------------------------------------------------------------------------


def counted(sizes: Sizes) -> Iterator[Row]:
    """Messages and entries beside their closed forms."""
    worlds = [World(sizes, sizes.first + each) for each in range(sizes.seeds)]
    said = f"random graphs of {sizes.brokers} brokers with cycles"
    by_world = [each.beside_forms() for each in worlds]
    for name in by_world[0]:
        pairs = [each[name] for each in by_world]
        measured, expected = (float(np.mean(each)) for each in zip(*pairs))
        found = row(f"trees: {name}, {said}", measured, name.split()[0], baseline=expected)
        yield {**found, "target": "the closed form, with every seed", "holds": all(a == b for a, b in pairs)}


class World:
    """A random graph of links of one delay, who advertises and asks for what, what was sent, and the closed forms."""

    def __init__(self, sizes: Sizes, seed: int) -> None:
        dice = Dice(seed, 0, "bench/trees")
        brokers = sizes.brokers
        links = {(dice.below(b), b) for b in range(1, brokers)}
        while len(links) < brokers + brokers // 2:
            a, b = sorted((dice.below(brokers), dice.below(brokers)))
            if a != b:
                links.add((a, b))
        self.links = sorted(links)
        self.brokers = brokers
        self.adverts = [self._drawn(dice) for _ in range(sizes.adverts)]
        self.subscriptions = [self._drawn(dice) for _ in range(sizes.subscriptions)]
        homes = [broker for broker, _ in [*self.adverts, *self.subscriptions]]
        net = join("trees", self.links, homes, params={"attributes": 1, "adverts": True})
        for client, (_, rows_) in enumerate(self.adverts):
            net.send(client, "advertise", rows_, word=net.interest(client))
        for each, (_, rows_) in enumerate(self.subscriptions):
            client = len(self.adverts) + each
            net.send(client, "subscribe", rows_, word=net.interest(client))
        self.entries = sum(net.entries(broker) for broker in range(brokers))
        trees = [net.describe(broker)["trees"] for broker in range(brokers)]
        self.above = {  # by tree and broker: from whom it came there; None at its root
            int(tree["advert"]): [_above(known[tid]["from"]) for known in trees] for tid, tree in trees[0].items()
        }
        self.adverts_of = {net.interest(client): drawn for client, drawn in enumerate(self.adverts)}
        for client in range(len(self.adverts)):
            net.send(client, "unadvertise", word=net.interest(client))
        self.left = sum(net.entries(broker) for broker in range(brokers))
        self.sent: Counter[int] = Counter()
        for a, b in self.links:
            self.sent.update(hop.type for ends in ((a, b), (b, a)) for hop in net.over(*ends))

    def beside_forms(self) -> dict[str, tuple[int, int]]:
        """What was counted, and by the closed form."""
        return {
            "messages of advertisements": (self.sent[PLANT], self.told),
            "messages of their ends": (self.sent[FELL], self.ended),
            "messages of subscriptions": (self.sent[CLIMB], self.climbed),
            "entries of all brokers": (self.entries, self.known),
        }

    def _drawn(self, dice: Dice) -> tuple[int, list[float]]:
        low = dice.below(8)
        return dice.below(self.brokers), [0, low / 10, (low + 1 + dice.below(3)) / 10]

    @property
    def told(self) -> int:
        return len(self.adverts) * (2 * len(self.links) - (self.brokers - 1))

    @property
    def ended(self) -> int:
        return len(self.adverts) * 2 * len(self.links)

    @property
    def climbed(self) -> int:
        """Of each subscription the different beginnings of its ways up the trees that it meets."""
        total = 0
        for home, asked in self.subscriptions:
            ways = [self._way(advert, home) for advert, (_, said) in self.adverts_of.items() if _meet(asked, said)]
            total += len({way[:steps] for way in ways for steps in range(2, len(way) + 1)})
        return total

    def _way(self, advert: int, broker: int) -> tuple[int, ...]:
        """The brokers from one up to the root of a tree."""
        found, above = [broker], self.above[advert]
        while (up := above[found[-1]]) is not None:
            found.append(up)
        return tuple(found)

    @cached_property
    def known(self) -> int:
        """Links are alike, so what comes first has taken as few as there are between two brokers."""
        depth = dict(nx.all_pairs_shortest_path_length(nx.Graph(self.links)))
        climbed = sum(
            depth[home][root]
            for home, asked in self.subscriptions
            for root, said in self.adverts
            if _meet(asked, said)
        )
        return len(self.adverts) * self.brokers + climbed + len(self.subscriptions)


def _meet(one: list[float], other: list[float]) -> bool:
    return meet(box_of(one), box_of(other))


def _above(names: list[str]) -> int | None:
    (name,) = names
    return int(name[1:]) if name.startswith("b") else None


# ---- congestion -----------------------------------------------------------------------------------------


def congested(sizes: Sizes) -> Iterator[Row]:
    """Delays and messages, with and without re-choosing, of a busy overlay and of a quiet one."""
    seeds = [sizes.first + each for each in range(sizes.seeds)]
    for rate in (*sizes.rates, 0):
        said = f"other traffic of {rate}/s" if rate else "no other traffic"
        ran = {by_load: [run(sizes, seed, rate, by_load) for seed in seeds] for by_load in (False, True)}
        saved = [1 - mine.delay_ms / theirs.delay_ms for mine, theirs in zip(ran[True], ran[False])]
        more = [mine.messages / theirs.messages - 1 for mine, theirs in zip(ran[True], ran[False])]
        name = f"trees by_load, {sizes.side} x {sizes.side} brokers, {said}"
        spread = f"{min(saved):+.0%} to {max(saved):+.0%} less over {len(seeds)} seeds"
        mine, theirs = (float(np.mean([each.delay_ms for each in ran[by_load]])) for by_load in (True, False))
        bound = 1.0 if rate else 1.01
        told = f"{name}: mean delay ({spread})"
        yield row(told, mine, "ms", baseline=theirs, ratio_most=bound, against="one tree kept")
        mine, theirs = (float(np.mean([each.messages for each in ran[by_load]])) for by_load in (True, False))
        spread = f"{min(more):+.1%} to {max(more):+.1%}"
        bound = 1.3 if rate else 1.01
        yield row(
            f"{name}: messages ({spread})", mine, "messages", baseline=theirs, ratio_most=bound, against="one tree kept"
        )
        wrong = sum(each.wrong for found in ran.values() for each in found)
        yield row(f"{name}: missed, twice or unwanted, of both", wrong, "pairs", most=0)


@dataclass(frozen=True)
class Run:
    """What came of one run."""

    delay_ms: float  # mean, of what was published when links are full
    messages: int  # of the service, over links
    planted: int  # trees
    switched: int  # publications that changed their tree on the way
    wrong: int


def run(sizes: Sizes, seed: int, rate: int, by_load: bool) -> Run:
    """One grid, one workload, other traffic at this rate."""
    from brokers.engine.simulate import MemoryTraces, simulate, tables_of
    from protocols.conformance import audit
    from scenarios.loader import loads
    from scenarios.plan import resolve

    built = resolve(loads(scenario(sizes, seed, rate, by_load)))
    traces = MemoryTraces("full", tables_of(built))
    simulate(built, trace=traces)
    tables, service = traces.tables(), built.services[0]
    found = audit(tables, service.kind_class(service.params), service.protocol_class.guarantees_for(built.overlay))
    hops, came = tables["hops"], tables["deliveries"]
    mine = (hops["service"] == 0) & (hops["link"] >= 0)
    then = (came["service"] == 0) & (came["published_ns"] >= FROM_NS) & (came["published_ns"] < UNTIL_NS)
    delays = came["time_ns"][then] - came["published_ns"][then]
    tree = defaultdict[int, set[int]](set)
    for body, word in zip(*(hops[name][mine & (hops["type"] == PUBLISH)].tolist() for name in ("body", "word"))):
        tree[body].add(word >> 1)
    return Run(
        float(delays.mean()) / 1e6, int(mine.sum()),
        len(set(hops["word"][mine & (hops["type"] == PLANT)].tolist())),
        sum(len(each) > 1 for each in tree.values()),
        found.missed.count + found.duplicated.count + found.unwanted.count,
    )


def scenario(sizes: Sizes, seed: int, rate: int, by_load: bool) -> str:
    """The text of a scenario."""
    brokers = sizes.side**2
    dice = Dice(seed, 0, "bench/congestion")
    pairs = [(dice.below(brokers), dice.below(brokers)) for _ in range(4)]
    start = FROM_NS // 10**6
    noise = "".join(_NOISE.format(i=i, start=start, low=i, high=i + 0.5, rate=rate) for i in range(len(pairs)))
    clients = "".join(
        f"  from{i}: {{count: 1, placement: {{kind: explicit, brokers: [{a}]}}}}\n"
        f"  to{i}: {{count: 1, placement: {{kind: explicit, brokers: [{b}]}}}}\n"
        for i, (a, b) in enumerate(pairs)
    )
    return _SCENARIO.format(
        seed=seed, side=sizes.side, publishers=sizes.publishers, subscribers=sizes.subscribers,
        options="{by_load: true, slow: 20 ms, rest: 500 ms}" if by_load else "{}",
        clients=clients if rate else "", noise=_OTHERS + noise if rate else "",
    )


_SCENARIO = """
title: Other traffic fills links of a grid.
duration: 10 s
seed: {seed}
topology: {{kind: grid, rows: {side}, columns: {side}}}
links: {{delay: {{kind: uniform, low: 2 ms, high: 10 ms}}, bandwidth: 1 Mbit/s}}
clients:
  news: {{count: {publishers}}}
  readers: {{count: {subscribers}, placement: even}}
{clients}
services:
  - name: news
    kind: content
    attributes: 4
    adverts: true
    protocol: trees
    options: {options}
    workload:
      - {{source: advertise, clients: news, number: 2}}
      - {{source: subscribe, clients: readers, width: 0.4, ramp: 500 ms}}
      - {{source: publish, clients: news, rate: 10/s, start: 2 s}}
{noise}
trace: {{level: full}}
"""
_OTHERS = """
  - name: others
    kind: content
    attributes: 400
    protocol: subscription
    workload:
"""
_NOISE = """
      - {{source: subscribe, clients: to{i}, width: 0.5, domain: [{low}, {high}]}}
      - {{source: publish, clients: from{i}, domain: [{low}, {high}], rate: {rate}/s, start: {start} ms}}
"""
