"""Rendezvous: publications and subscriptions meet on the way to a hub, which hub says a hash of what they are about.

Rules:
- The values of one attribute are cut into cells of one width, and a hash says for each cell which of the hubs it
  belongs to. A publication belongs to the hub of its value; where it has none, to the first hub.
- A subscription belongs to the hubs of all cells that its range meets; one that says nothing of the attribute, or meets
  more cells than there are hubs many times over, belongs to all.
- Each hub is the root of a tree of shortest paths. A subscription travels up the trees of its hubs, once over each
  link, and every broker on the way remembers it, by tree. A withdrawal takes the same ways.
- A publication travels up the tree of its hub, and from every broker that it passes down the branches in which somebody
  wants it, other than the one that it came from.

Theory. Of one tree, publisher and subscriber have a lowest broker in common, which is on the way of both to the hub: so
what has settled meets there, and nowhere else, and each gets a publication once. What a hub does not have to know, it
does not: with h hubs and narrow subscriptions tables are a h-th at each, and so is the load. The price is the way up,
which a publication travels although nobody there may want it (so this is not `frugal`), and order: what one publisher
says about two cells takes two ways, so with several hubs it may arrive in another order.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from brokers.contract import BrokerProtocol, Demand, Guarantees, LinkTable, Message, ShardEnv
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from protocols.content.subscription import client_of
from protocols.expected import to_wanted
from protocols.routes import Routes
from topology.draws import mix

_CELLS_MOST = 16  # per hub: whoever meets more belongs to all hubs anyway, most likely


class Options(BaseModel):
    """Options of `rendezvous`."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    hubs: Annotated[
        int, Field(ge=1, le=4096, description="how many hubs there are at most: the brokers with the most links")
    ] = 4
    attribute: Annotated[
        int, Field(ge=0, le=999, description="by whose values hubs are chosen; of topics, the level of names")
    ] = 0
    cell: Annotated[
        float,
        Field(
            ge=1e-6, le=1e12, description="how wide a stretch of values is that belongs to one hub",
            examples=[0.1, 0.3, 2.0],
        ),
    ] = 0.1


def hubs_of(links: LinkTable, count: int) -> NDArray[np.int32]:
    """The brokers with the most links, at most so many, by number."""
    return np.sort(np.argsort(-np.diff(links.out_start), kind="stable")[:count]).astype(np.int32)


class Hubs:
    """The hubs of a service and their trees, and what belongs to which."""

    def __init__(self, env: ShardEnv) -> None:
        options = env.options
        roots = hubs_of(env.links, options.hubs)
        self.kind = env.kind
        self.routes = Routes(env.links, env.overlay.is_tree, roots, True)
        self._attribute, self._cell = options.attribute, options.cell
        self._count = int(roots.size)

    def of_publication(self, row: Any) -> int:
        """The tree up which a publication goes."""
        value = float(self.kind.point(row)[self._attribute])
        return self._hub(int(np.floor(value / self._cell))) if value == value else 0

    def of_subscription(self, row: Any) -> frozenset[int]:
        """The trees up which a subscription goes."""
        ranges = np.reshape(self.kind.ranges(np.reshape(row, (1, -1)))[0], (-1, 3))
        mine = ranges[ranges[:, 0] == self._attribute]
        if not len(mine):
            return frozenset(range(self._count))
        first, last = (int(np.floor(end / self._cell)) for end in (mine[:, 1].max(), mine[:, 2].min()))
        if last - first >= _CELLS_MOST * self._count:
            return frozenset(range(self._count))
        return frozenset(map(self._hub, range(first, last + 1)))

    def _hub(self, cell: int) -> int:
        return int(mix(np.uint64(cell & 0xFFFFFFFFFFFFFFFF))) % self._count


