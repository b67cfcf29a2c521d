"""The kind `topics` in sequence: who gets what where each thing is over before the next begins.

What is owed while things are under way follows from it: whatever it says of some order in which they may have come.

    >>> from protocols.topics.kind import Topics
    >>> one = Definition(Topics({"retained": True}))
    >>> one.publish(7 << 32, [1, 2, -1])        # client 7 has it retained, and nobody is there
    Answer(copies=[], choices=[])
    >>> one.subscribe(2, 20, [0, 0, 1, -1])     # client 2, its subscription 20, of `1/+`
    [Copy(client=2, publication=30064771072, retained=True)]
    >>> one.publish(7 << 32 | 1, [1, 2, -1]).copies
    [Copy(client=2, publication=30064771073, retained=False)]
"""

from __future__ import annotations

from typing import Any, NamedTuple

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

Levels = tuple[int, ...]


class Copy(NamedTuple):
    """What a client gets: one copy of a publication, and whether it says that it is retained."""

    client: int
    publication: int
    retained: bool


class Answer(NamedTuple):
    """What becomes of a publication: who gets it, and of each group the members of whom one does."""

    copies: list[Copy]
    choices: list[list[Copy]]


class Definition:
    """A service of names; clients by entity id, publications by the id that begins with their client's."""

    def __init__(self, kind: Topics) -> None:
        self._kind = kind
        self._asked: dict[int, tuple[int, Any]] = {}  # subscription -> client, row
        self._kept: dict[Levels, int] = {}

    def subscribe(self, client: int, id: int, row: Any) -> list[Copy]:
        """What it is answered with: what is retained under the names that it has, of each name the last."""
        flags, group = flags_of(SUBSCRIBE, row), _group(row)
        same = (_group(other) == group for who, other in self._asked.values() if who == client)
        asks = not (row[GROUP_AT] or flags & NEVER_KEPT or (flags & IF_NEW and any(same)))
        self._asked[id] = client, row
        if not asks:
            return []
        kept = sorted(
            publication for name, publication in self._kept.items()
            if self._kind.oracle({id: row}, name) and not leaves_out(row, client, publication)
        )  # fmt: skip
        return [Copy(client, publication, True) for publication in kept]

    def unsubscribe(self, id: int) -> None:
        self._asked.pop(id, None)

    def publish(self, publication: int, row: Any) -> Answer:
        """Who gets it; from then on it is what is kept under its name, or nothing is, if it is retained."""
        flags, name = flags_of(PUBLISH, row), tuple(levels_of(PUBLISH, row))
        if flags & RETAIN:
            self._kept.pop(name, None)
            if not flags & EMPTY:
                self._kept[name] = publication
        matched = sorted(self._kind.oracle({id_: row for id_, (_, row) in self._asked.items()}, row))
        plain: dict[int, list[Copy]] = {}
        members: dict[Levels, list[Copy]] = {}
        for id_ in matched:
            who, asked = self._asked[id_]
            says = bool(flags & RETAIN and flags_of(SUBSCRIBE, asked) & AS_PUBLISHED)
            if asked[GROUP_AT]:
                members.setdefault(_group(asked), []).append(Copy(who, publication, says))
            elif not leaves_out(asked, who, publication):
                plain.setdefault(who, []).append(Copy(who, publication, says))
        if not self._kind.each:
            plain = {who: [max(copies)] for who, copies in plain.items()}
        copies = [copy for who in sorted(plain) for copy in plain[who]]
        return Answer(copies, [members[each] for each in sorted(members)])


def _group(row: Any) -> Levels:
    """What a subscription asks for, and for which group."""
    return int(row[GROUP_AT]), *levels_of(SUBSCRIBE, row)
