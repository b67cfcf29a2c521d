"""Cells as numbers: whole columns where Arrow can read them, one by one where it cannot.

What a data frame writes is understood: whole numbers with gaps as `0.0`, `True` and `False` as 1 and 0, and what stands
for nothing. Each way of reading is a ladder: the column as it is, then without the words for nothing, then cell by
cell, which is slow and says exactly what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.contract import NEVER, Floats, Ints
from brokers.words import beginning_with
from scenarios.workloads.replaying.problems import Problems

NOTHING = ("", "nan", "NaN", "NAN", "None", "null", "NULL", "NaT", "<NA>", "NA", "N/A")
_TRUTH = {"True": 1.0, "true": 1.0, "TRUE": 1.0, "False": 0.0, "false": 0.0, "FALSE": 0.0}
_EXACT = 2.0**53
_LIST_MAX = 100_000  # numbers of one cell

Marks = NDArray[np.bool_]


class PieceCells:
    """The cells of some rows of a piece, by the names that forms ask for."""

    def __init__(
        self,
        batch: Any,
        columns: Mapping[str, str],
        rows: Ints,
        words: Mapping[int, Sequence[str]],
        problems: Problems,
        hint: str = "",
        clients: Ints | None = None,
    ) -> None:
        """`columns` gives the column of the file behind a name, `rows` the place of each row in the file.

        `hint` is said of text where a number should be.
        """
        self._batch = batch
        self._columns = columns
        self._rows = rows
        self.words = words
        self._problems = problems
        self._hint = hint
        self._clients = clients

    @property
    def size(self) -> int:
        return int(self._rows.size)

    @property
    def clients(self) -> Ints:
        assert self._clients is not None
        return self._clients

    def has(self, name: str) -> bool:
        return name in self._columns

    def wrong(self, marks: Any, tell: Callable[[int], str]) -> None:
        if marks.any():
            self._problems.where(self._rows, marks, tell)

    def numbers(self, name: str) -> Floats:
        if not self.has(name):
            return np.full(self.size, np.nan)
        return as_numbers(self._column(name), self.teller(name, "must be a number"))

    def wholes(self, name: str, empty: int = -1) -> Ints:
        if not self.has(name):
            return np.full(self.size, empty, np.int64)
        return as_wholes(self._column(name), self.teller(name, "must be a whole number"), empty)

    def codes(self, name: str, attribute: int) -> Floats:
        import pyarrow as arrow
        import pyarrow.compute as compute

        if not self.has(name):
            return np.full(self.size, np.nan)
        known = arrow.array(self.words.get(attribute, ()), arrow.string())
        found = compute.index_in(as_text(self._column(name)), value_set=known)
        return _floats(found)

    def prefixes(self, name: str, attribute: int) -> tuple[Floats, Floats]:
        first, last = np.full(self.size, np.nan), np.full(self.size, np.nan)
        if not self.has(name):
            return first, last
        coded = as_text(self._column(name)).dictionary_encode()
        words = self.words.get(attribute, ())
        ends = np.array([beginning_with(words, each) for each in coded.dictionary.to_pylist()], np.float64)
        place = _floats(coded.indices)
        given = ~np.isnan(place)
        if given.any():
            first[given], last[given] = ends[place[given].astype(np.int64)].T
        return first, last

    def lists(self, name: str, attribute: int | None = None) -> Floats:
        if not self.has(name):
            return np.empty((self.size, 0))
        parts, cells, places = list_parts(self._column(name))
        if attribute is None:
            tell = self.teller(name, "must be numbers")
            values = as_numbers(parts, lambda place, cell: tell(int(cells[place]), cell))
        else:
            import pyarrow as arrow
            import pyarrow.compute as compute

            known = arrow.array(self.words.get(attribute, ()), arrow.string())
            values = _floats(compute.index_in(as_text(parts), value_set=known))
        width = int(places.max(initial=-1)) + 1
        long = cells[places >= _LIST_MAX]
        if long.size:
            self._problems.at(int(self._rows[long[0]]), f"{name} has more than {_LIST_MAX:,} entries")
            return np.empty((self.size, 0))
        out = np.full((self.size, width), np.nan)
        out[cells, places] = values
        return out

    def texts(self, name: str) -> list[str | None]:
        if not self.has(name):
            return [None] * self.size
        return [None if cell is None else str(cell) for cell in self._column(name).to_pylist()]

    def _column(self, name: str) -> Any:
        return self._batch.column(self._columns[name])

    def teller(self, name: str, must: str) -> Callable[[int, Any], None]:
        written = self._columns[name]
        hint = self._hint if must in ("must be a number", "must be numbers") else ""

        def tell(place: int, cell: Any) -> None:
            about = hint if isinstance(cell, str) and cell.strip() else ""
            self._problems.at(int(self._rows[place]), f"{written} {must} (got {shown(cell)}){about}")

        return tell


def shown(cell: Any) -> str:
    """A cell for a message."""
    text = repr(cell)
    return text if len(text) <= 60 else text[:57] + "..."


# ---- columns -----------------------------------------------------------------------------------------


def within(numbers: Any, limit: float) -> Marks:
    """Where numbers lie between both limits; the least of 64 bits has no absolute value."""
    return np.asarray((numbers > -limit) & (numbers < limit), np.bool_)


def plain(column: Any) -> Any:
    """The column without what only tells how it is stored."""
    import pyarrow as arrow

    types = arrow.types
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_large_string(column.type) or types.is_string_view(column.type):
        column = column.cast(arrow.string())
    return column


def as_text(column: Any) -> Any:
    """Text as it stands; None for nothing."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    column = plain(column)
    if not arrow.types.is_string(column.type):
        try:
            column = compute.cast(column, arrow.string())
        except arrow.ArrowException:
            column = arrow.array(
                [None if cell is None else str(cell) for cell in column.to_pylist()], arrow.string()
            )
    return compute.if_else(compute.equal(column, ""), None, column)


