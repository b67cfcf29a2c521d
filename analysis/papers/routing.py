"""`brokerlab reproduce routing`: closed forms and printed numbers of routing among brokers, as claims.

Each claim names its setting, its source, and the class of that: *derived*, a closed form that follows from the rules
and is exact or the mean of a law; *printed*, what a paper says. What is drawn is drawn for five seeds at least, from
that of `--seed` on where the form is exact; the spread is told beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import fsum, sqrt
from random import Random

import networkx as nx

from analysis.bench import (
    routing_adverts,
    routing_merging,
    routing_neighbourhood,
    routing_practice,
    routing_reliable,
    routing_trees,
)
from analysis.bench.rows import Row, number
from analysis.papers.experiment import Experiment, Told
from protocols.content.kind import ADVERTISE, SUBSCRIBE
from protocols.joining import join
from protocols.rehearsing import Dice

SEEDS = 5


def advertisements(report: Told) -> None:
    """What advertisements cost, and what they save where interests are local."""
    sizes = routing_adverts.Sizes(seeds=SEEDS)
    told = []
    for locality in sizes.localities:
        worlds = [routing_adverts.World(sizes, locality, report.seed + each) for each in range(SEEDS)]
        setting = f"random trees of {sizes.brokers} brokers, ranges of width {locality:g}"
        ran = [each.ran("advertising") for each in worlds]
        _equal(
            report, f"messages of advertisements, {setting}", "derived: A (B - 1)",
            [each.told for each in worlds], [each[0][ADVERTISE] for each in ran],
        )  # fmt: skip
        _equal(
            report, f"messages of subscriptions, {setting}", "derived: links of Steiner trees of who meets whom",
            [each.steiner for each in worlds], [each[0][SUBSCRIBE] for each in ran],
        )  # fmt: skip
        _equal(
            report, f"entries of all brokers, {setting}", "derived: A B, and one of s for each broker of its tree",
            [each.entries for each in worlds], [each[1] for each in ran],
        )  # fmt: skip
        flooded = [each.ran("subscription")[0][SUBSCRIBE] for each in worlds]
        _equal(
            report, f"messages of subscriptions without them, {setting}", "derived: S (B - 1)",
            [len(each.subscriptions) * len(each.links) for each in worlds], flooded,
        )  # fmt: skip
        advertised = _mean([sum(each[0].values()) for each in ran])
        told.append({"width": locality, "subscription": _mean(flooded), "advertising": advertised})
    report.table("adverts", "Control messages, mean of five trees", told)
    widths = [each["width"] for each in told]
    report.plot(
        "adverts", "Control messages", "width of interests and advertisements", "messages over links",
        {name: (widths, [each[name] for each in told]) for name in ("subscription", "advertising")}, log_x=True,
    )  # fmt: skip
    saved = told[0]["subscription"] / told[0]["advertising"]
    report.claim(
        "advertisements help considerably where interests are local", "printed: Mühl, MASCOTS 2002; no figure",
        "fewer messages", f"{saved:.1f} times fewer", saved > 1,
    )  # fmt: skip


def merging(report: Told) -> None:
    """Perfect merging beside covering, and the bound on waste of imperfect merging."""
    for count, gone in ((20, 5), (60, 12)):
        found = [intervals(count, gone, report.seed + each) for each in range(SEEDS)]
        setting = f"{count} intervals that touch, in any order"
        _equal(report, f"{setting}: entries", "derived: 1", [1] * SEEDS, [each[0] for each in found])
        _equal(
            report, f"{setting}, {gone} withdrawn, no two beside each other: entries", "derived: k + 1",
            [gone + 1] * SEEDS, [each[1] for each in found],
        )  # fmt: skip
    sizes = routing_merging.Sizes(seeds=SEEDS, first=report.seed)
    rows = [row for attributes in (1, 2) for row in routing_merging.merged(sizes, attributes)]
    rows += [routing_merging.wasted(sizes, waste) for waste in sizes.waste]
    _claims(report, "merging", "Merging beside covering, mean of five seeds", "derived", rows)


def leases(report: Told) -> None:
    """Entries and messages of leases."""
    sizes = routing_merging.Sizes(seeds=SEEDS, first=report.seed)
    rows = [*routing_merging.leased(sizes), *routing_merging.flooded(sizes)]
    _claims(report, "leases", "Leases, mean of five seeds", "derived: Poisson arrivals, exponential lives", rows)


def rendezvous(report: Told) -> None:
    """What a subscription to one hub costs: the way there."""
    expected, measured, flooded = [], [], []
    for each in range(SEEDS):
        dice = Dice(report.seed + each, 0, "papers/hubs")
        links = [(dice.below(b), b) for b in range(1, 40)]
        homes = [dice.below(40) for _ in range(60)]
        tree = nx.Graph(links)
        hub = max(tree.nodes, key=lambda broker: (tree.degree[broker], -broker))
        depth = nx.single_source_shortest_path_length(tree, hub)
        expected.append(sum(depth[home] for home in homes))
        measured.append(_subscribed("rendezvous", links, homes, {"hubs": 1}))
        flooded.append(_subscribed("subscription", links, homes, {}))
    name = "60 subscriptions to one hub of 40 brokers: messages"
    _equal(report, name, "derived: the ways to the hub", expected, measured)
    report.table("hubs", "Messages of 60 subscriptions", [
        {"seed": report.seed + each, "rendezvous": mine, "subscription": theirs}
        for each, (mine, theirs) in enumerate(zip(measured, flooded))
    ])  # fmt: skip


def practice(report: Told) -> None:
    """Clusters, groups, gateways and bridges."""
    seeds = range(report.seed, report.seed + SEEDS)
    rows = [row for part in routing_practice.DRAWN for row in part(None, seeds)]
    rows += [row for part in routing_practice.FIXED for row in part(None)]
    _claims(report, "practice", "As practice has them", "derived from the rules of NATS and MQTT bridges", rows)


def reliable(report: Told) -> None:
    """Everything that was accepted comes, once and in order, although a sixth of the brokers crash."""
    sizes = routing_reliable.Sizes(seeds=tuple(report.seed + each for each in range(SEEDS)))
    if not report.full:
        sizes = replace(sizes, brokers=100, homes=25, subscriptions=50)
    _claims(report, "reliable", "Through crashes", "derived: exactly once", routing_reliable.rows(sizes))


def neighbourhood(report: Told) -> None:
    """While brokers are down: a chain's survival by the recurrence, pair by pair; and what comes in the end."""
    seeds = tuple(report.seed + each for each in range(SEEDS))
    over_time = routing_reliable.Sizes()
    sizes = routing_neighbourhood.Sizes(seeds=seeds, over_time=over_time)
    if not report.full:
        over_time = replace(over_time, brokers=100, homes=25, subscriptions=50)
        sizes = replace(sizes, lines=5, tree=150, publishers=20, over_time=over_time)
    source = "derived: the recurrence of δ-fault tolerance; printed: Kazemzadeh and Jacobsen, SRDS 2009"
    rows = routing_neighbourhood.rows(sizes)
    _claims(report, "neighbourhood", "Past brokers that are down", source, rows)


