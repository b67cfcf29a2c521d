"""Columns of Arrow tables as arrays, and what is looked up in them.

Numbers only, and NumPy and Arrow: this module goes to the tasks by value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from analysis.spark.pairs import Lists
from analysis.spark.passes import Array, Columns
from brokers import padded


def numbers(table: pa.Table | None, *names: str) -> Columns:
    if table is None:
        return {name: np.empty(0, np.int64) for name in names}
    return {name: table.column(name).to_numpy() for name in names or table.column_names}


def rows(table: pa.Table | None, names: Sequence[str]) -> Columns:
    """As `numbers`; lists as rows."""
    found = {}
    for name in names:
        of_lists = table is not None and pa.types.is_list(table.schema.field(name).type)
        found[name] = padded.padded(*values(table, name=name)) if of_lists else numbers(table, name)[name]
    return found


def taken(rows: Columns, at: Array) -> Columns:
    return {name: column[at] for name, column in rows.items()}


def of(ordered: Array, wanted: Array) -> Array:
    """Where ids that are in order are among the wanted ones, which are some of them or others."""
    wanted = np.unique(wanted)
    first, last = np.searchsorted(ordered, wanted), np.searchsorted(ordered, wanted, side="right")
    sizes = last - first
    return np.arange(int(sizes.sum())) + np.repeat(first - (np.cumsum(sizes) - sizes), sizes)


def greatest(key: Array, value: Array) -> tuple[Array, Array]:
    """Each key once, in order, with the greatest of its values."""
    keys, place = np.unique(key, return_inverse=True)
    found = np.full(keys.size, -1, np.int64)
    np.maximum.at(found, place, value)
    return keys, found


def looked_up(keys: Array, values: Array, wanted: Array) -> Array:
    """The value of each wanted key, -1 where there is none."""
    if not keys.size:
        return np.full(wanted.size, -1, np.int64)
    by_key = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys, wanted, sorter=by_key), keys.size - 1)
    return np.where(keys[by_key[at]] == wanted, values[by_key[at]], -1)


def values(table: pa.Table | None, rows: Array | None = None, name: str = "values") -> tuple[Array, Array]:
    """The sizes of lists of numbers, and the numbers."""
    if table is None:
        return np.empty(0, np.int64), np.empty(0)
    lists = table.column(name).combine_chunks()
    if rows is not None:
        lists = lists.take(pa.array(rows))
    return np.diff(lists.offsets.to_numpy()).astype(np.int64), lists.flatten().to_numpy(zero_copy_only=False)


def lists(table: pa.Table | None, name: str, fields: Sequence[str]) -> Lists:
    if table is None:
        return Lists(np.zeros(1, np.int64), {each: np.empty(0, np.int64) for each in fields})
    lists = table.column(name).combine_chunks()
    columns = {each: lists.values.field(each).to_numpy(zero_copy_only=False) for each in fields}
    return Lists(lists.offsets.to_numpy().astype(np.int64), columns)
