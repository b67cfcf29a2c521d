"""Host C: a cluster, in which everybody is linked to everybody and knows who wants what.

Rules:
- A broker tells all others of a filter when its first client wants it, and again when the last does not.
- What a client publishes goes to all brokers of whom that is known, over one hop; what came over a link goes to clients
  only.

`Cluster` is right, and so is `Core`, whose brokers tell broker 0, which tells all others. Every other class is a small
change of one of them; which is which says `tests/planted/registry.py`.
"""

from __future__ import annotations

from typing import Any

from brokers.contract import Guarantees, Message
from brokers.faults import LINK_DOWN, LINK_UP, RESTART
from brokers.promises import Recovery
from tests.planted.counting import ASK, LOCAL, MINUS, PLUS, Counting, filter_at


def is_mesh(overlay: Any) -> bool:
    return bool(overlay.links == overlay.brokers * (overlay.brokers - 1) // 2)


class Cluster(Counting):
    """One broker of the host."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.links = list(node.links)
        self.sent = {link: {} for link in self.links}

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        """Without a link between each two nothing gets everywhere."""
        return Guarantees(exact=is_mesh(overlay))

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Any) -> list[tuple[str, str]]:
        return [] if is_mesh(overlay) else [("protocol", "is a cluster: it wants a link between each two brokers")]

    def wants(self, key: str, link: int) -> bool:
        return LOCAL in self.came.get(key, ())

    def lies_behind(self, broker: int, link: int) -> bool:
        here = self.node.broker
        return broker == here if link == LOCAL else self.node.neighbour(link) == broker

    def publish(self, message: Message) -> None:
        links = self.links
        self.links = links if message.link < 0 else []
        super().publish(message)
        self.links = links


# ---- 5: a loop through groups --------------------------------------------------------------------------


class Grouped(Cluster):
    """Equal filters are a group, of which one member gets a publication: one here, or one at a broker that has some.

    What came over a link goes to clients only.
    """

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        return Guarantees(exact=False)

    def publish(self, message: Message) -> None:
        matched = sorted(self.node.table.tags[number] for number in self.node.table.match(message.body))
        members = sorted(id_ for id_, key in self.filter_of.items() if key in matched)
        ways = [link for link in self.links if any(link in self.came[key] for key in matched)]
        if members:
            self.node.deliver(message, (members[0] >> 32) - self.node.env.entity_base)
        elif ways and self.may_pass_on(message):
            self.node.forward(message, ways[0])

    def may_pass_on(self, message: Message) -> bool:
        return message.link < 0


class AnyMember(Grouped):
    """Passes on what came over a link, too, if there is no member here."""

    def may_pass_on(self, message: Message) -> bool:
        return True


# ---- 10: what the leaver writes after it was purged ----------------------------------------------------


class RefusingStrangers(Cluster):
    """Forgets a broker that is down, and takes nothing of one that is not a member."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.strangers: list[int] = []  # links that are down

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Any) -> Recovery:
        return super().recovery(options, overlay, faced)._replace(lets_go=True)

    def go_down(self, message: Message, link: int) -> None:
        self.take_from(message, link, {})
        if link not in self.strangers:
            self.strangers.append(link)

    def on_fault(self, message: Message) -> None:
        if message.type == LINK_UP and message.link in self.strangers:
            self.strangers.remove(message.link)
            self.node.send(message, message.link, ASK)  # what it said as a stranger was not heard
        super().on_fault(message)

    def take_from(self, message: Message, link: int, told: dict[str, int]) -> None:
        super().take(message._replace(link=link), told)

    def take(self, message: Message, told: dict[str, int]) -> None:
        if message.link not in self.strangers:
            super().take(message, told)

    def change(self, message: Message, key: str, link: int, by: int) -> None:
        if link not in self.strangers:
            super().change(message, key, link, by)


class PurgingOnce(RefusingStrangers):
    """Forgets it once, and takes what was still under way."""

    def go_down(self, message: Message, link: int) -> None:
        self.take_from(message, link, {})


# ---- 11: a heal that keeps one side's table ------------------------------------------------------------


class Healing(Cluster):
    """Knows which members it cannot reach."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.unreached: list[int] = []
        self.few = False  # whether most members were out of reach

    def on_fault(self, message: Message) -> None:
        if message.type == LINK_DOWN:
            self.unreached.append(message.link)
            self.few = 2 * len(self.unreached) > len(self.links)
        elif message.type == LINK_UP and message.link in self.unreached:
            self.unreached.remove(message.link)
        elif message.type == RESTART:
            self.few = False
        super().on_fault(message)


class TakingOver(Healing):
    """With few others on its side it takes over what the many know, and does not tell them of its own clients."""

    def come_up(self, message: Message, link: int) -> None:
        if not self.few:
            super().come_up(message, link)


# ---- 12: a stale read before an insert ------------------------------------------------------------------


class Core(Cluster):
    """Routes are written at broker 0, which has all others repeat it; a broker decides by its own clients."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.link_to = {node.neighbour(link): link for link in self.links}
        self.asked: dict[str, int] = {}  # filter of this broker's clients -> the cause of its route
        self.routed: list[str] = []  # those of which this replica has the route

    @classmethod
    def wants_faults(cls, options: Any) -> bool:
        return False

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Any) -> None:
        return None

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        super().on_standing(id, client, broker, row)
        key = filter_at(row)
        if broker == self.node.broker and key not in self.asked:
            self.asked[key] = -1
            self.routed.append(key)

    def on_message(self, message: Message) -> None:
        if message.type in (PLUS, MINUS):
            self.write(message, message.type, *self.node.body(message))
        else:
            super().on_message(message)

    def tell(self, message: Message, key: str, by: int) -> None:
        """A client came or went."""
        if by > 0 and not self.has_route(key):
            self.asked[key] = message.cause
            self.say(message, PLUS, key)
        elif by > 0:
            self.node.depends(message.cause, self.asked[key])
        elif LOCAL not in self.came.get(key, ()):
            self.say(message, MINUS, key)

    def has_route(self, key: str) -> bool:
        return self.came[key][LOCAL] > 1

    def say(self, message: Message, type: int, key: str) -> None:
        if self.node.broker == 0:
            self.write(message, type, key, 0)
        elif 0 in self.link_to:
            self.node.send(message, self.link_to[0], type, [key, self.node.broker])

    def write(self, message: Message, type: int, key: str, broker: int) -> None:
        """At the core, which tells all, or in a replica of it."""
        if broker != self.node.broker:
            if broker in self.link_to:
                self.count(key, self.link_to[broker], int(type == PLUS))
        else:
            self.routed = [each for each in self.routed if each != key] + [key] * (type == PLUS)
        if self.node.broker == 0:
            for link in self.links:
                self.node.send(message, link, type, [key, broker])

    def entries(self) -> int:
        return super().entries() + len(self.routed)

    def describe(self) -> dict[str, Any]:
        return {"entries": self.entries()}


class StaleRead(Core):
    """Asks its replica whether there is a route already; the replica may not have seen that it was deleted."""

    def has_route(self, key: str) -> bool:
        return key in self.routed
