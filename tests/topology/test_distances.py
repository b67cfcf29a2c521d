"""Shortest ways, beside those of networkx."""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from topology.distances import distances, neighbours

LINKS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 20)), max_size=25)


@given(LINKS)
def test_they_are_those_of_networkx(links):
    graph = nx.MultiGraph()
    graph.add_node(0)
    graph.add_weighted_edges_from(links)
    found = distances(neighbours(*zip(*links)) if links else {}, 0)
    assert found == nx.single_source_dijkstra_path_length(graph, 0)
    assert list(found.values()) == sorted(found.values())
