"""How many objects a query returns: estimated as area times density, from a histogram, or counted.

All three are measures (never negative; larger boxes hold no less), which is what makes merging by bounding
boxes monotone. A size carries its `table`, flat arrays that kernels read, so that one kernel serves all three.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.contract import Ids, checked_ids
from brokers.planning.geometry import disjoint, union_volume
from brokers.planning.model import DIMENSIONS_MAX, BadQuery, Floats

AREA, HISTOGRAM, COUNT, RANKED = 0, 1, 2, 3  # the last for boxes in ranks: see `ranked`

BINS_PER_AXIS = 64
HISTOGRAM_BINS_MAX = 1 << 22
BOXES_CUT_MAX = 64
OBJECTS_PER_CELL = 4
CELLS_PER_AXIS_MAX = 4096


class SizeTable(NamedTuple):
    """What kernels know of a size; the parts that a kind does not use are empty."""

    kind: int
    density: float
    origin: Floats  # of the grid
    step: Floats
    cells: NDArray[np.int64]  # of the grid, per axis
    below: Floats  # objects below each corner of the grid, row by row
    starts: NDArray[np.int64]  # objects of each cell of the grid, row by row
    points: Floats  # objects in the order of their cells


class Size(ABC):
    """Estimated objects in boxes, and in unions of boxes."""

    table: SizeTable
    dimensions: int | None  # None: any

    def of_boxes(self, low: Floats, high: Floats) -> Floats:
        """The size of each box."""
        return np.asarray(_sizes(self.table, low, high))

    @abstractmethod
    def of_union(self, low: Floats, high: Floats) -> float:
        """The size of the union of boxes."""

    def fits(self, dimensions: int) -> None:
        """Refuse boxes that have another number of dimensions."""
        if self.dimensions is not None and self.dimensions != dimensions:
            raise BadQuery(
                f"queries have {dimensions} dimensions and the objects that size them {self.dimensions}"
            )


class Area(Size):
    """Volume times density: objects spread evenly. O(d) per box."""

    def __init__(self, density: float = 1.0) -> None:
        if not isinstance(density, int | float) or not math.isfinite(density) or density <= 0:
            raise InvalidInput(f"density is {density!r}; pass a finite number above 0")
        self.dimensions = None
        none, no_cells = np.empty(0), np.empty(0, np.int64)
        self.table = SizeTable(
            AREA, float(density), none, none, no_cells, none, no_cells, np.empty((0, 0))
        )

    def of_union(self, low: Floats, high: Floats) -> float:
        """O(n log n) up to two dimensions."""
        return self.table.density * union_volume(low, high)


class Database:
    """Objects at points, with distinct ids, bucketed by a grid. Holds the points once, in cell order."""

    def __init__(self, points: Any, ids: Any = None) -> None:
        positions = _checked_points(points)
        count, d = positions.shape
        self.origin, self.step, self.cells = _grid(positions, _cells_per_axis(count, d))
        cell = _cell_of(positions, self.origin, self.step, self.cells)
        order = np.argsort(cell, kind="stable")
        self.points = positions[order]
        numbers = np.arange(count, dtype=np.int64) if ids is None else checked_ids(ids)
        if len(numbers) != count:
            raise InvalidInput(f"{len(numbers)} ids for {count} objects; pass one per object")
        self.ids = numbers[order]
        self.starts = np.zeros(int(np.prod(self.cells)) + 1, np.int64)
        np.cumsum(np.bincount(cell, minlength=len(self.starts) - 1), out=self.starts[1:])
        self._along: tuple[list[Floats], list[NDArray[np.int64]]] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dimensions(self) -> int:
        return self.points.shape[1]

    @property
    def table(self) -> SizeTable:
        return SizeTable(
            COUNT, 0.0, self.origin, self.step, self.cells, np.empty(0), self.starts, self.points
        )

    def along(self) -> tuple[list[Floats], list[NDArray[np.int64]]]:
        """On each axis the objects' coordinates ascending, and the place of each object among them.

        O(objects log objects) the first time.
        """
        if self._along is None:
            order = [np.argsort(column, kind="stable") for column in self.points.T]
            places = [np.empty(len(each), np.int64) for each in order]
            for place, each in zip(places, order):
                place[each] = np.arange(len(each))
            self._along = [column[each] for column, each in zip(self.points.T, order)], places
        return self._along

    def inside(self, low: Floats, high: Floats) -> Ids:
        """Rows of `points` and `ids` in the union of boxes, ascending. O(objects of the cells they touch)."""
        return np.asarray(np.flatnonzero(_mark(self.table, low, high)), np.int64)


class Count(Size):
    """The objects of a database that a query returns, counted. O(cells of the border and their objects)."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.dimensions = database.dimensions
        self.table = database.table

    def of_union(self, low: Floats, high: Floats) -> float:
        """O(objects in the cells that the boxes touch, and all objects once)."""
        return float(_mark(self.table, low, high).sum())


