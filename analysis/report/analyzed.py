"""What `brokerlab analyze` left beside a run: shown as it is, where it is there. Nothing is computed here."""

from __future__ import annotations

import math
from typing import Any

from analysis.report.words import number, plain, time
from brokers.engine.parts import parquet_faults
from brokers.engine.runfolder import RunFolder

TABLES = {
    "services": "Services", "stretch": "Latency over that of the quickest path",
    "hops": "Links that deliveries came over", "cost": "What a delivery cost", "balance": "How even the load is",
}  # fmt: skip
_ROWS_MOST, _COLUMNS_MOST, _BYTES_MAX = 40, 16, 50_000_000


def analyzed(run: RunFolder) -> list[tuple[str, list[str], list[list[str]]]]:
    """(title, heads, rows) of the small tables of `analyze`."""
    found = []
    for name, title in TABLES.items():
        path = run.path / "analysis" / name / "part-00000.parquet"
        try:
            if not path.is_file() or path.is_symlink() or path.stat().st_size > _BYTES_MAX:
                continue
            import pyarrow.parquet as pq

            with pq.ParquetFile(path) as file:
                rows = next(file.iter_batches(_ROWS_MOST), None)
        except parquet_faults():
            continue  # not what `analyze` writes; it can be made again
        if rows is None or not rows.num_rows:
            continue
        heads = rows.schema.names[:_COLUMNS_MOST]
        cells = [[_cell(head, row[head]) for head in heads] for row in rows.to_pylist()]
        found.append((title, [_head(head) for head in heads], cells))
    return found


def _head(name: str) -> str:
    return plain(name.removesuffix("_ns").replace("_", " "), 40)


def _cell(name: str, value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return time(value) if name.endswith("_ns") else number(value)
    return plain(value)
