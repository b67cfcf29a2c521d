"""The audit of the kind `channels` in plain Python, for the conformance kit.

Every query is due at each multiple of its period. Of a query at such a time, each version (what one change made of
it) is out (issued after the round's end, or gone before the round), certain (settled before the round, and nothing
took its place until its end) or free. What the client received has to be the answer of a version that is not out;
if one is certain, something has to have been received.

A lost answer excuses what lies behind the link for its round. A lost word on who listens to what excuses what lies
behind the link until the next one went over it, since that tells everything again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from brokers.contract import NEVER, Guarantees
from protocols.channels.database import marks
from protocols.channels.kind import UNSUBSCRIBE, Asked, Channels
from protocols.channels.server import LISTEN
from protocols.judging import Audit, Tables, handled_last, judge_order


@dataclass
class _Version:
    """What a change made of a query; None: nothing."""

    asked: Asked | None
    issued: int
    settled: int
    spoilt: bool
    ended: int = NEVER  # when the next was issued
    gone: int = NEVER  # when the next had settled


def judge(tables: Tables, kind: Channels, guarantees: Guarantees, service: int) -> Audit:
    """Judge a run by its full trace. O(rounds * queries), and O(objects) per version."""
    found = Audit.of(tables, guarantees)
    queries = _queries(tables, kind, service)
    excuses = _Excuses(tables, service) if not guarantees.under_loss else None
    got = _received(tables["received"], service)
    ends = _round_ends(tables, service)
    last = int(tables["samples"]["time_ns"].max(initial=0))  # the run went so far at least
    answers: dict[int, tuple[int, int]] = {}
    for id_, versions in sorted(queries.items()):
        for period in sorted({version.asked.period_ns for version in versions if version.asked}):
            due = range(period, last, period)
            wanted = [version for version in versions if version.asked and version.asked.period_ns == period]
            for at in due:
                end = max(ends.get((period, at // period), at), at)
                received = got.pop((id_, period, at // period), [])
                _judge(found, kind, answers, id_, at, end, wanted, received, excuses)
    for (id_, period, number), _ in sorted(got.items()):
        found.unwanted.add(f"query {found.message(id_)} was answered in round {number} of {period} ns, unasked")
    deliveries = tables["deliveries"]
    mine = deliveries["service"] == service
    columns = [deliveries[name][mine].tolist() for name in ("publication", "client", "published_ns", "time_ns")]
    found.deliveries = len(columns[0])
    found.publications = int((tables["answers"]["service"] == service).sum())
    pairs = set(zip(columns[0], columns[1]))
    if len(pairs) < found.deliveries:
        found.duplicated.add(f"{found.deliveries - len(pairs)} messages were delivered again")
    judge_order(found, *columns)
    return found


def _judge(
    found: Audit, kind: Channels, answers: dict[int, tuple[int, int]], id_: int, at: int, end: int,
    versions: list[_Version], received: list[tuple[int, int]], excuses: _Excuses | None,
) -> None:  # fmt: skip
    """One query at one time at which it may be due."""
    possible = [v for v in versions if v.issued <= end and v.gone >= at]
    certain = [v for v in possible if v.settled < at and v.ended > end]
    excused = bool(certain) and excuses is not None and (certain[0].spoilt or excuses.hold(at))
    what = f"query {found.message(id_)} at {at} ns"
    if len(received) > 1:
        found.duplicated.add(f"{what} was answered {len(received)} times")
    right = [_answer(kind, answers, version) for version in possible]
    for answer in received:
        if answer not in right:
            found.unwanted.add(f"{what} was answered with {answer[0]} objects; right are {[n for n, _ in right]}")
    if certain and not received and not excused:
        found.missed.add(f"{what} was not answered")
    found.forced += bool(certain) and not excused
    found.excused += excused
    found.free += bool(possible) and (not certain or excused)
    found.forbidden += not possible


def _answer(kind: Channels, known: dict[int, tuple[int, int]], version: _Version) -> tuple[int, int]:
    """How many objects the definition gives, and the sum of their marks."""
    answer = known.get(id(version))
    if answer is None:
        assert version.asked is not None
        objects = kind.answer(version.asked)
        answer = known[id(version)] = (len(objects), int(marks(objects).sum()))
    return answer


def _queries(tables: Tables, kind: Channels, service: int) -> dict[int, list[_Version]]:
    table = tables["changes"]
    settled = dict(zip(table["change"].tolist(), table["settled_ns"].tolist()))
    after: dict[int, int] = {}
    leans = tables["dependencies"]
    for change, on in zip(leans["change"].tolist(), leans["depends_on"].tolist()):
        after[change] = max(after.get(change, -1), settled[on] if settled[on] >= 0 else NEVER)
    queries: dict[int, list[_Version]] = {}
    mine = np.flatnonzero(table["service"] == service)
    for row in mine[np.lexsort((table["change"][mine], table["issued_ns"][mine]))].tolist():
        id_, change = int(table["interest"][row]), int(table["change"][row])
        issued, at = int(table["issued_ns"][row]), int(table["settled_ns"][row])
        spoilt = bool(table["lost"][row])
        at = -1 if issued < 0 else max(NEVER if at < 0 else at, after.get(change, -1))
        asked = None if table["operation"][row] == UNSUBSCRIBE else kind.asked(table["values"][row], id_)
        versions = queries.setdefault(id_, [])
        # A change that a link lost may never take effect, and those before it never end; the same for its leader's.
        gone = NEVER if spoilt else at
        for version in versions:
            version.ended, version.gone = min(version.ended, issued), min(version.gone, gone)
        versions.append(_Version(asked, issued, at, spoilt))
    return queries


class _Excuses:
    """Which rounds lost messages excuse. Coarse: wherever a link lost something, all of the network is excused."""

    def __init__(self, tables: Tables, service: int) -> None:
        losses, hops, answers = tables["losses"], tables["hops"], tables["answers"]
        sent = dict(zip(answers["publication"].tolist(), answers["time_ns"].tolist()))
        self.rounds: set[int] = set()
        self.stretches: list[tuple[int, int]] = []
        told = (hops["service"] == service) & (hops["type"] == LISTEN)
        mine = np.flatnonzero(losses["service"] == service)
        for row in mine.tolist():
            link, time = int(losses["link"][row]), int(losses["time_ns"][row])
            if losses["type"][row] == LISTEN:
                later = hops["time_ns"][told & (hops["link"] == link) & (hops["time_ns"] > time)]
                self.stretches.append((time, int(later.min(initial=NEVER))))
            elif int(losses["body"][row]) in sent:
                self.rounds.add(sent[int(losses["body"][row])])

    def hold(self, at: int) -> bool:
        return at in self.rounds or any(begin <= at <= end for begin, end in self.stretches)


def _received(table: Mapping[str, Any], service: int) -> dict[tuple[int, int, int], list[tuple[int, int]]]:
    """(query, period, round) -> (objects, sum of their marks), as often as it was answered."""
    mine = table["service"] == service
    names = ("query", "period_ns", "round", "objects", "marks")
    found: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for query, period, number, objects, sum_ in zip(*(table[name][mine].tolist() for name in names)):
        found.setdefault((query, period, number), []).append((objects, sum_))
    return found


def _round_ends(tables: Tables, service: int) -> dict[tuple[int, int], int]:
    """(period, round) -> when a broker last handled one of its answers."""
    handled, answers = handled_last(tables), tables["answers"]
    mine = answers["service"] == service
    found: dict[tuple[int, int], int] = {}
    for publication, period, number in zip(*(answers[n][mine].tolist() for n in ("publication", "period_ns", "round"))):
        key = period, number
        found[key] = max(found.get(key, -1), handled.get(publication, -1))
    return found
