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


@njit(cache=True)
def best_partition(costs, n):
    """Weigh every partition: (number of each query's set, cost, partitions). Bell(n) leaves."""
    number = np.zeros(n, np.int64)
    used = np.zeros(n + 1, np.int64)  # sets of the queries before each one
    masks = np.zeros((n + 1, n), np.int64)  # their members, at each depth
    best = np.zeros(n, np.int64)
    cost_min, leaves, row = np.inf, 0, 0
    while row >= 0:
        if row == n:
            total = 0.0
            for k in range(used[n]):
                total += costs[masks[n, k]]
            if total < cost_min or leaves == 0:
                cost_min = total
                best[:] = number
            leaves += 1
            row -= 1
        elif number[row] > used[row]:
            number[row] = 0
            row -= 1
        else:
            masks[row + 1, : used[row]] = masks[row, : used[row]]
            if number[row] == used[row]:
                masks[row + 1, used[row]] = 0
            masks[row + 1, number[row]] |= 1 << row
            used[row + 1] = max(used[row], number[row] + 1)
            row += 1
            if row < n:
                number[row] = 0
            continue
        if row >= 0:
            number[row] += 1
    return best, cost_min, leaves


@njit(cache=True)
def best_subsets(costs, n):
    """The cheapest partition by a programme over subsets: (number of each query's set, cost). O(3^n).

    best(S) = min over T that hold the lowest query of S of costs(T) + best(S - T). Only the whole has query
    0, so the table is over the others: index S >> 1.
    """
    best = np.zeros(1 << (n - 1))
    for left in range(1, 1 << (n - 1)):
        lowest = left & -left
        rest = left ^ lowest
        part = rest
        cost_min = costs[left << 1]
        while part:
            part = (part - 1) & rest
            cost = costs[(part | lowest) << 1] + best[rest ^ part]
            if cost < cost_min:
                cost_min = cost
        best[left] = cost_min
    number = np.zeros(n, np.int64)
    left, sets = (1 << n) - 1, 0
    total = 0.0
    while left:
        lowest = left & -left
        rest = left ^ lowest
        part, chosen = rest, left
        cost_min = costs[left]
        while part:
            part = (part - 1) & rest
            cost = costs[part | lowest] + best[(rest ^ part) >> 1]
            if cost < cost_min:
                cost_min, chosen = cost, part | lowest
        if sets == 0:
            total = cost_min
        for row in range(n):
            if chosen >> row & 1:
                number[row] = sets
        sets += 1
        left ^= chosen
    return number, total
