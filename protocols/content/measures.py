"""What may be measured of services of the kind `content`: a service names it under `metrics`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokers.contract import Kind
from brokers.metrics import Metric, Together


def outside(tables: Mapping[str, Mapping[str, Any]], kind: Kind) -> int | None:
    """How many publications were dropped where they entered; None where publishers do not advertise."""
    return len(tables["outside"]["publication"]) if kind.advertised else None


OUTSIDE = Metric(
    "publications.outside", Together.SUM, measure="protocols.content.measures:outside",
    reads={"outside": ("publication",)},
)  # fmt: skip
