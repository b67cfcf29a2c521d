"""Programs as brokers give one trace, in every language, cut, number of shards, under faults, and gone on with."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from brokers.columns import BadState
from brokers.engine.batching import Cutting
from brokers.engine.simulate import FileTraces, MemoryTraces, simulate, tables_of
from brokers.errors import InvalidInput, ProtocolFault
from brokers.faults import NO_PLACE_AHEAD
from brokers.programs.spelling import spelled
from protocols.conformance import REHEARSALS, Variant, audit_run, check_digests, join, rehearse
from protocols.rehearsing import NARROW
from tests.brokers.program_cases import LANGUAGES, example, naughty, telling
from tests.brokers.test_engine_checkpoint import continued, folder_for, stopped_at, undisturbed
from tests.brokers.test_forgetting import forgetting
from tests.brokers.test_outages import some_of_everything

TREE, TIES, STRAINED, LOSSY, SETTLED, RING, CYCLES = REHEARSALS
SORRY = 19  # what `telling` sends once more
FEW = [
    Variant("one event at a time", Cutting("one")),
    Variant("batches up to the horizon"),
    Variant("cut at random", Cutting("random", limit=40, seed=3)),
    Variant("two shards", actors=2),
    Variant("a shard per broker", actors=7),
]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("rehearsal", [TREE, STRAINED], ids=["tree", "overload"])
def test_the_example_in_every_language_gives_the_trace_of_subscription(language, rehearsal, tmp_path):
    model = rehearse(rehearsal, "subscription")
    program = rehearse(rehearsal, example(language, tmp_path))
    assert simulate(program).digest == simulate(model).digest


def test_it_is_audited_on_what_it_says_of_itself():
    judged = audit_run(rehearse(TREE, example("python", Path())))
    assert judged.verdict == "valid" and judged.forced > 400


def test_the_example_starts_with_subscriptions_that_stand():
    model = rehearse(SETTLED, "subscription")
    assert simulate(rehearse(SETTLED, example("python", Path()))).digest == simulate(model).digest


@pytest.mark.parametrize("rehearsal", [TREE, TIES], ids=["tree", "ties"])
def test_every_way_of_running_a_program_gives_one_trace(rehearsal):
    assert check_digests(rehearse(rehearsal, telling()), FEW) == []


def test_a_program_is_told_of_what_its_links_drop_in_every_way_of_running(tmp_path):
    model = rehearse(NARROW, telling())
    assert check_digests(model, FEW) == []
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    tables = traces.tables()
    told = tables["losses"]["type"][tables["losses"]["reason"] == NO_PLACE_AHEAD]
    again = (tables["hops"]["type"] == SORRY).sum() + (told == SORRY).sum()
    assert again == (told != SORRY).sum() > 50


def test_faults_do_the_same_to_a_program_in_every_way_of_running():
    model = rehearse(TREE, telling())
    for faults in (some_of_everything(model, 7), forgetting(model, 3)):
        broken = replace(model, faults=faults)
        assert simulate(broken).digest != simulate(model).digest
        assert check_digests(broken, FEW) == []


def test_a_program_that_is_not_told_of_faults_is_refused_where_brokers_forget():
    model = rehearse(TREE, example("python", Path()))
    with pytest.raises(InvalidInput, match="cannot forget what one broker knew"):
        simulate(replace(model, faults=forgetting(model, 3)))


def test_a_run_of_a_program_that_is_stopped_goes_on_under_another_partition(tmp_path):
    model = rehearse(TREE, telling())
    whole, _ = undisturbed(tmp_path / "whole", model)
    new = folder_for(tmp_path / "stopped", model)
    stopped_at(0.4, model, new.path, 2)
    assert continued(model, new.path, 3).digest == whole.digest


def test_what_a_checkpoint_says_of_a_program_is_checked():
    pair = join(example("python", Path()), [(0, 1)])
    good = {"brokers": [[0, 1, b"\x90"], [1, 0, b"\x90"]]}
    wrong = (
        {"brokers": [[0, 1, b"\xc1"], [1, 0, b"\x90"]]},
        {"brokers": [[0, 1, b"\x90"]]},
        {"brokers": [[0, 1, b"\x90"], [0, 1, b"\x90"]]},
        {"brokers": [[0, -1, b"\x90"], [1, 0, b"\x90"]]},
        {"brokers": [[7, 1, b"\x90"], [1, 0, b"\x90"]]},
        {"brokers": [[0, 1, b"\x90"], [1, 2**62, b"\x90"]]},
        {"brokers": [0]},
        {"brokers": 0},
        {},
    )

    def observe(shards):
        protocol = shards.shards[0].services.protocols[0]
        protocol.load([good], {})
        assert protocol.entries().tolist() == [1, 0]
        for bad in wrong:
            with pytest.raises(BadState):
                protocol.load([bad], {})

    simulate(pair.model(), observe=observe)


@pytest.mark.parametrize(
    ("how", "said"), [("state no object", "without an object 'state'"), ("state of others", "of other brokers than")]
)
def test_a_state_that_is_none_is_a_finding(how, said):
    pair = join(naughty(how), [(0, 1)])

    def observe(shards):
        with pytest.raises(ProtocolFault, match=said):
            shards.shards[0].services.protocols[0].state()

    simulate(pair.model(), observe=observe)


def test_that_a_program_keeps_no_state_is_told_before_the_run(tmp_path):
    model = rehearse(TREE, naughty("chatter"))
    told: list[str] = []
    trace = FileTraces(str(folder_for(tmp_path, model).path), "full", tables_of(model))
    simulate(model, trace=trace, checkpoint_every_s=0.0, notice=told.append)
    assert told[0].endswith('keeps no state (it answers hello without "state": true), so no checkpoints are taken')


def test_the_order_of_what_a_program_does_and_words_and_rows_of_its_own_are_in_the_trace():
    pair = join(telling(), [(0, 1)])
    pair.send(1, "subscribe", [0, 0.2, 0.8], word=pair.interest(1))
    pair.send(0, "publish", [0.5, 0, 0, 0])
    assert [delivery.client for delivery in pair.deliveries()] == [1]
    over = pair.over(0, 1)
    pings = [hop for hop in over if hop.type == 17]
    assert [hop.word for hop in pings[:2]] == [2**60 + 1, 2**60 + 2]
    assert pings[0].time_ns == 8_000_000
    assert {hop.type for hop in over} == {0, 17, 18}


LEANING = """\
import json, sys

