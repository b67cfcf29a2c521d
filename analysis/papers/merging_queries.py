"""The query generator of the merging paper (section 8.1, Figure 12), for many instances at once.

Of the queries, a share `clustered` comes in clusters, each with `cluster_share` of them (rounded up; the last one
may be smaller). A cluster has an origin, uniform in the database; its queries lie at a normal distance in a uniform
direction. The rest is uniform. The source does not say what becomes of a rectangle that leaves the database; here
its centre is drawn again until it lies inside, the rule under which the source's Figure 14 comes out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from brokers.planning.model import Costs, Queries

FIGURE_12 = Costs(message=365e-5, transmit=3.25e-5, irrelevant=0.16e-5)
SMALL_QUERIES_MAX = 12  # up to here the database is the small one
SMALL_SIDE, LARGE_SIDE = 100.0, 400.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """The parameters of the generator, with the base values of Figure 12."""

    queries: int = 100
    clustered: float = 0.8  # cf
    cluster_share: float = 0.3  # sf
    spread: float = 100.0  # df
    side_min: float = 20.0
    side_max: float = 40.0
    database: float | None = None  # side; None: as in Figure 12

    @property
    def side(self) -> float:
        if self.database is not None:
            return self.database
        return SMALL_SIDE if self.queries <= SMALL_QUERIES_MAX else LARGE_SIDE


def boxes(setting: Setting, runs: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Rectangles of `runs` instances: low, high [runs, queries, 2]."""
    n, side = setting.queries, setting.side
    near = round(setting.clustered * n)
    each = max(1, ceil(setting.cluster_share * near))
    extent = random.uniform(setting.side_min, setting.side_max, (runs, n, 2))
    origin = random.uniform(0, side, (runs, max(1, -(-near // each)), 2))
    cluster = np.minimum(np.arange(n) // each, origin.shape[1] - 1)
    origins = origin[:, cluster].reshape(-1, 2)
    clustered = np.tile(np.arange(n) < near, runs)
    half = extent.reshape(-1, 2) / 2
    centre = np.empty((runs * n, 2))
    left = np.arange(runs * n)
    while len(left):
        angle = random.uniform(0, 2 * np.pi, len(left))
        distance = random.normal(0, setting.spread, len(left))
        beside = origins[left] + distance[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        anywhere = random.uniform(0, side, (len(left), 2))
        centre[left] = np.where(clustered[left, None], beside, anywhere)
        inside = (centre[left] >= half[left]) & (centre[left] <= side - half[left])
        left = left[~inside.all(axis=1)]
    centres = centre.reshape(runs, n, 2)
    return centres - extent / 2, centres + extent / 2


def instances(setting: Setting, runs: int, random: np.random.Generator) -> list[Queries]:
    """The same as checked queries."""
    low, high = boxes(setting, runs, random)
    return [Queries.of(low[run], high[run]) for run in range(runs)]
