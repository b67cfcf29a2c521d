"""Merged sets under change: a query that comes joins the set where it costs least, or stays alone; one that goes
lets its set shrink. The set that changed then merges with others and splits queries off while that saves.

How good that is, and when to plan anew, is not known here; see `replan`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.columns import Column, check_columns
from brokers.indexes.contract import DuplicateId, Ids, UnknownId, checked_ids, claim
from brokers.indexes.ids import IdMap
from brokers.planning.kernels import set_cost
from brokers.planning.model import BadQuery, Costs, Floats, Queries
from brokers.planning.plan import Plan
from brokers.planning.problem import BoxProblem, constants
from brokers.planning.sizes import Area, Size

EPSILON = 1e-12  # a gain below this part of the costs it is taken from is rounding
FREE = -1

_STATE = {
    "ids": Column("i8", ("rows",), low=0),
    "clients": Column("i8", ("rows",)),
    "low": Column("f8", ("rows", "axes")),
    "high": Column("f8", ("rows", "axes")),
    "set": Column("i8", ("rows",), low=FREE, high="rows"),
}


class Mended:
    """Queries in bounding boxes, and their merged sets. O(queries) of NumPy per change."""

    def __init__(self, costs: Costs, size: Size | None = None, dimensions: int = 2) -> None:
        self.costs, self.size = costs, size or Area()
        self.size.fits(dimensions)
        self._constants = constants(costs)
        self._dimensions = dimensions
        self._clear()

    def _clear(self) -> None:
        d = self._dimensions
        self._row_of = IdMap()
        # Rows of queries; the set of a free row is FREE.
        self._ids = np.empty(0, np.int64)
        self._clients = np.empty(0, np.int64)
        self._low, self._high = np.empty((0, d)), np.empty((0, d))
        self._sizes = np.empty(0)
        self._set = np.empty(0, np.int64)
        # Sets; a free one has no members.
        self._members = np.empty(0, np.int64)
        self._bottom, self._top = np.empty((0, d)), np.empty((0, d))
        self._sent = np.empty(0)
        self._cost = np.empty(0)

    def __len__(self) -> int:
        return len(self._row_of)

    @property
    def own(self) -> float:
        """The size of all queries, each by itself. O(n)."""
        return float(self._sizes[self._set != FREE].sum())

    @property
    def sent(self) -> float:
        """The size of what is sent. O(sets)."""
        return float(self._sent[self._members > 0].sum())

    @property
    def absolute_cost(self) -> float:
        """The absolute cost of the sets. O(sets)."""
        return float(self._cost[self._members > 0].sum())

    @property
    def cost(self) -> float:
        """The differential cost of the sets. O(n)."""
        return self.absolute_cost - self.costs.irrelevant * self.own

    def add(self, queries: Queries) -> None:
        """Let queries come. Refused as a whole if an id is there already."""
        if queries.dimensions != self._dimensions:
            raise BadQuery(f"queries have {queries.dimensions} dimensions; these have {self._dimensions}")
        known = self._row_of.find(queries.ids)
        if (known >= 0).any():
            raise DuplicateId(f"query {queries.ids[known >= 0][0]} is planned already; remove it first")
        for row in self._enter(queries).tolist():
            self._settle(self._join(row))

    def remove(self, ids: Any) -> Queries:
        """Let queries go; these. Refused as a whole if an id is not there."""
        gone = checked_ids(ids)
        rows = self._row_of.find(gone)
        if (rows < 0).any():
            raise UnknownId(f"query {gone[rows < 0][0]} is not planned")
        left = self._queries(rows)
        self._row_of.remove(gone)
        for row in rows.tolist():
            number = int(self._set[row])
            self._set[row] = FREE
            self._refit(number)
            if self._members[number]:
                self._settle(number)
        return left

    def lay(self, queries: Queries, group: Ids) -> None:
        """Hold these queries and no others, in these sets, numbered from 0."""
        self._clear()
        rows = self._enter(queries)
        self._set[rows] = group
        for number in range(int(group.max(initial=-1)) + 1):
            self._refit(number)

    def reprice(self, costs: Costs) -> None:
        """Other constants; the sets stay as they are until `settle`."""
        self.costs, self._constants = costs, constants(costs)
        self._cost = self._cost_of(self._sent, self._members)

    def settle(self) -> None:
        """Merge and split, any set, while that saves."""
        for number in np.flatnonzero(self._members).tolist():
            if self._members[number]:
                self._settle(number)

    def added_cost(self, queries: Queries, costs: Costs) -> float:
        """What queries would add to the absolute cost under other constants, each put where it costs least."""
        fixed, total = constants(costs), 0.0
        sets = np.flatnonzero(self._members)
        before = set_cost.py_func(fixed, self._sent[sets], self._members[sets])
        for low, high in zip(queries.low, queries.high):
            both = self._hull_sizes(sets, low, high)
            more = set_cost.py_func(fixed, both, self._members[sets] + 1) - before
            alone = set_cost.py_func(fixed, self.size.of_boxes(low[None], high[None])[0], 1)
            total += float(min(alone, more.min(initial=np.inf)))
        return total

    def queries(self) -> Queries:
        """What is held, by ascending id."""
        rows = self._held()
        return self._queries(rows[np.argsort(self._ids[rows])])

    def plan(self) -> Plan:
        """The plan as it stands; its rows are `queries()`."""
        rows = self._held()
        rows = rows[np.argsort(self._ids[rows])]
        return Plan.of(
            BoxProblem(self._queries(rows), self.costs, self.size), self._set[rows], 0.0, 0, 0, "re-planning"
        )

    def state(self) -> dict[str, Any]:
        """Plain data, for `load`: the queries row by row, and the set of each. Rows and sets keep their numbers."""
        return {"ids": self._ids, "clients": self._clients, "low": self._low, "high": self._high, "set": self._set}

    def load(self, state: Any) -> None:
        """Hold what another one with the same costs and sizes held."""
        sizes = {"axes": self._dimensions, "rows": len(state["ids"])}
        columns = check_columns(state, _STATE, sizes)
        held = np.flatnonzero(columns["set"] != FREE)
        Queries.of(*(columns[name][held] for name in ("low", "high", "clients", "ids")))
        self._clear()
        self._rows_for(sizes["rows"])
        for name, column in columns.items():
            setattr(self, f"_{name}", column)
        for name in ("_sizes", "_members", "_bottom", "_top", "_sent", "_cost"):
            setattr(self, name, getattr(self, name)[: sizes["rows"]])
        self._row_of.add(self._ids[held], held)
        self._sizes[held] = self.size.of_boxes(self._low[held], self._high[held])
        for number in np.unique(self._set[held]).tolist():
            self._refit(number)

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

    # ---- one change ------------------------------------------------------------------------------------

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

    def _queries(self, rows: Ids) -> Queries:
        return Queries(self._ids[rows], self._clients[rows], self._low[rows], self._high[rows])

    def _enter(self, queries: Queries) -> Ids:
        """Give queries rows, without a set."""
        rows = self._rows_for(len(queries))
        self._row_of.add(queries.ids, rows)
        self._ids[rows], self._clients[rows] = queries.ids, queries.clients
        self._low[rows], self._high[rows] = queries.low, queries.high
        self._sizes[rows] = self.size.of_boxes(queries.low, queries.high)
        return rows

    def _cost_of(self, sizes: Floats, members: Any) -> Floats:
        return np.asarray(set_cost.py_func(self._constants, sizes, members))

    def _hull_sizes(self, sets: Ids, low: Floats, high: Floats) -> Floats:
        """The sizes of these sets with a box."""
        return self.size.of_boxes(np.minimum(self._bottom[sets], low), np.maximum(self._top[sets], high))

    def _joined_cost(self, sets: Ids, low: Floats, high: Floats, members: int) -> Floats:
        """What these sets cost with a box and its queries."""
        return self._cost_of(self._hull_sizes(sets, low, high), self._members[sets] + members)

    def _refit(self, number: int) -> None:
        """Count, box, size and cost of a set from its members."""
        rows = np.flatnonzero(self._set == number)
        self._members[number] = len(rows)
        if len(rows):
            self._bottom[number] = self._low[rows].min(axis=0)
            self._top[number] = self._high[rows].max(axis=0)
            self._sent[number] = self.size.of_boxes(self._bottom[[number]], self._top[[number]])[0]
            self._cost[number] = self._cost_of(self._sent[number], len(rows))

    def _free_set(self) -> int:
        """A set without members. There are as many places as rows, so there is one."""
        return int(np.argmin(self._members))

    def _rows_for(self, count: int) -> NDArray[np.int64]:
        free = np.flatnonzero(self._set == FREE)
        if len(free) < count:
            more = max(count, len(self._set), 16)
            for name, value in (("_ids", 0), ("_clients", 0), ("_low", 0.0), ("_high", 0.0), ("_sizes", 0.0),
                                ("_set", FREE), ("_members", 0), ("_bottom", 0.0), ("_top", 0.0), ("_sent", 0.0),
                                ("_cost", 0.0)):  # fmt: skip
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
