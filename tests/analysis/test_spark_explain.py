"""The way of a message is told as the trace has it, and so is why a client got it or did not."""

from __future__ import annotations

import json
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest

from analysis.spark.explain import explain, text
from analysis.spark.graph import Network
from brokers.errors import InvalidInput
from brokers.naming import entity_name, message_id, message_name
from scenarios import cli, running

BROKERS = 15  # of `news`; in the trace, clients have the entity ids behind them


def interests_of(run, client):
    return [c for c in run.read("changes").to_pylist() if c["client"] == client + BROKERS and c["operation"] == 1]


def wants(interest, values):
    row = np.reshape(interest["values"], (-1, 3))
    return all(low <= values[int(a)] <= high for a, low, high in row[~np.isnan(row[:, 0])])


def test_a_delivered_message_names_every_hop_and_the_interest_that_matched(news):
    run = news("flooding")
    delivery = run.read("deliveries").to_pylist()[50]
    client = delivery["client"] - BROKERS
    found = explain(run.path, str(delivery["publication"]), client)
    assert found == explain(run.path, found["message"], client)
    assert len(found["hops"]) == 15
    times = [hop["time_ns"] for hop in found["hops"]]
    assert times == sorted(times)
    assert found["hops"][0]["from"] is None
    assert found["hops"][0]["time_ns"] == found["sent_ns"] == delivery["published_ns"]
    assert found["to"]["delivered_ns"] == [delivery["time_ns"]]
    publication = next(
        p for p in run.read("publications").to_pylist() if p["publication"] == delivery["publication"]
    )
    expected = {i["interest"]: wants(i, publication["values"]) for i in interests_of(run, client)}
    assert {i["interest"]: i["matches"] for i in found["to"]["interests"]} == expected
    assert "got it: interest" in found["to"]["said"]


def test_a_client_that_asked_for_something_else_is_told_which_range_says_no(news):
    run = news("flooding")
    for publication in run.read("publications").to_pylist():
        for client in range(6, 36):
            mine = interests_of(run, client)
            settled = [
                i for i in mine if 0 <= i["settled_ns"] < publication["time_ns"] and i["revoked_ns"] < 0
            ]
            if settled and not any(wants(i, publication["values"]) for i in mine):
                said = explain(run.path, str(publication["publication"]), client)["to"]["said"]
                assert said.startswith(f"client {client} did not get it, rightly: interest {client}#")
                assert "asks for" in said
                return
    pytest.fail("every client wanted everything")


def test_a_client_that_never_asked_is_told_so(news):
    run = news("flooding")
    publication = run.read("publications").to_pylist()[0]
    client = publication["client"] - BROKERS
    said = explain(run.path, str(publication["publication"]), client)["to"]["said"]
    assert said == f"client {client} did not get it: it never asked for anything in this service"


@pytest.mark.parametrize("client", [-1, 36, 2**40])
def test_a_client_that_there_is_not_is_refused_and_never_taken_for_one_that_did_not_ask(client, news):
    publication = news("flooding").read("publications")["publication"][0].as_py()
    with pytest.raises(InvalidInput, match=f"no client {client}; they are numbered 0 to 35"):
        explain(news("flooding").path, str(publication), client)


def test_a_message_that_was_lost_on_the_way_names_the_link(news):
    run = news("flooding", loss="4 %")
    network = Network.of(run)
    publications = {p["publication"]: p for p in run.read("publications").to_pylist()}
    for loss in run.read("losses").to_pylist():
        publication = publications.get(loss["body"])
        if publication is None:
            continue
        for client in range(6, 36):
            wanting = [
                i for i in interests_of(run, client)
                if 0 <= i["settled_ns"] < publication["time_ns"] and i["revoked_ns"] < 0
                and wants(i, publication["values"])
            ]  # fmt: skip
            if wanting and network.is_behind(wanting[0]["broker"], loss["link"]):
                found = explain(run.path, str(loss["body"]), client)
                source, target = (
                    network.names[network.source[loss["link"]]],
                    network.names[network.target[loss["link"]]],
                )
                assert f"{source} to {target}" in found["to"]["said"]
                assert found["to"]["delivered_ns"] == []
                return
    pytest.fail("nothing that somebody wanted was lost")


