"""`reliable`: what a live broker accepted is delivered once and in order, whatever is lost and whoever crashes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from brokers.faults import KEPT, LOST, STORED, Crash, Cut, Schedule, Slow, Worn
from brokers.verdicts import VALID
from protocols.conformance import REHEARSALS, audit_run, rehearse

MS = 1_000_000
SMALL = [each for each in REHEARSALS if "overload" not in each.name]


def faults(model: Any, seed: int, until: int = 250 * MS) -> Schedule:
    """Cuts, crashes, losses in bursts, doubled messages, slow brokers and a partition; over by then.

    Brokers with clients keep their store, others may lose everything.
    """
    draws = np.random.default_rng(seed)
    homes = set(model.client_broker.tolist())
    found: list[Any] = []

    def span() -> tuple[int, int]:
        begin = int(draws.integers(until))
        return begin, min(until, begin + 1 + int(draws.integers(until // 2)))

    for _ in range(3):
        link, (begin, end) = int(draws.integers(2 * model.overlay.links)), span()
        found += [Cut(link, begin, end), *([Cut(link ^ 1, begin, end)] * int(draws.integers(2)))]
        broker, (begin, end) = int(draws.integers(model.overlay.brokers)), span()
        states = (KEPT, STORED) if broker in homes else (KEPT, STORED, LOST)
        found.append(Crash(broker, begin, end, state=int(draws.choice(states))))
        found.append(Slow(int(draws.integers(model.overlay.brokers)), *span(), float(draws.choice([0.0, 2.0]))))
        link = int(draws.integers(2 * model.overlay.links))
        found.append(Worn(link, *span(), twice=0.5, begins=0.1, ends=0.3, bad=0.9, delay=int(draws.integers(9 * MS))))
    return Schedule(tuple(found), int(draws.choice([1, 8 * MS, 1 << 62])))


def struck(rehearsal: Any, seed: int, clients: int = 7, **service: Any) -> Any:
    """A rehearsal under faults, with some brokers that have no clients."""
    model = rehearse(replace(rehearsal, duration_ns=400 * MS), "reliable", seed, clients, **service)
    return replace(model, faults=faults(model, seed))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rehearsal", SMALL, ids=lambda each: each.name)
def test_nothing_that_was_accepted_is_missed_doubled_or_out_of_order(rehearsal, seed):
    found = audit_run(struck(rehearsal, seed))
    assert found.guarantees.under_faults == "reliable"
    assert found.verdict == VALID or "too little" in str(found), str(found)
