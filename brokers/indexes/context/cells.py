"""The sixth approach: cells of values instead of a list, bitsets instead of markers.

The values of each indexed attribute are cut into 64 cells by the quantiles of what the conjuncts ask. A region
K is a range of cells, and `excluded[cell]` has a conjunct's bit set iff its K lacks the cell. A message picks one row
per attribute; what is alive and excluded by none of them is a candidate. One more row per attribute stands
for a missing value and excludes every conjunct that asks for one.

Theory of operation
- A region that is everything has no bit set: it costs a probe nothing, where a list would enumerate it.
- An update flips the bits of the cells that K wins or loses, most often none to three. So K is exact, unless it is
  parked.
- A value that changes every few messages is not worth following. Its conjuncts are parked on the attribute, by a bit
  each, which takes precedence over the rows; from then on an update costs what it costs a scan. So it is with every
  value that changes, for a while, where following has cost more than it saved (`upkeep.py`).
- Where the rows leave too many candidates, all conjuncts are scanned, as NOINDEX does.
- Rows are made anew in the background, one attribute at a time, a stretch with each message, into a spare block that
  then takes the place of the old one: when a sample of the conjuncts says that the borders are quantiles no longer,
  and when many are parked, to take back those whose values have come to rest. Where values that changed of late lie
  aside of the others, the new borders are for those to come too, as `content/cells_drift.py` has it.
- Rows grow by doubling; then all cells are learned anew at once.

Costs: message O(indexed * conjuncts / 64 + candidates), at most about that of a scan; update O(log cells + cells
won or lost). Which conjuncts are parked, and when rows are made, depends on counts alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.content.cells_drift import bordered
from brokers.indexes.context import bits
from brokers.indexes.context import cells_kernels as kernels
from brokers.indexes.context.cells_kernels import CELLS, ROWS
from brokers.indexes.context.contract import Schema
from brokers.indexes.context.filter import Filter
from brokers.indexes.context.store import Floats
from brokers.indexes.context.upkeep import COOL, NEVER, Upkeep
from brokers.indexes.contract import claim

SAMPLE = 1 << 15  # conjuncts from which the cells are learned at once
_SAMPLE_STRETCH = 1 << 10  # and in the background
_RECENT_SHARE = 4  # as many as one in so many of these changed of late
_SAMPLE_CHECK = 1 << 10  # and that say whether cells are quantiles still
_UNEVEN = 2  # times the share of ends that a cell had
_SLOTS_MIN = 1 << 10
_NONE = np.empty(0, np.int64)
_WAIT_MAX = 1 << 16


class CellFilter(Filter):
    """Bitsets per attribute and cell; several indexed attributes cost little."""

    def __init__(self, schema: Schema, indexed: Iterable[str], eager: bool = False) -> None:
        """`eager` follows every update, whatever that costs."""
        super().__init__(schema, indexed, scanned=True)
        if not self.indexed:
            raise InvalidInput("no attribute is indexed; name at least one")
        self.eager = eager
        count = len(self.indexed)
        self.upkeep = Upkeep(count)
        if eager:
            self.upkeep.gap = 0
        self._attributes = np.array([list(schema.message).index(name) for name in self.indexed])
        self._alive = np.empty(0, np.uint64)
        # By block; the last one is spare at first. A region is its first and last cell; nothing is [1, 0].
        self._excluded = np.empty(((count + 1) * ROWS, 0), np.uint64)
        self._parked = np.empty((count + 1, 0), np.uint64)
        self._parked_count = np.zeros(count + 1, np.int64)
        self._reach = np.empty((count + 1, 0, 2), np.int8)
        self._excluded_flat, self._reach_flat = self._excluded.reshape(-1), self._reach.reshape(-1)
        self._borders = np.zeros((count + 1, CELLS - 1))
        self._shares = np.zeros((count + 1, CELLS))  # of finite ends, as they were learned
        self._block = np.arange(count)
        self._spare = count
        # In the background: the attribute, and the conjuncts that are done; -1 for none.
        self._renewing, self._renewed = -1, 0
        self._uneven = np.zeros(count, np.bool_)
        self._moves = np.zeros(count, np.int64)  # since it was asked whether cells are quantiles
        self._wait = np.zeros(count, np.int64)  # messages after rows were made for the parked ones in vain
        self._not_before = np.zeros(count, np.int64)
        self._rows_asked = False

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
            entries, asked, hot = self.store.indexed_again(slots, i, self.upkeep.clock, NEVER)
            self._write(int(self._block[i]), slots, entries, asked, hot)
            self._moves[i] += len(entries)
            if i == self._renewing:
                done = slots[slots < self._renewed]
                mine = entries < self._renewed
                self._write(self._spare, done, entries[mine], asked[mine], hot[mine])

    def _write(
        self, block: int, slots: NDArray[np.int64], entries: NDArray[np.int64], asked: Floats, hot: NDArray[np.bool_]
    ) -> None:
        kernels.write(self._excluded, self._parked, self._parked_count, self._reach, self._borders, block, slots,
                      entries, asked, hot)

    def _left(self, slots: NDArray[np.int64]) -> None:
        bits.put(self._alive, slots, False)
        kernels.leave(self._parked, self._parked_count, slots)

    def _learn(self) -> None:
        """Cut the values anew, and fill all rows. O(conjuncts * indexed * cells)."""
        words, blocks = len(self._alive), len(self.indexed) + 1
        self._excluded = np.empty((blocks * ROWS, words), np.uint64)
        self._parked = np.zeros((blocks, words), np.uint64)
        self._parked_count[:] = 0
        self._reach = np.empty((blocks, 64 * words, 2), np.int8)
        self._excluded_flat, self._reach_flat = self._excluded.reshape(-1), self._reach.reshape(-1)
        self._renewing = -1
        for i in range(len(self.indexed)):
            block = int(self._block[i])
            self._cut(i, block, SAMPLE)
            self._fill(i, block, 0, words)
            self._moves[i], self._uneven[i] = 0, False

    def _cut(self, i: int, block: int, sample: int) -> None:
        """Borders of a block at the quantiles of a sample; of what is to come too, if values move."""
        slots, store = self._spread(sample), self.store
        asked = store.indexed(slots, i)[1]
        stamps = kernels.changed(slots, self._attributes[i], store.start, store.count, store.code, store.binding_of,
                                 store.bindings, store.cells)
        ends, recent = _ends(asked), _ends(asked[self._newest(stamps)])
        ahead = bordered(ends, recent, CELLS - 1)
        self._borders[block] = _quantiles(ends) if ahead is None else ahead
        found = kernels.shares(self._borders[block], asked)
        self._shares[block] = np.maximum(found / max(1, found.sum()), 1 / CELLS)

    def _newest(self, stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the latest of these stamps are, of values that have changed: a quarter of all at most."""
        moved = np.flatnonzero(stamps)
        order = np.argsort(stamps[moved], kind="stable")
        return moved[order[-len(stamps) // _RECENT_SHARE :]]

    def _spread(self, count: int) -> NDArray[np.int64]:
        """About so many conjuncts, evenly spread."""
        used = self.store.conjuncts_used
        slots = np.arange(0, used, used // count + 1)
        return slots[self.store.count[slots] >= 0]

    def _fill(self, i: int, block: int, word_begin: int, word_end: int, gap: int = NEVER) -> None:
        held = bits.members(self._alive[word_begin:word_end]) + 64 * word_begin
        entries, asked, hot = self.store.indexed_again(held, i, self.upkeep.clock, gap)
        self._parked_count[block] += kernels.renew(self._excluded, self._parked, self._reach, self._borders, block,
                                                   word_begin, word_end, entries, asked, hot)

    # ---- messages ----

    def _candidates(self, values: Floats) -> NDArray[np.int32]:
        upkeep, store = self.upkeep, self.store
        used = store.conjuncts_used
        self._rows_asked = not upkeep.skips
        if self._rows_asked:
            self.counters.probed += len(self.indexed)
            self.counters.words += len(self.indexed) * len(self._alive)
            most = upkeep.most(used)
            count = kernels.combine(values, self._attributes, self._borders, self._block, self._excluded,
                                    self._parked, self._parked_count, self._alive, used, most, self._out)
            if count >= 0:
                upkeep.answered(used, count)
                return self._out[:count]
            upkeep.too_many()
            self._rows_asked = False
        else:
            upkeep.skips -= 1
        upkeep.scanned(used)
        return super()._candidates(values)

    def _verified(
        self, candidates: NDArray[np.int32], values: Floats
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        if self._renewing >= 0 or not self.upkeep.clock % self.upkeep.look_every:
            self._renew()
        if not len(candidates):
            return _NONE, _NONE, 0
        return self.store.verify(candidates, values, False, not self._rows_asked)

    def _updated(self, keys: NDArray[np.int64], values: Floats) -> tuple[NDArray[np.int64], Floats]:
        upkeep = self.upkeep
        upkeep.updated(len(values))
        return self.store.update(keys, values, upkeep.clock, upkeep.gap)

    def _asked_anew(self, entries: NDArray[np.int64], asked: Floats) -> None:
        moved, flipped, left = kernels.follow(
            self._excluded, self._excluded_flat, self._parked, self._parked_count, self._reach, self._reach_flat,
            self._borders, self._block, self._spare, self._renewing, self._renewed, entries, asked, self._moves,
        )  # fmt: skip
        self.counters.moved += moved
        self.counters.parked += left
        self.upkeep.followed(len(entries), flipped, left)

    # ---- rows made anew ----

    def _renew(self) -> None:
        """Go on making rows anew, as far as there is credit."""
        upkeep = self.upkeep
        if upkeep.gap == NEVER:
            self._renewing, upkeep.hurry = -1, False
            return
        if self._renewing < 0:
            if upkeep.credit < upkeep.start_ns:
                return
            self._renewing = self._wanted()
            if self._renewing < 0:
                return
            upkeep.credit -= upkeep.start_ns
            upkeep.hurry = bool(self._uneven[self._renewing])
            self._renewed = 0
            self._cut(self._renewing, self._spare, _SAMPLE_STRETCH)
            self._parked[self._spare], self._parked_count[self._spare] = 0, 0
            self._moves[self._renewing] = 0
            return  # that is enough for one message
        stretch = upkeep.credit // (upkeep.stretch_ns * upkeep.stretch) * upkeep.stretch
        if stretch:
            upkeep.credit -= stretch * upkeep.stretch_ns
            self._renew_stretch(stretch)

    def _renew_stretch(self, stretch: int) -> None:
        begin, i, upkeep = self._renewed, self._renewing, self.upkeep
        end = min(begin + stretch, 64 * len(self._alive))
        self._fill(i, self._spare, begin // 64, end // 64, COOL)
        self._renewed = end
        if end < self.store.conjuncts_used:
            return
        before, after = self._parked_count[self._block[i]], self._parked_count[self._spare]
        in_vain = 2 * after > before and not self._uneven[i]
        self._wait[i] = min(2 * self._wait[i] + 1024, _WAIT_MAX) if in_vain else 0
        self._not_before[i] = upkeep.clock + self._wait[i]
        self.counters.shrunk += max(0, int(before - after))
        self.counters.renewed += 1
        self._block[i], self._spare = self._spare, int(self._block[i])
        self._uneven[i] = False
        self._renewing, upkeep.hurry = -1, False
        upkeep.renewed()

    def _wanted(self) -> int:
        """An attribute whose rows are worth making anew; -1 if there is none."""
        used, upkeep = self.store.conjuncts_used, self.upkeep
        for i in range(len(self.indexed)):
            if self._moves[i] >= max(upkeep.check_moves, used // CELLS):
                self._moves[i] = 0
                asked = self.store.indexed(self._spread(_SAMPLE_CHECK), i)[1]
                found = kernels.shares(self._borders[self._block[i]], asked)
                self._uneven[i] = (found > _UNEVEN * found.sum() * self._shares[self._block[i]]).any()
        parked = self._parked_count[self._block] * upkeep.parked_share > used
        wanted = np.flatnonzero(self._uneven | (parked & (upkeep.clock >= self._not_before)))
        return int(wanted[0]) if len(wanted) else -1

    # ---- the rest ----

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        arrays = self._alive, self._excluded, self._parked, self._borders, self._shares, self._reach
        return super().memory_bytes() + sum(array.nbytes for array in arrays)

    def check(self) -> None:
        """Every invariant. O(conjuncts * indexed * cells)."""
        super().check()
        used = self.store.conjuncts_used
        held = bits.members(self._alive)
        claim(np.array_equal(held, np.flatnonzero(self.store.count[:used] >= 0)), "alive are the conjuncts held")
        claim(sorted([*self._block.tolist(), self._spare]) == list(range(len(self._borders))), "a block each")
        for i in range(len(self.indexed)):
            self._check_block(i, int(self._block[i]), held)
            if i == self._renewing:
                self._check_block(i, self._spare, held[held < self._renewed])

    def _check_block(self, i: int, block: int, held: NDArray[np.int64]) -> None:
        rows = np.unpackbits(self._excluded[block * ROWS : (block + 1) * ROWS].view(np.uint8), axis=1,
                             bitorder="little")
        claim((np.diff(self._borders[block]) >= 0).all(), "cells ascend")
        entries, asked = self.store.indexed(held, i)
        low, high = self._reach[block, entries].T.astype(np.int64)
        exact = np.searchsorted(self._borders[block], asked, "right")
        parked = np.isin(entries, bits.members(self._parked[block]))
        hot = self.store.indexed_again(held, i, self.upkeep.clock, NEVER)[2]
        claim(parked.sum() == self._parked_count[block], "parked regions are counted, and of conjuncts that are held")
        claim(parked[hot].all(), "a region that does not follow its value is parked")
        some = (asked[:, 0] <= asked[:, 1]) & ~parked
        none = (asked[:, 0] > asked[:, 1]) & ~parked
        claim((low[none] > high[none]).all(), "who asks for nothing has no region")
        claim(((low == exact[:, 0]) & (high == exact[:, 1]))[some].all(), "a region is the cells of what is asked")
        claim(rows[CELLS, entries].all(), "a missing value excludes all that ask for one")
        for cell in range(CELLS):
            claim(np.array_equal(rows[cell, entries] == 0, (low <= cell) & (cell <= high)),
                  "bits say which cells a region lacks")
        claim(not rows[:, np.setdiff1d(held, entries)].any(), "who asks for nothing is not excluded")


def _ends(asked: Floats) -> Floats:
    """The finite ends of intervals, ascending, just beyond the upper ones."""
    asked = asked[asked[:, 0] <= asked[:, 1]]
    ends = np.concatenate([asked[:, 0], np.nextafter(asked[:, 1], np.inf)])
    return np.sort(ends[np.isfinite(ends)])


def _quantiles(ends: Floats) -> Floats:
    """Borders at the quantiles of ascending ends; 0..1 evenly where there are none."""
    if ends.size == 0:
        return np.arange(1, CELLS) / CELLS
    return np.asarray(ends[np.arange(1, CELLS) * ends.size // CELLS])
