"""Summaries as the brokers tell them: which are covered by which, and in round numbers.

A summary is `brokers.indexes.spatial.summary.Summary`, or None: nothing is known, so anything may matter.
Squared distances are rounded up to five bits, so that small changes of a k-th distance change no summary.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from brokers.contract import Floats
from brokers.indexes.spatial.summary import Summary, joined

Reach = Summary | None

_STEPS = 32.0


def rounded(summary: Summary) -> Summary:
    """The same boxes, with distances that are not below, and at most a 16th above."""
    fraction, exponent = np.frexp(summary.squared)
    finite = np.isfinite(summary.squared)
    up = np.ldexp(np.ceil(np.where(finite, fraction, 0.0) * _STEPS) / _STEPS, np.where(finite, exponent, 0))
    return Summary(summary.boxes, np.where(finite, up, np.inf))


def covers(told: Reach, other: Reach) -> bool:
    """Whether each box of the other lies in a box of `told` that reaches at least as far."""
    if told is None or other is None:
        return told is None
    axes = told.boxes.shape[1] // 2
    mine, its = told.boxes[None, :, :], other.boxes[:, None, :]
    inside = (mine[..., :axes] <= its[..., :axes]).all(axis=2) & (mine[..., axes:] >= its[..., axes:]).all(axis=2)
    return bool((inside & (told.squared[None, :] >= other.squared[:, None])).any(axis=1).all())


def same(a: Reach, b: Reach) -> bool:
    if a is None or b is None:
        return a is b
    return np.array_equal(a.boxes, b.boxes) and np.array_equal(a.squared, b.squared)


def united(parts: list[Reach], boxes_max: int) -> Reach:
    """A summary of all that the parts are summaries of."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return joined([{"": part} for part in known], boxes_max)[""]


def of_points(points: Floats, squared: Floats) -> Summary:
    return Summary(np.concatenate([points, points], axis=1), squared)


def plain(summary: Reach) -> Any:
    """As a body carries it."""
    return None if summary is None else [summary.boxes.tolist(), summary.squared.tolist()]


def from_plain(data: Any) -> Reach:
    return None if data is None else Summary(np.array(data[0]), np.array(data[1]))
