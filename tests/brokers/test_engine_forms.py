"""Where the answer is known in closed form: hops, latencies, table sizes, transmission, queues."""

from __future__ import annotations

import heapq

import networkx as nx
import numpy as np
import pytest

from brokers.engine.model import Model, SourceSpec
from brokers.engine.simulate import MemoryTraces, simulate
from protocols.conformance import join, overlay_of, service_of
from topology import draws

DELAY = 5_000_000
COST = 70_000
EVERYTHING = [0, 0.0, 1.0]
VALUES = [0.5, 0.5, 0.5, 0.5]
BYTES = 60  # of a publication with four values


def line(n):
    return [(i, i + 1) for i in range(n - 1)]


def star(n):
    return [(0, i) for i in range(1, n)]


def balanced(branching, height):
    return list(nx.balanced_tree(branching, height).edges())


SHAPES = {"line": line(7), "star": star(9), "binary tree": balanced(2, 3), "ternary tree": balanced(3, 2)}
shapes = pytest.mark.parametrize("links", SHAPES.values(), ids=SHAPES.keys())


def distances(links):
    return dict(nx.all_pairs_shortest_path_length(nx.Graph(links)))


@shapes
@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
def test_a_publication_takes_one_delay_and_one_service_per_hop(protocol, links):
    hops = distances(links)
    brokers = len(hops)
    for publisher in (0, brokers - 1):
        net = join(protocol, links, delay_ns=DELAY, cost={"base": COST})
        for client in range(brokers):
            net.send(client, "subscribe", EVERYTHING, word=net.interest(client))
        publication = net.send(publisher, "publish", VALUES)
        sent = net.model().services[0].sources[0].params["emissions"][-1]["time"][0]
        got = {d.client: d.time_ns - sent for d in net.deliveries() if d.publication == publication}
        assert got == {
            b: hops[publisher][b] * DELAY + (hops[publisher][b] + 1) * COST for b in range(brokers)
        }


@shapes
def test_flooding_sends_a_publication_once_over_every_link_of_a_tree(links):
    net = join("flooding", links, delay_ns=DELAY)
    for publisher in range(len(links) + 1):
        net.send(publisher, "publish", VALUES)
    result = net.result()
    brokers = len(links) + 1
    assert result.metrics["network"]["messages"] == brokers * len(links)
    assert result.metrics["network"]["events"] == brokers * brokers
    assert result.link_state[:, 2].sum() == brokers * len(links)
    # over each link, everything published on one side of it goes to the other
    graph = nx.Graph(links)
    for a, b in links:
        graph.remove_edge(a, b)
        side = len(nx.node_connected_component(graph, a))
        graph.add_edge(a, b)
        assert (len(net.over(a, b)), len(net.over(b, a))) == (side, brokers - side)


@shapes
def test_subscription_forwarding_sends_a_publication_along_the_path_to_its_subscriber_only(links):
    hops = distances(links)
    brokers = len(hops)
    net = join("subscription", links, delay_ns=DELAY)
    net.send(brokers - 1, "subscribe", EVERYTHING, word=net.interest(brokers - 1))
    before = net.result().metrics["network"]["messages"]
    assert before == len(links)
    for publisher in range(brokers):
        net.send(publisher, "publish", VALUES)
    after = net.result().metrics["network"]["messages"]
    assert after - before == sum(hops[p][brokers - 1] for p in range(brokers))


@shapes
def test_table_sizes_are_own_subscriptions_when_flooding_and_all_of_them_when_forwarding(links):
    brokers = len(links) + 1
    for protocol, expected in (("flooding", 2), ("subscription", 2 * brokers)):
        net = join(protocol, links, delay_ns=DELAY)
        for client in range(brokers):
            for number in range(2):
                row = [number, client / brokers, (client + 0.5) / brokers]
                net.send(client, "subscribe", row, word=net.interest(client, number))
        assert [net.entries(b) for b in range(brokers)] == [expected] * brokers


@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
def test_tables_are_empty_after_every_subscription_was_taken_back(protocol):
    links = balanced(2, 2)
    net = join(protocol, links)
    for client in range(7):
        net.send(client, "subscribe", [0, 0.1 * client, 0.9], word=net.interest(client))
    assert sum(net.entries(b) for b in range(7)) >= 7
    for client in (3, 0, 6, 1, 2, 5, 4):
        net.send(client, "unsubscribe", word=net.interest(client))
    assert [net.entries(b) for b in range(7)] == [0] * 7


def test_a_covered_subscription_stays_behind_until_what_covers_it_goes():
    net = join("covering", line(4), clients=[0, 0, 3])
    net.send(0, "subscribe", [0, 0.0, 1.0], word=net.interest(0))
    net.send(1, "subscribe", [0, 0.4, 0.6], word=net.interest(1))
    assert [net.entries(b) for b in range(4)] == [2, 1, 1, 1]
    assert [h.word for h in net.over(1, 2)] == [net.interest(0)]
    net.send(0, "unsubscribe", word=net.interest(0))
    assert [net.entries(b) for b in range(4)] == [1, 1, 1, 1]
    wanted, other = net.send(2, "publish", VALUES), net.send(2, "publish", [0.7, 0.0, 0.0, 0.0])
    assert [(d.client, d.publication) for d in net.deliveries()] == [(1, wanted)]
    assert other not in {h.body for h in net.over(3, 2)}


