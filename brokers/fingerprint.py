"""Hashes of numbers in compiled code: of bodies, of what is handled, and draws.

Kernels elsewhere inline these, and Numba does not notice an edit here: `brokers.engine.world` does.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
ODD = np.uint64(0xC2B2AE3D27D4EB4F)
OTHER = np.uint64(0x165667B19E3779F9)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = (np.uint64(n) for n in (27, 30, 31, 32))


@njit(inline="always")
def scramble(x):
    x = uint64(x)
    x = (x ^ (x >> _S30)) * _MIX_1
    x = (x ^ (x >> _S27)) * _MIX_2
    return x ^ (x >> _S31)


@njit(inline="always")
def draw(key, counter):
    """The same draw as topology.draws.bits (a test holds the two together)."""
    return scramble(uint64(key) + uint64(counter) * GOLDEN)


@njit(inline="always")
def absorb(h, x):
    h = (h ^ uint64(x)) * ODD
    return h ^ (h >> _S32)


@njit(cache=True)
def hash_rows(rows, service, type_, out):
    """A fingerprint of each numeric body. NaN is nothing, so padding does not show."""
    bits = rows.view(np.uint64)
    for i in range(rows.shape[0]):
        h = absorb(absorb(OTHER, service), type_)
        for j in range(rows.shape[1]):
            if rows[i, j] == rows[i, j]:
                h = absorb(absorb(h, bits[i, j]), j)
        out[i] = scramble(h)
