"""Candidates that are described: what runs over them is what would over listed ones, and only what arises is kept."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.arising import ToldDown
from brokers.columns import BadState
from brokers.engine.batching import Cutting
from brokers.engine.checkpoint_check import check_states
from brokers.engine.inline import InlineShards
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import InvalidInput
from brokers.faults import KEPT, LOST, Crash, Schedule
from brokers.limits import NO_LIMITS
from protocols.conformance import ORACLE, Variant, check_digests
from protocols.joining import Joined, overlay_of
from protocols.rehearsing import service_of
from scenarios.loader import loads
from scenarios.plan import plan, resolve
from scenarios.problems import ScenarioErrors
from tests.brokers.test_engine_checkpoint import (
    continued,
    differing_tables,
    folder_for,
    stopped_at,
    undisturbed,
)
from tests.protocols.test_hyparview import QUICK, check, graph_of, views_of
from tests.protocols.test_plumtree import EVERYTHING
from topology.errors import TopologyError
from topology.latent import with_latent
from topology.links import Latent

MS, SECOND = 1_000_000, 1_000_000_000
UNIFORM = {"kind": "uniform", "low": 10 * MS, "high": 50 * MS}


def network(nodes: int, seed: int, delay: Any = UNIFORM, protocol: str = "plumtree", **candidates: Any) -> Joined:
    """Brokers around the first of them, of which each may open a link to each other."""
    described = {} if "hops" in candidates else {"all": True}
    latent = Latent.model_validate({"delay": delay, **described, **candidates})
    overlay = with_latent(overlay_of([(0, b) for b in range(1, nodes)], 20 * MS), latent, seed)
    options = {"membership": "hyparview", "hyparview": QUICK} if protocol == "plumtree" else QUICK
    net = Joined(overlay, range(nodes), service_of(protocol, options=options))
    for client in range(nodes):
        net.send(client, "subscribe", EVERYTHING, word=net.interest(client), at_ns=1)
    for number in range(4):
        net.send(7 * number % nodes, "publish", [0.5, 0, 0, 0], at_ns=2 * SECOND + number * 300 * MS)
    return net


def with_crashes(net: Joined, seed: int) -> Any:
    """Some brokers crash, for good or for a time."""
    random, crashes = Random(seed), []
    for broker in random.sample(range(1, 20), 8):
        begin, lasts = random.randrange(3 * SECOND), random.randrange(1, SECOND)
        ends = (begin + lasts, random.choice((KEPT, LOST))) if random.random() < 0.5 else ()
        crashes.append(Crash(broker, begin, *ends))
    return replace(net.model(), faults=Schedule(tuple(crashes), random.choice((1, 30 * MS))))


def traced(model: Any, **how: Any) -> dict[str, Any]:
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces, **how)
    return traces.tables()


def hops(tables: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Everything that brokers handled, with the ends of the link that it came over in place of the link's number."""
    links, found = tables["links"], tables["hops"]
    link, *ends = (links[name].tolist() for name in ("link", "from", "to", "delay_ns"))
    ends_of = dict(zip(link, zip(*ends)))
    names = ("broker", "time_ns", "kind", "source", "sequence", "type", "body", "word", "finish_ns", "link")
    rows = zip(*(found[name].tolist() for name in names))
    return sorted((*row[:-1], ends_of.get(row[-1], ())) for row in rows)


