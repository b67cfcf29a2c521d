"""Queues with so many places: what the engine knows ahead is what a loop finds that meets messages one by one."""

from __future__ import annotations

import heapq
import sys
import types
from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from brokers.engine.batching import Cutting
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import ProtocolFault
from brokers.faults import CRASHED, NO_PLACE, NO_PLACE_AHEAD, NOTHING
from brokers.kinds import manifests
from brokers.limits import NEWEST, OLDEST, REFUSE, WAYS, Limits
from protocols.conformance import REHEARSALS, rehearse
from protocols.content.flooding import PlainFlooding
from scenarios.loader import loads
from scenarios.plan import resolve
from tests.brokers.test_outages import some_of_everything

MS = 1_000_000
STRAINED = REHEARSALS[2]
PROTOCOLS = [name for kind in manifests() for name in kind.protocols]
HOW: dict[str, dict[str, Any]] = {
    "one at a time": {"cutting": Cutting("one")},
    "cut at random": {"cutting": Cutting("random", seed=5)},
    "rounds in Python": {"cutting": Cutting(compiled="never")},
    "compiled": {"cutting": Cutting(compiled="rounds")},
    "two shards": {"actors": 2},
    "three shards, short windows": {"actors": 3, "max_window_ns": 3 * MS},
    "two threads": {"actors": 2, "engine": "threads"},
}
BUSY = """
duration: 400 ms
topology: {kind: random-tree, nodes: 7}
links: {delay: {kind: uniform, low: 1 ms, high: 9 ms}}
clients: {all: {count: 10}}
services:
  - name: news
    kind: content
    protocol: flooding
    attributes: 2
    subscriptions: settled
    cost: {base: 4 ms}
    workload:
      - {source: subscribe, constraints: 1, width: 1}
      - {source: publish, rate: 40/s}
"""
DONE, COMES = range(2)  # in this order at one instant
WAITED, NEW = range(2)  # and so on one link


