"""Rings of messages under way: one per directed link, one per broker for its timers, all in one arena.

Links that are described have no ring of their own. What comes over any of them to a broker lies in its *post*, one ring
for all, in order of time, source and sequence.

What is under way on a link is in order already, so a ring is all it takes: nothing is ever sorted. Rows of one
ring lie together, since what governs the speed is how many cache lines an event touches.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.contract import Ints
from brokers.engine import layout as L
from brokers.engine.layout import (
    M_CAUSE,
    M_PACKED,
    M_SEQUENCE,
    M_TIME,
    M_WORD,
    R_CAPACITY,
    R_COUNT,
    R_HEAD,
    R_OFFSET,
    ROW,
)

_FIRST_ROWS = 8


class Rings:
    """The rings of a shard. Ring `link` holds what is under way on that link, ring `links + broker` timers.

    With `posts`, ring `links + brokers + broker` is the post of a broker.
    """

    def __init__(self, links: int, brokers: int, posts: bool = False) -> None:
        count = links + brokers * (2 if posts else 1)
        self.links = links
        self.table = np.zeros((count, L.RING), np.int64)
        self.table[:, R_OFFSET] = np.arange(count) * _FIRST_ROWS
        self.table[:, R_CAPACITY] = _FIRST_ROWS
        self.arena = np.zeros((max(2 * count * _FIRST_ROWS, 4096), L.ROW), np.int64)
        self.used = L.apart(1)  # rows of the arena that belong to a ring
        self.used[0] = count * _FIRST_ROWS
        self.wanted = np.zeros(count, np.int64)

    def reserve(self, ring_of: Ints) -> None:
        """Make room for one more row in each ring named; may replace the arena. O(rings named), amortised."""
        while lacking := grow(ring_of, (0, ring_of.size), self.table, self.arena, self.used, self.wanted, 1):
            live = int(self.table[:, R_CAPACITY].sum())
            fresh = np.zeros((2 * (live + lacking), L.ROW), np.int64)
            self.used[0] = _move(self.table, self.arena, fresh)
            self.arena = fresh

    def rows(self) -> tuple[Ints, Ints]:
        """Everything under way in order of rings: (ring, row) of each."""
        holding = np.flatnonzero(self.table[:, R_COUNT])
        places = []
        for offset, capacity, head, count in self.table[holding].tolist():
            places.append(offset + ((head + np.arange(count)) & (capacity - 1)))
        ring = np.repeat(holding, self.table[holding, R_COUNT])
        return ring, self.arena[np.concatenate(places)] if places else np.empty((0, L.ROW), np.int64)

    def put(self, ring_of: Ints, rows: Ints) -> None:
        """Add rows to rings, each of which is in order."""
        self.reserve(ring_of)
        _push_rows(rows, ring_of, self.table, self.arena)

    def put_timer(self, ring: int, row: tuple[int, int, int, int, int]) -> None:
        """Add a timer to a ring, wherever its time wants it."""
        self.reserve(np.array([ring]))
        insert(self.table, self.arena, ring, *row)


# ---- kernels -----------------------------------------------------------------------------------------


@njit(inline="always")
def packed(body, type_, service):
    return (np.int64(body) << 24) | (np.int64(type_) << 8) | np.int64(service)


@njit(inline="always")
def push(rings, arena, ring, time, sequence, word, carried, cause):
    """Add a row behind all others of its ring, which has room for it."""
    at = rings[ring, R_OFFSET] + ((rings[ring, R_HEAD] + rings[ring, R_COUNT]) & (rings[ring, R_CAPACITY] - 1))
    arena[at, M_TIME] = time
    arena[at, M_SEQUENCE] = sequence
    arena[at, M_WORD] = word
    arena[at, M_PACKED] = carried
    arena[at, M_CAUSE] = cause
    rings[ring, R_COUNT] += 1


@njit(cache=True)
def insert(rings, arena, ring, time, sequence, word, carried, cause):
    """Insert by (time, sequence) from the back: timers of one delay come in order, so this is O(1) for them."""
    offset, head, mask = rings[ring, R_OFFSET], rings[ring, R_HEAD], rings[ring, R_CAPACITY] - 1
    j = rings[ring, R_COUNT]
    while j > 0:
        before = offset + ((head + j - 1) & mask)
        if arena[before, M_TIME] < time or (
            arena[before, M_TIME] == time and arena[before, M_SEQUENCE] < sequence
        ):
            break
        for column in range(ROW):
            arena[offset + ((head + j) & mask), column] = arena[before, column]
        j -= 1
    at = offset + ((head + j) & mask)
    arena[at, M_TIME] = time
    arena[at, M_SEQUENCE] = sequence
    arena[at, M_WORD] = word
    arena[at, M_PACKED] = carried
    arena[at, M_CAUSE] = cause
    rings[ring, R_COUNT] += 1


@njit(cache=True)
def _push_rows(rows, ring_of, rings, arena):
    for i in range(rows.shape[0]):
        push(
            rings, arena, ring_of[i], rows[i, M_TIME], rows[i, M_SEQUENCE], rows[i, M_WORD], rows[i, M_PACKED],
            rows[i, M_CAUSE],
        )


@njit(cache=True)
def grow(ring_of, which, rings, arena, used, wanted, times):
    """Make room for so many rows in each ring of ring_of[which[0]:which[1]], as often as it is named.

    Returns the rows that the arena is short of, and then nothing has changed; 0 if there is room now.
    """
    for i in range(which[0], which[1]):
        wanted[ring_of[i]] += times
    need = 0
    for i in range(which[0], which[1]):
        ring = ring_of[i]
        total = rings[ring, R_COUNT] + wanted[ring]
        if wanted[ring] > 0 and total > rings[ring, R_CAPACITY]:
            capacity = rings[ring, R_CAPACITY]
            while capacity < total:
                capacity *= 2
            need += capacity
            wanted[ring] = -capacity
        elif wanted[ring] > 0:
            wanted[ring] = 0
    if used[0] + need > arena.shape[0]:
        for i in range(which[0], which[1]):
            wanted[ring_of[i]] = 0
        return need
    for i in range(which[0], which[1]):
        ring = ring_of[i]
        if wanted[ring] < 0:
            capacity = -wanted[ring]
            wanted[ring] = 0
            _copy(rings, ring, arena, arena, used[0])
            rings[ring, R_CAPACITY] = capacity
            used[0] += capacity
    return 0


@njit(cache=True)
def _move(rings, arena, fresh):
    """Copy all rings next to each other into a fresh arena; returns the rows used."""
    used = 0
    for ring in range(rings.shape[0]):
        _copy(rings, ring, arena, fresh, used)
        used += rings[ring, R_CAPACITY]
    return used


@njit(cache=True)
def _copy(rings, ring, arena, target, used):
    """Let a ring begin anew at row `used` of the target."""
    offset, head = rings[ring, R_OFFSET], rings[ring, R_HEAD]
    mask = rings[ring, R_CAPACITY] - 1
    for j in range(rings[ring, R_COUNT]):
        for column in range(ROW):
            target[used + j, column] = arena[offset + ((head + j) & mask), column]
    rings[ring, R_OFFSET] = used
    rings[ring, R_HEAD] = 0
