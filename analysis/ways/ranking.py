"""Where a broker decides who gets a publication before anybody is sent it: what it asked, of whom, and who answered.

Either that broker knows all interests, or it asks others, and each subtree answers. What answers hold a trace does not
tell: where all of them came, and something is not in them, the client's broker is named as the first that may have left
it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analysis.ways.leaning import beneath, ignorant
from analysis.ways.missing import (
    LOST_IT,
    NEVER_TOLD,
    TOO_LATE,
    UNDER_WAY,
    WITHHELD,
    fault_of,
    knew,
    nowhere,
    said_down,
)
from analysis.ways.pair import Decision, Pair, when
from analysis.ways.told import Hop, Row, why_lost
from brokers.contract import MESSAGE
from protocols.explaining import Due

UNDECIDED, LEFT_OUT, NOT_ASKED, NOT_ANSWERED = "undecided", "left out", "not asked", "not answered"
WRONGLY = "delivered wrongly"


class Asking:
    """Who was asked about a publication, by whom, and who answered."""

    def __init__(self, pair: Pair) -> None:
        told, kind = pair.told, pair.told.explaining
        self.pair, self.told = pair, told
        self.root = int(pair.publication["broker"])
        self.asked = [hop for hop in pair.way.hops if hop.type in kind.asks and hop.link >= 0]
        self.answered = [hop for hop in pair.way.hops if hop.type in kind.answers and hop.link >= 0]
        self.lost = [row for row in pair.way.losses if row["type"] in kind.asks | kind.answers and row["link"] >= 0]
        self.at = {hop.broker: hop for hop in reversed(self.asked)}

    def by(self, hop: Hop) -> int:
        """Who asked."""
        return int(self.told.links[hop.link]["from"])

    def answer_to(self, hop: Hop) -> Hop | None:
        """The answer to a question."""
        return next((each for each in self.answered if each.link == hop.link ^ 1), None)

    def up(self, broker: int) -> list[Hop]:
        """The questions by which a broker was asked, its own first, the first that was asked last."""
        found: list[Hop] = []
        while broker != self.root and (hop := self.at.get(broker)) is not None and hop not in found:
            found.append(hop)
            broker = self.by(hop)
        return found

    def lost_over(self, link: int) -> Row | None:
        """A question or an answer that was lost on a link."""
        return next((row for row in self.lost if row["link"] == link), None)


def undecided(pair: Pair) -> Decision:
    """Nobody decided: who did not answer."""
    asking = Asking(pair)
    if not pair.way.hops:
        return nowhere(pair)
    said = f"{pair.at(asking.root)} never decided who gets {pair.name}."
    open_ = [hop for hop in asking.asked if asking.answer_to(hop) is None]
    behind = {asking.by(hop) for hop in open_}
    deepest = [hop for hop in open_ if hop.broker not in behind]
    for hop in deepest:
        if (row := asking.lost_over(hop.link ^ 1)) is not None:
            return _lost(pair, row, [said])
    if asking.lost and not deepest:
        return _lost(pair, asking.lost[0], [said])
    if deepest:
        return beneath(_unanswered(asking, min(deepest)), [said], UNDECIDED)
    mine = pair.told.rows("publications", client=pair.publication["client"], service=pair.told.service)
    ids = {row["publication"] for row in mine}
    decided = {row["publication"] for row in pair.told.rows("rankings", publication=ids)}
    for row in mine:
        if row["time_ns"] < pair.sent_ns and row["publication"] not in decided:
            name = pair.told.message(row["publication"])
            before = f"Publications of one client are decided in order, and {name} before it was not decided either."
            return beneath(undecided(Pair(pair.told, row, pair.client, pair.home)), [said, before])
    return Decision(UNDECIDED, [said, "All that it had asked had answered."], asking.root)


def _unanswered(asking: Asking, hop: Hop) -> Decision:
    """A broker that was asked and did not answer."""
    pair, by = asking.pair, asking.by(hop)
    asked = f"{pair.at(hop.broker)} was asked about {pair.name} by {pair.at(by)}, at {when(hop.time_ns)}"
    said = f"{asked}, and did not answer."
    if hop.finish_ns + pair.told.links[hop.link ^ 1]["delay_ns"] >= pair.told.ends:
        return Decision(UNDER_WAY, [said, "The run ended before its answer can have come."], hop.broker, by)
    return Decision(NOT_ANSWERED, [said], hop.broker, by)


def _lost(pair: Pair, row: Row, said: list[str]) -> Decision:
    link, fault = pair.told.links[row["link"]], fault_of(pair, row["link"], row["time_ns"])
    what = "question" if row["type"] in pair.told.explaining.asks else "answer"
    why = f"Its {what} from {pair.at(link['from'])} to {pair.at(link['to'])} was lost ({why_lost(row)})."
    decision = Decision(LOST_IT, [*said, why], link["from"], link["to"], fault=fault)
    return decision.but("" if fault is None else said_down(pair, fault))


def named_wrongly(pair: Pair, due: Due) -> Decision:
    """A broker took the client into the answer, and should not have."""
    decided = due.decided
    assert decided is not None
    client = pair.told.client(pair.client)
    said = [f"{pair.at(decided.broker)} decided at {when(decided.time_ns)} that {client} gets it."]
    found = _scored_wrongly(pair, due)
    if found is not None:
        return beneath(found, said, WRONGLY)
    for other, name in _others(pair, decided.lacking):
        if other.home is not None and other.due.decided is not None:
            said.append(f"{name} ranks before it, and is not in the answer.")
            return beneath(_without(other, other.due), said, WRONGLY)
    return Decision(WRONGLY, said, decided.broker)


def _scored_wrongly(pair: Pair, due: Due) -> Decision | None:
    """What the broker whose word it is had not handled of an interest."""
    assert due.decided is not None
    broker, hop = _knower(pair, due.decided.broker)
    return None if hop is None else ignorant(pair, broker, due.leans, hop.place)


def _others(pair: Pair, changes: Iterable[int]) -> Iterator[tuple[Pair, str]]:
    """The same with the clients of other interests, and what these are called."""
    for change in changes:
        row = pair.told.change(change)
        if row is not None and row["client"] != pair.client:
            yield Pair(pair.told, pair.publication, row["client"]), pair.asked(row)


def _knower(pair: Pair, root: int) -> tuple[int, Hop | None]:
    """The broker whose word it is how a client's interest stands, and by which event it was asked."""
    asking = Asking(pair)
    if asking.asked and pair.home is not None and pair.home != root:
        return pair.home, asking.at.get(pair.home)
    return root, pair.carried.at[root][0] if pair.carried.at.get(root) else None


