"""A third party's kind with a server: clients ask, brokers pass it on, the server thinks and answers."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any, ClassVar

from brokers.aside import Aside
from brokers.contract import TIMER, BrokerProtocol, Message
from protocols.content.kind import PUBLISH, Content
from protocols.content.manifest import CONTENT

QUESTION, ANSWER, THOUGHT = 16, 17, 18
MILLISECOND = 1_000_000


def think(total: int, rounds: int) -> int:
    """A pure function: slow enough to be worth a thread, the same everywhere."""
    for i in range(rounds):
        total = (total * 6364136223846793005 + i) % (1 << 61)
    return total


class Asking(Content):
    """Content's messages, answered by a server."""

    manifest = replace(CONTENT, name="asking", kind="asks:Asking", protocols={}, workloads={})
    server: ClassVar[bool] = True


class Desk(BrokerProtocol):
    """The server: one question at a time, 3 ms each."""

    kind: ClassVar[str] = "asking"
    keeps: ClassVar[tuple[Any, ...]] = (think,)
    timer_min_ns = 3 * MILLISECOND

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.waiting: deque[Any] = deque()
        self.thought: Aside | None = None
        self.total = 0

    def on_message(self, message: Message) -> None:
        node = self.node
        if message.kind == TIMER:
            assert self.thought is not None
            self.total = self.thought.result()
            asked, word = self.waiting.popleft()
            node.send(message, node.links[0], ANSWER, {"total": self.total, "to": word}, word)
            node.drop(asked)
            self.thought = None
        elif message.type == QUESTION:
            self.waiting.append((node.keep(message), message.word))
        if self.waiting and self.thought is None:
            self.thought = Aside(think, self.total + self.waiting[0][1], 2_000)
            node.timer(message, 3 * MILLISECOND, THOUGHT)

    def describe(self) -> dict[str, Any]:
        return {"entries": 0, "waiting": len(self.waiting)}


class Asks(BrokerProtocol):
    """A broker on a tree: questions to the server, answers to everybody, who tell their clients."""

    kind: ClassVar[str] = "asking"
    server = Desk
    timer_min_ns = 3 * MILLISECOND

    def on_message(self, message: Message) -> None:
        node = self.node
        if message.type == PUBLISH:
            self._pass(message, QUESTION, node.key(message) & 0xFFFF)
        elif message.type == QUESTION:
            self._pass(message, QUESTION, message.word)
        elif message.type == ANSWER:
            for client in (node.env.client_broker == node.broker).nonzero()[0].tolist():
                node.deliver(message, client)
            for link in node.links:
                if link != message.link and node.neighbour(link) != node.env.server:
                    node.forward(message, link)

    def _pass(self, message: Message, type: int, word: int) -> None:
        """Towards the server if it is mine, else everywhere: on this tree exactly one copy arrives."""
        for link in self.node.links:
            if link != message.link:
                self.node.send(message, link, type, {"asked": word}, word)


class Unserved(Asks):
    """Forgot its server."""

    server = None
