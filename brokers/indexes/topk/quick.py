"""Quick scan: every filter scored in one compiled pass over contiguous records. The honest baseline."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from brokers.indexes.topk.contract import Query, RankedMessage, Ranking, checked_message
from brokers.indexes.topk.kernels import arrange, offer, score_of
from brokers.indexes.topk.store import Store, StoredIndex, exclusion, sent_weights


class Quick(StoredIndex):
    """Match O(held * constraints + S log k). Insert and delete O(constraints) per filter."""

    def bound(self, message: RankedMessage, prorate: bool = False) -> float:
        """The highest score itself. O(held * constraints)."""
        top = self._top(checked_message(message, self.attributes), Query(1, prorate=prorate), 1)
        return float(top.scores[0]) if len(top.scores) else 0.0

    def _top(self, message: RankedMessage, query: Query, count: int) -> Ranking:
        self.counters.verified += len(self)
        return scan_top(self._store, message, query, count)

    def _at_least(self, message: RankedMessage, query: Query, floor: float) -> Ranking:
        self.counters.verified += len(self)
        return scan_at_least(self._store, message, query, floor)


def scan_top(store: Store, message: RankedMessage, query: Query, count: int) -> Ranking:
    """The first `count` filters (or receivers) of a store, ranked. O(slots * constraints + S log k)."""
    scores, ids, receivers = np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)
    asked = message.low, message.high, sent_weights(message)
    size = _top(*_columns(store), *asked, query.prorate, query.threshold, *exclusion(query),
                query.unit == "receiver", scores, ids, receivers)
    return Ranking(ids[:size], scores[:size], receivers[:size])


def scan_at_least(store: Store, message: RankedMessage, query: Query, floor: float) -> Ranking:
    """All filters of a store that score at least `floor` and above the threshold. O(slots * constraints)."""
    asked = message.low, message.high, sent_weights(message)
    scores = _scores(*_columns(store), *asked, query.prorate)
    slots = np.flatnonzero((scores > query.threshold) & (scores >= floor))
    return Ranking(store.ids[slots], scores[slots], store.receivers[slots])


def _columns(store: Store) -> tuple[Any, Any, Any, Any, Any]:
    used = store.used
    constraints = store.attribute[:used], store.ends[:used], store.weight[:used]
    return store.ids[:used], store.receivers[:used], *constraints


@njit(cache=True)
def _top(
    held_ids, held_receivers, attribute, ends, weight, low, high, sent, prorate, threshold, excluding,
    excluded, by_receiver, scores, ids, receivers,
):
    size = 0
    for slot in range(held_ids.size):
        score = score_of(attribute, ends, weight, slot, low, high, sent, prorate)
        if score > threshold and (size < scores.size or score >= scores[0]):
            receiver = held_receivers[slot]
            if not (excluding and receiver == excluded):
                size = offer(scores, ids, receivers, size, score, held_ids[slot], receiver, by_receiver)
    arrange(scores, ids, receivers, size)
    return size


@njit(cache=True)
def _scores(held_ids, held_receivers, attribute, ends, weight, low, high, sent, prorate):
    out = np.empty(attribute.shape[0])
    for slot in range(out.size):
        out[slot] = score_of(attribute, ends, weight, slot, low, high, sent, prorate)
    return out
