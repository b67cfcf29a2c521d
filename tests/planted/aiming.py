"""`python -m tests.planted.aiming`: how many runs aimed schedules need to find a bug, and plain random ones.

    python -m tests.planted.aiming --seeds 5 --runs 2000
    python -m tests.planted.aiming --only 2 Blinks

The bugs are those of `tests.planted`: from public threads, and races of its `races.py`. Half of them were looked at
while schedules were made, which is said beside each. A hunt that finds nothing counts as one run more than it had.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from brokers.contract import BrokerProtocol
from brokers.errors import InvalidInput
from scenarios.hunt.hunt import Schedules, hunt

JUDGES = ("fails", "storm", "delivery", "heals", "budget", "leaks", "quiet")  # cheap ones: dear ones are asked by turns


class Bug(NamedTuple):
    """What is looked for."""

    name: str
    protocol: type[BrokerProtocol]
    sort: str  # "race" or "thread"
    tuned: bool  # looked at while schedules were made


class Needed(NamedTuple):
    """Runs until a bug was found, by seed."""

    bug: Bug
    aimed: list[int]
    random: list[int]
    most: int

    @property
    def found(self) -> bool:
        return min(statistics.median(self.aimed), statistics.median(self.random)) <= self.most

    @property
    def ratio(self) -> float:
        """Of the medians."""
        return statistics.median(self.aimed) / statistics.median(self.random)


def bugs() -> Iterator[Bug]:
    """Races, and every planted bug; of these, those at even places were looked at."""
    races = importlib.import_module("tests.planted.races")
    planted = importlib.import_module("tests.planted.registry").PLANTED
    for each in (*races.TUNED, *races.UNSEEN):
        yield Bug(each.__name__, each, "race", each in races.TUNED)
    for i, each in enumerate(planted):
        yield Bug(each.number, each.wrong, "thread", i % 2 == 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: measured."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.planted.aiming", description="Runs needed, aimed and at random."
    )
    parser.add_argument("--seeds", type=int, default=5, help="hunts of each (default: 5)")
    parser.add_argument("--runs", type=int, default=2000, help="of a hunt, at most (default: 2000)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these bugs")
    parser.add_argument("--sort", choices=("race", "thread"), help="of these only")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each")
    given = parser.parse_args(arguments)
    if given.seeds < 1 or given.runs < 1:
        parser.error("--seeds and --runs are at least 1")
    every = list(bugs())
    if unknown := sorted(set(given.only or ()) - {each.name for each in every}):
        parser.error(f"--only: there is no bug {unknown[0]}; there are {', '.join(each.name for each in every)}")
    found = []
    for bug in every:
        if (given.only is None or bug.name in given.only) and given.sort in (None, bug.sort):
            try:
                found.append(measured(bug, given.seeds, given.runs))
            except InvalidInput as error:  # it wants an overlay that is not drawn
                print(f"{bug.name:16} {bug.sort:7} cannot be hunted: {str(error).splitlines()[0]}", flush=True)
                continue
            print(json.dumps(_data(found[-1])) if given.json else _line(found[-1]), flush=True)
    if not given.json:
        print("\n".join(summary(found)))
    return 0


def measured(bug: Bug, seeds: int, most: int) -> Needed:
    """Hunt a bug in both ways."""
    aimed, random = ([runs_until(bug, seed, most, way) for seed in range(1, seeds + 1)] for way in _WAYS)
    return Needed(bug, aimed, random, most)


_WAYS: tuple[Schedules, ...] = ("aimed", "random")


def runs_until(bug: Bug, seed: int, most: int, schedules: Schedules) -> int:
    """The runs of a hunt until it finds something; one more than the most where it does not."""
    report = hunt(
        bug.protocol, seed=seed, runs=most, judges=JUDGES, schedules=schedules, enough=1, shrink_seconds=0
    )
    return report.runs if report.findings else most + 1


def _line(needed: Needed) -> str:
    aimed, random = (_median(each, needed.most) for each in (needed.aimed, needed.random))
    ratio = f"{needed.ratio:.2f}" if needed.found else "-"
    half = "looked at" if needed.bug.tuned else "not looked at"
    return f"{needed.bug.name:16} {needed.bug.sort:7} {half:14} aimed {aimed:>6}  random {random:>6}  ratio {ratio}"


def _median(runs: Sequence[int], most: int) -> str:
    median = statistics.median(runs)
    return f"{median:g}" if median <= most else f">{most}"


def _data(needed: Needed) -> dict[str, object]:
    return {
        "bug": needed.bug.name, "sort": needed.bug.sort, "tuned": needed.bug.tuned, "aimed": needed.aimed,
        "random": needed.random, "ratio": needed.ratio if needed.found else None,
    }  # fmt: skip


def summary(found: Sequence[Needed]) -> Iterator[str]:
    """The median ratio: of all, of those not looked at, and of those that are not found at once anyway."""
    groups = {
        "all": found,
        "races": [each for each in found if each.bug.sort == "race"],
        "from threads": [each for each in found if each.bug.sort == "thread"],
        "looked at": [each for each in found if each.bug.tuned],
        "not looked at": [each for each in found if not each.bug.tuned],
        "more than 20 runs at random": [each for each in found if statistics.median(each.random) > 20],
    }
    for name, group in groups.items():
        ratios = [each.ratio for each in group if each.found]
        if ratios:
            yield f"{name}: median ratio {statistics.median(ratios):.2f} of {len(ratios)} found of {len(group)}"


if __name__ == "__main__":
    sys.exit(main())
