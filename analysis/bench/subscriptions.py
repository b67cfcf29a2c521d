"""Subscriptions and events to measure content indexes with: the workloads P1 to P8, and their relatives.

All is drawn from one generator per seed and purpose, in chunks, so that a million subscriptions take a second
or two, and the first thousand of a million are the first thousand of a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput

Floats = NDArray[np.float64]

_CHUNK = 1 << 15  # rows drawn at a time


@dataclass(frozen=True)
class Workload:
    """What subscriptions and events look like. Values lie in 0..1."""

    attributes: int = 20  # of an event
    ranges: int = 5  # of a subscription, on distinct attributes
    width: float = 0.1  # of a range
    widths_vary: bool = False  # uniform up to `width` rather than exactly it
    zipf: float = 0.0  # attribute i is drawn with weight 1 / (i + 1)**zipf
    values: str = "uniform"  # of events and of low ends, a key of VALUES

    def __post_init__(self) -> None:
        if not 0 <= self.ranges <= self.attributes:
            raise InvalidInput(f"{self.ranges} ranges on {self.attributes} attributes; pass at most one each")
        if not 0 <= self.width <= 1:
            raise InvalidInput(f"width {self.width} of ranges in 0..1")
        if self.values not in VALUES:
            raise InvalidInput(f"no values {self.values!r}; known: {', '.join(VALUES)}")

    def rows(self, count: int, seed: int = 1) -> Floats:
        """Subscriptions as the content contract takes them, float64[count, 3 * ranges]."""
        rng = _generator(seed, 0)
        rows = np.empty((count, self.ranges, 3))
        for start in range(0, count, _CHUNK):
            # A whole chunk is drawn even where less is wanted, so that a shorter table is a prefix.
            part = rows[start : start + _CHUNK]
            size = (_CHUNK, self.ranges)
            chosen, low = self._chosen(rng), VALUES[self.values](rng, size)
            widths = self.width * rng.random(size) if self.widths_vary else np.full(size, self.width)
            low *= 1 - widths
            for column, drawn in enumerate((chosen, low, low + widths)):
                part[:, :, column] = drawn[: len(part)]
        return rows.reshape(count, 3 * self.ranges)

    def events(self, count: int, seed: int = 1) -> Floats:
        """Events, float64[count, attributes]."""
        return VALUES[self.values](_generator(seed, 1), (count, self.attributes))

    def _chosen(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Distinct attributes for each row of a chunk, in random order."""
        # The smallest of exponential draws with these rates are a weighted draw without replacement.
        keys = rng.standard_exponential((_CHUNK, self.attributes), np.float32)
        if self.zipf:
            keys *= (np.arange(1, self.attributes + 1) ** self.zipf).astype(np.float32)
        return np.argsort(keys, axis=1, kind="stable")[:, : self.ranges]


def _uniform(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    return rng.random(size)


def _normal(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    return np.clip(0.5 + 0.15 * rng.standard_normal(size), 0, 1)


def _skewed(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    return np.minimum(0.1 * rng.standard_exponential(size), 1)


VALUES = {"uniform": _uniform, "normal": _normal, "skewed": _skewed}

P1 = Workload()
P2 = Workload(width=0.2)
P3 = Workload(ranges=10, width=0.2)
P4 = Workload(ranges=10, width=0.5)
P6 = Workload(width=0.2, widths_vary=True, zipf=1.0)
P7 = Workload(attributes=10, ranges=10, width=0.2)
P8 = Workload(ranges=20, width=0.2)

WORKLOADS = {"P1": P1, "P2": P2, "P3": P3, "P4": P4, "P6": P6, "P7": P7, "P8": P8}


def _generator(seed: int, purpose: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([seed, purpose]))
