"""Re-planning: a mended plan or allocation stays valid and within its bound of a fresh one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from brokers.errors import InvalidInput
from brokers.indexes.contract import DuplicateId, UnknownId
from brokers.planning.allocation import ChannelCosts, allocations, channel_merging, clients_on
from brokers.planning.exact import subset_programme
from brokers.planning.greedy import pair_merging
from brokers.planning.model import BadAllocation, BadQuery, Costs, Queries
from brokers.planning.problem import BoxProblem
from brokers.planning.replan import ChannelReplanner, Replanner
from brokers.planning.sizes import Area

PAPER = Costs(365e-5, 3.25e-5, 0.16e-5)


class Held(RuleBasedStateMachine):
    """What a re-planner holds, in `held`, by query."""

    @rule(id_=st.integers(0, 9))
    def remove(self, id_):
        if id_ not in self.held:
            with pytest.raises(UnknownId):
                self.replanner.remove([id_])
            return
        self.replanner.remove([id_])
        del self.held[id_]


class Change(Held):
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
        assert plan.cost <= (1 + 0.2) * bound(self.worst) * best * (1 + 1e-9)


def bound(worst):
    """How far X may lie from the optimum, after a fresh plan that cost `worst` times its own."""
    return worst / (2 - worst) if worst < 2 else np.inf


TestChange = Change.TestCase
TestChange.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


class Reallocation(Held):
    """Few clients on two channels, so that every allocation can be held against the optimum."""

    def __init__(self):
        super().__init__()
        self.costs, self.weights = Costs(3, 1, 0.5, share=0.25), [1.0, 1.5]
        self.replanner = ChannelReplanner(self.costs, 2, weights=self.weights, drift=0.2)
        self.held = {}
        self.worst = 1.0  # how far from its optimum the last fresh allocation was
        self.fresh = 0

    @precondition(lambda self: len(self.held) < 6)
    @rule(low=st.tuples(*[st.integers(0, 5)] * 2), extent=st.tuples(*[st.integers(1, 3)] * 2), id_=st.integers(0, 7))
    def add(self, low, extent, id_):
        query = Queries.of([low], [[low[0] + extent[0], low[1] + extent[1]]], clients=[id_ // 2], ids=[id_])
        if id_ in self.held:
            with pytest.raises(DuplicateId):
                self.replanner.add(query)
            return
        self.replanner.add(query)
        self.held[id_] = query

    @invariant()
    def it_plans_what_is_held(self):
        self.replanner.check()
        found = self.replanner.allocation()
        assert found.plan.problem.queries.ids.tolist() == sorted(self.held)
        assert found.clients.tolist() == sorted({id_ // 2 for id_ in self.held})
        if self.held:
            # What it costs is what section 7 says of these sets on these channels.
            weigh = ChannelCosts(found.plan.problem, len(found.clients))
            cost = 0.0
            for k, clients in enumerate(clients_on(found.channel.tolist(), 2)):
                if clients:
                    sets = [rows for rows, on in zip(found.plan.sets(), found.plan.channel) if on == k]
                    problem = found.plan.problem
                    own = problem.subset(weigh.rows_of(clients)).relevant_cost
                    sent = sum(problem.estimate(rows).size for rows in sets)
                    cost += self.weights[k] * (problem.total(sets) - own + weigh.sharing(clients, sent))
            assert found.cost == pytest.approx(cost)

    @invariant()
    def it_is_within_its_bound_of_the_optimum(self):
        if not self.held:
            return
        queries = self.replanner.queries()
        clients = np.unique(queries.clients)
        best = np.inf
        for channel in allocations(len(clients), 2, labelled=True):
            cost = 0.0
            for k, weight in enumerate(self.weights):
                rows = np.flatnonzero(np.isin(queries.clients, clients[np.array(channel) == k]))
                costs = self.costs.on_channel(channel.count(k))
                cost += weight * subset_programme(BoxProblem(queries.subset(rows), costs)).absolute_cost
            best = min(best, cost)
        if self.replanner.fresh_plans > self.fresh:
            self.fresh = self.replanner.fresh_plans
            self.worst = self.replanner.absolute_cost / best
        assert self.replanner.absolute_cost <= (1 + 0.2) * bound(self.worst) * best * (1 + 1e-9)


TestReallocation = Reallocation.TestCase
TestReallocation.settings = settings(max_examples=12, stateful_step_count=20, deadline=None)


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


# ---- channels ----------------------------------------------------------------------------------------


SHARED = Costs(365e-5, 3.25e-5, 0.16e-5, share=0.05e-5)


def some_clients(random, clients, first=0):
    """Clients with one to three queries each."""
    owner = np.repeat(np.arange(first, first + clients), random.integers(1, 4, clients))
    low = random.uniform(0, 260, (len(owner), 2))
    high = low + random.uniform(20, 40, low.shape)
    return Queries.of(low, high, clients=owner, ids=owner * 4 + np.arange(len(owner)) % 4)


def test_a_mended_allocation_stays_near_the_fresh_one_with_few_fresh_ones():
    random = np.random.default_rng(5)
    replanner = ChannelReplanner(SHARED, 4, drift=0.3)
    replanner.add(some_clients(random, 30))
    ratios = []
    for turn in range(60):
        gone = int(random.choice(np.unique(replanner.queries().clients)))
        replanner.remove(replanner.queries().ids[replanner.queries().clients == gone])
        replanner.add(some_clients(random, 1, first=100 + turn))
        fresh = channel_merging(ChannelCosts(replanner.allocation().plan.problem, 4))
        ratios.append(replanner.cost / fresh.cost)
    replanner.check()
    assert max(ratios) < 1.1
    assert replanner.fresh_plans < 30  # of 120 changes of one client in thirty


def test_who_is_not_concerned_stays_on_its_channel():
    random = np.random.default_rng(6)
    replanner = ChannelReplanner(SHARED, 4)
    replanner.add(some_clients(random, 30))
    replanner.recompute()
    before, fresh = replanner.allocation(), replanner.fresh_plans
    replanner.add(some_clients(random, 1, first=100))
    after = replanner.allocation()
    assert replanner.fresh_plans == fresh
    assert after.channel[:30].tolist() == before.channel.tolist()


def test_an_allocation_is_made_anew_at_intervals_and_empties():
    replanner = ChannelReplanner(SHARED, 3, drift=1e9, every=1)
    for turn in range(5):
        queries = some_clients(np.random.default_rng(turn), 4, first=10 * turn)
        replanner.add(queries)
        fresh = channel_merging(ChannelCosts(replanner.allocation().plan.problem, 3))
        assert replanner.cost == pytest.approx(fresh.cost)
    replanner.remove(replanner.queries().ids)
    replanner.check()
    assert len(replanner) == 0 and replanner.cost == 0 and replanner.allocation().plan.sets() == []


def test_fewer_clients_than_channels_listen_to_the_lightest():
    replanner = ChannelReplanner(SHARED, 3, weights=[3.0, 1.0, 2.0])
    replanner.add(some_clients(np.random.default_rng(7), 1))
    assert replanner.allocation().channel.tolist() == [1]


def test_a_refusal_leaves_the_allocation_as_it_is():
    replanner = ChannelReplanner(SHARED, 2)
    queries = some_clients(np.random.default_rng(8), 3)
    replanner.add(queries)
    known = int(queries.ids[-1])
    with pytest.raises(DuplicateId, match=f"query {known}"):
        replanner.add(Queries.of([[0, 0], [5, 5]], [[9, 9], [9, 9]], clients=[9, 0], ids=[900, known]))
    with pytest.raises(UnknownId, match="query 901"):
        replanner.remove([known, 901])
    with pytest.raises(BadQuery, match="3 dimensions"):
        replanner.add(Queries.of([[0, 0, 0]], [[1, 1, 1]], ids=[902]))
    replanner.check()
    assert replanner.allocation().plan.problem.queries.ids.tolist() == queries.ids.tolist()
    with pytest.raises(BadAllocation, match="number of channels"):
        ChannelReplanner(SHARED, 0)
    with pytest.raises(BadAllocation, match="1 weights for 2 channels"):
        ChannelReplanner(SHARED, 2, weights=[1.0])
    with pytest.raises(InvalidInput, match="drift"):
        ChannelReplanner(SHARED, 2, drift=float("nan"))
