"""spatial: heads travel by keyword, objects whole only where they may matter.

Heads go where spatial-keyword sends objects. Beside each keyword that a neighbour asks for stands a *summary* of
the subscriptions behind it: boxes, each with the largest k-th distance of those in it. A link gets an object whole
if one of its keywords' summaries says that it may matter there; else only the head (`HEAD`).

A broker remembers what it last told each neighbour, which has to cover everything on its side. Two things go on at
different speeds:

- What grows is told at once (`SUMMARY`), with the change as its cause: a subscription that came, k-th distances that
  grew since an object expired, growth that another neighbour told. So the change has settled only when all that
  decide have heard. Growth that was covered already needs no message, and leans on the change that last grew it.
- What shrinks, as new objects come and subscriptions go, is told later and together, by a timer and without a cause:
  a summary that reaches too far costs payloads, never answers. It may still be laid out in other boxes than before.
  While that is under way nothing can lean on it, so the next growth is told even if it is covered.

Where links lose messages, nothing leans on anything, and all growth is told.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from brokers.contract import TIMER, Message
from brokers.engine.adaptor import Body
from brokers.indexes.spatial.geometry import squared_gaps
from brokers.indexes.spatial.summary import BOXES_MAX, summaries
from protocols.spatial.common import Head
from protocols.spatial.keyword import STANDING, Keyword
from protocols.spatial.kind import OBJECT_KEYWORDS, SUBSCRIPTION_KEYWORDS, head_bytes, keywords_of
from protocols.spatial.reach import Reach, covers, from_plain, of_points, plain, rounded, same, united

HEAD, SUMMARY, SHRINK = 19, 20, 21
UNRELIABLE = -2  # in place of the change that last grew a summary: nothing may lean on it


class Options(BaseModel):
    """Options of `spatial`."""

    model_config = ConfigDict(extra="forbid")

    shrink_every: Annotated[
        int, Field(ge=1_000_000, description="nanoseconds for which shrinking is collected before it is told")
    ] = 1_000_000_000
    boxes: Annotated[int, Field(ge=1, le=256, description="boxes of a summary, at most")] = BOXES_MAX


class Summarised(Keyword):
    """See the module."""

    Options: ClassVar[type[BaseModel] | None] = Options

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.boxes: int = node.options.boxes
        self.timer_min_ns: int = node.options.shrink_every
        self.far: dict[int, dict[int, Reach]] = {link: {} for link in self.links}  # what neighbours told
        self.told: dict[int, dict[int, Reach]] = {link: {} for link in self.links}  # and we: for what we ask
        self.grown: dict[int, dict[int, int]] = {link: {} for link in self.links}  # by which change
        self.stale = False  # whether a summary may have shrunk, and the timer runs

    def on_message(self, message: Message) -> None:
        if message.kind == TIMER:
            self.shrink(message)
        elif message.type == HEAD:
            self.hear_head(message)
        elif message.type == SUMMARY:
            self.hear_summary(message, self.node.body(message))
        else:
            super().on_message(message)

    def first_timers(self) -> list[tuple[int, int, int]]:
        """What stands from the start is told as unknown, and shrinks as everything does."""
        return [(self.timer_min_ns, SHRINK, 0)]

    # ---- objects ---------------------------------------------------------------------------------------

    def pass_on(self, message: Message, head: Head) -> None:
        whole = [link for link in self.towards(head) if self.may_matter(link, head)]
        for link in self.towards(head):
            if link in whole:
                self.node.forward(message, link)
            else:
                self.send_head(message, link, head)

    def send_head(self, message: Message, link: int, head: Head) -> None:
        self.node.send(message, link, HEAD, Body(message.body), message.word, head_bytes(head.words))

    def may_matter(self, link: int, head: Head) -> bool:
        """Whether an object may be among the k nearest of a subscription behind a link."""
        point = self.index.geometry.points([head.place], 1, "objects")[0]
        far = self.far[link]
        for word in head.words:
            if word in far:
                summary = far[word]
                if summary is None or (squared_gaps(summary.boxes, point) <= summary.squared).any():
                    return True
        return False

    def hear_head(self, message: Message) -> None:
        row = self.node.row(message.body)
        words = keywords_of(row, OBJECT_KEYWORDS)
        if not self.wanted_from(message.link, words):
            return
        head = Head((float(row[0]), float(row[1])), words, message.link)
        if self.learn(message.word, head):
            if message.word in self.indexed:
                self.rank_later(message)
            for link in self.towards(head):
                self.send_head(message, link, head)

    def publish(self, message: Message) -> None:
        super().publish(message)
        if message.word in self.indexed:
            self.rank_later(message)

    def hear_heads(self, message: Message, said: dict[str, Any]) -> None:
        super().hear_heads(message, said)
        if self.subscriptions:
            self.rank_later(message)

    # ---- what grows ------------------------------------------------------------------------------------

    def came(self, message: Message, id: int) -> None:
        before = {link: set(told) for link, told in self.told.items()}
        super().came(message, id)
        self.grow(message, -1, self.of_here([id]), before)

    def ranks_changed(self, message: Message, ids: list[int]) -> None:
        self.grow(message, -1, self.of_here(ids))

    def of_here(self, ids: list[int]) -> dict[int, Reach]:
        """By keyword, a summary of some of the subscriptions here."""
        slots, squared = self.index.kth_squared(self.service.k_max)
        chosen = np.isin(self.index.subscriptions.ids[slots], ids)
        slots, squared = slots[chosen], squared[chosen]
        points = self.index.subscriptions.points[slots]
        words = [self.subscriptions[id_] for id_ in self.index.subscriptions.ids[slots].tolist()]
        found: dict[int, Reach] = {}
        for word in sorted({word for each in words for word in each}):
            mine = [i for i, each in enumerate(words) if word in each]
            found[word] = of_points(points[mine], squared[mine])
        return found

    def grow(
        self, message: Message, came_by: int, parts: dict[int, Reach], only: dict[int, set[int]] | None = None
    ) -> None:
        """Subscriptions on this side reach this far now: tell neighbours who do not know."""
        for link in self.links:
            if link == came_by:
                continue
            known = self.told[link] if only is None else only[link]
            changed = [
                word for word, part in parts.items() if word in known and self.outgrown(message, link, word, part)
            ]
            if changed:
                self.tell(message, link, changed)

    def outgrown(self, message: Message, link: int, word: int, part: Reach) -> bool:
        """Whether a neighbour has to be told; if so, what it is told is brought up to date."""
        told, grown = self.told[link][word], self.grown[link]
        if not covers(told, part):
            self.told[link][word] = None if part is None else united([told, rounded(part)], self.boxes)
        elif message.cause < 0 or (grown[word] != UNRELIABLE and not self.lossy):
            if message.cause >= 0 and grown[word] not in (STANDING, message.cause):
                self.node.depends(message.cause, grown[word])
            return False
        grown[word] = message.cause if message.cause >= 0 else UNRELIABLE
        return True

    def tell(self, message: Message, link: int, words: list[int]) -> None:
        told = self.told[link]
        self.node.send(message, link, SUMMARY, [[word, plain(told[word])] for word in words])

    def hear_summary(self, message: Message, said: list[Any]) -> None:
        wanted = self.wants[message.link]
        parts = {word: from_plain(data) for word, data in said if word in wanted}
        self.far[message.link].update(parts)
        self.grow(message, message.link, parts)
        self.rank_later(message)

    # ---- what shrinks ----------------------------------------------------------------------------------

    def rank_later(self, message: Message) -> None:
        """Something may have shrunk: see to it when the timer comes."""
        if not self.stale and any(self.told[link] for link in self.links):
            self.stale = True
            self.node.timer(message, self.timer_min_ns, SHRINK, cause=-1)

    def shrink(self, message: Message) -> None:
        """Tell each neighbour what now is behind us, where that is not what it was told."""
        self.stale = False
        found = summaries(self.index, self.service.k_max, self.boxes)
        here = {int(word): summary for word, summary in found.items()}
        for link in self.links:
            changed = []
            for word, told in self.told[link].items():
                parts: list[Reach] = [here[word]] if word in here else []
                parts += [self.far[other][word] for other in self.links if other != link and word in self.far[other]]
                fresh = united(parts, self.boxes)
                fresh = fresh if fresh is None else rounded(fresh)
                if same(told, fresh):
                    continue
                if not covers(told, fresh):
                    self.grown[link][word] = UNRELIABLE
                self.told[link][word] = fresh
                changed.append(word)
            if changed:
                self.tell(message, link, changed)

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
        self.rank_later(message)

    def left(self, message: Message, id: int, words: tuple[int, ...]) -> None:
        super().left(message, id, words)
        self.rank_later(message)

    def ask(self, message: Message, link: int, words: list[int]) -> None:
        """Who is asked for a keyword takes it that anything may matter, until told otherwise."""
        super().ask(message, link, words)
        self.told[link].update(dict.fromkeys(words))
        self.grown[link].update(dict.fromkeys(words, message.cause))
        self.rank_later(message)

    def take_back(self, message: Message, link: int, words: list[int]) -> None:
        for word in words:
            del self.told[link][word], self.grown[link][word]
        super().take_back(message, link, words)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        super().on_standing(id, client, broker, row)
        words = keywords_of(row, SUBSCRIPTION_KEYWORDS)
        way = -1 if broker == self.node.broker else self.way_to(broker)
        for link in self.links:
            if link == way:
                self.far[link].update(dict.fromkeys(words))
            else:
                self.told[link].update(dict.fromkeys(words))
                self.grown[link].update(dict.fromkeys(words, STANDING))
