"""Forwarding of names: as `subscription`, with groups of which one member gets a publication, and what is retained.

Rules:
- Interests travel, and publications follow, as `protocols.content.subscription` says; members of groups are told of in
  the same way, but draw nothing.
- What a subscription leaves out, by no-local, it does not draw: its client's own publications, which enter where it is.
- The broker where a publication enters chooses one of the members that it knows of each group whose filter has the
  name: by a draw that follows from the publication, so that all members are chosen alike often.
- For that member a CHOSEN goes down the tree to its broker, with the publication and the member's subscription as its
  word. There it is delivered, beside what the member asked for by itself, unless the member has left meanwhile: then
  nobody gets it.
- What is retained goes to every broker, and each keeps the last of every name (`retained`): over links behind which
  nobody wants it as a KEEP, which is handled as the publication is. Who subscribes is answered by its own broker,
  with what that keeps under the names that the filter has; members of groups are not.
- With the option `recover` neighbours that compare their tables tell each other by HAVE what they keep, and who has
  more sends it (LACKING); what was new goes on over the other links. Clients that were there all along are not told.

Theory. One broker chooses, so a group never gets a publication twice, whatever is under way. Once a member's
subscription has settled it is known where publications enter; so a group of which all members have settled, and none is
leaving, gets each exactly once.

A retained publication has settled once every broker has handled it. Brokers keep the greatest of what has come to them,
in an order that depends on nothing else, so that then all have the same; before, some have the one before. A client
needs its own broker only: of each retained publication that comes there it gets either the publication itself, when its
subscription is there before, or what is kept; never neither, and of each name what is kept comes first. What a
subscription is owed is therefore the last of what had settled when it was issued, or a later one that was under way.

Comparing heals this too. What two neighbours keep differs by publications of which the link between them, or one of
them, has lost a copy; a LACKING brings what is missing over that link, and it goes on as far as it is new.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from brokers.contract import FIRST_PROTOCOL_TYPE, Demand, Guarantees, Message
from brokers.node import Body
from protocols.content.subscription import LOCAL, PlainSubscription, client_of
from protocols.expected import to_all, to_publishers, to_wanted
from protocols.topics import retained
from protocols.topics.kind import (
    AS_PUBLISHED,
    EMPTY,
    GROUP_AT,
    IF_NEW,
    NEVER_KEPT,
    NO_LOCAL,
    PUBLISH,
    RETAIN,
    SUBSCRIBE,
    Topics,
    flags_of,
    leaves_out,
    levels_of,
)
from topology import draws

CHOSEN, KEEP, HAVE, LACKING = range(FIRST_PROTOCOL_TYPE + 8, FIRST_PROTOCOL_TYPE + 12)  # behind `resync` and `handing`

Group = tuple[int, ...]  # its name and the levels of its filter


class Forwarding(PlainSubscription):
    """One broker."""

    kind: ClassVar[str] = "topics"
    kinds: ClassVar[tuple[str, ...]] = ()
    meets: ClassVar[frozenset[str]] = frozenset({"groups", "no_local", "overlap", "retained"})
    hands_over: ClassVar[bool] = False

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.group_of: dict[int, Group] = {}  # subscription -> the group that it is a member of
        self.selfless: set[int] = set()  # subscriptions that leave out what their clients publish
        self.as_published: set[int] = set()  # those to whom live copies say that they are retained
        self.kept: retained.Kept = {}

    @property
    def service(self) -> Topics:
        return cast(Topics, self.node.env.kind)

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        return Guarantees()

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        """As `subscription`, but that every broker hears of what is retained."""
        per_publisher = demand.options.routing == "per-publisher"
        to_keep = demand.of("retained")
        share = float(to_keep.sum()) / max(float(demand.publications.sum()), 1e-300)
        changes = to_publishers(demand, demand.changes, per_publisher)
        return changes + to_all(demand, to_keep) + (1 - share) * to_wanted(demand, demand.share, per_publisher)

    def on_message(self, message: Message) -> None:
        if message.type == CHOSEN:
            self._pass(message, message.word)
        elif message.type == KEEP:
            self._publish(message)
        elif message.type == HAVE:
            self._send_lacking(message)
        elif message.type == LACKING:
            self._take_over(message)
        else:
            super().on_message(message)

    # ---- who is in which group -------------------------------------------------------------------------

    def _subscribe(self, message: Message) -> None:
        row = self.node.row(message.body)
        answers = message.link < 0 and self.service.retained and self._wants_kept(message.word, row)
        self._join(message.word, row)
        super()._subscribe(message)
        if answers:
            self._recall(message, row)

    def _leave(self, message: Message, id: int, via: int) -> None:
        super()._leave(message, id, via)
        if id not in self.came_by:
            self.group_of.pop(id, None)
            self.selfless.discard(id)
            self.as_published.discard(id)

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        super().on_standing(id, client, broker, row)
        if id in self.came_by:
            self._join(id, row)

    def _join(self, id: int, row: Any) -> None:
        if row[GROUP_AT]:
            self.group_of[id] = int(row[GROUP_AT]), *levels_of(SUBSCRIBE, row)
        for flag, those in ((NO_LOCAL, self.selfless), (AS_PUBLISHED, self.as_published)):
            if flags_of(SUBSCRIBE, row) & flag:
                those.add(id)

    def describe(self) -> dict[str, Any]:
        groups: dict[str, list[str]] = {}
        for id_, (name, *levels) in sorted(self.group_of.items()):
            row = [0, name, *levels]
            groups.setdefault(self.service.spelled(SUBSCRIBE, row)[0], []).append(str(id_))
        told = {**super().describe(), "groups": groups, "no_local": sorted(map(str, self.selfless))}
        if self.service.retained:
            there = ((self.service.spelled(PUBLISH, name)[0], last) for name, last in self.kept.items())
            told["retained"] = {name: str(id_) for name, (_, id_, empty) in sorted(there) if not empty}
        return told

    # ---- publications ----------------------------------------------------------------------------------

    def wanting(self, message: Message) -> list[int]:
        publisher = self.node.key(message) >> 32
        return [
            id_ for id_ in super().wanting(message)
            if id_ not in self.group_of and not (id_ in self.selfless and id_ >> 32 == publisher)
        ]  # fmt: skip

    def _publish(self, message: Message) -> None:
        if self._is_retained(message):
            self._retain(message)
        super()._publish(message)
        if message.link < 0 and self.group_of:
            for members in self._groups(super().wanting(message)):
                self._pass(message, self._choice(message, members))

    def unwanted_behind(self, message: Message, link: int) -> None:
        if self._is_retained(message):
            self.node.send(message, link, KEEP, Body(message.body))

    def give(self, message: Message, client: int, matched: list[int]) -> None:
        if not (self.service.each or self.service.retained):
            self.node.deliver(message, client)
            return
        asked = sorted(i for i in matched if client_of(self.node.env, i) == client and LOCAL in self.came_by[i])
        if not self.service.each:
            asked = [next((i for i in asked if i in self.as_published), asked[0])]
        for id_ in asked:
            self._hand(message, client, id_)

    def _hand(self, message: Message, client: int, id: int) -> None:
        """Give a client what was published, for one of its subscriptions, which may want to be told of retaining."""
        node = self.node
        if not self._is_retained(message):
            node.deliver(message, client)
        elif id in self.as_published:
            self._tell_retained(message, node.key(message), id, client, live=1)
            node.deliver(message, client)
        else:
            levels = levels_of(PUBLISH, node.row(message.body))
            node.deliver(message, client, node.row_body(message, PUBLISH, levels))

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
        node.record(
            message, "chosen", publication=node.key(message), interest=id, client=client + node.env.entity_base
        )
        self._hand(message, client, id)

    # ---- what is retained ------------------------------------------------------------------------------

    def _is_retained(self, message: Message) -> bool:
        return self.service.retained and bool(flags_of(PUBLISH, self.node.row(message.body)) & RETAIN)

    def _retain(self, message: Message) -> None:
        row = self.node.row(message.body)
        sent, id_, _ = self.node.env.bodies.stands_for(message.body)
        last = sent, id_, bool(flags_of(PUBLISH, row) & EMPTY)
        retained.keep(self.kept, tuple(levels_of(PUBLISH, row)), last)

    def _wants_kept(self, id: int, row: Any) -> bool:
        """Whether a subscription that comes is answered with what is kept."""
        flags = flags_of(SUBSCRIBE, row)
        if row[GROUP_AT] or flags & NEVER_KEPT:
            return False
        return not flags & IF_NEW or not any(self._asks_the_same(other, id, row) for other in self.came_by)

    def _asks_the_same(self, other: int, id: int, row: Any) -> bool:
        """Whether another subscription of the client here has the same filter, and is in no group either."""
        if other >> 32 != id >> 32 or LOCAL not in self.came_by[other] or other in self.group_of:
            return False
        return levels_of(SUBSCRIBE, self.node.table.interest(other)[1]) == levels_of(SUBSCRIBE, row)

    def _recall(self, message: Message, row: Any) -> None:
        """Give a client what is kept under the names that its new subscription has."""
        node, client = self.node, client_of(self.node.env, message.word)
        for (_, publication, _), name in retained.found(self.kept, levels_of(SUBSCRIBE, row), self.service.syntax):
            if not leaves_out(row, message.word >> 32, publication):
                self._tell_retained(message, publication, message.word, client, live=0)
                node.deliver(message, client, node.row_body(message, PUBLISH, [*name, -RETAIN], stands=False))

    def _tell_retained(self, message: Message, publication: int, id: int, client: int, live: int) -> None:
        entity = client + self.node.env.entity_base
        self.node.record(message, "retained", publication=publication, interest=id, client=entity, live=live)

    # ---- and after faults ------------------------------------------------------------------------------

    def _ask(self, message: Message, link: int, word: int) -> None:
        super()._ask(message, link, word)
        if self.service.retained:
            self.node.send(message, link, HAVE, retained.ids(self.kept))

    def _send_lacking(self, message: Message) -> None:
        rows = retained.written(self.kept, self.node.body(message))
        if rows:
            self.node.send(message, message.link, LACKING, rows)

    def _take_over(self, message: Message) -> None:
        new = [row for row, one in self._read(message) if retained.keep(self.kept, *one)]
        for link in self.node.links if new else ():
            if link != message.link:
                self.node.send(message, link, LACKING, new)

    def _read(self, message: Message) -> list[tuple[list[Any], tuple[retained.Name, retained.Last]]]:
        rows = self.node.body(message)
        return list(zip(rows, retained.read(rows)))
