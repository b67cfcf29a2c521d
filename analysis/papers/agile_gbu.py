"""Readings of GBU in the AGILE paper, counted without an index: which of them gives its rows of tables 4 and 5.

The paper describes GBU in a paragraph (section 4.4): an update within the bounding box of a leaf is free, and what else
is done lies with another paper. Its rows change with the rate of updates in a way of their own: at UP = 10,000 three in
four updates still move a region, and yet nearly three times as many profiles are post-filtered as by EAGER. Regions
that are wider everywhere would move less often; a few that are far too wide, beside many that fit, would do both.

What is tried: how far nodes lie apart at least; whether a region may end at an end of its interval, or only at nodes
beside it; whether a region is replaced or only ever grows; and what becomes of an interval beyond the last node, at
one end of the list or at both: a region without an end there, or one out of scope, which is everything and stays so.
Values that walk reach the ends of their domain seldom, and ever more of them the longer they walk. Runs are as long
as the paper's, since that matters here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from analysis.papers.agile_readings import worst
from analysis.papers.agile_workload import ATTRIBUTES, EPSILONS, MESSAGES_FULL, PROFILES_FULL, Load, Workload

PRINTED_MOVED = (0.024, 0.23, 2.2, 20.0, 180.0)  # table 4, GBU, millions
PRINTED_POSTFILTERED = (12.0, 12.0, 14.0, 19.0, 32.0)  # table 5, GBU, millions
WARM = 500  # messages before counting
SCOPES = ("none", "upper", "both")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GbuReading:
    """What the paper leaves open."""

    together: bool = False  # the indexed predicates of a profile are bound all or none
    spacing: float = 0.0  # nodes lie at least so far apart
    beside: bool = False  # a region ends at nodes beyond the ends of its interval, never at these
    grows: bool = False  # a region that is left keeps what it covered
    scope: str = "none"  # the ends of the list beyond which a region is everything: none, upper, both
    share: float = 0.2
    profiles: int = 1_000

    def __str__(self) -> str:
        bound = "together" if self.together else "one by one"
        ends = "beside its interval" if self.beside else "at its interval"
        kept = "grow" if self.grows else "are replaced"
        return f"bound {bound}, nodes {self.spacing:g} apart, regions end {ends} and {kept}, out of scope: {self.scope}"


class GbuCounted(NamedTuple):
    """Millions in 10,000 messages to 500,000 profiles, and the share of bound predicates out of scope in the end."""

    moved: float
    postfiltered: float
    everything: float


def counted(reading: GbuReading, rate: int, messages: int, seed: int) -> GbuCounted:
    """One rate of updates, after some messages that are not counted."""
    work = Workload(Load(reading.profiles, reading.share, together=reading.together, seed=seed))
    indexed = work.load.indexed
    bound = work.table.context.reshape(-1, ATTRIBUTES)[:, :indexed] >= 0
    constant = work.table.constant.reshape(-1, ATTRIBUTES)[:, :indexed]
    centre = np.where(bound, work.values[:, :indexed], constant)
    epsilons = np.array(EPSILONS[:indexed])
    reach = np.stack([centre - epsilons, centre + epsilons], axis=2)
    nodes = [apart(np.unique(reach[:, each]), reading.spacing) for each in range(indexed)]
    scopes = np.array([reading.scope == "both", reading.scope in ("both", "upper")])
    counts = np.zeros(2)
    owed = 0.0
    for at, message in enumerate(work.messages(WARM + messages)):
        if at == WARM:
            counts[:] = 0.0
        counts[1] += _found(message, reach)
        owed += reading.profiles * rate / MESSAGES_FULL
        whole = int(owed)
        owed -= whole
        if whole:
            _update(*work.updates(whole), epsilons, bound, reach, nodes[0], nodes[1], reading.beside, reading.grows,
                    scopes, counts)  # fmt: skip
    scale = PROFILES_FULL / reading.profiles * MESSAGES_FULL / messages / 1e6
    out = np.isinf(reach).all(axis=2)[bound].mean()
    return GbuCounted(float(counts[0]) * scale, float(counts[1]) * scale, float(out))


def apart(nodes: Floats, spacing: float) -> Floats:
    """Nodes of which none follows another too closely."""
    kept = [nodes[0]]
    for node in nodes[1:].tolist():
        if node - kept[-1] >= spacing:
            kept.append(node)
    return np.array(kept)


@njit(cache=True)
def _found(message, reach):
    """How many profiles have all their regions met."""
    found = 0
    for p in range(reach.shape[0]):
        inside = True
        for a in range(reach.shape[1]):
            inside &= reach[p, a, 0] <= message[a] <= reach[p, a, 1]
        found += inside
    return found


@njit(cache=True)
def _update(contexts, attributes, values, epsilons, bound, reach, nodes_0, nodes_1, beside, grows, scopes, counts):
    for i in range(contexts.size):
        p, a = contexts[i], attributes[i]
        if a >= reach.shape[1] or not bound[p, a]:
            continue
        low, high = values[i] - epsilons[a], values[i] + epsilons[a]
        if reach[p, a, 0] <= low and high <= reach[p, a, 1]:
            continue
        counts[0] += 1
        nodes = nodes_0 if a == 0 else nodes_1
        left, right = np.searchsorted(nodes, low, side="right") - 1, np.searchsorted(nodes, high, side="left")
        if beside:
            left -= left >= 0 and nodes[left] == low
            right += right < nodes.size and nodes[right] == high
        if (left < 0 and scopes[0]) or (right == nodes.size and scopes[1]):
            reach[p, a, 0], reach[p, a, 1] = -np.inf, np.inf
            continue
        below = nodes[left] if left >= 0 else -np.inf
        above = nodes[right] if right < nodes.size else np.inf
        reach[p, a, 0] = min(below, reach[p, a, 0]) if grows else below
        reach[p, a, 1] = max(above, reach[p, a, 1]) if grows else above


def off(found: Sequence[GbuCounted]) -> tuple[float, float]:
    """By what factor the worst entry of GBU's row of table 4 and of table 5 is off."""
    moved = worst([each.moved for each in found], PRINTED_MOVED)
    return moved, worst([each.postfiltered for each in found], PRINTED_POSTFILTERED)


def readings(profiles: int) -> Iterator[GbuReading]:
    """Those that are tried: nodes ever farther apart, and where these lie as they fall, all else."""
    for together in (False, True):
        for spacing in (30.0, 100.0, 300.0):
            yield GbuReading(together, spacing, profiles=profiles)
        for beside, grows, scope in product((False, True), (False, True), SCOPES):
            yield GbuReading(together, 0.0, beside, grows, scope, profiles=profiles)
