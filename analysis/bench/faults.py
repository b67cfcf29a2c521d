"""The group `faults`: what a run costs in which something fails, beside the same run without.

An empty schedule has to cost nothing. Where links are cut and brokers crash all the time, each message is looked up in
tables of stretches, so a hop costs more; hops that are not made for it do not count.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from analysis.bench.models import Setting, model
from analysis.bench.rows import REPEATS, Row, medians, row

_HOPS = "hops/s"
_WITHOUT = "the same without"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    repeats: int = REPEATS
    dense: Setting = field(default=Setting(brokers=1000, publications_per_s=10_000.0, seconds=0.6))
    cuts_per_s: float = 100.0
    crashes_per_s: float = 10.0
    lasts_ns: int = 100_000_000  # on average


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    yield from of(Sizes())


def of(sizes: Sizes) -> Iterator[Row]:
    """Schedules that are empty, full of cuts and crashes, and of worn links."""
    from brokers.faults import Schedule

    plain = model(sizes.dense)
    failing = replace(plain, faults=Schedule(tuple(_drawn(plain, sizes))))
    count = f"{sizes.cuts_per_s:g} cuts and {sizes.crashes_per_s:g} crashes per simulated second"
    cases = [
        ("an empty schedule", replace(plain, faults=Schedule((), detect_ns=1_000_000)), 0.97),
        (count, failing, 0.7),
        ("all links worn: bursts of losses, one message in a hundred twice", _worn(plain), None),
    ]
    speeds = medians([_speed(plain), *(_speed(each) for _, each, _ in cases)], sizes.repeats)
    for (name, _, least), speed in zip(cases, speeds[1:]):
        yield row(f"dense flooding, {name}", speed, _HOPS, baseline=speeds[0], ratio_least=least, against=_WITHOUT)
    lossy, bursts = _lossy(plain, False), _lossy(plain, True)
    one_by_one, in_bursts = medians([_speed(lossy), _speed(bursts)], sizes.repeats)
    yield row("dense flooding, links that lose 2 % in bursts", in_bursts, _HOPS, baseline=one_by_one,
              against="losses one by one")  # fmt: skip


def _speed(built: Any) -> Callable[[], float]:
    from brokers.engine.simulate import simulate

    return lambda: float(simulate(built).metrics["run"]["events_per_s"])


def _drawn(built: Any, sizes: Sizes) -> Iterator[Any]:
    """What fails at random, as the fault `random` draws it."""
    from brokers.faults import FaultContext
    from scenarios.faults.drawn import RandomOf

    for entry, (what, rate) in enumerate((("cut", sizes.cuts_per_s), ("crash", sizes.crashes_per_s))):
        context = FaultContext(built.seed, entry, built.overlay, built.duration_ns)
        yield from RandomOf({"what": what, "rate": rate, "lasts": sizes.lasts_ns}, context).schedule()


def _worn(built: Any) -> Any:
    from brokers.faults import NEVER, Schedule, Worn

    worn = [
        Worn(link, 0, NEVER, twice=0.01, begins=0.005, ends=0.25, bad=1.0) for link in range(2 * built.overlay.links)
    ]
    return replace(built, faults=Schedule(tuple(worn)))


def _lossy(built: Any, bursts: bool) -> Any:
    """Every link loses one message in fifty."""
    links = built.overlay.links
    said = np.tile([0.25 * 0.02 / 0.98, 0.25, 0.0, 1.0], (links, 1)) if bursts else None
    return replace(built, overlay=replace(built.overlay, loss=np.full(links, 0.02), bursts=said))
