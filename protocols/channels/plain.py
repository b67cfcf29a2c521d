"""channels in the author's view, one broker at a time: queries climb to the server, answers come down on
channels, clients sift.

Rules:
- Brokers and server form a tree whose root is the server. A change of a query climbs to it over every broker.
- The server says who listens to which channel; every broker passes on what concerns the brokers below each of its
  links, where that has changed. So each channel has a multicast tree: an answer goes over a link only if a client
  below it listens to its channel.
- A client gets every answer on its channels, and takes for each of its queries in the header what answers it. Here
  its broker does that in its name, and notes it in the trace.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
from pydantic import BaseModel

from brokers.contract import BrokerProtocol, Demand, Guarantees, Message
from brokers.node import Body
from brokers.planning.answers import Answer, extract
from brokers.planning.plan import MergedQuery, Wanted
from protocols.channels.answers import Received, received, size_bytes
from protocols.channels.database import marks
from protocols.channels.kind import Channels as ChannelsKind
from protocols.channels.plans import Options, expected_planning_s
from protocols.channels.server import ANSWER, LISTEN, Server
from protocols.expected import to_root, to_some
from protocols.routes import shared_tree

_TOLD = 0.4  # part of the brokers with clients below them that hear of a new plan: few channels change
_UNHEARD: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())


class PlainChannels(BrokerProtocol):
    """See the module."""

    kind: ClassVar[str] = "channels"
    guarantees: Guarantees = Guarantees(exact=True, no_duplicates=True, fifo_per_publisher=True)
    Options: ClassVar[type[BaseModel] | None] = Options
    server: ClassVar[type[BrokerProtocol] | None] = Server
    keeps: ClassVar[tuple[Any, ...]] = (Received, Answer, MergedQuery, Wanted)
    remade: ClassVar[tuple[str, ...]] = ("routes", "up", "down")

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        changes = float(demand.changes.sum())
        events = to_root(demand, demand.changes, demand.server)
        rounds = [each for every in demand.more("rounds") for each in every]
        plans = 1.0 / (1.0 / changes + expected_planning_s(demand.options, rounds)) if changes else 0.0
        events += plans * (2.0 + _TOLD * cls._to_listeners(demand, 1e9))  # two timers, and who listens
        for period_s, queries, apart in rounds:
            answers = apart if demand.options.mode in ("merged", "channels") else queries
            if answers:
                listeners = queries / answers
                if demand.options.mode == "channels":
                    listeners = queries / min(demand.options.channels, queries)
                events += (1.0 + answers * cls._to_listeners(demand, listeners)) / period_s
        return events

    @classmethod
    def _to_listeners(cls, demand: Demand, count: float) -> float:
        """Brokers that a message from the server passes on its way to so many clients."""
        one = np.zeros(demand.nodes)
        one[demand.server] = 1.0
        return to_some(demand, one, demand.interests, count) - 1.0

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        env = node.env
        self.routes = shared_tree(node, env.server)
        self.up = int(self.routes.up[0, node.broker])
        children = self.routes.children(0, node.broker).tolist()
        self.down = {child: int(self.routes.up[0, child]) ^ 1 for child in children}
        self.channels: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}  # -> (clients here, links down)
        self.told: dict[int, list[Any]] = {link: [] for link in self.down.values()}
        self.parts: dict[int, list[Received]] = {}  # query -> its answers of the round at hand

    @property
    def service(self) -> ChannelsKind:
        return cast(ChannelsKind, self.node.env.kind)

    def on_message(self, message: Message) -> None:
        if message.type == ANSWER:
            self.hand_on(message)
        elif message.type == LISTEN:
            self.listen(message)
        else:
            self.node.forward(message, self.up)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        """Nothing: only the server has to know."""

    # ---- channels --------------------------------------------------------------------------------------

    def listen(self, message: Message) -> None:
        """Learn who of the clients below listens to what, and tell the brokers below their part of it."""
        node, home = self.node, self.node.env.client_broker
        clients: dict[int, list[int]] = {}
        links: dict[int, set[int]] = {}
        told: dict[int, list[Any]] = {link: [] for link in self.down.values()}
        for client, channels in node.body(message):
            link = self.towards(int(home[client]))
            if link >= 0:
                told[link].append([client, channels])
            for channel in channels:
                if link >= 0:
                    links.setdefault(channel, set()).add(link)
                else:
                    clients.setdefault(channel, []).append(client)
        self.channels = {
            channel: (tuple(clients.get(channel, ())), tuple(sorted(links.get(channel, ()))))
            for channel in sorted({*clients, *links})
        }
        for link, part in told.items():
            if part != self.told[link]:
                node.send(message, link, LISTEN, part)
        self.told = told

    def towards(self, broker: int) -> int:
        """The link down that leads to a broker; -1 for this one."""
        if broker == self.node.broker:
            return -1
        return next(link for child, link in self.down.items() if self.routes.is_below(0, child, broker))

    # ---- answers ---------------------------------------------------------------------------------------

    def hand_on(self, message: Message) -> None:
        """Pass an answer on along its channel, and hand it to the clients here that listen."""
        node = self.node
        clients, links = self.channels.get(message.word, _UNHEARD)
        if not clients and not links:
            return
        came = received(node.body(message))
        header = came.answer.message.header
        size = size_bytes(came.answer, self.service.params["object_bytes"])
        for link in links:
            node.send(message, link, ANSWER, Body(message.body), message.word, size)
        node.work(message, len(clients), len(links))
        for client in clients:
            node.deliver(message, client)
            entity = client + node.env.entity_base
            node.record(
                message, "heard", publication=node.key(message), client=entity, objects=len(came.answer.objects),
                irrelevant=came.answer.irrelevant_to(client),
            )  # fmt: skip
            for line in header:
                if line.client == client:
                    self.sift(message, entity, line.query, came)

    def sift(self, message: Message, client: int, query: int, came: Received) -> None:
        """Take what answers a query out of an answer; note it once all parts of the round are there."""
        parts = self.parts.get(query, [])
        if parts and (parts[0].period_ns, parts[0].round) != (came.period_ns, came.round):
            parts = []  # a link lost the others
        parts = [*parts, came]
        if len(parts) < came.parts[query]:
            self.parts[query] = parts
            return
        self.parts.pop(query, None)
        found = [extract(part.answer, query) for part in parts]
        objects = np.unique(np.concatenate(found))
        heard = sum(len(part.answer.objects) - len(mine) for part, mine in zip(parts, found))
        self.node.record(
            message, "received", client=client, query=query, period_ns=came.period_ns, round=came.round,
            objects=len(objects), marks=int(marks(objects).sum()), irrelevant=heard,
        )  # fmt: skip

    def entries(self) -> int:
        """Channels that lead here or through here."""
        return len(self.channels)

    def describe(self) -> dict[str, Any]:
        listening = {channel: list(clients) for channel, (clients, _) in self.channels.items() if clients}
        return {"entries": len(self.channels), "listening": listening}
