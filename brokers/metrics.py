"""What a metric is: a number per service, with what it stands for where nobody names a service.

The last part of a name says the unit: `_ns`, `_ms` and `_s` are durations, `bytes` a size, `_per_s` a rate; what says
nothing is a count.

The metrics that every service has are counted while it runs. One that a kind adds, or a scenario names, is measured
once, when the run has ended, from the columns of the trace that it `reads`; the number is kept in the run's manifest
beside the others. So whatever looks at it later (expectations, comparisons, sweeps) runs nobody's code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Together(Enum):
    """What stands for all services where an expectation names none of them."""

    SUM = "the sum"
    LARGEST = "the largest"
    WORST = "the worst"
    APART = "each service by itself"  # of a mean or a percentile there is none: it does not follow from the services'


@dataclass(frozen=True)
class Metric:
    """What is measured of each service."""

    name: str
    together: Together
    prose: str = ""
    measure: str = ""  # "module:function" of (tables, kind), which gives a number or None; empty: counted by the engine
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # table -> columns, of the service's rows
    alone: bool = False  # measured only where there is no service beside it


def padding_of(protocol: Any, options: Mapping[str, Any]) -> int:
    """How many bytes each copy of a publication has beside those that a client published."""
    name = getattr(protocol, "pads", "")
    return int(getattr(protocol.Options(**options), name)) if name else 0
