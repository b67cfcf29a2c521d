"""The experiments of the H-Tree paper (Qian et al., TPDS 26(6), 2015) on the indexes of this project.

One factor varies at a time, from a base of 20 attributes, ranges on 10 of them (RCA = k/m = 0.5) and widths up
to 0.1. The figures are medians over single matches in one process, the contenders on the same subscriptions and
events; all exact answers are compared. `Simple` is the early-exit scan; Tama is measured as in the source, its
candidates taken as they are. The source is known from notes without its figures, so what its machine showed is
not here: its claims in words are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from analysis.bench.matching import call_us, match_us
from analysis.bench.rows import medians
from analysis.bench.subscriptions import Floats, Workload
from analysis.papers.claims import (
    Bound,
    Claim,
    Figure,
    above,
    at_least,
    at_most,
    below,
    between,
    derived,
    exactly,
    ours,
    printed,
)
from analysis.papers.experiment import Experiment, Picture, Run, Table, Tables, curves
from brokers.indexes.content.contract import ContentIndex
from brokers.indexes.content.counting import Counting
from brokers.indexes.content.htree import HTree
from brokers.indexes.content.quick_scan import QuickScan
from brokers.indexes.content.rein import Rein
from brokers.indexes.content.tama import Tama
from brokers.indexes.contract import Ids
from brokers.indexes.registry import INDEXES
from brokers.registry import load

BASE = Workload(attributes=20, ranges=10, width=0.1)
LEVELS, CELLS = 8, 10
H_TREE = "H-Tree"
SIMPLE = "Simple"
TAMA = "Tama"


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    subscriptions: int = 100_000
    growth: tuple[int, ...] = (10_000, 30_000, 100_000, 300_000)
    divided: int = 20_000  # of disjoint cells, where each stands in up to 256 buckets
    events: int = 60


FULL = Scale(
    subscriptions=300_000, growth=(10_000, 30_000, 100_000, 300_000, 1_000_000), divided=60_000, events=200
)


@dataclass(frozen=True)
class Point:
    """One setting: what is held and asked, and how the H-Tree is cut."""

    workload: Workload = BASE
    levels: int = LEVELS
    cells: int = CELLS
    domain: Any = (0.0, 1.0)

    def h_tree(self, ids: Any, rows: Floats, **options: Any) -> HTree:
        levels = min(self.levels, self.workload.attributes)
        wanted = {"levels": levels, "cells": self.cells, "domain": self.domain, "scans": False, "follows": False}
        return HTree.build(self.workload.attributes, ids, rows, **{**wanted, **options})

    def contenders(self) -> dict[str, Callable[[Any, Floats], ContentIndex]]:
        m = self.workload.attributes
        return {
            H_TREE: self.h_tree,
            SIMPLE: lambda ids, rows: QuickScan.build(m, ids, rows),
            TAMA: lambda ids, rows: Tama.build(m, ids, rows, verify=False),
            "Counting": lambda ids, rows: Counting.build(m, ids, rows),
            "Rein": lambda ids, rows: Rein.build(m, ids, rows),
            "default": lambda ids, rows: load(INDEXES["cells"].target).build(m, ids, rows),
        }


def scale_of(run: Run) -> Scale:
    return FULL if run.full else Scale()


# ---- matching time, one factor at a time -------------------------------------------------------------

MATCH = "match_{}"
CHANGES = {
    "insert": "A seventh more subscriptions inserted one by one, and a match in the end, µs per change",
    "delete": "The same deleted one by one, and a match in the end, µs per change",
}
MEMORY = "Bytes per subscription, ids and constraints included"


def matching(scale: Scale, run: Run) -> Tables:
    """Every contender over every factor."""
    return {**growth(scale, run), **sweeps(scale, run)}


def growth(scale: Scale, run: Run) -> Tables:
    """Matching, single inserts and deletes, and memory against the number of subscriptions."""
    point = Point()
    tables: Tables = {"match_subscriptions": [], "insert": [], "delete": [], "memory": []}
    for count in scale.growth:
        changes = count // 7  # enough for the compiled ones to compile anew
        ids, rows, events = drawn(point, count + changes, scale, run.seed)
        line: dict[str, dict[str, Any]] = {table: {"subscriptions": count} for table in tables}
        expected = None
        for name, build in point.contenders().items():
            index = build(ids[:count], rows[:count])
            line["match_subscriptions"][name] = median_us(index, events)
            expected = agreed(index, events, name, expected)
            line["memory"][name] = index.memory_bytes() / count
            inserts = [(ids[i : i + 1], rows[i : i + 1]) for i in range(count, count + changes)]
            line["insert"][name] = per_change(index, index.insert, inserts, events[0])
            line["delete"][name] = per_change(index, index.delete, [(id_,) for id_, _ in inserts], events[0])
        for table, found in line.items():
            tables[table].append(found)
        run.say(f"{count:,} subscriptions")
    return tables


def per_change(
    index: ContentIndex, change: Callable[..., None], calls: Sequence[tuple[Any, ...]], event: Floats
) -> float:
    """Microseconds per call. The match that settles them is included: compiled indexes pay there."""

    def all_of_them() -> None:
        for arguments in calls:
            change(*arguments)
        index.match(event)

    return call_us(all_of_them) / len(calls)


SWEPT = {
    "values": "the distribution of values (H-Tree through the CDF)",
    "rca": "RCA = k/m",
    "width": "the width of ranges (H-Tree with 1/width cells)",
    "zipf": "the popularity of attributes (exponent of Zipf's law, 5 ranges)",
}


def sweeps(scale: Scale, run: Run) -> Tables:
    """Time against values, ranges, widths and popularity, for every contender."""
    widths = ((0.02, 50), (0.05, 20), (0.1, 10), (0.2, 5), (0.33, 3), (0.5, 2))
    points: dict[str, list[tuple[Any, Point]]] = {
        "values": [
            ("uniform", Point()),
            *((v, Point(replace(BASE, values=v), domain="cdf")) for v in ("normal", "skewed")),
        ],
        "rca": [(k / BASE.attributes, Point(replace(BASE, ranges=k))) for k in (2, 5, 10, 15, 20)],
        "width": [(w, Point(replace(BASE, width=w), cells=c)) for w, c in widths],
        "zipf": [(z, Point(replace(BASE, zipf=z, ranges=5))) for z in (0.0, 0.5, 1.0, 1.5, 2.0)],
    }
    tables: Tables = {}
    for name, settings in points.items():
        tables[MATCH.format(name)] = [
            {name: value, **times(point, scale, run.seed)} for value, point in settings
        ]
        run.say(f"matching time against {SWEPT[name]}")
    return tables


def times(point: Point, scale: Scale, seed: int) -> dict[str, float]:
    """Median microseconds of a match, for every contender."""
    ids, rows, events = drawn(point, scale.subscriptions, scale, seed)
    found: dict[str, float] = {}
    expected = None
    for name, build in point.contenders().items():
        index = build(ids, rows)
        found[name] = median_us(index, events)
        expected = agreed(index, events, name, expected)
    return found


def drawn(point: Point, count: int, scale: Scale, seed: int) -> tuple[Ids, Floats, Floats]:
    """Ids, subscriptions and events of a point."""
    return np.arange(count), point.workload.rows(count, seed), point.workload.events(scale.events, seed)


def agreed(index: ContentIndex, events: Floats, name: str, expected: Any) -> Any:
    """The answers that all so far gave; AssertionError if this one, which is exact, gives others."""
    if name == TAMA:
        return expected
    answers = [part.tolist() for part in index.match_many(events)]
    if expected is not None and answers != expected:
        raise AssertionError(f"{name} and {H_TREE} answer differently")
    return answers


def median_us(index: ContentIndex, events: Floats) -> float:
    """Median microseconds of a single match."""
    index.match(events[0])
    return float(np.median(match_us(index, events)))


def judge_matching(tables: Tables) -> Iterator[Claim]:
    """What the abstract claims, and what changes cost."""
    matched = {name: rows for name, rows in tables.items() if name.startswith("match_")}
    for rival in (SIMPLE, TAMA):
        gains = [
            (row[rival] / row[H_TREE], axis, row[axis])
            for rows in matched.values() for axis in [next(iter(rows[0]))] for row in rows
        ]  # fmt: skip
        best, factor, value = max(gains)
        yield Claim(
            f"faster-{rival.lower()}", f"Faster than {rival} by up to three orders of magnitude", printed("abstract"),
            {"at most": Figure(best, at_least(1000))}, "up to 1000 times", f"at {factor} = {value}", "times",
        )  # fmt: skip
    for name, factor in (("subscriptions", "subscriptions"), ("rca", "constraints")):
        first, *_, last = (row[SIMPLE] / row[H_TREE] for row in matched[MATCH.format(name)])
        yield Claim(
            f"gain-{factor}", f"The gain over {SIMPLE} grows with {factor}", printed("abstract"),
            {"with most over fewest": Figure(last / first, above(1)), "with most": Figure(last)},
            f"larger with many {factor} than with few", unit="times",
        )  # fmt: skip
    for change in CHANGES:
        yield Claim(
            f"time-{change}", f"Time to {change}", printed("section 5; the notes give no figure"),
            {f"{row['subscriptions']:,}": Figure(row[H_TREE]) for row in tables[change]}, "reported", unit="µs",
        )  # fmt: skip
    last = tables["memory"][-1]
    yield Claim(
        "memory", "Memory of the tree beyond that of the scan", printed("section 3.4: 4 bytes in a bucket"),
        {"": Figure(last[H_TREE] - last[SIMPLE])}, "small", "nodes, paths and quick checks", "bytes per subscription",
    )  # fmt: skip


def draw_matching(tables: Tables) -> Iterator[Picture]:
    for name, title in TITLES.items():
        if name != MATCH.format("values"):
            unit = "bytes" if name == "memory" else "µs"
            yield picture(name, title, tables[name], unit, log_x="subscriptions" in tables[name][0])


TITLES = {
    MATCH.format("subscriptions"): "Matching time against the number of subscriptions, µs",
    **CHANGES,
    "memory": MEMORY,
    **{MATCH.format(name): f"Matching time against {prose}, µs" for name, prose in SWEPT.items()},
}


def picture(name: str, title: str, rows: Table, y: str = "µs", **scales: bool) -> Picture:
    """One line per column but the first, which is x."""
    x, *lines = rows[0]
    xs = [row[x] for row in rows]
    return Picture(name, title, x, y, curves({line: (xs, [row[line] for row in rows]) for line in lines}),
                   log_y=True, **scales)  # fmt: skip


# ---- the shape of the tree ---------------------------------------------------------------------------


def levels(scale: Scale, run: Run) -> Tables:
    """Time against the number of indexed attributes; what each further one saves."""
    tables: Tables = {}
    for k in (BASE.ranges, BASE.attributes):
        point = Point(replace(BASE, ranges=k))
        ids, rows, events = drawn(point, scale.subscriptions, scale, run.seed)
        found = []
        for depth in range(1, 11):
            index = point.h_tree(ids, rows, levels=depth)
            us, shape = median_us(index, events), index.report()
            found.append({
                "levels": depth, "us": us, "candidate share": shape.measured_share, "predicted share":
                shape.predicted_share, "buckets": shape.buckets, "bytes": index.memory_bytes(),
            })
        tables[f"levels_{k}"] = found
    return tables


def judge_levels(tables: Tables) -> Iterator[Claim]:
    for k in (BASE.ranges, BASE.attributes):
        found = tables[f"levels_{k}"]
        series = [row["us"] for row in found]
        # The first level that is as good as the best but for a tenth: further ones gain nothing to average.
        useful = next(i for i, us in enumerate(series) if us <= max(1.1 * min(series), min(series)))
        cut = 1 - (series[useful] / series[0]) ** (1 / useful) if useful else 0.0
        each = ", ".join(f"{1 - after / before:.0%}" for before, after in pairwise(series))
        yield Claim(
            f"cut-{k}", f"Each further indexed attribute cuts the time, RCA {k / BASE.attributes:g}",
            printed("section 3.2"), {"on average": Figure(100 * cut, between(25, 45))},
            "by about 35 %; ten points either way are our reading of that",
            f"up to level {useful + 1} of the first seed; level by level {each}", "%",
        )  # fmt: skip
    kept = tables[f"levels_{BASE.attributes}"][0]["candidate share"]
    yield Claim(
        "turned-away", "What a level turns away", printed("section 3.4"),
        {f"{CELLS} cells": Figure(1 - kept, at_least((CELLS - 3) / CELLS))}, "at least (c - 3) / c = 0.7",
    )  # fmt: skip


def draw_levels(tables: Tables) -> Iterator[Picture]:
    for name, found in tables.items():
        xs = [row["levels"] for row in found]
        yield Picture(name, LEVELS_TITLES[name], "levels", "µs per match",
                      curves({H_TREE: (xs, [row["us"] for row in found])}), log_y=True)  # fmt: skip


LEVELS_TITLES = {
    f"levels_{k}": f"Matching time against the number of indexed attributes, RCA {k / BASE.attributes:g}"
    for k in (BASE.ranges, BASE.attributes)
}


def cells(scale: Scale, run: Run) -> Tables:
    """Time against the number of cells, at one width: more than 1/width, and ranges no longer fit."""
    point = Point()
    ids, rows, events = drawn(point, scale.subscriptions, scale, run.seed)
    found = []
    for count in (2, 3, 4, 5, 6, 8, 10, 12, 16):
        index = point.h_tree(ids, rows, cells=count)
        us, shape = median_us(index, events), index.report()
        found.append({
            "cells": count, "us": us, "candidate share": shape.measured_share,
            "too wide": shape.wide_share, "buckets": shape.buckets,
        })
    return {"cells": found}


def judge_cells(tables: Tables) -> Iterator[Claim]:
    found = tables["cells"]
    best = min(found, key=lambda row: float(row["us"]))
    most = round(1 / BASE.width)
    at_most_cells = next(row["us"] for row in found if row["cells"] == most)
    yield Claim(
        "as-many-as-fit", f"As many cells as fit, 1/width = {most}, are best", printed("sections 3.2 and 3.3"),
        {f"{most} cells over the best": Figure(at_most_cells / best["us"], at_most(1.15)),
         "the best": Figure(best["cells"])},
        f"{most} cells are best; within 15 % is our reading of that",
    )  # fmt: skip


def draw_cells(tables: Tables) -> Iterator[Picture]:
    found = tables["cells"]
    series = {H_TREE: ([row["cells"] for row in found], [row["us"] for row in found])}
    yield Picture("cells", f"Matching time against the number of cells, ranges of width {BASE.width}", "cells",
                  "µs per match", curves(series), log_y=True)  # fmt: skip


def division(scale: Scale, run: Run) -> Tables:
    """Overlapping beside disjoint cells, all attributes constrained, width 0.2."""
    point = Point(replace(BASE, ranges=BASE.attributes, width=0.2), cells=5)
    ids, rows, events = drawn(point, scale.divided, scale, run.seed)
    plain = QuickScan.build(BASE.attributes, ids, rows).memory_bytes()
    found = []
    for depth in range(1, 9):
        row: dict[str, Any] = {"levels": depth, "subscriptions": len(ids)}
        for kind in ("overlapping", "disjoint"):
            index = point.h_tree(ids, rows, levels=depth, division=kind)
            shape = index.report()
            row[f"{kind} us"] = median_us(index, events)
            row[f"{kind} buckets"] = shape.buckets
            row[f"{kind} entries"] = shape.entries / len(index)
            row[f"{kind} bytes"] = (index.memory_bytes() - plain) / len(index)
        found.append(row)
    return {"division": found}


def judge_division(tables: Tables) -> Iterator[Claim]:
    last = tables["division"][-1]
    yield Claim(
        "buckets-of-one", "A subscription is in one bucket, against up to 2^l disjoint ones", printed("section 3.3"),
        {"overlapping": Figure(last["overlapping entries"], exactly(1)),
         "disjoint": Figure(last["disjoint entries"], Bound(1, 2 ** last["levels"]))},
    )  # fmt: skip
    yield Claim(
        "buckets", "Buckets, disjoint over overlapping, w = 0.2 and l = 8", printed("section 3.3"),
        {"": Figure(last["disjoint buckets"] / last["overlapping buckets"])}, "5^8 / 4^8, about 6 times",
        "of those that are not empty", "times",
    )  # fmt: skip
    slower = [row["disjoint us"] / row["overlapping us"] for row in tables["division"]]
    yield Claim(
        "disjoint-time", "Matching with disjoint cells over that with overlapping ones", ours("not in the notes"),
        {"least": Figure(min(slower)), "most": Figure(max(slower))}, "reported",
        "a range as wide as a cell touches two of them, so as many candidates are reached", "times",
    )  # fmt: skip


def draw_division(tables: Tables) -> Iterator[Picture]:
    rows = [{"levels": row["levels"], **{k: row[f"{k} us"] for k in ("overlapping", "disjoint")}}
            for row in tables["division"]]  # fmt: skip
    yield picture("division", "Matching time with overlapping and with disjoint cells", rows)


def order_of_levels(scale: Scale, run: Run) -> Tables:
    """Indexed attributes forwards, backwards and shuffled."""
    point = Point(replace(BASE, ranges=BASE.attributes))
    ids, rows, events = drawn(point, scale.subscriptions, scale, run.seed)
    chosen = list(range(4))
    shuffled = run.generator("htree/order").permutation(chosen).tolist()
    orders = {"forwards": chosen, "backwards": chosen[::-1], "shuffled": shuffled}
    trees = {name: point.h_tree(ids, rows, levels=None, indexed=order) for name, order in orders.items()}
    us_of = medians([partial(median_us, tree, events) for tree in trees.values()])
    return {"order": [
        {"order": name, "us": us, "candidate share": tree.report().measured_share}
        for (name, tree), us in zip(trees.items(), us_of)
    ]}  # fmt: skip


def judge_order(tables: Tables) -> Iterator[Claim]:
    us = [row["us"] for row in tables["order"]]
    yield Claim(
        "order", "The order of the levels does not matter", printed("section 3.2"),
        {"slowest over fastest": Figure(max(us) / min(us), below(1.25))},
        "the same time; within a quarter is our reading of that",
    )  # fmt: skip


INDEXED, WIDE, WIDE_FROM = 4, 0.25, 10  # levels; the width of ranges on attributes from that one on


def selection(scale: Scale, run: Run) -> Tables:
    """Which attributes are indexed: by how many subscriptions constrain them, and by how narrow their ranges are."""
    found: Table = []
    popular = Point(replace(BASE, ranges=BASE.ranges // 2, zipf=1.0), levels=INDEXED)
    ids, rows, events = drawn(popular, scale.subscriptions, scale, run.seed)
    last = BASE.attributes
    for name, indexed, cells_ in (
        ("most popular", range(INDEXED), CELLS), ("least popular", range(last - INDEXED, last), CELLS),
        ("narrow", range(INDEXED), CELLS), ("wide", range(last - INDEXED, last), round(1 / WIDE)),
    ):  # fmt: skip
        if name == "narrow":
            ids, rows, events = drawn(Point(levels=INDEXED), scale.subscriptions, scale, run.seed)
            rows = widened(rows)
        tree = popular.h_tree(ids, rows, levels=None, indexed=list(indexed), cells=cells_)
        found.append({"indexed": name, "us": median_us(tree, events), "candidate share": tree.report().measured_share})
    return {"selection": found}


def widened(rows: Floats) -> Floats:
    """The same subscriptions, with wide ranges on half of the attributes."""
    found = rows.reshape(len(rows), -1, 3).copy()
    wide = found[:, :, 0] >= WIDE_FROM
    low = found[:, :, 1] / (1 - BASE.width) * (1 - WIDE)
    found[:, :, 1] = np.where(wide, low, found[:, :, 1])
    found[:, :, 2] = np.where(wide, low + WIDE, found[:, :, 2])
    return found.reshape(rows.shape)


def judge_selection(tables: Tables) -> Iterator[Claim]:
    us = {row["indexed"]: row["us"] for row in tables["selection"]}
    for better, worse, prose in (
        ("most popular", "least popular", "that most subscriptions constrain"),
        ("narrow", "wide", "with narrow ranges, of equally popular ones"),
    ):
        yield Claim(
            better.replace(" ", "-"), f"It pays to index attributes {prose}", printed("section 3.2"),
            {f"{worse} over {better}": Figure(us[worse] / us[better], above(1))}, "above 1",
            f"{INDEXED} levels; as many cells as fit", "times the time",
        )  # fmt: skip


def transformation(scale: Scale, run: Run) -> Tables:
    """Uneven values as they are and through their CDF, narrow and wide ranges, 20 cells."""
    found: Table = []
    for values in ("normal", "skewed"):
        for width in (0.003, 0.05):
            point = Point(replace(BASE, values=values, width=width), cells=20)
            ids, rows, events = drawn(point, scale.subscriptions, scale, run.seed)
            for name, domain in (("as they are", (0.0, 1.0)), ("through the CDF", "cdf")):
                index = point.h_tree(ids, rows, domain=domain)
                us, shape = median_us(index, events), index.report()
                found.append({
                    "values": values, "width": width, "taken": name, "us": us,
                    "candidate share": shape.measured_share, "too wide": shape.wide_share, "buckets": shape.buckets,
                })
    return {"transformation": found}


def judge_transformation(tables: Tables) -> Iterator[Claim]:
    found = tables["transformation"]
    gains = [plain["us"] / even["us"] for plain, even in zip(found[::2], found[1::2])]
    for name, (normal, skewed) in (("narrow", gains[::2]), ("wide", gains[1::2])):
        yield Claim(
            f"even-{name}", f"The transformation to even values pays, {name} ranges", printed("section 3.3"),
            {"normal values": Figure(normal, above(1)), "skewed values": Figure(skewed, above(1))},
            "buckets become even, at negligible cost", unit="times as fast",
        )  # fmt: skip


def candidate_share(scale: Scale, run: Run) -> Tables:
    """How many candidates are left, against (2/n)^l for even values."""
    point = Point(Workload(attributes=4, ranges=4, width=0.05))
    ids, rows, events = drawn(point, scale.subscriptions, replace(scale, events=400), run.seed)
    found = []
    for count in (5, 8, 10, 20):
        for depth in range(1, 5):
            index = point.h_tree(ids, rows, levels=depth, cells=count)
            index.match_many(events)
            share = index.counters.verified / (len(events) * len(ids))
            found.append({"cells": count, "levels": depth, "share": share, "(2/n)^l": (2 / count) ** depth})
    return {"candidate_share": found}


def judge_share(tables: Tables) -> Iterator[Claim]:
    rows = tables["candidate_share"]
    yield Claim(
        "share", "Candidates that are left are about (2/n)^l of the subscriptions", derived("section 3.4, even values"),
        {f"n = {count}": Figure(
            max(abs(row["share"] / row["(2/n)^l"] - 1) for row in rows if row["cells"] == count), at_most(0.15))
         for count in (5, 8, 10, 20)}, "within 15 %, for l = 1 to 4",
    )  # fmt: skip


def _at_scale(measure: Callable[[Scale, Run], Tables]) -> Callable[[Run], Tables]:
    return partial(_measured, measure)


def _measured(measure: Callable[[Scale, Run], Tables], run: Run) -> Tables:
    return measure(scale_of(run), run)


def _nothing(tables: Tables) -> Iterator[Picture]:
    yield from ()


EXPERIMENTS = [
    Experiment(
        "matching", "Matching, changes and memory, one factor at a time", _at_scale(matching), judge_matching,
        draw_matching, TITLES,
        f"Base: {BASE.attributes} attributes, {BASE.ranges} ranges of width {BASE.width}, an H-Tree of {LEVELS} levels "
        f"and {CELLS} cells; medians over single matches, in microseconds. Where widths vary, so do the cells of the "
        "H-Tree; the others take their defaults.",
    ),
    Experiment("levels", "Levels of the tree", _at_scale(levels), judge_levels, draw_levels, LEVELS_TITLES),
    Experiment("cells", "Cells of a level", _at_scale(cells), judge_cells, draw_cells,
               {"cells": f"Matching time against the number of cells, ranges of width {BASE.width}"}),
    Experiment("division", "Overlapping and disjoint cells", _at_scale(division), judge_division, draw_division,
               {"division": "Overlapping and disjoint cells; entries and bytes per subscription"}),
    Experiment("order", "The order of the levels", _at_scale(order_of_levels), judge_order, _nothing,
               {"order": "The same four indexed attributes in several orders"}),
    Experiment("selection", "Which attributes are indexed", _at_scale(selection), judge_selection, _nothing,
               {"selection": f"Four attributes indexed: popular or not, with ranges of width {BASE.width} or {WIDE}"}),
    Experiment("transformation", "Uneven values", _at_scale(transformation), judge_transformation, _nothing,
               {"transformation": "Uneven values as they are and through their CDF, 20 cells"},
               "Through the CDF a range in a dense place becomes wider. Where it no longer fits a cell it goes to the "
               "special one, which every event visits: with wide ranges the transformation costs more than it gains."),
    Experiment("candidates", "Candidates that are left", _at_scale(candidate_share), judge_share, _nothing,
               {"candidate_share": "Share of subscriptions that are compared, all attributes constrained"}),
]  # fmt: skip
