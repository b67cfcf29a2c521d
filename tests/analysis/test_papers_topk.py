"""The reproduction of the top-k paper: its settings vary what they say, its claims are all there."""

from __future__ import annotations

import numpy as np

from analysis.papers import topk, topk_network
from analysis.papers.claims import HOLDS, REPORTED
from analysis.papers.experiment import Run, Told

TINY = topk.Scale(filters=400, growth=(200, 400, 800), messages=2)


def test_a_message_without_its_last_attributes_matches_only_on_the_first():
    full, short = (topk.measured(topk.Point(filters=2_000, present=m), TINY, 1) for m in (20, 5))
    assert full["same"] and short["same"]
    assert 3 < full["hits"] / short["hits"] < 5
    assert short["bound"] < full["bound"]


def test_every_claim_is_made_and_the_answers_agree(tmp_path, monkeypatch):
    monkeypatch.setattr(topk, "Scale", lambda: TINY)
    drawn = []  # plots take long, and are tested with the report
    monkeypatch.setattr(Told, "plot", lambda self, name, *_, **__: drawn.append(name))
    report = Told(Run(1, False, lambda text: None))
    topk.library(report)
    claims = {claim.name: claim.verdict for claim in report.claims}
    assert claims["all indexes give the same answers"] == HOLDS
    assert claims["the paper's structure beside the scan"] == REPORTED
    assert len(claims) == 7
    assert drawn == ["filters", "present", "width", "k", "constraints", "sender", "bound"]
    for name in ("filters", "present", "width", "k", "constraints", "sender"):
        assert report.tables[name]


def test_weights_of_the_sender_are_asked_where_the_sweep_says_so():
    rows = [topk.measured(topk.Point(filters=500, sender=sender), TINY, 1) for sender in (False, True)]
    assert np.isclose(rows[0]["hits"], rows[1]["hits"]) and all(row["same"] for row in rows)


def test_without_changes_the_protocols_deliver_alike_and_differ_in_what_they_send():
    setting = topk_network.Setting(brokers=12, filters=240, k=3, changes=0.0, publications=30)
    found = {protocol: topk_network.measure(setting, protocol, 1) for protocol in topk_network.PROTOCOLS}
    ingress, gather, bounded = found.values()
    assert ingress.deliveries == gather.deliveries == bounded.deliveries > 0
    assert ingress.changes == gather.changes == bounded.changes == 0
    assert ingress.messages < bounded.messages < gather.messages
    assert 22 <= gather.messages <= 33  # a question and an answer per link, and the delivery
    assert (ingress.state, gather.state, bounded.refreshes) == (240, 20, 0)


def test_the_network_part_varies_one_thing_at_a_time(tmp_path, monkeypatch):
    small = topk_network.Setting(brokers=6, filters=40, publications=10)
    factors = {
        "brokers": [("6", small)],
        "region": [(r, small) for r in ("0.02", "0.03", "0.05", "0.1", "None")],
    }
    monkeypatch.setattr(topk_network, "factors", lambda full: factors)
    monkeypatch.setattr(Told, "plot", lambda self, *_, **__: None)
    report = Told(Run(1, False, lambda text: None))
    topk_network.network(report)
    assert [claim.verdict == REPORTED for claim in report.claims] == [False, True, True, True, True]
