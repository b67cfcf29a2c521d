"""All brokers of `gossipsub` in a shard at once, for the compiled rounds: the same as `GossipSub`, to the byte.

What happens is decided in `kernels`, whose arrays are kept here. They grow here, and what nobody here knows yet gets
its number here: topics, publications, subscriptions of clients. Most of that is done before a window (`prepare`), the
rest when the handler comes to it (`_aside`).

It is written for links and neighbours that stay. Where something fails, where links are latent, where a broker that is
pruned is told of others (px), where scores are traced or topics announced again, where brokers are told of drops and
where some attack, `GossipSub` runs in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from pydantic import BaseModel

from brokers.compiled import Desk, Handler
from brokers.contract import (
    NEVER,
    Batch,
    BrokerProtocol,
    Demand,
    Guarantees,
    Interests,
    Ints,
    Ints32,
    ShardEnv,
    ShardProtocol,
)
from brokers.errors import ProtocolFault
from brokers.indexes.ids import IdMap
from brokers.out import Out
from protocols.gossip import kept
from protocols.gossip import kernels as K
from protocols.gossip.gossipsub import GossipSub
from protocols.gossip.options import Options, Scoring, TopicScoring
from protocols.gossip.scores import IGNORED, INVALID, VALID, Topic
from protocols.gossip.slots import FEW, Slots
from protocols.gossip.talking import DECAY, GRAFT, HEARTBEAT, IDONTWANT, IHAVE, JOINED, LEFT, PRUNE, VALIDATED
from protocols.topics.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE, levels_of
from topology import draws

_SEATS = {
    "seat_topic": (np.int32, 0), "seat_broker": (np.int32, 0), "seat_next": (np.int32, -1), "seat_cell": (np.int64, 0),
    "seat_flags": (np.int32, 0), "seat_told": (np.int32, 0), "seat_mesh": (np.int32, 0),
    "seat_published": (np.int64, 0), "seat_members": (np.int32, 0), "seat_interest": (np.int32, -1),
}  # fmt: skip
_CELLS = {"cell": (np.int32, 0), "until": (np.int64, -1), "grafted": (np.int64, -1)}
_INTERESTS = {
    "interest_seat": (np.int32, 0), "interest_client": (np.int64, 0), "interest_next": (np.int32, -1),
    "interest_stands": (np.bool_, False),
}  # fmt: skip
_SLOTS = {
    "slot_topic": (np.int32, -1), "slot_verdict": (np.int32, 0), "slot_body": (np.int32, -1),
    "slot_cached": (np.int64, 0), "slot_uses": (np.int64, 0),
}  # fmt: skip
_BODIES = {"slot_of_body": (np.int32, -1), "body_generation": (np.int32, -1)}
_PROMISES = {
    "promise_next": (np.int32, -1), "promise_link": (np.int32, 0), "promise_slot": (np.int32, 0),
    "promise_until": (np.int64, 0),
}  # fmt: skip
_NAMING = (JOINED, LEFT, GRAFT)  # messages that name topics, as lists of levels


def _asks_for_plain(options: Options) -> str:
    """The options that only the author's form knows, as far as they are said."""
    return " and ".join(f"`{name}`" for name in ("px", "watch_ticks", "announce_ticks") if getattr(options, name))


