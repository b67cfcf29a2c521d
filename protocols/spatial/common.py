"""What the spatial protocols share: one broker that ranks for the subscriptions of its own clients.

All use one tree of the overlay, on which everything between two brokers takes one way, in order. Subscriptions
stay at their broker. A broker holds the *heads* of objects (id, place, keywords) and the link they came by; those
that its own subscriptions may need are in its index. When an object itself comes, the broker asks the index,
delivers, and only then takes the object in.

A subclass says over which links objects and expiries go on.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from pydantic import BaseModel

from brokers.contract import BrokerProtocol, Demand, Message
from brokers.errors import InvalidInput
from brokers.indexes.contract import DuplicateId, UnknownId
from brokers.indexes.spatial.contract import ReverseTopK
from brokers.indexes.spatial.window import LastObjects, LastTime, Window
from brokers.naming import message_name
from protocols.routes import shared_tree
from protocols.spatial.kind import (
    EXPIRE,
    OBJECT_KEYWORDS,
    PUBLISH,
    SUBSCRIBE,
    SUBSCRIPTION_KEYWORDS,
    UNSUBSCRIBE,
    Spatial,
    encoded,
    keywords_of,
)


class Head(NamedTuple):
    """What ranking needs of an object, and where it came from."""

    place: tuple[float, float]
    words: tuple[int, ...]
    link: int  # -1: it was published here
    bytes: int  # of its payload


class Ranking(BrokerProtocol):
    """See the module."""

    kind: ClassVar[str] = "spatial"
    Options: ClassVar[type[BaseModel] | None] = None
    keeps: ClassVar[tuple[Any, ...]] = (Head,)
    remade: ClassVar[tuple[str, ...]] = ("routes", "links", "index", "windows")

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        env = node.env
        self.routes = shared_tree(node)
        self.links: list[int] = [link for link in node.links if self.routes.in_tree[link]]
        self.index: ReverseTopK = env.new_index()
        self.heads: dict[int, Head] = {}
        self.with_word: dict[int, dict[int, None]] = {}  # keyword -> ids of heads with it
        self.indexed: set[int] = set()  # the heads in the index
        self.subscriptions: dict[int, tuple[int, ...]] = {}  # of clients here, with their keywords
        self.places: dict[int, tuple[float, float]] = {}  # of the subscriptions
        self.here: dict[int, int] = {}  # keyword -> subscriptions here that have it
        self.windows: list[Window] = []  # over the objects published here
        if self.service.last is not None:
            self.windows.append(LastObjects(self.service.last))
        if self.service.lifetime_ns is not None:
            self.windows.append(LastTime(self.service.lifetime_ns))

    @classmethod
    def expected_subscriptions(cls, demand: Demand) -> float:
        """Subscriptions that come and go, which stay at their broker."""
        return float((demand.changes - demand.of("expiries")).sum())

    @property
    def service(self) -> Spatial:
        return cast(Spatial, self.node.env.kind)

    def on_message(self, message: Message) -> None:
        if message.type == PUBLISH:
            self.publish(message)
        elif message.type == EXPIRE:
            self.expire(message, message.word)
        elif message.type == SUBSCRIBE:
            self.subscribe(message)
        elif message.type == UNSUBSCRIBE:
            self.unsubscribe(message)

    # ---- what a subclass decides -----------------------------------------------------------------------

    def wanted_from(self, link: int, words: tuple[int, ...]) -> bool:
        """Whether objects with these keywords are asked of a neighbour; else what comes is out of date."""
        raise NotImplementedError

    def towards(self, head: Head) -> list[int]:
        """The links behind which a head is wanted."""
        raise NotImplementedError

    def pass_on(self, message: Message, head: Head) -> None:
        """An object came by whole: send it on."""
        for link in self.towards(head):
            self.node.forward(message, link)

    def came(self, message: Message, id: int) -> None:
        """A subscription here was added."""

    def left(self, message: Message, id: int, words: tuple[int, ...]) -> None:
        """A subscription here with these keywords is gone."""

    def served(self, id: int) -> bool:
        """Whether all objects are known that may rank before others for a subscription here."""
        return True

    def ranks_changed(self, message: Message, ids: list[int]) -> None:
        """These subscriptions here have lost one of their nearest objects."""

    # ---- objects ---------------------------------------------------------------------------------------

    def publish(self, message: Message) -> None:
        """An object came: deliver it to whom it matters here, take it in, send it on."""
        row = self.node.row(message.body)
        if message.link < 0:
            self.check(message.word, row, OBJECT_KEYWORDS)
        words = keywords_of(row, OBJECT_KEYWORDS)
        if message.link >= 0 and not self.wanted_from(message.link, words):
            return
        head = Head((float(row[0]), float(row[1])), words, message.link, int(row[3]))
        if message.link < 0:
            self.close(message, [])
        if message.link < 0 and message.word in self.heads:
            raise DuplicateId(f"object {self.named(message.word)} is published while it is there; let it expire first")
        self.serve(message, head, self.service.asked(row))
        self.learn(message.word, head)
        self.pass_on(message, head)
        if message.link < 0:
            self.close(message, [message.word])

    def close(self, message: Message, fresh: list[int]) -> None:
        """Let those objects go that a window leaves out, now or because of fresh ones."""
        for window in self.windows:
            for id_ in window.add(fresh, message.time).tolist():
                self.expire(message, id_)

    def serve(self, message: Message, head: Head, k: int) -> None:
        """Deliver an object to the clients here that it matters to."""
        if not any(word in self.here for word in head.words):
            return
        node = self.node
        found = self.matters_to(message.word, head, k)
        node.work(message, len(self.subscriptions), len(found))
        base = node.env.entity_base
        for client in sorted({id_ >> 32 for id_ in found if self.served(id_)}):
            node.deliver(message, client - base)

    def matters_to(self, id: int, head: Head, k: int) -> list[int]:
        """The subscriptions here to which an object matters."""
        queries = self.index.queries([id], [head.place], encoded([head.words]), k, self.service.delta)
        return cast(list[int], self.index.reverse(queries)[1].tolist())

    def learn(self, id: int, head: Head) -> bool:
        """Hold a head; whether it is new."""
        if id in self.heads:
            return False
        self.heads[id] = head
        for word in head.words:
            self.with_word.setdefault(word, {})[id] = None
        if any(word in self.here for word in head.words):
            self.enter([id])
        return True

    def enter(self, ids: list[int]) -> None:
        """Put heads into the index."""
        heads = [self.heads[id_] for id_ in ids]
        places = np.array([head.place for head in heads])
        self.index.insert_objects(ids, places, encoded([head.words for head in heads]))
        self.indexed.update(ids)

    def expire(self, message: Message, id: int) -> None:
        """An object is no more."""
        head = self.heads.get(id)
        if head is None or head.link != message.link:
            known = self.windows or self.node.env.unsure  # a window has let it go, or it never came
            if message.type == EXPIRE and message.link < 0 and not known:
                raise UnknownId(f"object {self.named(id)} is withdrawn, and was not published at this broker")
            return
        self.forget(message, id)
        for link in self.towards(head):
            self.node.send(message, link, EXPIRE, word=id)

    def forget(self, message: Message, id: int) -> None:
        head = self.heads.pop(id)
        for word in head.words:
            del self.with_word[word][id]
            if not self.with_word[word]:
                del self.with_word[word]
        if id in self.indexed:
            self.indexed.discard(id)
            needed = any(word in self.here for word in head.words)
            poorer = self.matters_to(id, head, self.service.k_max) if needed else []
            self.index.expire_objects([id])
            if poorer:
                self.ranks_changed(message, poorer)

    # ---- subscriptions ---------------------------------------------------------------------------------

    def subscribe(self, message: Message) -> None:
        self.check(message.word, self.node.row(message.body), SUBSCRIPTION_KEYWORDS)
        self.add(message.word, self.node.row(message.body))
        self.came(message, message.word)

    def add(self, id: int, row: Any) -> None:
        """A subscription of a client here."""
        words = keywords_of(row, SUBSCRIPTION_KEYWORDS)
        self.index.insert_subscriptions([id], [row[:2]], encoded([words]))
        self.subscriptions[id] = words
        self.places[id] = float(row[0]), float(row[1])
        fresh = [word for word in words if word not in self.here]
        for word in words:
            self.here[word] = self.here.get(word, 0) + 1
        missing = {i: None for word in fresh for i in self.with_word.get(word, ()) if i not in self.indexed}
        if missing:
            self.enter(list(missing))

    def unsubscribe(self, message: Message) -> None:
        words = self.subscriptions.pop(message.word, None)
        if words is None:
            if self.node.env.unsure:
                return
            raise UnknownId(f"subscription {self.named(message.word)} is taken back, and is not held at this broker")
        del self.places[message.word]
        self.index.delete_subscriptions([message.word])
        for word in words:
            self.here[word] -= 1
            if not self.here[word]:
                del self.here[word]
        self.left(message, message.word, words)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "windowed": [window.state() for window in self.windows]}

    def load(self, state: dict[str, Any]) -> None:
        windowed = state.pop("windowed")
        super().load(state)
        for window, queue in zip(self.windows, windowed, strict=True):
            window.load(queue)
        ids = list(self.subscriptions)
        if ids:
            places = np.array([self.places[id_] for id_ in ids])
            self.index.insert_subscriptions(ids, places, encoded([self.subscriptions[id_] for id_ in ids]))
        if self.indexed:
            self.enter(sorted(self.indexed))

    def check(self, id: int, row: Any, start: int) -> None:
        """Refuse what a client sent before anything is changed, if it is no object or subscription."""
        try:
            self.service.check(row, start)
            if start == OBJECT_KEYWORDS:
                self.service.asked(row)
        except InvalidInput as error:
            what = "object" if start == OBJECT_KEYWORDS else "subscription"
            raise InvalidInput(f"{what} {self.named(id)}: {error}") from error

    def named(self, id: int) -> str:
        """An object or a subscription as people read it: 37#5 for number 5 of client 37."""
        return message_name(id, self.node.env.entity_base)

    def entries(self) -> int:
        return len(self.subscriptions) + len(self.heads)

    def describe(self) -> dict[str, Any]:
        return {"subscriptions": len(self.subscriptions), "heads": len(self.heads)}
