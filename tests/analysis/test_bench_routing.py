"""Rows of the group `routing`, scaled down. No figure is judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.bench import (
    routing,
    routing_gossip,
    routing_neighbourhood,
    routing_practice,
    routing_reliable,
    routing_retained,
)
from brokers.engine.simulate import simulate

SMALL = replace(routing.Sizes().topics, brokers=20, subscriptions=200, publications_per_s=300.0, seconds=0.2)


def test_networks_of_topics_stand_beside_those_of_ranges_and_deliver():
    rows = list(routing.topic_networks(replace(routing.Sizes(), repeats=1, topics=SMALL, names=500)))
    assert [row["target"] for row in rows] == ["at least 1 M hops/CPU s"] * 2
    assert all(row["value"] > 0 and row["baseline"] for row in rows)
    for wildcards in (0.0, 0.1):
        metrics = simulate(routing.topic_model(SMALL, 500, wildcards)).metrics["services"]["bench"]
        assert metrics["publications"] > 40 and metrics["deliveries"] > 10


def test_wildcards_bring_more_deliveries():
    few, many = (
        simulate(routing.topic_model(SMALL, 500, share)).metrics["services"]["bench"]["deliveries"]
        for share in (0.0, 0.5)
    )
    assert many > few


def test_reliable_misses_nothing_where_a_sixth_of_the_brokers_crash():
    sizes = routing_reliable.Sizes(brokers=40, homes=10, subscriptions=20, seconds=4, seeds=(1,))
    missed, owed, came, *costs = routing_reliable.rows(sizes)
    assert missed["value"] == 0 and missed["holds"] and owed["holds"]
    assert 0 < came["value"] < 1
    assert all(each["baseline"] > 0 for each in costs)


GOSSIP = routing_gossip.Sizes(repeats=1, brokers=30, dials=6, publications=10, counted=40, compared=24)


def test_gossip_stands_beside_flooding_and_all_get_everything():
    sizes = GOSSIP
    compiled, plain = routing_gossip.speeds(sizes)
    assert compiled["baseline"] == plain["value"] > 0 and plain["baseline"] > 0
    assert simulate(routing_gossip.model(sizes)).metrics["services"]["service"]["deliveries"] == 30 * 10


def test_counts_of_gossip_are_those_of_closed_forms():
    payloads, ihave, unsaved, saved = rows = list(routing_gossip.exact(GOSSIP))
    assert all(each["holds"] and each["value"] == each["baseline"] for each in rows)
    assert payloads["value"] > 40 and ihave["value"] == 40 * 6 * 7
    assert unsaved["value"] == 0 < saved["value"]


def test_a_count_of_gossip_that_is_not_the_closed_form_does_not_hold(monkeypatch):
    monkeypatch.setattr(routing_gossip.gossip, "over_mesh", lambda row: 2.0 * row["mesh links"])
    payloads, ihave, *saved = routing_gossip.exact(GOSSIP)
    assert not payloads["holds"] and ihave["holds"] and not any(each["holds"] for each in saved)


def test_gossip_has_one_digest_however_it_runs():
    found = routing_gossip.digests(GOSSIP)
    assert [way.rpartition(", ")[2] for way in found] == ["compiled"] * 4 + ["author's view"]
    assert len(set(found.values())) == 1 and routing_gossip.one_digest(GOSSIP)["holds"]
    assert set(found.values()).isdisjoint(routing_gossip.digests(replace(GOSSIP, dials=5)).values())


def test_neighbourhood_goes_past_who_is_down_and_misses_nothing_in_the_end():
    over_time = routing_reliable.Sizes(brokers=30, homes=10, subscriptions=20, seconds=4)
    sizes = routing_neighbourhood.Sizes(
        line=16, lines=2, share=0.3, distances=((1, 4),), tree=30, publishers=10, tree_delta=1, over_time=over_time,
        seeds=(1,),
    )  # fmt: skip
    on_lines, survives, on_trees, served, missed, owed, late, messages = routing_neighbourhood.rows(sizes)
    assert all(each["value"] == 0 and each["holds"] for each in (on_lines, on_trees, missed))
    assert survives["baseline"] == routing_neighbourhood.survival(4, 1, 0.3)
    assert 0 < served["value"] < 1 and owed["holds"]
    assert late["value"] < late["baseline"] and messages["baseline"] > 0


def test_pairs_that_are_served_or_not_against_the_rule_are_counted():
    found = routing_neighbourhood.outage([(0, 1), (1, 2), (2, 3)], 1, 0.0, 1)
    assert found.wrong == 0 and found.pairs().all()
    got = found.got.copy()
    got[0, 3] = False
    assert replace(found, got=got).wrong == 1


@pytest.mark.parametrize("part", [*routing_practice.PARTS, *routing_retained.PARTS], ids=lambda part: part.__name__)
def test_what_practice_and_retaining_cost_is_what_the_closed_forms_say(part):
    rows = list(part(routing.Sizes()))
    assert [row["name"] for row in rows if not row["holds"]] == []
    assert rows
