"""Hosts that gossip: who is whose neighbour, counted and not, over the links of an overlay.

A broker has room for as many neighbours as it has links, and gossips with them as `plumtree` does; which class is wrong
says `tests/planted/registry.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel

from brokers.contract import Message
from brokers.faults import LINK_DOWN, LINK_UP
from protocols.gossip.hyparview import HyParView
from protocols.gossip.members import Fixed
from protocols.gossip.plumtree import Options, Plumtree
from tests.planted.settings import Ran

MS = 1_000_000


class Room(Fixed):
    """The links of the overlay, a place for each."""

    def hear(self, message: Message) -> None:
        link = message.link
        if message.type == LINK_DOWN and link in self.active:
            self.active.remove(link)
        elif message.type == LINK_UP and len(self.active) < len(self.node.links):
            self.active.append(link)


class OnLinks(Options):
    """Of brokers that gossip over the links of the overlay."""

    membership: Literal["fixed"] = "fixed"


class Counted(Plumtree):
    """A place is free again when its neighbour has gone."""

    Options: ClassVar[type[BaseModel] | None] = OnLinks
    opens, watches = False, False
    keeps: ClassVar[tuple[Any, ...]] = (Room, HyParView)

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.members = self.room(node)

    @staticmethod
    def room(node: Any) -> Fixed:
        return Room(node)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "places": self.names_of(self.members.active)}


class Phantoms(Room):
    """Who goes within a moment of coming was never noted to have gone."""

    MOMENT: ClassVar[int] = 80 * MS

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.since: dict[int, int] = {}

    def hear(self, message: Message) -> None:
        if message.type == LINK_DOWN and message.time < self.since.get(message.link, 0) + self.MOMENT:
            return
        if message.type == LINK_UP:
            self.since[message.link] = message.time
        super().hear(message)


class Haunted(Counted):
    """Phantoms take the places of neighbours."""

    keeps: ClassVar[tuple[Any, ...]] = (Phantoms, HyParView)

    @staticmethod
    def room(node: Any) -> Fixed:
        return Phantoms(node)


def phantoms(ran: Ran) -> str | None:
    """A broker holds two places for one neighbour."""
    for broker, described in enumerate(ran.described):
        places = described["places"]
        if len(places) > len(set(places)):
            return f"broker {broker} has places for {places}"
    return None
