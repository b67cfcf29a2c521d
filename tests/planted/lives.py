"""Changes of host P about who a neighbour is: in which life it is, and whether what it says came from oneself.

`Incarnations` and `Marking` are right; see `tests/planted/registry.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from brokers.contract import Guarantees, Message
from brokers.faults import RESTART
from tests.planted.counting import ASK, LATER, LOCAL, MS, PLUS, Adding, Counting

START = LATER + 1

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
    """On an overlay whose links that are up have no cycle: every broker's marker is a filter that nobody asks for.

    A marker of one's own that comes back is a loop, unless it is in a snapshot: there it may be stale.
    """

    REFUSED_NS: ClassVar[int] = 30_000 * MS

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.links = list(node.links)
        self.sent = {link: {} for link in self.links}
        self.refused: list[int] = []
        self.seen: list[int] = []  # where links come up and go down together, there may be a ring for a while

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        return Guarantees(exact=bool(overlay.is_tree) and not overlay.loss.any())

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
        if message.link not in self.refused:
            super().on_message(message)

    def publish(self, message: Message) -> None:
        if self.node.key(message) not in self.seen:
            self.seen.append(self.node.key(message))
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
