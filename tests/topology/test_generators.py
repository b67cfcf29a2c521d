"""The shapes of generated topologies, by their closed forms."""

from __future__ import annotations

import doctest
from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from topology import generators
from topology.build import build, graph_of, parameters
from topology.errors import TopologyError
from topology.links import ConstantDelay, Links, UniformDelay
from topology.registry import TOPOLOGIES

SMALL = {
    "line": {"nodes": 9},
    "ring": {"nodes": 9},
    "star": {"nodes": 9},
    "balanced-tree": {"branching": 3, "height": 2},
    "random-tree": {"nodes": 40},
    "grid": {"rows": 4, "columns": 5},
    "torus": {"rows": 4, "columns": 5},
    "erdos-renyi": {"nodes": 40, "probability": 0.05},
    "barabasi-albert": {"nodes": 40, "attach": 2},
    "watts-strogatz": {"nodes": 40, "neighbours": 4, "rewire": 0.3},
    "random-geometric": {"nodes": 40, "radius": 0.15},
    "waxman": {"nodes": 40},
    "hierarchical": {"regions": 5, "region_size": 6, "region": "random-tree"},
    "attached": {"nodes": 20, "dials": 3, "further": 4, "links": 10},
    "clusters": {"clusters": [4, 2, 3]},
    "explicit": {"links": [["a", "b"], ["b", "c"]]},
    "file": {"path": "Abilene"},
}
RANDOM = [
    "random-tree",
    "erdos-renyi",
    "barabasi-albert",
    "watts-strogatz",
    "random-geometric",
    "waxman",
    "hierarchical",
    "attached",
]
LINKS = Links(delay=UniformDelay(low=1_000, high=9_000))


def columns(overlay):
    return [
        overlay.names,
        *(getattr(overlay, name).tolist() for name in ("link_a", "link_b", "delay_ns")),
        overlay.position.tobytes(),
    ]


def test_every_registered_topology_is_tried_here():
    assert set(SMALL) == set(TOPOLOGIES)


@pytest.mark.parametrize("kind", SMALL)
def test_a_topology_is_connected_and_the_same_for_the_same_seed(kind):
    first, second = (build(kind, SMALL[kind], LINKS, seed=7) for _ in range(2))
    assert columns(first) == columns(second)
    graph = nx.Graph(list(zip(first.link_a.tolist(), first.link_b.tolist())))
    assert nx.is_connected(graph)
    assert len(graph) == first.brokers == len(set(first.names))


@pytest.mark.parametrize("kind", RANDOM)
def test_another_seed_gives_another_random_topology(kind):
    still = Links(delay=ConstantDelay(delay=5))
    first, second = (build(kind, SMALL[kind], still, seed=seed) for seed in (1, 2))
    assert columns(first) != columns(second)


@pytest.mark.parametrize("kind", TOPOLOGIES)
def test_a_topology_names_its_parameters_with_bounds_and_refuses_unknown_ones(kind):
    schema = parameters(kind).model_json_schema()
    assert schema["additionalProperties"] is False
    assert not {"seed", "base"} & set(schema["properties"])
    with pytest.raises(TopologyError, match="sizee"):
        build(kind, {**SMALL[kind], "sizee": 3}, LINKS, seed=1)


@pytest.mark.parametrize("nodes", [1, 2, 3, 17])
def test_a_line_a_star_and_a_random_tree_have_one_link_less_than_brokers(nodes):
    for kind in ("line", "star", "random-tree", "barabasi-albert"):
        overlay = build(kind, {"nodes": nodes}, LINKS, seed=3)
        assert (overlay.brokers, overlay.links, overlay.is_tree) == (nodes, nodes - 1, True)


def test_a_ring_has_as_many_links_as_brokers_and_is_no_tree():
    overlay = build("ring", {"nodes": 12}, LINKS, seed=3)
    assert overlay.links == overlay.brokers == 12
    assert set(overlay.degree.tolist()) == {2}
    assert not overlay.is_tree


def test_a_star_has_its_hub_at_broker_zero():
    overlay = build("star", {"nodes": 12}, LINKS, seed=3)
    assert overlay.degree.tolist() == [11] + [1] * 11


