"""Rendezvous: what meets where, by which ways, and what brokers have to know."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.verdicts import VALID
from protocols.conformance import REHEARSALS, audit_run, check_digests, join, rehearse
from protocols.content.kind import PUBLISH, SUBSCRIBE
from protocols.content.rendezvous import Hubs
from scenarios.loader import loads
from scenarios.plan import resolve
from scenarios.problems import ScenarioErrors

TREE, CYCLES = REHEARSALS[0], REHEARSALS[-1]


@pytest.mark.parametrize("kind", ["content", "topics"])
@pytest.mark.parametrize("rehearsal", [TREE, CYCLES], ids=lambda each: each.name)
def test_it_is_exact_however_it_is_run(kind, rehearsal):
    model = rehearse(rehearsal, "rendezvous", kind=kind, options={"hubs": 3})
    check_digests(model)
    assert audit_run(model).verdict == VALID


# ---- which ways are taken ----------------------------------------------------------------------------


def traced(rehearsal: Any, seed: int, **options: Any) -> tuple[dict[str, Any], Hubs]:
    """The trace of a rehearsal, and its hubs."""
    model = rehearse(rehearsal, "rendezvous", seed=seed, options=options)
    traces, seen = MemoryTraces("full", tables_of(model)), []
    simulate(model, trace=traces, observe=lambda shards: seen.extend(shards.shards))
    (broker, *_) = seen[0].services.protocols[0].brokers.values()
    return traces.tables(), broker.hubs


def path(hubs: Hubs, tree: int, broker: int) -> list[int]:
    """The brokers from one up to the hub, by the parents alone."""
    found = [broker]
    while (link := int(hubs.routes.up[tree, found[-1]])) >= 0:
        found.append(int(hubs.routes.links.target[link]))
    return found


def crossed(tables: dict[str, Any], type: int) -> dict[int, list[tuple[int, int]]]:
    """Cause or body -> the pairs of brokers between which messages of a type went."""
    hops = tables["hops"]
    key = hops["body"] if type == PUBLISH else hops["cause"]
    rows = np.flatnonzero((hops["type"] == type) & (hops["link"] >= 0))
    found: dict[int, list[tuple[int, int]]] = {}
    for row in rows.tolist():
        found.setdefault(int(key[row]), []).append((int(hops["source"][row]), int(hops["broker"][row])))
    return {each: sorted(pairs) for each, pairs in found.items()}


@pytest.mark.parametrize("rehearsal", [TREE, CYCLES], ids=lambda each: each.name)
@pytest.mark.parametrize("hubs_", [1, 3])
def test_a_subscription_goes_once_over_each_link_on_the_ways_to_its_hubs(rehearsal, hubs_):
    tables, hubs = traced(rehearsal, 4, hubs=hubs_)
    changes, went = tables["changes"], crossed(tables, SUBSCRIBE)
    asked = np.flatnonzero(changes["operation"] == SUBSCRIBE).tolist()
    several = set()
    for row in asked:
        trees = hubs.of_subscription(changes["values"][row])
        ways = [path(hubs, tree, int(changes["broker"][row])) for tree in trees]
        expected = sorted({pair for way in ways for pair in pairwise(way)})
        assert went.get(int(changes["change"][row]), []) == expected
        several.add(len(trees))
    assert len(asked) > 20 and (several == {1} or hubs_ > 1) and max(several) == hubs_


@pytest.mark.parametrize("rehearsal", [TREE, CYCLES], ids=lambda each: each.name)
def test_a_publication_goes_up_and_from_its_way_down_to_who_wants_it(rehearsal):
    tables, hubs = traced(rehearsal, 5, hubs=3)
    published, deliveries, went = tables["publications"], tables["deliveries"], crossed(tables, PUBLISH)
    home = dict(zip(deliveries["client"].tolist(), deliveries["broker"].tolist()))
    changes = tables["changes"]
    asked = {row: changes["values"][row] for row in np.flatnonzero(changes["operation"] == SUBSCRIBE).tolist()}
    used, down = set(), 0
    for row in range(len(published["publication"])):
        id_, entered = int(published["publication"][row]), int(published["broker"][row])
        tree = hubs.of_publication(published["values"][row])
        up = path(hubs, tree, entered)
        expected = set(pairwise(up))
        for client in deliveries["client"][deliveries["publication"] == id_].tolist():
            way = path(hubs, tree, home[client])
            below = way[: 1 + min(at for at, broker in enumerate(way) if broker in up)]
            expected |= set(zip(below[1:], below))
            down += len(below) - 1
        pairs = went.get(id_, [])
        assert len(pairs) == len(set(pairs))
        assert expected <= set(pairs)
        used.add(tree)
        once = {int(changes["broker"][each]) for each in hubs.kind.oracle(asked, published["values"][row])}
        for _, broker in set(pairs) - expected:  # towards somebody whose subscription or withdrawal was on its way
            assert any(hubs.routes.is_below(tree, broker, each) for each in once)
    assert used == {0, 1, 2} and down > 100


def test_hubs_are_the_brokers_with_the_most_links_and_share_the_cells():
    star = join("rendezvous", [(0, 1), (0, 2), (0, 3), (3, 4), (3, 5)], options={"hubs": 2, "cell": 0.1})
    words = []
    for client, low in ((1, 0.01), (4, 0.31), (5, 0.55)):
        words.append(star.interest(client))
        star.send(client, "subscribe", [0, low, low + 0.02], word=words[-1])
    whole = star.interest(2)
    star.send(2, "subscribe", [1, 0.0, 1.0], word=whole)
    known = [star.describe(broker)["subscriptions"] for broker in (0, 3)]
    assert set(known[0].get(str(whole), ())) | set(known[1].get(str(whole), ())) == {"b0", "b3"}
    for word in words:
        (hub,) = {hub for each in known for hub in each.get(str(word), ())}
        assert str(word) in star.describe(int(hub[1:]))["subscriptions"]


def test_what_has_no_value_meets_what_does_not_ask_for_one():
    line = join("rendezvous", [(0, 1), (1, 2), (2, 3)], options={"hubs": 3})
    line.send(3, "subscribe", [1, 0.0, 0.5], word=line.interest(3))
    line.send(2, "subscribe", [0, 0.0, 0.5], word=line.interest(2))
    line.send(0, "publish", [float("nan"), 0.2, 0.0, 0.0])
    assert [each.client for each in line.deliveries()] == [3]


def test_an_attribute_that_is_not_there_is_told_with_its_place():
    text = (
        "duration: 1 s\ntopology: {kind: line, nodes: 4}\nclients: {all: {count: 1}}\nservices:\n"
        "  - {name: news, kind: content, protocol: rendezvous, attributes: 2, options: {attribute: 2}}\n"
    )
    with pytest.raises(ScenarioErrors, match=r"options.attribute: there is no 2; they are numbered 0 to 1"):
        resolve(loads(text))
