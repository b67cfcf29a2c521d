"""Tables as CSV of RFC 4180: a line of names, commas, CRLF, quotes around text.

A text that a spreadsheet would take for a formula (it begins with =, +, -, @ or a tab) has an apostrophe in front.
Breaks of lines in a text become blanks; a list becomes its numbers with blanks between; what is missing is empty.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, BinaryIO

from analysis.frames.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

_FORMULA = r"^([=+\-@\t\x00＝＋－＠])"


def write_csv(rows: Table, file: BinaryIO) -> int:
    """The rows of a table; how many they are."""
    import pyarrow as pa

    written = 0
    file.write(_lines(pa.Table.from_batches([], rows.schema), True))
    for batch in rows.batches():
        file.write(_lines(pa.Table.from_batches([batch]), False))
        written += batch.num_rows
    return written


def _lines(rows: pa.Table, head: bool) -> bytes:
    import pyarrow as pa
    import pyarrow.csv

    told = pa.table({name: _cells(rows[name]) for name in rows.column_names})
    buffer = io.BytesIO()
    pa.csv.write_csv(told, buffer, pa.csv.WriteOptions(include_header=head))
    return buffer.getvalue().replace(b"\n", b"\r\n")  # no cell has a break of lines


def _cells(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_list(column.type):
        texts = [" ".join(repr(each) for each in row) for row in column.to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_dictionary(column.type):
        return pa.chunked_array([_safe(each.dictionary).take(each.indices) for each in column.chunks], pa.string())
    return _safe(column) if pa.types.is_string(column.type) else column


def _safe(texts: Any) -> Any:
    import pyarrow.compute as pc

    return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"[\r\n]+", " "), _FORMULA, r"'\1")
