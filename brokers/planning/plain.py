"""The algorithms of the source, word by word, for any merge procedure and any size. Oracle and baseline.

`exhaustive` and `partitions` are optimal (Appendix II); `pair_merging`, `directed_search` and its variant with
moves are heuristics (sections 6.2 and 6.3). Sets are tuples of rows, ascending. Of several equal steps the one
with the lowest sets is taken: merges first, then splits, then moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from brokers.indexes.contract import Ids
from brokers.planning.kernels import best_partition
from brokers.planning.model import TooLarge
from brokers.planning.plan import Plan, by_first_row, members_of
from brokers.planning.problem import Problem

Set = tuple[int, ...]
Pair = tuple[Set, Set]

EXHAUSTIVE_QUERIES_MAX = 4
PARTITION_QUERIES_MAX = 14
EPSILON = 1e-12  # a gain below this part of the costs it is taken from is rounding


def exhaustive(problem: Problem) -> tuple[list[Set], float, int]:
    """The cheapest of all collections of sets that cover the queries, its absolute cost, and how many
    there were. Figure 21, O(2^(2^n))."""
    n = len(problem)
    if n > EXHAUSTIVE_QUERIES_MAX:
        raise TooLarge(
            f"the exhaustive algorithm would weigh 2^{(1 << n) - 1} collections of sets of {n} queries; "
            f"it takes up to {EXHAUSTIVE_QUERIES_MAX}; use the subset programme"
        )
    costs = problem.subset_costs()
    sets = range(1, 1 << n)
    best: list[int] = []
    cost_min, seen = np.inf, 0
    for choice in range(1, 1 << len(sets)):
        chosen = [mask for i, mask in enumerate(sets) if choice >> i & 1]
        covered = 0
        for mask in chosen:
            covered |= mask
        if covered != (1 << n) - 1:
            continue
        seen += 1
        cost = float(sum(costs[mask] for mask in chosen))
        if cost < cost_min:
            best, cost_min = chosen, cost
    return [tuple(i for i in range(n) if mask >> i & 1) for mask in best], cost_min, seen


def partitions(n: int) -> Iterator[list[int]]:
    """Every partition of n queries once, as the number of each one's set, in the order of Figure 22."""
    numbers = [0] * n

    def place(row: int, used: int) -> Iterator[list[int]]:
        if row == n:
            yield numbers
            return
        for number in range(used + 1):
            numbers[row] = number
            yield from place(row + 1, max(used, number + 1))

    return place(0, 0)


def partition(problem: Problem) -> Plan:
    """The optimum by weighing every partition. Figure 23; Bell(n) leaves."""
    n = len(problem)
    if n > PARTITION_QUERIES_MAX:
        raise TooLarge(
            f"the partition algorithm would weigh about {bell(n):.3g} partitions of {n} queries; "
            f"it takes up to {PARTITION_QUERIES_MAX}; use the subset programme"
        )
    best, cost_min, leaves = best_partition(problem.subset_costs(), n)
    return Plan.of(problem, best, cost_min - problem.relevant_cost, leaves, 0, "partition")


def bell(n: int) -> int:
    """The number of partitions of n things. O(n^2)."""
    row = [1]
    for _ in range(n):
        following = [row[-1]]
        for value in row:
            following.append(following[-1] + value)
        row = following
    return row[0]


