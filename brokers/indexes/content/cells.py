"""Cells: one bitset per attribute and cell of its values; combined over the attributes, survivors verified.

The values of an attribute are cut into cells by a monotone function. Every subscription has a slot, and
`excluded[attribute, cell]` has the slot's bit set iff its range on that attribute touches no value of the
cell; one more cell per attribute stands for "missing" and excludes all that constrain it. An event picks
one row per attribute; what is alive and excluded by none of them is a candidate, and is compared with its
ranges. So a cell only saves work: answers depend on the ranges alone, and any monotone function will do.

Theory of operation
- Excluded rather than included: the default is zero, so an unconstrained attribute costs nothing to enter.
- Slots live in segments of at most 131,072, whose 16 KiB rows and result stay in the first cache level. The
  last segment doubles until it is full, and is then followed by another: nothing ever copies the whole.
- Each segment cuts by the quantiles of the range ends that were known when it was made, so that skewed
  values get as many cells where they are dense. Few slots get few cells, and so do many attributes.
- A delete clears the alive bit; the exclusions stay until the slot is reused, which takes them back first.

Work per event: slots/64 words for each attribute that anyone constrains, and one verification per candidate.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from brokers.indexes.content.contract import (
    ContentIndex,
    Floats,
    checked_attributes,
    checked_rows,
    many_events,
    places_of,
)
from brokers.indexes.contract import DuplicateId, Ids, WorkCounters, checked_ids, claim
from brokers.indexes.ids import IdMap

Slots = NDArray[np.int64]

SEGMENT_SLOTS = 1 << 17
SEGMENT_SLOTS_MIN = 64
FOLLOWING_SLOTS_MIN = 1 << 13  # a segment after a full one
CELLS_BY_SLOTS = ((1 << 14, 64), (1 << 11, 32), (1 << 8, 16), (0, 8))  # (slots at least, cells)
FINE_SLOTS = 3 << 17  # beyond, new segments have at most 32 cells: half the memory, hardly slower
CELL_BITS_MAX = 1280  # cells * attributes per slot; more attributes get coarser cells
CELLS_MIN = 4
SAMPLE_ROWS = 4096  # rows whose range ends fix the cells of a segment


class Cells(ContentIndex):
    """Bitsets per attribute and cell. Match O(attributes * held / 64 + candidates)."""

    def __init__(self, attributes: int) -> None:
        self.attributes = checked_attributes(attributes)
        self.counters = WorkCounters()
        self._segments: list[_Segment] = []
        self._slot_of = IdMap()
        self._free = array("q")
        self._used = 0  # slots from here on were never written

    def __len__(self) -> int:
        return len(self._slot_of)

    def insert(self, ids: Any, rows: Any) -> None:
        """Add subscriptions. O(constraints * cells) per row, amortised."""
        fresh = checked_ids(ids)
        checked = checked_rows(rows, self.attributes, len(fresh))
        known = self._slot_of.find(fresh) >= 0
        if known.any():
            raise DuplicateId(f"id {fresh[known][0]} is in the index already; delete it first")
        reused = min(len(fresh), len(self._free))
        slots = np.empty(len(fresh), np.int64)
        if reused:
            slots[:reused] = np.sort(np.array(self._free[-reused:], np.int64))
            del self._free[-reused:]
        slots[reused:] = np.arange(self._used, self._used + len(fresh) - reused)
        self._reserve(checked[reused:])
        self._slot_of.add(fresh, slots)
        number = slots // SEGMENT_SLOTS
        if len(self._segments) == 1:
            self._segments[0].write(slots, fresh, checked)
            return
        for i in np.unique(number):
            here = number == i
            self._segments[i].write(slots[here] - i * SEGMENT_SLOTS, fresh[here], checked[here])

    def delete(self, ids: Any) -> None:
        """Remove subscriptions. O(1) each."""
        gone = checked_ids(ids)
        slots = places_of(gone, self._slot_of.find(gone))
        self._slot_of.remove(gone)
        for i, segment in enumerate(self._segments):
            _kill(segment.alive, slots - i * SEGMENT_SLOTS)
        self._free.frombytes(slots.tobytes())

    def rows(self, ids: Any) -> Floats:
        """The subscriptions as they were given. O(n k)."""
        known = checked_ids(ids)
        slots = places_of(known, self._slot_of.find(known))
        number = slots // SEGMENT_SLOTS
        width = max((segment.width for segment in self._segments), default=0)
        rows = np.full((len(known), 3 * width), np.nan)
        for i in np.unique(number):
            here = number == i
            segment = self._segments[i]
            rows[here, : 3 * segment.width] = segment.rows(slots[here] - i * SEGMENT_SLOTS)
        return rows

    def match_many(self, values: Any) -> tuple[Ids, Ids]:
        """Ids per event. O(attributes * held / 64 + candidates) each."""
        events = many_events(values, self.attributes)
        ptr = np.zeros(len(events) + 1, np.int64)
        work = np.zeros(3, np.int64)
        if len(self._segments) == 1:
            ids = self._segments[0].match(events, ptr, work)
        else:
            ids = self._match_segments(events, ptr, work)
        for i in np.flatnonzero(_unsorted(ptr, ids)):
            ids[ptr[i] : ptr[i + 1]].sort()
        counters = self.counters
        counters.events += len(events)
        counters.matched += len(ids)
        counters.probed += int(work[0])
        counters.words += int(work[1])
        counters.verified += int(work[2])
        return ptr, ids

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        segments = sum(segment.memory_bytes() for segment in self._segments)
        return segments + self._slot_of.memory_bytes() + self._free.itemsize * len(self._free)

    def check(self) -> None:
        """Every invariant. O(slots * attributes * cells / 64)."""
        self._slot_of.check()
        ids, held = self._slot_of.items()
        written = np.concatenate([held, np.array(self._free, np.int64)])
        once = np.array_equal(np.sort(written), np.arange(self._used))
        claim(once, "each written slot is held or free, once")
        full = [segment.slots == SEGMENT_SLOTS for segment in self._segments]
        claim(all(full[:-1]), "only the last segment may grow")
        for i, segment in enumerate(self._segments):
            here = held // SEGMENT_SLOTS == i
            segment.check(held[here] - i * SEGMENT_SLOTS, ids[here])

    def _match_segments(self, events: Floats, ptr: Ids, work: Ids) -> Ids:
        parts = []
        for segment in self._segments:
            part_ptr = np.zeros_like(ptr)
            parts.append((segment.match(events, part_ptr, work), part_ptr))
        for _, part_ptr in parts:
            ptr += part_ptr
        if len(events) == 1:
            return np.concatenate([found for found, _ in parts]) if parts else np.empty(0, np.int64)
        ids = np.empty(ptr[-1], np.int64)
        cursor = ptr[:-1].copy()
        for found, part_ptr in parts:
            _scatter(found, part_ptr, cursor, ids)
        return ids

    def _reserve(self, rows: Floats) -> None:
        """Make room for rows in slots that were never written."""
        self._used += len(rows)
        while self._used > self._capacity():
            last = self._segments[-1] if self._segments else None
            if last is not None and last.slots < SEGMENT_SLOTS:
                base = (len(self._segments) - 1) * SEGMENT_SLOTS
                known = last.rows(np.flatnonzero(last.alive_slots()))
                self._segments[-1] = last.grown(self._shape(self._used - base, last.slots, base), known, rows)
            else:
                base = len(self._segments) * SEGMENT_SLOTS
                slots_min = SEGMENT_SLOTS_MIN if last is None else FOLLOWING_SLOTS_MIN
                known = last.rows(np.arange(0, last.slots, 64)) if last is not None else rows[:0]
                slots, cells = self._shape(self._used - base, slots_min, base)
                borders = _learn(_sample(known, rows), self.attributes, cells)
                self._segments.append(_Segment(slots, borders, max(1, rows.shape[1] // 3)))

    def _capacity(self) -> int:
        return (len(self._segments) - 1) * SEGMENT_SLOTS + self._segments[-1].slots if self._segments else 0

    def _shape(self, needed: int, slots_min: int, base: int) -> tuple[int, int]:
        """How many slots, and how many cells, for a segment that starts at slot `base`."""
        slots = slots_min
        while slots < min(needed, SEGMENT_SLOTS):
            slots *= 2
        cells = next(cells for slots_from, cells in CELLS_BY_SLOTS if slots >= slots_from)
        if base >= FINE_SLOTS:
            cells = min(cells, 32)
        while cells > CELLS_MIN and cells * self.attributes > CELL_BITS_MAX:
            cells //= 2
        return slots, cells


class _Segment:
    """Up to SEGMENT_SLOTS slots and their bitsets. Slots are numbered from 0 here."""

    def __init__(self, slots: int, borders: Floats, width: int) -> None:
        attributes, cells = len(borders), borders.shape[1] + 1
        self.slots = slots
        self.borders = borders
        self.excluded = np.zeros((attributes * (cells + 1), slots // 64), np.uint64)
        self.alive = np.zeros(slots // 64, np.uint64)
        self.width = width  # ranges that a slot has room for
        self.records = _records(slots, width)
        self.constrained = np.zeros(attributes, np.int64)  # written slots with a range on the attribute

    def write(self, slots: Slots, ids: Ids, rows: Floats) -> None:
        """Put subscriptions into slots that are not alive."""
        if rows.shape[1] > 3 * self.width and (width := _ranges_max(rows)) > self.width:
            wider = _records(self.slots, width)
            wider[:, 0] = self.records[:, 0]
            ends, ends_wider = _ends_from(self.width), _ends_from(width)
            wider[:, 1:ends] = self.records[:, 1:ends]
            wider[:, ends_wider : ends_wider + 2 * self.width] = self.records[:, ends:]
            self.width, self.records = width, wider
        _write(self.excluded, self.borders, self.alive, self.constrained, *self._views(), slots, ids, rows)

    def match(self, events: Floats, ptr: Ids, work: Ids) -> Ids:
        """Fill ptr, add to work (rows, words, candidates), return ids in slot order."""
        return _match(self.excluded, self.borders, self.alive, self.constrained, *self._views(),
                      events, ptr, work)

    def _views(self) -> tuple[NDArray[np.int64], NDArray[np.int16], Floats]:
        return self.records, self.records.view(np.int16), self.records.view(np.float64)

    @property
    def ids(self) -> Ids:
        return self.records[:, 0]

    def grown(self, shape: tuple[int, int], known: Floats, coming: Floats) -> _Segment:
        """A larger segment with the same subscriptions in the same slots, and cells learned anew."""
        slots, cells = shape
        larger = _Segment(slots, _learn(_sample(known, coming), len(self.borders), cells), self.width)
        alive = np.flatnonzero(self.alive_slots())
        larger.write(alive, self.ids[alive], known)
        return larger

    def alive_slots(self) -> NDArray[np.bool_]:
        return np.unpackbits(self.alive.view(np.uint8), bitorder="little").astype(np.bool_)

    def rows(self, slots: Slots) -> Floats:
        """The subscriptions in these slots, as the contract writes them."""
        _, attributes, floats = self._views()
        attribute = attributes[slots, 4 : 4 + self.width].astype(np.float64)
        bounds = floats[slots, _ends_from(self.width) :]
        rows = np.stack([attribute, bounds[:, 0::2], bounds[:, 1::2]], axis=2)
        rows[np.logical_or.accumulate(attribute < 0, axis=1)] = np.nan
        return np.ascontiguousarray(rows.reshape(len(slots), -1))

    def memory_bytes(self) -> int:
        arrays = (self.excluded, self.borders, self.alive, self.records, self.constrained)
        return sum(array.nbytes for array in arrays)

    def check(self, held: Slots, ids: Ids) -> None:
        """Every invariant, given which slots hold which ids."""
        claim(np.array_equal(np.flatnonzero(self.alive_slots()), np.sort(held)), "alive are the held slots")
        claim(np.array_equal(self.ids[held], ids), "a held slot carries its id")
        claim((self.borders[:, 1:] >= self.borders[:, :-1]).all(), "cells ascend")
        claim(np.isfinite(self.borders).all(), "borders are finite")
        written = np.flatnonzero(self.ids >= 0)
        again = _Segment(self.slots, self.borders, self.width)
        again.write(written, self.ids[written], self.rows(written))
        claim(np.array_equal(again.excluded, self.excluded), "bits say what the stored ranges say")
        claim(np.array_equal(again.constrained, self.constrained), "constrained attributes are counted")


def warm() -> None:
    """Compile every kernel, or load it from the cache."""
    index = Cells(2)
    rows = np.array([[0.0, 0.1, 0.2, 1.0, 0.3, 0.4]] * 100)
    index.insert(np.arange(100), rows)
    index.insert(np.arange(100, 200), rows)
    index.delete(np.arange(50))
    index.insert(np.arange(50), rows[:50])
    index.match(np.array([0.1, 0.3]))
    _scatter(np.zeros(1, np.int64), np.zeros(2, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64))


def _sample(known: Floats, coming: Floats) -> Floats:
    """Rows from both, evenly spaced, in one width."""
    parts = [part[:: len(part) // SAMPLE_ROWS + 1] for part in (known, coming)]
    width = max(part.shape[1] for part in parts)
    return np.concatenate([_widened(part, width, np.nan) for part in parts])


def _widened(columns: NDArray[Any], width: int, padding: float) -> NDArray[Any]:
    out = np.full((len(columns), width), padding, columns.dtype)
    out[:, : columns.shape[1]] = columns
    return out


def _ends_from(width: int) -> int:
    """The column where the ends begin: after the id, and four attributes to a word."""
    return 1 + (width + 3) // 4


def _records(slots: int, width: int) -> NDArray[np.int64]:
    """One record per slot: id, attributes as int16 (-1 after the last), then low and high of each as floats.

    Side by side, since a verification that touches three arrays waits for three cache lines and pages.
    """
    records = np.zeros((slots, _ends_from(width) + 2 * width), np.int64)
    records[:, : _ends_from(width)] = -1  # four times the int16 -1
    return records


def _ranges_max(rows: Floats) -> int:
    return int((rows[:, 0::3] == rows[:, 0::3]).sum(axis=1).max(initial=0))


# ---- kernels: one family, compiled together ----------------------------------------------------------

_ONE = np.uint64(1)


@intrinsic
def _trailing_zeros(typing_context, word):
    """The number of the lowest set bit of a word that is not zero."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@intrinsic
