"""`python -m analysis.bench.hunting`: look for mutants, and tell how many were found and which were not."""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.bench.hunting.attempts import (
    CRASHED,
    FOUND,
    KIT,
    SURVIVED,
    TIMED_OUT,
    Answer,
    Attempt,
    attempts,
    searched,
)
from analysis.bench.hunting.equivalent import EQUIVALENT
from analysis.bench.hunting.places import by_hand, mutants_of, places, sample
from analysis.bench.hunting.rules import Mutant

SHIPPED = 140  # how many are taken unless said


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: all that can be found were; 1: some survived, or ran out of time."""
    parser = argparse.ArgumentParser(prog="python -m analysis.bench.hunting", description="Look for mutants.")
    parser.add_argument("--mutants", type=int, default=SHIPPED, help=f"how many (default: {SHIPPED})")
    parser.add_argument("--seed", type=int, default=1, help="of which are taken, and of the search (default: 1)")
    parser.add_argument("--for", dest="seconds", type=seconds_of, default=30.0, help="for each (default: 30s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side (default: 1)")
    parser.add_argument("--kernels", action="store_true", help="mutants of compiled code; everything compiled anew")
    parser.add_argument("--by-hand", action="store_true", help="those that were made by hand, all of them")
    parser.add_argument("--only", nargs="+", metavar="ID", help="these, by their ids")
    parser.add_argument("--finder", default=KIT, help=f"module:function that looks (default: {KIT})")
    parser.add_argument("--list", action="store_true", help="tell which would be taken, and look for none")
    parser.add_argument("--log", type=Path, help="append a line of JSON for each, and look for none that has one")
    given = parser.parse_args(arguments)
    if given.mutants < 1 or given.jobs < 1 or given.seed < 0:
        parser.error("--mutants and --jobs are at least 1, --seed at least 0")
    wanted = by_hand() if given.by_hand else sample(given.mutants, given.seed, given.kernels)
    wanted = _named(given.only) if given.only else wanted
    if given.only and len(wanted) < len(set(given.only)):
        lacking = sorted(set(given.only) - {each.id for each in wanted})
        parser.error(f"--only: there is no mutant {lacking[0]}; --list shows some")
    if given.list:
        print("\n".join(each.told() for each in wanted))
        return 0
    known = _known(given, wanted)
    found = [*known.values()]
    left = [each for each in wanted if each.id not in known]
    if known:
        print(f"{len(known)} of {len(wanted)} are in {given.log} already", flush=True)
    unchanged = searched(wanted[0].file, "", given.finder, given.seed, 1.0) if left else None
    if unchanged is not None and unchanged.outcome != SURVIVED:  # or every mutant would count as found
        parser.error(f"--finder: the tree as it is is {unchanged.outcome} by {given.finder}: {unchanged.told}")
    for each in attempts(left, given.finder, given.seed, given.seconds, given.jobs):
        found.append(each)
        print(f"{each.outcome:9} {each.cpu_s:6.1f} s  {each.mutant.told()}", flush=True)
        if each.told:
            print(f"          {each.told[:160]}", flush=True)
        if given.log:
            _logged(given, each)
    print(summary(found))
    return 1 if any(each.outcome in (SURVIVED, TIMED_OUT) and not each.is_equivalent for each in found) else 0


def seconds_of(text: str) -> float:
    """Of "30s" or "2min"."""
    read = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min)?", text)
    if read is None or not float(read[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no time; say 30s or 2min")
    return float(read[1]) * (60 if read[2] == "min" else 1)


def _named(ids: Sequence[str]) -> list[Mutant]:
    return [each for place in places() for each in mutants_of(place.file) if each.id in ids]


def _logged(given: argparse.Namespace, found: Attempt) -> None:
    row = {
        "id": found.mutant.id, "mutant": found.mutant.told(), "outcome": found.outcome, "told": found.told,
        "cpu_s": found.cpu_s, "wall_s": round(found.wall_s, 1), "equivalent": found.is_equivalent, **_asked(given),
    }  # fmt: skip
    with given.log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _asked(given: argparse.Namespace) -> dict[str, Any]:
    """What a line of a log has to say for its answer to be that of this call."""
    return {"finder": given.finder, "seed": given.seed, "seconds": given.seconds}


def _known(given: argparse.Namespace, wanted: Sequence[Mutant]) -> dict[str, Attempt]:
    """What a log says of these mutants, by their ids: a call that was stopped is gone on with."""
    if given.log is None or not given.log.exists():
        return {}
    mutants = {each.id: each for each in wanted}
    found = {}
    for line in given.log.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["id"] in mutants and _asked(given).items() <= row.items():
            answer = (row[name] for name in Answer._fields)
            found[row["id"]] = Attempt(mutants[row["id"]], *answer)
    return found


def summary(found: Sequence[Attempt]) -> str:
    """Found of all, how long that took, and which were not found. What crashed was seen, so it counts as found."""
    real = [each for each in found if not (each.is_equivalent and each.outcome == SURVIVED)]
    outcomes = Counter(each.outcome for each in real)
    seen = outcomes[FOUND] + outcomes[CRASHED]
    share = f" ({seen / len(real):.0%})" if real else ""
    lines = [
        f"found {seen} of {len(real)}{share}: {outcomes[FOUND]} by a judge or an error, {outcomes[CRASHED]} crashed; "
        f"{outcomes[SURVIVED]} survived, {outcomes[TIMED_OUT]} timed out; {len(found) - len(real)} equivalent"
    ]
    times = [each.cpu_s for each in real if each.outcome == FOUND]
    if times:
        lines.append(f"CPU seconds until found: {statistics.median(times):.1f} median, {max(times):.1f} worst")
    left = [each for each in real if each.outcome in (SURVIVED, TIMED_OUT)]
    lines += [f"{each.outcome}: {each.mutant.told()}" for each in left]
    lines += [
        f"equivalent: {each.mutant.told()}\n  {EQUIVALENT[each.mutant.id]}" for each in found if each not in real
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
