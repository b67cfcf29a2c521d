"""Trees of advertisements: how they grow and are felled, what is sent up and down them, and how they are re-chosen."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from pydantic import ValidationError

from brokers.contract import NEVER
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import ProtocolFault
from brokers.faults import LOST, Crash, Cut, Schedule
from brokers.promises import Faced, promised
from brokers.verdicts import VALID
from protocols.conformance import REHEARSALS, audit, audit_run, check_digests, join, rehearse, variants
from protocols.content import trees
from protocols.content.kind import PUBLISH, Content
from protocols.content.trees import ALONE, CLEAR, CLIMB, FELL, GROWN, LEAVE, PLANT, SLOW, Options, Trees
from protocols.judging import Offered, published
from protocols.manners import over_budget
from protocols.rehearsing import Dice
from protocols.standing import Standing
from scenarios.hunt.hunt import hunt
from scenarios.loader import loads, shipped
from scenarios.plan import resolve
from tests.protocols.test_recovery import struck

MS = 1_000_000
RING = [(0, 1), (1, 2), (2, 3), (0, 3)]
LOW, HIGH, ALL = [0, 0.0, 0.4], [0, 0.6, 1.0], [0, 0.0, 1.0]
NULL = [0.0, 0.0, 0.0]
BY_LOAD = {"by_load": True, "slow": 1_000, "rest": 5 * MS}
LOADED = REHEARSALS[6]  # a graph with cycles, whose brokers take their time


def ring(delay_ns: Any = MS, clients: Any = None, **said: Any) -> Any:
    """Four brokers in a circle, with a client each."""
    return join("trees", RING, clients, delay_ns, **said)


def types(net: Any, a: int, b: int) -> list[int]:
    return [hop.type for hop in net.over(a, b)]


def crossed(net: Any, links: list[tuple[int, int]]) -> Counter[int]:
    """How many messages of each type went over links."""
    return Counter(hop.type for a, b in links for ends in ((a, b), (b, a)) for hop in net.over(*ends))


def traced(model: Any) -> Any:
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    return traces.tables()


# ---- trees grow, and are felled ----------------------------------------------------------------------------


def test_the_tree_is_what_came_first():
    """Around the circle the long way, where the short one takes longer."""
    net = ring([MS, MS, MS, 10 * MS])
    net.send(0, "advertise", ALL, word=net.interest(0))
    for broker, above in ((1, "b0"), (2, "b1"), (3, "b2")):
        (tree,) = net.describe(broker)["trees"].values()
        assert tree["from"] == [above]
    net.send(3, "subscribe", LOW, word=net.interest(3))
    assert [CLIMB in types(net, *ends) for ends in ((3, 2), (2, 1), (1, 0), (3, 0))] == [True, True, True, False]
    net.send(0, "publish", [0.2, *NULL])
    assert [each.client for each in net.deliveries()] == [3] and PUBLISH not in types(net, 0, 3)


def test_what_an_advertisement_meets_climbs_when_it_comes_and_what_is_issued_later_at_once():
    net = ring()
    net.send(2, "subscribe", LOW, word=net.interest(2))
    assert not crossed(net, RING)
    net.send(0, "advertise", ALL, word=net.interest(0))
    net.send(2, "subscribe", HIGH, word=net.interest(2, 1))
    climbed = [hop for a, b in ((2, 1), (2, 3)) for hop in net.over(a, b) if hop.type == CLIMB]
    assert [(hop.word, hop.cause) for hop in climbed] == [
        (net.interest(2), net.interest(0)), (net.interest(2, 1), net.interest(2, 1)),
    ]  # fmt: skip


def test_of_two_advertisements_each_has_a_tree_and_a_publication_takes_the_first_that_holds_it():
    net = ring(clients=[0, 0, 2])
    net.send(0, "advertise", LOW, word=net.interest(0))
    net.send(0, "advertise", ALL, word=net.interest(0, 1))
    net.send(1, "advertise", ALL, word=net.interest(1))
    net.send(2, "subscribe", ALL, word=net.interest(2))
    climbed = [hop for a, b in RING for ends in ((a, b), (b, a)) for hop in net.over(*ends) if hop.type == CLIMB]
    assert len(climbed) == 2  # the three trees came the same way, so one message over each link names them all
    low, high = net.send(0, "publish", [0.2, *NULL]), net.send(0, "publish", [0.8, *NULL])
    assert [each.publication for each in net.deliveries()] == [low, high]
    words = [hop.word >> 1 for a, b in RING for hop in net.over(a, b) if hop.type == PUBLISH and b in (1, 3)]
    trees = net.describe(0)["adverts"]
    assert [str(word) for word in words] == [
        *trees[str(net.interest(0))]["trees"], *trees[str(net.interest(0, 1))]["trees"],
    ]  # fmt: skip


def test_what_no_advertisement_of_its_publisher_holds_is_dropped_and_counted():
    net = ring(clients=[0, 0, 2])
    net.send(1, "advertise", ALL, word=net.interest(1))  # of somebody else, at the same broker
    net.send(0, "advertise", LOW, word=net.interest(0))
    net.send(2, "subscribe", ALL, word=net.interest(2))
    inside, outside = net.send(0, "publish", [0.4, *NULL]), net.send(0, "publish", [0.5, *NULL])
    assert [each.publication for each in net.deliveries()] == [inside]
    assert net._traces.tables()["outside"]["publication"].tolist() == [outside]


def test_an_advertisement_waits_for_earlier_ones_of_its_publisher_that_it_overlaps():
    net = ring(clients=[0, 1, 2, 3])
    first = net.send(0, "advertise", LOW, word=net.interest(0))
    net.send(0, "advertise", HIGH, word=net.interest(0, 1))
    third = net.send(0, "advertise", [0, 0.3, 0.5], word=net.interest(0, 2))
    net._run()
    table = net._traces.tables()["dependencies"]
    assert list(zip(table["change"].tolist(), table["depends_on"].tolist())) == [(third, first)]


TRIANGLE = [(0, 1), (1, 2), (0, 2)]


class Forgetful(Trees):
    """Wrong on purpose: a tree is forgotten when its end comes, though a late copy of it may plant another."""

    def _bury(self, tid: int, tree: Any) -> None:
        if tree.felled:
            self.trees.pop(tid, None)


def late(protocol: type) -> Any:
    """Three brokers, one link of which is slow; an advertisement and its end."""
    net = join(protocol, TRIANGLE, None, [MS, MS, 300 * MS])
    net.send(2, "subscribe", ALL, word=net.interest(2))
    net.send(0, "advertise", ALL, word=net.interest(0), at_ns=2_000 * MS)
    net.send(0, "unadvertise", word=net.interest(0), at_ns=2_010 * MS)
    return net


def test_a_copy_that_comes_when_its_tree_is_felled_plants_no_other():
    """Over the slow side the first news of the tree comes long after its end has come round the quick ones."""
    net = late(Trees)
    assert crossed(net, TRIANGLE) == {PLANT: 2 * 3 - 2, CLIMB: 2, FELL: 2 * 3}
    assert min(hop.time_ns for hop in net.over(0, 2)) > max(hop.time_ns for hop in net.over(1, 2))
    assert [net.entries(broker) for broker in range(3)] == [0, 0, 1]
    assert [net.describe(broker)["trees"] for broker in range(3)] == [{}] * 3
    wrong = late(Forgetful)
    assert crossed(wrong, TRIANGLE)[PLANT] > 2 * 3 - 2 and wrong.describe(2)["trees"]


def test_an_advertisement_that_comes_again_has_another_tree():
    net = ring()
    net.send(2, "subscribe", ALL, word=net.interest(2))
    for _ in range(3):
        net.send(0, "advertise", ALL, word=net.interest(0))
        net.send(0, "publish", [0.5, *NULL])
        net.send(0, "unadvertise", word=net.interest(0))
    assert len(net.deliveries(2)) == 3
    assert len({hop.word for hop in net.over(0, 1) if hop.type == PLANT}) == 3


def test_trees_that_cannot_be_told_apart_any_more_are_refused(monkeypatch):
    """After 13,343 simulated days of four brokers; here sooner."""
    monkeypatch.setattr(trees, "_WORD_MAX", 8 * 86_400 * 10**9 // 10**5)
    net = ring()
    net.send(0, "advertise", ALL, word=net.interest(0), at_ns=800 * MS)
    assert net.entries(0) == 1
    net.send(0, "advertise", ALL, word=net.interest(0, 1), at_ns=900 * MS)
    with pytest.raises(ProtocolFault, match=r"with 4 brokers `trees` can tell trees apart for 0\.0 simulated days"):
        net.entries(0)


# ---- at rest, on graphs with cycles --------------------------------------------------------------------------


class Rest:
    """A graph with cycles, clients who advertise and subscribe, half of it taken back, and what stands in the end."""

    def __init__(self, seed: int) -> None:
        dice = Dice(seed, 0, "tests/trees")
        brokers = 4 + dice.below(7)
        links = {(dice.below(b), b) for b in range(1, brokers)}
        for _ in range(brokers):
            a, b = sorted((dice.below(brokers), dice.below(brokers)))
            links |= {(a, b)} if a != b else set()
        self.links = sorted(links)
        self.brokers = range(brokers)
        self.home = [dice.below(brokers) for _ in range(8)]
        net = join("trees", self.links, self.home, [MS * (1 + dice.below(9)) for _ in self.links])
        self.adverts: dict[int, tuple[int, list[float]]] = {}
        self.subscriptions: dict[int, tuple[int, list[float]]] = {}
        for number in range(24):
            client, low = dice.below(8), dice.below(9)
            row = [0, low / 10, (low + dice.below(4)) / 10]
            stands, op = (self.adverts, "advertise") if dice.below(2) else (self.subscriptions, "subscribe")
            id_ = net.interest(client, number)
            net.send(client, op, row, word=id_, at_ns=self._at(net, dice))
            stands[id_] = self.home[client], row
            if dice.below(2):
                gone = next(iter(stands))
                net.send((gone >> 32) - brokers, f"un{op}", word=gone, at_ns=self._at(net, dice))
                if dice.below(3):
                    del stands[gone]
                else:  # and comes again at once
                    _, row = stands[gone]
                    net.send((gone >> 32) - brokers, op, row, word=gone, at_ns=self._at(net, dice))
        self.net = net
        self.trees = [net.describe(broker)["trees"] for broker in self.brokers]

    def _at(self, net: Any, dice: Dice) -> int:
        """Mostly while what came before is under way."""
        return net._clock_ns + dice.below(4) * 2 * MS + (1_000 * MS if not net._clock_ns else 0)

    def above(self, tid: str, broker: int) -> int | None:
        """The broker from which a tree came here; None at its root."""
        (name,) = self.trees[broker][tid]["from"]
        return None if name == "a client" else int(name[1:])


@pytest.mark.parametrize("seed", range(12))
def test_at_rest_every_advertisement_has_one_tree_that_all_know_and_leads_to_its_broker(seed):
    rest = Rest(seed)
    for known in rest.trees:
        assert sorted(int(tree["advert"]) for tree in known.values()) == sorted(rest.adverts)
        assert not any(tree["felled"] for tree in known.values())
    for tid, tree in rest.trees[0].items():
        ups = {broker: rest.above(tid, broker) for broker in rest.brokers}
        grown = nx.Graph([(broker, up) for broker, up in ups.items() if up is not None])
        assert nx.is_tree(grown) and len(grown) == len(rest.brokers)
        assert [broker for broker, up in ups.items() if up is None] == [rest.adverts[int(tree["advert"])][0]]


@pytest.mark.parametrize("seed", range(12))
def test_at_rest_a_subscription_is_on_the_way_up_the_trees_that_it_meets_and_nowhere_else(seed):
    rest = Rest(seed)
    expected: dict[tuple[int, str], dict[str, list[str]]] = {}
    for tid, tree in rest.trees[0].items():
        said = rest.adverts[int(tree["advert"])][1]
        for id_, (home, asked) in rest.subscriptions.items():
            if said[1] <= asked[2] and asked[1] <= said[2]:
                at, came = home, "a client"
                while at is not None:
                    expected.setdefault((at, tid), {})[str(id_)] = [came]
                    at, came = rest.above(tid, at), f"b{at}"
    for broker in rest.brokers:
        for tid, tree in rest.trees[broker].items():
            assert tree["subscriptions"] == expected.get((broker, tid), {})
    climbed = sum(len(each) for each in expected.values())
    homes = sum(each == ["a client"] for known in expected.values() for each in known.values())
    told = len(rest.adverts) * len(rest.brokers) + climbed - homes + len(rest.subscriptions)
    assert sum(rest.net.entries(broker) for broker in rest.brokers) == told
    for broker in rest.brokers:
        assert rest.net.entries(broker) == counted(rest.net.describe(broker))


def test_when_all_have_left_nobody_knows_anything():
    rest = Rest(3)
    for id_ in [*rest.adverts, *rest.subscriptions]:
        op = "unadvertise" if id_ in rest.adverts else "unsubscribe"
        rest.net.send((id_ >> 32) - len(rest.brokers), op, word=id_)
    assert rest.adverts and rest.subscriptions
    assert [rest.net.entries(broker) for broker in rest.brokers] == [0] * len(rest.brokers)


def counted(known: Any) -> int:
    """What a broker tells of itself, entry by entry."""
    came = [via != ["a client"] for tree in known["trees"].values() for via in tree["subscriptions"].values()]
    return len(known["trees"]) + len(known["subscriptions"]) + sum(came)


# ---- what is owed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, BY_LOAD], ids=["kept", "by load"])
@pytest.mark.parametrize("rehearsal", [each for each in REHEARSALS if not each.links.get("loss")], ids=lambda r: r.name)
def test_a_rehearsal_is_exact_and_nothing_that_was_dropped_had_been_advertised(rehearsal, options):
    model = rehearse(rehearsal, "trees", 2, options=options)
    tables = traced(model)
    kind, guarantees = Content(model.services[0].params), Trees.guarantees_for(model.overlay)
    found = audit(tables, kind, guarantees)
    assert found.verdict == VALID, str(found)
    assert list(over_budget(tables, kind, guarantees, Trees, model.overlay)) == []
    dropped = set(tables["outside"]["publication"].tolist())
    offered = Offered(Standing(tables, kind, 0, guarantees), kind)
    every = list(published(found, tables, kind, 0))
    assert dropped and not any(offered.certain(p) for p in every if p.id in dropped)
    assert {LEAVE, FELL} <= set(tables["hops"]["type"].tolist())


def test_order_is_promised_on_trees_alone():
    assert [
        Trees.guarantees_for(join("trees", links)._overlay).fifo_per_publisher for links in ([(0, 1), (1, 2)], RING)
    ] == [True, False]


# ---- by load ---------------------------------------------------------------------------------------------------


FULL = """
duration: 6 s
topology: {kind: ring, nodes: 4}
links: {delay: 5 ms, bandwidth: 1 Mbit/s}
clients:
  news: {count: 1, placement: {kind: explicit, brokers: [0]}}
  readers: {count: 3, placement: {kind: explicit, brokers: [2]}}
  from: {count: 1, placement: {kind: explicit, brokers: [1]}}
  to: {count: 1, placement: {kind: explicit, brokers: [2]}}
