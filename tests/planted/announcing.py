"""Hosts that tell each other who there is: announced interests on any overlay, a list of members, a mode.

`Announcing`, `Members` and `TellingMode` are right; `tests/planted/registry.py` says what is wrong with the others.
"""

from __future__ import annotations

from typing import Any

from brokers.contract import FIRST_PROTOCOL_TYPE, Guarantees, Message
from brokers.faults import LINK_DOWN, LINK_UP, RESTART
from brokers.node import Body
from brokers.promises import Recovery
from protocols.content.kind import PUBLISH, SUBSCRIBE
from protocols.routes import shared_tree
from tests.planted.bridges import Bridge
from tests.planted.clusters import Cluster
from tests.planted.counting import LOCAL, MS, filter_at

ANNOUNCE, RETRACT, LIST, MODE, JOIN = range(FIRST_PROTOCOL_TYPE + 8, FIRST_PROTOCOL_TYPE + 13)


# ---- 18: a storm on a ring of three -----------------------------------------------------------------------


class Announcing(Bridge):
    """An interest is announced under its id, over all links but the one it came by; a known id is not news.

    Publications go where ids came from that they answer, and each broker takes them once.
    """

    guarantees = Guarantees(fifo_per_publisher=False)

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.came_by: dict[int, int] = {}  # id -> link, or LOCAL
        self.retracted: list[int] = []  # an announcement on a longer way may come after the end

    def on_message(self, message: Message) -> None:
        if message.type == PUBLISH:
            self.publish(message)
        elif message.type in (SUBSCRIBE, ANNOUNCE):
            self.learn(message, message.word)
        elif message.word in self.came_by:
            del self.came_by[message.word]
            self.node.table.remove(message.word)
            self.retracted.append(message.word)
            self.announce(message, RETRACT, None, message.word)

    def learn(self, message: Message, id: int) -> None:
        if id not in self.came_by and id not in self.retracted:
            self.enter(message, id)
            self.announce(message, ANNOUNCE, Body(message.body), id)

    def enter(self, message: Message, id: int) -> None:
        self.came_by[id] = message.link
        self.node.table.add(id, 0, self.node.row(message.body), None)

    def announce(self, message: Message, type: int, body: Any, id: int) -> None:
        for link in self.node.links:
            if link != message.link:
                self.node.send(message, link, type, body, id)

    def publish(self, message: Message) -> None:
        if not self.is_new(message):
            return
        matched = self.node.table.match(message.body)
        base = self.node.env.entity_base
        for client in sorted({(id_ >> 32) - base for id_ in matched if self.came_by[id_] == LOCAL}):
            self.node.deliver(message, client)
        ways = {self.came_by[id_] for id_ in matched}
        for link in self.node.links:
            if link in ways and link != message.link:
                self.node.forward(message, link)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        """Over the first link on the shortest way."""
        first = {self.node.broker: LOCAL}
        ahead = [self.node.broker]
        links = self.node.env.links
        while ahead:
            here = ahead.pop(0)
            for link in links.out_link[links.out_start[here] : links.out_start[here + 1]].tolist():
                there = int(links.target[link])
                if there not in first:
                    first[there] = link if here == self.node.broker else first[here]
                    ahead.append(there)
        self.came_by[id] = first[broker]
        self.node.table.add(id, client, row, None)

    def entries(self) -> int:
        return len(self.came_by)


