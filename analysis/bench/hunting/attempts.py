"""Mutants looked for, each in a process of its own that is ended when it takes too long."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import NamedTuple

from analysis.bench.hunting.active import ROOT
from analysis.bench.hunting.equivalent import EQUIVALENT
from analysis.bench.hunting.rules import Mutant

FOUND, SURVIVED, CRASHED, TIMED_OUT = "found", "survived", "crashed", "timed out"
KIT = "analysis.bench.hunting.finders:kit"
_LONGER = 6.0  # so many times the CPU seconds that a finder has, a process may take
_START_S = 60.0  # and this for what it imports
_COMPILING_S = 600.0  # and for kernels that are compiled anew


class Attempt(NamedTuple):
    """What came of looking for a mutant."""

    mutant: Mutant
    outcome: str
    told: str
    cpu_s: float  # until it was found, or of the whole search; -1: nobody knows
    wall_s: float

    @property
    def is_equivalent(self) -> bool:
        """Whether nobody can find it, by the list."""
        return self.mutant.id in EQUIVALENT


class Answer(NamedTuple):
    """What a process said of what it looked for."""

    outcome: str
    told: str
    cpu_s: float
    wall_s: float


def attempt(mutant: Mutant, finder: str = KIT, seed: int = 1, seconds: float = 30.0) -> Attempt:
    """Look for one mutant.

    Without a verdict the process crashed, which somebody would have seen too, or was ended. Where the mutant is in a
    compiled kernel, everything is compiled anew, into a folder that is gone afterwards.
    """
    with tempfile.TemporaryDirectory() if mutant.in_kernel else nullcontext() as cache:
        said = {"NUMBA_CACHE_DIR": cache} if cache else {}
        limit_s = _COMPILING_S if mutant.in_kernel else 0.0
        return Attempt(mutant, *searched(mutant.file, mutant.id, finder, seed, seconds, limit_s, said))


def searched(
    file: str, id: str, finder: str, seed: int, seconds: float, more_s: float = 0.0, said: dict[str, str] | None = None
) -> Answer:
    """Have a process of its own look: for a mutant of a file, or (no id) at a protocol by its "module:Class".

    It is ended when it takes `more_s` longer than it should; `said` goes into its environment.
    """
    command = [sys.executable, "-m", "analysis.bench.hunting.one", file, id, finder, str(seed), str(seconds)]
    limit_s = _LONGER * seconds + _START_S + more_s
    began = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **(said or {})}, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        printed, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its own processes with it
        process.communicate()
        return Answer(TIMED_OUT, f"ended after {limit_s:.0f} s", -1.0, time.monotonic() - began)
    wall_s = time.monotonic() - began
    try:
        answer = json.loads(printed.splitlines()[-1])
        told, cpu_s = answer["told"], float(answer["cpu_s"])
    except (IndexError, ValueError, KeyError, TypeError):
        last = errors.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        return Answer(CRASHED, last[0], -1.0, wall_s)
    return Answer(FOUND if told else SURVIVED, told or "", cpu_s, wall_s)


def attempts(
    mutants: Sequence[Mutant], finder: str = KIT, seed: int = 1, seconds: float = 30.0, jobs: int = 1
) -> Iterator[Attempt]:
    """Look for all of them, so many side by side; in their order."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda mutant: attempt(mutant, finder, seed, seconds), mutants)
