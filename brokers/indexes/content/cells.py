"""CellBitset, the default index: 64 subscriptions compared with an event at once, cell by cell.

Values become cells, numbers of one byte, by a monotone function per attribute. Whether an event's cell lies
between the lowest and the highest cell of a range is then one comparison, and a processor does 64 of them at
once: the bitset "may match" of a block of 64, which an index of bitsets would store per cell, is computed
where it is needed, from two cache lines per attribute. What survives the AND over the attributes is verified
with the ranges themselves, so that cells only save work and any monotone function will do.

- `cells_plan` chooses the cells, and classes of subscriptions that constrain the same attributes;
- `cells_blocks` has the layout: subscriptions in leaves of 64, leaves in nodes of 64;
- `cells_build` lays out many at once, `cells_edit` inserts and deletes in place;
- `cells_match` answers.

A plan is made for a number of subscriptions. When there are several times as many, or far fewer, a new one is
made, and what is held moves to new blocks: at once if it is little, else some with every change, while a
match asks both sides. `docs/cells.md` has the reasons and the figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.indexes.content.beside import Beside, mixed
from brokers.indexes.content.cells_blocks import LEAVES, PROBED, Blocks
from brokers.indexes.content.cells_build import build
from brokers.indexes.content.cells_drift import Watch, regrid, replan
from brokers.indexes.content.cells_edit import delete, delete_one, give_up, insert
from brokers.indexes.content.cells_match import forecast, match, match_both
from brokers.indexes.content.cells_plan import TALLIED_MOST, Layout, make_plan
from brokers.indexes.content.contract import (
    ContentIndex,
    Floats,
    checked_attributes,
    checked_rows,
    many_events,
    one_event,
    places_of,
)
from brokers.indexes.content.store import in_order
from brokers.indexes.contract import DuplicateId, Ids, WorkCounters, checked_ids, claim
from brokers.indexes.ids import IdMap
from brokers.thresholds import usually

EXPECTED_MIN = 64  # no plan is made for fewer
OUTGROWN = 4  # times the expected number: time for a new plan
SHRUNK = 8  # part of the expected number: likewise
AT_ONCE = 1 << 14  # so many are laid out anew in one go
MOVES = 4  # subscriptions moved to the new side per change
MOVES_BATCH = 16
PLAN_ROWS = 2048  # looked at for a plan that an insert waits for
_UNSEEN = np.zeros((0, 256), np.int32)
CUT_ROWS = CAME_ROWS = 1024  # for new cells: of what is held, and of what came
RANGES_QUICK = 64  # rows with at most so many ranges are checked by a kernel


class CellBitset(ContentIndex):
    """Blocks of 64 compared by cell. Match O(nodes + leaves that may match + candidates)."""

    def __init__(self, attributes: int) -> None:
        self.attributes = checked_attributes(attributes)
        self.counters = WorkCounters()
        self._sides: list[Blocks | None] = [None, None]
        self._side = 0  # the one that inserts go to
        self._slot_of = IdMap()  # id -> 2 * slot + side
        self._leaving: Iterator[None] = iter(())  # gives the other side's memory back once it is empty
        self._owed = 0  # subscriptions to be moved from the other side
        self._left = 0  # leaves of the other side that may hold some
        self._moved = np.empty(32, np.int64)
        self._scan = Beside(self.attributes)
        self._watch = Watch(min(self.attributes, TALLIED_MOST), CAME_ROWS)
        self._cutting: Iterator[Layout | None] | None = None  # new cells, step by step

    def __len__(self) -> int:
        return len(self._slot_of)

    def insert(self, ids: Any, rows: Any) -> None:
        """Add subscriptions. O(k * columns + nodes of the class) per row, amortised."""
        fresh = checked_ids(ids)
        checked = self._rows(rows, len(fresh))
        known = self._slot_of.find(fresh) >= 0
        if known.any():
            raise DuplicateId(f"id {fresh[known][0]} is in the index already; delete it first")
        if not len(fresh):
            return
        self._scan.insert(fresh, checked)
        blocks = self._sides[self._side]
        if blocks is None or len(fresh) > len(self):
            self._lay_out(fresh, checked)
            return
        if checked.shape[1] > 3 * blocks.ranges and (ranges := _ranges_max(checked)) > blocks.ranges:
            self._turn(Blocks(blocks.plan, ranges, 1, 1))
        self._enter(fresh, checked, self._watch.seen)
        self._watch.remember(fresh)
        self._changed(len(fresh), len(fresh))

    def delete(self, ids: Any) -> None:
        """Remove subscriptions. O(columns) each."""
        gone = checked_ids(ids)
        if self._scan:
            self._scan.delete(gone)
        side = self._side
        blocks, other = self._sides[side], self._sides[1 - side]
        if blocks is not None and other is None and len(gone) == 1:
            self._delete_one(blocks, gone)
            return
        places = places_of(gone, self._slot_of.take(gone))
        if blocks is not None:
            delete(*blocks.freed, places, side)
        if other is not None:
            delete(*other.freed, places, 1 - side)
        self._changed(len(gone))

    def rows(self, ids: Any) -> Floats:
        """The subscriptions under these ids. O(n k)."""
        known = checked_ids(ids)
        places = places_of(known, self._slot_of.find(known))
        out = np.full((len(known), 3 * self._ranges()), np.nan)
        for side, blocks in enumerate(self._sides):
            here = np.flatnonzero(places & 1 == side)
            if blocks is not None and here.size:
                out[here, : 3 * blocks.ranges] = blocks.rows(places[here] >> 1)
        return out

    def match(self, values: Any) -> Ids:
        """The ids that match one event, ascending. O(nodes + leaves that may match + candidates)."""
        event = one_event(values, self.attributes)
        return self._match(event.reshape(1, -1))[1]

    def match_many(self, values: Any) -> tuple[Ids, Ids]:
        """Ids per event. O(nodes + leaves that may match + candidates) each."""
        return self._match(many_events(values, self.attributes))

    def _match(self, events: Floats) -> tuple[Ids, Ids]:
        self.counters.events += len(events)
        if not self._scan:
            before = self.counters.verified
            ptr, ids = self._match_blocks(events)
            if self._scan.due(len(self), self._ranges(), len(events), self.counters.verified - before):
                self._scan.fill(*self._held())
        else:
            ptr, ids = self._match_either(events)
        self.counters.matched += len(ids)
        return ptr, ids

    def _match_either(self, events: Floats) -> tuple[Ids, Ids]:
        """Ask the copy where that is cheaper."""
        if self._scan.sure(len(events)):
            self.counters.verified += len(self) * len(events)
            return self._scan.match(events)
        costs = np.zeros(len(events))
        for blocks in self._sides:
            if blocks is not None:
                forecast(*blocks.asked, events, costs)
        scans = self._scan.chosen(costs)
        scanned = int(np.count_nonzero(scans))
        self.counters.verified += len(self) * scanned
        if scanned == 0:
            return self._match_blocks(events)
        if scanned == len(events):
            return self._scan.match(events)
        return mixed(scans, self._scan.match(events[scans]), self._match_blocks(events[~scans]))

    def _match_blocks(self, events: Floats) -> tuple[Ids, Ids]:
        ptr = np.zeros(len(events) + 1, np.int64)
        blocks, other = self._sides[self._side], self._other()
        ids = np.empty(0, np.int64)
        if blocks is not None:
            ids = match(*blocks.asked, events, ptr) if other is None else match_both(
                blocks.asked, other.asked, events, ptr)
            self._count(blocks)
        return ptr, in_order(ptr, ids)

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        blocks = sum(blocks.memory_bytes() for blocks in self._sides if blocks is not None)
        return blocks + self._slot_of.memory_bytes() + self._moved.nbytes + self._scan.memory_bytes()

    def check(self) -> None:
        """Every invariant. O(slots * ranges)."""
        self._slot_of.check()
        ids, places = self._slot_of.items()
        total = 0
        for side, blocks in enumerate(self._sides):
            if blocks is None:
                continue
            blocks.check()
            here = places & 1 == side
            slots = blocks.slots()
            total += len(slots)
            claim(np.array_equal(np.sort(places[here] >> 1), slots), "the slots in use are those of the ids")
            carried = blocks.records.rows[places[here] >> 1, 0]
            claim(np.array_equal(carried, ids[here]), "a slot carries its id")
        claim(total == len(self), "every id has a slot")
        claim(self._sides[self._side] is not None or not len(self), "the side for inserts is there")
        self._scan.check(ids, self.rows(ids))

    def _held(self) -> tuple[Ids, Floats]:
        ids = self._slot_of.items()[0]
        return ids, self.rows(ids)

    def _ranges(self) -> int:
        return max((blocks.ranges for blocks in self._sides if blocks is not None), default=0)

    def _rows(self, rows: Any, count: int) -> Floats:
        if (
            type(rows) is np.ndarray and rows.dtype == np.float64 and rows.ndim == 2 and rows.flags.carray
            and len(rows) == count and rows.shape[1] % 3 == 0 and rows.shape[1] <= 3 * RANGES_QUICK
            and _are_good(rows, self.attributes)
        ):
            return rows
        return checked_rows(rows, self.attributes, count)

    def _other(self) -> Blocks | None:
        return self._sides[1 - self._side]

    def _count(self, blocks: Blocks) -> None:
        probed, words, verified = blocks.state[PROBED:].tolist()
        blocks.state[PROBED:] = 0
        self.counters.probed += probed
        self.counters.words += words
        self.counters.verified += verified

    def _delete_one(self, blocks: Blocks, gone: Ids) -> None:
        slot_of = self._slot_of
        leaves, records, held = blocks.cleared
        emptied = delete_one(slot_of.keys, slot_of.slots, leaves, records, held, gone)
        if emptied == -1:
            places_of(gone, np.array([-1]))
        slot_of.taken()
        if emptied < 0:
            nodes, children, parent, _, _, _, state = blocks.freed
            give_up(nodes, children, parent, state, -2 - emptied)
        self._changed(1)

    def _enter(self, ids: Ids, rows: Floats, seen: NDArray[np.int32]) -> None:
        """Insert into the current side, and enter the slots; `seen` counts the range ends, if it has rows."""
        blocks = self._sides[self._side]
        assert blocks is not None
        plan, slots, at = blocks.plan, np.empty(len(ids), np.int64), 0
        while at < len(ids):
            if not blocks.have_room():
                blocks.grow()
            done, moves = insert(blocks.tree, blocks.items, plan.columns, blocks.state, plan.border_from,
                                 plan.borders, plan.routes, rows, ids, at, slots, self._moved, seen)
            self._slot_of.add(ids[at:done], 2 * slots[at:done] + self._side)
            if moves:
                moved = self._moved[:moves]
                moved_ids = blocks.records.rows[moved, 0]
                self._slot_of.remove(moved_ids)
                self._slot_of.add(moved_ids, 2 * moved + self._side)
            at = done

    def _changed(self, count: int, entered: int = 0) -> None:
        """After so many changes, of them inserts: move what is owed, and see whether the plan still suits."""
        blocks, other = self._sides[self._side], self._sides[1 - self._side]
        if other is not None:
            self._owed += MOVES * count
            if self._owed >= MOVES_BATCH:
                self._move(self._owed)
                self._owed = 0
            return
        next(self._leaving, None)
        if blocks is None:
            return
        held, expected = len(self._slot_of), blocks.plan.expected
        if held == 0:
            self._sides, self._cutting = [None, None], None
        elif self._cutting is not None:
            try:
                if (plan := next(self._cutting)) is not None:
                    self._turn(Blocks(plan, blocks.ranges, 1, 1))
            except StopIteration:
                self._cutting = None
        elif held > OUTGROWN * expected or (expected > usually(EXPECTED_MIN) and SHRUNK * held < expected):
            if held <= usually(AT_ONCE):
                self._lay_out(np.empty(0, np.int64), np.empty((0, 0)))
            else:
                self._cutting = self._planned_anew(blocks, PLAN_ROWS)
        elif entered and self._watch.due(entered, held):
            self._cutting = self._look(blocks)

    def _look(self, blocks: Blocks) -> Iterator[Layout | None]:
        """Whether what came lies where it was expected, and if not a plan for it. Each change goes on by a step."""
        came = self._came(blocks)
        yield None
        if self._watch.astray(blocks.plan, came[::2].copy()) or self._watch.unsettled(len(self)):
            yield None
            yield from self._planned_anew(blocks, CUT_ROWS, came)
            return
        yield None
        if self._watch.crowded(blocks.plan.usual):
            yield None
            sample = self._sample(blocks, CUT_ROWS)
            yield None
            yield from regrid(blocks.plan, sample, came)

    def _planned_anew(self, blocks: Blocks, rows: int, came: Floats | None = None) -> Iterator[Layout | None]:
        """Cells and classes for so many of what is held, and for those that came."""
        sample = self._sample(blocks, rows)
        yield None
        expected = max(usually(EXPECTED_MIN), len(self))
        yield from replan(sample, sample[:0] if came is None else came, self.attributes, expected)

    def _came(self, blocks: Blocks) -> Floats:
        """Those that came last, and are held still."""
        recent = self._slot_of.find(np.unique(self._watch.recent[self._watch.recent >= 0]))
        return blocks.rows(recent[(recent >= 0) & (recent & 1 == self._side)] >> 1)

    def _sample(self, blocks: Blocks, rows: int) -> Floats:
        """Some `rows` subscriptions, of every so many leaves."""
        leaves = np.flatnonzero(blocks.held.rows[: blocks.state[LEAVES], 0])
        leaves = leaves[:: max(1, len(leaves) // rows)]
        lanes = blocks.leaves.rows[leaves, :128]
        which = np.flatnonzero(lanes[:, :64] <= lanes[:, 64:])
        which = which[:: max(1, len(which) // rows)]
        return blocks.rows(64 * leaves[which >> 6] + (which & 63))

    def _lay_out(self, ids: Ids, rows: Floats) -> None:
        """Lay out all subscriptions anew, together with fresh ones. O(n (k + log n))."""
        parts = [(ids, rows)]
        for blocks in self._sides:
            if blocks is not None:
                slots = blocks.slots()
                parts.append((blocks.records.rows[slots, 0], blocks.rows(slots)))
        every, all_rows = np.concatenate([part[0] for part in parts]), _stacked([part[1] for part in parts])
        plan = make_plan(all_rows, self.attributes, max(usually(EXPECTED_MIN), len(every)))
        built = build(plan, every, all_rows)
        slots = built.slots()
        self._slot_of = IdMap()
        self._slot_of.add(built.records.rows[slots, 0].copy(), 2 * slots)
        self._sides, self._side, self._owed = [built, None], 0, 0
        self._watch, self._cutting = Watch(min(self.attributes, TALLIED_MOST), CAME_ROWS), None

    def _turn(self, blocks: Blocks) -> None:
        """Let inserts go to new blocks, and the others' content follow bit by bit."""
        if self._other() is not None:
            self._move(len(self))
        current = self._sides[self._side]
        assert current is not None
        self._left = int(current.state[LEAVES])
        self._side = 1 - self._side
        self._sides[self._side] = blocks
        self._watch.cut(len(self))
        self._cutting = None

    def _move(self, count: int) -> None:
        """Move so many subscriptions from the other side to this one."""
        while count > 0 and (other := self._other()) is not None:
            held = other.held.rows
            while self._left > 0 and held[self._left - 1] == 0:
                self._left -= 1
            if self._left == 0:
                self._sides[1 - self._side] = None
                self._leaving = other.given_back()
                return
            first = 64 * (self._left - 1)
            slots = first + np.flatnonzero(other.records.rows[first : first + 64, 0] >= 0)[:count]
            ids, rows = other.records.rows[slots, 0], other.rows(slots)
            delete(*other.freed, 2 * slots + 1 - self._side, 1 - self._side)
            self._slot_of.remove(ids)
            self._enter(ids, rows, _UNSEEN)
            count -= len(slots)


