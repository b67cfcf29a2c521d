"""What a protocol may not do, and what the engine says when it does. Lookahead is never just assumed."""

from __future__ import annotations

import dataclasses
import re
import sys
from typing import Any, ClassVar

import numpy as np
import pytest

import topology.partition
from brokers.contract import NEVER, BrokerProtocol, Message, ShardProtocol
from brokers.engine.batching import Cutting
from brokers.engine.shard import Shard
from brokers.engine.simulate import MemoryTraces, simulate
from brokers.errors import InvalidInput, ProtocolFault
from protocols.conformance import REHEARSALS, join, rehearse, service_of


class Careless(BrokerProtocol):
    """Does what `act` says with the first publication."""

    kind: ClassVar[str] = "content"
    timer_min_ns = 5_000

    @staticmethod
    def act(node: Any, message: Message) -> None:
        raise NotImplementedError

    def on_message(self, message: Message) -> None:
        self.act(self.node, message)


def fault_of(act, protocol: Any = Careless, beside: bool = False) -> str:
    """What the engine says of a protocol that does this."""
    careless = type("Careless", (protocol,), {"act": staticmethod(act)})
    net = join(careless, [(0, 1), (1, 2)])
    net.send(0, "publish", [1.0, 2.0])
    model = net.model()
    if beside:
        model.services.insert(0, service_of("flooding", "beside", sources=model.services[0].sources))
    with pytest.raises(ProtocolFault) as caught:
        simulate(model)
    return str(caught.value)


def test_a_send_over_another_brokers_link_names_broker_and_link():
    said = fault_of(lambda node, message: node.forward(message, 2))
    assert said == "broker b0 (0) sent over link 2 (b1 to b2), which is not one of its own"


@pytest.mark.parametrize("link", [-1, 4, 10**9])
def test_a_send_over_a_link_that_is_not_there_names_it(link):
    said = fault_of(lambda node, message: node.forward(message, link))
    assert str(link) in said
    assert "there are links 0 to 3" in said


@pytest.mark.parametrize("client", [-1, 1, 3, 10**9])
def test_a_delivery_to_a_client_of_another_broker_names_both(client):
    said = fault_of(lambda node, message: node.deliver(message, client))
    assert said == f"broker 0 delivered to client {client}, which is not attached to it"


@pytest.mark.parametrize("delay_ns", [-1, 0, 1, 4_999])
def test_a_timer_below_the_declared_minimum_names_both(delay_ns):
    said = fault_of(lambda node, message: node.timer(message, delay_ns, 16))
    assert f"a timer of {delay_ns} ns, below its declared timer_min_ns of 5000 ns" in said


def test_a_first_timer_below_the_declared_minimum_is_refused():
    early = type("Early", (Careless,), {"first_timers": lambda self: [(4_999, 16, 0)]})
    net = join(early, [(0, 1)])
    net.send(0, "publish", [1.0])
    with pytest.raises(ProtocolFault, match="first timer of 4999 ns is below timer_min_ns"):
        net.result()


def test_a_negative_service_time_is_refused():
    assert "negative service time (-1 ns)" in fault_of(lambda node, message: node.cost(message, -1))


class Shardwide(ShardProtocol):
    """Does what `act` says with a batch."""

    kind: ClassVar[str] = "content"

    def handle(self, batch: Any, out: Any) -> None:
        self.act(batch, out)  # type: ignore[attr-defined]


OUTPUTS = {
    "forward": lambda out, event: out.forward(np.array([event]), np.array([0])),
    "send": lambda out, event: out.send(event, 0, 16),
    "deliver": lambda out, event: out.deliver(event, 0),
    "deliver in columns": lambda out, event: out.deliver(np.array([event]), np.array([0])),
    "timer": lambda out, event: out.timer(event, 1_000_000, 16),
    "cost": lambda out, event: out.cost(event, 5),
}


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another service"])
@pytest.mark.parametrize("event", [-1, 1, 500])
@pytest.mark.parametrize("output", OUTPUTS)
def test_an_output_for_an_event_outside_its_batch_is_refused(output, event, beside):
    said = fault_of(lambda batch, out: OUTPUTS[output](out, event), Shardwide, beside)
    assert f"an output names event {event}, but the batch has 1 events" in said


@pytest.mark.parametrize("type_", [-1, 1 << 20])
def test_a_message_type_that_fits_no_trace_is_refused(type_):
    assert "type" in fault_of(lambda node, message: node.send(message, node.links[0], type_))


