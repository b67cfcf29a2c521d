"""Faults: looked up ahead, they do what a loop does that meets them one by one; and so in every way of running."""

from __future__ import annotations

import heapq
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.contract import FAULT, NEVER, BrokerProtocol, Guarantees, LinkTable
from brokers.engine import layout as L
from brokers.engine.batching import Cutting
from brokers.engine.notices import Notices
from brokers.engine.outages import Outages, done_at
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import (
    CRASHED,
    CUT_OFF,
    KEPT,
    LINK_DOWN,
    LINK_UP,
    NOTHING,
    ON_LINK,
    RESTART,
    Crash,
    Cut,
    Fault,
    Schedule,
    Slow,
    Worn,
)
from brokers.fingerprint import scramble
from brokers.kinds import manifests
from protocols.conformance import REHEARSALS, rehearse
from protocols.content.flooding import PlainFlooding
from protocols.judging import audit
from scenarios.loader import loads
from scenarios.plan import resolve
from topology import draws as draws_of

MS = 1_000_000
OTHERS = [name for kind in manifests() if kind.name != "content" for name in kind.protocols]
TREE, _, STRAINED, LOSSY, _, _, CYCLES = REHEARSALS
WAYS: dict[str, dict[str, Any]] = {
    "one at a time": {"cutting": Cutting("one")},
    "cut at random": {"cutting": Cutting("random", seed=5)},
    "rounds in Python": {"cutting": Cutting(compiled="never")},
    "compiled, one at a time": {"cutting": Cutting(compiled="events")},
    "compiled rounds": {"cutting": Cutting(compiled="rounds")},
    "two shards": {"actors": 2},
    "three shards": {"actors": 3},
    "two threads": {"actors": 2, "engine": "threads"},
}


def some_of_everything(model: Any, seed: int) -> Schedule:
    """A few faults of each sort, here and there."""
    draws = np.random.default_rng(seed)
    links, brokers, faults = 2 * model.overlay.link_a.size, model.overlay.brokers, []

    def span() -> tuple[int, int]:
        begin, end = sorted(draws.integers(0, model.duration_ns, 2).tolist())
        return begin, end + 1

    for _ in range(6):
        faults.append(Cut(int(draws.integers(links)), *span()))
        begin, end = span()
        faults.append(Crash(int(draws.integers(brokers)), begin, min(end, begin + 50 * MS)))
        faults.append(Slow(int(draws.integers(brokers)), *span(), float(draws.choice([0.0, 1.5, 3.0]))))
        worn = Worn(int(draws.integers(links)), *span(), 0.2, 0.3, int(draws.integers(5 * MS)), 2.0)
        faults.append(worn._replace(begins=0.2, ends=0.3, bad=0.9))
    return Schedule(tuple(faults), detect_ns=5 * MS)


@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
@pytest.mark.parametrize("rehearsal", [TREE, STRAINED, CYCLES], ids=["tree", "overload", "cycles"])
def test_faults_do_the_same_in_every_way_of_running(rehearsal, protocol):
    model = rehearse(rehearsal, protocol)
    model = replace(model, faults=some_of_everything(model, 7))
    traces = MemoryTraces("full", tables_of(model))
    digest = simulate(model, trace=traces).digest
    reasons = Counter(traces.tables()["losses"]["reason"].tolist())
    assert {CUT_OFF, CRASHED} <= set(reasons)
    assert digest != simulate(replace(model, faults=NOTHING)).digest
    assert {name: simulate(model, **how).digest for name, how in WAYS.items()} == dict.fromkeys(WAYS, digest)


@pytest.mark.parametrize("protocol", OTHERS)
def test_views_of_a_shard_take_faults_as_one_broker_does(protocol):
    model = rehearse(TREE, protocol)
    model = replace(model, faults=some_of_everything(model, 7))
    digest = simulate(model).digest
    alone = replace(model, services=[replace(model.services[0], view="message")])
    assert simulate(alone).digest == digest
    ways = {name: WAYS[name] for name in ("one at a time", "two shards")}
    assert {name: simulate(model, **how).digest for name, how in ways.items()} == dict.fromkeys(ways, digest)


class Calling(PlainFlooding):
    """Floods, and calls over each link that comes up."""

    def on_fault(self, message: Any) -> None:
        assert message.kind == FAULT
        if message.type == LINK_UP:
            self.node.send(message, message.link, 30, {"from": self.node.broker})

    def on_message(self, message: Any) -> None:
        if message.type != 30:
            super().on_message(message)