class GossipShard(ShardProtocol):
    """See the module."""

    kind: ClassVar[str] = "topics"
    plain: ClassVar[type[BrokerProtocol] | None] = GossipSub
    requires: ClassVar[Mapping[str, Any]] = GossipSub.requires
    guarantees: Guarantees = GossipSub.guarantees
    Options: ClassVar[type[BaseModel] | None] = Options
    pads: ClassVar[str] = GossipSub.pads
    resends: ClassVar[bool] = True
    own_tables: ClassVar[Mapping[str, Any]] = GossipSub.own_tables
    opens: ClassVar[bool] = True  # the author's form does, which runs where there are latent links
    compiled: ClassVar[Handler | None] = K.decide

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Mapping[str, Any]) -> list[tuple[str, str]]:
        return GossipSub.misfits(options, overlay, params)

    @classmethod
    def remarks(cls, options: Any, overlay: Any) -> list[str]:
        slow = _asks_for_plain(options)
        told = [f"with {slow} it runs in the author's form, some ten times slower"] if slow else []
        return [*GossipSub.remarks(options, overlay), *told]

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        return GossipSub.expected_events(demand)

    @classmethod
    def unsuited(cls, options: Any, overlay: Any) -> str:
        if asking := _asks_for_plain(options):
            return f"{asking} {'ask' if ' and ' in asking else 'asks'} for it"
        return "there are latent links" if overlay.has_latent else ""

    def __init__(self, env: ShardEnv) -> None:
        super().__init__(env)
        self.said: Options = env.options
        self.scoring: Scoring | None = self.said.scoring
        self.locals = np.flatnonzero(env.local[: env.overlay.brokers])
        self.topics: dict[Topic, int] = {}
        self._topic_map, self._interest_map = IdMap(), IdMap()
        self.slots = Slots(self._widen)
        self._free_interests = list[int]()
        self._ending: set[int] = set()  # subscriptions that clients take back
        self._interests = 0
        self._asked = (-1, -1)  # the row that was left last, and with how much room
        degree = np.diff(env.links.out_start).astype(np.int64)
        self.degree = degree
        self._most = int(degree.max(initial=0))
        self.arrays: dict[str, NDArray[Any]] = {
            **self._options(), **self._of_links(), **self._of_brokers(), **_new(_SEATS, FEW), **_new(_CELLS, FEW),
            **_new(_INTERESTS, FEW), **_new(_SLOTS, FEW), **_new(_BODIES, 0), **_new(_PROMISES, FEW),
            "did": np.zeros((FEW, K.DID)), "says": np.zeros((1, len(K.TOPIC_SAYS))),
            "seat_of": np.full((1, env.brokers), -1, np.int32), "topic_start": np.zeros(1, np.int64),
            "topic_level": np.zeros(0, np.int64), "rank": np.zeros(1, np.int32),
            "slots": np.array([FEW]), "held": np.zeros((self.locals.size * FEW, K.HELD), np.int64),
            "brought": np.zeros(0, np.uint64), "refusal": _no_pairs(FEW, 2), "asking": _no_pairs(FEW, 3),
            "chosen": np.zeros(self._most + FEW, np.int64), "ranked": np.zeros(self._most + FEW, np.int64),
            "picked": np.zeros(FEW, np.int64), "told": np.zeros((FEW, 4), np.int64),
        }  # fmt: skip
        self._maps()
        self._chain_promises(0)
        self.arrays["brought"] = np.zeros(self._words * FEW, np.uint64)
        self.desk = Desk(env, self)

    # ---- what stands from the start ----------------------------------------------------------------------

    def _options(self) -> dict[str, NDArray[Any]]:
        said, scoring = self.said, self.scoring
        old = said.version == "1.0"
        numbers = [int(getattr(said, name)) for name in K.WHOLE]
        numbers += [
            not old, said.version == "1.2", said.gossip_draw == "share", self.env.duration_ns, scoring is not None,
            scoring.decay_every if scoring else NEVER,
        ]  # fmt: skip
        amounts = [said.gossip_factor]
        if scoring:
            below = scoring.thresholds
            amounts += [
                scoring.cap, scoring.behaviour_weight, scoring.behaviour_threshold, scoring.behaviour_decay,
                scoring.decay_to_zero, below.gossip, below.publish, below.graylist, below.opportunistic,
            ]  # fmt: skip
        amount = np.zeros(K.AMOUNTS)
        amount[: len(amounts)] = amounts
        return {"said": np.array(numbers, np.int64), "amount": amount, "counts": np.zeros(K.COUNTS, np.int64)}

    def _of_links(self) -> dict[str, NDArray[Any]]:
        links, count = self.env.links, self.env.links.source.size
        out, source = links.out_link.astype(np.int64), links.source[links.out_link].astype(np.int64)
        place = np.zeros(count, np.int32)
        place[out] = np.arange(out.size) - links.out_start[source]
        every = np.arange(count, dtype=np.int64)
        drawn = _first_draws(draws.streams(draws.purpose_key(self.env.seed, "gossipsub/dialled"), every >> 1))
        direct = np.zeros(count, np.bool_)
        for a, b in self.said.direct:
            direct |= ((links.source == a) & (links.target == b)) | ((links.source == b) & (links.target == a))
        floats = {name: np.zeros(count) for name in ("application", "address", "behaviour", "frozen")}
        if self.scoring:
            floats["application"][:] = self.scoring.app_weight * self._thought_of(links.target)
            floats["address"][out] = self.scoring.address_weight * self._crowded(source, links.target[out])
        return {
            "place": place, "dialled": (drawn & np.uint64(1)) == (every & 1).astype(np.uint64), "direct": direct,
            **floats, **{name: np.zeros(count, np.int64) for name in ("had", "asked", "refused")},
        }  # fmt: skip

    def _thought_of(self, target: NDArray[np.int32]) -> NDArray[np.float64]:
        """What the application thinks of the far ends of links."""
        assert self.scoring is not None
        of_broker = np.zeros(self.env.brokers)
        for broker, value in self.scoring.app.items():
            of_broker[broker] = value
        return of_broker[target]

    def _crowded(self, source: Ints, target: NDArray[np.int32]) -> Ints:
        """Of links, the square of the neighbours at the address of the far end beyond what is tolerated."""
        assert self.scoring is not None
        address = target.astype(np.int64) // self.scoring.address_brokers
        _, which, count = np.unique(source * self.env.brokers + address, return_inverse=True, return_counts=True)
        shared: Ints = np.maximum(0, count[which] - self.scoring.address_threshold)
        return shared * shared

    def _of_brokers(self) -> dict[str, NDArray[Any]]:
        env, count, history = self.env, self.env.brokers, self.said.history
        local = np.full(count, -1, np.int32)
        local[self.locals] = np.arange(self.locals.size)
        words = (self.degree[self.locals] + 63) >> 6 if self.scoring else np.zeros(self.locals.size, np.int64)
        self._words = int(words.sum())
        purposes = [draws.purpose_key(env.seed, f"gossipsub/{purpose}") for purpose in K.PURPOSES]
        return {
            "local": local, "drawn": np.zeros((len(K.PURPOSES), count), np.int64),
            "keys": np.array([draws.streams(key, np.arange(count)) for key in purposes]),
            "brought_from": np.concatenate([[0], np.cumsum(words)]).astype(np.int64),
            "first_seat": np.full(count, -1, np.int32), "promise_first": np.full(count, -1, np.int32),
            "seen_first": np.full(count, -1, np.int64), "decayed": np.full(count, -1, np.int64),
            **{name: np.zeros(count, np.int64) for name in ("ticks", "shifts", "seen_last", "cached")},
            **{name: np.zeros(count, np.int64) for name in ("cache_first", "cache_last")},
            **{name: np.zeros((count, history), np.int64) for name in ("window_first", "window_count")},
        }  # fmt: skip

    @property
    def timer_min_ns(self) -> int:
        said = self.said
        times = [said.heartbeat, said.first_heartbeat, said.validation or NEVER]
        return min(*times, self.scoring.decay_every if self.scoring else NEVER)

    def first_timers(self) -> list[tuple[int, int, int, int]]:
        found = []
        for b in self.locals.tolist():
            self.arrays["drawn"][K.PHASE, b] += 1
            phase = int(draws.bits(self.arrays["keys"][K.PHASE, b], 1)) % self.said.heartbeat
            found.append((b, self.said.first_heartbeat + phase, HEARTBEAT, 0))
            if self.scoring:
                found.append((b, self.scoring.decay_every, DECAY, 0))
        return found

    def stand(self, interests: Interests) -> None:
        """Everybody knows of them; meshes are made with the first heartbeats."""
        env, links, a = self.env, self.env.links, self.arrays
        assert interests.rows is not None
        for id_, client, row in zip(interests.id.tolist(), interests.client.tolist(), interests.rows):
            topic, home = self.topic_number(tuple(levels_of(SUBSCRIBE, row))), int(env.client_broker[client])
            if env.local[home]:
                interest = self.interest_number(id_, client, topic)
                a = self.arrays
                seat = int(a["interest_seat"][interest])
                a["interest_stands"][interest] = True
                a["seat_members"][seat] += 1
                a["seat_flags"][seat] |= K.JOINED_IT
            for link in links.out_link[links.out_start[home] : links.out_start[home + 1]].tolist():
                if env.local[links.target[link]]:
                    self._told(topic, int(links.target[link]), link ^ 1)

    def _told(self, topic: int, broker: int, link: int) -> None:
        """A broker knows that the neighbour over its link has joined."""
        seat = self.seat_number(topic, broker)
        cell = int(self.arrays["seat_cell"][seat] + self.arrays["place"][link])
        if not self.arrays["cell"][cell] & K.TOLD:
            self.arrays["cell"][cell] |= K.TOLD
            self.arrays["seat_told"][seat] += 1

    # ---- rounds ------------------------------------------------------------------------------------------

    def columns(self) -> Mapping[str, NDArray[Any]]:
        return self.arrays

    def handle(self, batch: Batch, out: Out) -> None:
        self.prepare(batch.type, batch.word, batch.body, 0)
        self._asked = (-1, -1)
        self.desk.decide(batch, out, 0, batch.size, lambda at: self._aside(batch, at))
        self.tidy()

    def prepare(self, type: Ints32, word: Ints, body: Ints32, now: int) -> None:
        subscribed, published = type == SUBSCRIBE, (type == PUBLISH) | (type == VALIDATED)
        if subscribed.any():
            self._learn_interests(word[subscribed], body[subscribed])
        if published.any():
            self._learn_publications(body[published])
        self._ending.update(word[type == UNSUBSCRIBE].tolist())

    def _learn_interests(self, word: Ints, body: Ints32) -> None:
        """New subscriptions of clients here."""
        client = (word >> 32) - self.env.entity_base
        new = (self._interest_map.find(word) < 0) & self.env.local[self.env.client_broker[client]]
        for id_, number, handle in zip(word[new].tolist(), client[new].tolist(), body[new]):
            if self._interest_map.find(np.array([id_]))[0] < 0:
                row = self.env.bodies.values(np.array([handle], np.int32))[0]
                self.interest_number(id_, number, self.topic_number(tuple(levels_of(SUBSCRIBE, row))))

    def _learn_publications(self, body: Ints32) -> None:
        """A slot for each that has none."""
        bodies = self.env.bodies
        if bodies.capacity > self.arrays["slot_of_body"].size:
            self._grow(_BODIES, bodies.capacity)
        known = self.arrays["body_generation"][body] == bodies.generation[body]
        fresh = np.unique(body[~known])
        if not fresh.size:
            return
        for handle, row in zip(fresh.tolist(), bodies.values(fresh)):
            slot = self.slot_number(int(bodies.key[handle]), int(bodies.time[handle]) + self.said.seen)
            if self.arrays["slot_topic"][slot] < 0:
                self.arrays["slot_topic"][slot] = self.topic_number(tuple(levels_of(PUBLISH, row)))
                self.arrays["slot_verdict"][slot] = self._verdict(handle)
            self.arrays["slot_of_body"][handle] = slot
            self.arrays["body_generation"][handle] = bodies.generation[handle]

    def _verdict(self, handle: int) -> int:
        """What validation says of a publication, which is the same everywhere."""
        said, bodies = self.said, self.env.bodies
        if int(bodies.broker[handle]) in said.invalid_from:
            return INVALID
        if not said.invalid and not said.ignored:
            return VALID
        drawn = float(draws.uniform(draws.stream(self.env.seed, int(bodies.key[handle]), "gossipsub/valid"), 0))
        return INVALID if drawn < said.invalid else IGNORED if drawn < said.invalid + said.ignored else VALID

    def _aside(self, batch: Batch, at: int) -> int:
        """What the handler lacks for a row: room, or a number for something."""
        type_, body = int(batch.type[at]), int(batch.body[at])
        before = self._room()
        if batch.link[at] >= 0 and body >= 0 and type_ != PUBLISH:
            said = self.env.bodies.object(body)
            named = said if type_ in _NAMING else [said[:-2]] if type_ == PRUNE else []
            for levels in named:
                self.topic_number(tuple(levels))
            ids = said if type_ == IDONTWANT else [id_ for _, told in said for id_ in told] if type_ == IHAVE else []
            for id_ in ids:
                self.slot_number(id_, int(batch.time[at]) + self.said.seen)
            self._reserve_work(len(said) + len(ids))
        self._reserve_seats()
        self._reserve_promises()
        self._reserve_pairs("refusal", K.REFUSALS, batch, at)
        self._reserve_pairs("asking", K.ASKED_FOR, batch, at)
        counts = self.arrays["counts"]
        self._reserve_told(int(counts[K.WANTS_TOLD]), int(counts[K.WANTS_PICKED]))
        if self._asked == (at, self._room()) and before == self._room():
            raise ProtocolFault(f"GossipShard has no answer to a message of type {type_} at broker {batch.broker[at]}")
        self._asked = (at, self._room())
        return at

    def _room(self) -> int:
        """A number that goes up with whatever grows."""
        known = len(self.topics) + len(self.slots) + self._interests
        return known + sum(array.size for array in self.arrays.values())

    def tidy(self) -> None:
        self._drop_interests()
        self._drop_slots()

    def held(self) -> Ints:
        cached = self.arrays["slot_cached"] > 0
        return self.arrays["slot_body"][cached].astype(np.int64)

    # ---- numbers for what is new -------------------------------------------------------------------------

    def topic_number(self, levels: Topic) -> int:
        """The number of a topic."""
        found = self.topics.get(levels)
        if found is not None:
            return found
        number, a = len(self.topics), self.arrays
        name = np.array([K.name_of(np.array(levels, np.int64))])
        if self._topic_map.find(name)[0] >= 0:
            raise ProtocolFault(f"two topics have one fingerprint; the second is {levels}")
        self.topics[levels] = number
        self._topic_map.add(name, np.array([number]))
        if number >= a["rank"].size:
            room = 2 * number
            self._put("rank", _longer(a["rank"], room, 0))
            self._put("says", _longer(a["says"], room, 0.0))
            self._put("seat_of", _longer(a["seat_of"], room, -1))
        self._put("topic_level", np.append(self.arrays["topic_level"], np.array(levels, np.int64)))
        self._put("topic_start", np.append(self.arrays["topic_start"], self.arrays["topic_level"].size))
        self.arrays["rank"][list(map(self.topics.__getitem__, sorted(self.topics)))] = np.arange(number + 1)
        if self.scoring:
            says = self._says(levels, self.scoring)
            self.arrays["says"][number] = [float(getattr(says, name)) for name in K.TOPIC_SAYS]
        self._maps()
        return number

    def _says(self, levels: Topic, scoring: Scoring) -> TopicScoring:
        return scoring.topics.get(self._name(levels), scoring.topic) if scoring.topics else scoring.topic

    def _name(self, levels: Topic) -> str:
        return str(self.env.kind.row_to_object(PUBLISH, np.array(levels, np.float64)))

    def seat_number(self, topic: int, broker: int) -> int:
        """The seat of a topic at a broker."""
        self._reserve_seats()
        return int(_seat_at(self.arrays_held, self.degree[broker], broker, topic))

    @property
    def arrays_held(self) -> int:
        """The arrays, as kernels take them."""
        self._held = K.MINE.of(self.arrays)
        return self._held.address

    def interest_number(self, id_: int, client: int, topic: int) -> int:
        """A number for a subscription of a client here, among those of its topic by client."""
        seat = self.seat_number(topic, int(self.env.client_broker[client]))
        if self._free_interests:
            number = self._free_interests.pop()
        else:
            number, self._interests = self._interests, self._interests + 1
            if number >= self.arrays["interest_seat"].size:
                self._grow(_INTERESTS, 2 * number)
        a = self.arrays
        a["interest_seat"][number], a["interest_client"][number] = seat, client
        a["interest_stands"][number] = False
        before, follows = -1, int(a["seat_interest"][seat])
        while follows >= 0 and a["interest_client"][follows] <= client:
            before, follows = follows, int(a["interest_next"][follows])
        a["interest_next"][number] = follows
        if before < 0:
            a["seat_interest"][seat] = number
        else:
            a["interest_next"][before] = number
        self._interest_map.add(np.array([id_]), np.array([number]))
        self._maps()
        return number

    def _drop_interests(self) -> None:
        """Those that were taken back."""
        if not self._ending:
            return
        a, ids = self.arrays, np.array(sorted(self._ending), np.int64)
        numbers = self._interest_map.find(ids)
        self._ending.difference_update(ids[numbers < 0].tolist())
        for id_, number in zip(ids.tolist(), numbers.tolist()):
            if number >= 0 and not a["interest_stands"][number]:
                seat = int(a["interest_seat"][number])
                before, at = -1, int(a["seat_interest"][seat])
                while at != number:
                    before, at = at, int(a["interest_next"][at])
                if before < 0:
                    a["seat_interest"][seat] = a["interest_next"][number]
                else:
                    a["interest_next"][before] = a["interest_next"][number]
                self._interest_map.remove(np.array([id_]))
                self._free_interests.append(number)
                self._ending.discard(id_)

    def slot_number(self, id_: int, until_ns: int) -> int:
        """The slot of a publication, for so long at least."""
        known = len(self.slots)
        found = self.slots.number(id_, until_ns)
        if len(self.slots) > known:
            self._maps()
        return found

    def _drop_slots(self) -> None:
        """Those of publications that nobody here remembers, and nobody will take in any more."""
        a = self.arrays
        gone = self.slots.forget(int(a["counts"][K.NOW]), a["slot_uses"])
        if gone.size:
            a["slot_topic"][gone] = a["slot_body"][gone] = -1
            a["body_generation"][np.isin(a["slot_of_body"], gone)] = -1

    # ---- room --------------------------------------------------------------------------------------------

    def _put(self, name: str, array: NDArray[Any]) -> None:
        self.arrays = {**self.arrays, name: array}

    def _maps(self) -> None:
        """Maps may have other arrays than before."""
        self.arrays = {
            **self.arrays, "topic_keys": self._topic_map.keys, "topic_slots": self._topic_map.slots,
            "id_keys": self.slots.map.keys, "id_slots": self.slots.map.slots,
            "slot_id": self.slots.id, "slot_until": self.slots.until,
            "interest_keys": self._interest_map.keys, "interest_slots": self._interest_map.slots,
        }  # fmt: skip

    def _grow(self, which: Mapping[str, tuple[Any, Any]], size: int) -> None:
        grown = {name: _longer(self.arrays[name], size, fill) for name, (_, fill) in which.items()}
        self.arrays = {**self.arrays, **grown}

    def _reserve_seats(self) -> None:
        counts = self.arrays["counts"]
        if counts[K.SEATS] >= self.arrays["seat_topic"].size:
            self._grow(_SEATS, 2 * self.arrays["seat_topic"].size)
        if counts[K.CELLS] + self._most > self.arrays["cell"].size:
            size = 2 * self.arrays["cell"].size + self._most
            self._grow(_CELLS, size)
            self._put("did", _longer(self.arrays["did"], size if self.scoring else 1, 0.0))

    def _reserve_promises(self) -> None:
        size = self.arrays["promise_next"].size
        if self.arrays["counts"][K.PROMISES] + 1 >= size:
            self._grow(_PROMISES, 2 * size)
            self._chain_promises(size)

    def _chain_promises(self, first: int) -> None:
        """Those from there on are free."""
        a = self.arrays
        size = a["promise_next"].size
        a["promise_next"][first:] = [*range(first + 1, size), a["counts"][K.FREE_PROMISE] if first else -1]
        a["counts"][K.FREE_PROMISE] = first

    def _reserve_pairs(self, name: str, counted: int, batch: Batch, at: int) -> None:
        """Half of a table of pairs is empty, once those are gone that nobody asks for any more."""
        table, count = self.arrays[name], self.arrays["counts"]
        more = int(self.env.bodies.data_size[batch.body[at]]) if batch.body[at] >= 0 else 0  # ids at most
        if 5 * (int(count[counted]) + more) <= 3 * len(table):
            return
        still = self.still_refused(table) if name == "refusal" else self.still_asking(table)
        size = len(table)
        while 2 * (int(still.sum()) + more) > size:
            size *= 2
        moved = _no_pairs(size, table.shape[1] - 1)
        count[counted] = K.move_pairs(table, moved, still)
        self._put(name, moved)

    def still_refused(self, table: Ints) -> NDArray[np.bool_]:
        broker = self.env.links.source[np.maximum(table[:, 0], 0) >> 32]
        return (table[:, 0] >= 0) & (table[:, 1] > self.arrays["ticks"][broker])

    def still_asking(self, table: Ints) -> NDArray[np.bool_]:
        a, key = self.arrays, np.maximum(table[:, 0], 0)
        row = a["local"][self.env.links.source[key >> 32]] * a["slots"][0] + (key & 0xFFFFFFFF)
        held = a["held"][np.where(table[:, 0] >= 0, row, 0)]
        return (table[:, 0] >= 0) & (held[:, K.META] & K.CACHED > 0) & (held[:, K.CAME] == table[:, 1])

    def _reserve_work(self, ids: int) -> None:
        if ids > self.arrays["chosen"].size:
            self._put("chosen", np.zeros(2 * ids, np.int64))

    def _reserve_told(self, told: int, picked: int) -> None:
        if told > min(len(self.arrays["told"]), self.arrays["chosen"].size, self.arrays["ranked"].size):
            self._put("told", np.zeros((2 * told, 4), np.int64))
            for name in ("chosen", "ranked"):
                self._put(name, _longer(self.arrays[name], 2 * told, 0))
        if picked > self.arrays["picked"].size:
            self._put("picked", np.zeros(2 * picked, np.int64))

    def _widen(self, slots: int) -> None:
        """So many publications; rows of each broker lie together."""
        a, before = self.arrays, int(self.arrays["slots"][0])
        self._grow(_SLOTS, slots)
        held = np.zeros((self.locals.size, slots, K.HELD), np.int64)
        held[:, :before] = a["held"].reshape(self.locals.size, before, K.HELD)
        self._put("held", held.reshape(-1, K.HELD))
        if self.scoring:
            self._put("brought", _spread(a["brought"], a["brought_from"], before))
        self._put("slots", np.array([slots]))

    # ---- checkpoints -------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return kept.state(self)

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        kept.load(self, states, handle_of)

    def interests(self) -> tuple[Ints, Ints]:
        """Subscriptions of clients here, by id, and their numbers."""
        ids, numbers = self._interest_map.items()
        order = np.argsort(ids, kind="stable")
        return ids[order], numbers[order]

    def promise(self, broker: int, slot: int, link: int, until_ns: int) -> None:
        """A neighbour said that it has something."""
        self._reserve_promises()
        _promise(self.arrays_held, broker, slot, link, until_ns)

    def enter_pairs(self, name: str, counted: int, rows: Ints) -> None:
        """Rows of a table of pairs, of which none is in it."""
        table = self.arrays[name]
        size = len(table)
        while 2 * (int(self.arrays["counts"][counted]) + len(rows)) > size:
            size *= 2
        moved = _no_pairs(size, table.shape[1] - 1)
        count = K.move_pairs(table, moved, table[:, 0] >= 0)
        self.arrays["counts"][counted] = count + K.move_pairs(rows, moved, np.ones(len(rows), np.bool_))
        self._put(name, moved)

    # ---- what is told of it ------------------------------------------------------------------------------

    def entries(self) -> Ints:
        """Links in meshes, over all topics."""
        a, seats = self.arrays, int(self.arrays["counts"][K.SEATS])
        return np.bincount(a["seat_broker"][:seats], a["seat_mesh"][:seats], self.env.brokers).astype(np.int64)

    def describe(self, broker: int) -> dict[str, Any]:
        env, a, start = self.env, self.arrays, self.env.links.out_start[broker]
        names, links = env.overlay.names, env.links.out_link[start : start + self.degree[broker]].tolist()
        topics = {number: levels for levels, number in self.topics.items()}
        mesh, neighbours, backing_off = {}, {}, 0
        seat = int(a["first_seat"][broker])
        while seat >= 0:
            cells = slice(int(a["seat_cell"][seat]), int(a["seat_cell"][seat] + self.degree[broker]))
            flags, topic = a["cell"][cells], self._name(topics[int(a["seat_topic"][seat])])
            told = [[names[env.links.target[link]] for link, has in zip(links, flags & bit) if has] for bit in _BITS]
            if a["seat_flags"][seat] & K.JOINED_IT:
                mesh[topic] = told[0]
            if told[1]:
                neighbours[topic] = told[1]
            backing_off += int((a["until"][cells] >= 0).sum())
            seat = int(a["seat_next"][seat])
        held = self.arrays_held
        scores = {names[env.links.target[link]]: _score_at(held, broker, link) for link in links if self.scoring}
        return {
            "mesh": mesh, "neighbours": neighbours, "backing off": backing_off, "cached": int(a["cached"][broker]),
            "scores": scores, "dropped": {},
        }  # fmt: skip


