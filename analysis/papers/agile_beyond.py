"""What the AGILE paper would find today: its indexes beside a compiled scan and beside bitsets by cell.

Real CPU time of one thread, no model: all filters get the same messages and updates, in turns, and all answers are
compared. The paper's conclusions are put to a machine on which a scan tests a profile in a nanosecond or so: where one
does not hold any more, that is what was found. What operations cost stands beside what they cost in the paper, by
the constants that were fitted to its tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.papers.agile import BEST
from analysis.papers.agile_readings import RATES
from analysis.papers.agile_runs import BATCH, CONTEXT_S, MOVE_S, POSTFILTER_S, make, per_message
from analysis.papers.agile_workload import PROFILES_FULL, Load, Workload
from analysis.papers.claims import Claim, Figure, above, at_least, between, derived, exactly, ours
from analysis.papers.experiment import Cells, Experiment, Picture, Run, Table, Tables, curves
from brokers.indexes.context.filter import Filter
from brokers.indexes.context.policies import Fixed

SCAN, BITSETS = "NOINDEX", "cells"
RIVALS = (SCAN, "EAGER", "GBU")  # of the paper
AGILE = ("AGILE range", "AGILE piecewise")  # by either rule of escalation; the better one counts
CONTENDERS = (*RIVALS, *AGILE, BITSETS)
STRETCH = 20  # messages of a turn, or each filter would find its caches empty
TOTAL = "µs per message and its updates"


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    profiles: tuple[int, ...] = (500, 5_000, 50_000)
    messages: int = 300
    warm_messages: int = 500
    updates: int = 600_000  # at most, of a setting, warm-up and measurement each


FULL = Scale(profiles=(500, 5_000, 50_000, PROFILES_FULL), updates=3_000_000)


def beyond(run: Run) -> Tables:
    """Every size at every rate of updates."""
    return measured(FULL if run.full else Scale(), run)


def measured(scale: Scale, run: Run) -> Tables:
    rows: Table = []
    for profiles in scale.profiles:
        for rate in RATES:
            rows += compared(profiles, rate, scale, run.seed)
        run.say(f"{profiles:,} profiles")
    fewest, *more = scale.profiles
    return {"beyond": rows, "beyond-costs": [costs(rows, fewest, profiles) for profiles in more]}


def compared(profiles: int, rate: int, scale: Scale, seed: int) -> Table:
    """All filters in one setting."""
    load = Load(profiles, BEST.share, together=BEST.together, seed=seed)
    work = Workload(load)
    policy = Fixed(max(1, BEST.false_positives * profiles // PROFILES_FULL))
    filters = {name: make(name, work.indexed, policy) for name in CONTENDERS}
    for filter_ in filters.values():
        filter_.update_many(*work.contexts())
        filter_.insert_table(np.arange(profiles), work.table)
    most = max(5, int(scale.updates / per_message(profiles, rate)))
    played(filters, work, min(scale.warm_messages, most), rate)
    for filter_ in filters.values():
        filter_.counters.reset()
    messages = min(scale.messages, most)
    asking, updating, differ = played(filters, work, messages, rate)
    return [
        {
            "approach": name, "profiles": profiles, "UP": rate, "messages": messages,
            "µs per message": 1e6 * asking[name] / messages, "µs of its updates": 1e6 * updating[name] / messages,
            TOTAL: 1e6 * (asking[name] + updating[name]) / messages,
            "updates": filter_.counters.updates / messages, "index updates": filter_.counters.moved / messages,
            "post-filtered": filter_.counters.verified / messages, "differ": differ[name],
        }
        for name, filter_ in filters.items()
    ]  # fmt: skip


Part = list[tuple[NDArray[np.float64], list[Any]]]  # messages, each with the batches of updates after it
Spent = dict[str, float]


def played(filters: dict[str, Filter], work: Workload, messages: int, rate: int) -> tuple[Spent, Spent, dict[str, int]]:
    """Stretches of messages, each with its updates after it: seconds of both, and answers unlike the scan's."""
    asking, updating = dict.fromkeys(filters, 0.0), dict.fromkeys(filters, 0.0)
    differ = dict.fromkeys(filters, 0)
    owed = 0.0
    for begin in range(0, messages, STRETCH):
        part: Part = []
        for message in work.messages(min(STRETCH, messages - begin)):
            owed += per_message(work.load.profiles, rate)
            updates = int(owed)
            owed -= updates
            part.append((message[None, :], [work.updates(min(BATCH, updates - at)) for at in range(0, updates, BATCH)]))
        answers = {name: answered(filter_, part, name, asking, updating) for name, filter_ in filters.items()}
        for name, found in answers.items():
            differ[name] += sum(not np.array_equal(*pair) for pair in zip(found, answers[SCAN]))
    return asking, updating, differ


