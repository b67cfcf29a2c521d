"""Subscription forwarding: interests travel to the brokers, publications follow the reverse paths.

Rules:
- A broker keeps, for each subscription, over which links it came (its table), and passes it on: on a tree,
  over every other link; with trees per publisher, towards the roots whose path runs through it.
- A publication flows down the tree rooted at the broker where it entered, over a link only if a subscription
  that it answers came over that link and lives behind it.
- A subscription is sent over a link at most once until it is withdrawn there. A withdrawal goes where the
  subscription went. Links are FIFO, so the two cannot overtake each other on one link.
- With the option `recover` neighbours compare their tables after faults (`resync.py`); one broker at a time.

On one shard each subscription is kept once, with one bit per link for "came over it" and one for "was sent
over it": both, since sender and receiver change at different times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from brokers.columns import Column, check_columns
from brokers.compiled import Desk, Handler, deliver, fits, forward, handler, work
from brokers.contract import (
    Batch,
    BrokerProtocol,
    Demand,
    Guarantees,
    Interests,
    Ints,
    Ints32,
    Message,
    ShardEnv,
    ShardProtocol,
)
from brokers.out import Out
from brokers.promises import Faced, Recovery
from brokers.records import Record, reader
from brokers.tables import (
    STORE,
    InterestStore,
    check_ids,
    interests_of,
    is_known,
    merge_bits,
    slot_of,
    unknown,
)
from brokers.views import FLAGS, INTS, NARROW, NARROW_TABLE, WORDS_TABLE
from protocols.content.handing import HANDED, HandOver
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from protocols.content.resync import Compares, Resynchronising, recovery_of
from protocols.expected import to_publishers, to_wanted
from protocols.routes import Routes, order_key

_STAND_ROWS = 1 << 16
_STATE = {
    "id": Column("i8", ("interests",), 0),
    "rows": Column("f8", ("interests", None)),
    "local": Column("?", ("interests",)),
    "came": Column("u8", ("interests", "words")),
    "sent": Column("u8", ("interests", "words")),
}
LOCAL = -1  # in place of a link: it came from a client of this broker


class Options(Compares):
    """Options of `subscription` and `covering`."""

    routing: Annotated[
        Literal["per-publisher", "shared"],
        Field(description="on cycles: a shortest-path tree per publisher broker, or one tree for all"),
    ] = "per-publisher"


def routes_of(env: ShardEnv) -> Routes:
    """The trees of a service; every broker of a shard shares them."""
    return Routes(
        env.links, env.overlay.is_tree, env.publisher_brokers, env.options.routing == "per-publisher"
    )


def guarantees_on(overlay: Any) -> Guarantees:
    """On a cycle FETCH may go another way than the subscription: what was kept may come twice then, or not at all."""
    return Guarantees(hands_over=bool(overlay.is_tree))


def client_of(env: ShardEnv, ids: Any) -> Any:
    """The client number behind subscription ids."""
    return (ids >> 32) - env.entity_base


class PlainSubscription(Resynchronising):
    """Subscription forwarding, one broker at a time."""

    kind: ClassVar[str] = "content"
    kinds: ClassVar[tuple[str, ...]] = ("content", "topics")
    Options: ClassVar[type[BaseModel] | None] = Options
    hands_over: ClassVar[bool] = True
    frugal: ClassVar[bool] = True
    remade: ClassVar[tuple[str, ...]] = ("handing", "timer_min_ns")

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.handing = HandOver(self) if self.hands_over and node.env.sessions is not None else None
        if self.handing is not None:
            self.timer_min_ns = 1
        shared = node.shared
        if "routes" not in shared:
            shared["routes"] = routes_of(node.env)
        self.routes: Routes = shared["routes"]
        self.came_by: dict[int, set[int]] = {}  # subscription -> links it came over, or LOCAL
        self.sent_over: dict[int, set[int]] = {}

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        return guarantees_on(overlay)

    def home(self, id: int) -> int:
        return int(self.node.env.client_broker[client_of(self.node.env, id)])

    def on_message(self, message: Message) -> None:
        if message.type == PUBLISH:
            self._publish(message)
        elif message.type == SUBSCRIBE:
            self._subscribe(message)
            if self.handing is not None:
                self.handing.comes(message)
        elif message.type == UNSUBSCRIBE:
            if self.handing is None or not self.handing.leaves(message):
                self._unsubscribe(message)
        elif message.type in HANDED:
            if self.handing is not None:
                self.handing.on_message(message)
        else:
            self.compare(message)

    def _publish(self, message: Message) -> None:
        node, routes, here = self.node, self.routes, self.node.broker
        tree = int(routes.tree_of[node.origin(message)])
        matched = self.wanting(message)
        local = sorted(
            {client_of(node.env, i) for i in matched if self.home(i) == here and LOCAL in self.came_by[i]}
        )
        count = sum(LOCAL in self.came_by[i] for i in matched if self.home(i) == here)
        for child in routes.children(tree, here).tolist():
            link = int(routes.up[tree, child]) ^ 1
            behind = [
                i for i in matched if link in self.came_by[i] and routes.is_below(tree, child, self.home(i))
            ]
            count += len(behind)
            if behind:
                node.forward(message, link)
            else:
                self.unwanted_behind(message, link)
        for client in local:
            self.give(message, client, matched)
        node.work(message, self.entries(), count)

    def wanting(self, message: Message) -> list[int]:
        """The subscriptions that a publication answers."""
        return self.node.table.match(message.body)

    def unwanted_behind(self, message: Message, link: int) -> None:
        """A publication does not go down a link of its tree, since nobody behind it wants it."""

    def give(self, message: Message, client: int, matched: list[int]) -> None:
        """Hand a publication to a client of this broker, some of whose subscriptions it answers."""
        if self.handing is None:
            self.node.deliver(message, client)
        else:
            ids = [i for i in matched if client_of(self.node.env, i) == client and LOCAL in self.came_by[i]]
            self.handing.hand(message, client, sorted(ids))

    def _subscribe(self, message: Message) -> None:
        id_ = message.word
        came_by = self.came_by.setdefault(id_, set())
        came_by.add(message.link)
        self.node.table.add(id_, client_of(self.node.env, id_), self.node.row(message.body), None)
        self.sent_over.setdefault(id_, set())
        for link in self.ways(id_, message.link):
            self.pass_on(message, id_, link)

    def ways(self, id: int, came: int) -> Sequence[int]:
        """The links over which a subscription goes on that came over one, or from a client."""
        return self.routes.forwards(self.node.broker, came, self.home(id))

    def pass_on(self, message: Message, id: int, link: int) -> None:
        """Have a subscription known behind a link that it may go over."""
        sent = self.sent_over[id]
        if link in sent or not self.passes_on(message, id, link):
            return
        sent.add(link)
        if message.type == SUBSCRIBE and message.word == id:
            self.node.forward(message, link)
        else:
            self.tell(message, link, id)

    def _unsubscribe(self, message: Message) -> None:
        self.withdraw(message, message.word, message.link)

    def withdraw(self, message: Message, id: int, came: int) -> None:
        """A subscription does not come over a link any more, or from its client."""
        came_by = self.came_by.get(id)
        if came_by is None or came not in came_by:
            return
        self._leave(message, id, came)

    def _leave(self, message: Message, id: int, via: int) -> None:
        node, came_by = self.node, self.came_by[id]
        came_by.discard(via)
        for link in self.leaves(id, via):
            self.withdraw_from(message, id, link)
        if not came_by:
            del self.came_by[id], self.sent_over[id]
            node.table.remove(id)

    def leaves(self, id: int, via: int) -> Sequence[int]:
        """The links from which a subscription is withdrawn that does not come by one way any more."""
        ways = self.ways(id, via)
        if self.node.options.recover:  # a withdrawal on one way says nothing of another, which may have been mended
            stays = {link for other in self.came_by[id] for link in self.ways(id, other)}
            ways = tuple(link for link in ways if link not in stays)
        return ways

    def withdraw_from(self, message: Message, id: int, link: int) -> None:
        """Have a subscription forgotten behind a link, if it went over it."""
        if link not in self.sent_over[id]:
            return
        self.sent_over[id].discard(link)
        self.withdrawn(message, id, link)
        if message.type == UNSUBSCRIBE and message.word == id:
            self.node.forward(message, link)
        else:
            self.node.send(message, link, UNSUBSCRIBE, word=id)

    def told(self, link: int) -> list[int]:
        return sorted(id_ for id_, sent in self.sent_over.items() if link in sent)

    def got(self, link: int) -> list[int]:
        return sorted(id_ for id_, came_by in self.came_by.items() if link in came_by)

    def tell(self, message: Message, link: int, id: int) -> None:
        self.node.send_row(message, link, SUBSCRIBE, self.node.table.interest(id)[1], word=id)

    def drop(self, message: Message, link: int, id: int) -> None:
        self.withdraw(message, id, link)

    def state(self) -> dict[str, Any]:
        kept = {} if self.handing is None else {"handing": self.handing.state()}
        return {**super().state(), **kept}

    def load(self, state: dict[str, Any]) -> None:
        handing = state.pop("handing", None)
        super().load(state)
        if self.handing is not None and handing is not None:
            vars(self.handing).update(handing)

    def passes_on(self, message: Message, id: int, link: int) -> bool:
        """Whether a new subscription has to go over a link it may go over."""
        return True

    def withdrawn(self, message: Message, id: int, link: int) -> None:
        """A subscription is about to be withdrawn from a link."""

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        shared = self.node.shared
        if "masks" not in shared:
            shared["masks"] = self.routes.masks()
        mask, links = shared["masks"][broker], self.node.links
        came_by = {
            link for link in links if mask[(link ^ 1) >> 6] >> np.uint64((link ^ 1) & 63) & np.uint64(1)
        }
        if broker == self.node.broker:
            came_by.add(LOCAL)
        if came_by:
            self.came_by[id] = came_by
            self.sent_over[id] = {
                link for link in links if mask[link >> 6] >> np.uint64(link & 63) & np.uint64(1)
            }
            self.node.table.add(id, client, row, None)

    def entries(self) -> int:
        return sum(map(len, self.came_by.values()))

    def describe(self) -> dict[str, Any]:
        return {
            "subscriptions": {
                str(id_): {
                    "client": int(client_of(self.node.env, id_)),
                    "from": named(self.node.env, sorted(came_by)),
                    "sent_to": named(self.node.env, sorted(self.sent_over[id_])),
                }
                for id_, came_by in sorted(self.came_by.items())
            }
        }


def named(env: ShardEnv, links: list[int]) -> list[str]:
    return ["a client" if link < 0 else env.overlay.names[env.links.target[link]] for link in links]


@njit(inline="always")
def _bit(bits, slot, link):
    return (bits[slot, link >> 6] >> np.uint64(link & 63)) & np.uint64(1)


@njit(inline="always")
def _flip(bits, slot, link):
    bits[slot, link >> 6] ^= np.uint64(1) << np.uint64(link & 63)


_RECORD = Record("subscription", {
    **STORE,
    "local": FLAGS, "uses": INTS,  # by slot
    "came": WORDS_TABLE, "sent": WORDS_TABLE,  # by slot, one bit for each link
    "entries": INTS,  # by broker
    "tree_of": NARROW, "in_tree": FLAGS, "up": NARROW_TABLE, "enter": NARROW_TABLE, "leave": NARROW_TABLE,
    "child_start": NARROW_TABLE, "child": NARROW_TABLE,  # those of the routes
    "everywhere": FLAGS,  # whether interests go everywhere on one tree
})  # fmt: skip
_record = reader(_RECORD)


@handler(_RECORD)
def _route(desk, mine, at, stop):
    state = _record(mine)
    for i in range(at, stop):
        done = _publish(desk, state, i) if desk.type[i] == PUBLISH else _change(desk, state, i)
        if not done:
            return i
    return stop


@handler(_RECORD)
def publications(desk, mine, at, stop):
    """Decides on publications, and leaves all else to Python."""
    state = _record(mine)
    for i in range(at, stop):
        if desk.type[i] != PUBLISH or not _publish(desk, state, i):
            return i
    return stop


@njit(cache=True)
def _publish(desk, state, i):
    """Pass a publication on down its tree, and hand it to the clients here; False where that is left to Python."""
    b, body = desk.broker[i], desk.body[i]
    if not is_known(desk, state, body):
        return False
    enter, hits, home = state.enter, state.hits, state.home
    t = state.tree_of[desk.origin[body]]
    low = state.hit_start[body]
    end = low + state.hit_count[body]
    first = enter[t, b]
    high = end
    while low < high:  # hits are ordered along the tree: this broker's subtree is one stretch
        middle = (low + high) // 2
        if enter[t, home[hits[middle]]] < first:
            low = middle + 1
        else:
            high = middle
    while high < end and home[hits[high]] == b:
        high += 1
    if not fits(desk, desk.out_start[b + 1] - desk.out_start[b], high - low):
        return False
    count = 0
    taken = np.int64(-1)
    for j in range(low, high):
        s = hits[j]
        if state.local[s]:
            count += 1
            if state.client[s] != taken:
                taken = state.client[s]
                deliver(desk, i, taken)
    if high < end and enter[t, home[hits[high]]] < state.leave[t, b]:
        count += _down(desk, state, i, t, high, end)
    if state.entries[b] > 0:
        work(desk, i, state.entries[b], count)
    return True


@njit(cache=True)
def _down(desk, state, i, t, j, end):
    """Pass a publication on to the children behind which hits j..end live; returns how many hits had asked here."""
    b = desk.broker[i]
    enter, leave, child, hits, home = state.enter, state.leave, state.child, state.hits, state.home
    count = 0
    at_child, last_child, last = state.child_start[t, b], state.child_start[t, b + 1], leave[t, b]
    while j < end:
        number = enter[t, home[hits[j]]]
        if number >= last:
            break
        low, high = at_child, last_child - 1
        while low < high:
            middle = (low + high + 1) // 2
            if enter[t, child[t, middle]] <= number:
                low = middle
            else:
                high = middle - 1
        c = child[t, low]
        at_child = low + 1
        inward = state.up[t, c]
        found = False
        while j < end and enter[t, home[hits[j]]] < leave[t, c]:
            if _bit(state.came, hits[j], inward):
                found = True
                count += 1
            j += 1
        if found:
            forward(desk, i, inward ^ 1)
    return count


@njit(cache=True)
def _change(desk, state, i):
    """Note a subscription or its end, and pass it on; False where that is left to Python."""
    s = slot_of(state, desk.word[i])
    b, came_by, adds = desk.broker[i], desk.link[i], desk.type[i] == SUBSCRIBE
    first, last = desk.out_start[b], desk.out_start[b + 1]
    if s < 0:
        return not adds  # a withdrawal of what is not there
    if not fits(desk, last - first, 0):
        return False
    known = state.local[s] if came_by < 0 else _bit(state.came, s, came_by ^ 1) == np.uint64(1)
    if not adds and not known:
        return True
    if adds != known:
        if came_by < 0:
            state.local[s] = adds
        else:
            _flip(state.came, s, came_by ^ 1)
        state.entries[b] += 1 if adds else -1
        state.uses[s] += 1 if adds else -1
    if state.everywhere[0]:
        for j in range(first, last):
            o = desk.out_link[j]
            if state.in_tree[o] and o != came_by and (_bit(state.sent, s, o) == np.uint64(0)) == adds:
                _flip(state.sent, s, o)
                forward(desk, i, o)
    else:
        _towards_publishers(desk, state, i, s, adds)
    return True


@njit(cache=True)
def _towards_publishers(desk, state, i, s, adds):
    """Pass a change on to the roots whose trees it came up."""
    b, came_by, home = desk.broker[i], desk.link[i], state.home[s]
    up, enter = state.up, state.enter
    for t in range(up.rows):
        o = up[t, b]
        if o < 0:
            continue
        if came_by < 0:
            if home != b:
                continue
        else:
            below = desk.target[came_by]
            if up[t, below] != came_by ^ 1 or not enter[t, below] <= enter[t, home] < state.leave[t, below]:
                continue
        if (_bit(state.sent, s, o) == np.uint64(0)) == adds:
            _flip(state.sent, s, o)
            forward(desk, i, o)


class Subscription(ShardProtocol):
    """Subscription forwarding over all brokers of a shard at once."""

    kind: ClassVar[str] = "content"
    kinds: ClassVar[tuple[str, ...]] = ("content", "topics")
    Options: ClassVar[type[BaseModel] | None] = Options
    plain: ClassVar[type[BrokerProtocol] | None] = PlainSubscription
    frugal: ClassVar[bool] = True
    hands_over: ClassVar[bool] = True  # as `plain`, which runs where there are sessions
    compiled: ClassVar[Handler | None] = _route

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        return guarantees_on(overlay)

    @classmethod
    def unsuited(cls, options: Any, overlay: Any) -> str:
        return "`recover` asks for it" if options.recover else ""

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Faced) -> Recovery | None:
        return recovery_of(options, overlay, faced)

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        per_publisher = demand.options.routing == "per-publisher"
        return to_publishers(demand, demand.changes, per_publisher) + to_wanted(demand, demand.share, per_publisher)

    def __init__(self, env: ShardEnv) -> None:
        super().__init__(env)
        self.routes = routes_of(env)
        self.store = InterestStore(env, self._order)
        words = self.routes.words
        self.local = np.zeros(256, np.bool_)  # per slot: the client is here and the subscription stands
        self.came = np.zeros((256, words), np.uint64)  # per slot and link: it came over it
        self.sent = np.zeros((256, words), np.uint64)  # per slot and link: it was sent over it
        self.uses = np.zeros(256, np.int64)  # per slot: entries at local brokers
        self.heard = np.zeros((256, 2), np.int32)  # per slot: the body it was learned from, its generation + 1
        self._entries = np.zeros(env.brokers, np.int64)
        self._leaving = np.empty(0, np.int64)  # subscriptions whose end is on its way
        self._everywhere = np.array([self.routes.flood])
        self._desk = Desk(env, self)

    def _order(self, slots: Ints, bodies: NDArray[np.int32]) -> Ints:
        tree = self.routes.tree_of[self.env.bodies.broker[bodies]].astype(np.int64)
        return order_key(self.routes, tree, self.store.home[slots], self.store.client[slots])

    def _reserve(self, count: int) -> None:
        if count > self.local.size:
            size = max(count, 2 * self.local.size)
            for name in ("local", "came", "sent", "uses", "heard"):
                old = getattr(self, name)
                grown = np.zeros((size, *old.shape[1:]), old.dtype)
                grown[: len(old)] = old
                setattr(self, name, grown)

    def stand(self, interests: Interests) -> None:
        assert interests.rows is not None
        env, routes = self.env, self.routes
        self._reserve(self.store.count + interests.id.size)
        slots = self.store.add(interests.id, interests.client, interests.rows)
        home = self.store.home[slots]
        mask = routes.masks()
        inward = mask & link_mask(env.local[env.links.target], routes.words)
        outward = mask & link_mask(env.local[env.links.source], routes.words)
        for at in range(0, slots.size, _STAND_ROWS):  # in pieces: a row is as wide as the overlay has links
            part = slice(at, at + _STAND_ROWS)
            self.came[slots[part]] = inward[home[part]]
            self.sent[slots[part]] = outward[home[part]]
        self.local[slots] = env.local[home]
        per_home = np.bincount(home, minlength=env.brokers)
        self.uses[slots] = (np.bitwise_count(inward).sum(axis=1) + env.local)[home]
        self._entries += np.where(env.local, per_home, 0)
        for link in np.flatnonzero(env.local[env.links.target]).tolist():
            bit = (inward[:, link >> 6] >> np.uint64(link & 63)) & np.uint64(1)
            self._entries[env.links.target[link]] += int(per_home[bit == 1].sum())

    def handle(self, batch: Batch, out: Out) -> None:
        self._make_ready(batch.type, batch.word, batch.body)
        self._desk.decide(batch, out, 0, batch.size)
        self.tidy()

    def prepare(self, type: Ints32, word: Ints, body: Ints32, now: int) -> None:
        self._make_ready(type, word, body)
        self.store.learn_all(PUBLISH)

    def _make_ready(self, type: Ints32, word: Ints, body: Ints32) -> None:
        """Have what these messages need."""
        store = self.store
        if not np.count_nonzero(type):  # of a few numbers the quickest way to ask whether there is any
            store.learn(body)
            return
        ids, bodies_of = unknown(store, word[type == SUBSCRIBE], body[type == SUBSCRIBE])
        if ids.size:
            self._reserve(store.count + ids.size)
            slots = self._learn(ids, self.env.bodies.values(bodies_of))
            self.heard[slots, 0], self.heard[slots, 1] = bodies_of, self.env.bodies.generation[bodies_of] + 1
        store.learn(body[type == PUBLISH])
        ending = word[type == UNSUBSCRIBE]
        if ending.size:
            self._leaving = np.union1d(self._leaving, ending)

    def tidy(self) -> None:
        """Drop subscriptions that no local broker knows any more, nor is going to hear of."""
        if self._leaving.size:
            bodies = self.env.bodies
            slots = self.store.slots(self._leaving)
            body, generation = self.heard[slots].T
            coming = (bodies.generation[body] + 1 == generation) & (bodies.refs[body] > 0)
            known = slots >= 0
            still = known & ((self.uses[slots] > 0) | coming)
            gone = slots[known & ~still]
            self._leaving = self._leaving[still]
            self.sent[gone] = 0  # the slot will be another's
            self.store.remove(gone)

    def columns(self) -> Mapping[str, NDArray[Any]]:
        routes = self.routes
        return {
            **self.store.columns(), "local": self.local, "uses": self.uses, "came": self.came, "sent": self.sent,
            "entries": self._entries, "tree_of": routes.tree_of, "in_tree": routes.in_tree, "up": routes.up,
            "enter": routes.enter, "leave": routes.leave, "child_start": routes.child_start, "child": routes.child,
            "everywhere": self._everywhere,
        }  # fmt: skip

    def _learn(self, ids: Ints, rows: Any) -> Ints:
        return self.store.add(ids, client_of(self.env, ids), rows)

    def _live(self) -> Ints:
        """Slots that local brokers know, by id."""
        ids, live = self.store.slot_of.items()
        return live[np.argsort(ids, kind="stable")]

    def state(self) -> dict[str, Any]:
        live, store = self._live(), self.store
        return {
            "id": store.id[live],
            "rows": store.rows[live],
            "local": self.local[live],
            "came": self.came[live],
            "sent": self.sent[live],
        }

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        env, words = self.env, self.routes.words
        for state in states:
            check_columns(state, _STATE, {"words": words})
            check_ids(env, state["id"])
        ids, rows = interests_of(states)
        bits = merge_bits(ids, states, ("local", "came", "sent"))
        home = env.client_broker[client_of(env, ids)]
        bits["local"] &= env.local[home]
        bits["came"] &= link_mask(env.local[env.links.target], words)
        bits["sent"] &= link_mask(env.local[env.links.source], words)
        known = bits["local"] | bits["came"].any(axis=1)
        self._reserve(int(known.sum()))
        slots = self._learn(ids[known], rows[known])
        self.local[slots], self.came[slots] = bits["local"][known], bits["came"][known]
        self.sent[slots] = bits["sent"][known]
        self.uses[slots] = self.local[slots] + np.bitwise_count(self.came[slots]).sum(axis=1)
        self._entries[:] = np.bincount(home[bits["local"]], minlength=env.brokers)
        for link in np.flatnonzero(env.local[env.links.target]).tolist():
            column = (self.came[slots, link >> 6] >> np.uint64(link & 63)) & np.uint64(1)
            self._entries[env.links.target[link]] += int(column.sum())

    def entries(self) -> Ints:
        return self._entries

    def describe(self, broker: int) -> dict[str, Any]:
        env, store = self.env, self.store
        mine = env.links.out_link[env.links.out_start[broker] : env.links.out_start[broker + 1]].tolist()
        known: dict[str, Any] = {}
        for id_, slot in sorted(zip(*(each.tolist() for each in store.slot_of.items()))):
            came_by = [o for o in mine if _bit.py_func(self.came, slot, o ^ 1)]
            if self.local[slot] and store.home[slot] == broker:
                came_by.insert(0, LOCAL)
            if came_by:
                known[str(id_)] = {
                    "client": int(store.client[slot]), "from": named(env, came_by),
                    "sent_to": named(env, [o for o in mine if _bit.py_func(self.sent, slot, o)]),
                }
        return {"subscriptions": known}


def link_mask(chosen: NDArray[np.bool_], words: int) -> NDArray[np.uint64]:
    """One bit per chosen link."""
    mask = np.zeros(words, np.uint64)
    links = np.flatnonzero(chosen)
    np.bitwise_or.at(mask, links >> 6, np.uint64(1) << (links & 63).astype(np.uint64))
    return mask
