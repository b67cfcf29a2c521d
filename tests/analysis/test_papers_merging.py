"""The reproduction of the merging paper: its claims follow from its tables, and wrong tables break each of them."""

from __future__ import annotations

import copy
from functools import partial

import numpy as np
import pytest

from analysis.papers import merging as paper
from analysis.papers.claims import FAILS, HOLDS, REPORTED, UNSURE, judged
from tests.analysis.wrong_data import broken_by

TINY = paper.Scale(optimal=12, starts=8, sensitivity=2, large=1, clustering=2, channels=2)
AXES = ("|Q|", "|T|", "factor", "K_U factor", "df", "cf", "clients", "channels", "K_S over K_U")
EXPERIMENTS = {each.name: each for each in paper.EXPERIMENTS}


@pytest.fixture(scope="module")
def tables():
    """Of every experiment, at a small scale."""
    found = {}

    def measured(name):
        if name not in found:
            measure = getattr(paper, MEASURES[name])
            found[name] = measure(TINY, np.random.Generator(np.random.PCG64(1)))
        return found[name]

    return measured


MEASURES = {
    "figure-13": "sensitivity", "figure-14": "starts", "figures-15-17": "optimal", "figures-18-19": "large",
    "figure-20": "clustering_factor", "section-5-3": "example", "section-7": "channels",
}  # fmt: skip


def right(tables):
    """Figures 14 to 16 as they were found elsewhere; Directed Search misses by more from 8 queries on."""
    found = copy.deepcopy(tables)
    for row in found.get("starts", ()):
        row[paper.BEATS] = 20.0
    for row in found.get("optimal", ()):
        pair, away, directed = paper.BANDS[row["|Q|"]]
        row |= {f"{paper.PAIR} optimal %": pair, f"{paper.PAIR}, mean distance %": away,
                f"{paper.BOTH} optimal %": directed,
                f"{paper.BOTH}, mean distance %": max(0.0, row["|Q|"] - 7)}  # fmt: skip
    return found


@pytest.mark.parametrize("name", MEASURES)
def test_each_claim_can_fail(name, tables):
    """Each that is judged is broken by some table that lies."""
    experiment = EXPERIMENTS[name]
    given = copy.deepcopy(tables(name))
    for row in given.get("optimal", ()):  # so few runs miss no optimum
        row[f"{paper.PAIR}, distance where it misses %"] = 10.0 / row["|Q|"]
    broken = partial(broken_by, experiment, given, axes=AXES, right=right(given))
    stands = [each.key for each in experiment.judge(given) if not broken(each.key)]
    # Numbers of partitions are computed and not measured.
    assert stands == (["cases"] if name == "figures-15-17" else [])


@pytest.mark.parametrize("name", MEASURES)
def test_pictures_and_tables_have_what_they_name(name, tables):
    experiment = EXPERIMENTS[name]
    assert set(experiment.titles) == set(tables(name))
    for picture in experiment.draw(tables(name)):
        assert picture.curves and all(len(each.x) == len(each.y) for each in picture.curves)
        assert any(each.x for each in picture.curves)


def test_what_is_exact_holds_at_any_scale(tables):
    found = {
        each.key: judged("", (1,), [each]).verdict
        for name in ("section-5-3", "figures-15-17", "section-7")
        for each in EXPERIMENTS[name].judge(tables(name))
    }
    exact = ("costs", "trap", "found", "cases", "exact-to-7", "never-better", "leaves", "cheaper-only")
    assert {found[key] for key in exact} == {HOLDS}
    assert found["stronger"] == UNSURE  # all of two runs are no 99 %
    assert found["optimal-7-3"] == REPORTED


@pytest.mark.parametrize("n", [5, 12])
def test_nothing_falls_where_no_run_misses_the_optimum(n, tables):
    given = copy.deepcopy(tables("figures-15-17"))
    column = f"{paper.PAIR}, distance where it misses %"
    given["optimal"] = [row | {column: 2.0 if row["|Q|"] < 12 else 1.0} for row in given["optimal"]]
    assert _verdict("misses-fall", given) == HOLDS
    given["optimal"] = [row | {column: None if row["|Q|"] == n else row[column]} for row in given["optimal"]]
    assert _verdict("misses-fall", given) == UNSURE


def _verdict(key, tables):
    claim = next(each for each in paper.judge_optimal(tables) if each.key == key)
    return judged("", (1,), [claim]).verdict


def test_clusters_are_held_against_pair_merging_at_each_number_of_queries(tables):
    """One at which they are cheaper breaks the claim, and is named."""
    wrong = copy.deepcopy(tables("figures-18-19"))
    for row in wrong["large"]:
        row["clusters"] = row[paper.PAIR] * (0.99 if (row["|Q|"], row["K_U factor"]) == (20, 10) else 1.001)
    claim = next(each for each in paper.judge_large(wrong) if each.key == "clusters-close")
    found = judged("", (1,), [claim])
    assert found.verdict == FAILS and found.reason.startswith("not so: 10 K_U, |Q| = 20;")


def test_figures_18_and_19_use_the_small_database_for_few_queries(monkeypatch):
    sides = []
    real = paper.instances
    monkeypatch.setattr(paper, "instances", lambda setting, *rest: sides.append(setting.side) or real(setting, *rest))
    paper.large(TINY, np.random.Generator(np.random.PCG64(1)))
    assert sides == [100.0] * 3 + [400.0] * 15
