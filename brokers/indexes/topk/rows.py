"""Filters as the indexes keep them: checked, and their constraints in ascending order of attributes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.contract import BadSubscription, Ids, checked_ids
from brokers.indexes.topk.contract import WEIGHT_MAX, Floats

_WHY = (
    "",
    "has a NaN; a constraint needs attribute, low, high and weight, and padding is all NaN",
    "names no attribute; attributes are 0..{last}",
    "has low above high; swap them",
    f"has a weight that is not in ±{WEIGHT_MAX:g}",
    "is the second on attribute {attribute}; a filter has one constraint per attribute",
)


class Filters(NamedTuple):
    """Constraints by filter; behind a filter's last one, attribute is -1, ends are NaN, weight is 0."""

    ids: Ids
    receivers: Ids
    attribute: NDArray[np.int16]  # [n, width], as are the following
    low: Floats
    high: Floats
    weight: Floats

    @property
    def width(self) -> int:
        """The largest number of constraints, at least 1."""
        return int(self.attribute.shape[1])

    def picked(self, order: Ids) -> Filters:
        """These filters, in this order."""
        ids, receivers, attribute, low, high, weight = self
        return Filters(
            ids[order], receivers[order], attribute[order], low[order], high[order], weight[order]
        )


def rows_of(attribute: Any, low: Any, high: Any, weight: Any) -> Floats:
    """Constraints, [n, width] each, as rows that `insert` takes. O(n width)."""
    count, width = attribute.shape
    rows = np.full((count, 4 * width), np.nan)
    real = attribute >= 0
    for place, values in enumerate((attribute, low, high, weight)):
        rows[:, place::4] = np.where(real, values, np.nan)
    return rows


def checked_filters(ids: Any, rows: Any, receivers: Any, attributes: int) -> Filters:
    """What `insert` is given, or a typed error that names the row. O(n c^2) for c constraints."""
    fresh = checked_ids(ids)
    array = _numbers(rows, "filters")
    if array.ndim != 2 or array.shape[1] % 4:
        raise BadSubscription(
            f"filters have shape {array.shape}; "
            "pass one row of [attribute, low, high, weight] quadruples each"
        )
    if len(array) != len(fresh):
        raise BadSubscription(f"{len(array)} rows for {len(fresh)} ids; pass one row per id")
    constraints = np.empty(len(array), np.int64)
    code, row, place = _inspect(array, attributes, WEIGHT_MAX, constraints)
    if code:
        quadruple = array[row, 4 * place : 4 * place + 4]
        text = ", ".join(f"{value:g}" for value in quadruple)
        why = _WHY[code].format(last=attributes - 1, attribute=f"{quadruple[0]:g}")
        raise BadSubscription(f"row {row}: constraint {place} [{text}] {why}")
    width = max(1, int(constraints.max(initial=1)))
    columns = (
        np.full((len(array), width), -1, np.int16),
        np.full((len(array), width), np.nan),
        np.full((len(array), width), np.nan),
        np.zeros((len(array), width)),
    )
    _arrange(array, *columns)
    return Filters(fresh, checked_receivers(receivers, fresh), *columns)


def checked_receivers(receivers: Any, ids: Ids) -> Ids:
    """One receiver per filter; the filters' own ids if None are given."""
    if receivers is None:
        return ids
    array = np.asarray(receivers)
    if array.shape != ids.shape or (array.size and array.dtype.kind not in "iu"):
        raise InvalidInput(f"receivers are {array.dtype}{list(array.shape)}; pass one integer per filter")
    return np.require(array, np.int64, ["C", "W"])


def checked_weights(ids: Any, attributes: Any, weights: Any) -> tuple[Ids, Ids, Floats]:
    """What `set_weights` is given."""
    named = checked_ids(ids)
    asked, fresh = np.asarray(attributes), _numbers(weights, "weights")
    if asked.shape != named.shape or (asked.size and asked.dtype.kind not in "iu"):
        raise InvalidInput(f"attributes are {asked.dtype}{list(asked.shape)}; pass one integer per id")
    if fresh.shape != named.shape:
        raise InvalidInput(f"{fresh.size} weights for {named.size} ids; pass one each")
    wrong = ~(np.abs(fresh) <= WEIGHT_MAX)
    if wrong.any():
        at = np.flatnonzero(wrong)[0]
        raise BadSubscription(f"the weight for id {named[at]} is {fresh[at]}; it lies in ±{WEIGHT_MAX:g}")
    return named, np.require(asked, np.int64, ["C", "W"]), fresh


def places_of(ids: Ids, asked: Ids, attribute: NDArray[np.signedinteger[Any]]) -> Ids:
    """Which of its constraints is on the attribute asked for, for each filter (row); or BadSubscription."""
    hits = (attribute == asked[:, None]) & (asked[:, None] >= 0)
    missing = ~hits.any(axis=1)
    if missing.any():
        at = np.flatnonzero(missing)[0]
        raise BadSubscription(f"id {ids[at]} has no constraint on attribute {asked[at]}")
    return np.asarray(hits.argmax(axis=1), np.int64)


def _numbers(values: Any, what: str) -> Floats:
    if type(values) is np.ndarray and values.dtype == np.float64 and values.flags.carray:
        return values
    try:
        array = np.asarray(values)
    except ValueError:
        raise BadSubscription(f"{what} are ragged; pass an array of numbers") from None
    if array.dtype.kind not in "iuf" and array.size:
        raise BadSubscription(f"{what} are of type {array.dtype}; pass numbers")
    # One layout for all callers: a read-only or strided array would make Numba compile once more.
    return np.require(array, np.float64, ["C", "W"])


@njit(cache=True)
def _inspect(rows, attributes, weight_max, constraints):
    """Count constraints; (index into _WHY, row, constraint) of the first fault, (0, 0, 0) if there is none."""
    for i in range(rows.shape[0]):
        constraints[i] = 0
        for p in range(rows.shape[1] // 4):
            attribute, low, high, weight = rows[i, 4 * p : 4 * p + 4]
            absent = (attribute != attribute) + (low != low) + (high != high) + (weight != weight)
            if absent == 4:
                continue
            if absent:
                return 1, i, p
            if not 0 <= attribute < attributes or attribute != np.floor(attribute):
                return 2, i, p
            if low > high:
                return 3, i, p
            if not abs(weight) <= weight_max:
                return 4, i, p
            for q in range(p):
                if rows[i, 4 * q] == attribute:
                    return 5, i, p
            constraints[i] += 1
    return 0, 0, 0


@njit(cache=True)
def _arrange(rows, attribute, low, high, weight):
    """Copy constraints without padding, each filter's sorted by attribute."""
    for i in range(rows.shape[0]):
        count = 0
        for p in range(rows.shape[1] // 4):
            if rows[i, 4 * p] != rows[i, 4 * p]:
                continue
            a = np.int16(rows[i, 4 * p])
            at = count
            while at > 0 and attribute[i, at - 1] > a:
                attribute[i, at] = attribute[i, at - 1]
                low[i, at], high[i, at], weight[i, at] = low[i, at - 1], high[i, at - 1], weight[i, at - 1]
                at -= 1
            attribute[i, at] = a
            low[i, at], high[i, at], weight[i, at] = rows[i, 4 * p + 1 : 4 * p + 4]
            count += 1