@pytest.mark.parametrize(("branching", "height"), [(1, 4), (2, 0), (2, 5), (5, 3)])
def test_a_balanced_tree_has_as_many_brokers_as_its_levels_add_up_to(branching, height):
    overlay = build("balanced-tree", {"branching": branching, "height": height}, LINKS, seed=3)
    assert overlay.brokers == sum(branching**level for level in range(height + 1))
    assert overlay.is_tree
    reference = nx.balanced_tree(branching, height)
    assert sorted(reference.edges()) == list(zip(overlay.link_a.tolist(), overlay.link_b.tolist()))


@pytest.mark.parametrize(("rows", "columns_"), [(3, 3), (3, 7), (6, 4)])
def test_a_grid_and_a_torus_have_their_known_numbers_of_links(rows, columns_):
    size = {"rows": rows, "columns": columns_}
    assert build("grid", size, LINKS, seed=1).links == rows * (columns_ - 1) + columns_ * (rows - 1)
    torus = build("torus", size, LINKS, seed=1)
    assert torus.links == 2 * rows * columns_
    assert set(torus.degree.tolist()) == {4}


def test_a_grid_places_its_brokers_one_unit_apart():
    overlay = build("grid", {"rows": 3, "columns": 4}, LINKS, seed=1)
    step = overlay.position[overlay.link_a] - overlay.position[overlay.link_b]
    assert np.abs(step).sum(axis=1).tolist() == [1.0] * overlay.links


@pytest.mark.parametrize("attach", [1, 2, 5])
def test_preferential_attachment_brings_the_same_number_of_links_with_each_broker(attach):
    overlay = build("barabasi-albert", {"nodes": 60, "attach": attach}, LINKS, seed=1)
    assert overlay.links == (60 - attach) * attach


def test_an_erdos_renyi_graph_of_probability_one_is_complete_and_of_zero_a_joined_tree():
    assert build("erdos-renyi", {"nodes": 9, "probability": 1.0}, LINKS, seed=1).links == 36
    tree = build("erdos-renyi", {"nodes": 9, "probability": 0.0}, LINKS, seed=1)
    assert tree.is_tree
    assert tree.notes == ("9 components joined by 8 added links",)


def test_an_erdos_renyi_graph_has_about_as_many_links_as_its_probability_says():
    graph = generators.erdos_renyi(nodes=400, probability=0.1, connect=False, seed=5)
    expected, deviation = 79800 * 0.1, (79800 * 0.1 * 0.9) ** 0.5
    assert abs(graph.number_of_edges() - expected) < 5 * deviation


def test_without_connect_the_largest_component_is_kept_and_said_so():
    sparse = {"nodes": 60, "probability": 0.02, "connect": False}
    raw = generators.erdos_renyi(**sparse, seed=1)
    largest = max(map(len, nx.connected_components(raw)))
    overlay = build("erdos-renyi", sparse, LINKS, seed=1)
    assert overlay.brokers == largest < 60
    assert f"the largest kept, {largest} of 60 nodes" in overlay.notes[0]


def test_rewiring_moves_links_of_a_small_world_but_loses_none():
    parameters = {"nodes": 50, "neighbours": 6, "connect": False}
    still = generators.watts_strogatz(**parameters, rewire=0.0, seed=1)
    moved = generators.watts_strogatz(**parameters, rewire=0.5, seed=1)
    assert still.number_of_edges() == moved.number_of_edges() == 150
    assert set(still.edges()) != set(moved.edges())
    assert set(still.neighbors(10)) == {7, 8, 9, 11, 12, 13}


def test_a_random_geometric_graph_links_exactly_the_pairs_within_reach():
    graph = generators.random_geometric(nodes=60, radius=0.2, connect=False, seed=4)
    place = np.array([graph.nodes[v]["position"] for v in range(60)])
    distance = np.sqrt(((place[:, None] - place[None]) ** 2).sum(axis=2))
    near = {(a, b) for a in range(60) for b in range(a + 1, 60) if distance[a, b] <= 0.2}
    assert {(min(e), max(e)) for e in graph.edges()} == near
    assert near


def test_pieces_of_a_geometric_graph_are_joined_by_the_spanning_tree_of_shortest_links():
    graph = generators.random_geometric(nodes=30, radius=1e-6, seed=4)
    place = np.array([graph.nodes[v]["position"] for v in range(30)])
    full = nx.complete_graph(30)
    for a, b in full.edges():
        full.edges[a, b]["weight"] = float(((place[a] - place[b]) ** 2).sum())
    expected = {(min(e), max(e)) for e in nx.minimum_spanning_edges(full, data=False)}
    assert {(min(e), max(e)) for e in graph.edges()} == expected


