"""What sessions owe: a client that is away for a time gets what came meanwhile where it is next, in order and once.

To brokers, and to the rest of the judge, each stay of a client is a client of its own. Where a protocol declares that
it hands over (`Guarantees.hands_over`) the stays are put together again here, and asked about as one.

Theory. A *line* is what became of one subscription over consecutive stays: the version of each stay, as long as the
next has the same values and had settled before the session of the stay before was over: FETCH, REPLAY and END are part
of the change with which a client subscribes anew, so its settling is the end of the hand-over. Towards a publication
that matches, the client is owed it, under whichever of its names, if

    some version of the line had settled before the sending, and no hand-over after it was spoilt by a loss
    the client stays where it is at last until all has been handled: the publication, and the last hand-over
    all that may have been kept for it is no more than its sessions keep
    no copy was lost, and no delivery fell because the client had left when it was done

Everything else is free. Who is owed a publication has to get it once, and in the order of its publisher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from brokers.contract import NEVER, Kind
from protocols.standing import Standing, Tables, Version

if TYPE_CHECKING:
    from protocols.judging import Published

_NUMBER = 0xFFFFFFFF  # of an interest's id, that among those of its client


class Stay(NamedTuple):
    """A client at a broker, with the session that it leaves behind."""

    client: int  # entity ids
    begin: int
    end: int
    keep: int
    most: int


@dataclass
class Line:
    """One interest of a client, stay by stay."""

    client: int
    versions: list[Version]
    stays: list[Stay]


@dataclass
class HandedOver:
    """What was owed over the stays of clients, and what they got of it."""

    owed: int = 0  # pairs of a publication and a client, beyond those that are owed to one stay
    kept: int = 0  # of those, what was sent while the client was away
    missed: list[tuple[int, int]] = field(default_factory=list)  # publication, client
    twice: list[tuple[int, int]] = field(default_factory=list)
    late: list[tuple[int, int, int]] = field(default_factory=list)  # publication, one after it that came first, client


def sessions_in(tables: Tables) -> bool:
    """Whether anything is kept for anybody."""
    return "stays" in tables and bool(np.any(tables["stays"]["keep_ns"]))


class Sessions:
    """The stays of a trace put together, to be asked about its publications."""

    def __init__(self, tables: Tables, kind: Kind, standing: Standing) -> None:
        self._standing = standing
        names = ("stay", "client", "begin_ns", "end_ns", "keep_ns", "most")
        self._stays: dict[int, Stay] = {}
        self._next: dict[int, int] = {}  # stay -> the stay of its client after it
        last: dict[int, int] = {}
        for stay, client, begin, end, keep, most in zip(*(tables["stays"][name].tolist() for name in names)):
            self._stays[stay] = Stay(client, begin, end if end >= 0 else NEVER, keep, most)
            if client in last:
                self._next[last[client]] = stay
            last[client] = stay
        self._of_word = {each.word: each for each in standing.versions if each.type in kind.wants()}
        self.lines = list(self._lines())
        self.found = HandedOver()

    def whose(self, entity: int) -> int:
        """The client behind a stay."""
        return self._stays[entity].client if entity in self._stays else entity

    def _lines(self) -> Iterator[Line]:
        followed: set[int] = set()
        for word, version in sorted(self._of_word.items()):
            if word in followed or word >> 32 not in self._stays:
                continue
            stay = self._stays[word >> 32]
            line = Line(stay.client, [version], [stay])
            while (following := self._following(line, word)) is not None:
                word = following
                followed.add(word)
                line.versions.append(self._of_word[word])
                line.stays.append(self._stays[word >> 32])
            if len(line.stays) > 1:
                yield line

    def _following(self, line: Line, word: int) -> int | None:
        """The interest by which the next stay goes on with this one, if it does."""
        stay, version = line.stays[-1], line.versions[-1]
        then = self._next.get(word >> 32)
        if then is None or version.ended != stay.end:
            return None
        word = then << 32 | (word & _NUMBER)
        after = self._of_word.get(word)
        if after is None or not np.array_equal(after.values, version.values, equal_nan=True):
            return None
        handed = self._standing.settles(after.change)
        return word if after.issued == self._stays[then].begin and handed < stay.end + stay.keep else None

    # ---- what is owed

    def judge(
        self, published: Mapping[int, Published], oracle: Callable[[Mapping[int, Any], Any], Any]
    ) -> HandedOver:
        """Ask about all publications: by id, in any order. O(publications x lines)."""
        rows = {number: line.versions[0].values for number, line in enumerate(self.lines)}
        matching: dict[int, list[Published]] = {}  # client -> what may have been kept for it
        by_line: list[tuple[Published, int]] = []
        for p in sorted(published.values(), key=lambda each: (each.sent, each.id)):
            lines = sorted(oracle(rows, p.values))
            by_line += [(p, number) for number in lines]
            for client in sorted({self.lines[number].client for number in lines}):
                matching.setdefault(client, []).append(p)
        owed: dict[tuple[int, int], bool] = {}  # publication, client -> whether it was sent in between
        for p, number in by_line:
            away = self._owed(p, self.lines[number], matching[self.lines[number].client])
            if away is not None:
                owed[p.id, self.lines[number].client] = away
        self._compare(published, owed)
        return self.found

    def _owed(self, p: Published, line: Line, others: list[Published]) -> bool | None:
        """Whether a publication was sent while the client was away that gets it all the same; None: it is not owed.

        What is owed to one stay by itself is asked elsewhere.
        """
        standing, stays = self._standing, line.stays
        first = max((i for i, stay in enumerate(stays) if stay.begin <= p.sent), default=-1)
        if p.lost or first < 0 or any(self.whose(one) == line.client for one in p.gone):
            return None
        while first > 0 and not standing.had_settled(line.versions[first].change, p):
            first -= 1  # its predecessor may still draw
        if not standing.had_settled(line.versions[first].change, p):
            return None
        at = first
        done = p.end
        while line.versions[at].ended <= done:
            at += 1
            if at == len(stays):
                return None
            done = max(done, standing.settles(line.versions[at].change))
        if at == first:
            return None
        most = min(stay.most for stay in stays[first:at])
        if most < NEVER:
            until, since = done, stays[first].end
            if sum(since <= other.end and other.sent <= until for other in others) > most:
                return None
        return not any(stay.begin <= p.sent < stay.end for stay in stays)

    def _compare(self, published: Mapping[int, Published], owed: Mapping[tuple[int, int], bool]) -> None:
        found = self.found
        ahead: dict[tuple[int, int], tuple[int, int]] = {}  # client, publisher -> the last that came, and its id
        for (id_, client), away in sorted(owed.items(), key=lambda each: (published[each[0][0]].sent, each[0])):
            times = sorted(when for one, when in published[id_].came if self.whose(one) == client)
            found.owed, found.kept = found.owed + 1, found.kept + away
            if not times:
                found.missed.append((id_, client))
                continue
            if len(times) > 1:
                found.twice.append((id_, client))
            latest, of = ahead.get((client, id_ >> 32), (-1, -1))
            if times[0] < latest:
                found.late.append((of, id_, client))
            ahead[client, id_ >> 32] = max((latest, of), (times[0], id_))
