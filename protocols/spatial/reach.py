"""Summaries as brokers tell them: what covers what, how they grow and shrink, how they look on a link.

A summary is a `Summary`, or None: anything may matter. None also stands for what reaches without end, and for
numbers that float32 cannot hold. All numbers are float32 values, boxes rounded outwards and squared distances
rounded up, so that what a broker keeps and what it told are the same.

A summary changes in two ways only. `grown` covers what the old one did, and more. `shrunk` is covered by the old
one, box by box, so that who still has the old one in hand holds back nothing that the new one lets through.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.columns import BadState, Column, check_columns
from brokers.contract import Floats
from brokers.indexes.spatial.geometry import squared_gaps
from brokers.indexes.spatial.summary import Summary, coarser

Reach = Summary | None

_SUMMARY = {"boxes": Column("f8", ("boxes", "two axes")), "squared": Column("f8", ("boxes",), low=0)}
_STEPS = 8.0  # distances between a power of two and the next


def check_reach(reach: Any, axes: int) -> None:
    """Refuse what is neither None nor a summary of boxes with so many axes."""
    if reach is None:
        return
    if type(reach) is not Summary:
        raise BadState(f"a {type(reach).__name__} stands where a summary is expected")
    check_columns(reach._asdict(), _SUMMARY, {"two axes": 2 * axes})


def rounded(summary: Summary, room: float = 1.0) -> Reach:
    """In round numbers: boxes that hold the same, squared distances `room` times as large, and up to an eighth more."""
    axes = summary.boxes.shape[1] // 2
    low, high = summary.boxes[:, :axes], summary.boxes[:, axes:]
    fraction, exponent = np.frexp(summary.squared * room)
    with np.errstate(over="ignore", under="ignore"):  # infinite, and so None
        squared = _outwards(np.ldexp(np.ceil(fraction * 2 * _STEPS) / (2 * _STEPS), exponent), np.inf)
        boxes = np.concatenate([_outwards(low, -np.inf), _outwards(high, np.inf)], axis=1)
    return Summary(boxes, squared) if np.isfinite(squared).all() and np.isfinite(boxes).all() else None


def covers(told: Reach, other: Reach) -> bool:
    """Whether each box of the other lies in a box of `told` that reaches at least as far."""
    if told is None or other is None:
        return told is None
    return bool(_inside(other, told).any(axis=1).all())


def lets_through(summary: Reach, points: Floats) -> NDArray[np.bool_]:
    """Of each point, whether an object there may matter."""
    if summary is None:
        return np.ones(len(points), np.bool_)
    axes = points.shape[1]
    total = np.zeros((len(summary.squared), len(points)))
    for axis in range(axes):
        low, high = summary.boxes[:, axis, None], summary.boxes[:, axes + axis, None]
        total += np.maximum(0.0, np.maximum(low - points[:, axis], points[:, axis] - high)) ** 2
    return np.asarray((total <= summary.squared[:, None]).any(axis=0))


def may_matter(summary: Reach, point: Floats) -> bool:
    """The same of one point."""
    return summary is None or bool((squared_gaps(summary.boxes, point) <= summary.squared).any())


def extent(summary: Reach) -> float:
    """How large the boxes are with all that they reach, added up."""
    # One after the other: what NumPy's `sum` adds first depends on how many there are.
    return float("inf") if summary is None else float(np.cumsum([0.0, *_extents(*summary)])[-1])


def together(parts: list[Reach]) -> Reach:
    """All parts side by side."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return Summary(np.concatenate([part.boxes for part in known]), np.concatenate([part.squared for part in known]))


def grown(told: Reach, part: Reach, boxes_max: int) -> Reach:
    """What covers both. A box that is not covered takes the place of what it covers, or joins whom it fits best."""
    if told is None or part is None:
        return None
    for at in range(len(part.squared)):
        one = Summary(part.boxes[at : at + 1], part.squared[at : at + 1])
        if covers(told, one):
            continue
        left = ~_inside(told, one)[:, 0]
        told = Summary(
            np.concatenate([told.boxes[left], one.boxes]), np.concatenate([told.squared[left], one.squared])
        )
        while len(told.squared) > boxes_max:
            told = _one_less(told)
    return told


