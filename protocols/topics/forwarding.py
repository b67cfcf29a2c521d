"""Forwarding of names: as `subscription`, with groups of which exactly one member gets a publication.

Rules:
- Interests travel, and publications follow, as `protocols.content.subscription` says; members of groups are told of in
  the same way, but draw nothing.
- What a subscription leaves out, by no-local, it does not draw: its client's own publications, which enter where it is.
- The broker where a publication enters chooses one of the members that it knows of each group whose filter has the
  name: by a draw that follows from the publication, so that all members are chosen alike often.
- For that member a CHOSEN goes down the tree to its broker, with the publication and the member's subscription as its
  word. There it is delivered, unless the member has left meanwhile: then nobody gets it.
- Who is chosen, and got the publication already for a subscription of its own, gets it once. The copy for the one went
  ahead of the CHOSEN on every link, so the broker need only remember for a while to whom of its members it delivered.

Theory. One broker chooses, so a group never gets a publication twice, whatever is under way. Once a member's
subscription has settled it is known where publications enter; so a group of which all members have settled, and none is
leaving, gets each exactly once.
"""

from __future__ import annotations

from typing import Any, ClassVar

from brokers.contract import FIRST_PROTOCOL_TYPE, Demand, Guarantees, Message
from brokers.node import Body
from protocols.content.subscription import LOCAL, PlainSubscription, Subscription, client_of
from protocols.topics.kind import FLAGS_AT, GROUP_AT, NO_LOCAL, SUBSCRIBE, levels_of
from topology import draws

CHOSEN = FIRST_PROTOCOL_TYPE + 8  # behind those of `resync` and `handing`
_REMEMBERED_NS = 10_000_000_000  # a CHOSEN is as quick as the publication ahead of it

Group = tuple[int, ...]  # its name and the levels of its filter


class Forwarding(PlainSubscription):
    """One broker."""

    kind: ClassVar[str] = "topics"
    kinds: ClassVar[tuple[str, ...]] = ()
    meets: ClassVar[frozenset[str]] = frozenset({"groups", "no_local"})
    hands_over: ClassVar[bool] = False

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.group_of: dict[int, Group] = {}  # subscription -> the group that it is a member of
        self.selfless: set[int] = set()  # subscriptions that leave out what their clients publish
        self.served: dict[tuple[int, int], int] = {}  # publication, client -> when it got it, of members of groups

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        return Guarantees()

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        return Subscription.expected_events(demand)

    def on_message(self, message: Message) -> None:
        if message.type == CHOSEN:
            self._pass(message, message.word)
        else:
            super().on_message(message)

    # ---- who is in which group -------------------------------------------------------------------------

    def _subscribe(self, message: Message) -> None:
        self._join(message.word, self.node.row(message.body))
        super()._subscribe(message)

    def _leave(self, message: Message, id: int, via: int) -> None:
        super()._leave(message, id, via)
        if id not in self.came_by:
            self.group_of.pop(id, None)
            self.selfless.discard(id)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        super().on_standing(id, client, broker, row)
        if id in self.came_by:
            self._join(id, row)

    def _join(self, id: int, row: Any) -> None:
        if row[GROUP_AT]:
            self.group_of[id] = int(row[GROUP_AT]), *levels_of(SUBSCRIBE, row)
        if int(row[FLAGS_AT]) & NO_LOCAL:
            self.selfless.add(id)

    def describe(self) -> dict[str, Any]:
        groups: dict[str, list[str]] = {}
        for id_, (name, *levels) in sorted(self.group_of.items()):
            row = [0, name, *levels]
            groups.setdefault(self.node.env.kind.spelled(SUBSCRIBE, row)[0], []).append(str(id_))
        return {**super().describe(), "groups": groups, "no_local": sorted(map(str, self.selfless))}

    # ---- publications ----------------------------------------------------------------------------------

    def wanting(self, message: Message) -> list[int]:
        publisher = self.node.key(message) >> 32
        return [
            id_ for id_ in super().wanting(message)
            if id_ not in self.group_of and not (id_ in self.selfless and id_ >> 32 == publisher)
        ]  # fmt: skip

    def _publish(self, message: Message) -> None:
        super()._publish(message)
        if message.link < 0 and self.group_of:
            for members in self._groups(super().wanting(message)):
                self._pass(message, self._choice(message, members))

    def give(self, message: Message, client: int, matched: list[int]) -> None:
        if self.group_of:
            self._note(message, client)
        super().give(message, client, matched)

    def _groups(self, matched: list[int]) -> list[list[int]]:
        """The members among these subscriptions, group by group."""
        found: dict[Group, list[int]] = {}
        for id_ in matched:
            if id_ in self.group_of:
                found.setdefault(self.group_of[id_], []).append(id_)
        return [sorted(found[group]) for group in sorted(found)]

    def _choice(self, message: Message, members: list[int]) -> int:
        key = draws.stream(self.node.env.seed, self.node.key(message), "topics/choice")
        return members[int(draws.bits(key, members[0])) % len(members)]

    def _pass(self, message: Message, id: int) -> None:
        """Towards the broker of a chosen member, or to the member."""
        node, routes, home = self.node, self.routes, self.home(id)
        if home == node.broker:
            self._serve(message, id)
            return
        tree = int(routes.tree_of[node.origin(message)])
        for child in routes.children(tree, node.broker).tolist():
            if routes.is_below(tree, child, home):
                node.send(message, int(routes.up[tree, child]) ^ 1, CHOSEN, Body(message.body), id)

    def _serve(self, message: Message, id: int) -> None:
        if LOCAL not in self.came_by.get(id, ()):
            return
        node, client = self.node, client_of(self.node.env, id)
        publication = node.key(message)
        node.record(message, "chosen", publication=publication, interest=id, client=client + node.env.entity_base)
        if (publication, client) not in self.served:
            self._note(message, client)
            node.deliver(message, client)

    def _note(self, message: Message, client: int) -> None:
        """A client gets a publication now."""
        self.served[self.node.key(message), client] = message.time
        while self.served[first := next(iter(self.served))] <= message.time - _REMEMBERED_NS:
            del self.served[first]
