"""Changes of host P about who a neighbour is: in which life it is, and whether what it says came from oneself.

`Incarnations` and `Marking` are right; see `tests/planted/registry.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from brokers.contract import Guarantees, Message
from brokers.faults import LINK_DOWN, RESTART
from brokers.promises import Recovery
from tests.planted.counting import ASK, LATER, LOCAL, MS, PLUS, SNAPSHOT, Adding, Counting

START, DETACH = LATER + 1, LATER + 2

# ---- 17: one copy more per restart ----------------------------------------------------------------------


class Incarnations(Counting):
    """Says in which life it is; what came in an earlier life of a neighbour is forgotten."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.life = 0
        self.lives: dict[str, dict[int, list[int]]] = {}  # filter -> link -> lives in which it came

    def on_fault(self, message: Message) -> None:
        if message.type == RESTART:
            self.life = message.time
        super().on_fault(message)

    def ask_for(self, message: Message, key: str, link: int) -> None:
        self.sent[link][key] = message.cause
        self.node.send(message, link, PLUS, key, word=self.life)

    def change(self, message: Message, key: str, link: int, by: int) -> None:
        if link != LOCAL:
            self.live(key, link, message.word if by > 0 else -1)
        super().change(message, key, link, by)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        super().on_standing(id, client, broker, row)
        for key, came in self.came.items():
            self.lives[key] = {link: [0] for link in came if link != LOCAL}

    def live(self, key: str, link: int, life: int) -> None:
        """A filter came over a link in this life of the neighbour, or (-1) is withdrawn."""
        self.lives.setdefault(key, {})[link] = [life] if life >= 0 else []

    def take(self, message: Message, told: dict[str, int]) -> None:
        super().take(message, told)
        for key in sorted(told):
            if not self.lives.setdefault(key, {}).get(message.link):
                self.lives[key][message.link] = [0]


class OneCopyPerLife(Incarnations):
    """Keeps the routes of all lives, and sends a copy by each."""

    def live(self, key: str, link: int, life: int) -> None:
        lives = self.lives.setdefault(key, {}).setdefault(link, [])
        if life < 0:
            lives.clear()
        elif life not in lives:
            lives.append(life)

    def copies(self, matched: list[str], link: int) -> int:
        lives = {life for key in matched for life in self.lives.get(key, {}).get(link, ()) if link in self.came[key]}
        return len(lives)


# ---- 7: a false alarm of a loop -------------------------------------------------------------------------


class Marking(Adding):
    """On one tree, whose leaves attach elsewhere while their link of the tree is down.

    Every broker has a marker, a filter that no publication answers. A marker of one's own that comes back is a loop,
    unless it is in a snapshot: there it may be stale.
    """

    REFUSED_NS: ClassVar[int] = 30_000 * MS

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.tree = list(self.links)
        self.down: list[int] = []
        self.attached = -1  # the link outside of the tree by which this leaf is attached
        self.refused: list[int] = []
        self.seen: list[int] = []  # while links come and go there may be a ring

    def on_fault(self, message: Message) -> None:
        link = message.link
        if message.type == RESTART:
            super().on_fault(message)
            for other in self.node.links:
                if other not in self.tree:
                    self.node.send(message, other, ASK)
            return
        self.down = sorted({*self.down, link} if message.type == LINK_DOWN else {*self.down} - {link})
        if link in self.tree:
            super().on_fault(message)
        elif message.type == LINK_DOWN:
            self.leave(message, link)
        self.attach(message)

    def attach(self, message: Message) -> None:
        """A leaf whose link is down takes its first other one that is up, and leaves that when its own is up again."""
        ways = [link for link in self.node.links if link not in self.tree and link not in self.down]
        adrift = len(self.tree) == 1 and self.tree[0] in self.down
        if adrift and self.attached < 0 and ways:
            self.attached = ways[0]
            self.join(ways[0])
            self.come_up(message, ways[0])
        elif not adrift and self.attached >= 0:
            self.node.send(message, self.attached, DETACH)
            self.leave(message, self.attached)

    def join(self, link: int) -> None:
        if link not in self.links:
            self.links.append(link)
            self.sent[link] = {}

    def leave(self, message: Message, link: int) -> None:
        if link in self.links:
            super().take(message._replace(link=link), {})
            self.links.remove(link)
            del self.sent[link]
        if link == self.attached:
            self.attached = -1

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        return Guarantees(exact=not overlay.loss.any())

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Any) -> Recovery | None:
        """On cycles leaves can end up in a ring, where what is counted stays."""
        return super().recovery(options, overlay, faced) if overlay.is_tree else None

    def first_timers(self) -> list[tuple[int, int, int]]:
        return [(MS, START, 0)]

    def marker(self) -> str:
        return f"[{-1 - self.node.broker}]"  # no filter: it begins with no attribute

    def come_up(self, message: Message, link: int) -> None:
        if self.marker() not in self.came:
            self.came[self.marker()] = {LOCAL: 1}
        super().come_up(message, link)

    def count(self, key: str, link: int, count: int) -> None:
        if not key.startswith("[-"):
            super().count(key, link, count)
            return
        here = self.came.setdefault(key, {})
        here.pop(link, None)
        if count:
            here[link] = count
        if not here:
            del self.came[key]

    def on_message(self, message: Message) -> None:
        link = message.link
        if link in self.refused:
            return
        if link < 0 or link in self.links:
            if message.type == DETACH:
                self.leave(message, link)
            else:
                super().on_message(message)
        elif message.type == SNAPSHOT:  # a leaf attaches here
            self.join(link)
            super().on_message(message)
            self.come_up(message, link)

    def publish(self, message: Message) -> None:
        key = self.node.key(message)
        if key not in self.seen:
            self.seen.append(key)
            super().publish(message)

    def take(self, message: Message, told: dict[str, int]) -> None:
        if self.is_loop(told):
            self.refused.append(message.link)
            self.node.timer(message, self.REFUSED_NS, LATER, message.link)
        else:
            super().take(message, {key: told[key] for key in told if key != self.marker()})

    def on_timer(self, message: Message) -> None:
        if message.type == START:
            for link in self.links:
                self.come_up(message, link)
            return
        self.refused.remove(message.word)
        if message.word in self.links:
            self.node.send(message, message.word, ASK)
            self.come_up(message, message.word)

    def is_loop(self, told: dict[str, int]) -> bool:
        return False

    def entries(self) -> int:
        return sum(len(came) for key, came in self.came.items() if not key.startswith("[-"))


class FalseAlarm(Marking):
    """Takes its own marker in a snapshot for a loop, and refuses the link for half a minute."""

    def is_loop(self, told: dict[str, int]) -> bool:
        return self.marker() in told
