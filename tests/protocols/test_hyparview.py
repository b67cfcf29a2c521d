"""HyParView: views that stay views whatever happens, and a network that is whole again when most of it has crashed."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.contract import TIMER, LinkTable
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import KEPT, LOST, Crash, Schedule
from brokers.verdicts import VALID
from protocols.conformance import ORACLE, Variant, audit_run, check_digests
from protocols.gossip.hyparview import contacts
from protocols.joining import Joined, overlay_of
from protocols.rehearsing import service_of
from scenarios.loader import loads
from scenarios.plan import resolve
from scenarios.problems import ScenarioErrors
from tests.brokers.test_engine_checkpoint import (
    continued,
    differing_tables,
    folder_for,
    stopped_at,
    undisturbed,
)
from tests.protocols.test_plumtree import EVERYTHING
from topology.latent import with_latent
from topology.links import Latent

MS, SECOND = 1_000_000, 1_000_000_000
QUICK = {"shuffle": SECOND, "timeout": 200 * MS, "join": 5 * MS}
ANY_DELAY = Latent.model_validate({"hops": 2, "delay": {"kind": "uniform", "low": 10 * MS, "high": 50 * MS}})


def network(nodes: int, seed: int = 1, protocol: str = "hyparview-flooding", **options) -> Joined:
    """Brokers of which each may have a link to each other, with a client each that wants everything."""
    overlay = with_latent(overlay_of([(0, b) for b in range(1, nodes)], 20 * MS), ANY_DELAY, seed)
    said = {**QUICK, **options}
    if protocol == "plumtree":
        said = {"membership": "hyparview", "hyparview": said}
    net = Joined(overlay, range(nodes), service_of(protocol, options=said))
    for client in range(nodes):
        net.send(client, "subscribe", EVERYTHING, word=net.interest(client), at_ns=1)
    return net


def views_of(model: Any) -> dict[int, tuple[set[int], set[int]]]:
    """Active and passive view of each broker at the end of a run, by number."""
    found: dict[int, tuple[set[int], set[int]]] = {}
    number = {name: b for b, name in enumerate(model.overlay.names)}

    def observe(shards: Any) -> None:
        protocol = shards.shards[0].services.protocols[0]
        for b in range(model.overlay.brokers):
            told = protocol.describe(b)["views"]
            lists = told["active"], told["passive"]
            assert all(len(each) == len(set(each)) for each in lists)
            active, passive = ({number[name] for name in each} for each in lists)
            found[b] = active, passive

    simulate(model, observe=observe)
    return found


def graph_of(views: dict[int, tuple[set[int], set[int]]], gone: set[int] = frozenset()) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(views.keys() - gone)
    graph.add_edges_from((b, other) for b, (active, _) in views.items() if b not in gone for other in active - gone)
    return graph


def check(views: dict[int, tuple[set[int], set[int]]], gone: set[int], active: int, passive: int) -> None:
    """The invariants, once it is quiet."""
    for b, (near, spare) in views.items():
        if b not in gone:
            assert b not in near | spare and not near & spare
            assert len(near) <= active and len(spare) <= passive
            assert near.isdisjoint(gone)
            assert all(b in views[other][0] for other in near), f"{b} has a neighbour that does not have it"


# Views connect everybody with high probability, not surely: what is drawn here is drawn the same each time.


# ---- invariants --------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(8, 40), st.integers(3, 5), st.integers(5, 12))
def test_views_are_views_symmetric_and_connect_everybody_whatever_is_drawn(seed, nodes, active, passive):
    net = network(nodes, seed, active=active, passive=passive)
    net.send(0, "publish", [0.5, 0, 0, 0], at_ns=6 * SECOND)
    views = views_of(net.model())
    check(views, set(), active, passive)
    assert nx.is_connected(graph_of(views))
    assert len(net.deliveries()) == nodes


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_after_random_crashes_the_rest_are_symmetric_again(seed):
    random = Random(seed)
    net = network(20, seed)
    net.send(0, "publish", [0.5, 0, 0, 0], at_ns=16 * SECOND)
    crashes, gone = [], set()
    for broker in random.sample(range(1, 20), 8):
        begin = random.randrange(3 * SECOND)
        if random.random() < 0.5:
            crashes.append(Crash(broker, begin))
            gone.add(broker)
        else:
            lasts = random.randrange(1, 2 * SECOND)
            crashes.append(Crash(broker, begin, begin + lasts, random.choice((KEPT, LOST))))
    model = replace(net.model(), faults=Schedule(tuple(crashes), random.choice((1, 50 * MS))))
    views = views_of(model)
    check(views, gone, 5, 30)
    assert nx.is_connected(graph_of(views, gone))


def crashed(nodes: int, share: float, protocol: str, settle_s: int, seed: int = 1) -> tuple[Any, set[int], list[float]]:
    """The views after a share of all brokers has crashed at once, and which part of the rest got each publication."""
    net = network(nodes, seed, protocol)
    random = Random(seed)
    gone = set(random.sample(range(nodes), int(nodes * share)))
    at = (nodes * 5 + 8_000) * MS
    rest = sorted(set(range(nodes)) - gone)
    for number in range(5):
        source = random.choice(rest)
        net.send(source, "publish", [0.5, 0, 0, 0], at_ns=at + settle_s * SECOND + number * SECOND)
    model = replace(net.model(), faults=Schedule(tuple(Crash(b, at) for b in sorted(gone)), 100 * MS))
    views = views_of(model)
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    table = traces.tables()["deliveries"]
    got = table["publication"][~np.isin(table["broker"], sorted(gone))]
    return views, gone, [float((got == each).sum()) / len(rest) for each in np.unique(got)]


@pytest.mark.parametrize("protocol", ["hyparview-flooding", "plumtree"])
def test_when_eight_in_ten_have_crashed_the_rest_find_each_other_and_get_everything(protocol):
    views, gone, reliability = crashed(60, 0.8, protocol, settle_s=12)
    check(views, gone, 5, 30)
    assert nx.is_connected(graph_of(views, gone))
    assert reliability == [1.0] * 5


@pytest.mark.full
def test_so_do_those_of_a_thousand():
    views, gone, reliability = crashed(1_000, 0.8, "hyparview-flooding", settle_s=20)
    check(views, gone, 5, 30)
    assert nx.is_connected(graph_of(views, gone)) and reliability == [1.0] * 5


# ---- how it runs -------------------------------------------------------------------------------------


def test_every_way_of_running_gives_the_same_views_and_messages():
    net = network(9, protocol="plumtree")
    for at in range(10):
        net.send(at % 9, "publish", [0.5, 0, 0, 0], at_ns=SECOND + at * 30 * MS)
    model = replace(net.model(), faults=Schedule((Crash(3, 1_100 * MS, 1_200 * MS), Crash(4, 1_150 * MS)), 20 * MS))
    shards = [Variant(f"{actors} shards", actors=actors) for actors in (2, 9)]
    ways = [ORACLE, *shards, Variant("short windows", max_window_ns=3 * MS)]
    assert check_digests(model, ways) == []


def test_a_stop_and_a_checkpoint_change_nothing(tmp_path):
    net = network(12, protocol="plumtree")
    for at in range(20):
        net.send(at % 12, "publish", [0.5, 0, 0, 0], at_ns=SECOND + at * 50 * MS)
    model = net.model()
    whole, result = undisturbed(tmp_path / "whole", model)
    halves = folder_for(tmp_path / "halves", model)
    stopped_at(0.5, model, halves.path, 2)
    resumed = continued(model, halves.path, 3)
    assert resumed.digest == result.digest
    assert differing_tables(whole, halves.finish(resumed.digest)) == []


def test_what_is_promised_is_kept_while_brokers_join():
    net = network(20, protocol="plumtree")
    for at in range(40):
        net.send(at % 20, "publish", [0.5, 0, 0, 0], at_ns=10 * MS + at * 20 * MS)
    found = audit_run(net.model())
    assert found.verdict == VALID and found.duplicated.count == 0 < found.deliveries


def test_everybody_joins_through_the_candidate_nearest_to_the_first_broker():
    table = LinkTable.of(resolve(loads(LINE)).overlay)
    found = contacts(table, 5)
    assert found[0] == -1 and table.target[found[1:]].tolist() == [0, 0, 2, 3]


LINE = """
duration: 1 s
topology: {kind: line, nodes: 5}
links: {latent: {pairs: [[b0, b2]]}}
clients: {all: {count: 4}}
services:
  - {name: news, kind: content, protocol: hyparview-flooding, attributes: 1, workload: WORKLOAD}
