"""What fails when: the faults of a run as plain data, known from the start.

A schedule is a pure function of scenario and seed, so nobody waits for a fault: what is to become of a message, a timer
or a delivery is looked up when it is sent, set or decided on. That makes a crash exact without undoing anything.

- A broker that *crashes* handles nothing while it is down. What would leave it after that does not leave; what arrives
  then is lost. Once it is up again it knows what it knew, or only what it stored, or nothing.
- A broker that *pauses* goes on with its work afterwards; a *slow* one takes so many times as long.
- What is on a link when it is *cut* is lost, and what is sent while it is.
- A *worn* link loses or doubles more, takes longer, or has less bandwidth. A delay is only ever added to.

    schedule = Schedule((Crash(3, 2 * S, 5 * S), Cut(link, 1 * S, 2 * S)), detect_ns=100 * MS)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from brokers.errors import InvalidInput

NEVER = 1 << 62
# What a broker is told, as types of events of the kind FAULT.
LINK_DOWN, LINK_UP, RESTART, OPENED, CLOSED = range(5)
# What a broker that is up again knows, which the word of a RESTART says: all, what it stored, nothing.
KEPT, STORED, LOST = range(3)
STATES = ("kept", "stored", "lost")

# Why a message was lost.
# From AWAY on it is a delivery to a client that had left: what a broker was not done with before, what its session did
# not keep. No copy is lost then, and nobody else is concerned.
ON_LINK, CUT_OFF, CRASHED, NO_PLACE, NO_PLACE_AHEAD, AWAY, EXPIRED = range(7)
REASONS = ("link", "cut", "crash", "queue", "send queue", "away", "expired")
DOUBLED = -1  # noted as losses are: it was not lost, it arrives twice


class Crash(NamedTuple):
    """A broker is down from `begin` until before `end`."""

    broker: int
    begin: int
    end: int = NEVER
    state: int = KEPT  # what is left of what it knew
    entry: int = 0  # which of the scenario's faults it belongs to


class Slow(NamedTuple):
    """A broker takes `factor` times as long; 0: it pauses."""

    broker: int
    begin: int
    end: int
    factor: float
    entry: int = 0


class Cut(NamedTuple):
    """A directed link carries nothing."""

    link: int
    begin: int
    end: int = NEVER
    entry: int = 0


class Worn(NamedTuple):
    """A directed link is worse than it was."""

    link: int
    begin: int
    end: int
    loss: float = 0.0
    twice: float = 0.0  # the share of messages that arrive twice
    delay: int = 0  # ns more
    slower: float = 1.0  # transmission takes so many times as long
    entry: int = 0
    begins: float = 0.0  # how likely it turns bad for the next message; it loses `bad` then, in place of `loss`
    ends: float = 1.0  # how likely good again; of several that hold at once, the bursts that lose most are those
    bad: float = 0.0

    @property
    def share(self) -> float:
        """The share of messages that find it bad, in the long run."""
        return self.begins / (self.begins + self.ends) if self.begins else 0.0


class Open(NamedTuple):
    """A latent link is open, in both directions. No fault: nothing is broken, and nothing has to heal."""

    link: int  # undirected
    begin: int
    end: int = NEVER
    entry: int = 0


Fault = Crash | Slow | Cut | Worn


@dataclass(frozen=True)
class Schedule:
    """Everything that fails in a run."""

    faults: tuple[Fault, ...] = ()
    detect_ns: int = NEVER  # after which brokers are told of links that go down and come up; NEVER: they are not
    opens: tuple[Open, ...] = ()  # and when latent links are open

    @classmethod
    def made_of(cls, made: Iterable[Fault | Open], detect_ns: int = NEVER) -> Schedule:
        """Of all that entries gave, in their order."""
        every = tuple(made)
        opens = tuple(each for each in every if isinstance(each, Open))
        return cls(tuple(each for each in every if not isinstance(each, Open)), detect_ns, opens)

    def __bool__(self) -> bool:
        return bool(self.faults)

    @property
    def forgetful(self) -> bool:
        """Whether a broker ever comes back without what it knew."""
        return any(crash.state != KEPT and crash.end < NEVER for crash in self.of(Crash))

    def of(self, sort: type) -> list[Any]:
        """The faults of one sort."""
        return [each for each in self.faults if isinstance(each, sort)]


NOTHING = Schedule()


def at_a_stretch(crashes: Iterable[Crash]) -> list[Crash]:
    """Crashes of a broker that overlap or touch are one, and of what it knew the least is left."""
    found: list[Crash] = []
    for crash in sorted(crashes, key=lambda each: (each.broker, each.begin)):
        if found and found[-1].broker == crash.broker and crash.begin <= found[-1].end:
            last = found.pop()
            crash = last._replace(end=max(last.end, crash.end), state=max(last.state, crash.state))
        found.append(crash)
    return found


def noticed(broken: list[tuple[int, int]], detect_ns: int) -> list[tuple[int, int]]:
    """From when until when a link counts as down that is broken then: later by the time it takes to notice."""
    joined: list[list[int]] = []
    for begin, end in sorted(broken):
        if joined and begin <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([begin, end])
    found: list[list[int]] = []
    for begin, end in joined:
        if found and begin <= found[-1][1] + detect_ns:
            found[-1][1] = end  # nobody noticed that it was up in between
        elif end > begin + detect_ns:
            found.append([begin, end])
    return [(begin + detect_ns, min(end + detect_ns, NEVER)) for begin, end in found]


class WrongFault(InvalidInput):
    """An entry of a schedule that does not go with the network; `path` leads to what is wrong in it."""

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True)
class FaultContext:
    """What an entry of a schedule may know."""

    seed: int
    entry: int  # its number: a draw is named by seed and entry
    overlay: Any  # topology.overlay.Overlay
    duration_ns: int

    def broker(self, reference: str | int, path: tuple[str | int, ...]) -> int:
        """The number of the broker with this name or number; WrongFault if there is none."""
        try:
            return int(self.overlay.broker(reference))
        except ValueError as error:
            raise WrongFault(str(error).removeprefix("broker: "), path) from error

    def brokers_like(self, reference: str | int, path: tuple[str | int, ...]) -> list[int]:
        """The numbers of the brokers whose names are like `b*`, or of the one meant; WrongFault if there is none."""
        try:
            return [int(b) for b in self.overlay.brokers_like(reference)]
        except ValueError as error:
            raise WrongFault(str(error).removeprefix("broker: "), path) from error

    def between(self, ends: tuple[str | int, str | int]) -> int:
        """The directed link that leads from the first of two brokers to the second; WrongFault if there is none."""
        return self.link(*(self.broker(each, ("link",)) for each in ends))

    def link(self, source: int, target: int) -> int:
        """The directed link from a broker to its neighbour; WrongFault if there is none."""
        overlay, ends = self.overlay, (min(source, target), max(source, target))
        found = np.flatnonzero((overlay.link_a == ends[0]) & (overlay.link_b == ends[1]))
        if not found.size:
            graph, (one, other) = overlay.adjacency, (overlay.names[source], overlay.names[target])
            near = [overlay.names[b] for b in graph.neighbour[graph.start[source] : graph.start[source + 1]]]
            shown = ", ".join(near[:8]) + (", ..." if len(near) > 8 else "")
            raise WrongFault(f"there is no link from {one} to {other}; {one} has links to {shown}", ("link",))
        return 2 * int(found[0]) + (source > target)
