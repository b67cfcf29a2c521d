"""Pair merging over bounding boxes, for many queries: the same plan as `plain.pair_merging`, faster.

Every pair of sets belongs to the younger of the two. A set keeps the best of its pairs, in a heap; as no older
set is ever added, what it keeps can only turn out too good. So the top of the heap is looked at again when its
partner is gone, and is otherwise the best pair of all.

Where sizes are areas, two sets that are too far apart along any axis cannot gain, and candidates come from
a grid over the centres. With a gap g between a and b, and X the cross-section of a,

    size(mrg(a, b)) - size(a) - size(b) >= g X,    gain <= K_M - (K_T + p K_U) g X

for the p queries of a. Other sizes may be 0 over any gap: then all pairs are candidates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.indexes.contract import Ids
from brokers.planning.kernels import set_cost
from brokers.planning.model import Floats
from brokers.planning.plan import Plan
from brokers.planning.problem import BoxProblem, constants
from brokers.planning.sizes import AREA, hull_size

EPSILON = 1e-12  # as in `plain`
GRID_QUERIES_MIN = 256
SLACK = 1 + 1e-9  # on reaches, for rounding


class Sets(NamedTuple):
    """All sets there ever were: the n queries, then the merged ones by age."""

    low: Floats
    high: Floats
    members: NDArray[np.int64]
    cost: Floats
    first: NDArray[np.int64]  # lowest query
    alive: NDArray[np.bool_]
    parent: NDArray[np.int64]  # what it was merged into, -1: nothing


class Grid(NamedTuple):
    """Lists of the sets by the cell of their centre, on the first axes."""

    origin: Floats
    step: Floats
    cells: NDArray[np.int64]
    head: NDArray[np.int64]
    next: NDArray[np.int64]
    half: Floats  # the largest half extent of any set, per axis


def pair_merging(problem: BoxProblem) -> Plan:
    """The plan of `plain.pair_merging`, to the bit. O(n log n) times the candidates of a set."""
    group, evaluated, applied = merge_boxes(problem)
    return Plan.of(problem, group, 0.0, evaluated, applied, "pair merging")


def merge_boxes(problem: BoxProblem) -> tuple[Ids, int, int]:
    """(number of each query's set, gains computed, merges)."""
    queries = problem.queries
    n = len(queries)
    if n == 0:
        return np.empty(0, np.int64), 0, 0
    table = problem.size.table
    fixed = constants(problem.costs)
    reach_known = table.kind == AREA and n >= GRID_QUERIES_MIN and fixed[1] + fixed[2] > 0
    axes = min(queries.dimensions, 2) if reach_known else 0
    return merge_pairs(table, queries.low, queries.high, fixed, axes)[:3]


@njit(cache=True)
def merge_pairs(table, low, high, constants, axes):
    """The kernel of pair merging: (number of each query's set, gains computed, merges, absolute cost).

    `axes` is on how many axes candidates are sought by reach, 0: all pairs.
    """
    n, d = low.shape
    ends_low, ends_high = np.empty((2 * n, d)), np.empty((2 * n, d))
    ends_low[:n] = low
    ends_high[:n] = high
    sets = Sets(
        ends_low, ends_high, np.ones(2 * n, np.int64), np.empty(2 * n), np.arange(2 * n),
        np.ones(2 * n, np.bool_), np.full(2 * n, -1, np.int64),
    )  # fmt: skip
    grid = _grid_of(low, high, axes)
    heap = np.empty(n, np.int64)  # sets by their best pair
    gain, partner = np.empty(2 * n), np.empty(2 * n, np.int64)
    held, evaluated = 0, 0
    for i in range(n):
        sets.cost[i] = set_cost(constants, hull_size(table, low, high, i, i), 1)
        evaluated += _best_pair(table, constants, sets, grid, i, gain, partner)
        _enter(sets, grid, i)
        if partner[i] >= 0:
            held = _push(heap, held, i, gain, partner, sets.first)
    count = n
    while held:
        top = heap[0]
        if sets.alive[top] and sets.alive[partner[top]]:
            merged, count = count, count + 1
            _merge(table, constants, sets, top, partner[top], merged)
            evaluated += _best_pair(table, constants, sets, grid, merged, gain, partner)
            _enter(sets, grid, merged)
            again = merged
        elif sets.alive[top]:
            evaluated += _best_pair(table, constants, sets, grid, top, gain, partner)
            again = top
        else:
            again = -1
        # The new entry takes the place of the top.
        if again >= 0 and partner[again] >= 0:
            heap[0] = again
        else:
            held -= 1
            heap[0] = heap[held]
        _sift(heap, held, gain, partner, sets.first)
    total = 0.0
    for s in range(count):
        if sets.alive[s]:
            total += sets.cost[s]
    return _numbers(sets.parent, n), evaluated, count - n, total


@njit(cache=True)
def _merge(table, constants, sets, a, b, merged):
    for k in range(sets.low.shape[1]):
        sets.low[merged, k] = min(sets.low[a, k], sets.low[b, k])
        sets.high[merged, k] = max(sets.high[a, k], sets.high[b, k])
    sets.members[merged] = sets.members[a] + sets.members[b]
    size = hull_size(table, sets.low, sets.high, merged, merged)
    sets.cost[merged] = set_cost(constants, size, sets.members[merged])
    sets.first[merged] = min(sets.first[a], sets.first[b])
    for old in (a, b):
        sets.alive[old] = False
        sets.parent[old] = merged


@njit(cache=True)
def _numbers(parent, n):
    """The root of each query. Roots are younger than what they hold."""
    root = np.arange(parent.size)
    for i in range(parent.size - 1, -1, -1):
        if parent[i] >= 0:
            root[i] = root[parent[i]]
    return root[:n].copy()


@njit(cache=True)
def _best_pair(table, constants, sets, grid, a, gain, partner):
    """The best older partner of a set, into gain[a] and partner[a] (-1: none gains). How many were tried."""
    axes = grid.cells.size
    first, last = np.zeros(2, np.int64), np.zeros(2, np.int64)
    reach = np.full(2, np.inf)
    for k in range(axes):
        cross = table.density
        for other in range(sets.low.shape[1]):
            if other != k:
                cross *= sets.high[a, other] - sets.low[a, other]
        rate = (constants[1] + constants[2] * sets.members[a]) * cross
        reach[k] = SLACK * constants[0] / rate
        wide = reach[k] + grid.half[k]
        first[k] = _cell(grid, k, sets.low[a, k] - wide)
        last[k] = _cell(grid, k, sets.high[a, k] + wide)
    best, found, tried = 0.0, -1, 0
    columns = grid.cells[1] if axes == 2 else 1
    for row in range(first[0], last[0] + 1):
        for column in range(first[1], last[1] + 1):
            cell = row * columns + column
            before, b = -1, grid.head[cell]
            while b >= 0:
                following = grid.next[b]
                if not sets.alive[b]:
                    # Dead sets leave the list when someone comes by.
                    if before < 0:
                        grid.head[cell] = following
                    else:
                        grid.next[before] = following
                elif b < a and _near(sets, a, b, reach, axes):
                    cost = sets.cost[a] + sets.cost[b]
                    size = hull_size(table, sets.low, sets.high, a, b)
                    saved = cost - set_cost(constants, size, sets.members[a] + sets.members[b])
                    tried += 1
                    if saved > EPSILON * cost and (found < 0 or _before(sets.first, a, saved, b, best, found)):
                        best, found = saved, b
                if sets.alive[b]:
                    before = b
                b = following
    gain[a], partner[a] = best, found
    return tried


@njit(cache=True)
def _near(sets, a, b, reach, axes):
    near = True
    for k in range(axes):
        near &= sets.low[b, k] - sets.high[a, k] <= reach[k]
        near &= sets.low[a, k] - sets.high[b, k] <= reach[k]
    return near


@njit(cache=True)
def _before(first, a, gain_b, b, gain_c, c):
    """Whether a with b comes before a with c: more gain, then lower first queries."""
    if gain_b != gain_c:
        return gain_b > gain_c
    return _ahead(first, a, b, a, c)


@njit(cache=True)
def _ahead(first, a, b, c, d):
    """Whether the pair a, b has lower first queries than the pair c, d."""
    low_1, high_1 = min(first[a], first[b]), max(first[a], first[b])
    low_2, high_2 = min(first[c], first[d]), max(first[c], first[d])
    return low_1 < low_2 or (low_1 == low_2 and high_1 < high_2)


# ---- the grid ----------------------------------------------------------------------------------------


@njit(cache=True)
def _grid_of(low, high, axes):
    """About one query per cell, but no cell smaller than a mean query. One cell without axes."""
    n = low.shape[0]
    origin, step, cells = np.zeros(axes), np.ones(axes), np.ones(axes, np.int64)
    places = 1
    for k in range(axes):
        origin[k] = low[:, k].min()
        width = high[:, k].max() - origin[k]
        mean = (high[:, k] - low[:, k]).mean()
        cells[k] = max(1, int(min(width / mean, np.sqrt(n) if axes == 2 else float(n))))
        step[k] = width / cells[k]
        places *= cells[k]
    head, next_ = np.full(places, -1, np.int64), np.full(2 * n, -1, np.int64)
    return Grid(origin, step, cells, head, next_, np.zeros(axes))


@njit(cache=True)
def _cell(grid, k, x):
    at = (x - grid.origin[k]) / grid.step[k]
    return int(min(max(at, 0.0), float(grid.cells[k] - 1)))


@njit(cache=True)
def _enter(sets, grid, a):
    place = 0
    for k in range(grid.cells.size):
        half = 0.5 * (sets.high[a, k] - sets.low[a, k])
        grid.half[k] = max(grid.half[k], SLACK * half)
        place = place * grid.cells[k] + _cell(grid, k, sets.low[a, k] + half)
    grid.next[a] = grid.head[place]
    grid.head[place] = a


# ---- the heap ----------------------------------------------------------------------------------------


@njit(cache=True)
def _over(a, b, gain, partner, first):
    """Whether set a is nearer the top than set b."""
    if gain[a] != gain[b]:
        return gain[a] > gain[b]
    return _ahead(first, a, partner[a], b, partner[b])


@njit(cache=True)
def _push(heap, held, a, gain, partner, first):
    place = held
    while place > 0:
        up = (place - 1) // 2
        if not _over(a, heap[up], gain, partner, first):
            break
        heap[place] = heap[up]
        place = up
    heap[place] = a
    return held + 1


@njit(cache=True)
def _sift(heap, held, gain, partner, first):
    """Restore the heap after its top was replaced."""
    if held == 0:
        return
    a, place = heap[0], 0
    while 2 * place + 1 < held:
        down = 2 * place + 1
        if down + 1 < held and _over(heap[down + 1], heap[down], gain, partner, first):
            down += 1
        if not _over(heap[down], a, gain, partner, first):
            break
        heap[place] = heap[down]
        place = down
    heap[place] = a
