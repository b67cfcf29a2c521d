"""Weighted top-k partial matching (Culhane, Jayaram, Eugster): the structure's bound, measured.

The source gives time O(M log N + S log k) and space O(M N + k), for N filters, M attributes of a message and
S constraints that match it, and no figures. One factor varies at a time; the paper's structure, the fast index
and the compiled scan get the same filters and messages, and all answers are compared. Times are medians over
single calls of one process; counters are those of the paper's structure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from analysis.bench.filters import filters, messages
from analysis.bench.matching import call_us
from analysis.bench.subscriptions import Workload
from analysis.papers.claims import (
    Claim,
    Figure,
    above,
    at_least,
    at_most,
    derived,
    exactly,
    ours,
    printed,
)
from analysis.papers.experiment import Experiment, Picture, Run, Table, Tables, curves
from brokers.indexes.topk.contract import Query, RankedIndex, RankedMessage
from brokers.indexes.topk.quick import Quick
from brokers.indexes.topk.sliced import Sliced
from brokers.indexes.topk.trees import Trees

SOURCE = printed("brief announcement, last paragraph")
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


SWEEPS: dict[str, str] = {
    "filters": "N, filters", "present": "M, attributes of a message", "width": "chance that a constraint is met",
    "k": "k", "constraints": "constraints per filter", "sender": "M, weights of the sender",
}  # fmt: skip


def points(scale: Scale) -> dict[str, list[Point]]:
    """Each sweep from one base."""
    base = Point(filters=scale.filters)
    return {
        "filters": [replace(base, filters=n) for n in scale.growth],
        "present": [replace(base, present=m) for m in (2, 5, 10, 15, 20)],
        "width": [replace(base, width=w) for w in (0.01, 0.05, 0.1, 0.2, 0.4)],
        "k": [replace(base, k=k) for k in (1, 3, 10, 30, 100, 300, 1_000)],
        "constraints": [replace(base, constraints=c) for c in (1, 2, 5, 10, 20)],
        "sender": [replace(base, present=m, sender=True) for m in (2, 5, 10, 15, 20)],
    }


def scale_of(run: Run) -> Scale:
    return FULL if run.full else Scale()


def library(run: Run) -> Tables:
    """The index alone: time against each factor."""
    scale = scale_of(run)
    tables = {}
    for name, of in points(scale).items():
        tables[name] = [measured(point, scale, run.seed) for point in of]
        run.say(f"time against {SWEEPS[name]}")
    return tables


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


class Line(NamedTuple):
    """Times through the bound, and how much of them that explains."""

    slope: float
    start: float
    explained: float


def fitted(rows: Table) -> Line:
    """A line through the times of the paper's structure at all settings."""
    units, us = (np.array([row[name] for row in rows], float) for name in ("bound", "trees_us"))
    slope, start = np.polyfit(units, us, 1)
    line = slope * units + start
    explained = 1.0 - float(((us - line) ** 2).sum() / ((us - us.mean()) ** 2).sum())
    return Line(float(slope), float(start), explained)


def judge(tables: Tables) -> Iterator[Claim]:
    """The bound, and what it says of single factors."""
    rows = [row for table in tables.values() for row in table]
    line = fitted(rows)
    yield Claim(
        "time", "Time grows as M log N + S log k", SOURCE,
        {"explained by a line through all settings": Figure(line.explained, at_least(FIT_LEAST)),
         "ns per unit": Figure(1e3 * line.slope, above(0)), "µs at the start": Figure(line.start)},
        f"a line; at least {FIT_LEAST:.0%} of the variance is our reading of that", f"{len(rows)} settings",
    )  # fmt: skip
    yield Claim(
        "steps", "Steps are O(M log N + S log k)", SOURCE,
        {"most comparisons per unit": Figure(max(row["steps"] / row["bound"] for row in rows), at_most(STEPS_MOST))},
        f"a constant number per unit; {STEPS_MOST:g} is ours", f"{len(rows)} settings",
    )  # fmt: skip
    few, many = tables["k"][0], tables["k"][-1]
    yield Claim(
        "factor-k", f"From k = {few['k']} to {many['k']:,} time grows by a factor of log k at most", SOURCE,
        {"": Figure(many["trees_us"] / few["trees_us"], at_most(float(np.log2(many["k"]))))}, "",
        f"{many['entered']:.0f} of {many['touched']:.0f} filters enter the heap", "times",
    )  # fmt: skip
    small, large = tables["filters"][0], tables["filters"][-1]
    growth = large["filters"] / small["filters"]
    yield Claim(
        "space", "Space is O(M N + k)", SOURCE,
        {"memory": Figure(large["memory_mb"] / small["memory_mb"], at_most(2 * growth)),
         "bytes per filter": Figure(large["memory_mb"] * 1e6 / large["filters"])},
        f"for {growth:g} times the filters as many times the memory; twice that is our room",
    )  # fmt: skip
    yield Claim(
        "same", "All indexes give the same answers", derived("the definition"),
        {"settings with other ids or scores": Figure(sum(not row["same"] for row in rows), exactly(0))},
        note=f"of {len(rows)}, to the last bit",
    )  # fmt: skip
    for name in ("sliced", "scan"):
        ratios = [row["trees_us"] / row[f"{name}_us"] for row in rows]
        yield Claim(
            f"beside-{name}", f"The paper's structure beside the {name}", ours("indexes of this project"),
            {"least": Figure(min(ratios)), "most": Figure(max(ratios))}, "reported", "", "times its time",
        )  # fmt: skip


def draw(tables: Tables) -> Iterator[Picture]:
    """Time against each factor, and against the bound."""
    for name, axis in SWEEPS.items():
        xs = [row["present" if name == "sender" else name] for row in tables[name]]
        series = {index: (xs, [row[f"{index}_us"] for row in tables[name]]) for index in INDEXES}
        yield Picture(name, f"Time against {axis}", axis, "µs per message", curves(series), log_x=True, log_y=True)
    rows = sorted((row for table in tables.values() for row in table), key=lambda row: float(row["bound"]))
    line, units = fitted(rows), [row["bound"] for row in rows]
    through = {"trees": (units, [row["trees_us"] for row in rows]),
               "a line": (units, [line.slope * unit + line.start for unit in units])}  # fmt: skip
    yield Picture("bound", "Time against M log N + S log k", "M log N + S log k", "µs per message", curves(through))


EXPERIMENTS = [
    Experiment("index", "The index alone", library, judge, draw,
               {name: f"Time against {axis}" for name, axis in SWEEPS.items()},
               "Times are medians over single calls of one process."),
]  # fmt: skip
