"""Rows of the group `routing` about Plumtree and HyParView: exact counts, published bounds, what is left after crashes.

The bounds are those of the simulations of an implementation: 20, 100 and 1,000 brokers of which each may find each
other, delays of 10 to 50 ms drawn once per link, defaults as published there; thirty publications one second after each
other from one broker, or each from another; and five times one from every broker at once. By seed, the worst counts.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from analysis.bench import routing_gossip
from analysis.bench.rows import REPEATS, Row, medians, row
from brokers.contract import MESSAGE
from brokers.engine.model import Model
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import Crash, Schedule
from protocols import spreading
from protocols.content.kind import PUBLISH, Content
from protocols.gossip.plumtree import GRAFT, IHAVE, PRUNE
from protocols.joining import Joined, overlay_of
from protocols.rehearsing import service_of
from topology.build import build
from topology.latent import with_latent
from topology.links import Latent, Links
from topology.overlay import Overlay

MS, SECOND = 1_000_000, 1_000_000_000
_APART = 10 * SECOND  # publications over fixed links
_DELAY = {"kind": "uniform", "low": 10 * MS, "high": 50 * MS}
_KIND = Content(Content.Params().model_dump())
_EVERYTHING = [0, 0.0, 1.0]
_FIRST_ROUNDS, ROUNDS = 10, 20  # seconds before the crash and after it
MENDED_MOST = 10  # "few" rounds
_MANY = 10_000
# Who publishes, how many rounds; the last hop and the redundancy that the published tests allow.
BOUNDS = {"one source": (30, 15, 0.2), "another source each time": (30, 18, 1.0), "all at once": (5, 30, 3.0)}


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    linked: int = 100  # brokers of fixed overlays
    found: tuple[int, ...] = (20, 100)  # brokers that find each other
    together: int = 100  # of these, up to how many publish all at once
    crashing: tuple[int, ...] = (200,)  # of `_MANY` brokers the first seed only
    crashed: tuple[float, ...] = (0.8, 0.9)
    grown: int = 200  # brokers of the tree whose speed is measured
    repeats: int = REPEATS
    both_forms: routing_gossip.Sizes = field(default=routing_gossip.Sizes(brokers=300, dials=4, publications=20))
    compiled: routing_gossip.Sizes = field(default=routing_gossip.Sizes(brokers=_MANY, dials=4, publications=300))


def rows(sizes: Sizes) -> Iterator[Row]:
    """All rows."""
    yield from exact(sizes)
    for brokers in sizes.found:
        yield from bounded(sizes, brokers)
    yield from left_over(sizes)
    yield speed(sizes)
    yield from forms(sizes)


# ---- exact counts over fixed links -------------------------------------------------------------------


def exact(sizes: Sizes) -> Iterator[Row]:
    """The messages of the first publication and of the second, beside the closed forms."""
    n = sizes.linked
    counted, forms = [], []
    for seed in sizes.seeds:
        links = Links.model_validate({"delay": _DELAY})
        overlay = build("erdos-renyi", {"nodes": n, "probability": 12 / n}, links, seed)
        first, second = spreading_of(overlay, [seed % n] * 2)
        surplus = overlay.links - (n - 1)
        counted.append((first[PUBLISH], first[PRUNE], second[PUBLISH], second[IHAVE], second[GRAFT] + second[PRUNE]))
        forms.append((2 * overlay.links - (n - 1), 2 * surplus, n - 1, 2 * surplus, 0))
    names = (
        "copies of the first, 2E - (n - 1)", "PRUNEs after it, 2 (E - (n - 1))", "copies of the second, n - 1",
        "announcements of it, 2 (E - (n - 1))", "GRAFTs and PRUNEs of it, 0",
    )  # fmt: skip
    for at, name in enumerate(names):
        ours, theirs = ([each[at] for each in found] for found in (counted, forms))
        found = row(f"plumtree, {n} brokers: {name}", float(np.mean(ours)), "messages", baseline=float(np.mean(theirs)))
        yield {**found, "target": "the closed form, seed by seed", "holds": ours == theirs}


def spreading_of(overlay: Overlay, sources: Sequence[int]) -> list[dict[int, int]]:
    """By type, the messages of each of some publications, of which one comes ten seconds after the other."""
    net = Joined(overlay, range(overlay.brokers), service_of("plumtree"))
    for at, source in enumerate(sources, 1):
        net.send(source, "publish", [0.5, 0, 0, 0], at_ns=at * _APART)
    hops = _traced(net.model())["hops"]
    found = []
    for at in range(1, len(sources) + 1):
        mine = (hops["link"] >= 0) & (hops["kind"] == MESSAGE) & (hops["time_ns"] // _APART == at)
        found.append({type_: int((hops["type"][mine] == type_).sum()) for type_ in (PUBLISH, IHAVE, PRUNE, GRAFT)})
    return found


# ---- bounds over brokers that find each other --------------------------------------------------------


def bounded(sizes: Sizes, brokers: int) -> Iterator[Row]:
    """Last hop, redundancy and what was missed, for each way of publishing."""
    for how, (_, last, redundant) in BOUNDS.items():
        if how == "all at once" and brokers > sizes.together:
            continue
        found = [spread(brokers, how, seed) for seed in sizes.seeds]
        told = f"plumtree over HyParView, {brokers:,} brokers, {how}"
        yield row(f"{told}: last hop", max(each[0] for each in found), "links", most=last)
        yield row(f"{told}: redundancy", max(each[1] for each in found), "copies", most=redundant)
        yield row(f"{told}: missed", sum(each[2] for each in found), "deliveries", most=0)


def spread(brokers: int, how: str, seed: int) -> tuple[float, float, int]:
    """Last hop, redundancy, and what did not arrive."""
    rounds = BOUNDS[how][0]
    begin = _joined_after(brokers)
    random = Random(seed)
    sources = [
        list(range(brokers)) if how == "all at once" else [0 if how == "one source" else random.randrange(brokers)]
        for _ in range(rounds)
    ]
    net = _network(brokers, seed, {"membership": "hyparview"})
    for at, each in enumerate(sources):
        for source in each:
            net.send(source, "publish", [0.5, 0, 0, 0], at_ns=begin + at * SECOND)
    tables = _traced(net.model())
    last, redundant = spreading.hops_last(tables, _KIND), spreading.redundancy(tables, _KIND)
    assert last is not None and redundant is not None
    return last, redundant, brokers * sum(map(len, sources)) - int(tables["deliveries"]["publication"].size)


def _network(brokers: int, seed: int, options: dict[str, Any], protocol: str = "plumtree") -> Joined:
    """Brokers of which each may find each other, through the first."""
    star = overlay_of([(0, b) for b in range(1, brokers)], 25 * MS)
    overlay = with_latent(star, Latent.model_validate({"all": True, "delay": _DELAY}), seed)
    net = Joined(overlay, range(brokers), service_of(protocol, options=options))
    for client in range(brokers):
        net.send(client, "subscribe", _EVERYTHING, word=net.interest(client), at_ns=1)
    return net


def _joined_after(brokers: int) -> int:
    return brokers * 10 * MS + 3 * SECOND


# ---- crashes, and speed ------------------------------------------------------------------------------


def left_over(sizes: Sizes) -> Iterator[Row]:
    """What those that are left get of what is published while their views mend, and what the views are then."""
    for brokers in sizes.crashing:
        seeds = sizes.seeds if brokers < _MANY else sizes.seeds[:1]
        for share in sizes.crashed:
            for protocol in ("hyparview-flooding", "plumtree"):
                found = [crashed(brokers, share, protocol, seed) for seed in seeds]
                told = f"{protocol}, {brokers:,} brokers, {share:.0%} crashed"
                last = min(min(each.shares[-5:]) for each in found)
                late = f"share that gets each publication from {ROUNDS - 5} rounds later on"
                yield row(f"{told}: {late}", last, "share", least=1.0)
                mended = max(each.mended for each in found)
                yield row(f"{told}: rounds until all get everything", mended, "rounds", most=MENDED_MOST)
                parts, onesided = max(each.parts for each in found), sum(each.onesided for each in found)
                yield row(f"{told}: parts that views fall into", parts, "parts", most=1)
                yield row(f"{told}: neighbours of one side", onesided, "neighbours", most=0)


@dataclass(frozen=True)
class Left:
    """What became of the brokers that are left."""

    shares: list[float]  # of them that got each publication, a round after the other
    parts: int  # that their views fall into, at the end
    onesided: int  # neighbours that do not have the broker whose neighbours they are

    @property
    def mended(self) -> int:
        """Rounds after which everything published got to all; more than there are if the last one did not."""
        return max((number for number, share in enumerate(self.shares, 1) if share < 1.0), default=0)


def crashed(brokers: int, share: float, protocol: str, seed: int) -> Left:
    """A round is a second: in each every broker that is left shuffles once, and one of them publishes."""
    views = {"shuffle": SECOND, "join": MS}
    options = views if protocol == "hyparview-flooding" else {"membership": "hyparview", "hyparview": views}
    random = Random(seed)
    net = _network(brokers, seed, options, protocol)
    gone = set(random.sample(range(brokers), round(brokers * share)))
    rest, at = sorted(set(range(brokers)) - gone), brokers * MS + _FIRST_ROUNDS * SECOND
    for number in range(ROUNDS):
        net.send(random.choice(rest), "publish", [0.5, 0, 0, 0], at_ns=at + MS + number * SECOND)
    faults = Schedule(tuple(Crash(broker, at) for broker in sorted(gone)), 100 * MS)
    model, neighbours = replace(net.model(), faults=faults), dict[int, set[int]]()
    number_of = {name: broker for broker, name in enumerate(model.overlay.names)}

    def look(shards: Any) -> None:
        protocol = shards.shards[0].services.protocols[0]
        for broker in rest:
            neighbours[broker] = {number_of[name] for name in protocol.describe(broker)["views"]["active"]}

    traces = MemoryTraces("deliveries", tables_of(model))
    simulate(model, trace=traces, observe=look)
    tables = traces.tables()
    of, there = tables["deliveries"]["publication"], ~np.isin(tables["deliveries"]["broker"], sorted(gone))
    order = np.argsort(tables["publications"]["time_ns"], kind="stable")
    got = [int((of[there] == each).sum()) / len(rest) for each in tables["publications"]["publication"][order]]
    onesided = sum(broker not in neighbours.get(other, ()) for broker in rest for other in neighbours[broker])
    return Left(got, _parts(neighbours), onesided)


def _parts(neighbours: dict[int, set[int]]) -> int:
    """How many parts a network falls into."""
    left, parts = set(neighbours), 0
    while left:
        parts, reached = parts + 1, [left.pop()]
        for broker in reached:
            near = neighbours[broker] & left
            left -= near
            reached += near
    return parts


def speed(sizes: Sizes) -> Row:
    """Events per second of CPU of the author's view, along a tree that has grown."""
    net = _network(sizes.grown, 1, {"membership": "hyparview"})
    begin = _joined_after(sizes.grown)
    for at in range(100):
        net.send(0, "publish", [0.5, 0, 0, 0], at_ns=begin + at * 20 * MS)
    run = simulate(net.model()).metrics["run"]
    value = float(run["events_per_s"] * run["loop_wall_s"] / run["cpu_s"])
    return row(f"plumtree over HyParView, {sizes.grown} brokers", value, "events/CPU s")


