"""The comparison of PART's protocol with its baselines, on a small network."""

from __future__ import annotations

from analysis.papers.part_network import PROTOCOLS, measured, model


def test_the_three_protocols_serve_the_same_workload_and_spatial_sends_the_fewest_objects():
    rows = {protocol: measured(model(protocol, 1 << 10, 1, False, brokers=8)) for protocol in PROTOCOLS}
    flooding, keyword, spatial = (rows[protocol] for protocol in PROTOCOLS)
    assert flooding["published"] == keyword["published"] == spatial["published"] > 20
    assert flooding["objects"] == 7 * flooding["published"]
    assert flooding["objects"] > keyword["objects"] > spatial["objects"] > 0
    assert keyword["heads"] == keyword["summaries"] == 0 < spatial["heads"]
    assert spatial["objects"] + spatial["heads"] == keyword["objects"]
    for row in rows.values():
        assert row["messages"] == sum(row[s] for s in ("objects", "heads", "summaries", "questions", "answers", "ends"))
