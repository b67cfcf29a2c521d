"""channels over the arrays of a shard: decides as `plain` does, broker by broker, which says the rules.

- Changes of queries climb: all of a batch in one call.
- What a broker hears of who listens stays in bytes: those of the rows below each of its links are its part.
- An answer is read and sifted once for the shard, for all clients in its header; a broker looks up who of its own
  listens, and remembers what came of it as long as neither changes. Only answers in several parts wait at brokers
  until all are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
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
from protocols.channels.sifting import Came, Sifted, came
from protocols.routes import Routes

_PARTS = frozenset({"said", "waiting"})


class _Place(NamedTuple):
    """A broker in the tree."""

    enter: int
    below: Ints  # where the brokers below come in the numbering of the tree
    links: Ints  # to them
    down: list[int]  # the same


class _Handed(NamedTuple):
    """What a broker makes of an answer on a channel, for as long as both stay the same."""

    sifted: Sifted
    links: list[int]
    clients: list[int]
    size: int  # on a link
    irrelevant: list[int]  # to each client
    lines: Ints  # rows of client, query, objects, marks and irrelevant objects: what its clients take
    whole: bool  # nothing has to wait for other parts


class _Answers:
    """What the brokers of a batch answer."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int, bytes, int]] = []  # event, link, bytes of a body, and the body it stands for
        self.handed: list[tuple[int, int, int, Came, _Handed, Ints]] = []  # event, body, channel, and lines to be noted


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
                answers.told.append((event, link, part, body))
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
        message: Came = self.env.bodies.read(body, came)
        handed: _Handed | None = known.handed.get(channel)
        if handed is None or handed.sifted is not message.sifted:
            handed = known.handed[channel] = self._prepared(known, channel, message.sifted)
        if handed.whole and not self.waiting:
            lines = handed.lines
        else:
            lines = self._united(broker, handed.clients, message)
        if handed.links or handed.clients:
            answers.handed.append((event, body, channel, message, handed, lines))

    def _prepared(self, known: Listening, channel: int, sifted: Sifted) -> _Handed:
        (clients, links), objects = known.of(channel), len(sifted.ids)
        mine = [sifted.clients.get(client, (objects, ())) for client in clients]
        lines = [
            (client + self.env.entity_base, line.query, line.objects, line.marks, objects - line.objects)
            for client, (_, of_client) in zip(clients, mine) for line in of_client
        ]  # fmt: skip
        whole = all(line.parts == 1 for _, of_client in mine for line in of_client)
        size = sifted.size_bytes(self._object_bytes)
        irrelevant = [each for each, _ in mine]
        return _Handed(sifted, links, clients, size, irrelevant, np.array(lines, np.int64).reshape(-1, 5), whole)

    def _united(self, broker: int, clients: list[int], message: Came) -> Ints:
        """The lines to be noted where queries may wait for parts: those of which all parts of the round are there."""
        found = []
        for client in clients:
            for line in message.sifted.clients.get(client, (0, ()))[1]:
                key = broker, line.query
                parts = self.waiting.pop(key, [])
                if parts and (parts[0].period_ns, parts[0].round) != (message.period_ns, message.round):
                    parts = []  # a link lost the others
                parts = [*parts, message]
                if len(parts) < line.parts:
                    self.waiting[key] = parts
                else:
                    found.append((client + self.env.entity_base, line.query, *_union(parts, line.query)))
        return np.array(found, np.int64).reshape(-1, 5)

    # ---- what is said ----------------------------------------------------------------------------------

    def _tell(self, answers: _Answers, out: Out) -> None:
        """Hand everything on, in a few calls."""
        if answers.told:
            event, link, parts, source = zip(*answers.told)
            bodies = self.env.bodies
            made = bodies.add_encoded(self.env.service, LISTEN, parts, *bodies.all_stand_for(np.array(source)))
            out.send(np.array(event), np.array(link), LISTEN, made)
        if answers.handed:
            self._tell_handed(answers, out)

    def _tell_handed(self, answers: _Answers, out: Out) -> None:
        event, body, channel, message, handed, lines = zip(*answers.handed)
        facts = np.array([event, body, channel, [each.size for each in handed]])
        links = np.array([len(each.links) for each in handed])
        clients = np.array([len(each.clients) for each in handed])
        out.work(facts[0], clients, links)
        if links.any():
            at, carried, word, size = np.repeat(facts, links, axis=1)
            out.send(at, np.array(_flat(each.links for each in handed)), ANSWER, carried, word, size)
        if clients.any():
            at, carried = np.repeat(facts[:2], clients, axis=1)
            client = np.array(_flat(each.clients for each in handed))
            out.deliver(at, client)
            out.record(
                "heard", at, publication=self.env.bodies.key[carried], client=client + self.env.entity_base,
                objects=np.repeat([len(each.sifted.ids) for each in handed], clients),
                irrelevant=np.array(_flat(each.irrelevant for each in handed)),
            )  # fmt: skip
        if any(map(len, lines)):
            when = np.array([facts[0], [each.period_ns for each in message], [each.round for each in message]])
            at, period_ns, number = np.repeat(when, [len(each) for each in lines], axis=1)
            columns = np.concatenate(lines).T
            names = ("client", "query", "objects", "marks", "irrelevant")
            out.record("received", at, period_ns=period_ns, round=number, **dict(zip(names, columns)))

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


def _flat(lists: Iterable[list[int]]) -> list[int]:
    return list(chain.from_iterable(lists))


def _union(parts: list[Came], query: int) -> tuple[int, int, int]:
    """What all parts together have for a query: objects, their marks, and objects in vain."""
    found: list[Ints] = []
    for part in parts:
        row = next(line.row for _, lines in part.sifted.clients.values() for line in lines if line.query == query)
        found.append(part.sifted.ids[part.sifted.wanted[row]])
    objects = np.unique(np.concatenate(found))
    irrelevant = sum(len(part.sifted.ids) - len(mine) for part, mine in zip(parts, found))
    return len(objects), int(marks(objects).sum()), irrelevant


def _read_again(data: Any, query: int) -> Came:
    """An answer that waits, out of a file."""
    decode_body(data)
    message = came(data)
    if not any(line.query == query for _, lines in message.sifted.clients.values() for line in lines):
        raise BadState(f"an answer that waits for others has nothing for query {query}")
    return message
