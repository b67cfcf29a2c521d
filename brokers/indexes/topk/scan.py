"""Scan: the definition applied to every filter, constraint by constraint, in plain NumPy. The oracle.

Filters stand in columns of plain arrays, in no order; the last one moves into the place of one that goes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from brokers.indexes.content.contract import checked_attributes
from brokers.indexes.contract import DuplicateId, UnknownId, WorkCounters, claim
from brokers.indexes.topk.contract import (
    Floats,
    Query,
    RankedIndex,
    RankedMessage,
    Ranking,
    checked_message,
    contributions,
    ranked,
)
from brokers.indexes.topk.rows import checked_filters, checked_ids, checked_weights, places_of, rows_of


class Scan(RankedIndex):
    """Plain NumPy. Insert O(1) amortised and delete O(1) per filter, match O(held * constraints)."""

    def __init__(self, attributes: int) -> None:
        self.attributes = checked_attributes(attributes)
        self.counters = WorkCounters()
        self._place_of: dict[int, int] = {}
        self._ids = np.empty(0, np.int64)
        self._receivers = np.empty(0, np.int64)
        # One row per constraint, one column per filter: a pass reads contiguous memory.
        self._attribute = np.empty((1, 0), np.int64)
        self._low, self._high, self._weight = (np.empty((1, 0)) for _ in range(3))

    def __len__(self) -> int:
        return len(self._place_of)

    def insert(self, ids: Any, rows: Any, receivers: Any = None) -> None:
        """Add filters. O(n c) amortised."""
        fresh = checked_filters(ids, rows, receivers, self.attributes)
        for id_ in fresh.ids.tolist():
            if id_ in self._place_of:
                raise DuplicateId(f"id {id_} is in the index already; delete it first")
        start = len(self)
        self._reserve(start + len(fresh.ids), fresh.width)
        end, width = start + len(fresh.ids), fresh.width
        self._ids[start:end], self._receivers[start:end] = fresh.ids, fresh.receivers
        for column, values, padding in (
            (self._attribute, fresh.attribute, -1),
            (self._low, fresh.low, np.nan),
            (self._high, fresh.high, np.nan),
            (self._weight, fresh.weight, 0.0),
        ):
            column[:width, start:end] = values.T
            column[width:, start:end] = padding
        self._place_of.update(zip(fresh.ids.tolist(), range(start, end)))

    def delete(self, ids: Any) -> None:
        """Remove filters. O(n c)."""
        gone = checked_ids(ids).tolist()
        self._places(gone)
        for id_ in gone:
            place, last = self._place_of.pop(id_), len(self)
            for column in self._columns():
                column[..., place] = column[..., last]
            if place != last:
                self._place_of[int(self._ids[place])] = place

    def set_weights(self, ids: Any, attributes: Any, weights: Any) -> None:
        """Change weights in place. O(n c)."""
        named, asked, fresh = checked_weights(ids, attributes, weights)
        places = self._places(named.tolist())
        constraints = places_of(named, asked, self._attribute[:, places].T)
        self._weight[constraints, places] = fresh

    def best(self, message: RankedMessage, query: Query) -> Ranking:
        """Score all, rank all. O(held * constraints + held log held)."""
        asked = checked_message(message, self.attributes)
        held = len(self)
        scores = self._scores(asked, query.prorate)
        found = ranked(self._ids[:held], scores, self._receivers[:held], query)
        self.counters.events += 1
        self.counters.verified += held
        self.counters.matched += len(found.ids)
        return found

    def bound(self, message: RankedMessage, prorate: bool = False) -> float:
        """The highest score itself. O(held * constraints)."""
        return float(self._scores(checked_message(message, self.attributes), prorate).max(initial=0.0))

    def rows(self, ids: Any) -> Floats:
        """The filters held under these ids. O(c) each."""
        places = self._places(checked_ids(ids).tolist())
        return rows_of(*(column[:, places].T for column in (self._attribute, self._low, self._high, self._weight)))

    def memory_bytes(self) -> int:
        """Bytes of the arrays, and about 100 per id for the dictionary."""
        return sum(column.nbytes for column in self._columns()) + 100 * len(self)

    def check(self) -> None:
        """Every invariant. O(held * constraints)."""
        held = len(self)
        places = list(self._place_of.values())
        claim(sorted(places) == list(range(held)), "the places in use are the first ones")
        claim(self._ids[places].tolist() == list(self._place_of), "a place carries its id")
        attribute, low = self._attribute[:, :held], self._low[:, :held]
        high, weight = self._high[:, :held], self._weight[:, :held]
        real = attribute >= 0
        claim((real[:-1] | ~real[1:]).all(), "padding comes last")
        claim((attribute[1:] > attribute[:-1])[real[1:]].all(), "attributes ascend")
        claim((low <= high)[real].all(), "ranges are not empty")
        claim(np.isnan(low[~real]).all() and (weight[~real] == 0.0).all(), "padding matches nothing")

    def _scores(self, message: RankedMessage, prorate: bool) -> Floats:
        held = len(self)
        scores = np.zeros(held)
        for attribute, low, high, weight in zip(self._attribute, self._low, self._high, self._weight):
            constraint = attribute[:held], low[:held], high[:held], weight[:held]
            scores += contributions(message, *constraint, prorate)
        return scores

    def _places(self, ids: list[int]) -> Any:
        for id_ in ids:
            if id_ not in self._place_of:
                raise UnknownId(f"id {id_} is not in the index")
        return np.array([self._place_of[id_] for id_ in ids], np.int64)

    def _columns(self) -> tuple[Any, ...]:
        return self._ids, self._receivers, self._attribute, self._low, self._high, self._weight

    def _reserve(self, places: int, width: int) -> None:
        old_width, old_places = self._attribute.shape
        width = max(width, old_width)
        if places > old_places or width > old_width:
            places = old_places if places <= old_places else max(16, places, 2 * old_places)

            def widened(column: Any, padding: float) -> Any:
                larger = np.full((width, places), padding, column.dtype)
                larger[:old_width, :old_places] = column
                return larger

            self._attribute = widened(self._attribute, -1)
            self._low, self._high = widened(self._low, np.nan), widened(self._high, np.nan)
            self._weight = widened(self._weight, 0.0)
            self._ids, self._receivers = np.resize(self._ids, places), np.resize(self._receivers, places)
