"""What a run has come to while it goes on: kept in its folder by the process that runs it, and shown.

    runs/<name>-<id>/progress.json      at most once a second; it goes when the run ends

Whoever shows it asks nothing of the run, so that any process that sees the folder can, and as many as like to.
Percentiles are those of the latencies so far, expectations are held against what was measured so far.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from pydantic import BaseModel, ConfigDict, ValidationError

from brokers.errors import RunDamaged
from scenarios.many import expect, metrics
from scenarios.progress import Progress, coloured, short
from topology.units import format_duration

if TYPE_CHECKING:
    from pathlib import Path

    from brokers.engine.model import Model
    from brokers.engine.runfolder import NewRun
    from brokers.engine.shard import Standing
    from scenarios.schema import Scenario

KEPT_EVERY_S = 1.0
_SERVICES_MOST, _EXPECTED_MOST = 20, 20
_GREEN, _RED, _PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[0m"
_NOT_YET = "·"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class OfService(_Strict):
    """What came of a service so far."""

    publications: int
    deliveries: int
    p50_ms: float | None
    p99_ms: float | None


class Expected(_Strict):
    """An expectation beside what was measured so far; `holds` is nothing while that is nothing."""

    text: str
    measured: str
    holds: bool | None


class Told(_Strict):
    """What a run has come to."""

    reached_ns: int
    duration_ns: int
    wall_s: float
    events: int
    in_flight: int
    messages: int
    bytes: int
    lost: int
    dropped: int
    behind: int  # brokers that have work waiting
    backlog_ns: int  # the longest that one of them needs for it
    services: dict[str, OfService]
    expected: list[Expected]


class Watching:
    """Keeps in the folder of a run what it has come to, and shows it to whoever asked; the engine's `watch`."""

    def __init__(
        self, folder: NewRun, scenario: Scenario, model: Model, view: View | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._folder, self._scenario, self._model = folder, scenario, model
        self._view, self._clock = view, clock
        self._every_s = KEPT_EVERY_S if view is None else min(view.every_s, KEPT_EVERY_S)
        self._began = self._last = clock()

    def __call__(self, reached_ns: int, events: int, ask: Callable[[], list[Standing]]) -> None:
        now = self._clock()
        if now - self._last < self._every_s:
            return
        self._last = now
        told = self._told(reached_ns, events, ask(), now - self._began)
        self._folder.tell(told.model_dump_json())
        if self._view is not None:
            self._view.tell(told)

    def _told(self, reached_ns: int, events: int, standing: list[Standing], wall_s: float) -> Told:
        from brokers.engine.result import so_far

        *_, measured = so_far(self._model, standing)
        network = measured["network"]
        backlog = [each.backlog_ns for each in standing]
        return Told(
            reached_ns=reached_ns, duration_ns=self._model.duration_ns, wall_s=wall_s, events=events,
            in_flight=network["in_flight_at_end"],
            **{name: network[name] for name in ("messages", "bytes", "lost", "dropped")},
            behind=sum(int((each > 0).sum()) for each in backlog),
            backlog_ns=max(int(each.max(initial=0)) for each in backlog),
            services={
                name: OfService(
                    publications=each["publications"], deliveries=each["deliveries"],
                    p50_ms=each["latency"]["p50_ms"], p99_ms=each["latency"]["p99_ms"],
                )
                for name, each in measured["services"].items()
            },
            expected=self._expected(metrics.flat(measured)),
        )  # fmt: skip

    def _expected(self, values: dict[str, float | None]) -> list[Expected]:
        judged = expect.judged(self._scenario.model.expect, values, self._scenario.further_metrics())
        return [
            Expected(text=each.expectation, measured=each.measured, holds=None if each.value is None else each.holds)
            for each in judged
        ]


def read(folder: Path) -> Told | None:
    """What a run's folder tells of it; nothing if it tells nothing yet."""
    from brokers.engine.runfolder import PROGRESS, progress_of

    text = progress_of(folder)
    try:
        return None if text is None else Told.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        told = f"{PROGRESS} is not what a run writes: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise RunDamaged.at(folder, told) from None


class View(Progress):
    """A run on a terminal, in place; elsewhere a line now and then."""

    def __init__(self, name: str, every_s: float | None = None, stream: TextIO | None = None) -> None:
        """`every_s`: how often at most; default: as often as other progress."""
        super().__init__(0, stream, lambda: 0.0)
        if every_s is not None:
            self.every_s = every_s
        self.name = _plain(name)
        self._before: Told | None = None
        self._coloured = coloured(self.stream)

    def tell(self, told: Told) -> None:
        """Show it, if it is time to; by the clock of the run's own process."""
        now = told.wall_s
        if not self.due(now):
            return
        self.duration_ns = max(told.duration_ns, 1)
        head = self.line(told.reached_ns, told.events, told.in_flight, now)
        self.show("\n".join(self._block(told, head)) if self.terminal else f"{head}{self._rest(told)}", now)
        self.last_events, self.last_ns, self._before = told.events, told.reached_ns, told

    def paint(self, line: str) -> str:
        colour = {expect.mark(True): _GREEN, expect.mark(False): _RED}.get(line[:1]) if self._coloured else None
        return f"{colour}{line[0]}{_PLAIN}{line[1:]}" if colour else line

    def _block(self, told: Told, head: str) -> list[str]:
        names = [_plain(name) for name in list(told.services)[:_SERVICES_MOST]]
        wide = max([len("service"), *map(len, names)])
        lines = [self.name, head, f"{'service':{wide}}  published  delivered    per s  latency p50       p99"]
        for shown, (name, each) in zip(names, told.services.items()):
            lines.append(
                f"{shown:{wide}}  {each.publications:>9,}  {each.deliveries:>9,}  {self._rate(told, name):>7}"
                f"  {_ms(each.p50_ms):>11}  {_ms(each.p99_ms):>8}"
            )
        if len(told.services) > _SERVICES_MOST:
            lines.append(f"… and {len(told.services) - _SERVICES_MOST} more")
        dropped = f", {told.dropped:,} dropped" if told.dropped else ""
        lines.append(f"network: {told.messages:,} messages, {short(told.bytes)}B, {told.lost:,} lost{dropped}")
        lines.append(f"queues: {_queues(told)}")
        return lines + [_held(each) for each in told.expected[:_EXPECTED_MOST]]

    def _rest(self, told: Told) -> str:
        """The end of a line where there is but one."""
        services = "".join(
            f" · {_plain(name)} {each.deliveries:,} delivered"
            + (f", p99 {_ms(each.p99_ms)}" if each.p99_ms is not None else "")
            for name, each in list(told.services.items())[:_SERVICES_MOST]
        )
        expected = ""
        if told.expected:
            fails = "".join(f", not {_plain(each.text)}" for each in told.expected if each.holds is False)
            expected = f" · {sum(each.holds is True for each in told.expected)} expectations hold so far{fails}"
        return f" · {_queues(told)} · {told.lost:,} lost{services}{expected}"

    def _rate(self, told: Told, service: str) -> str:
        """Deliveries per second of wall time since the last look."""
        before = self._before
        was = before.services[service].deliveries if before and service in before.services else 0
        passed = told.wall_s - (before.wall_s if before else 0.0)
        return short(max(0, told.services[service].deliveries - was) / max(passed, 1e-9))


def _held(each: Expected) -> str:
    if each.holds is None:
        return f"{_NOT_YET} {_plain(each.text)}: not measured yet"
    return f"{expect.mark(each.holds)} {_plain(each.text)}: {_plain(each.measured)} so far"


def _queues(told: Told) -> str:
    if not told.behind:
        return "nobody behind"
    who = "1 broker" if told.behind == 1 else f"{told.behind:,} brokers"
    return f"{who} behind, by {format_duration(told.backlog_ns)} at most"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f} ms"


def _plain(text: str) -> str:
    """A text of a run folder, which may be anybody's: nothing in it moves the cursor."""
    return "".join(each if each.isprintable() else "?" for each in text)


def follow(folder: Path, view: View, look_every_s: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show a run that another process carries out, until it has ended, however that is."""
    from brokers.engine.runfolder import is_written

    with contextlib.closing(view):
        while is_written(folder):
            told = read(folder)
            if told is not None:
                view.tell(told)
            sleep(look_every_s)
