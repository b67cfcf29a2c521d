"""Compile the kernels of every content index, or load them from the cache."""

from __future__ import annotations

import numpy as np

from brokers.indexes.content import cells, htree
from brokers.indexes.content.compiled import CHANGES_MIN
from brokers.indexes.content.counting import Counting
from brokers.indexes.content.quick_scan import QuickScan
from brokers.indexes.content.rein import Rein
from brokers.indexes.content.tama import Tama


def warm() -> None:
    """A short life of each that has kernels."""
    cells.warm()
    htree.warm()
    count = CHANGES_MIN + 1  # enough to compile a structure
    rows = np.array([[0.0, 0.1, 0.2, 1.0, 0.3, 0.4]] * count)
    for make in (QuickScan, Counting, Tama, Rein):
        index = make.build(2, np.arange(count), rows)
        index.match(np.array([0.1, 0.3]))
        index.delete(np.arange(1))
