"""Host P: subscription forwarding with a count per filter and link, and withdrawal where the last is gone.

Rules:
- Equal ranges are one filter. A broker counts, for each filter, its clients' subscriptions and what came over each
  link, and asks a neighbour for a filter while anybody but that neighbour wants it.
- Publications go where somebody asked for a filter that they answer, on one tree of the overlay.
- A link that comes up is told all that is wanted over it (a snapshot), and who comes back asks for that.

`Counting` is right. Every other class is a small change of it, a mistake or the repair of one; which is which says
`tests/planted/registry.py`.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

import numpy as np

from brokers.contract import FIRST_PROTOCOL_TYPE, TIMER, BrokerProtocol, Guarantees, Message
from brokers.faults import LINK_DOWN, LINK_UP, RESTART
from brokers.promises import Recovery
from protocols.content.kind import PUBLISH, SUBSCRIBE
from protocols.routes import shared_tree

MS = 1_000_000
PLUS, MINUS, SNAPSHOT, ASK, LATER = range(FIRST_PROTOCOL_TYPE, FIRST_PROTOCOL_TYPE + 5)
LOCAL = -1  # in place of a link


class Counting(BrokerProtocol):
    """One broker of the host."""

    kind: ClassVar[str] = "content"
    timer_min_ns = MS

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        routes = shared_tree(node)
        self.links = [link for link in node.links if routes.in_tree[link]]
        self.filter_of: dict[int, str] = {}  # a client's subscription -> its filter
        self.came: dict[str, dict[int, int]] = {}  # filter -> how often over each link, or LOCAL
        self.sent: dict[int, dict[str, int]] = {link: {} for link in self.links}  # link -> filter -> its cause
        self.number: dict[str, int] = {}  # filter -> its entry in the table
        self.numbers = 0

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Any) -> Recovery:
        return Recovery(min(faced.detect_ns, 1 << 61) + 2 * faced.link_ns + 2 * faced.way_ns + 20 * MS)

    # ---- what reaches it -----------------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        if message.kind == TIMER:
            self.on_timer(message)
        elif message.type == PUBLISH:
            self.publish(message)
        elif message.type in (PLUS, MINUS):
            self.change(message, self.node.body(message), message.link, 1 if message.type == PLUS else -1)
        elif message.type == SNAPSHOT:
            self.take(message, self.node.body(message))
        elif message.type == ASK:
            self.come_up(message, message.link)
        elif message.type == SUBSCRIBE:
            key = filter_at(self.node.row(message.body))
            self.filter_of[message.word] = key
            self.change(message, key, LOCAL, 1)
        elif (key := self.filter_of.pop(message.word, "")) != "":
            self.change(message, key, LOCAL, -1)

    def on_fault(self, message: Message) -> None:
        if message.type == RESTART:
            for link in self.links:
                self.node.send(message, link, ASK)
                self.come_up(message, link)
        elif message.link in self.links:
            if message.type == LINK_UP:
                self.come_up(message, message.link)
            elif message.type == LINK_DOWN:
                self.go_down(message, message.link)

    def on_timer(self, message: Message) -> None:
        """No timer is set by what is right."""

    def go_down(self, message: Message, link: int) -> None:
        """What came over a link is believed until there is news."""

    # ---- who wants what ------------------------------------------------------------------------------

    def change(self, message: Message, key: str, link: int, by: int) -> None:
        """So many more want a filter there."""
        self.count(key, link, self.counted(key, link, by))
        self.tell(message, key, by)

    def counted(self, key: str, link: int, by: int) -> int:
        """How many there are then: of clients each counts, of a neighbour whether it wants it."""
        return max(0, self.came.get(key, {}).get(link, 0) + by) if link == LOCAL else max(0, by)

    def count(self, key: str, link: int, count: int) -> None:
        here = self.came.setdefault(key, {})
        here.pop(link, None)
        if count:
            here[link] = count
        if here and key not in self.number:
            self.number[key], self.numbers = self.numbers, self.numbers + 1
            self.node.table.add(self.number[key], 0, row_of(key), key)
        elif not here:
            del self.came[key]
            if key in self.number:
                self.node.table.remove(self.number.pop(key))

    def wants(self, key: str, link: int) -> bool:
        """Whether anybody but the neighbour behind a link wants a filter."""
        return any(other != link for other in self.came.get(key, ()))

    def tell(self, message: Message, key: str, by: int) -> None:
        """Have neighbours know what is wanted now."""
        for link in self.links:
            wanted, told = self.wants(key, link), key in self.sent[link]
            if wanted and not told:
                self.ask_for(message, key, link)
            elif told and not wanted:
                self.withdraw(message, key, link)
            elif wanted and by > 0 and message.cause >= 0:
                self.node.depends(message.cause, self.sent[link][key])

    def ask_for(self, message: Message, key: str, link: int) -> None:
        self.sent[link][key] = message.cause
        self.node.send(message, link, PLUS, key)

    def withdraw(self, message: Message, key: str, link: int) -> None:
        del self.sent[link][key]
        self.node.send(message, link, MINUS, key)

    # ---- links that come up --------------------------------------------------------------------------

    def come_up(self, message: Message, link: int) -> None:
        """Tell a neighbour all that is wanted: from now on it is told of changes."""
        keys = self.snapshot(link)
        self.sent[link] = dict.fromkeys(keys, -1)
        self.node.send(message, link, SNAPSHOT, {key: self.weight(key, link) for key in keys})

    def snapshot(self, link: int) -> list[str]:
        return sorted(key for key in self.came if self.wants(key, link))

    def weight(self, key: str, link: int) -> int:
        return 1

    def take(self, message: Message, told: dict[str, int]) -> None:
        """What a neighbour wants is this and nothing else."""
        had = {key for key, came in self.came.items() if message.link in came}
        for key in sorted(had | set(told)):
            self.count(key, message.link, told.get(key, 0))
            self.tell(message, key, 0)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        key = filter_at(row)
        if broker == self.node.broker:
            self.filter_of[id] = key
        for link in (LOCAL, *self.links):
            if self.lies_behind(broker, link):
                self.count(key, link, self.stands_for(key, link))
        for link in self.links:
            if self.wants(key, link):
                self.sent[link][key] = self.stands_as(key, link)

    def lies_behind(self, broker: int, link: int) -> bool:
        """Whether what a broker's clients want comes over a link, or from here."""
        here = self.node.broker
        if link == LOCAL or broker == here:
            return link == LOCAL and broker == here
        shared = self.node.shared
        if "masks" not in shared:
            shared["masks"] = shared_tree(self.node).masks()
        inward = link ^ 1
        return bool(shared["masks"][broker][inward >> 6] >> np.uint64(inward & 63) & np.uint64(1))

    def stands_for(self, key: str, link: int) -> int:
        """How many want a filter there, with one more that wanted it from the start."""
        return self.counted(key, link, 1)

    def stands_as(self, key: str, link: int) -> int:
        return -1

    # ---- publications --------------------------------------------------------------------------------

    def publish(self, message: Message) -> None:
        matched = sorted(self.node.table.tags[number] for number in self.node.table.match(message.body))
        for link in self.links:
            if link != message.link:
                for _ in range(self.copies(matched, link)):
                    self.node.forward(message, link)
        wanting = {id_ for id_, key in self.filter_of.items() if key in matched}
        base = self.node.env.entity_base
        for client in sorted({(id_ >> 32) - base for id_ in wanting}):
            self.node.deliver(message, client)

    def copies(self, matched: list[str], link: int) -> int:
        return int(any(link in self.came[key] for key in matched))

    def entries(self) -> int:
        return sum(map(len, self.came.values()))

    def describe(self) -> dict[str, Any]:
        """What it believes that its neighbours want, and what it wants of them, by link."""
        keys = sorted(self.came)
        return {
            "came": {link: [key for key in keys if link in self.came[key]] for link in self.links},
            "wants": {link: [key for key in keys if self.wants(key, link)] for link in self.links},
        }


