"""What a broker knows of one stream: what one broker published, numbered by *ticks* in the order of acceptance.

Of each tick a broker knows nothing (Q), that it is data (D), which it keeps for as long as somebody here waits for it,
or that it is final (F): filtered, acknowledged by all beyond, or no publication at all. Knowledge only grows: Q becomes
D or F, and D becomes F once nobody waits for it any more. F is the usual case, so it is what is known and not kept:

    known     ranges of ticks that are D or F
    bodies    the D among them
    pending   by link, the D that brokers behind it have not acknowledged, ascending
    held      the D that clients here have to get, ascending: what is before them is not known yet

The *doubt horizon* is the first tick that is Q: clients get what is before it. Everything before `done` is final for
all behind this broker, which is what it acknowledges.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from protocols.content.reliable.ranges import Ranges


@dataclass
class Stream:
    """One stream at one broker. It keeps no tick for which nobody waits."""

    of: int  # the publishing broker
    up: int  # the link towards it; -1 there
    reached: int = 0  # ticks before it clients here had before a crash
    known: Ranges = field(default_factory=Ranges)
    head: int = 0  # ticks before it are known to exist
    bodies: dict[int, Any] = field(default_factory=dict)  # tick -> kept body
    waiting: dict[int, int] = field(default_factory=dict)  # tick -> how many links and clients wait
    pending: dict[int, list[int]] = field(default_factory=dict)
    undecided: dict[int, list[int]] = field(default_factory=dict)  # of those, what may not be wanted there
    held: list[int] = field(default_factory=list)
    handing: int = 0  # how many of those are on their way to clients
    acknowledged: int = 0  # as the broker above was told
    asked: Ranges = field(default_factory=Ranges)  # what the broker above was asked for
    beats: int = 0  # since something new was asked for
    curious: list[int] = field(default_factory=list)  # links behind which somebody asked for what is Q here
    has: dict[int, int] = field(default_factory=dict)  # the doubt horizon behind each link, as it was told
    first: dict[int, int] = field(default_factory=dict)  # what was the first pending at the last beat
    stuck: dict[int, int] = field(default_factory=dict)  # for how many beats it has been

    @property
    def doubt(self) -> int:
        """The doubt horizon."""
        return self.known.first_gap()

    @property
    def done(self) -> int:
        """Everything before it is final for all behind this broker."""
        firsts = [ticks[0] for ticks in (*self.pending.values(), self.held) if ticks]
        return min([self.doubt, *firsts])

    @property
    def open(self) -> bool:
        """Whether anybody waits for anything."""
        return (self.up >= 0 and (self.done > self.acknowledged or self.doubt < self.head)) or bool(self.waiting)

    def gaps(self) -> list[tuple[int, int]]:
        """What is known to exist and not known."""
        return list(self.known.gaps(0, self.head))

    def to_ask(self) -> list[tuple[int, int]]:
        """The gaps that nobody was asked for; from now on somebody is."""
        gaps = self.gaps()
        if not gaps:
            self.asked = Ranges()
        wanted = [gap for span in gaps for gap in self.asked.gaps(*span)]
        for span in wanted:
            self.asked.add(*span)
            self.beats = 0
        return wanted

    def keep(self, tick: int, body: Any, links: list[int], held: bool) -> None:
        """Keep a tick for those who wait for it."""
        self.bodies[tick] = body
        self.waiting[tick] = len(links) + held
        for link in links:
            insort(self.pending.setdefault(link, []), tick)
        if held:
            insort(self.held, tick)

    def acknowledge(self, link: int, upto: int) -> list[int]:
        """All behind a link have what is before a tick; returns what they waited for."""
        ticks = self.pending.get(link, [])
        cut = bisect_left(ticks, upto)
        had, ticks[:cut] = ticks[:cut], []
        self.undecided[link] = [tick for tick in self.undecided.get(link, ()) if tick >= upto]
        return had

    def release(self, tick: int) -> Any:
        """One fewer waits for a tick; its body, if that was the last."""
        self.waiting[tick] -= 1
        if self.waiting[tick]:
            return None
        del self.waiting[tick]
        return self.bodies.pop(tick)

    def final_from(self, tick: int, link: int) -> int:
        """From where on up to a tick all is known to be final behind a link."""
        ticks = self.pending.get(link, [])
        at = bisect_left(ticks, tick)
        return max(self.known.start(tick), ticks[at - 1] + 1 if at else 0)

    def final_for(self, link: int, end: int) -> Iterator[tuple[int, int]]:
        """The ranges of ticks before `end` that are final behind a link."""
        data = Ranges((tick, tick + 1) for tick in self.pending.get(link, ()))
        for span in self.known.within(0, end):
            yield from data.gaps(*span)
