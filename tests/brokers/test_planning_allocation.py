"""Channels: allocations of clients, their costs, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from brokers.planning import allocation, plain
from brokers.planning.allocation import ChannelCosts
from brokers.planning.answers import answer, extract_all
from brokers.planning.exact import subset_programme
from brokers.planning.model import BadAllocation, BadQuery, Costs, Queries, TooLarge
from brokers.planning.problem import BoxProblem
from brokers.planning.sizes import Count, Database
from brokers.planning.stronger import allocate

COSTS = Costs(365e-5, 3.25e-5, 0.16e-5, share=0.05e-5)


def problem_of(random, clients, side=100, costs=COSTS, **kinds):
    """Clients with one to three queries each, around a few places."""
    owner = np.repeat(np.arange(clients), random.integers(1, 4, clients))
    n = len(owner)
    places = random.uniform(0, side - 40, (max(3, n // 30), 2))
    low = np.clip(places[random.integers(0, len(places), n)] + random.normal(0, 25, (n, 2)), 0, side)
    queries = Queries.of(low, low + random.uniform(20, 40, (n, 2)), clients=owner)
    return BoxProblem(queries, costs, **kinds)


@pytest.mark.parametrize("clients, count, ways", [(5, 2, 16), (6, 2, 32), (6, 3, 122), (7, 3, 365)])
def test_allocations_are_as_many_as_the_stirling_numbers_say(clients, count, ways):
    seen = [tuple(channel) for channel in allocation.allocations(clients, count)]
    assert len(seen) == len(set(seen)) == ways == allocation.leaves(clients, count)
    assert max(max(channel) for channel in seen) == count - 1  # never a channel too many
    labelled = list(map(tuple, allocation.allocations(clients, count, labelled=True)))
    assert len(set(labelled)) == len(labelled) == count**clients == allocation.leaves(clients, count, True)


def test_a_channel_costs_what_section_7_says():
    costs = Costs(10, 9, 4, share=2)
    queries = Queries.of([[0, 1], [0, 0], [1, 0]], [[2, 2], [1, 2], [2, 1]], clients=[7, 7, 9])
    weigh = ChannelCosts(BoxProblem(queries, costs), channels=2, merge=subset_programme)
    # All three merged into the square of 4: K_M + 4 K_T + 7 K_U, and both clients hear 4; theirs are 4 and 1.
    everything = 10 + 9 * 4 + 4 * 7 + 2 * ((4 - 4) + (4 - 1))
    assert weigh((0, 1)) == min(everything, 30 + 45 + 2 * ((5 - 4) + (5 - 1)))
    assert weigh((1,)) == 10 + 9
    assert weigh(()) == 0
    assert weigh.total([(0,), (1,)]) == weigh((0,)) + weigh((1,))


def test_a_clients_own_overlap_makes_its_bracket_negative_unless_clamped():
    queries = Queries.of([[0, 0], [0, 0]], [[2, 2], [2, 2]], clients=[5, 5])
    problem = BoxProblem(queries, Costs(10, 9, 4, share=2))
    assert ChannelCosts(problem, 1)((0,)) == 10 + 9 * 4 + 2 * (4 - 8)
    assert ChannelCosts(problem, 1, clamp=True)((0,)) == 10 + 9 * 4


def test_merging_first_is_not_best_for_channels():
    """Example 7.1: on two channels q2 and q3 are better sent by themselves."""
    low = np.array([[0, 0], [30, 30], [31, 31], [60, 60], [1, 1]], float)
    queries = Queries.of(low, low + 10, clients=[1, 1, 2, 2, 3])
    problem = BoxProblem(queries, Costs(message=20, transmit=1, irrelevant=0.1, share=0.6))
    merged = plain.pair_merging(problem)
    assert [rows.tolist() for rows in merged.sets()] == [[0, 4], [1, 2], [3]]
    best = allocation.exhaustive(ChannelCosts(problem, 2))
    best.check()
    assert best.channel.tolist() == [0, 1, 0]
    assert [rows.tolist() for rows in best.plan.sets()] == [[0, 4], [1], [2], [3]]
    assert best.plan.channel.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("weights", [None, [1.0, 2.5, 1.0]])
def test_the_exhaustive_allocation_is_the_cheapest_and_the_stronger_one_finds_it(weights):
    random = np.random.default_rng(1)
    found = {"merging": 0, "stronger": 0, "k-means": 0}
    for seed in range(8):
        weigh = ChannelCosts(problem_of(random, 5), 3, weights)
        best = allocation.exhaustive(weigh)
        best.check()
        others = {
            "merging": allocation.channel_merging(weigh),
            "stronger": allocate(weigh, seed, throws=10),
            "k-means": allocation.k_means(weigh, seed),
        }
        for name, other in others.items():
            other.check()
            assert other.plan.lower_bound <= best.cost
            # The stronger allocator may polish what pair merging left on a channel.
            assert other.cost >= best.cost - 1e-9 or name == "stronger"
            found[name] += other.cost <= best.cost + 1e-9
    assert found["stronger"] == 8 and found["merging"] >= 3
    assert found["k-means"] < found["stronger"]


def test_the_kernel_and_the_plain_procedure_cost_a_channel_the_same():
    random = np.random.default_rng(2)
    for _ in range(10):
        problem = problem_of(random, 6)
        fast = ChannelCosts(problem, 2)
        slow = ChannelCosts(problem, 2, merge=plain.pair_merging)
        for clients in ((0,), (1, 2), (0, 3, 4, 5)):
            assert fast(clients) == pytest.approx(slow(clients))


@pytest.mark.parametrize("kinds", [{}, {"procedure": "polygon"}], ids=["kernel", "plain"])
def test_channels_that_differ_by_a_client_cost_what_each_of_them_costs(kinds):
    problem = problem_of(np.random.default_rng(10), 6, **kinds)
    weigh, again = ChannelCosts(problem, 2), ChannelCosts(problem, 2)
    for clients in ((), (0,), (1, 4), (0, 1, 2, 3, 4, 5)):
        each = [again(tuple(sorted({*clients} ^ {client}))) for client in range(6)]
        assert weigh.changed(clients).tolist() == each
    pairs = weigh.pairs()
    assert all(pairs[a, b] == again((a, b)) for b in range(6) for a in range(b))


@pytest.mark.parametrize("weights", [None, [1.0, 2.5, 1.0]])
def test_channel_merging_takes_the_steps_of_figure_10(weights):
    random = np.random.default_rng(11)
    for _ in range(6):
        problem = problem_of(random, 9)
        weigh = ChannelCosts(problem, 3, weights)
        channel = allocation.initial(weigh)
        while True:
            held = allocation.clients_on(channel, 3)
            moves = [
                (allocation.saving(weigh, held, {old: ((client,), ()), new: ((), (client,))}), -client, -new)
                for client, old in enumerate(channel) for new in range(3) if new != old
            ]  # fmt: skip
            saved, client, new = max(moves)
            if saved <= 0:
                break
            channel[-client] = -new
        assert allocation.channel_merging(ChannelCosts(problem, 3, weights)).channel.tolist() == channel


@pytest.mark.parametrize("procedure", ["rectangle", "polygon", "exact"])
def test_any_merge_and_procedure_may_fill_the_channels(procedure):
    problem = problem_of(np.random.default_rng(3), 5, procedure=procedure)
    weigh = ChannelCosts(problem, 2, merge=subset_programme if len(problem) < 9 else None)
    found = allocation.channel_merging(weigh)
    found.check()
    assert found.cost == pytest.approx(weigh.total(allocation.clients_on(found.channel.tolist(), 2)))


def test_a_larger_instance_is_allocated_the_same_for_a_seed_and_better_than_by_the_baselines():
    problem = problem_of(np.random.default_rng(4), 40, side=200)
    first, second = (allocate(ChannelCosts(problem, 4), seed=5) for _ in range(2))
    first.check()
    assert np.array_equal(first.channel, second.channel) and first.cost == second.cost
    assert first.cost <= allocation.channel_merging(ChannelCosts(problem, 4)).cost
    assert first.cost <= allocation.k_means(ChannelCosts(problem, 4), seed=5).cost


def test_the_stronger_allocator_is_never_worse_than_those_whose_ends_it_begins_with():
    random = np.random.default_rng(13)
    for seed in range(8):
        problem = problem_of(random, 14, side=160)
        strong = allocate(ChannelCosts(problem, 3), seed, throws=0).cost
        assert strong <= allocation.channel_merging(ChannelCosts(problem, 3)).cost + 1e-9
        assert strong <= allocation.k_means(ChannelCosts(problem, 3), seed).cost + 1e-9


def test_a_client_finds_all_its_answers_on_its_channel():
    random = np.random.default_rng(6)
    database = Database(random.uniform(0, 140, (3000, 2)))
    problem = problem_of(random, 8, size=Count(database))
    found = allocate(ChannelCosts(problem, 3), seed=1, throws=2)
    answers = answer(found.plan, database)
    queries = problem.queries
    for i in range(len(problem)):
        channel = found.channel[queries.clients[i]]
        heard = [sent for sent in answers if sent.message.channel == channel]
        inside = database.inside(queries.low[i : i + 1], queries.high[i : i + 1])
        assert extract_all(heard, i).tolist() == np.sort(database.ids[inside]).tolist()


def test_of_more_channels_than_clients_the_lightest_are_used():
    problem = problem_of(np.random.default_rng(12), 2, costs=Costs(365e-5, 3.25e-5, 0.16e-5, share=1.0))
    found = allocation.allocate_on(problem, 4, allocation.channel_merging, [2.0, 1.0, 3.0, 1.0])
    found.check()
    assert sorted(found.channel.tolist()) == [1, 3] and found.channels == 4
    with pytest.raises(BadAllocation, match="1 weights for 4 channels"):
        allocation.allocate_on(problem, 4, allocation.channel_merging, [2.0])


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_channels_are_at_least_one(count):
    with pytest.raises(BadAllocation, match="number of channels"):
        ChannelCosts(problem_of(np.random.default_rng(7), 3), count)


def test_what_no_channels_can_carry_is_refused():
    problem = problem_of(np.random.default_rng(8), 3)
    with pytest.raises(BadAllocation, match="4 channels for 3 clients"):
        ChannelCosts(problem, 4)
    with pytest.raises(BadAllocation, match="1 weights for 2 channels"):
        ChannelCosts(problem, 2, [1.0])
    with pytest.raises(BadAllocation, match=r"weight -1\.0"):
        ChannelCosts(problem, 2, [1.0, -1.0])
    with pytest.raises(BadQuery, match="has no client"):
        Queries.of([[0]], [[1]], clients=[-1])
    large = problem_of(np.random.default_rng(9), 30)
    with pytest.raises(TooLarge, match=r"3\.43e\+13 allocations of 30 clients to 3"):
        allocation.exhaustive(ChannelCosts(large, 3))
