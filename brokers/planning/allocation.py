"""Channels (section 7): which client listens to which of a fixed number of multicast channels.

Every client listens to one channel, and to all of it. Merging happens per channel, among the queries of its
clients; a channel costs what its plan costs, and for each of its clients

    K_S ( size(M_i) - sum of the sizes of the client's own queries )

The bracket is negative where a client's queries overlap more than its channel wastes. It is taken literally,
or not below 0 with `clamp`. Costs of channels are summed, by weight where there are weights.

With bounding boxes and pair merging a channel is one kernel call, and so are all channels that differ from one
by a client; any other procedure or merge works too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.indexes.contract import Ids, claim
from brokers.planning import greedy, plain
from brokers.planning.model import BadAllocation, Floats, TooLarge
from brokers.planning.plan import Plan, by_first_row
from brokers.planning.problem import BoxProblem
from brokers.planning.ranked import ranked
from brokers.planning.sizes import SizeTable

LEAVES_MAX = 1_000_000
EPSILON = 1e-12  # a saving below this part of the costs it is taken from is rounding

Clients = tuple[int, ...]  # positions in `ChannelCosts.clients`, ascending
Merge = Callable[[Any], Plan]


@dataclass(frozen=True, eq=False)
class Allocation:
    """Clients on channels, and the plan of what is sent on them; its cost is that of all channels."""

    plan: Plan
    clients: Ids
    channel: Ids  # [clients]
    channels: int
    evaluated: int  # channels whose cost was computed

    @property
    def cost(self) -> float:
        return self.plan.cost

    def check(self) -> None:
        """Every invariant: those of the plan, and every query is sent on its client's channel."""
        self.plan.check()
        claim(((self.channel >= 0) & (self.channel < self.channels)).all(), "every client has a channel")
        problem = self.plan.problem
        assert isinstance(problem, BoxProblem)
        own = self.channel[np.searchsorted(self.clients, problem.queries.clients)]
        claim(np.array_equal(self.plan.channel[self.plan.group], own), "queries go to their client's channel")


class ChannelCosts:
    """What a set of clients costs on a channel of weight 1, each set computed once."""

    def __init__(
        self,
        problem: BoxProblem,
        channels: int,
        weights: Sequence[float] | None = None,
        merge: Merge | None = None,
        clamp: bool = False,
    ) -> None:
        self.problem = problem
        self.clients, owner = np.unique(problem.queries.clients, return_inverse=True)
        self.rows = [np.flatnonzero(owner == client) for client in range(len(self.clients))]
        self.own = np.array([problem.sizes[rows].sum() for rows in self.rows])
        self.channels = checked_channels(channels)
        if channels > len(self.clients):
            raise BadAllocation(f"{channels} channels for {len(self.clients)} clients; pass at most one per client")
        self.weights = checked_weights(weights, channels)
        self.clamp = clamp
        self.evaluated = 0
        self._merge = merge
        self._known: dict[Clients, float] = {(): 0.0}
        starts = np.zeros(len(self.rows) + 1, np.int64)
        np.cumsum([len(rows) for rows in self.rows], out=starts[1:])
        costs, queries = problem.costs, problem.queries
        self.boxes = Boxes(
            *ranked(problem.size, queries.low, queries.high), np.concatenate(self.rows), starts, self.own,
            costs.per_message, np.array([costs.on_channel(count).per_object for count in range(len(starts))]),
            costs.irrelevant, costs.irrelevant + costs.share,
        )  # fmt: skip

    def __call__(self, clients: Clients) -> float:
        """The cost of a channel for these clients. O(merging their queries) once."""
        if clients not in self._known:
            self._known[clients] = self._fast(clients) if self._has_kernel else self._slow(clients)
            self.evaluated += 1
        return self._known[clients]

    def pairs(self) -> Floats:
        """[clients, clients] the cost of a channel for each two clients, above the diagonal."""
        count = len(self.clients)
        if self._has_kernel:
            self.evaluated += count * (count - 1) // 2
            return np.asarray(_costs_of_pairs(self.boxes))
        found = np.zeros((count, count))
        for a in range(count):
            for b in range(a + 1, count):
                found[a, b] = self((a, b))
        return found

    def changed(self, clients: Clients) -> Floats:
        """[clients] the cost of this channel once a client has joined it or, if it listens, has left it."""
        every = range(len(self.clients))
        if self._has_kernel:
            self.evaluated += len(every)
            return np.asarray(_costs_changed(self.boxes, np.array(clients, np.int64)))
        return np.array([self(tuple(sorted({*clients} ^ {client}))) for client in every])

    def plan(self, clients: Clients) -> Plan:
        """The merged queries of a channel. Its rows are the clients' rows in order."""
        problem = self.problem.subset(self.rows_of(clients)).with_costs(self._costs(clients))
        if self._merge is not None:
            return self._merge(problem)
        return greedy.pair_merging(problem) if problem.bounding else plain.pair_merging(problem)

    def rows_of(self, clients: Clients) -> Ids:
        """The queries of these clients."""
        return np.concatenate([self.rows[client] for client in clients])

    def sharing(self, clients: Clients, sent: float) -> float:
        """What the clients of a channel overhear, at K_S each."""
        beyond = sent - self.own[list(clients)]
        if self.clamp:
            beyond = np.maximum(beyond, 0.0)
        return self.problem.costs.share * float(beyond.sum())

    def cost_of(self, clients: Clients, plan: Plan) -> float:
        """The cost of a channel with a plan for its clients' rows."""
        problem = self.problem.subset(self.rows_of(clients))
        sets = plan.sets()
        sent = sum(problem.estimate(members).size for members in sets)
        return problem.total(sets) - problem.relevant_cost + self.sharing(clients, sent)

    def total(self, allocation: Sequence[Clients]) -> float:
        """The cost of all channels, by weight."""
        return math.fsum(weight * self(clients) for weight, clients in zip(self.weights, allocation))

    def _costs(self, clients: Clients) -> Any:
        # Merging on a channel weighs what its clients overhear as well.
        return self.problem.costs.on_channel(len(clients))

    @property
    def _has_kernel(self) -> bool:
        return self._merge is None and self.problem.bounding and not self.clamp

    def _slow(self, clients: Clients) -> float:
        return self.cost_of(clients, self.plan(clients))

    def _fast(self, clients: Clients) -> float:
        return float(_channel_cost(self.boxes, np.array(clients, np.int64)))


