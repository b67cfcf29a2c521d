"""Where a broker stands among others that are no tree to it: who passes what on to whom.

A *place* says, of each link by which publications come, over which links they may go on; clients of the broker get
them in any case. Interest travels the other way: what is wanted beyond a link is told over all links from which
publications may go on over it. So one table rules both, and neither goes where the other does not.

Links are of two sorts. Over a *route*, between brokers of one cluster, goes the origin: the cluster from which
something came up, as a number from 1 on, or 0. Over any other link none goes: what comes over it is from the cluster at
its far end. Nothing goes back into the cluster that it came from (*split horizon*).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Annotated, Any

from pydantic import Field

LOCAL = -1  # in place of a link: a client of this broker

ClusterSize = Annotated[
    int | None,
    Field(
        ge=1,
        description="brokers of a cluster, which are numbered one after the other; by default the regions of the "
        "topology are the clusters, and where it has none every broker is one by itself",
    ),
]


@dataclass(frozen=True)
class Place:
    """Of one broker."""

    onward: Mapping[int, tuple[int, ...]]  # link by which publications come, or LOCAL -> links over which they may go
    origin: Mapping[int, int]  # link -> the cluster at its far end; 0: a route, over which the origin is told
    rank: Mapping[int, int]  # link -> of ways to a member of a group those of the lowest rank are taken

    @cached_property
    def told_over(self) -> Mapping[int, tuple[int, ...]]:
        """Link beyond which something is wanted, or LOCAL -> links over which that is told."""
        found: dict[int, list[int]] = {LOCAL: []}
        for link, onward in self.onward.items():
            for beyond in (LOCAL, *onward):
                if link != LOCAL:
                    found.setdefault(beyond, []).append(link)
        return {beyond: tuple(links) for beyond, links in found.items()}

    def heard(self, link: int, origin: int) -> int:
        """The origin of what comes over a link and says this."""
        return self.origin[link] or origin

    def said(self, link: int, origin: int) -> int | None:
        """The origin that is told over a link with what is from there; None: it does not go there."""
        there = self.origin[link]
        if not there:
            return origin
        return None if origin == there else 0


Known = tuple[list[tuple[int, int]], list[tuple[int, int]]]  # (link, origin) heard, (link, origin) told


def spread(places: Sequence[Place], target: Any, home: int) -> dict[int, Known]:
    """What brokers know of an interest of `home` once all are told: by broker."""
    found: dict[int, Known] = {}
    ahead = [(home, LOCAL, 0)]
    while ahead:
        broker, source, origin = ahead.pop()
        heard, told = found.setdefault(broker, ([], []))
        heard.append((source, origin))
        for link in places[broker].told_over.get(source, ()):
            said = places[broker].said(link, origin)
            if said is not None:
                told.append((link, said))
                other = int(target[link])
                ahead.append((other, link ^ 1, places[other].heard(link ^ 1, said)))
    return found


# ---- clusters ------------------------------------------------------------------------------------------


def clusters_of(overlay: Any, size: int | None) -> list[int]:
    """The cluster of each broker, from 1 on."""
    if size is not None:
        return [1 + broker // size for broker in range(overlay.brokers)]
    region = getattr(overlay, "region", None)
    if region is None:
        return list(range(1, overlay.brokers + 1))
    return [1 + int(each) for each in region[: overlay.brokers]]


def neighbours_of(overlay: Any) -> list[set[int]]:
    """The neighbours of each broker, over links that are there from the start."""
    near = overlay.adjacency
    return [set(near.neighbour[near.start[b] : near.start[b + 1]].tolist()) for b in range(overlay.brokers)]


def misfits_of_clusters(overlay: Any, cluster: Sequence[int]) -> list[tuple[str, str]]:
    """What keeps an overlay from having these clusters, in which every two brokers have a link."""
    near = neighbours_of(overlay)
    inside: dict[int, list[int]] = {}
    for broker, number in enumerate(cluster):
        inside.setdefault(number, []).append(broker)
    pairs = (pair for _, brokers in sorted(inside.items()) for pair in combinations(brokers, 2))
    for a, b in pairs:
        if b not in near[a]:
            one, other = overlay.names[a], overlay.names[b]
            return [("protocol", f"has clusters in which every two brokers have a link; {one} and {other} have none")]
    return []


def places_of(node: Any, make: Callable[[Any], list[Place]]) -> list[Place]:
    """The places of all brokers, made once for those of a shard."""
    if "places" not in node.shared:
        node.shared["places"] = make(node.env)
    found: list[Place] = node.shared["places"]
    return found


def links_of(env: Any, broker: int) -> list[int]:
    """The links that leave a broker, by neighbour."""
    start, stop = env.links.out_start[broker], env.links.out_start[broker + 1]
    found: list[int] = env.links.out_link[start:stop].tolist()
    return found
