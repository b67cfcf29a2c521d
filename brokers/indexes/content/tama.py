"""Tama: every range as a few cells of a hierarchy, every event as one cell per level, matches by counting.

After Zhao and Wu (ICDCS 2011). Each attribute's domain is cut into 2**level cells at every level; a range is
entered in the fewest cells, of whatever level, that together cover it, rounded outward to the finest level. A
value lies in one cell per level, and a range is entered in at most one of those: each hit raises a counter, and
a subscription with as many hits as ranges is a candidate.

The rounding makes the candidates approximate: a value just outside a range may count. The source delivers them
all and chooses the number of levels by the false positives it accepts. Here they are verified, unless
`verify=False` asks for the source's behaviour; either way no match is missed.

The domain of an attribute is what its range ends span when the structure is compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from brokers.errors import InvalidInput
from brokers.indexes.content.compiled import CompiledIndex, Grid, ranges_of
from brokers.indexes.content.contract import Floats
from brokers.indexes.content.store import Slots
from brokers.indexes.contract import Ids, claim

LEVELS_MAX = 16
_STRUCK = np.uint16(65_535)  # more ranges than a subscription can have


class Tama(CompiledIndex):
    """Hierarchical cells and counters. Match O(attributes * levels + ranges that hold + held)."""

    def __init__(self, attributes: int, *, levels: int = 10, verify: bool = True) -> None:
        """`levels` below the root: a range grows by up to 2**-levels of the domain on either side. More levels
        mean fewer false positives, and about one entry more per range and level."""
        super().__init__(attributes)
        if not 1 <= levels <= LEVELS_MAX:
            raise InvalidInput(f"{levels} levels; pass 1..{LEVELS_MAX}")
        self.levels = levels
        self.exact = not verify

    def _compile(self, slots: Slots) -> None:
        self._grid = Grid(self._store, slots, 1 << self.levels)
        owner, attribute, first, last = self._cells(slots)
        self._needed = np.full(len(self._store.ids), _STRUCK, np.uint16)
        self._needed[slots] = 0
        np.add.at(self._needed, owner, np.uint16(1))
        self._starts, self._entries = _enter(owner, attribute, first, last, self.attributes, self.levels)

    def _strike(self, slots: Slots) -> None:
        self._needed[slots] = _STRUCK

    def _lookup(self, events: Floats) -> tuple[Ids, Slots]:
        cells = self._grid.cells_of(events, np.arange(self.attributes))
        self.counters.probed += (self.levels + 1) * int((cells >= 0).sum())
        return _count(self._starts, self._entries, self._needed, cells, self.levels)

    def _cells(self, slots: Slots) -> tuple[Any, Any, Any, Any]:
        """All ranges of these slots: slot, attribute, and the finest cells where each begins and ends."""
        owner, attribute, low, high = ranges_of(self._store, slots)
        return owner, attribute, self._grid.cells_of(low, attribute), self._grid.cells_of(high, attribute)

    def _structure_bytes(self) -> int:
        return self._starts.nbytes + self._entries.nbytes + self._needed.nbytes

    def _check_structure(self, slots: Slots) -> None:
        columns = self._cells(slots)
        others = np.ones(len(self._needed), np.bool_)
        others[slots] = False
        claim((self._needed[others] == _STRUCK).all(), "no other can be found")
        needed = np.bincount(columns[0], minlength=len(self._needed))
        claim(np.array_equal(self._needed[slots], needed[slots]), "each compiled one needs all its ranges")
        starts, entries = _enter(*columns, self.attributes, self.levels)
        mine = ~others[self._entries]
        before = np.concatenate([[0], np.cumsum(mine)])
        claim(np.array_equal(before[self._starts], starts), "as many entries in a cell as ranges that it covers")
        claim(np.array_equal(self._entries[mine], entries), "each in the cells that cover its ranges")


@njit(cache=True)
def _enter(owner, attribute, first, last, attributes, levels):
    """Entries by attribute and cell. Cell 1 is the root; the halves of cell c are 2c and 2c + 1."""
    leaves = 1 << levels
    starts = np.zeros(attributes * 2 * leaves + 2, np.int64)
    covering = np.empty(2 * levels + 2, np.int64)
    for i in range(owner.size):
        for c in range(_covering(first[i] + leaves, last[i] + leaves + 1, covering)):
            starts[attribute[i] * 2 * leaves + covering[c] + 2] += 1
    for cell in range(1, starts.size):
        starts[cell] += starts[cell - 1]
    # starts[cell + 1] is where the cell begins, until its last entry is written: then where it ends.
    entries = np.empty(starts[-1], np.int32)
    for i in range(owner.size):
        for c in range(_covering(first[i] + leaves, last[i] + leaves + 1, covering)):
            cell = attribute[i] * 2 * leaves + covering[c]
            entries[starts[cell + 1]] = owner[i]
            starts[cell + 1] += 1
    return starts[:-1].copy(), entries


@njit(cache=True)
def _covering(left, right, out):
    """The fewest cells that cover the finest cells left..right - 1, into `out`; how many."""
    count = 0
    while left < right:
        if left & 1:  # a right half whose parent begins too early
            out[count] = left
            count += 1
            left += 1
        if right & 1:
            right -= 1
            out[count] = right
            count += 1
        left >>= 1
        right >>= 1
    return count


@njit(cache=True)
def _count(starts, entries, needed, cells, levels):
    counts = np.empty(needed.size, np.uint16)
    ptr = np.zeros(cells.shape[0] + 1, np.int64)
    found = np.empty(needed.size, np.int64)
    leaves = 1 << levels
    total = 0
    for e in range(cells.shape[0]):
        counts[:] = 0
        for a in range(cells.shape[1]):
            if cells[e, a] < 0:
                continue
            cell = cells[e, a] + leaves
            while cell > 0:
                for i in range(starts[a * 2 * leaves + cell], starts[a * 2 * leaves + cell + 1]):
                    counts[entries[i]] += 1
                cell >>= 1
        if total + needed.size > found.size:
            larger = np.empty(2 * total + needed.size, np.int64)
            larger[:total] = found[:total]
            found = larger
        for slot in range(needed.size):
            if counts[slot] == needed[slot]:
                found[total] = slot
                total += 1
        ptr[e + 1] = total
    return ptr, found[:total].copy()
