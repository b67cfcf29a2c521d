"""Experiments of a source: each is measured once per seed, and what follows from its tables is told apart from that.

`measure` gives tables; `judge` makes claims of tables, and `draw` figures. So a claim can be handed wrong tables, and
what was measured is kept and judged again without measuring.

An experiment that draws seeds of its own, and says its verdicts itself, is `told`: a function that is handed a `Told`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from analysis.papers.claims import FAILS, HOLDS, OURS, REPORTED, SORTS, Claim, Judged, Source
from topology.draws import purpose_key

Cells = dict[str, Any]
Table = list[Cells]
Tables = dict[str, Table]
Series = Mapping[str, tuple[Sequence[float], Sequence[float]]]


class Run(NamedTuple):
    """One measurement: a seed, a scale, and whom to tell how it goes."""

    seed: int
    full: bool
    say: Callable[[str], None]

    def generator(self, purpose: str) -> np.random.Generator:
        """Draws of its own for each purpose, so that an experiment alone draws what it draws among others."""
        return np.random.Generator(np.random.PCG64(int(purpose_key(self.seed, f"papers/{purpose}"))))


class Curve(NamedTuple):
    """A line of a picture."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    paper: bool = False  # the source's own values
    low: Sequence[float] = ()  # over seeds, where there are several: the least and the most
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Picture:
    """A figure: ours, and the source's where it is known."""

    name: str
    title: str
    x: str
    y: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False


def curves(series: Series) -> list[Curve]:
    """Lines from names and values."""
    return [Curve(name, list(xs), list(ys)) for name, (xs, ys) in series.items()]


@dataclass(frozen=True)
class Experiment:
    """A part of a reproduction that can be repeated alone."""

    name: str
    title: str
    measure: Callable[[Run], Tables] | None = None
    judge: Callable[[Tables], Iterable[Claim]] = lambda tables: ()
    draw: Callable[[Tables], Iterable[Picture]] = lambda tables: ()
    titles: Mapping[str, str] = field(default_factory=dict)  # of tables, in the order in which they are shown
    text: str = ""  # what was done otherwise than in the source, and why
    told: Callable[[Told], None] | None = None


@dataclass(frozen=True)
class Outcome:
    """What an experiment came to, over its seeds."""

    experiment: Experiment
    seeds: tuple[int, ...]
    by_seed: Sequence[Tables]
    titles: Mapping[str, str]  # of tables, in the order in which they are shown
    pictures: Sequence[Picture]
    claims: Sequence[Judged]
    texts: Sequence[str]
    wall_s: float


class Said(NamedTuple):
    """A claim with what was measured and its verdict, in words."""

    claim: Claim
    measured: str
    verdict: str

    @property
    def name(self) -> str:
        return self.claim.name


class Told:
    """What an experiment with seeds of its own found, as it comes."""

    def __init__(self, run: Run) -> None:
        self.seed, self.full, self.say = run
        self.tables: Tables = {}
        self.titles: dict[str, str] = {}
        self.pictures: list[Picture] = []
        self.texts: list[str] = []
        self.claims: list[Said] = []

    def table(self, name: str, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows with the same keys."""
        if not rows:
            raise ValueError(f"table {name!r} has no rows")
        self.tables[name], self.titles[name] = [dict(row) for row in rows], title
        self.say(f"{title}: {len(rows)} rows")

    def plot(
        self, name: str, title: str, x: str, y: str, series: Series, *, log_x: bool = False, log_y: bool = False
    ) -> None:
        """Lines over x."""
        self.pictures.append(Picture(name, title, x, y, curves(series), log_x, log_y))

    def text(self, paragraph: str) -> None:
        """Words: what was done otherwise than in the source, and why."""
        self.texts.append(paragraph)

    def claim(self, name: str, source: str, expected: str, measured: str, holds: bool | None) -> None:
        """A claim with its verdict. The sort of its source comes first."""
        sort = next((each for each in SORTS if source.startswith(each)), OURS)
        said = Source(sort, source.removeprefix(sort).lstrip(":, "))
        verdict = REPORTED if holds is None else HOLDS if holds else FAILS
        self.claims.append(Said(Claim(_key(name), name, said, {}, expected), measured, verdict))
        self.say(f"{verdict}: {name}: {measured}")


def _key(name: str) -> str:
    """A name as it is typed."""
    return "-".join("".join(each if each.isalnum() else " " for each in name.lower()).split())
