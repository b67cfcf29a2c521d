"""Scan: every filter compared with every name, level by level, in one compiled pass. The baseline.

What a program does that knows no index: level by level up to the first that differs. Filters lie one behind the other
(`store`), so that the pass reads nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from brokers.indexes.contract import Ids, WorkCounters
from brokers.indexes.topics.contract import Rows, TopicIndex, checked_names, checked_syntax
from brokers.indexes.topics.level_kernels import depth_of, has_name, put_in_order
from brokers.indexes.topics.store import FilterStore
from brokers.indexes.topics.syntax import Syntax


class Scan(TopicIndex):
    """One pass. Insert and delete O(levels) amortised, match O(held), longer where many levels agree."""

    def __init__(self, syntax: str | Syntax = "mqtt") -> None:
        self.syntax = checked_syntax(syntax)
        self.counters = WorkCounters()
        self._store = FilterStore()

    def __len__(self) -> int:
        return len(self._store)

    def insert(self, ids: Any, rows: Any) -> None:
        """Add filters. O(levels) each, amortised."""
        self._store.insert(ids, rows)

    def delete(self, ids: Any) -> None:
        """Remove filters. O(1) each, amortised."""
        store = self._store
        store.delete(ids)
        if store.gaps_are_many:
            store.arrange(np.flatnonzero(store.ids[: store.used] >= 0))

    def rows(self, ids: Any) -> Rows:
        """The filters held under these ids. O(levels) each."""
        return self._store.rows(ids)

    def match_many(self, values: Any) -> tuple[Ids, Ids]:
        """Ids per name. O(held · levels) each at worst."""
        names, store = checked_names(values), self._store
        ptr, ids = _scan(store.ids[: store.used], store.start, store.levels, names, self.syntax.dollar_rule)
        put_in_order(ptr, ids)
        self.counters.events += len(names)
        self.counters.verified += len(names) * len(self)
        self.counters.matched += len(ids)
        return ptr, ids

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        return self._store.memory_bytes()

    def check(self) -> None:
        """Every invariant. O(slots)."""
        self._store.check()


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
