"""`gossipsub` in compiled rounds and in the author's form: one trace, whatever is said of it and wherever it runs."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.papers.gossip_runs import Setting
from brokers.engine.batching import Cutting
from brokers.engine.course import will_be_compiled
from brokers.engine.model import Model, SourceSpec, why_plain
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import KEPT, Crash, Schedule
from brokers.wire.blake import fingerprint
from protocols.conformance import Variant, check_digests
from protocols.gossip.options import ETHEREUM_BLOCKS, Options
from protocols.gossip.shard import GossipShard
from protocols.gossip.talking import (
    DECAY,
    GRAFT,
    HEARTBEAT,
    IDONTWANT,
    IHAVE,
    IWANT,
    JOINED,
    LEFT,
    PRUNE,
    VALIDATED,
)
from protocols.joining import overlay_of
from protocols.rehearsing import SCRIPT, Dice, service_of
from protocols.topics.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE

MS, S = 1_000_000, 1_000_000_000
WAYS = [
    Variant("on_message", view="message"),
    Variant("compiled, one event at a time", Cutting(compiled="events")),
    Variant("compiled, in rounds of at most 5", Cutting(compiled="rounds", limit=5)),
    Variant("3 shards", actors=3, partition="round-robin"),
    Variant("3 threads", Cutting(compiled="rounds"), 3, "round-robin", engine="threads"),
]
FEW = {"d": 2, "d_lo": 1, "d_hi": 3, "d_out": 0, "d_score": 1, "d_lazy": 1, "heartbeat": "20 ms"}
SOON = {"first_heartbeat": "1 ms", "backoff": "60 ms", "leave_backoff": "30 ms", "graft_flood": "20 ms"}
LOW = {"gossip": -0.5, "publish": -1.0, "graylist": -2.0, "opportunistic": 3.0}
SCORED = {
    "topic": {
        **ETHEREUM_BLOCKS, "mesh_quantum": "10 ms", "rate_activation": "30 ms", "rate_window": "3 ms",
        "rate_threshold": 0.5, "rate_cap": 4.0, "invalid_weight": -1.0,
    },
    "topics": {"1/1": {"first_weight": 2.0}}, "behaviour_weight": -1.0, "behaviour_decay": 0.99,
    "address_weight": -0.1, "address_brokers": 3, "app_weight": 0.5, "app": {0: 1.0, 1: -2.0}, "cap": 4.0,
    "decay_every": "15 ms", "thresholds": LOW,
}  # fmt: skip
PARTS = [
    {"version": "1.0"}, {"version": "1.1", "flood_publish": True}, {"gossip_draw": "each"},
    {"validation": "3 ms", "payload": 2000}, {"validation": "1 ms", "payload": 2000, "idontwant_messages": 1},
    {"invalid": 0.3, "ignored": 0.1}, {"invalid_from": [0]}, {"direct": [[0, 1]]}, {"exclude_author": False},
    {"ihave_ids": 2}, {"ihave_messages": 1}, {"iwant_repeats": 1, "history": 3, "seen": "81 ms"}, {"fanout": "30 ms"},
    {"iwant_followup": "5 ms"}, {"opportunistic_ticks": 2}, {"history": 1, "gossip_windows": 1},
    {"d_out": 1, "d_lo": 2},
]  # fmt: skip


def talk(seed, links, options, topics=3, loss=0.0, latent_ms=4, clients=12, publications=40):
    """Clients that come to topics and leave them, and publish under some that they do not ask for."""
    dice, brokers = Dice(seed, 0, "forms"), 1 + max(map(max, links))
    names = [[1 + topic % 2, 1 + topic] if topic else [7] for topic in range(topics)]
    at = [dice.below(brokers) for _ in range(clients)]
    comes, goes, says = [], [], []
    for client in range(clients):
        for number in range(2):
            word, begins = ((brokers + client) << 32) + number, dice.below(300 * MS)
            comes.append((begins, client, word, [0, 0, *names[dice.below(topics)]]))
            if dice.below(2):
                goes.append((begins + 1 + dice.below(500 * MS), client, word))
    for _ in range(publications):
        says.append((50 * MS + dice.below(700 * MS), dice.below(clients), names[dice.below(topics)]))
    comes, goes, says = (sorted(each, key=lambda row: row[:2]) for each in (comes, goes, says))
    emissions = [
        _emission(SUBSCRIBE, comes, word=[row[2] for row in comes], rows=_padded([row[3] for row in comes])),
        _emission(UNSUBSCRIBE, goes, word=[row[2] for row in goes]),
        _emission(PUBLISH, says, rows=_padded([row[2] for row in says])),
    ]
    delay = [1 + dice.below(latent_ms * MS) for _ in links]
    overlay = overlay_of(sorted(links), delay, jitter_ns=[each // 5 for each in delay])
    service = service_of("gossipsub", options=options, sources=[SourceSpec(SCRIPT, {"emissions": emissions}, "all")])
    return Model(
        "talk", seed, 900 * MS, replace(overlay, loss=np.full(len(links), loss)), np.array(at, np.int32),
        {"all": (0, clients)}, [service], drain_ns=5 * S, sample_every_ns=100 * MS,
    )  # fmt: skip


def _emission(type, said, **more):
    return {"type": type, "time": [row[0] for row in said], "client": [row[1] for row in said], **more}


def _padded(rows):
    return [row + [float("nan")] * (4 - len(row)) for row in rows]


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


# ---- one trace ---------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    st.integers(0, 10**6), st.integers(3, 9), st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([0.0, 0.0, 0.15]),
    st.lists(st.sampled_from(PARTS), max_size=2), st.booleans(), st.integers(1, 4),
)  # fmt: skip
def test_both_forms_have_one_trace(seed, brokers, probability, loss, parts, scored, topics):
    said = {**FEW, **SOON, **{key: value for part in parts for key, value in part.items()}}
    if scored and said.get("version") != "1.0":
        said["scoring"] = SCORED
    if said.get("version") == "1.0":
        said.pop("flood_publish", None)
    links = linked(seed, brokers, probability)
    if "direct" in said:
        said["direct"] = [list(links[0])]
    model = talk(seed, links, said, topics, loss)
    assert will_be_compiled(model)
    assert check_digests(model, WAYS[:3] + WAYS[3 + seed % 2 : 4 + seed % 2]) == []


def test_everything_that_is_said_is_said_in_compiled_rounds():
    """A case in which everything occurs: each type of message and timer, and a neighbour that misbehaves."""
    said = {
        **FEW, **SOON, "scoring": SCORED, "validation": "1 ms", "payload": 2000, "invalid": 0.2, "ihave_ids": 3,
        "iwant_followup": "5 ms", "gossip_factor": 0.5,
    }  # fmt: skip
    model = talk(5, linked(5, 9, 0.6), said, loss=0.1)
    assert check_digests(model, WAYS) == []
    traces, behaviour = MemoryTraces("full", tables_of(model)), []

    def observe(shards):
        (shard,) = shards.shards
        assert shard.course is not None
        behaviour.append(shard.services.protocols[0].arrays["behaviour"].max())

    simulate(model, trace=traces, observe=observe)
    types = set(traces.tables()["hops"]["type"].tolist())
    said_ = {JOINED, LEFT, GRAFT, PRUNE, IHAVE, IWANT, IDONTWANT, HEARTBEAT, DECAY, VALIDATED}
    assert types == said_ | {PUBLISH, SUBSCRIBE, UNSUBSCRIBE}
    assert behaviour[0] > 0


def test_a_hub_with_more_neighbours_than_a_word_has_bits_counts_what_each_brought():
    links = [(0, leaf) for leaf in range(1, 72)] + [(leaf, leaf + 1) for leaf in range(1, 71)]
    said = {**FEW, **SOON, "d": 70, "d_hi": 80, "d_lo": 40, "scoring": SCORED, "validation": "2 ms"}
    model = talk(2, links, said, topics=1, clients=80, publications=10)
    assert check_digests(model, WAYS[:2]) == []
    (shard,) = ended(model)
    assert shard.degree.max() > 64 and shard.arrays["did"].any()


def test_what_brokers_tell_of_themselves_is_the_same_in_both_forms():
    model = talk(8, linked(8, 7, 0.5), {**FEW, **SOON, "scoring": SCORED})
    plain = replace(model, services=[replace(model.services[0], view="message")])
    (compiled,), (author) = ended(model), ended(plain)[0]
    assert isinstance(compiled, GossipShard) and not isinstance(author, GossipShard)
    assert compiled.entries().tolist() == author.entries().tolist()
    assert [compiled.describe(b) for b in range(7)] == [author.describe(b) for b in range(7)]
    assert any(score for b in range(7) for score in compiled.describe(b)["scores"].values())


# ---- memory ------------------------------------------------------------------------------------------


def test_what_was_seen_takes_room_for_what_is_alive_only():
    """Of 1,500 publications in half a minute, ids are remembered for 1.2 s."""
    published = [(S + at * 20 * MS, at % 6) for at in range(1500)]
    said = {**FEW, "d_lazy": 2, "heartbeat": "100 ms", "seen": "1200 ms", "scoring": {"topic": ETHEREUM_BLOCKS}}
    model = Setting(nx.complete_graph(6), 5 * MS, published, said, seconds=35).model(1)
    sizes = []

    def observe(shards):
        shard = shards.shards[0].services.protocols[0]
        sizes.append((int(shard.arrays["slots"][0]), len(shard.arrays["held"]), shard.arrays["slot_uses"].sum()))

    traces = MemoryTraces("deliveries", tables_of(model))
    simulate(model, trace=traces, observe=observe, max_window_ns=500 * MS)
    assert traces.tables()["deliveries"]["client"].size > 8_000
    slots, rows, uses = sizes[-1]
    alive = int(1.2 * 50)
    assert alive <= slots <= 8 * alive and rows == 6 * slots
    assert uses == 0 or uses <= 6 * 2 * alive  # what is seen and cached


# ---- which form runs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [{"px": True}, {}], ids=["px", "faults"])
def test_where_the_compiled_form_is_not_written_for_it_the_authors_form_runs(said):
    model = talk(3, linked(3, 5, 0.5), {**FEW, **SOON, **said})
    if not said:
        model = replace(model, faults=Schedule((Crash(0, 300 * MS, 400 * MS, KEPT),), detect_ns=10 * MS))
    assert why_plain(GossipShard, Options(**model.services[0].options), model)
    assert not will_be_compiled(model)
    (protocol,) = ended(model)
    assert not isinstance(protocol, GossipShard)


@pytest.mark.parametrize("said", [{"px": True}, {"watch_ticks": 1}, {"announce_ticks": 2}], ids=str)
def test_an_option_that_takes_the_authors_form_is_remarked_on_and_named(said):
    overlay, (name,) = overlay_of(linked(3, 5, 0.5)), said
    (told,) = set(GossipShard.remarks(Options(**said), overlay)) - set(GossipShard.remarks(Options(), overlay))
    assert told == f"with `{name}` it runs in the author's form, some ten times slower"
    assert GossipShard.unsuited(Options(**said), overlay) == f"`{name}` asks for it"
    assert not GossipShard.unsuited(Options(), overlay)


# ---- fingerprints of bodies --------------------------------------------------------------------------


@given(st.binary(max_size=600), st.integers(0, 5), st.integers(0, 2**32 - 1))
def test_a_fingerprint_in_compiled_code_is_that_of_hashlib(data, first, salt):
    array = np.frombuffer(b"x" * first + data, np.uint8)
    wanted = blake2b(data, digest_size=8, salt=salt.to_bytes(4, "little")).digest()
    assert int(fingerprint(array, first, array.size, salt)) == int.from_bytes(wanted, "little")
