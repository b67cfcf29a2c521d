"""A finding of a hunt is explained and drawn beside its scenario; a run folder tells what the run in memory tells."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
import yaml

from analysis.spark.explain import explain
from analysis.ways.deciding import told_of
from analysis.ways.findings import explained, flooding_of, named
from analysis.ways.pair import Pair
from analysis.ways.told import Told
from brokers.contract import TIMER
from brokers.errors import InvalidInput
from brokers.naming import message_id
from protocols.judging import audit
from scenarios import cli
from scenarios.hunt.found import Finding
from scenarios.hunt.hunt import hunt
from scenarios.hunt.running import run as run_case
from scenarios.hunt.telling import explained as explain_finding
from scenarios.hunt.telling import keep_run, write
from scenarios.running import run as run_scenario
from tests.analysis.test_ways import MS, Deaf, Withholds, case, pair_of
from tests.planted.kinds import PLANTED, AsksOneSide, OldValues, SmallObjects, TellsOnce
from tests.scenarios.planted import AnswersItself, ForgetsALink, ForgetsToWithdraw, TrustsWithdrawals

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


@pytest.mark.parametrize(
    ("said", "about"),
    [
        ("client 3 got nothing of publication 2#1, sent at 5 ms", ("2#1", 3, None)),
        ("client 3 is not in the answer to publication 2#1", ("2#1", 3, None)),
        ("filter 4#1 is in the answer to publication 2#1", ("2#1", 4, None)),
        (
            f"the answer to publication 2#1 lacks (rank, filter, score, tie) (0, {(7 + 4) << 32 | 9}, 0.5, 0)",
            ("2#1", 7, None),
        ),
        ("the answer to publication 2#1 has (rank, filter, score, tie) (-1, -1, 0.0, 0)", ("2#1", None, None)),
        ("query 3#0 at 24000000 ns was not answered", ("3#0", None, 24_000_000)),
        ("query 3#0 was answered in round 3 of 24000000 ns, unasked", ("3#0", None, 72_000_000)),
        ("3 messages were delivered again", (None, None, None)),
        ("it never gets quiet", (None, None, None)),
    ],
)
def test_what_a_judge_says_names_what_is_explained(said, about):
    assert named(said, 4) == about


@pytest.mark.parametrize("each", [AsksOneSide, OldValues, SmallObjects, TellsOnce], ids=lambda each: each.kind)
def test_a_finding_of_every_kind_is_explained_and_drawn(each, tmp_path):
    planted = next(one for one in PLANTED if one.wrong is each)
    outcome = run_case(planted.case)
    found = getattr(audit(outcome.tables, outcome.kind, outcome.guarantees), planted.finding)
    kept = run_folder(planted.case, tmp_path)
    said = explained("delivery", found.examples[0], kept, tmp_path, planted.case.scenario())
    text = (tmp_path / "explanation.txt").read_text("utf-8")
    assert said and "verdict: " in text and "by the definition: " in text and "step by step:" in text
    assert "publish" in (tmp_path / "diagram.txt").read_text("utf-8") or each is TellsOnce
    ET.parse(tmp_path / "diagram.svg")


# ---- what does not come to its end -------------------------------------------------------------------------


class RingsABell(ForgetsALink):
    """A timer that sets another, for ever."""

    timer_min_ns = 1_000

    def on_message(self, message):
        if message.kind == TIMER or message.link < 0:
            self.node.timer(message, 10_000, 99)
        if message.kind != TIMER:
            super().on_message(message)


def test_a_storm_names_what_goes_round_and_who_sent_it_again(tmp_path):
    said = explain_finding(finding(case(AnswersItself, [(50, 1, "!")]), "storm"), tmp_path, None)
    assert said[0].startswith("Of the last 2,000 events that the trace has 2,000 are publish 1#0, at b")
    assert said[1] == "It began at b2, which got it from client 1 at 50 ms."
    assert said[2] == "b2 was the first to get it again: at 52 ms from b1, after 50 ms."
    assert said[3].startswith("It goes round by b")
    text = (tmp_path / "explanation.txt").read_text("utf-8")
    assert text.startswith("verdict: storm\n") and "51 ms  b1  handles publish 1#0 from b2" in text
    assert "<------|   publish 1#0" in (tmp_path / "diagram.txt").read_text("utf-8")
    ET.parse(tmp_path / "diagram.svg")


def test_a_storm_of_timers_names_the_broker_that_sets_them(tmp_path):
    said = explain_finding(finding(case(RingsABell, [(50, 0, "+", 0)]), "storm"), tmp_path, None)
    assert "are timers (type 99, by 0#0), at b0." in said[0]
    assert said[1].startswith("b0 was the first: at 50.01 ms; its timers went off ") and said[1].endswith(
        "10 us apart at the least."
    )


def test_what_a_broker_raised_names_the_broker_and_what_it_handled(tmp_path):
    each = case(TrustsWithdrawals, [(10, 0, "+", 0), (20, 0, "-", 0)])
    said = explain_finding(finding(each, "fails"), tmp_path, None)
    assert said == ["b0 raised it when it handled unsubscribe 0#0, by 0#1 from client 0, at 20 ms.",
                    "Before that it had handled 1 event."]  # fmt: skip
    diagram = (tmp_path / "diagram.txt").read_text("utf-8")
    assert "client 0: unsubscribe 0#0, by 0#1" in diagram and "!       |       |   raises: service 'service'" in diagram
    assert (tmp_path / "explanation.txt").read_text("utf-8").startswith("verdict: raised\n  Service 'service': its")
    ET.parse(tmp_path / "diagram.svg")


def test_what_was_raised_before_anything_was_handled_is_said(tmp_path):
    said = explain_finding(finding(case(FailsAtOnce, [(10, 0, "+", 0)]), "fails"), tmp_path, None)
    assert said == ["Nothing had been handled by then."]


class FailsAtOnce(ForgetsALink):
    """It cannot be made."""

    def __init__(self, node):
        raise RuntimeError("no room")


def finding(each, judge):
    return Finding(judge, judge, "it stopped", each, 0, each)


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


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    each = next(one for one in PLANTED if one.wrong is TellsOnce)
    return run_folder(each.case, tmp_path_factory.mktemp("served"))


def test_the_command_says_of_a_query_in_a_round_where_its_answer_stopped(served, tmp_path, capsys):
    svg = tmp_path / "round.svg"
    given = [str(served), "2#0", "--at", "200ms", "--trust"]
    assert cli.main(["explain", *given, "--diagram", "--svg", str(svg)]) == 0
    shown = capsys.readouterr().out
    assert "for it: server#1 on channel 1, 11 objects" in shown and "verdict: never told" in shown
    assert "owed: 6 objects (7, 36, 37, 39, 47, 48)" in shown and "type" not in shown.split("step by step")[1]
    ET.parse(svg)
    assert cli.main(["explain", *given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["round"]["plan"]["cause"] == "2#0" and found["to"]["why"]["held"] == "b1"


def test_the_command_says_of_an_answer_who_should_have_heard_it(served, capsys):
    assert cli.main(["explain", str(served), "server#1", "--trust", "--diagram"]) == 0
    shown = capsys.readouterr().out
    assert "listeners 0, 2; heard by nobody" in shown and "queries in its header: 0#0, 2#0" in shown
    assert "clients that should have heard it and did not: 0, 2" in shown
    assert cli.main(["explain", str(served), "server#1", "--client", "2", "--trust"]) == 0
    assert "verdict: never told" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["2#0", "--at", "150ms"], "due every 100 ms, and 150 ms is no multiple of that; say 100 ms or 200 ms"),
        (["2#0", "--at", "1000s"], "and no query was due at 1000 s; say a time before"),
        (["2#0", "--at", "soon"], "--at: "),
        (["--at", "200ms"], "give a MESSAGE"),
        (["--at", "200ms", "--from", "1ms"], "go with a MESSAGE"),
        (["7#0", "--at", "200ms"], "nobody sent a query 7#0"),
        (["2#0", "--at", "200ms", "--client", "0"], "query 2#0 is of client 2, not 0"),
        (["2#0", "--client", "2"], "a query is due at times: say one, as in --at 500ms"),
        (["server#1", "--at", "200ms", "--client", "2"], "--at goes with a query"),
        (["server#1", "--client", "1"], "client 1 never had a query that was due every 100 ms"),
        (["server#9"], "nobody sent a message server#9"),
        (["shop#9"], "names no message"),
        (["2#0", "--at", "200ms", "--beside", "elsewhere"], "`beside` goes with a publication"),
    ],
)
def test_what_is_no_round_is_refused(given, told, served, capsys):
    assert cli.main(["explain", str(served), *given, "--trust"]) == 3
    assert told in capsys.readouterr().err


def test_a_time_goes_with_queries_only(kept, capsys):
    assert cli.main(["explain", str(kept), "0#0", "--at", "100ms", "--trust"]) == 3
    assert "is of the kind 'content'; --at goes with queries" in capsys.readouterr().err


def test_a_run_folder_of_every_kind_tells_what_the_run_in_memory_tells(tmp_path):
    for at, each in enumerate(one for one in PLANTED if one.wrong in (AsksOneSide, OldValues, SmallObjects)):
        (tmp_path / str(at)).mkdir()
        folder = run_folder(each.case, tmp_path / str(at))
        found = explain(folder, each.about, each.client, trust=True)["to"]["why"]
        outcome = run_case(each.case)
        told = Told.of_tables(outcome.tables, outcome.kind, promises=lambda outcome=outcome: outcome.guarantees)
        (row,) = told.rows("publications", publication=message_id(each.about, told.nodes))
        assert found == told_of(Pair(told, row, each.client + told.nodes))


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
