"""What links cost, and distances on the globe."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from topology.build import build
from topology.errors import TopologyError
from topology.geography import EARTH_RADIUS_M, arc_tangent, great_circle_m, sine_cosine, travel_ns
from topology.linking import apply, truncated_normal_ns
from topology.links import (
    ConstantDelay,
    GeographyDelay,
    LinkOverride,
    Links,
    NormalDelay,
    UniformDelay,
)
from topology.overlay import Overlay

MANY = {"nodes": 3001}


def placed(*places, coordinates="degrees"):
    graph = nx.path_graph(len(places))
    graph.graph["coordinates"] = coordinates
    for node, place in enumerate(places):
        if place is not None:
            graph.nodes[node]["position"] = place
    return graph


# ---- drawn delays ------------------------------------------------------------------------------------


def test_a_constant_delay_is_on_every_link():
    overlay = build("ring", {"nodes": 5}, Links(delay=ConstantDelay(delay=77)), seed=1)
    assert overlay.delay_ns.tolist() == [77] * 5


def test_uniform_delays_reach_both_bounds_and_have_the_mean_between_them():
    delay = build("line", MANY, Links(delay=UniformDelay(low=5, high=14)), seed=1).delay_ns
    counts = np.bincount(delay)
    assert len(counts) == 15
    assert counts[:5].sum() == 0
    assert abs(counts[5:] - 300).max() < 5 * 300**0.5


def test_a_links_delay_depends_on_its_ends_and_the_seed_alone():
    model = Links(delay=UniformDelay(low=1, high=10**9))
    short, long = (build("line", {"nodes": n}, model, seed=4) for n in (10, 50))
    other = build("line", {"nodes": 50}, model, seed=5)
    assert short.delay_ns.tolist() == long.delay_ns[:9].tolist()
    assert not (long.delay_ns == other.delay_ns).any()


def test_truncated_normal_delays_have_the_mean_and_spread_of_their_distribution():
    model = NormalDelay(mean=10**7, stdev=10**6, low=1, high=2 * 10**7)
    delay = build("line", MANY, Links(delay=model), seed=1).delay_ns
    assert abs(delay.mean() - 1e7) < 5 * 1e6 / 3000**0.5
    assert abs(delay.std() - 1e6) < 5e4


def test_a_half_normal_delay_has_its_known_mean():
    model = NormalDelay(mean=10**7, stdev=10**6, low=10**7)
    delay = build("line", MANY, Links(delay=model), seed=1).delay_ns
    assert delay.min() >= 10**7
    assert abs(delay.mean() - (1e7 + 1e6 * math.sqrt(2 / math.pi))) < 6e4


@settings(max_examples=150, deadline=None)
@given(
    st.integers(-(10**15), 10**15),
    st.one_of(st.integers(0, 10), st.integers(0, 10**15)),
    st.integers(1, 10**15),
    st.integers(0, 10**15 - 1),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=5),
)
def test_a_truncated_normal_stays_within_its_bounds_wherever_they_are(mean, stdev, low, width, u):
    high = min(low + width, 10**15)
    model = NormalDelay.model_construct(mean=mean, stdev=stdev, low=low, high=high)
    drawn = truncated_normal_ns(np.array(sorted(u)), model)
    assert ((low <= drawn) & (drawn <= high)).all()
    assert np.all(np.diff(drawn) >= -1 - stdev * 1e-7)  # a quantile function, up to the quantile's own error


@pytest.mark.parametrize("sigmas", [1, 4, 7, 12, 30])
def test_a_far_tail_decays_as_a_normal_tail_does(sigmas):
    model = NormalDelay(mean=1, stdev=10**6, low=sigmas * 10**6, high=10**9)
    median = truncated_normal_ns(np.array([0.5]), model)[0] / 1e6
    tail = math.erfc(median / math.sqrt(2)) / math.erfc(sigmas / math.sqrt(2))
    assert abs(tail - 0.5) < 1e-3


# ---- geography ---------------------------------------------------------------------------------------

CITIES = {
    "New York": (-74.0060, 40.7128),
    "London": (-0.1278, 51.5074),
    "Paris": (2.3522, 48.8566),
    "Sydney": (151.2093, -33.8688),
    "Tokyo": (139.6917, 35.6895),
    "Los Angeles": (-118.2437, 34.0522),
}


@pytest.mark.parametrize(
    ("a", "b", "km"),
    [
        ("New York", "London", 5570),
        ("London", "Paris", 343.6),
        ("Sydney", "London", 16994),
        ("Tokyo", "Los Angeles", 8815),
        ("New York", "Los Angeles", 3936),
    ],
)
def test_great_circles_between_cities_have_their_known_lengths(a, b, km):
    (lon_a, lat_a), (lon_b, lat_b) = (np.array([CITIES[c]]).T for c in (a, b))
    assert great_circle_m(lon_a, lat_a, lon_b, lat_b)[0] / 1000 == pytest.approx(km, rel=1e-3)
    assert great_circle_m(lon_a, lat_a, lon_b, lat_b)[0] == great_circle_m(lon_b, lat_b, lon_a, lat_a)[0]


@given(st.floats(-720, 720))
def test_sine_and_cosine_agree_with_the_library(degrees):
    sine, cosine = sine_cosine(np.array([degrees]))
    assert sine[0] == pytest.approx(math.sin(math.radians(degrees)), abs=5e-15)
    assert cosine[0] == pytest.approx(math.cos(math.radians(degrees)), abs=5e-15)


@given(st.floats(0, 1), st.floats(1e-6, 1))
def test_the_arc_tangent_agrees_with_the_library(y, x):
    assert arc_tangent(np.array([y]), np.array([x]))[0] == pytest.approx(math.atan2(y, x), abs=1e-15)


def test_a_quarter_and_half_of_the_globe_are_measured_exactly():
    zero, quarter, half = (np.array([v]) for v in (0.0, 90.0, 180.0))
    assert great_circle_m(zero, zero, quarter, zero)[0] == pytest.approx(EARTH_RADIUS_M * math.pi / 2)
    assert great_circle_m(zero, quarter, zero, -quarter)[0] == pytest.approx(EARTH_RADIUS_M * math.pi)
    assert great_circle_m(-half, zero, half, zero)[0] == pytest.approx(0.0, abs=1e-6)


def test_light_in_fibre_takes_five_microseconds_a_kilometre():
    assert travel_ns(np.array([0.0, 1000.0])).tolist() == [0, 5004]


def test_links_without_a_distance_get_the_floor_and_are_counted():
    graph = placed((0.0, 0.0), (0.0, 0.0), None, (10.0, 0.0), (10.0001, 0.0), (20.0, 0.0))
    overlay = apply(graph, Links(delay=GeographyDelay(delay_min=200_000)), seed=1)
    assert overlay.delay_ns[:4].tolist() == [200_000] * 4
    assert overlay.delay_ns[4] == pytest.approx(10 / 360 * 2 * math.pi * EARTH_RADIUS_M * 5.0035, rel=1e-3)
    assert overlay.notes == (
        "2 links with an end without a position given delay_min, 200000 ns",
        "1 link between brokers at one place given delay_min, 200000 ns",
        "1 link shorter than it given delay_min, 200000 ns",
    )


def test_a_plane_needs_a_scale_to_become_time():
    graph = placed((0.0, 0.0), (3.0, 4.0), coordinates="plane")
    with pytest.raises(TopologyError, match="needs scale_km_per_unit"):
        apply(graph, Links(delay=GeographyDelay()), seed=1)
    overlay = apply(graph, Links(delay=GeographyDelay(scale_km_per_unit=100.0)), seed=1)
    assert overlay.delay_ns.tolist() == travel_ns(np.array([500_000.0])).tolist()


def test_a_distance_beyond_all_measure_is_refused():
    graph = placed((0.0, 0.0), (1e300, 4.0), coordinates="plane")
    with pytest.raises(TopologyError, match="lower scale_km_per_unit"):
        apply(graph, Links(delay=GeographyDelay(scale_km_per_unit=100.0)), seed=1)


# ---- the rest of a link ------------------------------------------------------------------------------


def test_an_override_changes_what_it_names_on_its_link_only():
    model = Links(
        delay=ConstantDelay(delay=10),
        jitter=3,
        bandwidth=8,
        loss=0.5,
        overrides=(
            LinkOverride(between=("b2", 1), delay=99),
            LinkOverride(between=(0, 1), jitter=0, bandwidth=7, loss=0.0),
        ),
    )
    overlay = build("line", {"nodes": 4}, model, seed=1)
    assert overlay.delay_ns.tolist() == [10, 99, 10]
    assert overlay.jitter_ns.tolist() == [0, 3, 3]
    assert overlay.bandwidth_bps.tolist() == [7, 8, 8]
    assert overlay.loss.tolist() == [0.0, 0.5, 0.5]


@pytest.mark.parametrize(
    ("between", "said"),
    [
        (("b0", "b2"), r"overrides\[0\]: between: there is no link between 'b0' and 'b2'"),
        (("b0", "bee"), "no broker named 'bee'"),
        ((0, 4), "no broker 4; they are numbered 0 to 3"),
    ],
)
def test_an_override_of_a_link_that_is_not_there_is_refused(between, said):
    model = Links(overrides=(LinkOverride(between=between, delay=1),))
    with pytest.raises(TopologyError, match=said):
        build("line", {"nodes": 4}, model, seed=1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"delay": {"kind": "constant", "delay": 0}},
        {"delay": {"kind": "uniform", "low": 9, "high": 3}},
        {"delay": {"kind": "normal", "mean": 9, "stdev": -3}},
        {"delay": {"kind": "gamma"}},
        {"loss": 1.0},
        {"bandwidth": -1},
        {"jitter_ns": 3},
    ],
)
def test_an_impossible_link_model_is_refused_by_its_schema(wrong):
    with pytest.raises(ValidationError):
        Links.model_validate(wrong)


def test_an_overlay_has_the_promised_types_and_one_broker_is_enough():
    overlay = build("line", {"nodes": 1}, Links(delay=GeographyDelay()), seed=1)
    assert (overlay.brokers, overlay.links, overlay.is_tree) == (1, 0, True)
    assert overlay.degree.tolist() == [0]
    overlay = build("grid", {"rows": 2, "columns": 3}, Links(), seed=1)
    assert [overlay.link_a.dtype, overlay.link_b.dtype, overlay.degree.dtype] == [np.int32] * 3
    assert [overlay.delay_ns.dtype, overlay.jitter_ns.dtype, overlay.bandwidth_bps.dtype] == [np.int64] * 3
    assert [overlay.loss.dtype, overlay.position.dtype] == [np.float64] * 2


def overlay_of(link_a, link_b, n=3, **changed):
    size = len(link_a)
    columns = {
        "position": np.full((n, 2), np.nan),
        "link_a": np.array(link_a, np.int32),
        "link_b": np.array(link_b, np.int32),
        "delay_ns": np.ones(size, np.int64),
        "jitter_ns": np.zeros(size, np.int64),
        "bandwidth_bps": np.zeros(size, np.int64),
        "loss": np.zeros(size),
    }
    return Overlay(names=tuple("abcdefgh"[:n]), **(columns | changed))


def test_an_overlay_refuses_links_out_of_order_loops_and_delays_of_zero():
    assert overlay_of([0, 1], [1, 2]).is_tree
    for link_a, link_b in (([1, 0], [2, 1]), ([0, 0], [1, 1]), ([1], [1]), ([1], [0]), ([0], [3])):
        with pytest.raises(TopologyError, match="links must"):
            overlay_of(link_a, link_b)
    with pytest.raises(TopologyError, match="link a - c: delay_ns is 0"):
        overlay_of([0, 0], [1, 2], delay_ns=np.array([1, 0]))
    with pytest.raises(TopologyError, match="at least one broker"):
        overlay_of([], [], n=0)


def test_neighbours_are_listed_by_broker_with_their_links():
    adjacency = overlay_of([0, 0, 1], [1, 2, 2]).adjacency
    assert adjacency.start.tolist() == [0, 2, 4, 6]
    assert adjacency.neighbour.tolist() == [1, 2, 0, 2, 0, 1]
    assert adjacency.link.tolist() == [0, 1, 0, 2, 1, 2]


def test_two_pieces_with_a_cycle_are_no_tree_though_the_numbers_fit():
    assert not overlay_of([0, 0, 1], [1, 2, 2], n=4).is_tree


REGIONS = {"regions": [5, 1, 4], "region": "line"}


def test_links_of_regions_have_the_delays_of_the_last_rule_that_is_about_them():
    rules = [
        {"inside": "all", "delay": {"kind": "constant", "delay": 2}},
        {"between": "all", "delay": {"kind": "constant", "delay": 30}},
        {"inside": 2, "delay": {"kind": "uniform", "low": 5, "high": 9}},
        {"between": [2, 0], "delay": {"kind": "constant", "delay": 80}},
    ]
    override = {"between": ("r0", "r1"), "delay": 31}
    overlay = build("hierarchical", REGIONS, Links.model_validate({"regions": rules, "overrides": [override]}), 1)
    region = [int(name[1:].split(".")[0]) for name in overlay.names]
    found = {}
    for a, b, delay in zip(overlay.link_a.tolist(), overlay.link_b.tolist(), overlay.delay_ns.tolist()):
        found.setdefault((region[a], region[b]), []).append(delay)
    assert found.pop((2, 2)) != [2, 2, 2]
    assert found == {(0, 0): [2] * 4, (0, 1): [31], (0, 2): [80], (1, 2): [30]}


def test_a_rule_for_a_region_draws_as_the_same_delay_for_all_links_would():
    drawn = {"kind": "uniform", "low": 5, "high": 9999}
    everywhere = build("hierarchical", REGIONS, Links.model_validate({"delay": drawn}), 1)
    rules = [{"inside": "all", "delay": drawn}, {"between": "all", "delay": drawn}]
    by_rules = build("hierarchical", REGIONS, Links.model_validate({"regions": rules}), 1)
    assert by_rules.delay_ns.tolist() == everywhere.delay_ns.tolist()


@pytest.mark.parametrize(
    ("kind", "params", "rule", "words"),
    [
        ("line", {"nodes": 3}, {"inside": "all"}, "no regions"),
        ("hierarchical", REGIONS, {"inside": 3}, "no region 3; there are 0 to 2"),
        ("hierarchical", REGIONS, {"between": [1, 1]}, "no link runs between"),
        ("hierarchical", {**REGIONS, "backbone": "star"}, {"between": [1, 2]}, "no link runs between"),
    ],
)
def test_a_rule_for_what_is_not_there_is_refused(kind, params, rule, words):
    model = Links.model_validate({"regions": [{**rule, "delay": {"kind": "constant", "delay": 2}}]})
    with pytest.raises(TopologyError, match=words):
        build(kind, params, model, 1)
