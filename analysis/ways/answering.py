"""Why a query was answered in a round or was not, in a verdict and sentences: where the answer or its word stopped."""

from __future__ import annotations

from analysis.ways.getting import twice
from analysis.ways.leaning import beneath, ignorant, judged
from analysis.ways.missing import LOST_IT, NEVER_TOLD, UNDER_WAY, WITHHELD, missed
from analysis.ways.pair import Decision, listed, when
from analysis.ways.ranking import LEFT_OUT
from analysis.ways.rounds import Part, Round
from analysis.ways.told import Row
from protocols.explaining import NOT_OWED, Lean

ANSWERED, NOT_ANSWERED, NOT_DUE = "answered", "not answered", "not due"
WRONGLY, TWICE = "answered wrongly", "answered twice"


def decided(round: Round) -> Decision:
    """What became of a query in a round."""
    return judged(_decided(round), round.due.due, round.due.said, came=bool(round.due.received))


def _decided(round: Round) -> Decision:
    due, home = round.due, round.home
    if len(due.received) > 1:
        return _twice(round)
    if due.received and due.received[0] not in due.right:
        return _wrongly(round)
    if due.received:
        return Decision(ANSWERED, [], home)
    if due.due == NOT_OWED:
        return Decision(NOT_DUE, [], home)
    return _missing(round)


def _twice(round: Round) -> Decision:
    for part in round.parts or [Part(round.told, row, round.version) for row in round.answers]:
        if len(part.got) > 1:
            return beneath(twice(part), [], TWICE)
    home = round.home
    count = len(round.due.received)
    took = f"{round.told.names[home]} took an answer for {round.name} {count} times in one round"
    said = f"{took}, out of messages that came once."
    return Decision(TWICE, [said], home)


# ---- what did not come ------------------------------------------------------------------------------------


def _missing(round: Round) -> Decision:
    messages = round.messages
    if messages is not None and not round.parts:
        return _not_planned(round)
    if messages is None:
        return _guessed(round)
    for part in round.parts:
        if not part.got:
            return _not_heard(round, part)
    home, told = round.home, round.told
    names = listed([part.name for part in round.parts])
    handed = f"{told.names[home]} handed {names} to {told.client(round.version['client'])}"
    said = f"{handed}, and took nothing for {round.name}."
    return Decision(NOT_ANSWERED, [said], home)


def _not_planned(round: Round) -> Decision:
    """The server sent nothing for it."""
    told, change = round.told, round.version["change"]
    server = told.names[round.server]
    said = [f"{server} sent nothing for {round.name} at {when(round.at_ns)}."]
    place = (round.at_ns,) if round.held is None else round.held.place
    found = ignorant(round.pair, round.server, [Lean(change, round.query, f"asks for {round.name}")], place)
    if found is not None:
        return beneath(found, said)
    if (came := round.arrived(change)) is not None:
        said.append(f"It had handled {told.message(change)} at {when(came.time_ns)}.")
    if round.held is None:
        said.append("It held no round then.")
    elif round.plans:
        said.append(f"It answered by {_plan(round.plans[-1])}.")
    else:
        said.append("No plan was in force.")
    return Decision(LEFT_OUT, said, round.server, change=change)


def _plan(row: Row) -> str:
    return f"plan {row['plan']}, begun at {when(row['began_ns'])} and in force from {when(row['time_ns'])}"


def _guessed(round: Round) -> Decision:
    """Which message had something for it is not known: one that not all heard for whom it was."""
    told = round.told
    for row in round.answers:
        part = Part(told, row, round.version)
        if not part.got and len({each["client"] for each in part.way.deliveries}) < row["listeners"]:
            decision = _not_heard(round, part)
            decision.sure = False
            said = "What the server had planned could not be made again. This message not all heard for whom it was."
            return beneath(decision, [said])
    return Decision(NOT_ANSWERED, ["Which message had something for it, the trace does not tell."], sure=False)


