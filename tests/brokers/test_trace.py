"""The trace writers: what goes in comes out, what does not fit is refused, what fails leaves no half."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.engine import trace_columns
from brokers.engine.trace import (
    DRIVER,
    LEVELS,
    TABLES,
    Column,
    Lists,
    MemoryTrace,
    Table,
    TraceWriter,
    part_name,
)
from brokers.engine.trace_schema import page_with_tables, tables_at
from brokers.errors import EnvironmentProblem, InvalidInput

PAGE = Path(__file__).parents[2] / "docs" / "trace.md"

HOP: dict[str, Any] = {
    "broker": 1, "time_ns": 10, "kind": 1, "source": 7, "sequence": 0, "link": -1, "service": 0,
    "type": 0, "body": 3, "word": 0, "cause": -1, "finish_ns": 12,
}  # fmt: skip
LOSS: dict[str, Any] = {
    "link": 1, "time_ns": 2, "service": 0, "type": 0, "body": 1, "cause": -1, "reason": 0, "client": -1,
}  # fmt: skip
PUBLICATION: dict[str, Any] = {
    "publication": 1, "time_ns": 2, "service": 0, "broker": 3, "client": 4, "size_bytes": 5,
}  # fmt: skip


def read(folder: Path, table: str, shard: int = 0) -> pa.Table:
    return pq.ParquetFile(folder / "tables" / table / part_name(shard)).read()


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of few rows, so that small inputs cross their borders."""
    for module in ("brokers.engine.trace", "brokers.engine.trace_columns"):
        monkeypatch.setattr(f"{module}.GROUP_ROWS", 1000)
    monkeypatch.setattr(trace_columns, "GROUP_FLOATS", 5000)


# The schema


def test_the_page_shows_the_tables_of_the_schema() -> None:
    page = PAGE.read_text("utf-8")
    assert page_with_tables(page) == page
    for name, table in TABLES.items():
        assert f"### {name}\n" in page
        assert all(f"| `{column.name}` | `{column.type}` |" in page for column in table.columns)


def test_each_level_writes_all_tables_of_the_level_before_it() -> None:
    sets = [set(tables_at(level)) for level in LEVELS]
    assert sets[0] == set()
    assert all(below < above for below, above in pairwise(sets))
    assert sets[1] == {
        "links", "brokers", "samples", "changes", "dependencies", "faults", "stays", "windows", "actors",
    }  # fmt: skip
    assert sets[2] - sets[1] == {"publications", "deliveries", "losses", "doubled"}
    assert sets[3] - sets[2] == {"hops"} and sets[3] == set(TABLES)


