"""The comparison of the context protocols: the same work for all, and what it claims follows from its rows."""

from __future__ import annotations

import pytest

from analysis.papers import agile_network
from analysis.papers.claims import FAILS, HOLDS, judged
from analysis.papers.experiment import Run
from tests.analysis.wrong_data import broken_by

(EXPERIMENT,) = agile_network.EXPERIMENTS


@pytest.fixture(scope="module")
def tables():
    with pytest.MonkeyPatch.context() as patched:
        real = agile_network.measure
        patched.setattr(agile_network, "RATES", (0.5, 5.0))
        patched.setattr(agile_network, "measure", lambda protocol, rate, seed, _: real(protocol, rate, seed, 8))
        yield EXPERIMENT.measure(Run(1, False, lambda text: None))


def verdicts(tables):
    return {each.key: judged("", (1,), [each]).verdict for each in EXPERIMENT.judge(tables)}


def test_the_protocols_get_the_same_messages_and_differ_in_what_travels(tables):
    edge, replicated, escalated = tables["network"][3:]
    assert edge["publications"] == replicated["publications"] == escalated["publications"] > 100
    assert edge["publications over links"] == 7 * edge["publications"] > escalated["publications over links"]
    assert edge["publications over links"] > replicated["publications over links"]
    assert 0 < escalated["updates over links"] < replicated["updates over links"]


def test_every_claim_holds_here_and_can_fail(tables):
    assert verdicts(tables) == {"floods": HOLDS, "fewer-publications": HOLDS, "fewer-updates": HOLDS}
    axes = ("updates per second", "brokers")
    assert [key for key in verdicts(tables) if not broken_by(EXPERIMENT, tables, key, axes)] == []


def test_one_rate_at_which_replicas_need_fewer_updates_breaks_the_claim(tables):
    lie = {"network": [dict(row) for row in tables["network"]]}
    lie["network"][2]["updates over links"] = lie["network"][1]["updates over links"]
    assert verdicts(lie) == {"floods": HOLDS, "fewer-publications": HOLDS, "fewer-updates": FAILS}


def test_pictures_have_a_line_for_each_protocol(tables):
    drawn = list(EXPERIMENT.draw(tables))
    assert [each.name for each in drawn] == ["network_messages", "network_updates_over_links", "network_latency_ms"]
    assert all([curve.name for curve in each.curves] == list(agile_network.PROTOCOLS) for each in drawn)
    assert all(len(curve.x) == len(curve.y) == 2 for each in drawn for curve in each.curves)