def trees(report: Told) -> None:
    """What trees of advertisements cost on overlays with cycles, and what re-choosing them by load saves."""
    sizes = routing_trees.Sizes(seeds=SEEDS, first=report.seed, rates=(50,))
    counted = routing_trees.counted(sizes)
    _claims(report, "trees", "Trees, mean of five graphs", "derived: 2E - (B - 1), 2E, ways up the trees", counted)
    told = []
    for rate, name in ((50, "where other traffic fills links"), (0, "where links are never full")):
        seeds = range(report.seed, report.seed + SEEDS)
        ran = [[routing_trees.run(sizes, seed, rate, by_load) for by_load in (False, True)] for seed in seeds]
        delays = [1 - chosen.delay_ms / kept.delay_ms for kept, chosen in ran]
        messages = [chosen.messages / kept.messages - 1 for kept, chosen in ran]
        told.append({
            "other traffic": rate, "delay, kept (ms)": _mean([kept.delay_ms for kept, _ in ran]),
            "re-chosen (ms)": _mean([chosen.delay_ms for _, chosen in ran]),
            "trees planted": _mean([chosen.planted for _, chosen in ran]),
            "messages, kept": _mean([kept.messages for kept, _ in ran]),
            "re-chosen": _mean([chosen.messages for _, chosen in ran]),
        })  # fmt: skip
        report.claim(
            f"re-choosing by load, a grid of 25 brokers, {name}: less delay, in %",
            "printed: PADRES on cyclic overlays, 51.67 % under congestion and almost no overhead otherwise; no setting",
            "less with every seed" if rate else "at most 1 % more with any",
            _told([100 * each for each in delays]), min(delays) > (0 if rate else -0.01),
        )  # fmt: skip
        if not rate:
            report.claim(
                f"re-choosing by load, a grid of 25 brokers, {name}: more messages, in %",
                "printed: PADRES on cyclic overlays, almost no overhead", "at most 1 with any seed",
                _told([100 * each for each in messages]), max(messages) <= 0.01,
            )  # fmt: skip
        wrong = [each.wrong for pair in ran for each in pair]
        report.claim(
            f"trees, the same, {name}: missed, twice or unwanted", "derived: exactly once", "0", str(sum(wrong)),
            not any(wrong),
        )  # fmt: skip
    report.table("congestion", "A grid of 25 brokers, mean of five seeds", told)


