"""The store of subscriptions with a short way for calls that name one.

A call for a single subscription spends most of its time on checks made for many. The short way takes exactly
what needs no conversion and is right; everything else, each error included, goes the long way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from brokers.indexes.content.contract import Floats
from brokers.indexes.content.store import RangeStore, Slots
from brokers.indexes.contract import Ids

# NumPy has one object for each; to compare by identity takes a tenth of the time.
_INT64, _FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)


class SingleStore(RangeStore):
    """A RangeStore, faster for one subscription per call."""

    def check_new(self, ids: Any, rows: Any) -> tuple[Ids, Floats]:
        """As in RangeStore."""
        if (
            _is_one_id(ids)
            and type(rows) is np.ndarray and rows.dtype is _FLOAT64 and rows.ndim == 2 and rows.flags.carray
            and _is_good(rows, self.attributes)
            and self._slot_of.find(ids).item() < 0
        ):
            return ids, rows
        return super().check_new(ids, rows)

    def insert(self, ids: Ids, rows: Floats) -> Slots:
        """As in RangeStore."""
        if len(ids) != 1:
            return super().insert(ids, rows)
        if self._free:
            slot, used = self._free.pop(), self.used
        else:
            slot, used = self.used, self.used + 1
        self._reserve(used, rows)
        self.used = used
        slots = np.array((slot,), np.int64)
        _write_one(self.ids, self.attribute, self.ends, slot, ids, rows)
        self._slot_of.add(ids, slots)
        return slots

    def slots_held(self, ids: Ids) -> Slots:
        """The slots of those of these ids that are held, each once."""
        slots = self._slot_of.find(np.unique(ids[ids >= 0]))
        return slots[slots >= 0]

    def take(self, ids: Any) -> Slots | None:
        """Forget one id, as `delete` does, and return its slot; None, and nothing done, where this cannot."""
        if not _is_one_id(ids):
            return None
        slots = self._slot_of.take(ids)
        slot = slots.item()
        if slot < 0:
            return None
        self.ids[slot] = -1
        self.attribute[slot, 0] = 0
        self.ends[slot, 0], self.ends[slot, 1] = np.inf, -np.inf
        self._free.append(slot)
        return slots


def _is_one_id(ids: Any) -> bool:
    """Whether these are an array as the kernels take it, of one id that is not negative."""
    if type(ids) is np.ndarray and ids.dtype is _INT64 and ids.shape == (1,):
        return bool(ids.flags.carray and ids.item() >= 0)
    return False


@njit(cache=True)
def _is_good(rows, attributes):
    """Whether there is one row, and `insert` may take it; False may also mean: look closer."""
    if rows.shape[0] != 1 or rows.shape[1] % 3:
        return False
    for c in range(0, rows.shape[1], 3):
        attribute, low, high = rows[0, c], rows[0, c + 1], rows[0, c + 2]
        if attribute != attribute:
            if low == low or high == high:
                return False
            continue
        # Written so that a NaN fails.
        if not (0 <= attribute < attributes and attribute == np.floor(attribute) and low <= high):
            return False
        for earlier in range(0, c, 3):
            if rows[0, earlier] == attribute:
                return False
    return True


@njit(cache=True)
def _write_one(ids, attribute, ends, slot, new_ids, rows):
    ids[slot] = new_ids[0]
    count = 0
    for c in range(0, rows.shape[1], 3):
        if rows[0, c] == rows[0, c]:
            attribute[slot, count] = np.int16(rows[0, c])
            ends[slot, 2 * count] = rows[0, c + 1]
            ends[slot, 2 * count + 1] = rows[0, c + 2]
            count += 1
    attribute[slot, count:] = -1
