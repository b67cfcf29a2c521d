"""The judge of healing: what a protocol that comes back from faults owes again, and what they left behind.

What `delivery` finds of publications that were sent once all was owed again, and what `leaks` finds once all is over,
is of `heals` if nothing of that sort is found in the same case without its faults; else it stays where it was. So no
mistake is told twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocols.healing import healing, not_healed
from scenarios.hunt.rest import left_behind
from scenarios.hunt.running import Outcome, once


def heals(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """What is wrong only since something failed, though that is over and all is owed again."""
    yield from unhealed(outcome).items()
    since = healing(outcome.tables, outcome.kind, 0, outcome.guarantees).since if faults_left(outcome) else ""
    for sort, told in faults_left(outcome):
        yield sort, f"{told}; it has not healed since {since}" if since else told


@once
def unhealed(outcome: Outcome) -> dict[str, str]:
    """What `delivery` would find of this, by sort, and leaves to `heals`."""
    if not outcome.case.loses or outcome.failed or outcome.overloaded:
        return {}
    found = dict(not_healed(outcome.audit, outcome.tables, outcome.kind))
    first = {name: mistakes.first for name, mistakes in outcome.audit.breaking.items()}
    from_ns = healing(outcome.tables, outcome.kind, 0, outcome.guarantees).from_ns
    found = {name: told for name, told in found.items() if first[name].sent >= from_ns}
    if not found or outcome.calm.failed or outcome.calm.overloaded:
        return found
    return {name: told for name, told in found.items() if name not in outcome.calm.audit.breaking}


@once
def faults_left(outcome: Outcome) -> list[tuple[str, str]]:
    """What `leaks` would find and leaves to `heals`: it is there since something failed that is over."""
    found = left_behind(outcome) if outcome.case.loses and not outcome.endless else []
    if not found:
        return []
    before = {sort for sort, _ in left_behind(outcome.calm)}
    return [each for each in found if each[0] not in before]
