"""From one broker's view to the shard's: runs `BrokerProtocol` objects behind the face of a `ShardProtocol`.

Short stretches are handed over message by message, long ones as arrays where the protocol has `on_run`:
slicing columns per broker pays only from about sixteen messages up.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from brokers.contract import TIMER, Batch, BrokerProtocol, Interests, Ints, Message, ShardEnv, ShardProtocol
from brokers.engine.out import SAME, Out
from brokers.tables import Table, TableHome

RUN_FROM = 16  # messages in a stretch from which `on_run` is called


class Node:
    """A broker, as its protocol sees it."""

    __slots__ = ("_adaptor", "broker", "env", "forward_event", "links", "shared", "table")

    def __init__(self, adaptor: PlainAdaptor, broker: int) -> None:
        env = adaptor.env
        self._adaptor = adaptor
        self.env = env
        self.broker = broker
        start, stop = env.links.out_start[broker], env.links.out_start[broker + 1]
        self.links: tuple[int, ...] = tuple(env.links.out_link[start:stop].tolist())  # by neighbour
        self.table: Table = adaptor.home.table()
        self.forward_event = adaptor.forward_event
        self.shared = adaptor.shared  # for what follows from the overlay alone; never for state

    @property
    def options(self) -> Any:
        return self.env.options

    def neighbour(self, link: int) -> int:
        """The broker at the far end of one of this broker's links."""
        return int(self.env.links.target[link])

    def forward(self, message: Message, link: int) -> None:
        """Send a message on as it came: same type, body, word and cause."""
        self.forward_event(message[0], link)

    def send(
        self,
        message: Message,
        link: int,
        type: int,
        body: Any = None,
        word: int = 0,
        size: int = -1,
        cause: int = SAME,
    ) -> None:
        """Send a message of a type, because of `message`. `body` is plain data or a handle from `keep`."""
        a = self._adaptor
        handle = -1 if body is None else body.handle if isinstance(body, Body) else a.out.body(body, type)
        a.detail[len(a.send_event)] = (type, handle, word, size, cause)
        a.send_event.append(message[0])
        a.send_link.append(link)

    def send_row(
        self, message: Message, link: int, type: int, row: Any, word: int = 0, cause: int = SAME
    ) -> None:
        """Send a message of a type whose body is a row of numbers."""
        bodies = self.env.bodies
        handle = int(bodies.add_rows(self.env.service, type, np.asarray(row, np.float64)[None, :])[0])
        self.send(message, link, type, Body(handle), word, cause=cause)

    def deliver(self, message: Message, client: int, body: Body | None = None) -> None:
        """Hand the message's body (or another) to a client, by client number."""
        a = self._adaptor
        a.deliver_event.append(message[0])
        a.deliver_client.append(client)
        a.deliver_body.append(message[6] if body is None else body.handle)

    def timer(self, message: Message, delay_ns: int, type: int, word: int = 0, cause: int = SAME) -> None:
        """Wake this broker `delay_ns` after the message, with a message of `type` and `word`."""
        self._adaptor.out.timer(message[0], delay_ns, type, word, -1, cause)

    def cost(self, message: Message, ns: int) -> None:
        """Charge service time beyond the scenario's cost model."""
        self._adaptor.out.cost(message[0], ns)

    def work(self, message: Message, entries: int = 0, matches: int = 0) -> None:
        """Charge the scenario's cost model for entries looked at and matches found."""
        self._adaptor.out.work(message[0], entries, matches)

    def depends(self, cause: int, on: int) -> None:
        """Note that the change `cause` is settled only once `on` is."""
        self._adaptor.out.depends(cause, on)

    def body(self, message: Message) -> Any:
        """What the message carries: plain data, or what the kind makes of a row of numbers."""
        return None if message[6] < 0 else self.env.bodies.object(message[6])

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
        self._adaptor.keep(message[6], 1)
        return Body(message[6])

    def drop(self, body: Body) -> None:
        self._adaptor.keep(body.handle, -1)


class Body:
    """A body kept by a protocol."""

    __slots__ = ("handle",)

    def __init__(self, handle: int) -> None:
        self.handle = handle


class Run:
    """A stretch of messages of one type at one broker, as arrays. Rows count from 0."""

    __slots__ = ("_adaptor", "_batch", "_stop", "_stretch", "size", "start", "type")

    def __init__(self, adaptor: PlainAdaptor, batch: Batch, start: int, stop: int, type: int) -> None:
        self._adaptor = adaptor
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
        self._adaptor.run_forwards.append((self.start, rows, link))

    def deliver(self, rows: Ints, clients: Ints) -> None:
        """Hand the body of message rows[i] to client clients[i]."""
        self._adaptor.out.deliver(np.asarray(rows, np.int64) + self.start, clients)

    def send(self, rows: Any, link: Any, type: Any, body: Any = -1, word: Any = 0, size: Any = -1) -> None:
        """Send a message for each row; `body` is a handle."""
        self._adaptor.out.send(np.asarray(rows, np.int64) + self.start, link, type, body, word, size)

    def cost(self, rows: Any, ns: Any) -> None:
        self._adaptor.out.cost(np.asarray(rows, np.int64) + self.start, ns)

    def work(self, rows: Any, entries: Any = 0, matches: Any = 0) -> None:
        self._adaptor.out.work(np.asarray(rows, np.int64) + self.start, entries, matches)

    def messages(self) -> list[Message]:
        """The rows as messages, for what is easier said one by one."""
        return _messages(self._batch, self.start, self._stop)


