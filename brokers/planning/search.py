"""Directed search over bounding boxes: the same plan as `plain.directed_search`, faster.

From each start the best of all changes is carried out until none saves anything: merge two sets, split one
query off its set, and with `moves` take one query to another set. Gains of merges and splits are kept, and
computed again only for the sets that changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import EndlessWalk
from brokers.planning.kernels import set_cost
from brokers.planning.model import Floats, TooLarge
from brokers.planning.plan import Plan
from brokers.planning.problem import BoxProblem, constants
from brokers.planning.sizes import hull_size

EPSILON = 1e-12  # as in `plain`
QUERIES_MAX = 4096  # the gains of all pairs are kept
_STEPS_BASE, _STEPS_PER_PAIR = 1000, 8  # of a descent at most: far more than any took
MERGE, SPLIT, MOVE = 0, 1, 2


class Sets(NamedTuple):
    """The queries are boxes 0..n-1, the sets boxes n..2n-1, box 2n is scratch."""

    low: Floats
    high: Floats
    members: NDArray[np.int64]  # of each set; 0 for a free place
    cost: Floats
    first: NDArray[np.int64]  # lowest query
    of: NDArray[np.int64]  # the set of each query
    alone: Floats  # the cost of each query as a set
    merge: Floats  # [sets, sets] gain, kept at (lower first, higher first)
    split: Floats  # gain of splitting each query off
    without: Floats  # cost of each query's set without it


def check_size(n: int) -> None:
    """Refuse more queries than the table of gains can hold, before it is made."""
    if n > QUERIES_MAX:
        raise TooLarge(
            f"the search would keep the gains of {n}^2 pairs of sets, {8 * n * n / 1e9:.1f} GB; it takes up to "
            f"{QUERIES_MAX} queries; search in clusters"
        )


def directed_search(problem: BoxProblem, starts: NDArray[np.int64], moves: bool = False) -> Plan:
    """The plan of `plain.directed_search`. O(n^2) memory; O(sets^2) per step, with moves O(n sets)."""
    queries = problem.queries
    check_size(len(queries))
    fixed = constants(problem.costs)
    group, evaluated, applied = search(problem.size.table, queries.low, queries.high, fixed, starts, moves)
    return Plan.of(problem, group, 0.0, evaluated, applied, "directed search")


@njit(cache=True)
def search(table, low, high, constants, starts, moves):
    """The best descent: (number of each query's set, gains computed, changes)."""
    n, d = low.shape
    sets = Sets(
        np.zeros((2 * n + 1, d)), np.zeros((2 * n + 1, d)), np.zeros(n, np.int64), np.zeros(n),
        np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n), np.zeros((n, n)), np.zeros(n), np.zeros(n),
    )  # fmt: skip
    sets.low[:n] = low
    sets.high[:n] = high
    for i in range(n):
        sets.alone[i] = set_cost(constants, hull_size(table, low, high, i, i), 1)
    best = np.zeros(n, np.int64)
    cost_min, evaluated, applied = np.inf, 0, 0
    for start in range(starts.shape[0]):
        tried, done = _descend(table, constants, sets, starts[start], moves)
        evaluated += tried
        applied += done
        cost = 0.0  # in the order of the sets' first queries, as `plain` adds
        for i in range(n):
            if sets.first[sets.of[i]] == i:
                cost += sets.cost[sets.of[i]]
        if cost < cost_min or start == 0:
            cost_min = cost
            best[:] = sets.of
    return best, evaluated, applied


@njit(cache=True)
def _descend(table, constants, sets, start, moves):
    n = start.size
    sets.members[:] = 0
    for i in range(n):
        sets.of[i] = start[i]
        sets.members[start[i]] += 1
    evaluated = 0
    for s in range(n):
        if sets.members[s]:
            _rebuild(table, constants, sets, s)
    for s in range(n):
        if sets.members[s]:
            evaluated += _gains_of(table, constants, sets, s, s)
    for applied in range(_STEPS_BASE + _STEPS_PER_PAIR * n * n):  # each lowers the cost, as far as rounding lets it
        gain, kind, a, b = _best_kept(sets)
        if moves:
            tried, move_gain, row, other = _best_move(table, constants, sets)
            evaluated += tried
            if move_gain > gain:
                gain, kind, a, b = move_gain, MOVE, row, other
        if gain <= 0.0:
            return evaluated, applied
        if kind == MERGE:
            for i in range(n):
                if sets.of[i] == b:
                    sets.of[i] = a
            sets.members[a] += sets.members[b]
            sets.members[b] = 0
            old, new = a, a
        else:
            old, new = sets.of[a], b
            if kind == SPLIT:
                new = 0
                while sets.members[new]:
                    new += 1
            sets.members[old] -= 1
            sets.of[a] = new
            sets.members[new] += 1
        _rebuild(table, constants, sets, old)
        if new != old:
            _rebuild(table, constants, sets, new)
            evaluated += _gains_of(table, constants, sets, new, n)
        evaluated += _gains_of(table, constants, sets, old, n)
    raise EndlessWalk("a descent goes in circles, since its gains are below what rounding leaves of them")


