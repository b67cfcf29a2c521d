"""What happens on the way, said in a scenario, with GossipSub and with Plumtree; each test looks that it happened."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from brokers.contract import TIMER
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import CRASHED, NO_PLACE_AHEAD, ON_LINK
from brokers.promises import Faced, promised
from protocols.gossip.talking import VALIDATED
from protocols.judging import Audit, audit
from protocols.topics.kind import PUBLISH
from scenarios.loader import loads
from scenarios.plan import resolve

MS, S = 1_000_000, 1_000_000_000
TEXT = """
duration: 14 s
topology: {kind: erdos-renyi, nodes: 16, probability: 0.6}
links: {delay: {kind: uniform, low: 2 ms, high: 20 ms}}
clients:
  readers: {count: 16, placement: even}
  late: {count: 3}
  press: {count: 2}
services:
  - name: news
    kind: topics
    wildcards: false
    protocol: PROTOCOL
    workload:
      - {source: topic-subscribe, clients: readers, filter: "1"}
      - {source: topic-subscribe, clients: late, filter: "1", start: 8 s}
      - {source: topic-publish, clients: press, topics: 1, depth: 1, rate: 4/s, start: 3 s, stop: 12 s}
trace: {level: full}
"""
BOTH = pytest.mark.parametrize("protocol", ["gossipsub", "plumtree"])


@dataclass
class Ran:
    """What came of the scenario with some of it said otherwise."""

    tables: Any
    found: Audit

    @cached_property
    def missed(self) -> float:
        """The share of what readers should have got and did not; those who come late left aside."""
        published = self.tables["publications"]["publication"].size
        return 1 - (self.tables["deliveries"]["client"] < 16 + 16).sum() / (16 * published)

    @cached_property
    def took(self) -> Any:
        """How long deliveries took."""
        deliveries = self.tables["deliveries"]
        return deliveries["time_ns"] - deliveries["published_ns"]

    def lost(self, reason: int) -> Any:
        """The links on which something was lost for a reason, each as often."""
        losses = self.tables["losses"]
        return losses["link"][losses["reason"] == reason]


def ran(protocol: str, *said: str) -> Ran:
    model = resolve(loads(TEXT.replace("PROTOCOL", protocol), list(said)))
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    spec, tables = model.services[0], traces.tables()
    owed = promised(spec.protocol_class, spec.options, model.overlay, Faced.of(model.faults, model.overlay))
    found = audit(tables, spec.kind_class(spec.params), owed)
    assert not found.broken, str(found)
    return Ran(tables, found)


@BOTH
def test_with_nothing_on_the_way_all_get_everything(protocol):
    undisturbed = ran(protocol)
    assert undisturbed.missed == 0 and not undisturbed.tables["losses"]["link"].size


def test_validation_takes_its_time_at_each_broker():
    checked = ran("gossipsub", "services.news.options={validation: 60 ms}")
    hops = checked.tables["hops"]
    validated = (hops["kind"] == TIMER) & (hops["type"] == VALIDATED)
    published = checked.tables["publications"]["publication"].size
    assert validated.sum() == 15 * published  # everywhere but where it entered
    assert checked.missed == 0 and np.median(checked.took) > np.median(ran("gossipsub").took) + 60 * MS


@BOTH
def test_validation_may_be_work_for_which_brokers_queue(protocol):
    """By the cost model, as whatever a broker does; of Plumtree there is no other."""
    checked = ran(protocol, "services.news.cost={base: 8 ms}")
    hops = checked.tables["hops"]
    took = hops["finish_ns"] - hops["time_ns"]
    assert took.min() == 8 * MS < took.max()
    assert checked.missed == 0 and np.median(checked.took) > np.median(ran(protocol).took) + 8 * MS


@BOTH
def test_narrow_links_with_short_queues_drop_and_no_promise_breaks(protocol):
    narrow = ran(protocol, "links.bandwidth=2 kbit/s", "queues={links: {messages: 2}}")
    assert narrow.lost(NO_PLACE_AHEAD).size > 20
    wide = ran(protocol, "links.bandwidth=30 Mbit/s", "queues={links: {messages: 2}}")
    assert narrow.took.max() > wide.took.max() and wide.missed == 0


@BOTH
def test_what_links_lose_is_asked_for(protocol):
    lossy = ran(protocol, "links.loss=0.1")
    hops = lossy.tables["hops"]
    assert lossy.lost(ON_LINK).size > 100 and (hops["type"] == PUBLISH).sum() > 0
    assert lossy.missed < 0.005  # a mesh alone, or a tree, would miss a tenth and more


@BOTH
def test_brokers_that_crash_come_back_and_get_what_is_published_then(protocol):
    crashes = "{fault: random, what: crash, rate: 2/s, lasts: 1 s, at_once: 2, begins: 4 s, heal_by: 9 s, state: lost}"
    churned = ran(protocol, f"faults={{detect: 50 ms, schedule: [{crashes}]}}")
    assert len(set(churned.tables["faults"]["broker"].tolist())) > 3 and churned.lost(CRASHED).size > 5
    late = churned.tables["publications"]["time_ns"] > 10 * S + 500 * MS
    names = churned.tables["publications"]["publication"][late]
    deliveries = churned.tables["deliveries"]
    assert names.size > 5 and np.isin(deliveries["publication"], names).sum() == 19 * names.size


@BOTH
def test_subscriptions_that_come_and_go_get_what_they_ask_for_meanwhile(protocol):
    churn = "{process: leave-and-join, stay: 2 s, away: 2 s}"
    churned = ran(protocol, f"services.news.workload.0.churn={churn}")
    changes = churned.tables["changes"]["change"].size
    deliveries, published = churned.tables["deliveries"], churned.tables["publications"]["publication"].size
    assert changes > 60 and published > 50
    assert 0.3 < (deliveries["client"] < 32).sum() / (16 * published) < 0.9


@BOTH
def test_who_joins_late_gets_what_is_published_from_then_on(protocol):
    joined = ran(protocol)
    deliveries, publications = joined.tables["deliveries"], joined.tables["publications"]
    late = deliveries["client"] >= 32
    begun = publications["time_ns"] > 8 * S + 1200 * MS  # a heartbeat later it is in the mesh
    due = publications["publication"][begun]
    assert set(deliveries["client"][late].tolist()) == {32, 33, 34} and deliveries["published_ns"][late].min() > 7 * S
    assert np.isin(deliveries["publication"][late], due).sum() == 3 * due.size > 0


@BOTH
def test_slow_peers_get_little_and_nobody_else_waits(protocol):
    slow = "{fault: degrade, brokers: [b3], at: 0 s, lasts: 60 s, slower: 5000}"
    said = ["links.bandwidth=10 Mbit/s", "queues={links: {messages: 3}}", f"faults={{schedule: [{slow}]}}"]
    slowed = ran(protocol, *said)
    links = slowed.tables["links"]
    ends = dict(zip(links["link"].tolist(), zip(links["from"].tolist(), links["to"].tolist())))
    dropped = [ends[link] for link in slowed.lost(NO_PLACE_AHEAD).tolist()]
    assert len(dropped) > 50 and all(3 in pair for pair in dropped)
    elsewhere = slowed.tables["deliveries"]["broker"] != 3
    published = slowed.tables["publications"]["publication"].size
    readers = slowed.tables["deliveries"]["client"] < 32
    assert (elsewhere & readers).sum() == 15 * published
    assert np.median(slowed.took[elsewhere]) < np.median(ran(protocol).took) + 10 * MS
