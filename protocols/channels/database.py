"""The server's geographic database: objects at points, synthetic with hot spots or read from a file.

Whoever builds it from the same parameters gets the same objects with the same ids. Each object has a *mark*, 40
bits that follow from its id: the number of objects and the sum of their marks stand for a set of objects in the
trace, so that two sets that differ are told apart but for one chance in 10^12.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit

from brokers.contract import Floats, Ints
from brokers.planning.files import read_database
from brokers.planning.sizes import Database
from topology.draws import normal, purpose_key, stream, streams, uniform

MARK_BITS = 40


def database_of(params: dict[str, Any]) -> Database:
    """The database that a service's parameters describe; built once per process."""
    if params["file"] is not None:
        return read_database(params["file"], params["axes"])
    names = ("database_seed", "objects", "side", "hot_spots", "spread", "hot_share")
    return _synthetic(*(params[name] for name in names))


def hot_spots(seed: int, count: int, side: float) -> Floats:
    """The centres of the first `count` hot spots of a square [0, side] x [0, side]."""
    key = stream(seed, 0, "channels/hot-spots")
    return np.array([[side * uniform(key, 2 * i), side * uniform(key, 2 * i + 1)] for i in range(count)]).reshape(-1, 2)


def marks(ids: Ints) -> Ints:
    """The mark of each object. O(n)."""
    key = purpose_key(0, "channels/mark")
    return (streams(key, ids.astype(np.uint64)) >> np.uint64(64 - MARK_BITS)).astype(np.int64)


@lru_cache(maxsize=4)
def _synthetic(
    seed: int, objects: int, side: float, spots: int, spread: float, share: float
) -> Database:
    points = np.empty((objects, 2))
    _scatter(stream(seed, 0, "channels/objects"), hot_spots(seed, spots, side), side, spread, share, points)
    return Database(points)


@njit(cache=True)
def _scatter(key, centres, side, spread, share, out):
    """Objects evenly, or around a hot spot; what falls outside is drawn again evenly."""
    for i in range(out.shape[0]):
        place = 6 * i
        spot = -1
        if centres.shape[0] > 0 and uniform(key, place) < share:
            spot = int(uniform(key, place + 1) * centres.shape[0])
        inside = spot >= 0
        for axis in range(2):
            if spot >= 0:
                out[i, axis] = centres[spot, axis] + spread * normal(uniform(key, place + 2 + axis))
                inside = inside and 0.0 <= out[i, axis] <= side
        if not inside:
            for axis in range(2):
                out[i, axis] = side * uniform(key, place + 4 + axis)
