"""What a source says, beside what was found: sources, bounds, claims, and verdicts over seeds.

A claim is measured figures with the bounds that a source puts to them. It is measured once per seed; the verdict is
that of the means:

    holds, does not hold   all figures are within their bounds, or one is not, and the same command with other
                           seeds would say the opposite less often than once in twenty times
    unsure                 it would more often; the verdict says after how many seeds it would not
    reported               the source names nothing that could be judged

How often it would is known by Student's t from the spread over seeds: a mean of n seeds lies sqrt(2/n) spreads from
another such mean. Of a claim with m figures each may say the opposite once in 20 m times only, so that all of them
together do so once in 20 (Bonferroni). With one seed no spread is known, and the verdict says so. Seeds that agree to
the digit are no certainty where the figure is a share of runs: by the rule of three, what was seen in none of n runs
may happen in 3/n of them. That is said of what has to be none, and leaves a share unsure that is so near its bound.
What has to be one number does not hold as soon as one seed gives another. A figure that a seed could not give, such as
a mean over no runs, is `None`: it is judged over the seeds that have it, and without any the verdict is unsure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from analysis.bench.rows import number
from scenarios.many.student import quantile

HOLDS, FAILS, UNSURE, REPORTED = "holds", "does not hold", "unsure", "reported"
VERDICTS = (HOLDS, FAILS, UNSURE, REPORTED)
FLIPS_MOST = 1 / 20
_BESIDE = 5  # bounds that are told apart from what was measured; more stand beside each figure
_THREE = 3  # what was seen in none of n runs happens in at most 3/n of them, with a confidence of 95 %
_SEEDS_MOST = 10_000  # beyond which nobody decides anything by more seeds

PRINTED, READ_OFF, DERIVED, OURS, CALIBRATED = "printed", "read off", "derived", "ours", "calibrated"
SORTS = {
    PRINTED: "a figure or a sentence of the paper",
    READ_OFF: "read off a figure of the paper",
    DERIVED: "a closed form, or a consequence of the definitions",
    OURS: "another implementation, or an expectation of this project",
    CALIBRATED: "a constant was fitted to what it is compared with",
}


class Source(NamedTuple):
    """Where an expectation comes from."""

    sort: str
    where: str

    def __str__(self) -> str:
        return f"{self.sort}: {self.where}"


def printed(where: str) -> Source:
    return Source(PRINTED, where)


def read_off(where: str) -> Source:
    return Source(READ_OFF, where)


def derived(where: str) -> Source:
    return Source(DERIVED, where)


def ours(where: str) -> Source:
    return Source(OURS, where)


def calibrated(where: str) -> Source:
    return Source(CALIBRATED, where)


# ---- bounds ------------------------------------------------------------------------------------------------


class Bound(NamedTuple):
    """Between what a figure has to lie; `open` ends do not belong to it."""

    low: float = -math.inf
    high: float = math.inf
    open: bool = False

    def has(self, value: float) -> bool:
        if self.open:
            return self.low < value < self.high
        return self.low <= value <= self.high

    @property
    def exact(self) -> bool:
        """Whether it is one number."""
        return self.low == self.high

    def off(self, value: float) -> float:
        """How far a value is from the nearer end."""
        return min(abs(value - self.low), abs(value - self.high))

    def __str__(self) -> str:
        if self.exact:
            return number(self.low)
        if self.low == -math.inf:
            return f"{'below' if self.open else 'at most'} {number(self.high)}"
        if self.high == math.inf:
            return f"{'above' if self.open else 'at least'} {number(self.low)}"
        return f"{number(self.low)} to {number(self.high)}"


def at_least(value: float) -> Bound:
    return Bound(low=value)


def at_most(value: float) -> Bound:
    return Bound(high=value)


def above(value: float) -> Bound:
    return Bound(low=value, open=True)


def below(value: float) -> Bound:
    return Bound(high=value, open=True)


def between(low: float, high: float) -> Bound:
    return Bound(low, high)


def exactly(value: float) -> Bound:
    return Bound(value, value)


def near(value: float, part: float) -> Bound:
    """Within a part of a figure of either sign."""
    return Bound(value - part * abs(value), value + part * abs(value))


# ---- claims ------------------------------------------------------------------------------------------------


class Figure(NamedTuple):
    """One measured figure of a claim."""

    value: float | None  # None: there is no such number in what was measured
    bound: Bound | None = None  # None: reported beside the others
    runs: int = 0  # of which it is a share in percent, or a count; 0: of none


@dataclass(frozen=True)
class Claim:
    """What a source says, and what one seed gave."""

    key: str  # by which it is repeated alone, within its experiment
    name: str
    source: Source
    figures: Mapping[str, Figure]  # by what they are of; "" if there is but one
    expected: str = ""  # in the words of the source; empty: the bounds say it
    note: str = ""  # what has to be known beside
    unit: str = ""


class Spread(NamedTuple):
    """A figure over seeds."""

    values: tuple[float | None, ...]
    bound: Bound | None
    runs: int = 0  # per seed
    judged: int = 1  # figures of its claim that a spread decides

    @property
    def known(self) -> list[float]:
        """Of the seeds that gave one."""
        return [each for each in self.values if each is not None]

    @property
    def mean(self) -> float:
        return math.fsum(self.known) / len(self.known)

    @property
    def refuted(self) -> bool:
        """Whether a seed gave another number than the one that it had to be."""
        bound = self.bound
        return bound is not None and bound.exact and not all(map(bound.has, self.known))

    @property
    def deviation(self) -> float | None:
        """None: one seed has none."""
        if len(self.known) < 2:
            return None
        mean = self.mean
        return math.sqrt(math.fsum((value - mean) ** 2 for value in self.known) / (len(self.known) - 1))

    def verdict(self) -> str:
        if self.bound is None:
            return REPORTED
        if not self.known:
            return UNSURE
        if self.refuted:
            return FAILS
        if len(self.known) == 1 < len(self.values):
            return UNSURE
        told = HOLDS if self.bound.has(self.mean) else FAILS
        room = self._room(len(self.known))
        if not room or math.isnan(self.mean):
            return told
        return told if self.bound.off(self.mean) > room else UNSURE

    def _room(self, seeds: int) -> float:
        """How far a mean of so many seeds has to be from a bound, so that next to no other lies beyond it."""
        if self.deviation:
            return quantile(1 - 2 * FLIPS_MOST / self.judged, seeds - 1) * self.deviation * math.sqrt(2 / seeds)
        if self.runs and self.bound is not None and not self.bound.exact:
            return 100 * _THREE / (self.runs * seeds)
        return 0.0

    @property
    def unseen(self) -> int:
        """The runs in none of which was seen what has to be none; 0 if that is not what it is of."""
        none = self.bound is not None and self.bound.exact and not any(self.known)
        return self.runs * len(self.known) if none else 0

    def decided_by(self) -> int | None:
        """How many seeds would decide it, if the mean stays; None: none that anybody would run."""
        assert self.bound is not None
        off = self.bound.off(self.mean)
        low, high = len(self.known), _SEEDS_MOST
        if off <= self._room(high):
            return None
        while high - low > 1:  # the room falls with the seeds
            middle = (low + high) // 2
            low, high = (low, middle) if off > self._room(middle) else (middle, high)
        return high

    def __str__(self) -> str:
        if not self.known:
            return "no number"
        deviation = self.deviation
        return number(self.mean) + (f" ± {number(deviation)}" if deviation else "")


@dataclass(frozen=True)
class Judged:
    """A claim over seeds, with its verdict."""

    experiment: str
    claim: Claim  # that of the first seed, for its words
    seeds: tuple[int, ...]
    spreads: Mapping[str, Spread]

    @property
    def key(self) -> str:
        return f"{self.experiment}/{self.claim.key}"

    @property
    def expected(self) -> str:
        claim = self.claim
        if claim.expected:
            return claim.expected
        bounds = {label: str(each.bound) for label, each in self.spreads.items() if each.bound is not None}
        same = set(bounds.values())
        if len(same) > _BESIDE:
            return "in brackets"
        told = same.pop() if len(same) == 1 else ", ".join(f"{label}: {each}" for label, each in bounds.items())
        return _with_unit(told, claim.unit)

    @property
    def measured(self) -> str:
        bounds = self.expected == "in brackets"
        told = ", ".join(
            (f"{label}: {each}" if label else str(each)) + (f" ({each.bound})" if bounds and each.bound else "")
            for label, each in self.spreads.items()
        )
        return _with_unit(told, self.claim.unit)

    @property
    def verdict(self) -> str:
        found = {each.verdict() for each in self.spreads.values()}
        return next(each for each in (FAILS, UNSURE, HOLDS, REPORTED) if each in found)

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        verdict = self.verdict
        parts = [self.claim.note] if self.claim.note else []
        parts += [_lacking(label, each) for label, each in self.spreads.items() if len(each.known) < len(each.values)]
        concerned = {label: each for label, each in self.spreads.items() if each.verdict() == verdict}
        if verdict == FAILS and len(self.spreads) > 1:
            parts.append(f"not so: {', '.join(concerned)}")
        if verdict == UNSURE:
            parts += [_undecided(label, each) for label, each in concerned.items() if each._room(len(each.known))]
        if verdict == HOLDS:
            parts += [_unseen(label, each.unseen) for label, each in self.spreads.items() if each.unseen]
        if verdict in (HOLDS, FAILS):
            if len(self.seeds) == 1:
                parts.append("one seed, so its spread is not known")
            other = self._on_the_other_side()
            if other:
                parts.append(f"{other} of {len(self.seeds)} seeds by themselves say the opposite")
        return "; ".join(parts)

    def _on_the_other_side(self) -> int:
        judged = [(each.bound, each.values) for each in self.spreads.values() if each.bound is not None]
        by_seed = [[(bound, values[at]) for bound, values in judged] for at in range(len(self.seeds))]
        alone = [all(value is None or bound.has(value) for bound, value in each) for each in by_seed]
        return alone.count(self.verdict != HOLDS)

    def as_data(self) -> dict[str, Any]:
        """Plain data, as claims.json has it."""
        return {
            "key": self.key, "name": self.claim.name, "source": self.claim.source.sort,
            "where": self.claim.source.where, "expected": self.expected, "measured": self.measured,
            "verdict": self.verdict, "reason": self.reason, "seeds": list(self.seeds),
            "figures": [
                {
                    "of": label, "values": list(each.values), "mean": each.mean if each.known else None,
                    "deviation": each.deviation,
                    "low": _finite(each.bound and each.bound.low), "high": _finite(each.bound and each.bound.high),
                    "verdict": each.verdict(),
                }
                for label, each in self.spreads.items()
            ],
        }  # fmt: skip


def judged(experiment: str, seeds: Sequence[int], found: Sequence[Claim]) -> Judged:
    """The same claim of several seeds as one."""
    first = found[0]
    for each in found[1:]:
        if each.key != first.key or list(each.figures) != list(first.figures):
            raise ValueError(f"{experiment}/{first.key}: seeds differ in what they measure")
    bounds = [each.bound for each in first.figures.values() if each.bound is not None]
    several = max(1, sum(not each.exact for each in bounds))
    spreads = {
        label: Spread(
            tuple(_plain(each.figures[label].value) for each in found), figure.bound, figure.runs, several
        )
        for label, figure in first.figures.items()
    }
    return Judged(experiment, first, tuple(seeds), spreads)


def _plain(value: float | None) -> float | None:
    return None if value is None else float(value)


def _unseen(label: str, runs: int) -> str:
    of = f"{label}: " if label else ""
    return f"{of}in none of {runs:,} runs, so in at most one of {runs / _THREE:,.0f} with 95 % confidence"


def _lacking(label: str, spread: Spread) -> str:
    of = f"{label}: " if label else ""
    return f"{of}{len(spread.values) - len(spread.known)} of {len(spread.values)} seeds have no such number"


def _undecided(label: str, spread: Spread) -> str:
    of = f"{label}: " if label else ""
    count = spread.decided_by()
    if count is None:
        return f"{of}{_SEEDS_MOST:,} seeds would not decide it"
    return f"{of}{count} seeds would decide it (`--seeds {count}`)"


def _with_unit(told: str, unit: str) -> str:
    return f"{told} {unit}" if unit and told else told


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
