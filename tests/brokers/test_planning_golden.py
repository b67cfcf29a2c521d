"""Query merging: the worked examples of the source, and what is refused."""

from __future__ import annotations

import doctest
import math

import numpy as np
import pytest

import brokers.planning
from brokers.errors import InvalidInput
from brokers.indexes.contract import DuplicateId
from brokers.planning import plain
from brokers.planning.answers import answer, extract, extract_all
from brokers.planning.model import BadCosts, BadQuery, Costs, Queries, TooLarge
from brokers.planning.plan import Plan, merged_queries
from brokers.planning.problem import BoxProblem, TabledProblem
from brokers.planning.sizes import Area, Count, Database, Histogram

THREE = Queries.of([[0, 1], [0, 0], [1, 0]], [[2, 2], [1, 2], [2, 1]])
THREE_COSTS = Costs(message=10, transmit=9, irrelevant=4)
PARTITIONS_OF_3 = [[0, 1, 2], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 0, 0]]


def plan_of(problem, group):
    return Plan.of(problem, group, 0.0, 0, 0, "by hand")


def test_the_package_example_runs():
    assert doctest.testmod(brokers.planning).failed == 0


# ---- section 5: two and three queries ----------------------------------------------------------------


def test_three_queries_are_best_merged_though_no_pair_is():
    problem = BoxProblem(THREE, THREE_COSTS)
    assert [plan_of(problem, group).cost for group in PARTITIONS_OF_3] == [75, 81, 94, 94, 74]
    assert plain.pair_merging(problem).cost == 75
    assert plain.partition(problem).cost == 74
    apart_and_together = plain.random_starts(3, 2, seed=0)
    assert plain.directed_search(problem, apart_and_together).cost == 74


def test_the_conditions_of_the_three_query_example_hold_for_random_constants():
    random = np.random.default_rng(3)
    seen = set()
    for _ in range(2000):
        k_m, k_t, k_u, s = random.uniform(0.01, 10, 4)
        problem = BoxProblem(THREE, Costs(k_m, k_t, k_u), Area(s))
        apart, *pairs, together = [plan_of(problem, group).cost for group in PARTITIONS_OF_3]
        said = s > k_m / (4 * k_u) and s > k_m / (5 * k_u + k_t)
        said = said and (7 * k_u <= k_t or s < 2 * k_m / (7 * k_u - k_t))
        assert said == (min(pairs) > apart > together)
        seen.add(said)
    assert seen == {True, False}


def test_two_queries_merge_iff_the_rule_says_so():
    random = np.random.default_rng(4)
    merged = 0
    for _ in range(500):
        low = random.integers(0, 3, (2, 2))
        queries = Queries.of(low, low + random.integers(1, 5, (2, 2)))
        k_m, k_t, k_u = random.uniform(0.01, 10, 3)
        problem = BoxProblem(queries, Costs(k_m, k_t, k_u))
        s1, s2 = problem.sizes
        s3 = problem.estimate([0, 1]).size
        rule = k_m + k_t * (s1 + s2 - s3) + k_u * (s1 + s2 - 2 * s3) > 0
        assert (len(plain.pair_merging(problem).sets()) == 1) == rule
        merged += rule
    assert 50 < merged < 450


def test_the_absolute_cost_adds_the_sifting_of_relevant_objects():
    plan = plan_of(BoxProblem(THREE, THREE_COSTS), [0, 0, 0])
    assert plan.absolute_cost == 74 + 4 * (2 + 2 + 1)


def test_retrieval_counts_queries_and_objects():
    costs = Costs(0, 0, 0, retrieve=2, work_per_query=3, work_per_object=0.5)
    assert plan_of(BoxProblem(THREE, costs), [0, 1, 2]).cost == 2 * (3 * 3 + 0.5 * 5)


# ---- Appendix II: exhaustive algorithms ---------------------------------------------------------------