def _prefetch(typing_context, array, position):
    """Ask for the cache line of an element, counted in elements from the start of a contiguous array."""

    def generate(context, builder, signature, arguments):
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        start = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(start, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        read, keep, data = (ir.Constant(flag, value) for value in (0, 3, 1))
        builder.call(prefetch, [address, read, keep, data])
        return context.get_dummy_value()

    return types.none(array, types.intp), generate


@njit(cache=True)
def _cell(borders, value):
    """The number of borders at or below the value: monotone, and never outside."""
    low, high = 0, borders.size
    while low < high:
        middle = (low + high) >> 1
        if borders[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _learn(rows, attributes, cells):
    """Borders at the quantiles of each attribute's finite range ends; 0..1 evenly where there are none."""
    borders = np.empty((attributes, cells - 1))
    ends_count = np.zeros(attributes + 1, np.int64)
    for pass_ in range(2):
        if pass_ == 1:
            for a in range(attributes):
                ends_count[a + 1] += ends_count[a]
            ends = np.empty(ends_count[attributes])
            cursor = ends_count[:-1].copy()
        for i in range(rows.shape[0]):
            for j in range(0, rows.shape[1], 3):
                if rows[i, j] == rows[i, j]:
                    a = int(rows[i, j])
                    for end in (rows[i, j + 1], rows[i, j + 2]):
                        if np.isfinite(end):
                            if pass_ == 0:
                                ends_count[a + 1] += 1
                            else:
                                ends[cursor[a]] = end
                                cursor[a] += 1
    for a in range(attributes):
        mine = np.sort(ends[ends_count[a] : ends_count[a + 1]])
        for c in range(1, cells):
            if mine.size == 0:
                borders[a, c - 1] = c / cells
                continue
            place = c * (mine.size - 1) / cells
            lower = int(place)
            part = place - lower
            border = mine[lower]
            if part > 0.0:  # weighted so that ends far apart do not overflow
                border = border * (1.0 - part) + mine[lower + 1] * part
            borders[a, c - 1] = border if c == 1 else max(border, borders[a, c - 2])
    return borders


@njit(inline="always", cache=True)
def _columns(columns):
    """(width, first column of the ends) of records with so many columns: 1 + ceil(width / 4) + 2 width."""
    width = (columns - 1) * 4 // 9
    return width, columns - 2 * width


@njit(cache=True)
def _write(excluded, borders, alive, constrained, ids, attribute, bounds, slots, new_ids, rows):
    cells = borders.shape[1] + 1
    width, ends = _columns(ids.shape[1])
    for i in range(slots.size):
        slot = slots[i]
        word = slot >> 6
        bit = _ONE << np.uint64(slot & 63)
        for j in range(width):  # take back what the slot excluded before
            old = np.int64(attribute[slot, 4 + j])
            if old < 0:
                break
            constrained[old] -= 1
            for row in range(old * (cells + 1), (old + 1) * (cells + 1)):
                excluded[row, word] &= ~bit
        ranges = 0
        for j in range(0, rows.shape[1], 3):
            if rows[i, j] != rows[i, j]:
                continue
            a = int(rows[i, j])
            low, high = rows[i, j + 1], rows[i, j + 2]
            attribute[slot, 4 + ranges] = a
            bounds[slot, ends + 2 * ranges] = low
            bounds[slot, ends + 2 * ranges + 1] = high
            ranges += 1
            constrained[a] += 1
            base = a * (cells + 1)
            for row in range(base, base + _cell(borders[a], low)):
                excluded[row, word] |= bit
            for row in range(base + _cell(borders[a], high) + 1, base + cells + 1):
                excluded[row, word] |= bit
        if ranges < width:
            attribute[slot, 4 + ranges] = -1
        ids[slot, 0] = new_ids[i]
        alive[word] |= bit


@njit(cache=True)
def _kill(alive, slots):
    """Clear the alive bit of those slots that are this segment's."""
    for i in range(slots.size):
        slot = slots[i]
        if 0 <= slot < 64 * alive.size:
            alive[slot >> 6] &= ~(_ONE << np.uint64(slot & 63))


@njit(cache=True)
def _keep_4(left, a, b, c, d):
    for w in range(left.size):
        left[w] &= ~(a[w] | b[w] | c[w] | d[w])


@njit(cache=True)
def _keep_8(left, a, b, c, d, e, f, g, h):
    for w in range(left.size):
        left[w] &= ~(((a[w] | b[w]) | (c[w] | d[w])) | ((e[w] | f[w]) | (g[w] | h[w])))


@njit(cache=True)
def _match(excluded, borders, alive, constrained, ids, attribute, bounds, events, ptr, work):
    attributes, cells = borders.shape[0], borders.shape[1] + 1
    columns = ids.shape[1]
    width, ends = _columns(columns)
    words = alive.size
    left = np.empty(words, np.uint64)
    picked = np.empty(attributes + 8, np.int64)
    candidates = np.empty(64 * words, np.int32)
    found = np.empty(64, np.int64)
    total = 0
    for e in range(events.shape[0]):
        event = events[e]
        rows = 0
        for a in range(attributes):
            if constrained[a] > 0:
                value = event[a]
                cell = _cell(borders[a], value) if value == value else cells
                picked[rows] = a * (cells + 1) + cell
                rows += 1
        work[0] += rows
        work[1] += rows * words
        for i in range(8):  # a row counted twice changes nothing: the last fills up the final pass
            picked[rows + i] = picked[max(rows - 1, 0)]
        left[:] = alive
        at = 0
        while at < rows:
            p = picked[at : at + 8]
            if rows - at > 4:
                _keep_8(left, excluded[p[0]], excluded[p[1]], excluded[p[2]], excluded[p[3]],
                        excluded[p[4]], excluded[p[5]], excluded[p[6]], excluded[p[7]])
                at += 8
            else:
                _keep_4(left, excluded[p[0]], excluded[p[1]], excluded[p[2]], excluded[p[3]])
                at += 4
        # First collect and prefetch, then verify: a quarter of the time of verifying on the spot.
        count = 0
        for w in range(words):
            word = left[w]
            while word != 0:
                slot = (w << 6) + np.int64(_trailing_zeros(word))  # type: ignore[call-arg]
                candidates[count] = slot
                _prefetch(ids, slot * columns)
                _prefetch(ids, (slot + 1) * columns - 1)
                count += 1
                word &= word - _ONE
        work[2] += count
        if total + count > found.size:
            larger = np.empty(max(total + count, 2 * found.size), np.int64)
            larger[:total] = found[:total]
            found = larger
        for i in range(count):
            candidate = candidates[i]
            holds = 1
            for j in range(width):
                asked = attribute[candidate, 4 + j]
                if asked < 0:
                    break
                value = event[asked]
                low, high = bounds[candidate, ends + 2 * j], bounds[candidate, ends + 2 * j + 1]
                holds &= int(low <= value) & int(value <= high)
            found[total] = ids[candidate, 0]
            total += int(holds)
        ptr[e + 1] = total
    return found[:total].copy()


@njit(cache=True)
def _unsorted(ptr, ids):
    """Which events have ids out of order."""
    out = np.zeros(ptr.size - 1, np.bool_)
    for e in range(out.size):
        for i in range(ptr[e] + 1, ptr[e + 1]):
            if ids[i] < ids[i - 1]:
                out[e] = True
                break
    return out


@njit(cache=True)
def _scatter(found, part_ptr, cursor, out):
    """Append a segment's ids of every event to the event's place in the result."""
    for e in range(cursor.size):
        for i in range(part_ptr[e], part_ptr[e + 1]):
            out[cursor[e]] = found[i]
            cursor[e] += 1
