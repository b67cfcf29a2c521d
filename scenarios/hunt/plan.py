"""What a hunt is asked for, as plain data that another process takes too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Schedules = Literal["aimed", "random"]


@dataclass(frozen=True)
class Plan:
    """See `hunt`."""

    protocol: str  # name or target
    kind: str | None
    seed: int
    seconds: float | None
    runs: int | None
    options: Mapping[str, Any] = field(default_factory=dict)
    judges: tuple[str, ...] | None = None
    schedules: Schedules = "aimed"
    faults: bool = True
    enough: int | None = None
    shrink_seconds: float = 60.0
    lines: bool = True
    trees_only: bool = False
    share: tuple[int, int] = (0, 1)  # of the numbers of runs: from which on, every how many
