"""A message diagram as SVG: brokers side by side, time downwards, each thing that happened in a row of its own.

Rows are evenly spaced, whatever time lies between; the times stand at the left. An arrow begins where it was sent.
"""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from analysis.ways.pair import when
from analysis.ways.plain import shown
from analysis.ways.rows import ARROW, CLIENT, DELIVERY, FAILS, HEARS, LOSS, TIMED, Line, Picture

LINES_MOST, COLUMNS_MOST = 150, 24
ROW, TOP, CHAR, FONT = 30, 64, 6.7, 11  # px; the widest letters of so large a font
_LABEL_MOST, _COLUMN_LEAST, _MARGIN = 40, 90, 16
_STYLE = """
:root{color-scheme:light dark}
.page{fill:#fff}.text{fill:#222;font:11px ui-monospace,Menlo,Consolas,monospace}.dim{fill:#666}
.head{font-weight:bold}.life{stroke:#999;stroke-dasharray:2 3}.arrow{stroke:#1a5fb4;fill:none;stroke-width:1.4}
.gap{stroke:#999;stroke-width:5;stroke-dasharray:2 8}
.tip{fill:#1a5fb4}.client{fill:#26a269}.delivery{fill:#26a269}.lost{stroke:#c01c28;fill:none;stroke-width:1.4}
.timer{fill:#9141ac}.fault{fill:#c01c28}.shade{fill:#c01c28;fill-opacity:.25}
.halo{paint-order:stroke;stroke:#fff;stroke-width:3px}
@media(prefers-color-scheme:dark){.page{fill:#1b1b1f}.text{fill:#eee}.dim{fill:#aaa}.life{stroke:#777}
.arrow{stroke:#78aeed}.tip{fill:#78aeed}.client,.delivery{fill:#57e389}.lost{stroke:#ff7b72}.timer{fill:#dc8add}
.fault,.shade{fill:#ff7b72}.halo{stroke:#1b1b1f}}
""".strip().replace("\n", "")


class Label(NamedTuple):
    """A text in the picture: where it begins or ends, and on which line."""

    x: float
    y: float
    anchor: str
    text: str
    css: str

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom."""
        width = len(self.text) * CHAR
        left = {"start": self.x, "end": self.x - width, "middle": self.x - width / 2}[self.anchor]
        return left, self.y - FONT + 2, left + width, self.y + 2


class Layout:
    """Where everything is."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture = picture.within(LINES_MOST, COLUMNS_MOST)
        texts = [fit(line.text) for line in picture.lines] + [fit(name) for name in picture.names.values()]
        self.column = max([_COLUMN_LEAST, *(len(text) * CHAR + 28 for text in texts)])
        times = [when(line.at_ns) for line in picture.lines]
        self.left = _MARGIN + max([len(each) for each in times], default=4) * CHAR + 20
        self.x = {broker: self.left + 20 + self.column * at for at, broker in enumerate(picture.columns)}
        self.y = [TOP + ROW * (at + 1) for at in range(len(picture.lines))]
        self.width = max(self.left + 20 + self.column * max(1, len(picture.columns)), 360)
        self.bottom = TOP + ROW * (len(picture.lines) + 1)
        self.notes = [*picture.notes]
        self.height = self.bottom + 16 * len(self.notes) + 12

    def at(self, time_ns: int, broker: int = -1) -> float:
        """How far down an instant is: at what happened then at that broker, else between what was before and after."""
        lines = self.picture.lines
        for number in range(len(lines) - 1, -1, -1):
            if lines[number].at_ns == time_ns and lines[number].broker == broker and lines[number].sort != LOSS:
                return self.y[number]
        before = sum(line.at_ns <= time_ns for line in lines)
        return TOP + ROW * before + ROW / 2

    def start(self, number: int) -> tuple[float, float]:
        """Where an arrow begins; above its end in any case."""
        line = self.picture.lines[number]
        y = self.at(line.sent_ns, line.source)
        return self.x[line.source], min(y, self.y[number] - ROW / 4)

    def end(self, number: int) -> tuple[float, float]:
        """Where an arrow ends: at its broker, or before it."""
        line = self.picture.lines[number]
        x = self.x[line.broker]
        if line.sort == LOSS:
            x += self.column * (-0.25 if x > self.x[line.source] else 0.25)
        return x, self.y[number]

    def labels(self) -> list[Label]:
        """Every text of the picture but the title."""
        picture = self.picture
        found = [Label(_MARGIN, at + 4, "start", when(line.at_ns), "text dim") for at, line in self._timed()]
        for broker, x in self.x.items():
            found.append(Label(x, TOP - 22, "middle", fit(picture.names[broker]), "text head"))
            if clients := picture.clients.get(broker):
                word = "client" if len(clients) == 1 else "clients"
                found.append(Label(x, TOP - 8, "middle", fit(f"{word} {', '.join(map(str, clients))}"), "text dim"))
        for number, line in enumerate(picture.lines):
            found.append(self._label(number, line))
        found += [
            Label(_MARGIN, self.bottom + 16 * at + 8, "start", note, "text dim") for at, note in enumerate(self.notes)
        ]
        return found

    def _timed(self) -> list[tuple[float, Line]]:
        """The first line of each instant."""
        lines = self.picture.lines
        return [(self.y[at], line) for at, line in enumerate(lines) if at == 0 or lines[at - 1].at_ns != line.at_ns]

    def _label(self, number: int, line: Line) -> Label:
        y, text = self.y[number], fit(line.text)
        if line.sort not in (ARROW, LOSS):
            return Label(self.x[line.broker] + 10, y - 4, "start", text, "text halo")
        (x, _), (start, _) = self.end(number), self.start(number)
        if x > start:
            return Label(x - 9, y + 13, "end", text, "text halo")
        return Label(x + 9, y + 13, "start", text, "text halo")


