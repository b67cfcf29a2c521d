"""Latent links: nobody sees them but who opens them, and what they carry is the same in every way of running."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from brokers.contract import MESSAGE
from brokers.engine.batching import Cutting
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import ProtocolFault
from brokers.faults import CLOSED, CUT_OFF, LINK_DOWN, LINK_UP, NOTHING, OPENED, Open
from protocols.content.flooding import PlainFlooding
from scenarios.loader import from_data, loads
from scenarios.plan import plan, resolve
from scenarios.problems import ScenarioErrors
from tests.brokers.test_engine_checkpoint import (
    continued,
    differing_tables,
    folder_for,
    stopped_at,
    undisturbed,
)

MS = 1_000_000
LINE = """
duration: 2 s
topology: {kind: line, nodes: 6}
links: {delay: 5 ms, latent: {hops: 2}}
clients: {all: {count: 6, placement: even}}
services:
  - name: news
    kind: content
    protocol: flooding
    attributes: 1
    subscriptions: settled
    workload:
      - {source: subscribe, constraints: 1, width: 1}
      - {source: publish, rate: 20/s}
faults:
  detect: 20 ms
  schedule:
    - {fault: crash, brokers: [b2], at: 500 ms, lasts: 700 ms}
"""


class Bridging(PlainFlooding):
    """Floods over all links that are open; opens those around a neighbour that is down, and closes them again."""

    opens = True
    told: ClassVar[list[tuple[int, ...]]] = []

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.own: list[int] = []  # those that it opened itself
        self.seen: list[int] = []

    def on_fault(self, message: Any) -> None:
        node = self.node
        Bridging.told.append((message.time // MS, node.broker, message.type, message.link))
        if message.type == LINK_DOWN:
            # Of the two brokers beside the one that is down, the lower opens.
            beyond = 2 * node.neighbour(message.link) - node.broker
            for link in node.latent:
                if node.neighbour(link) == beyond > node.broker and node.open(message, link):
                    self.own.append(link)
        elif message.type == LINK_UP:
            for link in self.own:
                node.close(message, link)
            self.own = []

    def on_message(self, message: Any) -> None:
        key, node = self.node.key(message), self.node
        if message.type != 0:
            super().on_message(message)
        elif key not in self.seen:
            self.seen.append(key)
            node.deliver(message, node.broker)  # client b is at broker b, and wants everything
            for link in (*node.links, *node.opened):
                if link != message.link:
                    node.forward(message, link)


@pytest.fixture
def bridged(monkeypatch: Any) -> Any:
    """Run a model whose service runs `Bridging`; (tables, what brokers were told)."""
    monkeypatch.setitem(sys.modules, "bridging", sys.modules[__name__])

    def run(text: str = LINE, **how: Any) -> tuple[dict[str, Any], list[tuple[int, ...]], str]:
        model = resolve(loads(text))
        model = replace(model, services=[replace(model.services[0], protocol_target="bridging:Bridging")])
        traces = MemoryTraces("full", tables_of(model))
        Bridging.told.clear()
        digest = simulate(model, trace=traces, **how).digest
        return traces.tables(), sorted(Bridging.told), digest

    return run


def test_latent_links_are_there_for_nobody_who_does_not_open_them():
    plain = LINE.replace(", latent: {hops: 2}", "")
    for protocol in ("flooding", "subscription", "covering"):
        texts = (LINE.replace("flooding", protocol), plain.replace("flooding", protocol))
        with_them, without = (resolve(loads(text)) for text in texts)
        assert with_them.overlay.links == without.overlay.links + 4 and with_them.overlay.latent.sum() == 4
        assert with_them.overlay.is_tree and with_them.overlay.degree.tolist() == without.overlay.degree.tolist()
        found = [simulate(model).metrics for model in (with_them, without)]
        one, other = ((each["network"]["messages"], each["services"]["news"]["deliveries"]) for each in found)
        assert one == other and one[1] > 100


def test_a_neighbour_that_is_down_is_bridged(bridged):
    tables, told, _ = bridged()
    latent = np.flatnonzero(np.repeat(resolve(loads(LINE)).overlay.latent, 2))
    hops, deliveries = tables["hops"], tables["deliveries"]
    over = np.isin(hops["link"], latent) & (hops["type"] == 0) & (hops["kind"] == MESSAGE)
    at = hops["time_ns"][over] // MS
    # Opened 20 ms after the crash, told 10 ms later; closed as long after it is over.
    assert over.sum() > 50 and at.min() >= 525 and at.max() <= 1250
    bridge = [each for each in told if each[2] in (OPENED, CLOSED)]
    assert [(time, broker, type_) for time, broker, type_, _ in bridge] == [(530, 3, OPENED), (1230, 3, CLOSED)]
    # Between the two notices everybody who is up gets everything from both sides.
    names = ("publication", "time_ns", "broker")
    sent = [
        (id_, broker) for id_, time, broker in zip(*(tables["publications"][name].tolist() for name in names))
        if 540 * MS < time < 1100 * MS
    ]  # fmt: skip
    got = set(zip(deliveries["publication"].tolist(), deliveries["broker"].tolist()))
    assert len(sent) > 30
    assert all((id_, broker) in got for id_, _ in sent for broker in (0, 1, 3, 4, 5))


def test_links_that_arise_are_the_same_in_every_way_of_running(bridged):
    _, told, digest = bridged()
    ways = (
        {"cutting": Cutting("one")}, {"cutting": Cutting("random", seed=5)}, {"actors": 2},
        {"actors": 3, "max_window_ns": 3 * MS},
    )  # fmt: skip
    for how in ways:
        found = bridged(**how)
        assert (found[1], found[2]) == (told, digest)


def test_links_that_are_open_are_open_after_a_stop(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "bridging", sys.modules[__name__])
    model = resolve(loads(LINE))
    model = replace(model, services=[replace(model.services[0], protocol_target="bridging:Bridging")])
    whole, result = undisturbed(tmp_path / "whole", model)
    halves = folder_for(tmp_path / "halves", model)
    stopped_at(0.45, model, halves.path, 2)  # the bridge is open from 520 to 1220 ms
    resumed = continued(model, halves.path, 3)
    assert resumed.digest == result.digest
    assert differing_tables(whole, halves.finish(resumed.digest)) == []


def test_nobody_opens_more_than_it_may(bridged):
    text = LINE.replace("hops: 2", "hops: 2, most: 1").replace("[b2], at: 500 ms", "[b1, b3], at: 500 ms")
    _, told, _ = bridged(text)
    # Brokers 0 and 2 would bridge b1, 2 and 4 b3: but 2 has one open then, and closes the other at once.
    refused = [each for each in told if each[2] == CLOSED and each[0] < 600]
    assert sum(each[2] == OPENED for each in told) == 1 and len(refused) <= 1


def test_a_schedule_opens_and_closes_and_both_ends_are_told(bridged):
    entry = "    - {fault: open, link: [b0, b2], at: 300 ms, lasts: 50 ms}\n"
    _, told, _ = bridged(LINE + entry)
    mine = [each[:3] for each in told if each[2] in (OPENED, CLOSED) and each[0] < 500]
    assert mine == [(300, 0, OPENED), (300, 2, OPENED), (350, 0, CLOSED), (350, 2, CLOSED)]
    model = resolve(loads(LINE + entry))
    assert [type(each) for each in model.faults.opens] == [Open] and len(model.faults.faults) == 1
    assert "300 ms to 350 ms  open: link b0–b2 open" in "\n".join(plan(loads(LINE + entry)).faults)


def test_what_goes_over_a_cut_latent_link_is_lost(bridged):
    text = LINE + "    - {fault: cut, link: [b1, b3], at: 700 ms, lasts: 100 ms}\n"
    tables, told, _ = bridged(text)
    latent = np.flatnonzero(np.repeat(resolve(loads(text)).overlay.latent, 2))
    losses = tables["losses"]
    assert ((losses["reason"] == CUT_OFF) & np.isin(losses["link"], latent)).sum() > 3
    # Only the ends of an open link hear that it is down.
    assert {each[1] for each in told if each[3] in latent and each[2] in (LINK_DOWN, LINK_UP)} == {1, 3}


class Watching(Bridging):
    watches = True


def test_who_watches_hears_of_latent_links_that_are_closed(bridged, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "Bridging", Watching)
    Watching.told.clear()
    _, told, _ = bridged()
    latent = np.flatnonzero(np.repeat(resolve(loads(LINE)).overlay.latent, 2))
    down = [each for each in told if each[2] == LINK_DOWN and each[3] in latent]
    # b2 is down: of latent links those to b0 and b4 lead there, and nobody opens them.
    assert [each[:2] for each in down] == [(520, 0), (520, 4)]


def test_who_forgot_what_it_knew_is_told_again_what_is_down(bridged):
    entry = "    - {{fault: crash, brokers: [b3], at: 600 ms, lasts: 100 ms, state: {}}}\n"
    for state, again in (("kept", False), ("stored", True), ("lost", True)):
        _, told, _ = bridged(LINE + entry.format(state))
        heard = [each[0] for each in told if each[1] == 3 and each[2] == LINK_DOWN]
        assert heard == [520, *([700] if again else [])]


class Sending(PlainFlooding):
    opens = True

    def on_message(self, message: Any) -> None:
        self.node.forward(message, self.node.latent[0])


def test_what_is_sent_over_a_closed_link_is_the_fault_of_the_protocol(monkeypatch):
    monkeypatch.setitem(sys.modules, "sending", sys.modules[__name__])
    model = resolve(loads(LINE))
    model = replace(model, faults=NOTHING, services=[replace(model.services[0], protocol_target="sending:Sending")])
    with pytest.raises(ProtocolFault, match=r"is closed; node\.open it"):
        simulate(model)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("{pairs: [[b0, b1]]}", "have a link already"),
        ("{pairs: [[b0, b9]]}", "b9"),
        ("{hops: 1}", "at least 2"),
        ("{hops: 2, most: 0}", "at least 1"),
        ("{hop: 2}", "unknown key"),
        ("{drawn: 0}", "at least 1"),
        ("{}", "names no links: say `pairs`, `hops`, `drawn` or `all`"),
        ("{pairs: [], most: 1}", "names no links: say `pairs`, `hops`, `drawn` or `all`"),
    ],
)
def test_what_is_wrong_with_latent_links_is_told(said, why):
    with pytest.raises(ScenarioErrors, match=why):
        resolve(loads(LINE.replace("{hops: 2}", said)))


def test_a_schedule_opens_latent_links_only():
    with pytest.raises(ScenarioErrors, match="is no latent link"):
        resolve(loads(LINE + "    - {fault: open, link: [b0, b1], at: 300 ms}\n"))


def test_delays_are_those_of_the_quickest_way_unless_given_and_the_section_reads_back():
    overlay = resolve(loads(LINE)).overlay
    assert set(overlay.delay_ns[overlay.latent].tolist()) == {10 * MS}
    scenario = loads(LINE.replace("{hops: 2}", "{pairs: [[b0, b5]], delay: 7 ms, most: 3}"))
    overlay = resolve(from_data(scenario.resolved())).overlay
    assert overlay.delay_ns[overlay.latent].tolist() == [7 * MS] and overlay.open_most == 3
    assert "latent" not in loads(LINE.replace(", latent: {hops: 2}", "")).resolved()["links"]


def test_candidates_are_drawn_for_each_broker_by_the_seed():
    def ends(seed):
        said = "{drawn: 4, delay: {kind: uniform, low: 10 ms, high: 50 ms}}"
        text = f"seed: {seed}\n" + LINE.replace("nodes: 6", "nodes: 30").replace("{hops: 2}", said)
        overlay = resolve(loads(text)).overlay
        latent = overlay.latent
        assert np.all((overlay.delay_ns[latent] >= 10 * MS) & (overlay.delay_ns[latent] <= 50 * MS))
        assert len(set(overlay.delay_ns[latent].tolist())) > 50
        return list(zip(overlay.link_a[latent].tolist(), overlay.link_b[latent].tolist()))

    one = ends(1)
    assert one == ends(1) != ends(2)
    count = np.bincount(np.array(one).ravel(), minlength=30)
    assert count.min() >= 4 and 60 <= len(one) == len(set(one)) <= 120
    assert all(b - a > 1 for a, b in one)  # neighbours have a link already
