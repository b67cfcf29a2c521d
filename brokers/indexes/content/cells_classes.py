"""How a plan of CellBitset chooses its classes: the trie over the paths of a sample, and what each class compares.

A plan that is made while subscriptions come and go is made in steps, so that no change waits for all of it: what is
here yields after some nodes of the trie, and after some classes.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator

import numpy as np
from numpy.typing import NDArray

from brokers.indexes.content.contract import Floats

COLUMNS_MAX = 12
LEAF_ROWS = 56  # subscriptions in a new leaf of 64
NODES_A_STEP, CLASSES_A_STEP = 64, 8

# What a match costs, in nanoseconds: for each leaf per column, and per candidate.
LEAF_COLUMN_NS, CANDIDATE_NS = 4.0, 3.5


def grow_trie(
    path: NDArray[np.int32], refined: NDArray[np.bool_]
) -> Generator[None, None, tuple[list[int], list[int], NDArray[np.int32], list[list[int]]]]:
    """Edges (class << 16 | attribute -> class), the class of each row, the attributes of each class. In steps."""
    keys: list[int] = []
    children: list[int] = []
    prefixes: list[list[int]] = [[]]
    class_of = np.zeros(len(path), np.int32)
    stack = [(0, len(path), 0, 0)]
    for turn in itertools.count(1):
        if not stack:
            break
        if turn % NODES_A_STEP == 0:
            yield
        start, end, depth, node = stack.pop()
        class_of[start:end] = node
        if start == end or depth == path.shape[1] or not refined[start, depth]:
            continue
        here = path[start:end, depth]
        edges = np.flatnonzero(here[1:] != here[:-1]) + 1
        starts = [0, *edges.tolist()]
        for first, last in zip(starts, [*starts[1:], end - start]):
            attribute = int(here[first])
            if attribute >= 0:
                keys.append(node << 16 | attribute)
                children.append(len(prefixes))
                stack.append((start + first, start + last, depth + 1, len(prefixes)))
                prefixes.append([*prefixes[node], attribute])
    return keys, children, class_of, prefixes


def fill_columns(
    columns: NDArray[np.int16],
    prefixes: list[list[int]],
    class_of: NDArray[np.int32],
    attribute: NDArray[np.int16],
    width: Floats,
    attributes: int,
    share: float,
    scale: float,
) -> Iterator[None]:
    """Per class the attributes of its prefix, those that this share of it constrains, and those that pay. In steps."""
    order = np.argsort(class_of, kind="stable")
    bounds = np.searchsorted(class_of[order], np.arange(len(prefixes) + 1))
    for number, prefix in enumerate(prefixes):
        if number % CLASSES_A_STEP == 0:
            yield
        rows = order[bounds[number] : bounds[number + 1]]
        mine = attribute[rows]
        chosen = list(prefix)
        if len(mine):
            real = mine >= 0
            seen = np.bincount(mine[real], minlength=attributes)
            passed = len(mine) - seen + np.bincount(mine[real], width[rows][real], minlength=attributes)
            seen[prefix] = 0
            often = np.flatnonzero(seen >= max(1.0, share * len(mine)))
            chosen += often[np.argsort(-seen[often], kind="stable")].tolist()
            chosen += _paying(chosen, passed / len(mine), scale * len(mine))
        chosen = chosen[:COLUMNS_MAX] or [0]
        columns[number, : len(chosen)] = chosen


def _paying(chosen: list[int], passed: Floats, held: float) -> list[int]:
    """Further columns that save more candidates than it costs to compare them; `passed` is the share of rows that an
    attribute lets pass. A class with few leaves has candidates left in each that an event reaches.
    """
    parts = max(1.0, held / LEAF_ROWS) ** (1.0 / max(1, len(chosen)))
    candidates = float(LEAF_ROWS)
    for width in passed[chosen].tolist():
        candidates *= width / (width + (1.0 - width) / parts)
    extra: list[int] = []
    for a in np.argsort(passed, kind="stable").tolist():
        if a not in chosen and candidates * (1.0 - passed[a]) * CANDIDATE_NS > LEAF_COLUMN_NS:
            extra.append(a)
            candidates *= passed[a]
    return extra
