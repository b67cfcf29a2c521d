"""Which objects count: those of the last so many nanoseconds, or the last so many.

A window is told of objects in the order of their publication, and says which have to expire. It holds ids
and times and nothing of an index: brokers that are told the same in the same order keep the same objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from brokers.errors import InvalidInput
from brokers.indexes.contract import Ids


class Window(ABC):
    """First in, first out."""

    def __init__(self) -> None:
        self._queue: deque[tuple[int, int]] = deque()  # (time, id)

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, ids: Iterable[int], now_ns: int) -> Ids:
        """Objects are published now; returns the ids that leave for it, oldest first. O(1) each."""
        if self._queue and now_ns < self._queue[-1][0]:
            raise InvalidInput(f"time {now_ns} lies before {self._queue[-1][0]}, the last one told")
        self._queue.extend((now_ns, int(id_)) for id_ in ids)
        return self.due(now_ns)

    def due(self, now_ns: int) -> Ids:
        """The ids that leave by now, oldest first; they are forgotten. O(1) each."""
        gone = []
        while self._queue and self._over(now_ns):
            gone.append(self._queue.popleft()[1])
        return np.array(gone, np.int64)

    def state(self) -> list[tuple[int, int]]:
        """Plain data."""
        return list(self._queue)

    def load(self, state: Iterable[tuple[int, int]]) -> None:
        self._queue = deque((int(time), int(id_)) for time, id_ in state)

    @abstractmethod
    def _over(self, now_ns: int) -> bool:
        """Whether the oldest object leaves."""


class LastObjects(Window):
    """The last `count` objects."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = _positive(count, "count")

    def _over(self, now_ns: int) -> bool:
        return len(self._queue) > self._count


class LastTime(Window):
    """The objects of less than `span_ns` ago."""

    def __init__(self, span_ns: int) -> None:
        super().__init__()
        self._span_ns = _positive(span_ns, "span_ns")

    def next_due_ns(self) -> int | None:
        """When the oldest object leaves."""
        return self._queue[0][0] + self._span_ns if self._queue else None

    def _over(self, now_ns: int) -> bool:
        return now_ns - self._queue[0][0] >= self._span_ns


def _positive(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidInput(f"{name} is {value!r}; pass an integer above 0")
    return int(value)
