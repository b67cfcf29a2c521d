"""The comparison of the context protocols: the same work for all, and what it claims follows from its rows."""

from __future__ import annotations

from analysis.papers import agile_network
from analysis.papers.claims import FAILS, HOLDS
from analysis.papers.experiment import Run, Told


def test_the_protocols_get_the_same_messages_and_differ_in_what_travels():
    edge, replicated, escalated = (agile_network.measure(p, 2.0, 1, 8) for p in agile_network.PROTOCOLS)
    assert edge["publications"] == replicated["publications"] == escalated["publications"] > 100
    assert edge["publications over links"] > escalated["publications over links"]
    assert edge["publications over links"] > replicated["publications over links"]
    assert escalated["updates over links"] < replicated["updates over links"]


def test_both_claims_are_judged_on_the_fastest_updates(tmp_path, monkeypatch):
    def measured(protocol, rate, seed, brokers):
        rank = agile_network.PROTOCOLS.index(protocol)
        return {
            "updates per second": rate, "protocol": protocol, "publications over links": 10 - rank,
            "updates over links": rank * rate, "messages": 1, "latency_ms": 1.0,
        }  # fmt: skip

    monkeypatch.setattr(agile_network, "measure", measured)
    monkeypatch.setattr(Told, "plot", lambda self, *_, **__: None)
    report = Told(Run(1, False, lambda text: None))
    agile_network.network(report)
    assert [claim.verdict for claim in report.claims] == [HOLDS, FAILS]
