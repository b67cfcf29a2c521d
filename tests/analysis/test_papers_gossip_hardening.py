"""Claims about published attack settings in `brokerlab reproduce gossip`: what breaks them, and what is measured."""

from __future__ import annotations

import pytest

from analysis.papers import gossip_hardening
from analysis.papers.experiment import Run
from tests.analysis.test_papers_gossip_attacked import broken
from tests.analysis.wrong_data import broken_by

FOUND = {
    "delivered": 1.0, "most in meshes": 0.58, "in meshes": 0.002, "score": -9.5, "latency ms": 40.0, "99 % ms": 140.0,
    "at 75 s": 0.58, "at 90 s": 0.08, "at 105 s": 0.01,
}  # fmt: skip
(EXPERIMENT,) = gossip_hardening.EXPERIMENTS


def found(**wrong):
    rows = {name.removeprefix("hardening-"): {"scenario": name, **FOUND} for name in gossip_hardening.SCENARIOS}
    rows["covert-flash"] |= {"in meshes": 0.22, "score": -3.0}
    rows["dawn"] |= {"most in meshes": 1.0}
    rows["oppgraft"] |= {"99 % ms": 74.0}
    for name, (key, value) in wrong.items():
        rows[name.replace("_", "-")][key] = value
    return {"hardening": list(rows.values())}


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({}, []),
        ({"dawn": ("delivered", 0.999)}, ["hardening-delivered"]),
        ({"dawn": ("most in meshes", 0.99)}, ["hardening-most"]),
        ({"covert_flash": ("most in meshes", 0.5)}, ["hardening-most"]),
        ({"cold_boot": ("in meshes", 0.06)}, ["hardening-last"]),
        ({"covert_flash": ("in meshes", 0.05)}, ["hardening-last"]),
        ({"cold_boot": ("score", -13.0)}, ["hardening-score"]),
        ({"oppgraft": ("99 % ms", 150.0)}, ["hardening-oppgraft"]),
    ],
)
def test_each_claim_breaks_by_what_it_is_about(wrong, key):
    assert broken(gossip_hardening.judge(found(**wrong))) == key


def test_tables_that_lie_break_each_claim():
    tables = found()
    keys = [each.key for each in EXPERIMENT.judge(tables)]
    assert set(tables) == set(EXPERIMENT.titles)
    assert [key for key in keys if not broken_by(EXPERIMENT, tables, key, ("scenario",))] == []


def test_sybils_are_in_meshes_until_they_are_seen_through(monkeypatch):
    few = ("duration=110 s", "topology.nodes=24", "topology.further=6", "clients.everybody.count=24")
    monkeypatch.setattr(gossip_hardening, "SCALE", few)
    monkeypatch.setattr(gossip_hardening, "SCENARIOS", ("hardening-cold-boot",))
    said = []
    (row,) = gossip_hardening.hardening(Run(1, False, said.append))["hardening"]
    assert said and row.keys() - {"scenario"} == FOUND.keys()
    assert row["delivered"] == 1 and row["most in meshes"] >= row["at 75 s"] > row["at 105 s"]
    assert row["at 75 s"] > 0.2 and row["at 105 s"] < 0.1 and -12.5 <= row["score"] < -9
