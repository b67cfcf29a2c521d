"""From one broker's view to the shard's: runs `BrokerProtocol` objects behind the face of a `ShardProtocol`.

Short stretches are handed over message by message, long ones as arrays where the protocol has `on_run`:
slicing columns per broker pays only from about sixteen messages up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.columns import BadState, Column, check_columns, taken_over
from brokers.contract import (
    FAULT,
    MESSAGE,
    NEVER,
    Batch,
    BrokerProtocol,
    Interests,
    Ints,
    Message,
    ShardEnv,
    ShardProtocol,
)
from brokers.engine.plainstate import NotPlain, Reader, Writer, acceptable, kept_by
from brokers.errors import ProtocolFault
from brokers.node import Body, Node, Outgoing, Run, messages_of
from brokers.out import Out
from brokers.tables import TableHome

RUN_FROM = 16  # messages in a stretch from which `on_run` is called


class PlainAdaptor(ShardProtocol):
    """A shard of brokers that are objects; with `server_only` the server, which passes over all that is not its own."""

    def __init__(self, env: ShardEnv, protocol: Any, runs: bool = True, server_only: bool = False) -> None:
        super().__init__(env)
        self.kind = protocol.kind  # type: ignore[misc]
        self.protocol = protocol
        self.home = TableHome(env)
        self.shared: dict[str, Any] = {}
        self._outgoing = Outgoing(env)
        local = np.flatnonzero(env.local[: env.overlay.brokers]) if not server_only else np.empty(0, np.int64)
        self.brokers = {b: protocol(self._node(b)) for b in local.tolist()}
        if env.server >= 0 and env.local[env.server]:
            if protocol.server is None:
                raise ProtocolFault(f"{protocol.__name__} names no class for its server; set `server`")
            self.brokers[env.server] = protocol.server(self._node(env.server))
        self._runs = runs and getattr(protocol, "on_run", None) is not None
        self._all = not server_only
        both = (protocol, protocol.server)  # the same in every shard, whichever of the two it has
        self.hears_faults = any(getattr(each, "on_fault", None) is not None for each in both)  # type: ignore[misc]

    def _node(self, broker: int) -> Node:
        return Node(self.env, broker, self.home.table(), self._outgoing, self.shared)

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

    def held(self) -> list[int]:
        return sorted({handle for _, handle in self._outgoing.kept})

    def state(self) -> dict[str, Any]:
        uid = self.env.bodies.uid
        kept = [(b, int(uid[handle]), count) for (b, handle), count in self._outgoing.kept.items()]
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
                    self._outgoing.kept[b, handle_of[uid]] = count
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
        self._outgoing.out = out
        if (self._runs and batch.size >= RUN_FROM) or not self._all:
            self._handle_stretches(batch)
        else:
            brokers, faults = self.brokers, self.hears_faults
            for broker, message in zip(batch.broker.tolist(), messages_of(self.env, batch, 0, batch.size)):
                if faults:
                    _tell(brokers[broker], message)
                else:
                    brokers[broker].on_message(message)
        self._outgoing.hand_on()

    def _handle_stretches(self, batch: Batch) -> None:
        """Brokers one after the other, those with many messages by `on_run`."""
        starts = batch.starts.tolist()
        at = batch.broker[batch.starts[:-1]].tolist()
        at_once = self._all and (not self._runs or batch.size < RUN_FROM * len(at))
        messages = messages_of(self.env, batch, 0, batch.size) if at_once else None
        for broker, (start, stop) in zip(at, pairwise(starts)):
            if not self._all and broker not in self.brokers:
                continue
            protocol = self.brokers[broker]
            if self._runs and stop - start >= RUN_FROM:
                self._handle_runs(batch, protocol, start, stop)
            else:
                self._tell_all(
                    protocol, messages_of(self.env, batch, start, stop) if messages is None else messages[start:stop]
                )

    def _handle_runs(self, batch: Batch, protocol: BrokerProtocol, start: int, stop: int) -> None:
        code = 4 * batch.type[start:stop] + batch.kind[start:stop]
        cuts = [start, *(np.flatnonzero(code[1:] != code[:-1]) + (start + 1)).tolist(), stop]
        for begin, end in pairwise(cuts):
            if end - begin >= RUN_FROM and batch.kind[begin] == MESSAGE:
                protocol.on_run(Run(self._outgoing, batch, begin, end, int(batch.type[begin])))
            else:
                self._tell_all(protocol, messages_of(self.env, batch, begin, end))

    def _tell_all(self, protocol: BrokerProtocol, messages: list[Message]) -> None:
        """Messages of one broker, in order, and faults among them."""
        if not self.hears_faults:
            for message in messages:
                protocol.on_message(message)
        else:
            for message in messages:
                _tell(protocol, message)


def _tell(protocol: BrokerProtocol, message: Message) -> None:
    """One message, timer or fault."""
    if message.kind != FAULT:
        protocol.on_message(message)
    elif protocol.on_fault is not None:
        protocol.on_fault(message)


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
