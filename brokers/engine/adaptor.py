"""From one broker's view to the shard's: runs `BrokerProtocol` objects behind the face of a `ShardProtocol`.

Short stretches are handed over message by message, long ones as arrays where the protocol has `on_run`:
slicing columns per broker pays only from about sixteen messages up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.columns import BadState, Column, check_columns, taken_over
from brokers.contract import (
    NEVER,
    TIMER,
    Batch,
    BrokerProtocol,
    Interests,
    Ints,
    Message,
    ShardEnv,
    ShardProtocol,
)
from brokers.engine.out import SAME, Out
from brokers.engine.plainstate import NotPlain, Reader, Writer, acceptable, kept_by
from brokers.errors import ProtocolFault
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
        about: Body | None = None,
    ) -> None:
        """Send a message of a type, because of `message`. `body` is plain data, or what `keep` returned.

        A body made here stands for the publication that `message` carries, if it carries one, or for the one
        that `about`, a kept body, is or stands for.
        """
        a = self._adaptor
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
        bodies = self.env.bodies
        numbers = np.asarray(row, np.float64)[None, :]
        handle = int(bodies.add_rows(self.env.service, type, numbers, *bodies.stands_for(message[6]))[0])
        self.send(message, link, type, Body(handle), word, cause=cause)

    def deliver(self, message: Message, client: int, body: Body | None = None) -> None:
        """Hand the message's body (or another) to a client, by client number."""
        a = self._adaptor
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
        a = self._adaptor
        handle = -1 if body is None else body.handle
        a.out.timer(message[0], delay_ns, type, word, handle, a.cause_handle(cause))

    def cost(self, message: Message, ns: int) -> None:
        """Charge service time beyond the scenario's cost model."""
        self._adaptor.out.cost(message[0], ns)

    def work(self, message: Message, entries: int = 0, matches: int = 0) -> None:
        """Charge the scenario's cost model for entries looked at and matches found."""
        self._adaptor.out.work(message[0], entries, matches)

    def depends(self, change: int, on: int) -> None:
        """Note that a change is settled only once another one is; both by id, as in `message.cause`."""
        self._adaptor.out.depends(change, on)

    def leans(self, interest: int, on: int) -> None:
        """Note that an interest is in force only while another one is; both by id."""
        self._adaptor.out.leans(interest, on)

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
        self._adaptor.keep(self.broker, message[6], 1)
        return Body(message[6])

    def record(self, message: Message, table: str, **columns: Any) -> None:
        """Write a row of one of the kind's own trace tables, or as many as the columns are arrays of.

        Service, broker and time are filled in.
        """
        rows = max((len(column) for column in columns.values() if isinstance(column, np.ndarray)), default=1)
        self._adaptor.out.record(table, message[0] if rows == 1 else np.full(rows, message[0]), **columns)

    def drop(self, body: Body) -> None:
        self._adaptor.keep(self.broker, body.handle, -1)


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
        if self._adaptor.send_event:
            self._adaptor.flush_sends(self._batch)
        self._adaptor.run_forwards.append((self.start, rows, link))

    def deliver(self, rows: Ints, clients: Ints) -> None:
        """Hand the body of message rows[i] to client clients[i]."""
        self._adaptor.out.deliver(np.asarray(rows, np.int64) + self.start, clients)

    def send(self, rows: Any, link: Any, type: Any, body: Any = -1, word: Any = 0, size: Any = -1) -> None:
        """Send a message for each row; `body` is plain data for all of them, or a handle or handles.

        Plain data becomes a body per row, each standing for its row's publication, as `node.send` makes them.
        """
        if not isinstance(body, int | np.integer | np.ndarray):
            events = (np.atleast_1d(np.asarray(rows, np.int64)) + self.start).tolist()
            body = np.array([self._adaptor.out.body(body, int(type), event) for event in events], np.int64)
        if self._adaptor.run_forwards or self._adaptor.send_event:
            self._adaptor.flush_sends(self._batch)
        self._adaptor.out.send(np.asarray(rows, np.int64) + self.start, link, type, body, word, size)

    def cost(self, rows: Any, ns: Any) -> None:
        self._adaptor.out.cost(np.asarray(rows, np.int64) + self.start, ns)

    def work(self, rows: Any, entries: Any = 0, matches: Any = 0) -> None:
        self._adaptor.out.work(np.asarray(rows, np.int64) + self.start, entries, matches)

    def messages(self) -> list[Message]:
        """The rows as messages, for what is easier said one by one."""
        return self._adaptor.messages(self._batch, self.start, self._stop)


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
        self._kept: dict[tuple[int, int], int] = {}  # (broker, body) -> times held
        add_event, add_link = self.send_event.append, self.send_link.append

        def forward_event(event: int, link: int) -> None:
            add_event(event)
            add_link(link)

        self.forward_event: Callable[[int, int], None] = forward_event
        local = np.flatnonzero(env.local[: env.overlay.brokers])
        self.brokers = {b: protocol(Node(self, b)) for b in local.tolist()}
        if env.server >= 0 and env.local[env.server]:
            if protocol.server is None:
                raise ProtocolFault(f"{protocol.__name__} names no class for its server; set `server`")
            self.brokers[env.server] = protocol.server(Node(self, env.server))
        self._runs = runs and protocol.on_run is not None

    def timer_min_by_broker(self) -> Ints:
        shortest = np.full(self.env.brokers, NEVER, np.int64)
        for b, broker in self.brokers.items():
            shortest[b] = broker.timer_min_ns
        declared = {broker.timer_min_ns for b, broker in self.brokers.items() if b != self.env.server}
        if len(declared) > 1:
            # Else whether a timer is too short would depend on which brokers share a shard.
            raise ProtocolFault(
                f"{self.protocol.__name__}: brokers declare different timer_min_ns ({sorted(declared)}); "
                "declare the shortest for all"
            )
        return shortest

    def messages(self, batch: Batch, start: int, stop: int) -> list[Message]:
        """Rows of a batch as messages. A cause becomes the id of the change, which outlives the shard."""
        part = slice(start, stop)
        cause = batch.cause[part]
        changes = cause if (cause < 0).all() else self.env.causes.keys(cause.astype(np.int64))
        columns = (batch.time, batch.kind, batch.source, batch.link, batch.type, batch.body, batch.word)
        return list(
            map(
                Message._make, zip(range(start, stop), *(c[part].tolist() for c in columns), changes.tolist())
            )
        )

    def cause_handle(self, change: int) -> int:
        """The handle behind a change id that a protocol names as a cause."""
        return change if change < 0 else int(self.env.causes.handles(np.array([change]))[0])

    def keep(self, broker: int, handle: int, by: int) -> None:
        """Count how often a broker holds a body."""
        count = self._kept.get((broker, handle), 0) + by
        if count > 0:
            self._kept[broker, handle] = count
        else:
            self._kept.pop((broker, handle), None)

    def held(self) -> list[int]:
        return sorted({handle for _, handle in self._kept})

    def state(self) -> dict[str, Any]:
        uid = self.env.bodies.uid
        kept = [(b, int(uid[handle]), count) for (b, handle), count in self._kept.items()]
        return {
            "brokers": [_dump(broker, self.shared, uid) for broker in self.brokers.values()],
            "kept": np.array(kept, np.int64).reshape(-1, 3),
        }

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        seen: set[int] = set()
        for state in states:
            check_columns(state, {"kept": _KEPT}, others=frozenset({"brokers"}))
            for b, uid, count in state["kept"].tolist():
                if uid not in handle_of or count < 1:
                    raise BadState(f"broker {b} holds body {uid} {count} times, and there is none")
                if b in self.brokers:
                    self._kept[b, handle_of[uid]] = count
            if type(state["brokers"]) is not list:
                raise BadState("'brokers' is no list")
            for each in state["brokers"]:
                if type(each) is not list or len(each) != 3 or type(each[0]) is not int or each[0] in seen:
                    raise BadState("'brokers' are not pairs of a broker and what it remembers, one each")
                seen.add(each[0])
                if each[0] in self.brokers:
                    with taken_over(f"broker {each[0]}"):
                        _load(self.brokers[each[0]], each[1], each[2], self.shared, handle_of)
        if lacking := sorted(self.brokers.keys() - seen):
            raise BadState(f"broker {lacking[0]} is missing")

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
        known = self.brokers.get(broker)
        return known.describe() if known is not None else {"entries": 0}  # another service's server

    def handle(self, batch: Batch, out: Out) -> None:
        self.out = out
        starts = batch.starts.tolist()
        at = batch.broker[batch.starts[:-1]].tolist()
        if not self._runs or batch.size < RUN_FROM * len(at):
            messages = self.messages(batch, 0, batch.size)
        else:
            messages = None
        for i, broker in enumerate(at):
            protocol = self.brokers[broker]
            start, stop = starts[i], starts[i + 1]
            if self._runs and stop - start >= RUN_FROM:
                self._handle_runs(batch, protocol, start, stop)
            else:
                on_message = protocol.on_message
                for message in (
                    self.messages(batch, start, stop) if messages is None else messages[start:stop]
                ):
                    on_message(message)
        self._flush(batch)

    def _handle_runs(self, batch: Batch, protocol: BrokerProtocol, start: int, stop: int) -> None:
        code = 4 * batch.type[start:stop] + batch.kind[start:stop]
        cuts = [start, *(np.flatnonzero(code[1:] != code[:-1]) + (start + 1)).tolist(), stop]
        for begin, end in pairwise(cuts):
            if end - begin >= RUN_FROM and batch.kind[begin] != TIMER:
                protocol.on_run(Run(self, batch, begin, end, int(batch.type[begin])))
            else:
                for message in self.messages(batch, begin, end):
                    protocol.on_message(message)

    def flush_sends(self, batch: Batch) -> None:
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

    def _flush(self, batch: Batch) -> None:
        self.flush_sends(batch)
        if self.deliver_event:
            self.out.deliver(
                np.array(self.deliver_event, np.int64),
                np.array(self.deliver_client, np.int64),
                np.array(self.deliver_body, np.int64),
            )
            self.deliver_event.clear()
            self.deliver_client.clear()
            self.deliver_body.clear()


