"""Rein: mark whoever does not match; who is left matches.

After Qian, Cao, Zhu and Li (INFOCOM 2014). Each attribute's domain is cut into equal cells. Per attribute the low
ends lie in the bucket of their cell, and so do the high ends, in another row of buckets. For a value in cell c, all
ranges whose low end lies in a later bucket fail, and all whose high end lies in an earlier one: they are marked
unseen in a set of bits. Only the two buckets of cell c itself are compared. A missing value marks every range on
the attribute.

The domain of an attribute is what its range ends span when the structure is compiled.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.content.compiled import CompiledIndex, Grid, ranges_of
from brokers.indexes.content.contract import Floats
from brokers.indexes.content.store import Slots
from brokers.indexes.contract import Ids, claim
from brokers.indexes.intrinsics import trailing_zeros

_ONE = np.uint64(1)


class Rein(CompiledIndex):
    """Buckets of range ends and bits for failures. Match O(ranges that fail + held / 64)."""

    def __init__(self, attributes: int, *, buckets: int = 1000) -> None:
        """`buckets` per attribute and kind of end: more mean fewer comparisons, and more places to look at."""
        super().__init__(attributes)
        if not 1 <= buckets <= 1_000_000:
            raise InvalidInput(f"{buckets} buckets; pass 1..1000000")
        self.buckets = buckets

    def _compile(self, slots: Slots) -> None:
        self._grid = Grid(self._store, slots, self.buckets)
        words = (len(self._store.ids) + 63) // 64
        self._alive = np.packbits(_membership(slots, 64 * words), bitorder="little").view(np.uint64)
        self._low, self._high = self._columns(slots)

    def _strike(self, slots: Slots) -> None:
        np.bitwise_and.at(self._alive, slots >> 6, ~(_ONE << (slots & 63).astype(np.uint64)))

    def _lookup(self, events: Floats) -> tuple[Ids, Slots]:
        cells = self._grid.cells_of(events, np.arange(self.attributes))
        self.counters.probed += 2 * int((cells >= 0).sum())
        self.counters.words += len(events) * len(self._alive)
        return _mark(*self._low, *self._high, self._alive, events, cells, self.buckets)

    def _columns(self, slots: Slots) -> tuple[tuple[Ids, Floats, Ids], tuple[Ids, Floats, Ids]]:
        """The low and the high ends of these slots, each by attribute and bucket: starts, ends, owners."""
        owner, attribute, low, high = ranges_of(self._store, slots)
        buckets = self.attributes * self.buckets
        first, second = (
            _bucketed(attribute * np.int64(self.buckets) + self._grid.cells_of(ends, attribute), ends, owner, buckets)
            for ends in (low, high)
        )
        return first, second

    def _structure_bytes(self) -> int:
        return sum(column.nbytes for column in (*self._low, *self._high, self._alive))

    def _check_structure(self, slots: Slots) -> None:
        alive = np.unpackbits(self._alive.view(np.uint8), bitorder="little")
        claim(np.array_equal(np.flatnonzero(alive), slots), "the bits are those of the compiled slots")
        for (starts, ends, owners), again in zip((self._low, self._high), self._columns(slots)):
            mine = alive[owners] == 1
            before = np.concatenate([[0], np.cumsum(mine)])
            claim(np.array_equal(before[starts], again[0]), "as many ends in a bucket as fall into its cell")
            claim(np.array_equal(ends[mine], again[1]), "ends are those of the store")
            claim(np.array_equal(owners[mine], again[2]), "each with its owner")


def _membership(slots: Slots, size: int) -> NDArray[np.bool_]:
    out = np.zeros(size, np.bool_)
    out[slots] = True
    return out


@njit(cache=True)
def _bucketed(bucket, ends, owner, buckets):
    starts = np.zeros(buckets + 2, np.int64)
    for i in range(bucket.size):
        starts[bucket[i] + 2] += 1
    for b in range(1, starts.size):
        starts[b] += starts[b - 1]
    # starts[b + 1] is where the bucket begins, until its last entry is written: then where it ends.
    out_ends, out_owner = np.empty(ends.size, np.float64), np.empty(ends.size, np.int32)
    for i in range(bucket.size):
        place = starts[bucket[i] + 1]
        out_ends[place], out_owner[place] = ends[i], owner[i]
        starts[bucket[i] + 1] += 1
    return starts[:-1].copy(), out_ends, out_owner


@njit(cache=True)
def _mark_all(left, owners):
    for i in range(owners.size):
        slot = np.uint64(owners[i])
        left[slot >> np.uint64(6)] &= ~(_ONE << (slot & np.uint64(63)))


@njit(cache=True)
def _mark(low_starts, lows, low_owner, high_starts, highs, high_owner, alive, events, cells, buckets):
    left = np.empty_like(alive)
    ptr = np.zeros(events.shape[0] + 1, np.int64)
    found = np.empty(64 * alive.size, np.int64)
    total = 0
    for e in range(events.shape[0]):
        left[:] = alive
        for a in range(events.shape[1]):
            value = events[e, a]
            first, last = a * buckets, (a + 1) * buckets
            if value != value:
                _mark_all(left, low_owner[low_starts[first] : low_starts[last]])
                continue
            here = first + cells[e, a]
            _mark_all(left, low_owner[low_starts[here + 1] : low_starts[last]])
            _mark_all(left, high_owner[high_starts[first] : high_starts[here]])
            for i in range(low_starts[here], low_starts[here + 1]):
                if lows[i] > value:
                    _mark_all(left, low_owner[i : i + 1])
            for i in range(high_starts[here], high_starts[here + 1]):
                if highs[i] < value:
                    _mark_all(left, high_owner[i : i + 1])
        if total + 64 * alive.size > found.size:
            larger = np.empty(2 * total + 64 * alive.size, np.int64)
            larger[:total] = found[:total]
            found = larger
        for w in range(left.size):
            word = left[w]
            while word != 0:
                found[total] = (w << 6) + np.int64(trailing_zeros(word))  # type: ignore[call-arg]
                total += 1
                word &= word - _ONE
        ptr[e + 1] = total
    return ptr, found[:total].copy()
