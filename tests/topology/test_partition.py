"""Shards: few and slow links cut, loads even."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology import bisection
from topology.build import build
from topology.describe import describe
from topology.errors import TopologyError
from topology.links import ConstantDelay, GeographyDelay, LinkOverride, Links, UniformDelay
from topology.overlay import NEVER
from topology.partition import METHODS, partition

SPREAD = Links(delay=UniformDelay(low=5_000_000, high=50_000_000))
EVEN = Links(delay=ConstantDelay(delay=10_000_000))


def checked(overlay, shards, method="auto", weight=None):
    found = partition(overlay, shards, method, weight)
    load = np.ones(overlay.brokers) if weight is None else np.asarray(weight, float)
    ends = found.assignment[overlay.link_a], found.assignment[overlay.link_b]
    assert found.assignment.dtype == np.int32
    assert set(found.assignment.tolist()) == set(range(shards))
    assert found.cut_links.tolist() == np.flatnonzero(ends[0] != ends[1]).tolist()
    cut_delays = overlay.delay_ns[found.cut_links]
    assert found.lookahead_ns == (cut_delays.min() if cut_delays.size else NEVER)
    loads = np.bincount(found.assignment, weights=load)
    assert found.imbalance == pytest.approx(loads.max() / loads.mean() - 1)
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["line", "random-tree", "barabasi-albert", "erdos-renyi"]),
    st.integers(1, 60),
    st.data(),
    st.sampled_from(METHODS),
)
def test_any_number_of_shards_up_to_one_per_broker_is_filled(kind, nodes, data, method):
    params = {"nodes": nodes} | ({"probability": 0.1} if kind == "erdos-renyi" else {})
    overlay = build(kind, params, SPREAD, seed=nodes)
    shards = data.draw(st.integers(1, nodes))
    found = checked(overlay, shards, method)
    assert np.bincount(found.assignment).max() <= max(np.ceil(nodes / shards) + 1, 1.1 * nodes / shards + 1)
    assert partition(overlay, shards, method).assignment.tolist() == found.assignment.tolist()


@pytest.mark.parametrize("shards", [2, 3, 7])
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("barabasi-albert", {"nodes": 1000}),
        ("barabasi-albert", {"nodes": 600, "attach": 3}),
        ("random-geometric", {"nodes": 800, "radius": 0.06}),
        ("grid", {"rows": 25, "columns": 30}),
        ("balanced-tree", {"branching": 3, "height": 6}),
    ],
)
def test_the_partition_is_balanced_within_ten_percent_and_better_than_runs(kind, params, shards):
    overlay = build(kind, params, SPREAD, seed=1)
    found = checked(overlay, shards)
    runs = partition(overlay, shards, "contiguous")
    assert found.imbalance <= 0.1 + 1e-9
    assert found.cut_links.size < max(runs.cut_links.size, 0.01 * overlay.links + 1) * 3
    assert found.lookahead_ns > runs.lookahead_ns


def test_a_line_is_cut_once_per_border():
    for shards in (2, 3, 7):
        found = checked(build("line", {"nodes": 200}, EVEN, seed=1), shards)
        assert found.cut_links.size == shards - 1


def test_a_grid_of_equal_delays_is_cut_about_straight():
    found = checked(build("grid", {"rows": 30, "columns": 30}, EVEN, seed=1), 2)
    assert found.cut_links.size <= 40


def test_clouds_joined_by_slow_links_are_cut_there_and_nowhere_else():
    params = {"regions": 6, "region_size": 20, "region": "random-tree"}
    slow = tuple(LinkOverride(between=(g, (g + 1) % 6), delay=40_000_000) for g in range(6))
    fast = Links(delay=ConstantDelay(delay=100_000), overrides=slow)
    found = checked(build("hierarchical", params, fast, seed=1), 3)
    assert found.lookahead_ns == 40_000_000
    assert found.cut_links.size == 3
    assert found.imbalance == 0.0


def test_one_fast_link_among_many_is_never_cut():
    fast = (LinkOverride(between=(0, 1), delay=10_000), LinkOverride(between=(3, 4), delay=100_000))
    model = SPREAD.model_copy(update={"overrides": fast})
    overlay = build("line", {"nodes": 30}, model, seed=1)
    for shards in (2, 3, 5):
        assert checked(overlay, shards).lookahead_ns >= 5_000_000


def test_a_shipped_network_is_cut_at_long_links():
    overlay = build("file", {"path": "Cogentco"}, Links(delay=GeographyDelay()), seed=1)
    found = checked(overlay, 2)
    assert found.imbalance <= 0.1
    assert found.lookahead_ns > 5 * overlay.delay_ns.min()
    assert found.cut_links.size < 0.1 * overlay.links


def test_weights_are_what_is_balanced():
    overlay = build("line", {"nodes": 100}, EVEN, seed=1)
    weight = np.where(np.arange(100) < 20, 9.0, 1.0)
    for method in ("auto", "contiguous"):
        found = checked(overlay, 2, method, weight)
        assert found.imbalance <= 0.1
        assert np.bincount(found.assignment).min() < 20


def test_weights_of_nothing_count_as_one_each():
    overlay = build("line", {"nodes": 100}, EVEN, seed=1)
    assert (
        partition(overlay, 4, weight=np.zeros(100)).assignment.tolist()
        == checked(overlay, 4).assignment.tolist()
    )


def test_round_robin_cuts_every_link_of_a_line_and_an_explicit_list_is_taken_as_it_is():
    overlay = build("line", {"nodes": 10}, EVEN, seed=1)
    assert checked(overlay, 3, "round-robin").cut_links.size == 9
    listed = [0, 0, 0, 1, 1, 1, 0, 0, 0, 0]
    assert checked(overlay, 2, listed).assignment.tolist() == listed


def test_one_shard_cuts_nothing_and_one_per_broker_cuts_all():
    overlay = build("ring", {"nodes": 10}, SPREAD, seed=1)
    assert checked(overlay, 1).lookahead_ns == NEVER
    assert checked(overlay, 10).cut_links.size == 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0,), "0 shards for 4 brokers; it takes 1 to 4"),
        ((5,), "5 shards for 4 brokers"),
        ((2, "metis"), "no method 'metis'"),
        ((2, [0, 1]), "2 entries for 4 brokers"),
        ((2, [0, 1, 2, 0]), "broker 2 is put on shard 2; shards are 0 to 1"),
        ((2, [0, 0, 0, 0]), "shard 1 has no broker"),
        ((2, "auto", [1.0, 2.0]), "weight needs 4"),
        ((2, "auto", [1.0, 2.0, 3.0, -1.0]), "weight needs 4"),
    ],
)
def test_an_impossible_partition_is_refused(arguments, said):
    with pytest.raises(TopologyError, match=said):
        partition(build("line", {"nodes": 4}, EVEN, seed=1), *arguments)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 25), st.integers(0, 1000))
def test_refining_never_worsens_a_cut_and_counts_it_right(nodes, seed):
    overlay = build("erdos-renyi", {"nodes": nodes, "probability": 0.3}, EVEN, seed=seed)
    start, neighbour, _ = overlay.adjacency
    start, neighbour = start.astype(np.int64), neighbour.astype(np.int64)
    strength, load = np.ones(len(neighbour), np.int64), np.ones(nodes)
    side = (np.arange(nodes) % 2).astype(np.int8)
    before = int((side[overlay.link_a] != side[overlay.link_b]).sum())
    cap = float(nodes // 2 + 1)
    excess, cut = bisection.refine(start, neighbour, strength, load, side, cap, cap, 8)
    assert excess == 0.0
    assert cut == int((side[overlay.link_a] != side[overlay.link_b]).sum()) <= before
    assert np.bincount(side, minlength=2).max() <= cap


def test_components_are_named_by_their_lowest_node():
    a, b = np.array([4, 1, 2], np.int32), np.array([5, 3, 5], np.int32)
    chosen = np.array([True, True, True])
    assert bisection.components(6, a, b, chosen).tolist() == [0, 1, 2, 1, 2, 2]
    assert bisection.components(6, a, b, ~chosen).tolist() == [0, 1, 2, 3, 4, 5]


def test_a_description_gives_the_known_facts_of_a_line_and_a_single_broker():
    model = Links(delay=ConstantDelay(delay=5), overrides=(LinkOverride(between=(0, 1), delay=9),))
    assert describe(build("line", {"nodes": 10}, model, seed=1)) == {
        "brokers": 10,
        "links": 9,
        "tree": True,
        "diameter_hops_min": 9,
        "degree_max": 2,
        "delay_ns_min": 5,
        "delay_ns_median": 5,
        "delay_ns_max": 9,
    }
    assert describe(build("line", {"nodes": 1}, EVEN, seed=1))["diameter_hops_min"] == 0
