"""What is asked of every case, each question by a name.

A judge gets what came of a case and gives its mistakes. A mistake has a sort besides its sentence: while a case is made
smaller, judge and sort stay, or one bug would slip into another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from brokers.errors import InvalidInput
from brokers.registry import did_you_mean
from scenarios.hunt.apart import apart
from scenarios.hunt.budget import budget
from scenarios.hunt.growth import grows, grows_soon
from scenarios.hunt.hashing import hashing
from scenarios.hunt.healing import faults_left, heals, unhealed
from scenarios.hunt.pressure import drops
from scenarios.hunt.rest import left_behind, quiet
from scenarios.hunt.running import Outcome
from scenarios.hunt.sameness import cut_as, cut_every_way, cutting, isolation, resuming

HASHING_AFTER = 100  # runs: starting a process takes as long as some dozens of them


class Mistake(NamedTuple):
    """What a judge has against a run."""

    judge: str
    sort: str
    told: str  # a sentence

    @property
    def same(self) -> tuple[str, str]:
        """What two mistakes have in common that count as one."""
        return self.judge, self.sort


class Judge(NamedTuple):
    """A question that is asked of every case."""

    prose: str
    ask: Callable[[Outcome], Iterator[tuple[str, str]]]  # (sort, sentence)
    dear: bool = False  # asked of a few cases only: it runs them again
    late: int = 0  # asked after so many runs of a hunt, and of a replay only by its name: it starts a process


def fails(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """What was raised."""
    if outcome.failed and outcome.sort != "never quiet":
        yield outcome.sort, f"it failed: {outcome.failed}"


def storm(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """More messages than clients can have caused; of a protocol that promises nothing there, that is none."""
    promised = outcome.guarantees if outcome.sort == "never quiet" else None
    if promised is not None and promised.anything:
        yield "storm", outcome.failed.removeprefix("verdict invalid: ")


def delivery(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """What the kit's audit finds that breaks a promise."""
    if outcome.failed or outcome.overloaded:
        return
    for name, mistakes in outcome.audit.breaking.items():
        if name not in unhealed(outcome):
            yield name, mistakes.first.told


def leaks(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """What all have left behind, and not since something failed."""
    yield from (each for each in left_behind(outcome) if each not in faults_left(outcome))


JUDGES: dict[str, Judge] = {
    "fails": Judge("the protocol raises nothing and keeps the contract", fails),
    "storm": Judge("what clients do causes no messages without end", storm),
    "delivery": Judge(
        "who must get a publication gets it, once and in order, and nobody else does", delivery
    ),
    "heals": Judge("once faults are over and made good, all arrives as before, and nothing of them is left", heals),
    "budget": Judge(
        "a publication goes over a link once; of frugal protocols, only where somebody may get it", budget
    ),
    "drops": Judge("who says so stops sending publications where they are dropped", drops),
    "leaks": Judge("nothing is left once all that was begun has ended", leaks),
    "quiet": Judge("no messages or timers go on once all that was begun has ended", quiet),
    "isolation": Judge("a run changes nothing that all brokers have in common: classes, modules", isolation),
    "apart": Judge("what a broker handles changes no other broker, and nothing that messages carry", apart, dear=True),
    "cutting": Judge("other cuttings, shards, tables and views give the same run", cutting, dear=True),
    "resuming": Judge("a run that is stopped and gone on with is the same run", resuming, dear=True),
    "grows": Judge("what brokers remember comes to a level when a case is played again and again", grows, dear=True),
    "hashing": Judge(
        "another PYTHONHASHSEED, in another process, gives the same run", hashing, dear=True, late=HASHING_AFTER
    ),
}


def chosen(names: Sequence[str] | None) -> dict[str, Judge]:
    """The judges of these names, or all; InvalidInput where there is none."""
    if names is None:
        return JUDGES
    for name in names:
        if name not in JUDGES:
            raise InvalidInput(f"no judge named {name!r}; {did_you_mean(name, JUDGES)}")
    return {name: JUDGES[name] for name in JUDGES if name in names}


def narrowed(mistake: Mistake) -> dict[str, Judge]:
    """The judge of a mistake, who asks only what showed it, where that is one of several things, or asks less long."""
    narrower = {"cutting": cut_as(mistake.told), "grows": grows_soon}
    judge = JUDGES[mistake.judge]
    return {mistake.judge: judge._replace(ask=narrower.get(mistake.judge, judge.ask))}


def widened(judges: Mapping[str, Judge]) -> dict[str, Judge]:
    """The same judges, who ask all that they may: for a single case."""
    wider = {"cutting": cut_every_way}
    return {name: each._replace(ask=wider.get(name, each.ask)) for name, each in judges.items()}


def judged(outcome: Outcome, judges: Mapping[str, Judge], dear: bool = False) -> list[Mistake]:
    """What these judges have against a run, the cheap ones or the dear ones."""
    return [
        Mistake(name, sort, told)
        for name, judge in judges.items()
        if judge.dear == dear
        for sort, told in judge.ask(outcome)
    ]