@pytest.mark.parametrize("rehearsal", [TREE, CYCLES], ids=["tree", "cycles"])
def test_what_brokers_are_told_is_the_same_in_every_way_of_running(rehearsal, monkeypatch):
    monkeypatch.setitem(sys.modules, "calling", sys.modules[__name__])
    model = rehearse(rehearsal, "flooding")
    heard = [replace(service, protocol_target="calling:Calling") for service in [*model.services, *model.services]]
    heard[1].name, heard[1].sources = "other", []
    model = replace(model, services=heard)
    model = replace(model, faults=some_of_everything(model, 7))
    traces = MemoryTraces("full", tables_of(model))
    digest = simulate(model, trace=traces).digest
    hops = traces.tables()["hops"]
    told = hops["kind"] == FAULT
    assert {LINK_DOWN, LINK_UP, RESTART} == set(hops["type"][told].tolist())
    assert set(hops["service"][told].tolist()) == {0, 1} and (hops["source"][told] == -1).all()
    assert (hops["type"][~told] == 30).sum() > 5
    ways = {name: how for name, how in WAYS.items() if name != "two threads"}  # it has no compiled handler
    assert {name: simulate(model, **how).digest for name, how in ways.items()} == dict.fromkeys(ways, digest)


def test_a_schedule_of_nothing_changes_nothing():
    model = rehearse(TREE, "subscription")
    heard = replace(model, faults=Schedule((), detect_ns=5 * MS))
    assert simulate(heard).digest == simulate(model).digest


# ---- against a loop that meets faults one by one -----------------------------------------------------

PUBLISHING = """
duration: 600 ms
topology: {kind: random-tree, nodes: 9}
links: {delay: {kind: uniform, low: 1 ms, high: 20 ms}}
clients: {all: {count: 12}}
services:
  - name: news
    kind: content
    protocol: flooding
    attributes: 2
    subscriptions: settled
    cost: {base: 4 ms}
    workload:
      - {source: subscribe, constraints: 1, width: 1}
      - {source: publish, rate: 6/s}
"""
ENDS, OUTPUT, BEGINS, ARRIVES = range(4)  # in this order at one instant


class Chains:
    """What links are at each message, counted from the first: bad or good, one draw a message."""

    def __init__(self, model: Any, salts: tuple[int, int]) -> None:
        ends = np.stack([model.overlay.link_a, model.overlay.link_b], 1).astype(np.int64)
        directed = np.stack([ends, ends[:, ::-1]], 1).reshape(-1, 2)
        names = directed[:, 0] << 32 | directed[:, 1]
        keys = draws_of.streams(draws_of.purpose_key(model.seed, "link/loss"), names)
        turns, self._salt = salts
        self._losses = keys
        self._turns = [scramble(key ^ np.uint64(turns)) for key in keys]
        self._bad: dict[Any, bool] = {}

    def drawn(self, link: int, number: int, share: float, salt: int | None = None) -> bool:
        salt = self._salt if salt is None else salt
        key = scramble(self._losses[link] ^ np.uint64(salt)) if salt else self._losses[link]
        return int(draws_of.bits(np.uint64(key), number)) < int(share * 2.0**64)

    def loses(self, link: int, number: int, chain: Any, which: Any = None) -> bool:
        begins, ends, good, bad = chain
        drawn = int(draws_of.bits(np.uint64(self._turns[link]), number)) / 2.0**64
        was = self._bad.get((link, which))
        if was is None:
            now = drawn < begins / (begins + ends)
        else:
            now = drawn >= ends if was else drawn < begins
        self._bad[link, which] = now
        return self.drawn(link, number, bad if now else good)


