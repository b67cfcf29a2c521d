"""What every index promises, whatever question it answers.

Ids are non-negative integers below 2**63 that the caller chooses and keeps; an index refuses an id it already
holds, and one it does not hold. A refusal is a typed error that names the value, and leaves the index as
it was: everything is checked before anything is changed. `check()` states every invariant of the structure.

Work counters say what an index did, apart from how long it took. They describe a layout, so two indexes
with the same answers have different counters, and so may one index filled in other portions: nothing that
a simulation shows may depend on them.

Each question has its own contract beside its indexes, e.g. `brokers.indexes.content.contract`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

_INT64 = np.dtype(np.int64)


class BadSubscription(InvalidInput):
    """A row that is no conjunction of closed ranges."""


class BadEvent(InvalidInput):
    """Values that are no event of this index."""


class UnknownId(InvalidInput):
    """An id that the index does not hold."""


class DuplicateId(InvalidInput):
    """An id that the index holds already, or that is named twice in one call."""


@dataclass
class WorkCounters:
    """What an index did since the last `reset()`."""

    events: int = 0  # events asked about
    probed: int = 0  # cells, buckets or columns looked up
    words: int = 0  # 64-bit words combined
    verified: int = 0  # candidates compared with all their constraints
    matched: int = 0  # ids answered

    def reset(self) -> None:
        for field in fields(self):
            setattr(self, field.name, 0)

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


class Index(ABC):
    """What the indexes of all questions share."""

    counters: WorkCounters

    @abstractmethod
    def __len__(self) -> int:
        """How many ids it holds."""

    @abstractmethod
    def memory_bytes(self) -> int:
        """Bytes of all arrays, constraints and ids included."""

    @abstractmethod
    def check(self) -> None:
        """Raise AssertionError unless every invariant holds. As slow as it needs to be."""


class RowIndex(Index):
    """Rows of numbers in, and the ids of those out that a message's numbers answer, each row by itself.

    That is what tables ask (`brokers.tables`): where no row hides another, what a broker learns late joins an answer
    that was found before, and takes nothing from it.
    """

    @abstractmethod
    def insert(self, ids: Any, rows: Any) -> None:
        """Add rows: ids int64[n], rows float64[n, w], NaN padded."""

    @abstractmethod
    def delete(self, ids: Any) -> None:
        """Remove rows by id."""

    @abstractmethod
    def match_many(self, values: Any) -> tuple[Ids, Ids]:
        """Messages float64[n, v] -> (ptr int64[n + 1], ids), ids[ptr[i]:ptr[i + 1]] for message i, ascending."""

    @abstractmethod
    def late_matches(self, values: Floats, since: Ids, log: Ids, rows: Floats) -> tuple[Ids, Ids]:
        """Pairs of a message i and an id of log[since[i]:] that it answers; the row of an id is rows[id].

        Below 0, `since` means all of the log, which no longer goes back so far.
        """


def claim(holds: Any, invariant: str) -> None:
    """One invariant of a `check()`; unlike `assert` it stays on under `python -O`."""
    if not holds:
        raise AssertionError(f"broken invariant: {invariant}")


def checked_ids(ids: Any) -> Ids:
    """The ids of one call: one-dimensional, integers, not negative, none named twice. O(n log n)."""
    # A single id is the common case. NumPy has one object for the type; to compare by identity is quick.
    if type(ids) is np.ndarray and ids.dtype is _INT64 and ids.shape == (1,) and ids.item() >= 0 and ids.flags.carray:
        return ids
    array = np.asarray(ids)
    if array.ndim != 1:
        raise InvalidInput(f"ids have {array.ndim} dimensions; pass a one-dimensional array of integers")
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iu":
        raise InvalidInput(f"ids are of type {array.dtype}; pass integers")
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise InvalidInput(f"id {array.max()} is above 2**63 - 1, the largest there is")
    # One layout for all callers: a read-only or strided array would make Numba compile once more.
    array = np.require(array, np.int64, ["C", "W"])
    if array.min() < 0:
        raise InvalidInput(f"id {array.min()} is negative; ids start at 0")
    if array.size > 1:
        ordered = np.sort(array)
        again = np.flatnonzero(ordered[1:] == ordered[:-1])
        if again.size:
            raise DuplicateId(f"id {ordered[again[0]]} is named twice in one call")
    return array
