"""A scan beside an index: a second copy of the subscriptions, for events that most of them match.

An index that rules little out does what a scan does, and more: it finds its way to each subscription, and has to
put the ids in order. Where that happens again and again a copy is made, in the order of the ids, which from then
on takes every change; the index forecasts for each event what it would cost, and the cheaper one answers. A copy
that no event asked for in a long time is dropped.

All is decided by counts, never by a clock, and no decision shows in an answer.
"""

from __future__ import annotations

import sys

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.indexes.content.contract import Floats
from brokers.indexes.content.store import RangeStore, in_order
from brokers.indexes.contract import Ids, claim
from brokers.indexes.intrinsics import prefetch
from brokers.thresholds import usually

HELD_MIN = 512  # for fewer it does not matter
FORGET_EVENTS = 4096  # events that none was scanned for: the copy is dropped
STREAK_LEAST, UNASKED_MOST = 4, 32  # after so many scans in a row, up to so many without a forecast
FORGET_CHANGES = 1  # likewise, changes without a scan, times what is held
_ALONE = 3  # references to memory of which no answer is a view: two of ours, and the argument of who counts
_AHEAD = 16  # slots
_PAGE = 4096  # bytes: what is written that far behind what is read delays the reading

# What is taken to be spent, in nanoseconds: per subscription by a scan and by an index that compares it, and for
# copying it, more per range.
SCAN_NS, COMPARED_NS = 4.0, 14.0
COPY_NS, COPY_RANGE_NS = 40.0, 15.0


class RoomyScan:
    """A scan of a store that writes to memory of its own, which it uses again when nobody has an answer in it."""

    def __init__(self) -> None:
        self._raw = self._room = np.empty(0, np.int64)

    def match(self, store: RangeStore, events: Floats, ordered: bool = False) -> tuple[Ids, Ids]:
        """Ids per event, ascending. O(slots * ranges) each at worst; `ordered` says that slots are in their order."""
        used = store.used
        if len(self._room) < used or sys.getrefcount(self._raw) > _ALONE:
            self._raw, self._room = _apart(len(store.ids), store.ids)
        room, arrays = self._room, (store.ids[:used], store.attribute, store.ends)
        if len(events) > 1:
            ptr, ids = _scan_all(*arrays, events, room)
        else:
            ptr = np.zeros(len(events) + 1, np.int64)
            if len(events):
                ptr[1] = _scan_one(*arrays, events[0], room)
            ids = room[: ptr[-1]]
            if 2 * len(ids) < len(room):
                ids = ids.copy()
        if not ordered:
            in_order(ptr, ids)
        return ptr, ids

    def memory_bytes(self) -> int:
        return self._raw.nbytes


