"""Whether what comes still lies where CellBitset's cells were cut, and new cells where it does not.

Cells are quantiles of what was held, so that the range ends of a subscription fall into any of them alike. Where
values move on, new ones crowd in few cells, most often in the last, and are no longer told apart. How crowded is
the chance that two ends on one attribute share a cell: counted for what comes, it is compared with that of the
sample from which the cells were cut.

New cells are cut for the same classes. On an attribute whose new ends lie at one side of what is held, a third of
the cells is kept for values that nobody has yet, further on that side, at first as narrow as the others and then
wider and wider: so values that move on at a steady pace need new cells only when they have moved on by half.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from brokers.indexes.content.cells_plan import Layout, crowding, cut, quantised, tally
from brokers.indexes.content.contract import Floats

CHECKED_SHARE = 32  # as many inserts as one in so many of what is held are looked at together
CHECKED_MIN = 512
ENDS_MIN = 256  # of an attribute, to judge it
CROWDED, CROWDED_MORE = 1.5, 0.002  # times what it was, and more
CLOSER_MOST = 4.0  # times as crowded as the sample is usual if it is so at the first look
CURED_SHARE = 4  # new cells that do not last for one in so many inserts were no cure: more patience
PATIENCE_MOST = 16
EDGE, EDGE_SHARE = 0.05, 0.12  # so many of the ends that come lie beyond that quantile: they move there
ROOM_SHARE = 3  # part of the cells that lies beyond what is held, at one side
WIDENING = 1.02  # how much wider each of these is than the one before


class Watch:
    """Counts the range ends that come, by cell."""

    def __init__(self, attributes: int) -> None:
        self.seen = tally(np.empty((0, 1), np.int16), np.empty((0, 2), np.uint8), attributes)
        self._entered = 0  # since the last look
        self._since = 0  # since cells were cut
        self._patience = 1
        self._usual: Floats | None = None  # crowding, by the first look after cells were cut

    def drifted(self, plan: Layout, entered: int, held: int) -> bool:
        """Whether new cells pay, after that many inserts more. A look now and then, O(cells of all attributes)."""
        self._entered += entered
        if self._entered < max(CHECKED_MIN, held * self._patience // CHECKED_SHARE):
            return False
        self._since += self._entered
        self._entered = 0
        found = crowding(self.seen)
        if self._usual is None:  # what comes may well lie closer together than all that is held
            self._usual = np.clip(found, plan.usual, CLOSER_MOST * plan.usual)
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


def regrid(plan: Layout, sample: Floats, seen: NDArray[np.int32]) -> Iterator[Layout | None]:
    """The plan with cells cut anew: for these subscriptions, of those that are held, and for what comes.

    In steps that take a fraction of a millisecond each; the last one yields the plan.
    """
    attributes = len(plan.rank)
    border_from, borders = cut(sample, attributes)
    yield None
    for a in range(attributes):
        first, last = border_from[a], border_from[a + 1]
        if last == first:
            continue
        mine = _ends(sample, a)
        if (sides := _sides(plan, a, mine, seen[a % len(seen)])) != (False, False):
            borders[first:last] = _with_room(mine, last - first + 1, *sides)
        yield None
    attribute, cell = quantised(sample, border_from, borders)
    usual = crowding(tally(attribute, cell, attributes))
    yield replace(plan, border_from=border_from, borders=borders, usual=usual)


def _ends(sample: Floats, attribute: int) -> Floats:
    """The finite ends of the sample's ranges on an attribute, ascending."""
    row, column = np.nonzero(sample[:, 0::3] == attribute)
    ends = np.concatenate([sample[row, 3 * column + 1], sample[row, 3 * column + 2]])
    return np.sort(ends[np.isfinite(ends)])


def _sides(plan: Layout, attribute: int, ends: Floats, seen: NDArray[np.int32]) -> tuple[bool, bool]:
    """Whether what comes lies below or above most of what is held."""
    mine = plan.borders[plan.border_from[attribute] : plan.border_from[attribute + 1]]
    low, high = (1 + np.searchsorted(mine, np.quantile(ends, q), side="right") for q in (EDGE, 1.0 - EDGE))
    total = max(1, seen.sum())
    return bool(seen[: low + 1].sum() > EDGE_SHARE * total), bool(seen[high:].sum() > EDGE_SHARE * total)


def _with_room(ends: Floats, cells: int, below: bool, above: bool) -> Floats:
    """Borders at quantiles, and beyond the ends on these sides. `cells - 1` of them, ascending."""
    room = cells // ROOM_SHARE // (below + above)
    core = cells - room * (below + above)
    places = np.arange(1, core) * (len(ends) - 1) // core
    parts = [ends[places]]
    with np.errstate(over="ignore", invalid="ignore"):
        if below:
            parts.insert(0, -_beyond(-ends[::-1], room, core)[::-1])
        if above:
            parts.append(_beyond(ends, room, core))
    return np.maximum.accumulate(np.concatenate(parts))


def _beyond(ends: Floats, count: int, core: int) -> Floats:
    """So many borders from the last end on, the first as far apart as the borders of the last ends are."""
    eighth = len(ends) // 8
    step = 8.0 * (ends[-1] - ends[-1 - eighth]) / core
    room = ends[-1] + step * np.cumsum(WIDENING ** np.arange(count))
    most = np.finfo(np.float64).max
    return np.clip(np.nan_to_num(room, nan=most), -most, most)
