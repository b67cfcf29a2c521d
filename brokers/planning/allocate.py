"""The stronger allocator: moves and swaps of clients from several starts.

What a move saves is estimated for all clients and channels at once, from the plans that stand: a client that
joins puts each of its queries where it costs least, one that leaves lets its sets shrink. The most promising
changes are then weighed in full, with the channels merged anew, and the first that saves is made. Swaps are
tried when no move is left. From a local optimum some clients are thrown to other channels, and the search
goes on from there; what it ends with is kept if it is better.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.planning import search
from brokers.planning.channels import (
    Allocation,
    ChannelCosts,
    Clients,
    allocation_of,
    clients_on,
    initial,
    k_means,
    saving,
)
from brokers.planning.model import Floats
from brokers.planning.plan import Plan
from brokers.planning.problem import constants
from brokers.planning.sizes import hull_size

MOVES_WEIGHED = 12  # in full, per step
SWAPS_WEIGHED = 60
THROWN_SHARE = 0.08  # of the clients, to leave a local optimum


def allocate(costs: ChannelCosts, seed: int, throws: int = 12) -> Allocation:
    """A good allocation, the same for a seed. O(clients * queries * sets) per step, for the estimates.

    Starts are the initial allocation of the source, k-means and one channel for all; more `throws` search longer.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    count = len(costs.clients)
    starts = [initial(costs), k_means(costs, seed).channel.tolist(), [0] * count]
    found = [_improved(costs, start) for start in starts]
    best = min(found, key=lambda channel: _total(costs, channel))
    for _ in range(throws if costs.channels > 1 else 0):
        thrown = list(best)
        for client in random.choice(count, max(1, round(THROWN_SHARE * count)), replace=False):
            thrown[client] = int(random.integers(costs.channels))
        candidate = _improved(costs, thrown)
        if _total(costs, candidate) < _total(costs, best):
            best = candidate
    return allocation_of(costs, best, _polished(costs, best))


def _total(costs: ChannelCosts, channel: Sequence[int]) -> float:
    return costs.total(clients_on(channel, costs.channels))


def _polished(costs: ChannelCosts, channel: Sequence[int]) -> dict[int, Plan]:
    """The plan of each channel after a search with moves, where there is a kernel for it."""
    plans: dict[int, Plan] = {}
    for k, clients in enumerate(clients_on(channel, costs.channels)):
        if not clients:
            continue
        plan = costs.plan(clients)
        problem = plan.problem
        if costs.problem.bounding and not costs.clamp and len(problem) <= search.QUERIES_MAX:
            plan = search.directed_search(problem, plan.group[None], moves=True)  # type: ignore[arg-type]
        plans[k] = plan
    return plans


def _improved(costs: ChannelCosts, start: Sequence[int]) -> list[int]:
    """A local optimum for the changes that the estimates think of."""
    channel = list(start)
    while _change(costs, channel):
        pass
    return channel


def _change(costs: ChannelCosts, channel: list[int]) -> bool:
    """Make one change that saves; whether there was one."""
    held = clients_on(channel, costs.channels)
    leave, join = _estimates(costs, channel, held)
    clients = np.arange(len(channel))
    here = np.array(channel)
    join[clients, here] = np.inf
    move = leave[:, None] + join
    for place in np.argsort(move, axis=None, kind="stable")[:MOVES_WEIGHED].tolist():
        client, new = divmod(place, costs.channels)
        if new != channel[client]:
            old = channel[client]
            if saving(costs, held, {old: ((client,), ()), new: ((), (client,))}) > 0:
                channel[client] = new
                return True
    swap = leave[:, None] + leave[None] + join[:, here] + join[:, here].T
    swap[np.tri(len(channel), dtype=bool)] = np.inf
    best = np.argpartition(swap, SWAPS_WEIGHED, axis=None)[:SWAPS_WEIGHED] if swap.size > SWAPS_WEIGHED else (
        np.arange(swap.size)
    )
    for place in best[np.lexsort((best, swap.ravel()[best]))].tolist():
        a, b = divmod(place, len(channel))
        if np.isfinite(swap[a, b]) and _swap_saves(costs, channel, held, a, b):
            channel[a], channel[b] = channel[b], channel[a]
            return True
    return False


def _swap_saves(costs: ChannelCosts, channel: list[int], held: Sequence[Clients], a: int, b: int) -> bool:
    return saving(costs, held, {channel[a]: ((a,), (b,)), channel[b]: ((b,), (a,))}) > 0


