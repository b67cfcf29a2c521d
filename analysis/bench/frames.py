"""The hops of a run in polars: how soon, and in how much memory beside that of their columns.

    python -m analysis.bench.frames brokerlab RUN
    python -m analysis.bench.frames polars RUN

Each is a process of its own, which prints what it took as JSON: by `brokerlab.open`, which compares every part with
its sha256 first, and by polars' own reader of the same files, which believes them. Libraries are imported and have read
a row before; the files are in the page cache. Memory is the most that was resident, less what was before: what is held
for a moment counts.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.bench.rows import Row, row

TABLE = "hops"
_TIMES = 3


def rows_of(name: str, path: Path, most_s: float | None, most_times: float | None) -> Iterator[Row]:
    """What it takes here and there, in turns."""
    if importlib.util.find_spec("polars") is None:
        yield row(f"{name}: no polars: pip install 'brokerlab[frames]'", 0, "")
        return
    took = {reader: [_measured(reader, path) for _ in range(_TIMES)] for reader in ("polars", "brokerlab")}
    ours, theirs = ({key: statistics.median(each[key] for each in took[reader]) for key in ("wall_s", "cpu_s", "bytes")}
                    for reader in ("brokerlab", "polars"))  # fmt: skip
    columns = took["brokerlab"][0]["columns_bytes"]
    yield row(f"{name}: {TABLE} to polars", ours["wall_s"], "s", most=most_s)
    yield row(f"{name}: the same, CPU time", ours["cpu_s"], "s", baseline=theirs["cpu_s"])
    yield row(
        f"{name}: the same, memory", ours["bytes"] / 1e6, "MB", baseline=columns / 1e6, ratio_most=most_times,
        against="the columns",
    )  # fmt: skip
    yield row(f"{name}: memory of polars' own reader", theirs["bytes"] / 1e6, "MB", baseline=columns / 1e6)


def _measured(reader: str, path: Path) -> dict[str, Any]:
    program = [sys.executable, "-m", "analysis.bench.frames", reader, str(path)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def _main(reader: str, path: str) -> None:
    import polars as pl

    from analysis.frames.opening import OpenedRun
    from brokers.engine.runfolder import open_run

    opened = OpenedRun(open_run(path))
    files = [opened.path / each["path"] for each in opened.manifest["files"] if each["table"] == TABLE]
    with contextlib.ExitStack() as opened_files:
        for file in files:
            at = opened_files.enter_context(file.open("rb"))
            while at.read(1 << 20):  # into the page cache, without a trace in this process's memory
                pass
    pl.DataFrame(opened["brokers"])
    before, wall, cpu = _status("VmRSS"), time.perf_counter(), time.process_time()
    found = pl.DataFrame(opened[TABLE]) if reader == "brokerlab" else pl.read_parquet(files)
    took = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    print(json.dumps({**took, "bytes": _status("VmHWM") - before, "columns_bytes": found.estimated_size()}))


def _status(what: str) -> int:
    """A size that Linux tells of this process, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:")) * 1024


if __name__ == "__main__":
    _main(*sys.argv[1:])
