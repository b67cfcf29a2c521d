"""What a broker of GossipSub says to its neighbours and how large that is, who they are to it, and what it draws.

Sizes are such as protobuf makes of it, near enough: a frame, eight bytes for each level of a topic and for a time, ids
as the options say, and of another broker its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from brokers.contract import FIRST_PROTOCOL_TYPE, BrokerProtocol, Demand, Message
from brokers.node import Body
from protocols.gossip.options import Scoring, expected, misfits, remarks
from protocols.gossip.scores import Scores, Topic
from protocols.topics.kind import PUBLISH, levels_of
from topology import draws

JOINED, LEFT, GRAFT, PRUNE, IHAVE, IWANT, IDONTWANT = range(FIRST_PROTOCOL_TYPE, FIRST_PROTOCOL_TYPE + 7)
HEARTBEAT, DECAY, VALIDATED = range(FIRST_PROTOCOL_TYPE + 7, FIRST_PROTOCOL_TYPE + 10)  # timers
HELLO, ANSWER = 1, 2  # the word of a JOINED to a neighbour that is there anew,
ALL = 3  # and of one that names all that the sender has joined
FRAME_BYTES, LEVEL_BYTES, TIME_BYTES, PEER_BYTES = 4, 8, 8, 40


class Kept:
    """A payload in the cache."""

    def __init__(self, topic: Topic, body: Body) -> None:
        self.topic = topic
        self.body = body
        self.sent: dict[int, int] = {}  # link -> how often it asked and got it


class Talking(BrokerProtocol):
    """One broker, as far as it talks and draws and knows who is who."""

    links: list[int]  # to neighbours that are there, by their numbers
    topics: dict[Topic, set[int]]  # neighbours that told of a topic
    mesh: dict[Topic, set[int]]
    backoff: dict[Topic, dict[int, int]]
    cache: dict[int, Any]
    scoring: Scoring | None
    scores: Scores | None
    frozen: dict[int, float] | None
    direct: set[int]
    remade: ClassVar[tuple[str, ...]] = ("keys",)
    state_version: ClassVar[int] = 2

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Mapping[str, Any]) -> list[tuple[str, str]]:
        return misfits(options, overlay)

    @classmethod
    def remarks(cls, options: Any, overlay: Any) -> list[str]:
        return remarks(options, overlay)

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        return expected(demand)

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.keys: dict[str, Any] = {}  # purpose -> its stream of draws
        self.drawn: dict[str, int] = {}  # and how many were taken

    def tell(self, message: Message, type: int, topics: list[Topic]) -> None:
        for link in self.links:
            self.send_topics(message, link, type, topics)

    def send_topics(self, message: Message, link: int, type: int, topics: list[Topic], word: int = 0) -> None:
        size = FRAME_BYTES + sum(map(topic_bytes, topics))
        self.send_out(message, link, type, [list(topic) for topic in topics], size, word)

    def send_ids(self, message: Message, link: int, type: int, ids: list[int]) -> None:
        self.send_out(message, link, type, ids, FRAME_BYTES + len(ids) * self.node.options.id_bytes)

    def send_ihave(self, message: Message, link: int, told: list[Any]) -> None:
        """Of some topics, which ids there are."""
        size = sum(topic_bytes(topic) + len(ids) * self.node.options.id_bytes for topic, ids in told)
        self.send_out(message, link, IHAVE, told, FRAME_BYTES + size)

    def send_payload(self, message: Message, link: int, body: Body) -> None:
        self.send_out(message, link, PUBLISH, body, self.payload_bytes(body))

    def payload_bytes(self, body: Body) -> int:
        return int(self.node.env.bodies.size[body.handle]) + self.node.options.payload

    def send_backoff(self, message: Message, topic: Topic, link: int, backoff_ns: int, px: list[int]) -> None:
        size = FRAME_BYTES + topic_bytes(topic) + TIME_BYTES + len(px) * PEER_BYTES
        self.send_out(message, link, PRUNE, [*topic, backoff_ns, px], size)

    def send_out(self, message: Message, link: int, type: int, body: Any, size: int, word: int = 0) -> None:
        """All that a broker says goes out here."""
        self.node.send(message, link, type, body, word, size)

    # ---- who is who ------------------------------------------------------------------------------------------

    def score(self, link: int) -> float:
        if self.scores is None:
            return 0.0
        return self.scores.score(link) if self.frozen is None else self.frozen[link]

    def is_below(self, link: int, threshold: str) -> bool:
        """Whether a neighbour's score is below a threshold; without scoring all of them are 0, and so are scores."""
        return self.scoring is not None and self.score(link) < getattr(self.scoring.thresholds, threshold)

    def misbehaved(self, link: int, times: int = 1) -> None:
        if self.scores is not None:
            self.scores.misbehaved(link, times)

    def direct_in(self, topic: Topic) -> set[int]:
        return self.direct & self.topics.get(topic, set())

    def others(self, topic: Topic, without: set[int]) -> list[int]:
        """Neighbours of a topic but for some, in order."""
        return self.ordered(self.topics.get(topic, set()) - without)

    def ordered(self, links: set[int]) -> list[int]:
        """By neighbour."""
        return [link for link in self.links if link in links]

    def forget_topics(self, link: int, topics: list[Topic]) -> None:
        """A neighbour is not among those of some topics any more."""
        for topic in topics:
            if topic in self.topics:
                self.topics[topic].discard(link)
                if not self.topics[topic]:
                    del self.topics[topic]

    def is_direct(self, link: int) -> bool:
        far = self.node.neighbour(link)
        return any({a, b} == {far, self.node.broker} for a, b in self.node.options.direct)

    def drew_dialling(self, link: int) -> bool:
        """Whether this broker dialled a link, as drawn for both of its ends."""
        drawn = draws.bits(draws.stream(self.node.env.seed, link >> 1, "gossipsub/dialled"), 0)
        return int(drawn) & 1 == link & 1

    def name_of(self, topic: Topic) -> str:
        return str(self.node.env.kind.row_to_object(PUBLISH, np.array(topic, np.float64)))

    # ---- draws -----------------------------------------------------------------------------------------------

    def draw(self, purpose: str) -> int:
        """The next of a stream of its own."""
        if purpose not in self.keys:
            self.keys[purpose] = draws.stream(self.node.env.seed, self.node.broker, f"gossipsub/{purpose}")
        self.drawn[purpose] = self.drawn.get(purpose, 0) + 1
        return int(draws.bits(self.keys[purpose], self.drawn[purpose]))

    def some(self, purpose: str, items: list[int], count: int | None = None) -> list[int]:
        """So many of them, in an order that is drawn."""
        left, found = list(items), []
        for at in range(len(left) if count is None else min(count, len(left))):
            other = at + self.draw(purpose) % (len(left) - at)
            left[at], left[other] = left[other], left[at]
            found.append(left[at])
        return found

    # ---- what is told of it ----------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        names, scored = self.node.env.overlay.names, self.node.options.scoring is not None

        def told(links: set[int]) -> list[str]:
            return [names[self.node.neighbour(link)] for link in self.ordered(links)]

        return {
            "mesh": {self.name_of(topic): told(self.mesh[topic]) for topic in sorted(self.mesh)},
            "neighbours": {self.name_of(topic): told(self.topics[topic]) for topic in sorted(self.topics)},
            "backing off": sum(map(len, self.backoff.values())),
            "cached": len(self.cache),
            "scores": {names[self.node.neighbour(link)]: self.score(link) for link in self.links if scored},
        }

    # ---- checkpoints -----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {**super().state(), "scored": None if self.scores is None else self.scores.state()}

    def load(self, state: dict[str, Any]) -> None:
        scored = state.pop("scored")
        super().load(state)
        if self.scores is not None:
            self.scores.load(scored)


def topic_in(type: int, row: Any) -> Topic:
    """The name in a publication or subscription."""
    return tuple(levels_of(type, row))


def topic_bytes(topic: Any) -> int:
    return LEVEL_BYTES * len(topic)