def test_the_costs_of_figure_22_make_one_set_the_optimum():
    costs = {"13 2": 20, "1 23": 30, "1 2 3": 60, "123": 10, "12 3": 40}
    # With K_M = 0 the cost of a partition is the sum of the sizes of its sets.
    size = {
        frozenset({0}): 20, frozenset({1}): 20, frozenset({2}): 20,
        frozenset({0, 2}): 0, frozenset({1, 2}): 10, frozenset({0, 1}): 20, frozenset({0, 1, 2}): 10,
    }  # fmt: skip
    problem = TabledProblem(3, size.__getitem__, Costs(0, 1, 0))
    found = {}
    for group in plain.partitions(3):
        plan = plan_of(problem, group)
        found[" ".join("".join(str(row + 1) for row in rows) for rows in plan.sets())] = plan.cost
    assert found == costs
    assert plain.partition(problem).sets()[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("n, count", [(0, 1), (1, 1), (2, 2), (3, 5), (4, 15), (5, 52), (6, 203), (7, 877),
                                      (8, 4140), (9, 21147)])  # fmt: skip
def test_partitions_are_bell_many_and_distinct(n, count):
    assert plain.bell(n) == count
    seen = [tuple(group) for group in plain.partitions(n)]
    assert len(seen) == len(set(seen)) == count


def test_bell_numbers_reach_the_twelfth():
    assert plain.bell(12) == 4_213_597


# ---- section 3: headers, extractors, merge procedures -------------------------------------------------


def test_a_header_names_per_client_what_it_extracts_for_which_query():
    x, y, z = 10, 11, 12
    queries = Queries.of([[0], [50], [1]], [[9], [60], [8]], clients=[1, 1, 2], ids=[x, y, z])
    first, second = merged_queries(plan_of(BoxProblem(queries, THREE_COSTS), [0, 1, 0]))
    assert [(line.client, line.query) for line in first.header] == [(1, x), (2, z)]
    assert [(line.client, line.query) for line in second.header] == [(1, y)]
    assert first.clients == [1, 2]


def test_a_range_is_extracted_from_the_merged_range():
    database = Database(np.arange(60.0)[:, None], ids=np.arange(100, 160))
    queries = Queries.of([[2], [3]], [[40], [41]])
    (sent,) = answer(plan_of(BoxProblem(queries, THREE_COSTS), [0, 0]), database)
    assert sent.objects.tolist() == list(range(102, 142))
    assert extract(sent, 0).tolist() == list(range(102, 141))
    assert extract(sent, 1).tolist() == list(range(103, 142))


def test_two_rectangles_that_overlap_at_a_corner_decompose_into_five():
    queries = Queries.of([[0, 0], [1, 1]], [[2, 2], [3, 3]])
    assert BoxProblem(queries, THREE_COSTS, procedure="exact").estimate([0, 1]) == (7, 5, 8)
    assert BoxProblem(queries, THREE_COSTS, procedure="polygon").estimate([0, 1]) == (7, 1, 14)
    assert BoxProblem(queries, THREE_COSTS, procedure="rectangle").estimate([0, 1]) == (9, 1, 18)


@pytest.mark.parametrize("procedure", ["rectangle", "polygon", "exact"])
@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_every_client_extracts_exactly_its_queries(procedure, tagged, d):
    random = np.random.default_rng(d)
    for _ in range(25):
        points = random.integers(0, 10, (80, d))
        ids = random.permutation(1000)[:80]
        database = Database(points, ids)
        low = random.integers(0, 8, (6, d))
        queries = Queries.of(low, low + random.integers(1, 5, (6, d)), clients=random.integers(0, 3, 6))
        plan = plan_of(BoxProblem(queries, THREE_COSTS, procedure=procedure), random.integers(0, 3, 6))
        answers = answer(plan, database, tagged)
        for i in range(6):
            inside = ((points >= queries.low[i]) & (points <= queries.high[i])).all(axis=1)
            assert extract_all(answers, i).tolist() == sorted(ids[inside].tolist())
        if procedure == "exact":
            assert not any(sent.irrelevant_to(c) for sent in answers for c in sent.message.clients)


@pytest.mark.parametrize("procedure", ["rectangle", "polygon", "exact"])
def test_with_counted_sizes_the_cost_model_says_what_is_sent(procedure):
    random = np.random.default_rng(7)
    for _ in range(25):
        database = Database(random.integers(0, 10, (80, 2)))
        low = random.integers(0, 8, (6, 2))
        queries = Queries.of(low, low + random.integers(1, 5, (6, 2)))
        problem = BoxProblem(queries, THREE_COSTS, Count(database), procedure)
        plan = plan_of(problem, random.integers(0, 3, 6))
        answers = answer(plan, database)
        said = [problem.estimate(rows) for rows in plan.sets()]
        assert sum(len(sent.objects) for sent in answers) == sum(estimate.size for estimate in said)
        assert len(answers) == sum(estimate.pieces for estimate in said)
        received = sum(len(sent.objects) * len(sent.message.header) for sent in answers)
        assert received == sum(estimate.received for estimate in said)


# ---- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "low, high, why",
    [
        ([[0, 0]], [[0, 1]], "query 0: axis 0 .* is empty"),
        ([[0, 0], [2, 2]], [[1, 1], [3, 1]], "query 1: axis 1 .* low above high"),
        ([[0, math.nan]], [[1, 1]], "is not finite"),
        ([[0, 0]], [[1, math.inf]], "is not finite"),
        ([[0, 0]], [[1]], "shape"),
        ([0, 0], [1, 1], "dimensions"),
        ([["a", "b"]], [["c", "d"]], "numbers"),
        ([[0, 1], [0]], [[1, 2], [1]], "ragged"),
    ],
)
def test_bad_boxes_are_refused_by_row(low, high, why):
    with pytest.raises(BadQuery, match=why):
        Queries.of(low, high)


