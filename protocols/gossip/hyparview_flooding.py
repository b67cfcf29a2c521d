"""Flooding over HyParView: every publication goes to all neighbours that a broker has found, but back.

Rules:
- Who is whose neighbour says `hyparview`. A publication that has not come before is handed to the clients here and goes
  on to all neighbours but the one that it came from.
- Which publications came is remembered for `ids` after each was sent; copies of older ones are dropped unread.

With views of K neighbours a publication costs some n (K - 1) copies, of which n - 1 are needed: what is too much brings
it where neighbours have crashed and nobody has noticed yet.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field

from brokers.contract import Demand, Guarantees, Message
from protocols.gossip.hyparview_options import ViewOptions, expected_of, remarks_of
from protocols.gossip.members import Gossiping
from topology.units import PositiveDuration


class Options(ViewOptions):
    """Options of `hyparview-flooding`."""

    ids: Annotated[
        PositiveDuration,
        Field(examples=["30 s", "90 s"], description="how long after it was sent a publication is known to have come"),
    ] = 90_000_000_000


class HyParViewFlooding(Gossiping):
    """One broker."""

    Options: ClassVar[type[BaseModel] | None] = Options
    guarantees = Guarantees(exact=False, fifo_per_publisher=False, lets_go=True, only_wanted=True)
    resends: ClassVar[bool] = True  # to who was a neighbour, was not, and is one again
    remade: ClassVar[tuple[str, ...]] = ("timer_min_ns",)

    def __init__(self, node: Any) -> None:
        super().__init__(node, node.options.ids, node.options)
        self.timer_min_ns = node.options.timer_min

    @classmethod
    def remarks(cls, options: Any, overlay: Any) -> list[str]:
        return remarks_of(options, overlay)

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        copies = demand.overlay.brokers * max(1, demand.options.active - 1)
        return float(demand.publications.sum() * copies + demand.changes.sum()) + expected_of(demand.options, demand)

    def publish(self, message: Message) -> None:
        if self.seen_before(message):
            return
        self.hand_over(message)
        for link in sorted(self.members.active):
            if link != message.link:
                self.node.forward(message, link)

    def gossip(self, message: Message) -> None:
        """It has no messages of its own."""
