"""topk-gather: filters stay at home; the question travels the whole tree, and each subtree answers with its best.

The first k of a union are among the first k of its parts, under one total order. So a broker ranks its own
filters, waits for the answers of its children, unites them, and passes the first k + 1 up. When the root has
heard from all, it decides, and a second pass delivers. Nothing is sent when filters change; every publication
costs two messages per link.

Decisions about one publisher's publications wait for those before them, so that they leave in order.

Where links lose messages, nobody waits for a branch longer than `give_up`: what a broker that is paused, or behind
with its work, answers later is lost, and nothing says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from brokers.contract import NEVER, TIMER, BrokerProtocol, Demand, Message
from brokers.indexes.topk.contract import Ranking, answered, merged
from brokers.node import Body
from brokers.promises import farthest_ns
from protocols.topk.asking import Asking
from protocols.topk.asking_record import ANSWER, QUESTION, TOO_LATE
from protocols.topk.common import Ranked
from topology.units import format_duration


class Options(BaseModel):
    """Options of the protocols that ask."""

    model_config = ConfigDict(extra="forbid")

    give_up: Annotated[
        int,
        Field(
            ge=1_000_000,
            description="where links lose messages: ns after which a silent branch counts as empty",
            examples=[4_000_000_000, 8_000_000_000],  # an answer that takes longer is lost, by design
        ),
    ] = 5_000_000_000


@dataclass
class Open:
    """A question that waits for answers."""

    parent: int  # the link to whoever asked; -1 at the root
    publisher: int
    origin: int  # the root
    rankings: list[Ranking]
    pending: set[int] = field(default_factory=set)  # links without an answer yet
    body: Body | None = None  # the publication's, at the root
    row: Any = None


class PlainGather(Ranked):
    """Gathering as its author would write it: one broker at a time."""

    Options: ClassVar[type[BaseModel] | None] = Options
    keeps: ClassVar[tuple[Any, ...]] = (Open, Ranking)
    remade: ClassVar[tuple[str, ...]] = ("lossy", "timer_min_ns")
    asked: ClassVar[float] = 1.0  # part of the brokers that are expected to be asked

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Mapping[str, Any]) -> list[tuple[str, str]]:
        there_and_back = 2 * farthest_ns(overlay.link_a, overlay.link_b, overlay.delay_ns)
        if options.give_up > there_and_back:
            return []
        return [
            (
                "options.give_up",
                f"over after {format_duration(options.give_up)}, where a question from the first broker to the "
                f"farthest and its answer take {format_duration(there_and_back)} at least; give it several times that",
            )
        ]

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        questions = cls.asked * (demand.overlay.brokers - 1) * float(demand.publications.sum())
        limits = questions / 2 if (demand.overlay.loss > 0).any() else 0.0  # timers, at all who ask
        return 2 * questions + limits + float(demand.changes.sum()) + cls.expected_deliveries(demand)

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.open: dict[int, Open] = {}  # by publication
        self.order: dict[int, list[int]] = {}  # publisher -> publications not yet decided, in order
        self.found: dict[int, tuple[Open, Ranking]] = {}  # answers that wait for those before them
        self.lossy = bool((node.env.overlay.loss > 0).any())
        self.timer_min_ns = node.env.options.give_up if self.lossy else NEVER

    def change(self, message: Message) -> None:
        self.apply(message)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        if broker == self.node.broker:
            self.keep_filter(id, row)

    def on_message(self, message: Message) -> None:
        if message.kind == TIMER:
            self.give_up(message)
        elif message.type == QUESTION:
            self.ask(message, message.link)
        elif message.type == ANSWER:
            self.hear(message)
        else:
            super().on_message(message)

    def publish(self, message: Message) -> None:
        publication = self.node.key(message)
        self.order.setdefault(publication >> 32, []).append(publication)
        self.ask(message, -1)

    def ask(self, message: Message, parent: int) -> None:
        """A question reached this broker: rank the filters here, ask the children."""
        node = self.node
        publication, row = node.key(message), node.row(message.body)
        own = self.rank(message, row, publication >> 32)
        one = self.open[publication] = Open(parent, publication >> 32, node.origin(message), [own])
        if parent < 0:
            one.body, one.row = node.keep(message), row
        self.ask_children(message, publication, one)
        self.set_limit(message, publication, one)
        self.close_if_answered(message, publication)

    def ask_children(self, message: Message, publication: int, one: Open) -> None:
        routes, node = self.routes, self.node
        tree = int(routes.tree_of[one.origin])
        for child in routes.children(tree, node.broker).tolist():
            link = int(routes.up[tree, child]) ^ 1
            one.pending.add(link)
            node.send(message, link, QUESTION, Body(message.body), publication)

    def set_limit(self, message: Message, publication: int, one: Open) -> None:
        """Where messages may be lost, wait for answers only so long."""
        if one.pending and self.lossy:
            limit = self.node.env.options.give_up
            self.node.timer(message, limit, TOO_LATE, publication, body=Body(message.body))

    def hear(self, message: Message) -> None:
        """A subtree answered."""
        publication = message.word
        one = self.open.get(publication)
        if one is None or message.link not in one.pending:
            return  # given up
        one.pending.discard(message.link)
        one.rankings.append(ranking_of(self.node.body(message)))
        self.close_if_answered(message, publication)

    def give_up(self, message: Message) -> None:
        one = self.open.get(message.word)
        if one is not None:
            one.pending.clear()
            self.close_if_answered(message, message.word)

    def close_if_answered(self, message: Message, publication: int) -> None:
        """Once nothing is pending: decide at the root, else answer whoever asked."""
        one = self.open[publication]
        if one.pending:
            return
        del self.open[publication]
        query = self.service.query(one.publisher)
        found = merged(one.rankings, query)
        if one.parent >= 0:
            self.node.send(message, one.parent, ANSWER, body_of(self.useful(one, found)), publication)
            return
        self.conclude(message, publication, one, found)

    def useful(self, one: Open, found: Ranking) -> Ranking:
        """What of a ranking whoever asked can use."""
        return found

    def conclude(self, message: Message, publication: int, one: Open, found: Ranking) -> None:
        """The root has heard from all: decide, once what the publisher sent before is decided."""
        self.found[publication] = one, found
        waiting = self.order[one.publisher]
        while waiting and waiting[0] in self.found:
            first = waiting.pop(0)
            one, found = self.found.pop(first)
            assert one.body is not None
            self.decide(message, first, answered(found, self.service.query(one.publisher)), one.body, one.row)
            self.node.drop(one.body)
        if not waiting:
            self.order.pop(one.publisher)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "open": len(self.open)}


class Gather(Asking):
    """Gathering over all brokers of a shard at once."""

    Options: ClassVar[type[BaseModel] | None] = Options
    plain: ClassVar[type[BrokerProtocol] | None] = PlainGather

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Mapping[str, Any]) -> list[tuple[str, str]]:
        return PlainGather.misfits(options, overlay, params)

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        return PlainGather.expected_events(demand)


def body_of(ranking: Ranking) -> dict[str, Any]:
    """A ranking as plain data; receivers follow from the ids."""
    return {"ids": ranking.ids.tolist(), "scores": ranking.scores.tolist()}


def ranking_of(body: dict[str, Any]) -> Ranking:
    ids = np.array(body["ids"], np.int64)
    return Ranking(ids, np.array(body["scores"], np.float64), ids >> 32)
