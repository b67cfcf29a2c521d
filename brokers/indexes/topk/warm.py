"""Compile the kernels of every top-k index, or load them from the cache."""

from __future__ import annotations

import numpy as np

from brokers.indexes.topk.contract import Query, message
from brokers.indexes.topk.fagin import Fagin
from brokers.indexes.topk.quick import Quick
from brokers.indexes.topk.sliced import Sliced
from brokers.indexes.topk.trees import Trees


def warm() -> None:
    """A short life of each: filters come, change, match and go."""
    rows = np.array([[0.0, 0.1, 0.2, 1.0, 1.0, 0.3, 0.4, 2.0]] * 300)
    asked = message([0.1, 0.3]), message([[0.1, 0.2], [0.3, 0.4]], [1.0, 2.0])
    for make in (Sliced, Trees, Quick, Fagin):
        index = make(2)
        index.insert(np.arange(300), rows)
        index.set_weights(np.arange(2), np.array([0, 1]), np.array([3.0, 4.0]))
        for one in asked:
            index.match(one, Query(3))
            index.match(one, Query(None, prorate=True))
        index.delete(np.arange(300))
