"""The report of a sweep: of each metric the means with their intervals, and what differs from the first."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from analysis.report.charts import Chart
from analysis.report.page import figures, listed, page, paragraph, table
from analysis.report.svg import Interval, grid, intervals
from analysis.report.words import number, plain
from scenarios.many.compare import Comparison, Row, Section, compare
from scenarios.many.metrics import sort_of
from scenarios.many.sweep import short_names, value_text

_HOW = {"paired": "paired over seeds", "welch": "by Welch"}
_VARIANTS_MOST = 40


def report_of(paths: Sequence[str | PathLike[str]], baseline: str | None = None) -> str:
    """The page of a sweep, or of several runs, as text."""
    found = compare(paths, baseline=baseline)
    name = plain(" ".join(Path(path).resolve().name for path in paths), 120)
    sections = [("points", "What was run", _points(found))]
    for at, section in enumerate(found.sections):
        sections.append((f"section-{at}", plain(section.title), _section(found, section)))
    head = f"<h1>{escape(name)}</h1>{paragraph(_about(found))}"
    return page(f"{name}: report of {len(found.labels)} variants", sections, head)


def _about(found: Comparison) -> str:
    seeds = sum(map(len, found.seeds))
    several = f", differences from {plain(found.labels[0])}" if len(found.labels) > 1 else ""
    return (
        f"{len(found.labels):,} variants, {seeds:,} runs. Dots are means over seeds, bars their "
        f"{found.confidence * 100:.4g} % intervals by Student{several}."
    )


def _points(found: Comparison) -> str:
    rows = [
        [
            plain(label, 200),
            str(len(seeds)),
            ", ".join(plain(Path(run).name, 60) for run in runs[:3]) + (", …" if runs[3:] else ""),
        ]
        for label, seeds, runs in zip(found.labels, found.seeds, found.runs)
    ]
    notes = listed([plain(each, 400) for each in found.notes]) if found.notes else ""
    return (
        table("Variants, the first of which the others are compared with", ("variant", "seeds", "runs"), rows) + notes
    )


def _section(found: Comparison, section: Section) -> str:
    same = [row for row in section.rows if row.same]
    axes = axes_of(found)
    charts = [
        chart for row in section.rows if not row.same
        for chart in (*([_grid(found, row, axes)] if axes else []), *_row(found, row))
    ]  # fmt: skip
    parts = [figures(charts, small=True)]
    if same:
        told = ", ".join(f"{plain(row.metric)} {number(row.estimates[0].mean)}" for row in same if row.estimates[0])
        parts.append(paragraph(f"The same in all: {told}.", "dim"))
    return "".join(parts)


def _row(found: Comparison, row: Row) -> list[Chart]:
    labels = [plain(label) for label in found.labels[:_VARIANTS_MOST]]
    means = [
        Interval(label, each.mean, each.half_width) for label, each in zip(labels, row.estimates) if each is not None
    ]
    left = len(found.labels) - len(labels)
    more = f" {left} more variants are in brokerlab compare." if left else ""
    charts = [
        Chart(
            intervals(plain(row.metric), _unit(row.metric), means),
            f"Means with intervals.{more}",
            *_figures(found, row),
        )
    ]
    apart = [
        (Interval(label, each.estimate.mean, each.estimate.half_width), each)
        for label, each in zip(labels, row.differences) if each is not None
    ]  # fmt: skip
    if apart:
        hows = " and ".join(sorted({_HOW.get(each.how, each.how) for _, each in apart}))
        clear = [interval.name for interval, each in apart if each.estimate.clear_of_zero]
        said = f"Clear of zero: {', '.join(clear)}." if clear else "No interval leaves out zero."
        svg = intervals(
            f"{plain(row.metric)}: difference from the first", _unit(row.metric), [one for one, _ in apart], first=1
        )
        charts.append(Chart(svg, f"Differences {hows}. {said}"))
    return charts


class Axis(NamedTuple):
    """What varies, and what each variant has of it."""

    name: str
    values: list[str]
    of: list[int]  # by variant


def axes_of(found: Comparison) -> tuple[Axis, Axis] | None:
    """The two things that vary where they are two, each with two values or more; else there is no grid."""
    paths = list(dict.fromkeys(path for variant in found.variants for path in variant))
    if len(paths) != 2 or len(found.variants) > _VARIANTS_MOST:
        return None
    axes = []
    for path, name in zip(paths, short_names(paths)):
        texts = [value_text(variant[path]) if path in variant else "–" for variant in found.variants]
        values = list(dict.fromkeys(texts))
        axes.append(Axis(plain(name), [plain(each, 40) for each in values], [values.index(each) for each in texts]))
    down, across = sorted(axes, key=lambda axis: -len(axis.values))
    return (down, across) if len(across.values) > 1 else None


def _grid(found: Comparison, row: Row, axes: tuple[Axis, Axis]) -> Chart:
    down, across = axes
    means = [each.mean for each in row.estimates if each is not None]
    low, span = min(means), (max(means) - min(means)) or 1.0
    cells = {
        (down.of[at], across.of[at]): (number(each.mean), (each.mean - low) / span)
        for at, each in enumerate(row.estimates) if each is not None
    }  # fmt: skip
    name = f"{plain(row.metric)} ({_unit(row.metric)})"
    svg = grid(name, (down.name, down.values), (across.name, across.values), cells)
    return Chart(svg, "Means over seeds; the stronger the colour, the more.")


def _unit(metric: str) -> str:
    return {"duration": metric.rpartition("_")[2], "size": "bytes", "rate": "per second"}.get(
        sort_of(metric), "count"
    )


def _figures(found: Comparison, row: Row) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    rows = []
    for label, each, change in zip(found.labels, row.estimates, row.differences):
        mean = "–" if each is None else number(each.mean)
        half = "–" if each is None or each.half_width is None else f"± {number(each.half_width)}"
        apart = "–" if change is None else f"{change.estimate.mean:+,.4g}"
        rows.append((plain(label, 120), mean, half, apart))
    return ("variant", "mean", "interval", "difference"), tuple(rows)
