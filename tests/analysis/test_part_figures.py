"""The figures of PART and B-PART: every row and claim is made, at a size that proves nothing about speed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.bench import part as bench
from analysis.papers import part as paper
from analysis.papers.claims import HOLDS, judged
from analysis.papers.experiment import Run
from tests.analysis.wrong_data import broken_by

TINY = bench.Sizes(
    objects=600, subscriptions=120, words=20, k=3, deltas=(1.0, 2.0), queries=5, repeats=1, batch=8,
    batches=2, near=0.1, brute_subscriptions=10, brute_queries=2, turnover=10,
)  # fmt: skip


def test_the_bench_measures_all_it_names():
    rows = {row["name"]: row for row in bench.measure(TINY)}
    for name in ("PART, δ = 1: mean", "PART, δ = 2: 95th percentile", "PART, δ = 2: nodes visited"):
        assert rows[name]["value"] > 0
    assert rows["PART, δ = 1: mean"]["target"] == "at most 50 ms"
    assert rows["PART, δ = 1: precision"]["value"] == 1.0
    assert 0 < rows["PART, δ = 2: precision"]["value"] <= 1.0
    for name in ("PART, δ = 1, beside brute force", "PART, δ = 1, beside materialised"):
        assert rows[name]["baseline"] > 0 and rows[name]["ratio"] > 0
    assert rows["B-PART, near batches of 8"]["target"] == "at least 1.5 times PART"
    assert rows["B-PART, random batches of 8"]["target"] == "at least 1 times PART"


def test_the_turnover_leaves_the_index_as_it_was():
    crowd = bench.Crowd(20, 3)
    index = bench.Materialised(vocabulary=crowd.vocabulary, k_max=3)
    bench.filled(index, crowd.rows(50), crowd.rows(9))
    before = index.kth_squared(3)[1]
    assert bench.lives_per_s(index, crowd.rows(7), 3, 1.0) > 0
    assert len(index.objects) == 50 and np.array_equal(index.kth_squared(3)[1], before)
    index.check()


def test_the_same_seed_draws_the_same_crowd():
    one, two, other = (bench.Crowd(20, 3, seed).rows(30) for seed in (1, 1, 2))
    assert np.array_equal(one.places, two.places) and np.array_equal(one.keywords.words, two.keywords.words)
    assert not np.array_equal(one.places, other.places)


@pytest.fixture
def little(monkeypatch):
    """The experiments, on little."""
    small = paper.Setting(objects=800, subscriptions=150, words=20, queries=6, side=0.5)
    monkeypatch.setattr(paper, "base_of", lambda run: small)
    monkeypatch.setattr(paper, "SMALL", replace(small, queries=3))
    few = {name: values[:2] for name, values in paper.VALUES.items()}
    monkeypatch.setattr(paper, "VALUES", {**few, "queries": (2, 64), "delta": (1.0, 2.0, 4.0)})
    return Run(1, False, lambda line: None)


@pytest.mark.parametrize("experiment", paper.EXPERIMENTS, ids=lambda each: each.name)
def test_each_claim_follows_from_its_table_and_can_fail(experiment, little):
    tables = experiment.measure(little)
    assert set(tables) == set(experiment.titles)
    found = {each.key: judged("", (1,), [each]).verdict for each in experiment.judge(tables)}
    assert found["answers"] == HOLDS and found.get("exact-at-1", HOLDS) == HOLDS
    axes = (*paper.SCALED, *paper.VALUES)
    right = {name: [dict(row) for row in rows] for name, rows in tables.items()}
    for row, said in zip(right.get("small", ()), paper.SMALL_SAID):
        row["part_leaf_objects"] = 1e3 * said
    assert [key for key in found if not broken_by(experiment, tables, key, axes, right)] == []
    assert len(list(experiment.draw(tables))) == 2 * (experiment.name != "small")


def test_a_wrong_answer_is_counted():
    setting = paper.Setting(objects=400, subscriptions=100, words=10, queries=8, side=1.0, delta=2.0)
    right = paper.measure(setting)
    assert (right["lost"], right["beyond"], right["asked"]) == (0, 0, 16)
    indexes = paper.built(400, 100, 10, 5, 16, 32, 10, 1)
    indexes.part.expire_objects(np.arange(0, 200))  # answers more than it may
    assert paper.measure(setting)["beyond"] > 0
    indexes.part.delete_subscriptions(np.arange(0, 50))
    assert paper.measure(setting)["lost"] > 0
    paper.built.cache_clear()
