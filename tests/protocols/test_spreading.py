"""How publications spread: the metrics beside closed forms and shortest ways, over protocols that know none of them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from brokers.contract import MESSAGE
from protocols import spreading
from protocols.content.kind import PUBLISH, Content
from tests.protocols.test_plumtree import EVERYTHING, SECOND, VARIED, Joined, build, service_of, traced

NODES, SOURCE = 30, 7
KIND = Content(Content.Params().model_dump())


def ran(protocol: str, seed: int, times: int = 3, **options):
    """Overlay and tables of so many publications of one source, which everybody wants."""
    overlay = build("erdos-renyi", {"nodes": NODES, "probability": 0.2}, VARIED, seed)
    net = Joined(overlay, range(NODES), service_of(protocol, options=options))
    for client in range(NODES):
        net.send(client, "subscribe", EVERYTHING, word=net.interest(client), at_ns=1)
    for at in range(1, times + 1):
        net.send(SOURCE, "publish", [0.5, 0, 0, 0], at_ns=at * 10 * SECOND)
    return overlay, traced(net.model())


def ways(overlay) -> dict[int, tuple[int, int]]:
    """By broker, links and nanoseconds on the quickest way from the source."""
    graph = nx.Graph()
    for a, b, delay in zip(overlay.link_a.tolist(), overlay.link_b.tolist(), overlay.delay_ns.tolist()):
        graph.add_edge(a, b, weight=delay)
    paths = nx.single_source_dijkstra_path(graph, SOURCE)
    return {b: (len(path) - 1, nx.path_weight(graph, path, "weight")) for b, path in paths.items()}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("protocol", ["flooding", "plumtree"])
def test_rounds_are_the_links_of_the_quickest_ways_and_the_last_delivery_their_length(protocol, seed):
    overlay, tables = ran(protocol, seed)
    links = [count for count, _ in ways(overlay).values()]
    assert spreading.hops_last(tables, KIND) == spreading.hops_most(tables, KIND) == max(links) > 2
    shares = spreading.reached_by_round(tables, KIND)
    assert shares == pytest.approx([sum(c <= r for c in links) / NODES for r in range(max(links) + 1)])
    half = spreading.hops_half(tables, KIND)
    assert shares[half] >= 0.5 > (shares[half - 1] if half else 0)
    assert spreading.hops_nearly(tables, KIND) == max(links)
    longest = max(time for _, time in ways(overlay).values())
    assert spreading.time_to_all(tables, KIND) == pytest.approx(longest / 1e6)


@pytest.mark.parametrize("seed", [1, 2])
def test_redundancy_is_that_of_the_closed_forms(seed):
    overlay, tables = ran("flooding", seed)
    surplus = overlay.links - (NODES - 1)
    assert spreading.redundancy(tables, KIND) == pytest.approx(2 * surplus / (NODES - 1))
    assert spreading.duplicates_per_delivery(tables, KIND) == pytest.approx(2 * surplus / NODES)
    _, tables = ran("plumtree", seed)  # the first like flooding, the two others along a tree
    assert spreading.redundancy(tables, KIND) == pytest.approx(2 * surplus / (NODES - 1) / 3)
    assert spreading.duplicates_per_delivery(tables, KIND) == pytest.approx(2 * surplus / NODES / 3)


def test_where_only_who_wants_it_is_reached_nothing_is_redundant():
    _, tables = ran("subscription", 1)
    assert spreading.redundancy(tables, KIND) == 0 == spreading.duplicates_per_delivery(tables, KIND)


def test_bytes_of_control_are_all_that_are_not_of_copies():
    overlay, tables = ran("flooding", 1)
    assert spreading.control_bytes(tables, KIND) == 0
    _, tables = ran("plumtree", 1)
    hops, published = tables["hops"], tables["publications"]
    over = (hops["link"] >= 0) & (hops["kind"] == MESSAGE)
    copies = int((over & (hops["type"] == PUBLISH)).sum()) * int(published["size_bytes"][0])
    every = int(tables["links"]["bytes"].sum())
    assert spreading.control_bytes(tables, KIND) == pytest.approx((every - copies) / copies)
    assert every > copies and overlay.links * 2 == len(tables["links"]["bytes"])
    hops["link"][np.flatnonzero(over)[0]] = -1  # as if another service had sent one of them
    assert spreading.control_bytes(tables, KIND) is None


def test_the_churn_of_tables_is_by_how_much_they_change_from_sample_to_sample():
    rows = {"broker": [0, 1, 0, 1, 0, 1], "time_ns": [0, 0, 5, 5, 9, 9], "entries": [2, 3, 4, 3, 1, 3]}
    samples = {"samples": {name: np.array(values, np.int64) for name, values in rows.items()}}
    assert spreading.tables_churn(samples, KIND) == (2 + 3 + 0 + 0) / 4


def test_nothing_is_measured_where_nothing_was_published():
    _, tables = ran("flooding", 1, times=0)
    for measure in (
        spreading.hops_last, spreading.hops_most, spreading.hops_half, spreading.redundancy,
        spreading.duplicates_per_delivery, spreading.control_bytes, spreading.time_to_all,
    ):  # fmt: skip
        assert measure(tables, KIND) is None


def test_metrics_of_one_service_share_what_they_find_and_other_columns_are_looked_at_anew():
    _, tables = ran("flooding", 1)
    found = spreading.spread(tables, KIND)
    assert spreading.spread(dict(tables), KIND) is found
    fewer = {**tables, "hops": {name: column[:100] for name, column in tables["hops"].items()}}
    assert sum(spreading.spread(fewer, KIND).copies.values()) < sum(found.copies.values())
    assert spreading.spread(tables, KIND) == found
