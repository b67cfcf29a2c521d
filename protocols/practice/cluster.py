"""A cluster: everybody is linked to everybody, knows what is wanted where, and sends it there in one hop.

Rules:
- Every two brokers have a link, a *route*. What clients here want is told over all of them, and what came over a route
  is told over none.
- What a client publishes goes over the routes beyond which it is wanted; what came over a route goes to clients only.

How it is told, and how groups are served, say `interest` and `forwarding`.

Costs, of N brokers: the first subscription with a filter at a broker N - 1 messages, and so the last that ends; a table
as many entries as the brokers have different filters, each counted at each broker that has it; a publication one
message for each *other* broker where somebody wants it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from protocols.practice.forwarding import Forwarding
from protocols.practice.places import LOCAL, Place, links_of, misfits_of_clusters


class Cluster(Forwarding):
    """One broker."""

    frugal: ClassVar[bool] = True

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Mapping[str, Any]) -> list[tuple[str, str]]:
        return misfits_of_clusters(overlay, [0] * overlay.brokers)

    @classmethod
    def hops_max(cls, overlay: Any) -> int:
        return 1

    @classmethod
    def places(cls, env: Any) -> list[Place]:
        return [cls._place(links_of(env, broker)) for broker in range(env.brokers)]

    @staticmethod
    def _place(links: list[int]) -> Place:
        onward = {LOCAL: tuple(links), **dict.fromkeys(links, ())}
        return Place(onward, dict.fromkeys(links, 0), dict.fromkeys(links, 0))
