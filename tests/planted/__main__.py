"""`python -m tests.planted`: look at each planted bug and at its twin, and tell which were found, and how soon.

    python -m tests.planted --for 20s
    python -m tests.planted --finder analysis.bench.hunting.finders:hunt --only 2 13b

Each is looked at in a process of its own. A twin in which something is found is a false alarm, unless it is one that
promises nothing on the overlays it was looked at on; `registry.py` says which those are.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence

from analysis.bench.hunting.__main__ import seconds_of
from analysis.bench.hunting.attempts import CRASHED, FOUND, KIT, SURVIVED, Answer, searched
from tests.planted.registry import PLANTED


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: every bug was found, and in no twin anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description="Look for the planted bugs.")
    parser.add_argument("--only", nargs="+", metavar="NUMBER", help="these, by their numbers")
    parser.add_argument("--seed", type=int, default=1, help="of the search (default: 1)")
    parser.add_argument("--for", dest="seconds", type=seconds_of, default=30.0, help="for each (default: 30s)")
    parser.add_argument("--finder", default=KIT, help=f"module:function that looks (default: {KIT})")
    given = parser.parse_args(arguments)
    numbers = [each.number for each in PLANTED]
    if unknown := sorted(set(given.only or ()) - set(numbers)):
        parser.error(f"--only: there is no bug {unknown[0]}; there are {', '.join(numbers)}")
    found, alarms = [], 0
    for planted in (each for each in PLANTED if given.only is None or each.number in given.only):
        wrong, right = (_looked(each, given) for each in (planted.wrong, planted.right))
        found.append(wrong)
        alarms += right.outcome != SURVIVED
        smallest = f"smallest setting {planted.setting.size}"
        print(f"{planted.number:4} {planted.name}: {wrong.outcome}, {wrong.cpu_s:.1f} s; {smallest}", flush=True)
        for who, answer in (("", wrong), ("its twin: ", right)):
            if answer.told:
                print(f"     {who}{answer.outcome}: {answer.told[:160]}", flush=True)
    times = [each.cpu_s for each in found if each.outcome == FOUND]
    seen = sum(each.outcome in (FOUND, CRASHED) for each in found)
    print(f"found {seen} of {len(found)}; something in {alarms} of {len(found)} twins")
    if times:
        print(f"CPU seconds until found: {statistics.median(times):.1f} median, {max(times):.1f} worst")
    return 0 if seen == len(found) and not alarms else 1


def _looked(protocol: type, given: argparse.Namespace) -> Answer:
    target = f"{protocol.__module__}:{protocol.__qualname__}"
    return searched(target, "", given.finder, given.seed, given.seconds)


if __name__ == "__main__":
    sys.exit(main())
