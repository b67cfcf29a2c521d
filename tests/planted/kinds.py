"""Bugs planted in protocols of the kinds `topk`, `context`, `spatial` and `channels`, each with the small case that
shows it, and what an explanation of that has to name.

Brokers 0 to 3 lie in a line, a link of 1 ms between two. What goes wrong goes wrong at broker 1, or at both ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple
from unittest.mock import ANY

from protocols.channels.plain import PlainChannels
from protocols.channels.server import ANSWER
from protocols.context.edge import PlainEdge
from protocols.context.kind import SUBSCRIBE, UPDATE
from protocols.context.replicated import PlainReplicated
from protocols.spatial.flooding import Flooding
from protocols.spatial.keyword import WANT, Keyword
from protocols.spatial.kind import EXPIRE
from protocols.topk.bounded import PlainBounded
from protocols.topk.common import DELIVERY
from protocols.topk.gather import PlainGather
from protocols.topk.ingress import PlainIngress
from protocols.topk.kind import REWEIGHT
from scenarios.hunt.case import Act, Case, Edge

MS = 1_000_000
LINE = tuple(Edge(a, a + 1, MS) for a in range(3))


class NotTold:
    """Broker 1 lets no messages of some types pass from one neighbour to another."""

    stopped: int

    def on_message(self, message: Any) -> None:
        node: Any = self.node  # type: ignore[attr-defined]
        if node.broker != 1 or message.type != self.stopped or message.link < 0:
            super().on_message(message)  # type: ignore[misc]


# ---- topk ------------------------------------------------------------------------------------------------


class AsksOneSide(PlainGather):
    """Broker 1 asks nobody further."""

    def ask_children(self, message: Any, publication: int, one: Any) -> None:
        if self.node.broker != 1:
            super().ask_children(message, publication, one)


class KeepsItsAnswer(PlainGather):
    """Broker 1 answers nobody who asks it."""

    def close_if_answered(self, message: Any, publication: int) -> None:
        if self.node.broker != 1 or self.open[publication].parent < 0:
            super().close_if_answered(message, publication)


class OldWeights(PlainIngress):
    """A broker tells nobody that a filter of its own clients weighs otherwise."""

    def change(self, message: Any) -> None:
        if message.type == REWEIGHT and self.node.broker == 0:
            self.apply(message)
        else:
            super().change(message)


class HandsNothingOn(NotTold, PlainBounded):
    """Broker 1 takes what was decided for itself."""

    stopped = DELIVERY


class NamesTwice(PlainIngress):
    """Broker 1 sends what was decided on twice."""

    def pass_on(self, message: Any) -> None:
        super().pass_on(message)
        if self.node.broker == 1:
            for link in self.towards({0}, self.node.origin(message)):
                self.node.forward(message, link)


# ---- context ---------------------------------------------------------------------------------------------


class OldValues(PlainEdge):
    """Broker 1 passes on the first value of a context only."""

    def spread(self, message: Any, key: int, to: Any = (-1, -1)) -> None:
        if self.node.broker != 1 or message.type != UPDATE or message.time < 40 * MS:
            super().spread(message, key, to)


class OldFilters(PlainReplicated):
    """Broker 2 goes by the first value of a context, and passes others on."""

    def _update(self, message: Any) -> None:
        before = self.newest.copy(), self.ranges.copy()
        super()._update(message)
        if self.node.broker == 2 and message.time > 40 * MS:
            self.newest, self.ranges = before


class ProfilesStay(NotTold, PlainEdge):
    """Broker 1 hears of no profile of other brokers."""

    stopped = SUBSCRIBE


# ---- spatial ---------------------------------------------------------------------------------------------


class ObjectsStay(NotTold, Flooding):
    """Broker 1 does not pass on that an object is gone."""

    stopped = EXPIRE


class SmallObjects(Flooding):
    """Broker 1 passes on no objects without a payload."""

    def publish(self, message: Any) -> None:
        if self.node.broker != 1 or message.link < 0 or self.node.row(message.body)[3] > 0:
            super().publish(message)


class AsksNobody(NotTold, Keyword):
    """Broker 1 hears of no keywords."""

    stopped = WANT


class DoublesObjects(Flooding):
    """Broker 1 sends each object twice, and everybody serves it twice."""

    def pass_on(self, message: Any, head: Any) -> None:
        super().pass_on(message, head)
        if self.node.broker == 1:
            super().pass_on(message, head)


# ---- channels --------------------------------------------------------------------------------------------


class AnswersStay(PlainChannels):
    """Broker 1 hands answers to its own clients only."""

    def hand_on(self, message: Any) -> None:
        clients, links = self.channels.get(message.word, ((), ()))
        if self.node.broker == 1 and message.type == ANSWER:
            self.channels[message.word] = clients, ()
        super().hand_on(message)
        if links:
            self.channels[message.word] = clients, links


class TellsOnce(PlainChannels):
    """Broker 1 tells those below it only once who listens."""

    def listen(self, message: Any) -> None:
        if self.node.broker == 1 and any(self.told.values()):
            self.told = dict.fromkeys(self.told, ANY)
        super().listen(message)


class AnswersTwice(PlainChannels):
    """Broker 1 hands each answer on twice."""

    def hand_on(self, message: Any) -> None:
        super().hand_on(message)
        if self.node.broker == 1:
            super().hand_on(message)


class LosesAnObject(PlainChannels):
    """Broker 0 sifts one object too few."""

    def sift(self, message: Any, client: int, query: int, came: Any) -> None:
        if self.node.broker == 0:
            short = replace(came.answer, objects=came.answer.objects[1:], points=came.answer.points[1:])
            came = came._replace(answer=short)
        super().sift(message, client, query, came)


# ---- the cases -------------------------------------------------------------------------------------------


class Planted(NamedTuple):
    """A bug, the case that shows it, and what is explained: which pair, and what of it has to be named."""

    wrong: type
    right: str  # the protocol without it
    case: Case
    about: str  # the publication, or the query and when it was due
    client: int
    named: tuple[str | None, ...]  # verdict, broker, neighbour, change and where its way stops
    finding: str  # what the judge calls it


def _case(protocol: type, kind: str, clients: tuple[int, ...], *acts: Act, **params: Any) -> Case:
    name = f"{protocol.__module__}:{protocol.__qualname__}"
    return Case(name, kind, 4, LINE, clients, acts, 400 * MS, params=params)


def act(at_ms: float, client: int, op: str, number: int | None = None, body: tuple[float, ...] | None = None) -> Act:
    return Act(int(at_ms * MS), client, op, number, body=body)


def filter_(weight: float) -> tuple[float, ...]:
    return (0.0, 0.0, 1.0, weight)


BELOW = (0.0, 0.0, 0.0, 5.0, 1.0, None, 0.0)  # attribute 0 of a publication is below the value 1 of context 5
SMALL = (0.5, 0.5)  # a publication


def thing(x: float, k: int = 1, payload: int = 100) -> tuple[float, ...]:
    return (x, 0.0, float(k), float(payload), 3.0)


def _topk(wrong: type, *acts: Act) -> Case:
    more = (
        act(10, 0, "subscribe", 0, filter_(0.5)), act(10, 1, "subscribe", 0, filter_(0.7)),
        act(10, 2, "subscribe", 0, filter_(0.4)), act(100, 3, "publish", None, SMALL),
    )  # fmt: skip
    return _case(wrong, "topk", (0, 1, 3, 2), *more, *acts, attributes=2, k=2)


def _context(wrong: type, low: float, high: float) -> Case:
    acts = (
        act(5, 1, "update", None, (5.0, 1.0, low)), act(10, 0, "subscribe", 0, BELOW),
        act(50, 1, "update", None, (5.0, 1.0, high)), act(100, 2, "publish", None, SMALL),
    )  # fmt: skip
    return _case(wrong, "context", (0, 3, 2), *acts, attributes=2)


def _spatial(wrong: type, *acts: Act) -> Case:
    return _case(wrong, "spatial", (0, 3, 2), act(10, 0, "subscribe", 0, (0.0, 0.0, 3.0)), *acts)


def query(width: float, period_ms: int = 100) -> tuple[float, ...]:
    return (period_ms * MS, 0.0, width, 0.0, width)


def _channels(wrong: type, *acts: Act) -> Case:
    """The server is behind broker 0."""
    return _case(wrong, "channels", (3, 0, 3), act(10, 0, "subscribe", 0, query(500)), *acts, objects=50)


PLANTED = (
    Planted(
        AsksOneSide, "topk-gather", _topk(AsksOneSide), "3#0", 0, ("not asked", "b1", "b0", "0#0", None), "missed",
    ),
    Planted(
        KeepsItsAnswer, "topk-gather", _topk(KeepsItsAnswer), "3#0", 0, ("undecided", "b1", "b2", None, None), "missed",
    ),
    Planted(
        OldWeights, "topk-ingress", _topk(OldWeights, act(50, 0, "reweight", 0, filter_(0.1))), "3#0", 0,
        ("delivered wrongly", "b2", None, "0#1", "b0"), "unwanted",
    ),
    Planted(
        OldWeights, "topk-ingress", _topk(OldWeights, act(50, 0, "reweight", 0, filter_(0.1))), "3#0", 2,
        ("left out", "b2", None, "0#1", "b0"), "missed",
    ),
    Planted(
        HandsNothingOn, "topk-bounded", _topk(HandsNothingOn), "3#0", 0, ("withheld", "b1", "b0", None, None), "missed",
    ),
    Planted(
        NamesTwice, "topk-ingress", _topk(NamesTwice), "3#0", 0, ("delivered twice", "b1", "b0", None, None),
        "duplicated",
    ),
    Planted(
        OldValues, "context-edge", _context(OldValues, 0.7, 0.2), "2#0", 0,
        ("delivered wrongly", "b0", None, "1#1", "b1"), "unwanted",
    ),
    Planted(
        OldValues, "context-edge", _context(OldValues, 0.2, 0.7), "2#0", 0, ("never told", "b0", None, "1#1", "b1"),
        "missed",
    ),
    Planted(
        OldFilters, "context-replicated", _context(OldFilters, 0.2, 0.7), "2#0", 0,
        ("withheld", "b2", "b1", "0#0", None), "missed",
    ),
    Planted(
        ProfilesStay, "context-edge", _context(ProfilesStay, 0.2, 0.7), "2#0", 0,
        ("never told", "b2", "b1", "0#0", "b1"), "missed",
    ),
    Planted(
        ObjectsStay, "spatial-flooding",
        _spatial(
            ObjectsStay, act(20, 1, "publish", 0, thing(1.0)), act(60, 1, "expire", 0),
            act(100, 2, "publish", 0, thing(2.0)),
        ), "2#0", 0, ("never told", "b0", None, "1#1", "b1"), "missed",
    ),
    Planted(
        SmallObjects, "spatial-flooding",
        _spatial(SmallObjects, act(20, 1, "publish", 0, thing(1.0, payload=0)), act(100, 2, "publish", 0, thing(2.0))),
        "2#0", 0, ("delivered wrongly", "b0", None, "1#0", "b1"), "unwanted",
    ),
    Planted(
        AsksNobody, "spatial-keyword", _spatial(AsksNobody, act(100, 2, "publish", 0, thing(2.0))), "2#0", 0,
        ("never told", "b2", "b1", "0#0", "b1"), "missed",
    ),
    Planted(
        DoublesObjects, "spatial-flooding", _spatial(DoublesObjects, act(100, 2, "publish", 0, thing(2.0))), "2#0", 0,
        ("delivered twice", "b1", "b0", None, None), "duplicated",
    ),
    Planted(
        AnswersStay, "channels", _channels(AnswersStay), "0#0 at 200", 0, ("withheld", "b1", "b2", "0#0", None),
        "missed",
    ),
    Planted(
        TellsOnce, "channels", _channels(TellsOnce, act(50, 2, "subscribe", 0, query(400))), "2#0 at 200", 2,
        ("never told", "b2", "b3", "2#0", "b1"), "missed",
    ),
    Planted(
        AnswersTwice, "channels", _channels(AnswersTwice), "0#0 at 200", 0, ("answered twice", "b1", "b2", None, None),
        "duplicated",
    ),
    Planted(
        LosesAnObject, "channels", _channels(LosesAnObject, act(12, 1, "subscribe", 0, query(600))), "1#0 at 200", 1,
        ("answered wrongly", "b0", None, None, None), "unwanted",
    ),
)  # fmt: skip
