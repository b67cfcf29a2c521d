"""The audit of the kind `topics` in plain Python, for the conformance kit: pair by pair, and group by group.

A subscription asks for nothing that it leaves out by no-local, nor does that of a member of a group by itself. Of a
group whose filter has the name of a publication

    at most one member is chosen, and it may be a member then
    who is chosen gets the publication
    one is chosen if all who may be members are so for certain, and there are any
"""

from __future__ import annotations

from typing import Any

from brokers.contract import Guarantees
from protocols.judging import Audit, Published, judge_pairs, pair_by_pair, published
from protocols.standing import Standing, Tables, Version
from protocols.topics.kind import GROUP_AT, SUBSCRIBE, Topics, leaves_out, levels_of

Group = tuple[int, ...]  # its name and the levels of its filter


def judge(tables: Tables, kind: Topics, guarantees: Guarantees, service: int) -> Audit:
    """Judge a run by its full trace. O(publications * subscriptions)."""
    if kind.pair_by_pair:
        return pair_by_pair(tables, kind, guarantees, service)
    found = Audit.of(tables, guarantees)
    standing = Standing(tables, kind, service, guarantees)
    asked = dict(enumerate(standing.versions))
    rows = {number: version.values for number, version in asked.items()}
    asking = {version.client for version in asked.values()}
    chosen = _chosen(tables["chosen"], service)
    for p in published(found, tables, kind, service):
        pairs = _Pairs(standing, p)
        members: dict[Group, list[Version]] = {}
        for version in (asked[number] for number in kind.oracle(rows, p.values)):
            group = _group_of(version)
            if group is None:
                if not leaves_out(version.values, version.client, p.id):
                    pairs.ask(version)
            elif standing.possible(version, p):
                members.setdefault(group, []).append(version)
        possible = {version.word for versions in members.values() for version in versions}
        taken = chosen.get(p.id, {})
        for interest in taken.keys() - possible:
            client = found.client(taken[interest])
            found.unwanted.add(f"{client} got {found.message(p.id)} for a group that it is not in")
        for _, versions in sorted(members.items()):
            _judge_group(found, p, pairs, standing, versions, [each for each in versions if each.word in taken])
        judge_pairs(found, p, pairs.must, pairs.may, pairs.excused, asking)
    return found


class _Pairs:
    """Who has to be served with a publication, who may be, and who had to be but for what links lost."""

    def __init__(self, standing: Standing, p: Published) -> None:
        self._standing, self._p = standing, p
        self.must: set[int] = set()
        self.may: set[int] = set()
        self.excused: set[int] = set()

    def ask(self, version: Version) -> None:
        """What a subscription by itself says."""
        standing, p = self._standing, self._p
        if not standing.possible(version, p):
            return
        self.may.add(version.client)
        if standing.certain(version, p) and not p.lost:
            self.must.add(version.client)
        elif standing.certain(version, p, forgive=True):
            self.excused.add(version.client)


def _judge_group(
    found: Audit, p: Published, pairs: _Pairs, standing: Standing, members: list[Version], taken: list[Version]
) -> None:
    """One group whose filter has the name: `members` may be in it, and `taken` of them were chosen."""
    for version in taken:
        pairs.ask(version)
    if len({version.word for version in taken}) > 1:
        clients = ", ".join(found.client(version.client) for version in taken)
        found.duplicated.add(f"publication {found.message(p.id)} went to several members of a group: {clients}")
    settled = all(standing.certain(version, p) for version in members)
    late = p.end - p.sent >= found.guarantees.within_ns
    if settled and not taken and not p.lost and not late:
        found.missed.add(f"nobody got publication {found.message(p.id)} of a group with {len(members)} members")
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
