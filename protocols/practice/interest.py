"""What neighbours want: told as a sum, where the first comes and where the last goes.

Rules:
- Subscriptions with one filter count as one. A broker keeps of each filter how many want it here, and beyond each link;
  it tells a neighbour what is wanted here and beyond the links over which it may pass publications on (`places`).
- It tells so when the first comes and when the last goes; of a group whenever the number of its members changes.
- INTEREST says how many there are now, not how many more, and is compared with what was said last over that link: what
  is told twice does no harm.
- A link that comes up is told all of it (SNAPSHOT), in the place of all that was told before; who comes back asks for
  that (ASK). What is beyond a link that goes down is forgotten at once, and what still comes over it then is not
  believed: it is the word of a stranger.

Theory. Links are FIFO, so what a neighbour knows is what was told it last. A change of which nothing need be told, as
the filter was told of before, is in force once that has arrived: it depends on the change for which that was told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from brokers.contract import FIRST_PROTOCOL_TYPE, BrokerProtocol, Demand, Guarantees, Message
from brokers.faults import LINK_DOWN, LINK_UP, RESTART
from brokers.promises import Faced, Recovery
from protocols.content.resync import WAITING_NS
from protocols.practice.places import LOCAL, Known, Place, places_of, spread
from protocols.topics.kind import FLAGS_AT, GROUP_AT, NO_LOCAL, PUBLISH, SUBSCRIBE, UNSUBSCRIBE

INTEREST, SNAPSHOT, ASK = range(FIRST_PROTOCOL_TYPE, FIRST_PROTOCOL_TYPE + 3)
LAST_TYPE = ASK
_NOTICED_MAX_NS = 1 << 61

Filter = tuple[float, ...]  # a subscription's row, without its padding; the group is part of it
Told = tuple[int, int]  # how many there are, and the change for which that was said


class Interested(BrokerProtocol):
    """One broker."""

    kind: ClassVar[str] = "topics"
    kinds: ClassVar[tuple[str, ...]] = ("topics", "content")
    meets: ClassVar[frozenset[str]] = frozenset({"groups", "no_local"})
    guarantees: Guarantees = Guarantees(lets_go=True)
    remade: ClassVar[tuple[str, ...]] = ("place", "grouped", "flagged")

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.place = places_of(node, self.places)[node.broker]
        self.grouped = bool(getattr(node.env.kind, "groups", False))
        self.flagged = bool(getattr(node.env.kind, "no_local", False))
        self.selfless: set[int] = set()  # subscriptions that leave out what their client publishes
        self.filter_of: dict[int, Filter] = {}  # a client's subscription -> its filter
        self.members: dict[Filter, list[int]] = {}  # filter -> the subscriptions of clients here, ascending
        # Filter -> link beyond which it is wanted, or LOCAL -> origin -> how many want it.
        self.wanted: dict[Filter, dict[int, dict[int, int]]] = {}
        self.told: dict[int, dict[tuple[int, Filter], Told]] = {link: {} for link in self.place.onward if link != LOCAL}
        self.size = 0  # filters of this broker and of each neighbour, each once
        self.strangers: list[int] = []  # links that are down
        self.number: dict[Filter, int] = {}  # filter -> its entry in the table
        self.numbers = 0

    @classmethod
    def places(cls, env: Any) -> list[Place]:
        """The places of all brokers."""
        raise NotImplementedError

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Faced) -> Recovery | None:
        """To be told, to ask and be answered over a link, and to pass it on over as many as there may be.

        What a link loses by itself nobody is told of; so nothing is promised where links do.
        """
        if np.any(overlay.loss):
            return None
        noticed = min(faced.detect_ns, _NOTICED_MAX_NS)
        return Recovery(noticed + (2 + cls.hops_max(overlay)) * faced.link_ns + WAITING_NS, lets_go=True)

    @classmethod
    def hops_max(cls, overlay: Any) -> int:
        """Over how many links something goes at most."""
        return int(overlay.brokers)

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        brokers = demand.overlay.brokers
        wanting = -np.expm1(demand.interests[:brokers] * np.log1p(-min(demand.share, 1.0 - 1e-12)))
        copies = 1.0 + float(wanting.sum()) * (brokers - 1) / brokers
        changes = 0.0 if demand.settled else float(demand.changes.sum())
        return float(demand.publications.sum()) * copies + changes * brokers

    # ---- what reaches it -------------------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        if message.type == PUBLISH:
            self.publish(message)
        elif message.type == SUBSCRIBE:
            self.join(message, message.word, self.node.row(message.body))
        elif message.type == INTEREST:
            if message.link not in self.strangers:
                (entry,) = self.node.body(message)
                self.hear(message, *entry)
        elif message.type == SNAPSHOT:
            if message.link not in self.strangers:
                self.replace(message, message.link, self.node.body(message))
        elif message.type == ASK:
            self.come_up(message, message.link)
        elif message.type == UNSUBSCRIBE:
            self.leave(message, message.word)

    def publish(self, message: Message) -> None:
        """Pass a publication on, and hand it to clients."""
        raise NotImplementedError

    def on_fault(self, message: Message) -> None:
        if message.type == RESTART:
            for link in self.place.origin:
                self.meet(message, link)
        elif message.link in self.place.origin:
            if message.type == LINK_UP:
                self.strangers = [link for link in self.strangers if link != message.link]
                self.meet(message, message.link)
            elif message.type == LINK_DOWN:
                self.strangers = sorted({*self.strangers, message.link})
                self.replace(message, message.link, [])

    # ---- who wants what --------------------------------------------------------------------------------

    def join(self, message: Message, id: int, row: Any) -> None:
        """A client wants a filter."""
        filter = self.filter_in(row)
        if id not in self.filter_of:
            self.admit(id, filter, row)
            self.note(filter, LOCAL, 0, len(self.members[filter]))
        self.tell(message, filter, LOCAL, 0, grew=True)

    def filter_in(self, row: Any) -> Filter:
        """The filter of a subscription, without flags, which concern nobody but its client."""
        filter = filter_at(row)
        return (0.0, *filter[FLAGS_AT + 1 :]) if self.flagged else filter

    def admit(self, id: int, filter: Filter, row: Any) -> None:
        self.filter_of[id] = filter
        self.members[filter] = sorted([*self.members.get(filter, ()), id])
        if self.flagged and int(row[FLAGS_AT]) & NO_LOCAL:
            self.selfless.add(id)

    def leave(self, message: Message, id: int) -> None:
        """A client does not want it any more."""
        filter = self.filter_of.pop(id, None)
        self.selfless.discard(id)
        if filter is None:
            return
        self.members[filter].remove(id)
        self.note(filter, LOCAL, 0, len(self.members[filter]))
        if not self.members[filter]:
            del self.members[filter]
        self.tell(message, filter, LOCAL, 0)

    def hear(self, message: Message, count: int, said: int, *filter: float) -> None:
        """So many want a filter beyond a link."""
        origin = self.place.heard(message.link, said)
        grew = count > self.count(filter, message.link, origin)
        self.note(filter, message.link, origin, count)
        self.tell(message, filter, message.link, origin, grew)

    def count(self, filter: Filter, beyond: int, origin: int) -> int:
        return self.wanted.get(filter, {}).get(beyond, {}).get(origin, 0)

    def note(self, filter: Filter, beyond: int, origin: int, count: int) -> None:
        """Keep how many want a filter there."""
        there = self.wanted.setdefault(filter, {})
        before, of = len(there), there.setdefault(beyond, {})
        of.pop(origin, None)
        if count:
            of[origin] = count
        if not of:
            del there[beyond]
        self.size += len(there) - before
        if not there:
            del self.wanted[filter]
            if filter in self.number:
                self.node.table.remove(self.number.pop(filter))
        elif filter not in self.number:
            self.number[filter], self.numbers = self.numbers, self.numbers + 1
            self.node.table.add(self.number[filter], 0, np.array(filter), filter)

    def tell(self, message: Message, filter: Filter, beyond: int, origin: int, grew: bool = False) -> None:
        """Have neighbours know what is wanted there now."""
        for link in self.place.told_over.get(beyond, ()):
            said = self.place.said(link, origin)
            if said is not None and self.tells(link, filter):
                self.say(message, link, said, filter, grew)

    def tells(self, link: int, filter: Filter) -> bool:
        """Whether a neighbour is told of a filter that is wanted."""
        return True

    def hears(self, link: int, filter: Filter) -> bool:
        """Whether a neighbour has told of a filter that stands from the start."""
        return True

    def say(self, message: Message, link: int, said: int, filter: Filter, grew: bool) -> None:
        """Tell a neighbour how many there are, unless that is what was said last."""
        told, count = self.told[link], self.sum(filter, link, said)
        before, cause = told.get((said, filter), (0, -1))
        if count != before:
            told[said, filter] = count, message.cause
            if not count:
                del told[said, filter]
            self.node.send(message, link, INTEREST, [[count, said, *filter]])
        elif count and grew:
            self.depends(message, cause)

    def depends(self, message: Message, cause: int) -> None:
        if min(message.cause, cause) >= 0 and message.cause != cause:
            self.node.depends(message.cause, cause)

    def sum(self, filter: Filter, link: int, said: int) -> int:
        """How many want a filter of those that a neighbour is told of with this origin; but for groups they are one."""
        place, there = self.place, self.wanted.get(filter, {})
        count = sum(
            count
            for beyond in (LOCAL, *place.onward[link])
            for origin, count in there.get(beyond, {}).items()
            if place.said(link, origin) == said
        )
        return count if self.is_group(filter) else min(count, 1)

    def is_group(self, filter: Filter) -> bool:
        return self.grouped and filter[GROUP_AT] != 0

    # ---- links that come up and go down ----------------------------------------------------------------

    def meet(self, message: Message, link: int) -> None:
        """Tell a neighbour all, and ask for the same."""
        self.node.send(message, link, ASK)
        self.come_up(message, link)

    def come_up(self, message: Message, link: int) -> None:
        """Tell a neighbour all that is wanted: from now on it is told of changes."""
        if link in self.told:
            entries = self.all(link)
            self.told[link] = {(int(said), tuple(filter)): (int(count), -1) for count, said, *filter in entries}
            self.node.send(message, link, SNAPSHOT, entries, self.snapshot_word(link))

    def snapshot_word(self, link: int) -> int:
        """What is said of a snapshot beside."""
        return 0

    def all(self, link: int) -> list[list[float]]:
        """What a neighbour has to be told, as INTEREST has it."""
        found = []
        for filter in sorted(self.wanted):
            if self.tells(link, filter):
                sums = {said: self.sum(filter, link, said) for said in self.origins(filter, link)}
                found += [[count, said, *filter] for said, count in sorted(sums.items()) if count]
        return found

    def origins(self, filter: Filter, link: int) -> set[int]:
        """The origins with which a neighbour is told of a filter."""
        there = self.wanted[filter]
        every = (self.place.said(link, origin) for beyond in there for origin in there[beyond])
        return {said for said in every if said is not None}

    def replace(self, message: Message, link: int, told: Iterable[list[float]]) -> None:
        """What is wanted beyond a link is this and nothing else."""
        heard = self.place.heard
        now = {(tuple(filter), heard(link, int(said))): int(count) for count, said, *filter in told}
        had = {(filter, origin) for filter, there in self.wanted.items() for origin in there.get(link, ())}
        for filter, origin in sorted(had | set(now)):
            self.note(filter, link, origin, now.get((filter, origin), 0))
            self.tell(message, filter, link, origin)

    # ---- what stands from the start --------------------------------------------------------------------

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        filter = self.filter_in(row)
        heard, told = self.known(broker).get(self.node.broker, ([], []))
        if broker == self.node.broker:
            self.admit(id, filter, row)
        for link, origin in heard:
            if link == LOCAL or self.hears(link, filter):
                more = 1 if link == LOCAL or self.is_group(filter) else 0
                self.note(filter, link, origin, max(1, self.count(filter, link, origin) + more))
        for link, said in told:
            if self.tells(link, filter):
                self.told[link][said, filter] = self.sum(filter, link, said), -1

    def known(self, home: int) -> dict[int, Known]:
        by_home: dict[int, dict[int, Known]] = self.node.shared.setdefault("spread", {})
        if home not in by_home:
            by_home[home] = spread(places_of(self.node, self.places), self.node.env.links.target, home)
        return by_home[home]

    # ---- what is told of it ----------------------------------------------------------------------------

    def entries(self) -> int:
        return self.size

    def describe(self) -> dict[str, Any]:
        env = self.node.env
        names = {LOCAL: "clients", **{link: env.overlay.names[env.links.target[link]] for link in self.place.origin}}
        return {
            "wanted": [
                {
                    "filter": env.kind.spelled(SUBSCRIBE, list(filter)),
                    "by": {names[link]: sum(there[link].values()) for link in sorted(there)},
                }
                for filter, there in sorted(self.wanted.items())
            ]
        }


def filter_at(row: Any) -> Filter:
    """A subscription's row without its padding."""
    there = np.flatnonzero(~np.isnan(row))
    return tuple(row[: int(there[-1]) + 1 if there.size else 0].tolist())
