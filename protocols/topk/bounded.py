"""topk-bounded: as topk-gather, but a branch is asked only if what lies behind it could still be in the answer.

Every broker knows, for every other, an upper bound on what the filters there can score (`Bounds`), so for every
link one on what lies behind it. A question goes to the most promising branch first, and carries the k-th best
score in hand; a branch is left out once its bound is below that score, or not above the threshold. On a tie it
is asked, since a lower id might win.

A change that raises the bound of its broker is told to all others at once, and has settled when all have heard;
until then the filter it brought is free. One that raises nothing leans on the last that did: others may not have
heard of that yet. What lowers a bound is told later, and together: bounds that are too high cost questions, never
answers.

Branches are asked one after the other, or `at_once` together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, Field

from brokers.contract import TIMER, BrokerProtocol, Demand, Message
from brokers.indexes.topk.contract import Ranking, merged
from protocols.expected import to_all
from protocols.topk.asking import Asking
from protocols.topk.asking_record import LOWER, QUESTION, REFRESH
from protocols.topk.bounds import Bounds
from protocols.topk.gather import Open, Options, PlainGather, ranking_of
from protocols.topk.kind import UNSUBSCRIBE

_ENOUGH = 100.0  # filters at a broker of which one more raises its bound in every second case


class BoundedOptions(Options):
    """Options of `topk-bounded`."""

    at_once: Annotated[int, Field(ge=1, description="how many branches a broker asks at a time")] = 1
    lower_every: Annotated[
        int, Field(ge=1_000_000, description="nanoseconds for which lowered bounds are collected before they are told")
    ] = 1_000_000_000
    cells: Annotated[
        int, Field(ge=1, le=1024, description="cells of an attribute that a bound tells apart")
    ] = 64


@dataclass
class Search(Open):
    """A question under way: what is in hand, and what may still be asked."""

    floor: float = 0.0  # whoever asked has k scores that are at least this
    ahead: list[tuple[float, int]] = field(default_factory=list)  # (bound, link), the best last


class PlainBounded(PlainGather):
    """The same as its author would write it: one broker at a time."""

    Options: ClassVar[type[BaseModel] | None] = BoundedOptions
    keeps: ClassVar[tuple[Any, ...]] = (Search,)
    remade: ClassVar[tuple[str, ...]] = ("at_once", "k", "bounds", "stands")
    asked: ClassVar[float] = 0.6

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        raises = demand.changes / (1.0 + demand.interests / _ENOUGH)
        return super().expected_events(demand) + to_all(demand, raises) - float(raises.sum())

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        options, kind = node.env.options, self.service
        self.at_once: int = options.at_once
        self.k: int = kind.params["k"]
        self.timer_min_ns = min(self.timer_min_ns, options.lower_every)
        self.bounds = Bounds(node.env.brokers, kind.attributes, options.cells, kind.params["domain"])
        self.stands = False  # whether it was there from the start, where filters stood; one that begins again was not
        self.rows: dict[int, Any] = {}  # the filters here, for lowering
        self.stale = False  # whether a lowering is due
        self.last_raise = -1  # the change that last raised the bound here
        self.refreshes = 0

    # ---- bounds ----------------------------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        if message.kind == TIMER and message.type == LOWER:
            self.lower(message)
        elif message.type == REFRESH:
            said = self.node.body(message)
            self.bounds.tell(said["broker"], said)
            self.spread(message, said["broker"])
        else:
            super().on_message(message)

    def change(self, message: Message) -> None:
        id_ = message.word
        known = id_ in self.held
        self.apply(message)
        if message.type == UNSUBSCRIBE:
            self.rows.pop(id_, None)
        else:
            row = self.rows[id_] = np.array(self.node.row(message.body))
            raised = self.bounds.raise_by(self.node.broker, row)
            if raised:
                self.last_raise = message.cause
                self.tell(message, raised)
            elif self.last_raise >= 0:
                self.node.depends(message.cause, self.last_raise)
        if known and not self.stale:
            self.stale = True
            self.node.timer(message, self.node.env.options.lower_every, LOWER, cause=-1)

    def lower(self, message: Message) -> None:
        """Bring this broker's bound down to what its filters can still score."""
        self.stale = False
        lowered = self.bounds.reset(self.node.broker, list(self.rows.values()))
        if lowered:
            self.tell(message, lowered)

    def tell(self, message: Message, parts: dict[str, Any]) -> None:
        """Send parts of this broker's bound to everybody; where links lose, all of it, in case the last was lost."""
        here = self.node.broker
        if self.lossy:
            parts = self.bounds.all_of(here)
        self.refreshes += 1
        for link in self.routes.forwards(here, -1, here):
            self.node.send(message, link, REFRESH, {"broker": here, **parts})

    def spread(self, message: Message, home: int) -> None:
        for link in self.routes.forwards(self.node.broker, message.link, home):
            self.node.forward(message, link)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        super().on_standing(id, client, broker, row)
        self.stands = True
        if broker == self.node.broker:
            self.rows[id] = np.array(row)
        shared = self.node.shared
        if "standing" not in shared:
            shared["standing"] = self.bounds.copy(), set()
        bounds, seen = shared["standing"]
        if id not in seen:  # the first of a shard's brokers to hear of it
            seen.add(id)
            bounds.raise_by(broker, row)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "bounds": self.bounds.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.bounds.load(state.pop("bounds"))
        super().load(state)

    def first_timers(self) -> list[tuple[int, int, int]]:
        if self.stands:
            self.bounds = self.node.shared["standing"][0].copy()
        return super().first_timers()

    # ---- searches --------------------------------------------------------------------------------------

    def ask(self, message: Message, parent: int) -> None:
        node, publication = self.node, self.node.key(message)
        one = Search(parent, publication >> 32, node.origin(message), [])
        if parent < 0:
            one.body, one.row = node.keep(message), node.row(message.body)
        else:
            said = node.body(message)
            one.row, one.floor = np.array(said["values"], np.float64), said["floor"]
        self.begin(message, publication, one)

    def begin(self, message: Message, publication: int, one: Search) -> None:
        """Rank the filters here, and line up the branches by what they promise."""
        routes, here = self.routes, self.node.broker
        self.open[publication] = one
        one.rankings = [self.rank(message, one.row, one.publisher)]
        tree = int(routes.tree_of[one.origin])
        enter, leave = routes.enter[tree], routes.leave[tree]
        behind = np.flatnonzero((enter > enter[here]) & (enter < leave[here]))
        children = routes.children(tree, here).tolist()
        limits = self.bounds.limits(self.service.asked(one.row), behind) if children else np.empty(0)
        for child in children:
            below = (enter[behind] >= enter[child]) & (enter[behind] < leave[child])
            one.ahead.append((float(limits[below].max(initial=0.0)), int(routes.up[tree, child]) ^ 1))
        one.ahead.sort(key=lambda branch: (branch[0], -branch[1]))
        self.go_on(message, publication)
        if publication in self.open:
            self.set_limit(message, publication, one)

    def hear(self, message: Message) -> None:
        publication = message.word
        one = self.open.get(publication)
        if one is None or message.link not in one.pending:
            return  # given up
        one.pending.discard(message.link)
        one.rankings.append(ranking_of(self.node.body(message)))
        self.go_on(message, publication)

    def give_up(self, message: Message) -> None:
        one = self.open.get(message.word)
        if isinstance(one, Search):
            one.ahead.clear()
        super().give_up(message)

    def go_on(self, message: Message, publication: int) -> None:
        """Ask as many branches as may be asked now; close the question if none is left."""
        one = self.open[publication]
        assert isinstance(one, Search)
        query = self.service.query(one.publisher)
        found = merged(one.rankings, query)
        one.rankings = [found]
        floor = one.floor
        if len(found.ids) >= self.k:
            floor = max(floor, float(found.scores[self.k - 1]))
        while one.ahead and len(one.pending) < self.at_once:
            limit, link = one.ahead.pop()
            if limit < floor or limit <= query.threshold:
                one.ahead.clear()
                break
            one.pending.add(link)
            body = {"values": one.row.tolist(), "floor": floor}
            self.node.send(message, link, QUESTION, body, publication, about=one.body)
        self.close_if_answered(message, publication)

    def useful(self, one: Open, found: Ranking) -> Ranking:
        assert isinstance(one, Search)
        count = int(np.searchsorted(-found.scores, -one.floor, side="right"))
        return Ranking(found.ids[:count], found.scores[:count], found.receivers[:count])


class Bounded(Asking):
    """The same over all brokers of a shard at once."""

    Options: ClassVar[type[BaseModel] | None] = BoundedOptions
    plain: ClassVar[type[BrokerProtocol] | None] = PlainBounded
    bounded: ClassVar[bool] = True

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Mapping[str, Any]) -> list[tuple[str, str]]:
        return PlainBounded.misfits(options, overlay, params)

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        return PlainBounded.expected_events(demand)
