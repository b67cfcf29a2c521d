"""The judge of what a publication may cost: over a link once, and only where somebody behind it may get it."""

from __future__ import annotations

from collections.abc import Iterator

from protocols.manners import over_budget
from scenarios.hunt.running import Outcome


def budget(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Publications that go over a link twice though no broker forgot them; of frugal protocols, that go for nobody."""
    if outcome.failed:
        return
    protocol = outcome.model.services[0].protocol_class
    yield from over_budget(outcome.tables, outcome.kind, outcome.guarantees, protocol, outcome.model.overlay)
