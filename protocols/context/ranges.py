"""What brokers of a shard told their neighbours of values, by value and link: tables that compiled code fills."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.contract import Ints
from brokers.indexes.space import array
from brokers.thresholds import usual_room
from protocols.context.asides import enter_cells

_BY_ROW = {"low": np.float64, "high": np.float64, "level": np.int64, "by": np.int64}


class Ranges:
    """Rows found by value * links + link; `escalating.py` says what is in them."""

    def __init__(self) -> None:
        room = usual_room(64)
        self.keys: Ints = array((room,), np.int64, -1)
        self.slots: NDArray[np.int32] = array((room,), np.int32)
        self.count = np.zeros(1, np.int64)
        self.of: dict[str, NDArray[Any]] = {name: np.zeros(room, dtype) for name, dtype in _BY_ROW.items()}

    def columns(self) -> dict[str, NDArray[Any]]:
        """As the record names them."""
        own: dict[str, NDArray[Any]] = {"told_keys": self.keys, "told_slots": self.slots, "told_count": self.count}
        return {**own, **{f"told_{name}": column for name, column in self.of.items()}}

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(column.nbytes for column in self.columns().values())

    def reserve(self, more: int) -> bool:
        """Have room for so many more; returns whether arrays were replaced."""
        count, room, places = int(self.count[0]) + more, self.of["low"].size, self.keys.size
        lacking, crowded = count > room, 5 * count > 3 * places
        if lacking:
            size = max(count, 2 * room)
            for name, old in self.of.items():
                self.of[name] = np.concatenate((old, np.zeros(size - room, old.dtype)))
        if crowded:
            while 5 * count > 3 * places:
                places *= 2
            held = self.taken()
            self.keys, self.slots = array((places,), np.int64, -1), array((places,), np.int32)
            enter_cells(self.keys, self.slots, *held)
        return lacking or crowded

    def taken(self) -> tuple[Ints, NDArray[np.int32]]:
        """The keys that are there, and the row of each."""
        there = self.keys >= 0
        return self.keys[there], self.slots[there]
