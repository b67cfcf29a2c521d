"""Brokers that come back without what they knew: another object, its store, clients that say again what they want."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from brokers.contract import MESSAGE, TIMER
from brokers.engine.batching import Cutting
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import KEPT, LOST, RESTART, STATES, STORED, Crash, Cut, Schedule
from brokers.kinds import manifests
from protocols.conformance import REHEARSALS, rehearse
from protocols.content.flooding import PlainFlooding
from scenarios.loader import loads
from scenarios.plan import resolve

MS = 1_000_000
TREE = REHEARSALS[0]
(STANDING,) = (each for each in REHEARSALS if each.settled)
PROTOCOLS = [name for kind in manifests() for name in kind.protocols]
WAYS: dict[str, dict[str, Any]] = {
    "one at a time": {"cutting": Cutting("one")},
    "cut at random": {"cutting": Cutting("random", seed=5)},
    "rounds in Python": {"cutting": Cutting(compiled="never")},
    "two shards": {"actors": 2},
    "three shards": {"actors": 3},
    "short windows": {"actors": 2, "max_window_ns": 3 * MS},
}


def forgetting(model: Any, seed: int) -> Schedule:
    """Brokers that go down and forget, one of them for good, and a link that is cut."""
    draws = np.random.default_rng(seed)
    brokers, faults = model.overlay.brokers, []
    for _ in range(8):
        begin = int(draws.integers(model.duration_ns))
        state = int(draws.choice([KEPT, STORED, LOST]))
        faults.append(Crash(int(draws.integers(brokers)), begin, begin + int(draws.integers(1, 40 * MS)), state))
    faults.append(Crash(int(draws.integers(brokers)), model.duration_ns * 2 // 3, state=LOST))
    return Schedule((*faults, Cut(0, 50 * MS, 90 * MS)), detect_ns=5 * MS)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("rehearsal", [TREE, STANDING], ids=["messages", "settled"])
def test_every_protocol_bears_brokers_that_forget_in_every_way_of_running(protocol, rehearsal):
    model = rehearse(rehearsal, protocol)
    model = replace(model, faults=forgetting(model, 3))
    assert model.faults.forgetful
    traces = MemoryTraces("full", tables_of(model))
    digest = simulate(model, trace=traces).digest
    kept = tuple(f._replace(state=KEPT) if isinstance(f, Crash) else f for f in model.faults.faults)
    assert simulate(replace(model, faults=replace(model.faults, faults=kept))).digest != digest
    assert {name: simulate(model, **how).digest for name, how in WAYS.items()} == dict.fromkeys(WAYS, digest)


# ---- one thing at a time -----------------------------------------------------------------------------

TWO = """
duration: 1 s
topology: {kind: line, nodes: 2}
links: {delay: 10 ms}
clients: {all: {count: 2, placement: {kind: explicit, brokers: [0, 1]}}}
services:
  - name: news
    kind: content
    protocol: flooding
    attributes: 1
    workload:
      - {source: subscribe, constraints: 1, width: 1}
      - {source: publish, rate: 100/s}
