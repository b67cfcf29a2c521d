"""The server's modes in the network: claims follow from the table, and wrong tables break each of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.papers import merging_network as paper
from analysis.papers.claims import HOLDS, REPORTED, judged
from analysis.papers.experiment import Run
from tests.analysis.wrong_data import broken_by

(EXPERIMENT,) = paper.EXPERIMENTS
SMALL = paper.Setting(queries=120, brokers=6, objects=2_000, channels=5)


@pytest.fixture(scope="module")
def tables():
    with pytest.MonkeyPatch.context() as patched:
        real = paper.measure

        def small(setting, seed):
            return real(replace(SMALL, mode=setting.mode, clustered=setting.clustered), seed)

        patched.setattr(paper, "measure", small)
        return EXPERIMENT.measure(Run(1, False, lambda text: None))


def test_the_network_does_what_the_cost_model_says(tables):
    found = {each.key: judged("", (1,), [each]).verdict for each in EXPERIMENT.judge(tables)}
    assert found == {
        "merged": HOLDS, "sent": HOLDS, "irrelevant": HOLDS, "saved": HOLDS, "server-bytes": REPORTED,
        "link-bytes": REPORTED,
    }  # fmt: skip
    assert any(row["irrelevant"] > 0 for row in tables["network"])
    assert any(row["merged"] < SMALL.queries for row in tables["network"])


def test_each_claim_can_fail(tables):
    keys = [each.key for each in EXPERIMENT.judge(tables)]
    assert [key for key in keys if not broken_by(EXPERIMENT, tables, key, ("clustering factor",))] == []


def test_pictures_have_a_line_for_each_mode(tables):
    drawn = list(EXPERIMENT.draw(tables))
    assert [each.name for each in drawn] == ["server_bytes", "link_bytes"]
    assert all([curve.name for curve in each.curves] == list(paper.MODES) for each in drawn)
    assert all(curve.x == list(paper.CLUSTERING) and len(curve.y) == 5 for each in drawn for curve in each.curves)
