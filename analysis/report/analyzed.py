"""What `brokerlab analyze` left beside a run, if it is of this run as it is: small tables as they are, counts to draw.

Nothing is computed here. That a table says what the trace says is believed; one that `analyze` cannot have written is
left out and told.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.report.words import number, plain, time
from analysis.spark.trace import STAMP
from brokers.engine.manifest import read_bytes
from brokers.engine.parts import parquet_faults
from brokers.engine.runfolder import RunFolder

TABLES = {
    "services": "Services", "stretch": "Latency over that of the quickest path",
    "hops": "Links that deliveries came over", "cost": "What a delivery cost", "balance": "How even the load is",
    "spreading": "How publications spread", "rounds": "Brokers that were reached, by round",
    "to_all": "From publishing to the last delivery", "control": "Bytes of control for each byte of copies",
    "copies": "Brokers that handled so many copies of a publication", "meshes": "Links in meshes",
}  # fmt: skip
ROWS_MOST = 40
_COLUMNS_MOST, _BYTES_MAX = 16, 50_000_000
Limits = Mapping[str, tuple[int, int]]  # column -> from which number on, and below which


class Shown(NamedTuple):
    """The first rows of a table."""

    title: str
    heads: list[str]
    rows: list[list[str]]
    total: int
    where: str


@dataclass
class Analyzed:
    """The answers of one call of `analyze`."""

    run: RunFolder
    said: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, run: RunFolder) -> Analyzed:
        """What is there; nothing where `analyze` was never asked, or the run is another by now."""
        folder = run.path / "analysis"
        try:
            said = json.loads(read_bytes(folder / STAMP))
            if _is_stamp(said) and said["digest"] == run.digest:
                return cls(run, said)
        except (OSError, ValueError, RecursionError):
            pass
        if any((folder / name).is_dir() for name in TABLES):
            why = "they do not say that they are of this run as it is. Make them again: brokerlab analyze"
            return cls(run, notes=[f"Tables of brokerlab analyze are there and left out: {why}."])
        return cls(run)

    @property
    def is_whole(self) -> bool:
        """Whether the tables are of the whole run, and leave out no warm-up."""
        return bool(self.said) and self.said["warm_up_ns"] == 0

    def numbers(self, name: str, limits: Limits) -> dict[str, NDArray[np.int64]] | None:
        """Columns of whole numbers of a table of the whole run; None where they are not there."""
        if not self.is_whole or name not in self.said["tables"]:
            return None
        found = self._numbers(name, limits)
        if found is None:
            self._refuse(name)
        return found

    def _numbers(self, name: str, limits: Limits) -> dict[str, NDArray[np.int64]] | None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self._path(name)
        try:
            if path is None:
                return None
            with pq.ParquetFile(path) as file:
                read = file.read(list(limits))
            found = {}
            for column, (least, limit) in limits.items():
                values = read.column(column)
                if not pa.types.is_integer(values.type) or values.null_count:
                    return None
                found[column] = values.to_numpy().astype(np.int64)
                if values.length() and not least <= found[column].min() <= found[column].max() < limit:
                    return None
        except parquet_faults():
            return None
        except KeyError:  # a column is not there
            return None
        return found if read.num_rows == self.said["tables"][name] else None

    def _path(self, name: str) -> Path | None:
        path = self.run.path / "analysis" / name / "part-00000.parquet"
        sound = path.is_file() and not path.is_symlink() and path.stat().st_size <= _BYTES_MAX
        return path if sound else None

    def _refuse(self, name: str) -> None:
        self.notes.append(f"The table {name!r} of brokerlab analyze is not what it writes, and is left out.")

    def shown(self) -> list[Shown]:
        """The small tables, as text."""
        import pyarrow.parquet as pq

        found = []
        for name, title in TABLES.items():
            if name not in self.said.get("tables", {}):
                continue
            try:
                path = self._path(name)
                if path is None:
                    raise OSError(f"no table {name!r}")
                with pq.ParquetFile(path) as file:
                    total = file.metadata.num_rows
                    rows = next(file.iter_batches(ROWS_MOST), None)
                if rows is None:
                    raise OSError(f"table {name!r} is empty")
            except parquet_faults():
                self._refuse(name)
                continue
            heads = rows.schema.names[:_COLUMNS_MOST]
            cells = [[_cell(head, row[head]) for head in heads] for row in rows.to_pylist()]
            found.append(Shown(title, [_head(head) for head in heads], cells, total, f"analysis/{name}"))
        return found


def _is_stamp(said: Any) -> bool:
    """Whether everything is there that is read of it."""
    try:
        numbers = [said[name] for name in ("warm_up_ns", "span_ns", "stretches")] + [*said["tables"].values()]
    except (AttributeError, KeyError, TypeError):
        return False
    return all(type(each) is int and 0 <= each < 2**63 for each in numbers) and isinstance(said.get("digest"), str)


def _head(name: str) -> str:
    return plain(name.removesuffix("_ns").replace("_", " "), 40)


def _cell(name: str, value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return time(value) if name.endswith("_ns") else number(value)
    return plain(value)
