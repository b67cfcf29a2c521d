"""What the kit asks of what is retained: what subscriptions were answered with, and what live copies said.

Of the retained publications of a name the last is the one sent last, at one time that with the greatest id. When a
subscription is issued

    certain    are those that every broker had handled before
    possible   are the last of the certain ones and all that are later and had been sent; nothing, if none is certain

The subscription gets one of the possible, and nothing only if that is possible: if one is empty, or left out by
no-local, or nothing had to be there. A subscription of a group gets nothing, nor one that says `retained-never`, nor
one that says `retained-if-new` while the client has another with its filter.

Each such answer is a delivery that stands for no publication. Live copies are told to be retained to subscriptions
that say `retain-as-published`, and to no others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from brokers.contract import NEVER, Guarantees
from brokers.faults import CRASHED, CUT_OFF
from brokers.indexes.topics.syntax import matches
from protocols.judging import Audit, Published
from protocols.standing import Standing, Tables, Version, excused_of, links_that_lost
from protocols.topics.kind import (
    AS_PUBLISHED,
    EMPTY,
    GROUP_AT,
    IF_NEW,
    NEVER_KEPT,
    PUBLISH,
    RETAIN,
    SUBSCRIBE,
    Topics,
    flags_of,
    leaves_out,
    levels_of,
)

Name = tuple[int, ...]


class Retaining:
    """What was retained in a run, and what was told of it."""

    def __init__(
        self, found: Audit, tables: Tables, kind: Topics, guarantees: Guarantees, service: int, standing: Standing
    ) -> None:
        self.found, self.tables, self.kind, self.standing = found, tables, kind, standing
        self.excused = excused_of(tables, kind, service, guarantees)
        self.sent: dict[Name, list[Published]] = defaultdict(list)
        self.name_of: dict[int, Name] = {}
        self.by_client: dict[int, list[Version]] = defaultdict(list)
        for version in standing.versions:
            self.by_client[version.client].append(version)
        losses = tables["losses"]
        alone = np.isin(losses["reason"], (CUT_OFF, CRASHED)) | guarantees.heals_loss
        self._never_mended = set(losses["body"][~alone].tolist())
        self._fallen = Counter(
            losses["client"][(losses["service"] == service) & (losses["body"] < 0) & (losses["client"] >= 0)].tolist()
        )
        deliveries = tables["deliveries"]
        loose = (deliveries["service"] == service) & (deliveries["publication"] < 0)
        self._loose = Counter(deliveries["client"][loose].tolist())
        self.answers: dict[int, list[int]] = defaultdict(list)  # subscription -> publications that were kept
        self.told: dict[int, list[tuple[int, int]]] = defaultdict(list)  # publication -> subscriptions, clients
        self._answered: Counter[int] = Counter()
        table = tables["retained"]
        mine = table["service"] == service
        columns = (table[name][mine].tolist() for name in ("publication", "interest", "client", "live"))
        for publication, interest, client, live in zip(*columns):
            if live:
                self.told[publication].append((interest, client))
            else:
                self.answers[interest].append(publication)
                self._answered[client] += 1

    # ---- live copies -----------------------------------------------------------------------------------

    def heed(self, p: Published, plain: Iterable[Version], chosen: Iterable[Version]) -> None:
        """A publication with the subscriptions that may have drawn it, by themselves and for groups."""
        if not flags_of(PUBLISH, p.values) & RETAIN:
            plain, chosen = (), ()
        else:
            name = tuple(levels_of(PUBLISH, p.values))
            self.sent[name].append(p)
            self.name_of[p.id] = name
        say = [version for version in plain if flags_of(SUBSCRIBE, version.values) & AS_PUBLISHED]
        for_groups = [version for version in chosen if flags_of(SUBSCRIBE, version.values) & AS_PUBLISHED]
        told = self.told.pop(p.id, [])
        allowed = {(version.word, version.client) for version in [*say, *for_groups]}
        for _, client in sorted({*told} - allowed):
            self.found.unwanted.add(f"{self._told(client, p)}, for a subscription that wants no such flag")
        must = {(version.word, version.client) for version in for_groups}
        by_client: dict[int, list[Version]] = defaultdict(list)
        for version in say:
            if version.client in p.got and not p.lost and self.standing.certain(version, p):
                by_client[version.client].append(version)
        for client, versions in sorted(by_client.items()):
            theirs = {(version.word, client) for version in versions}
            if self.kind.each:
                must |= theirs
            elif not {(word, one) for word, one in told if one == client}:
                must |= {min(theirs)}
        for _, client in sorted(must - {*told}):
            if client in p.got:
                self.found.missed.add(f"{self.found.client(client)} is not told that {self._named(p.id)} is retained")

    def _told(self, client: int, p: Published) -> str:
        return f"{self.found.client(client)} is told that {self._named(p.id)} is retained"

    def _named(self, publication: int) -> str:
        return f"publication {self.found.message(publication)}"

    # ---- what subscriptions are answered with ----------------------------------------------------------

    def judge(self) -> None:
        """Everything that is not about a single publication."""
        for those in self.sent.values():
            those.sort(key=lambda p: (p.sent, p.id))
        for publication in self.told:
            self.found.unwanted.add(f"{self._named(publication)} is told to be retained, and nobody published it")
        for version in self.standing.versions:
            self._judge(version, self.answers.pop(version.word, []))
        for word in self.answers:
            self.found.unwanted.add(f"{self.found.message(word)}, which is no subscription, got what is retained")
        for client in sorted({*self._answered, *self._loose}):
            got, said = self._loose[client], self._answered[client]
            if got > said:
                self.found.unwanted.add(f"{self.found.client(client)} got {got} retained ones; the table tells {said}")
            elif got + self._fallen[client] < said:
                self.found.missed.add(f"{self.found.client(client)} got {got} retained ones; the table tells {said}")

    def _judge(self, version: Version, got: Sequence[int]) -> None:
        found = self.found
        asks = self._asks(version)
        by_name: dict[Name, list[int]] = defaultdict(list)
        who = f"{found.client(version.client)}, for its subscription {found.message(version.word)},"
        for publication in got:
            if publication in self.name_of:
                by_name[self.name_of[publication]].append(publication)
            else:
                found.unwanted.add(f"{who} got {self._named(publication)}, which is not retained")
        filter = levels_of(SUBSCRIBE, version.values)
        for name in sorted(self.sent):
            taken = by_name.pop(name, [])
            if not matches(filter, name, self.kind.syntax):
                for publication in taken:
                    found.unwanted.add(f"{who} got {self._named(publication)}, whose name it does not have")
                continue
            allowed = self._allowed(version, self.sent[name], asks)
            for publication in taken:
                if publication not in allowed:
                    found.unwanted.add(f"{who} got {self._named(publication)} as retained, which it was not then")
            if len(taken) > 1 and self.excused.forgot_ns >= NEVER:
                found.duplicated.add(f"{who} got {len(taken)} retained ones of one name: {self._named(taken[0])}, ...")
            if not taken and None not in allowed:
                last = max(publication for publication in allowed if publication is not None)
                found.missed.add(f"{who} did not get {self._named(last)}, which is retained")
            found.forced += None not in allowed
            found.free += None in allowed and len(allowed) > 1

    def _allowed(self, version: Version, sent: Sequence[Published], asks: bool | None) -> set[int | None]:
        """What may be the answer under a name; None is nothing."""
        if asks is False:
            return {None}
        there = [p for p in sent if p.sent <= version.issued]
        certain = [at for at, p in enumerate(there) if self._certain(p, version.issued)]
        possible = there[certain[-1] :] if certain else there
        allowed: set[int | None] = {self._answer(p, version) for p in possible}
        if not certain or asks is None or self._spoilt(version):
            allowed.add(None)
        return allowed

    def _answer(self, p: Published, version: Version) -> int | None:
        nothing = flags_of(PUBLISH, p.values) & EMPTY or leaves_out(version.values, version.client, p.id)
        return None if nothing else p.id

    def _certain(self, p: Published, at: int) -> bool:
        """Whether every broker kept a publication then, or a later one."""
        again, forgot = self.excused.again_ns, self.excused.forgot_ns
        if p.end >= at or (forgot <= at and p.sent < again):
            return False
        return not p.lost or (at >= again and p.id not in self._never_mended)

    def _spoilt(self, version: Version) -> bool:
        """Whether a broker may not have known what it was asked."""
        at = version.issued
        if self.excused.forgot_ns <= at < self.excused.again_ns:
            return True
        return at < self.excused.again_ns and bool(links_that_lost(self.tables, version.change).size)

    def _asks(self, version: Version) -> bool | None:
        """Whether a subscription asks for what is retained; None where that is open."""
        flags = flags_of(SUBSCRIBE, version.values)
        if version.issued < 0 or version.values[GROUP_AT] or flags & NEVER_KEPT:
            return False
        if not flags & IF_NEW:
            return True
        others = [other for other in self.by_client[version.client] if self._is_same(other, version)]
        at = version.issued
        if any(other.issued < at < other.ended and not self._spoilt(other) for other in others):
            return False
        return None if any(other.issued <= at <= other.ended for other in others) else True

    @staticmethod
    def _is_same(other: Version, version: Version) -> bool:
        """Whether it has the same filter, and is another."""
        if other.word == version.word or other.values[GROUP_AT]:
            return False
        return levels_of(SUBSCRIBE, other.values) == levels_of(SUBSCRIBE, version.values)


