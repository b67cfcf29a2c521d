"""Scan: every subscription compared with every event, column by column. The oracle and the baseline.

Rows stand in slots of plain arrays, in no order; a deleted slot is reused. A free slot holds a range that
nothing satisfies, so that matching needs no test for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.indexes.content.contract import (
    ContentIndex,
    Floats,
    checked_attributes,
    checked_rows,
    many_events,
    places_of,
    ranges_hold,
    split_rows,
)
from brokers.indexes.contract import DuplicateId, Ids, WorkCounters, checked_ids, claim


class Scan(ContentIndex):
    """Plain NumPy. Insert and delete O(1) amortised per row, match O(held * constraints)."""

    def __init__(self, attributes: int) -> None:
        self.attributes = checked_attributes(attributes)
        self.counters = WorkCounters()
        self._slot_of: dict[int, int] = {}
        self._free: list[int] = []
        self._used = 0  # slots from here on were never written
        self._ids = np.empty(0, np.int64)
        self._attribute = np.empty((0, 1), np.int64)
        self._low = np.empty((0, 1))
        self._high = np.empty((0, 1))

    def __len__(self) -> int:
        return len(self._slot_of)

    def insert(self, ids: Any, rows: Any) -> None:
        """Add subscriptions. O(n k) amortised."""
        fresh = checked_ids(ids)
        checked = checked_rows(rows, self.attributes, len(fresh))
        for id_ in fresh.tolist():
            if id_ in self._slot_of:
                raise DuplicateId(f"id {id_} is in the index already; delete it first")
        self._reserve(len(fresh), checked.shape[1] // 3)
        reused = [self._free.pop() for _ in range(min(len(fresh), len(self._free)))]
        grown = len(fresh) - len(reused)
        slots = np.array([*reused, *range(self._used, self._used + grown)], np.int64)
        self._used += grown
        attribute, low, high = split_rows(checked, self.attributes)
        width = attribute.shape[1]
        self._attribute[slots, :width] = attribute
        self._low[slots, :width], self._high[slots, :width] = low, high
        self._attribute[slots, width:] = self.attributes
        self._low[slots, width:], self._high[slots, width:] = -np.inf, np.inf
        self._ids[slots] = fresh
        self._slot_of.update(zip(fresh.tolist(), slots.tolist()))

    def delete(self, ids: Any) -> None:
        """Remove subscriptions. O(n k)."""
        gone = checked_ids(ids)
        slots = self._slots(gone)
        for id_ in gone.tolist():
            del self._slot_of[id_]
        self._low[slots], self._high[slots] = np.inf, -np.inf
        self._free.extend(slots.tolist())

    def rows(self, ids: Any) -> Floats:
        """The subscriptions as they were given, ranges by slot. O(n k)."""
        slots = self._slots(checked_ids(ids))
        attribute = self._attribute[slots].astype(np.float64)
        rows = np.stack([attribute, self._low[slots], self._high[slots]], axis=2)
        rows[attribute == self.attributes] = np.nan
        return rows.reshape(len(slots), -1)

    def match_many(self, values: Any) -> tuple[Ids, Ids]:
        """Ids per event. O(events * held * constraints)."""
        events = many_events(values, self.attributes)
        used = self._used
        columns = self._attribute[:used], self._low[:used], self._high[:used]
        found = [np.sort(self._ids[:used][ranges_hold(event, *columns)]) for event in events]
        ptr = np.zeros(len(events) + 1, np.int64)
        np.cumsum([len(ids) for ids in found], out=ptr[1:])
        self.counters.events += len(events)
        self.counters.verified += len(events) * len(self)
        self.counters.matched += int(ptr[-1])
        return ptr, np.concatenate(found) if found else np.empty(0, np.int64)

    def _slots(self, ids: Ids) -> NDArray[np.int64]:
        return places_of(ids, np.array([self._slot_of.get(id_, -1) for id_ in ids.tolist()], np.int64))

    def memory_bytes(self) -> int:
        """Bytes of the arrays, and about 100 per id for the dictionary."""
        arrays = self._ids, self._attribute, self._low, self._high
        return sum(array.nbytes for array in arrays) + 100 * len(self._slot_of)

    def check(self) -> None:
        """Every invariant. O(slots * constraints)."""
        held = np.array(list(self._slot_of.values()), np.int64)
        both = np.concatenate([held, np.array(self._free, np.int64)])
        claim(np.array_equal(np.sort(both), np.arange(self._used)), "each written slot is held or free, once")
        claim(np.array_equal(self._ids[held], list(self._slot_of)), "a held slot carries its id")
        claim((self._low[held] <= self._high[held]).all(), "held ranges are not empty")
        claim((self._low[self._free] > self._high[self._free]).all(), "free slots match nothing")
        claim(self._used <= len(self._ids) == len(self._attribute) == len(self._low) == len(self._high),
              "all columns are equally long")
        padding = self._attribute[held] == self.attributes
        claim((self._low[held][padding] == -np.inf).all(), "padding is open below")
        claim((self._high[held][padding] == np.inf).all(), "padding is open above")

    def _reserve(self, rows: int, width: int) -> None:
        slots_min = self._used + rows - len(self._free)
        slots = max(len(self._ids), 16)
        while slots < slots_min:
            slots *= 2
        width = max(width, self._attribute.shape[1])
        if (slots, width) == self._attribute.shape:
            return
        used, old = self._used, self._attribute.shape[1]
        attribute = np.full((slots, width), self.attributes, np.int64)
        low, high = np.full((slots, width), -np.inf), np.full((slots, width), np.inf)
        ids = np.full(slots, -1, np.int64)
        attribute[:used, :old], ids[:used] = self._attribute[:used], self._ids[:used]
        low[:used, :old], high[:used, :old] = self._low[:used], self._high[:used]
        # A free slot is empty in every column, new ones included.
        low[self._free], high[self._free] = np.inf, -np.inf
        self._attribute, self._low, self._high, self._ids = attribute, low, high, ids
