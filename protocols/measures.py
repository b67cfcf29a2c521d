"""What may be measured of services of any kind beside what every service has: a service names it under `metrics`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from brokers.contract import MESSAGE, Kind
from brokers.metrics import Metric, Together


def control(tables: Mapping[str, Mapping[str, Any]], kind: Kind) -> int:
    """How many messages that carried no publication came over links."""
    hops = tables["hops"]
    came = (np.asarray(hops["link"]) >= 0) & (np.asarray(hops["kind"]) == MESSAGE)
    return int(np.count_nonzero(came & ~np.isin(hops["type"], sorted(kind.publications))))


CONTROL = Metric(
    "messages.control", Together.SUM, "over links, that carried no publication",
    measure="protocols.measures:control", reads={"hops": ("type", "kind", "link")},
)  # fmt: skip
