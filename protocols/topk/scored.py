"""A ranked index as tables ask it: which filters score above the threshold, each by itself.

Who is among the k best depends on all filters that compete, so ranking stays with the protocol: `TopK.answer`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from brokers.indexes.contract import Floats, Ids, RowIndex
from brokers.indexes.topk.contract import Query, RankedIndex
from brokers.indexes.topk.scan import Scan
from protocols.topk.kind import TopK


class Scored(RowIndex):
    """See the module."""

    def __init__(self, kind: TopK, index: RankedIndex) -> None:
        self._kind = kind
        self._index = index
        self._query = Query(None, kind.params["threshold"], prorate=kind.params["prorate"])
        self.counters = index.counters

    def __len__(self) -> int:
        return len(self._index)

    def memory_bytes(self) -> int:
        return self._index.memory_bytes()

    def check(self) -> None:
        self._index.check()

    def insert(self, ids: Any, rows: Any) -> None:
        self._index.insert(ids, rows)

    def delete(self, ids: Any) -> None:
        self._index.delete(ids)

    def match_many(self, values: Any) -> tuple[Ids, Ids]:
        found = [self._above(self._index, row) for row in values]
        return np.cumsum([0, *map(len, found)]), np.concatenate([np.empty(0, np.int64), *found])

    def late_matches(self, values: Floats, since: Ids, log: Ids, rows: Floats) -> tuple[Ids, Ids]:
        pairs = []
        for i, row in enumerate(values):
            learned = np.unique(log[max(since[i], 0) :])
            few = Scan(self._kind.attributes)
            few.insert(learned, rows[learned])
            pairs += [(i, id_) for id_ in self._above(few, row).tolist()]
        event, id_ = np.array(pairs, np.int64).reshape(-1, 2).T
        return event, id_

    def _above(self, index: RankedIndex, row: Floats) -> Ids:
        return np.sort(index.match(self._kind.asked(row), self._query).ids)
