"""The H-Tree paper's experiments at a small scale: what has to come out at any scale does. No time is judged."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.papers import htree
from analysis.papers.claims import HOLDS, REPORTED
from analysis.papers.experiment import Run, Told
from analysis.papers.registry import PAPERS
from brokers.indexes.content.quick_scan import QuickScan
from brokers.registry import load

SMALL = htree.Scale(subscriptions=1_500, growth=(400, 800), divided=300, events=12)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    found = Told(Run(1, False, lambda text: None))
    htree.experiments(found, SMALL)
    return found


def test_every_experiment_of_the_source_has_its_table_and_plot(report):
    swept = ["subscriptions", "values", "rca", "width", "zipf"]
    others = ["levels_10", "levels_20", "cells", "insert", "delete", "memory", "division"]
    drawn = {each.name for each in report.pictures}
    for name in [f"match_{factor}" for factor in swept] + others:
        table = report.tables[name]
        assert len(table) >= 2
        assert name == "match_values" or name in drawn
    contenders = ["H-Tree", "Simple", "Tama", "Counting", "Rein", "default"]
    assert list(report.tables["match_rca"][0]) == ["rca", *contenders]


def test_claims_about_structure_hold_at_any_scale(report):
    claims = {claim.name: claim for claim in report.claims}
    assert claims["buckets of a subscription"].verdict == HOLDS
    assert claims["what a level turns away"].verdict == HOLDS
    assert claims["share of candidates"].measured.startswith("within ")
    for rival in ("Simple", "Tama"):
        claim = claims[f"faster than {rival}"]
        assert "1000 times" in claim.claim.expected and claim.verdict != REPORTED


def test_more_levels_leave_fewer_candidates(report):
    for k in (10, 20):
        share = [row["candidate share"] for row in report.tables[f"levels_{k}"]]
        assert share == sorted(share, reverse=True) and share[4] < share[0] / 5


def test_a_contender_that_answers_otherwise_stops_the_reproduction():
    rows, events = htree.BASE.rows(200), htree.BASE.events(5)
    events[0, rows[0, 0::3].astype(int)] = rows[0, 1::3]  # so that somebody matches
    all_of_them = QuickScan.build(20, np.arange(200), rows)
    expected = htree.agreed(all_of_them, events, "Simple", None)
    assert htree.agreed(all_of_them, events, "Rein", expected) == expected
    all_of_them.delete([0])
    with pytest.raises(AssertionError, match="Rein and H-Tree answer differently"):
        htree.agreed(all_of_them, events, "Rein", expected)


def test_the_command_knows_it():
    assert load(PAPERS["htree"].target) is htree.EXPERIMENTS
