"""Networks are drawn where a protocol promises something; what it lets go of, it must have forgotten."""

from __future__ import annotations

import networkx as nx
import pytest

from brokers.errors import InvalidInput
from protocols.rehearsing import Dice
from scenarios.hunt.case import Act, Case, Edge
from scenarios.hunt.drawing import Prey, draw
from scenarios.hunt.judges import JUDGES, judged
from scenarios.hunt.networks import draw_network, fits_of, on_trees
from scenarios.hunt.running import run
from tests.planted.bridges import Tagged
from tests.planted.clusters import Cluster, PurgingOnce, RefusingStrangers
from tests.planted.counting import Counting
from tests.planted.figures import figures_of
from tests.planted.registry import PLANTED

MS = 1_000_000


class NowhereAtHome(Counting):
    """Takes no network at all."""

    @classmethod
    def misfits(cls, options, overlay, params):
        return [("protocol", "is at home nowhere")]


def drawn(fits, count=60, **said):
    return [draw_network(fits, True, said.get("plain", False), Dice(7, i, "test")) for i in range(count)]


def test_every_network_is_connected_and_its_links_are_in_order():
    for brokers, edges in drawn(None, 200):
        graph = nx.Graph([(edge.a, edge.b) for edge in edges])
        assert sorted(graph) == list(range(brokers)) and nx.is_connected(graph)
        assert all(edge.a < edge.b for edge in edges) and sorted(set(edges)) == list(edges)


def test_a_plain_case_is_a_tree_and_others_have_cycles_too():
    assert all(len(edges) == brokers - 1 for brokers, edges in drawn(None, plain=True))
    assert any(len(edges) >= brokers for brokers, edges in drawn(None))
    assert all(len(edges) == brokers - 1 for brokers, edges in drawn(on_trees(None)))


def test_a_protocol_that_takes_some_networks_only_is_given_those():
    for brokers, edges in drawn(fits_of(Cluster, None, {})):
        assert len(edges) == brokers * (brokers - 1) // 2
    square = {((0, 1), (0, 2), (1, 3), (2, 3))}
    assert {tuple((e.a, e.b) for e in edges) for _, edges in drawn(fits_of(Tagged, None, {}), 20)} == square
    assert fits_of(Counting, None, {}) is None


def test_a_protocol_that_takes_no_network_is_told_so():
    with pytest.raises(InvalidInput, match="is at home nowhere"):
        draw(Prey.of(NowhereAtHome), 1, 0)


def test_where_a_protocol_is_not_exact_hardly_any_network_is_drawn():
    class OnTrees(Counting):
        @classmethod
        def guarantees_for(cls, overlay):
            return cls.guarantees.__class__(exact=overlay.is_tree)

    found = [len(edges) == brokers - 1 for brokers, edges in drawn(fits_of(OnTrees, None, {}), 100)]
    assert 80 < sum(found) < 100  # one in eight does not care


# ---- brokers that never come back -------------------------------------------------------------------------


@pytest.mark.parametrize(("protocol", "sorts"), [(PurgingOnce, {"entries"}), (RefusingStrangers, set())])
def test_who_lets_go_of_a_broker_that_never_comes_back_keeps_nothing_of_it(protocol, sorts):
    acts = (Act(49 * MS, 1, "subscribe", 0, None, (0.0, 0.0, 0.0, None, None, None)),)
    crash = {"fault": "crash", "at": 50 * MS, "brokers": [1], "state": "lost"}
    case = Case(
        Prey.of(protocol).protocol, "content", 2, (Edge(0, 1, 5 * MS),), (0, 1), acts, 3_000 * MS,
        faults=(crash,), detect_ns=2 * MS,
    )  # fmt: skip
    found = judged(run(case), {"leaks": JUDGES["leaks"]})
    assert {each.sort for each in found} == sorts


def test_some_of_what_lets_go_is_drawn_with_brokers_that_never_come_back():
    def endless(protocol):
        prey = Prey.of(protocol)
        return sum("lasts" not in each for number in range(60) for each in draw(prey, 3, number).faults)

    assert Prey.of(RefusingStrangers).lets_go and endless(RefusingStrangers) > 0
    assert not Prey.of(Counting).lets_go and endless(Counting) == 0


# ---- figures of planted bugs --------------------------------------------------------------------------------


def test_figures_say_how_soon_a_bug_is_found_and_how_small_it_gets():
    planted = next(each for each in PLANTED if each.number == "13d")
    told = figures_of(planted, 1, 20.0, plainly=True)
    assert told["found"] and told["random_found"] and told["judge"] in ("budget", "delivery")
    assert told["runs"] < 50 and told["size"] <= 2 * told["by_hand"] and told["minimal"]
