"""How far objects travel by keyword, and how often keywords are asked for, in the mean."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokers.rates import Demand
from protocols.expected import Tree, flow, trees

Floats = NDArray[np.float64]

_GROUPS = 128  # keywords of like popularity are counted together


class Keywords:
    """The keywords of a service's subscriptions: `weights` of one of each group, `counts` of how many are in it."""

    def __init__(self, demand: Demand) -> None:
        weights = np.asarray(demand.more("keywords")[0])  # falling: the most popular first
        cuts = np.unique(np.geomspace(1, weights.size + 1, _GROUPS).astype(np.int64)) - 1
        self.demand = demand
        self.counts = np.diff(cuts).astype(np.float64)
        self.weights = np.add.reduceat(weights, cuts[:-1]) / self.counts
        self.words = max(demand.more("words"), default=1.0)  # of a subscription, and of an object

    def wanted(self, subscriptions: Floats) -> Floats:
        """[node, group]: how likely one of so many subscriptions has a keyword."""
        return -np.expm1(np.outer(subscriptions, self.words * np.log1p(-np.minimum(self.weights, 1.0 - 1e-12))))

    def objects(self) -> float:
        """Events per second of objects, and of their ends, that go where one of their keywords is wanted."""
        demand = self.demand

        def crosses(tree: Tree) -> Floats:
            one = self.wanted(tree.behind(demand.interests)) @ (self.weights * self.counts)
            found: Floats = 1.0 - np.maximum(0.0, 1.0 - one) ** self.words
            return found

        return flow(demand, demand.publications + demand.of("expiries"), crosses)

    def asked(self) -> float:
        """How often per second a keyword is asked for: in the mean once in a run over each link that needs it."""
        demand = self.demand
        if demand.settled:
            return 0.0
        anywhere = np.zeros(demand.nodes)
        anywhere[0] = 1.0
        total = 0.0
        for tree in trees(demand, anywhere):
            behind = tree.behind(demand.interests)
            either_way = self.wanted(behind) + self.wanted(demand.interests.sum() - behind)
            total += float((either_way @ self.counts)[tree.below].sum())
        return total / demand.duration_s