# ---- kernels -------------------------------------------------------------------------------------------


class Boxes(NamedTuple):
    """What kernels know of clients and their queries; arrays are by client."""

    table: SizeTable
    low: Floats  # of all queries
    high: Floats
    rows: Ids  # those of client c from starts[c] to starts[c + 1]
    starts: Ids
    own: Floats  # size of a client's queries
    per_message: float
    per_object: Floats  # by how many clients hear it
    irrelevant: float
    relevant: float  # per object of a client's own, what the cost of a channel leaves out


@njit(cache=True)
def _channel_cost(boxes, clients):
    """The cost of a channel for clients in ascending order."""
    if clients.size == 0:
        return 0.0
    count = 0
    for client in clients:
        count += boxes.starts[client + 1] - boxes.starts[client]
    low, high = np.empty((count, boxes.low.shape[1])), np.empty((count, boxes.low.shape[1]))
    at, own = 0, 0.0
    for client in clients:
        own += boxes.own[client]
        for place in range(boxes.starts[client], boxes.starts[client + 1]):
            low[at] = boxes.low[boxes.rows[place]]
            high[at] = boxes.high[boxes.rows[place]]
            at += 1
    constants = (boxes.per_message, boxes.per_object[clients.size], boxes.irrelevant)
    return greedy.merge_pairs(boxes.table, low, high, constants, np.int64(0))[3] - boxes.relevant * own


@njit(cache=True)
def _costs_changed(boxes, clients):
    every = boxes.own.size
    there = np.zeros(every, np.bool_)
    there[clients] = True
    out = np.empty(every)
    for client in range(every):
        there[client] = not there[client]
        out[client] = _channel_cost(boxes, np.flatnonzero(there))
        there[client] = not there[client]
    return out


@njit(cache=True)
def _costs_of_pairs(boxes):
    every = boxes.own.size
    out, two = np.zeros((every, every)), np.empty(2, np.int64)
    for a in range(every):
        for b in range(a + 1, every):
            two[0], two[1] = a, b
            out[a, b] = _channel_cost(boxes, two)
    return out


# ---- algorithms --------------------------------------------------------------------------------------


def allocations(clients: int, channels: int, labelled: bool = False) -> Iterator[list[int]]:
    """Every way to put clients on up to so many channels (Figure 8), as the channel of each.

    Channels are alike unless `labelled`. The print opens a further channel while there are up to `ch`, which
    gives one too many; here it is while there are fewer.
    """
    channel = [0] * clients

    def place(client: int, used: int) -> Iterator[list[int]]:
        if client == clients:
            yield channel
            return
        for chosen in range(channels if labelled else min(used + 1, channels)):
            channel[client] = chosen
            yield from place(client + 1, max(used, chosen + 1))

    return place(0, 0)


