"""What readers of topology files hand on: nodes and links as a file has them, nothing judged yet."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Raw:
    """What a reader found. Keys are as the file has them, made text."""

    nodes: list[tuple[str | None, dict[str, Any]]] = field(default_factory=list)
    links: list[tuple[str | None, str | None]] = field(default_factory=list)
    lengths: list[Any] = field(default_factory=list)  # one per link where the format may say one, in km; else empty
    directed: bool = False
    implicit: bool = False  # links bring their own nodes
    dropped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def node_key(value: Any) -> str | None:
    """Ids as text, so that 1, 1.0 and "1" are the same node; None for what can be no id."""
    if isinstance(value, str):
        text = value.strip()
        return (text[:-2] if re.fullmatch(r"-?\d+\.0", text) else text) or None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        value = int(value) if value.is_integer() else value
    try:
        return str(value)
    except ValueError:  # an integer of thousands of digits
        return None


def finite(value: Any) -> float | None:
    """A number that stands for itself, or for the text that it is written as; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        number = float(value.strip().replace(",", ".") if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
