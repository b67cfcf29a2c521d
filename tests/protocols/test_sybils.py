"""The sybil of a published test: what it does, by the hops of runs; the dawn; and the settings that are shipped."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from brokers.contract import MESSAGE
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from protocols.gossip import attacked
from protocols.gossip.options import Options
from protocols.gossip.talking import GRAFT, IHAVE, IWANT, JOINED, PRUNE
from protocols.topics.kind import PUBLISH
from scenarios.loader import load, loads
from scenarios.plan import resolve
from scenarios.problems import ScenarioErrors
from tests.protocols.test_attacks import KIND, SYBILS, Ran, S, ran, unharmed

MS = S // 1000
WAY = 15 * MS  # at most from broker to broker


@lru_cache
def pestering() -> Ran:
    return ran("sybil", regraft_backoff="4 s", regraft="1 s")


def messages(found: Ran, type: int) -> list[tuple[int, int, int]]:
    """(receiver, sender, when it arrived) of a type, between brokers."""
    hops = found.tables["hops"]
    rows = (hops["kind"] == MESSAGE) & (hops["type"] == type) & (hops["link"] >= 0)
    return list(zip(*(hops[name][rows].tolist() for name in ("broker", "source", "time_ns"))))


def neighbours(found: Ran, sybil: int) -> set[int]:
    """Those whom it told that it had joined: all of them."""
    return {broker for broker, source, _ in messages(found, JOINED) if source == sybil}


def test_sybils_graft_whoever_joins_at_once_and_neither_pass_on_nor_tell_nor_prune():
    found = pestering()
    assert found.sent(PUBLISH, of_others=True) == found.sent(IHAVE) == found.sent(IWANT) == found.sent(PRUNE) == 0
    for sybil in SYBILS:
        grafted = {broker for broker, source, at in messages(found, GRAFT) if source == sybil and at <= 2 * WAY}
        assert grafted == neighbours(found, sybil) and len(grafted) == 16
    assert found.sent(PUBLISH) > 0  # of their own clients,
    theirs = np.isin(found.tables["deliveries"]["broker"], SYBILS)
    assert theirs.sum() > 200  # who get what comes


def test_whoever_prunes_a_sybil_is_grafted_again_once_and_not_before_backoff_is_over():
    found = pestering()
    grafts = sorted((source, broker, at) for broker, source, at in messages(found, GRAFT) if source in SYBILS)
    first = {}
    for source, broker, at in grafts:
        first.setdefault((source, broker), at)
    again = [each for each in grafts if each[2] > first[each[:2]]]
    pruned: dict[tuple[int, int], list[int]] = {}
    for broker, source, at in messages(found, PRUNE):
        if broker in SYBILS:
            pruned.setdefault((broker, source), []).append(at)
    waits = []
    for source, broker, at in again:
        before = [at - each for each in pruned[source, broker] if 4 * S <= at - each <= 5 * S + WAY]
        assert before
        waits += before
    assert len(waits) > 20 and max(waits) - min(waits) > S // 2  # drawn
    due = sum(at + 5 * S < 24 * S for each in pruned.values() for at in each)
    assert due <= len(again) <= sum(map(len, pruned.values()))


def test_a_sybil_passes_all_on_until_it_attacks_and_withholds_whole_payloads():
    flash = ran("sybil", start="12 s")
    assert flash.sent(PUBLISH, of_others=True, until=12 * S) > 500
    assert flash.sent(PUBLISH, of_others=True, since=12 * S + WAY) == 0
    assert flash.sent(GRAFT, until=S) == len(SYBILS) * 16  # it grasps from the start

    def passed(found: Ran) -> int:
        """Pairs of a sybil and a publication of others that it passed on."""
        hops = found.tables["hops"]
        rows = (hops["type"] == PUBLISH) & (hops["link"] >= 0) & np.isin(hops["source"], SYBILS)
        return len(set(zip(hops["source"][rows].tolist(), hops["body"][rows].tolist())))

    assert passed(ran("sybil", drop="0.5")) == pytest.approx(0.5 * passed(ran("sybil", drop="0")), rel=0.2)


def test_a_sybil_that_comes_late_is_quiet_and_in_no_mesh_before():
    late = ran("sybil", connect="8 s")
    hops = late.tables["hops"]
    theirs = (hops["link"] >= 0) & np.isin(hops["source"], SYBILS)
    assert hops["time_ns"][theirs].min() >= 8 * S and theirs.sum() > 100
    to_them = np.isin(hops["broker"], SYBILS) & (hops["link"] >= 0) & np.isin(hops["type"], (GRAFT, PUBLISH))
    assert hops["time_ns"][to_them].min() > 8 * S and to_them.sum() > 100
    scores = late.tables["scores"]
    in_mesh = (scores["attacker"] > 0) & (scores["mesh"] > 0) & ~np.isin(scores["broker"], SYBILS)
    assert scores["time_ns"][in_mesh].min() > 8 * S
    assert late.result.digest_per_second[1:8] != unharmed().result.digest_per_second[1:8]


# ---- the dawn --------------------------------------------------------------------------------------------


def dawn(seed: int) -> Ran:
    return Ran(
        "{behaviour: sybil, brokers: ['s*']}", f"seed={seed}",
        "faults={detect: 1 ms, schedule: [{fault: cut, among: ['b*'], at: 0 s, lasts: 5 s}]}",
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(1, 3))
def test_at_dawn_brokers_have_sybils_alone_and_each_other_later(seed):
    found = dawn(seed)
    honest = [(at, type_) for type_ in (JOINED, GRAFT, PUBLISH) for broker, source, at in messages(found, type_)
              if broker < 20 and source < 20]  # fmt: skip
    assert min(at for at, _ in honest) > 5 * S
    assert {type_ for _, type_ in honest} == {JOINED, GRAFT, PUBLISH}
    sybils = attacked.scores_over_time(found.tables)[1]
    alone = sybils.time_ns < 5 * S
    assert sybils.in_mesh[alone].max() == 1 and alone.sum() >= 3
    assert sybils.in_mesh[-1] < 0.1 and attacked.in_meshes(found.tables, KIND) < 0.1


CUT = """
duration: 1 s
topology: {kind: attached, nodes: 8, dials: 3, further: 3, links: 4}
clients: {all: {count: 3}}
services: [{name: a, kind: content, protocol: flooding, attributes: 1, workload: [{source: publish, rate: 1/s}]}]
faults: {schedule: [{fault: cut, at: 0 s, MORE}]}
"""


@pytest.mark.parametrize(("among", "who"), [("['b*']", range(8)), ("[s0, 'b*']", range(9)), ("[b1, 2, b5]", (1, 2, 5))])
def test_what_is_cut_among_brokers_are_the_links_with_both_ends_there(among, who):
    model = resolve(loads(CUT.replace("MORE", f"among: {among}")))
    overlay = model.overlay
    ends = [frozenset(pair) for pair in zip(overlay.link_a.tolist(), overlay.link_b.tolist())]
    inside = {frozenset(pair) for pair in combinations(who, 2)}
    expected = sorted(2 * link + way for link, pair in enumerate(ends) if pair in inside for way in (0, 1))
    assert sorted(each.link for each in model.faults.faults) == expected and 0 < len(expected) < 2 * overlay.links


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("among: ['x*']", "no broker has a name like 'x"),
        ("among: [b99]", "there is no broker named 'b99'"),
        ("among: ['b*'], link: [b0, b1]", "in one way: `link` or `among`"),
        ("lasts: 1 s", "in one way: `link` or `among`"),
        ("among: ['b*'], way: there", "leave out `way`"),
    ],
)
def test_what_cannot_be_cut_is_refused_with_its_place(more, told):
    with pytest.raises(ScenarioErrors, match=told):
        resolve(loads(CUT.replace("MORE", more)))


# ---- the published settings ------------------------------------------------------------------------------

PUBLISHED = {  # of all five files
    "d": 8, "d_lo": 6, "d_hi": 12, "d_score": 6, "d_lazy": 12, "heartbeat": S, "first_heartbeat": 100 * MS,
    "flood_publish": True, "payload": 2048, "version": "1.1",
}  # fmt: skip
SCORES = {"decay_every": S, "decay_to_zero": 0.01, "retain": 30 * S, "address_weight": 0, "behaviour_weight": 0}
TOPIC = {
    "weight": 0.25, "mesh_weight": 0.0027, "mesh_quantum": S, "mesh_cap": 3600, "first_weight": 0.664,
    "first_decay": 0.9916, "first_cap": 1500, "rate_weight": -0.25, "rate_decay": 0.997, "rate_cap": 400,
    "rate_threshold": 10, "rate_activation": 90 * S, "rate_window": 5 * MS, "failure_weight": -0.25,
    "failure_decay": 0.997, "invalid_weight": -99, "invalid_decay": 0.9994,
}  # fmt: skip
ATTACK = {"stop": None, "connect": 0, "drop": 1.0, "regraft": 15 * S, "regraft_backoff": 60 * S}
HARDENING = {  # scenario -> opportunistic ticks and threshold, attack after (None: nobody), seconds
    "hardening": (60, 0, None, 240), "hardening-cold-boot": (60, 0, 0, 240), "hardening-oppgraft": (10, 1, 0, 240),
    "hardening-covert-flash": (60, 0, 120 * S, 360), "hardening-dawn": (60, 0, 0, 240),
}  # fmt: skip
FULL = (
    "topology.nodes=1000", "topology.further=250", "clients.everybody.count=1000", "clients.press.count=100",
    "services.blocks.workload.topic-publish.total_rate=120/s",
)  # fmt: skip


@pytest.mark.parametrize("name", HARDENING)
def test_settings_are_those_of_the_published_files(name):
    ticks, threshold, start, seconds = HARDENING[name]
    scenario = load(name)
    (service,) = scenario.services
    said: Any = Options(**service.options)
    assert {key: getattr(said, key) for key in PUBLISHED} == PUBLISHED
    assert said.opportunistic_ticks == ticks
    assert said.scoring.model_dump(include=set(SCORES)) == SCORES and said.scoring.topic.model_dump() == TOPIC
    assert said.scoring.thresholds.model_dump() == {
        "gossip": -4000, "publish": -5000, "graylist": -10000, "accept_px": 0, "opportunistic": threshold,
    }  # fmt: skip
    assert scenario.model.duration == seconds * S
    topology = scenario.model.topology.model_dump()
    assert topology["dials"] == 20 and (start is None or topology["links"] == 20)
    attacks = [each.params for each in service.attackers]
    assert attacks == ([] if start is None else [{**ATTACK, "start": start}])
    late = [(each.params["at"], each.params["lasts"]) for each in scenario.faults]
    assert late == ([(0, 11_500 * MS)] if name == "hardening-dawn" else [])


@pytest.mark.parametrize("name", [each for each in HARDENING if each != "hardening"])
def test_full_size_is_said_in_each_file_and_makes_1250_brokers(name):
    model = resolve(load(name, FULL))
    assert model.overlay.brokers == 1250 and len(model.services[0].attackers[0].brokers) == 250
    home = model.client_broker
    assert len(home) == 1100 and max(home) < 1000
    degree = model.overlay.degree
    assert (degree[1000:] == 20).all() and 43 < degree[:1000].mean() < 45.5  # 20 dialled, 20 dialling, 5 sybils


def test_who_brings_nothing_falls_by_what_p3_and_p3b_take_and_never_to_the_graylist():
    small = ("topology.nodes=24", "topology.further=6", "clients.everybody.count=24", "duration=100 s")
    model = resolve(load("hardening-cold-boot", [*small, "services.blocks.options.watch_ticks=1", "expect=[]"]))
    traces = MemoryTraces("deliveries", tables_of(model))
    simulate(model, trace=traces)
    scores = traces.tables()["scores"]
    theirs = (scores["topic"] == "") & (scores["attacker"] > 0)
    early, late = theirs & (scores["time_ns"] <= 90 * S), theirs & (scores["time_ns"] >= 94 * S)
    assert scores["score"][early].min() >= 0 and scores["mesh"][early & (scores["time_ns"] > 5 * S)].mean() > 0.9
    assert scores["mesh"][late].mean() < 0.1
    deficit = 0.25 * 0.25 * 10**2  # weight of the topic, of the part, and what lacks, squared
    turned_out = late & (scores["mesh"] == 0)
    assert scores["p3"][turned_out] == pytest.approx(-deficit)
    assert (-deficit <= scores["p3b"][turned_out]).all() and scores["p3b"][turned_out].max() <= -deficit * 0.997**12
    assert scores["score"].min() >= -2 * deficit > -10_000
