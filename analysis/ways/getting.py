"""What is to be said of what a client got: twice, unasked for, or out of order."""

from __future__ import annotations

from itertools import pairwise

from analysis.ways.hearing import TOLD, WITHDRAWN
from analysis.ways.pair import Decision, Pair, lasts, when
from analysis.ways.told import CUT, WORN, Hop, Row
from analysis.ways.way import Way

TWICE, UNASKED, WITHDREW_BEFORE, DISORDER, DELIVERED = (
    "delivered twice", "delivered unasked", "delivered after withdrawal", "delivered out of order", "delivered",
)  # fmt: skip


def twice(pair: Pair) -> Decision:
    """Of what two events the first two deliveries are, and where their ways parted."""
    first, second = pair.got[:2]
    times = f"{pair.told.client(pair.client)} got {pair.name} {len(pair.got)} times"
    said = f"{times}, at {' and '.join(when(row['time_ns']) for row in pair.got[:2])}."
    events = [pair.way.delivering(row) for row in (first, second)]
    if None in events:
        return Decision(TWICE, [said, "Which events delivered it, the trace does not tell."], pair.home, sure=False)
    a, b = (each for each in events if each is not None)
    if a == b and pair.way.at[a.broker].count(a) > 1 and (sender := pair.way.sender(a)) is not None:
        return _over_one_link(pair, [said], sender.broker, a, b)
    if a == b:
        count = sum(row["issued_ns"] >= 0 or row["revoked_ns"] != 0 for row in pair.standing)
        more = f"{pair.at(a.broker)} handled it once, at {when(a.time_ns)}, and delivered it twice."
        wants = f"{count} interests of the client want it." if count > 1 else ""
        return Decision(TWICE, [said, more], a.broker).but(wants)
    return _two_ways(pair, said, pair.way.chain(a), pair.way.chain(b))


def _two_ways(pair: Pair, said: str, one: list[Hop], two: list[Hop]) -> Decision:
    """Two events delivered it; these are the ways by which they came about."""
    ways = [f"One copy came {_over(pair, each)}." for each in (one, two)]
    common = next((at for at, (a, b) in enumerate(zip(one, two)) if a != b), min(len(one), len(two)))
    if common == 0:
        return Decision(TWICE, [said, *ways, "Where they parted, the trace does not tell."], one[-1].broker, sure=False)
    at = one[common - 1].broker
    if common in (len(one), len(two)):
        return _came_back(pair, said, max(one, two, key=len), common)
    a, b = one[common], two[common]
    if a.link == b.link:
        return _over_one_link(pair, [said, *ways], at, a, b)
    said_parted = (
        f"They parted at {pair.at(at)}, which handled it at {when(one[common - 1].time_ns)} and sent it to "
        f"{pair.at(a.broker)} and to {pair.at(b.broker)}."
    )
    behind = [hop.broker for hop in one[common:]] + [hop.broker for hop in two[common:]]
    met = min((pair.way.at[each][1].place, each) for each in behind if len(pair.way.at[each]) > 1)[1]
    times = " and ".join(when(hop.time_ns) for hop in pair.way.at[met][:2])
    again = f"{pair.at(met)} was the first to handle it again: at {times}."
    return Decision(TWICE, [said, *ways, said_parted, again], at, b.broker)


def _over(pair: Pair, chain: list[Hop]) -> str:
    return f"over {' - '.join(pair.at(hop.broker) for hop in chain)}, to the last at {when(chain[-1].time_ns)}"


def _came_back(pair: Pair, said: str, chain: list[Hop], common: int) -> Decision:
    """The second copy stems from the event that delivered the first."""
    seen = {hop.broker for hop in chain[:common]}
    for before, after in pairwise(chain[common - 1 :]):
        if after.broker in seen and before.broker != after.broker:
            back = (
                f"{pair.at(before.broker)} handled it at {when(before.time_ns)} and sent it on to "
                f"{pair.at(after.broker)}, which had handled it already."
            )
            if not pair.told.is_tree:
                again = f"There are cycles; {pair.at(after.broker)} took it once more, at {when(after.time_ns)}."
                ways = f"The second copy came {_over(pair, chain)}."
                return Decision(TWICE, [said, ways, back, again], after.broker, before.broker)
            return Decision(
                TWICE, [said, f"The second copy came {_over(pair, chain)}.", back], before.broker, after.broker
            )
        seen.add(after.broker)
    again = f"{pair.at(chain[-1].broker)} handled it again by a timer, at {when(chain[-1].time_ns)}."
    return Decision(TWICE, [said, again], chain[-1].broker)


