"""Live progress on stderr: what changes in place on a terminal, else a plain line every few seconds.

Of a run: simulated time and share, events per second of wall time (since the last line, so that slowing shows),
simulated seconds per second, messages in flight, time to go. Of whatever has pieces (points of a sweep, trials,
experiments, groups of figures): those that ended, failed, are to go. All commands that take long speak through this.

A time to go is shown once it means something, by the rule of `Estimate`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TextIO

from brokers.interrupting import undisturbed

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
    """What changes in place on a terminal, cut to its size; elsewhere plain lines, no more than one every few seconds.

    Use it as a context, or close it: then the terminal is as it was.
    """

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic,
        terminal_every_s: float = TERMINAL_EVERY_S, pipe_every_s: float = PIPE_EVERY_S,
    ) -> None:  # fmt: skip
        self.stream = sys.stderr if stream is None else stream
        self.clock = clock
        self.terminal = changes_in_place(self.stream)
        self.every_s = terminal_every_s if self.terminal else pipe_every_s
        self.started = self.last = clock()
        self.shown: list[str] = []  # what stands on the terminal now
        self.estimate = Estimate(self.started)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def due(self, now: float) -> bool:
        """Whether it is time for another line."""
        return now - self.last >= self.every_s

    def show(self, text: str, now: float) -> None:
        """Put up a line, or several, in place of the last where that is possible."""
        self.last = now
        if self.terminal:
            columns, rows = _size(self.stream)
            fresh = [each[: columns - 1] for each in text.split("\n")[: max(1, rows - 1)]]
            lines = "\n".join(f"{self.paint(each)}{_REST_OF_LINE}" for each in fresh)
            self._write(f"{self._back()}{lines}{_REST_OF_SCREEN}", fresh)
        else:
            self.stream.write(text + "\n")
            self.stream.flush()

    def paint(self, line: str) -> str:
        """A line that was cut, with its colours."""
        return line

    def say(self, text: str, stream: TextIO | None = None) -> None:
        """A sentence that stays, above what changes; on another stream where one is named."""
        below = "\n".join(self.shown)
        self.close()
        print(text, file=self.stream if stream is None else stream, flush=True)
        if below:
            self.show(below, self.last)

    def close(self) -> None:
        """Clear what is shown."""
        if self.shown:
            self._write(self._back() + _REST_OF_SCREEN, [])

    def _write(self, text: str, fresh: list[str]) -> None:
        """Change the terminal and what is known of it together, so that whatever is interrupted finds it again."""
        with undisturbed():
            self.stream.write(text)
            self.stream.flush()
            self.shown = fresh

    def _back(self) -> str:
        """To where what is shown begins."""
        up = len(self.shown) - 1
        return f"\x1b[{up}A\r" if up > 0 else "\r"


_REST_OF_LINE, _REST_OF_SCREEN = "\x1b[K", "\x1b[J"


def changes_in_place(stream: TextIO) -> bool:
    """Whether what a stream shows can be written over."""
    return bool(stream.isatty()) and (os.environ.get("TERM") or "dumb") != "dumb"


def coloured(stream: TextIO) -> bool:
    """Whether colours are seen there, and wanted (https://no-color.org)."""
    return changes_in_place(stream) and not os.environ.get("NO_COLOR")


def _size(stream: TextIO) -> tuple[int, int]:
    """Columns and rows of a terminal."""
    try:
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):  # a stream that only says it is one
        return _COLUMNS, _ROWS
    return found.columns or _COLUMNS, found.lines or _ROWS


_COLUMNS, _ROWS = 80, 24


class Progress(Line):
    """A run. Call `update` as often as is convenient; it looks at the clock and mostly returns at once."""

    def __init__(
        self,
        duration_ns: int,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream, clock)
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
        rate = short((events - self.last_events) / wall_s)
        return (
            f"{sim_ns / 1e9:.1f} s simulated ({share:.0%}) · {rate} events/s"
            f" · {pace:.2g} s per s · {short(in_flight)} in flight{left}"
        )


class Steps(Line):
    """Pieces of work: those that have ended, and those to go. The last one always shows."""

    def __init__(
        self, what: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`what`: the pieces, as in `points`."""
        super().__init__(stream, clock, 0.0)
        self.what = what

    def __call__(self, ended: int, failed: int, pieces: int, note: str = "") -> None:
        """`note`: what else there is to say now."""
        now = self.clock()
        if self.due(now) or ended == pieces:
            self.show(self.line(ended, failed, pieces, now, note), now)

    def line(self, ended: int, failed: int, pieces: int, now: float, note: str = "") -> str:
        """The text of one line."""
        left = to_go(self.estimate.left_s(ended / pieces, now)) if ended < pieces else ""
        wrong = f" · {failed} failed" if failed else ""
        more = f" · {note}" if note else ""
        took = clock_text(now - self.started)
        return f"{ended:,} of {pieces:,} {self.what} ({ended / pieces:.0%}){wrong}{more} · {took}{left}"


@contextmanager
def ticking(line: Line, text: Callable[[float], str]) -> Iterator[None]:
    """Show a text of the seconds passed now and then while the block lasts, from a thread that only reads."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(_LOOK_EVERY_S):
            now = line.clock()
            if line.due(now):
                line.show(text(now - line.started), now)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        line.close()


_LOOK_EVERY_S = 0.5


def to_go(left_s: float | None) -> str:
    """The end of a line; nothing where nothing can be said."""
    return "" if left_s is None else f" · {clock_text(left_s)} to go"


def short(number: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.0f}"


def clock_text(seconds: float) -> str:
    whole = int(seconds + 0.5)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 60} min {whole % 60:02} s" if whole >= 60 else f"{whole} s"
