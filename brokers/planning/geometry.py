"""Boxes: what encloses them, what they cover, and how they cut each other.

Boxes are two arrays low, high float64[n, d], low < high. Measures are volumes; pieces are closed boxes that
share borders at most, so that a point on a border may stand in two of them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.planning.model import Floats

Labels = NDArray[np.int64]
LABEL_BITS = 61


class Pieces(NamedTuple):
    """Boxes, and the number of the label that each was cut from."""

    low: Floats
    high: Floats
    label: Labels


def union_volume(low: Floats, high: Floats) -> float:
    """Volume of the union. O(n log n) up to two dimensions, times n for each further one."""
    if len(low) == 0:
        return 0.0
    if low.shape[1] == 1:
        # One dimension is two, one thick.
        low = np.hstack([low, np.zeros_like(low)])
        high = np.hstack([high, np.ones_like(high)])
    if low.shape[1] == 2:
        return float(_union_area(low, high))
    edges = np.unique(np.concatenate([low[:, 0], high[:, 0]]))
    total = 0.0
    for left, right in pairwise(edges):
        inside = (low[:, 0] <= left) & (high[:, 0] >= right)
        if inside.any():
            total += (right - left) * union_volume(low[inside, 1:].copy(), high[inside, 1:].copy())
    return total


def maximal(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The boxes that lie in no other; of equal ones the first. O(n^2)."""
    within = (low[:, None] >= low[None]).all(axis=2) & (high[:, None] <= high[None]).all(axis=2)
    both = within & within.T
    beaten = (within & ~both) | (both & np.tri(len(low), k=-1, dtype=bool))
    keep = ~beaten.any(axis=1)
    return low[keep], high[keep]


