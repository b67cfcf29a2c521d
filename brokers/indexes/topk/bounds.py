"""Upper bounds on sums of weights that hold against rounding."""

from __future__ import annotations

import numpy as np

from brokers.indexes.topk.contract import Floats

# A sum in another order differs by less, for any number of constraints there can be.
INFLATED = 1.0 + 1e-9


def largest_sums(weights: Floats, most: int) -> Floats:
    """For c in 0..most, no less than any sum of c of these weights. O(n log n)."""
    heaviest = -np.sort(-np.maximum(weights, 0.0))[:most]
    sums = np.zeros(most + 1)
    np.cumsum(heaviest, out=sums[1 : len(heaviest) + 1])
    sums[len(heaviest) + 1 :] = sums[len(heaviest)]
    return sums * INFLATED
