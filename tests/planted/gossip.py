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
from protocols.gossip.hyparview_flooding import HyParViewFlooding
from protocols.gossip.members import Fixed
from protocols.gossip.plumtree import Options, Plumtree
from tests.planted.settings import Ran

MS = 1_000_000


class Room(Fixed):
    """The links of the overlay, a place for each; who comes takes one, and gives it back when it goes."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.places: list[int] = list(self.active)

    def hear(self, message: Message) -> None:
        link = message.link
        if message.type == LINK_DOWN and link in self.active:
            self.active.remove(link)
            if self.gives_back(message):
                self.places.remove(link)
        elif message.type == LINK_UP and len(self.places) < len(self.node.links):
            self.active.append(link)
            self.places.append(link)

    def gives_back(self, message: Message) -> bool:
        return True


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
        self.members = self.rooms = self.room(node)

    @staticmethod
    def room(node: Any) -> Room:
        return Room(node)

    def describe(self) -> dict[str, Any]:
        places = {"taken": len(self.rooms.places), "neighbours": len(self.rooms.active)}
        return {**super().describe(), "places": places}


class Phantoms(Room):
    """Who goes within a moment of coming keeps its place."""

    MOMENT: ClassVar[int] = 500 * MS

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.since: dict[int, int] = {}

    def hear(self, message: Message) -> None:
        if message.type == LINK_UP:
            self.since[message.link] = message.time
        super().hear(message)

    def gives_back(self, message: Message) -> bool:
        return message.time >= self.since.get(message.link, 0) + self.MOMENT


class Haunted(Counted):
    """Phantoms take the places of neighbours."""

    keeps: ClassVar[tuple[Any, ...]] = (Phantoms, HyParView)

    @staticmethod
    def room(node: Any) -> Room:
        return Phantoms(node)


def phantoms(ran: Ran) -> str | None:
    """A broker has given more places than it has neighbours."""
    for broker, described in enumerate(ran.described):
        places, neighbours = described["places"].values()
        if places > neighbours:
            return f"broker {broker} has {neighbours} neighbours, and {places} places are taken"
    return None


# ---- 23: back-pressure turns into discovery --------------------------------------------------------------


class Views(HyParViewFlooding):
    """What finds no place in front of a link is lost, and that is all."""

    drops_told_ns = MS
    opens, watches = False, False


class Rediscovering(Views):
    """Takes a full queue for a neighbour that is gone: drops it, asks a spare one, and joins anew."""

    def on_drop(self, message: Message) -> None:
        members: Any = self.members
        if message.link in members.active or message.link in members.asked:
            members._gone(message, message.link)
            members.refused.discard(message.link)
        members._join(message)