class AnnouncedAsOwn(Announcing):
    """Announces what it learned of a neighbour as an interest of its own, under a new id."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.own = 0

    def learn(self, message: Message, id: int) -> None:
        if id not in self.came_by:
            self.enter(message, id)
            if message.link >= 0:
                env, self.own = self.node.env, self.own + 1
                id = (env.entity_base + len(env.client_broker) + self.node.broker) << 32 | self.own
            self.announce(message, ANNOUNCE, Body(message.body), id)


# ---- 16: a list of members that only grows -----------------------------------------------------------------


class Members(Bridge):
    """On one tree: who there is, under the id of a life. Who joins tells its id, and each tells what it knows.

    What came over a link that is down is gone, and those beyond are told so by a new list.
    """

    timer_min_ns = MS

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.me = node.broker
        routes = shared_tree(node)
        self.links = [link for link in node.links if routes.in_tree[link]]
        self.heard: dict[int, list[int]] = {}  # link -> ids of members that came over it

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Any) -> Recovery:
        return Recovery(min(faced.detect_ns, 1 << 61) + 2 * faced.link_ns + 2 * faced.way_ns + 20 * MS)

    def first_timers(self) -> list[tuple[int, int, int]]:
        return [(MS, JOIN, 0)]

    def on_message(self, message: Message) -> None:
        if message.type == JOIN:
            self.tell(message, self.links)
        elif message.type == LIST:
            told = list(self.node.body(message))
            if told != self.heard.get(message.link):
                self.hear(message.link, told)
                self.tell(message, [link for link in self.links if link != message.link])
        else:
            super().on_message(message)

    def hear(self, link: int, told: list[int]) -> None:
        self.heard[link] = told

    def tell(self, message: Message, links: list[int]) -> None:
        for link in links:
            others = [id_ for other, ids in self.heard.items() if other != link for id_ in ids]
            self.node.send(message, link, LIST, sorted({self.me, *others}))

    def on_fault(self, message: Message) -> None:
        if message.type == RESTART:
            self.me = message.time
            self.tell(message, self.links)
        elif message.link in self.links:
            if message.type == LINK_DOWN:
                self.heard[message.link] = []
            self.tell(message, [link for link in self.links if link != message.link or message.type == LINK_UP])

    def entries(self) -> int:
        return super().entries() + sum(map(len, self.heard.values()))


class NeverForgotten(Members):
    """Removes only the neighbour whose link goes down; of whom it heard of indirectly, it knows for ever."""

    def hear(self, link: int, told: list[int]) -> None:
        super().hear(link, sorted({*self.heard.get(link, ()), *told}))


# ---- 9: a mode that a late joiner is not told ---------------------------------------------------------------


class TellingMode(Cluster):
    """A gateway: a neighbour gets everything, unasked, until it is told that only what is asked for is sent.

    A broker is in that mode from the first publication on that its clients sent; who is not told so does not ask. Who
    comes up is told.
    """

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.interest_only = False
        self.asking: list[int] = []  # links whose far ends are in the mode, and are asked for filters
        self.asked: list[int] = []  # links over which only what was asked for is sent

    def on_message(self, message: Message) -> None:
        if message.type == PUBLISH and message.link < 0 and not self.interest_only:
            self.interest_only = True
            for link in self.links:
                self.node.send(message, link, MODE)
        if message.type == MODE:
            self.asking = sorted({*self.asking, message.link})
            super().come_up(message, message.link)
        else:
            super().on_message(message)

    def take(self, message: Message, told: dict[str, int]) -> None:
        super().take(message, told)
        self.asked = sorted({*self.asked, message.link})

    def go_down(self, message: Message, link: int) -> None:
        self.asked = [other for other in self.asked if other != link]

    def come_up(self, message: Message, link: int) -> None:
        if self.interest_only:
            self.tell_mode(message, link)
        if link in self.asking:
            super().come_up(message, link)

    def tell_mode(self, message: Message, link: int) -> None:
        self.node.send(message, link, MODE)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        """What stands from the start nobody has asked a neighbour for."""
        if broker == self.node.broker:
            key = self.filter_of[id] = filter_at(row)
            self.count(key, LOCAL, self.counted(key, LOCAL, 1))

    def ask_for(self, message: Message, key: str, link: int) -> None:
        if link in self.asking:
            super().ask_for(message, key, link)

    def copies(self, matched: list[str], link: int) -> int:
        return super().copies(matched, link) if link in self.asked else 1


class ModeOnce(TellingMode):
    """Tells of the mode when it begins; who comes later is not told, and gets what it asked for."""

    def tell_mode(self, message: Message, link: int) -> None:
        self.asked = sorted({*self.asked, link})
