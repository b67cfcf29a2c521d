"""What a decision leans on beside the interest itself: whether a broker had handled a change by then, and if not, why.

A message tells of the change that caused it. What a protocol's own messages of other causes say, a trace does not tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analysis.ways.missing import LOST_IT, NEVER_TOLD, TOO_LATE, fault_of, lost_change, said_down
from analysis.ways.pair import Decision, Pair, when
from analysis.ways.told import Hop, why_lost
from brokers.contract import FIRST_PROTOCOL_TYPE, MESSAGE
from protocols.explaining import EXCUSED, FREE, Lean

_LOOKED_AT = 200  # changes


def ignorant(pair: Pair, broker: int, leans: Sequence[Lean], place: Sequence[int]) -> Decision | None:
    """What a broker had not handled of that before a place in its order; None if it had handled all of it."""
    for lean in leans:
        row = pair.told.change(lean.change)
        if row is None or row["issued_ns"] < 0:
            continue
        hops = [hop for hop in pair.told.hops(broker=broker, cause=lean.change) if hop.kind == MESSAGE]
        if not any(hop.place < tuple(place) for hop in hops):
            return _unknown(pair, broker, lean, hops, place)
    return None


def _unknown(pair: Pair, broker: int, lean: Lean, hops: list[Hop], place: Sequence[int]) -> Decision:
    told = pair.told
    said = [f"By then {pair.at(broker)} had not handled {pair.because(lean.change)}, which {lean.said}."]
    if hops:
        late = hops[0].time_ns - place[0]
        how = f"{when(late)} too late" if late else "just after"
        said.append(f"That came there at {when(hops[0].time_ns)}: {how}.")
        return Decision(TOO_LATE, said, broker, change=lean.change, by_ns=late)
    lost = lost_change(pair, {lean.change})
    if lost is not None:
        fault = fault_of(pair, lost["link"], lost["time_ns"])
        where = f"{told.over(lost['link'])} at {when(lost['time_ns'])}"
        said.append(f"A message of it was lost {where} ({why_lost(lost)}).")
        decision = Decision(LOST_IT, said, broker, change=lean.change, fault=fault)
        return decision.but("" if fault is None else said_down(pair, fault))
    held, sentence = stops(pair, lean.change, broker)
    own = [hop for hop in told.hops(broker=broker) if hop.type >= FIRST_PROTOCOL_TYPE and hop.place < tuple(place)]
    row = told.change(lean.change)
    may = [hop for hop in own if (hop.link >= 0 and hop.body < 0) or hop.word == lean.word]
    unsure = [hop for hop in may if row is not None and hop.time_ns > row["issued_ns"] and hop.cause != lean.change]
    decision = Decision(NEVER_TOLD, [*said, sentence], broker, change=lean.change, held=held, sure=not unsure)
    if unsure:
        types = ", ".join(sorted({told.type_name(hop.type) for hop in unsure}))
        decision.but(f"Messages of other causes came there since ({types}); what they say the trace does not tell.")
    return decision


def stops(pair: Pair, change: int, target: int) -> tuple[int | None, str]:
    """Where the way of a change to a broker stops, and that as a sentence."""
    told, name = pair.told, pair.told.message(abs(change))
    distance, following = told.nearer(target)
    hops = [hop for hop in told.hops(cause=change) if hop.broker in distance]
    if not hops:
        return None, f"No broker handled {name}."
    near = min(hops, key=lambda hop: (distance[hop.broker], hop))
    to = sorted({hop.broker for hop in hops if hop.link >= 0 and told.links[hop.link]["from"] == near.broker})
    return near.broker, (
        f"The way of {name} stops at {pair.at(near.broker)}, which handled it at {when(near.time_ns)} and passed it "
        f"on to {pair.several(to)}, not to {pair.at(following[near.broker])}."
    )


def tell_others(pair: Pair) -> bool:
    """Whether in this run any broker told another of an interest: of the first ones, for there may be many."""
    told = pair.told
    asks = told.kind.wants() - told.kind.publications  # objects of `spatial` are told of as publications are
    rows = told.rows("changes", service=told.service, operation=set(asks))
    changes = {row["change"] for row in rows[:_LOOKED_AT]}
    return bool(changes) and any(hop.link >= 0 for hop in told.hops(cause=changes, kind=MESSAGE))


def judged(decision: Decision, due: str, rule: list[str], came: bool) -> Decision:
    """The same with what the definition says of it."""
    decision.due, decision.rule = due, rule
    if not came and due == FREE:
        decision.but("That breaks no promise by itself: what it leans on was in flight or ending.")
    if not came and due == EXCUSED:
        decision.but("What was lost excuses it.")
    return decision


def beneath(decision: Decision, said: list[str], verdict: str | None = None) -> Decision:
    """The same with more said first, and under another verdict."""
    return replace(decision, said=[*said, *decision.said], verdict=verdict or decision.verdict)
