"""What is planned: queries of clients, and what merging them costs.

A query asks for the objects inside a closed box of d dimensions: a range, a rectangle, a box. Merged
queries are answered once for all their members; each member sifts its own part out of the answer.

The cost of a collection M of merged sets (Crespo, Buyukkokten, Garcia-Molina, TKDE 15(1), sections 4 and 7):

    K_A cost(M) + K_M |M| + K_T size(M) + K_U U(Q, M)  [+ K_S per client and channel, see `channels`]

size(M) is what is sent, and U(Q, M) sums over the queries what they receive and did not ask for. The
differential cost leaves out what every M costs, the sifting of relevant objects; the absolute cost adds it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.contract import Ids, checked_ids

Floats = NDArray[np.float64]

DIMENSIONS_MAX = 8


class BadQuery(InvalidInput):
    """A box that is none, or a query that belongs to no client."""


class BadCosts(InvalidInput):
    """Constants that order no two plans."""


class BadAllocation(InvalidInput):
    """Channels that cannot carry these clients."""


class TooLarge(InvalidInput):
    """More queries than an algorithm can take; says what it would need."""


@dataclass(frozen=True)
class Costs:
    """The constants, all at least 0 and not all 0. Retrieving an answer is estimated as linear in its size."""

    message: float  # K_M, per merged query
    transmit: float  # K_T, per object sent
    irrelevant: float  # K_U, per object that a query receives and did not ask for
    retrieve: float = 0.0  # K_A, per unit of retrieval work
    share: float = 0.0  # K_S, per object on a client's channel beyond its own queries
    work_per_query: float = 1.0
    work_per_object: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
                raise BadCosts(f"{field.name} is {value!r}; pass a finite number that is not negative")
        if not (self.per_message or self.per_object or self.irrelevant or self.share):
            raise BadCosts("all constants are 0, so that every plan costs the same; set at least one")

    @property
    def per_message(self) -> float:
        """What a merged query costs, however large: K_M, and its part of K_A."""
        return self.message + self.retrieve * self.work_per_query

    @property
    def per_object(self) -> float:
        """What an object costs that is sent: K_T, and its part of K_A."""
        return self.transmit + self.retrieve * self.work_per_object

    def on_channel(self, clients: int) -> Costs:
        """The constants of merging on a channel: an object sent is overheard by each of its clients."""
        return replace(self, transmit=self.transmit + self.share * clients, share=0.0)


@dataclass(frozen=True, eq=False)
class Queries:
    """Distinct query ids, each with its client and its box; row i of all arrays is one query."""

    ids: Ids
    clients: Ids
    low: Floats  # [n, d]
    high: Floats  # [n, d]

    @staticmethod
    def of(low: Any, high: Any, clients: Any = None, ids: Any = None) -> Queries:
        """Checked queries. Without `clients` every query has its own; without `ids` they are numbered. O(n)."""
        lows, highs = checked_boxes(low, high)
        count = len(lows)
        numbers = np.arange(count, dtype=np.int64)
        return Queries(
            numbers if ids is None else _one_each(checked_ids(ids), count, "ids"),
            numbers if clients is None else _checked_clients(clients, count),
            lows,
            highs,
        )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dimensions(self) -> int:
        return self.low.shape[1]

    def subset(self, positions: Any) -> Queries:
        """The queries in these rows, in this order."""
        return Queries(self.ids[positions], self.clients[positions], self.low[positions], self.high[positions])


def checked_boxes(low: Any, high: Any) -> tuple[Floats, Floats]:
    """Boxes as two float64[n, d] in C order, or BadQuery naming the row."""
    lows, highs = _as_matrix(low, "low"), _as_matrix(high, "high")
    if lows.shape != highs.shape:
        raise BadQuery(f"low has shape {lows.shape} and high {highs.shape}; pass one row of each per query")
    if not 1 <= lows.shape[1] <= DIMENSIONS_MAX:
        raise BadQuery(f"boxes have {lows.shape[1]} dimensions; they have 1 to {DIMENSIONS_MAX}")
    _refuse_any(~(np.isfinite(lows) & np.isfinite(highs)), lows, highs, "is not finite; give it two ends")
    _refuse_any(lows > highs, lows, highs, "has low above high; swap them")
    _refuse_any(lows == highs, lows, highs, "is empty; let high be above low")
    return lows, highs


def _as_matrix(values: Any, what: str) -> Floats:
    try:
        array = np.asarray(values)
    except ValueError:
        raise BadQuery(f"{what} is ragged; pass one row of numbers per query") from None
    if array.ndim != 2:
        raise BadQuery(f"{what} has {array.ndim} dimensions; pass one row of numbers per query")
    if array.dtype.kind not in "iuf":
        raise BadQuery(f"{what} is of type {array.dtype}; pass numbers")
    # One layout for all callers: a read-only or strided array would make Numba compile once more.
    return np.require(array, np.float64, ["C", "W"])


def _refuse_any(wrong: NDArray[np.bool_], low: Floats, high: Floats, why: str) -> None:
    if wrong.any():
        row, axis = np.argwhere(wrong)[0]
        raise BadQuery(f"query {row}: axis {axis} [{low[row, axis]:g}, {high[row, axis]:g}] {why}")


def _one_each(array: Ids, count: int, what: str) -> Ids:
    if len(array) != count:
        raise BadQuery(f"{len(array)} {what} for {count} queries; pass one per query")
    return array


def _checked_clients(clients: Any, count: int) -> Ids:
    array = np.asarray(clients)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise BadQuery("clients are no one-dimensional array of integers; pass the client of each query")
    owners = _one_each(np.require(array, np.int64, ["C", "W"]), count, "clients")
    if (owners < 0).any():
        row = int(np.argmax(owners < 0))
        raise BadQuery(f"query {row} has no client ({owners[row]}); clients are 0 or above")
    return owners
