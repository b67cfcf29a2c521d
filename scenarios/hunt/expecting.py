"""What a finding's scenario expects, so that `brokerlab run` of it fails; or why no expectation can say it.

What a metric is compared with, as what would be left if nothing had been begun, is measured of a run and written down
as a number. That is kept only if the finding's own run fails it.
"""

from __future__ import annotations

from typing import NamedTuple

from protocols import measures
from scenarios.hunt.rest import without_what_went
from scenarios.hunt.running import Outcome

_VERDICT = {  # what the audit of one run tells
    "delivery": ("missed", "unwanted", "duplicated", "out_of_order"), "budget": ("twice", "waste", "bytes"),
}  # fmt: skip
_WHY_NOT = {
    "fails": "a run of it fails by itself",
    "storm": "a run of it does not come to its end, and so fails by itself",
    "leaks": "no table of a run has it",
    "heals": "no table of a run has it",
    "quiet": "a run by itself does not tell it from what goes on anyway",
    "isolation": "it is in memory, and no table of a run has it",
    "apart": "it is in memory, and no table of a run has it",
    "cutting": "it takes two runs, in two ways",
    "resuming": "it takes two runs, of which one is stopped",
    "grows": "it takes the same again and again, many times",
    "hashing": "it takes two processes",
}


class Expected(NamedTuple):
    """What the scenario expects and measures; or why it cannot."""

    expect: str = ""
    metric: str = ""  # that the service has to name for it
    why_not: str = ""


def expected(judge: str, sort: str, outcome: Outcome) -> Expected:
    """Of a mistake that this judge has against an outcome."""
    if sort in _VERDICT.get("delivery" if judge == "heals" else judge, ()):
        return Expected("verdict == valid")
    if judge in ("leaks", "heals") and sort == "entries":
        usual = without_what_went(outcome)
        others = [usual] if not outcome.case.faults or usual.calm.failed else [usual, usual.calm]
        return _most("tables.left", outcome, others) or Expected(why_not=_WHY_NOT[judge])
    if judge == "quiet":
        return _most("quiet.late", outcome, [without_what_went(outcome)]) or Expected(why_not=_WHY_NOT[judge])
    return Expected(why_not=_WHY_NOT[judge])


def _most(metric: str, outcome: Outcome, others: list[Outcome]) -> Expected | None:
    """That there is no more of it than in any of the other runs; None where there is not in this one either."""
    measure = {"tables.left": measures.tables_left, "quiet.late": measures.quiet_late}[metric]
    here, *there = (measure(each.tables, each.kind) or 0 for each in [outcome, *others])
    return Expected(f"{metric} <= {min(there)}", metric) if here > min(there) else None
