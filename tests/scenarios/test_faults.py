"""The section `faults` of a scenario: what it makes, and what it refuses."""

from __future__ import annotations

import pytest

from brokers.faults import NEVER, Crash, Cut, Slow, Worn
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
        ("{fault: crash, brokers: [b2, 0], at: 1 s, lasts: 500 ms}", [Crash(0, S, 1500 * MS), Crash(2, S, 1500 * MS)]),
        ("{fault: crash, brokers: [1], at: 1 s}", [Crash(1, S, NEVER)]),
        ("{fault: pause, brokers: [1], at: 0, lasts: 1 s}", [Slow(1, 0, S, 0.0)]),
        ("{fault: slow, brokers: [1], at: 0, lasts: 1 s, factor: 3}", [Slow(1, 0, S, 3.0)]),
        ("{fault: cut, link: [b0, b1], at: 1 s}", [Cut(0, S), Cut(1, S)]),
        ("{fault: cut, link: [b1, b0], way: there, at: 1 s}", [Cut(1, S)]),
        (
            "{fault: degrade, link: [b0, b2], way: there, at: 1 s, lasts: 1 s, loss: 5 %, delay: 2 ms}",
            [Worn(2, S, 2 * S, 0.05, 0.0, 2 * MS, 1.0)],
        ),
        ("{fault: partition, sets: [[b1, b3, b4]], at: 1 s, lasts: 1 s}", [Cut(0, S, 2 * S), Cut(1, S, 2 * S)]),
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
        ("{fault: degrade, at: 1 s, lasts: 1 s, loss: 2}", "a fraction lies between 0 and 1"),
        ("{fault: partition, sets: [[0], [0]], at: 1 s}", "broker 0 is in two of the sets"),
        ("{fault: cut, link: [b0, b1], at: 1 s, durration: 1 s}", "durration"),
    ],
)
def test_what_cannot_be_is_refused_at_its_place(entry, said):
    with pytest.raises(ScenarioErrors) as refused:
        resolve(scenario("{fault: crash, brokers: [1], at: 1 s}", entry))
    assert said in str(refused.value)
    assert "faults.schedule[1]" in str(refused.value) and "<text>:8:" in str(refused.value)


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
