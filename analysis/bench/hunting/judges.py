"""What looks for mutants of judges: they must know right runs from spoilt ones, and say so whatever is promised.

Runs are of the protocols that are there, which are right: rehearsals, with faults and without; drawn cases; the same
with everything that clients do far apart, so that nothing is free; and cases aimed at the instants of another, where
what is certain borders on what is free. A judge that accuses one of these is wrong, and so is one that finds nothing in
`spoiling.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

from analysis.bench.hunting.spoiling import BREAKS, Clear, Judged, Spoilt, spoilt
from brokers.contract import Guarantees
from brokers.engine.model import Model
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import Crash, Cut, Schedule
from brokers.promises import Faced, promised
from brokers.verdicts import INVALID, UNKNOWN, VALID
from protocols.conformance import audit
from protocols.judging import Audit
from protocols.rehearsing import REHEARSALS, Dice, Rehearsal, rehearse
from scenarios.hunt.aiming import aim
from scenarios.hunt.case import Case
from scenarios.hunt.drawing import Prey, draw
from scenarios.hunt.moments import moments
from scenarios.hunt.running import Outcome, run

MS = 1_000_000
_APART_NS = 400 * MS  # between two things that clients do: by then all that they caused is over
_ACTS_MOST = 60
_AIMED = 4  # cases at one that was drawn
_REHEARSED_EVERY = 8


def judges(protocols: Sequence[str], seed: int, seconds: float) -> str | None:
    """Whether right runs pass and spoilt ones do not, by turns of the protocols; CPU seconds."""
    until = time.process_time() + seconds
    for number in count():
        protocol = protocols[number % len(protocols)]
        try:
            for told in _asked(protocol, seed, number):
                if told is not None:
                    return f"{protocol}, seed {seed}, {number}: {told}"
                if time.process_time() > until:
                    return None
        except Exception as error:  # of the mutant, which may raise anything
            return f"{protocol}, seed {seed}, {number}: {type(error).__name__}: {error}"
    return None


def _asked(protocol: str, seed: int, number: int) -> Iterator[str | None]:
    dice = Dice(seed, number, "judges")
    if dice.below(_REHEARSED_EVERY) == 0:
        rehearsal = REHEARSALS[dice.below(len(REHEARSALS))]
        yield from _rehearsed(rehearsal, protocol, seed, bool(dice.below(2)), dice)
        return
    prey = _prey(protocol)
    case = draw(prey, seed, number)
    if dice.below(2):
        yield _of_case(run(apart(case)), dice)
    outcome = run(case)
    yield _of_case(outcome, dice)
    seen = moments(outcome)
    for i in range(_AIMED):
        shot = aim(prey, case, seen, seed, number * _AIMED + i)
        if shot is not None:
            yield _of_case(run(shot), dice)


@cache
def _prey(protocol: str) -> Prey:
    return Prey.of(protocol)


def apart(case: Case) -> Case:
    """The same with one thing after the other, and nothing that fails, moves, waits or gets lost."""
    if len(case.acts) > _ACTS_MOST:
        return case
    order = sorted(case.acts, key=lambda act: act.at)
    acts = tuple(act._replace(at=(i + 1) * _APART_NS if act.at > 0 else act.at) for i, act in enumerate(order))
    edges = tuple(edge._replace(loss=0.0, bandwidth=0) for edge in case.edges)
    return case.but(
        acts=acts, edges=edges, duration_ns=(len(acts) + 2) * _APART_NS, faults=(), detect_ns=None, moves=(),
        session={}, queues={}, cost={},
    )  # fmt: skip


def _of_case(outcome: Outcome, dice: Dice) -> str | None:
    if outcome.failed:
        return outcome.failed
    if outcome.overloaded:
        return None
    return wrong(Judged(outcome.tables, outcome.kind, outcome.guarantees), dice)


def wrong(run: Judged, dice: Dice, wanted: str = "") -> str | None:
    """What is wrong with the judge of a run that is right; `wanted` is its verdict, where that is sure."""
    found, clear = audit(run.tables, run.kind, run.guarantees), Clear(run)
    if found.verdict == INVALID or (wanted and found.verdict != wanted):
        return f"a right run is {found}"
    if clear.all and not run.kind.publications & run.kind.changes and (unclear := _unclear(found, run)):
        return f"a run of which nothing is free is {found}: {unclear}"
    for each in spoilt(run, clear, dice):
        if told := _unnoticed(each, run, dice):
            return f"a run with {each.how} {told}"
    return None


def _unclear(found: Audit, run: Judged) -> str:
    """What a judge says wrong of a run of which everything is clear."""
    sent, came = len(run.tables["publications"]["publication"]), len(run.tables["deliveries"]["client"])
    if found.free or found.excused:
        return f"{found.free} free, {found.excused} excused"
    if (found.publications, found.deliveries) != (sent, came):
        return f"it had {sent} publications and {came} deliveries"
    promises = any(getattr(run.guarantees, field) for fields in BREAKS.values() for field in fields)
    if came and found.verdict != (VALID if promises else UNKNOWN):
        return "all of it was put to the test"
    return ""


def _unnoticed(spoilt: Spoilt, run: Judged, dice: Dice) -> str | None:
    """What a judge does not see of a spoilt run: under all promises, and under one that is broken or kept."""
    kept = sorted({field for fields in BREAKS.values() for field in fields if getattr(run.guarantees, field)})
    one = kept[dice.below(len(kept))] if kept else ""
    for promises in (run.guarantees, *([_only(run.guarantees, one)] if one else [])):
        found = audit(spoilt.tables, run.kind, promises)
        broken = any(getattr(promises, field) for field in BREAKS[spoilt.finding])
        if broken and found.verdict != INVALID:
            return f"is {found}"
        if not getattr(found, spoilt.finding).count:
            return f"has nothing {spoilt.finding}: {found}"
        if promises is not run.guarantees and not broken and spoilt.single and found.verdict == INVALID:
            return f"breaks {one}: {found}"
    return None


def _only(guarantees: Guarantees, field: str) -> Guarantees:
    said: dict[str, Any] = {each: each == field for fields in BREAKS.values() for each in fields}
    return replace(guarantees, **said)


# ---- rehearsals ----------------------------------------------------------------------------------------


def _rehearsed(rehearsal: Rehearsal, protocol: str, seed: int, faulty: bool, dice: Dice) -> Iterator[str | None]:
    model = _struck(rehearsal, protocol, seed) if faulty else rehearse(rehearsal, protocol, seed)
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    spec = model.services[0]
    owed = promised(spec.protocol_class, spec.options, model.overlay, Faced.of(model.faults, model.overlay))
    run = Judged(traces.tables(), spec.kind_class(spec.params), owed)
    # Where much is excused, or waits, too little may be forced.
    unsure = (faulty and not spec.options) or rehearsal.links.get("loss") or rehearsal.cost or not owed.anything
    told = wrong(run, dice, "" if unsure else VALID)
    yield told and f"{rehearsal.name}{', faults' if faulty else ''}: {told}"


def _struck(rehearsal: Rehearsal, protocol: str, seed: int) -> Model:
    """A rehearsal in which a link and a broker fail; the protocol recovers from that, if it can."""
    model = rehearse(replace(rehearsal, duration_ns=400 * MS), protocol, seed)
    options = getattr(model.services[0].protocol_class, "Options", None)
    if options is not None and "recover" in options.model_fields:
        model.services[0].options = {"recover": True, "recover_within": 80 * MS}
    cut = (Cut(0, 40 * MS, 90 * MS), Cut(1, 40 * MS, 90 * MS))
    return replace(model, faults=Schedule((*cut, Crash(1, 60 * MS, 80 * MS)), 5 * MS))
