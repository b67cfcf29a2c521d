"""Objects or subscriptions in slots of flat arrays: id, point, keywords. Freed slots are used again."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from brokers.indexes.contract import DuplicateId, Ids, UnknownId, claim
from brokers.indexes.ids import IdMap
from brokers.indexes.spatial.geometry import Floats
from brokers.indexes.spatial.words import KeywordSets, Words

Slots = NDArray[np.int64]

NONE = -1
_SLOTS_MIN = 16


class Items:
    """What an index holds of one sort; `what` names it in errors."""

    def __init__(self, what: str, axes: int) -> None:
        self.what = what
        self.ids = np.full(_SLOTS_MIN, NONE, np.int64)
        self.points = np.zeros((_SLOTS_MIN, axes))
        self.words = np.full((_SLOTS_MIN, 1), NONE, np.int32)  # ascending, then NONE
        self._slot_of = IdMap()
        self._free = array("q")
        self.used = 0  # slots from here on were never written

    def __len__(self) -> int:
        return len(self._slot_of)

    def find(self, ids: Ids) -> Slots:
        """The slot of each id, NONE where it is not held. O(1) each."""
        return self._slot_of.find(ids)

    def held(self, ids: Ids) -> Slots:
        """The slot of each id, or UnknownId."""
        slots = self.find(ids)
        if (slots < 0).any():
            raise UnknownId(f"id {ids[slots < 0][0]} is not among the {self.what}")
        return slots

    def all_slots(self) -> Slots:
        """The slots in use, by ascending id. O(n log n)."""
        ids, slots = self._slot_of.items()
        return slots[np.argsort(ids, kind="stable")]

    def refuse_held(self, ids: Ids) -> None:
        """DuplicateId if one of the ids is held. O(1) each."""
        held = self.find(ids) >= 0
        if held.any():
            raise DuplicateId(f"id {ids[held][0]} is among the {self.what} already; remove it first")

    def add(self, ids: Ids, points: Floats, sets: KeywordSets) -> Slots:
        """Enter items that are not held. O(keywords), amortised."""
        if len(ids) == 1:
            return self._add_one(ids, points[0], sets.words)
        lengths = np.diff(sets.ptr)
        reused = min(len(ids), len(self._free))
        self._reserve(self.used + len(ids) - reused, int(lengths.max(initial=1)))
        slots = np.empty(len(ids), np.int64)
        if reused:
            slots[:reused] = self._free[-reused:]
            del self._free[-reused:]
        slots[reused:] = np.arange(self.used, self.used + len(ids) - reused)
        self.used += len(ids) - reused
        self._slot_of.add(ids, slots)
        self.ids[slots], self.points[slots], self.words[slots] = ids, points, NONE
        row = np.repeat(np.arange(len(ids)), lengths)
        self.words[slots[row], np.arange(len(sets.words)) - sets.ptr[row]] = sets.words
        return slots

    def _add_one(self, ids: Ids, point: Floats, words: Words) -> Slots:
        """As `add`, without making columns of one number each."""
        self._reserve(self.used + (not self._free), max(1, len(words)))
        if self._free:
            slot = self._free.pop()
        else:
            slot = self.used
            self.used += 1
        slots = np.array([slot], np.int64)
        self._slot_of.add(ids, slots)
        self.ids[slot], self.points[slot] = ids[0], point
        row = self.words[slot]
        row[: len(words)], row[len(words) :] = words, NONE
        return slots

    def remove(self, slots: Slots) -> None:
        """Forget items. O(1) each."""
        self._slot_of.remove(self.ids[slots])
        self.ids[slots] = NONE
        self._free.frombytes(slots.tobytes())

    def memory_bytes(self) -> int:
        arrays = self.ids, self.points, self.words
        return sum(a.nbytes for a in arrays) + self._slot_of.memory_bytes() + 8 * len(self._free)

    def check(self) -> None:
        """Every invariant. O(slots * keywords)."""
        self._slot_of.check()
        ids, slots = self._slot_of.items()
        both = np.concatenate([slots, np.array(self._free, np.int64)])
        claim(np.array_equal(np.sort(both), np.arange(self.used)), "each written slot is held or free, once")
        claim(np.array_equal(self.ids[slots], ids), "a held slot carries its id")
        claim(len(self.ids) == len(self.points) == len(self.words) >= self.used, "columns are equally long")
        words = self.words[slots]
        claim((words[:, 0] >= 0).all(), "every item has a keyword")
        rising = (words[:, 1:] > words[:, :-1]) | (words[:, 1:] == NONE)
        claim(rising.all(), "keywords ascend, nothing stands behind the last")

    def _reserve(self, slots: int, width: int) -> None:
        rows, columns = self.words.shape
        larger = max(rows, 1 << max(0, slots - 1).bit_length())
        if larger > rows:
            self.ids = _grown(self.ids, (larger,), NONE)
            self.points = _grown(self.points, (larger, self.points.shape[1]), 0)
        if larger > rows or width > columns:
            self.words = _grown(self.words, (larger, max(width, columns)), NONE)


def _grown(old: NDArray, shape: tuple[int, ...], padding: int) -> NDArray:
    new = np.full(shape, padding, old.dtype)
    new[tuple(slice(0, size) for size in old.shape)] = old
    return new
