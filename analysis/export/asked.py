"""What of a run is exported: a stretch of time, some of its services."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from analysis.frames.conditions import nanoseconds, service_number
from analysis.frames.naming import ints
from analysis.frames.table import Table
from analysis.report.gather import Rows, checked
from brokers.engine.linkrows import COLUMN
from brokers.engine.runfolder import RunFolder
from brokers.errors import InvalidInput

ROWS_MOST = 250_000  # of a table that are held together


@dataclass(frozen=True)
class Asked:
    """See the module."""

    run: RunFolder
    since_ns: int | None = None
    until_ns: int | None = None
    services: tuple[int, ...] = ()  # none: all

    @classmethod
    def of(
        cls, run: RunFolder, since: str | int | None, until: str | int | None, services: tuple[str | int, ...]
    ) -> Asked:
        """From what was said; a stretch of time that is none is refused."""
        begin = None if since is None else nanoseconds(since, "--from")
        end = None if until is None else nanoseconds(until, "--to-time")
        if end is not None and end <= (begin or 0):
            raise InvalidInput(f"--to-time {until} is not after --from {since or '0 s'}")
        return cls(run, begin, end, tuple(service_number(run, each) for each in services))

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.since_ns is None and self.until_ns is None and not self.services

    def table(self, name: str) -> Table:
        """A table as far as it is asked for; what has neither time nor service is there as it is."""
        found = Table.of(self.run, name)
        if self.services and "service" in found.columns:
            found = found.where(service=self.services)
        return found.where(since=self.since_ns, until=self.until_ns) if found.is_timed else found

    def in_time(self, name: str, columns: tuple[str, ...]) -> Iterator[Rows]:
        """Rows of a table in the order of time, in pieces, whose numbers are such as there can be."""
        for piece in self.table(name).select(*columns).in_time(ROWS_MOST):
            rows = {column: ints(piece[column]) for column in columns}
            if self.run.link_rows is not None and COLUMN in rows:
                rows[COLUMN] = self.run.link_rows.rows(rows[COLUMN])
            yield checked(self.run, name, rows)
