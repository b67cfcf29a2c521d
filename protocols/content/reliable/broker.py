"""Reliable delivery: what a live broker accepted reaches everybody who wants it, once and in order, through crashes.

After Gryphon (Bhola et al., DSN 2002). Rules:
- Brokers stand on one tree. What the clients of a broker publish is a stream of ticks that flows away from that broker.
  Only it logs, in its store, and for as long as not everybody has acknowledged; all others keep what they know in
  memory (`streams.py`).
- A publication goes over a link if somebody behind it wants it. It carries its tick, and from where on all before it is
  final there, so that a receiver sees at once what it lacks.
- What a broker knows to exist and does not know it asks for above, once for all behind it, and again after a while. Who
  has it answers, from whatever is kept there.
- A broker acknowledges up to where everything is final for all behind it. Whoever does not acknowledge for a while is
  told what is final and how far the stream goes (KNOWLEDGE): so a loss at the end of a stream is noticed.
- A client's broker delivers what is before the doubt horizon, in order, and stores how far it has come.
- Brokers agree on who wants what whatever is lost (`agreeing.py`), and filter by whole tables only. What comes while a
  table is not whole is kept for its link until it is.
- A broker that lost what it knew knows nothing of any stream. KNOWLEDGE comes of what those above keep for it, and it
  asks.

Theory. Of what a client has to get, each broker from the log down to the client either keeps it, or lacks it and knows
so or will be told; it never takes it for final, since it filters by tables that have the client's interest. So it stays
in the log until the client has got it, and each hop tries again until it is acknowledged. Ticks are counted, not timed:
between two of them there is nothing to be silent about.

A broker that lost its store lost its log and how far its clients had come. It numbers on from the time of its restart,
which no tick has reached. And a delivery that a broker had begun when it crashed is lost: clients acknowledge nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import exp
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from brokers.contract import TIMER, Demand, Guarantees, Message
from brokers.errors import InvalidInput
from brokers.faults import KEPT, LINK_UP, RESTART
from brokers.promises import RELIABLE
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from protocols.content.reliable.agreeing import BEAT, LOCAL, NO_CAUSE, TABLES, Agreeing, is_due
from protocols.content.reliable.ranges import Ranges
from protocols.content.reliable.streams import Stream
from protocols.expected import to_all, to_wanted
from topology.units import PositiveDuration

KNOWLEDGE, ACK, NACK, HAND, DECIDE, TOLD_AGAIN = range(BEAT + 1, BEAT + 7)
HAND_NS = 10_000  # after which what was held reaches its client, as an event of its own
_BACK_BITS = 14  # of the word of a publication: its tick, and how far before it all is final
TICKS_MOST = 1 << 63 - _BACK_BITS


class Options(BaseModel):
    """Options of `reliable`."""

    model_config = ConfigDict(extra="forbid")

    every: Annotated[
        PositiveDuration,
        Field(ge=1_000_000, description="how often a broker acknowledges, and says again what may have been lost"),
    ] = 100_000_000


class Reliable(Agreeing):
    """One broker."""

    kind: ClassVar[str] = "content"
    kinds: ClassVar[tuple[str, ...]] = ("content", "topics")
    guarantees: Guarantees = Guarantees(under_loss=True, under_faults=RELIABLE, heals_loss=True)
    Options: ClassVar[type[BaseModel] | None] = Options
    frugal: ClassVar[bool] = True
    resends: ClassVar[bool] = True
    timer_min_ns = HAND_NS
    keeps: ClassVar[tuple[Any, ...]] = (Stream, Ranges)

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        """Publications to who wants them, changes and what confirms them to all; ticks and what acknowledges."""
        every_s = demand.options.every / 1e9
        flows = 1 - exp(-float(demand.publications.sum()) * every_s)  # the share of such stretches in which anything
        ticks = flows * demand.overlay.brokers / every_s
        return to_wanted(demand, demand.share) + 2 * to_all(demand, demand.changes) + 2 * ticks

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        if node.env.forgetful and node.env.duration_ns >= TICKS_MOST:
            raise InvalidInput(
                "`reliable` numbers on from the time in nanoseconds where a broker lost its memory, and has numbers up "
                f"to 2^{63 - _BACK_BITS}: with such crashes `duration` is at most {TICKS_MOST / 86_400e9:.1f} days"
            )
        self.streams: dict[int, Stream] = {}  # publishing broker -> its stream

    def on_message(self, message: Message) -> None:
        if message.kind == TIMER:
            self._ring(message)
        elif message.type == PUBLISH:
            if message.link == LOCAL:
                self._accept(message)
            else:
                self._data_came(message)
        elif message.type == SUBSCRIBE:
            self.client_changes(message, self.node.row(message.body))
        elif message.type == UNSUBSCRIBE:
            self.client_changes(message, None)
        elif message.type == KNOWLEDGE:
            self._knowledge_came(message)
        elif message.type == ACK:
            self._was_acknowledged(message)
        elif message.type == NACK:
            self._was_asked(message)
        elif message.type in TABLES:
            self.agree(message)

    def _ring(self, message: Message) -> None:
        if message.type == BEAT:
            self._beat(message)
        elif message.type == HAND:
            self._hand(message)
        elif message.type == DECIDE:
            self._decide(message)
        elif message.type == TOLD_AGAIN:
            self.clients_told_again(message)
            for stream in self.streams.values():
                self._advance(message, stream)

    def on_fault(self, message: Message) -> None:
        if message.type == RESTART and message.word != KEPT:
            self.began_anew(message)
            self._take_up_log(message)
            self.node.timer(message, HAND_NS, TOLD_AGAIN)
        elif message.type == LINK_UP and message.link in self.ways:
            self._link_is_up(message)

    # ---- publications --------------------------------------------------------------------------------

    def _accept(self, message: Message) -> None:
        stream = self._stream_of(self.node.broker)
        tick = stream.head
        self._take(message, stream, tick, tick)
        if tick in stream.bodies:
            held = tick in stream.held
            self.node.store.put(message, _logged(tick), [tick, held, self.node.copy(message)])

    def _data_came(self, message: Message) -> None:
        stream = self._stream_of(self.node.origin(message))
        tick = message.word >> _BACK_BITS
        final_from = tick - (message.word & ((1 << _BACK_BITS) - 1))
        if tick in stream.known:
            stream.known.add(final_from, tick)
        else:
            self._take(message, stream, tick, final_from)
        self._learned(message, stream)

    def _take(self, message: Message, stream: Stream, tick: int, final_from: int) -> None:
        """Know a tick, and all since another; keep it for those who wait for it."""
        stream.known.add(final_from, tick + 1)
        stream.head = max(stream.head, tick + 1)
        matched = self.node.table.match(message.body)
        self.node.work(message, self.entries(), len(matched))
        leading = self.leading_to(matched)
        links = [link for link in self.away(stream) if link in leading or not self.knows(link)]
        is_new = tick >= stream.reached
        waits = stream.held or stream.doubt <= tick
        held = is_new and (not self.told_again or bool(waits and LOCAL in leading))
        if LOCAL in leading and is_new and not held:
            self._deliver(message, matched)
            if stream.up != LOCAL:  # there it is in the log that it was delivered
                self.node.store.put(message, _reached(stream.of), tick + 1)
        if links or held:
            stream.keep(tick, self.node.keep(message), links, held)
            self.keep_beating(message)
        for link in links:
            if self.knows(link) and self.reaches(link):
                self._pass_on(message, stream, link, tick)

    def _pass_on(self, message: Message, stream: Stream, link: int, tick: int) -> None:
        back = min(tick - stream.final_from(tick, link), (1 << _BACK_BITS) - 1)
        self.node.send(message, link, PUBLISH, stream.bodies[tick], tick << _BACK_BITS | back, cause=NO_CAUSE)

    def _deliver(self, message: Message, matched: list[int]) -> None:
        base = self.node.env.entity_base
        for client in sorted({(id_ >> 32) - base for id_ in matched if LOCAL in self.came_by[id_]}):
            self.node.deliver(message, client)

    def _hand(self, message: Message) -> None:
        """Give clients what was held for them."""
        stream = self.streams[self.node.origin(message)]
        tick = stream.held.pop(0)
        stream.handing -= 1
        self._deliver(message, self.node.table.match(message.body))
        self.node.store.put(message, _reached(stream.of), tick + 1)
        self.release(message, stream, [tick])

    # ---- what is known -------------------------------------------------------------------------------

    def _stream_of(self, publisher: int) -> Stream:
        stream = self.streams.get(publisher)
        if stream is None:
            here = self.node.broker
            up = LOCAL if publisher == here else self.routes.towards(here, publisher)
            reached = self.node.store.get(_reached(publisher), 0)
            stream = self.streams[publisher] = Stream(publisher, up, reached=reached)
        return stream

    def _learned(self, message: Message, stream: Stream) -> None:
        """Something was learned of a stream: clients may get more, and what is lacking is asked for."""
        self._advance(message, stream)
        for link in stream.curious:
            self._tell(message, stream, link)
        stream.curious = []
        self._ask(message, stream)
        if stream.open:
            self.keep_beating(message)

    def _advance(self, message: Message, stream: Stream) -> None:
        """What is held before the doubt horizon goes to clients, each as an event that stands for its publication."""
        while self.told_again and stream.handing < len(stream.held):
            tick = stream.held[stream.handing]
            if tick >= stream.doubt:
                return
            stream.handing += 1
            self.node.timer(message, HAND_NS, HAND, tick, cause=NO_CAUSE, body=stream.bodies[tick])

    def _ask(self, message: Message, stream: Stream) -> None:
        wanted = stream.to_ask() if stream.up != LOCAL else []
        if wanted:
            said = {"of": stream.of, "wanted": [list(span) for span in wanted]}
            above = self.above(stream)
            self.node.send(message, message.link if message.link in above else above[0], NACK, said, cause=NO_CAUSE)

    def _tell(self, message: Message, stream: Stream, link: int) -> None:
        """Say what is final behind a link, and how far the stream goes for those behind it."""
        ticks = stream.pending.get(link)
        end = ticks[-1] + 1 if ticks else stream.head
        final = [list(span) for span in stream.final_for(link, end)]
        said = {"of": stream.of, "final": final, "head": end}
        self.node.send(message, link, KNOWLEDGE, said, cause=NO_CAUSE)

    def _knowledge_came(self, message: Message) -> None:
        said = self.node.body(message)
        stream = self._stream_of(said["of"])
        for begin, end in said["final"]:
            stream.known.add(begin, end)
        stream.head = max(stream.head, said["head"])
        self._learned(message, stream)
        self.acknowledge(message, [stream])

    def acknowledge(self, message: Message, streams: list[Stream]) -> None:
        """Say how far these are done, to each neighbour above in one message."""
        said: dict[int, list[list[int]]] = {}
        for stream in streams:
            stream.acknowledged = stream.done
            for link in self.above(stream):
                said.setdefault(link, []).append([stream.of, stream.done, stream.doubt])
        for link, each in said.items():
            self.node.send(message, link, ACK, {"streams": each}, cause=NO_CAUSE)

    def _was_acknowledged(self, message: Message) -> None:
        for of, done, doubt in self.node.body(message)["streams"]:
            stream = self.streams.get(of)
            if stream is not None:
                self.acknowledged(message, stream, message.link, done, doubt)

    def acknowledged(self, message: Message, stream: Stream, link: int, done: int, doubt: int) -> None:
        """All behind a link have what is before `done`, and the broker there knows what is before `doubt`."""
        stream.has[link] = doubt
        self.release(message, stream, stream.acknowledge(link, done))

    def _was_asked(self, message: Message) -> None:
        """Send what is kept, say what is final, and remember who asked for what is not known here."""
        said = self.node.body(message)
        stream = self.streams.get(said["of"])
        if stream is None:
            return
        if not self.knows(message.link):
            return
        wanted = Ranges(said["wanted"])
        for tick in stream.pending.get(message.link, []):
            if tick in wanted and tick not in stream.undecided.get(message.link, ()):
                self._pass_on(message, stream, message.link, tick)
        self._tell(message, stream, message.link)
        if any(True for span in wanted for _ in stream.known.gaps(*span)) and message.link not in stream.curious:
            stream.curious.append(message.link)

    def release(self, message: Message, stream: Stream, ticks: list[int]) -> None:
        """So many fewer wait for these."""
        for tick in ticks:
            body = stream.release(tick)
            if body is not None:
                self.node.drop(body)
                if stream.up == LOCAL:
                    self.node.store.remove(message, _logged(tick))

    # ---- ways ----------------------------------------------------------------------------------------

    def above(self, stream: Stream) -> list[int]:
        """The links towards the publisher of a stream."""
        return [stream.up]

    def away(self, stream: Stream) -> Iterator[int]:
        """The links that lead away from it."""
        return (link for link in self.ways if link != stream.up)

    def leading_to(self, interests: Iterable[int]) -> set[int]:
        """The links behind which some of these interests live, and LOCAL where one is of a client here."""
        return set().union(*(self.came_by[id_] for id_ in interests))

    def knows(self, link: int) -> bool:
        """Whether it is known who wants what behind a link."""
        return self.ways[link].whole

    # ---- crashes and repairs -------------------------------------------------------------------------

    def _take_up_log(self, message: Message) -> None:
        """Go on with what is in the log, for all, and after all that was ever published here."""
        stream = self.streams[self.node.broker] = Stream(self.node.broker, LOCAL)
        reached = self.node.store.get(_reached(stream.of), 0)
        for name in list(self.node.store):
            if str(name).startswith(_LOG):
                tick, held, copy = self.node.store.get(name)
                held = held and tick >= reached
                if self.ways or held:
                    stream.keep(tick, self.node.revive(copy), list(self.ways), held)
                else:
                    self.node.store.remove(message, name)
        stream.head = message.time
        stream.known.add(0, stream.head)

    def became_whole(self, message: Message, link: int) -> None:
        """What was kept for a neighbour until now is decided on, each as an event that stands for its publication."""
        for stream in self.streams.values():
            stream.undecided[link] = list(stream.pending.get(link, []))
            for tick in stream.undecided[link]:
                self.node.timer(message, HAND_NS, DECIDE, tick, cause=NO_CAUSE, body=stream.bodies[tick])

    def _decide(self, message: Message) -> None:
        stream, tick = self.streams[self.node.origin(message)], message.word
        leading = self.leading_to(self.node.table.match(message.body))
        for link in [link for link, ticks in stream.undecided.items() if tick in ticks]:
            stream.undecided[link].remove(tick)
            if link in leading:
                self._pass_on(message, stream, link, tick)
            else:
                stream.pending[link].remove(tick)
                self.release(message, stream, [tick])

    def forgot(self, message: Message, link: int) -> None:
        for stream in self.streams.values():
            stream.has.pop(link, None)
            stream.stuck[link] = 0
            if stream.pending.get(link) and self.ways[link].whole:
                self._tell(message, stream, link)

    def _beat(self, message: Message) -> None:
        self.beating = False
        waits = self.remind(message)
        streams = [stream for stream in self.streams.values() if stream.open]
        self.acknowledge(message, [each for each in streams if each.up != LOCAL and each.done > each.acknowledged])
        for stream in streams:
            self._remind_of(message, stream)
        if waits or streams:
            self.keep_beating(message)

    def _remind_of(self, message: Message, stream: Stream) -> None:
        """Ask again, and tell whoever has not acknowledged for a while."""
        if stream.up != LOCAL:
            stream.beats += 1
            if is_due(stream.beats):
                self.ask_again(message, stream)
        for link, ticks in stream.pending.items():
            if ticks and self.knows(link) and self.reaches(link):
                had = stream.first.get(link) == ticks[0]
                stream.first[link], stream.stuck[link] = ticks[0], stream.stuck.get(link, 0) + 1 if had else 0
                lacks = stream.has.get(link, 0) <= ticks[-1]
                if had and is_due(stream.stuck[link] if lacks else stream.stuck[link] + 4):
                    self._tell(message, stream, link)

    def _link_is_up(self, message: Message) -> None:
        """Do at once what beats would come to do."""
        self.say_again(message, message.link)
        for stream in self.streams.values():
            if stream.up == message.link:
                self.ask_again(message, stream)
            elif stream.pending.get(message.link) and self.ways[message.link].whole:
                self._tell(message, stream, message.link)

    def ask_again(self, message: Message, stream: Stream) -> None:
        stream.asked = Ranges()
        self._ask(message, stream)

    # ---- what stands from the start, and what is shown -------------------------------------------------

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        here = self.node.broker
        way = LOCAL if broker == here else self.routes.towards(here, broker)
        self.came_by[id] = {way}
        self.known += 1
        self.node.table.add(id, client, row, None)

    def entries(self) -> int:
        return self.known

    def describe(self) -> dict[str, Any]:
        names = self.node.env.overlay.names
        behind = {link: names[self.node.neighbour(link)] for link in self.ways}
        return {
            "subscriptions": {
                str(id_): sorted("a client" if link == LOCAL else behind[link] for link in came_by)
                for id_, came_by in sorted(self.came_by.items())
            },
            "not_agreed_with": sorted(behind[link] for link, neighbour in self.ways.items() if neighbour.waits),
            "waited_for": {
                names[publisher]: sorted(stream.waiting)
                for publisher, stream in sorted(self.streams.items())
                if stream.waiting
            },
            "not_known": {
                names[publisher]: [list(gap) for gap in stream.gaps()]
                for publisher, stream in sorted(self.streams.items())
                if stream.gaps()
            },
        }


_LOG = "tick "


def _logged(tick: int) -> str:
    return f"{_LOG}{tick}"


def _reached(publisher: int) -> str:
    return f"reached in the stream of {publisher}"
