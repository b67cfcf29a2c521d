"""Closed forms of GossipSub in `brokerlab reproduce gossip`: they hold, and tables that lie break each of them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from analysis.papers import gossip
from analysis.papers.claims import HOLDS, judged
from analysis.papers.experiment import Run
from analysis.papers.gossip_runs import MS, SECOND, Played, Setting, dialled
from analysis.papers.registry import PAPERS
from brokers.registry import load
from tests.analysis.wrong_data import broken_by

AXES = ("overlay", "validation ms", "slowest ms", "candidates", "rounds")


@pytest.fixture(scope="module")
def tables():
    with pytest.MonkeyPatch.context() as patch:
        for name, less in (("ASKED", 6), ("PAIRS", 120)):
            patch.setattr(gossip, name, less)
        return {each.name: each.measure(Run(3, False, lambda text: None)) for each in gossip.EXPERIMENTS}


def verdicts(experiment, tables):
    return {each.key: judged("", (1,), [each]).verdict for each in experiment.judge(tables)}


@pytest.mark.parametrize("experiment", gossip.EXPERIMENTS, ids=lambda each: each.name)
def test_each_closed_form_holds_and_can_fail(experiment, tables):
    mine = tables[experiment.name]
    assert set(mine) == set(experiment.titles)
    found = verdicts(experiment, mine)
    assert found and [key for key, verdict in found.items() if verdict != HOLDS] == []
    assert [key for key in found if not broken_by(experiment, mine, key, AXES)] == []
    for picture in experiment.draw(mine):
        assert picture.curves and all(len(each.x) == len(each.y) for each in picture.curves)


def test_one_publication_that_differs_breaks_a_claim_although_the_means_are_equal(tables):
    experiment, mine = gossip.EXPERIMENTS[0], tables["closed-forms"]
    wrong = [{**row, "payloads": row["payloads"] + (1, -1)[at % 2]} for at, row in enumerate(mine["mesh"])]
    assert verdicts(experiment, {**mine, "mesh": wrong})["mesh"] != HOLDS


def test_what_nobody_was_asked_for_is_judged_where_something_was(tables):
    """Closed forms of nothing would hold whatever ran."""
    mine = tables["closed-forms"]
    assert len({row["undisturbed"] for row in mine["asked"]}) == 2
    assert any(row["outside first"] for row in mine["asked"]) and any(row["outside first"] for row in mine["flooded"])
    assert any(row["skips"] for row in tables["idontwant"]["idontwant"])


def test_shares_that_hear_are_those_of_the_notes():
    noted = {12: 0.875, 20: 0.657, 24: 0.578, 30: 0.549, 100: 0.578}
    assert {c: round(gossip.share_told(c, 3), 3) for c in gossip.CANDIDATES} == noted


def test_the_closed_form_is_that_of_the_notes():
    assert gossip.over_mesh({"mesh links": 394, "brokers": 100, "elsewhere first": 1}) == 688


def test_each_node_dials_so_many_others():
    graph = dialled(50, 8, 1)
    assert all(8 <= degree <= 30 for _, degree in graph.degree)
    assert 50 * 8 * 0.85 < graph.number_of_edges() < 50 * 8


def test_hops_are_counted_along_the_ways_of_the_first_copies():
    ran = Played(Setting(nx.path_graph(6), 5 * MS, [(4 * SECOND, 0)], {"d_out": 0}, seconds=6), 1)
    assert ran.hops_to(ran.ids[0]) == {broker: broker for broker in range(6)}


def test_copies_of_a_publication_are_all_of_it_and_nothing_else():
    published = [(4 * SECOND, 0), (5 * SECOND, 3)]
    ran = Played(Setting(nx.complete_graph(8), 5 * MS, published, {"d_hi": 8}, seconds=6), 2)
    hops = ran.tables["hops"]
    for id_ in ran.ids:
        rows = (hops["body"] == id_) & (hops["type"] == 0) & (hops["link"] >= 0)
        assert len(ran.copies(id_)) == np.count_nonzero(rows) > 7
        assert ran.copies(id_) == sorted(ran.copies(id_))
    assert ran.copies(-5) == []


def test_the_command_knows_all_parts():
    entry = PAPERS["gossip"]
    names = [each.name for target in (entry.target, *entry.facts["further"]) for each in load(target)]
    assert len(set(names)) == len(names) == 11
