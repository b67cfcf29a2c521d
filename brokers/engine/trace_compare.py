"""Whether two traces are the same, and where they part.

Model tables are compared as sets of rows: `canonical` sorts them by all their columns. Floats count by their
bits, so that NaN equals itself. The hops are compared in the order of events instead, which makes the first
difference the first event that went another way: all later ones follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from brokers.naming import entity_name

if TYPE_CHECKING:
    import pyarrow as pa

_EVENT_ORDER = ("time_ns", "broker", "kind", "source", "sequence")
_KINDS = ("fault", "message", "timer")


class Readable(Protocol):
    """A run folder, or a trace in memory."""

    def model_tables(self) -> tuple[str, ...]: ...

    def read(self, table: str) -> pa.Table: ...


def canonical(table: pa.Table) -> pa.Table:
    """The rows sorted by all columns from left to right, lists by length and then values. O(n log n)."""
    keys = [key for name in table.column_names for key in _keys(table[name])]
    if not keys or table.num_rows < 2:
        return table.combine_chunks()
    return table.combine_chunks().take(np.lexsort(keys[::-1]))


def _keys(column: pa.ChunkedArray) -> list[np.ndarray]:
    """Integer arrays that order the column, most significant first."""
    content = _content(column)
    if content[0].dtype.kind == "U":
        return [np.unique(content[0], return_inverse=True)[1]]
    return content


def _content(column: pa.ChunkedArray) -> list[np.ndarray]:
    """Arrays that are equal where the rows of the column are, whatever table it is from."""
    import pyarrow as pa

    if pa.types.is_list(column.type):
        offsets, values = _lists(column)
        lengths = np.diff(offsets)
        keys = [lengths]
        for place in range(int(lengths.max(initial=0))):
            has = lengths > place
            key = np.zeros(len(lengths), np.int64)
            key[has] = values[offsets[:-1][has] + place]
            keys.append(key)
        return keys
    if pa.types.is_string(column.type):
        return [np.asarray(column.to_pylist(), dtype=str)]
    return [_bits(column.to_numpy())]


def _bits(values: np.ndarray) -> np.ndarray:
    """Floats as integers that sort the same way (by sign, then size); integers as they are."""
    if values.dtype != np.float64:
        return values
    bits = values.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def _lists(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    import pyarrow.compute as pc

    lengths = pc.list_value_length(column).to_numpy()
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets, _bits(pc.list_flatten(column).to_numpy())


def same_rows(a: pa.Table, b: pa.Table) -> bool:
    """Whether two tables hold the same rows, in whatever order, with the same columns."""
    if a.schema.names != b.schema.names or a.schema.types != b.schema.types or a.num_rows != b.num_rows:
        return False
    return _first_other_row(canonical(a), canonical(b)) is None


def _first_other_row(a: pa.Table, b: pa.Table) -> int | None:
    """The first row, place by place, in which two tables with equal columns differ."""
    rows = min(a.num_rows, b.num_rows)
    first = rows
    for name in a.column_names:
        # Where one side has longer lists and so more keys, the first key, the lengths, differs already.
        pairs = zip(_content(a[name].slice(0, rows)), _content(b[name].slice(0, rows)), strict=False)
        for left, right in pairs:
            first = _first_unequal(left[:first], right[:first])
    return None if first == rows and a.num_rows == b.num_rows else first


def _first_unequal(left: np.ndarray, right: np.ndarray) -> int:
    unequal = left != right
    return int(unequal.argmax()) if unequal.any() else len(left)


def first_difference(
    run_a: Readable, run_b: Readable, name_a: str = "the first run", name_b: str = "the second run"
) -> str | None:
    """A sentence about where two runs part first, or None when all their common model tables agree.

    With hops on both sides it tells of the first diverging event; otherwise of the first row, in canonical
    order, of each table that differs.
    """
    tables_a, tables_b = run_a.model_tables(), run_b.model_tables()
    common = [name for name in tables_a if name in tables_b]
    if not common:
        return f"{name_a} and {name_b} have no table in common to compare: trace at least summary"
    if "hops" in common:
        nodes = run_a.read("brokers").num_rows
        told = _first_event(run_a.read("hops"), run_b.read("hops"), nodes, name_a, name_b)
        if told:
            return told
    differing = []
    for table in common:
        if table != "hops":
            told = _first_row(table, run_a.read(table), run_b.read(table), name_a, name_b)
            if told:
                differing.append(told)
    return "; ".join(differing) or None


def _first_event(a: pa.Table, b: pa.Table, nodes: int, name_a: str, name_b: str) -> str | None:
    a, b = _in_event_order(a), _in_event_order(b)
    row = _first_other_row(a, b)
    if row is None:
        return None
    event_a, event_b = _row(a, row), _row(b, row)
    key_a, key_b = _place(event_a), _place(event_b)
    if event_a is not None and event_b is not None and key_a == key_b:
        told = ", ".join(
            f"{name} is {event_a[name]} in {name_a} and {event_b[name]} in {name_b}"
            for name in event_a
            if event_a[name] != event_b[name]
        )
        return f"the first difference is {_event(event_a, nodes)}: {told} (event {row} of the run)"
    if event_b is None or (event_a is not None and key_a < key_b):
        event, having, lacking, other = event_a, name_a, name_b, event_b
    else:
        event, having, lacking, other = event_b, name_b, name_a, event_a
    assert event is not None
    instead = f"goes on with {_event(other, nodes)}" if other is not None else "has ended"
    return (
        f"the first difference is {_event(event, nodes)}: {having} handled it, "
        f"{lacking} did not and {instead} (event {row} of the run)"
    )


def _in_event_order(hops: pa.Table) -> pa.Table:
    rest = [name for name in hops.column_names if name not in _EVENT_ORDER]
    keys = [hops[name].to_numpy() for name in (*_EVENT_ORDER, *rest)]
    return hops.combine_chunks().take(np.lexsort(keys[::-1]))


def _row(table: pa.Table, row: int) -> dict[str, Any] | None:
    return table.slice(row, 1).to_pylist()[0] if row < table.num_rows else None


def _place(event: Mapping[str, Any] | None) -> tuple[int, ...]:
    return tuple(event[name] for name in _EVENT_ORDER) if event is not None else ()


def _event(event: Mapping[str, Any], nodes: int) -> str:
    kind = event["kind"]
    what = _KINDS[kind] if 0 <= kind < len(_KINDS) else f"kind {kind}"
    return (
        f"the {what} at {event['time_ns'] / 1e9:.9f} s ({event['time_ns']} ns) at broker {event['broker']} "
        f"from {entity_name(event['source'], nodes)}, sequence {event['sequence']}, link {event['link']}, "
        f"service {event['service']}, type {event['type']}, body {event['body']}, word {event['word']}, "
        f"cause {event['cause']}"
    )


def _first_row(table: str, a: pa.Table, b: pa.Table, name_a: str, name_b: str) -> str | None:
    if a.schema.names != b.schema.names:
        return f"table {table} has other columns: {a.schema.names} in {name_a}, {b.schema.names} in {name_b}"
    a, b = canonical(a), canonical(b)
    row = _first_other_row(a, b)
    if row is None:
        return None
    counts = f"{a.num_rows} rows in {name_a}, {b.num_rows} in {name_b}"
    sides = [f"{name} has {_row(t, row) or 'no more'}" for t, name in ((a, name_a), (b, name_b))]
    return f"table {table} differs at row {row} in canonical order ({counts}): {', '.join(sides)}"