def disjoint(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Boxes without common volume and with the same union. O((2n)^d)."""
    edges, covered = _arrangement(low, high, one_label=True)
    pieces = _cut_cells(edges, covered)
    return pieces.low, pieces.high


def decompose(low: Floats, high: Floats) -> Pieces:
    """The union cut so that every piece lies wholly inside or outside of each box.

    Cells of the arrangement that lie in the same boxes have one label; each label is cut into boxes, greedily
    along one order of the axes and along the reverse, and the one with fewer boxes is kept.
    O(n (2n)^d).
    """
    return _cut_cells(*_arrangement(low, high, one_label=False))


def _arrangement(low: Floats, high: Floats, one_label: bool) -> tuple[list[Floats], Labels]:
    """The grid of all ends, and per cell a label: 0 outside, else one number per set of boxes (or 1)."""
    edges = [np.unique(np.concatenate([low[:, k], high[:, k]])) for k in range(low.shape[1])]
    labels = np.zeros([len(e) - 1 for e in edges], np.int64)
    for i in range(len(low)):
        cells = tuple(
            slice(int(np.searchsorted(e, low[i, k])), int(np.searchsorted(e, high[i, k])))
            for k, e in enumerate(edges)
        )
        if one_label:
            labels[cells] = 1
            continue
        if int(labels.max()) >> LABEL_BITS:
            labels = _renumbered(labels)
        labels *= 2
        labels[cells] += 1
    return edges, labels


def _renumbered(labels: Labels) -> Labels:
    """The same distinctions with small numbers; 0, outside, stays 0."""
    names, inverse = np.unique(labels, return_inverse=True)
    return inverse.reshape(labels.shape) + (0 if names[0] == 0 else 1)


def _cut_cells(edges: list[Floats], labels: Labels) -> Pieces:
    shape = np.array(labels.shape, np.int64)
    flat = _renumbered(labels).ravel()
    axes = np.arange(len(shape))
    first, last, label = _cut(flat, shape, axes)
    if len(shape) > 1:
        other = _cut(flat, shape, axes[::-1].copy())
        count = int(flat.max()) + 1
        better = np.bincount(other[2], minlength=count) < np.bincount(label, minlength=count)
        keep, take = ~better[label], better[other[2]]
        first = np.concatenate([first[keep], other[0][take]])
        last = np.concatenate([last[keep], other[1][take]])
        label = np.concatenate([label[keep], other[2][take]])
    low = np.stack([e[first[:, k]] for k, e in enumerate(edges)], axis=1)
    high = np.stack([e[last[:, k]] for k, e in enumerate(edges)], axis=1)
    return Pieces(low, high, label - 1)


@njit(cache=True)
def _cut(labels, shape, axes):
    """Greedy boxes of equal label: from the first free cell, as far as it goes along each axis in turn."""
    d = shape.size
    free = labels > 0
    found = 0
    first = np.empty((labels.size, d), np.int64)
    last = np.empty((labels.size, d), np.int64)
    label = np.empty(labels.size, np.int64)
    at = np.empty(d, np.int64)
    for cell in range(labels.size):
        if not free[cell]:
            continue
        rest = cell
        for k in range(d - 1, -1, -1):
            first[found, k] = rest % shape[k]
            last[found, k] = first[found, k] + 1
            rest //= shape[k]
        for axis in axes:
            while last[found, axis] < shape[axis]:
                # The next layer along this axis has to be free and of the same label.
                for k in range(d):
                    at[k] = first[found, k]
                at[axis] = last[found, axis]
                if not _all_of(labels, free, shape, at, first[found], last[found], axis, labels[cell]):
                    break
                last[found, axis] += 1
        for k in range(d):
            at[k] = first[found, k]
        while True:
            place = 0
            for k in range(d):
                place = place * shape[k] + at[k]
            free[place] = False
            if not _step(at, first[found], last[found], -1):
                break
        label[found] = labels[cell]
        found += 1
    return first[:found].copy(), last[:found].copy(), label[:found].copy()


@njit(cache=True)
def _all_of(labels, free, shape, at, first, last, axis, label):
    while True:
        place = 0
        for k in range(shape.size):
            place = place * shape[k] + at[k]
        if not free[place] or labels[place] != label:
            return False
        if not _step(at, first, last, axis):
            return True


@njit(cache=True)
def _step(at, first, last, fixed):
    """The next cell of a block, with one axis held; False after the last."""
    for k in range(at.size - 1, -1, -1):
        if k == fixed:
            continue
        at[k] += 1
        if at[k] < last[k]:
            return True
        at[k] = first[k]
    return False


@njit(cache=True)
def _union_area(low, high):
    """A sweep along the first axis over a segment tree of the second: how often and how far it is covered."""
    n = low.shape[0]
    ends = np.empty(2 * n)
    ends[:n] = low[:, 1]
    ends[n:] = high[:, 1]
    edges = np.unique(ends)
    leaves = 1
    while leaves < edges.size - 1:
        leaves *= 2
    times = np.zeros(2 * leaves, np.int64)
    length = np.zeros(2 * leaves)
    at = np.empty(2 * n)
    at[:n] = low[:, 0]
    at[n:] = high[:, 0]
    order = np.argsort(at, kind="mergesort")
    total = 0.0
    for event in range(2 * n):
        i = order[event]
        box = i if i < n else i - n
        if event:
            total += length[1] * (at[i] - at[order[event - 1]])
        first = np.searchsorted(edges, low[box, 1])
        last = np.searchsorted(edges, high[box, 1])
        _cover(times, length, edges, leaves, first, last, 1 if i < n else -1)
    return total


@njit(cache=True)
def _cover(times, length, edges, leaves, first, last, by):
    """Count `by` more on the leaves first..last-1, bottom up."""
    left, right = first + leaves, last + leaves
    a, b = left, right - 1
    while left < right:
        if left & 1:
            times[left] += by
            _measure(times, length, edges, leaves, left)
            left += 1
        if right & 1:
            right -= 1
            times[right] += by
            _measure(times, length, edges, leaves, right)
        left >>= 1
        right >>= 1
    while a > 1 or b > 1:
        a >>= 1
        b >>= 1
        _measure(times, length, edges, leaves, a)
        if b != a:
            _measure(times, length, edges, leaves, b)


@njit(cache=True)
def _measure(times, length, edges, leaves, node):
    if times[node] > 0:
        first, last = node, node
        while first < leaves:
            first, last = 2 * first, 2 * last + 1
        top = min(last - leaves + 1, edges.size - 1)
        bottom = min(first - leaves, edges.size - 1)
        length[node] = edges[top] - edges[bottom]
    elif node < leaves:
        length[node] = length[2 * node] + length[2 * node + 1]
    else:
        length[node] = 0.0
