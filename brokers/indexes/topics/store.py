"""Where an index keeps filters as they are: ids in slots, their levels one behind the other.

Filters take as much room as they have levels, so that a pass over all of them reads no padding. A filter that is
removed leaves a gap, whose id is -1 and whose levels stay, until the slots are arranged anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.indexes.contract import DuplicateId, Ids, checked_ids, claim
from brokers.indexes.ids import IdMap
from brokers.indexes.topics.contract import Rows, checked_filters, held
from brokers.indexes.topics.level_kernels import depth_of
from brokers.indexes.topics.syntax import PADDING

Slots = NDArray[np.int64]

GAP = -1
_ROOM_MIN = 64


class FilterStore:
    """Filters by id and by slot. Everything O(levels) per filter, growth amortised."""

    def __init__(self) -> None:
        self.slot_of = IdMap()
        self.used = 0  # slots, gaps included
        self.ids = np.full(_ROOM_MIN, GAP, np.int64)
        self.start = np.zeros(_ROOM_MIN + 1, np.int64)  # of the levels of each slot, and the end of the last
        self.levels = np.empty(_ROOM_MIN, np.int32)

    def __len__(self) -> int:
        return len(self.slot_of)

    @property
    def gaps_are_many(self) -> bool:
        """Whether it is time to arrange the slots anew."""
        return self.used > 2 * len(self) + _ROOM_MIN

    def insert(self, ids: Any, rows: Any) -> tuple[Slots, Rows]:
        """Add filters; their slots, ascending, and their levels."""
        fresh = checked_ids(ids)
        levels = checked_filters(rows, len(fresh))
        known = self.slot_of.find(fresh) >= 0
        if known.any():
            raise DuplicateId(f"id {fresh[known][0]} is in the index already; delete it first")
        self.ids = _with_room(self.ids, self.used, len(fresh))
        self.start = _with_room(self.start, self.used + 1, len(fresh))
        self.levels = _with_room(self.levels, int(self.start[self.used]), levels.size)
        _append(levels, fresh, self.ids, self.start, self.levels, self.used)
        slots = np.arange(self.used, self.used + len(fresh))
        self.slot_of.add(fresh, slots)
        self.used += len(fresh)
        return slots, levels

    def delete(self, ids: Any) -> None:
        """Remove filters; gaps stay."""
        gone = checked_ids(ids)
        slots = held(gone, self.slot_of.find(gone))
        self.slot_of.remove(gone)
        self.ids[slots] = GAP

    def rows(self, ids: Any) -> Rows:
        """The filters held under these ids."""
        known = checked_ids(ids)
        slots = held(known, self.slot_of.find(known))
        return rows_at(self.levels, self.start[slots], self.start[slots + 1] - self.start[slots])

    def arrange(self, slots: Slots) -> None:
        """Keep these slots only, in this order: all that are no gaps."""
        depth = self.start[slots + 1] - self.start[slots]
        start = np.zeros(len(slots) + 1, np.int64)
        np.cumsum(depth, out=start[1:])
        self.levels = self.levels[np.repeat(self.start[slots] - start[:-1], depth) + np.arange(start[-1])]
        self.ids, self.start, self.used = self.ids[slots], start, len(slots)
        self.slot_of = IdMap()
        self.slot_of.add(self.ids, np.arange(len(slots)))

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        return self.ids.nbytes + self.start.nbytes + self.levels.nbytes + self.slot_of.memory_bytes()

    def check(self) -> None:
        """Every invariant. O(slots)."""
        self.slot_of.check()
        ids, slots = self.slot_of.items()
        claim(np.array_equal(self.ids[slots], ids), "a slot carries its id")
        claim((self.ids[: self.used] >= 0).sum() == len(ids), "each slot is held or a gap")
        claim((np.diff(self.start[: self.used + 1]) > 0).all(), "each slot has at least one level")
        claim(not self.gaps_are_many, "at most about half of the slots are gaps")


def rows_at(levels: NDArray[np.int32], start: Ids, depth: Ids) -> Rows:
    """Filters whose levels begin there as rows with padding."""
    out = np.full((len(start), int(depth.max(initial=1))), PADDING, np.int32)
    for row, first, size in zip(out, start.tolist(), depth.tolist()):
        row[:size] = levels[first : first + size]
    return out


def _with_room(array: Any, used: int, more: int) -> Any:
    """The array, or a larger one with its first `used` elements, so that `more` fit behind them."""
    if used + more <= array.size:
        return array
    larger = np.empty(max(2 * array.size, used + more), array.dtype)
    larger[:used] = array[:used]
    return larger


@njit(cache=True)
def _append(rows, fresh, ids, start, levels, used):
    for i in range(fresh.size):
        depth, at = depth_of(rows[i]), start[used + i]
        for j in range(depth):
            levels[at + j] = rows[i, j]
        ids[used + i] = fresh[i]
        start[used + i + 1] = at + depth
