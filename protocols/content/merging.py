"""Merging: as `covering`, and subscriptions that fit together go over a link as one.

Rules:
- What would go over a link, after covering, is merged there: two boxes become the smallest that holds both. *Perfect*
  merging (`waste: 0`) makes only those that hold nothing else. With `waste` a merger may also hold what none of its
  parts asks for, up to that share of its volume within `domain`. How is said in `packing.py`.
- A merger travels as a subscription with a number of its own. To the next broker it is one like any other, and may
  become part of a merger there; back over the link that it came by goes nothing of it.
- New boxes go before the withdrawal of those that they replace, so that a neighbour may know both for a while, and
  never less than it should. The withdrawal names those that hold now what the withdrawn one held; a neighbour that one
  of them has not come to, since a link lost it, keeps what it has.
- A broker hands to its clients what answers their own subscriptions. So merging never shows in what is delivered, only
  in what goes over links.
- Overlays with cycles have one tree for all, since a merger speaks for many brokers and has no way of its own.

Theory. A subscription is in force once a box that holds it has come to every broker. What a broker holds back behind a
box that it sent is there as soon as that box is, so its change is settled only after the one that sent the box
(`depends`). Once there, it stays: whatever takes the place of a box goes ahead of its withdrawal on each link, and the
withdrawal takes effect only where all of that has come. So a loss never takes from anybody what was in force.

In one dimension the boxes sent over a link are the connected parts of what was asked for, never more than covering
sends. In more they may be: a merger hides which of its parts others cover further on. Of uniform publications that go
over a link for one merger at most the share `waste` answers none of its parts. Those may be mergers of other brokers
themselves, and what is idle in them comes on top: nobody is told how much that is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field

from brokers.contract import Demand, Message
from brokers.workloads.common import Domain
from protocols.content.boxes import Box, box_of, row_of
from protocols.content.covering import Covering
from protocols.content.handing import HANDED
from protocols.content.kind import SUBSCRIBE, UNSUBSCRIBE
from protocols.content.packing import Changed, Packing, Rule, Sent, is_merger
from protocols.content.resync import Compares
from protocols.content.subscription import LOCAL, PlainSubscription, client_of
from protocols.routes import Routes

REPLACED = max(HANDED) + 1  # withdraws its word, a subscription or merger, where all that its body names is known
_NOBODY = 0  # in the place of a client, where many have asked


class Options(Compares):
    """Options of `merging`."""

    waste: Annotated[
        float,
        Field(
            ge=0,
            lt=1,
            examples=[0.0, 0.05, 0.2, 0.5, 0.9],
            description="the share of a merger's volume that may answer none of its parts; 0: only perfect unions",
        ),
    ] = 0.0
    domain: Annotated[
        Domain,
        Field(
            examples=[(0.0, 1.0), (0.0, 0.5)],
            description="between what numbers the values of every attribute lie, for `waste`: the workload's `domain`",
        ),
    ] = (0.0, 1.0)

    @property
    def routing(self) -> str:
        """As `subscription` says it: one tree for all."""
        return "shared"


class Merging(PlainSubscription):
    """Merging, one broker at a time."""

    kinds: ClassVar[tuple[str, ...]] = ("content",)  # a merger is a box, which names have none of
    Options: ClassVar[type[BaseModel] | None] = Options
    frugal: ClassVar[bool] = False  # with `waste` a publication may go where nobody asks for it
    keeps: ClassVar[tuple[Any, ...]] = (Packing, Rule, Sent)

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self._take(Packing(rule_of(node.options), (link for link in node.links if self.routes.in_tree[link])))

    def _take(self, packing: Packing) -> None:
        self.packing = packing
        self.came_by = packing.came_by

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        return Covering.expected_events(demand)  # of what merging saves, nothing is known beforehand

    # ---- publications ----------------------------------------------------------------------------------

    def _publish(self, message: Message) -> None:
        node = self.node
        matched = node.table.match(message.body)
        count = 0
        for link in self.packing.sent:
            behind = 0 if link == message.link else sum(link in self.came_by[id_] for id_ in matched)
            if behind:
                node.forward(message, link)
            count += behind
        own = [id_ for id_ in matched if LOCAL in self.came_by[id_]]
        for client in sorted({client_of(node.env, id_) for id_ in own}):
            if self.handing is None:
                node.deliver(message, client)
            else:
                self.handing.hand(message, client, [id_ for id_ in own if client_of(node.env, id_) == client])
        node.work(message, self.entries(), count + len(own))

    # ---- changes ---------------------------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        if message.type == REPLACED:
            if all(message.link in self.came_by.get(id_, ()) for id_ in self.node.body(message)):
                self.withdraw(message, message.word, message.link)
        else:
            super().on_message(message)

    def _subscribe(self, message: Message) -> None:
        row = self.node.row(message.body)
        self._know(message.word, row)
        self._say(message, self.packing.learn(message.word, box_of(row), message.link, message.cause))

    def _know(self, id: int, row: Any) -> None:
        client = _NOBODY if is_merger(id) else client_of(self.node.env, id)
        self.node.table.add(id, client, row, None)

    def withdraw(self, message: Message, id: int, came: int) -> None:
        self._say(message, self.packing.forget(id, came, message.cause))
        if id not in self.came_by:
            self.node.table.remove(id)

    def _say(self, message: Message, changes: Iterable[Changed]) -> None:
        node = self.node
        for link, told, withdrawn, behind in changes:
            for cause in behind:
                node.depends(message.cause, cause)
            for id_, box in told:
                if message.type == SUBSCRIBE and id_ == message.word:
                    node.forward(message, link)
                else:
                    node.send_row(message, link, SUBSCRIBE, row_of(box), word=id_)
            for id_, holders in withdrawn:
                if holders:
                    node.send(message, link, REPLACED, list(holders), word=id_)
                else:
                    node.send(message, link, UNSUBSCRIBE, word=id_)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        node = self.node
        everybody: _Standing = node.shared.setdefault("standing", _Standing(self.routes, rule_of(node.options)))
        everybody.spread(id, broker, row)
        self._take(everybody.packings[node.broker])
        for known, box in everybody.news(node.broker):
            if box is None:
                node.table.remove(known)
            else:
                self._know(known, row if known == id else row_of(box))

    # ---- neighbours that compare -----------------------------------------------------------------------

    def told(self, link: int) -> list[int]:
        return sorted(self.packing.sent.get(link, ()))

    def tell(self, message: Message, link: int, id: int) -> None:
        self.node.send_row(message, link, SUBSCRIBE, row_of(self.packing.sent[link][id].box), word=id)

    # ---- what is to be seen ----------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        names = self.node.env.overlay.names
        of = {link: names[self.node.neighbour(link)] for link in self.node.links} | {LOCAL: "a client"}
        return {
            "subscriptions": {
                str(id_): {"from": [of[link] for link in sorted(came_by)]}
                for id_, came_by in sorted(self.came_by.items())
            },
            "sent": {
                of[link]: {str(id_): [str(part) for part in sent[id_].parts] for id_ in sorted(sent)}
                for link, sent in self.packing.sent.items()
                if sent
            },
        }


def rule_of(options: Options) -> Rule:
    """What may be merged with these options."""
    return Rule(options.waste, *options.domain)


class _Standing:
    """Interests that stand at time 0, as if issued and settled one after the other over the whole overlay."""

    def __init__(self, routes: Routes, rule: Rule) -> None:
        links = routes.links
        mine = [links.out_link[links.out_start[b] : links.out_start[b + 1]].tolist() for b in range(routes.brokers)]
        self._target = links.target
        self.packings = [Packing(rule, (link for link in each if routes.in_tree[link])) for each in mine]
        self._news: list[list[tuple[int, Box | None]]] = [[] for _ in mine]
        self._done: set[int] = set()

    def spread(self, id: int, home: int, row: Any) -> None:
        """Have one more interest, unless it is there."""
        if id in self._done:
            return
        self._done.add(id)
        self._hear(home, self.packings[home].learn(id, box_of(row), LOCAL, -1))
        self._news[home].append((id, box_of(row)))

    def _hear(self, broker: int, changes: Iterable[Changed]) -> None:
        """Have the neighbours of a broker hear what it says."""
        ahead = list(changes)
        while ahead:
            link, told, withdrawn, _ = ahead.pop(0)
            there = int(self._target[link])
            for id_, box in told:
                self._news[there].append((id_, box))
                ahead += self.packings[there].learn(id_, box, link ^ 1, -1)
            for id_, _ in withdrawn:
                self._news[there].append((id_, None))
                ahead += self.packings[there].forget(id_, link ^ 1, -1)

    def news(self, broker: int) -> list[tuple[int, Box | None]]:
        """What a broker heard since it was last asked; None for what was withdrawn."""
        found, self._news[broker] = self._news[broker], []
        return found