_BITS = (K.IN_MESH, K.TOLD)


def _new(which: Mapping[str, tuple[Any, Any]], size: int) -> dict[str, NDArray[Any]]:
    return {name: np.full(size, fill, dtype) for name, (dtype, fill) in which.items()}


def _longer(array: NDArray[Any], size: int, fill: Any) -> NDArray[Any]:
    grown = np.full((max(size, len(array)), *array.shape[1:]), fill, array.dtype)
    grown[: len(array)] = array
    return grown


def _no_pairs(size: int, values: int) -> Ints:
    table = np.zeros((size, values + 1), np.int64)
    table[:, 0] = -1
    return table


@njit(cache=True)
def _spread(brought, first, size):
    """Bits of who brought what, with room for twice as many publications."""
    wider = np.zeros(2 * brought.size, np.uint64)
    for b in range(first.size - 1):
        count = (first[b + 1] - first[b]) * size
        for k in range(count):
            wider[2 * first[b] * size + k] = brought[first[b] * size + k]
    return wider


@njit(cache=True)
def _first_draws(keys):
    drawn = np.empty(keys.size, np.uint64)
    for i in range(keys.size):
        drawn[i] = draws.bits(keys[i], 0)
    return drawn


@njit(cache=True)
def _seat_at(mine, degree, broker, topic):
    return K.seat_of(K.mine_at(mine), degree, broker, topic)


@njit(cache=True)
def _promise(mine, broker, slot, link, until_ns):
    K.promise(K.mine_at(mine), broker, slot, link, until_ns)


@njit(cache=True)
def _score_at(mine, broker, link):
    return K.score_of(K.mine_at(mine), broker, link)
