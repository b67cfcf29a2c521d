"""Grids of a sweep by matplotlib: means by two things that vary, a panel below the other for each value of a third."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from analysis.report.figures import Cell, Figure, Grid
from analysis.report.look import palette, safe
from analysis.report.maps import LEVELS
from analysis.report.svg import shorter

_CELLS_SHARE = 0.72  # of the width, beside what stands at the left
_LETTER = 0.64  # as wide as it is high
_LINES_OF_HEADING, _LINES_OF_ROW, _LINES_OF_AXES = 2.2, 2.6, 4.5
_AXIS_MOST = 34
_DARK = LEVELS // 2  # from here on letters are light


def height_inches(made: Grid, font_points: float) -> float:
    """So that each row has room for two lines."""
    lines = len(made.headings) * (_LINES_OF_ROW * len(made.down.values) + _LINES_OF_HEADING) + _LINES_OF_AXES
    return lines * font_points / 72


def draw(canvas: Any, axes: Any, made: Figure) -> None:
    """All panels by one scale of colours."""
    told = made.grid
    assert told is not None
    size = axes.xaxis.label.get_fontsize()
    axes.remove()
    longest = max((len(line) for cell in told.cells.values() for line in _lines(cell)), default=1)
    wide = canvas.get_size_inches()[0] * 72 * _CELLS_SHARE / len(told.across.values)
    size = min(size, wide / (longest * _LETTER))
    panels = canvas.subplots(len(told.headings), 1, squeeze=False)[:, 0]
    for number, (panel, heading) in enumerate(zip(panels, told.headings)):
        _panel(panel, told, number, size)
        panel.set_title(shorter(heading, _AXIS_MOST), fontsize="small")
        panel.set_ylabel(shorter(told.down.name))
    about = f"{told.across.name}; in cells: {made.title} ({made.up.label})"
    panels[-1].set_xlabel("\n".join(wrap(about, _AXIS_MOST)))


def _panel(axes: Any, made: Grid, number: int, size: float) -> None:
    ink = palette()
    rows, columns = len(made.down.values), len(made.across.values)
    for (panel, row, column), cell in sorted(made.cells.items()):
        if panel == number:
            level = min(LEVELS - 1, int(made.part(cell.mean) * LEVELS))
            axes.fill_between([column, column + 1], row, row + 1, color=ink[f"q{level}"], linewidth=0)
            colour = ink["page" if level >= _DARK else "ink"]
            said = "\n".join(_lines(cell))
            axes.text(column + 0.5, row + 0.5, said, ha="center", va="center", fontsize=size, color=colour)
    axes.set_xlim(0, columns)
    axes.set_ylim(rows, 0)
    for ticks, thing in ((axes.set_xticks, made.across), (axes.set_yticks, made.down)):
        ticks([at + 0.5 for at in range(len(thing.values))], [safe(shorter(each, 14)) for each in thing.values])
    axes.tick_params(length=0)


def _lines(cell: Cell) -> list[str]:
    mean, _, half = cell.text.partition(" ± ")
    return [mean, f"± {half}"] if half else [mean]
