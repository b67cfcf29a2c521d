"""The context protocols over all brokers of a shard: what the kit does not ask of their shared tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.bench.contexts import Traffic
from analysis.bench.contexts import model as traffic_of
from brokers.compiled import handler_of
from brokers.engine.adaptor import PlainAdaptor
from brokers.engine.simulate import simulate
from brokers.registry import load
from protocols.conformance import ORACLE, REHEARSALS, Variant, check_digests, join, rehearse, target_of
from protocols.context.bunches import Bunches
from protocols.context.edge import Edge
from protocols.context.escalated import Escalated
from protocols.context.kind import SUBSCRIBE, UNSUBSCRIBE, row_of, value_word
from protocols.context.replicated import Replicated
from protocols.context.sieve import Sieve, everything
from topology.servers import Server, with_servers

TREE, LOSSY, SETTLED = REHEARSALS[0], REHEARSALS[3], REHEARSALS[4]
NAN = float("nan")
NEAR = row_of([[[["message", "0"], "~", ["context", 7, "0"], 0.1]]])


PROTOCOLS = {"context-edge": Edge, "context-replicated": Replicated, "context-escalated": Escalated}


def options(protocol="context-edge", **said):
    return load(target_of(protocol)).Options(**said).model_dump()


def protocols_after(model, **how):
    """What has run the first service of each shard, when the run is over."""
    found = []
    simulate(model, observe=lambda shards: found.extend(s.services.protocols[0] for s in shards.shards), **how)
    return found


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_shard_keeps_each_profile_once_and_forgets_what_nobody_knows(name):
    model = rehearse(TREE, name, options=options(name))
    (protocol,) = protocols_after(model)
    assert type(protocol) is PROTOCOLS[name] and handler_of(type(protocol)) is not None
    shared = protocol.shared
    said = {e["type"]: len(e["time"]) for e in model.services[0].sources[0].params["emissions"]}
    live = np.flatnonzero(shared.home[: shared.used] >= 0)
    assert len(live) == said[SUBSCRIBE] - said[UNSUBSCRIBE] == len(shared.slot_of) == len(shared.slot_by)
    assert np.bitwise_count(shared.noted).sum() == protocol.entries().sum() == len(live) * model.overlay.brokers
    shared.at_home.check()
    shared.naming.check()
    assert shared.at_home.count.sum() == len(live)


def test_a_profile_that_comes_after_a_publication_was_matched_extends_the_answer():
    (protocol,) = protocols_after(rehearse(TREE, "context-edge", options=options()))
    assert protocol.shared.late > 5


def test_a_broker_that_has_not_heard_of_a_profile_does_not_send_to_it():
    """Publisher 0 and home 3 at the ends of a line: what is sent before the profile came by is not passed on."""
    joined = join("context-edge", [(0, 1), (1, 2), (2, 3)], options=options())
    joined.send(0, "publish", [0.5, NAN, NAN, NAN])
    joined.send(3, "subscribe", row_of([[]]), word=joined.interest(3))
    joined.send(0, "publish", [0.6, NAN, NAN, NAN])
    assert len(joined.deliveries()) == 1 and len([hop for hop in joined.over(0, 1) if hop.type == 0]) == 1


def test_a_profile_may_begin_again_as_another_under_its_id():
    joined = join("context-edge", [(0, 1), (1, 2)], options=options())
    word = joined.interest(2)
    for constant in (0.1, 0.2, 0.3):
        joined.send(2, "subscribe", row_of([[[["message", "0"], "=", constant]]]), word=word)
        joined.send(0, "publish", [0.2, NAN, NAN, NAN])
        joined.send(2, "unsubscribe", word=word)
    joined.send(0, "publish", [0.3, NAN, NAN, NAN])
    assert [d.client for d in joined.deliveries()] == [2]
    assert joined.describe(0)["profiles"] == 0


@pytest.mark.parametrize("rehearsal", [TREE, SETTLED], ids=lambda r: r.name)
def test_a_server_of_another_service_is_nobodys_home(rehearsal):
    model = rehearse(rehearsal, "context-edge", options=options())
    beside = replace(model, overlay=with_servers(model.overlay, [Server("server", 0, 1_000_000)]))
    said = model.services[0].sources[0].params
    for part in (*said["emissions"], *said["standing"]):  # clients are numbered behind the nodes, now one more
        if part["type"] in (SUBSCRIBE, UNSUBSCRIBE):
            part["word"] = [word + (1 << 32) for word in part["word"]]
    assert check_digests(beside, [ORACLE, Variant("on_message", view="message"), Variant("2 shards", actors=2)]) == []


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_authors_view_runs_where_something_is_held_back_or_links_lose_messages(name):
    for rehearsal, said in ((TREE, {"hold_back": 1_000_000}), (LOSSY, {})):
        model = rehearse(rehearsal, name, options=options(name, **said))
        assert {type(each) for each in protocols_after(model, actors=2)} == {PlainAdaptor}


@pytest.mark.parametrize(
    "said", [{"policy": "always", "step": 0.1}, {"policy": "auto", "constant": 0.01}, {"false_positives": 2}], ids=str
)
def test_ranges_widen_and_shrink_on_a_shard_as_in_the_authors_view(said):
    model = rehearse(SETTLED, "context-escalated", options=options("context-escalated", **said))
    counted = {}
    for view in ("auto", "message"):
        told = counted[view] = []
        one = replace(model, services=[replace(model.services[0], view=view)])

        def look(shards, told=told):
            (shard,) = shards.shards
            told.extend(shard.services.protocols[0].describe(b) for b in range(model.overlay.brokers))

        simulate(one, observe=look)
    assert counted["auto"] == counted["message"]
    assert sum(each["shrunk"] for each in counted["auto"]) > 0
    if said.get("policy") == "always":
        assert sum(each["escalations"] for each in counted["auto"]) > 0


def test_the_profile_with_the_least_id_says_which_value_is_to_blame():
    """Two profiles in vain at one broker, let in in either order: the value of the one with the lower id is named."""

    def atom(key):
        return np.array([[0, 0, 2, key, 0, NAN, NAN]]), np.array([key])

    known = np.array([[0.1, 0.1], [0.2, 0.2]])
    for order in ((5, 9), (9, 5)):
        sieve = Sieve(2)
        for id_ in order:
            sieve.add(id_, 1, *atom(0 if id_ == 5 else 1))
        assert sieve.culprit(np.array([0.7]), everything(2), known, 0) == 0
        sieve.remove(5)
        assert sieve.culprit(np.array([0.7]), everything(2), known, 0) == 1


def test_what_is_shared_grows_with_profiles_and_hardly_with_brokers():
    (protocol,) = protocols_after(traffic_of(Traffic(brokers=100, profiles=2000, seconds=0.05)))
    assert protocol.entries().sum() == 100 * 2000
    assert protocol.shared.memory_bytes() < 2000 * 1000


def test_values_that_stand_are_known_where_they_would_have_been_told():
    """The owner of context 7 is client 0; of brokers 0..3 in a line those up to the home 2 know the value."""
    model = join("context-edge", [(0, 1), (1, 2), (2, 3)], options=options()).model()
    service = model.services[0]
    standing = [
        {"type": 1, "time": [0], "client": [0], "word": [value_word(7, 0)], "rows": [[7, 0, 0.5]]},
        {"type": SUBSCRIBE, "time": [0], "client": [2], "word": [(4 + 2) << 32], "rows": [NEAR]},
    ]
    said = {"type": 0, "time": [5], "client": [3], "word": [0], "rows": [[0.55, NAN, NAN, NAN]]}
    source = replace(service.sources[0], params={"emissions": [said], "standing": standing})
    model = replace(model, services=[replace(service, sources=[source], settled=True)])
    told = []

    def look(shards):
        told.extend(shards.shards[0].services.protocols[0].describe(b)["values known"] for b in range(4))

    result = simulate(model, observe=look)
    assert told == [1, 1, 1, 0] and result.metrics["services"][service.name]["deliveries"] == 1
    assert check_digests(model, [ORACLE, Variant("on_message", view="message")]) == []


def test_bunches_hold_what_sets_hold():
    rng = np.random.default_rng(1)
    bunches, sets = Bunches(3), {}
    for _ in range(400):
        if rng.random() < 0.05:
            bunches.reserve(bunches.start.size + 2)
        owner, item = int(rng.integers(bunches.start.size)), int(rng.integers(40))
        mine = sets.setdefault(owner, set())
        change = bunches.remove if item in mine else bunches.add
        change(np.array([owner]), np.array([item]))
        mine ^= {item}
        bunches.check()
        assert bunches.of(owner).tolist() == sorted(mine)
    many = np.arange(100, 160)
    bunches.add(np.zeros(60, np.int64), many)
    assert bunches.of(0).tolist() == sorted(sets.get(0, set())) + many.tolist()