def one_by_one(model: Any, publications: Any) -> tuple[Counter[Any], Counter[int]]:
    """(what was handled: broker, time, publication; what was lost, by reason) as an event loop has it."""
    overlay, cost = model.overlay, int(model.services[0].cost["base"])
    source = np.stack([overlay.link_a, overlay.link_b], 1).ravel()
    target = np.stack([overlay.link_b, overlay.link_a], 1).ravel()
    count = 0
    events: list[tuple[Any, ...]] = []

    def later(time: int, what: int, *more: Any) -> None:
        nonlocal count
        count += 1
        heapq.heappush(events, (time, what, count, *more))

    for fault in model.faults.faults:
        later(fault.begin, BEGINS, fault)
        later(fault.end, ENDS, fault)
    for time, broker, name in publications:
        later(time, ARRIVES, -1, broker, name)
    down: Counter[int] = Counter()
    cut: Counter[int] = Counter()
    wear: dict[int, Worn | None] = {}
    lives: Counter[int] = Counter()  # how often a broker has crashed
    lost_on: Counter[int] = Counter()  # how often a link was cut
    busy = [0] * overlay.brokers
    handled: Counter[Any] = Counter()
    lost: Counter[int] = Counter()
    own, worn = Chains(model, (0x74_75_72_6E, 0)), Chains(model, (0x77_74_75_72_6E, 0x77_6F_72_6E))
    left: Counter[int] = Counter()  # how many messages left over a link
    while events:
        time, what, _, *more = heapq.heappop(events)
        if what in (BEGINS, ENDS):
            (fault,) = more
            if isinstance(fault, Worn):
                wear[fault.link] = fault if what == BEGINS else None
                continue
            by = 1 if what == BEGINS else -1
            if isinstance(fault, Crash):
                down[fault.broker] += by
                if what == BEGINS:
                    lives[fault.broker] += 1
                    busy[fault.broker] = min(busy[fault.broker], time)
            else:
                cut[fault.link] += by
                if what == BEGINS:
                    lost_on[fault.link] += 1
        elif what == OUTPUT:
            broker, came_by, name, life = more
            for link in np.flatnonzero(source == broker).tolist():
                if link == came_by ^ 1 and came_by >= 0:
                    continue
                if lives[broker] != life:
                    lost[CRASHED] += 1
                    continue
                number, fault, times = left[link], wear.get(link), 1
                left[link] += 1
                gone = doomed = False
                if overlay.bursts is not None:
                    gone = own.loses(link, number, overlay.bursts[link // 2])
                if fault is not None and not gone:
                    doomed = worn.loses(link, number, (fault.begins, fault.ends, fault.loss, fault.bad), fault)
                    times += worn.drawn(link, number, fault.twice, 0x74_77_6F)
                if gone:
                    lost[ON_LINK] += 1
                elif cut[link]:
                    lost[CUT_OFF] += 1
                else:
                    arrives = time + int(overlay.delay_ns[link // 2])
                    later(arrives, ARRIVES, link, int(target[link]), name, lost_on[link], doomed, times)
        else:
            link, broker, name, *sent = more
            if link >= 0 and lost_on[link] != sent[0]:
                lost[CUT_OFF] += 1
            elif link >= 0 and sent[1]:
                lost[ON_LINK] += 1
            elif down[broker]:
                lost[CRASHED] += link >= 0
            else:
                for _ in range(sent[2] if sent else 1):
                    handled[broker, time, name] += 1
                    busy[broker] = max(time, busy[broker]) + cost
                    later(busy[broker], OUTPUT, broker, link, name, lives[broker])
    return handled, lost


@pytest.mark.parametrize("seed", range(12))
def test_what_is_looked_up_ahead_is_what_a_loop_meets(seed):
    model = resolve(loads(PUBLISHING, [f"seed={seed}"]))
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    every = traces.tables()["publications"]
    publications = list(zip(*(every[name].tolist() for name in ("time_ns", "broker", "publication"))))
    draws = np.random.default_rng(seed)
    faults: list[Fault] = []
    for _ in range(5):
        # Times at which something happens, so that boundaries are met.
        moments = [time + int(draws.choice([0, 4 * MS, 1])) for time, _, _ in publications]
        begin, other = sorted(draws.choice(moments, 2, replace=False).tolist())
        faults.append(Crash(int(draws.integers(9)), begin, other))
        begin, other = sorted(draws.choice(moments, 2, replace=False).tolist())
        faults.append(Cut(int(draws.integers(16)), begin, other))
    bursts = None
    if seed % 2:
        bursts = np.tile([0.2, 0.4, 0.05, 0.8], (8, 1))
        worst = bursts[:, 3] * 0.5
        model = replace(model, overlay=replace(model.overlay, bursts=bursts, loss=worst))
        moments = sorted(draws.choice([time for time, _, _ in publications], 12, replace=False).tolist())
        for link, (begin, end) in enumerate(zip(moments[::2], moments[1::2])):
            faults.append(Worn(link, begin, end, loss=0.1, twice=0.3, begins=0.3, ends=0.3, bad=0.9))
    model = replace(model, faults=Schedule(tuple(fault for fault in faults if fault.begin < fault.end)))
    traces = MemoryTraces("full", tables_of(model))
    result = simulate(model, trace=traces)
    tables = traces.tables()
    hops, losses = tables["hops"], tables["losses"]
    handled, lost = one_by_one(model, publications)
    assert Counter(zip(*(hops[name].tolist() for name in ("broker", "time_ns", "body")))) == handled
    on_links = losses["reason"][losses["link"] >= 0].tolist()
    assert Counter(on_links) == lost and sum(lost.values()) > 20
    assert (bursts is None) == (lost[ON_LINK] == 0)
    accepted = len(tables["publications"]["publication"])
    assert accepted + result.metrics["services"]["news"]["refused"] == len(publications)


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
    subscriptions: settled
    workload:
      - {source: subscribe, constraints: 1, width: 1}
      - {source: publish, rate: 100/s}
"""


def run_two(*faults: Fault, detect_ns: int = NEVER, **changes: Any) -> dict[str, Any]:
    """The trace of two brokers with faults."""
    model = replace(resolve(loads(TWO)), faults=Schedule(faults, detect_ns))
    service = replace(model.services[0], **changes)
    model = replace(model, services=[service])
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    return traces.tables()


def test_a_broker_that_pauses_goes_on_afterwards():
    hops = run_two(Slow(1, 200 * MS, 700 * MS, 0.0), cost={"base": float(MS)})["hops"]
    mine = (hops["broker"] == 1) & (hops["time_ns"] >= 200 * MS) & (hops["time_ns"] < 700 * MS)
    finish = np.sort(hops["finish_ns"][mine])
    assert finish.size > 20 and (np.diff(finish) == MS).all()
    assert 700 * MS <= finish[0] - MS < 701 * MS


def test_the_queue_of_a_broker_is_empty_once_it_has_crashed():
    costs = {"cost": {"base": 30.0 * MS}}  # of twice as much work as there is time
    model = replace(resolve(loads(TWO, ["trace.sample_every=10 ms"])), faults=Schedule((Crash(1, 500 * MS, 600 * MS),)))
    model = replace(model, services=[replace(model.services[0], **costs)])
    found = []
    for how in ({}, {"actors": 2}, {"cutting": Cutting("one")}):
        traces = MemoryTraces("full", tables_of(model))
        simulate(model, trace=traces, **how)
        samples = traces.tables()["samples"]
        mine = samples["broker"] == 1
        found.append(sorted(zip(*(samples[name][mine].tolist() for name in ("time_ns", "queued", "backlog_ns")))))
    assert found[0] == found[1] == found[2]
    by_time = {time // MS: (queued, backlog) for time, queued, backlog in found[0]}
    assert by_time[490][0] > 10 and by_time[490][1] > 300 * MS
    assert all(by_time[time] == (0, 0) for time in range(500, 600, 10))
    assert 0 < by_time[700][0] < by_time[490][0]


def test_a_slow_broker_takes_so_many_times_as_long():
    hops = run_two(Slow(1, 0, 500 * MS, 3.0), cost={"base": 1000.0})["hops"]
    for early, took in ((True, 3000), (False, 1000)):
        mine = (hops["broker"] == 1) & ((hops["time_ns"] < 490 * MS) == early) & (hops["time_ns"] != 0)
        assert (hops["finish_ns"] - hops["time_ns"])[mine].min() == took


def test_a_worn_link_loses_doubles_and_delays():
    plain, worn = run_two(), run_two(Worn(0, 0, NEVER, loss=0.3, twice=0.5, delay=7 * MS))
    came = [np.sort(each["hops"]["time_ns"][each["hops"]["link"] == 0]) for each in (plain, worn)]
    sent, lost = came[0].size, int((worn["losses"]["reason"] == ON_LINK).sum())
    assert abs(lost / sent - 0.3) < 4 * (0.3 * 0.7 / sent) ** 0.5
    arrived = sent - lost
    assert abs((came[1].size - arrived) / arrived - 0.5) < 4 * 0.5 / arrived**0.5
    assert set(came[1]) <= set(came[0] + 7 * MS)


class Ticking(BrokerProtocol):
    """Sets a timer when it is published to, and writes down what rings and what it is told."""

    kind = "content"
    guarantees = Guarantees(exact=False, no_duplicates=False, fifo_per_publisher=False)
    timer_min_ns = 50 * MS

    def on_message(self, message: Any) -> None:
        if message.type == 0 and message.link < 0 and message.kind == 1:
            self.node.timer(message, 50 * MS, 20)

    def on_fault(self, message: Any) -> None:
        self.node.cost(message, 1)


def test_timers_of_a_broker_that_is_down_ring_once_it_is_up(monkeypatch):
    monkeypatch.setitem(sys.modules, "ticking", sys.modules[__name__])
    hops = run_two(Crash(0, 300 * MS, 500 * MS), protocol_target="ticking:Ticking", settled=False)["hops"]
    mine = (hops["broker"] == 0) & (hops["kind"] == 2)
    times = hops["time_ns"][mine]
    assert not ((times >= 300 * MS) & (times < 500 * MS)).any()
    assert (times == 500 * MS).sum() > 2
    told = hops["kind"] == 0
    assert list(zip(hops["broker"][told], hops["time_ns"][told], hops["type"][told])) == [(0, 500 * MS, RESTART)]


@given(
    spans=st.lists(
        st.tuples(st.integers(0, 200), st.integers(1, 60), st.sampled_from([0.0, 1.0, 1.5, 4.0])), max_size=6
    ),
    begun=st.integers(0, 250),
    work=st.integers(0, 80),
)
@settings(deadline=None)
def test_work_takes_as_long_as_a_clock_that_ticks_says(spans, begun, work):
    faults = tuple(Slow(0, begin * MS, (begin + size) * MS, factor) for begin, size, factor in spans)
    room = Outages(Schedule(faults), 1, 0)
    arrays = room.arrays()
    found = done_at(arrays["paces_first"], arrays["paces"], 0, begun * MS, work * MS)
    time, left = float(begun), float(work)
    while True:
        factors = [factor for begin, size, factor in spans if begin <= int(time) < begin + size]
        factor = 0.0 if 0.0 in factors else max(factors, default=1.0)
        if factor and left <= 1 / factor:
            time += left * factor
            break
        left -= 1 / factor if factor else 0.0
        time += 1
    assert abs(found - time * MS) <= 10


@given(
    spans=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(1, 20)), max_size=12),
    now=st.integers(0, 60),
)
@settings(deadline=None)
def test_a_broker_is_up_when_no_crash_says_otherwise(spans, now):
    room = Outages(Schedule(tuple(Crash(broker, begin, begin + size) for broker, begin, size in spans)), 4, 0)
    for broker in range(4):
        expected = now
        while any(b == broker and begin <= expected < begin + size for b, begin, size in spans):
            expected += 1
        assert int(room.up_from(np.array([broker]), np.array([now]))[0]) == expected


def test_a_path_is_there_as_often_as_independent_failures_say():
    """Availability of links in a row: the product of theirs."""
    draws = np.random.default_rng(3)
    hops, mean, repair = 4, 40.0, 10.0
    text = TWO.replace("nodes: 2", f"nodes: {hops + 1}").replace("[0, 1]", f"[0, {hops}]")
    text = text.replace("duration: 1 s", "duration: 60 s").replace("delay: 10 ms", "delay: 1 us")
    model = resolve(loads(text))
    faults = []
    for link in range(hops):
        time = 0.0
        while time < 60_000:
            time += draws.exponential(mean)
            down = draws.exponential(repair)
            faults.append(Cut(2 * link, int(time * MS), int((time + down) * MS) + 1))
            time += down
    model = replace(model, faults=Schedule(tuple(faults)))
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    tables = traces.tables()
    at_first = (tables["hops"]["broker"] == 0) & (tables["hops"]["link"] < 0)
    got = (tables["hops"]["broker"] == hops) & (tables["hops"]["link"] >= 0)
    share, expected = got.sum() / at_first.sum(), (mean / (mean + repair)) ** hops
    assert abs(share - expected) < 0.03


# ---- what brokers are told ---------------------------------------------------------------------------


def told_of(*faults: Fault, detect_ns: int = 20 * MS, brokers: int = 2) -> list[tuple[int, int, int, int]]:
    links, local = LinkTable.of(resolve(loads(TWO)).overlay), np.ones(2, bool)
    schedule = Schedule(faults, detect_ns)
    told = Notices(Outages(schedule, brokers, 2), schedule, links, local, [0], [False], None)
    at, columns = told.take_before(NEVER)
    type_ = columns[L.M_PACKED] >> 8 & 0xFF
    found = zip(*(each.tolist() for each in (columns[L.M_TIME], at, type_, columns[L.M_WORD])))
    return sorted((time // MS, broker, type_, link) for time, broker, type_, link in found)


def test_both_ends_hear_of_a_cut_in_either_direction():
    assert told_of(Cut(0, 100 * MS, 200 * MS)) == [
        (120, 0, LINK_DOWN, 0), (120, 1, LINK_DOWN, 1), (220, 0, LINK_UP, 0), (220, 1, LINK_UP, 1),
    ]  # fmt: skip


def test_what_is_shorter_than_the_time_to_notice_is_not_heard_of():
    assert told_of(Cut(0, 100 * MS, 115 * MS)) == []
    flapping = [Cut(0, begin * MS, (begin + 30) * MS) for begin in (100, 140, 180)]
    assert [each[0] for each in told_of(*flapping) if each[1] == 0] == [120, 230]


def test_a_broker_that_was_down_hears_that_it_is_up_and_what_has_changed():
    assert told_of(Crash(0, 100 * MS, 300 * MS), Cut(0, 150 * MS, 400 * MS)) == [
        (120, 1, LINK_DOWN, 1), (300, 0, LINK_DOWN, 0), (300, 0, RESTART, KEPT), (420, 0, LINK_UP, 0),
        (420, 1, LINK_UP, 1),
    ]  # fmt: skip
    assert told_of(Crash(0, 100 * MS, 300 * MS), Cut(0, 150 * MS, 250 * MS)) == [
        (120, 1, LINK_DOWN, 1), (300, 0, RESTART, KEPT), (320, 1, LINK_UP, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("rehearsal", [TREE, LOSSY, CYCLES], ids=["tree", "losses", "cycles"])
@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
def test_what_faults_take_is_excused_and_nothing_else(protocol, rehearsal):
    model = rehearse(rehearsal, protocol)
    model = replace(model, faults=some_of_everything(model, 11))
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    service = model.services[0]
    promised = service.protocol_class.guarantees_for(model.overlay)
    found = audit(traces.tables(), service.kind_class(service.params), promised)
    assert found.judgement[0] != "invalid", str(found)


def test_what_a_link_doubled_is_told_and_comes_twice_and_what_it_did_not_double_may_not():
    model = rehearse(TREE, "flooding")
    every = tuple(Worn(link, 0, NEVER, twice=0.1) for link in range(2 * model.overlay.links))
    model = replace(model, faults=Schedule(every))
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    tables, service = traces.tables(), model.services[0]
    came = Counter(tables["hops"]["body"].tolist())
    doubled = set(tables["doubled"]["body"].tolist())
    assert {came[p] > 9 for p in doubled} == {True}
    assert {came[p] for p in tables["publications"]["publication"].tolist() if p not in doubled} == {9}
    kind, promised = service.kind_class(service.params), service.protocol_class.guarantees_for(model.overlay)
    found = audit(tables, kind, promised)
    assert found.verdict == "valid" and found.doubled > 0
    one = next(row for row, p in enumerate(tables["deliveries"]["publication"].tolist()) if p not in doubled)
    tables["deliveries"] = {name: np.append(rows, rows[one]) for name, rows in tables["deliveries"].items()}
    again = audit(tables, kind, promised)
    assert again.verdict == "invalid" and again.duplicated.count == 1 and again.doubled == found.doubled


def test_a_timer_of_a_broker_that_is_down_for_good_is_lost_and_excuses_what_it_was_set_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "ticking", sys.modules[__name__])
    tables = run_two(Crash(0, 300 * MS, NEVER), protocol_target="ticking:Ticking", settled=False)
    losses, hops = tables["losses"], tables["hops"]
    unrung = (losses["link"] == -1) & (losses["type"] == 20)
    asked = hops["time_ns"][(hops["broker"] == 0) & (hops["kind"] == 1) & (hops["type"] == 0)]
    assert (losses["reason"][unrung] == CRASHED).all()
    assert sorted(losses["time_ns"][unrung]) == sorted(asked[asked >= 250 * MS]) and unrung.sum() > 2
