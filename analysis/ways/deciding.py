"""Why a client got a publication or did not: a verdict, sentences, and what happened step by step.

Verdicts: delivered, delivered twice, delivered unasked, delivered after withdrawal, delivered out of order; not wanted;
never told, told too late, withdrawn, forgotten, lost, withheld, under way. Each is said of one broker where it can be.
"""

from __future__ import annotations

from typing import Any

from analysis.ways.getting import DELIVERED, disorder, twice, unasked
from analysis.ways.missing import missed
from analysis.ways.pair import Decision, Pair, plain
from analysis.ways.steps import steps

NOT_WANTED = "not wanted"


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
    if hasattr(pair.told.rule, "judge"):
        decision.sure = False
        decision.but(
            "Answers of this kind are right or wrong as wholes: others may have been before it; ask the audit."
        )
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
