"""Claims about Plumtree and HyParView in `brokerlab reproduce gossip`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.bench.routing_plumtree import Sizes
from analysis.papers import gossip_plumtree
from analysis.papers.registry import PAPERS
from analysis.papers.report import Report
from brokers.registry import load


@pytest.mark.parametrize("experiment", ["plumtree", "bounds", "crashes"])
def test_what_is_claimed_holds_at_a_small_scale(experiment, tmp_path, monkeypatch):
    small = Sizes(seeds=(3, 4), linked=20, found=(10,), together=10, crashing=20)
    monkeypatch.setattr(gossip_plumtree, "_sizes", lambda report: replace(small))
    report = Report("gossip", tmp_path, 3, False, lambda text: None)
    getattr(gossip_plumtree, experiment)(report)
    assert report.claims and [each["name"] for each in report.claims if each["holds"] is not True] == []


def test_every_experiment_is_one_of_the_name():
    entry = PAPERS["gossip"]
    named = [load(each) for each in (entry.target, *entry.facts["further"])]
    assert {gossip_plumtree.plumtree, gossip_plumtree.bounds, gossip_plumtree.crashes} <= set(named)
