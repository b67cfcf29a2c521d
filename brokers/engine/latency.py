"""Latencies as a histogram: exact below 64 ns, then 64 buckets per octave, so that a value is known to within 1.6 %."""

from __future__ import annotations

from numba import njit

BUCKETS_PER_OCTAVE = 64
BUCKETS = 64 * 64


@njit(inline="always")
def bucket_of(value):
    if value < 64:
        return value if value > 0 else 0
    shift = 0
    v = value
    while v >= 128:
        v >>= 1
        shift += 1
    return (shift + 1) * 64 + (v - 64)


def bucket_value(bucket: int) -> int:
    """The largest value in a bucket."""
    if bucket < 64:
        return bucket
    shift = bucket // 64 - 1
    return ((bucket % 64 + 64 + 1) << shift) - 1
