"""Re-planning: queries come and go, and the plan is mended instead of made anew.

When the plan has drifted too far, or every so many changes, it is made anew. How far is too far. Let F be the cost
of the last fresh plan, and r >= 1 how many times the optimum of then that was. A *drift* d is allowed.

`Replanner`, on one channel. The queries of then that left since would cost R alone, K_M + K_T size each. With them
back, an optimum of now costs at most R more; so an optimum of now costs at least F / r - R, for those that came
make none cheaper. With X = F - R that is (X + R) / r - R, so X <= r optimum + (r - 1) R. The plan is kept while

    cost <= (1 + d) X    and    R <= X,

and is therefore always within (1 + d) r / (2 - r) of the optimum, where r < 2, and so of any fresh plan.

`ChannelReplanner`, on several. Costs are absolute ones, times the weights of channels. A client that is back can
listen to the channel whose size matters least: of n clients' channels at most 1 / n of the cost, by K_S size(M_i).
Besides, its queries by themselves add at most K_M + (K_T + K_S clients + K_U) size each, times the largest weight.
One after the other that is a factor of n / (n - 1) for each client, together of clients then / clients that stayed,
so the optimum of now is at least F / r * stayed / then - R. With X = F * stayed / then - R the rule is the same.

Between fresh plans the cost has to change by a part of itself, so they are rare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from brokers.columns import BadState, Column, check_columns
from brokers.errors import InvalidInput
from brokers.indexes.contract import DuplicateId, UnknownId, checked_ids, claim
from brokers.planning.allocation import (
    Allocation,
    ChannelCosts,
    allocate_on,
    channel_merging,
    checked_channels,
    checked_weights,
)
from brokers.planning.greedy import merge_boxes
from brokers.planning.mended import Mended
from brokers.planning.model import BadQuery, Costs, Queries
from brokers.planning.plan import Plan, by_first_row
from brokers.planning.problem import BoxProblem
from brokers.planning.sizes import Area, Size

DRIFT = 0.1

_STAYED = {"stayed": Column("i8", (None,))}
_LISTENING = {"channel": Column("i8", (None, 2)), "stayed": Column("i8", (None, 2))}

Allocator = Callable[[ChannelCosts], Allocation]


class Replanner(Mended):
    """A plan under change, for bounding boxes. O(queries) of NumPy per change, beside fresh plans."""

    def __init__(
        self, costs: Costs, size: Size | None = None, dimensions: int = 2, drift: float = DRIFT,
        every: int | None = None,
    ) -> None:
        super().__init__(costs, size, dimensions)
        self.drift, self.every = _checked(drift, every)
        self.fresh_plans = 0
        self._stayed: set[int] = set()  # queries that were there at the last fresh plan
        self._fresh_cost = 0.0  # F
        self._left_cost = 0.0  # R
        self._changes = 0  # since the last fresh plan

    @property
    def cost_max(self) -> float:
        """Above this the plan is made anew."""
        return _cost_max(self._fresh_cost - self._left_cost, self._left_cost, self.drift)

    def add(self, queries: Queries) -> None:
        """Let queries come. Refused as a whole if an id is there already."""
        super().add(queries)
        self._changed(len(queries))

    def remove(self, ids: Any) -> Queries:
        """Let queries go. Refused as a whole if an id is not there."""
        left = super().remove(ids)
        for id_, size in zip(left.ids.tolist(), self.size.of_boxes(left.low, left.high).tolist()):
            if id_ in self._stayed:
                self._stayed.remove(id_)
                self._left_cost += self.costs.per_message + self.costs.per_object * size
        self._changed(len(left))
        return left

    def state(self) -> dict[str, Any]:
        """Plain data, for `load`."""
        since = [self.fresh_plans, self._changes, self._fresh_cost, self._left_cost]
        return {"held": super().state(), "stayed": np.array(sorted(self._stayed), np.int64), "since": since}

    def load(self, state: Any) -> None:
        """Go on where another one with the same costs, sizes and drift was."""
        check_columns(state, _STAYED, others=frozenset({"held", "since"}))
        super().load(state["held"])
        self._stayed = set(state["stayed"].tolist())
        self.fresh_plans, self._changes, self._fresh_cost, self._left_cost = _since(state["since"])

    def recompute(self) -> None:
        """Plan anew. O(pair merging)."""
        queries = self.queries()
        self.lay(queries, by_first_row(merge_boxes(BoxProblem(queries, self.costs, self.size))[0]))
        self._stayed = set(queries.ids.tolist())
        self._fresh_cost, self._left_cost, self._changes = self.cost, 0.0, 0
        self.fresh_plans += 1

    def check(self) -> None:
        """Every invariant. O(n sets)."""
        super().check()
        claim(self.cost <= self.cost_max * (1 + 1e-9) + 1e-9, "the plan has not drifted too far")

    def _changed(self, changes: int) -> None:
        self._changes += changes
        due = self.every is not None and self._changes >= self.every
        if due or self.cost > self.cost_max:
            self.recompute()


class ChannelReplanner:
    """An allocation under change, for bounding boxes. A client that comes listens to the channel where it adds
    least; there its queries are mended in. O(queries) of NumPy per change, beside fresh allocations."""

    def __init__(
        self, costs: Costs, channels: int, size: Size | None = None, dimensions: int = 2,
        weights: Sequence[float] | None = None, allocator: Allocator = channel_merging, drift: float = DRIFT,
        every: int | None = None,
    ) -> None:  # fmt: skip
        self.costs, self.size, self.channels = costs, size or Area(), checked_channels(channels)
        self.weights = checked_weights(weights, channels)
        self.allocator = allocator
        self.drift, self.every = _checked(drift, every)
        self.fresh_plans = 0
        self._dimensions = dimensions
        self._parts = self._nobody()
        self._channel: dict[int, int] = {}  # client -> its channel
        self._client: dict[int, int] = {}  # query -> its client
        self._queries: dict[int, int] = {}  # client -> how many it has
        self._stayed: dict[int, int] = {}  # queries that were there at the last fresh plan -> their clients
        self._clients_then = 0
        self._fresh_cost = 0.0  # F
        self._left_cost = 0.0  # R
        self._changes = 0  # since the last fresh plan

    def __len__(self) -> int:
        return len(self._client)

    @property
    def absolute_cost(self) -> float:
        """The absolute cost of all channels, by weight. O(sets)."""
        return math.fsum(weight * part.absolute_cost for weight, part in zip(self.weights, self._parts))

    @property
    def cost(self) -> float:
        """The cost of all channels, by weight. O(n)."""
        relevant = self.costs.irrelevant + self.costs.share
        own = math.fsum(weight * part.own for weight, part in zip(self.weights, self._parts))
        return self.absolute_cost - relevant * own

    @property
    def cost_max(self) -> float:
        """Above this absolute cost the allocation is made anew. O(queries)."""
        stayed = len(set(self._stayed.values())) / self._clients_then if self._clients_then else 0.0
        return _cost_max(self._fresh_cost * stayed - self._left_cost, self._left_cost, self.drift)

    def add(self, queries: Queries) -> None:
        """Let queries come, and with them their clients. Refused as a whole if an id is there already."""
        if queries.dimensions != self._dimensions:
            raise BadQuery(f"queries have {queries.dimensions} dimensions; these have {self._dimensions}")
        known = [id_ for id_ in queries.ids.tolist() if id_ in self._client]
        if known:
            raise DuplicateId(f"query {known[0]} is planned already; remove it first")
        for client in np.unique(queries.clients).tolist():
            own = queries.subset(queries.clients == client)
            if client not in self._channel:
                self._listen(client, self._cheapest(own))
            self._parts[self._channel[client]].add(own)
            self._client.update(dict.fromkeys(own.ids.tolist(), client))
            self._queries[client] = self._queries.get(client, 0) + len(own)
        self._changed(len(queries))

    def remove(self, ids: Any) -> None:
        """Let queries go; a client goes with its last. Refused as a whole if an id is not there."""
        gone = checked_ids(ids).tolist()
        for id_ in gone:
            if id_ not in self._client:
                raise UnknownId(f"query {id_} is not planned")
        for id_ in gone:
            client = self._client.pop(id_)
            left = self._parts[self._channel[client]].remove([id_])
            if self._stayed.pop(id_, None) is not None:
                self._left_cost += self._back(float(self.size.of_boxes(left.low, left.high)[0]))
            self._queries[client] -= 1
            if not self._queries[client]:
                del self._queries[client]
                self._listen(client, None)
        self._changed(len(gone))

    def state(self) -> dict[str, Any]:
        """Plain data, for `load`."""
        since = [self.fresh_plans, self._changes, self._fresh_cost, self._left_cost]
        return {
            "parts": [part.state() for part in self._parts],
            "channel": np.array(sorted(self._channel.items()), np.int64).reshape(-1, 2),
            "stayed": np.array(sorted(self._stayed.items()), np.int64).reshape(-1, 2),
            "clients then": self._clients_then,
            "since": since,
        }

    def load(self, state: Any) -> None:
        """Go on where another one with the same costs, channels, sizes and drift was."""
        check_columns(state, _LISTENING, others=frozenset({"parts", "clients then", "since"}))
        channel = dict(state["channel"].tolist())
        if not all(0 <= k < self.channels for k in channel.values()):
            raise BadState(f"a client listens to none of {self.channels} channels")
        if type(state["parts"]) is not list or len(state["parts"]) != self.channels:
            raise BadState(f"there are {self.channels} channels")
        self._channel = channel
        for part, count, kept in zip(self._parts, self._listeners(), state["parts"]):
            part.reprice(self.costs.on_channel(count))
            part.load(kept)
        for k, part in enumerate(self._parts):
            queries = part.queries()
            for id_, client in zip(queries.ids.tolist(), queries.clients.tolist()):
                if channel.get(client) != k or id_ in self._client:
                    raise BadState(f"query {id_} is on channel {k}, and its client {client} is not")
                self._client[id_] = client
                self._queries[client] = self._queries.get(client, 0) + 1
        self._stayed = dict(state["stayed"].tolist())
        self._clients_then = state["clients then"]
        self.fresh_plans, self._changes, self._fresh_cost, self._left_cost = _since(state["since"])

    def recompute(self) -> None:
        """Allocate anew, by the allocator."""
        queries = self.queries()
        self._channel = {}
        self._parts = self._nobody()
        if len(queries):
            problem = BoxProblem(queries, self.costs, self.size)
            found = allocate_on(problem, self.channels, self.allocator, self.weights)
            self._channel = dict(zip(found.clients.tolist(), found.channel.tolist()))
            for k, part in enumerate(self._parts):
                part.reprice(self.costs.on_channel(int((found.channel == k).sum())))
                rows = np.flatnonzero(found.plan.channel[found.plan.group] == k)
                if len(rows):
                    part.lay(queries.subset(rows), by_first_row(found.plan.group[rows]))
        self._stayed = dict(self._client)
        self._clients_then = len(self._channel)
        self._fresh_cost, self._left_cost, self._changes = self.absolute_cost, 0.0, 0
        self.fresh_plans += 1

    def queries(self) -> Queries:
        """What is held, by ascending id."""
        parts = [part.queries() for part in self._parts]
        columns = [np.concatenate(arrays) for arrays in zip(*((q.ids, q.clients, q.low, q.high) for q in parts))]
        return Queries(*columns).subset(np.argsort(columns[0]))

    def allocation(self) -> Allocation:
        """The allocation as it stands; the rows of its plan are `queries()`."""
        problem = BoxProblem(self.queries(), self.costs, self.size)
        group = np.empty(len(problem), np.int64)
        on: list[int] = []
        for k, part in enumerate(self._parts):
            plan = part.plan()
            group[np.searchsorted(problem.queries.ids, part.queries().ids)] = plan.group + len(on)
            on += [k] * len(plan.channel)
        numbered = by_first_row(group)
        channel = np.empty(len(on), np.int64)
        channel[numbered] = np.array(on, np.int64)[group]
        plan = Plan.of(problem, numbered, -math.inf, 0, 0, "re-planning")
        clients = np.array(sorted(self._channel), np.int64)
        listening = np.array([self._channel[client] for client in clients.tolist()], np.int64)
        return Allocation(replace(plan, channel=channel, cost=self.cost), clients, listening, self.channels, 0)

    def check(self) -> None:
        """Every invariant. O(n sets)."""
        found = self.allocation()
        found.check()
        claim(set(self._channel) == set(self._client.values()), "who has a query listens")
        for k, part in enumerate(self._parts):
            part.check()
            count = sum(channel == k for channel in self._channel.values())
            claim(part.costs == self.costs.on_channel(count), "a channel is priced by who listens")
        claim(self.absolute_cost <= self.cost_max * (1 + 1e-9) + 1e-9, "the allocation has not drifted too far")

    # ---- one change --------------------------------------------------------------------------------------

    def _cheapest(self, queries: Queries) -> int:
        """The channel to which a client with these queries adds least."""
        added = []
        for weight, part, count in zip(self.weights, self._parts, self._listeners()):
            then = self.costs.on_channel(count + 1)
            added.append(weight * (self.costs.share * part.sent + part.added_cost(queries, then)))
        return int(np.argmin(added))

    def _listen(self, client: int, channel: int | None) -> None:
        """Put a client on a channel, or off its own."""
        k = self._channel.pop(client) if channel is None else channel
        if channel is not None:
            self._channel[client] = channel
        self._parts[k].reprice(self.costs.on_channel(self._listeners()[k]))
        self._parts[k].settle()

    def _nobody(self) -> list[Mended]:
        """Channels to which nobody listens."""
        return [Mended(self.costs.on_channel(0), self.size, self._dimensions) for _ in range(self.channels)]

    def _listeners(self) -> list[int]:
        """How many clients listen to each channel. O(clients)."""
        return np.bincount(list(self._channel.values()), minlength=self.channels).tolist()

    def _back(self, size: float) -> float:
        """What a query adds at most that comes back, beside what its client overhears."""
        costs = self.costs.on_channel(self._clients_then)
        return max(self.weights) * (costs.per_message + (costs.per_object + costs.irrelevant) * size)

    def _changed(self, changes: int) -> None:
        self._changes += changes
        due = self.every is not None and self._changes >= self.every
        if due or self.absolute_cost > self.cost_max:
            self.recompute()


def _since(said: Any) -> tuple[int, int, float, float]:
    """How many fresh plans there were, and of what has changed since the last."""
    if type(said) is not list or list(map(type, said)) != [int, int, float, float]:
        raise BadState("what changed since the last fresh plan is not told of")
    return said[0], said[1], said[2], said[3]


def _cost_max(kept: float, left: float, drift: float) -> float:
    """Up to which cost a plan is kept: `kept` is X, `left` is R, of the module's rule."""
    # A fresh plan of nothing costs nothing; sums that went to 0 are held to be 0.
    return (1 + drift) * kept if left <= kept else 0.0


def _checked(drift: float, every: int | None) -> tuple[float, int | None]:
    if not drift >= 0:
        raise InvalidInput(f"drift is {drift!r}; pass how far the cost may drift, e.g. {DRIFT}")
    if every is not None and every < 1:
        raise InvalidInput(f"every is {every!r}; pass after how many changes to plan anew, at least 1")
    return drift, every
