"""Subscription forwarding: interests travel to the brokers, publications follow the reverse paths.

Rules:
- A broker keeps, for each subscription, over which links it came (its table), and passes it on: on a tree,
  over every other link; with trees per publisher, towards the roots whose path runs through it.
- A publication flows down the tree rooted at the broker where it entered, over a link only if a subscription
  that it answers came over that link and lives behind it.
- A subscription is sent over a link at most once until it is withdrawn there. A withdrawal goes where the
  subscription went. Links are FIFO, so the two cannot overtake each other on one link.

On one shard each subscription is kept once, with one bit per link for "came over it" and one for "was sent
over it": both, since sender and receiver change at different times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from brokers.columns import Column, check_columns
from brokers.contract import Batch, BrokerProtocol, Demand, Interests, Ints, Message, ShardEnv, ShardProtocol
from brokers.out import Out
from brokers.tables import InterestStore, check_ids, interests_of, merge_bits
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
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


class Options(BaseModel):
    """Options of `subscription` and `covering`."""

    model_config = ConfigDict(extra="forbid")

    routing: Annotated[
        Literal["per-publisher", "shared"],
        Field(description="on cycles: a shortest-path tree per publisher broker, or one tree for all"),
    ] = "per-publisher"


def routes_of(env: ShardEnv) -> Routes:
    """The trees of a service; every broker of a shard shares them."""
    return Routes(
        env.links, env.overlay.is_tree, env.publisher_brokers, env.options.routing == "per-publisher"
    )


def client_of(env: ShardEnv, ids: Any) -> Any:
    """The client number behind subscription ids."""
    return (ids >> 32) - env.entity_base


class PlainSubscription(BrokerProtocol):
    """Subscription forwarding, one broker at a time."""

    kind: ClassVar[str] = "content"
    Options: ClassVar[type[BaseModel] | None] = Options

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        shared = node.shared
        if "routes" not in shared:
            shared["routes"] = routes_of(node.env)
        self.routes: Routes = shared["routes"]
        self.came_by: dict[int, set[int]] = {}  # subscription -> links it came over, or LOCAL
        self.sent_over: dict[int, set[int]] = {}

    def home(self, id: int) -> int:
        return int(self.node.env.client_broker[client_of(self.node.env, id)])

    def on_message(self, message: Message) -> None:
        if message.type == PUBLISH:
            self._publish(message)
        elif message.type == SUBSCRIBE:
            self._subscribe(message)
        elif message.type == UNSUBSCRIBE:
            self._unsubscribe(message)

    def _publish(self, message: Message) -> None:
        node, routes, here = self.node, self.routes, self.node.broker
        tree = int(routes.tree_of[node.origin(message)])
        matched = node.table.match(message.body)
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
        for client in local:
            node.deliver(message, client)
        node.work(message, self.entries(), count)

    def _subscribe(self, message: Message) -> None:
        id_ = message.word
        came_by = self.came_by.setdefault(id_, set())
        came_by.add(message.link)
        self.node.table.add(id_, client_of(self.node.env, id_), self.node.row(message.body), None)
        sent = self.sent_over.setdefault(id_, set())
        for link in self.routes.forwards(self.node.broker, message.link, self.home(id_)):
            if link not in sent and self.passes_on(message, id_, link):
                sent.add(link)
                self.node.forward(message, link)

    def _unsubscribe(self, message: Message) -> None:
        id_ = message.word
        came_by = self.came_by.get(id_)
        if came_by is None or message.link not in came_by:
            return
        came_by.discard(message.link)
        sent = self.sent_over[id_]
        for link in self.routes.forwards(self.node.broker, message.link, self.home(id_)):
            if link in sent:
                sent.discard(link)
                self.withdrawn(message, id_, link)
                self.node.forward(message, link)
        if not came_by:
            del self.came_by[id_], self.sent_over[id_]
            self.node.table.remove(id_)

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
                    "from": _named(self.node.env, sorted(came_by)),
                    "sent_to": _named(self.node.env, sorted(self.sent_over[id_])),
                }
                for id_, came_by in sorted(self.came_by.items())
            }
        }


def _named(env: ShardEnv, links: list[int]) -> list[str]:
    return ["a client" if link < 0 else env.overlay.names[env.links.target[link]] for link in links]


@njit(inline="always")
def _bit(bits, slot, link):
    return (bits[slot, link >> 6] >> np.uint64(link & 63)) & np.uint64(1)


@njit(inline="always")
def _flip(bits, slot, link):
    bits[slot, link >> 6] ^= np.uint64(1) << np.uint64(link & 63)


# fmt: off
@njit(cache=True)
def _route(
    at, stop, broker, link, type_, body, slot, origin, tree_of, flood, in_tree, up, enter, leave, child_start, child,
    out_start, out_link, target, local, came, sent, entries, uses, home, client, hit_start, hit_count, hits,
    send_event, send_link, sends, deliver_event, deliver_client, matched,
):
    # fmt: on
    """One pass over rows at..stop of the batch, in order; stops early where room for deliveries or sends runs out.

    Returns (row reached, sends, deliveries).
    """
    delivered = 0
    for i in range(at, stop):
        b = broker[i]
        room = out_start[b + 1] - out_start[b]
        if sends + room > send_event.size:
            return i, sends, delivered
        if type_[i] == 0:
            t = tree_of[origin[body[i]]]
            low = hit_start[body[i]]
            end = low + hit_count[body[i]]
            first, last = enter[t, b], leave[t, b]
            high = end
            while low < high:  # hits are ordered along the tree: this broker's subtree is one stretch
                middle = (low + high) // 2
                if enter[t, home[hits[middle]]] < first:
                    low = middle + 1
                else:
                    high = middle
            begin = low
            while high < end and home[hits[high]] == b:
                high += 1
            if delivered + high - begin > deliver_event.size:
                return i, sends, delivered
            count = 0
            taken = np.int64(-1)
            for j in range(begin, high):
                s = hits[j]
                if local[s]:
                    count += 1
                    if client[s] != taken:
                        taken = client[s]
                        deliver_event[delivered] = i
                        deliver_client[delivered] = taken
                        delivered += 1
            at_child = child_start[t, b]
            last_child = child_start[t, b + 1]
            j = high
            while j < end:
                number = enter[t, home[hits[j]]]
                if number >= last:
                    break
                low_child, high_child = at_child, last_child - 1
                while low_child < high_child:
                    middle = (low_child + high_child + 1) // 2
                    if enter[t, child[t, middle]] <= number:
                        low_child = middle
                    else:
                        high_child = middle - 1
                c = child[t, low_child]
                at_child = low_child + 1
                inward = up[t, c]
                found = False
                while j < end and enter[t, home[hits[j]]] < leave[t, c]:
                    if _bit(came, hits[j], inward):
                        found = True
                        count += 1
                    j += 1
                if found:
                    send_event[sends] = i
                    send_link[sends] = inward ^ 1
                    sends += 1
            if matched.size:
                matched[i, 0] = entries[b]
                matched[i, 1] = count
            continue

        s = slot[i]
        came_by = link[i]
        if s < 0:
            continue
        adds = type_[i] == 1
        if came_by < 0:
            known = local[s]
        else:
            known = _bit(came, s, came_by ^ 1) == np.uint64(1)
        if adds == known:
            if not adds:
                continue  # a withdrawal of what is not there
        elif came_by < 0:
            local[s] = adds
        else:
            _flip(came, s, came_by ^ 1)
        if adds != known:
            entries[b] += 1 if adds else -1
            uses[s] += 1 if adds else -1
        if flood:
            for j in range(out_start[b], out_start[b + 1]):
                o = out_link[j]
                if in_tree[o] and o != came_by and (_bit(sent, s, o) == np.uint64(0)) == adds:
                    _flip(sent, s, o)
                    send_event[sends] = i
                    send_link[sends] = o
                    sends += 1
        else:
            h = home[s]
            for t in range(up.shape[0]):
                o = up[t, b]
                if o < 0:
                    continue
                if came_by < 0:
                    if h != b:
                        continue
                else:
                    below = target[came_by]
                    if up[t, below] != came_by ^ 1 or not (enter[t, below] <= enter[t, h] < leave[t, below]):
                        continue
                if (_bit(sent, s, o) == np.uint64(0)) == adds:
                    _flip(sent, s, o)
                    send_event[sends] = i
                    send_link[sends] = o
                    sends += 1
    return stop, sends, delivered


class Subscription(ShardProtocol):
    """Subscription forwarding over all brokers of a shard at once."""

    kind: ClassVar[str] = "content"
    Options: ClassVar[type[BaseModel] | None] = Options
    plain: ClassVar[type[BrokerProtocol] | None] = PlainSubscription

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
        self._entries = np.zeros(env.brokers, np.int64)
        self._work = bool(env.cost.per_entry or env.cost.per_match)

    def _order(self, slots: Ints, bodies: NDArray[np.int32]) -> Ints:
        tree = self.routes.tree_of[self.env.bodies.broker[bodies]].astype(np.int64)
        return order_key(self.routes, tree, self.store.home[slots], self.store.client[slots])

    def _reserve(self, count: int) -> None:
        if count > self.local.size:
            size = max(count, 2 * self.local.size)
            for name in ("local", "came", "sent", "uses"):
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
        slot, gone = self._prepare_changes(batch)
        self._pass(batch, out, slot, 0, batch.size)
        self._forget(gone)

    def _pass(self, batch: Batch, out: Out, slot: Ints, at: int, stop: int) -> None:
        """Run the kernel over rows at..stop."""
        env, store, routes, links = self.env, self.store, self.routes, self.env.links
        if at == stop:
            return
        size = 2 * (stop - at) + int(np.diff(links.out_start).max(initial=1))
        space = 2 * (stop - at)
        matched = np.zeros((batch.size if self._work else 0, 2), np.int64)
        while at < stop:
            send_event, send_link = np.empty(size, np.int64), np.empty(size, np.int64)
            deliver_event, deliver_client = np.empty(space, np.int64), np.empty(space, np.int64)
            # fmt: off
            at, sends, delivered = _route(
                at, stop, batch.broker, batch.link, batch.type, batch.body, slot, env.bodies.broker, routes.tree_of,
                routes.flood, routes.in_tree, routes.up, routes.enter, routes.leave, routes.child_start, routes.child,
                links.out_start, links.out_link, links.target, self.local, self.came, self.sent, self._entries,
                self.uses, store.home, store.client, store.hit_start, store.hit_count, store.hits,
                send_event, send_link, 0, deliver_event, deliver_client, matched,
            )
            # fmt: on
            if sends:
                out.forward(send_event[:sends], send_link[:sends])
            if delivered:
                out.deliver(deliver_event[:delivered], deliver_client[:delivered])
            size, space = 2 * size, 2 * space
        if self._work:
            rows = np.flatnonzero(matched[:, 0])
            if rows.size:
                out.work(rows, matched[rows, 0], matched[rows, 1])

    def _prepare_changes(self, batch: Batch) -> tuple[Ints, Ints]:
        """Take unknown subscriptions into the store.

        Returns each row's slot, and the slots that may be gone after the batch.
        """
        store = self.store
        type_ = batch.type
        if not np.count_nonzero(type_):
            store.learn(batch.body)
            return _NONE, _NONE
        slot = np.full(batch.size, -1, np.int64)
        changes = np.flatnonzero(type_ != PUBLISH)
        slots = store.slots(batch.word[changes])
        unknown = changes[(slots < 0) & (type_[changes] == SUBSCRIBE)]
        if unknown.size:
            ids, first = np.unique(batch.word[unknown], return_index=True)
            self._reserve(store.count + ids.size)
            self._learn(ids, self.env.bodies.values(batch.body[unknown[first]]))
            slots = store.slots(batch.word[changes])
        slot[changes] = slots
        store.learn(batch.body[type_ == PUBLISH])
        gone = slot[type_ == UNSUBSCRIBE]
        return slot, np.unique(gone[gone >= 0])

    def _learn(self, ids: Ints, rows: Any) -> Ints:
        return self.store.add(ids, client_of(self.env, ids), rows)

    def _forget(self, slots: Ints) -> None:
        """Drop subscriptions that no local broker knows. Only after the batch: rows before still match them."""
        if slots.size:
            gone = slots[self.uses[slots] == 0]
            self.sent[gone] = 0  # the slot will be another's
            self.store.remove(gone)

    def _live(self) -> Ints:
        """Slots that local brokers know, by id."""
        live = np.fromiter(self.store.slot_of.values(), np.int64, len(self.store.slot_of))
        return live[np.argsort(self.store.id[live], kind="stable")]

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
        for id_, slot in sorted(store.slot_of.items()):
            came_by = [o for o in mine if _bit.py_func(self.came, slot, o ^ 1)]
            if self.local[slot] and store.home[slot] == broker:
                came_by.insert(0, LOCAL)
            if came_by:
                known[str(id_)] = {
                    "client": int(store.client[slot]), "from": _named(env, came_by),
                    "sent_to": _named(env, [o for o in mine if _bit.py_func(self.sent, slot, o)]),
                }
        return {"subscriptions": known}


_NONE = np.empty(0, np.int64)


def link_mask(chosen: NDArray[np.bool_], words: int) -> NDArray[np.uint64]:
    """One bit per chosen link."""
    mask = np.zeros(words, np.uint64)
    links = np.flatnonzero(chosen)
    np.bitwise_or.at(mask, links >> 6, np.uint64(1) << (links & 63).astype(np.uint64))
    return mask
