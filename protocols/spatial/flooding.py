"""spatial-flooding: every object goes whole to every broker, each of which ranks for its own clients.

The baseline: nothing is known of who wants what, so subscriptions cause no message at all.
"""

from __future__ import annotations

from typing import Any

from brokers.contract import Demand
from protocols.expected import to_all
from protocols.spatial.common import Head, Ranking


class Flooding(Ranking):
    """See the module."""

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        return to_all(demand, demand.publications + demand.of("expiries")) + cls.expected_subscriptions(demand)

    def wanted_from(self, link: int, words: tuple[int, ...]) -> bool:
        return True

    def towards(self, head: Head) -> list[int]:
        return [link for link in self.links if link != head.link]

    def on_standing(self, id: int, client: int, broker: int, row: Any) -> None:
        if broker == self.node.broker:
            self.add(id, row)
