"""The judge of memory: it finds leaks that nothing tells of, names them, and accuses nobody who comes to a level."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from brokers.errors import InvalidInput
from protocols.content.reliable.streams import Stream
from scenarios.hunt import growth
from scenarios.hunt.case import Act, Case, Edge, Move
from scenarios.hunt.drawing import Prey, draw, orderly
from scenarios.hunt.growth import BYTES, grows, grows_soon
from scenarios.hunt.hunt import hunt
from scenarios.hunt.judges import JUDGES, judged
from scenarios.hunt.replaying import replay
from scenarios.hunt.rounds import ends_all, played
from scenarios.hunt.running import run
from scenarios.hunt.sizes import ALL, sizes_of
from scenarios.hunt.telling import write
from tests.analysis.runs_of_cases import case_of
from tests.planted.announcing import Members, NeverForgotten
from tests.planted.leaking import LEAKS, RIGHT, Buries, Recalls
from tests.planted.registry import crash, failing
from tests.planted.settings import Setting

MS, S = 1_000_000, 1_000_000_000
TWINS = [twin for _, _, twin, _ in LEAKS]


def case(protocol: str = "subscription", **more: Any) -> Case:
    """A client subscribes, another publishes, and the first is gone again."""
    acts = (
        Act(1 * MS, 0, "subscribe", 3, None, (0.0, 0.2, 0.8)),
        Act(100 * MS, 1, "publish", None, None, (0.5, 0.0, 0.0, 0.0)),
        Act(200 * MS, 0, "unsubscribe", 3),
    )
    usual: dict[str, Any] = {
        "brokers": 2, "edges": (Edge(0, 1, MS),), "clients": (0, 1), "acts": acts, "duration_ns": 2 * S
    }  # fmt: skip
    return Case(protocol, "content", **{**usual, **more})


def named(protocol: type) -> str:
    return f"{protocol.__module__}:{protocol.__qualname__}"


def asked_of(protocol: type, options: dict[str, Any], runs: int) -> tuple[int, list[Any]]:
    """Of how many drawn cases the judge was asked, and what it had against them."""
    prey, asked, found = Prey.of(protocol, options=options), 0, []
    for number in range(runs):
        outcome = run(draw(prey, 5, number))
        asked += growth.is_asked(outcome)
        found += grows(outcome)
    return asked, found


# ---- what leaks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("leak", "attribute", "options"), [(leak, name, said) for leak, name, _, said in LEAKS])
def test_a_leak_is_found_and_the_attribute_is_named(leak, attribute, options):
    prey = Prey.of(leak, options=options)
    outcomes = (run(draw(prey, 1, number)) for number in range(120))
    sort, told = next(found for outcome in outcomes for found in grows(outcome))
    assert sort == attribute and f"{attribute!r} grows for ever" in told


@pytest.mark.parametrize("protocol", [NeverForgotten, Members])
def test_messages_that_get_larger_with_each_round_are_told_though_there_are_no_more_of_them(protocol):
    lives = failing(*(crash(3, 30 + 60 * life, 60 + 60 * life) for life in range(4)))
    script = ((10, 0, "+"), (20, 0, "-"), (3_000, 0, "!"))
    setting = Setting(((0, 1), (1, 2), (2, 3)), (0,), script, lives, duration_ms=6_000)
    told = dict(grows_soon(run(case_of(setting, protocol))))
    assert (BYTES in told) == (protocol is NeverForgotten)


def test_a_hunt_finds_a_leak_by_itself():
    report = hunt(Recalls, runs=200, enough=1, shrink_seconds=0, lines=False)
    assert [each.same for each in report.findings] == [("grows", "seen")]


def test_a_leak_is_made_small_and_its_scenario_shows_it_again(tmp_path):
    report = hunt(Buries, runs=200, faults=False, judges=["grows"], enough=1, lines=False)
    (found,) = report.findings
    assert found.minimal and [act.op for act in found.case.acts] == ["subscribe", "unsubscribe"]
    assert found.told.endswith("it holds 5 after 4, 9 after 8 and 17 after 16 rounds")
    folder = write(found, tmp_path, "leak")
    assert [each.same for each in replay(folder / "scenario.yaml").mistakes] == [("grows", "slots")]


def test_the_broker_that_holds_most_is_named():
    outcome = run(case(named(Buries), brokers=3, edges=(Edge(0, 1, MS), Edge(1, 2, MS)), clients=(0, 0)))
    assert [sort for sort, _ in grows_soon(outcome)] == ["slots"]
    (told,) = (told for _, told in grows(outcome))
    assert "in broker b" in told and "it holds" in told


# ---- what does not -------------------------------------------------------------------------------------


@pytest.mark.parametrize("right", [*RIGHT, *TWINS])
def test_what_comes_to_a_level_is_not_accused(right):
    options = next((said for _, _, twin, said in LEAKS if twin is right), {})
    asked, found = asked_of(right, options, 12)
    assert asked >= 3 and found == []


@pytest.mark.parametrize("protocol", ["topk-ingress", "topk-bounded"])
def test_filters_that_came_and_went_where_nobody_publishes_leave_nothing_behind(protocol):
    """Found by the judge: brokers noted for their index that something was gone which it had never had."""
    acts = (
        Act(1 * MS, 0, "subscribe", 0, None, (1.0, 0.0, 0.0, 1.0)),
        Act(100 * MS, 0, "unsubscribe", 0),
    )
    outcome = run(Case(protocol, "topk", 2, (Edge(0, 1, MS),), (0, 1), acts, 2 * S, view="message"))
    assert growth.is_asked(outcome) and list(grows_soon(outcome)) == []


def test_a_stream_forgets_what_it_asked_for_once_it_has_all_of_it():
    """Found by the judge, of `reliable`: a range for each loss, for ever."""
    stream = Stream(0, 1)
    for lost in range(0, 20, 2):
        stream.known.add(lost + 1, lost + 2)
        stream.head = lost + 2
        assert stream.to_ask() == [(lost, lost + 1)] and stream.to_ask() == []
        stream.known.add(lost, lost + 1)
        assert stream.to_ask() == [] and list(stream.asked) == []


@pytest.mark.parametrize("back", [(), (Move(0, 600 * MS), Move(0, 610 * MS, 0))], ids=["away", "and back"])
def test_what_was_noted_of_stays_is_forgotten_once_they_are_long_over(back):
    """Found by the judge: the last publications of whoever ever published, noted for each stay of a subscriber.

    Where the subscriber came back, what was noted was handed on whenever somebody would have looked through it.
    """
    acts = (
        Act(1 * MS, 0, "subscribe", 0, None, (0.0, 0.2, 0.8)),
        Act(100 * MS, 1, "publish", None, None, (0.5, 0.0, 0.0, 0.0)),
        Act(500 * MS, 1, "publish", None, None, (0.5, 0.0, 0.0, 0.0)),
        Act(900 * MS, 0, "unsubscribe", 0),
    )
    moves = (Move(0, 200 * MS), Move(0, 210 * MS, 1), Move(1, 300 * MS), Move(1, 320 * MS, 0), *back)
    edges = (Edge(0, 1, MS), Edge(1, 2, MS))
    outcome = run(case(brokers=3, edges=edges, clients=(0, 2), acts=acts, moves=moves, session={"keep": 50 * MS}))
    assert growth.is_asked(outcome) and "handing.last" in [sort for sort, _ in grows_soon(outcome)]  # for a while
    assert list(grows(outcome)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"edges": (Edge(0, 1, MS, loss=0.1),)},
        {"queues": {"places": 4}, "cost": {"base": 1e6}},
        {"acts": case().acts[:2]},
    ],
    ids=["links lose messages", "queues have few places", "something still stands"],
)
def test_nothing_is_said_where_chance_or_somebody_leaves_something(changes):
    assert growth.is_asked(run(case()))
    assert not growth.is_asked(run(case(**changes)))


def test_a_protocol_that_raises_something_in_a_later_round_is_for_other_judges(monkeypatch):
    outcome = run(case(named(Buries)))
    monkeypatch.setattr(Buries, "look_at", lambda self, message: 1 / 0)
    assert list(grows(outcome)) == []


def test_the_judge_is_asked_now_and_then(monkeypatch):
    asked = []
    judge = JUDGES["grows"]._replace(ask=lambda outcome: asked.append(outcome) or iter(()))
    monkeypatch.setitem(JUDGES, "grows", judge)
    hunt("subscription", runs=60, lines=False)
    assert len(asked) == 3


# ---- rounds --------------------------------------------------------------------------------------------


def test_rounds_are_the_case_again_and_again_under_other_numbers():
    cut = {"fault": "cut", "at": 5 * MS, "lasts": MS, "link": [0, 1]}
    one = case(faults=(cut,), moves=(Move(1, 300 * MS, 0),), settled=True)
    three = played(one, 3, 10 * S)
    assert orderly(three) and three.model is not None and not three.settled
    assert [act.number for act in three.acts if act.op == "subscribe"] == [0, 1, 2]
    assert [act.at for act in three.acts if act.op == "publish"] == [100 * MS + i * 10 * S for i in range(3)]
    assert [each["at"] for each in three.faults] == [5 * MS + i * 10 * S for i in range(3)]
    assert [(move.at, move.broker) for move in three.moves] == [
        (300 * MS, 0), (10 * S + 1, 1), (10 * S + 300 * MS, 0), (20 * S + 1, 1), (20 * S + 300 * MS, 0)
    ]  # fmt: skip
    outcome = run(three)
    assert len(outcome.tables["publications"]["time_ns"]) == 3
    assert judged(outcome, JUDGES) == []


def test_what_has_a_name_that_no_other_round_can_have_is_not_played_again():
    kind = run(case()).kind
    assert ends_all(case(), kind)
    ended = (Act(1, 0, "subscribe", None, 7, (0.0, 0.2, 0.8)), Act(2, 0, "unsubscribe", None, 7))
    assert not ends_all(case(acts=ended), kind)


def test_more_rounds_than_a_scenario_may_have_are_none(monkeypatch):
    def refuse(*said: Any) -> Any:
        raise InvalidInput("too much")

    outcome = run(case(named(Buries)))
    monkeypatch.setattr(growth, "played", refuse)
    assert list(grows(outcome)) == []


# ---- counting ------------------------------------------------------------------------------------------


@dataclass
class Inner:
    deep: list[int] = field(default_factory=lambda: [1, 2, 3])


class Slotted:
    __slots__ = ("kept", "unset")

    def __init__(self) -> None:
        self.kept = {1: 2}


class Remembers:
    """What a protocol of a shard may keep."""

    def __init__(self) -> None:
        self.number = 10**30
        self.text = "long " * 100
        self.rows = np.zeros((3, 4))
        self.nested = {1: [2, 3], "a": {4}}
        self.inner = Inner()
        self.slotted = Slotted()
        self.bounded: deque[int] = deque([1], maxlen=50)
        self.open = deque([1, 2])
        self.records = [Inner(), Inner()]
        self.again = self.nested
        self.itself = self
        self.data = bytearray(7)
        self.call = len
        self.env = SimpleNamespace


def test_things_are_counted_by_their_attributes_and_once():
    found = sizes_of(Remembers())[ALL]
    assert {name: found[name] for name in sorted(found)} == {
        "again": 0, "bounded": 51, "call": 0, "data": 8, "env": 0, "inner.deep": 4, "nested": 8, "number": 1, "open": 3,
        "records": 1 + 2 * (1 + 4), "rows": 12, "slotted.kept": 3, "text": 1,
    }  # fmt: skip
