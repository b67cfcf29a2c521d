"""The way of one publication, or of its messages of some types: which event sent which, as far as times and links tell.

A trace says of an event over which link it came, not which event sent it. Sent has it the last event with the same body
that its neighbour was done with a link's delay before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from functools import cached_property

from analysis.ways.told import Hop, Row, Told
from brokers.contract import MESSAGE


class Way:
    """See the module."""

    def __init__(self, told: Told, publication: Row, types: Collection[int] | None = None) -> None:
        self.told, self.publication, self.id = told, publication, int(publication["publication"])
        self.hops = [hop for hop in told.hops(body=self.id) if types is None or hop.type in types]
        self.at: dict[int, list[Hop]] = defaultdict(list)
        for hop in self.hops:
            self.at[hop.broker].append(hop)
        lost = [row for row in told.rows("losses", body=self.id) if types is None or row["type"] in types]
        self.losses = sorted(lost, key=lambda row: (row["time_ns"], row["link"]))

    @cached_property
    def doubled(self) -> list[Row]:
        """Copies that a worn link made."""
        return self.told.rows("doubled", body=self.id)

    @cached_property
    def deliveries(self) -> list[Row]:
        rows = self.told.rows("deliveries", publication=self.id)
        return sorted(rows, key=lambda row: (row["time_ns"], row["client"]))

    @cached_property
    def _sender(self) -> dict[Hop, Hop | None]:
        return {hop: self._sent_by(hop) for hop in self.hops}

    def sender(self, hop: Hop) -> Hop | None:
        """The event that sent this one; None where it came from a client, or nothing tells."""
        return self._sender[hop]

    def _sent_by(self, hop: Hop) -> Hop | None:
        if hop.link >= 0:
            link = self.told.links[hop.link]
            before = hop.time_ns - link["delay_ns"]
            done = [each for each in self.at[link["from"]] if each.finish_ns <= before and each.time_ns < hop.time_ns]
            exact = [each for each in done if each.finish_ns == before]
            alike = [each for each in self.at[hop.broker] if (each.link, each.time_ns) == (hop.link, hop.time_ns)]
            if 1 < len(exact) <= len(alike):  # links keep their order
                return exact[alike.index(hop) * len(exact) // len(alike)]
            return max(exact or done, default=None)
        if hop.kind == MESSAGE:
            return None
        return max((each for each in self.at[hop.broker] if each.time_ns < hop.time_ns), default=None)

    @cached_property
    def _sent(self) -> dict[Hop, list[Hop]]:
        found: dict[Hop, list[Hop]] = defaultdict(list)
        for hop, sender in self._sender.items():
            if sender is not None:
                found[sender].append(hop)
        return found

    def sent(self, hop: Hop) -> list[Hop]:
        """What an event sent, as far as it arrived."""
        return self._sent.get(hop, [])

    def chain(self, hop: Hop) -> list[Hop]:
        """The events from the first to this one."""
        found = [hop]
        while (before := self.sender(found[-1])) is not None:
            found.append(before)
        return found[::-1]

    def passed_on(self, broker: int) -> list[int]:
        """The neighbours to which a broker sent it, whether it arrived or not."""
        to = {hop.broker for hop in self.hops if hop.link >= 0 and self.told.links[hop.link]["from"] == broker}
        lost = {row["link"] for row in self.losses if row["link"] >= 0}
        return sorted(to | {self.told.links[link]["to"] for link in lost if self.told.links[link]["from"] == broker})

    def lost_on(self, link: int) -> Row | None:
        """A copy that was lost on a directed link."""
        return next((row for row in self.losses if row["link"] == link >= 0), None)

    def delivering(self, row: Row) -> Hop | None:
        """The event that made a delivery; of several done at that instant, each made one."""
        here = [hop for hop in self.at[row["broker"]] if hop.finish_ns <= row["time_ns"]]
        exact = [hop for hop in here if hop.finish_ns == row["time_ns"]]
        alike = [
            each for each in self.deliveries if each["client"] == row["client"] and each["time_ns"] == row["time_ns"]
        ]
        which = next((at for at, each in enumerate(alike) if each is row), 0)
        return exact[which % len(exact)] if exact else max(here, default=None)
