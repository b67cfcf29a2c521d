"""GossipSub: for each topic a mesh of a few neighbours that get payloads at once; others are told what there is.

After the specification of libp2p, 1.0 to 1.2, and go-libp2p-pubsub where that leaves something open.
Rules:
- A broker joins a topic with the first of its clients that subscribes, and leaves it with the last. It tells all
  neighbours (SUBSCRIBE, UNSUBSCRIBE), and grafts some of them into its mesh.
- A payload that is new is validated, delivered, and passed on to the mesh but for its sender and its author. Own ones
  go to the mesh, or to all neighbours of the topic (flood publishing), or without a subscription to the fanout.
- Every heartbeat: counters begin anew; broken promises are held against neighbours; each mesh goes back between its
  bounds; neighbours that are in no mesh are told of the ids of the last windows (IHAVE), and ask for those that they
  lack (IWANT).
- Backoff has two clocks. Whoever was pruned is judged by the exact expiry if it grafts; this broker grafts nobody of
  whom it has an entry, and entries are swept every 15 heartbeats, two heartbeats late: 62 to 77 s after a prune.
- What queues dropped of GRAFT and PRUNE, SUBSCRIBE and UNSUBSCRIBE is said again (`resending.py`).
- 1.1: a score for each neighbour (`scores.py`). 1.2: IDONTWANT before validation, if a payload is large.

Theory. Over a static symmetric mesh of E links between n brokers one publication costs 2E - (n - 1) - a payloads, if no
link loses any and nobody says IDONTWANT: everybody passes it on over all its links but the one that it came by, and
nobody sends it to its author, of whose neighbours a heard of it from others first. With enough neighbours each broker
sends D_lazy IHAVE in each heartbeat with a window that is not empty. IDONTWANT keeps B from sending to A if
T_A + d_AB <= T_B + v_B (first arrivals T, delay d, validation v): without validation or queues it saves nothing.

Of delivery nothing is promised: who is in no mesh may never hear of a payload. Nobody gets what it did not ask for, and
nobody gets it twice: a payload older than `seen` is dropped unread, since its id may be forgotten.

Who dialled a link is drawn; of links that arise it is who opened them. Every message goes by itself, but for IHAVE of
one heartbeat, which is one for each neighbour. A run that is over ends: heartbeats go on until its clients are silent
and nothing is left to tell of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel

from brokers.contract import NEVER, TIMER, Guarantees, Message
from brokers.faults import CLOSED, LINK_DOWN, LINK_UP, OPENED, RESTART
from brokers.node import Body
from protocols.gossip.options import Options
from protocols.gossip.resending import Resending
from protocols.gossip.scores import IGNORED, INVALID, RECORDS, VALID, Scores, Topic
from protocols.gossip.talking import (
    ALL,
    ANSWER,
    DECAY,
    GRAFT,
    HEARTBEAT,
    HELLO,
    IDONTWANT,
    IHAVE,
    IWANT,
    JOINED,
    LEFT,
    PRUNE,
    VALIDATED,
    Kept,
    topic_in,
)
from protocols.gossip.watching import TABLES, watch
from protocols.topics.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from topology import draws

SWEEP_TICKS, SLACK_HEARTBEATS = 15, 2  # entries of backoff go so often, and so long after they expired


class GossipSub(Resending):
    """One broker."""

    kind: ClassVar[str] = "topics"
    requires: ClassVar[Mapping[str, Any]] = {"wildcards": False}
    guarantees: Guarantees = Guarantees(exact=False, fifo_per_publisher=False, only_wanted=True)
    Options: ClassVar[type[BaseModel] | None] = Options
    pads: ClassVar[str] = "payload"
    resends: ClassVar[bool] = True
    opens: ClassVar[bool] = True
    own_tables: ClassVar[Mapping[str, Any]] = TABLES
    keeps: ClassVar[tuple[Any, ...]] = (Kept, *RECORDS)
    remade: ClassVar[tuple[str, ...]] = ("said", "scoring", "backs_off", "scores", "frozen", "direct", "timer_min_ns")

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        said: Options = node.options
        self.said = said
        self.scoring = said.scoring
        self.backs_off = said.version != "1.0"
        times = [said.heartbeat, said.first_heartbeat, said.validation or NEVER]
        self.timer_min_ns = min(*times, self.scoring.decay_every if self.scoring else NEVER)
        self.ticks = 0
        self.links: list[int] = list(node.links)  # to neighbours that are there, by their numbers
        self.dialled = {link for link in self.links if self.drew_dialling(link)}
        self.direct = {link for link in node.links if self.is_direct(link)}
        self.members: dict[Topic, dict[int, int]] = {}  # own topics: subscription -> client
        self.topics: dict[Topic, set[int]] = {}  # neighbours that told of a topic
        self.mesh: dict[Topic, set[int]] = {}
        self.fanout: dict[Topic, set[int]] = {}
        self.published_ns: dict[Topic, int] = {}  # when last, without a subscription
        self.seen: dict[int, int] = {}  # id -> when it came first, in that order
        self.cache: dict[int, Kept] = {}
        self.windows: list[dict[Topic, list[int]]] = [{}]  # ids by heartbeat, the newest first
        self.backoff: dict[Topic, dict[int, int]] = {}  # link -> until when
        self.unwanted: dict[int, dict[int, int]] = {}  # link -> id -> heartbeats left
        self.had: dict[int, int] = {}  # of this heartbeat: IHAVE by link,
        self.asked: dict[int, int] = {}  # ids asked for,
        self.refused: dict[int, int] = {}  # and IDONTWANT
        self.promises: dict[int, dict[int, int]] = {}  # id -> link -> until when
        self.frozen: dict[int, float] | None = None  # scores, for the time of a heartbeat
        self.scores: Scores | None = None
        if self.scoring:
            self.scores = Scores(self.scoring, node.neighbour, self.name_of)
            for link in self.links:
                self.scores.came(link)

    # ---- what stands from the start ----------------------------------------------------------------------

    def first_timers(self) -> list[tuple[int, int, int]]:
        phase = int(self.draw("phase") % self.said.heartbeat)
        found = [(self.said.first_heartbeat + phase, HEARTBEAT, 0)]
        return [*found, (self.scoring.decay_every, DECAY, 0)] if self.scoring else found

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        """Everybody knows of it; meshes are made with the first heartbeats."""
        topic = topic_in(SUBSCRIBE, row)
        if broker == self.node.broker:
            self.members.setdefault(topic, {})[id] = client
            self.mesh.setdefault(topic, set())
        for link in self.links:
            if self.node.neighbour(link) == broker:
                self.topics.setdefault(topic, set()).add(link)

    # ---- what reaches it ---------------------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        if message.kind == TIMER:
            self.ring(message)
        elif message.link < 0:
            self.client_said(message)
        elif message.link in self.links:
            if message.type in (JOINED, LEFT):
                self.neighbour_said(message)
            elif message.link in self.direct or not self.is_below(message.link, "graylist"):
                getattr(self, _HANDLERS[message.type])(message)

    def ring(self, message: Message) -> None:
        if message.type == HEARTBEAT:
            self.heartbeat(message)
        elif message.type == DECAY and self.scores is not None and self.scoring is not None:
            self.scores.decay(message.time, self.said.seen)
            if self.goes_on(message, self.scoring.decay_every):
                self.node.timer(message, self.scoring.decay_every, DECAY)
        elif message.type == VALIDATED:
            body = Body(message.body)
            self.validated(message, message.word)
            self.node.drop(body)

    def client_said(self, message: Message) -> None:
        if message.type == PUBLISH:
            self.publish(message)
        elif message.type == SUBSCRIBE:
            topic = topic_in(SUBSCRIBE, self.node.row(message.body))
            self.members.setdefault(topic, {})[message.word] = (message.word >> 32) - self.node.env.entity_base
            if topic not in self.mesh:
                self.tell(message, JOINED, [topic])
                self.join(message, topic)
        elif message.type == UNSUBSCRIBE:
            topic = next((topic for topic, members in self.members.items() if message.word in members), ())
            members = self.members.get(topic, {})
            members.pop(message.word, None)
            if topic in self.mesh and not members:
                del self.members[topic]
                self.tell(message, LEFT, [topic])
                self.leave(message, topic)

    def on_fault(self, message: Message) -> None:
        if message.type in (LINK_UP, OPENED):
            self.connect(message, message.link)
        elif message.type in (LINK_DOWN, CLOSED):
            self.disconnect(message.link, message.time)
            if message.type == CLOSED:
                self.dialled.discard(message.link)
        elif message.type == RESTART:
            for link in list(self.links):
                self.disconnect(link, message.time)
                self.connect(message, link)

    # ---- neighbours ----------------------------------------------------------------------------------------

    def connect(self, message: Message, link: int, dialled: bool = False, word: int = HELLO) -> None:
        """A neighbour is there, and is told of all own topics."""
        if link in self.links:
            return
        self.links = sorted([*self.links, link], key=self.node.neighbour)
        if dialled:
            self.dialled.add(link)
        if self.scores is not None:
            self.scores.came(link)
        self.send_topics(message, link, JOINED, sorted(self.mesh), word)

    def disconnect(self, link: int, now: int) -> None:
        """A neighbour is gone, with all that it had told."""
        if link not in self.links:
            return
        self.links.remove(link)
        for neighbours in (*self.topics.values(), *self.mesh.values(), *self.fanout.values()):
            neighbours.discard(link)
        self.topics = {topic: neighbours for topic, neighbours in self.topics.items() if neighbours}
        self.unwanted.pop(link, None)
        self.forget_dropped(link)
        if self.scores is not None:
            self.scores.went(link, now)

    def neighbour_said(self, message: Message) -> None:
        """SUBSCRIBE and UNSUBSCRIBE of a neighbour count whatever its score is; one that begins anew is answered."""
        if message.word == HELLO:
            self.disconnect(message.link, message.time)
            self.connect(message, message.link, message.link in self.dialled, ANSWER)
        told = list(map(tuple, self.node.body(message)))
        for topic in told if message.type == JOINED else ():
            self.topics.setdefault(topic, set()).add(message.link)
        if message.word == ALL:
            self.forget_topics(message.link, sorted(self.topics.keys() - told))
        elif message.type == LEFT:
            self.forget_topics(message.link, told)

    def join(self, message: Message, topic: Topic) -> None:
        """Take over the fanout, and fill up."""
        known = [link for link in self.ordered(self.fanout.pop(topic, set())) if self.may_graft(topic, link)]
        self.published_ns.pop(topic, None)
        more = [link for link in self.eligible(topic, set()) if link not in known]
        mesh = {*known, *self.some("join", more, max(0, self.said.d - len(known)))}
        self.mesh[topic] = set()
        for link in self.ordered(mesh):
            self.take_in(message.time, topic, link)
            self.send_topics(message, link, GRAFT, [topic])

    def leave(self, message: Message, topic: Topic) -> None:
        """Prune all."""
        for link in self.ordered(self.mesh[topic]):
            self.let_go(topic, link)
            self.prune(message, topic, link, self.said.leave_backoff, px=False)
        del self.mesh[topic]

    # ---- payloads ------------------------------------------------------------------------------------------

    def publish(self, message: Message) -> None:
        """A client's own."""
        topic, id_ = topic_in(PUBLISH, self.node.row(message.body)), self.node.key(message)
        self.seen[id_] = message.time
        self.put(message, id_, topic)
        self.deliver(message, topic)
        if self.said.flood_publish:
            to = {link for link in self.topics.get(topic, ()) if not self.is_below(link, "publish")}
        elif topic in self.mesh:
            to = self.mesh[topic]
        else:
            if not self.fanout.get(topic):
                may = [p for p in self.others(topic, self.direct) if not self.is_below(p, "publish")]
                self.fanout[topic] = set(self.some("fanout", may, self.said.d))
            self.published_ns[topic] = message.time
            to = self.fanout[topic]
        for link in self.ordered(to | self.direct_in(topic)):
            self.send_payload(message, link, Body(message.body))

    def payload_came(self, message: Message) -> None:
        """PUBLISH. Known: it only feeds the score. New: IDONTWANT, and then validation."""
        id_, link, now = self.node.key(message), message.link, message.time
        if id_ in self.seen:
            if self.scores is not None and id_ in self.scores.arrivals:
                self.scores.brought(link, id_, self.scores.arrivals[id_].topic, now)
            return
        topic = topic_in(PUBLISH, self.node.row(message.body))
        if topic not in self.mesh or now >= int(self.node.env.bodies.time[message.body]) + self.said.seen:
            return
        self.seen[id_] = now
        self.promises.pop(id_, None)
        if self.scores is not None:
            self.scores.brought(link, id_, topic, now)
        if self.said.version == "1.2" and self.payload_bytes(Body(message.body)) >= self.said.idontwant_from:
            for other in self.ordered(self.mesh[topic] - {link}):
                self.send_ids(message, other, IDONTWANT, [id_])
        if self.said.validation:
            self.node.timer(message, self.said.validation, VALIDATED, link, body=self.node.keep(message))
        else:
            self.validated(message, link)

    def validated(self, message: Message, link: int) -> None:
        """Accepted: deliver and pass on. Rejected: P4. Ignored: nothing."""
        id_, topic = self.node.key(message), topic_in(PUBLISH, self.node.row(message.body))
        verdict = self.verdict(message, id_)
        if self.scores is not None and id_ in self.scores.arrivals:
            self.scores.judged(id_, verdict, message.time)
        if verdict != VALID or topic not in self.mesh:
            return
        self.put(message, id_, topic)
        self.deliver(message, topic)
        author = self.node.origin(message) if self.said.exclude_author else -1
        for other in self.ordered(self.mesh[topic] | self.direct_in(topic)):
            known = other == link or self.node.neighbour(other) == author
            if not known and id_ not in self.unwanted.get(other, ()):
                self.send_payload(message, other, Body(message.body))

    def verdict(self, message: Message, id: int) -> int:
        """What validation says, which is the same everywhere."""
        said = self.said
        if self.node.origin(message) in said.invalid_from:
            return INVALID
        if not said.invalid and not said.ignored:
            return VALID
        drawn = float(draws.uniform(draws.stream(self.node.env.seed, id, "gossipsub/valid"), 0))
        return INVALID if drawn < said.invalid else IGNORED if drawn < said.invalid + said.ignored else VALID

    def put(self, message: Message, id: int, topic: Topic) -> None:
        self.cache[id] = Kept(topic, self.node.keep(message))
        self.windows[0].setdefault(topic, []).append(id)

    def deliver(self, message: Message, topic: Topic) -> None:
        clients = sorted(set(self.members.get(topic, {}).values()))
        for client in clients:
            self.node.deliver(message, client)
        self.node.work(message, len(self.topics.get(topic, ())), len(clients))

    # ---- control -------------------------------------------------------------------------------------------

    def ihave_came(self, message: Message) -> None:
        """Ask for what is new, as far as there is a budget; one of the ids becomes a promise."""
        link, said = message.link, self.said
        if self.is_below(link, "gossip"):
            return
        self.had[link] = self.had.get(link, 0) + 1
        left = said.ihave_ids - self.asked.get(link, 0)
        if self.had[link] > said.ihave_messages or left <= 0:
            return
        told = (ids for topic, ids in self.node.body(message) if tuple(topic) in self.mesh)
        unseen = [id_ for id_ in dict.fromkeys(id_ for ids in told for id_ in ids) if id_ not in self.seen]
        wanted = self.some("iwant", unseen, left)
        if wanted:
            self.asked[link] = self.asked.get(link, 0) + len(wanted)
            self.send_ids(message, link, IWANT, wanted)
            if self.scores is not None:
                promised = wanted[self.draw("promise") % len(wanted)]
                self.promises.setdefault(promised, {}).setdefault(link, message.time + said.iwant_followup)

    def iwant_came(self, message: Message) -> None:
        """Send what is in the cache, to one neighbour not too often."""
        link = message.link
        if self.is_below(link, "gossip"):
            return
        for id_ in self.node.body(message):
            kept = self.cache.get(id_)
            if kept is None or id_ in self.unwanted.get(link, ()):
                continue
            kept.sent[link] = kept.sent.get(link, 0) + 1
            if kept.sent[link] <= self.said.iwant_repeats:
                self.send_payload(message, link, kept.body)

    def graft_came(self, message: Message) -> None:
        """Of the reasons not to take it in, the first that applies."""
        link, now = message.link, message.time
        for topic in map(tuple, self.node.body(message)):
            mesh = self.mesh.get(topic)
            if mesh is None:
                if not self.backs_off:
                    self.prune(message, topic, link, self.said.backoff, px=False)
            elif link in mesh:
                continue
            elif link in self.direct:
                self.prune(message, topic, link, self.said.backoff, px=False, noted=False)
            elif now < (expiry := self.backoff.get(topic, {}).get(link, -1)):
                early = now < expiry + self.said.graft_flood - self.said.backoff
                self.misbehaved(link, 2 if early else 1)
                self.prune(message, topic, link, self.said.backoff, px=False)
            elif self.score(link) < 0:
                self.prune(message, topic, link, self.said.backoff, px=False)
            elif self.backs_off and len(mesh) >= self.said.d_hi and link not in self.dialled:
                self.prune(message, topic, link, self.said.backoff)
            else:
                self.take_in(now, topic, link)

    def prune_came(self, message: Message) -> None:
        """Out of the mesh, for as long as it says; whom it names may be connected to."""
        *levels, backoff_ns, px = self.node.body(message)
        topic, link = tuple(levels), message.link
        if link in self.mesh.get(topic, ()):
            self.let_go(topic, link)
        if self.backs_off:
            self.back_off(topic, link, message.time + backoff_ns)
        if px and not self.is_below(link, "accept_px"):
            self.meet(message, self.some("px", px, self.said.px_peers))

    def idontwant_came(self, message: Message) -> None:
        link, said = message.link, self.said
        self.refused[link] = self.refused.get(link, 0) + 1
        if self.refused[link] <= said.idontwant_messages:
            unwanted = self.unwanted.setdefault(link, {})
            for id_ in self.node.body(message)[: said.idontwant_ids]:
                unwanted[id_] = said.idontwant_ticks

    # ---- the heartbeat ---------------------------------------------------------------------------------------

    def heartbeat(self, message: Message) -> None:
        """The steps in their order."""
        self.ticks += 1
        if self.ticks % SWEEP_TICKS == 0:
            self.sweep(message.time)
        self.begin_anew()
        self.hold_to_promises(message.time)
        if self.ticks % self.said.direct_ticks == 0:
            here = self.node.broker
            self.meet(message, [a + b - here for a, b in self.said.direct if here in (a, b)])
        self.frozen = {link: self.score(link) for link in self.links}
        watch(self, message)
        gossip: dict[int, list[Any]] = {}
        for topic in sorted(self.mesh):
            self.tend(message, topic)
            self.tell_of(gossip, topic, self.mesh[topic])
        self.tend_fanout(message.time)
        for topic in sorted(self.fanout):
            self.tell_of(gossip, topic, self.fanout[topic])
        for link in self.ordered(set(gossip)):
            self.send_ihave(message, link, gossip[link])
        self.say_again(message)
        self.frozen = None
        self.shift(message.time)
        if self.goes_on(message, self.said.heartbeat):
            self.node.timer(message, self.said.heartbeat, HEARTBEAT)

    def sweep(self, now: int) -> None:
        """Entries of backoff that expired a while ago."""
        before = now - SLACK_HEARTBEATS * self.said.heartbeat
        for topic, there in self.backoff.items():
            self.backoff[topic] = {link: expiry for link, expiry in there.items() if expiry >= before}
        self.backoff = {topic: there for topic, there in self.backoff.items() if there}

    def begin_anew(self) -> None:
        self.had, self.asked, self.refused = {}, {}, {}
        for link, ids in self.unwanted.items():
            self.unwanted[link] = {id_: ticks - 1 for id_, ticks in ids.items() if ticks > 1}
        self.unwanted = {link: ids for link, ids in self.unwanted.items() if ids}

    def hold_to_promises(self, now: int) -> None:
        for id_, by in list(self.promises.items()):
            for link in [link for link, until in by.items() if until < now]:
                self.misbehaved(link)
                del by[link]
            if not by:
                del self.promises[id_]

    def tend(self, message: Message, topic: Topic) -> None:
        """A mesh back between its bounds."""
        said, mesh = self.said, self.mesh[topic]
        for link in [link for link in self.ordered(mesh) if self.score(link) < 0]:
            self.turn_out(message, topic, link, px=False)
        if len(mesh) < said.d_lo:
            self.graft(message, topic, self.some("graft", self.eligible(topic, mesh), said.d - len(mesh)))
        if len(mesh) >= said.d_hi:
            for link in self.too_many(topic):
                self.turn_out(message, topic, link)
        if not self.backs_off:
            return
        outbound = len(mesh & self.dialled)
        if len(mesh) >= said.d_lo and outbound < said.d_out:
            more = [link for link in self.eligible(topic, mesh) if link in self.dialled]
            self.graft(message, topic, self.some("outbound", more, said.d_out - outbound))
        if self.ticks % said.opportunistic_ticks == 0 and len(mesh) > 1 and self.scoring:
            median = sorted(self.score(link) for link in mesh)[len(mesh) // 2]
            if median < self.scoring.thresholds.opportunistic:
                better = [link for link in self.eligible(topic, mesh) if self.score(link) > median]
                self.graft(message, topic, self.some("opportunistic", better, said.opportunistic_peers))

    def too_many(self, topic: Topic) -> list[int]:
        """Whom to prune: of D that stay some have the best scores, and some are such as this broker dialled."""
        said, links = self.said, self.some("prune", self.ordered(self.mesh[topic]))
        if not self.backs_off:
            return self.ordered(set(links[said.d :]))
        best = sorted(links, key=lambda link: -self.score(link))
        best = best[: said.d_score] + self.some("prune", best[said.d_score :])
        stay, rest = best[: said.d], best[said.d :]
        lacking = max(0, said.d_out - sum(link in self.dialled for link in stay))
        more = [link for link in rest if link in self.dialled][:lacking]
        inbound = [link for link in stay if link not in self.dialled]
        gone = set(rest) - set(more) | set(inbound[len(inbound) - len(more) :])
        return self.ordered(gone)

    def tend_fanout(self, now: int) -> None:
        said = self.said
        for topic in sorted(self.fanout):
            if self.published_ns[topic] + said.fanout < now:
                del self.fanout[topic], self.published_ns[topic]
                continue
            may = [p for p in self.others(topic, self.direct) if not self.is_below(p, "publish")]
            fanout = self.fanout[topic] & set(may)
            more = [link for link in may if link not in fanout]
            self.fanout[topic] = fanout | set(self.some("fanout", more, max(0, said.d - len(fanout))))

    def tell_of(self, gossip: dict[int, list[Any]], topic: Topic, without: set[int]) -> None:
        """IHAVE of a topic, to neighbours that get no payloads of it."""
        said = self.said
        ids = [id_ for window in self.windows[: said.gossip_windows] for id_ in window.get(topic, ())]
        if not ids:
            return
        may = [link for link in self.others(topic, without | self.direct) if not self.is_below(link, "gossip")]
        for link in self.ordered(set(self.listeners(may))):
            told = ids if len(ids) <= said.ihave_ids else self.some("ihave", ids, said.ihave_ids)
            gossip.setdefault(link, []).append([list(topic), told])

    def listeners(self, may: list[int]) -> list[int]:
        said = self.said
        if said.version == "1.0":
            return self.some("gossip", may, said.d_lazy)
        if said.gossip_draw == "share":
            return self.some("gossip", may, max(said.d_lazy, int(said.gossip_factor * len(may))))
        limit = int(said.gossip_factor * (1 << 32))
        drawn = [link for link in may if self.draw("factor") & 0xFFFFFFFF < limit]
        rest = [link for link in may if link not in drawn]
        return drawn + self.some("gossip", rest, max(0, said.d_lazy - len(drawn)))

    def shift(self, now: int) -> None:
        """A new window; what is in none any more goes, and ids that are old."""
        self.windows.insert(0, {})
        while len(self.windows) > self.said.history:
            for ids in self.windows.pop().values():
                for id_ in ids:
                    self.node.drop(self.cache.pop(id_).body)
        while self.seen and self.seen[first := next(iter(self.seen))] + self.said.seen <= now:
            del self.seen[first]

    def goes_on(self, message: Message, every_ns: int) -> bool:
        return message.time + every_ns < self.node.env.duration_ns or bool(self.cache or self.promises)

    # ---- the mesh --------------------------------------------------------------------------------------------

    def eligible(self, topic: Topic, mesh: set[int]) -> list[int]:
        """Whom this broker may graft."""
        return [link for link in self.others(topic, mesh) if self.may_graft(topic, link)]

    def may_graft(self, topic: Topic, link: int) -> bool:
        return link not in self.direct and link not in self.backoff.get(topic, ()) and self.score(link) >= 0

    def graft(self, message: Message, topic: Topic, links: list[int]) -> None:
        for link in self.ordered(set(links)):
            self.take_in(message.time, topic, link)
            self.send_topics(message, link, GRAFT, [topic])

    def turn_out(self, message: Message, topic: Topic, link: int, px: bool = True) -> None:
        self.let_go(topic, link)
        self.prune(message, topic, link, self.said.backoff, px)

    def prune(
        self, message: Message, topic: Topic, link: int, backoff_ns: int, px: bool = True, noted: bool = True
    ) -> None:
        told = []
        if px and self.said.px:
            known = [other for other in self.others(topic, {link}) if self.score(other) >= 0]
            told = [self.node.neighbour(other) for other in self.some("told", known, self.said.px_peers)]
        self.send_backoff(message, topic, link, backoff_ns, told)
        if noted and self.backs_off:
            self.back_off(topic, link, message.time + backoff_ns)

    def take_in(self, now: int, topic: Topic, link: int) -> None:
        self.mesh[topic].add(link)
        if self.scores is not None:
            self.scores.grafted(link, topic, now)

    def let_go(self, topic: Topic, link: int) -> None:
        self.mesh[topic].discard(link)
        if self.scores is not None:
            self.scores.pruned(link, topic)

    def back_off(self, topic: Topic, link: int, until_ns: int) -> None:
        """A backoff that runs already is never shortened."""
        there = self.backoff.setdefault(topic, {})
        there[link] = max(until_ns, there.get(link, -1))

    def meet(self, message: Message, brokers: list[int]) -> None:
        """Connect to brokers, as far as there are latent links to them."""
        node: Any = self.node
        for link in getattr(node, "latent", ()):
            is_new = node.neighbour(link) in brokers and link not in self.links
            if is_new and node.open(message, link):
                self.connect(message, link, dialled=True)

    # ---- what is told of it ----------------------------------------------------------------------------------

    def entries(self) -> int:
        """Links in meshes, over all topics."""
        return sum(map(len, self.mesh.values()))


_HANDLERS = {
    PUBLISH: "payload_came",
    IHAVE: "ihave_came",
    IWANT: "iwant_came",
    GRAFT: "graft_came",
    PRUNE: "prune_came",
    IDONTWANT: "idontwant_came",
}

