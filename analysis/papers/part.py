"""Reverse top-k over keywords and places: time and work of PART and B-PART as one thing at a time is varied.

Each experiment changes one parameter of a base setting and lets PART and B-PART answer the same batch of near
queries; materialised k-th distances answer them too, and are the reference that answers are compared with.
Times are processor time, the least of three.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from analysis.bench.part import Crowd, filled
from analysis.papers.claims import Claim, Figure, above, at_most, below, derived, exactly, near, ours
from analysis.papers.experiment import Experiment, Picture, Run, Table, Tables, curves
from brokers.indexes.spatial.bpart import BPart
from brokers.indexes.spatial.contract import Queries
from brokers.indexes.spatial.geometry import PLANE, squared_distances
from brokers.indexes.spatial.materialised import Materialised
from brokers.indexes.spatial.part import Part

_QUERY_IDS = 1 << 40
_REPEATS = 3
NEAR = 64  # queries of the batch that is judged


@dataclass(frozen=True)
class Setting:
    """One point of an experiment."""

    objects: int = 50_000
    subscriptions: int = 10_000
    words: int = 200
    keywords: int = 5  # at most, of an object and of a subscription
    k: int = 10
    delta: float = 1.0
    queries: int = 64
    side: float = 0.05  # of the square in which the queries lie
    fan_out: int = 16
    group_size: int = 32
    seed: int = 1


FULL = Setting(objects=500_000, subscriptions=100_000, words=1_000)
# Parameter and its factors of the base setting, or values.
SCALED = {"objects": (0.1, 0.3, 1, 3), "subscriptions": (0.1, 0.3, 1, 3)}
VALUES: dict[str, tuple[Any, ...]] = {
    "queries": (1, 4, 16, 64, 256),
    "side": (0.01, 0.05, 0.2, 1.0),
    "k": (1, 3, 10, 30, 100),
    "delta": (1.0, 1.1, 1.5, 2.0, 4.0),
    "keywords": (1, 2, 5, 8),
    "group_size": (4, 16, 32, 64, 128),
    "fan_out": (4, 8, 16, 32, 64),
}
# The small world in which the readings of the paper were first compared.
SMALL_SAID = (21.8, 14.3, 12.7, 10.2)  # thousands of leaf objects that another implementation compared there
SMALL = Setting(objects=6_000, subscriptions=3_000, words=30, queries=12, side=1.0)


class Indexes(NamedTuple):
    part: Part
    b_part: BPart
    materialised: Materialised
    crowd: Crowd


def measure(setting: Setting) -> dict[str, Any]:
    """Let all three answer; time, work and answers. A query is asked of PART and of B-PART."""
    part, b_part, materialised, _ = indexes = built(
        setting.objects, setting.subscriptions, setting.words, setting.keywords, setting.fan_out,
        setting.group_size, max(setting.k, 10), setting.seed,
    )  # fmt: skip
    queries = asked(indexes, setting)
    row: dict[str, Any] = {}
    answers = {}
    for name, index in (("part", part), ("b_part", b_part), ("materialised", materialised)):
        index.counters.reset()
        answers[name] = index.reverse(queries)
        work = index.counters.as_dict()
        row[f"{name}_us"] = 1e6 * seconds(partial(index.reverse, queries)) / setting.queries
        if index is not materialised:
            row[f"{name}_nodes"] = work["probed"] / setting.queries
            row[f"{name}_leaf_objects"] = work["verified"] / setting.queries
    exact = split(answers["materialised"])
    relaxed = split_relaxed(materialised, queries)
    lost = beyond = same = 0
    for name in ("part", "b_part"):
        found = split(answers[name])
        lost += sum(not must <= answer for must, answer in zip(exact, found))
        beyond += sum(not answer <= may for answer, may in zip(found, relaxed))
        same += sum(answer == must for answer, must in zip(found, exact))
    size = sum(map(len, split(answers["part"])))
    row["rt"] = sum(map(len, exact)) / setting.queries
    row["art"] = size / setting.queries
    row["relaxed"] = sum(map(len, relaxed)) / setting.queries
    row["precision"] = sum(map(len, exact)) / size if size else 1.0
    return {**row, "asked": 2 * setting.queries, "lost": lost, "beyond": beyond, "exact": same}


@lru_cache(maxsize=4)
def built(
    objects: int, subscriptions: int, words: int, keywords: int, fan_out: int, group_size: int, k: int,
    seed: int,
) -> Indexes:
    """The indexes of a setting, kept for some seeds while only the queries change."""
    crowd = Crowd(words, keywords, seed)
    some = crowd.rows(objects), crowd.rows(subscriptions)
    shared: dict[str, Any] = {"vocabulary": crowd.vocabulary, "fan_out": fan_out, "group_size": group_size}
    return Indexes(
        filled(Part(**shared), *some),
        filled(BPart(**shared), *some),
        filled(Materialised(k_max=k, **shared), *some),
        crowd,
    )


def asked(indexes: Indexes, setting: Setting) -> Queries:
    """Queries of new objects in a square."""
    crowd = Crowd(setting.words, setting.keywords, setting.seed + 1)
    rows = crowd.rows(setting.queries, setting.side)
    ids = np.arange(setting.queries) + _QUERY_IDS
    return indexes.part.queries(ids, *rows, setting.k, setting.delta)


def split_relaxed(index: Materialised, queries: Queries) -> list[set[int]]:
    """RT_delta, from the k-th distances: nobody among the k nearest is more than delta times closer."""
    found = []
    items = index.subscriptions
    ptr, words = queries.keywords
    kth = {int(k): index.kth_squared(int(k)) for k in np.unique(queries.k)}
    for i in range(len(queries.ids)):
        slots, squared = kth[int(queries.k[i])]
        shared = np.isin(items.words[slots], words[ptr[i] : ptr[i + 1]]).any(axis=1)
        reach = PLANE.reach(squared_distances(items.points[slots], queries.points[i]), queries.delta[i])
        found.append(set(items.ids[slots[shared & (squared >= reach)]].tolist()))
    return found


def split(answer: tuple[Any, Any]) -> list[set[int]]:
    ptr, ids = answer
    return [set(part.tolist()) for part in np.split(ids, ptr[1:-1])]


def seconds(run: Callable[[], Any]) -> float:
    """The least processor time of some repeats."""
    taken = []
    for _ in range(_REPEATS):
        begin = time.process_time()
        run()
        taken.append(time.process_time() - begin)
    return min(taken)


# ---- one parameter at a time ---------------------------------------------------------------------------------


def base_of(run: Run) -> Setting:
    return replace(FULL if run.full else Setting(), seed=run.seed)


def varied(name: str, run: Run) -> Tables:
    """All values of a parameter."""
    base = base_of(run)
    old = getattr(base, name)
    values = [type(old)(old * factor) for factor in SCALED[name]] if name in SCALED else VALUES[name]
    rows = []
    for value in values:
        rows.append({name: value, **measure(replace(base, **{name: value}))})
        run.say(f"{name} = {value}")
    return {name: rows}


def small_world(run: Run) -> Tables:
    """The world in which the readings of the paper were first compared."""
    deltas = (1.0, 1.1, 1.5, 2.0)
    return {"small": [{"delta": delta, **measure(replace(SMALL, delta=delta, seed=run.seed))} for delta in deltas]}


def answers(rows: Table) -> Claim:
    """What every setting has to keep."""
    asked = sum(row["asked"] for row in rows)
    return Claim(
        "answers", "RT is answered, and nothing outside of RT_delta",
        derived("algorithms 1 to 6; the source does not write its promise out"),
        {"queries that lack a subscription of RT": Figure(sum(row["lost"] for row in rows), exactly(0)),
         "queries with one outside of RT_delta": Figure(sum(row["beyond"] for row in rows), exactly(0))},
        note=f"of {asked:,} queries per seed",
    )  # fmt: skip


def judge(name: str, tables: Tables) -> Iterator[Claim]:
    """What the paper says, beside what was found."""
    yield answers(tables[name])
    if name in OF_PARAMETERS:
        yield from OF_PARAMETERS[name](tables[name])


def of_delta(rows: Table) -> Iterator[Claim]:
    exact, most = rows[0], rows[-1]
    yield Claim(
        "exact-at-1", "With delta = 1 PART and B-PART answer RT", derived("closer_delta is closer"),
        {"queries that differ": Figure(exact["asked"] - exact["exact"], exactly(0))},
    )  # fmt: skip
    yield Claim(
        "fewer-objects", "A larger delta compares fewer leaf objects", derived("algorithm 2, line 15: it ignores more"),
        {f"delta {later['delta']:g} over {earlier['delta']:g}": Figure(
            later["part_leaf_objects"] / earlier["part_leaf_objects"], at_most(1))
         for earlier, later in pairwise(rows)}, unit="times",
    )  # fmt: skip
    yield Claim(
        "answers-more", "A larger delta answers more than RT", derived("algorithm 2, line 15: it ignores more"),
        {f"precision at delta = {most['delta']:g}": Figure(most["precision"], below(1))},
    )  # fmt: skip
    yield Claim(
        "materialised", "Materialised k-th distances beside PART, delta = 1", ours("a baseline of this project"),
        {"": Figure(exact["part_us"] / exact["materialised_us"])}, "reported", "CPU time, the least of three", "times",
    )  # fmt: skip


def of_queries(rows: Table) -> Iterator[Claim]:
    batch = next(row for row in rows if row["queries"] == NEAR)
    yield Claim(
        "batches", "B-PART is faster than PART on batches",
        ours("another implementation of algorithms 4 to 6, 1.3 to 1.9 times as fast"),
        {f"{NEAR} near queries": Figure(batch["part_us"] / batch["b_part_us"], above(1))},
        "faster", "CPU time, the least of three", "times",
    )  # fmt: skip


def of_side(rows: Table) -> Iterator[Claim]:
    apart = rows[-1]
    yield Claim(
        "far-batches", "Leaf objects of B-PART over PART's where queries lie anywhere",
        ours("another implementation of algorithm 5, with batches as they come: 9 to 24"),
        {"": Figure(apart["b_part_leaf_objects"] / apart["part_leaf_objects"])},
        "9 to 24 with batches as they come", "here batches are formed by nearness", "times",
    )  # fmt: skip


def judge_small(tables: Tables) -> Iterator[Claim]:
    rows = tables["small"]
    yield answers(rows)
    first = rows[0]["part_leaf_objects"]
    yield Claim(
        "saved", "Leaf objects compared by PART, over those at delta = 1",
        ours("another implementation, on one world of this size; a fifth is our band"),
        {f"delta = {row['delta']:g}": Figure(row["part_leaf_objects"] / first, near(said / SMALL_SAID[0], 0.2))
         for row, said in zip(rows[1:], SMALL_SAID[1:])}, unit="times",
    )  # fmt: skip


OF_PARAMETERS: dict[str, Callable[[Table], Iterator[Claim]]] = {
    "delta": of_delta, "queries": of_queries, "side": of_side
}  # fmt: skip


def draw(name: str, tables: Tables) -> Iterator[Picture]:
    """Time, and work."""
    found = tables[name]
    xs = [float(row[name]) for row in found]
    axis = name.replace("_", " ")
    times = {"PART": "part_us", "B-PART": "b_part_us", "materialised": "materialised_us"}
    work = {
        "PART, nodes": "part_nodes", "B-PART, nodes": "b_part_nodes",
        "PART, leaf objects": "part_leaf_objects", "B-PART, leaf objects": "b_part_leaf_objects",
    }  # fmt: skip
    for tail, y, of in (("time", "µs per query", times), ("work", "per query", work)):
        series = {label: (xs, [row[key] for row in found]) for label, key in of.items()}
        yield Picture(f"{name}_{tail}", f"Over {axis}", axis, y, curves(series), log_x=True, log_y=tail == "time")


EXPERIMENTS = [
    *(
        Experiment(
            name.replace("_", "-"), f"Over {name.replace('_', ' ')}", partial(varied, name), partial(judge, name),
            partial(draw, name), {name: f"Over {name.replace('_', ' ')}"},
        )
        for name in (*SCALED, *VALUES)
    ),
    Experiment(
        "small", "6,000 objects, 3,000 subscriptions, 30 keywords, 12 queries anywhere", small_world, judge_small,
        titles={"small": "Over delta"},
    ),
]  # fmt: skip
