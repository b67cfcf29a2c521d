"""Kernels that build and change keyword trees. One family; see `brokers.indexes.spatial.trees`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import EndlessWalk

LEVEL, COUNT, PARENT, PLACE, TOUCHED = 0, 1, 2, 3, 4  # columns of meta
FREE = -2  # the level of a node that is not in use
NONE = -1
HEIGHT_MAX = 40  # a tree higher than this would hold more items than there are slots


class Forest(NamedTuple):
    """The trees as arrays."""

    box: NDArray[np.float64]  # [node, 2 axes, fan-out]
    child: NDArray[np.int32]  # [node, fan-out]
    below: NDArray[np.int32]  # [node, fan-out]
    mbr: NDArray[np.float64]  # [node, 2 axes]
    meta: NDArray[np.int32]  # [node, LEVEL .. TOUCHED]
    root: NDArray[np.int32]  # per word, NONE without a tree
    size: NDArray[np.int32]  # per word: items
    leaves: NDArray[np.int32]  # per word: leaf nodes
    free: NDArray[np.int32]  # stack of free nodes
    spare: NDArray[np.int64]  # [how many of them]


@njit(cache=True)
def _take(forest, level):
    forest.spare[0] -= 1
    node = forest.free[forest.spare[0]]
    forest.meta[node, LEVEL] = level
    forest.meta[node, COUNT] = 0
    forest.meta[node, PARENT] = NONE
    forest.meta[node, PLACE] = NONE
    forest.meta[node, TOUCHED] = 1
    return node


@njit(cache=True)
def _give(forest, node):
    forest.meta[node, LEVEL] = FREE
    forest.free[forest.spare[0]] = node
    forest.spare[0] += 1


@njit(cache=True)
def _column(words, slot, word):
    for column in range(words.shape[1]):
        if words[slot, column] == word:
            return column
    raise EndlessWalk("an item is in the tree of a word that it does not have")


@njit(cache=True)
def _put(forest, words, leaf_of, word, node, place, box, child, below):
    """Write a child into a place of a node, and tell the child."""
    for end in range(box.size):
        forest.box[node, end, place] = box[end]
    forest.child[node, place] = child
    forest.below[node, place] = below
    if forest.meta[node, LEVEL] == 0:
        leaf_of[child, _column(words, child, word)] = node
        forest.meta[node, TOUCHED] = 1
    else:
        forest.meta[child, PARENT] = node
        forest.meta[child, PLACE] = place


@njit(cache=True)
def _tighten(forest, node):
    """The node's box from its children's."""
    axes = forest.mbr.shape[1] // 2
    for end in range(2 * axes):
        best = forest.box[node, end, 0]
        for j in range(1, forest.meta[node, COUNT]):
            value = forest.box[node, end, j]
            best = min(best, value) if end < axes else max(best, value)
        forest.mbr[node, end] = best


@njit(cache=True)
def _items_below(forest, node):
    total = 0
    for j in range(forest.meta[node, COUNT]):
        total += forest.below[node, j]
    return total


@njit(cache=True)
def slots_below(forest, root, size):
    """All items of a tree."""
    out = np.empty(size, np.int64)
    if root == NONE:
        return out
    stack = np.empty(forest.meta[root, LEVEL] * forest.child.shape[1] + 1, np.int32)
    stack[0] = root
    depth, total = 1, 0
    for _ in range(forest.meta.shape[0] + 1):
        if depth == 0:
            break
        depth -= 1
        n = stack[depth]
        for j in range(forest.meta[n, COUNT]):
            if forest.meta[n, LEVEL] == 0:
                out[total] = forest.child[n, j]
                total += 1
            else:
                stack[depth] = forest.child[n, j]
                depth += 1
    else:
        raise EndlessWalk("a tree has a ring")
    return out


@njit(cache=True)
def _free_tree(forest, root):
    stack = np.empty(max(1, forest.meta[root, LEVEL] * forest.child.shape[1] + 1), np.int32)
    stack[0] = root
    depth = 1
    for _ in range(forest.meta.shape[0] + 1):
        if depth == 0:
            break
        depth -= 1
        n = stack[depth]
        if forest.meta[n, LEVEL] > 0:
            for j in range(forest.meta[n, COUNT]):
                stack[depth] = forest.child[n, j]
                depth += 1
        _give(forest, n)
    else:
        raise EndlessWalk("a tree has a ring")


@njit(cache=True)
def _tiled(centres, fan_out):
    """Sort-tile-recurse: an order of the rows, and where each run of at most `fan_out` begins."""
    count, axes = centres.shape
    order = np.arange(count)
    borders = np.array([0, count])
    for axis in range(axes):
        left = axes - axis
        next_borders = np.empty(count + 1, np.int64)
        cuts = 0
        for segment in range(borders.size - 1):
            begin, end = borders[segment], borders[segment + 1]
            mine = order[begin:end].copy()
            order[begin:end] = mine[np.argsort(centres[mine, axis], kind="mergesort")]
            pages = (end - begin + fan_out - 1) // fan_out
            slabs = 1
            while slabs**left < pages:
                slabs += 1
            run = fan_out * ((pages + slabs - 1) // slabs) if left > 1 else fan_out
            for at in range(begin, end, run):
                next_borders[cuts] = at
                cuts += 1
        next_borders[cuts] = count
        borders = next_borders[: cuts + 1].copy()
    return order, borders


@njit(cache=True)
def pack(forest, points, words, leaf_of, word, slots):
    """Replace a word's tree by a packed one. The caller has reserved enough nodes."""
    axes, fan_out = points.shape[1], forest.child.shape[1]
    if forest.root[word] != NONE:
        _free_tree(forest, forest.root[word])
    forest.root[word] = NONE
    forest.size[word] = slots.size
    forest.leaves[word] = 0
    if slots.size == 0:
        return
    children = slots
    boxes = np.empty((slots.size, 2 * axes))
    for i in range(slots.size):
        for axis in range(axes):
            boxes[i, axis] = points[slots[i], axis]
            boxes[i, axes + axis] = points[slots[i], axis]
    level = 0
    while level == 0 or children.size > 1:
        centres = np.empty((children.size, axes))
        for i in range(children.size):
            for axis in range(axes):
                centres[i, axis] = 0.5 * (boxes[i, axis] + boxes[i, axes + axis])
        order, borders = _tiled(centres, fan_out)
        nodes = np.empty(borders.size - 1, np.int64)
        node_boxes = np.empty((nodes.size, 2 * axes))
        for r in range(nodes.size):
            node = _take(forest, level)
            for t in range(borders[r], borders[r + 1]):
                child = children[order[t]]
                below = 1 if level == 0 else _items_below(forest, child)
                _put(forest, words, leaf_of, word, node, t - borders[r], boxes[order[t]], child, below)
            forest.meta[node, COUNT] = borders[r + 1] - borders[r]
            _tighten(forest, node)
            nodes[r] = node
            node_boxes[r] = forest.mbr[node]
        if level == 0:
            forest.leaves[word] = nodes.size
        children, boxes = nodes, node_boxes
        level += 1
    forest.root[word] = children[0]


