"""The words of an audit, for the conformance kit and for Spark alike.

An audit puts every decision (a publication and a client, as a rule) into one of three classes, by the definition of
the kind alone:

    forced      it had to be delivered
    forbidden   it must not be
    free        either is right, as a change was under way; *excused* ones are free only because a link lost something

Compared with what was delivered, that gives **findings**, each of which a protocol rules out by a promise:

    missed         forced, and not delivered                               exact
    unwanted       delivered, and forbidden                                exact, or only_wanted
    duplicated     delivered once more to a client that had it             no_duplicates
    out_of_order   delivered after a later one of the same publisher       fifo_per_publisher

What was found is one thing and what was promised another. The **verdict** is about promises: *invalid* if a finding
breaks one, *valid* if there are promises, all were kept, and the run put them to the test; otherwise *unknown*.

- Exactness is tested by forced decisions. Where next to none is forced, a protocol whose changes never settle would
  pass: at least one in twenty of those that are forced or free has to be.
- No duplicates and order are tested by deliveries: there has to be one.
- Whoever promises anything keeps to the budget of links besides: a publication goes over a directed link once, but for
  what links doubled and brokers forgot, unless the class says `resends`; of classes that say `frugal`, on a tree, only
  where somebody behind the link may get it; and no link carries more bytes than there was to tell.
- A protocol that promises nothing can break nothing, and so keeps nothing: its verdict is unknown, whatever was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from brokers.contract import Guarantees

VALID, UNKNOWN, INVALID = "valid", "unknown", "invalid"
VERDICTS = (VALID, UNKNOWN, INVALID)  # from good to bad
EXIT_CODES = {VALID: 0, UNKNOWN: 2, INVALID: 1}
FORCED_SHARE_MIN = 0.05  # of the decisions that are forced or free

# Finding -> the fields of `Guarantees` that rule it out, each by itself.
FINDINGS = {
    "missed": ("exact",),
    "unwanted": ("exact", "only_wanted"),
    "duplicated": ("no_duplicates",),
    "out_of_order": ("fifo_per_publisher",),
}
PROMISES = {
    "exact": "exactness",
    "only_wanted": "nothing unwanted",
    "no_duplicates": "no duplicates",
    "fifo_per_publisher": "order per publisher",
}


class Judgement(NamedTuple):
    """A verdict with its reason, which is about promises, and beside it what was found."""

    verdict: str
    reason: str
    found: str


def judgement(
    guarantees: Guarantees, counts: Mapping[str, int], forced: int, free: int, deliveries: int, over: str = ""
) -> Judgement:
    """What to say of a protocol that promises this, and of which so many findings of each sort were made.

    `over` is what went over the budget of links, in words (`over_budget`).
    """
    told = found(guarantees, counts)
    named = promises(guarantees)
    if not named:
        return Judgement(UNKNOWN, "nothing is promised, so there is nothing to hold it to", told)
    names = list(named.values())
    broken = {
        name: _counted(counts, [finding for finding, fields in FINDINGS.items() if field in fields])
        for field, name in named.items()
    } | {"the budget of links": over}
    if any(broken.values()):
        said = (f"{promise} ({each})" for promise, each in broken.items() if each)
        return Judgement(INVALID, f"broke what is promised: {', '.join(said)}", told)
    if guarantees.exact and forced < max(1, FORCED_SHARE_MIN * (forced + free)):
        return Judgement(
            UNKNOWN,
            f"too little was forced to tell whether exactness was kept: {forced:,} of {forced + free:,} decisions, and "
            f"it takes {FORCED_SHARE_MIN:.0%}; let it run longer after the subscriptions, or change less",
            told,
        )
    if not guarantees.exact and not deliveries:
        return Judgement(UNKNOWN, f"nothing was delivered, so {' and '.join(names)} was not put to the test", told)
    return Judgement(VALID, f"kept what is promised: {', '.join(names)}{_faulty(guarantees)}", told)


def promises(guarantees: Guarantees) -> dict[str, str]:
    """What is promised: field -> in words."""
    kept = [field for field in PROMISES if getattr(guarantees, field) and not _goes_without(guarantees, field)]
    return {field: _promise(guarantees, field) for field in kept}


def rules_out(guarantees: Guarantees, finding: str) -> bool:
    """Whether a promise is broken by a finding of this sort."""
    return any(getattr(guarantees, field) for field in FINDINGS[finding])


def _goes_without(guarantees: Guarantees, field: str) -> bool:
    """Whether a promise need not be named, as another holds it."""
    return field == "only_wanted" and guarantees.exact


def over_budget(twice: int, waste: int, heavy: int = 0) -> str:
    """How often a publication went over a link that it had gone over, and over one behind which nobody may get it.

    `heavy` is how many links carried more bytes than there was to tell.
    """
    counts = {"over a link again": twice, "for nobody": waste, "with too many bytes": heavy}
    return ", ".join(f"{count:,} {how}" for how, count in counts.items() if count)


def _promise(guarantees: Guarantees, field: str) -> str:
    """A promise in words, with how long exactness holds of a publication where that ends."""
    within = field == "exact" and guarantees.ends
    return PROMISES[field] + (f" within {guarantees.within_ns / 1e9:.3g} s" if within else "")


def _faulty(guarantees: Guarantees) -> str:
    """What is promised where something fails."""
    if guarantees.under_faults == "recovers":
        return f"; all of it again {guarantees.recovers_ns / 1e9:.3g} s after the last fault"
    reliable = ", under faults too" if guarantees.under_faults == "reliable" else ""
    return (", under loss too" if guarantees.under_loss else "") + reliable


def found(guarantees: Guarantees, counts: Mapping[str, int]) -> str:
    """What was found, whatever was promised; of what nobody promised otherwise, that is said."""
    said = []
    for name, fields in FINDINGS.items():
        if counts[name]:
            promised = rules_out(guarantees, name)
            said.append(_counted(counts, [name]) + ("" if promised else f" (not promised: {PROMISES[fields[0]]})"))
    return ", ".join(said) or "nothing missed, unwanted, duplicated or out of order"


def _counted(counts: Mapping[str, int], names: list[str]) -> str:
    return ", ".join(f"{counts[name]:,} {words(name)}" for name in names if counts[name])


def words(finding: str) -> str:
    """The name of a finding as people read it."""
    return finding.replace("_", " ")
