"""Whether what comes still lies where CellBitset's cells were cut, and new cells where it does not.

Cells are quantiles of what was held, so that the range ends of a subscription fall into any of them alike. Where
values move on, new ones crowd in few cells, most often in the last, and are no longer told apart. How crowded is
the chance that two ends on one attribute share a cell: counted for what comes, it is compared with that of the
sample from which the cells were cut.

New cells are cut for the same classes. On an attribute on which what came of late lies aside of what is held, they
are cut for both: for what is held, and for what is to come if the values go on like this until half of all has been
replaced. Some further cells lie beyond, wider and wider, so that values that move ever faster are told apart too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from brokers.indexes.content.cells_plan import Layout, crowding, cut, quantised, tally
from brokers.indexes.content.contract import Floats
from brokers.indexes.contract import Ids

CHECKED_SHARE = 32  # as many inserts as one in so many of what is held are looked at together
CHECKED_MIN = 512
ENDS_MIN = 256  # of an attribute, to judge it
CROWDED, CROWDED_MORE = 1.5, 0.002  # times what it was, and more
CLOSER_MOST = 4.0  # times as crowded as the sample is usual if it is so at the first look
CURED_SHARE = 4  # new cells that do not last for one in so many inserts were no cure: more patience
PATIENCE_MOST = 16
RECENT = 512  # the last inserted that are remembered
RECENT_ENDS_MIN = 32  # of an attribute, to say where it moves
MOVED = 0.05  # times the spread of what is held, by the medians: less is no movement
BEYOND_SHARE = 10  # part of the cells that lies beyond all that is expected
WIDENING = 1.15  # how much wider each of these is than the one before
_MOST = np.finfo(np.float64).max
_GOLDEN = 0.6180339887498949  # its multiples, modulo 1, are even in 0..1


class Watch:
    """Counts the range ends that come, by cell."""

    def __init__(self, rows: int) -> None:
        self.seen = np.zeros((rows, 256), np.int32)  # per row, mostly an attribute, and cell
        self.recent = np.full(RECENT, -1, np.int64)  # ids
        self._at = 0
        self._entered = 0  # since the last look
        self._since = 0  # since cells were cut
        self._patience = 1
        self._usual: Floats | None = None  # crowding, by the first look after cells were cut

    def remember(self, ids: Ids) -> None:
        """These came."""
        if len(ids) == 1:
            self.recent[self._at] = ids[0]
            self._at = (self._at + 1) % RECENT
        else:
            last = ids[-RECENT:]
            self.recent[(self._at + np.arange(len(last))) % RECENT] = last
            self._at = (self._at + len(last)) % RECENT

    def drifted(self, usual: Floats, entered: int, held: int) -> bool:
        """Whether new cells pay, after that many inserts more, where so much crowding was usual in a sample.

        A look now and then, O(cells of all attributes).
        """
        self._entered += entered
        if self._entered < max(CHECKED_MIN, held * self._patience // CHECKED_SHARE):
            return False
        self._since += self._entered
        self._entered = 0
        found = crowding(self.seen)
        if self._usual is None:  # what comes may well lie closer together than all that is held
            self._usual = np.clip(found, usual, CLOSER_MOST * usual)
        crowded = found > CROWDED * self._usual + CROWDED_MORE
        if (crowded & (self.seen.sum(axis=1) >= ENDS_MIN)).any():
            return True
        self.seen[:] = 0
        return False

    def cut(self, held: int) -> None:
        """New cells were cut; count from here."""
        cured = CURED_SHARE * (self._since + self._entered) >= held
        self._patience = 1 if cured else min(2 * self._patience, PATIENCE_MOST)
        self._since, self._entered, self._usual = 0, 0, None
        self.seen[:] = 0


def regrid(plan: Layout, sample: Floats, recent: Floats) -> Iterator[Layout | None]:
    """The plan with cells cut anew: for a sample of what is held, and those that came last.

    In steps that take a fraction of a millisecond each; the last one yields the plan.
    """
    attributes = len(plan.rank)
    border_from, borders = cut(sample, attributes)
    yield None
    for a in range(attributes):
        first, last = border_from[a], border_from[a + 1]
        if last > first and (ahead := _ahead(ends_on(sample, a), ends_on(recent, a), last - first)) is not None:
            borders[first:last] = ahead
        yield None
    attribute, cell = quantised(sample, border_from, borders)
    usual = crowding(tally(attribute, cell, attributes))
    yield replace(plan, border_from=border_from, borders=borders, usual=usual)


def ends_on(rows: Floats, attribute: int) -> Floats:
    """The finite ends of ranges on an attribute, ascending."""
    row, column = np.nonzero(rows[:, 0::3] == attribute)
    ends = np.concatenate([rows[row, 3 * column + 1], rows[row, 3 * column + 2]])
    return np.sort(ends[np.isfinite(ends)])


def expected_ends(held: Floats, recent: Floats, share: float = 1.0) -> tuple[Floats, float] | None:
    """What is held and what is to come, ascending, if values move, and how far they did; None if they do not.

    What came of late goes on for this share of the way that values took while half of what is held was replaced.
    """
    if len(recent) < RECENT_ENDS_MIN or not len(held):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        # What is held came half a replacement ago on average.
        moved = float(recent[len(recent) // 2] - held[len(held) // 2])
        spread = held[-1 - len(held) // 20] - held[len(held) // 20]
        if not MOVED * spread < abs(moved) < np.inf:
            return None
        part = np.arange(len(held)) * _GOLDEN % 1.0
        coming = recent[np.arange(len(held)) % len(recent)] + share * part * moved
    return np.sort(np.concatenate([held, coming])), moved


def _ahead(held: Floats, recent: Floats, count: int) -> Floats | None:
    """So many borders for values that move, ascending; None if they do not."""
    found = expected_ends(held, recent)
    if found is None:
        return None
    expected, moved = found
    with np.errstate(over="ignore", invalid="ignore"):
        beyond = count // BEYOND_SHARE
        inner = expected[np.arange(1, count - beyond + 1) * (len(expected) - 1) // (count - beyond + 1)]
        step = abs(moved) * len(held) / len(expected) / (count - beyond)
        further = step * np.cumsum(WIDENING ** np.arange(beyond))
        outer = expected[-1] + further if moved > 0 else expected[0] - further[::-1]
        borders = np.concatenate([inner, outer] if moved > 0 else [outer, inner])
    return np.maximum.accumulate(np.clip(borders, -_MOST, _MOST))
