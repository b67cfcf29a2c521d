"""The group `topk`: every top-k index on the same filters, beside the compiled scan of the same run.

Rules are those of the group `matching`: medians over single `match` calls from Python, index and scan in
turns, the wall time or the CPU time of the thread, whichever is less. Some answers are compared with the scan's
before any is timed.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from analysis.bench import topk_views
from analysis.bench.filters import WEIGHTS, filters, messages
from analysis.bench.matching import Demand, call_us, faster
from analysis.bench.rows import Row, row
from analysis.bench.subscriptions import Workload
from brokers.indexes.registry import INDEXES
from brokers.indexes.topk.contract import Query, RankedIndex, RankedMessage
from brokers.registry import load

FAST, PAPER, BASELINE = "topk-sliced", "topk-trees", "topk-quick"
RIVALS = ("topk-scan", "topk-fagin")
FILTERS = Workload(attributes=20, ranges=5, width=0.1)
WIDER = {"ten constraints of 0.2": 0.2, "ten constraints of 0.5": 0.5}
KS = (10, 100)

RECEIVER, SENDER = Demand(23, 1300), Demand(13.6, 2200)
RECEIVER_SMALL, SENDER_SMALL = Demand(10, 300), Demand(6.7, 450)
TREES = Demand(2, 15_000)
INSERT_MOST, DELETE_MOST = 4, 8  # times the scan's, which keeps filters in a list


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    filters: int = 1_000_000
    filters_small: int = 100_000
    messages: int = 40
    messages_slow: int = 8  # of the scan and the rivals
    turns: int = 4
    churn: int = 100_000  # deletes and inserts, one by one
    batch: int = 100_000  # filters per call when an index is filled
    networks: topk_views.Sizes = field(default_factory=topk_views.Sizes)


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    sizes = Sizes()
    yield from weights_of_all_kinds(sizes)
    yield from smaller(sizes)
    yield from more_constraints(sizes)
    yield from rivals(sizes)
    yield from changes(sizes)
    yield from topk_views.rows(sizes.networks)


def filled(name: str, workload: Workload, count: int, sizes: Sizes, weights: str = "uniform") -> RankedIndex:
    """An index that holds `count` filters of a workload."""
    index: RankedIndex = load(INDEXES[name].target)(workload.attributes)
    given = filters(workload, count, weights)
    for start in range(0, count, sizes.batch):
        part = np.arange(start, min(start + sizes.batch, count))
        index.insert(part, given[part])
    return index


def weights_of_all_kinds(sizes: Sizes) -> Iterator[Row]:
    """The fast index at full size: weights of the receivers, then of the sender."""
    for weights in WEIGHTS:
        fast, scan = (filled(name, FILTERS, sizes.filters, sizes, weights) for name in (FAST, BASELINE))
        asked = messages(FILTERS, sizes.messages)
        for k in KS:
            label = f"{sizes.filters:,} filters, {weights} weights, k = {k}: {FAST}"
            yield timed(label, fast, scan, asked, Query(k), sizes, RECEIVER)
        if weights == "uniform":
            for sent in WEIGHTS:
                asked = messages(FILTERS, sizes.messages, sent)
                for k in KS:
                    label = f"{sizes.filters:,} filters, {sent} weights of the sender, k = {k}: {FAST}"
                    yield timed(label, fast, scan, asked, Query(k), sizes, SENDER)
            asked = messages(FILTERS, sizes.messages, width=0.05)
            yield timed(f"interval messages of 0.05, k = 10: {FAST}", fast, scan, asked, Query(10), sizes)
            everyone = Query(10, ties="all", unit="receiver", prorate=True)
            label = f"the same, prorated, all ties, by receiver: {FAST}"
            yield timed(label, fast, scan, asked, everyone, sizes)
            yield row(f"{sizes.filters:,} filters: {FAST}, memory", fast.memory_bytes() / 1e6, "MB",
                      baseline=scan.memory_bytes() / 1e6)
        del fast, scan


def smaller(sizes: Sizes) -> Iterator[Row]:
    """The fast index with fewer filters."""
    fast, scan = (filled(name, FILTERS, sizes.filters_small, sizes) for name in (FAST, BASELINE))
    for sent, demand in ((None, RECEIVER_SMALL), ("uniform", SENDER_SMALL)):
        asked = messages(FILTERS, sizes.messages, sent)
        whose = "weights" if sent is None else "weights of the sender"
        for k in KS:
            label = f"{sizes.filters_small:,} filters, uniform {whose}, k = {k}: {FAST}"
            yield timed(label, fast, scan, asked, Query(k), sizes, demand)


def more_constraints(sizes: Sizes) -> Iterator[Row]:
    """Filters that match in more of their constraints."""
    for name, width in WIDER.items():
        workload = Workload(attributes=20, ranges=10, width=width)
        fast, scan = (filled(index, workload, sizes.filters, sizes) for index in (FAST, BASELINE))
        for sent in (None, "uniform"):
            asked = messages(workload, sizes.messages, sent)
            whose = "" if sent is None else ", weights of the sender"
            for k in KS:
                yield timed(f"{name}{whose}, k = {k}: {FAST}", fast, scan, asked, Query(k), sizes)
        del fast, scan


def rivals(sizes: Sizes) -> Iterator[Row]:
    """NumPy, and the threshold algorithm."""
    scan = filled(BASELINE, FILTERS, sizes.filters, sizes)
    for name in RIVALS:
        index = filled(name, FILTERS, sizes.filters, sizes)
        for sent in (None, "uniform"):
            asked = messages(FILTERS, sizes.messages_slow, sent)
            whose = "uniform weights" if sent is None else "weights of the sender"
            label = f"{sizes.filters:,} filters, {whose}, k = 10: {name}"
            yield timed(label, index, scan, asked, Query(10), sizes)
        del index


def changes(sizes: Sizes) -> Iterator[Row]:
    """The paper's structure and the fast one, fresh and after churn; single inserts and deletes."""
    scan = filled(BASELINE, FILTERS, sizes.filters, sizes)
    coming = filters(FILTERS, sizes.churn, seed=2)
    asked = messages(FILTERS, sizes.messages_slow)
    sent = messages(FILTERS, sizes.messages_slow, "uniform")
    indexes = {name: filled(name, FILTERS, sizes.filters, sizes) for name in (PAPER, FAST)}
    whole = f"{sizes.filters:,} filters"
    for k in KS:
        label = f"{whole}, uniform weights, k = {k}: {PAPER}"
        yield timed(label, indexes[PAPER], scan, asked, Query(k), sizes, TREES)
    label = f"{whole}, weights of the sender, k = 10: {PAPER}"
    yield timed(label, indexes[PAPER], scan, sent, Query(10), sizes, TREES)
    plain_insert, plain_delete = (float(np.median(us)) for us in churned(scan, coming, sizes))
    for (name, index), demand in zip(indexes.items(), (TREES, RECEIVER)):
        insert_us, delete_us = churned(index, coming, sizes)
        label = f"{whole}: {name}"
        yield row(f"{label}, insert", float(np.median(insert_us)), "µs", baseline=plain_insert,
                  ratio_most=INSERT_MOST, against="the scan's")
        yield row(f"{label}, delete", float(np.median(delete_us)), "µs", baseline=plain_delete,
                  ratio_most=DELETE_MOST, against="the scan's")
        yield row(f"{label}, mean of insert and delete, growth and sorting included",
                  float(np.mean(insert_us) + np.mean(delete_us)), "µs")
        after = f"{whole}, after {sizes.churn:,} deletes and inserts, k = 10: {name}"
        yield timed(after, index, scan, asked, Query(10), sizes, demand)