def test_no_column_is_unsigned_or_a_timestamp_and_every_encoding_is_one_that_spark_reads() -> None:
    for table in TABLES.values():
        for field in table.arrow_schema():
            assert not pa.types.is_unsigned_integer(field.type) and not pa.types.is_timestamp(field.type)
        assert {column.encoding for column in table.columns} <= {"delta", "dictionary", "plain"}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Column("a", "uint64", ""), "uint64"),
        (lambda: Column("a", "float64", "", "delta"), "delta"),
        (lambda: Table("", "loud", (Column("a", "int8", ""),)), "loud"),
        (lambda: Table("", "full", (Column("a", "int8", ""), Column("a", "int8", ""))), "different names"),
        (lambda: Table("", "full", ()), "at least one"),
        (lambda: tables_at("loud"), "loud"),
        (lambda: tables_at("full", {"../x": TABLES["hops"]}), "'../x'"),
        (lambda: tables_at("full", {"hops": TABLES["losses"]}), "another name"),
        (lambda: page_with_tables("no marks"), "lacks"),
    ],
)
def test_a_wrong_definition_is_refused_and_named(make: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        make()


# Rows


@pytest.mark.parametrize("background", [False, True])
def test_rows_come_back_as_they_went_in_across_row_groups(
    tmp_path: Path, small_groups: None, background: bool
) -> None:
    numbers = np.arange(10_050, dtype=np.int64)
    with TraceWriter(tmp_path, 0, "full", background=background) as trace:
        for start in range(0, len(numbers), 670):
            part = numbers[start : start + 670].copy()
            trace.write("hops", **{**HOP, "time_ns": part, "finish_ns": part + 1, "broker": part % 7})
            part[:] = -5  # the writer has its own copy
    read_back = read(tmp_path, "hops")
    assert read_back.schema.names == list(HOP)
    np.testing.assert_array_equal(read_back["time_ns"].to_numpy(), numbers)
    np.testing.assert_array_equal(read_back["finish_ns"].to_numpy(), numbers + 1)
    np.testing.assert_array_equal(read_back["broker"].to_numpy(), numbers % 7)
    assert set(read_back["body"].to_pylist()) == {3}
    assert pq.ParquetFile(tmp_path / "tables/hops/part-0000.parquet").num_row_groups == 11
    assert trace.rows["hops"] == len(numbers)


def test_rows_written_one_by_one_come_back(tmp_path: Path, small_groups: None) -> None:
    with TraceWriter(tmp_path, 0, "full") as trace:
        for number in range(1300):
            trace.write("publications", **{**PUBLICATION, "time_ns": number}, values=np.full((1, 7), number))
    read_back = read(tmp_path, "publications")
    assert read_back["time_ns"].to_pylist() == list(range(1300))
    assert read_back["values"].to_pylist() == [[float(number)] * 7 for number in range(1300)]


INT64 = st.integers(-(2**63), 2**63 - 1)
ROW = st.lists(st.floats(width=64), max_size=6)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.lists(INT64, max_size=5), st.lists(ROW, max_size=5)), max_size=8))
def test_any_numbers_and_any_lists_come_back(chunks: list[tuple[list[int], list[list[float]]]]) -> None:
    trace = MemoryTrace("full")
    times: list[int] = []
    rows: list[list[float]] = []
    for some_times, some_rows in chunks:
        count = min(len(some_times), len(some_rows))
        lengths = [len(row) for row in some_rows[:count]]
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
        flat = np.array([value for row in some_rows[:count] for value in row], np.float64)
        columns = {**PUBLICATION, "time_ns": np.array(some_times[:count], np.int64)}
        trace.write("publications", **columns, values=Lists(offsets, flat))
        times += some_times[:count]
        rows += some_rows[:count]
    kept = trace.tables()["publications"]
    assert kept["time_ns"].tolist() == times
    assert [row.tobytes() for row in kept["values"]] == [np.array(row, np.float64).tobytes() for row in rows]


@pytest.mark.parametrize("background", [False, True])
def test_lists_of_several_widths_come_back_across_row_groups(
    tmp_path: Path, small_groups: None, background: bool
) -> None:
    expected: list[list[float]] = []
    with TraceWriter(tmp_path, 0, "full", background=background) as trace:
        for width in (3, 0, 20, 1):
            rows = np.arange(700.0 * width).reshape(700, width)
            trace.write("publications", **PUBLICATION, values=rows)
            expected += rows.tolist()
        trace.write("publications", **PUBLICATION)
        trace.write("publications", **PUBLICATION, values=np.arange(7000.0).reshape(1, -1))
        trace.write("publications", **PUBLICATION, values=Lists(np.array([2, 3, 5]), np.arange(9.0)))
        expected += [[], np.arange(7000.0).tolist(), [2.0], [3.0, 4.0]]
    assert read(tmp_path, "publications")["values"].to_pylist() == expected


def test_memory_and_files_hold_the_same(tmp_path: Path) -> None:
    memory = MemoryTrace("full")
    with TraceWriter(tmp_path, 0, "full") as files:
        for trace in (memory, files):
            trace.write("brokers", broker=np.arange(3), name=["a", "ü", ""], messages=1, deliveries=2,
                        busy_ns=3, digest_a=-1, digest_b=np.array([1, 2, 3]))  # fmt: skip
            trace.write("links", link=[0, 1], to=[1, 0], **{"from": [0, 1]}, delay_ns=5, latent=0, messages=0, bytes=0,
                        lost=0, busy_ns=0)  # fmt: skip
    for table in ("brokers", "links", "hops"):
        assert memory.read(table).equals(read(tmp_path, table))
    assert memory.tables()["brokers"]["name"].tolist() == ["a", "ü", ""]


