"""Links drawn pair by pair: the kernels of the random graphs that look at every pair of nodes.

Rule. The draw of the pair (a, b), a < b, is number b of the stream of a, so that a link exists or not
whatever else is drawn. All pairs are visited, O(n^2) at about a nanosecond each: 10,000 nodes in a fraction
of a second. One module per kernel family; each kernel counts in a first pass and fills in a second.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from topology import draws


@njit(cache=True)
def links_by_chance(keys, probability):
    """Pairs whose draw is below `probability`; `keys` are the nodes' streams."""
    n = keys.size
    result = np.empty((0, 2), np.int64)
    for fill in range(2):
        found = 0
        for a in range(n):
            for b in range(a + 1, n):
                if draws.uniform(keys[a], b) < probability:
                    if fill == 1:
                        result[found, 0] = a
                        result[found, 1] = b
                    found += 1
        if fill == 0:
            result = np.empty((found, 2), np.int64)
    return result


@njit(cache=True)
def links_within(x, y, radius):
    """Pairs at most `radius` apart."""
    n = x.size
    limit = radius * radius
    result = np.empty((0, 2), np.int64)
    for fill in range(2):
        found = 0
        for a in range(n):
            for b in range(a + 1, n):
                dx = x[a] - x[b]
                dy = y[a] - y[b]
                if dx * dx + dy * dy <= limit:
                    if fill == 1:
                        result[found, 0] = a
                        result[found, 1] = b
                    found += 1
        if fill == 0:
            result = np.empty((found, 2), np.int64)
    return result


@njit(cache=True)
def links_by_waxman(keys, x, y, beta, scale):
    """Pairs whose draw is below beta * exp(-distance / scale)."""
    n = keys.size
    result = np.empty((0, 2), np.int64)
    for fill in range(2):
        found = 0
        for a in range(n):
            for b in range(a + 1, n):
                u = draws.uniform(keys[a], b)
                if u < beta:  # the exponential only for those that could pass
                    dx = x[a] - x[b]
                    dy = y[a] - y[b]
                    if u < beta * draws.exp(-np.sqrt(dx * dx + dy * dy) / scale):
                        if fill == 1:
                            result[found, 0] = a
                            result[found, 1] = b
                        found += 1
        if fill == 0:
            result = np.empty((found, 2), np.int64)
    return result
