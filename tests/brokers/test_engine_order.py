"""The order in which a broker handles what reaches it: time, kind, source, sequence; links are FIFO."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from brokers.contract import TIMER, BrokerProtocol, Message
from brokers.engine.batching import Cutting
from brokers.engine.simulate import MemoryTraces, simulate
from protocols.conformance import REHEARSALS, join, rehearse

TIES, STRAINED, LOSSY = REHEARSALS[1], REHEARSALS[2], REHEARSALS[3]
CUTTINGS = [Cutting("one"), Cutting(), Cutting("random", limit=30, seed=8)]


def hops_of(model, cutting=None):
    traces = MemoryTraces("full")
    simulate(model, trace=traces, cutting=cutting)
    return traces.tables()["hops"]


@pytest.mark.parametrize("cutting", CUTTINGS, ids=lambda c: c.mode)
@pytest.mark.parametrize("rehearsal", [TIES, STRAINED], ids=lambda r: r.name)
def test_a_broker_handles_its_events_by_time_kind_source_and_sequence(rehearsal, cutting, outside):
    hops = hops_of(rehearse(rehearsal, "pings:Pings"), cutting)
    keys = np.stack([hops[name] for name in ("time_ns", "kind", "source", "sequence")], axis=1)
    for broker in np.unique(hops["broker"]):
        handled = [tuple(row) for row in keys[hops["broker"] == broker].tolist()]
        assert handled == sorted(handled)
        assert len(set(handled)) == len(handled)


def test_a_sender_numbers_its_sends_without_gaps_where_nothing_is_lost(outside):
    hops = hops_of(rehearse(TIES, "pings:Pings"))
    for source in np.unique(hops["source"]):
        numbers = np.sort(hops["sequence"][hops["source"] == source])
        assert np.array_equal(numbers, np.arange(numbers.size))


@pytest.mark.parametrize("rehearsal", [STRAINED, LOSSY], ids=lambda r: r.name)
def test_no_message_overtakes_another_on_its_link_under_jitter(rehearsal):
    model = rehearse(rehearsal, "flooding")
    hops = hops_of(model)
    met = 0
    for link in range(2 * model.overlay.links):
        rows = np.flatnonzero(hops["link"] == link)
        rows = rows[np.argsort(hops["sequence"][rows])]
        assert (np.diff(hops["time_ns"][rows]) >= 0).all()
        met += int((np.diff(hops["time_ns"][rows]) == 0).sum())
    assert met > 0  # some were held back by the one ahead of them


def test_jitter_only_adds_to_a_links_delay_and_never_more_than_its_bound():
    model = rehearse(replace(LOSSY, links={**LOSSY.links, "loss": 0.0}, publications=300), "flooding")
    hops = hops_of(model)
    finish = {
        (int(b), int(k)): int(f) for b, k, f in zip(hops["broker"], hops["body"], hops["finish_ns"]) if k >= 0
    }
    waits, bounds = [], []
    onward = np.flatnonzero((hops["link"] >= 0) & (hops["type"] == 0))
    for row in onward.tolist():
        link = int(hops["link"][row])
        left = finish[int(hops["source"][row]), int(hops["body"][row])]
        waits.append(int(hops["time_ns"][row]) - left - int(model.overlay.delay_ns[link // 2]))
        bounds.append(int(model.overlay.jitter_ns[link // 2]))
    extra = np.array(waits)
    assert extra.min() >= 0
    assert (extra <= np.array(bounds)).all()
    assert extra.max() > 0.9 * max(bounds)
    assert 0.4 < extra.mean() / max(bounds) < 0.65  # uniform, and a little more where FIFO holds one back


def test_losses_come_as_often_as_a_link_says():
    model = rehearse(replace(LOSSY, links={**LOSSY.links, "loss": 0.3}, publications=3000), "flooding")
    network = simulate(model).metrics["network"]
    share = network["lost"] / network["messages"]
    assert abs(share - 0.3) < 4 * (0.3 * 0.7 / network["messages"]) ** 0.5
    assert network["in_flight_at_end"] == 0


WAKE = 16


class Clockwork(BrokerProtocol):
    """Wakes 1,000 and 2,500 ns after every message, and notes what it handled, in order."""

    kind: ClassVar[str] = "content"
    timer_min_ns = 1_000

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.log: list[tuple[int, int, int]] = []

    def on_message(self, message: Message) -> None:
        self.log.append((message.time, message.kind, message.word))
        if message.kind != TIMER:
            for link in self.node.links:
                if link != message.link:
                    self.node.forward(message, link)
            self.node.timer(message, 2_500, WAKE, 2)
            self.node.timer(message, 1_000, WAKE, 1)

    def describe(self) -> dict[str, Any]:
        return {"log": self.log}


def test_a_timer_fires_after_its_delay_and_after_the_messages_of_that_instant():
    net = join(Clockwork, [(0, 1)], delay_ns=700)
    net.send(0, "publish", [1.0], at_ns=10_000)
    net.send(0, "publish", [1.0], at_ns=11_000)
    message, timer = 1, TIMER
    assert net.describe(0)["log"] == [
        (10_000, message, 0),
        (11_000, message, 0),
        (11_000, timer, 1),
        (12_000, timer, 1),
        (12_500, timer, 2),
        (13_500, timer, 2),
    ]
    assert net.describe(1)["log"] == [
        (10_700, message, 0),
        (11_700, message, 0),
        (11_700, timer, 1),
        (12_700, timer, 1),
        (13_200, timer, 2),
        (14_200, timer, 2),
    ]


def test_a_timer_fires_at_its_time_however_long_the_brokers_queue_is():
    """State changes at an event's place in the order; the queue only dates what is sent."""
    net = join(Clockwork, [(0, 1)], delay_ns=700, cost={"base": 1e9})
    net.send(0, "publish", [1.0], at_ns=10_000)
    assert [entry[0] for entry in net.describe(0)["log"]] == [10_000, 11_000, 12_500]
    assert [entry[0] for entry in net.describe(1)["log"]] == [1_000_010_700, 1_000_011_700, 1_000_013_200]


def test_timers_of_one_instant_fire_in_the_order_in_which_they_were_set():
    net = join(Clockwork, [(0, 1)], delay_ns=700)
    for _ in range(3):
        net.send(0, "publish", [1.0], at_ns=5_000)
    assert net.describe(0)["log"][3:] == [(6_000, TIMER, 1)] * 3 + [(7_500, TIMER, 2)] * 3
    hops = net._traces.tables()["hops"]
    timers = (hops["broker"] == 0) & (hops["kind"] == TIMER)
    assert (np.diff(hops["sequence"][timers]) > 0).sum() == 4


def test_messages_that_tie_are_handled_by_the_number_of_their_sender():
    """Broker 0 hears from 3, 2 and 1 and from two clients at one instant: brokers first, by number."""
    net = join(Clockwork, [(0, 1), (0, 2), (0, 3)], clients=[0, 3, 2, 1, 0], delay_ns=500)
    for client, at in ((1, 10_000), (2, 10_000), (3, 10_000), (4, 10_500), (0, 10_500)):
        net.send(client, "publish", [1.0], word=client, at_ns=at)
    arrived = [word for time, kind, word in net.describe(0)["log"] if time == 10_500 and kind != TIMER]
    assert arrived == [3, 2, 1, 0, 4]
