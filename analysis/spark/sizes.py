"""How much of everything each service of a run has, for an audit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analysis.spark.passes import pieces_of
from brokers.faults import REASONS

if TYPE_CHECKING:
    from analysis.spark.trace import Trace


@dataclass
class Sizes:
    """How much of everything a service has."""

    publications: int = 0
    losses: int = 0
    interests: int = 0
    reasons: dict[str, int] = field(default_factory=dict)


def sizes_of(trace: Trace) -> list[Sizes]:
    """Of every service. Read here, some rows at a time: a column or two of small numbers."""
    found = [Sizes() for _ in trace.services]
    if not trace.has("deliveries"):
        return found
    kinds = [service.kind for service in trace.services]
    for name, columns in (("publications", ()), ("losses", ("reason",)), ("changes", ("operation",))):
        for piece in pieces_of(name, map(str, trace.run.parts(name)), ("service", *columns)):
            # As many groups at most as there are services and types of messages.
            for row in piece.rows().group_by(["service", *columns]).aggregate([([], "count_all")]).to_pylist():
                size = found[row["service"]]
                if name != "changes":
                    setattr(size, name, getattr(size, name) + row["count_all"])
                    if name == "losses":
                        reason = REASONS[row["reason"]]
                        size.reasons[reason] = size.reasons.get(reason, 0) + row["count_all"]
                elif row["operation"] in kinds[row["service"]].wants():
                    size.interests += row["count_all"]
    return found