def answered(filter_: Filter, part: Part, name: str, asking: Spent, updating: Spent) -> list[Any]:
    """What a filter says of a stretch; its CPU seconds are added."""
    found = []
    for message, batches in part:
        begin = time.thread_time()
        found.append(filter_.handle_many(message)[1])
        between = time.thread_time()
        for batch in batches:
            filter_.update_many(*batch)
        asking[name] += between - begin
        updating[name] += time.thread_time() - between
    return found


def costs(rows: Table, fewest: int, profiles: int) -> Cells:
    """What operations cost at a size, and what they cost in the paper.

    A profile costs what messages take longer than those to the fewest profiles, so that calls are in no figure.
    """
    at = {(row["approach"], row["profiles"], row["UP"]): row for row in rows}
    few, many = (at[SCAN, count, RATES[0]]["µs per message"] for count in (fewest, profiles))
    scan, eager = at[SCAN, profiles, RATES[-1]], at["EAGER", profiles, RATES[-1]]
    tested = 1e3 * (many - few) / (profiles - fewest)
    updated = 1e3 * scan["µs of its updates"] / scan["updates"]
    moved = 1e3 * (eager["µs of its updates"] - scan["µs of its updates"]) / eager["index updates"]
    return {
        "profiles": profiles, "ns per profile scanned": tested, "ns per context update": updated,
        "ns per index update": moved, "profiles per index update": moved / tested,
        "profiles per context update": updated / tested,
        "paper, profiles per index update": MOVE_S["EAGER"] / POSTFILTER_S,
        "paper, profiles per context update": CONTEXT_S / POSTFILTER_S,
    }  # fmt: skip


# ---- what follows ------------------------------------------------------------------------------------


