"""Where brokers are drawn: where the topology has them on a map or a plane, else where a layout puts them.

A layout begins with rings around a middle, in which each branch of a tree of shortest ways has as much of the circle as
it has leaves. Where brokers are not too many, springs along links and a push between any two move them from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.spark.graph import Network
from brokers.engine.runfolder import RunFolder
from brokers.errors import BrokerlabError
from scenarios.running import scenario_of
from topology.build import build
from topology.errors import TopologyError
from topology.overlay import adjacency

Floats = NDArray[np.float64]
SPRINGS_MOST = 1_200  # brokers that are moved by springs
_ROUNDS = 60


class Places(NamedTuple):
    """A place per broker, in [0, 1] from left to right and from top to bottom."""

    at: Floats
    how: str  # a sentence
    order: NDArray[np.int64]  # brokers so that neighbours are near to one another, for a list of them


def places(run: RunFolder, network: Network, *, trust: bool = False) -> Places:
    """Where each broker and server of a run is drawn."""
    there = drawn_links(run, network)[::2]
    a, b = network.link_a[there], network.target[::2][there]
    rings, order = _rings(network.brokers, a, b)
    known = _geography(run, network.names, trust)
    if known is not None:
        return Places(_fitted(_with_servers(known, a, b)), "Brokers lie where the topology has them.", order)
    moves = network.brokers <= SPRINGS_MOST
    how = "by springs along links" if moves else "in rings around a middle"
    moved = _springs(rings, a, b) if moves else rings
    return Places(_fitted(moved), f"The topology has no places: brokers are laid out {how}.", order)


def drawn_links(run: RunFolder, network: Network) -> NDArray[np.bool_]:
    """Which directed links there were: not those that could have arisen and never carried anything, either way."""
    if network.latent is None:
        return np.ones(network.source.size, np.bool_)
    messages = run.read("links", ["link", "messages"]).sort_by("link")["messages"].to_numpy()
    return ~network.latent.astype(np.bool_) | np.repeat(messages.reshape(-1, 2).sum(1) > 0, 2)


def _geography(run: RunFolder, names: Sequence[str], trust: bool) -> Floats | None:
    """Longitude and latitude, or x and y, of the topology that the scenario names; servers have none.

    A run folder may come from anybody. It gets no file read that it names, unless it is trusted.
    """
    section = run.manifest["scenario"]["topology"]
    if not trust and (
        ":" in section["kind"] or "/" in str(section.get("path", "")) or "." in str(section.get("path"))
    ):
        return None
    try:
        scenario = scenario_of(run, trust=trust)
        model = scenario.model
        overlay = build(
            model.topology.kind, scenario.topology_params, model.links, model.seed, scenario.folder,
            scenario.topology.object,
        )  # fmt: skip
    except (BrokerlabError, TopologyError):  # a file of the scenario is not here: then a layout has to do
        return None
    if tuple(names[: overlay.brokers]) != overlay.names or np.isnan(overlay.position).all():
        return None
    found = np.full((len(names), 2), np.nan)
    found[: overlay.brokers] = overlay.position
    if overlay.on_globe:
        found[:, 0] *= np.cos(np.radians(np.nanmean(found[:, 1])))
    found[:, 1] *= -1  # north is up
    return found


def _with_servers(known: Floats, a: NDArray[np.int64], b: NDArray[np.int64]) -> Floats:
    """Who has no place is put beside its first neighbour that has one, else in the middle."""
    found, step = known.copy(), np.nanmax(np.nanmax(known, 0) - np.nanmin(known, 0)) * 0.03 or 1.0
    for broker in np.flatnonzero(np.isnan(known).any(1)):
        near = [other for other in (*b[a == broker], *a[b == broker]) if not np.isnan(known[other]).any()]
        found[broker] = known[near[0]] + step if near else np.nanmean(known, 0)
    return found


def _rings(brokers: int, a: NDArray[np.int64], b: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
    """Places in rings around the middle of each part, and the order in which a walk meets the brokers. O(n + E)."""
    graph = adjacency(brokers, a.astype(np.int32), b.astype(np.int32))
    start, neighbour = graph.start.tolist(), graph.neighbour.tolist()
    seen, order, found = [False] * brokers, [], np.zeros((brokers, 2))
    shift = 0.0
    for first in range(brokers):
        if seen[first]:
            continue
        root = _middle(first, start, neighbour)
        children, walk, depth = _spanned(root, start, neighbour, seen)
        leaves = dict.fromkeys(walk, 1)
        for node in reversed(walk):
            if children[node]:
                leaves[node] = sum(leaves[each] for each in children[node])
        span = {root: (0.0, 2 * np.pi)}
        stack = [root]
        while stack:
            node = stack.pop()
            order.append(node)
            low, high = span[node]
            angle = (low + high) / 2
            found[node] = (shift + depth[node] * np.sin(angle), -depth[node] * np.cos(angle))
            for child in children[node]:
                wide = (high - low) * leaves[child] / leaves[node]
                span[child] = (low, low + wide)
                low += wide
            stack += reversed(children[node])
        shift += 2.0 * max(depth.values()) + 1.0
    return found, np.array(order, np.int64)


def _spanned(
    root: int, start: list[int], neighbour: list[int], seen: list[bool]
) -> tuple[dict[int, list[int]], list[int], dict[int, int]]:
    """A tree of fewest links from a root: children by node, the nodes by depth, depths."""
    children: dict[int, list[int]] = {root: []}
    walk, depth = [root], {root: 0}
    seen[root] = True
    for node in walk:
        for other in neighbour[start[node] : start[node + 1]]:
            if not seen[other]:
                seen[other] = True
                children[node].append(other)
                children[other], depth[other] = [], depth[node] + 1
                walk.append(other)
    return children, walk, depth


def _middle(first: int, start: list[int], neighbour: list[int]) -> int:
    """Halfway along a longest shortest way, as two searches find it."""

    def farthest(origin: int) -> list[int]:
        before, walk = {origin: origin}, [origin]
        for node in walk:
            for other in neighbour[start[node] : start[node + 1]]:
                if other not in before:
                    before[other] = node
                    walk.append(other)
        way = [walk[-1]]
        while way[-1] != origin:
            way.append(before[way[-1]])
        return way

    way = farthest(farthest(first)[0])
    return way[len(way) // 2]


def _springs(begin: Floats, a: NDArray[np.int64], b: NDArray[np.int64]) -> Floats:
    """Fruchterman and Reingold's forces, from a given beginning. O(n²) a round."""
    n = len(begin)
    at, ideal = _fitted(begin), np.sqrt(1.0 / max(n, 1))
    for turn in range(_ROUNDS):
        apart = at[:, None, :] - at[None, :, :]
        square = np.maximum((apart**2).sum(2), 1e-6)
        push = (apart * (ideal**2 / square)[:, :, None]).sum(1)
        along = at[a] - at[b]
        pull = along * (np.sqrt((along**2).sum(1)) / ideal)[:, None]
        np.subtract.at(push, a, pull)
        np.add.at(push, b, pull)
        far = np.maximum(np.sqrt((push**2).sum(1)), 1e-9)
        at = at + push * (np.minimum(far, 0.1 * (1 - turn / _ROUNDS)) / far)[:, None]
    return at


def _fitted(at: Floats) -> Floats:
    """Into [0, 1], as large as fits; the middle of the shorter side in the middle."""
    low, high = at.min(0), at.max(0)
    wide = float((high - low).max()) or 1.0
    return (at - low) / wide + (1 - (high - low) / wide) / 2
