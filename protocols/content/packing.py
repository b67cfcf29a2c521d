"""What one broker has been told of subscriptions, and what it tells each neighbour: as few boxes as merging makes.

Over a link goes what came from elsewhere. Of that a broker keeps boxes *sent* over the link, of which

- each that is to go over the link is held by one of them: it was sent itself, is covered, or is part of a merger;
- none holds another, and no two may be merged;
- none is left over, all of which that goes over the link others hold.

Something new that no sent box holds is merged with the first that it may be merged with, by the lowest part, what comes
of it with the next, and so on until nothing more fits; the parts of a merger that is merged are parts of the new one.
When a part is withdrawn its box is taken apart: all that it held and no other sent box holds is put in anew, lowest id
first. What has changed then are boxes to be told, and boxes to be withdrawn after them, each with those that now hold
what it held.

A merger's number follows from its link and its box, so that a box that is made again is the same, whatever broke down
in between; and it is no number of a client's. What is idle in a merger is at most the sum of what was idle in its two
halves and of the gap between them, and they may be merged only if that is no more than the share `waste` of its volume.
Without waste only perfect unions are made. Boxes without volume are never merged by volume: any gap in them would seem
to be nothing.

Nothing here sends: what is to be said comes back as `Changed`, one for each link.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from struct import pack
from typing import NamedTuple

from protocols.content.boxes import Box, around, common, holds, is_perfect, volume

NOTHING = -1  # in the place of a box
_MERGER = 1 << 62  # above all numbers of clients' subscriptions


class Rule(NamedTuple):
    """What may be merged."""

    waste: float = 0.0  # at most this share of a merger may be idle
    low: float = 0.0  # the domain of every attribute
    high: float = 1.0


class Sent(NamedTuple):
    """A box that was sent over a link."""

    box: Box
    parts: tuple[int, ...]  # what it stands for, by id; of what goes over the link as it came, that itself
    idle: float  # how much of its volume may hold nothing of its parts
    cause: int  # the change because of which it was sent


class Changed(NamedTuple):
    """What a neighbour has to hear: new boxes first, then which are withdrawn."""

    link: int
    told: Sequence[tuple[int, Box]] = ()
    withdrawn: Sequence[tuple[int, tuple[int, ...]]] = ()  # with the boxes that hold what it held
    behind: Sequence[int] = ()  # the changes that sent what now holds something that does not go over the link itself


def number_of(link: int, box: Box) -> int:
    """The id of a merger."""
    numbers = [number for constraint in box for number in constraint]
    digest = blake2b(pack(f"<q{len(numbers)}d", link, *numbers), digest_size=8).digest()
    return _MERGER | int.from_bytes(digest, "little") >> 2


def is_merger(id: int) -> bool:
    """Whether an id is one of a merger."""
    return id >= _MERGER


class Packing:
    """See the module."""

    def __init__(self, rule: Rule, links: Iterable[int]) -> None:
        self.rule = rule
        self.came_by: dict[int, set[int]] = {}  # subscription or merger -> links it came over, or that of clients
        self.boxes: dict[int, Box] = {}
        self.sent: dict[int, dict[int, Sent]] = {link: {} for link in links}

    def learn(self, id: int, box: Box | None, via: int, cause: int) -> list[Changed]:
        """A subscription came over a link, or from a client. One that nothing can answer goes nowhere."""
        self.came_by.setdefault(id, set()).add(via)
        if box is None:
            return []
        self.boxes[id] = box
        return [self._change(link, [id], cause) for link in self.sent if link != via]

    def forget(self, id: int, via: int, cause: int) -> list[Changed]:
        """It does not come that way any more."""
        if via not in self.came_by.get(id, ()):
            return []
        self.came_by[id].discard(via)
        gone = [link for link in self.sent if link != via and not self._goes_over(id, link)]
        changed = [self._take_apart(link, id, cause) for link in gone]
        if not self.came_by[id]:
            del self.came_by[id]
            self.boxes.pop(id, None)
        return changed

    def _goes_over(self, id: int, link: int) -> bool:
        return bool(self.came_by[id] - {link})

    def _inside(self, link: int, box: Box) -> list[int]:
        """All that goes over a link and a box holds, by id."""
        return [id_ for id_ in sorted(self.boxes) if self._goes_over(id_, link) and holds(box, self.boxes[id_])]

    def _take_apart(self, link: int, id: int, cause: int) -> Changed:
        """Put in anew what the box held of which something is part that does not go over the link any more."""
        holder = next((each for each, sent in self.sent[link].items() if id in sent.parts), None)
        if holder is None:
            return Changed(link)
        return self._change(link, self._inside(link, self.sent[link][holder].box), cause, without=holder)

    def _change(self, link: int, ids: Iterable[int], cause: int, without: int | None = None) -> Changed:
        """Put these into what is sent over a link, once a box is taken out; and say what is other than before."""
        before, now = self.sent[link], dict(self.sent[link])
        if without is not None:
            del now[without]
        behind = {self._put(now, link, id_, cause) for id_ in ids} - {cause}
        for id_ in now.keys() & before.keys():
            now[id_] = now[id_]._replace(cause=before[id_].cause)
        self.sent[link] = now
        told = [(id_, now[id_].box) for id_ in sorted(now.keys() - before.keys())]
        gone = sorted(before.keys() - now.keys())
        withdrawn = [(id_, tuple(sorted(self._holders(now, link, before[id_].box)))) for id_ in gone]
        return Changed(link, told, withdrawn, sorted(behind))

    def _holders(self, sent: dict[int, Sent], link: int, box: Box) -> set[int]:
        """Boxes that hold whatever goes over a link and this one holds; `NOTHING` if something is held by none."""
        return {_holder(sent, self.boxes[id_]) for id_ in self._inside(link, box)}

    def _put(self, sent: dict[int, Sent], link: int, id: int, cause: int) -> int:
        """Put one in; returns the change that sent what holds it."""
        new = Sent(self.boxes[id], (id,), 0.0, cause)
        while True:
            cover = _holder(sent, new.box)
            if cover != NOTHING:
                return sent[cover].cause
            fits = ((each, merged) for each in _in_order(sent) if (merged := self._merged(sent[each], new)) is not None)
            partner, merged = next(fits, (NOTHING, new))
            if partner == NOTHING:
                break
            del sent[partner]
            new = merged
        name = id if new.parts == (id,) else number_of(link, new.box)
        sent[name] = new
        self._thin(sent, link, name)
        return cause

    def _merged(self, one: Sent, other: Sent) -> Sent | None:
        """The two as one, if they may be merged; what the other one holds is left over, and no part of it."""
        if holds(other.box, one.box):
            return None
        perfect, idle = is_perfect(one.box, other.box), one.idle + other.idle
        if not perfect and self.rule.waste == 0:
            return None
        box = around(one.box, other.box)
        if not perfect or idle > 0:
            waste, *domain = self.rule
            whole = volume(box, *domain)
            if not perfect:
                shared = common(one.box, other.box, *domain)
                idle += max(0.0, whole - volume(one.box, *domain) - volume(other.box, *domain) + shared)
            if whole == 0 or idle > waste * whole:
                return None
        return Sent(box, tuple(sorted({*one.parts, *other.parts})), idle, other.cause)

    def _thin(self, sent: dict[int, Sent], link: int, new: int) -> None:
        """Take out what is left over beside a new box."""
        for each in _in_order(sent):
            if each == new or not any(holds(sent[new].box, self.boxes[part]) for part in sent[each].parts):
                continue
            others = {other: sent[other] for other in sent if other != each}
            if NOTHING not in self._holders(others, link, sent[each].box):
                del sent[each]


def _in_order(sent: dict[int, Sent]) -> list[int]:
    return sorted(sent, key=lambda id_: sent[id_].parts)


def _holder(sent: dict[int, Sent], box: Box) -> int:
    """A box that holds this one, or `NOTHING`."""
    return next((id_ for id_, each in sent.items() if holds(each.box, box)), NOTHING)
