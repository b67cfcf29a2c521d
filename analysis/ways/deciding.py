"""Why a client got a publication or did not: a verdict, sentences, and what happened step by step.

Verdicts: delivered, delivered twice, delivered unasked, delivered after withdrawal, delivered out of order; not wanted;
never told, told too late, withdrawn, forgotten, lost, withheld, not advertised, under way. Each is said of one broker
where it can be. Where values alone do not tell what wants a publication, it is not delivered, and how far it came is
told.
"""

from __future__ import annotations

from typing import Any

from analysis.ways.getting import DELIVERED, disorder, twice, unasked
from analysis.ways.missing import LOST_IT, UNDER_WAY, missed
from analysis.ways.owed import NOT_DELIVERED, NOT_WANTED, owed
from analysis.ways.pair import Decision, Pair, plain
from analysis.ways.steps import steps
from analysis.ways.told import Row


def decided(pair: Pair) -> Decision:
    """What became of a pair."""
    if pair.told.explaining is not None:
        return owed(pair)
    if len(pair.got) > 1:
        decision = twice(pair)
        if pair.told.kind.counts_copies:
            decision.sure = False
            decision.but("A client may get several copies in this service; `brokerlab audit` tells how many are right.")
        return decision
    if pair.got and not pair.standing:
        return unasked(pair)
    if pair.got:
        return disorder(pair) or Decision(DELIVERED, [], pair.home)
    if not pair.standing:
        return Decision(NOT_WANTED, [], pair.home)
    decision = missed(pair)
    whole = "Answers of this kind are right or wrong as wholes, and others may have been before it"
    alone = "Whether it had to come, values alone do not say in this kind"
    if pair.told.in_wholes or not pair.told.decides:
        decision.sure = False
        decision.verdict = decision.verdict if decision.verdict in (LOST_IT, UNDER_WAY) else NOT_DELIVERED
        return decision.but(f"{whole if pair.told.in_wholes else alone}; `brokerlab audit` tells.")
    if not any(_forced(pair, row) for row in pair.standing):
        decision.but("That breaks no promise by itself: what wants it, or what that leans on, was in flight or ending.")
    return decision


def _forced(pair: Pair, row: Row) -> bool:
    """Whether an interest had settled before, with all that it leans on, and none of that was being withdrawn."""
    ahead, seen = [row], {row["change"]}
    while ahead:
        each = ahead.pop()
        settled = each["issued_ns"] < 0 or 0 <= each["settled_ns"] < pair.sent_ns
        ending = 0 <= each["revoked_ns"] <= pair.end_ns
        gone = each is not row and 0 <= each["gone_ns"] < pair.sent_ns
        if not settled or (ending and not gone):
            return False
        leans = {found["depends_on"] for found in pair.told.rows("dependencies", change=each["change"])} - seen
        seen |= leans
        ahead += [found for change in sorted(leans) if (found := pair.told.change(change)) is not None]
    return True


def told_of(pair: Pair) -> dict[str, Any]:
    """The decision about a pair and the steps that led to it, as plain data."""
    decision = decided(pair)
    return {**plain(decision, pair.told), "steps": steps(pair, decision)}
