"""Clusters in which every two brokers are linked, and links between the clusters."""

from __future__ import annotations

from itertools import combinations, product
from typing import Annotated, Literal

import networkx as nx
from pydantic import Field

from topology.errors import TopologyError
from topology.generators import LINKS_MAX, NODES_MAX, Sizes, counted_sizes, points

_NEAR = 0.1  # how large a cluster is, where all lie in a unit square


def clusters(
    *,
    clusters: Annotated[
        Annotated[int, Field(ge=1, le=NODES_MAX)] | Sizes, Field(description="how many; or the size of each")
    ] = 1,
    size: Annotated[int | None, Field(ge=1, le=NODES_MAX, description="brokers of each cluster")] = None,
    nodes: Annotated[
        int | None, Field(ge=1, le=NODES_MAX, description="or of all together, split as evenly as can be")
    ] = None,
    between: Annotated[
        Literal["all", "first", "full"],
        Field(description="each broker has a link into every other cluster, into the first alone, or to every broker"),
    ] = "all",
    seed: int,
) -> nx.Graph:
    """Clusters in which every two brokers are linked, and links of each broker into other clusters.

    Broker 2 of cluster 1 is named `c1.2`, and carries `region` 1. It is linked to broker 2 of the other clusters, or to
    another one where they have fewer; or to all of theirs. Clusters lie at random places of a unit square, their
    brokers within a twentieth of it. With one cluster every two brokers are linked.

    Raises
    ------
    TopologyError
        If sizes are given in no way or in two, if that would be more than a million brokers, or more than twenty
        million links.

    Examples
    --------
    >>> clusters(size=4, seed=1).number_of_edges()
    6
    >>> clusters(clusters=[3, 2], between="first", seed=1).number_of_edges()
    7
    """
    sizes = counted_sizes("clusters", clusters, size, nodes, ("clusters", "size"))
    meshed = [sum(sizes)] if between == "full" else sizes
    if sum(each * (each - 1) for each in meshed) > 2 * LINKS_MAX:
        raise TopologyError(f"clusters: more than {LINKS_MAX:,} links in them; make them smaller")
    x, y = points(seed, sum(sizes), "clusters")
    graph, members = nx.Graph(), []
    for number, each in enumerate(sizes):
        first = len(graph)
        members.append(range(first, first + each))
        for i, node in enumerate(members[-1]):
            place = (float(x[first] + (x[node] - 0.5) * _NEAR), float(y[first] + (y[node] - 0.5) * _NEAR))
            graph.add_node(node, name=f"c{number}.{i}", position=place, region=number)
        graph.add_edges_from(combinations(members[-1], 2))
    for one, other in combinations(members, 2):
        if between == "full":
            graph.add_edges_from(product(one, other))
        elif between == "all" or one is members[0]:
            _link(graph, one, other)
    return graph


def _link(graph: nx.Graph, one: range, other: range) -> None:
    """One link at least of each broker of two clusters."""
    graph.add_edges_from((one[i % len(one)], other[i % len(other)]) for i in range(max(len(one), len(other))))
