"""The group `hunt`: what looking for mistakes in protocols costs, and brokers in other languages among them."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.bench import programs
from analysis.bench.hunting import rows as hunting
from analysis.bench.rows import Row


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    yield from programs.rows()
    yield from hunting.rows()
