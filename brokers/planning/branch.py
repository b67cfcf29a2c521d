"""The kernel of branch and bound over bounding boxes.

Given feasible prices (see `bounds`), let the excess of a set be its cost less the prices of its members; it is
never negative, and a plan costs all prices and the excesses of its sets. So a plan that beats a known cost has
sets whose excesses together stay below known cost - prices. The lowest query that is left opens a set; for each
query that may join it, it does or it does not. A set that may still be joined by some of J has an excess of at
least

    cost(S) - prices(S) - sum over j in J of max(0, price j - K_U size(mrg(S, j))),

since every member that joins receives at least the merged box of the set and itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.planning.kernels import set_cost
from brokers.planning.model import Floats
from brokers.planning.sizes import hull_size

SLACK = 1e-12


class Stack(NamedTuple):
    """What is still to be looked at. The open set of an entry is box n + placed."""

    placed: NDArray[np.int64]  # queries with a set
    opened: NDArray[np.int64]  # sets
    may: NDArray[np.int64]  # bits of those that may join the open set
    left: NDArray[np.int64]  # bits of those without a set
    members: NDArray[np.int64]  # of the open set
    priced: Floats  # the prices of its members
    excess: Floats  # of the closed sets


@njit(cache=True)
def branch(table, low, high, price, constants, cost_known, nodes_max):
    """A partition cheaper than a known cost, if there is one: (numbers, absolute cost, nodes).

    Gives up beyond `nodes_max` nodes. Up to 62 queries.
    """
    n, d = low.shape
    # Boxes of the queries, then of the open set by how many queries are placed. An entry of the stack is looked
    # at after everything deeper, which writes only behind its own box and number.
    bottom, top = np.empty((2 * n + 1, d)), np.empty((2 * n + 1, d))
    bottom[:n] = low
    top[:n] = high
    number, best = np.zeros(n, np.int64), np.zeros(n, np.int64)
    gain = np.zeros(n)
    priced_all, cost_best, nodes = price.sum(), cost_known, 0
    deep = 2 * n + 4
    stack = Stack(
        np.zeros(deep, np.int64), np.zeros(deep, np.int64), np.zeros(deep, np.int64), np.zeros(deep, np.int64),
        np.zeros(deep, np.int64), np.zeros(deep), np.zeros(deep),
    )  # fmt: skip
    held = _open(stack, 0, bottom, top, number, price, 0, 0, (1 << n) - 1, 0.0)
    while held:
        held -= 1
        nodes += 1
        if nodes > nodes_max:
            break
        placed, opened, members = stack.placed[held], stack.opened[held], stack.members[held]
        may, left = stack.may[held], stack.left[held]
        priced, excess = stack.priced[held], stack.excess[held]
        box = n + placed
        cost = set_cost(constants, hull_size(table, bottom, top, box, box), members)
        room = cost_best * (1 - SLACK) - priced_all - excess
        least = cost - priced
        for j in range(n):
            if may >> j & 1:
                gain[j] = price[j] - constants[2] * hull_size(table, bottom, top, box, j)
                least -= max(0.0, gain[j])
        if least >= room:
            continue
        pick = -1
        for j in range(n):
            if may >> j & 1:
                if least - min(0.0, gain[j]) >= room:
                    may &= ~(1 << j)  # with it there is no room, whoever else joins
                elif pick < 0 or gain[j] > gain[pick]:
                    pick = j
        if pick >= 0:
            bit = 1 << pick
            _push(stack, held, placed, opened, may & ~bit, left, members, priced, excess)
            for k in range(d):
                bottom[box + 1, k] = min(bottom[box, k], bottom[pick, k])
                top[box + 1, k] = max(top[box, k], top[pick, k])
            number[pick] = opened - 1
            _push(
                stack, held + 1, placed + 1, opened, may & ~bit, left & ~bit, members + 1,
                priced + price[pick], excess,
            )  # fmt: skip
            held += 2
        elif left:
            held = _open(stack, held, bottom, top, number, price, placed, opened, left, excess + cost - priced)
        else:
            cost_best = priced_all + excess + cost - priced
            best[:] = number
    return best, cost_best, nodes


@njit(cache=True)
def _open(stack, held, bottom, top, number, price, placed, opened, left, excess):
    """Give the lowest query that is left a set of its own, for others to join."""
    first = 0
    while not left >> first & 1:
        first += 1
    box = price.size + placed + 1
    for k in range(bottom.shape[1]):
        bottom[box, k] = bottom[first, k]
        top[box, k] = top[first, k]
    number[first] = opened
    rest = left & ~(1 << first)
    _push(stack, held, placed + 1, opened + 1, rest, rest, 1, price[first], excess)
    return held + 1


@njit(cache=True)
def _push(stack, at, placed, opened, may, left, members, priced, excess):
    stack.placed[at], stack.opened[at], stack.members[at] = placed, opened, members
    stack.may[at], stack.left[at] = may, left
    stack.priced[at], stack.excess[at] = priced, excess
