"""Weighted top-k partial matching (Culhane, Jayaram, Eugster): the structure's bound, measured.

The source gives time O(M log N + S log k) and space O(M N + k), for N filters, M attributes of a message and
S constraints that match it, and no figures. One factor varies at a time; the paper's structure, the fast index
and the compiled scan get the same filters and messages, and all answers are compared. Times are medians over
single calls of one process; counters are those of the paper's structure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.bench.filters import filters, messages
from analysis.bench.matching import call_us
from analysis.bench.subscriptions import Workload
from analysis.papers.experiment import Experiment, Told
from brokers.indexes.topk.contract import Query, RankedIndex, RankedMessage
from brokers.indexes.topk.quick import Quick
from brokers.indexes.topk.sliced import Sliced
from brokers.indexes.topk.trees import Trees

Table = list[dict[str, Any]]
SOURCE = "brief announcement, last paragraph"
INDEXES: dict[str, Callable[[int], RankedIndex]] = {"trees": Trees, "sliced": Sliced, "scan": Quick}
FIT_LEAST = 0.9  # share of the variance of the times that a line in the bound explains
STEPS_MOST = 4.0  # comparisons per unit of the bound


@dataclass(frozen=True)
class Point:
    """One setting."""

    filters: int = 50_000
    attributes: int = 20  # of the schema
    present: int = 20  # of a message: M
    constraints: int = 5
    width: float = 0.1  # of a constraint: the chance that a point satisfies it
    k: int = 10
    sender: bool = False


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    filters: int = 50_000
    growth: tuple[int, ...] = (2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
    messages: int = 24


FULL = Scale(
    filters=200_000, growth=(10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000), messages=60
)


def library(report: Told) -> None:
    """The index alone: time against each factor, and against the bound."""
    scale = FULL if report.full else Scale()
    base = Point(filters=scale.filters)
    sweeps: dict[str, tuple[str, Sequence[Point]]] = {
        "filters": ("N, filters", [replace(base, filters=n) for n in scale.growth]),
        "present": ("M, attributes of a message", [replace(base, present=m) for m in (2, 5, 10, 15, 20)]),
        "width": ("chance that a constraint is met", [
            replace(base, width=w) for w in (0.01, 0.05, 0.1, 0.2, 0.4)
        ]),
        "k": ("k", [replace(base, k=k) for k in (1, 3, 10, 30, 100, 300, 1_000)]),
        "constraints": ("constraints per filter", [replace(base, constraints=c) for c in (1, 2, 5, 10, 20)]),
        "sender": ("M, weights of the sender", [
            replace(base, present=m, sender=True) for m in (2, 5, 10, 15, 20)
        ]),
    }
    everything: Table = []
    for name, (axis, points) in sweeps.items():
        factor = "present" if name == "sender" else name
        rows = [measured(point, scale, report.seed) for point in points]
        everything += [{"sweep": name, **row} for row in rows]
        report.table(name, f"Time against {axis}", rows)
        xs = [row[factor] for row in rows]
        series = {index: (xs, [row[f"{index}_us"] for row in rows]) for index in INDEXES}
        report.plot(name, f"Time against {axis}", axis, "µs per message", series, log_x=True, log_y=True)
    bound(report, everything)
    factors(report, everything)


def measured(point: Point, scale: Scale, seed: int) -> dict[str, Any]:
    """All indexes at one point: times, and what the paper's structure counted per message."""
    workload = Workload(attributes=point.attributes, ranges=point.constraints, width=point.width)
    given, ids = filters(workload, point.filters, seed=seed), np.arange(point.filters)
    asked = [_shortened(m, point.present) for m in
             messages(workload, scale.messages, "uniform" if point.sender else None)]
    query = Query(point.k)
    row: dict[str, Any] = {
        name: getattr(point, name) for name in ("filters", "present", "constraints", "width", "k")
    }
    answers = []
    for name, make in INDEXES.items():
        index = make(point.attributes)
        index.insert(ids, given)
        index.match(asked[0], query)
        index.counters.reset()
        answers.append([index.match(message, query) for message in asked])
        if name == "trees":
            counters = index.counters.as_dict()
            row["memory_mb"] = index.memory_bytes() / 1e6
        row[f"{name}_us"] = float(np.median([call_us(index.match, message, query) for message in asked]))
    row["same"] = all(_same(*three) for three in zip(*answers))
    per_message = {name: counters[name] / len(asked) for name in ("probed", "hits", "touched", "entered")}
    steps = per_message["probed"] + per_message["hits"] + per_message["entered"] * np.log2(point.k + 1)
    units = point.present * np.log2(point.filters) + per_message["hits"] * max(1.0, np.log2(point.k))
    return {**row, **per_message, "steps": float(steps), "bound": float(units)}


