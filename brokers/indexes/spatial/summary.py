"""What a link has to know of the subscriptions behind it: per keyword a few boxes, each with a distance.

A box holds the places of subscriptions, and its `squared` is the largest squared k-th distance among them. An
object may be among the k nearest of one of them only if it has the keyword and lies within that distance of
the box. So a link that asks `may_matter` for each keyword of an object never keeps one from a subscription in
RT; an object that is still held at another place has to be expired first. A summary stays sound while k-th
distances shrink (objects arrive) and subscriptions leave; it has to be made anew when objects expire and when
subscriptions come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.spatial.contract import ReverseTopK
from brokers.indexes.spatial.geometry import Floats, squared_gaps
from brokers.indexes.spatial.items import NONE, Slots

BOXES_MAX = 8


class Summary(NamedTuple):
    """The subscriptions with one keyword: plain arrays, to be sent as they are."""

    boxes: Floats  # [n, 2 axes], lows then highs
    squared: Floats  # [n], infinite where a subscription has fewer than k relevant objects

    def may_matter(self, point: Floats) -> bool:
        """Whether an object at a point may be among the k nearest of a subscription. O(boxes)."""
        return bool((squared_gaps(self.boxes, point) <= self.squared).any())


def summaries(index: ReverseTopK, k: int, boxes_max: int = BOXES_MAX) -> dict[str, Summary]:
    """Of all subscriptions of an index, by keyword. O(subscriptions * (keywords + k-th distance))."""
    one_by_one = by_keyword(index, k)
    return {index.vocabulary.string(word): coarser(summary, boxes_max) for word, summary in one_by_one.items()}


def by_keyword(index: ReverseTopK, k: int, ids: Any = None) -> dict[int, Summary]:
    """By number of keyword, these subscriptions of an index or all of them, each in a box of its own."""
    slots, squared = index.kth_squared(k, ids)
    return boxes_of(index.subscriptions.words[slots], index.subscriptions.points[slots], squared)


def boxes_of(words: NDArray[np.int32], points: Floats, squared: Floats) -> dict[int, Summary]:
    """The same of subscriptions with these keywords, places and squared k-th distances."""
    row, column = np.nonzero(words != NONE)
    word = words[row, column]
    row = row[np.argsort(word, kind="stable")]
    numbers, counts = np.unique(word, return_counts=True)
    found = {}
    for number, mine in zip(numbers.tolist(), np.split(row, np.cumsum(counts)[:-1])):
        found[number] = Summary(np.concatenate([points[mine], points[mine]], axis=1), squared[mine])
    return found


def joined(parts: Sequence[Mapping[str, Summary]], boxes_max: int = BOXES_MAX) -> dict[str, Summary]:
    """The summaries of several brokers as those of all of them. O(boxes)."""
    keywords = sorted({keyword for part in parts for keyword in part})
    found = {}
    for keyword in keywords:
        same = [part[keyword] for part in parts if keyword in part]
        both = Summary(
            np.concatenate([summary.boxes for summary in same]),
            np.concatenate([summary.squared for summary in same]),
        )
        found[keyword] = coarser(both, boxes_max)
    return found


def coarser(summary: Summary, boxes_max: int, parts: Sequence[Slots] | None = None) -> Summary:
    """The same subscriptions in at most so many boxes: the widest part is halved until there are enough.

    `parts`, at most so many, says which boxes to begin with: what is in two of them is not put together.
    """
    if boxes_max < 1:
        raise InvalidInput(f"boxes_max is {boxes_max}; pass at least 1")
    boxes, squared = summary
    if len(squared) <= boxes_max:
        return summary
    axes = boxes.shape[1] // 2
    centres = (boxes[:, :axes] + boxes[:, axes:]) / 2
    parts = [np.arange(len(squared))] if parts is None else list(parts)
    widths = [_widths(centres[part]) for part in parts]
    while len(parts) < boxes_max:
        widest = int(np.argmax([width.max() for width in widths]))
        if widths[widest].max() == 0:
            break
        part = parts[widest]
        order = part[np.argsort(centres[part, int(np.argmax(widths[widest]))], kind="stable")]
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        parts[widest : widest + 1] = halves
        widths[widest : widest + 1] = [_widths(centres[half]) for half in halves]
    low = np.array([boxes[part, :axes].min(axis=0) for part in parts])
    high = np.array([boxes[part, axes:].max(axis=0) for part in parts])
    return Summary(np.concatenate([low, high], axis=1), np.array([squared[part].max() for part in parts]))


def _widths(centres: Floats) -> Floats:
    return np.asarray(centres.max(axis=0) - centres.min(axis=0))
