"""Naive bridges: every link is a client at both of its ends, and nobody notices what comes round again.

Rules:
- A broker hands what it gets to its own clients, and sends it over every bridge but, by the echo rule, back over the
  connection that it came by. Nothing is remembered, and no message says where it has been.
- `echo` says who keeps to that rule: both ends of a connection; the hub alone, which cannot know what its spokes send
  back; nobody.
- With `declared: both-ends` one end of a bridge sends what the other fetches as well: each message goes over it twice.

Theory. Where both ends keep to the rule, nothing comes twice on a tree. Of what is published on a ring, one copy goes
round each way, without end: two copies in as long as the delays of the ring take together. Among k brokers each linked
to each there are (k - 1)(k - 2)^(h - 1) copies after h hops: two for ever among three, twice as many by each hop among
four. With the rule at the hub alone, one spoke sends back what it gets, which is there twice and goes no further; of
two spokes each gets what the other sent back. Declared at both ends, what is h hops away comes 2^h times.

So it promises nothing where messages circle, and is refused there but for services that say `loops`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from brokers.contract import BrokerProtocol, Demand, Guarantees, Message
from brokers.rates import everywhere
from protocols.topics.kind import FLAGS_AT, NO_LOCAL, PUBLISH, SUBSCRIBE, UNSUBSCRIBE

_NOTHING = Guarantees(exact=False, no_duplicates=False, fifo_per_publisher=False)
_AGAIN_AND_AGAIN = Guarantees(no_duplicates=False, fifo_per_publisher=False)
_WHY = {
    "connection": "the overlay has cycles",
    "hub": "only the hub sends nothing back",
    "none": "what comes is sent back",
}


class Options(BaseModel):
    """Options of `bridges`."""

    model_config = ConfigDict(extra="forbid")

    echo: Annotated[
        Literal["connection", "hub", "none"],
        Field(
            description="who sends nothing back over the connection that it came by: both ends of each, the hub (the "
            "broker with most links) alone, or nobody"
        ),
    ] = "connection"
    declared: Annotated[
        Literal["once", "both-ends"],
        Field(description="whether a bridge is declared at one end, or as `out` at one and as `in` at the other"),
    ] = "once"
    loops: Annotated[
        bool, Field(description="run where messages circle, too: to see it; nothing is promised there")
    ] = False


def circles(options: Options, overlay: Any) -> bool:
    """Whether a publication can go on for ever."""
    if options.echo == "connection":
        return not overlay.is_tree
    return overlay.brokers > (1 if options.echo == "none" else 2)


def hub_of(links: Any) -> int:
    """The broker with most links, the first of several."""
    return int((links.out_start[1:] - links.out_start[:-1]).argmax())


class Bridges(BrokerProtocol):
    """One broker."""

    kind: ClassVar[str] = "topics"
    kinds: ClassVar[tuple[str, ...]] = ("topics", "content")
    Options: ClassVar[type[BaseModel] | None] = Options
    meets: ClassVar[frozenset[str]] = frozenset({"no_local"})
    resends: ClassVar[bool] = True
    remade: ClassVar[tuple[str, ...]] = ("flagged",)

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.client_of: dict[int, int] = {}  # subscription -> client
        self.selfless: set[int] = set()  # subscriptions that leave out what their client publishes
        self.flagged = bool(getattr(node.env.kind, "no_local", False))

    @classmethod
    def guarantees_with(cls, options: Any, overlay: Any) -> Guarantees:
        if circles(options, overlay):
            return _NOTHING
        once = options.echo == "connection" and options.declared == "once"
        return Guarantees() if once or overlay.brokers == 1 else _AGAIN_AND_AGAIN

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Mapping[str, Any]) -> list[tuple[str, str]]:
        if options.loops or not circles(options, overlay):
            return []
        return [(
            "options.loops",
            f"is false, and messages would circle without end, since {_WHY[options.echo]}; say true to see it",
        )]  # fmt: skip

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        """On a ring, two copies from then on until the end; of what grows without bounds nothing can be said."""
        delay_s = float(demand.overlay.delay_ns.mean()) / 1e9 if demand.overlay.links else 1.0
        is_ring = bool((demand.overlay.degree == 2).all())
        circling = float(demand.publications.sum()) * demand.duration_s / delay_s if is_ring else 0.0
        return everywhere(replace(demand, changes=0 * demand.changes)) + float(demand.changes.sum()) + circling

    def on_message(self, message: Message) -> None:
        node = self.node
        if message.type == PUBLISH:
            self.hand_over(message)
            self.pass_on(message)
        elif message.type == SUBSCRIBE:
            self.know(message.word, (message.word >> 32) - node.env.entity_base, node.row(message.body))
        elif message.type == UNSUBSCRIBE:
            node.table.remove(message.word)
            self.client_of.pop(message.word, None)
            self.selfless.discard(message.word)

    def hand_over(self, message: Message) -> None:
        matched, publisher = self.node.table.match(message.body), self.node.key(message) >> 32
        wanting = [id_ for id_ in matched if id_ not in self.selfless or id_ >> 32 != publisher]
        for client in sorted({self.client_of[id_] for id_ in wanting}):
            self.node.deliver(message, client)
        self.node.work(message, self.entries(), len(matched))

    def pass_on(self, message: Message) -> None:
        times = 2 if self.node.options.declared == "both-ends" else 1
        for link in self.node.links:
            if link != message.link or not self.keeps_the_rule():
                for _ in range(times):
                    self.node.forward(message, link)

    def keeps_the_rule(self) -> bool:
        echo = self.node.options.echo
        return echo == "connection" or (echo == "hub" and self.node.broker == hub_of(self.node.env.links))

    def know(self, id: int, client: int, row: Any) -> None:
        self.client_of[id] = client
        if self.flagged and int(row[FLAGS_AT]) & NO_LOCAL:
            self.selfless.add(id)
        self.node.table.add(id, client, row, None)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        if broker == self.node.broker:
            self.know(id, client, row)

    def entries(self) -> int:
        return len(self.client_of)

    def describe(self) -> dict[str, Any]:
        return {"subscriptions": {str(id_): client for id_, client in sorted(self.client_of.items())}}
