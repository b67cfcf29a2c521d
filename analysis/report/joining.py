"""Several runs in one figure: a line for each variant, and a band around it where a variant was run again and again.

A band is of the mean: where its runs are few, Student's interval; `bootstrap` draws runs again with replacement, and
supposes nothing of how they spread; `range` reaches from the lowest run to the highest. These are of one place each.
`simultaneous` is of all places at once: Student's intervals, each so much surer that together they miss no more often
(Bonferroni). Bootstraps of the largest miss promise narrower ones and do not keep it with as few runs as there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from analysis.report.figures import Figure, figure
from analysis.report.gather import Gathered
from analysis.report.svg import Line
from analysis.report.words import plain
from brokers.errors import InvalidInput
from scenarios.many.compare import CONFIDENCE, Sample, samples_of
from scenarios.many.student import quantile
from scenarios.many.sweep import label_of

STUDENT, BOOTSTRAP, SIMULTANEOUS, RANGE, NONE = "student", "bootstrap", "simultaneous", "range", "none"
_SHARE = f"{CONFIDENCE:.0%}".replace("%", " %")


class Band(NamedTuple):
    """What a band is, as a sentence has it and as a legend does."""

    told: str
    short: str


BANDS = {
    STUDENT: Band(f"{_SHARE} Student-t intervals of the mean at each place by itself", f"{_SHARE} at each place"),
    BOOTSTRAP: Band(f"{_SHARE} bootstrap intervals of the mean at each place by itself", f"{_SHARE} at each place"),
    SIMULTANEOUS: Band(f"{_SHARE} or more for the mean's whole line at once, by Student and Bonferroni",
                       f"{_SHARE} for the whole line"),
    RANGE: Band("from the lowest run to the highest", "lowest to highest"),
    NONE: Band("", ""),
}  # fmt: skip
_DRAWS, _SEED = 1_000, 1


class Group(NamedTuple):
    """Runs that are one variant."""

    label: str
    runs: list[Gathered]


def variants(paths: Sequence[str | PathLike[str]], each: bool = False) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """(label, run folders) of each variant, or of each run, behind run folders and sweep folders; and notes."""
    samples, notes = samples_of(paths, once=not each)
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(label_of(sample.variant), []).append(sample)
    found: list[tuple[str, list[str]]] = []
    for label, members in groups.items():
        members.sort(key=lambda sample: sample.seed)
        if each and len(members) > 1:
            found += [(_apart(label, one, members), [one.run]) for one in members]
        else:
            found.append((label or plain(Path(members[0].run).name), [one.run for one in members]))
    return found, notes


def _apart(label: str, one: Sample, members: Sequence[Sample]) -> str:
    """A run of a variant by its seed, or by its folder where seeds are the same."""
    alone = [each.seed for each in members].count(one.seed) == 1
    return f"{label} {f'seed {one.seed}' if alone else plain(Path(one.run).name)}".strip()


def joined(kind: str, groups: Sequence[Group], *, service: str | None = None, band: str = STUDENT) -> Figure | None:
    """A figure of all groups; of one service, or of all that are there."""
    made = [[figure(kind, run) for run in group.runs] for group in groups]
    there = [each for group in made for each in group if each is not None]
    if not there:
        return None
    names = list(dict.fromkeys(line.name for each in there for line in each.series))
    if service is not None:
        known = names
        names = [name for name in names if name == service or name.startswith(f"{service}, ")]
        if not names:
            there_are = ", ".join(known)
            raise InvalidInput(f"--service: a figure of the kind {kind!r} has no {service!r}; it has {there_are}")
    series = []
    for group, figures in zip(groups, made):
        for name in names:
            lines = [line for each in figures if each is not None for line in each.series if line.name == name]
            if lines:
                label = name if len(groups) == 1 else group.label if len(names) == 1 else f"{group.label}, {name}"
                series.append(_mean(label, lines, there[0].outside, band))
    alone = len(there) == 1 and service is None
    more: dict[str, Any] = {} if alone else {"heads": (), "rows": ()}
    if any(line.runs > 1 for line in series):
        more["band"] = BANDS[band].short
    return there[0]._replace(series=tuple(series), **more)


def _mean(label: str, lines: Sequence[Line], outside: tuple[float, float] | None, band: str) -> Line:
    """The mean of several lines, with its band."""
    if len(lines) == 1:
        return lines[0]._replace(name=label)
    xs, values = _common(lines, outside)
    mean = values.mean(0)
    low, high = _band(values, band)
    if outside is not None:  # shares
        low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
    middle, lower, upper = (list(zip(xs.tolist(), column.tolist())) for column in (mean, low, high))
    mean_of_all = Line(label, middle, runs=len(lines))
    return mean_of_all if band == NONE else mean_of_all._replace(low=lower, high=upper)


def _common(lines: Sequence[Line], outside: tuple[float, float] | None) -> tuple[Any, Any]:
    """Places that all lines reach, and the height of each there."""
    each = [np.array(line.points, float).reshape(-1, 2).T for line in lines]
    xs = np.unique(np.concatenate([x for x, _ in each]))
    if outside is None:
        xs = xs[(xs >= max(x[0] for x, _ in each)) & (xs <= min(x[-1] for x, _ in each))]
        return xs, np.array([np.interp(xs, x, y) for x, y in each])
    return xs, np.array([_step(xs, x, y, outside) for x, y in each])


def _step(xs: Any, x: Any, y: Any, outside: tuple[float, float]) -> Any:
    """A share that holds from one place to the next."""
    place = np.searchsorted(x, xs, "right") - 1
    return np.where(place < 0, outside[0], y[np.maximum(place, 0)])


def _band(values: Any, band: str) -> tuple[Any, Any]:
    if band == RANGE:
        return values.min(0), values.max(0)
    if band == BOOTSTRAP:
        chosen = np.random.default_rng(_SEED).integers(0, len(values), (_DRAWS, len(values)))
        weight = np.stack([(chosen == at).mean(1) for at in range(len(values))], 1)
        low, high = np.quantile(weight @ values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
        return low, high
    half = quantile(_confidence(values, band), len(values) - 1) * values.std(0, ddof=1) / np.sqrt(len(values))
    return values.mean(0) - half, values.mean(0) + half


def _confidence(values: Any, band: str) -> float:
    """Of a single place. Places at which all runs are as at another one are no further chance to miss the line."""
    if band != SIMULTANEOUS:
        return CONFIDENCE
    return 1 - (1 - CONFIDENCE) / len(np.unique(values, axis=1).T)
