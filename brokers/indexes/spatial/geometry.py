"""Places and what far apart means: the plane, and the surface of the earth.

A place is a pair of numbers outside and a *point* inside: its coordinates in the plane, or the unit vector
that latitude and longitude name. What is compared is always the sum of the squared differences along the
axes, in float64 and in the order of the axes. On the sphere that is the squared chord, which grows with the
great-circle distance; so one set of bounds for boxes serves both, and no meridian and no pole is special.

    low(box, box)  = sum over axes of the squared gap between the intervals, 0 where they overlap
    high(box, box) = sum over axes of the squared distance of the farthest ends

Subtraction, maximum, square and sum are monotone under IEEE rounding: low <= squared distance <= high holds
for the computed numbers too. The relaxed comparison `delta * distance(s, o) < distance(s, q)` is by
definition `squared(s, o) < reach(squared(s, q), delta)`, see `reach_of`.

Sine and arc tangent are polynomials here, since those of libraries differ in the last bit between CPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.spatial import search

Floats = NDArray[np.float64]

PLANE_MAX = 1e150  # the square of twice this is finite
EARTH_RADIUS_M = 6_371_008.8


class BadPlace(InvalidInput):
    """Coordinates that are no place."""


@dataclass(frozen=True)
class Geometry:
    """How places become points, and squared distances become lengths."""

    name: str
    axes: int  # coordinates of a point
    limits: tuple[float, float]  # the largest absolute value of either number of a place
    numbers: tuple[str, str]
    unit: str

    def points(self, places: Any, count: int, what: str) -> Floats:
        """Places float64[count, 2] as points float64[count, axes], or BadPlace naming the row. O(n)."""
        array = _as_places(places, what)
        if len(array) != count:
            raise BadPlace(f"{len(array)} places for {count} {what}; pass one place each")
        if _within(array, *self.limits):
            return search.unit_vectors(array) if self.axes == 3 else array
        for column, (limit, name) in enumerate(zip(self.limits, self.numbers)):
            wrong = ~(np.abs(array[:, column]) <= limit)  # NaN is wrong too
            if wrong.any():
                row = int(np.argmax(wrong))
                raise BadPlace(
                    f"row {row} of {what}: {name} is {array[row, column]:g}; it lies in {-limit:g}..{limit:g}"
                )
        raise AssertionError("what is not within has a row that is not")

    def reach(self, squared: Any, delta: Any) -> Floats:
        """What an object's squared distance has to be below, for it to be delta times closer. O(n)."""
        squared, delta = np.broadcast_arrays(np.asarray(squared, np.float64), np.asarray(delta, np.float64))
        flat = search.reach_many(squared.ravel().copy(), delta.ravel().copy(), self.axes)
        return np.asarray(flat.reshape(squared.shape))

    def length(self, squared: Any) -> Floats:
        """Squared distances as lengths: units of the plane, metres on the sphere. O(n)."""
        squared = np.asarray(squared, np.float64)
        if self.axes == 2:
            return np.asarray(np.sqrt(squared))
        arcs = search.arcs(np.minimum(squared, 4.0).ravel()).reshape(squared.shape)
        return np.where(np.isfinite(squared), EARTH_RADIUS_M * arcs, np.inf)


PLANE = Geometry("plane", 2, (PLANE_MAX, PLANE_MAX), ("x", "y"), "units")
SPHERE = Geometry("sphere", 3, (90.0, 180.0), ("the latitude", "the longitude"), "m")
GEOMETRIES = {geometry.name: geometry for geometry in (PLANE, SPHERE)}


def geometry_named(name: Any) -> Geometry:
    """A geometry by its name."""
    if name not in GEOMETRIES:
        raise InvalidInput(f"no geometry named {name!r}; known: {', '.join(sorted(GEOMETRIES))}")
    return GEOMETRIES[name]


def squared_distances(points: Floats, point: Floats) -> Floats:
    """From each point to one, along the axes in order. O(n)."""
    total = np.zeros(len(points))
    for axis in range(points.shape[1]):
        total += (points[:, axis] - point[axis]) ** 2
    return total


def squared_gaps(boxes: Floats, point: Floats) -> Floats:
    """The least squared distance from boxes float64[n, 2 axes] (lows, then highs) to a point. O(n)."""
    axes = len(point)
    total = np.zeros(len(boxes))
    for axis in range(axes):
        low, high = boxes[:, axis], boxes[:, axes + axis]
        total += np.maximum(0.0, np.maximum(low - point[axis], point[axis] - high)) ** 2
    return total


@njit(cache=True)
def _within(places, first, second):
    """Whether the two numbers of every place are so large at most. NaN is not."""
    inside = True
    for i in range(places.shape[0]):
        inside &= abs(places[i, 0]) <= first and abs(places[i, 1]) <= second
    return inside


def _as_places(places: Any, what: str) -> Floats:
    try:
        array = np.asarray(places)
    except ValueError:
        raise BadPlace(f"the places of {what} are ragged; pass pairs of numbers") from None
    if array.size == 0:
        return np.empty((0, 2))
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iuf":
        raise BadPlace(
            f"the places of {what} have shape {array.shape} and type {array.dtype}; pass pairs of numbers"
        )
    # One layout for all callers, and no alias of the caller's array.
    return np.array(array, np.float64, order="C")
