"""Charts as SVG, with classes for colours (`page/drawing.css`): lines, bars over time, intervals, maps.

Every text is escaped here and nowhere else. A chart has a title and a description, for whoever does not see it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from analysis.report.words import number, plain

WIDTH, HEIGHT = 560, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 14, 34, 40
_CLASSES = 8
_POINTS_MOST = 400  # of a line
_LEGEND_LINE = 16
_LETTER = 6.6  # how wide one is, at most

Points = Sequence[tuple[float, float]]
Text = Callable[[float], str]


class Line(NamedTuple):
    """A series of a chart; of several runs their mean, with a band around it."""

    name: str
    points: Points
    low: Points = ()
    high: Points = ()
    runs: int = 1


class Axis(NamedTuple):
    """What an axis shows."""

    label: str
    text: Text = number
    log: bool = False
    least: float | None = None
    most: float | None = None


class Shade(NamedTuple):
    """A stretch in which something was broken."""

    begin: float
    end: float
    text: str


class Interval(NamedTuple):
    """A mean with half the width of its interval; None where there is none."""

    name: str
    mean: float
    half_width: float | None


def tag(name: str, content: str = "", **attributes: object) -> str:
    """An element; `class_` and `data_x` as `class` and `data-x`."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"' for key, value in attributes.items()
    )
    return f"<{name}{told}>{content}</{name}>" if content else f"<{name}{told}/>"


def text(x: float, y: float, said: str, anchor: str = "start", class_: str = "") -> str:
    more = {"class_": class_} if class_ else {}
    return tag("text", escape(said), x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, **more)


def document(name: str, told: str, parts: Sequence[str], width: float = WIDTH, height: float = HEIGHT) -> str:
    """The SVG element of a chart."""
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    inside = "".join(parts)
    label = escape(f"{name}. {told}" if told else name)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" aria-label="{label}" {size}>{inside}</svg>'
    )


class Plane:
    """The area that two axes span, at a place of a picture."""

    def __init__(self, across: Axis, up: Axis, xs: Sequence[float], ys: Sequence[float], legend: int = 0) -> None:
        self.across, self.up = across, up
        self.left, self.right = float(_LEFT), WIDTH - _RIGHT
        self.top, self.bottom = float(_TOP), HEIGHT - _BOTTOM - legend * _LEGEND_LINE
        self.x_low, self.x_high = _range(across, xs)
        self.y_low, self.y_high = _range(up, ys)

    def x(self, value: float) -> float:
        return self.left + _part(self.across, value, self.x_low, self.x_high) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - _part(self.up, value, self.y_low, self.y_high) * (self.bottom - self.top)

    def frame(self) -> list[str]:
        """Axes, ticks and labels."""
        parts = []
        for value in ticks(self.up, self.y_low, self.y_high):
            y = self.y(value)
            parts.append(tag("path", class_="grid", d=f"M{self.left:.1f} {y:.1f}H{self.right:.1f}"))
            parts.append(text(self.left - 6, y + 4, self.up.text(value), "end", "dim"))
        for value in ticks(self.across, self.x_low, self.x_high):
            x = self.x(value)
            parts.append(tag("path", class_="axis", d=f"M{x:.1f} {self.bottom:.1f}v4"))
            said = self.across.text(value)
            middle = min(x, WIDTH - _LETTER * len(said) / 2)  # the last would stick out
            parts.append(text(middle, self.bottom + 17, said, "middle", "dim"))
        parts.append(tag("path", class_="axis", d=f"M{self.left} {self.top}V{self.bottom:.1f}H{self.right}"))
        parts.append(text(self.right, self.bottom + 32, self.across.label, "end", "dim"))
        parts.append(text(8, self.top - 8, self.up.label, "start", "dim"))
        return parts

    def shades(self, shades: Sequence[Shade]) -> list[str]:
        found = []
        for each in shades:
            begin, end = max(self.left, self.x(each.begin)), min(self.right, self.x(each.end))
            if end > self.left and begin < self.right:
                size = {"x": f"{begin:.1f}", "width": f"{max(1.0, end - begin):.1f}"}
                height = f"{self.bottom - self.top:.1f}"
                told = f"<title>{escape(each.text)}</title>"
                found.append(tag("rect", told, class_="shade", y=self.top, height=height, **size))
        return found


