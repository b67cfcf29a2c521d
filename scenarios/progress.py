"""Live progress on stderr: one changing line on a terminal, else a plain line every few seconds.

Of a run: simulated time and share, events per second of wall time (since the last line, so that slowing shows),
simulated seconds per second, messages in flight, time to go. Of a sweep: points ended, failed, to go.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

TERMINAL_EVERY_S = 0.1
PIPE_EVERY_S = 5.0


class Line:
    """A changing line on a terminal; elsewhere plain lines, no more than one every few seconds."""

    def __init__(self, stream: TextIO | None, clock: Callable[[], float], terminal_every_s: float) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.clock = clock
        self.terminal = bool(self.stream.isatty())
        self.every_s = terminal_every_s if self.terminal else PIPE_EVERY_S
        self.started = self.last = clock()
        self.shown = 0  # characters of the live line

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
        elapsed_s = now - self.started
        left = clock_text(elapsed_s * (1 - share) / share) if share > 0 else "?"
        rate = _short((events - self.last_events) / wall_s)
        return (
            f"{sim_ns / 1e9:.1f} s simulated ({share:.0%}) · {rate} events/s"
            f" · {pace:.2g} s per s · {_short(in_flight)} in flight · {left} to go"
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
        left = clock_text(elapsed_s * (points - ended) / ended) if ended else "?"
        wrong = f" · {failed} failed" if failed else ""
        return f"{ended} of {points} points ({ended / points:.0%}){wrong} · {clock_text(elapsed_s)} · {left} to go"


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
