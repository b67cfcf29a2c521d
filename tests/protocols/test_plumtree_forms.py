"""`plumtree` in compiled rounds and in the author's form: one trace, whatever is said of it and wherever it runs."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.contract import MESSAGE, TIMER
from brokers.engine.batching import Cutting
from brokers.engine.course import will_be_compiled
from brokers.engine.model import Model, SourceSpec, why_plain
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import KEPT, Crash, Schedule
from brokers.limits import Limits
from brokers.thresholds import lowered
from protocols.conformance import Variant, check_digests, join
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from protocols.gossip.plumtree import ANNOUNCE, ASK, GRAFT, IHAVE, PRUNE, Options
from protocols.gossip.plumtree_kernels import NOTES, NOW
from protocols.gossip.plumtree_shard import PlumtreeShard
from protocols.joining import overlay_of
from protocols.rehearsing import SCRIPT, Dice, service_of

MS, S = 1_000_000, 1_000_000_000
WAYS = [
    Variant("on_message", view="message"),
    Variant("compiled, one event at a time", Cutting(compiled="events")),
    Variant("compiled, in rounds of at most 5", Cutting(compiled="rounds", limit=5)),
    Variant("`handle` alone, cut at random", Cutting("random", limit=9, seed=3, compiled="never")),
    Variant("2 shards", actors=2),
    Variant("3 shards", actors=3, partition="round-robin"),
    Variant("3 threads", Cutting(compiled="rounds"), 3, "round-robin", engine="threads"),
]
# Announcements that outrun copies, timers that ring often, and ids that are forgotten while messages are under way.
PARTS = [
    {}, {"t1": 1 * MS, "t2": 1 * MS, "dispatch": 1}, {"t1": 3 * MS, "t2": 1, "threshold": 1}, {"threshold": 1},
    {"t1": 20 * MS, "t2": 5 * MS, "threshold": 2}, {"dispatch": 30 * MS}, {"cache": 86 * MS, "ids": 87 * MS},
    {"t1": 2 * MS, "t2": 2 * MS, "dispatch": 1, "cache": 3 * MS, "ids": 3 * MS},
    {"t1": 5 * MS, "t2": 4 * MS, "dispatch": 2 * MS, "cache": 8 * MS, "ids": 40 * MS},
]  # fmt: skip


def spread(seed, links, options, loss=0.0, latest_ms=15, clients=12, publications=60, kind="content", every_ms=10):
    """Clients that subscribe and some that take it back, and publish, from a few brokers or from all."""
    dice, brokers = Dice(seed, 0, "forms"), 1 + max(map(max, links))
    at = [dice.below(brokers) for _ in range(clients)]
    comes, goes, says = [], [], []
    for client in range(clients):
        for number in range(2):
            word, begins = ((brokers + client) << 32) + number, 1 + dice.below(200 * MS)
            low = dice.below(60) / 100
            comes.append((begins, client, word, [0, low, low + 0.4] if kind == "content" else [0, 0, dice.below(3)]))
            if dice.below(2):
                goes.append((begins + 1 + dice.below(500 * MS), client, word))
    of = 1 + dice.below(clients)
    for number in range(publications):
        row = [dice.below(100) / 100] if kind == "content" else [dice.below(3)]
        says.append((50 * MS + number * every_ms * MS + dice.below(5 * MS), dice.below(of), row))
    comes, goes, says = (sorted(each, key=lambda row: row[:2]) for each in (comes, goes, says))
    emissions = [
        _emission(SUBSCRIBE, comes, word=[row[2] for row in comes], rows=[row[3] for row in comes]),
        _emission(UNSUBSCRIBE, goes, word=[row[2] for row in goes]),
        _emission(PUBLISH, says, rows=[row[2] for row in says]),
    ]
    delay = [1 + dice.below(latest_ms * MS) for _ in links]
    overlay = overlay_of(sorted(links), delay, jitter_ns=[each // 5 for each in delay])
    sources = [SourceSpec(SCRIPT, {"emissions": emissions}, "all")]
    more = {"params": {"attributes": 1}} if kind == "content" else {}
    service = service_of("plumtree", kind=kind, options=options, sources=sources, cost={"base": 1000.0}, **more)
    return Model(
        "spread", seed, 900 * MS, replace(overlay, loss=np.full(len(links), loss)), np.array(at, np.int32),
        {"all": (0, clients)}, [service], drain_ns=5 * S, sample_every_ns=100 * MS,
    )  # fmt: skip


def _emission(type, said, **more):
    return {"type": type, "time": [row[0] for row in said], "client": [row[1] for row in said], **more}


def linked(seed, brokers, probability):
    """A tree with more links beside it, by chance."""
    graph = nx.random_labeled_tree(brokers, seed=seed)
    graph.add_edges_from(nx.gnp_random_graph(brokers, probability, seed=seed).edges)
    return sorted((min(edge), max(edge)) for edge in graph.edges)


def ended(model, **how):
    """The protocol of each shard when a run is over."""
    found = []
    simulate(model, observe=lambda shards: found.extend(each.services.protocols[0] for each in shards.shards), **how)
    return found


def hops_of(model, **how):
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces, **how)
    return traces.tables()["hops"]


# ---- one trace ---------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(3, 12), st.sampled_from([0.0, 0.3, 0.6, 1.0]),
    st.sampled_from([0.0, 0.0, 0.1, 0.3]), st.sampled_from(PARTS), st.sampled_from([2, 15, 60]),
    st.sampled_from(["content", "topics"]), st.sampled_from([None, None, 1, 4]),
)  # fmt: skip
def test_both_forms_have_one_trace(seed, brokers, probability, loss, said, latest_ms, kind, size):
    model = spread(seed, linked(seed, brokers, probability), said, loss, latest_ms, kind=kind)
    assert will_be_compiled(model)
    with lowered(size):
        assert check_digests(model, WAYS[:3] + WAYS[3 + seed % 4 : 4 + seed % 4]) == []


def test_everything_that_is_said_is_said_in_compiled_rounds():
    """A case in which everything occurs, in each of the ways: each type of message and timer, and links that change."""
    model = spread(5, linked(5, 12, 0.5), {"t1": 6 * MS, "t2": 3 * MS, "threshold": 1}, loss=0.2, latest_ms=30)
    assert check_digests(model, WAYS) == []
    found = []
    simulate(model, observe=lambda shards: found.extend(shards.shards))
    assert found[0].course is not None and isinstance(found[0].services.protocols[0], PlumtreeShard)
    hops = hops_of(model)
    of = {kind: set(hops["type"][hops["kind"] == kind].tolist()) for kind in (MESSAGE, TIMER)}
    assert of == {MESSAGE: {PUBLISH, SUBSCRIBE, UNSUBSCRIBE, IHAVE, PRUNE, GRAFT}, TIMER: {ANNOUNCE, ASK}}
    optimised = (hops["type"] == GRAFT) & (hops["body"] < 0)
    assert optimised.any() and ((hops["type"] == GRAFT) & (hops["body"] >= 0)).any()


def test_a_hub_with_more_neighbours_than_there_were_notes_for_has_one_trace():
    links = [(0, leaf) for leaf in range(1, 90)] + [(leaf, leaf + 1) for leaf in range(1, 89)]
    model = spread(2, links, {"t1": 4 * MS, "t2": 2 * MS}, 0.1, publications=20, clients=80)
    assert check_digests(model, WAYS[:3]) == []
    (shard,) = ended(model)
    assert len(shard.notes) > shard._most + 1 == 90


def test_queues_that_overflow_drop_the_same_in_both_forms():
    model = spread(7, linked(7, 9, 0.5), {"t1": 6 * MS, "t2": 3 * MS}, publications=200, every_ms=1)
    service = replace(model.services[0], cost={"base": 400_000.0})
    model = replace(model, services=[service], limits=Limits((4,) * 9))
    assert check_digests(model, WAYS[:4]) == []
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    assert traces.tables()["losses"]["type"].size > 50


@pytest.mark.parametrize("stop_ms", [150, 333, 600])
def test_what_brokers_tell_of_themselves_is_the_same_in_both_forms_while_publications_are_missing(stop_ms):
    model = spread(8, linked(8, 8, 0.6), {"t1": 80 * MS, "t2": 40 * MS}, loss=0.5, publications=80)
    model = replace(model, duration_ns=stop_ms * MS, drain_ns=1)
    plain = replace(model, services=[replace(model.services[0], view="message")])
    (compiled,), (author,) = ended(model), ended(plain)
    assert isinstance(compiled, PlumtreeShard) and not isinstance(author, PlumtreeShard)
    assert compiled.entries().tolist() == author.entries().tolist()
    told = [compiled.describe(b) for b in range(8)]
    assert told == [author.describe(b) for b in range(8)]
    assert any(state["missing"] for state in told) and any("lazy" in state["neighbours"].values() for state in told)


# ---- memory ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", ["auto", "never"])
def test_what_was_seen_takes_room_for_what_is_alive_only(compiled):
    """Of 2,500 publications in five seconds each may be asked for during some 350 ms."""
    said = {"t1": 20 * MS, "t2": 10 * MS, "dispatch": MS, "cache": 150 * MS, "ids": 200 * MS}
    model = replace(spread(3, linked(3, 8, 0.6), said, 0.1, publications=2500, every_ms=2), duration_ns=6 * S)
    (shard,) = ended(model, max_window_ns=50 * MS, cutting=Cutting(compiled=compiled))
    alive = 350 // 2
    assert alive <= shard.slots.room <= 4 * alive and shard.came.size == 8 * shard.slots.room
    assert shard._desk._answers["send_event"].size < 10_000  # it ran out of handles many times
    assert len(shard.notes) < 1000 and shard._counts[NOTES] == shard._uses.sum() == 0
    shard._counts[NOW] += 1 * S
    assert shard.held().size == len(shard.slots) == 0 and (shard.came < 0).all()


# ---- which form runs ---------------------------------------------------------------------------------


def faulty(model):
    return replace(model, faults=Schedule((Crash(0, 300 * MS, 400 * MS, KEPT),), detect_ns=10 * MS))


def latent(model):
    from topology.latent import with_latent
    from topology.links import Latent

    said = Latent.model_validate({"all": True, "delay": 5 * MS})
    return replace(model, overlay=with_latent(model.overlay, said, 1))


@pytest.mark.parametrize("how", [faulty, latent])
def test_where_the_compiled_form_is_not_written_for_it_the_authors_form_runs(how):
    model = how(spread(3, linked(3, 5, 0.5), {}))
    assert why_plain(PlumtreeShard, Options(**model.services[0].options), model)
    assert not will_be_compiled(model)
    (protocol,) = ended(model)
    assert not isinstance(protocol, PlumtreeShard)


# ---- announcements that come late --------------------------------------------------------------------


def test_word_of_what_may_have_been_forgotten_is_dropped_unread_however_much_is_remembered():
    """The link between 1 and 2 is so slow that what comes over it was sent longer ago than `ids`."""
    options = {"t1": 5 * MS, "t2": 5 * MS, "dispatch": 1 * MS, "cache": 10 * MS, "ids": 40 * MS}
    net = join("plumtree", [(0, 1), (0, 2), (1, 2)], clients=[0], delay_ns=[MS, MS, 60 * MS], options=options)
    for at in range(12):
        net.send(0, "publish", [0.5, 0, 0, 0], at_ns=S + at * 200 * MS)
    model = net.model()
    with lowered(1):
        hops = hops_of(replace(model, services=[replace(model.services[0], view="message")]))
    assert (hops["type"] == IHAVE).sum() == 22
    assert not np.isin(hops["type"], [ASK, GRAFT]).any()
    assert check_digests(model, WAYS[:4]) == []
