"""The group `small`: where people are, small and thin networks, beside a plain event loop that does the same.

The grid is flooding over a tree, in this process, digest on, without subscribers: brokers times publications per
second. Both sides run the same traffic. The author's view stands beside one of its places, and a full trace beside two.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.bench.engine import hops_per_s, timed, traced_hops_per_s, uncollected
from analysis.bench.models import Setting, model
from analysis.bench.rows import REPEATS, Row, medians, row
from brokers.engine.model import Model

_LOOP = "the heapq loop"
_HOPS = "hops/s"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    repeats: int = REPEATS
    brokers: tuple[int, ...] = (8, 32, 100, 1000)
    per_s: tuple[float, ...] = (10.0, 100.0, 1_000.0, 10_000.0)
    hops: int = 60_000  # about as many in each place,
    seconds_least: float = 0.05  # but so long at least: what a run has to do once is not what is measured
    authors: tuple[int, float] = (32, 100.0)  # where the author's view is measured
    traced: tuple[tuple[int, float], ...] = ((32, 100.0), (1000, 1_000.0))  # where a full trace is
    traced_hops: int = 3_000_000


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    yield from grid(Sizes())
    yield from authors_view(Sizes())
    yield from traced(Sizes())


def grid(sizes: Sizes) -> Iterator[Row]:
    """The engine as it is, at each place."""
    for brokers in sizes.brokers:
        for per_s in sizes.per_s:
            yield _beside(sizes, _place(sizes, brokers, per_s), _named(brokers, per_s), 3.0)


def authors_view(sizes: Sizes) -> Iterator[Row]:
    """Brokers as their author writes them, one message at a time."""
    brokers, per_s = sizes.authors
    setting = replace(_place(sizes, brokers, per_s), view="message")
    yield _beside(sizes, setting, f"{_named(brokers, per_s)}, through `on_message`", 0.3)


def traced(sizes: Sizes) -> Iterator[Row]:
    """A run with every hop on disk, beside the same without a trace; both whole, from model to result."""
    from brokers.engine.simulate import simulate

    for brokers, per_s in sizes.traced:
        setting = _place(replace(sizes, hops=sizes.traced_hops), brokers, per_s)
        built = model(setting)

        def bare(built: Model = built) -> float:
            return timed(lambda: int(simulate(built).metrics["network"]["events"]))

        with tempfile.TemporaryDirectory(prefix="brokerlab-bench-") as folder:
            speed, baseline = medians([traced_hops_per_s(setting, Path(folder)), bare], min(3, sizes.repeats))
        name = f"{_named(brokers, per_s)}, full trace on disk"
        yield row(name, speed, _HOPS, baseline=baseline, ratio_least=0.5, against="the same without a trace")


def _place(sizes: Sizes, brokers: int, per_s: float) -> Setting:
    seconds = max(sizes.seconds_least, sizes.hops / (brokers * per_s))
    return Setting(brokers=brokers, publications_per_s=per_s, seconds=seconds)


def _named(brokers: int, per_s: float) -> str:
    return f"{brokers:,} brokers, {per_s:,.0f} publications/s"


def _beside(sizes: Sizes, setting: Setting, name: str, ratio_least: float) -> Row:
    from analysis.bench.baselines import heap_loop, problem

    plain = problem(model(setting))
    speed, loop = medians(
        [hops_per_s(setting), lambda: uncollected(lambda: heap_loop(plain)[0])], sizes.repeats
    )
    return row(name, speed, _HOPS, baseline=loop, ratio_least=ratio_least, against=_LOOP)