class Rendezvous(BrokerProtocol):
    """One broker."""

    kind: ClassVar[str] = "content"
    kinds: ClassVar[tuple[str, ...]] = ("content", "topics")
    Options: ClassVar[type[BaseModel] | None] = Options

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        if "hubs" not in node.shared:
            node.shared["hubs"] = Hubs(node.env)
        self.hubs: Hubs = node.shared["hubs"]
        self.trees: dict[int, set[int]] = {}  # subscription -> the trees for which it is known here
        self.sent: dict[int, set[int]] = {}  # subscription -> the links that it went over

    @classmethod
    def guarantees_with(cls, options: Any, overlay: Any) -> Guarantees:
        return Guarantees(fifo_per_publisher=options.hubs == 1)

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Any) -> list[tuple[str, str]]:
        known = params.get("attributes", params.get("levels"))
        if known is None or options.attribute < known:
            return []
        return [("options.attribute", f"there is no {options.attribute}; they are numbered 0 to {known - 1}")]

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        """Of a subscription the brokers on the way to a hub; of a publication those to its hub, and who wants it."""
        hubs = hubs_of(demand.links, demand.options.hubs)
        routes = Routes(demand.links, demand.overlay.is_tree, hubs, True)
        brokers, count = demand.overlay.brokers, hubs.size
        depth = np.array([[_depth(routes, tree, broker) for broker in range(brokers)] for tree in range(count)])
        here = slice(0, brokers)
        told = float((demand.changes[here] * (1 + depth.min(axis=0))).sum()) if not demand.settled else 0.0
        up = float((demand.publications[here] * (1 + depth.mean(axis=0))).sum())
        return told + up + to_wanted(demand, demand.share, True) - float(demand.publications.sum())

    def home(self, id: int) -> int:
        return int(self.node.env.client_broker[client_of(self.node.env, id)])

    def on_message(self, message: Message) -> None:
        if message.type == PUBLISH:
            self._publish(message)
        elif message.type == SUBSCRIBE:
            self._subscribe(message)
        elif message.type == UNSUBSCRIBE:
            self._unsubscribe(message)

    # ---- subscriptions ---------------------------------------------------------------------------------

    def _subscribe(self, message: Message) -> None:
        node, id_ = self.node, message.word
        row = node.row(message.body)
        came = self._coming(id_, message.link, self.hubs.of_subscription(row))
        if id_ not in self.trees:
            node.table.add(id_, client_of(node.env, id_), row, None)
        self.trees.setdefault(id_, set()).update(came)
        sent = self.sent.setdefault(id_, set())
        for link in self._onward(came):
            if link not in sent:
                sent.add(link)
                node.forward(message, link)

    def _unsubscribe(self, message: Message) -> None:
        known = self.trees.get(message.word)
        if known is None:
            return
        gone = self._coming(message.word, message.link, known)
        known -= gone
        sent = self.sent[message.word]
        for link in self._onward(gone):
            if link in sent:
                sent.discard(link)
                self.node.forward(message, link)
        if not known:
            del self.trees[message.word], self.sent[message.word]
            self.node.table.remove(message.word)

    def _coming(self, id: int, link: int, trees: Any) -> set[int]:
        """Of these trees those in which the way from a subscription's home to the hub comes here by a link."""
        routes, here, home = self.hubs.routes, self.node.broker, self.home(id)
        return {tree for tree in trees if routes.on_path(tree, here, link, home)}

    def _onward(self, trees: Any) -> list[int]:
        """The links towards the hubs of trees."""
        up = self.hubs.routes.up
        return sorted({int(up[tree, self.node.broker]) for tree in trees} - {-1})

    # ---- publications ----------------------------------------------------------------------------------

    def _publish(self, message: Message) -> None:
        node, here, routes = self.node, self.node.broker, self.hubs.routes
        tree = self.hubs.of_publication(node.row(message.body))
        up = int(routes.up[tree, here])
        if up >= 0 and message.link != up:
            node.forward(message, up)
        wanted = [id_ for id_ in node.table.match(message.body) if tree in self.trees[id_]]
        homes = {id_: self.home(id_) for id_ in wanted}
        for child in routes.children(tree, here).tolist():
            link = int(routes.up[tree, child]) ^ 1
            if link != message.link and any(routes.is_below(tree, child, home) for home in homes.values()):
                node.forward(message, link)
        for client in sorted({client_of(node.env, id_) for id_, home in homes.items() if home == here}):
            node.deliver(message, client)
        node.work(message, self.entries(), len(wanted))

    # ---- what it knows ---------------------------------------------------------------------------------

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        routes, here = self.hubs.routes, self.node.broker
        trees = {tree for tree in self.hubs.of_subscription(row) if routes.is_below(tree, here, broker)}
        if trees:
            self.trees[id] = trees
            self.sent[id] = set(self._onward(trees))
            self.node.table.add(id, client, row, None)

    def entries(self) -> int:
        return sum(map(len, self.trees.values()))

    def describe(self) -> dict[str, Any]:
        roots = self.hubs.routes.roots
        names = self.node.env.overlay.names
        known = {str(id_): [names[roots[tree]] for tree in sorted(trees)] for id_, trees in sorted(self.trees.items())}
        return {"subscriptions": known}


def _depth(routes: Routes, tree: int, broker: int) -> int:
    """How many links there are from a broker to the hub."""
    found = 0
    while (link := int(routes.up[tree, broker])) >= 0:
        broker, found = int(routes.links.target[link]), found + 1
    return found
