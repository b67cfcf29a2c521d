"""`python -m scenarios.trials`: many random runs under faults, and a line for each thing that is wrong.

Trials are numbered and independent of each other, so any one can be run again alone. What is in the log is not
run again, so that a command that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scenarios.progress import Steps
from scenarios.trials.drawing import draw
from scenarios.trials.running import run
from scenarios.trials.workers import all_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: nothing was wrong; 1: something was."""
    parser = argparse.ArgumentParser(
        prog="python -m scenarios.trials", description="Random runs under faults: one result in every way, and judged."
    )
    parser.add_argument("--runs", type=int, default=200, help="how many trials (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn (default: 1)")
    parser.add_argument("--first", type=int, default=0, help="number of the first trial (default: 0)")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run this trial alone, and tell its faults")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side (default: 1)")
    parser.add_argument("--log", type=Path, help="a line of JSON for each trial; what is in it is not run again")
    parser.add_argument("--patience", type=float, default=600.0, help="seconds for one trial, at most (default: 600)")
    given = parser.parse_args(arguments)
    if given.only is not None:
        return _alone(given.seed, given.only)
    if given.runs < 1 or given.jobs < 1 or given.first < 0 or given.patience <= 0:
        parser.error("--runs, --jobs and --patience are more than 0, --first at least 0")
    done = _logged(given.log, given.seed)
    numbers = [n for n in range(given.first, given.first + given.runs) if n not in done]
    known = [found for n, found in done.items() if given.first <= n < given.first + given.runs]
    return _many(given, numbers, known)


def _alone(seed: int, number: int) -> int:
    trial = draw(seed, number)
    print(trial)
    for name, params in trial.entries:
        print(f"  {name}: {params}")
    found = run(trial)
    print(f"  {found.verdict}; {found.events:,} events, lost by reason {found.lost}, {found.doubled} doubled")
    print(f"  ways: one event at a time, {', '.join(found.ways)}")
    for wrong in found.wrong:
        print(f"  wrong: {wrong}")
    return 1 if found.wrong else 0


def _logged(log: Path | None, seed: int) -> dict[int, dict[str, Any]]:
    """What a log has of trials of this seed; a last line that was cut off does not count."""
    found = {}
    if log is not None and log.exists():
        text = log.read_text()
        if text and not text.endswith("\n"):
            with log.open("a") as file:
                file.write("\n")
        for line in text.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if row.get("seed") == seed:
                found[row["number"]] = row
    return found


def _many(given: argparse.Namespace, numbers: list[int], known: list[dict[str, Any]]) -> int:
    every, steps = list(known), Steps("trials")
    if known:
        print(f"{len(known):,} trials are in {given.log} already", flush=True)
    for each in known:
        _tell(each, given.seed)
    for found in all_of(given.seed, numbers, given.jobs, given.patience):
        every.append(found)
        if given.log is not None:
            with given.log.open("a") as file:
                file.write(json.dumps({"seed": given.seed, **found}) + "\n")
        if found["wrong"]:
            steps.close()
            _tell(found, given.seed)
        steps(len(every), sum(bool(each["wrong"]) for each in every), len(numbers) + len(known))
    steps.close()
    print(summary(every))
    return 1 if any(each["wrong"] for each in every) else 0


def _tell(found: dict[str, Any], seed: int) -> None:
    for wrong in found["wrong"]:
        replay = f"python -m scenarios.trials --seed {seed} --only {found['number']}"
        print(f"{found['trial']}: {wrong}\n    {replay}", flush=True)


def summary(every: Sequence[dict[str, Any]]) -> str:
    """All trials in three lines."""
    verdicts = Counter(each["verdict"] for each in every)
    told = ", ".join(f"{count:,} {name}" for name, count in verdicts.most_common())
    total = {key: sum(each[key] for each in every) for key in ("ways", "events", "lost", "doubled")}
    wrong = sum(bool(each["wrong"]) for each in every)
    return (
        f"{len(every):,} trials, {total['ways']:,} runs: {told}\n"
        f"{total['events']:,} events judged, {total['lost']:,} messages lost, {total['doubled']:,} doubled\n"
        f"{wrong:,} trials with something wrong"
    )


if __name__ == "__main__":
    sys.exit(main())
