"""What a query was owed in a round, and what the server had planned for it: what is explained of `channels`.

Whom an answer is for its header says, which the trace does not hold. A plan follows from the queries that the server
knew when planning began, so it is made again from the trace. Where it comes out otherwise than what the server sent (as
numbers of queries, listeners and objects), it is not believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from brokers.contract import MESSAGE, TIMER, Guarantees, Kind
from brokers.errors import InvalidInput
from brokers.planning.answers import extract
from brokers.planning.model import Queries
from protocols.channels.database import marks
from protocols.channels.judge import Rounds, received_of
from protocols.channels.kind import SUBSCRIBE, UNSUBSCRIBE, Asked, Channels
from protocols.channels.plans import Job, Options, Planned, plan_all
from protocols.channels.server import ANSWER, BEGIN, LISTEN, PLANNED, ROUND
from protocols.explaining import EXCUSED, FREE, NOT_OWED, OWED
from protocols.standing import Tables

Row = Mapping[str, Any]


class Message(NamedTuple):
    """A merged query that the server answered in a round."""

    publication: int
    lines: dict[int, int]  # of its header: query -> client number
    listeners: tuple[int, ...]  # clients, by number
    held: dict[int, tuple[int, int]]  # query -> objects for it in all messages of the round, the sum of their marks


@dataclass
class RoundDue:
    """What the definition says of a query in a round."""

    due: str
    said: list[str]  # the rule, in sentences
    changes: list[int] = field(default_factory=list)  # the versions of the query that may count, the latest first
    right: list[tuple[int, int]] = field(default_factory=list)  # their answers: objects, and the sum of their marks
    received: list[tuple[int, int]] = field(default_factory=list)


class ChannelsExplained:
    """See the module."""

    carries: ClassVar[frozenset[int]] = frozenset({ANSWER})
    asks: ClassVar[frozenset[int]] = frozenset()
    answers: ClassVar[frozenset[int]] = frozenset()
    called: ClassVar[Mapping[int, str]] = {ANSWER: "answer", LISTEN: "listeners"}
    listens: ClassVar[int] = LISTEN  # the messages that say who listens to what
    planned_type: ClassVar[int] = PLANNED
    round_type: ClassVar[int] = ROUND

    def __init__(self, kind: Kind) -> None:
        assert isinstance(kind, Channels)
        self.kind = kind

    def may_want(self, publication: Row, change: Row) -> bool:
        """Whether a change begins a query."""
        return bool(change["operation"] == SUBSCRIBE)

    def period_of(self, change: Row) -> int:
        """The period of the query that a change asks."""
        return self.kind.asked(np.asarray(change["values"], np.float64), change["interest"]).period_ns

    def in_words(self, change: Row) -> str:
        """What a query asks for."""
        asked = self.kind.asked(np.asarray(change["values"], np.float64), change["interest"])
        box = " by ".join(f"{low:g} to {high:g}" for low, high in zip(asked.low, asked.high))
        return f"every {asked.period_ns / 1e9:g} s for the objects in {box}"

    def objects(self, change: Row) -> list[int]:
        """The ids of the objects that answer the query that a change asks."""
        ids: list[int] = self.kind.answer(self.kind.asked(np.asarray(change["values"], np.float64))).tolist()
        return ids

    def answered(
        self, tables: Tables, guarantees: Guarantees, service: int, query: int, at_ns: int, period_ns: int
    ) -> RoundDue:
        """What a query was owed at a multiple of a period of its, as the judge has it."""
        owed = Rounds(tables, self.kind, guarantees, service).owed(query, period_ns, at_ns)
        got = received_of(tables["received"], service).get((query, period_ns, at_ns // period_ns), [])
        if not owed.right:
            said = "At that time it was not due: it had ended, began later, or had another period."
            return RoundDue(NOT_OWED, [said], received=got)
        due = FREE if not owed.certain else EXCUSED if owed.excused else OWED
        counts = sorted({count for count, _ in owed.right})
        found = [f"It is due at that time, and {' or '.join(map(str, counts))} objects answer it."]
        if due == FREE:
            found.append("A change of it was in flight, so that it may be answered so or not at all.")
        return RoundDue(due, found, [each.change for each in reversed(owed.versions)], owed.right, got)

    def messages(
        self, hops: Sequence[Any], changes: Mapping[int, Row], answers: Sequence[Row], standing: Sequence[Row],
        options: Mapping[str, Any], seed: int, nodes: int,
    ) -> list[Message] | None:  # fmt: skip
        """What the server sent in a round, with the headers; None where that cannot be told.

        Parameters
        ----------
        hops : what the server handled, in its order
        changes : by id, those that came to it
        answers : the rows of the round, in the order in which they were sent
        standing : the changes that stood from the beginning
        nodes : brokers and servers
        """
        if not answers:
            return []
        server = _Server(self.kind, options, seed, nodes, changes, standing)
        try:
            planned = server.plan_of(hops, answers[0]["period_ns"], answers[0]["time_ns"])
        except (InvalidInput, OSError):
            return None
        if planned is None or len(planned.sent) != len(answers):
            return None
        return list(_messages(planned, answers)) if _as_sent(planned, answers) else None


def _as_sent(planned: Planned, answers: Sequence[Row]) -> bool:
    return all(
        (len(each.answer.message.header), len(each.listeners), len(each.answer.objects))
        == (row["queries"], row["listeners"], row["objects"])
        for each, row in zip(planned.sent, answers)
    )


def _messages(planned: Planned, answers: Sequence[Row]) -> Iterator[Message]:
    objects: dict[int, list[Any]] = {}
    for each in planned.sent:
        for line in each.answer.message.header:
            objects.setdefault(line.query, []).append(extract(each.answer, line.query))
    held = {query: np.unique(np.concatenate(parts)) for query, parts in objects.items()}
    for each, row in zip(planned.sent, answers):
        lines = {line.query: line.client for line in each.answer.message.header}
        counts = {query: (len(held[query]), int(marks(held[query]).sum())) for query in lines}
        yield Message(row["publication"], lines, each.listeners, counts)


class _Server:
    """What the server knew and planned, gone through again (`protocols.channels.server`)."""

    def __init__(
        self, kind: Channels, options: Mapping[str, Any], seed: int, nodes: int, changes: Mapping[int, Row],
        standing: Sequence[Row],
    ) -> None:  # fmt: skip
        self.kind, self.options, self.seed, self.nodes, self.changes = kind, options, seed, nodes, changes
        self.queries: dict[int, Asked] = {row["interest"]: self._asked(row) for row in standing}
        self.opening = bool(standing)

    def _asked(self, row: Row) -> Asked:
        return self.kind.asked(np.asarray(row["values"], np.float64), row["interest"])

    def plan_of(self, hops: Sequence[Any], period: int, at_ns: int) -> Planned | None:
        """The plan for a period that is in force at its round at a time."""
        mended = Options.model_validate(dict(self.options)).replan == "mended"
        stale: set[int] = set()
        begun: Queries | None = None
        force: Queries | None = None
        before: Planned | None = None
        for hop in hops:
            if hop.kind == MESSAGE and hop.type in (SUBSCRIBE, UNSUBSCRIBE):
                stale |= self._change(hop)
            elif hop.kind == TIMER and hop.type == BEGIN:
                begun, stale = (self._queries(period) if period in stale else None), set()
            elif hop.kind == TIMER and hop.type == PLANNED and begun is not None:
                force, begun = begun, None
                before = self._planned(period, force, before) if mended else None
            elif hop.kind == TIMER and hop.type == ROUND:
                if self.opening:
                    self.opening, force = False, self._queries(period)
                    before = self._planned(period, force, before) if mended else None
                if (hop.time_ns, hop.word) == (at_ns, period):
                    break
        if force is None:
            return None
        return before if mended else self._planned(period, force, None)

    def _change(self, hop: Any) -> set[int]:
        """A query came, went, or is another one now; the periods that have to be planned for."""
        before = self.queries.pop(hop.word, None)
        found = set() if before is None else {before.period_ns}
        row = self.changes.get(hop.cause)
        if hop.type == SUBSCRIBE and row is not None:
            self.queries[hop.word] = self._asked(row)
            found.add(self.queries[hop.word].period_ns)
        return found

    def _queries(self, period: int) -> Queries:
        mine = np.array([id_ for id_ in sorted(self.queries) if self.queries[id_].period_ns == period], np.int64)
        axes = self.kind.dimensions
        low, high = (
            np.array([getattr(self.queries[id_], side) for id_ in mine.tolist()], np.float64).reshape(-1, axes)
            for side in ("low", "high")
        )
        return Queries(mine, (mine >> 32) - self.nodes, low, high)

    def _planned(self, period: int, queries: Queries, before: Planned | None) -> Planned | None:
        (found,) = plan_all(dict(self.options), self.kind.params, self.seed, [Job(period, queries, before)])
        return found if len(queries) else None