def not_named(pair: Pair, due: Due) -> Decision:
    """It was decided without the client: where its interest was left out, or another put in its place."""
    decision = _without(pair, due)
    if decision.verdict != LEFT_OUT or due.decided is None:
        return decision
    for other, name in _others(pair, due.decided.surplus):
        if (found := _scored_wrongly(other, other.due)) is not None:
            said = [*decision.said[:1], f"{name} is in the answer, and should not be."]
            return beneath(found, said, LEFT_OUT)
    return decision


def _without(pair: Pair, due: Due) -> Decision:
    """Where an interest was left out."""
    decided = due.decided
    assert decided is not None and pair.home is not None
    asking = Asking(pair)
    root, first = decided.broker, pair.carried.at[decided.broker][0]
    said = [f"{pair.at(root)} decided who gets {pair.name} at {when(decided.time_ns)}, without {_interest(pair)}."]
    if pair.home == root:
        return _left_out(pair, due, root, None, first, said)
    if not asking.asked and (_spread(pair) or not _asks(pair)):
        _, following = pair.told.nearer(pair.home)
        return _left_out(pair, due, root, following[root], first, said)
    if pair.home in asking.at:
        return _asked(asking, due, said)
    return _not_asked(asking, said, first)


def _interest(pair: Pair) -> str:
    return " and ".join(pair.asked(row) for row in pair.standing[:2]) + f" of {pair.told.client(pair.client)}"


