"""What attackers among brokers of GossipSub do, each beside a run without them, and what scores make of it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from protocols.gossip import attacked
from protocols.gossip.talking import GRAFT, IHAVE
from protocols.topics.kind import PUBLISH, Topics
from scenarios.loader import loads
from scenarios.plan import resolve

S = 1_000_000_000
KIND = Topics(Topics.Params().model_dump())
TEXT = """
duration: 24 s
topology: {kind: attached, nodes: 20, dials: 6, further: 5, links: 16}
links: {delay: {kind: uniform, low: 5 ms, high: 15 ms}}
clients: {all: {count: 25, placement: even}}
services:
  - name: news
    kind: topics
    wildcards: false
    protocol: gossipsub
    options:
      version: "1.1"
      d_hi: 8
      watch_ticks: 1
      backoff: 4 s
      graft_flood: 1 s
      scoring:
        behaviour_weight: -10
        topic:
          mesh_weight: 0.01
          first_weight: 0.2
          first_decay: 0.9
          rate_weight: -1
          rate_cap: 50
          rate_threshold: 8
          rate_decay: 0.9
          rate_activation: 5 s
          failure_weight: -1
          failure_decay: 0.995
    workload:
      - {source: topic-subscribe, filter: "1"}
      - {source: topic-publish, topics: 1, depth: 1, total_rate: 8/s, start: 2 s}