services:
  - name: news
    kind: content
    attributes: 1
    adverts: true
    protocol: trees
    options: OPTIONS
    workload:
      - {source: advertise, clients: news}
      - {source: subscribe, clients: readers, width: 1, ramp: 200 ms}
      - {source: publish, clients: news, rate: 50/s, start: 1 s}
  - name: others
    kind: content
    attributes: 400
    protocol: subscription
    workload:
      - {source: subscribe, clients: to, width: 1, constraints: 1}
      - {source: publish, clients: from, rate: 60/s, start: 2 s, stop: 4 s}
"""
RECHOSEN = "{by_load: true, slow: 20 ms, rest: 500 ms}"


def filled(options: str) -> tuple[Any, Any, Any]:
    """Two ways round from 0 to 2, of which that by 1 fills: the model, its tables, and the audit of `news`."""
    model = resolve(loads(FULL.replace("OPTIONS", options)))
    tables = traced(model)
    service = model.services[0]
    guarantees = service.protocol_class.guarantees_for(model.overlay)
    return model, tables, audit(tables, service.kind_class(service.params), guarantees)


def delays(tables: Any, begin: int, end: int) -> Any:
    came = tables["deliveries"]
    mine = (came["service"] == 0) & (came["published_ns"] >= begin * MS) & (came["published_ns"] < end * MS)
    return (came["time_ns"] - came["published_ns"])[mine] / MS


def test_a_tree_whose_way_has_become_slow_is_planted_anew_around_it():
    _, kept, whole = filled("{}")
    model, tables, found = filled(RECHOSEN)
    assert found.verdict == whole.verdict == VALID and found.forced == whole.forced > 500
    assert delays(kept, 2_500, 4_000).min() > 100 and delays(kept, 1_000, 2_000).max() < 15
    assert np.median(delays(tables, 2_500, 4_000)) < 15
    mine = tables["hops"]["service"] == 0
    sent = Counter(tables["hops"]["type"][mine & (tables["hops"]["link"] >= 0)].tolist())
    links, brokers = 4, 4
    grown = len(set(tables["hops"]["word"][mine & (tables["hops"]["type"] == PLANT)].tolist()))
    assert grown > 1 and sent[PLANT] == grown * (2 * links - (brokers - 1))
    assert sent[GROWN] == (grown - 1) * (brokers - 1) and sent[SLOW] > 0
    assert sent[FELL] == (grown - 2) * 2 * links  # one is used, and one is kept
    kind = Content({"attributes": 1, "adverts": True})
    assert list(over_budget(tables, kind, found.guarantees, Trees, model.overlay)) == []


def test_a_quiet_overlay_costs_no_more_with_re_choosing_than_without():
    quiet = FULL.split("  - name: others")[0]
    sent = []
    for options in ("{}", RECHOSEN):
        tables = traced(resolve(loads(quiet.replace("OPTIONS", options))))
        sent.append((Counter(tables["hops"]["type"].tolist()), sorted(tables["deliveries"]["time_ns"].tolist())))
    assert sent[0] == sent[1]


def test_while_there_is_one_copy_it_goes_over_to_a_tree_that_waits_less_and_comes_to_nobody_twice():
    """Where it entered there are an old tree and a new one, which part there."""
    _, tables, found = filled("{by_load: true, slow: 5 ms, rest: 100 ms, spare: 3}")
    hops = tables["hops"]
    mine = (hops["service"] == 0) & (hops["type"] == PUBLISH)
    over = mine & (hops["link"] >= 0)
    assert (hops["word"][over] & ALONE).any()
    went = Counter(zip(hops["body"][over].tolist(), hops["link"][over].tolist()))
    assert found.verdict == VALID and set(went.values()) == {1}


def test_publications_change_their_tree_on_the_way():
    """At the junction, where there is one copy, an old tree and a new one part; for the second jam none is planted."""
    model = resolve(loads(shipped()["detours"].read_text(encoding="utf-8")))
    tables = traced(model)
    hops = tables["hops"]
    mine = (hops["service"] == 1) & (hops["link"] >= 0)
    trees_of: dict[int, set[int]] = {}
    for body, word in zip(*(hops[name][mine & (hops["type"] == PUBLISH)].tolist() for name in ("body", "word"))):
        trees_of.setdefault(body, set()).add(word >> 1)
    assert sum(len(each) == 2 for each in trees_of.values()) > 20
    went = Counter(zip(hops["body"][mine].tolist(), hops["link"][mine].tolist()))
    assert {went[key] for key in went if key[0] in trees_of} == {1}
    found = audit(tables, Content(model.services[1].params), Trees.guarantees_for(model.overlay), 1)
    assert found.verdict == VALID and found.forced > 1_000
    late = hops["time_ns"] > 5_000 * MS
    assert PLANT not in hops["type"][mine & late]


def test_re_choosing_gives_one_trace_however_it_runs():
    model = rehearse(LOADED, "trees", 1, options=BY_LOAD)
    tables = traced(model)
    assert {SLOW, GROWN, FELL} <= set(tables["hops"]["type"].tolist())
    ways = variants(model)
    some = [ways[0], *(way for way in ways if way.actors in (3, model.overlay.brokers))][:4]
    assert len(some) == 4 and check_digests(model, some) == []


def test_brokers_see_their_load_only_where_they_re_choose():
    assert [Trees.wants_load(Options(by_load=by_load)) for by_load in (False, True)] == [False, True]


@pytest.mark.parametrize("name, value", [("slow", "1 ms"), ("rest", "2 s"), ("spare", 0)])
def test_what_is_said_of_load_goes_with_by_load_alone(name, value):
    with pytest.raises(ValidationError, match=f"`{name}` is for services with `by_load: true`"):
        Options(**{name: value})
    assert Options(by_load=True, **{name: value})


# ---- faults ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 13))])
@pytest.mark.parametrize("state", [0, LOST], ids=["kept", "lost"])
@pytest.mark.parametrize("number", [0, 4, 5], ids=lambda number: REHEARSALS[number].name)
def test_all_is_exact_again_once_trees_have_grown_anew(number, state, seed):
    lossless = [each for each in REHEARSALS if not each.links.get("loss")]
    model = struck(lossless[number], "trees", seed, {"recover": True, "recover_within": 200 * MS}, state, 800 * MS)
    assert CLEAR in traced(model)["hops"]["type"]
    found = audit_run(model)
    assert found.guarantees.under_faults == "recovers"
    assert found.verdict == VALID, str(found)


def test_recovering_takes_three_ways_across():
    model = struck(REHEARSALS[0], "trees", 1, {"recover": True})
    faced = Faced.of(model.faults, model.overlay)
    owed = promised(Trees, {"recover": True}, model.overlay, faced)
    assert owed.recovers_ns == faced.detect_ns + 3 * faced.way_ns + 2 * faced.link_ns + 1_000 * MS and owed.lets_go
    assert promised(Trees, {}, model.overlay, faced).under_faults == "nothing"


def test_around_a_link_that_is_cut_trees_grow_anew_and_again_when_it_is_up():
    """What is published while it is cut comes the other way."""
    net = ring([MS, MS, MS, 2 * MS], options={"recover": True})
    net.send(2, "subscribe", ALL, word=net.interest(2), at_ns=10 * MS)
    net.send(0, "advertise", ALL, word=net.interest(0), at_ns=20 * MS)
    for time in (50, 150, 300):
        net.send(0, "publish", [0.5, *NULL], at_ns=time * MS)
    model = replace(net.model(), faults=Schedule((Cut(2, 100 * MS, 200 * MS), Cut(3, 100 * MS, 200 * MS)), 5 * MS))
    assert model.overlay.link_a[1] == 0 and model.overlay.link_b[1] == 3
    cut = replace(net.model(), faults=Schedule((Cut(0, 100 * MS, 200 * MS), Cut(1, 100 * MS, 200 * MS)), 5 * MS))
    ways = []
    for tables in (traced(model), traced(cut)):
        hops = tables["hops"]
        went = [
            (int(time) // (100 * MS), int(link))
            for time, link, type_, body in zip(*(hops[name] for name in ("time_ns", "link", "type", "body")))
            if type_ == PUBLISH and body >= 0 and link in (0, 2)
        ]
        ways.append((went, tables["deliveries"]["client"].size, CLEAR in hops["type"]))
    assert ways[0] == ([(0, 0), (1, 0), (3, 0)], 3, True)  # the other way is not used, but comes up again
    assert ways[1] == ([(0, 0), (1, 2), (3, 0)], 3, True)


def test_nobody_waits_for_a_neighbour_that_never_comes_back():
    net = ring(options={"recover": True})
    net.send(0, "advertise", ALL, word=net.interest(0), at_ns=20 * MS)
    net.send(0, "unadvertise", word=net.interest(0), at_ns=300 * MS)
    left: list[int] = []
    simulate(
        replace(net.model(), faults=Schedule((Crash(2, 100 * MS, NEVER),), 5 * MS)),
        observe=lambda shards: left.extend(shards.shards[0].services.protocols[0].entries().tolist()),
    )
    assert [left[broker] for broker in (0, 1, 3)] == [0, 0, 0]


def test_a_crash_that_forgot_leaves_nothing_of_what_ended_meanwhile():
    net = ring(options={"recover": True})
    net.send(2, "subscribe", ALL, word=net.interest(2), at_ns=10 * MS)
    net.send(0, "advertise", ALL, word=net.interest(0), at_ns=20 * MS)
    net.send(0, "unadvertise", word=net.interest(0), at_ns=150 * MS)
    net.send(0, "advertise", LOW, word=net.interest(0, 1), at_ns=160 * MS)
    described: list[Any] = []
    entries: list[int] = []
    faults = Schedule((Crash(1, 100 * MS, 200 * MS, state=LOST), Crash(3, 100 * MS, 190 * MS, state=LOST)), 5 * MS)
    simulate(
        replace(net.model(), faults=faults),
        observe=lambda shards: (
            described.extend(map(shards.shards[0].services.protocols[0].describe, range(4))),
            entries.extend(shards.shards[0].services.protocols[0].entries().tolist()),
        ),
    )
    assert entries == [counted(each) for each in described]
    adverts = [[tree["advert"] for tree in each["trees"].values()] for each in described]
    assert adverts == [[str(net.interest(0, 1))]] * 4
    assert sum(len(tree["subscriptions"]) for each in described for tree in each["trees"].values()) == 3


# ---- wrong on purpose --------------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_hunt_finds_trees_that_are_forgotten_too_soon():
    assert hunt("tests.protocols.test_trees:Forgetful", seed=1, runs=300, enough=1).findings
