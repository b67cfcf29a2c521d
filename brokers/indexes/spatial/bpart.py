"""B-PART: queries that share a keyword and lie near each other share the search of the trees.

The algorithms 4 to 6 of the paper. A search for several queries goes as far as the weakest bound among them
asks, so far-apart ones do more work together than alone: a batch is formed per keyword, holds at most
`batch_max` queries and is at most `spread` times as wide as a typical group of that keyword. Queries that
find no company are handled as by PART.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from brokers.errors import InvalidInput
from brokers.indexes.contract import Ids
from brokers.indexes.spatial import search
from brokers.indexes.spatial.contract import Queries
from brokers.indexes.spatial.items import Slots
from brokers.indexes.spatial.part import FAN_OUT, GROUP_SIZE, Part
from brokers.indexes.spatial.words import Vocabulary

BATCH_MAX = 16
SPREAD = 0.5


class BPart(Part):
    """Many queries at a time; one alone costs what PART costs."""

    def __init__(
        self,
        geometry: str = "plane",
        vocabulary: Vocabulary | None = None,
        *,
        fan_out: int = FAN_OUT,
        group_size: int = GROUP_SIZE,
        check: str = "strict",
        batch_max: int = BATCH_MAX,
        spread: float = SPREAD,
    ) -> None:
        super().__init__(geometry, vocabulary, fan_out=fan_out, group_size=group_size, check=check)
        self._batch_max = _batch_size(batch_max)
        if not 0 <= spread < np.inf:
            raise InvalidInput(f"spread is {spread}; pass a finite number that is not negative")
        self._spread = float(spread)
        size = self._batch_max
        self._batch = search.Batch(
            np.zeros(size, np.int64), np.zeros(size), np.zeros(size), np.zeros(size, np.int64),
            np.zeros(size), np.zeros(size), np.zeros(size, np.int64),
        )  # fmt: skip

    def memory_bytes(self) -> int:
        return super().memory_bytes() + sum(array.nbytes for array in self._batch)

    def _reverse(self, queries: Queries) -> tuple[Ids, Slots]:
        # One more than k, for a held query object in a shared set.
        work = self._scratch(int(queries.k.max(initial=1)) + 1)
        asked = self._asked(queries)
        owner = np.repeat(np.arange(len(queries.ids)), np.diff(asked.ptr))
        order = np.argsort(asked.words, kind="stable")
        words, starts = np.unique(asked.words[order], return_index=True)
        ptr, slots = search.batch_part(
            self._world(), asked, words, np.append(starts, len(order)), owner[order],
            self._batch_max, self._spread, self._strict, work, self._batch,
        )  # fmt: skip
        self._count(work)
        return ptr, slots


def _batch_size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= 4096:
        raise InvalidInput(f"batch_max is {value!r}; pass an integer in 1..4096")
    return int(value)