@njit(cache=True)
def _rebuild(table, constants, sets, s):
    """Box, first query and cost of a set whose members changed; gains of splitting them. O(n d)."""
    n, d = sets.of.size, sets.low.shape[1]
    box, scratch = n + s, 2 * n
    sets.first[s] = n
    # Per axis the two lowest ends and the two highest, so that any one member can be left out.
    low_2, high_2 = np.full(d, np.inf), np.full(d, -np.inf)
    for k in range(d):
        sets.low[box, k], sets.high[box, k] = np.inf, -np.inf
    for i in range(n):
        if sets.of[i] != s:
            continue
        sets.first[s] = min(sets.first[s], i)
        for k in range(d):
            if sets.low[i, k] < sets.low[box, k]:
                low_2[k] = sets.low[box, k]
                sets.low[box, k] = sets.low[i, k]
            else:
                low_2[k] = min(low_2[k], sets.low[i, k])
            if sets.high[i, k] > sets.high[box, k]:
                high_2[k] = sets.high[box, k]
                sets.high[box, k] = sets.high[i, k]
            else:
                high_2[k] = max(high_2[k], sets.high[i, k])
    members = sets.members[s]
    sets.cost[s] = set_cost(constants, hull_size(table, sets.low, sets.high, box, box), members)
    for i in range(n):
        if sets.of[i] != s:
            continue
        sets.split[i], sets.without[i] = 0.0, 0.0
        if members == 1:
            continue
        for k in range(d):
            own = sets.low[i, k] == sets.low[box, k]
            sets.low[scratch, k] = low_2[k] if own else sets.low[box, k]
            own = sets.high[i, k] == sets.high[box, k]
            sets.high[scratch, k] = high_2[k] if own else sets.high[box, k]
        size = hull_size(table, sets.low, sets.high, scratch, scratch)
        sets.without[i] = set_cost(constants, size, members - 1)
        saved = sets.cost[s] - (sets.without[i] + sets.alone[i])
        sets.split[i] = saved if saved > EPSILON * sets.cost[s] else 0.0


@njit(cache=True)
def _gains_of(table, constants, sets, s, below):
    """The gains of merging a set with those of numbers below `below`. How many."""
    n = sets.of.size
    tried = sets.members[s] if sets.members[s] > 1 else 0  # its splits were computed with its box
    for t in range(below):
        if sets.members[t] and t != s:
            before = sets.cost[s] + sets.cost[t]
            size = hull_size(table, sets.low, sets.high, n + s, n + t)
            saved = before - set_cost(constants, size, sets.members[s] + sets.members[t])
            gain = saved if saved > EPSILON * before else 0.0
            sets.merge[s, t] = gain
            sets.merge[t, s] = gain
            tried += 1
    return tried


@njit(cache=True)
def _best_kept(sets):
    """The best merge or split: (gain, kind, set or query, set). Of equal ones the lowest first queries."""
    n = sets.of.size
    best, kind, a, b = 0.0, MERGE, -1, -1
    # Sets in the order of their first queries: a set comes up at the query that is its first.
    for i in range(n):
        s = sets.of[i]
        if sets.first[s] != i:
            continue
        for j in range(i + 1, n):
            t = sets.of[j]
            if sets.first[t] == j and sets.merge[s, t] > best:
                best, a, b = sets.merge[s, t], s, t
    for i in range(n):
        if sets.split[i] > best:
            best, kind, a, b = sets.split[i], SPLIT, i, -1
    return best, kind, a, b


@njit(cache=True)
def _best_move(table, constants, sets):
    """The best query to take from its set to another: (tried, gain, query, set)."""
    n = sets.of.size
    tried, best, row, other = 0, 0.0, -1, -1
    for i in range(n):
        s = sets.of[i]
        if sets.members[s] == 1:
            continue
        for j in range(n):
            t = sets.of[j]
            if sets.first[t] != j or t == s:
                continue
            before = sets.cost[s] + sets.cost[t]
            size = hull_size(table, sets.low, sets.high, n + t, i)
            saved = before - (sets.without[i] + set_cost(constants, size, sets.members[t] + 1))
            tried += 1
            if saved > best and saved > EPSILON * before:
                best, row, other = saved, i, t
    return tried, best, row, other