def test_rows_may_be_read_in_memory_and_more_written_after() -> None:
    trace = MemoryTrace("full")
    trace.write("losses", **LOSS)
    assert trace.read("losses").num_rows == 1
    trace.write("losses", **LOSS)
    assert trace.read("losses").num_rows == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"broker": np.array([2**31])}, "column broker: 2147483648 does not fit int32"),
        ({"broker": 2**31}, "column broker: 2147483648 does not fit int32"),
        ({"kind": np.array([-129, 5])}, "column kind: -129 does not fit int8"),
        ({"body": np.array([2**63], np.uint64)}, r"column body: 9223372036854775808 .*view\(np.int64\)"),
        ({"time_ns": np.array([1.0])}, "column time_ns: float64"),
        ({"time_ns": 1.5}, "column time_ns: 1.5 is no int64"),
        ({"time_ns": np.float64(1)}, "column time_ns"),
        ({"time_ns": None}, "column time_ns: None"),
        ({"time_ns": np.zeros((2, 2), np.int64)}, "column time_ns: 2 dimensions"),
        ({"time_ns": np.arange(3), "word": np.arange(4)}, "'word' has 4 rows, others 3"),
        ({"colour": 3}, "no column 'colour'; it has broker"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_and_nothing_is_written(
    change: dict[str, Any], said: str
) -> None:
    trace = MemoryTrace("full")
    trace.write("hops", **HOP)
    with pytest.raises(InvalidInput, match=f"'hops'.*{said}"):
        trace.write("hops", **{**HOP, **change})
    assert trace.read("hops").num_rows == 1


@pytest.mark.parametrize(
    "values",
    [
        np.arange(3.0),
        4.0,
        [["a"]],
        Lists(np.array([0, 9]), np.arange(3.0)),
        Lists(np.array([2, 1]), np.arange(3.0)),
    ],
)
def test_lists_of_a_wrong_shape_are_refused(values: Any) -> None:
    with pytest.raises(InvalidInput, match="column values"):
        MemoryTrace("full").write("publications", **PUBLICATION, values=values)


def test_a_missing_column_and_an_unknown_table_are_named() -> None:
    trace = MemoryTrace("none")
    with pytest.raises(InvalidInput, match="no trace table 'hopps'"):
        trace.write("hopps", broker=1)
    with pytest.raises(InvalidInput, match="'link' is missing"):
        MemoryTrace("full").write("losses", time_ns=2)
    with pytest.raises(InvalidInput, match="column type: 'x' is no int8"):
        MemoryTrace("full").write("losses", **{**LOSS, "type": "x"})


# Levels and tables of kinds


@pytest.mark.parametrize("level", LEVELS)
def test_only_the_tables_of_the_level_are_written(tmp_path: Path, level: str) -> None:
    with TraceWriter(tmp_path, 0, level) as trace:
        trace.write("hops", **HOP)
        trace.write("losses", **LOSS)
        assert trace.wants("hops") == (level == "full")
        assert trace.wants("losses") == (level in ("deliveries", "full"))
    written = {path.parent.name for path in tmp_path.glob("tables/*/*.parquet")}
    assert written == {name for name, table in TABLES.items() if level in table.levels}


def test_a_kind_adds_its_own_table(tmp_path: Path) -> None:
    answers = Table(
        "Ranked answers.", "deliveries", (Column("rank", "int16", "place"), Column("score", "float64", ""))
    )
    with TraceWriter(tmp_path, 0, "deliveries", {"answers": answers}) as trace:
        trace.write("answers", rank=np.arange(2), score=np.array([0.5, np.nan]))
        trace.write("answers", rank=2, score=1)
    assert str(read(tmp_path, "answers")["score"].to_pylist()) == "[0.5, nan, 1.0]"
    summary = MemoryTrace("summary", {"answers": answers})
    summary.write("answers", rank=1, score=1.0)
    assert not summary.wants("answers") and "answers" not in summary.tables()


# Files


def test_only_shard_zero_leaves_parts_without_rows(tmp_path: Path) -> None:
    for shard in (0, 3, DRIVER):
        with TraceWriter(tmp_path, shard, "full") as trace:
            if shard:
                trace.write("hops", **HOP)
    assert {path.name for path in tmp_path.glob("tables/hops/*")} == {
        "part-0000.parquet", "part-0003.parquet", "part-driver.parquet"
    }  # fmt: skip
    assert [path.name for path in tmp_path.glob("tables/losses/*")] == ["part-0000.parquet"]
    assert read(tmp_path, "losses").schema.names == list(LOSS)


@pytest.mark.parametrize("background", [False, True])
def test_a_part_has_its_name_only_after_close(tmp_path: Path, small_groups: None, background: bool) -> None:
    trace = TraceWriter(tmp_path, 0, "full", background=background)
    trace.write("hops", **{**HOP, "time_ns": np.arange(5000)})
    assert not list(tmp_path.glob("tables/*/part*"))
    trace.close()
    trace.close()
    assert read(tmp_path, "hops").num_rows == 5000
    assert not list(tmp_path.glob("tables/*/_tmp*"))
    with pytest.raises(InvalidInput, match="closed"):
        trace.write("hops", **HOP)


def test_an_exception_leaves_no_part_of_this_shard_and_those_of_others_alone(
    tmp_path: Path, small_groups: None
) -> None:
    with TraceWriter(tmp_path, 0, "full") as trace:
        trace.write("hops", **HOP)
    with pytest.raises(KeyError), TraceWriter(tmp_path, 1, "full") as trace:
        trace.write("hops", **{**HOP, "time_ns": np.arange(5000)})
        raise KeyError
    assert [path.name for path in tmp_path.glob("tables/hops/*")] == ["part-0000.parquet"]


def test_integers_that_vary_are_delta_packed_and_dictionaries_are_kept_to_small_ones(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, 0, "full") as trace:
        trace.write("hops", **{**HOP, "time_ns": np.arange(5000)})
    group = pq.ParquetFile(tmp_path / "tables/hops/part-0000.parquet").metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    for column in TABLES["hops"].columns:
        encodings = set(columns[column.name].encodings)
        wanted = {"delta": "DELTA_BINARY_PACKED", "dictionary": "RLE_DICTIONARY"}[column.encoding]
        assert wanted in encodings and "BYTE_STREAM_SPLIT" not in encodings
        assert columns[column.name].compression == "ZSTD"
    assert columns["time_ns"].statistics.max == 4999


# A file that may not grow fails to be written just as one on a full disk does.
FULL = """
import resource, sys
import numpy as np
from brokers.engine.trace import TraceWriter
from brokers.errors import EnvironmentProblem

with TraceWriter(sys.argv[1], 0, "full") as first:
    first.write("losses", link=1, time_ns=2, service=0, type=0, body=1, cause=-1, reason=0, client=-1)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
second = TraceWriter(sys.argv[1], 1, "full", background=sys.argv[2] == "True")
noise = np.random.default_rng(1).integers(0, 2**62, 100_000)
try:
    for _ in range(20):
        second.write("losses", link=1, time_ns=noise, service=0, type=0, body=noise, cause=noise, reason=0, client=-1)
    second.close()
except EnvironmentProblem as error:
    print(error)
    second.abort()
"""


@pytest.mark.parametrize("background", [False, True])
def test_a_full_disk_is_explained_and_loses_nothing_that_was_complete(
    tmp_path: Path, background: bool
) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path), str(background)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PAGE.parents[1], check=True)
    assert done.stdout.startswith(f"cannot write the trace to {tmp_path / 'tables'}: ")
    assert [path.name for path in tmp_path.glob("tables/losses/*")] == ["part-0000.parquet"]
    assert read(tmp_path, "losses").num_rows == 1


def test_a_group_that_the_thread_could_not_write_is_told_by_close_at_the_latest(
    tmp_path: Path, small_groups: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = TraceWriter(tmp_path, 0, "full")
    encode, failed = trace._encode, threading.Event()

    def fail_once(table: str, group: trace_columns.Group) -> None:
        if not failed.is_set():
            failed.set()
            raise EnvironmentProblem("no space left")
        encode(table, group)

    monkeypatch.setattr(trace, "_encode", fail_once)
    trace.write("hops", **{**HOP, "time_ns": np.arange(1500)})
    with pytest.raises(EnvironmentProblem, match="no space left"):
        trace.close()
    assert not list(tmp_path.glob("tables/*/*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_explained(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(EnvironmentProblem, match="cannot write"):
        TraceWriter(tmp_path, 0, "full").close()
    tmp_path.chmod(0o700)


def test_the_writers_are_imported_without_arrow() -> None:
    code = "import sys, brokers.engine.runfolder; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PAGE.parents[1]).returncode == 0


def test_a_file_in_the_way_is_explained(tmp_path: Path) -> None:
    (tmp_path / "tables").write_text("")
    with pytest.raises(EnvironmentProblem, match="cannot write the trace"):
        TraceWriter(tmp_path, 0, "full").close()
