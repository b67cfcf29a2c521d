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

from brokers.planning import search
from brokers.planning.allocation import (
    Allocation,
    ChannelCosts,
    Clients,
    allocation_of,
    channel_merging,
    clients_on,
    initial,
    k_means,
    saving,
)
from brokers.planning.plan import Plan
from brokers.planning.problem import constants
from brokers.planning.sizes import hull_size

THROWS_MAX, THROWN_CLIENTS = 80, 2000  # without `throws`: so many clients in all, in up to so many throws
MOVES_WEIGHED = 60  # in full, per step
SWAPS_WEIGHED = 60
THROWN_SHARE = 0.15  # of the clients, to leave a local optimum


def allocate(costs: ChannelCosts, seed: int, throws: int | None = None) -> Allocation:
    """A good allocation, the same for a seed. O(clients * queries * sets) per step, for the estimates.

    Starts are the initial allocation of the source, one channel for all, and what channel merging and k-means end with,
    so that it is never worse than these; more `throws` search longer.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    count = len(costs.clients)
    if throws is None:
        throws = min(THROWS_MAX, THROWN_CLIENTS // count)
    begin = initial(costs)
    ends = [found.channel.tolist() for found in (channel_merging(costs, begin), k_means(costs, seed))]
    starts = [begin, *ends, [0] * count]
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
    estimates = _Estimates(costs)
    changed: Sequence[int] = range(costs.channels)
    while changed:
        held = clients_on(channel, costs.channels)
        estimates.refresh(channel, held, changed)
        changed = _change(costs, estimates, channel, held)
    return channel


def _change(
    costs: ChannelCosts, estimates: _Estimates, channel: list[int], held: Sequence[Clients]
) -> Sequence[int]:
    """Make one change that saves; the channels it changed, none if there is no such change."""
    count = len(channel)
    leave, join = estimates.leave, estimates.join
    move = leave[:, None] + join
    for place in np.argsort(move, axis=None, kind="stable")[:MOVES_WEIGHED].tolist():
        client, new = divmod(place, costs.channels)
        old = channel[client]
        if new != old and saving(costs, held, {old: ((client,), ()), new: ((), (client,))}) > 0:
            channel[client] = new
            return old, new
    here = np.array(channel)
    swap = leave[:, None] + leave[None] + join[:, here] + join[:, here].T
    swap[here[:, None] == here[None]] = np.inf
    swap[np.tri(count, dtype=bool)] = np.inf
    for place in np.argsort(swap, axis=None, kind="stable")[:SWAPS_WEIGHED].tolist():
        a, b = divmod(place, count)
        if np.isfinite(swap[a, b]) and _swap_saves(costs, channel, held, a, b):
            channel[a], channel[b] = channel[b], channel[a]
            return channel[a], channel[b]
    return ()


def _swap_saves(costs: ChannelCosts, channel: list[int], held: Sequence[Clients], a: int, b: int) -> bool:
    return saving(costs, held, {channel[a]: ((a,), (b,)), channel[b]: ((b,), (a,))}) > 0


class _Estimates:
    """What it adds to the cost when a client leaves its channel [clients], and joins each [clients, channels]."""

    def __init__(self, costs: ChannelCosts) -> None:
        n, clients = len(costs.problem), len(costs.rows)
        self.leave = np.empty(clients)
        self.join = np.empty((clients, costs.channels))
        self._costs = costs
        self._group = np.empty(n, np.int64)  # the set of each query, named by its first

    def refresh(self, channel: Sequence[int], held: Sequence[Clients], changed: Sequence[int]) -> None:
        """Estimate anew for channels whose clients changed. O(all queries * the sets of those channels)."""
        costs, problem, boxes = self._costs, self._costs.problem, self._costs.boxes
        for k in changed:
            if held[k]:
                plan, rows = costs.plan(held[k]), costs.rows_of(held[k])
                self._group[rows] = rows[np.unique(plan.group, return_index=True)[1]][plan.group]
        fresh = np.zeros(costs.channels, np.bool_)
        fresh[list(changed)] = True
        _estimate(
            boxes.table, boxes.low, boxes.high, (*constants(problem.costs), problem.costs.share), boxes.rows,
            boxes.starts, np.array(channel), self._group, fresh, costs.own, np.array(costs.weights), self.leave,
            self.join,
        )  # fmt: skip


@njit(cache=True)
def _estimate(
    table, low, high, constants, rows, starts, channel, group, fresh, own, weights, leave, join
):
    n, d = low.shape
    per_message, per_object, irrelevant, share = constants
    channels, clients = weights.size, starts.size - 1
    # Boxes of the sets by their first query, then of the queries, then one of scratch.
    bottom, top = np.full((2 * n + 1, d), np.inf), np.full((2 * n + 1, d), -np.inf)
    members, on = np.zeros(n, np.int64), np.zeros(n, np.int64)
    listeners, sent = np.zeros(channels), np.zeros(channels)
    for c in range(clients):
        listeners[channel[c]] += 1
        for place in range(starts[c], starts[c + 1]):
            i = rows[place]
            on[group[i]] = channel[c]
            members[group[i]] += 1
    sets, count, size = np.empty(n, np.int64), 0, np.zeros(n)
    for i in range(n):
        s = group[i]
        for k in range(d):
            bottom[s, k] = min(bottom[s, k], low[i, k])
            top[s, k] = max(top[s, k], high[i, k])
            bottom[n + i, k] = low[i, k]
            top[n + i, k] = high[i, k]
    for s in range(n):
        if members[s] and fresh[on[s]]:
            sets[count] = s
            count += 1
            size[s] = hull_size(table, bottom, top, s, s)
            sent[on[s]] += size[s]

    best = np.empty(channels)
    for c in range(clients):
        for k in range(channels):
            if fresh[k]:
                join[c, k] = share * sent[k] - (irrelevant + share) * own[c]
        for place in range(starts[c], starts[c + 1]):
            i = rows[place]
            alone = hull_size(table, low, high, i, i)
            for k in range(channels):
                best[k] = per_message + (per_object + share * (listeners[k] + 1) + irrelevant) * alone
            for which in range(count):
                s = sets[which]
                k = on[s]
                both = hull_size(table, bottom, top, s, n + i)
                more = (per_object + share * (listeners[k] + 1)) * (both - size[s])
                more += irrelevant * ((members[s] + 1) * both - members[s] * size[s])
                best[k] = min(best[k], more)
            for k in range(channels):
                if fresh[k]:
                    join[c, k] += best[k]
        for k in range(channels):
            if fresh[k]:
                join[c, k] *= weights[k]

    order = np.argsort(group, kind="mergesort")
    begin = np.searchsorted(group[order], np.arange(n + 1))
    stays = np.ones(n, np.bool_)
    for c in range(clients):
        k = channel[c]
        if not fresh[k]:
            continue
        saved = share * sent[k] - (irrelevant + share) * own[c]
        for place in range(starts[c], starts[c + 1]):
            stays[rows[place]] = False
        for place in range(starts[c], starts[c + 1]):
            s = group[rows[place]]
            seen = False
            for other in range(starts[c], place):
                seen |= group[rows[other]] == s
            if seen:
                continue
            left, scratch = 0, 2 * n
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
            saved += (per_object + share * (listeners[k] - 1)) * (size[s] - rest)
            saved += irrelevant * (members[s] * size[s] - left * rest)
        for place in range(starts[c], starts[c + 1]):
            stays[rows[place]] = True
        leave[c] = -weights[k] * saved
