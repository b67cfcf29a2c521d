"""topk-ingress: every broker knows every filter, so the broker where a publication enters has the answer.

Filters and their changes flood the tree; a publication is ranked once, and its recipients are stamped on it.
Cheap per publication, dear per change and in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.columns import BadState, Column, check_columns
from brokers.compiled import Desk, Handler, deliver, digest, fits, forward, handler
from brokers.contract import (
    Batch,
    BrokerProtocol,
    Demand,
    Interests,
    Ints,
    Ints32,
    Message,
    ShardEnv,
    ShardProtocol,
)
from brokers.indexes.ids import find_one
from brokers.indexes.space import grown
from brokers.indexes.topk.contract import answered
from brokers.out import Out
from brokers.records import Record, reader
from brokers.views import FLAGS, INTS, NARROW, NARROW_TABLE
from protocols.expected import to_all
from protocols.topk.asking_record import DELIVERY
from protocols.topk.common import Ranked
from protocols.topk.kind import PUBLISH, REWEIGHT, SUBSCRIBE, UNSUBSCRIBE, TopK
from protocols.topk.rooms import Room
from protocols.topk.serving import Serving, by_number, tree_of
from protocols.topk.spread_filters import SpreadFilters
from protocols.topk.tree_kernels import leads

_DECIDED = {"broker": Column("i8", ("here",), low=0, high="brokers"), "decided": Column("i8", ("here",), low=0)}


class PlainIngress(Ranked):
    """The same as its author would write it: one broker at a time."""

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        return to_all(demand, demand.changes) + cls.expected_deliveries(demand)

    def publish(self, message: Message) -> None:
        node = self.node
        publication = node.key(message)
        publisher, row = publication >> 32, node.row(message.body)
        answer = answered(self.rank(message, row, publisher), self.service.query(publisher))
        self.decide(message, publication, answer, None, row)

    def change(self, message: Message) -> None:
        self.apply(message)
        for link in self.routes.forwards(self.node.broker, message.link, self.home(message.word)):
            self.node.forward(message, link)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        self.keep_filter(id, row)


# ---- over all brokers of a shard at once ---------------------------------------------------------------

_MADE_OF = digest(
    __file__, "tree_kernels.py", "../../brokers/indexes/ids.py", "../../brokers/compiled.py", "../../brokers/views.py",
    "../../brokers/records.py",
)  # fmt: skip
_RECORD = Record(f"ingress {_MADE_OF}", {
    "in_tree": FLAGS, "enter": NARROW, "leave": NARROW, "up": NARROW,
    "known": INTS,  # by broker: how many filters it knows
    "loose_keys": INTS, "loose_slots": NARROW, "held": NARROW_TABLE, "moved": FLAGS, "lacking": INTS,
    "holders": INTS, "stamp": INTS,  # by version
    "change_noted": NARROW, "version_of": NARROW, "stamp_of": INTS,  # by body of a change
    "noted": NARROW, "begin": INTS, "count": INTS, "client": INTS, "number": NARROW,  # whom a body names
})  # fmt: skip
_record = reader(_RECORD)


@handler(_RECORD)
def _spread(desk, mine, at, stop):
    state = _record(mine)
    for i in range(at, stop):
        type_ = desk.type[i]
        if type_ == DELIVERY:
            done = _pass_on(desk, state, i)
        elif type_ in (SUBSCRIBE, REWEIGHT, UNSUBSCRIBE):
            done = _change(desk, state, i)
        else:
            done = False
        if not done:
            return i
    return stop


@njit(forceinline=True, cache=True)
def _change(desk, state, i):
    """A filter came, went, or weighs otherwise: know it so, and tell on; False where that is left to Python."""
    b, body, ends = desk.broker[i], desk.body[i], desk.type[i] == UNSUBSCRIBE
    row, version = find_one(state.loose_keys, state.loose_slots, desk.word[i]), np.int64(-1)
    if row < 0:
        return False
    if not ends:
        if body >= state.change_noted.size or state.change_noted[body] != desk.generation[body]:
            return False
        version = np.int64(state.version_of[body])
        if state.stamp[version] != state.stamp_of[body]:
            return False
    first, last = desk.out_start[b], desk.out_start[b + 1]
    if not fits(desk, last - first, 0):
        return False
    before = state.held[row, b]
    state.moved[row] = True
    if before != version:
        state.held[row, b] = version
        if before >= 0:
            state.holders[before] -= 1
        else:
            state.known[b] += 1
            state.lacking[row] -= 1
        if version >= 0:
            state.holders[version] += 1
        else:
            state.known[b] -= 1
            state.lacking[row] += 1
    for j in range(first, last):
        link = desk.out_link[j]
        if state.in_tree[link] and link != desk.link[i]:
            forward(desk, i, link)
    return True


@njit(forceinline=True, cache=True)
def _pass_on(desk, state, i):
    """A publication with its recipients came by: serve those here, send it on towards the others."""
    b, body = desk.broker[i], desk.body[i]
    if body >= state.noted.size or state.noted[body] != desk.generation[body]:
        return False
    start, count = state.begin[body], state.count[body]
    first, last = desk.out_start[b], desk.out_start[b + 1]
    if not fits(desk, last - first, count):
        return False
    for at in range(start, start + count):
        if state.number[at] == state.enter[b]:
            deliver(desk, i, state.client[at])
    for j in range(first, last):
        link = desk.out_link[j]
        away = state.in_tree[link] and link != desk.link[i]
        if away and leads(state.enter, state.leave, state.up, state.number, start, count, b, desk.target[link], link):
            forward(desk, i, link)
    return True


class _Recipients(Room):
    """Whom bodies name: stretches of clients, in the order of the numbers of their brokers in the tree."""

    def __init__(self, env: ShardEnv) -> None:
        self._bodies = env.bodies
        self.noted = np.full(0, -1, np.int32)  # by body: the generation in which it was noted
        self.begin, self.count = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.client, self.number = np.zeros(256, np.int64), np.zeros(256, np.int32)
        self._used = 0

    def columns(self) -> dict[str, NDArray[Any]]:
        return {
            "noted": self.noted, "begin": self.begin, "count": self.count, "client": self.client, "number": self.number,
        }  # fmt: skip

    def note(self, body: int, clients: Ints, numbers: Ints32) -> None:
        """A body names these."""
        capacity = self._bodies.capacity
        if self.noted.size < capacity:
            self.noted = grown(self.noted, (capacity,), -1)
            self.begin, self.count = grown(self.begin, (capacity,), 0), grown(self.count, (capacity,), 0)
        if self._used + clients.size > self.client.size:
            self._pack(clients.size)
        end = self._used + clients.size
        self.client[self._used : end], self.number[self._used : end] = clients, numbers
        self.noted[body], self.begin[body] = self._bodies.generation[body], self._used
        self.count[body] = clients.size
        self._used = end

    def is_noted(self, body: int) -> bool:
        return bool(body < self.noted.size and self.noted[body] == self._bodies.generation[body])

    def _pack(self, more: int) -> None:
        """Drop what no body names any more; have room for more than is left."""
        size = self.noted.size
        live = np.flatnonzero((self.noted == self._bodies.generation[:size]) & self._bodies.alive[:size])
        counts = self.count[live]
        total = int(counts.sum())
        begins = np.cumsum(counts) - counts
        take = np.repeat(self.begin[live] - begins, counts) + np.arange(total)
        client, number = self.client[take], self.number[take]
        room = max(256, 2 * (total + more))
        self.client, self.number = grown(client, (room,), 0), grown(number, (room,), 0)
        self.begin[live] = begins
        self._used = total


class Ingress(ShardProtocol):
    """The same over all brokers of a shard at once: a filter that all know stands once."""

    kind: ClassVar[str] = "topk"
    plain: ClassVar[type[BrokerProtocol] | None] = PlainIngress
    compiled: ClassVar[Handler | None] = _spread
    state_version: ClassVar[int] = 2  # 1 was that of the author's view

    def __init__(self, env: ShardEnv) -> None:
        super().__init__(env)
        assert isinstance(env.kind, TopK)
        self.topk = env.kind
        self.filters, self._recipients = SpreadFilters(env), _Recipients(env)
        self.decided = np.zeros(env.brokers, np.int64)
        self._tree = tree_of(env)
        ways = ("in_tree", "enter", "leave", "up")
        self._columns: dict[str, NDArray[Any]] = {name: self._tree[name] for name in ways}
        self._desk = Desk(env, self)

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        return PlainIngress.expected_events(demand)

    def stand(self, interests: Interests) -> None:
        assert interests.rows is not None
        self.filters.stand(interests.id, interests.rows)

    def columns(self) -> Mapping[str, NDArray[Any]]:
        if self.filters.renewed or self._recipients.renewed:
            self._columns = {**self._columns, **self.filters.columns(), **self._recipients.columns()}
            self.filters.renewed = self._recipients.renewed = False
        return self._columns

    # ---- messages --------------------------------------------------------------------------------------

    def prepare(self, type: Ints32, word: Ints, body: Ints32, now: int) -> None:
        for row in np.flatnonzero(type != PUBLISH).tolist():
            self._make_ready(int(type[row]), int(word[row]), int(body[row]))

    def _make_ready(self, type: int, word: int, body: int) -> None:
        """Have what the handler needs of a message."""
        if type == DELIVERY:
            if not self._recipients.is_noted(body):
                to = self.env.bodies.object(body)["to"]
                self._note(body, [client - self.env.entity_base for client, _ in to])
        else:
            self.filters.expect(word, -1 if type == UNSUBSCRIBE else body)

    def _note(self, body: int, clients: Sequence[int]) -> None:
        self._recipients.note(body, *by_number(self.env, self._tree, clients))

    def tidy(self) -> None:
        self.filters.settle()

    def handle(self, batch: Batch, out: Out) -> None:
        serving = Serving()

        def aside(at: int) -> int:
            if batch.type[at] == PUBLISH:
                self._publish(batch, out, serving, at)
                return at + 1
            self._make_ready(int(batch.type[at]), int(batch.word[at]), int(batch.body[at]))
            return at

        self._desk.decide(batch, out, 0, batch.size, aside)
        serving.hand_on(out)
        self.tidy()

    def _publish(self, batch: Batch, out: Out, serving: Serving, at: int) -> None:
        """A publication entered: rank what its broker knows, and serve."""
        bodies, here, body = self.env.bodies, int(batch.broker[at]), int(batch.body[at])
        publication, row = int(bodies.key[body]), bodies.values(batch.body[at : at + 1])[0]
        query = self.topk.query(publication >> 32)
        found = self.filters.best(here, self.topk.asked(row), query)
        out.work(at, int(self.filters.count[here]), len(found.ids))
        self.decided[here] += 1
        serving.decided(
            self.env, self._tree, out, at, here, answered(found, query), publication, body, row, self._note
        )

    # ---- what is known ---------------------------------------------------------------------------------

    def entries(self) -> Ints:
        return self.filters.count

    def describe(self, broker: int) -> dict[str, Any]:
        return {"filters": int(self.filters.count[broker]), "decided": int(self.decided[broker])}

    def memory_bytes(self) -> int:
        """Bytes of what the shard holds."""
        return self.filters.memory_bytes() + self._recipients.memory_bytes()

    def state(self) -> dict[str, Any]:
        here = np.flatnonzero(self.env.local)
        return {"filters": self.filters.state(), "decided": {"broker": here, "decided": self.decided[here]}}

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        for each in states:
            if type(each) is not dict or each.keys() != {"filters", "decided"}:
                raise BadState("it is not what brokers know and have decided")
            part = check_columns(each["decided"], _DECIDED, {"brokers": self.env.brokers})
            mine = self.env.local[part["broker"]]
            self.decided[part["broker"][mine]] = part["decided"][mine]
        self.filters.load([each["filters"] for each in states])