def _over_one_link(pair: Pair, said: list[str], at: int, a: Hop, b: Hop) -> Decision:
    """One broker sent it twice to another, or the link doubled it."""
    for row in pair.way.doubled:
        if row["link"] == a.link:
            fault = next(
                (each for each in pair.told.faults
                 if each.link == a.link and each.what == WORN and each.overlaps(row["time_ns"], row["time_ns"])),
                None,
            )  # fmt: skip
            why = f"The link {pair.told.over(a.link)} doubled it, at {when(row['time_ns'])}."
            more = "" if fault is None else f"It was worn {lasts(fault)}."
            return Decision(TWICE, [*said, why], at, a.broker, fault=fault).but(more)
    times = f"at {when(a.time_ns)} and {when(b.time_ns)}"
    why = f"{pair.at(at)} sent it twice to {pair.at(a.broker)}, which handled it {times}."
    return Decision(TWICE, [*said, why], at, a.broker)


def unasked(pair: Pair) -> Decision:
    """It came, though nothing of the client that can count wants it."""
    row = pair.got[0]
    hop = pair.way.delivering(row)
    by = f"{pair.at(row['broker'])} delivered {pair.name} to {pair.told.client(pair.client)} at {when(row['time_ns'])}"
    if not pair.wanting:
        count = len(pair.begun)
        has = "which never asked for anything." if not count else f"none of whose {count} interests wants it."
        return Decision(UNASKED, [f"{by}, {has}"], row["broker"])
    over = pair.wanting[-1]
    if over["issued_ns"] > pair.end_ns:
        return Decision(UNASKED, [f"{by}, which asked for it only later, with {pair.asked(over)}."], row["broker"])
    said = [f"{by}, whose interest {pair.asked(over)} was withdrawn at {when(over['revoked_ns'])} and gone by "
            f"{when(over['gone_ns'])}, before {pair.name} was sent at {when(pair.sent_ns)}."]  # fmt: skip
    change = None
    heard = [
        each for each in pair.heard(row["broker"]) if each.about["change"] == over["change"] and each.hop is not None
    ]
    before = [each for each in heard if hop is not None and each.place < hop.place]
    if before and before[-1].says == WITHDRAWN:
        last = before[-1].hop
        assert last is not None
        change = last.cause
        said.append(
            f"{pair.at(row['broker'])} had handled the withdrawal, {pair.because(change)}, at {when(last.time_ns)}."
        )
    elif before and before[-1].says == TOLD:
        said.append(f"{pair.at(row['broker'])} had handled no withdrawal of it by then.")
    return Decision(WITHDREW_BEFORE, said, row["broker"], change=change)


def disorder(pair: Pair) -> Decision | None:
    """Another publication of the same client that came the other way round; None if there is none."""
    told, row = pair.told, pair.got[0]
    mine = {each["publication"]: each for each in told.rows("publications", client=pair.publication["client"])}
    for each in sorted(
        told.rows("deliveries", client=pair.client), key=lambda each: (each["time_ns"], each["publication"])
    ):
        other = mine.get(each["publication"])
        if other is None or other["publication"] == pair.publication["publication"]:
            continue
        sooner = (other["time_ns"], other["publication"]) < (pair.sent_ns, pair.publication["publication"])
        if (sooner and each["time_ns"] > row["time_ns"]) or (not sooner and each["time_ns"] < row["time_ns"]):
            return _overtaken(pair, other, each, sooner)
    return None


def _overtaken(pair: Pair, other: Row, delivery: Row, sooner: bool) -> Decision:
    told, name = pair.told, pair.told.message(other["publication"])
    sent, came = ("before", "after") if sooner else ("after", "before")
    said = [f"{told.client(pair.client)} got {name}, sent {sent} {pair.name} (at {when(other['time_ns'])}), {came} it."]
    way = Way(told, other)
    a, b = pair.way.delivering(pair.got[0]), way.delivering(delivery)
    if a is None or b is None:
        return Decision(DISORDER, said, pair.home)
    one = {hop.broker: hop for hop in pair.way.chain(a)}
    two = {hop.broker: hop for hop in way.chain(b)}
    both = [broker for broker in one if broker in two]
    for at, towards in pairwise(both):
        if (two[towards].place < one[towards].place) != (two[at].place < one[at].place):
            same = one[towards].link == two[towards].link
            how = "over one link" if same else "over different links"
            said.append(f"From {pair.at(at)} to {pair.at(towards)} the one overtook the other, {how}.")
            faults = [each for each in told.faults if each.what != CUT and each.link == one[towards].link >= 0]
            said += [f"{lasts(each).capitalize()} {told.what(each)}." for each in faults[:1]]
            return Decision(DISORDER, said, at, towards)
    return Decision(DISORDER, said, pair.home)
