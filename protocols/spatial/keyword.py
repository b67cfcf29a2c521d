"""spatial-keyword: objects go whole to the brokers where a subscription has one of their keywords.

A broker asks a neighbour for a keyword (`WANT`) while a subscription here or behind another link has it, and
takes that back (`UNWANT`) when the last is gone. From then on it gets objects with the keyword and their ends. What
was there before comes as an answer (`HEADS`), once the neighbour has been answered by those behind it; so an answer
is the whole truth about its keywords. What is held from there and not in it has expired while nobody asked.
Questions are numbered, and answers from before a keyword was taken back do not count: it does not matter what was
under way then. What comes unasked is ignored.

A subscription is served once all its keywords are answered for: before, objects that rank before others may be
missing. If its keywords are asked for already, it needs no message, and leans on the change that asked.

Where links lose messages, leaning would make the loss of one the loss of many. There each subscription asks anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from brokers.contract import Demand, Message
from protocols.spatial.common import Head, Ranking
from protocols.spatial.expected import Keywords
from protocols.spatial.kind import SUBSCRIPTION_KEYWORDS, keywords_of

WANT, UNWANT, HEADS = 16, 17, 18
STANDING = -1  # in place of the change that asked: it was so from the start


@dataclass
class Asked:
    """A keyword that a neighbour was asked for."""

    change: int  # that asked last
    first: int  # number of the first question, since it was taken back
    last: int
    answered: int  # number of the latest question that was answered


Needs = dict[tuple[int, int], int]  # (link, keyword) -> number of the question, or a later one, to be answered


class Keyword(Ranking):
    """See the module."""

    keeps: ClassVar[tuple[Any, ...]] = (Asked,)
    remade: ClassVar[tuple[str, ...]] = ("lossy",)

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        if not demand.more("keywords"):
            return super().expected_events(demand)
        keywords = Keywords(demand)
        return keywords.objects() + 2.0 * keywords.asked() + cls.expected_subscriptions(demand)  # asked, and answered

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.lossy = bool((node.env.overlay.loss > 0).any())
        self.wants: dict[int, set[int]] = {link: set() for link in self.links}  # what neighbours ask for
        self.asked: dict[int, dict[int, Asked]] = {link: {} for link in self.links}  # and we
        self.questions = 0  # asked so far
        self.open: list[tuple[int, int, list[int], Needs]] = []  # to be answered: link, number, keywords
        self.waiting: dict[int, Needs] = {}  # subscriptions here that are not served yet

    def on_message(self, message: Message) -> None:
        if message.type == WANT:
            self.hear_want(message, self.node.body(message))
        elif message.type == UNWANT:
            self.hear_unwant(message, self.node.body(message))
        elif message.type == HEADS:
            self.hear_heads(message, self.node.body(message))
        else:
            super().on_message(message)

    def wanted_from(self, link: int, words: tuple[int, ...]) -> bool:
        asked = self.asked[link]
        return any(word in asked for word in words)

    def towards(self, head: Head) -> list[int]:
        wants = self.wants
        return [
            link for link in self.links if link != head.link and any(word in wants[link] for word in head.words)
        ]

    # ---- who wants what --------------------------------------------------------------------------------

    def came(self, message: Message, id: int) -> None:
        words = self.subscriptions[id]
        self.revise(message, words, -1)
        self.waiting[id] = self.needs(words, -1)
        self.answer(message)

    def left(self, message: Message, id: int, words: tuple[int, ...]) -> None:
        self.waiting.pop(id, None)
        self.revise(message, words)
        self.answer(message)

    def hear_want(self, message: Message, said: dict[str, Any]) -> None:
        words = said["words"]
        self.wants[message.link].update(words)
        self.revise(message, words, message.link)
        self.open.append((message.link, said["number"], words, self.needs(words, message.link)))
        self.answer(message)

    def hear_unwant(self, message: Message, words: list[int]) -> None:
        self.wants[message.link].difference_update(words)
        self.revise(message, words)
        self.answer(message)

    def needed(self, word: int, link: int) -> bool:
        """Whether somebody on this side of a link has a keyword."""
        return word in self.here or any(word in self.wants[other] for other in self.links if other != link)

    def revise(self, message: Message, words: Iterable[int], asker: int | None = None) -> None:
        """Ask neighbours for what is needed now, and take back what is not. `asker`: -1 for a client, or the link."""
        for link in self.links:
            asked = self.asked[link]
            fresh, gone = [], []
            for word in words:
                if not self.needed(word, link):
                    if word in asked:
                        gone.append(word)
                elif word not in asked:
                    fresh.append(word)
                elif asker is None or asker == link:
                    continue
                elif self.lossy:
                    fresh.append(word)
                elif asked[word].change not in (STANDING, message.cause):
                    self.node.depends(message.cause, asked[word].change)
            if fresh:
                self.ask(message, link, fresh)
            if gone:
                self.take_back(message, link, gone)

    def ask(self, message: Message, link: int, words: list[int]) -> None:
        self.questions += 1
        for word in words:
            before = self.asked[link].get(word)
            first, answered = (self.questions, 0) if before is None else (before.first, before.answered)
            self.asked[link][word] = Asked(message.cause, first, self.questions, answered)
        self.node.send(message, link, WANT, {"number": self.questions, "words": words})

    def take_back(self, message: Message, link: int, words: list[int]) -> None:
        for word in words:
            del self.asked[link][word]
        self.node.send(message, link, UNWANT, words)
        ids = {id_: None for word in words for id_ in self.with_word.get(word, ())}
        for id_ in ids:
            head = self.heads[id_]
            if head.link == link and not self.wanted_from(link, head.words):
                self.forget(message, id_)

    # ---- answers ---------------------------------------------------------------------------------------

    def needs(self, words: Iterable[int], asker: int) -> Needs:
        """What has to be answered before all that lies beyond this broker, seen from a link, is known."""
        return {
            (link, word): asked[word].last
            for link, asked in self.asked.items()
            if link != asker
            for word in words
            if word in asked
        }

    def met(self, needs: Needs) -> bool:
        """Whether that was answered. What was taken back since nobody needs, though it may be asked for anew."""
        return all(
            word not in (asked := self.asked[link]) or asked[word].first > number or asked[word].answered >= number
            for (link, word), number in needs.items()
        )

    def answer(self, message: Message) -> None:
        """Answer the questions that can be answered, and begin to serve the subscriptions that can be served."""
        unmet = []
        for link, number, words, needs in self.open:
            if self.met(needs):
                ids = {id_: None for word in words for id_ in self.with_word.get(word, ())}
                heads = [_told(id_, self.heads[id_]) for id_ in ids if self.heads[id_].link != link]
                self.node.send(message, link, HEADS, {"number": number, "words": words, "heads": heads})
            else:
                unmet.append((link, number, words, needs))
        self.open = unmet
        self.waiting = {id_: needs for id_, needs in self.waiting.items() if not self.met(needs)}

    def hear_heads(self, message: Message, said: dict[str, Any]) -> None:
        """An answer to a question; or, with no keywords, heads that a neighbour was answered with."""
        asked = self.asked[message.link]
        number = said["number"]
        words = [word for word in said["words"] if word in asked and asked[word].first <= number]
        listed = {
            id_: Head(tuple(place), tuple(words), message.link, size) for id_, place, words, size in said["heads"]
        }
        known = {id_: None for word in words for id_ in self.with_word.get(word, ())}
        for id_ in known:
            if id_ not in listed and self.heads[id_].link == message.link:
                self.expire(message, id_)
        ways: dict[int, list[Any]] = {}
        for id_, head in listed.items():
            if self.wanted_from(message.link, head.words) and self.learn(id_, head):
                for link in self.towards(head):
                    ways.setdefault(link, []).append(_told(id_, head))
        for link in self.links:
            if link in ways:
                self.node.send(message, link, HEADS, {"number": 0, "words": [], "heads": ways[link]})
        for word in words:
            asked[word].answered = max(asked[word].answered, number)
        self.answer(message)

    def served(self, id: int) -> bool:
        return id not in self.waiting

    # ---- what stands from the start --------------------------------------------------------------------

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        words = keywords_of(row, SUBSCRIPTION_KEYWORDS)
        way = -1
        if broker == self.node.broker:
            self.add(id, row)
        else:
            way = self.way_to(broker)
            self.wants[way].update(words)
        for link in self.links:
            if link != way:
                self.asked[link].update((word, Asked(STANDING, 0, 0, 0)) for word in words)

    def way_to(self, broker: int) -> int:
        """The link of the tree that leads to a broker."""
        routes, here = self.routes, self.node.broker
        for child in routes.children(0, here).tolist():
            if routes.is_below(0, child, broker):
                return int(routes.up[0, child]) ^ 1
        return int(routes.up[0, here])

    def describe(self) -> dict[str, Any]:
        wants = {str(self.node.neighbour(link)): sorted(words) for link, words in self.wants.items()}
        return {**super().describe(), "waiting": len(self.waiting), "wants": wants}


def _told(id: int, head: Head) -> list[Any]:
    return [id, list(head.place), list(head.words), head.bytes]


__all__ = ["HEADS", "STANDING", "UNWANT", "WANT", "Asked", "Keyword"]
