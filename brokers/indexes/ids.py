"""Ids to slots: a hash table of flat arrays, 12 bytes per place, no Python object per id.

Open addressing with linear probing. A removal shifts later entries back instead of leaving a tombstone,
so that a table under churn stays as fast as a fresh one. At most three places in five are taken.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import EndlessWalk
from brokers.indexes.contract import Ids, claim
from brokers.indexes.space import array

_EMPTY = -1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_PLACES_MIN = 8


class IdMap:
    """Distinct non-negative int64 ids, each with a slot below 2**31."""

    def __init__(self) -> None:
        self._make(_PLACES_MIN)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def find(self, ids: Ids) -> NDArray[np.int64]:
        """The slot of each id, -1 where there is none. O(1) expected per id."""
        return _find(self.keys, self.slots, ids)

    def add(self, ids: Ids, slots: NDArray[np.int64]) -> None:
        """Enter ids that are absent and distinct. O(1) expected and amortised per id."""
        count = self._count + len(ids)
        if 5 * count > 3 * len(self.keys):
            places = len(self.keys)
            while 5 * count > 3 * places:
                places *= 2
            taken = self.keys != _EMPTY
            old_ids, old_slots = self.keys[taken], self.slots[taken].astype(np.int64)
            self._make(places)
            _add(self.keys, self.slots, old_ids, old_slots)
        _add(self.keys, self.slots, ids, slots)
        self._count = count

    def _make(self, places: int) -> None:
        self.keys = array((places,), np.int64, _EMPTY)
        self.slots = array((places,), np.int32)

    def remove(self, ids: Ids) -> None:
        """Remove ids that are present and distinct. O(1) expected per id."""
        _remove(self.keys, self.slots, ids)
        self._count -= len(ids)

    def taken(self) -> None:
        """`take_one` has removed an id."""
        self._count -= 1

    def take(self, ids: Ids) -> NDArray[np.int64]:
        """Remove these distinct ids and return their slots; if one is absent its slot is -1, and none is removed."""
        slots: NDArray[np.int64] = _take(self.keys, self.slots, ids)
        if not (slots[0] < 0 if len(ids) == 1 else (slots < 0).any()):
            self._count -= len(ids)
        return slots

    def items(self) -> tuple[Ids, NDArray[np.int64]]:
        """All (ids, slots), in no order. O(places)."""
        taken = self.keys != _EMPTY
        return self.keys[taken], self.slots[taken].astype(np.int64)

    def memory_bytes(self) -> int:
        return self.keys.nbytes + self.slots.nbytes

    def check(self) -> None:
        """Every invariant. O(places)."""
        ids, slots = self.items()
        claim(len(ids) == self._count, "the table holds as many ids as it counts")
        claim(len(np.unique(ids)) == len(ids), "no id stands in two places")
        claim(np.array_equal(self.find(ids), slots), "every id is reached from its own place")
        claim(5 * self._count <= 3 * len(self.keys), "at most three places in five are taken")


@njit(inline="always", cache=True)
def _place_of(key, mask):
    # The upper half of the product depends on all lower bits of the id.
    return np.int64((np.uint64(key) * _GOLDEN) >> _HALF) & mask


@njit(inline="always")
def find_one(keys, slots, id_):
    """The slot of an id, for kernels of others; -1 where there is none."""
    mask = keys.size - 1
    place = _place_of(id_, mask)
    for _ in range(keys.size):
        if keys[place] == _EMPTY or keys[place] == id_:
            break
        place = (place + 1) & mask
    else:
        raise EndlessWalk("a table of ids is full")
    return np.int64(slots[place]) if keys[place] == id_ and id_ != _EMPTY else np.int64(-1)


@njit(cache=True)
def _find(keys, slots, ids):
    out = np.empty(ids.size, np.int64)
    for i in range(ids.size):
        out[i] = find_one(keys, slots, ids[i])
    return out


@njit(cache=True)
def _add(keys, slots, ids, new_slots):
    mask = keys.size - 1
    for i in range(ids.size):
        place = _place_of(ids[i], mask)
        for _ in range(keys.size):
            if keys[place] == _EMPTY:
                break
            place = (place + 1) & mask
        else:
            raise EndlessWalk("a table of ids is full")
        keys[place] = ids[i]
        slots[place] = new_slots[i]


@njit(cache=True)
def _remove(keys, slots, ids):
    mask = keys.size - 1
    for i in range(ids.size):
        hole = _place_of(ids[i], mask)
        for _ in range(keys.size):
            if keys[hole] == ids[i]:
                break
            hole = (hole + 1) & mask
        else:
            raise EndlessWalk("an id to remove is not in its table")
        place = (hole + 1) & mask
        for _ in range(keys.size):
            if keys[place] == _EMPTY:
                break
            home = _place_of(keys[place], mask)
            # The entry may move back only if its home does not lie between the hole and where it stands.
            if ((place - home) & mask) >= ((place - hole) & mask):
                keys[hole] = keys[place]
                slots[hole] = slots[place]
                hole = place
            place = (place + 1) & mask
        else:
            raise EndlessWalk("a table of ids is full")
        keys[hole] = _EMPTY


@njit(cache=True)
def take_one(keys, slots, ids):
    """Remove the only id and return its slot, for kernels of others; -1 if it is absent."""
    return _take(keys, slots, ids)[0]


@njit(cache=True)
def _take(keys, slots, ids):
    found = _find(keys, slots, ids)
    for i in range(found.size):
        if found[i] < 0:
            return found
    _remove(keys, slots, ids)
    return found
