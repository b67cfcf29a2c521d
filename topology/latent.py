"""Latent links: candidates that carry nothing until somebody opens them.

They are links of the overlay with delays of their own, so that lookahead counts them; all pairs are not listed but
described (`topology.described`). What asks for neighbours, paths and trees does not see them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from topology import draws
from topology.described import Described, refuse_too_many
from topology.distances import distances
from topology.errors import TopologyError
from topology.linking import delays_between
from topology.links import Latent
from topology.overlay import BURSTS, Overlay, broker_number, hops_from

_Pairs = set[tuple[int, int]]


def with_latent(overlay: Overlay, latent: Latent | None, seed: int = 0) -> Overlay:
    """The overlay with candidates between its brokers; what is drawn of them follows from the seed.

    Raises
    ------
    TopologyError
        If a pair names a broker that there is not, or two that have a link already.
    """
    if latent is None:
        return overlay
    if latent.all:
        return _described(overlay, latent, seed)
    pairs = _named(overlay, latent) | (set() if latent.hops is None else _near(overlay, latent.hops))
    pairs |= set() if latent.drawn is None else _drawn(overlay, latent.drawn, seed)
    if not pairs:
        return replace(overlay, latent=np.zeros(overlay.links, np.bool_), open_most=latent.most or 0)
    ends = np.array(sorted(pairs), np.int64)
    if latent.delay is None:
        delay = _delays(overlay, ends)
    else:
        delay = delays_between(latent.delay, ends[:, 0], ends[:, 1], overlay.position, overlay.on_globe, seed, [])
    link_a, link_b = (np.concatenate([known, new]) for known, new in zip((overlay.link_a, overlay.link_b), ends.T))
    order, nothing = np.lexsort((link_b, link_a)), np.zeros(len(ends))

    def column(known: Any, new: Any) -> Any:
        return np.concatenate([known, new])[order].astype(known.dtype)

    return replace(
        overlay,
        link_a=link_a[order].astype(np.int32), link_b=link_b[order].astype(np.int32),
        delay_ns=column(overlay.delay_ns, delay), jitter_ns=column(overlay.jitter_ns, nothing),
        bandwidth_bps=column(overlay.bandwidth_bps, nothing), loss=column(overlay.loss, nothing),
        bursts=None if overlay.bursts is None else column(overlay.bursts, np.zeros((len(ends), BURSTS))),
        latent=column(np.zeros(overlay.links, np.bool_), np.ones(len(ends), np.bool_)),
        open_most=latent.most or 0,
    )  # fmt: skip


def _described(overlay: Overlay, latent: Latent, seed: int) -> Overlay:
    """Any two brokers may get a link; what there is to be refused of its delay is refused now, of the first pair."""
    assert latent.delay is not None
    described = Described(latent.delay, seed, overlay.position, overlay.on_globe)
    refuse_too_many(overlay.numbers)
    described.delays(np.zeros(1, np.int64), np.ones(1, np.int64))
    return replace(overlay, described=described, open_most=latent.most or 0)


def _named(overlay: Overlay, latent: Latent) -> _Pairs:
    """The pairs that are listed, each with its lower end first."""
    number_of = {name: b for b, name in enumerate(overlay.names)}
    there = set(zip(overlay.link_a.tolist(), overlay.link_b.tolist()))
    found: _Pairs = set()
    for i, pair in enumerate(latent.pairs):
        where = f"links: latent.pairs[{i}]"
        a, b = sorted(broker_number(end, number_of, where) for end in pair)
        if a == b or (a, b) in there:
            why = "is one broker" if a == b else "have a link already"
            raise TopologyError(f"{where}: {overlay.names[a]!r} and {overlay.names[b]!r} {why}")
        found.add((a, b))
    return found


def _near(overlay: Overlay, hops: int) -> _Pairs:
    """All pairs of brokers that are 2 to so many links apart. O(brokers * links)."""
    found: _Pairs = set()
    for a in range(overlay.brokers):
        away = hops_from(overlay.adjacency, a)
        found |= {(a, b) for b in np.flatnonzero((away >= 2) & (away <= hops)).tolist() if b > a}
    return found


def _drawn(overlay: Overlay, count: int, seed: int) -> _Pairs:
    """For each broker so many others that it has no link to. O(brokers²)."""
    brokers = overlay.brokers
    there = overlay.adjacency
    found: _Pairs = set()
    for a in range(brokers):
        key = draws.stream(seed, a, "topology/latent")
        lot = draws.uniforms(key, 0, brokers)
        lot[a] = 2.0
        lot[there.neighbour[there.start[a] : there.start[a + 1]]] = 2.0
        nearest = np.argsort(lot, kind="stable")[:count]
        found |= {(min(a, b), max(a, b)) for b in nearest[lot[nearest] < 1.0].tolist()}
    return found


def _delays(overlay: Overlay, ends: Any) -> Any:
    """By pair, the delay of the quickest way between the two."""
    start, neighbour, link = (column.tolist() for column in overlay.adjacency)
    delay = overlay.delay_ns.tolist()
    near = {
        b: [(neighbour[at], delay[link[at]]) for at in range(start[b], start[b + 1])] for b in range(len(start) - 1)
    }
    found = np.zeros(len(ends), np.int64)
    for a in np.unique(ends[:, 0]).tolist():
        reached = distances(near, a)
        mine = ends[:, 0] == a
        found[mine] = [reached[b] for b in ends[mine, 1].tolist()]
    return found
