"""GossipSub: handlers and heartbeat among real brokers, one of which says whatever a test wants, and closed forms."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from pydantic import ValidationError

from analysis.papers.gossip_runs import Played, Setting, uniform_delays
from brokers.contract import TIMER
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import KEPT, LOST, STORED, Crash, Cut, Schedule
from protocols.conformance import REHEARSALS, audit_run, check_digests, overlay_of, rehearse
from protocols.gossip.gossipsub import GossipSub
from protocols.gossip.options import _SCORED, _SINCE_1_1, _SINCE_1_2, PRESETS, Options
from protocols.gossip.talking import GRAFT, IDONTWANT, IHAVE, IWANT, JOINED, LEFT, PRUNE, topic_in
from protocols.joining import join
from protocols.topics.kind import PUBLISH, SUBSCRIBE
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
from topology import draws

MS, S = 1_000_000, 1_000_000_000
NEWS, OTHER, LAST = 1, 2, 77  # topics; the last makes a run long
FEW = {"d": 2, "d_lo": 1, "d_hi": 3, "d_out": 0, "d_score": 1, "d_lazy": 2}
SLOW = {"decay_every": "1000 s", "behaviour_decay": 0.9}  # nothing decays while a test looks
STILL = {"heartbeat": "1000 s", "first_heartbeat": "1000 s", "seen": "7000 s"}  # no heartbeat while a test looks
NO_IHAVE = {"d_lazy": 0, "gossip_factor": 0.0}
NEVER_LOW = {"gossip": -1e6, "publish": -2e6, "graylist": -3e6}


class Shy(GossipSub):
    """All but broker 0 take in who grafts them, and graft nobody."""

    def join(self, message, topic):
        if self.node.broker:
            self.mesh[topic] = set()
        else:
            super().join(message, topic)

    def tend(self, message, topic):
        if not self.node.broker:
            super().tend(message, topic)


class Puppet(GossipSub):
    """Broker 0 says what its clients publish as `[type, ...]`, and tells what it hears; all others are real."""

    def __init__(self, node):
        super().__init__(node)
        self.heard = []

    def on_message(self, message):
        if self.node.broker:
            super().on_message(message)
        elif message.link >= 0:
            said = self.node.key(message) if message.type == PUBLISH else self.node.body(message)
            self.heard.append([message.time, message.type, said])
        elif message.kind != TIMER and message.type == SUBSCRIBE:
            self.tell(message, JOINED, [(NEWS,)])
        elif message.kind != TIMER:
            self.say(message, *topic_in(PUBLISH, self.node.row(message.body)))

    def say(self, message, type, *said):
        body = list(said)
        if type == GRAFT:
            body = [body]
        elif type == IHAVE:
            body = [[body[:1], body[1:]]]
        elif type == PRUNE:
            body = [*body[:-1], body[-1] * MS, []]
        for link in self.links if type != LAST else ():
            self.node.send(message, link, type, body)

    def describe(self):
        return {**super().describe(), "heard": self.heard}


def network(links, clients=None, protocol=GossipSub, delay_ns=MS, **options):
    return join(protocol, links, clients, delay_ns, options={**FEW, **options})


def subscribe(net, client, topic=NEWS, at_ns=None, number=0):
    net.send(client, "subscribe", [0, 0, topic], word=net.interest(client, number), at_ns=at_ns)


def unsubscribe(net, client, number=0, at_ns=None):
    net.send(client, "unsubscribe", word=net.interest(client, number), at_ns=at_ns)


def publish(net, client, *name, at_ns=None):
    return net.send(client, "publish", [*(name or (NEWS,))], at_ns=at_ns)


def until(net, at_ns, client=0):
    """Let it run for so long."""
    publish(net, client, LAST, at_ns=at_ns)


def sent(net, a, b, type):
    return [hop for hop in net.over(a, b) if hop.type == type]


def heard(net, type, since_ns=0):
    return [said for time, kind, said in net.describe(0)["heard"] if kind == type and time >= since_ns]


def puppet(**options):
    """A puppet, 0, beside a real broker, 1, and another behind it, 2, which both know of NEWS by then."""
    net = network([(0, 1), (1, 2)], [0, 1, 2], Puppet, **options)
    for client in range(3):
        subscribe(net, client)
    return net


def mesh(net, broker, topic="1"):
    return net.describe(broker)["mesh"].get(topic)


# ---- joining and leaving -------------------------------------------------------------------------------


def test_a_broker_joins_with_the_first_of_its_clients_and_leaves_with_the_last():
    net = network([(0, 1)], [0, 0, 1])
    for client in (2, 0, 1):
        subscribe(net, client)
    unsubscribe(net, 0)
    middle = publish(net, 2)
    unsubscribe(net, 1)
    late = publish(net, 2)
    assert [len(sent(net, 0, 1, type)) for type in (JOINED, LEFT, GRAFT, PRUNE)] == [1, 1, 1, 1]
    assert sorted(d.client for d in net.deliveries() if d.publication == middle) == [1, 2]
    assert [d.client for d in net.deliveries() if d.publication == late] == [2]
    assert (mesh(net, 0), mesh(net, 1), net.entries(1)) == (None, [], 0)


def test_a_subscriber_twice_is_told_once():
    net = network([(0, 1)], [0, 1])
    subscribe(net, 0)
    subscribe(net, 0, number=1)
    subscribe(net, 1)
    sent_ = publish(net, 1)
    unsubscribe(net, 0)
    again = publish(net, 1)
    assert [(d.client, d.publication) for d in net.deliveries(0)] == [(0, sent_), (0, again)]
    assert net.audit().verdict == "valid"


def test_who_left_backs_off_for_a_shorter_time():
    net = puppet()
    until(net, 6 * S)
    unsubscribe(net, 1, at_ns=7 * S)
    until(net, 8 * S, client=0)
    assert heard(net, PRUNE) == [[NEWS, 10 * S, []]]


# ---- GRAFT: the first reason that applies ------------------------------------------------------------


def test_a_graft_for_what_is_not_wanted_is_ignored_and_answered_by_the_first_version():
    for version, answers in (("1.2", 0), ("1.0", 1)):
        net = puppet(version=version)
        publish(net, 0, GRAFT, OTHER, at_ns=5 * S)
        assert len(heard(net, PRUNE, 5 * S)) == answers


def test_a_graft_of_who_is_in_the_mesh_is_nothing():
    net = puppet()
    publish(net, 0, GRAFT, NEWS, at_ns=6 * S)
    assert mesh(net, 1) == ["b0", "b2"] and not heard(net, PRUNE)


def test_a_direct_neighbour_is_in_no_mesh_and_gets_all():
    net = puppet(direct=[(0, 1)])
    publish(net, 0, GRAFT, NEWS, at_ns=6 * S)
    sent_ = publish(net, 2, at_ns=7 * S)
    assert mesh(net, 1) == ["b2"] and len(heard(net, PRUNE)) == 1
    assert heard(net, PUBLISH) == [sent_]


@pytest.mark.parametrize(("after_ms", "refused"), [(59_900, True), (60_100, False)])
def test_a_graft_is_judged_by_the_exact_expiry(after_ms, refused):
    net = puppet()
    publish(net, 0, PRUNE, NEWS, 60_000, at_ns=6 * S)
    publish(net, 0, GRAFT, NEWS, at_ns=6 * S + after_ms * MS)
    assert (mesh(net, 1) == ["b2"]) == refused == bool(heard(net, PRUNE))


@pytest.mark.parametrize("phase", range(4))
def test_own_grafts_wait_until_the_entry_is_swept(phase):
    net = puppet(first_heartbeat=f"{100 + 3700 * phase} ms", d_lo=2)
    until(net, 25 * S)
    publish(net, 0, PRUNE, NEWS, 60_000, at_ns=30 * S)
    until(net, 120 * S)
    (again,) = [time for time, type, _ in net.describe(0)["heard"] if type == GRAFT and time > 30 * S]
    assert 62 * S <= again - 30 * S <= 78 * S
    assert again - 30 * S > 60 * S + 2 * S - MS


@pytest.mark.parametrize(("after_ms", "times"), [(5_000, 2), (20_000, 1)])
def test_a_graft_too_early_counts_and_one_very_early_twice(after_ms, times):
    scoring = {"behaviour_weight": -1.0, "thresholds": NEVER_LOW, **SLOW}
    net = puppet(scoring=scoring)
    publish(net, 0, PRUNE, NEWS, 60_000, at_ns=6 * S)
    publish(net, 0, GRAFT, NEWS, at_ns=6 * S + after_ms * MS)
    assert net.describe(1)["scores"]["b0"] == -(times**2)
    publish(net, 0, GRAFT, NEWS, at_ns=6 * S + after_ms * MS + 59_000 * MS)  # the backoff began anew
    assert net.describe(1)["scores"]["b0"] == -((times + 1) ** 2)


def test_who_has_a_score_below_0_is_neither_grafted_nor_taken_in():
    net = puppet(scoring={"app": {0: -1.0}, "app_weight": 1.0, **SLOW})
    publish(net, 0, GRAFT, NEWS, at_ns=6 * S)
    assert mesh(net, 1) == ["b2"] and len(heard(net, PRUNE)) == 1 and not heard(net, GRAFT)


def test_a_full_mesh_takes_in_only_whom_it_dialled():
    star = [(0, leaf) for leaf in range(1, 14)]
    net = network(star, version="1.1", **STILL, d=2, d_hi=2)
    for client in range(14):
        subscribe(net, client)
    dialled = [dialled_by(0, link) for link in range(13)]
    kept = [leaf for leaf in range(1, 14) if leaf <= 2 or dialled[leaf - 1]]
    assert mesh(net, 0) == [f"b{leaf}" for leaf in kept] and 2 < len(kept) < 13
    answered = [leaf for leaf in range(1, 14) if sent(net, 0, leaf, PRUNE)]
    assert answered == [leaf for leaf in range(1, 14) if leaf not in kept]


def dialled_by(end, link, seed=1):
    """Whether end 0 or 1 of an undirected link dialled it."""
    return int(draws.bits(draws.stream(seed, link, "gossipsub/dialled"), 0)) & 1 == end


# ---- IHAVE, IWANT, IDONTWANT, PRUNE -----------------------------------------------------------------


def test_one_asks_for_what_it_has_not_seen_in_topics_of_its_mesh():
    net = puppet()
    known = publish(net, 2, at_ns=6 * S)
    publish(net, 0, IHAVE, NEWS, 5, known, 6, 5, at_ns=7 * S)
    publish(net, 0, IHAVE, OTHER, 9, at_ns=7 * S + MS)
    assert [sorted(ids) for ids in heard(net, IWANT)] == [[5, 6]]


def test_more_than_ten_messages_in_a_heartbeat_are_ignored():
    net = puppet(heartbeat="10 s", seen="200 s")
    for number in range(14):
        publish(net, 0, IHAVE, NEWS, 100 + number, at_ns=21 * S + number * MS)
    assert heard(net, IWANT, 20 * S) == [[100 + number] for number in range(10)]
    publish(net, 0, IHAVE, NEWS, 500, at_ns=32 * S)
    assert heard(net, IWANT, 31 * S) == [[500]]


def test_of_one_neighbour_no_more_is_asked_for_than_the_budget():
    net = puppet(heartbeat="10 s", seen="200 s", ihave_ids=3)
    publish(net, 0, IHAVE, NEWS, *range(100, 105), at_ns=21 * S)
    publish(net, 0, IHAVE, NEWS, 200, at_ns=22 * S)
    (asked,) = heard(net, IWANT)
    assert len(set(asked)) == 3 and set(asked) <= set(range(100, 105))


@pytest.mark.parametrize(("brought_after_s", "score"), [(2, 0), (5, -1)])
def test_a_promise_is_broken_unless_somebody_brings_the_payload_in_time(brought_after_s, score):
    net = puppet(scoring={"behaviour_weight": -1.0, "thresholds": NEVER_LOW, **SLOW})
    publish(net, 0, IHAVE, NEWS, (5 << 32) | 1, at_ns=6 * S)
    assert publish(net, 2, at_ns=(6 + brought_after_s) * S) == (5 << 32) | 1
    until(net, 20 * S)
    assert net.describe(1)["scores"]["b0"] == score


def test_a_payload_is_sent_to_one_who_asks_three_times_and_forgotten_after_five_heartbeats():
    net = puppet(exclude_author=False)
    publish(net, 0, PRUNE, NEWS, 60_000, at_ns=5 * S)
    known = publish(net, 2, at_ns=6 * S)
    for number in range(5):
        publish(net, 0, IWANT, known, at_ns=7 * S + number * MS)
    assert heard(net, PUBLISH) == [known] * 3
    other = publish(net, 2, at_ns=8 * S)
    publish(net, 0, IWANT, other, at_ns=int(14.2 * S))
    until(net, 16 * S)
    assert heard(net, PUBLISH).count(other) == 0


def test_what_is_not_wanted_is_not_sent_for_three_heartbeats():
    net = puppet(exclude_author=False)
    ids = [(5 << 32) | number for number in range(3)]  # of client 2, whose third message will be its second publication
    publish(net, 0, IDONTWANT, ids[1], at_ns=6 * S)
    assert publish(net, 2, at_ns=7 * S) == ids[1]
    publish(net, 0, IWANT, ids[1], at_ns=7 * S + 500 * MS)
    publish(net, 0, IDONTWANT, ids[2], at_ns=8 * S)
    assert publish(net, 2, at_ns=12 * S) == ids[2]
    assert heard(net, PUBLISH) == [ids[2]]


def test_no_more_than_so_many_refusals_are_heeded():
    ids = [(5 << 32) | number for number in range(1, 4)]
    net = puppet(idontwant_ids=1, idontwant_messages=1, heartbeat="10 s", seen="100 s", first_heartbeat="100 ms")
    publish(net, 0, IDONTWANT, ids[0], ids[1], at_ns=15 * S)
    publish(net, 0, IDONTWANT, ids[2], at_ns=15 * S + MS)
    assert [publish(net, 2, at_ns=16 * S + number * MS) for number in range(3)] == ids
    assert heard(net, PUBLISH) == ids[1:]


def test_a_prune_takes_out_of_the_mesh_and_never_shortens_a_backoff():
    net = puppet()
    publish(net, 0, PRUNE, NEWS, 60_000, at_ns=6 * S)
    publish(net, 0, PRUNE, NEWS, 1_000, at_ns=7 * S)
    publish(net, 0, GRAFT, NEWS, at_ns=20 * S)
    assert mesh(net, 1) == ["b2"] and len(heard(net, PRUNE)) == 1


# ---- payloads -------------------------------------------------------------------------------------------


def test_before_1_2_nobody_says_what_it_does_not_want_nor_where_payloads_are_small():
    for options, told in (({}, 1), ({"version": "1.1"}, 0), ({"payload": 100}, 0)):
        net = puppet(**{"payload": 2000, **options})
        sent_ = publish(net, 2, at_ns=6 * S)
        assert heard(net, IDONTWANT) == [[sent_]] * told


def test_validation_delays_what_is_passed_on_and_not_what_is_not_wanted():
    net = puppet(payload=2000, validation="50 ms")
    publish(net, 2, at_ns=6 * S)
    times = {type: time for time, type, _ in net.describe(0)["heard"] if time > 6 * S and type in (PUBLISH, IDONTWANT)}
    assert times == {IDONTWANT: 6 * S + 2 * MS, PUBLISH: 6 * S + 52 * MS}
    assert [d.time_ns for d in net.deliveries(1)] == [6 * S + 51 * MS]


@pytest.mark.parametrize(
    ("options", "score"), [({"invalid": 1.0}, -4), ({"invalid_from": [2]}, -4), ({"ignored": 1.0}, 0)]
)
def test_what_is_invalid_goes_no_further_and_is_held_against_who_brought_it(options, score):
    scoring = {"topic": {"invalid_weight": -1.0, "invalid_decay": 0.5}, "thresholds": NEVER_LOW, **SLOW}
    net = puppet(scoring=scoring, **options)
    for number in range(2):
        publish(net, 2, at_ns=6 * S + number * 10 * MS)
    assert net.describe(1)["scores"]["b2"] == score
    assert not net.deliveries(1) and not heard(net, PUBLISH)


def test_whoever_publishes_without_subscribing_fans_out_and_forgets_whom_it_told():
    net = network([(0, leaf) for leaf in range(1, 6)], fanout="3 s", **NO_IHAVE)
    for client in range(1, 6):
        subscribe(net, client)
    for at in range(4):
        publish(net, 0, at_ns=(6 + at) * S)
    told = {leaf for leaf in range(1, 6) if sent(net, 0, leaf, PUBLISH)}
    assert len(told) == 2 and all(len(sent(net, 0, leaf, PUBLISH)) == 4 for leaf in told)
    for late in range(40):
        publish(net, 0, at_ns=(20 + 10 * late) * S)
    assert {leaf for leaf in range(1, 6) if sent(net, 0, leaf, PUBLISH)} > told


def test_a_mesh_that_is_empty_gets_nothing_and_a_flood_reaches_all():
    for flood, reached in ((False, 0), (True, 3)):
        net = network([(0, leaf) for leaf in range(1, 4)], flood_publish=flood, version="1.1", **STILL)
        subscribe(net, 0)
        for client in range(1, 4):
            subscribe(net, client)
            unsubscribe(net, client)
            subscribe(net, client, number=1)  # within its backoff: it grafts nobody
        publish(net, 0)
        assert sum(len(sent(net, 0, leaf, PUBLISH)) for leaf in range(1, 4)) == reached


def test_what_is_older_than_ids_are_remembered_is_dropped_unread():
    net = puppet(seen="7 s")
    late = join(GossipSub, [(0, 1)], delay_ns=8 * S, options={**FEW, "seen": "7 s"})
    for joined in (net, late):
        subscribe(joined, 1)
    publish(late, 0, at_ns=60 * S)
    assert len(sent(late, 0, 1, PUBLISH)) == 1 and not late.deliveries()


# ---- closed forms ------------------------------------------------------------------------------------


def gossiping(graph, seed=1, publications=6, every_ms=1_000, authors=None, **options):
    """A run of a graph whose brokers all have a subscriber."""
    random = np.random.default_rng(seed)
    n = graph.number_of_nodes()
    published = [(8 * S + at * every_ms * MS, int(random.integers(authors or n))) for at in range(publications)]
    seconds = 18 + publications * every_ms // 1_000
    setting = Setting(graph, uniform_delays(graph, 1, 30, seed), published, {"d_hi": 60, **options}, seconds)
    return Played(replace(setting, subscribe_every_ns=MS), seed)


PUSH_ONLY = {"version": "1.1", **NO_IHAVE}
GRAPHS = [nx.random_regular_graph(12, 40, seed=3), nx.erdos_renyi_graph(30, 0.5, seed=5), nx.complete_graph(9)]


@pytest.mark.parametrize("graph", GRAPHS, ids=["regular", "random", "complete"])
def test_a_publication_costs_2E_less_n_less_1_less_a_payloads(graph):
    ran = gossiping(graph, **PUSH_ONLY)
    counts = [len(ran.copies(id_)) for id_ in ran.ids]
    assert counts == [ran.payloads_expected(id_) for id_ in ran.ids]
    assert [len(ran.first(id_)) for id_ in ran.ids] == [len(graph) - 1] * 6
    assert ran.payloads_expected(ran.ids[0]) == 2 * ran.edges - len(graph) + 1 - ran.heard_elsewhere(ran.ids[0])


def test_flooding_own_publications_costs_what_the_closed_form_says():
    ran = gossiping(nx.random_regular_graph(14, 40, seed=7), **PUSH_ONLY, flood_publish=True)
    counts = [len(ran.copies(id_)) for id_ in ran.ids]
    assert counts == [ran.flooded_expected(id_) for id_ in ran.ids]
    assert all(count > ran.payloads_expected(id_) for id_, count in zip(ran.ids, counts))


@pytest.mark.parametrize(("publications", "windows"), [(1, 3), (6, 8)])
def test_each_broker_says_ihave_to_d_lazy_in_each_heartbeat_with_something_to_tell(publications, windows):
    graph = nx.random_regular_graph(20, 50, seed=1)
    ran = gossiping(graph, publications=publications, authors=1, gossip_factor=0.0)
    assert ran.count(IHAVE) == 50 * 6 * windows


def test_adaptive_gossip_goes_to_a_share_of_the_others():
    graph = nx.complete_graph(40)
    ran = gossiping(graph, publications=1)
    expected = sum(3 * max(6, (39 - len(mesh)) // 4) for mesh in ran.mesh)
    assert ran.count(IHAVE) == expected > 40 * 6 * 3
    each = gossiping(graph, publications=1, gossip_draw="each")
    assert 0.85 * expected < each.count(IHAVE) < 1.25 * expected and each.count(IHAVE) != expected


def test_without_a_heartbeat_meanwhile_nobody_asks_for_anything():
    ran = gossiping(nx.random_regular_graph(12, 40, seed=3), publications=12, every_ms=1_070)
    asked = {id_: len(ran.copies(id_)) - ran.payloads_expected(id_) for id_ in ran.ids}
    quiet = [id_ for id_ in ran.ids if ran.undisturbed(id_)]
    assert all(asked[id_] == 0 for id_ in quiet)
    assert sum(asked.values()) <= ran.count(IWANT)
    assert len(ran.tables["deliveries"]["client"]) == 12 * 40


def test_who_was_not_pushed_to_asks_and_is_sent():
    """A line of meshes of one neighbour each: gossip has to bring what they do not reach."""
    ran = gossiping(nx.complete_graph(12), d=1, d_lo=1, d_out=0, d_score=0, publications=4)
    assert ran.count(IWANT) > 0
    assert len(ran.tables["deliveries"]["client"]) == 4 * 12


def test_once_quiet_meshes_are_symmetric_and_within_their_bounds_and_nobody_grafts():
    for seed in range(1, 4):
        ran = gossiping(nx.random_regular_graph(20, 60, seed=seed), seed, publications=0, d_hi=12)
        assert all(a in ran.mesh[b] for b in range(60) for a in ran.mesh[b])
        assert all(5 <= len(mesh) < 12 for mesh in ran.mesh)
        assert max(time for time, _, _ in ran.over(GRAFT)) < 6 * S


@pytest.mark.parametrize("validation_ms", [0, 5, 20, 60])
def test_idontwant_saves_what_arrives_before_it_would_have_been_sent(validation_ms):
    said = {"validation": f"{validation_ms} ms", "payload": 2000, **NO_IHAVE}
    ran = gossiping(nx.random_regular_graph(12, 40, seed=4), publications=5, every_ms=2_000, **said)
    saved = [ran.spared_expected(id_, validation_ms * MS) for id_ in ran.ids]
    assert [ran.payloads_expected(id_) - len(ran.copies(id_)) for id_ in ran.ids] == saved
    assert any(saved) == (validation_ms > 0)


# ---- meshes ------------------------------------------------------------------------------------------


def test_of_a_mesh_that_is_too_large_the_best_stay_and_some_that_were_dialled():
    star = [(0, leaf) for leaf in range(1, 31)]
    good = {leaf: 1.0 + leaf for leaf in range(1, 5)}
    scoring = {"app_weight": 1.0, "app": good, **SLOW}
    net = join(GossipSub, star, options={"d_out": 2, "first_heartbeat": "50 s", "px": True, "scoring": scoring})
    for client in range(31):
        subscribe(net, client, at_ns=client * 10 * MS)
    before = len(sent(net, 5, 0, GRAFT))
    until(net, 60 * S)
    kept = [int(name[1:]) for name in mesh(net, 0)]
    assert before == 1 and len(kept) == 6 and set(good) <= set(kept)
    assert sum(dialled_by(0, leaf - 1) for leaf in kept) >= 2


def test_a_mesh_of_low_scores_takes_in_better_ones_and_only_then():
    links = [(0, leaf) for leaf in range(1, 13)]
    for threshold, more in ((5.0, True), (0.5, False)):
        app = dict.fromkeys(range(1, 7), 1.0) | dict.fromkeys(range(7, 13), 10.0)
        scoring = {"app_weight": 1.0, "app": app, "thresholds": {"opportunistic": threshold}, **SLOW}
        net = join(Shy, links, options={"opportunistic_ticks": 30, "scoring": scoring, "d_out": 0})
        subscribe(net, 0)
        for client in range(1, 7):
            subscribe(net, client, at_ns=S + client * MS)
        until(net, 5 * S)
        for client in range(7, 13):
            subscribe(net, client, at_ns=6 * S + client * MS)
        until(net, 45 * S)
        assert sum(len(sent(net, 0, leaf, GRAFT)) for leaf in range(7, 13)) == (2 if more else 0)


@pytest.mark.parametrize("scored", [True, False])
def test_a_slow_neighbour_stays_in_meshes_unless_it_is_scored_for_what_it_delivers(scored):
    """All scores are 0 without parameters, and nobody is pruned for a score of 0, however little it brings."""
    graph = nx.complete_graph(14)
    links = sorted(graph.edges)
    topic = {
        "rate_weight": -1.0, "rate_threshold": 2.0, "rate_decay": 0.9, "rate_cap": 20.0, "rate_activation": "5 s",
        "rate_window": "20 ms",
    }  # fmt: skip
    said = {"payload": 2000, "scoring": {"topic": topic} if scored else None, "version": "1.1"}
    published = [(5 * S + at * 200 * MS, 1 + at % 13) for at in range(200)]
    model = Setting(graph, 10 * MS, published, said, seconds=46).model(1)
    slow = [100_000 if 0 in link else 0 for link in links]
    model = replace(model, overlay=overlay_of(links, 10 * MS, bandwidth_bps=slow))
    inside = []

    def observe(shards):
        describe = shards.shards[0].services.protocols[0].describe
        inside.extend(b for b in range(1, 14) if "b0" in describe(b)["mesh"][str(NEWS)])

    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces, observe=observe)
    assert (len(inside) == 0) == scored
    assert len(traces.tables()["deliveries"]["client"]) == 200 * 14  # what it does not get at once it asks for


# ---- faults, links that arise, checkpoints -------------------------------------------------------------


def test_a_broker_that_forgot_is_told_again_and_back_in_the_mesh():
    net = network([(0, 1), (1, 2)])
    for client in range(3):
        subscribe(net, client)
    until(net, 10 * S)
    late = publish(net, 0, at_ns=30 * S)
    for state in (KEPT, STORED, LOST):
        crash = Crash(1, 12 * S, 14 * S, state)
        for broken, detect_ms in ([crash], 100), ([crash, Cut(0, 20 * S, 21 * S)], 10), ([crash], 3_000):
            model = replace(net.model(), faults=Schedule(tuple(broken), detect_ns=detect_ms * MS))
            traces = MemoryTraces("full", tables_of(model))
            simulate(model, trace=traces)
            table = traces.tables()["deliveries"]
            assert sorted(table["client"][table["publication"] == late].tolist()) == [3, 4, 5]


@pytest.mark.parametrize("rehearsal", [REHEARSALS[at] for at in (2, 3, 6)], ids=lambda each: each.name)
def test_every_way_of_running_is_the_same_and_nobody_gets_what_it_did_not_ask_for(rehearsal):
    scoring = {"topic": PRESETS["ethereum"]["scoring"]["topic"], "decay_every": "15 ms", "behaviour_weight": -1.0}
    often = {"heartbeat": "20 ms", "first_heartbeat": "1 ms", "validation": "2 ms", "payload": 2000}
    options = {**FEW, **often, "scoring": scoring}
    model = rehearse(rehearsal, "gossipsub", seed=2, options=options)
    assert check_digests(model) == []
    found = audit_run(model)
    assert found.verdict == "valid" and found.deliveries > 20


@pytest.mark.parametrize(("share", "form"), [(0.2, GossipSub), (0.2, "gossipsub"), (0.6, "gossipsub")])
def test_it_goes_on_where_it_was_stopped(tmp_path, share, form):
    topic = {"invalid_weight": -1.0, "invalid_decay": 0.999, "first_weight": 0.5}
    scoring = {"topic": topic, "decay_every": "15 ms", "thresholds": {"gossip": -1.5, "publish": -2, "graylist": -3}}
    often = {"heartbeat": "20 ms", "first_heartbeat": "1 ms", "validation": "2 ms", "payload": 2000, "invalid": 0.5}
    model = rehearse(REHEARSALS[6], form, seed=2, options={**FEW, **often, "scoring": scoring})
    whole, result = undisturbed(tmp_path / "whole", model)
    halves = folder_for(tmp_path / "halves", model)
    stopped_at(share, model, halves.path, 3)
    resumed = continued(model, halves.path, 2)
    assert resumed.digest == result.digest
    assert differing_tables(whole, halves.finish(resumed.digest)) == []


def test_who_is_pruned_connects_to_whom_it_is_told_of_where_there_are_latent_links():
    """A star whose middle has too many; its leaves may have links to each other."""
    star = [(0, leaf) for leaf in range(1, 9)]
    ring = [(leaf, leaf + 1) for leaf in range(1, 8)]
    latent = np.array([a > 0 for a, _ in sorted(star + ring)])
    for px, some in ((True, True), (False, False)):
        net = join(GossipSub, star + ring, options={**FEW, "px": px, "d_lazy": 0, "gossip_factor": 0.0})
        overlay = overlay_of(star + ring, latent=latent)
        for client in range(9):
            subscribe(net, client, at_ns=client * MS)
        sent_ = publish(net, 0, at_ns=8 * S)
        model = replace(net.model(), overlay=overlay)
        traces = MemoryTraces("full", tables_of(model))
        simulate(model, trace=traces)
        hops = traces.tables()["hops"]
        between = (hops["type"] == PUBLISH) & (hops["link"] >= 2 * len(star)) & (hops["body"] == sent_)
        assert bool(between.any()) == some


# ---- options -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ({"d_lo": 7}, "d_lo <= d (got 7 and 6)"),
        ({"d": 13}, "d <= d_hi"),
        ({"d_score": 7}, "d_score <= d"),
        ({"d_out": 4}, "d_out < d_lo and d_out <= d / 2"),
        ({"d": 10, "d_out": 5}, "d_out < d_lo"),
        ({"gossip_windows": 6}, "gossip_windows <= history"),
        ({"seen": "5 s"}, "longer than history"),
        ({"validation": "6 s"}, "shorter than what is kept"),
        ({"invalid": 0.6, "ignored": 0.6}, "sum up to 1"),
        ({"version": "1.0", "scoring": {}}, "1.0 knows no scores"),
        ({"version": "1.0", "px": True}, "1.0 knows no px"),
        ({"version": "1.0", "flood_publish": True}, "no flood publishing"),
        ({"scoring": {"thresholds": {"gossip": -1, "publish": -0.5}}}, "graylist < publish <= gossip < 0"),
        ({"scoring": {"thresholds": {"publish": -16_000}}}, "graylist < publish"),
        ({"scoring": {"topic": {"rate_weight": -1, "rate_threshold": 20}}}, "would lack something for ever"),
    ],
)
def test_options_that_contradict_each_other_are_refused_with_the_rule(said, rule):
    with pytest.raises(ValidationError, match=rule.replace("(", r"\(").replace(")", r"\)")):
        Options(**said)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"preset": "libp2p", "version": "1.0"}, "; the preset 'libp2p' says `flood_publish`"),
        ({"preset": "ethereum", "version": "1.0"}, "; the preset 'ethereum' says `scoring`"),
        ({"preset": "ethereum", "d": 3}, "d_lo <= d (got 6 and 3); the preset 'ethereum' says `d_lo`"),
        ({"preset": "libp2p", "version": "1.0", "flood_publish": True}, "or version 1.1"),
        ({"preset": "ethereum", "version": "1.0", "scoring": {}}, "or version 1.1"),
    ],
)
def test_who_said_what_breaks_a_rule_is_told_if_it_was_a_preset(said, told):
    with pytest.raises(ValidationError) as raised:
        Options(**said)
    assert raised.value.errors()[0]["msg"].endswith(told)


def test_what_a_preset_says_can_be_taken_back():
    assert not Options(preset="libp2p", version="1.0", flood_publish=False).flood_publish
    assert Options(preset="ethereum", version="1.0", scoring=None).scoring is None


def test_a_preset_takes_the_place_of_defaults_and_what_is_said_counts():
    ethereum = Options(preset="ethereum", d_lazy=3, scoring={"cap": 7.0, "topic": {"weight": 2.0}})
    assert (ethereum.d, ethereum.d_lazy, ethereum.heartbeat) == (8, 3, 700 * MS)
    assert (ethereum.scoring.cap, ethereum.scoring.topic.weight, ethereum.scoring.topic.invalid_weight) == (7, 2, -142)
    assert ethereum == Options(**ethereum.model_dump(mode="json"))
    assert Options(preset="libp2p").flood_publish and Options(preset="libp2p").d_lo == 4
    assert Options(preset="none") == Options()


JAVA, SPECIFIED, JAVA_DEFAULT = "Eth2GossipParams.kt", "consensus-specs phase0/p2p-interface.md", "GossipParams.kt"
SLOT, EPOCH = 12, 32 * 12  # seconds
ETHEREUM = {  # option -> value and source, all that differ from the defaults and those that were looked up
    "d": (8, JAVA), "d_lo": (6, JAVA), "d_hi": (12, JAVA), "d_lazy": (8, JAVA), "d_score": (4, JAVA),
    "d_out": (2, JAVA), "gossip_factor": (0.25, JAVA), "backoff": (60 * S, JAVA), "graft_flood": (10 * S, JAVA),
    "opportunistic_ticks": (85, JAVA), "opportunistic_peers": (2, JAVA), "iwant_repeats": (3, JAVA),
    "ihave_ids": (5_000, JAVA), "ihave_messages": (5, JAVA), "iwant_followup": (3 * S, JAVA),
    "heartbeat": (700 * MS, SPECIFIED), "fanout": (60 * S, SPECIFIED), "history": (6, SPECIFIED),
    "gossip_windows": (3, SPECIFIED), "seen": (2 * EPOCH * S, SPECIFIED), "id_bytes": (20, SPECIFIED),
    "idontwant_from": (16_384, JAVA_DEFAULT), "px_peers": (16, JAVA_DEFAULT),
}  # fmt: skip
ETHEREUM_SCORES = {  # all of JAVA
    "cap": 35.5, "app_weight": 1, "address_weight": -35.5, "address_threshold": 10, "behaviour_weight": -15.92,
    "behaviour_decay": 0.9857, "behaviour_threshold": 6, "decay_every": SLOT * S, "decay_to_zero": 0.1,
    "retain": 100 * EPOCH * S,
}  # fmt: skip
ETHEREUM_TOPIC = {
    "weight": 0.5, "mesh_weight": 0.0324, "mesh_quantum": SLOT * S, "mesh_cap": 300, "first_weight": 1,
    "first_decay": 0.9928, "first_cap": 23, "rate_weight": -0.724, "rate_decay": 0.9928, "rate_threshold": 14,
    "rate_cap": 139, "rate_activation": 4 * EPOCH * S, "rate_window": 2 * S, "failure_weight": -0.724,
    "failure_decay": 0.9928, "invalid_weight": -142, "invalid_decay": 0.9971,
}  # fmt: skip
ETHEREUM_THRESHOLDS = {"gossip": -4_000, "publish": -8_000, "graylist": -16_000, "accept_px": 100, "opportunistic": 5}


def test_the_preset_of_ethereum_is_what_its_sources_say():
    said = Options(preset="ethereum")
    assert {name: getattr(said, name) for name in ETHEREUM} == {name: value for name, (value, _) in ETHEREUM.items()}
    assert PRESETS["ethereum"].keys() - {"scoring"} <= ETHEREUM.keys()  # nothing without a source
    scoring = said.scoring.model_dump(include=set(ETHEREUM_SCORES))
    assert scoring == ETHEREUM_SCORES
    assert said.scoring.topic.model_dump() == ETHEREUM_TOPIC
    assert said.scoring.thresholds.model_dump() == ETHEREUM_THRESHOLDS


def test_what_is_said_of_brokers_has_to_be_there():
    overlay = overlay_of([(0, 1), (1, 2)])
    said = Options(direct=[(0, 2)], invalid_from=[3], scoring={"app": {7: 1.0}})
    assert [key for key, _ in GossipSub.misfits(said, overlay, {})] == [
        "options.direct", "options.invalid_from", "options.scoring.app",
    ]  # fmt: skip
    assert not GossipSub.misfits(Options(direct=[(1, 2)]), overlay, {})
    (told,) = GossipSub.remarks(Options(), overlay)
    assert "no broker has more than 2 neighbours" in told and not GossipSub.remarks(Options(**FEW), overlay)


def test_brokers_with_too_few_neighbours_for_a_mesh_are_counted():
    overlay = overlay_of([(0, other) for other in range(1, 40)])
    (told,) = GossipSub.remarks(Options(), overlay)
    assert told.startswith("`d_lo` is 5, and 39 of 40 brokers have fewer neighbours (39 fewer than `d`, 6)")
    assert not GossipSub.remarks(Options(d=1, d_lo=1, d_out=0, d_score=1), overlay)
    assert not GossipSub.remarks(Options(d=3, d_lo=1, d_out=0, d_score=1), overlay)  # nobody has too few to stay
    (told,) = GossipSub.remarks(Options(d=40, d_hi=80), overlay)
    assert "no broker has more than 39 neighbours" in told


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"graft_flood": "60 s"}, None),  # counted by nobody
        ({"graft_flood": "60 s", "scoring": {}}, "each GRAFT before its end counts twice (got 60 and 60 s)"),
        ({"graft_flood": "59 s", "scoring": {}}, None),
        ({"leave_backoff": "61 s", "scoring": {}}, "for longer than `graft_flood` (got 61 and 60 s)"),
        ({"leave_backoff": "60 s", "scoring": {}}, None),
        ({"version": "1.0", "d_out": 1, "d_score": 3}, "version 1.0 does not read `d_score` and `d_out`"),
        ({"version": "1.0", "d_out": 0, "d_score": 0}, None),
        ({"version": "1.0", "idontwant_from": 5}, "version 1.0 does not read `idontwant_from`"),
        ({"version": "1.1", "idontwant_ids": 5}, "version 1.1 does not read `idontwant_ids`"),
        ({"version": "1.1", "preset": "ethereum"}, None),
        ({"version": "1.2", "idontwant_from": 5}, None),
        ({"opportunistic_peers": 1}, "without `scoring` nobody reads `opportunistic_peers`"),
        ({"opportunistic_peers": 1, "scoring": {}}, None),
    ],
    ids=str,
)
def test_what_does_nothing_is_remarked_on(said, told):
    found = GossipSub.remarks(Options(**said), overlay_of(list(nx.complete_graph(14).edges)))
    assert found == [] if told is None else len(found) == 1 and found[0].endswith(told)


@pytest.mark.parametrize(
    "said",
    [
        {"version": "1.0", **{name: 1 for name in _SINCE_1_1 if name not in ("gossip_draw", "gossip_factor")}},
        {"version": "1.0", "gossip_draw": "each", "gossip_factor": 0.9},
        {"version": "1.1", **dict.fromkeys(_SINCE_1_2, 1)},
        dict.fromkeys(_SCORED, 1),
    ],
    ids=["1.0", "1.0 gossip", "1.1", "unscored"],
)
def test_what_is_said_to_be_read_by_nobody_changes_nothing(said):
    version = {"version": said["version"]} if "version" in said else {}
    graph = nx.complete_graph(14)
    assert GossipSub.remarks(Options(**said), overlay_of(list(graph.edges)))
    hops = [
        gossiping(graph, publications=4, payload=5_000, validation="20 ms", d_hi=7, **each).tables["hops"]
        for each in (version, said)
    ]
    assert {IHAVE, GRAFT, PRUNE} <= set(hops[0]["type"].tolist())
    for name in ("type", "link", "time_ns", "source", "broker"):
        assert hops[0][name].tolist() == hops[1][name].tolist()


def test_the_simple_form_is_600_lines_at_most():
    assert len(Path(inspect.getfile(GossipSub)).read_text("utf-8").splitlines()) <= 600


# ---- topics without wildcards ----------------------------------------------------------------------------

SERVICE = """
duration: 2 s
topology: {kind: line, nodes: 3}
clients: {all: {count: 3, placement: even}}
services:
  - {name: a, kind: topics, wildcards: WILD, protocol: gossipsub, workload: [WORKLOAD]}