def filter_at(row: Any) -> str:
    """The name of a filter: its ranges."""
    return json.dumps([value for value in row.tolist() if value == value])


def row_of(key: str) -> Any:
    return np.array(json.loads(key), np.float64)


# ---- 1: a snapshot without learned interest -------------------------------------------------------------


class SnapshotOfClients(Counting):
    """Tells a link that comes up what its own clients want, and not what came over other links."""

    def snapshot(self, link: int) -> list[str]:
        return sorted(key for key, came in self.came.items() if LOCAL in came)


# ---- 2: a withdrawal that overtakes ---------------------------------------------------------------------


class LateWithdrawal(Counting):
    """Withdraws a millisecond later, decided when the timer rings."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.late: dict[int, list[Any]] = {}  # number of a timer -> link and filter
        self.rung = 0

    def withdraw(self, message: Message, key: str, link: int) -> None:
        self.late[self.rung] = [link, key]
        self.node.timer(message, MS, LATER, self.rung)
        self.rung += 1

    def on_timer(self, message: Message) -> None:
        link, key = self.late.pop(message.word)
        if key in self.sent[link] and not self.wants(key, link):
            super().withdraw(message, key, link)


class OvertakenWithdrawal(LateWithdrawal):
    """Has decided when it sets the timer, and asks anew at once: what it asked for is withdrawn after that."""

    def withdraw(self, message: Message, key: str, link: int) -> None:
        del self.sent[link][key]
        super().withdraw(message, key, link)

    def on_timer(self, message: Message) -> None:
        link, key = self.late.pop(message.word)
        self.node.send(message, link, MINUS, key)


# ---- 3: a snapshot before registration, and registration before the snapshot ---------------------------


class SnapshotFirst(Counting):
    """Sends the snapshot, and has the link among those that are told a millisecond later."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.unregistered: list[int] = []  # links

    def come_up(self, message: Message, link: int) -> None:
        super().come_up(message, link)
        self.unregistered.append(link)
        self.node.timer(message, MS, LATER, link)

    def on_timer(self, message: Message) -> None:
        self.unregistered.remove(message.word)

    def ask_for(self, message: Message, key: str, link: int) -> None:
        if link not in self.unregistered:
            super().ask_for(message, key, link)

    def withdraw(self, message: Message, key: str, link: int) -> None:
        if link not in self.unregistered:
            super().withdraw(message, key, link)


