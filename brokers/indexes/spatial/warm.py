"""Compile the kernels of every reverse top-k index, or load them from the cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from brokers.indexes.spatial.bpart import BPart
from brokers.indexes.spatial.geometry import GEOMETRIES
from brokers.indexes.spatial.materialised import Materialised
from brokers.indexes.spatial.part import Part


def warm() -> None:
    """A short life of each: objects and subscriptions come, are asked for and go."""
    count = 60
    places = np.linspace(0.0, 9.0, 2 * count).reshape(count, 2)
    words = [{"a", "b"} if i % 3 else {"b", "c"} for i in range(count)]
    ids = np.arange(count)
    for geometry in GEOMETRIES:
        indexes: tuple[Any, ...] = (Part(geometry), BPart(geometry), Materialised(geometry, k_max=3))
        for index in indexes:
            for half in (ids[: count // 2], ids[count // 2 :]):
                index.insert_subscriptions(half, places[half], [words[i] for i in half])
                index.insert_objects(half, places[half], [words[i] for i in half])
            for delta in (1.0, 2.0) if not isinstance(index, Materialised) else (1.0,):
                index.reverse(index.queries(ids[:5] + count, places[:5], words[:5], 2, delta))
            index.kth_distances(ids[:5], 2)
            index.expire_objects(ids[::2])
            index.delete_subscriptions(ids[::2])
            index.check()