"""


@pytest.mark.parametrize(
    ("wild", "workload", "told"),
    [
        ("true", "{source: topic-subscribe}", "needs `wildcards: false`"),
        ("false", "{source: topic-subscribe, wildcards: 0.1}", "the service has names only"),
        ("false", "{source: topic-subscribe, filter: 'a/+'}", "has a wildcard; the service has names only"),
        ("false", "{source: script, actions: [{at: 1 s, client: 0, op: subscribe, text: 'a/#'}]}", "has a wildcard"),
        ("false", "{source: script, actions: [{at: 1 s, client: 0, op: subscribe, body: [0, 0, -1]}]}", "a wildcard"),
    ],
)
def test_a_service_that_may_ask_with_wildcards_is_refused(wild, workload, told):
    with pytest.raises(ScenarioErrors, match=told):
        resolve(loads(SERVICE.replace("WILD", wild).replace("WORKLOAD", workload)))


def test_a_service_of_names_draws_no_wildcards_and_remarks_on_what_a_mesh_may_lack():
    text = SERVICE.replace("WILD", "false").replace("WORKLOAD", "{source: topic-subscribe, number: 50}")
    model = resolve(loads(text))
    assert "no broker has more than 2 neighbours" in model.facts["notes"][0]
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    asked = [row[2:] for row in traces.tables()["changes"]["values"]]
    assert len(asked) == 150 and all(level is None or level != level or level >= 0 for row in asked for level in row)
