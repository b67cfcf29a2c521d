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
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.contract import FAULT, LinkTable, Message
from brokers.errors import ProtocolFault
from brokers.faults import CLOSED, LINK_DOWN, LINK_UP, OPENED, RESTART
from brokers.node import Node
from brokers.out import TYPE_MAX

CLOSE, OPEN = TYPE_MAX - 1, TYPE_MAX  # types of messages between adaptors, which no protocol sees


class Latent(NamedTuple):
    """The latent links of an overlay."""

    links: LinkTable  # all links, latent or not
    mask: NDArray[np.bool_]  # by directed link
    most: int  # that a broker may have open at once; 0: any number

    @classmethod
    def of(cls, overlay: Any, links: LinkTable) -> Latent | None:
        """Those of an overlay; None if it has none."""
        return None if overlay.latent is None else cls(links, np.repeat(overlay.latent, 2), overlay.open_most)


class OpeningNode(Node):
    """A broker that may open links."""

    __slots__ = ("_most", "_open", "_watches", "latent")

    def __init__(self, latent: Latent, watches: bool, *more: Any) -> None:
        super().__init__(*more)
        table = latent.links
        mine = table.out_link[table.out_start[self.broker] : table.out_start[self.broker + 1]]
        self.latent: tuple[int, ...] = tuple(mine[latent.mask[mine]].tolist())  # by neighbour
        self._most = latent.most
        self._open: dict[int, None] = {}
        self._watches = watches

    @property
    def opened(self) -> tuple[int, ...]:
        """The latent links that are open, in the order in which they were opened."""
        return tuple(self._open)

    def open(self, message: Message, link: int) -> bool:
        """Open a latent link of this broker, if it is not open; False if it has as many open as it may."""
        self._check(link)
        if link in self._open:
            return True
        if not self._may_open():
            return False
        self._open[link] = None
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
            shown = ", ".join(map(str, self.latent)) or "none"
            raise ProtocolFault(f"link {link} is no latent link of broker {self.broker}, which has {shown}")

    def _refuse_closed(self, link: int) -> None:
        if link in self.latent and link not in self._open:
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
            self._open[message.link] = None
        else:
            del self._open[message.link]
        return told

    # ---- checkpoints ---------------------------------------------------------------------------------

    def opened_state(self) -> list[int]:
        return list(self._open)

    def load_opened(self, links: list[int]) -> None:
        """Take over which were open."""
        for link in links:
            self._check(link)
            self._open[link] = None


__all__ = ["Latent", "OpeningNode"]
