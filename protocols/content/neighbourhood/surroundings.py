"""What a broker knows of the tree around it: who is within reach, on which way, and over which link of its own.

It follows from the overlay alone. `reach` is δ + 1 hops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from protocols.routes import Routes

Way = tuple[int, ...]  # the brokers on the way to one, which is the last


class Surroundings:
    """The tree around one broker."""

    def __init__(self, node: Any, routes: Routes, reach: int) -> None:
        self._here, self._routes, self._reach = node.broker, routes, reach
        self.ways: dict[int, Way] = {}  # by broker that is at most so far away, the nearest first
        self.links: dict[int, int] = {}  # by broker, this one's link to it, be it latent
        for way in self._walk(range(routes.brokers)):
            self.ways[way[-1]] = way
        for link in (*node.links, *getattr(node, "latent", ())):
            if node.neighbour(link) in self.ways:
                self.links[node.neighbour(link)] = link

    def beyond(self, down: Collection[int]) -> Iterator[int]:
        """The nearest brokers that are up, on all ways that lead over some that are down."""
        return (way[-1] for way in self._walk(down) if len(way) > 1 and way[-1] not in down)

    def trail(self, broker: int) -> Way:
        """The first brokers on the way to one, as far as they are within reach."""
        if broker in self.ways:
            return self.ways[broker]
        at, found = self._here, []
        for _ in range(self._reach):
            at = int(self._routes.links.target[self._routes.towards(at, broker)])
            found.append(at)
        return tuple(found)

    def _walk(self, over: Collection[int]) -> Iterator[Way]:
        """The ways from here that lead over these brokers only, but for their ends. By length."""
        ahead: list[Way] = [()]
        for way in ahead:
            at, before = (way[-1], (self._here, *way)[-2]) if way else (self._here, -1)
            if len(way) < self._reach and (not way or at in over):
                ahead += [(*way, other) for other in _beside(self._routes, at) if other != before]
            if way:
                yield way


def _beside(routes: Routes, broker: int) -> list[int]:
    """The neighbours of a broker on the tree."""
    links = routes.links
    mine = links.out_link[links.out_start[broker] : links.out_start[broker + 1]]
    return [int(links.target[link]) for link in mine.tolist() if routes.in_tree[link]]
