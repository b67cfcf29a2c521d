"""What comes next in a whole shard: a winner tree over the first of every ring and of every broker's inputs.

Leaves are rings by number, then the inputs of brokers. A node holds the earlier of its two children; of one time, what
comes first in the order of a broker: sources by number, then timers. Between brokers that order means nothing, since
whatever an event causes lies at least one tick after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.engine.layout import I_SOURCE, M_TIME, NEVER, R_COUNT, R_HEAD, R_OFFSET, TIMER_ORDER


def empty(links: int, brokers: int, link_source: NDArray[np.int32]) -> dict[str, Any]:
    """The arrays of a tree in which nothing comes."""
    leaves = links + 2 * brokers
    places = 1 << max(1, (leaves - 1).bit_length())
    order = np.zeros(leaves, np.int64)
    order[:links] = link_source
    order[links : links + brokers] = TIMER_ORDER + np.arange(brokers)
    return {
        "head_time": np.full(2 * places, NEVER, np.int64),
        "head_leaf": np.zeros(2 * places, np.int32),
        "head_order": order,
    }


@njit(cache=True)
def plant(world):
    """Make the tree of what is under way now."""
    time, leaf, order = world.head_time, world.head_leaf, world.head_order
    rings, arena = world.rings, world.arena
    inputs, input_at, input_end = world.inputs, world.input_at, world.input_end
    places = time.size // 2
    for ring in range(rings.shape[0]):
        leaf[places + ring] = ring
        time[places + ring] = NEVER
        if rings[ring, R_COUNT] > 0:
            time[places + ring] = arena[rings[ring, R_OFFSET] + rings[ring, R_HEAD], M_TIME]
    for b in range(input_at.size):
        place = places + rings.shape[0] + b
        leaf[place] = rings.shape[0] + b
        time[place] = NEVER
        if input_at[b] < input_end[b]:
            time[place] = inputs[input_at[b], M_TIME]
            order[rings.shape[0] + b] = inputs[input_at[b], I_SOURCE]
    for node in range(places - 1, 0, -1):
        _play(time, leaf, order, node)


@njit(inline="always")
def _play(time, leaf, order, node):
    """Let the earlier child have the node."""
    winner = 2 * node
    if time[winner + 1] < time[winner] or (
        time[winner + 1] == time[winner]
        and time[winner] != NEVER
        and order[leaf[winner + 1]] < order[leaf[winner]]
    ):
        winner += 1
    time[node], leaf[node] = time[winner], leaf[winner]


@njit(inline="always")
def moved(time, leaf, order, which, new_time):
    """What comes first of a leaf is another.

    Only siblings are read on the way up, whose places are known from the start: none waits for the one before.
    """
    place = time.size // 2 + which
    earliest, first = np.int64(new_time), np.int64(which)
    time[place] = earliest
    while place > 1:
        other, rival = time[place ^ 1], np.int64(leaf[place ^ 1])
        if other == earliest and other != NEVER:
            if order[rival] < order[first]:
                first = rival
        else:
            first = rival if other < earliest else first
            earliest = min(other, earliest)
        place >>= 1
        time[place], leaf[place] = earliest, first


@njit(inline="always")
def sooner(time, leaf, order, which, new_time):
    """Something comes of a leaf before what did."""
    place = time.size // 2 + which
    if new_time >= time[place]:
        return
    while place > 0 and (
        new_time < time[place] or (new_time == time[place] and order[which] < order[leaf[place]])
    ):
        time[place], leaf[place] = new_time, which
        place >>= 1
