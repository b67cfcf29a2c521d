"""Covering: as `subscription`, but a subscription that another one covers stays behind.

Rules:
- A subscription goes over a link only if none of those that went over it covers it: matches everything that
  it matches. The tables and the traffic behind the link stay small.
- When a subscription is withdrawn from a link, those that it kept back there go first, oldest id first, unless
  something else that went over the link covers them too; then the withdrawal follows. So there is no moment at
  which the far side knows less than it should on a link, and FIFO links keep it so.
- Who leans on whom is traced: a subscription that was kept back is in force only while what covers it is.

Ranges cover ranges: one subscription covers another if each of its constraints holds the other's constraint
on the same attribute. What is no ranges by itself, a filter of topics, its kind tells as such (`Kind.ranges`).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.compiled import Handler
from brokers.contract import Batch, BrokerProtocol, Demand, Floats, Interests, Ints, Message, ShardEnv
from brokers.out import Out
from protocols.content.kind import PUBLISH, SUBSCRIBE
from protocols.content.subscription import LOCAL, PlainSubscription, Subscription, link_mask, publications
from protocols.expected import Tree, flow, to_publishers, to_wanted
from protocols.routes import Routes


def covers(outer: Any, inner: Any) -> bool:
    """Whether every publication that `inner` matches is matched by `outer`; both are rows of triples."""
    have = {int(a): (low, high) for a, low, high in np.reshape(inner, (-1, 3)).tolist() if a == a}
    return all(
        int(a) in have and low <= have[int(a)][0] and have[int(a)][1] <= high
        for a, low, high in np.reshape(outer, (-1, 3)).tolist()
        if a == a
    )


class PlainCovering(PlainSubscription):
    """Covering, one broker at a time."""

    state_version: ClassVar[int] = 2

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.ranges: dict[int, Any] = {}  # subscription -> what it asks for

    def _subscribe(self, message: Message) -> None:
        self.ranges[message.word] = self._ranges(self.node.row(message.body))
        super()._subscribe(message)

    def withdraw(self, message: Message, id: int, came: int) -> None:
        super().withdraw(message, id, came)
        if id not in self.came_by:
            self.ranges.pop(id, None)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        node = self.node
        ranges = self._ranges(row)
        world: _Standing = node.shared.setdefault("standing", _Standing(self.routes))
        came_by, sent = world.spread(id, broker, ranges)
        here = came_by.get(node.broker)
        if here:
            self.came_by[id] = set(here)
            self.sent_over[id] = {link for link in node.links if link in sent}
            self.ranges[id] = ranges
            node.table.add(id, client, row, None)

    def passes_on(self, message: Message, id: int, link: int) -> bool:
        cover = self._cover(id, link)
        if cover is None:
            return True
        self.node.leans(id, cover)
        return False

    def _cover(self, id: int, link: int) -> int | None:
        """The oldest subscription that went over the link and covers this one."""
        mine, home = self.ranges[id], self.home(id)
        for other in sorted(self.sent_over):
            if (
                other != id
                and link in self.sent_over[other]
                and covers(self.ranges[other], mine)
                and self.routes.serves(link, home, self.home(other))
            ):
                return other
        return None

    def withdrawn(self, message: Message, id: int, link: int) -> None:
        for other in sorted(self.came_by):
            if other == id or link in self.sent_over[other] or not covers(self.ranges[id], self.ranges[other]):
                continue
            if any(link in self.ways(other, via) for via in self.came_by[other]):
                self.pass_on(message, other, link)

    def _ranges(self, row: Any) -> Any:
        return self.node.env.kind.ranges(row[None, :])[0]


class _Standing:
    """Interests that stand at time 0, as if issued and settled one after the other over the whole overlay."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._went: dict[int, list[tuple[int, int, Any]]] = {}  # link -> (id, home, row) of what went over it
        self._done: dict[int, tuple[dict[int, list[int]], set[int]]] = {}

    def spread(self, id: int, home: int, row: Any) -> tuple[dict[int, list[int]], set[int]]:
        """Which links an interest came by, per broker, and the links it went over."""
        if id in self._done:
            return self._done[id]
        routes = self._routes
        came_by: dict[int, list[int]] = {}
        sent: set[int] = set()
        ahead = [(home, LOCAL)]
        while ahead:
            broker, via = ahead.pop(0)
            came_by.setdefault(broker, []).append(via)
            for link in routes.forwards(broker, via, home):
                went = self._went.setdefault(link, [])
                if link in sent or any(covers(r, row) and routes.serves(link, home, h) for _, h, r in went):
                    continue
                sent.add(link)
                went.append((id, home, row))
                ahead.append((int(routes.links.target[link]), link ^ 1))
        self._done[id] = came_by, sent
        return self._done[id]


