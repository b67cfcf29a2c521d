"""Hosts with neighbours that take little: queues in front of links are full, and who notices sends them less.

Everybody floods to its mesh, which is all neighbours but those that were turned out. The first drop begins a heartbeat,
at the end of which those with a score below 0 are turned out, for a while. Which class is wrong says
`tests/planted/registry.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from brokers.contract import FIRST_PROTOCOL_TYPE, TIMER, Guarantees, Message
from tests.planted.bridges import Bridge

MS = 1_000_000
HEARTBEAT = FIRST_PROTOCOL_TYPE + 20


class Scoring(Bridge):
    """What was dropped in front of a neighbour counts against it."""

    guarantees = Guarantees(exact=False, fifo_per_publisher=False, only_wanted=True)
    drops_told_ns = MS
    timer_min_ns = 10 * MS
    relents_ns = 40 * MS
    OUT_NS: ClassVar[int] = 200 * MS

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.failed: dict[int, int] = {}  # link -> drops of this heartbeat
        self.out: dict[int, int] = {}  # link -> until when its neighbour is in no mesh
        self.beating = False

    def on_message(self, message: Message) -> None:
        if message.kind == TIMER:
            self.heartbeat(message)
        else:
            super().on_message(message)

    def may_go(self, message: Message, link: int) -> bool:
        return super().may_go(message, link) and message.time >= self.out.get(link, 0)

    def on_drop(self, message: Message) -> None:
        self.failed[message.link] = self.failed.get(message.link, 0) + 1
        if not self.beating:
            self.beating = True
            self.node.timer(message, self.timer_min_ns, HEARTBEAT)

    def heartbeat(self, message: Message) -> None:
        for link in sorted(self.failed):
            if self.score(link) < 0:
                self.out[link] = message.time + self.OUT_NS
        self.failed, self.beating = {}, False

    def score(self, link: int) -> int:
        return -self.failed[link]


# ---- 19: a full queue, and nobody is turned out ----------------------------------------------------------


class Unscored(Scoring):
    """Scoring is off: all scores are 0, and none of them is below."""

    def score(self, link: int) -> int:
        return 0


# ---- 24: books with room for a few -----------------------------------------------------------------------


class Pressing(Scoring):
    """Who was pressed in two heartbeats is turned out; of each neighbour it is counted."""

    HEARTBEATS: ClassVar[int] = 2
    MOST: ClassVar[int] = 1_000

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.pressed: dict[int, int] = {}  # link -> in how many heartbeats, the oldest first

    def score(self, link: int) -> int:
        if link not in self.pressed and len(self.pressed) >= self.MOST:
            del self.pressed[next(iter(self.pressed))]
        self.pressed[link] = self.pressed.get(link, 0) + 1
        if self.pressed[link] < self.HEARTBEATS:
            return 0
        del self.pressed[link]
        return -1


class Bounded(Pressing):
    """There is room in the books for one neighbour; the next takes its place."""

    MOST: ClassVar[int] = 1