def judge(tables: Tables) -> Iterator[Claim]:
    rows, prices = tables["beyond"], tables["beyond-costs"]
    spent = {(row["approach"], row["profiles"], row["UP"]): row[TOTAL] for row in rows}
    sizes = sorted({row["profiles"] for row in rows})
    few, most = RATES[0], RATES[-1]

    def gain(rivals: tuple[str, ...], size: int, rate: int, mine: tuple[str, ...] = AGILE) -> float:
        best, taken = (min(spent[name, size, rate] for name in names) for names in (rivals, mine))
        return float(best / taken)

    yield Claim(
        "same", "All approaches give the same answers", derived("the definition of a profile"),
        {"answers that differ": Figure(sum(row["differ"] for row in rows), exactly(0))},
        note=f"of {sum(row['messages'] for row in rows):,}",
    )  # fmt: skip
    for size in sizes:
        yield Claim(
            f"winner-{size}", f"AGILE is the clear winner from UP = 10, {size:,} profiles",
            ours("section 6.3, in real CPU time of today"),
            {f"UP = {rate}": Figure(gain(RIVALS, size, rate), above(1)) for rate in RATES[1:]},
            "above 1", "the best of NOINDEX, EAGER and GBU over AGILE", "times",
        )  # fmt: skip
    yield Claim(
        "noindex-20", "NOINDEX is almost 20 times slower at UP = 1", ours("section 6.3, in real CPU time of today"),
        {f"{size:,}": Figure(gain((SCAN,), size, few), at_least(15)) for size in sizes},
        "almost 20; at least 15", unit="times AGILE's time",
    )  # fmt: skip
    yield Claim(
        "noindex-beaten", "NOINDEX is outperformed even at UP = 10,000",
        ours("section 6.3, in real CPU time of today"),
        {f"{size:,}": Figure(gain((SCAN,), size, most), above(1)) for size in sizes}, unit="times AGILE's time",
    )  # fmt: skip
    yield Claim(
        "eager-10", "EAGER is outperformed by a factor of 10 at UP = 10,000",
        ours("section 6.3, in real CPU time of today; its table 3 has 7.2"),
        {f"{size:,}": Figure(gain(("EAGER",), size, most), at_least(7)) for size in sizes},
        "10 times; at least 7", unit="times AGILE's time",
    )  # fmt: skip
    yield Claim(
        "eager-scan", "An exact index pays while updates are few, a scan where they are many",
        ours("section 6.3, EAGER beside NOINDEX; in table 3 their order turns between UP = 100 and 1,000"),
        {f"{size:,} profiles, {said}": Figure(gain((SCAN,), size, rate, ("EAGER",)), bound)
         for size in sizes for rate, said, bound in (
             (few, "UP = 1", above(1)), (100, "UP = 100", above(1)), (most, "UP = 10,000", between(0, 1)))},
        "above 1 up to UP = 100, below at 10,000", unit="times EAGER's time",
    )  # fmt: skip
    yield Claim(
        "bitsets", "AGILE is faster than any other index", ours("section 6.3, put to bitsets by cell"),
        {f"{size:,} profiles, UP = {rate}": Figure(gain((BITSETS,), size, rate), above(1))
         for size in sizes for rate in (few, 100, most)}, "above 1", "cells over AGILE", "times",
    )  # fmt: skip
    yield Claim(
        "price-move", "An index update costs as much as post-filtering some 270 profiles",
        ours("the constants fitted to tables 3 to 5; within a factor of two is our reading"),
        {f"{row['profiles']:,}": Figure(row["profiles per index update"], between(136, 545)) for row in prices},
        "136 to 545", unit="profiles",
    )  # fmt: skip
    yield Claim(
        "price-update", "A context update costs as much as post-filtering 1.5 profiles",
        ours("the constants fitted to tables 3 to 5; within a factor of two is our reading"),
        {f"{row['profiles']:,}": Figure(row["profiles per context update"], between(0.77, 3.1)) for row in prices},
        "0.77 to 3.1", unit="profiles",
    )  # fmt: skip


def draw(tables: Tables) -> Iterator[Picture]:
    rows = [row for row in tables["beyond"] if row["profiles"] == tables["beyond"][-1]["profiles"]]
    scan = {row["UP"]: row[TOTAL] for row in rows if row["approach"] == SCAN}
    series = {
        name: (RATES, [scan[row["UP"]] / row[TOTAL] for row in rows if row["approach"] == name])
        for name in CONTENDERS[1:]
    }
    title = f"Context filters beside a scan, {rows[0]['profiles']:,} profiles"
    yield Picture("beyond", title, "updates per profile (UP)", "times as fast as the scan", curves(series),
                  log_x=True, log_y=True)  # fmt: skip


TITLES = {
    "beyond": "CPU time of a message and its updates, by approach, size and rate",
    "beyond-costs": "What operations cost, in profiles that a scan tests in the time",
}
EXPERIMENTS = [
    Experiment(
        "beyond", "Beyond: AGILE beside a compiled scan and bitsets", beyond, judge, draw, TITLES,
        f"Real CPU time of one thread; {BEST.prose}, scaled with the profiles. The scan stops at the first of a "
        "profile's predicates that fails, and so tests less of a profile than the paper's post-filter does.",
    )
]  # fmt: skip
