"""The overlay, and space and time, by matplotlib: see `overlays` and `spacetime` for what is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from analysis.report.figures import Drawn, Figure
from analysis.report.look import COLOURS, legend, palette, safe
from analysis.report.maps import LEVELS, levels_of
from analysis.report.overlays import Dots, Marks
from analysis.report.spacetime import Events
from analysis.report.summary import name_of
from analysis.report.svg import shorter
from analysis.report.words import share

NAMED_ROWS_MOST = 24
_NAMED_BROKERS_MOST = 40
_BROKERS_OF_FULL_SIZE = 64  # of more each is smaller
_BESIDE = 0.008  # of the picture: messages under way lie at the right of their link, as they go
_SHAPES = "soD^vPX*"  # of services
_FAILED = {"down": "a broker is down", "slow": "a broker is slow", "cut": "a link is cut", "worn": "a link is worn"}


# ---- the overlay -----------------------------------------------------------------------------------------


def overlay(canvas: Any, axes: Any, made: Figure) -> None:
    """Links by width and colour, brokers by size and colour; above that what failed and what was under way."""
    drawn = made.drawn
    assert drawn is not None
    at = drawn.where.at * [1, -1]
    ends = np.stack([drawn.network.source, drawn.network.target], 1)
    size = min(1.0, _BROKERS_OF_FULL_SIZE / max(1, len(at)))
    _links(axes, drawn, at[ends[::2]])
    _brokers(axes, drawn, at, size)
    if drawn.marks is not None:
        _scale(axes, drawn)
        _marks(axes, drawn.marks, at, at[ends], size)
        legend(canvas, axes, 2)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _links(axes: Any, drawn: Drawn, lines: Any) -> None:
    from matplotlib.collections import LineCollection

    one, other = np.asarray(drawn.links)[::2], np.asarray(drawn.links)[1::2]
    busy = one + other if drawn.differences else np.maximum(one, other)
    level = levels_of(np.abs(busy), drawn.most and drawn.most[0])
    there = np.argsort(level, kind="stable")
    if drawn.there is not None:
        there = there[drawn.there[::2][there]]
    elif drawn.network.has_latent:
        there = there[level[there] > 0]
    styles = ["--" if drawn.differences and value < 0 else "-" for value in busy[there].tolist()]
    axes.add_collection(
        LineCollection(
            list(lines[there]), colors=_colours(drawn, busy[there], level[there]), linestyles=styles,
            linewidths=(0.5 + 0.35 * level[there]).tolist(),
        )
    )  # fmt: skip


def _brokers(axes: Any, drawn: Drawn, at: Any, size: float) -> None:
    ink, values = palette(), np.asarray(drawn.brokers)
    level = levels_of(np.abs(values), drawn.most and drawn.most[1])
    edges = {"linewidths": 0.3 * size, "edgecolors": ink["page"]}
    axes.scatter(at[:, 0], at[:, 1], s=(6 + 4 * level) * size, c=_colours(drawn, values, level), zorder=2, **edges)
    if drawn.first >= 0:
        ring = {"s": 90, "facecolors": "none", "edgecolors": ink["bad"], "zorder": 3}
        axes.scatter(*at[drawn.first][:, None], **ring)
    if drawn.marks is not None and len(at) <= _NAMED_BROKERS_MOST:
        for broker, (x, y) in enumerate(at.tolist()):
            name = shorter(name_of(drawn.network, broker), 14)
            axes.annotate(name, (x, y), (3, 3), textcoords="offset points", fontsize="x-small", color=ink["dim"])


def _colours(drawn: Drawn, values: Any, level: Any) -> list[str]:
    ink = palette()
    if drawn.differences:
        return [ink["s1" if value > 0 else "s0" if value < 0 else "line"] for value in values.tolist()]
    return [ink[f"q{each}"] for each in level.tolist()]


def _marks(axes: Any, marks: Marks, at: Any, lines: Any, size: float) -> None:
    ink = palette()
    ring = 14 + 26 * size
    way = [lines[link] for link in marks.way_links]
    if way or marks.way_brokers:
        _strokes(axes, way, "its way", color=ink["light"], linewidth=2.4, zorder=1.5)
        _points(axes, at[marks.way_brokers], None, s=ring, facecolors="none", edgecolors=ink["light"], linewidths=1.2)
    for what, style in (("cut", "--"), ("worn", ":")):
        there = [lines[link] for link in marks.failed[what]]
        _strokes(axes, there, _FAILED[what], color=ink["bad"], linestyle=style, linewidth=1.6)
    down, slow = (at[marks.failed[what]] for what in ("down", "slow"))
    _points(axes, down, _FAILED["down"], s=ring, marker="x", color=ink["bad"], linewidths=1.4)
    _points(axes, slow, _FAILED["slow"], s=ring, facecolors="none", edgecolors=ink["bad"], linestyle=":")
    places = np.array([lines[link][0] * 0.35 + lines[link][1] * 0.65 for link in marks.lost]).reshape(-1, 2)
    _points(axes, places, "a message was lost", s=9, marker="x", color=ink["bad"], linewidths=0.9, zorder=4)
    _under_way(axes, marks.dots, marks.services, lines)


def _strokes(axes: Any, lines: Sequence[Any], label: str, **look: Any) -> None:
    for number, line in enumerate(lines):
        axes.plot(line[:, 0], line[:, 1], label=None if number else label, solid_capstyle="round", **look)


def _points(axes: Any, places: Any, label: str | None, **look: Any) -> None:
    if len(places):
        axes.scatter(places[:, 0], places[:, 1], label=label, **{"zorder": 3, **look})


def _under_way(axes: Any, dots: Dots, services: Sequence[str], lines: Any) -> None:
    """Squares on their links, filled if they carry a publication."""
    ink = palette()
    if not dots.link.size:
        return
    begin, end = lines[dots.link][:, 0], lines[dots.link][:, 1]
    along = end - begin
    long = np.maximum(np.hypot(along[:, 0], along[:, 1]), 1e-9)[:, None]
    places = begin + along * dots.part[:, None] + _BESIDE * np.stack([along[:, 1], -along[:, 0]], 1) / long
    for service, name in enumerate(services):
        for carries in (True, False):
            there = (dots.service == service) & (dots.carries == carries)
            colour = ink[f"s{service % COLOURS}"]
            label = safe(f"{shorter(name)}, {'a publication' if carries else 'other'}")
            look = {"marker": _SHAPES[service % len(_SHAPES)], "s": 5, "linewidths": 0.5, "edgecolors": colour}
            _points(axes, places[there], label, facecolors=colour if carries else "none", zorder=4, **look)


def _scale(axes: Any, drawn: Drawn) -> None:
    """What the strongest colours stand for."""
    ink, (links, brokers) = palette(), drawn.most or (0.0, 0.0)
    strongest = ink[f"q{LEVELS - 1}"]
    if links:
        axes.plot([], [], color=strongest, linewidth=0.5 + 0.35 * (LEVELS - 1), label=f"{links:,.0f} on a link")
    if brokers:
        much = f"{share(brokers)} of the time" if drawn.of_time else f"{brokers:,.0f}"
        axes.scatter([], [], s=6 + 4 * (LEVELS - 1), color=strongest, label=f"{much} at a broker")


# ---- space and time --------------------------------------------------------------------------------------


def space_time(canvas: Any, axes: Any, made: Figure) -> None:
    """A row for each broker, a line for each message, a bar for as long as a broker took; crosses are losses."""
    drawn = made.events
    assert drawn is not None
    row_of = {broker: row for row, broker in enumerate(drawn.rows)}
    known = [at for at in range(0, drawn.broker.size, drawn.step) if int(drawn.broker[at]) in row_of]
    _messages(axes, drawn, row_of, known)
    _crosses(axes, drawn, row_of)
    step = max(1, -(-len(drawn.rows) // NAMED_ROWS_MOST))
    named = range(0, len(drawn.rows), step)
    axes.set_yticks(named, [safe(shorter(drawn.names[row], 14)) for row in named])
    axes.set_ylim(len(drawn.rows) - 0.5, -0.5)
    axes.set_xlim(*((us - drawn.origin_us) / 1e3 for us in (drawn.begin_us, drawn.end_us)))
    axes.set_xlabel(made.across.label)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    legend(canvas, axes, 2)


def _messages(axes: Any, drawn: Events, row_of: dict[int, int], known: Sequence[int]) -> None:
    from matplotlib.collections import LineCollection

    ink = palette()
    wide = 1.1 if drawn.way else 0.6
    for service, name in enumerate(drawn.services):
        mine = [at for at in known if drawn.service[at] == service]
        colour, shape = ink[f"s{service % COLOURS}"], _SHAPES[service % len(_SHAPES)]
        for carries, style in ((True, "-"), (False, (0, (4, 2.5)))):
            some = [at for at in mine if drawn.carries[at] == carries]
            lines = [
                [(_ms(drawn, max(drawn.begin_us, drawn.sent_us[at])), row_of[int(drawn.source[at])]),
                 (_ms(drawn, drawn.came_us[at]), row_of[int(drawn.broker[at])])]
                for at in some if int(drawn.source[at]) in row_of
            ]  # fmt: skip
            label = safe(f"{shorter(name)}, {'publications' if carries else 'other'}")
            if some:
                axes.plot([], [], color=colour, linestyle=style, linewidth=wide, marker=shape, ms=2.2, label=label)
                axes.add_collection(LineCollection(lines, colors=colour, linestyles=[style], linewidths=wide))
        rows = [row_of[int(drawn.broker[at])] for at in mine]
        came, done = ([_ms(drawn, column[at]) for at in mine] for column in (drawn.came_us, drawn.done_us))
        axes.hlines(rows, came, done, colors=colour, linewidth=2.2)
        axes.scatter(came, rows, s=5 if drawn.way else 3, color=colour, marker=shape, zorder=3)


def _crosses(axes: Any, drawn: Events, row_of: dict[int, int]) -> None:
    """A loss, on its way to where it did not come."""
    ink, label = palette(), iter(["lost"])
    for source, target, when in drawn.lost:
        if source in row_of:
            row = row_of[source]
            end = row + (row_of.get(target, len(drawn.rows) - 1) - row) * 0.4
            at = _ms(drawn, when)
            axes.plot([at, at], [row, end], color=ink["bad"], linewidth=0.9)
            axes.scatter([at], [end], s=10, marker="x", color=ink["bad"], linewidths=1.0, zorder=4,
                         label=next(label, None))  # fmt: skip


def _ms(drawn: Events, us: float) -> float:
    return (float(us) - drawn.origin_us) / 1e3
