"""A case that was written down, run and judged again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokers.errors import InvalidInput
from scenarios.document import read
from scenarios.hunt.case import Case
from scenarios.hunt.hashing import close
from scenarios.hunt.judges import JUDGES, Mistake, chosen, judged, widened
from scenarios.hunt.origin import changed
from scenarios.hunt.running import Outcome, run
from scenarios.loader import load, locate

_NAMES = ("kind", "protocol", "index", "source", "fault")


@dataclass(frozen=True)
class Replayed:
    """What came of it."""

    case: Case
    digest: str  # empty where it did not come to its end
    mistakes: list[Mistake]
    changed: list[str]  # since it was found, in sentences


def replay(
    file: str | Path,
    *,
    protocol: str | None = None,
    judges: Sequence[str] | None = None,
    thresholds: int | None = None,
) -> Replayed:
    """Run the scenario of a finding and judge it, by these judges or by all that start no process.

    `protocol` takes the place of the scenario's, of the same kind. The scenario is trusted: it may name code.
    """
    names = judges if judges is not None else [name for name, judge in JUDGES.items() if not judge.late]
    asked = widened(chosen(names))
    case = Case.of(load(file, trust=True))
    own_name = case.protocol
    if protocol is not None:
        case = case.but(protocol=protocol)
    case = case.but(thresholds=thresholds)
    try:
        outcome: Outcome = run(case)
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from error
    try:
        mistakes = judged(outcome, asked) + judged(outcome, asked, dear=True)
        own = outcome.digest if protocol in (None, own_name) else ""
        return Replayed(case, outcome.digest, mistakes, list(changed(locate(file), own)))
    finally:
        close()


def refuse_code(file: str | Path, known: Set[str | None]) -> None:
    """InvalidInput where a scenario names code from outside that its reader has not named too. Nothing is imported."""
    for name in _named(read(locate(file).read_bytes(), str(file)).data):
        if name not in known:
            raise InvalidInput(
                f"{file} names {name!r}, code from outside brokerlab, which was not looked at; if you trust whoever "
                "wrote it, say --trust"
            )


def _named(data: Any) -> Iterator[str]:
    """Every text where the name of code may stand."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key in _NAMES and isinstance(value, str) and ":" in value:
                yield value
            elif key == "metrics" and isinstance(value, list):
                yield from (each for each in value if isinstance(each, str) and ":" in each)
            else:
                yield from _named(value)
    elif isinstance(data, list):
        for each in data:
            yield from _named(each)
