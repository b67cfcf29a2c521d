"""The hunt: draw or branch, aim, run, judge, and make smaller what fails.

    from scenarios.hunt.hunt import hunt

    report = hunt("my.module:Mine", seed=1, runs=200)
    for finding in report.findings:
        print(finding.judge, finding.told, finding.case)

Everything follows from seed and number of the run: two hunts of so many `runs` find the same. `seconds` end it as well.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from typing import Any

from brokers.errors import InvalidInput
from protocols.rehearsing import Dice
from scenarios.hunt import hashing
from scenarios.hunt.aiming import aim
from scenarios.hunt.case import Case
from scenarios.hunt.drawing import Prey, draw, one_of
from scenarios.hunt.found import Covered, Finding, Report, lines_reached, unexercised
from scenarios.hunt.judges import Mistake, chosen, judged, narrowed
from scenarios.hunt.lines import WATCHED_EVERY, Lines
from scenarios.hunt.moments import Moments, moments
from scenarios.hunt.mutating import mutate
from scenarios.hunt.own_code import OwnCode
from scenarios.hunt.plan import Plan, Schedules
from scenarios.hunt.running import Outcome, Stopwatch, run, settled_in
from scenarios.hunt.shrinking import SECONDS_MOST, shrink

_DEAR_EVERY, _DEAR_IF_NEW = 10, 3  # runs that dear judges are asked about, one of them in turn
_FIRST = 40  # these are drawn: what is plain shows there, and others have cases to go on from
_DRAWN, _AIMED, _OF = 3, 5, 10  # of so many runs after them these are drawn, and aimed; others change a thing or two
# Those that have turns of their own, by place among twenty runs.
_TURNS, _TURNS_OF = {5: ("apart", "hashing"), 7: ("grows",), 15: ("apart", "hashing")}, 20
_KEPT_MOST = 200  # cases that are branched from
OnFinding = Callable[[Finding], None]
OnRun = Callable[[Report], None]
OnMistake = Callable[[str], None]


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
    trees_only: bool = False,
    enough: int | None = None,
    shrink_seconds: float = SECONDS_MOST,
    clock: Callable[[], float] = time.monotonic,
    lines: bool = True,
    jobs: int = 1,
    on_finding: OnFinding | None = None,
    on_run: OnRun | None = None,
    on_mistake: OnMistake | None = None,
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
    trees_only : whether graphs with cycles are left out
    enough : it ends after so many findings
    shrink_seconds : how long at most a case is made smaller; 0: not at all
    clock : what `seconds` are of: wall time, or, with one process, `time.process_time`
    lines : whether it is watched in some runs which lines of the protocol run; a case that reached new ones is kept
    jobs : so many processes side by side, each with its part of the runs; another number of them finds other things
    on_finding, on_run : told as it goes
    on_mistake : told in a sentence of what was found, before its case is made smaller, which may take a while

    Raises
    ------
    InvalidInput
        If there is no such protocol, kind, judge or option, or other processes cannot import it.
    """
    prey = Prey.of(protocol, kind, options, faults, trees_only)
    chosen(judges)
    seconds = 60.0 if seconds is None and runs is None else seconds
    plan = Plan(
        prey.protocol, prey.kind, seed, seconds, runs, dict(options or {}), None if judges is None else tuple(judges),
        schedules, faults, enough, shrink_seconds, lines, trees_only,
    )  # fmt: skip
    if jobs > 1:
        from scenarios.hunt.side_by_side import side_by_side

        report = side_by_side(plan, jobs, on_finding, on_run, on_mistake)
    else:
        report = alone(plan, on_finding, on_run, clock, on_mistake)
    own = OwnCode.of(prey.protocol_class)
    report.unexercised = list(unexercised(prey, own, report.covered))
    if report.covered.watched:
        report.lines, report.compiled_lines = lines_reached(own, report.covered.lines), own.compiled_lines
    return report


@settled_in()
def alone(
    plan: Plan, on_finding: OnFinding | None = None, on_run: OnRun | None = None,
    clock: Callable[[], float] = time.monotonic, on_mistake: OnMistake | None = None,
) -> Report:  # fmt: skip
    """The part of a hunt that falls to this process."""
    hunter, watch = _Hunter(plan, on_mistake), Stopwatch(clock)
    report = hunter.report
    first, step = plan.share
    try:
        for number in count(first, step):
            if plan.runs is not None and number >= plan.runs:
                break
            if plan.seconds is not None and watch.seconds >= plan.seconds:
                break
            for finding in hunter.run(number):
                report.findings.append(finding)
                if on_finding is not None:
                    on_finding(finding)
                if finding.interrupted:
                    raise KeyboardInterrupt
            report.seconds = watch.seconds
            if on_run is not None:
                on_run(report)
            if plan.enough is not None and len(report.findings) >= plan.enough:
                break
    except KeyboardInterrupt:
        report.interrupted = True
    finally:
        report.notes += hashing.close()
    report.seconds = watch.seconds
    return report


