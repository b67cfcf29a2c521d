"""The section `attackers` of a service: whom it names, what it refuses, and that engines agree on what they do."""

from __future__ import annotations

import pytest

from analysis.report.one import report_of
from brokers.engine.simulate import simulate
from scenarios.commands.list import names_of
from scenarios.loader import loads
from scenarios.plan import resolve
from scenarios.problems import ScenarioErrors
from scenarios.running import run
from tests.brokers.test_engine_checkpoint import (
    continued,
    differing_tables,
    folder_for,
    stopped_at,
    undisturbed,
)

TEXT = """
duration: 9 s
topology: {kind: attached, nodes: 16, dials: 3, further: 4, links: 8}
links: {delay: 5 ms}
clients: {all: {count: 20, placement: even}}
services:
  - name: news
    kind: topics
    wildcards: false
    protocol: PROTOCOL
    options: OPTIONS
    attackers: [ATTACKERS]
    metrics: METRICS
    workload:
      - {source: topic-subscribe, filter: "1"}
      - {source: topic-publish, topics: 1, depth: 1, total_rate: 5/s, start: 3 s}
trace: {level: full}
"""
WATCHED = "{watch_ticks: 2, scoring: {behaviour_weight: -10, topic: {first_weight: 1}}}"


def scenario(attackers: str, protocol: str = "gossipsub", options: str = "{}", metrics: str = "[]", **more):
    text = TEXT.replace("ATTACKERS", attackers).replace("PROTOCOL", protocol)
    return loads(text.replace("OPTIONS", options).replace("METRICS", metrics), [f"{k}={v}" for k, v in more.items()])


def brokers(attackers: str, **more) -> list[tuple[int, ...]]:
    return [each.brokers for each in resolve(scenario(attackers, **more)).services[0].attackers]


def test_attackers_are_named_or_drawn_and_none_is_drawn_twice():
    assert brokers("{behaviour: silent, brokers: [b3, 's*', 5]}") == [(3, 5, 16, 17, 18, 19)]
    one, other = brokers("{behaviour: silent, share: 0.25}, {behaviour: dropping, share: 0.5}")
    assert (len(one), len(other)) == (5, 10) and not set(one) & set(other)
    assert [one, other] == brokers("{behaviour: silent, share: 0.25}, {behaviour: dropping, share: 0.5}")
    assert one != brokers("{behaviour: silent, share: 0.25}", seed=9)[0]
    assert brokers("{behaviour: silent, share: 0}") == [()]


def test_attackers_beside_victims_are_their_neighbours():
    made = resolve(scenario("{behaviour: silent, share: 0.1, beside: [s1]}"))
    ends = zip(made.overlay.link_a.tolist(), made.overlay.link_b.tolist())
    near = {a for a, b in ends if b == made.overlay.broker("s1")}
    assert len(near) == 8 and set(made.services[0].attackers[0].brokers) < near


