"""Comparing traces: same rows in any order are the same, and the first difference is found and told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.engine.trace import Lists, MemoryTrace
from brokers.engine.trace_compare import canonical, first_difference, same_rows

HOPS: dict[str, Any] = {
    "broker": [0, 1, 1, 2], "time_ns": [5, 7, 7, 9], "kind": 1, "source": [9, 0, 2, 1],
    "sequence": [0, 0, 0, 3], "link": [-1, 0, 4, 2], "service": 0, "type": 0, "body": 77, "word": 0,
    "cause": -1, "finish_ns": [6, 8, 9, 10],
}  # fmt: skip


def trace_of(rows: list[int], **changes: Any) -> MemoryTrace:
    """The hops above, those of `rows` in that order, with columns changed."""
    trace = MemoryTrace("full")
    columns = {**HOPS, **changes}
    picked = {n: np.array(v)[rows] if isinstance(v, list) else v for n, v in columns.items()}
    trace.write("hops", **picked)
    numbers = np.arange(3, dtype=np.int32)  # sources above are clients
    trace.write(
        "brokers", broker=numbers, name=["a", "b", "c"], messages=0, deliveries=0, busy_ns=0, digest_a=0, digest_b=0
    )
    return trace


VALUES = st.sampled_from([0.0, -0.0, 1.0, -1.0, float("nan"), float("inf"), -float("inf")])
ROWS = st.lists(
    st.tuples(st.integers(-2, 2), VALUES, st.sampled_from("ab"), st.lists(VALUES, max_size=3)), max_size=12
)


def table_of(rows: list[tuple[int, float, str, list[float]]]) -> pa.Table:
    names = ("number", "real", "word", "values")
    types = (pa.int64(), pa.float64(), pa.string(), pa.list_(pa.float64()))
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    return pa.table({n: pa.array(list(c), t) for n, c, t in zip(names, columns, types, strict=True)})


def bits(rows: list) -> list[tuple[int, bytes, str, bytes]]:
    return sorted((n, np.float64(r).tobytes(), w, np.array(v, np.float64).tobytes()) for n, r, w, v in rows)


@settings(max_examples=150, deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_rows_in_another_order_are_the_same_rows(rows: list, random: Any) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert same_rows(table_of(rows), table_of(shuffled))
    sorted_rows = [tuple(row.values()) for row in canonical(table_of(rows)).to_pylist()]
    assert bits(sorted_rows) == bits(rows)


@settings(max_examples=150, deadline=None)
@given(ROWS, ROWS)
def test_tables_are_the_same_exactly_when_their_rows_are_as_bits(a: list, b: list) -> None:
    assert same_rows(table_of(a), table_of(b)) == (bits(a) == bits(b))


def test_canonical_order_goes_by_column_then_by_length_and_values_of_lists() -> None:
    rows = [(1, 0.0, "a", [2.0]), (0, 1.0, "b", [1.0, 0.0]), (0, -1.0, "a", [3.0]), (0, -3.0, "a", [-1.0])]
    rows += [(0, 1.0, "b", [9.0]), (0, 1.0, "b", [-9.0])]
    assert (
        canonical(table_of(rows)).to_pylist() == table_of([rows[i] for i in (3, 2, 5, 4, 1, 0)]).to_pylist()
    )


def test_tables_with_other_columns_or_types_are_not_the_same() -> None:
    a = pa.table({"x": pa.array([1], pa.int64())})
    assert not same_rows(a, pa.table({"y": pa.array([1], pa.int64())}))
    assert not same_rows(a, pa.table({"x": pa.array([1], pa.int32())}))


def test_runs_with_the_same_hops_in_another_order_have_no_difference() -> None:
    assert first_difference(trace_of([0, 1, 2, 3]), trace_of([3, 1, 0, 2])) is None


def test_an_event_that_only_one_run_handled_is_told_with_what_the_other_did_instead() -> None:
    whole, short = trace_of([0, 1, 2, 3]), trace_of([3, 2, 0])
    told = first_difference(whole, short, "one shard", "two shards")
    assert told is not None
    assert told.startswith(
        "the first difference is the message at 0.000000007 s (7 ns) at broker 1 from broker 0"
    )
    assert "one shard handled it, two shards did not and goes on with the message" in told
    assert "from broker 2" in told and told.endswith("(event 1 of the run)")
    mirrored = first_difference(short, whole, "two shards", "one shard")
    assert mirrored is not None and "one shard handled it, two shards did not" in mirrored


def test_a_run_that_ended_early_is_said_to_have_ended() -> None:
    told = first_difference(trace_of([0, 1, 2, 3]), trace_of([0, 1, 2]))
    assert told is not None and "the first run handled it, the second run did not and has ended" in told


@pytest.mark.parametrize("column", ["link", "service", "type", "body", "word", "cause", "finish_ns"])
def test_the_same_event_with_other_contents_is_told_by_column(column: str) -> None:
    value = np.array(HOPS[column])[2] if isinstance(HOPS[column], list) else HOPS[column]
    other = [HOPS[column]] * 4 if not isinstance(HOPS[column], list) else list(HOPS[column])
    other[2] = 99
    told = first_difference(trace_of([0, 1, 2, 3]), trace_of([0, 1, 2, 3], **{column: other}), "A", "B")
    assert told is not None and f"{column} is {value} in A and 99 in B (event 2 of the run)" in told
    assert "broker 1 from broker 2" in told


def test_the_earliest_of_several_differences_is_told() -> None:
    late = trace_of([0, 1, 2, 3], body=[77, 77, 5, 6])
    told = first_difference(trace_of([0, 1, 2, 3]), late)
    assert told is not None and "body is 77 in the first run and 5 in the second run" in told


def test_without_hops_every_table_that_differs_is_told() -> None:
    traces = [MemoryTrace("deliveries") for _ in range(2)]
    loss = {"link": 1, "time_ns": 2, "service": 0, "type": 0, "cause": -1, "reason": 0, "client": -1}
    for number, trace in enumerate(traces):
        trace.write("losses", **loss, body=number)
        trace.write("dependencies", change=np.arange(number), depends_on=0)
        trace.write("windows", shard=0, window=number, start_ns=0, end_ns=1, events=1, wall_ns=number,
                    blob_bytes=0)  # fmt: skip
    told = first_difference(*traces, "A", "B")
    assert told is not None
    assert (
        "table dependencies differs at row 0 in canonical order (0 rows in A, 1 in B): A has no more" in told
    )
    assert "table losses differs at row 0" in told and "windows" not in told


def test_equal_hops_do_not_hide_a_difference_elsewhere() -> None:
    a, b = trace_of([0, 1]), trace_of([0, 1])
    columns = {"publication": 1, "time_ns": 2, "service": 0, "broker": 3, "client": 4, "size_bytes": 5}
    a.write("publications", **columns, values=Lists(np.array([0, 2]), np.array([1.0, np.nan])))
    b.write("publications", **columns, values=Lists(np.array([0, 2]), np.array([1.0, 2.0])))
    told = first_difference(a, b)
    assert told is not None and told.startswith("table publications differs")


def test_names_of_brokers_are_compared_as_names() -> None:
    a, b = MemoryTrace("summary"), MemoryTrace("summary")
    for trace, name in ((a, "Bonn"), (b, "Köln")):
        trace.write(
            "brokers", broker=0, name=name, messages=0, deliveries=0, busy_ns=0, digest_a=0, digest_b=0
        )
    told = first_difference(a, b)
    assert told is not None and "Bonn" in told and "Köln" in told
    assert not same_rows(a.read("brokers"), b.read("brokers"))


def test_runs_without_a_common_table_cannot_be_compared() -> None:
    told = first_difference(MemoryTrace("none"), MemoryTrace("full"))
    assert told is not None and "no table in common" in told
