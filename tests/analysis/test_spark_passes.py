"""What tasks make of rows, without Spark: the same on one task as on several, and how wrong a percentile is at most."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.report.sampling import Sample
from analysis.spark import aggregates, passes
from analysis.spark.aggregates import AGGREGATES, _Aggregates
from analysis.spark.depths import Moments
from analysis.spark.trace import Trace

CYCLES = "{kind: watts-strogatz, nodes: 15, neighbours: 4, rewire: 0.2}"
ROWS = 300
MEANS = ("stretch_mean", "redundancy_mean")  # of fractions, whose sum depends on what was added first


class Frame:
    """As much of a DataFrame as the passes need: batches by partition."""

    def __init__(self, parts):
        self.parts = parts

    def mapInArrow(self, make, _):
        return Frame([list(make(iter(part))) for part in self.parts])

    def repartition(self, count, _):
        parts = [[] for _ in range(count)]
        for batch in (batch for part in self.parts for batch in part):
            parts[batch.column("task")[0].as_py()].append(batch)
        return Frame(parts)

    def select(self, *names):
        return Frame([[batch.select(names) for batch in part] for part in self.parts])

    def toArrow(self):
        return pa.Table.from_batches([batch for part in self.parts for batch in part])


class Tasks:
    """In place of a session."""

    @staticmethod
    def range(start, end, step, count):
        parts = np.array_split(np.arange(start, end, step), count)
        return Frame([[pa.record_batch({"id": part})] for part in parts])


@pytest.fixture
def made(news, monkeypatch, tmp_path):
    """All aggregates of a run in small pieces, made by so many tasks."""
    run = news("flooding", CYCLES).path
    from brokers.engine.runfolder import open_run

    def cut(table, paths):
        found = []
        for number, path in enumerate(paths):
            part = tmp_path / f"{table}-{number}.parquet"
            pq.write_table(pq.read_table(path), part, row_group_size=ROWS // 2)
            found += pieces_of(table, [str(part)])
        return found

    pieces_of = passes.pieces_of
    monkeypatch.setattr(passes, "PIECE_ROWS", ROWS)
    monkeypatch.setattr(passes, "pieces_of", cut)
    monkeypatch.setattr(aggregates, "_ROWS_PER_TASK", 3000)

    def make(several):
        monkeypatch.setattr(aggregates, "in_one_partition", lambda _: not several)
        of_run = _Aggregates(Trace(Tasks(), open_run(run)), 0)
        tables = {name: make(of_run) for name, (make, _) in AGGREGATES.items()}
        return of_run, tables

    return make


def test_several_tasks_find_what_one_does(made):
    (_, one), (of_run, several) = made(False), made(True)
    assert of_run._pass(of_run.published).tasks > 2
    for name, table in one.items():
        found = several[name]
        exact = [column for column in table.column_names if column not in MEANS]
        assert found.select(exact).equals(table.select(exact)), name
    for name, mean in (("stretch", "stretch_mean"), ("spreading", "redundancy_mean")):
        assert one[name][mean].to_pylist() == pytest.approx(several[name][mean].to_pylist(), rel=1e-12), mean


def test_a_piece_is_some_row_groups_of_a_part_and_all_of_them_are_read(tmp_path):
    columns = {name: np.arange(1000) for name in passes.COLUMNS["samples"]}
    pq.write_table(pa.table(columns), tmp_path / "part.parquet", row_group_size=100)
    (whole,) = passes.pieces_of("samples", [str(tmp_path / "part.parquet")])
    assert whole.groups == tuple(range(10))
    assert np.array_equal(whole.read()["entries"], np.arange(1000))


@pytest.mark.parametrize("kept", [50, 10_000])
def test_what_is_not_kept_shows_in_percentiles_and_nowhere_else(made, monkeypatch, kept):
    _, exact = made(False)
    monkeypatch.setattr(passes, "KEPT", kept)
    _, found = made(True)
    wrong = 0
    for name in ("services", "brokers"):
        keys = ["service"] if name == "services" else ["service", "broker"]
        for one, other in zip(exact[name].to_pylist(), found[name].to_pylist()):
            assert [one[key] for key in (*keys, "deliveries", "latency_max_ns")] == [
                other[key] for key in (*keys, "deliveries", "latency_max_ns")
            ]
            wrong += one != other
    assert (wrong > 0) == (kept == 50)


@pytest.mark.parametrize("parts", [1, 7])
@pytest.mark.parametrize("floats", [False, True])
def test_ranks_are_those_of_all_values_to_one_in_as_many_as_are_kept(parts, floats):
    random = np.random.default_rng(parts)
    size = 23_000
    values = random.lognormal(10, 2, size) if floats else random.integers(0, 10**9, size) ** 2 // 10**6
    group = np.sort(random.integers(0, 3, size) ** 2)
    task = passes.Pass(
        1, 1, 0, 1, {}, False, *(np.empty(0, np.int64) for _ in range(7)), span_ns=1, stretches=1,
        sample=Sample.of(0), moments=1,
    )  # fmt: skip
    blocks = []
    for number in range(parts):
        mine = slice(number, None, parts)
        blocks += [pa.table(rows) for *_, rows in passes._dealt_groups(task, "x", {"g": group[mine]}, values[mine])]
    found = passes.distributed(pa.concat_tables(blocks))
    assert found["g"].tolist() == np.unique(group).tolist()
    for row, g in enumerate(found["g"].tolist()):
        ordered = np.sort(values[group == g])
        assert found["count"][row] == ordered.size
        assert found["max"][row] == ordered[-1]
        assert found["sum"][row] == pytest.approx(ordered.sum(), rel=1e-12)
        for share, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99")):
            rank = int(np.ceil(share * ordered.size))
            value = found[name][row]
            first, last = (np.searchsorted(ordered, value, side) for side in ("left", "right"))
            assert first < last  # it occurs
            assert first + 1 - ordered.size / passes.KEPT <= rank <= last + ordered.size / passes.KEPT


def test_what_came_over_how_many_links_does_not_depend_on_the_order_of_rows(made):
    of_run, _ = made(False)
    task = of_run._pass(of_run.published)
    steps, arrived = [], []
    for table in ("hops", "deliveries"):
        for piece in passes.pieces_of(table, map(str, of_run.trace.run.parts(table))):
            for what, _, rows in passes._LOOKS[table](task, piece.read()):
                {"steps": steps, "arrived": arrived}.get(what, []).append(pa.table(rows))
    columns = [passes._columns(pa.concat_tables(tables)) for tables in (steps, arrived)]
    random = np.random.default_rng(1)
    expected = passes._came_over(task, *columns)
    assert expected["hops"].max() > 2
    for _ in range(3):
        mixed = []
        for rows in columns:
            order = random.permutation(rows["publication"].size)
            mixed.append({name: column[order] for name, column in rows.items()})
        found = passes._came_over(task, *mixed)
        assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_moments_are_found_by_their_numbers_where_times_are_too_long():
    key = np.array([1, 1, 1, 4])
    finish = np.array([5, 2**61, 7, 6])
    short, _ = Moments.of(5, key[[0, 2, 3]], finish[[0, 2, 3]], key[[0, 2, 3]])
    long, order = Moments.of(5, key, finish, key)
    assert short.times is None
    assert long.times is not None
    assert order.tolist() == [0, 2, 1, 3]
    assert long.latest(np.array([1, 1, 1, 1, 4, 2]), np.array([4, 5, 8, 2**62, 9, 9])).tolist() == [-1, 0, 1, 2, 3, -1]
    assert short.latest(np.array([1, 1, 1, 4, 2]), np.array([4, 5, 8, 9, 9])).tolist() == [-1, 0, 1, 2, -1]
