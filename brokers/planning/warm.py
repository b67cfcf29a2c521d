"""Compile the kernels of query merging and channel allocation, or load them from the cache."""

from __future__ import annotations

import numpy as np

from brokers.planning.allocation import ChannelCosts, channel_merging, exhaustive, k_means, lower_bound
from brokers.planning.model import Costs, Queries
from brokers.planning.planner import ALGORITHMS, plan
from brokers.planning.problem import BoxProblem
from brokers.planning.procedures import PROCEDURES
from brokers.planning.replan import ChannelReplanner, Replanner
from brokers.planning.sizes import Area, Count, Database, Histogram
from brokers.planning.stronger import allocate

_COSTS = Costs(3.0, 1.0, 0.5, share=0.1)


def warm() -> None:
    """Every algorithm under every way of merging and measuring; allocations; plans that are mended."""
    corner = np.arange(14).reshape(7, 2) % 5 * 1.0
    boxes = Queries.of(corner, corner + 3, clients=np.arange(7) % 4)
    points = np.arange(60).reshape(30, 2) % 9 * 1.0
    for size in (Area(), Count(Database(points)), Histogram(points, 4)):
        for procedure in PROCEDURES:
            problem = BoxProblem(boxes, _COSTS, size, procedure)
            for algorithm in ALGORITHMS:
                plan(problem, algorithm)
        costs = ChannelCosts(BoxProblem(boxes, _COSTS, size), 2)
        allocate(costs, 0, throws=1)
        channel_merging(costs)
        k_means(costs, 0, starts=1)
        exhaustive(costs)
        lower_bound(costs)
        for replanner in (Replanner(_COSTS, size), ChannelReplanner(_COSTS, 2, size)):
            replanner.add(boxes)
            replanner.remove(boxes.ids[:2])
            replanner.recompute()
