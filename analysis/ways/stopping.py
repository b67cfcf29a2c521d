"""Why a run did not come to its end: what goes round in a storm, and how it began; what a broker raised, and when.

Told from the trace up to there, which has neither what was settled by then nor what was to come.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from analysis.ways.pair import Decision, listed, when
from analysis.ways.rows import FAILS, Line, Picture, label, of_events
from analysis.ways.told import Hop, Told
from brokers.contract import FAULT, TIMER

if TYPE_CHECKING:
    from scenarios.hunt.stopped import Stopped

STORM, RAISED = "storm", "raised"
_LAST = 2_000  # events that tell what a storm is made of
_SHOWN, _STEPS, _NAMES_MOST = 40, 12, 8
_FEW = 0.5  # what makes up less of the last events than this is no one message

Key = tuple[int, ...]


@dataclass
class Stopping:
    """Why a run stopped: a decision, the events that show it, and what else there is to draw."""

    told: Told
    title: str
    decision: Decision
    events: list[Hop]
    more: list[Line] = field(default_factory=list)

    @property
    def picture(self) -> Picture:
        return of_events(self.told, self.title, self.events, self.more)

    @property
    def lines(self) -> list[str]:
        """The explanation for people."""
        told, said = self.told, [f"verdict: {self.decision.verdict}", *(f"  {each}" for each in self.decision.said)]
        times = [when(hop.time_ns) for hop in self.events[:_SHOWN]]
        width, wide = max(map(len, times), default=0), max(map(len, told.names), default=0)
        said += ["step by step:"] if times else []
        for hop, time in zip(self.events, times):
            said.append(f"  {time:>{width}}  {told.names[hop.broker]:<{wide}}  {_handles(told, hop)}")
        said += [f"  {' ' * width}  {told.names[each.broker]:<{wide}}  {each.text}" for each in self.more]
        return said


def stopping(found: Stopped) -> Stopping:
    """What is known of a run that was cut short."""
    told = Told.of_tables(found.tables, found.kind)
    return _storm(told, found) if found.endless else _raised(told, found)


# ---- storms -----------------------------------------------------------------------------------------------


def _storm(told: Told, found: Stopped) -> Stopping:
    hops = told.hops()
    last = hops[-_LAST:]
    key, count = _most(last)
    turns = [hop for hop in hops if _key(hop, len(key)) == key]
    said = [f"{found.told[:1].upper()}{found.told[1:]}."]
    if not turns:
        return Stopping(told, STORM, Decision(STORM, said), [])
    first = turns[0]
    what = f"timers ({_name(told, first)})" if first.kind == TIMER else _name(told, first)
    brokers = sorted({hop.broker for hop in last if _key(hop, len(key)) == key})
    where = listed([told.names[each] for each in brokers[:_NAMES_MOST]])
    said.append(f"Of the last {len(last):,} events that the trace has {count:,} are {what}, at {where}.")
    decision = _timers(told, turns, said) if first.kind == TIMER else _round(told, turns, said)
    return Stopping(told, f"how the storm of {_name(told, first)} began", decision, turns[:_SHOWN])


def _key(hop: Hop, parts: int) -> Key:
    """What makes two events the same message again: the coarser, the fewer parts."""
    timer = int(hop.kind == TIMER)
    return (timer, hop.type, hop.broker if timer else -1, hop.body, hop.cause, hop.word)[:parts]


def _most(hops: list[Hop]) -> tuple[Key, int]:
    """What most of some events are."""
    for parts in (6, 5, 3, 2):
        found = Counter(_key(hop, parts) for hop in hops).most_common(1)
        if found and (found[0][1] >= _FEW * len(hops) or parts == 2):
            return found[0]
    return (), 0


def _timers(told: Told, turns: list[Hop], said: list[str]) -> Decision:
    first, broker = turns[0], told.names[turns[0].broker]
    gaps = [b.time_ns - a.time_ns for a, b in pairwise(turns) if a.broker == b.broker]
    apart = f", {when(min(gaps))} apart at the least" if gaps else ""
    said.append(f"{broker} was the first: at {when(first.time_ns)}; its timers went off {len(turns):,} times{apart}.")
    return Decision(STORM, said, first.broker, change=first.cause if first.cause >= 0 else None)


def _round(told: Told, turns: list[Hop], said: list[str]) -> Decision:
    """Who was the first to get it again, and from whom; and by what way it goes round."""
    first, seen = turns[0], dict[int, Hop]()
    source = f"client {first.source - told.nodes}" if first.source >= told.nodes else told.names[first.source]
    said.append(f"It began at {told.names[first.broker]}, which got it from {source} at {when(first.time_ns)}.")
    change = first.cause if first.cause >= 0 else None
    for hop in turns:
        if hop.broker in seen and hop.link >= 0:
            sender = int(told.links[hop.link]["from"])
            before = seen[hop.broker]
            said.append(
                f"{told.names[hop.broker]} was the first to get it again: at {when(hop.time_ns)} from "
                f"{told.names[sender]}, after {when(before.time_ns)}."
            )
            said += _loop(told, turns)
            return Decision(STORM, said, sender, hop.broker, change)
        seen.setdefault(hop.broker, hop)
    return Decision(STORM, said, first.broker, change=change)


def _loop(told: Told, turns: list[Hop]) -> list[str]:
    """The way round, from the last event back."""
    at: dict[int, list[Hop]] = {}
    for hop in turns:
        at.setdefault(hop.broker, []).append(hop)
    way, hop = [turns[-1]], turns[-1]
    while hop.link >= 0:
        link = told.links[hop.link]
        done = [each for each in at.get(link["from"], ()) if each.finish_ns <= hop.time_ns - link["delay_ns"]]
        if not done:
            return []
        hop = max(done)
        after = next((at for at, each in enumerate(way) if each.broker == hop.broker), None)
        way.append(hop)
        if after is not None:
            names = " - ".join(told.names[each.broker] for each in reversed(way[after:]))
            return [f"It goes round by {names}, in {when(way[after].time_ns - hop.time_ns)}."]
    return []


# ---- errors -----------------------------------------------------------------------------------------------


def _raised(told: Told, found: Stopped) -> Stopping:
    hops, message = told.hops(), found.message
    said = [f"{found.told[:1].upper()}{found.told[1:]}."]
    if message is None:
        last = hops[-1] if hops else None
        if last is None:
            return Stopping(told, RAISED, Decision(RAISED, [*said, "Nothing had been handled by then."]), [])
        said.append("Which broker was at work, the error does not tell.")
        said.append(f"The last event of the trace is at {told.names[last.broker]}, at {when(last.time_ns)}.")
        broker = last.broker
        return Stopping(told, RAISED, Decision(RAISED, said, broker, sure=False), hops[-_STEPS:])
    hop = Hop(
        message.time, message.kind, message.source, 1 << 62, found.broker, message.link, 0, message.type, -1,
        message.word, message.cause, message.time,
    )  # fmt: skip
    here = [each for each in hops if each.broker == found.broker and each.place < hop.place]
    name = told.names[found.broker]
    said.append(f"{name} raised it when it {_handles(told, hop, past=True)}, at {when(hop.time_ns)}.")
    events = "nothing" if not here else f"{len(here):,} event{'s' if len(here) > 1 else ''}"
    said.append(f"Before that it had handled {events}.")
    near = sorted({*hops[-_STEPS:], *here[-_STEPS:], hop})
    raises = Line(hop.time_ns, 9, FAILS, found.broker, f"raises: {found.told}")
    change = message.cause if message.cause >= 0 else None
    return Stopping(told, RAISED, Decision(RAISED, said, found.broker, change=change), near, [raises])


# ---- in words ---------------------------------------------------------------------------------------------


def _name(told: Told, hop: Hop) -> str:
    return label(told, hop.type, hop.body, hop.cause, hop.word)


def _handles(told: Told, hop: Hop, past: bool = False) -> str:
    if hop.kind == FAULT:
        return f"{'was' if past else 'is'} told of a fault"
    verb = "handled" if past else "handles"
    if hop.kind == TIMER:
        return f"{verb} a timer ({_name(told, hop)})"
    source = f"client {hop.source - told.nodes}" if hop.link < 0 else told.names[told.links[hop.link]["from"]]
    return f"{verb} {_name(told, hop)} from {source}"
