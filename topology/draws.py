"""Named randomness, and the few transcendental functions that may touch a time or an order.

A draw is a pure function of (seed, entity, purpose, counter): there is no generator object to pickle, to
share or to advance, so a draw made alone and one made in a batch agree, and no process or shard can
change it. NumPy's log, exp and power are kept out: their last bits differ between CPUs with other
vector units, and a last bit becomes another time. The versions here use only +, -, *, / and sqrt, which
IEEE 754 fixes to the bit, and agree with libm to a few units in the last place.

Usage:
    key = stream(seed, entity, "publish")       # once per entity and purpose
    u = uniforms(key, start, count)             # draws start .. start+count-1, in [0, 1)

Inside Numba kernels use the scalars: `bits`, `uniform`, `log`, `exp`, `power`, `normal`.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numba import njit, uint64

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)
_MASK = 0xFFFFFFFFFFFFFFFF


@njit(inline="always", cache=True)
def mix(x):
    """Scramble 64 bits: every input bit flips each output bit with probability one half."""
    x = uint64(x)
    x = (x ^ (x >> _S30)) * _MIX_1
    x = (x ^ (x >> _S27)) * _MIX_2
    return x ^ (x >> _S31)


@njit(cache=True)
def stream_of(seed_key, entity):
    """The stream key of one entity, given `purpose_key(seed, purpose)`. O(1)."""
    return mix(mix(uint64(entity) + _GOLDEN) ^ uint64(seed_key))


def purpose_key(seed: int, purpose: str) -> np.uint64:
    """What all streams of one purpose share under one seed."""
    digest = blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def stream(seed: int, entity: int, purpose: str) -> np.uint64:
    """The key of the stream (seed, entity, purpose)."""
    return np.uint64(stream_of(purpose_key(seed, purpose), np.uint64(entity & _MASK)))


@njit(cache=True)
def streams(seed_key, entities):
    """Stream keys for an array of entities."""
    out = np.empty(entities.size, np.uint64)
    for i in range(entities.size):
        out[i] = stream_of(seed_key, entities[i])
    return out


@njit(inline="always", cache=True)
def bits(key, counter):
    """Draw number `counter` of the stream `key`, as 64 bits."""
    return mix(uint64(key) + uint64(counter) * _GOLDEN)


@njit(inline="always", cache=True)
def uniform(key, counter):
    """Draw number `counter` of the stream `key`, as a float in [0, 1)."""
    return np.float64(bits(key, counter) >> _S11) * (1.0 / 9007199254740992.0)


@njit(cache=True)
def uniforms(key, start, count):
    """Draws start .. start+count-1 of one stream."""
    out = np.empty(count, np.float64)
    for i in range(count):
        out[i] = uniform(key, start + i)
    return out


@njit(cache=True)
def uniform_each(keys, counters):
    """One draw from each stream: keys[i] at counters[i]."""
    out = np.empty(keys.size, np.float64)
    for i in range(keys.size):
        out[i] = uniform(keys[i], counters[i])
    return out


# ---- log, exp, power, normal: the same bits on every CPU --------------------------------------------

_LN2_HI = 6.93147180369123816490e-01  # ln 2 rounded to 33 bits, so that e * _LN2_HI is exact
_LN2_LO = 1.90821492927058770002e-10
_SQRT_HALF = 0.7071067811865476


@njit(cache=True)
def log(x):
    """Natural logarithm; -inf at 0, nan below."""
    if not x > 0.0:
        return -np.inf if x == 0.0 else np.nan
    if x == np.inf:
        return x
    exponent = 0
    while x < _SQRT_HALF:  # scaling by two is exact
        if x < 1e-9:
            x *= 1073741824.0
            exponent -= 30
        else:
            x *= 2.0
            exponent -= 1
    while x >= 2.0 * _SQRT_HALF:
        if x > 1e9:
            x /= 1073741824.0
            exponent += 30
        else:
            x *= 0.5
            exponent += 1
    # ln x = 2 atanh s; |s| <= 0.1716, so thirteen odd terms are below half an ulp
    s = (x - 1.0) / (x + 1.0)
    z = s * s
    tail = 0.0
    for k in range(25, 1, -2):
        tail = z * (1.0 / k + tail)
    return exponent * _LN2_HI + (2.0 * s + (2.0 * s * tail + exponent * _LN2_LO))


@njit(cache=True)
def exp(x):
    """e to the x; overflows to inf, underflows to 0."""
    if x != x:
        return x
    if x > 709.78:
        return np.inf
    if x < -745.2:
        return 0.0
    n = int(np.floor(x / 0.6931471805599453 + 0.5))
    r = (x - n * _LN2_HI) - n * _LN2_LO
    total = 1.0
    for k in range(18, 0, -1):
        total = 1.0 + r * total / k
    step = 2.0 if n > 0 else 0.5
    for _ in range(abs(n)):
        total *= step
    return total


@njit(cache=True)
def power(base, exponent):
    """base ** exponent for base >= 0."""
    if exponent == 0.0:
        return 1.0
    if base == 0.0:
        return 0.0 if exponent > 0.0 else np.inf
    return exp(exponent * log(base))


@njit(cache=True)
def normal(u):
    """The standard normal quantile of u in (0, 1): Acklam's rational form, relative error 1.2e-9."""
    if u <= 0.0:
        return -np.inf
    if u >= 1.0:
        return np.inf
    if u < 0.02425 or u > 1.0 - 0.02425:
        tail = u if u < 0.5 else 1.0 - u
        q = np.sqrt(-2.0 * log(tail))
        x = (
            (((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838) * q
               - 2.549732539343734) * q + 4.374664141464968) * q + 2.938163982698783)
            / ((((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996) * q
                + 3.754408661907416) * q + 1.0)
        )
        return x if u < 0.5 else -x
    q = u - 0.5
    r = q * q
    return (
        (((((-3.969683028665376e01 * r + 2.209460984245205e02) * r - 2.759285104469687e02) * r
           + 1.383577518672690e02) * r - 3.066479806614716e01) * r + 2.506628277459239) * q
        / (((((-5.447609879822406e01 * r + 1.615858368580409e02) * r - 1.556989798598866e02) * r
             + 6.680131188771972e01) * r - 1.328068155288572e01) * r + 1.0)
    )


@njit(cache=True)
def power_weights(n, exponent):
    """Cumulative weights of ranks 1..n under rank ** -exponent, ending in exactly 1.0 (Zipf)."""
    out = np.empty(n, np.float64)
    total = 0.0
    for i in range(n):
        total += power(i + 1.0, -exponent)
        out[i] = total
    for i in range(n):
        out[i] /= total
    out[n - 1] = 1.0
    return out


@njit(cache=True)
def pick(cumulative, u):
    """The first index whose cumulative weight exceeds u."""
    low, high = 0, cumulative.size - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low
