"""The audit of the conformance kit: brute force over a full trace, in plain Python.

For a publication, a client must be served if one of its matching interests is certain, and must not be if none of them
is possible, in the words of `protocols.standing`. Everything between is free.

A kind whose answers are not made of such pairs brings a judge of its own, which finds here what all judges share beside
what stood when: the publications with what was delivered of them, and the order per publisher. The words, and what
makes a verdict, are those of `brokers.verdicts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np

from brokers import names, verdicts
from brokers.contract import NEVER, Guarantees, Kind
from brokers.faults import AWAY
from brokers.naming import message_name
from brokers.promises import excusing
from protocols.handed import HandedOver, Sessions, sessions_in
from protocols.standing import Standing, Tables, Version, excused_of
from topology.units import format_duration

_EXAMPLES = 5  # of each kind of mistake that an audit keeps


class Example(NamedTuple):
    """One mistake, and when what it is about was sent."""

    sent: int  # -1: nobody knows
    told: str


_EARLIEST, _LATEST = Example(-1, ""), Example(NEVER, "")  # where there is none


@dataclass
class Mistakes:
    """How often something went wrong, with a few examples."""

    count: int = 0
    examples: list[str] = field(default_factory=list)
    first: Example = _LATEST  # about what was sent first
    last: Example = _EARLIEST

    def add(self, told: str, sent: int = -1) -> None:
        """Note one, about what was sent then."""
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(told)
        if sent < self.first.sent:
            self.first = Example(sent, told)
        if sent > self.last.sent:
            self.last = Example(sent, told)


@dataclass
class Audit:
    """What the audit of one service found. Pairs are of a publication and a client."""

    guarantees: Guarantees
    nodes: int = 0  # brokers and servers, which come before the clients in entity ids
    publications: int = 0
    deliveries: int = 0
    forced: int = 0  # pairs that had to be delivered
    forbidden: int = 0  # pairs that had not to be, where the client has or had some interest
    free: int = 0
    excused: int = 0  # of the free ones: free only because a link lost something
    doubled: int = 0  # deliveries once more, free because a link had doubled the publication
    late_missed: int = 0  # free since the publication was under way for longer than exactness is promised
    handed: HandedOver | None = None  # what was owed over several stays of a client, where that is promised
    missed: Mistakes = field(default_factory=Mistakes)
    unwanted: Mistakes = field(default_factory=Mistakes)
    duplicated: Mistakes = field(default_factory=Mistakes)
    out_of_order: Mistakes = field(default_factory=Mistakes)

    @classmethod
    def of(cls, tables: Tables, guarantees: Guarantees) -> Audit:
        """One that has found nothing yet, of the network of a trace."""
        return cls(guarantees, len(tables["brokers"]["broker"]) if "brokers" in tables else 0)

    def client(self, entity: int) -> str:
        """How to name a client in an example."""
        return f"client {entity - self.nodes}"

    def message(self, id: int) -> str:
        """How to name a publication or an interest in an example: 37#5 for the sixth of client 37."""
        return message_name(id, self.nodes)

    @property
    def judgement(self) -> verdicts.Judgement:
        """Verdict, reason and what was found, in the words of `brokers.verdicts`."""
        counts = {name: getattr(self, name).count for name in verdicts.FINDINGS}
        return verdicts.judgement(self.guarantees, counts, self.forced, self.free, self.deliveries)

    @property
    def verdict(self) -> str:
        """`valid`, `invalid`, or `unknown` where the run did not put the promises to the test."""
        return self.judgement.verdict

    @property
    def breaking(self) -> dict[str, Mistakes]:
        """The findings that break a promise."""
        found = {name: getattr(self, name) for name in verdicts.FINDINGS if verdicts.rules_out(self.guarantees, name)}
        return {name: mistakes for name, mistakes in found.items() if mistakes.count}

    @property
    def broken(self) -> list[str]:
        """Each finding that breaks a promise, with an example."""
        return [
            f"{found.count} {verdicts.words(name)}, e.g. {found.examples[0]}" for name, found in self.breaking.items()
        ]

    def __str__(self) -> str:
        verdict, reason, found = self.judgement
        counts = (
            f"{self.publications} publications, {self.deliveries} deliveries; {self.forced} forced, "
            f"{self.forbidden} forbidden, {self.free} free ({self.excused} by losses)"
            f"{f', {self.doubled} twice since a link doubled them' if self.doubled else ''}"
            f"{f', {self.late_missed} missed of what was under way for too long' if self.late_missed else ''}"
            f"{f', {self.handed.owed} over several stays' if self.handed else ''}"
        )
        return f"{verdict}: {'; '.join([reason, f'found: {found}', counts, *self.broken])}"