# ---- checkpoints: a broker object as plain data ------------------------------------------------------

_TABLE = {
    "id": Column("i8", ("entries",)),
    "client": Column("i8", ("entries",), low=0, high="clients"),
    "row": Column("f8", ("entries", None)),
}
_KEPT = Column("i8", (None, 3))  # broker, uid, how often


def _dump(protocol: BrokerProtocol, shared: Mapping[str, Any], uid: Ints) -> list[Any]:
    """What a broker remembers: its attributes, and the entries of its table."""
    kind = type(protocol)
    names = {id(protocol.node): "node", **{id(value): f"shared/{name}" for name, value in shared.items()}}
    writer = Writer(kept_by(kind), names, lambda thing: int(uid[thing.handle]) if type(thing) is Body else None)
    attributes = {}
    for name, value in kind.state(protocol).items():
        try:
            attributes[name] = writer.plain(value)
        except NotPlain as why:
            raise ProtocolFault(
                f"{kind.__name__}.{name} {why}, so that no checkpoint can be taken. Name the classes of its records "
                "in `keeps`; or name the attribute in `remade`, if `__init__` or `load` makes it anew; or override "
                "state() and load()"
            ) from None
    entries = protocol.node.table.dump()
    table = {
        "id": np.array([id_ for id_, _, _, _ in entries], np.int64),
        "client": np.array([client for _, client, _, _ in entries], np.int64),
        "row": padded([row for _, _, row, _ in entries]),
        "tag": writer.plain([tag for _, _, _, tag in entries]),
    }
    return [protocol.node.broker, attributes, table]


