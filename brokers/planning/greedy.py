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

from brokers.errors import EndlessWalk
from brokers.indexes.contract import Ids
from brokers.planning.kernels import set_cost
from brokers.planning.model import Floats
from brokers.planning.plan import Plan
from brokers.planning.problem import BoxProblem, constants
from brokers.planning.ranked import ranked
from brokers.planning.sizes import AREA, RANKED, hull_size, ranked_hull

EPSILON = 1e-12  # as in `plain`
GRID_QUERIES_MIN = 256
SLACK = 1 + 1e-9  # on reaches, for rounding


class Sets(NamedTuple):
    """What the grid knows of all sets there ever were: the n queries, then the merged ones by age."""

    low: Floats
    high: Floats
    members: NDArray[np.int64]
    alive: NDArray[np.bool_]


class Grid(NamedTuple):
    """Lists of the sets by the cell of their centre, on the first axes."""

    origin: Floats
    step: Floats
    cells: NDArray[np.int64]
    head: NDArray[np.int64]
    next: NDArray[np.int64]
    half: Floats  # the largest half extent of any set, per axis
    # Scratch, for one set at a time: the cells where its partners may be, and how far they may be.
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    reach: Floats


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
    return merge_pairs(*ranked(problem.size, queries.low, queries.high), fixed, axes)[:3]


@njit(cache=True)
def merge_pairs(table, low, high, constants, axes):
    """The kernel of pair merging: (number of each query's set, gains computed, merges, absolute cost).

    `axes` is on how many axes candidates are sought by reach, 0: all pairs.
    """
    # Plain arrays, one loop, few calls: a tuple of arrays that is handed on costs more than what is done with it.
    n, d = low.shape
    bottom, top = np.empty((2 * n, d)), np.empty((2 * n, d))
    bottom[:n] = low
    top[:n] = high
    members, cost = np.ones(2 * n, np.int64), np.empty(2 * n)
    first, alive, parent = np.arange(2 * n), np.ones(2 * n, np.bool_), np.full(2 * n, -1, np.int64)
    near, near_held = np.empty(2 * n, np.int64), 0  # candidates; without axes all sets there are, by age
    grid = _grid_of(low, high, axes)
    sets = Sets(bottom, top, members, alive)
    area, density = table.kind == AREA, table.density
    by_rank, below, columns = table.kind == RANKED, table.below, table.cells[-1] if table.cells.size else 0
    heap, held = np.empty(n, np.int64), 0  # sets by their best pair
    gain, partner = np.empty(2 * n), np.empty(2 * n, np.int64)
    count, evaluated = 0, 0
    while count < n or held:
        # The set `a` looks for a partner: a query that comes, the best pair merged, or who lost its partner.
        coming = count < n
        a = heap[0] if held else -1
        if coming:
            a, count = count, count + 1
        elif not alive[a]:
            held -= 1
            heap[0] = heap[held]
            _sift(heap, held, gain, partner, first)
            continue
        new = coming or alive[partner[a]]
        if new and not coming:
            one, other = a, partner[a]
            a, count = count, count + 1
            for k in range(d):
                bottom[a, k] = min(bottom[one, k], bottom[other, k])
                top[a, k] = max(top[one, k], top[other, k])
            members[a] = members[one] + members[other]
            first[a] = min(first[one], first[other])
            alive[one] = alive[other] = False
            parent[one] = parent[other] = a
        if new:
            size = density
            if area:
                for k in range(d):
                    size *= top[a, k] - bottom[a, k]
            else:
                size = hull_size(table, bottom, top, a, a)
            cost[a] = set_cost(constants, size, members[a])

        if axes:
            near_held = _near(table.density, constants, sets, grid, near, a)
        best, found, at, kept = 0.0, -1, 0, 0
        while at < near_held:
            b = near[at]
            at += 1
            if not alive[b]:
                continue
            near[kept] = b  # the dead leave the list
            kept += 1
            if b >= a:
                continue
            size = density
            if area:
                for k in range(d):
                    size *= max(top[a, k], top[b, k]) - min(bottom[a, k], bottom[b, k])
            elif by_rank:
                size = ranked_hull(below, columns, bottom, top, a, b)
            else:
                size = hull_size(table, bottom, top, a, b)
            apart = cost[a] + cost[b]
            saved = apart - set_cost(constants, size, members[a] + members[b])
            evaluated += 1
            if saved > EPSILON * apart and (found < 0 or _before(first, a, saved, b, best, found)):
                best, found = saved, b
        gain[a], partner[a] = best, found
        if axes and new:
            _enter(sets, grid, a)
        elif new:
            near[kept] = a
            near_held = kept + 1
        else:
            near_held = kept

        if coming:
            if found >= 0:
                held = _push(heap, held, a, gain, partner, first)
            continue
        # The new entry takes the place of the top.
        if found >= 0:
            heap[0] = a
        else:
            held -= 1
            heap[0] = heap[held]
        _sift(heap, held, gain, partner, first)
    total = 0.0
    for s in range(count):
        if alive[s]:
            total += cost[s]
    return _numbers(parent, n), evaluated, count - n, total


