"""The group `topk`: its filters are what they say, its rows are all there. No figure is judged here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.bench import topk, topk_views
from analysis.bench.filters import WEIGHTS, filters, messages
from analysis.bench.registry import BENCHES
from brokers.registry import load

SETTING = topk_views.Setting(brokers=8, filters=64, publications_per_s=50.0, seconds=0.2)
SMALL = topk.Sizes(
    filters=600, filters_small=300, messages=4, messages_slow=2, turns=2, churn=40, batch=500,
    networks=topk_views.Sizes(1, replace(SETTING, brokers=12), SETTING),
)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_filters_have_the_weights_of_their_name(weights):
    weight = filters(topk.FILTERS, 2_000, weights)[:, 3::4]
    assert weight.shape == (2_000, 5) and weight.min() >= 0
    expected = {"uniform": 0.5, "equal": 1.0, "pareto": 2.0, "integers": 2.5}[weights]
    assert np.median(weight) == pytest.approx(expected, abs=0.51 if weights == "integers" else 0.05)
    assert len(np.unique(weight)) == {"equal": 1, "integers": 4}.get(weights, 10_000)


def test_messages_are_points_or_intervals_with_or_without_weights():
    point, interval = messages(topk.FILTERS, 1)[0], messages(topk.FILTERS, 1, "equal", 0.05)[0]
    assert point.weights is None and np.array_equal(point.low, point.high)
    assert np.allclose(interval.high - interval.low, 0.05) and set(interval.weights) == {1.0}


def test_every_row_is_there_and_every_target_is_named(monkeypatch):
    monkeypatch.setattr(topk, "Sizes", lambda: SMALL)
    rows = {row["name"]: row for row in load(BENCHES["topk"].target)()}
    for weights in WEIGHTS:
        for k in (10, 100):
            assert "23 times" in rows[f"600 filters, {weights} weights, k = {k}: topk-sliced"]["target"]
            sent = rows[f"600 filters, {weights} weights of the sender, k = {k}: topk-sliced"]
            assert "13.6 times" in sent["target"] and sent["value"] > 0
    assert rows["600 filters: topk-trees, insert"]["target"] == "at most 4 times the scan's"
    assert rows["600 filters: topk-sliced, delete"]["target"] == "at most 8 times the scan's"
    for protocol in ("topk-ingress", "topk-gather", "topk-bounded"):
        assert rows[f"8 brokers, 64 filters, 100 changes/s: {protocol}"]["value"] > 0
    assert rows["600 filters, uniform weights, k = 10: topk-fagin"]["holds"] is None
    assert rows["600 filters, after 40 deletes and inserts, k = 10: topk-trees"]["value"] > 0
    assert len(rows) == 52


def test_an_index_that_answers_otherwise_is_not_timed():
    index, scan = (topk.filled(name, topk.FILTERS, count, SMALL) for name, count in
                   ((topk.FAST, 500), (topk.BASELINE, 600)))
    with pytest.raises(AssertionError, match="differs from the scan's"):
        topk.timed("x", index, scan, messages(topk.FILTERS, 4), topk.Query(600), SMALL)
