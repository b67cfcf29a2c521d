"""What the merging paper would find today: its heuristics beside optima that it could not compute.

The source stops at 12 queries, where it weighed every partition, and at a few clients on a few channels. A programme
over subsets gives an optimum of 20 queries, branch and bound of more, and costs that are kept by set of clients one
of a dozen clients. So what the heuristics lose can be had, and what they save in time. Times are CPU seconds of one
process, the heuristics and the exact algorithms on the same queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from analysis.papers.claims import (
    Claim,
    Figure,
    above,
    at_least,
    at_most,
    below,
    derived,
    exactly,
    ours,
)
from analysis.papers.experiment import Cells, Experiment, Picture, Run, Table, Tables, curves
from analysis.papers.merging import EQUAL, STARTS, directed, distance, no_merge, problems
from analysis.papers.merging_queries import FIGURE_12, SMALL_QUERIES_MAX, SMALL_SIDE, Setting, instances
from brokers.planning import greedy, plain, planner
from brokers.planning.allocation import (
    Allocation,
    ChannelCosts,
    allocation_of,
    channel_merging,
    exhaustive,
    initial,
    leaves,
)
from brokers.planning.exact import branch_and_bound, subset_programme
from brokers.planning.plain import bell
from brokers.planning.plan import Plan
from brokers.planning.problem import BoxProblem
from brokers.planning.stronger import allocate

PAIR, BOTH, MOVES = HEURISTICS = "Pair Merging", "Directed Search", "moves of single queries"
SUBSETS, BRANCHES, PARTITIONS = EXACT = "subset programme", "branch and bound", "every partition"
WAYS = (*HEURISTICS, *EXACT)
SUBSETS_MAX = 20
BEGUN, MERGED, STRONGER = "initial", "Channel Merging", "stronger"
SHARE = 0.3  # K_S over K_U of the channels; the source gives none


@dataclass(frozen=True)
class Scale:
    """How much is measured: runs per point and seed."""

    exact: tuple[tuple[int, int], ...] = ((6, 60), (9, 60), (12, 40), (16, 20), (20, 8), (24, 8))  # |Q|, runs
    far: tuple[tuple[int, int], ...] = ((12, 4), (16, 4), (20, 4), (30, 3), (40, 2))
    clients: tuple[tuple[int, int, int], ...] = ((5, 2, 20), (7, 3, 20), (9, 3, 10), (11, 3, 4))  # channels, runs


FULL = Scale(
    exact=((6, 400), (9, 400), (12, 400), (16, 200), (20, 100), (24, 100)),
    far=((12, 14), (16, 14), (20, 14), (30, 14), (40, 14)),
    clients=((5, 2, 200), (7, 3, 200), (9, 3, 100), (11, 3, 40), (12, 3, 20)),
)


def beyond(run: Run) -> Tables:
    """Optima by the subset programme and by branch and bound, and of allocations."""
    return measured(FULL if run.full else Scale(), run)


def measured(scale: Scale, run: Run) -> Tables:
    random = run.generator("merging/beyond")
    tables: Tables = {"beyond-exact": [], "beyond-far": [], "beyond-channels": []}
    for n, runs in scale.exact:
        tables["beyond-exact"].append(exact(n, runs, random))
        run.say(f"{n} queries")
    for n, runs in scale.far:
        tables["beyond-far"].append(far(n, runs, random))
        run.say(f"{n} queries by branch and bound")
    for clients, channels, runs in scale.clients:
        tables["beyond-channels"].append(allocated(clients, channels, runs, random))
        run.say(f"{clients} clients")
    return tables


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What some work gives, and its CPU seconds."""
    begin = time.process_time()
    found = work()
    return found, time.process_time() - begin