class Adding(Counting):
    """A neighbour is counted by what it says, plus and minus, and a snapshot says how often."""

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        """A plus that is lost is made up for by nothing."""
        return Guarantees(exact=not overlay.loss.any())

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Any) -> Recovery | None:
        """Nor is one that came twice."""
        return None if faced.doubles else super().recovery(options, overlay, faced)

    def counted(self, key: str, link: int, by: int) -> int:
        return max(0, self.came.get(key, {}).get(link, 0) + by)

    def stands_for(self, key: str, link: int) -> int:
        """A neighbour has said it once, whoever wants it there."""
        return self.counted(key, link, 1) if link == LOCAL else 1


class SubscribedTwice(Adding):
    """Registers first and sends the snapshot a millisecond later; who gets it adds it to what came in between.

    What came over a link that goes down is forgotten.
    """

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Any) -> Recovery | None:
        found = super().recovery(options, overlay, faced)
        return found and found._replace(lets_go=True)

    def go_down(self, message: Message, link: int) -> None:
        super().take(message, {})

    def come_up(self, message: Message, link: int) -> None:
        self.sent[link] = dict.fromkeys(self.snapshot(link), -1)
        self.node.timer(message, MS, LATER, link)

    def on_timer(self, message: Message) -> None:
        super().come_up(message, message.word)

    def take(self, message: Message, told: dict[str, int]) -> None:
        for key in sorted(told):
            self.change(message, key, message.link, told[key])


# ---- 4: a group that is restored as one -----------------------------------------------------------------


class Weighing(Adding):
    """Tells neighbours of each subscriber more or less, and of their number in a snapshot."""

    def tell(self, message: Message, key: str, by: int) -> None:
        for link in self.links:
            wanted, told = self.weight(key, link), self.sent[link].pop(key, 0)
            if wanted:
                self.sent[link][key] = wanted
            for _ in range(abs(wanted - told)):
                self.node.send(message, link, PLUS if wanted > told else MINUS, key)

    def weight(self, key: str, link: int) -> int:
        return sum(count for other, count in self.came.get(key, {}).items() if other != link)

    def stands_for(self, key: str, link: int) -> int:
        return self.counted(key, link, 1)

    def stands_as(self, key: str, link: int) -> int:
        return self.weight(key, link)

    def come_up(self, message: Message, link: int) -> None:
        super().come_up(message, link)
        self.sent[link] = {key: self.weight(key, link) for key in self.snapshot(link)}


class RestoredAsOne(Weighing):
    """Takes a filter of a snapshot for one subscriber, however many it stands for."""

    def take(self, message: Message, told: dict[str, int]) -> None:
        super().take(message, dict.fromkeys(told, 1))


# ---- 8: a spoke that is also a hub ----------------------------------------------------------------------


class ClientsOnly(Counting):
    """Tells the broker that it dialled, the one nearer to broker 0, of its own clients only."""

    def wants(self, key: str, link: int) -> bool:
        if self.node.neighbour(link) < self.node.broker:  # overlays of this mistake are numbered from the hub on
            return LOCAL in self.came.get(key, ())
        return super().wants(key, link)
