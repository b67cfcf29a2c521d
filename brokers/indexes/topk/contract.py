"""The ranked-match contract: which filters does a message score highest with, partial matches counted?

A filter is one row of float64, `[attribute, low, high, weight] * n` padded with quadruples of NaN, with at
most one constraint per attribute. It has an id and a receiver. A message has, per attribute, a closed
interval (a point where both ends are equal) or NaN where it has none, and may bring weights of its own.

- A constraint *matches* iff its range and the message's interval share a point; ends count.
- It *contributes* its weight, or the message's weight for the attribute if the message brings weights:
  bringing zeros is not the same as bringing none. With `prorate` the weight is multiplied by the shared
  length over the constraint's length; whole if either is a point or the constraint's length is infinite.
- The *score* is the sum of the contributions, added to 0.0 in ascending order of attributes. So equal filters
  score equally to the last bit, in every index and at every broker.
- The *rank order* is (score descending, id ascending). Only scores above `threshold` (>= 0) are ranked.
- The answer is the first k. If the next one has the same score there is a tie at the boundary, which the
  answer reports: `ties` keeps the first k by id, adds `all` that tie, or keeps `none` of those that tie.
- With `unit="receiver"` a receiver is ranked once, by its best filter.

The rank order is total, so the first k of a union are among the first k of its parts: `best` gives a part's
ranking with as much as a merger needs, `merged` unites rankings, `answered` makes the answer. `bound` says
what no filter of an index can exceed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.contract import BadEvent, Ids, Index

Floats = NDArray[np.float64]
Ties = Literal["deterministic", "all", "none"]
Unit = Literal["filter", "receiver"]

WEIGHT_MAX = 1e300  # so that no sum of weights overflows


class BadQuery(InvalidInput):
    """Parameters that ask for no possible answer."""


class RankedMessage(NamedTuple):
    """Made by `message`, which checks it. NaN in `low` and `high` where there is no such attribute."""

    low: Floats
    high: Floats
    weights: Floats | None  # None: the receivers' weights count; they are 0 where the message has no value


class Ranking(NamedTuple):
    """Filters in rank order."""

    ids: Ids
    scores: Floats
    receivers: Ids


class Answer(NamedTuple):
    """The filters asked for, in rank order."""

    ids: Ids
    scores: Floats
    receivers: Ids
    tie_at_boundary: bool  # the k-th score is also that of a filter (or receiver) behind the k-th


@dataclass(frozen=True)
class Query:
    """What is asked about a message."""

    k: int | None  # None: all above the threshold; none if k <= 0
    threshold: float = 0.0  # scores have to be above it; not negative
    ties: Ties = "deterministic"
    unit: Unit = "filter"
    exclude: int | None = None  # a receiver that is not ranked: the publisher
    prorate: bool = False

    def __post_init__(self) -> None:
        for name, value in (("k", self.k), ("exclude", self.exclude)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer)):
                raise BadQuery(f"{name} is {value!r}; pass an integer or None")
            if value is not None and not -(2**63) <= value < 2**63:
                raise BadQuery(f"{name} is {value}; it lies in 64 bits")
        if not 0.0 <= self.threshold < np.inf:
            raise BadQuery(f"threshold is {self.threshold!r}; scores are ranked above 0 or a number above it")
        if self.ties not in get_args(Ties):
            raise BadQuery(f"ties is {self.ties!r}; one of {', '.join(get_args(Ties))}")
        if self.unit not in get_args(Unit):
            raise BadQuery(f"unit is {self.unit!r}; one of {', '.join(get_args(Unit))}")
        if not isinstance(self.prorate, bool):
            raise BadQuery(f"prorate is {self.prorate!r}; pass True or False")


class RankedIndex(Index):
    """Filters in, the ones that score highest with a message out."""

    question: ClassVar[str] = "ranked-match"
    attributes: int

    @abstractmethod
    def insert(self, ids: Any, rows: Any, receivers: Any = None) -> None:
        """Add filters: ids int64[n], rows float64[n, 4c], receivers int64[n], the ids themselves if None."""

    @abstractmethod
    def delete(self, ids: Any) -> None:
        """Remove filters by id."""

    @abstractmethod
    def set_weights(self, ids: Any, attributes: Any, weights: Any) -> None:
        """Give the constraint of filter ids[i] on attributes[i] the weight weights[i], in place."""

    @abstractmethod
    def best(self, message: RankedMessage, query: Query) -> Ranking:
        """What a merger needs: the first k + 1; with `ties="all"` at least all that tie with the k-th too."""

    @abstractmethod
    def bound(self, message: RankedMessage, prorate: bool = False) -> float:
        """A score that no filter held exceeds; 0.0 if none can have a positive one."""

    def rows(self, ids: Any) -> Floats:
        """The filters held under these ids, as `insert` takes them: float64[n, 4c], NaN padded."""
        raise NotImplementedError(f"{type(self).__name__} has no rows(), so a service of it takes no checkpoints")

    def match(self, message: RankedMessage, query: Query) -> Answer:
        """The answer to one message. As fast as `best`."""
        return answered(self.best(message, query), query)


def message(values: Any, weights: Any = None) -> RankedMessage:
    """Values float64[m], or intervals float64[m, 2], NaN where missing; weights float64[m]. O(m)."""
    array = _floats(values, "a message")
    if array.ndim == 1:
        low = high = array
    elif array.ndim == 2 and array.shape[1] == 2:
        low, high = np.ascontiguousarray(array[:, 0]), np.ascontiguousarray(array[:, 1])
        half = (low == low) != (high == high)
        if half.any():
            raise BadEvent(f"attribute {np.flatnonzero(half)[0]} has one end; pass two, or NaN twice")
        if (low > high).any():
            raise BadEvent(f"attribute {np.flatnonzero(low > high)[0]} has low above high; swap them")
    else:
        raise BadEvent(f"a message has shape {array.shape}; pass one value or [low, high] per attribute")
    if weights is None:
        return RankedMessage(low, high, None)
    given = _floats(weights, "a message's weights")
    if given.shape != low.shape:
        raise BadEvent(f"{given.size} weights for {low.size} attributes; pass one each")
    present = low == low
    wrong = present & ~(np.abs(given) <= WEIGHT_MAX)
    if wrong.any():
        at = np.flatnonzero(wrong)[0]
        raise BadEvent(f"the weight of attribute {at} is {given[at]}; it lies in ±{WEIGHT_MAX:g}")
    return RankedMessage(low, high, np.where(present, given, 0.0))


def checked_message(message: RankedMessage, attributes: int) -> RankedMessage:
    """The message, or BadEvent if it has another number of attributes than the index."""
    if len(message.low) != attributes:
        raise BadEvent(f"a message of {len(message.low)} attributes for an index of {attributes}")
    return message


def contributions(
    message: RankedMessage, attribute: Ids, low: Floats, high: Floats, weight: Floats, prorate: bool
) -> Floats:
    """What each constraint adds to its filter's score: the definition. Arrays of one shape; low NaN: none."""
    asked_low, asked_high = message.low[attribute], message.high[attribute]
    counted = weight if message.weights is None else message.weights[attribute]
    if prorate:
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            length = high - low
            share = (np.minimum(high, asked_high) - np.maximum(low, asked_low)) / length
            whole = ~np.isfinite(length) | (length == 0.0) | (asked_low == asked_high)
            counted = np.where(whole, counted, counted * share)
    return np.where((low <= asked_high) & (high >= asked_low), counted, 0.0)


