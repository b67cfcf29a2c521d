"""Where an index keeps subscriptions: ids in slots, their ranges side by side in flat arrays.

A subscription has a slot for as long as it is held; the slot of a deleted one is used again. In slot `s`

- `ids[s]` is the id, -1 if the slot is free;
- `attribute[s, j]` is the attribute of range `j`, -1 after the last;
- `ends[s, 2j]` and `ends[s, 2j + 1]` are its ends.

A free slot has one range that no value satisfies, so that a scan needs no test for it. Every slot has room
for as many ranges as the subscription that has most.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.indexes.content.contract import Floats, checked_rows, places_of
from brokers.indexes.contract import DuplicateId, Ids, checked_ids, claim
from brokers.indexes.ids import IdMap
from brokers.indexes.intrinsics import trailing_zeros

Slots = NDArray[np.int64]

_SLOTS_MIN = 16


class RangeStore:
    """Subscriptions by id and by slot. Everything O(k) per subscription, growth amortised."""

    def __init__(self, attributes: int) -> None:
        self.attributes = attributes
        self.used = 0  # slots from here on were never written
        self.ids = np.full(_SLOTS_MIN, -1, np.int64)
        self.attribute = np.full((_SLOTS_MIN, 1), -1, np.int16)
        self.ends = np.zeros((_SLOTS_MIN, 2))
        self._slot_of = IdMap()
        self._free = array("q")

    def __len__(self) -> int:
        return len(self._slot_of)

    def check_new(self, ids: Any, rows: Any) -> tuple[Ids, Floats]:
        """What `insert` may take: ids that are not held, and good rows; or an error, before anything changed."""
        fresh = checked_ids(ids)
        checked = checked_rows(rows, self.attributes, len(fresh))
        known = self._slot_of.find(fresh) >= 0
        if known.any():
            raise DuplicateId(f"id {fresh[known][0]} is in the index already; delete it first")
        return fresh, checked

    def insert(self, ids: Ids, rows: Floats) -> Slots:
        """Enter what `check_new` returned; the slots, ascending where they are new."""
        reused = min(len(ids), len(self._free))
        slots = np.empty(len(ids), np.int64)
        if reused:
            slots[:reused] = np.sort(np.array(self._free[-reused:], np.int64))
            del self._free[-reused:]
        used = self.used + len(ids) - reused
        slots[reused:] = np.arange(self.used, used)
        self._reserve(used, rows)
        self.used = used
        _write(self.ids, self.attribute, self.ends, slots, ids, rows)
        self._slot_of.add(ids, slots)
        return slots

    def slots_of(self, ids: Any) -> tuple[Ids, Slots]:
        """Ids that are held and their slots, or an error naming one that is not."""
        known = checked_ids(ids)
        return known, places_of(known, self._slot_of.find(known))

    def delete(self, ids: Ids, slots: Slots) -> None:
        """Forget what `slots_of` returned. The slots still say what they held until `insert` uses them again,
        but for their first range, which is empty now."""
        self._slot_of.remove(ids)
        self.ids[slots] = -1
        self.attribute[slots, 0] = 0
        self.ends[slots, 0], self.ends[slots, 1] = np.inf, -np.inf
        self._free.frombytes(slots.tobytes())

    def rows(self, slots: Slots) -> Floats:
        """The subscriptions in slots that are held, as the contract writes them."""
        attribute = self.attribute[slots].astype(np.float64)
        rows = np.stack([attribute, self.ends[slots, 0::2], self.ends[slots, 1::2]], axis=2)
        rows[np.logical_or.accumulate(attribute < 0, axis=1)] = np.nan
        return np.ascontiguousarray(rows.reshape(len(slots), 3 * attribute.shape[1]))

    def verified(
        self, events: Floats, ptr: Ids, candidates: Slots, always: Slots, sure: bool = False
    ) -> tuple[Ids, Ids]:
        """The ids, ascending, that match each event, of its candidate slots (in CSR form) and those in `always`.

        `sure` takes the candidates unseen.
        """
        arrays = self.ids, self.attribute, self.ends
        return _verified(*arrays, events, ptr, candidates, always, sure)

    def memory_bytes(self) -> int:
        arrays = self.ids, self.attribute, self.ends
        free = self._free.itemsize * len(self._free)
        return sum(array.nbytes for array in arrays) + free + self._slot_of.memory_bytes()

    def items(self) -> tuple[Ids, Slots]:
        """All ids and their slots, in no order."""
        return self._slot_of.items()

    def check(self) -> None:
        """Every invariant. O(slots * ranges)."""
        self._slot_of.check()
        ids, held = self.items()
        free = np.array(self._free, np.int64)
        both = np.sort(np.concatenate([held, free]))
        claim(np.array_equal(both, np.arange(self.used)), "each written slot is held or free, once")
        claim(self.used <= len(self.ids) == len(self.attribute) == len(self.ends), "columns are equally long")
        claim(2 * self.attribute.shape[1] == self.ends.shape[1], "each range has two ends")
        claim(np.array_equal(self.ids[held], ids), "a held slot carries its id")
        claim((self.ids[free] == -1).all(), "a free slot carries none")
        claim((self.ends[free, 0] > self.ends[free, 1]).all() and (self.attribute[free, 0] >= 0).all(),
              "a free slot matches nothing")
        rows = self.rows(held)
        claim(np.array_equal(checked_rows(rows, self.attributes), rows, equal_nan=True), "held rows are good")

    def _reserve(self, used: int, rows: Floats) -> None:
        slots, width = self.attribute.shape
        while slots < used:
            slots *= 2
        if rows.shape[1] > 3 * width:
            width = max(width, int((rows[:, 0::3] == rows[:, 0::3]).sum(axis=1).max(initial=0)))
        if (slots, width) == self.attribute.shape:
            return
        n, old = self.used, self.attribute.shape[1]
        ids, attribute = np.full(slots, -1, np.int64), np.full((slots, width), -1, np.int16)
        ends = np.zeros((slots, 2 * width))
        ids[:n], attribute[:n, :old], ends[:n, : 2 * old] = self.ids[:n], self.attribute[:n], self.ends[:n]
        self.ids, self.attribute, self.ends = ids, attribute, ends


def in_order(ptr: Ids, ids: Ids) -> Ids:
    """Sort the ids of each event in place, where they are not. No id may be there twice for one event."""
    if len(ids) > 1:
        for i in _not_in_order(ptr, ids):
            ids[ptr[i] : ptr[i + 1]].sort()
    return ids


# ---- kernels: one family, compiled together ----------------------------------------------------------


@njit(cache=True)
def _write(ids, attribute, ends, slots, new_ids, rows):
    for i in range(slots.size):
        slot = slots[i]
        ids[slot] = new_ids[i]
        count = 0
        for c in range(0, rows.shape[1], 3):
            if rows[i, c] == rows[i, c]:
                attribute[slot, count] = np.int16(rows[i, c])
                ends[slot, 2 * count] = rows[i, c + 1]
                ends[slot, 2 * count + 1] = rows[i, c + 2]
                count += 1
        attribute[slot, count:] = -1


@njit(cache=True)
def _verified(ids, attribute, ends, events, ptr, candidates, always, sure):
    out_ptr = np.zeros_like(ptr)
    out = np.empty(candidates.size + always.size, np.int64)
    total = 0
    for e in range(events.shape[0]):
        mine = candidates[ptr[e] : ptr[e + 1]]
        if total + mine.size + always.size > out.size:
            larger = np.empty(2 * out.size, np.int64)
            larger[:total] = out[:total]
            out = larger
        if sure:
            for i in range(mine.size):
                out[total + i] = ids[mine[i]]
            total += mine.size
        else:
            total = _matching(ids, attribute, ends, events[e], mine, out, total)
        total = _matching(ids, attribute, ends, events[e], always, out, total)
        out_ptr[e + 1] = total
    out = out[:total].copy()
    _in_order(out_ptr, out)
    return out_ptr, out


@njit(cache=True)
def _matching(ids, attribute, ends, event, slots, out, total):
    """Append to the first `total` of `out` the ids of those slots that match."""
    for i in range(slots.size):
        slot = slots[i]
        holds = True
        for j in range(attribute.shape[1]):
            asked = attribute[slot, j]
            if asked < 0:
                break
            value = event[asked]
            if not (ends[slot, 2 * j] <= value and value <= ends[slot, 2 * j + 1]):
                holds = False
                break
        if holds:
            out[total] = ids[slot]
            total += 1
    return total


@njit(cache=True)
def _in_order(ptr, ids):
    for e in range(ptr.size - 1):
        for i in range(ptr[e] + 1, ptr[e + 1]):
            if ids[i] < ids[i - 1]:
                ids[ptr[e] : ptr[e + 1]].sort()
                break


@njit(cache=True)
def _not_in_order(ptr, ids):
    """Sort the ids of those events where it is quick; returns the others whose ids are not in order.

    Ids that lie close together are marked in a set of bits and read from it.
    """
    left = np.empty(ptr.size - 1, np.int64)
    count = 0
    for e in range(ptr.size - 1):
        start, end = ptr[e], ptr[e + 1]
        ordered, low, high = True, ids[start] if end > start else 0, np.int64(0)
        for i in range(start, end):
            ordered &= ids[i] >= high
            low, high = min(low, ids[i]), max(high, ids[i])
        if ordered:
            continue
        words = ((high - low) >> 6) + 1
        if words > 2 * (end - start):
            left[count] = e
            count += 1
            continue
        bits = np.zeros(words, np.uint64)
        for i in range(start, end):
            bits[(ids[i] - low) >> 6] |= np.uint64(1) << np.uint64((ids[i] - low) & 63)
        at = start
        for word in range(words):
            rest = bits[word]
            while rest != 0:
                ids[at] = low + (word << 6) + np.int64(trailing_zeros(rest))  # type: ignore[call-arg]
                at += 1
                rest &= rest - np.uint64(1)
    return left[:count]
