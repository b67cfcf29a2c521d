"""The bench of planning and the paper's experiments run, on little, and say what they found."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.bench import merging as bench
from analysis.bench.registry import BENCHES
from analysis.papers import merging as paper
from analysis.papers.merging_queries import Setting, boxes
from analysis.papers.registry import PAPERS
from brokers.planning import greedy, plain
from brokers.registry import load

SMALL = bench.Sizes(
    repeats=1, optimum=((8, 10.0),), branched=(16,), pairs=((50, 1.0), (300, 1.0)), plain_queries=12,
    compared_queries=300, searched=20, starts=3, clients=8, channels=2, instances=range(1), changes=5,
)  # fmt: skip


@pytest.mark.parametrize("part", ["optimum", "pair_merging", "directed_search", "allocation", "replanning"])
def test_a_part_of_the_bench_yields_rows(part):
    rows = list(getattr(bench, part)(SMALL))
    assert rows and all(np.isfinite(row["value"]) and row["value"] >= 0 for row in rows)


def test_the_group_and_the_experiments_are_registered():
    assert load(BENCHES["merging"].target) is bench.rows
    assert load(PAPERS["merging"].target) is paper.EXPERIMENTS


def test_ways_that_disagree_stop_the_bench():
    problem = bench.problem_of(6)
    first, second = plain.partition(problem), plain.partition(bench.problem_of(6, seed=2))
    bench.agree("the same", first, first)
    with pytest.raises(bench.Disagreement, match="one of the two is wrong"):
        bench.agree("different", first, second)


def test_the_generator_keeps_to_the_parameters():
    random = np.random.default_rng(1)
    setting = Setting(100, spread=5.0)
    low, high = boxes(setting, 40, random)
    assert low.shape == (40, 100, 2)
    assert (low >= 0).all() and (high <= 400).all()
    extent = high - low
    assert extent.min() >= 20 and extent.max() <= 40
    # The first 80 are in clusters of 24, 24, 24 and 8: near each other.
    centre = (low + high) / 2
    within = np.abs(centre[:, :24] - centre[:, :24].mean(axis=1, keepdims=True)).mean()
    assert within < 15 < np.abs(centre[:, 80:] - centre[:, 80:].mean(axis=1, keepdims=True)).mean()


def test_the_profit_table_takes_the_gains_that_plain_pair_merging_takes():
    for seed in range(10):
        problem = bench.problem_of(12, seed)
        slow = plain.pair_merging(problem)
        assert paper.table_gains(12, slow.applied) == slow.evaluated
        assert greedy.pair_merging(problem).applied == slow.applied


def test_the_distance_is_zero_where_merging_saves_nothing():
    assert paper.distance(5.0, 5.0, 5.0) == 0
    assert paper.distance(6.0, 5.0, 7.0) == 50
