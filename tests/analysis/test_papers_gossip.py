"""Claims of `brokerlab reproduce gossip`: what holds is told as such, and what does not."""

from __future__ import annotations

import pytest

from analysis.papers import gossip
from analysis.papers.claims import FAILS, HOLDS
from analysis.papers.experiment import Run, Told
from analysis.papers.gossip_runs import MS, SECOND, Played, Setting, dialled
from protocols.gossip.talking import GRAFT, IHAVE
from protocols.topics.kind import PUBLISH


@pytest.fixture
def report(tmp_path):
    return Told(Run(3, False, lambda text: None))


def test_the_simulation_of_the_author_is_within_a_few_parts_in_a_hundred():
    ran = Played(gossip.simulated("1.0", 2), 2)
    counts, _ = gossip.SIMULATED["1.0"]
    for type_ in (PUBLISH, IHAVE, GRAFT):
        assert ran.count(type_) == pytest.approx(counts[type_], rel=0.05)
    assert len(ran.latencies_ms()) == 990


def test_each_node_dials_so_many_others():
    graph = dialled(50, 8, 1)
    assert all(8 <= degree <= 30 for _, degree in graph.degree)
    assert 50 * 8 * 0.85 < graph.number_of_edges() < 50 * 8


@pytest.mark.full
@pytest.mark.parametrize("experiment", [gossip.closed_forms, gossip.hearing], ids=lambda each: each.__name__)
def test_closed_forms_hold(experiment, report):
    experiment(report)
    assert report.claims and [each.name for each in report.claims if each.verdict != HOLDS] == []


def test_one_publication_that_differs_breaks_a_claim_although_the_means_are_equal(report):
    gossip._equal(report, "payloads", "derived", [(4, 5), (6, 5)])
    gossip._equal(report, "payloads", "derived", [(4, 4), (6, 6)])
    assert [each.verdict for each in report.claims] == [FAILS, HOLDS]


def test_what_was_printed_of_one_run_is_held_to_its_tolerance():
    assert gossip._agrees(PUBLISH, 100, [96, 96]) and not gossip._agrees(PUBLISH, 100, [94, 94])
    assert gossip._agrees(gossip.IWANT, 44, [23, 23]) and not gossip._agrees(gossip.IWANT, 44, [20, 20])
    assert gossip._agrees(gossip.PRUNE, 7, [0, 9]) and not gossip._agrees(gossip.PRUNE, 7, [8, 9])


def test_hops_are_counted_along_the_ways_of_the_first_copies():
    import networkx as nx

    ran = Played(Setting(nx.path_graph(6), 5 * MS, [(4 * SECOND, 0)], {"d_out": 0}, seconds=6), 1)
    assert ran.hops_to(ran.ids[0]) == {broker: broker for broker in range(6)}
