"""Filters with weights, and messages with or without, for measuring top-k indexes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from analysis.bench.subscriptions import Floats, Workload
from brokers.indexes.topk.contract import RankedMessage, message
from topology import draws

WEIGHTS: dict[str, Callable[[Floats], Floats]] = {
    "uniform": lambda u: u,
    "equal": np.ones_like,
    "pareto": lambda u: 1.0 / (1.0 - u),  # shape 1
    "integers": lambda u: 1.0 + np.floor(4.0 * u),
}


def filters(workload: Workload, count: int, weights: str = "uniform", seed: int = 1) -> Floats:
    """The workload's subscriptions with weights of a distribution of `WEIGHTS`: float64[n, 4c]."""
    ranges = workload.rows(count, seed).reshape(count, -1, 3)
    drawn = draws.uniforms(draws.stream(seed, 0, "bench/weights"), 0, ranges.shape[0] * ranges.shape[1])
    weight = WEIGHTS[weights](drawn).reshape(count, -1, 1)
    return np.concatenate([ranges, weight], axis=2).reshape(count, -1)


def messages(workload: Workload, count: int, weights: str | None = None, width: float = 0.0) -> list[RankedMessage]:
    """The workload's events as points, or as intervals of a width; with the sender's weights if named."""
    low = workload.events(count)
    values = np.stack([low, low + width], axis=2) if width else low
    if weights is None:
        return [message(value) for value in values]
    drawn = draws.uniforms(draws.stream(2, 0, "bench/sent"), 0, low.size).reshape(low.shape)
    return [message(value, sent) for value, sent in zip(values, WEIGHTS[weights](drawn))]
