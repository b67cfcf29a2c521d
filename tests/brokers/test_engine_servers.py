"""A service with a server: a node of its own, the same trace however it is carried."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.contract import LinkTable
from brokers.engine.model import Model, ServiceSpec, SourceSpec
from brokers.engine.runfolder import create_run, same_rows
from brokers.engine.simulate import FileTraces, MemoryTraces, simulate
from brokers.errors import ProtocolFault
from protocols.conformance import Variant, check_digests, overlay_of, variants
from topology.errors import TopologyError
from topology.partition import partition
from topology.servers import Server, with_servers, without_servers

MS = 1_000_000
TREE = [(0, 1), (1, 2), (1, 3), (3, 4)]


class Stopped(Exception):
    """Stands for whatever ends a process."""


def model_of(protocol: str = "asks:Asks", beside: bool = False) -> Model:
    """Five brokers, a client at each, and a server at broker 3; `beside`: a content service on the same brokers."""
    overlay = with_servers(overlay_of(TREE, 4 * MS), [Server("desk", 3, 2 * MS)])
    times = [[(10 + 7 * i + 3 * c) * MS for i in range(12)] for c in range(5)]
    emissions = [
        {"type": 0, "time": t, "client": [c] * 12, "word": [0] * 12, "rows": [[0.5] * 4] * 12}
        for c, t in enumerate(times)
    ]
    source = SourceSpec("protocols.conformance:Script", {"emissions": emissions}, "all")
    services = [
        ServiceSpec("asking", "asks:Asking", protocol, None, params={"attributes": 4}, sources=[source], server=5)
    ]
    if beside:
        flooding = "protocols.content.flooding:Flooding"
        kind, index = "protocols.content.kind:Content", "brokers.indexes.content.scan:Scan"
        services.append(ServiceSpec("news", kind, flooding, index, params={"attributes": 4}, sources=[source]))
    clients = np.arange(5, dtype=np.int32)
    return Model("served", 1, 150 * MS, overlay, clients, {"all": (0, 5)}, services)


def test_every_way_of_running_gives_the_same_trace(outside):
    model = model_of(beside=True)
    assert check_digests(model, variants(model)) == []


def test_everybody_hears_each_answer_and_other_services_never_meet_the_server(outside):
    traces = MemoryTraces("full")
    simulate(model_of(beside=True), trace=traces)
    tables = traces.tables()
    asked = tables["deliveries"]["service"] == 0
    assert asked.sum() == 5 * 60
    at_server = tables["hops"]["broker"] == 5
    assert at_server.sum() == 2 * 60  # questions, and timers
    assert (tables["hops"]["service"][at_server] == 0).all()


@pytest.mark.ray
def test_on_ray_the_server_has_an_actor_of_its_own(outside):
    pytest.importorskip("ray")
    model = model_of()
    assert check_digests(model, [Variant("here"), Variant("Ray", actors=2, engine="ray")]) == []


def test_thinking_goes_on_from_a_checkpoint(outside, tmp_path):
    model = model_of()

    def folder(name: str):
        return create_run(tmp_path / name, model.name, {}, scenario={}, seed=1, level="full")

    whole, halves = folder("whole"), folder("halves")
    expected = simulate(model, trace=FileTraces(str(whole.path), "full"))

    def stop(now_ns: int, events: int, under_way: int) -> None:
        if now_ns >= 60 * MS:
            raise Stopped

    with pytest.raises(Stopped):
        simulate(model, actors=2, trace=FileTraces(str(halves.path), "full"), progress=stop,
                checkpoint_every_s=0.0, max_window_ns=MS)
    resumed = simulate(model, actors=3, trace=FileTraces(str(halves.path), "full"), resume=True)
    assert resumed.digest == expected.digest
    one, other = whole.finish(expected.digest), halves.finish(resumed.digest)
    assert [t for t in one.model_tables() if not same_rows(one.read(t), other.read(t))] == []


def test_a_protocol_without_a_class_for_its_server_is_told_so(outside):
    with pytest.raises(ProtocolFault, match="Unserved names no class for its server"):
        simulate(model_of("asks:Unserved"))


# ---- the overlay -------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 12), st.lists(st.integers(0, 100), min_size=1, max_size=4), st.integers(1, 4), st.booleans())
def test_servers_come_last_and_keep_out_of_the_way(brokers, at, shards, apart):
    plain = overlay_of([(i // 2, i) for i in range(1, brokers)], 5)
    servers = [Server(f"s{i}", b % brokers, 7, 1, 8, 0.25) for i, b in enumerate(at)]
    both = with_servers(plain, servers)
    assert (both.nodes, both.brokers, both.servers) == (brokers + len(at), brokers, len(at)) and both.is_tree
    for i, b in enumerate(at):
        link = int(np.flatnonzero(both.link_b == brokers + i)[0])
        found = both.link_a[link], both.delay_ns[link], both.jitter_ns[link], both.bandwidth_bps[link]
        assert (*found, both.loss[link]) == (b % brokers, 7, 1, 8, 0.25)
    again = without_servers(both)
    assert again.names == plain.names and np.array_equal(again.link_b, plain.link_b)
    links = LinkTable.of(both, frozenset(range(brokers, both.nodes)))
    assert (links.out_start[brokers:] == links.out_start[brokers]).all()
    assert not np.isin(links.target[links.out_link], range(brokers, both.nodes)).any()
    shards = min(shards, brokers)
    parts = partition(both, shards, apart=apart)
    assert np.array_equal(parts.assignment[:brokers], partition(plain, shards).assignment)
    own = parts.assignment[brokers:].tolist()
    assert own == ([shards + i for i in range(len(at))] if apart else [0] * len(at))


def test_a_server_needs_a_broker_that_exists():
    with pytest.raises(TopologyError, match="there is no broker 9"):
        with_servers(overlay_of(TREE), [Server("desk", 9, 1)])


def test_an_overlay_without_servers_stays_as_it_is():
    overlay = overlay_of(TREE)
    assert with_servers(overlay, []) is overlay and without_servers(overlay) is overlay
    assert replace(overlay).servers == 0