class Ledger:
    """The absolute costs of sets, each computed once, and how many gains were asked for."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._known: dict[Set, float] = {}
        self.evaluated = 0

    def __call__(self, members: Set) -> float:
        if members not in self._known:
            self._known[members] = self._problem.set_cost(list(members)) if members else 0.0
        return self._known[members]

    def gain(self, old: Pair, new: Pair) -> float:
        """What replacing two sets by two others saves (one of each may be empty); 0 where it is rounding."""
        self.evaluated += 1
        before = self(old[0]) + self(old[1])
        gain = before - (self(new[0]) + self(new[1]))
        return gain if gain > EPSILON * before else 0.0


def union(a: Set, b: Set) -> Set:
    return tuple(sorted(a + b))


def pair_merging(problem: Problem) -> Plan:
    """Merge the pair of sets that saves most until none saves anything. Section 6.2; O(n^2) gains."""
    cost = Ledger(problem)
    sets: list[Set] = [(row,) for row in range(len(problem))]
    profit = {
        (a, b): cost.gain((a, b), (union(a, b), ())) for i, a in enumerate(sets) for b in sets[i + 1 :]
    }
    applied = 0
    while profit:
        pair = min(profit, key=lambda pair: (-profit[pair], pair))
        if profit[pair] <= 0:
            break
        a, b = pair
        sets = sorted({*sets} - {a, b})
        profit = {key: gain for key, gain in profit.items() if not {a, b} & {*key}}
        merged = union(a, b)
        for other in sets:
            low, high = min(merged, other), max(merged, other)
            profit[low, high] = cost.gain((low, high), (union(low, high), ()))
        sets = sorted([*sets, merged])
        applied += 1
    return _plan(problem, sets, cost.evaluated, applied, "pair merging")


def descend(problem: Problem, start: Ids, moves: bool) -> Plan:
    """Steepest descent: merge two sets, split one query off, with `moves` also move a query to another set."""
    cost = Ledger(problem)
    sets: list[Set] = sorted(tuple(int(row) for row in group) for group in members_of(by_first_row(start)))
    applied = 0
    while True:
        best: float = 0.0
        change: tuple[Pair, Pair] = ((), ()), ((), ())
        for old, new in _changes(sets, moves):
            gain = cost.gain(old, new)
            if gain > best:
                best, change = gain, (old, new)
        if best <= 0.0:
            return _plan(problem, sets, cost.evaluated, applied, "descent")
        old, new = change
        sets = sorted({*sets} - {*old} | {group for group in new if group})
        applied += 1


def _changes(sets: Sequence[Set], moves: bool) -> Iterator[tuple[Pair, Pair]]:
    for i, a in enumerate(sets):
        for b in sets[i + 1 :]:
            yield (a, b), (union(a, b), ())
    rows = sorted((row, group) for group in sets for row in group)
    for row, group in rows:
        if len(group) > 1:
            yield (group, ()), (_without(group, row), (row,))
    if moves:
        for row, group in rows:
            for other in sets:
                # Taking the only query of a set to another is a merge.
                if other != group and len(group) > 1:
                    yield (group, other), (_without(group, row), union(other, (row,)))


def _without(group: Set, row: int) -> Set:
    return tuple(other for other in group if other != row)


def random_starts(n: int, count: int, seed: int) -> NDArray[np.int64]:
    """The starts of section 6.3 [count, n]: all apart, all together, then random partitions: each query in
    one of n sets, all equally likely."""
    random = np.random.Generator(np.random.PCG64(seed))
    starts = random.integers(0, max(n, 1), (count, n))
    starts[:1] = np.arange(n)
    starts[1:2] = 0
    return starts


def directed_search(problem: Problem, starts: Iterable[Ids], moves: bool = False) -> Plan:
    """The best of the descents from several starts; of equal ones the first. Section 6.3."""
    found = [descend(problem, start, moves) for start in starts]
    best = min(found, key=lambda plan: problem.total(plan.sets()))
    evaluated, applied = sum(plan.evaluated for plan in found), sum(plan.applied for plan in found)
    return Plan.of(problem, best.group, best.lower_bound, evaluated, applied, "directed search")


def _plan(problem: Problem, sets: Sequence[Set], evaluated: int, applied: int, algorithm: str) -> Plan:
    group = np.empty(len(problem), np.int64)
    for number, members in enumerate(sets):
        group[list(members)] = number
    return Plan.of(problem, group, 0.0, evaluated, applied, algorithm)