@njit(cache=True)
def _least_growth(forest, node, point):
    """The child whose box's edges grow least by a point; then the one with the shortest edges."""
    axes = point.size
    best, best_growth, best_edges = 0, np.inf, np.inf
    for j in range(forest.meta[node, COUNT]):
        growth, edges = 0.0, 0.0
        for axis in range(axes):
            low, high = forest.box[node, axis, j], forest.box[node, axes + axis, j]
            edges += high - low
            growth += max(0.0, max(low - point[axis], point[axis] - high))
        if growth < best_growth or (growth == best_growth and edges < best_edges):
            best, best_growth, best_edges = j, growth, edges
    return best


@njit(cache=True)
def _best_split(boxes):
    """(order of the rows, how many go first): shortest edges choose the axis, least overlap the place."""
    count, axes = boxes.shape[0], boxes.shape[1] // 2
    least = max(1, (2 * count) // 5)
    best_order = np.arange(count)
    best_place, best_edges = least, np.inf
    for axis in range(axes):
        order = np.argsort(boxes[:, axis] + boxes[:, axes + axis], kind="mergesort")
        edges_sum, place, place_overlap, place_edges = 0.0, least, np.inf, np.inf
        for cut in range(least, count - least + 1):
            edges, overlap = 0.0, 1.0
            for other in range(axes):
                first_low, first_high, last_low, last_high = np.inf, -np.inf, np.inf, -np.inf
                for t in range(count):
                    low, high = boxes[order[t], other], boxes[order[t], axes + other]
                    if t < cut:
                        first_low, first_high = min(first_low, low), max(first_high, high)
                    else:
                        last_low, last_high = min(last_low, low), max(last_high, high)
                edges += (first_high - first_low) + (last_high - last_low)
                overlap *= max(0.0, min(first_high, last_high) - max(first_low, last_low))
            edges_sum += edges
            if overlap < place_overlap or (overlap == place_overlap and edges < place_edges):
                place, place_overlap, place_edges = cut, overlap, edges
        if edges_sum < best_edges:
            best_order, best_place, best_edges = order, place, edges_sum
    return best_order, best_place


@njit(cache=True)
def _add_child(forest, words, leaf_of, word, node, box, child, below):
    """Put a child into a node, splitting full ones upwards. Boxes and counts above are adjusted by the caller
    of the first step; splits write those of the nodes they make."""
    fan_out, ends = forest.child.shape[1], forest.mbr.shape[1]
    for _ in range(HEIGHT_MAX + 1):
        if forest.meta[node, COUNT] < fan_out:
            break
        boxes = np.empty((fan_out + 1, ends))
        children = np.empty(fan_out + 1, np.int64)
        belows = np.empty(fan_out + 1, np.int64)
        for j in range(fan_out):
            boxes[j] = forest.box[node, :, j]
            children[j] = forest.child[node, j]
            belows[j] = forest.below[node, j]
        boxes[fan_out], children[fan_out], belows[fan_out] = box, child, below
        order, first = _best_split(boxes)
        level = forest.meta[node, LEVEL]
        twin = _take(forest, level)
        if level == 0:
            forest.leaves[word] += 1
        for t in range(fan_out + 1):
            i = order[t]
            target, place = (node, t) if t < first else (twin, t - first)
            _put(forest, words, leaf_of, word, target, place, boxes[i], children[i], belows[i])
        forest.meta[node, COUNT] = first
        forest.meta[twin, COUNT] = fan_out + 1 - first
        _tighten(forest, node)
        _tighten(forest, twin)
        parent = forest.meta[node, PARENT]
        if parent == NONE:
            parent = _take(forest, level + 1)
            forest.root[word] = parent
            _put(forest, words, leaf_of, word, parent, 0, forest.mbr[node], node, _items_below(forest, node))
            forest.meta[parent, COUNT] = 1
        else:
            place, left = forest.meta[node, PLACE], _items_below(forest, node)
            _put(forest, words, leaf_of, word, parent, place, forest.mbr[node], node, left)
        box, child, below = forest.mbr[twin].copy(), np.int64(twin), _items_below(forest, twin)
        node = parent
    else:
        raise EndlessWalk("a tree is higher than it can be")
    count = forest.meta[node, COUNT]
    _put(forest, words, leaf_of, word, node, count, box, child, below)
    forest.meta[node, COUNT] = count + 1
    _tighten(forest, node)


@njit(cache=True)
def insert(forest, points, words, leaf_of, slots, slot_words):
    """Enter (slot, word) pairs one by one; returns how many, fewer when free nodes run short."""
    axes = points.shape[1]
    box = np.empty(2 * axes)
    for i in range(slots.size):
        if forest.spare[0] < HEIGHT_MAX:
            return i
        slot, word = slots[i], slot_words[i]
        point = points[slot]
        box[:axes] = point
        box[axes:] = point
        node = forest.root[word]
        if node == NONE:
            node = _take(forest, 0)
            forest.root[word] = node
            forest.leaves[word] = 1
        for _ in range(HEIGHT_MAX + 1):
            if forest.meta[node, LEVEL] == 0:
                break
            j = _least_growth(forest, node, point)
            forest.below[node, j] += 1
            for axis in range(axes):
                forest.box[node, axis, j] = min(forest.box[node, axis, j], point[axis])
                forest.box[node, axes + axis, j] = max(forest.box[node, axes + axis, j], point[axis])
                forest.mbr[node, axis] = min(forest.mbr[node, axis], point[axis])
                forest.mbr[node, axes + axis] = max(forest.mbr[node, axes + axis], point[axis])
            node = forest.child[node, j]
        else:
            raise EndlessWalk("a tree is higher than it can be")
        _add_child(forest, words, leaf_of, word, node, box, slot, 1)
        forest.size[word] += 1
    return slots.size


@njit(cache=True)
def _remove_child(forest, words, leaf_of, word, node, place):
    """Take a child out; the last one moves to its place."""
    last = forest.meta[node, COUNT] - 1
    if place != last:
        touched = forest.meta[node, TOUCHED]
        box, child = forest.box[node, :, last].copy(), forest.child[node, last]
        _put(forest, words, leaf_of, word, node, place, box, child, forest.below[node, last])
        forest.meta[node, TOUCHED] = touched
    forest.meta[node, COUNT] = last


@njit(cache=True)
def delete(forest, words, leaf_of, slots, slot_words):
    """Remove (slot, word) pairs that the trees hold."""
    for i in range(slots.size):
        slot, word = slots[i], slot_words[i]
        column = _column(words, slot, word)
        node = leaf_of[slot, column]
        leaf_of[slot, column] = NONE
        for place in range(forest.meta[node, COUNT]):
            if forest.child[node, place] == slot:
                break
        else:
            raise EndlessWalk("an item is not in its leaf")
        _remove_child(forest, words, leaf_of, word, node, place)
        forest.size[word] -= 1
        for _ in range(HEIGHT_MAX + 1):
            parent, place = forest.meta[node, PARENT], forest.meta[node, PLACE]
            emptied = forest.meta[node, COUNT] == 0
            if emptied:
                if forest.meta[node, LEVEL] == 0:
                    forest.leaves[word] -= 1
                _give(forest, node)
            else:
                _tighten(forest, node)
            if parent == NONE:
                if emptied:
                    forest.root[word] = NONE
                break
            if emptied:
                _remove_child(forest, words, leaf_of, word, parent, place)
            else:
                forest.below[parent, place] -= 1
                for end in range(forest.mbr.shape[1]):
                    forest.box[parent, end, place] = forest.mbr[node, end]
            node = parent
        else:
            raise EndlessWalk("a tree is higher than it can be")
        root = forest.root[word]
        while root != NONE and forest.meta[root, LEVEL] > 0 and forest.meta[root, COUNT] == 1:
            only = forest.child[root, 0]
            _give(forest, root)
            forest.meta[only, PARENT] = NONE
            forest.meta[only, PLACE] = NONE
            forest.root[word] = only
            root = only
