"""Why a client got a publication or did not: a verdict, sentences, and what happened step by step.

Verdicts: delivered, delivered twice, delivered unasked, delivered after withdrawal, delivered out of order; not wanted;
never told, told too late, withdrawn, forgotten, lost, withheld, under way. Each is said of one broker where it can be.
Where values alone do not tell what wants a publication, it is not delivered, and how far it came is told.
"""

from __future__ import annotations

from typing import Any

from analysis.ways.getting import DELIVERED, disorder, twice, unasked
from analysis.ways.missing import LOST_IT, UNDER_WAY, missed
from analysis.ways.pair import Decision, Pair, plain
from analysis.ways.steps import steps

NOT_WANTED, NOT_DELIVERED = "not wanted", "not delivered"


def decided(pair: Pair) -> Decision:
    """What became of a pair."""
    if len(pair.got) > 1:
        return twice(pair)
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
        decision.but("That breaks no promise by itself: what wants it was in flight or being withdrawn.")
    return decision


def _forced(pair: Pair, row: Any) -> bool:
    """Whether an interest had settled before, and was not being withdrawn."""
    settled = row["issued_ns"] < 0 or 0 <= row["settled_ns"] < pair.sent_ns
    return settled and not 0 <= row["revoked_ns"] <= pair.end_ns


def told_of(pair: Pair) -> dict[str, Any]:
    """The decision about a pair and the steps that led to it, as plain data."""
    decision = decided(pair)
    return {**plain(decision, pair.told), "steps": steps(pair, decision)}
