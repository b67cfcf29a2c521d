"""Links that arise: a broker whose protocol `opens` links may open latent ones, and close them again.

    class Bridging(BrokerProtocol):
        opens = True

        def on_fault(self, message):
            if message.type == LINK_DOWN:
                for link in self.node.latent:          # candidates of this broker, open or not
                    self.node.open(message, link)      # False if it has as many open as it may

A link that is open carries messages in both directions. Who opens or closes one tells the broker at the other end by a
message over it, which `on_fault` gets as OPENED or CLOSED; so do both ends where the scenario's schedule does it. A
broker that may not have one more open closes it again at once.

Of a latent link that is closed a protocol is not told that it is down, unless it `watches` all of them: then it knows
whom not to open a link to.

Where links are described (`links: {latent: {all: true}}`), `node.latent` holds one to every broker without listing
them, and nobody can be told of all: a protocol is told of those that it has open, at the earliest as long after opening
one as it takes to notice that a link is down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.contract import FAULT, NEVER, TIMER, LinkTable, Message
from brokers.errors import ProtocolFault
from brokers.faults import CLOSED, LINK_DOWN, LINK_UP, OPENED, RESTART
from brokers.node import Node, link_between
from brokers.out import TYPE_MAX
from topology.numbers import Numbers

CLOSE, OPEN = TYPE_MAX - 1, TYPE_MAX  # types of messages between adaptors, which no protocol sees
LOOK = TYPE_MAX  # type of a timer of theirs: whether the other end is down, or up again


class ToldDown(NamedTuple):
    """When brokers count as down for who has a described link to them."""

    of: Callable[[int], list[tuple[int, int]]]  # by broker: from when to when
    detect_ns: int

    def soonest(self, broker: int, time: int, down: bool) -> int:
        """When who looks at a time is told that a broker is `down`, or up; it takes as long as it does to notice."""
        at = time + self.shortest_ns
        for begin, end in self.of(broker):
            if down and at < end:
                return max(begin, at)
            if begin <= at < end:
                at = end
        return NEVER if down else at

    @property
    def shortest_ns(self) -> int:
        return max(1, self.detect_ns)


class Latent(NamedTuple):
    """The latent links of an overlay."""

    links: LinkTable  # all links that are listed, latent or not
    mask: NDArray[np.bool_]  # by directed link
    most: int  # that a broker may have open at once; 0: any number
    brokers: int
    numbers: Numbers | None  # of links that are described; None: there are none
    told: ToldDown | None  # of those; None: nobody is told of any

    @classmethod
    def of(cls, overlay: Any, links: LinkTable, told: ToldDown | None) -> Latent | None:
        """Those of an overlay; None if it has none."""
        if not overlay.has_latent:
            return None
        mask = np.zeros(links.source.size, np.bool_) if overlay.latent is None else np.repeat(overlay.latent, 2)
        numbers = overlay.numbers if overlay.described is not None else None
        return cls(links, mask, overlay.open_most, overlay.brokers, numbers, None if numbers is None else told)


class Candidates:
    """The described links of a broker, in order of the brokers that they lead to; none is listed."""

    __slots__ = ("_broker", "_brokers", "_known", "_numbers")

    def __init__(self, numbers: Numbers, broker: int, brokers: int, known: frozenset[int]) -> None:
        """`known`: to whom it has a link already."""
        self._numbers = numbers
        self._broker = broker
        self._brokers = brokers
        self._known = known | {broker}

    def to(self, other: int) -> int:
        """The link to another broker; -1 if there is none."""
        there = 0 <= other < self._brokers and other not in self._known
        return int(self._numbers.of(self._broker, other)) if there else -1

    def __contains__(self, link: int) -> bool:
        return link >= self._numbers.first and self.to(self._numbers.target(link)) == link

    def __iter__(self) -> Iterator[int]:
        return (link for other in range(self._brokers) if (link := self.to(other)) >= 0)

    def __len__(self) -> int:
        return self._brokers - len(self._known)


class OpeningNode(Node):
    """A broker that may open links."""

    __slots__ = ("_links", "_most", "_numbers", "_open", "_standing", "_told", "_watches", "latent")

    def __init__(self, latent: Latent, watches: bool, *more: Any) -> None:
        super().__init__(*more)
        table = latent.links
        mine = table.out_link[table.out_start[self.broker] : table.out_start[self.broker + 1]]
        listed: tuple[int, ...] = tuple(mine[latent.mask[mine]].tolist())
        self._numbers, self._told = latent.numbers, latent.told
        self.latent: tuple[int, ...] | Candidates = listed  # by neighbour
        if latent.numbers is not None:
            known = frozenset(table.target[mine].tolist())
            self.latent = Candidates(latent.numbers, self.broker, latent.brokers, known)
        self._links, self._standing = table, frozenset(self.links)
        self._most = latent.most
        # Of each that is open, when it is looked next whether the other end is down, or if it is, below 0 whether it is
        # up; 0: never.
        self._open: dict[int, int] = {}
        self._watches = watches

    @property
    def opened(self) -> tuple[int, ...]:
        """The latent links that are open, in the order in which they were opened."""
        return tuple(self._open)

    def neighbour(self, link: int) -> int:
        if self._numbers is not None and link >= self._numbers.first:
            return int(self._numbers.target(link))
        return super().neighbour(link)

    def link_to(self, broker: int) -> int:
        if self._numbers is None:
            return link_between(self._links, self.broker, broker)
        found = super().link_to(broker)
        return found if found >= 0 else self.latent.to(broker)  # type: ignore[union-attr]

    def watched(self, link: int) -> bool:
        """Whether this broker is told that a link is down, and up again, while it is closed too."""
        return link in self._standing or (self._watches and self._numbers is None)

    def stands(self, link: int) -> bool:
        return link in self._standing

    def open(self, message: Message, link: int) -> bool:
        """Open a latent link of this broker, if it is not open; False if it has as many open as it may."""
        self._check(link)
        if link in self._open:
            return True
        if not self._may_open():
            return False
        self._look_later(message, link)
        super().send(message, link, OPEN, cause=-1)
        return True

    def close(self, message: Message, link: int) -> None:
        """Close a latent link of this broker, if it is open."""
        self._check(link)
        if link in self._open:
            super().send(message, link, CLOSE, cause=-1)
            del self._open[link]

    def forward(self, message: Message, link: int) -> None:
        self._refuse_closed(link)
        super().forward(message, link)

    def send(self, message: Message, link: int, *more: Any, **named: Any) -> None:
        self._refuse_closed(link)
        super().send(message, link, *more, **named)

    def _may_open(self) -> bool:
        return not self._most or len(self._open) < self._most

    def _check(self, link: int) -> None:
        if link not in self.latent:
            shown = ", ".join(map(str, self.latent)) if isinstance(self.latent, tuple) else "one to every other broker"
            raise ProtocolFault(f"link {link} is no latent link of broker {self.broker}, which has {shown or 'none'}")

    def _refuse_closed(self, link: int) -> None:
        if link not in self._open and link in self.latent:
            raise ProtocolFault(f"link {link} of broker {self.broker} is closed; node.open it before sending over it")

    # ---- what adaptors tell it -----------------------------------------------------------------------

    def heard(self, message: Message) -> Message | None:
        """What a protocol is told of a message or a fault; None if it is told nothing."""
        link = message.link
        if message.kind == FAULT:
            if message.type in (OPENED, CLOSED):
                return self._became(message, message.type == OPENED, message)
            known = self._watches or message.type == RESTART or link not in self.latent or link in self._open
            return message if known or message.type not in (LINK_DOWN, LINK_UP) else None
        if message.kind == TIMER:
            return self._look(message) if message.type == LOOK and self._told is not None else message
        if message.type not in (OPEN, CLOSE):
            return message
        opened = message.type == OPEN
        if opened and link not in self._open and not self._may_open():
            super().send(message, link, CLOSE, cause=-1)
            return None
        told = message._replace(kind=FAULT, type=OPENED if opened else CLOSED, word=0, body=-1)
        return self._became(message, opened, told)

    def _became(self, message: Message, opened: bool, told: Message) -> Message | None:
        """A link is open now, or closed; told if that is new."""
        if opened == (message.link in self._open):
            return None
        if opened:
            self._look_later(message, message.link)
        else:
            del self._open[message.link]
        return told

    # ---- described links: whether the other end is down ----------------------------------------------

    def _look_later(self, message: Message, link: int, down: bool = False) -> None:
        """Note that a link is open, whose other end counts as up or `down`, and look again when that changes."""
        self._open[link] = 0
        if self._told is None:
            return
        at = self._told.soonest(self.neighbour(link), message.time, not down)
        self._open[link] = -at if down else at
        if at < self.env.duration_ns:
            self.timer(message, at - message.time, LOOK, link, cause=-1)

    def _look(self, message: Message) -> Message | None:
        """The time has come to look at a link; nothing if it was closed since."""
        link = message.word
        down = self._open.get(link, 0) < 0
        if not 0 < abs(self._open.get(link, 0)) <= message.time:
            return None
        self._look_later(message, link, down=not down)
        return message._replace(kind=FAULT, type=LINK_UP if down else LINK_DOWN, link=link, word=link, body=-1)

    # ---- checkpoints ---------------------------------------------------------------------------------

    def opened_state(self) -> list[int]:
        """Of each link that is open its number, and when it is looked at."""
        return [each for entry in self._open.items() for each in entry]

    def load_opened(self, opened: list[int]) -> None:
        """Take over which were open."""
        for link, at in zip(opened[::2], opened[1::2]):
            self._check(link)
            self._open[link] = at


__all__ = ["Latent", "OpeningNode", "ToldDown"]
