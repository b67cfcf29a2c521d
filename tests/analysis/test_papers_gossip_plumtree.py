"""Claims about Plumtree and HyParView in `brokerlab reproduce gossip`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.bench.routing_plumtree import Sizes
from analysis.papers import gossip_plumtree
from analysis.papers.claims import HOLDS
from analysis.papers.experiment import Run, Told


@pytest.mark.parametrize("experiment", ["plumtree", "bounds", "crashes"])
def test_what_is_claimed_holds_at_a_small_scale(experiment, tmp_path, monkeypatch):
    small = Sizes(seeds=(3, 4), linked=20, found=(10,), together=10, crashing=(30,), crashed=(0.8,))
    monkeypatch.setattr(gossip_plumtree, "_sizes", lambda report: replace(small))
    report = Told(Run(3, False, lambda text: None))
    getattr(gossip_plumtree, experiment)(report)
    assert report.claims and [each.name for each in report.claims if each.verdict != HOLDS] == []
