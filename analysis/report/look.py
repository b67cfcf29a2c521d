"""How figures for papers look: the colours and dashes of the report's page, and names that a legend shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from analysis.report.page import asset
from analysis.report.svg import Line, shorter

COLOURS = 8
LABEL_MOST = 44


def label_of(line: Line) -> str:
    told = safe(shorter(line.name, LABEL_MOST))
    return f"{told} (n = {line.runs})" if line.runs > 1 else told


def safe(name: str) -> str:
    """A name that a legend shows: one that begins with an underscore is left out there."""
    return f"\u200b{name}" if name.startswith("_") else name


def columns(points: Sequence[tuple[float, float]]) -> Any:
    return np.array(points, float).reshape(-1, 2).T


_FOUND: dict[str, str] = {}


def palette() -> dict[str, str]:
    """The colours of the page, by day."""
    if not _FOUND:
        day = asset("drawing.css").partition("@media")[0]
        _FOUND.update(re.findall(r"--(\w+): (#[0-9a-f]{6});", day))
    return _FOUND


def dashes(at: int) -> Any:
    """The dashes of the page's series, in widths of a line."""
    name = f"s{at % COLOURS}"
    told = re.search(rf"\.{name} {{ stroke: var\(--{name}\); stroke-dasharray: ([\d ]+);", asset("drawing.css"))
    return "-" if told is None else (0, tuple(float(part) / 2 for part in told[1].split()))


def legend(canvas: Any, axes: Any, lines: int) -> None:
    """Under the figure, where it hides nothing and takes the axes no room."""
    handles, labels = axes.get_legend_handles_labels()
    if lines > 1 or any("n = " in label for label in labels):
        longest = max(map(len, labels))
        columns = max(1, min(len(labels), 3, LABEL_MOST // max(longest, 1)))
        made = canvas.legend(handles, labels, loc="outside lower center", ncols=columns)
        line_inches = made.get_texts()[0].get_fontsize() / 72 * 1.6
        wide, high = canvas.get_size_inches()
        canvas.set_size_inches(wide, high + line_inches * -(-len(labels) // columns))