def shrunk(told: Reach, parts: Reach, boxes_max: int) -> Reach:
    """What covers that of the parts which `told` covers, within the boxes of `told`."""
    if told is None or parts is None:
        return None if parts is None else coarser(parts, boxes_max)
    axes = told.boxes.shape[1] // 2
    inside = _inside(parts, told)
    whole = np.asarray(inside.any(axis=1))
    low = np.maximum(parts.boxes[:, None, :axes], told.boxes[None, :, :axes])
    high = np.minimum(parts.boxes[:, None, axes:], told.boxes[None, :, axes:])
    # A part that lies in no box of `told` stands for subscriptions that do, each in one: it is cut up.
    cut = (low <= high).all(axis=2) & ~whole[:, None]
    cut[whole, np.argmax(inside[whole], axis=1)] = True
    part, box = np.nonzero(cut)
    order = np.argsort(box, kind="stable")
    part, box = part[order], box[order]
    pieces = Summary(
        np.concatenate([low[part, box], high[part, box]], axis=1), np.minimum(parts.squared[part], told.squared[box])
    )
    return coarser(pieces, boxes_max, np.split(np.arange(len(box)), np.flatnonzero(np.diff(box)) + 1))


def packed(summary: Reach) -> bytes | None:
    """As a body carries it: of each box the lows, the highs and the squared distance, little-endian float32."""
    if summary is None:
        return None
    return np.concatenate([summary.boxes, summary.squared[:, None]], axis=1).astype("<f4").tobytes()


def unpacked(data: bytes | None, axes: int) -> Reach:
    if data is None:
        return None
    rows = np.frombuffer(data, "<f4").reshape(-1, 2 * axes + 1).astype(np.float64)
    return Summary(rows[:, :-1].copy(), rows[:, -1].copy())


def packed_bytes(summary: Reach) -> int:
    """About how much a keyword with its summary adds to a message."""
    return 4 if summary is None else 6 + 4 * summary.boxes.shape[1] * len(summary.squared) + 4 * len(summary.squared)


def _outwards(values: Floats, end: float) -> Floats:
    """The next float32 values in the direction of `end`, as float64."""
    near = values.astype(np.float32)
    short = near < values if end > 0 else near > values
    return np.where(short, np.nextafter(near, np.float32(end)), near).astype(np.float64)


def _inside(some: Summary, others: Summary) -> NDArray[np.bool_]:
    """[i, j]: box i of some lies in box j of the others, which reaches at least as far."""
    axes = some.boxes.shape[1] // 2
    its, theirs = some.boxes[:, None, :], others.boxes[None, :, :]
    within = (theirs[..., :axes] <= its[..., :axes]) & (theirs[..., axes:] >= its[..., axes:])
    return np.asarray(within.all(axis=2) & (others.squared[None, :] >= some.squared[:, None]))


def _extents(boxes: Floats, squared: Floats) -> Floats:
    axes = boxes.shape[-1] // 2
    reach = 2 * np.sqrt(squared)
    total = np.ones_like(squared)
    for axis in range(axes):
        total = total * (boxes[..., axes + axis] - boxes[..., axis] + reach)
    return np.asarray(total)


def _one_less(summary: Summary) -> Summary:
    """The two boxes that are joined at the least cost are one."""
    boxes, squared = summary
    axes = boxes.shape[1] // 2
    i, j = np.triu_indices(len(squared), 1)
    low = np.minimum(boxes[i, :axes], boxes[j, :axes])
    high = np.maximum(boxes[i, axes:], boxes[j, axes:])
    both, farther = np.concatenate([low, high], axis=1), np.maximum(squared[i], squared[j])
    alone = _extents(boxes, squared)
    best = int(np.argmin(_extents(both, farther) - alone[i] - alone[j]))
    left = np.ones(len(squared), np.bool_)
    left[[i[best], j[best]]] = False
    return Summary(
        np.concatenate([boxes[left], both[best : best + 1]]),
        np.concatenate([squared[left], farther[best : best + 1]]),
    )