@njit(inline="always")
def _has(bits, slot, link):
    return (bits[slot, link >> 6] >> np.uint64(link & 63)) & np.uint64(1) == np.uint64(1)


@njit(cache=True)
def _covers(low, high, bound, outer, inner):
    """Whether one slot covers another."""
    for a in range(low.shape[1]):
        if bound[outer, a] and not (
            bound[inner, a] and low[outer, a] <= low[inner, a] and high[inner, a] <= high[outer, a]
        ):
            return False
    return True


@njit(cache=True)
def _next_cover(went, ids, slot, after, low, high, bound):
    """Of the slots that `went` over a link and cover this one, the oldest whose id is above `after`; -1: none is."""
    best = -1
    for other in range(went.size):
        older = ids[other] > after and (best < 0 or ids[other] < ids[best])
        if older and went[other] and other != slot and _covers(low, high, bound, other, slot):
            best = other
    return best


@njit(cache=True)
def _kept_back(went, slot, inward, came, here, low, high, bound):
    """The slots covered by this one that did not go over a link, of those that came by these links or are `here`."""
    found = np.empty(went.size, np.int64)
    count = 0
    for other in range(went.size):
        if went[other] or other == slot:
            continue
        known = here[other]
        for link in inward:
            known = known or _has(came, other, link ^ 1)
        if known and _covers(low, high, bound, slot, other):
            found[count] = other
            count += 1
    return found[:count]


