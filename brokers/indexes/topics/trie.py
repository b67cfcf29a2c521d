"""Trie: a table of whole filters for names as they are, and a tree by level for filters with wildcards.

A name is looked up once among the filters without wildcards, however deep it is. In the tree it goes both ways at each
level, by its word and by `+`, so it meets no more than 2^depth nodes, and no more than there are. How that is laid
out is told in `trie_kernels`; what it costs, in docs/filters.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from brokers.indexes.contract import DuplicateId, Ids, WorkCounters, checked_ids, claim
from brokers.indexes.ids import IdMap
from brokers.indexes.space import array, grown
from brokers.indexes.topics import trie_kernels as kernels
from brokers.indexes.topics.contract import (
    Rows,
    TopicIndex,
    checked_filters,
    checked_names,
    checked_syntax,
    held,
)
from brokers.indexes.topics.store import rows_at
from brokers.indexes.topics.syntax import Syntax

_ROOM_MIN = 64


class Trie(TopicIndex):
    """Insert and delete O(depth) amortised, whatever is held; match O(2^depth) at worst, and what is found."""

    def __init__(self, syntax: str | Syntax = "mqtt") -> None:
        self.syntax = checked_syntax(syntax)
        self.counters = WorkCounters()
        self._entry_of = IdMap()
        blocks = np.full(1 + kernels.CLASSES, -1, np.int64)
        blocks[0] = 0
        counts = np.zeros(12, np.int64)
        counts[[kernels.ENTRY_FREE, kernels.NODE_FREE]] = -1
        counts[[kernels.NODES, kernels.NODES_TOP]] = 1  # the root
        self.arrays = kernels.Arrays(
            table=array((_ROOM_MIN,), np.int64), entry=array((_ROOM_MIN, 8), np.int64),
            levels=array((_ROOM_MIN,), np.int32), level_blocks=blocks,
            ids=array((_ROOM_MIN,), np.int64), id_blocks=blocks.copy(),
            node=array((_ROOM_MIN, 8), np.int32), edge=array((_ROOM_MIN, 2), np.int64, kernels.NEVER), counts=counts,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self._entry_of)

    def insert(self, ids: Any, rows: Any) -> None:
        """Add filters. O(depth) each, amortised, and O(log n) if n ids have the filter already."""
        fresh = checked_ids(ids)
        levels = checked_filters(rows, len(fresh))
        known = self._entry_of.find(fresh) >= 0
        if known.any():
            raise DuplicateId(f"id {fresh[known][0]} is in the index already; delete it first")
        entries = np.empty(len(fresh), np.int64)
        done, lacks = kernels.insert(self.arrays, levels, fresh, entries, 0)
        while lacks != kernels.DONE:
            self._make_room(lacks)
            done, lacks = kernels.insert(self.arrays, levels, fresh, entries, done)
        self._entry_of.add(fresh, entries)

    def delete(self, ids: Any) -> None:
        """Remove filters. O(depth) each, amortised, and O(log n) if n ids have the filter."""
        gone = checked_ids(ids)
        entries = held(gone, self._entry_of.find(gone))
        self._entry_of.remove(gone)
        done, lacks = kernels.delete(self.arrays, gone, entries, 0)
        while lacks != kernels.DONE:
            self._make_room(lacks)
            done, lacks = kernels.delete(self.arrays, gone, entries, done)

    def rows(self, ids: Any) -> Rows:
        """The filters held under these ids. O(depth) each."""
        known = checked_ids(ids)
        entries = held(known, self._entry_of.find(known))
        entry = self.arrays.entry[entries]
        return rows_at(self.arrays.levels, entry[:, kernels.LEVELS], entry[:, kernels.SHAPE] >> 1)

    def match_many(self, values: Any) -> tuple[Ids, Ids]:
        """Ids per name. Batches are quicker: what one name waits for is fetched while others are looked at."""
        names = checked_names(values)
        ptr, ids = kernels.match(self.arrays, names, self.syntax.dollar_rule)
        counts = self.arrays.counts
        self.counters.events += len(names)
        self.counters.probed += len(names) + counts.item(kernels.VISITED)
        self.counters.verified += counts.item(kernels.VERIFIED)
        self.counters.matched += len(ids)
        return ptr, ids

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(part.nbytes for part in self.arrays) + self._entry_of.memory_bytes()

    def check(self) -> None:
        """Every invariant. O(held · depth)."""
        from brokers.indexes.topics.trie_check import check

        self._entry_of.check()
        ids, entries = self._entry_of.items()
        check(self.arrays, ids, entries)
        claim(len(np.unique(entries)) == self.arrays.counts[kernels.ENTRIES], "each entry is some id's")

    def _make_room(self, lacks: int) -> None:
        """Twice the room for what lacks it."""
        a = self.arrays
        if lacks == kernels.NO_PLACE:
            table = array((2 * len(a.table),), np.int64)
            kernels.list_all(a, table)
            self.arrays = a._replace(table=table)
        elif lacks == kernels.NO_EDGE:
            edge = array((2 * len(a.edge), 2), np.int64, kernels.NEVER)
            kernels.put_edges(a.edge, edge)
            self.arrays = a._replace(edge=edge)
        else:
            name = {
                kernels.NO_ENTRY: "entry", kernels.NO_LEVELS: "levels", kernels.NO_IDS: "ids", kernels.NO_NODE: "node",
            }[lacks]  # fmt: skip
            part = getattr(a, name)
            self.arrays = a._replace(**{name: grown(part, (2 * len(part), *part.shape[1:]))})
