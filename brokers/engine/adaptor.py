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

from brokers.arising import CLOSE, OPEN, OpeningNode
from brokers.attackers import AttackSpec
from brokers.columns import BadState, Column, check_columns, taken_over
from brokers.contract import (
    FAULT,
    MESSAGE,
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
from brokers.engine.plainstate import NotPlain, Reader, Writer, acceptable, kept_by
from brokers.errors import ProtocolFault
from brokers.faults import KEPT, RESTART, STORED
from brokers.limits import TOLD, of_dropped
from brokers.node import Body, Node, Outgoing, Run, messages_of
from brokers.out import Out
from brokers.store import Store
from brokers.tables import TableHome

RUN_FROM = 16  # messages in a stretch from which `on_run` is called


class PlainAdaptor(ShardProtocol):
    """A shard of brokers that are objects; with `server_only` the server, which passes over all that is not its own."""

    def __init__(
        self,
        env: ShardEnv,
        protocol: Any,
        runs: bool = True,
        server_only: bool = False,
        attackers: Sequence[AttackSpec] = (),
    ) -> None:
        super().__init__(env)
        self._attackers = {broker: each.made() for each in attackers for broker in each.brokers}
        self.kind = protocol.kind  # type: ignore[misc]
        self.protocol = protocol
        self.home = TableHome(env)
        self.shared: dict[str, Any] = {}
        self._outgoing = Outgoing(env)
        local = np.flatnonzero(env.local[: env.overlay.brokers]) if not server_only else np.empty(0, np.int64)
        both = (protocol, protocol.server)  # the same in every shard, whichever of the two it has
        self.opens = any(getattr(each, "opens", False) for each in both)  # type: ignore[misc]
        self._opening = self.opens and env.latent is not None
        self.sees_load = any(_sees_load(each, env.options) for each in both)  # type: ignore[misc]
        self.brokers = {b: self._broker(b) for b in local.tolist()}
        if env.server >= 0 and env.local[env.server]:
            self.brokers[env.server] = self._broker(env.server)
        self._runs = runs and getattr(protocol, "on_run", None) is not None and not self._opening
        self._all = not server_only
        self.hears_faults = any(_hears(each, env.options) for each in both)  # type: ignore[misc]
        self.drops_told_ns = protocol.drops_told_ns  # type: ignore[misc]
        # Whether there are any among events that are neither messages nor timers of a protocol.
        self._others = self.hears_faults or env.forgetful or self._opening or self.drops_told_ns > 0

    def _broker(self, broker: int, stored: Store | None = None) -> Any:
        """A broker that knows nothing but what is stored, or the server."""
        made = self.protocol.server if broker == self.env.server else self._attackers.get(broker, self.protocol)
        if made is None:
            raise ProtocolFault(f"{self.protocol.__name__} names no class for its server; set `server`")
        node = self._node(broker)
        if stored is not None:
            node.store.take_over(stored)
        return made(node)

    def _node(self, broker: int) -> Node:
        parts = (self.env, broker, self.home.table(), self._outgoing, self.shared)
        node = OpeningNode(self.env.latent, self.protocol.watches, *parts) if self._opening else Node(*parts)
        node.sees_load = self.sees_load
        return node

    def timer_min_by_broker(self) -> Ints:
        shortest = np.full(self.env.brokers, NEVER, np.int64)
        for b, broker in self.brokers.items():
            shortest[b] = broker.timer_min_ns
        if self._opening and self.env.latent.told is not None:
            shortest[list(self.brokers)] = np.minimum(shortest[list(self.brokers)], self.env.latent.told.shortest_ns)
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
                if type(each) is not list or len(each) != 5 or type(each[0]) is not int or each[0] in seen:
                    raise BadState("'brokers' are not a broker and what it remembers, knows and stores, one each")
                seen.add(each[0])
                if each[0] in self.brokers:
                    with taken_over(f"broker {each[0]}"):
                        _load(self.brokers[each[0]], each[1], each[2], self.shared, handle_of)
                        self.brokers[each[0]].node.store.load(each[3])
                        _load_opened(self.brokers[each[0]].node, each[4])
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
            brokers, others = self.brokers, self._others
            for broker, message in zip(batch.broker.tolist(), messages_of(self.env, batch, 0, batch.size)):
                if others:
                    self._tell(broker, message)
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
            if self._runs and stop - start >= RUN_FROM:
                self._handle_runs(batch, broker, start, stop)
            else:
                self._tell_all(
                    broker, messages_of(self.env, batch, start, stop) if messages is None else messages[start:stop]
                )

    def _handle_runs(self, batch: Batch, broker: int, start: int, stop: int) -> None:
        code = 4 * batch.type[start:stop] + batch.kind[start:stop]
        cuts = [start, *(np.flatnonzero(code[1:] != code[:-1]) + (start + 1)).tolist(), stop]
        for begin, end in pairwise(cuts):
            if end - begin >= RUN_FROM and batch.kind[begin] == MESSAGE:
                self.brokers[broker].on_run(Run(self._outgoing, batch, begin, end, int(batch.type[begin])))
            else:
                self._tell_all(broker, messages_of(self.env, batch, begin, end))

    def _tell_all(self, broker: int, messages: list[Message]) -> None:
        """Messages of one broker, in order, and what else it is told among them."""
        if not self._others:
            told = self.brokers[broker].on_message
            for message in messages:
                told(message)
        else:
            for message in messages:
                self._tell(broker, message)

    def _tell(self, broker: int, message: Message) -> None:
        """One message, timer or fault, or that a message was dropped."""
        if message.kind == TIMER and message.type == TOLD and self.drops_told_ns:
            link, type_ = of_dropped(message.word)
            if type_ not in (OPEN, CLOSE):  # which adaptors say to each other
                self.brokers[broker].on_drop(message._replace(link=link, type=type_, word=0))
            return
        if self._opening:
            heard = self.brokers[broker].node.heard(message)
            if heard is None:
                return
            message = heard
        if message.kind != FAULT:
            self.brokers[broker].on_message(message)
            return
        if message.type == RESTART and message.word != KEPT:
            self._begin_again(broker, message)
        if self.brokers[broker].on_fault is not None:
            self.brokers[broker].on_fault(message)

    def _begin_again(self, broker: int, restart: Message) -> None:
        """A broker is another object, which knows what the one before has stored, or nothing."""
        before = self.brokers[broker].node
        before.table.clear()
        self._outgoing.forget(broker)
        stored = before.store if restart.word == STORED else None
        self.brokers[broker] = after = self._broker(broker, stored)
        for delay_ns, type_, word in after.first_timers():
            after.node.timer(restart, delay_ns, type_, word)


def _hears(protocol: Any, options: Any) -> bool:
    """Whether a class of brokers wants to be told of faults; one that serves arrays beside a server has no say."""
    asked = getattr(protocol, "wants_faults", None)
    return bool(asked(options)) if asked is not None else getattr(protocol, "on_fault", None) is not None


def _sees_load(protocol: Any, options: Any) -> bool:
    """Whether brokers of a class read their load with these options."""
    asked = getattr(protocol, "wants_load", None)
    return bool(asked(options)) if asked is not None else getattr(protocol, "sees_load", False)


# ---- checkpoints: a broker object as plain data ------------------------------------------------------

_TABLE = {
    "id": Column("i8", ("entries",)),
    "client": Column("i8", ("entries",), low=0, high="clients"),
    "row": Column("f8", ("entries", None)),
}
_KEPT = Column("i8", (None, 3))  # broker, uid, how often


def _dump(protocol: BrokerProtocol, shared: Mapping[str, Any], uid: Ints) -> list[Any]:
    """What a broker remembers: its attributes, the entries of its table, and its store."""
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
    node = protocol.node
    opened = node.opened_state() if isinstance(node, OpeningNode) else []
    return [node.broker, attributes, table, node.store.state(), opened]


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


def _load_opened(node: Node, links: Any) -> None:
    if type(links) is not list or any(type(link) is not int for link in links):
        raise BadState("the links that it opened are no list of numbers")
    if not isinstance(node, OpeningNode):
        if links:
            raise BadState("it has opened links, and there are none to open")
        return
    opened = links[::2]
    if len(links) % 2 or not all(link in node.latent for link in opened) or len(set(opened)) < len(opened):
        raise BadState("it has opened links that are not latent, or one twice")
    node.load_opened(links)


def padded(rows: Sequence[Any]) -> NDArray[np.float64]:
    """Rows of any length as one matrix, with NaN behind the shorter ones."""
    width = max((len(row) for row in rows), default=0)
    matrix = np.full((len(rows), width), np.nan)
    for at, row in enumerate(rows):
        matrix[at, : len(row)] = row
    return matrix