def as_numbers(column: Any, tell: Callable[[int, Any], None]) -> Floats:
    """float64, NaN for nothing; `tell` gets the place and the cell of what is no number."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    column = plain(column)
    for attempt in (lambda: column, lambda: _without_nothing(column)):
        try:
            return _floats(compute.cast(attempt(), arrow.float64(), safe=False))
        except arrow.ArrowException:
            continue
    out = np.full(len(column), np.nan)
    for place, cell in enumerate(column.to_pylist()):
        if cell is None or (isinstance(cell, str) and cell.strip() in NOTHING):
            continue
        try:
            out[place] = (
                _TRUTH[cell.strip()] if isinstance(cell, str) and cell.strip() in _TRUTH else float(cell)
            )
        except (ValueError, TypeError, OverflowError):
            tell(place, cell)
    return out


def as_wholes(column: Any, tell: Callable[[int, Any], None], empty: int | None = None) -> Ints:
    """int64; nothing is wrong, or stands for `empty`."""
    import pyarrow as arrow

    column = plain(column)
    types = arrow.types
    readable = not types.is_boolean(column.type) and not types.is_temporal(column.type)
    if readable and (column.null_count == 0 or empty is not None):
        for attempt in (lambda: column, lambda: _without_nothing(column)):
            try:
                numbers = whole_column(attempt())
                if numbers.null_count and empty is None:
                    break
                found = numbers.fill_null(0 if empty is None else empty).to_numpy(zero_copy_only=False)
                if within(found, NEVER).all():
                    return np.asarray(found, np.int64)
            except arrow.ArrowException:
                continue
        rounded = _whole_floats(column, empty)
        if rounded is not None:
            return rounded
    out = np.zeros(len(column), np.int64)
    for place, cell in enumerate(column.to_pylist()):
        if cell is None or cell != cell or (isinstance(cell, str) and cell.strip() in NOTHING):
            if empty is None:
                tell(place, cell)
            out[place] = 0 if empty is None else empty
            continue
        number = _whole(cell)
        if number is None:
            tell(place, cell)
        else:
            out[place] = number
    return out


def whole_column(column: Any) -> Any:
    """A column cast to int64, or an ArrowException. Arrow reads 0x1F in text as a number, as nothing else here."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    if (
        arrow.types.is_string(column.type)
        and compute.any(compute.match_substring(column, "x", ignore_case=True)).as_py()
    ):
        raise arrow.ArrowInvalid("a number in base 16")
    return compute.cast(column, arrow.int64())