def lines(name: str, across: Axis, up: Axis, series: Sequence[Line], shades: Sequence[Shade] = ()) -> str:
    """Lines over one axis, each with a colour and dashes of its own; bars from low to high where these are known."""
    series = [each for each in series if each.points]
    xs = [x for each in series for x, _ in each.points]
    ys = [y for each in series for _, y in (*each.points, *each.low, *each.high)]
    plane = Plane(across, up, xs, ys, _legend_lines(series))
    parts = [text(8, 14, name, class_="title"), *plane.shades(shades), *plane.frame()]
    for at, each in enumerate(series):
        kept = _thinned([(x, y) for x, y in each.points if (x > 0 or not across.log) and (y > 0 or not up.log)])
        path = "".join(f"{'L' if i else 'M'}{plane.x(x):.1f} {plane.y(y):.1f}" for i, (x, y) in enumerate(kept))
        if path:
            label = f"<title>{escape(each.name)}</title>"
            parts.append(tag("path", label, class_=f"series s{at % _CLASSES}", d=path))
        ends = [(x, low, high) for (x, low), (_, high) in zip(each.low, each.high) if low > 0 or not up.log]
        bars = "".join(f"M{plane.x(x):.1f} {plane.y(low):.1f}V{plane.y(high):.1f}" for x, low, high in ends)
        if bars:
            parts.append(tag("path", class_=f"bars s{at % _CLASSES}", d=bars))
    return document(name, "", [*parts, *_legend([each.name for each in series], plane)])


def stacked(
    name: str, across: Axis, up: Axis, begins: Sequence[float], width: float, series: Sequence[Line],
    shades: Sequence[Shade] = (),
) -> str:  # fmt: skip
    """Bars over time, one series on top of the other; the points of each are (place, height)."""
    series = [each for each in series if any(y for _, y in each.points)]
    sums = [sum(each.points[at][1] for each in series) for at in range(len(begins))]
    plane = Plane(across, up, [*begins, *(begin + width for begin in begins)], [0.0, *sums], _legend_lines(series))
    parts = [text(8, 14, name, class_="title"), *plane.frame()]
    below = [0.0] * len(begins)
    for at, each in enumerate(series):
        bars = []
        for place, (begin, (_, high)) in enumerate(zip(begins, each.points)):
            if high:
                x, y = plane.x(begin), plane.y(below[place] + high)
                bars.append(f"M{x:.1f} {y:.1f}H{plane.x(begin + width):.1f}V{plane.y(below[place]):.1f}H{x:.1f}z")
                below[place] += high
        parts.append(tag("path", f"<title>{escape(each.name)}</title>", class_=f"f{at % _CLASSES}", d="".join(bars)))
    parts += plane.shades(shades)
    return document(name, "", [*parts, *_legend([each.name for each in series], plane, filled=True)])


def intervals(name: str, label: str, rows: Sequence[Interval], first: int | None = None) -> str:
    """Means with their intervals, one below the other. With `first`, the number of the first colour, differences."""
    zero = first is not None
    ends = [row.mean + sign * (row.half_width or 0.0) for row in rows for sign in (-1, 1)]
    width, step, top = 380.0, 22.0, 34.0
    left = min(170.0, 12.0 + 6.4 * max((len(shorter(row.name)) for row in rows), default=0))
    low, high = (
        min([*ends, *([0.0] if zero else [])], default=0.0),
        max([*ends, *([0.0] if zero else [])], default=1.0),
    )
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    low, high = low - room, high + room
    bottom = top + step * len(rows)

    def x(value: float) -> float:
        return left + (value - low) / (high - low) * (width - left - 16)

    parts = [text(8, 14, name, class_="title")]
    for value in ticks(Axis(label), low, high, 3):
        parts.append(tag("path", class_="grid", d=f"M{x(value):.1f} {top - 6}V{bottom:.1f}"))
        parts.append(text(x(value), bottom + 14, number(value), "middle", "dim"))
    if zero:
        parts.append(tag("path", class_="axis", d=f"M{x(0.0):.1f} {top - 6}V{bottom:.1f}"))
    for at, row in enumerate(rows):
        y = top + step * at + 8
        parts.append(text(8, y + 4, shorter(row.name)))
        half = row.half_width
        said = f"{row.name}: {number(row.mean)}" + ("" if half is None else f" ± {number(half)}")
        bar = ""
        if half is not None:
            begin, end = x(row.mean - half), x(row.mean + half)
            bar = tag("path", class_="way", d=f"M{begin:.1f} {y - 4}v8M{begin:.1f} {y}H{end:.1f}M{end:.1f} {y - 4}v8")
        dot = tag("circle", class_=f"f{(at + (first or 0)) % _CLASSES}", cx=f"{x(row.mean):.1f}", cy=y, r=4)
        parts.append(tag("g", f"<title>{escape(said)}</title>{bar}{dot}"))
    parts.append(text(width - 10, bottom + 28, label, "end", "dim"))
    return document(name, "", parts, width, bottom + 34)


