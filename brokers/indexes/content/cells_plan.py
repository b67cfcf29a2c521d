"""How CellBitset lays subscriptions out: the cells of each attribute, and the classes of subscriptions.

Cells. The values of an attribute are cut at the quantiles of the range ends of a sample into cells 1..255,
by a monotone function; 0 is a missing value. No range at all is 0..255, every range
lies in 1..255.

Classes. Subscriptions are compared 64 at a time, and only those that constrain the same attributes can be
told from an event together. The attributes are dealt into groups, so that every subscription has several of
its ranges in one group; its path is the attributes it constrains in its most selective group, popular ones
first. A trie over the paths gives the classes: subscriptions that share the attributes from the root to
their node. Deep nodes rule out more and hold fewer; how deep, and how many groups, is decided by what a
match is expected to cost, counted on the sample. Attributes outside the path that most of a class
constrains are compared along with the others: these together are the columns of the class.

A plan is fixed. It decides where a subscription is looked for, never whether it matches, so it may be as
wrong as it likes about data that has drifted since.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import EndlessWalk
from brokers.indexes.content.cells_classes import (
    CANDIDATE_NS,
    COLUMNS_MAX,
    LEAF_COLUMN_NS,
    LEAF_ROWS,
    fill_columns,
    grow_trie,
)
from brokers.indexes.content.contract import Floats

CELLS = 255
SAMPLE_ROWS = 16_384
GROUPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)  # numbers of groups that are tried
DEPTH_MAX = 8  # attributes of a path that are looked at
TALLIED_MOST = 1024  # rows of a tally
FURTHER_MAX = 8  # ranges outside the columns that are compared by cell, two to a word
COLUMN_SHARE = 0.9  # part of a class that constrains an attribute, for it to become a column
SMALL, COLUMN_SHARE_SMALL = 4096, 0.2  # likewise, where so few are expected that all fits in the cache

# What a match costs, in nanoseconds: for each node and leaf looked at, and more per column; per candidate.
NODE_NS, NODE_COLUMN_NS = 8.0, 4.0
LEAF_NS = 25.0

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@dataclass(frozen=True)
class Layout:
    """Cells and classes, as flat arrays for the kernels."""

    expected: int  # subscriptions it was made for
    border_from: NDArray[np.int32]  # attribute a has borders[border_from[a]:border_from[a + 1]]
    borders: Floats
    rank: NDArray[np.int32]  # place of each attribute by popularity; its group is rank % groups
    groups: int
    trie_key: NDArray[np.int64]  # class << 16 | attribute, hashed with linear probing; -1 where empty
    trie_child: NDArray[np.int32]  # the class that this leads to
    columns: NDArray[np.int16]  # per class, padded with -1
    weight: Floats  # per width in cells: how much a range of this width rules out, in bits
    further_words: int  # words of a slot for ranges outside the columns
    usual: Floats  # `crowding` of the sample
    apart: Floats  # `told_apart` of the sample, in the mean

    @property
    def routes(self) -> tuple[Any, ...]:
        """What finds the class of a subscription."""
        return self.rank, self.groups, self.weight, self.trie_key, self.trie_child

    def memory_bytes(self) -> int:
        arrays = (self.border_from, self.borders, self.rank, self.trie_key, self.trie_child, self.columns)
        return sum(array.nbytes for array in arrays) + self.weight.nbytes + self.usual.nbytes


def make_plan(rows: Floats, attributes: int, expected: int) -> Layout:
    """A plan for `expected` subscriptions like these. O(sample * groups tried)."""
    sample = np.ascontiguousarray(rows[:: -(-len(rows) // SAMPLE_ROWS) or 1])
    *_, plan = planning(sample, *cut(sample, attributes), expected)
    assert plan is not None
    return plan


def planning(
    sample: Floats, border_from: NDArray[np.int32], borders: Floats, expected: int
) -> Iterator[Layout | None]:
    """A plan with these cells, for `expected` subscriptions like the sample. In steps; the last one yields it."""
    attributes = len(border_from) - 1
    attribute, cell = quantised(sample, border_from, borders)
    yield None
    usual = crowding(tally(attribute, cell, attributes))
    weight = np.array([math.log2(256 / (1 + width)) for width in range(256)])
    seen = np.bincount(attribute[attribute >= 0], minlength=attributes)
    rank = np.empty(attributes, np.int32)
    rank[np.argsort(-seen, kind="stable")] = np.arange(attributes)
    scale = expected / max(1, len(sample))
    best, groups, path, refined, order = math.inf, 1, None, None, None
    for tried in GROUPS:
        if tried > 1 and 2 * tried > np.count_nonzero(seen):
            break
        yield None
        paths, widths = _paths(attribute, cell, rank, tried, weight)
        sorting = np.lexsort(paths.T[::-1])
        yield None
        paths, widths = paths[sorting], widths[sorting]
        marks = np.zeros(paths.shape, np.bool_)
        cost = _cost(paths, widths, scale, marks)
        if cost < best:
            best, groups, path, refined, order = cost, tried, paths, marks, sorting
    assert path is not None and refined is not None and order is not None
    yield None
    keys, children, class_of, prefixes = yield from grow_trie(path, refined)
    yield None
    attribute, cell = attribute[order], cell[order]
    share = COLUMN_SHARE_SMALL if expected <= SMALL else COLUMN_SHARE
    width = (1.0 + cell[:, 1::2] - cell[:, 0::2]) / CELLS
    columns = np.full((len(prefixes), COLUMNS_MAX), -1, np.int16)
    for _ in fill_columns(columns, prefixes, class_of, attribute, width, attributes, share, scale):
        yield None
    columns = np.ascontiguousarray(columns[:, : int((columns >= 0).sum(axis=1).max())])
    inside = (attribute[:, :, None] == columns[class_of][:, None, :]) & (attribute >= 0)[:, :, None]
    outside = (attribute >= 0).sum(axis=1) - inside.any(axis=2).sum(axis=1)
    words = min(FURTHER_MAX, int(outside.max(initial=0)) + 1) // 2
    yield None
    trie_key, trie_child = _hashed(keys, children)
    apart = told_apart(attribute, cell, class_of, columns, weight).mean(axis=0) if len(attribute) else np.zeros(2)
    yield Layout(
        expected, border_from, borders, rank, groups, trie_key, trie_child, columns, weight, words, usual, apart
    )


def cut(sample: Floats, attributes: int) -> tuple[NDArray[np.int32], Floats]:
    """Borders (border_from, borders) at the quantiles of each attribute's range ends; the fewer the fewer rows."""
    cells = CELLS if len(sample) >= 1024 else 63 if len(sample) >= 64 else 15
    border_from, borders = _learn(sample, attributes, cells)
    return border_from, borders


