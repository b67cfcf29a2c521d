"""Random runs under faults: nothing is wrong with them, and what would be is told."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from brokers import names
from brokers.contract import NEVER
from brokers.faults import Schedule
from brokers.limits import NEWEST, OLDEST, REFUSE
from protocols.content.flooding import Flooding
from scenarios.trials import __main__ as command
from scenarios.trials import running, workers
from scenarios.trials.drawing import draw, protocols

SAMPLE, CHUNK = 200, 20
NIGHTLY = 10_000


def went(numbers: range, seed: int = 1) -> list[dict[str, Any]]:
    """What came of these trials; nothing may be wrong with any."""
    found = [workers.attempt(seed, number) for number in numbers]
    assert [(each["trial"], each["wrong"]) for each in found if each["wrong"]] == []
    return found


@pytest.mark.parametrize("first", range(0, SAMPLE, CHUNK))
def test_runs_under_random_faults_are_the_same_in_every_way_and_keep_what_is_promised(first):
    found = went(range(first, first + CHUNK))
    assert sum(each["ways"] for each in found) >= 3 * CHUNK
    assert sum(each["lost"] for each in found) > 0
    assert Counter(each["verdict"] for each in found)["valid"] > CHUNK // 3


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, NIGHTLY, 250))
def test_ten_thousand_runs_under_random_faults_go_well(first):
    went(range(first, first + 250), seed=2)


def test_the_sample_has_every_fault_and_every_protocol_in_it_and_stops_some():
    trials = [draw(1, number) for number in range(SAMPLE)]
    assert {name for trial in trials for name, _ in trial.entries} == set(names.table("faults"))
    assert {trial.protocol for trial in trials} == set(protocols())
    assert {trial.model.faults.detect_ns == NEVER for trial in trials} == {True, False}
    assert any(len(trial.entries) > 2 for trial in trials)
    models = [trial.model for trial in trials]
    assert {model.limits.full for model in models if any(model.limits.places)} == {NEWEST, OLDEST, REFUSE}
    for some in (
        [model for model in models if model.limits.messages],
        [model for model in models if model.overlay.has_latent],
        [model for model in models if model.faults.opens],
        [model for model in models if model.faults.forgetful],
        [model for model in models if model.stays is not None and not model.stays.keep_ns.any()],
        [model for model in models if model.stays is not None and model.stays.keep_ns.any()],
        [model for model in models if model.services[0].options.get("recover")],
        [model for model in models if model.services[0].options.get("check_every")],
    ):
        assert len(some) > 1
    one = draw(1, 3)
    assert one.entries == draw(1, 3).entries != draw(2, 3).entries
    assert one.model.faults == draw(1, 3).model.faults


class Forgetful(Flooding):
    """Floods, and forgets every third publication."""

    def handle(self, batch: Any, out: Any) -> None:
        self.count = getattr(self, "count", 0) + 1
        if self.count % 3:
            super().handle(batch, out)


def flawed(**changes: Any) -> running.Found:
    """What is found where the protocol of a trial has a flaw."""
    trial = next(t for t in (draw(1, number) for number in range(500)) if t.protocol == "flooding")
    model = trial.model
    service = replace(model.services[0], **changes)
    return running.run(replace(trial, model=replace(model, services=[service], faults=Schedule())))


def test_a_protocol_that_depends_on_how_batches_are_cut_is_found():
    found = flawed(protocol_target=f"{__name__}:Forgetful", view="auto")
    assert any("another digest" in each for each in found.wrong)
    assert any(each.startswith("invalid") for each in found.wrong)


def test_a_run_without_an_end_is_told_and_not_waited_for(monkeypatch):
    monkeypatch.setattr(running, "EVENTS_MOST", 50)
    found = workers.attempt(1, 1)
    assert "more than 50 events by" in found["wrong"][0] and found["verdict"] == "none"


def test_a_trial_that_takes_too_long_is_ended_and_the_others_go_on():
    found = {each["number"]: each["wrong"] for each in workers.all_of(1, [0, 1], 1, patience_s=0.0)}
    ended = ["it did not end in 0 s"]
    assert found[0] == ended  # which has to import everything first
    assert found[1] in (ended, []) and len(found) == 2  # it may have ended by then


def test_a_stopped_command_goes_on_after_its_log_and_a_finding_comes_with_its_replay(tmp_path, capsys, monkeypatch):
    log = tmp_path / "trials.jsonl"

    def here(seed, numbers, jobs, patience):
        return (workers.attempt(seed, number) for number in numbers)

    monkeypatch.setattr(command, "all_of", here)
    assert command.main(["--runs", "2", "--log", str(log)]) == 0
    assert len(log.read_text().splitlines()) == 2
    row = json.loads(log.read_text().splitlines()[1])
    log.write_text(log.read_text().splitlines()[0] + "\n" + json.dumps({**row, "wrong": ["something"]}) + '\n{"cut')
    monkeypatch.setattr(command, "all_of", lambda seed, numbers, jobs, patience: iter(numbers and pytest.fail("again")))
    capsys.readouterr()
    assert command.main(["--runs", "2", "--log", str(log)]) == 1
    told = capsys.readouterr().out
    assert ": something\n    python -m scenarios.trials --seed 1 --only 1\n" in told
    assert "2 trials" in told and "1 trials with something wrong" in told
    assert command.main(["--only", "5"]) == 0
    assert "wrong" not in capsys.readouterr().out
