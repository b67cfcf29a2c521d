"""The group `routing`: routing among brokers as practice and papers have it."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.bench import routing_adverts
from analysis.bench.rows import Row


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    yield from routing_adverts.rows()
