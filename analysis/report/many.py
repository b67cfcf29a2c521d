"""The report of a sweep: of each metric the means with their intervals, and what differs from the first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from analysis.report.charts import Chart, chart
from analysis.report.figures import GRID, INTERVALS, Cell, Figure, Grid, Thing
from analysis.report.page import figures, listed, page, paragraph, table
from analysis.report.svg import Axis, Line
from analysis.report.typed import command, named, whence
from analysis.report.words import number, plain
from scenarios.many.compare import Comparison, Row, Section, compare
from scenarios.many.metrics import sort_of
from scenarios.many.student import Estimate
from scenarios.many.sweep import short_names, value_text

_HOW = {"paired": "paired over seeds", "welch": "by Welch"}
_VARIANTS_MOST = 40
_GRID_LEAST, _GRID_MOST = 2, 3  # things that vary
_PANELS_MOST, _CELLS_MOST = 12, 400


def report_of(paths: Sequence[str | PathLike[str]], baseline: str | None = None) -> str:
    """The page of a sweep, or of several runs, as text."""
    found = compare(paths, baseline=baseline)
    name = plain(" ".join(Path(path).resolve().name for path in paths), 120)
    sections = [("points", "What was run", _points(found, paths))]
    for at, section in enumerate(found.sections):
        sections.append((f"section-{at}", plain(section.title), _section(found, section, paths)))
    head = f"<h1>{escape(name)}</h1>{paragraph(_about(found))}{paragraph(whence(paths), 'dim')}"
    return page(f"{name}: report of {len(found.labels)} variants", sections, head)


def _about(found: Comparison) -> str:
    seeds = sum(map(len, found.seeds))
    several = f", differences from {plain(found.labels[0])}" if len(found.labels) > 1 else ""
    return (
        f"{len(found.labels):,} variants, {seeds:,} runs. Dots are means over seeds, bars their "
        f"{found.confidence * 100:.4g} % intervals by Student{several}."
    )


def _points(found: Comparison, paths: Sequence[str | PathLike[str]]) -> str:
    rows = [
        [
            plain(label, 200),
            str(len(seeds)),
            ", ".join(plain(Path(run).name, 60) for run in runs[:3]) + (", …" if runs[3:] else ""),
        ]
        for label, seeds, runs in zip(found.labels, found.seeds, found.runs)
    ]
    told = [plain(_by_name(each, paths), 400) for each in found.notes]
    axes = _varied(found)
    if len(axes) >= _GRID_LEAST and (why := _no_grid(axes)) is not None:
        told.append(f"There is no grid: {why}.")
    notes = listed(told) if told else ""
    return (
        table("Variants, the first of which the others are compared with", ("variant", "seeds", "runs"), rows) + notes
    )


def _by_name(note: str, paths: Sequence[str | PathLike[str]]) -> str:
    """A note in which runs are called as in commands, not by where they lie."""
    for path, name in zip(paths, named(paths)):
        for lies in (str(Path(path).resolve()), str(path)):
            note = note.replace(lies, name) if Path(lies).is_absolute() else note
    return note


def _section(found: Comparison, section: Section, paths: Sequence[str | PathLike[str]]) -> str:
    same = [row for row in section.rows if row.same]
    charts = [each for row in section.rows if not row.same for each in _row(found, section, row, paths)]
    parts = [figures(charts, small=True)]
    if same:
        told = ", ".join(f"{plain(row.metric)} {number(row.estimates[0].mean)}" for row in same if row.estimates[0])
        parts.append(paragraph(f"The same in all: {told}.", "dim"))
    return "".join(parts)


def _row(found: Comparison, section: Section, row: Row, paths: Sequence[str | PathLike[str]]) -> list[Chart]:
    first = found.labels[0] if len(found.labels) > 1 else None
    over = grid(found, row)
    made = [None if isinstance(over, str) else over, means(found, row), differences(found, row)]
    return [
        chart(each, command(paths, each.kind, metric=full_name(section, row), baseline=first))
        for each in made if each is not None
    ]  # fmt: skip


def full_name(section: Section, row: Row) -> str:
    """A metric as `brokerlab plot --metric` takes it."""
    return f"{section.services[0] if section.kind else 'network'}.{row.metric}"


def means(found: Comparison, row: Row) -> Figure:
    """A metric of each variant, with its interval."""
    left = len(found.labels) - _VARIANTS_MOST
    more = f" {left} more variants are in brokerlab compare." if left > 0 else ""
    series = [
        _interval(at, label, each, len(seeds))
        for at, (label, each, seeds) in enumerate(zip(_labels(found), row.estimates, found.seeds)) if each is not None
    ]  # fmt: skip
    heads, rows = _figures(found, row)
    return Figure(
        "means", plain(row.metric), Axis("variant"), Axis(_unit(row.metric)), tuple(series),
        f"Means with {found.confidence * 100:.4g} % intervals by Student.{more}", heads, rows, INTERVALS,
    )  # fmt: skip


def differences(found: Comparison, row: Row) -> Figure | None:
    """A metric of each variant less that of the first."""
    apart = [
        (_interval(at, label, each.estimate, each.estimate.size), each)
        for at, (label, each) in enumerate(zip(_labels(found), row.differences)) if each is not None
    ]  # fmt: skip
    if not apart:
        return None
    hows = " and ".join(sorted({_HOW.get(each.how, each.how) for _, each in apart}))
    clear = [line.name for line, each in apart if each.estimate.clear_of_zero]
    said = f"Clear of zero: {', '.join(clear)}." if clear else "No interval leaves out zero."
    return Figure(
        "differences", f"{plain(row.metric)}: difference from the first", Axis("variant"), Axis(_unit(row.metric)),
        tuple(line for line, _ in apart), f"Differences {hows}. {said}", sort=INTERVALS,
    )  # fmt: skip


def _labels(found: Comparison) -> list[str]:
    return [plain(label) for label in found.labels[:_VARIANTS_MOST]]


def _interval(at: int, label: str, each: Estimate, runs: int) -> Line:
    """A mean as a line of one point."""
    half = each.half_width
    low, high = ([] if half is None else [(float(at), each.mean + sign * half)] for sign in (-1, 1))
    return Line(label, [(float(at), each.mean)], low, high, runs)


def grid(found: Comparison, row: Row) -> Figure | str:
    """A metric over two things that vary, in panels over a third; a sentence where it cannot be that."""
    axes = _varied(found)
    if (why := _no_grid(axes)) is not None:
        return why
    down, across, *rest = axes
    panel = rest[0].of if rest else [0] * len(found.labels)
    means = {
        place: Cell(each.mean, each.half_width, each.size)
        for place, each in zip(zip(panel, down.of, across.of), row.estimates) if each is not None
    }
    series = [
        _interval(at, plain(label), each, each.size)
        for at, (label, each) in enumerate(zip(found.labels, row.estimates)) if each is not None
    ]  # fmt: skip
    said = (
        f"Means over {_range(cell.runs for cell in means.values())} runs each, with {found.confidence * 100:.4g} % "
        "intervals by Student; the stronger the colour, the more."
    )
    return Figure(
        "grid", plain(row.metric), Axis("variant"), Axis(_unit(row.metric)), tuple(series), said, sort=GRID,
        grid=Grid(down.thing, across.thing, rest[0].thing if rest else None, means),
    )  # fmt: skip


def _range(counts: Iterable[int]) -> str:
    least, *_, most = sorted([*counts] * 2)
    return f"{least}" if least == most else f"{least} to {most}"


class Varied(NamedTuple):
    """What varies, and what each variant has of it."""

    thing: Thing
    of: list[int]  # by variant


def _varied(found: Comparison) -> list[Varied]:
    """What varies, that with most values first."""
    paths = list(dict.fromkeys(path for variant in found.variants for path in variant))
    axes = []
    for path, name in zip(paths, short_names(paths)):
        texts = [value_text(variant[path]) if path in variant else "–" for variant in found.variants]
        values = list(dict.fromkeys(texts))
        thing = Thing(plain(name), [plain(each, 40) for each in values])
        axes.append(Varied(thing, [values.index(each) for each in texts]))
    return sorted((axis for axis in axes if len(axis.thing.values) > 1), key=lambda axis: -len(axis.thing.values))


def _no_grid(axes: Sequence[Varied]) -> str | None:
    """Why there is no grid of these, if there is none."""
    names = ", ".join(axis.thing.name for axis in axes)
    else_ = "the means of each variant tell the same (brokerlab plot --kind means)"
    if len(axes) < _GRID_LEAST:
        varies = f"{names} alone varies" if axes else "nothing varies"
        return f"{varies}, and a grid is of two things or three; {else_}"
    if len(axes) > _GRID_MOST:
        return f"{len(axes)} things vary ({names}), and a grid shows no more than {_GRID_MOST}; {else_}"
    panels = len(axes[-1].thing.values) if len(axes) == _GRID_MOST else 1
    if panels > _PANELS_MOST or len(axes[0].of) > _CELLS_MOST:
        return f"a grid of {names} has more than {_PANELS_MOST} panels or {_CELLS_MOST} variants; {else_}"
    return None


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
