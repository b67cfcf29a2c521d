"""Shards as threads: the same trace as one, whatever makes them leave their windows; and what if one fails."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from brokers.engine import crossing
from brokers.engine.batching import Cutting
from brokers.engine.course import Course, will_be_compiled
from brokers.engine.meeting import Meeting, others_rest, publish
from brokers.engine.runfolder import create_run, same_rows
from brokers.engine.shard import Shard
from brokers.engine.simulate import FileTraces, MemoryTraces, simulate, tables_of
from brokers.errors import Interrupted, InvalidInput, ProtocolFault
from brokers.faults import LOST, NOTHING, Crash, Schedule
from brokers.stays import Stay, numbered
from protocols.conformance import REHEARSALS, Recorded, rehearse
from protocols.content.flooding import Flooding

TREE, TIES, STRAINED, LOSSY, SETTLED, RING, CYCLES = REHEARSALS
COMPILED = ["flooding", "subscription", "covering"]


@pytest.fixture
def whys(monkeypatch):
    """Why windows were left, of all shards."""
    seen: list[int] = []
    goes_on = crossing.travel

    def noted(*arguments: Any) -> int:
        seen.append(goes_on(*arguments))
        return seen[-1]

    monkeypatch.setattr(crossing, "travel", noted)
    return seen


def in_threads(model: Any, actors: int = 2, **more: Any) -> Any:
    return simulate(model, engine="threads", actors=actors, **more)


@pytest.mark.parametrize("protocol", COMPILED)
@pytest.mark.parametrize("rehearsal", [STRAINED, LOSSY, CYCLES], ids=["overload", "losses", "cycles"])
def test_the_whole_trace_is_that_of_one_shard_to_the_row(protocol, rehearsal):
    model = rehearse(rehearsal, protocol)
    found = []
    for run in (simulate, in_threads):
        traces = MemoryTraces("full")
        result = run(model, trace=traces)
        read = Recorded(traces).read
        tables = ("hops", "deliveries", "losses", "samples", "publications")
        found.append([result.digest, *(sorted(map(str, read(name).to_pylist())) for name in tables)])
    assert found[0] == found[1]
    assert found[0][1] and found[0][2]


def test_windows_are_as_short_as_links_and_cross_without_python(whys):
    model = rehearse(TREE, "flooding")
    shards: list[Any] = []
    result = in_threads(model, partition="round-robin", observe=lambda them: shards.extend(them.shards))
    windows = [shard.course.crossing.windows for shard in shards]
    assert windows[0] == windows[1] > 100
    assert result.digest == simulate(model).digest
    assert set(whys) <= {crossing.DONE, crossing.RING}
    assert all(len(shard.links.outbox) == 0 for shard in shards)
    assert sum(shard.in_flight for shard in shards) == 0


@pytest.mark.parametrize("how", ["events", "rounds"])
def test_rounds_in_python_are_alone_and_what_they_replace_is_seen_by_all(how, monkeypatch, whys):
    """Bodies and causes that grow while others wait: with room for nothing, everything grows all the time."""
    rounds: list[int] = []
    whole = Shard.round

    def alone(shard: Shard, size: int) -> None:
        rounds.append(threading.get_ident())
        bodies = shard.services.bodies
        for column in ("hash", "size", "time"):
            setattr(bodies, column, getattr(bodies, column).copy())
        for each in bodies.carried:
            each.refs = each.refs.copy()
        whole(shard, size)

    model = rehearse(TREE, "covering")
    whole_digest = simulate(model).digest
    monkeypatch.setattr(Shard, "round", alone)
    found = in_threads(model, 3, partition="round-robin", cutting=Cutting(compiled=how))
    assert found.digest == whole_digest
    assert len(set(rounds)) == 3, "each of three shards had changes that are handled in Python"
    assert crossing.RENEW in whys


@pytest.mark.parametrize(("first", "then"), [("threads", "inline"), ("inline", "threads"), ("threads", "threads")])
@pytest.mark.parametrize("protocol", ["subscription", "covering"])
def test_a_run_goes_on_from_a_checkpoint_of_another_engine(protocol, first, then, tmp_path):
    model = rehearse(STRAINED, protocol)
    whole = create_run(tmp_path, "whole", {}, scenario={}, seed=model.seed, level="full")
    done = simulate(model, trace=FileTraces(str(whole.path), "full", tables_of(model)))
    cut = create_run(tmp_path, "cut", {}, scenario={}, seed=model.seed, level="full")
    trace = FileTraces(str(cut.path), "full", tables_of(model))

    def stop(now_ns: int, events: int, under_way: int) -> None:
        if now_ns >= model.duration_ns // 2:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        simulate(
            model, engine=first, actors=2, trace=trace, progress=stop, checkpoint_every_s=0.0, max_window_ns=3_000_000
        )
    again = simulate(model, engine=then, actors=3, trace=trace, resume=True)
    assert again.digest == done.digest
    one, other = whole.finish(done.digest), cut.finish(again.digest)
    assert [table for table in one.model_tables() if not same_rows(one.read(table), other.read(table))] == []


@pytest.mark.parametrize("actors", [1, 2, 5])
@pytest.mark.parametrize("window_ns", [None, 1_700_000])
def test_any_number_of_threads_and_any_window_give_the_digest(actors, window_ns):
    model = rehearse(SETTLED, "subscription")
    assert in_threads(model, actors, max_window_ns=window_ns).digest == simulate(model).digest


def test_rings_that_are_full_of_what_crosses_grow(monkeypatch, whys):
    from brokers.engine.rings import Rings

    model = rehearse(STRAINED, "flooding")
    digest = simulate(model).digest
    begin = Rings.__init__

    def narrow(rings: Rings, *counts: int) -> None:
        begin(rings, *counts)
        rings.table[:, 1] = 1  # a place each

    monkeypatch.setattr(Rings, "__init__", narrow)
    assert in_threads(model, partition="round-robin").digest == digest
    assert crossing.RING in whys


class Bursting(Flooding):
    """Fails at some broker, in the part that Python does."""

    def prepare(self, *arguments: Any) -> None:
        if self.env.local[1]:
            raise RuntimeError("no more")
        super().prepare(*arguments)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(
    ("error", "becomes"), [(RuntimeError, RuntimeError), (KeyboardInterrupt, Interrupted)], ids=["a fault", "Ctrl-C"]
)
def test_a_shard_that_fails_or_is_interrupted_stops_the_others(number, error, becomes, monkeypatch):
    model = rehearse(TREE, "flooding")
    goes_on = Course._write_down

    def failing(course: Course) -> None:
        if course.crossing is not None and course.crossing.number == number:
            raise error("no more")
        goes_on(course)

    monkeypatch.setattr(Course, "_write_down", failing)
    with pytest.raises(becomes):
        in_threads(model, trace=MemoryTraces("full"))
    assert not [each for each in threading.enumerate() if each.name.startswith("shard")]


def test_a_fault_of_a_protocol_names_it():
    model = rehearse(TREE, f"{__name__}:Bursting")
    with pytest.raises(ProtocolFault, match="its protocol raised RuntimeError: no more"):
        in_threads(model)


def test_control_c_between_windows_leaves_no_thread():
    def pressed(*figures: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        in_threads(rehearse(TREE, "flooding"), progress=pressed)
    assert not [each for each in threading.enumerate() if each.name.startswith("shard")]


def test_protocols_without_a_compiled_handler_are_refused_by_name():
    with pytest.raises(InvalidInput, match=r"needs protocols with a compiled handler.*'service'"):
        in_threads(rehearse(TREE, "topk-ingress", view="message"))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"options": {"recover": True}}, "`recover` asks for it"),
        ({"view": "message"}, "`view: message` asks"),
        ({"faults": Schedule((Crash(1, 10, 20, LOST),))}, "brokers of this schedule forget"),
    ],
)
def test_why_a_compiled_handler_is_not_used_is_said(more, why):
    faults = more.pop("faults", NOTHING)
    with pytest.raises(InvalidInput, match=f"that of .*Subscription of 'service' is not used here, since {why}"):
        in_threads(replace(rehearse(TREE, "subscription", **more), faults=faults))


def test_subscriptions_of_clients_with_sessions_do_not_count_as_compiled():
    model = rehearse(TREE, "subscription")
    assert will_be_compiled(model)
    stays, client_broker = numbered([Stay(0, 1, 0, 5, keep_ns=9), Stay(0, 2, 7)], model.client_broker)
    assert not will_be_compiled(replace(model, stays=stays, client_broker=client_broker))


def test_who_wants_to_be_alone_waits_until_all_others_rest():
    meeting = Meeting(3)
    entered = threading.Event()

    def enter() -> None:
        with meeting.alone(0):
            entered.set()

    one = threading.Thread(target=enter)
    one.start()
    assert not entered.wait(0.05), "two others are at work"
    publish(meeting.table, 1, 0, 1)  # one is at the meeting
    assert not entered.wait(0.05)
    publish(meeting.table, 2, 4, 1)  # the other waits to be alone itself
    one.join(5)
    assert entered.is_set() and meeting.epoch == 1
    meeting.stop()
    others_rest(meeting.table, 0)
    assert np.array_equal(meeting.table[0], np.zeros(16))
