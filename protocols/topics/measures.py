"""What may be measured of services of the kind `topics`: a service names it under `metrics`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from brokers.contract import Kind
from brokers.metrics import Metric, Together
from protocols.topics.kind import GROUP_AT, SUBSCRIBE, levels_of

Tables = Mapping[str, Mapping[str, Any]]


def imbalance(tables: Tables, kind: Kind) -> float | None:
    """Of the group that was served least evenly, how many times the mean its busiest member was chosen.

    The mean is over all who ever were members. None where nobody was chosen.
    """
    changes, chosen = tables["changes"], tables["chosen"]["interest"].tolist()
    members: dict[tuple[int, ...], dict[int, int]] = {}
    group_of: dict[int, tuple[int, ...]] = {}
    for row in np.flatnonzero(changes["operation"] == SUBSCRIBE).tolist():
        values, interest = changes["values"][row], int(changes["interest"][row])
        if values[GROUP_AT]:
            group = int(values[GROUP_AT]), *levels_of(SUBSCRIBE, values)
            members.setdefault(group, {})[interest] = 0
            group_of[interest] = group
    for interest in chosen:
        members[group_of[interest]][interest] += 1
    served = [np.array([*counts.values()]) for counts in members.values() if any(counts.values())]
    return max((float(counts.max() / counts.mean()) for counts in served), default=None)


def answers(tables: Tables, kind: Kind) -> int:
    """Retained publications that subscriptions were answered with."""
    return int((tables["retained"]["live"] == 0).sum())


def age_mean(tables: Tables, kind: Kind) -> float | None:
    """How long before they had been published, in the mean; None where there were none."""
    retained, sent = tables["retained"], tables["publications"]
    kept = retained["live"] == 0
    if not kept.any():
        return None
    order = np.argsort(sent["publication"])
    at = order[np.searchsorted(sent["publication"], retained["publication"][kept], sorter=order)]
    return float((retained["time_ns"][kept] - sent["time_ns"][at]).mean()) / 1e6


IMBALANCE = Metric(
    "chosen.imbalance", Together.LARGEST, measure="protocols.topics.measures:imbalance",
    reads={"chosen": ("interest",), "changes": ("operation", "interest", "values")},
)  # fmt: skip
ANSWERS = Metric(
    "retained.answers", Together.SUM, measure="protocols.topics.measures:answers", reads={"retained": ("live",)}
)
AGE_MEAN = Metric(
    "retained.age_mean_ms", Together.APART, measure="protocols.topics.measures:age_mean",
    reads={"retained": ("publication", "time_ns", "live"), "publications": ("publication", "time_ns")},
)  # fmt: skip
