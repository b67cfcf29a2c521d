"""Plumtree over fixed links: the exact counts of first and later publications, and what each message does."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise
from random import Random

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.contract import MESSAGE, TIMER
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import Crash, Cut, Schedule, Worn
from brokers.verdicts import VALID
from protocols.conformance import audit_run, join
from protocols.content.kind import PUBLISH
from protocols.gossip.plumtree import ASK, GRAFT, IHAVE, PRUNE, Options
from protocols.joining import Joined
from protocols.rehearsing import service_of
from scenarios.loader import loads
from scenarios.plan import resolve
from scenarios.problems import ScenarioErrors
from tests.protocols.plumtree_plainly import Network, Times
from topology.build import build
from topology.links import Links

MS, SECOND = 1_000_000, 1_000_000_000
VARIED = Links.model_validate({"delay": {"kind": "uniform", "low": 10 * MS, "high": 50 * MS}})
EVERYTHING = [0, 0.0, 1.0]


def network(seed: int, nodes: int = 40, probability: float = 0.15, links: Links = VARIED, **options) -> Joined:
    """A client at each broker of a drawn graph, which wants everything."""
    overlay = build("erdos-renyi", {"nodes": nodes, "probability": probability}, links, seed)
    net = Joined(overlay, range(nodes), service_of("plumtree", options=options))
    for client in range(nodes):
        net.send(client, "subscribe", EVERYTHING, word=net.interest(client), at_ns=1)
    return net


def traced(model):
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    return traces.tables()


def counted(tables, begin: int, end: int) -> dict[int, int]:
    """How many messages of each type came over links in a time."""
    hops = tables["hops"]
    mine = (hops["link"] >= 0) & (hops["kind"] == MESSAGE) & (hops["time_ns"] >= begin) & (hops["time_ns"] < end)
    return {type_: int((hops["type"][mine] == type_).sum()) for type_ in (PUBLISH, IHAVE, PRUNE, GRAFT)}


def rounds(net: Joined, sources: list[int]) -> list[dict[int, int]]:
    """The messages of publications, ten seconds after each other."""
    for at, source in enumerate(sources):
        net.send(source, "publish", [0.5, 0, 0, 0], at_ns=(at + 1) * 10 * SECOND)
    tables = traced(net.model())
    return [counted(tables, at * 10 * SECOND, (at + 1) * 10 * SECOND) for at in range(1, len(sources) + 1)]


def among(net: Joined, broker: int, kind: str) -> list[str]:
    """The neighbours of a broker that are eager, or lazy."""
    return [name for name, each in net.describe(broker)["neighbours"].items() if each == kind]


# ---- exact counts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_first_costs_twice_the_surplus_links_and_the_next_from_there_a_tree(seed):
    net = network(seed)
    n, links = 40, net.model().overlay.links
    surplus = links - (n - 1)
    first, second, third = rounds(net, [7, 7, 7])
    assert surplus > 40
    assert first[PUBLISH] == 2 * links - (n - 1) and first[PRUNE] == 2 * surplus
    assert second == third == {PUBLISH: n - 1, IHAVE: 2 * surplus, PRUNE: 0, GRAFT: 0}
    assert net.audit().verdict == VALID


@pytest.mark.parametrize("seed", range(5))
def test_eager_links_are_the_tree_of_shortest_ways_after_the_first(seed):
    net = network(seed)
    rounds(net, [7])
    overlay = net.model().overlay
    graph = nx.Graph()
    for a, b, delay in zip(overlay.link_a.tolist(), overlay.link_b.tolist(), overlay.delay_ns.tolist()):
        graph.add_edge(a, b, weight=delay)
    shortest = nx.single_source_dijkstra_path(graph, 7)
    tree = {frozenset(path[-2:]) for path in shortest.values() if len(path) > 1}
    eager = set()
    for broker in range(40):
        eager |= {frozenset((broker, overlay.names.index(name))) for name in among(net, broker, "eager")}
    assert eager == tree


def test_another_source_takes_the_same_tree_unless_an_announcement_outruns_it():
    slow = network(3, t1=2 * SECOND, t2=SECOND)
    n = 40
    assert [each[PUBLISH] for each in rounds(slow, [7, 7, 11])][1:] == [n - 1, n - 1]
    hasty = network(3, t1=1 * MS, t2=1 * MS, dispatch=1)
    found = rounds(hasty, [7, 7, 11, 11])
    assert found[2][GRAFT] > 0 and found[2][PUBLISH] > n - 1  # what was asked for although it was on its way
    assert found[2][PRUNE] > 0 and hasty.audit().verdict == VALID


def test_on_a_tree_nothing_is_announced():
    net = join("plumtree", [(0, 1), (1, 2), (1, 3)])
    net.send(0, "publish", [0.5, 0, 0, 0])
    assert counted(traced(net.model()), 0, 10 * SECOND) == {PUBLISH: 3, IHAVE: 0, PRUNE: 0, GRAFT: 0}


# ---- message by message ------------------------------------------------------------------------------

TRIANGLE = [(0, 1), (0, 2), (1, 2)]


def triangle(**options) -> Joined:
    net = join("plumtree", TRIANGLE, clients=[0, 1, 2], delay_ns=MS, options=options)
    for client in range(3):
        net.send(client, "subscribe", EVERYTHING, word=net.interest(client), at_ns=1)
    return net


def test_the_round_says_how_often_it_was_passed_on():
    net = triangle()
    net.send(0, "publish", [0.5, 0, 0, 0])
    assert [(hop.type, hop.word) for hop in net.over(0, 1)] == [(PUBLISH, 0)]
    assert [(hop.type, hop.word) for hop in net.over(1, 2)] == [(PUBLISH, 1), (PRUNE, 0)]
    assert among(net, 1, "lazy") == ["b2"] and among(net, 2, "lazy") == ["b1"]
    assert among(net, 0, "eager") == ["b1", "b2"]


def test_an_announcement_waits_for_dispatch_and_says_for_what_it_stands():
    net = triangle(dispatch=3 * MS)
    net.send(0, "publish", [0.5, 0, 0, 0], at_ns=SECOND)
    sent = net.send(0, "publish", [0.5, 0, 0, 0], at_ns=2 * SECOND)
    told = [hop for hop in net.over(1, 2) if hop.type == IHAVE]
    assert [(hop.time_ns, hop.word, hop.body) for hop in told] == [(2 * SECOND + (1 + 3 + 1) * MS, sent, sent)]


def cut_off(net: Joined, *faults, detect_ns: int = 1 << 62):
    return replace(net.model(), faults=Schedule(faults, detect_ns))


def test_who_only_heard_of_it_asks_after_t1_and_the_tree_is_mended():
    net = triangle(t1=20 * MS, t2=10 * MS, dispatch=3 * MS)
    net.send(0, "publish", [0.5, 0, 0, 0], at_ns=SECOND)
    sent = net.send(0, "publish", [0.5, 0, 0, 0], at_ns=2 * SECOND)
    net.send(0, "publish", [0.5, 0, 0, 0], at_ns=3 * SECOND)
    # The link 0 -> 2 is down when the second comes, and nobody is told.
    tables = traced(cut_off(net, Cut(2, 2 * SECOND - MS, 4 * SECOND)))
    hops = tables["hops"]
    asked = (hops["type"] == GRAFT) & (hops["kind"] == MESSAGE)
    heard = 2 * SECOND + 5 * MS
    assert hops["time_ns"][asked].tolist() == [heard + 21 * MS] and hops["body"][asked].tolist() == [sent]
    got = tables["deliveries"]
    mine = (got["client"] == 3 + 2) & (got["publication"] == sent)
    assert got["time_ns"][mine].tolist() == [heard + 22 * MS]
    third = counted(tables, 3 * SECOND, 4 * SECOND)
    assert third[GRAFT] == 0 and third[PUBLISH] == 3  # 0 -> 1 -> 2 -> 0, whose PRUNE is lost


def test_after_t2_the_next_announcer_is_asked():
    star = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]
    net = join("plumtree", star, clients=[0, 3], delay_ns=MS, options={"t1": 20 * MS, "t2": 10 * MS})
    net.send(1, "subscribe", EVERYTHING, word=net.interest(1), at_ns=1)
    net.send(0, "publish", [0.5, 0, 0, 0], at_ns=SECOND)
    net.send(0, "publish", [0.5, 0, 0, 0], at_ns=2 * SECOND)
    links = sorted(star)
    from_0, to_1 = 2 * links.index((0, 3)), 2 * links.index((1, 3)) + 1
    lost = [Cut(link, 2 * SECOND, 3 * SECOND) for link in (from_0, to_1)]
    tables = traced(cut_off(net, *lost))  # the GRAFT to 1 is lost as well
    hops = tables["hops"]
    rung = hops["time_ns"][(hops["kind"] == TIMER) & (hops["type"] == ASK)].tolist()
    assert [b - a for a, b in pairwise(rung)] == [10 * MS, 10 * MS]
    assert len(tables["deliveries"]["time_ns"]) == 2


@pytest.mark.parametrize(("threshold", "changed"), [(5, 1), (6, 0)])
def test_an_announcement_that_is_rounds_ahead_takes_the_place_of_the_way_it_came(threshold, changed):
    ring = [(0, 1), (0, 5), (1, 2), (2, 3), (3, 4), (4, 5)]
    delays = [30 * MS if link == (0, 5) else 5 * MS for link in ring]
    net = join("plumtree", ring, clients=[0, 5], delay_ns=delays, options={"threshold": threshold})
    net.send(1, "subscribe", EVERYTHING, word=net.interest(1), at_ns=1)
    for at in (1, 2, 3):
        net.send(0, "publish", [0.5, 0, 0, 0], at_ns=at * SECOND)
    # The way round, five links, is quicker until its first link takes 20 ms longer.
    tables = traced(cut_off(net, Worn(0, 1_500 * MS, 9 * SECOND, delay=20 * MS)))
    first, second, third = (counted(tables, at * SECOND, (at + 1) * SECOND) for at in (1, 2, 3))
    assert first == {PUBLISH: 7, IHAVE: 0, PRUNE: 2, GRAFT: 0}
    assert second == {PUBLISH: 5, IHAVE: 2, PRUNE: changed, GRAFT: changed}
    assert (third[PUBLISH], third[GRAFT], third[PRUNE]) == (5, 0, 0)
    took = [time % SECOND // MS for time in sorted(tables["deliveries"]["time_ns"].tolist())]
    assert took == [25, 45, 30 if changed else 45]


# ---- what it promises --------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 200), st.integers(1, 40), st.integers(1, 8))
def test_whatever_is_eager_everybody_gets_everything_once(seed, t1_ms, dispatch_ms, threshold):
    options = {"t1": t1_ms * MS, "t2": max(1, t1_ms // 2) * MS, "dispatch": dispatch_ms * MS, "threshold": threshold}
    net = network(seed, nodes=12, probability=0.4, **options)
    for at in range(30):
        net.send((seed + 5 * at) % 12, "publish", [0.5, 0, 0, 0], at_ns=SECOND + at * 7 * MS)
    found = net.audit()
    assert found.verdict == VALID and found.forced == found.deliveries == 30 * 12


@pytest.mark.parametrize(("seed", "threshold"), [(1, 1), (2, 1), (3, 2), (4, 3)])
def test_over_drawn_links_it_does_what_its_rules_say_written_plainly(seed, threshold):
    """Also where the ways that publications come are changed for shorter ones."""
    random, times = Random(seed), Times(15 * MS, 5 * MS, 2 * MS, threshold)
    net = network(seed, 25, 0.25, **times._asdict())
    overlay = net.model().overlay
    times_of = accumulate((random.choice((30, 400)) * MS for _ in range(30)), initial=SECOND)
    publications = [(at, random.randrange(25)) for at in times_of]
    for at, source in publications:
        net.send(source, "publish", [0.5, 0, 0, 0], at_ns=at)
    tables = traced(net.model())
    ends = zip(overlay.link_a.tolist(), overlay.link_b.tolist(), overlay.delay_ns.tolist())
    plain = Network({pair: delay for a, b, delay in ends for pair in ((a, b), (b, a))}, times)
    plain.run(publications)
    assert counted(tables, 0, 1 << 62) == {type_: plain.sent[type_] for type_ in (PUBLISH, IHAVE, PRUNE, GRAFT)}
    assert plain.changed > 10
    for broker in range(25):
        said = {name: other for other, name in enumerate(overlay.names)}
        assert {said[name] for name in among(net, broker, "eager")} == plain.eager[broker]


def test_after_a_crash_everybody_gets_everything_again_as_soon_as_all_are_told():
    net = network(5, nodes=12, probability=0.4)
    for at in range(40):
        net.send(at % 12, "publish", [0.5, 0, 0, 0], at_ns=SECOND + at * 50 * MS)
    crashes = [Crash(3, 1_300 * MS, 1_700 * MS, 2), Crash(4, 1_400 * MS, 1_900 * MS)]
    model = replace(net.model(), faults=Schedule(tuple(crashes), 20 * MS))
    found = audit_run(model)
    assert found.guarantees.recovers_ns <= 70 * MS
    assert found.verdict == VALID and found.forced > 12 * 12, str(found)


# ---- bad input ---------------------------------------------------------------------------------------

SAID = """
duration: 1 s
topology: {kind: ring, nodes: 4}
clients: {all: {count: 4}}
services:
  - {name: news, kind: content, protocol: plumtree, attributes: 1, options: OPTIONS, workload: WORKLOAD}
""".replace("WORKLOAD", "[{source: publish, rate: 1/s}]")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("{t1: 10 ms, t2: 20 ms}", "`t2` is at most `t1`"),
        ("{cache: 50 ms}", "`cache` has to be longer"),
        ("{ids: 20 s}", "`ids` is at least `cache`"),
        ("{threshold: 0}", "at least 1"),
        ("{t3: 1 s}", "unknown key"),
        ("{hyparview: {prwl: 7}}", "`prwl` is at most `arwl`"),
    ],
)
def test_options_that_contradict_each_other_are_told_with_the_rule(options, why):
    with pytest.raises(ScenarioErrors, match=why):
        resolve(loads(SAID.replace("OPTIONS", options)))


def test_the_defaults_are_those_that_were_published():
    options = Options()
    assert [options.t1, options.t2, options.dispatch] == [80 * MS, 40 * MS, 5 * MS]
    assert (options.threshold, options.cache, options.ids) == (7, 30 * SECOND, 90 * SECOND)
    views = options.hyparview
    assert (views.active, views.passive, views.arwl, views.prwl) == (5, 30, 6, 3)
    assert (views.shuffle, views.timeout) == (60 * SECOND, 500 * MS)
