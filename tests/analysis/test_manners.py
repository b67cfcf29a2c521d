"""What an audit says of how a protocol behaved: what went over links, how soon it was quiet, what was left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.spark.audit import audit
from analysis.spark.audit_text import text
from protocols.conformance import judge_run
from protocols.content.subscription import PlainSubscription
from tests.analysis.runs_of_cases import case_of, run_of
from tests.planted.announcing import Members, NeverForgotten
from tests.planted.bridges import BothDeclared
from tests.planted.registry import LINE, PAIR, PLANTED, crash, failing
from tests.planted.settings import MS, Setting
from tests.scenarios.planted import ForgetsToWithdraw, TicksForEver

BY_NUMBER = {planted.number: planted for planted in PLANTED}
GONE = Setting(LINE, (2, 0), ((10, 0, "+"), (50, 1, "!"), (100, 0, "-"), (200, 1, "!")))


def audited(setting, protocol, folder):
    found = audit(run_of(case_of(setting, protocol), folder), trust=True)
    (service,) = found.services
    return service, text(found)


class Again(BothDeclared):
    """Sends over links again, and says so."""

    resends = True


def test_who_is_right_spends_nothing_too_much_and_leaves_nothing(tmp_path):
    service, told = audited(GONE, PlainSubscription, tmp_path)
    assert service.verdict == "valid"
    assert service.budget == {"twice": 0, "waste": 0, "bytes": 0, "examples": {"twice": [], "waste": []}}
    assert service.quiet == {"after_ns": 0, "late": 0} and service.leaks == {"entries": 0, "brokers": 0}
    assert "  budget: 0 over a link again, 0 for nobody; quiet: 0 s after clients and faults; leaks: nothing\n" in told


def test_what_a_frugal_protocol_sends_for_nobody_breaks_its_budget_and_what_is_left_is_told(tmp_path):
    service, told = audited(GONE, ForgetsToWithdraw, tmp_path)
    assert service.verdict == "invalid"
    assert service.reason == "broke what is promised: the budget of links (2 for nobody)"
    assert (service.budget["twice"], service.budget["waste"]) == (0, 2)
    assert "    for nobody: message 1#1, b0 -> b1" in told
    assert service.leaks == {"entries": 2, "brokers": 2}
    assert "; leaks: 2 entries at 2 brokers\n" in told


@pytest.mark.parametrize("number", ["13d", "17"])
def test_a_publication_that_goes_over_a_link_again_breaks_the_budget(number, tmp_path):
    planted = BY_NUMBER[number]
    wrong, told = audited(planted.setting, planted.wrong, tmp_path / "wrong")
    right, _ = audited(planted.setting, planted.right, tmp_path / "right")
    assert (wrong.budget["twice"], right.budget["twice"]) == (1, 0)
    assert "the budget of links (1 over a link again)" in wrong.reason and right.verdict == "valid"
    assert "over a link again: message " in told


def test_who_says_that_it_sends_again_is_not_held_to_it(tmp_path):
    service, _ = audited(BY_NUMBER["13d"].setting, Again, tmp_path)
    assert service.budget == {"twice": None, "waste": None, "bytes": 0, "examples": {}}
    assert "budget" not in service.reason


def test_messages_that_grow_with_each_life_break_the_budget_in_bytes_in_audit_and_kit(tmp_path):
    """The list of members that only grows, of a broker that begins 120 lives; no link carries more messages for it."""
    again = failing(*(crash(3, 30 + 60 * life, 60 + 60 * life) for life in range(120)))
    setting = replace(
        BY_NUMBER["16"].setting, links=((0, 1), (1, 2), (2, 3)), faults=again, duration_ms=7_400, script=((10, 0, "!"),)
    )
    (told,) = judge_run(setting.model(NeverForgotten))[1]
    assert told.startswith("budget: ") and " bytes went in 363 messages over the link 1 -> 0, " in told
    assert judge_run(setting.model(Members))[1] == []
    wrong, told = audited(setting, NeverForgotten, tmp_path / "wrong")
    right, _ = audited(setting, Members, tmp_path / "right")
    assert (wrong.budget["bytes"], right.budget["bytes"]) == (1, 0)
    assert "the budget of links (1 with too many bytes)" in wrong.reason
    assert "; 1 links carried more bytes than there was to tell; " in told


def test_what_a_link_doubles_is_not_held_against_who_passes_it_on(tmp_path):
    twice = {"fault": "degrade", "at": 1, "lasts": 300 * MS, "link": [0, 1], "twice": 1.0}
    case = case_of(Setting(LINE, (2, 0), ((10, 0, "+"), (50, 1, "!"))), PlainSubscription).but(faults=(twice,))
    path = run_of(case, tmp_path)
    (service,) = audit(path, trust=True).services
    assert service.doubled == 1 and service.budget["twice"] == 0


def test_an_interest_that_is_left_at_a_neighbour_is_told(tmp_path):
    planted = BY_NUMBER["3b"]
    assert audited(planted.setting, planted.wrong, tmp_path / "wrong")[0].leaks == {"entries": 1, "brokers": 1}
    assert audited(planted.setting, planted.right, tmp_path / "right")[0].leaks == {"entries": 0, "brokers": 0}


def test_nothing_is_said_of_leaks_while_an_interest_stands(tmp_path):
    assert audited(Setting(PAIR, (0, 1), ((10, 0, "+"), (50, 1, "!"))), PlainSubscription, tmp_path)[0].leaks is None


def test_a_run_in_which_nobody_asks_for_anything_is_audited_too(tmp_path):
    case = case_of(Setting(PAIR, (0,), ((50, 0, "!"),)), PlainSubscription)
    lossy = case.but(edges=tuple(edge._replace(loss=0.5) for edge in case.edges))
    (service,) = audit(run_of(lossy, tmp_path), trust=True).services
    assert service.publications == 1 and service.budget["waste"] == 0


def test_a_timer_that_nobody_stops_is_told(tmp_path):
    service, told = audited(GONE, TicksForEver, tmp_path)
    assert service.quiet["after_ns"] > 11_000_000_000 and service.quiet["late"] > 3
    assert " events later than 9 s" in told
