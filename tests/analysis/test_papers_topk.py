"""The reproduction of the top-k paper: its settings vary what they say, its claims are all there."""

from __future__ import annotations

import numpy as np

from analysis.papers import topk, topk_network
from analysis.papers.claims import HOLDS, REPORTED, judged
from analysis.papers.experiment import Run
from tests.analysis.wrong_data import broken_by

TINY = topk.Scale(filters=400, growth=(200, 400, 800), messages=2)


def test_a_message_without_its_last_attributes_matches_only_on_the_first():
    full, short = (topk.measured(topk.Point(filters=2_000, present=m), TINY, 1) for m in (20, 5))
    assert full["same"] and short["same"]
    assert 3 < full["hits"] / short["hits"] < 5
    assert short["bound"] < full["bound"]


def test_every_claim_follows_from_its_tables_and_can_fail(monkeypatch):
    monkeypatch.setattr(topk, "scale_of", lambda run: TINY)
    (experiment,) = topk.EXPERIMENTS
    tables = experiment.measure(Run(1, False, lambda text: None))
    found = {each.key: judged("", (1,), [each]).verdict for each in experiment.judge(tables)}
    assert (found["same"], found["beside-scan"]) == (HOLDS, REPORTED)
    right = {name: [row | {"trees_us": 3 + row["bound"] / 100} for row in rows] for name, rows in tables.items()}
    axes = ("filters", "present", "k")
    assert [key for key in found if not broken_by(experiment, tables, key, axes, right)] == []
    assert [each.name for each in experiment.draw(tables)] == [*topk.SWEEPS, "bound"]
    assert set(tables) == set(experiment.titles)


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


def test_the_network_part_varies_one_thing_at_a_time(monkeypatch):
    small = topk_network.Setting(brokers=6, filters=40, publications=10)
    settings = {
        "brokers": [("6", small)],
        "region": [(r, small) for r in ("0.02", "0.03", "0.05", "0.1", "None")],
    }
    monkeypatch.setattr(topk_network, "factors", lambda full: settings)
    experiments = {each.name: each for each in topk_network.EXPERIMENTS}
    pictures = {}
    for name, key in (("network-brokers", "latency"), ("network-region", "half")):
        tables = experiments[name].measure(Run(1, False, lambda text: None))
        claims = {each.key: each for each in experiments[name].judge(tables)}
        assert broken_by(experiments[name], tables, key, ())
        pictures[name] = len(list(experiments[name].draw(tables)))
    assert pictures == {"network-brokers": 1, "network-region": 0}
    assert [each.bound is not None for each in claims["half"].figures.values()] == [True, True, True, False, False]
    assert [each.bound for each in claims["latency"].figures.values()] == [None] * 5
