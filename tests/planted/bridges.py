"""Hosts that flood: bridges between brokers, tags of where something came from, exits, and a loop that waits.

Every publication goes over every link that the host's rule leaves, and to the clients here that want it. The right
ones remember what they have seen, or know by a tag or an election that a copy is not needed; which class is which says
`tests/planted/registry.py`.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

from brokers.contract import FIRST_PROTOCOL_TYPE, TIMER, BrokerProtocol, Guarantees, Message
from brokers.node import Body
from protocols.content.kind import PUBLISH, SUBSCRIBE

MS = 1_000_000
REST = FIRST_PROTOCOL_TYPE


class Bridge(BrokerProtocol):
    """Sends nothing back over the connection that it came by, and nothing that it has seen."""

    kind: ClassVar[str] = "content"
    guarantees = Guarantees(fifo_per_publisher=False)

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.seen: deque[int] = deque(maxlen=1_000)  # whatever goes round is back by then

    def on_message(self, message: Message) -> None:
        node = self.node
        if message.type == SUBSCRIBE:
            node.table.add(message.word, (message.word >> 32) - node.env.entity_base, node.row(message.body), None)
        elif message.type == PUBLISH:
            self.publish(message)
        else:
            node.table.remove(message.word)

    def publish(self, message: Message) -> None:
        if self.is_new(message):
            self.hand_over(message)
            for link in self.node.links:
                if self.may_go(message, link):
                    self.pass_on(message, link)

    def hand_over(self, message: Message) -> None:
        node = self.node
        for client in sorted({(id_ >> 32) - node.env.entity_base for id_ in node.table.match(message.body)}):
            node.deliver(message, client)

    def is_new(self, message: Message) -> bool:
        key = self.node.key(message)
        if key in self.seen:
            return False
        self.seen.append(key)
        return True

    def may_go(self, message: Message, link: int) -> bool:
        return link != message.link

    def pass_on(self, message: Message, link: int) -> None:
        self.node.forward(message, link)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        if broker == self.node.broker:
            self.node.table.add(id, client, row, None)

    def entries(self) -> int:
        return len(self.node.table)


# ---- 13: bridges without a test for loops --------------------------------------------------------------


class PerConnection(Bridge):
    """Sends nothing back over the connection that it came by: enough on a tree, and in a ring it circles for ever."""

    def is_new(self, message: Message) -> bool:
        return True


class Echoing(PerConnection):
    """Sends everything over every connection."""

    def may_go(self, message: Message, link: int) -> bool:
        return True


class EchoingSpokes(PerConnection):
    """The hub, broker 0, sends nothing back over a connection; its spokes do."""

    def may_go(self, message: Message, link: int) -> bool:
        return self.node.broker != 0 or super().may_go(message, link)


class BothDeclared(Bridge):
    """What one end declares as out and the other as in goes over the connection twice."""

    def is_new(self, message: Message) -> bool:
        return self.seen.count(self.node.key(message)) < 2 and not self.seen.append(self.node.key(message))

    def pass_on(self, message: Message, link: int) -> None:
        if message.link < 0:
            super().pass_on(message, link)
        super().pass_on(message, link)


# ---- 6: the origin that is lost over a hop --------------------------------------------------------------


class Tagged(PerConnection):
    """On a square: brokers 0 and 1 are one cluster, each of the others is one, and gets it once.

    Over a route, within a cluster, it goes one hop. The word of a publication says which clusters have it.
    """

    guarantees = Guarantees(fifo_per_publisher=False)

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Any) -> list[tuple[str, str]]:
        square = list(zip(overlay.link_a.tolist(), overlay.link_b.tolist())) == [(0, 1), (0, 2), (1, 3), (2, 3)]
        return [] if square else [("protocol", "is for a square: links 0-1, 0-2, 1-3 and 2-3")]

    def cluster(self, broker: int) -> int:
        return max(broker, 1)

    def has_it(self, message: Message) -> int:
        """The clusters that have a publication, a bit for each."""
        return message.word if message.link >= 0 else 0

    def may_go(self, message: Message, link: int) -> bool:
        node, here = self.node, self.cluster(self.node.broker)
        if message.link >= 0 and self.cluster(node.neighbour(message.link)) == here:
            return False
        there = self.cluster(node.neighbour(link))
        return super().may_go(message, link) and (there == here or not self.has_it(message) >> there & 1)

    def pass_on(self, message: Message, link: int) -> None:
        self.node.send(message, link, PUBLISH, Body(message.body), self.tag(message, link))

    def tag(self, message: Message, link: int) -> int:
        """Those that have it, this one, and those that it goes to from here."""
        node = self.node
        told = [node.neighbour(each) for each in node.links if self.may_go(message, each)]
        return sum(1 << each for each in {self.cluster(other) for other in (node.broker, *told)}) | self.has_it(message)


class TagLost(Tagged):
    """Between the clusters of brokers 2 and 3 there is a gateway, which drops the tag."""

    def tag(self, message: Message, link: int) -> int:
        ends = {self.node.broker, self.node.neighbour(link)}
        return 0 if ends == {2, 3} else super().tag(message, link)


# ---- 14: two exits ------------------------------------------------------------------------------------------


class OneExit(PerConnection):
    """Broker 0 is a peer, all others are routers, everybody linked to everybody.

    Of the routers at a peer the lowest passes its publications on.
    """

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        full = overlay.links == overlay.brokers * (overlay.brokers - 1) // 2
        return Guarantees(full, full, False)

    def may_go(self, message: Message, link: int) -> bool:
        node = self.node
        if message.link >= 0 and node.broker != 0 and node.neighbour(message.link) == 0:
            return super().may_go(message, link) and self.is_elected()
        return super().may_go(message, link) and message.link < 0

    def is_elected(self) -> bool:
        links, here = self.node.env.links, self.node.broker
        first, last = links.out_start[0], links.out_start[1]
        return here == min(links.target[links.out_link[first:last]].tolist())

    def hand_over(self, message: Message) -> None:
        from_peer = message.link >= 0 and self.node.neighbour(message.link) == 0
        if not from_peer or self.is_elected():
            super().hand_over(message)


class TwoExits(OneExit):
    """Every router at a peer passes on what comes from it."""

    def is_elected(self) -> bool:
        return True


# ---- 20: one slow peer blocks all -----------------------------------------------------------------------


class Dropping(Bridge):
    """Does not wait for a neighbour in front of whose link too much waits: that one gets nothing."""

    sees_load = True
    timer_min_ns = MS
    BACKLOG_NS: ClassVar[int] = 50 * MS

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.waiting: dict[int, Any] = {}  # number of a timer -> links that are left

    def on_message(self, message: Message) -> None:
        if message.kind == TIMER:
            self.pass_on_to(message, self.waiting.pop(message.word))
        else:
            super().on_message(message)

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        return Guarantees(exact=not overlay.bandwidth_bps.any(), fifo_per_publisher=False)

    def publish(self, message: Message) -> None:
        if self.is_new(message):
            self.hand_over(message)
            self.pass_on_to(message, [link for link in self.node.links if self.may_go(message, link)])

    def pass_on_to(self, message: Message, links: list[int]) -> None:
        for link in links:
            if self.node.load.link_backlog_ns(message, link) <= self.BACKLOG_NS:
                self.pass_on(message, link)

    def pass_on(self, message: Message, link: int) -> None:
        self.node.send(message, link, PUBLISH, Body(message.body))


class Blocking(Dropping):
    """Waits for room in front of each link in turn; those behind a slow one wait too."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.rung = 0

    def pass_on_to(self, message: Message, links: list[int]) -> None:
        for at, link in enumerate(links):
            if self.node.load.link_backlog_ns(message, link) > self.BACKLOG_NS:
                self.waiting[self.rung] = links[at:]
                self.node.timer(message, MS, REST, self.rung, body=self.kept(message))
                self.rung += 1
                return
            self.pass_on(message, link)
        if message.kind == TIMER:
            self.node.drop(Body(message.body))

    def kept(self, message: Message) -> Body:
        return Body(message.body) if message.kind == TIMER else self.node.keep(message)
