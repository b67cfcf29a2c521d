"""The hunt: draw or branch, aim, run, judge, and make smaller what fails.

    from scenarios.hunt.hunt import hunt

    report = hunt("my.module:Mine", seed=1, runs=200)
    for finding in report.findings:
        print(finding.judge, finding.told, finding.case)

Everything follows from seed and number of the run: two hunts of so many `runs` find the same. `seconds` end it as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from protocols.rehearsing import Dice
from scenarios.hunt.aiming import aim
from scenarios.hunt.behaviour import marks
from scenarios.hunt.case import Case
from scenarios.hunt.drawing import Prey, draw, one_of
from scenarios.hunt.judges import Judge, Mistake, chosen, judged
from scenarios.hunt.moments import Moments, moments
from scenarios.hunt.mutating import mutate
from scenarios.hunt.options import options_model
from scenarios.hunt.running import Outcome, Stopwatch, run, settled_in
from scenarios.hunt.shrinking import SECONDS_MOST, shrink

_DEAR_EVERY, _DEAR_IF_NEW = 10, 3  # runs that dear judges are asked about, one of them in turn
_DRAWN, _AIMED, _WAYS = 3, 5, 10  # of so many runs these are drawn anew, and aimed; others change a thing or two
_KEPT_MOST = 200  # cases that are branched from
Schedules = Literal["aimed", "random"]


@dataclass
class Finding:
    """A mistake, with the smallest case that shows it."""

    judge: str
    sort: str
    told: str  # a sentence
    case: Case  # made smaller
    run: int  # number of the run that found it
    first: Case  # the case as it was found
    minimal: bool = False
    tried: int = 0  # candidates on the way
    again: int = 0  # further runs that showed the same
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.judge} ({self.sort}): {self.told}"


@dataclass
class Covered:
    """What the runs did."""

    types: Counter[tuple[int, int]] = field(default_factory=Counter)  # (kind of event, type) -> how many
    options: Counter[str] = field(default_factory=Counter)  # drawn -> in how many runs
    fresh: list[int] = field(default_factory=list)  # numbers of the runs that behaved in a new way
    marks: set[Any] = field(default_factory=set)
    deliveries: int = 0
    events: int = 0
    faulty: int = 0  # runs with faults

    def note(self, number: int, outcome: Outcome) -> bool:
        """Enter a run; whether it behaved in a new way."""
        case = outcome.case
        self.options.update(list(case.options))
        self.events += outcome.events
        self.faulty += bool(case.faults)
        if outcome.tables:
            hops = outcome.tables["hops"]
            self.types.update(zip(hops["kind"].tolist(), hops["type"].tolist()))
            self.deliveries += len(outcome.tables["deliveries"]["client"])
        left = marks(outcome)
        fresh = bool(left - self.marks)
        self.marks |= left
        if fresh:
            self.fresh.append(number)
        return fresh


@dataclass
class Report:
    """What came of a hunt."""

    protocol: str
    seed: int
    findings: list[Finding] = field(default_factory=list)
    runs: int = 0
    seconds: float = 0.0
    covered: Covered = field(default_factory=Covered)
    interrupted: bool = False
    unused: list[str] = field(default_factory=list)  # what no run exercised, a sentence each


@settled_in()
def hunt(
    protocol: str | type,
    *,
    seed: int = 1,
    seconds: float | None = None,
    runs: int | None = None,
    kind: str | type | None = None,
    options: Mapping[str, Any] | None = None,
    judges: Sequence[str] | None = None,
    schedules: Schedules = "aimed",
    faults: bool = True,
    enough: int | None = None,
    shrink_seconds: float = SECONDS_MOST,
    on_finding: Callable[[Finding], None] | None = None,
    on_run: Callable[[Report], None] | None = None,
) -> Report:
    """Look for what is wrong with a protocol.

    Parameters
    ----------
    protocol : a registered name, package.module:Class, or a class
    seed : of everything that is drawn
    seconds, runs : it ends after so long, or so many runs; by default after 60 seconds
    kind : of the protocol, if it is not registered
    options : of the protocol, in every run; others are drawn
    judges : by name; by default all
    schedules : "aimed" at what happened before, or plainly "random"
    faults : whether anything fails
    enough : it ends after so many findings
    shrink_seconds : how long at most a case is made smaller; 0: not at all
    on_finding, on_run : told as it goes

    Raises
    ------
    InvalidInput
        If there is no such protocol, kind, judge or option.
    """
    prey = Prey.of(protocol, kind, options, faults)
    report = Report(prey.protocol, seed)
    asked, watch = chosen(judges), Stopwatch()
    seconds = 60.0 if seconds is None and runs is None else seconds
    known: dict[tuple[str, str], Finding] = {}
    kept = _Kept(prey, seed, schedules)
    try:
        for number in count():
            if (runs is not None and number >= runs) or (seconds is not None and watch.seconds >= seconds):
                break
            outcome = run(kept.next(number))
            fresh = report.covered.note(number, outcome)
            report.runs += 1
            if fresh:
                kept.keep(outcome)
            for finding in _judged(number, outcome, fresh, asked, known, shrink_seconds):
                report.findings.append(finding)
                if on_finding is not None:
                    on_finding(finding)
            report.seconds = watch.seconds
            if on_run is not None:
                on_run(report)
            if enough is not None and len(report.findings) >= enough:
                break
    except KeyboardInterrupt:
        report.interrupted = True
    report.seconds = watch.seconds
    report.unused = list(_unused(prey, report.covered))
    return report


def _unused(prey: Prey, covered: Covered) -> Iterator[str]:
    """What no run exercised, a sentence each."""
    kind = prey.kind_class
    sent = {type_ for (_, type_) in covered.types}
    if never := [op for op, type_ in kind.types.items() if type_ not in sent]:
        yield f"never sent: {', '.join(never)}"
    model = options_model(prey.protocol_class)
    known = [] if model is None else [name for name in model.model_fields if name not in prey.options]
    if never := [name for name in known if name not in covered.options]:
        yield f"options never other than they are by default: {', '.join(never)}"


class _Kept:
    """Cases that are worth to go on from, with the moments to aim at."""

    def __init__(self, prey: Prey, seed: int, schedules: Schedules) -> None:
        self._prey, self._seed, self._schedules = prey, seed, schedules
        self._cases: list[tuple[Case, Moments]] = []
        self._clean: list[tuple[Case, Moments]] = []  # of them those in which something arrives, and no loss excuses anything

    def next(self, number: int) -> Case:
        """The case of this number."""
        dice = Dice(self._seed, number, "hunt/next")
        way = dice.below(_WAYS)
        if self._schedules == "random" or not self._cases or way < _DRAWN:
            return draw(self._prey, self._seed, number)
        case, at = one_of(dice, self._clean if self._clean and dice.below(4) else self._cases)
        aimed = aim(self._prey, case, at, self._seed, number) if way < _DRAWN + _AIMED else None
        return aimed or mutate(self._prey, case, self._seed, number)

    def keep(self, outcome: Outcome) -> None:
        """Go on from this one too."""
        kept = (outcome.case, moments(outcome))
        tables = outcome.tables
        clean = bool(tables) and not outcome.case.loses and not len(tables["losses"]["link"])
        clean = clean and len(tables["deliveries"]["client"]) > 0
        for cases in (self._cases, self._clean) if clean else (self._cases,):
            cases.append(kept)
            del cases[: max(0, len(cases) - _KEPT_MOST)]


def _judged(
    number: int, outcome: Outcome, fresh: bool, asked: Mapping[str, Judge], known: dict[tuple[str, str], Finding],
    shrink_seconds: float,
) -> Iterator[Finding]:  # fmt: skip
    """What judges have against a run, as findings where it is new."""
    mistakes = judged(outcome, asked)
    if not mistakes and (number % _DEAR_EVERY < 2 or (fresh and number % _DEAR_IF_NEW == 0)):
        dear = [name for name, judge in asked.items() if judge.dear]
        turn = {dear[number % len(dear)]: asked[dear[number % len(dear)]]} if dear else {}
        mistakes = judged(outcome, turn, dear=True)
    for mistake in mistakes:
        if mistake.same in known:
            known[mistake.same].again += 1
            continue
        known[mistake.same] = found = _smaller(number, outcome.case, mistake, asked, shrink_seconds)
        yield found


def _smaller(
    number: int, case: Case, mistake: Mistake, asked: Mapping[str, Judge], seconds: float
) -> Finding:
    """A finding, with its case made smaller."""
    only = {mistake.judge: asked[mistake.judge]}

    def against(candidate: Case) -> list[Mistake]:
        outcome = run(candidate)
        found = judged(outcome, only) + judged(outcome, only, dear=True)
        return [each for each in found if each.same == mistake.same]

    shrunk = shrink(case, lambda candidate: bool(against(candidate)), seconds=seconds)
    left = against(shrunk.case) or [mistake]
    digest = run(shrunk.case).digest
    return Finding(
        mistake.judge,
        mistake.sort,
        left[0].told,
        shrunk.case,
        number,
        case,
        shrunk.minimal,
        shrunk.tried,
        digest=digest,
    )


__all__ = ["Covered", "Finding", "Report", "hunt"]