def churned(index: RankedIndex, coming: np.ndarray, sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    """Replace filters one by one, drawn the same for every index; µs of each insert and delete."""
    rng = np.random.Generator(np.random.PCG64(3))
    places = np.arange(len(index))
    drawn = rng.integers(0, len(places), len(coming))
    insert_us, delete_us = np.empty(len(coming)), np.empty(len(coming))
    gc.collect()
    for i, place in enumerate(drawn.tolist()):
        delete_us[i] = call_us(index.delete, places[place : place + 1])
        places[place] = sizes.filters + i
        insert_us[i] = call_us(index.insert, places[place : place + 1], coming[i : i + 1])
    return insert_us, delete_us


def timed(
    name: str, index: RankedIndex, scan: RankedIndex, asked: Sequence[RankedMessage], query: Query, sizes: Sizes,
    demand: Demand | None = None,
) -> Row:
    """Microseconds per match beside the scan, in turns."""
    for one in asked[:2]:
        found, expected = index.match(one, query), scan.match(one, query)
        if not (np.array_equal(found.ids, expected.ids) and np.array_equal(found.scores, expected.scores)):
            raise AssertionError(f"{name}: the answer differs from the scan's")
    us: list[float] = []
    scan_us: list[float] = []
    slow = max(1, sizes.messages_slow // sizes.turns)
    for turn in range(sizes.turns):
        us += [call_us(index.match, one, query) for one in asked[turn :: sizes.turns]]
        scan_us += [call_us(scan.match, one, query) for one in asked[turn :: sizes.turns][:slow]]
    return faster(name, float(np.median(us)), float(np.median(scan_us)), demand)
