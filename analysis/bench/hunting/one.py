"""One mutant, looked for in this process: its module is the mutant; the last line printed is JSON of what came of it.

Or a protocol, "module:Class", is looked at in it. Called by `attempts.py`. Nothing of the tree but what lies beside
this file may be imported before the mutant is active.
"""

from __future__ import annotations

import json
import sys
import time

from analysis.bench.hunting.active import activate
from analysis.bench.hunting.places import by_turns, mutants_of, place_of, protocols_using
from analysis.bench.hunting.rules import Mutant


def main(file: str, id: str, finder: str, seed: int, seconds: float) -> None:
    """Look for the mutant of a file by its id; an empty id is the tree as it is. Or look at a protocol."""
    mutant = next((each for each in mutants_of(file) if each.id == id), None) if id else None
    if id:
        if mutant is None:
            raise SystemExit(f"{file} has no mutant {id}")
        activate(mutant)
    began = time.process_time()
    told = _found(file, mutant, finder, seed, seconds)
    print(json.dumps({"told": told, "cpu_s": round(time.process_time() - began, 3)}))


def _found(file: str, mutant: Mutant | None, finder: str, seed: int, seconds: float) -> str | None:
    try:
        from brokers.kinds import manifests
        from brokers.registry import load

        look = load(finder)
        protocols = [file]
        if ":" not in file:
            place = place_of(file)
            kinds = [kind for kind in manifests() if kind.name in place.kinds]
            names = {name: entry.target for kind in kinds for name, entry in kind.protocols.items()}
            protocols = protocols_using(file, names, mutant.function if mutant else "")
            if place.judges:  # who judges is asked about all that they judge
                protocols = by_turns(iter(kind.protocols) for kind in kinds)
                look = load("analysis.bench.hunting.judges:judges")
    except Exception as error:  # the mutant cannot even be imported
        if mutant is None:
            raise
        return f"at import: {type(error).__name__}: {error}"
    told: str | None = look(protocols, seed, seconds)
    return told


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
