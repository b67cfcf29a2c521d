"""`brokerlab export`: what others read of it, with their own readers."""

from __future__ import annotations

import csv
import io
import json
import struct
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest

import brokerlab
from analysis.export.csv import write_csv
from analysis.export.making import FORMATS, export
from analysis.export.pcapng import LINKTYPE_USER0
from brokers.naming import message_name
from scenarios.cli import main
from topology.files import parse

HEADER = struct.Struct(">4sBBHIIQqqqq")


@pytest.fixture(scope="module")
def folder(news):
    return news(loss="0.02", topology="{kind: watts-strogatz, nodes: 15, neighbours: 4, rewire: 0.2}")


@pytest.fixture(scope="module")
def opened(folder):
    return brokerlab.open(folder.path)


def written(folder, to, tmp_path, **options):
    (made,) = export(folder.path, to, tmp_path / f"out.{to}", **options)
    return made.path


# ---- csv -------------------------------------------------------------------------------------------------


def test_csv_reads_back_as_the_tables(folder, opened, tmp_path):
    made = export(folder.path, "csv", tmp_path)
    assert {each.path.stem for each in made} == set(folder.tables())
    for each in made:
        with open(each.path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
        table = folder.read(each.path.stem)
        assert len(rows) == table.num_rows == int(each.told.split()[0].replace(",", ""))
        for told, row in zip(rows, table.to_pylist()):
            for name, value in row.items():
                if isinstance(value, list):
                    assert str([float(part) for part in told[name].split()]) == str(value)
                else:
                    assert type(value)(told[name]) == value
    data = (tmp_path / "deliveries.csv").read_bytes()
    assert data.count(b"\r\n") == data.count(b"\n") == folder.rows("deliveries") + 1


def test_csv_of_a_stretch_of_one_service_by_name(folder, opened, tmp_path):
    (made,) = export(folder.path, "csv", tmp_path, tables=["deliveries"], named=True, since="1 s", until="2 s",
                     services=["news"])  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(made.path.read_text("utf-8"))))
    wanted = opened.deliveries.where(since="1 s", until="2 s").named().to_arrow().to_pylist()
    assert rows == [{name: str(value) for name, value in row.items()} for row in wanted] != []


def test_texts_that_a_spreadsheet_would_run_are_disarmed_and_lines_stay_lines(tmp_path):
    import pyarrow as pa

    class Rows:
        schema = pa.schema([("name", pa.string()), ("number", pa.int64())])

        def batches(self):
            names = ["=1+1", "@SUM(A1)", "-b", "+b", "\tb", 'a,"b"', "a\r\nb", None]
            yield pa.record_batch([names, [-1] * 8], self.schema)

    file = io.BytesIO()
    assert write_csv(Rows(), file) == 8
    rows = list(csv.reader(io.StringIO(file.getvalue().decode(), newline=""), strict=True))
    names = ["'=1+1", "'@SUM(A1)", "'-b", "'+b", "'\tb", 'a,"b"', "a b", ""]
    assert rows == [["name", "number"], *([name, "-1"] for name in names)]


# ---- perfetto --------------------------------------------------------------------------------------------


def events_of(path):
    data = json.loads(path.read_text("utf-8"))
    found = defaultdict(list)
    for event in data["traceEvents"]:
        found[event["ph"]].append(event)
    return data, found


def ns(microseconds):
    return round(microseconds * 1000)


def test_slices_are_the_work_of_each_broker_and_never_overlap(folder, tmp_path):
    _, found = events_of(written(folder, "perfetto", tmp_path))
    hops = folder.read("hops").to_pylist()
    assert len(found["X"]) == len(hops)
    ends = Counter((event["pid"] - 1, ns(event["ts"] + event["dur"])) for event in found["X"])
    assert ends == Counter((hop["broker"], hop["finish_ns"]) for hop in hops)
    arrivals = Counter((event["pid"] - 1, ns(event["ts"]) - event["args"]["waited_ns"]) for event in found["X"])
    assert arrivals == Counter((hop["broker"], hop["time_ns"]) for hop in hops)
    by_broker = defaultdict(list)
    for event in found["X"]:
        by_broker[event["pid"]].append((ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])))
    for slices in by_broker.values():
        slices.sort()
        assert all(end <= begin for (_, end), (begin, _) in pairwise(slices))
    busy = dict(zip(*(folder.read("brokers")[name].to_pylist() for name in ("broker", "busy_ns"))))
    assert {pid - 1: sum(e - b for b, e in slices) for pid, slices in by_broker.items()} == busy