def leaves(clients: int, channels: int, labelled: bool = False) -> int:
    """How many `allocations` there are: channels^clients, or the sum of the Stirling numbers. O(n ch)."""
    if labelled:
        return channels**clients
    row = [1] + [0] * channels  # Stirling numbers of the second kind
    for _ in range(clients):
        row = [0] + [row[j - 1] + j * row[j] for j in range(1, channels + 1)]
    return sum(row)


def exhaustive(costs: ChannelCosts) -> Allocation:
    """The cheapest of all allocations. Figure 8."""
    count, channels = len(costs.clients), costs.channels
    labelled = len(set(costs.weights)) > 1
    ways = leaves(count, channels, labelled)
    if ways > LEAVES_MAX:
        raise TooLarge(
            f"the exhaustive allocation would weigh {ways:.3g} allocations of {count} clients to {channels} "
            f"channels; it takes up to {LEAVES_MAX:,}; use channel merging or the stronger allocator"
        )
    best, cost_min = [0] * count, math.inf
    for channel in allocations(count, channels, labelled):
        cost = costs.total(clients_on(channel, channels))
        if cost < cost_min:
            best, cost_min = list(channel), cost
    return allocation_of(costs, best)


def initial(costs: ChannelCosts) -> list[int]:
    """The initial allocation of Figure 9: the channel of each client. O(n^2) channels of two clients."""
    count = len(costs.clients)
    alone = costs.changed(())
    first, second = np.triu_indices(count, 1)
    saved = alone[first] + alone[second] - costs.pairs()[first, second]
    order = np.argsort(-saved, kind="stable")
    channel, current = [-1] * count, 0
    for a, b in zip(first[order].tolist(), second[order].tolist()):
        if channel[a] < 0 and channel[b] < 0:
            channel[a] = channel[b] = current
            current = (current + 1) % costs.channels
    for client in range(count):
        if channel[client] < 0:
            channel[client] = current
            current = (current + 1) % costs.channels
    return channel


def channel_merging(costs: ChannelCosts, start: Sequence[int] | None = None) -> Allocation:
    """Move the client that saves most to another channel until none saves anything. Figure 10.

    The print takes new less old cost for the saving, and then the highest positive one; meant is the reverse.
    O(clients * channels) channel costs first, O(clients) for each step.
    """
    channel = np.array(initial(costs) if start is None else start, np.int64)
    every, weights = np.arange(len(channel)), np.array(costs.weights)
    held = clients_on(channel.tolist(), costs.channels)
    here = weights * np.array([costs(clients) for clients in held])
    changed = weights[:, None] * np.array([costs.changed(clients) for clients in held])
    while True:
        old = here[channel], changed[channel, every]
        before = old[0][:, None] + here
        saved = before - (old[1][:, None] + changed.T)
        saved[saved <= EPSILON * (np.abs(old[0])[:, None] + np.abs(here))] = 0.0
        saved[every, channel] = 0.0
        client, new = divmod(int(np.argmax(saved)), costs.channels)
        if saved[client, new] <= 0:
            return allocation_of(costs, channel.tolist())
        for k in (int(channel[client]), new):
            held[k] = tuple(sorted({*held[k]} ^ {client}))
            here[k] = changed[k, client]
            changed[k] = weights[k] * costs.changed(held[k])
        channel[client] = new


def k_means(costs: ChannelCosts, seed: int, starts: int = 10, cells: int = 16) -> Allocation:
    """The baseline: Forgy's k-means on which cells of an even grid each client asks for, best of the starts."""
    interest = _interest(costs, cells)
    random = np.random.Generator(np.random.PCG64(seed))
    found: list[list[int]] = []
    for _ in range(starts):
        centre = interest[random.choice(len(interest), costs.channels, replace=False)]
        channel = np.full(len(interest), -1)
        while True:
            distance = ((interest[:, None] - centre[None]) ** 2).sum(axis=2)
            nearest = distance.argmin(axis=1)
            if np.array_equal(nearest, channel):
                break
            channel = nearest
            for k in range(costs.channels):
                if (channel == k).any():
                    centre[k] = interest[channel == k].mean(axis=0)
        found.append(channel.tolist())
    return allocation_of(costs, min(found, key=lambda channel: costs.total(clients_on(channel, costs.channels))))


def _interest(costs: ChannelCosts, cells: int) -> NDArray[np.float64]:
    """[clients, cells * cells] 1 where a client asks for something in a cell of the first two axes."""
    low, high = costs.problem.queries.low[:, :2], costs.problem.queries.high[:, :2]
    origin = low.min(axis=0)
    step = (high.max(axis=0) - origin) / cells
    first = ((low - origin) / step).astype(int)
    last = np.minimum(((high - origin) / step).astype(int), cells - 1)
    out = np.zeros((len(costs.clients), *[cells] * low.shape[1]))
    for client, rows in enumerate(costs.rows):
        for row in rows:
            spans = tuple(slice(a, b + 1) for a, b in zip(first[row], last[row]))
            out[client][spans] = 1.0
    return out.reshape(len(out), -1)


