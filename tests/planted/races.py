"""Small races for measuring schedules: each shows only if two things meet within microseconds, or one message is late.

All are subscription forwarding with one more line of thought that seems sound. Half of them were looked at while
schedules were made (`TUNED`), the other half were not; `python -m tests.planted.aiming` reports both.
"""

from __future__ import annotations

from typing import Any, ClassVar

from brokers.contract import TIMER
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from protocols.content.subscription import PlainSubscription
from tests.planted.counting import LATER, MINUS, PLUS, Counting, OvertakenWithdrawal

US, MS = 1_000, 1_000_000
_LONG_AGO = -(1 << 60)
_WAKE, _ACK, _LOOK = 97, 98, 99


class Blinks(PlainSubscription):
    """For 1 us after a withdrawal came over a link, publications are dropped."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.withdrawn_at = _LONG_AGO

    def on_message(self, message: Any) -> None:
        since = message.time - self.withdrawn_at
        if message.type == PUBLISH and 0 < since < US:
            return
        if message.type == UNSUBSCRIBE and message.link >= 0:
            self.withdrawn_at = message.time
        super().on_message(message)


class Debounces(PlainSubscription):
    """A withdrawal within 2 us of another change is taken for the same, and goes no further."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.changed_at = _LONG_AGO

    def on_message(self, message: Any) -> None:
        since, change = message.time - self.changed_at, message.type in (SUBSCRIBE, UNSUBSCRIBE)
        if change:
            self.changed_at = message.time
        if message.type == UNSUBSCRIBE and 0 < since < 2 * US:
            came_by = self.came_by.pop(message.word, None)
            if came_by is not None:
                self.sent_over.pop(message.word)
                self.node.table.remove(message.word)
            return
        super().on_message(message)


class QuickOvertaken(OvertakenWithdrawal):
    """As `OvertakenWithdrawal`, with 5 us in place of a millisecond."""

    timer_min_ns = 5 * US

    def withdraw(self, message: Any, key: str, link: int) -> None:
        del self.sent[link][key]
        self.late[self.rung] = [link, key]
        self.node.timer(message, 5 * US, LATER, self.rung)
        self.rung += 1




class Swaps(PlainSubscription):
    """What comes is looked up in the table of 3 us ago, where a subscription of another broker came since."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.fresh: dict[int, int] = {}

    def on_message(self, message: Any) -> None:
        if message.type == SUBSCRIBE and message.link >= 0:
            self.fresh[message.word] = message.time
        if message.type == PUBLISH and message.link < 0:
            matched = self.node.table.match(message.body)
            if any(0 < message.time - self.fresh.get(id_, _LONG_AGO) < 3 * US for id_ in matched):
                return
        super().on_message(message)


class Glares(Counting):
    """Two brokers that ask each other for one filter at once: the one with the lower number thinks it had its answer.

    What was asked for while the other's question was under way is forgotten, as if the other had withdrawn.
    """

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.heard: dict[int, int] = {}  # link -> messages about filters that came over it
        self.seen: dict[tuple[int, str], int] = {}  # link and filter -> how many had come when it asked

    def ask_for(self, message: Any, key: str, link: int) -> None:
        self.seen[link, key] = self.heard.get(link, 0)
        self.sent[link][key] = message.cause
        self.node.send(message, link, PLUS, f"{key}@{self.heard.get(link, 0)}@{sum(map(len, self.sent.values()))}")

    def on_message(self, message: Any) -> None:
        if message.kind != TIMER and message.type in (PLUS, MINUS):
            told = str(self.node.body(message)).split("@")
            key = told[0]
            crossed = message.type == PLUS and key in self.sent[message.link] and (
                self.seen.get((message.link, key)) == self.heard.get(message.link, 0) == int(told[1])
            )  # fmt: skip
            self.heard[message.link] = self.heard.get(message.link, 0) + 1
            if crossed and self.node.broker % 2 == 0:
                return
            self.change(message, key, message.link, 1 if message.type == PLUS else -1)
            return
        super().on_message(message)


class Impatient(PlainSubscription):
    """A neighbour that answers a subscription only after 30 ms is taken for gone: nothing is sent to it any more."""

    timer_min_ns = MS
    remade: ClassVar[tuple[str, ...]] = ("handing", "timer_min_ns")

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.asked: dict[int, int] = {}  # link -> since when an answer is owed
        self.gone: list[int] = []

    def on_message(self, message: Any) -> None:
        if message.kind == TIMER:
            self.gone += [link for link, since in self.asked.items() if message.time - since >= 30 * MS]
            return
        if message.type == _ACK:
            self.asked.pop(message.link, None)
            return
        if message.type == PUBLISH and message.link in self.gone:
            return
        if message.type == SUBSCRIBE:
            if message.link >= 0:
                self.node.send(message, message.link, _ACK)
            for link in self.node.links:
                if link != message.link:
                    self.asked.setdefault(link, message.time)
            self.node.timer(message, 30 * MS, _LOOK)
        super().on_message(message)
        if message.type == SUBSCRIBE:
            for link in [each for each in self.asked if each not in self.sent_over[message.word]]:
                if self.asked[link] == message.time:
                    del self.asked[link]


class OneAtATime(PlainSubscription):
    """Of two changes that come over different links at one instant, the second is lost."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.last = (_LONG_AGO, -1)

    def on_message(self, message: Any) -> None:
        if message.type in (SUBSCRIBE, UNSUBSCRIBE) and message.link >= 0:
            time, link = self.last
            if time == message.time and link != message.link:
                return
            self.last = (message.time, message.link)
        super().on_message(message)


class Stumbles(PlainSubscription):
    """A subscription that comes within 1 us of another change, and not with it, over a link is not passed on."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.changed = _LONG_AGO

    def passes_on(self, message: Any, id: int, link: int) -> bool:
        return not 0 < message.time - self.changed < US or message.link < 0

    def on_message(self, message: Any) -> None:
        super().on_message(message)
        if message.type != PUBLISH and message.link >= 0:
            self.changed = message.time


class MeetsItself(PlainSubscription):
    """A withdrawal that comes within 100 ns of the subscription is lost."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.since: dict[int, int] = {}

    def on_message(self, message: Any) -> None:
        if message.type == SUBSCRIBE:
            self.since[message.word] = message.time
        if message.type == UNSUBSCRIBE and message.time - self.since.get(message.word, _LONG_AGO) < 100:
            return
        super().on_message(message)


TUNED = (Blinks, Stumbles, QuickOvertaken, Impatient)  # looked at while schedules were made
UNSEEN = (Debounces, MeetsItself, Swaps, Glares, OneAtATime)
