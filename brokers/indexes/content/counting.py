"""Counting: a counter per subscription, raised for every bound that holds; whoever has all of them matches.

The algorithm behind Siena's forwarding (Carzaniga and Wolf, SIGCOMM 2003; Yan and Garcia-Molina, 1994): it goes
from constraints to subscriptions. A range is two constraints, `value >= low` and `value <= high`. Per attribute
one column holds the lows in ascending order and one the highs; the lows at or below a value are the front of
the first, the highs at or above it the end of the second. A narrow range that does not hold still has one bound
that does, so partial matches are most of the work: what later structures set out to avoid.

The counters are zeroed for every event rather than stamped, since about half of all bounds hold.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.indexes.content.compiled import CompiledIndex, ranges_of
from brokers.indexes.content.contract import Floats
from brokers.indexes.content.store import Slots
from brokers.indexes.contract import Ids, claim

_STRUCK = np.uint16(65_535)  # more bounds than a subscription can have


class Counting(CompiledIndex):
    """Sorted bounds and counters. Match O(bounds that hold + held)."""

    def _compile(self, slots: Slots) -> None:
        owner, attribute, low, high = ranges_of(self._store, slots)
        self._needed = np.full(len(self._store.ids), _STRUCK, np.uint16)
        self._needed[slots] = 0
        np.add.at(self._needed, owner, np.uint16(2))
        self._starts = np.zeros(self.attributes + 1, np.int64)
        np.cumsum(np.bincount(attribute, minlength=self.attributes), out=self._starts[1:])
        self._lows, self._low_slots = _column(attribute, low, owner, self._starts)
        self._highs, self._high_slots = _column(attribute, high, owner, self._starts)

    def _strike(self, slots: Slots) -> None:
        self._needed[slots] = _STRUCK

    def _lookup(self, events: Floats) -> tuple[Ids, Slots]:
        self.counters.probed += 2 * int((events == events).sum())
        return _count(self._starts, self._lows, self._low_slots, self._highs, self._high_slots, self._needed, events)

    def _structure_bytes(self) -> int:
        columns = self._lows, self._low_slots, self._highs, self._high_slots, self._starts, self._needed
        return sum(column.nbytes for column in columns)

    def _check_structure(self, slots: Slots) -> None:
        owner, attribute, low, high = ranges_of(self._store, slots)
        needed = np.bincount(owner, minlength=len(self._needed))[: len(self._needed)] * 2
        claim(np.array_equal(self._needed[slots], needed[slots]), "each compiled one needs all its bounds")
        others = np.ones(len(self._needed), np.bool_)
        others[slots] = False
        claim((self._needed[others] == _STRUCK).all(), "no other can be found")
        column_of = np.repeat(np.arange(self.attributes), np.diff(self._starts))
        for ends, values, found in (
            (low, self._lows, self._low_slots), (high, self._highs, self._high_slots),
        ):
            same = column_of[1:] == column_of[:-1]
            claim((values[1:] >= values[:-1])[same].all(), "bounds ascend in their column")
            mine = ~others[found]
            entered = np.lexsort((values[mine], column_of[mine], found[mine]))
            stored = np.lexsort((ends, attribute, owner))
            for one, other in ((values, ends), (column_of, attribute), (found, owner)):
                claim(np.array_equal(one[mine][entered], other[stored]), "columns say what the store says")


def _column(
    attribute: NDArray[np.int16], ends: Floats, owner: NDArray[np.int32], starts: Ids
) -> tuple[Floats, NDArray[np.int32]]:
    """Ends and their owners, by attribute and then ascending."""
    by_attribute = np.argsort(attribute, kind="stable")
    values, slots = ends[by_attribute], owner[by_attribute]
    for start, end in pairwise(starts):
        order = np.argsort(values[start:end], kind="stable")
        values[start:end], slots[start:end] = values[start:end][order], slots[start:end][order]
    return values, slots


@njit(cache=True)
def _count(starts, lows, low_slots, highs, high_slots, needed, events):
    counts = np.empty(needed.size, np.uint16)
    ptr = np.zeros(events.shape[0] + 1, np.int64)
    found = np.empty(needed.size, np.int64)
    total = 0
    for e in range(events.shape[0]):
        counts[:] = 0
        for a in range(starts.size - 1):
            value = events[e, a]
            if value != value:
                continue
            start, end = starts[a], starts[a + 1]
            for i in range(start, start + np.searchsorted(lows[start:end], value, "right")):
                counts[low_slots[i]] += 1
            for i in range(start + np.searchsorted(highs[start:end], value, "left"), end):
                counts[high_slots[i]] += 1
        if total + needed.size > found.size:
            larger = np.empty(2 * total + needed.size, np.int64)
            larger[:total] = found[:total]
            found = larger
        for slot in range(needed.size):
            if counts[slot] == needed[slot]:
                found[total] = slot
                total += 1
        ptr[e + 1] = total
    return ptr, found[:total].copy()
