"""A broker as its protocol's author sees it: `Node`, the stretches that `on_run` gets, and bodies that are kept.

What brokers answer is collected over a whole batch (`Outgoing`), since one call with arrays costs as much as one with a
number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numba import njit

from brokers.columns import BadState
from brokers.contract import Batch, Ints, LinkTable, Message, ShardEnv
from brokers.errors import ProtocolFault
from brokers.load import Load
from brokers.out import AS_IT_CAME, SAME, Out
from brokers.store import Store
from brokers.tables import InterestTable


class Node:
    """A broker, as its protocol sees it."""

    __slots__ = (
        "_add_event", "_add_link", "_outgoing", "broker", "env", "links", "sees_load", "shared", "store", "table",
    )  # fmt: skip

    def __init__(
        self, env: ShardEnv, broker: int, table: InterestTable, outgoing: Outgoing, shared: dict[str, Any]
    ) -> None:
        self._outgoing = outgoing
        self.env = env
        self.broker = broker
        start, stop = env.links.out_start[broker], env.links.out_start[broker + 1]
        self.links: tuple[int, ...] = tuple(env.links.out_link[start:stop].tolist())  # by neighbour
        self.table = table
        # Forwarding is what most brokers do most: two calls of a list, and no function in between.
        self._add_event, self._add_link = outgoing.send_event.append, outgoing.send_link.append
        self.store = Store(self._written)
        self.sees_load = False  # whether the protocol declares it
        self.shared = shared  # for what follows from the overlay alone; never for state

    @property
    def options(self) -> Any:
        return self.env.options

    @property
    def load(self) -> Load:
        """How much waits at this broker; for protocols that declare `sees_load`."""
        if not self.sees_load:
            raise ProtocolFault("node.load is for protocols that declare it: `sees_load = True` in the class")
        return Load(self.broker, self.env.loads())

    def neighbour(self, link: int) -> int:
        """The broker at the far end of one of this broker's links."""
        return int(self.env.links.target[link])

    def link_to(self, broker: int) -> int:
        """The link of this broker to another; -1 if there is none. O(log links)."""
        return link_between(self.env.links, self.broker, broker)

    def stands(self, link: int) -> bool:
        """Whether a link of this broker is there without being opened."""
        return link in self.links

    def watched(self, link: int) -> bool:
        """Whether this broker is told that a link is down whenever it is."""
        return True

    def forward(self, message: Message, link: int) -> None:
        """Send a message on as it came: same type, body, word and cause."""
        self._add_event(message[0])
        self._add_link(link)

    def send(
        self,
        message: Message,
        link: int,
        type: int,
        body: Any = None,
        word: int = 0,
        size: int = -1,
        cause: int = SAME,
        about: Body | None = None,
    ) -> None:
        """Send a message of a type, because of `message`. `body` is plain data, or what `keep` returned.

        A body made here stands for the publication that `message` carries, if it carries one, or for the one
        that `about`, a kept body, is or stands for.
        """
        a = self._outgoing
        if body is None:
            handle = -1
        elif isinstance(body, Body):
            handle = body.handle
        elif about is None:
            handle = a.out.body(body, type, message[0])
        else:
            handle = a.out.body(body, type, like=about.handle)
        a.detail[len(a.send_event)] = (type, handle, word, size, a.cause_handle(cause))
        a.send_event.append(message[0])
        a.send_link.append(link)

    def send_row(
        self, message: Message, link: int, type: int, row: Any, word: int = 0, cause: int = SAME
    ) -> None:
        """Send a message of a type whose body is a row of numbers."""
        self.send(message, link, type, self.row_body(message, type, row), word, cause=cause)

    def row_body(self, message: Message, type: int, row: Any, stands: bool = True) -> Body:
        """A body of numbers, to be sent or delivered now: it stands for what the message carries, if it `stands`."""
        bodies = self.env.bodies
        numbers = np.asarray(row, np.float64)[None, :]
        behind = bodies.stands_for(message[6] if stands else -1)
        return Body(int(bodies.add_rows(self.env.service, type, numbers, *behind)[0]))

    def deliver(self, message: Message, client: int, body: Body | None = None) -> None:
        """Hand the message's body (or another) to a client, by client number."""
        a = self._outgoing
        a.deliver_event.append(message[0])
        a.deliver_client.append(client)
        a.deliver_body.append(message[6] if body is None else body.handle)

    def timer(
        self,
        message: Message,
        delay_ns: int,
        type: int,
        word: int = 0,
        cause: int = SAME,
        body: Body | None = None,
    ) -> None:
        """Wake this broker `delay_ns` after the message, with a message of `type`, `word` and a kept body."""
        a = self._outgoing
        handle = -1 if body is None else body.handle
        a.out.timer(message[0], delay_ns, type, word, handle, a.cause_handle(cause))

    def cost(self, message: Message, ns: int) -> None:
        """Charge service time beyond the scenario's cost model."""
        self._outgoing.out.cost(message[0], ns)

    def _written(self, message: Message) -> None:
        """Charge the scenario's cost model for an entry of the store."""
        if self.env.cost.per_write:
            self.cost(message, int(self.env.cost.per_write + 0.5))

    def work(self, message: Message, entries: int = 0, matches: int = 0) -> None:
        """Charge the scenario's cost model for entries looked at and matches found."""
        self._outgoing.out.work(message[0], entries, matches)

    def depends(self, change: int, on: int) -> None:
        """Note that a change is settled only once another one is; both by id, as in `message.cause`."""
        self._outgoing.out.depends(change, on)

    def leans(self, interest: int, on: int) -> None:
        """Note that an interest is in force only while another one is; both by id."""
        self._outgoing.out.leans(interest, on)

    def body(self, message: Message) -> Any:
        """What the message carries: plain data, or what the kind makes of a row of numbers."""
        return None if message[6] < 0 else self.env.bodies.object(message[6])

    def read(self, message: Message, reader: Callable[[bytes], Any]) -> Any:
        """What a reader makes of the bytes that the message carries as plain data; made once for all of a shard.

        `reader` is a pure function at the top level of a module, as those of `brokers.wire.numbers`; what it returns,
        nobody changes.
        """
        return self.env.bodies.read(message[6], reader)

    def row(self, handle: int) -> Any:
        """The numbers of a numeric body."""
        return self.env.bodies.values(np.array([handle], np.int32))[0]

    def key(self, message: Message) -> int:
        """The publication or change id behind the message's body; -1 for a protocol's own bodies."""
        return -1 if message[6] < 0 else int(self.env.bodies.key[message[6]])

    def origin(self, message: Message) -> int:
        """The broker at which the message's body entered the network; -1 for a protocol's own bodies."""
        return -1 if message[6] < 0 else int(self.env.bodies.broker[message[6]])

    def keep(self, message: Message) -> Body:
        """Hold the message's body beyond its last message, to send or deliver it later. Call `drop` when done."""
        self._outgoing.keep(self.broker, message[6], 1)
        return Body(message[6])

    def record(self, message: Message, table: str, **columns: Any) -> None:
        """Write a row of one of the kind's own trace tables, or as many as the columns are arrays of.

        Service, broker and time are filled in.
        """
        rows = max((len(column) for column in columns.values() if isinstance(column, np.ndarray)), default=1)
        self._outgoing.out.record(table, message[0] if rows == 1 else np.full(rows, message[0]), **columns)

    def copy(self, message: Message) -> dict[str, Any]:
        """The message's numeric body as plain data for the store, with which client's message it is; for `revive`."""
        bodies, handle = self.env.bodies, message[6]
        time, key, _ = bodies.stands_for(handle)
        return {"type": int(bodies.type[handle]), "row": self.row(handle), "time": time, "key": key}

    def revive(self, copy: Mapping[str, Any]) -> Body:
        """The body again that a client here sent and `copy` gave, after a crash; kept, as by `keep`."""
        wanted = {"type": int, "row": list, "time": int, "key": int}
        if {name: type(each) for name, each in copy.items()} != wanted:
            raise BadState(f"broker {self.broker} has stored no copy of a body that can be revived")
        rows = np.asarray(copy["row"], np.float64)[None, :]
        stands_for = copy["time"], copy["key"], self.broker
        handle = int(self.env.bodies.add_rows(self.env.service, copy["type"], rows, *stands_for)[0])
        self._outgoing.keep(self.broker, handle, 1)
        return Body(handle)

    def drop(self, body: Body) -> None:
        self._outgoing.keep(self.broker, body.handle, -1)


