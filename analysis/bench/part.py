"""The group `part`: which subscriptions does a new object matter to, among a million objects.

Rules:
- Places are uniform in the unit square. A keyword is one of `words`, the i-th with probability proportional
  to 1/i; an object and a subscription have what 1 to 5 draws give. Queries are new objects of the same kind.
- Times are processor time of this process: everything here runs on one core, and a query is too short for its
  wall time to say anything on a busy machine.
- A time per query is the median over the repeats, mean and 95th percentile are over the queries; all of it is
  measured through `reverse`, with its checks and its sorting.
- Brute force compares every candidate with every object in NumPy. It is run on a sample of the subscriptions,
  and its time is scaled up by how much smaller the sample is: it is proportional to them.
- Batches are measured in turns with PART on the same queries. Near ones lie in a square of side `near`.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from analysis.bench.rows import Row, medians, row
from brokers.indexes.spatial.bpart import BPart
from brokers.indexes.spatial.brute import Brute
from brokers.indexes.spatial.contract import Queries, ReverseTopK
from brokers.indexes.spatial.geometry import Floats
from brokers.indexes.spatial.materialised import Materialised
from brokers.indexes.spatial.part import Part
from brokers.indexes.spatial.words import KeywordSets, Vocabulary

_SEED = 1
_MANY = 1 << 40  # ids from here on are queries


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    objects: int = 1_000_000
    subscriptions: int = 100_000
    words: int = 1_000
    keywords_max: int = 5
    k: int = 10
    deltas: tuple[float, ...] = (1.0, 1.1, 1.5, 2.0)
    queries: int = 300
    repeats: int = 5
    batch: int = 64
    batches: int = 8
    near: float = 0.02
    brute_subscriptions: int = 25
    brute_queries: int = 3
    turnover: int = 1_000  # objects that come, are asked about, and expire


class Rows(NamedTuple):
    """Places and keywords of some objects or subscriptions."""

    places: Floats
    keywords: KeywordSets


class Crowd:
    """Draws objects and subscriptions; the same seed draws the same."""

    def __init__(self, words: int, keywords_max: int, seed: int = _SEED) -> None:
        self.vocabulary = Vocabulary()
        self.vocabulary.encode([[f"word {rank}"] for rank in range(words)])
        self._weights = np.cumsum(1.0 / np.arange(1, words + 1))
        self._keywords_max = keywords_max
        self._rng = np.random.Generator(np.random.PCG64(seed))

    def rows(self, count: int, side: float = 1.0) -> Rows:
        """So many, in a square of some side that lies anywhere in the unit square."""
        words, rng = len(self._weights), self._rng
        corner = rng.random(2) * (1 - side)
        row = np.repeat(np.arange(count), rng.integers(1, self._keywords_max + 1, count))
        word = np.searchsorted(self._weights, rng.random(len(row)) * self._weights[-1])
        pairs = np.unique(row * words + word)
        ptr = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(pairs // words, minlength=count), out=ptr[1:])
        places = corner + side * rng.random((count, 2))
        return Rows(places, KeywordSets(ptr, (pairs % words).astype(np.int32)))


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    yield from measure(Sizes())


def measure(sizes: Sizes) -> Iterator[Row]:
    """The group at some size."""
    crowd = Crowd(sizes.words, sizes.keywords_max)
    objects, subscriptions = crowd.rows(sizes.objects), crowd.rows(sizes.subscriptions)
    part = filled(Part(vocabulary=crowd.vocabulary), objects, subscriptions)
    asked = crowd.rows(sizes.queries)
    brute = brute_per_s(sizes, crowd, objects, subscriptions, asked)
    materialised = filled(Materialised(vocabulary=crowd.vocabulary, k_max=sizes.k), objects, subscriptions)
    yield from one_by_one(sizes, part, materialised, asked, brute)
    yield from turnover(sizes, part, materialised, crowd)
    yield row("PART: memory", part.memory_bytes() / 1e9, "GB")
    yield row("materialised: memory", materialised.memory_bytes() / 1e9, "GB")
    del materialised
    b_part = filled(BPart(vocabulary=crowd.vocabulary), objects, subscriptions)
    part = filled(Part(vocabulary=crowd.vocabulary), objects, subscriptions)
    for name, side, ratio in (("near", sizes.near, 1.5), ("random", 1.0, 1.0)):
        yield batches(sizes, part, b_part, crowd, name, side, ratio)


def one_by_one(
    sizes: Sizes, part: Part, materialised: Materialised, asked: Rows, brute: float
) -> Iterator[Row]:
    """Single queries at each delta: time, work, and how far answers go beyond RT."""
    exact = 0
    for delta in sizes.deltas:
        queries = singles(part, asked, sizes.k, delta)
        part.counters.reset()
        answered = sum(len(part.reverse(query)[1]) for query in queries)
        work = part.counters.as_dict()
        exact = exact or answered
        stored, taken = turns([materialised, part], queries, sizes.repeats)
        ms, name = 1e3 * taken, f"PART, δ = {delta:g}"
        bound = 50.0 if delta == 1 else None
        yield row(f"{name}: mean", float(ms.mean()), "ms", most=bound)
        yield row(f"{name}: 95th percentile", float(np.quantile(ms, 0.95)), "ms")
        per_s = len(queries) / float(taken.sum())
        yield row(f"{name}, beside brute force", per_s, "queries/s", baseline=brute)
        yield row(
            f"{name}, beside materialised", per_s, "queries/s", baseline=len(queries) / float(stored.sum())
        )
        yield row(f"{name}: nodes visited", work["probed"] / len(queries), "per query")
        yield row(f"{name}: leaf objects compared", work["verified"] / len(queries), "per query")
        yield row(f"{name}: subscriptions answered", answered / len(queries), "per query")
        yield row(f"{name}: precision", exact / answered if answered else 1.0, "")


def turnover(sizes: Sizes, part: Part, materialised: Materialised, crowd: Crowd) -> Iterator[Row]:
    """The life of an object: it is asked about, comes, and the oldest expires."""
    coming = crowd.rows(sizes.turnover)
    name = "objects asked about, inserted and expired, one by one, {}, beside materialised"
    for delta in (1.0, 2.0):
        both = [lives_per_s(index, coming, sizes.k, delta) for index in (part, materialised)]
        yield row(name.format(f"PART, δ = {delta:g}"), both[0], "objects/s", baseline=both[1])


def batches(
    sizes: Sizes, part: Part, b_part: BPart, crowd: Crowd, name: str, side: float, ratio: float
) -> Row:
    """Batches of queries in a square, B-PART beside PART."""
    asked = []
    for _ in range(sizes.batches):
        some = crowd.rows(sizes.batch, side)
        asked.append(part.queries(np.arange(sizes.batch) + _MANY, *some, sizes.k))

    def per_s(index: ReverseTopK) -> Callable[[], float]:
        def run() -> float:
            begin = time.process_time()
            for queries in asked:
                index.reverse(queries)
            return sizes.batch * len(asked) / (time.process_time() - begin)

        return run

    alone, together = medians([per_s(part), per_s(b_part)], sizes.repeats)
    return row(
        f"B-PART, {name} batches of {sizes.batch}", together, "queries/s",
        baseline=alone, ratio_least=ratio, against="PART",
    )  # fmt: skip


# ---- how it is measured ------------------------------------------------------------------------------


def filled(index: Any, objects: Rows, subscriptions: Rows) -> Any:
    """The index with both, ids from 0."""
    index.insert_objects(np.arange(len(objects.places)), *objects)
    index.insert_subscriptions(np.arange(len(subscriptions.places)), *subscriptions)
    return index


def singles(index: ReverseTopK, asked: Rows, k: int, delta: float) -> list[Queries]:
    """Each row as a query of its own."""
    ptr, words = asked.keywords
    found = []
    for i in range(len(asked.places)):
        own = words[ptr[i] : ptr[i + 1]]
        sets = KeywordSets(np.array([0, len(own)]), own)
        found.append(index.queries([_MANY + i], asked.places[i : i + 1], sets, k, delta))
    return found


def turns(indexes: Sequence[ReverseTopK], queries: list[Queries], repeats: int) -> list[Floats]:
    """Seconds per query of each index: medians of repeats, taken in turns after one that warms up."""
    taken = np.empty((len(indexes), repeats + 1, len(queries)))
    for repeat in range(repeats + 1):
        for i, index in enumerate(indexes):
            for j, query in enumerate(queries):
                begin = time.process_time()
                index.reverse(query)
                taken[i, repeat, j] = time.process_time() - begin
    return list(np.median(taken[:, 1:], axis=1))


def lives_per_s(index: ReverseTopK, coming: Rows, k: int, delta: float) -> float:
    """Objects per second that are asked about, inserted, and replace the oldest. Ends as it began."""
    queries, (ptr, words) = singles(index, coming, k, delta), coming.keywords
    count = len(queries)
    begin = time.process_time()
    for i, query in enumerate(queries):
        index.reverse(query)
        sets = KeywordSets(np.array([0, ptr[i + 1] - ptr[i]]), words[ptr[i] : ptr[i + 1]])
        index.insert_objects([_MANY + i], coming.places[i : i + 1], sets)
        if i >= count // 2:
            index.expire_objects([_MANY + i - count // 2])
    taken = time.process_time() - begin
    index.expire_objects(np.arange(count - count // 2, count) + _MANY)
    return count / taken


def brute_per_s(sizes: Sizes, crowd: Crowd, objects: Rows, subscriptions: Rows, asked: Rows) -> float:
    """Queries per second of brute force, scaled up from a sample of the subscriptions."""
    index = Brute(vocabulary=crowd.vocabulary)
    index.insert_objects(np.arange(len(objects.places)), *objects)
    ptr, words = subscriptions.keywords
    step = max(1, len(subscriptions.places) // sizes.brute_subscriptions)
    sample = np.arange(0, len(subscriptions.places), step)
    strings = [[crowd.vocabulary.string(word) for word in words[ptr[s] : ptr[s + 1]]] for s in sample]
    index.insert_subscriptions(sample, subscriptions.places[sample], strings)
    some = singles(index, asked, sizes.k, 1.0)[: sizes.brute_queries]
    begin = time.process_time()
    for query in some:
        index.reverse(query)
    return len(some) / (time.process_time() - begin) * len(sample) / len(subscriptions.places)
