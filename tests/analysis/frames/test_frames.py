"""`brokerlab.open`: lazy tables, what they leave out, what ids are called, and what is refused."""

from __future__ import annotations

import shutil
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brokerlab
from analysis.frames.table import Table
from brokers.engine.trace_schema import TABLES
from brokers.errors import EnvironmentProblem, InvalidInput, RunDamaged
from brokers.naming import message_name
from topology.overlay import broker_label


@pytest.fixture(scope="module")
def folder(news):
    return news(loss="0.02")


@pytest.fixture(scope="module")
def run(folder):
    return brokerlab.open(folder.path)


def test_each_table_is_the_one_of_the_run(run, folder):
    assert set(run.tables) == set(folder.tables()) >= set(TABLES)
    for name, table in run.tables.items():
        assert str(table.to_arrow().to_pylist()) == str(folder.read(name).to_pylist())  # as text: NaN is not NaN
        assert table.num_rows == folder.rows(name)
        assert table.schema == table.to_arrow().schema


def test_opening_and_describing_a_table_reads_no_part(folder, tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    shutil.copytree(folder.path, copy)
    opened = brokerlab.open(copy)
    part = next(copy.glob("tables/hops/*.parquet"))
    part.write_bytes(part.read_bytes()[::-1])
    table = opened.hops.where(since="1 s", broker=0).select("time_ns")  # so far nothing was looked at
    with pytest.raises(RunDamaged, match="its sha256 differs"):
        table.to_arrow()
    with pytest.raises(RunDamaged, match="its sha256 differs"):
        table.__arrow_c_stream__()


@given(st.integers(0, 29), st.integers(0, 4_000), st.integers(0, 4_000), st.sampled_from(["client", "broker"]))
@settings(max_examples=30, deadline=None)
def test_what_is_left_is_what_a_loop_leaves(run, folder, number, since_ms, until_ms, column):
    nodes = folder.rows("brokers")
    wanted = number + nodes if column == "client" else number % nodes
    left = run.deliveries.where(**{column: wanted - nodes if column == "client" else wanted},
                                since=f"{since_ms} ms", until=until_ms * 10**6)  # fmt: skip
    by_hand = [row for row in folder.read("deliveries").to_pylist()
               if row[column] == wanted and since_ms * 10**6 <= row["time_ns"] < until_ms * 10**6]  # fmt: skip
    assert left.to_arrow().to_pylist() == by_hand and len(left) == len(by_hand)


def test_conditions_add_up_and_take_names_numbers_messages_and_expressions(run, folder):
    some = folder.read("deliveries").to_pylist()[5]
    name = message_name(some["publication"], folder.rows("brokers"))
    one = run.deliveries.where(publication=name, service="news").where(broker=[some["broker"], 0])
    same = run.deliveries.where(pc.field("publication") == some["publication"], service=0, broker=(some["broker"], 0))
    assert some in one.to_arrow().to_pylist() and one.to_arrow().equals(same.to_arrow())
    assert run.losses.where(reason="link").num_rows == folder.rows("losses") > 0
    assert run.hops.where(kind="fault").num_rows == 0 < run.hops.where(kind="message").num_rows


def test_what_is_left_out_is_not_decoded(folder, tmp_path):
    """A part of a wide column is spoilt, and passes for whole: who does not ask for the column does not meet it."""
    import hashlib
    import json

    import pyarrow.parquet as pq

    copy = tmp_path / "copy"
    shutil.copytree(folder.path, copy)
    part = next(copy.glob("tables/publications/part-0000.parquet"))
    column = pq.ParquetFile(part).metadata.row_group(0).column(6)
    assert column.path_in_schema.startswith("values")
    data = bytearray(part.read_bytes())
    data[column.data_page_offset : column.data_page_offset + 20] = b"\xff" * 20
    part.write_bytes(data)
    manifest = json.loads((copy / "manifest.json").read_text("utf-8"))
    (file,) = (each for each in manifest["files"] if each["path"] == str(part.relative_to(copy)))
    file["sha256"] = hashlib.sha256(data).hexdigest()
    text = json.dumps(manifest).encode()
    (copy / "manifest.json").write_bytes(text)
    (copy / "_SUCCESS").write_text(hashlib.sha256(text).hexdigest() + "\n")
    spoilt = brokerlab.open(copy).publications
    assert spoilt.select("time_ns").to_arrow().num_rows == folder.rows("publications")
    with pytest.raises(RunDamaged, match="tables/publications cannot be read"):
        spoilt.to_arrow()


def test_groups_of_rows_that_statistics_rule_out_are_not_read(run, monkeypatch):
    fragments = list(run.hops._dataset().get_fragments())
    late = pc.field("time_ns") >= 10**15
    assert all(not fragment.split_by_row_group(late, schema=run.hops.schema) for fragment in fragments)


def test_names_stand_for_ids(run, folder):
    nodes = folder.rows("brokers")
    labels = folder.read("brokers").sort_by("broker")["name"].to_pylist()
    for plain, told in zip(folder.read("deliveries").to_pylist(), run.deliveries.named().to_arrow().to_pylist()):
        assert told == {
            **plain, "service": "news", "publication": message_name(plain["publication"], nodes),
            "broker": broker_label(plain["broker"], labels), "client": plain["client"] - nodes,
        }  # fmt: skip
    hops = zip(folder.read("hops").to_pylist(), run.hops.named().to_arrow().to_pylist())
    ends = {each["link"]: each for each in folder.read("links").to_pylist()}
    types = set()
    for plain, told in hops:
        types.add(told["type"])
        if plain["link"] < 0:
            assert told["link"] is None
        else:
            link = ends[plain["link"]]
            assert told["link"] == f"{labels[link['from']]} → {labels[link['to']]}"
        source = plain["source"]
        assert told["source"] == (labels[source] if source < nodes else f"client {source - nodes}")
        assert (told["cause"] is None) == (plain["cause"] == -1)
    assert {"subscribe", "publish"} <= types
    assert run.losses.named().to_arrow()["reason"].unique().to_pylist() == ["link"]


def test_a_named_table_says_its_schema_and_keeps_its_conditions(run):
    table = run.hops.where(until="1 s").named().select("broker", "time_ns")
    assert table.to_arrow().schema == table.schema == pa.schema(table)
    assert 0 < table.num_rows < run.hops.num_rows


def test_a_type_has_a_name_only_where_it_is_known_whether_it_is_a_timers(run):
    told = run.hops.select("type", "service").named().to_arrow()
    assert told["type"].equals(run.hops.to_arrow()["type"])


@pytest.mark.parametrize("rows_most", [7, 100, 10**9])
def test_in_time_gives_every_row_once_in_order(run, rows_most):
    table = run.deliveries.where(since="1 s", until="2 s", broker=[0, 1, 2])
    parts = list(table.in_time(rows_most))
    together = pa.concat_tables(parts)
    keys = [(name, "ascending") for name in table.columns]
    assert together.sort_by(keys).equals(table.to_arrow().sort_by(keys))
    times = together["time_ns"].to_pylist()
    assert times == sorted(times)
    assert all(part.num_rows <= rows_most or len(set(part["time_ns"].to_pylist())) == 1 for part in parts)
    assert list(run.deliveries.where(since="5 h").in_time(rows_most)) == []


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda run: run.deliveries.where(colour=3), "has no column 'colour'; it has service, publication"),
        (lambda run: run.deliveries.select("colour"), "has no column 'colour'; it has service, publication"),
        (lambda run: run.deliveries.where(broker="Atlantis"), "there is no broker named 'Atlantis'"),
        (lambda run: run.deliveries.where(service="old"), "there is no service 'old'; there are news"),
        (lambda run: run.deliveries.where(client=-7), "clients go by their number, from 0"),
        (lambda run: run.deliveries.where(publication="37-5"), "'37-5' names no message"),
        (lambda run: run.deliveries.where(since="2 apples"), "since: unknown unit 'apples'"),
        (lambda run: run.deliveries.where(5), "5 is no expression of pyarrow"),
        (lambda run: run.deliveries.where(pc.field("colour") > 5), "FieldRef.Name.colour"),
        (lambda run: run.hops.where(type="publish"), "type='publish'"),
        (lambda run: run.publications.where(values=[[1.0]]), r"values=\[\[1.0\]\]"),
        (lambda run: run.hops.where(pc.field("time_ns") > "late"), "where: .time_ns > "),
        (lambda run: run.hops.where(kind="letter"), "there are fault, message, timer"),
        (lambda run: run.links.where(since="2 s"), "table 'links' has no time to go by"),
        (lambda run: next(run.hops.select("broker").in_time(9)), "in_time goes by the column 'time_ns'"),
        (lambda run: run["letters"], "has no table 'letters'"),
    ],
)
def test_what_there_is_not_is_told_with_what_there_is(run, ask, said):
    with pytest.raises(InvalidInput, match=said):
        ask(run)


