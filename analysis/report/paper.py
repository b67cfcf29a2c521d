"""Figures as files for papers and screens: vector PDF and SVG, or PNG, by matplotlib.

A PDF has its fonts in it, which publishers ask for; a writer of our own would have to embed them. The SVG of the report
(`svg.py`) stays for the page, where the browser has fonts and the page's styles change with its light.

The same figure gives the same bytes: nothing in a file tells when it was made, and whatever the user has set for
matplotlib is passed over. Colours and dashes are those of the report's page.
"""

from __future__ import annotations

from io import BytesIO
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np

from analysis.report import cells, scenes
from analysis.report.figures import GRID, HEAT, INTERVALS, MAP, SPACE_TIME, STACKED, Figure
from analysis.report.look import COLOURS, columns, dashes, label_of, legend, palette, safe
from analysis.report.maps import LEVELS
from analysis.report.svg import Axis, shorter
from brokers.errors import EnvironmentProblem

FORMATS = ("pdf", "svg", "png")
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": "brokerlab"},
    "svg": {"Date": None, "Creator": "brokerlab"},
    "png": {"Software": "brokerlab"},
}
_NAMED_ROWS_MOST = 24
_MARKED_MOST = 12  # points of a line that are marked
_AXIS_MOST = 34


class Style(NamedTuple):
    """How a figure looks."""

    width_inches: float
    height_inches: float
    font_points: float
    line_points: float
    titled: bool  # a paper has its captions elsewhere


STYLES = {
    "paper": Style(3.33, 2.2, 8.0, 1.1, False),  # a column of two
    "screen": Style(8.0, 4.6, 11.0, 1.8, True),
}


def drawn(made: Figure, style: Style, form: str) -> bytes:
    """A figure as the bytes of a file."""
    try:
        import matplotlib
    except ImportError:
        raise EnvironmentProblem(
            "figures are drawn by matplotlib, which is not installed: pip install 'brokerlab[plots]'; "
            "the data of a figure is to be had without it: -o FILE.csv"
        ) from None
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        settings: Any = _settings(style)
        matplotlib.rcParams.update(settings)
        return _drawn(made, style, form)


def _settings(style: Style) -> dict[str, Any]:
    small = {f"{part}size": style.font_points - 1 for part in ("legend.font", "xtick.label", "ytick.label")}
    return {
        "font.family": "DejaVu Sans",  # which comes with matplotlib
        "font.size": style.font_points, "axes.titlesize": style.font_points, "axes.labelsize": style.font_points,
        **small, "lines.linewidth": style.line_points, "axes.linewidth": 0.6, "axes.spines.top": False,
        "axes.spines.right": False, "grid.linewidth": 0.4, "grid.color": palette()["line"], "legend.frameon": False,
        "legend.handlelength": 2.6, "pdf.fonttype": 42, "svg.hashsalt": "brokerlab",
        "text.parse_math": False,  # a name is text, whatever stands in it
    }  # fmt: skip


def _drawn(made: Figure, style: Style, form: str) -> bytes:
    from matplotlib.figure import Figure as Canvas

    height = style.height_inches
    if made.sort == INTERVALS:
        height = style.font_points / 72 * (5 + 2.2 * len(made.series))
    if made.grid is not None:
        height = cells.height_inches(made.grid, style.font_points)
    if made.events is not None:
        height = max(height, style.font_points / 72 * (6 + 1.3 * min(len(made.events.rows), scenes.NAMED_ROWS_MOST)))
    canvas = Canvas(figsize=(style.width_inches, height), layout="constrained")
    axes = canvas.add_subplot()
    _DRAWERS.get(made.sort, _lines)(canvas, axes, made)
    if style.titled and made.grid is None:  # which says in its axes what it is of
        axes.set_title(made.title, loc="left")
    file = BytesIO()
    canvas.savefig(file, format=form, dpi=200, metadata=_METADATA[form])
    return file.getvalue()


# ---- sorts -----------------------------------------------------------------------------------------------