def _shortened(message: RankedMessage, present: int) -> RankedMessage:
    """A message without its last attributes."""
    low, high = message.low.copy(), message.high.copy()
    low[present:] = high[present:] = np.nan
    return RankedMessage(low, high, message.weights)


def _same(*answers: Any) -> bool:
    first = answers[0]
    return all(
        np.array_equal(first.ids, other.ids) and np.array_equal(first.scores, other.scores)
        for other in answers[1:]
    )


def bound(report: Told, rows: Table) -> None:
    """The times of the paper's structure at all settings against its bound, with a line through them."""
    units, us = (np.array([row[name] for row in rows]) for name in ("bound", "trees_us"))
    slope, start = np.polyfit(units, us, 1)
    line = slope * units + start
    explained = 1.0 - float(((us - line) ** 2).sum() / ((us - us.mean()) ** 2).sum())
    furthest = int(np.argmax(us / line))
    order = np.argsort(units, kind="stable")
    report.plot(
        "bound", "Time against M log N + S log k", "M log N + S log k", "µs per message",
        {"trees": (units[order].tolist(), us[order].tolist()),
         f"{start:.0f} µs + {slope * 1e3:.2g} ns per unit":
             (units[order].tolist(), line[order].tolist())},
    )
    report.claim(
        "time grows as M log N + S log k", SOURCE,
        f"a line through all settings, which explains at least {FIT_LEAST:.0%} of the variance",
        f"{slope * 1e3:.2g} ns per unit and {start:.0f} µs explain {explained:.1%} over {len(rows)} settings; furthest "
        f"above it, {us[furthest] / line[furthest]:.1f} times, is k = {rows[furthest]['k']} of the sweep "
        f"over {rows[furthest]['sweep']}",
        explained >= FIT_LEAST,
    )
    worst = max(row["steps"] / row["bound"] for row in rows)
    report.claim(
        "steps are O(M log N + S log k)", SOURCE,
        f"a constant number per unit, here at most {STEPS_MOST:g}",
        f"at most {worst:.2f} comparisons per unit over {len(rows)} settings", worst <= STEPS_MOST,
    )


def factors(report: Told, rows: Table) -> None:
    """What the bound says of single factors."""
    by = {name: [row for row in rows if row["sweep"] == name] for name in ("k", "filters")}
    few, many = by["k"][0], by["k"][-1]
    report.claim(
        "k costs at most a factor of log k", SOURCE,
        f"from k = {few['k']} to {many['k']:,}: at most {np.log2(many['k']):.1f} times the time",
        f"{many['trees_us'] / few['trees_us']:.2f} times: {many['entered']:.0f} of "
        f"{many['touched']:.0f} filters enter the heap",
        many["trees_us"] / few["trees_us"] <= np.log2(many["k"]),
    )
    small, large = by["filters"][0], by["filters"][-1]
    growth = large["filters"] / small["filters"]
    memory = large["memory_mb"] / small["memory_mb"]
    report.claim(
        "space is O(M N + k)", SOURCE,
        f"for {growth:g} times the filters, at most {2 * growth:g} times the memory",
        f"{memory:.1f} times, {large['memory_mb'] * 1e6 / large['filters']:.0f} bytes per filter",
        memory <= 2 * growth,
    )
    report.claim(
        "all indexes give the same answers", "the definition", "ids and scores to the last bit",
        f"{sum(row['same'] for row in rows)} of {len(rows)} settings", all(row["same"] for row in rows),
    )
    for name in ("sliced", "scan"):
        ratios = [row["trees_us"] / row[f"{name}_us"] for row in rows]
        report.claim(
            f"the paper's structure beside the {name}", "not in the source", "reported",
            f"{min(ratios):.2g} to {max(ratios):.2g} times its time", None,
        )


EXPERIMENTS = [Experiment("index", "The index alone", told=library)]
