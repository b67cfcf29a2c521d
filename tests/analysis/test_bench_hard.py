"""The group `hard`: its data are what their names say, its rows are all there. No figure is judged here."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.bench import hard
from analysis.bench.hard_cases import DRIFTS, MATCHING, TOP_K
from analysis.bench.registry import BENCHES
from brokers.indexes.content.contract import checked_rows, verify
from brokers.registry import load

FEW = hard.Sizes(held=600, events=4, unmeasured=2, batch=4, turns=2, drift_events=4, drift_moments=2, drifted=0.2)
HITS = {  # the share of events and subscriptions that match
    "all equal": (1.0, 1.0), "two wide ranges": (0.97, 0.99), "nested": (0.4, 0.6), "no ranges": (1.0, 1.0),
    "200 wide ranges": (0.0, 0.01), "head of a Zipf": (0.35, 0.42), "half wide, half narrow": (0.48, 0.5),
}


def generator():
    return np.random.Generator(np.random.PCG64(1))


@pytest.mark.parametrize("name", MATCHING)
def test_as_many_match_as_the_name_of_a_case_says(name):
    case, rng = MATCHING[name], generator()
    rows = checked_rows(case.rows(rng, 1_500), case.attributes)
    share = np.mean([verify(event, rows).mean() for event in case.events(rng, 100)])
    assert HITS[name][0] <= share <= HITS[name][1]


@pytest.mark.parametrize("name", DRIFTS)
def test_values_move_on_or_attributes_change_and_events_meet_what_is_held(name):
    drift, rng = DRIFTS[name], generator()
    early, late = (drift.rows(rng, np.full(500, born)) for born in (0.0, 2.0))
    if drift.others:
        half = drift.attributes // 2
        assert (early[:, 0::3] < half).all() and (late[:, 0::3] >= half).all()
    moving = early[:, 0] < drift.moving
    assert drift.others or np.median(late[late[:, 0] < drift.moving, 1]) > 2 * np.median(early[moving, 1])
    rows = drift.rows(rng, np.arange(1_000) / 1_000)
    events = drift.events(rng, 1.0, 50)
    assert sum(verify(event, rows).any() for event in events) >= 5


@pytest.mark.parametrize("name", TOP_K)
def test_filters_have_a_weight_for_each_constraint(name):
    rows = TOP_K[name].rows(generator(), 300).reshape(300, -1, 4)
    assert (np.isnan(rows[:, :, 0]) == np.isnan(rows[:, :, 3])).all()
    assert (~np.isnan(rows[:, 0, 3])).all()


def test_pauses_are_judged_where_many_are_held_beside_what_the_machine_does_alone():
    spent = np.column_stack([np.full(2_000, 20.0), np.full(2_000, 10.0)])
    spent[7, 0], spent[9, 1] = 1_500.0, 30.0
    median, late, longest, above = hard.pauses("all", spent, True)
    assert (median["value"], median["ratio"], late["holds"]) == (20.0, 2.0, True)
    assert (longest["value"], longest["baseline"], longest["holds"]) == (1_500.0, 30.0, False)
    assert (above["value"], above["baseline"]) == (500.0, 0.0)


def test_the_rows_of_the_group_name_each_case_and_what_it_is_held_to():
    assert load(BENCHES["hard"].target) is hard.rows
    found = [row for name in ("all equal", "nested") for row in hard.matches(name, MATCHING[name], FEW)]
    found += hard.ranks("k = None", TOP_K["k = None"], FEW)
    found += hard.drifts("prices", DRIFTS["prices"], FEW)
    names = [row["name"] for row in found]
    assert len(set(names)) == len(names) == 2 * 4 + 1 + 2 * 5
    for row in found:
        assert row["value"] > 0 or "above 1 ms" in row["name"]
        assert (row["target"] is None) == ("change" in row["name"])
    assert "at most 1.15 times the scan's" in {row["target"] for row in found}
