"""How far brokers are from each other, along the links that they have."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

import numpy as np

Near = Mapping[int, list[tuple[int, int]]]  # node -> its neighbours, and how long the links to them are


def neighbours(link_a: Any, link_b: Any, length: Any) -> Near:
    """Who is next to whom, over undirected links."""
    near: dict[int, list[tuple[int, int]]] = {}
    for a, b, far in zip(*(np.asarray(each).tolist() for each in (link_a, link_b, length))):
        near.setdefault(a, []).append((b, far))
        near.setdefault(b, []).append((a, far))
    return near


def distances(near: Near, origin: int) -> dict[int, int]:
    """How far every node is that can be reached, the nearest first. O(links log links)."""
    reached: dict[int, int] = {}
    ahead = [(0, origin)]
    while ahead:
        far, node = heapq.heappop(ahead)
        if node not in reached:
            reached[node] = far
            for other, length in near.get(node, ()):
                heapq.heappush(ahead, (far + length, other))
    return reached
