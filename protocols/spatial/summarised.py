"""spatial: heads travel by keyword, objects whole only where they may matter.

Heads go where spatial-keyword sends objects. Beside each keyword that a neighbour asks for stands a *summary* of
the subscriptions behind it: boxes, each with the largest k-th distance of those in it. A link gets an object whole
if one of its keywords' summaries says that it may matter there; else only the head (`HEAD`).

Who asks for a keyword has told by that that anything may matter. From then on a broker remembers what it last told
each neighbour, which always covers everything on its side. It changes in two ways:

- What grows is told at once (`WIDER`), with the change as its cause: a subscription that came, k-th distances that
  grew since an object expired, growth that another neighbour told. So the change has settled only when all that
  decide have heard. Only what was not covered is told, and the neighbour adds it to what it has, as the teller
  does. Distances of subscriptions here are told with room, so that small growth is covered. Growth that was covered
  needs no message, and leans on the change that last grew the summary.
- What shrinks, as new objects come and subscriptions go, is told later and without a cause (`SUMMARY`), and only
  where it pays: a summary that reaches too far costs payloads, never answers. It lies within what was told before,
  so whichever of the two a neighbour has in hand covers all that is here.

What pays is found by looking at the payloads that came by the link. A summary is told if it is notably smaller than
the last, and would have held back more bytes than it takes, and than telling of its keyword has cost so far beyond
what it saved. When growth has cost more than that again, it is told as "anything may matter", which takes next to
nothing. So a broker that loses by its summaries tries ever more rarely.

Where links lose messages, nothing leans on anything, and all growth is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from brokers.contract import TIMER, Demand, Ints, Message
from brokers.indexes.spatial.summary import BOXES_MAX, Summary, by_keyword
from brokers.node import Body
from protocols.spatial.common import Head
from protocols.spatial.keyword import STANDING, Keyword
from protocols.spatial.kind import OBJECT_KEYWORDS, SUBSCRIPTION_KEYWORDS, head_bytes, keywords_of
from protocols.spatial.reach import (
    Reach,
    check_reach,
    covers,
    extent,
    grown,
    lets_through,
    may_matter,
    packed,
    packed_bytes,
    rounded,
    shrunk,
    together,
    unpacked,
)

HEAD, SUMMARY, SHRINK, WIDER = 19, 20, 21, 22
ROOM = 1.1  # by which squared distances are told larger than they are
_TOLD = 3.0  # messages and timers that a broker's summaries take each time they are due, in the mean
SMALLER = 0.75  # of what was told: what is larger than that is not worth telling


class Options(BaseModel):
    """Options of `spatial`."""

    model_config = ConfigDict(extra="forbid")

    shrink_every: Annotated[
        int, Field(ge=1_000_000, description="nanoseconds for which shrinking is collected before it is told")
    ] = 500_000_000
    boxes: Annotated[int, Field(ge=1, le=256, description="boxes of a summary, at most")] = BOXES_MAX


@dataclass
class Told:
    """What a neighbour was told of a keyword that it is asked for."""

    reach: Reach
    grown: int  # by which change, last
    saved: int = 0  # bytes of payload that stayed away, less those that telling took
    stake: int = 0  # bytes of payload that this would have held back when it was told
    let_in: int = 0  # bytes of payload that it let through since then
    looked: int = 0  # of which so many were there at the last look


class Summarised(Keyword):
    """See the module."""

    Options: ClassVar[type[BaseModel] | None] = Options
    keeps: ClassVar[tuple[Any, ...]] = (Told, Summary)
    remade: ClassVar[tuple[str, ...]] = ("boxes", "timer_min_ns")

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        # Heads or objects, either way as many as objects under spatial-keyword.
        events = super().expected_events(demand)
        brokers = demand.overlay.brokers
        due_s = demand.options.shrink_every / 1e9 + brokers / max(events, 1e-9)
        return events + _TOLD * brokers / due_s

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.boxes: int = node.options.boxes
        self.timer_min_ns: int = node.options.shrink_every
        self.far: dict[int, dict[int, Reach]] = {link: {} for link in self.links}  # what neighbours told
        self.told: dict[int, dict[int, Told]] = {link: {} for link in self.links}  # and we: for what we ask
        self.stale = False  # whether a summary may have become worth telling
        self.timed = False  # whether the timer runs

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        axes = self.index.geometry.axes
        for by_word in self.far.values():
            for reach in by_word.values():
                check_reach(reach, axes)
        for said in self.told.values():
            for told in said.values():
                check_reach(told.reach, axes)

    def on_message(self, message: Message) -> None:
        if message.kind == TIMER:
            self.timed = self.stale = False
            self.shrink(message)
        elif message.type == HEAD:
            self.hear_head(message)
        elif message.type == SUMMARY:
            self.hear_summary(message, self.node.body(message))
        elif message.type == WIDER:
            self.hear_wider(message, self.node.body(message))
        else:
            super().on_message(message)
        if self.stale and not self.timed:
            self.timed = True
            self.node.timer(message, self.timer_min_ns, SHRINK, cause=-1)

    # ---- objects ---------------------------------------------------------------------------------------

    def pass_on(self, message: Message, head: Head) -> None:
        point = self.index.geometry.points([head.place], 1, "objects")[0]
        for link in self.towards(head):
            far = self.far[link]
            if any(word in far and may_matter(far[word], point) for word in head.words):
                self.node.forward(message, link)
            else:
                self.send_head(message, link, head)

    def send_head(self, message: Message, link: int, head: Head) -> None:
        self.node.send(message, link, HEAD, Body(message.body), message.word, head_bytes(head.words))

    def hear_head(self, message: Message) -> None:
        row = self.node.row(message.body)
        words = keywords_of(row, OBJECT_KEYWORDS)
        if not self.wanted_from(message.link, words):
            return
        head = Head((float(row[0]), float(row[1])), words, message.link, int(row[3]))
        if self.learn(message.word, head):
            for link in self.towards(head):
                self.send_head(message, link, head)

    def learn(self, id: int, head: Head) -> bool:
        """Count for what was told which payloads it let through, and which it held back."""
        if not super().learn(id, head):
            return False
        if head.link >= 0 and head.bytes > 0:
            point = self.index.geometry.points([head.place], 1, "objects")[0]
            told = [self.told[head.link][word] for word in head.words if word in self.told[head.link]]
            through = [one for one in told if may_matter(one.reach, point)]
            for one in through:
                one.let_in += head.bytes
                self.stale = True
            for one in [] if through else told:
                one.saved += head.bytes // len(told)
        return True

    # ---- what grows ------------------------------------------------------------------------------------

    def came(self, message: Message, id: int) -> None:
        before = {link: set(told) for link, told in self.told.items()}
        super().came(message, id)
        self.grow(message, -1, self.of_here([id]), before)

    def ranks_changed(self, message: Message, ids: list[int]) -> None:
        self.grow(message, -1, self.of_here(ids))

    def of_here(self, ids: list[int] | None = None) -> dict[int, Summary]:
        """By keyword, where some or all of the subscriptions here are and how far they reach."""
        return by_keyword(self.index, self.service.k_max, ids)

    def grow(
        self, message: Message, came_by: int, parts: Mapping[int, Reach], only: dict[int, set[int]] | None = None
    ) -> None:
        """Subscriptions on this side reach this far now: tell neighbours who do not know."""
        for link in self.links:
            if link == came_by:
                continue
            known = self.told[link] if only is None else only[link]
            said = []
            for word, part in parts.items():
                if word in known and self.outgrown(message, self.told[link][word], part):
                    said.append([word, packed(self.widen(message, self.told[link][word], part, came_by))])
            if said:
                self.node.send(message, link, WIDER, said)

    def outgrown(self, message: Message, told: Told, part: Reach) -> bool:
        """Whether a neighbour has to be told; else the change leans on the one that grew what was told."""
        if not covers(told.reach, part):
            return True
        if self.lossy:
            return message.cause >= 0
        if told.grown not in (STANDING, message.cause):
            self.node.depends(message.cause, told.grown)
        return False

    def widen(self, message: Message, told: Told, part: Reach, came_by: int) -> Reach:
        """Note what a neighbour is told, and say what that is."""
        if part is not None and came_by < 0:
            part = rounded(part, ROOM)
        told.saved -= packed_bytes(part)
        if told.saved < -told.stake:
            part = None
        told.reach = grown(told.reach, part, self.boxes)
        if message.cause >= 0:
            told.grown = message.cause
        return part

    def hear_wider(self, message: Message, said: list[Any]) -> None:
        far, axes = self.far[message.link], self.index.geometry.axes
        parts = {word: unpacked(data, axes) for word, data in said if word in far}
        for word, part in parts.items():
            far[word] = grown(far[word], part, self.boxes)
        self.grow(message, message.link, parts)

    # ---- what shrinks ----------------------------------------------------------------------------------

    def hear_summary(self, message: Message, said: list[Any]) -> None:
        far, axes = self.far[message.link], self.index.geometry.axes
        parts = {word: unpacked(data, axes) for word, data in said if word in far}
        far.update(parts)
        if self.lossy:  # it may lie within something that never came
            self.grow(message, message.link, parts)
        self.shrink(message, parts, message.link)

    def shrink(self, message: Message, words: Iterable[int] | None = None, came_by: int = -1) -> None:
        """Tell neighbours of smaller summaries where that pays: of these keywords, or of those it may pay for."""
        here: dict[int, Summary] | None = None
        for link in self.links:
            if link == came_by:
                continue
            told = self.told[link]
            looked_at = told if words is None else [word for word in words if word in told]
            looked_at = [word for word in looked_at if told[word].let_in > told[word].looked]
            if not looked_at:
                continue
            here = self.of_here() if here is None else here
            fresh: dict[int, Reach] = {}
            for word in looked_at:
                parts = [rounded(here[word], ROOM)] if word in here else []
                parts += [far[word] for other, far in self.far.items() if other != link and word in far]
                smaller = shrunk(told[word].reach, together(parts), self.boxes)
                if smaller is not None and extent(smaller) <= SMALLER * extent(told[word].reach):
                    fresh[word] = smaller
            self.tell(message, link, fresh)

    def tell(self, message: Message, link: int, fresh: dict[int, Reach]) -> None:
        """Tell a neighbour of these summaries, as far as they pay."""
        said = []
        for word, gain in self.gains(link, fresh).items():
            told = self.told[link][word]
            told.looked = told.let_in
            gain, cost = min(gain, told.let_in), packed_bytes(fresh[word])
            if gain >= cost + max(0, -told.saved):
                told.reach, told.stake, told.saved = fresh[word], gain, told.saved - cost
                told.let_in = told.looked = 0
                said.append([word, packed(fresh[word])])
        if said:
            self.node.send(message, link, SUMMARY, said, cause=-1)

    def gains(self, link: int, fresh: dict[int, Reach]) -> dict[int, int]:
        """By keyword, the payload of known objects that came by a link and would not have, had this been told.

        An object is held back if none of its keywords' summaries lets it through. It counts for those that would
        have to change for that, shared out among them.
        """
        told = self.told[link]
        ids = {id_: None for word in fresh for id_ in self.with_word.get(word, ())}
        heads = [head for head in map(self.heads.__getitem__, ids) if head.link == link]
        gains = dict.fromkeys(fresh, 0)
        if not heads:
            return gains
        points = self.index.geometry.points([head.place for head in heads], len(heads), "objects")
        sizes = np.array([head.bytes for head in heads], np.int64)
        with_word: dict[int, list[int]] = {}
        for i, head in enumerate(heads):
            for word in head.words:
                if word in told:
                    with_word.setdefault(word, []).append(i)
        needed = np.zeros(len(heads), np.int64)
        changing: dict[int, Ints] = {}
        for word, at in with_word.items():
            rows = np.array(at)
            through = lets_through(told[word].reach, points[rows])
            if word in fresh:
                still = lets_through(fresh[word], points[rows])
                changing[word] = rows[through & ~still]
                needed[changing[word]] += 1
                through &= still
            sizes[rows[through]] = 0
        for word, rows in changing.items():
            gains[word] = int((sizes[rows] // needed[rows]).sum())
        return gains

    # ---- who wants what --------------------------------------------------------------------------------

    def hear_want(self, message: Message, said: dict[str, Any]) -> None:
        words = said["words"]
        before = {link: set(told) for link, told in self.told.items()}
        self.far[message.link].update(dict.fromkeys(words))
        super().hear_want(message, said)
        self.grow(message, message.link, dict.fromkeys(words), before)

    def hear_unwant(self, message: Message, words: list[int]) -> None:
        for word in words:
            self.far[message.link].pop(word, None)
        super().hear_unwant(message, words)
        self.stale = True

    def left(self, message: Message, id: int, words: tuple[int, ...]) -> None:
        super().left(message, id, words)
        self.stale = True

    def hear_heads(self, message: Message, said: dict[str, Any]) -> None:
        super().hear_heads(message, said)
        self.stale = True

    def ask(self, message: Message, link: int, words: list[int]) -> None:
        """Who is asked for a keyword takes it that anything may matter, until told otherwise."""
        super().ask(message, link, words)
        self.told[link].update((word, Told(None, message.cause)) for word in words)

    def take_back(self, message: Message, link: int, words: list[int]) -> None:
        for word in words:
            del self.told[link][word]
        super().take_back(message, link, words)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        super().on_standing(id, client, broker, row)
        words = keywords_of(row, SUBSCRIPTION_KEYWORDS)
        way = -1 if broker == self.node.broker else self.way_to(broker)
        for link in self.links:
            if link == way:
                self.far[link].update(dict.fromkeys(words))
            else:
                self.told[link].update((word, Told(None, STANDING)) for word in words)
