"""Re-planning: a mended plan stays valid and within its bound of a fresh one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from brokers.errors import InvalidInput
from brokers.indexes.contract import DuplicateId, UnknownId
from brokers.planning.exact import subset_programme
from brokers.planning.greedy import pair_merging
from brokers.planning.model import BadQuery, Costs, Queries
from brokers.planning.replan import Replanner
from brokers.planning.sizes import Area

PAPER = Costs(365e-5, 3.25e-5, 0.16e-5)


class Change(RuleBasedStateMachine):
    """Few queries on an integer grid, so that every plan can be held against the optimum."""

    def __init__(self):
        super().__init__()
        self.replanner = Replanner(Costs(3, 1, 0.5), drift=0.2)
        self.held = {}
        self.worst = 1.0  # how far from its optimum the last fresh plan was
        self.fresh = 0

    @precondition(lambda self: len(self.held) < 7)
    @rule(low=st.tuples(*[st.integers(0, 5)] * 2), extent=st.tuples(*[st.integers(1, 3)] * 2), id_=st.integers(0, 9))
    def add(self, low, extent, id_):
        high = [low[0] + extent[0], low[1] + extent[1]]
        if id_ in self.held:
            with pytest.raises(DuplicateId):
                self.replanner.add(Queries.of([low], [high], ids=[id_]))
            return
        self.replanner.add(Queries.of([low], [high], ids=[id_]))
        self.held[id_] = (low, high)

    @rule(id_=st.integers(0, 9))
    def remove(self, id_):
        if id_ not in self.held:
            with pytest.raises(UnknownId):
                self.replanner.remove([id_])
            return
        self.replanner.remove([id_])
        del self.held[id_]

    @invariant()
    def it_plans_what_is_held(self):
        self.replanner.check()
        plan = self.replanner.plan()
        plan.check()
        queries = plan.problem.queries
        assert queries.ids.tolist() == sorted(self.held)
        for i, id_ in enumerate(queries.ids.tolist()):
            assert queries.low[i].tolist() == list(self.held[id_][0])

    @invariant()
    def it_is_within_its_bound_of_the_optimum(self):
        if not self.held:
            return
        plan = self.replanner.plan()
        best = subset_programme(plan.problem).cost
        if self.replanner.fresh_plans > self.fresh:
            self.fresh = self.replanner.fresh_plans
            self.worst = plan.cost / best
        assert plan.cost <= (1 + 0.2) * self.worst * best * (1 + 1e-9)


TestChange = Change.TestCase
TestChange.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


def churn(replanner, random, steps, held_min=10):
    """Random arrivals and departures; yields after each."""
    held, following = [], 0
    for _ in range(steps):
        if len(held) < held_min or random.random() < 0.55:
            count = int(random.integers(1, 4))
            ids = np.arange(following, following + count)
            following += count
            low = random.uniform(0, 380, (count, 2))
            replanner.add(Queries.of(low, low + random.uniform(20, 40, (count, 2)), ids=ids))
            held += ids.tolist()
        else:
            replanner.remove([held.pop(random.integers(len(held)))])
        yield held


def test_a_mended_plan_stays_near_the_fresh_one_with_few_fresh_plans():
    replanner = Replanner(PAPER)
    ratios = []
    for _ in churn(replanner, np.random.default_rng(1), 300):
        plan = replanner.plan()
        ratios.append(plan.cost / pair_merging(plan.problem).cost)
    replanner.check()
    assert max(ratios) < 1.1
    assert replanner.fresh_plans < 100


def test_the_same_changes_give_the_same_plan():
    one, other = Replanner(PAPER), Replanner(PAPER)
    for replanner in (one, other):
        for _ in churn(replanner, np.random.default_rng(2), 60):
            pass
    assert np.array_equal(one.plan().group, other.plan().group)


def test_it_plans_anew_at_intervals():
    replanner = Replanner(PAPER, drift=1e9, every=5)
    for _ in churn(replanner, np.random.default_rng(3), 40):
        pass
    assert replanner.fresh_plans >= 8
    plan = Replanner(PAPER, drift=1e9, every=1)
    for _ in churn(plan, np.random.default_rng(4), 30):
        assert plan.cost == pytest.approx(pair_merging(plan.plan().problem).cost)


def test_queries_that_all_leave_leave_nothing():
    replanner = Replanner(PAPER, Area(2.0))
    replanner.add(Queries.of([[0, 0], [1, 1]], [[20, 20], [21, 21]], ids=[4, 5]))
    assert replanner.plan().sets()[0].tolist() == [0, 1]
    replanner.remove([5, 4])
    replanner.check()
    assert len(replanner) == 0 and replanner.cost == 0 and replanner.plan().sets() == []


def test_a_refusal_changes_nothing():
    replanner = Replanner(PAPER)
    replanner.add(Queries.of([[0, 0]], [[20, 20]], ids=[4]))
    with pytest.raises(DuplicateId, match="query 4"):
        replanner.add(Queries.of([[0, 0], [5, 5]], [[9, 9], [9, 9]], ids=[7, 4]))
    with pytest.raises(UnknownId, match="query 8"):
        replanner.remove([4, 8])
    with pytest.raises(BadQuery, match="3 dimensions"):
        replanner.add(Queries.of([[0, 0, 0]], [[1, 1, 1]], ids=[9]))
    replanner.check()
    assert replanner.plan().problem.queries.ids.tolist() == [4]
    with pytest.raises(InvalidInput, match="drift"):
        Replanner(PAPER, drift=-1)
    with pytest.raises(InvalidInput, match="every"):
        Replanner(PAPER, every=0)
