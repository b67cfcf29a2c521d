"""Which interests hold which publications, in NumPy: what `ContentRule` says of values, for tasks of Spark.

A publication is a row of values, an interest a row of ranges. The narrowest range of every interest is tried with every
publication; the others only where it holds. NaN, a missing value, is in no range.

Numbers only, and NumPy: this module goes to the tasks by value, so that the machines of a cluster need not have
brokerlab.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.padded import padded

Array = NDArray[Any]

AT_ONCE = 256  # publications
CELLS_MAX = 2_000_000  # publications times versions that are tried at once


@dataclass(frozen=True)
class Ranges:
    """See the module. How a matcher is asked is said in `brokers.auditing`."""

    operations: frozenset[int]

    def publications(self, sizes: Array, numbers: Array) -> Array:
        return padded(sizes, numbers)

    def interests(self, sizes: Array, numbers: Array) -> Array:
        """By interest and range its attribute, low and high, the narrowest first; attribute NaN where there is none."""
        found = self.publications(sizes // 3 * 3, numbers[_whole_triples(sizes)])
        found = found.reshape(sizes.size, found.shape[1] // 3, 3)
        width = found[:, :, 2] - found[:, :, 1]
        order = np.argsort(np.where(np.isnan(found[:, :, 0]), np.inf, width), axis=1, kind="stable")
        found = np.take_along_axis(found, order[:, :, None], axis=1)
        found[:, :, 0] = np.trunc(found[:, :, 0])
        high = found[:, :, 2]
        high[np.isnan(high)] = np.inf  # nothing is above NaN where Spark compares
        return found

    def pairs(self, publications: Array, interests: Array) -> tuple[Array, Array]:
        """Every pair of which the interest holds the publication, as rows of both."""
        attributes = publications.shape[1]
        # A column that every interest without a range holds, and one for attributes that no publication has.
        grid = np.full((publications.shape[0], attributes + 2), np.nan)
        grid[:, :attributes] = publications
        grid[:, attributes] = 0.0
        asked, low, high = (interests[:, :, part] for part in range(3))
        nothing = np.isnan(asked)
        there = (asked >= 0) & (asked < attributes)
        column = np.where(nothing, attributes, np.where(there, asked, attributes + 1)).astype(np.int64)
        low, high = np.where(nothing, -np.inf, low), np.where(nothing, np.inf, high)
        if not interests.shape[1]:
            return np.divmod(np.arange(publications.shape[0] * interests.shape[0]), max(interests.shape[0], 1))
        value = grid[:, column[:, 0]]
        held = np.flatnonzero((value >= low[:, 0]) & (value <= high[:, 0]))
        row, interest = np.divmod(held, max(interests.shape[0], 1))
        for k in range(1, interests.shape[1]):
            value = grid[row, column[interest, k]]
            holds = (value >= low[interest, k]) & (value <= high[interest, k])
            row, interest = row[holds], interest[holds]
        return row, interest


class ByOffers:
    """Of a matcher: nothing is owed of what none of its publisher's `offers` holds."""

    offers: frozenset[int]
    pairs: Callable[[Array, Array], tuple[Array, Array]]

    def decisions(self, stood: Any) -> Iterator[dict[str, Array]]:
        """As a judge answers them (`brokers.auditing`)."""
        offers = np.isin(stood.versions.operation, sorted(self.offers))
        for start in range(0, stood.publications.publication.size, AT_ONCE):
            rows = np.arange(start, min(start + AT_ONCE, stood.publications.publication.size))
            offered_in_time, offered = self._offered(stood, rows, np.flatnonzero(offers))
            p, v = self._met(stood, rows, np.flatnonzero(~offers))
            in_time = stood.in_time(p, v) & offered_in_time[p - start]
            forced = in_time & offered[p - start]
            forced[forced] = stood.unspoilt(p[forced], v[forced])
            yield stood.by_client(p, v, in_time, forced)

    def _offered(self, stood: Any, rows: Array, offers: Array) -> tuple[Array, Array]:
        """Which publications their publishers had advertised in time, and of which no loss spoilt that."""
        publications, versions = stood.publications, stood.versions
        p, v = self._met(stood, rows, offers)
        own = versions.client[v] == publications.publication[p] >> 32
        p, v = p[own], v[own]
        in_time = stood.in_time(p, v)
        whole = in_time & stood.unspoilt(p, v) & (stood.heard()[v] | publications.mended[p])
        return np.isin(rows, p[in_time]), np.isin(rows, p[whole])

    def _met(self, stood: Any, rows: Array, versions: Array) -> tuple[Array, Array]:
        """Pairs whose values meet, of which the version may count."""
        step = max(1, CELLS_MAX // rows.size)
        found = [np.empty((2, 0), np.int64)]
        for start in range(0, versions.size, step):
            some = versions[start : start + step]
            p, v = self.pairs(stood.publications.values[rows], stood.versions.values[some])
            possible = stood.possible(rows[p], some[v])
            found.append(np.array([rows[p[possible]], some[v[possible]]]))
        p, v = np.concatenate(found, axis=1)
        return p, v


@dataclass(frozen=True)
class Advertised(ByOffers, Ranges):
    """The same where publishers advertise."""

    offers: frozenset[int]


def _whole_triples(sizes: Array) -> Array:
    """Which numbers belong to a whole triple of their list."""
    place = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return place < np.repeat(sizes // 3 * 3, sizes)