def test_arrows_lead_from_the_sender_of_a_message_to_its_handling(folder, tmp_path):
    _, found = events_of(written(folder, "perfetto", tmp_path))
    nodes = folder.rows("brokers")
    links = {(link["from"], link["to"]): link["delay_ns"] for link in folder.read("links").to_pylist()}
    slices = {(event["pid"], ns(event["ts"]), ns(event["dur"])) for event in found["X"]}
    starts = {event["id"]: event for event in found["s"]}
    assert len(starts) == len(found["s"]) == len(found["f"])
    over_links = [hop for hop in folder.read("hops").to_pylist() if hop["link"] >= 0 and hop["kind"] == 1]
    assert len(starts) == len(over_links)
    for finish in found["f"]:
        start = starts[finish["id"]]
        delay = links[start["pid"] - 1, finish["pid"] - 1]  # between neighbours, no sooner than the link allows
        at = ns(start["ts"])
        within = [begin + took for pid, begin, took in slices if pid == start["pid"] and begin <= at <= begin + took]
        assert within and min(within) + delay <= ns(finish["ts"])
    assert nodes == len({event["pid"] for event in found["M"] if event["name"] == "process_name"})


def test_names_of_processes_threads_and_slices(folder, opened, tmp_path):
    _, found = events_of(written(folder, "perfetto", tmp_path))
    labels = folder.read("brokers").sort_by("broker")["name"].to_pylist()
    names = {event["pid"]: event["args"]["name"] for event in found["M"] if event["name"] == "process_name"}
    assert names == {at + 1: name for at, name in enumerate(labels)}
    assert {event["args"]["name"] for event in found["M"] if event["name"] == "thread_name"} == {"news"}
    types = Counter(row["type"] for row in opened.hops.named().select("type", "kind", "service").to_arrow().to_pylist())
    assert Counter(event["name"] for event in found["X"]) == types


def test_of_a_long_run_whole_messages_are_shown_and_the_share_is_said(folder, tmp_path):
    data, found = events_of(written(folder, "perfetto", tmp_path, limit=500))
    hops, nodes = folder.read("hops").to_pylist(), folder.rows("brokers")
    assert "of all messages, each whole" in data["otherData"]["shown"] and 100 < len(found["X"]) < 1500 < len(hops)
    shown = Counter(event["args"]["body"] for event in found["X"] if "cause" not in event["args"])
    every = Counter(message_name(hop["body"], nodes) for hop in hops if hop["cause"] == -1 and hop["body"] != -1)
    assert shown and all(every[name] == count for name, count in shown.items())


# ---- pcapng ----------------------------------------------------------------------------------------------


def test_another_reader_finds_every_message_at_its_nanosecond(folder, tmp_path):
    pcapng = pytest.importorskip("dpkt.pcapng")
    path = written(folder, "pcapng", tmp_path)
    ends = {link["link"]: (link["from"], link["to"]) for link in folder.read("links").to_pylist()}
    wanted = [hop for hop in folder.read("hops").to_pylist() if hop["kind"] == 1]
    wanted.sort(key=lambda hop: (hop["time_ns"], hop["broker"], hop["kind"], hop["source"], hop["sequence"]))
    with open(path, "rb") as file:
        reader = pcapng.Reader(file)
        assert reader.datalink() == LINKTYPE_USER0
        packets = list(reader)
    assert len(packets) == len(wanted)
    for (time_s, packet), hop in zip(packets, wanted):
        assert abs(time_s * 1e9 - hop["time_ns"]) < 1e3  # it tells seconds as a float
        source = ends[hop["link"]][0] if hop["link"] >= 0 else 2**32 - 1
        fields = (hop[name] for name in ("sequence", "body", "word", "cause", "finish_ns"))
        assert HEADER.unpack(packet) == (b"bklb", 1, hop["type"], hop["service"], source, hop["broker"], *fields)


def test_blocks_are_whole_and_interfaces_have_names_and_nanoseconds(folder, opened, tmp_path):
    pcapng = pytest.importorskip("dpkt.pcapng")
    data = written(folder, "pcapng", tmp_path).read_bytes()
    at, blocks = 0, []
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        assert size % 4 == 0 and struct.unpack_from("<I", data, at + size - 4) == (size,)
        blocks.append((kind, data[at : at + size]))
        at += size
    interfaces = [pcapng.InterfaceDescriptionBlockLE(block) for kind, block in blocks if kind == 1]
    names = [next(opt.data for opt in each.opts if opt.code == 2).decode() for each in interfaces]
    carried = [row["link"] for row in opened.links.named().to_arrow().to_pylist() if row["messages"]]
    assert names == [*carried, "from clients"] and len(carried) < folder.rows("links") + 1
    assert all(next(opt.data for opt in each.opts if opt.code == 9) == b"\x09" for each in interfaces)
    packets = [pcapng.EnhancedPacketBlockLE(block) for kind, block in blocks if kind == 6]
    hops = opened.hops.where(kind="message").named().to_arrow()
    assert Counter(names[each.iface_id] for each in packets) == Counter(
        name or "from clients" for name in hops["link"].to_pylist()
    )
    times = [each.ts_high << 32 | each.ts_low for each in packets]
    assert times == sorted(hops["time_ns"].to_pylist())


