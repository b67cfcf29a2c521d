"""Counted objects in hulls of given boxes, each in O(1): the boxes in ranks, and a table over their ends.

The ends of hulls are ends of the boxes. On each axis an end is told by how many objects lie before it, and of those
numbers by its rank; min and max of ranks are the ranks of min and max. The table says for each pair of ranks how many
objects lie before both, so that a hull is four look-ups. Counts are whole, so they are to the bit those of `Count`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokers.planning.model import Floats
from brokers.planning.sizes import RANKED, Count, Size, SizeTable

AXES_MAX = 2
PLACES_MAX = 1 << 22  # of the table: 32 MB
WORK_PER_PAIR = 32  # objects and places that may be looked at for each pair of boxes

_NONE = np.empty(0)
_NO_CELLS = np.empty(0, np.int64)
_NO_POINTS = np.empty((0, 0))


def ranked(size: Size, low: Floats, high: Floats) -> tuple[SizeTable, Floats, Floats]:
    """What kernels look at in the place of a size and of boxes, for hulls of these boxes; the same where it would not
    pay, or there is no such table. O(objects + places)."""
    n, d = low.shape
    same = size.table, low, high
    if not isinstance(size, Count) or d > AXES_MAX or n * (n - 1) // 2 * WORK_PER_PAIR < len(size.database):
        return same
    ordered, places = size.database.along()
    before = [
        (np.searchsorted(ordered[k], low[:, k], "left"), np.searchsorted(ordered[k], high[:, k], "right"))
        for k in range(d)
    ]
    cuts = [np.unique(np.concatenate(ends)) for ends in before]
    cells = np.array([len(each) for each in cuts], np.int64)
    entries = int(np.prod(cells))
    if entries > PLACES_MAX or n * (n - 1) // 2 * WORK_PER_PAIR < len(size.database) + entries:
        return same
    lows, highs = np.empty((n, d)), np.empty((n, d))
    for k in range(d):
        lows[:, k] = np.searchsorted(cuts[k], before[k][0])
        highs[:, k] = np.searchsorted(cuts[k], before[k][1])
    below = _below([np.searchsorted(cuts[k], places[k], "right") for k in range(d)], cells)
    table = SizeTable(RANKED, 0.0, _NONE, _NONE, cells, below, _NO_CELLS, _NO_POINTS)
    return table, lows, highs


def _below(first: list[NDArray[np.int64]], cells: NDArray[np.int64]) -> Floats:
    """Objects before each cut, on all axes; `first` is on each axis the first cut that an object lies before."""
    at = np.zeros(len(first[0]), np.int64)
    for k, cuts in enumerate(cells.tolist()):
        at = at * (cuts + 1) + first[k]
    shape = (cells + 1).tolist()
    counts = np.bincount(at, minlength=int(np.prod(shape))).reshape(shape)[(slice(0, -1),) * len(shape)]
    found = counts.astype(np.float64)
    for axis in range(len(shape)):
        np.cumsum(found, axis=axis, out=found)
    return found.ravel()