def one_by_one(model: Any, publications: Any) -> tuple[Counter[Any], Counter[Any]]:
    """(what was handled: broker, when it was begun with or came, name; what was dropped: link, name) in a loop."""
    overlay, cost = model.overlay, int(model.services[0].cost["base"])
    places, full = model.limits.places, model.limits.full
    source = np.stack([overlay.link_a, overlay.link_b], 1).ravel()
    target = np.stack([overlay.link_b, overlay.link_a], 1).ravel()
    events: list[tuple[Any, ...]] = [(time, COMES, b, order, NEW, -1, name) for time, b, order, name in publications]
    heapq.heapify(events)
    held: list[list[Any]] = [[] for _ in places]  # the first of each is being served
    blocked: list[list[Any]] = [[] for _ in places]  # links that wait: (since, order, link)
    behind: dict[int, list[Any]] = {}  # what waits on such a link
    handled: Counter[Any] = Counter()
    dropped: Counter[Any] = Counter()

    def begin(b: int, time: int) -> None:
        """A broker turns to the first that it holds."""
        heapq.heappush(events, (time + cost, DONE, b, 0, NEW, -1, -1))

    def take(b: int, time: int, link: int, name: int) -> None:
        """A message gets a place."""
        held[b].append((link, name))
        if full != OLDEST:
            handled[b, time, name] += 1
        if len(held[b]) == 1:
            if full == OLDEST:
                handled[b, time, name] += 1
            begin(b, time)

    while events:
        time, what, b, order, _, link, name = heapq.heappop(events)
        if what == DONE:
            came_by, done = held[b].pop(0)
            for over in np.flatnonzero(source == b).tolist():
                if over != came_by ^ 1 or came_by < 0:
                    arrives = time + int(overlay.delay_ns[over // 2])
                    heapq.heappush(events, (arrives, COMES, int(target[over]), b, NEW, over, done))
            if held[b]:
                if full == OLDEST:
                    handled[b, time, held[b][0][1]] += 1
                begin(b, time)
            for _, _, waiting in sorted(blocked[b])[:1]:  # the place is theirs who have waited longest
                blocked[b] = [each for each in blocked[b] if each[2] != waiting]
                take(b, time, waiting, behind[waiting].pop(0))
                if behind[waiting]:
                    order, follows = int(source[waiting]), behind[waiting].pop(0)
                    heapq.heappush(events, (time, COMES, b, order, WAITED, waiting, follows))
            continue
        waits = any(each[2] == link for each in blocked[b]) if link >= 0 else False
        if waits:
            behind[link].append(name)
        elif len(held[b]) < places[b]:
            take(b, time, link, name)
            if behind.get(link):
                heapq.heappush(events, (time, COMES, b, order, WAITED, link, behind[link].pop(0)))
        elif full == REFUSE and link >= 0:
            blocked[b].append((time, order, link))
            behind[link] = [name, *behind.get(link, [])]
        elif full == OLDEST and len(held[b]) > 1:
            by, oldest = held[b].pop(1)
            dropped[by, oldest] += 1
            take(b, time, link, name)
        else:
            dropped[link, name] += 1
    return handled, dropped


@pytest.mark.parametrize("full", [NEWEST, OLDEST, REFUSE], ids=WAYS)
@pytest.mark.parametrize("places", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_what_finds_no_place_is_what_a_loop_drops(full, places, seed):
    model = resolve(loads(BUSY, [f"seed={seed}"]))
    model = replace(model, limits=Limits((places,) * model.overlay.brokers, full))
    traces = MemoryTraces("full", tables_of(model))
    result = simulate(model, trace=traces)
    tables = traces.tables()
    every = tables["publications"]
    named = ("time_ns", "broker", "client", "publication")
    handled, dropped = one_by_one(model, list(zip(*(every[name].tolist() for name in named))))
    hops, losses = tables["hops"], tables["losses"]
    assert Counter(zip(*(hops[name].tolist() for name in ("broker", "time_ns", "body")))) == handled
    assert Counter(zip(losses["link"].tolist(), losses["body"].tolist())) == dropped
    assert set(losses["reason"].tolist()) <= {NO_PLACE} and (full == REFUSE or len(losses["link"]) > 20)
    assert result.metrics["network"]["dropped"] == len(losses["link"])
    assert result.metrics["network"]["in_flight_at_end"] == 0


@pytest.mark.parametrize("full", [NEWEST, OLDEST, REFUSE], ids=WAYS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_queues_do_the_same_in_every_way_of_running(protocol, full):
    model = rehearse(STRAINED, protocol)
    places = [3] * model.overlay.brokers + [0] * (model.overlay.nodes - model.overlay.brokers)
    plain = replace(model, limits=Limits((0,) * model.overlay.nodes))
    model = replace(model, limits=Limits(tuple(places), full))
    traces = MemoryTraces("full", tables_of(model))
    digest = simulate(model, trace=traces).digest
    assert digest != simulate(plain).digest
    how = HOW
    if protocol not in ("flooding", "subscription"):
        how = {name: HOW[name] for name in ("one at a time", "rounds in Python", "three shards, short windows")}
    assert {name: simulate(model, **ways).digest for name, ways in how.items()} == dict.fromkeys(how, digest)


@pytest.mark.parametrize("full", [NEWEST, OLDEST, REFUSE], ids=WAYS)
@pytest.mark.parametrize("protocol", ["flooding", "subscription"])
def test_full_queues_and_faults_together(protocol, full):
    model = rehearse(STRAINED, protocol)
    places = (3,) * model.overlay.brokers
    model = replace(model, limits=Limits(places, full, messages=2), faults=some_of_everything(model, 7))
    traces = MemoryTraces("full", tables_of(model))
    result = simulate(model, trace=traces)
    found = set(traces.tables()["losses"]["reason"].tolist())
    assert {CRASHED, NO_PLACE} <= found or full == REFUSE
    assert {name: simulate(model, **ways).digest for name, ways in HOW.items()} == dict.fromkeys(HOW, result.digest)
    assert result.metrics["network"]["in_flight_at_end"] == 0


def test_what_finds_no_place_in_front_of_a_link_is_lost():
    said = ["links.bandwidth=100 kbit/s", "services.0.cost.base=0 ns"]
    model = resolve(loads(BUSY, said))
    lost = {}
    for name, limits in {"messages": Limits(messages=2), "bytes": Limits(bytes=100), "none": Limits()}.items():
        traces = MemoryTraces("full", tables_of(model))
        simulate(replace(model, limits=limits), trace=traces)
        losses = traces.tables().get("losses")
        lost[name] = 0 if losses is None else len(losses["link"])
        assert not lost[name] or set(losses["reason"].tolist()) == {NO_PLACE_AHEAD}
    assert lost["messages"] > 10 and lost["bytes"] > 10 and lost["none"] == 0


ONE = """
duration: 400 s
drain: 10 s
topology: {kind: line, nodes: 1}
clients: {all: {count: 1}}
services:
  - name: news
    kind: content
    protocol: flooding
    attributes: 1
    cost: {base: 10 ms}
    workload:
      - {source: publish, rate: 80/s}
"""


def lost_of_m_d_1_k(load: float, places: int) -> float:
    """The share of arrivals that find all places taken, of Poisson arrivals at one server that takes as long for each.

    From the chain of how many are left behind by one that is served: in one service come k others with Poisson's
    probability, of which those beyond the free places are lost.
    """
    comes = [np.exp(-load) * load**k / float(np.prod(np.arange(1, k + 1))) for k in range(places + 1)]
    states = places  # 0 to places - 1 are left behind
    chain = np.zeros((states, states))
    for left in range(states):
        begins = max(left, 1)  # of which one is served
        for k in range(states - begins):
            chain[left, begins - 1 + k] = comes[k]
        chain[left, states - 1] += 1.0 - chain[left].sum()
    system = np.vstack([chain.T - np.eye(states), np.ones(states)])
    behind = np.linalg.lstsq(system, np.append(np.zeros(states), 1.0), rcond=None)[0]
    # Served per service time: a service follows at once on another unless nobody is left behind.
    return float(1.0 - 1.0 / (behind[0] + load))


@pytest.mark.parametrize(("load", "places"), [(0.8, 1), (0.8, 4), (1.5, 3)])
def test_as_many_are_lost_as_of_m_d_1_k(load, places):
    model = resolve(loads(ONE, [f"services.0.workload.0.rate={100 * load}/s"]))
    model = replace(model, limits=Limits((places,)))
    traces = MemoryTraces("deliveries", tables_of(model))
    result = simulate(model, trace=traces)
    came = result.metrics["services"]["news"]["publications"]
    lost = result.metrics["network"]["dropped"]
    expected = lost_of_m_d_1_k(load, places)
    assert came > 20_000 and expected > 0.01
    # Losses come in bursts: their variance is taken some times that of independent ones.
    assert abs(lost / came - expected) < 6 * (expected * (1 - expected) / came) ** 0.5 * (1 + places)


def test_a_loss_of_one_place_is_erlangs():
    assert lost_of_m_d_1_k(0.8, 1) == pytest.approx(0.8 / 1.8)  # whatever the service time is like


# ---- protocols that see their load -------------------------------------------------------------------


class Watching(PlainFlooding):
    """Floods, and tells with each message that comes what it sees of its load."""

    sees_load = True
    seen: ClassVar[list[tuple[int, ...]]] = []

    def on_message(self, message: Any) -> None:
        load, link = self.node.load, self.node.links[0]
        Watching.seen.append(
            (self.node.broker, message.time, load.backlog_ns(message), load.held(message), load.dropped,
             load.link_backlog_ns(message, link), load.dropped_ahead(link))
        )  # fmt: skip
        super().on_message(message)


def watched(model: Any, **how: Any) -> list[tuple[int, ...]]:
    Watching.seen.clear()
    simulate(model, **how)
    return sorted(Watching.seen)


def test_a_protocol_sees_its_load_the_same_in_every_way_of_running(monkeypatch):
    monkeypatch.setitem(sys.modules, "watching", sys.modules[__name__])
    model = resolve(loads(BUSY, ["links.bandwidth=50 kbit/s", "services.0.workload.1.rate=90/s"]))
    service = replace(model.services[0], protocol_target="watching:Watching")
    limits = Limits((4,) * model.overlay.brokers, messages=2)
    model = replace(model, services=[service], limits=limits, faults=some_of_everything(model, 3))
    seen = watched(model)
    assert all(max(column) > 0 for column in zip(*seen))
    assert max(held for _, _, _, held, *_ in seen) == 3  # one of four places was free
    for how in ({"cutting": Cutting("one")}, {"cutting": Cutting("random", seed=5)}):
        assert watched(model, **how) == seen
    parts = replace(model, faults=NOTHING)
    assert watched(parts) == watched(parts, actors=3, max_window_ns=3 * MS)


def test_the_backlog_that_a_protocol_sees_is_what_it_then_waits(monkeypatch):
    monkeypatch.setitem(sys.modules, "watching", sys.modules[__name__])
    model = resolve(loads(BUSY))
    model = replace(model, services=[replace(model.services[0], protocol_target="watching:Watching")])
    Watching.seen.clear()
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    hops = traces.tables()["hops"]
    waited = hops["finish_ns"] - hops["time_ns"] - 4 * MS
    expected = Counter(zip(hops["broker"].tolist(), hops["time_ns"].tolist(), waited.tolist()))
    assert Counter((broker, time, backlog) for broker, time, backlog, *_ in Watching.seen) == expected
    assert max(waited) > 20 * MS


def test_who_does_not_declare_it_sees_no_load(monkeypatch):
    class Curious(PlainFlooding):
        def on_message(self, message: Any) -> None:
            self.node.load.backlog_ns(message)

    monkeypatch.setitem(sys.modules, "curious", types.SimpleNamespace(Curious=Curious))
    model = resolve(loads(BUSY))
    model = replace(model, services=[replace(model.services[0], protocol_target="curious:Curious")])
    with pytest.raises(ProtocolFault, match="sees_load = True"):
        simulate(model)