def _spread(pair: Pair) -> bool:
    """Whether brokers tell others of interests as clients send them."""
    changing = pair.told.kind.interests | pair.told.kind.revocations
    return any(hop.link >= 0 and hop.type in changing for hop in pair.told.hops(cause=pair.mine))


def _asks(pair: Pair) -> bool:
    """Whether in this run any broker asked another."""
    return bool(pair.told.hops(type=set(pair.told.explaining.asks), kind=MESSAGE))


def _left_out(pair: Pair, due: Due, broker: int, towards: int | None, hop: Hop, said: list[str]) -> Decision:
    """A broker that ranks left it out: whether it knew of it, and knew it as it is."""
    decision = knew(pair, broker, towards, hop)
    if decision.verdict == WITHHELD:
        decision.verdict = LEFT_OUT
        if (found := ignorant(pair, broker, due.leans, hop.place)) is not None:
            decision = found
    decision.towards = towards
    return beneath(decision, said)


def _not_asked(asking: Asking, said: list[str], first: Hop) -> Decision:
    """The question did not come to the client's broker."""
    pair, told = asking.pair, asking.told
    assert pair.home is not None
    distance, following = told.nearer(pair.home)
    stop = min([asking.root, *asking.at], key=lambda broker: (distance.get(broker, 1 << 62), broker))
    towards = following[stop]
    if (row := asking.lost_over(told.link(stop, towards))) is not None:
        return _lost(pair, row, said)
    hop = asking.at.get(stop, first)
    to = sorted({each.broker for each in asking.asked if asking.by(each) == stop})
    said = [*said, f"{pair.at(stop)} asked {pair.several(to)}{',' if to else ';'} not {pair.at(towards)}, behind which "
                   f"{told.client(pair.client)} is."]  # fmt: skip
    decision = knew(pair, stop, towards, hop)
    told_others = any(broker != pair.home for broker in pair.informed)
    if decision.verdict in (NEVER_TOLD, TOO_LATE) and told_others:
        return beneath(decision, said)
    if decision.verdict == WITHHELD:
        return beneath(decision, said, NOT_ASKED)
    change = pair.standing[0]["change"] if pair.standing else None
    return Decision(NOT_ASKED, said, stop, towards, change)


def _asked(asking: Asking, due: Due, said: list[str]) -> Decision:
    """The client's broker was asked: whether its answer came to who decided."""
    pair, decided = asking.pair, due.decided
    assert decided is not None and pair.home is not None
    own = asking.at[pair.home]
    if (found := ignorant(pair, pair.home, due.leans, own.place)) is not None:
        return beneath(found, said)
    way = asking.up(pair.home)
    for hop in way:
        answer, by = asking.answer_to(hop), asking.by(hop)
        if answer is None and (row := asking.lost_over(hop.link ^ 1)) is not None:
            return _lost(pair, row, said)
        if answer is None:
            return beneath(_unanswered(asking, hop), said)
        if answer.time_ns > decided.time_ns:
            late = answer.time_ns - decided.time_ns
            came = f"The answer of {pair.at(hop.broker)} came to {pair.at(by)} at {when(answer.time_ns)}"
            more = f"{came}, {when(late)} after that."
            return Decision(TOO_LATE, [*said, more], hop.broker, by, by_ns=late)
    brokers = [hop.broker for hop in way] + [asking.root]
    more = (
        f"{pair.at(pair.home)} was asked at {when(own.time_ns)}, knew {_interest(pair)}, and answered; its answer "
        f"came by {' - '.join(pair.at(each) for each in brokers)}. Which of them left it out, the trace does not tell."
    )
    change = pair.standing[0]["change"] if pair.standing else None
    return Decision(LEFT_OUT, [*said, more], pair.home, asking.by(own), change, sure=False)
