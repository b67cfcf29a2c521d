"""Replay of files as people have them: what their columns are called, and how a data frame writes cells."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as arrow
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

from brokers.contract import NEVER, SourceContext
from brokers.errors import InvalidInput
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE, Content
from scenarios.workloads.replay import Replay

SECOND = 1_000_000_000


def context(*, clients=3, seconds=10, **params):
    kind = Content(Content.Params(**{"attributes": 2, **params}).model_dump())
    numbers = np.arange(clients)
    return SourceContext(1, 0, 0, numbers, 100, clients, seconds * SECOND, False, kind.params, None, kind)


def replayed(path, params=None, **service):
    """(events, notes): the events as (time, client, type, row)."""
    source = Replay({"file": str(path), **(params or {})}, context(**service))
    events = []
    while source.next_wake() < NEVER:
        for each in source.take():
            rows = [None] * each.time.size if each.rows is None else each.rows.tolist()
            events += zip(each.time.tolist(), each.client.tolist(), [each.type] * each.time.size, rows)
    # Events of one client keep their order, clients are not merged.
    return sorted(events, key=lambda event: event[:2]), source.found.notes


def write(folder, text, name="events.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


FRAME = pd.DataFrame(
    {
        "time_s": [0.5, 1, 2, 3],
        "client": [0, 1, 2, 2],
        "op": ["subscribe", "publish", "publish", "unsubscribe"],
        "a0": [None, 7, 0.25, None],
        "a1": [None, True, None, None],
        "low_0": [0.25, None, None, None],
        "subscription": [None, None, None, 0],
    }
)
# The last event is of a client that subscribed nothing.
FRAME.loc[3, "client"] = 0


@pytest.mark.parametrize("form", ["csv", "csv with index", "parquet", "parquet with index", "strings"])
def test_a_data_frame_is_replayed_however_it_was_written(form, tmp_path):
    frame, path = FRAME.copy(), tmp_path / f"events.{'parquet' if 'parquet' in form else 'csv'}"
    if form == "parquet with index":
        frame.index = pd.Index([4, 5, 7, 9])
    if form == "strings":
        frame = frame.astype(object).where(frame.notna(), "NaN").astype(str)
    if path.suffix == ".csv":
        frame.to_csv(path, index=form == "csv with index")
    else:
        frame.to_parquet(path, index="index" in form)
    found, notes = replayed(path)
    assert [event[:3] for event in found] == [
        (SECOND // 2, 0, SUBSCRIBE),
        (SECOND, 1, PUBLISH),
        (2 * SECOND, 2, PUBLISH),
        (3 * SECOND, 0, UNSUBSCRIBE),
    ]
    assert found[0][3] == [0, 0.25, np.inf] and found[1][3] == [7, 1]
    assert found[2][3][0] == 0.25 and np.isnan(found[2][3][1])
    named = {"csv with index": "''", "parquet with index": "'__index_level_0__'"}.get(form)
    assert notes == ((f"{path}: the column {named} is ignored; it is the index of a data frame",) if named else ())


def test_an_index_that_went_through_a_file_twice_is_ignored_too(tmp_path):
    path = write(tmp_path, "Unnamed: 0,time_ns,client,op,a0\n0,5,1.0,publish,1\n")
    found, notes = replayed(path)
    assert [event[:3] for event in found] == [(5, 1, PUBLISH)]
    assert len(notes) == 1 and "'Unnamed: 0'" in notes[0]


def test_columns_are_mapped_ignored_and_stood_for_by_parameters(tmp_path):
    path = write(tmp_path, "when,price,volume,comment,source\n1,10,3,fine,a\n2,11,4,,b\n")
    params = {
        "columns": {"when": "time_ns", "price": "a0", "volume": "a1"},
        "ignore": ["comment", "sou*"],
        "op": "publish",
        "client": 2,
    }
    found, _ = replayed(path, params)
    assert found == [(1, 2, PUBLISH, [10, 3]), (2, 2, PUBLISH, [11, 4])]


def test_ignoring_the_rest_leaves_in_what_is_known_or_mapped(tmp_path):
    path = write(tmp_path, "time_ns,client,op,a0,cost,gap\n1,0,publish,10,3,x\n")
    found, _ = replayed(path, {"columns": {"cost": "a1"}, "ignore": ["*"]})
    assert found == [(1, 0, PUBLISH, [10, 3])]


def test_a_file_out_of_order_is_told_to_be_sorted_and_nothing_else(tmp_path):
    path = write(tmp_path, "time,op,a0\n2024-05-02,publish,1\n2024-05-01,publish,2\n")
    with pytest.raises(InvalidInput) as caught:
        replayed(path, {"client": 0}, seconds=10**6)
    assert str(caught.value) == f"{path}:3: time 2024-05-01 is before that above it; sort the file by time"


def test_attributes_may_be_named_in_the_service_and_in_the_file(tmp_path):
    path = write(tmp_path, "time_ns,client,op,price,low_price,is_volume\n1,0,publish,10,,\n2,1,subscribe,,9,4\n")
    found, _ = replayed(path, attributes=2, names=["price", "volume"])
    assert found[0][3][0] == 10
    assert found[1][3] == [0, 9, np.inf, 1, 4, 4]


@pytest.mark.parametrize(
    ("header", "params", "message"),
    [
        ("time_ns,client,op,prise", {}, "unknown column 'prise' (did you mean 'price'?); known: time"),
        ("time_ns,client,op,prise,gap", {}, "unknown columns 'prise' (did you mean 'price'?), 'gap'; known: time"),
        ("time_ns,client,op,price,a0", {}, "the columns 'price' and 'a0' are both a0"),
        ("time_ns,client,op", {"columns": {"when": "time"}}, "`columns` maps 'when', which is no column of the file"),
        ("time_ns,op,price", {}, "there is no column client"),
        ("time_ns,client,price", {"op": "shout"}, "`op`: no op 'shout'; known: publish, subscribe, unsubscribe"),
    ],
)
def test_a_header_that_does_not_fit_is_told_with_a_way_out(header, params, message, tmp_path):
    with pytest.raises(InvalidInput) as caught:
        replayed(write(tmp_path, header + "\n"), params, attributes=2, names=["price", "volume"])
    assert message in str(caught.value)


@pytest.mark.parametrize("period", [2, 3, 64])
def test_a_sample_of_a_file_follows_no_pattern_of_its_rows(period):
    from scenarios.workloads.replaying.reader import SAMPLE_MAX, Sample

    sample, places = Sample(), np.arange(40_000.0)
    for piece in np.split(places[:, None], 8):
        sample.add(piece)
    found = np.array(sample.rows)[:, 0]
    assert SAMPLE_MAX // 2 <= found.size <= SAMPLE_MAX
    assert np.mean(found % period < period / 2) == pytest.approx(np.mean(places % period < period / 2), abs=0.1)
    assert np.mean(found) == pytest.approx(np.mean(places), rel=0.1)


def test_pieces_of_a_file_show_in_nothing(tmp_path, monkeypatch):
    from scenarios.workloads.replaying import files

    rows = [f"{i // 3},{i % 3}," + (f"publish,{i}," if i % 5 else "subscribe,,1") for i in range(3000)]
    path = write(tmp_path, "time_ns,client,op,a0,low_0\n" + "\n".join(rows) + "\n")
    whole = replayed(path)
    monkeypatch.setattr(files, "_BLOCK_BYTES", 200)
    pieces = list(files.open_events(path).pieces(["op"]))
    assert len(pieces) > 100 and sum(piece.num_rows for piece in pieces) == 3000
    assert repr(replayed(path)) == repr(whole)


@pytest.mark.parametrize("name", ["events.csv", "events.parquet"])
def test_a_run_reads_no_further_than_it_has_come(name, tmp_path, monkeypatch):
    from scenarios.workloads.replaying import files

    monkeypatch.setattr(files, "_BLOCK_BYTES", 2000)
    monkeypatch.setattr(files, "PIECE_ROWS", 100)
    frame = pd.DataFrame({"time_s": np.arange(10_000) / 1000.0, "client": 0, "op": "publish", "a0": 1.0})
    path = tmp_path / name
    frame.to_csv(path, index=False) if name.endswith("csv") else frame.to_parquet(path, index=False)
    params, _ = Replay.prepared({"file": str(path)}, context())
    read = []
    pieces = files.EventFile.pieces
    monkeypatch.setattr(files.EventFile, "pieces", lambda *a: (read.append(p.num_rows) or p for p in pieces(*a)))
    source = Replay(params, context())
    assert len(read) == 1
    source.chunk_ns = SECOND
    taken = sum(each.time.size for each in source.take())
    assert taken == 1001 and taken <= sum(read) <= 1500  # from 1 ns to 1 s later
    while source.next_wake() < NEVER:
        taken += sum(each.time.size for each in source.take())
    assert taken == sum(read) == 10_000


READ = """
import re, sys
import numpy as np
from brokers.contract import NEVER, SourceContext
from scenarios.workloads.replay import Replay
source = Replay({"file": sys.argv[1]}, SourceContext(1, 0, 0, np.arange(9), 9, 9, 10**10, False, {"attributes": 1}))
rows = 0
while source.next_wake() < NEVER:
    rows += sum(each.time.size for each in source.take())