class Published(NamedTuple):
    """A publication with what became of it."""

    id: int
    sent: int
    end: int  # when a broker last handled a copy of it
    values: Any
    got: list[int]  # clients, one as often as it was served
    lost: bool  # a link lost a copy, and the protocol declares nothing under loss
    gone: frozenset[int] = frozenset()  # clients that had left when it came to them
    came: tuple[tuple[int, int], ...] = ()  # what of it came: (client, time), by time
    doubled: bool = False  # a link delivered a copy twice
    forgotten: bool = False  # a broker may have forgotten that it had delivered it


def published(
    found: Audit, tables: Tables, kind: Kind, service: int, all_stand: bool = True
) -> Iterator[Published]:
    """Every publication of a service. What is wrong with deliveries whatever was asked for goes into `found`.

    Unless `all_stand` for publications, some that are delivered stand for none, and are judged elsewhere.
    """
    losses, gone = tables["losses"], dict[int, set[int]]()
    for row in np.flatnonzero((losses["service"] == service) & (losses["reason"] == AWAY)).tolist():
        gone.setdefault(int(losses["body"][row]), set()).add(int(losses["client"][row]))
    heeded = (losses["service"] == service) & (losses["reason"] < AWAY) & excusing(found.guarantees, losses["link"])
    lost = set(losses["body"][heeded].tolist())
    handled, twice = handled_last(tables), doubled(tables, service)
    excuse = excused_of(tables, kind, service, found.guarantees)
    deliveries = tables["deliveries"]
    mine = deliveries["service"] == service
    names = ("publication", "client", "published_ns", "time_ns")
    ids, clients, *times = (deliveries[name][mine].tolist() for name in names)
    got: dict[int, list[tuple[int, int]]] = {}
    for id_, client, time in zip(ids, clients, times[1]):
        got.setdefault(id_, []).append((time, client))
    found.deliveries = len(ids)
    table = tables["publications"]
    for row in np.flatnonzero(table["service"] == service).tolist():
        id_, sent = int(table["publication"][row]), int(table["time_ns"][row])
        came = tuple((client, time) for time, client in sorted(got.pop(id_, [])))
        served = sorted(client for client, _ in came)
        found.publications += 1
        end = max(handled.get(id_, sent), sent)
        again = [] if kind.counts_copies else sorted({a for a, b in pairwise(served) if a == b})
        forgotten = excuse.anything(sent, end)
        if forgotten:
            again = []
        if id_ in twice:
            found.doubled, again = found.doubled + len(again), []
        for client in again:
            found.duplicated.add(
                f"{found.client(client)} got publication {found.message(id_)} {served.count(client)} times", sent
            )
        left = frozenset(gone.get(id_, ()))
        values = table["values"][row]
        yield Published(id_, sent, end, values, served, id_ in lost, left, came, id_ in twice, forgotten)
    for id_ in got.keys() - (set() if all_stand else {-1}):
        found.unwanted.add(f"publication {found.message(id_)}, which nobody published")
    judge_order(found, ids, clients, *times)


def judge_pairs(found: Audit, p: Published, must: set[int], may: set[int], excused: set[int], asking: set[int]) -> None:
    """Compare who was served with who had to be, who could be, and who had to be but for what links lost."""
    sent = f"publication {found.message(p.id)}, sent at {format_duration(p.sent)}"
    if p.end - p.sent >= found.guarantees.within_ns and not must <= set(p.got):
        found.late_missed += len(must - set(p.got))
        must = must & set(p.got)
    for client in sorted(must - set(p.got)):
        found.missed.add(f"{found.client(client)} got nothing of {sent}", p.sent)
    for client in sorted(set(p.got) - may):
        found.unwanted.add(f"{found.client(client)} got {sent}, which it did not ask for", p.sent)
    found.forced += len(must)
    found.free += len(may - must)
    found.excused += len((may & excused) - must)
    found.forbidden += len(asking - may)


def audit(tables: Tables, kind: Kind, guarantees: Guarantees, service: int = 0) -> Audit:
    """Judge a run by its full trace (`MemoryTraces.tables()`), pair by pair. O(publications x interests).

    Kinds whose answers are not made of pairs bring a judge of their own.
    """
    if kind.manifest.judge:
        return cast(Audit, names.load_as("judges", kind.manifest.judge)(tables, kind, guarantees, service))
    return pair_by_pair(tables, kind, guarantees, service)