# ---- counting ----------------------------------------------------------------------------------------


def intervals(count: int, gone: int, seed: int) -> tuple[int, int]:
    """Entries of the broker beside, after `count` intervals that touch, and after some were withdrawn again."""
    random = Random(seed)
    order = random.sample(range(count), count)
    holes = [1 + 2 * each for each in random.sample(range((count - 2) // 2), gone)]
    net = join("merging", [(0, 1)], [0] * count, params={"attributes": 1})
    for at in order:
        net.send(at, "subscribe", [0, at / count, (at + 1) / count], word=net.interest(at))
    whole = net.entries(1)
    for at in holes:
        net.send(at, "unsubscribe", word=net.interest(at))
    return whole, net.entries(1)


def _subscribed(protocol: str, links: list[tuple[int, int]], homes: Sequence[int], options: dict[str, int]) -> int:
    net = join(protocol, links, homes, options=options)
    for client in range(len(homes)):
        net.send(client, "subscribe", [0, 0.2, 0.3], word=net.interest(client))
    hops = (hop for a, b in links for ends in ((a, b), (b, a)) for hop in net.over(*ends))
    return sum(hop.type == SUBSCRIBE for hop in hops)


def _equal(report: Told, name: str, source: str, expected: Sequence[float], measured: Sequence[float]) -> None:
    """A claim that holds if every number is what the closed form says, seed by seed."""
    report.claim(name, source, _told(expected), _told(measured), list(expected) == list(measured))


def _claims(report: Told, name: str, title: str, source: str, rows: Iterable[Row]) -> None:
    """Rows of the group `routing` as a table, and what they demand as claims."""
    found = list(rows)
    report.table(name, title, list(_cells(found)))
    for row in found:
        if row["holds"] is not None:
            expected = row["target"] or ""
            if row["baseline"] is not None:
                expected += f" ({number(row['baseline'])})"
            report.claim(row["name"], source, expected, f"{number(row['value'])} {row['unit']}".rstrip(), row["holds"])


def _cells(rows: Iterable[Row]) -> Iterator[dict[str, float | str | None]]:
    for row in rows:
        yield {"figure": row["name"], "value": row["value"], "unit": row["unit"], "beside": row["baseline"]}


def _told(numbers: Sequence[float]) -> str:
    """A mean with the spread of its seeds."""
    mean = _mean(numbers)
    spread = sqrt(fsum((each - mean) ** 2 for each in numbers) / max(1, len(numbers) - 1))
    return f"{mean:,.6g} ± {spread:.3g} over {len(numbers)} seeds"


def _mean(numbers: Sequence[float]) -> float:
    return fsum(numbers) / len(numbers)


EXPERIMENTS = [
    Experiment("advertisements", "What advertisements cost", told=advertisements),
    Experiment("merging", "Merging among brokers", told=merging),
    Experiment("leases", "Leases", told=leases),
    Experiment("rendezvous", "A hub", told=rendezvous),
    Experiment("practice", "Clusters, groups, gateways, bridges", told=practice),
    Experiment("reliable", "Reliable delivery", told=reliable),
    Experiment("neighbourhood", "Bridges past what crashed", told=neighbourhood),
    Experiment("trees", "A tree for each advertisement", told=trees),
]
