"""The sequence of windows of a run, the same for both engines.

It skips quiet time, with all samples that lie in it taken at once, and never lets a window be longer than the
lookahead: the shortest delay of a link between shards. How windows fall shows in the run tables only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from brokers.engine.model import Model
from brokers.engine.refusals import refuse_noise
from brokers.engine.shard import ShardResult, Standing, Window

Progress = Callable[[int, int, int], None]  # simulated ns, events so far, messages under way
Watch = Callable[[int, int, Callable[[], list[Standing]]], None]  # simulated ns, events so far, what asks the shards

_FIRST_WINDOW_NS = 50_000_000
_WINDOW_WALL_NS = 200_000_000  # a window without peers is cut so that progress can be shown about this often


class Shards(Protocol):
    """What carries the shards: this process, or Ray actors."""

    name: str

    def next_time(self) -> int: ...
    def step(self, end: int, samples: range) -> list[Window]: ...
    def checkpoint(self, folder: str, number: int) -> int: ...
    def standing(self) -> list[Standing]: ...
    def finish(self) -> list[ShardResult]: ...
    def where(self) -> list[tuple[int, str]]: ...
    def abandon(self) -> None: ...
    def close(self) -> None: ...


class Windows:
    """The sequence of windows of a run."""

    def __init__(
        self,
        model: Model,
        lookahead: int,
        max_window: int | None,
        until: int | None,
        resumed: dict[str, Any] | None = None,
    ) -> None:
        """`resumed` is what a checkpoint kept of a sequence like this."""
        self.model = model
        self.length = max_window or _FIRST_WINDOW_NS
        self.fixed = max_window is not None
        self.lookahead = lookahead
        self.hard_end = model.duration_ns + model.drain_ns
        if until is not None:
            self.hard_end = min(self.hard_end, until)
        self.log: list[tuple[int, int, list[Window]]] = []
        self.wall_ns = 0
        self.reached = 0 if resumed is None else int(resumed["reached"])
        self._start = 0 if resumed is None else int(resumed["now"])
        self._events = 0 if resumed is None else int(resumed["events"])
        self._sample_at = model.sample_every_ns if resumed is None else int(resumed["sample_at"])

    def run(
        self,
        shards: Shards,
        progress: Progress | None,
        save: Callable[[Shards, dict[str, Any]], None],
        watch: Watch | None = None,
    ) -> None:
        """Advance to the end; `save` is offered the border after every window."""
        began = time.perf_counter_ns()
        every = self.model.sample_every_ns
        sample_at = self._sample_at
        sample_until = min(self.model.duration_ns, self.hard_end)
        now = max(self._start, shards.next_time())
        events = self._events
        while True:
            sampling = sample_at <= sample_until
            if now >= self.hard_end:
                if not sampling:
                    break
                now = sample_until
            if sampling and now >= sample_at:  # nothing happens before `now`
                samples = range(sample_at, min(now, sample_until) + 1, every)
                now = end = samples[-1]
            else:
                end = min(now + min(self.length, self.lookahead), self.hard_end)
                samples = range(sample_at, min(end, sample_until) + 1, every)
            before = time.perf_counter_ns()
            reports = shards.step(end, samples)
            if samples:
                sample_at = samples[-1] + every
            self.log.append((now, end, reports))
            events += sum(r.events for r in reports)
            in_flight = sum(r.in_flight for r in reports)
            refuse_noise(self.model, events, end)
            if not self.fixed:
                wall = time.perf_counter_ns() - before
                if wall < _WINDOW_WALL_NS // 2:
                    self.length = min(self.length * (2 if wall > _WINDOW_WALL_NS // 32 else 8), 1 << 50)
                elif wall > _WINDOW_WALL_NS:
                    self.length = max(self.length // 2, 1_000_000)
            self.reached = max(self.reached, min(end, self.model.duration_ns))
            if progress is not None:
                progress(min(end, self.model.duration_ns), events, in_flight)
            if watch is not None:
                watch(min(end, self.model.duration_ns), events, shards.standing)
            save(shards, {"now": end, "sample_at": sample_at, "events": events, "reached": self.reached})
            now = max(end, min(min(r.next_time, r.sent_first) for r in reports))
        self.wall_ns = time.perf_counter_ns() - began
