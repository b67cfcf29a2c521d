"""The group `hard`: data on which an index has nothing to gain, beside the scan of the same run.

Rules are those of the group `matching`: index and scan in turns, the wall time or the CPU time of the thread,
whichever is less, compiled before. Some answers are compared with the scan's before any is timed. An index may
look at its own work and change its ways, so it gets some events first that are not timed; the scan gets as many.

Drift is measured at constant size: one by one the oldest subscription goes and a newer one comes. At several
moments the index is compared with a fresh one of the same subscriptions; the worst moment counts. Of the changes the
median, what one in a thousand exceeds, the longest, and how many took more than a pause that is allowed are given, in
CPU time of the thread, beside a sum over an array after each of them: the machine itself stalls now and then.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from analysis.bench.hard_cases import DRIFTS, MATCHING, TOP_K, Drift, Hard, HardFilters
from analysis.bench.matching import BASELINE, DEFAULT, HTREE, at_most, call_us, in_turns
from analysis.bench.rows import Row, row
from analysis.bench.subscriptions import Floats
from analysis.bench.topk import BASELINE as TOP_K_BASELINE
from analysis.bench.topk import FAST as TOP_K_FAST
from brokers.indexes.content.contract import ContentIndex
from brokers.indexes.registry import INDEXES
from brokers.indexes.topk.contract import RankedIndex
from brokers.registry import load

INDEXED = (DEFAULT, HTREE)
SCAN_MOST = 1.15  # times the scan's time
FRESH_MOST = 1.5  # times that of a fresh index
PAUSE_US_MOST = 1000.0
IDLE_NUMBERS = 20_000  # summed up after each change
_SCANS, _FRESH = "the scan's", "a fresh one's"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    held: int = 20_000
    events: int = 60  # timed one by one
    unmeasured: int = 50  # before them
    batch: int = 64
    turns: int = 3
    drift_events: int = 120
    drift_moments: int = 6
    drifted: float = 2.5  # replacements of the table
    drifts: tuple[str, ...] = tuple(DRIFTS)


SMALL = Sizes()
LARGE = Sizes(held=1_000_000, events=12, unmeasured=30, batch=8, turns=2, drifted=0.3, drift_moments=3,
              drifts=("prices", "time stamps", "attributes that are constrained"))


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    for sizes in (SMALL, LARGE):
        for name, case in MATCHING.items():
            yield from matches(name, case, sizes)
        for name, filters in TOP_K.items():
            yield from ranks(name, filters, sizes)
        for name in sizes.drifts:
            yield from drifts(name, DRIFTS[name], sizes)


def matches(name: str, case: Hard, sizes: Sizes) -> Iterator[Row]:
    """One case of matching: single calls and a batch, of each index beside the scan."""
    rng = np.random.Generator(np.random.PCG64(1))
    held = min(sizes.held, case.count_most)
    subscriptions, events = case.rows(rng, held), case.events(rng, max(sizes.events, sizes.batch))
    scan = _built(BASELINE, case.attributes, np.arange(held), subscriptions)
    for label in INDEXED:
        index = _built(label, case.attributes, np.arange(held), subscriptions)
        _alike(f"{name} {label}", index, scan, events[:3])
        for turn in range(sizes.unmeasured):
            index.match(events[turn % len(events)])
        us, scan_us = in_turns(index, scan, events[: sizes.events], sizes.turns, alike=True)
        whole = f"{held:,}, {name}: {label}"
        yield at_most(whole, float(np.mean(us)), float(np.mean(scan_us)), SCAN_MOST, _SCANS)
        many, scan_many = _batches(index, scan, events[: sizes.batch], sizes.turns)
        yield at_most(f"{whole}, match_many", many, scan_many, SCAN_MOST, _SCANS)
        del index


def ranks(name: str, case: HardFilters, sizes: Sizes) -> Iterator[Row]:
    """One case of the weighted top-k beside its scan."""
    rng = np.random.Generator(np.random.PCG64(1))
    given, asked = case.rows(rng, sizes.held), case.asked(sizes.events)
    ids = np.arange(sizes.held)
    fast, scan = (_ranked(label, case, ids, given) for label in (TOP_K_FAST, TOP_K_BASELINE))
    for one in asked[:3]:
        found, expected = fast.match(one, case.query), scan.match(one, case.query)
        if not (np.array_equal(found.ids, expected.ids) and np.array_equal(found.scores, expected.scores)):
            raise AssertionError(f"{name}: the answer differs from the scan's")
    for turn in range(sizes.unmeasured):
        fast.match(asked[turn % len(asked)], case.query)
    us: list[float] = []
    scan_us: list[float] = []
    for turn in range(sizes.turns):
        us += [call_us(fast.match, one, case.query) for one in asked[turn :: sizes.turns]]
        scan_us += [call_us(scan.match, one, case.query) for one in asked[turn :: sizes.turns]]
    whole = f"{sizes.held:,}, {name}: {TOP_K_FAST}"
    yield at_most(whole, float(np.mean(us)), float(np.mean(scan_us)), SCAN_MOST, _SCANS)


def drifts(name: str, drift: Drift, sizes: Sizes) -> Iterator[Row]:
    """Values that move on, at constant size."""
    for label in INDEXED:
        rng = np.random.Generator(np.random.PCG64(1))
        held, moments = sizes.held, sizes.drift_moments
        born = np.arange(-held, int(sizes.drifted * held)) / held
        coming = drift.rows(rng, born)
        few = held // 10  # compiles whatever changes need
        index = _built(label, drift.attributes, np.arange(few), coming[:few])
        for one in range(few, 2 * few):
            _replaced(index, one, few, coming)
        index = _built(label, drift.attributes, np.arange(held), coming[:held])
        gc.collect()
        spent: list[tuple[float, float]] = []
        worst, at, numbers = (0.0, 0.0, 1.0), held, rng.random(IDLE_NUMBERS)
        for moment in range(1, moments + 1):
            until = held + int(sizes.drifted * held * moment / moments)
            for one in range(at, until):
                spent.append((_replaced(index, one, held, coming), _thread_us(numbers.sum)))
            at = until
            found = _beside_fresh(label, drift, index, at, coming, rng, sizes)
            worst = max(worst, (found[0] / found[1], *found))
        whole = f"{held:,}, drift of {name}: {label}"
        yield at_most(f"{whole}, at the worst of {moments} moments", worst[1], worst[2], FRESH_MOST, _FRESH)
        yield from pauses(whole, np.array(spent), held >= LARGE.held)


def pauses(whole: str, spent: Floats, judged: bool) -> Iterator[Row]:
    """How long changes took, float64[changes, 2] with that of a sum of numbers beside."""
    middle, late, longest = (np.quantile(spent, share, axis=0).tolist() for share in (0.5, 0.999, 1.0))
    yield row(f"{whole}, change, median", middle[0], "µs", baseline=middle[1])
    yield row(f"{whole}, change, one in a thousand is longer", late[0], "µs", baseline=late[1],
              most=PAUSE_US_MOST if judged else None)
    yield row(f"{whole}, longest change", longest[0], "µs", baseline=longest[1], most=PAUSE_US_MOST if judged else None)
    above = (spent > PAUSE_US_MOST).mean(axis=0).tolist()
    yield row(f"{whole}, changes above 1 ms, in a million", 1e6 * above[0], "", baseline=1e6 * above[1])


def _replaced(index: ContentIndex, one: int, held: int, coming: Floats) -> float:
    """One subscription for the oldest; µs of the longer of both changes."""
    gone = _thread_us(index.delete, np.array([one - held]))
    return max(gone, _thread_us(index.insert, np.array([one]), coming[one : one + 1]))


def _thread_us(call: Callable[..., object], *arguments: object) -> float:
    """Microseconds that one call kept this thread busy."""
    begin = time.thread_time_ns()
    call(*arguments)
    return (time.thread_time_ns() - begin) / 1e3


def _beside_fresh(
    label: str, drift: Drift, index: ContentIndex, at: int, coming: Floats, rng: np.random.Generator, sizes: Sizes
) -> tuple[float, float]:
    """µs of a match, and of one by a fresh index of the same."""
    ids = np.arange(at - sizes.held, at)
    fresh = _built(label, drift.attributes, ids, coming[ids])
    events = drift.events(rng, (at - sizes.held) / sizes.held, sizes.drift_events)
    _alike(label, index, fresh, events[:3])
    us, fresh_us = in_turns(index, fresh, events, sizes.turns, alike=True)
    return float(np.median(us)), float(np.median(fresh_us))


def _built(label: str, attributes: int, ids: np.ndarray, subscriptions: Floats) -> ContentIndex:
    index: ContentIndex = load(INDEXES[label].target).build(attributes, ids, subscriptions)
    return index


def _ranked(label: str, case: HardFilters, ids: np.ndarray, given: Floats) -> RankedIndex:
    index: RankedIndex = load(INDEXES[label].target)(case.workload.attributes)
    receivers = np.zeros_like(ids) if case.one_receiver else None
    index.insert(ids, given, receivers)
    return index


def _alike(name: str, index: ContentIndex, other: ContentIndex, events: Floats) -> None:
    found, expected = index.match_many(events), other.match_many(events)
    if not all(np.array_equal(one, two) for one, two in zip(found, expected)):
        raise AssertionError(f"{name}: the answer differs from the scan's")


def _batches(index: ContentIndex, scan: ContentIndex, events: Floats, turns: int) -> tuple[float, float]:
    """µs per event of one `match_many`, by both, in turns: the means."""
    spent = [[call_us(one.match_many, events) / len(events) for one in (index, scan)] for _ in range(turns + 1)]
    us, scan_us = np.mean(spent[1:], axis=0).tolist()
    return us, scan_us