def _load(
    protocol: BrokerProtocol,
    attributes: Any,
    table: Any,
    shared: Mapping[str, Any],
    handle_of: Mapping[int, int],
) -> None:
    """Have a broker take over what another like it remembered."""
    kind, node = type(protocol), protocol.node

    def body_of(uid: int) -> Body:
        if uid not in handle_of:
            raise BadState(f"it holds body {uid}, which the checkpoint does not have; was it kept?")
        return Body(handle_of[uid])

    names = {"node": node, **{f"shared/{name}": value for name, value in shared.items()}}
    reader = Reader(kept_by(kind), names, body_of)
    if type(attributes) is not dict:
        raise BadState("its attributes are none")
    had = kind.state(protocol).keys()
    state = {}
    for name, value in attributes.items():
        if name not in had and not acceptable(kind, name):
            raise BadState(f"{kind.__name__} has no attribute {name!r:.60}")
        state[name] = reader.value(value)
    if lacking := sorted(had - state.keys()):
        raise BadState(f"it lacks the attribute {lacking[0]!r} of {kind.__name__}")
    check_columns(table, _TABLE, {"clients": node.env.client_broker.size}, frozenset({"tag"}))
    tags = reader.value(table["tag"])
    if type(tags) is not list or len(tags) != len(table["id"]):
        raise BadState("its table has not one tag for each entry")
    for id_, client, row, tag in zip(table["id"].tolist(), table["client"].tolist(), table["row"], tags):
        node.table.add(id_, client, row, tag)
    kind.load(protocol, state)


def padded(rows: Sequence[Any]) -> NDArray[np.float64]:
    """Rows of any length as one matrix, with NaN behind the shorter ones."""
    width = max((len(row) for row in rows), default=0)
    matrix = np.full((len(rows), width), np.nan)
    for at, row in enumerate(rows):
        matrix[at, : len(row)] = row
    return matrix
