"""Algorithms by name, each a function of a problem and a seed; the same plan for the same seed.

    >>> from brokers.planning.model import Costs, Queries
    >>> from brokers.planning.problem import BoxProblem
    >>> queries = Queries.of([[0, 0], [1, 1], [50, 50]], [[20, 20], [21, 21], [60, 60]])
    >>> found = plan(BoxProblem(queries, Costs(message=100, transmit=1, irrelevant=0.1)), "pair-merging")
    >>> found.group.tolist(), round(found.cost, 1)
    ([0, 0, 1], 749.2)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np

from brokers.errors import InvalidInput
from brokers.indexes.contract import Ids
from brokers.planning import greedy, plain, search
from brokers.planning.bounds import lower_bound
from brokers.planning.clusters import clustered, heuristic_clusters
from brokers.planning.exact import branch_and_bound, subset_programme
from brokers.planning.plan import Plan
from brokers.planning.problem import BoxProblem, Problem

STARTS = 50
PRICED_QUERIES_MAX = 24  # beyond, prices take longer than most plans; call `bounds.lower_bound`


@dataclass(frozen=True)
class Algorithm:
    """One registered algorithm."""

    run: Callable[[Problem, int], Plan]
    exact: bool  # whether its plan is an optimum (branch and bound: if its lower bound says so)
    prose: str


def plan(problem: Problem, algorithm: str = "pair-merging", seed: int = 0, bounded: bool = True) -> Plan:
    """Plan by a named algorithm; the plan has a lower bound, without `bounded` only what the algorithm knows of one.

    For few queries a bound takes longer than a plan.
    """
    if algorithm not in ALGORITHMS:
        close = get_close_matches(algorithm, ALGORITHMS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(ALGORITHMS))}"
        raise InvalidInput(f"no merging algorithm named {algorithm!r}; {hint}")
    chosen = ALGORITHMS[algorithm]
    found = chosen.run(problem, seed)
    if chosen.exact:
        return found
    if not bounded:
        return replace(found, algorithm=algorithm)
    bound = min(lower_bound(problem, PRICED_QUERIES_MAX), found.cost)
    return replace(found, algorithm=algorithm, lower_bound=bound)


def separate(problem: Problem) -> Plan:
    """No merging at all."""
    return Plan.of(problem, np.arange(len(problem)), 0.0, 0, 0, "separate")


def identical(problem: Problem) -> Plan:
    """Only equal queries are merged."""
    if not isinstance(problem, BoxProblem):
        raise InvalidInput("queries without boxes cannot be compared; plan a BoxProblem")
    boxes = np.hstack([problem.queries.low, problem.queries.high])
    _, group = np.unique(boxes, axis=0, return_inverse=True)
    return Plan.of(problem, group.ravel(), 0.0, 0, len(problem) - int(group.max(initial=-1)) - 1, "identical")


def pair_merging(problem: Problem) -> Plan:
    """By kernels where there are some."""
    if isinstance(problem, BoxProblem) and problem.bounding:
        return greedy.pair_merging(problem)
    return plain.pair_merging(problem)


def directed_search(problem: Problem, seed: int, starts: int = STARTS) -> Plan:
    """From the source's starts, and from the plan of pair merging, so that it is never worse than that."""
    merged = pair_merging(problem)
    begins = np.concatenate([plain.random_starts(len(problem), starts, seed), merged.group[None]])
    found = _search(problem, begins, moves=False)
    return replace(found, evaluated=found.evaluated + merged.evaluated, applied=found.applied + merged.applied)


def local_search(problem: Problem, seed: int = 0) -> Plan:
    """Pair merging, then merges, splits and moves of single queries."""
    merged = pair_merging(problem)
    found = _search(problem, merged.group[None], moves=True)
    return replace(found, evaluated=found.evaluated + merged.evaluated, applied=found.applied + merged.applied)


def _search(problem: Problem, starts: Ids, moves: bool) -> Plan:
    if isinstance(problem, BoxProblem) and problem.bounding:
        return search.directed_search(problem, starts, moves)
    return plain.directed_search(problem, starts, moves)


def clustering(problem: Problem, algorithm: Callable[[Problem], Plan] = pair_merging) -> Plan:
    """An algorithm in each of the clusters of the heuristic."""
    return clustered(problem, heuristic_clusters(problem), algorithm)


ALGORITHMS: dict[str, Algorithm] = {
    "separate": Algorithm(lambda problem, seed: separate(problem), False, "no merging"),
    "identical": Algorithm(lambda problem, seed: identical(problem), False, "only equal queries are merged"),
    "partition": Algorithm(
        lambda problem, seed: plain.partition(problem), True, "every partition, up to 14 queries"
    ),
    "subset-programme": Algorithm(
        lambda problem, seed: subset_programme(problem), True, "a programme over subsets, up to 22 queries"
    ),
    "branch-and-bound": Algorithm(
        lambda problem, seed: branch_and_bound(problem), True, "sharper clusters and prices, to about 60 queries"
    ),
    "pair-merging": Algorithm(
        lambda problem, seed: pair_merging(problem), False, "merge the best pair until none saves"
    ),
    "directed-search": Algorithm(directed_search, False, "merges and splits from many starts"),
    "local-search": Algorithm(local_search, False, "pair merging, then moves of single queries"),
    "clustering": Algorithm(
        lambda problem, seed: clustering(problem), False, "pair merging in the clusters of the heuristic"
    ),
}
