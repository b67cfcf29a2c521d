"""Flooding: every publication to every broker; each broker matches for its own clients.

Rules:
- Subscriptions stay at the broker of their client.
- A publication goes over every link but the one it came by.
- On an overlay with cycles each broker remembers the publications it has seen and drops a second copy. It
  remembers for `remember` after the publication was sent, and drops anything older unread, so that a late
  copy is never taken for a new one.

Exact, at the highest price in messages there is: the baseline for everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from numba import njit
from pydantic import BaseModel, ConfigDict, Field

from brokers.columns import Column, check_columns
from brokers.contract import (
    Batch,
    BrokerProtocol,
    Demand,
    Guarantees,
    Interests,
    Ints,
    Message,
    ShardEnv,
    ShardProtocol,
)
from brokers.out import Out
from brokers.tables import InterestStore, check_ids, interests_of
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE

_SECOND = 1_000_000_000
_ROOM_UNCOUNTED = 4096  # sends for which room is made without counting the links
_STATE = {
    "id": Column("i8", ("interests",), 0),
    "rows": Column("f8", ("interests", None)),
    "seen_key": Column("i8", ("seen",), 0),
    "seen_until": Column("i8", ("seen",), 0),
    "seen": Column("u8", ("seen", "words")),
}


class Options(BaseModel):
    """Options of `flooding`."""

    model_config = ConfigDict(extra="forbid")

    remember_s: Annotated[
        float,
        Field(
            gt=0,
            le=1e9,
            description="on cycles: seconds for which a broker remembers a publication it has seen",
        ),
    ] = 10.0


def guarantees_on(overlay: Any) -> Guarantees:
    """On a cycle, jitter or a queue can let a later publication overtake an earlier one on another way."""
    return Guarantees(fifo_per_publisher=bool(overlay.is_tree))


class PlainFlooding(BrokerProtocol):
    """Flooding as its author would write it: one broker at a time."""

    kind: ClassVar[str] = "content"
    Options: ClassVar[type[BaseModel] | None] = Options

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.cyclic = not node.env.overlay.is_tree
        self.remember_ns = int(node.options.remember_s * _SECOND)
        self.seen: dict[int, int] = {}  # publication -> when it may be forgotten
        self.subscribers: dict[int, int] = {}  # subscription -> client number

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        return guarantees_on(overlay)

    def on_message(self, message: Message) -> None:
        node, type_ = self.node, message[5]
        if type_ == PUBLISH:
            came_by = message[4]
            if self.cyclic and self._seen_before(message):
                return
            for link in node.links:
                if link != came_by:
                    node.forward(message, link)
            if self.subscribers:
                self._deliver(message)
        elif type_ == SUBSCRIBE:
            client = message.source - node.env.entity_base
            node.table.add(message.word, client, node.row(message.body), client)
            self.subscribers[message.word] = client
        elif type_ == UNSUBSCRIBE:
            node.table.remove(message.word)
            self.subscribers.pop(message.word, None)

    def on_run(self, run: Any) -> None:
        if run.type != PUBLISH or self.cyclic or self.subscribers:
            for message in run.messages():
                self.on_message(message)
            return
        came_by = run.link
        for link in self.node.links:
            run.forward(np.flatnonzero(came_by != link), link)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        if broker == self.node.broker:
            self.node.table.add(id, client, row, client)
            self.subscribers[id] = client

    def _seen_before(self, message: Message) -> bool:
        publication = self.node.key(message)
        sent = int(self.node.env.bodies.time[message.body])
        if message.time >= sent + self.remember_ns or publication in self.seen:
            return True
        self.seen[publication] = sent + self.remember_ns
        if len(self.seen) > 4096:
            self.seen = {p: until for p, until in self.seen.items() if until > message.time}
        return False

    def _deliver(self, message: Message) -> None:
        node = self.node
        matched = node.table.match(message.body)
        node.work(message, len(self.subscribers), len(matched))
        for client in sorted({self.subscribers[id_] for id_ in matched}):
            node.deliver(message, client)

    def entries(self) -> int:
        return len(self.subscribers)

    def describe(self) -> dict[str, Any]:
        return {"subscriptions": {str(id_): client for id_, client in sorted(self.subscribers.items())}}


# fmt: off
@njit(cache=True)
def _flood(
    at, broker, link, type_, body, slot, out_start, out_link, seen_row, seen, present, entries, home, client,
    hit_start, hit_count, hits, send_event, send_link, sends, deliver_event, deliver_client, matched,
):
    # fmt: on
    """One pass over the batch from row `at`, in order; stops where room for deliveries runs out.

    Returns (row reached, sends, deliveries).
    """
    delivered = 0
    for i in range(at, broker.size):
        b = broker[i]
        if type_[i] == 0:
            row = np.int64(-1)
            word, bit = b >> 6, np.uint64(1) << np.uint64(b & 63)
            if seen_row.size:
                row = seen_row[i]
                if row < 0 or seen[row, word] & bit:
                    continue
            low = high = np.int64(0)
            if entries[b] > 0:
                low = hit_start[body[i]]
                end = low + hit_count[body[i]]
                high = end
                while low < high:  # hits are ordered by home broker
                    middle = (low + high) // 2
                    if home[hits[middle]] < b:
                        low = middle + 1
                    else:
                        high = middle
                while high < end and home[hits[high]] == b:
                    high += 1
                if delivered + high - low > deliver_event.size:
                    return i, sends, delivered
            if row >= 0:
                seen[row, word] |= bit
            for j in range(out_start[b], out_start[b + 1]):
                if out_link[j] != link[i]:
                    send_event[sends] = i
                    send_link[sends] = out_link[j]
                    sends += 1
            last = np.int64(-1)
            found = 0
            for j in range(low, high):
                s = hits[j]
                if present[s]:
                    found += 1
                    if client[s] != last:  # and within a broker by client
                        last = client[s]
                        deliver_event[delivered] = i
                        deliver_client[delivered] = last
                        delivered += 1
            if matched.size:
                matched[i, 0] = entries[b]
                matched[i, 1] = found
        elif type_[i] == 1:
            if slot[i] >= 0 and not present[slot[i]]:
                present[slot[i]] = True
                entries[b] += 1
        elif type_[i] == 2 and slot[i] >= 0 and present[slot[i]]:
            present[slot[i]] = False
            entries[b] -= 1
    return broker.size, sends, delivered


class Flooding(ShardProtocol):
    """Flooding over all brokers of a shard at once, with one shared store of subscriptions."""

    kind: ClassVar[str] = "content"
    Options: ClassVar[type[BaseModel] | None] = Options
    plain: ClassVar[type[BrokerProtocol] | None] = PlainFlooding

    def __init__(self, env: ShardEnv) -> None:
        super().__init__(env)
        self.store = InterestStore(env, self._order)
        self.present = np.zeros(256, np.bool_)
        self._entries = np.zeros(env.brokers, np.int64)
        self._work = bool(env.cost.per_entry or env.cost.per_match)
        self._cyclic = not env.overlay.is_tree
        self._remember_ns = int(env.options.remember_s * _SECOND)
        self._seen = np.zeros((64 if self._cyclic else 0, (env.brokers + 63) // 64), np.uint64)
        self._seen_rows: dict[int, int] = {}  # publication -> row of `_seen`
        self._seen_until = np.zeros(len(self._seen), np.int64)
        self._seen_key = np.full(len(self._seen), -1, np.int64)
        self._none = np.empty(0, np.int64)
        self._links_most = int(np.diff(env.links.out_start).max(initial=0))  # of one broker

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        return guarantees_on(overlay)

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        brokers, overlay = demand.overlay.brokers, demand.overlay
        links = overlay.links - overlay.servers
        copies = 1 + 2 * links - (brokers - 1)  # one for each broker, and over each surplus link one either way
        return float(demand.publications.sum() * copies + demand.changes.sum())

    def _order(self, slots: Ints, bodies: Any) -> Ints:
        """Answers are ordered by home broker, and within one by client."""
        return (self.store.home[slots].astype(np.int64) << 32) | self.store.client[slots]

    def stand(self, interests: Interests) -> None:
        home = self.env.client_broker[interests.client]
        mine = self.env.local[home]
        assert interests.rows is not None
        self._learn(interests.id[mine], interests.client[mine], interests.rows[mine])
        self.present[: self.store.count] = True
        self._entries += np.bincount(home[mine], minlength=self.env.brokers)

    def _learn(self, ids: Ints, clients: Ints, rows: Any) -> None:
        self.store.add(ids, clients, rows)
        if self.store.count > self.present.size:
            grown = np.zeros(max(2 * self.present.size, self.store.count), np.bool_)
            grown[: self.present.size] = self.present
            self.present = grown

    def handle(self, batch: Batch, out: Out) -> None:
        env, store = self.env, self.store
        type_ = batch.type
        slot = gone = self._none
        if np.count_nonzero(type_):  # of a few numbers the quickest way to ask whether there is any
            slot, gone = self._prepare_changes(batch)
        if store.count:
            store.learn(batch.body[type_ == PUBLISH])
        elif store.hit_start.size < env.bodies.capacity:
            store.hit_start = store.hit_count = np.zeros(env.bodies.capacity, np.int64)
        seen_row = self._rows_of(batch) if self._cyclic else self._none

        room = batch.size * self._links_most
        if room > _ROOM_UNCOUNTED:
            room = int((env.links.out_start[batch.broker + 1] - env.links.out_start[batch.broker]).sum())
        send_event, send_link = np.empty(room, np.int64), np.empty(room, np.int64)
        matched = np.zeros((batch.size if self._work else 0, 2), np.int64)
        at = sends = 0
        space = 2 * batch.size if store.count else 0
        while at < batch.size:
            deliver_event, deliver_client = np.empty(space, np.int64), np.empty(space, np.int64)
            # fmt: off
            at, sends, delivered = _flood(
                at, batch.broker, batch.link, type_, batch.body, slot, env.links.out_start, env.links.out_link,
                seen_row, self._seen, self.present, self._entries, store.home, store.client, store.hit_start,
                store.hit_count, store.hits, send_event, send_link, sends, deliver_event, deliver_client, matched,
            )
            # fmt: on
            if delivered:
                out.deliver(deliver_event[:delivered], deliver_client[:delivered])
            space *= 2
        if sends:
            out.forward(send_event[:sends], send_link[:sends])
        if self._work:
            rows = np.flatnonzero(matched[:, 0])
            if rows.size:
                out.work(rows, matched[rows, 0], matched[rows, 1])
        store.remove(gone)

    def _prepare_changes(self, batch: Batch) -> tuple[Ints, Ints]:
        """Take new subscriptions into the store. Returns the slot of each change row, and the slots that go.

        What goes is removed from the index only after the batch: rows before the change still match it.
        """
        store = self.store
        rows = np.flatnonzero(batch.type == SUBSCRIBE)
        if rows.size:
            bodies = batch.body[rows]
            clients = batch.source[rows] - self.env.entity_base
            self._learn(batch.word[rows], clients, self.env.bodies.values(bodies))
        slot = np.full(batch.size, -1, np.int64)
        changes = np.flatnonzero(batch.type != PUBLISH)
        slot[changes] = store.slots(batch.word[changes])
        gone = slot[batch.type == UNSUBSCRIBE]
        return slot, np.unique(gone[gone >= 0])

    def _rows_of(self, batch: Batch) -> Ints:
        """For each publication the row that remembers which brokers have seen it; -1 for one too old to read."""
        bodies = self.env.bodies
        handles, inverse = np.unique(batch.body, return_inverse=True)
        rows = np.full(handles.size, -1, np.int64)
        for i, handle in enumerate(handles.tolist()):
            if handle >= 0 and bodies.type[handle] == PUBLISH:
                key = int(bodies.key[handle])
                row = self._seen_rows.get(key)
                if row is None:
                    row = self._new_row(key, int(bodies.time[handle]), int(batch.time.min()))
                rows[i] = row
        found = rows[inverse]
        known = batch.body >= 0
        found[known & (batch.time >= bodies.time[np.maximum(batch.body, 0)] + self._remember_ns)] = -1
        return found

    def _new_row(self, key: int, sent: int, now: int) -> int:
        free = np.flatnonzero(self._seen_key < 0)
        if free.size == 0:
            # Brokers of a shard are at different times; one that lags may still need what others forgot.
            old = np.flatnonzero(self._seen_until < now - self._remember_ns)
            for row in old.tolist():
                del self._seen_rows[int(self._seen_key[row])]
            self._seen_key[old] = -1
            self._seen[old] = 0
            free = old
        if free.size == 0:
            size = len(self._seen)
            self._seen = np.concatenate((self._seen, np.zeros_like(self._seen)))
            self._seen_until = np.concatenate((self._seen_until, np.zeros(size, np.int64)))
            self._seen_key = np.concatenate((self._seen_key, np.full(size, -1, np.int64)))
            free = np.array([size])
        row = int(free[0])
        self._seen_rows[key] = row
        self._seen_key[row] = key
        self._seen_until[row] = sent + self._remember_ns
        return row

    def held(self) -> Ints:
        return self._none

    def state(self) -> dict[str, Any]:
        store = self.store
        live = np.fromiter(store.slot_of.values(), np.int64, len(store.slot_of))
        seen = np.flatnonzero(self._seen_key >= 0)
        return {
            "id": store.id[live],
            "rows": store.rows[live],
            "seen_key": self._seen_key[seen],
            "seen_until": self._seen_until[seen],
            "seen": self._seen[seen],
        }

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        env = self.env
        for state in states:
            check_columns(state, _STATE, {"words": self._seen.shape[1]})
            check_ids(env, state["id"])
        ids, rows = interests_of(states)
        client = (ids >> 32) - env.entity_base
        mine = env.local[env.client_broker[client]]
        self._learn(ids[mine], client[mine], rows[mine])
        self.present[: self.store.count] = True
        self._entries[:] = np.bincount(env.client_broker[client[mine]], minlength=env.brokers)
        for state in states:
            for key, until, bits in zip(state["seen_key"].tolist(), state["seen_until"].tolist(), state["seen"]):
                row = self._seen_rows.get(key)
                if row is None:
                    row = self._new_row(key, until - self._remember_ns, 0)
                self._seen[row] |= bits

    def entries(self) -> Ints:
        return self._entries

    def describe(self, broker: int) -> dict[str, Any]:
        store = self.store
        mine = np.flatnonzero(self.present[: store.count] & (store.home[: store.count] == broker))
        pairs = sorted(zip(store.id[mine].tolist(), store.client[mine].tolist()))
        return {"subscriptions": {str(id_): client for id_, client in pairs}}
