"""A shard: the brokers that one actor carries, advanced window by window.

One window: take in what other shards sent, let the clock emit what clients send before the window's end,
then rounds until nothing before the end is left; in several stretches if clients send very much. A round
gathers what has reached each broker before its horizon (`gather`), hands each service its part, and settles
the answers (`settle`). At the end, what goes to other shards is packed into one blob per peer.

Where every protocol has a compiled handler, `Course` carries the rounds through compiled code.

Its state lies in rooms: links, queues, services, tallies, and the workbench of the round. Kernels see the arrays of
all of them as one `World`.

The same object runs in this process and inside a Ray actor.
"""

from __future__ import annotations

import gc
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.columns import taken_over
from brokers.contract import NEVER, Ints
from brokers.engine import carrying, checkpoint, settle
from brokers.engine import layout as L
from brokers.engine.batching import Cutting, Workbench
from brokers.engine.checkpoint_check import seconds_of
from brokers.engine.collect import (
    Answers,
    Deliveries,
    Sends,
    Timers,
    collect_costs,
    deliveries_of,
    sends_of,
    timers_of,
)
from brokers.engine.course import Course, possible
from brokers.engine.crowding import Crowding
from brokers.engine.exchange import unpack
from brokers.engine.forms import of_shard
from brokers.engine.gather import gather
from brokers.engine.links import Links
from brokers.engine.loads import LoadsOfShard
from brokers.engine.model import Model
from brokers.engine.outages import Outages
from brokers.engine.queues import Queues
from brokers.engine.refusals import Refusals, refuse_noise, understood
from brokers.engine.rings import packed
from brokers.engine.services import Common, Services
from brokers.engine.tallies import Tallies
from brokers.engine.tracing import Tracing
from brokers.engine.world import World
from brokers.errors import InvalidInput
from brokers.records import Held
from brokers.thresholds import usually

NONE = range(0)  # no sample is due
LISTEN_EVERY = 256  # rounds after which it is asked whether this will ever get quiet
MESSAGES_FEW = 1_000_000  # where the run may have no more than so many, it is asked after each round
SWEEP_EVERY = 256  # events after which bodies that nobody needs are looked for


@dataclass
class Window:
    """What a shard reports after a window."""

    next_time: int  # the next thing known to happen here
    sent_first: int  # the earliest arrival among what went to other shards
    events: int
    in_flight: int
    wall_ns: int
    cpu_ns: int
    rounds: int
    blob_bytes: int = 0


@dataclass
class Standing:
    """What a shard has come to, at a window's border or at the end."""

    local: NDArray[np.int64]  # broker numbers
    broker_state: NDArray[np.int64]
    link: NDArray[np.int64]  # directed links that leave local brokers
    link_state: NDArray[np.int64]
    arisen: NDArray[np.int64]  # likewise of those that are described and were sent over, by number
    arisen_state: NDArray[np.int64]
    histogram: NDArray[np.int64]
    totals: NDArray[np.int64]
    publications: NDArray[np.int64]  # per service
    refused: NDArray[np.int64]  # per service: publications whose broker was down
    absent: NDArray[np.int64]  # per service: publications of clients that were away
    in_flight: int
    backlog_ns: NDArray[np.int64]  # per local broker: the work that it still owes


@dataclass
class ShardResult(Standing):
    """What a shard contributes to the run's result."""

    seconds: NDArray[np.int64]
    cause_key: NDArray[np.int64]
    causes: NDArray[np.int64]
    changes: list[dict[str, Any]]  # columns, one part per emission
    dependencies: NDArray[np.int64]  # (change, on change)
    leanings: NDArray[np.int64]  # (service, interest, on interest)
    forms: list[str]  # which form of each protocol ran


