"""What the PART paper would find today: trees searched per query beside k-th distances that are kept, and beside scans.

PART keeps nothing per subscription and searches trees of objects for each query. Its rivals here: `Materialised`, which
keeps each subscription's nearest objects, an inverted file whose posting lists are scanned in NumPy, and comparing
everything. All get the same objects, subscriptions and queries; exact answers are compared, PART's are held between
RT and RT_delta. Times are CPU time of one process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.bench.part import Crowd, Rows, filled, lives_per_s, singles
from analysis.bench.rows import medians
from analysis.papers.claims import Claim, Figure, above, at_least, at_most, derived, exactly, ours
from analysis.papers.experiment import Cells, Experiment, Picture, Run, Table, Tables, curves
from analysis.papers.part import split, split_relaxed
from brokers.indexes.spatial.bpart import BPart
from brokers.indexes.spatial.brute import Brute
from brokers.indexes.spatial.contract import Queries
from brokers.indexes.spatial.geometry import squared_distances
from brokers.indexes.spatial.materialised import Materialised
from brokers.indexes.spatial.part import Part
from brokers.indexes.spatial.words import KeywordSets

PART, BATCHED, KEPT, INVERTED, ALL = "PART", "B-PART", "materialised", "inverted file", "everything compared"
EXACT = (KEPT, INVERTED, ALL)
LISTED = 20  # times as many pairs may be gone through by posting lists
_MANY = 1 << 40  # ids from here on are queries
PURPOSE = ours("what PART is made for, put to indexes of today")


@dataclass(frozen=True)
class Point:
    """Objects, subscriptions and what is asked."""

    objects: int = 10_000
    subscriptions: int = 2_000
    words: int = 200
    keywords: int = 5  # at most, of an object and of a subscription
    k: int = 10
    delta: float = 1.0
    clustered: bool = False  # places crowd in a corner


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    sizes: tuple[int, ...] = (100, 1_000, 10_000, 100_000)  # objects; subscriptions are a fifth
    base: Point = Point()
    queries: int = 40
    scanned: int = 1_000_000  # pairs of subscription and object that all is compared for
    lives: int = 200
    churn: tuple[int, ...] = (0, 1, 10, 100)  # subscriptions that come and go between two queries
    repeats: int = 3


FULL = Scale(sizes=(100, 1_000, 10_000, 100_000, 1_000_000), base=Point(100_000, 20_000), queries=100, lives=500)

SHAPES: dict[str, dict[str, Any]] = {
    "as the base": {},
    "k = 1": {"k": 1},
    "k = 100": {"k": 100},
    "delta = 2": {"delta": 2.0},
    "one keyword": {"keywords": 1},
    "five words": {"words": 5},
    "5,000 words": {"words": 5_000},
    "crowded places": {"clustered": True},
    "few objects, many subscriptions": {"objects": 500, "subscriptions": 20_000},
}


class InvertedFile:
    """Posting lists of objects and of subscriptions per keyword, scanned in NumPy. Ids are from 0."""

    def __init__(self, objects: Rows, subscriptions: Rows, words: int) -> None:
        self.objects, self.subscriptions = objects, subscriptions
        self.of_objects, self.of_subscriptions = (postings(each.keywords, words) for each in (objects, subscriptions))

    def reverse(self, queries: Queries) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """As the contract has it. O(candidates * objects of their keywords)."""
        ptr, words = queries.keywords
        found = [self._answer(queries, i, words[ptr[i] : ptr[i + 1]]) for i in range(len(queries.ids))]
        return np.cumsum([0, *(len(each) for each in found)]), np.concatenate([np.empty(0, np.int64), *found])

    def _answer(self, queries: Queries, i: int, words: NDArray[np.int32]) -> NDArray[np.int64]:
        lists = [self.of_subscriptions[word] for word in words]
        candidates = np.unique(np.concatenate(lists)) if lists else np.empty(0, np.int64)
        reach = squared_distances(self.subscriptions.places[candidates], queries.points[i])
        keep = [self._closer(s, squared) < queries.k[i] for s, squared in zip(candidates.tolist(), reach)]
        return candidates[np.array(keep, np.bool_)]

    def _closer(self, subscription: int, squared: float) -> int:
        """Relevant objects that are nearer, each once."""
        ptr, words = self.subscriptions.keywords
        place = self.subscriptions.places[subscription]
        lists = [self.of_objects[word] for word in words[ptr[subscription] : ptr[subscription + 1]]]
        near = [each[squared_distances(self.objects.places[each], place) < squared] for each in lists]
        return len(np.unique(np.concatenate(near))) if len(near) > 1 else len(near[0])


def postings(keywords: KeywordSets, words: int) -> list[NDArray[np.int64]]:
    """Per word the rows that have it."""
    row = np.repeat(np.arange(len(keywords.ptr) - 1), np.diff(keywords.ptr))
    order = np.argsort(keywords.words, kind="stable")
    return np.split(row[order], np.searchsorted(keywords.words[order], np.arange(1, words)))


def beyond(run: Run) -> Tables:
    """Over sizes, shapes, and what changes between queries."""
    return measured(FULL if run.full else Scale(), run)


def measured(scale: Scale, run: Run) -> Tables:
    tables: Tables = {name: [] for name in TITLES}
    for count in scale.sizes:
        point = replace(scale.base, objects=count, subscriptions=max(20, count // 5))
        tables["beyond-size"].append({"objects": count, **compared(point, scale, run.seed)})
        run.say(f"{count:,} objects")
    for name, changed in SHAPES.items():
        tables["beyond-shape"].append({"shape": name, **compared(replace(scale.base, **changed), scale, run.seed)})
        run.say(name)
    tables["beyond-lives"] = [lives(name, changed, scale, run.seed) for name, changed in LIVES.items()]
    run.say("lives of objects")
    tables["beyond-churn"] = [churned(count, scale, run.seed) for count in scale.churn]
    run.say("subscriptions that come and go")
    return tables


def drawn(point: Point, seed: int) -> tuple[Crowd, Rows, Rows]:
    """Objects and subscriptions."""
    crowd = Crowd(point.words, point.keywords, seed)
    return crowd, placed(crowd.rows(point.objects), point), placed(crowd.rows(point.subscriptions), point)


def placed(rows: Rows, point: Point) -> Rows:
    """The same where places crowd: most of all near a corner."""
    return rows._replace(places=rows.places**4) if point.clustered else rows


def compared(point: Point, scale: Scale, seed: int) -> Cells:
    """All contenders at one point: microseconds per query, memory, and what was answered wrongly."""
    crowd, *both = drawn(point, seed)
    shared: dict[str, Any] = {"vocabulary": crowd.vocabulary}
    indexes: dict[str, Any] = {
        PART: filled(Part(**shared), *both), BATCHED: filled(BPart(**shared), *both),
        KEPT: filled(Materialised(k_max=point.k, **shared), *both),
    }  # fmt: skip
    asked = placed(crowd.rows(scale.queries), point)
    few = max(2, min(scale.queries, scale.queries * scale.scanned // (point.objects * point.subscriptions)))
    if point.objects * point.subscriptions <= LISTED * scale.scanned:
        indexes[INVERTED] = InvertedFile(both[0], both[1], point.words)
    if point.objects * point.subscriptions <= scale.scanned:
        indexes[ALL] = filled(Brute(**shared), *both)
    queries = {name: singles(indexes[PART], asked, point.k, point.delta) for name in indexes}
    for name in (INVERTED, ALL):
        if name in indexes:
            queries[name] = queries[name][:few]
    queries[BATCHED] = [indexes[PART].queries(np.arange(scale.queries) + _MANY, *asked, point.k, point.delta)]
    work = {name: partial(each_answered, index, queries[name]) for name, index in indexes.items()}
    answers = {name: [one for found in answer() for one in split(found)] for name, answer in work.items()}
    taken = medians([partial(cpu_us, answer) for answer in work.values()], scale.repeats)
    must, may = answers[KEPT], split_relaxed(indexes[KEPT], queries[BATCHED][0])
    wrong = sum(not (a <= b <= c) for name in (PART, BATCHED) for a, b, c in zip(must, answers[name], may))
    wrong += sum(a != b for name in (INVERTED, ALL) if name in answers for a, b in zip(must, answers[name]))
    row: Cells = {"answers": sum(map(len, must)) / scale.queries, "wrong": wrong}
    us = {name: each / sum(len(query.ids) for query in queries[name]) for name, each in zip(work, taken)}
    row |= {f"{name}, µs": us.get(name) for name in (PART, BATCHED, *EXACT)}
    return row | {f"{name}, bytes": indexes[name].memory_bytes() / point.objects for name in (PART, KEPT)}


def each_answered(index: Any, queries: Sequence[Queries]) -> list[Any]:
    """One after the other."""
    return [index.reverse(each) for each in queries]


def cpu_us(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return 1e6 * (time.process_time() - begin)


LIVES: dict[str, dict[str, Any]] = {
    "delta = 1": {}, "delta = 2": {"delta": 2.0}, "k = 1": {"k": 1}, "k = 100": {"k": 100},
    "few objects, many subscriptions": {"objects": 500, "subscriptions": 20_000},
}  # fmt: skip


def lives(name: str, changed: dict[str, Any], scale: Scale, seed: int) -> Cells:
    """Objects that are asked about, come, and expire: microseconds per object."""
    point = replace(scale.base, **changed)
    crowd, *both = drawn(point, seed)
    coming = crowd.rows(scale.lives)
    row: Cells = {"lives": name}
    for label, index in ((PART, Part(vocabulary=crowd.vocabulary)),
                         (KEPT, Materialised(k_max=point.k, vocabulary=crowd.vocabulary))):  # fmt: skip
        filled(index, *both)
        lives_per_s(index, coming, point.k, point.delta)  # compiles, and ends as it began
        row[f"{label}, µs"] = 1e6 / lives_per_s(index, coming, point.k, point.delta)
    return row


def churned(changes: int, scale: Scale, seed: int) -> Cells:
    """Single queries, so many subscriptions replaced between two of them: microseconds per query, changes included."""
    point = scale.base
    crowd, *both = drawn(point, seed)
    rounds = 1 + max(4, scale.queries // max(1, changes))
    coming, asked = crowd.rows(rounds * max(1, changes)), crowd.rows(rounds)
    row: Cells = {"changes": changes}
    answers = []
    for label, index in ((PART, Part(vocabulary=crowd.vocabulary)),
                         (KEPT, Materialised(k_max=point.k, vocabulary=crowd.vocabulary))):  # fmt: skip
        filled(index, *both)
        found, spent = [], 0.0
        for turn, query in enumerate(singles(index, asked, point.k, point.delta)):
            begin = time.process_time()
            replaced(index, coming, range(turn * changes, (turn + 1) * changes), point.subscriptions)
            found.append(index.reverse(query)[1].tolist())
            spent += (time.process_time() - begin) * (turn > 0)  # the first compiles
        answers.append(found)
        row[f"{label}, µs"] = 1e6 * spent / (rounds - 1)
    return row | {"wrong": sum(a != b for a, b in zip(*answers))}


def replaced(index: Any, coming: Rows, which: range, held: int) -> None:
    """The oldest subscriptions go one by one, each for a new one."""
    ptr, words = coming.keywords
    for at in which:
        sets = KeywordSets(np.array([0, ptr[at + 1] - ptr[at]]), words[ptr[at] : ptr[at + 1]])
        index.delete_subscriptions([at])
        index.insert_subscriptions([held + at], coming.places[at : at + 1], sets)


# ---- what follows ------------------------------------------------------------------------------------


def gain(row: Cells, *rivals: str) -> float:
    """How many times the best rival that was measured takes what PART takes."""
    return float(min(row[f"{name}, µs"] for name in rivals if row[f"{name}, µs"] is not None) / row[f"{PART}, µs"])


def judge(tables: Tables) -> Iterator[Claim]:
    sizes, shapes, lived, churn = (tables[name] for name in TITLES)
    asked = [*sizes, *shapes]
    yield Claim(
        "same", "Exact indexes answer RT, and PART between RT and RT_delta", derived("the definition of RT"),
        {"answers that do not": Figure(sum(row["wrong"] for row in [*asked, *churn]), exactly(0))},
    )  # fmt: skip
    yield Claim(
        "beats-scans", "PART is faster than scans, however few objects", PURPOSE,
        {f"{row['objects']:,}": Figure(gain(row, INVERTED, ALL), above(1)) for row in sizes
         if row[f"{INVERTED}, µs"] is not None}, "above 1", "the better of two NumPy scans over PART", "times",
    )  # fmt: skip
    for key, rows, axis in (("size", sizes, "objects"), ("shape", shapes, "shape")):
        yield Claim(
            f"fastest-{key}", f"PART is the fastest of all, by {key}", PURPOSE,
            {f"{row[axis]:,}" if key == "size" else str(row[axis]): Figure(gain(row, *EXACT), above(1))
             for row in rows}, "above 1", "the best of k-th distances that are kept and of scans over PART", "times",
        )  # fmt: skip
    yield Claim(
        "lives", "Over an object's whole life it pays to keep nothing", PURPOSE,
        {row["lives"]: Figure(gain(row, KEPT), above(1)) for row in lived}, "above 1",
        "an object is asked about, comes, and expires; kept distances over PART", "times",
    )  # fmt: skip
    yield Claim(
        "churn", "Where subscriptions come and go, it pays to keep nothing", PURPOSE,
        {f"{row['changes']} between two queries": Figure(gain(row, KEPT), above(1) if row["changes"] else None)
         for row in churn}, "above 1", "queries and changes; kept distances over PART", "times",
    )  # fmt: skip
    by = {row["shape"]: row for row in shapes}
    first, relaxed = by["as the base"], by["delta = 2"]
    yield Claim(
        "delta", "To answer approximately saves time", ours("algorithm 2, line 15; a tenth is our reading"),
        {"delta = 1 over 2": Figure(first[f"{PART}, µs"] / relaxed[f"{PART}, µs"], at_least(1.1))}, unit="times",
    )  # fmt: skip
    yield Claim(
        "batch", "B-PART is faster than PART on batches from anywhere", ours("the section on B-PART"),
        {f"{row['objects']:,}": Figure(row[f"{PART}, µs"] / row[f"{BATCHED}, µs"], above(1)) for row in sizes},
        note="one batch of all queries, beside single ones", unit="times",
    )  # fmt: skip
    yield Claim(
        "memory", "To keep nothing per subscription saves memory", PURPOSE,
        {f"{row['objects']:,}": Figure(row[f"{PART}, bytes"] / row[f"{KEPT}, bytes"], at_most(0.9)) for row in sizes},
        "at most 0.9, a tenth is our reading", unit="times that of kept distances",
    )  # fmt: skip


def draw(tables: Tables) -> Iterator[Picture]:
    rows = tables["beyond-size"]
    known: dict[str, Table] = {
        name: [row for row in rows if row[f"{name}, µs"] is not None] for name in (PART, BATCHED, *EXACT)
    }
    series = {name: ([row["objects"] for row in of], [row[f"{name}, µs"] for row in of]) for name, of in known.items()}
    yield Picture("beyond", "PART beside k-th distances that are kept, and scans", "objects", "µs of CPU per query",
                  curves(series), log_x=True, log_y=True)  # fmt: skip


TITLES = {
    "beyond-size": "Over objects, with a fifth as many subscriptions",
    "beyond-shape": "Over what objects, subscriptions and queries look like",
    "beyond-lives": "Objects that are asked about, come, and expire, one by one",
    "beyond-churn": "Over subscriptions that are replaced between two queries, changes included",
}
EXPERIMENTS = [
    Experiment(
        "beyond", "Beyond: PART beside k-th distances that are kept, and beside scans", beyond, judge, draw, TITLES,
        "CPU time per query, medians of stretches in turns. Scans in NumPy are measured where they end in a moment. "
        "The inverted file is a few lines: posting lists per keyword, compared whole.",
    )
]
