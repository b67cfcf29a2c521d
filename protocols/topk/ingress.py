"""topk-ingress: every broker knows every filter, so the broker where a publication enters has the answer.

Filters and their changes flood the tree; a publication is ranked once, and its recipients are stamped on it.
Cheap per publication, dear per change and in memory.
"""

from __future__ import annotations

from typing import Any

from brokers.contract import Demand, Message
from brokers.indexes.topk.contract import answered
from protocols.expected import to_all
from protocols.topk.common import Ranked


class Ingress(Ranked):
    """See the module."""

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        return to_all(demand, demand.changes) + cls.expected_deliveries(demand)

    def publish(self, message: Message) -> None:
        node = self.node
        publication = node.key(message)
        publisher, row = publication >> 32, node.row(message.body)
        answer = answered(self.rank(message, row, publisher), self.service.query(publisher))
        self.decide(message, publication, answer, None, row)

    def change(self, message: Message) -> None:
        self.apply(message)
        for link in self.routes.forwards(self.node.broker, message.link, self.home(message.word)):
            self.node.forward(message, link)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        self.keep_filter(id, row)
