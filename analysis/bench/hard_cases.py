"""Data that indexes find hard: nearly everything matches, nothing rules anything out, or values move on.

Each case is what it is by construction; none is taken from an index's own idea of what is easy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from analysis.bench.filters import messages
from analysis.bench.subscriptions import Floats, Workload
from brokers.indexes.topk.contract import Query, RankedMessage

Rows = Callable[[np.random.Generator, int], Floats]

TOPICS, TOPICS_EXPONENT = 1000, 1.5  # the first has 39 % of all
WIDE = Workload(ranges=2, width=0.99)
NARROW = Workload(ranges=2, width=0.02)
MANY = Workload(attributes=200, ranges=200, width=0.9)


@dataclass(frozen=True)
class Hard:
    """Subscriptions, and the events that they are asked with."""

    attributes: int
    rows: Rows
    events: Rows
    count_most: int = 1_000_000  # held; more would need too much memory


def _equal(rng: np.random.Generator, count: int) -> Floats:
    return np.tile([0.0, 0.4, 0.6, 1.0, 0.4, 0.6], (count, 1))


def _nested(rng: np.random.Generator, count: int) -> Floats:
    half = 0.5 * rng.random(count)
    return np.column_stack([np.zeros(count), 0.5 - half, 0.5 + half])


def _topics(rng: np.random.Generator, count: int) -> Floats:
    odds = np.cumsum(np.arange(1, TOPICS + 1) ** -TOPICS_EXPONENT)
    topic = np.searchsorted(odds, odds[-1] * rng.random(count)).astype(np.float64)
    return np.column_stack([np.zeros(count), topic, topic])


def _halves(rng: np.random.Generator, count: int) -> Floats:
    seed = int(rng.integers(1 << 31))
    rows = NARROW.rows(count, seed)
    rows[::2] = WIDE.rows(count, seed)[::2]
    return rows


def _drawn(workload: Workload) -> Rows:
    return lambda rng, count: workload.rows(count, int(rng.integers(1 << 31)))


def _uniform(attributes: int) -> Rows:
    return lambda rng, count: rng.random((count, attributes))


def _always(value: float, attributes: int) -> Rows:
    return lambda rng, count: np.full((count, attributes), value)


MATCHING: dict[str, Hard] = {
    "all equal": Hard(2, _equal, _always(0.5, 2)),
    "two wide ranges": Hard(20, _drawn(WIDE), _uniform(20)),
    "nested": Hard(1, _nested, _uniform(1)),
    "no ranges": Hard(2, lambda rng, count: np.empty((count, 0)), _uniform(2)),
    "200 wide ranges": Hard(200, _drawn(MANY), _uniform(200), count_most=100_000),
    "head of a Zipf": Hard(1, _topics, _always(0.0, 1)),
    "half wide, half narrow": Hard(20, _halves, _uniform(20)),
}


# ---- values that move --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drift:
    """Ranges around a place that moves on by `speed` while the whole table is replaced once, or grows by it."""

    attributes: int = 4
    ranges: int = 2
    width: float = 0.05
    moving: int = 4  # the first so many attributes; the others stay
    speed: float = 1.0
    grows: bool = False  # by a factor of e**speed
    others: bool = False  # half of the attributes are constrained at first, the other half when half has been replaced

    def rows(self, rng: np.random.Generator, born: Floats) -> Floats:
        """Subscriptions that come at these times, in replacements of the table."""
        size = len(born), self.ranges
        keys = rng.random((len(born), self.attributes))
        if self.others:
            later = rng.random(len(born)) < 2.0 * born
            keys[later, : self.attributes // 2] += 1.0
            keys[~later, self.attributes // 2 :] += 1.0
        chosen = np.argsort(keys, axis=1, kind="stable")[:, : self.ranges]
        low = rng.random(size)
        place = self._placed(born[:, None, None], np.stack([low, low + self.width], axis=2), chosen[:, :, None])
        return np.concatenate([chosen[:, :, None], place], axis=2).reshape(len(born), 3 * self.ranges)

    def events(self, rng: np.random.Generator, now: float, count: int) -> Floats:
        """Events of now: spread over what is held then."""
        born = now - rng.random((count, 1))
        values = rng.random((count, self.attributes))
        return self._placed(born, values, np.arange(self.attributes))

    def _placed(self, born: Floats, values: Floats, attribute: np.ndarray) -> Floats:
        moved = values * np.exp(self.speed * born) if self.grows else values + self.speed * born
        return np.where(attribute < self.moving, moved, values)


DRIFTS = {
    "prices": Drift(),
    "prices, five times as fast": Drift(speed=5.0),
    "time stamps": Drift(moving=1, speed=20.0, ranges=1, attributes=2),
    "growing values": Drift(grows=True, speed=3.0),
    "attributes that are constrained": Drift(attributes=20, ranges=3, width=0.1, moving=0, others=True),
}


# ---- weighted filters --------------------------------------------------------------------------------


@dataclass(frozen=True)
class HardFilters:
    """Weighted filters and what is asked of them."""

    workload: Workload
    weights: Callable[[np.random.Generator, Floats], Floats]  # of constraints float64[n, c, 3], NaN where none
    query: Query
    one_receiver: bool = False

    def rows(self, rng: np.random.Generator, count: int) -> Floats:
        """Filters, float64[count, 4c]."""
        ranges = self.workload.rows(count, int(rng.integers(1 << 31))).reshape(count, -1, 3)
        weight = self.weights(rng, ranges)
        return np.concatenate([ranges, weight[:, :, None]], axis=2).reshape(count, -1)

    def asked(self, count: int) -> list[RankedMessage]:
        """Messages."""
        return messages(self.workload, count)


def _signed(rng: np.random.Generator, ranges: Floats) -> Floats:
    return 2.0 * rng.random(ranges.shape[:2]) - 1.0


def _mostly_negative(rng: np.random.Generator, ranges: Floats) -> Floats:
    weight = -rng.random(ranges.shape[:2])
    weight[:, 0] *= -0.1
    return weight


def _fewest_match(rng: np.random.Generator, ranges: Floats) -> Floats:
    """One, less a tenth for each constraint that matches: who matches in fewest scores most."""
    ranges[:, 0, 1:] = 0.0, 1.0
    weight = np.full(ranges.shape[:2], -0.1)
    weight[:, 0] = 1.0
    return weight


def _inverse(rng: np.random.Generator, ranges: Floats) -> Floats:
    """Of a random number of constraints each weighs one through its square: who has fewest scores most."""
    held = rng.integers(1, ranges.shape[1] + 1, len(ranges))
    ranges[np.arange(ranges.shape[1]) >= held[:, None]] = np.nan
    weight = np.broadcast_to(1.0 / held[:, None] ** 2, ranges.shape[:2]).copy()
    weight[np.isnan(ranges[:, :, 0])] = np.nan
    return weight


def _plain(rng: np.random.Generator, ranges: Floats) -> Floats:
    return rng.random(ranges.shape[:2])


_FEW, _MANY = Workload(ranges=5, width=0.1), Workload(ranges=10, width=0.5)
TOP_K = {
    "weights of both signs": HardFilters(_MANY, _signed, Query(10)),
    "mostly negative weights": HardFilters(_MANY, _mostly_negative, Query(100)),
    "score inverse to the constraints that match": HardFilters(_MANY, _fewest_match, Query(10)),
    "score inverse to the number of constraints": HardFilters(_MANY, _inverse, Query(10)),
    "one receiver": HardFilters(_FEW, _plain, Query(10, unit="receiver"), one_receiver=True),
    "k = None": HardFilters(_FEW, _plain, Query(None)),
    "k = None, wide": HardFilters(_MANY, _plain, Query(None)),
}
