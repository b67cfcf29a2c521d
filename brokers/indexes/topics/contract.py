"""The topic-match contract: which filters have a name?

Filters and names are rows of levels in numbers (`brokers.indexes.topics.syntax`): int32[n, w] with `PADDING` behind
the last level, or float64[n, w] with NaN there, as rows are in the network. Words are 0 or more; filters may also hold
`PLUS`, and `HASH` as their last level. The syntax, `mqtt` or `nats`, says what a leading wildcard and `HASH` stand
for; `syntax.matches` is the definition.

Many ids may have one filter. Groups, retained values and who may see what are not asked here: they belong to the kind.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.contract import Floats, Ids, RowIndex, UnknownId, checked_ids
from brokers.indexes.topics import level_kernels as kernels
from brokers.indexes.topics.syntax import WORD_MAX, BadFilter, BadName, Syntax, syntax_named

Rows = NDArray[np.int32]

_PAIRS_AT_FIRST = 1024


class TopicIndex(RowIndex):
    """Filters in, the ids of those out that have a name, in ascending order."""

    question: ClassVar[str] = "topic-match"
    syntax: Syntax

    @abstractmethod
    def __init__(self, syntax: str | Syntax = "mqtt", **options: Any) -> None:
        """An empty index; every option has a default."""

    @classmethod
    def build(cls, syntax: str | Syntax, ids: Any, rows: Any, **options: Any) -> Self:
        """An index that holds these filters from the start."""
        index = cls(syntax, **options)
        index.insert(ids, rows)
        return index

    @abstractmethod
    def insert(self, ids: Any, rows: Any) -> None:
        """Add filters: ids int64[n], rows of levels [n, w]."""

    @abstractmethod
    def delete(self, ids: Any) -> None:
        """Remove filters by id."""

    @abstractmethod
    def rows(self, ids: Any) -> Rows:
        """The filters held under these ids: int32[n, w] with padding."""

    @abstractmethod
    def match_many(self, values: Any) -> tuple[Ids, Ids]:
        """Names, rows of levels [n, w] -> (ptr int64[n + 1], ids), ids[ptr[i]:ptr[i + 1]] for name i, ascending."""

    def match(self, values: Any) -> Ids:
        """One name -> the ids of the filters that have it, ascending."""
        return self.match_many(np.asarray(values)[None, :])[1]

    def update(self, ids: Any, rows: Any) -> None:
        """Give ids that are held other filters; nothing changes if one is unknown or a row is bad."""
        known = checked_ids(ids)
        fresh = checked_filters(rows, len(known))
        self.delete(known)
        self.insert(known, fresh)

    def late_matches(self, values: Floats, since: Ids, log: Ids, rows: Floats) -> tuple[Ids, Ids]:
        """Pairs of a name i and an id of log[since[i]:] whose filter has it. O(names · log)."""
        names = checked_names(values)
        first = max(int(since.min()), 0) if since.size else log.size
        filters = checked_filters(rows[log[first:]])
        size = _PAIRS_AT_FIRST
        while True:
            name, id_ = np.empty(size, np.int64), np.empty(size, np.int64)
            found = kernels.late_pairs(names, since, log, filters, first, name, id_, self.syntax.dollar_rule)
            if found <= size:
                return name[:found], id_[:found]
            size = found


def held(ids: Ids, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places found for ids, or UnknownId naming the first that has none (-1)."""
    if (places < 0).any():
        raise UnknownId(f"id {ids[places < 0][0]} is not in the index")
    return places


def checked_syntax(syntax: Any) -> Syntax:
    """One of the syntaxes that kernels know."""
    found = syntax_named(syntax)
    if found.rest_may_be_empty != found.dollar_rule:
        raise InvalidInput(f"indexes know the syntaxes mqtt and nats, not {found.name!r}")
    return found


def checked_filters(rows: Any, count: int | None = None) -> Rows:
    """Filters as int32[n, w] of their own with padding, or BadFilter naming row and level. O(n w)."""
    levels = _checked(rows, "filters", True, BadFilter)
    if count is not None and len(levels) != count:
        raise BadFilter(f"{len(levels)} filters for {count} ids; pass one filter per id")
    return levels


def checked_names(rows: Any) -> Rows:
    """Names as int32[n, w] of their own with padding, or BadName naming row and level. O(n w)."""
    return _checked(rows, "names", False, BadName)


def _checked(rows: Any, what: str, wildcards: bool, error: type[InvalidInput]) -> Rows:
    try:
        array = np.asarray(rows)
    except ValueError:
        raise error(f"{what} are ragged; pass rows of one width, padded behind their last level") from None
    if array.size == 0 and array.ndim < 2:
        return np.empty((0, 1), np.int32)
    if array.ndim != 2:
        raise error(f"{what} have {array.ndim} dimensions; pass one row of levels each")
    if array.dtype.kind not in "iuf":
        raise error(f"{what} are of type {array.dtype}; pass numbers (text becomes some by a Vocabulary)")
    # Few types and one layout for all callers: each other one would make Numba compile once more.
    plain = np.require(array, np.int32 if array.dtype == np.int32 else np.float64, ["C", "W"])
    levels, row, column, wrong = kernels.levels_of(plain, wildcards)
    if wrong:
        value = plain[row, column] if plain.size else 0
        raise error(f"row {row} of the {what}, level {column + 1}: {_why(wrong, value)}")
    return levels


def _why(wrong: int, value: float) -> str:
    return {
        kernels.NO_LEVEL: "there is no level; a row has at least one",
        kernels.NO_WORD: f"{value:g} is no word and no wildcard; words are whole numbers in 0..{WORD_MAX}",
        kernels.HASH_NOT_LAST: "what stands for all that is left comes last",
        kernels.GAP: f"{value:g} stands behind padding; padding comes last",
        kernels.WILDCARD: "a wildcard; names have none, filters do",
    }[wrong]


def padded(rows: list[list[int]]) -> Rows:
    """Rows of their own lengths as one array with padding."""
    width = max(map(len, rows), default=1)
    levels = np.full((len(rows), width), kernels.PADDING, np.int32)
    for row, one in zip(levels, rows):
        row[: len(one)] = one
    return levels
