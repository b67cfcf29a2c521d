"""channels over the arrays of a shard: decides as `plain` does, broker by broker, which says the rules.

- Changes of queries climb: all of a batch in one call.
- What a broker hears of who listens stays in bytes: those of the rows below each of its links are its part.
- An answer is read and sifted once for the shard, for all clients in its header; a broker looks up who of its own
  listens. Only answers in several parts wait at brokers until all are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import BaseModel

from brokers.columns import BadState, check_columns
from brokers.contract import (
    Batch,
    BrokerProtocol,
    Demand,
    Guarantees,
    Interests,
    Ints,
    ShardEnv,
    ShardProtocol,
)
from brokers.out import Out
from brokers.wire import decode_body
from protocols.channels.database import marks
from protocols.channels.listening import NOBODY, Listening, heard
from protocols.channels.plain import PlainChannels
from protocols.channels.plans import Options
from protocols.channels.server import ANSWER, LISTEN, Server
from protocols.channels.sifting import Came, Line, came
from protocols.routes import Routes

_PARTS = frozenset({"said", "waiting"})


class _Place(NamedTuple):
    """A broker in the tree."""

    enter: int
    below: Ints  # where the brokers below come in the numbering of the tree
    links: Ints  # to them
    down: list[int]  # the same


class _Answers:
    """What the brokers of a batch answer, as columns."""

    def __init__(self) -> None:
        self.sends: list[tuple[int, int, int, int, int, int]] = []  # event, link, type, body, word, size
        self.parts: list[tuple[bytes, int]] = []  # bodies to be made, and the bodies they stand for
        self.deliveries: list[tuple[int, int]] = []  # event, client
        self.work: list[tuple[int, int, int]] = []  # event, entries, matches
        self.heard: list[tuple[int, int, int, int, int]] = []  # event, publication, client, objects, irrelevant
        # event, client, query, period, round, objects, marks, irrelevant
        self.received: list[tuple[int, int, int, int, int, int, int, int]] = []


class Channels(ShardProtocol):
    """See the module."""

    kind: ClassVar[str] = "channels"
    guarantees: Guarantees = PlainChannels.guarantees
    Options: ClassVar[type[BaseModel] | None] = Options
    plain: ClassVar[type[BrokerProtocol] | None] = PlainChannels
    server: ClassVar[type[BrokerProtocol] | None] = Server
    state_version: ClassVar[int] = 2

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        return PlainChannels.expected_events(demand)

    def __init__(self, env: ShardEnv) -> None:
        super().__init__(env)
        self.routes = Routes(env.links, env.overlay.is_tree, np.array([env.server], np.int32), True)
        self._up = self.routes.up[0].astype(np.int64)
        self._enter = self.routes.enter[0][env.client_broker]  # by client
        self._places: dict[int, _Place] = {}
        self.said: dict[int, bytes] = {}  # what each broker heard last
        self.listening: dict[int, Listening] = {}
        self.told: dict[int, bytes] = {}  # by link
        self.waiting: dict[tuple[int, int], list[Came]] = {}  # (broker, query) -> its answers of the round at hand
        self._entries = np.zeros(env.brokers, np.int64)
        self._object_bytes = int(env.kind.params["object_bytes"])

    def stand(self, interests: Interests) -> None:
        """Nothing: only the server has to know."""

    def handle(self, batch: Batch, out: Out) -> None:
        server = self.env.server
        brokers, types = batch.broker.tolist(), batch.type.tolist()
        climbing: list[int] = []
        own: list[int] = []
        for row, (broker, type_) in enumerate(zip(brokers, types)):
            if broker != server:
                (climbing if type_ < LISTEN else own).append(row)
        if climbing:
            out.forward(np.array(climbing), self._up[[brokers[row] for row in climbing]])
        if not own:
            return
        answers = _Answers()
        bodies, words = batch.body.tolist(), batch.word.tolist()
        for row in own:
            if types[row] == ANSWER:
                self._hand_on(answers, row, brokers[row], bodies[row], words[row])
            else:
                self._listen(answers, row, brokers[row], bodies[row])
        self._tell(answers, out)

    # ---- channels --------------------------------------------------------------------------------------

    def _listen(self, answers: _Answers, event: int, broker: int, body: int) -> None:
        """Learn who of the clients below listens to what, and tell the brokers below their part of it."""
        links, parts = self._learn(broker, self.env.bodies.encoded(body))
        for link, part in zip(links, parts):
            if part != self.told.get(link, NOBODY):
                answers.sends.append((event, link, LISTEN, -1 - len(answers.parts), 0, -1))
                answers.parts.append((part, body))
                self.told[link] = part

    def _learn(self, broker: int, data: bytes) -> tuple[list[int], list[bytes]]:
        """(Links down, what the brokers below each are to know)."""
        place = self._places.get(broker)
        if place is None:
            children = self.routes.children(0, broker)
            enter, links = self.routes.enter[0], self._up[children] ^ 1
            place = self._places[broker] = _Place(
                int(enter[broker]), enter[children].astype(np.int64), links, links.tolist()
            )
        self.listening[broker], parts = heard(data, self._enter, place.enter, place.below, place.links)
        self.said[broker] = data
        self._entries[broker] = self.listening[broker].channels.size
        return place.down, parts

    # ---- answers ---------------------------------------------------------------------------------------

    def _hand_on(self, answers: _Answers, event: int, broker: int, body: int, channel: int) -> None:
        """Pass an answer on along its channel, and hand it to the clients here that listen."""
        known = self.listening.get(broker)
        if known is None:
            return
        clients, links = known.of(channel)
        if not clients and not links:
            return
        message: Came = self.env.bodies.read(body, came)
        sifted = message.sifted
        if links:
            size = sifted.size_bytes(self._object_bytes)
            answers.sends += [(event, link, ANSWER, body, channel, size) for link in links]
        answers.work.append((event, len(clients), len(links)))
        if not clients:
            return
        publication, objects, base = int(self.env.bodies.key[body]), len(sifted.ids), self.env.entity_base
        for client in clients:
            irrelevant, lines = sifted.clients.get(client, (objects, ()))
            answers.deliveries.append((event, client))
            answers.heard.append((event, publication, client + base, objects, irrelevant))
            for line in lines:
                if line.parts == 1 and (broker, line.query) not in self.waiting:
                    answers.received.append(
                        (event, client + base, line.query, message.period_ns, message.round, line.objects, line.marks,
                         objects - line.objects)
                    )  # fmt: skip
                else:
                    self._unite(answers, event, broker, client + base, line, message)

    def _unite(
        self, answers: _Answers, event: int, broker: int, client: int, line: Line, message: Came
    ) -> None:
        """Take what answers a query out of an answer; note it once all parts of the round are there."""
        key = broker, line.query
        parts = self.waiting.pop(key, [])
        if parts and (parts[0].period_ns, parts[0].round) != (message.period_ns, message.round):
            parts = []  # a link lost the others
        parts = [*parts, message]
        if len(parts) < line.parts:
            self.waiting[key] = parts
            return
        found, irrelevant = {}, 0
        for part in parts:
            mine = next(each for _, lines in part.sifted.clients.values() for each in lines if each.query == line.query)
            found.update(dict.fromkeys(part.sifted.ids[part.sifted.wanted[mine.row]].tolist()))
            irrelevant += len(part.sifted.ids) - mine.objects
        total = int(marks(np.array([*found], np.int64)).sum())
        answers.received.append(
            (event, client, line.query, message.period_ns, message.round, len(found), total, irrelevant)
        )

    # ---- what is said ----------------------------------------------------------------------------------

    def _tell(self, answers: _Answers, out: Out) -> None:
        """Hand everything on, in a few calls."""
        env = self.env
        if answers.sends:
            event, link, type_, body, word, size = np.array(answers.sends, np.int64).T.copy()
            if answers.parts:
                bodies = env.bodies
                about = np.array([source for _, source in answers.parts], np.int64)
                stands_for = bodies.time[about], bodies.key[about], bodies.broker[about]
                made = bodies.add_encoded(env.service, LISTEN, [data for data, _ in answers.parts], *stands_for)
                fresh = body < 0
                body[fresh] = made[-1 - body[fresh]]
            out.send(event, link, type_, body, word, size)
        if answers.work:
            out.work(*np.array(answers.work, np.int64).T)
        if answers.deliveries:
            event, client = np.array(answers.deliveries, np.int64).T.copy()
            out.deliver(event, client)
            _record(out, "heard", answers.heard, ("publication", "client", "objects", "irrelevant"))
        if answers.received:
            names = ("client", "query", "period_ns", "round", "objects", "marks", "irrelevant")
            _record(out, "received", answers.received, names)

    def entries(self) -> Ints:
        """Channels that lead to a broker, or through it."""
        return self._entries.copy()

    def describe(self, broker: int) -> dict[str, Any]:
        known = self.listening.get(broker)
        return {"entries": int(self._entries[broker]), "listening": {} if known is None else known.by_client()}

    # ---- checkpoints -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        waiting = [[broker, query, [part.data for part in parts]] for (broker, query), parts in self.waiting.items()]
        return {"said": [[broker, data] for broker, data in self.said.items()], "waiting": waiting}

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        """What was told follows from what was heard."""
        for state in states:
            check_columns(state, {}, others=_PARTS)
            if any(type(each) is not list for each in state.values()):
                raise BadState("what brokers heard, and the answers that wait for others, are no lists")
            for broker, data in state["said"]:
                decode_body(data)
                if self._mine(broker):
                    self.told.update(zip(*self._learn(broker, data)))
            for broker, query, parts in state["waiting"]:
                if self._mine(broker):
                    self.waiting[broker, int(query)] = [_read_again(data, int(query)) for data in parts]

    def _mine(self, broker: Any) -> bool:
        if type(broker) is not int or not 0 <= broker < self.env.overlay.brokers:
            raise BadState(f"there is no broker {broker!r:.20}")
        return bool(self.env.local[broker])


def _record(out: Out, table: str, rows: list[Any], names: tuple[str, ...]) -> None:
    event, *columns = np.array(rows, np.int64).T
    out.record(table, event, **dict(zip(names, columns)))


def _read_again(data: Any, query: int) -> Came:
    """An answer that waits, out of a file."""
    decode_body(data)
    message = came(data)
    if not any(line.query == query for _, lines in message.sifted.clients.values() for line in lines):
        raise BadState(f"an answer that waits for others has nothing for query {query}")
    return message
