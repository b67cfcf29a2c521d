"""The budget of links in the kit: what goes over a link again or for nobody is told, and nobody right is accused."""

from __future__ import annotations

import pytest

from brokers import names
from protocols.conformance import REHEARSALS, judge_run, rehearse, report
from tests.planted.bridges import BothDeclared
from tests.scenarios.planted import ForgetsToWithdraw, ForwardsTwice

TREE, RING = (next(each for each in REHEARSALS if each.tree is tree) for tree in (True, False))


class Again(BothDeclared):
    """Sends over links again, and says so."""

    resends = True


@pytest.mark.parametrize("rehearsal", [TREE, RING], ids=lambda rehearsal: rehearsal.name)
@pytest.mark.parametrize("name", sorted(names.table("protocols")))
def test_no_built_in_protocol_spends_too_much(name, rehearsal):
    assert judge_run(rehearse(rehearsal, name, 2))[1] == []


@pytest.mark.parametrize(
    ("protocol", "told"),
    [
        (ForgetsToWithdraw, "behind which nobody may get it"), (ForwardsTwice, "more than once"),
        (BothDeclared, "more than once"),
    ],
)
def test_who_spends_too_much_is_told_the_first_of_it(protocol, told):
    (said,) = judge_run(rehearse(TREE, protocol))[1]
    assert said.startswith("budget: publication ") and said.endswith(told)


def test_who_says_that_it_sends_again_may():
    assert judge_run(rehearse(TREE, Again))[1] == []


def test_a_report_names_the_budget_and_does_not_pass(monkeypatch):
    monkeypatch.setattr("protocols.conformance.REHEARSALS", (TREE,))
    monkeypatch.setattr("protocols.conformance.check_digests", lambda model, ways: [])
    passed, text = report(ForgetsToWithdraw, seeds=(1,))
    assert not passed and "\n  valid: " in text and "\n  budget: publication " in text
