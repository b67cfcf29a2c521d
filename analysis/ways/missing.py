"""Why a client did not get a publication that it wants: where the way to it stops, and what was known there.

The way stops at the broker nearest to the client of those that handled it. What that broker had handled by then of
interests that want it, from the client's side, tells what it can have known.
"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.ways.hearing import TOLD, WITHDRAWN, Heard, forgot
from analysis.ways.pair import Decision, Pair, lasts, when
from analysis.ways.told import DOWN, Fault, Hop, Row, why_lost

NEVER_TOLD, TOO_LATE, WITHDREW = "never told", "told too late", "withdrawn"
LOST_IT, FORGOT, WITHHELD, UNDER_WAY = "lost", "forgotten", "withheld", "under way"
NOT_ADVERTISED = "not advertised"


def missed(pair: Pair) -> Decision:
    """Why it did not come."""
    assert pair.home is not None
    if pair.dropped:
        return _not_advertised(pair)
    distance, following = pair.told.nearer(pair.home)
    lost = _lost(pair, distance)
    reached = [broker for broker in pair.carried.at if broker in distance]
    if lost is not None and (not reached or distance[lost.towards or 0] < min(distance[each] for each in reached)):
        return lost
    if not reached:
        return nowhere(pair)
    stop = min(reached, key=lambda broker: (distance[broker], broker))
    if stop == pair.home:
        return _at_home(pair, stop)
    towards = _towards(pair, stop, following)
    return _short(pair, stop, towards)


def _not_advertised(pair: Pair) -> Decision:
    home = pair.publication["broker"]
    said = f"{pair.at(home)} dropped {pair.name}: it knew no advertisement of its publisher that holds it."
    return Decision(NOT_ADVERTISED, [said], home)


def nowhere(pair: Pair) -> Decision:
    home = pair.publication["broker"]
    down = _down(pair, home, pair.sent_ns)
    said = f"No broker handled {pair.name}."
    if down is None:
        return Decision(LOST_IT, [said, "Why, the trace does not tell."], home, sure=False)
    return Decision(LOST_IT, [said, said_down(pair, down)], home, fault=down)


def said_down(pair: Pair, fault: Fault) -> str:
    return f"{lasts(fault).capitalize()} {pair.told.what(fault)}."


def _down(pair: Pair, broker: int, at_ns: int) -> Fault | None:
    """What had a broker down at a time."""
    return next(
        (each for each in pair.told.faults
         if each.what == DOWN and each.broker == broker and each.begin_ns <= at_ns
         and (each.end_ns < 0 or at_ns < each.end_ns)),
        None,
    )  # fmt: skip


def fault_of(pair: Pair, link: int, at_ns: int) -> Fault | None:
    """What was wrong with a link, or a broker at its ends, at a time or while a message was on it."""
    row = pair.told.links[link]
    arrives = at_ns + row["delay_ns"]
    for each in pair.told.faults:
        if each.overlaps(at_ns, arrives) and (each.link == link or each.broker in (row["from"], row["to"])):
            return each
    return None


def _lost(pair: Pair, distance: dict[int, int]) -> Decision | None:
    """A copy that was lost on its way to a broker that never got one; of several, that which came nearest."""
    links = pair.told.links
    rows = [row for row in pair.carried.losses if row["link"] >= 0 and links[row["link"]]["to"] not in pair.carried.at]
    if not rows:
        return None
    row = min(rows, key=lambda row: (distance.get(links[row["link"]]["to"], 1 << 62), row["time_ns"]))
    link, fault = links[row["link"]], fault_of(pair, row["link"], row["time_ns"])
    said = [f"{pair.at(link['from'])} sent {pair.name} to {pair.at(link['to'])} at {when(row['time_ns'])}, "
            f"and it was lost there ({why_lost(row)})."]  # fmt: skip
    if fault is not None:
        said.append(said_down(pair, fault))
    others = [
        each for each in sorted(pair.carried.at)
        if each != link["from"] and pair.told.link(each, link["to"]) >= 0
        and link["to"] not in pair.carried.passed_on(each)
    ]  # fmt: skip
    if others:
        also = "has a link to" if len(others) == 1 else "have links to"
        said.append(f"{pair.several(others)} handled it too, {also} {pair.at(link['to'])}, and did not send it there.")
    return Decision(LOST_IT, said, link["from"], link["to"], fault=fault)


def _towards(pair: Pair, stop: int, following: dict[int, int]) -> int:
    """The neighbour that it should have gone to: from which the interest came, else the next on the quickest way."""
    for heard in pair.heard(stop):
        if pair.is_mine(heard) and heard.says == TOLD and heard.link is not None and heard.link >= 0:
            neighbour: int = pair.told.links[heard.link]["from"]
            if neighbour not in pair.carried.at:
                return neighbour
    return following[stop]


def _at_home(pair: Pair, stop: int) -> Decision:
    """It came to the client's broker, which did not deliver it."""
    hop = pair.carried.at[stop][0]
    for row in pair.carried.losses:
        if row["link"] < 0 and row["client"] == pair.client:
            said = (
                f"{pair.at(stop)} handled {pair.name} at {when(hop.time_ns)}; its delivery was lost ({why_lost(row)})."
            )
            return Decision(LOST_IT, [said], stop, fault=_fell(pair, hop))
    if (down := _fell(pair, hop)) is not None:
        said = f"{pair.at(stop)} got {pair.name} at {when(hop.time_ns)} and crashed before it was done with it."
        return Decision(LOST_IT, [said], stop, fault=down)
    said = (
        f"{pair.at(stop)}, the client's own broker, handled {pair.name} at {when(hop.time_ns)} and did not deliver it."
    )
    return _with(said, knew(pair, stop, None, hop))


