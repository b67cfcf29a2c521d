"""Scores of neighbours in GossipSub 1.1, from P1 to P7.

Rules:
- S(p) = cap(sum over topics of w (w1 P1 + w2 P2 + w3 P3 + w3b P3b + w4 P4)) + w5 P5 + w6 P6 + w7 P7. The cap holds from
  above only.
- P1, the time in the mesh, counts in quanta. It is brought up to date when counters decay, as is whether P3 is active.
- P2 counts who brought a payload first. P3 is the square of what lacks of deliveries in the mesh: first ones, copies
  that came while the first was validated, and those soon after; of each neighbour and payload one.
- What lacks when a neighbour leaves the mesh goes to P3b. P4 is the square of invalid payloads.
- P6 is the square of the neighbours at one address beyond what is tolerated; P7 of grafts too early and of promises
  that were broken, beyond what is.
- A slow peer: what was dropped in front of it, beyond a threshold, counts one by one. That is not of the specification:
  rust-libp2p and nim-libp2p have it, go-libp2p does not.
- At each decay every counter goes down by its factor, and is 0 once it is small.
- Of a neighbour that is gone a score above 0 is forgotten. Any other is kept for a while, and does not decay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from protocols.gossip.options import Scoring, TopicScoring

Topic = tuple[int, ...]
Parts = tuple[float, ...]
NEW, VALID, INVALID, IGNORED = range(4)  # what is known of a payload


@dataclass
class InTopic:
    """What a neighbour did in one topic."""

    grafted_ns: int = -1  # since when it is in the mesh; -1: it is not
    quanta: int = 0
    active: bool = False  # whether it was in the mesh for so long that deliveries may lack
    first: float = 0.0
    delivered: float = 0.0
    failures: float = 0.0
    invalid: float = 0.0


@dataclass
class Neighbour:
    """What is known of a neighbour."""

    topics: dict[Topic, InTopic] = field(default_factory=dict)
    behaviour: float = 0.0
    slow: float = 0.0
    gone_until_ns: int = -1  # until when it is remembered although it is gone; -1: it is there


@dataclass
class Arrival:
    """A payload that came."""

    topic: Topic
    first_from: int
    came_ns: int
    state: int = NEW
    validated_ns: int = -1
    brought_by: set[int] = field(default_factory=set)


RECORDS = (InTopic, Neighbour, Arrival)


class Scores:
    """The scores that one broker keeps, by its links."""

    def __init__(self, scoring: Scoring, broker_at: Callable[[int], int], name_of: Callable[[Topic], str]) -> None:
        self.scoring = scoring
        self._broker_at = broker_at
        self._name_of = name_of
        self.neighbours: dict[int, Neighbour] = {}
        self.arrivals: dict[int, Arrival] = {}

    # ---- the score ---------------------------------------------------------------------------------------

    def score(self, link: int) -> float:
        """The score of a neighbour; of a stranger it is 0."""
        known, scoring = self.neighbours.get(link), self.scoring
        if known is None:
            return 0.0
        total = 0.0
        for topic in sorted(known.topics):  # not `sum`, which rounds otherwise from Python 3.12 on
            total += self._in_topic(known.topics[topic], self._of(topic))
        if 0 < scoring.cap < total:
            total = scoring.cap
        p5, p6, p7 = self._beyond_topics(link, known)
        slow = scoring.slow_weight * max(0.0, known.slow - scoring.slow_threshold)
        return total + p5 + p6 + p7 + slow

    def parts(self, link: int) -> tuple[dict[Topic, Parts], Parts]:
        """What a score is made of: P1 to P4 by topic, with P3b after P3, and P5 to P7. Weighted, and not capped."""
        known = self.neighbours.get(link, Neighbour())
        in_topics = {}
        for topic, did in sorted(known.topics.items()):
            says = self._of(topic)
            in_topics[topic] = tuple(says.weight * part for part in self._parts(did, says))
        return in_topics, self._beyond_topics(link, known)

    def _in_topic(self, did: InTopic, says: TopicScoring) -> float:
        p1, p2, p3, p3b, p4 = self._parts(did, says)
        return says.weight * (p1 + p2 + p3 + p3b + p4)

    def _parts(self, did: InTopic, says: TopicScoring) -> Parts:
        mesh = min(float(did.quanta), says.mesh_cap) if did.grafted_ns >= 0 else 0.0
        lacks = self._lacks(did, says)
        return (
            says.mesh_weight * mesh,
            says.first_weight * did.first,
            says.rate_weight * (lacks * lacks),
            says.failure_weight * did.failures,
            says.invalid_weight * (did.invalid * did.invalid),
        )

    def _beyond_topics(self, link: int, known: Neighbour) -> Parts:
        scoring = self.scoring
        shared = max(0, self._at_address(link) - scoring.address_threshold) if scoring.address_weight else 0
        excess = max(0.0, known.behaviour - scoring.behaviour_threshold)
        return (
            scoring.app_weight * scoring.app.get(self._broker_at(link), 0.0),
            scoring.address_weight * (shared * shared),
            scoring.behaviour_weight * (excess * excess),
        )

    def _lacks(self, did: InTopic, says: TopicScoring) -> float:
        return max(0.0, says.rate_threshold - did.delivered) if did.active else 0.0

    def _of(self, topic: Topic) -> TopicScoring:
        topics = self.scoring.topics
        return topics.get(self._name_of(topic), self.scoring.topic) if topics else self.scoring.topic

    def _at_address(self, link: int) -> int:
        here = self._broker_at(link) // self.scoring.address_brokers
        there = (each for each, known in self.neighbours.items() if known.gone_until_ns < 0)
        return sum(self._broker_at(each) // self.scoring.address_brokers == here for each in there)

    # ---- who comes and goes ------------------------------------------------------------------------------

    def came(self, link: int) -> None:
        """A neighbour is there, or there again."""
        self.neighbours.setdefault(link, Neighbour()).gone_until_ns = -1

    def went(self, link: int, now: int) -> None:
        """A neighbour is gone."""
        if self.score(link) > 0:
            del self.neighbours[link]
            return
        known = self.neighbours[link]
        known.gone_until_ns = now + self.scoring.retain
        for topic, did in known.topics.items():
            did.first = 0.0
            self._leave(did, topic)

    def grafted(self, link: int, topic: Topic, now: int) -> None:
        """A neighbour is in the mesh from now on."""
        did = self._did(link, topic)
        did.grafted_ns, did.quanta, did.active = now, 0, False

    def pruned(self, link: int, topic: Topic) -> None:
        """A neighbour is not in the mesh any more."""
        self._leave(self._did(link, topic), topic)

    def _leave(self, did: InTopic, topic: Topic) -> None:
        if did.grafted_ns >= 0:
            lacks = self._lacks(did, self._of(topic))
            did.failures += lacks * lacks
        did.grafted_ns = -1

    def _did(self, link: int, topic: Topic) -> InTopic:
        return self.neighbours[link].topics.setdefault(topic, InTopic())

    # ---- what payloads say -------------------------------------------------------------------------------

    def brought(self, link: int, id: int, topic: Topic, now: int) -> None:
        """A neighbour brought a payload, the first copy or a later one."""
        arrival = self.arrivals.setdefault(id, Arrival(topic, link, now))
        if link in arrival.brought_by:
            return
        arrival.brought_by.add(link)
        if arrival.state == VALID and now - arrival.validated_ns <= self._of(topic).rate_window:
            self._delivered(link, topic)
        elif arrival.state == INVALID:
            self._did(link, topic).invalid += 1

    def judged(self, id: int, state: int, now: int) -> None:
        """A payload was validated."""
        arrival = self.arrivals[id]
        arrival.state, arrival.validated_ns = state, now
        brought_by = [link for link in sorted(arrival.brought_by) if link in self.neighbours]
        if state == VALID and arrival.first_from in self.neighbours:
            did = self._did(arrival.first_from, arrival.topic)
            did.first = min(did.first + 1, self._of(arrival.topic).first_cap)
        for link in brought_by if state == VALID else ():
            self._delivered(link, arrival.topic)
        for link in brought_by if state == INVALID else ():
            self._did(link, arrival.topic).invalid += 1

    def _delivered(self, link: int, topic: Topic) -> None:
        did = self._did(link, topic)
        if did.grafted_ns >= 0:
            did.delivered = min(did.delivered + 1, self._of(topic).rate_cap)

    def misbehaved(self, link: int, times: int = 1) -> None:
        if link in self.neighbours:
            self.neighbours[link].behaviour += times

    def dropped(self, link: int) -> None:
        """A message to a neighbour found no place."""
        if link in self.neighbours:
            self.neighbours[link].slow += 1

    # ---- decay -------------------------------------------------------------------------------------------

    def decay(self, now: int, remembered_ns: int) -> None:
        """All counters go down; what is long gone is forgotten."""
        scoring = self.scoring
        for link, known in list(self.neighbours.items()):
            if known.gone_until_ns >= 0:
                if now > known.gone_until_ns:
                    del self.neighbours[link]
                continue
            for topic, did in known.topics.items():
                says = self._of(topic)
                did.first = self._less(did.first, says.first_decay)
                did.delivered = self._less(did.delivered, says.rate_decay)
                did.failures = self._less(did.failures, says.failure_decay)
                did.invalid = self._less(did.invalid, says.invalid_decay)
                if did.grafted_ns >= 0:
                    did.quanta = (now - did.grafted_ns) // says.mesh_quantum
                    did.active = did.active or now - did.grafted_ns > says.rate_activation
            known.behaviour = self._less(known.behaviour, scoring.behaviour_decay)
            known.slow = self._less(known.slow, scoring.slow_decay)
        for id_ in _old(self.arrivals.items(), now - remembered_ns):
            del self.arrivals[id_]

    def _less(self, counter: float, factor: float) -> float:
        counter *= factor
        return counter if counter >= self.scoring.decay_to_zero else 0.0

    # ---- checkpoints -------------------------------------------------------------------------------------

    def state(self) -> list[Any]:
        return [self.neighbours, self.arrivals]

    def load(self, state: Any) -> None:
        self.neighbours, self.arrivals = state


def _old(arrivals: Iterable[tuple[int, Arrival]], before_ns: int) -> list[int]:
    return [id_ for id_, arrival in arrivals if arrival.came_ns <= before_ns]
