"""Carries out a reproduction: measures what is not measured yet, judges over seeds, writes what was found.

Every experiment is measured once per seed, `--seed` being the first. What was measured is kept as it comes, so a call
after one that was stopped goes on with what is missing.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, NamedTuple

from analysis.bench.machine import machine, versions
from analysis.papers import overall
from analysis.papers.claims import judged
from analysis.papers.experiment import Experiment, Outcome, Picture, Run, Tables
from analysis.papers.keeping import Kept
from analysis.papers.registry import SEEDS
from analysis.papers.writing import overview, write
from brokers.errors import BrokerlabError, InvalidInput
from scenarios.many.pool import answers
from scenarios.progress import Steps

_WIDE = 120


class MeasurementsLost(BrokerlabError):
    """A process that measured died; what the others measured is kept."""

    exit_code = 4


@dataclass(frozen=True)
class Asked:
    """What is to be reproduced, and how."""

    name: str
    folder: Path
    seed: int = 1
    seeds: int = SEEDS
    usual: int = SEEDS  # seeds that the command takes if it names none
    full: bool = False
    claim: str = ""  # this one alone, or all of an experiment; empty: all
    fresh: bool = False  # measure anew what was measured
    jobs: int = 1  # measurements at a time

    @property
    def every_seed(self) -> tuple[int, ...]:
        return tuple(range(self.seed, self.seed + self.seeds))

    @property
    def command(self) -> str:
        words = ["brokerlab", "reproduce", self.name]
        if self.seed != 1:
            words += ["--seed", str(self.seed)]
        if self.seeds != self.usual:
            words += ["--seeds", str(self.seeds)]
        return shlex.join([*words, "--full"] if self.full else words)


def reproduce(prose: str, experiments: Sequence[Experiment], asked: Asked, as_text: bool = True) -> dict[str, Any]:
    """Carry it out, and give what `claims.json` says, of the claims that are asked for; print them if told so."""
    chosen = _chosen(experiments, asked)
    try:
        asked.folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidInput(f"cannot write to {asked.folder}: {problem.strerror}; choose another --out") from None
    outcomes = list(carried_out(chosen, asked))
    everything = [(found.experiment.name, each) for found in outcomes for each in found.claims]
    claims = [each for name, each in everything if asked.claim in ("", name, each.key)]
    made = [
        {"experiment": found.experiment.name, "seed": seed, **each}
        for found in outcomes for seed, each in zip(found.seeds, found.made)
    ]  # fmt: skip
    about = {
        "name": asked.name, "prose": prose, "command": asked.command, "full": asked.full,
        "seeds": list(asked.every_seed), **whereby(),
        "wall_s": round(sum(each["wall_s"] for each in made), 1), "at_once": max(each["at_once"] for each in made),
        "measurements": made,
    }  # fmt: skip
    if not asked.claim:
        write(asked.folder, about, outcomes)
        overall.write(asked.folder.parent)
    if as_text:
        print(overview(claims, min(get_terminal_size().columns, _WIDE)))
        if not asked.claim:
            print(f"\nClaims, tables and figures: {asked.folder / 'report.html'}")
    return {**about, "folder": str(asked.folder), "claims": [each.as_data() for each in claims]}


def whereby() -> dict[str, Any]:
    """This machine and what runs on it."""
    return {"machine": machine(), "versions": versions(), "version": version("brokerlab"), "commit": commit()}


def commit() -> str | None:
    """That of the source, where this is a clone; with a sign where files have changed since."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():  # installed, perhaps within somebody else's clone
        return None
    try:
        found = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude", "*"],
            capture_output=True, text=True, timeout=10, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None


def _chosen(experiments: Sequence[Experiment], asked: Asked) -> list[Experiment]:
    wanted = asked.claim.partition("/")[0]
    found = [each for each in experiments if wanted in ("", each.name)]
    if not found:
        names = ", ".join(each.name for each in experiments)
        raise InvalidInput(f"--claim {asked.claim}: {asked.name} has no experiment {wanted!r}; it has {names}")
    return found