class Beside:
    """The copy, while there is one."""

    def __init__(self, attributes: int) -> None:
        self.attributes = attributes
        self._store: RangeStore | None = None
        self._scan = RoomyScan()
        self._ordered, self._last = True, -1  # whether slots are in the order of ids; the highest of these
        self._wasted_ns = 0.0
        self._streak = self._unasked = 0  # events scanned for in a row, and to be scanned for without a forecast
        self._unused = self._changes = 0

    def __bool__(self) -> bool:
        return self._store is not None

    def due(self, held: int, ranges: int, events: int, compared: int) -> bool:
        """Whether a copy pays by now, after these events for which the index compared so many."""
        if held < usually(HELD_MIN):
            return False
        self._wasted_ns += max(0.0, COMPARED_NS * compared - SCAN_NS * held * events)
        return self._wasted_ns >= held * (COPY_NS + COPY_RANGE_NS * ranges)

    def fill(self, ids: Ids, rows: Floats) -> None:
        """Copy what is held. O(n (k + log n))."""
        order = np.argsort(ids, kind="stable")
        self._store, self._ordered = RangeStore(self.attributes), True
        self._store.insert(ids[order], rows[order])
        self._last = int(ids.max(initial=-1))
        self._wasted_ns, self._streak, self._unasked, self._unused, self._changes = 0.0, 0, 0, 0, 0

    def insert(self, ids: Ids, rows: Floats) -> None:
        """These are held from now on."""
        if self._store is not None:
            used = self._store.used
            slots = self._store.insert(ids, rows)
            before = self._last
            self._last = int(ids.max(initial=before))
            grew = len(ids) > 0 and ids[0] > before and bool((np.diff(ids) > 0).all())
            self._ordered = self._ordered and grew and int(slots[0]) >= used
            self._changed(len(ids))

    def delete(self, ids: Ids) -> None:
        """These are not."""
        if self._store is not None:
            self._store.delete(*self._store.slots_of(ids))
            self._changed(len(ids))

    def sure(self, events: int) -> bool:
        """Whether to scan for these events unasked, as for all of late: a forecast waits for memory longer than it
        computes. Every so often it is asked for nevertheless."""
        self._unasked -= events
        return self._unasked >= 0

    def chosen(self, costs_ns: Floats) -> NDArray[np.bool_]:
        """Which events to scan for, by what the index would cost."""
        assert self._store is not None
        scans: NDArray[np.bool_] = costs_ns > SCAN_NS * len(self._store)
        if scans.all():
            self._streak += len(scans)
            self._unasked = min(self._streak, UNASKED_MOST) if self._streak >= STREAK_LEAST else 0
        else:
            self._streak = self._unasked = 0
        if scans.any():
            self._unused = self._changes = 0
        else:
            self._unused += len(scans)
            if self._unused > usually(FORGET_EVENTS):
                self._drop()
        return scans

    def match(self, events: Floats) -> tuple[Ids, Ids]:
        """Ids per event. O(held * ranges) each at worst."""
        assert self._store is not None
        return self._scan.match(self._store, events, self._ordered)

    def memory_bytes(self) -> int:
        return 0 if self._store is None else self._store.memory_bytes() + self._scan.memory_bytes()

    def check(self, ids: Ids, rows: Floats) -> None:
        """It holds these, and nothing else. O(n log n)."""
        if self._store is None:
            return
        self._store.check()
        held, slots = self._store.items()
        order, mine = np.argsort(ids), np.argsort(held)
        claim(np.array_equal(ids[order], held[mine]), "the copy holds the same ids")
        theirs, ours = rows[order], self._store.rows(slots[mine])
        width = max(theirs.shape[1], ours.shape[1])
        theirs, ours = (
            np.pad(one, ((0, 0), (0, width - one.shape[1])), constant_values=np.nan) for one in (theirs, ours)
        )
        claim(np.array_equal(theirs, ours, equal_nan=True), "the copy holds the same ranges")
        claim(not self._ordered or bool((np.diff(held[np.argsort(slots)]) > 0).all()), "slots are in the order of ids")

    def _changed(self, count: int) -> None:
        assert self._store is not None
        self._changes += count
        if self._changes > FORGET_CHANGES * len(self._store) + usually(HELD_MIN):
            self._drop()

    def _drop(self) -> None:
        self._store, self._scan = None, RoomyScan()


def mixed(
    scans: NDArray[np.bool_], scanned: tuple[Ids, Ids], matched: tuple[Ids, Ids]
) -> tuple[Ids, Ids]:
    """Answers to all events, of those to the events that were scanned for and to the others. O(events + ids)."""
    counts = np.empty(len(scans), np.int64)
    counts[scans], counts[~scans] = np.diff(scanned[0]), np.diff(matched[0])
    ptr = np.zeros(len(scans) + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    ids = np.empty(ptr[-1], np.int64)
    of_scan = np.repeat(scans, counts)
    ids[of_scan], ids[~of_scan] = scanned[1], matched[1]
    return ptr, ids


def _apart(count: int, other: Ids) -> tuple[Ids, Ids]:
    """Memory, and room for so many in it, half a page apart from another array, along which it will be filled."""
    raw = np.empty(count + _PAGE // 8, np.int64)
    start = (other.ctypes.data + _PAGE // 2 - raw.ctypes.data) % _PAGE // 8
    return raw, raw[start : start + count]


# ---- kernels ------------------------------------------------------------------------------------------


@njit(cache=True)
def _scan_one(ids, attribute, ends, event, room):
    """Fill `room` with the ids that match; returns how many."""
    width, total = attribute.shape[1], 0
    for slot in range(ids.size):
        prefetch(ends, (slot + _AHEAD) * 2 * width)  # type: ignore[call-arg]
        holds = True
        for j in range(width):
            asked = attribute[slot, j]
            if asked < 0:
                break
            value = event[asked]
            if not (ends[slot, 2 * j] <= value and value <= ends[slot, 2 * j + 1]):
                holds = False
                break
        if holds:
            room[total] = ids[slot]
            total += 1
    return total


@njit(cache=True)
def _scan_all(ids, attribute, ends, events, room):
    ptr, found, total = np.zeros(events.shape[0] + 1, np.int64), np.empty(ids.size, np.int64), 0
    for e in range(events.shape[0]):
        one = _scan_one(ids, attribute, ends, events[e], room)
        if total + one > found.size:
            larger = np.empty(2 * total + ids.size, np.int64)
            larger[:total] = found[:total]
            found = larger
        found[total : total + one] = room[:one]
        total += one
        ptr[e + 1] = total
    return ptr, found[:total].copy()
