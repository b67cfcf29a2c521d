"""Rows of the group `routing`: indexes of topic filters beside the scan of the same run.

Times are CPU times of the thread or wall times, whichever is less, medians over calls in turns; before any is timed,
the answers are compared with the scan's. A batch is as large as tables ask (`brokers.tables`).

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.bench.matching import at_most, call_us
from analysis.bench.rows import Row, row
from analysis.bench.topic_cases import HARD, LITERAL, MANY_ANSWERS, TENTH, HardTopics, Rows, Tree
from brokers.indexes.contract import Ids
from brokers.indexes.registry import INDEXES
from brokers.indexes.topics.contract import TopicIndex
from brokers.registry import load

FAST, RIVAL, BASELINE = "trie", "topic-skipping", "topic-scan"
LITERAL_LEAST, TENTH_LEAST = 1e6, 2e5  # names per second
SCAN_MOST = 1.15  # times the scan's time, of hard cases
FRESH_MOST = 1.3  # times a fresh index's time, after changes
SYNTAX = "mqtt"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    filters: int = 1_000_000
    smaller: tuple[int, ...] = (1_000, 10_000, 100_000)
    batch: int = 512
    batches: int = 40
    scanned: int = 8  # names of a batch that the scan and the answers' comparison get
    turns: int = 5
    changes: int = 20_000
    hard: tuple[int, ...] = (20_000, 1_000_000)
    hard_batch: int = 16


def rows(sizes: Sizes | None = None) -> Iterator[Row]:
    """Every row, as it is measured."""
    sizes = sizes or Sizes()
    for tree, what, least in (
        (LITERAL, "no wildcards", LITERAL_LEAST), (TENTH, "a tenth wildcards", TENTH_LEAST),
        (MANY_ANSWERS, "a tenth wildcards, many answers", None),
    ):  # fmt: skip
        yield from speeds(tree, what, sizes.filters, least, sizes)
    for count in sizes.smaller:
        yield from speeds(TENTH, "a tenth wildcards", count, None, sizes)
    yield from changes(sizes)
    for count in sizes.hard:
        for name, case in HARD.items():
            yield from hard(name, case, count, sizes)


def filled(name: str, ids: Ids, filters: Rows) -> TopicIndex:
    """An index with these filters."""
    index: TopicIndex = load(INDEXES[name].target)(SYNTAX)
    index.insert(ids, filters)
    return index


def alike(what: str, index: TopicIndex, scan: TopicIndex, names: Rows) -> None:
    """Raise AssertionError unless both answer the same."""
    for found, expected in zip(index.match_many(names), scan.match_many(names)):
        if not np.array_equal(found, expected):
            raise AssertionError(f"{what}: the answer differs from the scan's")


def medians_us(turns: int, *calls: tuple[TopicIndex, list[Rows]]) -> list[float]:
    """Microseconds per name of each index and its batches, in turns after one that is not measured."""
    spent: list[list[float]] = [[] for _ in calls]
    for turn in range(turns + 1):
        for of, (index, batches) in zip(spent, calls):
            us = [call_us(index.match_many, names) / len(names) for names in batches]
            of += us if turn else []
    return [statistics.median(of) for of in spent]


def speeds(tree: Tree, what: str, count: int, least: float | None, sizes: Sizes) -> Iterator[Row]:
    """Names per second in batches, and what is answered; the rival too."""
    rng = np.random.Generator(np.random.PCG64(1))
    filters = tree.filters(rng, count)
    names = tree.names(rng, sizes.batch * sizes.batches)
    literal = filters[(filters >= 0).any(axis=1) & ((filters >= 0) | (filters == -3)).all(axis=1)]
    names[::2] = rng.choice(literal, len(names[::2]))  # half are names that somebody asks for
    batches = np.array_split(names, sizes.batches)
    scanned = [batch[: sizes.scanned] for batch in batches[:3]]
    scan = filled(BASELINE, np.arange(count), filters)
    whole = f"{count:,} filters, {what}"
    for label in (FAST, RIVAL):
        index = filled(label, np.arange(count), filters)
        alike(f"{whole}: {label}", index, scan, scanned[0])
        us, scan_us = medians_us(sizes.turns, (index, batches), (scan, scanned))
        yield row(f"{whole}: {label}", 1e6 / us, "names/s", baseline=1e6 / scan_us,
                  least=least if label == FAST else None)
        if label == FAST:
            answers = sum(index.match_many(batch)[1].size for batch in batches)
            yield row(f"{whole}: answers of a name", answers / len(names), "")
            yield row(f"{whole}: {label}, memory", index.memory_bytes() / count, "bytes/filter",
                      baseline=scan.memory_bytes() / count)
        del index
        gc.collect()


def changes(sizes: Sizes) -> Iterator[Row]:
    """Single inserts and deletes at full size, then the same names as before, beside a fresh index."""
    rng = np.random.Generator(np.random.PCG64(2))
    count, half = sizes.filters, sizes.changes // 2
    filters, fresh = TENTH.filters(rng, count), TENTH.filters(rng, sizes.changes)
    batches = np.array_split(TENTH.names(rng, sizes.batch * sizes.batches), sizes.batches)
    for label in (FAST, RIVAL, BASELINE):
        index = filled(label, np.arange(count), filters)
        gone, come = rng.choice(count, sizes.changes, replace=False), count + np.arange(sizes.changes)
        spent: dict[str, list[float]] = {"insert": [], "delete": []}
        for i in range(sizes.changes):
            spent["delete"].append(call_us(index.delete, gone[i : i + 1]))
            spent["insert"].append(call_us(index.insert, come[i : i + 1], fresh[i : i + 1]))
        for change, us in spent.items():
            yield row(f"{count:,} filters: {label}, {change}", statistics.median(us[half:]), "µs")
            yield row(f"{count:,} filters: {label}, {change}, p99", float(np.quantile(us[half:], 0.99)), "µs")
        if label == FAST:
            ids, rows_ = _after(count, filters, gone, come, fresh)
            new = filled(label, ids, rows_)
            us_, new_us = medians_us(sizes.turns, (index, batches), (new, batches))
            yield at_most(f"{count:,} filters: {label}, a name after changes", us_, new_us, FRESH_MOST, "a fresh one's")


def _after(count: int, filters: Rows, gone: Ids, come: Ids, fresh: Rows) -> tuple[Ids, Rows]:
    kept = np.setdiff1d(np.arange(count), gone)
    return np.concatenate([kept, come]), np.concatenate([filters[kept], fresh])


def hard(name: str, case: HardTopics, count: int, sizes: Sizes) -> Iterator[Row]:
    """One hard case: single calls and a batch beside the scan."""
    rng = np.random.Generator(np.random.PCG64(1))
    held = min(count, case.count_most)
    filters, names = case.filters(rng, held), case.names(rng, sizes.hard_batch)
    ids = rng.permutation(held) * 1_000_003 if case.any_ids else np.arange(held)
    index, scan = filled(FAST, ids, filters), filled(BASELINE, ids, filters)
    whole = f"{held:,}, {name}: {FAST}"
    alike(whole, index, scan, names[:2])
    for what, batches in ((whole, list(names[:4, None])), (f"{whole}, match_many", [names])):
        us, scan_us = medians_us(sizes.turns, (index, batches), (scan, batches))
        yield at_most(what, us, scan_us, SCAN_MOST, "the scan's")
