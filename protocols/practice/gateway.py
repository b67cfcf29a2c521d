"""Gateways between clusters: one hop within each, one between, and what is wanted told late or not at all.

Rules:
- The brokers of a cluster are all linked to each other, by *routes*. Into every other cluster each broker has a
  *gateway*: of its links there that with the least delay.
- What a client publishes goes over routes as in `cluster`, and over the broker's own gateways. What comes by a gateway
  goes to clients and over routes; what came over a route, to clients only. So nothing goes from gateway to gateway.
- An *optimistic* gateway takes whatever is not refused. Who gets by one what nobody in its cluster wants REFUSES the
  name, and ALLOWS it once somebody does. After `refusals_max` names it tells all that its cluster wants instead, and
  changes of it (interest only); then nothing goes over the gateway but that. With `mode: interest-only` it does so from
  the start.
- Groups are always told of. A group is served here, or else over a route, or else by the nearest cluster that has
  members.

Theory. As long as a gateway is optimistic, the other end keeps of which names it refused them: what it has refused is
what the sender does not send, once all on the link has arrived. A subscription for a name that was refused is in force
once the ALLOWED has arrived, and one that finds it allowed may have to wait for the same: it depends on the change for
which something was allowed last. Nothing is refused twice, so of each name a broker sends one publication in vain over
each gateway, and those that were on their way at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from brokers.contract import Message
from brokers.faults import LINK_DOWN
from protocols.practice.forwarding import LAST_TYPE as LAST_OF_FORWARDING
from protocols.practice.forwarding import Forwarding
from protocols.practice.interest import SNAPSHOT, Filter, filter_at
from protocols.practice.places import (
    LOCAL,
    ClusterSize,
    Place,
    clusters_of,
    links_of,
    misfits_of_clusters,
    neighbours_of,
)

REFUSED, ALLOWED = LAST_OF_FORWARDING + 1, LAST_OF_FORWARDING + 2
EVERYTHING = 1  # the word of a SNAPSHOT that ends optimism

Name = tuple[float, ...]  # a publication's row, without its padding


class Options(BaseModel):
    """Options of `gateway`."""

    model_config = ConfigDict(extra="forbid")

    cluster_size: ClusterSize = None
    mode: Annotated[
        Literal["optimistic", "interest-only"],
        Field(description="whether a gateway begins by taking all that is not refused, or only what is asked for"),
    ] = "optimistic"
    refusals_max: Annotated[
        int, Field(ge=1, description="names that are refused over a gateway, after which all is told that is wanted")
    ] = 1000


class Gateway(Forwarding):
    """One broker."""

    kinds: ClassVar[tuple[str, ...]] = ("topics",)
    Options: ClassVar[type[BaseModel] | None] = Options
    remade: ClassVar[tuple[str, ...]] = ("routes",)

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        cluster, links = clusters_of(node.env.overlay, node.options.cluster_size), node.env.links
        self.routes = frozenset(
            link for link in self.place.origin if cluster[links.target[link]] == cluster[node.broker]
        )
        optimistic = node.options.mode == "optimistic"
        gateways = [link for link in self.place.origin if link not in self.routes]
        # By link: what this end refused of what comes by it, and the change for which it last allowed any.
        self.refused: dict[int, set[Name]] = {link: set() for link in gateways if link in self.told and optimistic}
        self.allowed: dict[int, int] = {}
        # By link: what the other end refused of what this broker sends.
        taken = self.place.onward[LOCAL]
        self.unwanted: dict[int, set[Name]] = {link: set() for link in gateways if link in taken and optimistic}

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Mapping[str, Any]) -> list[tuple[str, str]]:
        cluster, near, names = clusters_of(overlay, options.cluster_size), neighbours_of(overlay), overlay.names
        apart = misfits_of_clusters(overlay, cluster)
        if apart:
            return apart
        for broker, mine in enumerate(cluster):
            reached = {cluster[other] for other in near[broker] if other < overlay.brokers}
            for number in sorted(set(cluster) - reached - {mine}):
                told = f"{names[broker]} has no link into the cluster of {names[cluster.index(number)]}"
                return [("protocol", f"wants a link of each broker into every other cluster; {told}")]
        return []

    @classmethod
    def hops_max(cls, overlay: Any) -> int:
        return 2

    @classmethod
    def places(cls, env: Any) -> list[Place]:
        cluster = clusters_of(env.overlay, env.options.cluster_size)
        ahead = [_gateways(env, broker, cluster) for broker in range(env.brokers)]
        return [_place(env, broker, cluster, ahead) for broker in range(env.brokers)]

    def on_fault(self, message: Message) -> None:
        super().on_fault(message)
        if message.type == LINK_DOWN:
            for names in (self.refused.get(message.link), self.unwanted.get(message.link)):
                if names is not None:
                    names.clear()

    # ---- what goes over a gateway ----------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        if message.type == REFUSED:
            self.unwanted.get(message.link, set()).add(tuple(self.node.body(message)))
        elif message.type == ALLOWED:
            self.unwanted.get(message.link, set()).discard(tuple(self.node.body(message)))
        else:
            if message.type == SNAPSHOT and message.link not in self.strangers:
                self.begin_anew(message)
            super().on_message(message)

    def begin_anew(self, message: Message) -> None:
        """The other end has refused nothing, or tells all that it wants."""
        if message.link in self.place.onward[LOCAL] and message.link not in self.routes:
            self.unwanted.pop(message.link, None)
            if message.word != EVERYTHING:
                self.unwanted[message.link] = set()

    def takes(self, message: Message, link: int, plain: Sequence[Filter], origin: int) -> bool:
        if link in self.unwanted:
            return self.name_of(message) not in self.unwanted[link]
        return super().takes(message, link, plain, origin)

    def publish(self, message: Message) -> None:
        super().publish(message)
        if message.link in self.refused and not self.is_wanted(message):
            self.refuse(message, message.link)

    def is_wanted(self, message: Message) -> bool:
        """Whether anybody in this cluster asked for it, but for groups."""
        tags = self.node.table.tags
        here = (LOCAL, *self.place.onward[message.link])
        return any(
            beyond in self.wanted[filter]
            for filter in (tags[number] for number in self.node.table.match(message.body))
            if not self.is_group(filter)
            for beyond in here
        )

    def refuse(self, message: Message, link: int) -> None:
        name = self.name_of(message)
        if name in self.refused[link]:
            return
        if len(self.refused[link]) == self.node.options.refusals_max:
            del self.refused[link]
            self.come_up(message, link)
            return
        self.refused[link].add(name)
        self.node.send(message, link, REFUSED, list(name))

    def name_of(self, message: Message) -> Name:
        return filter_at(self.node.row(message.body))

    # ---- who wants what --------------------------------------------------------------------------------

    def tells(self, link: int, filter: Filter) -> bool:
        return link not in self.refused or self.is_group(filter)

    def hears(self, link: int, filter: Filter) -> bool:
        return link not in self.unwanted or self.is_group(filter)

    def tell(self, message: Message, filter: Filter, beyond: int, origin: int, grew: bool = False) -> None:
        super().tell(message, filter, beyond, origin, grew)
        if beyond in self.wanted.get(filter, {}) and not self.is_group(filter):
            for link in self.place.told_over.get(beyond, ()):
                if link in self.refused:
                    self.allow(message, link, filter)

    def allow(self, message: Message, link: int, filter: Filter) -> None:
        """Have the other end send what a filter that is wanted asks for."""
        kind, refused = self.node.env.kind, self.refused[link]
        asked = [name for name in sorted(refused) if kind.oracle({0: np.array(filter)}, np.array(name))]
        for name in asked:
            refused.remove(name)
            self.node.send(message, link, ALLOWED, list(name))
        if asked:
            self.allowed[link] = message.cause
        else:
            self.depends(message, self.allowed.get(link, -1))

    def come_up(self, message: Message, link: int) -> None:
        """Begin anew, in the mode that there is."""
        if link in self.refused:
            self.refused[link] = set()
        super().come_up(message, link)

    def snapshot_word(self, link: int) -> int:
        return 0 if link in self.refused else EVERYTHING

    def describe(self) -> dict[str, Any]:
        """Beside filters, how many names are refused, here and at the other ends: no entries, as nobody wants them."""
        count = {"refused here": self.refused, "refused there": self.unwanted}
        return {**super().describe(), **{name: sum(map(len, links.values())) for name, links in count.items()}}


def _gateways(env: Any, broker: int, cluster: list[int]) -> list[int]:
    """The links by which a broker sends into each other cluster, the nearest first."""
    nearest: dict[int, tuple[int, int, int]] = {}
    for link in links_of(env, broker):
        far = int(env.links.target[link])
        way = int(env.links.delay_ns[link]), far, link
        if cluster[far] != cluster[broker]:
            nearest[cluster[far]] = min(way, nearest.get(cluster[far], way))
    return [link for _, _, link in sorted(nearest.values())]


def _place(env: Any, broker: int, cluster: list[int], ahead: list[list[int]]) -> Place:
    links = links_of(env, broker)
    routes = [link for link in links if cluster[env.links.target[link]] == cluster[broker]]
    gateways = ahead[broker]
    behind = [link for link in links if link ^ 1 in ahead[env.links.target[link]]]
    onward = {LOCAL: (*routes, *gateways), **dict.fromkeys(routes, ()), **dict.fromkeys(behind, tuple(routes))}
    rank = dict.fromkeys(routes, 0) | {link: 1 + place for place, link in enumerate(gateways)}
    return Place(onward, dict.fromkeys((*routes, *gateways, *behind), 0), rank)