def exact(n: int, runs: int, random: np.random.Generator) -> Cells:
    """In the paper's small database, ever denser: what heuristics lose, and what all of them take."""
    ways: dict[str, Callable[[BoxProblem, int], Plan]] = {
        PAIR: lambda problem, seed: greedy.pair_merging(problem),
        BOTH: lambda problem, seed: directed(problem, STARTS, seed),
        MOVES: lambda problem, seed: planner.local_search(problem),
        BRANCHES: lambda problem, seed: branch_and_bound(problem),
    }
    if n <= SUBSETS_MAX:
        ways[SUBSETS] = lambda problem, seed: subset_programme(problem)
    if n <= SMALL_QUERIES_MAX:
        ways[PARTITIONS] = lambda problem, seed: plain.partition(problem)
    given = problems(Setting(n, database=SMALL_SIDE), runs, random)
    for work in ways.values():
        work(given[0], 0)  # compiles
    cost: dict[str, list[float]] = {name: [] for name in ways}
    taken = dict.fromkeys(ways, 0.0)
    proved = 0
    for seed, problem in enumerate(given):
        for name, work in ways.items():
            plan, seconds = timed(partial(work, problem, seed))
            cost[name].append(plan.cost)
            taken[name] += seconds / runs
            proved += name == BRANCHES and plan.lower_bound >= plan.cost / EQUAL
    best = np.array(cost[BRANCHES])
    row: Cells = {"|Q|": n, "runs": runs, "partitions": float(bell(n)), "proved optimal %": 100 * proved / runs}
    for name in HEURISTICS:
        row[f"{name} optimal %"] = 100 * float((np.array(cost[name]) <= best * EQUAL).mean())
        row[f"{name} dearer %"] = 100 * float((np.array(cost[name]) / best).mean() - 1)
    others = [np.array(cost[name]) for name in (SUBSETS, PARTITIONS) if name in cost]
    row["not the same optimum"] = sum(int((np.abs(other / best - 1) > EQUAL - 1).sum()) for other in others)
    return row | {f"{name}, ms": 1e3 * taken[name] if name in taken else None for name in WAYS}


def far(n: int, runs: int, random: np.random.Generator) -> Cells:
    """In the database that Figure 12 has for as many: heuristics beside branch and bound."""
    rows = []
    for problem in problems(Setting(n), runs, random):
        best, seconds = timed(partial(branch_and_bound, problem))
        start = no_merge(problem)
        pair, local = greedy.pair_merging(problem).cost, planner.local_search(problem).cost
        rows.append((best.lower_bound >= best.cost / EQUAL, distance(pair, best.cost, start),
                     distance(local, best.cost, start), 1e3 * seconds))  # fmt: skip
    proved, pair, local, ms = np.mean(rows, axis=0)
    return {
        "|Q|": n, "runs": runs, "partitions": float(bell(n)), "proved optimal %": 100 * float(proved),
        f"{PAIR} distance %": float(pair), f"{MOVES} distance %": float(local), "branch and bound, ms": float(ms),
    }  # fmt: skip


def allocated(clients: int, channels: int, runs: int, random: np.random.Generator) -> Cells:
    """Two queries per client: what allocations lose beside the best of all, and what all of them take."""
    costs = replace(FIGURE_12, share=SHARE * FIGURE_12.irrelevant)
    found, taken = [], []
    for seed, queries in enumerate(instances(Setting(2 * clients, database=SMALL_SIDE), runs, random)):
        problem = BoxProblem(replace(queries, clients=np.arange(len(queries)) % clients), costs)
        if seed == 0:
            _ways(problem, channels, seed)  # compiles
        done = _ways(problem, channels, seed)
        best = done[0][0].cost
        found.append([allocation.cost / best - 1 for allocation, _ in done[1:]])
        taken.append([seconds for _, seconds in done])
    dearer, optimal = 100 * np.mean(found, axis=0), 100 * np.mean(np.array(found) <= EQUAL - 1, axis=0)
    ms = 1e3 * np.mean(taken, axis=0)
    row: Cells = {"clients": clients, "channels": channels, "runs": runs, "allocations": leaves(clients, channels)}
    for name, away, share in zip((BEGUN, MERGED, STRONGER), dearer, optimal):
        row |= {f"{name} optimal %": float(share), f"{name} dearer %": float(away)}
    return row | {f"{name}, ms": float(each) for name, each in zip(("optimum", BEGUN, MERGED, STRONGER), ms)}