def link_between(links: LinkTable, source: int, target: int) -> int:
    """The directed link from a broker to another; -1 if there is none. O(log links)."""
    first, last = links.out_start[source], links.out_start[source + 1]
    mine = links.out_link[first:last]
    at = int(np.searchsorted(links.target[mine], target))
    return int(mine[at]) if at < mine.size and links.target[mine[at]] == target else -1


class Body:
    """A body kept by a protocol."""

    __slots__ = ("handle",)

    def __init__(self, handle: int) -> None:
        self.handle = handle


class Run:
    """A stretch of messages of one type at one broker, as arrays. Rows count from 0."""

    __slots__ = ("_batch", "_outgoing", "_stop", "_stretch", "size", "start", "type")

    def __init__(self, outgoing: Outgoing, batch: Batch, start: int, stop: int, type: int) -> None:
        self._outgoing = outgoing
        self._batch = batch
        self.start = start
        self._stop = stop
        self.size = stop - start
        self.type = type

    def __getattr__(self, name: str) -> Any:
        """A column of the batch, sliced when asked for: time, source, link, body, word, cause."""
        return getattr(self._batch, name)[self.start : self._stop]

    def forward(self, rows: Any, link: int) -> None:
        """Send the messages in `rows` on as they came, over one link."""
        if self._outgoing.send_event:
            self._outgoing.hand_on_sends()
        self._outgoing.run_forwards.append((self.start, rows, link))

    def deliver(self, rows: Ints, clients: Ints) -> None:
        """Hand the body of message rows[i] to client clients[i]."""
        self._outgoing.out.deliver(np.asarray(rows, np.int64) + self.start, clients)

    def send(self, rows: Any, link: Any, type: Any, body: Any = -1, word: Any = 0, size: Any = -1) -> None:
        """Send a message for each row; `body` is plain data for all of them, or a handle or handles.

        Plain data becomes a body per row, each standing for its row's publication, as `node.send` makes them.
        """
        if not isinstance(body, int | np.integer | np.ndarray):
            events = (np.atleast_1d(np.asarray(rows, np.int64)) + self.start).tolist()
            body = np.array([self._outgoing.out.body(body, int(type), event) for event in events], np.int64)
        if self._outgoing.run_forwards or self._outgoing.send_event:
            self._outgoing.hand_on_sends()
        self._outgoing.out.send(np.asarray(rows, np.int64) + self.start, link, type, body, word, size)

    def cost(self, rows: Any, ns: Any) -> None:
        self._outgoing.out.cost(np.asarray(rows, np.int64) + self.start, ns)

    def work(self, rows: Any, entries: Any = 0, matches: Any = 0) -> None:
        self._outgoing.out.work(np.asarray(rows, np.int64) + self.start, entries, matches)

    def messages(self) -> list[Message]:
        """The rows as messages, for what is easier said one by one."""
        return messages_of(self._outgoing.env, self._batch, self.start, self._stop)