class Histogram(Size):
    """Objects per bin of an even grid, spread evenly inside each bin. O(4^d) per box."""

    def __init__(self, points: Any, bins: int = BINS_PER_AXIS) -> None:
        positions = _checked_points(points)
        self.dimensions = positions.shape[1]
        if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
            raise InvalidInput(f"bins is {bins!r}; pass the number of bins per axis, at least 1")
        if bins**self.dimensions > HISTOGRAM_BINS_MAX:
            raise InvalidInput(
                f"{bins} bins on each of {self.dimensions} axes are {bins**self.dimensions:,}; "
                f"there may be {HISTOGRAM_BINS_MAX:,} in all"
            )
        origin, step, cells = _grid(positions, np.full(self.dimensions, bins, np.int64))
        counts = np.bincount(_cell_of(positions, origin, step, cells), minlength=bins**self.dimensions)
        below = np.zeros(cells + 1)
        below[(slice(1, None),) * self.dimensions] = counts.reshape(cells)
        for axis in range(self.dimensions):
            np.cumsum(below, axis=axis, out=below)
        self.table = SizeTable(
            HISTOGRAM, 0.0, origin, step, cells, below.ravel(), np.empty(0, np.int64), np.empty((0, 0))
        )

    def of_union(self, low: Floats, high: Floats) -> float:
        """Few boxes are cut into disjoint ones, O((2n)^d); many are clipped bin by bin, O(n bins)."""
        if len(low) == 0:
            return 0.0
        if len(low) <= BOXES_CUT_MAX:
            return float(self.of_boxes(*disjoint(low, high)).sum())
        origin, step, cells = self.table.origin, self.table.step, self.table.cells
        total = 0.0
        for bin_ in np.ndindex(*cells):
            bottom = origin + np.array(bin_) * step
            top = bottom + step
            touching = ((low < top) & (high > bottom)).all(axis=1)
            if touching.any():
                inside = np.maximum(low[touching], bottom), np.minimum(high[touching], top)
                here = float(self.of_boxes(bottom[None], top[None])[0])
                total += here * union_volume(*inside) / float(step.prod()) if here else 0.0
        return total


def _checked_points(points: Any) -> Floats:
    array = np.asarray(points)
    if array.ndim != 2 or array.dtype.kind not in "iuf":
        raise InvalidInput("objects are no array of numbers [objects, dimensions]; pass one point per object")
    if len(array) == 0 or not 1 <= array.shape[1] <= DIMENSIONS_MAX:
        raise InvalidInput(
            f"objects have shape {array.shape}; pass at least one, in 1 to {DIMENSIONS_MAX} dimensions"
        )
    positions = np.require(array, np.float64, ["C", "W"])
    if not np.isfinite(positions).all():
        row = int(np.argmin(np.isfinite(positions).all(axis=1)))
        raise InvalidInput(f"object {row} is at {positions[row].tolist()}; give it a finite point")
    return positions


def _cells_per_axis(objects: int, d: int) -> NDArray[np.int64]:
    per_axis = int((objects / OBJECTS_PER_CELL) ** (1 / d))
    return np.full(d, min(max(per_axis, 1), CELLS_PER_AXIS_MAX), np.int64)


def _grid(points: Floats, cells: NDArray[np.int64]) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """An even grid over the points. All on one coordinate: one cell of extent 1 is as good as any."""
    origin = points.min(axis=0)
    extent = points.max(axis=0) - origin
    flat = extent / cells <= np.abs(origin) * 1e-15
    return origin, np.where(flat, 1.0, extent) / cells, cells


def _cell_of(points: Floats, origin: Floats, step: Floats, cells: NDArray[np.int64]) -> NDArray[np.int64]:
    at = np.clip(np.floor((points - origin) / step), 0, cells - 1).astype(np.int64)
    return np.asarray(np.ravel_multi_index(tuple(at.T), tuple(cells)), np.int64)


# ---- kernels -----------------------------------------------------------------------------------------


@njit(cache=True)
def hull_size(table, low, high, a, b):
    """The size of the box that encloses boxes a and b. A row may be named twice."""
    d = low.shape[1]
    if table.kind == AREA:
        size = table.density
        for k in range(d):
            size *= max(high[a, k], high[b, k]) - min(low[a, k], low[b, k])
        return size
    if table.kind == RANKED:
        return ranked_hull(table.below, table.cells[d - 1], low, high, a, b)
    bottom, top = np.empty(d), np.empty(d)
    for k in range(d):
        bottom[k] = min(low[a, k], low[b, k])
        top[k] = max(high[a, k], high[b, k])
    return box_size(table, bottom, top)


@njit(cache=True, inline="always")
def ranked_hull(below, columns, low, high, a, b):
    """The objects in the hull of boxes a and b, all in ranks."""
    bottom, top = int(min(low[a, 0], low[b, 0])), int(max(high[a, 0], high[b, 0]))
    if low.shape[1] == 1:
        return below[top] - below[bottom]
    left, right = int(min(low[a, 1], low[b, 1])), int(max(high[a, 1], high[b, 1]))
    bottom, top = bottom * columns, top * columns
    return below[top + right] - below[bottom + right] - below[top + left] + below[bottom + left]


