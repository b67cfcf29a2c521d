"""The judge `heals`: what is owed again after faults, told once, by hunt, kit and audit, and by a rule."""

from __future__ import annotations

import pytest

from analysis.spark.audit import audit
from analysis.spark.audit_text import text
from protocols.conformance import judge_run
from protocols.content.subscription import PlainSubscription
from scenarios.hunt.case import Act, Case, Edge
from scenarios.hunt.judges import JUDGES, judged
from scenarios.hunt.running import run
from tests.analysis.runs_of_cases import case_of, run_of
from tests.planted.counting import Counting
from tests.planted.registry import PLANTED
from tests.planted.settings import MS

BY_NUMBER = {planted.number: planted for planted in PLANTED}
SHOWN_BY = {"1": "missed", "17": "duplicated", "11": "missed"}  # planted bugs that only show after healing


def target(protocol):
    return f"{protocol.__module__}:{protocol.__qualname__}"


def found(case, protocol):
    outcome = run(case.but(protocol=target(protocol)))
    assert not outcome.failed
    return [each for each in judged(outcome, JUDGES) if each.judge in ("delivery", "heals", "leaks")]


@pytest.mark.parametrize("number", SHOWN_BY)
def test_what_shows_only_after_healing_is_told_once_with_the_fault_since_which(number):
    planted = BY_NUMBER[number]
    case = case_of(planted.setting, planted.wrong)
    (mistake,) = found(case, planted.wrong)
    assert mistake.same == ("heals", SHOWN_BY[number])
    assert "; it has not healed since " in mistake.told and " from 50 ms to 100 ms" in mistake.told
    assert found(case, planted.right) == []


def test_what_is_wrong_without_faults_too_is_of_delivery():
    """The neighbour is cut off for a while, and gets nothing after that; nor would it have before."""
    cut = {"fault": "cut", "at": 50 * MS, "lasts": 50 * MS, "link": [0, 1]}
    acts = (
        Act(10 * MS, 1, "subscribe", 0, body=(0.0, 0.2, 0.8)), Act(5_000 * MS, 0, "publish", body=(0.5, 0, 0, 0)),
    )  # fmt: skip
    star = Case(
        target(Deaf), "content", 2, (Edge(0, 1, MS),), (0, 1), acts, 8_000 * MS, faults=(cut,), detect_ns=10 * MS
    )
    assert [each.same for each in found(star, Deaf)] == [("delivery", "missed")]
    assert [each.same for each in found(star.but(faults=(), detect_ns=None), Deaf)] == [("delivery", "missed")]
    assert found(star, Counting) == []


class Deaf(Counting):
    """Promises to recover, and passes nothing on, whether anything fails or not."""

    def on_message(self, message):
        if message.link < 0:
            super().on_message(message)


def test_an_interest_that_a_fault_left_behind_is_of_heals_and_not_of_leaks():
    planted = BY_NUMBER["3b"]
    late = tuple(act._replace(at=act.at + 2_000 * MS) if act.op == "unsubscribe" else act for act in
                 case_of(planted.setting, planted.wrong).acts)  # fmt: skip
    case = case_of(planted.setting, planted.wrong).but(acts=late, duration_ns=9_000 * MS)
    (mistake,) = found(case, planted.wrong)
    assert mistake.same == ("heals", "entries") and "since the link 0 -> 1 was cut from 50 ms" in mistake.told
    assert found(case, planted.right) == []


def test_who_promises_nothing_under_faults_is_not_asked():
    planted = BY_NUMBER["1"]
    outcome = run(case_of(planted.setting, PlainSubscription))
    assert list(JUDGES["heals"].ask(outcome)) == [] and not len(outcome.tables["deliveries"]["client"])


@pytest.mark.parametrize("number", ["1", "17"])
def test_kit_and_audit_tell_it_too(number, tmp_path):
    planted = BY_NUMBER[number]
    wrong, right = (judge_run(planted.setting.model(each))[1] for each in (planted.wrong, planted.right))
    assert [told for told in wrong if told.startswith("heals: ")] and right == []
    case = case_of(planted.setting, planted.wrong)
    (service,) = audit(run_of(case, tmp_path / "wrong"), trust=True).services
    audited = audit(run_of(case.but(protocol=target(planted.right)), tmp_path / "right"), trust=True)
    assert audited.services[0].heals == {"from_ns": service.heals["from_ns"], "forced": 1, "missed": 0, "unwanted": 0}
    assert "heals: nothing wrong of 1 decisions forced since " in text(audited)
    assert (service.heals["missed"] == 1) == (number == "1")
