"""The comparison of PART's protocol with its baselines, on a small network."""

from __future__ import annotations

import pytest

from analysis.papers import part_network
from analysis.papers.claims import HOLDS, REPORTED, judged
from analysis.papers.experiment import Run
from analysis.papers.part_network import SORTS
from tests.analysis.wrong_data import broken_by

(EXPERIMENT,) = part_network.EXPERIMENTS


@pytest.fixture(scope="module")
def tables():
    with pytest.MonkeyPatch.context() as patched:
        real = part_network.model
        patched.setattr(part_network, "model", lambda *said: real(*said, brokers=8))
        return EXPERIMENT.measure(Run(1, False, lambda text: None))


def test_the_three_protocols_serve_the_same_workload_and_spatial_sends_the_fewest_objects(tables):
    flooding, keyword, spatial = tables["network"][:3]
    assert flooding["published"] == keyword["published"] == spatial["published"] > 20
    assert flooding["objects"] == 7 * flooding["published"]
    assert flooding["objects"] > keyword["objects"] > spatial["objects"] > 0
    assert keyword["heads"] == keyword["summaries"] == 0 < spatial["heads"]
    assert spatial["objects"] + spatial["heads"] == keyword["objects"]
    for row in tables["network"]:
        assert row["messages"] == sum(row[sort] for sort in SORTS)


def test_every_claim_follows_from_the_table_and_can_fail(tables):
    found = {each.key: judged("", (1,), [each]).verdict for each in EXPERIMENT.judge(tables)}
    assert {found[key] for key in ("floods", "as-head-or-whole", "alike", "bytes-beside-flooding")} == {HOLDS}
    assert found["bytes-beside-keyword"] == HOLDS
    assert found["messages-beside-flooding"] == found["messages-beside-keyword"] == REPORTED
    axes = ("payload_kib", "brokers")
    assert [key for key in found if not broken_by(EXPERIMENT, tables, key, axes)] == []


def test_the_picture_has_a_line_for_each_protocol(tables):
    (picture,) = EXPERIMENT.draw(tables)
    assert [each.name for each in picture.curves] == list(part_network.PROTOCOLS)
    assert all(each.x == [1, 100] and len(each.y) == 2 for each in picture.curves)
