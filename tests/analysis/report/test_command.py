"""`brokerlab report` from the command line: what it writes, and what it says where it cannot."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from analysis.report.gather import WANTED
from analysis.report.making import report
from analysis.report.two import ways_of
from analysis.spark.stretches import span_of
from analysis.spark.trace import STAMP
from scenarios.cli import main

ROOT = Path(__file__).parents[3]
DICE = random.Random(4)
SECTIONS = re.compile(r'<section id="([\w-]+)"')
LINE = """\
duration: 3 s
topology: {kind: line, nodes: 4}
links: {delay: 10 ms}
clients: {publishers: {count: 4, placement: even}, subscribers: {count: 8, placement: even}}
services:
  - name: news
    kind: content
    attributes: 2
    protocol: flooding
    workload:
      - {source: subscribe, clients: subscribers, width: 0.5}
      - {source: publish, clients: publishers, rate: 10/s}
trace: {level: full}
"""


def sections(file):
    return SECTIONS.findall(file.read_text("utf-8"))


def test_a_run_is_reported_into_its_folder(made, capsys):
    run = made("news", "duration=2 s")
    assert main(["report", str(run.path)]) == 0
    file = run.path / "analysis" / "report.html"
    assert capsys.readouterr().out.split("  ")[0].endswith("analysis/report.html")
    assert sections(file) == ["summary", "overlay", "why", "charts", "run"]
    run.verify()  # the run itself is as it was


def test_json_says_where_it_is_and_how_large(made, capsys, tmp_path):
    target = tmp_path / "deep" / "mine.html"
    assert main(["report", str(made("news", "duration=2 s").path), "--out", str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"report": str(target), "bytes": target.stat().st_size}


@pytest.mark.parametrize(
    ("level", "there", "missing"),
    [
        (
            "none", ["summary", "run"],
            ["hops", "publications, deliveries, losses", "changes, samples, faults, stays, brokers, links"],
        ),
        ("summary", ["summary", "overlay", "why", "charts", "run"], ["hops", "publications, deliveries, losses"]),
        ("deliveries", ["summary", "overlay", "why", "charts", "run"], ["hops"]),
    ],
)  # fmt: skip
def test_a_thin_trace_gives_the_report_it_can_and_says_what_is_missing(made, reported, level, there, missing):
    file = reported(made("news", "duration=2 s", f"trace.level={level}"))
    assert sections(file) == there
    text = file.read_text("utf-8")
    left_out = r"The trace has no tables? ([\w, ]+): (?:it needs|they need) level \w+, and the run had "
    assert re.findall(left_out, text) == missing


def test_a_damaged_run_is_refused_as_by_the_audit(damaged, capsys):
    told = []
    for command in ("report", "audit"):
        assert main([command, str(damaged)]) == 2
        told.append(capsys.readouterr().err)
    assert told[0] == told[1]
    assert "its sha256 differs" in told[0]
    assert not (damaged / "analysis" / "report.html").exists()


def test_numbers_that_cannot_be_are_damage(made, tampered, capsys):
    import pyarrow as pa

    def elsewhere(rows):
        return rows.set_column(
            rows.column_names.index("broker"), "broker", pa.array([99] * rows.num_rows, pa.int32())
        )

    assert main(["report", str(tampered(made("news", "duration=2 s"), publications=elsewhere))]) == 2
    assert "has a broker that is none of" in capsys.readouterr().err


def test_whatever_stands_in_a_column_a_report_is_made_or_refused(made, tampered, tmp_path, capsys):
    """The largest, the least and nothing, in the first row of each column that a report reads, however well sealed."""
    import pyarrow as pa

    run = made("partition-heals", "trace.level=full", "duration=3 s")
    codes = set()
    for table, columns in WANTED.items():
        for name in columns if run.rows(table) else ():

            def spoilt(rows, name=name):
                column = rows[name].to_pylist()
                bits = rows.schema.field(name).type.bit_width - 1
                column[0] = DICE.choice([2**bits - 1, -(2**bits), 2 ** (bits - 1), None])
                place = rows.column_names.index(name)
                return rows.set_column(place, name, pa.array(column, rows.schema.field(name).type))

            folder = tampered(run, **{table: spoilt})
            codes.add(main(["report", str(folder), "--out", str(tmp_path / "r.html")]))
            shutil.rmtree(folder)
    assert codes == {0, 2}
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "no such run folder"),
        (["RUN", "--hops", "0"], "--hops: at least one event"),
        (["RUN", "--baseline", "x"], "--baseline goes with a sweep"),
        (["RUN", "RUN", "--svg", "x.svg"], "--svg: a picture is of one run"),
        (["RUN", "--out", "."], "is a folder; name a file"),
    ],
)
def test_what_cannot_be_asked_is_said(made, arguments, said, capsys):
    path = str(made("news", "duration=2 s").path)
    assert main(["report", *(path if each == "RUN" else each for each in arguments)]) == 3
    assert said in capsys.readouterr().err


def test_an_audit_and_aggregates_show_where_they_are_there(made, reported, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from analysis.spark.audit import audit

    run = made("partition-heals")
    folder = tmp_path / "copy"
    shutil.copytree(run.path, folder)
    audit(folder)
    for name, rows in (("stretch", 1), ("rounds", 60)):
        (folder / "analysis" / name).mkdir()
        table = pa.table({"service": [0] * rows, "stretch_mean": [1.25] * rows})
        pq.write_table(table, folder / "analysis" / name / "part-00000.parquet")
    alone = report([folder], tmp_path / "r.html").read_text("utf-8")
    assert "quickest path" not in alone and "Make them again: brokerlab analyze" in alone
    stamp = {"digest": run.digest, "warm_up_ns": 0, "span_ns": span_of(run), "stretches": 60}
    (folder / "analysis" / STAMP).write_text(json.dumps(stamp | {"tables": {"stretch": 1, "rounds": 60}}))
    text = report([folder], tmp_path / "r.html").read_text("utf-8")
    assert "The first 40 of 60 rows; all are in analysis/rounds." in text and "first 40 of 1 " not in text
    assert '<span class="verdict valid">valid</span>' in text
    assert "recovers.deliveries.missed == 0" in text and "holds" in text
    assert "2 directed links cut" in text and "by cut" in text
    assert "Latency over that of the quickest path" in text and "1.25" in text
    (folder / "analysis" / "stretch" / "part-00000.parquet").write_bytes(b"no parquet")
    text = report([folder], tmp_path / "r.html").read_text("utf-8")
    assert "quickest path" not in text and "&#x27;stretch&#x27; of brokerlab analyze is not what it writes" in text
    for wrong in ("{}", "no JSON", json.dumps(stamp | {"digest": "another", "tables": {}}), '{"tables": []}'):
        (folder / "analysis" / STAMP).write_text(wrong)
        assert "Make them again" in report([folder], tmp_path / "r.html").read_text("utf-8")


def test_without_an_audit_what_asks_it_is_not_judged(made, reported):
    run = made("partition-heals")
    shutil.rmtree(run.path / "analysis", ignore_errors=True)
    text = report([run.path], run.path / "r.html").read_text("utf-8")
    assert "<td>not audited</td><td>not audited</td>" in text
    assert "does not hold" not in text


def test_two_runs_show_where_they_part(made, reported):
    a = made("news", "duration=2 s")
    b = made("news", "duration=2 s", "services.news.protocol=flooding")
    file = reported(a, b)
    text = file.read_text("utf-8")
    assert sections(file) == ["differs", "maps", "ways", "charts"]
    assert "services.news.protocol" in text and "The first difference is the" in text
    assert 'class="first"' in text
    assert 'class="more"' in text and 'class="less"' in reported(b, a).read_text("utf-8")
    equal = reported(a, made("news", "duration=2 s", "engine.actors=1")).read_text("utf-8")
    assert "They are equal, event by event" in equal
    assert 'class="more"' not in equal and 'class="less"' not in equal


def test_runs_of_different_overlays_have_no_map(made, reported):
    text = reported(made("news", "duration=2 s"), made("news", "duration=1 s", "topology.nodes=8")).read_text(
        "utf-8"
    )
    assert "The two runs are of different overlays" in text


def test_of_two_runs_of_a_case_the_ways_that_differ_are_told(tmp_path):
    """The line is in two for a while, so half of its clients miss what comes from beyond."""
    from scenarios.running import run

    (tmp_path / "line.yaml").write_text(LINE, encoding="utf-8")
    cut = "faults={schedule: [{fault: partition, sets: [[b2, b3]], at: 1 s, lasts: 1 s}]}"
    runs = [run(tmp_path / "line.yaml", engine="inline", overrides=more, out=tmp_path).folder for more in ([], [cut])]
    ways = ways_of(runs, False)
    assert ways and {each.only_in for each in ways} == {"A"}
    assert all("The first broker at which the ways differ is b" in each.said[0] for each in ways)
    text = report([each.path for each in runs], tmp_path / "both.html").read_text("utf-8")
    assert "Ways that differ" in text and all(each.said[0][:60] in text for each in ways)
    maps = re.findall(r'aria-label="B less A: messages, ([^"]+)".*?<figcaption>(\S+) messages over links', text)
    got = [each.read("hops").to_pydict() for each in runs]
    change = [sum(link >= 0 and kind == 1 for link, kind in zip(hops["link"], hops["kind"])) for hops in got]
    assert len(maps) == 6 and sum(int(told.replace(",", "")) for _, told in maps) == change[1] - change[0] < 0


def test_of_two_runs_of_other_cases_no_ways_are_told(made):
    runs = [made("news", "duration=2 s"), made("news", "duration=2 s", "seed=99")]
    assert ways_of(runs, False) == []


def test_a_sweep_shows_means_intervals_and_differences(swept, capsys):
    folder = swept("500 ms", 2)
    assert main(["report", str(folder)]) == 0
    text = (folder / "report.html").read_text("utf-8")
    assert "protocol=flooding" in text and "protocol=covering" in text
    assert "Differences paired over seeds" in text
    assert re.search(r"<title>protocol=covering: [\d,.]+ ± [\d,.]+</title>", text)
    assert main(["report", str(folder), "--baseline", "covering"]) == 0
    assert "differences from protocol=covering" in (folder / "report.html").read_text("utf-8")
    capsys.readouterr()


def test_two_things_that_vary_are_the_axes_of_a_grid(made, tmp_path):
    points, measured = [], {}
    for protocol in ("flooding", "covering"):
        for nodes in (4, 6, 8):
            run = made("news", "duration=500 ms", f"topology.nodes={nodes}", f"services.news.protocol={protocol}")
            shutil.copytree(run.path, tmp_path / "runs" / run.path.name)
            values = {"services.news.protocol": protocol, "topology.nodes": nodes}
            points.append({"values": values, "status": "finished", "run": f"runs/{run.path.name}"})
            measured[str(nodes), protocol] = run.manifest["engine"]["metrics"]["network"]["events"]
    (tmp_path / "sweep.json").write_text(json.dumps({"points": points[:-1]}))
    text = report([tmp_path]).read_text("utf-8")
    (grid,) = re.findall(r'<svg[^>]*aria-label="events \(count\)".*?</svg>', text)
    cells = re.findall(r"<title>(\d), (\w+): ([\d,]+)</title>", grid)
    told = {(nodes, protocol): int(value.replace(",", "")) for nodes, protocol, value in cells}
    del measured["8", "covering"]  # which has not finished
    assert told == measured
    levels = {key: int(level) for key, level in zip(told, re.findall(r'class="q(\d)"', grid))}
    assert levels[max(told, key=told.__getitem__)] == 7 and levels[min(told, key=told.__getitem__)] == 0
    assert "nodes down, protocol across" in grid


def test_the_picture_is_a_whole_svg_with_every_broker(quickstart, tmp_path):
    report([quickstart.path], tmp_path / "r.html", svg=tmp_path / "p.svg")
    root = ElementTree.parse(tmp_path / "p.svg").getroot()
    circles = root.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(circles) == quickstart.rows("brokers") == 33
    assert len(root.findall("{http://www.w3.org/2000/svg}svg")) == 2


def test_the_picture_of_the_readme_is_the_quickstarts(quickstart, tmp_path):
    """Its structure: the last digits of a layout may be others on another machine."""
    report([quickstart.path], tmp_path / "r.html", svg=tmp_path / "p.svg")

    def structure(file):
        parts = ElementTree.parse(file).iter()
        return [(each.tag, each.get("class"), each.text if "text" in each.tag else "") for each in parts]

    assert structure(tmp_path / "p.svg") == structure(ROOT / "docs" / "quickstart.svg")
    assert "docs/quickstart.svg" in (ROOT / "README.md").read_text("utf-8")


def test_the_quickstart_fits(quickstart, reported):
    assert reported(quickstart).stat().st_size < 700_000


def test_of_a_large_run_a_share_is_drawn_and_said(made, reported):
    text = reported(made("news", "duration=2 s"), hops_most=1000).read_text("utf-8")
    assert re.search(r"The run is large: pictures of single messages show [\d.]+ % of all messages", text)
