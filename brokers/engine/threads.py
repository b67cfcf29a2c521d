"""The engine in the threads of this process: shards side by side, which meet in compiled code after each window.

Bodies and causes are common to all shards, so that what crosses is a row of numbers. Everything else is a shard's own,
as it is an actor's. A window costs two meetings beside its events, 2 µs in all (`brokerlab bench network`), so that
windows may be as short as links are.
"""

from __future__ import annotations

import gc
import time
from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.contract import NEVER
from brokers.engine.batching import Cutting
from brokers.engine.course import Stopped
from brokers.engine.crossing import Crossing
from brokers.engine.forms import forms_of
from brokers.engine.inline import InlineShards
from brokers.engine.meeting import Meeting
from brokers.engine.model import Model
from brokers.engine.services import Common
from brokers.engine.shard import SWEEP_EVERY, Shard, Window
from brokers.errors import InvalidInput
from brokers.programs.spelling import shown
from brokers.thresholds import usually


class ThreadShards(InlineShards):
    """Shards in the threads of this process."""

    name = "threads"

    def __init__(
        self,
        model: Model,
        assignment: NDArray[np.int32],
        trace: Callable[[int], Any],
        cutting: Cutting | None = None,
        resume: str | None = None,
        lookahead_ns: int = NEVER,
    ) -> None:
        count = int(assignment.max()) + 1
        common = Common(model, count)
        self._traces = [trace(i) for i in range(count)]
        self.shards = [Shard(model, i, assignment, self._traces[i], cutting, resume, common) for i in range(count)]
        self._bodies = common.bodies
        self._meeting = Meeting(count)
        self._courses = []
        for number, shard in enumerate(self.shards):
            if shard.course is None:
                for each in self.shards:
                    each.close()
                raise InvalidInput(
                    f"the engine threads needs protocols with a compiled handler{_lacking(model, shard)}. Use the "
                    "engine inline or ray"
                )
            shard.course.crossing = Crossing(self._meeting, number, shard.links.peer_of, lookahead_ns)
            self._courses.append(shard.course)
        self._pool = ThreadPoolExecutor(max(1, count - 1), thread_name_prefix="shard")
        self._since_sweep = 0
        self._rounds, self._cpu_ns = np.zeros(count, np.int64), np.zeros(count, np.int64)

    @property
    def windows(self) -> int:
        """How many windows there were, which a run's own are cut into."""
        return max(course.crossing.windows for course in self._courses if course.crossing is not None)

    def step(self, end: int, samples: range) -> list[Window]:
        """Advance all shards to `end`."""
        collecting = gc.isenabled()
        gc.disable()  # as `Shard.window` does
        try:
            return self._step(end, samples)
        finally:
            if collecting:
                gc.enable()

    def _step(self, end: int, samples: range) -> list[Window]:
        began = time.perf_counter_ns()
        handled = [shard.queues.handled for shard in self.shards]
        self._rounds[:] = self._cpu_ns[:] = 0
        reached = -1
        while reached < end:
            reached = min(
                shard.services.clock.advance(end, shard.now, shard.services.inputs.plenty) for shard in self.shards
            )
            due = bisect_right(samples, reached)
            self._stretch(reached, samples[:due])
            samples = samples[due:]
        wall = time.perf_counter_ns() - began
        return [
            Window(
                shard.next_time(), NEVER, shard.queues.handled - handled[i], shard.in_flight, wall,
                int(self._cpu_ns[i]), int(self._rounds[i]),
            )
            for i, shard in enumerate(self.shards)
        ]  # fmt: skip

    def _stretch(self, end: int, samples: range) -> None:
        """Handle everything before `end`, of which clients send no more than is good at once."""
        handled = sum(shard.queues.handled for shard in self.shards)
        for shard in self.shards:
            shard.admit(end)
        coming = [rows for course in self._courses for rows in course.take_coming()]
        for course in self._courses:
            for rows in coming:
                course.expect(rows)
        self._side_by_side(lambda number: self._courses[number].begin())
        self._advance(end, samples)
        for shard in self.shards:
            shard.settle_down(end)
        self._since_sweep += sum(shard.queues.handled for shard in self.shards) - handled
        if self._since_sweep > usually(SWEEP_EVERY):
            self._since_sweep = 0
            self._bodies.sweep([held for shard in self.shards for held in shard.services.held()])

    def _advance(self, end: int, samples: range) -> None:
        while samples and self.shards[0].tracing.sampling:
            quiet = bisect_right(samples, min(shard.queues.earliest() for shard in self.shards))
            if quiet:
                for shard in self.shards:
                    shard.tracing.samples(samples[:quiet])
                samples = samples[quiet:]
            else:
                self._run(samples[0])
        self._run(end)
        if samples:
            for shard in self.shards:
                shard.queues.forget_finished(samples[-1])

    def _run(self, end: int) -> None:
        """Have every shard handle everything before `end`, each in a thread."""
        now = min(shard.queues.earliest() for shard in self.shards)
        if now >= end:
            return
        for course in self._courses:
            assert course.crossing is not None
            course.crossing.begin(now, end)
        self._side_by_side(lambda number: self._one(number, end))

    def _one(self, number: int, end: int) -> None:
        try:
            self._rounds[number] += self._courses[number].run(end)
        except BaseException:
            self._meeting.stop()
            raise

    def _side_by_side(self, work: Callable[[int], None]) -> None:
        """Have this done for every shard, each in a thread."""

        def timed(number: int) -> None:
            cpu = time.thread_time_ns()
            work(number)
            self._cpu_ns[number] += time.thread_time_ns() - cpu

        others = [self._pool.submit(timed, number) for number in range(1, len(self.shards))]
        errors: list[BaseException | None] = []
        try:
            timed(0)
        except BaseException as error:
            errors.append(error)
        errors += [other.exception() for other in others]
        found = [error for error in errors if error is not None]
        if found:
            raise next((error for error in found if not isinstance(error, Stopped)), found[0])

    def checkpoint(self, folder: str, number: int) -> int:
        """Have every shard keep its state; returns the bytes written."""
        return sum(shard.checkpoint(folder, number, []) for shard in self.shards)

    def close(self) -> None:
        super().close()
        self._pool.shutdown()


def _lacking(model: Model, shard: Shard) -> str:
    """What keeps the protocols of a model from running in compiled code."""
    from brokers.compiled import HANDLERS_MOST, handler_of

    none, off = [], []
    for spec, made, form in zip(model.services, shard.services.protocols, forms_of(model)):
        protocol, name = spec.protocol_class, f"{shown(spec.protocol_target)} of {spec.name!r}"
        if handler_of(type(made)) is not None:
            continue
        if handler_of(protocol) is None:
            none.append(name)
            continue
        off.append(f"; that of {name} is not used here, since {form.why}")
    told = f", and these have none: {', '.join(none)}" if none else ""
    return told + "".join(off) or f", {HANDLERS_MOST} of them at most"