def ranked(ids: Ids, scores: Floats, receivers: Ids, query: Query) -> Ranking:
    """Filters in any order -> what `best` returns. O(n log n)."""
    if query.k is not None and query.k <= 0:
        return Ranking(ids[:0], scores[:0], receivers[:0])
    kept = scores > query.threshold
    if query.exclude is not None:
        kept &= receivers != query.exclude
    ids, scores, receivers = ids[kept], scores[kept], receivers[kept]
    order = _rank_order(ids, scores)
    if query.unit == "receiver":
        first = np.unique(receivers[order], return_index=True)[1]
        order = order[np.sort(first)]
    if query.k is not None and len(order) > query.k:
        kept_count = query.k + 1
        if query.ties == "all":
            kept_count = np.searchsorted(-scores[order], -scores[order[query.k - 1]], side="right")
            kept_count = max(int(kept_count), query.k + 1)
        order = order[:kept_count]
    return Ranking(ids[order], scores[order], receivers[order])


def _rank_order(ids: Ids, scores: Floats) -> Ids:
    """The order by (score descending, id ascending). O(n log n); ids are compared where scores tie alone."""
    order = np.argsort(-scores, kind="stable")
    falling = scores[order]
    same = falling[1:] == falling[:-1]
    if same.any():
        tied = np.zeros(len(order), np.bool_)
        tied[1:] |= same
        tied[:-1] |= same
        among = order[tied]
        order[tied] = among[np.lexsort((ids[among], -scores[among]))]
    return order


def merged(rankings: Sequence[Ranking], query: Query) -> Ranking:
    """The ranking of a union from those of its parts, which share no filter. O(n log n)."""
    if not rankings:
        return Ranking(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64))
    ids, scores, receivers = (np.concatenate(columns) for columns in zip(*rankings))
    return ranked(ids, scores, receivers, query)


def answered(ranking: Ranking, query: Query) -> Answer:
    """The answer that a ranking holds. O(k)."""
    k = len(ranking.ids) if query.k is None else max(query.k, 0)
    tie = 0 < k < len(ranking.ids) and bool(ranking.scores[k] == ranking.scores[k - 1])
    end = k
    if tie and query.ties == "all":
        end = int(np.searchsorted(-ranking.scores, -ranking.scores[k], side="right"))
    elif tie and query.ties == "none":
        end = int(np.searchsorted(-ranking.scores, -ranking.scores[k], side="left"))
    return Answer(ranking.ids[:end], ranking.scores[:end], ranking.receivers[:end], tie)


def _floats(values: Any, what: str) -> Floats:
    if type(values) is np.ndarray and values.dtype == np.float64 and values.flags.carray:
        return values
    try:
        array = np.asarray(values)
    except ValueError:
        raise BadEvent(f"{what} is ragged; pass an array of numbers") from None
    if array.dtype.kind not in "iuf" and array.size:
        raise BadEvent(f"{what} is of type {array.dtype}; pass numbers")
    return np.require(array, np.float64, ["C", "W"])