def _ways(problem: BoxProblem, channels: int, seed: int) -> list[tuple[Allocation, float]]:
    """The best allocation, the initial one, Channel Merging's and the stronger one, each with its seconds."""

    def of() -> ChannelCosts:  # of its own for each, or the next would find costs computed
        return ChannelCosts(problem, channels)

    ways: list[Callable[[], Allocation]] = [
        lambda: exhaustive(of()), lambda: allocation_of(of(), initial(of())),
        lambda: channel_merging(of()), lambda: allocate(of(), seed),
    ]  # fmt: skip
    return [timed(work) for work in ways]


# ---- what follows ------------------------------------------------------------------------------------


def judge(tables: Tables) -> Iterator[Claim]:
    small, large, channels = (tables[name] for name in TITLES)
    yield from judge_exact(small)
    yield from judge_far(large)
    yield from judge_channels(channels)


def exact_ms(row: Cells) -> float:
    """What the quicker of today's exact algorithms takes."""
    return float(min(row[f"{name}, ms"] for name in (SUBSETS, BRANCHES) if row[f"{name}, ms"] is not None))


def judge_exact(rows: Table) -> Iterator[Claim]:
    last = rows[-1]
    yield Claim(
        "same", "Branch and bound, the subset programme and weighing every partition find the same optimum",
        derived("the definition of a plan's cost"),
        {"runs that differ": Figure(sum(row["not the same optimum"] for row in rows), exactly(0)),
         "least proved, %": Figure(min(row["proved optimal %"] for row in rows), exactly(100))},
        note=f"partitions up to {SMALL_QUERIES_MAX} queries, subsets up to {SUBSETS_MAX}",
    )  # fmt: skip
    limit = next(row for row in rows if row["|Q|"] == SMALL_QUERIES_MAX)
    yield Claim(
        "out-of-reach", f"Beyond {SMALL_QUERIES_MAX} queries the optimum grows out of reach",
        ours("section 8.3, where the source stops; a thousand times is our reading"),
        {f"of {last['|Q|']} queries, over weighing every partition of {SMALL_QUERIES_MAX}": Figure(
            exact_ms(last) / limit[f"{PARTITIONS}, ms"], at_least(1_000))},
        "at least 1000", f"there are {last['partitions'] / limit['partitions']:.3g} times as many partitions", "times",
    )  # fmt: skip
    for name, key, least, said in (
        (BOTH, "search-saves", above(1), "above 1"),
        (PAIR, "pair-saves", at_least(10), "at least 10, our reading of far"),
    ):
        yield Claim(
            key, f"{name} takes {'far ' if name == PAIR else ''}less time than the optimum",
            ours("section 6, put to today's exact algorithms"),
            {f"|Q| = {row['|Q|']}": Figure(exact_ms(row) / row[f"{name}, ms"], least) for row in rows},
            said, "CPU time; the quicker exact algorithm over it", "times",
        )  # fmt: skip
    for name, key in ((PAIR, "pair"), (BOTH, "search")):
        yield Claim(
            f"{key}-loses", f"{name} costs next to nothing more than the optimum",
            ours("section 8.3, which says so of up to 12 queries; a hundredth is our reading"),
            {f"|Q| = {row['|Q|']}": Figure(row[f"{name} dearer %"], at_most(1)) for row in rows}, unit="%",
        )  # fmt: skip
    yield Claim(
        "moves", "Merges and splits from many starts are better than moves of single queries from one",
        ours("section 6, put to moves of single queries"),
        {f"|Q| = {row['|Q|']}": Figure(row[f"{MOVES} dearer %"] - row[f"{BOTH} dearer %"], at_least(0))
         for row in rows if row["|Q|"] >= SMALL_QUERIES_MAX},
        "at least 0", "what moves cost above the optimum, less what Directed Search does", "points",
    )  # fmt: skip


