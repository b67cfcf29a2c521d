"""What the compiled indexes share: scoring one filter, and the k best so far in a heap.

A heap is three arrays of one length, its capacity, of which the first `size` places are in use; the worst in
rank order is at the root. Numba does not see through files: after a change here, touch the callers.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(inline="always", cache=True)
def share_of(weight, low, high, asked_low, asked_high):
    """What a constraint that matches adds if it is prorated."""
    length = high - low
    if 0.0 < length < np.inf and asked_low != asked_high:
        return weight * ((min(high, asked_high) - max(low, asked_low)) / length)
    return weight


@njit(inline="always", cache=True)
def score_of(attribute, ends, weight, slot, asked_low, asked_high, sent, prorate):
    """The score of the filter in a slot. `sent` are the message's weights, empty if it brings none."""
    score = 0.0
    for j in range(attribute.shape[1]):
        if attribute[slot, j] < 0:
            break
        a = np.uint64(attribute[slot, j])
        low, high = ends[slot, 2 * j], ends[slot, 2 * j + 1]
        counted = sent[a] if sent.size else weight[slot, j]
        # No branch on what cannot be foreseen: half of the time of two comparisons one after the other.
        matches = (low <= asked_high[a]) & (high >= asked_low[a])
        if prorate:
            if matches:
                score += share_of(counted, low, high, asked_low[a], asked_high[a])
        else:
            score += counted if matches else 0.0
    return score


@njit(inline="always", cache=True)
def _before(score, id_, other_score, other_id):
    """Whether one filter is ranked before another."""
    return score > other_score or (score == other_score and id_ < other_id)


@njit(cache=True)
def _sink(scores, ids, receivers, size, at):
    """Move an entry down until none below it is worse."""
    score, id_, receiver = scores[at], ids[at], receivers[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _before(scores[child], ids[child], scores[child + 1], ids[child + 1]):
            child += 1
        if not _before(score, id_, scores[child], ids[child]):
            break
        scores[at], ids[at], receivers[at] = scores[child], ids[child], receivers[child]
        at = child
    scores[at], ids[at], receivers[at] = score, id_, receiver


@njit(cache=True)
def offer(scores, ids, receivers, size, score, id_, receiver, by_receiver):
    """Enter a filter if it is among the best; the new size. O(log capacity), O(capacity) by receiver."""
    capacity = scores.size
    if size == capacity and not _before(score, id_, scores[0], ids[0]):
        return size
    at = -1
    if by_receiver:
        for p in range(size):
            if receivers[p] == receiver:
                if not _before(score, id_, scores[p], ids[p]):
                    return size
                at = p
                break
    if at < 0 and size == capacity:
        at = 0
    if at >= 0:
        scores[at], ids[at], receivers[at] = score, id_, receiver
        _sink(scores, ids, receivers, size, at)
        return size
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if not _before(scores[parent], ids[parent], score, id_):
            break
        scores[at], ids[at], receivers[at] = scores[parent], ids[parent], receivers[parent]
        at = parent
    scores[at], ids[at], receivers[at] = score, id_, receiver
    return size + 1


@njit(cache=True)
def arrange(scores, ids, receivers, size):
    """Turn the heap into rank order, in place. O(size log size)."""
    for end in range(size - 1, 0, -1):
        scores[0], scores[end] = scores[end], scores[0]
        ids[0], ids[end] = ids[end], ids[0]
        receivers[0], receivers[end] = receivers[end], receivers[0]
        _sink(scores, ids, receivers, end, 0)