def warm() -> None:
    """Compile every kernel, or load it from the cache."""
    index = CellBitset(2)
    rows = np.array([[0.0, 0.1, 0.2, 1.0, 0.3, 0.4]] * 400)
    index.insert(np.arange(100), rows[:100])
    index.insert(np.arange(100, 150), rows[:50])
    index.delete(np.arange(50))
    index.delete(np.arange(50, 51))
    index._turn(Blocks(make_plan(rows, 2, EXPECTED_MIN), 2, 1, 1))
    index.match_many(np.array([[0.1, 0.3], [0.1, 0.3]]))
    index._scan.fill(*index._held())
    for _ in range(2):
        index.match_many(np.array([[0.1, 0.3], [0.1, 0.3]]))
        index.match(np.array([0.1, 0.3]))
    index._move(len(index))
    index.check()
    index = CellBitset(2)
    index.insert(np.arange(1), rows[:1])
    index.match(np.array([0.1, 0.3]))
    index.delete(np.arange(1))


def _ranges_max(rows: Floats) -> int:
    return int((rows[:, 0::3] == rows[:, 0::3]).sum(axis=1).max(initial=0))


def _stacked(parts: list[Floats]) -> Floats:
    """Rows of different widths one below the other, NaN padded."""
    out = np.full((sum(len(part) for part in parts), max(part.shape[1] for part in parts)), np.nan)
    at = 0
    for part in parts:
        out[at : at + len(part), : part.shape[1]] = part
        at += len(part)
    return out


# ---- kernels ------------------------------------------------------------------------------------------


@njit(cache=True)
def _are_good(rows, attributes):
    """Whether all rows are conjunctions of closed ranges on distinct attributes. O(n k k)."""
    for i in range(rows.shape[0]):
        for j in range(0, rows.shape[1], 3):
            attribute, low, high = rows[i, j], rows[i, j + 1], rows[i, j + 2]
            if attribute != attribute:
                if low == low or high == high:
                    return False
                continue
            if not (low <= high and 0 <= attribute < attributes and attribute == np.floor(attribute)):
                return False
            for before in range(0, j, 3):
                if rows[i, before] == attribute:
                    return False
    return True
