"""What looks for a mutant: functions of (protocols, seed, seconds) that say what they found, or None.

`kit` asks what `python -m protocols.conformance` asks, the cheap questions first. `hunt` is `scenarios.hunt`, which
looks by itself. For mutants of what says what is right there is `judges.py`.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence

from brokers.engine.model import Model
from brokers.verdicts import VALID
from protocols.conformance import (
    REHEARSALS,
    Rehearsal,
    Variant,
    audit_run,
    check_digests,
    rehearse,
    variants,
)

Finder = Callable[[Sequence[str], int, float], str | None]


# Ways of running that differ most from each other; the rest is asked last.
_FIRST = (
    "batches up to the horizon", "`handle` alone", "compiled, in rounds", "3 shards, auto", "on_message, own tables",
    "on_run for every stretch",
)  # fmt: skip


def kit(protocols: Sequence[str], seed: int, seconds: float) -> str | None:
    """The conformance kit: seven rehearsals by two seeds, audited and run in every way; CPU seconds."""
    until = time.process_time() + seconds
    for ask in (_audited, _run_in_some_ways, _run_in_every_way):
        for each in (seed, seed + 1):
            for rehearsal in REHEARSALS:
                for protocol in protocols:
                    told = _asked(ask, rehearsal, protocol, each)
                    if told is not None or time.process_time() > until:
                        return told
    return None


def _asked(ask: Callable[[Model], str | None], rehearsal: Rehearsal, protocol: str, seed: int) -> str | None:
    try:
        told = ask(rehearse(rehearsal, protocol, seed))
    except Exception as error:  # of the mutant, which may raise anything
        told = f"{type(error).__name__}: {error}"
    return told and f"{protocol}, {rehearsal.name}, seed {seed}: {told}"


def _audited(model: Model) -> str | None:
    judged = audit_run(model)
    return None if judged.verdict == VALID else str(judged)


def _run_in_some_ways(model: Model) -> str | None:
    every = variants(model)
    return _differing(model, [every[0], *(way for way in every if way.name in _FIRST)])


def _run_in_every_way(model: Model) -> str | None:
    return _differing(model, variants(model))


def _differing(model: Model, ways: Sequence[Variant]) -> str | None:
    return next((f"{way}: {told}" for way, _, told in check_digests(model, ways)), None)


def hunt(protocols: Sequence[str], seed: int, seconds: float) -> str | None:
    """`scenarios.hunt` on each protocol in turn, with its share of the CPU seconds, until the first finding."""
    look = importlib.import_module("scenarios.hunt.hunt").hunt
    for protocol in protocols:
        report = look(
            protocol, seed=seed, seconds=seconds / len(protocols), enough=1, shrink_seconds=0, clock=time.process_time
        )
        if report.findings:
            return f"{protocol}: run {report.findings[0].run}: {report.findings[0]}"
    return None
