"""Databases from files: CSV or Parquet, one object per row, its place in some of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.planning.sizes import Database


def read_database(file: str | Path, axes: Sequence[str]) -> Database:
    """The objects of a file, numbered by row from 0; `axes` are the columns with their places.

    Read once per process and version of the file. O(file).

    Raises
    ------
    InvalidInput
        If the file cannot be read, or a column is missing, has gaps or is not numeric.
    """
    path = Path(file)
    try:
        stat = path.stat()
    except OSError as error:
        raise InvalidInput(f"cannot read the database {path}: {error.strerror}") from error
    return _read(path, tuple(axes), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, axes: tuple[str, ...], modified_ns: int, size: int) -> Database:
    """Time and size of the file only tell versions of it apart."""
    import pyarrow as pa

    try:
        table = _table(path)
    except (pa.ArrowException, OSError) as error:
        raise InvalidInput(f"cannot read the database {path}: {str(error).splitlines()[0]}") from error
    missing = [axis for axis in axes if axis not in table.column_names]
    if missing:
        raise InvalidInput(f"{path} has no column {missing[0]!r}; it has {', '.join(table.column_names)}: set `axes`")
    try:
        return Database(np.stack([_numbers(table, axis) for axis in axes], axis=1))
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error


def _table(path: Path) -> Any:
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return pq.read_table(path)
    import pyarrow.csv as csv

    return csv.read_csv(path)


def _numbers(table: Any, axis: str) -> NDArray[np.float64]:
    import pyarrow as pa

    column = table[axis]
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise InvalidInput(f"object {row} has nothing in {axis!r}; give every object its place")
    try:
        return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
    except pa.ArrowException as error:
        raise InvalidInput(f"column {axis!r} is no column of numbers ({error})") from error
