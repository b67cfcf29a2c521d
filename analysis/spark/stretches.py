"""Into which stretches of time a run is divided where something is counted by place: the same for all who count."""

from __future__ import annotations

from brokers.engine.parts import reading
from brokers.engine.runfolder import RunFolder

STRETCHES = 60  # at most
_STRETCHES_LEAST = 5
_CELLS_MOST = 2_000_000  # counts by service, place and stretch


def stretches_of(services: int, places: int) -> int:
    """How many there are where so many links and brokers are counted by."""
    return min(max(_CELLS_MOST // max(1, services * places), _STRETCHES_LEAST), STRETCHES)


def span_of(run: RunFolder) -> int:
    """When the last thing happened that is drawn."""
    import pyarrow.parquet as pq

    last = int(run.manifest["scenario"]["duration"])
    for table in ("hops", "deliveries"):
        for part in run.parts(table) if table in run.tables() else ():
            with reading(run.path, part):
                meta = pq.read_metadata(part)
                column = meta.schema.names.index("time_ns")
                for group in range(meta.num_row_groups):
                    told = meta.row_group(group).column(column).statistics
                    if told is not None and told.has_min_max:
                        last = max(last, int(told.max) + 1)
    return min(last, int(run.manifest["scenario"]["duration"] + run.manifest["scenario"]["drain"]) + 1)
