"""From values to positions in 0..1: per attribute a monotone function, frozen until the tree is built again.

The tree's cells cut 0..1 evenly, so they share the work evenly where positions are spread evenly. A function
is a polygon through knots: two for values that are even already, the quantiles of a sample for others. Values
outside the knots clamp to 0 or 1. Answers need nothing of it but that it never descends: ranges and events
go through the same function, and candidates are compared with what was given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.content.contract import Floats
from brokers.indexes.content.htree_probe import positions
from brokers.indexes.contract import claim

KNOTS = 257  # of a polygon through quantiles
UNEVEN = 0.15  # a sample that is nowhere further from an even spread counts as even
FILLS = 0.9  # a sample within 0..1 that spans this much of it counts as normalised

Domains = str | tuple[float, float]


class Domain:
    """The functions of all attributes. `knots[first[a]:first[a + 1]]` are those of attribute a."""

    def __init__(self, knots: list[Floats] | None = None, *, attributes: int = 0) -> None:
        polygons = knots if knots is not None else [np.array([0.0, 1.0])] * attributes
        self.first = np.zeros(len(polygons) + 1, np.int64)
        np.cumsum([len(polygon) for polygon in polygons], out=self.first[1:])
        self.knots = np.concatenate(polygons)

    def positions(self, attribute: NDArray[np.int64], values: Floats) -> Floats:
        """F(value) of each value on its attribute; NaN stays NaN. O(log knots) each."""
        return np.asarray(positions(self.knots, self.first, attribute, values))

    def memory_bytes(self) -> int:
        return self.knots.nbytes + self.first.nbytes

    def check(self) -> None:
        """Every invariant. O(knots)."""
        claim(np.isfinite(self.knots).all(), "knots are finite")
        for begin, end in zip(self.first[:-1], self.first[1:]):
            knots = self.knots[begin:end]
            claim(len(knots) >= 2 and (knots[1:] >= knots[:-1]).all(), "knots ascend, two at least")


def checked_domain(domain: Any) -> Domains:
    """`auto`, `cdf`, or finite (low, high) with low < high."""
    if isinstance(domain, str) and domain in ("auto", "cdf"):
        return domain
    if isinstance(domain, tuple | list) and len(domain) == 2:
        low, high = float(domain[0]), float(domain[1])
        if np.isfinite([low, high]).all() and low < high:
            return low, high
    raise InvalidInput(f"domain {domain!r}; pass 'auto', 'cdf' or a pair (low, high) with low < high")


def learn(domain: Domains, attributes: int, attribute: NDArray[np.int64], values: Floats) -> Domain:
    """The functions for a sample of values, value i on attribute[i]; only finite ones tell. O(n log n)."""
    if isinstance(domain, tuple):
        return Domain([np.array(domain)] * attributes)
    finite = np.isfinite(values)
    attribute, values = attribute[finite], values[finite]
    order = np.lexsort((values, attribute))
    attribute, values = attribute[order], values[order]
    polygons = [np.array([0.0, 1.0])] * attributes
    starts = np.flatnonzero(np.diff(attribute, prepend=-1))
    for begin, end in zip(starts, [*starts[1:], len(values)]):
        polygons[attribute[begin]] = polygon(domain, values[begin:end])
    return Domain(polygons)


def polygon(domain: Domains, sample: Floats) -> Floats:
    """Knots for one attribute's ascending, finite sample."""
    low, high = sample[0], sample[-1]
    if domain == "auto":
        if low >= 0.0 and high <= 1.0 and high - low >= FILLS:
            low, high = 0.0, 1.0
        half = 0.5 * high - 0.5 * low
        if half > 0.0:
            even = (0.5 * sample - 0.5 * low) / half
            steps = np.arange(len(sample) + 1) / len(sample)
            if max(np.abs(even - steps[:-1]).max(), np.abs(even - steps[1:]).max()) <= UNEVEN:
                return np.array([low, high])
    places = np.linspace(0, len(sample) - 1, min(KNOTS, max(len(sample), 2)))
    return np.asarray(sample[np.rint(places).astype(np.int64)])