def _estimates(
    costs: ChannelCosts, channel: Sequence[int], held: Sequence[Clients]
) -> tuple[Floats, NDArray[np.float64]]:
    """What each client's leaving its channel adds [clients], and its joining each [clients, channels]."""
    problem, queries = costs.problem, costs.problem.queries
    n = len(problem)
    group, on, sets = np.empty(n, np.int64), np.empty(n, np.int64), 0
    for k, clients in enumerate(held):
        if clients:
            plan = costs.plan(clients)
            rows = costs.rows_of(clients)
            group[rows], on[rows] = plan.group + sets, k
            sets += len(plan.channel)
    starts = np.zeros(len(costs.rows) + 1, np.int64)
    np.cumsum([len(rows) for rows in costs.rows], out=starts[1:])
    return _estimate(
        problem.size.table, queries.low, queries.high, (*constants(problem.costs), problem.costs.share),
        np.concatenate(costs.rows), starts, np.array(channel), group, sets, on, costs.own,
        np.array(costs.weights),
    )  # fmt: skip


@njit(cache=True)
def _estimate(table, low, high, constants, rows, starts, channel, group, sets, on, own, weights):
    n, d = low.shape
    per_message, per_object, irrelevant, share = constants
    channels, clients = weights.size, starts.size - 1
    # Boxes of the sets, then of the queries, then one of scratch.
    bottom, top = np.full((sets + n + 1, d), np.inf), np.full((sets + n + 1, d), -np.inf)
    members, of_channel = np.zeros(sets, np.int64), np.zeros(sets, np.int64)
    for i in range(n):
        s = group[i]
        members[s] += 1
        of_channel[s] = on[i]
        for k in range(d):
            bottom[s, k] = min(bottom[s, k], low[i, k])
            top[s, k] = max(top[s, k], high[i, k])
            bottom[sets + i, k] = low[i, k]
            top[sets + i, k] = high[i, k]
    size, sent = np.empty(sets), np.zeros(channels)
    for s in range(sets):
        size[s] = hull_size(table, bottom, top, s, s)
        sent[of_channel[s]] += size[s]
    listeners = np.zeros(channels)
    for c in range(clients):
        listeners[channel[c]] += 1

    join = np.empty((clients, channels))
    for c in range(clients):
        for k in range(channels):
            join[c, k] = share * sent[k] - (irrelevant + share) * own[c]
        for place in range(starts[c], starts[c + 1]):
            i = rows[place]
            alone = hull_size(table, low, high, i, i)
            best = np.empty(channels)
            for k in range(channels):
                best[k] = per_message + (per_object + share * (listeners[k] + 1) + irrelevant) * alone
            for s in range(sets):
                k = of_channel[s]
                both = hull_size(table, bottom, top, s, sets + i)
                each = per_object + share * (listeners[k] + 1)
                more = each * (both - size[s])
                more += irrelevant * ((members[s] + 1) * both - members[s] * size[s])
                best[k] = min(best[k], more)
            for k in range(channels):
                join[c, k] += best[k]
    for c in range(clients):
        for k in range(channels):
            join[c, k] *= weights[k]

    order = np.argsort(group, kind="mergesort")
    begin = np.searchsorted(group[order], np.arange(sets + 1))
    leave = np.empty(clients)
    stays = np.ones(n, np.bool_)
    scratch = sets + n
    for c in range(clients):
        k = channel[c]
        each = per_object + share * (listeners[k] - 1)
        saved = share * sent[k] - (irrelevant + share) * own[c]
        for place in range(starts[c], starts[c + 1]):
            stays[rows[place]] = False
        for place in range(starts[c], starts[c + 1]):
            s = group[rows[place]]
            done = False
            for other in range(starts[c], place):
                done |= group[rows[other]] == s
            if done:
                continue
            left = 0
            bottom[scratch], top[scratch] = np.inf, -np.inf
            for at in range(begin[s], begin[s + 1]):
                i = order[at]
                if stays[i]:
                    left += 1
                    for axis in range(d):
                        bottom[scratch, axis] = min(bottom[scratch, axis], low[i, axis])
                        top[scratch, axis] = max(top[scratch, axis], high[i, axis])
            rest = hull_size(table, bottom, top, scratch, scratch) if left else 0.0
            saved += 0.0 if left else per_message
            saved += each * (size[s] - rest) + irrelevant * (members[s] * size[s] - left * rest)
        for place in range(starts[c], starts[c + 1]):
            stays[rows[place]] = True
        leave[c] = -weights[k] * saved
    return leave, join
