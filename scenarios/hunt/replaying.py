"""A case that was written down, run and judged again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from brokers.errors import InvalidInput
from scenarios.hunt.case import Case
from scenarios.hunt.judges import Mistake, chosen, judged
from scenarios.hunt.running import Outcome, run
from scenarios.loader import load


@dataclass(frozen=True)
class Replayed:
    """What came of it."""

    case: Case
    digest: str  # empty where it did not come to its end
    mistakes: list[Mistake]


def replay(
    file: str | Path,
    *,
    protocol: str | None = None,
    judges: Sequence[str] | None = None,
    thresholds: int | None = None,
) -> Replayed:
    """Run the scenario of a finding and judge it, by these judges or by all.

    `protocol` takes the place of the scenario's, of the same kind. The scenario is trusted: it may name code.
    """
    asked = chosen(judges)
    case = Case.of(load(file, trust=True))
    if protocol is not None:
        case = case.but(protocol=protocol)
    case = case.but(thresholds=thresholds)
    try:
        outcome: Outcome = run(case)
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from error
    return Replayed(case, outcome.digest, judged(outcome, asked) + judged(outcome, asked, dear=True))
