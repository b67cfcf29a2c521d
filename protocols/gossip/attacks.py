"""Attackers among the brokers of GossipSub: behaviours that a service names under `attackers`.

Each is the author's form of the protocol but for what it does otherwise, from `start` on, until `stop`. What an
attacker owes to clients of its own it delivers, and what these publish it sends: it wrongs other brokers alone.

*Sybils* are attackers in a place, not a behaviour: the further brokers of the topology `attached`, or those `beside`
their victims.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from brokers.contract import NEVER, Message
from brokers.node import Body
from protocols.gossip.gossipsub import GossipSub
from protocols.gossip.options import SECOND, Count, Section
from protocols.gossip.scores import Topic
from protocols.gossip.talking import HEARTBEAT
from topology.units import Duration, Fraction, PositiveDuration


class Attacking(Section):
    """When it attacks."""

    start: Annotated[Duration, Field(description="from when on it attacks")] = 0
    stop: Annotated[PositiveDuration | None, Field(description="until when; to the end unless given")] = None

    @model_validator(mode="after")
    def _in_order(self) -> Attacking:
        if self.stop is not None and self.stop <= self.start:
            raise ValueError("`stop` has to be later than `start`")
        return self


class Attacker(GossipSub):
    """A broker that does as the others do, and more at each heartbeat."""

    Params: ClassVar[type[Attacking]] = Attacking
    remade: ClassVar[tuple[str, ...]] = ("attack",)

    def __init__(self, node: Any, attack: Any) -> None:
        super().__init__(node)
        self.attack = attack
        self.now = 0  # of its last heartbeat

    def attacks(self, now: int) -> bool:
        return bool(self.attack.start <= now < (self.attack.stop or NEVER))

    def acts(self, now: int) -> bool:
        """Whether it does more than the others: not once clients are silent, or floods would never end."""
        return self.attacks(now) and now < self.node.env.duration_ns

    def heartbeat(self, message: Message) -> None:
        self.now = message.time
        super().heartbeat(message)
        if self.acts(message.time):
            self.act(message)

    def act(self, message: Message) -> None:
        """What it does beside, once others would have done."""

    def send_payload(self, message: Message, link: int, body: Body) -> None:
        of_others = int(self.node.env.bodies.broker[body.handle]) != self.node.broker
        if not (of_others and self.attacks(message.time) and self.withholds()):
            super().send_payload(message, link, body)

    def withholds(self) -> bool:
        """Whether it keeps a payload of others to itself that it should send."""
        return False


class DropsSome(Attacking):
    """When and how much it withholds."""

    drop: Annotated[Fraction, Field(description="the share of payloads that it does not pass on")] = 0.5


class Dropping(Attacker):
    """Passes on some, link by link; it tells of all of them, and breaks that promise as often."""

    Params: ClassVar[type[Attacking]] = DropsSome

    def withholds(self) -> bool:
        return self.draw("drop") & 0xFFFFFFFF < int(self.attack.drop * (1 << 32))


class Silent(Attacker):
    """Passes nothing on, and tells of nothing."""

    def withholds(self) -> bool:
        return True

    def tell_of(self, gossip: dict[int, list[Any]], topic: Topic, without: set[int]) -> None:
        if not self.attacks(self.now):
            super().tell_of(gossip, topic, without)


class Floods(Attacking):
    """When and how much it tells."""

    messages: Annotated[Count, Field(le=1_000, description="IHAVE to each neighbour at each heartbeat")] = 10
    ids: Annotated[Count, Field(le=10_000, description="in each of them")] = 10


class IhaveFlood(Attacker):
    """Tells all neighbours of a topic of ids below 0, which no publication has, and brings none of them."""

    Params: ClassVar[type[Attacking]] = Floods

    def act(self, message: Message) -> None:
        for topic in sorted(self.mesh):
            for link in self.others(topic, set()):
                for _ in range(self.attack.messages):
                    ids = [-1 - (self.draw("flood") >> 1) for _ in range(self.attack.ids)]
                    self.send_ihave(message, link, [[list(topic), ids]])


class Grasping(Silent):
    """Tries to be in everybody's mesh, lets nobody go, and is silent there."""

    def act(self, message: Message) -> None:
        for topic in sorted(self.mesh):
            self.graft(message, topic, self.grasped(topic))

    def grasped(self, topic: Topic) -> list[int]:
        """Whom it grafts: all that it may."""
        return self.eligible(topic, self.mesh[topic])

    def too_many(self, topic: Topic) -> list[int]:
        return [] if self.attacks(self.now) else super().too_many(topic)


class GraftFlood(Grasping):
    """Heeds no backoff."""

    def grasped(self, topic: Topic) -> list[int]:
        return self.others(topic, self.mesh[topic])


class ColdBoot(Grasping):
    """Its first heartbeat is before those of all others, who find meshes full of it."""

    def first_timers(self) -> list[tuple[int, int, int]]:
        others = [timer for timer in super().first_timers() if timer[1] != HEARTBEAT]
        return [(self.said.first_heartbeat, HEARTBEAT, 0), *others]


class Flashes(Attacking):
    """Until when it behaves."""

    start: Annotated[Duration, Field(description="until when it behaves, and earns its score")] = 30 * SECOND


class CovertFlash(Grasping):
    """Behaves, then attacks at once."""

    Params: ClassVar[type[Attacking]] = Flashes
