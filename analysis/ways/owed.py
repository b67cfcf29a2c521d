"""What is to be said of kinds that say themselves what their definition gives: rightly there or not, missing, or wrong.

What is missing is followed along the messages that bring it; where a broker decides first, along those that ask for
it. Where the way stops, what the decision leans on is asked about too: changes that a broker had not handled by then.
"""

from __future__ import annotations

from dataclasses import replace

from analysis.ways.getting import DELIVERED, disorder, twice, unasked
from analysis.ways.leaning import beneath, ignorant, judged, tell_others
from analysis.ways.missing import FORGOT, NEVER_TOLD, TOO_LATE, UNDER_WAY, WITHDREW, WITHHELD, missed
from analysis.ways.pair import Decision, Pair, when
from analysis.ways.ranking import WRONGLY, named_wrongly, not_named, undecided
from protocols.explaining import Due

NOT_WANTED, NOT_DELIVERED = "not wanted", "not delivered"
_IGNORANT = {WITHHELD, NEVER_TOLD, TOO_LATE, WITHDREW, FORGOT}


def owed(pair: Pair) -> Decision:
    """What became of a pair, by the definition of its kind."""
    return judged(_decided(pair, pair.due), pair.due.due, pair.due.said, came=bool(pair.got))


def _decided(pair: Pair, due: Due) -> Decision:
    if len(pair.got) > 1:
        return twice(pair)
    if pair.got and not due.may:
        return _wrongly(pair, due)
    if pair.got:
        return disorder(pair) or Decision(DELIVERED, [], pair.home)
    if not due.may:
        return Decision(NOT_WANTED, [], pair.home)
    if not pair.standing:
        return Decision(NOT_DELIVERED, [], pair.home)
    return _missing(pair, due)


# ---- what did not come ------------------------------------------------------------------------------------


def _missing(pair: Pair, due: Due) -> Decision:
    if not pair.told.explaining.decides_first:
        return _untold(pair, _leaning(pair, due, missed(pair)))
    if due.decided is None:
        return undecided(pair)
    if not due.decided.named:
        return not_named(pair, due)
    return _not_brought(pair, due)


def _not_brought(pair: Pair, due: Due) -> Decision:
    """It was decided that the client gets it: what brings it went astray."""
    assert due.decided is not None
    decision, root = missed(pair), due.decided.broker
    named = f"{pair.at(root)} had decided at {when(due.decided.time_ns)} that {pair.told.client(pair.client)} gets it."
    if decision.verdict not in _IGNORANT:
        return beneath(decision, [named])
    decision = Decision(WITHHELD, [named, decision.said[0]], decision.broker, decision.towards)
    if decision.broker == root and decision.towards is not None:
        delay = pair.told.links[pair.told.link(root, decision.towards)]["delay_ns"]
        if due.decided.time_ns + delay >= pair.told.ends:
            return Decision(UNDER_WAY, [named, "The run ended before it can have come there."], root, decision.towards)
    return decision


def _untold(pair: Pair, decision: Decision) -> Decision:
    """Where no broker ever told another of an interest, maybe none has to be told: what was not, withheld nothing."""
    at_home = decision.held == pair.home is not None and set(pair.informed) <= {pair.home}
    if decision.verdict != NEVER_TOLD or not at_home or decision.change not in pair.mine or tell_others(pair):
        return decision
    said = "In this run no broker told another of any interest: if none has to be told, this one withheld it."
    return replace(decision, verdict=WITHHELD, sure=False).but(said)


def _leaning(pair: Pair, due: Due, decision: Decision) -> Decision:
    """Of what a broker withheld: whether that had handled all that it leans on."""
    stop = decision.broker
    if decision.verdict != WITHHELD or stop is None or not pair.carried.at.get(stop):
        return decision
    place = pair.carried.at[stop][0].place
    leans = due.leans
    if stop != pair.home:  # on the way only what it had heard of before can be out of date
        leans = [each for each in leans if pair.told.hops(broker=stop, word=each.word)]
    found = ignorant(pair, stop, leans, place)
    if found is None:
        return decision
    found.towards = decision.towards
    return beneath(found, decision.said[:1])


# ---- what came, and should not have -----------------------------------------------------------------------


def _wrongly(pair: Pair, due: Due) -> Decision:
    explaining = pair.told.explaining
    if explaining.decides_first and due.decided is not None and due.decided.named:
        return named_wrongly(pair, due)
    if not pair.standing:
        return unasked(pair)
    row = pair.got[0]
    hop = pair.way.delivering(row)
    by = f"{pair.at(row['broker'])} delivered {pair.name} to {pair.told.client(pair.client)} at {when(row['time_ns'])}"
    if explaining.decides_first:
        who = "nobody decided" if due.decided is None else f"{pair.at(due.decided.broker)} did not decide"
        return Decision(WRONGLY, [f"{by}; {who} that it gets it."], row["broker"])
    place = (row["time_ns"],) if hop is None else hop.place
    found = ignorant(pair, row["broker"], due.leans, place)
    if found is not None:
        return beneath(found, [f"{by}."], WRONGLY)
    more = "It had handled all that this leans on." if due.leans else ""
    return Decision(WRONGLY, [f"{by}."], row["broker"]).but(more)