def forms(sizes: Sizes) -> Iterator[Row]:
    """Over fixed links: the compiled form beside the author's, and by itself over more brokers."""
    few, many = (fixed(each) for each in (sizes.both_forms, sizes.compiled))
    author = replace(few, services=[replace(few.services[0], view="message")])
    quick, slow = medians([routing_gossip.speed(each) for each in (few, author)], sizes.repeats)
    over = f"{sizes.both_forms.brokers:,} brokers with {2 * sizes.both_forms.dials} neighbours"
    yield row(f"plumtree, compiled beside the author's form, {over}", quick, "hops/CPU s", baseline=slow)
    told = f"{sizes.compiled.brokers:,} brokers with {2 * sizes.compiled.dials} neighbours"
    name = f"plumtree, compiled, {told}, {sizes.compiled.publications:,} publications"
    yield row(name, routing_gossip.speed(many)(), "hops/CPU s")


def fixed(sizes: routing_gossip.Sizes) -> Model:
    """The network of `gossipsub`'s row, for `plumtree`: ten publications a second, each of another broker."""
    built = routing_gossip.model(sizes)
    service = service_of("plumtree", kind="topics", sources=built.services[0].sources)
    return replace(built, services=[service])


def _traced(model: Model) -> Any:
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    return traces.tables()


