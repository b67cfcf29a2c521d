"""Re-planning: queries come and go, and the plan is mended instead of made anew.

A query that comes joins the set where it costs least, or stays alone; one that goes lets its set shrink. The
set that changed then merges with others and splits queries off while that saves. When the plan has drifted
too far, or every so many changes, pair merging makes it anew.

How far is too far. Let F be the cost of the last fresh plan, and r >= 1 how many times the optimum that was.
Of its queries those that left since would cost R alone, K_M + K_T size each. An optimum loses at most that when
they leave, and nothing when others come, so the optimum now is at least F / r - R >= (F - R) / r. The plan is
kept while its cost is at most (1 + drift) (F - R); so it is always within (1 + drift) r of the optimum, and so
of any fresh plan. Between fresh plans the cost has to change by a part of itself, so they are rare.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.contract import DuplicateId, Ids, UnknownId, checked_ids, claim
from brokers.indexes.ids import IdMap
from brokers.planning.greedy import merge_boxes
from brokers.planning.kernels import set_cost
from brokers.planning.model import BadQuery, Costs, Floats, Queries
from brokers.planning.plan import Plan
from brokers.planning.problem import BoxProblem, constants
from brokers.planning.sizes import Area, Size

EPSILON = 1e-12  # a gain below this part of the costs it is taken from is rounding
DRIFT = 0.1
FREE = -1


class Replanner:
    """A plan under change, for bounding boxes. O(queries) of NumPy per change, beside fresh plans."""

    def __init__(
        self, costs: Costs, size: Size | None = None, dimensions: int = 2, drift: float = DRIFT,
        every: int | None = None,
    ) -> None:
        if not drift >= 0:
            raise InvalidInput(f"drift is {drift!r}; pass how far the cost may drift, e.g. {DRIFT}")
        if every is not None and every < 1:
            raise InvalidInput(f"every is {every!r}; pass after how many changes to plan anew, at least 1")
        self.costs, self.size, self.drift, self.every = costs, size or Area(), drift, every
        self.size.fits(dimensions)
        self.fresh_plans = 0
        self._constants = constants(costs)
        self._row_of = IdMap()
        # Rows of queries; the set of a free row is FREE.
        self._ids = np.empty(0, np.int64)
        self._clients = np.empty(0, np.int64)
        self._low, self._high = np.empty((0, dimensions)), np.empty((0, dimensions))
        self._sizes = np.empty(0)
        self._set = np.empty(0, np.int64)
        self._settled = np.empty(0, np.bool_)  # was there at the last fresh plan
        # Sets; a free one has no members.
        self._members = np.empty(0, np.int64)
        self._bottom, self._top = np.empty((0, dimensions)), np.empty((0, dimensions))
        self._cost = np.empty(0)
        self._fresh_cost = 0.0
        self._left_cost = 0.0  # of those that left since, alone
        self._changes = 0  # since the last fresh plan

    def __len__(self) -> int:
        return len(self._row_of)

    @property
    def cost(self) -> float:
        """The differential cost of the plan. O(n)."""
        held = self._set != FREE
        return float(self._cost[self._members > 0].sum() - self.costs.irrelevant * self._sizes[held].sum())

    @property
    def cost_max(self) -> float:
        """Above this the plan is made anew."""
        return (1 + self.drift) * (self._fresh_cost - self._left_cost)

    def add(self, queries: Queries) -> None:
        """Let queries come. Refused as a whole if an id is there already."""
        if queries.dimensions != self._low.shape[1]:
            raise BadQuery(f"queries have {queries.dimensions} dimensions; these have {self._low.shape[1]}")
        known = self._row_of.find(queries.ids)
        if (known >= 0).any():
            raise DuplicateId(f"query {queries.ids[known >= 0][0]} is planned already; remove it first")
        rows = self._rows_for(len(queries))
        self._row_of.add(queries.ids, rows)
        self._ids[rows], self._clients[rows] = queries.ids, queries.clients
        self._low[rows], self._high[rows] = queries.low, queries.high
        self._sizes[rows] = self.size.of_boxes(queries.low, queries.high)
        self._settled[rows] = False
        for row in rows.tolist():
            self._settle(self._join(row))
        self._changed(len(rows))

    def remove(self, ids: Any) -> None:
        """Let queries go. Refused as a whole if an id is not there."""
        gone = checked_ids(ids)
        rows = self._row_of.find(gone)
        if (rows < 0).any():
            raise UnknownId(f"query {gone[rows < 0][0]} is not planned")
        self._row_of.remove(gone)
        for row in rows.tolist():
            left = int(self._set[row])
            self._set[row] = FREE
            if self._settled[row]:
                self._left_cost += self.costs.per_message + self.costs.per_object * float(self._sizes[row])
            self._refit(left)
            if self._members[left]:
                self._settle(left)
        self._changed(len(rows))

    def recompute(self) -> None:
        """Plan anew. O(pair merging)."""
        rows = self._held()
        problem = self._problem(rows)
        group = merge_boxes(problem)[0] if len(rows) else np.empty(0, np.int64)
        self._members[:] = 0
        _, numbers = np.unique(group, return_inverse=True)
        self._set[rows] = numbers
        for number in range(int(numbers.max(initial=-1)) + 1):
            self._refit(number)
        self._settled[:] = self._set != FREE
        self._fresh_cost, self._left_cost, self._changes = self.cost, 0.0, 0
        self.fresh_plans += 1

    def plan(self) -> Plan:
        """The plan as it stands; its rows are the queries by ascending id."""
        rows = self._held()
        rows = rows[np.argsort(self._ids[rows])]
        return Plan.of(self._problem(rows), self._set[rows], 0.0, 0, 0, "re-planning")

    def check(self) -> None:
        """Every invariant. O(n sets)."""
        rows = self._held()
        claim(len(rows) == len(self), "a row is held for each id")
        claim(np.array_equal(self._row_of.find(self._ids[rows]), rows), "an id leads to its row")
        claim(np.array_equal(np.bincount(self._set[rows], minlength=len(self._members)), self._members),
              "sets count their members")
        for number in np.flatnonzero(self._members).tolist():
            inside = self._set == number
            claim(np.array_equal(self._low[inside].min(axis=0), self._bottom[number]), "a set fits its members")
            claim(np.array_equal(self._high[inside].max(axis=0), self._top[number]), "a set fits its members")
        claim(abs(self.plan().cost - self.cost) <= 1e-9 * (1 + abs(self.cost)), "costs add up")
        claim(self.cost <= self.cost_max * (1 + 1e-9) + 1e-9, "the plan has not drifted too far")

    # ---- one change ------------------------------------------------------------------------------------

    def _changed(self, changes: int) -> None:
        self._changes += changes
        due = self.every is not None and self._changes >= self.every
        # A fresh plan may cost more than was left over: then it is kept, and measured from there.
        if due or self.cost > self.cost_max:
            self.recompute()

    def _join(self, row: int) -> int:
        """Put a query where it costs least; the set."""
        alone = self._cost_of(self._sizes[row : row + 1], 1)[0]
        sets = np.flatnonzero(self._members)
        more = self._joined_cost(sets, self._low[row], self._high[row], 1) - self._cost[sets]
        number = int(sets[np.argmin(more)]) if len(sets) and more.min() < alone else self._free_set()
        self._set[row] = number
        self._refit(number)
        return number

    def _settle(self, number: int) -> None:
        """Merge a set with others and split queries off it while that saves."""
        while self._merge_once(number) or self._split_once(number):
            pass

    def _merge_once(self, number: int) -> bool:
        others = np.flatnonzero(self._members)
        others = others[others != number]
        if len(others) == 0:
            return False
        before = self._cost[others] + self._cost[number]
        joined = self._joined_cost(others, self._bottom[number], self._top[number], int(self._members[number]))
        gain = before - joined
        best = int(np.argmax(gain))
        if gain[best] <= EPSILON * before[best]:
            return False
        self._set[self._set == others[best]] = number
        self._refit(int(others[best]))
        self._refit(number)
        return True

    def _split_once(self, number: int) -> bool:
        rows = np.flatnonzero(self._set == number)
        if len(rows) < 2:
            return False
        low, high = _hulls_without_each(self._low[rows], self._high[rows])
        rest = self._cost_of(self.size.of_boxes(low, high), len(rows) - 1)
        gain = self._cost[number] - (rest + self._cost_of(self._sizes[rows], 1))
        best = int(np.argmax(gain))
        if gain[best] <= EPSILON * self._cost[number]:
            return False
        apart = self._free_set()
        self._set[rows[best]] = apart
        self._refit(number)
        self._refit(apart)
        return True

    # ---- rows and sets ---------------------------------------------------------------------------------

    def _held(self) -> Ids:
        return np.flatnonzero(self._set != FREE)

    def _problem(self, rows: Ids) -> BoxProblem:
        queries = Queries(self._ids[rows], self._clients[rows], self._low[rows], self._high[rows])
        return BoxProblem(queries, self.costs, self.size)

    def _cost_of(self, sizes: Floats, members: Any) -> Floats:
        return np.asarray(set_cost.py_func(self._constants, sizes, members))

    def _joined_cost(self, sets: Ids, low: Floats, high: Floats, members: int) -> Floats:
        """What these sets cost with a box and its queries."""
        bottom, top = np.minimum(self._bottom[sets], low), np.maximum(self._top[sets], high)
        return self._cost_of(self.size.of_boxes(bottom, top), self._members[sets] + members)

    def _refit(self, number: int) -> None:
        """Count, box and cost of a set from its members."""
        rows = np.flatnonzero(self._set == number)
        self._members[number] = len(rows)
        if len(rows):
            self._bottom[number] = self._low[rows].min(axis=0)
            self._top[number] = self._high[rows].max(axis=0)
            size = self.size.of_boxes(self._bottom[number : number + 1], self._top[number : number + 1])
            self._cost[number] = self._cost_of(size, len(rows))[0]

    def _free_set(self) -> int:
        """A set without members. There are as many places as rows, so there is one."""
        return int(np.argmin(self._members))

    def _rows_for(self, count: int) -> NDArray[np.int64]:
        free = np.flatnonzero(self._set == FREE)
        if len(free) < count:
            more = max(count, len(self._set), 16)
            for name, value in (("_ids", 0), ("_clients", 0), ("_low", 0.0), ("_high", 0.0), ("_sizes", 0.0),
                                ("_set", FREE), ("_settled", False), ("_members", 0), ("_bottom", 0.0),
                                ("_top", 0.0), ("_cost", 0.0)):  # fmt: skip
                old = getattr(self, name)
                grown = np.full((len(old) + more, *old.shape[1:]), value, old.dtype)
                grown[: len(old)] = old
                setattr(self, name, grown)
            free = np.flatnonzero(self._set == FREE)
        return free[:count]


def _hulls_without_each(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """For each of at least two boxes the hull of the others. O(n d)."""
    two_low, two_high = np.partition(low, 1, axis=0)[:2], -np.partition(-high, 1, axis=0)[:2]
    bottom = np.where((low == two_low[0]) & (two_low[0] < two_low[1]), two_low[1], two_low[0])
    top = np.where((high == two_high[0]) & (two_high[0] > two_high[1]), two_high[1], two_high[0])
    return bottom, top