"""


class Counting(PlainFlooding):
    """Counts what comes in memory, and every tenth time in its store; rings, and tells the other broker both counts."""

    timer_min_ns = 10 * MS

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.count = self.found = node.store.get("count", 0)

    def first_timers(self) -> list[tuple[int, int, int]]:
        return [(10 * MS, 20, 0)]

    def on_message(self, message: Any) -> None:
        if message.kind == TIMER:
            self.node.send(message, self.node.links[0], 21, {"rang": message.word}, word=self.count)
            self.node.timer(message, 60 * MS, 20, message.word + 1)
        elif message.type != 21:
            self.count += 1
            if self.count % 10 == 0:
                self.node.store.put(message, "count", self.count)
            super().on_message(message)

    def on_fault(self, message: Any) -> None:
        self.node.send(message, self.node.links[0], 22, {"left": message.word}, word=self.count)


def run_counting(monkeypatch: Any, state: int, **changes: Any) -> dict[str, Any]:
    """The trace of two brokers that count, of which the first is down from 500 to 600 ms."""
    monkeypatch.setitem(sys.modules, "counting", sys.modules[__name__])
    model = replace(resolve(loads(TWO)), faults=Schedule((Crash(0, 500 * MS, 600 * MS, state),)))
    service = replace(model.services[0], protocol_target="counting:Counting", **changes)
    traces = MemoryTraces("full", tables_of(model))
    simulate(replace(model, services=[service]), trace=traces)
    return traces.tables()


@pytest.mark.parametrize("state", [KEPT, STORED, LOST], ids=STATES)
def test_of_what_a_broker_knew_so_much_is_left(monkeypatch, state):
    hops = run_counting(monkeypatch, state)["hops"]
    heard, first = hops["broker"] == 1, (hops["broker"] == 0) & (hops["time_ns"] < 500 * MS)
    counted = int((first & (hops["kind"] == MESSAGE) & (hops["type"] < 16)).sum())
    restart = heard & (hops["type"] == 22)
    assert counted > 50 and counted % 10
    assert hops["word"][restart].tolist() == [{KEPT: counted, STORED: counted // 10 * 10, LOST: 0}[state]]
    told = (hops["broker"] == 0) & (hops["kind"] == 0)
    assert hops["type"][told].tolist() == [RESTART] and hops["word"][told].tolist() == [state]


@pytest.mark.parametrize("state", [KEPT, STORED, LOST], ids=STATES)
def test_timers_die_with_a_broker_unless_its_state_is_kept(monkeypatch, state):
    hops = run_counting(monkeypatch, state)["hops"]
    mine = (hops["broker"] == 0) & (hops["kind"] == TIMER)
    rang = sorted(zip((hops["time_ns"][mine] // MS).tolist(), hops["word"][mine].tolist()))
    before = [(10 + 60 * n, n) for n in range(9)]  # the last of them at 490 ms
    if state == KEPT:
        assert rang == [*before, *((600 + 60 * n, 9 + n) for n in range(len(rang) - 9))]
    else:
        assert rang == [*before, *((610 + 60 * n, n) for n in range(len(rang) - 9))]
    assert len(rang) > 14


def test_what_is_written_costs_what_the_scenario_says(monkeypatch):
    free = run_counting(monkeypatch, LOST)["hops"]
    dear = run_counting(monkeypatch, LOST, cost={"per_write": 1000.0})["hops"]
    took = (dear["finish_ns"] - dear["time_ns"])[dear["broker"] == 1]
    assert (free["finish_ns"] == free["time_ns"]).all()
    came = (dear["kind"] == MESSAGE) & (dear["type"] < 16) & (dear["broker"] == 1)
    assert (took > 0).sum() == came.sum() // 10 and set(took.tolist()) == {0, 1000}


def test_clients_say_again_what_they_want_and_only_that():
    model = resolve(loads(TWO, ["services.0.protocol=subscription", "services.0.workload.0.churn={rate: 20/s}"]))
    faults = Schedule((Crash(0, 300 * MS, 400 * MS, LOST), Crash(0, 700 * MS, 800 * MS, LOST)))
    traces = MemoryTraces("full", tables_of(model))
    simulate(replace(model, faults=faults), trace=traces)
    hops, changes = traces.tables()["hops"], traces.tables()["changes"]
    mine = (changes["broker"] == 0) & (changes["operation"] == 1)
    again = 0
    for at in (400 * MS, 800 * MS):
        stood = mine & (changes["issued_ns"] < at) & ((changes["revoked_ns"] < 0) | (changes["revoked_ns"] >= at))
        rows = (hops["broker"] == 0) & (hops["link"] < 0) & (hops["time_ns"] == at) & (hops["type"] == 1)
        known = set(changes["change"][mine & (changes["issued_ns"] < at)].tolist())
        told = [cause for cause in hops["cause"][rows].tolist() if cause in known]
        assert sorted(told) == sorted(changes["change"][stood].tolist())
        again += len(told)
    assert again >= 2
    assert (changes["settled_ns"][mine] >= 0).all()
    deliveries = traces.tables()["deliveries"]
    there = (deliveries["broker"] == 0) & (deliveries["time_ns"] > 800 * MS)
    assert there.any()
