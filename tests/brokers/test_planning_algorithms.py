"""The algorithms of planning against each other: plain ones, kernels, exact ones, clusters, bounds."""

from __future__ import annotations

import doctest
import itertools

import numpy as np
import pytest

from brokers.errors import InvalidInput
from brokers.planning import clusters, exact, greedy, plain, planner, search
from brokers.planning.bounds import lower_bound, prices
from brokers.planning.exact import branch_and_bound, subset_programme
from brokers.planning.geometry import decompose, disjoint, maximal, union_volume
from brokers.planning.model import Costs, Queries, TooLarge
from brokers.planning.plan import Plan, by_first_row
from brokers.planning.problem import BoxProblem, TabledProblem, constants
from brokers.planning.sizes import Count, Database, Histogram

from . import planning_cases as cases

SIZES = [None, "count", "histogram"]


def some_problems(seed, count, n_max, **kinds):
    """Random problems, half on an integer grid and half like the source's."""
    random = np.random.default_rng(seed)
    for i in range(count):
        n = int(random.integers(2, n_max + 1))
        if i % 2:
            yield cases.like_the_paper(random, n)
        else:
            yield cases.on_a_grid(random, n, int(random.integers(1, 4)), size=SIZES[i // 2 % 3], **kinds)


def test_the_examples_run():
    assert doctest.testmod(planner).failed == 0


# ---- geometry and sizes ------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3])
def test_unions_and_cuts_agree_with_counting_unit_cells(d):
    random = np.random.default_rng(d)
    cells = np.stack(np.meshgrid(*[np.arange(9)] * d, indexing="ij"), axis=-1).reshape(-1, d) + 0.5
    for _ in range(150):
        low = random.integers(0, 6, (random.integers(1, 7), d)).astype(float)
        high = low + random.integers(1, 4, low.shape)
        inside = ((cells[:, None] > low) & (cells[:, None] < high)).all(axis=2)
        assert union_volume(low, high) == inside.any(axis=1).sum()
        bottom, top = disjoint(low, high)
        again = ((cells[:, None] > bottom) & (cells[:, None] < top)).all(axis=2)
        assert (again.sum(axis=1) == inside.any(axis=1)).all()
        pieces = decompose(low, high)
        part = ((cells[:, None] > pieces.low) & (cells[:, None] < pieces.high)).all(axis=2)
        assert (part.sum(axis=1) == inside.any(axis=1)).all()
        label = np.where(part.any(axis=1), pieces.label[part.argmax(axis=1)], -1)
        # One label is one set of boxes.
        assert len(np.unique(label)) == len(np.unique(np.column_stack([inside, label]), axis=0))
        small_low, small_high = maximal(low, high)
        assert union_volume(small_low, small_high) == union_volume(low, high)


def test_seventy_boxes_have_their_own_labels():
    low = np.arange(70.0)[:, None]
    assert len(np.unique(decompose(low, low + 0.5).label)) == 70
    nested = decompose(low, np.full_like(low, 100))
    assert len(nested.low) == len(np.unique(nested.label)) == 70


def test_counts_and_unions_agree_with_looking_at_every_object():
    random = np.random.default_rng(5)
    for d, objects in ((1, 40), (2, 500), (3, 300)):
        points = random.integers(0, 12, (objects, d))
        count = Count(Database(points))
        low = random.integers(-2, 12, (200, d)).astype(float)
        high = low + random.integers(1, 8, low.shape)
        inside = ((points[:, None] >= low) & (points[:, None] <= high)).all(axis=2)
        assert (count.of_boxes(low, high) == inside.sum(axis=0)).all()
        assert count.of_union(low[:4], high[:4]) == inside[:, :4].any(axis=1).sum()


def test_a_histogram_spreads_objects_evenly_inside_a_bin():
    points = np.array([[0.0, 0.0], [4.0, 4.0], [1.0, 1.0], [3.0, 1.0]])
    histogram = Histogram(points, bins=2)
    low, high = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), np.array([[2.0, 2.0], [1.0, 2.0], [9.0, 9.0]])
    assert histogram.of_boxes(low, high).tolist() == [2.0, 1.0, 4.0]
    assert histogram.of_union(low, high) == 4.0


def test_a_histogram_of_many_boxes_is_clipped_to_the_same_size():
    random = np.random.default_rng(6)
    histogram = Histogram(random.uniform(0, 10, (500, 2)), bins=5)
    low = random.uniform(0, 8, (100, 2))
    high = low + random.uniform(0.1, 2, low.shape)
    bottom, top = disjoint(low, high)
    assert histogram.of_union(low, high) == pytest.approx(histogram.of_boxes(bottom, top).sum())


# ---- exact algorithms --------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2000, pytest.param(10_000, marks=pytest.mark.full)])
def test_partition_programme_and_branch_and_bound_find_the_same_cost(count, monkeypatch):
    monkeypatch.setattr(exact, "PROGRAMME_FIRST", 1)  # so that the search is asked
    searched = 0
    for problem in some_problems(11, count, 8):
        best = plain.partition(problem)
        programme = subset_programme(problem)
        bounded = branch_and_bound(problem)
        best.check(), programme.check(), bounded.check()
        close = pytest.approx(best.cost, rel=1e-9, abs=1e-9)
        assert programme.cost == close and bounded.cost == close
        if problem.queries.dimensions <= 2:
            assert bounded.lower_bound == close
            searched += bounded.evaluated > 1
    assert searched > count / 10


@pytest.mark.parametrize("procedure", ["polygon", "exact"])
def test_the_programme_takes_any_merge_procedure(procedure):
    random = np.random.default_rng(12)
    for _ in range(15):
        problem = cases.on_a_grid(random, 5, procedure=procedure)
        best = plain.partition(problem)
        assert subset_programme(problem).cost == pytest.approx(best.cost)
        assert branch_and_bound(problem).cost == pytest.approx(best.cost)
        assert plain.pair_merging(problem).cost >= best.cost - 1e-9


@pytest.mark.parametrize("procedure", ["rectangle", "polygon"])
def test_no_cover_is_cheaper_than_the_best_partition(procedure):
    random = np.random.default_rng(13)
    for n in [3] * 60 + [4] * 2:
        problem = cases.on_a_grid(random, n, procedure=procedure)
        cover, cost, seen = plain.exhaustive(problem)
        assert seen == {3: 109, 4: 32297}[n]
        assert {row for chosen in cover for row in chosen} == set(range(n))
        assert cost - problem.relevant_cost == pytest.approx(plain.partition(problem).cost)


def test_for_the_exact_decomposition_too_no_cover_was_cheaper():
    random = np.random.default_rng(14)
    for _ in range(60):
        problem = cases.on_a_grid(random, 3, procedure="exact")
        cost = plain.exhaustive(problem)[1]
        assert cost - problem.relevant_cost == pytest.approx(plain.partition(problem).cost)


@pytest.mark.parametrize("procedure", ["rectangle", "polygon"])
def test_merging_more_queries_never_sends_less(procedure):
    random = np.random.default_rng(15)
    for i in range(40):
        problem = cases.on_a_grid(random, 5, procedure=procedure, size=SIZES[i % 3])
        size = {
            members: problem.estimate(list(members)).size
            for k in range(1, 6)
            for members in itertools.combinations(range(5), k)
        }
        for members in size:
            for row in members:
                rest = tuple(other for other in members if other != row)
                assert not rest or size[rest] <= size[members] + 1e-9


def test_the_best_partition_solves_set_cover():
    """Appendix I: K_T = 1, and a set has size 1 where some given set covers it, else infinity."""
    random = np.random.default_rng(16)
    for _ in range(20):
        n = int(random.integers(3, 6))
        given = [frozenset(np.flatnonzero(random.random(n) < 0.5).tolist()) for _ in range(5)]
        given.append(frozenset(set(range(n)) - set().union(*given)) or frozenset({0}))
        least = next(
            k for k in range(1, 7)
            if any(len(frozenset().union(*chosen)) == n for chosen in itertools.combinations(given, k))
        )  # fmt: skip

        def covered(members, given=given):
            return 1.0 if any(members <= one for one in given) else np.inf

        def listed(members, given=given):
            return 1.0 if members in given else np.inf

        problem = TabledProblem(n, covered, Costs(0, 1, 0))
        assert plain.partition(problem).cost == subset_programme(problem).cost == least
        if n <= 4:
            # The print's own sizes, exactly the given sets, need covers, not partitions.
            assert plain.exhaustive(TabledProblem(n, listed, Costs(0, 1, 0)))[1] == least


def test_branch_and_bound_says_how_far_it_got():
    problem = cases.like_the_paper(np.random.default_rng(21), 24)
    whole, cut = branch_and_bound(problem), branch_and_bound(problem, nodes_max=3)
    assert whole.lower_bound == pytest.approx(whole.cost)
    assert cut.lower_bound <= whole.cost <= cut.cost + 1e-12
    assert cut.lower_bound > 0.8 * cut.cost


def test_prices_are_feasible_for_every_set():
    for problem in some_problems(17, 60, 7):
        if problem.queries.dimensions > 2:
            continue
        found = prices(problem)
        costs = problem.subset_costs()
        bits = np.arange(len(costs))[:, None] >> np.arange(len(problem)) & 1
        assert (bits @ found <= costs * (1 + 1e-9) + 1e-9).all()
        assert lower_bound(problem) <= plain.partition(problem).cost * (1 + 1e-9) + 1e-9


# ---- kernels against plain algorithms --------------------------------------------------------------------


@pytest.mark.parametrize("count, n_max", [(150, 9), (16, 30), pytest.param(400, 24, marks=pytest.mark.full)])
def test_pair_merging_by_kernel_is_the_plain_one_to_the_bit(count, n_max):
    for problem in some_problems(18, count, n_max):
        slow, fast = plain.pair_merging(problem), greedy.pair_merging(problem)
        assert np.array_equal(slow.group, fast.group)
        assert slow.cost == fast.cost and slow.applied == fast.applied


def test_candidates_within_reach_are_all_that_can_gain(monkeypatch):
    monkeypatch.setattr(greedy, "GRID_QUERIES_MIN", 1)
    for problem in some_problems(19, 120, 25):
        fast = greedy.pair_merging(problem)
        monkeypatch.setattr(greedy, "GRID_QUERIES_MIN", 10**9)
        assert np.array_equal(fast.group, greedy.pair_merging(problem).group)
        monkeypatch.setattr(greedy, "GRID_QUERIES_MIN", 1)


@pytest.mark.parametrize("spread", [1.0, 6.0])
def test_a_thousand_queries_on_the_grid_merge_as_all_pairs_do(spread):
    random = np.random.default_rng(20)
    low = random.uniform(0, 400 * spread, (1000, 2))
    queries = Queries.of(low, low + random.uniform(20, 40, low.shape))
    problem = BoxProblem(queries, Costs(365e-5, 3.25e-5, 0.16e-5))
    fast, tried, merges = greedy.merge_boxes(problem)
    everything = greedy.merge_pairs(
        problem.size.table, queries.low, queries.high, constants(problem.costs), 0
    )
    assert np.array_equal(by_first_row(fast), by_first_row(everything[0]))
    assert merges > 50 and tried < everything[1] / 5


@pytest.mark.parametrize("moves", [False, True])
def test_directed_search_by_kernel_is_the_plain_one_to_the_bit(moves):
    for i, problem in enumerate(some_problems(21, 60, 9)):
        starts = plain.random_starts(len(problem), 4, seed=i)
        slow = plain.directed_search(problem, starts, moves)
        fast = search.directed_search(problem, starts, moves)
        assert np.array_equal(slow.group, fast.group) and slow.applied == fast.applied


def test_directed_search_from_pair_merging_is_never_worse_than_it():
    for i, problem in enumerate(some_problems(22, 60, 20)):
        assert planner.directed_search(problem, seed=i, starts=2).cost <= greedy.pair_merging(problem).cost + 1e-12


# ---- clusters ------------------------------------------------------------------------------------------


def test_no_optimum_joins_what_the_exact_tests_keep_apart():
    random = np.random.default_rng(23)
    said = np.zeros(3)
    for i in range(160):
        problem = cases.like_the_paper(random, 6, costs=Costs(365e-5, 3.25e-5, 0.16e-5 * (1, 10, 30, 100)[i % 4]))
        best = subset_programme(problem)
        together = best.group[:, None] == best.group[None]
        known = greedy.pair_merging(problem).cost
        tests = [clusters.heuristic_apart(problem), clusters.appendix_apart(problem),
                 clusters.sharper_apart(problem, known)]  # fmt: skip
        for test in tests:
            assert (test == test.T).all() and not (test & together).any()
        said += [test.sum() for test in tests]
        assert not (tests[1] & ~tests[2]).any() or i % 4 < 3
        found = clusters.heuristic_clusters(problem)
        assert np.array_equal(found, clusters.clusters_of(tests[0]))
    assert (said > 0).all() and said[2] > said[1]


def test_planning_in_clusters_is_planning_them_apart():
    random = np.random.default_rng(24)
    low = np.concatenate([random.uniform(0, 60, (8, 2)), random.uniform(5000, 5060, (7, 2)), [[9e5, 9e5]]])
    problem = BoxProblem(Queries.of(low, low + 30), Costs(365e-5, 3.25e-5, 0.16e-5))
    cluster = clusters.heuristic_clusters(problem)
    assert cluster.tolist() == [0] * 8 + [1] * 7 + [2]
    plan = clusters.clustered(problem, cluster, subset_programme)
    plan.check()
    assert plan.cost == pytest.approx(subset_programme(problem).cost)
    assert branch_and_bound(problem).lower_bound == pytest.approx(plan.cost)


# ---- by name ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(planner.ALGORITHMS))
def test_every_algorithm_gives_the_same_plan_for_a_seed_and_bounds_it(name):
    for i, problem in enumerate(some_problems(25, 8, 9)):
        first, second = planner.plan(problem, name, seed=i), planner.plan(problem, name, seed=i)
        first.check()
        assert np.array_equal(first.group, second.group)
        assert first.evaluated == second.evaluated
        best = plain.partition(problem).cost
        assert first.lower_bound <= best * (1 + 1e-9) + 1e-9 and first.cost >= best - 1e-9


@pytest.mark.parametrize("name", ["pair-merging", "directed-search", "local-search", "clustering"])
@pytest.mark.parametrize("procedure", ["polygon", "exact"])
def test_heuristics_take_any_merge_procedure(name, procedure):
    problem = cases.on_a_grid(np.random.default_rng(26), 5, procedure=procedure)
    assert planner.plan(problem, name).cost >= plain.partition(problem).cost - 1e-9


def test_no_queries_are_planned_too():
    none = BoxProblem(Queries.of(np.empty((0, 2)), np.empty((0, 2))), Costs(1, 1, 1))
    for name in ("separate", "identical", "subset-programme", "branch-and-bound", "pair-merging", "clustering"):
        assert planner.plan(none, name).sets() == []


def test_only_equal_queries_are_identical():
    queries = Queries.of([[0, 0], [0, 0], [0, 1]], [[2, 2], [2, 2], [2, 2]])
    plan = planner.plan(BoxProblem(queries, Costs(1, 1, 1)), "identical")
    assert plan.group.tolist() == [0, 0, 1] and plan.applied == 1


def test_a_polygon_has_the_outline_and_the_area_of_the_union():
    shapely = pytest.importorskip("shapely")
    random = np.random.default_rng(27)
    for _ in range(30):
        problem = cases.on_a_grid(random, 5, procedure="polygon")
        queries = problem.queries
        outline = problem.procedure.outline(queries.low, queries.high)
        assert outline.area == problem.estimate(range(5)).size
        assert all(outline.covers(shapely.box(*low, *high)) for low, high in zip(queries.low, queries.high))


def test_a_capped_polygon_has_few_boxes_and_holds_all_queries():
    from brokers.planning.procedures import Polygon

    random = np.random.default_rng(28)
    for _ in range(30):
        low = random.integers(0, 12, (7, 2)).astype(float)
        high = low + random.integers(1, 4, low.shape)
        (piece,) = Polygon(boxes_max=2).pieces(low, high)
        assert len(piece.low) <= 2
        both = np.concatenate([piece.low, low]), np.concatenate([piece.high, high])
        assert union_volume(*both) == union_volume(piece.low, piece.high)


def test_unknown_names_and_too_many_queries_are_refused():
    random = np.random.default_rng(29)
    with pytest.raises(InvalidInput, match="did you mean 'pair-merging'"):
        planner.plan(cases.like_the_paper(random, 3), "pair-merge")
    with pytest.raises(InvalidInput, match="no merge procedure"):
        BoxProblem(cases.like_the_paper(random, 3).queries, Costs(1, 1, 1), procedure="circle")
    many = cases.like_the_paper(random, 40)
    with pytest.raises(TooLarge, match=r"2\.03e\+18 pairs of sets of 40 queries in 1\.32e\+04 GB"):
        subset_programme(many)
    large = cases.like_the_paper(random, 9000, side=4000)
    with pytest.raises(TooLarge, match="9000"):
        search.directed_search(large, np.zeros((1, 9000), np.int64))
    with pytest.raises(TooLarge, match="40,495,500 pairs"):
        clusters.heuristic_apart(large)


def test_a_plan_counts_its_cost_once_whatever_the_numbering():
    problem = cases.like_the_paper(np.random.default_rng(30), 4)
    one, other = Plan.of(problem, [7, 3, 7, 1], 0, 0, 0, ""), Plan.of(problem, [0, 1, 0, 2], 0, 0, 0, "")
    assert np.array_equal(one.group, other.group) and one.cost == other.cost