@pytest.mark.parametrize(
    ("attackers", "told"),
    [
        ("{behaviour: silent}", "say which brokers in one way"),
        ("{behaviour: silent, share: 0.1, brokers: [1]}", "say which brokers in one way"),
        ("{behaviour: silent, brokers: [1], beside: [2]}", "`beside` goes with `share`"),
        ("{behaviour: silent, brokers: [b99]}", "attackers.0.*there is no broker named 'b99'"),
        ("{behaviour: silent, brokers: ['x*']}", "no broker has a name like 'x*'"),
        ("{behaviour: silent, brokers: [1, 1]}", "b1 is an attacker already"),
        ("{behaviour: silent, share: 0.5}, {behaviour: dropping, brokers: ['b*']}", "is an attacker already"),
        ("{behaviour: silent, share: 0.6, beside: [s1]}", "is 12 brokers, and there are 8 to choose from"),
        ("{behaviour: silnt, share: 0.1}", "did you mean 'silent'?"),
        ("{behaviour: silent, share: 0.1, drop: 0.1}", "drop"),
        ("{behaviour: dropping, share: 0.1, start: 5 s, stop: 4 s}", "`stop` has to be later than `start`"),
        ("{behaviour: 'protocols.topics.tree:Tree', share: 0.1}", "code from outside"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(attackers, told):
    with pytest.raises(ScenarioErrors, match=told.replace("*", ".*").replace("[", r"\[").replace("?", r"\?")):
        resolve(scenario(attackers))


@pytest.mark.parametrize("name", sorted(names_of("behaviours")))
def test_every_behaviour_makes_a_difference_from_when_it_starts_on(name):
    digests = [
        simulate(resolve(scenario(f"{{behaviour: {name}, {where}, start: 4 s}}"))).digest_per_second
        for where in ("share: 0", "brokers: ['s*']")
    ]
    same = [one == other for one, other in zip(*digests)]
    assert not all(same[4:]) and (all(same[:4]) or name in ("cold-boot", "sybil"))  # which graft before


def test_a_behaviour_of_another_protocol_is_refused():
    with pytest.raises(ScenarioErrors, match=r"attackers.0..behaviour: 'silent' is a behaviour of another protocol"):
        scenario("{behaviour: silent, share: 0.1}", protocol="flooding")


EVERY = (
    "{behaviour: silent, brokers: [s0]}, {behaviour: dropping, brokers: [s1]}, "
    "{behaviour: ihave-flood, brokers: [s2]}, {behaviour: graft-flood, brokers: [s3]}, "
    "{behaviour: cold-boot, brokers: [b1]}, {behaviour: covert-flash, brokers: [b2], start: 5 s}, "
    "{behaviour: sybil, brokers: [b3], connect: 1 s, regraft_backoff: 2 s, regraft: 1 s}"
)


def test_attackers_go_on_where_they_were(tmp_path):
    model = resolve(scenario(EVERY, options=WATCHED, duration="6 s"))
    whole, result = undisturbed(tmp_path / "whole", model)
    halves = folder_for(tmp_path / "halves", model)
    stopped_at(0.9, model, halves.path, 2)
    resumed = continued(model, halves.path, 3)
    assert resumed.digest == result.digest
    assert differing_tables(whole, halves.finish(resumed.digest)) == []


def test_a_run_with_attackers_is_the_same_on_shards_and_tells_who_they_were(tmp_path):
    metrics = "[honest.delivered, honest.latency.p99_ms, scores.attackers, meshes.attackers]"
    made = scenario(EVERY, options=WATCHED, metrics=metrics)
    ran = [run(made, engine="inline", actors=count, out=str(tmp_path / str(count))) for count in (1, 3)]
    assert ran[0].digest == ran[1].digest
    tables = [each.folder.read("attackers").sort_by("entry").to_pylist() for each in ran]
    assert tables[0] == tables[1] and [row["behaviour"] for row in tables[0]][3] == "graft-flood"
    scores = [each.folder.read("scores") for each in ran]
    keys = [("broker", "ascending"), ("time_ns", "ascending"), ("neighbour", "ascending"), ("topic", "ascending")]
    assert scores[0].num_rows > 500 and scores[0].sort_by(keys).equals(scores[1].sort_by(keys))
    assert all(0 < ran[0].metrics["services"]["news"][name] <= 1 for name in ("honest.delivered", "meshes.attackers"))
    page = report_of(ran[0].folder)
    assert "Scores of neighbours" in page and "news, 6: covert-flash" in page and "Whom honest meshes lead to" in page


def test_what_is_told_of_how_publications_spread_is_told_of_gossipsub(tmp_path):
    names = (
        "hops.last, hops.most, hops.half, hops.nearly, redundancy, duplicates.per_delivery, "
        "control.bytes_per_payload_byte, time_to_all_ms, tables.mean, tables.churn"
    )
    done = run(scenario("", metrics=f"[{names}]"), engine="inline", out=str(tmp_path))
    found = {name: done.metrics["services"]["news"][name] for name in names.split(", ")}
    assert all(value is not None for value in found.values())
    assert found["hops.last"] >= found["hops.half"] >= 1 < found["redundancy"] and found["tables.mean"] > 3
