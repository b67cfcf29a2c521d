"""Whether what comes still lies where CellBitset's cells were cut and in its classes; new ones where it does not.

Cells are quantiles of what was held, so that the range ends of a subscription fall into any of them alike. Where
values move on, new ones crowd in few cells, most often in the last, and are no longer told apart. How crowded is
the chance that two ends on one attribute share a cell: counted for what comes, it is compared with that of the
sample from which the cells were cut.

New cells are cut for the same classes. On an attribute on which what came of late lies aside of what is held, they
are cut for both: for what is held, and for what is to come if the values go on like this until half of all has been
replaced. Some further cells lie beyond, wider and wider, so that values that move ever faster are told apart too.

Classes share attributes that many of what was held constrain. Where other attributes are constrained, or other
combinations, what comes ends in shallow classes: more events pass their columns, and more of what its ranges would rule
out is left aside. Both are taken of those that came last, and compared with the sample from which the plan was made.
Then all is planned anew, for a sample of what is held and as many of what came. Such a plan serves two populations,
each less well than a plan of its own would, so all is planned twice more, each time that a third has been replaced.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from brokers.indexes.content.cells_plan import (
    Layout,
    classify,
    crowding,
    cut,
    planning,
    quantised,
    tally,
    told_apart,
)
from brokers.indexes.content.contract import Floats
from brokers.indexes.contract import Ids
from brokers.thresholds import usually

CHECKED_SHARE = 32  # as many inserts as one in so many of what is held are looked at together
CHECKED_MIN = 512
ENDS_MIN = 256  # of an attribute, to judge it
CROWDED, CROWDED_MORE = 1.5, 0.002  # times what it was, and more
CLOSER_MOST = 4.0  # times as crowded as the sample is usual if it is so at the first look
CURED_SHARE = 4  # new cells that do not last for one in so many inserts were no cure: more patience
PATIENCE_MOST = 16
PASSING, PASSING_MORE = 1.5, 0.0005  # times the part of all events that passed what came, and more
BITS_MORE = 1.0  # that ranges outside the columns would rule out
PASSING_USUAL_MOST = 3.0  # times that of the sample is usual if it is so at the first look: classes know their sample
SETTLES, SETTLES_SHARE = 2, 3  # plans that follow upon one for a mixture, each when one in so many has been replaced
ASTRAY_ROWS_MIN = 128  # that came, to judge them
RECENT = 512  # the last inserted that are remembered, if not said otherwise
RECENT_ENDS_MIN = 32  # of an attribute, to say where it moves
MOVED = 0.05  # times the spread of what is held, by the medians: less is no movement
BEYOND_SHARE = 10  # part of the cells that lies beyond all that is expected
WIDENING = 1.15  # how much wider each of these is than the one before
_MOST = np.finfo(np.float64).max
_GOLDEN = 0.6180339887498949  # its multiples, modulo 1, are even in 0..1


class Watch:
    """Counts the range ends that come, by cell."""

    def __init__(self, rows: int, remembered: int = RECENT) -> None:
        self.seen = np.zeros((rows, 256), np.int32)  # per row, mostly an attribute, and cell
        self.recent = np.full(remembered, -1, np.int64)  # ids
        self._at = 0
        self._entered = 0  # since the last look
        self._since = 0  # since cells were cut
        self._patience = 1
        # Crowding, and how what came is told apart, by the first look after cells were cut.
        self._usual: Floats | None = None
        self._apart: Floats | None = None
        self._settles = 0  # plans that are still to follow

    def remember(self, ids: Ids) -> None:
        """These came."""
        if len(ids) == 1:
            self.recent[self._at] = ids[0]
            self._at = (self._at + 1) % len(self.recent)
        else:
            last = ids[-len(self.recent) :]
            self.recent[(self._at + np.arange(len(last))) % len(self.recent)] = last
            self._at = (self._at + len(last)) % len(self.recent)

    def due(self, entered: int, held: int) -> bool:
        """Whether it is time for a look, after that many inserts more."""
        self._entered += entered
        if self._entered < max(usually(CHECKED_MIN), held * self._patience // CHECKED_SHARE):
            return False
        self._since += self._entered
        self._entered = 0
        return True

    def crowded(self, usual: Floats) -> bool:
        """Whether new cells pay, where so much crowding was usual in a sample. O(cells of all attributes)."""
        found = crowding(self.seen)
        if self._usual is None:  # what comes may well lie closer together than all that is held
            self._usual = np.clip(found, usual, CLOSER_MOST * usual)
        crowded = found > CROWDED * self._usual + CROWDED_MORE
        if (crowded & (self.seen.sum(axis=1) >= usually(ENDS_MIN))).any():
            return True
        self.seen[:] = 0
        return False

    def drifted(self, usual: Floats, entered: int, held: int) -> bool:
        """Both, for an index without classes."""
        return self.due(entered, held) and self.crowded(usual)

    def unsettled(self, held: int) -> bool:
        """Whether a plan for a mixture has served its time, and is to be followed by one for what is held now."""
        due = self._settles > 0 and SETTLES_SHARE * self._since >= held
        self._settles -= int(due)
        return due

    def astray(self, plan: Layout, came: Floats) -> bool:
        """Whether other classes pay for what came. O(rows * columns)."""
        if len(came) < usually(ASTRAY_ROWS_MIN):
            return False
        attribute, cell = quantised(came, plan.border_from, plan.borders)
        told = told_apart(attribute, cell, classify(attribute, cell, *plan.routes), plan.columns, plan.weight)
        found = told.mean(axis=0)
        if self._apart is None:
            most = PASSING_USUAL_MOST * plan.apart[0], plan.apart[1] + BITS_MORE
            self._apart = np.clip(found, plan.apart, most)
        passing, left = found - 2.0 * told.std(axis=0) / math.sqrt(len(told))
        if passing > PASSING * self._apart[0] + PASSING_MORE or left > self._apart[1] + BITS_MORE:
            self._settles = SETTLES
            return True
        return False

    def cut(self, held: int) -> None:
        """New cells were cut; count from here."""
        cured = CURED_SHARE * (self._since + self._entered) >= held
        self._patience = 1 if cured else min(2 * self._patience, PATIENCE_MOST)
        self._since, self._entered, self._usual, self._apart = 0, 0, None, None
        self.seen[:] = 0


def regrid(plan: Layout, sample: Floats, recent: Floats) -> Iterator[Layout | None]:
    """The plan with cells cut anew: for a sample of what is held, and those that came last.

    In steps that take a fraction of a millisecond each; the last one yields the plan.
    """
    attributes = len(plan.rank)
    border_from, borders = cut(sample, attributes)
    for _ in _ahead(border_from, borders, sample, recent):
        yield None
    attribute, cell = quantised(sample, border_from, borders)
    usual = crowding(tally(attribute, cell, attributes))
    yield replace(plan, border_from=border_from, borders=borders, usual=usual)


def replan(sample: Floats, recent: Floats, attributes: int, expected: int) -> Iterator[Layout | None]:
    """A plan for a sample of what is held and for those that came last, in steps likewise."""
    both = np.concatenate([sample, recent])
    border_from, borders = cut(both, attributes)
    for _ in _ahead(border_from, borders, sample, recent):
        yield None
    yield from planning(both, border_from, borders, expected)


def _ahead(border_from: NDArray[np.int32], borders: Floats, sample: Floats, recent: Floats) -> Iterator[None]:
    """Cut the cells of attributes on which values move for what is to come, one attribute a step."""
    yield
    for a in range(len(border_from) - 1):
        first, last = border_from[a], border_from[a + 1]
        if last == first:
            continue
        if (ahead := bordered(ends_on(sample, a), ends_on(recent, a), last - first)) is not None:
            borders[first:last] = ahead
        yield


def ends_on(rows: Floats, attribute: int) -> Floats:
    """The finite ends of ranges on an attribute, ascending."""
    row, column = np.nonzero(rows[:, 0::3] == attribute)
    ends = np.concatenate([rows[row, 3 * column + 1], rows[row, 3 * column + 2]])
    return np.sort(ends[np.isfinite(ends)])


def expected_ends(held: Floats, recent: Floats, share: float = 1.0) -> tuple[Floats, float] | None:
    """What is held and what is to come, ascending, if values move, and how far they did; None if they do not.

    What came of late goes on for this share of the way that values took while half of what is held was replaced.
    """
    if len(recent) < usually(RECENT_ENDS_MIN) or not len(held):
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


def bordered(held: Floats, recent: Floats, count: int) -> Floats | None:
    """So many borders, ascending, for what is held and for what is to come if values move; None if they do not."""
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
