"""The group `network`: what several threads of one process gain, and how fast networks of all kinds are.

Threads stand beside one core over the same run, also where networks are thin and `auto` takes one core.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from analysis.bench.models import SCAN, Setting, model
from analysis.bench.rows import REPEATS, Row, medians, row

_HOPS = "hops/s"
_ONE = "one core"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    repeats: int = REPEATS
    dense: Setting = field(default=Setting(brokers=1000, publications_per_s=10_000.0, seconds=0.6))
    matching: Setting = field(default=Setting(
        brokers=32, publications_per_s=500.0, seconds=1.0, subscriptions=80_000, constraints=8, attributes=8,
        width=0.6, index=SCAN,
    ))  # fmt: skip
    empty: Setting = field(default=Setting(brokers=2, publications_per_s=5_000.0, seconds=1.0))
    thin: tuple[tuple[int, float, float], ...] = ((8, 100.0, 60.0), (32, 100.0, 40.0), (1000, 10.0, 10.0))


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    yield from threads(Sizes())


def threads(sizes: Sizes) -> Iterator[Row]:
    """Two threads against one core."""
    yield row("a window with one event or none, two threads", _window_us(sizes.empty, sizes.repeats), "µs", most=10.0)
    for name, setting, least in (
        ("dense flooding", sizes.dense, 1.6),
        ("flooding where matching is what costs", sizes.matching, 1.8),
    ):
        built = model(setting)
        two, one = medians([_speed(built, "threads", 2), _speed(built, "inline", 1)], sizes.repeats)
        yield row(f"two threads, {name}", two, _HOPS, baseline=one, ratio_least=least, against=_ONE)
    for brokers, per_s, seconds in sizes.thin:
        built = model(Setting(brokers=brokers, publications_per_s=per_s, seconds=seconds))
        two, one = medians([_speed(built, "threads", 2), _speed(built, "inline", 1)], sizes.repeats)
        yield row(f"two threads, flooding, {brokers:,} brokers, {per_s:,.0f} publications/s", two, _HOPS, baseline=one)


def _speed(built: Any, engine: str, actors: int) -> Callable[[], float]:
    from brokers.engine.simulate import simulate

    return lambda: float(simulate(built, engine=engine, actors=actors).metrics["run"]["events_per_s"])


def _window_us(setting: Setting, repeats: int) -> float:
    """Microseconds of a window between two threads in which next to nothing happens, event included."""
    from brokers.engine.simulate import simulate

    built = model(setting)
    built = replace(built, overlay=replace(built.overlay, delay_ns=built.overlay.delay_ns * 0 + 10_000))
    found, windows = [], [0]

    def count(shards: Any) -> None:
        windows[0] = shards.windows

    for _ in range(repeats + 1):
        done = simulate(built, engine="threads", actors=2, observe=count)
        found.append(1e6 * done.metrics["run"]["loop_wall_s"] / windows[0])
    return statistics.median(found[1:])
