"""What is measured of the kind `rooms`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokers.contract import Kind
from brokers.metrics import Metric, Together

# For services of any kind, which name it in their `metrics`.
SERVED = Metric(
    "clients.served", Together.SUM, "clients that got anything",
    measure="rooms.measures:served", reads={"deliveries": ("client",)},
)  # fmt: skip


def served(tables: Mapping[str, Mapping[str, Any]], kind: Kind) -> int:
    """Clients that got anything."""
    return len(set(tables["deliveries"]["client"].tolist()))


def walls(tables: Mapping[str, Mapping[str, Any]], kind: Kind) -> float | None:
    """Walls between who spoke and who heard it, in the mean; None if nobody heard anything."""
    through = tables["heard"]["walls"]
    return float(through.mean()) if through.size else None


def far(tables: Mapping[str, Mapping[str, Any]], kind: Kind) -> int:
    """How much was heard through two walls or more."""
    return int((tables["heard"]["walls"] >= 2).sum())