print(rows, re.search(r"VmHWM:\\s+([0-9]+)", open("/proc/self/status").read())[1])
"""


@pytest.mark.full
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ten_times_as_many_rows_need_no_more_memory(suffix, tmp_path):
    peak = {}
    for rows in (400_000, 4_000_000):
        path = tmp_path / f"events.{suffix}"
        time_ns = np.arange(rows) * (10**10 // rows)
        columns = {"time_ns": time_ns, "client": time_ns % 9, "op": ["publish"] * rows, "a0": time_ns / 7}
        if suffix == "csv":
            arrow_csv.write_csv(arrow.table(columns), path)
        else:
            parquet.write_table(arrow.table(columns), path, row_group_size=rows)  # all in one group
        done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
        count, peak[rows] = map(int, done.stdout.split())
        assert count == rows
    assert peak[4_000_000] < 1.3 * peak[400_000]


def test_a_source_without_clients_of_its_own_reads_nothing_in_the_run(tmp_path, monkeypatch):
    from scenarios.workloads.replaying import files

    path = write(tmp_path, "time_ns,client,op,a0\n5,0,publish,1\n")
    params, _ = Replay.prepared({"file": str(path)}, context())
    monkeypatch.setattr(files.EventFile, "pieces", None)
    nobody = context()
    object.__setattr__(nobody, "clients", np.zeros(0, np.int64))
    assert Replay(params, nobody).next_wake() == NEVER


def test_a_mistake_far_down_is_told_with_its_line_past_quoted_line_ends_and_blank_lines(tmp_path):
    lines = ['5,0,publish,"\n7"'] * 3 + [""] * 2 + ["5,0,publish,x"]
    path = write(tmp_path, "time_ns,client,op,a0\n" + "\n".join(lines) + "\n")
    with pytest.raises(InvalidInput) as caught:
        replayed(path)
    assert str(caught.value).startswith(f"{path}:10: a0 must be a number (got 'x')")


def test_what_changed_between_the_two_readings_is_refused_and_not_replayed(tmp_path):
    path = write(tmp_path, "time_ns,client,op,a0\n5,0,publish,1\n")
    params, found = Replay.prepared({"file": str(path)}, context())
    assert found.rows == {"publish": 1, "subscribe": 0, "unsubscribe": 0}
    write(tmp_path, "time_ns,client,op,a0\n5,0,publish,x\n")
    with pytest.raises(InvalidInput, match="a0 must be a number"):
        Replay(params, context())
