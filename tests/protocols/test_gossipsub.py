"""GossipSub: its handlers and heartbeat among real brokers, of which one may say whatever a test wants, and closed forms."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from pydantic import ValidationError

from brokers.contract import TIMER
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import LOST, Crash, Cut, Schedule
from protocols.conformance import REHEARSALS, audit_run, check_digests, overlay_of, rehearse
from protocols.gossip.gossipsub import GossipSub
from protocols.gossip.options import PRESETS, Options
from protocols.gossip.talking import GRAFT, HEARTBEAT, IDONTWANT, IHAVE, IWANT, JOINED, LEFT, PRUNE, topic_in
from protocols.joining import join
from protocols.topics.kind import PUBLISH, SUBSCRIBE
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
    assert net.describe(1)["scores"] == {"b0": -(times**2)}
    publish(net, 0, GRAFT, NEWS, at_ns=6 * S + after_ms * MS + 59_000 * MS)  # the backoff began anew
    assert net.describe(1)["scores"] == {"b0": -((times + 1) ** 2)}


def test_who_has_a_score_below_0_is_neither_grafted_nor_taken_in():
    net = puppet(scoring={"app": {0: -1.0}, "app_weight": 1.0, **SLOW})
    publish(net, 0, GRAFT, NEWS, at_ns=6 * S)
    assert mesh(net, 1) == ["b2"] and len(heard(net, PRUNE)) == 1 and not heard(net, GRAFT)


def test_a_full_mesh_takes_in_only_whom_it_dialled():
    star = [(0, leaf) for leaf in range(1, 14)]
    net = network(star, version="1.1", **STILL, **{"d": 2, "d_hi": 2})
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
    assert net.describe(1)["scores"].get("b0", 0) == score


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


@pytest.mark.parametrize(("options", "score"), [({"invalid": 1.0}, -4), ({"invalid_from": [2]}, -4), ({"ignored": 1.0}, 0)])
def test_what_is_invalid_goes_no_further_and_is_held_against_who_brought_it(options, score):
    scoring = {"topic": {"invalid_weight": -1.0, "invalid_decay": 0.5}, "thresholds": NEVER_LOW, **SLOW}
    net = puppet(scoring=scoring, **options)
    for number in range(2):
        publish(net, 2, at_ns=6 * S + number * 10 * MS)
    assert net.describe(1)["scores"].get("b2", 0) == score
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


def gossiping(graph, seed=1, publications=6, every_ns=S, **options):
    """A network of a graph whose brokers all have a subscriber; a seed of the model; what its trace says."""
    links = sorted(tuple(sorted(edge)) for edge in graph.edges)
    rng = np.random.default_rng(seed)
    delay = (rng.uniform(1, 30, len(links)) * MS).astype(int).tolist()
    net = join(GossipSub, links, delay_ns=delay, options={"d_hi": 60, **options})
    for client in range(len(graph)):
        subscribe(net, client, at_ns=client * MS)
    ids = [publish(net, int(rng.integers(len(graph))), at_ns=8 * S + at * every_ns) for at in range(publications)]
    until(net, net._clock_ns + 9 * S)
    return Traced(net, seed, ids)


class Traced:
    """What a run says of its mesh and of what went over links."""

    def __init__(self, net, seed, ids):
        model = replace(net.model(), seed=seed)
        traces = MemoryTraces("full", tables_of(model))
        simulate(model, trace=traces, observe=self._observe)
        self.tables, self.model, self.ids = traces.tables(), model, ids
        hops = self.tables["hops"]
        self.hops = {name: hops[name].tolist() for name in ("type", "link", "body", "time_ns", "broker", "source", "kind")}
        base = model.overlay.brokers
        self.author = {id_: int(model.client_broker[(id_ >> 32) - base]) for id_ in ids}

    def _observe(self, shards):
        protocol = shards.shards[0].services.protocols[0]
        self.brokers = list(protocol.brokers.values())
        topic = (NEWS,)
        neighbour = self.brokers[0].node.neighbour
        self.mesh = [{neighbour(link) for link in broker.mesh[topic]} for broker in self.brokers]
        self.known = [{neighbour(link) for link in broker.topics[topic]} for broker in self.brokers]

    def over(self, type, body=None):
        """(time, from, to) of what went over links."""
        names = ("time_ns", "source", "broker", "type", "link", "body")
        rows = zip(*(self.hops[name] for name in names))
        return [(t, a, b) for t, a, b, kind, link, id_ in rows if kind == type and link >= 0 and body in (None, id_)]

    def first(self, id):
        """Broker -> (when it got a payload first, from whom)."""
        found = {}
        for time, source, broker in sorted(self.over(PUBLISH, id)):
            found.setdefault(broker, (time, source))
        return found

    @property
    def edges(self):
        return sum(map(len, self.mesh)) // 2

    def missed_author(self, id):
        """Mesh neighbours of the author that heard of it from another first."""
        author, first = self.author[id], self.first(id)
        return sum(first[broker][1] != author for broker in self.mesh[author])


GRAPHS = [nx.random_regular_graph(12, 40, seed=3), nx.erdos_renyi_graph(30, 0.5, seed=5), nx.complete_graph(9)]


@pytest.mark.parametrize("graph", GRAPHS, ids=["regular", "random", "complete"])
def test_a_publication_costs_2E_less_n_less_1_less_a_payloads(graph):
    ran = gossiping(graph, version="1.1", d_lazy=0, gossip_factor=0.0)
    n = len(graph)
    counts = [len(ran.over(PUBLISH, id_)) for id_ in ran.ids]
    assert counts == [2 * ran.edges - (n - 1) - ran.missed_author(id_) for id_ in ran.ids]
    assert len(set(counts)) > 1 or graph.number_of_nodes() == 9


def test_flooding_own_publications_costs_what_the_closed_form_says():
    graph = nx.random_regular_graph(14, 40, seed=7)
    ran = gossiping(graph, version="1.1", d_lazy=0, gossip_factor=0.0, flood_publish=True)
    for id_ in ran.ids:
        author, first = ran.author[id_], ran.first(id_)
        beside = sum(source == author and broker not in ran.mesh[author] for broker, (_, source) in first.items() if broker != author)
        outside = len(ran.known[author]) - len(ran.mesh[author])
        expected = 2 * ran.edges + outside - 39 + beside - ran.missed_author(id_)
        assert len(ran.over(PUBLISH, id_)) == expected
        assert beside > 0


@pytest.mark.parametrize(("publications", "windows"), [(1, 3), (6, 8)])
def test_each_broker_says_ihave_to_d_lazy_in_each_heartbeat_with_something_to_tell(publications, windows):
    graph = nx.random_regular_graph(20, 50, seed=1)
    ran = gossiping(graph, publications=publications, gossip_factor=0.0)
    beats = Counter(
        (broker, time) for broker, time, type in zip(ran.hops["broker"], ran.hops["time_ns"], ran.hops["type"]) if type == HEARTBEAT
    )
    assert len(ran.over(IHAVE)) == 50 * 6 * windows
    assert max(beats.values()) == 1


def test_adaptive_gossip_goes_to_a_share_of_the_others():
    graph = nx.complete_graph(40)
    ran = gossiping(graph, publications=1)
    expected = sum(3 * max(6, (39 - len(mesh)) // 4) for mesh in ran.mesh)
    assert len(ran.over(IHAVE)) == expected > 40 * 6 * 3
    each = gossiping(graph, publications=1, gossip_draw="each")
    assert 0.85 * expected < len(each.over(IHAVE)) < 1.25 * expected and len(each.over(IHAVE)) != expected


def test_without_a_heartbeat_meanwhile_nobody_asks_for_anything():
    graph = nx.random_regular_graph(12, 40, seed=3)
    ran = gossiping(graph, publications=12, every_ns=1_070 * MS)
    beats = sorted(t for t, type in zip(ran.hops["time_ns"], ran.hops["type"]) if type == HEARTBEAT)
    quiet = asked = 0
    for id_ in ran.ids:
        times = [time for time, _, _ in ran.over(PUBLISH, id_)]
        sent_ns = int(ran.tables["publications"]["time_ns"][ran.tables["publications"]["publication"] == id_][0])
        got = {broker: time for broker, (time, _) in ran.first(id_).items() if broker != ran.author[id_]}
        extra = len(times) - (2 * ran.edges - 39 - ran.missed_author(id_))
        if not any(sent_ns <= beat <= max(got.values()) for beat in beats):
            quiet += 1
            assert extra == 0
        asked += extra
    assert len(ran.over(IWANT)) >= asked
    assert set(d for d in Counter(ran.tables["deliveries"]["publication"].tolist()).values()) == {40}


def test_once_quiet_meshes_are_symmetric_and_within_their_bounds_and_nobody_grafts():
    for seed in range(1, 4):
        graph = nx.random_regular_graph(20, 60, seed=seed)
        ran = gossiping(graph, seed, publications=0, d_hi=12)
        assert all(a in ran.mesh[b] for b in range(60) for a in ran.mesh[b])
        assert all(5 <= len(mesh) < 12 for mesh in ran.mesh)
        assert max(time for time, _, _ in ran.over(GRAFT)) < 6 * S


@pytest.mark.parametrize("validation_ms", [0, 5, 20, 60])
def test_idontwant_saves_what_arrives_before_it_would_have_been_sent(validation_ms):
    graph = nx.random_regular_graph(12, 40, seed=4)
    said = {"validation": f"{validation_ms} ms", "d_lazy": 0, "gossip_factor": 0.0, "payload": 2000}
    ran = gossiping(graph, publications=5, every_ns=2 * S, **said)
    overlay = ran.model.overlay
    delay = {frozenset(ends): d for *ends, d in zip(overlay.link_a.tolist(), overlay.link_b.tolist(), overlay.delay_ns.tolist())}
    saved = 0
    for id_ in ran.ids:
        author, first, expected = ran.author[id_], ran.first(id_), 0
        first.setdefault(author, (0, -1))
        first[author] = (0, -1)
        for b in range(40):
            for a in ran.mesh[b]:
                if a == first[b][1] or a == author:
                    continue
                ready = 0 if b == author else first[b][0] + validation_ms * MS
                told = first[a][0] + delay[frozenset((a, b))]
                skipped = b != author and first[a][1] != b and told <= ready
                saved += skipped
                expected += not skipped
        assert len(ran.over(PUBLISH, id_)) == expected
    assert (saved > 0) == (validation_ms > 0)


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
        app = {leaf: 1.0 for leaf in range(1, 7)} | {leaf: 10.0 for leaf in range(7, 13)}
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


# ---- faults, links that arise, checkpoints -------------------------------------------------------------


def test_a_broker_that_forgot_is_told_again_and_back_in_the_mesh():
    net = network([(0, 1), (1, 2)])
    for client in range(3):
        subscribe(net, client)
    until(net, 10 * S)
    late = publish(net, 0, at_ns=30 * S)
    for state in range(3):
        crash = Crash(1, 12 * S, 14 * S, state)
        for faults in (Schedule((crash,), detect_ns=100 * MS), Schedule((crash, Cut(0, 20 * S, 21 * S)), detect_ns=10 * MS)):
            model = replace(net.model(), faults=faults)
            traces = MemoryTraces("full", tables_of(model))
            simulate(model, trace=traces)
            table = traces.tables()["deliveries"]
            assert sorted(table["client"][table["publication"] == late].tolist()) == [3, 4, 5]
    assert LOST == 2


@pytest.mark.parametrize("rehearsal", [REHEARSALS[at] for at in (2, 3, 6)], ids=lambda each: each.name)
def test_every_way_of_running_is_the_same_and_nobody_gets_what_it_did_not_ask_for(rehearsal):
    scoring = {"topic": PRESETS["ethereum"]["scoring"]["topic"], "decay_every": "15 ms", "behaviour_weight": -1.0}
    options = {**FEW, "heartbeat": "20 ms", "first_heartbeat": "1 ms", "validation": "2 ms", "scoring": scoring, "payload": 2000}
    model = rehearse(rehearsal, GossipSub, seed=2, options=options)
    assert check_digests(model) == []
    found = audit_run(model)
    assert found.verdict == "valid" and found.deliveries > 20


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


def test_a_preset_takes_the_place_of_defaults_and_what_is_said_counts():
    ethereum = Options(preset="ethereum", d_lazy=3, scoring={"cap": 7.0, "topic": {"weight": 2.0}})
    assert (ethereum.d, ethereum.d_lazy, ethereum.heartbeat) == (8, 3, 700 * MS)
    assert (ethereum.scoring.cap, ethereum.scoring.topic.weight, ethereum.scoring.topic.invalid_weight) == (7, 2, -142)
    assert ethereum == Options(**ethereum.model_dump(mode="json"))
    assert Options(preset="libp2p").flood_publish and Options(preset="libp2p").d_lo == 4
    assert Options(preset="none") == Options()


def test_what_is_said_of_brokers_has_to_be_there():
    overlay = overlay_of([(0, 1), (1, 2)])
    said = Options(direct=[(0, 2)], invalid_from=[3], scoring={"app": {7: 1.0}})
    assert [key for key, _ in GossipSub.misfits(said, overlay, {})] == [
        "options.direct", "options.invalid_from", "options.scoring.app",
    ]  # fmt: skip
    assert not GossipSub.misfits(Options(direct=[(1, 2)]), overlay, {})
    (told,) = GossipSub.notes(Options(), overlay)
    assert "no broker has more than 2 neighbours" in told and not GossipSub.notes(Options(**FEW), overlay)
