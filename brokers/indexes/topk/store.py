"""The filters of a compiled index: one slot each in flat arrays, and what the indexes on them share."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.indexes.content.contract import checked_attributes
from brokers.indexes.contract import DuplicateId, Ids, UnknownId, WorkCounters, checked_ids, claim
from brokers.indexes.ids import IdMap
from brokers.indexes.space import grown
from brokers.indexes.topk.contract import (
    Floats,
    Query,
    RankedIndex,
    RankedMessage,
    Ranking,
    checked_message,
    ranked,
)
from brokers.indexes.topk.rows import Filters, checked_filters, checked_weights, places_of, rows_of

Slots = NDArray[np.int64]

_SLOTS_MIN = 16
# By receiver, a filter that enters the heap is looked for in it; beyond this many, ranking all is faster.
RECEIVERS_MAX = 1 << 10

_NONE = np.empty(0)


class Store:
    """Filters in slots. A free slot has no constraints, so its score is 0 and it is never ranked."""

    def __init__(self) -> None:
        self.slot_of = IdMap()
        self.used = 0  # slots from here on were never written
        self.free = array("q")
        self.ids = np.empty(0, np.int64)
        self.receivers = np.empty(0, np.int64)
        self.attribute = np.empty((0, 1), np.int16)  # ascending; -1 behind the last constraint
        self.ends = np.empty((0, 2))  # low and high of each constraint, side by side
        self.weight = np.empty((0, 1))

    def __len__(self) -> int:
        return len(self.slot_of)

    def absent(self, filters: Filters) -> None:
        """Refuse filters whose ids are held."""
        known = self.slot_of.find(filters.ids) >= 0
        if known.any():
            raise DuplicateId(f"id {filters.ids[known][0]} is in the index already; delete it first")

    def find(self, ids: Ids) -> Slots:
        """The slots of ids, or UnknownId."""
        slots = self.slot_of.find(ids)
        if slots.item() < 0 if len(slots) == 1 else (slots < 0).any():
            raise UnknownId(f"id {ids[slots < 0][0]} is not in the index")
        return slots

    def add(self, filters: Filters) -> Slots:
        """Put filters into slots, free ones first. O(c) amortised per filter."""
        count = len(filters.ids)
        reused = min(count, len(self.free))
        slots = np.empty(count, np.int64)
        if reused:
            slots[:reused] = np.sort(np.array(self.free[-reused:], np.int64))
            del self.free[-reused:]
        slots[reused:] = np.arange(self.used, self.used + count - reused)
        return self.put(filters, slots)

    def take(self, place: int) -> int:
        """Slot number `place` of the free ones, which is no longer free. O(1)."""
        slot = self.free[place]
        self.free[place] = self.free[-1]
        self.free.pop()
        return slot

    def put(self, filters: Filters, slots: Slots) -> Slots:
        """Put filters into slots that were taken, or follow the last one used. O(c) amortised per filter."""
        self.used = max(self.used, int(slots.max(initial=-1)) + 1)
        self.reserve(self.used, filters.width)
        self.slot_of.add(filters.ids, slots)
        _write(self.ids, self.receivers, self.attribute, self.ends, self.weight, slots, *filters)
        return slots

    def remove(self, ids: Ids, slots: Slots) -> None:
        """Free the slots of ids. O(1) each."""
        self.slot_of.remove(ids)
        where = slots.item() if len(slots) == 1 else slots  # by a number takes a fifth of the time
        self.attribute[where, 0] = -1
        self.ids[where] = -1
        self.free.frombytes(slots.tobytes())

    def rearrange(self, first: int, last: int, order: Slots) -> None:
        """Put what is held in first..last, in the slots `order`, at its front in that order."""
        filters = self.filters(order)
        self.slot_of.remove(filters.ids)
        self.slot_of.add(filters.ids, np.arange(first, first + len(order)))
        free = np.array(self.free, np.int64)
        elsewhere = free[(free < first) | (free >= last)]
        self.free = array("q", np.concatenate([elsewhere, np.arange(first + len(order), last)]).tobytes())
        _write(self.ids, self.receivers, self.attribute, self.ends, self.weight,
               np.arange(first, first + len(order)), *filters)
        self.attribute[first + len(order) : last, 0] = -1
        self.ids[first + len(order) : last] = -1

    def filters(self, slots: Slots) -> Filters:
        """What stands in slots."""
        return Filters(
            self.ids[slots], self.receivers[slots], self.attribute[slots], self.ends[slots, 0::2],
            self.ends[slots, 1::2], self.weight[slots],
        )

    def reserve(self, slots: int, width: int) -> None:
        """Room for so many slots and constraints."""
        held, old_width = self.attribute.shape
        width = max(width, old_width)
        if slots <= held and width == old_width:
            return
        if slots <= held:
            slots = held
        else:
            slots = max(slots, 2 * held, _SLOTS_MIN)
        self.ids = grown(self.ids, (slots,), -1)
        self.receivers = grown(self.receivers, (slots,), 0)
        self.attribute = grown(self.attribute, (slots, width), -1)
        self.ends = grown(self.ends, (slots, 2 * width), np.nan)
        self.weight = grown(self.weight, (slots, width), 0.0)

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        columns = self.ids, self.receivers, self.attribute, self.ends, self.weight
        free = self.free.itemsize * len(self.free)
        return sum(column.nbytes for column in columns) + self.slot_of.memory_bytes() + free

    def check(self) -> None:
        """Every invariant. O(slots * constraints)."""
        self.slot_of.check()
        ids, held = self.slot_of.items()
        free = np.array(self.free, np.int64)
        claim(np.array_equal(np.sort(np.concatenate([held, free])), np.arange(self.used)),
              "each written slot is held or free, once")
        claim(np.array_equal(self.ids[held], ids), "a held slot carries its id")
        claim((self.attribute[free, 0] == -1).all(), "a free slot has no constraints")
        claim((self.ids[free] == -1).all(), "a free slot has no id")
        attribute, low, high = self.attribute[held], self.ends[held, 0::2], self.ends[held, 1::2]
        real = attribute >= 0
        claim((real[:, :-1] | ~real[:, 1:]).all(), "padding comes last")
        claim((attribute[:, 1:] > attribute[:, :-1])[real[:, 1:]].all(), "attributes ascend")
        claim((low <= high)[real].all(), "ranges are not empty")
        claim(np.isfinite(self.weight[held]).all(), "weights are finite")


class StoredIndex(RankedIndex):
    """An index over a store. It is told what changes, and answers `_top` and `_at_least`."""

    def __init__(self, attributes: int) -> None:
        self.attributes = checked_attributes(attributes)
        self.counters = WorkCounters()
        self._store = Store()

    def __len__(self) -> int:
        return len(self._store)

    def insert(self, ids: Any, rows: Any, receivers: Any = None) -> None:
        """Add filters; see the class for the cost."""
        filters = checked_filters(ids, rows, receivers, self.attributes)
        self._store.absent(filters)
        self._add(filters)

    def delete(self, ids: Any) -> None:
        """Remove filters; see the class for the cost."""
        gone = checked_ids(ids)
        slots = self._store.find(gone)
        self._removing(slots)
        self._store.remove(gone, slots)

    def set_weights(self, ids: Any, attributes: Any, weights: Any) -> None:
        """Change weights in place; see the class for the cost."""
        named, asked, fresh = checked_weights(ids, attributes, weights)
        slots = self._store.find(named)
        places = places_of(named, asked, self._store.attribute[slots])
        self._store.weight[slots, places] = fresh
        self._reweighted(slots, places)

    def best(self, message: RankedMessage, query: Query) -> Ranking:
        """The first k + 1, and all that tie with the k-th if the query wants them."""
        asked = checked_message(message, self.attributes)
        self.counters.events += 1
        found = self._best(asked, query)
        self.counters.matched += len(found.ids)
        return found

    def rows(self, ids: Any) -> Floats:
        """The filters held under these ids. O(c) each."""
        filters = self._store.filters(self._store.find(checked_ids(ids)))
        return rows_of(filters.attribute, filters.low, filters.high, filters.weight)

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        return self._store.memory_bytes()

    def check(self) -> None:
        """Every invariant of the store."""
        self._store.check()

    def _best(self, message: RankedMessage, query: Query) -> Ranking:
        k = query.k
        if k is None or (query.unit == "receiver" and k > RECEIVERS_MAX):
            return ranked(*self._at_least(message, query, 0.0), query)
        if k <= 0:
            return _NOTHING
        # A small integer type, and no more places than there are filters, however large k is.
        top = self._top(message, query, int(min(k, len(self)) + 1))
        if query.ties == "all" and len(top.ids) > k and top.scores[k] == top.scores[k - 1]:
            return ranked(*self._at_least(message, query, float(top.scores[k])), query)
        return top

    def _add(self, filters: Filters) -> None:
        """Enter filters that were checked."""
        self._added(self._store.add(filters))

    def _added(self, slots: Slots) -> None:
        """These slots were filled."""

    def _removing(self, slots: Slots) -> None:
        """These slots are about to be emptied."""

    def _reweighted(self, slots: Slots, places: Slots) -> None:
        """The weights of these constraints, one per slot, have changed."""

    @abstractmethod
    def _top(self, message: RankedMessage, query: Query, count: int) -> Ranking:
        """The first `count` filters (or receivers), ranked."""

    @abstractmethod
    def _at_least(self, message: RankedMessage, query: Query, floor: float) -> Ranking:
        """All filters that score at least `floor` and above the threshold, in any order."""


_NOTHING = Ranking(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64))


def sent_weights(message: RankedMessage) -> Floats:
    """The message's weights as the kernels expect them: empty if it brings none."""
    return _NONE if message.weights is None else message.weights


def exclusion(query: Query) -> tuple[bool, int]:
    """Whether a receiver is excluded, and which, as the kernels expect it."""
    return query.exclude is not None, int(query.exclude or 0)


@njit(cache=True)
def _write(ids, receivers, attribute, ends, weight, slots, new_ids, owners, attributes, low, high, weights):
    for i in range(slots.size):
        slot = slots[i]
        ids[slot], receivers[slot] = new_ids[i], owners[i]
        attribute[slot, :] = -1
        for j in range(attributes.shape[1]):
            attribute[slot, j], weight[slot, j] = attributes[i, j], weights[i, j]
            ends[slot, 2 * j], ends[slot, 2 * j + 1] = low[i, j], high[i, j]
