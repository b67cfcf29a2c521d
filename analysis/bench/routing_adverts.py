"""Rows of the group `routing`: what advertisements save in messages and tables, beside their closed forms.

On random trees publishers advertise a range around where they are, and subscribers ask for ranges around where they
are; `locality` is how near: the width of what is advertised and asked for around a place, of a line that goes round
all brokers. Messages and entries are counted, over several seeds, not timed: a row's value is the mean over seeds, and
its baseline what the closed form says of the same trees, or what `subscription` takes.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx

from analysis.bench.rows import Row, row
from protocols.content.kind import ADVERTISE, SUBSCRIBE
from protocols.joining import join
from protocols.rehearsing import Dice

_GRID = 1_000


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    seeds: int = 5
    brokers: int = 60
    adverts: int = 12
    subscriptions: int = 200
    localities: tuple[float, ...] = (0.05, 0.2, 1.0)


def rows(sizes: Sizes | None = None) -> Iterator[Row]:
    """Every row about advertisements."""
    sizes = sizes or Sizes()
    for locality in sizes.localities:
        worlds = [World(sizes, locality, seed) for seed in range(sizes.seeds)]
        yield from _of(worlds, f"interests and advertisements of width {locality:g}")


def _of(worlds: list[World], said: str) -> Iterator[Row]:
    found = {name: [each.ran(name) for each in worlds] for name in _PROTOCOLS}
    told = [each[0][ADVERTISE] for each in found["advertising"]]
    yield _equal(f"messages of advertisements, {said}", "messages", told, [each.told for each in worlds])
    sent = [each[0][SUBSCRIBE] for each in found["advertising"]]
    yield _equal(f"messages of subscriptions, {said}", "messages", sent, [each.steiner for each in worlds])
    entries = [each[1] for each in found["advertising"]]
    yield _equal(f"entries of all brokers, {said}", "entries", entries, [each.entries for each in worlds])
    for before, after in (("subscription", "advertising"), ("covering", "advertising-covering")):
        for part, unit in ((0, "messages"), (1, "entries")):
            with_them, without = (_mean([_sum(each[part]) for each in found[name]]) for name in (after, before))
            yield row(f"{after}: all {unit}, {said}", with_them, unit, baseline=without, against=before)


def _equal(name: str, unit: str, measured: list[int], expected: list[int]) -> Row:
    """A row that holds if every single number is what the closed form says."""
    apart = max(abs(mine - theirs) for mine, theirs in zip(measured, expected))
    counted = row(name, _mean(measured), unit, baseline=_mean(expected))
    return {**counted, "target": "the closed form, with every seed", "holds": apart == 0}


def _mean(numbers: list[int]) -> float:
    return sum(numbers) / len(numbers)


def _sum(counted: Any) -> int:
    return counted if isinstance(counted, int) else sum(counted.values())


_PROTOCOLS = ("subscription", "covering", "advertising", "advertising-covering")


class World:
    """A random tree, who advertises and subscribes where and what, and what the closed forms say of it."""

    def __init__(self, sizes: Sizes, locality: float, seed: int) -> None:
        dice = Dice(seed, 0, "bench/adverts")
        self.links = [(dice.below(b), b) for b in range(1, sizes.brokers)]
        places = {broker: at for at, broker in enumerate(nx.dfs_preorder_nodes(nx.Graph(self.links), 0))}
        width = max(1, int(locality * _GRID))

        def around(broker: int) -> tuple[int, list[float]]:
            """A range that holds the place of a broker."""
            at = places[broker] * _GRID // sizes.brokers
            low = max(0, at - dice.below(width))
            return broker, [0, low / _GRID, min(_GRID, low + width) / _GRID]

        self.adverts = [around(dice.below(sizes.brokers)) for _ in range(sizes.adverts)]
        self.subscriptions = [around(dice.below(sizes.brokers)) for _ in range(sizes.subscriptions)]

    @property
    def told(self) -> int:
        return len(self.adverts) * len(self.links)

    @cached_property
    def steiner(self) -> int:
        """The links of the trees that span each subscription and the advertisers that it meets."""
        tree = nx.Graph(self.links)
        paths = dict(nx.all_pairs_shortest_path(tree))
        total = 0
        for home, asked in self.subscriptions:
            meets = [at for at, box in self.adverts if box[1] <= asked[2] and asked[1] <= box[2]]
            total += len({home}.union(*(paths[home][at] for at in meets))) - 1
        return total

    @property
    def entries(self) -> int:
        return len(self.adverts) * (len(self.links) + 1) + self.steiner + len(self.subscriptions)

    def ran(self, protocol: str) -> tuple[Counter[int], int]:
        """Messages over links by their types, and entries of all brokers, once all has been said and handled."""
        said = [("advertise", each) for each in self.adverts] + [("subscribe", each) for each in self.subscriptions]
        advertised = protocol.startswith("advertising")
        said = [each for each in said if advertised or each[0] == "subscribe"]
        net = join(
            protocol, self.links, [broker for _, (broker, _) in said],
            params={"attributes": 1, "adverts": True} if advertised else {"attributes": 1},
        )  # fmt: skip
        for client, (op, (_, box)) in enumerate(said):
            net.send(client, op, box, word=net.interest(client), at_ns=1_000_000 * (client + 1))
        crossed: Counter[int] = Counter()
        for a, b in self.links:
            crossed.update(hop.type for ends in ((a, b), (b, a)) for hop in net.over(*ends))
        return crossed, sum(net.entries(broker) for broker in range(len(self.links) + 1))
