"""The optimum, further than Bell numbers reach.

`subset_programme` takes time 3^n and two tables of 2^n numbers, whatever the queries. `branch_and_bound` cuts
the queries into the clusters of the sharper test, and then searches with the prices of `bounds`: it goes as
far as the queries let it, and says how far it got.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from brokers.planning import greedy, plain, search
from brokers.planning.bounds import can_price, lower_bound, prices
from brokers.planning.branch import branch
from brokers.planning.clusters import clustered, clusters_of, sharper_apart
from brokers.planning.kernels import best_subsets
from brokers.planning.model import TooLarge
from brokers.planning.plan import Plan, members_of
from brokers.planning.problem import BoxProblem, Problem, constants

PROGRAMME_QUERIES_MAX = 22
ESTIMATED_QUERIES_MAX = 16  # where every set is estimated by itself
PROGRAMME_FIRST = 14  # up to here the subset programme takes no time
NODES_MAX = 20_000_000


def subset_programme(problem: Problem) -> Plan:
    """An optimum. O(3^n) time, 2^n numbers of memory."""
    n = len(problem)
    queries_max = _programme_max(problem)
    if n > queries_max:
        raise TooLarge(
            f"the subset programme would weigh {3 ** (n - 1) / 2:.3g} pairs of sets of {n} queries in "
            f"{12 * 2.0**n / 1e9:.3g} GB; it takes up to {queries_max} of this merge procedure; "
            f"use branch and bound, or a heuristic"
        )
    if n == 0:
        return Plan.of(problem, [], 0.0, 0, 0, "subset programme")
    group, cost = best_subsets(problem.subset_costs(), n)
    return Plan.of(problem, group, cost - problem.relevant_cost, 3 ** (n - 1) // 2, 0, "subset programme")


def _programme_max(problem: Problem) -> int:
    fast = isinstance(problem, BoxProblem) and problem.bounding
    return PROGRAMME_QUERIES_MAX if fast else ESTIMATED_QUERIES_MAX


def branch_and_bound(problem: Problem, nodes_max: int = NODES_MAX) -> Plan:
    """The best plan found, an optimum if its lower bound is its cost.

    Sets that the sharper test keeps apart are planned apart. In a cluster, the lowest query that is left gets
    its set, in all ways whose cost above the prices of its members stays within what is still to be gained.
    Clusters that are too large to price stay as pair merging and a search with moves left them.
    """
    upper = _heuristic(problem)
    cluster = clusters_of(sharper_apart(problem, upper.cost)) if len(problem) else np.empty(0, np.int64)
    bounds: list[float] = []

    def solve(part: Problem) -> Plan:
        plan = _cluster_optimum(part, nodes_max)
        bounds.append(plan.lower_bound)
        return plan

    found = clustered(problem, cluster, solve)
    alone = [rows for rows in members_of(cluster) if len(rows) == 1]
    bound = sum(bounds) + problem.total(alone) - sum(problem.subset(rows).relevant_cost for rows in alone)
    bound = min(max(bound, lower_bound(problem)), found.cost)
    return replace(found, lower_bound=bound, algorithm="branch and bound")


def _heuristic(problem: Problem) -> Plan:
    if not isinstance(problem, BoxProblem) or not problem.bounding:
        return plain.pair_merging(problem)
    merged = greedy.pair_merging(problem)
    if len(problem) > search.QUERIES_MAX:
        return merged
    return search.directed_search(problem, merged.group[None], moves=True)


def _cluster_optimum(problem: Problem, nodes_max: int) -> Plan:
    if len(problem) <= PROGRAMME_FIRST:
        return subset_programme(problem)
    price = prices(problem) if isinstance(problem, BoxProblem) and can_price(problem) else None
    if price is None and len(problem) <= _programme_max(problem):
        return subset_programme(problem)
    known = _heuristic(problem)
    if price is None:
        return replace(known, lower_bound=lower_bound(problem))
    assert isinstance(problem, BoxProblem)
    queries = problem.queries
    # Along the axis on which the queries spread most, what is left stays together.
    axis = int(np.argmax(queries.high.max(axis=0) - queries.low.min(axis=0)))
    order = np.argsort(queries.low[:, axis], kind="stable")
    absolute = known.absolute_cost
    number, cost, nodes = branch(
        problem.size.table, queries.low[order], queries.high[order], price[order], constants(problem.costs),
        absolute, nodes_max,
    )  # fmt: skip
    if cost < absolute:
        group = np.empty(len(problem), np.int64)
        group[order] = number
        known = Plan.of(problem, group, 0.0, nodes, 0, "branch and bound")
    done = nodes <= nodes_max
    return replace(known, lower_bound=known.cost if done else lower_bound(problem), evaluated=nodes)
