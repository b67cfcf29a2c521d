"""The audit of the kind `channels` in plain Python, for the conformance kit.

Every query is due at each multiple of its period. Of a query at such a time, each version (what one change made of
it) is out (issued after the round's end, or gone before the round), certain (settled before the round, and nothing
took its place until its end) or free. What the client received has to be the answer of a version that is not out;
if one is certain, something has to have been received.

A lost answer excuses what lies behind the link for its round. A lost word on who listens to what excuses what lies
behind the link until one that was said later came over it, since that tells everything again; one that was said before
may come later too, where it waited for the link. An answer that a link doubled may come twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from brokers.contract import NEVER, Guarantees
from protocols.channels.database import marks
from protocols.channels.kind import Asked, Channels
from protocols.channels.server import LISTEN, PLANNED
from protocols.judging import Audit, doubled, handled_last, judge_order
from protocols.standing import Standing, Tables, Version


class Round(NamedTuple):
    """A time at which a query is due, and when a broker last handled an answer of it."""

    sent: int
    end: int


class Owed(NamedTuple):
    """What a query is owed at one time at which it may be due."""

    round: Round
    versions: list[Version]  # those that are possible
    right: list[tuple[int, int]]  # their answers: how many objects, and the sum of their marks
    certain: bool  # whether something has to be received
    excused: bool  # but for what was lost


class Rounds:
    """What every query is owed whenever it may be due."""

    def __init__(self, tables: Tables, kind: Channels, guarantees: Guarantees, service: int) -> None:
        self.kind = kind
        self.standing = Standing(tables, kind, service, guarantees, heeds_ends=False)
        self.asked = {each.change: kind.asked(each.values, each.word) for each in self.standing.versions}
        self._excuses = _Excuses(tables, service) if not guarantees.without_excuse else None
        self._ends = _round_ends(tables, service)
        self._answers: dict[int, tuple[int, int]] = {}

    def periods(self, query: int) -> list[int]:
        """The periods that a query ever has, ascending."""
        return sorted({self.asked[each.change].period_ns for each in self.standing.of.get(query, ())})

    def owed(self, query: int, period: int, at: int) -> Owed:
        """Of a query at a multiple of a period."""
        standing = self.standing
        due = Round(at, max(self._ends.get((period, at // period), at), at))
        possible = [
            each for each in standing.of[query]
            if self.asked[each.change].period_ns == period and standing.possible(each, due)
        ]  # fmt: skip
        certain = [each for each in possible if standing.certain(each, due, forgive=True)]
        spoilt = bool(certain) and not standing.certain(certain[0], due)
        excused = bool(certain) and self._excuses is not None and (spoilt or self._excuses.hold(due))
        right = [_answer(self.kind, self._answers, each.change, self.asked[each.change]) for each in possible]
        return Owed(due, possible, right, bool(certain), excused)


def judge(tables: Tables, kind: Channels, guarantees: Guarantees, service: int) -> Audit:
    """Judge a run by its full trace. O(rounds * queries), and O(objects) per version."""
    found = Audit.of(tables, guarantees)
    rounds = Rounds(tables, kind, guarantees, service)
    got = received_of(tables["received"], service)
    last = int(tables["samples"]["time_ns"].max(initial=0))  # the run went so far at least
    twice = doubled(tables, service)
    twice_in = _rounds_of(tables, service, twice)
    for id_ in sorted(rounds.standing.of):
        for period in rounds.periods(id_):
            for at in range(period, last, period):
                received = got.pop((id_, period, at // period), [])
                if (period, at // period) in twice_in:
                    received = sorted(set(received))
                owed = rounds.owed(id_, period, at)
                _judge(found, f"query {found.message(id_)} at {at} ns", owed, received)
    for (id_, period, number), _ in sorted(got.items()):
        found.unwanted.add(f"query {found.message(id_)} was answered in round {number} of {period} ns, unasked")
    deliveries = tables["deliveries"]
    mine = deliveries["service"] == service
    columns = [deliveries[name][mine].tolist() for name in ("publication", "client", "published_ns", "time_ns")]
    found.deliveries = len(columns[0])
    found.publications = int((tables["answers"]["service"] == service).sum())
    copies = Counter(zip(columns[0], columns[1]))
    found.doubled = sum(count - 1 for (publication, _), count in copies.items() if publication in twice)
    if again := found.deliveries - len(copies) - found.doubled:
        found.duplicated.add(f"{again} messages were delivered again")
    judge_order(found, *columns)
    return found


def _judge(found: Audit, what: str, owed: Owed, received: list[tuple[int, int]]) -> None:
    """One query at one time at which it may be due."""
    right, certain, excused = owed.right, owed.certain, owed.excused
    if len(received) > 1:
        found.duplicated.add(f"{what} was answered {len(received)} times", owed.round.sent)
    for answer in received:
        if answer not in right:
            told = f"{what} was answered with {answer[0]} objects; right are {[n for n, _ in right]}"
            found.unwanted.add(told, owed.round.sent)
    if certain and not received and not excused:
        found.missed.add(f"{what} was not answered", owed.round.sent)
    found.forced += certain and not excused
    found.excused += excused
    found.free += bool(right) and (not certain or excused)
    found.forbidden += not right


def _answer(kind: Channels, known: dict[int, tuple[int, int]], change: int, asked: Asked) -> tuple[int, int]:
    """How many objects the definition gives, and the sum of their marks."""
    if change not in known:
        objects = kind.answer(asked)
        known[change] = len(objects), int(marks(objects).sum())
    return known[change]


class _Excuses:
    """Which rounds lost messages excuse. Coarse: wherever a link lost something, all of the network is excused."""

    def __init__(self, tables: Tables, service: int) -> None:
        losses, hops, answers = tables["losses"], tables["hops"], tables["answers"]
        sent = dict(zip(answers["publication"].tolist(), answers["time_ns"].tolist()))
        self.rounds: set[int] = set()
        self.stretches: list[tuple[int, int]] = []
        told = _told(hops, service)
        mine = np.flatnonzero(losses["service"] == service)
        for row in mine.tolist():
            link, time = int(losses["link"][row]), int(losses["time_ns"][row])
            if losses["type"][row] == LISTEN:
                later = (came for over, said, came in told if over == link and said > time)
                self.stretches.append((time, min(later, default=NEVER)))
            elif int(losses["body"][row]) in sent:
                self.rounds.add(sent[int(losses["body"][row])])

    def hold(self, due: Round) -> bool:
        # Who listens is asked when an answer comes by, which in a network that lags is long after its time.
        return due.sent in self.rounds or any(begin <= due.end and due.sent <= end for begin, end in self.stretches)


def _told(hops: Mapping[str, Any], service: int) -> list[tuple[int, int, int]]:
    """Of each word on who listens to what: over which link it came, when it was said at the latest, and when it came.

    It was said there when one of the same cause was first heard, or planned: what has no cause passes for the first,
    and so does what was planned before the run.
    """
    mine = np.flatnonzero((hops["service"] == service) & np.isin(hops["type"], (LISTEN, PLANNED)))
    names = ("time_ns", "broker", "cause", "type", "link", "source")
    rows = sorted(zip(*(hops[name][mine].tolist() for name in names)))
    first: dict[tuple[int, int], int] = {}  # broker, cause -> when it was first known there
    for time, broker, cause, *_ in rows:
        first.setdefault((broker, cause), time)
    return [
        (link, first.get((source, cause), 0), time) for time, _, cause, type_, link, source in rows if type_ == LISTEN
    ]


def received_of(table: Mapping[str, Any], service: int) -> dict[tuple[int, int, int], list[tuple[int, int]]]:
    """(query, period, round) -> (objects, sum of their marks), as often as it was answered."""
    mine = table["service"] == service
    names = ("query", "period_ns", "round", "objects", "marks")
    found: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for query, period, number, objects, sum_ in zip(*(table[name][mine].tolist() for name in names)):
        found.setdefault((query, period, number), []).append((objects, sum_))
    return found


def _rounds_of(tables: Tables, service: int, publications: set[int]) -> set[tuple[int, int]]:
    """(period, round) of some answers."""
    answers = tables["answers"]
    mine = answers["service"] == service
    rows = zip(*(answers[name][mine].tolist() for name in ("publication", "period_ns", "round")))
    return {(period, number) for publication, period, number in rows if publication in publications}


def _round_ends(tables: Tables, service: int) -> dict[tuple[int, int], int]:
    """(period, round) -> when a broker last handled one of its answers."""
    handled, answers = handled_last(tables), tables["answers"]
    mine = answers["service"] == service
    found: dict[tuple[int, int], int] = {}
    for publication, period, number in zip(*(answers[n][mine].tolist() for n in ("publication", "period_ns", "round"))):
        key = period, number
        found[key] = max(found.get(key, -1), handled.get(publication, -1))
    return found