def _whole_floats(column: Any, empty: int | None) -> Ints | None:
    """Whole numbers that a data frame wrote as 0.0, because the column has gaps; None where it has anything else."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    try:
        numbers = _floats(compute.cast(_without_nothing(column), arrow.float64()))
    except arrow.ArrowException:
        return None
    gaps = np.isnan(numbers)
    filled = np.where(gaps, 0.0, numbers)
    if (empty is None and gaps.any()) or not (
        (np.abs(filled) < _EXACT) & (filled == np.floor(filled))
    ).all():
        return None
    return np.where(gaps, 0 if empty is None else empty, filled.astype(np.int64))


def _whole(cell: Any) -> int | None:
    """The whole number in a cell, also where a data frame wrote it as 0.0."""
    if isinstance(cell, bool):
        return None
    if isinstance(cell, str):
        try:
            number = int(cell)
        except ValueError:
            try:
                cell = float(cell)
            except ValueError:
                return None
            return _whole(cell)
    elif isinstance(cell, float):
        if not cell.is_integer() or abs(cell) >= _EXACT:
            return None
        number = int(cell)
    elif isinstance(cell, int):
        number = cell
    else:
        return None
    return number if abs(number) < NEVER else None


def list_parts(column: Any) -> tuple[Any, Ints, Ints]:
    """The entries of cells that are lists, or text with blanks between: (entries, their cell, their place in it)."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    column = plain(column)
    types = arrow.types
    if not (types.is_list(column.type) or types.is_large_list(column.type)):
        text = as_text(column)
        trimmed = compute.replace_substring_regex(text, r"[\[\],;]", " ")
        column = compute.split_pattern_regex(compute.utf8_trim_whitespace(trimmed), r"\s+")
    cells = np.asarray(compute.list_parent_indices(column).to_numpy(zero_copy_only=False), np.int64)
    starts = np.searchsorted(cells, np.arange(len(column)))
    entries = compute.list_flatten(column)
    return entries, cells, np.arange(cells.size) - starts[cells]


def _without_nothing(column: Any) -> Any:
    """The column with None where a data frame wrote a word for nothing, and without blanks around."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    if not arrow.types.is_string(column.type):
        return column
    column = compute.utf8_trim_whitespace(column)
    return compute.if_else(compute.is_in(column, value_set=arrow.array(NOTHING)), None, column)


def _floats(column: Any) -> Floats:
    """A numeric Arrow array as float64, NaN for nothing."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    if not arrow.types.is_float64(column.type):
        column = compute.cast(column, arrow.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def as_data(text: str) -> Any:
    """JSON in a cell, or ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_nothing(column: Any) -> Marks:
    """Where there is nothing in a cell, however a data frame wrote that."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    column = plain(column)
    types = arrow.types
    if types.is_floating(column.type):
        return np.isnan(_floats(column))
    if types.is_string(column.type):
        column = _without_nothing(column)
    if types.is_list(column.type) or types.is_large_list(column.type):
        return (
            np.asarray(compute.fill_null(compute.list_value_length(column), 0).to_numpy(zero_copy_only=False))
            == 0
        )
    return np.asarray(compute.is_null(column).to_numpy(zero_copy_only=False), np.bool_)
