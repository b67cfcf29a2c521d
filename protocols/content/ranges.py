"""Conjunctions of ranges as boxes: attribute -> (low, high). An attribute that a box does not name may have any value.

A box is made of a row `[attribute, low, high] * k`, as subscriptions and advertisements are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Box = dict[int, tuple[float, float]]


def box_of(row: Any) -> Box:
    """The box of a row; ranges of one attribute are taken together."""
    box: Box = {}
    for attribute, low, high in np.reshape(row, (-1, 3)).tolist():
        if attribute == attribute:
            before = box.get(int(attribute), (low, high))
            box[int(attribute)] = max(low, before[0]), min(high, before[1])
    return box


def holds(box: Box, values: Any) -> bool:
    """Whether a publication lies in a box; a value that is missing lies in no range."""
    return all(low <= values[attribute] <= high for attribute, (low, high) in box.items())


def meet(one: Box, other: Box) -> bool:
    """Whether some publication may lie in both."""
    return all(
        low <= other[attribute][1] and other[attribute][0] <= high
        for attribute, (low, high) in one.items()
        if attribute in other
    )


def contains(outer: Box, inner: Box) -> bool:
    """Whether every publication in `inner` lies in `outer`, where there is any."""
    return all(
        attribute in inner and low <= inner[attribute][0] and inner[attribute][1] <= high
        for attribute, (low, high) in outer.items()
    )
