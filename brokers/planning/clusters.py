"""Clustering (section 6.4): queries that are never worth merging are planned apart.

Three tests say which pairs are kept apart. Clusters are what chains of the other pairs connect.

- `heuristic_apart` (section 6.4.1): what merging the two alone could save at best is negative. It may be wrong.
- `appendix_apart` (Appendix III): the most that merging could save in any plan is negative. Never wrong, and
  hardly ever says so.
- `sharper_apart`: a plan that has both in one set costs at least K_M + K_T max(size of the two merged, size of
  the union of all) + K_U times what the two receive in excess; if that is more than a plan that is known, no
  optimum has them in one set. Never wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import EndlessWalk
from brokers.planning.model import Costs, Floats, TooLarge
from brokers.planning.plan import Plan, by_first_row, members_of
from brokers.planning.problem import BoxProblem, Problem
from brokers.planning.sizes import AREA, hull_size

PAIRS_QUERIES_MAX = 8192

Bools = NDArray[np.bool_]


def clustered(
    problem: Problem, cluster: NDArray[np.int64], algorithm: Callable[[Problem], Plan], lower_bound: float = 0.0
) -> Plan:
    """Plan every cluster by itself, and put the plans together. `cluster` numbers each query's from 0."""
    group = np.empty(len(problem), np.int64)
    sets, evaluated, applied = 0, 0, 0
    name = "separate"
    for rows in members_of(cluster):
        if len(rows) == 1:
            group[rows] = sets
            sets += 1
            continue
        part = algorithm(problem.subset(rows))
        group[rows] = part.group + sets
        sets += len(part.channel)
        evaluated += part.evaluated
        applied += part.applied
        name = part.algorithm
    return Plan.of(problem, group, lower_bound, evaluated, applied, f"{name} in clusters")


def clusters_of(apart: Bools) -> NDArray[np.int64]:
    """The connected components of the pairs that are not kept apart, numbered by first query. O(n^2)."""
    return by_first_row(_roots(apart))


def heuristic_clusters(problem: Problem) -> NDArray[np.int64]:
    """As `clusters_of(heuristic_apart(problem))`; for bounding boxes sized by area in a sweep, without the
    table of pairs."""
    if isinstance(problem, BoxProblem) and problem.bounding and problem.size.table.kind == AREA:
        queries, costs = problem.queries, problem.costs
        order = np.argsort(queries.low[:, 0], kind="stable")
        fixed = costs.per_message, costs.per_object, costs.irrelevant
        found = _sweep(problem.size.table, queries.low[order], queries.high[order], problem.sizes[order], fixed)
        cluster = np.empty_like(found)
        cluster[order] = found
        return by_first_row(cluster)
    return clusters_of(heuristic_apart(problem))


def heuristic_apart(problem: Problem) -> Bools:
    """[n, n] pairs to keep apart. O(n^2)."""
    received = _pairs(problem)[1]
    costs, own = problem.costs, problem.sizes
    # What is saved at best: a message, and sending the smaller one; what it costs: the irrelevant objects.
    shared = np.minimum(own[:, None], own[None])
    excess = received - own[:, None] - own[None]
    return np.asarray(costs.per_message + costs.per_object * shared - costs.irrelevant * excess < 0)


def sharper_apart(problem: Problem, cost_known: float) -> Bools:
    """[n, n] pairs that no plan cheaper than a known (differential) cost has in one set. O(n^2)."""
    sizes, received = _pairs(problem)
    own = problem.sizes
    sent = np.maximum(sizes, problem.union_size())
    excess = received - own[:, None] - own[None]
    least = together_cost(problem.costs, sent, excess)
    apart = least > cost_known * (1 + 1e-9)
    np.fill_diagonal(apart, False)
    return np.asarray(apart)


def together_cost(costs: Costs, sent: Floats, excess: Floats) -> Floats:
    """At least the differential cost of a plan in which some set sends and wastes this much."""
    return costs.per_message + costs.per_object * sent + costs.irrelevant * excess