def grid(
    name: str, down: tuple[str, Sequence[str]], across: tuple[str, Sequence[str]], headings: Sequence[str],
    cells: Mapping[tuple[int, int, int], tuple[str, float]],
) -> str:  # fmt: skip
    """Values of two axes, each with its values, in panels under their headings; one without needs none.

    A cell has a text, and a colour by how large it is, from 0 to 1.
    """
    left, step, row_height, top = 24.0 + 6.4 * max(len(shorter(each)) for each in down[1]), 118.0, 24.0, 54.0
    high = row_height * (len(down[1]) + (2 if any(headings) else 0))  # of a panel
    width, height = max(left + step * len(across[1]) + 8, 300.0), top + high * len(headings) + 12
    axes = f"{shorter(down[0])} down, {shorter(across[0])} across"
    parts = [text(8, 14, name, class_="title"), text(8, 32, axes, class_="dim")]
    tops = [top + high * panel + (row_height * 2 if heading else 0) for panel, heading in enumerate(headings)]
    for heading, begin in zip(headings, tops):
        if heading:
            parts.append(text(8, begin - row_height - 6, heading))
        parts += [text(left + step * at, begin - 4, shorter(each, 16)) for at, each in enumerate(across[1])]
        parts += [text(8, begin + row_height * at + 16, shorter(each)) for at, each in enumerate(down[1])]
    for (panel, row, column), (said, part) in sorted(cells.items()):
        x, y = left + step * column, tops[panel] + row_height * row
        level = min(_CLASSES - 1, max(0, int(part * _CLASSES)))
        swatch = tag("rect", class_=f"q{level}", x=f"{x:.1f}", y=f"{y + 4:.1f}", width=14, height=14)
        where = ", ".join(filter(None, (down[1][row], across[1][column], headings[panel])))
        title = f"<title>{escape(f'{where}: {said}')}</title>"
        parts.append(tag("g", title + swatch + text(x + 20, y + 16, said)))
    return document(name, "", parts, width, height)


def shorter(name: str, most: int = 24) -> str:
    return plain(name, most)


def ticks(axis: Axis, low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers between two; on a logarithmic axis powers of ten, and where these are few what lies between."""
    if axis.log:
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        if last - first >= 2:
            return [10.0**power for power in range(first, last + 1, max(1, (last - first) // 6))]
        every = [factor * 10.0**power for power in range(first - 1, last + 1) for factor in (1, 2, 5)]
        return [value for value in every if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
    apart = _round_step((high - low) / wanted)
    first, last = math.ceil(low / apart - 1e-9), math.floor(high / apart + 1e-9)
    return [at * apart for at in range(first, min(last, first + 20) + 1)]


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step)) if step > 0 else 1.0
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)


def _range(axis: Axis, values: Sequence[float]) -> tuple[float, float]:
    there = [value for value in values if value > 0] if axis.log else list(values)
    low = axis.least if axis.least is not None else min(there, default=0.1 if axis.log else 0.0)
    high = axis.most if axis.most is not None else max(there, default=1.0)
    if axis.log:
        return low, max(high, low * 10)
    low = min(low, 0.0) if axis.least is None else low
    return low, high if high > low else low + 1.0


def _part(axis: Axis, value: float, low: float, high: float) -> float:
    if axis.log:
        return (math.log10(max(value, low)) - math.log10(low)) / (math.log10(high) - math.log10(low))
    return (value - low) / (high - low)


def _thinned(points: Points) -> Points:
    step = max(1, math.ceil(len(points) / _POINTS_MOST))
    return [*points[::step], *points[-1:]] if step > 1 else points


_LEGEND_MOST = 12


def _legend_lines(series: Sequence[Line]) -> int:
    rows = _legend_rows([each.name for each in series[:_LEGEND_MOST]])
    return len(rows) if len(series) > 1 else 0


def _legend_rows(names: Sequence[str]) -> list[list[tuple[int, float]]]:
    """(series, x) by line of the legend."""
    rows: list[list[tuple[int, float]]] = [[]]
    x = float(_LEFT)
    for at, name in enumerate(names):
        wide = 34 + _LETTER * len(shorter(name))
        if x + wide > WIDTH - 10 and rows[-1]:
            rows.append([])
            x = float(_LEFT)
        rows[-1].append((at, x))
        x += wide
    return rows


def _legend(names: Sequence[str], plane: Plane, filled: bool = False) -> list[str]:
    if len(names) < 2:
        return []
    parts = []
    for line, row in enumerate(_legend_rows(names[:_LEGEND_MOST])):
        y = plane.bottom + _BOTTOM + 8 + line * _LEGEND_LINE
        for at, x in row:
            mark = f"M{x:.1f} {y - 4:.1f}h20"
            if filled:
                parts.append(tag("path", class_=f"f{at % _CLASSES}", d=f"M{x:.1f} {y - 9:.1f}h12v10h-12z"))
            else:
                parts.append(tag("path", class_=f"series s{at % _CLASSES}", d=mark))
            parts.append(text(x + 24, y, shorter(names[at])))
    return parts