def tally(attribute: NDArray[np.int16], cell: NDArray[np.uint8], attributes: int) -> NDArray[np.int32]:
    """How many range ends of quantised rows lie in each cell: int32[attributes, 256]; of very many, some together."""
    seen = np.zeros((min(attributes, TALLIED_MOST), 256), np.int32)
    _count_all(attribute, cell, seen)
    return seen


def crowding(seen: NDArray[np.int32]) -> Floats:
    """Per row of a tally: the chance that two ends share a cell; 0 where there are not two."""
    seen = seen.astype(np.float64)
    ends = seen.sum(axis=1)
    return np.asarray(((seen * seen).sum(axis=1) - ends) / np.maximum(1.0, ends * (ends - 1.0)))


def _hashed(keys: list[int], children: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    places = 8
    while places < 2 * len(keys):
        places *= 2
    trie_key, trie_child = np.full(places, -1, np.int64), np.zeros(places, np.int32)
    for key, child in zip(keys, children):
        place = _place_of(key, places - 1)
        while trie_key[place] >= 0:
            place = (place + 1) & (places - 1)
        trie_key[place], trie_child[place] = key, child
    return trie_key, trie_child


# ---- kernels ------------------------------------------------------------------------------------------


@njit(cache=True)
def _learn(rows, attributes, cells):
    """Borders at the quantiles of each attribute's finite range ends; none for an attribute without."""
    ends_from = np.zeros(attributes + 1, np.int64)
    for pass_ in range(2):
        if pass_ == 1:
            for a in range(attributes):
                ends_from[a + 1] += ends_from[a]
            ends = np.empty(ends_from[attributes])
            cursor = ends_from[:-1].copy()
        for i in range(rows.shape[0]):
            for j in range(0, rows.shape[1], 3):
                if rows[i, j] == rows[i, j]:
                    a = int(rows[i, j])
                    for end in (rows[i, j + 1], rows[i, j + 2]):
                        if np.isfinite(end):
                            if pass_ == 0:
                                ends_from[a + 1] += 1
                            else:
                                ends[cursor[a]] = end
                                cursor[a] += 1
    border_from = np.zeros(attributes + 1, np.int32)
    for a in range(attributes):
        border_from[a + 1] = border_from[a] + (cells - 1 if ends_from[a + 1] > ends_from[a] else 0)
    borders = np.empty(border_from[attributes])
    for a in range(attributes):
        if border_from[a + 1] == border_from[a]:
            continue
        mine = np.sort(ends[ends_from[a] : ends_from[a + 1]])
        mine_borders = borders[border_from[a] : border_from[a + 1]]
        for c in range(1, cells):
            place = c * (mine.size - 1) / cells
            lower = int(place)
            part = place - lower
            border = mine[lower]
            if part > 0.0:  # weighted so that ends far apart do not overflow
                border = border * (1.0 - part) + mine[lower + 1] * part
            mine_borders[c - 1] = border if c == 1 else max(border, mine_borders[c - 2])
    return border_from, borders


@njit(cache=True)
def cell_of(border_from, borders, attribute, value):
    """1 + the number of the attribute's borders at or below the value; 0 if the value is missing."""
    if value != value:
        return np.uint8(0)
    start = border_from[attribute]
    count = border_from[attribute + 1] - start
    if count == 0:
        return np.uint8(1)
    at = start
    while count > 1:  # without a branch on the outcome, which nothing could predict
        half = count >> 1
        at += half if borders[at + half - 1] <= value else 0
        count -= half
    return np.uint8(1 + at - start + (borders[at] <= value))


@njit(cache=True)
def quantised(rows, border_from, borders):
    """Attributes int16[n, k], -1 after the last, and lowest and highest cell uint8[n, 2 k]."""
    width = max(1, rows.shape[1] // 3)
    attribute = np.full((rows.shape[0], width), -1, np.int16)
    cell = np.zeros((rows.shape[0], 2 * width), np.uint8)
    for i in range(rows.shape[0]):
        k = 0
        for j in range(rows.shape[1] // 3):
            if rows[i, 3 * j] == rows[i, 3 * j]:
                a = int(rows[i, 3 * j])
                attribute[i, k] = a
                cell[i, 2 * k] = cell_of(border_from, borders, a, rows[i, 3 * j + 1])
                cell[i, 2 * k + 1] = cell_of(border_from, borders, a, rows[i, 3 * j + 2])
                k += 1
    return attribute, cell


@njit(cache=True)
def count(attribute, cell, seen):
    """Enter one quantised row in a tally."""
    for j in range(attribute.size):
        if attribute[j] < 0:
            break
        seen[attribute[j] % seen.shape[0], cell[2 * j]] += 1
        seen[attribute[j] % seen.shape[0], cell[2 * j + 1]] += 1


@njit(cache=True)
def told_apart(attribute, cell, kinds, columns, weight):
    """Per row what its class makes of its ranges: the part of all events that pass the columns, and the bits that
    ranges outside of these would rule out."""
    out = np.empty((attribute.shape[0], 2))
    for i in range(attribute.shape[0]):
        passing, left = 1.0, 0.0
        for j in range(attribute.shape[1]):
            if attribute[i, j] < 0:
                break
            width = np.int64(cell[i, 2 * j + 1]) - cell[i, 2 * j]
            inside = False
            for c in range(columns.shape[1]):
                inside |= columns[kinds[i], c] == attribute[i, j]
            if inside:
                passing *= (width + 1.0) / CELLS
            else:
                left += weight[width]
        out[i, 0], out[i, 1] = passing, left
    return out


@njit(cache=True)
def _count_all(attribute, cell, seen):
    for i in range(attribute.shape[0]):
        count(attribute[i], cell[i], seen)


@njit(cache=True)
def path_of(attribute, cell, rank, groups, weight, scores, path):
    """Fill path with the ranges (by number) in the most selective group, by rank; returns how many."""
    scores[:] = 0.0
    best = 0
    for j in range(attribute.size):
        if attribute[j] < 0:
            break
        group = rank[attribute[j]] % groups
        scores[group] += weight[cell[2 * j + 1] - cell[2 * j]]
    for group in range(1, groups):
        if scores[group] > scores[best]:
            best = group
    length = 0
    for j in range(attribute.size):
        if attribute[j] < 0:
            break
        mine = rank[attribute[j]]
        if mine % groups == best:
            at = length
            while at > 0 and rank[attribute[path[at - 1]]] > mine:
                path[at] = path[at - 1]
                at -= 1
            path[at] = j
            length += 1
    return length


@njit(cache=True)
def _paths(attribute, cell, rank, groups, weight):
    """The attributes on each row's path, padded with -1, and how wide its ranges there are, of 1."""
    depth = min(DEPTH_MAX, attribute.shape[1])
    paths = np.full((attribute.shape[0], depth), -1, np.int32)
    widths = np.ones((attribute.shape[0], depth))
    scores, path = np.empty(groups), np.empty(attribute.shape[1], np.int32)
    for i in range(attribute.shape[0]):
        length = path_of(attribute[i], cell[i], rank, groups, weight, scores, path)
        for d in range(min(depth, length)):
            j = path[d]
            paths[i, d] = attribute[i, j]
            widths[i, d] = (cell[i, 2 * j + 1] - cell[i, 2 * j] + 1) / CELLS
    return paths, widths


@njit(cache=True)
def _stop_cost(widths, start, end, depth, scale):
    """What the rows of one class cost an event, if each of its columns is split alike."""
    held = (end - start) * scale
    leaves = held / LEAF_ROWS
    looked, hit = max(1.0, leaves), held
    if depth > 0:
        parts = max(1.0, leaves) ** (1.0 / depth)
        for d in range(depth):
            width = 0.0
            for row in range(start, end):
                width += widths[row, d]
            width /= end - start
            looked *= width + (1.0 - width) / parts
            hit *= width
    nodes = np.ceil(leaves / 64)
    return (nodes * (NODE_NS + NODE_COLUMN_NS * depth) + looked * (LEAF_NS + LEAF_COLUMN_NS * depth)
            + hit * CANDIDATE_NS)


@njit(cache=True)
def _cost(paths, widths, scale, refined):
    """The least that sorted rows can cost; marks, by first row and depth, the nodes that are worth refining.

    From the deepest nodes up: `least[i]` is the cost of the node, a level deeper, whose rows start at `i`.
    """
    rows, depths = paths.shape
    shared = np.zeros(rows, np.int64)  # attributes that a row's path has in common with the row before
    for i in range(1, rows):
        while shared[i] < depths and paths[i, shared[i]] == paths[i - 1, shared[i]]:
            shared[i] += 1
    least = np.zeros(rows)
    for depth in range(depths, -1, -1):
        start = 0
        while start < rows:
            end = start + 1
            while end < rows and shared[end] >= depth:
                end += 1
            if depth == 0 or paths[start, depth - 1] >= 0:
                stop = _stop_cost(widths, start, end, depth, scale)
                split = np.inf
                if depth < depths and (end - start) * scale > 2 * LEAF_ROWS:
                    split = _split_cost(paths, widths, shared, least, start, end, depth, scale)
                    refined[start, depth] = split < stop
                least[start] = min(split, stop)
            start = end
    return least[0] if rows else 0.0


@njit(cache=True)
def _split_cost(paths, widths, shared, least, start, end, depth, scale):
    """What the children of a node cost, and the rows whose path ends at it."""
    total = 0.0
    first = start
    while first < end:
        last = first + 1
        while last < end and shared[last] > depth:
            last += 1
        if paths[first, depth] < 0:
            total += _stop_cost(widths, first, last, depth, scale)
        else:
            total += least[first]
        first = last
    return total


@njit(cache=True)
def _place_of(key, mask):
    return np.int64((np.uint64(key) * _GOLDEN) >> _HALF) & mask


@njit(cache=True)
def class_of(attribute, path, length, trie_key, trie_child):
    """The class of a row with this path: as deep as the trie goes."""
    mask = trie_key.size - 1
    node = np.int64(0)
    for d in range(length):
        key = node << 16 | np.int64(attribute[path[d]])
        place = _place_of(key, mask)
        for _ in range(trie_key.size):
            if trie_key[place] < 0 or trie_key[place] == key:
                break
            place = (place + 1) & mask
        else:
            raise EndlessWalk("a trie's table is full")
        if trie_key[place] < 0:
            break
        node = np.int64(trie_child[place])
    return node


@njit(cache=True)
def classify(attribute, cell, rank, groups, weight, trie_key, trie_child):
    """The class of each row. O(n k)."""
    out = np.empty(attribute.shape[0], np.int32)
    scores, path = np.empty(groups), np.empty(attribute.shape[1], np.int32)
    for i in range(out.size):
        length = path_of(attribute[i], cell[i], rank, groups, weight, scores, path)
        out[i] = class_of(attribute[i], path, length, trie_key, trie_child)
    return out