def test_waxman_links_are_rarer_the_longer_they_are():
    graph = generators.waxman(nodes=300, alpha=0.15, beta=0.9, connect=False, seed=2)
    place = np.array([graph.nodes[v]["position"] for v in range(300)])
    distance = np.sqrt(((place[:, None] - place[None]) ** 2).sum(axis=2))
    linked = np.zeros((300, 300), bool)
    for a, b in graph.edges():
        linked[a, b] = linked[b, a] = True
    upper = np.triu(np.ones((300, 300), bool), 1)
    for low, high in ((0.0, 0.1), (0.1, 0.2), (0.3, 0.4), (0.6, 0.8)):
        band = upper & (distance >= low) & (distance < high)
        expected = (0.9 * np.exp(-distance[band] / (0.15 * 2**0.5))).sum()
        assert abs(linked[band].sum() - expected) < 5 * expected**0.5


@pytest.mark.parametrize("region", ["star", "line", "ring", "random-tree"])
def test_a_hierarchy_has_a_backbone_of_gateways_and_a_region_behind_each(region):
    overlay = build("hierarchical", {"regions": 4, "region_size": 5, "region": region}, LINKS, seed=1)
    assert overlay.brokers == 20
    assert overlay.links == 4 + 4 * (5 if region == "ring" else 4)
    for a, b in zip(overlay.link_a.tolist(), overlay.link_b.tolist()):
        ours, theirs = (overlay.names[v].split(".")[0] for v in (a, b))
        assert ours == theirs or (a < 4 and b < 4)


@pytest.mark.parametrize(
    ("params", "sizes"),
    [
        ({"regions": [20, 12, 8]}, [20, 12, 8]),
        ({"regions": 3, "nodes": 40}, [14, 13, 13]),
        ({"regions": 3, "nodes": 3}, [1, 1, 1]),
        ({"regions": 2, "region_size": 4}, [4, 4]),
    ],
)
def test_regions_have_sizes_of_their_own_or_share_the_brokers_evenly(params, sizes):
    graph = graph_of("hierarchical", {**params, "region": "line"}, seed=1)
    regions = [graph.nodes[b]["region"] for b in graph]
    assert [regions.count(number) for number in range(len(sizes))] == sizes
    assert nx.is_connected(graph)
    inside = nx.Graph([(a, b) for a, b in graph.edges() if regions[a] == regions[b]])
    assert inside.number_of_edges() == sum(size - 1 for size in sizes)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"regions": 3}, "in one way"),
        ({"regions": 3, "region_size": 2, "nodes": 6}, "in one way"),
        ({"regions": [3, 2], "nodes": 5}, "already"),
        ({"regions": 3, "nodes": 2}, "at least its gateway"),
        ({"regions": [500_000, 500_001]}, "at most 1000000"),
    ],
)
def test_sizes_of_regions_are_said_in_exactly_one_way(params, words):
    with pytest.raises(TopologyError, match=words):
        graph_of("hierarchical", params, seed=1)


def test_a_full_backbone_links_every_pair_of_gateways():
    overlay = build("hierarchical", {"regions": 6, "region_size": 1, "backbone": "full"}, LINKS, seed=1)
    assert overlay.links == 15


def test_an_explicit_list_may_mix_names_and_numbers_and_give_places():
    brokers = ["a", {"name": "b", "longitude": 10.0, "latitude": 50.0}, "c"]
    overlay = build("explicit", {"nodes": brokers, "links": [["a", 1], [2, "b"]]}, LINKS, seed=1)
    assert overlay.names == ("a", "b", "c")
    assert list(zip(overlay.link_a.tolist(), overlay.link_b.tolist())) == [(0, 1), (1, 2)]
    assert overlay.position[1].tolist() == [10.0, 50.0]
    assert np.isnan(overlay.position[[0, 2]]).all()


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"nodes": ["a", "b"], "links": [["a", "bb"]]}, "no broker named 'bb'; did you mean 'b'"),
        ({"nodes": 2, "links": [[0, 2]]}, "there is no broker 2; they are numbered 0 to 1"),
        ({"links": [["a", "a"], ["a", "b"]]}, "1 self-loop"),
        ({"links": [["a", "b"], ["b", "a"]]}, "1 repeated link"),
        ({"links": [["a", "b"], ["c", "d"]]}, "2 components"),
        ({"nodes": ["a", "a"], "links": []}, "'a' is listed twice"),
        ({"nodes": [{"name": "a", "x": 1.0}], "links": []}, "a place needs"),
        ({"nodes": ["  "], "links": []}, "empty name"),
        ({"links": []}, "there is no node"),
        ({"links": [["a"]]}, "links.0"),
        ({"nodes": [{"nam": "a"}], "links": []}, "explicit: nodes.0.nam: Extra inputs"),
    ],
)
def test_a_wrong_explicit_list_is_refused_with_what_is_wrong(params, said):
    with pytest.raises(TopologyError, match=said):
        build("explicit", params, LINKS, seed=1)


