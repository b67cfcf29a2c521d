"""The audit of the kind `topics` in plain Python, for the conformance kit: pair by pair, and group by group.

A subscription asks for nothing that it leaves out by no-local, nor does that of a member of a group by itself. Of a
group whose filter has the name of a publication

    at most one member is chosen, and it may be a member then
    who is chosen gets the publication
    one is chosen if all who may be members are so for certain, and there are any

A client gets one copy for what it asks by itself, with `overlap: each` one for each subscription that asks, and one for
each group that it is chosen of. What is retained is judged in `judge_retained`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from brokers.contract import Guarantees
from protocols.judging import Audit, Published, judge_pairs, pair_by_pair, published
from protocols.standing import Standing, Tables, Version
from protocols.topics.judge_retained import Retaining
from protocols.topics.kind import GROUP_AT, SUBSCRIBE, Topics, leaves_out, levels_of

Group = tuple[int, ...]  # its name and the levels of its filter
Copy = tuple[int, str, int]  # the client that gets it, and what for: which subscription, where that matters


def judge(tables: Tables, kind: Topics, guarantees: Guarantees, service: int) -> Audit:
    """Judge a run by its full trace. O(publications * subscriptions)."""
    if kind.pair_by_pair:
        return pair_by_pair(tables, kind, guarantees, service)
    found = Audit.of(tables, guarantees)
    standing = Standing(tables, kind, service, guarantees)
    retaining = Retaining(found, tables, kind, guarantees, service, standing) if kind.retained else None
    asked = dict(enumerate(standing.versions))
    rows = {number: version.values for number, version in asked.items()}
    asking = {version.client for version in asked.values()}
    chosen = _chosen(tables["chosen"], service)
    for p in published(found, tables, kind, service, all_stand=not kind.retained):
        copies = _Copies(standing, p, kind.each)
        plain: list[Version] = []
        members: dict[Group, list[Version]] = {}
        for version in (asked[number] for number in kind.oracle(rows, p.values)):
            if not standing.possible(version, p):
                continue
            group = _group_of(version)
            if group is not None:
                members.setdefault(group, []).append(version)
            elif not leaves_out(version.values, version.client, p.id):
                plain.append(version)
                copies.ask(version)
        possible = {version.word: version for versions in members.values() for version in versions}
        taken = chosen.get(p.id, {})
        for interest in taken.keys() - possible.keys():
            client = found.client(taken[interest])
            found.unwanted.add(f"{client} got {found.message(p.id)} for a group that it is not in", p.sent)
        for _, versions in sorted(members.items()):
            _judge_group(found, p, copies, standing, versions, [each for each in versions if each.word in taken])
        copies.judge(found, asking, kind.counts_copies)
        if retaining is not None:
            retaining.heed(p, plain, [possible[interest] for interest in taken.keys() & possible.keys()])
    if retaining is not None:
        retaining.judge()
    return found


class _Copies:
    """Which copies of a publication clients have to get, may get, and had to but for what links lost."""

    def __init__(self, standing: Standing, p: Published, each: bool) -> None:
        self._standing, self._p, self._each = standing, p, each
        self.must: set[Copy] = set()
        self.may: set[Copy] = set()
        self.excused: set[Copy] = set()

    def ask(self, version: Version, chosen: bool = False) -> None:
        """What a possible subscription by itself says, or one that was chosen of a group."""
        standing, p = self._standing, self._p
        if chosen:
            copy = version.client, "group", version.word
        else:
            copy = version.client, "plain", version.word if self._each else 0
        self.may.add(copy)
        if standing.certain(version, p) and not p.lost:
            self.must.add(copy)
        elif standing.certain(version, p, forgive=True):
            self.excused.add(copy)

    def judge(self, found: Audit, asking: set[int], count: bool) -> None:
        """Who got it, and if that counts, how often."""
        p = self._p
        must, may, excused = (Counter(client for client, *_ in each) for each in (self.must, self.may, self.excused))
        judge_pairs(found, p, {*must}, {*may}, {*excused}, asking)
        if not count:
            return
        sent = f"publication {found.message(p.id)}"
        for client, got in sorted(Counter(p.got).items()):
            if got < must[client] and p.end - p.sent < found.guarantees.within_ns:
                owed = f"is owed {must[client]} copies"
                found.missed.add(f"{found.client(client)} got {sent} {got} times, and {owed}", p.sent)
            more = got - may[client] if may[client] else 0
            if more > 0 and p.doubled:
                found.doubled += more
            elif more > 0 and not p.forgotten:
                allowed = f"{may[client]} that may be"
                found.duplicated.add(f"{found.client(client)} got {sent} {got} times, of {allowed}", p.sent)


def _judge_group(
    found: Audit, p: Published, copies: _Copies, standing: Standing, members: list[Version], taken: list[Version]
) -> None:
    """One group whose filter has the name: `members` may be in it, and `taken` of them were chosen."""
    for version in taken:
        copies.ask(version, chosen=True)
    if len({version.word for version in taken}) > 1:
        clients = ", ".join(found.client(version.client) for version in taken)
        told = f"publication {found.message(p.id)} went to several members of a group: {clients}"
        found.duplicated.add(told, p.sent)
    settled = all(standing.certain(version, p) for version in members)
    late = p.end - p.sent >= found.guarantees.within_ns
    if settled and not taken and not p.lost and not late:
        told = f"nobody got publication {found.message(p.id)} of a group with {len(members)} members"
        found.missed.add(told, p.sent)
        found.forced += 1


def _group_of(version: Version) -> Group | None:
    """The group that a subscription is a member of, if it is one's."""
    name = int(version.values[GROUP_AT])
    return (name, *levels_of(SUBSCRIBE, version.values)) if name else None


def _chosen(table: Any, service: int) -> dict[int, dict[int, int]]:
    """publication -> the subscriptions that were chosen, and whose they are; a link may have brought one twice."""
    mine = table["service"] == service
    found: dict[int, dict[int, int]] = {}
    for publication, *one in zip(*(table[name][mine].tolist() for name in ("publication", "interest", "client"))):
        found.setdefault(publication, {})[one[0]] = one[1]
    return found
