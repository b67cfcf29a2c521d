"""The hunt finds what is planted, makes it small, shows it again, and has nothing against protocols that are right."""

from __future__ import annotations

import json
import re
import runpy

import pytest
import yaml

from brokers import names, thresholds
from brokers.errors import InvalidInput
from brokers.tables import InterestStore
from protocols.content.subscription import PlainSubscription
from protocols.rehearsing import Dice
from scenarios.cli import main
from scenarios.hunt.case import Act, Case, Edge
from scenarios.hunt.drawing import Prey, draw, orderly
from scenarios.hunt.hunt import hunt
from scenarios.hunt.judges import JUDGES, judged
from scenarios.hunt.options import draw_options
from scenarios.hunt.replaying import replay
from scenarios.hunt.running import run
from scenarios.hunt.shrinking import shrink
from scenarios.hunt.telling import again, scenario_text, write
from scenarios.running import run as run_scenario
from tests.planted.races import QuickOvertaken
from tests.scenarios.planted import FOUND_BY, AnswersItself, ForgetsALink, ForgetsToWithdraw


@pytest.fixture(scope="module")
def forgetful_report():
    return hunt(ForgetsALink, runs=200, faults=False, enough=1)


# ---- what is planted is found -------------------------------------------------------------------------


@pytest.mark.parametrize("bug", FOUND_BY, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found_by_the_judge_that_it_is_for(bug):
    report = hunt(bug, runs=500, faults=False, enough=1, shrink_seconds=0)
    assert next(each.judge for each in report.findings) in FOUND_BY[bug]


def test_the_protocol_that_bugs_were_planted_in_has_nothing_against_it():
    report = hunt(PlainSubscription, runs=60)
    assert report.findings == [] and report.runs == 60


def test_aimed_schedules_find_a_race_in_more_hunts_than_as_many_random_ones():
    def found(schedules: str) -> int:
        reports = (
            hunt(
                QuickOvertaken, runs=120, seed=seed, faults=False, enough=1, judges=["delivery"], shrink_seconds=0,
                schedules=schedules, lines=False,
            )
            for seed in (1, 2, 3)
        )  # fmt: skip
        return sum(bool(report.findings) for report in reports)

    assert found("aimed") > found("random")


# ---- what is found ------------------------------------------------------------------------------------


def test_a_finding_is_small_and_nothing_single_can_be_left_out(forgetful_report):
    (found,) = forgetful_report.findings
    assert found.minimal
    assert [act.op for act in found.case.acts] == ["subscribe", "publish"]
    assert found.case.brokers == 4  # a broker with three neighbours is what it takes


def test_the_same_seed_and_runs_find_the_same(forgetful_report):
    second = hunt(ForgetsALink, runs=200, faults=False, enough=1)
    assert [(each.run, each.told) for each in second.findings] == [
        (each.run, each.told) for each in forgetful_report.findings
    ]


def test_the_scenario_of_a_finding_has_the_digest_of_the_case_and_fails_again(tmp_path, forgetful_report):
    (found,) = forgetful_report.findings
    folder = write(found, tmp_path, "planted")
    again_found = replay(folder / "scenario.yaml")
    assert again_found.digest == found.digest
    assert [each.same for each in again_found.mistakes] == [("delivery", "missed")]
    assert (
        run_scenario(folder / "scenario.yaml", engine="inline", out=tmp_path, trust=True).digest
        == found.digest
    )


@pytest.mark.parametrize("engine", ["inline", pytest.param("ray", marks=pytest.mark.ray)])
def test_the_scenario_of_a_finding_has_its_digest_on_every_engine(tmp_path, forgetful_report, engine):
    (found,) = forgetful_report.findings
    folder = write(found, tmp_path, "planted")
    ran = run_scenario(folder / "scenario.yaml", engine=engine, actors=2, out=tmp_path, trust=True)
    assert ran.digest == found.digest


def test_the_scenario_of_a_finding_says_what_fails_and_how_to_see_it(tmp_path, forgetful_report):
    (found,) = forgetful_report.findings
    text = scenario_text(found, again(found, "mine:Mine", tmp_path / "scenario.yaml"))
    assert text.startswith(f"# {found.told}\n# brokerlab hunt mine:Mine --replay ")
    assert yaml.safe_load(text)["expect"] == ["verdict == valid"]


def test_the_test_of_a_finding_fails_with_the_protocol_and_passes_with_the_right_one(
    tmp_path, forgetful_report
):
    (found,) = forgetful_report.findings
    folder = write(found, tmp_path, "planted")
    (test,) = folder.glob("test_*.py")
    assert len(test.read_text().splitlines()) <= 7
    (ask,) = (each for name, each in runpy.run_path(str(test)).items() if name.startswith("test_"))
    with pytest.raises(AssertionError):
        ask()
    scenario = folder / "scenario.yaml"
    scenario.write_text(scenario.read_text().replace(found.case.protocol, "subscription"))
    ask()


def test_a_case_is_the_case_of_its_scenario():
    for number in range(12):
        case = draw(Prey.of("subscription"), 3, number)
        assert run(Case.of(case.loaded())).digest == run(case).digest != ""


# ---- pieces -------------------------------------------------------------------------------------------


def test_drawn_cases_of_every_kind_are_orderly_and_run():
    for name in ("subscription", "topk-gather", "context-escalated", "channels", "spatial"):
        for number in range(4):
            case = draw(Prey.of(name), 2, number)
            assert orderly(case) and case.acts and not run(case).failed


def test_what_is_not_orderly_is_no_case():
    base = Case("subscription", "content", 2, (Edge(0, 1, 5),), (0, 1), (), 10**9)
    ends = Act(5, 0, "unsubscribe", 0)
    begins = Act(3, 0, "subscribe", 0, body=(0.0, 0.0, 1.0))
    assert not orderly(base.but(acts=(ends,)))
    assert not orderly(base.but(acts=(begins, begins)))
    assert orderly(base.but(acts=(begins, ends)))


def test_shrinking_ends_at_one_action_where_one_is_enough():
    case = draw(Prey.of("subscription", faults=False), 1, 3)
    shrunk = shrink(case, lambda each: any(act.op == "publish" for act in each.acts))
    assert shrunk.minimal and len(shrunk.case.acts) == 1 and shrunk.case.brokers == 1
    assert not shrink(case, lambda each: bool(each.acts), most=2).minimal


def test_what_was_found_is_told_though_it_is_interrupted_while_it_is_made_smaller(forgetful_report, monkeypatch):
    (small,) = forgetful_report.findings
    stop_after, tried = small.tried // 2, 0

    def counted(case):
        nonlocal tried
        tried += 1
        if tried > stop_after + small.run + 1:
            raise KeyboardInterrupt
        return run(case)

    monkeypatch.setattr("scenarios.hunt.hunt.run", counted)
    report = hunt(ForgetsALink, runs=200, faults=False)
    (found,) = report.findings
    assert report.interrupted and found.interrupted and not found.minimal and found.judge == small.judge
    assert len(small.case.acts) <= len(found.case.acts) < len(found.first.acts)
    assert found.told in [each.told for each in judged(run(found.case), {found.judge: JUDGES[found.judge]})]


def test_making_smaller_ends_by_the_clock_too(monkeypatch):
    now = iter(range(0, 10**9, 10))
    monkeypatch.setattr("scenarios.hunt.shrinking.time.monotonic", lambda: next(now))
    case = draw(Prey.of("subscription", faults=False), 1, 3)
    shrunk = shrink(case, lambda each: bool(each.acts), seconds=20)
    assert not shrunk.minimal and 0 < shrunk.tried < 10


def test_options_are_drawn_by_type_and_bounds():
    drawn = [
        draw_options(names.find("protocols", "spatial").object, {}, Dice(1, i, "test")) for i in range(40)
    ]
    assert {"shrink_every", "boxes"} == {name for each in drawn for name in each}
    assert all(
        each.get("shrink_every", 10**6) >= 10**6 and 1 <= each.get("boxes", 1) <= 256 for each in drawn
    )


def test_some_cases_are_over_at_once_or_have_low_thresholds_and_most_do_not():
    cases = [draw(Prey.of("covering", faults=False), 3, number) for number in range(80)]
    early = [[act.at for act in case.acts if 0 < act.at < 1.5e9] for case in cases]  # before it comes to rest
    hurried = [max(each) <= 21e6 for each in early if len(each) > 2]
    lowered = [case.thresholds is not None for case in cases]
    assert len(hurried) > 40
    for each in (hurried, lowered):
        assert 0.05 < sum(each) / len(each) < 0.5


def test_lowered_thresholds_hold_within_and_not_after():
    with thresholds.lowered(3):
        assert thresholds.usually(1024) == 3 and thresholds.usual_room(64) == 2
    assert thresholds.usually(1024) == 1024 and thresholds.usual_room(64) == 64


@pytest.mark.parametrize("name", ["subscription", "context-edge"])
def test_lowered_thresholds_show_in_no_digest(name):
    assert InterestStore is not None
    for number in range(8):
        case = draw(Prey.of(name, faults=False), 4, number)
        assert run(case.but(thresholds=1)).digest == run(case.but(thresholds=None)).digest


def test_a_withdrawal_that_is_forgotten_is_a_leak_and_the_right_protocol_has_none():
    acts = (
        Act(10**6, 0, "subscribe", 0, body=(0.0, 0.0, 1.0)), Act(2 * 10**9, 0, "unsubscribe", 0),
    )  # fmt: skip
    case = Case("subscription", "content", 2, (Edge(0, 1, 10**6),), (0,), acts, 4 * 10**9)
    bad = case.but(protocol=Prey.of(ForgetsToWithdraw).protocol)
    assert judged(run(case), JUDGES) == []
    assert [each.same for each in judged(run(bad), JUDGES)] == [("leaks", "entries")]


# ---- what hunts found ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["context-edge", "context-replicated", "context-escalated"])
def test_a_context_service_is_gone_on_with_from_before_anybody_had_a_profile(name):
    acts = (Act(900_000_000, 0, "publish", body=(0.0, 0.0, 0.0, 0.0)),)
    case = Case(name, "context", 2, (Edge(0, 1, 10**6),), (1,), acts, 3 * 10**9)
    assert list(JUDGES["resuming"].ask(run(case))) == []


# ---- the command --------------------------------------------------------------------------------------


def test_the_command_says_what_it_found_and_leaves_a_folder(tmp_path, capsys):
    arguments = ["hunt", "tests.scenarios.planted:ForgetsALink", "--runs", "80", "--faults", "none"]
    assert main([*arguments, "--out", str(tmp_path), "--judges", "delivery"]) == 1
    told = capsys.readouterr().out
    assert not re.search(r"\b1 (runs|brokers|actions|events|findings)\b| sent at \d+ ns", told)
    assert "delivery (missed): client" in told and "nothing single can be left out" in told
    (folder,) = tmp_path.iterdir()
    assert (
        main(["hunt", "tests.scenarios.planted:ForgetsALink", "--replay", str(folder / "scenario.yaml")]) == 1
    )
    assert main(["hunt", "subscription", "--replay", str(folder / "scenario.yaml")]) == 3
    assert "say --trust" in capsys.readouterr().err
    assert main(["hunt", "subscription", "--trust", "--replay", str(folder / "scenario.yaml")]) == 0


def test_a_finding_names_version_and_seed_and_a_replay_says_what_is_another(tmp_path, capsys):
    hunted = ["hunt", "tests.scenarios.planted:ForgetsALink", "--runs", "80", "--seed", "1", "--faults", "none"]
    assert main([*hunted, "--out", str(tmp_path), "--judges", "delivery"]) == 1
    told = capsys.readouterr()
    origin = re.search(r"scenario.yaml  # (found by brokerlab (\S+) with seed 1 in run \d+)\n", told.out)
    assert origin and re.search(r"^run \d+: delivery \(missed\); its case is made smaller$", told.err, re.MULTILINE)
    (file,) = tmp_path.glob("*/scenario.yaml")
    text = file.read_text()
    assert f"\n# {origin[1]}\n" in text
    again = ["hunt", "tests.scenarios.planted:ForgetsALink", "--replay", str(file), "--judges", "delivery"]
    assert main(again) == 1 and capsys.readouterr().out.splitlines()[-1].startswith("digest ")
    file.write_text(re.sub("digest .", "digest 0", text).replace(f"brokerlab {origin[2]} ", "brokerlab 0.0.9 "))
    assert main([*again, "--json"]) == 1
    version, digest = json.loads(capsys.readouterr().out)["changed"]
    assert version == f"it was found by brokerlab 0.0.9, and this is {origin[2]}: it may run otherwise"
    assert digest.startswith("it does not run as it did when it was found: the digest was 0")
    assert main([*again[:1], "subscription", "--trust", *again[2:]]) == 0
    assert "the digest was" not in capsys.readouterr().out  # of another protocol nobody asks that


def test_a_hunt_that_met_a_storm_counts_what_was_handled():
    report = hunt(AnswersItself, runs=40, faults=False, judges=["storm"], enough=1, shrink_seconds=0, lines=False)
    assert [each.judge for each in report.findings] == ["storm"] and report.covered.events > 15_000


def test_what_is_made_smaller_later_leaves_no_explanation_of_what_it_was_before(tmp_path, capsys):
    protocol = "tests.scenarios.planted:ForgetsALink"
    hunted = ["hunt", protocol, "--runs", "80", "--faults", "none", "--judges", "delivery", "--out", str(tmp_path)]
    assert main(hunted) == 1
    (folder,) = tmp_path.iterdir()
    (folder / "explanation.txt").write_text("of a case that was larger")
    replayed = ["hunt", protocol, "--replay", str(folder / "scenario.yaml"), "--judges", "delivery"]
    assert main([*replayed, "--shrink", "--out", str(tmp_path)]) == 1
    assert "larger" not in (folder / "explanation.txt").read_text()
    assert "the run:" in capsys.readouterr().out


def test_the_command_answers_in_json_and_with_0_where_it_finds_nothing(tmp_path, capsys):
    assert main(["hunt", "flooding", "--runs", "3", "--json", "--out", str(tmp_path / "none")]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 3
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["floodin"], "did you mean 'flooding'"),
        (["flooding", "--set", "remember=3"], "no option 'remember'"),
        (["flooding", "--set", "remember_s=-3"], "must be greater than 0"),
        (["flooding", "--judges", "delivry"], "did you mean 'delivery'"),
        (["flooding", "--runs", "0"], "--runs: at least 1"),
        (["flooding", "--for", "2 parsec"], "--for: unknown unit"),
        (["flooding", "--replay", "nothing.yaml"], "there is no file nothing.yaml"),
        (["flooding", "--replay", "quickstart"], "no case of a hunt"),
        (["flooding", "--runs", "1", "--out", f"{__file__}/hunts"], "test_hunt.py is no folder"),
        (["flooding", "--replay", "quickstart", "--seed", "1"], "--seed: a replay draws nothing"),
        (["flooding", "--replay", "quickstart", "--for", "3s"], "--for: a replay draws nothing"),
        (["flooding", "--replay", "quickstart", "--runs", "3"], "--runs: a replay draws nothing"),
        (["flooding", "--replay", "quickstart", "--jobs", "1"], "--jobs: a replay draws nothing"),
        (["flooding", "--replay", "quickstart", "--faults", "some"], "--faults: a replay draws nothing"),
        (["flooding", "--replay", "quickstart", "--thresholds", "0"], "--thresholds: at least 1"),
        (["flooding", "--replay", "quickstart", "--set", "remember_s=3"], "those of its scenario"),
    ],
)
def test_wrong_arguments_get_a_sentence_and_3(arguments, told, capsys):
    assert main(["hunt", *arguments]) == 3
    assert told in capsys.readouterr().err


def test_a_kind_without_a_rehearsal_is_told(monkeypatch):
    with pytest.raises(InvalidInput, match="no protocol named 'nobody'"):
        hunt("nobody", runs=1)
