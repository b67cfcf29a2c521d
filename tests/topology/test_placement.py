"""Where clients are attached."""

from __future__ import annotations

import numpy as np
import pytest

from topology.build import build
from topology.errors import TopologyError
from topology.links import Links
from topology.placement import PLACEMENTS, ExplicitPlacement, ZipfPlacement
from topology.placing import place

STAR = build("star", {"nodes": 11}, Links(), seed=1)


@pytest.mark.parametrize("how", [name for name in PLACEMENTS if name != "explicit"])
def test_a_placement_is_the_same_for_the_same_seed_and_adding_clients_moves_none(how):
    few, many = (place(STAR, count, how, seed=3, group="readers") for count in (50, 500))
    assert few.dtype == np.int32
    assert few.tolist() == many[:50].tolist()
    assert 0 <= many.min() <= many.max() <= 10


@pytest.mark.parametrize("how", ["uniform", "degree", "zipf"])
def test_another_seed_or_group_places_otherwise(how):
    first = place(STAR, 100, how, seed=3, group="readers").tolist()
    assert first != place(STAR, 100, how, seed=4, group="readers").tolist()
    assert first != place(STAR, 100, how, seed=3, group="writers").tolist()


def test_uniform_placement_gives_every_broker_about_the_same():
    counts = np.bincount(place(STAR, 11_000, "uniform", seed=1), minlength=11)
    assert abs(counts - 1000).max() < 5 * 1000**0.5


def test_placement_by_degree_gives_the_hub_of_a_star_half():
    counts = np.bincount(place(STAR, 10_000, "degree", seed=1), minlength=11)
    assert abs(counts[0] - 5000) < 250
    assert abs(counts[1:] - 500).max() < 5 * 500**0.5


def test_zipf_placement_follows_its_exponent_over_brokers_in_a_drawn_order():
    counts = np.sort(np.bincount(place(STAR, 20_000, ZipfPlacement(exponent=1.0), seed=1), minlength=11))[::-1]
    share = 1 / np.arange(1, 12)
    expected = 20_000 * share / share.sum()
    assert (abs(counts - expected) < 5 * expected**0.5).all()
    top = {int(np.bincount(place(STAR, 200, ZipfPlacement(exponent=3.0), seed=s)).argmax()) for s in range(8)}
    assert len(top) > 2


def test_even_placement_goes_round():
    assert place(STAR, 13, "even", seed=1).tolist() == [*range(11), 0, 1]


def test_explicit_placement_takes_a_list_in_turn_or_counts():
    assert place(STAR, 5, ExplicitPlacement(brokers=["b3", 7]), seed=1).tolist() == [3, 7, 3, 7, 3]
    counted = {"kind": "explicit", "brokers": ["b3", 7, "b0"], "counts": [2, 1, 0]}
    assert place(STAR, 3, counted, seed=1).tolist() == [3, 3, 7]
    again = {"kind": "explicit", "brokers": ["b3", 7, "b3"], "counts": [1, 1, 1]}
    assert place(STAR, 3, again, seed=1).tolist() == [3, 3, 7]
    assert place(STAR, 0, ExplicitPlacement(brokers=["b3"]), seed=1).tolist() == []


def test_a_network_of_one_broker_takes_all_clients():
    single = build("line", {"nodes": 1}, Links(), seed=1)
    for how in ("uniform", "degree", "zipf", "even"):
        assert place(single, 3, how, seed=1).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("count", "how", "said"),
    [
        (-1, "even", "number of clients is -1"),
        (3, "degrees", "did you mean 'degree'"),
        (3, {"kind": "zipf", "exponent": -1}, "exponent"),
        (3, {"kind": "nearest"}, "placement"),
        (3, "explicit", "brokers"),
        (3, ExplicitPlacement(brokers=["b11"]), "no broker named 'b11'"),
        (3, ExplicitPlacement(brokers=[11]), "no broker 11"),
        (3, {"kind": "explicit", "brokers": []}, "brokers: List should have at least 1 item"),
        (3, ExplicitPlacement(brokers=["b1"], counts=[2]), "add up to 2, there are 3 clients"),
        (3, {"kind": "explicit", "brokers": ["b1"], "counts": [1, 2]}, "1 brokers need as many counts"),
    ],
)
def test_an_impossible_placement_is_refused(count, how, said):
    with pytest.raises(TopologyError, match=said):
        place(STAR, count, how, seed=1)