@njit(cache=True)
def _numbers(parent, n):
    """The root of each query. Roots are younger than what they hold."""
    root = np.arange(parent.size)
    for i in range(parent.size - 1, -1, -1):
        if parent[i] >= 0:
            root[i] = root[parent[i]]
    return root[:n].copy()


@njit(cache=True, inline="always")
def _before(first, a, gain_b, b, gain_c, c):
    """Whether a with b comes before a with c: more gain, then lower first queries."""
    if gain_b != gain_c:
        return gain_b > gain_c
    return _ahead(first, a, b, a, c)


@njit(cache=True, inline="always")
def _ahead(first, a, b, c, d):
    """Whether the pair a, b has lower first queries than the pair c, d."""
    low_1, high_1 = min(first[a], first[b]), max(first[a], first[b])
    low_2, high_2 = min(first[c], first[d]), max(first[c], first[d])
    return low_1 < low_2 or (low_1 == low_2 and high_1 < high_2)


@njit(cache=True)
def _near(density, constants, sets, grid, near, a):
    """The older sets within reach of a set, into `near`; how many."""
    axes = grid.cells.size
    low, high, alive = sets.low, sets.high, sets.alive
    first, last, reach = grid.first, grid.last, grid.reach
    for k in range(axes):
        cross = density
        for other in range(low.shape[1]):
            if other != k:
                cross *= high[a, other] - low[a, other]
        rate = (constants[1] + constants[2] * sets.members[a]) * cross
        reach[k] = SLACK * constants[0] / rate
        wide = reach[k] + grid.half[k]
        first[k] = _cell(grid, k, low[a, k] - wide)
        last[k] = _cell(grid, k, high[a, k] + wide)
    head, next_ = grid.head, grid.next
    count = 0
    columns = grid.cells[1] if axes == 2 else 1
    for row in range(first[0], last[0] + 1):
        for column in range(first[1], last[1] + 1):
            cell = row * columns + column
            before, b = -1, head[cell]
            for _ in range(next_.size + 1):
                if b < 0:
                    break
                following = next_[b]
                if alive[b]:
                    within = b < a
                    for k in range(axes):
                        within &= low[b, k] - high[a, k] <= reach[k] and low[a, k] - high[b, k] <= reach[k]
                    if within:
                        near[count] = b
                        count += 1
                    before = b
                # Dead sets leave the list when someone comes by.
                elif before < 0:
                    head[cell] = following
                else:
                    next_[before] = following
                b = following
            else:
                raise EndlessWalk("the sets of a cell form a ring")
    return count


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
    return Grid(
        origin, step, cells, np.full(places, -1, np.int64), np.full(2 * n, -1, np.int64), np.zeros(axes),
        np.zeros(2, np.int64), np.zeros(2, np.int64), np.zeros(2),
    )  # fmt: skip


@njit(cache=True, inline="always")
def _cell(grid, k, x):
    at = (x - grid.origin[k]) / grid.step[k]
    return int(min(max(at, 0.0), float(grid.cells[k] - 1)))


@njit(cache=True, inline="always")
def _enter(sets, grid, a):
    place = 0
    for k in range(grid.cells.size):
        half = 0.5 * (sets.high[a, k] - sets.low[a, k])
        grid.half[k] = max(grid.half[k], SLACK * half)
        place = place * grid.cells[k] + _cell(grid, k, sets.low[a, k] + half)
    grid.next[a] = grid.head[place]
    grid.head[place] = a


# ---- the heap ----------------------------------------------------------------------------------------


@njit(cache=True, inline="always")
def _over(a, b, gain, partner, first):
    """Whether set a is nearer the top than set b."""
    if gain[a] != gain[b]:
        return gain[a] > gain[b]
    return _ahead(first, a, partner[a], b, partner[b])


@njit(cache=True, inline="always")
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


@njit(cache=True, inline="always")
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