def test_messages_at_one_instant_follow_each_other_at_the_links_speed():
    """60 bytes at 8 Mbit/s take 60 us; the i-th of a burst arrives i + 1 of them and the delay later."""
    count = 20
    overlay = overlay_of([(0, 1)], DELAY, bandwidth_bps=8_000_000)
    traces = run(overlay, [0] * count, [(1_000_000_000, c) for c in range(count)])
    hops = traces.tables()["hops"]
    arrivals = np.sort(hops["time_ns"][hops["broker"] == 1])
    assert arrivals.tolist() == [1_000_000_000 + (i + 1) * 60_000 + DELAY for i in range(count)]
    links = traces.tables()["links"]
    assert links["busy_ns"].tolist() == [count * 60_000, 0]
    assert links["bytes"].tolist() == [count * BYTES, 0]


def test_a_transmission_time_is_rounded_up_to_whole_nanoseconds():
    overlay = overlay_of([(0, 1)], DELAY, bandwidth_bps=7)
    hops = run(overlay, [0], [(1, 0)]).tables()["hops"]
    assert hops["time_ns"].max() == 1 + -(-BYTES * 8 * 10**9 // 7) + DELAY


def test_a_broker_serves_one_event_after_the_other_whatever_their_service():
    model = model_of(
        overlay_of([(0, 1)], DELAY), [0, 0, 0], [(1_000, c) for c in range(3)], cost={"base": 100.0}
    )
    second = service_of("flooding", "second", cost={"base": 1_000.0}, sources=model.services[0].sources)
    model.services.append(second)
    traces = MemoryTraces("full")
    simulate(model, trace=traces)
    hops = traces.tables()["hops"]
    mine = np.flatnonzero(hops["broker"] == 0)
    # by client, then each client's own sequence: first service 0, then service 1
    assert sorted(hops["finish_ns"][mine].tolist()) == [1_100, 2_100, 2_200, 3_200, 3_300, 4_300]


def model_of(overlay, clients, published, protocol="flooding", cost=None, seed=1, drain_ns=10**15):
    """Clients that publish: (time, client)."""
    script = {
        "emissions": [
            {
                "type": 0,
                "time": [t for t, _ in published],
                "client": [c for _, c in published],
                "rows": [VALUES] * len(published),
            }
        ]
    }
    spec = service_of(
        protocol, cost=dict(cost or {}), sources=[SourceSpec("protocols.conformance:Script", script, "all")]
    )
    return Model(
        "form",
        seed,
        max(t for t, _ in published) + 1,
        overlay,
        np.array(clients, np.int32),
        {"all": (0, len(clients))},
        [spec],
        drain_ns=drain_ns,
    )


def run(overlay, clients, published, **said):
    traces = MemoryTraces("full")
    simulate(model_of(overlay, clients, published, **said), trace=traces)
    return traces


def test_a_loaded_broker_waits_as_long_as_md1_says():
    """Poisson arrivals, constant service: the mean wait is rho s / 2 (1 - rho) (Pollaczek and Khinchine).

    600 simulated seconds at rho = 0.7 in 100 batches, far longer than the queue remembers; the theory must lie
    within the 99.9 % confidence interval of the batch means, which must be narrower than 5 % of it.
    """
    service_ns, rate = 1_000_000, 700
    spec = service_of(
        "flooding",
        cost={"base": float(service_ns)},
        sources=[
            SourceSpec(
                "protocols.content.publish:Publish",
                {"process": "poisson", "total_rate": rate},
                "publishers",
            ),
            SourceSpec(
                "protocols.conformance:Script",
                {
                    "emissions": [
                        {"type": 1, "time": [1], "client": [0], "word": [1 << 32], "rows": [[0, -1e9, 1e9]]}
                    ]
                },
                "subscriber",
            ),
        ],
    )
    groups = {"subscriber": (0, 1), "publishers": (1, 50)}
    model = Model("md1", 7, 606_000_000_000, overlay_of([]), np.zeros(51, np.int32), groups, [spec])
    traces = MemoryTraces("deliveries")
    simulate(model, trace=traces)
    got = traces.tables()["deliveries"]
    wait = got["time_ns"] - got["published_ns"] - service_ns
    assert wait.min() == 0
    batch = got["published_ns"] // 6_000_000_000
    means = np.array([wait[batch == b].mean() for b in range(1, 101)])
    rho = rate * service_ns / 1e9
    theory = rho * service_ns / (2 * (1 - rho))
    half = 3.39 * means.std(ddof=1) / 10  # Student's t, 99 degrees of freedom
    assert half < 0.05 * theory
    assert abs(means.mean() - theory) < half


# ---- the same events as a plain loop over a heap ------------------------------------------------------


def flood_by_heap(overlay, clients, published, cost, seed):
    """What flooding does on a tree, event by event, as a few lines of plain Python see it."""
    out = {b: [] for b in range(overlay.brokers)}
    for e, (a, b) in enumerate(zip(overlay.link_a.tolist(), overlay.link_b.tolist())):
        out[a].append((b, 2 * e))
        out[b].append((a, 2 * e + 1))
    ends = {link: (b, other) for b in out for other, link in out[b]}
    keys = {
        (purpose, link): draws.stream(seed, (a << 32) | b, purpose)
        for link, (a, b) in ends.items()
        for purpose in ("link/loss", "link/jitter")
    }
    sent = dict.fromkeys(ends, 0)
    free = dict.fromkeys(ends, 0)
    last = dict.fromkeys(ends, 0)
    busy = dict.fromkeys(out, 0)
    sequence = dict.fromkeys(range(overlay.brokers + len(clients)), 0)
    heap = []
    for time, client in sorted(published):
        source = overlay.brokers + client
        heapq.heappush(heap, (time, clients[client], 1, source, sequence[source], -1))
        sequence[source] += 1
    rows = []
    while heap:
        time, broker, kind, source, number, came_by = heapq.heappop(heap)
        onward = [(other, link) for other, link in sorted(out[broker]) if link != came_by ^ 1 or came_by < 0]
        charge = cost.get("base", 0) + cost.get("per_link", 0) * len(onward) + cost.get("per_byte", 0) * BYTES
        done = max(time, busy[broker]) + int(charge + 0.5)
        busy[broker] = done
        rows.append((broker, time, kind, source, number, came_by, done))
        for other, link in onward:
            mine, sequence[broker] = sequence[broker], sequence[broker] + 1
            leaves = done
            if overlay.bandwidth_bps[link // 2]:
                leaves = max(leaves, free[link]) + -(
                    -BYTES * 8 * 10**9 // int(overlay.bandwidth_bps[link // 2])
                )
                free[link] = leaves
            copy, sent[link] = sent[link], sent[link] + 1
            if int(draws.bits(keys["link/loss", link], copy)) < int(overlay.loss[link // 2] * 2.0**64):
                continue
            shake = int(overlay.jitter_ns[link // 2]) + 1
            arrives = (
                leaves
                + int(overlay.delay_ns[link // 2])
                + int(draws.bits(keys["link/jitter", link], copy)) % shake
            )
            last[link] = max(last[link], arrives)
            heapq.heappush(heap, (last[link], other, 1, broker, mine, link))
    return sorted(rows)


@pytest.mark.parametrize(
    "strain",
    [
        {},
        {"jitter_ns": 6_000_000},
        {"bandwidth_bps": 100_000},
        {"loss": 0.1},
        {"jitter_ns": 2_000_000, "bandwidth_bps": 90_000, "loss": 0.05},
    ],
    ids=["plain", "jitter", "bandwidth", "loss", "all three"],
)
@pytest.mark.parametrize(
    "cost", [{}, {"base": 900_000.0, "per_link": 7_000.0, "per_byte": 13.0}], ids=["free", "queues"]
)
def test_the_engine_handles_the_same_events_as_a_plain_loop_over_a_heap(cost, strain):
    links = [tuple(e) for e in nx.random_labeled_tree(9, seed=4).edges()]
    overlay = overlay_of(links, [1_000_000 * (1 + i % 4) for i in range(8)], **strain)
    clients = [c % 9 for c in range(12)]
    published = [
        (1_000_000 * (1 + int(draws.bits(draws.stream(9, i, "when"), 0)) % 60), i % 12) for i in range(240)
    ]
    expected = flood_by_heap(overlay, clients, published, cost, seed=1)
    hops = run(overlay, clients, published, cost=cost).tables()["hops"]
    columns = ("broker", "time_ns", "kind", "source", "sequence", "link", "finish_ns")
    assert sorted(zip(*(hops[name].tolist() for name in columns))) == expected
    assert len(expected) > 1000


def test_a_hub_merges_more_than_eight_links_as_the_plain_loop_does():
    """Equal delays and clients at the same instants: the hub hears from all sides at once."""
    overlay = overlay_of(star(15), 2_000_000)
    clients = [c % 15 for c in range(45)]
    published = [(2_000_000 * (1 + i % 5), i % 45) for i in range(400)]
    expected = flood_by_heap(overlay, clients, published, {"base": 100_000.0}, seed=1)
    columns = ("broker", "time_ns", "kind", "source", "sequence", "link", "finish_ns")
    hops = run(overlay, clients, published, cost={"base": 100_000.0}).tables()["hops"]
    assert sorted(zip(*(hops[name].tolist() for name in columns))) == expected
    handled = [
        tuple(int(hops[name][row]) for name in columns[1:5]) for row in np.flatnonzero(hops["broker"] == 0)
    ]
    assert handled == sorted(handled)
