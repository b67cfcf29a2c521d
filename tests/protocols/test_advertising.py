"""Advertisements: who is told of them, where they draw subscriptions, and what becomes of these when they end."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.engine.model import SourceSpec
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import ProtocolFault
from protocols.conformance import REHEARSALS, audit, check_digests, join, rehearse
from protocols.content.advertising import Advertising
from protocols.content.kind import ADVERTISE, PUBLISH, SUBSCRIBE, UNADVERTISE, UNSUBSCRIBE, Content
from protocols.content.ranges import box_of, contains, holds, meet
from protocols.judging import Offered, published
from protocols.rehearsing import Dice, Script
from protocols.standing import Standing
from scenarios.hunt.hunt import hunt
from scenarios.loader import loads
from scenarios.plan import resolve
from scenarios.problems import ScenarioErrors

BOTH = ("advertising", "advertising-covering")
LINE = [(0, 1), (1, 2), (2, 3), (3, 4)]
LOW, HIGH, ALL = [0, 0.0, 0.4], [0, 0.6, 1.0], [0, 0.0, 1.0]
NULL = [0.0, 0.0, 0.0]


# ---- boxes ------------------------------------------------------------------------------------------------

ENDS = st.tuples(st.integers(0, 4), st.integers(0, 4)).map(sorted)
ROWS = st.lists(st.tuples(st.integers(0, 2), ENDS), max_size=3, unique_by=lambda each: each[0]).map(
    lambda ranges: [number for attribute, ends in ranges for number in (attribute, *ends)] + [np.nan] * 3
)
EVERY = [(a, b, c) for a in range(5) for b in range(5) for c in range(5)]


@given(ROWS, ROWS)
def test_boxes_are_what_the_oracle_of_the_kind_says_of_all_values(one, other):
    """Of whole numbers: ranges that meet at all meet in one."""
    oracle = Content({"attributes": 3}).oracle
    inside = {box: {values for values in EVERY if box in oracle({0: one, 1: other}, values)} for box in (0, 1)}
    boxes = box_of(one), box_of(other)
    assert all({values for values in EVERY if holds(boxes[i], values)} == inside[i] for i in (0, 1))
    assert meet(*boxes) == meet(*reversed(boxes)) == bool(inside[0] & inside[1])
    assert not contains(*boxes) or inside[1] <= inside[0]


def test_a_box_that_names_more_does_not_contain_one_that_names_less():
    assert contains(box_of([0, 0, 1]), box_of([0, 0, 1, 1, 0, 1]))
    assert not contains(box_of([0, 0, 1, 1, 0, 1]), box_of([0, 0, 1]))


def test_two_ranges_of_one_attribute_are_taken_together():
    assert box_of([0, 0.0, 0.5, 0, 0.3, 0.9]) == {0: (0.3, 0.5)}


# ---- step by step -------------------------------------------------------------------------------------------


def line(protocol: str = "advertising", **said: Any) -> Any:
    """Five brokers in a row, with a client each."""
    return join(protocol, LINE, **said)


def types(joined: Any, a: int, b: int) -> list[int]:
    return [hop.type for hop in joined.over(a, b)]


def test_a_subscription_stays_where_it_is_until_an_advertisement_pulls_it():
    net = line()
    net.send(2, "subscribe", LOW, word=net.interest(2))
    assert not any(types(net, 2, other) for other in (1, 3))
    net.send(0, "advertise", ALL, word=net.interest(0))
    assert types(net, 2, 1) == types(net, 1, 0) == [SUBSCRIBE] and types(net, 2, 3) == [ADVERTISE]
    (pulled,) = net.over(1, 0)
    assert pulled.cause == net.interest(0)  # the first thing that client 0 said
    net.send(0, "publish", [0.2, *NULL])
    assert [each.client for each in net.deliveries()] == [2]


def test_what_no_advertisement_meets_goes_nowhere():
    net = line()
    net.send(0, "advertise", LOW, word=net.interest(0))
    net.send(4, "subscribe", HIGH, word=net.interest(4))
    assert not types(net, 4, 3)


def test_what_the_publisher_did_not_advertise_is_dropped_where_it_enters_and_counted():
    net = line()
    net.send(1, "advertise", ALL, word=net.interest(1))  # of somebody else
    net.send(0, "advertise", LOW, word=net.interest(0))
    net.send(4, "subscribe", ALL, word=net.interest(4))
    inside, outside = net.send(0, "publish", [0.4, *NULL]), net.send(0, "publish", [0.5, *NULL])
    assert [each.publication for each in net.deliveries()] == [inside]
    assert net._traces.tables()["outside"]["publication"].tolist() == [outside]
    assert [hop.type for hop in net.over(0, 1)].count(PUBLISH) == 1


@pytest.mark.parametrize("protocol", BOTH)
def test_the_end_of_an_advertisement_withdraws_what_only_it_led_there_by_the_sender_alone(protocol):
    net = line(protocol)
    net.send(4, "advertise", ALL, word=net.interest(4))
    net.send(0, "advertise", LOW, word=net.interest(0))
    net.send(0, "advertise", ALL, word=net.interest(0, 1))
    net.send(2, "subscribe", LOW, word=net.interest(2))
    net.send(0, "unadvertise", word=net.interest(0))
    assert UNSUBSCRIBE not in types(net, 2, 1)  # the other one leads there as well
    net.send(0, "unadvertise", word=net.interest(0, 1))
    assert types(net, 2, 1) == types(net, 1, 0) == [ADVERTISE, SUBSCRIBE, UNSUBSCRIBE]
    assert UNSUBSCRIBE not in types(net, 2, 3)
    assert [net.entries(broker) for broker in range(5)] == [1, 1, 2, 2, 2]


def test_an_advertisement_that_comes_again_pulls_again():
    net = line()
    net.send(4, "subscribe", ALL, word=net.interest(4))
    for number in range(3):
        net.send(0, "advertise", ALL, word=net.interest(0, number))
        net.send(0, "publish", [0.5, *NULL])
        net.send(0, "unadvertise", word=net.interest(0, number))
    assert types(net, 4, 3) == [SUBSCRIBE, UNSUBSCRIBE] * 3
    assert len(net.deliveries(4)) == 3


def test_a_subscription_that_ends_is_withdrawn_where_it_went_not_where_it_would_go():
    net = line()
    net.send(0, "advertise", ALL, word=net.interest(0))
    net.send(2, "subscribe", LOW, word=net.interest(2))
    at = net._clock_ns + 1_000_000_000
    net.send(2, "unsubscribe", word=net.interest(2), at_ns=at)
    net.send(4, "advertise", ALL, word=net.interest(4), at_ns=at)  # arrives when there is nothing left to pull
    assert types(net, 1, 0) == [SUBSCRIBE, UNSUBSCRIBE, ADVERTISE]
    assert types(net, 2, 3) == [ADVERTISE]


def test_an_advertisement_waits_for_what_another_one_has_just_pulled():
    """The second finds the subscription on its way already, so that it has nothing to wait for of its own."""
    net = line()
    net.send(4, "subscribe", ALL, word=net.interest(4))
    at = net._clock_ns + 1_000_000_000
    first = net.send(0, "advertise", ALL, word=net.interest(0), at_ns=at)
    second = net.send(0, "advertise", LOW, word=net.interest(0, 1), at_ns=at)
    net._run()
    table = net._traces.tables()["dependencies"]
    assert (second, first) in set(zip(table["change"].tolist(), table["depends_on"].tolist()))


def test_what_covers_is_pulled_before_what_it_covers_which_stays():
    net = line("advertising-covering")
    net.send(4, "subscribe", LOW, word=net.interest(4))  # the older, and covered
    net.send(4, "subscribe", ALL, word=net.interest(4, 1))
    net.send(0, "advertise", ALL, word=net.interest(0))
    assert [hop.word for hop in net.over(4, 3)] == [net.interest(4, 1)]
    net.send(4, "unsubscribe", word=net.interest(4, 1))
    assert [(hop.type, hop.word) for hop in net.over(4, 3)][1:] == [
        (SUBSCRIBE, net.interest(4)), (UNSUBSCRIBE, net.interest(4, 1)),
    ]  # fmt: skip


def test_on_a_ring_each_publisher_has_a_tree_of_its_own_and_an_advertisement_crosses_no_other_link():
    net = join("advertising", [(0, 1), (1, 2), (2, 3), (0, 3)])
    net.send(0, "advertise", ALL, word=net.interest(0))
    net.send(2, "advertise", ALL, word=net.interest(2))
    net.send(1, "subscribe", ALL, word=net.interest(1))
    every = [(a, b) for a in range(4) for b in ((a + 1) % 4, (a - 1) % 4)]
    sent = Counter(hop.type for a, b in every for hop in net.over(a, b))
    assert sent == {ADVERTISE: 2 * 3, SUBSCRIBE: 2}
    net.send(0, "publish", [0.5, *NULL]), net.send(2, "publish", [0.5, *NULL])
    assert len(net.deliveries(1)) == 2


# ---- at rest, on trees ----------------------------------------------------------------------------------------


class Rest:
    """A tree with clients who advertise and subscribe, half of it taken back, and what stands in the end."""

    def __init__(self, seed: int, protocol: str = "advertising", churn: bool = True) -> None:
        dice = Dice(seed, 0, "tests/advertising")
        brokers = 3 + dice.below(10)
        self.links = [(dice.below(b), b) for b in range(1, brokers)]
        self.tree = nx.Graph(self.links)
        self.clients = [dice.below(brokers) for _ in range(8)]
        self.net = join(protocol, self.links, self.clients)
        self.adverts: dict[int, tuple[int, list[float]]] = {}  # id -> broker, row
        self.subscriptions: dict[int, tuple[int, list[float]]] = {}
        for number in range(24):
            client, low = dice.below(8), dice.below(9)
            row = [0, low / 10, (low + dice.below(4)) / 10]
            stands, op = (self.adverts, "advertise") if dice.below(2) else (self.subscriptions, "subscribe")
            id_ = self.net.interest(client, number)
            self.net.send(client, op, row, word=id_, at_ns=self._at(dice))
            stands[id_] = self.clients[client], row
            if churn and dice.below(2):
                gone = next(iter(stands))
                self.net.send((gone >> 32) - brokers, f"un{op}", word=gone, at_ns=self._at(dice))
                del stands[gone]
        self.described = [self.net.describe(broker) for broker in range(brokers)]

    def _at(self, dice: Dice) -> int:
        """Mostly while what came before is under way."""
        return self.net._clock_ns + dice.below(4) * 700_000 + (1_000_000_000 if not self.net._clock_ns else 0)

    def known(self, what: str, broker: int) -> set[int]:
        return {int(id_) for id_ in self.described[broker][what]}

    def towards(self, id_: int) -> set[int]:
        """The brokers on the paths from a subscription to the advertisers that it meets."""
        home, row = self.subscriptions[id_]
        meets = [at for at, box in self.adverts.values() if box[1] <= row[2] and row[1] <= box[2]]
        return {home}.union(*(nx.shortest_path(self.tree, home, at) for at in meets))

    def crossed(self) -> Counter[int]:
        """How many messages of each type went over links."""
        return Counter(hop.type for a, b in self.links for pair in ((a, b), (b, a)) for hop in self.net.over(*pair))


@pytest.mark.parametrize("seed", range(20))
def test_at_rest_every_broker_knows_every_advertisement_and_subscriptions_are_on_the_paths_to_those_they_meet(seed):
    rest = Rest(seed)
    for broker in rest.tree:
        assert rest.known("adverts", broker) == set(rest.adverts)
        there = {id_ for id_ in rest.subscriptions if broker in rest.towards(id_)}
        assert rest.known("subscriptions", broker) == there
        assert rest.net.entries(broker) == len(rest.adverts) + len(there)


@pytest.mark.parametrize("protocol", BOTH)
@pytest.mark.parametrize("seed", range(10))
def test_at_rest_what_one_end_of_a_link_has_sent_is_what_the_other_got(seed, protocol):
    rest = Rest(seed, protocol)
    for a, b in [*rest.links, *((b, a) for a, b in rest.links)]:
        mine, theirs = rest.described[a]["subscriptions"], rest.described[b]["subscriptions"]
        sent = {id_ for id_, entry in mine.items() if f"b{b}" in entry["sent_to"]}
        assert sent == {id_ for id_, entry in theirs.items() if f"b{a}" in entry["from"]}


@pytest.mark.parametrize("seed", range(10))
def test_behind_a_link_covering_leaves_out_only_what_something_there_covers(seed):
    covered, plain = Rest(seed, "advertising-covering"), Rest(seed)
    for broker in plain.tree:
        there, all_of = covered.known("subscriptions", broker), plain.known("subscriptions", broker)
        assert there <= all_of
        for id_ in all_of - there:
            row = plain.subscriptions[id_][1]
            boxes = [plain.subscriptions[other][1] for other in there]
            assert any(box[1] <= row[1] and row[2] <= box[2] for box in boxes)


@pytest.mark.parametrize("seed", range(10))
def test_messages_and_entries_are_those_of_the_closed_forms(seed):
    """Adverts before subscriptions or after: each advertisement over all links, each subscription over its tree."""
    rest = Rest(seed, churn=False)
    links = len(rest.links)
    crossed = rest.crossed()
    assert crossed[ADVERTISE] == len(rest.adverts) * links
    assert crossed[SUBSCRIBE] == sum(len(rest.towards(id_)) - 1 for id_ in rest.subscriptions)
    assert crossed[SUBSCRIBE] < len(rest.subscriptions) * links  # without advertisements
    assert sum(len(each["adverts"]) for each in rest.described) == len(rest.adverts) * (links + 1)


# ---- what is owed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rehearsal", [each for each in REHEARSALS if not each.links.get("loss")], ids=lambda r: r.name)
@pytest.mark.parametrize("protocol", BOTH)
def test_a_rehearsal_is_exact_and_nothing_that_was_dropped_had_been_advertised(protocol, rehearsal):
    model = rehearse(rehearsal, protocol, 2)
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    tables, kind, guarantees = traces.tables(), Content(model.services[0].params), Advertising.guarantees
    found = audit(tables, kind, guarantees)
    assert found.verdict == "valid", str(found)
    dropped = set(tables["outside"]["publication"].tolist())
    offered = Offered(Standing(tables, kind, 0, guarantees), kind)
    every = list(published(found, tables, kind, 0))
    assert dropped and not any(offered.certain(p) for p in every if p.id in dropped)
    assert any(p.id not in dropped and p.got for p in every)


@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
def test_who_does_not_heed_advertisements_serves_the_same_service(protocol):
    model = rehearse(REHEARSALS[0], protocol, 1, params={"attributes": 4, "adverts": True})
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    found = audit(traces.tables(), Content(model.services[0].params), model.services[0].protocol_class.guarantees)
    assert found.verdict == "valid" and found.free > 0, str(found)


@pytest.mark.full
@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
def test_who_does_not_heed_advertisements_gives_one_trace_with_them_however_it_runs(protocol):
    assert not check_digests(rehearse(REHEARSALS[0], protocol, 1, params={"attributes": 4, "adverts": True}))


def test_without_adverts_a_rehearsal_is_what_it_was():
    plain = rehearse(REHEARSALS[0], "subscription", 1).services[0].sources[0].params
    assert [part["type"] for part in plain["emissions"]] == [PUBLISH, SUBSCRIBE, UNSUBSCRIBE]
    advertised = rehearse(REHEARSALS[0], "advertising", 1).services[0].sources[0].params
    assert [part["type"] for part in advertised["emissions"]][3:] == [ADVERTISE, UNADVERTISE]


class Hasty(Advertising):
    """Wrong on purpose: an advertisement does not wait for what another one has pulled."""

    def pass_on(self, message: Any, id: int, link: int) -> None:
        if link not in self.sent_over[id]:
            super().pass_on(message, id, link)


class Greedy(Advertising):
    """Wrong on purpose: the end of an advertisement withdraws what others lead there too."""

    def ways(self, id: int, came: int) -> Any:
        return () if self.retiring else super().ways(id, came)

    retiring = False

    def _retire(self, message: Any, advert: int) -> None:
        self.retiring = True
        super()._retire(message, advert)
        self.retiring = False


@pytest.mark.parametrize("wrong", [Hasty, Greedy], ids=lambda each: each.__name__)
def test_a_hunt_finds_what_is_wrong_with_advertisements(wrong):
    assert hunt(f"tests.protocols.test_advertising:{wrong.__name__}", seed=1, runs=400, enough=1).findings


class Silent(Script):
    """Wrong on purpose: advertises, and says that it does not publish, so that no tree begins at its brokers."""

    publishes = False


def test_who_advertises_and_says_that_it_does_not_publish_is_told_so():
    model = rehearse(REHEARSALS[0], "advertising", 1)
    (service,) = model.services
    silent = SourceSpec(f"{__name__}:Silent", service.sources[0].params, service.sources[0].group)
    with pytest.raises(ProtocolFault, match="advertises, and its workload says that it does not publish"):
        simulate(replace(model, services=[replace(service, sources=[silent])]))


# ---- workloads and scenarios ------------------------------------------------------------------------------------


SCENARIO = """
duration: 3 s
topology: {kind: random-tree, nodes: 6}
links: {delay: 5 ms}
clients: {news: {count: 4}, readers: {count: 10, placement: even}}
services:
  - name: news
    kind: content
    attributes: 2
    protocol: advertising
    adverts: true
    workload:
      - {source: advertise, clients: news}
      - {source: subscribe, clients: readers, width: [0.2, 0.6], ramp: 500 ms}
      - {source: publish, clients: news, rate: 20/s, start: 1 s}
