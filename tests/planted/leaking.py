"""Leaks of memory that neither `entries` nor `describe` tells, each in another place, and the same without.

Beside them is what grows as a leak does, for a while: `RIGHT`. All are subscription forwarding that remembers something
more, and deliver as it does.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

import numpy as np

from brokers.faults import LINK_DOWN, LINK_UP
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from protocols.content.subscription import PlainSubscription, Subscription

S = 1_000_000_000


class _Remembering(PlainSubscription):
    """Looks at what it handles, once it has handled it."""

    def on_message(self, message: Any) -> None:
        super().on_message(message)
        self.look_at(message)

    def look_at(self, message: Any) -> None:
        """Remember something of it."""


# ---- per client ------------------------------------------------------------------------------------------


class Greets(_Remembering):
    """Knows every client that it ever met."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.met: dict[int, int] = {}  # client -> how many subscriptions it has

    def look_at(self, message: Any) -> None:
        if message.link < 0 and message.type in (SUBSCRIBE, UNSUBSCRIBE):
            client = message.word >> 32
            self.met[client] = self.met.get(client, 0) + (1 if message.type == SUBSCRIBE else -1)
            self.left(client)

    def left(self, client: int) -> None:
        """Whoever has no subscription any more is remembered."""


class TakesLeave(Greets):
    """The same without the leak."""

    def left(self, client: int) -> None:
        if not self.met[client]:
            del self.met[client]


# ---- per publication -------------------------------------------------------------------------------------


class Recalls(_Remembering):
    """Remembers every publication."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.seen: dict[int, int] = {}

    def look_at(self, message: Any) -> None:
        if message.type == PUBLISH:
            self.seen[self.node.key(message)] = message.time
            self.forget(message.time)

    def forget(self, now: int) -> None:
        """What was long ago is remembered."""


class RecallsALittle(Recalls):
    """The same without the leak: for two seconds."""

    def forget(self, now: int) -> None:
        for key in [key for key, time in self.seen.items() if time + 2 * S < now]:
            del self.seen[key]


# ---- per change ------------------------------------------------------------------------------------------


class Buries(_Remembering):
    """Each subscription gets a slot of a list, and leaves it empty behind it."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.slots: list[int] = []
        self.free: list[int] = []
        self.slot_of: dict[int, int] = {}

    def look_at(self, message: Any) -> None:
        if message.type == SUBSCRIBE and message.word not in self.slot_of:
            if not self.free:
                self.free.append(len(self.slots))
                self.slots.append(0)
            slot = self.slot_of[message.word] = self.free.pop()
            self.slots[slot] = message.word
        elif message.type == UNSUBSCRIBE and message.word in self.slot_of:
            self.give_up(self.slot_of.pop(message.word))

    def give_up(self, slot: int) -> None:
        self.slots[slot] = 0


class UsesAgain(Buries):
    """The same without the leak: who comes next gets the slot."""

    def give_up(self, slot: int) -> None:
        super().give_up(slot)
        self.free.append(slot)


# ---- per fault -------------------------------------------------------------------------------------------


class KeepsALog(PlainSubscription):
    """Writes down when links went down."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.downs: dict[int, list[int]] = {}  # link -> when

    def on_fault(self, message: Any) -> None:
        super().on_fault(message)
        if message.type == LINK_DOWN:
            self.downs.setdefault(message.link, []).append(message.time)
        elif message.type == LINK_UP:
            self.is_up(message.link)

    @classmethod
    def wants_faults(cls, options: Any) -> bool:
        return True

    def is_up(self, link: int) -> None:
        """What was written of it stays."""


class WipesTheLog(KeepsALog):
    """The same without the leak: of links that are down."""

    def is_up(self, link: int) -> None:
        self.downs.pop(link, None)


# ---- in arrays, per window -------------------------------------------------------------------------------


class Tallies(Subscription):
    """The view of a shard: how much it knew after each window, in an array that doubles."""

    plain: ClassVar[Any] = PlainSubscription

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.known = np.zeros(4, np.int64)
        self.count = 0

    def tidy(self) -> None:
        super().tidy()
        if self.count == self.known.size:
            self.known = np.concatenate((self.known, np.zeros_like(self.known)))
        self.known[self.count] = self.entries().sum()
        self.count = self.after(self.count)

    def after(self, at: int) -> int:
        """The place of the next."""
        return at + 1


class TalliesRound(Tallies):
    """The same without the leak: the array is a ring."""

    def after(self, at: int) -> int:
        return (at + 1) % 100


# ---- what grows, and comes to a level --------------------------------------------------------------------


class Counts(_Remembering):
    """Numbers that grow, and bytes that do not."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.total, self.of_type, self.last = 0, {PUBLISH: 0}, b""

    def look_at(self, message: Any) -> None:
        self.total += 1
        self.of_type[PUBLISH] += message.type == PUBLISH
        self.last = message.time.to_bytes(8, "big")


class Window(_Remembering):
    """Remembers the last four hundred, in a set beside a list."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.order: list[int] = []
        self.known: set[int] = set()

    def look_at(self, message: Any) -> None:
        self.order.append(message.time)
        self.known.add(message.time)
        if len(self.order) > 400:
            gone = self.order.pop(0)
            if gone not in self.order:
                self.known.discard(gone)


class LongDeque(_Remembering):
    """Remembers the last ten thousand, in a deque that says so."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.order: deque[int] = deque(maxlen=10_000)

    def look_at(self, message: Any) -> None:
        self.order.append(message.time)


class Rooms(_Remembering):
    """Has room for what came at one instant, and twice as much where that is not enough."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.now, self.count = -1, 0
        self.types = np.zeros(1, np.int64)

    def look_at(self, message: Any) -> None:
        if message.time > self.now:
            self.now, self.count = message.time, 0
        if self.count == self.types.size:
            self.types = np.concatenate((self.types, self.types))
        self.types[self.count] = message.type
        self.count += 1


class Expiring(_Remembering):
    """Remembers everything for five minutes."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.seen: dict[int, int] = {}

    def look_at(self, message: Any) -> None:
        self.seen[len(self.seen) + message.time] = message.time
        while self.seen and next(iter(self.seen.values())) + 300 * S < message.time:
            del self.seen[next(iter(self.seen))]


# Each leak, the attribute that tells of it, its repaired twin, and the options that it takes to meet it.
LEAKS: tuple[tuple[type, str, type, dict[str, Any]], ...] = (
    (Greets, "met", TakesLeave, {}),
    (Recalls, "seen", RecallsALittle, {}),
    (Buries, "slots", UsesAgain, {}),
    (KeepsALog, "downs", WipesTheLog, {"recover": True}),
    (Tallies, "known", TalliesRound, {}),
)
RIGHT: tuple[type, ...] = (Counts, Window, LongDeque, Rooms, Expiring)