class Shard:
    """See the module. `assignment` says which shard carries each broker."""

    def __init__(
        self,
        model: Model,
        number: int,
        assignment: NDArray[np.int32],
        trace: Any,
        cutting: Cutting | None = None,
        resume: str | None = None,
        common: Common | None = None,
    ) -> None:
        """`common`: what it shares with the other shards of its process, where they share anything."""
        self.number = number
        self.trace = trace
        self.peers = int(assignment.max()) + 1
        self.links = Links(model.overlay, model.seed, assignment, number)
        self.outages = Outages(model.faults, assignment.size, self.links.count)
        self.services = Services(
            model, number, self.links, self.peers > 1, trace, resume is not None, common, self.outages
        )
        self.queues = Queues(
            self.links.local, self.links.patience_ns(), self.services.shortest_timer_ns(), self.outages
        )
        alone = any(protocol.sees_load for protocol in self.services.protocols)
        if self.links.describes and (alone or model.limits):
            raise InvalidInput(
                "links.latent.all: where links are described nothing is counted that waits, so neither `queues` nor a "
                "protocol that sees its load goes with it; list candidates with `hops` or `drawn` instead"
            )
        tells = bool(self.services.drops_told.any())
        self.crowding = Crowding(model.limits, assignment.size, self.links.count, alone, tells)
        self.services.loads = LoadsOfShard(
            self.queues.broker_state, self.links.link_state, self.outages, self.crowding
        )
        self.tallies = Tallies(len(model.services), seconds_of(model))
        self.bench = Workbench(cutting or Cutting(), assignment.size, self.links.fan_in)
        self.tracing = Tracing(trace, self.services, self.queues, self.bench)
        self.refusals = Refusals(self.services, self.links, self.queues, self.bench)
        self.now = 0
        self.in_flight = 0
        self._sent = 0  # messages in the blobs of the last window, which nobody has taken in yet
        self._since_sweep = 0
        self._world: Held | None = None
        self.course = self._compiled(cutting or Cutting())
        if resume is None:
            self._start_timers()
        else:
            self.restore(resume)

    def _compiled(self, cutting: Cutting) -> Course | None:
        """What carries windows through compiled code, where all protocols allow it and it is asked for."""
        asked = cutting.compiled != "never" and (cutting.mode == "horizon" or cutting.compiled != "auto")
        asked = asked and not self.links.describes
        return Course(self, cutting.compiled) if asked and possible(self.services.protocols) else None

    def _start_timers(self) -> None:
        for service, broker, delay, type_, word in self.services.first_timers():
            number = self.queues.number(broker)
            time = int(self.outages.up_from(np.array([broker]), np.array([delay]))[0])
            if time == NEVER:
                continue
            row = (time, number, word, packed.py_func(-1, type_, service), -1)
            self.links.rings.put_timer(self.links.rings.links + broker, row)
            self.queues.expect(broker, time)
            self.in_flight += 1

    # ---- a window ------------------------------------------------------------------------------------

    def next_time(self) -> int:
        """The time of the next thing known to happen in this shard."""
        return min(self.queues.earliest(), self.services.inputs.first, self.services.clock.next_wake())

    def window(self, end: int, blobs: list[bytes], samples: range = NONE) -> tuple[Window, list[bytes]]:
        """Advance to `end`. `blobs` is what other shards packed for this one, `samples` when to sample."""
        collecting = gc.isenabled()
        gc.disable()  # what a batch makes dies with it; looking for cycles in it took half the time of on_message
        try:
            return self._window(end, blobs, samples)
        finally:
            if collecting:
                gc.enable()

    def _window(self, end: int, blobs: list[bytes], samples: range) -> tuple[Window, list[bytes]]:
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        services, outbox = self.services, self.links.outbox
        handled = self.queues.handled
        self._take_in(blobs)
        rounds, reached = 0, -1
        if not samples and self.next_time() >= end:  # nothing happens here: most windows of a small run over shards
            self.now = reached = end
        while reached < end:
            # What clients tell again at a restart is all that they have said before it.
            stop = min(end, services.inputs.reminders.next_after(self.now))
            reached = services.clock.advance(stop, self.now, services.inputs.plenty)
            due = bisect_right(samples, reached)
            rounds += self._stretch(reached, samples[:due])
            samples = samples[due:]
        self._sent = len(outbox)
        self.in_flight -= self._sent
        blobs_out, first = outbox.pack(self.peers, self.links.peers_of, services.bodies, services.causes)
        handled = self.queues.handled - handled
        report = Window(
            self.next_time(),
            first,
            handled,
            self.in_flight,
            time.perf_counter_ns() - wall,
            time.process_time_ns() - cpu,
            rounds,
            sum(map(len, blobs_out)),
        )
        return report, blobs_out

    def _stretch(self, end: int, samples: range) -> int:
        """A window, or a part of it in which clients send no more than is good at once; returns in how many rounds."""
        handled = self.queues.handled
        self.admit(end)
        if self.course is not None:
            self.course.begin()
        rounds = self._advance(end, samples)
        self.settle_down(end)
        self._since_sweep += self.queues.handled - handled
        if self._since_sweep > usually(SWEEP_EVERY):
            self._since_sweep = 0
            self.services.bodies.sweep(self.services.held())
        return rounds

    def admit(self, end: int) -> None:
        """Let in what clients send before `end`."""
        count, brokers, times = self.services.inputs.admit(self.now, end)
        self.queues.expect(brokers, times)
        self.in_flight += count
        if self.course is not None and count:
            rows = self.services.inputs.rows
            self.course.expect(rows[rows[:, L.I_SOURCE] >= 0] if self.outages.any else rows)

    def settle_down(self, end: int) -> None:
        """Everything before `end` was handled."""
        self.tracing.flush()
        if self.course is not None:
            self.course.end()
        self.now = end

    def _advance(self, end: int, samples: range) -> int:
        """Handle everything before `end`, and sample on the way; returns in how many rounds."""
        handle = self._rounds if self.course is None else self.course.run
        rounds = 0
        while samples and self.tracing.sampling:
            quiet = bisect_right(samples, self.queues.earliest())
            if quiet:
                self.tracing.samples(samples[:quiet])
                samples = samples[quiet:]
            else:
                rounds += handle(samples[0])
        rounds += handle(end)
        if samples:
            self.queues.forget_finished(samples[-1])
        return rounds

    def renew_world(self) -> Held:
        """What kernels see, with the arrays that have taken the place of others."""
        if self._world is None:
            links, services, bench = self.links, self.services, self.bench
            rooms = (links, services, self.queues, self.outages, self.crowding, self.tallies, bench)
            self._world = World.of({name: array for room in rooms for name, array in room.arrays().items()})
            self._world.watch({
                "arena": (links.rings, "arena"), "outbox": (links.outbox, "rows"), **links.growing(),
                **services.growing(), **bench.growing(),
            })  # fmt: skip
        else:
            self._world.renew()
        return self._world

    def _take_in(self, blobs: Sequence[bytes]) -> None:
        """Put what other shards sent onto the links."""
        for blob in filter(None, blobs):
            rows, links = unpack(blob, self.services.bodies, self.services.causes)
            self.links.rings.reserve(self.links.rings_over(links))
            self.renew_world()
            late = settle.push_arrivals(self._world, rows, links)
            if late >= 0:
                raise self.refusals.late_arrival(int(links[late]), int(rows[late, L.M_TIME]))
            self.in_flight += len(rows)
            if self.course is not None:
                self.course.expect(rows)

    # ---- a round -------------------------------------------------------------------------------------

    def _rounds(self, end: int) -> int:
        """Handle everything before `end`; returns in how many rounds."""
        rounds = 0
        messages_few = self.services.model.messages_max < MESSAGES_FEW
        self.renew_world()
        while size := gather(self._world, 0, end):
            if size > 0:
                self.round(size)
                rounds += 1
                if rounds % LISTEN_EVERY == 0 or messages_few:
                    self.listen(end)
            if self.crowding.any:
                self.write_drops()
        if self.crowding.any:
            self.write_drops()
        return rounds

    def write_drops(self) -> None:
        """Enter what found no place in a queue."""
        drops = self.crowding.take_drops()
        self.in_flight -= len(drops)
        self.tracing.dropped(drops)

    def listen(self, end: int) -> None:
        """NeverQuiet if all this cannot be what clients caused; a window may hold as much of it as there is memory."""
        refuse_noise(self.services.model, self.queues.handled, end)

    def round(self, size: int) -> None:
        """Have services decide on the first rows of the bench, in Python, and settle what they answer."""
        answers = self.services.handle(self.bench, size)
        self.bench.cost[:size] = 0
        with understood("sends, timers and costs"):
            sends, timers = sends_of(answers), timers_of(answers)
            collect_costs(answers, self.bench.cost[:size])
        with understood("deliveries"):
            deliveries = deliveries_of(answers)
        sends, timers = self._carry_out(size, sends, timers, deliveries)
        if self.services.queueing:
            broker, time = self.bench.narrow[L.N_BROKER, :size], self.bench.wide[L.W_TIME, :size]
            self.queues.note_unfinished(broker, time, self.bench.finish[:size])
        self._note(answers)
        if self.outages.any or self.services.moving:
            fallen = deliveries.of(deliveries.client < 0)
            self.tracing.fallen(fallen.event, fallen.body, *settle.for_whom(fallen.client))
            deliveries = deliveries.of(deliveries.client >= 0)
            self.tell_unrung(timers)
        self.tracing.round(size, sends, deliveries)

    def _carry_out(self, size: int, sends: Sends, timers: Timers, deliveries: Deliveries) -> tuple[Sends, Timers]:
        """Do what was answered; returns it in the order in which that was done."""
        self.bench.reserve(sends.event.size, timers.event.size)
        while True:
            over = sends._replace(link=self.links.rows_of(sends.link)) if self.links.describes else sends
            code, at, moved = carrying.carry_out(self.renew_world(), size, *over, *timers, *deliveries)
            if code == carrying.OK:
                self.in_flight += moved
                return sends, timers
            if code == carrying.UNORDERED:
                sends, timers = sends.ordered(size), timers.ordered(size)
            elif code == carrying.ROOM:
                self._make_room(sends, timers)
            else:
                raise self.refusals.unsound(code, at, size, sends, timers, deliveries)

    def tell_unrung(self, timers: Timers) -> None:
        """Timers that die with their brokers are lost, with what they were set for."""
        broker, time = self.bench.narrow[L.N_BROKER, timers.event], self.bench.wide[L.W_TIME, timers.event]
        never = np.flatnonzero(self.outages.never_ring(broker, time, time + timers.table[L.T_DELAY]))
        if never.size:
            self.tracing.unrung(timers.table[:, never])

    def _make_room(self, sends: Sends, timers: Timers) -> None:
        """For everything that is about to be put under way: kernels do not grow arrays."""
        links = np.repeat(sends.link, 2) if self.outages.any else sends.link  # each may arrive twice
        self.links.rings.reserve(self.links.rings_over(links))
        self.links.outbox.reserve(links.size)
        brokers: Ints = self.bench.narrow[L.N_BROKER, timers.event].astype(np.int64)
        if self.crowding.tells:  # each send may come back, and kernels ask for twice the room of either
            brokers = np.repeat(np.concatenate([brokers, self.bench.narrow[L.N_BROKER, sends.event]]), 2)
        self.links.rings.reserve(self.links.timer_rings(brokers))

    def _note(self, answers: Answers) -> None:
        """What answers say beside messages: what depends on what, and rows of the kinds' own tables."""
        for rows, out in answers:
            if out.dependencies or out.leanings:
                with understood("what depends and leans on what"):
                    self.tallies.note_dependencies(out.dependencies)
                    self.tallies.note_leanings(out.service, out.leanings)
            for table, event, columns in out.records:
                with understood("rows of its kind's tables"):
                    self.tracing.record(table, event if rows is None else rows[event], out.service, columns)

    # ---- checkpoints ---------------------------------------------------------------------------------

    def checkpoint(self, folder: str, number: int, blobs: list[bytes]) -> int:
        """Keep everything up to `now`, with what other shards have sent; returns bytes. Call between windows."""
        self._take_in(blobs)
        self._sent = 0
        self.trace.commit(number)
        return checkpoint.write_shard(folder, self.number, self.state())

    def state(self) -> dict[str, Any]:
        """Everything needed to go on from a window's border, as plain data and arrays by ids of the model."""
        services = self.services
        links = self.links.state(services.bodies, services.causes)
        carried = links["under_way"][:, L.M_PACKED] >> 24
        rooms = (links, self.queues.state(self.now), services.state(carried), self.tallies.state())
        crowding = self.crowding.state(self.links, self.queues.mine)
        every = {name: value for room in rooms for name, value in room.items()}
        return {"now": self.now, "crowding": crowding, **every}

    def restore(self, folder: str) -> None:
        """Go on from a checkpoint, whatever shards it was taken over. For a fresh shard only."""
        with taken_over(folder):
            self.load(checkpoint.read_shards(folder))

    def load(self, states: Sequence[dict[str, Any]]) -> None:
        """Take over what belongs here of the states of all shards; what is summed over shards, shard 0 goes on with."""
        services = self.services
        self.now = now = int(states[0]["now"])
        self.queues.load(states, now)
        handle_of = services.load(states, now, sums=self.number == 0)
        if self.number == 0:
            self.tallies.load(states)
        brokers, times = self.links.load(states, handle_of, services.bodies, services.causes, services.lane)
        self.queues.expect(brokers, times)
        waiting, since = self.services.inputs.left_over
        self.queues.expect(waiting, since)
        for state in states:
            self.crowding.load(state["crowding"])
        self.in_flight = brokers.size + waiting.size
        if self.course is not None:
            self.course.expect(self.links.rings.rows()[1])
        services.load_protocols(states, handle_of)
        services.clock.advance(now)

    # ---- the end -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of what lies outside of this process."""
        self.services.close()

    def standing(self) -> Standing:
        """What came of the run so far; it changes nothing."""
        inputs, mine = self.services.inputs, self.queues.mine
        arisen, arisen_state = self.links.arisen()
        return Standing(
            local=mine,
            broker_state=self.queues.broker_state[mine],
            link=self.links.mine,
            link_state=self.links.link_state[self.links.mine],
            arisen=arisen,
            arisen_state=arisen_state,
            histogram=self.tallies.histogram,
            totals=self.tallies.totals,
            publications=inputs.publications,
            refused=inputs.refused,
            absent=np.zeros_like(inputs.refused) if inputs.movers is None else inputs.movers.absent,
            in_flight=self.in_flight + self._sent,
            backlog_ns=self.queues.backlog_ns(self.now)[mine],
        )

    def finish(self) -> ShardResult:
        """Hand over what the run's result is made of."""
        counted, inputs = self.services.causes.state(self.services.lane), self.services.inputs
        return ShardResult(
            **vars(self.standing()),
            seconds=self.tallies.seconds,
            cause_key=counted["cause_key"],
            causes=counted["cause_counts"],
            changes=inputs.changes,
            dependencies=self.tallies.dependencies,
            leanings=self.tallies.leanings,
            forms=[of_shard(protocol, self.course is not None) for protocol in self.services.protocols],
        )
