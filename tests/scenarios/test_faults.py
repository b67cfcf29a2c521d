"""The section `faults` of a scenario: what it makes, and what it refuses."""

from __future__ import annotations

import random
import sys
from itertools import accumulate, count
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

from brokers.faults import NEVER, Crash, Cut, Slow, Worn, WrongFault
from scenarios.faults.telling import lines
from scenarios.loader import from_data, loads
from scenarios.plan import plan, resolve
from scenarios.problems import ScenarioErrors

S, MS = 10**9, 10**6
TEXT = """
duration: 4 s
topology: {kind: balanced-tree, branching: 2, height: 2}
links: {delay: 5 ms}
clients: {all: {count: 4}}
services:
  - {name: news, kind: content, protocol: flooding, attributes: 1, workload: [{source: publish, rate: 1/s}]}
"""


def scenario(*entries: str, detect: str = "never"):
    return loads(TEXT + f"faults: {{detect: {detect}, schedule: [{', '.join(entries)}]}}\n")


@pytest.mark.parametrize(
    ("entry", "made"),
    [
        ("{fault: crash, brokers: [b2, 0], at: 1 s, lasts: 500 ms}", [Crash(2, S, 1500 * MS), Crash(0, S, 1500 * MS)]),
        ("{fault: crash, brokers: [1], at: 1 s}", [Crash(1, S, NEVER)]),
        ("{fault: pause, brokers: [1], at: 0, lasts: 1 s}", [Slow(1, 0, S, 0.0)]),
        ("{fault: slow, brokers: [1], at: 0, lasts: 1 s, factor: 3}", [Slow(1, 0, S, 3.0)]),
        ("{fault: cut, link: [b0, b1], at: 1 s}", [Cut(0, S), Cut(1, S)]),
        ("{fault: cut, link: [b1, b0], way: there, at: 1 s}", [Cut(1, S)]),
        (
            "{fault: degrade, link: [b0, b2], way: there, at: 1 s, lasts: 1 s, loss: 5 %, delay: 2 ms}",
            [Worn(2, S, 2 * S, 0.05, 0.0, 2 * MS, 1.0)],
        ),
        (
            "{fault: degrade, brokers: [b6, 3], at: 1 s, lasts: 1 s, slower: 7}",
            [Worn(link, S, 2 * S, slower=7.0) for link in (4, 5, 10, 11)],
        ),
        ("{fault: partition, sets: [[b1, b3, b4]], at: 1 s, lasts: 1 s}", [Cut(0, S, 2 * S), Cut(1, S, 2 * S)]),
        ("{fault: isolate, brokers: [b6], at: 1 s, lasts: 1 s}", [Cut(10, S, 2 * S), Cut(11, S, 2 * S)]),
        (
            "{fault: flapping, link: [b0, b1], at: 1 s, down: 200 ms, up: 300 ms, until: 1600 ms}",
            [Cut(link, at * MS, to * MS) for at, to in ((1000, 1200), (1500, 1600)) for link in (0, 1)],
        ),
        (
            "{fault: rolling-restart, brokers: [b2, b0], at: 1 s, lasts: 100 ms, every: 1 s}",
            [Crash(2, S, 1100 * MS), Crash(0, 2 * S, 2100 * MS)],
        ),
    ],
)
def test_an_entry_makes_faults(entry, made):
    assert list(resolve(scenario(entry)).faults.faults) == made


