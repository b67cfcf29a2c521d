"""Claims about attackers and send queues in `brokerlab reproduce gossip`: what would break each of them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from analysis.papers import gossip_attacked
from analysis.papers.claims import Claim
from analysis.papers.experiment import Run
from scenarios.loader import load
from scenarios.plan import resolve
from tests.analysis.wrong_data import broken_by

NAMES = ("unscored", "silent", "cold-boot", "covert-flash")
FOUND = {"delivered": 1.0, "latency ms": 60.0, "score": -12.0, "in meshes": 0.04, "most in meshes": 0.95}
NOTHING = {"lost": 0, "incomplete": 0, "in no mesh": 0, "lost in a mesh": 0, "dropped": 0}
LOST = {"lost": 90, "incomplete": 60, "in no mesh": 2, "lost in a mesh": 0, "dropped": 600}
QUEUES = [
    {"version": "1.2", "m": 2, "publications": 36_000, **LOST},
    {"version": "1.2", "m": 6, "publications": 36_000, **NOTHING},
    {"version": "1.0", "m": 2, "publications": 36_000, **LOST},
]


def attacks(**wrong: tuple[str, float]):
    rows = {name: {"service": name, **FOUND} for name in NAMES}
    rows["unscored"] |= {"in meshes": 0.97, "latency ms": 600.0}
    for name, (key, value) in wrong.items():
        rows[name.replace("_", "-")][key] = value
    return {"attacks": list(rows.values())}


def broken(claims: Iterable[Claim]) -> list[str]:
    return [
        claim.key for claim in claims
        if not all(figure.bound is None or figure.bound.has(figure.value) for figure in claim.figures.values())
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({}, []),
        ({"silent": ("delivered", 0.999)}, ["all-delivered"]),
        ({"unscored": ("in meshes", 0.5)}, ["eclipse"]),
        ({"cold_boot": ("in meshes", 0.3)}, ["eclipse"]),
        ({"cold_boot": ("latency ms", 500.0)}, ["eclipse-latency"]),
        ({"silent": ("in meshes", 0.4)}, ["silent"]),
        ({"covert_flash": ("in meshes", 0.9)}, ["flash"]),
        ({"silent": ("score", -13.0)}, ["silent-score"]),
    ],
)
def test_each_claim_breaks_by_what_it_is_about(wrong, key):
    assert broken(gossip_attacked.judge_attacks(attacks(**wrong))) == key


def test_losses_above_m_2_or_in_a_mesh_break_the_claims_of_queues():
    assert broken(gossip_attacked.judge_queues({"queues": QUEUES})) == []
    for at, key, value, claims in (
        (1, "lost", 5, ["queues-of-32"]), (0, "lost in a mesh", 5, ["who-loses"]), (0, "in no mesh", 0, ["who-loses"]),
        (0, "lost", 9, ["lost-deliveries"]), (0, "lost", 0, ["queues-of-32", "lost-deliveries"]),
        (0, "incomplete", 247, ["lost-publications"]),
        (0, "publications", 200, ["lost-publications", "lost-deliveries"]),
    ):  # fmt: skip
        wrong = [{**row, key: value} if row is QUEUES[at] else row for row in QUEUES]
        assert broken(gossip_attacked.judge_queues({"queues": wrong})) == claims


@pytest.mark.parametrize("experiment", gossip_attacked.EXPERIMENTS, ids=lambda each: each.name)
def test_tables_that_lie_break_each_claim(experiment):
    tables = attacks() if experiment.name == "attacked" else {"queues": QUEUES}
    axes = ("service", "version", "m", "publications")
    keys = [each.key for each in experiment.judge(tables)]
    assert set(tables) == set(experiment.titles)
    assert [key for key in keys if not broken_by(experiment, tables, key, axes)] == []


def test_what_is_lost_is_counted_by_broker_and_by_publication(monkeypatch):
    monkeypatch.setattr(gossip_attacked, "RATE", 60)  # publications, all within a second
    tables = gossip_attacked.queues(Run(1, False, lambda text: None))
    thin, dense, _ = tables["queues"]
    assert thin["lost"] >= thin["incomplete"] > 0 and thin["dropped"] > 0 and thin["lost in a mesh"] == 0
    assert [dense[key] for key in NOTHING] == [0] * len(NOTHING)


def test_the_full_size_has_degrees_and_time_of_the_test(monkeypatch):
    asked = {}

    def resolved(scenario):
        asked["model"] = resolve(scenario)
        raise StopIteration

    monkeypatch.setattr(gossip_attacked, "resolve", resolved)
    with pytest.raises(StopIteration):
        gossip_attacked.attacks(Run(3, True, lambda text: None))
    model = asked["model"]
    assert (model.overlay.brokers, model.duration_ns) == (500, 180_000_000_000)
    assert [len(service.attackers[0].brokers) for service in model.services] == [100] * 4
    assert set(model.overlay.degree[400:].tolist()) == {100}
    assert 40 < model.overlay.degree[:400].mean() < 50  # some 20 links, and 25 that are sybils'
    assert len(load(gossip_attacked.SCENARIO).services) == 4