class Outgoing:
    """What the brokers of a shard answer to a batch, until it is handed on to `out`."""

    def __init__(self, env: ShardEnv) -> None:
        self.env = env
        self.out: Out
        self.send_event: list[int] = []
        self.send_link: list[int] = []
        self.detail: dict[int, tuple[Any, ...]] = {}
        self.deliver_event: list[int] = []
        self.deliver_client: list[int] = []
        self.deliver_body: list[int] = []
        self.run_forwards: list[tuple[int, Any, int]] = []
        self.kept: dict[tuple[int, int], int] = {}  # (broker, body) -> times held

    def cause_handle(self, change: int) -> int:
        """The handle behind a change id that a protocol names as a cause."""
        return change if change < 0 else int(self.env.causes.handles(np.array([change]))[0])

    def keep(self, broker: int, handle: int, by: int) -> None:
        """Count how often a broker holds a body."""
        count = self.kept.get((broker, handle), 0) + by
        if count > 0:
            self.kept[broker, handle] = count
        else:
            self.kept.pop((broker, handle), None)

    def forget(self, broker: int) -> None:
        """A broker holds nothing any more."""
        self.kept = {key: count for key, count in self.kept.items() if key[0] != broker}

    def hand_on_sends(self) -> None:
        """Hand on the sends collected so far: before a call of another sort, so that their order stays."""
        out = self.out
        if self.run_forwards:
            rows = [np.asarray(rows, np.int64) for _, rows, _ in self.run_forwards]
            sizes = [r.size for r in rows]
            offset = np.repeat([start for start, _, _ in self.run_forwards], sizes)
            link = np.repeat([link for _, _, link in self.run_forwards], sizes)
            out.forward(np.concatenate(rows) + offset, link)
            self.run_forwards.clear()
        if self.send_event:
            event = np.array(self.send_event, np.int64)
            link = np.array(self.send_link, np.int64)
            if not self.detail:
                out.forward(event, link)
            else:
                detail = np.full((event.size, 5), AS_IT_CAME, np.int64)
                detail[list(self.detail)] = list(self.detail.values())
                out.send(event, link, *detail.T)
                self.detail.clear()
            self.send_event.clear()
            self.send_link.clear()

    def hand_on(self) -> None:
        """Hand on everything."""
        self.hand_on_sends()
        if self.deliver_event:
            self.out.deliver(
                np.array(self.deliver_event, np.int64),
                np.array(self.deliver_client, np.int64),
                np.array(self.deliver_body, np.int64),
            )
            self.deliver_event.clear()
            self.deliver_client.clear()
            self.deliver_body.clear()


def messages_of(env: ShardEnv, batch: Batch, start: int, stop: int) -> list[Message]:
    """Rows of a batch as messages. A cause becomes the id of the change, which outlives the shard."""
    rows = np.empty((stop - start, len(Message._fields)), np.int64)
    caused = _lay(
        batch.time, batch.kind, batch.source, batch.link, batch.type, batch.body, batch.word, batch.cause, start, rows
    )
    if caused:
        rows[:, -1] = env.causes.keys(rows[:, -1].copy())
    return list(map(_message, rows.tolist()))


@njit(cache=True)
def _lay(time, kind, source, link, type_, body, word, cause, start, rows):
    """Lay the columns of a batch into rows, a message each; returns whether any has a cause."""
    caused = False
    for i in range(rows.shape[0]):
        at = start + i
        rows[i, 0], rows[i, 1], rows[i, 2], rows[i, 3] = at, time[at], kind[at], source[at]
        rows[i, 4], rows[i, 5], rows[i, 6], rows[i, 7] = link[at], type_[at], body[at], word[at]
        rows[i, 8] = cause[at]
        caused |= cause[at] >= 0
    return caused


_message: Any = partial(tuple.__new__, Message)  # as `Message._make`, which counts the fields each time


__all__ = ["Body", "Node", "Outgoing", "Run", "messages_of"]
