"""Experiments of a source: each is measured once per seed, and what follows from its tables is told apart from that.

`measure` gives tables; `judge` makes claims of tables, and `draw` figures. So a claim can be handed wrong tables, and
what was measured is kept and judged again without measuring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from analysis.papers.claims import Claim, Judged
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
    measure: Callable[[Run], Tables]
    judge: Callable[[Tables], Iterable[Claim]] = lambda tables: ()
    draw: Callable[[Tables], Iterable[Picture]] = lambda tables: ()
    titles: Mapping[str, str] = field(default_factory=dict)  # of tables, in the order in which they are shown
    text: str = ""  # what was done otherwise than in the source, and why


@dataclass(frozen=True)
class Outcome:
    """What an experiment came to, over its seeds."""

    experiment: Experiment
    seeds: tuple[int, ...]
    by_seed: Sequence[Tables]
    pictures: Sequence[Picture]
    claims: Sequence[Judged]
    made: Sequence[Mapping[str, Any]]  # how each seed was measured: when, where, by what, beside what
