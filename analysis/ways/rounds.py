"""A query of a kind whose server answers again and again, in one round: what of that the trace has.

An answer is followed as a publication of the server's own. Who should hear it is in its header and in what brokers were
told of who listens, which a trace does not hold; the kind makes the plan again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from analysis.ways.pair import Pair, when
from analysis.ways.told import Hop, Row, Told
from brokers.contract import MESSAGE, TIMER
from brokers.errors import InvalidInput
from protocols.explaining import NOT_OWED


class Part(Pair):
    """An answer of a server and a client, for one of its queries."""

    def __init__(self, told: Told, answer: Row, change: Row) -> None:
        row = {
            "publication": answer["publication"], "time_ns": answer["time_ns"], "broker": answer["broker"],
            "client": answer["broker"], "service": told.service, "values": [],
        }  # fmt: skip
        super().__init__(told, row, change["client"], change["broker"])
        self.query = change["interest"]

    @cached_property
    def wanting(self) -> list[Row]:
        return [row for row in self.begun if row["interest"] == self.query]


@dataclass
class Round:
    """A query at a time at which it may be due."""

    told: Told
    query: int
    at_ns: int
    of_ns: int | None = None  # the period of its versions that are meant; None: that of what is due then

    # ---- what the trace has ------------------------------------------------------------------------------

    @cached_property
    def versions(self) -> list[Row]:
        """The changes that began the query or put another in its place, the oldest first."""
        rows = self.told.rows("changes", interest=self.query, service=self.told.service)
        found = [row for row in rows if row["operation"] in self.told.kind.interests]
        return sorted(found, key=lambda row: (row["issued_ns"], row["change"]))

    @cached_property
    def period_ns(self) -> int:
        """The period in whose rounds the time is; of several that the query had, that by which something is due."""
        if self.of_ns is not None:
            return self.of_ns
        if not self.versions:
            raise InvalidInput(f"{self.name}: no query has this name; say the message that asked for it first")
        periods = [self.told.explaining.period_of(row) for row in self.versions]
        found = [period for period in dict.fromkeys(reversed(periods)) if self.at_ns % period == 0 and self.at_ns > 0]
        if not found:
            last = periods[-1]
            below = self.at_ns // last * last
            near = " or ".join(when(each) for each in (below, below + last) if each > 0)
            due = f"query {self.name} is due every {when(last)}"
            raise InvalidInput(f"{due}, and {when(self.at_ns)} is no multiple of that; say {near}")
        return found[0] if len(found) == 1 else min(found, key=self._unlike)

    def _unlike(self, period_ns: int) -> tuple[bool, bool]:
        """The less, the more a period is the one that matters."""
        due = Round(self.told, self.query, self.at_ns, period_ns).due
        return due.due == NOT_OWED, not due.received

    @property
    def number(self) -> int:
        return self.at_ns // self.period_ns

    @property
    def name(self) -> str:
        return self.told.message(abs(self.query))

    @cached_property
    def answers(self) -> list[Row]:
        """What the server sent in the round, in its order."""
        rows = self.told.rows("answers", service=self.told.service, period_ns=self.period_ns, round=self.number)
        return sorted(rows, key=lambda row: row["publication"])

    @cached_property
    def due(self) -> Any:
        """What the definition says."""
        told, explaining = self.told, self.told.explaining
        ids = {row["publication"] for row in self.answers}
        tables = dict(told.whole)
        tables["answers"] = told.columns("answers", service=told.service, period_ns=self.period_ns, round=self.number)
        tables["received"] = told.columns("received", service=told.service, query=self.query, round=self.number)
        listening = told.rows("hops", service=told.service, type={explaining.listens, explaining.planned_type})
        tables["hops"] = told.as_columns("hops", listening + (told.rows("hops", body=ids) if ids else []))
        return explaining.answered(tables, told.promises(), told.service, self.query, self.at_ns, self.period_ns)

    @cached_property
    def server(self) -> int:
        """The node that answers."""
        if self.answers:
            return int(self.answers[0]["broker"])
        hops = self.told.hops(kind=TIMER, type=self.told.explaining.round_type)
        return hops[0].broker if hops else self.told.nodes - 1

    @cached_property
    def held(self) -> Hop | None:
        """The server's own event that is the round."""
        hops = self.told.hops(broker=self.server, kind=TIMER, type=self.told.explaining.round_type, word=self.period_ns)
        return next((hop for hop in hops if hop.time_ns == self.at_ns), None)

    @cached_property
    def plans(self) -> list[Row]:
        """The plans for the period that were in force by then, the oldest first."""
        rows = self.told.rows("plans", service=self.told.service, period_ns=self.period_ns)
        return sorted((row for row in rows if row["time_ns"] <= self.at_ns), key=lambda row: row["plan"])

    @cached_property
    def messages(self) -> list[Any] | None:
        """What the server sent in the round, with the headers; None where that cannot be told."""
        told = self.told
        hops = [hop for hop in told.hops(broker=self.server) if hop.link >= 0 or hop.kind == TIMER]
        told.learn({hop.cause for hop in hops if hop.cause >= 0})
        changes = {hop.cause: row for hop in hops if hop.cause >= 0 and (row := told.change(hop.cause)) is not None}
        standing = [
            row for row in told.rows("changes", service=told.service)
            if row["issued_ns"] < 0 and row["operation"] in told.kind.interests
        ]  # fmt: skip
        found: list[Any] | None = told.explaining.messages(
            hops, changes, self.answers, standing, told.options, told.seed, told.nodes
        )
        return found

    @cached_property
    def version(self) -> Row:
        """What of the query is due; where nothing is, its last version."""
        changes = self.due.changes
        return next((row for row in self.versions if row["change"] in changes[:1]), self.versions[-1])

    @property
    def home(self) -> int:
        """The client's broker."""
        return int(self.version["broker"])

    @cached_property
    def parts(self) -> list[Part]:
        """The messages that have something for the query."""
        wanted = {each.publication for each in self.messages or () if self.query in each.lines}
        return [Part(self.told, row, self.version) for row in self.answers if row["publication"] in wanted]

    @cached_property
    def pair(self) -> Part:
        """The client, and a message for it; where there is none, one that nobody sent."""
        nothing = {"publication": -1, "time_ns": self.at_ns, "broker": self.server}
        return self.parts[0] if self.parts else Part(self.told, nothing, self.version)

    def channel(self, part: Part) -> int:
        """The channel of a message."""
        return int(next(row["channel"] for row in self.answers if row["publication"] == part.way.id))

    def arrived(self, change: int) -> Hop | None:
        """When a change came to the server."""
        return next(iter(self.told.hops(broker=self.server, cause=change, kind=MESSAGE)), None)
