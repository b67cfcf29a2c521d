"""Advertisements in front of `subscription` and `covering`: interests travel only to where they may be served.

Rules:
- A publisher advertises ranges, or a filter of names; its publications lie in them. A broker drops a publication
  that no advertisement of its publisher holds where it enters, and counts it in the table `outside`.
- An advertisement is flooded down the tree rooted at its publisher's broker: the only one of a tree overlay, or, on
  cycles, one per publisher's broker, or one shared by all. Every broker keeps it; the way back is the way up.
- A subscription goes up a tree as far as it came up it, if an advertisement of that tree *meets* it: if there are
  values that both hold. Over each link it goes once, however many lead it there.
- An advertisement that comes *pulls*: subscriptions that meet it and have not gone up its tree go now.
- An advertisement that is taken back is forgotten, the end flooded as it was. Of the two ways to have subscriptions
  forgotten that nothing leads over a link any more, **the sender withdraws**: whoever sent one over the link that
  leads up says so, by UNSUBSCRIBE; nobody drops what came over a link without being told.
- A withdrawal goes where its subscription went, not where advertisements lead today. Publications flow as in
  `subscription`, to where subscriptions came from.

What a broker knows: `adverts`, the table of advertisements, whose last hop follows from the tree (the SRT of the
literature), and of each subscription the links that it came by and those that it went over (the PRT).

Theory. At rest, on a tree: every broker knows every advertisement; a subscription is known to the brokers on the paths
from its client's to those of the advertisements that it meets, and nowhere else; and what one end of a link has sent
is what the other got. So, with A advertisements, B brokers and subscriptions s,

    messages of advertisements   A (B - 1)
    messages of subscriptions    the sum over s of the links of the Steiner tree of s and the advertisers it meets
    entries of advertisements    A B

The last two rules make "was sent" and "meets an advertisement that leads there" the same at every moment at every
broker. Links are FIFO, so the far end follows.

When has an advertisement settled? When the last subscription that it pulled has been handled, which carries it as its
cause. But it pulls nothing over a link that another advertisement has just pulled the same over, and what that one
pulled may still be on its way: then it `depends` on that one. A subscription that comes before an advertisement
depends on nothing: it is the advertisement that waits.

With `recover` neighbours compare advertisements as they compare subscriptions (`resync.py`): what was told over a link
is what this broker passed down over it, of both; so what is said when a link is up again is the sum of what was said
before. Advertisements are mended first and pull what else is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from brokers.contract import NEVER, Demand, Guarantees, Message
from brokers.errors import ProtocolFault
from brokers.promises import Faced, Recovery
from protocols.content.covering import PlainCovering
from protocols.content.kind import ADVERTISE, PUBLISH, UNADVERTISE
from protocols.content.ranges import Box, box_of, contains, holds, meet
from protocols.content.subscription import LOCAL, PlainSubscription, client_of, named
from protocols.expected import to_publishers, to_wanted


class Advertising(PlainSubscription):
    """Subscription forwarding behind advertisements, one broker at a time."""

    hands_over: ClassVar[bool] = False
    requires: ClassVar[Mapping[str, Any]] = {"adverts": True}

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.adverts: dict[int, Any] = {}  # advertisement -> its row
        self.boxes: dict[int, Box] = {}  # what it holds, and what each subscription does
        self.pulled: dict[tuple[int, int], int] = {}  # subscription, link -> the change of somebody else that sent it

    @classmethod
    def guarantees_for(cls, overlay: Any) -> Guarantees:
        return Guarantees()

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Faced) -> Recovery | None:
        """As long as without advertisements, and once more as far: subscriptions follow when these have come."""
        found = super().recovery(options, overlay, faced)
        if found is None or options.recover_within or found.within_ns >= NEVER:
            return found
        return found._replace(within_ns=found.within_ns + faced.way_ns)

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        """As if every advertisement met every subscription: of their values nothing is known beforehand."""
        per_publisher = demand.options.routing == "per-publisher"
        return to_publishers(demand, demand.changes, per_publisher) + to_wanted(demand, demand.share, per_publisher)

    # ---- trees -----------------------------------------------------------------------------------------

    def tree(self, advert: int) -> int:
        """The tree down which an advertisement is flooded."""
        found = int(self.routes.tree_of[self.home(advert)])
        if found < 0:
            client = int(client_of(self.node.env, advert))
            raise ProtocolFault(f"client {client} advertises, and its workload says that it does not publish")
        return found

    def up(self, tree: int) -> int:
        """The link that leads towards the root of a tree; LOCAL at the root."""
        return int(self.routes.up[tree, self.node.broker])

    def down(self, tree: int) -> list[int]:
        """The links that lead away from it."""
        children = self.routes.children(tree, self.node.broker).tolist()
        return [int(self.routes.up[tree, child]) ^ 1 for child in children]

    def goes_up(self, id: int, tree: int) -> bool:
        """Whether a subscription came up a tree, and may go on up it."""
        here, home = self.node.broker, self.home(id)
        return self.up(tree) != LOCAL and any(
            self.routes.on_path(tree, here, via, home) for via in self.came_by[id]
        )

    # ---- what comes ------------------------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        if message.type == ADVERTISE:
            self._advertise(message)
        elif message.type == UNADVERTISE:
            if message.word in self.adverts:
                self._retire(message, message.word)
        elif message.type == PUBLISH and message.link == LOCAL and not self._is_announced(message):
            self.node.record(message, "outside", publication=self.node.key(message))
        else:
            super().on_message(message)

    def _is_announced(self, message: Message) -> bool:
        """Whether an advertisement of its publisher holds a publication."""
        point = self.node.env.kind.point(self.node.row(message.body))
        return any(advert >> 32 == message.source and holds(self.boxes[advert], point) for advert in self.adverts)

    def box(self, row: Any) -> Box:
        """What an interest holds, as ranges."""
        return box_of(self.node.env.kind.ranges(row[None, :])[0])

    def _advertise(self, message: Message) -> None:
        advert = message.word
        if advert in self.adverts:
            return
        self.adverts[advert] = self.node.row(message.body)
        self.boxes[advert] = self.box(self.adverts[advert])
        tree = self.tree(advert)
        for link in self.down(tree):
            self.node.forward(message, link)
        waiting = (id_ for id_ in self._meeting(advert) if self.goes_up(id_, tree))
        for id_ in self.in_order(waiting):
            self.pass_on(message, id_, self.up(tree))

    def _retire(self, message: Message, advert: int) -> None:
        tree = self.tree(advert)
        led = [id_ for id_ in self._meeting(advert) if self.up(tree) in self.sent_over[id_]]
        del self.adverts[advert], self.boxes[advert]
        for link in self.down(tree):
            if message.type == UNADVERTISE:
                self.node.forward(message, link)
            else:
                self.node.send(message, link, UNADVERTISE, word=advert)
        for id_ in led:
            if not any(self.up(tree) in self.ways(id_, via) for via in self.came_by[id_]):
                self.withdraw_from(message, id_, self.up(tree))

    def _subscribe(self, message: Message) -> None:
        self.boxes[message.word] = self.box(self.node.row(message.body))
        super()._subscribe(message)

    def withdraw(self, message: Message, id: int, came: int) -> None:
        super().withdraw(message, id, came)
        if id not in self.came_by:
            self.boxes.pop(id, None)

    # ---- where subscriptions go ------------------------------------------------------------------------

    def _meeting(self, advert: int) -> list[int]:
        """The subscriptions that meet an advertisement, ascending."""
        box = self.boxes[advert]
        return [id_ for id_ in sorted(self.came_by) if meet(box, self.boxes[id_])]

    def in_order(self, ids: Iterable[int]) -> Sequence[int]:
        """Subscriptions in the order in which they are pulled."""
        return list(ids)

    def ways(self, id: int, came: int) -> Sequence[int]:
        box, here, home = self.boxes[id], self.node.broker, self.home(id)
        trees = {self.tree(advert) for advert in self.adverts if meet(self.boxes[advert], box)}
        up = {self.up(tree) for tree in trees if self.routes.on_path(tree, here, came, home)}
        return sorted(up - {LOCAL})

    def leaves(self, id: int, via: int) -> Sequence[int]:
        stays = {link for other in self.came_by[id] for link in self.ways(id, other)}
        return sorted(self.sent_over[id] - stays)

    def pass_on(self, message: Message, id: int, link: int) -> None:
        if link in self.sent_over[id]:
            before = self.pulled.get((id, link), message.cause)
            if message.cause >= 0 and before != message.cause:
                self.node.depends(message.cause, before)
            return
        super().pass_on(message, id, link)
        if link in self.sent_over[id] and message.cause >= 0 and message.cause >> 32 != id >> 32:
            self.pulled[id, link] = message.cause

    def withdrawn(self, message: Message, id: int, link: int) -> None:
        self.pulled.pop((id, link), None)
        super().withdrawn(message, id, link)

    # ---- comparing with neighbours ---------------------------------------------------------------------

    def told(self, link: int) -> list[int]:
        return sorted([*super().told(link), *(a for a in self.adverts if link in self.down(self.tree(a)))])

    def got(self, link: int) -> list[int]:
        return sorted([*super().got(link), *(a for a in self.adverts if link == self.up(self.tree(a)))])

    def tell(self, message: Message, link: int, id: int) -> None:
        if id in self.adverts:
            self.node.send_row(message, link, ADVERTISE, self.adverts[id], word=id)
        else:
            super().tell(message, link, id)

    def drop(self, message: Message, link: int, id: int) -> None:
        if id in self.adverts:
            self._retire(message, id)
        else:
            super().drop(message, link, id)

    # ---- from the start, and looked at -----------------------------------------------------------------

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        """Nobody has advertised yet: whoever is asked knows of it, and nobody else."""
        if broker == self.node.broker:
            self.came_by[id], self.sent_over[id] = {LOCAL}, set()
            self.boxes[id] = self.box(row)
            self.node.table.add(id, client, row, None)

    def entries(self) -> int:
        return super().entries() + len(self.adverts)

    def describe(self) -> dict[str, Any]:
        env = self.node.env
        adverts = {
            str(advert): {
                "client": int(client_of(env, advert)),
                "from": named(env, [self.up(self.tree(advert))]),
                "ranges": {str(attribute): ends for attribute, ends in sorted(self.boxes[advert].items())},
            }
            for advert in sorted(self.adverts)
        }
        return {"adverts": adverts, **super().describe()}


class AdvertisingCovering(Advertising, PlainCovering):
    """The same with `covering` behind: what goes over a link keeps back what it covers there."""

    def in_order(self, ids: Iterable[int]) -> Sequence[int]:
        """What covers others before them, so that these need not go."""
        waiting = sorted(ids)
        return sorted(waiting, key=lambda id_: sum(contains(self.boxes[other], self.boxes[id_]) for other in waiting))

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        super().on_standing(id, client, broker, row)
        if broker == self.node.broker:
            self.ranges[id] = self._ranges(row)


__all__ = ["Advertising", "AdvertisingCovering"]
