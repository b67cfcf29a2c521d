"""Which shard carries which broker: cut few links, only slow ones, and share the load evenly.

Theory. The shortest delay among cut links is the lookahead: shards exchange once per lookahead, and each
message over a cut link costs about a hop more. So for a threshold T, clusters of brokers joined by links
faster than T are kept whole, and the graph of clusters is cut in two again and again, few links at a time
(`bisection`). The thresholds tried run from none to the highest whose clusters still fit; the partition that
costs least wins, where for one second of work per simulated second

    cost = (1 + imbalance) / shards + share of links cut + WINDOW_NS / lookahead

Deterministic: no draw, ties by number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topology.errors import TopologyError
from topology.overlay import NEVER, Overlay, did_you_mean
from topology.servers import without_servers

IMBALANCE_MAX = 0.10
WINDOW_NS = 1_500_000  # an empty window over two Ray actors, as measured
THRESHOLDS = 5
PAIRS_REFINED_MAX = 64
METHODS = ("auto", "contiguous", "round-robin")


@dataclass(frozen=True, eq=False)
class Partition:
    """Shards of an overlay."""

    assignment: NDArray[np.int32]  # the shard of each broker
    cut_links: NDArray[np.int32]  # undirected links between shards, ascending
    imbalance: float  # heaviest shard over the mean, minus one
    lookahead_ns: int  # shortest delay of a link that is cut, or may arise and be; NEVER if none is

    @property
    def shards(self) -> int:
        """Number of shards."""
        return int(self.assignment.max()) + 1


def partition(
    overlay: Overlay,
    shards: int,
    method: str | Sequence[int] = "auto",
    weight: NDArray[np.float64] | Sequence[float] | None = None,
    apart: bool = False,
) -> Partition:
    """Assign every broker to a shard.

    Parameters
    ----------
    overlay : the network
    shards : how many; at most one per broker
    method : auto; contiguous (runs of broker numbers); round-robin (deliberately bad: cuts nearly all); or a
        list with the shard of each broker
    weight : load of each broker, not negative; 1 each if left out
    apart : whether each server gets a shard of its own, beyond `shards`; else they are on the first

    Raises
    ------
    TopologyError
        If there are more shards than brokers, or the list or the weights do not fit.
    """
    if overlay.servers:
        brokers = partition(without_servers(overlay), shards, method, weight).assignment
        own = shards + np.arange(overlay.servers) if apart else np.zeros(overlay.servers)
        together = np.concatenate([brokers, own]).astype(np.int32)
        load = np.concatenate([np.ones(len(brokers)) if weight is None else weight, np.zeros(overlay.servers)])
        return _measured(overlay, together, int(together.max()) + 1, load)
    n = overlay.brokers
    if not 1 <= shards <= n:
        raise TopologyError(f"partition: {shards} shards for {n} brokers; it takes 1 to {n}")
    load = np.ones(n) if weight is None else np.asarray(weight, np.float64)
    if load.shape != (n,) or not bool(np.isfinite(load).all() and (load >= 0).all()):
        raise TopologyError(f"partition: weight needs {n} finite numbers, none negative")
    if load.sum() <= 0:
        load = np.ones(n)
    if not isinstance(method, str):
        return _measured(overlay, _explicit(method, n, shards), shards, load)
    if method == "round-robin":
        return _measured(overlay, np.arange(n, dtype=np.int32) % shards, shards, load)
    if method == "contiguous":
        return _measured(overlay, _runs(load, shards), shards, load)
    if method != "auto":
        raise TopologyError(f"partition: there is no method {method!r}{did_you_mean(method, METHODS)}")
    if shards == 1 or shards == n or overlay.links == 0:
        return _measured(overlay, _runs(load, shards), shards, load)
    return _auto(overlay, shards, load)


def _explicit(listed: Sequence[int], n: int, shards: int) -> NDArray[np.int32]:
    if len(listed) != n:
        raise TopologyError(f"partition: the list has {len(listed)} entries for {n} brokers")
    for broker, shard in enumerate(listed):
        if isinstance(shard, bool) or not isinstance(shard, (int, np.integer)) or not 0 <= shard < shards:
            raise TopologyError(
                f"partition: broker {broker} is put on shard {shard!r}; shards are 0 to {shards - 1}"
            )
    assignment = np.array(listed, np.int32)
    empty = np.setdiff1d(np.arange(shards), assignment)
    if empty.size:
        raise TopologyError(f"partition: shard {int(empty[0])} has no broker; every shard needs one")
    return assignment


def _runs(load: NDArray[np.float64], shards: int) -> NDArray[np.int32]:
    """Runs of broker numbers of about equal load, each with at least one broker."""
    n = len(load)
    middle = np.cumsum(load) - load / 2.0
    assignment = np.minimum((middle / load.sum() * shards).astype(np.int64), shards - 1)
    first = np.searchsorted(assignment, np.arange(shards))
    for shard in range(1, shards):
        first[shard] = min(max(first[shard], first[shard - 1] + 1), n - (shards - shard))
    return (np.searchsorted(first, np.arange(n), side="right") - 1).astype(np.int32)


def _measured(
    overlay: Overlay, assignment: NDArray[np.int32], shards: int, load: NDArray[np.float64]
) -> Partition:
    cut = np.flatnonzero(assignment[overlay.link_a] != assignment[overlay.link_b]).astype(np.int32)
    loads = np.bincount(assignment, weights=load, minlength=shards)
    shortest = [int(overlay.delay_ns[cut].min())] if cut.size else []
    if overlay.described is not None and shards > 1:  # any of those may run between two shards
        shortest.append(overlay.described.shortest_ns)
    return Partition(
        assignment=assignment.astype(np.int32),
        cut_links=cut,
        imbalance=float(loads.max() * shards / loads.sum() - 1.0),
        lookahead_ns=min(shortest, default=NEVER),
    )


# ---- the automatic method ----------------------------------------------------------------------------


def _auto(overlay: Overlay, shards: int, load: NDArray[np.float64]) -> Partition:
    mean = load.sum() / shards
    limit = max(mean * (1.0 + IMBALANCE_MAX), mean + load.max() / 2.0)
    levels = np.unique(overlay.delay_ns)  # threshold i keeps links faster than levels[i] whole
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high + 1) // 2
        cluster = _clusters(overlay, int(levels[middle]))
        if np.bincount(cluster, weights=load).max() <= limit and cluster.max() + 1 >= shards:
            low = middle
        else:
            high = middle - 1
    tried = sorted({round(low * step / (THRESHOLDS - 1)) for step in range(THRESHOLDS)})
    found = [_by_threshold(overlay, shards, load, int(levels[i])) for i in tried]
    heaviest = min(p.imbalance for p in found)
    allowed = max(IMBALANCE_MAX, heaviest) + 1e-9
    return min((p for p in found if p.imbalance <= allowed), key=lambda p: _cost(p, shards, overlay.links))


def _cost(found: Partition, shards: int, links: int) -> float:
    return (
        (1.0 + found.imbalance) / shards
        + found.cut_links.size / max(links, 1)
        + WINDOW_NS / found.lookahead_ns
    )


def _clusters(overlay: Overlay, threshold_ns: int) -> NDArray[np.int64]:
    """Number of the cluster of each broker, joined by links faster than the threshold."""
    from topology import bisection

    lowest = bisection.components(
        overlay.brokers, overlay.link_a, overlay.link_b, overlay.delay_ns < threshold_ns
    )
    return np.unique(lowest, return_inverse=True)[1].reshape(-1)


def _by_threshold(overlay: Overlay, shards: int, load: NDArray[np.float64], threshold_ns: int) -> Partition:
    cluster = _clusters(overlay, threshold_ns)
    count = int(cluster.max()) + 1
    cluster_load = np.bincount(cluster, weights=load, minlength=count).astype(np.float64)
    a, b = cluster[overlay.link_a], cluster[overlay.link_b]
    graph = _Graph.of_links(a, b, count, cluster_load)
    shard_of = np.zeros(count, np.int64)
    mean = load.sum() / shards
    depths = (shards - 1).bit_length()
    pending = [(np.arange(count), 0, shards, 1)]
    while pending:
        nodes, first, here, depth = pending.pop()
        if here == 1:
            shard_of[nodes] = first
            continue
        left = here // 2
        limit = mean * (
            1.0 + IMBALANCE_MAX * depth / depths
        )  # each level may use its part of what is allowed
        side = _halves(graph.part(nodes), left, here - left, limit)
        pending.append((nodes[side == 0], first, left, depth + 1))
        pending.append((nodes[side == 1], first + left, here - left, depth + 1))
    _refine_pairs(graph, shard_of, shards)
    return _measured(overlay, shard_of[cluster].astype(np.int32), shards, load)


@dataclass(frozen=True, eq=False)
class _Graph:
    """Clusters and the strengths of what joins them, as rows of neighbours."""

    start: NDArray[np.int64]
    neighbour: NDArray[np.int64]
    strength: NDArray[np.int64]
    load: NDArray[np.float64]

    @staticmethod
    def of_links(a: NDArray[np.int64], b: NDArray[np.int64], count: int, load: NDArray[np.float64]) -> _Graph:
        between = a != b
        source = np.concatenate([a[between], b[between]])
        target = np.concatenate([b[between], a[between]])
        pair, strength = np.unique(source * count + target, return_counts=True)
        start = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(pair // count, minlength=count), out=start[1:])
        return _Graph(start, pair % count, strength.astype(np.int64), load)

    def part(self, nodes: NDArray[np.int64]) -> _Graph:
        """The same among some nodes only, renumbered in their order."""
        size = len(self.load)
        if len(nodes) == size:
            return self
        new = np.full(size, -1, np.int64)
        new[nodes] = np.arange(len(nodes))
        source = new[np.repeat(np.arange(size), np.diff(self.start))]
        target = new[self.neighbour]
        keep = (source >= 0) & (target >= 0)
        start = np.zeros(len(nodes) + 1, np.int64)
        np.cumsum(np.bincount(source[keep], minlength=len(nodes)), out=start[1:])
        return _Graph(start, target[keep], self.strength[keep], self.load[nodes])


def _halves(graph: _Graph, left: int, right: int, limit: float) -> NDArray[np.int8]:
    """Sides 0 and 1, in the proportion of the shards each will hold and with at least as many nodes.

    `limit` is what a shard may carry at this level.
    """
    from topology import bisection

    n, total = len(graph.load), graph.load.sum()
    target = total * left / (left + right)
    step = graph.load.max() / 2.0
    cap_0 = max(left * limit, target + step)
    cap_1 = max(right * limit, total - target + step)
    far = int(bisection.farthest(graph.start, graph.neighbour, 0))
    opposite = int(bisection.farthest(graph.start, graph.neighbour, far))
    hub = int(np.argmax(np.diff(graph.start)))
    best: tuple[float, int] | None = None
    chosen = np.zeros(n, np.int8)
    for origin in dict.fromkeys((far, opposite, hub)):
        side = bisection.grow(graph.start, graph.neighbour, graph.strength, graph.load, target, origin)
        result = bisection.refine(
            graph.start, graph.neighbour, graph.strength, graph.load, side, cap_0, cap_1, 8
        )
        if best is None or result < best:
            best, chosen = result, side
    for needy, needed in ((0, left), (1, right)):
        short = needed - int((chosen == needy).sum())
        if short > 0:  # only where shards are nearly as many as nodes: the lightest change sides
            others = np.flatnonzero(chosen != needy)
            chosen[others[np.argsort(graph.load[others], kind="stable")[:short]]] = needy
    return chosen


def _refine_pairs(graph: _Graph, shard_of: NDArray[np.int64], shards: int) -> None:
    """Once more, pair by pair of neighbouring shards, which the cuts in two could not see together."""
    from topology import bisection

    if shards < 3:
        return
    source = np.repeat(np.arange(len(graph.load)), np.diff(graph.start))
    a, b = shard_of[source], shard_of[graph.neighbour]
    pairs, strength = np.unique((a * shards + b)[a < b], return_counts=True)
    strongest = np.argsort(-strength, kind="stable")[:PAIRS_REFINED_MAX]
    cap = graph.load.sum() / shards * (1.0 + IMBALANCE_MAX)
    for pair in pairs[strongest].tolist():
        one, other = divmod(pair, shards)
        nodes = np.flatnonzero((shard_of == one) | (shard_of == other))
        part = graph.part(nodes)
        side = (shard_of[nodes] == other).astype(np.int8)
        caps = [max(cap, float(part.load[side == s].sum())) for s in (0, 1)]
        bisection.refine(part.start, part.neighbour, part.strength, part.load, side, caps[0], caps[1], 4)
        if 0 < side.sum() < len(side):
            shard_of[nodes] = np.where(side == 1, other, one)
