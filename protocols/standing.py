"""What stood when, what had settled, and what is free: all that a judge of the kit asks of the changes of a service.

Theory. A change is settled when everything it caused has been handled. What a decision is about, a publication or a
round of queries, is under way from its sending to the last event that handled a copy of it: its `Span`. A version is
what one change made of something, an interest, an object or a value; it ends by its revocation, or by the next with its
word where the kind says that changes replace each other. Towards a span a version is

    not possible   issued after the end, or something that came after it had settled before the sending
    certain        had settled before the sending, and nothing that ends it was issued by the end
    free           neither

A change that leans on others (covering leans on the covering subscription) has settled only once they have, and once
those of them that were revoked have gone. A change of which a link lost something never settles, unless the protocol
declares that it holds under loss; to `forgive` is to ask as if no link had lost anything. Where a protocol recovers
from faults, what was lost excuses nothing that is sent after the time that it states; and where a broker came back
without what it knew, nothing is certain before (`brokers.promises.Excused`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from brokers.contract import NEVER, Guarantees, Kind
from brokers.promises import Excused, excused, excusing, unnoticed_ns

Tables = Mapping[str, Mapping[str, Any]]


def excused_of(tables: Tables, kind: Kind, service: int, guarantees: Guarantees) -> Excused:
    """What faults excuse of a service."""
    if "faults" not in tables:
        return Excused()
    losses = tables["losses"]
    mine = losses["service"] == service
    of_service = {name: losses[name][mine] for name in ("reason", "type", "link", "time_ns")}
    unnoticed = unnoticed_ns(tables["faults"], of_service, kind.publications)
    return excused(guarantees, tables["faults"], unnoticed, lambda: homes(tables, service))


def links_that_lost(tables: Tables, change: int) -> Any:
    """The links that lost something of a change; -1 where it was over none."""
    losses = tables["losses"]
    return losses["link"][losses["cause"] == change]


def homes(tables: Tables, service: int) -> set[int]:
    """The brokers whose clients published or wanted anything."""
    found: set[int] = set()
    for table in (tables["publications"], tables["changes"]):
        found.update(table["broker"][table["service"] == service].tolist())
    return found


class Span(Protocol):
    """What a decision is about, in time."""

    @property
    def sent(self) -> int: ...

    @property
    def end(self) -> int: ...  # when a broker last handled a copy of it


@dataclass
class Version:
    """What one change made of something."""

    change: int
    type: int
    word: int  # the id of what it made something of
    client: int  # entity id
    broker: int
    values: Any
    issued: int
    ends: list[int] = field(default_factory=list)  # the changes that end it, in the order of their issue
    ended: int = NEVER  # when the first of them was issued


class Standing:
    """See the module.

    Where changes lean on messages of others that are under way, and not on what these others stand for, it does not
    matter when these end: `heeds_ends` is False then.
    """

    def __init__(
        self, tables: Tables, kind: Kind, service: int, guarantees: Guarantees, heeds_ends: bool = True
    ) -> None:
        self._excused = excused_of(tables, kind, service, guarantees)
        self.issued: dict[int, int] = {}
        self.versions: list[Version] = []  # in the order of their issue
        self.of: dict[int, list[Version]] = {}  # word -> its versions
        self._settled: dict[int, int] = {}
        self._spoilt: set[int] = set()  # changes of which a link lost something
        self._leans: dict[int, list[int]] = {}
        self._revoked_by: dict[int, int] = {}  # change -> the one that revokes what it began
        self._heeds_ends = heeds_ends
        self._settles: dict[tuple[int, bool], int] = {}
        leans = tables["dependencies"]
        for change, on in zip(leans["change"].tolist(), leans["depends_on"].tolist()):
            self._leans.setdefault(change, []).append(on)
        table = tables["changes"]
        mine = np.flatnonzero(table["service"] == service)
        for row in mine[np.lexsort((table["change"][mine], table["issued_ns"][mine]))].tolist():
            change, issued, settled = (int(table[name][row]) for name in ("change", "issued_ns", "settled_ns"))
            self.issued[change] = issued
            # What stands from the start was issued and settled before everything.
            self._settled[change] = -1 if issued < 0 else settled if settled >= 0 else NEVER
            if table["lost"][row] and excusing(guarantees, links_that_lost(tables, change)).any():
                self._spoilt.add(change)
            self._take(kind, table, row)

    def _take(self, kind: Kind, table: Mapping[str, Any], row: int) -> None:
        change, type, word = (int(table[name][row]) for name in ("change", "operation", "interest"))
        before = self.of.setdefault(word, [])
        if type in kind.replacements | kind.revocations:
            for version in before:
                version.ends.append(change)
                version.ended = min(version.ended, self.issued[change])
        if type in kind.revocations and before:
            self._revoked_by[before[-1].change] = change
        if type in kind.interests | kind.replacements:
            client, broker = int(table["client"][row]), int(table["broker"][row])
            values = np.asarray(table["values"][row], np.float64)
            version = Version(change, type, word, client, broker, values, self.issued[change])
            before.append(version)
            self.versions.append(version)

    def possible(self, version: Version, span: Span) -> bool:
        """Whether it may count."""
        return version.issued <= span.end and not any(self.had_settled(end, span) for end in version.ends)

    def certain(self, version: Version, span: Span, forgive: bool = False) -> bool:
        """Whether it must count."""
        return version.ended > span.end and self.had_settled(version.change, span, forgive)

    def absent(self, word: int, span: Span) -> bool:
        """Whether there may have been nothing of this word."""
        versions = self.of.get(word, [])
        revocations = (self._revoked_by[each.change] for each in versions if each.change in self._revoked_by)
        return not any(self.had_settled(each.change, span) for each in versions) or any(
            self.issued[each] <= span.end for each in revocations
        )

    def had_settled(self, change: int, span: Span, forgive: bool = False) -> bool:
        """Whether this change, and all it leans on, had settled before the sending."""
        if not forgive and self._excused.anything(span.sent, span.end):
            return False
        if not self._heeds_ends:
            return self.settles(change, forgive or span.sent >= self._excused.again_ns) < span.sent
        seen: set[int] = set()
        ahead = [change]
        while ahead:
            one = ahead.pop()
            if one in seen:
                continue
            seen.add(one)
            if self._settled.get(one, NEVER) >= span.sent:
                return False
            if one in self._spoilt and not forgive and span.sent < self._excused.again_ns:
                return False
            for on in self._leans.get(one, ()):
                ahead.append(on)
                end = self._revoked_by.get(on)
                if end is not None and self.issued[end] <= span.end:
                    ahead.append(end)
        return True

    def settles(self, change: int, forgive: bool = False) -> int:
        """When this change, and all it leans on, had settled; NEVER if a link lost something of it."""
        known = self._settles.get((change, forgive))
        if known is not None:
            return known
        seen, ahead = {change}, [change]
        while ahead:
            for on in self._leans.get(ahead.pop(), ()):
                if on not in seen:
                    seen.add(on)
                    ahead.append(on)
        spoilt = not forgive and not seen.isdisjoint(self._spoilt)
        found = NEVER if spoilt else max(self._settled[one] for one in seen)
        self._settles[change, forgive] = found
        return found
