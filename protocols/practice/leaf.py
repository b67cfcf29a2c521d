"""Leaf nodes: clusters below clusters, each of whose brokers dials one of the cluster above.

Rules:
- The brokers of a cluster are all linked to each other, by *routes*. Clusters are numbered, and the first is on top. Of
  any other one each broker *dials* a broker of the cluster above it: the first into which each of its brokers has a
  link, by the link with the least delay. Other links between clusters are not used.
- A broker tells over its routes what its clients want and what is wanted below it, and the same to the broker that it
  dialled. It tells who dialled it all that it knows: what is wanted at its clients, over its routes, below and above.
- Split horizon: with what is wanted below goes the number of the cluster that dialled, and nothing goes back into the
  cluster that it came from, neither publications nor what is wanted.
- What comes from above, or over a route, goes to clients and to those that dialled, and not over routes: each broker of
  the cluster has dialled for itself.
- A group is served here, or else by one who dialled, or else over a route, or else above.

Theory. By what each broker passes on, there is one way from any broker to any other: up by the links that were dialled,
over one route at most in the cluster where it turns, and down to the broker that the last one's cluster mate dialled.
The two ends of a route dialled different links, so a cluster with several links upwards is a cycle of the overlay on
which nothing goes round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from protocols.practice.forwarding import Forwarding
from protocols.practice.places import (
    LOCAL,
    ClusterSize,
    Place,
    clusters_of,
    links_of,
    misfits_of_clusters,
    neighbours_of,
)

_BELOW, _BESIDE, _ABOVE = range(3)  # ranks


class Options(BaseModel):
    """Options of `leaf`."""

    model_config = ConfigDict(extra="forbid")

    cluster_size: ClusterSize = None


def above(overlay: Any, cluster: list[int]) -> dict[int, int]:
    """The cluster above each; those without one are left out."""
    near = neighbours_of(overlay)
    into: dict[int, set[int]] = {}
    for broker, number in enumerate(cluster):
        reached = {cluster[other] for other in near[broker] if other < overlay.brokers}
        into[number] = into.get(number, reached) & reached
    higher = {number: [each for each in reached if each < number] for number, reached in into.items()}
    return {number: min(each) for number, each in higher.items() if each}


class Leaf(Forwarding):
    """One broker."""

    Options: ClassVar[type[BaseModel] | None] = Options
    frugal: ClassVar[bool] = True

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Mapping[str, Any]) -> list[tuple[str, str]]:
        cluster = clusters_of(overlay, options.cluster_size)
        apart = misfits_of_clusters(overlay, cluster)
        if apart:
            return apart
        dials = above(overlay, cluster)
        for number in sorted(set(cluster))[1:]:
            if number not in dials:
                broker = overlay.names[cluster.index(number)]
                return [(
                    "protocol",
                    f"has each broker of a cluster but the first dial one of a cluster with a lower number; not all "
                    f"of the cluster of {broker} have a link into the same",
                )]  # fmt: skip
        return []

    @classmethod
    def places(cls, env: Any) -> list[Place]:
        cluster = clusters_of(env.overlay, env.options.cluster_size)
        dials = above(env.overlay, cluster)
        up = [_dialled(env, broker, cluster, dials) for broker in range(env.brokers)]
        return [_place(env, broker, cluster, up) for broker in range(env.brokers)]


def _dialled(env: Any, broker: int, cluster: list[int], dials: Mapping[int, int]) -> int | None:
    """The link by which a broker dials the cluster above."""
    higher = dials.get(cluster[broker])
    ways = [link for link in links_of(env, broker) if cluster[env.links.target[link]] == higher]
    return min(ways, key=lambda link: (env.links.delay_ns[link], env.links.target[link]), default=None)


def _place(env: Any, broker: int, cluster: list[int], up: list[int | None]) -> Place:
    links = links_of(env, broker)
    far = {link: int(env.links.target[link]) for link in links}
    routes = [link for link in links if cluster[far[link]] == cluster[broker]]
    below = [link for link in links if up[far[link]] == link ^ 1]
    dialled = up[broker]
    above = [] if dialled is None else [dialled]
    onward = {LOCAL: (*below, *routes, *above)}
    onward |= dict.fromkeys([*routes, *above], tuple(below))
    for link in below:
        onward[link] = (*(each for each in below if each != link), *routes, *above)
    rank = dict.fromkeys(below, _BELOW) | dict.fromkeys(routes, _BESIDE) | dict.fromkeys(above, _ABOVE)
    origin = {link: 0 if link in routes else cluster[far[link]] for link in rank}
    return Place(onward, origin, rank)
