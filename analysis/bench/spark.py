"""What looking at a run costs, and what keeping it safe costs: the group `spark`.

Rules:
- The trace is that of the scenario `news` on a network ten times as large, with more traffic and long enough for ten
  million hops, in a folder that is removed afterwards. Each command runs as a user runs it, in a process of its own
  that starts Spark and its Java.
- Memory is that of the whole tree of processes, looked at five times a second; what processes share counts once.
- Beside `analyze` stand the same aggregates in DuckDB and in polars (`analysis.bench.beside`), on the same Parquet,
  each in a process of its own; where one is not installed, that is said, and nothing is judged by it.
- The CPU time of a command stands beside its wall time, which says how busy the machine was with other things.
- A checkpoint's share of the run is its own time over ten seconds. A run that is over sooner takes no checkpoint every
  ten seconds; what one takes is measured where they are taken more often.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from analysis.bench.rows import Row, row

SCENARIO = "news"
CHECKPOINTED = "quickstart"
ENGINES = ("duckdb", "polars")
COMMAND = ("-c", "from scenarios.cli import entry; entry()")
EVERY_S = 10.0  # between checkpoints, as the share is told
_LOOK_FIRST_S, _LOOK_EVERY_S = 0.005, 0.2  # often at first: a short command has ended soon


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    brokers: int = 320
    rate: str = "50/s"  # of each of the 20 publishers
    seconds: int = 150  # simulated; ten million hops at this rate
    most_s: float = 90.0
    most_gb: float = 2.0
    most_times: float = 1.5  # the CPU time of the same aggregates elsewhere
    checkpoint_seconds: int = 100  # ten times the quickstart
    checkpoint_every: str = "500 ms"
    most_share: float = 0.05


class Cost(NamedTuple):
    """What a command took."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    sizes = Sizes()
    yield from reading(sizes)
    yield from checkpoints(sizes)


def reading(sizes: Sizes) -> Iterator[Row]:
    """Analyze and audit of a long trace."""
    from scenarios.running import run

    overrides = [
        f"topology.nodes={sizes.brokers}", f"services.0.workload.1.rate={sizes.rate}", f"duration={sizes.seconds} s",
    ]
    with tempfile.TemporaryDirectory(prefix="brokerlab-bench-") as folder:
        made = run(SCENARIO, engine="inline", overrides=overrides, out=folder).folder
        for table in ("hops", "deliveries", "publications"):
            yield row(f"the trace: {table}", made.rows(table), "")
        costs: dict[str, Cost] = {}
        for command in ("analyze", "audit"):
            cost = cost_of(command, str(made.path))
            yield row(f"`brokerlab {command}`", cost.wall_s, "s")
            yield row(f"`brokerlab {command}`: CPU time", cost.cpu_s, "s")
            yield row(f"`brokerlab {command}`: memory, Java included", cost.peak_bytes / 1e9, "GB")
            costs[command] = cost
        yield from beside(str(made.path), costs["analyze"], sizes)
    yield row("analyze and audit", sum(cost.wall_s for cost in costs.values()), "s", most=sizes.most_s)
    most = max(cost.peak_bytes for cost in costs.values())
    yield row("analyze and audit: memory, Java included", most / 1e9, "GB", most=sizes.most_gb)


def beside(path: str, spark: Cost, sizes: Sizes) -> Iterator[Row]:
    """The same aggregates elsewhere, and how many times their CPU time `analyze` takes."""
    for engine in ENGINES:
        label = f"`brokerlab analyze`: CPU time beside {engine}"
        if importlib.util.find_spec(engine) is None:
            yield row(f"{label}, which is not installed: pip install 'brokerlab[bench]'", spark.cpu_s, "s")
            continue
        there = cost_of(engine, path, program=("-m", "analysis.bench.beside"))
        yield row(f"the same in {engine}: memory", there.peak_bytes / 1e9, "GB")
        yield row(label, spark.cpu_s, "s", baseline=there.cpu_s, ratio_most=sizes.most_times, against=engine)


def checkpoints(sizes: Sizes) -> Iterator[Row]:
    """What checkpoints cost a run that lasts ten times as long as the quickstart."""
    from scenarios.running import run

    with tempfile.TemporaryDirectory(prefix="brokerlab-bench-") as folder:

        def engine(every: str) -> dict[str, float]:
            changes = [f"duration={sizes.checkpoint_seconds} s", f"engine.checkpoint_every={every}"]
            done = run(CHECKPOINTED, engine="inline", overrides=changes, out=folder, overwrite=True)
            return {**done.engine, "wall_s": done.metrics["run"]["wall_s"]}

        engine("0 s")  # compiles
        plain, every, often = engine("0 s"), engine(f"{EVERY_S:g} s"), engine(sizes.checkpoint_every)
    label = f"{CHECKPOINTED} of {sizes.checkpoint_seconds} s"
    yield row(f"{label}: time of the run", plain["wall_s"], "s")
    yield row(f"{label}: checkpoints when taken every {EVERY_S:g} s", every["checkpoints"], "")
    yield row(
        f"{label}: checkpoints when taken every {sizes.checkpoint_every}", often["checkpoints"], "", least=3
    )
    each_s = often["checkpoint_s"] / max(often["checkpoints"], 1)
    yield row(f"{label}: a checkpoint", each_s * 1e3, "ms")
    yield row(f"{label}: size of a checkpoint", often["checkpoint_bytes"] / max(often["checkpoints"], 1) / 1e6, "MB")
    yield row(
        f"{label}: share of the time with one every {EVERY_S:g} s", each_s / EVERY_S, "", most=sizes.most_share
    )


def cost_of(
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    ends_with: Collection[int] = (0,),
    program: Sequence[str] = COMMAND,
) -> Cost:
    """One call of the command line, with all the processes that it starts; it has to end with one of these codes."""
    began, ended_s = time.perf_counter(), _ended_s()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, *program, *arguments],
            stdout=subprocess.DEVNULL, stderr=said, env={**os.environ, **(environment or {})},
        )  # fmt: skip
        cpu_s, peak, pause_s = 0.0, 0, _LOOK_FIRST_S
        while process.poll() is None:
            now_s, now_bytes = tree_cost(process.pid)
            cpu_s, peak = max(cpu_s, now_s), max(peak, now_bytes)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LOOK_EVERY_S)
        wall_s = time.perf_counter() - began
        if process.returncode not in ends_with:
            said.seek(0)
            told = said.read().decode(errors="replace").strip()
            raise RuntimeError(f"brokerlab {' '.join(arguments)} ended with {process.returncode}: {told}")
    return Cost(wall_s, max(cpu_s, _ended_s() - ended_s), peak)


def _ended_s() -> float:
    """CPU seconds of the processes below this one that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tree_cost(root: int) -> tuple[float, int]:
    """CPU seconds and memory of a process and of all below it, those that have ended included in the former."""
    parent: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name of a process stands in brackets and may hold anything; fields are counted from behind it.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        parent[int(entry.name)] = int(fields[1])
        ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    used, total, below = 0, 0, [root]
    while below:
        pid = below.pop()
        used += ticks.get(pid, 0)
        total += resident_bytes(pid)
        below += [child for child, above in parent.items() if above == pid]
    return used / os.sysconf("SC_CLK_TCK"), total


def resident_bytes(pid: int) -> int:
    """The memory of a process, pages that it shares with others divided among them; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