def _messages(batch: Batch, start: int, stop: int) -> list[Message]:
    part = slice(start, stop)
    return list(
        map(
            Message._make,
            zip(
                range(start, stop),
                batch.time[part].tolist(),
                batch.kind[part].tolist(),
                batch.source[part].tolist(),
                batch.link[part].tolist(),
                batch.type[part].tolist(),
                batch.body[part].tolist(),
                batch.word[part].tolist(),
                batch.cause[part].tolist(),
            ),
        )
    )


class PlainAdaptor(ShardProtocol):
    """A shard of brokers that are objects."""

    def __init__(self, env: ShardEnv, protocol: type[BrokerProtocol], runs: bool = True) -> None:
        super().__init__(env)
        self.kind = protocol.kind  # type: ignore[misc]
        self.protocol = protocol
        self.home = TableHome(env)
        self.shared: dict[str, Any] = {}
        self.out: Out
        self.send_event: list[int] = []
        self.send_link: list[int] = []
        self.detail: dict[int, tuple[Any, ...]] = {}
        self.deliver_event: list[int] = []
        self.deliver_client: list[int] = []
        self.deliver_body: list[int] = []
        self.run_forwards: list[tuple[int, Any, int]] = []
        self._kept: dict[int, int] = {}
        add_event, add_link = self.send_event.append, self.send_link.append

        def forward_event(event: int, link: int) -> None:
            add_event(event)
            add_link(link)

        self.forward_event: Callable[[int, int], None] = forward_event
        self.brokers = {b: protocol(Node(self, b)) for b in np.flatnonzero(env.local).tolist()}
        self._runs = runs and protocol.on_run is not None

    @property
    def timer_min_ns(self) -> int:
        return min((b.timer_min_ns for b in self.brokers.values()), default=self.protocol.timer_min_ns)

    def keep(self, handle: int, by: int) -> None:
        count = self._kept.get(handle, 0) + by
        if count > 0:
            self._kept[handle] = count
        else:
            self._kept.pop(handle, None)

    def held(self) -> list[int]:
        return list(self._kept)

    def stand(self, interests: Interests) -> None:
        rows = interests.rows
        for i, (id_, client) in enumerate(zip(interests.id.tolist(), interests.client.tolist())):
            home = int(self.env.client_broker[client])
            row = rows[i] if rows is not None else interests.objects[i]  # type: ignore[index]
            for broker in self.brokers.values():
                broker.on_standing(id_, client, home, row)

    def first_timers(self) -> list[tuple[int, int, int, int]]:
        return [(b, *timer) for b, broker in self.brokers.items() for timer in broker.first_timers()]

    def entries(self) -> Ints:
        counts = np.zeros(self.env.brokers, np.int64)
        for b, broker in self.brokers.items():
            counts[b] = broker.entries()
        return counts

    def describe(self, broker: int) -> dict[str, Any]:
        return self.brokers[broker].describe()

    def handle(self, batch: Batch, out: Out) -> None:
        self.out = out
        starts = batch.starts.tolist()
        at = batch.broker[batch.starts[:-1]].tolist()
        if not self._runs or batch.size < RUN_FROM * len(at):
            messages = _messages(batch, 0, batch.size)
        else:
            messages = None
        for i, broker in enumerate(at):
            protocol = self.brokers[broker]
            start, stop = starts[i], starts[i + 1]
            if self._runs and stop - start >= RUN_FROM:
                self._handle_runs(batch, protocol, start, stop)
            else:
                on_message = protocol.on_message
                for message in _messages(batch, start, stop) if messages is None else messages[start:stop]:
                    on_message(message)
        self._flush(batch, out)

    def _handle_runs(self, batch: Batch, protocol: BrokerProtocol, start: int, stop: int) -> None:
        code = batch.type[start:stop]
        cuts = [start, *(np.flatnonzero(code[1:] != code[:-1]) + (start + 1)).tolist(), stop]
        for begin, end in pairwise(cuts):
            if end - begin >= RUN_FROM and batch.kind[begin] != TIMER:
                protocol.on_run(Run(self, batch, begin, end, int(batch.type[begin])))
            else:
                for message in _messages(batch, begin, end):
                    protocol.on_message(message)

    def _flush(self, batch: Batch, out: Out) -> None:
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
                columns = [
                    batch.type[event].astype(np.int64),
                    batch.body[event].astype(np.int64),
                    batch.word[event].copy(),
                    np.full(event.size, -1, np.int64),
                    np.full(event.size, SAME, np.int64),
                ]
                at = np.fromiter(self.detail.keys(), np.int64, len(self.detail))
                for i, values in enumerate(zip(*self.detail.values())):
                    columns[i][at] = values
                out.send(event, link, *columns)
                self.detail.clear()
            self.send_event.clear()
            self.send_link.clear()
        if self.deliver_event:
            out.deliver(
                np.array(self.deliver_event, np.int64),
                np.array(self.deliver_client, np.int64),
                np.array(self.deliver_body, np.int64),
            )
            self.deliver_event.clear()
            self.deliver_client.clear()
            self.deliver_body.clear()
