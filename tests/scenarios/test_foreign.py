"""A package that nobody here has heard of: a kind in one folder, installed, or named by whoever trusts it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from brokers import names
from brokers.errors import Interrupted, InvalidInput
from brokers.node import Node
from protocols.conformance import REHEARSALS, audit_run, check_digests, rehearse, variants
from scenarios import cli
from scenarios.loader import load, loads
from scenarios.many import expect
from scenarios.problems import ScenarioErrors
from scenarios.running import Run, resume, run

SCENARIO = """\
duration: 2 s
topology: {kind: CORRIDOR, rooms: 5}
links: {delay: {kind: uniform, low: 2 ms, high: 9 ms}}
clients:
  guests: {count: 12}
services:
  - name: house
    kind: KIND
    protocol: PROTOCOL
    rooms: 6
    metrics: ["METRIC"]
    workload:
      - {source: "STROLL", clients: guests, rate: 2/s}
      - {source: "TALK", clients: guests, rate: 5/s}
  - name: book
    kind: content
    protocol: flooding
    attributes: 2
    index: BOOK
    workload:
      - {source: subscribe, clients: guests, width: 0.5}
      - {source: publish, clients: guests, rate: 5/s}
trace: {level: full}
expect: [walls.mean < 2, heard.far >= 0, house.clients.served == 12]
"""
BY_NAME = {
    "CORRIDOR": "corridor", "KIND": "rooms", "PROTOCOL": "rooms-tell", "STROLL": "stroll", "TALK": "talk",
    "BOOK": "book", "METRIC": "served",
}  # fmt: skip
BY_TARGET = {
    "CORRIDOR": "visitors:corridor", "KIND": "rooms.manifest:ROOMS", "PROTOCOL": "rooms.tell:Tell",
    "STROLL": "rooms.workload:Stroll", "TALK": "rooms.workload:Talk", "BOOK": "visitors:Book",
    "METRIC": "rooms.measures:SERVED",
}  # fmt: skip
ENTRY_POINTS = """\
[brokerlab.kinds]
rooms = rooms.manifest:ROOMS
[brokerlab.topologies]
corridor = visitors:corridor
[brokerlab.indexes]
book = visitors:Book
[brokerlab.metrics]
served = rooms.measures:SERVED
"""


def written(said: dict[str, str]) -> str:
    text = SCENARIO
    for place, name in said.items():
        text = text.replace(place, f"'{name}'" if '"' + place not in text else name)
    return text


def register(folder, monkeypatch, entry_points: str) -> None:
    """Have a package installed that registers these."""
    info = folder / "site" / "rooms-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rooms\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    monkeypatch.syspath_prepend(info.parent)


@pytest.fixture
def installed(tmp_path, outside, monkeypatch):
    register(tmp_path, monkeypatch, ENTRY_POINTS)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "house.yaml").write_text(written(BY_NAME), encoding="utf-8")


@pytest.fixture
def beside(tmp_path, outside, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "house.yaml").write_text(written(BY_TARGET), encoding="utf-8")


def json_of(arguments: list[str], capsys) -> dict:
    assert cli.main([*arguments, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def through_every_command(capsys, *trust: str) -> None:
    inline = ["--engine", "inline"]
    assert cli.main(["validate", "house.yaml", *trust]) == 0
    capsys.readouterr()
    assert json_of(["plan", "house.yaml", *inline, *trust], capsys)["brokers"] == 5
    done = json_of(["run", "house.yaml", *inline, "--quiet", *trust], capsys)
    house = done["metrics"]["services"]["house"]
    assert 0 < house["walls.mean"] < 2 and house["clients.served"] == 12
    folder = done["run"]
    assert json_of(["inspect", folder, "--broker", "0", "--at", "1 s", *trust], capsys)["neighbours"] == ["b1"]
    assert json_of(["diff", folder, folder, *trust], capsys)["equal"]
    again = json_of(["run", "house.yaml", *inline, "--quiet", "--set", "seed=2", *trust], capsys)
    compared = json.dumps(json_of(["compare", folder, again["run"], *trust], capsys))
    assert '"walls.mean"' in compared and '"clients.served"' in compared
    assert json_of(["repeat", "house.yaml", "--times", "2", *inline, "--quiet", *trust], capsys)["finished"] == 2
    with open("many.yaml", "w", encoding="utf-8") as file:
        file.write("scenario: house.yaml\nrepeats: 2\nexpect: [walls.mean < 2, heard.far > 0]\n")
    assert json_of(["sweep", "many.yaml", *inline, "--jobs", "2", "--quiet", *trust], capsys)["failed"] == []


def test_what_an_installed_package_brings_works_by_its_names_in_every_command(installed, capsys):
    listed = json_of(["list"], capsys)
    for group, name in (
        ("kinds", "rooms"), ("protocols", "rooms-tell"), ("workloads", "stroll"), ("topologies", "corridor"),
        ("indexes", "book"), ("metrics", "served"), ("metrics", "walls.mean"),
    ):  # fmt: skip
        assert listed[group][name]["prose"]
    assert listed["protocols"]["rooms-tell"]["kinds"] == ["rooms"]
    assert listed["workloads"]["stroll"]["kinds"] == ["rooms"]
    through_every_command(capsys)


def test_the_same_named_by_its_modules_works_in_every_command_with_trust(beside, capsys):
    for arguments in (["validate"], ["plan"], ["run", "--engine", "inline"]):
        assert cli.main([arguments[0], "house.yaml", *arguments[1:]]) == 3
        assert "rooms.manifest:ROOMS' is code from outside brokerlab" in capsys.readouterr().err
    through_every_command(capsys, "--trust")


@pytest.mark.xdist_group("spark")
def test_a_run_of_an_installed_package_is_audited_analyzed_and_explained(installed, spark, capsys):
    done = run("house.yaml", engine="inline")
    folder = str(done.path)
    house, book = json_of(["audit", folder], capsys)["services"]
    assert (house["verdict"], house["forced"] > 100, book["verdict"]) == ("valid", True, "valid")
    assert json_of(["analyze", folder], capsys)["runs"]
    row = done.heard.to_pylist()[0]
    told = json_of(["explain", folder, str(row["publication"]), str(row["client"] - 5)], capsys)
    assert "walls away from what carries" in json.dumps(told)
    judged = expect.judged_run(done.folder, ["house.deliveries.missed == 0", "walls.mean < 2"])
    assert [each.holds for each in judged] == [True, True]


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("protocol", ["Tell", "Whisper"])
def test_the_kit_and_the_audit_pass_the_protocol_and_find_what_is_planted_in_the_other(
    protocol, beside, spark, capsys
):
    right = protocol == "Tell"
    model = rehearse(REHEARSALS[0], f"rooms.tell:{protocol}", kind="rooms.manifest:ROOMS")
    assert not check_digests(model, variants(model)[:3])
    judged = audit_run(model)
    assert (judged.verdict, judged.missed.count > 0) == (("valid", False) if right else ("invalid", True))
    text = written(BY_TARGET | {"PROTOCOL": f"rooms.tell:{protocol}"}).partition("expect:")[0]
    done = run(loads(text, trust=True), engine="inline")
    house, _ = json_of(["audit", str(done.path), "--trust"], capsys)["services"] if right else audited(done, capsys)
    assert (house["verdict"], house["findings"]["missed"]["count"] > 0) == (judged.verdict, not right)


def audited(done: Run, capsys) -> list[dict]:
    """The services of a run that does not keep what it promises."""
    assert cli.main(["audit", str(done.path), "--trust", "--json"]) == 1
    return json.loads(capsys.readouterr().out)["services"]


def test_the_judge_of_the_kind_looks_at_its_table_too(outside, monkeypatch):
    before = Node.record

    def one_more(self, message, table, **columns):
        before(self, message, table, **{**columns, "walls": columns["walls"] + 1})

    model = rehearse(REHEARSALS[0], "rooms.tell:Tell", kind="rooms.manifest:ROOMS")
    monkeypatch.setattr(Node, "record", one_more)
    judged = audit_run(model)
    assert judged.unwanted.count > 0 and "through" in judged.unwanted.examples[0]


def test_the_manifest_of_a_run_says_what_every_name_stood_for(installed):
    told = run("house.yaml", engine="inline").folder.manifest["names"]
    assert told["topology"] == "visitors:corridor"
    assert told["services"][0] == {
        "kind": "rooms.kind:Rooms", "protocol": "rooms.tell:Tell", "index": None,
        "workload": ["rooms.workload:Stroll", "rooms.workload:Talk"], "audit_rule": "rooms.audit:RoomsRule",
        "metrics": [
            {"name": "walls.mean", "together": "each service by itself", "measure": "rooms.measures:walls"},
            {"name": "heard.far", "together": "the sum", "measure": "rooms.measures:far"},
            {"name": "clients.served", "together": "the sum", "measure": "rooms.measures:served"},
        ],
    }  # fmt: skip
    assert told["services"][1]["index"] == "visitors:Book"


def test_a_name_that_another_package_took_over_is_not_mistaken_for_what_it_was(installed):
    assert names.found_again("protocols", "rooms-tell", "rooms.tell:Tell").target == "rooms.tell:Tell"
    with pytest.raises(InvalidInput, match="'rooms-tell' was elsewhere:Tell when the run was made, and now is rooms"):
        names.found_again("protocols", "rooms-tell", "elsewhere:Tell")
    assert names.found_again("protocols", "flooding", "protocols.old:Flooding").object  # it moved


@pytest.mark.parametrize(
    ("part", "was"),
    [
        ("protocol", "elsewhere:Tell"),
        ("kind", "elsewhere:Rooms"),
        ("workload", ["elsewhere:Stroll", "rooms.workload:Talk"]),
    ],
)
def test_a_run_is_not_resumed_where_a_name_of_it_has_been_taken_over(part, was, installed):
    def interrupt(now_ns, events, under_way):
        raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        run("house.yaml", engine="inline", progress=interrupt)
    (manifest,) = Path("runs").glob("*/manifest.json")
    text = manifest.read_text(encoding="utf-8")
    told = json.loads(text)
    assert told["names"]["services"][0]["protocol"] == "rooms.tell:Tell"
    told["names"]["services"][0][part] = was
    manifest.write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"was elsewhere:.* when the run was made, and now is rooms"):
        resume(manifest.parent, engine="inline")
    manifest.write_text(text, encoding="utf-8")
    assert resume(manifest.parent, engine="inline").digest == run("house.yaml", engine="inline").digest


def test_a_metric_does_not_change_the_run(installed):
    without = written(BY_NAME).replace('metrics: ["served"]', "metrics: []").replace("house.clients.served == 12", "")
    assert load("house.yaml").model_parts() == loads(without).model_parts()


def test_an_expectation_of_a_metric_that_the_trace_level_cannot_measure_is_refused(installed):
    text = written(BY_NAME).replace("level: full", "level: summary")
    with pytest.raises(ScenarioErrors, match=r"walls.mean is measured from the trace level deliveries on \(got 'summ"):
        loads(text)


def test_two_metrics_of_one_name_are_refused(installed):
    with pytest.raises(ScenarioErrors, match=r"metrics\[1\]: the service has a metric 'clients\.served' already"):
        loads(written(BY_NAME).replace('["served"]', "[served, served]"))


def test_a_kind_may_not_measure_what_every_service_has_anew(installed, monkeypatch):
    import rooms.manifest

    latency = replace(rooms.manifest.ROOMS.metrics[0], name="latency.mean_ms")
    kind = replace(rooms.manifest.ROOMS, metrics=(latency,))
    monkeypatch.setattr(rooms.manifest, "ROOMS", kind)
    monkeypatch.setattr(names.load_as("kinds", "rooms.kind:Rooms"), "manifest", kind)
    with pytest.raises(ScenarioErrors, match=r"kind 'rooms' has a metric 'latency\.mean_ms', which every service"):
        loads(written(BY_NAME).partition("expect:")[0])


def test_what_only_some_services_measure_is_told_by_the_one_that_decides(outside):
    from rooms.manifest import ROOMS

    services = {"first": (), "second": ROOMS.metrics, "third": ROOMS.metrics}
    values = {"second.walls.mean": 1.0, "third.walls.mean": 3.0, "second.heard.far": 2, "third.heard.far": 5}
    below, total = (expect._judge(expect.parse(t), values, services) for t in ("walls.mean < 2", "heard.far == 7"))
    assert (below.holds, below.measured) == (False, "3 of third")
    assert (total.holds, total.value) == (True, 7)


def test_what_cannot_be_measured_is_told_and_leaves_the_run_whole(installed, monkeypatch, capsys):
    import rooms.measures

    def far(tables, kind):
        return 1 / 0

    monkeypatch.setattr(rooms.measures, "far", far)
    done = run(loads(written(BY_NAME).partition("expect:")[0]), engine="inline")
    assert done.metrics["services"]["house"]["heard.far"] is None
    assert "service 'house': the metric 'heard.far' could not be measured: ZeroDivisionError" in capsys.readouterr().err
    assert any("heard.far" in note for note in done.engine["notes"])


def test_a_kind_of_an_installed_package_that_cannot_be_read_is_told_and_stops_nothing_else(
    tmp_path, outside, monkeypatch, capsys
):
    register(tmp_path, monkeypatch, "[brokerlab.kinds]\nrooms = rooms.manifest:ROOM\n")
    assert cli.main(["list", "protocols"]) == 0
    told = capsys.readouterr().err
    assert "the kind 'rooms' from rooms cannot be read: 'rooms.manifest:ROOM': module" in told
    with pytest.raises(InvalidInput, match=r"no protocol named 'rooms-tell'.*the kind 'rooms' from rooms cannot be"):
        names.find("protocols", "rooms-tell")
    assert names.find("protocols", "flooding").object


def test_a_manifest_and_its_class_have_to_name_each_other(outside, monkeypatch):
    import rooms.manifest

    monkeypatch.setattr(rooms.manifest, "ROOMS", replace(rooms.manifest.ROOMS, prose="another"))
    sys.modules.pop("rooms.kind", None)
    import rooms.kind

    monkeypatch.setattr(rooms.kind.Rooms, "manifest", replace(rooms.manifest.ROOMS, prose="a third"))
    with pytest.raises(InvalidInput, match=r"names the class 'rooms.kind:Rooms', whose attribute `manifest`"):
        names.find("kinds", "rooms.manifest:ROOMS", trust=True)
