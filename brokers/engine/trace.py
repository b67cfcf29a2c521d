"""The trace: what a run writes down, as columns. `trace_schema` says which.

Rules:
- `write` copies into column buffers and returns, so the caller may reuse its arrays at once. A full buffer
  is one row group; a thread of the writer encodes it, since Arrow releases the interpreter lock meanwhile.
- A part appears under its name only when it is complete and on the disk: written as `_tmp-…`, synced,
  renamed. What had been renamed before a failure stays.

Use:
    with TraceWriter(run.path, shard=0, level="full") as trace:
        if trace.wants("hops"):
            trace.write("hops", broker=brokers, time_ns=times, kind=1, ...)  # a scalar is for all rows
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from brokers.engine.trace_columns import GROUP_ROWS, Group, Lists, joined
from brokers.engine.trace_schema import TABLES, tables_at
from brokers.errors import EnvironmentProblem, InvalidInput
from brokers.schema import LEVELS, SCHEMA_VERSION, Column, Table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "DRIVER",
    "LEVELS",
    "SCHEMA_VERSION",
    "TABLES",
    "Column",
    "Lists",
    "MemoryTrace",
    "Table",
    "Trace",
    "TraceWriter",
    "part_name",
    "sync",
    "tables_at",
]

DRIVER = -1  # the "shard" of rows that the driver writes, not a shard

_STATISTICS = frozenset({"time_ns", "broker", "service"})  # on every column they cost 10 ns a row


class Trace:
    """What an engine writes to. `TraceWriter` keeps it in files, `MemoryTrace` in memory."""

    def __init__(self, level: str, extra_tables: Mapping[str, Table] | None = None):
        self.level = level
        self.wanted = tables_at(level, extra_tables)
        self._known = frozenset(TABLES) | frozenset(extra_tables or ())
        self._groups: dict[str, Group] = {}

    def wants(self, table: str) -> bool:
        """Whether rows of this table are kept at this level. O(1)."""
        return table in self.wanted

    def write(self, table: str, /, **columns: Any) -> None:
        """Append rows: every column once, as an array, or a scalar that holds for all rows.

        A list column takes a 2-D array, `Lists`, or nothing for empty lists. Rows of a table that the level
        leaves out are dropped. The arrays are copied. O(rows).
        """
        definition = self.wanted.get(table)
        if definition is None:
            if table in self._known:
                return
            raise InvalidInput(f"no trace table {table!r}; there are {', '.join(sorted(self._known))}")
        group = self._groups.get(table)
        if group is None:
            group = self._groups[table] = Group(definition)
        prepared, rows = self._prepare(table, group, columns)
        start = 0
        while start < rows:
            step = min(rows - start, GROUP_ROWS - group.rows)
            for name, lists in group.lists.items():
                step = lists.room(prepared[name], start, step)
            if step:
                group.reserve(group.rows + step)
                for name, buffer in group.buffers.items():
                    buffer.fill(group.rows, prepared[name], start, start + step)
                group.rows += step
                start += step
            if start < rows or group.rows == GROUP_ROWS:
                group = self._groups[table] = self._emit(table, group)

    def _prepare(self, table: str, group: Group, columns: dict[str, Any]) -> tuple[dict[str, Any], int]:
        prepared: dict[str, Any] = {}
        rows = -1
        for name, buffer in group.buffers.items():
            try:
                value = columns[name]
            except KeyError:
                if name not in group.lists:
                    raise InvalidInput(f"trace table {table!r}: column {name!r} is missing") from None
                value = None
            try:
                prepared[name], length = buffer.prepare(value)
            except InvalidInput as error:
                raise InvalidInput(f"trace table {table!r}, column {error}") from None
            if length != rows and length >= 0:
                if rows >= 0:
                    raise InvalidInput(
                        f"trace table {table!r}: column {name!r} has {length} rows, others {rows}"
                    )
                rows = length
        if not columns.keys() <= group.buffers.keys():
            for name in columns.keys() - group.buffers.keys():
                raise InvalidInput(
                    f"trace table {table!r} has no column {name!r}; it has {', '.join(group.buffers)}"
                )
        return prepared, 1 if rows < 0 else rows

    def _emit(self, table: str, group: Group) -> Group:
        """Take the rows of a full group, and return an empty one."""
        raise NotImplementedError

    def commit(self, segment: int) -> None:
        """Put everything so far in its place, for good; what comes now belongs to `segment`."""

    def close(self) -> None:
        """No row comes after this."""

    def abort(self) -> None:
        """The run failed: nothing of what is not complete will be read."""


class MemoryTrace(Trace):
    """A trace that stays in memory: for tests, and for small runs without a folder."""

    def __init__(self, level: str = "full", extra_tables: Mapping[str, Table] | None = None):
        super().__init__(level, extra_tables)
        self._kept: dict[str, list[dict[str, Any]]] = {name: [] for name in self.wanted}

    def _emit(self, table: str, group: Group) -> Group:
        self._kept[table].append(group.columns())
        return Group(self.wanted[table])

    def _parts(self, table: str) -> list[dict[str, Any]]:
        """Columns of all rows so far, group by group."""
        group = self._groups.pop(table, None)
        if group is not None and group.rows:
            self._kept[table].append(group.columns())
        return self._kept[table]

    def read(self, table: str) -> pa.Table:
        """All rows so far, in the order they were written."""
        import pyarrow as pa

        if table not in self.wanted:
            raise InvalidInput(f"the trace holds no table {table!r} at level {self.level!r}")
        definition = self.wanted[table]
        parts = [_arrow(definition, columns) for columns in self._parts(table)]
        return pa.concat_tables([definition.arrow_schema().empty_table(), *parts])

    def model_tables(self) -> tuple[str, ...]:
        """The names of the tables that count in comparisons."""
        return tuple(sorted(name for name, table in self.wanted.items() if table.model))

    def tables(self) -> dict[str, dict[str, np.ndarray]]:
        """Every table as arrays by column; a list column is an object array of float64 arrays."""
        found = {}
        for name, table in self.wanted.items():
            parts = self._parts(name)
            found[name] = {each.name: joined(each, [part[each.name] for part in parts]) for each in table.columns}
        return found


def as_arrays(read: pa.Table, table: Table) -> dict[str, np.ndarray]:
    """The rows of a table as arrays by column; a list column is an object array of float64 arrays."""
    return {column.name: _array(read[column.name], column.type) for column in table.columns}


def _array(column: pa.ChunkedArray, type_name: str) -> np.ndarray:
    if type_name not in ("string", "list<float64>"):
        return column.to_numpy()
    values = np.empty(len(column), object)
    for row, value in enumerate(column):
        values[row] = value.as_py() if type_name == "string" else np.array(value.as_py(), np.float64)
    return values


def _arrow(table: Table, columns: dict[str, Any]) -> pa.Table:
    import pyarrow as pa

    schema = table.arrow_schema()
    arrays = []
    for field in schema:
        column = columns[field.name]
        if isinstance(column, Lists):
            offsets = pa.array(column.offsets)
            arrays.append(pa.ListArray.from_arrays(offsets, pa.array(column.values), type=field.type))
        else:
            arrays.append(pa.array(column, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def part_name(shard: int, segment: int = 0) -> str:
    """The file name of a shard's part in a table's folder. Segments are what lies between checkpoints."""
    who = "driver" if shard == DRIVER else f"{shard:04d}"
    return f"part-{who}.parquet" if segment == 0 else f"part-{who}-{segment:04d}.parquet"


class TraceWriter(Trace):
    """Writes the rows of one shard as one Parquet part per table, in `folder`/tables/<table>/.

    A table without rows gets a part only from shard 0, so that every table of the level can be read.
    Used as a context manager it closes on success, and on an exception discards what is not complete.
    """

    def __init__(
        self,
        folder: str | Path,
        shard: int,
        level: str,
        extra_tables: Mapping[str, Table] | None = None,
        background: bool = True,
        segment: int = 0,
    ):
        super().__init__(level, extra_tables)
        if shard < DRIVER:
            raise InvalidInput(f"shard {shard} of a trace: shards count from 0")
        self.shard = shard
        self.segment = segment
        self.rows = dict.fromkeys(self.wanted, 0)
        self._folder = Path(folder) / "tables"
        self._parts: dict[str, _Part] = {}
        self._published: set[str] = set()
        self._spare: dict[str, list[Group]] = {name: [] for name in self.wanted}
        self._jobs: queue.Queue[tuple[str, Group] | None] | None = None
        self._background = background
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._closed = False

    def write(self, table: str, /, **columns: Any) -> None:
        """See `Trace.write`. A failure of the thread that encodes is raised by the next call."""
        if self._failure is not None or self._closed:
            self._refuse()
        super().write(table, **columns)

    def _refuse(self) -> None:
        if self._failure is not None:
            raise self._failure
        raise InvalidInput(f"the trace of shard {self.shard} is closed")

    def _emit(self, table: str, group: Group) -> Group:
        self.rows[table] += group.rows
        if not self._background:
            self._encode(table, group)
            group.clear()
            return group
        if self._thread is None:
            # One group waits while one is encoded: a writer that is ahead by more than that has to wait.
            self._jobs = queue.Queue(maxsize=1)
            self._thread = threading.Thread(target=self._encode_all, name="trace", daemon=True)
            self._thread.start()
        assert self._jobs is not None
        self._jobs.put((table, group))
        spare = self._spare[table]
        return spare.pop() if spare else Group(self.wanted[table])

    def _encode_all(self) -> None:
        assert self._jobs is not None
        while (job := self._jobs.get()) is not None:
            table, group = job
            if self._failure is None:  # after a failure go on taking jobs, so that nobody waits for ever
                try:
                    self._encode(table, group)
                except BaseException as error:
                    self._failure = error
            group.clear()
            self._spare[table].append(group)

    def _encode(self, table: str, group: Group) -> None:
        part = self._parts.get(table)
        with _explained(self._folder):
            if part is None:
                name = part_name(self.shard, self.segment)
                part = self._parts[table] = _Part(self._folder / table, name, self.wanted[table])
            if group.rows:
                rows = _arrow(self.wanted[table], group.columns())
                part.writer.write_table(rows, row_group_size=GROUP_ROWS)

    def _stop_thread(self) -> None:
        if self._thread is not None and self._jobs is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def commit(self, segment: int) -> None:
        """See `Trace.commit`. What had its name before a failure keeps it."""
        if self._failure is not None or self._closed:
            self._refuse()
        self._publish(empty_tables=False)
        self._failure = None
        self._parts.clear()
        self.segment = segment

    def close(self) -> None:
        """Write what waits, sync every part, and only then give all of them their names."""
        if self._closed:
            return
        self._publish(empty_tables=self.shard == 0)
        self._closed = True
        self._groups.clear()
        self._spare.clear()

    def _publish(self, empty_tables: bool) -> None:
        try:
            self._stop_thread()
            if self._failure is not None:
                raise self._failure
            for table in self.wanted:
                group = self._groups.get(table) or Group(self.wanted[table])
                if group.rows or (empty_tables and not {table} & (self._published | self._parts.keys())):
                    self.rows[table] += group.rows
                    self._encode(table, group)
            with _explained(self._folder):
                for part in self._parts.values():
                    part.finish()
                for table, part in self._parts.items():
                    part.publish()
                    self._published.add(table)
            self._groups.clear()
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Discard what is not complete. Parts that have their names stay."""
        if self._closed:
            return
        self._closed = True
        self._stop_thread()
        for part in self._parts.values():
            part.discard()
        self._groups.clear()
        self._spare.clear()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort()