def drawn(picture: Picture) -> str:
    """The diagram as an SVG document."""
    layout = Layout(picture)
    picture = layout.picture
    width, height = round(layout.width), round(layout.height)
    name = escape(shown(f"Message diagram: {picture.title}", 200))
    told = f"{len(picture.columns)} brokers, {len(picture.lines)} events in the order of time."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img" aria-labelledby="title desc">',
        f'<title id="title">{name}</title>',
        f'<desc id="desc">{escape(" ".join([told, *(_sentence(line, picture) for line in picture.lines)]))}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}"/>',
        f'<text class="text head" x="{_MARGIN}" y="20">{escape(shown(picture.title, 80))}</text>',
    ]
    for x in layout.x.values():
        parts.append(f'<line class="life" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{layout.bottom}"/>')
    parts += _shades(layout)
    if picture.gap >= 0:
        y = layout.y[picture.gap] - ROW / 2
        parts.append(f'<line class="gap" x1="{_MARGIN}" y1="{y:.1f}" x2="{width - _MARGIN}" y2="{y:.1f}"/>')
    for number, line in enumerate(picture.lines):
        parts.append(f"<g><title>{escape(_sentence(line, picture))}</title>{_mark(layout, number, line)}</g>")
    for label in layout.labels():
        place = f'x="{label.x:.1f}" y="{label.y:.1f}" text-anchor="{label.anchor}"'
        parts.append(f'<text class="{label.css}" {place}>{escape(label.text)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _mark(layout: Layout, number: int, line: Line) -> str:
    x, y = layout.x[line.broker], layout.y[number]
    if line.sort == ARROW:
        (x1, y1), (x2, y2) = layout.start(number), layout.end(number)
        back = -8 if x2 > x1 else 8
        tip = f"M{x2:.1f} {y2:.1f}l{back} -4v8z"
        return f'<path class="arrow" d="M{x1:.1f} {y1:.1f}L{x2 + back / 2:.1f} {y2:.1f}"/><path class="tip" d="{tip}"/>'
    if line.sort == LOSS:
        (x1, y1), (x2, y2) = layout.start(number), layout.end(number)
        cross = f"M{x2 - 5:.1f} {y2 - 5:.1f}l10 10m0 -10l-10 10"
        return f'<path class="lost" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}{cross}"/>'
    if line.sort == DELIVERY:
        return f'<path class="delivery" d="M{x - 5:.1f} {y - 4:.1f}h10l-5 9z"/>'
    if line.sort == CLIENT:
        return f'<circle class="client" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'
    css = {TIMED: "timer", FAILS: "fault", HEARS: "fault"}[line.sort]
    return f'<rect class="{css}" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'


def _shades(layout: Layout) -> list[str]:
    found = []
    for shade in layout.picture.shades:
        top = max(TOP, layout.at(shade.begin_ns, shade.broker))
        bottom = layout.bottom if shade.end_ns < 0 else layout.at(shade.end_ns, shade.broker)
        x, width = layout.x[shade.broker] - 7, 14
        if shade.to >= 0:  # of a link: beside the lifeline, on the side where the other end is
            towards = layout.x.get(shade.to, x)
            x, width = (x + 14, 5) if towards > x else (x - 5, 5)
        height = max(2.0, bottom - top)
        found.append(
            f'<rect class="shade" x="{x:.1f}" y="{top:.1f}" width="{width}" height="{height:.1f}">'
            f"<title>{escape(shown(shade.text, 200))}</title></rect>"
        )
    return found


def _sentence(line: Line, picture: Picture) -> str:
    where = shown(picture.names[line.broker])
    if line.sort in (ARROW, LOSS):
        where = f"{shown(picture.names[line.source])} to {where}"
    return f"{when(line.at_ns)}, {where}: {shown(line.text, 200)}."


def fit(text: str) -> str:
    """A label as it is drawn."""
    return shown(text, _LABEL_MOST)