def _with(said: str, decision: Decision) -> Decision:
    decision.said.insert(0, said)
    return decision


def _fell(pair: Pair, hop: Hop) -> Fault | None:
    """What had a broker crash while it had an event."""
    return next(
        (each for each in pair.told.faults
         if each.what == DOWN and each.broker == hop.broker and hop.time_ns <= each.begin_ns < hop.finish_ns),
        None,
    )  # fmt: skip


def _short(pair: Pair, stop: int, towards: int) -> Decision:
    """It came to a broker that did not pass it on to where the client is."""
    hop = pair.carried.at[stop][0]
    to = [each for each in pair.carried.passed_on(stop) if each != towards]
    said = (
        f"{pair.at(stop)} handled {pair.name} at {when(hop.time_ns)} and passed it on to {pair.several(to)}"
        f"{',' if to else ';'} not to {pair.at(towards)}, behind which {pair.told.client(pair.client)} is."
    )
    if not pair.told.is_tree:
        said += f" (There are cycles; of the brokers that handled it, {pair.at(stop)} is nearest to the client.)"
    if (down := _fell(pair, hop)) is not None:
        return Decision(LOST_IT, [said, said_down(pair, down)], stop, towards, fault=down)
    delay = pair.told.links[pair.told.link(stop, towards)]["delay_ns"]
    if hop.finish_ns + delay >= pair.told.ends:
        return Decision(UNDER_WAY, [said, "The run ended before it can have come there."], stop, towards)
    return _with(said, knew(pair, stop, towards, hop))


def knew(pair: Pair, stop: int, towards: int | None, hop: Hop) -> Decision:
    """What a broker had handled, before a copy came to it, of what wants that copy on the client's side."""
    side = -1 if towards is None else pair.told.link(towards, stop)
    heard = [each for each in pair.heard(stop) if pair.is_mine(each) or (each.link == side and towards is not None)]
    before = [each for each in heard if each.place < hop.place]
    last = {each.about["change"]: each for each in before}
    stand = [each for each in last.values() if each.says == TOLD]
    if not before:
        return _ignorant(pair, stop, towards, hop, heard)
    known = next((each for each in stand if pair.is_mine(each)), next(iter(stand), None))
    over = before[-1]
    if known is not None:
        fault = forgot(pair.told, stop, known.place, hop.time_ns)
        if over.says == WITHDRAWN and not (over.sure and known.sure):
            return _taken_back(pair, stop, towards, over, known, fault)
        if fault is not None:
            return _forgotten(pair, stop, towards, known, fault)
        return _withheld(pair, stop, towards, known, hop)
    if towards is not None and not any(map(pair.is_mine, before)) and not _in_between(pair, stop, over):
        return _never(pair, stop, towards, [f"By then it had not heard of {pair.asked(pair.standing[0])}."])
    return _taken_back(pair, stop, towards, over, None, None)


