"""Rows of numbers of different lengths as one array, and lists of rows: what audit rules in NumPy are made of.

Numbers only, and NumPy: this module goes to tasks of Spark by value, with the matchers that build on it
(`brokers.auditing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def padded(sizes: Array, numbers: Array) -> Array:
    """A row of numbers for each list, as long as the longest, NaN where one is shorter."""
    found = np.full((sizes.size, int(sizes.max(initial=0))), np.nan)
    found[np.arange(found.shape[1]) < sizes[:, None]] = numbers
    return found


def elements(starts: Array, rows: Array) -> tuple[Array, Array]:
    """Of lists that lie one behind the other, all elements of some: each one's place among `rows`, and where it is."""
    first, sizes = starts[rows], starts[rows + 1] - starts[rows]
    place = np.repeat(np.arange(rows.size), sizes)
    return place, np.arange(place.size) + np.repeat(first - (np.cumsum(sizes) - sizes), sizes)


def starts_of(owner: Array, count: int) -> Array:
    """Where the list of each of `count` owners starts, and where the last ends, in rows sorted by their owner."""
    return np.searchsorted(owner, np.arange(count + 1))


def changed(*columns: Array) -> Array:
    """Which rows differ from the one before, in any column; the first does."""
    found = np.ones(columns[0].size, np.bool_)
    if found.size:
        found[1:] = False
        for column in columns:
            found[1:] |= column[1:] != column[:-1]
    return found


@dataclass(frozen=True)
class Wanted:
    """What a judge reads of a table of the trace."""

    columns: tuple[str, ...]
    key: str | None = None  # the column that names the publication; none, where the judge is `together`
    only: tuple[str, tuple[int, ...]] | None = None  # a column, and what it may be
    always: bool = False  # of losses, also where they excuse nothing


class Padded:
    """A matcher that wants values of publications and of versions as they are."""

    together = False  # whether all of the service goes to one task

    @property
    def tables(self) -> Mapping[str, Wanted]:
        """What it reads beside."""
        return {}

    def publications(self, sizes: Array, numbers: Array) -> Array:
        return padded(sizes, numbers)

    def interests(self, sizes: Array, numbers: Array) -> Array:
        return padded(sizes, numbers)
