"""A tree for every advertisement, on overlays with cycles: it grows as the advertisement spreads.

Rules:
- The broker of whoever advertises *plants* a tree. PLANT goes over all links; over which link it first came to a broker
  leads up the tree, and copies that come later are dropped. So a tree is made by what was quick when it grew: by
  delays, and by what waited in queues.
- A subscription goes up the tree of each advertisement that it meets (CLIMB), from the broker of its client: when it
  is issued up those that this knows, and up a tree that grows later when that comes. Trees that are to be climbed over
  one link are named in one message. A withdrawal goes the same way (LEAVE). An entry is that of a subscription in a
  tree: `entries[s]` of the tree is the link that it came by.
- A publication carries the name of one tree, that of the first of its publisher's advertisements that holds it, and
  goes where entries of this tree lead. What no advertisement of its publisher holds is dropped where it enters, with a
  row in the table `outside`.
- An advertisement that ends has its tree felled: FELL goes down it, to be heeded only from above, so behind every
  publication in the tree; whoever hears it forgets all entries, and says FELL over all its links. A broker that has
  heard it over all of them forgets the tree: no copy of PLANT can come any more.

Theory. The links that lead up are a tree, as a broker knows it before it passes it on, and it reaches all brokers. A
publication goes down one tree, so it comes to a broker once, over a link once, to a client once. With B brokers and E
links, over trees t and the subscriptions s that meet them, whose home is depth(t, s) links from the root,

    PLANT     2E - (B - 1) for each tree
    FELL      2E
    entries   the sum of depth(t, s), one of each s at its home, and one of every tree at every broker
    CLIMB     the sum of depth(t, s) for trees that grow later than s is issued; for those that stand then, of each s
              the different beginnings of its ways up

An advertisement has settled when the last CLIMB that it pulled has been handled: each tree pulls its own, so none waits
for another's. But a publication takes the tree of the first advertisement that holds it. So an advertisement `depends`
on those of the same publisher before it that it overlaps.

**Re-chosen by load** (`by_load`). Two ways; neither changes what is delivered.

- *On the way.* A publication of which there is one copy so far (`ALONE` in its word) may go over to another tree, the
  one before whose next links least is waiting, if everybody here who is to get it is in that tree here as well, and if
  it came *the way* of both: the two trees have the same path from the root to here, which PLANT carries. So behind it
  lies a path of the tree that it is in, whatever it changed; it comes to no broker twice. Once it has branched it
  stays in its tree: elsewhere there are copies that the other tree would meet.
- *Between publications.* A broker where more than `slow` waits, itself or in front of its links, says so up the tree
  (SLOW), once in `rest`. The root goes over to a tree of the advertisement that nobody called slow, or plants one,
  which grows around what is slow. It stands once all have heard of it: a broker that has heard from all its links says
  GROWN up the tree, behind the CLIMBs that it has sent there. So who is in the old tree is in the new one when that
  stands. `spare` old ones are kept, for publications to go over to; the others are felled.

**Faults.** Without `recover` nothing is promised. With it, whoever is told that a link is up again, or down that a tree
uses, or is up again itself, has all trees planted anew: CLEAR goes over all links with a number that grows; who hears a
higher one than before forgets all trees, and plants those of its own clients. Trees carry the number, and those of a
lower one are not heeded. Clients' brokers know what these want, so all else follows. Nobody waits for FELL over a link
that is down.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, Field, model_validator

from brokers.contract import FIRST_PROTOCOL_TYPE, NEVER, BrokerProtocol, Demand, Guarantees, Message
from brokers.errors import ProtocolFault
from brokers.faults import LINK_DOWN, LINK_UP, RESTART
from brokers.node import Body
from brokers.promises import Faced, Recovery
from protocols.content.kind import ADVERTISE, PUBLISH, SUBSCRIBE, UNADVERTISE, UNSUBSCRIBE
from protocols.content.ranges import Box, box_of, holds, meet
from protocols.content.resync import WAITING_NS, Recovers
from protocols.content.subscription import LOCAL, client_of, named
from protocols.expected import to_publishers, to_wanted
from topology.units import PositiveDuration

PLANT, CLIMB, LEAVE, FELL, GROWN, SLOW, CLEAR = range(FIRST_PROTOCOL_TYPE, FIRST_PROTOCOL_TYPE + 7)
ALONE = 1  # in the word of a publication, beside its tree: there is no other copy under way
_WORD_MAX = (1 << 63) - 1
_OF_LOAD = ("slow", "rest", "spare")


class Options(Recovers):
    """Options of `trees`."""

    recover: Annotated[
        bool, Field(description="plant all trees anew when a link or a broker is up again, or a tree's link down")
    ] = False
    by_load: Annotated[
        bool, Field(description="re-choose trees by what waits: on the way of a publication, and between publications")
    ] = False
    slow: Annotated[
        PositiveDuration,
        Field(description="with `by_load`: what may wait at a broker and in front of a link until a tree is slow"),
    ] = 50_000_000
    rest: Annotated[
        PositiveDuration, Field(description="with `by_load`: how long an advertisement keeps to a tree at least")
    ] = 1_000_000_000
    spare: Annotated[
        int, Field(ge=0, le=8, description="with `by_load`: how many earlier trees of an advertisement are kept")
    ] = 1

    @model_validator(mode="after")
    def _only_by_load(self) -> Options:
        fields = type(self).model_fields
        said = [name for name in _OF_LOAD if getattr(self, name) != fields[name].default]
        if said and not self.by_load:
            raise ValueError(f"`{said[0]}` is for services with `by_load: true`")
        return self


@dataclass
class Tree:
    """What a broker knows of a tree."""

    advert: int
    row: list[float]
    box: Box
    up: int  # the link over which it first came; LOCAL at the root
    way: list[int]  # the brokers from the root to here, where trees are re-chosen on the way
    entries: dict[int, int] = field(default_factory=dict)  # subscription -> the link that it came by, or LOCAL
    awaited: set[int] = field(default_factory=set)  # links from which its growing has still to be told
    felled: bool = False
    silent: set[int] = field(default_factory=set)  # links over which FELL came
    called_ns: int = -1  # when it was last called slow: by this broker, or at the root by anybody


@dataclass
class Own:
    """An advertisement of a client of this broker."""

    row: list[float]
    box: Box
    cause: int
    standing: list[int] = field(default_factory=list)  # its trees; the last one is used
    growing: int = -1  # one that does not stand yet
    chosen_ns: int = 0  # since when the last one is used, or one grows


class Trees(BrokerProtocol):
    """One broker."""

    kind: ClassVar[str] = "content"
    kinds: ClassVar[tuple[str, ...]] = ("content", "topics")
    Options: ClassVar[type[BaseModel] | None] = Options
    requires: ClassVar[dict[str, Any]] = {"adverts": True}
    frugal: ClassVar[bool] = True
    sees_load: ClassVar[bool] = True
    keeps: ClassVar[tuple[Any, ...]] = (Tree, Own)

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.own: dict[int, Own] = {}  # advertisements of this broker's clients, in the order in which they came
        self.mine: dict[int, Box] = {}  # subscriptions of its clients
        self.trees: dict[int, Tree] = {}
        self.uses: dict[int, int] = {}  # subscription -> of how many trees it is an entry, and whether it is mine
        self.came = 0  # entries of trees that came over links
        self.stamp = -1  # when the last tree was planted here
        self.cleared = 0  # the number of the last CLEAR
        self.down: set[int] = set()  # links over which nothing comes, as far as this was told

    # ---- what is promised --------------------------------------------------------------------------------

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        """On cycles two publications of one publisher may take two ways."""
        return Guarantees(fifo_per_publisher=bool(overlay.is_tree))

    @classmethod
    def wants_load(cls, options: Any) -> bool:
        return bool(options.by_load)

    @classmethod
    def wants_faults(cls, options: Any) -> bool:
        return bool(options.recover)

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Faced) -> Recovery | None:
        """To be told; then CLEAR, PLANT and CLIMB, one behind the other."""
        if not options.recover:
            return None
        if options.recover_within:
            return Recovery(options.recover_within, lets_go=True)
        if faced.detect_ns >= NEVER:
            return Recovery(NEVER)
        return Recovery(faced.detect_ns + 3 * faced.way_ns + 2 * faced.link_ns + WAITING_NS, lets_go=True)

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        """As if every advertisement met every subscription: of their values nothing is known beforehand."""
        return to_publishers(demand, demand.changes, True) + to_wanted(demand, demand.share, True)

    # ---- what comes --------------------------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        _HANDLERS[message.type](self, message)

    def on_fault(self, message: Message) -> None:
        link = message.link
        if message.type == LINK_UP:
            self.down.discard(link)
        elif message.type == LINK_DOWN:
            self.down.add(link)
        used = any(tree.up == link or link in tree.entries.values() for tree in self.trees.values())
        if (
            message.type == RESTART
            or (message.type == LINK_UP and link in self.node.links)
            or (message.type == LINK_DOWN and used)
        ):
            self._clear(message, message.time * self.node.env.overlay.brokers + self.node.broker, LOCAL)
        for tid, tree in list(self.trees.items()):
            self._bury(tid, tree)

    # ---- trees grow --------------------------------------------------------------------------------------

    def _advertise(self, message: Message) -> None:
        advert = message.word
        if advert in self.own:
            return
        row = self.node.row(message.body)
        own = Own(row.tolist(), self._box(row), message.cause)
        for other, earlier in self.own.items():
            if other >> 32 == advert >> 32 and message.cause >= 0 and meet(earlier.box, own.box):
                self.node.depends(message.cause, earlier.cause)
        self.own[advert] = own
        own.standing.append(self._plant(message, advert, False))

    def _plant(self, message: Message, advert: int, asks: bool) -> int:
        """A new tree of an advertisement; if it `asks`, the others tell when it has grown."""
        node, own = self.node, self.own[advert]
        self.stamp = max(self.stamp + 1, message.time)
        tid = self.stamp * node.env.overlay.brokers + node.broker
        if tid << 1 > _WORD_MAX:
            brokers = node.env.overlay.brokers
            days = (_WORD_MAX >> 1) // brokers / 86_400e9
            raise ProtocolFault(f"with {brokers} brokers `trees` can tell trees apart for {days:.1f} simulated days")
        self._take(message, tid, Tree(advert, own.row, own.box, LOCAL, []), [], asks)
        return tid

    def _take(self, message: Message, tid: int, tree: Tree, way: list[int], asks: bool) -> None:
        """Know a tree: have it grow on, and what it pulls climb."""
        node, others = self.node, [link for link in self.node.links if link != tree.up]
        said = {"advert": tree.advert, "row": tree.row, "cleared": self.cleared, "asks": asks, "way": way}
        if node.options.by_load:
            tree.way = said["way"] = [*way, node.broker]
        self.trees[tid] = tree
        for id_ in sorted(self.mine):
            if meet(tree.box, self.mine[id_]):
                self._climb(message, id_, [tid])
        for link in others:
            node.send(message, link, PLANT, said, tid)
        if asks:
            tree.awaited = set(others)
            if not others:
                self._grown(message, tid, tree)

    def _comes(self, message: Message) -> None:
        """PLANT."""
        said, tid = self.node.body(message), message.word
        if said["cleared"] > self.cleared:
            self._clear(message, said["cleared"], message.link)
        if said["cleared"] < self.cleared:
            return
        known = self.trees.get(tid)
        if known is None:
            row = list(said["row"])
            tree = Tree(said["advert"], row, self._box(row), message.link, [])
            self._take(message, tid, tree, list(said["way"]), said["asks"])
        else:
            self._hear(message, tid, known)

    def _hears(self, message: Message) -> None:
        """GROWN."""
        if message.word in self.trees:
            self._hear(message, message.word, self.trees[message.word])

    def _hear(self, message: Message, tid: int, tree: Tree) -> None:
        if message.link in tree.awaited:
            tree.awaited.discard(message.link)
            if not tree.awaited:
                self._grown(message, tid, tree)

    def _grown(self, message: Message, tid: int, tree: Tree) -> None:
        """All beyond know a tree, and what they had to send up has been sent."""
        if tree.up != LOCAL:
            self.node.send(message, tree.up, GROWN, word=tid)
            return
        own = self.own.get(tree.advert)
        if own is None or own.growing != tid:
            return
        own.growing = -1
        own.standing.append(tid)
        while len(own.standing) > 1 + self.node.options.spare:
            self._fell(message, own.standing.pop(0))

    # ---- and are felled ----------------------------------------------------------------------------------

    def _unadvertise(self, message: Message) -> None:
        own = self.own.pop(message.word, None)
        if own is not None:
            for tid in [*own.standing, own.growing]:
                if tid >= 0:
                    self._fell(message, tid)

    def _felled(self, message: Message) -> None:
        """FELL."""
        tid = message.word
        tree = self.trees.get(tid)
        if tree is None:
            return
        tree.silent.add(message.link)
        if message.link == tree.up:
            self._fell(message, tid)
        else:
            self._bury(tid, tree)

    def _fell(self, message: Message, tid: int) -> None:
        tree = self.trees[tid]
        tree.felled, tree.awaited = True, set()
        for id_ in list(tree.entries):
            self._forget(id_, tree)
        for link in self.node.links:
            self.node.send(message, link, FELL, word=tid)
        self._bury(tid, tree)

    def _bury(self, tid: int, tree: Tree) -> None:
        if tree.felled and (tree.silent | self.down).issuperset(self.node.links):
            del self.trees[tid]

    def _clear(self, message: Message, number: int, came: int) -> None:
        """Forget all trees of lower numbers, have others forget them, and plant those of this broker anew."""
        if number <= self.cleared:
            return
        self.cleared = number
        for tree in self.trees.values():
            for id_ in list(tree.entries):
                self._forget(id_, tree)
        self.trees.clear()
        for link in self.node.links:
            if link != came:
                self.node.send(message, link, CLEAR, word=number)
        for advert, own in self.own.items():
            own.standing, own.growing = [self._plant(message, advert, False)], -1

    def _clears(self, message: Message) -> None:
        """CLEAR."""
        self._clear(message, message.word, message.link)

    # ---- subscriptions -----------------------------------------------------------------------------------

    def _subscribe(self, message: Message) -> None:
        id_ = message.word
        if id_ in self.mine:
            return
        row = self.node.row(message.body)
        self._own_interest(id_, row)
        trees = sorted(self.trees.items())
        self._climb(message, id_, [tid for tid, tree in trees if not tree.felled and meet(tree.box, self.mine[id_])])

    def _own_interest(self, id: int, row: Any) -> None:
        self.mine[id] = self._box(row)
        self._hold(id, row)

    def _climb(self, message: Message, id: int, tids: list[int]) -> None:
        """A subscription of a client of this broker begins its way up some trees."""
        row = self.node.table.interest(id)[1]
        for tid in tids:
            self.trees[tid].entries[id] = LOCAL
            self._hold(id, row)
        self._send_up(message, CLIMB, id, tids, {"row": row.tolist()})

    def _climbs(self, message: Message) -> None:
        """CLIMB."""
        said, id_, new = self.node.body(message), message.word, []
        for tid in said["trees"]:
            tree = self.trees.get(tid)
            if tree is not None and not tree.felled and id_ not in tree.entries:
                tree.entries[id_] = message.link
                self.came += 1
                self._hold(id_, said["row"])
                new.append(tid)
        self._send_up(message, CLIMB, id_, new, {"row": said["row"]})

    def _unsubscribe(self, message: Message) -> None:
        id_ = message.word
        if id_ not in self.mine:
            return
        self._leave(message, id_, sorted(self.trees))
        del self.mine[id_]
        self._release(id_)

    def _leaves(self, message: Message) -> None:
        """LEAVE."""
        self._leave(message, message.word, self.node.body(message)["trees"])

    def _leave(self, message: Message, id: int, tids: Iterable[int]) -> None:
        """A subscription does not come over a link any more, or from its client, in some trees."""
        gone = [tid for tid in tids if tid in self.trees and self.trees[tid].entries.get(id) == message.link]
        for tid in gone:
            self._forget(id, self.trees[tid])
        self._send_up(message, LEAVE, id, gone, {})

    def _send_up(self, message: Message, type: int, id: int, tids: list[int], said: dict[str, Any]) -> None:
        """Tell whoever is above in some trees of a subscription, over each link once."""
        above: dict[int, list[int]] = {}
        for tid in tids:
            above.setdefault(self.trees[tid].up, []).append(tid)
        for link in sorted(above.keys() - {LOCAL}):
            self.node.send(message, link, type, {"trees": above[link], **said}, id)

    def _forget(self, id: int, tree: Tree) -> None:
        self.came -= tree.entries.pop(id) != LOCAL
        self._release(id)

    def _hold(self, id: int, row: Any) -> None:
        self.uses[id] = self.uses.get(id, 0) + 1
        if self.uses[id] == 1:
            self.node.table.add(id, client_of(self.node.env, id), row, None)

    def _release(self, id: int) -> None:
        self.uses[id] -= 1
        if not self.uses[id]:
            del self.uses[id]
            self.node.table.remove(id)

    def _box(self, row: Any) -> Box:
        return box_of(self.node.env.kind.ranges(np.reshape(row, (1, -1)))[0])

    # ---- publications ------------------------------------------------------------------------------------

    def _publish(self, message: Message) -> None:
        node = self.node
        tid, alone = message.word >> 1, bool(message.word & ALONE)
        if message.link == LOCAL:
            tid, alone = self._tree_of(message), True
        tree = self.trees.get(tid)
        if tree is None or tree.felled:
            if message.link == LOCAL:
                node.record(message, "outside", publication=node.key(message))
            return
        matched = node.table.match(message.body)
        if alone and node.options.by_load:
            tid, tree = self._least_waiting(message, tid, matched)
        wanting = _within(tree, matched)
        links = _onward(tree, wanting, message.link)
        word = tid << 1 | (alone and len(links) == 1)
        for link in links:
            node.send(message, link, PUBLISH, Body(message.body), word)
        clients = {client_of(node.env, id_) for id_ in wanting if tree.entries[id_] == LOCAL}
        for client in sorted(clients):
            node.deliver(message, client)
        if node.options.by_load and links:
            self._watch(message, tid, tree, links)
        node.work(message, self.entries(), len(wanting))

    def _tree_of(self, message: Message) -> int:
        """The tree of the first advertisement of its publisher that holds a publication; -1: none does."""
        point = self.node.env.kind.point(self.node.row(message.body))
        for advert, own in self.own.items():
            if advert >> 32 == message.source and holds(own.box, point):
                return own.standing[-1]
        return -1

    # ---- load --------------------------------------------------------------------------------------------

    def _least_waiting(self, message: Message, tid: int, matched: list[int]) -> tuple[int, Tree]:
        """Of the trees that have brought a publication here, and all who are to get it, the one that waits least."""
        mine = self.trees[tid]
        wanting = _within(mine, matched)
        best = self._waits(message, _onward(mine, wanting, message.link)), 0, tid
        for other, tree in self.trees.items():
            if other != tid and not tree.felled and tree.way == mine.way and tree.entries.keys() >= {*wanting}:
                waits = self._waits(message, _onward(tree, _within(tree, matched), message.link))
                best = min(best, (waits, 1, other))
        return best[2], self.trees[best[2]]

    def _waits(self, message: Message, links: list[int]) -> int:
        """What waits in front of these links, of the one before which most does."""
        return max((self.node.load.link_backlog_ns(message, link) for link in links), default=0)

    def _watch(self, message: Message, tid: int, tree: Tree, links: list[int]) -> None:
        """Say that a tree is slow, if it is."""
        node = self.node
        waits = node.load.backlog_ns(message) + self._waits(message, links)
        if waits <= node.options.slow or 0 <= tree.called_ns > message.time - node.options.rest:
            return
        if tree.up == LOCAL:
            self._rechoose(message, tid, tree)
        else:
            tree.called_ns = message.time
            node.send(message, tree.up, SLOW, word=tid)

    def _slow(self, message: Message) -> None:
        """SLOW."""
        tree = self.trees.get(message.word)
        if tree is None or tree.felled:
            return
        if tree.up == LOCAL:
            self._rechoose(message, message.word, tree)
        else:
            self.node.forward(message, tree.up)

    def _rechoose(self, message: Message, tid: int, tree: Tree) -> None:
        """At the root: go over to a tree that nobody called slow of late, or plant one."""
        rest = self.node.options.rest
        tree.called_ns = message.time
        own = self.own[tree.advert]
        if own.growing >= 0 or own.standing[-1] != tid or message.time - own.chosen_ns < rest:
            return
        own.chosen_ns = message.time
        for other in reversed(own.standing[:-1]):
            if not 0 <= self.trees[other].called_ns > message.time - rest:
                own.standing.remove(other)
                own.standing.append(other)
                return
        own.growing = self._plant(message, tree.advert, True)

    # ---- from the start, and looked at -------------------------------------------------------------------

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        """Nobody has advertised yet: whoever is asked knows of it, and nobody else."""
        if broker == self.node.broker:
            self._own_interest(id, row)

    def entries(self) -> int:
        """One of every tree, of every subscription of a client here, and of every one that came up a tree."""
        return len(self.trees) + len(self.mine) + self.came

    def describe(self) -> dict[str, Any]:
        env = self.node.env
        return {
            "trees": {
                str(tid): {
                    "advert": str(tree.advert),
                    "from": named(env, [tree.up]),
                    "felled": tree.felled,
                    "subscriptions": {str(id_): named(env, [via]) for id_, via in sorted(tree.entries.items())},
                }
                for tid, tree in sorted(self.trees.items())
            },
            "adverts": {
                str(advert): {"client": int(client_of(env, advert)), "trees": [str(tid) for tid in own.standing]}
                for advert, own in sorted(self.own.items())
            },
            "subscriptions": {str(id_): {"client": int(client_of(env, id_))} for id_ in sorted(self.mine)},
        }


def _within(tree: Tree, ids: list[int]) -> list[int]:
    """Those of these subscriptions that are in a tree."""
    return [id_ for id_ in ids if id_ in tree.entries]


def _onward(tree: Tree, ids: list[int], came: int) -> list[int]:
    """The links that lead to these subscriptions in a tree."""
    return sorted({tree.entries[id_] for id_ in ids} - {LOCAL, came})


_HANDLERS = {
    PUBLISH: Trees._publish, SUBSCRIBE: Trees._subscribe, UNSUBSCRIBE: Trees._unsubscribe,
    ADVERTISE: Trees._advertise, UNADVERTISE: Trees._unadvertise,
    PLANT: Trees._comes, GROWN: Trees._hears, FELL: Trees._felled, CLEAR: Trees._clears,
    CLIMB: Trees._climbs, LEAVE: Trees._leaves, SLOW: Trees._slow,
}  # fmt: skip

__all__ = ["Options", "Trees"]
