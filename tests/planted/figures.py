"""`python -m tests.planted.figures`: how soon a hunt finds each planted bug, and how small it gets.

    python -m tests.planted.figures --for 60s
    python -m tests.planted.figures --only 2 13b --random

A line of JSON for each bug: CPU seconds and runs until it was found, what its case was made smaller to and how long
that took, and the size of the setting that was written by hand. `--random` hunts once more with random schedules.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from analysis.bench.hunting.__main__ import seconds_of
from scenarios.hunt.case import Case
from scenarios.hunt.found import Report
from scenarios.hunt.hunt import Schedules, hunt
from tests.planted.registry import PLANTED, Planted


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: all were found."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted.figures", description="Figures of planted bugs.")
    parser.add_argument("--only", nargs="+", metavar="NUMBER", help="these, by their numbers")
    parser.add_argument("--seed", type=int, default=1, help="of the search (default: 1)")
    parser.add_argument("--for", dest="seconds", type=seconds_of, default=60.0, help="CPU time for each (default: 60s)")
    parser.add_argument("--random", action="store_true", help="and with plainly random schedules")
    given = parser.parse_args(arguments)
    numbers = [each.number for each in PLANTED]
    if unknown := sorted(set(given.only or ()) - set(numbers)):
        parser.error(f"--only: there is no bug {unknown[0]}; there are {', '.join(numbers)}")
    complete = True
    for planted in (each for each in PLANTED if given.only is None or each.number in given.only):
        figures = figures_of(planted, given.seed, given.seconds, given.random)
        complete = complete and figures["found"]
        print(json.dumps(figures), flush=True)
    return 0 if complete else 1


def figures_of(planted: Planted, seed: int, seconds: float, plainly: bool) -> dict[str, Any]:
    """What a hunt makes of one bug."""
    first = _hunted(planted, seed, seconds)
    told: dict[str, Any] = {
        "number": planted.number, "name": planted.name, "found": bool(first.findings), "cpu_s": round(first.seconds, 2),
        "runs": first.runs, "judge": first.findings[0].judge if first.findings else None,
        "by_hand": planted.setting.size,
    }  # fmt: skip
    if first.findings:
        began = time.process_time()
        smaller = _hunted(planted, seed, None, runs=first.runs, shrink_seconds=60).findings[0]
        took = time.process_time() - began - first.seconds
        told |= {"size": size_of(smaller.case), "minimal": smaller.minimal, "shrunk_s": round(max(0.0, took), 2)}
    if plainly:
        random = _hunted(planted, seed, seconds, schedules="random")
        told |= {"random_found": bool(random.findings), "random_runs": random.runs}
    return told


def _hunted(
    planted: Planted, seed: int, seconds: float | None, runs: int | None = None, shrink_seconds: float = 0.0,
    schedules: Schedules = "aimed",
) -> Report:  # fmt: skip
    return hunt(
        planted.wrong, seed=seed, seconds=seconds, runs=runs, enough=1, shrink_seconds=shrink_seconds,
        clock=time.process_time, schedules=schedules,
    )  # fmt: skip


def size_of(case: Case) -> int:
    """As the size of a setting is counted."""
    happens = len(case.acts) + len(case.faults) + len(case.moves)
    return case.brokers + len(case.edges) + len(case.clients) + happens


if __name__ == "__main__":
    sys.exit(main())