def test_faults_know_their_entry_and_degrading_without_a_link_means_all():
    faults = resolve(
        scenario("{fault: crash, brokers: [1], at: 1 s}", "{fault: degrade, at: 0, lasts: 1 s, loss: 0.1}")
    ).faults.faults
    assert [each.entry for each in faults] == [0] + [1] * 12
    assert [each.link for each in faults[1:]] == list(range(12))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{fault: cut, link: [b0, b6], at: 1 s}", "there is no link from b0 to b6; b0 has links to b1, b2"),
        ("{fault: cut, link: [b0, nobody], at: 1 s}", "there is no broker named 'nobody'"),
        ("{fault: crsh, brokers: [0], at: 1 s}", "did you mean 'crash'?"),
        ("{fault: crash, brokers: [0], at: -1 s}", "a duration cannot be negative"),
        ("{fault: crash, brokers: [], at: 1 s}", "brokers"),
        ("{fault: crash, brokers: [0]}", "at"),
        ("{fault: pause, brokers: [0], at: 1 s}", "lasts"),
        ("{fault: slow, brokers: [0], at: 1 s, lasts: 1 s, factor: 0.5}", "factor"),
        ("{fault: degrade, at: 1 s, lasts: 1 s}", "say what is worse"),
        ("{fault: degrade, brokers: [1], link: [0, 1], at: 1 s, lasts: 1 s, loss: 0.1}", "leave out `link` and `way`"),
        ("{fault: degrade, at: 1 s, lasts: 1 s, loss: 2}", "a fraction lies between 0 and 1"),
        ("{fault: partition, sets: [[0], [0]], at: 1 s}", "broker 0 is in two of the sets"),
        ("{fault: partition, sets: [[0, 1, 2, 3, 4, 5, 6]], at: 1 s}", "sets: all brokers are in one set"),
        ("{fault: crash, brokers: [0, b1, b0], at: 1 s}", "brokers[2]: broker 'b0' stands here twice"),
        ("{fault: rolling-restart, brokers: [b1, b1], at: 0, lasts: 1, every: 1}", "broker 'b1' stands here twice"),
        ("{fault: random, what: pause, rate: 1/s, lasts: 1 s, state: lost}", "`state` is of brokers that crash"),
        ("{fault: random, what: cut, rate: 1/s, lasts: 1 s, begins: 2 s, until: 1 s}", "`until` is not after `begins`"),
        ("{fault: random, what: cut, rate: 1/s, lasts: 1 s, begins: 2, heal_by: 2}", "`heal_by` is not after `begins`"),
        ("{fault: cut, link: [b0, b1], at: 1 s, durration: 1 s}", "durration"),
    ],
)
def test_what_cannot_be_is_refused_at_its_place(entry, said):
    with pytest.raises(ScenarioErrors) as refused:
        resolve(scenario("{fault: crash, brokers: [1], at: 1 s}", entry))
    assert said in str(refused.value)
    assert "faults.schedule[1]" in str(refused.value) and "<text>:8:" in str(refused.value)


@pytest.mark.parametrize(
    ("detect", "said"),
    [
        ("-1 s", "faults.detect: a duration cannot be negative (got '-1 s'); it may also be 'never'"),
        (".nan", "faults.detect: expected a duration such as '5 ms' (got nan); it may also be 'never'"),
    ],
)
def test_what_is_neither_a_duration_nor_never_is_told_in_a_sentence(detect, said):
    with pytest.raises(ScenarioErrors) as refused:
        scenario(detect=detect)
    assert said in str(refused.value)


def test_a_resolved_scenario_reads_back_and_one_without_faults_is_as_before():
    made = scenario("{fault: crash, brokers: [b2], at: 1 s, lasts: 500 ms}", detect="100 ms")
    data = made.resolved()
    assert data["faults"]["detect"] == 100 * MS
    again = from_data(data)
    assert again.resolved() == data and resolve(again).faults == resolve(made).faults
    assert made.stands_for()["faults"] == ["scenarios.faults.single:CrashOf"]
    without = loads(TEXT)
    assert "faults" not in without.resolved() and "faults" not in without.model_parts()
    assert not resolve(without).faults


def test_a_plan_says_what_fails_when():
    made = scenario(
        "{fault: cut, link: [b0, b1], way: there, at: 2 s}", "{fault: crash, brokers: [1, 2], at: 1 s, lasts: 500 ms}"
    )
    assert plan(made, "inline").faults == ("1 s to 1.5 s  crash: brokers b1, b2", "2 s on  cut: link b0→b1")
    model = resolve(scenario("{fault: degrade, at: 0, lasts: 1 s, loss: 0.1, delay: 1 ms, slower: 2}"))
    (line,) = lines(model.faults, ["degrade"], model.overlay)
    assert line.startswith("0 ns to 1 s  degrade: links b0–b1, b0–b2, b1–b3, b1–b4, b2–b5, b2–b6: 0.1 of messages lost")


def test_a_fault_that_begins_when_nobody_does_anything_is_noted():
    late = "{fault: crash, brokers: [2], at: 4 s, lasts: 1 s}"
    model = resolve(scenario("{fault: rolling-restart, at: 3 s, lasts: 1 s, every: 1 s}", late))
    (note,) = model.facts["notes"]
    assert note.startswith("faults.schedule[1] (crash) begins at 4 s, when clients do nothing any more")


