"""The spatial protocols in the shard's view: what all brokers of a shard know, in one place.

Objects and their ends pass through a compiled handler (`kernels.spread`). What a message leaves to Python is done here
one by one: subscriptions, what leaves a window, and what a client should not have sent. `Ranking` is the specification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from brokers.columns import BadState, Column, check_columns
from brokers.compiled import Desk, Handler
from brokers.contract import Batch, BrokerProtocol, Demand, Interests, Ints, Ints32, ShardEnv, ShardProtocol
from brokers.errors import InvalidInput
from brokers.indexes.contract import DuplicateId, UnknownId
from brokers.indexes.spatial.window import LastObjects, LastTime, Window
from brokers.naming import message_name
from brokers.out import Out
from brokers.records import Record
from protocols.routes import Routes
from protocols.spatial import asking
from protocols.spatial.flooding import Flooding
from protocols.spatial.kernels import RECORD, WINDOWED, spread
from protocols.spatial.kind import (
    EXPIRE,
    OBJECT_KEYWORDS,
    PUBLISH,
    SUBSCRIBE,
    SUBSCRIPTION_KEYWORDS,
    UNSUBSCRIBE,
    Spatial,
    keywords_of,
)
from protocols.spatial.known import REFUSED, Known, Object

_PLACES = 2  # numbers of a place

_STATE = {
    "head_broker": Column("i8", ("heads",), 0, "brokers"),
    "head_link": Column("i8", ("heads",), -1, "links"),
    "head_id": Column("i8", ("heads",), 0),
    "head_bytes": Column("i8", ("heads",), 0),
    "head_place": Column("f8", ("heads", _PLACES)),
    "head_words": Column("i8", ("heads", None), -1, "keywords"),
    "id": Column("i8", ("subscriptions",), 0),
    "broker": Column("i8", ("subscriptions",), 0, "brokers"),
    "place": Column("f8", ("subscriptions", _PLACES)),
    "words": Column("i8", ("subscriptions", None), -1, "keywords"),
    "window": Column("i8", (None, 4), 0),  # broker, which window, time, id
}


class Told(NamedTuple):
    """A message that is handled in Python."""

    row: int
    time: int
    broker: int
    link: int
    type: int
    body: int
    word: int
    cause: int  # the id of the change


class RankingShard(ShardProtocol):
    """What the protocols share; a subclass says who wants what."""

    kind: ClassVar[str] = "spatial"
    compiled: ClassVar[Handler | None] = spread
    record: ClassVar[Record] = RECORD
    swift: ClassVar[tuple[int, ...]] = (PUBLISH, EXPIRE)  # types that the handler decides on
    carriers: ClassVar[tuple[int, ...]] = (PUBLISH,)  # types whose bodies are objects
    flood: ClassVar[bool]
    others: ClassVar[frozenset[str]] = frozenset()  # in `state`, beside columns

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        assert cls.plain is not None
        return cls.plain.expected_events(demand)

    def __init__(self, env: ShardEnv) -> None:
        super().__init__(env)
        self.service = cast(Spatial, env.kind)
        self.routes = Routes(env.links, env.overlay.is_tree, np.zeros(1, np.int32), False)
        self.windowed = self.service.last is not None or self.service.lifetime_ns is not None
        self.known = Known(
            env, self.service, self.routes.in_tree, self.flood, self.windowed, self.record, self.extra()
        )
        self.windows: dict[int, list[Window]] = {}  # by broker, over the objects published there
        self._links: dict[int, list[int]] = {}
        self._desk = self.new_desk()
        self.out: Out
        self.batch: Batch

    # ---- what a subclass decides -----------------------------------------------------------------------

    def extra(self) -> dict[str, NDArray[Any]]:
        """What its record has beside what all have."""
        return {}

    def new_desk(self) -> Desk:
        """The desk of the handler."""
        return Desk(self.env, self)

    def hear(self, told: Told) -> None:
        """A message of the protocol's own."""

    def came(self, told: Told, slot: int) -> None:
        """A subscription was added."""

    def left(self, told: Told, slot: int, words: tuple[int, ...]) -> None:
        """A subscription with these keywords is gone; its slot may become another's."""

    # ---- messages --------------------------------------------------------------------------------------

    def handle(self, batch: Batch, out: Out) -> None:
        self.batch, self.out = batch, out
        self._make_ready(batch.type, batch.body)
        self.known.make_room(batch.size)
        at, stop, types = 0, batch.size, batch.type.tolist()
        while at < stop:
            if types[at] in self.swift:
                at, left = self.reached(self._desk.reach(batch, out, at, stop), stop)
                if not left:
                    continue
            self._one(at)
            self.known.make_room(stop - at)
            at += 1

    def reached(self, row: int, stop: int) -> tuple[int, bool]:
        """The handler has come to this row: the one to go on with, and whether the handler leaves it to Python."""
        return row, row < stop

    def prepare(self, type: Ints32, word: Ints, body: Ints32, now: int) -> None:
        self._make_ready(type, body)

    def _make_ready(self, type: Ints32, body: Ints32) -> None:
        """Know the objects that are published."""
        carried = type == self.carriers[0]
        for other in self.carriers[1:]:
            carried |= type == other
        published = body[carried]
        if published.size:
            self.known.note(published)

    def columns(self) -> Mapping[str, NDArray[Any]]:
        return self.known.columns()

    def links(self, broker: int) -> list[int]:
        """The links of the tree that leave a broker."""
        found = self._links.get(broker)
        if found is None:
            links = self.env.links
            mine = links.out_link[links.out_start[broker] : links.out_start[broker + 1]]
            found = self._links[broker] = mine[self.routes.in_tree[mine]].tolist()
        return found

    def told(self, row: int) -> Told:
        """A row of the batch."""
        batch = self.batch
        cause = int(batch.cause[row])
        return Told(
            row, int(batch.time[row]), int(batch.broker[row]), int(batch.link[row]), int(batch.type[row]),
            int(batch.body[row]), int(batch.word[row]),
            -1 if cause < 0 else int(self.env.causes.keys(np.array([cause]))[0]),
        )  # fmt: skip

    def _one(self, row: int) -> None:
        """A message that the handler leaves to Python."""
        told = self.told(row)
        if told.type == PUBLISH:
            self._publish(told)
        elif told.type == EXPIRE:
            self.expire(told, told.word)
        elif told.type == SUBSCRIBE:
            self._subscribe(told)
        elif told.type == UNSUBSCRIBE:
            self._unsubscribe(told)
        else:
            self.hear(told)

    # ---- objects ---------------------------------------------------------------------------------------

    def _publish(self, told: Told) -> None:
        """An object that is none, or is there already, or that a window is over."""
        if self.known.arrays["body_object"][told.body] == REFUSED:
            self.check(told, OBJECT_KEYWORDS)
        self._close(told, [])
        if self.known.head(told.broker, told.word) >= 0:
            raise DuplicateId(
                f"object {self.named(told.word)} is published while it is there; let it expire first"
            )
        facts = self.known.facts
        facts[WINDOWED] = 0
        self.known.make_room(1)
        self._desk.decide(self.batch, self.out, told.row, told.row + 1)
        self.reached(told.row + 1, told.row + 1)
        facts[WINDOWED] = self.windowed
        self._close(told, [told.word])

    def _windows(self, broker: int) -> list[Window]:
        """Those of a broker."""
        if broker not in self.windows:
            service = self.service
            self.windows[broker] = [
                *([] if service.last is None else [LastObjects(service.last)]),
                *([] if service.lifetime_ns is None else [LastTime(service.lifetime_ns)]),
            ]
        return self.windows[broker]

    def _close(self, told: Told, fresh: list[int]) -> None:
        """Let those objects go that a window leaves out, now or because of fresh ones."""
        for window in self._windows(told.broker) if self.windowed else ():
            for id_ in window.add(fresh, told.time).tolist():
                self.expire(told, id_)

    def expire(self, told: Told, id: int) -> None:
        """An object is no more."""
        known = self.known
        head = known.head(told.broker, id)
        if head < 0 or known.arrays["head_link"][head] != told.link:
            sure = not (self.windowed or self.env.unsure)  # no window has let it go, and it came
            if told.type == EXPIRE and told.link < 0 and sure:
                raise UnknownId(f"object {self.named(id)} is withdrawn, and was not published at this broker")
            return
        object_ = known.head_object(head)
        self.forget(told, head)
        for link in self.ways(told.broker, told.link, object_):
            self.out.send(told.row, link, EXPIRE, word=id)

    def ways(self, broker: int, came_by: int, object_: int) -> list[int]:
        """The links over which an object goes on."""
        links = np.array(self.links(broker), np.int64)
        return cast(list[int], asking.ways(self.known.record, links, came_by, object_).tolist())

    def forget(self, told: Told, head: int) -> None:
        asking.drop(self.known.record, head)

    # ---- subscriptions -----------------------------------------------------------------------------------

    def _subscribe(self, told: Told) -> None:
        row = self.check(told, SUBSCRIPTION_KEYWORDS)
        if told.word in self.known.slot_of:
            raise DuplicateId(f"id {told.word} is among the subscriptions already; remove it first")
        place = float(row[0]), float(row[1])
        slot = self.known.add(told.word, place, keywords_of(row, SUBSCRIPTION_KEYWORDS), told.broker, False)
        self.came(told, slot)

    def _unsubscribe(self, told: Told) -> None:
        slot = self.known.slot_of.get(told.word, -1)
        if slot < 0 or self.known.arrays["sub_broker"][slot] != told.broker:
            if self.env.unsure:
                return
            raise UnknownId(f"subscription {self.named(told.word)} is taken back, and is not held at this broker")
        words = self.known.sub_words[slot]
        self.known.remove(slot)
        self.left(told, slot, words)

    def check(self, told: Told, start: int) -> Any:
        """The row that a client sent; refused before anything is changed, if it is no object or subscription."""
        row = self.env.bodies.values(np.array([told.body], np.int32))[0]
        try:
            self.service.check(row, start)
            if start == OBJECT_KEYWORDS:
                self.service.asked(row)
        except InvalidInput as error:
            what = "object" if start == OBJECT_KEYWORDS else "subscription"
            raise InvalidInput(f"{what} {self.named(told.word)}: {error}") from error
        return row

    def named(self, id: int) -> str:
        """An object or a subscription as people read it: 37#5 for number 5 of client 37."""
        return message_name(id, self.env.entity_base)

    def stand(self, interests: Interests) -> None:
        env, known = self.env, self.known
        home = env.client_broker[interests.client]
        assert interests.rows is not None
        order = np.argsort(home, kind="stable")  # so that what one broker looks at lies side by side
        mine = order[env.local[home[order]]]
        rows = interests.rows[mine]
        points = known.geometry.points(rows[:, :_PLACES], len(rows), "subscriptions")
        slots = []
        for id_, broker, row, point in zip(interests.id[mine].tolist(), home[mine].tolist(), rows, points):
            place = float(row[0]), float(row[1])
            slots.append(known.new_slot(id_, place, keywords_of(row, SUBSCRIPTION_KEYWORDS), broker, point))
        known.make_room(0, sum(map(len, known.sub_words)))
        asking.subscribe_all(known.record, np.array(slots, np.int64))

    # ---- what is kept ------------------------------------------------------------------------------------

    def entries(self) -> Ints:
        return self.known.arrays["subscriptions"] + self.known.arrays["heads"]

    def describe(self, broker: int) -> dict[str, Any]:
        arrays = self.known.arrays
        return {"subscriptions": int(arrays["subscriptions"][broker]), "heads": int(arrays["heads"][broker])}

    def _living(self) -> Ints:
        """The heads that brokers know, in the order in which they were learned."""
        arrays = self.known.arrays
        used = arrays["head_place"][arrays["head_place"] >= 0]
        return used[np.argsort(arrays["head_since"][used], kind="stable")].astype(np.int64)

    def state(self) -> dict[str, Any]:
        known, arrays = self.known, self.known.arrays
        living = self._living()
        objects = [cast(Object, known.objects[number]) for number in arrays["head_object"][living].tolist()]
        slots = sorted(known.slot_of.values(), key=known.sub_id.__getitem__)
        windowed = [
            (broker, which, time, id_)
            for broker, windows in sorted(self.windows.items())
            for which, window in enumerate(windows)
            for time, id_ in window.state()
        ]
        return {
            **{name: arrays[name][living].astype(np.int64) for name in ("head_broker", "head_link", "head_id")},
            "head_bytes": np.array([thing.bytes for thing in objects], np.int64),
            "head_place": np.array([thing.place for thing in objects], np.float64).reshape(-1, _PLACES),
            "head_words": _table([thing.words for thing in objects]),
            "id": np.array([known.sub_id[slot] for slot in slots], np.int64),
            "broker": arrays["sub_broker"][slots].astype(np.int64),
            "place": np.array([known.sub_place[slot] for slot in slots], np.float64).reshape(-1, _PLACES),
            "words": _table([known.sub_words[slot] for slot in slots]),
            "window": np.array(windowed, np.int64).reshape(-1, 4),
        }

    def state_columns(self) -> dict[str, Column]:
        """What `state` gives, for `load` to check."""
        return _STATE

    def sizes(self) -> dict[str, int]:
        """What numbers in `state` lie below."""
        env = self.env
        keywords = self.service.params["keywords"]
        return {"brokers": env.overlay.brokers, "links": env.links.source.size, "keywords": keywords}

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        env = self.env
        for state in states:
            check_columns(state, self.state_columns(), self.sizes(), self.others)
        for state in states:
            self._load_subscriptions(state)
        for state in states:
            self._load_heads(state)
            for broker, which, time, id_ in state["window"].tolist():
                if broker >= env.overlay.brokers or which >= len(self._windows(broker)):
                    raise BadState("a window is of nobody")
                if env.local[broker]:
                    window = self._windows(broker)[which]
                    window.load([*window.state(), (time, id_)])

    def _load_subscriptions(self, state: dict[str, Any]) -> None:
        env, known = self.env, self.known
        columns = (state[name].tolist() for name in ("id", "broker", "place", "words"))
        for id_, broker, place, words in zip(*columns):
            client = (id_ >> 32) - env.entity_base
            if not 0 <= client < env.client_broker.size or env.client_broker[client] != broker:
                raise BadState("a subscription is at a broker that is not its client's")
            if env.local[broker]:
                if id_ in known.slot_of:
                    raise BadState("a subscription is there twice")
                known.add(id_, tuple(place), _words(words), broker, False)

    def _load_heads(self, state: dict[str, Any]) -> None:
        env, known = self.env, self.known
        names = ("head_broker", "head_link", "head_id", "head_bytes", "head_place", "head_words")
        for broker, link, id_, size, place, words in zip(*(state[name].tolist() for name in names)):
            if link >= 0 and env.links.source[link] != broker:
                raise BadState("a head came to a broker by a link of another")
            if env.local[broker]:
                number = known.number(Object(tuple(place), _words(words), size))
                known.make_room(1)
                if not asking.take_in(known.record, broker, id_, number, link):
                    raise BadState("a head is known twice at a broker")


class FloodingShard(RankingShard):
    """spatial-flooding over the brokers of a shard."""

    plain: ClassVar[type[BrokerProtocol] | None] = Flooding
    flood = True


def _table(sets: Sequence[Sequence[int]]) -> Ints:
    """Keywords in rows, with -1 behind them."""
    found = np.full((len(sets), max(map(len, sets), default=1)), -1, np.int64)
    for row, words in zip(found, sets):
        row[: len(words)] = words
    return found


def _words(row: Sequence[int]) -> tuple[int, ...]:
    """Keywords out of such a row."""
    words = tuple(word for word in row if word >= 0)
    if not words or sorted(set(words)) != list(words):
        raise BadState("keywords do not ascend, or there are none")
    return words
