"""Claims of `brokerlab reproduce routing`: what holds is told as such, and what does not."""

from __future__ import annotations

import pytest

from analysis.papers import routing
from analysis.papers.claims import FAILS, HOLDS
from analysis.papers.experiment import Run, Told


@pytest.fixture
def report(tmp_path):
    return Told(Run(3, False, lambda text: None))


@pytest.mark.parametrize("experiment", [routing.rendezvous, routing.practice], ids=lambda each: each.__name__)
def test_closed_forms_hold(experiment, report):
    experiment(report)
    assert report.claims and [each.name for each in report.claims if each.verdict != HOLDS] == []


def test_what_is_drawn_of_practice_is_drawn_for_five_seeds_from_the_one_that_is_said(tmp_path):
    found = []
    for seed in (3, 30):
        report = Told(Run(seed, False, lambda text: None))
        routing.practice(report)
        found.append([each for each in report.claims if "over 5 seeds" in each.name])
    assert len(found[0]) == 4 and [each.measured for each in found[0]] != [each.measured for each in found[1]]


def test_intervals_that_touch_are_one_entry_and_fall_apart_around_holes():
    assert routing.intervals(12, 3, 5) == (1, 4)


def test_one_seed_that_differs_breaks_a_claim_although_the_means_are_equal(report):
    routing._equal(report, "messages", "derived", [4, 6], [6, 4])
    routing._equal(report, "messages", "derived", [4, 6], [4, 6])
    assert [each.verdict for each in report.claims] == [FAILS, HOLDS]
    assert report.claims[0].claim.expected == report.claims[0].measured == "5 ± 1.41 over 2 seeds"
