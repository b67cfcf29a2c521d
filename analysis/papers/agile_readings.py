"""Readings of the AGILE paper's workload, counted without an index: which of them gives tables 4 and 5 together.

Tables 4 and 5 say how often AGILE moves regions, and how many profiles it post-filters. What the paper leaves open
decides both: which predicates are bound to a context, whether those of a profile are bound together, how FP scales with
the profiles, how nodes are promoted, and what is tested before a region escalates (figure 8 tests the value alone,
where the interval may stick out). Here regions are pairs of numbers and nodes stand still, so that many readings can
be counted; the filters of the project stand beside for the reading that is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from analysis.papers.agile_workload import ATTRIBUTES, EPSILONS, MESSAGES_FULL, PROFILES_FULL, Load, Workload

RATES = (1, 10, 100, 1_000, 10_000)
PRINTED_MOVED = (0.024, 0.22, 1.4, 4.0, 11.0)  # table 4, AGILE, millions
PRINTED_POSTFILTERED = (13.0, 19.0, 72.0, 250.0, 700.0)  # table 5, AGILE, millions

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Reading:
    """What the paper leaves open."""

    share: float = 0.2  # of the indexed predicates, bound to a context
    together: bool = False  # those of a profile are bound all or none
    false_positives: float = 1_000.0  # FP at 500,000 profiles, which is scaled with them; 1,000 in the paper
    promotion: float = 0.25  # of nodes of a list, to the next level
    value_only: bool = False  # a region escalates when the value leaves it, not when the interval does
    distance: float = 150.0
    profiles: int = 5_000

    def __str__(self) -> str:
        bound = "together" if self.together else "one by one"
        test = "value" if self.value_only else "interval"
        return f"share {self.share:g} {bound}, FP {self.false_positives:g}, p {self.promotion:g}, {test}"


class Counted(NamedTuple):
    """Millions in 10,000 messages to 500,000 profiles."""

    moved: float
    shrunk: float
    postfiltered: float
    eager_moved: float
    eager_postfiltered: float


def counted(reading: Reading, rate: int, messages: int, seed: int) -> Counted:
    """One rate of updates, after 500 messages that are not counted."""
    load = Load(reading.profiles, reading.share, distance=reading.distance, together=reading.together, seed=seed)
    work = Workload(load)
    indexed = load.indexed
    bound = work.table.context.reshape(-1, ATTRIBUTES)[:, :indexed] >= 0
    constant = work.table.constant.reshape(-1, ATTRIBUTES)[:, :indexed]
    centre = np.where(bound, work.values[:, :indexed], constant)
    reach = np.stack([centre - EPSILONS[:indexed], centre + EPSILONS[:indexed]], axis=2)
    nodes = [_levels(reach[:, each].ravel(), reading.promotion, seed + each) for each in range(indexed)]
    limit = max(1.0, reading.false_positives * reading.profiles / PROFILES_FULL)
    state = _State(centre, bound, reach, np.zeros(centre.shape, np.int64), np.zeros(6))
    owed, warm = 0.0, 500
    for at, message in enumerate(work.messages(warm + messages)):
        if at == warm:
            state.counts[:5] = 0.0
        _match(message, np.array(EPSILONS[:indexed]), *state, limit)
        owed += reading.profiles * rate / MESSAGES_FULL
        whole = int(owed)
        owed -= whole
        if whole:
            contexts, attributes, values = work.updates(whole)
            _update(contexts, attributes, values, np.array(EPSILONS[:indexed]), *state, *nodes[0], *nodes[1],
                    reading.value_only)  # fmt: skip
    scale = PROFILES_FULL / reading.profiles * MESSAGES_FULL / messages / 1e6
    return Counted(*(state.counts[:5] * scale).tolist())


class _State(NamedTuple):
    centre: Floats  # [profiles, indexed]
    bound: NDArray[np.bool_]
    reach: Floats  # [profiles, indexed, 2] K
    level: NDArray[np.int64]
    counts: Floats  # those of `Counted`, and false positives since the last that was heeded


def _levels(ends: Floats, promotion: float, seed: int) -> tuple[Floats, NDArray[np.int64]]:
    """The nodes of each level of a list, one after the other, and where levels begin."""
    nodes = np.unique(ends)
    draws = np.random.Generator(np.random.PCG64([seed, 7])).random(len(nodes))
    levels, floor = [nodes], 1.0
    while len(levels[-1]) > 1:
        floor *= promotion
        levels.append(nodes[draws < floor])
    starts = np.cumsum([0, *(len(each) for each in levels)])
    return np.concatenate(levels), starts.astype(np.int64)


@njit(cache=True)
def _match(message, epsilons, centre, bound, reach, level, counts, limit):
    for p in range(centre.shape[0]):
        found = wanted = True
        failed = -1
        for a in range(centre.shape[1]):
            if not reach[p, a, 0] <= message[a] <= reach[p, a, 1]:
                found = False
                break
            if abs(message[a] - centre[p, a]) > epsilons[a]:
                wanted = False
                if failed < 0:
                    failed = a
        if not found:
            continue
        counts[2] += 1
        counts[4] += wanted
        if not wanted:
            counts[5] += 1
            if counts[5] >= limit:
                counts[5] = 0
                counts[1] += 1
                reach[p, failed, 0] = centre[p, failed] - epsilons[failed]
                reach[p, failed, 1] = centre[p, failed] + epsilons[failed]
                level[p, failed] = 0


@njit(cache=True)
def _update(
    contexts, attributes, values, epsilons, centre, bound, reach, level, counts, nodes_0, starts_0, nodes_1, starts_1,
    value_only,
):  # fmt: skip
    for i in range(contexts.size):
        p, a = contexts[i], attributes[i]
        if a >= centre.shape[1] or not bound[p, a]:
            continue
        counts[3] += 1
        centre[p, a] = values[i]
        low, high = values[i] - epsilons[a], values[i] + epsilons[a]
        if reach[p, a, 0] <= low and high <= reach[p, a, 1]:
            continue
        if value_only and reach[p, a, 0] <= values[i] <= reach[p, a, 1]:
            continue
        counts[0] += 1
        nodes, starts = (nodes_0, starts_0) if a == 0 else (nodes_1, starts_1)
        low, high = min(low, reach[p, a, 0]), max(high, reach[p, a, 1])
        at = level[p, a] + 1
        reach[p, a, 0], reach[p, a, 1] = -np.inf, np.inf
        while at < starts.size - 1:
            mine = nodes[starts[at] : starts[at + 1]]
            left = np.searchsorted(mine, low, side="right") - 1
            if left >= 0 and left + 1 < mine.size and mine[left + 1] >= high:
                reach[p, a, 0], reach[p, a, 1] = mine[left], mine[left + 1]
                break
            at += 1
        level[p, a] = at


def off(found: Sequence[Counted]) -> tuple[float, float]:
    """By what factor the worst row of table 4 and of table 5 is off."""
    moved = worst([each.moved for each in found], PRINTED_MOVED)
    return moved, worst([each.postfiltered for each in found], PRINTED_POSTFILTERED)


def worst(values: Sequence[float], printed: Sequence[float]) -> float:
    """By what factor the worst value is off."""
    return max(max(value, said) / min(value, said) if value else inf for value, said in zip(values, printed))


def readings() -> Iterator[Reading]:
    """Those that are tried."""
    for share, together, promotion, value_only in product((0.2, 0.9), (False, True), (0.25, 0.5), (False, True)):
        for false_positives in (1_000.0, 5_000.0, 7_000.0, 10_000.0):
            yield Reading(share, together, false_positives, promotion, value_only)
