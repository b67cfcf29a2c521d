"""A merging problem as the algorithms see it: n queries, and what any set of them costs when merged.

`BoxProblem` is the real one. `TabledProblem` takes the size of every set from a function; it carries the
worked examples and the reductions of the source.

Costs of sets are absolute (they include the sifting of relevant objects): then no set needs to know what
its members would cost alone, and a gain is the difference of three set costs. Plans report the differential
cost beside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from brokers.errors import InvalidInput
from brokers.indexes.contract import Ids
from brokers.planning.kernels import subset_costs
from brokers.planning.model import Costs, Floats, Queries
from brokers.planning.procedures import PROCEDURES, Estimate, Piece, Procedure, Rectangle
from brokers.planning.sizes import Area, Size


class Problem(ABC):
    """n queries, numbered from 0."""

    costs: Costs
    sizes: Floats  # of each query alone

    def __len__(self) -> int:
        return len(self.sizes)

    @abstractmethod
    def estimate(self, members: Any) -> Estimate:
        """What merging these queries would send."""

    @abstractmethod
    def union_size(self) -> float:
        """Objects that any plan has to send at least."""

    @abstractmethod
    def subset(self, positions: Any) -> Problem:
        """The problem of these queries alone, renumbered in this order."""

    def set_cost(self, members: Any) -> float:
        """The absolute cost of one merged set."""
        costs, sent = self.costs, self.estimate(members)
        # A size may be infinite, which a constant of 0 ignores.
        total = costs.per_message * sent.pieces
        total += costs.per_object * sent.size if costs.per_object else 0.0
        return total + (costs.irrelevant * sent.received if costs.irrelevant else 0.0)

    def total(self, groups: Sequence[Any]) -> float:
        """The absolute cost of a collection of sets."""
        total = 0.0  # one by one: from Python 3.12 on, sum() rounds otherwise
        for group in groups:
            total += self.set_cost(group)
        return total

    @property
    def relevant_cost(self) -> float:
        """What sifting the relevant objects costs under any plan: absolute less differential cost."""
        return self.costs.irrelevant * float(self.sizes.sum()) if self.costs.irrelevant else 0.0

    def subset_costs(self) -> Floats:
        """The absolute cost of every set, by its bits; the empty set costs 0. 2^n estimates."""
        n = len(self)
        table = np.zeros(1 << n)
        for mask in range(1, 1 << n):
            table[mask] = self.set_cost([i for i in range(n) if mask >> i & 1])
        return table


class BoxProblem(Problem):
    """Queries in boxes, a size of boxes and a merge procedure."""

    def __init__(
        self, queries: Queries, costs: Costs, size: Size | None = None, procedure: Procedure | str = "rectangle"
    ) -> None:
        self.queries, self.costs = queries, costs
        self.size = Area() if size is None else size
        self.size.fits(queries.dimensions)
        if isinstance(procedure, str):
            if procedure not in PROCEDURES:
                raise InvalidInput(f"no merge procedure {procedure!r}; known: {', '.join(sorted(PROCEDURES))}")
            procedure = PROCEDURES[procedure]()
        self.procedure = procedure
        self.sizes = self.size.of_boxes(queries.low, queries.high)

    @property
    def bounding(self) -> bool:
        """Whether sets are merged into bounding boxes, for which there are kernels."""
        return isinstance(self.procedure, Rectangle)

    def estimate(self, members: Any) -> Estimate:
        return self.procedure.estimate(self.size, self.queries.low[members], self.queries.high[members])

    def total(self, groups: Sequence[Any]) -> float:
        if not self.bounding or not len(groups):
            return super().total(groups)
        costs, (size, received) = self.costs, self.hulls(groups)
        each = np.full(len(groups), costs.per_message, np.float64)
        each += costs.per_object * size if costs.per_object else 0.0
        each += costs.irrelevant * received if costs.irrelevant else 0.0
        total = 0.0  # one by one, as above
        for cost in each.tolist():
            total += cost
        return total

    def hulls(self, groups: Sequence[Any]) -> tuple[Floats, Floats]:
        """(Size, received) of what `estimate` says for each set, where sets are merged into bounding boxes."""
        counts = np.array([len(group) for group in groups])
        members, starts = np.concatenate(groups), np.cumsum(counts) - counts
        low = np.minimum.reduceat(self.queries.low[members], starts)
        size = self.size.of_boxes(low, np.maximum.reduceat(self.queries.high[members], starts))
        return size, counts * size

    def union_size(self) -> float:
        return self.size.of_union(self.queries.low, self.queries.high)

    def subset(self, positions: Any) -> BoxProblem:
        return BoxProblem(self.queries.subset(positions), self.costs, self.size, self.procedure)

    def pieces(self, members: Ids) -> list[Piece]:
        """The merged queries that stand for these queries."""
        found = self.procedure.pieces(self.queries.low[members], self.queries.high[members])
        return [Piece(piece.low, piece.high, members[piece.members]) for piece in found]

    def with_costs(self, costs: Costs) -> BoxProblem:
        """The same queries under other constants."""
        return BoxProblem(self.queries, costs, self.size, self.procedure)

    def subset_costs(self) -> Floats:
        if self.bounding:
            q = self.queries
            return np.asarray(subset_costs(self.size.table, q.low, q.high, constants(self.costs)))
        return super().subset_costs()


class TabledProblem(Problem):
    """The size of each set by a function of its members; infinite where it cannot be asked for."""

    def __init__(self, count: int, size_of: Callable[[frozenset[int]], float], costs: Costs) -> None:
        self.costs = costs
        self._size_of = size_of
        self.sizes = np.array([size_of(frozenset({i})) for i in range(count)])

    def estimate(self, members: Any) -> Estimate:
        chosen = frozenset(int(i) for i in members)
        size = self._size_of(chosen)
        return Estimate(size, 1, len(chosen) * size)

    def union_size(self) -> float:
        """The largest query: sets that hold more are assumed to be no smaller."""
        return float(self.sizes.max(initial=0.0, where=np.isfinite(self.sizes)))

    def subset(self, positions: Any) -> TabledProblem:
        names = [int(i) for i in positions]
        return TabledProblem(
            len(names), lambda chosen: self._size_of(frozenset(names[i] for i in chosen)), self.costs
        )


def constants(costs: Costs) -> tuple[float, float, float]:
    """What kernels need of the costs."""
    return costs.per_message, costs.per_object, costs.irrelevant