@njit(cache=True)
def box_size(table, low, high):
    """The size of one box."""
    if table.kind == AREA:
        size = table.density
        for k in range(low.size):
            size *= high[k] - low[k]
        return size
    if table.kind == HISTOGRAM:
        return _mass(table, low, high)
    if table.kind == RANKED:
        return ranked_hull(table.below, table.cells[low.size - 1], low.reshape(1, -1), high.reshape(1, -1), 0, 0)
    return float(_count(table, low, high))


@njit(cache=True)
def _sizes(table, low, high):
    out = np.empty(low.shape[0])
    for i in range(out.size):
        out[i] = box_size(table, low[i], high[i])
    return out


@njit(cache=True)
def _mass(table, low, high):
    """Objects below the corners of the box, with alternating signs."""
    d = low.size
    corner = np.empty(d)
    total = 0.0
    for which in range(1 << d):
        sign = 1.0
        for k in range(d):
            if which >> k & 1:
                corner[k] = high[k]
            else:
                corner[k] = low[k]
                sign = -sign
        total += sign * _mass_below(table, corner)
    return max(total, 0.0)


@njit(cache=True)
def _mass_below(table, corner):
    """Objects below a point: between the corners of its bin, linear along each axis."""
    d = corner.size
    bin_, part = np.empty(d, np.int64), np.empty(d)
    for k in range(d):
        at = min(max((corner[k] - table.origin[k]) / table.step[k], 0.0), float(table.cells[k]))
        bin_[k] = min(int(at), table.cells[k] - 1)
        part[k] = at - bin_[k]
    total = 0.0
    for which in range(1 << d):
        weight, place = 1.0, 0
        for k in range(d):
            up = which >> k & 1
            weight *= part[k] if up else 1.0 - part[k]
            place = place * (table.cells[k] + 1) + bin_[k] + up
        if weight > 0.0:
            total += weight * table.below[place]
    return total


@njit(cache=True)
def _cells_touched(table, low, high, first, last):
    """The cells that a box may touch, first..last per axis."""
    for k in range(low.size):
        top = float(table.cells[k] - 1)
        first[k] = int(min(max(np.floor((low[k] - table.origin[k]) / table.step[k]), 0.0), top))
        last[k] = int(min(max(np.floor((high[k] - table.origin[k]) / table.step[k]), 0.0), top))


@njit(cache=True)
def _holds(points, i, low, high):
    holds = True
    for k in range(low.size):
        holds &= low[k] <= points[i, k] <= high[k]
    return holds


@njit(cache=True)
def _next_row(at, first, last):
    """The next row of cells, along the last axis, of a block; False after the last."""
    for k in range(at.size - 2, -1, -1):
        at[k] += 1
        if at[k] <= last[k]:
            return True
        at[k] = first[k]
    return False


@njit(cache=True)
def _row_of(table, at, first, last):
    """The first cell of a row, and whether the row lies in the box on all axes but the last."""
    row, inner = 0, True
    for k in range(at.size - 1):
        row = row * table.cells[k] + at[k]
        inner = inner and first[k] < at[k] < last[k]
    return row * table.cells[at.size - 1], inner


@njit(cache=True)
def _count(table, low, high):
    """Objects in a closed box: inner cells by their number, border cells one by one."""
    d = low.size
    first, last = np.empty(d, np.int64), np.empty(d, np.int64)
    _cells_touched(table, low, high, first, last)
    at = first.copy()
    found = 0
    while True:
        row, inner = _row_of(table, at, first, last)
        a, b = row + first[d - 1], row + last[d - 1]
        inner_first = table.starts[b + 1]
        if inner and a + 1 < b:
            inner_first, inner_last = table.starts[a + 1], table.starts[b]
            found += inner_last - inner_first
            for i in range(inner_last, table.starts[b + 1]):
                found += _holds(table.points, i, low, high)
        for i in range(table.starts[a], inner_first):
            found += _holds(table.points, i, low, high)
        if not _next_row(at, first, last):
            return found


@njit(cache=True)
def _mark(table, low, high):
    """Which objects lie in any of the boxes."""
    marked = np.zeros(table.points.shape[0], np.bool_)
    d = low.shape[1]
    first, last = np.empty(d, np.int64), np.empty(d, np.int64)
    for box in range(low.shape[0]):
        _cells_touched(table, low[box], high[box], first, last)
        at = first.copy()
        while True:
            row, _ = _row_of(table, at, first, last)
            for i in range(table.starts[row + first[d - 1]], table.starts[row + last[d - 1] + 1]):
                if not marked[i] and _holds(table.points, i, low[box], high[box]):
                    marked[i] = True
            if not _next_row(at, first, last):
                break
    return marked
