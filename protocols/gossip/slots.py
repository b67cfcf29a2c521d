"""Slots: small numbers for the publications that brokers of a shard remember, used again once nobody does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from brokers.contract import Ints
from brokers.indexes.ids import IdMap

FEW = 64  # for which there is room at first


class Slots:
    """By slot, the publication's id, and until when somebody may ask for it. Kernels find slots by `map`."""

    def __init__(self, widen: Callable[[int], None]) -> None:
        """`widen` makes room for so many wherever else something is kept by slot."""
        self.map = IdMap()
        self.id = np.full(FEW, -1, np.int64)
        self.until = np.zeros(FEW, np.int64)
        self._free = list(range(FEW - 1, -1, -1))
        self._widen = widen

    def __len__(self) -> int:
        return len(self.map)

    @property
    def room(self) -> int:
        return self.id.size

    def number(self, id_: int, until_ns: int) -> int:
        """The slot of a publication, for so long at least. O(1) expected and amortised."""
        found = int(self.map.find(np.array([id_]))[0])
        if found < 0:
            if not self._free:
                self._double()
            found = self._free.pop()
            self.id[found] = id_
            self.map.add(np.array([id_]), np.array([found]))
        self.until[found] = max(int(self.until[found]), until_ns)
        return found

    def _double(self) -> None:
        size = self.room
        self.id = np.concatenate((self.id, np.full(size, -1, np.int64)))
        self.until = np.concatenate((self.until, np.zeros(size, np.int64)))
        self._free.extend(range(2 * size - 1, size - 1, -1))
        self._widen(2 * size)

    def taken(self) -> Ints:
        """The slots of all that are remembered."""
        return np.flatnonzero(self.id >= 0)

    def forget(self, now: int, uses: Ints) -> Ints:
        """Give up those that nobody uses, where nobody will ask from now on: which these were."""
        gone = np.flatnonzero((self.id >= 0) & (uses == 0) & (self.until < now))
        if gone.size:
            self.map.remove(self.id[gone])
            self.id[gone], self.until[gone] = -1, 0
            self._free.extend(gone.tolist())
        return gone
