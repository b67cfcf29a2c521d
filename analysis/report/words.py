"""Numbers and names as a page shows them."""

from __future__ import annotations

from typing import Any

from topology.units import format_duration

NAME_MOST = 80


def plain(text: Any, most: int = NAME_MOST) -> str:
    """A text from a run folder: nothing in it turns the direction of writing or hides, and it ends."""
    kept = "".join(each if each.isprintable() else "?" for each in str(text))
    return kept if len(kept) <= most else f"{kept[: most - 1]}…"


def number(value: float | None) -> str:
    """A figure with three or four digits."""
    if value is None:
        return "–"
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:,.4g}"


def time(ns: float) -> str:
    """A time, with as many digits as people read."""
    whole = int(ns)
    if whole >= 1_000_000_000:
        return f"{whole / 1e9:,.4g} s" if whole < 10_000_000_000_000 else f"{whole / 1e9:,.0f} s"
    return f"{whole / 1e6:,.4g} ms" if whole >= 1_000_000 else format_duration(whole)


def share(part: float) -> str:
    return f"{part * 100:.3g} %"
