"""Scan: every filter compared with every name, level by level, in one compiled pass. The honest baseline.

What a program does that knows no index. Filters lie one behind the other, as long as they are, so that the pass reads
no padding; what was removed is passed over until it is half of all, then the rest moves together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from brokers.indexes.contract import DuplicateId, Ids, WorkCounters, checked_ids, claim
from brokers.indexes.ids import IdMap
from brokers.indexes.topics.contract import Rows, TopicIndex, checked_filters, checked_names, checked_syntax
from brokers.indexes.topics.level_kernels import depth_of, has_name, put_in_order
from brokers.indexes.topics.syntax import PADDING, Syntax

_GONE = -1
_ROOM_MIN = 64


class Scan(TopicIndex):
    """One pass. Insert and delete O(levels) amortised, match O(held), longer where many levels agree."""

    def __init__(self, syntax: str | Syntax = "mqtt") -> None:
        self.syntax = checked_syntax(syntax)
        self.counters = WorkCounters()
        self._slot_of = IdMap()
        self._used = 0  # slots, those of removed filters included
        self._ids = np.full(_ROOM_MIN, _GONE, np.int64)
        self._start = np.zeros(_ROOM_MIN + 1, np.int64)  # of the levels of each slot, and the end of the last
        self._levels = np.empty(_ROOM_MIN, np.int32)

    def __len__(self) -> int:
        return len(self._slot_of)

    def insert(self, ids: Any, rows: Any) -> None:
        """Add filters. O(levels) each, amortised."""
        fresh = checked_ids(ids)
        levels = checked_filters(rows, len(fresh))
        held = self._slot_of.find(fresh) >= 0
        if held.any():
            raise DuplicateId(f"id {fresh[held][0]} is in the index already; delete it first")
        self._reserve(len(fresh), levels.size)
        _append(levels, fresh, self._ids, self._start, self._levels, self._used)
        self._slot_of.add(fresh, np.arange(self._used, self._used + len(fresh)))
        self._used += len(fresh)

    def delete(self, ids: Any) -> None:
        """Remove filters. O(1) each, amortised."""
        gone = checked_ids(ids)
        slots = self.held(gone, self._slot_of.find(gone))
        self._slot_of.remove(gone)
        self._ids[slots] = _GONE
        if self._used > 2 * len(self) + _ROOM_MIN:
            self._move_together()

    def rows(self, ids: Any) -> Rows:
        """The filters held under these ids. O(levels) each."""
        known = checked_ids(ids)
        slots = self.held(known, self._slot_of.find(known))
        depth = self._start[slots + 1] - self._start[slots]
        out = np.full((len(slots), int(depth.max(initial=1))), PADDING, np.int32)
        for row, start, size in zip(out, self._start[slots].tolist(), depth.tolist()):
            row[:size] = self._levels[start : start + size]
        return out

    def match_many(self, values: Any) -> tuple[Ids, Ids]:
        """Ids per name. O(held · levels) each at worst."""
        names = checked_names(values)
        ptr, ids = _scan(self._ids[: self._used], self._start, self._levels, names, self.syntax.dollar_rule)
        put_in_order(ptr, ids)
        self.counters.events += len(names)
        self.counters.verified += len(names) * len(self)
        self.counters.matched += len(ids)
        return ptr, ids

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        return self._ids.nbytes + self._start.nbytes + self._levels.nbytes + self._slot_of.memory_bytes()

    def check(self) -> None:
        """Every invariant. O(slots)."""
        self._slot_of.check()
        ids, slots = self._slot_of.items()
        claim(np.array_equal(self._ids[slots], ids), "a slot carries its id")
        claim((self._ids[: self._used] >= 0).sum() == len(ids), "each slot is held or gone")
        claim((np.diff(self._start[: self._used + 1]) > 0).all(), "each slot has at least one level")
        claim(self._used <= 2 * len(self) + _ROOM_MIN, "at most about half of the slots are gone")

    def _reserve(self, filters: int, levels: int) -> None:
        self._ids = _with_room(self._ids, self._used, filters)
        self._start = _with_room(self._start, self._used + 1, filters)
        self._levels = _with_room(self._levels, int(self._start[self._used]), levels)

    def _move_together(self) -> None:
        kept = np.flatnonzero(self._ids[: self._used] >= 0)
        depth = self._start[kept + 1] - self._start[kept]
        start = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(depth, out=start[1:])
        old = np.repeat(self._start[kept] - start[:-1], depth) + np.arange(start[-1])
        ids, levels = self._ids[kept], self._levels[old]
        self._ids, self._start, self._levels, self._used = ids, start, levels, len(kept)
        self._slot_of = IdMap()
        self._slot_of.add(ids, np.arange(len(ids)))


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


@njit(cache=True)
def _scan(ids, start, levels, names, mqtt):
    ptr = np.zeros(names.shape[0] + 1, np.int64)
    found = np.empty(ids.size, np.int64)
    total = 0
    for i in range(names.shape[0]):
        if total + ids.size > found.size:
            larger = np.empty(2 * total + ids.size, np.int64)
            larger[:total] = found[:total]
            found = larger
        total = _scan_one(ids, start, levels, names[i], mqtt, found, total)
        ptr[i + 1] = total
    return ptr, found[:total].copy()


@njit(cache=True)
def _scan_one(ids, start, levels, name, mqtt, found, total):
    """Append to the first `total` of `found`, which has room for all."""
    depth = depth_of(name)
    for slot in range(ids.size):
        size = start[slot + 1] - start[slot]
        if has_name(levels, start[slot], size, name, depth, mqtt) and ids[slot] >= 0:
            found[total] = ids[slot]
            total += 1
    return total