def carried(links: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What went over each link, of those that were used."""
    used = links["messages"] > 0
    return sorted(zip(*(links[name][used].tolist() for name in ("from", "to", "messages", "bytes"))))


# ---- the same as listed ones -------------------------------------------------------------------------


@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(6, 30), st.sampled_from([UNIFORM, 20 * MS]), st.booleans(), st.booleans())
def test_described_candidates_do_what_listed_ones_do_but_for_the_numbers_of_links(seed, nodes, delay, floods, few):
    protocol = "hyparview-flooding" if floods else "plumtree"  # with one delay for all, much comes at one time
    most = {"most": 6} if few else {}
    listed = traced(network(nodes, seed, delay, protocol, hops=2, **most).model())
    described = traced(network(nodes, seed, delay, protocol, **most).model())
    assert hops(described) == hops(listed) and len(hops(listed)) > 10 * nodes
    for table in ("deliveries", "publications", "brokers"):
        columns = listed[table].keys() - {"digest_a", "digest_b"}
        one, other = (sorted(zip(*(each[table][name].tolist() for name in sorted(columns) if name != "values")))
                      for each in (listed, described))  # fmt: skip
        assert one == other
    assert carried(listed["links"]) == carried(described["links"])


def test_only_what_arises_has_a_row():
    tables = traced(network(60, 1).model())
    links, standing = tables["links"], 2 * 59
    arisen = links["link"][standing:]
    assert (links["latent"][standing:] == 1).all() and not links["latent"][:standing].any()
    back = links["messages"][standing:].reshape(-1, 2)
    assert 60 < len(back) < 60 * 59 // 4 and (back.sum(1) > 0).all()
    assert (links["from"][standing::2] == links["to"][standing + 1 :: 2]).all()
    gone_over = {number for number in tables["hops"]["link"].tolist() if number >= standing}
    assert gone_over <= set(arisen.tolist())


# ---- every way of running ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_way_of_running_gives_one_digest_whatever_crashes(seed):
    model = with_crashes(network(20, seed, 20 * MS if seed == 2 else UNIFORM), seed)
    shards = [Variant(f"{actors} shards", actors=actors) for actors in (2, 7)]
    ways = [
        ORACLE, *shards, Variant("short windows", max_window_ns=3 * MS),
        Variant("random cuts", cutting=Cutting("random", seed=seed)),
    ]  # fmt: skip
    assert check_digests(model, ways) == []


def test_a_stop_and_a_checkpoint_change_nothing(tmp_path):
    model = with_crashes(network(20, 4), 4)
    whole, result = undisturbed(tmp_path / "whole", model)
    halves = folder_for(tmp_path / "halves", model)
    stopped_at(0.2, model, halves.path, 2)
    resumed = continued(model, halves.path, 3)
    assert resumed.digest == result.digest
    assert differing_tables(whole, halves.finish(resumed.digest)) == []


def test_a_checkpoint_with_links_that_cannot_be_is_refused():
    model = network(20, 5).model()
    shards = InlineShards(model, np.zeros(20, np.int32), lambda shard: MemoryTraces("summary")(shard), None, None)
    for end in range(100 * MS, 400 * MS, 10 * MS):
        shards.step(end, range(0))
    state = shards.shards[0].state()
    numbers = model.overlay.numbers
    post = np.flatnonzero(state["lane"] >= numbers.first + numbers.nodes)
    assert post.size and state["arisen"].size

    def refused(**changed: Any) -> None:
        with pytest.raises(BadState, match=r"arisen|under_way"):
            check_states([{**state, **changed}], {"now": state["now"]}, model)

    check_states([state], {"now": state["now"]}, model)
    arisen, under_way = state["arisen"], state["under_way"].copy()
    refused(arisen=np.where(arisen == arisen[0], numbers.end, arisen))
    refused(arisen=np.where(arisen == arisen[0], numbers.of(3, 3), arisen))
    refused(arisen=np.where(arisen == arisen[0], arisen[1], arisen))
    under_way[post[0], 1] = 99 << 40
    refused(under_way=under_way)


# ---- whose other end is down -------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 200), unique=True, max_size=8), st.integers(0, 250), st.integers(0, 30), st.booleans())
def test_who_looks_is_told_at_the_first_time_there_is_something_to_tell(times, now, detect, down):
    edges = sorted(times)
    spans = list(zip(edges[::2], edges[1::2]))
    told = ToldDown(lambda broker: spans, detect)
    first = now + max(1, detect)
    there = [at for at in range(first, 400) if any(begin <= at < end for begin, end in spans) == down]
    found = told.soonest(0, now, down)
    assert found == there[0] if there else found > 10**18


def test_when_eight_in_ten_have_crashed_the_rest_find_each_other():
    net, random = network(60, 7), Random(7)
    gone = set(random.sample(range(60), 48))
    rest = sorted(set(range(60)) - gone)
    net.send(rest[0], "publish", [0.5, 0, 0, 0], at_ns=22 * SECOND)
    model = replace(net.model(), faults=Schedule(tuple(Crash(b, 8 * SECOND) for b in sorted(gone)), 100 * MS))
    views = views_of(model)
    check(views, gone, 5, 30)
    assert nx.is_connected(graph_of(views, gone))
    deliveries = traced(model)["deliveries"]
    assert deliveries["broker"][deliveries["published_ns"] == 22 * SECOND].size == len(rest)


# ---- scenarios ---------------------------------------------------------------------------------------

STAR = """
duration: 3 s
topology: {kind: star, nodes: 12}
links: {delay: 20 ms, latent: {all: true, delay: {kind: uniform, low: 4 ms, high: 50 ms}}}
clients: {all: {count: 12, placement: even}}
services:
  - name: news
    kind: content
    protocol: hyparview-flooding
    attributes: 1
    workload: [{source: subscribe, constraints: 1, width: 1}, {source: publish, rate: 1/s}]
"""


def test_lookahead_is_no_longer_than_a_link_that_may_arise():
    assert plan(loads(STAR), actors=2).lookahead_ns == 4 * MS
    assert resolve(loads(STAR)).overlay.is_tree


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("{all: true}", "needs a `delay`"),
        ("{all: true, hops: 2, delay: 5 ms}", "leaves no pair to be named"),
        ("{all: true, delay: {kind: normal, mean: 9 ms, stdev: 1 ms}}", "lower bound"),
    ],
)
def test_what_does_not_describe_links_is_told(said, why):
    with pytest.raises(ScenarioErrors, match=why):
        resolve(loads(STAR.replace("{all: true, delay: {kind: uniform, low: 4 ms, high: 50 ms}}", said)))


@pytest.mark.parametrize(
    "fault", ["{fault: partition, at: 1 s, sets: [[b1, b2]]}", "{fault: isolate, at: 1 s, brokers: [b1]}"]
)
def test_nobody_is_cut_off_where_any_two_may_open_a_link(fault):
    with pytest.raises(ScenarioErrors, match="any two may open another"):
        resolve(loads(f"{STAR}faults:\n  schedule:\n    - {fault}\n"))


def test_limits_and_too_many_brokers_are_told():
    model = replace(resolve(loads(STAR)), limits=NO_LIMITS._replace(places=(3,) * 12))
    with pytest.raises(InvalidInput, match="nothing is counted that waits"):
        simulate(model)
    with pytest.raises(TopologyError, match="46,000 brokers at most"):
        network(47_000, 1)
