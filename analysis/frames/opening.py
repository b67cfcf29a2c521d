"""`brokerlab.open`: a run or a sweep, as tables that are read when they are asked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.frames.graph import overlay_of
from analysis.frames.table import Table
from analysis.report.summary import expected
from brokers.engine.parts import one_line, parquet_faults
from brokers.engine.runfolder import open_run
from brokers.errors import InvalidInput
from scenarios.many.carry import DESCRIPTION, FINISHED, TABLE
from scenarios.many.compare import CONFIDENCE, Comparison, compare, points_of
from scenarios.many.metrics import kept_audit
from scenarios.running import Run

if TYPE_CHECKING:
    import networkx as nx
    import pyarrow as pa


def open(path: str | os.PathLike[str], *, trust: bool = False) -> OpenedRun | OpenedSweep:
    """Open the folder of a run or of a sweep; `trust` lets a run name code from outside.

    >>> import brokerlab
    >>> run = brokerlab.open("runs/latest")
    >>> run.deliveries.where(client=3, since="2 s").select("publication", "time_ns").named().to_arrow()

    Raises
    ------
    InvalidInput
        If there is no such folder; later, if a table, a column or a name is asked for that there is not.
    RunIncomplete
        If the run has not finished; RunDamaged, where what is read is not what the run wrote.
    """
    if (Path(path) / DESCRIPTION).is_file():
        return OpenedSweep(Path(path))
    return OpenedRun(open_run(path), trust)


@dataclass(frozen=True, repr=False)
class OpenedRun(Run):
    """A run whose tables are lazy: `run.hops`, `run["hops"]`, `run.tables`."""

    trust: bool = False

    def _table(self, name: str) -> Table:
        return self[name]

    def __getitem__(self, table: str) -> Table:
        return Table.of(self.folder, table)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.folder.tables()]

    @property
    def tables(self) -> dict[str, Table]:
        """All that the trace has, by name."""
        return {name: self[name] for name in self.folder.tables()}

    @property
    def manifest(self) -> dict[str, Any]:
        """What the run says of itself (docs/trace.md)."""
        return self.folder.manifest

    @property
    def expectations(self) -> list[dict[str, Any]]:
        """What the scenario expects, beside what was measured: text, measured, holds; None where no audit was asked."""
        return expected(self.folder, kept_audit(self.folder))

    @property
    def overlay(self) -> nx.DiGraph:
        """Brokers and links with what they carried."""
        return overlay_of(self.folder)


@dataclass(frozen=True, repr=False)
class OpenedSweep:
    """The points of a sweep, as far as they have finished."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    @cached_property
    def points(self) -> pa.Table:
        """A row for each point: values, repeat, seed, status, digest, metrics."""
        import pyarrow.parquet as pq

        try:
            return pq.read_table(self.path / TABLE, partitioning=None)
        except parquet_faults() as error:
            raise InvalidInput(f"{self.path / TABLE} cannot be read ({one_line(error)}); run the sweep again") from None

    @property
    def runs(self) -> dict[str, OpenedRun]:
        """The run of each point that has finished, by the name of its folder."""
        points = points_of(self.path / DESCRIPTION)
        names = [Path(point["run"]).name for point in points if point["status"] == FINISHED]
        return {name: OpenedRun(open_run(self.path / "runs" / name)) for name in names}

    def compare(self, confidence: float = CONFIDENCE, baseline: str | None = None) -> Comparison:
        """Its variants side by side, as `brokerlab compare` has them."""
        return compare([self.path], confidence, baseline)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.points.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<sweep {self.path.name}: {self.points.num_rows:,} points>"

    def _repr_html_(self) -> str:
        return self.compare()._repr_html_()
