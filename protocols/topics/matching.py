"""Which filters have which names, in NumPy: what `TopicsRule` says of values, for tasks of Spark.

The first level of every filter is tried with every name, the others only where it agrees. NaN stands behind the last
level of both.

Numbers only, and NumPy: this module goes to the tasks by value, so that the machines of a cluster need not have
brokerlab; what a wildcard is as a number stands here once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.padded import Padded

Array = NDArray[Any]

_PLUS, _HASH, _DOLLAR = -1, -2, 1 << 30
_NAME_AT, _FILTER_AT = 1, 2


@dataclass(frozen=True)
class Filters(Padded):
    """See the module. How a matcher is asked is said in `brokers.auditing`."""

    operations: frozenset[int]
    mqtt: bool  # whether the wildcard for the rest stands for nothing too, and the `$` rule holds

    def pairs(self, publications: Array, interests: Array) -> tuple[Array, Array]:
        """Every pair of which the filter has the name, as rows of both."""
        width = max(publications.shape[1] - _NAME_AT, interests.shape[1] - _FILTER_AT)
        if width < 1 or not publications.size or not interests.size:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        names, filters = _levels(publications, _NAME_AT, width), _levels(interests, _FILTER_AT, width)
        name, asked = names[:, :1], filters[None, :, 0]
        begins = self._agrees(name, asked, np.zeros((1, 1), np.bool_))
        if self.mqtt:
            begins &= ~((asked < 0) & (name >= _DOLLAR))
        row, interest = np.nonzero(begins)
        passed = filters[interest, 0] == _HASH  # whether the wildcard for the rest is behind us
        for level in range(1, width):
            name, asked = names[row, level], filters[interest, level]
            agrees = self._agrees(name, asked, passed)
            passed |= asked == _HASH
            row, interest, passed = row[agrees], interest[agrees], passed[agrees]
        return row, interest

    def _agrees(self, name: Array, asked: Array, passed: Array) -> Array:
        """Whether a level of names is as filters ask; NaN where there is none."""
        there = ~np.isnan(name)
        rest = (asked == _HASH) & (there | self.mqtt)
        both_end = np.isnan(asked) & ~there
        found: Array = passed | rest | both_end | (name == asked) | ((asked == _PLUS) & there)
        return found


def _levels(rows: Array, at: int, width: int) -> Array:
    """The levels of rows, all as many."""
    found = np.full((len(rows), width), np.nan)
    found[:, : max(rows.shape[1] - at, 0)] = rows[:, at:]
    return found
