"""Windows in compiled code, where every protocol of a shard has a compiled handler.

`advance` goes on by itself until it is done or needs something that only Python can do: larger arrays, a trace written,
a message that a handler leaves to its protocol's `handle`. Then it is entered again.

Whether events are taken in rounds or one at a time is chosen by how full rounds are, and tried again from time to time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from brokers import compiled
from brokers.compiled import handler_of
from brokers.contract import Ints, ShardProtocol
from brokers.engine import advance as A
from brokers.engine import crossing as C
from brokers.engine import heads, settle
from brokers.engine import layout as L
from brokers.engine.collect import Sends, Timers
from brokers.engine.crossing import Crossing
from brokers.engine.forms import COMPILED, forms_of
from brokers.engine.gather import gather
from brokers.engine.model import Model
from brokers.engine.refusals import wrong_type
from brokers.errors import EndlessWalk, ProtocolFault
from brokers.records import Held

if TYPE_CHECKING:
    from brokers.engine.shard import Shard

_NOTHING = np.empty(0, np.int32)
_ANSWERS = 4096  # of handlers, before the loop is left to have them written down


def possible(protocols: Sequence[ShardProtocol]) -> bool:
    """Whether compiled code can carry the rounds of these protocols."""
    few = 0 < len(protocols) <= compiled.HANDLERS_MOST
    return few and all(handler_of(type(each)) is not None for each in protocols)


def will_be_compiled(model: Model) -> bool:
    """Whether that will be so for the protocols of a model, before any is set up."""
    forms = forms_of(model)
    return bool(forms) and all(form.name == COMPILED for form in forms)


class Stopped(Exception):
    """Another shard of the process failed."""


class Course:
    """Carries the windows of a shard through compiled code."""

    def __init__(self, shard: Shard, how: str) -> None:
        """`how`: "events" or "rounds" for always so, "auto" to choose."""
        self._shard = shard
        self._protocols = shard.services.protocols
        self._handlers = [handler for p in self._protocols if (handler := handler_of(type(p))) is not None]
        self._crew = compiled.Crew.of(self._handlers)
        self._blamed = shard.services.blamed
        self._chooses = how == "auto" and not shard.crowding.any
        self._thin = how != "rounds" and not shard.crowding.any  # where queues are limited, rounds see to it
        self._desks: list[Held] = []
        self._mine: list[Held] = []
        self._planted = False  # whether the winner tree stands
        self._coming: list[Ints] = []
        self.crossing: Crossing | None = None  # where the shard is one of several threads
        self._making = shard.services.bodies.making_of(shard.services.lane)
        shard.bench.speaking = any(handler.speaks for handler in self._handlers)
        shard.services.bodies.readable |= shard.bench.speaking
        shard.bench.reserve_answers(_ANSWERS, _ANSWERS, _ANSWERS if shard.bench.speaking else 0)
        shard.bench.course[L.WANTED] = shard.tracing.listening or shard.services.queueing

    # ---- what is on its way --------------------------------------------------------------------------

    def expect(self, rows: Ints) -> None:
        """These rows (of rings or inputs) are on their way."""
        if len(rows):
            self._coming.append(rows)

    def take_coming(self) -> list[Ints]:
        """What is expected, which is expected no more."""
        coming, self._coming = self._coming, []
        return coming

    def begin(self) -> None:
        """A window begins, and it is known what comes to it from outside."""
        self._planted = False
        if not self._coming:
            return
        rows = self._coming[0] if len(self._coming) == 1 else np.concatenate([r[:, : L.ROW] for r in self._coming])
        self._coming = []
        carried, word = rows[:, L.M_PACKED], rows[:, L.M_WORD]
        for number, protocol in enumerate(self._protocols):
            mine: Any = slice(None)
            if len(self._protocols) > 1:
                mine = np.flatnonzero((carried & 0xFF) == number)
                if not mine.size:
                    continue
            type_, body = (carried[mine] >> 8) & 0xFFFF, carried[mine] >> 24
            with self._blamed[number]:
                protocol.prepare(type_.astype(np.int32), word[mine], body.astype(np.int32), self._shard.now)

    def end(self) -> None:
        """The window is over."""
        for protocol, blamed in zip(self._protocols, self._blamed):
            with blamed:
                protocol.tidy()

    # ---- a window ------------------------------------------------------------------------------------

    def run(self, end: int) -> int:
        """Handle everything before `end`, which the window reaches at least; returns in how many rounds."""
        shard, course = self._shard, self._shard.bench.course
        rounds = 0
        while True:
            if self.crossing is not None:
                self.crossing.seen()
            world = shard.renew_world()
            self._lay_desk()
            if self._thin and not self._planted:
                heads.plant(world)
                self._planted = True
            began = int(course[L.ROUNDS])
            try:
                code = self._go(world, end)
            except EndlessWalk:
                raise
            except Exception as error:
                raise ProtocolFault(f"a compiled handler raised {type(error).__name__}: {error}") from error
            rounds += int(course[L.ROUNDS]) - began
            shard.listen(end)
            if code == A.DONE:
                break
            if code == A.FULL:
                self._write_down()
            elif code == A.ROOM:
                self._write_down()
                with self._alone() if self._makes_bodies() else nullcontext():
                    self._more_room()
            elif code in (A.RINGS, A.OUTBOX):
                self._more_on_links()
            elif code == A.OTHERWISE:
                self._change_over(self._until(end))
            elif code == A.PYTHON:
                with self._alone():
                    rounds += self._in_python(self._until(end))
            elif code == C.RING:
                shard.links.rings.reserve(course[L.WRONG : L.WRONG + 1].copy())
            elif code == C.STOPPED:
                raise Stopped
            elif code != C.RENEW:
                raise self._wrong(code)
        self._write_down()
        if self._thin:
            A.leave(world, end)
        return rounds

    def _go(self, world: Held, end: int) -> int:
        """On to `end`, or until something needs Python; returns why it stopped."""
        if self.crossing is None:
            code: int = A.advance(world, self._crew, end, self._thin)
            return code
        return self.crossing.travel(world, self._crew, end, self._thin)

    def _alone(self) -> AbstractContextManager[None]:
        """While no other shard of the process handles anything."""
        return nullcontext() if self.crossing is None else self.crossing.meeting.alone(self._shard.number)

    def _until(self, end: int) -> int:
        """Where the window under way ends."""
        return end if self.crossing is None else self.crossing.until

    def _lay_desk(self) -> None:
        """Show handlers the arrays that have taken the place of others."""
        if not self._mine:
            self._set_up_desks()
        for desk in self._desks:
            desk.renew()
        for protocol, mine, blamed in zip(self._protocols, self._mine, self._blamed):
            with blamed:
                mine.follow(protocol.columns())

    def _set_up_desks(self) -> None:
        """A desk for each set of links that services may use: none leads to another service's server."""
        bench, bodies = self._shard.bench, self._shard.services.bodies
        always = {
            **{name: bench.wide[row] for name, row in _WIDE.items()},
            **{name: bench.narrow[row] for name, row in _NARROW.items()},
            "cost": bench.cost, "cost_model": self._shard.services.cost_model, "answered": bench.answered,
            **{name: getattr(bench, name) for name in compiled.ANSWERS}, **compiled.body_columns(bodies),
            **self._making.columns(),
        }  # fmt: skip
        of_links: dict[int, Held] = {}
        for number, (protocol, handler) in enumerate(zip(self._protocols, self._handlers)):
            links = protocol.env.links
            if id(links) not in of_links:
                desk = of_links[id(links)] = compiled.DESK.of({**always, **compiled.network_columns(links)})
                desk.watch({
                    **{name: (bench, name) for name in compiled.ANSWERS}, **compiled.where_bodies_are(bodies),
                    **self._making.growing(),
                })  # fmt: skip
            bench.desks[number] = of_links[id(links)].address
            with self._blamed[number]:
                self._mine.append(handler.record.of(protocol.columns()))
            bench.mine[number] = self._mine[number].address
        self._desks = [*of_links.values()]

    # ---- what compiled code does not do --------------------------------------------------------------

    def _write_down(self) -> None:
        """Write what a trace wants of the rows that are settled, and clear them off the bench."""
        shard, bench, course = self._shard, self._shard.bench, self._shard.bench.course
        rows, laid = int(course[L.ROWS]), int(course[L.LAID])
        sends, delivered, lost = int(course[L.SENT]), int(course[L.DELIVERED]), int(course[L.LOST])
        shard.in_flight += int(course[L.MOVED])
        course[L.MOVED] = 0
        if shard.crowding.any:
            shard.write_drops()
        if rows == 0:
            return
        if delivered:
            event, client = bench.deliver_event[:delivered], bench.deliver_client[:delivered].copy()
            if shard.outages.any or shard.services.moving:
                fallen, told = event[client < 0], settle.for_whom(client[client < 0])
                shard.tracing.fallen(fallen, bench.narrow[L.N_BODY, fallen].astype(np.int64), *told)
                event, client = event[client >= 0], client[client >= 0]
            shard.tracing.deliveries(event, client, bench.narrow[L.N_BODY, event].astype(np.int64))
        if shard.services.queueing:
            broker, time = bench.narrow[L.N_BROKER, :rows], bench.wide[L.W_TIME, :rows]
            shard.queues.note_unfinished(broker, time, bench.finish[:rows])
        shard.tracing.hops(rows)
        shard.tracing.losses(lost, self._sends(sends))
        if shard.outages.any:
            shard.tell_unrung(Timers(bench.timers[:, : int(course[L.TIMED])]))
        if laid > rows:  # gathered, and not handled yet
            bench.wide[:, : laid - rows] = bench.wide[:, rows:laid].copy()
            bench.narrow[:, : laid - rows] = bench.narrow[:, rows:laid].copy()
            bench.cost[: laid - rows] = 0
        course[L.LAID] = laid - rows
        course[[L.ROWS, L.HANDLED, L.SENT, L.DELIVERED, L.TIMED, L.LOST]] = 0
        bench.answered[[compiled.SENDS, compiled.DELIVERIES, compiled.TIMERS]] = 0

    def _sends(self, count: int) -> Sends:
        """The first sends on the bench."""
        bench = self._shard.bench
        return Sends(bench.send_event[:count], bench.send_link[:count], bench.send_detail[:, :count])

    def _more_room(self) -> None:
        """For the answers that a handler had no room for."""
        wanted = self._shard.bench.answered
        self._shard.bench.reserve_answers(
            int(wanted[compiled.SENDS_WANTED]), int(wanted[compiled.DELIVERIES_WANTED]),
            int(wanted[compiled.TIMERS_WANTED]),
        )  # fmt: skip
        self._making.reserve(int(wanted[compiled.BODIES_WANTED]), int(wanted[compiled.BYTES_WANTED]))

    def _makes_bodies(self) -> bool:
        """Whether a handler asks for room for bodies, which are everybody's."""
        return bool(self._shard.bench.answered[compiled.BODIES_WANTED])

    def _more_on_links(self) -> None:
        """For what waits to be put under way."""
        bench, links = self._shard.bench, self._shard.links
        timed = bench.timers[L.T_EVENT, bench.course[L.TIMED] : bench.answered[compiled.TIMERS]]
        links.rings.reserve(links.timer_rings(bench.narrow[L.N_BROKER, timed].astype(np.int64)))
        which = slice(bench.course[L.SENT], bench.answered[compiled.SENDS])
        waiting = bench.send_link[which]
        if self._shard.outages.any:
            waiting = np.repeat(waiting, 2)  # each may arrive twice
        links.rings.reserve(waiting)
        links.outbox.reserve(waiting.size)
        if self._shard.crowding.tells:
            links.rings.reserve(links.timer_rings(bench.narrow[L.N_BROKER, bench.send_event[which]].astype(np.int64)))

    def _change_over(self, end: int) -> None:
        """From rounds to one event at a time, or the other way."""
        course = self._shard.bench.course
        course[[L.ROUNDS, L.EVENTS]] = 0
        if self._chooses:
            if self._thin:
                A.leave(self._shard.renew_world(), end)
            self._thin = not self._thin
            self._planted = False

    def _in_python(self, end: int) -> int:
        """A round of those events that a handler left to its protocol, and of others beside."""
        shard, course = self._shard, self._shard.bench.course
        self._write_down()
        if self._thin:
            world = shard.renew_world()
            A.leave(world, end)
            size = gather(world, 0, end)
        else:
            size = int(course[L.LAID])
            course[L.LAID] = 0
        if size:
            shard.round(size)
            for protocol, blamed in zip(self._protocols, self._blamed):
                with blamed:  # it may have learned what answers of messages under way do not know
                    protocol.prepare(_NOTHING, _NOTHING.astype(np.int64), _NOTHING, shard.now)
        self._planted = False
        return 1

    def _wrong(self, code: int) -> ProtocolFault:
        shard, bench = self._shard, self._shard.bench
        at = int(bench.course[L.WRONG])
        if code in _SETTLING:
            sends, timers = int(bench.answered[compiled.SENDS]), Timers(bench.timers)
            return shard.refusals.unsettled(code, at, self._sends(sends), timers)
        if code == A.NO_TYPE:
            return wrong_type(int(bench.send_detail[L.S_TYPE, at]))
        if code == A.NO_TIMER_TYPE:
            return wrong_type(int(bench.timers[L.T_TYPE, at]))
        if code == A.NO_LINK:
            return shard.refusals.no_link(int(bench.send_link[at]))
        if code == A.NO_CLIENT:
            return shard.refusals.no_client(int(bench.deliver_event[at]), int(bench.deliver_client[at]))
        if code == C.LATE:
            return shard.refusals.late_arrival(at, self._until(0))
        if code == A.WRONG_EVENT:
            return ProtocolFault("a compiled handler answers to a row that it was not given, or out of order")
        return ProtocolFault("a compiled handler says that it reached a row that it was not given")


_SETTLING = (settle.LATE_MESSAGE, settle.WRONG_LINK, settle.TIMER_TOO_SOON, settle.BAD_COST)
_WIDE = {"time": L.W_TIME, "source": L.W_SOURCE, "sequence": L.W_SEQUENCE, "word": L.W_WORD}
_NARROW = {
    "broker": L.N_BROKER, "kind": L.N_KIND, "link": L.N_LINK, "type": L.N_TYPE, "service": L.N_SERVICE,
    "body": L.N_BODY, "cause": L.N_CAUSE,
}  # fmt: skip
