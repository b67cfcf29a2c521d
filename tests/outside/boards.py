"""A third party's protocols for kinds with other questions than ranges: both keep what they know in `node.table`."""

from __future__ import annotations

from typing import Any, ClassVar

from brokers.contract import BrokerProtocol, Message

PUBLISH, SUBSCRIBE, UNSUBSCRIBE = 0, 1, 2  # of both kinds
REWEIGHT = 3  # of topk


class Board(BrokerProtocol):
    """Everything goes everywhere in a tree; the broker that a client is at decides for it, from its table."""

    learns: ClassVar[tuple[int, ...]] = (SUBSCRIBE,)

    def on_message(self, message: Message) -> None:
        node = self.node
        for link in node.links:
            if link != message.link:
                node.forward(message, link)
        if message.type == PUBLISH:
            self.publish(message)
        elif message.type == UNSUBSCRIBE:
            node.table.remove(message.word)
        elif message.type in self.learns:
            node.table.remove(message.word)  # another row of the same id takes its place
            node.table.add(message.word, self.client_of(message.word), node.row(message.body), None)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        self.node.table.add(id, client, row, None)

    def publish(self, message: Message) -> None:
        raise NotImplementedError

    def client_of(self, id_: int) -> int:
        return (id_ >> 32) - self.node.env.entity_base

    def is_mine(self, id_: int) -> bool:
        return int(self.node.env.client_broker[self.client_of(id_)]) == self.node.broker

    def entries(self) -> int:
        return len(self.node.table)


class Ranks(Board):
    """The k best of the filters that score at all: the table says which those are."""

    kind: ClassVar[str] = "topk"
    learns: ClassVar[tuple[int, ...]] = (SUBSCRIBE, REWEIGHT)

    def publish(self, message: Message) -> None:
        node = self.node
        kind: Any = node.env.kind
        scoring = {id_: node.table.interest(id_)[1] for id_ in node.table.match(message.body)}
        node.work(message, len(node.table), len(scoring))
        found = kind.answer(scoring, node.row(message.body), node.key(message) >> 32)
        for client in sorted({self.client_of(id_) for id_ in found.ids.tolist() if self.is_mine(id_)}):
            node.deliver(message, client)


class Sharers(Board):
    """Whoever shares a keyword with an object gets it: more than the kind promises."""

    kind: ClassVar[str] = "spatial"

    def publish(self, message: Message) -> None:
        node = self.node
        shares = node.table.match(message.body)
        node.work(message, len(node.table), len(shares))
        for client in sorted({self.client_of(id_) for id_ in shares if self.is_mine(id_)}):
            node.deliver(message, client)
        assert set(shares) == node.env.kind.oracle(
            {id_: node.table.interest(id_)[1] for id_ in node.table.tags}, node.row(message.body)
        )
