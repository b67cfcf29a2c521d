"""A third party's protocols, as a package of theirs might hold them: nothing in the tree names this file."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from brokers.contract import TIMER, BrokerProtocol, Guarantees, Message

PUBLISH, SUBSCRIBE, UNSUBSCRIBE = 0, 1, 2
TICK, PING, PONG, REPLY = 16, 17, 18, 19

MILLISECOND = 1_000_000


class Pings(BrokerProtocol):
    """Floods a tree, and beside it pings: own timers, own message types, own bodies.

    Every broker pings its neighbours every 7 ms; who is pinged thinks for 3 ms and answers with what it
    knows; who is answered tells its clients when it has been answered by all for the n-th time.
    """

    kind: ClassVar[str] = "content"
    timer_min_ns = 3 * MILLISECOND

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.subscribers: dict[int, int] = {}
        self.pinged = 0
        self.answers = 0
        self.waiting: dict[int, Any] = {}
        self.asked = 0

    def first_timers(self) -> list[tuple[int, int, int]]:
        return [(5 * MILLISECOND, TICK, 1)]

    def on_message(self, message: Message) -> None:
        node = self.node
        if message.kind == TIMER and message.type == TICK:
            self.pinged += 1
            for link in node.links:
                node.send(message, link, PING, {"from": node.broker, "n": self.pinged}, word=self.pinged)
            if self.pinged < 20:
                node.timer(message, 7 * MILLISECOND, TICK, message.word + 1)
        elif message.type == PING:
            self.asked += 1
            self.waiting[self.asked] = message.link, node.keep(message)
            node.timer(message, self.timer_min_ns, REPLY, self.asked)
        elif message.kind == TIMER:
            link, asked = self.waiting.pop(message.word)
            node.send(message, link, PONG, asked, message.word, size=40)
            node.drop(asked)
        elif message.type == PONG:
            said = node.body(message)
            assert said["from"] == node.broker
            self.answers += 1
            node.cost(message, 1000 * said["n"])
        elif message.type == PUBLISH:
            for link in node.links:
                if link != message.link:
                    node.forward(message, link)
            matched = node.table.match(message.body)
            node.work(message, len(self.subscribers), len(matched))
            for client in sorted({self.subscribers[i] for i in matched}):
                node.deliver(message, client)
        elif message.type == SUBSCRIBE:
            client = message.source - node.env.entity_base
            self.subscribers[message.word] = client
            node.table.add(message.word, client, node.row(message.body), client)
        elif message.type == UNSUBSCRIBE:
            node.table.remove(message.word)
            del self.subscribers[message.word]

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        if broker == self.node.broker:
            self.subscribers[id] = client
            self.node.table.add(id, client, row, client)

    def entries(self) -> int:
        return len(self.subscribers)

    def describe(self) -> dict[str, Any]:
        return {"entries": self.entries(), "pinged": self.pinged, "answers": self.answers}


class Plain(Pings):
    """The same without the pings."""

    timer_min_ns = 1 << 62

    def first_timers(self) -> list[tuple[int, int, int]]:
        return []


class Runs(Plain):
    """Takes stretches of publications as arrays, mixing all ways of sending, in the order of `on_message`."""

    def on_message(self, message: Message) -> None:
        if message.type != PUBLISH:
            super().on_message(message)
            return
        node = self.node
        for link in node.links:
            if link != message.link:
                node.forward(message, link)
                if message.link < 0:
                    node.send(message, link, PONG, {"from": node.neighbour(link), "n": 1}, 7)
        for client in sorted({self.subscribers[i] for i in node.table.match(message.body)}):
            node.deliver(message, client)

    def on_run(self, run: Any) -> None:
        node = self.node
        if run.type != PUBLISH:
            for message in run.messages():
                self.on_message(message)
            return
        came_by = run.link
        entered = np.flatnonzero(came_by < 0)
        for link in node.links:
            run.forward(np.flatnonzero(came_by != link), link)
            for row in entered.tolist():
                said = {"from": node.neighbour(link), "n": 1}
                run.send(row, link, PONG, said, 7)
        rows, clients = [], []
        for row, body in enumerate(run.body.tolist()):
            for client in sorted({self.subscribers[i] for i in node.table.match(body)}):
                rows.append(row)
                clients.append(client)
        if rows:
            run.deliver(np.array(rows), np.array(clients))


class WrongRuns(Plain):
    """Wrong on purpose: a stretch as arrays is not sent over the broker's last link."""

    def on_run(self, run: Any) -> None:
        if run.type != PUBLISH:
            for message in run.messages():
                self.on_message(message)
            return
        for link in self.node.links[:-1]:
            run.forward(np.flatnonzero(run.link != link), link)


class Forgetful(Plain):
    """Wrong on purpose: serves every other publication."""

    guarantees: ClassVar[Guarantees] = Guarantees()

    def on_message(self, message: Message) -> None:
        if message.type != PUBLISH or self.node.key(message) % 2:
            super().on_message(message)


class Stutterer(Plain):
    """Wrong on purpose: delivers twice."""

    def on_message(self, message: Message) -> None:
        super().on_message(message)
        if message.type == PUBLISH:
            for client in sorted({self.subscribers[i] for i in self.node.table.match(message.body)}):
                self.node.deliver(message, client)


class Gossip(Plain):
    """Wrong on purpose: delivers to everyone who ever asked for anything."""

    def on_message(self, message: Message) -> None:
        if message.type == PUBLISH:
            for link in self.node.links:
                if link != message.link:
                    self.node.forward(message, link)
            for client in sorted(set(self.subscribers.values())):
                self.node.deliver(message, client)
        else:
            super().on_message(message)


class Hesitant(Plain):
    """Wrong on purpose: keeps every third publication back, and so breaks the order of a publisher."""

    timer_min_ns = 60 * MILLISECOND

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.held: dict[int, Any] = {}
        self.count = 0

    def on_message(self, message: Message) -> None:
        if message.kind == TIMER:
            body, clients = self.held.pop(message.word)
            for client in clients:
                self.node.deliver(message, client, body)
            self.node.drop(body)
        elif message.type == PUBLISH and (message.body >= 0) and self.node.key(message) % 3 == 0:
            for link in self.node.links:
                if link != message.link:
                    self.node.forward(message, link)
            clients = sorted({self.subscribers[i] for i in self.node.table.match(message.body)})
            if clients:
                self.count += 1
                self.held[self.count] = self.node.keep(message), clients
                self.node.timer(message, self.timer_min_ns, REPLY, self.count)
        else:
            super().on_message(message)


class Trespasser(Plain):
    """Wrong on purpose: sends over a link that is not its own."""

    def on_message(self, message: Message) -> None:
        super().on_message(message)
        if message.type == PUBLISH and message.link >= 0:
            self.node.forward(message, self.node.links[0] ^ 1)
