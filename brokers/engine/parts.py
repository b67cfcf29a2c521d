"""The Parquet parts of a run, believed only after they were compared with the manifest.

A part is read from the disk once to be hashed, before it is read to be used: one flipped bit would otherwise turn
up as a fault of a protocol. What was found is remembered for the life of the process with the file's inode, size
and times, so that a part is hashed once however often it is read, and again if it was touched meanwhile.

After the hash comes the footer: rows, columns and types have to be those that the manifest tells.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokers.errors import RunDamaged

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN_MAX = 5
_THREADS = 8

_believed: dict[Path, tuple[int | str, ...]] = {}


def believe(
    folder: Path,
    files: Sequence[Mapping[str, Any]],
    tables: Mapping[str, Mapping[str, Any]],
    anew: bool = False,
) -> None:
    """Compare files that a manifest lists with what it says of them; a RunDamaged names those that differ.

    O(bytes) the first time in a process, O(files) from then on; `anew` hashes them whatever is remembered.
    """

    def problem(file: Mapping[str, Any]) -> str | None:
        columns = tables[file["table"]]["columns"] if file["table"] in tables else None
        said = _fault(folder / file["path"], file, columns, anew)
        return f"{file['path']} {said}" if said else None

    if len(files) > 1:
        with ThreadPoolExecutor(min(_THREADS, len(files))) as pool:
            problems = [said for said in pool.map(problem, files) if said]
    else:
        problems = [said for said in map(problem, files) if said]
    if problems:
        raise RunDamaged.at(folder, listing(problems))


def listing(problems: Sequence[str]) -> str:
    """The first few of many problems, and how many more there are."""
    more = f", and {len(problems) - SHOWN_MAX} more" if len(problems) > SHOWN_MAX else ""
    return f"{', '.join(problems[:SHOWN_MAX])}{more}"


def _fault(path: Path, file: Mapping[str, Any], columns: Sequence[Sequence[str]] | None, anew: bool) -> str | None:
    """What is wrong with a part, None if nothing is."""
    try:
        # O_NONBLOCK: in a damaged folder a pipe may have the name of a part, and nobody ever writes to it.
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as opened:
            now = os.fstat(opened.fileno())
            if not stat.S_ISREG(now.st_mode):
                return "is no file"
            if now.st_size != file["bytes"]:
                return f"has {now.st_size} bytes where the run wrote {file['bytes']}"
            state = (now.st_dev, now.st_ino, now.st_mtime_ns, now.st_ctime_ns, file["sha256"], file["rows"])
            if _believed.get(path) == state and not anew:
                return None
            found = hashlib.file_digest(opened, "sha256").hexdigest()
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    if found != file["sha256"]:
        return "is not what the run wrote: its sha256 differs"
    if fault := _footer_fault(path, file["rows"], columns):
        return fault
    _believed[path] = state
    return None


def _footer_fault(path: Path, rows: int, columns: Sequence[Sequence[str]] | None) -> str | None:
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as part:
            schema, found = part.schema_arrow, part.metadata.num_rows
    except parquet_faults() as error:
        return f"is no whole Parquet file ({one_line(error)})"
    types = [[field.name, _type_name(field.type)] for field in schema]
    if columns is not None and types != [list(column) for column in columns]:
        return "has other columns than the run wrote"
    return None if found == rows else f"has {found} rows where the run wrote {rows}"


def _type_name(of: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_list(of):
        return f"list<{_type_name(of.value_type)}>"
    return "float64" if pa.types.is_float64(of) else str(of)


def read_part(folder: Path, part: Path, columns: Sequence[str] | None = None, filters: Any = None) -> pa.Table:
    """Rows of a part, all or those that `filters` of Arrow leave. No run writes a row with nothing in a column."""
    import pyarrow.parquet as pq

    with reading(folder, part):
        rows = pq.read_table(part, columns=columns, filters=filters, partitioning=None)
    for name, column in zip(rows.column_names, rows.columns):
        if column.null_count:
            raise RunDamaged.at(folder, f"{part.relative_to(folder)} has nothing in a row of column {name!r}")
    return rows


@contextlib.contextmanager
def reading(folder: Path, part: Path) -> Iterator[None]:
    """What Arrow complains about while it reads a part, as damage of that part."""
    try:
        yield
    except parquet_faults() as error:
        raise RunDamaged.at(folder, f"{part.relative_to(folder)} cannot be read: {one_line(error)}") from None


def parquet_faults() -> tuple[type[Exception], ...]:
    """Everything that Arrow raises for bytes that are no sound Parquet."""
    import pyarrow as pa

    # ValueError: names that are no UTF-8; RuntimeError: what its C++ throws; OverflowError: sizes below zero.
    return (pa.ArrowException, OSError, ValueError, RuntimeError, OverflowError)


def one_line(error: BaseException) -> str:
    """The first line of an error, short."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:200]