def test_queries_need_clients_and_distinct_ids():
    with pytest.raises(BadQuery, match="query 1 has no client"):
        Queries.of([[0], [0]], [[1], [1]], clients=[3, -1])
    with pytest.raises(BadQuery, match="1 clients for 2 queries"):
        Queries.of([[0], [0]], [[1], [1]], clients=[3])
    with pytest.raises(DuplicateId):
        Queries.of([[0], [0]], [[1], [1]], ids=[3, 3])


@pytest.mark.parametrize("wrong", [-1, math.inf, math.nan, "1"])
def test_constants_are_finite_and_not_negative(wrong):
    with pytest.raises(BadCosts, match="transmit is"):
        Costs(1, wrong, 1)


def test_constants_are_not_all_zero():
    with pytest.raises(BadCosts, match="all constants are 0"):
        Costs(0, 0, 0)


def test_too_many_queries_for_an_exhaustive_algorithm_are_refused_with_the_estimate():
    low = np.arange(30.0)[:, None]
    problem = BoxProblem(Queries.of(low, low + 1), THREE_COSTS)
    with pytest.raises(TooLarge, match=r"8\.47e\+23 partitions of 30"):
        plain.partition(problem)
    with pytest.raises(TooLarge, match=r"2\^1073741823 collections"):
        plain.exhaustive(problem)


@pytest.mark.parametrize("make", [Database, Histogram])
@pytest.mark.parametrize("points", [[[math.nan, 0]], [], [1, 2], [["a"]]])
def test_bad_objects_are_refused(make, points):
    with pytest.raises(InvalidInput):
        make(points)


def test_sizes_have_the_dimensions_of_the_queries():
    with pytest.raises(BadQuery, match="have 2 dimensions and the objects that size them 3"):
        BoxProblem(THREE, THREE_COSTS, Count(Database([[1.0, 2.0, 3.0]])))
