"""What happened to a publication and to what of a client wants it, step by step in the order of time."""

from __future__ import annotations

from typing import Any

from analysis.ways.hearing import TOLD
from analysis.ways.pair import Decision, Pair, lasts
from analysis.ways.told import Hop, why_lost

_LEANING_MOST = 30  # events of a change of others that are told
Step = tuple[int, int, str, str]  # when, its place among what is at the same time, where, what


def steps(pair: Pair, decision: Decision) -> list[dict[str, Any]]:
    """Steps as plain data: time_ns, broker, what."""
    near = pair.near(decision)
    found: list[Step] = [*_interests(pair), *_hearing(pair, decision, near), *_last(pair, decision), *_faults(pair)]
    found += _way(pair, near) + _leaning(pair, decision) + _decided(pair)
    return [{"time_ns": at, "broker": where, "what": what} for at, _, where, what in sorted(found)]


def _interests(pair: Pair) -> list[Step]:
    """What the client asked for, and when it took that back."""
    told, found = pair.told, []
    interests = {row["interest"] for row in pair.standing or pair.wanting}
    for row in pair.changes:
        if row["interest"] in interests and row["issued_ns"] >= 0:
            what = (
                f"{told.client(pair.client)} sends {told.message(row['change'])} ({told.type_name(row['operation'])})"
            )
            found.append((row["issued_ns"], 0, pair.at(row["broker"]), what))
    found += [
        (0, 0, "", f"{told.message(row['change'])} of {told.client(pair.client)} stands from the beginning, everywhere")
        for row in pair.standing if row["issued_ns"] < 0
    ]  # fmt: skip
    return found


def _hearing(pair: Pair, decision: Decision, near: set[int]) -> list[Step]:
    """Where the client's interests were heard of; at the broker that the decision is about, those of others too."""
    told = pair.told
    found = []
    for heard in pair.of_mine + pair.others(decision):
        hop = heard.hop
        if hop is None or hop.link < 0 or hop.broker not in near:
            continue
        source = pair.at(told.links[hop.link]["from"])
        verb = "hears of" if heard.says == TOLD else "hears of the withdrawal of"
        why = "" if hop.cause == heard.about["change"] else f", caused by {pair.because(hop.cause)}"
        if not heard.sure:
            verb = f"gets a {told.type_name(hop.type)} about"
            why = f", caused by {pair.because(hop.cause)}"
        found.append((hop.time_ns, 1, pair.at(hop.broker), f"{verb} {pair.asked(heard.about)} from {source}{why}"))
    return found


def _leaning(pair: Pair, decision: Decision) -> list[Step]:
    """The way of a change that the decision turns on, where it is none of the client's interests."""
    told, change = pair.told, decision.change
    row = None if change is None or told.explaining is None else told.change(change)
    if row is None or row["interest"] in {each["interest"] for each in pair.standing or pair.wanting}:
        return []
    name, operation = told.message(row["change"]), told.type_name(row["operation"])
    found = [(row["issued_ns"], 0, pair.at(row["broker"]), f"{told.client(row['client'])} sends {name} ({operation})")]
    for hop in told.hops(cause=row["change"])[:_LEANING_MOST]:
        if hop.link >= 0:
            source = pair.at(told.links[hop.link]["from"])
            found.append((hop.time_ns, 1, pair.at(hop.broker), f"is told of {name} by {source}"))
    return found


def _decided(pair: Pair) -> list[Step]:
    """When it was decided who gets it, where somebody decides that first."""
    if pair.told.explaining is None or pair.due.decided is None:
        return []
    decided = pair.due.decided
    client = pair.told.client(pair.client)
    what = f"decides who gets {pair.name}: {client} does{'' if decided.named else ' not'}"
    return [(decided.time_ns, 3, pair.at(decided.broker), what)]


def _last(pair: Pair, decision: Decision) -> list[Step]:
    """The change that the broker had handled last before it withheld."""
    if decision.last is None or decision.broker is None:
        return []
    told = pair.told
    return [
        (
            hop.time_ns,
            1,
            pair.at(hop.broker),
            f"handles {told.type_name(hop.type)}, caused by {pair.because(hop.cause)}",
        )
        for hop in told.hops(cause=decision.last, broker=decision.broker)
    ]


def _way(pair: Pair, near: set[int]) -> list[Step]:
    """Where the publication was handled, lost and delivered."""
    told, way = pair.told, pair.way
    found = []
    for hop in (each for each in way.hops if each.broker in near):
        if hop.link >= 0:
            source = f"from {pair.at(told.links[hop.link]['from'])}"
        else:
            source = "by a timer" if hop.kind == 2 else f"from {told.client(pair.publication['client'])}"
        found.append((hop.time_ns, 2, pair.at(hop.broker), f"{_does(pair, hop)} {source}{_onward(pair, hop)}"))
    for row in way.losses:
        if row["link"] >= 0 and told.links[row["link"]]["from"] in near:
            link = told.links[row["link"]]
            what = f"its copy to {pair.at(link['to'])} is lost ({why_lost(row)})"
            found.append((row["time_ns"], 3, pair.at(link["from"]), what))
    for row in pair.got:
        found.append((row["time_ns"], 4, pair.at(row["broker"]), f"delivers {pair.name} to {told.client(pair.client)}"))
    return found


def _does(pair: Pair, hop: Hop) -> str:
    """What a broker does by an event."""
    explaining = pair.told.explaining
    if explaining is not None and hop.type in explaining.asks:
        return f"gets the question who wants {pair.name}"
    if explaining is not None and hop.type in explaining.answers:
        return "gets an answer to that"
    return f"handles {pair.name}"


def _onward(pair: Pair, hop: Hop) -> str:
    """What it sends then, as far as it arrived."""
    sent = [each for each in pair.way.sent(hop) if each.broker != hop.broker]
    explaining, found = pair.told.explaining, ""
    asks, answers = ((), ()) if explaining is None else (explaining.asks, explaining.answers)
    parts = {
        "asks": [each.broker for each in sent if each.type in asks],
        "answers": [each.broker for each in sent if each.type in answers],
        "sends it to": [each.broker for each in sent if each.type not in asks and each.type not in answers],
    }
    for what, to in parts.items():
        found += f", {what} {pair.several(to)}" if to else ""
    return found


def _faults(pair: Pair) -> list[Step]:
    """What failed meanwhile where any of this happened."""
    told = pair.told
    first = min([pair.sent_ns, *(row["issued_ns"] for row in pair.standing)])
    seen = set(pair.informed) | set(pair.way.at)
    if pair.home is not None:
        seen.add(pair.home)
    found = []
    for fault in told.faults:
        ends = {fault.broker} if fault.link < 0 else {told.links[fault.link]["from"], told.links[fault.link]["to"]}
        if ends & seen and fault.overlaps(first, pair.end_ns):
            where = pair.at(fault.broker) if fault.broker >= 0 else ""
            found.append((max(0, fault.begin_ns), 0, where, f"{told.what(fault)}, {lasts(fault)}"))
    return found
