"""What the top-k paper would find today: its interval trees beside bit slices and beside plain scans.

All get the same filters and messages, and answers are compared to the last bit. The source's conclusions, that its
structure is fast, scales and is small, are put to these rivals: where one does not hold any more, that is what was
found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from analysis.bench.filters import filters, messages
from analysis.bench.matching import call_us
from analysis.bench.rows import medians
from analysis.bench.subscriptions import P1, Floats, Workload
from analysis.papers.claims import Claim, Figure, above, at_most, below, derived, exactly, ours
from analysis.papers.experiment import Cells, Experiment, Picture, Run, Tables, curves
from brokers.indexes.topk.contract import Answer, Query, RankedIndex, RankedMessage
from brokers.indexes.topk.quick import Quick
from brokers.indexes.topk.scan import Scan
from brokers.indexes.topk.sliced import Sliced
from brokers.indexes.topk.trees import Trees

TREES, SLICES, COMPILED, NUMPY = "interval trees", "bit slices", "compiled scan", "NumPy scan"
CONTENDERS: dict[str, Callable[[int], RankedIndex]] = {
    TREES: Trees, SLICES: Sliced, COMPILED: Quick, NUMPY: Scan
}  # fmt: skip
RIVALS = (SLICES, COMPILED, NUMPY)
SCANS = (COMPILED, NUMPY)
BOUND = ours("time O(M log N + S log k), space O(M N + k), put to indexes of today")


@dataclass(frozen=True)
class Point:
    """Filters, messages, and what is asked."""

    workload: Workload = P1
    weights: str = "uniform"
    sent: str | None = None  # weights of the message
    k: int = 10


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    sizes: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    filters: int = 50_000  # of widths and shapes
    changing: int = 20_000  # where filters come and go
    messages: int = 20
    repeats: int = 3


FULL = Scale(sizes=(100, 1_000, 10_000, 100_000, 1_000_000), filters=200_000, changing=200_000, messages=50)

BASE = Point()
WIDTHS = (0.001, 0.01, 0.1, 0.4)  # the chance that a constraint is met
SHAPES = {
    "k = 1": replace(BASE, k=1),
    "k = 1,000": replace(BASE, k=1_000),
    "one constraint": replace(BASE, workload=Workload(ranges=1)),
    "20 constraints": replace(BASE, workload=Workload(ranges=20)),
    "a few heavy weights": replace(BASE, weights="pareto"),
    "weights of the sender": replace(BASE, sent="uniform"),
    "skewed values, popular attributes": replace(BASE, workload=Workload(zipf=1.0, values="skewed")),
}
CHANGES = (0, 1, 10, 100, 1_000)  # filters that are replaced between two messages


def beyond(run: Run) -> Tables:
    """Over sizes, widths, shapes, and rates of change."""
    return measured(FULL if run.full else Scale(), run)


def measured(scale: Scale, run: Run) -> Tables:
    tables: Tables = {name: [] for name in TITLES}
    for count in scale.sizes:
        tables["beyond-size"].append({"filters": count, **compared(BASE, count, scale, run.seed)})
        run.say(f"{count:,} filters")
    for width in WIDTHS:
        point = replace(BASE, workload=replace(BASE.workload, width=width))
        tables["beyond-width"].append({"width": width, **compared(point, scale.filters, scale, run.seed)})
    run.say("widths")
    for name, point in SHAPES.items():
        tables["beyond-shape"].append({"shape": name, **compared(point, scale.filters, scale, run.seed)})
    run.say("shapes")
    for count in CHANGES:
        tables["beyond-changes"].append({"changes": count, **churned(count, scale, run.seed)})
    run.say("changes")
    return tables


def filled(point: Point, count: int, seed: int) -> dict[str, RankedIndex]:
    """Every contender with the same filters."""
    given, ids = filters(point.workload, count, point.weights, seed), np.arange(count)
    indexes = {name: make(point.workload.attributes) for name, make in CONTENDERS.items()}
    for index in indexes.values():
        index.insert(ids, given)
    return indexes


def compared(point: Point, count: int, scale: Scale, seed: int) -> Cells:
    """All contenders at one point: microseconds per message, bytes, and whether answers agree."""
    indexes = filled(point, count, seed)
    asked, query = messages(point.workload, scale.messages, point.sent), Query(point.k)
    answers = [ranked(index, asked, query) for index in indexes.values()]
    taken = medians([partial(call_us, partial(ranked, index, asked, query)) for index in indexes.values()],
                    scale.repeats)  # fmt: skip
    row: Cells = {"differ": differing(answers)}
    row |= {f"{name}, µs": us / len(asked) for name, us in zip(indexes, taken)}
    return row | {f"{name}, bytes": index.memory_bytes() / count for name, index in indexes.items()}


def ranked(index: RankedIndex, asked: Sequence[RankedMessage], query: Query) -> list[Answer]:
    """One message after the other."""
    return [index.match(message, query) for message in asked]


def differing(answers: Sequence[Sequence[Answer]]) -> int:
    """How many contenders rank otherwise than the first."""
    first = answers[0]
    return sum(
        any(not (np.array_equal(a.ids, b.ids) and np.array_equal(a.scores, b.scores)) for a, b in zip(first, other))
        for other in answers
    )


def churned(changes: int, scale: Scale, seed: int) -> Cells:
    """The same where so many filters are replaced between two messages: microseconds per message, changes included."""
    indexes = filled(BASE, scale.changing, seed)
    rounds = 3 if changes >= 1_000 else 8
    coming = filters(BASE.workload, 1 + rounds * changes, seed=seed + 1)
    asked, query = messages(BASE.workload, rounds), Query(BASE.k)
    spare = scale.changing + len(coming)
    for index in indexes.values():  # compiles what a change needs
        index.insert(np.array([spare]), coming[-1:])
        index.delete(np.array([spare]))
        ranked(index, asked[:1], query)
    answers: list[list[Answer]] = [[] for _ in indexes]
    taken = dict.fromkeys(indexes, 0.0)
    for turn, message in enumerate(asked):
        part = slice(turn * changes, (turn + 1) * changes)
        for (name, index), found in zip(indexes.items(), answers):
            taken[name] += call_us(replaced, index, coming[part], part.start, scale.changing)
            taken[name] += call_us(index.match, message, query)
            found.append(index.match(message, query))
    row: Cells = {"differ": differing(answers)}
    return row | {f"{name}, µs": us / rounds for name, us in taken.items()}


def replaced(index: RankedIndex, coming: Floats, oldest: int, held: int) -> None:
    """The oldest filters go one by one, each for a new one."""
    for at in range(len(coming)):
        index.delete(np.array([oldest + at]))
        index.insert(np.array([held + oldest + at]), coming[at : at + 1])


# ---- what follows ------------------------------------------------------------------------------------


def gain(row: Cells, *rivals: str) -> float:
    """How many times the best rival takes what the interval trees take."""
    return float(min(row[f"{name}, µs"] for name in rivals) / row[f"{TREES}, µs"])


def judge(tables: Tables) -> Iterator[Claim]:
    sizes, widths, shapes, changes = (tables[name] for name in TITLES)
    rows = [*sizes, *widths, *shapes, *changes]
    yield Claim(
        "same", "All contenders give the same answers", derived("the definition of a score"),
        {"settings in which some differ": Figure(sum(row["differ"] > 0 for row in rows), exactly(0))},
        note=f"of {len(rows)}, to the last bit",
    )  # fmt: skip
    yield Claim(
        "beats-scans", "The interval trees are faster than a scan, however few filters", BOUND,
        {f"{row['filters']:,}": Figure(gain(row, *SCANS), above(1)) for row in sizes},
        "above 1", "the better of two scans over the trees", "times",
    )  # fmt: skip
    yield Claim(
        "selective", "They are faster than a scan at any selectivity", BOUND,
        {f"{row['width']:g}": Figure(gain(row, *SCANS), above(1)) for row in widths},
        "above 1", "the better of two scans over the trees", "times",
    )  # fmt: skip
    few, many = sizes[0], sizes[-1]
    growth = many[f"{TREES}, µs"] / few[f"{TREES}, µs"]
    yield Claim(
        "sublinear", "Their time grows more slowly than the number of filters", BOUND,
        {"growth of time over that of filters": Figure(growth * few["filters"] / many["filters"], below(1))},
        note="S, the constraints that match, grows as N does", unit="times",
    )  # fmt: skip
    for name, of, axis in (("size", sizes, "filters"), ("width", widths, "width"), ("shape", shapes, "shape"),
                           ("changes", changes, "changes")):  # fmt: skip
        yield Claim(
            f"fastest-{name}", f"The interval trees are the fastest of all, by {axis}", BOUND,
            {f"{row[axis]:,}" if isinstance(row[axis], int) else str(row[axis]): Figure(gain(row, *RIVALS), above(1))
             for row in of}, "above 1", "the best of bit slices and two scans over the trees", "times",
        )  # fmt: skip
    yield Claim(
        "scales", "They scale no worse than another index", BOUND,
        {"bit slices over trees, with most over fewest filters": Figure(
            gain(many, SLICES) / gain(few, SLICES), above(1))}, "above 1", unit="times",
    )  # fmt: skip
    yield Claim(
        "space", "They need no more space than another index", BOUND,
        {f"{row['filters']:,}": Figure(row[f"{TREES}, bytes"] / row[f"{SLICES}, bytes"], at_most(1)) for row in sizes},
        note=f"{many[f'{TREES}, bytes']:.0f} bytes per filter where they are most", unit="times that of bit slices",
    )  # fmt: skip


def draw(tables: Tables) -> Iterator[Picture]:
    rows = tables["beyond-size"]
    xs = [row["filters"] for row in rows]
    series = {name: (xs, [row[f"{name}, µs"] for row in rows]) for name in CONTENDERS}
    yield Picture("beyond", "Interval trees beside today's indexes", "filters", "µs per message", curves(series),
                  log_x=True, log_y=True)  # fmt: skip


TITLES = {
    "beyond-size": "Over filters: five constraints of width 0.1 on 20 attributes, k = 10",
    "beyond-width": "Over the chance that a constraint is met",
    "beyond-shape": "Over what filters, weights and questions look like",
    "beyond-changes": "Over the filters replaced between two messages, changes included",
}
EXPERIMENTS = [
    Experiment(
        "beyond", "Beyond: interval trees beside today's indexes", beyond, judge, draw, TITLES,
        "Microseconds per message, the least of wall and CPU time, medians of stretches in turns.",
    )
]
