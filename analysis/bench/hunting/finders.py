"""What looks for a mutant: functions of (protocols, seed, seconds) that say what they found, or None.

`kit` asks what `python -m protocols.conformance` asks, the cheap questions first. `hunt` is `scenarios.hunt`, which
looks by itself. `judges` is for mutants of what says what is right: it has runs that are right and runs that were
spoilt, and a judge must know them apart; then it hunts who is right.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from brokers.engine.model import Model
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import Crash, Cut, Schedule
from brokers.promises import Faced, promised
from brokers.verdicts import INVALID, VALID
from protocols.conformance import (
    REHEARSALS,
    Rehearsal,
    Variant,
    audit,
    audit_run,
    check_digests,
    rehearse,
    variants,
)

Finder = Callable[[Sequence[str], int, float], str | None]
MS = 1_000_000


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


# ---- judges --------------------------------------------------------------------------------------------


def judges(protocols: Sequence[str], seed: int, seconds: float) -> str | None:
    """Whether right runs are valid and spoilt ones invalid; then whether a hunt accuses who is right."""
    until = time.process_time() + seconds
    for found in _judged(protocols, seed):
        if found is not None or time.process_time() > until:
            return found
    return hunt(protocols, seed, until - time.process_time())


def _judged(protocols: Sequence[str], seed: int) -> Iterator[str | None]:
    for rehearsal in REHEARSALS:
        for protocol in protocols:
            for faulty in (False, True):
                where = f"{protocol}, {rehearsal.name}, seed {seed}{', faults' if faulty else ''}"
                try:
                    yield from (each and f"{where}: {each}" for each in _verdicts(rehearsal, protocol, seed, faulty))
                except Exception as error:  # of the mutant
                    yield f"{where}: {type(error).__name__}: {error}"


def _verdicts(rehearsal: Rehearsal, protocol: str, seed: int, faulty: bool) -> Iterator[str | None]:
    model = _struck(rehearsal, protocol, seed) if faulty else rehearse(rehearsal, protocol, seed)
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    tables, spec = traces.tables(), model.services[0]
    owed = promised(spec.protocol_class, spec.options, model.overlay, Faced.of(model.faults, model.overlay))
    kind = spec.kind_class(spec.params)
    found = audit(tables, kind, owed)
    excusing = faulty and not spec.options  # much is excused, and what is spoilt may be among it
    yield f"a right run is {found}" if found.verdict != VALID and not (excusing and found.verdict != INVALID) else None
    if excusing or rehearsal.links.get("loss"):
        return
    for name, spoil in SPOILS.items():
        spoilt = audit({**tables, **{each: spoil(tables[each]) for each in _JUDGED if each in tables}}, kind, owed)
        yield f"a run with deliveries {name} is {spoilt}" if spoilt.verdict != INVALID else None


def _struck(rehearsal: Rehearsal, protocol: str, seed: int) -> Model:
    """A rehearsal in which a link and a broker fail; the protocol recovers from that, if it can."""
    model = rehearse(replace(rehearsal, duration_ns=400 * MS), protocol, seed)
    options = getattr(model.services[0].protocol_class, "Options", None)
    if options is not None and "recover" in options.model_fields:
        model.services[0].options = {"recover": True, "recover_within": 80 * MS}
    cut = (Cut(0, 40 * MS, 90 * MS), Cut(1, 40 * MS, 90 * MS))
    return replace(model, faults=Schedule((*cut, Crash(1, 60 * MS, 80 * MS)), 5 * MS))


def _size(rows: Mapping[str, Any]) -> int:
    return len(rows["service"])


def _dropped(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Without every third delivery."""
    kept = np.arange(_size(rows)) % 3 != 1
    return {name: column[kept] for name, column in rows.items()}


def _doubled(rows: Mapping[str, Any]) -> dict[str, Any]:
    """With every third delivery once more."""
    again = np.arange(_size(rows))[1::3]
    return {name: np.concatenate((column, column[again])) for name, column in rows.items()}


def _misdirected(rows: Mapping[str, Any]) -> dict[str, Any]:
    """With those of the client that got most to a client that has no interest; or with an object too many."""
    if "objects" in rows:
        return {**rows, "objects": rows["objects"] + 1}
    clients, counts = np.unique(rows["client"], return_counts=True)
    client = rows["client"].copy()
    client[client == clients[np.argmax(counts)]] = clients.min() + 1
    return {**rows, "client": client}


# What judges read of what came to clients: that of all kinds, and that of `channels`.
_JUDGED = ("deliveries", "received")
SPOILS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "dropped": _dropped, "doubled": _doubled, "misdirected": _misdirected,
}  # fmt: skip
