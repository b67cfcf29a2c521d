"""What protocols that bring publications everywhere have in common: subscriptions stay at the broker of their client.

`AtHome` is one broker, in the author's view, and `ShardAtHome` all brokers of a shard. A compiled handler of the latter
reads it by the fields `brokers.tables.AT_HOME`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from brokers.columns import Column
from brokers.contract import BrokerProtocol, Interests, Ints, Ints32, Message, ShardEnv, ShardProtocol
from brokers.tables import InterestStore, check_ids, interests_of, unknown
from brokers.thresholds import usually
from protocols.content.kind import SUBSCRIBE, UNSUBSCRIBE

# What a checkpoint keeps of a shard's subscriptions.
INTERESTS = {"id": Column("i8", ("interests",), 0), "rows": Column("f8", ("interests", None))}


class AtHome(BrokerProtocol):
    """A broker of any protocol that brings publications everywhere: what its own clients want, and what it has seen."""

    kind: ClassVar[str] = "content"
    kinds: ClassVar[tuple[str, ...]] = ("content", "topics")

    def __init__(self, node: Any, remember_ns: int) -> None:
        super().__init__(node)
        self.remember_ns = remember_ns
        self.seen: dict[int, int] = {}  # publication -> when it may be forgotten
        self.subscribers: dict[int, int] = {}  # subscription -> client number

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        if broker == self.node.broker:
            self.node.table.add(id, client, row, client)
            self.subscribers[id] = client

    def changed(self, message: Message) -> None:
        """A client subscribes, or no longer."""
        node = self.node
        if message.type == SUBSCRIBE:
            client = message.source - node.env.entity_base
            node.table.add(message.word, client, node.row(message.body), client)
            self.subscribers[message.word] = client
        elif message.type == UNSUBSCRIBE:
            node.table.remove(message.word)
            self.subscribers.pop(message.word, None)

    def is_old(self, message: Message) -> bool:
        """Whether what its body is or stands for was sent so long ago that it may have been forgotten."""
        return message.time >= int(self.node.env.bodies.time[message.body]) + self.remember_ns

    def seen_before(self, message: Message) -> bool:
        publication = self.node.key(message)
        if self.is_old(message) or publication in self.seen:
            return True
        self.seen[publication] = int(self.node.env.bodies.time[message.body]) + self.remember_ns
        if len(self.seen) > usually(4096):
            self.seen = {p: until for p, until in self.seen.items() if until > message.time}
        return False

    def hand_over(self, message: Message) -> None:
        node = self.node
        matched = node.table.match(message.body)
        node.work(message, len(self.subscribers), len(matched))
        for client in sorted({self.subscribers[id_] for id_ in matched}):
            node.deliver(message, client)

    def entries(self) -> int:
        return len(self.subscribers)

    def describe(self) -> dict[str, Any]:
        return {"subscriptions": {str(id_): client for id_, client in sorted(self.subscribers.items())}}


class ShardAtHome(ShardProtocol):
    """All brokers of a shard: one store of what their clients ask for."""

    kind: ClassVar[str] = "content"
    kinds: ClassVar[tuple[str, ...]] = ("content", "topics")

    def __init__(self, env: ShardEnv) -> None:
        super().__init__(env)
        self.store = InterestStore(env, self._order)
        self.present = np.zeros(256, np.bool_)  # by slot of the store
        self._entries = np.zeros(env.brokers, np.int64)
        self._leaving = np.empty(0, np.int64)  # interests whose end is on its way

    def _order(self, slots: Ints, bodies: Any) -> Ints:
        """Answers are ordered by home broker, and within one by client."""
        return (self.store.home[slots].astype(np.int64) << 32) | self.store.client[slots]

    def stand(self, interests: Interests) -> None:
        assert interests.rows is not None
        self._enter(interests.id, interests.client, interests.rows)

    def _enter(self, ids: Ints, clients: Ints, rows: Any) -> None:
        """Interests that stand, as far as they are of clients here."""
        home = self.env.client_broker[clients]
        mine = self.env.local[home]
        self._learn(ids[mine], clients[mine], rows[mine])
        self.present[: self.store.count] = True
        self._entries += np.bincount(home[mine], minlength=self.env.brokers)

    def _learn(self, ids: Ints, clients: Ints, rows: Any) -> None:
        self.store.add(ids, clients, rows)
        if self.store.count > self.present.size:
            grown = np.zeros(max(2 * self.present.size, self.store.count), np.bool_)
            grown[: self.present.size] = self.present
            self.present = grown

    def enter_changes(self, type: Ints32, word: Ints, body: Ints32) -> None:
        """Take in new subscriptions, and note those that end."""
        env = self.env
        ids, bodies_of = unknown(self.store, word[type == SUBSCRIBE], body[type == SUBSCRIBE])
        if ids.size:
            clients = (ids >> 32) - env.entity_base
            here = env.local[env.client_broker[clients]]  # those of other shards stay there
            if here.any():
                self._learn(ids[here], clients[here], env.bodies.values(bodies_of[here]))
        ending = word[type == UNSUBSCRIBE]
        if ending.size:
            self._leaving = np.concatenate((self._leaving, ending))

    def tidy(self) -> None:
        if self._leaving.size:
            slots = self.store.slots(np.unique(self._leaving))
            slots = slots[slots >= 0]
            self.store.remove(slots[~self.present[slots]])
            self._leaving = self._leaving[:0]

    def columns(self) -> Mapping[str, NDArray[Any]]:
        return {**self.store.columns(), "present": self.present, "entries": self._entries}

    def state(self) -> dict[str, Any]:
        """The subscriptions, as `INTERESTS` has them."""
        live = np.sort(self.store.slot_of.items()[1])
        live = live[self.present[live]]  # what a full queue dropped is learned, and nobody has it
        return {"id": self.store.id[live], "rows": self.store.rows[live]}

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        """Take over the subscriptions; what else there is in states was checked before."""
        for state in states:
            check_ids(self.env, state["id"])
        ids, rows = interests_of(states)
        self._enter(ids, (ids >> 32) - self.env.entity_base, rows)

    def entries(self) -> Ints:
        return self._entries

    def describe(self, broker: int) -> dict[str, Any]:
        store = self.store
        mine = np.flatnonzero(self.present[: store.count] & (store.home[: store.count] == broker))
        pairs = sorted(zip(store.id[mine].tolist(), store.client[mine].tolist()))
        return {"subscriptions": {str(id_): client for id_, client in pairs}}
