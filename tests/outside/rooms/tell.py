"""The protocol `rooms-tell`: every broker knows who is where, and passes on what somebody behind a link can hear.

Rules:
- Brokers send along one tree only. Who enters, moves or leaves is told to all of it.
- What is said goes over the links behind which somebody is near enough, and each broker tells its own clients.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from brokers.contract import BrokerProtocol, Message
from protocols.routes import Routes
from rooms.kind import ENTER, LEAVE, SAY

HERE = -1  # in place of a link


class Tell(BrokerProtocol):
    """One broker."""

    kind: ClassVar[str] = "rooms"
    remade: ClassVar[tuple[str, ...]] = ("links",)

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        if "tree" not in node.shared:
            root = np.zeros(1, np.int32)
            node.shared["tree"] = Routes(node.env.links, node.env.overlay.is_tree, root, True)
        tree = node.shared["tree"]
        up = int(tree.up[0, node.broker])
        down = [int(tree.up[0, child]) ^ 1 for child in tree.children(0, node.broker).tolist()]
        self.links = [up, *down] if up >= 0 else down
        self.stays: dict[int, tuple[int, int]] = {}  # stay -> its room, and the link behind which it is

    def on_message(self, message: Message) -> None:
        if message.type == SAY:
            self.say(message)
            return
        if message.type == ENTER:
            self.stays[message.word] = int(self.node.row(message.body)[0]), message.link
        elif message.type == LEAVE:
            self.stays.pop(message.word, None)
        for link in self.links:
            if link != message.link:
                self.node.forward(message, link)

    def say(self, message: Message) -> None:
        node = self.node
        room, loudness = node.row(message.body)[:2].tolist()
        near = {stay: at for stay, at in self.stays.items() if abs(at[0] - room) <= loudness}
        node.work(message, len(self.stays), len(near))
        behind = {link for _, link in near.values()}
        for link in self.links:
            if link != message.link and link in behind:
                node.forward(message, link)
        heard: dict[int, int] = {}  # client -> walls
        for stay, (where, link) in near.items():
            if link == HERE:
                walls = int(abs(where - room))
                heard[stay >> 32] = min(heard.get(stay >> 32, walls), walls)
        for client, walls in sorted(heard.items()):
            node.deliver(message, client - node.env.entity_base)
            node.record(message, "heard", publication=node.key(message), client=client, walls=walls)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        tree, here = self.node.shared["tree"], self.node.broker
        link = HERE if broker == here else int(tree.up[0, here])
        for child in tree.children(0, here).tolist():
            if tree.is_below(0, child, broker):
                link = int(tree.up[0, child]) ^ 1
        self.stays[id] = int(row[0]), link

    def entries(self) -> int:
        return len(self.stays)


class Whisper(Tell):
    """Wrong on purpose: what is said is not heard through the last of the walls."""

    def say(self, message: Message) -> None:
        room, loudness = self.node.row(message.body)[:2].tolist()
        kept = self.stays
        self.stays = {stay: at for stay, at in kept.items() if abs(at[0] - room) < max(loudness, 1)}
        super().say(message)
        self.stays = kept