class _Part:
    """One Parquet file in the making."""

    def __init__(self, folder: Path, name: str, table: Table):
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / name
        self.unfinished = folder / f"_tmp-{self.path.name}"
        self.sink = pa.OSFile(str(self.unfinished), "wb")
        by_encoding: dict[str, list[str]] = {"delta": [], "dictionary": [], "plain": []}
        for column in table.columns:
            by_encoding[column.encoding].append(column.name)
        self.writer = pq.ParquetWriter(
            self.sink,
            table.arrow_schema(),
            compression="zstd",
            compression_level=1,
            use_dictionary=by_encoding["dictionary"],
            column_encoding=dict.fromkeys(by_encoding["delta"], "DELTA_BINARY_PACKED"),
            write_statistics=[c.name for c in table.columns if c.name in _STATISTICS],
            version="2.6",
        )

    def finish(self) -> None:
        self.writer.close()
        self.sink.close()
        sync(self.unfinished)

    def publish(self) -> None:
        os.replace(self.unfinished, self.path)
        sync(self.path.parent)

    def discard(self) -> None:
        for close in (self.writer.close, self.sink.close, self.unfinished.unlink):
            with contextlib.suppress(OSError, ValueError):
                close()


def sync(path: Path) -> None:
    """Have a file, or a folder's list of names, on the disk before going on."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turn a failing disk into a sentence for a person."""
    try:
        yield
    except OSError as error:
        raise EnvironmentProblem(
            f"cannot write the trace to {folder}: {error.strerror or error}; "
            "make room or name another folder with --out, or lower the trace level"
        ) from error
