"""Rows of the group `hunt`: how many judged runs a second, and what hunts find of planted bugs and of mutants.

Seconds are of CPU time on one core. What is found lies in the folder `tests` and in the tree itself, so that it is
measured in a checkout only. The full corpus of mutants is for `python -m analysis.bench.hunting`; here is a sample.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.bench.hunting.active import ROOT
from analysis.bench.hunting.attempts import CRASHED, FOUND, SURVIVED, attempts
from analysis.bench.hunting.places import sample
from analysis.bench.rows import Row, row
from brokers import names
from brokers.errors import EnvironmentProblem

FINDER = "analysis.bench.hunting.finders:hunt"
RUNS_PER_S, SHARE, MEDIAN_S, SIZE, AIMED = 30, 95, 30, 2, 0.2  # what is asked


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    runs: int = 100  # of each protocol
    bugs: tuple[str, ...] | None = None  # of the planted ones; None: all
    seconds: int = 60  # for each bug and mutant
    mutants: int = 20
    seed: int = 3


def rows(sizes: Sizes | None = None) -> Iterator[Row]:
    """Every row, as it is measured."""
    sizes = sizes or Sizes()
    yield from speeds(sizes)
    if not (ROOT / "tests" / "planted").is_dir():
        raise EnvironmentProblem(f"the planted bugs are not where they are in a checkout ({ROOT}); measure in one")
    yield from planted(sizes)
    yield from mutants(sizes)


def speeds(sizes: Sizes) -> Iterator[Row]:
    """Judged runs per CPU second, of each protocol."""
    from scenarios.hunt.hunt import hunt

    for name in sorted(names.table("protocols")):
        hunt(name, seed=sizes.seed, runs=5, shrink_seconds=0)  # what is imported and made once
        found = hunt(name, seed=sizes.seed + 1, runs=sizes.runs, shrink_seconds=0, clock=time.process_time)
        yield row(f"judged runs, {name}", found.runs / found.seconds, "runs/s", least=RUNS_PER_S)


def planted(sizes: Sizes) -> Iterator[Row]:
    """Of bugs of public threads: how many are found, how soon, in how many runs beside random ones, and how small."""
    command = [sys.executable, "-m", "tests.planted.figures", "--for", f"{sizes.seconds}s", "--random"]
    command += ["--seed", str(sizes.seed), *(["--only", *sizes.bugs] if sizes.bugs else [])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise EnvironmentProblem(f"tests.planted.figures ended with {done.returncode}: {done.stderr[-500:]}")
    every: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    found = [each for each in every if each["found"]]
    yield row(f"planted bugs found, of {len(every)}", 100 * len(found) / len(every), "%", least=SHARE)
    yield from _times("a planted bug", [each["cpu_s"] for each in found], sizes)
    if found:
        sizes_ = [each["size"] / each["by_hand"] for each in found]
        yield row("size of a shrunk case beside that by hand, worst", max(sizes_), "times", most=SIZE)
        yield row("a case made smaller, worst; it ends at 60", max(each["shrunk_s"] for each in found), "s")
        yield row("cases of which nothing single can be left out", 100 * sum(map(_minimal, found)) / len(found), "%")
    both = [each["runs"] / each["random_runs"] for each in every if each["found"] or each["random_found"]]
    if both:
        yield row("runs aimed beside random, median of bugs", statistics.median(both), "times", most=AIMED)


def mutants(sizes: Sizes) -> Iterator[Row]:
    """Of mutants, a sample that no list of equivalents says nobody can find."""
    tried = list(attempts(sample(sizes.mutants, sizes.seed), FINDER, sizes.seed, float(sizes.seconds)))
    real = [each for each in tried if not (each.is_equivalent and each.outcome == SURVIVED)]
    seen = [each for each in real if each.outcome in (FOUND, CRASHED)]
    yield row(f"mutants found, of {len(real)}", 100 * len(seen) / len(real), "%", least=SHARE)
    yield from _times("a mutant", [each.cpu_s for each in seen if each.outcome == FOUND], sizes)


def _minimal(told: dict[str, Any]) -> bool:
    return bool(told["minimal"])


def _times(what: str, seconds: Sequence[float], sizes: Sizes) -> Iterator[Row]:
    if seconds:
        yield row(f"until {what} is found, median", statistics.median(seconds), "s", most=MEDIAN_S)
        # Ten minutes are allowed, and nobody searches for as long here: what takes longer counts as not found.
        yield row(f"the same, worst of those found within {sizes.seconds} s", max(seconds), "s")
