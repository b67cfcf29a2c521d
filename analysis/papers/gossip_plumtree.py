"""Plumtree and HyParView in `brokerlab reproduce gossip`: closed forms, and bounds of published tests, as claims."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from analysis.bench import routing_plumtree
from analysis.bench.rows import Row, number
from analysis.papers.experiment import Experiment, Told

SEEDS = 5


def plumtree(report: Told) -> None:
    """The first publication and the next, beside the closed forms."""
    _claims(report, "plumtree", "Plumtree over fixed links", "derived", routing_plumtree.exact(_sizes(report)))


def bounds(report: Told) -> None:
    """Last hop and redundancy, beside what the tests of an implementation allow."""
    sizes = _sizes(report)
    rows = [row for brokers in sizes.found for row in routing_plumtree.bounded(sizes, brokers)]
    source = "printed: iroh-gossip, tests/sim.rs"
    _claims(report, "bounds", "Plumtree over HyParView, worst of five seeds", source, rows)


def crashes(report: Told) -> None:
    """What is left after most have crashed."""
    source = "from memory of the paper: 10,000 nodes, reliable up to 80 % crashed, and in few rounds at 90 %"
    _claims(report, "crashes", "After crashes", source, routing_plumtree.left_over(_sizes(report)))


def _sizes(report: Told) -> routing_plumtree.Sizes:
    sizes = routing_plumtree.Sizes(seeds=tuple(report.seed + each for each in range(SEEDS)))
    if report.full:
        return replace(sizes, found=(20, 100, 1_000), crashing=(100, 1_000, 10_000))
    return replace(sizes, crashing=(100,))


def _claims(report: Told, name: str, title: str, source: str, rows: Iterable[Row]) -> None:
    """Rows as a table, and what they demand as claims."""
    found = list(rows)
    report.table(name, title, [
        {"figure": row["name"], "value": row["value"], "unit": row["unit"], "beside": row["baseline"]} for row in found
    ])  # fmt: skip
    for row in found:
        measured = f"{number(row['value'])} {row['unit']}"
        report.claim(row["name"], source, row["target"] or "", measured, bool(row["holds"]))


def tiny() -> None:
    """Fixed links, at a scale that only compiles."""
    list(routing_plumtree.exact(routing_plumtree.Sizes(seeds=(1,), linked=12)))


def tiny_network() -> None:
    """The same of brokers that find each other."""
    list(routing_plumtree.bounded(routing_plumtree.Sizes(seeds=(1,)), 8))


EXPERIMENTS = [
    Experiment("plumtree", "Closed forms of Plumtree", told=plumtree),
    Experiment("bounds", "Bounds of a published test", told=bounds),
    Experiment("crashes", "What crashes leave", told=crashes),
]
