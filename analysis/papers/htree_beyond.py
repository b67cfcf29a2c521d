"""What the H-Tree paper would find today: its tree beside the default index and beside plain scans.

The tree is cut as in the source, 8 levels and as many cells as ranges fit; a second one takes the levels that its plan
chooses. All get the same subscriptions and events, and all answers are compared. The source's conclusions are
put to these rivals: where one does not hold any more, that is what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from analysis.bench.matching import call_us
from analysis.bench.rows import medians
from analysis.bench.subscriptions import P1, P8, Floats
from analysis.papers.claims import Claim, Figure, above, at_least, at_most, derived, exactly, ours
from analysis.papers.experiment import Cells, Experiment, Picture, Run, Tables, curves
from analysis.papers.htree import BASE, H_TREE, Point
from brokers.indexes.content.contract import ContentIndex
from brokers.indexes.content.htree import HTree
from brokers.indexes.content.quick_scan import QuickScan
from brokers.indexes.content.scan import Scan
from brokers.indexes.registry import INDEXES
from brokers.registry import load

TUNED, CELLS, EARLY, NUMPY = "H-Tree, tuned", "cells", "early-exit scan", "NumPy scan"
RIVALS = (CELLS, EARLY, NUMPY)
SCANS = (EARLY, NUMPY)
ABSTRACT = ours("the abstract's conclusion, put to indexes of today")


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    sizes: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    subscriptions: int = 100_000  # of widths and shapes
    events: int = 40
    changes: int = 1_000
    repeats: int = 3


FULL = Scale(sizes=(100, 1_000, 10_000, 100_000, 1_000_000), subscriptions=300_000, events=100, changes=5_000)

WIDTHS = ((0.02, 50), (0.1, 10), (0.2, 5), (0.5, 2))  # and as many cells as fit
SHAPES = {
    "half of 20 attributes": Point(),
    "all of 20 attributes": Point(P8, cells=5),
    "one narrow range": Point(replace(P1, ranges=1, width=0.02), cells=50),
    "skewed values, popular attributes": Point(replace(BASE, ranges=5, zipf=1.0, values="skewed"), domain="cdf"),
    "four attributes": Point(replace(BASE, attributes=4, ranges=4)),
}


def contenders(point: Point) -> dict[str, Callable[[Any, Floats], ContentIndex]]:
    m = point.workload.attributes
    return {
        H_TREE: point.h_tree,
        TUNED: lambda ids, rows: HTree.build(m, ids, rows),
        CELLS: lambda ids, rows: load(INDEXES["cells"].target).build(m, ids, rows),
        EARLY: lambda ids, rows: QuickScan.build(m, ids, rows),
        NUMPY: lambda ids, rows: Scan.build(m, ids, rows),
    }


def beyond(run: Run) -> Tables:
    """Over sizes, widths and shapes."""
    scale = FULL if run.full else Scale()
    return measured(scale, run)


def measured(scale: Scale, run: Run) -> Tables:
    tables: Tables = {"beyond-size": [], "beyond-width": [], "beyond-shape": []}
    for count in scale.sizes:
        tables["beyond-size"].append({"subscriptions": count, **compared(Point(P1), count, scale, run.seed)})
        run.say(f"{count:,} subscriptions")
    for width, cells in WIDTHS:
        point = Point(replace(BASE, width=width), cells=cells)
        tables["beyond-width"].append({"width": width, **compared(point, scale.subscriptions, scale, run.seed)})
        run.say(f"width {width}")
    for name, point in SHAPES.items():
        tables["beyond-shape"].append({"shape": name, **compared(point, scale.subscriptions, scale, run.seed)})
        run.say(name)
    return tables


def compared(point: Point, count: int, scale: Scale, seed: int) -> Cells:
    """All contenders at one point: microseconds per match and per change, memory, and whether answers agree."""
    rows, events = point.workload.rows(count, seed), point.workload.events(scale.events, seed)
    coming = point.workload.rows(scale.changes, seed + 1)
    ids = np.arange(count)
    indexes = {name: build(ids, rows) for name, build in contenders(point).items()}
    answers = {name: [part.tolist() for part in index.match_many(events)] for name, index in indexes.items()}
    first = answers[H_TREE]
    taken = medians([partial(call_us, partial(matched, index, events)) for index in indexes.values()], scale.repeats)
    row: Cells = {"matches": len(first[1]) / len(events), "differ": sum(each != first for each in answers.values())}
    row |= {f"{name}, µs": us / len(events) for name, us in zip(indexes, taken)}
    for name in (H_TREE, CELLS):
        row[f"{name}, bytes"] = indexes[name].memory_bytes() / count
        row[f"{name}, µs per change"] = call_us(changed, indexes[name], coming, count) / (2 * len(coming))
    return row


def matched(index: ContentIndex, events: Floats) -> None:
    """One event after the other."""
    for event in events:
        index.match(event)


def changed(index: ContentIndex, coming: Floats, first: int) -> None:
    """Subscriptions come one by one, and go again."""
    ids = np.arange(first, first + len(coming))
    for at in range(len(coming)):
        index.insert(ids[at : at + 1], coming[at : at + 1])
    for at in range(len(coming)):
        index.delete(ids[at : at + 1])


# ---- what follows ------------------------------------------------------------------------------------


def gain(row: Cells, *rivals: str) -> float:
    """How many times the best rival takes what the H-Tree takes."""
    return float(min(row[f"{name}, µs"] for name in rivals) / row[f"{H_TREE}, µs"])


def judge(tables: Tables) -> Iterator[Claim]:
    sizes, widths, shapes = (tables[name] for name in TITLES)
    rows = [*sizes, *widths, *shapes]
    yield Claim(
        "same", "All contenders give the same answers", derived("the definition of a match"),
        {"settings in which some differ": Figure(sum(row["differ"] > 0 for row in rows), exactly(0))},
        note=f"of {len(rows)}",
    )  # fmt: skip
    yield Claim(
        "beats-scans", "The H-Tree is faster than a scan, however few subscriptions", ABSTRACT,
        {f"{row['subscriptions']:,}": Figure(gain(row, *SCANS), above(1)) for row in sizes},
        "above 1", "the better of two scans over the H-Tree", "times",
    )  # fmt: skip
    yield Claim(
        "three-orders", "It is up to three orders of magnitude faster than its counterparts", ABSTRACT,
        {"than the better scan, at most": Figure(max(gain(row, *SCANS) for row in rows), at_least(1_000))},
        "up to 1000 times", f"of at most {sizes[-1]['subscriptions']:,} subscriptions", "times",
    )  # fmt: skip
    yield Claim(
        "scan-grows", "The gain over a scan grows with subscriptions", ABSTRACT,
        {"with most over fewest": Figure(gain(sizes[-1], *SCANS) / gain(sizes[0], *SCANS), above(1))},
        unit="times",
    )  # fmt: skip
    for name, of, axis in (("size", sizes, "subscriptions"), ("width", widths, "width"), ("shape", shapes, "shape")):
        yield Claim(
            f"fastest-{name}", f"The H-Tree is the fastest of all, by {name}", ABSTRACT,
            {f"{row[axis]:,}" if name == "size" else str(row[axis]): Figure(gain(row, *RIVALS), above(1))
             for row in of}, "above 1", "the best of cells and two scans over the H-Tree", "times",
        )  # fmt: skip
    yield Claim(
        "cells-grows", "Its gain over other indexes grows with subscriptions", ABSTRACT,
        {"over cells, with most over fewest": Figure(gain(sizes[-1], CELLS) / gain(sizes[0], CELLS), above(1))},
        unit="times",
    )  # fmt: skip
    yield Claim(
        "levels", "Eight levels, which the paper takes, are about as good as the levels that are chosen by cost",
        ours("section 3.2: each further level saves a third; within a half is our reading"),
        {f"{row['subscriptions']:,}": Figure(row[f"{H_TREE}, µs"] / row[f"{TUNED}, µs"], at_most(1.5))
         for row in sizes}, unit="times the tuned one's time",
    )  # fmt: skip
    last = sizes[-1]
    yield Claim(
        "memory", "It needs no more memory than another index", ours("section 3.4: 4 bytes in a bucket"),
        {"over cells": Figure(last[f"{H_TREE}, bytes"] / last[f"{CELLS}, bytes"], at_most(1))},
        note=f"{last[f'{H_TREE}, bytes']:.0f} bytes per subscription, constraints included", unit="times",
    )  # fmt: skip
    yield Claim(
        "changes", "It takes inserts and deletes no worse than another index",
        ours("section 5, where both are measured"),
        {f"{row['subscriptions']:,}": Figure(
            row[f"{H_TREE}, µs per change"] / row[f"{CELLS}, µs per change"], at_most(1)) for row in sizes},
        unit="times that of cells",
    )  # fmt: skip


def draw(tables: Tables) -> Iterator[Picture]:
    rows = tables["beyond-size"]
    xs = [row["subscriptions"] for row in rows]
    series = {name: (xs, [row[f"{name}, µs"] for row in rows]) for name in (H_TREE, TUNED, *RIVALS)}
    yield Picture("beyond", "The H-Tree beside today's indexes", "subscriptions", "µs per match", curves(series),
                  log_x=True, log_y=True)  # fmt: skip


TITLES = {
    "beyond-size": "Over subscriptions: five ranges of width 0.1 on 20 attributes",
    "beyond-width": "Over the width of ranges: ten of them on 20 attributes",
    "beyond-shape": "Over what subscriptions look like",
}
EXPERIMENTS = [
    Experiment(
        "beyond", "Beyond: the H-Tree beside today's indexes", beyond, judge, draw, TITLES,
        "Microseconds per match, the least of wall and CPU time, medians of stretches in turns. The tree has 8 levels "
        "as in the source, the tuned one those that its plan chooses, with all its defaults.",
    )
]  # fmt: skip
