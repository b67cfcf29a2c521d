"""Sorted numbers by owner, in one array: which profiles a home has, which name a value."""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.contract import Ints
from brokers.indexes.contract import claim

_ROOM_MIN = 4


class Bunches:
    """Distinct numbers of each owner, ascending: items[start[owner]:][:count[owner]]."""

    def __init__(self, owners: int) -> None:
        self.start = np.zeros(owners, np.int64)
        self.count = np.zeros(owners, np.int64)
        self._room = np.zeros(owners, np.int64)
        self.items = np.empty(64, np.int64)
        self._used = 0

    def reserve(self, owners: int) -> None:
        """Have this many owners."""
        if owners > self.start.size:
            more = np.zeros(max(owners, 2 * self.start.size) - self.start.size, np.int64)
            for name in ("start", "count", "_room"):
                setattr(self, name, np.concatenate((getattr(self, name), more)))

    def add(self, owners: Ints, items: Ints) -> None:
        """Enter items that are not there yet. O(items of the owners)."""
        if not owners.size:
            return
        who, more = np.unique(owners, return_counts=True)
        lacking = self.count[who] + more > self._room[who]
        if lacking.any():
            who, needed = who[lacking], (self.count[who] + more)[lacking]
            self._move(who, np.maximum(needed + needed // 2, _ROOM_MIN))
        order = np.lexsort((items, owners))
        _insert(owners[order], items[order], self.start, self.count, self.items)

    def remove(self, owners: Ints, items: Ints) -> None:
        """Take out items that are there. O(items of the owners)."""
        _remove(owners, items, self.start, self.count, self.items)

    def of(self, owner: int) -> Ints:
        """What an owner has."""
        start = self.start[owner]
        return self.items[start : start + self.count[owner]]

    def memory_bytes(self) -> int:
        return self.start.nbytes + self.count.nbytes + self._room.nbytes + self.items.nbytes

    def check(self) -> None:
        """Every invariant. O(items)."""
        claim((self.count <= self._room).all(), "nobody has more than there is room for")
        held = np.flatnonzero(self._room)
        order = held[np.argsort(self.start[held])]
        ends = self.start[order] + self._room[order]
        claim((self.start[order][1:] >= ends[:-1]).all() and self._used <= self.items.size, "owners do not overlap")
        claim(all((np.diff(self.of(owner)) > 0).all() for owner in held.tolist()), "items ascend")

    def _move(self, who: Ints, rooms: Ints) -> None:
        """Give these owners so much room, at the end."""
        needed = int(rooms.sum())
        if self._used + needed > self.items.size:
            self._close_up(needed)
        fresh = self._used + np.cumsum(rooms) - rooms
        _carry(self.start[who], self.count[who], self.items, fresh, self.items)
        self.start[who], self._room[who] = fresh, rooms
        self._used += needed

    def _close_up(self, needed: int) -> None:
        """Lay everybody one behind the other, with this much behind them."""
        fresh = np.cumsum(self._room) - self._room
        used = int(self._room.sum())
        items = np.empty(2 * (used + needed), np.int64)
        _carry(self.start, self.count, self.items, fresh, items)
        self.start, self.items, self._used = fresh, items, used


@njit(cache=True)
def _insert(owners, new, start, count, items):
    for i in range(owners.size):
        owner = owners[i]
        at = start[owner] + count[owner]
        while at > start[owner] and items[at - 1] > new[i]:
            items[at] = items[at - 1]
            at -= 1
        items[at] = new[i]
        count[owner] += 1


@njit(cache=True)
def _remove(owners, old, start, count, items):
    for i in range(owners.size):
        owner = owners[i]
        end = start[owner] + count[owner]
        low, high = start[owner], end
        while low < high:
            middle = (low + high) // 2
            if items[middle] < old[i]:
                low = middle + 1
            else:
                high = middle
        for at in range(low, end - 1):
            items[at] = items[at + 1]
        count[owner] -= 1


@njit(cache=True)
def _carry(start, count, items, fresh, into):
    for i in range(start.size):
        for j in range(count[i]):
            into[fresh[i] + j] = items[start[i] + j]
