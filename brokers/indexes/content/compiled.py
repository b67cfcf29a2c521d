"""What the compiled indexes share: a structure made from all subscriptions at once, and a short list of new ones.

Published structures with sorted columns or packed lists are made once and then only read. To be held to the
contract, they take changes so: a new subscription waits in a list that every event is compared with, a deleted
one is struck out of the structure, and when waiting and struck-out ones are an eighth of the whole, the
structure is made again, at the next match. So an insert or a delete costs O(log n) entries amortised, and the
match that follows many of them costs a compilation.

A new one of this kind says how to compile slots of the store, how to strike them out, and how to look up events.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.indexes.content.contract import ContentIndex, Floats, checked_attributes, many_events
from brokers.indexes.content.store import RangeStore, Slots
from brokers.indexes.contract import Ids, WorkCounters, claim

CHANGES_MIN = 256  # as many may wait whatever the size
CHANGES_SHARE = 8  # and one in so many of the compiled

_FREE, _WAITING, _COMPILED = 0, 1, 2


class CompiledIndex(ContentIndex):
    """Insert and delete O(k) and their share of a compilation; match as the structure does."""

    exact = True  # whether `_lookup` finds nothing that does not match

    def __init__(self, attributes: int) -> None:
        self.attributes = checked_attributes(attributes)
        self.counters = WorkCounters()
        self._store = RangeStore(self.attributes)
        self._state = np.zeros(0, np.int8)  # of each slot
        self._waiting: Slots | None = np.empty(0, np.int64)  # None: to be found again
        self._changes = 0  # waiting ones that came and compiled ones that went since the last compilation
        self._compiled = 0  # how many subscriptions were compiled

    @abstractmethod
    def _compile(self, slots: Slots) -> None:
        """Make the structure from these slots alone. Until it was called nothing else below is."""

    @abstractmethod
    def _strike(self, slots: Slots) -> None:
        """See to it that `_lookup` never finds these compiled slots again."""

    @abstractmethod
    def _lookup(self, events: Floats) -> tuple[Ids, Slots]:
        """The compiled slots that match each event, or may match it, in CSR form."""

    @abstractmethod
    def _structure_bytes(self) -> int:
        """Bytes of what `_compile` made."""

    @abstractmethod
    def _check_structure(self, slots: Slots) -> None:
        """Every invariant of the structure, given the compiled slots that were not struck out."""

    def __len__(self) -> int:
        return len(self._store)

    def insert(self, ids: Any, rows: Any) -> None:
        """Add subscriptions. O(k) each, and a compilation now and then."""
        slots = self._store.insert(*self._store.check_new(ids, rows))
        if len(self._state) < len(self._store.ids):
            state = np.full(len(self._store.ids), _FREE, np.int8)
            state[: len(self._state)] = self._state
            self._state = state
        self._state[slots] = _WAITING
        self._waiting = None
        self._changes += len(slots)

    def delete(self, ids: Any) -> None:
        """Remove subscriptions. O(1) each, and a compilation now and then."""
        gone, slots = self._store.slots_of(ids)
        self._store.delete(gone, slots)
        compiled = slots[self._state[slots] == _COMPILED]
        if compiled.size:
            self._strike(compiled)
        self._state[slots] = _FREE
        self._waiting = None
        self._changes += len(compiled)

    def rows(self, ids: Any) -> Floats:
        """The subscriptions held under these ids. O(k) each."""
        return self._store.rows(self._store.slots_of(ids)[1])

    def match_many(self, values: Any) -> tuple[Ids, Ids]:
        """Ids per event, after a compilation if one is due."""
        events = many_events(values, self.attributes)
        waiting = self._settle()
        if self._compiled:
            ptr, slots = self._lookup(events)
        else:
            ptr, slots = np.zeros(len(events) + 1, np.int64), np.empty(0, np.int64)
        found_ptr, ids = self._store.verified(events, ptr, slots, waiting, self.exact)
        self.counters.events += len(events)
        self.counters.verified += len(events) * len(waiting) + (0 if self.exact else len(slots))
        self.counters.matched += len(ids)
        return found_ptr, ids

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        waiting = 0 if self._waiting is None else self._waiting.nbytes
        structure = self._structure_bytes() if self._compiled else 0
        return self._store.memory_bytes() + self._state.nbytes + waiting + structure

    def check(self) -> None:
        """Every invariant. O(n log n)."""
        self._store.check()
        held = np.sort(self._store.items()[1])
        claim(np.array_equal(np.flatnonzero(self._state), held), "the held slots wait or are compiled")
        compiled = np.flatnonzero(self._state == _COMPILED)
        claim(len(compiled) <= self._compiled, "none is compiled that was not")
        gone = self._compiled - len(compiled)
        claim(len(held) - len(compiled) + gone <= self._changes, "what waits or went was counted")
        if self._waiting is not None:
            found = np.flatnonzero(self._state == _WAITING)
            claim(np.array_equal(self._waiting, found), "the list names those that wait")
        if self._compiled:
            self._check_structure(compiled)

    def _settle(self) -> Slots:
        """Compile if it is due; the slots that wait."""
        if self._changes > max(CHANGES_MIN, self._compiled // CHANGES_SHARE):
            slots = np.flatnonzero(self._state)
            self._compile(slots)
            self._state[slots] = _COMPILED
            self._compiled, self._changes = len(slots), 0
            self._waiting = None
        if self._waiting is None:
            self._waiting = np.flatnonzero(self._state == _WAITING)
        return self._waiting


class Grid:
    """Equal cells between the smallest and the largest finite end of each attribute. Monotone, never outside."""

    def __init__(self, store: RangeStore, slots: Slots, cells: int) -> None:
        self.cells = cells
        attribute, low, high = ranges_of(store, slots)[1:]
        smallest, largest = (np.full(store.attributes, sign * np.inf) for sign in (1, -1))
        for ends in (low, high):
            finite = np.isfinite(ends)
            np.minimum.at(smallest, attribute[finite], ends[finite])
            np.maximum.at(largest, attribute[finite], ends[finite])
        none = smallest > largest
        smallest[none], largest[none] = 0.0, 1.0
        # Halves, since a difference of two floats may overflow.
        self._start = 0.5 * smallest
        self._span = 0.5 * largest - self._start
        self._span[self._span == 0] = 1.0

    def cells_of(self, values: Floats, attribute: NDArray[Any]) -> NDArray[np.int32]:
        """The cell of each value on its attribute; -1 for a missing one."""
        with np.errstate(over="ignore"):  # far beyond a narrow span is at its end
            place = (0.5 * values - self._start[attribute]) / self._span[attribute]
        missing = place != place
        place[missing] = 0.0
        cells = np.minimum((np.clip(place, 0.0, 1.0) * self.cells).astype(np.int32), self.cells - 1)
        cells[missing] = -1
        return cells


def ranges_of(store: RangeStore, slots: Slots) -> tuple[NDArray[np.int32], NDArray[np.int16], Floats, Floats]:
    """All ranges of these slots as columns: slot, attribute, low, high; by slot as given."""
    attribute = store.attribute[slots]
    there = np.logical_and.accumulate(attribute >= 0, axis=1)
    ends = store.ends[slots]
    owner = np.repeat(slots.astype(np.int32), there.sum(axis=1))
    return owner, attribute[there], ends[:, 0::2][there], ends[:, 1::2][there]