""".replace("WORKLOAD", "[{source: publish, rate: 1/s}]")


@pytest.mark.parametrize(
    ("options", "why"), [("{active: 0}", "at least 1"), ("{prwl: 9}", "`prwl` is at most `arwl`")]
)
def test_options_that_make_no_views_are_told(options, why):
    with pytest.raises(ScenarioErrors, match=why):
        resolve(loads(LINE.replace("attributes: 1", f"attributes: 1, options: {options}")))


@pytest.mark.parametrize("protocol", ["hyparview-flooding", "plumtree"])
def test_views_for_more_brokers_than_there_are_are_remarked_on(protocol):
    overlay = overlay_of([(a, a + 1) for a in range(39)])

    def told(active):
        views = {"active": active}
        options = {"membership": "hyparview", "hyparview": views} if protocol == "plumtree" else views
        spec = service_of(protocol, options=options)
        return spec.protocol_class.remarks(spec.protocol_class.Options(**spec.options), overlay)

    assert told(38) == []
    assert "`active` is 39, and there are 39 other brokers" in told(39)[0]


def test_no_timer_rings_when_clients_do_nothing_any_more():
    net = network(6)
    net.send(0, "publish", [0.5, 0, 0, 0], at_ns=SECOND // 2)
    model = net.model()
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    hops = traces.tables()["hops"]
    rung = hops["time_ns"][hops["kind"] == TIMER]
    assert rung.size and rung.max() < model.duration_ns
