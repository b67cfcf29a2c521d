"""Boxes in ranks give the counts, and the plans, that boxes as they are give: to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.planning import greedy, ranked
from brokers.planning.allocation import ChannelCosts
from brokers.planning.model import Costs, Queries
from brokers.planning.problem import BoxProblem, constants
from brokers.planning.sizes import RANKED, Area, Count, Database, Histogram, box_size, hull_size

COSTS = Costs(5.0, 1.0, 0.25, share=0.1)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 2), st.integers(2, 12), st.integers(1, 60), st.randoms(use_true_random=False))
def test_hulls_hold_as_many_objects_by_rank(d, n, objects, random):
    # Whole numbers, so that objects lie on the edges of boxes, and on each other.
    points = np.array([[random.randint(0, 9) for _ in range(d)] for _ in range(objects)], np.float64)
    low = np.array([[random.randint(-2, 9) for _ in range(d)] for _ in range(n)], np.float64)
    high = low + np.array([[random.randint(1, 5) for _ in range(d)] for _ in range(n)])
    count = Count(Database(points))
    table, lows, highs = ranked.ranked(count, low, high)
    if n * (n - 1) // 2 * ranked.WORK_PER_PAIR >= objects + (2 * n) ** d:
        assert table.kind == RANKED
    for a in range(n):
        assert box_size(table, lows[a], highs[a]) == box_size(count.table, low[a], high[a])
        for b in range(n):
            assert hull_size(table, lows, highs, a, b) == hull_size(count.table, low, high, a, b)


@pytest.mark.parametrize("d", [1, 2])
def test_pair_merging_plans_by_rank_as_it_does_by_counting(d):
    random = np.random.default_rng(5)
    for n in (3, 20, 60):
        problem = crowded(random, n, d)
        queries = problem.queries
        counted = greedy.merge_pairs(problem.size.table, queries.low, queries.high, constants(problem.costs), 0)
        group, evaluated, applied = greedy.merge_boxes(problem)
        assert ranked.ranked(problem.size, queries.low, queries.high)[0].kind == RANKED
        assert np.array_equal(group, counted[0]) and (evaluated, applied) == counted[1:3]


def test_channels_cost_by_rank_what_they_cost_by_counting(monkeypatch):
    problem = crowded(np.random.default_rng(6), 30, 2)
    fast = ChannelCosts(problem, 3)
    monkeypatch.setattr(ranked, "PLACES_MAX", 0)
    slow = ChannelCosts(problem, 3)
    assert (fast.boxes.table.kind, slow.boxes.table.kind) == (RANKED, problem.size.table.kind)
    assert np.array_equal(fast.pairs(), slow.pairs()) and fast((0, 4, 6)) == slow((0, 4, 6))


def test_what_does_not_pay_is_counted_as_ever():
    random = np.random.default_rng(7)
    problem = crowded(random, 20, 2)
    low, high = problem.queries.low, problem.queries.high
    points = random.uniform(0, 50, (40, 2))
    many = Count(Database(random.uniform(0, 50, (10_000, 2))))
    deep = Count(Database(random.uniform(0, 50, (40, 3))))
    for size in (Area(), Histogram(points), many):
        assert ranked.ranked(size, low, high)[0].kind != RANKED
    box = np.ones((20, 3))
    assert ranked.ranked(deep, box, box + 1)[0].kind != RANKED


def crowded(random, n, d):
    low = random.integers(0, 40, (n, d)).astype(np.float64)
    queries = Queries.of(low, low + random.integers(1, 9, (n, d)), clients=np.arange(n) % 7)
    return BoxProblem(queries, COSTS, Count(Database(random.integers(0, 50, (50, d)))))
