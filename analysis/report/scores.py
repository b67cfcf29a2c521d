"""What brokers of GossipSub thought of their neighbours, where a run was watched (`watch_ticks`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from brokers.engine.runfolder import RunFolder
from brokers.errors import RunDamaged
from protocols.gossip.attacked import Series, scores_over_time

ROWS_MOST = 5_000_000  # of the table `scores`
_READ = {"attackers": ("service", "broker", "entry", "behaviour"),
         "scores": ("service", "broker", "time_ns", "attacker", "topic", "mesh", "score")}  # fmt: skip


def watched(run: RunFolder) -> dict[int, list[Series]]:
    """The series of each service that was watched, by its number; nothing of a run with too many rows."""
    if not 0 < run.rows("scores") <= ROWS_MOST:
        return {}
    there = run.manifest["tables"]
    tables = {name: _columns(run, name) if name in there else _nobody() for name in _READ}
    if not np.isfinite(tables["scores"]["score"]).all():
        raise RunDamaged.at(run.path, "table 'scores' has a score that is no number")
    found = {}
    for service in range(len(run.manifest["scenario"]["services"])):
        mine = {
            name: {key: column[columns["service"] == service] for key, column in columns.items()}
            for name, columns in tables.items()
        }
        if series := scores_over_time(mine):
            found[service] = series
    return found


def _columns(run: RunFolder, table: str) -> dict[str, Any]:
    read = run.read(table, list(_READ[table]))
    return {name: read[name].to_numpy(zero_copy_only=False) for name in _READ[table]}


def _nobody() -> dict[str, Any]:
    """The columns of `attackers` where nobody attacks."""
    none = np.empty(0, np.int64)
    return {"service": none, "broker": none, "entry": none, "behaviour": np.empty(0, object)}
