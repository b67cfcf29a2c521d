"""The sybil of a published test (gossipsub-hardening, `badboy.go`), which does no more of GossipSub than it needs to.

Rules:
- Whoever says for the first time that it has joined a topic is told at once that this broker has too, and is grafted.
- It prunes nobody. Whoever prunes it is grafted again once `regraft_backoff` and up to `regraft` more are over, which
  no score holds against it.
- A payload that is new is passed on to its mesh until `start`, and from then on but for a share (`drop`).
- It has no heartbeat: it tells of nothing, asks for nothing, keeps no scores and no cache.
- Until `connect` nobody knows of it: it hears who joins, and says nothing.

What it owes to clients of its own it does, as all attackers do. It is over with the scenario's duration.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from brokers.contract import Message
from brokers.node import Body
from protocols.gossip.attacks import Attacker, Attacking
from protocols.gossip.options import SECOND
from protocols.gossip.scores import VALID, Topic
from protocols.gossip.talking import JOINED, VALIDATED, topic_in
from protocols.topics.kind import PUBLISH
from topology.units import Duration, Fraction

REGRAFT, CONNECT = VALIDATED + 1, VALIDATED + 2  # timers


class SybilParams(Attacking):
    """When it is there, and when it withholds how much."""

    connect: Annotated[Duration, Field(description="from when on others know of it; it is quiet before")] = 0
    drop: Annotated[Fraction, Field(description="the share of payloads that it withholds once it attacks")] = 1.0
    regraft: Annotated[Duration, Field(description="it grafts again up to so much later than it might")] = 15 * SECOND
    regraft_backoff: Annotated[Duration, Field(description="and not before this, after it was pruned")] = 60 * SECOND


class Sybil(Attacker):
    """One of them."""

    Params: ClassVar[type[Attacking]] = SybilParams

    def __init__(self, node: Any, attack: Any) -> None:
        super().__init__(node, attack)
        self.scoring, self.scores = None, None
        self.is_known = attack.connect == 0
        self.pruned: dict[int, tuple[int, Topic]] = {}  # timer -> whom to graft again, and where
        self.prunes = 0

    def first_timers(self) -> list[tuple[int, int, int]]:
        return [(max(self.attack.connect, self.timer_min_ns), CONNECT, 0)]

    def ring(self, message: Message) -> None:
        if message.type == CONNECT:
            self.is_known = True
            for topic in sorted(self.mesh.keys() | self.topics.keys()):
                self.be_known(message, topic, self.links)
        elif message.type == REGRAFT:
            link, topic = self.pruned.pop(message.word)
            if link in self.links and link not in self.mesh.get(topic, (link,)):
                self.graft(message, topic, [link])

    def send_out(self, message: Message, link: int, type: int, body: Any, size: int, word: int = 0) -> None:
        if self.is_known:
            super().send_out(message, link, type, body, size, word)

    # ---- who joins, and who is in the mesh -------------------------------------------------------------------

    def neighbour_said(self, message: Message) -> None:
        before = {topic for topic, there in self.topics.items() if message.link in there}
        super().neighbour_said(message)
        if message.type == JOINED and self.is_known:
            for topic in map(tuple, self.node.body(message)):
                if topic not in before:
                    self.be_known(message, topic, [message.link])

    def be_known(self, message: Message, topic: Topic, links: list[int]) -> None:
        """Say that it has joined, and graft who has and is not in its mesh."""
        mesh = self.mesh.setdefault(topic, set())
        for link in links:
            self.send_topics(message, link, JOINED, [topic])
        self.graft(message, topic, [link for link in self.others(topic, mesh) if link in links])

    def join(self, message: Message, topic: Topic) -> None:
        self.mesh[topic] = set()
        if self.is_known:
            self.graft(message, topic, self.others(topic, set()))

    def graft_came(self, message: Message) -> None:
        for topic in map(tuple, self.node.body(message)):
            self.mesh.setdefault(topic, set()).add(message.link)

    def prune_came(self, message: Message) -> None:
        *levels, _, _ = self.node.body(message)
        topic = tuple(levels)
        self.mesh.get(topic, set()).discard(message.link)
        attack = self.attack
        delay = max(attack.regraft_backoff + self.draw("regraft") % (attack.regraft + 1), self.timer_min_ns)
        if message.time + delay < self.node.env.duration_ns:
            self.prunes += 1
            self.pruned[self.prunes] = (message.link, topic)
            self.node.timer(message, delay, REGRAFT, self.prunes)

    # ---- payloads --------------------------------------------------------------------------------------------

    def payload_came(self, message: Message) -> None:
        """Deliver what is new, and pass it on or withhold it from everybody."""
        id_, now = self.node.key(message), message.time
        topic = topic_in(PUBLISH, self.node.row(message.body))
        is_old = now >= int(self.node.env.bodies.time[message.body]) + self.said.seen
        if id_ in self.seen or is_old or topic not in self.mesh:
            return
        self.forget(now)
        self.seen[id_] = now
        if self.verdict(message, id_) == VALID:
            self.deliver(message, topic)
        if self.attacks(now) and self.draw("drop") & 0xFFFFFFFF < int(self.attack.drop * (1 << 32)):
            return
        author = self.node.origin(message)
        for link in self.ordered(self.mesh[topic] - {message.link}):
            if self.node.neighbour(link) != author:
                self.send_payload(message, link, Body(message.body))

    def forget(self, now: int) -> None:
        """Ids that are old."""
        while self.seen and self.seen[first := next(iter(self.seen))] + self.said.seen <= now:
            del self.seen[first]

    def put(self, message: Message, id: int, topic: Topic) -> None:
        """It keeps no payloads."""

    def ihave_came(self, message: Message) -> None:
        """It asks for nothing."""

    def iwant_came(self, message: Message) -> None:
        """It has told nobody of anything."""

    def idontwant_came(self, message: Message) -> None:
        """Nobody is spared."""
