"""Figures as a report shows them: SVG, words, their figures as a table, and the command that draws them alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from analysis.report import svg
from analysis.report.figures import INTERVALS, KINDS, MAP, REPORTED, STACKED, Figure, Grid, figure
from analysis.report.gather import Gathered
from analysis.report.maps import difference_map
from analysis.report.typed import command


class Chart(NamedTuple):
    """A picture, what to know about it, its figures as a table, and a command that draws it."""

    svg: str
    said: str
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    command: str = ""


def charts(found: Gathered) -> list[Chart]:
    """All that the trace holds enough for."""
    return list(_charts(found))


def _charts(found: Gathered) -> Iterator[Chart]:
    for kind in REPORTED:
        if all(map(found.has, KINDS[kind].tables)):
            made = figure(kind, found)
            if made is not None:
                yield chart(made, command([found.run.path], kind))


def chart(made: Figure, drawn_by: str) -> Chart:
    """A figure, drawn."""
    return Chart(_drawn(made), made.said, made.heads, made.rows, drawn_by)


def _drawn(made: Figure) -> str:
    if made.sort == STACKED:
        begins = [x - made.width / 2 for x, _ in made.series[0].points] if made.series else []
        return svg.stacked(made.title, made.across, made.up, begins, made.width, made.series, made.shades)
    if made.sort == INTERVALS:
        first = 1 if made.kind == "differences" else None
        return svg.intervals(made.title, made.up.label, [*map(_interval, made.series)], first)
    if made.sort == MAP and made.drawn is not None:
        drawn = made.drawn
        return difference_map(made.title, drawn.where, drawn.network, drawn.links, drawn.brokers, drawn.first)
    if made.grid is not None:
        return _grid(f"{made.title} ({made.up.label})", made.grid)
    return svg.lines(made.title, made.across, made.up, made.series, made.shades)


def _grid(name: str, made: Grid) -> str:
    cells = {at: (cell.text, made.part(cell.mean)) for at, cell in made.cells.items()}
    return svg.grid(name, made.down, made.across, made.headings, cells)


def _interval(line: svg.Line) -> svg.Interval:
    ((_, mean),) = line.points
    return svg.Interval(line.name, mean, line.high[0][1] - mean if line.high else None)
