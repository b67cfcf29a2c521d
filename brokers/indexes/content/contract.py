"""The content-match contract: which subscriptions does an event satisfy?

A subscription is a conjunction of closed ranges on numeric attributes, one row of float64:
`[attribute, low, high] * k`, padded with triples of NaN. An event is `attributes` values, NaN where one is
missing. A range holds iff low <= value <= high, so a missing value fails every range on it, and a row
without ranges matches every event. Ends may be infinite; a range may be a point.

`verify` is the one definition of a match: the oracle, the indexes and the tables are held to it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.content.late import late_matches
from brokers.indexes.contract import BadEvent, BadSubscription, Floats, Ids, RowIndex, UnknownId, checked_ids

ATTRIBUTES_MAX = 32_767  # attributes are kept as int16


class FailedRange(NamedTuple):
    """A range of a subscription that an event does not satisfy; `value` is NaN where the event has none."""

    attribute: int
    low: float
    high: float
    value: float

    def __str__(self) -> str:
        asked = f"attribute {self.attribute} in [{self.low:g}, {self.high:g}]"
        return f"{asked}, but it is missing" if self.value != self.value else f"{asked}, but it is {self.value:g}"


class ContentIndex(RowIndex):
    """Subscriptions in, the ids that match an event out, in ascending order."""

    question: ClassVar[str] = "content-match"
    attributes: int

    @abstractmethod
    def __init__(self, attributes: int, **options: Any) -> None:
        """An empty index; every option has a default."""

    @classmethod
    def build(cls, attributes: int, ids: Any, rows: Any, **options: Any) -> Self:
        """An index that holds these subscriptions from the start."""
        index = cls(attributes, **options)
        index.insert(ids, rows)
        return index

    @abstractmethod
    def insert(self, ids: Any, rows: Any) -> None:
        """Add subscriptions: ids int64[n], rows float64[n, 3k]."""

    @abstractmethod
    def delete(self, ids: Any) -> None:
        """Remove subscriptions by id."""

    @abstractmethod
    def rows(self, ids: Any) -> Floats:
        """The subscriptions held under these ids, as `insert` takes them: float64[n, 3k], NaN padded."""

    @abstractmethod
    def match_many(self, values: Any) -> tuple[Ids, Ids]:
        """Events float64[n, attributes] -> (ptr int64[n + 1], ids), ids[ptr[i]:ptr[i + 1]] for event i."""

    def match(self, values: Any) -> Ids:
        """One event float64[attributes] -> the ids that match it, ascending."""
        return self.match_many(one_event(values, self.attributes)[None, :])[1]

    def late_matches(self, values: Floats, since: Ids, log: Ids, rows: Floats) -> tuple[Ids, Ids]:
        """Pairs of an event i and an id of log[since[i]:] that matches it; the row of an id is rows[id]."""
        return late_matches(values, since, log, rows)

    def update(self, ids: Any, rows: Any) -> None:
        """Give ids that are held other ranges; nothing changes if one is unknown or a row is bad."""
        known = checked_ids(ids)
        fresh = checked_rows(rows, self.attributes, len(known))
        self.delete(known)
        self.insert(known, fresh)

    def explain(self, values: Any, id_: int) -> list[FailedRange]:
        """Which ranges of a held subscription the event fails; none where it matches. O(k)."""
        event = one_event(values, self.attributes)
        failed = []
        for attribute, low, high in self.rows([id_]).reshape(-1, 3).tolist():
            if attribute == attribute and not low <= event[int(attribute)] <= high:
                failed.append(FailedRange(int(attribute), low, high, float(event[int(attribute)])))
        return failed


def places_of(ids: Ids, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places found for ids, or UnknownId naming the first that has none (-1)."""
    if (places < 0).any():
        raise UnknownId(f"id {ids[places < 0][0]} is not in the index")
    return places


def checked_attributes(attributes: Any) -> int:
    """The number of attributes an index is built for."""
    if isinstance(attributes, bool) or not isinstance(attributes, int | np.integer):
        raise InvalidInput(f"the number of attributes is {attributes!r}; pass an integer")
    if not 1 <= attributes <= ATTRIBUTES_MAX:
        raise InvalidInput(f"the number of attributes is {attributes}; it lies in 1..{ATTRIBUTES_MAX}")
    return int(attributes)