def test_a_change_is_followed_too(news):
    run = news("covering")
    change = max(run.read("changes").to_pylist(), key=lambda c: c["settled_ns"] - c["issued_ns"])
    found = explain(run.path, message_name(change["change"], BROKERS))
    assert (
        max(hop["finish_ns"] for hop in found["hops"])
        == change["settled_ns"]
        == found["change"]["settled_ns"]
    )
    assert "settled" in text(found)


@pytest.mark.parametrize("name", ["x", "1#", "#1", "-5", "1.5"])
def test_what_names_no_message_is_refused(name):
    with pytest.raises(InvalidInput, match="names no message"):
        message_id(name, BROKERS)


def test_names_of_messages_and_ids_are_one_to_one_and_say_client_numbers():
    assert message_name((BROKERS + 37) << 32 | 5, BROKERS) == "37#5"
    assert message_id("37#5", BROKERS) == message_id(str((BROKERS + 37) << 32 | 5), BROKERS)
    server = 14 << 32 | 3
    assert message_name(server, BROKERS) == str(server) and message_id(str(server), BROKERS) == server
    assert [entity_name(entity, BROKERS) for entity in (14, 15)] == ["broker 14", "client 0"]


def test_a_message_that_nobody_sent_and_a_level_without_hops_are_refused(news):
    with pytest.raises(InvalidInput, match="nobody sent a message 9#999"):
        explain(news("flooding").path, "9#999")
    with pytest.raises(InvalidInput, match="'hops' needs 'full'"):
        explain(news("flooding", level="deliveries").path, "9#999")


