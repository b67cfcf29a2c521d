"""Sliced: counts of matched constraints in bit slices, and bounds that say which counts are worth a look.

The values of an attribute are cut into cells. Per attribute and cell, a row of bits says which slots hold a
filter whose constraint *covers* part of the cell, and another which have one that has *begun* at or before
it. A message picks, per attribute, the row of the cell it lies in; an interval adds those that begin in its
further cells. The picked rows are added bit by bit: three words of 64 bits, one per binary digit, count the
constraints of 64 filters that may match. A block of 4096 filters knows, for each c, the largest sum of c
weights in it, so only filters whose count can still reach the k-th score so far are looked at.

Theory of operation
- Bounds are never below a score. They are sums of positive weights; `best` adds them in another order than a
  score does, so it is inflated by far more than rounding takes. A filter's own bound adds in the score's
  order, where rounding is monotone. All comparisons let equality pass: ties are decided by the exact score.
- Slots live in segments of at most 131,072, sorted by total weight: blocks with large bounds come first, and
  what comes behind the first block that cannot reach the k-th score is not read at all. A single insert takes
  a free slot where its weight fits in; the rest is sorted in once half as much has changed, together with the
  borders of the cells.
- With the message's weights the bound for c constraints is the sum of the c largest, the same for all blocks.
- Cells only save work: scores come from the ranges. Any monotone cut will do.
- Two rounds of looking: first what the weights of the cells' bits add up to, then the ranges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.indexes.contract import Ids, claim
from brokers.indexes.topk import slices
from brokers.indexes.topk.bounds import largest_sums
from brokers.indexes.topk.contract import Floats, Query, RankedMessage, Ranking, checked_message
from brokers.indexes.topk.quick import scan_at_least, scan_top
from brokers.indexes.topk.rows import Filters
from brokers.indexes.topk.slices import BLOCK_SLOTS
from brokers.indexes.topk.store import Slots, Store, StoredIndex, exclusion, sent_weights
from brokers.indexes.topk.trials import Trials
from brokers.thresholds import usually

SEGMENT_SLOTS = 1 << 17
SEGMENT_SLOTS_MIN = 64
CELLS_BY_SLOTS = ((1 << 14, 64), (1 << 11, 32), (1 << 8, 16), (0, 8))  # (slots at least, cells)
CELL_BITS_MAX = 1280  # cells * attributes per slot; more attributes get coarser cells
CELLS_MIN = 4
SAMPLE_FILTERS = 4096  # whose range ends fix the cells of a segment
SORT_MIN = 4096  # fewer changes than that do not make a segment worth sorting
RESERVE = 32  # one slot in so many stays free, so that an insert has a choice
CHOICES = 64  # free slots that an insert chooses from
ROW_GAP = 8  # words between rows, or all rows of a message would compete for the same few cache sets
SCAN_WORK = 5  # of a scan, per filter held, as `search` counts work
LIMIT_MIN = 2048  # for so few filters a scan is not worth a thought
SPARSE = 8  # an index that holds less than one slot in so many is packed anew


class Sliced(StoredIndex):
    """Match O(attributes * held / 64 + candidates), less what the bounds rule out.

    Insert O(constraints * cells + log held) amortised per filter, delete O(constraints * cells), a weight
    O(constraints).
    """

    def __init__(self, attributes: int) -> None:
        super().__init__(attributes)
        self._hints = _aligned(0, 8)
        self._trials = Trials()
        self._shape(SEGMENT_SLOTS_MIN, 0)

    def _shape(self, segment_slots: int, segments: int) -> None:
        """Empty structures of this geometry."""
        cells = next(cells for slots, cells in CELLS_BY_SLOTS if segment_slots >= slots)
        while cells > CELLS_MIN and cells * self.attributes > CELL_BITS_MAX:
            cells //= 2
        self._segment_slots, self._cells = segment_slots, cells
        shape = segments, self.attributes * cells, segment_slots // 64 + ROW_GAP
        self._cover, self._begun = np.zeros(shape, np.uint64), np.zeros(shape, np.uint64)
        self._borders = np.zeros((segments, self.attributes, cells - 1))
        blocks = segments * max(1, segment_slots // BLOCK_SLOTS)
        self._bounds = np.zeros((blocks, self._store.weight.shape[1] + 1))
        self._order: Slots | None = None  # blocks, largest bound first; None if it has to be found again
        self._constrained = np.zeros(self.attributes, np.int64)  # constraints held, by attribute
        self._changed = np.zeros(segments, np.int64)  # filters written since the segment was sorted
        self._sorted = np.zeros(segments, np.int64)  # filters it held then

    def delete(self, ids: object) -> None:
        """Remove filters. O(constraints * cells) each, amortised."""
        super().delete(ids)
        if self._store.used > max(SPARSE * len(self), SEGMENT_SLOTS_MIN):
            held = self._store.filters(np.sort(self._store.slot_of.items()[1]))
            self._store = Store()
            self._shape(SEGMENT_SLOTS_MIN, 0)
            self._add(held)

    def bound(self, message: RankedMessage, prorate: bool = False) -> float:
        """The largest sum of as many weights as can match. O(blocks + attributes log attributes)."""
        asked = checked_message(message, self.attributes)
        present = self._present(asked)
        if not len(self) or not len(present):
            return 0.0
        most = min(len(present), self._bounds.shape[1] - 1)
        best = self._bounds if asked.weights is None else largest_sums(asked.weights[present], most)[None, :]
        return float(best[:, most].max())

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        own = (
            self._cover, self._begun, self._borders, self._bounds, self._hints, self._constrained,
            self._changed, self._sorted,
        )
        return self._store.memory_bytes() + sum(a.nbytes for a in own)

    def check(self) -> None:
        """Every invariant. O(slots * attributes * cells / 64)."""
        super().check()
        store, segments = self._store, len(self._cover)
        claim(store.used <= segments * self._segment_slots, "every slot has a segment")
        claim(segments <= 1 or self._segment_slots == SEGMENT_SLOTS, "only a single segment may be small")
        claim((self._borders[:, :, 1:] >= self._borders[:, :, :-1]).all(), "cells ascend")
        cover, begun, best = (np.zeros_like(a) for a in (self._cover, self._begun, self._bounds))
        held = np.sort(store.slot_of.items()[1])
        slices.mark(
            cover, begun, self._borders, self._segment_slots, store.attribute, store.ends, held, True
        )
        slices.lift(best, store.attribute, store.weight, held, self._blocks_per_segment, self._segment_slots)
        claim(np.array_equal(cover, self._cover), "cover bits say what the stored ranges say")
        claim(np.array_equal(begun, self._begun), "begun bits say what the stored ranges say")
        claim((self._bounds >= best).all(), "no block holds more than its bounds")
        counted = np.bincount(store.attribute[held][store.attribute[held] >= 0], minlength=self.attributes)
        claim(np.array_equal(counted, self._constrained), "constrained attributes are counted")
        hints = _aligned(*self._hints.shape)
        slices.hint(hints, hints.view(np.int16), store.attribute, store.weight, held)
        same = hints.view(np.int32)[held] == self._hints.view(np.int32)[held]  # bits: some are no numbers
        claim(same.all(), "hints are attributes, and weights rounded up")
        order = self._block_order()
        claim(len(order) == len(best), "every block is in order")
        claim((np.diff(self._bounds[order, -1]) <= 0).all(), "blocks with large bounds come first")

    @property
    def _blocks_per_segment(self) -> int:
        return max(1, self._segment_slots // BLOCK_SLOTS)

    # ---- changes

    def _add(self, filters: Filters) -> None:
        totals = np.maximum(filters.weight, 0.0).sum(axis=1)
        if len(totals) == 1:
            slot = self._fitting_slot(float(totals[0]))
            self._added(self._store.put(filters, np.array([slot])))
            return
        # The heaviest first, so that a large batch fills blocks of falling bounds.
        order = np.lexsort((filters.ids, -totals))
        self._added(self._store.add(filters.picked(order)))

    def _fitting_slot(self, total: float) -> int:
        """A free slot in the block whose bound is next above, of some; a new one while few are free."""
        store = self._store
        if len(store.free) <= store.used // RESERVE:
            return store.used
        step = len(store.free) // CHOICES + 1
        some = np.array(store.free[::step])
        bounds = self._bounds[some // self._segment_slots * self._blocks_per_segment
                              + some % self._segment_slots // BLOCK_SLOTS, -1]
        fits = np.where(bounds >= total, bounds, np.inf)
        best = fits.argmin()
        return store.take(step * int(best if fits[best] < np.inf else bounds.argmax()))

    def _added(self, slots: Slots) -> None:
        self._make_room(slots)
        self._mark(slots)
        segment, count = np.unique(slots // self._segment_slots, return_counts=True)
        self._changed[segment] += count
        self._sort_worn(segment)

    def _removing(self, slots: Slots) -> None:
        store = self._store
        slices.mark(
            self._cover, self._begun, self._borders, self._segment_slots, store.attribute, store.ends, slots,
            False,
        )
        slices.count(self._constrained, store.attribute, slots, -1)

    def _reweighted(self, slots: Slots, places: Slots) -> None:
        self._lift(slots)
        segment, count = np.unique(slots // self._segment_slots, return_counts=True)
        self._changed[segment] += count
        self._sort_worn(segment)

    def _make_room(self, slots: Slots) -> None:
        """Structures for the slots in use; the newest ones are not in them yet."""
        store = self._store
        width = store.weight.shape[1] + 1
        if width > self._bounds.shape[1]:
            missing = ((0, 0), (0, width - self._bounds.shape[1]))
            self._bounds = np.pad(self._bounds, missing, "edge")
        width, slots_max = store.attribute.shape[1], len(store.ids)
        columns = -(-3 * width // 16) * 8
        if self._hints.shape != (slots_max, columns):
            hints = _aligned(slots_max, columns)
            known = np.setdiff1d(store.slot_of.items()[1], slots)
            slices.hint(hints, hints.view(np.int16), store.attribute, store.weight, known)
            self._hints = hints
        if store.used <= len(self._cover) * self._segment_slots:
            return
        if self._segment_slots < SEGMENT_SLOTS:
            size = self._segment_slots
            while size < min(store.used, SEGMENT_SLOTS):
                size *= 2
            self._shape(size, -(-store.used // size))
            known = np.setdiff1d(store.slot_of.items()[1], slots)
            self._learn(range(len(self._cover)), np.concatenate([known, slots]))
            self._mark(known)
            self._changed[:] = 1 + np.bincount(known // size, minlength=len(self._cover))
        else:
            first = len(self._cover)
            segments = -(-store.used // self._segment_slots)
            for name in ("_cover", "_begun", "_borders", "_changed", "_sorted"):
                setattr(self, name, _longer(getattr(self, name), segments))
            self._bounds = _longer(self._bounds, segments * self._blocks_per_segment)
            self._order = None
            self._learn(range(first, segments), slots)

    def _learn(self, segments: range, slots: Slots) -> None:
        """Cut the cells of segments at the quantiles of the range ends in slots."""
        sample = slots[:: len(slots) // SAMPLE_FILTERS + 1]
        store = self._store
        borders = slices.learn(store.attribute[sample], store.ends[sample], self.attributes, self._cells)
        self._borders[segments.start : segments.stop] = borders

    def _mark(self, slots: Slots) -> None:
        store = self._store
        slices.mark(
            self._cover, self._begun, self._borders, self._segment_slots, store.attribute, store.ends, slots,
            True,
        )
        slices.count(self._constrained, store.attribute, slots, 1)
        self._lift(slots)

    def _lift(self, slots: Slots) -> None:
        store = self._store
        if slices.lift(
            self._bounds, store.attribute, store.weight, slots, self._blocks_per_segment, self._segment_slots
        ):
            self._order = None
        slices.hint(self._hints, self._hints.view(np.int16), store.attribute, store.weight, slots)

    def _sort_worn(self, segments: Slots) -> None:
        for segment in segments.tolist():
            if self._changed[segment] > max(usually(SORT_MIN), self._sorted[segment] // 2):
                self._sort(segment)

    def _sort(self, segment: int) -> None:
        """Put a segment's filters in order of total weight, learn its cells and bounds anew."""
        store, size = self._store, self._segment_slots
        first, last = segment * size, min((segment + 1) * size, store.used)
        slots = first + np.flatnonzero(store.ids[first:last] >= 0)
        totals = np.maximum(store.weight[slots], 0.0).sum(axis=1)
        order = slots[np.lexsort((store.ids[slots], -totals))]
        slices.count(self._constrained, store.attribute, slots, -1)
        store.rearrange(first, last, order)
        self._cover[segment], self._begun[segment] = 0, 0
        blocks = self._blocks_per_segment
        self._bounds[segment * blocks : (segment + 1) * blocks] = 0.0
        self._order = None
        packed = np.arange(first, first + len(order))
        self._learn(range(segment, segment + 1), packed)
        self._mark(packed)
        self._changed[segment], self._sorted[segment] = 0, len(order)

    # ---- matches

    def _top(self, message: RankedMessage, query: Query, count: int) -> Ranking:
        if self._trials.scan(message, query):
            self.counters.verified += len(self)
            return scan_top(self._store, message, query, count)
        scores, ids, receivers = np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)
        size = self._search(message, query, 0.0, scores, ids, receivers)[0]
        if not self._trials.paid(message, query, size >= 0):
            return scan_top(self._store, message, query, count)
        return Ranking(ids[:size], scores[:size], receivers[:size])

    def _at_least(self, message: RankedMessage, query: Query, floor: float) -> Ranking:
        if self._trials.scan(message, query):
            self.counters.verified += len(self)
            return scan_at_least(self._store, message, query, floor)
        nothing = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
        size, slots, scores = self._search(message, query, floor, *nothing)
        if not self._trials.paid(message, query, size >= 0):
            return scan_at_least(self._store, message, query, floor)
        return Ranking(self._store.ids[slots], scores, self._store.receivers[slots])

    def _search(
        self, message: RankedMessage, query: Query, floor: float, scores: Floats, ids: Ids, receivers: Ids
    ) -> tuple[int, Slots, Floats]:
        """What `slices.search` finds."""
        store = self._store
        present, sent = self._present(message), sent_weights(message)
        most = min(self._bounds.shape[1] - 1, len(present))
        best, order = self._bounds, self._block_order()
        if message.weights is not None:
            best, order = largest_sums(sent[present], most)[None, :], np.arange(len(self._bounds))
        picks = slices.pick(self._borders, present, message.low, message.high)
        work = np.zeros(4, np.int64)
        found = slices.search(
            self._cover, self._begun, self._segment_slots // 64, picks, present, order, best, most,
            self._hints, self._hints.view(np.int16),
            store.ids, store.receivers, store.attribute, store.ends, store.weight,
            message.low, message.high, sent, query.prorate, query.threshold, floor, *exclusion(query),
            query.unit == "receiver", scores, ids, receivers, work, SCAN_WORK * max(usually(LIMIT_MIN), len(self)),
        )
        counters = self.counters
        counters.probed += int(work[0])
        counters.words += int(work[1])
        counters.verified += int(work[3])
        return int(found[0]), found[1], found[2]

    def _present(self, message: RankedMessage) -> Slots:
        """Attributes that the message has and some filter constrains."""
        return np.flatnonzero((message.low == message.low) & (self._constrained > 0))

    def _block_order(self) -> Slots:
        if self._order is None:
            self._order = np.argsort(-self._bounds[:, -1], kind="stable")
        return self._order


def _aligned(slots: int, columns: int) -> NDArray[np.float32]:
    """Zeros, each row of eight columns within one cache line."""
    room = np.zeros(slots * columns + 16, np.float32)
    start = -room.ctypes.data % 64 // 4
    return room[start : start + slots * columns].reshape(slots, columns)


def _longer(column: NDArray[Any], length: int) -> NDArray[Any]:
    longer = np.zeros((length, *column.shape[1:]), column.dtype)
    longer[: len(column)] = column
    return longer