def test_a_table_that_the_level_leaves_out_is_refused_with_the_level_that_has_it(news):
    thin = brokerlab.open(news(level="none").path)
    assert dict(thin.tables) == {} or "hops" not in thin.tables
    with pytest.raises(InvalidInput, match="'hops' needs 'full': run it again with that"):
        thin.hops  # noqa: B018
    with pytest.raises(AttributeError, match="a run has no 'letters'"):
        thin.letters  # noqa: B018
    assert thin.metrics["network"]["events"] > 0 and "not audited" in repr(thin)


def test_a_number_that_nothing_has_is_damage(run, folder, tampered):
    import pyarrow as pa

    def elsewhere(rows):
        return rows.set_column(2, "broker", pa.array([99] * rows.num_rows, pa.int32()))

    copy = brokerlab.open(tampered(folder, deliveries=elsewhere))
    with pytest.raises(RunDamaged, match="a number that is none of 15"):
        copy.deliveries.named().to_arrow()


def test_the_overlay_is_a_graph_with_loads(run, folder):
    graph = run.overlay
    links = folder.read("links").to_pylist()
    assert graph.number_of_nodes() == folder.rows("brokers") and graph.number_of_edges() == len(links)
    for link in links:
        assert graph.edges[link["from"], link["to"]]["messages"] == link["messages"]
    assert sum(facts["deliveries"] for _, facts in graph.nodes(data=True)) == folder.rows("deliveries")


