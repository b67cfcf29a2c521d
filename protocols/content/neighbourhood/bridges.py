"""Bridges: how two brokers whose neighbours between them are down deal with each other directly.

    GREET   let us begin: in which life of the bridge I am, whether I want it, how far your streams have come here,
            and, where I want to know who wants what on your side, a sum of what I know of it
    SIDE    all interests on my side, or the next that begins or ends there
    LEAVE   I need the bridge no more

Rules:
- Who takes those between for down opens the link and greets until it is answered. Whoever is greeted greets back, and
  either end sends what is wanted behind the other: what is not acknowledged yet, and what comes.
- What is asked for behind the other end both know by the tables of their neighbours, with the brokers on its last
  hops. What these had not passed on when they went down, or has changed since, is told by SIDE where sums differ.
- That is a *hint*: the tables of neighbours stay what they are. A hint holds until the neighbour is up again, or says
  itself how the interest stands; then what it said last counts.
- A bridge is there while either end wants it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from brokers.contract import Message
from protocols.content.neighbourhood.surroundings import Surroundings
from protocols.content.reliable.agreeing import LOCAL, NO_CAUSE, is_due, plain
from protocols.content.reliable.broker import DECIDE, HAND_NS, TOLD_AGAIN, Reliable
from protocols.content.reliable.streams import Stream

GREET, SIDE, LEAVE = range(TOLD_AGAIN + 1, TOLD_AGAIN + 4)
BRIDGED = frozenset({GREET, SIDE, LEAVE})  # what is said about bridges
_NEVER = -1  # in place of a life of a bridge
_PRIME = (1 << 61) - 1  # sums are taken modulo it


@dataclass
class Bridge:
    """What stands between a broker and another, over brokers that are down."""

    broker: int
    towards: int  # the link of the tree that leads there
    life: int  # when this end began it
    mine: bool = False  # whether this end wants it
    theirs: bool = False
    met: int = _NEVER  # the life of the other end
    beats: int = 0  # since it was greeted
    serves: bool = False  # whether what is wanted behind it is sent over it
    # The other side's interests, as they are here.
    heard: int = 0  # the number of the last SIDE
    whole: bool = False  # whether it told all of them
    passed_over: set[int] = field(default_factory=set)  # of which the neighbour itself has told meanwhile
    deaf: bool = False  # it has told of all of them
    # This side's, as the other end wants to know them.
    asked: bool = False
    owed: bool = False
    told: int = 0


class Bridging(Reliable):
    """A broker that bridges over those that it takes for down."""

    node: Any
    opens = True
    watches = True
    frugal = False  # while it bridges, some get a publication by two ways
    keeps = (Bridge,)
    remade = ("around",)

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.around = Surroundings(node, self.routes, node.options.delta + 1)
        self.down: set[int] = set()
        self.wanted: dict[int, int] = {}  # link -> the broker beyond those that are down
        self.bridges: dict[int, Bridge] = {}  # by link
        self.hops: dict[int, tuple[int, ...]] = {}  # interest -> the brokers on its last hops, the nearest first
        # By link of the tree: interest -> [row, hops] as the neighbour told it, or None, where a hint says otherwise.
        self.hinted: dict[int, dict[int, Any]] = {}

    # ---- who is down ---------------------------------------------------------------------------------

    def take_for(self, message: Message, link: int, down: bool) -> None:
        """A broker is down, or up again; bridge over who is down."""
        broker = self.node.neighbour(link)
        (self.down.add if down else self.down.discard)(broker)
        if down:
            if link in self.bridges:
                self._break_off(message, link)
            self._close(message, link)
        if link in self.ways and not down:
            self._take_back(message, link)
        self.wanted = {
            self.around.links[other]: other
            for other in self.around.beyond(self.down)
            if other in self.around.links
        }
        for other, bridge in list(self.bridges.items()):
            if bridge.mine and other not in self.wanted:
                self._leave(message, other)
        for other in self.wanted:
            self._begin(message, other)

    def _begin(self, message: Message, link: int) -> None:
        before = self.bridges.get(link)
        if before is not None and before.mine:
            return
        if before is not None:
            self._stop_serving(message, link)
        bridge = self._bridge(message, link)
        bridge.mine = True
        self._greet(message, link)
        self.keep_beating(message)

    def _bridge(self, message: Message, link: int) -> Bridge:
        broker = self.node.neighbour(link)
        towards = self.around.links[self.around.ways[broker][0]]
        bridge = self.bridges[link] = Bridge(broker, towards, message.time)
        return bridge

    def _reach(self, message: Message, link: int) -> bool:
        """Have a link open; False where the broker has as many open as it may."""
        latent = link in getattr(self.node, "latent", ())
        return not latent or bool(self.node.open(message, link))

    def _break_off(self, message: Message, link: int) -> None:
        """Forget what stood between the two; who wants the bridge begins again."""
        before = self.bridges.pop(link)
        self._stop_serving(message, link)
        if before.mine and link in self.wanted and before.broker not in self.down:
            self._bridge(message, link).mine = True
            self.keep_beating(message)

    def _leave(self, message: Message, link: int) -> None:
        bridge = self.bridges[link]
        bridge.mine = False
        if bridge.met != _NEVER and self._reach(message, link):
            self.node.send(message, link, LEAVE, {"life": bridge.life}, cause=NO_CAUSE)
        if not bridge.theirs:
            self._end(message, link)

    def _end(self, message: Message, link: int) -> None:
        del self.bridges[link]
        self._stop_serving(message, link)
        self._close(message, link)

    def _close(self, message: Message, link: int) -> None:
        if link in getattr(self.node, "latent", ()):
            self.node.close(message, link)

    def was_closed(self, message: Message, link: int) -> None:
        """The other end, or the schedule, has closed a link."""
        if link in self.bridges:
            self._break_off(message, link)

    def greet_again(self, message: Message) -> None:
        """The others may have taken this broker for down, and forgotten it."""
        for link, bridge in list(self.bridges.items()):
            self._stop_serving(message, link)
            self.bridges[link] = Bridge(bridge.broker, bridge.towards, message.time, mine=bridge.mine)
            self._greet(message, link)

    # ---- what is said --------------------------------------------------------------------------------

    def bridge_said(self, message: Message) -> None:
        """Handle what the other end of a bridge says about it."""
        said, link = self.node.body(message), message.link
        if message.type == GREET:
            self._greeted(message, link, said)
            return
        bridge = self.bridges.get(link)
        if bridge is None:
            return
        if message.type == SIDE:
            self._side_came(message, bridge, said)
        elif said["life"] == bridge.met:
            bridge.theirs = False
            if not bridge.mine:
                self._end(message, link)

    def _greet(self, message: Message, link: int) -> None:
        if not self._reach(message, link):
            return
        bridge = self.bridges[link]
        asks = bridge.mine and self.node.neighbour(bridge.towards) in self.down
        streams = [stream for stream in self.streams.values() if self._leads_up(bridge, stream)]
        self.node.send(message, link, GREET, {
            "life": bridge.life, "yours": bridge.met, "wants": bridge.mine, "asks": asks,
            "known": self._sum(self._behind(bridge.broker)) if self.ways[bridge.towards].whole else None,
            "streams": [[stream.of, stream.done, stream.doubt] for stream in streams],
        }, cause=NO_CAUSE)  # fmt: skip

    def _greeted(self, message: Message, link: int, said: Any) -> None:
        if self.node.neighbour(link) not in self.around.ways or not self._reach(message, link):
            return
        bridge = self.bridges.get(link)
        if bridge is None and not said["wants"] and link not in self.wanted:  # an answer that nobody waits for
            self.node.send(message, link, LEAVE, {"life": said["yours"]}, cause=NO_CAUSE)
            self._close(message, link)
            return
        if bridge is None:
            bridge = self._bridge(message, link)
            bridge.mine = link in self.wanted
        if bridge.met != said["life"]:
            self._stop_serving(message, link)
            bridge.serves, bridge.met = False, said["life"]
        bridge.theirs, bridge.asked, bridge.told = said["wants"], said["asks"], 0
        bridge.owed = bridge.asked and said["known"] != self._sum(self._on_this_side(bridge))
        if said["yours"] != bridge.life:
            self._greet(message, link)
        if not bridge.mine and not bridge.theirs:
            self._end(message, link)
            return
        self._tell_side(message, link, bridge)
        self._serve(message, link, bridge)
        for of, done, doubt in said["streams"]:
            stream = self.streams.get(of)
            if stream is not None:
                self.acknowledged(message, stream, link, done, doubt)
        for stream in self.streams.values():
            if self._leads_up(bridge, stream):
                self.ask_again(message, stream)

    # ---- who wants what ------------------------------------------------------------------------------

    def said_of(self, id: int, row: Any) -> Any:
        return {"row": plain(row), "hops": list(self.hops[id])}

    def heard_of(self, id: int, said: Any, link: int) -> Any:
        way = self.around.ways[self.node.neighbour(link)]
        self.hops[id] = (*way, *said["hops"])[: self.node.options.delta + 1]
        return said["row"]

    def alter(self, message: Message, id: int, row: Any, via: int) -> None:
        before = self.came_by.get(id, set())
        self.hops.setdefault(id, ())
        super().alter(message, id, row, via)
        after = self.came_by.get(id, set())
        for link, bridge in self.bridges.items():
            if bridge.asked and not bridge.owed and bool(before - {bridge.towards}) != bool(after - {bridge.towards}):
                self._say_side(message, link, bridge, [[id, None if row is None else self.said_of(id, row)]])
        if not after:
            del self.hops[id]

    def _behind(self, broker: int) -> Iterable[int]:
        """The interests that live at a broker around, or behind it."""
        return (id_ for id_, hops in self.hops.items() if broker in hops)

    def _on_this_side(self, bridge: Bridge) -> Iterable[int]:
        return (id_ for id_, came_by in self.came_by.items() if came_by - {bridge.towards})

    @staticmethod
    def _sum(ids: Iterable[int]) -> list[int]:
        """By which sets of interests are told apart."""
        count, total = 0, 0
        for id_ in ids:
            count, total = count + 1, (total + id_ * id_ * id_) % _PRIME
        return [count, total]

    def _tell_side(self, message: Message, link: int, bridge: Bridge) -> None:
        """Tell all interests on this side, where they are asked for and known."""
        others = (neighbour for way, neighbour in self.ways.items() if way != bridge.towards)
        if bridge.owed and self.told_again and all(neighbour.whole for neighbour in others):
            bridge.owed = False
            here = sorted(self._on_this_side(bridge))
            every = [[id_, self.said_of(id_, self.node.table.interest(id_)[1])] for id_ in here]
            self._say_side(message, link, bridge, every, all=True)

    def _say_side(self, message: Message, link: int, bridge: Bridge, said: list[Any], all: bool = False) -> None:
        bridge.told += 1
        body = {"life": bridge.met, "number": bridge.told, "all": all, "interests": said}
        self.node.send(message, link, SIDE, body)

    def tell_sides(self, message: Message) -> None:
        """More is known of this side."""
        for link, bridge in self.bridges.items():
            self._tell_side(message, link, bridge)

    def _side_came(self, message: Message, bridge: Bridge, said: Any) -> None:
        if said["life"] != bridge.life or self.node.neighbour(bridge.towards) not in self.down:
            return
        if not said["all"] and said["number"] != bridge.heard + 1:
            if said["number"] > bridge.heard:  # something was lost: from the beginning
                bridge.life, bridge.heard = message.time, 0
                self._greet(message, message.link)
            return
        bridge.heard = said["number"]
        told = dict(said["interests"])
        if said["all"]:
            gone = [id_ for id_ in self._behind(bridge.broker) if id_ not in told]
            told |= dict.fromkeys(sorted(gone))
        for id_, each in told.items():
            if not bridge.deaf and id_ not in bridge.passed_over:
                self._hint(message, bridge, id_, each)
        if said["all"] and not bridge.whole:
            bridge.whole = True
            self._serve(message, message.link, bridge)

    def _hint(self, message: Message, bridge: Bridge, id: int, said: Any) -> None:
        link = bridge.towards
        stood = link in self.came_by.get(id, ())
        if stood == (said is not None):
            return
        hinted = self.hinted.setdefault(link, {})
        if id in hinted:
            del hinted[id]  # as the neighbour told it
        else:
            hinted[id] = [plain(self.node.table.interest(id)[1]), self.hops[id]] if stood else None
        row = None if said is None else self.heard_of(id, said, message.link)
        self.alter(message, id, row, link)

    def _take_back(self, message: Message, link: int) -> None:
        """A neighbour speaks for itself again: what it said last counts."""
        for id_, said in self.hinted.pop(link, {}).items():
            if said is None:
                self.alter(message, id_, None, link)
            else:
                row, self.hops[id_] = said
                self.alter(message, id_, row, link)
        for over, bridge in self.bridges.items():
            if bridge.towards == link:
                bridge.whole = False
                if bridge.serves and not self.ways[link].whole:
                    bridge.serves = False
                    self._stop_serving(message, over)

    def heard_from(self, link: int, id: int | None = None) -> None:
        if id is None:
            self.hinted.pop(link, None)
        else:
            self.hinted.get(link, {}).pop(id, None)
        for bridge in self.bridges.values():
            if bridge.towards == link:
                bridge.deaf |= id is None
                if id is not None:
                    bridge.passed_over.add(id)

    # ---- publications --------------------------------------------------------------------------------

    def knows(self, link: int) -> bool:
        if link in self.ways:
            return super().knows(link)
        bridge = self.bridges.get(link)
        return bridge is not None and bridge.serves

    def reaches(self, link: int) -> bool:
        return self.node.neighbour(link) not in self.down

    def above(self, stream: Stream) -> list[int]:
        met = (link for link, bridge in self.bridges.items() if bridge.met != _NEVER)
        over = [link for link in met if self._leads_up(self.bridges[link], stream)]
        return [stream.up, *over] if self.reaches(stream.up) or not over else over

    def _leads_up(self, bridge: Bridge, stream: Stream) -> bool:
        """Whether the broker at the other end is on the way to the publisher of a stream."""
        return bridge.towards == stream.up != LOCAL and bridge.broker in self.around.trail(stream.of)

    def away(self, stream: Stream) -> Iterator[int]:
        yield from super().away(stream)
        yield from (link for link, each in self.bridges.items() if each.serves and each.towards != stream.up)

    def leading_to(self, interests: Iterable[int]) -> set[int]:
        if not self.bridges:
            return super().leading_to(interests)
        matched = list(interests)
        near: set[int] = set().union(*(self.hops[id_] for id_ in matched))
        over = {link for link, bridge in self.bridges.items() if bridge.broker in near}
        return super().leading_to(matched) | over

    def _serve(self, message: Message, link: int, bridge: Bridge) -> None:
        """Send over a bridge what waits for the neighbour that is down; each as an event of its publication."""
        if bridge.serves or bridge.met == _NEVER or not (self.ways[bridge.towards].whole or bridge.whole):
            return
        bridge.serves = True
        for stream in self.streams.values():
            ticks = list(stream.pending.get(bridge.towards, ()))
            if stream.up == bridge.towards or not ticks:
                continue
            stream.pending[link], stream.undecided[link] = ticks, list(ticks)
            for tick in ticks:
                stream.waiting[tick] += 1
                self.node.timer(message, HAND_NS, DECIDE, tick, cause=NO_CAUSE, body=stream.bodies[tick])

    def _stop_serving(self, message: Message, link: int) -> None:
        for stream in self.streams.values():
            self.release(message, stream, stream.pending.pop(link, []))
            for known in (stream.undecided, stream.has, stream.first, stream.stuck):
                known.pop(link, None)
            if link in stream.curious:
                stream.curious.remove(link)

    def became_whole(self, message: Message, link: int) -> None:
        super().became_whole(message, link)
        self.tell_sides(message)
        for over, bridge in self.bridges.items():
            if bridge.towards == link:
                self._serve(message, over, bridge)

    def acknowledged(self, message: Message, stream: Stream, link: int, done: int, doubt: int) -> None:
        if link in self.ways:
            super().acknowledged(message, stream, link, done, doubt)
        elif self.knows(link):
            had = [tick for tick in stream.pending.get(link, ()) if tick < done]
            super().acknowledged(message, stream, link, done, doubt)
            self._confirmed(message, stream, self.bridges[link].towards, had)

    def _confirmed(self, message: Message, stream: Stream, link: int, ticks: list[int]) -> None:
        """Let go of those that all beyond a neighbour that is down have, and that nobody in between wants."""
        if not ticks or self.reaches(link) or not self.ways[link].whole:
            return
        over = {each for each, bridge in self.bridges.items() if bridge.towards == link}
        beyond = {self.bridges[each].broker for each in over if self.bridges[each].serves}
        wait = set().union(*(stream.pending.get(each, ()) for each in over), stream.undecided.get(link, ()))
        kept, done = set(stream.pending.get(link, ())), set()
        for tick in ticks:
            if tick in wait or tick not in kept:
                continue
            matched = self.node.table.match(stream.bodies[tick].handle)
            behind = [id_ for id_ in matched if link in self.came_by[id_]]
            if not any(beyond.isdisjoint(self.hops[id_]) for id_ in behind):
                done.add(tick)
        if done:
            stream.pending[link] = [tick for tick in stream.pending[link] if tick not in done]
            self.release(message, stream, sorted(done))

    # ---- time and again ------------------------------------------------------------------------------

    def remind(self, message: Message) -> bool:
        waits = super().remind(message)
        for link, bridge in self.bridges.items():
            lacks = bridge.mine and not (bridge.whole or self.ways[bridge.towards].whole)
            if bridge.met == _NEVER or lacks:
                waits = True
                bridge.beats += 1
                if is_due(bridge.beats):
                    self._greet(message, link)
        return waits


__all__ = ["BRIDGED", "GREET", "LEAVE", "LOCAL", "SIDE", "Bridge", "Bridging"]