def test_an_explicit_list_that_is_not_strict_is_repaired_with_notes():
    params = {"links": [["a", "b"], ["b", "a"], ["a", "a"], ["c", "d"]], "strict": False}
    overlay = build("explicit", params, LINKS, seed=1)
    assert overlay.names == ("a", "b")
    assert overlay.notes == (
        "1 self-loop dropped",
        "1 repeated link merged",
        "2 components: the largest kept, 2 of 4 nodes",
    )


@pytest.mark.parametrize(
    ("kind", "params", "said"),
    [
        ("barabassi-albert", {}, "did you mean 'barabasi-albert'"),
        ("ring", {"nodes": 2}, "nodes: .*3 .got 2"),
        ("line", {}, "nodes: Field required"),
        ("barabasi-albert", {"nodes": 4, "attach": 4}, "attach is 4"),
        ("watts-strogatz", {"nodes": 4, "neighbours": 3}, "multiple of 2"),
        ("watts-strogatz", {"nodes": 4, "neighbours": 4}, "below the number of nodes"),
        ("balanced-tree", {"branching": 10, "height": 10}, "more than 1000000 brokers"),
        ("grid", {"rows": 1001, "columns": 1000}, "more than 1000000 brokers"),
        ("erdos-renyi", {"nodes": 100_000, "probability": 0.5}, "lower probability"),
        ("waxman", {"nodes": 100_000, "beta": 1.0}, "lower beta"),
        ("networkx:petersen_graph", {}, "handed over as a function"),
        (":x", {}, "no topology named ':x'"),
    ],
)
def test_impossible_parameters_are_refused_with_what_is_wrong(kind, params, said):
    with pytest.raises(TopologyError, match=said):
        build(kind, params, LINKS, seed=1)


def test_a_third_partys_function_that_fails_is_told_as_such():
    with pytest.raises(TopologyError, match="topology density: the function failed: AttributeError"):
        build("density", {"G": 3}, LINKS, seed=1, generator=nx.density)


def test_a_third_partys_generator_is_handed_over_as_a_function():
    overlay = build("petersen", {}, LINKS, seed=1, generator=nx.petersen_graph)
    assert (overlay.brokers, overlay.links) == (10, 15)
    assert overlay.names[:2] == ("b0", "b1")


def test_a_third_partys_graph_is_repaired_whatever_stands_for_its_nodes():
    overlay = build("gn", {"n": 12}, LINKS, seed=1, generator=nx.gn_graph)
    assert overlay.is_tree
    assert "directions dropped" in overlay.notes
    graph = graph_of("grid of pairs", {"m": 2, "n": 2}, seed=1, function=nx.grid_2d_graph)
    assert [graph.nodes[v]["name"] for v in graph] == ["(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)"]


def test_the_examples_in_the_docstrings_hold():
    from topology import build as build_module
    from topology import files, meshes

    for module in (generators, meshes, files, build_module):
        result = doctest.testmod(module)
        assert result.attempted > 0
        assert result.failed == 0


@pytest.mark.parametrize(
    ("between", "links"), [("all", 6 + 1 + 1 + 4 + 4 + 2), ("first", 6 + 1 + 1 + 4 + 4), ("full", 28)]
)
def test_clusters_are_meshes_with_links_of_each_broker_between_them(between, links):
    overlay = build("clusters", {"clusters": [4, 2, 2], "between": between}, LINKS, seed=1)
    assert overlay.region.tolist() == [0, 0, 0, 0, 1, 1, 2, 2]
    assert (overlay.names[5], overlay.links) == ("c1.1", links)
    near = {frozenset(pair) for pair in zip(overlay.link_a.tolist(), overlay.link_b.tolist())}
    assert all(frozenset(pair) in near for pair in combinations(range(4), 2))
    for broker in range(4, 8):
        reached = {int(overlay.region[a]) for pair in near if broker in pair for a in pair if a != broker}
        assert reached >= ({0, 1, 2} if between != "first" else {0, overlay.region[broker]})
