"""A plan: which queries are merged, on which channel, at what cost; and what it makes the server send.

The queries of a plan are rows of its problem. Sets are numbered by their first row, so that equal plans have
equal arrays. `messages` are the merged queries with their headers: per client the pairs of an extractor and a
query id that it needs (section 3.1 of the source). For selections the extractor is the query itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from brokers.errors import InvalidInput
from brokers.indexes.contract import Ids, claim
from brokers.planning.model import Floats
from brokers.planning.problem import BoxProblem, Problem
from brokers.planning.procedures import Piece


class Wanted(NamedTuple):
    """A line of a header: apply this box to the answer and it is the part of this query."""

    client: int
    query: int  # id
    low: Floats
    high: Floats


class MergedQuery(NamedTuple):
    """One merged query: objects in any of its boxes are sent to the clients in its header."""

    number: int
    channel: int
    low: Floats  # [boxes, d]
    high: Floats
    header: tuple[Wanted, ...]  # by client, then query

    @property
    def clients(self) -> list[int]:
        """Who is to read the answer, ascending."""
        return sorted({line.client for line in self.header})


@dataclass(frozen=True, eq=False)
class Plan:
    """Merged sets of the rows of a problem, and what is known about their cost."""

    problem: Problem
    group: Ids  # [n] the set of each row; numbered by first row
    channel: Ids  # [groups]
    cost: float  # differential
    lower_bound: float  # no plan is cheaper
    evaluated: int  # merges, splits, moves or sets whose cost was computed
    applied: int  # of these, carried out
    algorithm: str

    @staticmethod
    def of(
        problem: Problem, group: Any, lower_bound: float, evaluated: int, applied: int, algorithm: str
    ) -> Plan:
        """A plan on one channel, from any numbering of the sets. O(n) beside the cost of each set."""
        numbered = by_first_row(np.asarray(group, np.int64))
        sets = members_of(numbered)
        cost = problem.total(sets) - problem.relevant_cost
        return Plan(
            problem, numbered, np.zeros(len(sets), np.int64), cost, lower_bound, evaluated, applied, algorithm
        )

    @property
    def absolute_cost(self) -> float:
        """With the sifting of relevant objects."""
        return self.cost + self.problem.relevant_cost

    def sets(self) -> list[Ids]:
        """The rows of each merged set, ascending. O(n log n)."""
        return members_of(self.group)

    def check(self) -> None:
        """Every invariant: O(n log n), and once the cost of each set."""
        claim(len(self.group) == len(self.problem), "every query is in one set")
        claim(np.array_equal(by_first_row(self.group), self.group), "sets are numbered by their first row")
        claim(len(self.channel) == self.group.max(initial=-1) + 1, "every set is on one channel")
        claim(self.lower_bound <= self.cost * (1 + 1e-9) + 1e-12, "no plan is below the lower bound")


def merged_queries(plan: Plan) -> list[MergedQuery]:
    """The merged queries of a plan in the order of its sets. O(n log n), and the procedure's own work."""
    problem = plan.problem
    if not isinstance(problem, BoxProblem):
        raise InvalidInput("the queries of this plan have no boxes to ask for; plan a BoxProblem")
    out: list[MergedQuery] = []
    for number, members in enumerate(plan.sets()):
        for piece in problem.pieces(members):
            out.append(merged_query(problem, piece, len(out), int(plan.channel[number])))
    return out


def merged_query(problem: BoxProblem, piece: Piece, number: int, channel: int) -> MergedQuery:
    """What is asked for a piece of a set, with its header. O(n log n) in its members."""
    queries = problem.queries
    rows = piece.members[np.lexsort((queries.ids[piece.members], queries.clients[piece.members]))]
    named = queries.clients[rows].tolist(), queries.ids[rows].tolist()
    header = tuple(map(Wanted._make, zip(*named, queries.low[rows], queries.high[rows])))
    return MergedQuery(number, channel, piece.low, piece.high, header)


def by_first_row(group: Ids) -> Ids:
    """The same sets, numbered in the order of their first rows. O(n log n)."""
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse]


def members_of(group: Ids) -> list[Ids]:
    """The rows of each set, ascending, for sets numbered from 0. O(n log n)."""
    if len(group) == 0:
        return []
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
