"""The group `merging`: how long plans take with bounding rectangles, and how good allocations are.

Rules:
- Queries are those of the paper's generator; the large instances have clusters of about 30 on an area that grows
  with the number of queries, at the density of queries of the paper's 100 on 400 x 400.
- Times are CPU seconds of this process, which plans on one core: a busy neighbour costs wall time and little else.
- The baseline of an optimum is the partition algorithm at |Q| = 12, compiled as well; that of pair merging and
  directed search the plain algorithm in Python, on fewer queries where it would take too long.
- Results are compared with those of the plain algorithm wherever that is run.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from analysis.bench.rows import Row, medians, row
from analysis.papers.merging_queries import FIGURE_12, Setting, instances
from brokers.errors import BrokerlabError
from brokers.planning import greedy, plain, planner, search
from brokers.planning.allocation import Allocation, ChannelCosts, channel_merging, k_means
from brokers.planning.exact import branch_and_bound, subset_programme
from brokers.planning.model import Costs, Queries
from brokers.planning.plan import Plan, by_first_row
from brokers.planning.problem import BoxProblem, constants
from brokers.planning.replan import Replanner
from brokers.planning.stronger import allocate

PARTITION = "the partition algorithm at 12 queries"
CLIENT_COSTS = Costs(message=365e-5, transmit=3.25e-5, irrelevant=0.16e-5, share=0.05e-5)


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    repeats: int = 5
    optimum: tuple[tuple[int, float], ...] = ((12, 0.010), (18, 10.0), (20, 120.0))
    branched: tuple[int, ...] = (20, 30, 40)
    pairs: tuple[tuple[int, float], ...] = ((100, 0.005), (10_000, 10.0), (100_000, 120.0))
    plain_queries: int = 60
    compared_queries: int = 2000
    searched: int = 100
    starts: int = 50
    clients: int = 200
    channels: int = 10
    instances: range = range(100)  # their seeds
    changes: int = 300


class Disagreement(BrokerlabError):
    """Two ways to the same plan led to different ones."""


def rows() -> Iterator[Row]:
    """Every row of the group, as it is measured."""
    sizes = Sizes()
    yield from optimum(sizes)
    yield from pair_merging(sizes)
    yield from directed_search(sizes)
    yield from allocation(sizes)
    yield from replanning(sizes)


def cpu_s(work: Callable[[], Any]) -> Callable[[], float]:
    """A measurement of the CPU seconds of some work."""

    def measure() -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    return measure


def problem_of(count: int, seed: int = 1, **setting: Any) -> BoxProblem:
    """One instance of the paper's generator."""
    random = np.random.Generator(np.random.PCG64(seed))
    return BoxProblem(instances(Setting(count, **setting), 1, random)[0], FIGURE_12)


def in_clusters(count: int, each: int = 30, seed: int = 1) -> BoxProblem:
    """Queries in clusters of about `each`, on an area that grows with their number."""
    share = max(1, round(0.8 * count / each))
    side = 400 * (count / 100) ** 0.5
    return problem_of(count, seed, cluster_share=1 / share, spread=25.0, database=side)


def agree(name: str, first: Plan, second: Plan) -> None:
    if abs(first.cost - second.cost) > 1e-9 * abs(first.cost):
        raise Disagreement(f"{name}: cost {first.cost} and {second.cost}; one of the two is wrong")


def optimum(sizes: Sizes) -> Iterator[Row]:
    """The subset programme and branch and bound."""
    twelve = problem_of(12)
    agree("optimum", plain.partition(twelve), subset_programme(twelve))
    for n, most in sizes.optimum:
        problem = problem_of(n, database=100.0)
        repeats = sizes.repeats if n <= 18 else 1
        taken, baseline = medians(
            [cpu_s(partial(subset_programme, problem)), cpu_s(partial(plain.partition, twelve))],
            repeats,
        )
        yield row(f"optimum, {n} queries", taken, "s", most=most, baseline=baseline, against=PARTITION)
    for n in sizes.branched:
        problem = in_clusters(n)
        began = time.process_time()
        plan = branch_and_bound(problem)
        taken = time.process_time() - began
        yield row(f"optimum by branch and bound, {n} queries in clusters", taken, "s")
        yield row(f"{n} queries in clusters: lower bound over cost", plan.lower_bound / plan.cost, "", least=1 - 1e-6)


def pair_merging(sizes: Sizes) -> Iterator[Row]:
    """Pair merging by kernel."""
    small = problem_of(sizes.plain_queries)
    agree("pair merging", plain.pair_merging(small), greedy.pair_merging(small))
    compared = in_clusters(sizes.compared_queries)
    queries = compared.queries
    every = greedy.merge_pairs(compared.size.table, queries.low, queries.high, constants(compared.costs), 0)[0]
    if not np.array_equal(by_first_row(every), greedy.pair_merging(compared).group):
        raise Disagreement("pair merging within reach differs from pair merging of all pairs")
    per_pair = 1 / (sizes.plain_queries**2)
    for n, most in sizes.pairs:
        problem = problem_of(n) if n <= 100 else in_clusters(n)
        repeats = sizes.repeats if n <= 10_000 else 1
        taken, baseline = medians(
            [cpu_s(partial(greedy.pair_merging, problem)), cpu_s(partial(plain.pair_merging, small))],
            repeats,
        )
        scaled = baseline * per_pair * n * n
        against = f"the plain algorithm at {sizes.plain_queries} queries, times the pairs"
        yield row(f"pair merging, {n:,} queries", taken, "s", most=most, baseline=scaled, against=against)
    dense = problem_of(10_000)
    (taken,) = medians([cpu_s(partial(greedy.pair_merging, dense))], 1)
    yield row("pair merging, 10,000 queries on the area of 100", taken, "s", most=10.0)
    yield row("memory of the process at its peak", _peak_gb(), "GB", most=4.0)