@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
@pytest.mark.parametrize("entry", ["{fault: crash, brokers: [1], at: 1 s}", "{fault: cut, link: [0, 1], at: 1 s}"])
def test_a_schedule_that_never_heals_and_a_service_that_recovers_are_refused_at_its_place(protocol, entry):
    text = TEXT.replace("protocol: flooding", f"protocol: {protocol}")
    faults = f"faults: {{schedule: [{{fault: pause, brokers: [0], at: 1 s, lasts: 1 s}},\n  {entry}]}}\n"
    recovers = text.replace("attributes: 1", "attributes: 1, options: {recover: true}") + faults
    with pytest.raises(ScenarioErrors) as refused:
        resolve(loads(recovers))
    assert "<text>:9:3" in str(refused.value) and "faults.schedule[1]" in str(refused.value)
    assert "this is never over, and 'news' promises to recover" in str(refused.value)
    resolve(loads(text + faults))  # who promises nothing need not recover
    resolve(loads(recovers.replace("at: 1 s}]", "at: 1 s, lasts: 1 s}]")))


@pytest.mark.parametrize("option", ["recover_within: 1 s", "check_every: 1 s"])
def test_when_it_recovers_is_said_only_of_what_recovers(option):
    with pytest.raises(ScenarioErrors, match="are for services with `recover: true`"):
        loads(TEXT.replace("protocol: flooding", "protocol: subscription, options: {" + option + "}"))


@pytest.mark.parametrize(("ends", "at", "fits"), [("[b1, b4]", 1, False), ("[b1, b4]", 2, True), ("[b4, b6]", 1, True)])
def test_a_schedule_may_open_no_more_links_of_a_broker_than_it_may_have_open(ends, at, fits):
    text = TEXT.replace("delay: 5 ms", "delay: 5 ms, latent: {pairs: [[b1, b3], [b1, b4], [b4, b6]], most: 1}")
    text = text.replace("balanced-tree, branching: 2, height: 2", "line, nodes: 7")
    entries = "{fault: open, link: [b1, b3], at: 1 s, lasts: 1 s}, " * 2 + f"{{fault: open, link: {ends}, at: {at} s}}"
    made = loads(text + f"faults: {{schedule: [{entries}]}}\n")
    if fits:
        assert len(resolve(made).faults.opens) == 3
        return
    with pytest.raises(ScenarioErrors, match=r"faults.schedule\[2\]: opens one link of b1 too many at 1 s"):
        resolve(made)


# ---- drawn ------------------------------------------------------------------------------------------


def drawn(entry: str, topology: str = "{kind: torus, rows: 5, columns: 5}", **changes: str):
    text = TEXT.replace("{kind: balanced-tree, branching: 2, height: 2}", topology).replace("4 s", "60 s")
    model = resolve(loads(text + f"faults: {{schedule: [{entry}]}}\n", [f"{k}={v}" for k, v in changes.items()]))
    return model, list(model.faults.faults)


def at_once(faults) -> int:
    edges = sorted([(each.end, -1) for each in faults] + [(each.begin, 1) for each in faults])
    return max(accumulate(by for _, by in edges))


