"""Which links of a broker lead to brokers with given numbers in the tree."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def leads(enter, leave, up, numbers, start, count, b, child, link):
    """Whether one of these ascending numbers of brokers lies behind a link of broker b to a child."""
    below = up[child] == link ^ 1  # in the tree as it is numbered; else the link goes up
    first, last = (enter[child], leave[child]) if below else (enter[b], leave[b])
    if not below:
        return count > 0 and (numbers[start] < first or numbers[start + count - 1] >= last)
    low, high = start, start + count
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < first:
            low = middle + 1
        else:
            high = middle
    return low < start + count and numbers[low] < last


@njit(cache=True)
def first_links(enter, leave, up, in_tree, out_start, out_link, target, numbers, b):
    """The links of broker b that lead to one of these ascending numbers of brokers, by neighbour."""
    found = np.empty(out_start[b + 1] - out_start[b], np.int64)
    count = 0
    for j in range(out_start[b], out_start[b + 1]):
        link = out_link[j]
        if in_tree[link] and leads(enter, leave, up, numbers, 0, numbers.size, b, target[link], link):
            found[count] = link
            count += 1
    return found[:count]
