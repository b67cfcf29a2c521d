"""What protocols that gossip stand on: somebody who says which links lead to neighbours, now.

`Fixed` says those of the overlay, but for what it is told is down. `hyparview.HyParView` keeps views of its own. A
protocol hands either of them what reaches its broker for membership, and is told which neighbours are new and which
have gone (`up`, `down`); whatever gossips thus runs over both.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from brokers.contract import Message
from brokers.faults import LINK_DOWN, LINK_UP
from protocols.content.at_home import AtHome
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from protocols.gossip.hyparview import HyParView
from protocols.gossip.hyparview_options import ViewOptions


class Members(Protocol):
    """Who says which links lead to neighbours."""

    types: ClassVar[frozenset[int]]  # messages and timers that are its own
    active: list[int]  # links to neighbours

    def hear(self, message: Message) -> None:
        """Take a message of its own, a timer or a fault."""

    def stranger(self, message: Message) -> None:
        """Somebody who is no neighbour sent something."""

    def first_timers(self) -> list[tuple[int, int, int]]:
        """As of a protocol."""
        ...

    def describe(self) -> dict[str, Any]:
        """What there is to be seen of it."""
        ...


class Fixed:
    """The links of the overlay, but for those that are down."""

    types: ClassVar[frozenset[int]] = frozenset()

    def __init__(self, node: Any) -> None:
        self.node = node
        self.active: list[int] = list(node.links)

    def hear(self, message: Message) -> None:
        link = message.link
        if message.type == LINK_DOWN and link in self.active:
            self.active.remove(link)
        elif message.type == LINK_UP and link in self.node.links and link not in self.active:
            self.active.append(link)

    def stranger(self, message: Message) -> None:
        """What a link carried that was down a moment ago, or will be told to be up."""

    def first_timers(self) -> list[tuple[int, int, int]]:
        return []

    def describe(self) -> dict[str, Any]:
        return {}


class Gossiping(AtHome):
    """A broker that gossips with its neighbours, whoever says which they are."""

    opens: ClassVar[bool] = True
    watches: ClassVar[bool] = True
    keeps: ClassVar[tuple[Any, ...]] = (Fixed, HyParView)

    def __init__(self, node: Any, remember_ns: int, views: ViewOptions | None) -> None:
        super().__init__(node, remember_ns)
        self.members: Members = Fixed(node) if views is None else HyParView(node, views)

    # ---- to be said by who gossips -------------------------------------------------------------------

    def publish(self, message: Message) -> None:
        """A publication of a client here, or a copy from a neighbour."""
        raise NotImplementedError

    def gossip(self, message: Message) -> None:
        """A message or a timer of its own."""
        raise NotImplementedError

    def up(self, message: Message, link: int) -> None:
        """There is a new neighbour."""

    def down(self, message: Message, link: int) -> None:
        """A neighbour has gone."""

    # ---- what reaches the broker ---------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        if message.type in self.members.types:
            self._membership(message)
            return
        if message.link >= 0 and message.link not in self.members.active:
            self.members.stranger(message)
        if message.type == PUBLISH:
            self.publish(message)
        elif message.type in (SUBSCRIBE, UNSUBSCRIBE):
            self.changed(message)
        else:
            self.gossip(message)

    def on_fault(self, message: Message) -> None:
        self._membership(message)

    def _membership(self, message: Message) -> None:
        before = set(self.members.active)
        self.members.hear(message)
        after = set(self.members.active)
        for link in sorted(before - after):
            self.down(message, link)
        for link in sorted(after - before):
            self.up(message, link)

    def first_timers(self) -> list[tuple[int, int, int]]:
        return self.members.first_timers()

    def names_of(self, links: Any) -> list[str]:
        """The brokers at the far ends of links, by name."""
        names = self.node.env.overlay.names
        return [names[self.node.neighbour(link)] for link in sorted(links)]

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), **self.members.describe()}
