"""The sixth approach: cells of values instead of a list, bitsets instead of markers.

The values of each indexed attribute are cut into 64 cells by the quantiles of what the conjuncts ask. A region
K is a range of cells, and `excluded[cell]` has a conjunct's bit set iff its K lacks the cell. A message picks one row
per attribute; what is alive and excluded by none of them is a candidate. One more row per attribute stands
for a missing value and excludes every conjunct that asks for one.

Theory of operation
- A region that is everything has no bit set: it costs a probe nothing, where a list would enumerate it.
- An update flips the bits of the cells that K wins or loses, most often none to three. So an exact K is nearly as
  cheap to maintain as none, and `eager` follows I cell by cell.
- AGILE on cells: a side of I that leaves K takes it to the border of an aligned block of 2^level cells, one
  level higher at each escalation. A false positive whose K is wider than the cells of I shrinks it by the
  policy; one that is due to the width of a cell does not count.
- Rows grow by doubling; then the cells are learned anew, and every K is exact again.

Costs: message O(indexed * conjuncts / 64 + candidates), update O(log cells + cells won or lost).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.context import bits
from brokers.indexes.context.contract import Schema
from brokers.indexes.context.filter import Filter
from brokers.indexes.context.policies import Counter, Fixed, Policy
from brokers.indexes.context.store import Floats
from brokers.indexes.contract import claim
from brokers.indexes.intrinsics import prefetch, trailing_zeros

CELLS = 64
FIXED = Fixed(1000)
SAMPLE = 1 << 16  # ends of intervals from which the cells are learned
_ROWS = CELLS + 1  # per attribute; the last one stands for a missing value
_LEVELS = 6  # 2^6 cells are everything
_CHUNK = 2048  # words combined at a time
_SLOTS_MIN = 1 << 10
_AHEAD = 32


class CellFilter(Filter):
    """Bitsets per attribute and cell; several indexed attributes cost little."""

    def __init__(
        self, schema: Schema, indexed: Iterable[str], eager: bool = False, policy: Policy = FIXED
    ) -> None:
        super().__init__(schema, indexed)
        if not self.indexed:
            raise InvalidInput("no attribute is indexed; name at least one")
        self.eager = eager
        self.policy = Counter(policy)
        self._attributes = [list(schema.message).index(name) for name in self.indexed]
        self._alive = np.empty(0, np.uint64)
        self._excluded = np.empty((len(self.indexed) * _ROWS, 0), np.uint64)
        self._borders = np.zeros((len(self.indexed), CELLS - 1))
        # By attribute and conjunct: first and last cell of K, level; nothing is [1, 0].
        self._reach = np.empty((len(self.indexed), 0, 3), np.int8)

    def _entered(self, slots: NDArray[np.int64]) -> None:
        room = len(self._alive) * 64
        if self.store.conjuncts_used > room:
            words = max(self.store.conjuncts_used, 2 * room, _SLOTS_MIN) // 64 + 1
            alive = np.zeros(words, np.uint64)
            alive[: len(self._alive)] = self._alive
            self._alive = alive
            self._out = np.empty(64 * words, np.int32)
            bits.put(alive, slots, True)
            self._learn()
            return
        bits.put(self._alive, slots, True)
        for i in range(len(self.indexed)):
            entries, asked = self.store.indexed(slots, i)
            _write(self._excluded, self._reach[i], self._borders[i], i * _ROWS, slots, entries, asked)

    def _left(self, slots: NDArray[np.int64]) -> None:
        bits.put(self._alive, slots, False)

    def _learn(self) -> None:
        """Cut the values anew, and fill all rows. O(conjuncts * indexed * cells)."""
        words = len(self._alive)
        held = bits.members(self._alive)
        self._excluded = np.empty((len(self.indexed) * _ROWS, words), np.uint64)
        self._reach = np.empty((len(self.indexed), 64 * words, 3), np.int8)
        for i in range(len(self.indexed)):
            entries, asked = self.store.indexed(held, i)
            self._borders[i] = _quantiles(asked)
            asks = _reach_of(self._reach[i], self._borders[i], entries, asked)
            _fill(self._excluded, self._reach[i], asks, i * _ROWS)

    def _candidates(self, values: Floats) -> NDArray[np.int32]:
        picked = np.empty(len(self.indexed), np.int64)
        for i, attribute in enumerate(self._attributes):
            value = values[attribute]
            cell = np.searchsorted(self._borders[i], value, "right") if value == value else CELLS
            picked[i] = i * _ROWS + cell
        self.counters.probed += len(picked)
        self.counters.words += len(picked) * len(self._alive)
        return self._out[: _combine(self._excluded, self._alive, picked, self._out)]

    def _asked_anew(self, entries: NDArray[np.int64], asked: Floats) -> None:
        self.policy.updates += len(entries)
        self.counters.moved += _follow(self._excluded, self._excluded.reshape(-1), self._reach,
                                       self._reach.reshape(-1), self._borders, entries, asked, self.eager)

    def _false_positives(self, failed: NDArray[np.int64]) -> None:
        if self.eager:
            return
        wide = failed[_is_wide(self._reach, failed)]
        for k in self.policy.due(len(wide)).tolist():
            i, conjunct = wide[k].tolist()
            entry, asked = np.array([[i, conjunct]]), np.array([self.store.asked(conjunct, i)])
            self.counters.shrunk += _follow(self._excluded, self._excluded.reshape(-1), self._reach,
                                            self._reach.reshape(-1), self._borders, entry, asked, True)

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        arrays = self._alive, self._excluded, self._borders, self._reach
        return super().memory_bytes() + sum(array.nbytes for array in arrays)

    def check(self) -> None:
        """Every invariant. O(conjuncts * indexed * cells)."""
        super().check()
        used = self.store.conjuncts_used
        held = bits.members(self._alive)
        claim(np.array_equal(held, np.flatnonzero(self.store.count[:used] >= 0)), "alive are the conjuncts held")
        rows = np.unpackbits(self._excluded.view(np.uint8), axis=1, bitorder="little")
        for i in range(len(self.indexed)):
            claim((np.diff(self._borders[i]) >= 0).all(), "cells ascend")
            entries, asked = self.store.indexed(held, i)
            low, high, level = self._reach[i, entries].T.astype(np.int64)
            exact = np.searchsorted(self._borders[i], asked, "right")
            some = asked[:, 0] <= asked[:, 1]
            covered = (low <= exact[:, 0]) & (exact[:, 1] <= high)
            claim(covered[some].all(), "a region covers what its conjunct asks")
            if self.eager:
                claim((low[~some] > high[~some]).all() and (level == 0).all(), "an eager region is exact")
                same = (low == exact[:, 0]) & (high == exact[:, 1])
                claim(same[some].all(), "an eager region is the cells of what its conjunct asks")
            claim(rows[i * _ROWS + CELLS, entries].all(), "a missing value excludes all that ask for one")
            for cell in range(CELLS):
                excluded = rows[i * _ROWS + cell]
                claim(np.array_equal(excluded[entries] == 0, (low <= cell) & (cell <= high)),
                      "bits say which cells a region lacks")
                claim(not excluded[np.setdiff1d(held, entries)].any(), "who asks for nothing is not excluded")


# ---- kernels: one family, compiled together ------------------------------------------------------------

_ONE = np.uint64(1)


def _quantiles(asked: Floats) -> Floats:
    """Borders at the quantiles of the finite ends; 0..1 evenly where there are none."""
    ends = asked[np.isfinite(asked)]
    if ends.size == 0:
        return np.arange(1, CELLS) / CELLS
    ends = np.sort(ends[:: ends.size // SAMPLE + 1])
    return np.asarray(ends[np.arange(1, CELLS) * ends.size // CELLS])


@njit(cache=True)
def _cell(borders, value):
    """The number of borders at or below the value; without a branch, since none could be foreseen."""
    place, step = 0, CELLS >> 1
    while step:
        place += step * int(borders[place + step - 1] <= value)
        step >>= 1
    return place


@njit(cache=True)
def _reach_of(reach, borders, entries, asked):
    """Exact regions for these entries, everything for all others; returns which conjuncts ask for a value."""
    asks = np.zeros(reach.shape[0], np.bool_)
    reach[:, 0], reach[:, 1], reach[:, 2] = 0, CELLS - 1, 0
    for k in range(entries.size):
        asks[entries[k]] = True
        if asked[k, 0] <= asked[k, 1]:
            reach[entries[k], 0], reach[entries[k], 1] = _cell(borders, asked[k, 0]), _cell(borders, asked[k, 1])
        else:
            reach[entries[k], 0], reach[entries[k], 1] = 1, 0
    return asks


@njit(cache=True)
def _fill(excluded, reach, asks, first_row):
    """All rows of one attribute, word by word."""
    for cell in range(_ROWS):
        row = excluded[first_row + cell]
        for w in range(row.size):
            word = np.uint64(0)
            for i in range(64):
                conjunct = 64 * w + i
                out = asks[conjunct] if cell == CELLS else not reach[conjunct, 0] <= cell <= reach[conjunct, 1]
                word |= np.uint64(out) << np.uint64(i)
            row[w] = word


@njit(cache=True)
def _write(excluded, reach, borders, first_row, slots, entries, asked):
    """Exact regions for conjuncts that came; `entries`, some of them in the same order, ask for a value."""
    k = 0
    for slot in slots:
        word, bit = slot >> 6, _ONE << np.uint64(slot & 63)
        low, high = 0, CELLS - 1
        asks = k < entries.size and entries[k] == slot
        if asks:
            low, high = 1, 0
            if asked[k, 0] <= asked[k, 1]:
                low, high = _cell(borders, asked[k, 0]), _cell(borders, asked[k, 1])
            k += 1
        reach[slot, 0], reach[slot, 1], reach[slot, 2] = low, high, 0
        for cell in range(_ROWS):
            out = asks if cell == CELLS else cell < low or cell > high
            if out:
                excluded[first_row + cell, word] |= bit
            else:
                excluded[first_row + cell, word] &= ~bit


@njit(cache=True)
def _flip(excluded, first_row, conjunct, first, last):
    word, bit = conjunct >> 6, _ONE << np.uint64(conjunct & 63)
    for cell in range(first, last + 1):
        excluded[first_row + cell, word] ^= bit


@njit(cache=True)
def _follow(excluded, excluded_flat, reach, reach_flat, borders, entries, asked, exactly):
    """Each region follows what its conjunct asks now, in order; how many moved."""
    moved = 0
    conjuncts, words = reach.shape[1], excluded.shape[1]
    for begin in range(0, entries.shape[0], _AHEAD):
        end = min(begin + _AHEAD, entries.shape[0])
        for k in range(begin, end):
            prefetch(reach_flat, 3 * (entries[k, 0] * conjuncts + entries[k, 1]))  # type: ignore[call-arg]
        if exactly:
            for k in range(begin, end):  # the rows around the new ends are the likely ones to be written
                index, word = entries[k, 0], entries[k, 1] >> 6
                for side in range(2):
                    cell = _cell(borders[index], asked[k, side])
                    prefetch(excluded_flat, (index * _ROWS + cell) * words + word)  # type: ignore[call-arg]
        for k in range(begin, end):
            index, conjunct = entries[k, 0], entries[k, 1]
            region = reach[index, conjunct]
            low, high, level = int(region[0]), int(region[1]), 0
            if asked[k, 0] <= asked[k, 1]:
                new_low, new_high = _cell(borders[index], asked[k, 0]), _cell(borders[index], asked[k, 1])
                if not exactly and low <= high:
                    if low <= new_low and new_high <= high:
                        continue
                    level = min(int(region[2]) + 1, _LEVELS)
                    new_low = (new_low >> level) << level if new_low < low else low
                    new_high = new_high | ((1 << level) - 1) if new_high > high else high
            elif exactly:
                new_low, new_high = 1, 0
            else:
                continue
            region[2] = level
            if new_low == low and new_high == high:
                continue
            moved += 1
            region[0], region[1] = new_low, new_high
            row = index * _ROWS
            if low > high or new_low > new_high or new_low > high or new_high < low:
                _flip(excluded, row, conjunct, low, high)
                _flip(excluded, row, conjunct, new_low, new_high)
            else:
                _flip(excluded, row, conjunct, min(low, new_low), max(low, new_low) - 1)
                _flip(excluded, row, conjunct, min(high, new_high) + 1, max(high, new_high))
    return moved


@njit(cache=True)
def _is_wide(reach, failed):
    """Which of these regions have been escalated."""
    out = np.empty(failed.shape[0], np.bool_)
    for k in range(out.size):
        out[k] = reach[failed[k, 0], failed[k, 1], 2] > 0
    return out


@njit(cache=True)
def _keep_4(left, a, b, c, d):
    for w in range(left.size):
        left[w] &= ~((a[w] | b[w]) | (c[w] | d[w]))


@njit(cache=True)
def _combine(excluded, alive, picked, out):
    """What is alive and in none of the picked rows."""
    count = 0
    left = np.empty(_CHUNK, np.uint64)
    last = picked.size - 1
    for begin in range(0, alive.size, _CHUNK):
        end = min(begin + _CHUNK, alive.size)
        here = left[: end - begin]
        here[:] = alive[begin:end]
        for p in range(0, picked.size, 4):  # a row counted twice changes nothing
            _keep_4(here, excluded[picked[p], begin:end], excluded[picked[min(p + 1, last)], begin:end],
                    excluded[picked[min(p + 2, last)], begin:end], excluded[picked[min(p + 3, last)], begin:end])
        for w in range(here.size):
            word = here[w]
            while word != 0:
                out[count] = 64 * (begin + w) + np.int64(trailing_zeros(word))  # type: ignore[call-arg]
                count += 1
                word &= word - _ONE
    return count
