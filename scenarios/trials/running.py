"""Whether a trial went well: every way of running it gives one digest, it ends, and its protocol kept its promises."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brokers.engine.model import Model
from brokers.engine.simulate import FileTraces, MemoryTraces, simulate, tables_of
from brokers.promises import Faced, promised
from brokers.verdicts import INVALID
from protocols.conformance import ORACLE, Variant, audit, check_digests, variants
from scenarios.trials.drawing import Trial

EVENTS_MOST = 1_000_000  # of one run; those that end have some thousands
_WAYS = 2
_WINDOWS = 6  # at least, of a run that is stopped: each is a checkpoint


@dataclass
class Found:
    """What came of a trial."""

    verdict: str = "none"
    wrong: list[str] = field(default_factory=list)  # each a sentence
    ways: list[str] = field(default_factory=list)
    events: int = 0
    lost: dict[int, int] = field(default_factory=dict)  # by reason
    doubled: int = 0


class _Endless(Exception):
    """A run that goes on and on."""


class _Stopped(Exception):
    """A run that was stopped on purpose."""


def run(trial: Trial, ways: int = _WAYS) -> Found:
    """Run it one event at a time, judge that, and compare some other ways with it."""
    found = Found()
    try:
        digest = _judged(trial.model, found)
    except Exception as error:  # of a protocol, of a judge or of the engine: whatever it is, it is a finding
        found.wrong.append(_said("one event at a time", error))
        return found
    for way in _drawn(trial, ways):
        found.ways.append(way.name)
        try:
            if way.run(trial.model).digest != digest:
                told = next((each.told for each in check_digests(trial.model, [ORACLE, way])), "not a second time")
                found.wrong.append(f"{way.name}: another digest: {told}")
        except Exception as error:
            found.wrong.append(_said(way.name, error))
    if trial.ways.below(4) == 0:
        found.ways.append("stopped and gone on with")
        try:
            if _gone_on(trial) != digest:
                found.wrong.append("stopped and gone on with: another digest")
        except Exception as error:
            found.wrong.append(_said("stopped and gone on with", error))
    return found


def _said(way: str, error: Exception) -> str:
    return f"{way}: {type(error).__name__}: {error}"


def _judged(model: Model, found: Found) -> str:
    """The digest that all others are compared with; what is wrong with what was delivered goes into `found`."""

    def watch(now_ns: int, events: int, under_way: int) -> None:
        found.events = events
        if events > EVENTS_MOST:
            raise _Endless(f"more than {EVENTS_MOST:,} events by {now_ns} ns, and {under_way:,} messages are under way")

    traces = MemoryTraces("full", tables_of(model))
    result = simulate(model, trace=traces, cutting=ORACLE.cutting, progress=watch)
    tables: dict[str, Any] = traces.tables()
    found.lost = dict(Counter(tables["losses"]["reason"].tolist()))
    found.doubled = len(tables["doubled"]["link"])
    faced = Faced.of(model.faults, model.overlay)
    for number, spec in enumerate(model.services):
        owed = promised(spec.protocol_class, spec.options, model.overlay, faced)
        judged = audit(tables, spec.kind_class(spec.params), owed, number)
        found.verdict = judged.verdict
        if judged.verdict == INVALID:
            found.wrong.append(str(judged))
    return result.digest


def _drawn(trial: Trial, count: int) -> list[Variant]:
    """Some of the ways of running it, each once."""
    left = variants(trial.model)[1:]
    return [left.pop(trial.ways.below(len(left))) for _ in range(min(count, len(left)))]


def _gone_on(trial: Trial) -> str:
    """The digest after a stop, with as many shards as before or others."""
    model, dice = trial.model, trial.ways
    most = min(3, model.overlay.nodes)
    until = dice.below(model.duration_ns)
    before, after = 1 + dice.below(most), 1 + dice.below(most)

    def stop(now_ns: int, events: int, under_way: int) -> None:
        if now_ns >= until:
            raise _Stopped

    with tempfile.TemporaryDirectory(prefix="brokerlab-trial-") as folder:
        traces = FileTraces(str(Path(folder)), "none", tables_of(model))
        try:
            return simulate(
                model, actors=before, trace=traces, progress=stop, checkpoint_every_s=0.0,
                max_window_ns=model.duration_ns // _WINDOWS,
            ).digest  # fmt: skip
        except _Stopped:
            return simulate(model, actors=after, trace=traces, resume=True).digest