def test_the_command_explains_without_spark(news, capsys):
    run = news("flooding")
    key = run.read("publications")["publication"][0].as_py()
    assert cli.main(["explain", str(run.path), str(key), "30", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == key
    program = (
        "import sys; from scenarios.cli import main;"
        f"code = main(['explain', {str(run.path)!r}, '{key}', '30']); sys.exit(code or 'pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "client 30" in done.stdout


# ---- what the overlay says ---------------------------------------------------------------------------


def random_network(seed):
    """A connected graph of up to twelve brokers, as networkx and as a run would describe it."""
    size = 1 + seed % 12
    graph = nx.gnm_random_graph(size, size - 1 + seed % 7, seed=seed)
    if not nx.is_connected(graph):
        graph = nx.random_labeled_tree(size, seed=seed)
    edges = sorted(tuple(sorted(edge)) for edge in graph.edges)
    for number, (a, b) in enumerate(edges):
        graph[a][b]["delay"] = 1 + (seed * 31 + number * 17) % 50
    source = np.array([x for a, b in edges for x in (a, b)], np.int64)
    target = np.array([x for a, b in edges for x in (b, a)], np.int64)
    delay = np.array([graph[a][b]["delay"] for a, b in edges for _ in (a, b)], np.int64)
    names = tuple(f"b{i}" for i in range(size))
    return graph, Network(names, source, target, delay, np.zeros_like(delay), np.zeros(size, np.int64))


@pytest.mark.parametrize("seed", range(60))
def test_distances_and_what_lies_behind_a_link_are_as_networkx_finds_them(seed):
    graph, network = random_network(seed)
    for broker in graph:
        by_delay = [nx.dijkstra_path_length(graph, broker, other, "delay") for other in sorted(graph)]
        assert network.distances(broker).tolist() == by_delay
        by_hops = [nx.shortest_path_length(graph, broker, other) for other in sorted(graph)]
        assert network.distances(broker, "hops").tolist() == by_hops
    for link in range(network.source.size):
        cut = graph.copy()
        cut.remove_edge(int(network.source[link]), int(network.target[link]))
        beyond = nx.node_connected_component(cut, int(network.target[link]))
        expected = set(graph) if int(network.source[link]) in beyond else beyond
        assert {b for b in graph if network.is_behind(b, link)} == expected
    longest = max(
        nx.path_weight(graph, path, "delay")
        for a in graph for b in graph for path in nx.all_simple_paths(graph, a, b)
    ) if len(graph) > 1 else 0  # fmt: skip
    assert network.travel_ns_max == longest if network.is_tree else network.travel_ns_max >= longest


def test_latent_links_that_nobody_opens_lead_nowhere():
    """A line of four, with latent links between all who are two apart."""
    ends = np.array([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)])
    source, target, zeros = ends.ravel(), ends[:, ::-1].ravel(), np.zeros(10, np.int64)
    latent = np.repeat(ends[:, 1] - ends[:, 0] == 2, 2)
    plain = ("b0", "b1", "b2", "b3"), source, target, np.full(10, 5), zeros, zeros[:4]
    shut, open_ = (Network(*plain, latent=latent, opens=opens) for opens in (False, True))
    assert shut.is_tree and open_.is_tree and shut.has_latent
    assert shut.distances(0, "hops").tolist() == [0, 1, 2, 3] and open_.distances(0, "hops").tolist() == [0, 1, 1, 2]
    assert [shut.is_behind(b, 4) for b in range(4)] == [False, False, True, True]  # over the link from 1 to 2
    assert all(open_.is_behind(b, 4) for b in range(4))
    assert shut.travel_ns_max == 15


def test_what_faults_took_is_told_with_the_reason(tmp_path):
    cut = "{fault: cut, link: [0, 1], at: 500 ms, lasts: 1 s}"
    crash = "{fault: crash, brokers: [3, 4, 5, 6], at: 1700 ms}"
    faults = f"[{cut}, {crash}]"
    slow = ["services.news.cost.base=5 ms", "trace.level=full", "duration=3 s", f"faults.schedule={faults}"]
    run = running.run("news", overrides=slow, engine="inline", out=tmp_path)
    publications = set(run.read("publications")["publication"].to_pylist())
    losses = [loss for loss in run.read("losses").to_pylist() if loss["body"] in publications]
    for reason, word in ((1, "cut"), (2, "crash")):
        loss = next(each for each in losses if each["reason"] == reason and each["link"] >= 0)
        found = explain(run.path, str(loss["body"]))
        assert word in {each["reason"] for each in found["losses"]} and f"({word})" in text(found)


def test_a_delivery_that_fell_with_its_broker_is_named(tmp_path):
    crash = "[{fault: crash, brokers: [3, 4, 5, 6], at: 1700 ms}]"
    slow = ["services.news.cost.base=5 ms", "trace.level=full", "duration=3 s", f"faults.schedule={crash}"]
    run = running.run("news", overrides=slow, engine="inline", out=tmp_path)
    names = Network.of(run.folder).names
    home = {row["client"]: row["broker"] for row in run.read("changes").to_pylist()}
    nodes, told = len(names), 0
    for body in sorted({loss["body"] for loss in run.read("losses").to_pylist() if loss["link"] < 0}):
        found = explain(run.path, str(body))
        where = {name for each in found["fallen"] for name in each["brokers"]}
        assert where and where <= {names[broker] for broker in (3, 4, 5, 6)}
        assert all(each["reason"] == "crash" and each["time_ns"] > 1_700_000_000 for each in found["fallen"])
        assert f"lost with broker {sorted(where)[0]} (crash)" in text(found)
        for client, broker in home.items():
            if names[broker] in where:
                to = explain(run.path, str(body), client - nodes)["to"]
                wanted = any(each["matches"] and each["when"] == "settled before" for each in to["interests"])
                if wanted:
                    assert not to["delivered_ns"] and f"its broker {names[broker]} crashed" in to["said"]
                    told += 1
    assert told
