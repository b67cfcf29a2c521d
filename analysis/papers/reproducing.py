"""Carries out a reproduction: measures what is not measured yet, judges over seeds, writes what was found.

Every experiment is measured once per seed, `--seed` being the first. What was measured is kept as it comes, so a call
after one that was stopped goes on with what is missing.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from analysis.bench.machine import machine, versions
from analysis.papers.claims import judged
from analysis.papers.experiment import Experiment, Outcome, Picture, Run
from analysis.papers.keeping import Kept
from analysis.papers.registry import SEEDS
from analysis.papers.writing import overview, write
from brokers.errors import InvalidInput
from scenarios.progress import Steps

_WIDE = 120


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


def reproduce(prose: str, experiments: Sequence[Experiment], asked: Asked, as_json: bool) -> None:
    """Carry it out, and print the claims: as one JSON object, or as a table."""
    chosen = _chosen(experiments, asked)
    try:
        asked.folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidInput(f"cannot write to {asked.folder}: {problem.strerror}; choose another --out") from None
    outcomes = list(carried_out(chosen, asked))
    everything = [(found.experiment.name, each) for found in outcomes for each in found.claims]
    claims = [each for name, each in everything if asked.claim in ("", name, each.key)]
    if not claims:
        keys = ", ".join(each.key for _, each in everything)
        raise InvalidInput(f"--claim {asked.claim}: there is no such claim; there are {keys}")
    about = {
        "name": asked.name, "prose": prose, "command": asked.command, "full": asked.full,
        "seeds": list(asked.every_seed), "machine": machine(), "versions": versions(),
        "version": version("brokerlab"), "commit": commit(),
        "wall_s": round(sum(each.wall_s for each in outcomes), 1),
    }  # fmt: skip
    if not asked.claim:
        write(asked.folder, about, outcomes)
    if as_json:
        told = {**about, "folder": str(asked.folder), "claims": [each.as_data() for each in claims]}
        print(json.dumps(told, indent=2))
        return
    print(overview(claims, min(get_terminal_size().columns, _WIDE)))
    if not asked.claim:
        print(f"\nClaims, tables and figures: {asked.folder / 'report.html'}")


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


def carried_out(experiments: Sequence[Experiment], asked: Asked) -> Iterator[Outcome]:
    """One experiment after the other, with progress."""
    kept = Kept(asked.folder, asked.full)
    seeds = asked.every_seed
    pieces = len(experiments) * len(seeds)
    done = 0
    with Steps("measurements") as steps:
        for place, experiment in enumerate(experiments, 1):
            ahead = f"{place} of {len(experiments)}, {experiment.name}"
            measured = []
            for seed in seeds:
                found = None if asked.fresh else kept.read(experiment.name, seed)
                say = _teller(steps, ahead if len(seeds) == 1 else f"{ahead}, seed {seed}")
                steps(done, 0, pieces, experiment.name)
                if found is None:
                    run = Run(seed, asked.full, say)
                    found = kept.write(experiment.name, seed, _measured(experiment, run))
                else:
                    say(f"measured before, in {found['wall_s']:.0f} s")
                measured.append(found)
                done += 1
            yield _outcome(experiment, seeds, measured)


def _teller(steps: Steps, where: str) -> Any:
    def say(text: str) -> None:
        steps.say(f"{steps.clock() - steps.started:6.1f} s  {where}: {text}")

    return say


def _measured(experiment: Experiment, run: Run) -> dict[str, Any]:
    """What is kept of a measurement: plain data."""
    began = time.monotonic()
    run.say("measuring")
    return {"tables": experiment.measure(run), "wall_s": time.monotonic() - began}


def _outcome(experiment: Experiment, seeds: tuple[int, ...], measured: Sequence[dict[str, Any]]) -> Outcome:
    """What was measured, as a whole."""
    wall_s = sum(each["wall_s"] for each in measured)
    by_seed = [each["tables"] for each in measured]
    claims = [list(experiment.judge(tables)) for tables in by_seed]
    pictures = [list(experiment.draw(tables)) for tables in by_seed]
    return Outcome(
        experiment, seeds, by_seed, [_mean_of(each) for each in zip(*pictures, strict=True)],
        [judged(experiment.name, seeds, each) for each in zip(*claims, strict=True)], wall_s,
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
