"""Kernels of the cells: rows of bits and regions; `cells.py` says how they work. One family, compiled together.

A block is what one attribute has: CELLS + 1 rows of `excluded`, and one row each of `parked`, `reach` and `borders`.
`block[i]` is that of attribute i; one more block is spare, for the attribute whose rows are being made anew.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.indexes.intrinsics import prefetch, trailing_zeros

CELLS = 64
ROWS = CELLS + 1  # of a block; the last one stands for a missing value
_CHUNK = 2048  # words combined at a time
_AHEAD = 32
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_LOWER_HALF = np.uint64(0x00000000FFFFFFFF)


@njit(cache=True)
def _cell(borders, value):
    """The number of borders at or below the value; without a branch, since none could be foreseen."""
    place, step = 0, CELLS >> 1
    while step:
        place += step * int(borders[place + step - 1] <= value)
        step >>= 1
    return place


@njit(cache=True)
def shares(borders, asked):
    """How many finite ends lie in each cell, each side of an interval on its own."""
    out = np.zeros(CELLS, np.int64)
    for k in range(asked.shape[0]):
        if asked[k, 0] <= asked[k, 1]:
            for side in range(2):
                if np.isfinite(asked[k, side]):
                    out[_cell(borders, asked[k, side])] += 1
    return out


@njit(cache=True)
def changed(conjuncts, attribute, start, count, code, binding_of, bindings, cells):
    """Of the conjuncts with an atom on the attribute: the clock when a value they follow there changed last; or 0."""
    stamps, n = np.empty(conjuncts.size, np.int64), 0
    for conjunct in conjuncts:
        stamp, asks = np.int64(0), False
        for atom in range(start[conjunct], start[conjunct] + count[conjunct]):
            if code[atom] == attribute:
                asks = True
                number = np.int64(binding_of[atom])
                if number >= 0:
                    last = np.int64(cells[bindings[number].key].stamp)
                    stamp = max(stamp, last if last >= 0 else ~last)
        if asks:
            stamps[n] = stamp
            n += 1
    return stamps[:n]


@njit(cache=True)
def _beyond(low, high):
    """The cells outside of low..high, as bits."""
    if low > high:
        return _ALL
    return ~((_ALL >> np.uint64(CELLS - 1 - (high - low))) << np.uint64(low))


@njit(cache=True)
def _transpose(bits):
    """Bit b of word w becomes bit w of word b."""
    shift, mask = np.int64(32), _LOWER_HALF
    while shift:
        for w in range(64):
            if w & shift == 0:
                turned = ((bits[w] >> np.uint64(shift)) ^ bits[w + shift]) & mask
                bits[w] ^= turned << np.uint64(shift)
                bits[w + shift] ^= turned
        shift >>= 1
        mask ^= mask << np.uint64(shift)


@njit(cache=True)
def renew(excluded, parked, reach, borders, block, word_begin, word_end, entries, asked, hot):
    """Fill these words of a block: exact regions for the entries, everything for all others; how many are parked."""
    first_row, count, k = block * ROWS, 0, 0
    beyond = np.empty(64, np.uint64)
    for w in range(word_begin, word_end):
        asking, waiting = np.uint64(0), np.uint64(0)
        for b in range(64):
            conjunct = 64 * w + b
            low, high = np.int64(0), np.int64(CELLS - 1)
            if k < entries.size and entries[k] == conjunct:
                asking |= _ONE << np.uint64(b)
                waiting |= np.uint64(hot[k]) << np.uint64(b)
                count += int(hot[k])
                low, high = np.int64(1), np.int64(0)
                if asked[k, 0] <= asked[k, 1]:
                    low, high = _cell(borders[block], asked[k, 0]), _cell(borders[block], asked[k, 1])
                k += 1
            reach[block, conjunct, 0], reach[block, conjunct, 1] = low, high
            beyond[b] = _beyond(low, high)
        _transpose(beyond)
        for cell in range(CELLS):
            excluded[first_row + cell, w] = beyond[cell]
        excluded[first_row + CELLS, w] = asking
        parked[block, w] = waiting
    return count


@njit(cache=True)
def write(excluded, parked, parked_count, reach, borders, block, slots, entries, asked, hot):
    """Regions for conjuncts that came; `entries`, some of them in the same order, ask for a value."""
    first_row, k = block * ROWS, 0
    for slot in slots:
        word, bit = slot >> 6, _ONE << np.uint64(slot & 63)
        low, high, waits = 0, CELLS - 1, False
        asks = k < entries.size and entries[k] == slot
        if asks:
            low, high, waits = 1, 0, hot[k]
            if asked[k, 0] <= asked[k, 1]:
                low, high = _cell(borders[block], asked[k, 0]), _cell(borders[block], asked[k, 1])
            k += 1
        reach[block, slot, 0], reach[block, slot, 1] = low, high
        for cell in range(ROWS):
            out = asks if cell == CELLS else cell < low or cell > high
            if out:
                excluded[first_row + cell, word] |= bit
            else:
                excluded[first_row + cell, word] &= ~bit
        _park(parked, parked_count, block, slot, waits)


@njit(cache=True)
def leave(parked, parked_count, slots):
    """Conjuncts that went are parked nowhere."""
    for block in range(parked.shape[0]):
        for slot in slots:
            _park(parked, parked_count, block, slot, False)


@njit(cache=True)
def _park(parked, parked_count, block, conjunct, on):
    word, bit = conjunct >> 6, _ONE << np.uint64(conjunct & 63)
    was = parked[block, word] & bit != 0
    if was != on:
        parked[block, word] ^= bit
        parked_count[block] += 1 if on else -1


@njit(cache=True)
def _flip(excluded, first_row, conjunct, first, last):
    word, bit = conjunct >> 6, _ONE << np.uint64(conjunct & 63)
    for cell in range(first, last + 1):
        excluded[first_row + cell, word] ^= bit


@njit(cache=True)
def _move(excluded, reach, borders, block, conjunct, low_asked, high_asked):
    """The region becomes the cells of what is asked; how many bits of rows that flipped."""
    low, high = int(reach[block, conjunct, 0]), int(reach[block, conjunct, 1])
    new_low, new_high = 1, 0
    if low_asked <= high_asked:
        new_low, new_high = _cell(borders[block], low_asked), _cell(borders[block], high_asked)
    if new_low == low and new_high == high:
        return 0
    reach[block, conjunct, 0], reach[block, conjunct, 1] = new_low, new_high
    row = block * ROWS
    if low > high or new_low > new_high or new_low > high or new_high < low:
        _flip(excluded, row, conjunct, low, high)
        _flip(excluded, row, conjunct, new_low, new_high)
        return max(0, high - low + 1) + max(0, new_high - new_low + 1)
    _flip(excluded, row, conjunct, min(low, new_low), max(low, new_low) - 1)
    _flip(excluded, row, conjunct, min(high, new_high) + 1, max(high, new_high))
    return abs(new_low - low) + abs(new_high - high)


@njit(cache=True)
def follow(excluded, excluded_flat, parked, parked_count, reach, reach_flat, borders, block, spare, renewing, renewed,
           entries, asked, moves):
    """Regions follow what their conjuncts ask now, in order, or are parked (an inverted index): how many
    moved, how many bits that flipped, how many were parked.

    A parked region stays so; `moves` counts the others by attribute. Of attribute `renewing`, the conjuncts before
    `renewed` are in the spare block too.
    """
    moved, flipped, left = 0, 0, 0
    conjuncts, words = reach.shape[1], excluded.shape[1]
    for begin in range(0, entries.shape[0], _AHEAD):
        end = min(begin + _AHEAD, entries.shape[0])
        for k in range(begin, end):
            index, conjunct = entries[k, 0], entries[k, 1]
            if index >= 0:
                prefetch(reach_flat, 2 * (block[index] * conjuncts + conjunct))  # type: ignore[call-arg]
        for k in range(begin, end):  # the rows around the new ends are the likely ones to be written
            index, word = entries[k, 0], entries[k, 1] >> 6
            if index >= 0:
                for side in range(2):
                    cell = _cell(borders[block[index]], asked[k, side])
                    prefetch(excluded_flat, (block[index] * ROWS + cell) * words + word)  # type: ignore[call-arg]
        for k in range(begin, end):
            index, conjunct = entries[k, 0], entries[k, 1]
            leaves = index < 0
            if leaves:
                index = ~index
            for both in range(1 + int(index == renewing and conjunct < renewed)):
                at = spare if both else block[index]
                if leaves:
                    _park(parked, parked_count, at, conjunct, True)
                    left += 1
                elif parked[at, conjunct >> 6] & (_ONE << np.uint64(conjunct & 63)) == 0:
                    found = _move(excluded, reach, borders, at, conjunct, asked[k, 0], asked[k, 1])
                    flipped += found
                    moved += int(found > 0)
                    moves[index] += int(found > 0)
    return moved, flipped, left


@njit(cache=True)
def _keep_4(left, a, b, c, d):
    for w in range(left.size):
        left[w] &= ~((a[w] | b[w]) | (c[w] | d[w]))


@njit(cache=True)
def _keep_or_parked(left, excluded, parked):
    for w in range(left.size):
        left[w] &= ~excluded[w] | parked[w]


@njit(cache=True)
def combine(message, attributes, borders, block, excluded, parked, parked_count, alive, held, most, out):
    """What is alive, and excluded by no attribute's row; -1 as soon as it is more than `most`.

    An attribute on which nearly all are parked is not asked.
    """
    rows, beside = np.empty(attributes.size, np.int64), np.empty(attributes.size, np.int64)
    plain, mixed = 0, attributes.size  # from the front, and from the back
    for i in range(attributes.size):
        value, at = message[attributes[i]], block[i]
        if value != value or parked_count[at] == 0:
            rows[plain] = at * ROWS + (_cell(borders[at], value) if value == value else CELLS)
            plain += 1
        elif 16 * parked_count[at] <= 15 * held:
            mixed -= 1
            rows[mixed], beside[mixed] = at * ROWS + _cell(borders[at], value), at
    if plain == 0 and mixed == attributes.size and held > most:
        return -1
    count = 0
    left = np.empty(min(_CHUNK, alive.size), np.uint64)
    for begin in range(0, alive.size, _CHUNK):
        end = min(begin + _CHUNK, alive.size)
        here = left[: end - begin]
        here[:] = alive[begin:end]
        for p in range(0, plain, 4):  # a row counted twice changes nothing
            _keep_4(here, excluded[rows[p], begin:end], excluded[rows[min(p + 1, plain - 1)], begin:end],
                    excluded[rows[min(p + 2, plain - 1)], begin:end],
                    excluded[rows[min(p + 3, plain - 1)], begin:end])
        for p in range(mixed, attributes.size):
            _keep_or_parked(here, excluded[rows[p], begin:end], parked[beside[p], begin:end])
        for w in range(here.size):
            word = here[w]
            while word != 0:
                out[count] = 64 * (begin + w) + np.int64(trailing_zeros(word))  # type: ignore[call-arg]
                count += 1
                word &= word - _ONE
            if count > most:
                return -1
    return count