"""


@pytest.mark.parametrize(
    "change, told",
    [
        (("adverts: true", "adverts: false"), "the protocol 'advertising' needs `adverts: true`"),
        (("adverts: true", "adverts: false"), "does not heed advertisements; say `adverts: true`"),
        (("- {source: advertise, clients: news}", ""), "clients 'news' never advertise"),
        (
            ("source: advertise, clients: news", "source: advertise, clients: news, domain: [2, 3]"),
            "clients 'news' publish lies in 0 to 1, and what they advertise in 2 to 3: nothing will fit",
        ),
        (("width: [0.2, 0.6]", "width: [0.2, 1.6]"), "`width` 1.6 is wider than the domain"),
    ],
)
def test_what_never_can_fit_is_told_before_anything_runs(change, told):
    with pytest.raises(ScenarioErrors, match="services") as error:
        resolve(loads(SCENARIO.replace(*change)))
    assert told in str(error.value)


def test_an_advertisement_that_stands_from_the_start_is_refused():
    action = "{at: 0 s, client: 0, op: advertise, body: [0, 0.0, 1.0]}"
    text = SCENARIO.replace("adverts: true", "adverts: true\n    subscriptions: settled").replace(
        "- {source: advertise, clients: news}", f"- {{source: script, clients: news, actions: [{action}]}}"
    )
    with pytest.raises(ScenarioErrors, match="cannot stand from the start"):
        resolve(loads(text))