def judge_far(rows: Table) -> Iterator[Claim]:
    yield Claim(
        "known", f"Of more than {SMALL_QUERIES_MAX} queries the optimum is not known", ours("section 8.3"),
        {f"proved at |Q| = {row['|Q|']}": Figure(row["proved optimal %"], below(50))
         for row in rows if row["|Q|"] > SMALL_QUERIES_MAX},
        "below 50, which is our reading of not known", "by branch and bound", "% of runs",
    )  # fmt: skip
    yield Claim(
        "small-distances", "Distances stay small for relatively many queries",
        ours("section 8.3, put to more queries than its figures have"),
        {f"|Q| = {row['|Q|']}": Figure(row[f"{PAIR} distance %"], at_most(5))
         for row in rows if row["|Q|"] > SMALL_QUERIES_MAX},
        "small; at most 5 % is our reading of that", unit="% of what merging saves",
    )  # fmt: skip


def judge_channels(rows: Table) -> Iterator[Claim]:
    yield Claim(
        "allocation-saves", "Channel Merging takes less time than the best allocation", ours("section 7.3"),
        {f"{row['clients']} clients on {row['channels']}": Figure(row["optimum, ms"] / row[f"{MERGED}, ms"], above(1))
         for row in rows}, "above 1", "CPU time; weighing all allocations over Channel Merging", "times",
    )  # fmt: skip
    for name, key in ((MERGED, "merged"), (STRONGER, "stronger")):
        source = ours("section 7.3; a hundredth is our reading" if name == MERGED else "swaps, throws and more starts")
        yield Claim(
            f"{key}-loses", f"{name} costs next to nothing more than the best allocation" if name == MERGED else
            "With swaps and throws an allocation costs next to nothing more than the best", source,
            {f"{row['clients']} clients on {row['channels']}": Figure(row[f"{name} dearer %"], at_most(1))
             for row in rows}, unit="%",
        )  # fmt: skip


def draw(tables: Tables) -> Iterator[Picture]:
    rows = tables["beyond-exact"]
    shown = (PAIR, BOTH, SUBSETS, BRANCHES, PARTITIONS)
    found = {name: [row for row in rows if row[f"{name}, ms"] is not None] for name in shown}
    series = {name: ([row["|Q|"] for row in of], [row[f"{name}, ms"] for row in of]) for name, of in found.items()}
    yield Picture("beyond", "Optimum and heuristics", "queries", "ms of CPU time", curves(series), log_y=True)
    rows = tables["beyond-far"]
    far = {name: ([row["|Q|"] for row in rows], [row[f"{name} distance %"] for row in rows]) for name in (PAIR, MOVES)}
    yield Picture("beyond-far", "Distance to the optimum, where the source stops", "|Q|", "% of what merging saves",
                  curves(far))  # fmt: skip


TITLES = {
    "beyond-exact": "In the small database, ever denser: optima, heuristics, and their times",
    "beyond-far": "Beside branch and bound, in the database that Figure 12 has for as many",
    "beyond-channels": "Two queries per client, merged in pairs: the best allocation, heuristics, and their times",
}
EXPERIMENTS = [
    Experiment(
        "beyond", "Beyond: heuristics beside optima that the source could not compute", beyond, judge, draw, TITLES,
        f"Times are CPU time of one process, means over the runs. K_S is {SHARE:g} K_U; the source gives it no value. "
        "The best allocation is that of all, with Pair Merging on each channel; where moves of single queries improve "
        "a channel's plan as well, an allocation may cost less than it.",
    )
]
