"""Rankings of the filters at one broker, and of two rankings together: what `RankedIndex.best` and `merged` give."""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.indexes.topk.kernels import share_of
from protocols.topk.asking_record import BY_RECEIVER, EXCLUDES, PRORATE, TIES_ALL, K


@njit(inline="always", cache=True)
def _before(score, id_, other_score, other_id):
    return score > other_score or (score == other_score and id_ < other_id)


@njit(cache=True)
def rank(s, b, c, start):
    """The best of the filters that live at a broker, from `start` on; how many."""
    most = s.count[b] if s.said[TIES_ALL] else min(s.count[b], s.said[K] + 1)
    excludes, publisher, threshold = s.said[EXCLUDES] != 0, s.publisher[c], s.said_real[0]
    weighs, prorate = s.weighs[c], s.said[PRORATE] != 0
    width = s.attribute.columns
    count = np.int64(0)
    for at in range(s.first[b], s.first[b] + s.count[b]):
        slot = s.mine[at]
        score = 0.0
        for j in range(width):
            a = s.attribute[slot, j]
            if a < 0:
                break
            low, high = s.ends[slot, 2 * j], s.ends[slot, 2 * j + 1]
            counted = s.sent[c, a] if weighs else s.weight[slot, j]
            matches = (low <= s.high[c, a]) & (high >= s.low[c, a])
            if prorate:
                if matches:
                    score += share_of(counted, low, high, s.low[c, a], s.high[c, a])
            else:
                score += counted if matches else 0.0
        if score > threshold and not (excludes and (s.id[slot] >> 32) == publisher):
            count = _enter(s, start, count, most, score, s.id[slot])
    return _cut(s, start, count)


@njit(cache=True)
def _enter(s, start, count, most, score, id_):
    """Enter a filter into a ranking of at most so many; the new count."""
    end = start + count
    if count == most and not _before(score, id_, s.scores[end - 1], s.ids[end - 1]):
        return count
    if s.said[BY_RECEIVER]:
        for at in range(start, end):
            if s.ids[at] >> 32 == id_ >> 32:
                if not _before(score, id_, s.scores[at], s.ids[at]):
                    return count
                for p in range(at, end - 1):
                    s.ids[p], s.scores[p] = s.ids[p + 1], s.scores[p + 1]
                end -= 1
                break
    if end - start == most:
        end -= 1
    place = end
    for at in range(end - 1, start - 1, -1):
        if not _before(score, id_, s.scores[at], s.ids[at]):
            break
        s.ids[at + 1], s.scores[at + 1] = s.ids[at], s.scores[at]
        place = at
    s.ids[place], s.scores[place] = id_, score
    return end + 1 - start


@njit(cache=True)
def _cut(s, start, count):
    """How much of a ranking a merger needs: one more than k, and with all ties those that tie with the k-th."""
    k = s.said[K]
    if count <= k:
        return count
    kept = k + 1
    if s.said[TIES_ALL] and s.scores[start + k] == s.scores[start + k - 1]:
        for at in range(kept, count):
            if s.scores[start + at] != s.scores[start + k]:
                break
            kept = np.int64(at + 1)
    return kept


@njit(cache=True)
def merge(s, one, ones, other, others, start):
    """Unite two rankings from `start` on; how many are kept."""
    i, j, count = np.int64(0), np.int64(0), np.int64(0)
    enough = ones + others if s.said[TIES_ALL] else s.said[K] + 1
    for _ in range(ones + others):
        if count == enough:
            break
        if j == others or (
            i < ones and _before(s.scores[one + i], s.ids[one + i], s.scores[other + j], s.ids[other + j])
        ):
            at = one + i
            i += 1
        else:
            at = other + j
            j += 1
        again = False
        if s.said[BY_RECEIVER]:
            for p in range(start, start + count):
                if s.ids[p] >> 32 == s.ids[at] >> 32:
                    again = True
                    break
        if not again:
            s.ids[start + count], s.scores[start + count] = s.ids[at], s.scores[at]
            count += 1
    return _cut(s, start, count)