# ---- common ------------------------------------------------------------------------------------------


def clients_on(channel: Sequence[int], channels: int) -> list[Clients]:
    """The clients of each channel, ascending."""
    held: list[list[int]] = [[] for _ in range(channels)]
    for client, chosen in enumerate(channel):
        held[chosen].append(client)
    return [tuple(clients) for clients in held]


def saving(costs: ChannelCosts, held: Sequence[Clients], changes: dict[int, tuple[Clients, Clients]]) -> float:
    """What it saves to let clients (leave, join) channels; 0 where it is rounding."""
    before = after = size = 0.0
    for channel, (leave, join) in changes.items():
        old = costs.weights[channel] * costs(held[channel])
        before += old
        size += abs(old)
        after += costs.weights[channel] * costs(_changed(held[channel], leave, join))
    return before - after if before - after > EPSILON * size else 0.0


def _changed(clients: Clients, leave: Clients, join: Clients) -> Clients:
    return tuple(sorted({*clients} - {*leave} | {*join}))


def allocation_of(
    costs: ChannelCosts, channel: Sequence[int], plans: dict[int, Plan] | None = None
) -> Allocation:
    """The allocation and its plan, merged per channel (or as given in `plans`)."""
    held = clients_on(channel, costs.channels)
    group = np.empty(len(costs.problem), np.int64)
    on: list[int] = []
    shares: list[float] = []
    evaluated = applied = 0
    for k, clients in enumerate(held):
        if not clients:
            continue
        plan = plans[k] if plans else costs.plan(clients)
        group[costs.rows_of(clients)] = plan.group + len(on)
        on += [k] * len(plan.channel)
        shares.append(costs.weights[k] * costs.cost_of(clients, plan))
        evaluated += plan.evaluated
        applied += plan.applied
    numbered = by_first_row(group)
    channel_of = np.empty(len(on), np.int64)
    channel_of[numbered] = np.array(on, np.int64)[group]
    plan = Plan.of(costs.problem, numbered, 0.0, evaluated, applied, "channels")
    plan = replace(plan, channel=channel_of, cost=math.fsum(shares), lower_bound=lower_bound(costs))
    return Allocation(plan, costs.clients, np.array(channel, np.int64), costs.channels, costs.evaluated)


def lower_bound(costs: ChannelCosts) -> float:
    """No allocation is cheaper: the union is sent once at least, and a client hears at least its own union."""
    problem = costs.problem
    sent = problem.costs.per_message + problem.costs.per_object * problem.union_size()
    beyond = 0.0
    if not costs.clamp:
        unions = [problem.subset(rows).union_size() for rows in costs.rows]
        beyond = problem.costs.share * float(sum(unions) - costs.own.sum())  # not above 0
    return min(costs.weights) * sent + max(costs.weights) * beyond


def allocate_on(
    problem: BoxProblem,
    channels: int,
    allocator: Callable[[ChannelCosts], Allocation],
    weights: Sequence[float] | None = None,
    merge: Merge | None = None,
) -> Allocation:
    """Allocate however few clients there are: of more channels than clients those of the least weights are used."""
    given = checked_weights(weights, checked_channels(channels))
    count = min(channels, len(np.unique(problem.queries.clients)))
    used = np.sort(np.argsort(given, kind="stable")[:count])
    found = allocator(ChannelCosts(problem, count, [given[k] for k in used], merge))
    plan = replace(found.plan, channel=used[found.plan.channel])
    return replace(found, plan=plan, channel=used[found.channel], channels=channels)


def checked_channels(channels: Any) -> int:
    """A number of channels, or BadAllocation."""
    if isinstance(channels, bool) or not isinstance(channels, int | np.integer) or channels < 1:
        raise BadAllocation(f"the number of channels is {channels!r}; pass an integer, at least 1")
    return int(channels)


def checked_weights(weights: Sequence[float] | None, channels: int) -> list[float]:
    """A weight per channel, 1 for each without `weights`, or BadAllocation."""
    if weights is None:
        return [1.0] * channels
    values = [float(weight) for weight in weights]
    if len(values) != channels:
        raise BadAllocation(f"{len(values)} weights for {channels} channels; pass one per channel")
    for weight in values:
        if not math.isfinite(weight) or weight <= 0:
            raise BadAllocation(f"a channel has weight {weight}; weights are finite and above 0")
    return values
