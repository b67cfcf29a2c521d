"""The experiments of the H-Tree paper (Qian et al., TPDS 26(6), 2015) on the indexes of this project.

One factor varies at a time, from a base of 20 attributes, ranges on 10 of them (RCA = k/m = 0.5) and widths up
to 0.1. The figures are medians over single matches in one process, the contenders on the same subscriptions and
events; all exact answers are compared. `Simple` is the early-exit scan; Tama is measured as in the source, its
candidates taken as they are. The source is known from notes without its figures, so what its machine showed is
not here: its claims in words are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from analysis.bench.matching import call_us, match_us
from analysis.bench.rows import medians
from analysis.bench.subscriptions import Floats, Workload
from analysis.papers.experiment import Experiment, Told
from brokers.indexes.content.contract import ContentIndex
from brokers.indexes.content.counting import Counting
from brokers.indexes.content.htree import HTree
from brokers.indexes.content.quick_scan import QuickScan
from brokers.indexes.content.rein import Rein
from brokers.indexes.content.tama import Tama
from brokers.indexes.contract import Ids
from brokers.indexes.registry import INDEXES
from brokers.registry import load

Table = list[dict[str, Any]]

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


def reproduce(report: Told) -> None:
    """Every experiment, then the claims."""
    experiments(report, FULL if report.full else Scale())


def experiments(report: Told, scale: Scale) -> None:
    """The same at any scale."""
    report.text(
        f"Base: {BASE.attributes} attributes, {BASE.ranges} ranges of width {BASE.width}, "
        f"{scale.subscriptions:,} subscriptions, an H-Tree of {LEVELS} levels and {CELLS} cells; "
        f"medians over {scale.events} single matches, in microseconds. Where widths vary, so do the cells of the "
        "H-Tree; the others take their defaults."
    )
    tables = {"subscriptions": growth(report, scale), **sweeps(report, scale)}
    speed(report, tables)
    levels(report, scale)
    cells(report, scale)
    division(report, scale)
    order_of_levels(report, scale)
    transformation(report, scale)
    candidate_share(report, scale)


# ---- matching time, one factor at a time -------------------------------------------------------------

def growth(report: Told, scale: Scale) -> Table:
    """Matching, single inserts and deletes, and memory against the number of subscriptions."""
    point = Point()
    tables: dict[str, Table] = {"match": [], "insert": [], "delete": [], "memory": []}
    for count in scale.growth:
        changes = count // 7  # enough for the compiled ones to compile anew
        ids, rows, events = drawn(point, count + changes, scale, report.seed)
        line: dict[str, dict[str, Any]] = {table: {"subscriptions": count} for table in tables}
        expected = None
        for name, build in point.contenders().items():
            index = build(ids[:count], rows[:count])
            line["match"][name] = median_us(index, events)
            expected = agreed(index, events, name, expected)
            line["memory"][name] = index.memory_bytes() / count
            inserts = [(ids[i : i + 1], rows[i : i + 1]) for i in range(count, count + changes)]
            line["insert"][name] = per_change(index, index.insert, inserts, events[0])
            line["delete"][name] = per_change(index, index.delete, [(id_,) for id_, _ in inserts], events[0])
        for table, found in line.items():
            tables[table].append(found)
    settled = "one by one, and a match in the end, µs per change"
    for table, title, y in (
        ("match", "Matching time against the number of subscriptions", "µs"),
        ("insert", f"A seventh more subscriptions inserted {settled}", "µs"),
        ("delete", f"The same deleted {settled}", "µs"),
        ("memory", "Bytes per subscription, ids and constraints included", "bytes"),
    ):
        name = "match_subscriptions" if table == "match" else table
        report.table(name, f"{title}, µs" if table == "match" else title, tables[table])
        plot(report, name, title, tables[table], y, log_x=True)
    few, many = scale.growth[0], scale.growth[-1]
    for table in ("insert", "delete"):
        first, *_, last = (row[H_TREE] for row in tables[table])
        report.claim(
            f"time to {table}", "section 5", "measured, not given in the notes",
            f"{first:.3g} µs with {few:,} subscriptions, {last:.3g} with {many:,}", None,
        )
    beyond = tables["memory"][-1][H_TREE] - tables["memory"][-1][SIMPLE]
    report.claim(
        "memory of the tree", "section 3.4", "small: 4 bytes per subscription in a bucket",
        f"{beyond:.3g} bytes per subscription beyond those of the scan: nodes, paths and quick checks", None,
    )
    return tables["match"]


def per_change(
    index: ContentIndex, change: Callable[..., None], calls: Sequence[tuple[Any, ...]], event: Floats
) -> float:
    """Microseconds per call. The match that settles them is included: compiled indexes pay there."""

    def all_of_them() -> None:
        for arguments in calls:
            change(*arguments)
        index.match(event)

    return call_us(all_of_them) / len(calls)


def sweeps(report: Told, scale: Scale) -> dict[str, Table]:
    """Time against values, ranges, widths and popularity, for every contender."""
    widths = ((0.02, 50), (0.05, 20), (0.1, 10), (0.2, 5), (0.33, 3), (0.5, 2))
    points: dict[str, tuple[str, list[tuple[Any, Point]]]] = {
        "values": ("the distribution of values (H-Tree through the CDF)", [
            ("uniform", Point()),
            *((v, Point(replace(BASE, values=v), domain="cdf")) for v in ("normal", "skewed")),
        ]),
        "rca": ("RCA = k/m", [
            (k / BASE.attributes, Point(replace(BASE, ranges=k))) for k in (2, 5, 10, 15, 20)
        ]),
        "width": ("the width of ranges (H-Tree with 1/width cells)", [
            (w, Point(replace(BASE, width=w), cells=c)) for w, c in widths
        ]),
        "zipf": ("the popularity of attributes (exponent of Zipf's law, 5 ranges)", [
            (z, Point(replace(BASE, zipf=z, ranges=5))) for z in (0.0, 0.5, 1.0, 1.5, 2.0)
        ]),
    }  # fmt: skip
    tables: dict[str, Table] = {}
    for name, (prose, settings) in points.items():
        tables[name] = [{name: value, **times(point, scale, report.seed)} for value, point in settings]
        title = f"Matching time against {prose}"
        report.table(f"match_{name}", f"{title}, µs", tables[name])
        if name != "values":
            plot(report, f"match_{name}", title, tables[name])
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


def plot(report: Told, name: str, title: str, rows: Table, y: str = "µs", **scales: bool) -> None:
    """One line per column but the first, which is x."""
    x, *lines = rows[0]
    xs = [row[x] for row in rows]
    series = {line: (xs, [row[line] for row in rows]) for line in lines}
    report.plot(name, title, x, y, series, log_y=True, **scales)


def speed(report: Told, tables: dict[str, Table]) -> None:
    """What the abstract claims."""
    for rival in (SIMPLE, TAMA):
        gains = [(row[rival] / row[H_TREE], name, row[name]) for name, rows in tables.items() for row in rows]
        best, factor, value = max(gains)
        shown = value if isinstance(value, str) else f"{value:g}"
        report.claim(
            f"faster than {rival}", "abstract", "up to three orders of magnitude (1000 times)",
            f"at most {best:.3g} times, at {factor} = {shown}", best >= 1000,
        )
    for name, factor in (("subscriptions", "subscriptions"), ("rca", "constraints")):
        first, *_, last = (row[SIMPLE] / row[H_TREE] for row in tables[name])
        report.claim(
            f"the gain grows with {factor}", "abstract", f"larger with many {factor} than with few",
            f"{first:.3g} times {SIMPLE} with fewest, {last:.3g} with most", last > first,
        )


# ---- the shape of the tree ---------------------------------------------------------------------------


def levels(report: Told, scale: Scale) -> None:
    """Time against the number of indexed attributes; what each further one saves."""
    for k in (BASE.ranges, BASE.attributes):
        point = Point(replace(BASE, ranges=k))
        ids, rows, events = drawn(point, scale.subscriptions, scale, report.seed)
        found = []
        for depth in range(1, 11):
            index = point.h_tree(ids, rows, levels=depth)
            us, shape = median_us(index, events), index.report()
            found.append({
                "levels": depth, "us": us, "candidate share": shape.measured_share, "predicted share":
                shape.predicted_share, "buckets": shape.buckets, "bytes": index.memory_bytes(),
            })
        title = f"Matching time against the number of indexed attributes, RCA {k / BASE.attributes:g}"
        report.table(f"levels_{k}", title, found)
        report.plot(
            f"levels_{k}", title, "levels", "µs per match",
            {"H-Tree": ([row["levels"] for row in found], [row["us"] for row in found])}, log_y=True,
        )
        series = [row["us"] for row in found]
        # The first level that is as good as the best but for a tenth: further ones gain nothing to average.
        useful = next(i for i, us in enumerate(series) if us <= 1.1 * min(series))
        cut = 1 - (series[useful] / series[0]) ** (1 / useful) if useful else 0.0
        each = ", ".join(f"{1 - after / before:.0%}" for before, after in pairwise(series))
        report.claim(
            f"each further indexed attribute cuts the time, RCA {k / BASE.attributes:g}", "section 3.2",
            "by about 35 %", f"by {cut:.0%} on average up to level {useful + 1}; level by level {each}",
            0.25 <= cut <= 0.45,
        )
        kept = found[0]["candidate share"]
        if k == BASE.attributes:
            report.claim(
                "what a level turns away", "section 3.4", f"at least (c - 3) / c = {(CELLS - 3) / CELLS:.2g}",
                f"{1 - kept:.3g} with {CELLS} cells", 1 - kept >= (CELLS - 3) / CELLS,
            )


def cells(report: Told, scale: Scale) -> None:
    """Time against the number of cells, at one width: more than 1/width, and ranges no longer fit."""
    point = Point()
    ids, rows, events = drawn(point, scale.subscriptions, scale, report.seed)
    found = []
    for count in (2, 3, 4, 5, 6, 8, 10, 12, 16):
        index = point.h_tree(ids, rows, cells=count)
        us, shape = median_us(index, events), index.report()
        found.append({
            "cells": count, "us": us, "candidate share": shape.measured_share,
            "too wide": shape.wide_share, "buckets": shape.buckets,
        })
    title = f"Matching time against the number of cells, ranges of width {BASE.width}"
    report.table("cells", title, found)
    report.plot("cells", title, "cells", "µs per match",
                {"H-Tree": ([row["cells"] for row in found], [row["us"] for row in found])}, log_y=True)
    best = min(found, key=lambda row: row["us"])
    most = round(1 / BASE.width)
    slower = next(row["us"] for row in found if row["cells"] == most) / best["us"]
    report.claim(
        "as many cells as fit: 1/width", "sections 3.2, 3.3", f"{most} cells are best",
        f"{best['cells']} are best of those tried, {most} take {slower:.2f} times as long", slower <= 1.15,
    )


def division(report: Told, scale: Scale) -> None:
    """Overlapping beside disjoint cells, all attributes constrained, width 0.2."""
    point = Point(replace(BASE, ranges=BASE.attributes, width=0.2), cells=5)
    ids, rows, events = drawn(point, scale.divided, scale, report.seed)
    plain = QuickScan.build(BASE.attributes, ids, rows).memory_bytes()
    found = []
    for depth in range(1, 9):
        row: dict[str, Any] = {"levels": depth}
        for kind in ("overlapping", "disjoint"):
            index = point.h_tree(ids, rows, levels=depth, division=kind)
            shape = index.report()
            row[f"{kind} us"] = median_us(index, events)
            row[f"{kind} buckets"] = shape.buckets
            row[f"{kind} entries"] = shape.entries / len(index)
            row[f"{kind} bytes"] = (index.memory_bytes() - plain) / len(index)
        found.append(row)
    title = f"Overlapping and disjoint cells, {len(ids):,} subscriptions; entries and bytes per subscription"
    report.table("division", title, found)
    plot(report, "division", "Matching time with overlapping and with disjoint cells",
         [{"levels": r["levels"], **{k: r[f"{k} us"] for k in ("overlapping", "disjoint")}} for r in found])
    last = found[-1]
    report.claim(
        "buckets of a subscription", "section 3.3", f"1, against up to 2^l = {2 ** last['levels']} disjoint",
        f"{last['overlapping entries']:.3g} against {last['disjoint entries']:.3g} on average, "
        f"{last['overlapping bytes']:.3g} against {last['disjoint bytes']:.3g} bytes",
        last["overlapping entries"] == 1 < last["disjoint entries"] <= 2 ** last["levels"],
    )
    share = last["disjoint buckets"] / last["overlapping buckets"]
    report.claim(
        "buckets, disjoint over overlapping, w = 0.2 and l = 8", "section 3.3",
        "5^8 / 4^8, about 6 times", f"{share:.3g} times, of those that are not empty", None,
    )
    slower = [row["disjoint us"] / row["overlapping us"] for row in found]
    report.claim(
        "matching with disjoint cells", "section 3.3", "not compared in the notes",
        f"takes {min(slower):.3g} to {max(slower):.3g} times as long: a range as wide as a cell touches two of "
        "them, so as many candidates are reached", None,
    )


def order_of_levels(report: Told, scale: Scale) -> None:
    """Indexed attributes forwards, backwards and shuffled."""
    point = Point(replace(BASE, ranges=BASE.attributes))
    ids, rows, events = drawn(point, scale.subscriptions, scale, report.seed)
    rng = np.random.Generator(np.random.PCG64(report.seed))
    chosen = list(range(4))
    orders = {"forwards": chosen, "backwards": chosen[::-1], "shuffled": rng.permutation(chosen).tolist()}
    trees = {name: point.h_tree(ids, rows, levels=None, indexed=order) for name, order in orders.items()}
    us_of = medians([partial(median_us, tree, events) for tree in trees.values()])
    found = [
        {"order": name, "us": us, "candidate share": tree.report().measured_share}
        for (name, tree), us in zip(trees.items(), us_of)
    ]
    report.table("order", "The same four indexed attributes in several orders", found)
    report.claim(
        "the order of the levels does not matter", "section 3.2", "the same time",
        f"slowest over fastest {max(us_of) / min(us_of):.2f}", max(us_of) / min(us_of) < 1.25,
    )


def transformation(report: Told, scale: Scale) -> None:
    """Uneven values as they are and through their CDF, narrow and wide ranges, 20 cells."""
    found: Table = []
    for values in ("normal", "skewed"):
        for width in (0.003, 0.05):
            point = Point(replace(BASE, values=values, width=width), cells=20)
            ids, rows, events = drawn(point, scale.subscriptions, scale, report.seed)
            for name, domain in (("as they are", (0.0, 1.0)), ("through the CDF", "cdf")):
                index = point.h_tree(ids, rows, domain=domain)
                us, shape = median_us(index, events), index.report()
                found.append({
                    "values": values, "width": width, "taken": name, "us": us,
                    "candidate share": shape.measured_share, "too wide": shape.wide_share, "buckets": shape.buckets,
                })
    report.table("transformation", "Uneven values as they are and through their CDF, 20 cells", found)
    gains = [plain["us"] / even["us"] for plain, even in zip(found[::2], found[1::2])]
    for name, (normal, skewed) in (("narrow", gains[::2]), ("wide", gains[1::2])):
        report.claim(
            f"the transformation to even values pays, {name} ranges", "section 3.3",
            "buckets become even, at negligible cost",
            f"{normal:.2f} times as fast with normal values, {skewed:.2f} with skewed ones", min(normal, skewed) > 1,
        )
    report.text(
        "Through the CDF a range in a dense place becomes wider. Where it no longer fits a cell it goes to the "
        "special one, which every event visits: with wide ranges the transformation costs more than it gains."
    )


def candidate_share(report: Told, scale: Scale) -> None:
    """How many candidates are left, against (2/n)^l for even values."""
    point = Point(Workload(attributes=4, ranges=4, width=0.05))
    ids, rows, events = drawn(point, scale.subscriptions, replace(scale, events=400), report.seed)
    found = []
    for count in (5, 8, 10, 20):
        for depth in range(1, 5):
            index = point.h_tree(ids, rows, levels=depth, cells=count)
            index.match_many(events)
            share, model = index.counters.verified / (len(events) * len(ids)), (2 / count) ** depth
            found.append({"cells": count, "levels": depth, "share": share, "(2/n)^l": model})
    report.table("candidate_share", "Share of subscriptions that are compared, all attributes constrained", found)
    worst = max(abs(row["share"] / row["(2/n)^l"] - 1) for row in found)
    report.claim(
        "share of candidates", "derived from section 3.4 for even values", "about (2/n)^l",
        f"within {worst:.0%} for n = 5 to 20 and l = 1 to 4", worst <= 0.15,
    )


EXPERIMENTS = [Experiment("indexes", "Matching, one factor at a time", told=reproduce)]
