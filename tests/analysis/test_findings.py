"""A finding of a hunt is explained and drawn beside its scenario; a run folder tells what the run in memory tells."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
import yaml

from analysis.spark.explain import explain
from analysis.ways.deciding import told_of
from analysis.ways.findings import explained, flooding_of
from brokers.errors import InvalidInput
from scenarios import cli
from scenarios.hunt.hunt import hunt
from scenarios.hunt.telling import explained as explain_finding
from scenarios.hunt.telling import keep_run, write
from scenarios.running import run as run_scenario
from tests.analysis.test_ways import MS, Deaf, Withholds, case, pair_of
from tests.scenarios.planted import ForgetsALink, ForgetsToWithdraw

SCRIPT = [(10, 0, "+", 0), (50, 1, "!")]


def run_folder(each, folder):
    """The run of a case, as a hunt keeps it."""
    file = folder / "scenario.yaml"
    file.write_text(yaml.safe_dump(each.scenario()), "utf-8")
    return run_scenario(file, engine="inline", out=folder / "runs", trust=True).path


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return run_folder(case(Withholds, SCRIPT), tmp_path_factory.mktemp("kept"))


def test_a_run_folder_tells_what_the_run_in_memory_tells(kept):
    assert explain(kept, "1#0", 0, trust=True)["to"]["why"] == told_of(pair_of(case(Withholds, SCRIPT), "1#0", 0))


def test_a_finding_is_explained_beside_flooding_and_drawn(tmp_path):
    (found,) = hunt(ForgetsALink, runs=60, faults=False, enough=1, judges=["delivery"]).findings
    folder = write(found, tmp_path, "planted")
    said = explain_finding(found, folder, keep_run(folder))
    assert said[0].startswith("never told: ") and "in the run by flooding to b" in said[-1]
    assert "step by step:" in (folder / "explanation.txt").read_text("utf-8")
    assert "publish" in (folder / "diagram.txt").read_text("utf-8")
    ET.parse(folder / "diagram.svg")
    assert (folder / "beside" / "latest").exists()


def test_a_leak_names_where_the_withdrawal_stops(tmp_path):
    (found,) = hunt(ForgetsToWithdraw, runs=60, faults=False, enough=1, judges=["leaks"]).findings
    folder = write(found, tmp_path, "planted")
    said = explain_finding(found, folder, keep_run(folder))
    assert "and of no withdrawal after that." in said[0] and said[1].startswith("The way of ")
    assert (folder / "explanation.txt").read_text("utf-8").splitlines() == said


def test_a_finding_without_a_run_is_not_explained(tmp_path):
    (found,) = hunt(ForgetsALink, runs=60, faults=False, enough=1, judges=["delivery"], shrink_seconds=0).findings
    assert explain_finding(found, tmp_path, None) == []


def test_flooding_that_does_not_take_the_case_is_said(kept, tmp_path):
    scenario = case(Withholds, SCRIPT).scenario()
    scenario["services"][0]["workload"][0]["actions"][0]["op"] = "ask"
    explained("delivery", "client 0 got nothing of publication 1#0", kept, tmp_path, scenario)
    assert "not beside flooding: " in (tmp_path / "explanation.txt").read_text("utf-8")


def test_what_floods_is_looked_up_by_the_kind():
    assert [flooding_of(kind) for kind in ("content", "spatial", "topk")] == ["flooding", "spatial-flooding", None]


# ---- the command --------------------------------------------------------------------------------------


def test_the_command_says_why_draws_and_writes_a_picture(kept, tmp_path, capsys):
    svg = tmp_path / "way.svg"
    given = [str(kept), "1#0", "--client", "0", "--trust"]
    assert cli.main(["explain", *given, "--diagram", "--svg", str(svg)]) == 0
    shown = capsys.readouterr().out
    assert "verdict: withheld" in shown and "51 ms      |       |<------|   publish 1#0" in shown
    ET.parse(svg)
    assert cli.main(["explain", *given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["to"]["why"]["broker"] == "b1"


def test_the_command_says_where_two_runs_differ(kept, tmp_path, capsys):
    other = run_folder(case("flooding", SCRIPT), tmp_path)
    assert cli.main(["explain", str(kept), "1#0", "0", "--beside", str(other), "--trust"]) == 0
    shown = capsys.readouterr().out
    assert "The first broker at which the ways differ is b1: here it sends 1#0 to nobody" in shown
    assert cli.main(["explain", str(kept), "1#0", "--beside", str(other), "--trust"]) == 0
    assert "in the run by flooding to b0" in capsys.readouterr().out


def test_the_command_draws_a_stretch_of_time(kept, capsys):
    assert cli.main(["explain", str(kept), "--from", "11ms", "--to", "12ms", "--trust"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert cli.main(["explain", str(kept), "0#0", "--diagram", "--trust"]) == 0
    assert "subscribe 0#0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "give a MESSAGE"),
        (["1#0", "0", "--client", "1"], "name two clients"),
        (["--from", "soon"], "--from: "),
        (["--from", "2s", "--to", "1s"], "ends before it begins"),
        (["--from", "1s", "--client", "0"], "go with a MESSAGE"),
        (["--from", "1s", "--json"], "--json goes with a MESSAGE"),
        (["1#0", "--diagram", "--from", "1s"], "not both"),
        (["--from", "1s", "--service", "none"], "no service 'none'"),
        (["0#0", "--beside", "elsewhere"], "`beside` goes with a publication"),
        (["9#9", "--diagram"], "nobody sent a message 9#9"),
    ],
)
def test_what_does_not_go_together_is_refused(given, told, kept, capsys):
    assert cli.main(["explain", str(kept), *given, "--trust"]) == 3
    assert told in capsys.readouterr().err


def test_a_run_of_another_case_is_refused(kept, tmp_path):
    other = run_folder(case(Deaf, [(10, 0, "+", 0), (51, 1, "!")]), tmp_path)
    with pytest.raises(InvalidInput, match="another publication"):
        explain(kept, "1#0", 0, beside=other, trust=True)


def test_a_picture_that_cannot_be_written_is_said(kept, tmp_path, capsys):
    assert cli.main(["explain", str(kept), "1#0", "--svg", str(tmp_path / "none" / "way.svg"), "--trust"]) == 4
    assert "cannot write" in capsys.readouterr().err


def test_a_message_and_a_client_have_one_order_of_time_in_steps(kept):
    times = [step["time_ns"] for step in explain(kept, "1#0", 0, trust=True)["to"]["why"]["steps"]]
    assert times == sorted(times) and times[-1] == 51 * MS
