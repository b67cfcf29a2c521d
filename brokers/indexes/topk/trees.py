"""Trees: the structure of the paper, an interval tree per attribute and a map of scores.

After Culhane, Jayaram and Eugster's weighted partial matching (`docs/topk.md` says what the printed
algorithm leaves open). A message asks the tree of each of its attributes, in ascending order, and adds what
comes back to the filters' scores; the k best of the filters touched are kept in a heap. An array by slot with
a stamp per message is the score map: nothing is cleared between messages.

With N filters, M attributes in the message, S matching constraints: time O(M log N + S log k), space
O(M N + k). `TreeCounters` counts the terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit

from brokers.indexes import space
from brokers.indexes.contract import WorkCounters, claim
from brokers.indexes.topk.bounds import largest_sums
from brokers.indexes.topk.contract import Floats, Query, RankedMessage, Ranking, checked_message
from brokers.indexes.topk.kernels import arrange, offer
from brokers.indexes.topk.store import Slots, StoredIndex, exclusion
from brokers.indexes.topk.tree import IntervalTree

DENSE = 4  # where more than one slot in so many is touched, reading all in order beats following the list


@dataclass
class TreeCounters(WorkCounters):
    """The terms of the bound. `probed` is the comparisons in trees: O(M log N + S)."""

    hits: int = 0  # constraints that matched: S
    touched: int = 0  # filters with a score; at most S
    entered: int = 0  # of these, how many went into the heap, for O(log k) each


class Trees(StoredIndex):
    """Match O(M log N + S log k). Insert, delete and weights O(log N) per constraint."""

    counters: TreeCounters

    def __init__(self, attributes: int) -> None:
        super().__init__(attributes)
        self.counters = TreeCounters()
        self._trees: dict[int, IntervalTree] = {}  # the master index; no tree is empty
        self._heaviest: dict[int, float] = {}  # by attribute, no weight in its tree is above
        self._state = np.zeros((0, 2))  # score and epoch by slot
        self._touched = np.empty(0, np.int64)
        self._epoch = 0.0

    def bound(self, message: RankedMessage, prorate: bool = False) -> float:
        """The sum of the largest weights of as many trees as a filter can have constraints. O(m log m)."""
        asked = checked_message(message, self.attributes)
        weights = self._heaviest if asked.weights is None else dict(enumerate(asked.weights.tolist()))
        largest = [weights[a] for a in self._trees if asked.low[a] == asked.low[a]]
        return float(largest_sums(np.array(largest), self._store.weight.shape[1])[-1])

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        trees = sum(tree.memory_bytes() for tree in self._trees.values())
        return super().memory_bytes() + trees + self._state.nbytes + self._touched.nbytes

    def check(self) -> None:
        """Every invariant. O(constraints)."""
        super().check()
        store = self._store
        held = store.slot_of.items()[1]
        claim(len(self._state) == len(self._touched) >= store.used, "every slot has a score")
        for attribute in range(self.attributes):
            rows, places = np.nonzero(store.attribute[held] == attribute)
            tree = self._trees.get(attribute)
            claim((tree is None) == (len(rows) == 0), "what is constrained has a tree, and only that")
            if tree is not None:
                tree.check()
                slots = held[rows]
                low, high = store.ends[slots, 2 * places], store.ends[slots, 2 * places + 1]
                expected = sorted(zip(slots.tolist(), low, high, store.weight[slots, places]))
                claim(tree.items() == expected, "a tree holds the constraints on its attribute")
                claim(max(item[3] for item in expected) <= self._heaviest[attribute], "no weight is heavier")

    # ---- changes

    def _added(self, slots: Slots) -> None:
        store = self._store
        if len(store.ids) > len(self._state):
            self._state = space.array((len(store.ids), 2), np.float64)
            self._touched = space.array((len(store.ids),), np.int64)
        for attribute, mine, low, high, weight in self._by_attribute(slots):
            tree = self._trees.get(attribute)
            if tree is None:
                tree = self._trees[attribute] = IntervalTree()
                self._heaviest[attribute] = 0.0
            tree.insert(low, high, weight, mine)
            heaviest = float(weight[0] if len(weight) == 1 else weight.max())
            self._heaviest[attribute] = max(self._heaviest[attribute], heaviest)

    def _removing(self, slots: Slots) -> None:
        for attribute, mine, low, _, _ in self._by_attribute(slots):
            if not self._trees[attribute].remove(low, mine):
                del self._trees[attribute], self._heaviest[attribute]

    def _reweighted(self, slots: Slots, places: Slots) -> None:
        store = self._store
        for slot, place in zip(slots.tolist(), places.tolist()):
            attribute, weight = int(store.attribute[slot, place]), float(store.weight[slot, place])
            self._trees[attribute].reweigh(store.ends[slot, 2 * place], slot, weight)
            self._heaviest[attribute] = max(self._heaviest[attribute], weight)

    def _by_attribute(self, slots: Slots) -> Iterator[tuple[int, Slots, Floats, Floats, Floats]]:
        """(attribute, slots, low, high, weight) of the constraints in slots, for each attribute they are on."""
        store = self._store
        if len(slots) == 1:  # single changes are the common case, and indexing by arrays is slow
            slot = slots.item()
            low, high, weight = store.ends[slot, 0::2].copy(), store.ends[slot, 1::2].copy(), store.weight[slot]
            for p, a in enumerate(store.attribute[slot].tolist()):
                if a >= 0:
                    yield a, slots, low[p : p + 1], high[p : p + 1], weight[p : p + 1]
            return
        attribute = store.attribute[slots].ravel()
        order = np.argsort(attribute, kind="stable")
        names, starts = np.unique(attribute[order], return_index=True)
        for a, part in zip(names.tolist(), np.split(order, starts[1:])):
            if a >= 0:
                mine, place = slots[part // store.attribute.shape[1]], part % store.attribute.shape[1]
                low, high = store.ends[mine, 2 * place], store.ends[mine, 2 * place + 1]
                yield a, mine, low, high, store.weight[mine, place]

    # ---- matches

    def _score(self, message: RankedMessage, prorate: bool) -> Slots:
        """Add up the scores of this epoch; the slots that were touched."""
        self._epoch += 1.0
        work = np.zeros(3, np.int64)
        low, high = message.low, message.high
        for a in sorted(self._trees):
            if low[a] == low[a]:
                sent = np.nan if message.weights is None else message.weights[a]
                self._trees[a].accumulate(
                    low[a], high[a], sent, prorate, self._state, self._epoch, self._touched, work
                )
        counters, (compared, hits, touched) = self.counters, work.tolist()
        counters.probed += compared
        counters.hits += hits
        counters.verified += touched
        counters.touched += touched
        return self._touched[:touched]

    def _top(self, message: RankedMessage, query: Query, count: int) -> Ranking:
        touched = self._score(message, query.prorate)
        store = self._store
        dense = DENSE * len(touched) > store.used
        scores, ids, receivers = np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)
        size, entered = _select(
            self._state[: store.used], self._epoch, touched, dense, store.ids, store.receivers,
            query.threshold, *exclusion(query), query.unit == "receiver", scores, ids, receivers,
        )
        self.counters.entered += int(entered)
        return Ranking(ids[:size], scores[:size], receivers[:size])

    def _at_least(self, message: RankedMessage, query: Query, floor: float) -> Ranking:
        touched = self._score(message, query.prorate)
        scores = self._state[touched, 0]
        kept = (scores > query.threshold) & (scores >= floor)
        slots = touched[kept]
        return Ranking(self._store.ids[slots], scores[kept], self._store.receivers[slots])


@njit(cache=True)
def _select(
    state, epoch, touched, dense, held_ids, held_receivers, threshold, excluding, excluded, by_receiver,
    scores, ids, receivers,
):
    """The k best of the slots touched: (how many, how many went into the heap)."""
    size = entered = 0
    least = threshold
    for i in range(state.shape[0] if dense else touched.size):
        slot = i if dense else touched[i]
        score = state[slot, 0]
        # Few scores, stale ones included, pass the first test once the heap is full: a branch that is foreseen.
        if score < least or score <= threshold or state[slot, 1] != epoch:
            continue
        receiver = held_receivers[slot]
        if not (excluding and receiver == excluded):
            entered += 1
            size = offer(scores, ids, receivers, size, score, held_ids[slot], receiver, by_receiver)
            if size == scores.size:
                least = scores[0]
    arrange(scores, ids, receivers, size)
    return size, entered