def _lines(canvas: Any, axes: Any, made: Figure) -> None:
    ink = palette()
    for at, line in enumerate(made.series):
        xs, ys = columns(line.points)
        look = {"color": ink[f"s{at % COLOURS}"], "linestyle": dashes(at)}
        marked = len(xs) <= _MARKED_MOST
        how = {"drawstyle": "steps-post"} if made.outside is not None else {"marker": "o", "ms": 2.5} if marked else {}
        if made.up.log:
            ys = np.where(ys > 0, ys, np.nan)
        axes.plot(xs, ys, label=label_of(line), **look, **how)
        if line.high:
            low, high = columns(line.low)[1], columns(line.high)[1]
            least = ys[np.isfinite(ys)].min(initial=1.0) / 10 if made.up.log else -np.inf
            step = {"step": "post"} if made.outside is not None else {}
            axes.fill_between(
                xs, np.maximum(low, least), high, color=look["color"], alpha=0.2, linewidth=0, **step
            )
    if made.band:
        axes.fill_between([], [], color=ink["dim"], alpha=0.2, linewidth=0, label=made.band)
    _frame(axes, made)
    legend(canvas, axes, len(made.series))


def _stacked(canvas: Any, axes: Any, made: Figure) -> None:
    ink, series = palette(), [each for each in made.series if any(y for _, y in each.points)]
    if series:
        below = np.zeros(len(series[0].points))
        for at, line in enumerate(series):
            xs, ys = columns(line.points)
            colour = ink[f"s{at % COLOURS}"]
            hatch = "////" if at >= COLOURS else None  # colours begin again
            look = {"color": colour, "linewidth": 0, "hatch": hatch, "hatchcolor": ink["page"]}
            axes.bar(xs, ys, made.width, below, label=label_of(line), **look)
            below += ys
    _frame(axes, made)
    legend(canvas, axes, len(series))


def _heat(canvas: Any, axes: Any, made: Figure) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    ink = palette()
    colours = LinearSegmentedColormap.from_list("report", [ink[f"q{level}"] for level in range(LEVELS)])
    values = np.array([[y for _, y in line.points] for line in made.series])
    rows = len(made.series)
    width = made.series[0].points[-1][0] + made.width / 2
    image = axes.imshow(
        values, aspect="auto", interpolation="nearest", cmap=colours, extent=(0, width, rows, 0), vmin=0
    )
    _frame(axes, made)
    axes.set_ylabel("directed links, the busiest on top")
    axes.set_ylim(rows, 0)
    axes.grid(False)
    if rows <= _NAMED_ROWS_MOST:
        names = [safe(shorter(line.name)) for line in made.series]
        axes.set_yticks([at + 0.5 for at in range(rows)], names)
        axes.set_ylabel("")
    canvas.colorbar(image, ax=axes, label=made.up.label)


def _intervals(canvas: Any, axes: Any, made: Figure) -> None:
    ink = palette()
    for at, line in enumerate(made.series):
        ((_, mean),) = line.points
        half = line.high[0][1] - mean if line.high else None
        axes.errorbar([mean], [at], xerr=half, fmt="o", color=ink[f"s{at % COLOURS}"], markersize=4, capsize=2.5)
    axes.set_yticks(range(len(made.series)), [label_of(line) for line in made.series])
    axes.set_ylim(len(made.series) - 0.5, -0.5)
    axes.set_xlabel("\n".join(wrap(f"{made.title} ({made.up.label})", _AXIS_MOST)))
    axes.grid(axis="x")
    if made.kind == "differences":
        axes.axvline(0, color=ink["dim"], linewidth=0.8)


_DRAWERS = {
    STACKED: _stacked, HEAT: _heat, INTERVALS: _intervals, GRID: cells.draw, MAP: scenes.overlay,
    SPACE_TIME: scenes.space_time,
}  # fmt: skip


# ---- what they share -------------------------------------------------------------------------------------


def _frame(axes: Any, made: Figure) -> None:
    axes.set_xlabel(made.across.label)
    axes.set_ylabel(made.up.label)
    drawn = axes.dataLim
    _scaled(axes.set_xscale, axes.set_xlim, axes.get_xlim, axes.xaxis, made.across, drawn.xmin)
    _scaled(axes.set_yscale, axes.set_ylim, axes.get_ylim, axes.yaxis, made.up, drawn.ymin)
    axes.grid(True)
    axes.set_axisbelow(True)
    for each in made.shades:
        axes.axvspan(each.begin, each.end, color=palette()["bad"], alpha=0.13, linewidth=0)


def _scaled(scale: Any, limits: Any, now: Any, ticks: Any, axis: Axis, least: float) -> None:
    """An axis begins at 0, or below the least that is drawn."""
    if axis.log:
        scale("log")
        ticks.set_minor_formatter(lambda value, _: "")
    else:
        below = now()[0] if least < 0 else 0.0
        low = below if axis.least is None else axis.least
        high = now()[1] if axis.most is None else axis.most
        limits(low, high if high > low else low + 1.0)
    ticks.set_major_formatter(lambda value, _: axis.text(value))
