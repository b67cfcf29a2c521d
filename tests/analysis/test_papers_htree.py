"""The H-Tree paper's experiments at a small scale: what has to come out at any scale does. No time is judged."""

from __future__ import annotations

import copy
from functools import partial

import numpy as np
import pytest

from analysis.papers import htree
from analysis.papers.claims import HOLDS, judged
from analysis.papers.experiment import Run
from analysis.papers.registry import PAPERS
from brokers.indexes.content.quick_scan import QuickScan
from brokers.registry import load
from tests.analysis.wrong_data import broken_by

SMALL = htree.Scale(subscriptions=1_500, growth=(400, 800), divided=300, events=12)


MEASURES = {
    "matching": htree.matching, "levels": htree.levels, "cells": htree.cells, "division": htree.division,
    "order": htree.order_of_levels, "selection": htree.selection, "transformation": htree.transformation,
    "candidates": htree.candidate_share,
}  # fmt: skip
AXES = ("subscriptions", "values", "rca", "width", "zipf", "levels", "cells")


@pytest.fixture(scope="module")
def tables():
    return {name: measure(SMALL, Run(1, False, lambda text: None)) for name, measure in MEASURES.items()}


def right(tables):
    """Of levels and of the transformation as the paper tells it: each level cuts a third, even values a half."""
    found = copy.deepcopy(tables)
    for name, rows in found.items():
        for at, row in enumerate(rows):
            if name.startswith("levels"):
                row["us"] = 100 * 0.66**at
            if name == "transformation":
                row["us"] = 50.0 if at % 2 else 100.0
    return found


@pytest.mark.parametrize("experiment", htree.EXPERIMENTS, ids=lambda each: each.name)
def test_each_claim_follows_from_its_tables_and_can_fail(experiment, tables):
    mine = tables[experiment.name]
    assert set(mine) == set(experiment.titles) and all(len(rows) >= 2 for rows in mine.values())
    claims = list(experiment.judge(mine))
    broken = partial(broken_by, experiment, mine, axes=AXES, right=right(mine))
    assert claims and [each.key for each in claims if not broken(each.key)] == []
    for picture in experiment.draw(mine):
        assert picture.curves and all(len(each.x) == len(each.y) for each in picture.curves)


def test_every_contender_is_compared(tables):
    contenders = ["H-Tree", "Simple", "Tama", "Counting", "Rein", "default"]
    assert list(tables["matching"]["match_rca"][0]) == ["rca", *contenders]


def test_claims_about_structure_hold_at_any_scale(tables):
    experiments = {each.name: each for each in htree.EXPERIMENTS}
    for name, key in (("division", "buckets-of-one"), ("levels", "turned-away")):
        claim = next(each for each in experiments[name].judge(tables[name]) if each.key == key)
        assert judged("", (1,), [claim]).verdict == HOLDS


def test_more_levels_leave_fewer_candidates(tables):
    for k in (10, 20):
        share = [row["candidate share"] for row in tables["levels"][f"levels_{k}"]]
        assert share == sorted(share, reverse=True) and share[4] < share[0] / 5


def test_what_is_widened_is_as_popular_as_before_and_lies_in_the_domain():
    rows = htree.BASE.rows(500)
    before, after = (each.reshape(500, -1, 3) for each in (rows, htree.widened(rows)))
    wide = before[:, :, 0] >= htree.WIDE_FROM
    assert (after[:, :, 0] == before[:, :, 0]).all() and (after[~wide] == before[~wide]).all()
    assert 0.4 < wide.mean() < 0.6
    assert np.allclose(after[wide][:, 2] - after[wide][:, 1], htree.WIDE)
    assert after[:, :, 1].min() >= 0 and after[:, :, 2].max() <= 1


def test_popular_attributes_and_narrow_ranges_leave_fewer_candidates(tables):
    share = {row["indexed"]: row["candidate share"] for row in tables["selection"]["selection"]}
    assert share["most popular"] < share["least popular"] and share["narrow"] < share["wide"]


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
