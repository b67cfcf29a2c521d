"""What a hunt comes to: findings, what its runs covered, and what none of them exercised."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

from brokers.contract import MESSAGE
from brokers.kinds import all_that
from brokers.programs.protocol import Program
from scenarios.hunt.behaviour import marks
from scenarios.hunt.case import Case
from scenarios.hunt.drawing import Prey
from scenarios.hunt.lines import never
from scenarios.hunt.options import options_model
from scenarios.hunt.own_code import OwnCode
from scenarios.hunt.running import Outcome

RUNS_ENOUGH = 200  # from so many on, what was never exercised is a finding


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
    interrupted: bool = False  # while its case was made smaller
    seed: int | None = None  # of the hunt; None: it was no hunt

    def __str__(self) -> str:
        return f"{self.judge} ({self.sort}): {self.told}"

    @property
    def same(self) -> tuple[str, str]:
        """What two findings have in common that count as one."""
        return self.judge, self.sort


@dataclass(frozen=True)
class Unexercised:
    """Something of a protocol that no run of a hunt used."""

    sort: str  # "kind's type", "own type", "option"
    name: str
    told: str  # a sentence


@dataclass
class Covered:
    """What the runs did."""

    types: Counter[tuple[int, int]] = field(default_factory=Counter)  # (kind of event, type) -> how many
    options: Counter[tuple[str, str]] = field(default_factory=Counter)  # (name, value) -> in how many runs
    fresh: list[int] = field(default_factory=list)  # numbers of the runs that behaved in a new way
    marks: set[Any] = field(default_factory=set)
    deliveries: int = 0
    events: int = 0
    faulty: int = 0  # runs with faults
    lines: dict[str, set[int]] = field(default_factory=dict)  # of the protocol that ran in watched runs, by file
    watched: int = 0  # runs

    def note(self, number: int, outcome: Outcome) -> bool:
        """Enter a run; whether it behaved in a new way."""
        case = outcome.case
        self.options.update((name, str(value)) for name, value in case.options.items())
        self.events += outcome.events
        self.faulty += case.loses
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

    def add(self, other: Covered) -> None:
        """What other runs did, too."""
        self.types.update(other.types)
        self.options.update(other.options)
        self.fresh = sorted([*self.fresh, *other.fresh])
        self.marks |= other.marks
        self.deliveries += other.deliveries
        self.events += other.events
        self.faulty += other.faulty
        self.watched += other.watched
        for file, lines in other.lines.items():
            self.lines.setdefault(file, set()).update(lines)


@dataclass(frozen=True)
class Reached:
    """Of a file of the protocol, how many of its lines ran."""

    file: str
    lines: int
    reached: int
    never: list[str]  # lines, or ranges of them


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
    unexercised: list[Unexercised] = field(default_factory=list)
    lines: list[Reached] = field(default_factory=list)  # empty where nobody watched, or nothing can be seen
    compiled_lines: int = 0  # that nobody can see run
    notes: list[str] = field(default_factory=list)  # what was left out, and why
    troubles: list[str] = field(default_factory=list)  # processes that did not come to their end

    @property
    def long_enough(self) -> bool:
        """Whether what was never exercised counts as a finding."""
        return self.runs >= RUNS_ENOUGH


# ---- what no run exercised ---------------------------------------------------------------------------


def unexercised(prey: Prey, own: OwnCode, covered: Covered) -> Iterator[Unexercised]:
    """Types of the kind and of the protocol, and options, that no run used."""
    handled = {type_ for _, type_ in covered.types}
    excuse = "" if prey.faults else "; nothing failed in this hunt"
    silent = prey.kind_class.unsaid(all_that(prey.protocol_class, prey.kind_class))
    for op, type_ in prey.kind_class.types.items():
        if type_ not in silent and (MESSAGE, type_) not in covered.types:
            yield Unexercised("kind's type", op, f"no client ever said {op!r}")
    for type_, name in own.types.items():
        if type_ not in handled:
            told = f"the type {name} ({type_}) was never handled, as a message or a timer{excuse}"
            yield Unexercised("own type", name, told)
    yield from _options(prey, covered)


def _options(prey: Prey, covered: Covered) -> Iterator[Unexercised]:
    program = issubclass(prey.protocol_class, Program)  # whose options are limits of wall time and size
    model = None if program else options_model(prey.protocol_class)
    said: dict[str, set[str]] = {}
    for name, value in covered.options:
        said.setdefault(name, set()).add(value)
    for name, info in {} if model is None else model.model_fields.items():
        if name in prey.options:
            continue
        others = said.get(name, set()) - {str(info.default)}
        choices = get_args(info.annotation) if get_origin(info.annotation) is Literal else ()
        lacking = [str(each) for each in choices if each != info.default and str(each) not in others]
        if not others:
            yield Unexercised("option", name, f"the option {name} was never other than it is by default")
        elif lacking:
            yield Unexercised("option", name, f"the option {name} was never {' or '.join(lacking)}")


def lines_reached(own: OwnCode, lines: Mapping[str, set[int]]) -> list[Reached]:
    """File by file, that of the class first."""
    mine = getattr(sys.modules.get(own.protocol.__module__), "__file__", None)
    found = []
    for file in sorted(own.lines, key=lambda file: (file != mine, file)):
        every, seen = own.lines[file], lines.get(file, set())
        found.append(Reached(file, len(every), len(every & seen), never(every, seen)))
    return found
