"""GossipSub and what its queues drop: said again where it matters, forgotten elsewhere, and held against slow peers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from analysis.papers.gossip_runs import Setting
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import NO_PLACE_AHEAD, ON_LINK
from brokers.limits import Limits
from protocols.conformance import audit_run, check_digests, overlay_of, rehearse, variants
from protocols.gossip.gossipsub import GossipSub
from protocols.gossip.options import Scoring
from protocols.gossip.scores import Scores
from protocols.gossip.talking import GRAFT, IDONTWANT, IHAVE, IWANT, JOINED, LEFT, PRUNE
from protocols.rehearsing import NARROW
from protocols.topics.kind import PUBLISH
from tests.brokers.test_engine_checkpoint import continued, folder_for, stopped_at, undisturbed
from tests.protocols.test_gossipsub import (
    FEW,
    MS,
    NEWS,
    OTHER,
    S,
    network,
    subscribe,
    unsubscribe,
    until,
)

OFTEN = {"heartbeat": "20 ms", "first_heartbeat": "1 ms", "validation": "2 ms", "payload": 200, "idontwant_from": 0}


class Deaf(GossipSub):
    """Is not told of what its queues drop."""

    drops_told_ns = 0


class Ran:
    """A run of joined brokers whose links carry `bits` per second, with room for so many messages."""

    def __init__(self, net: Any, links: Any, bits: Any, messages: int = 1) -> None:
        overlay = overlay_of(links, MS, bandwidth_bps=[bits] * len(links) if isinstance(bits, int) else bits)
        self.model = replace(net.model(), overlay=overlay, limits=Limits(messages=messages))
        self.brokers: dict[int, Any] = {}
        traces = MemoryTraces("full", tables_of(self.model))
        simulate(self.model, trace=traces, observe=self._observe)
        self.tables = traces.tables()

    def _observe(self, shards: Any) -> None:
        self.brokers = shards.shards[0].services.protocols[0].brokers

    def dropped(self, link: int) -> Counter[int]:
        """What found no place in front of a link, by type."""
        losses = self.tables["losses"]
        return Counter(losses["type"][(losses["reason"] == NO_PLACE_AHEAD) & (losses["link"] == link)].tolist())

    def came(self, link: int) -> Counter[int]:
        """What came over it."""
        hops = self.tables["hops"]
        return Counter(hops["type"][hops["link"] == link].tolist())


def pair(protocol: Any, ends: bool = False) -> Ran:
    """Broker 0 joins two topics at once, over a link with room for one message; and later leaves both."""
    net = network([(0, 1)], [0, 1], protocol)
    for number, topic in enumerate((NEWS, OTHER)):
        subscribe(net, 1, topic, at_ns=5 * S, number=number)
    until(net, 8 * S, client=1)
    for number, topic in enumerate((NEWS, OTHER)):
        subscribe(net, 0, topic, at_ns=10 * S, number=number)
    for number in range(2) if ends else ():
        unsubscribe(net, 0, number=number, at_ns=20 * S)
    until(net, 40 * S, client=1)
    return Ran(net, [(0, 1)], 100_000)


def test_what_was_dropped_of_joining_is_said_again():
    ran = pair(GossipSub)
    assert ran.dropped(0)[JOINED] and ran.dropped(0)[GRAFT]
    assert ran.brokers[1].topics == ran.brokers[1].mesh == {(NEWS,): {1}, (OTHER,): {1}}
    assert ran.brokers[0].dropped == {0: sum(ran.dropped(0).values())}
    assert ran.brokers[0].describe()["dropped"] == {"b1": sum(ran.dropped(0).values())}
    deaf = pair(Deaf)
    assert deaf.dropped(0)[JOINED] and (OTHER,) not in deaf.brokers[1].topics


def test_what_was_dropped_of_leaving_is_said_again():
    ran = pair(GossipSub, ends=True)
    assert ran.dropped(0)[LEFT] and ran.dropped(0)[PRUNE]
    assert ran.brokers[1].topics == {} and ran.brokers[1].mesh == {(NEWS,): set(), (OTHER,): set()}
    assert any(pair(Deaf, ends=True).brokers[1].mesh.values())


def test_a_graft_that_is_not_so_any_more_is_not_said_again():
    """Its neighbour was pruned before the next heartbeat."""
    broker = pair(GossipSub).brokers[0]
    said: list[Any] = []
    broker.node = _Hearing(broker.node, said)
    broker.again = {0: {(NEWS,): [GRAFT], (OTHER,): [PRUNE, 5 * S, []], (9,): [PRUNE, 7 * S, [3]]}}
    broker.mesh = {(NEWS,): set(), (OTHER,): {0}}
    broker.say_again(None)
    assert said == [(0, PRUNE, [9, 7 * S, [3]])] and broker.again == {}


class _Hearing:
    """A node that notes what is sent."""

    def __init__(self, node: Any, said: list[Any]) -> None:
        self._node, self._said = node, said

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def send(self, message: Any, link: int, type: int, body: Any, word: int, size: int) -> None:
        self._said.append((link, type, body))


def test_it_goes_right_behind_the_next_message_to_that_neighbour():
    broker = pair(GossipSub).brokers[0]
    said: list[Any] = []
    broker.node = _Hearing(broker.node, said)
    broker.again = {0: {(NEWS,): [GRAFT], (OTHER,): [GRAFT]}}
    broker.send_ids(None, 0, IWANT, [7])
    broker.send_ids(None, 0, IWANT, [8])
    assert [type for _, type, _ in said] == [IWANT, GRAFT, GRAFT, IWANT]


# ---- slow peers ------------------------------------------------------------------------------------------


def slow_peer(seconds: int = 40, **options: Any) -> Ran:
    """Fourteen brokers, each linked to all; the links of broker 0 carry a hundredth of what is said."""
    graph = nx.complete_graph(14)
    links = sorted(graph.edges)
    published = [(5 * S + at * 200 * MS, 1 + at % 13) for at in range(5 * (seconds - 10))]
    model = Setting(graph, 10 * MS, published, {"payload": 2000, **options}, seconds=seconds).model(1)

    class Net:
        @staticmethod
        def model() -> Any:
            return model

    return Ran(Net, links, [10_000 if 0 in link else 0 for link in links], messages=8)


def to_slow(ran: Ran) -> tuple[np.ndarray, int]:
    """When something for broker 0 found no place, and how many brokers have it in their mesh at the end."""
    losses, source = ran.tables["losses"], ran.model.overlay.link_a
    mine = (losses["reason"] == NO_PLACE_AHEAD) & (source[losses["link"] // 2] == 0) & (losses["link"] % 2 == 1)
    inside = sum(broker.links[0] in broker.mesh[NEWS,] for b, broker in ran.brokers.items() if b)
    return losses["time_ns"][mine], inside


def test_without_scores_a_slow_peer_stays_and_what_is_for_it_is_dropped_for_ever():
    times, inside = to_slow(slow_peer())
    assert inside >= 5 and (times > 30 * S).sum() > 50


def test_with_a_penalty_for_slow_peers_it_leaves_meshes_and_drops_end():
    scoring = {"slow_weight": -1.0, "slow_decay": 0.999, "thresholds": {"gossip": -2, "publish": -4, "graylist": -100}}
    times, inside = to_slow(slow_peer(scoring=scoring))
    assert inside == 0 and (times < 15 * S).any() and not (times > 30 * S).any()


def test_what_is_gossip_is_forgotten():
    """Nothing but GRAFT and PRUNE, SUBSCRIBE and UNSUBSCRIBE goes again, although all sorts were dropped."""
    ran = slow_peer(20, d_lazy=12)
    types = Counter(ran.tables["losses"]["type"].tolist())
    assert types[IHAVE] and types[PUBLISH] and (types[IWANT] or types[IDONTWANT])
    for broker in ran.brokers.values():
        assert {said[0] for there in broker.again.values() for said in there.values()} <= {GRAFT, PRUNE}


def test_the_penalty_counts_drops_beyond_the_threshold_and_decays():
    kept = Scores(Scoring(slow_weight=-2.0, slow_threshold=3.0, slow_decay=0.5), lambda link: link, str)
    kept.came(1)
    for _ in range(10):
        kept.dropped(1)
        kept.dropped(2)  # who is no neighbour
    assert kept.score(1) == -2 * (10 - 3) and kept.score(2) == 0
    kept.decay(0, S)
    assert kept.score(1) == -2 * (5 - 3)


# ---- every way of running, and going on ----------------------------------------------------------------


def crowded(**options: Any) -> Any:
    scoring = {"slow_weight": -0.1, "decay_every": "15 ms"}
    return rehearse(NARROW, GossipSub, seed=2, options={**FEW, **OFTEN, "scoring": scoring, **options})


def test_every_way_of_running_is_the_same_where_links_are_narrow():
    model = crowded(announce_ticks=2)
    assert check_digests(model, variants(model)[::3]) == []
    found = audit_run(model)
    assert found.verdict == "valid" and found.deliveries > 20


def test_it_goes_on_where_it_was_stopped_with_what_it_has_to_say_again(tmp_path):
    model = crowded()
    whole, _ = undisturbed(tmp_path / "whole", model)
    new = folder_for(tmp_path / "stopped", model)
    stopped_at(0.5, model, new.path, 2)
    assert continued(model, new.path, 3).digest == whole.digest


# ---- what links lose -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ticks", [0, 3])
def test_topics_that_a_link_lost_are_known_once_they_are_announced_again(ticks):
    """Without that, who did not hear of a topic never does, and who did not hear that it was left never forgets it."""
    links = sorted(nx.complete_graph(8).edges)
    net = network(links, list(range(8)), announce_ticks=ticks)
    for client in range(8):
        subscribe(net, client, at_ns=2 * S + client * MS)
    for client in range(4):
        unsubscribe(net, client, at_ns=10 * S + client * MS)
    until(net, 40 * S, client=7)
    model = replace(net.model(), overlay=overlay_of(links, MS, loss=[0.3] * len(links)))
    known: list[bool] = []

    def observe(shards: Any) -> None:
        brokers = shards.shards[0].services.protocols[0].brokers
        known.extend(
            {broker.node.neighbour(link) for link in broker.topics.get((NEWS,), ())} == {4, 5, 6, 7} - {b}
            for b, broker in brokers.items()
        )

    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces, observe=observe)
    losses = traces.tables()["losses"]
    assert {JOINED, LEFT} <= set(losses["type"][losses["reason"] == ON_LINK].tolist())
    assert all(known) == bool(ticks)
