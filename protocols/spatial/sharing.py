"""A reverse top-k index as tables ask it: which subscriptions share a keyword with an object, each by itself.

Which of them the object matters to depends on the other objects, so that stays with the protocol.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from brokers.indexes.contract import Floats, Ids, RowIndex
from brokers.indexes.spatial.contract import ReverseTopK
from brokers.indexes.spatial.words import KeywordSets
from protocols.spatial.kind import OBJECT_KEYWORDS, SUBSCRIPTION_KEYWORDS, Spatial, encoded, keywords_of


class Sharing(RowIndex):
    """See the module. The index holds no objects, so that none is nearer than the one that is asked about."""

    def __init__(self, kind: Spatial, index: ReverseTopK) -> None:
        self._kind = kind
        self._index = index
        self.counters = index.counters

    def __len__(self) -> int:
        return len(self._index)

    def memory_bytes(self) -> int:
        return self._index.memory_bytes()

    def check(self) -> None:
        self._index.check()

    def insert(self, ids: Any, rows: Any) -> None:
        self._index.insert_subscriptions(ids, rows[:, :2], _keywords(rows, SUBSCRIPTION_KEYWORDS))

    def delete(self, ids: Any) -> None:
        self._index.delete_subscriptions(ids)

    def match_many(self, values: Any) -> tuple[Ids, Ids]:
        count = len(values)
        asked = self._index.queries(np.arange(count), values[:, :2], _keywords(values, OBJECT_KEYWORDS), 1)
        return self._index.reverse(asked)

    def late_matches(self, values: Floats, since: Ids, log: Ids, rows: Floats) -> tuple[Ids, Ids]:
        pairs = []
        for i, row in enumerate(values):
            learned = {id_: rows[id_] for id_ in log[max(since[i], 0) :].tolist()}
            pairs += [(i, id_) for id_ in sorted(self._kind.oracle(learned, row))]
        event, id_ = np.array(pairs, np.int64).reshape(-1, 2).T
        return event, id_


def _keywords(rows: Floats, start: int) -> KeywordSets:
    return encoded([keywords_of(row, start) for row in rows])
