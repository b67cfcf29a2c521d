"""Brute: every subscription compared with every object, in plain NumPy. The oracle and the baseline."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from brokers.indexes.contract import Ids
from brokers.indexes.spatial.contract import Queries, ReverseTopK
from brokers.indexes.spatial.geometry import Floats, squared_distances
from brokers.indexes.spatial.items import NONE, Slots


class Brute(ReverseTopK):
    """The definition, word by word. A query is O(subscriptions * objects * keywords); changes O(1)."""

    exact = True

    def relaxed(self, queries: Queries) -> tuple[Ids, Ids]:
        """RT_delta in place of RT: what no answer may exceed."""
        ptr, slots = self._answers(queries, queries.delta)
        ids = self.subscriptions.ids[slots]
        return ptr, np.concatenate([np.sort(ids[a:b]) for a, b in pairwise(ptr)] or [ids])

    def _objects_came(self, slots: Slots) -> None:
        pass

    def _objects_go(self, slots: Slots) -> None:
        pass

    def _subscriptions_came(self, slots: Slots) -> None:
        pass

    def _subscriptions_go(self, slots: Slots) -> None:
        pass

    def _reverse(self, queries: Queries) -> tuple[Ids, Slots]:
        return self._answers(queries, np.ones(len(queries.ids)))

    def _kth_squared(self, slots: Slots, k: int) -> Floats:
        objects = self.objects.all_slots()
        found = np.full(len(slots), np.inf)
        for i, slot in enumerate(slots):
            squared = np.sort(self._squared(slot, objects[self._relevant(slot, objects)]))
            if len(squared) >= k:
                found[i] = squared[k - 1]
        return found

    def _answers(self, queries: Queries, delta: Floats) -> tuple[Ids, Slots]:
        objects, subscriptions = self.objects.all_slots(), self.subscriptions.all_slots()
        ptr, words = queries.keywords
        found = [
            self._answer(queries, i, words[ptr[i] : ptr[i + 1]], delta[i], objects, subscriptions)
            for i in range(len(queries.ids))
        ]
        out = np.zeros(len(found) + 1, np.int64)
        np.cumsum([len(slots) for slots in found], out=out[1:])
        return out, np.concatenate(found) if found else np.empty(0, np.int64)

    def _answer(
        self, queries: Queries, i: int, words: np.ndarray, delta: float, objects: Slots, subscriptions: Slots
    ) -> Slots:
        others = objects[self.objects.ids[objects] != queries.ids[i]]
        shared = np.isin(self.subscriptions.words[subscriptions], words).any(axis=1)
        candidates = subscriptions[shared]
        squared = squared_distances(self.subscriptions.points[candidates], queries.points[i])
        reach = self.geometry.reach(squared, delta)
        self.counters.subscriptions += len(candidates)
        self.counters.verified += len(candidates) * len(others)
        keep = [
            (self._squared(slot, others[self._relevant(slot, others)]) < reach[j]).sum() < queries.k[i]
            for j, slot in enumerate(candidates)
        ]
        return candidates[np.array(keep, np.bool_)]

    def _relevant(self, subscription: int, objects: Slots) -> np.ndarray:
        wanted = self.subscriptions.words[subscription]
        return np.asarray(np.isin(self.objects.words[objects], wanted[wanted != NONE]).any(axis=1))

    def _squared(self, subscription: int, objects: Slots) -> Floats:
        return squared_distances(self.objects.points[objects], self.subscriptions.points[subscription])
