"""What the server sends for a plan, and how a client gets the answers to its own queries out of it.

`answer` runs the merged queries of a plan over a database. With `tagged`, every object carries the ids of the
queries that asked for it, and a client looks for its tags; otherwise it applies its query again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.contract import Ids, UnknownId
from brokers.planning.model import Floats
from brokers.planning.plan import MergedQuery, Plan, Wanted, merged_queries
from brokers.planning.sizes import Database


@dataclass(frozen=True, eq=False)
class Answer:
    """The objects of one message, ascending by id, each at its point."""

    message: MergedQuery
    objects: Ids
    points: Floats
    tags: tuple[NDArray[np.int64], Ids] | None  # (ptr, query ids), ids[ptr[i]:ptr[i + 1]] for object i

    def irrelevant_to(self, client: int) -> int:
        """Objects that the client receives and none of its queries asked for. O(objects * its queries)."""
        wanted = np.zeros(len(self.objects), bool)
        for line in self.message.header:
            if line.client == client:
                wanted |= self.wanted_by(line)
        return int(len(wanted) - wanted.sum())

    def wanted_by(self, line: Wanted) -> NDArray[np.bool_]:
        """[objects] which of them a line of the header takes: by their tags, or by its box. O(objects)."""
        if self.tags is None:
            return _inside(self.points, line)
        ptr, queries = self.tags
        wanted = np.zeros(len(self.objects), bool)
        wanted[np.repeat(np.arange(len(wanted)), np.diff(ptr))[queries == line.query]] = True
        return wanted


def answer(plan: Plan, database: Database, tagged: bool = False) -> list[Answer]:
    """One answer per message of the plan. O(objects sent, and those in the cells of their borders)."""
    return [answer_message(message, database, tagged) for message in merged_queries(plan)]


def answer_message(message: MergedQuery, database: Database, tagged: bool = False) -> Answer:
    """Run one merged query."""
    if message.low.shape[1] != database.dimensions:
        raise InvalidInput(
            f"the queries have {message.low.shape[1]} dimensions and the database {database.dimensions}"
        )
    rows = database.inside(message.low, message.high)
    rows = rows[np.argsort(database.ids[rows], kind="stable")]
    points = database.points[rows]
    return Answer(message, database.ids[rows], points, _tags(points, message) if tagged else None)


def extract(answer: Answer, query: int) -> Ids:
    """The ids of the objects of an answer that belong to a query, ascending. O(objects)."""
    for line in answer.message.header:
        if line.query == query:
            break
    else:
        raise UnknownId(f"answer {answer.message.number} carries nothing for query {query}; see its header")
    return answer.objects[answer.wanted_by(line)]


def extract_all(answers: Iterable[Answer], query: int) -> Ids:
    """The whole answer to a query: what it extracts from each answer meant for it, united."""
    parts = [
        extract(answer, query)
        for answer in answers
        if any(line.query == query for line in answer.message.header)
    ]
    if not parts:
        raise UnknownId(f"no answer carries anything for query {query}")
    return np.unique(np.concatenate(parts))


def _tags(points: Floats, message: MergedQuery) -> tuple[NDArray[np.int64], Ids]:
    wanted = np.array([_inside(points, line) for line in message.header])  # [queries, objects]
    ptr = np.zeros(len(points) + 1, np.int64)
    np.cumsum(wanted.sum(axis=0), out=ptr[1:])
    queries = np.array([line.query for line in message.header], np.int64)
    return ptr, queries[np.nonzero(wanted.T)[1]]


def _inside(points: Floats, line: Wanted) -> NDArray[np.bool_]:
    return np.asarray(((points >= line.low) & (points <= line.high)).all(axis=1))