def test_polars_duckdb_and_pandas_take_tables(run):
    pl = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pandas")
    for table in (run.hops, run.hops.named(), run.deliveries.where(since="1 s").named()):
        rows, rows_of_it = table.to_arrow(), table  # noqa: F841
        assert pl.DataFrame(table).to_dicts() == rows.to_pylist()
        assert sorted(duckdb.sql("select * from rows_of_it").fetchall(), key=str) == sorted(
            (tuple(row.values()) for row in rows.to_pylist()), key=str
        )
        assert len(rows.to_pandas()) == table.num_rows > 0


def test_a_frame_of_pandas_shares_the_memory_of_arrow(run, monkeypatch):
    pd = pytest.importorskip("pandas")
    read, arrow_of = [], Table.to_arrow
    monkeypatch.setattr(Table, "to_arrow", lambda table: read.append(arrow_of(table)) or read[-1])
    for table in (run.hops, run.publications, run.hops.named(), run.deliveries.where(since="1 s").named()):
        frame = table.to_pandas()
        assert isinstance(frame, pd.DataFrame) and list(frame.columns) == list(read[-1].column_names)
        assert len(frame) == table.num_rows > 0
        for name in frame.columns:
            column = frame[name].array.__arrow_array__()
            assert list(map(places, column.chunks)) == list(map(places, read[-1][name].chunks))
            assert column.type == read[-1][name].type
    assert run.hops.to_pandas()["time_ns"].max() == run.hops.to_arrow()["time_ns"].to_numpy().max()


def places(chunk):
    """Where an array lies in memory."""
    buffers = [None if buffer is None else buffer.address for buffer in chunk.buffers()]
    return chunk.offset, len(chunk), buffers


def test_without_pandas_a_sentence_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(EnvironmentProblem, match=r"pip install 'brokerlab\[frames\]'"):
        run.hops.to_pandas()
