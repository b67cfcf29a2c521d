"""BLAKE2b of eight bytes in compiled code: the fingerprint of a body that a compiled handler makes.

The same as `hashlib.blake2b(data, digest_size=8, salt=salt)` as a little-endian number, for salts of four bytes
(RFC 7693).
"""

from __future__ import annotations

import numpy as np
from numba import njit

_IV = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    np.uint64,
)  # fmt: skip
_PARAMETERS = np.uint64(0x01010008)  # depth and fanout 1, no key, a digest of eight bytes
_ORDER = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    np.int64,
)
_ROUNDS, _BLOCK = 12, 128
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(cache=True)
def fingerprint(data, first, stop, salt):
    """Of bytes data[first:stop], under a salt below 2^32."""
    state, words = _IV.copy(), np.empty(16, np.uint64)
    state[0] ^= _PARAMETERS
    state[4] ^= np.uint64(salt)
    at = first
    while True:
        end = min(at + _BLOCK, stop)
        for k in range(16):
            words[k] = np.uint64(0)
        for i in range(at, end):
            place = np.uint64(i - at)
            words[place >> np.uint64(3)] |= np.uint64(data[i]) << ((place & np.uint64(7)) << np.uint64(3))
        _compress(state, words, np.uint64(end - first), end == stop)
        if end == stop:
            return state[0]
        at = end


@njit(cache=True)
def _compress(state, words, counted, last):
    v = np.empty(16, np.uint64)
    for k in range(8):
        v[k], v[8 + k] = state[k], _IV[k]
    v[12] ^= counted
    if last:
        v[14] ^= _ALL
    for r in range(_ROUNDS):
        order = _ORDER[r % 10]
        for k in range(4):
            _mix(v, k, 4 + k, 8 + k, 12 + k, words[order[2 * k]], words[order[2 * k + 1]])
        for k in range(4):
            x, y = words[order[8 + 2 * k]], words[order[9 + 2 * k]]
            _mix(v, k, 4 + ((k + 1) & 3), 8 + ((k + 2) & 3), 12 + ((k + 3) & 3), x, y)
    for k in range(8):
        state[k] ^= v[k] ^ v[8 + k]


@njit(inline="always")
def _mix(v, a, b, c, d, x, y):
    v[a] = v[a] + v[b] + x
    v[d] = _turned(v[d] ^ v[a], 32)
    v[c] = v[c] + v[d]
    v[b] = _turned(v[b] ^ v[c], 24)
    v[a] = v[a] + v[b] + y
    v[d] = _turned(v[d] ^ v[a], 16)
    v[c] = v[c] + v[d]
    v[b] = _turned(v[b] ^ v[c], 63)


@njit(inline="always")
def _turned(word, by):
    return (word >> np.uint64(by)) | (word << np.uint64(64 - by))
