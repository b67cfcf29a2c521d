"""What the built-in protocols expect to handle: how far publications and changes travel, in the mean.

On a tree rooted where a publication enters, it crosses a link if somebody behind it wants it. With S interests
behind, each of which asks for a share p of the publications, independently, that is 1 - (1 - p)^S. Interests of
neighbours that are alike make it less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokers.rates import Demand
from protocols.routes import Routes

Floats = NDArray[np.float64]

ROOTS_MAX = 32  # of more brokers where publications enter, so many stand for all


@dataclass(frozen=True)
class Tree:
    """One rooted tree, and how much enters at its root."""

    root: int
    rate: float
    enter: NDArray[np.int32]
    leave: NDArray[np.int32]
    below: NDArray[np.bool_]  # per node: in the tree, and not its root
    arrives: Floats  # per node: how likely a message that crosses all links to it is not lost

    def behind(self, amounts: Floats) -> Floats:
        """Per node: the sum over its subtree. O(nodes)."""
        inside = self.below.copy()
        inside[self.root] = True
        at = np.bincount(self.enter[inside], weights=amounts[inside], minlength=amounts.size)
        sums = np.concatenate(([0.0], np.cumsum(at)))
        return sums[self.leave] - sums[self.enter]


def trees(demand: Demand, rates: Floats, per_publisher: bool = False) -> Iterator[Tree]:
    """The trees along which what enters at these rates flows: those of the busiest brokers stand for all."""
    roots = np.flatnonzero(rates > 0)
    roots = np.sort(roots[np.argsort(-rates[roots], kind="stable")][:ROOTS_MAX])
    if not roots.size:
        return
    routes = Routes(demand.links, demand.overlay.is_tree, roots.astype(np.int32), per_publisher)
    scale = float(rates.sum() / rates[roots].sum())
    for tree, root in enumerate(routes.roots.tolist()):
        below = routes.up[tree] >= 0
        arrives = _arrives(demand, routes, tree, root)
        yield Tree(root, scale * float(rates[root]), routes.enter[tree], routes.leave[tree], below, arrives)


def _arrives(demand: Demand, routes: Routes, tree: int, root: int) -> Floats:
    found = np.ones(demand.nodes)
    if not demand.overlay.loss.any():
        return found
    ahead = [root]
    while ahead:
        node = ahead.pop()
        for child in routes.children(tree, node).tolist():
            found[child] = found[node] * (1.0 - demand.overlay.loss[routes.up[tree, child] >> 1])
            ahead.append(child)
    return found


def flow(
    demand: Demand, rates: Floats, crosses: Callable[[Tree], Floats], per_publisher: bool = False
) -> float:
    """Events per second of what enters at these rates, and crosses the link to each node with some probability."""
    return sum(
        tree.rate * (1.0 + float((crosses(tree) * tree.arrives)[tree.below].sum()))
        for tree in trees(demand, rates, per_publisher)
    )


def to_wanted(demand: Demand, share: float, per_publisher: bool = False) -> float:
    """Events per second of publications that travel to the brokers of interests that ask for this share of them."""
    wanted = demand.interests * -np.log1p(-min(share, 1.0 - 1e-12))
    return flow(demand, demand.publications, lambda tree: -np.expm1(-tree.behind(wanted)), per_publisher)


def to_some(demand: Demand, rates: Floats, weights: Floats, count: float) -> float:
    """Events per second of what travels to so many recipients, drawn by weight."""
    total = max(float(weights.sum()), 1e-300)

    def crosses(tree: Tree) -> Floats:
        found: Floats = 1.0 - np.maximum(0.0, 1.0 - tree.behind(weights) / total) ** count
        return found

    return flow(demand, rates, crosses)


def to_all(demand: Demand, rates: Floats) -> float:
    """Events per second of what every broker hears."""
    if demand.overlay.loss.any():
        return flow(demand, rates, lambda tree: np.ones(demand.nodes))
    return float(rates.sum()) * demand.overlay.brokers


def across(demand: Demand) -> float:
    """Links between two brokers, in the mean. O(nodes)."""
    brokers = demand.overlay.brokers
    ones = np.zeros(demand.nodes)
    ones[:brokers] = 1.0
    first = np.zeros(demand.nodes)
    first[0] = 1.0
    total = 0.0
    for tree in trees(demand, first):
        inside = tree.behind(ones)[tree.below]
        total += float((2.0 * inside * (brokers - inside)).sum())
    return total / brokers**2


def to_root(demand: Demand, rates: Floats, root: int) -> float:
    """Events per second of what climbs to one node."""
    one = np.zeros(demand.nodes)
    one[root] = 1.0
    return float(rates.sum()) + sum(float(tree.behind(rates)[tree.below].sum()) for tree in trees(demand, one, True))


def to_publishers(demand: Demand, rates: Floats, per_publisher: bool) -> float:
    """Events per second of interests that travel over every link that a publication may come by."""
    roots = np.flatnonzero(demand.publishes)[:ROOTS_MAX].astype(np.int32)
    routes = Routes(demand.links, demand.overlay.is_tree, roots, per_publisher)
    if routes.flood:
        return to_all(demand, rates)
    return float((rates * (1 + np.bitwise_count(routes.masks()).sum(axis=1))).sum())
