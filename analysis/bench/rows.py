"""A measured figure beside its baseline and its target.

Rules:
- A target names what it demands: an absolute bound, a ratio to a baseline of the same run, or both. The
  figure holds only if everything its target names holds. A figure without a target is reported, not judged.
- The baseline is measured in the same run, in turns with the figure, so that a busy neighbour meets both.
- A figure is the median of several measurements, after one that compiles and warms up.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TypedDict

REPEATS = 5


class Row(TypedDict):
    """One figure."""

    name: str
    value: float
    unit: str
    baseline: float | None
    ratio: float | None  # value / baseline
    target: str | None
    holds: bool | None


def row(
    name: str,
    value: float,
    unit: str,
    *,
    least: float | None = None,
    most: float | None = None,
    baseline: float | None = None,
    ratio_least: float | None = None,
    ratio_most: float | None = None,
    against: str = "its baseline",
) -> Row:
    """A row, judged by the bounds that are given. `against` names the baseline in the target."""
    ratio = value / baseline if baseline else None
    demands: list[tuple[str, bool]] = []
    if least is not None:
        demands.append((f"at least {number(least)} {unit}".rstrip(), value >= least))
    if most is not None:
        demands.append((f"at most {number(most)} {unit}".rstrip(), value <= most))
    if ratio_least is not None:
        good = ratio is not None and ratio >= ratio_least
        demands.append((f"at least {number(ratio_least)} times {against}", good))
    if ratio_most is not None:
        good = ratio is not None and ratio <= ratio_most
        demands.append((f"at most {number(ratio_most)} times {against}", good))
    return {
        "name": name, "value": value, "unit": unit, "baseline": baseline, "ratio": ratio,
        "target": " and ".join(text for text, _ in demands) or None,
        "holds": all(good for _, good in demands) if demands else None,
    }


def medians(measurements: Sequence[Callable[[], float]], repeats: int = REPEATS) -> list[float]:
    """The median of each measurement, taken in turns after one unmeasured turn."""
    found: list[list[float]] = [[] for _ in measurements]
    for turn in range(repeats + 1):
        for values, measure in zip(found, measurements):
            value = measure()
            if turn:
                values.append(value)
    return [statistics.median(values) for values in found]


def number(value: float) -> str:
    """A figure for people: three digits, thousands by k, M, G."""
    size = abs(value)
    for from_, unit, suffix in ((1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e4, 1e3, " k"), (1e3, 1.0, "")):
        if size >= from_:
            return f"{value / unit:.3g}{suffix}" if unit > 1 else f"{value:.0f}"
    return f"{value:.3g}"


VERDICTS = {True: "holds", False: "does not hold", None: "reported"}


def table(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table, which reads well on a terminal too."""
    head = ("figure", "value", "baseline", "ratio", "target", "verdict")
    cells = [head] + [
        (
            r["name"], f"{number(r['value'])} {r['unit']}".rstrip(),
            "" if r["baseline"] is None else number(r["baseline"]),
            "" if r["ratio"] is None else f"{r['ratio']:.3g}",
            r["target"] or "", VERDICTS[r["holds"]],
        )
        for r in rows
    ]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    padded = [[text.ljust(width) for text, width in zip(line, widths)] for line in cells]
    lines = ["| " + " | ".join(line) + " |" for line in padded]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
