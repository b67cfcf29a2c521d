"""What reports weigh, how soon they open, and how fast they draw: the group `report`.

Rules:
- Reports are made by `brokerlab report` in a process of its own. Sizes are those of the whole file, with all of its
  counts, deliveries, changes and pictures, beside the 7 bytes that an event may take.
- A page is opened in the browser that this machine has, from the disk. What it takes is from asking for the page until
  all is unpacked and drawn once, by the page's own clock; a frame is the drawing of one instant while the run plays,
  the median over two hundred instants, without what the browser does to show it. Frames played are those that the
  browser shows in a second, by its own clock, a hundred and twenty of them: with all that it does to show them. It
  shows no more than its screen would, 60 a second, which its clock tells to within a hundredth: all are asked for.
- Where there is no browser that is said, and nothing is judged by it.
- Of the largest run its hops are taken to polars as well (`analysis.bench.frames`).
- Figures are eight kinds that one call of `brokerlab plot` draws as PDF; the baseline is the call for their data alone.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from analysis.bench import frames
from analysis.bench.browsing import missing, opened
from analysis.bench.rows import Row, row
from analysis.bench.spark import Cost, cost_of


class Case(NamedTuple):
    """A run to report on."""

    name: str
    scenario: str
    overrides: tuple[str, ...]
    most_bytes: float | None = None
    opens_most_s: float | None = None
    frame_most_ms: float | None = None
    played_least_per_s: float | None = None
    made_most_s: float | None = None
    made_most_gb: float | None = None
    frames_most_s: float | None = None
    frames_most_times: float | None = None  # the memory of the columns
    drawn_most_s: float | None = None


SMOOTH = 59.4  # 60 frames a second, to within a hundredth
EIGHT = ("latency", "latency-tail", "deliveries", "link-heat", "tables", "waste", "settling", "redundancy")
NEWS = ("topology.nodes=320", "services.0.workload.1.rate=50/s")


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    cases: Sequence[Case] = (
        Case("quickstart", "quickstart", (), 1e6, 1.0, 16.0, SMOOTH),
        Case("150,000 events", "quickstart", ("duration=18.5 s",), 1e6, 1.0, 16.0, SMOOTH),
        Case("1,000 brokers", "news", ("topology.nodes=1000", "duration=3 s"), 1e6, 1.0, 16.0, SMOOTH),
        Case("a million events", "news", (*NEWS, "duration=15 s"), most_bytes=7e6),
        Case(
            "ten million events", "news", (*NEWS, "duration=150 s"), made_most_s=60.0, made_most_gb=2.0,
            frames_most_s=1.0, frames_most_times=1.1, drawn_most_s=20.0,
        ),
    )


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    yield from measure(Sizes())


def measure(sizes: Sizes) -> Iterator[Row]:
    """The group at some size."""
    for case in sizes.cases:
        with tempfile.TemporaryDirectory(prefix="bl-report-") as folder:
            yield from _case(case, Path(folder))


def _case(case: Case, folder: Path) -> Iterator[Row]:
    from scenarios.running import run

    made = run(case.scenario, engine="inline", overrides=list(case.overrides), out=folder / "runs").folder
    target = folder / "report.html"
    cost = cost_of("report", str(made.path), "--out", str(target))
    size = target.stat().st_size
    hops = made.rows("hops")
    yield row(f"{case.name}: events", hops, "")
    yield row(f"{case.name}: the file", size / 1e3, "kB", most=_kilo(case.most_bytes))
    yield row(f"{case.name}: the file, an event", size / max(hops, 1), "bytes")
    yield from _making(case, cost)
    if case.frames_most_s is not None:
        yield from frames.rows_of(case.name, made.path, case.frames_most_s, case.frames_most_times)
    yield from _figures(case, made.path, folder)
    why = missing()
    if why is not None:
        yield row(f"{case.name}: not opened, {why}", 0, "")
        return
    found = opened(target)
    yield row(f"{case.name}: opened in", found["opened_s"], "s", most=case.opens_most_s)
    yield row(f"{case.name}: a frame", found["frame_ms"], "ms", most=case.frame_most_ms)
    yield row(f"{case.name}: frames played", found["played_per_s"], "1/s", least=case.played_least_per_s)


def _making(case: Case, cost: Cost) -> Iterator[Row]:
    yield row(f"{case.name}: made in", cost.wall_s, "s", most=case.made_most_s)
    yield row(f"{case.name}: made in, CPU time", cost.cpu_s, "s")
    yield row(f"{case.name}: memory", cost.peak_bytes / 1e9, "GB", most=case.made_most_gb)


def _figures(case: Case, run: Path, folder: Path) -> Iterator[Row]:
    """Eight figures in one call."""
    kinds = [word for kind in EIGHT for word in ("--kind", kind)]
    data, drawn = (cost_of("plot", str(run), *kinds, "-o", str(folder / f"{{kind}}.{form}")) for form in ("csv", "pdf"))
    yield row(f"{case.name}: eight figures", drawn.wall_s, "s", most=case.drawn_most_s)
    yield row(f"{case.name}: eight figures, CPU time", drawn.cpu_s, "s", baseline=data.cpu_s)
    yield row(f"{case.name}: eight figures, memory", drawn.peak_bytes / 1e9, "GB")


def _kilo(value: float | None) -> float | None:
    return None if value is None else value / 1e3
