"""Publications: one copy to each neighbour beyond which they are wanted, and to one member of each group.

Rules:
- A publication goes over the links that its place allows and beyond which a filter that has its name is wanted, unless
  all who want it there are of the cluster that it came from.
- Of each group whose filter has its name one member gets it. The broker where it enters serves the group: by a member
  of its own, if it has any, or else by one of the neighbours that have some, which then serves it in the same way.
  Members are drawn alike, and neighbours by the number of members that they told.
- The groups that a neighbour has to serve are NAMED to it on the link right ahead of the publication. It serves no
  others: somebody else does.

Theory. Wherever a publication goes, it gets there by one way, so nobody gets it twice. At each broker a group that is
named to it is served once or passed on to one neighbour, so one member gets it at most; and one does if those who told
of members still have them when it comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from brokers.contract import Message
from brokers.node import Body
from protocols.practice.interest import LAST_TYPE as LAST_OF_INTEREST
from protocols.practice.interest import Filter, Interested
from protocols.topics.kind import PUBLISH
from topology import draws

NAMED = LAST_OF_INTEREST + 1
LAST_TYPE = NAMED


class Forwarding(Interested):
    """One broker."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.named: dict[int, tuple[int, list[Filter]]] = {}  # link -> publication that comes next, and its groups

    def on_message(self, message: Message) -> None:
        if message.type == NAMED:
            self.named[message.link] = self.node.key(message), [tuple(each) for each in self.node.body(message)]
        else:
            super().on_message(message)

    def publish(self, message: Message) -> None:
        node, tags = self.node, self.node.table.tags
        matched = sorted(tags[number] for number in node.table.match(message.body))
        plain = [filter for filter in matched if not self.is_group(filter)]
        origin = 0 if message.link < 0 else self.place.heard(message.link, message.word)
        copies: dict[int, list[Filter]] = {
            link: [] for link in self.place.onward.get(message.link, ()) if self.takes(message, link, plain, origin)
        }
        clients = {
            self.client_of(id_)
            for filter in plain
            for id_ in self.members.get(filter, ())
            if id_ not in self.selfless or id_ >> 32 != node.key(message) >> 32
        }
        chosen = []
        for filter in self.to_serve(message, matched):
            if filter in self.members:
                chosen.append(self.choose(message, filter))
            elif (way := self.choose_way(message, filter, origin)) is not None:
                copies.setdefault(way, []).append(filter)
        self.pass_on(message, copies, origin)
        for client in sorted([*clients, *chosen]):
            node.deliver(message, client)
        node.work(message, self.entries(), len(matched))

    def takes(self, message: Message, link: int, plain: Sequence[Filter], origin: int) -> bool:
        """Whether a copy goes over a link to whoever asked by one of these filters, which have its name."""
        return any(self.beyond(filter, link, origin) for filter in plain)

    def beyond(self, filter: Filter, link: int, origin: int) -> int:
        """How many want a filter beyond a link who are not of the cluster that a publication came from."""
        there = self.wanted[filter].get(link, {})
        return sum(count for said, count in there.items() if not said or said != origin)

    def pass_on(self, message: Message, copies: dict[int, list[Filter]], origin: int) -> None:
        for link in self.place.onward.get(message.link, ()):
            word = self.place.said(link, origin)
            if link not in copies or word is None:
                continue
            if copies[link]:
                self.node.send(message, link, NAMED, [list(filter) for filter in copies[link]])
            self.node.send(message, link, PUBLISH, Body(message.body), word)

    # ---- groups ----------------------------------------------------------------------------------------

    def to_serve(self, message: Message, matched: Sequence[Filter]) -> list[Filter]:
        """The groups that this broker sees to."""
        if message.link < 0:
            return [filter for filter in matched if self.is_group(filter)]
        publication, named = self.named.pop(message.link, (-1, []))
        return [filter for filter in named if filter in self.wanted] if publication == self.node.key(message) else []

    def choose(self, message: Message, filter: Filter) -> int:
        """The member here that gets it."""
        members = self.members[filter]
        id_ = members[self.draw(message, filter) % len(members)]
        self.node.record(
            message, "chosen", publication=self.node.key(message), interest=id_, client=id_ >> 32
        )
        return self.client_of(id_)

    def choose_way(self, message: Message, filter: Filter, origin: int) -> int | None:
        """The neighbour that serves a group, of those nearest: each as often as it has members."""
        ways = [link for link in self.place.onward.get(message.link, ()) if self.beyond(filter, link, origin)]
        if not ways:
            return None
        nearest = min(self.place.rank[link] for link in ways)
        ways = [link for link in ways if self.place.rank[link] == nearest]
        drawn = self.draw(message, filter) % sum(self.beyond(filter, link, origin) for link in ways)
        for link in ways:
            drawn -= self.beyond(filter, link, origin)
            if drawn < 0:
                break
        return link

    def draw(self, message: Message, filter: Filter) -> int:
        """A number for a publication, a group and this broker."""
        group = draws.stream(self.node.env.seed, self.node.key(message), f"practice/{filter}")
        return int(draws.bits(group, self.node.broker))

    def client_of(self, id: int) -> int:
        return (id >> 32) - self.node.env.entity_base