def appendix_apart(problem: Problem) -> Bools:
    """[n, n] pairs to keep apart. O(n^2) estimates of n queries."""
    n, costs, own = len(problem), problem.costs, problem.sizes
    sizes, received = _pairs(problem)
    rows = np.arange(n)
    without = np.array([_size_without(problem, rows != a) for a in range(n)])
    apart = np.zeros((n, n), np.bool_)
    for a in range(n):
        for b in range(a + 1, n):
            most = without[a] + without[b] - sizes[a, b]
            most += (n - 2) * _size_without(problem, (rows != a) & (rows != b))
            excess = received[a, b] - own[a] - own[b]
            saved = costs.per_message * (n - 1) + costs.per_object * most - costs.irrelevant * excess
            apart[a, b] = apart[b, a] = saved <= 0
    return apart


def _size_without(problem: Problem, rows: Bools) -> float:
    return problem.estimate(np.flatnonzero(rows)).size if rows.any() else 0.0


def _pairs(problem: Problem) -> tuple[Floats, Floats]:
    """[n, n] size of each pair merged, and what its two members receive."""
    n = len(problem)
    if n > PAIRS_QUERIES_MAX:
        raise TooLarge(
            f"the tests would weigh {n * (n - 1) // 2:,} pairs in tables of {16 * n * n / 1e9:.1f} GB; they take "
            f"up to {PAIRS_QUERIES_MAX} queries"
        )
    if isinstance(problem, BoxProblem) and problem.bounding:
        sizes = np.asarray(_pair_sizes(problem.size.table, problem.queries.low, problem.queries.high))
        return sizes, 2 * sizes
    sizes, received = np.empty((n, n)), np.empty((n, n))
    for a in range(n):
        for b in range(a, n):
            sent = problem.estimate([a, b] if a != b else [a])
            sizes[a, b] = sizes[b, a] = sent.size
            received[a, b] = received[b, a] = sent.received if a != b else 2 * sent.received
    return sizes, received


# ---- kernels -----------------------------------------------------------------------------------------


@njit(cache=True)
def _pair_sizes(table, low, high):
    n = low.shape[0]
    out = np.empty((n, n))
    for a in range(n):
        for b in range(a, n):
            out[a, b] = hull_size(table, low, high, a, b)
            out[b, a] = out[a, b]
    return out


@njit(cache=True)
def _find(parent, a):
    for _ in range(parent.size):
        if parent[a] == a:
            return a
        parent[a] = parent[parent[a]]
        a = parent[a]
    raise EndlessWalk("sets have a ring of parents")


@njit(cache=True)
def _roots(apart):
    n = apart.shape[0]
    parent = np.arange(n)
    for a in range(n):
        for b in range(a):
            if not apart[a, b]:
                parent[_find(parent, a)] = _find(parent, b)
    for a in range(n):
        parent[a] = _find(parent, a)
    return parent


@njit(cache=True)
def _sweep(table, low, high, sizes, constants):
    """Components of the pairs that pass the heuristic, for boxes in the order of their low ends.

    A gap g along an axis, beside a box of cross-section X, wastes 2 g X at least: beyond a reach no pair passes.
    """
    n, d = low.shape
    per_message, per_object, irrelevant = constants
    parent = np.arange(n)
    reach = np.full(d, np.inf)
    for a in range(n):
        if irrelevant > 0:
            for k in range(d):
                cross = sizes[a] / (high[a, k] - low[a, k])
                reach[k] = (1 + 1e-9) * (per_message + per_object * sizes[a]) / (2 * irrelevant * cross)
        for b in range(a + 1, n):
            if low[b, 0] - high[a, 0] > reach[0]:
                break
            near = True
            for k in range(1, d):
                near &= low[b, k] - high[a, k] <= reach[k] and low[a, k] - high[b, k] <= reach[k]
            if not near or _find(parent, a) == _find(parent, b):
                continue
            excess = 2 * hull_size(table, low, high, a, b) - sizes[a] - sizes[b]
            if per_message + per_object * min(sizes[a], sizes[b]) - irrelevant * excess >= 0:
                parent[_find(parent, a)] = _find(parent, b)
    for a in range(n):
        parent[a] = _find(parent, a)
    return parent
