"""Clusters, leaves, gateways and bridges: what goes over which link, by the closed forms, and what must not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import NeverQuiet
from brokers.faults import LOST, Crash, Schedule
from brokers.indexes.topics.syntax import HASH, PLUS
from protocols.conformance import REHEARSALS, audit_run, check_digests, join, overlay_of, rehearse, service_of
from protocols.joining import Joined
from protocols.practice.bridges import Bridges
from protocols.practice.cluster import Cluster
from protocols.practice.forwarding import NAMED
from protocols.practice.gateway import ALLOWED, REFUSED, Gateway
from protocols.practice.interest import INTEREST
from protocols.practice.leaf import Leaf
from protocols.topics.kind import PUBLISH

MS = 1_000_000
REAL = (Cluster, Leaf, Gateway)


def mesh(brokers):
    return list(combinations(range(brokers), 2))


def network(protocol, links, clients, regions=None, delay_ns=MS, **said):
    """Brokers joined, in clusters as `regions` says."""
    region = None if regions is None else np.array(regions)
    return Joined(overlay_of(links, delay_ns, region=region), clients, service_of(protocol, **said))


def subscribe(net, client, *levels, number=0, group=0, flags=0):
    return net.send(client, "subscribe", [flags, group, *levels], word=net.interest(client, number))


def publish(net, client, *levels):
    return net.send(client, "publish", levels)


def crossed(net, links, type):
    """How often messages of a type went over links, in either direction."""
    return sum(hop.type == type for a, b in links for ends in ((a, b), (b, a)) for hop in net.over(*ends))


def got(net, publication):
    return sorted(each.client for each in net.deliveries() if each.publication == publication)


# ---- a cluster -----------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 5),
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([(1,), (PLUS,), (1, HASH), (2,)])), max_size=8),
    st.integers(0, 4),
)
def test_a_cluster_costs_what_the_closed_forms_say(brokers, wants, at):
    links, at = mesh(brokers), at % brokers
    wants = [(broker % brokers, levels) for broker, levels in wants]
    net = network(Cluster, links, [*(broker for broker, _ in wants), at])
    for client, (_, levels) in enumerate(wants):
        subscribe(net, client, *levels)
    sent = publish(net, len(wants), 1)
    filters = set(wants)
    answered = [(broker, levels) for broker, levels in wants if levels != (2,)]
    assert crossed(net, links, INTEREST) == (brokers - 1) * len(filters)
    assert [net.entries(broker) for broker in range(brokers)] == [len(filters)] * brokers
    assert crossed(net, links, PUBLISH) == len({broker for broker, _ in answered} - {at})
    assert got(net, sent) == [client for client, want in enumerate(wants) if want in answered]


def test_the_last_that_ends_is_told_and_nothing_is_left():
    links = mesh(4)
    net = network(Cluster, links, [0, 0, 1])
    for client in range(3):
        subscribe(net, client, 1)
    for client in range(3):
        net.send(client, "unsubscribe", word=net.interest(client))
    assert crossed(net, links, INTEREST) == 2 * 2 * 3
    assert [net.entries(broker) for broker in range(4)] == [0] * 4


def test_what_came_over_a_route_goes_over_none():
    net = network(Cluster, mesh(3), [0, 1, 2])
    for client in (1, 2):
        subscribe(net, client, HASH)
    publish(net, 0, 1)
    assert [len([hop for hop in net.over(1, 2) if hop.type == PUBLISH]), crossed(net, mesh(3), PUBLISH)] == [0, 2]


def test_a_cluster_without_a_link_between_two_brokers_is_refused():
    overlay = overlay_of([(0, 1), (1, 2)])
    ((where, why),) = Cluster.misfits(None, overlay, {})
    assert (where, "b0 and b2 have none" in why) == ("protocol", True)
    assert not Cluster.misfits(None, overlay_of(mesh(3)), {})
    latent = overlay_of(mesh(3), latent=np.array([False, True, False]))
    assert "b0 and b2 have none" in Cluster.misfits(None, latent, {})[0][1]


# ---- groups --------------------------------------------------------------------------------------------


def served(protocol, regions, members, at, times=400):
    """How often each broker served a group with so many members at each, of what is published at one."""
    clients = [broker for broker, count in enumerate(members) for _ in range(count)]
    net = network(protocol, mesh(len(members)), [*clients, at], regions)
    for client in range(len(clients)):
        subscribe(net, client, HASH, group=1)
    sent = [publish(net, len(clients), 1) for _ in range(times)]
    assert all(len(got(net, each)) == 1 for each in sent)
    return Counter(clients[each.client] for each in net.deliveries())


def test_a_group_with_members_here_is_served_here():
    assert served(Cluster, None, [1, 5, 5], at=0, times=20) == {0: 20}


def test_a_group_without_members_here_is_served_by_weight():
    found = served(Cluster, None, [0, 1, 3], at=0)
    assert abs(found[2] / 400 - 3 / 4) < 4 * (3 / 16 / 400) ** 0.5


def test_members_at_one_broker_are_drawn_alike():
    net = network(Cluster, mesh(2), [0, 0, 0, 1])
    for client in range(3):
        subscribe(net, client, HASH, group=1)
    for _ in range(300):
        publish(net, 3, 1)
    found = Counter(each.client for each in net.deliveries())
    assert max(abs(found[client] / 300 - 1 / 3) for client in range(3)) < 4 * (2 / 9 / 300) ** 0.5


def test_the_weight_that_is_told_is_the_number_of_members_and_one_who_leaves_is_told_too():
    net = network(Cluster, mesh(2), [1, 1, 1, 0])
    for client in range(3):
        subscribe(net, client, HASH, group=1)
    net.send(0, "unsubscribe", word=net.interest(0))
    assert net.describe(0)["wanted"] == [{"filter": ["$share/1/#"], "by": {"b1": 2}}]
    assert sum(hop.type == INTEREST for hop in net.over(1, 0)) == 4


def test_a_broker_that_serves_groups_and_clients_gets_one_copy_for_all_of_them():
    net = network(Cluster, mesh(2), [1, 1, 1, 0])
    subscribe(net, 0, HASH)
    subscribe(net, 0, HASH, number=1, group=1)
    subscribe(net, 1, HASH, group=1)
    subscribe(net, 2, PLUS, group=2)
    sent = publish(net, 3, 1)
    assert [crossed(net, mesh(2), type) for type in (NAMED, PUBLISH)] == [1, 1]
    assert sorted(got(net, sent)) in ([0, 0, 2], [0, 1, 2])  # for itself, of the first group and of the second
    assert net.audit().verdict == "valid"


def test_members_in_ones_own_cluster_go_before_those_behind_a_gateway():
    assert served(Gateway, [0, 0, 1, 1], [0, 1, 5, 5], at=0, times=30) == {1: 30}


def test_the_nearest_cluster_serves_a_group_behind_gateways():
    links = [(0, 1), (0, 2), (1, 2)]
    net = network(Gateway, links, [1, 2, 0], [0, 1, 2], delay_ns=[9 * MS, 2 * MS, MS])
    for client in range(2):
        subscribe(net, client, HASH, group=1)
    sent = [publish(net, 2, 1) for _ in range(10)]
    assert [got(net, each) for each in sent] == [[1]] * 10


# ---- leaves --------------------------------------------------------------------------------------------


def test_two_links_between_a_leaf_cluster_and_its_hub_are_no_loop():
    """A square: brokers 0 and 1 are the hub, 2 and 3 dial them; the tag of where it came from goes over the route."""
    square = [(0, 1), (0, 2), (1, 3), (2, 3)]
    net = network(Leaf, square, [0, 1, 2, 3], [0, 0, 1, 1])
    for client in range(4):
        subscribe(net, client, HASH)
    sent = [publish(net, client, 1) for client in range(4)]
    assert [got(net, each) for each in sent] == [[0, 1, 2, 3]] * 4
    assert net.audit().verdict == "valid"
    assert crossed(net, square, PUBLISH) == 4 * 3


def test_what_is_wanted_does_not_come_back_into_its_cluster():
    square = [(0, 1), (0, 2), (1, 3), (2, 3)]
    net = network(Leaf, square, [2], [0, 0, 1, 1])
    subscribe(net, 0, 1)
    assert [sum(hop.type == INTEREST for hop in net.over(*ends)) for ends in ((2, 0), (0, 1), (1, 3))] == [1, 1, 0]
    assert net.describe(3)["wanted"] == [{"filter": ["1"], "by": {"b2": 1}}]


def test_a_spoke_that_is_a_hub_too_tells_of_what_is_below():
    """A - B - C - D, each dialling the one before: who wants it at D gets what is published at A."""
    line = [(0, 1), (1, 2), (2, 3)]
    net = network(Leaf, line, [0, 3])
    subscribe(net, 1, 1)
    assert got(net, publish(net, 0, 1)) == [1]


def test_of_a_hub_and_leaves_only_who_wants_it_gets_a_copy():
    star = [(0, 1), (0, 2), (0, 3)]
    net = network(Leaf, star, [0, 1, 2, 3])
    subscribe(net, 2, 1)
    publish(net, 1, 1)
    assert [sum(hop.type == PUBLISH for hop in net.over(*ends)) for ends in ((1, 0), (0, 2), (0, 3))] == [1, 1, 0]


def test_a_cluster_of_which_not_every_broker_dials_is_refused():
    overlay = overlay_of([(0, 1), (1, 2)], region=np.array([0, 1, 1]))
    ((_, why),) = Leaf.misfits(Leaf.Options(), overlay, {})
    assert "not all of the cluster of b1" in why
    assert not Leaf.misfits(Leaf.Options(), overlay_of([(0, 1), (0, 2), (1, 2)], region=np.array([0, 1, 1])), {})


# ---- gateways ------------------------------------------------------------------------------------------

PAIRS = [0, 0, 1, 1]  # two clusters of two


def between(links, regions):
    return [(a, b) for a, b in links if regions[a] != regions[b]]


def test_an_optimistic_gateway_takes_one_publication_of_each_broker_and_name_in_vain():
    links = mesh(4)
    net = network(Gateway, links, [0, 1], PAIRS)
    for _ in range(3):
        for client in range(2):
            for name in (1, 2, 3):
                publish(net, client, name)
    ways = between(links, PAIRS)
    assert [crossed(net, ways, type) for type in (PUBLISH, REFUSED, ALLOWED)] == [2 * 3, 2 * 3, 0]


def test_interest_only_takes_nothing_in_vain_and_tells_of_each_filter():
    links = mesh(4)
    net = network(Gateway, links, [0, 2], PAIRS, options={"mode": "interest-only"})
    publish(net, 0, 1)
    subscribe(net, 1, 2)
    publish(net, 0, 1)
    sent = publish(net, 0, 2)
    ways = between(links, PAIRS)
    assert [crossed(net, ways, type) for type in (PUBLISH, REFUSED, INTEREST)] == [1, 0, 2 * 2 // 2]
    assert got(net, sent) == [1]


def test_what_was_refused_is_allowed_once_somebody_wants_it():
    links = mesh(4)
    net = network(Gateway, links, [0, 3], PAIRS)
    publish(net, 0, 1)
    publish(net, 0, 2)
    subscribe(net, 1, 1)
    sent = [publish(net, 0, 1), publish(net, 0, 2)]
    assert [got(net, each) for each in sent] == [[1], []]
    assert [crossed(net, between(links, PAIRS), type) for type in (REFUSED, ALLOWED)] == [2, 1]


def test_after_so_many_refusals_a_gateway_takes_only_what_is_asked_for():
    links = mesh(4)
    net = network(Gateway, links, [0, 3], PAIRS, options={"refusals_max": 3})
    subscribe(net, 1, 9)
    for name in (*range(1, 6), 9, *range(1, 8)):
        publish(net, 0, name)
    ways = between(links, PAIRS)
    assert [crossed(net, ways, type) for type in (REFUSED, PUBLISH)] == [3, 4 + 1]
    assert net.describe(0)["refused there"] == 0 and len(net.deliveries(1)) == 1


def test_nothing_goes_from_gateway_to_gateway():
    regions = [0, 1, 2]
    net = network(Gateway, mesh(3), [0, 1, 2], regions)
    for client in range(3):
        subscribe(net, client, HASH)
    sent = publish(net, 0, 1)
    assert (got(net, sent), crossed(net, mesh(3), PUBLISH), crossed(net, [(1, 2)], PUBLISH)) == ([0, 1, 2], 2, 0)


def test_a_broker_without_a_gateway_into_a_cluster_is_refused():
    overlay = overlay_of([(0, 1), (0, 2)], region=np.array([0, 0, 1]))
    ((_, why),) = Gateway.misfits(Gateway.Options(), overlay, {})
    assert "b1 has no link into the cluster of b2" in why


# ---- bridges -------------------------------------------------------------------------------------------


def copies(links, duration_ms, brokers, **options):
    """When copies of one publication, at broker 0, came to brokers: (ms, broker)."""
    net = network(Bridges, links, range(brokers), options={"loops": True, **options})
    for client in range(brokers):
        subscribe(net, client, HASH)
    publish(net, 0, 1)
    model = replace(net.model(), drain_ns=0)
    model = replace(model, duration_ns=(brokers + 1) * 1_000 * MS + duration_ms * MS + 1)
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    hops = traces.tables()["hops"]
    rows = (hops["type"] == PUBLISH) & (hops["link"] >= 0)
    times = hops["time_ns"][rows] // MS - (brokers + 1) * 1_000
    return list(zip(times.tolist(), hops["broker"][rows].tolist()))


@pytest.mark.parametrize("ring", [3, 4, 7])
def test_on_a_ring_two_copies_go_round_for_ever(ring):
    links = [(i, i + 1) for i in range(ring - 1)] + [(0, ring - 1)]
    rounds = 5
    found = Counter(broker for _, broker in copies(links, rounds * ring, ring))
    assert found == dict.fromkeys(range(ring), 2 * rounds)


@pytest.mark.parametrize("brokers", [3, 4, 5])
def test_in_a_mesh_copies_grow_by_the_closed_form(brokers):
    hops = 6 if brokers < 5 else 5
    found = Counter(at for at, _ in copies(mesh(brokers), hops, brokers))
    assert found == {h: (brokers - 1) * (brokers - 2) ** (h - 1) for h in range(1, hops + 1)}


def test_with_the_rule_at_the_hub_alone_one_spoke_gives_a_duplicate_and_two_circle():
    assert len(copies([(0, 1)], 50, 2, echo="hub")) == 2
    found = Counter(at for at, _ in copies([(0, 1), (0, 2)], 50, 3, echo="hub"))
    assert found == dict.fromkeys(range(1, 51), 2)


def test_without_a_rule_a_bridge_sends_back_what_it_got():
    assert Counter(at for at, _ in copies([(0, 1)], 20, 2, echo="none")) == dict.fromkeys(range(1, 21), 1)


def test_declared_at_both_ends_a_bridge_doubles():
    found = Counter(broker for _, broker in copies([(0, 1), (1, 2), (2, 3)], 50, 4, declared="both-ends"))
    assert found == {1: 2, 2: 4, 3: 8}


def test_a_storm_ends_with_its_reason():
    net = network(Bridges, mesh(4), range(4), options={"loops": True})
    publish(net, 0, 1)
    with pytest.raises(NeverQuiet, match=r"verdict invalid: it never gets quiet.*Bridges"):
        simulate(replace(net.model(), messages_max=20_000))


@pytest.mark.parametrize(
    ("links", "options", "refused"),
    [
        ([(0, 1), (1, 2)], {}, ""),
        (mesh(3), {}, "the overlay has cycles"),
        (mesh(3), {"loops": True}, ""),
        ([(0, 1)], {"echo": "hub"}, ""),
        ([(0, 1), (0, 2)], {"echo": "hub"}, "only the hub sends nothing back"),
        ([(0, 1)], {"echo": "none"}, "what comes is sent back"),
    ],
)
def test_bridges_are_refused_where_messages_circle(links, options, refused):
    found = Bridges.misfits(Bridges.Options(**options), overlay_of(links), {})
    assert [why for _, why in found if refused in why] == [why for _, why in found]
    assert bool(found) == bool(refused)


# ---- what comes back ---------------------------------------------------------------------------------


def judged(net, *crashes):
    """The audit of a run in which brokers crash and forget, each from one second to another, and who got what."""
    faults = Schedule(tuple(Crash(b, at * 1000 * MS, to * 1000 * MS, LOST) for b, at, to in crashes), detect_ns=10 * MS)
    model = replace(net.model(), faults=faults)
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    table = traces.tables()["deliveries"]
    clients = (table["client"] - model.overlay.brokers).tolist()
    return audit_run(model).verdict, sorted(zip(table["publication"].tolist(), clients))


def test_a_broker_that_forgot_is_told_of_what_lies_behind_its_neighbours():
    """A - B - C, where B is a hub and a spoke; it comes back, and what is asked at C reaches A once more."""
    net = network(Leaf, [(0, 1), (1, 2)], [0, 2])
    subscribe(net, 1, 1)
    sent = net.send(0, "publish", [1], at_ns=8_000 * MS)
    assert judged(net, (1, 3, 5)) == ("valid", [(sent, 1)])


def test_the_weight_of_a_group_is_restored_with_it():
    net = network(Leaf, [(0, 1), (1, 2)], [0, 0, 0, 2])
    for client in range(3):
        subscribe(net, client, HASH, group=1)
    net.send(0, "unsubscribe", word=net.interest(0), at_ns=8_000 * MS)
    sent = net.send(3, "publish", [1], at_ns=9_000 * MS)
    verdict, got = judged(net, (1, 5, 6))
    assert (verdict, [each for each, _ in got]) == ("valid", [sent])


def test_a_gateway_that_forgot_that_it_takes_only_what_is_asked_for_begins_anew():
    net = network(Gateway, mesh(3), [0, 2], [0, 0, 1], options={"refusals_max": 1})
    for name in (1, 2, 3):
        publish(net, 0, name)
    net.send(1, "subscribe", [0, 0, 2], word=net.interest(1), at_ns=9_000 * MS)
    sent = net.send(0, "publish", [2], at_ns=10_000 * MS)
    for broker in (0, 2):
        assert judged(net, (broker, 5, 6)) == ("valid", [(sent, 1)])


# ---- all of them ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", REAL)
def test_every_way_of_running_gives_one_trace_and_keeps_what_is_promised(protocol):
    model = rehearse(REHEARSALS[-1], protocol, seed=3)
    assert check_digests(model) == []
    assert audit_run(model).verdict == "valid"


@pytest.mark.parametrize("protocol", [Cluster, Leaf, Bridges])
def test_content_is_served_as_names_are(protocol):
    assert audit_run(rehearse(REHEARSALS[0], protocol, kind="content")).verdict == "valid"


@pytest.mark.parametrize("protocol", [Leaf, Gateway])
@pytest.mark.parametrize("sizes", [[2, 3, 2], [3, 1, 1, 2]])
def test_clusters_of_any_sizes_keep_what_is_promised(protocol, sizes):
    rehearsal = replace(REHEARSALS[0], topology="clusters", params={"clusters": sizes})
    assert audit_run(rehearse(rehearsal, protocol)).verdict == "valid"


def test_no_local_leaves_out_what_the_client_published_itself_and_nothing_else():
    for protocol in (*REAL, Bridges):
        net = join(protocol, [(0, 1)], [0, 0, 1])
        for client in range(3):
            subscribe(net, client, HASH, flags=1)
        sent = publish(net, 0, 1)
        assert (protocol, got(net, sent)) == (protocol, [1, 2])
