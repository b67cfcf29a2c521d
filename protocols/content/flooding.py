"""Flooding: every publication to every broker; each broker matches for its own clients.

Rules:
- Subscriptions stay at the broker of their client.
- A publication goes over every link but the one it came by.
- On an overlay with cycles each broker remembers the publications it has seen and drops a second copy. It
  remembers for `remember_s` after the publication was sent, and drops anything older unread, so that a late
  copy is never taken for a new one. What is under way for so long may be missed, which its guarantees say
  (`within_ns`).
- Nothing that it knows travels, so there is nothing to mend after faults: with the option `recover` it promises to be
  exact as soon as the last is over.

Exact, at the highest price in messages there is: the baseline for everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from brokers.columns import Column, check_columns
from brokers.compiled import Desk, Handler, fits, forward, handler
from brokers.contract import (
    Batch,
    BrokerProtocol,
    Demand,
    Guarantees,
    Ints,
    Ints32,
    Message,
    ShardEnv,
)
from brokers.out import Out
from brokers.promises import Faced, Recovery
from brokers.records import Record, reader
from brokers.tables import AT_HOME, change_at_home, deliver_at_home, hits_at_home, is_known
from brokers.views import INTS, NARROW, WORDS_TABLE
from protocols.content.at_home import INTERESTS, AtHome, ShardAtHome
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from protocols.content.resync import Recovers

_SECOND = 1_000_000_000
_STATE = {
    **INTERESTS,
    "seen_key": Column("i8", ("seen",), 0),
    "seen_until": Column("i8", ("seen",), 0),
    "seen": Column("u8", ("seen", "words")),
}


class Options(Recovers):
    """Options of `flooding`."""

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


def remembering(promised: Guarantees, options: Any, overlay: Any) -> Guarantees:
    """On a cycle, what is older than it remembers is dropped unread, and may not have been seen before."""
    return promised if overlay.is_tree else replace(promised, within_ns=int(options.remember_s * _SECOND))


def recovery_of(options: Any) -> Recovery | None:
    """At once, and from losses that nobody notices too: what is lost is never anything but a publication."""
    return Recovery(options.recover_within or 0, heals_loss=True) if options.recover else None


class PlainFlooding(AtHome):
    """Flooding as its author would write it: one broker at a time."""

    Options: ClassVar[type[BaseModel] | None] = Options

    def __init__(self, node: Any) -> None:
        super().__init__(node, int(node.options.remember_s * _SECOND))
        self.cyclic = not node.env.overlay.is_tree

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        return guarantees_on(overlay)

    @classmethod
    def guarantees_with(cls, options: Any, overlay: Any) -> Guarantees:
        return remembering(cls.guarantees_for(overlay), options, overlay)

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Faced) -> Recovery | None:
        return recovery_of(options)

    def on_message(self, message: Message) -> None:
        node, type_ = self.node, message[5]
        if type_ == PUBLISH:
            came_by = message[4]
            if self.cyclic and self.seen_before(message):
                return
            for link in node.links:
                if link != came_by:
                    node.forward(message, link)
            if self.subscribers:
                self.hand_over(message)
        else:
            self.changed(message)

    def on_run(self, run: Any) -> None:
        if run.type != PUBLISH or self.cyclic or self.subscribers:
            for message in run.messages():
                self.on_message(message)
            return
        came_by = run.link
        for link in self.node.links:
            run.forward(np.flatnonzero(came_by != link), link)


_RECORD = Record("flooding", {
    **AT_HOME,
    "seen": WORDS_TABLE,  # by row, one bit for each broker; no columns where the overlay has no cycles
    "seen_row": INTS, "seen_generation": NARROW,  # by body
    "remember_ns": INTS,
})  # fmt: skip
_record = reader(_RECORD)


@handler(_RECORD)
def _flood(desk, mine, at, stop):
    state = _record(mine)
    for i in range(at, stop):
        type_ = desk.type[i]
        if type_ == PUBLISH:
            if not _publish(desk, state, i):
                return i
        elif type_ in (SUBSCRIBE, UNSUBSCRIBE) and not change_at_home(desk, state, i, type_ == SUBSCRIBE):
            return i
    return stop


@njit(forceinline=True, cache=True)
def _publish(desk, state, i):
    """Pass a publication on, and hand it to the clients here; False where that is left to Python."""
    b, body = desk.broker[i], desk.body[i]
    cyclic = state.seen.columns > 0
    row, bit = np.int64(0), np.uint64(1) << np.uint64(b & 63)
    if cyclic:
        if body >= state.seen_row.size or state.seen_generation[body] != desk.generation[body]:
            return False
        row = state.seen_row[body]
        if desk.time[i] >= desk.published_ns[body] + state.remember_ns[0] or state.seen[row, b >> 6] & bit:
            return True
    low = high = np.int64(0)
    entries = state.entries[b]
    if entries > 0:
        if not is_known(desk, state, body):
            return False
        low, high = hits_at_home(state, b, body)
    first, last = desk.out_start[b], desk.out_start[b + 1]
    if not fits(desk, last - first, high - low):
        return False
    if cyclic:
        state.seen[row, b >> 6] |= bit
    came_by = desk.link[i]
    for j in range(first, last):
        if desk.out_link[j] != came_by:
            forward(desk, i, desk.out_link[j])
    if entries > 0:
        deliver_at_home(desk, state, i, low, high)
    return True


class Flooding(ShardAtHome):
    """Flooding over all brokers of a shard at once, with one shared store of subscriptions."""

    Options: ClassVar[type[BaseModel] | None] = Options
    plain: ClassVar[type[BrokerProtocol] | None] = PlainFlooding
    compiled: ClassVar[Handler | None] = _flood

    def __init__(self, env: ShardEnv) -> None:
        super().__init__(env)
        self._cyclic = not env.overlay.is_tree
        self._remember_ns = int(env.options.remember_s * _SECOND)
        self._seen = np.zeros((64, (env.brokers + 63) // 64) if self._cyclic else (0, 0), np.uint64)
        self._seen_rows: dict[int, int] = {}  # publication -> row of `_seen`
        self._seen_until = np.zeros(len(self._seen), np.int64)
        self._seen_key = np.full(len(self._seen), -1, np.int64)
        self._free = list(range(len(self._seen) - 1, -1, -1))  # rows that remember nothing
        self._row_of = np.zeros(64, np.int64)  # body -> row of `_seen`
        self._row_generation = np.full(64, -1, np.int32)
        self._remember = np.array([self._remember_ns])
        self._desk = Desk(env, self)

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        return guarantees_on(overlay)

    @classmethod
    def guarantees_with(cls, options: Any, overlay: Any) -> Guarantees:
        return remembering(cls.guarantees_for(overlay), options, overlay)

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Faced) -> Recovery | None:
        return recovery_of(options)

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        brokers, overlay = demand.overlay.brokers, demand.overlay
        links = overlay.links - overlay.servers
        copies = 1 + 2 * links - (brokers - 1)  # one for each broker, and over each surplus link one either way
        return float(demand.publications.sum() * copies + demand.changes.sum())

    def handle(self, batch: Batch, out: Out) -> None:
        self._make_ready(batch.type, batch.word, batch.body, int(batch.time.min()) if self._cyclic else 0)
        self._desk.decide(batch, out, 0, batch.size)
        self.tidy()

    def prepare(self, type: Ints32, word: Ints, body: Ints32, now: int) -> None:
        self._make_ready(type, word, body, now)
        self.store.learn_all(PUBLISH)

    def _make_ready(self, type: Ints32, word: Ints, body: Ints32, now: int) -> None:
        """Have what these messages need."""
        published = body
        if np.count_nonzero(type):  # of a few numbers the quickest way to ask whether there is any
            self.enter_changes(type, word, body)
            published = body[type == PUBLISH]
        if self.store.count:
            self.store.learn(published)
        if self._cyclic:
            self._note_rows(published, now)

    def columns(self) -> Mapping[str, NDArray[Any]]:
        return {
            **super().columns(), "seen": self._seen, "seen_row": self._row_of,
            "seen_generation": self._row_generation, "remember_ns": self._remember,
        }  # fmt: skip

    def _note_rows(self, published: Ints32, now: int) -> None:
        """Have a row for each publication that remembers which brokers have seen it."""
        bodies = self.env.bodies
        if self._row_of.size < bodies.capacity:
            size = self._row_of.size
            self._row_of = np.concatenate((self._row_of, np.zeros(bodies.capacity - size, np.int64)))
            self._row_generation = np.concatenate(
                (self._row_generation, np.full(bodies.capacity - size, -1, np.int32))
            )
        for handle in np.unique(published).tolist():
            key = int(bodies.key[handle])
            row = self._seen_rows.get(key)
            if row is None:
                row = self._new_row(key, int(bodies.time[handle]), now)
            self._row_of[handle] = row
            self._row_generation[handle] = bodies.generation[handle]

    def _new_row(self, key: int, sent: int, now: int) -> int:
        if not self._free:
            # Brokers of a shard are at different times; one that lags may still need what others forgot.
            old = np.flatnonzero(self._seen_until < now - self._remember_ns)
            for row in old.tolist():
                del self._seen_rows[int(self._seen_key[row])]
            self._seen_key[old] = -1
            self._seen[old] = 0
            self._free = old[::-1].tolist()
        if not self._free:
            size = len(self._seen)
            self._seen = np.concatenate((self._seen, np.zeros_like(self._seen)))
            self._seen_until = np.concatenate((self._seen_until, np.zeros(size, np.int64)))
            self._seen_key = np.concatenate((self._seen_key, np.full(size, -1, np.int64)))
            self._free = list(range(2 * size - 1, size - 1, -1))
        row = self._free.pop()
        self._seen_rows[key] = row
        self._seen_key[row] = key
        self._seen_until[row] = sent + self._remember_ns
        return row

    def state(self) -> dict[str, Any]:
        seen = np.flatnonzero(self._seen_key >= 0)
        return {
            **super().state(),
            "seen_key": self._seen_key[seen],
            "seen_until": self._seen_until[seen],
            "seen": self._seen[seen],
        }

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        for state in states:
            check_columns(state, _STATE, {"words": self._seen.shape[1]})
        super().load(states, handle_of)
        for state in states:
            for key, until, bits in zip(state["seen_key"].tolist(), state["seen_until"].tolist(), state["seen"]):
                row = self._seen_rows.get(key)
                if row is None:
                    row = self._new_row(key, until - self._remember_ns, 0)
                self._seen[row] |= bits