def checked_rows(rows: Any, attributes: int, count: int | None = None) -> Floats:
    """Subscriptions as float64[n, 3k] in C order, or BadSubscription naming the row. O(n k log k)."""
    array = _as_floats(rows, "subscriptions", BadSubscription)
    if array.ndim != 2 or array.shape[1] % 3:
        raise BadSubscription(
            f"subscriptions have shape {array.shape}; pass one row of [attribute, low, high] triples each"
        )
    if count is not None and len(array) != count:
        raise BadSubscription(f"{len(array)} rows for {count} ids; pass one row per id")
    if array.size == 0:
        return array
    attribute, low, high = array[:, 0::3], array[:, 1::3], array[:, 2::3]
    constrained = attribute == attribute
    half = constrained != (low == low)
    half |= constrained != (high == high)
    _refuse_any(half, array, "has a NaN; a range needs attribute, low and high, and padding is all NaN")
    inside = (attribute >= 0) & (attribute < attributes) & (attribute == np.floor(attribute))
    _refuse_any(constrained & ~inside, array, f"names no attribute; attributes are 0..{attributes - 1}")
    _refuse_any(low > high, array, "has low above high; swap them")
    if attribute.shape[1] > 1:
        ordered = np.sort(attribute, axis=1)  # NaN last, and unequal to itself
        repeated = ordered[:, 1:] == ordered[:, :-1]
        if repeated.any():
            row, column = np.argwhere(repeated)[0]
            raise BadSubscription(
                f"row {row} constrains attribute {int(ordered[row, column])} twice; intersect the two ranges"
            )
    return array


def one_event(values: Any, attributes: int) -> Floats:
    """One event as float64[attributes], or BadEvent."""
    array = _as_floats(values, "an event", BadEvent)
    if array.shape != (attributes,):
        raise BadEvent(f"an event has shape {array.shape}; pass {attributes} values, NaN where missing")
    return array


def many_events(values: Any, attributes: int) -> Floats:
    """Events as float64[n, attributes] in C order, or BadEvent."""
    array = _as_floats(values, "events", BadEvent)
    if array.ndim != 2 or array.shape[1] != attributes:
        raise BadEvent(f"events have shape {array.shape}; pass {attributes} values each, NaN where missing")
    return array


def split_rows(rows: Floats, attributes: int) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Rows as (attribute, low, high), each [n, k]; padding is `attributes`, -inf, inf. O(n k)."""
    attribute, low, high = rows[:, 0::3], rows[:, 1::3], rows[:, 2::3]
    padding = attribute != attribute
    return (
        np.where(padding, attributes, attribute).astype(np.int64),
        np.where(padding, -np.inf, low),
        np.where(padding, np.inf, high),
    )


def ranges_hold(values: Floats, attribute: NDArray[np.int64], low: Floats, high: Floats) -> NDArray[np.bool_]:
    """For split rows: whether one event, or event i for row i, satisfies row i. O(n k)."""
    # The padding attribute reads a column of zeros, which lies in -inf..inf.
    if values.ndim == 1:
        asked = np.append(values, 0.0)[attribute]
    else:
        wide = np.concatenate([values, np.zeros((len(values), 1))], axis=1)
        asked = np.take_along_axis(wide, attribute, axis=1)
    return np.asarray(((low <= asked) & (asked <= high)).all(axis=1))


def verify(values: Any, rows: Any) -> NDArray[np.bool_]:
    """Which rows match. `values` is one event [m] for all rows, or [n, m] with event i for row i. O(n k)."""
    events = _as_floats(values, "events", BadEvent)
    if events.ndim not in (1, 2):
        raise BadEvent(f"events have shape {events.shape}; pass one event, or one per row")
    attributes = events.shape[-1]
    checked = checked_rows(rows, attributes)
    if events.ndim == 2 and len(events) != len(checked):
        raise BadEvent(f"{len(events)} events for {len(checked)} rows; pass one event, or one per row")
    return ranges_hold(events, *split_rows(checked, attributes))


def _as_floats(values: Any, what: str, error: type[InvalidInput]) -> Floats:
    if type(values) is np.ndarray and values.dtype == np.float64 and values.flags.carray:
        return values
    try:
        array = np.asarray(values)
    except ValueError:
        raise error(f"{what} are ragged; pass an array of numbers") from None
    if array.dtype.kind not in "iuf" and array.size:
        raise error(f"{what} are of type {array.dtype}; pass numbers")
    # One layout for all callers: a read-only or strided array would make Numba compile once more.
    return np.require(array, np.float64, ["C", "W"])


def _refuse_any(wrong: NDArray[np.bool_], rows: Floats, why: str) -> None:
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        triple = ", ".join(f"{value:g}" for value in rows[row, 3 * column : 3 * column + 3])
        raise BadSubscription(f"row {row}: range {column} [{triple}] {why}")
