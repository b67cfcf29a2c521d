"""Boxes, the sets of publications that subscriptions ask for, and two made one.

A box has a closed range for each attribute that it constrains; of one that it does not, it holds every value, and a
publication that lacks it too. What two boxes make together is their smallest box that holds both. It holds no more
than the two do (the union is *perfect*) if one holds the other, or if they are equal in all attributes but one, in
which their ranges overlap or touch: ranges are closed, so ends that meet do touch.

What a box holds beyond what it stands for is *idle*. It is measured by volume, as a share of the declared domain: the
same range for every attribute, to which each box is cut.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Box = tuple[tuple[int, float, float], ...]  # (attribute, low, high), by attribute


def box_of(row: Any) -> Box | None:
    """The box of a subscription's row; None where two ranges of an attribute are disjoint, so that nothing is in it."""
    ranges: dict[int, tuple[float, float]] = {}
    for attribute, low, high in np.reshape(row, (-1, 3)).tolist():
        if attribute == attribute:
            least, most = ranges.get(int(attribute), (-np.inf, np.inf))
            ranges[int(attribute)] = max(least, low + 0.0), min(most, high + 0.0)  # -0.0 is 0.0
    if any(low > high for low, high in ranges.values()):
        return None
    return tuple((attribute, *ranges[attribute]) for attribute in sorted(ranges))


def row_of(box: Box) -> list[float]:
    """A row that asks for a box."""
    return [float(number) for constraint in box for number in constraint] or [float("nan")] * 3


def holds(outer: Box, inner: Box) -> bool:
    """Whether everything in one box is in the other."""
    at, count = 0, len(inner)
    for attribute, low, high in outer:
        while at < count and inner[at][0] < attribute:
            at += 1
        if at == count or inner[at][0] > attribute or inner[at][1] < low or inner[at][2] > high:
            return False
    return True


def around(one: Box, other: Box) -> Box:
    """The smallest box that holds both."""
    ranges = {attribute: (low, high) for attribute, low, high in other}
    return tuple(
        (attribute, min(low, ranges[attribute][0]), max(high, ranges[attribute][1]))
        for attribute, low, high in one
        if attribute in ranges
    )


def is_perfect(one: Box, other: Box) -> bool:
    """Whether the box around both holds nothing else."""
    differ = [(mine, theirs) for mine, theirs in zip(one, other) if mine != theirs] if len(one) == len(other) else []
    if len(differ) == 1:
        ((mine, theirs),) = differ
        return mine[0] == theirs[0] and mine[1] <= theirs[2] and theirs[1] <= mine[2]
    return holds(one, other) or holds(other, one)


def volume(box: Box, low: float, high: float) -> float:
    """The share of the domain, `low` to `high` in every attribute, that a box takes."""
    share = 1.0
    for _, least, most in box:
        share *= max(0.0, min(most, high) - max(least, low)) / (high - low)
    return share


def common(one: Box, other: Box, low: float, high: float) -> float:
    """The share of the domain that is in both boxes."""
    ranges = {attribute: (least, most) for attribute, least, most in one}
    for attribute, least, most in other:
        mine = ranges.get(attribute, (-np.inf, np.inf))
        ranges[attribute] = max(mine[0], least), min(mine[1], most)
    return volume(tuple((attribute, *both) for attribute, both in ranges.items()), low, high)
