"""Names of topologies: plain strings, so that listing imports nothing.

A new topology is one generator function and one line here. The function's typed keyword parameters are its
schema.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """One registered name."""

    target: str  # "module:function"
    prose: str  # one line for `brokerlab list`


TOPOLOGIES: dict[str, Entry] = {
    "line": Entry("topology.generators:line", "brokers in a row"),
    "ring": Entry("topology.generators:ring", "brokers in a circle"),
    "star": Entry("topology.generators:star", "one hub, everyone else linked to it"),
    "balanced-tree": Entry("topology.generators:balanced_tree", "a tree of given branching and height"),
    "random-tree": Entry("topology.generators:random_tree", "a tree drawn uniformly from all labelled trees"),
    "grid": Entry("topology.generators:grid", "rows and columns, with positions"),
    "torus": Entry("topology.generators:torus", "a grid whose borders are joined"),
    "erdos-renyi": Entry("topology.generators:erdos_renyi", "every pair linked with one probability"),
    "barabasi-albert": Entry(
        "topology.generators:barabasi_albert", "grown by preferential attachment: few hubs, many leaves"
    ),
    "watts-strogatz": Entry(
        "topology.generators:watts_strogatz", "a small world: a ring lattice with links rewired"
    ),
    "random-geometric": Entry("topology.generators:random_geometric", "points in a square, linked when near"),
    "waxman": Entry("topology.generators:waxman", "points in a square, linked the likelier the nearer"),
    "hierarchical": Entry("topology.generators:hierarchical", "a backbone of gateways, a region behind each"),
    "attached": Entry(
        "topology.generators:attached", "each broker dials some others; further brokers have links to many of these"
    ),
    "clusters": Entry("topology.meshes:clusters", "every two brokers linked; or several such clusters, linked too"),
    "explicit": Entry("topology.generators:explicit", "brokers and links listed in the scenario"),
    "file": Entry(
        "topology.files:file",
        "a file: GML, GraphML, edge list, JSON, SNDlib, REPETITA, CAIDA; or a shipped network by name",
    ),
}
