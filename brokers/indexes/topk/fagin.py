"""Fagin: the threshold algorithm over lists of each attribute's constraints, the heaviest first.

R. Fagin, A. Lotem, M. Naor, Optimal aggregation algorithms for middleware, PODS 2001. The lists of the
message's attributes are walked in turns. A constraint that matches leads to its filter, which is scored in
full and not looked at again. Nothing not yet seen scores more than the weights that the lists have come to,
the largest of them as many as a filter has constraints: once that is below the k-th score, the walk ends.

Which constraints match depends on the message, so a list also holds those that do not, and the walk passes
them by. If the message brings weights, a list has one weight throughout, and the walk ends late.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numba import njit

from brokers.errors import EndlessWalk
from brokers.indexes.contract import claim
from brokers.indexes.topk.bounds import INFLATED, largest_sums
from brokers.indexes.topk.contract import Floats, Query, RankedMessage, Ranking, checked_message
from brokers.indexes.topk.kernels import arrange, offer, score_of
from brokers.indexes.topk.store import Slots, StoredIndex, exclusion, sent_weights

TURN = 64  # entries of a list walked before it is the next one's turn


class Fagin(StoredIndex):
    """Match O(M N) at worst. Insert and delete O(c), but the match after a change sorts: O(c N log N)."""

    def __init__(self, attributes: int) -> None:
        super().__init__(attributes)
        self._starts = np.zeros(attributes + 1, np.int64)
        self._list_slot = np.empty(0, np.int64)  # one list after the other
        self._list_weight = np.empty(0)
        self._sorted = True

    def bound(self, message: RankedMessage, prorate: bool = False) -> float:
        """What the heads of the lists add up to. O(m log m)."""
        asked = checked_message(message, self.attributes)
        self._sort()
        present = np.flatnonzero((asked.low == asked.low) & (np.diff(self._starts) > 0))
        heads = self._list_weight[self._starts[present]] if asked.weights is None else asked.weights[present]
        return float(largest_sums(heads, self._store.weight.shape[1])[-1])

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        lists = self._list_slot, self._list_weight, self._starts
        return super().memory_bytes() + sum(column.nbytes for column in lists)

    def check(self) -> None:
        """Every invariant. O(constraints)."""
        super().check()
        if not self._sorted:
            return
        store = self._store
        claim((store.attribute[store.slot_of.items()[1]] >= 0).sum() == len(self._list_slot), "all are listed")
        for attribute, (start, end) in enumerate(pairwise(self._starts.tolist())):
            slots, weight = self._list_slot[start:end], self._list_weight[start:end]
            rows, places = np.nonzero(store.attribute[slots] == attribute)
            claim(np.array_equal(rows, np.arange(len(slots))), "a list has constraints on its attribute")
            claim(np.array_equal(store.weight[slots, places], weight), "a list knows the weights")
            claim((weight[1:] <= weight[:-1]).all(), "the heaviest comes first")

    def _added(self, slots: Slots) -> None:
        self._sorted = False

    def _removing(self, slots: Slots) -> None:
        self._sorted = False

    def _reweighted(self, slots: Slots, places: Slots) -> None:
        self._sorted = False

    def _sort(self) -> None:
        """Make the lists anew if anything has changed."""
        if self._sorted:
            return
        attribute = self._store.attribute[: self._store.used]
        slots, places = np.nonzero((attribute >= 0) & (self._store.ids[: self._store.used] >= 0)[:, None])
        weight, name = self._store.weight[slots, places], attribute[slots, places]
        order = np.lexsort((slots, -weight, name))
        self._list_slot, self._list_weight = slots[order], weight[order]
        self._starts = np.searchsorted(name[order], np.arange(self.attributes + 1))
        self._sorted = True

    def _top(self, message: RankedMessage, query: Query, count: int) -> Ranking:
        scores, ids, receivers = np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)
        size = self._walk(message, query, 0.0, scores, ids, receivers)[0]
        return Ranking(ids[:size], scores[:size], receivers[:size])

    def _at_least(self, message: RankedMessage, query: Query, floor: float) -> Ranking:
        nothing = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
        _, slots, scores = self._walk(message, query, floor, *nothing)
        return Ranking(self._store.ids[slots], scores, self._store.receivers[slots])

    def _walk(
        self, message: RankedMessage, query: Query, floor: float, scores: Floats, ids: Slots, receivers: Slots
    ) -> tuple[int, Slots, Floats]:
        self._sort()
        store, work = self._store, np.zeros(2, np.int64)
        size, slots, found = _walk(
            self._starts, self._list_slot, self._list_weight,
            store.ids[: store.used], store.receivers, store.attribute, store.ends, store.weight,
            message.low, message.high, sent_weights(message), query.prorate, query.threshold, floor,
            *exclusion(query), query.unit == "receiver", scores, ids, receivers, work,
        )
        self.counters.probed += int(work[0])
        self.counters.verified += int(work[1])
        return size, slots, found


@njit(cache=True)
def _still_possible(heads, most):
    """No less than any sum of `most` of these."""
    if most >= heads.size:
        return heads.sum() * INFLATED
    return np.sort(heads)[heads.size - most :].sum() * INFLATED


@njit(cache=True)
def _walk(
    starts, list_slot, list_weight, held_ids, held_receivers, attribute, ends, weight, low, high, sent,
    prorate, threshold, floor, excluding, excluded, by_receiver, scores, ids, receivers, work,
):
    """Fill the heap with the best, or without a heap list all that score at least `floor`.

    Returns (size of the heap, slots, scores); adds to work (entries walked, filters scored).
    """
    heaped = scores.size > 0
    seen = np.zeros(held_ids.size, np.bool_)
    found = np.empty(0 if heaped else held_ids.size, np.int64)
    found_scores = np.empty(found.size)
    total = size = 0
    floor = max(floor, threshold)
    at = starts[:-1].copy()
    heads = np.zeros(low.size)  # per attribute, the weight that its list has come to
    for a in range(low.size):
        if low[a] == low[a] and at[a] < starts[a + 1]:
            heads[a] = max(0.0, sent[a] if sent.size else list_weight[at[a]])
    for _ in range(list_slot.size + 2):  # each round goes on in one list at least
        possible = _still_possible(heads, attribute.shape[1])
        if possible < floor or possible <= 0.0:
            break
        for a in range(low.size):
            if heads[a] <= 0.0:
                continue
            last = min(at[a] + TURN, starts[a + 1])
            work[0] += last - at[a]
            for i in range(at[a], last):
                slot = list_slot[i]
                if seen[slot]:
                    continue
                for place in range(attribute.shape[1]):
                    if attribute[slot, place] == a:
                        break
                else:
                    raise EndlessWalk("a list names a filter without the list's attribute")
                if not (ends[slot, 2 * place] <= high[a] and ends[slot, 2 * place + 1] >= low[a]):
                    continue
                seen[slot] = True
                work[1] += 1
                score = score_of(attribute, ends, weight, slot, low, high, sent, prorate)
                if score < floor or score <= threshold:
                    continue
                if not heaped:
                    found[total], found_scores[total] = slot, score
                    total += 1
                elif not (excluding and held_receivers[slot] == excluded):
                    size = offer(
                        scores, ids, receivers, size, score, held_ids[slot], held_receivers[slot], by_receiver
                    )
                    if size == scores.size:
                        floor = max(floor, scores[0])
            at[a] = last
            if last == starts[a + 1]:
                heads[a] = 0.0
            elif not sent.size:
                heads[a] = max(0.0, list_weight[last])
    else:
        raise EndlessWalk("lists were walked to their ends, and there is more to come")
    arrange(scores, ids, receivers, size)
    return size, found[:total], found_scores[:total]