def _in_between(pair: Pair, stop: int, over: Heard) -> bool:
    """Whether a withdrawal came after the client's interest to where the way of that interest stops."""
    at = _held_at(pair, stop)
    if at is None or over.hop is None:
        return False
    first = pair.informed[at]
    there = [each for each in pair.heard(at) if each.about is over.about and each.says == WITHDRAWN]
    return there[0].place > first.place if there else over.place > first.place


def _since(pair: Pair, heard: Heard) -> str:
    """Since when a broker knew of an interest, and from whom."""
    what = pair.asked(heard.about)
    if heard.hop is None:
        return f"{what}, which stood from the beginning"
    source = "its client" if heard.hop.link < 0 else pair.at(pair.told.links[heard.hop.link]["from"])
    by = "" if heard.sure else f" (a {_type(pair, heard.hop)} that it caused)"
    return f"{what} from {source}, at {when(heard.hop.time_ns)}{by}"


def _type(pair: Pair, hop: Hop) -> str:
    return pair.told.type_name(hop.type)


def _withheld(pair: Pair, stop: int, towards: int | None, known: Heard, hop: Hop) -> Decision:
    said = [f"It had heard of {_since(pair, known)}, and of no withdrawal of that by then."]
    last = pair.hearing.last_change(stop, hop)
    if last is not None and last != known.hop:
        before = f"{when(hop.time_ns - last.time_ns)} before" if last.time_ns < hop.time_ns else "at the same instant"
        said.append(f"The last change that it had handled was {pair.because(last.cause)}, {before}.")
    cause = None if last is None or last == known.hop else last.cause
    return Decision(WITHHELD, said, stop, towards, known.about["change"], last=cause)


def _forgotten(pair: Pair, stop: int, towards: int | None, known: Heard, fault: Fault) -> Decision:
    said = [
        f"It had heard of {_since(pair, known)}.",
        said_down(pair, fault),
        f"After that it heard no more of {pair.asked(known.about)} by then.",
    ]
    hops = [each for each in pair.told.hops(broker=stop, cause=-1) if each.link >= 0]
    begin, end = fault.end_ns, pair.carried.at[stop][0].time_ns
    came = [each for each in hops if begin <= each.time_ns < end and each.body < 0]
    if came:
        types = sorted({_type(pair, each) for each in came})
        said.append(
            f"Messages of no change came meanwhile ({', '.join(types)}); what they say the trace does not tell."
        )
    return Decision(FORGOT, said, stop, towards, known.about["change"], fault, sure=not came)


def _taken_back(
    pair: Pair, stop: int, towards: int | None, over: Heard, known: Heard | None, fault: Fault | None
) -> Decision:
    assert over.hop is not None
    told = pair.told
    source = "its client" if over.hop.link < 0 else pair.at(told.links[over.hop.link]["from"])
    said = []
    first = known or next((each for each in pair.heard(stop) if each.about is over.about and each.says == TOLD), None)
    if first is not None:
        said.append(f"It had heard of {_since(pair, first)}.")
    if fault is not None:
        said.append(said_down(pair, fault))
    what = f"the withdrawal of {pair.asked(over.about)}" if over.sure else f"a {_type(pair, over.hop)}"
    said.append(
        f"At {when(over.hop.time_ns)} it handled {what} from {source}, caused by {pair.because(over.hop.cause)}; "
        f"that was the last it heard from there of anything that {pair.want} it."
    )
    if not over.sure:
        said.append("What that message says the trace does not tell.")
    if not any(pair.is_mine(each) for each in pair.heard(stop)) and towards is not None:
        said += list(_stopped(pair, stop))[:1]
    return Decision(WITHDREW, said, stop, towards, over.hop.cause, fault, sure=over.sure)


