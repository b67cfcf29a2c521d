"""Rows of a trace table that wait to become a row group: one growing buffer per column.

A value is checked once, by `prepare`, before any column has taken anything, so that a refused write leaves
no half a row behind. What does not fit its column is refused, never wrapped or cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import index
from typing import Any, NamedTuple

import numpy as np

from brokers.errors import InvalidInput
from brokers.schema import Column, Table

GROUP_ROWS = 262_144  # rows of a row group; 12 columns of them are 20 MB in memory
GROUP_FLOATS = 4_194_304  # values of a list column in a row group, 32 MB
FIRST_ROWS = 256  # capacity of a fresh buffer: most tables of most shards stay small

_NUMPY = {"int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "float64": np.float64}
_LIMITS = {f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)}


class Lists(NamedTuple):
    """Rows of a list column that differ in length: row i is `values[offsets[i]:offsets[i + 1]]`."""

    offsets: np.ndarray
    values: np.ndarray


class _Numbers:
    """The rows of a numeric column that wait for their row group."""

    def __init__(self, column: Column, capacity: int):
        self.column = column
        self.dtype = np.dtype(_NUMPY[column.type])
        self.data = np.empty(capacity, self.dtype)
        self.limits: tuple[int, int] | None = _LIMITS.get(column.type)  # of whole numbers

    def prepare(self, value: Any) -> tuple[Any, int]:
        """The value in a form that `fill` may copy without a look, and its rows (-1: a scalar)."""
        if not isinstance(value, np.ndarray):
            if not isinstance(value, list | tuple):
                return self._scalar(value), -1
            value = np.asarray(value) if value else np.empty(0, self.dtype)
        if value.ndim != 1:
            if value.ndim == 0:
                return self._scalar(value[()]), -1
            raise InvalidInput(f"{self.column.name}: {value.ndim} dimensions where one is needed")
        if value.dtype is not self.dtype and value.dtype != self.dtype:
            self._check(value)
        return value, len(value)

    def _scalar(self, value: Any) -> Any:
        if self.limits is None:
            if isinstance(value, str | bytes) or not np.isscalar(value):
                raise InvalidInput(f"{self.column.name}: {value!r} is no number")
            return float(value)  # type: ignore[arg-type]
        if type(value) is int and self.limits[0] <= value <= self.limits[1]:
            return value
        try:
            number = int(value) if isinstance(value, np.bool_) else index(value)
        except TypeError:
            raise InvalidInput(f"{self.column.name}: {value!r} is no {self.column.type}") from None
        if not self.limits[0] <= number <= self.limits[1]:
            raise InvalidInput(f"{self.column.name}: {number} does not fit {self.column.type}")
        return number

    def _check(self, value: np.ndarray) -> None:
        if value.dtype.kind not in ("biu" if self.limits else "biuf"):
            raise InvalidInput(f"{self.column.name}: {value.dtype} values in a column of {self.column.type}")
        if self.limits is None or value.size == 0 or np.can_cast(value.dtype, self.dtype):
            return
        low, high = int(value.min()), int(value.max())
        if low < self.limits[0] or high > self.limits[1]:
            wrong = low if low < self.limits[0] else high
            raise InvalidInput(
                f"{self.column.name}: {wrong} does not fit {self.column.type}; "
                "hand over unsigned bits as value.view(np.int64)"
            )

    def grow(self, rows: int, capacity: int) -> None:
        data = np.empty(capacity, self.dtype)
        data[:rows] = self.data[:rows]
        self.data = data

    def fill(self, at: int, value: Any, start: int, stop: int) -> None:
        self.data[at : at + stop - start] = value[start:stop] if isinstance(value, np.ndarray) else value

    def result(self, rows: int) -> np.ndarray:
        return self.data[:rows]

    def clear(self) -> None:
        pass


class _Strings:
    """The same for a column of strings: small tables only, so a list will do."""

    def __init__(self, column: Column, capacity: int):
        self.column = column
        self.data: list[str] = []

    def prepare(self, value: Any) -> tuple[Any, int]:
        if isinstance(value, str):
            return str(value), -1
        strings = value.tolist() if isinstance(value, np.ndarray) else list(value)
        for string in strings:
            if not isinstance(string, str):
                raise InvalidInput(f"{self.column.name}: {string!r} is no string")
        return strings, len(strings)

    def grow(self, rows: int, capacity: int) -> None:
        pass

    def fill(self, at: int, value: Any, start: int, stop: int) -> None:
        self.data += [value] * (stop - start) if isinstance(value, str) else value[start:stop]

    def result(self, rows: int) -> list[str]:
        return self.data[:rows]

    def clear(self) -> None:
        self.data = []


class Rows:
    """The same for a column of lists of floats."""

    def __init__(self, column: Column, capacity: int):
        self.column = column
        self.offsets = np.zeros(capacity + 1, np.int32)
        self.values = np.empty(4 * capacity, np.float64)
        self.used = 0

    def prepare(self, value: Any) -> tuple[Any, int]:
        if value is None:
            return None, -1
        if isinstance(value, Lists):
            offsets = np.asarray(value.offsets)
            values = np.ascontiguousarray(value.values, np.float64)
            if offsets.ndim != 1 or len(offsets) == 0 or offsets.dtype.kind not in "iu" or values.ndim != 1:
                raise InvalidInput(f"{self.column.name}: Lists needs n + 1 integer offsets and flat values")
            offsets = offsets.astype(np.int64)
            if offsets[0] < 0 or offsets[-1] > len(values) or np.any(np.diff(offsets) < 0):
                raise InvalidInput(f"{self.column.name}: offsets of Lists must rise within the values")
            return Lists(offsets, values), len(offsets) - 1
        array = np.asarray(value)
        if array.ndim != 2 or array.dtype.kind not in "biuf":
            raise InvalidInput(
                f"{self.column.name}: a list column takes a 2-D array of numbers, Lists or None "
                f"(got {array.dtype} in {array.ndim} dimensions)"
            )
        return array, len(array)

    def grow(self, rows: int, capacity: int) -> None:
        offsets = np.zeros(capacity + 1, np.int32)
        offsets[: rows + 1] = self.offsets[: rows + 1]
        self.offsets = offsets

    def room(self, value: Any, start: int, rows: int) -> int:
        """How many of the next `rows` rows still fit; a row too long for any group gets one alone."""
        left = GROUP_FLOATS - self.used
        if value is None:
            return rows
        if isinstance(value, Lists):
            ends = value.offsets[start + 1 : start + 1 + rows] - value.offsets[start]
            fit = int(np.searchsorted(ends, left, side="right"))
        else:
            fit = rows if value.shape[1] == 0 else min(rows, left // value.shape[1])
        return fit if fit or self.used else 1

    def fill(self, at: int, value: Any, start: int, stop: int) -> None:
        rows = stop - start
        if value is None:
            self.offsets[at + 1 : at + 1 + rows] = self.used
            return
        if isinstance(value, Lists):
            ends = value.offsets[start + 1 : stop + 1] - value.offsets[start]
            flat = value.values[value.offsets[start] : value.offsets[stop]]
        else:
            ends = np.arange(1, rows + 1) * value.shape[1]
            flat = value[start:stop].reshape(-1)
        end = self.used + len(flat)
        if end > len(self.values):
            values = np.empty(max(end, min(4 * len(self.values), GROUP_FLOATS)), np.float64)
            values[: self.used] = self.values[: self.used]
            self.values = values
        self.values[self.used : end] = flat
        self.offsets[at + 1 : at + 1 + rows] = ends + self.used
        self.used = end

    def result(self, rows: int) -> Lists:
        return Lists(self.offsets[: rows + 1], self.values[: self.used])

    def clear(self) -> None:
        self.used = 0


Buffer = _Numbers | _Strings | Rows


def _buffer(column: Column, capacity: int) -> Buffer:
    if column.type in _NUMPY:
        return _Numbers(column, capacity)
    return _Strings(column, capacity) if column.type == "string" else Rows(column, capacity)


class Group:
    """The rows of one table that wait to become a row group."""

    def __init__(self, table: Table):
        self.rows = 0
        self.capacity = FIRST_ROWS
        self.buffers = {column.name: _buffer(column, FIRST_ROWS) for column in table.columns}
        self.lists = {name: buffer for name, buffer in self.buffers.items() if isinstance(buffer, Rows)}

    def reserve(self, rows: int) -> None:
        if rows > self.capacity:
            while self.capacity < rows:
                self.capacity *= 4
            self.capacity = min(self.capacity, GROUP_ROWS)
            for buffer in self.buffers.values():
                buffer.grow(self.rows, self.capacity)

    def columns(self) -> dict[str, Any]:
        return {name: buffer.result(self.rows) for name, buffer in self.buffers.items()}

    def clear(self) -> None:
        self.rows = 0
        for buffer in self.buffers.values():
            buffer.clear()


def joined(column: Column, parts: Sequence[Any]) -> np.ndarray:
    """One array of what groups hold of a column; strings and lists as objects."""
    if column.type in _NUMPY:
        return np.concatenate([np.empty(0, _NUMPY[column.type]), *parts])
    rows: list[Any] = []
    for part in parts:
        if isinstance(part, Lists):
            ends = part.offsets.tolist()
            rows += [part.values[start:stop].copy() for start, stop in pairwise(ends)]
        else:
            rows += part
    found = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        found[i] = row
    return found