class _Hunter:
    """One run after the other, and what is known from those before."""

    def __init__(self, plan: Plan, on_mistake: OnMistake | None) -> None:
        self._plan = plan
        self._on_mistake = on_mistake
        prey = Prey.of(plan.protocol, plan.kind, plan.options, plan.faults, plan.trees_only)
        self._kept = _Kept(prey, plan.seed, plan.schedules)
        self._asked = chosen(plan.judges)
        self._turns: Counter[tuple[str, ...] | None] = Counter()  # that dear judges had, each group by itself
        self._known: dict[tuple[str, str], Finding] = {}
        self._lines = Lines(OwnCode.of(prey.protocol_class)) if plan.lines else None
        self.report = Report(prey.protocol, plan.seed)
        if self._lines is not None:
            self.report.covered.lines = self._lines.reached

    def run(self, number: int) -> Iterator[Finding]:
        """The run of this number; what is found, as it is."""
        covered, lines = self.report.covered, self._lines
        watched = lines is not None and number // self._plan.share[1] % WATCHED_EVERY == 0
        seen = 0 if lines is None else lines.fresh
        with lines.watching() if lines is not None and watched else nullcontext():
            outcome = run(self._kept.next(number))
            fresh = covered.note(number, outcome)
            mistakes = self._judged(number, outcome, fresh)
        covered.watched += watched
        self.report.runs += 1
        if fresh or (lines is not None and lines.fresh > seen):
            self._kept.keep(outcome)
        for mistake in mistakes:
            if mistake.same in self._known:
                self._known[mistake.same].again += 1
                continue
            if self._on_mistake is not None:
                self._on_mistake(f"run {number}: {mistake.judge} ({mistake.sort}); its case is made smaller")
            found = smaller(number, outcome.case, mistake, self._plan.shrink_seconds)
            found.seed = self._plan.seed
            self._known[mistake.same] = found
            yield found

    def _judged(self, number: int, outcome: Outcome, fresh: bool) -> list[Mistake]:
        """What judges have against a run; dear ones in turn are asked about some."""
        mistakes = judged(outcome, self._asked)
        name = None if mistakes else self._whose_turn(number, fresh)
        return mistakes if name is None else judged(outcome, {name: self._asked[name]}, dear=True)

    def _whose_turn(self, number: int, fresh: bool) -> str | None:
        """The dear judge that is asked about this run, if one is."""
        own = _TURNS.get(number % _TURNS_OF)
        if own is None and not (number % _DEAR_EVERY < 2 or (fresh and number % _DEAR_IF_NEW == 0)):
            return None
        others = {name for names in _TURNS.values() for name in names}
        dear = [name for name, judge in self._asked.items() if judge.dear and judge.late <= number]
        dear = [name for name in dear if (name not in others if own is None else name in own)]
        if not dear:
            return None
        self._turns[own] += 1
        return dear[self._turns[own] % len(dear)]


class _Kept:
    """Cases that are worth to go on from, with the moments to aim at."""

    def __init__(self, prey: Prey, seed: int, schedules: Schedules) -> None:
        self._prey, self._seed, self._schedules = prey, seed, schedules
        self._cases: list[tuple[Case, Moments]] = []
        self._clean: list[tuple[Case, Moments]] = []  # those in which something arrives and no loss excuses anything

    def next(self, number: int) -> Case:
        """The case of this number."""
        dice = Dice(self._seed, number, "hunt/next")
        way = dice.below(_OF)
        if self._schedules == "random" or not self._cases or number < _FIRST or way < _DRAWN:
            return draw(self._prey, self._seed, number)
        case, at = one_of(dice, self._clean if self._clean and dice.below(2) else self._cases)
        found = aim(self._prey, case, at, self._seed, number) if way < _DRAWN + _AIMED else None
        return found or mutate(self._prey, case, self._seed, number)

    def keep(self, outcome: Outcome) -> None:
        """Go on from this one too."""
        kept = (outcome.case, moments(outcome))
        tables = outcome.tables
        clean = bool(tables) and not outcome.case.loses and not len(tables["losses"]["link"])
        clean = clean and len(tables["deliveries"]["client"]) > 0
        for cases in (self._cases, self._clean) if clean else (self._cases,):
            cases.append(kept)
            del cases[: max(0, len(cases) - _KEPT_MOST)]


def smaller(number: int, case: Case, mistake: Mistake, seconds: float = SECONDS_MOST) -> Finding:
    """A finding, with its case made smaller."""
    only = narrowed(mistake)

    told = {case.key: mistake.told}

    def against(candidate: Case) -> list[Mistake]:
        outcome = run(candidate)
        try:
            found = judged(outcome, only) + judged(outcome, only, dear=True)
        except InvalidInput:  # its plainer numbers are nothing that a client may say, and no broker has met them
            return []
        found = [each for each in found if each.same == mistake.same]
        if found:
            told[candidate.key] = found[0].told
        return found

    shrunk = shrink(case, lambda candidate: bool(against(candidate)), seconds=seconds)
    if shrunk.interrupted:  # nothing is run any more
        said = told[shrunk.case.key]
        return Finding(
            mistake.judge, mistake.sort, said, shrunk.case, number, case, tried=shrunk.tried, interrupted=True
        )  # fmt: skip
    left = against(shrunk.case) or [mistake]
    digest = run(shrunk.case).digest
    found = Finding(mistake.judge, mistake.sort, left[0].told, shrunk.case, number, case)
    return replace(found, minimal=shrunk.minimal, tried=shrunk.tried, digest=digest)


__all__ = ["Covered", "Finding", "Report", "hunt", "smaller"]