class Covering(Subscription):
    """Covering over the brokers of a shard: publications as in `subscription`, changes one at a time.

    What a change does at a broker depends on the table there, so changes are handled in Python, in order,
    each asking the shared arrays which subscriptions went over a link; publications between them go through
    the kernel.
    """

    plain: ClassVar[type[BrokerProtocol] | None] = PlainCovering
    compiled: ClassVar[Handler | None] = publications

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        per_publisher = demand.options.routing == "per-publisher"
        total = float(demand.interests.sum())
        if demand.overlay.is_tree or not per_publisher:
            # A change goes on over a link as rarely as none of the interests before it covers it; some are covered
            # far more often than others, which is why that falls so slowly.
            def goes_on(tree: Tree) -> Floats:
                found: Floats = 1.0 / (1.0 + demand.covered * (total - tree.behind(demand.interests)))
                return found

            changes = flow(demand, demand.changes, goes_on)
        else:
            changes = to_publishers(demand, demand.changes, True) / (1.0 + demand.covered * total / 2)
        return max(changes, float(demand.changes.sum())) + to_wanted(demand, demand.share, per_publisher)

    def __init__(self, env: ShardEnv) -> None:
        super().__init__(env)
        attributes = env.kind.range_attributes
        self.low = np.full((256, attributes), -np.inf)
        self.high = np.full((256, attributes), np.inf)
        self.bound = np.zeros((256, attributes), np.bool_)

    def _learn(self, ids: Ints, rows: Any) -> Ints:
        slots = super()._learn(ids, rows)
        count = self.store.count
        if count > len(self.low):
            size = max(count, 2 * len(self.low))
            for name, fill in (("low", -np.inf), ("high", np.inf), ("bound", False)):
                old = getattr(self, name)
                grown = np.full((size, *old.shape[1:]), fill, old.dtype)
                grown[: len(old)] = old
                setattr(self, name, grown)
        self.low[slots], self.high[slots], self.bound[slots] = -np.inf, np.inf, False
        for slot, row in zip(slots.tolist(), self.env.kind.ranges(rows)):
            for a, low, high in row.reshape(-1, 3).tolist():
                if a == a:
                    self.low[slot, int(a)], self.high[slot, int(a)] = low, high
                    self.bound[slot, int(a)] = True
        return slots

    def stand(self, interests: Interests) -> None:
        assert interests.rows is not None
        env = self.env
        self._reserve(self.store.count + interests.id.size)
        slots = self._learn(interests.id, interests.rows)
        for slot in slots.tolist():
            home = int(self.store.home[slot])
            ahead = [(home, LOCAL)]
            while ahead:
                broker, via = ahead.pop(0)
                if via == LOCAL:
                    self.local[slot] = env.local[broker]
                else:
                    self._set(self.came, slot, via ^ 1, True)
                if env.local[broker]:
                    self._entries[broker] += 1
                    self.uses[slot] += 1
                for link in self.routes.forwards(broker, via, home):
                    sent = self._column(self.sent, link)
                    if not sent[slot] and self._cover(slot, link, sent) is None:
                        self._set(self.sent, slot, link, True)
                        ahead.append((int(env.links.target[link]), link ^ 1))
        # The whole overlay was gone through; this shard keeps what its own brokers know.
        self.came[slots] &= link_mask(env.local[env.links.target], self.routes.words)
        self.sent[slots] &= link_mask(env.local[env.links.source], self.routes.words)

    def handle(self, batch: Batch, out: Out) -> None:
        self._make_ready(batch.type, batch.word, batch.body)
        slot = self.store.slots(batch.word)
        at = 0
        for i in np.flatnonzero(batch.type != PUBLISH).tolist():
            self._desk.decide(batch, out, at, i)
            at = i + 1
            if slot[i] >= 0:
                change = int(slot[i]), int(batch.broker[i]), int(batch.link[i])
                if batch.type[i] == SUBSCRIBE:
                    self._subscribe(i, *change, out)
                else:
                    self._unsubscribe(i, *change, out)
        self._desk.decide(batch, out, at, batch.size)
        self.tidy()

    def _column(self, bits: NDArray[np.uint64], link: int) -> NDArray[np.bool_]:
        """Per slot: its bit for the link."""
        return (bits[: self.store.count, link >> 6] >> np.uint64(link & 63)) & np.uint64(1) != 0

    def _set(self, bits: NDArray[np.uint64], slot: int, link: int, value: bool) -> None:
        bit = np.uint64(1) << np.uint64(link & 63)
        bits[slot, link >> 6] = bits[slot, link >> 6] | bit if value else bits[slot, link >> 6] & ~bit

    def _knows(self, slot: int, came_by: int) -> bool:
        if came_by == LOCAL:
            return bool(self.local[slot])
        link = came_by ^ 1
        return bool(self.came[slot, link >> 6] >> np.uint64(link & 63) & np.uint64(1))

    def _note(self, slot: int, broker: int, came_by: int, value: bool) -> None:
        if came_by == LOCAL:
            self.local[slot] = value
        else:
            self._set(self.came, slot, came_by ^ 1, value)
        self._entries[broker] += 1 if value else -1
        self.uses[slot] += 1 if value else -1

    def _subscribe(self, event: int, slot: int, broker: int, came_by: int, out: Out) -> None:
        if not self._knows(slot, came_by):
            self._note(slot, broker, came_by, True)
        for link in self.routes.forwards(broker, came_by, int(self.store.home[slot])):
            sent = self._column(self.sent, link)
            if sent[slot]:
                continue
            cover = self._cover(slot, link, sent)
            if cover is not None:
                out.leans(int(self.store.id[slot]), int(self.store.id[cover]))
            else:
                self._set(self.sent, slot, link, True)
                out.forward(event, link)

    def _unsubscribe(self, event: int, slot: int, broker: int, came_by: int, out: Out) -> None:
        if not self._knows(slot, came_by):
            return
        self._note(slot, broker, came_by, False)
        for link in self.routes.forwards(broker, came_by, int(self.store.home[slot])):
            sent = self._column(self.sent, link)
            if not sent[slot]:
                continue
            self._set(self.sent, slot, link, False)
            sent[slot] = False
            self._release(event, slot, broker, link, sent, out)
            out.forward(event, link)

    def _release(
        self, event: int, slot: int, broker: int, link: int, sent: NDArray[np.bool_], out: Out
    ) -> None:
        """Send what the withdrawn subscription kept back on the link, unless something else covers it."""
        store, links = self.store, self.env.links
        inward = links.out_link[links.out_start[broker] : links.out_start[broker + 1]]
        here = self.local[: store.count] & (store.home[: store.count] == broker)
        ways = inward[inward != link]  # what came by the link itself does not go back over it
        kept = _kept_back(sent, slot, ways, self.came, here, self.low, self.high, self.bound)
        for other in kept[np.argsort(store.id[kept], kind="stable")].tolist():
            home = int(store.home[other])
            came_by = [o for o in ways.tolist() if self._knows(other, o)] + [LOCAL] * bool(here[other])
            if not any(link in self.routes.forwards(broker, way, home) for way in came_by):
                continue
            cover = self._cover(other, link, sent)
            if cover is not None:
                out.leans(int(self.store.id[other]), int(self.store.id[cover]))
                continue
            self._set(self.sent, other, link, True)
            sent[other] = True
            body = int(self.env.bodies.add_rows(self.env.service, SUBSCRIBE, store.rows[other][None, :])[0])
            out.send(event, link, SUBSCRIBE, body, int(store.id[other]))

    def _cover(self, slot: int, link: int, sent: NDArray[np.bool_]) -> int | None:
        """The oldest (by id) of the subscriptions sent over the link that covers this one."""
        ids, home = self.store.id, self.store.home
        other = _next_cover(sent, ids, slot, -1, self.low, self.high, self.bound)
        while other >= 0 and not self.routes.serves(link, int(home[slot]), int(home[other])):
            other = _next_cover(sent, ids, slot, ids[other], self.low, self.high, self.bound)
        return other if other >= 0 else None
