"""Rings of messages under way: one per directed link, one per broker for its timers, all in one arena."""

from __future__ import annotations

import numpy as np

from brokers.contract import Ints
from brokers.engine import kernels as K

_FIRST_ROWS = 8


class Lanes:
    """The rings of a shard. Lane `link` holds what is under way on that link, lane `links + broker` timers."""

    def __init__(self, links: int, brokers: int) -> None:
        count = links + brokers
        self.links = links
        self.table = np.zeros((count, 4), np.int64)  # columns R_* of kernels
        self.table[:, K.R_OFFSET] = np.arange(count) * _FIRST_ROWS
        self.table[:, K.R_CAPACITY] = _FIRST_ROWS
        self.arena = np.zeros((max(2 * count * _FIRST_ROWS, 4096), K.ROW), np.int64)
        self._used = count * _FIRST_ROWS
        self._wanted = np.zeros(count, np.int64)

    def reserve(self, lane_of: Ints) -> None:
        """Make room for one more row in each lane named. O(lanes named), amortised."""
        used = K.grow_lanes(lane_of, lane_of.size, self.table, self.arena, self._used, self._wanted)
        while used < 0:
            live = int(self.table[:, K.R_CAPACITY].sum())
            fresh = np.zeros((2 * (live - used), K.ROW), np.int64)
            self._used = K.move_lanes(self.table, self.arena, fresh)
            self.arena = fresh
            used = K.grow_lanes(lane_of, lane_of.size, self.table, self.arena, self._used, self._wanted)
        self._used = used
