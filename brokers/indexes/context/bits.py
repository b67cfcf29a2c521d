"""Sets of conjuncts as bits of uint64 words, the lowest bit first."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.indexes.intrinsics import trailing_zeros


def members(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The positions of all set bits, ascending. O(bits)."""
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))


@njit(cache=True)
def put(words, positions, on):
    """Set the bits at these positions, or clear them."""
    for position in positions:
        bit = np.uint64(1) << np.uint64(position & 63)
        if on:
            words[position >> 6] |= bit
        else:
            words[position >> 6] &= ~bit


@njit(cache=True)
def write_members(words, out):
    """Write the positions of all set bits, ascending; how many there are. O(words + set bits)."""
    some = np.empty(words.size, np.int32)
    count = 0
    for w in range(words.size):
        some[count] = w
        count += int(words[w] != 0)
    found = 0
    for w in some[:count]:
        word = words[w]
        while True:  # most words have one bit: the first is not asked for
            out[found] = 64 * w + np.int64(trailing_zeros(word))  # type: ignore[call-arg]
            found += 1
            word &= word - np.uint64(1)
            if word == 0:
                break
    return found