first = None
for line in sys.stdin:
    said, told = json.loads(line), {}
    if "hello" in said:
        told = {"hello": 1, "kind": "content"}
    if "events" in said:
        told = {"actions": []}
        for event in said["events"]:
            if first is None:
                first = event
            else:
                told["actions"].append(["depends", event["cause"], first["cause"]])
                told["actions"].append(["leans", event["word"], str(first["word"])])
    print(json.dumps(told), flush=True)
"""


def test_a_program_may_say_what_depends_and_leans_on_what(tmp_path):
    (tmp_path / "leaning.py").write_text(LEANING, "utf-8")
    pair = join(spelled([sys.executable, str(tmp_path / "leaning.py")]), [(0, 1)])
    first, second = (pair.send(0, "subscribe", [0, 0.2, 0.8], word=pair.interest(0, number)) for number in (0, 1))
    traces = MemoryTraces("full")

    def observe(shards):
        tallies = shards.shards[0].tallies
        assert tallies.dependencies.tolist() == [[second, first]]
        assert tallies.leanings.tolist() == [[0, pair.interest(0, 1), pair.interest(0, 0)]]

    simulate(pair.model(), trace=traces, observe=observe)
    told = traces.tables()["dependencies"]
    assert (told["change"].tolist(), told["depends_on"].tolist()) == ([second], [first])
