"""Delivery past brokers that are down: each knows its surroundings up to δ + 1, and bridges over what failed.

After Kazemzadeh and Jacobsen (SRDS 2009, 2011). Rules:
- Brokers stand on one tree and deliver as `reliable` does: streams of ticks away from the publishing broker, which
  logs; what is not acknowledged is kept; neighbours that agree on who wants what.
- Each broker knows the tree up to δ + 1 hops around it, and of each interest the brokers on its last δ + 1 hops.
- It is told who of these is down. Where up to δ in a row are, it opens a link to the first beyond, on every way
  (`bridges.py`), and they deal with each other as if they were neighbours: what is not acknowledged is sent again over
  the bridge, what comes goes over it, and acknowledgements come back by it.
- What was taken already is known by its publisher and tick, and a client's broker delivers in the order of ticks: by
  how many ways something comes does not matter.
- A publication is kept for a neighbour that is down until it is up and has acknowledged; or until all beyond have, if
  nobody in between wants it.
- When those between are up again, a bridge is closed, and they are told what they missed.

Theory. Bridges only tell sooner what `reliable` tells in the end: a broker takes no tick for final that an interest
wants which all know of, over a bridge as little as over a link, since who says so has that interest in a table with
the hops on which it lives. So the promise is that of `reliable`, with any number of failures. While at most δ brokers
in a row are down, and it is known, what is published meanwhile goes on at once: from every broker that is up a chain
of brokers that are up, each within δ + 1 hops of the next, leads to every other. Let a broker be down with probability
f by itself, g = 1 - f; then a pair h hops apart, both up, has such a chain with probability a(h),

    a(0) = 1,  a(h) = sum over i = 0 .. min(δ, h - 1) of f^i g a(h - 1 - i), or f^i where h - 1 - i = 0

(the nearest broker that is up on the way is i + 1 hops on; at the end it is the other one, which is up).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, Field

from brokers.contract import TIMER, Message
from brokers.faults import CLOSED, KEPT, LINK_DOWN, LINK_UP, RESTART
from protocols.content.neighbourhood.bridges import BRIDGED, Bridging
from protocols.content.reliable.broker import Options as ReliableOptions
from topology.overlay import hops_from

DELTA_MOST = 8  # a broker may get a link to all that are a hop more away


class Options(ReliableOptions):
    """Options of `neighbourhood`."""

    delta: Annotated[
        int, Field(ge=1, le=DELTA_MOST, description="so many brokers in a row may be down and are bridged over (δ)")
    ] = 1


class Neighbourhood(Bridging):
    """One broker."""

    Options: ClassVar[type[BaseModel] | None] = Options

    @classmethod
    def latent_hops(cls, options: Any) -> int:
        return int(options.delta) + 1

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Mapping[str, Any]) -> list[tuple[str, str]]:
        reach = cls.latent_hops(options)
        linked = set(zip(overlay.link_a.tolist(), overlay.link_b.tolist()))
        for a in range(overlay.brokers):
            away = hops_from(overlay.adjacency, a)
            for b in np.flatnonzero((away >= 2) & (away <= reach)).tolist():
                if a < b < overlay.brokers and (a, b) not in linked:
                    return [("options.delta", _no_link(overlay, a, b, int(away[b]), reach))]
        return []

    def on_message(self, message: Message) -> None:
        if message.kind != TIMER and message.type in BRIDGED:
            self.bridge_said(message)
        else:
            super().on_message(message)

    def on_fault(self, message: Message) -> None:
        if message.type in (LINK_DOWN, LINK_UP):
            self.take_for(message, message.link, message.type == LINK_DOWN)
        elif message.type == CLOSED:
            self.was_closed(message, message.link)
        elif message.type == RESTART and message.word == KEPT:
            self.greet_again(message)
        super().on_fault(message)
        if message.type == LINK_UP and message.link in self.ways:  # so that it does not send what came over a bridge
            self.acknowledge(message, [each for each in self.streams.values() if each.up == message.link])

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        super().on_standing(id, client, broker, row)
        self.hops[id] = () if broker == self.node.broker else self.around.trail(broker)

    def clients_told_again(self, message: Message) -> None:
        super().clients_told_again(message)
        self.tell_sides(message)

    def describe(self) -> dict[str, Any]:
        names = self.node.env.overlay.names
        return {
            **super().describe(),
            "down": [names[broker] for broker in sorted(self.down)],
            "bridges": sorted(names[bridge.broker] for bridge in self.bridges.values() if bridge.serves),
        }


def _no_link(overlay: Any, a: int, b: int, hops: int, reach: int) -> str:
    one, other = overlay.names[a], overlay.names[b]
    return (
        f"{one} and {other} are {hops} hops apart and have no link that may arise: to bridge over {reach - 1} in a "
        f"row, any two brokers at most {reach} hops apart need one; say `links: {{latent: {{hops: {reach}}}}}`"
    )