def connected(model, broken, links: bool) -> bool:
    graph = nx.Graph(zip(model.overlay.link_a.tolist(), model.overlay.link_b.tolist()))
    if links:
        graph.remove_edges_from(
            (int(model.overlay.link_a[e // 2]), int(model.overlay.link_b[e // 2])) for e in broken
        )
    else:
        graph.remove_nodes_from(broken)
    return nx.is_connected(graph)


@pytest.mark.parametrize("what", ["crash", "cut", "pause"])
def test_random_faults_come_as_often_and_last_as_long_as_said(what):
    _, faults = drawn(f"{{fault: random, what: {what}, rate: 10/s, lasts: 50 ms}}")
    if what == "cut":
        assert [each.link ^ 1 for each in faults[::2]] == [each.link for each in faults[1::2]]
        faults = faults[::2]
    assert abs(len(faults) - 600) < 4 * 600**0.5 + 0.02 * 600  # a place that is broken already does not break again
    mean = sum(each.end - each.begin for each in faults) / len(faults)
    assert abs(mean - 50 * MS) < 4 * 50 * MS / len(faults) ** 0.5
    assert all(0 < each.begin < each.end and each.begin < 60 * S for each in faults)
    assert len({getattr(each, "link", getattr(each, "broker", 0)) for each in faults}) >= 25


def test_random_faults_are_those_of_the_seed_and_of_the_entry():
    entry = "{fault: random, what: crash, rate: 10/s, lasts: 50 ms}"
    one, again, other = (drawn(entry)[1], drawn(entry)[1], drawn(entry, seed="2")[1])
    assert one == again != other
    both = drawn(f"{entry}, {entry}")[1]
    first, second = ([each._replace(entry=0) for each in both if each.entry == n] for n in (0, 1))
    assert first == one != second


def test_limits_hold():
    text = "{{fault: random, what: {}, rate: 40/s, lasts: 300 ms, {}}}"
    _, free = drawn(text.format("crash", "until: 30 s"))
    _, few = drawn(text.format("crash", "at_once: 3"))
    assert at_once(free) > 6 and at_once(few) == 3
    assert max(each.begin for each in free) < 30 * S
    _, healed = drawn(text.format("crash", "heal_by: 20 s"))
    assert max(each.end for each in healed) == 20 * S
    for what in ("crash", "cut"):
        for limits, holds in (("keep_connected: true", True), ("keep_connected: false", False)):
            model, faults = drawn(text.format(what, limits))
            whole = []
            for now in sorted({each.begin for each in faults}):
                name = "link" if what == "cut" else "broker"
                broken = {getattr(each, name) for each in faults if each.begin <= now < each.end}
                whole.append(connected(model, broken, what == "cut"))
            assert len(whole) > 100 and all(whole) is holds


def test_a_swizzle_cuts_in_one_order_and_heals_in_another():
    _, faults = drawn("{fault: swizzle-clog, share: 0.5, at: 1 s, every: 100 ms, lasts: 1 s}")
    links = faults[::2]
    assert len(links) == 25 and len({each.link for each in links}) == 25
    assert [each.begin for each in links] == [S + n * 100 * MS for n in range(25)]
    ends = [each.end for each in links]
    assert sorted(ends) == [S + 25 * 100 * MS + S + n * 100 * MS for n in range(25)] != ends


def test_a_cascade_goes_from_neighbour_to_neighbour():
    entry = "{{fault: cascade, brokers: [0], at: 1 s, lasts: 1 s, after: 10 ms, {}}}"
    model, all_of_them = drawn(entry.format("chance: 1"))
    hops = nx.single_source_shortest_path_length(
        nx.Graph(zip(model.overlay.link_a.tolist(), model.overlay.link_b.tolist())), 0
    )
    assert {each.broker: (each.begin - S) // (10 * MS) for each in all_of_them} == hops
    assert [each.broker for each in drawn(entry.format("chance: 0"))[1]] == [0]
    assert len(drawn(entry.format("chance: 1, most: 7"))[1]) == 7


@pytest.mark.parametrize("seed", ["1", "2", "3"])
@pytest.mark.parametrize("bridge", ["false", "true"])
def test_halves_reach_one_another_over_the_bridge_only(bridge, seed):
    model, faults = drawn(f"{{fault: halves, at: 1 s, lasts: 1 s, bridge: {bridge}}}", seed=seed)
    ends = list(zip(model.overlay.link_a.tolist(), model.overlay.link_b.tolist()))
    cut = {ends[each.link // 2] for each in faults}
    assert len(faults) == 2 * len(cut) > 0
    graph = nx.Graph(each for each in ends if each not in cut)
    if bridge == "false":
        assert sorted(len(part) for part in nx.connected_components(graph))[-1] in (12, 13)
    else:
        assert any(nx.number_connected_components(nx.restricted_view(graph, [b], [])) > 1 for b in graph)
        assert nx.is_connected(graph)


def test_far_too_many_faults_are_refused():
    with pytest.raises(ScenarioErrors, match=r"faults\.schedule\[0\]\.rate: makes more than 1,000,000 faults"):
        drawn("{fault: random, what: crash, rate: 1000000/s, lasts: 1 ms}")


# ---- classes from outside ----------------------------------------------------------------------------


def given(monkeypatch, *faults):
    """The model of a scenario whose schedule is a class of somebody else, which gives these."""

    class Outside:
        def __init__(self, params, context):
            pass

        def schedule(self):
            for fault in faults:
                if isinstance(fault, Exception):
                    raise fault
                yield fault

    monkeypatch.setitem(sys.modules, "somebody", SimpleNamespace(Outside=Outside))
    text = TEXT + "faults: {schedule: [{fault: 'somebody:Outside'}]}\n"
    return resolve(loads(text, trust=True))


def test_a_class_from_outside_gives_faults_and_what_it_gives_is_in_the_id_of_the_run(monkeypatch):
    one, other = given(monkeypatch, Crash(1, S, 2 * S)), given(monkeypatch, Crash(2, S, 2 * S))
    assert list(one.faults.faults) == [Crash(1, S, 2 * S)]
    assert one.facts["model_parts"] != other.facts["model_parts"]
    assert one.facts["model_parts"] == given(monkeypatch, Crash(1, S, 2 * S)).facts["model_parts"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Crash(99, S), "there is no broker 99"),
        (Crash(-1, S), "there is no broker -1"),
        (Cut(12, S), "there is no directed link 12"),
        (Crash(0, 2 * S, S), "lasts from no time to another"),
        (Crash(0, -S, S), "lasts from no time to another"),
        (Crash("b0", S), "broker has to be the number of a broker, which `context.broker` gives (got 'b0')"),
        (Crash(True, S), "broker has to be the number of a broker, which `context.broker` gives (got True)"),
        (Crash(0, 1000.5), "begin has to be a whole number of nanoseconds (got 1000.5)"),
        (Slow(0, S, 2 * S, "10"), "factor has to be a number (got '10')"),
        (Slow(0, S, 2 * S, 1e300), "a factor is 0 or at least 1, and it ends"),
        (WrongFault("not today"), "faults.schedule[0]: not today"),
        (Slow(0, S, 2 * S, 0.5), "a factor is 0 or at least 1"),
        (Slow(0, S, NEVER, 0.0), "a factor is 0 or at least 1, and it ends"),
        (Worn(0, S, 2 * S, loss=1.5), "shares lie from 0 to 1"),
        (Worn(0, S, 2 * S, delay=-1), "nothing is quicker"),
        ("a fault", "gave a str, which is no fault"),
        (ZeroDivisionError("oh"), "cannot be set up: ZeroDivisionError: oh"),
    ],
)
def test_what_a_class_from_outside_may_not_give_is_told_at_its_entry(fault, said, monkeypatch):
    with pytest.raises(ScenarioErrors) as refused:
        given(monkeypatch, fault)
    assert said in str(refused.value) and "faults.schedule[0]" in str(refused.value)


def test_numbers_of_numpy_are_numbers(monkeypatch):
    crash, slow = Crash(np.int64(1), np.int32(S), np.int64(2 * S)), Slow(np.int8(1), S, 2 * S, np.float64(2.0))
    faults = given(monkeypatch, crash, slow).faults.faults
    assert faults == (Crash(1, S, 2 * S), Slow(1, S, 2 * S, 2.0))
    assert {type(value) for fault in faults for value in fault} == {int, float}


def outside(monkeypatch, schedule):
    """The model of a scenario whose schedule is what a function gives."""
    made = type("Outside", (), {"__init__": lambda self, params, context: None, "schedule": lambda self: schedule()})
    monkeypatch.setitem(sys.modules, "somebody", SimpleNamespace(Outside=made))
    return resolve(loads(TEXT + "faults: {schedule: [{fault: 'somebody:Outside'}]}\n", trust=True))


def test_a_schedule_that_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr("scenarios.faults.given.FAULTS_MAX", 1000)
    with pytest.raises(ScenarioErrors, match=r"faults.schedule\[0\]: makes more than 1,000 faults"):
        outside(monkeypatch, lambda: (Crash(0, S + n, S + n + 1) for n in count()))


def test_a_schedule_that_is_another_each_time_is_refused(monkeypatch):
    with pytest.raises(ScenarioErrors, match=r"faults.schedule\[0\]: gives other faults when it is asked again"):
        outside(monkeypatch, lambda: [Crash(0, random.randrange(S), 2 * S)])
    outside(monkeypatch, lambda: [Crash(0, random.Random(7).randrange(S), 2 * S)])


def test_a_class_from_outside_is_not_imported_unless_it_is_trusted():
    with pytest.raises(ScenarioErrors, match="--trust"):
        loads(TEXT + "faults: {schedule: [{fault: 'somebody:Outside'}]}\n")
