"""What a newcomer waits for: the group `start`.

Rules:
- Kernels are compiled by `brokerlab warm` into an empty cache, which only these measurements use. What pip takes
  depends on the network and is left out.
- The first demo is the first process that runs anything with these kernels; the second one finds the same. What is
  compared is the time to simulate: all other parts of a demo have no kernels.
- A demo is measured to its verdict, Java's start and the second run in one process included.
- The baseline of a run is the same command with nothing to do: the start of Python, imports, a trace without rows. That
  of the audit is the audit of such a run: Java's start, and the planning of all queries.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from analysis.bench.rows import Row, row
from analysis.bench.spark import Cost, cost_of
from brokers.verdicts import EXIT_CODES, UNKNOWN, VALID
from scenarios.many.pool import cpus
from scenarios.run import Run

SCENARIO = "quickstart"


@dataclass(frozen=True)
class Sizes:
    """How much is measured; what the machine promises."""

    seconds: float = 10.0  # simulated, of the quickstart
    kernels_most_s: float = 150.0
    demo_most_s: float = 30.0
    slower_most: float = 1.3  # the first demo beside the second
    warm: bool = True  # compile anew; else use the kernels that are there


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    yield from measure(Sizes())


def measure(sizes: Sizes) -> Iterator[Row]:
    """The group at some size."""
    with tempfile.TemporaryDirectory(prefix="bl-") as folder:
        environment = {"NUMBA_CACHE_DIR": folder + "/kernels"} if sizes.warm else {}
        if sizes.warm:
            os.mkdir(environment["NUMBA_CACHE_DIR"])
            cost = cost_of("warm", environment=environment)
            yield row(
                f"all kernels, on {cpus()} cores", cost.wall_s, "s", most=sizes.kernels_most_s, baseline=cost.cpu_s,
                against="their CPU time",
            )  # fmt: skip
        yield from demos(sizes, Path(folder), environment)
        yield from commands(sizes, Path(folder), environment)


def demos(sizes: Sizes, folder: Path, environment: dict[str, str]) -> Iterator[Row]:
    """The first demo, and the second."""
    costs, simulated = [], []
    for name in ("first", "second"):
        out = folder / name
        costs.append(cost_of("demo", "--out", str(out), environment=environment))
        simulated.append(_simulated_s(out))
    yield row("first demo: simulating", simulated[0], "s", baseline=simulated[1], ratio_most=sizes.slower_most,
              against="the second's")  # fmt: skip
    audited = importlib.util.find_spec("pyspark") is not None
    for name, cost in zip(("first", "second"), costs):
        most = sizes.demo_most_s if audited and name == "second" else None
        what = "to the verdict" if audited else "without audit"
        yield row(f"{name} demo, {what}", cost.wall_s, "s", most=most)
        yield row(f"{name} demo: CPU time", cost.cpu_s, "s")


def commands(sizes: Sizes, folder: Path, environment: dict[str, str]) -> Iterator[Row]:
    """The quickstart in one process, and its audit alone."""

    def run(seconds: float, name: str) -> Cost:
        arguments = ("--engine", "inline", "--quiet", "--set", f"duration={seconds:g} s", "--out", str(folder / name))
        return cost_of("run", SCENARIO, *arguments, environment=environment)

    nothing, whole = run(0.001, "nothing"), run(sizes.seconds, "whole")
    yield row(f"{SCENARIO} inline", whole.wall_s, "s", baseline=nothing.wall_s, against="nothing simulated")
    yield row(f"{SCENARIO} inline: CPU time", whole.cpu_s, "s", baseline=nothing.cpu_s, against="nothing simulated")
    if importlib.util.find_spec("pyspark") is None:
        return
    # Nothing was decided in the empty run, so its verdict is unknown.
    empty, full = (
        cost_of("audit", str(folder / name / "latest"), environment=environment, ends_with={EXIT_CODES[verdict]})
        for name, verdict in (("nothing", UNKNOWN), ("whole", VALID))
    )
    yield row(f"audit of {SCENARIO} alone", full.wall_s, "s", baseline=empty.wall_s, against="that of an empty run")
    yield row(f"audit of {SCENARIO} alone: CPU time", full.cpu_s, "s", baseline=empty.cpu_s,
              against="that of an empty run")  # fmt: skip


def _simulated_s(out: Path) -> float:
    """The wall time of the simulation alone, as the run folder has it."""
    return float(Run.load(out / "latest").metrics["run"]["loop_wall_s"])