def _peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def directed_search(sizes: Sizes) -> Iterator[Row]:
    """Directed search by kernel, and what moves of single queries add."""
    small = problem_of(sizes.plain_queries // 3)
    begins = plain.random_starts(len(small), 3, seed=1)
    agree("directed search", plain.directed_search(small, begins), search.directed_search(small, begins))
    problem = problem_of(sizes.searched)
    starts = plain.random_starts(len(problem), sizes.starts, seed=1)
    taken, baseline = medians(
        [cpu_s(partial(search.directed_search, problem, starts)),
         cpu_s(partial(plain.directed_search, small, begins))],
        sizes.repeats,
    )  # fmt: skip
    name = f"directed search, {sizes.searched} queries, {sizes.starts} starts"
    yield row(name, taken, "s", most=2.0, baseline=baseline, against="the plain algorithm on a third of 60, 3 starts")
    merged = greedy.pair_merging(problem).cost
    saved = {
        "directed search": planner.directed_search(problem, seed=1).cost,
        "moves of single queries": planner.local_search(problem).cost,
    }
    for what, cost in saved.items():
        yield row(f"saved by {what} beyond pair merging, {sizes.searched} queries", 100 * (1 - cost / merged), "%")


def clients_of(seed: int, clients: int) -> BoxProblem:
    """Clients with one to three queries each, from the paper's generator with a smaller spread."""
    random = np.random.Generator(np.random.PCG64(seed))
    owner = np.repeat(np.arange(clients), random.integers(1, 4, clients))
    found = instances(Setting(len(owner), cluster_share=0.1, spread=25.0), 1, random)[0]
    return BoxProblem(Queries.of(found.low, found.high, clients=random.permutation(owner)), CLIENT_COSTS)


def _allocated(
    work: Callable[[ChannelCosts], Allocation], problem: BoxProblem, count: int
) -> tuple[Allocation, float]:
    """An allocation from nothing, and its CPU seconds."""
    began = time.process_time()
    found = work(ChannelCosts(problem, count))
    return found, time.process_time() - began


def allocation(sizes: Sizes) -> Iterator[Row]:
    """The stronger allocator beside channel merging and k-means."""
    taken: list[float] = []
    baseline: list[float] = []
    ratios: dict[str, list[float]] = {"channel merging": [], "k-means": []}
    for warm in (partial(allocate, seed=0, throws=1), channel_merging, partial(k_means, seed=0)):
        _allocated(warm, clients_of(0, 12), 3)
    for seed in sizes.instances:
        problem = clients_of(seed, sizes.clients)
        strong, seconds = _allocated(partial(allocate, seed=seed), problem, sizes.channels)
        taken.append(seconds)
        merged, seconds = _allocated(channel_merging, problem, sizes.channels)
        baseline.append(seconds)
        means, _ = _allocated(partial(k_means, seed=seed), problem, sizes.channels)
        ratios["channel merging"].append(strong.cost / merged.cost)
        ratios["k-means"].append(strong.cost / means.cost)
    label = f"stronger allocator, {sizes.clients} clients, {sizes.channels} channels"
    yield row(label, float(np.median(taken)), "s", most=5.0, baseline=float(np.median(baseline)),
              against="channel merging")  # fmt: skip
    for name, values in ratios.items():
        share = 100 * float(np.mean(np.array(values) <= 1 + 1e-9))
        yield row(f"at least as good as {name}, of {len(values)} instances", share, "%", least=95.0)
        yield row(f"cost over that of {name}, median", float(np.median(values)), "")
        yield row(f"cost over that of {name}, worst", float(np.max(values)), "")


def replanning(sizes: Sizes) -> Iterator[Row]:
    """A mended plan beside a fresh one after every change."""
    random = np.random.Generator(np.random.PCG64(1))
    problem = problem_of(100 + sizes.changes)
    queries = problem.queries
    replanner = Replanner(FIGURE_12)
    replanner.add(queries.subset(np.arange(100)))
    held = list(range(100))
    mended = fresh = 0.0
    worst = 0.0
    for new in range(100, 100 + sizes.changes):
        gone = held.pop(int(random.integers(len(held))))
        held.append(new)
        mended += cpu_s(partial(replanner.remove, [gone]))()
        mended += cpu_s(partial(replanner.add, queries.subset(np.array([new]))))()
        now = BoxProblem(queries.subset(np.array(held)), FIGURE_12)
        fresh += cpu_s(partial(greedy.pair_merging, now))()
        worst = max(worst, replanner.cost / greedy.pair_merging(now).cost)
    changes = 2 * sizes.changes
    yield row("a change of a mended plan, 100 queries", 1e3 * mended / changes, "ms",
              baseline=1e3 * fresh / sizes.changes, against="a fresh plan")  # fmt: skip
    yield row(f"cost of the mended plan over a fresh one, worst of {sizes.changes}", worst, "", most=1.1)
    yield row("changes per fresh plan", changes / replanner.fresh_plans, "")
