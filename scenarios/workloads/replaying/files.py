"""Files of events in pieces: CSV and Parquet as Arrow batches, so that memory does not grow with the file.

CSV cells stay text; what they mean is for `cells` and `times` to say. Arrow does not know lines, so the line of a
row is found by reading the file once more, in the slow and exact way, when there is something to tell.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokers.errors import InvalidInput

PIECE_ROWS = 1 << 16
_BLOCK_BYTES = 1 << 20
_PARQUET = (".parquet", ".pq")
_PACKED = ((b"\x1f\x8b", "gzip"), (b"\xfd7zXZ", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"PK\x03\x04", "zip"))


@dataclass(frozen=True)
class EventFile:
    """A file whose header has been read."""

    path: Path
    names: tuple[str, ...]  # of its columns, without blanks around them
    raw: tuple[str, ...]  # as they stand
    types: Mapping[str, Any]  # Arrow types by name; empty for CSV

    @property
    def is_parquet(self) -> bool:
        return self.path.suffix.lower() in _PARQUET

    def pieces(self, names: Iterable[str]) -> Iterator[Any]:
        """Arrow record batches of these columns, in order. InvalidInput where the file cannot be read on."""
        wanted = [raw for raw, name in zip(self.raw, self.names) if name in set(names)]
        renamed = [raw.strip() for raw in wanted]
        for batch in self._parquet(wanted) if self.is_parquet else self._csv(wanted):
            yield batch.rename_columns(renamed)

    def where(self, rows: Iterable[int]) -> dict[int, str]:
        """How to name rows to people: CSV by line, Parquet by row."""
        rows = list(rows)
        if self.is_parquet:
            return {row: f"{self.path}: row {row + 1}" for row in rows}
        lines: dict[int, int] = {}
        wanted, last = set(rows), max(rows, default=-1)
        for row, (line, _) in enumerate(_csv_lines(self.path)):
            if row in wanted:
                lines[row] = line
            if row >= last:
                break
        return {row: f"{self.path}:{lines.get(row, row + 2)}" for row in rows}

    def _parquet(self, wanted: list[str]) -> Iterator[Any]:
        import pyarrow as arrow
        import pyarrow.parquet as parquet

        try:
            # Without these a row group is held in memory as a whole, and some writers make only one.
            with parquet.ParquetFile(str(self.path), buffer_size=1 << 20, pre_buffer=False) as file:
                # All columns keep the number of rows where none is wanted.
                yield from file.iter_batches(PIECE_ROWS, columns=wanted or None)
        except (OSError, arrow.ArrowException) as error:
            raise InvalidInput(f"{self.path}: cannot be read as Parquet: {_first_line(error)}") from None

    def _csv(self, wanted: list[str]) -> Iterator[Any]:
        import pyarrow as arrow
        import pyarrow.csv as arrow_csv

        text = {name: arrow.string() for name in self.raw}
        convert = arrow_csv.ConvertOptions(
            column_types=text, include_columns=wanted, null_values=[""], strings_can_be_null=True
        )
        try:
            with arrow_csv.open_csv(
                str(self.path),
                read_options=arrow_csv.ReadOptions(block_size=_BLOCK_BYTES),
                parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
                convert_options=convert,
            ) as reader:
                yield from reader
        except OSError as error:
            raise InvalidInput(
                f"{self.path}: cannot be read: {error.strerror or _first_line(error)}"
            ) from None
        except arrow.ArrowException as error:
            if _only_a_header(self.path):
                return
            _diagnose(self.path, len(self.raw))
            raise InvalidInput(f"{self.path}: cannot be read as CSV: {_first_line(error)}") from None


def open_events(path: Path) -> EventFile:
    """Read the header of a file."""
    if path.suffix.lower() in _PARQUET:
        raw, types = _parquet_header(path)
    else:
        raw, types = _csv_header(path), {}
    names = tuple(name.strip() for name in raw)
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"{path}:1: the column {name!r} appears twice")
    return EventFile(path, names, raw, {name.strip(): type_ for name, type_ in types.items()})


def _parquet_header(path: Path) -> tuple[tuple[str, ...], dict[str, Any]]:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    try:
        schema = parquet.read_schema(str(path))
    except FileNotFoundError:
        raise InvalidInput(f"{path}: cannot be read: there is no such file") from None
    except (OSError, arrow.ArrowException) as error:
        raise InvalidInput(f"{path}: cannot be read as Parquet: {_first_line(error)}") from None
    return tuple(schema.names), {field.name: field.type for field in schema}


def _csv_header(path: Path) -> tuple[str, ...]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            # A line without an end is no header, and must not fill the memory.
            first = file.readline(1 << 20)
            while first and not first.strip():
                first = file.readline(1 << 20)
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        _diagnose_text(path)
        raise AssertionError("a file that cannot be decoded has a byte to show for it") from None
    try:
        header = next(csv.reader([first], strict=True), [])
    except csv.Error as error:
        raise InvalidInput(f"{path}:1: this is no CSV: {error}") from None
    if not header:
        raise InvalidInput(f"{path}:1: the file is empty; it begins with a line of column names")
    for other in ";\t|":
        if len(header) == 1 and other in header[0]:
            raise InvalidInput(
                f"{path}:1: columns are separated by commas, and this header has {other!r} between them"
            )
    return tuple(header)


# ---- what is wrong with a CSV ------------------------------------------------------------------------


def _csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of each row behind the header, blank lines left out, by the plain reader of CSV."""
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            reader = csv.reader(file, strict=True)
            header = False
            for row in reader:
                if row and header:
                    yield reader.line_num, row
                header = header or bool(row)
    except csv.Error as error:
        raise InvalidInput(f"{path}:{reader.line_num}: this is no CSV: {error}") from None


def _only_a_header(path: Path) -> bool:
    """Whether nothing stands behind the header; Arrow takes a header without an end of line for nothing."""
    try:
        return next(_csv_lines(path), None) is None
    except InvalidInput:
        return False


def _diagnose(path: Path, columns: int) -> None:
    """Raise the first thing that is wrong with a CSV, if the plain reader finds anything."""
    _diagnose_text(path)
    for line, row in _csv_lines(path):
        if len(row) != columns:
            raise InvalidInput(f"{path}:{line}: the header names {columns} columns, this line has {len(row)}")


def _diagnose_text(path: Path) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    done = 0
    with path.open("rb") as file:
        while True:
            block = file.read(1 << 20)
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                at = done - pending + error.start
                if done == 0 and (packed := [name for magic, name in _PACKED if block.startswith(magic)]):
                    raise InvalidInput(f"{path}: is packed by {packed[0]}; unpack it first") from None
                raise InvalidInput(
                    f"{path}: not UTF-8 at byte {at}; a Parquet file must end in .parquet"
                ) from None
            if not block:
                return
            done += len(block)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
