"""What the three topk protocols share: the way of interests and answers over one tree, and the last step.

All use one tree of the overlay, re-rooted where a publication enters: the overlay itself if it is one, else
the shortest paths from its best connected broker. The broker where a publication enters is its *root*. Once the
root knows the answer, it names the recipients in a message that flows down the tree, over each link at most once
and only towards brokers with recipients: implicit multicast, since the publisher named nobody.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
from pydantic import BaseModel

from brokers.contract import NEVER, BrokerProtocol, Demand, Message
from brokers.indexes.topk.contract import Answer, RankedIndex, Ranking
from brokers.node import Body
from protocols.expected import to_some
from protocols.routes import shared_tree
from protocols.topk.asking_record import DELIVERY
from protocols.topk.kind import PUBLISH, REWEIGHT, SUBSCRIBE, UNSUBSCRIBE, TopK


class Ranked(BrokerProtocol):
    """A broker with an index of filters. A subclass says whose filters it keeps, and how it finds the answer."""

    kind: ClassVar[str] = "topk"
    Options: ClassVar[type[BaseModel] | None] = None
    remade: ClassVar[tuple[str, ...]] = ("routes", "index", "indexed")

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        env = node.env
        self.routes = shared_tree(node)
        self.index: RankedIndex = env.new_index()
        self.held: set[int] = set()  # the filters known here
        self.indexed: set[int] = set()  # those in the index
        self.pending: dict[int, Any] = {}  # what the index does not know yet: a filter's row, None if it is gone
        self.decided = 0  # publications answered here

    @classmethod
    def expected_deliveries(cls, demand: Demand) -> float:
        """Publications where they enter, and on their way to the k best."""
        return to_some(demand, demand.publications, demand.interests, min(demand.params["k"], demand.interests.sum()))

    @property
    def service(self) -> TopK:
        return cast(TopK, self.node.env.kind)

    # ---- filters ---------------------------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        if message.type == PUBLISH:
            self.publish(message)
        elif message.type == DELIVERY:
            self.pass_on(message)
        elif message.type in (SUBSCRIBE, REWEIGHT, UNSUBSCRIBE):
            self.change(message)

    def publish(self, message: Message) -> None:
        """A publication entered here."""
        raise NotImplementedError

    def change(self, message: Message) -> None:
        """A filter came, went, or weighs otherwise."""
        raise NotImplementedError

    def apply(self, message: Message) -> None:
        """Take note of a change."""
        id_ = message.word
        if message.type != UNSUBSCRIBE:
            self.keep_filter(id_, self.node.row(message.body))
        elif id_ in self.held:
            self.held.discard(id_)
            if id_ in self.indexed:
                self.pending[id_] = None
            else:
                del self.pending[id_]

    def keep_filter(self, id: int, row: Any) -> None:
        self.held.add(id)
        self.pending[id] = row

    def bring_up_to_date(self) -> None:
        """Put what changed since the last question into the index: most brokers are asked rarely."""
        gone = [id_ for id_ in self.pending if id_ in self.indexed]
        if gone:
            self.index.delete(gone)
            self.indexed.difference_update(gone)
        fresh = {id_: row for id_, row in self.pending.items() if row is not None}
        if fresh:
            rows = np.full((len(fresh), max(row.size for row in fresh.values())), np.nan)
            for at, row in enumerate(fresh.values()):
                rows[at, : row.size] = row
            ids = np.array(list(fresh), np.int64)
            self.index.insert(ids, rows, ids >> 32)
            self.indexed.update(fresh)
        self.pending.clear()

    def home(self, interest: int) -> int:
        """The broker of the client behind an interest's id."""
        env = self.node.env
        return int(env.client_broker[(interest >> 32) - env.entity_base])

    # ---- publications ----------------------------------------------------------------------------------

    def rank(self, message: Message, row: Any, publisher: int) -> Ranking:
        """The best of the filters here."""
        if self.pending:
            self.bring_up_to_date()
        found = self.index.best(self.service.asked(row), self.service.query(publisher))
        self.node.work(message, len(self.held), len(found.ids))
        return found

    def decide(self, message: Message, publication: int, answer: Answer, body: Body | None, row: Any) -> None:
        """The answer is known: note it, serve the clients here, send it to where the others are."""
        node = self.node
        self.decided += 1
        clients: dict[int, None] = {}
        for rank, (id_, score) in enumerate(zip(answer.ids.tolist(), answer.scores.tolist())):
            clients[id_ >> 32] = None
            node.record(
                message, "rankings", publication=publication, rank=rank, interest=id_, client=id_ >> 32,
                score=score, tie=int(answer.tie_at_boundary),
            )  # fmt: skip
        if not clients:
            node.record(
                message, "rankings", publication=publication, rank=-1, interest=-1, client=-1, score=0.0,
                tie=int(answer.tie_at_boundary),
            )  # fmt: skip
        base = node.env.entity_base
        brokers = {client: int(node.env.client_broker[client - base]) for client in sorted(clients)}
        for client, broker in brokers.items():
            if broker == node.broker:
                node.deliver(message, client - base, body)
        away = [[client, broker] for client, broker in brokers.items() if broker != node.broker]
        links = self.towards({broker for _, broker in away}, node.broker)
        if links:
            values = np.asarray(row).tolist()
            for link in links:
                node.send(message, link, DELIVERY, {"values": values, "to": away}, publication, about=body)

    def pass_on(self, message: Message) -> None:
        """A publication with its recipients came by: serve those here, send it on towards the others."""
        node = self.node
        named = node.body(message)["to"]
        for client, broker in named:
            if broker == node.broker:
                node.deliver(message, client - node.env.entity_base)
        for link in self.towards({broker for _, broker in named}, node.origin(message)):
            node.forward(message, link)

    def towards(self, brokers: set[int], root: int) -> list[int]:
        """The links down the tree of a root that lead to at least one of these brokers, by neighbour."""
        routes, here = self.routes, self.node.broker
        tree = int(routes.tree_of[root])
        return [
            int(routes.up[tree, child]) ^ 1
            for child in routes.children(tree, here).tolist()
            if any(routes.is_below(tree, child, broker) for broker in brokers)
        ]

    def state(self) -> dict[str, Any]:
        ids = np.array(sorted(self.indexed), np.int64)
        return {**super().state(), "filters": (ids, self.index.rows(ids))}

    def load(self, state: dict[str, Any]) -> None:
        ids, rows = state.pop("filters")
        super().load(state)
        self.index.insert(ids, rows, ids >> 32)
        self.indexed = set(ids.tolist())

    def entries(self) -> int:
        return len(self.held)

    def describe(self) -> dict[str, Any]:
        return {"filters": len(self.held), "decided": self.decided}


__all__ = ["DELIVERY", "NEVER", "Ranked"]
