"""Findings fail as scenarios too: by what they expect, by themselves, or they say why not and what shows them."""

from __future__ import annotations

import pytest
import yaml

from scenarios.cli import main
from scenarios.hunt.hunt import hunt, smaller
from scenarios.hunt.judges import JUDGES, judged
from scenarios.hunt.replaying import replay
from scenarios.hunt.running import run
from scenarios.hunt.telling import again, scenario_text
from tests.analysis.runs_of_cases import case_of
from tests.planted.counting import Adding, Counting, SnapshotOfClients, SubscribedTwice
from tests.planted.leaking import Buries
from tests.planted.registry import PLANTED
from tests.planted.settings import MS
from tests.scenarios.planted import (
    AnswersItself,
    ChangesBodies,
    CountsStretches,
    ForgetsALink,
    ForgetsOnCheckpoints,
    ForgetsToWithdraw,
    ForwardsTwice,
    KeepsBodies,
    SharesState,
    TicksForEver,
    TrustsWithdrawals,
)

EXPECTS = [
    ("delivery", ForgetsALink, "verdict == valid"), ("budget", ForwardsTwice, "verdict == valid"),
    ("leaks", ForgetsToWithdraw, "tables.left <= "), ("quiet", TicksForEver, "quiet.late <= "),
]  # fmt: skip
BY_ITSELF = [("fails", TrustsWithdrawals), ("storm", AnswersItself)]
SHOWN_OTHERWISE = [
    ("isolation", SharesState), ("apart", ChangesBodies), ("cutting", CountsStretches), ("leaks", KeepsBodies),
    ("resuming", ForgetsOnCheckpoints), ("grows", Buries),
]  # fmt: skip


def written(judge, protocol, folder):
    """The scenario of what a hunt finds, and the same of plain subscription forwarding."""
    report = hunt(protocol, runs=200, judges=[judge], enough=1, shrink_seconds=0, faults=False, lines=False)
    (found,) = report.findings
    return files_of(found, folder, "subscription")


def files_of(found, folder, twin):
    file, right = folder / "wrong.yaml", folder / "right.yaml"
    text = scenario_text(found, again(found, "planted", file))
    file.write_text(text)
    right.write_text(text.replace(f"protocol: {found.case.protocol}", f"protocol: {twin}"))
    return file, right


def runs(file):
    return main(["run", str(file), "--trust", "--quiet", "--engine", "inline", "--out", str(file.parent / "runs")])


@pytest.mark.parametrize(("judge", "protocol", "expected"), EXPECTS, ids=lambda each: getattr(each, "__name__", each))
def test_what_a_finding_expects_fails_and_holds_of_who_is_right(judge, protocol, expected, tmp_path, capsys):
    file, right = written(judge, protocol, tmp_path)
    (said,) = yaml.safe_load(file.read_text())["expect"]
    assert said.startswith(expected)
    assert runs(file) == 1 and f"✗ {said}: " in capsys.readouterr().out
    assert runs(right) == 0 and f"✓ {said}: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "wrong", "right", "expected"),
    [("1", SnapshotOfClients, Counting, "verdict == valid"), ("3b", SubscribedTwice, Adding, "tables.left <= 0")],
)
def test_what_did_not_heal_is_expected_to(number, wrong, right, expected, tmp_path, capsys):
    planted = next(each for each in PLANTED if each.number == number)
    case = case_of(planted.setting, wrong).but(duration_ns=9_000 * MS)
    report = hunt_of(case)
    file, twin = files_of(report, tmp_path, f"{right.__module__}:{right.__qualname__}")
    assert yaml.safe_load(file.read_text())["expect"] == [expected]
    assert runs(file) == 1 and f"✗ {expected}: " in capsys.readouterr().out
    assert runs(twin) == 0


def hunt_of(case):
    """What `heals` has against a case, as a finding."""
    (mistake,) = judged(run(case), {"heals": JUDGES["heals"]})
    return smaller(0, case, mistake, 0)


@pytest.mark.parametrize(("judge", "protocol"), BY_ITSELF)
def test_what_comes_to_no_end_fails_by_itself(judge, protocol, tmp_path, capsys):
    file, right = written(judge, protocol, tmp_path)
    assert "it expects nothing, since " in file.read_text() and "fails by itself" in file.read_text()
    assert runs(file) not in (0, 3) and runs(right) == 0


@pytest.mark.parametrize(("judge", "protocol"), SHOWN_OTHERWISE)
def test_what_no_expectation_can_say_is_said_with_the_command_that_shows_it(judge, protocol, tmp_path):
    file, right = written(judge, protocol, tmp_path)
    text = file.read_text()
    assert "expect:" not in text and "\n# it expects nothing, since " in text and " --replay " in text
    assert [each.judge for each in replay(file, judges=[judge]).mistakes] == [judge]
    assert replay(right, judges=[judge]).mistakes == []
