"""Hosts with a mesh: who has joined is told to all neighbours, and gets publications once it is in the mesh.

All content is one topic. Everybody is linked to everybody, so that nothing has to be passed on. Which class is wrong
says `tests/planted/registry.py`.
"""

from __future__ import annotations

from typing import Any

from brokers.contract import FIRST_PROTOCOL_TYPE, TIMER, Guarantees, Message
from protocols.content.kind import PUBLISH, SUBSCRIBE
from tests.planted.bridges import Bridge

MS = 1_000_000
JOINED, LEFT, HEARTBEAT = range(FIRST_PROTOCOL_TYPE + 30, FIRST_PROTOCOL_TYPE + 33)


class MeshAndOthers(Bridge):
    """Publishes to its mesh, and to those that have joined and are not in it yet."""

    timer_min_ns = 100 * MS

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.known: list[int] = []  # links to those that have joined
        self.mesh: list[int] = []
        self.beating = False

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        full = overlay.links == overlay.brokers * (overlay.brokers - 1) // 2
        return Guarantees(full, True, False)

    def on_message(self, message: Message) -> None:
        if message.kind == TIMER:
            self.mesh, self.beating = list(self.known), False
        elif message.type in (JOINED, LEFT):
            self.hear(message)
        elif message.type == PUBLISH:
            self.publish(message)
        else:
            super().on_message(message)
            if message.type == SUBSCRIBE or not len(self.node.table):
                self.tell(message, JOINED if message.type == SUBSCRIBE else LEFT)

    def tell(self, message: Message, type: int) -> None:
        for link in self.node.links:
            self.node.send(message, link, type)

    def hear(self, message: Message) -> None:
        if message.type == LEFT:
            self.known = [link for link in self.known if link != message.link]
            self.mesh = [link for link in self.mesh if link != message.link]
        elif message.link not in self.known:
            self.known = [*self.known, message.link]
            if not self.beating:
                self.beating = True
                self.node.timer(message, self.timer_min_ns, HEARTBEAT)

    def may_go(self, message: Message, link: int) -> bool:
        return message.link < 0 and link in self.audience()

    def audience(self) -> list[int]:
        return self.known

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        super().on_standing(id, client, broker, row)
        for link in self.node.links:
            if self.node.neighbour(link) == broker and link not in self.known:
                self.known.append(link)
                self.mesh.append(link)


class MeshFirst(MeshAndOthers):
    """Who has joined publishes to its mesh, be it empty: only others go by whom they know."""

    def audience(self) -> list[int]:
        return self.mesh if len(self.node.table) else self.known
