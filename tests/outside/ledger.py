"""A third party's kind with a trace table of its own, and a protocol that writes to it."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from brokers.contract import NEVER, BrokerProtocol, Emission, Message
from brokers.schema import Column, Table
from protocols.content.kind import PUBLISH, SUBSCRIBE, Content
from protocols.content.manifest import CONTENT

STAMPED = 16
MS = 1_000_000


class Ledger(Content):
    """Content, with a ledger of what was stamped where."""

    manifest = replace(CONTENT, name="ledger", kind="ledger:Ledger", protocols={}, workloads={})
    replacements = frozenset({SUBSCRIBE})  # for the test: whoever subscribes twice by one word means the last
    tables: ClassVar[dict[str, Table]] = {
        "stamps": Table(
            "Every stamp.",
            "deliveries",
            (
                Column("service", "int16", "the service"),
                Column("broker", "int32", "who stamped"),
                Column("time_ns", "int64", "when"),
                Column("number", "int64", "how many stamps that broker has given"),
            ),
        )
    }


class Stamper(BrokerProtocol):
    """Each broker stamps what its clients publish and sends the stamped form, a body of its own, to its neighbours."""

    kind = "ledger"

    def __init__(self, node):
        super().__init__(node)
        self.stamps = 0

    def on_message(self, message: Message) -> None:
        if message.type == PUBLISH:
            self.stamps += 1
            self.node.record(message, "stamps", number=self.stamps)
            for link in self.node.links:
                self.node.send(message, link, STAMPED, {"by": self.node.broker, "number": self.stamps})
        elif message.type == STAMPED:
            for client in (self.node.env.client_broker == self.node.broker).nonzero()[0].tolist():
                self.node.deliver(message, client)


class Forger(Stamper):
    """Writes to a table that its kind does not have."""

    def on_message(self, message: Message) -> None:
        self.node.record(message, "forged", number=1)


class Rewrites:
    """A workload: client 0 says the same thing three times, each time anew."""

    def __init__(self, params, context):
        self.done = not (context.clients == 0).any()

    def next_wake(self):
        return NEVER if self.done else 10 * MS

    def take(self):
        self.done = True
        rows = np.array([[0.0, low, 0.9] for low in (0.1, 0.2, 0.3)])
        return [Emission(SUBSCRIBE, np.array([10, 20, 30]) * MS, np.zeros(3, np.int64), np.full(3, 7), rows)]
