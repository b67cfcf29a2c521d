"""A table of a run that is read when it is asked for, and handed on without a copy.

Whoever takes Arrow's stream (`__arrow_c_stream__`: polars, DuckDB, pyarrow) takes a `Table`; for pandas there is
`to_pandas`. Columns that nobody asked for are not decoded, and groups of rows that their statistics rule out are not
read. A part is compared with its sha256 before its first row is believed, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from analysis.frames.conditions import Condition, both, condition_of, is_timed, period, time_column
from analysis.frames.naming import Names
from brokers.engine.parts import reading
from brokers.engine.runfolder import RunFolder
from brokers.engine.trace_columns import GROUP_ROWS
from brokers.errors import EnvironmentProblem, InvalidInput, RunDamaged

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_SHOWN = 5
_BINS = 4096  # of time, in which rows are counted to cut it into stretches


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Rows of a table of the trace, as docs/trace.md describes it; each method gives another one and reads nothing."""

    run: RunFolder
    name: str
    columns: tuple[str, ...]
    condition: Condition | None = None
    names: Names | None = None  # where ids are told by name

    @classmethod
    def of(cls, run: RunFolder, name: str) -> Table:
        """All of a table; one that the trace does not have is refused, with the level that has it."""
        run.rows(name)
        return cls(run, name, tuple(column for column, _ in run.manifest["tables"][name]["columns"]))

    # ---- which rows and columns ----------------------------------------------------------------------

    def where(self, *expressions: Any, since: str | int | None = None, until: str | int | None = None,
              **equal: Any) -> Table:  # fmt: skip
        """Only rows for which all of this holds.

        Parameters
        ----------
        expressions : of pyarrow, as in `pyarrow.compute.field("size_bytes") > 100`
        since, until : simulated time from the first up to before the second, as in "2.5 s" or in nanoseconds
        equal : column=value, or one of several values: services and brokers by name or number, clients by number,
            messages as in "37#5", times as in "2 s"
        """
        wanted = condition_of(self.run, self.name, expressions, equal)
        return self._only(both(wanted, period(self.run, self.name, since, until)))

    def select(self, *columns: str) -> Table:
        """Only these columns, in this order."""
        for column in columns:
            if column not in self.columns:
                raise InvalidInput(
                    f"{self.run.path}: table {self.name!r} has no column {column!r}; it has {', '.join(self.columns)}"
                )
        return replace(self, columns=columns) if columns else self

    def named(self, *, trust: bool = False) -> Table:
        """Names in place of ids: brokers, services, links, clients by number, messages as 37#5, what types are called.

        `trust` imports kinds from outside, whose types have no names else.
        """
        return replace(self, names=Names(self.run, trust))

    @property
    def is_timed(self) -> bool:
        """Whether its rows have a time, so that a stretch of time can be asked for."""
        return is_timed(self.run, self.name)

    def _only(self, wanted: Condition | None) -> Table:
        return replace(self, condition=both(self.condition, wanted))

    # ---- what comes of it ----------------------------------------------------------------------------

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns with their types."""
        import pyarrow as pa

        plain = pa.schema([self._stored.field(name) for name in self.columns])
        return plain if self.names is None else self.names.named(self.name, plain.empty_table()).schema

    @property
    def num_rows(self) -> int:
        """How many rows there are; counted in the file where a condition holds, without the other columns."""
        if self.condition is None:
            return self.run.rows(self.name)
        dataset = self._dataset()
        with self._reading():
            return int(dataset.count_rows(filter=self.condition.expression))

    def __len__(self) -> int:
        return self.num_rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, some hundred thousand at a time, in the order of the file; the memory of a few batches."""
        return self._batches(self._dataset())  # what is damaged is refused here, and not halfway

    def to_arrow(self) -> pa.Table:
        """All rows, in memory."""
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(), self.schema)

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a frame of pandas, whose columns are Arrow's: it shares their memory."""
        try:
            import pandas as pd
        except ImportError:
            raise EnvironmentProblem("pandas is not installed: pip install 'brokerlab[frames]'") from None
        return self.to_arrow().to_pandas(types_mapper=pd.ArrowDtype)

    def head(self, rows: int = _SHOWN) -> pa.Table:
        """The first rows."""
        import pyarrow as pa

        taken: list[pa.RecordBatch] = []
        for batch in self.batches():
            taken.append(batch.slice(0, rows - sum(each.num_rows for each in taken)))
            if sum(each.num_rows for each in taken) >= rows:
                break
        return pa.Table.from_batches(taken, self.schema)

    def in_time(self, rows_most: int) -> Iterator[pa.Table]:
        """Rows in the order of time, about so many together at most, whatever order the file has."""
        column = time_column(self.run, self.name)
        if column not in self.columns:
            raise InvalidInput(f"in_time goes by the column {column!r} of table {self.name!r}: select it as well")
        ends = [(int(times.min()), int(times.max())) for times in self._times(column)]
        if not ends:
            return
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        for begin, end in self._stretches(column, low, high + 1, rows_most):
            part = replace(self._only(period(self.run, self.name, begin, end)), names=None).to_arrow()
            if part.num_rows:
                order = [column, *(name for name in part.column_names if name != column and name != "values")]
                part = part.sort_by([(name, "ascending") for name in order])
                yield part if self.names is None else self.names.named(self.name, part)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.batches()).__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        return self.schema.__arrow_c_schema__()

    # ---- how it looks --------------------------------------------------------------------------------

    def __repr__(self) -> str:
        told = "" if self.condition is None else f", where {self.condition.text}"
        return f"<{self.name} of {self.run.path.name}: {', '.join(self.columns)}; {self.num_rows:,} rows{told}>"

    def _repr_html_(self) -> str:
        from analysis.frames.showing import table_html

        return table_html(self)

    # ---- reading -------------------------------------------------------------------------------------

    @cached_property
    def _stored(self) -> pa.Schema:
        import pyarrow as pa
        import pyarrow.parquet as pq

        parts = self.run.parts(self.name)
        if not parts:
            raise RunDamaged.at(self.run.path, f"no part holds table {self.name!r}")
        with self._reading():
            # Parts may differ in whether a column could be without values; none is.
            return pa.schema([field.with_nullable(True) for field in pq.read_schema(parts[0])])

    def _dataset(self) -> Any:
        import pyarrow.dataset as ds

        # Reading ahead saves nothing on a disk of one's own, and holds what was not decoded beside what was.
        form = ds.ParquetFileFormat(default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=False))
        parts = [str(part) for part in self.run.parts(self.name)]
        schema = self._stored
        with self._reading():
            return ds.dataset(parts, schema=schema, format=form)

    def _batches(self, dataset: Any) -> Iterator[pa.RecordBatch]:
        for group in self._groups(dataset):
            with self._reading():
                read = self._decoded(group)
            for batch in read:
                for name, column in zip(batch.schema.names, batch.columns):
                    if column.null_count:
                        told = f"table {self.name!r} has nothing in a row of column {name!r}"
                        raise RunDamaged.at(self.run.path, told)
                if batch.num_rows:
                    yield batch if self.names is None else self.names.named(self.name, batch)

    def _groups(self, dataset: Any) -> Iterator[Any]:
        """Groups of rows that may hold what is asked for, one by one: a scan of them all at once reads far ahead."""
        wanted = None if self.condition is None else self.condition.expression
        with self._reading():
            fragments = list(dataset.get_fragments(filter=wanted))
        for fragment in fragments:
            with self._reading():
                groups = fragment.split_by_row_group(filter=wanted, schema=dataset.schema)
            yield from groups

    def _decoded(self, group: Any) -> list[pa.RecordBatch]:
        import pyarrow as pa

        # Arrow's own pool keeps what it once had; this one gives it back, so that ten million rows take little more
        # memory than what they are.
        scanner = group.scanner(
            schema=self._stored, columns=list(self.columns),
            filter=None if self.condition is None else self.condition.expression,
            batch_size=GROUP_ROWS, memory_pool=pa.system_memory_pool(),
        )  # fmt: skip
        return list(scanner.to_batches())

    def _times(self, column: str) -> Iterator[NDArray[np.int64]]:
        """When the rows were, batch by batch."""
        for batch in replace(self, columns=(column,), names=None).batches():
            yield batch.column(0).to_numpy(zero_copy_only=False)

    def _stretches(self, column: str, begin: int, end: int, rows_most: int) -> Iterator[tuple[int, int]]:
        """Stretches of time in order, with about so many rows each at most; more only where they are of one moment."""
        width = -(-(end - begin) // _BINS)
        counts = np.zeros(-(-(end - begin) // width), np.int64)
        for times in self._only(period(self.run, self.name, begin, end))._times(column):
            counts += np.bincount((times - begin) // width, minlength=counts.size)
        first, rows = 0, 0
        for at, count in enumerate([*counts.tolist(), rows_most]):
            if rows and rows + count > rows_most:
                low, high = begin + first * width, min(end, begin + at * width)
                is_split = rows > rows_most and high - low > 1
                yield from self._stretches(column, low, high, rows_most) if is_split else [(low, high)]
                rows = 0
            if not rows:
                first = at
            rows += count

    def _reading(self) -> Any:
        return reading(self.run.path, self.run.path / "tables" / self.name)
