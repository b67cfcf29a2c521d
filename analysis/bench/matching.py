"""The group `matching`: every content index on the same workloads, beside the early-exit scan of the same run.

Rules:
- A figure is the median over single `match` calls from Python, in microseconds per event, compiled before. It
  holds by how many times faster it is than the scan; the microseconds it names are those of one machine.
- Index and scan take turns of some events each, so that a busy neighbour meets both. Not event by event: a
  scan empties the caches, and the index would pay for it. For the same reason a turn begins with some calls
  that are not measured.
- A call took the wall time or the CPU time of its thread, whichever is less: on a busy machine another process
  has the core in between, and long calls would meet that more often than short ones.
- The constraints themselves are an id, and 2 bytes of attribute and two ends per range.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from analysis.bench.rows import Row, medians, number, row
from analysis.bench.subscriptions import P1, WORKLOADS, Floats, Workload
from brokers.indexes.content.contract import ContentIndex
from brokers.indexes.registry import INDEXES
from brokers.registry import load

BASELINE = "quick_scan"
DEFAULT, HTREE = "cells", "htree"
RIVALS = ("scan", "counting", "tama", "rein")


class Demand(NamedTuple):
    """What an index has to reach on a workload."""

    faster: float  # times the scan
    us: float | None = None  # the same on a machine like that of docs/matching.md


DEMANDS = {
    DEFAULT: {
        "P1": Demand(80, 80), "P2": Demand(48, 170), "P3": Demand(150, 50), "P4": Demand(43, 260),
        "P6": Demand(80, 80), "P7": Demand(500, 15), "P8": Demand(600, 15),
    },
    HTREE: {
        "P1": Demand(4.4, 1500), "P2": Demand(2.3, 3500), "P3": Demand(5, 1500), "P4": Demand(1 / 1.25),
        "P7": Demand(190, 40), "P8": Demand(230, 40),
    },
}  # fmt: skip
P95_MOST = {(DEFAULT, name): 2.0 for name in WORKLOADS if name != "P4"} | {(HTREE, "P7"): 5.0}
BATCH_LEAST = {"P7": 1.5, "P8": 1.5}
BATCH_LEAST_ELSE = 0.95  # never slower; equal times differ by some percent


class Changes(NamedTuple):
    """What single changes may cost, in those of the scan (its median), and memory beyond the constraints, in MB."""

    insert: float
    insert_p99: float | None
    delete: float
    pause: float | None
    memory: float


CHANGES = {DEFAULT: Changes(1.2, 3.6, 0.45, 600, 200), HTREE: Changes(0.5, None, 0.65, None, 100)}
_SCANS = "the scan's"
CHURNED_MOST = 1.3
UNMEASURED = 8  # calls at the begin of a turn, with the events before it


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    subscriptions: int = 1_000_000
    events: int = 200
    turns: int = 5
    events_slow: int = 20  # of the rivals
    batch: int = 256
    inserts: int = 20_000
    churn: int = 300_000


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    sizes = Sizes()
    for name, workload in WORKLOADS.items():
        yield from matches(name, workload, sizes)
    yield from changes(P1, sizes)


def matches(name: str, workload: Workload, sizes: Sizes) -> Iterator[Row]:
    """Matching on one workload: the scan, the rivals, the default and the H-Tree."""
    subscriptions = workload.rows(sizes.subscriptions)
    events, batch = workload.events(sizes.events), workload.events(sizes.batch)
    scan = build_of(BASELINE, workload, subscriptions)
    for label in (*RIVALS, HTREE, DEFAULT):
        index = build_of(label, workload, subscriptions)
        asked = events[: sizes.events_slow] if label in RIVALS else events
        us, scan_us = in_turns(index, scan, asked, sizes.turns)
        median, scan_median = float(np.median(us)), float(np.median(scan_us))
        demand = DEMANDS.get(label, {}).get(name)
        yield faster(f"{name} {label}: match", median, scan_median, demand)
        if label not in RIVALS:
            p95 = float(np.percentile(us, 95))
            most = P95_MOST.get((label, name))
            yield at_most(f"{name} {label}: match, p95", p95, median, most, "its median")
            yield from batches(f"{name} {label}", index, batch, BATCH_LEAST.get(name, BATCH_LEAST_ELSE))
        if label in DEMANDS and workload is P1:
            yield memory(f"{name} {label}", index, workload, CHANGES[label].memory)
        del index
    yield row(f"{name} {BASELINE}: match", scan_median, "µs")


def build_of(name: str, workload: Workload, rows: Floats) -> ContentIndex:
    """A registered index that holds these rows under 0, 1, 2, …"""
    index: ContentIndex = load(INDEXES[name].target).build(workload.attributes, np.arange(len(rows)), rows)
    return index


def batches(label: str, index: ContentIndex, events: Floats, faster_least: float) -> Iterator[Row]:
    """One `match_many` beside as many single calls."""

    def batched() -> float:
        return call_us(index.match_many, events) / len(events)

    def singly() -> float:
        return float(sum(match_us(index, events)) / len(events))

    many, single = medians([batched, singly])
    demand = Demand(faster_least)
    yield faster(f"{label}: match_many of {len(events)}, per event", many, single, demand, "single calls")


def memory(label: str, index: ContentIndex, workload: Workload, most_mb: float) -> Row:
    """What an index needs beyond the constraints."""
    constraints = len(index) * (8 + 18 * workload.ranges)
    beyond = (index.memory_bytes() - constraints) / 1e6
    return row(f"{label}: memory beyond the constraints", beyond, "MB", most=most_mb, baseline=constraints / 1e6)


# ---- single changes ----------------------------------------------------------------------------------


def changes(workload: Workload, sizes: Sizes) -> Iterator[Row]:
    """Inserts and deletes one by one into a full index, and its speed after many of them."""
    held = workload.rows(sizes.subscriptions)
    coming = workload.rows(sizes.inserts + sizes.churn, seed=2)
    plain = build_of(BASELINE, workload, held)
    plain_times = live(plain, len(held), coming[: sizes.inserts], sizes.inserts, 0)
    del plain
    for label, most in CHANGES.items():
        few = held[: len(held) // 100]  # compiles whatever changes need
        live(build_of(label, workload, few), len(few), coming, sizes.inserts // 100, sizes.churn // 100)
        index = build_of(label, workload, held)
        times = live(index, len(held), coming, sizes.inserts, sizes.churn)
        insert, delete = (float(np.median(part)) for part in (times.insert_us, times.delete_us))
        plain_insert, plain_delete = (
            float(np.median(part)) for part in (plain_times.insert_us, plain_times.delete_us)
        )
        p99 = float(np.percentile(times.insert_us, 99))
        yield at_most(f"{label}: insert", insert, plain_insert, most.insert, _SCANS)
        yield at_most(f"{label}: insert, p99", p99, plain_insert, most.insert_p99, _SCANS)
        yield at_most(f"{label}: delete", delete, plain_delete, most.delete, _SCANS)
        pause = float(max(times.insert_us.max(), times.delete_us.max()))
        yield at_most(f"{label}: longest pause of a change", pause, plain_insert, most.pause, _SCANS)
        ids = np.sort(times.held)
        fresh = type(index).build(workload.attributes, ids, index.rows(ids))
        churned_us, fresh_us = in_turns(index, fresh, workload.events(sizes.events), sizes.turns, alike=True)
        name = f"{label}: match after {sizes.churn:,} deletes and inserts"
        churned, as_new = float(np.median(churned_us)), float(np.median(fresh_us))
        yield at_most(name, churned, as_new, CHURNED_MOST, "a fresh one")
        del index, fresh


class Life(NamedTuple):
    """How long single changes took, and who was held after them."""

    insert_us: Floats
    delete_us: Floats
    held: np.ndarray


def live(index: ContentIndex, count: int, coming: Floats, growth: int, churn: int) -> Life:
    """To an index that holds 0..count-1: `growth` inserts, as many deletes, then `churn` of both in turns."""
    rng = np.random.Generator(np.random.PCG64(3))
    ids = np.arange(count + len(coming))
    places = np.arange(count)  # who is held where, for drawing one
    insert_us, delete_us = np.empty(growth + churn), np.empty(growth + churn)
    index.match(np.zeros(index.attributes))
    gc.collect()
    for i in range(growth):
        insert_us[i] = call_us(index.insert, ids[count + i : count + i + 1], coming[i : i + 1])
    for i in range(growth):
        delete_us[i] = call_us(index.delete, ids[count + i : count + i + 1])
    for i, place in enumerate(rng.integers(0, count, churn), growth):
        delete_us[i] = call_us(index.delete, places[place : place + 1])
        places[place] = count + i
        insert_us[i] = call_us(index.insert, places[place : place + 1], coming[i : i + 1])
    return Life(insert_us, delete_us, places)


# ---- measuring and judging ---------------------------------------------------------------------------


def in_turns(
    index: ContentIndex, other: ContentIndex, events: Floats, turns: int, alike: bool = False
) -> tuple[list[float], list[float]]:
    """Microseconds of each match of both. The other gets a quarter of the events, or `alike` all of them."""
    us: list[float] = []
    other_us: list[float] = []
    for part in np.array_split(np.arange(len(events)), turns):
        before = events[(part[0] + np.arange(-UNMEASURED, 0)) % len(events)]
        for one, spent, asked in (
            (index, us, part), (other, other_us, part if alike else part[: max(1, len(part) // 4)]),
        ):
            match_us(one, before)
            spent += match_us(one, events[asked])
    return us, other_us


def match_us(index: ContentIndex, events: Floats) -> list[float]:
    """Microseconds of each single match."""
    return [call_us(index.match, event) for event in events]


def call_us(call: Callable[..., object], *arguments: object) -> float:
    """Microseconds of one call, without what other processes did meanwhile."""
    cpu = time.thread_time_ns()
    wall = time.perf_counter_ns()
    call(*arguments)
    wall = time.perf_counter_ns() - wall
    cpu = time.thread_time_ns() - cpu
    return min(wall, cpu) / 1e3


def faster(name: str, us: float, baseline: float, demand: Demand | None, against: str = "the scan") -> Row:
    """A time that has to be shorter than its baseline by a factor; the row's ratio is the time's share."""
    found = row(name, us, "µs", baseline=baseline)
    if demand is not None:
        if demand.faster < 1:
            target = f"at most {number(1 / demand.faster)} times {against}"
        else:
            target = f"at least {number(demand.faster)} times faster than {against}"
        if demand.us is not None:
            target += f" ({number(demand.us)} µs on the machine of docs/matching.md)"
        found["target"], found["holds"] = target, baseline / us >= demand.faster
    return found


def at_most(name: str, us: float, baseline: float, times: float | None, against: str) -> Row:
    """A time that may be so many times its baseline at most."""
    found = row(name, us, "µs", baseline=baseline)
    if times is not None:
        found["target"] = f"at most {number(times)} times {against}"
        found["holds"] = us / baseline <= times
    return found