def test_the_same_run_gives_the_same_packets_whatever_engine_made_it(tmp_path):
    files = []
    for actors in (1, 3):
        run = brokerlab.run("news", engine="inline", actors=actors, out=tmp_path / str(actors),
                            overrides=["duration=2 s", "topology.nodes=9"])  # fmt: skip
        files.append(written(run.folder, "pcapng", tmp_path / str(actors)).read_bytes())
    assert files[0] == files[1]


# ---- graphml ---------------------------------------------------------------------------------------------


def test_networkx_and_we_read_the_overlay_back(folder, opened, tmp_path):
    import networkx as nx

    path = written(folder, "graphml", tmp_path)
    graph = nx.read_graphml(path, node_type=int)
    for read, wanted in ((graph.nodes, opened.overlay.nodes), (graph.edges, opened.overlay.edges)):
        assert dict(read.items()) == dict(wanted.items()) != {}
    ours = parse(path.read_bytes(), str(path))
    assert nx.utils.graphs_equal(nx.Graph(ours.edges), nx.Graph(graph.to_undirected().edges))


def test_of_a_stretch_of_time_what_links_carried_is_counted(folder, opened, tmp_path):
    import networkx as nx

    graph = nx.read_graphml(written(folder, "graphml", tmp_path, since="1 s", until="3 s"), node_type=int)
    rows = opened.hops.where(since="1 s", until="3 s").to_arrow().to_pylist()
    over = Counter(row["link"] for row in rows if row["link"] >= 0 and row["kind"] == 1)
    assert {facts["link"]: facts["messages"] for _, _, facts in graph.edges(data=True) if facts["messages"]} == over
    at = Counter(row["broker"] for row in rows)
    assert {node: facts["messages"] for node, facts in graph.nodes(data=True) if facts["messages"]} == at
    assert not any("bytes" in facts for _, _, facts in graph.edges(data=True))


# ---- asking for it ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", FORMATS)
def test_nothing_is_replaced_unless_somebody_says_so(folder, tmp_path, to, capsys):
    target = tmp_path / "there"
    table = ["--table", "links"] if to == "csv" else []
    asked = ["export", str(folder.path), "--to", to, "--out", str(target), *table]
    assert main(asked) == 0
    file = target / "links.csv" if to == "csv" else target
    was = file.read_bytes()
    file.write_bytes(b"mine")
    assert main(asked) == 3
    assert "is there already; --force replaces it" in capsys.readouterr().err and file.read_bytes() == b"mine"
    assert main([*asked, "--force", "--json"]) == 0 and file.read_bytes() == was
    assert json.loads(capsys.readouterr().out.splitlines()[-1])[0]["bytes"] == len(was)
    assert [each.name for each in file.parent.iterdir() if each.name.startswith("_tmp")] == []


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (["--to", "xml"], "--to xml: there are csv, perfetto, pcapng, graphml"),
        (["--to", "csv", "--limit", "5"], "--limit goes with --to perfetto"),
        (["--to", "pcapng", "--named"], "--named goes with --to csv"),
        (["--to", "graphml", "--table", "hops"], "--table goes with --to csv"),
        (["--to", "csv", "--table", "letters"], "has no table 'letters'"),
        (["--to", "perfetto", "--limit", "-1"], "--limit: at least one event (got -1)"),
        (["--to", "pcapng", "--from", "3 s", "--to-time", "2 s"], "--to-time 2 s is not after --from 3 s"),
        (["--to", "pcapng", "--from", "3 apples"], "--from: unknown unit 'apples'"),
        (["--to", "pcapng", "--service", "old"], "there is no service 'old'; there are news"),
        (["--to", "perfetto", "--out", "."], "is a folder; name a file in it"),
        (["--to", "perfetto", "--out", ".", "--force"], "is a folder; name a file in it"),
    ],
)
def test_what_cannot_be_is_told(folder, said, told, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(folder.path), *said]) == 3
    error = capsys.readouterr().err
    assert told in error and "Traceback" not in error


@pytest.mark.parametrize("to", ["perfetto", "pcapng"])
def test_a_thin_trace_is_refused_with_the_level_that_has_it(news, to, capsys):
    assert main(["export", str(news(level="deliveries").path), "--to", to]) == 3
    assert "'hops' needs 'full': run it again with that" in capsys.readouterr().err


def test_a_hop_over_a_link_that_carried_nothing_is_damage(folder, tampered, tmp_path, capsys):
    import pyarrow as pa

    def idle(rows):
        at = rows.column_names.index("messages")
        return rows.set_column(at, "messages", pa.array(np.zeros(rows.num_rows, np.int64)))

    target = tmp_path / "out.pcapng"
    assert main(["export", str(tampered(folder, links=idle)), "--to", "pcapng", "--out", str(target)]) == 2
    assert "messages over a link that carried none" in capsys.readouterr().err and not target.exists()