def _ignorant(pair: Pair, stop: int, towards: int | None, hop: Hop, heard: list[Heard]) -> Decision:
    """It had heard of nothing that wants it on that side."""
    source = "its clients" if towards is None else pair.at(towards)
    later = next((each for each in heard if each.hop is not None and each.says == TOLD), None)
    said = [f"By then it had heard of nothing from {source} that wants {pair.name}."]
    if later is not None:
        assert later.hop is not None
        late = later.hop.time_ns - hop.time_ns
        said.append(f"It heard of {_since(pair, later)}: {when(late)} too late." if late else
                    f"It heard of {_since(pair, later)}: at the same instant, but after it.")  # fmt: skip
        return Decision(TOO_LATE, said, stop, towards, later.about["change"], by_ns=late)
    return _never(pair, stop, towards, said)


def _never(pair: Pair, stop: int, towards: int | None, said: list[str]) -> Decision:
    told, first = pair.told, pair.standing[0]
    lost = lost_change(pair, pair.mine)
    if lost is not None:
        fault = fault_of(pair, lost["link"], lost["time_ns"])
        said.append(f"A message caused by {told.message(first['change'])} was lost {told.over(lost['link'])} "
                    f"at {when(lost['time_ns'])} ({why_lost(lost)}).")  # fmt: skip
        return Decision(LOST_IT, said, stop, towards, first["change"], fault)
    said += _stopped(pair, stop)
    if not pair.informed:
        said.append(f"No broker handled {told.message(first['change'])}.")
    return Decision(NEVER_TOLD, said, stop, towards, first["change"], held=_held_at(pair, stop))


def lost_change(pair: Pair, changes: set[int]) -> Row | None:
    """A message of some changes that was lost on a link."""
    rows = [row for row in pair.told.rows("losses", cause=changes) if row["link"] >= 0]
    return min(rows, key=lambda row: row["time_ns"], default=None)


def _held_at(pair: Pair, stop: int) -> int | None:
    """Where the way of the client's interest to a broker stops: the nearest to that one that heard of it."""
    distance, _ = pair.told.nearer(stop)
    heard = [broker for broker in pair.informed if broker in distance]
    return min(heard, key=lambda broker: (distance[broker], broker), default=None)


def _stopped(pair: Pair, stop: int) -> Iterator[str]:
    """Where the way of the client's interest stops, in sentences."""
    at = _held_at(pair, stop)
    if at is None or at == stop:
        return
    hop = pair.informed[at].hop
    begin = pair.informed[at].about
    if hop is None:
        return
    told = pair.told
    _, following = told.nearer(stop)
    onward = following[at]
    to = sorted({
        each.broker for each in told.hops(cause=begin["change"])
        if each.link >= 0 and told.links[each.link]["from"] == at and each.time_ns > hop.time_ns
    })  # fmt: skip
    name = pair.asked(begin)
    yield (
        f"The way of {name} stops at {pair.at(at)}, which handled it at {when(hop.time_ns)} and passed it on to "
        f"{pair.several(to)}, not to {pair.at(onward)}."
    )
    link = told.link(at, onward)
    before = [
        each for each in pair.heard(onward)
        if each.link == link and each.hop is not None and not pair.is_mine(each) and each.says == TOLD
        and each.hop.time_ns <= hop.finish_ns + told.links[link]["delay_ns"]
    ]  # fmt: skip
    if before:
        other = before[-1].about
        over = next(
            (
                each.hop for each in pair.heard(onward)
                if each.about is other and each.says == WITHDRAWN and each.link == link
            ),
            None,
        )  # fmt: skip
        ended = (
            "" if over is None else f"; that was withdrawn there at {when(over.time_ns)}, by {pair.because(over.cause)}"
        )
        yield f"{pair.at(at)} had told {pair.at(onward)} of {pair.asked(other)}, which {pair.want} it too{ended}."
    for fault in told.faults:
        if fault.begin_ns <= hop.time_ns and (fault.link >> 1 == link >> 1 >= 0 or fault.broker in (at, onward)):
            yield said_down(pair, fault)
