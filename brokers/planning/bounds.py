"""Prices: what every query has to contribute at least, whatever the plan. They bound plans from below.

Prices are feasible if no set of queries is priced above its (absolute) cost. Then no plan costs less than all
prices together, and none of the queries that are left, with any sets, less than theirs. With bounding boxes it is
enough to look at boxes: merging some of the queries inside a box B costs at least as if they were merged
into B, so prices are feasible iff for every box spanned by ends of queries

    sum over queries in B of max(0, price - K_U size(B)) <= K_M + K_T size(B).

Only boxes that are the hull of what they hold matter: n^4 / 4 at most on two axes, far fewer in practice. Prices
start at the least share of a query in the cost of a box, which is feasible, and are then raised in turn by a
part of what the boxes leave, at last by all of it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.planning.model import Floats
from brokers.planning.problem import BoxProblem, Problem, constants
from brokers.planning.sizes import box_size

PRICED_QUERIES_MAX = 62
BOXES_MAX = 1 << 22
ROUNDS = 24
RAISED_SHARE = 0.2  # of what is left, per round


def lower_bound(problem: Problem, priced_max: int = PRICED_QUERIES_MAX) -> float:
    """No plan has a lower differential cost: the union is sent once at least, in one message at least;
    for up to `priced_max` bounding boxes of up to two dimensions also their prices."""
    if len(problem) == 0:
        return 0.0
    sent = problem.union_size()
    bound = problem.costs.per_message + (problem.costs.per_object * sent if problem.costs.per_object else 0.0)
    if isinstance(problem, BoxProblem) and can_price(problem) and len(problem) <= priced_max:
        found = prices(problem)
        if found is not None:
            bound = max(bound, float(found.sum()) - problem.relevant_cost)
    return bound


def can_price(problem: Problem) -> bool:
    """Whether there are prices for these queries."""
    return (
        isinstance(problem, BoxProblem)
        and problem.bounding
        and problem.queries.dimensions <= 2
        and len(problem) <= PRICED_QUERIES_MAX
    )


def prices(problem: BoxProblem) -> Floats | None:
    """Feasible prices of the queries; None if there are too many boxes. O(n^4) boxes for each query and round."""
    queries = problem.queries
    n, d = queries.low.shape
    # One dimension is two, one thick; the size does not see the second.
    low, high = np.zeros((n, 2)), np.ones((n, 2))
    low[:, :d], high[:, :d] = queries.low, queries.high
    fixed = constants(problem.costs)
    alone = fixed[0] + (fixed[1] + fixed[2]) * problem.sizes
    bottom, top, size = _hulls(problem.size.table, d, low, high, fixed, float(alone.max()))
    if len(size) > BOXES_MAX:
        return None
    # A little less than feasible, against rounding.
    return np.asarray(_priced(low, high, bottom, top, size, fixed)) * (1 - 1e-9)


@njit(cache=True)
def _hulls(table, dimensions, low, high, constants, price_max):
    """Boxes that are the hull of the queries inside them, and might bind: (low, high, size)."""
    lows_0, highs_0 = np.unique(low[:, 0]), np.unique(high[:, 0])
    lows_1, highs_1 = np.unique(low[:, 1]), np.unique(high[:, 1])
    n, held = low.shape[0], 0
    bottom, top, size = np.empty((64, 2)), np.empty((64, 2)), np.empty(64)
    inside = np.empty(n, np.int64)
    box_low, box_high = np.empty(2), np.empty(2)
    for a in lows_0:
        for b in highs_0:
            count = 0
            for i in range(n):
                if low[i, 0] >= a and high[i, 0] <= b:
                    inside[count] = i
                    count += 1
            if count == 0:
                continue
            for c in lows_1:
                for e in highs_1:
                    box_low[0], box_low[1], box_high[0], box_high[1] = a, c, b, e
                    if not _tight(low, high, inside, count, box_low, box_high):
                        continue
                    amount = box_size(table, box_low[:dimensions], box_high[:dimensions])
                    if constants[2] * amount > price_max:
                        break
                    if held > BOXES_MAX:
                        return bottom, top, np.empty(BOXES_MAX + 1)
                    if held == size.size:
                        bottom = np.concatenate((bottom, np.empty_like(bottom)))
                        top = np.concatenate((top, np.empty_like(top)))
                        size = np.concatenate((size, np.empty_like(size)))
                    bottom[held], top[held], size[held] = box_low, box_high, amount
                    held += 1
    return bottom[:held].copy(), top[:held].copy(), size[:held].copy()


@njit(cache=True)
def _tight(low, high, inside, count, box_low, box_high):
    left = right = down = up = False
    for k in range(count):
        i = inside[k]
        if low[i, 1] >= box_low[1] and high[i, 1] <= box_high[1]:
            left |= low[i, 0] == box_low[0]
            right |= high[i, 0] == box_high[0]
            down |= low[i, 1] == box_low[1]
            up |= high[i, 1] == box_high[1]
    return left and right and down and up


@njit(cache=True)
def _holds(low, high, i, bottom, top, box):
    inside = low[i, 0] >= bottom[box, 0] and high[i, 0] <= top[box, 0]
    return inside and low[i, 1] >= bottom[box, 1] and high[i, 1] <= top[box, 1]


@njit(cache=True)
def _priced(low, high, bottom, top, size, constants):
    n, boxes = low.shape[0], size.size
    price = np.full(n, np.inf)
    for box in range(boxes):
        held = 0
        for i in range(n):
            held += _holds(low, high, i, bottom, top, box)
        share = constants[2] * size[box] + (constants[0] + constants[1] * size[box]) / held
        for i in range(n):
            if _holds(low, high, i, bottom, top, box):
                price[i] = min(price[i], share)
    charged = np.zeros(boxes)  # the left side of each box
    for box in range(boxes):
        for i in range(n):
            if _holds(low, high, i, bottom, top, box):
                charged[box] += max(0.0, price[i] - constants[2] * size[box])
    for turn in range(ROUNDS):
        for step in range(n):
            i = step if turn % 2 == 0 else n - 1 - step
            most = np.inf
            for box in range(boxes):
                if _holds(low, high, i, bottom, top, box):
                    floor = constants[2] * size[box]
                    left = constants[0] + constants[1] * size[box] - charged[box]
                    most = min(most, floor + max(0.0, price[i] - floor) + left)
            part = 1.0 if turn == ROUNDS - 1 else RAISED_SHARE
            raised = price[i] + part * max(0.0, most - price[i])
            for box in range(boxes):
                if _holds(low, high, i, bottom, top, box):
                    floor = constants[2] * size[box]
                    charged[box] += max(0.0, raised - floor) - max(0.0, price[i] - floor)
            price[i] = raised
    return price
