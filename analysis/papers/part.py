"""Reverse top-k over keywords and places: time and work of PART and B-PART as one thing at a time is varied.

Each experiment changes one parameter of a base setting and lets PART and B-PART answer the same batch of near
queries; materialised k-th distances answer them too, and are the reference that answers are compared with.
Times are processor time, the least of three.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from analysis.bench.part import Crowd, filled
from analysis.bench.rows import number
from analysis.papers.experiment import Experiment, Told
from brokers.indexes.spatial.bpart import BPart
from brokers.indexes.spatial.contract import Queries
from brokers.indexes.spatial.geometry import PLANE, squared_distances
from brokers.indexes.spatial.materialised import Materialised
from brokers.indexes.spatial.part import Part

PAPER = "PART and B-PART, approximate reverse top-k"
_QUERY_IDS = 1 << 40
_REPEATS = 3


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
SMALL = Setting(objects=6_000, subscriptions=3_000, words=30, queries=12, side=1.0)


class Indexes(NamedTuple):
    part: Part
    b_part: BPart
    materialised: Materialised
    crowd: Crowd


class Outcome(NamedTuple):
    """What a setting gave."""

    row: dict[str, Any]
    lost: int  # queries that lack a subscription of RT
    beyond: int  # queries with one outside of RT_delta
    exact: int  # queries whose answer is RT
    asked: int


def experiments(report: Told) -> None:
    """Vary each parameter, then compare answers with what is promised."""
    base = replace(FULL if report.full else Setting(), seed=report.seed)
    outcomes: list[tuple[Setting, Outcome]] = []
    tables: dict[str, list[dict[str, Any]]] = {}
    for name in (*SCALED, *VALUES):
        old = getattr(base, name)
        values = [type(old)(old * factor) for factor in SCALED[name]] if name in SCALED else VALUES[name]
        found = []
        for value in values:
            setting = replace(base, **{name: value})
            outcomes.append((setting, measure(setting)))
            found.append({name: value, **outcomes[-1][1].row})
        tables[name] = found
        report.table(name, f"Over {name.replace('_', ' ')}", found)
        draw(report, name, found)
    tables["small"] = [
        {"delta": delta, **measure(replace(SMALL, delta=delta, seed=report.seed)).row}
        for delta in (1.0, 1.1, 1.5, 2.0)
    ]
    title = "6,000 objects, 3,000 subscriptions, 30 keywords, 12 queries anywhere"
    report.table("small", title, tables["small"])
    judge(report, [outcome for _, outcome in outcomes], tables)


def measure(setting: Setting) -> Outcome:
    """Let all three answer; time, work and answers."""
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
    return Outcome(row, lost, beyond, same, 2 * setting.queries)


@lru_cache(maxsize=2)
def built(
    objects: int, subscriptions: int, words: int, keywords: int, fan_out: int, group_size: int, k: int,
    seed: int,
) -> Indexes:
    """The indexes of a setting, kept while only the queries change."""
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


def draw(report: Told, name: str, found: list[dict[str, Any]]) -> None:
    xs = [float(row[name]) for row in found]
    title, axis = f"Over {name.replace('_', ' ')}", name.replace("_", " ")
    times = {"PART": "part_us", "B-PART": "b_part_us", "materialised": "materialised_us"}
    report.plot(
        f"{name}_time", title, axis, "µs per query",
        {label: (xs, [row[key] for row in found]) for label, key in times.items()},
        log_x=True, log_y=True,
    )  # fmt: skip
    work = {
        "PART, nodes": "part_nodes", "B-PART, nodes": "b_part_nodes",
        "PART, leaf objects": "part_leaf_objects", "B-PART, leaf objects": "b_part_leaf_objects",
    }  # fmt: skip
    report.plot(
        f"{name}_work", title, axis, "per query",
        {label: (xs, [row[key] for row in found]) for label, key in work.items()}, log_x=True,
    )  # fmt: skip


def judge(report: Told, outcomes: list[Outcome], tables: dict[str, list[dict[str, Any]]]) -> None:
    """What the paper says, beside what was found."""
    asked_in_all = sum(outcome.asked for outcome in outcomes)
    lost, beyond = (sum(getattr(outcome, name) for outcome in outcomes) for name in ("lost", "beyond"))
    report.claim(
        "no subscription in RT is lost", f"{PAPER}, algorithms 1 and 4", "0 queries",
        f"{lost} of {asked_in_all} queries", lost == 0,
    )  # fmt: skip
    report.claim(
        "no subscription outside of RT_delta is answered", f"{PAPER}, algorithms 1 and 4", "0 queries",
        f"{beyond} of {asked_in_all} queries", beyond == 0,
    )  # fmt: skip
    deltas, base = tables["delta"], tables["delta"][0]
    objects = [row["part_leaf_objects"] for row in deltas]
    report.claim(
        "a larger delta compares fewer leaf objects", f"{PAPER}, algorithm 2, line 15", "falling",
        ", ".join(f"{number(value)} at {row['delta']:g}" for row, value in zip(deltas, objects)),
        all(later <= earlier for earlier, later in zip(objects, objects[1:])),  # noqa: RUF007
    )  # fmt: skip
    report.claim(
        "a larger delta answers more than RT", f"{PAPER}, algorithm 2", "precision at most 1, falling",
        ", ".join(f"{row['precision']:.3f} at {row['delta']:g}" for row in deltas),
        base["precision"] == 1 and all(row["precision"] <= 1 for row in deltas),
    )  # fmt: skip
    batch = next(row for row in tables["queries"] if row["queries"] == 64)
    report.claim(
        "B-PART is faster than PART on batches", f"{PAPER}, section on B-PART",
        "above 1, prototype 1.3 to 1.9",
        f"{batch['part_us'] / batch['b_part_us']:.2f} times, 64 near queries",
        batch["part_us"] > batch["b_part_us"],
    )  # fmt: skip
    apart = tables["side"][-1]
    report.claim(
        "naive batches compare 9 to 24 times the leaf objects", "prototype of algorithm 5", "9 to 24",
        f"{apart['b_part_leaf_objects'] / apart['part_leaf_objects']:.2f} times, batches formed by nearness",
        None,
    )
    report.claim(
        "materialised k-th distances answer faster", "baseline", "reported",
        f"{base['part_us'] / base['materialised_us']:.1f} times PART's speed at delta 1", None,
    )  # fmt: skip


EXPERIMENTS = [Experiment("indexes", "PART and B-PART, one parameter at a time", told=experiments)]
