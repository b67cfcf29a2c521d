"""Links by their rows, for readers of a trace.

A link is called by the number of its row in the table `links`, but for those that were described and arose: these keep
the numbers that they had in the run (`topology.numbers`), which leave out what did not arise. Readers keep arrays by
link, so for them every link is called by its row.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.engine.parts import read_part
from brokers.errors import RunDamaged

COLUMN = "link"


class LinkRows(NamedTuple):
    """The links of a run that are called by other numbers than their rows."""

    number: NDArray[np.int64]  # ascending
    row: NDArray[np.int64]

    @classmethod
    def of(cls, links: NDArray[Any]) -> LinkRows | None:
        """From the numbers in the table `links`, in its order; None where all are called by their rows."""
        links = links.astype(np.int64)
        other = np.flatnonzero(links != np.arange(links.size))
        if not other.size:
            return None
        order = other[np.argsort(links[other], kind="stable")]
        return cls(links[order], order)

    def rows(self, links: NDArray[Any]) -> NDArray[Any]:
        """Links by their rows; what is called by no link stays."""
        at = np.minimum(np.searchsorted(self.number, links), self.number.size - 1)
        return np.where(self.number[at] == links, self.row[at], links).astype(links.dtype)

    def renamed(self, table: Any) -> Any:
        """A table of Arrow whose links are called by their rows."""
        import pyarrow as pa

        at = table.schema.get_field_index(COLUMN)
        if at < 0:
            return table
        field = table.schema.field(at)
        return table.set_column(at, field, pa.array(self.rows(table.column(at).to_numpy()), field.type))


def link_rows(run: Path) -> LinkRows | None:
    """Those of a finished run; read once per process while its parts stay as they are. None: it has no such table."""
    if not (run / "tables" / "links").is_dir():
        return None
    parts = sorted((run / "tables" / "links").glob("*.parquet"))
    return _read(run, tuple(parts), tuple(part.stat().st_mtime_ns for part in parts))


@lru_cache(maxsize=8)
def _read(run: Path, parts: tuple[Path, ...], _changed: tuple[int, ...]) -> LinkRows | None:
    if not parts:
        raise RunDamaged.at(run, "no part holds table 'links'")
    return LinkRows.of(np.concatenate([read_part(run, part, [COLUMN])[COLUMN].to_numpy() for part in parts]))
