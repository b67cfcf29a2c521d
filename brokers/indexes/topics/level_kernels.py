"""Rows of levels, compiled: the checks of what comes in, the definition of a match, and answers in order.

The two syntaxes are one flag here, `mqtt`: `rest` stands for none as well, and the `$` rule holds.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.indexes.intrinsics import trailing_zeros
from brokers.indexes.topics.syntax import DOLLAR, HASH, PADDING, PLUS, WORD_MAX

NO_LEVEL, NO_WORD, HASH_NOT_LAST, GAP, WILDCARD = range(1, 6)  # what is wrong with a row

_WORD = np.uint64(64)
_ONE = np.uint64(1)


@njit(cache=True)
def levels_of(rows, wildcards):
    """Rows as int32 with `PADDING`, from floats with NaN or from integers; then row, column and what is wrong, or 0."""
    count, width = rows.shape
    levels = np.empty((count, width), np.int32)
    for i in range(count):
        ended = hashed = False
        for j in range(width):
            asked = rows[i, j]
            if asked != asked or asked == PADDING:
                if j == 0:
                    return levels, i, j, NO_LEVEL
                ended = True
                levels[i, j] = PADDING
                continue
            if ended:
                return levels, i, j, GAP
            if hashed:
                return levels, i, j - 1, HASH_NOT_LAST
            if not HASH <= asked <= WORD_MAX or asked != np.floor(asked):
                return levels, i, j, NO_WORD
            if asked < 0 and not wildcards:
                return levels, i, j, WILDCARD
            levels[i, j] = np.int32(asked)
            hashed = asked == HASH
        if width == 0:
            return levels, i, 0, NO_LEVEL
    return levels, 0, 0, 0


@njit(inline="always")
def depth_of(row):
    """How many levels a row has before its padding."""
    depth = row.size
    while depth and row[depth - 1] == PADDING:
        depth -= 1
    return depth


@njit(inline="always")
def has_name(words, start, size, name, depth, mqtt):
    """The definition of a match: the filter words[start:][:size] and the first `depth` levels of a name."""
    if mqtt and words[start] < 0 and name[0] & DOLLAR:
        return False
    for j in range(size):
        word = words[start + j]
        if word == HASH:
            return mqtt or j < depth
        # One branch, since which of the two it is can hardly be foretold.
        if j >= depth or ((word != PLUS) & (word != name[j])):
            return False
    return size == depth


@njit(inline="always")
def row_has_name(filter, name, mqtt):
    """The same for two rows with padding, for handlers of others."""
    return has_name(filter, 0, depth_of(filter), name, depth_of(name), mqtt)


@njit(inline="always")
def row_covers(outer, inner, mqtt):
    """`syntax.covers` for two rows with padding, for handlers of others."""
    outer_depth, inner_depth = depth_of(outer), depth_of(inner)
    if mqtt and outer[0] < 0 and inner[0] >= DOLLAR:
        return False
    for j in range(outer_depth):
        word = outer[j]
        if word == HASH:
            return mqtt or j < inner_depth
        if j >= inner_depth or inner[j] == HASH or (word != PLUS and word != inner[j]):
            return False
    return outer_depth == inner_depth


@njit(cache=True)
def late_pairs(names, since, log, filters, first, out_name, out_id, mqtt):
    """Pairs of a name i and an id of log[since[i]:] whose filter has it; as many as fit, and how many there are."""
    found = 0
    for i in range(since.size):
        depth = depth_of(names[i])
        for at in range(max(since[i], first), log.size):
            row = filters[at - first]
            if has_name(row, 0, depth_of(row), names[i], depth, mqtt):
                if found < out_name.size:
                    out_name[found] = i
                    out_id[found] = log[at]
                found += 1
    return found


@njit(cache=True)
def put_in_order(ptr, ids):
    """Each answer ids[ptr[i]:ptr[i + 1]] ascending. O(n) where ids lie close together, else O(n log runs)."""
    spare = np.empty(0, np.int64)
    for i in range(ptr.size - 1):
        start, end = ptr[i], ptr[i + 1]
        for at in range(start + 1, end):
            if ids[at] < ids[at - 1]:
                if spare.size < end - start:
                    spare = np.empty(end - start, np.int64)
                order(ids, start, end, spare)
                break


@njit(cache=True)
def order(ids, start, end, spare):
    """Sort ids[start:end], which are distinct; `spare` has room for as many."""
    size = end - start
    if size <= 24:
        _insert_sort(ids, start, end)
        return
    low = high = ids[start]
    for at in range(start, end):
        low, high = min(low, ids[at]), max(high, ids[at])
    words = (high - low) // 64 + 1
    if words <= 4 * size and words > 0:
        _sweep(ids, start, end, low, words)
    else:
        _merge_runs(ids, start, end, spare)


@njit(inline="always")
def _insert_sort(ids, start, end):
    for at in range(start + 1, end):
        one = ids[at]
        to = at
        while to > start and ids[to - 1] > one:
            ids[to] = ids[to - 1]
            to -= 1
        ids[to] = one


@njit(cache=True)
def _sweep(ids, start, end, low, words):
    """By a bit for each number that could be there."""
    bits = np.zeros(words, np.uint64)
    for at in range(start, end):
        place = np.uint64(ids[at] - low)
        bits[place // _WORD] |= _ONE << (place % _WORD)
    at = start
    for i in range(words):
        left = bits[i]
        while left:
            ids[at] = low + 64 * i + np.int64(trailing_zeros(left))  # type: ignore[call-arg]
            left &= left - _ONE
            at += 1


@njit(cache=True)
def _merge_runs(ids, start, end, spare):
    """Ascending runs merged two by two, there and back, until one is left."""
    while True:
        at, to, runs = start, 0, 0
        while at < end:
            middle = _end_of_run(ids, at, end)
            last = _end_of_run(ids, middle, end)
            runs += 1
            left, right = at, middle
            while left < middle or right < last:
                if right == last or (left < middle and ids[left] < ids[right]):
                    spare[to] = ids[left]
                    left += 1
                else:
                    spare[to] = ids[right]
                    right += 1
                to += 1
            at = last
        ids[start:end] = spare[: end - start]
        if runs == 1:
            return


@njit(inline="always")
def _end_of_run(ids, at, end):
    if at == end:
        return end
    at += 1
    while at < end and ids[at - 1] <= ids[at]:
        at += 1
    return at