def pair_by_pair(tables: Tables, kind: Kind, guarantees: Guarantees, service: int) -> Audit:
    """Judge a run by the oracle of its kind alone."""
    found = Audit.of(tables, guarantees)
    standing = Standing(tables, kind, service, guarantees)
    interests = {each.change: each for each in standing.versions if each.type in kind.wants()}
    rows = {change: version.values for change, version in interests.items()}
    asking = {version.client for version in interests.values()}
    offered = Offered(standing, kind)
    sessions = Sessions(tables, kind, standing) if guarantees.hands_over and sessions_in(tables) else None
    every: dict[int, Published] = {}
    for p in published(found, tables, kind, service):
        every[p.id] = p
        owed, forgiven = offered.certain(p), offered.certain(p, forgive=True)
        must: set[int] = set()
        excused: set[int] = set()
        may: set[int] = set()
        for version in (interests[change] for change in kind.oracle(rows, p.values)):
            if not standing.possible(version, p):
                continue
            may.add(version.client)
            if owed and standing.certain(version, p) and not p.lost:
                must.add(version.client)
            elif forgiven and standing.certain(version, p, forgive=True):
                excused.add(version.client)
        judge_pairs(found, p, must, may, excused, asking)
    if sessions is not None:
        judge_sessions(found, sessions.judge(every, kind.oracle))
    return found


class Offered:
    """What publishers say that they will publish, where only that is owed to anybody (`Kind.offers`)."""

    def __init__(self, standing: Standing, kind: Kind) -> None:
        self._standing, self._kind = standing, kind
        self._of: dict[int, dict[int, Version]] = {}  # client -> its offers, by their changes
        for each in standing.versions:
            if each.type in kind.offers:
                self._of.setdefault(each.client, {})[each.change] = each

    def certain(self, p: Published, forgive: bool = False) -> bool:
        """Whether an offer that must count holds a publication."""
        if not self._kind.advertised:
            return True
        offers = self._of.get(p.id >> 32, {})
        holding = self._kind.oracle({change: offer.values for change, offer in offers.items()}, p.values)
        return any(self._standing.certain(offers[change], p, forgive) for change in holding)


def judge_sessions(found: Audit, handed: HandedOver) -> None:
    """What clients were owed over several stays, beside what they got."""
    found.handed = handed
    found.forced += handed.owed
    for id_, client in handed.missed:
        found.missed.add(f"{found.client(client)}, which has a session, never got publication {found.message(id_)}")
    for id_, client in handed.twice:
        found.duplicated.add(f"{found.client(client)}, which has a session, got {found.message(id_)} at two brokers")
    for before, id_, client in handed.late:
        later = f"{found.message(id_)} before {found.message(before)}"
        found.out_of_order.add(f"{found.client(client)}, which has a session, got publication {later}")


def doubled(tables: Tables, service: int) -> set[int]:
    """Bodies of which a link delivered a copy twice: who gets them once more than that gets nothing wrong."""
    if "doubled" not in tables:
        return set()
    table = tables["doubled"]
    return set(table["body"][table["service"] == service].tolist()) - {-1}


def handled_last(tables: Tables) -> dict[int, int]:
    """When a broker last handled something that is, or stands for, each publication, or came too late with it.

    A delivery that its client had left before is decided on then: what the client asked for had been withdrawn.
    """
    hops, losses = tables["hops"], tables["losses"]
    gone = losses["reason"] == AWAY
    handled: dict[int, int] = {}
    for table, rows in ((hops, slice(None)), (losses, gone)):
        for body, time in zip(table["body"][rows].tolist(), table["time_ns"][rows].tolist()):
            handled[body] = max(handled.get(body, -1), time)
    return handled


def judge_order(
    found: Audit, publication: list[int], client: list[int], sent: list[int], time: list[int]
) -> None:
    """What one client gets from one publisher comes in the order in which it was sent."""
    first: dict[tuple[int, int], tuple[int, int]] = {}
    for p, c, when, at in zip(publication, client, sent, time):
        if p >= 0:
            first[c, p] = min(first.get((c, p), (at, when)), (at, when))
    pairs: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for (c, p), (at, when) in first.items():
        pairs.setdefault((c, p >> 32), []).append((at, when, p))
    for (c, publisher), rows in pairs.items():
        rows.sort()
        latest = (-1, -1)  # of what came strictly earlier: at one instant the trace keeps no order
        ahead = latest
        now = -1
        for at, when, p in rows:
            if at > now:
                now, latest = at, max(latest, ahead)
            if (when, p) < latest:
                late = f"publication {found.message(p)} of {found.client(publisher)}"
                found.out_of_order.add(f"{found.client(c)} got {late} after {found.message(latest[1])}", when)
            ahead = max(ahead, (when, p))
