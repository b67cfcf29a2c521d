"""QuickScan: every subscription compared with the event, up to its first range that fails. The honest baseline.

What a program does that knows no index: one pass in Numba over flat arrays, the ranges of a subscription side
by side. A slot that was freed fails at its first range. The pass asks for the ends of later slots ahead of
time, since wide rows are too far apart for the hardware to guess.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from brokers.indexes.content.contract import ContentIndex, Floats, checked_attributes, many_events
from brokers.indexes.content.store import RangeStore, in_order
from brokers.indexes.contract import Ids, WorkCounters
from brokers.indexes.intrinsics import prefetch

_AHEAD = 16  # slots


class QuickScan(ContentIndex):
    """Early-exit scan. Insert and delete O(k) amortised, match O(held), longer where many ranges hold."""

    def __init__(self, attributes: int) -> None:
        self.attributes = checked_attributes(attributes)
        self.counters = WorkCounters()
        self._store = RangeStore(self.attributes)

    def __len__(self) -> int:
        return len(self._store)

    def insert(self, ids: Any, rows: Any) -> None:
        """Add subscriptions. O(k) each, amortised."""
        self._store.insert(*self._store.check_new(ids, rows))

    def delete(self, ids: Any) -> None:
        """Remove subscriptions. O(1) each."""
        self._store.delete(*self._store.slots_of(ids))

    def rows(self, ids: Any) -> Floats:
        """The subscriptions held under these ids. O(k) each."""
        return self._store.rows(self._store.slots_of(ids)[1])

    def match_many(self, values: Any) -> tuple[Ids, Ids]:
        """Ids per event. O(held * ranges) each at worst."""
        events = many_events(values, self.attributes)
        store = self._store
        ptr, ids = _scan(store.ids[: store.used], store.attribute, store.ends, events)
        in_order(ptr, ids)
        self.counters.events += len(events)
        self.counters.verified += len(events) * len(self)
        self.counters.matched += len(ids)
        return ptr, ids

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        return self._store.memory_bytes()

    def check(self) -> None:
        """Every invariant. O(slots * ranges)."""
        self._store.check()


@njit(cache=True)
def _scan(ids, attribute, ends, events):
    ptr = np.zeros(events.shape[0] + 1, np.int64)
    found = np.empty(ids.size, np.int64)
    total = 0
    for e in range(events.shape[0]):
        if total + ids.size > found.size:
            larger = np.empty(2 * total + ids.size, np.int64)
            larger[:total] = found[:total]
            found = larger
        total = _scan_one(ids, attribute, ends, events[e], found, total)
        ptr[e + 1] = total
    return ptr, found[:total].copy()


@njit(cache=True)
def _scan_one(ids, attribute, ends, event, found, total):
    """Append to the first `total` of `found`, which has room for all: growing it in here costs half the speed."""
    width = attribute.shape[1]
    for slot in range(ids.size):
        prefetch(ends, (slot + _AHEAD) * 2 * width)  # type: ignore[call-arg]
        holds = True
        for j in range(width):
            asked = attribute[slot, j]
            if asked < 0:
                break
            value = event[asked]
            if not (ends[slot, 2 * j] <= value and value <= ends[slot, 2 * j + 1]):
                holds = False
                break
        if holds:
            found[total] = ids[slot]
            total += 1
    return total
