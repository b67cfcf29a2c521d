"""Claims about Plumtree and HyParView in `brokerlab reproduce gossip`: they hold, and tables that lie break them."""

from __future__ import annotations

import networkx as nx

from analysis.papers import gossip_plumtree
from analysis.papers.claims import FAILS, HOLDS, judged
from analysis.papers.experiment import Run
from analysis.papers.gossip_plumtree import EXPERIMENTS, outrun
from analysis.papers.gossip_runs import MS
from tests.analysis.wrong_data import broken_by

PLUMTREE, BOUNDS, CRASHES = EXPERIMENTS
AXES = ("overlay", "publication", "source", "slowest ms", "publishing", "protocol", "crashed")
OF_FOUND = (*AXES, "brokers")  # where the number of brokers says which claim a row is of
RUN = Run(3, False, lambda text: None)


def check(experiment, tables, unlike=(), axes=AXES):
    """All hold but those, and each is broken by some lie."""
    assert set(tables) == set(experiment.titles)
    found = {each.key: judged("", (1,), [each]).verdict for each in experiment.judge(tables)}
    assert found and {key for key, verdict in found.items() if verdict != HOLDS} == set(unlike)
    assert [key for key in found if not broken_by(experiment, tables, key, axes)] == []


def test_closed_forms_of_plumtree():
    tables = PLUMTREE.measure(RUN)
    assert {row["links"] for row in tables["plumtree"] if row["overlay"] == "dialled"} == {595}
    check(PLUMTREE, tables, unlike=["moved"])
    near = [{**row, "copies": 200, "outrun": 1} if row["outrun"] else row for row in tables["moved"]]
    check(PLUMTREE, {**tables, "moved": near})
    for wrong in ([{**row, "outrun": 0} for row in near], [{**row, "outrun": 1} for row in near]):
        claims = {each.key: each for each in PLUMTREE.judge({**tables, "moved": wrong})}
        assert judged("", (1,), [claims["moved-when"]]).verdict == FAILS


def test_word_of_a_publication_outruns_a_tree_that_goes_round():
    """A ring of six: the tree of 0 is cut between 2 and 3, so that what 2 says comes to 3 the long way."""
    ring = {tuple(sorted((at, (at + 1) % 6))): 25 * MS for at in range(6)} | {(2, 3): 26 * MS}
    assert outrun(ring, 0, 0) == 0
    assert outrun(ring, 0, 2) == 1  # 26 + 5 + 80 ms before five links of 25 ms
    assert outrun({link: delay // 5 for link, delay in ring.items()}, 0, 2) == 0


def test_the_bounds_of_the_test(monkeypatch):
    monkeypatch.setattr(gossip_plumtree, "FOUND", (14, 16))
    monkeypatch.setattr(gossip_plumtree, "TESTED", 16)
    check(BOUNDS, BOUNDS.measure(RUN), axes=OF_FOUND)


def test_what_crashes_leave(monkeypatch):
    monkeypatch.setattr(gossip_plumtree, "CRASHING", (30,))
    check(CRASHES, CRASHES.measure(RUN), axes=OF_FOUND)


def test_what_compiles_runs():
    gossip_plumtree.tiny()
    gossip_plumtree.tiny_network()
    assert nx.is_connected(gossip_plumtree.noted(1))