def _not_heard(round: Round, part: Part) -> Decision:
    """A message for the client did not come to it."""
    told, decision = round.told, missed(part)
    sent = f"{told.names[round.server]} sent {part.name} on channel {round.channel(part)} at {when(round.at_ns)}."
    if decision.verdict in (LOST_IT, UNDER_WAY) or decision.broker is None or not part.carried.at.get(decision.broker):
        return beneath(decision, [sent])
    stop, hop = decision.broker, part.carried.at[decision.broker][0]
    said = [sent, decision.said[0]]
    listens = told.hops(broker=stop, type=told.explaining.listens)
    before = [each for each in listens if each.place < hop.place]
    came, change = round.arrived(round.version["change"]), round.version["change"]
    since = 0 if came is None else came.time_ns
    if any(each.time_ns > since for each in before):
        said.append(f"It had been told who listens at {when(before[-1].time_ns)}.")
        return Decision(WITHHELD, said, stop, decision.towards, change)
    last = "It had never been told who listens"
    if before:
        last = f"It was last told who listens at {when(before[-1].time_ns)}"
    asked = "" if came is None else f"; {told.names[round.server]} heard of {told.message(change)} at {when(since)}"
    said.append(f"{last}{asked}.")
    first = round.version is round.versions[0]
    held, sentence = _word_stops(round, stop, since)
    if held is None:
        return Decision(WITHHELD, said, stop, decision.towards, change, sure=first)
    if before and not first:
        said += [sentence, "That may be as it should: who listens to what is told on where it has changed."]
        return Decision(WITHHELD, said, stop, decision.towards, change, sure=False)
    return Decision(NEVER_TOLD, [*said, sentence], stop, decision.towards, change, held=held)


def _word_stops(round: Round, target: int, since: int) -> tuple[int | None, str]:
    """Where the word on who listens stops that a broker needed."""
    told = round.told
    plan = next((row for row in round.plans if row["time_ns"] >= since), None)
    if plan is None:
        return None, ""
    distance, following = told.nearer(target)
    hops = [hop for hop in told.hops(cause=plan["cause"], type=told.explaining.listens) if hop.broker in distance]
    if not hops:
        return None, ""
    near = min(hops, key=lambda hop: (distance[hop.broker], hop))
    if near.broker == target:
        return None, ""
    to = sorted({hop.broker for hop in hops if hop.link >= 0 and told.links[hop.link]["from"] == near.broker})
    return near.broker, (
        f"The word on who listens, of {_plan(plan)}, stops at {told.names[near.broker]}, which handled it at "
        f"{when(near.time_ns)} and passed it on to {listed([told.names[each] for each in to])}, "
        f"not to {told.names[following[near.broker]]}."
    )


# ---- what came wrong --------------------------------------------------------------------------------------


def _wrongly(round: Round) -> Decision:
    told, due, home = round.told, round.due, round.home
    count = due.received[0][0]
    taken = f"{told.names[home]} took {count} objects for {round.name}"
    right = sorted({number for number, _ in due.right})
    said = [f"{taken}; right are {' or '.join(map(str, right))}." if right else f"{taken}, which was not due."]
    ends = [row for row in told.rows("changes", interest=round.query) if row["operation"] in told.kind.revocations]
    changes = [round.version, *ends] if not right else [round.version]
    place = (round.at_ns,) if round.held is None else round.held.place
    leans = [
        Lean(row["change"], round.query, f"{'asks for' if row is round.version else 'ends'} {round.name}")
        for row in changes
    ]
    if (found := ignorant(round.pair, round.server, leans, place)) is not None:
        return beneath(found, said, WRONGLY)
    planned = next((each.held[round.query] for each in round.messages or () if round.query in each.lines), None)
    if round.messages is None:
        return Decision(WRONGLY, [*said, "What the server had planned could not be made again."], home, sure=False)
    if planned is not None and planned == due.received[0]:
        said.append(f"So {told.names[round.server]} had planned it, by {_plan(round.plans[-1])}.")
        return Decision(WRONGLY, said, round.server, change=round.version["change"])
    if planned is not None:
        said.append(f"{told.names[round.server]} had sent {planned[0]} for it.")
    return Decision(WRONGLY, said, home)