trace: {level: full}
"""
SYBILS = range(20, 25)


class Ran:
    def __init__(self, attackers: str, *more: str) -> None:
        model = resolve(loads(TEXT, [f"services.news.attackers=[{attackers}]", *more]))
        traces = MemoryTraces("full", tables_of(model))
        self.result = simulate(model, trace=traces)
        self.tables: dict[str, Any] = dict(traces.tables())

    def sent(self, type: int, *, of_others: bool = False, since: int = 0, until: int = 1 << 60) -> int:
        """How many messages of a type the sybils sent; `of_others`: of payloads that were not published there."""
        hops, published = self.tables["hops"], self.tables["publications"]
        rows = (hops["type"] == type) & (hops["link"] >= 0) & np.isin(hops["source"], SYBILS)
        rows &= (hops["time_ns"] >= since) & (hops["time_ns"] < until)
        theirs = published["publication"][np.isin(published["broker"], SYBILS)]
        return int((rows & ~np.isin(hops["body"], theirs)).sum() if of_others else rows.sum())

    def score(self, since: int = 0) -> float:
        """The median of P1 to P7 together that honest brokers gave sybils."""
        scores = self.tables["scores"]
        rows = (scores["topic"] == "") & (scores["attacker"] > 0) & ~np.isin(scores["broker"], SYBILS)
        return float(np.median(scores["score"][rows & (scores["time_ns"] >= since)]))


@lru_cache
def ran(behaviour: str, **more: str) -> Ran:
    said = "".join(f", {key}: {value}" for key, value in more.items())
    return Ran(f"{{behaviour: {behaviour}, brokers: ['s*']{said}}}")


@lru_cache
def unharmed() -> Ran:
    return Ran("{behaviour: silent, share: 0}")


def test_silent_ones_pass_nothing_on_and_tell_of_nothing_while_they_attack():
    assert unharmed().sent(PUBLISH, of_others=True) > 1000 and unharmed().sent(IHAVE) > 500
    silent = ran("silent", start="6 s", stop="12 s")
    assert silent.sent(PUBLISH, of_others=True, since=6 * S + 20_000_000, until=12 * S) == 0
    assert silent.sent(IHAVE, since=6 * S + 20_000_000, until=12 * S) == 0
    assert silent.sent(PUBLISH, since=6 * S, until=12 * S) > 0  # their own clients publish as before
    assert silent.sent(PUBLISH, of_others=True, until=6 * S) > 100
    assert silent.sent(IHAVE, since=12 * S) > 100


def test_whoever_drops_passes_on_so_much_and_tells_of_all():
    whole = unharmed().sent(PUBLISH, of_others=True)
    assert ran("dropping", drop="0.25").sent(PUBLISH, of_others=True) == pytest.approx(0.75 * whole, rel=0.2)
    assert ran("dropping", drop="1").sent(PUBLISH, of_others=True) == 0 < ran("dropping", drop="1").sent(IHAVE)
    assert ran("dropping", drop="0").result.digest == unharmed().result.digest


def test_floods_of_ids_break_promises_and_cost_their_senders_the_mesh():
    flooded = ran("ihave-flood", messages="3", ids="4")
    assert flooded.sent(IHAVE) > 3 * unharmed().sent(IHAVE)
    behaviour = flooded.tables["scores"]["p7"]
    assert behaviour.min() < -50 and not unharmed().tables["scores"]["p7"].any()
    assert flooded.score(since=15 * S) < -50
    assert attacked.in_meshes(flooded.tables, KIND) == 0 < attacked.in_meshes_most(flooded.tables, KIND)
    assert attacked.delivered(flooded.tables, KIND) == 1


def test_floods_of_grafts_come_before_backoff_is_over_and_count():
    flooded = ran("graft-flood")
    assert flooded.sent(GRAFT) > 3 * unharmed().sent(GRAFT)
    scores = flooded.tables["scores"]
    honest = (scores["attacker"] == 0) & ~np.isin(scores["broker"], SYBILS)
    assert scores["p7"][scores["attacker"] > 0].min() < -10 and not scores["p7"][honest].any()


def test_who_boots_first_is_in_the_first_meshes():
    def first(found: Ran) -> float:
        return attacked.scores_over_time(found.tables)[1].in_mesh[1]  # once all had their first heartbeat

    assert first(ran("cold-boot")) > 1.5 * first(ran("silent")) > 0


def test_scores_turn_silent_ones_out_of_meshes_once_deliveries_may_lack():
    silent = ran("silent")
    honest, sybils = attacked.scores_over_time(silent.tables)
    assert (honest.name, sybils.name) == ("honest", "1: silent")
    before, after = sybils.time_ns < 5 * S, sybils.time_ns > 21 * S  # each is tried once
    assert sybils.in_mesh[before].mean() > 0.2 > 0.02 > sybils.in_mesh[after].max()
    assert (sybils.median[after] < honest.median[after]).all() and sybils.low[after].max() < -5
    assert attacked.score_of_attackers(silent.tables, KIND) < attacked.score_of_honest(silent.tables, KIND)


def test_a_flash_is_covert_until_it_begins():
    flash = ran("covert-flash", start="12 s")
    seconds = flash.result.digest_per_second
    assert seconds[:12] == unharmed().result.digest_per_second[:12] and len(seconds) > 20
    assert flash.result.digest != unharmed().result.digest
    sybils = attacked.scores_over_time(flash.tables)[1]
    at = int(np.searchsorted(sybils.time_ns, 12 * S))
    assert sybils.in_mesh[at + 1 : at + 3].max() > 1.5 * sybils.in_mesh[at - 2] > 0  # they graft everybody
    assert sybils.high[at - 2] > 0 > sybils.median[-1]


def test_parts_of_a_score_add_up_to_it_and_topics_to_all():
    scores = ran("graft-flood").tables["scores"]
    parts = sum(scores[name] for name in ("p1", "p2", "p3", "p3b", "p4", "p5", "p6", "p7"))
    assert scores["score"] == pytest.approx(parts) and scores["score"].min() < 0 < scores["score"].max()
    assert set(scores["topic"].tolist()) == {"", "1"}


def test_honest_clients_are_counted_by_brute_force():
    found = ran("silent").tables
    bad = set(SYBILS)
    at = {25 + client: client for client in range(25)}  # one at each broker
    home = dict(zip(found["publications"]["publication"].tolist(), found["publications"]["broker"].tolist()))
    got = {
        (p, c): t - s
        for p, c, s, t in zip(
            *(found["deliveries"][name].tolist() for name in ("publication", "client", "published_ns", "time_ns"))
        )
        if home[p] not in bad and at[c] not in bad
    }
    owed = 20 * sum(broker not in bad for broker in home.values())
    assert attacked.delivered(found, KIND) == pytest.approx(len(got) / owed) and owed > 1000
    assert attacked.latency_mean(found, KIND) == pytest.approx(sum(got.values()) / len(got) / 1e6)
    assert sum(took <= attacked.latency_p99(found, KIND) * 1e6 for took in got.values()) >= 0.99 * len(got)