def carried_out(experiments: Sequence[Experiment], asked: Asked) -> list[Outcome]:
    """What is measured already, and all that is missing measured now, with progress."""
    kept = Kept(asked.folder, asked.full)
    found: dict[tuple[str, int], dict[str, Any]] = {}
    missing = []
    for experiment in experiments:
        before = kept.any_of(experiment.name)
        if before is not None:
            _refuse_unknown(experiment, before["tables"], asked)
    with Steps("measurements") as steps:
        pieces = [(experiment, seed) for experiment in experiments for seed in asked.every_seed]
        for experiment, seed in pieces:
            before = None if asked.fresh else kept.read(experiment.name, seed)
            if before is None:
                missing.append((experiment, seed))
                continue
            found[experiment.name, seed] = before
            _say(steps, experiment, seed, f"measured before, in {before['wall_s']:.0f} s")
        steps(len(found), 0, len(pieces))
        for experiment, seed, measured in _measured(missing, asked, steps):
            found[experiment.name, seed] = kept.write(experiment.name, seed, measured)
            _refuse_unknown(experiment, found[experiment.name, seed]["tables"], asked)
            _say(steps, experiment, seed, f"measured in {measured['wall_s']:.0f} s")
            steps(len(found), 0, len(pieces), experiment.name)
    return [
        _outcome(each, asked.every_seed, [found[each.name, seed] for seed in asked.every_seed]) for each in experiments
    ]


def _refuse_unknown(experiment: Experiment, tables: Tables, asked: Asked) -> None:
    """Claims have their keys of tables, so one seed's, whichever it is, tell that there is no such claim."""
    if "/" not in asked.claim:
        return
    keys = [f"{experiment.name}/{each.key}" for each in experiment.judge(tables)]
    if asked.claim not in keys:
        there_are = f"there are {', '.join(keys)}" if keys else f"{experiment.name} has none"
        raise InvalidInput(f"--claim {asked.claim}: there is no such claim; {there_are}")


class Piece(NamedTuple):
    """A measurement, so that another process may take it."""

    measure: Callable[[Run], Tables]
    seed: int
    full: bool
    at_once: int


def _measured(
    missing: Sequence[tuple[Experiment, int]], asked: Asked, steps: Steps
) -> Iterator[tuple[Experiment, int, dict[str, Any]]]:
    """As they end: one after the other here, or some at a time in processes of their own."""
    jobs = min(asked.jobs, len(missing))
    work = [Piece(experiment.measure, seed, asked.full, jobs) for experiment, seed in missing]
    if jobs <= 1:
        for (experiment, seed), piece in zip(missing, work):
            yield experiment, seed, measure(piece, partial(_say, steps, experiment, seed))
        return
    lost = []
    for answer in answers(measure, work, "inline", jobs):
        experiment, seed = missing[answer.number]
        if answer.lost is None:
            yield experiment, seed, answer.value
        else:
            lost.append(f"{experiment.name} with seed {seed}: {answer.lost}")
    if lost:
        raise MeasurementsLost(f"not measured: {'; '.join(lost)}; all else is kept: call it again, with fewer --jobs")


def measure(piece: Piece, say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """What is kept of a measurement: plain data. In a process of its own it says nothing on the way."""
    began, load = time.monotonic(), os.getloadavg()[0]
    tables = piece.measure(Run(piece.seed, piece.full, say))
    return {
        "tables": tables, "wall_s": time.monotonic() - began, "at_once": piece.at_once, **whereby(),
        "load": [load, os.getloadavg()[0]],
    }  # fmt: skip


def _say(steps: Steps, experiment: Experiment, seed: int, text: str) -> None:
    steps.say(f"{steps.clock() - steps.started:6.1f} s  {experiment.name}, seed {seed}: {text}")


def _outcome(experiment: Experiment, seeds: tuple[int, ...], measured: Sequence[dict[str, Any]]) -> Outcome:
    """What was measured, as a whole."""
    by_seed = [each["tables"] for each in measured]
    made = [{name: value for name, value in each.items() if name != "tables"} for each in measured]
    claims = [list(experiment.judge(tables)) for tables in by_seed]
    pictures = [list(experiment.draw(tables)) for tables in by_seed]
    return Outcome(
        experiment, seeds, by_seed, [_mean_of(each) for each in zip(*pictures, strict=True)],
        [judged(experiment.name, seeds, each) for each in zip(*claims, strict=True)], made,
    )  # fmt: skip


def _mean_of(pictures: Sequence[Picture]) -> Picture:
    """A picture over seeds: means, with how far seeds lie apart, where all have the same places on the axis."""
    first = pictures[0]
    found = []
    for at, curve in enumerate(first.curves):
        same = [each.curves[at] for each in pictures]
        if curve.paper or any(list(each.x) != list(curve.x) for each in same):
            found.append(curve)
            continue
        ys = list(zip(*(each.y for each in same)))
        means = [sum(values) / len(values) for values in ys]
        found.append(curve._replace(y=means, low=[min(values) for values in ys], high=[max(values) for values in ys]))
    return Picture(first.name, first.title, first.x, first.y, found, first.log_x, first.log_y)
