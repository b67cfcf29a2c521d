"""Live progress on stderr: one changing line on a terminal, else a plain line every few seconds.

Of a run: simulated time and share, events per second of wall time (since the last line, so that slowing shows),
simulated seconds per second, messages in flight, time to go. Of a sweep: points ended, failed, to go.

A time to go is shown once it means something, by the rule of `Estimate`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

TERMINAL_EVERY_S = 0.1
PIPE_EVERY_S = 5.0


ESTIMATE_FROM_S = 5.0
ESTIMATE_FROM_SHARE = 0.02
ESTIMATE_STRETCH_S = 1.0
ESTIMATES_APART = 2.0


class Estimate:
    """The time to go, from the share that is done; None as long as nothing can be said.

    Starting up, compiling and the first subscriptions take time in which little is simulated, so the first seconds
    say nothing about the rest. An estimate needs some time, some share, and a last stretch whose pace agrees with
    that since the start, within a factor of two: what began slowly, or stands still, has none. Once there is one,
    there is one at every look.
    """

    def __init__(self, started: float) -> None:
        self.started = started
        self._known = False
        self._stretch: tuple[float, float] | None = None  # when it began, and the share then

    def left_s(self, share: float, now: float) -> float | None:
        """Seconds to go at this moment, a share of the whole being done."""
        elapsed_s = now - self.started
        if self._stretch is None:
            self._stretch = now, share
        elif now - self._stretch[0] >= ESTIMATE_STRETCH_S:
            self._known = self._known or self._agree(share, now)
            self._stretch = now, share
        return elapsed_s * (1 - share) / share if self._known else None

    def _agree(self, share: float, now: float) -> bool:
        elapsed_s = now - self.started
        if self._stretch is None or elapsed_s < ESTIMATE_FROM_S or share < ESTIMATE_FROM_SHARE:
            return False
        began, share_then = self._stretch
        lately, in_all = (share - share_then) / (now - began), share / elapsed_s
        return in_all / ESTIMATES_APART <= lately <= in_all * ESTIMATES_APART


class Line:
    """A changing line on a terminal; elsewhere plain lines, no more than one every few seconds."""

    def __init__(self, stream: TextIO | None, clock: Callable[[], float], terminal_every_s: float) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.clock = clock
        self.terminal = bool(self.stream.isatty())
        self.every_s = terminal_every_s if self.terminal else PIPE_EVERY_S
        self.started = self.last = clock()
        self.shown = 0  # characters of the live line
        self.estimate = Estimate(self.started)

    def due(self, now: float) -> bool:
        """Whether it is time for another line."""
        return now - self.last >= self.every_s

    def show(self, line: str, now: float) -> None:
        """Put a line up, in place of the last one where that is possible."""
        self.last = now
        if self.terminal:
            self.stream.write("\r" + line.ljust(self.shown))
            self.shown = len(line)
        else:
            self.stream.write(line + "\n")
        self.stream.flush()

    def close(self) -> None:
        """Clear the live line."""
        if self.terminal and self.shown:
            self.stream.write("\r" + " " * self.shown + "\r")
            self.stream.flush()
            self.shown = 0


class Progress(Line):
    """A run. Call `update` as often as is convenient; it looks at the clock and mostly returns at once."""

    def __init__(
        self,
        duration_ns: int,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream, clock, TERMINAL_EVERY_S)
        self.duration_ns = max(int(duration_ns), 1)
        self.last_events = 0
        self.last_ns = 0

    def update(self, sim_ns: int, events: int, in_flight: int) -> None:
        """Simulated time reached, events handled in all, messages under way."""
        now = self.clock()
        if self.due(now):
            self.show(self.line(sim_ns, events, in_flight, now), now)
            self.last_events, self.last_ns = events, sim_ns

    def line(self, sim_ns: int, events: int, in_flight: int, now: float) -> str:
        """The text of one line."""
        wall_s = max(now - self.last, 1e-9)
        share = min(sim_ns / self.duration_ns, 1.0)
        pace = (sim_ns - self.last_ns) / 1e9 / wall_s
        left = to_go(self.estimate.left_s(share, now))
        rate = _short((events - self.last_events) / wall_s)
        return (
            f"{sim_ns / 1e9:.1f} s simulated ({share:.0%}) · {rate} events/s"
            f" · {pace:.2g} s per s · {_short(in_flight)} in flight{left}"
        )


class PointProgress(Line):
    """The points of a sweep: those that have ended, and those to go. The last one always shows."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, clock, 0.0)

    def __call__(self, ended: int, failed: int, points: int) -> None:
        now = self.clock()
        if self.due(now) or ended == points:
            self.show(self.line(ended, failed, points, now), now)

    def line(self, ended: int, failed: int, points: int, now: float) -> str:
        """The text of one line."""
        elapsed_s = now - self.started
        left = to_go(self.estimate.left_s(ended / points, now)) if ended < points else ""
        wrong = f" · {failed} failed" if failed else ""
        return f"{ended} of {points} points ({ended / points:.0%}){wrong} · {clock_text(elapsed_s)}{left}"


def to_go(left_s: float | None) -> str:
    """The end of a line; nothing where nothing can be said."""
    return "" if left_s is None else f" · {clock_text(left_s)} to go"


def _short(number: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.0f}"


def clock_text(seconds: float) -> str:
    whole = int(seconds + 0.5)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 60} min {whole % 60:02} s" if whole >= 60 else f"{whole} s"
