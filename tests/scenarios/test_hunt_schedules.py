"""Schedules of the hunt: what is aimed at is met, and what only delays excuses nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from brokers.engine.simulate import FileTraces, simulate, tables_of
from scenarios.cli import main
from scenarios.hunt.aiming import aim, aimed
from scenarios.hunt.case import Act, Case, Edge
from scenarios.hunt.drawing import Prey, draw
from scenarios.hunt.hunt import hunt
from scenarios.hunt.judges import JUDGES, chosen, judged, widened
from scenarios.hunt.moments import moments
from scenarios.hunt.running import run
from scenarios.hunt.shrinking import shrink
from tests.scenarios.planted import CountsStretches, ForgetsALink, ForgetsToWithdraw

MS, S = 10**6, 10**9
RANGE, VALUES = (0.0, 0.0, 1.0), (0.5, 0.5, 0.5, 0.5)
STAR = (Edge(0, 1, MS), Edge(0, 2, MS), Edge(0, 3, MS))


def late(at: int, link: list[int], delay: int) -> dict[str, object]:
    return {"fault": "degrade", "at": at, "lasts": 1, "link": link, "way": "there", "delay": delay}


def pair(*acts: Act, faults: tuple[dict[str, object], ...] = ()) -> Case:
    return Case("subscription", "content", 2, STAR[:1], (0, 1), acts, 5 * S, faults=faults)


# ---- what only delays --------------------------------------------------------------------------------


def test_one_late_message_is_late_alone_and_what_is_behind_it_stays_behind():
    publish = [Act(1 * S + i * MS, 1, "publish", body=VALUES) for i in range(3)]
    case = pair(Act(MS, 0, "subscribe", 0, body=RANGE), *publish)
    slowed = case.but(faults=(late(1 * S + MS, [1, 0], 30 * MS),))
    times = [np.sort(run(each).tables["deliveries"]["time_ns"]).tolist() for each in (case, slowed)]
    assert times[1][0] == times[0][0]
    assert times[1][1] == times[0][1] + 30 * MS and times[1][2] >= times[1][1]
    assert judged(run(slowed), JUDGES) == []


def test_a_missing_delivery_is_not_excused_by_a_late_message():
    acts = (Act(MS, 0, "subscribe", 0, body=RANGE), Act(S, 1, "publish", body=VALUES))
    protocol = Prey.of(ForgetsALink).protocol
    case = Case(protocol, "content", 4, STAR, (0, 3), acts, 3 * S, faults=(late(MS, [0, 1], 20 * MS),))
    assert not case.loses
    assert [each.same for each in judged(run(case), JUDGES)] == [("delivery", "missed")]


def test_nor_is_what_is_left_behind():
    acts = (Act(MS, 0, "subscribe", 0, body=RANGE), Act(2 * S, 0, "unsubscribe", 0))
    case = pair(*acts, faults=(late(MS, [0, 1], 20 * MS),)).but(protocol=Prey.of(ForgetsToWithdraw).protocol)
    assert [each.same for each in judged(run(case), JUDGES)] == [("leaks", "entries")]


def test_what_may_lose_something_is_told_apart():
    only = late(MS, [0, 1], MS)
    assert not pair(faults=(only,)).loses
    assert pair(faults=({**only, "loss": 0.5},)).loses
    assert pair(faults=({"fault": "pause", "at": 1, "lasts": 5, "brokers": [0]},)).loses


# ---- aiming ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["subscription", "topk-gather", "context-edge"])
def test_most_of_what_is_aimed_comes_where_and_when_it_was_aimed(name):
    prey, met, every = Prey.of(name, faults=False), 0, 0
    for number in range(6):
        base = draw(prey, 5, number)
        seen = moments(run(base))
        for shot in (aimed(prey, base, seen, 7, 10 * number + i) for i in range(6)):
            if shot is None or shot.target is None:
                continue
            hops = run(shot.case).tables["hops"]
            at = (hops["broker"] == shot.target.broker) & (hops["time_ns"] == shot.target.time)
            met, every = met + bool(at.any()), every + 1
    assert every > 10 and met >= every // 2


def test_one_run_asks_about_several_moments_at_once():
    prey = Prey.of("subscription", faults=False)
    base = draw(prey, 5, 1)
    seen = moments(run(base))
    more = [len(shot.acts) - len(base.acts) for shot in (aim(prey, base, seen, 7, i) for i in range(40)) if shot]
    assert 1 in more and max(more) >= 3


def test_a_run_tells_when_messages_left_and_what_answers_what():
    case = pair(Act(MS, 0, "subscribe", 0, body=RANGE), Act(S, 1, "publish", body=VALUES))
    seen = moments(run(case))
    assert [(each.time, each.broker, each.sent, each.act) for each in seen.every] == [
        (MS, 0, -1, 0), (2 * MS, 1, MS, 0),
    ]  # fmt: skip
    assert seen.answers == {0: frozenset({1})}


# ---- ways of running ---------------------------------------------------------------------------------


def test_what_shows_in_one_way_of_running_is_small_and_shows_again():
    (found,) = hunt(CountsStretches, runs=60, faults=False, enough=1, judges=["cutting"]).findings
    assert found.minimal and len(found.case.acts) <= 6
    again = judged(run(found.case), widened(chosen(["cutting"])), dear=True)
    assert [each.judge for each in again] == ["cutting"]


def test_two_clients_become_one_where_one_is_enough():
    case = pair(Act(MS, 0, "subscribe", 0, body=RANGE), Act(2 * MS, 1, "subscribe", 0, body=RANGE))
    left = shrink(case, lambda each: sum(act.op == "subscribe" for act in each.acts) == 2).case
    assert len(left.clients) == 1 and len({act.number for act in left.acts}) == 2


def test_checkpoints_are_taken_at_simulated_times(tmp_path):
    model = pair(*(Act(i * MS, 0, "subscribe", i, body=RANGE) for i in range(1, 9))).model
    traces = FileTraces(str(tmp_path), "none", tables_of(model))
    kept = simulate(model, trace=traces, checkpoints_ns=[2 * MS, 5 * MS], max_window_ns=MS)
    assert kept.engine["checkpoints"] == 2
    assert kept.digest == simulate(model).digest
    assert simulate(model, trace=traces, resume=True).digest == kept.digest


def test_a_replay_goes_on_making_a_case_smaller(tmp_path, capsys):
    idle = [Act(i * S // 8, 1, "publish", body=(0.9, 0.0, 0.0, 0.0)) for i in range(1, 4)]
    acts = (Act(MS, 0, "subscribe", 0, body=RANGE), *idle, Act(S, 1, "publish", body=VALUES))
    target = "tests.scenarios.planted:ForgetsALink"
    case = Case(target, "content", 4, STAR, (0, 3), acts, 3 * S)
    file = tmp_path / "large.yaml"
    file.write_text(json.dumps(case.scenario()))
    arguments = ["hunt", target, "--replay", str(file), "--judges", "delivery", "--out", str(tmp_path)]
    assert main([*arguments, "--shrink"]) == 1
    told = capsys.readouterr().out
    assert "from 5 actions to 2" in told and "nothing single can be left out" in told
    assert main(["hunt", target, "--shrink", "--runs", "1"]) == 3
