"""Merge procedures: what is asked of the server in place of a set of queries (section 5.1 of the source).

Each answers two questions about the boxes of a set: what merging them would send (`estimate`), and what
exactly is to be asked for (`pieces`). With a rectangle or a polygon it is one merged query; the exact
decomposition asks for several, each wanted in full by its members, who unite what they get.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from brokers.errors import EnvironmentProblem, InvalidInput
from brokers.indexes.contract import Ids
from brokers.planning.geometry import decompose, maximal
from brokers.planning.model import Floats
from brokers.planning.sizes import Size


class Estimate(NamedTuple):
    """What a merged set of queries sends."""

    size: float  # objects sent
    pieces: int  # merged queries sent
    received: float  # objects received by each member, summed


class Piece(NamedTuple):
    """One merged query: objects in any of its boxes, and the members that want some of them."""

    low: Floats  # [boxes, d]
    high: Floats
    members: Ids  # rows of the set, ascending


class Procedure(ABC):
    """How a set of queries becomes merged queries."""

    name: str

    @abstractmethod
    def estimate(self, size: Size, low: Floats, high: Floats) -> Estimate:
        """What is sent for a set of boxes."""

    @abstractmethod
    def pieces(self, low: Floats, high: Floats) -> list[Piece]:
        """What is asked for."""


class Rectangle(Procedure):
    """The smallest box that encloses all. One merged query, which may return much that nobody asked for."""

    name = "rectangle"

    def estimate(self, size: Size, low: Floats, high: Floats) -> Estimate:
        """O(n d)."""
        bottom, top = low.min(axis=0, keepdims=True), high.max(axis=0, keepdims=True)
        sent = float(size.of_boxes(bottom, top)[0])
        return Estimate(sent, 1, len(low) * sent)

    def pieces(self, low: Floats, high: Floats) -> list[Piece]:
        bottom, top = low.min(axis=0, keepdims=True), high.max(axis=0, keepdims=True)
        return [Piece(bottom, top, np.arange(len(low)))]


class Polygon(Procedure):
    """The union as one disjunctive query: irrelevant to a member is only what others asked for.

    `boxes_max` bounds the disjuncts: the two whose enclosing box adds least volume become that box, until
    few enough are left.
    """

    name = "polygon"

    def __init__(self, boxes_max: int | None = None) -> None:
        if boxes_max is not None and boxes_max < 1:
            raise InvalidInput(f"boxes_max is {boxes_max}; a polygon has at least one box")
        self.boxes_max = boxes_max

    def estimate(self, size: Size, low: Floats, high: Floats) -> Estimate:
        """As `Size.of_union`; with `boxes_max` O(n^3) before it."""
        if self.boxes_max is not None:
            low_, high_ = self._boxes(low, high)
            sent = size.of_union(low_, high_)
        else:
            sent = size.of_union(low, high)
        return Estimate(sent, 1, len(low) * sent)

    def pieces(self, low: Floats, high: Floats) -> list[Piece]:
        return [Piece(*self._boxes(low, high), np.arange(len(low)))]

    def outline(self, low: Floats, high: Floats) -> Any:
        """The region of two-dimensional boxes as a shapely geometry, to draw or to store."""
        shapely = _shapely()
        if low.shape[1] != 2:
            raise InvalidInput(f"the boxes have {low.shape[1]} dimensions; an outline has 2")
        bottom, top = self._boxes(low, high)
        return shapely.union_all(shapely.box(bottom[:, 0], bottom[:, 1], top[:, 0], top[:, 1]))

    def _boxes(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        low, high = maximal(low, high)
        while self.boxes_max is not None and len(low) > self.boxes_max:
            bottom = np.minimum(low[:, None], low[None])
            top = np.maximum(high[:, None], high[None])
            volume = (high - low).prod(axis=1)
            added = (top - bottom).prod(axis=2) - volume[:, None] - volume[None]
            added[np.tri(len(low), dtype=bool)] = np.inf
            a, b = np.unravel_index(np.argmin(added), added.shape)
            low[a], high[a] = bottom[a, b], top[a, b]
            low, high = maximal(np.delete(low, b, axis=0), np.delete(high, b, axis=0))
        return low, high


class Exact(Procedure):
    """The union cut along all borders: several merged queries, and nothing that nobody asked for.

    Objects on a border between pieces are sent with both.
    """

    name = "exact"

    def estimate(self, size: Size, low: Floats, high: Floats) -> Estimate:
        """O(n (2n)^d)."""
        cut = decompose(low, high)
        sizes = size.of_boxes(cut.low, cut.high)
        members = _covering(low, high, cut.low, cut.high).sum(axis=0)
        return Estimate(float(sizes.sum()), len(sizes), float((sizes * members).sum()))

    def pieces(self, low: Floats, high: Floats) -> list[Piece]:
        cut = decompose(low, high)
        covering = _covering(low, high, cut.low, cut.high)
        return [
            Piece(cut.low[i : i + 1], cut.high[i : i + 1], np.flatnonzero(covering[:, i]))
            for i in range(len(cut.low))
        ]


PROCEDURES: dict[str, type[Procedure]] = {"rectangle": Rectangle, "polygon": Polygon, "exact": Exact}


def _covering(low: Floats, high: Floats, piece_low: Floats, piece_high: Floats) -> Any:
    """[boxes, pieces]: whether the piece lies in the box."""
    above = (low[:, None] <= piece_low[None]).all(axis=2)
    return above & (high[:, None] >= piece_high[None]).all(axis=2)


def _shapely() -> Any:
    try:
        import shapely
    except ImportError:
        raise EnvironmentProblem(
            "an outline needs shapely, which is missing; run `pip install 'brokerlab[planning]'`"
        ) from None
    return shapely