def test_columns_of_different_lengths_are_refused():
    said = fault_of(lambda batch, out: out.send(np.zeros(2, int), np.zeros(3, int), 16), Shardwide)
    assert "2 events but 3 values" in said


def test_scalars_and_arrays_of_one_stretch_to_the_length_of_the_others():
    class Stretching(ShardProtocol):
        kind: ClassVar[str] = "content"

        def handle(self, batch: Any, out: Any) -> None:
            for event in np.flatnonzero(batch.link < 0).tolist():
                links = self.env.links.out_link[
                    self.env.links.out_start[batch.broker[event]] : self.env.links.out_start[
                        batch.broker[event] + 1
                    ]
                ]
                out.forward(event, links)
                out.send(np.array([event]), links, np.array([17]), word=links)
                out.deliver(event, np.flatnonzero(self.env.client_broker == batch.broker[event]))

    net = join(Stretching, [(0, 1), (0, 2)], clients=[0, 0, 1])
    net.send(0, "publish", [1.0])
    assert [(hop.type, hop.word) for hop in net.over(0, 1)] == [(0, 0), (17, 0)]
    assert [(hop.type, hop.word) for hop in net.over(0, 2)] == [(0, 0), (17, 2)]
    assert [d.client for d in net.deliveries()] == [0, 1]


def test_what_is_neither_view_of_a_protocol_is_refused():
    stranger = type("Stranger", (), {"kind": "content"})
    with pytest.raises(InvalidInput, match="does not derive from BrokerProtocol or ShardProtocol"):
        join(stranger, [(0, 1)])


def test_a_message_between_shards_that_comes_too_late_names_its_link(monkeypatch):
    """The partition promises more lookahead than the links it cuts allow."""
    honest = topology.partition.partition

    def boastful(overlay, shards, method, **options):
        found = honest(overlay, shards, method, **options)
        return dataclasses.replace(found, lookahead_ns=40 * found.lookahead_ns)

    model = rehearse(REHEARSALS[0], "flooding")
    assert simulate(model, actors=3).digest == simulate(model).digest
    monkeypatch.setattr(topology.partition, "partition", boastful)
    brokers = model.overlay.brokers
    for actors in (3, brokers):
        with pytest.raises(ProtocolFault) as caught:
            simulate(model, actors=actors)
        assert re.match(r"lookahead violated: a message over link \d+ \(b\d to b\d\) ", str(caught.value))
    # where every broker is a shard of its own it can only have come in a blob
    assert re.search(
        r"for \d+ ns came when its target had handled everything up to \d+ ns$", str(caught.value)
    )


@pytest.mark.parametrize("compiled", ["never", "rounds"])
def test_a_message_within_a_shard_that_comes_too_late_names_its_link(compiled):
    """One link is taken for slower than it is, so that horizons reach too far."""
    model = rehearse(REHEARSALS[0], "flooding")
    cutting = Cutting(compiled=compiled)
    shard = Shard(model, 0, np.zeros(model.overlay.brokers, np.int32), MemoryTraces("none")(0), cutting)
    link = int(np.argmax(shard.links.table.delay_ns))
    shard.links.in_delay[shard.links.table.in_link == link] += 10**9
    with pytest.raises(ProtocolFault, match="lookahead violated: a message over link") as caught:
        while (now := shard.next_time()) < NEVER:
            shard.window(now + 10**9, [b""])
    names = model.overlay.names
    source, target = names[shard.links.table.source[link]], names[shard.links.table.target[link]]
    assert f"link {link} ({source} to {target})" in str(caught.value)


def test_a_protocol_that_ends_the_program_is_named():
    said = fault_of(lambda node, message: sys.exit(0))
    assert said.startswith("service 'service': its protocol raised SystemExit: 0 (test_engine_faults.py:")


def test_a_protocol_that_ends_the_program_while_it_is_set_up_is_named():
    def leave(self, node):
        sys.exit("no more")

    net = join(type("Leaver", (Careless,), {"__init__": leave}), [(0, 1)])
    with pytest.raises(ProtocolFault, match=r"called sys.exit\('no more'\) \(test_engine_faults.py:.*the services are"):
        net.result()


def test_a_body_that_cannot_be_sent_is_the_protocols_fault_and_says_what_is_wrong_in_it():
    said = fault_of(lambda node, message: node.send(message, 0, 16, {"to": {1, 2}}))
    assert "its protocol: body.to: type set cannot be sent" in said
