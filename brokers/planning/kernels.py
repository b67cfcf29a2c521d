"""Kernels over bounding boxes: the cost of every subset, and best partitions over such a table.

A set is a word of bits. Costs are absolute; `constants` are (per message, per object, irrelevant).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.planning.sizes import box_size


@njit(cache=True)
def set_cost(constants, size, members):
    """The absolute cost of a set merged into one query. In this order: plain and fast agree to the bit."""
    return constants[0] * 1 + constants[1] * size + constants[2] * (members * size)


@njit(cache=True)
def subset_costs(table, low, high, constants):
    """The cost of every set of boxes, by its bits. O(2^n d)."""
    n, d = low.shape
    out = np.zeros(1 << n)
    # The hulls of the sets over the boxes so far; a set without the highest box is half as far back.
    bottom, top = np.empty((1 << n, d)), np.empty((1 << n, d))
    for i in range(n):
        half = 1 << i
        for mask in range(half, 2 * half):
            members, rest = 1, mask - half
            for k in range(d):
                bottom[mask, k] = low[i, k]
                top[mask, k] = high[i, k]
                if rest:
                    bottom[mask, k] = min(bottom[mask, k], bottom[rest, k])
                    top[mask, k] = max(top[mask, k], top[rest, k])
            while rest:
                members += rest & 1
                rest >>= 1
            out[mask] = set_cost(constants, box_size(table, bottom[mask], top[mask]), members)
    return out
