"""Means with Student-t intervals, in a few lines of our own rather than with all of SciPy.

Two-sided tail of t with ν degrees of freedom: P(|T| > t) = I_x(ν/2, 1/2) at x = ν / (ν + t²), with the
regularised incomplete beta function I by its continued fraction, which converges fast below x = (a+1)/(a+b+2);
above, I_x(a, b) = 1 - I_{1-x}(b, a). The quantile is found by bisection on the logarithm of t, since the tail
falls monotonously. Degrees of freedom need not be whole (Welch).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

_STEPS_MAX = 100_000
_TINY = 1e-300


class Estimate(NamedTuple):
    """A mean, and half the width of its interval; None where one value has no spread."""

    mean: float
    half_width: float | None
    size: int

    @property
    def clear_of_zero(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.half_width is not None and abs(self.mean) > self.half_width


@lru_cache(maxsize=1024)
def quantile(confidence: float, freedom: float) -> float:
    """The t with P(|T| <= t) = confidence."""
    if not 0 < confidence < 1 or not freedom > 0:
        raise ValueError(f"no Student-t quantile at {confidence} with {freedom} degrees of freedom")
    tail = 1.0 - confidence
    low, high = -1.0, 1.0
    while two_sided_tail(math.exp(low), freedom) < tail:
        low -= 2.0
    while two_sided_tail(math.exp(high), freedom) > tail:
        high += 2.0
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if two_sided_tail(math.exp(middle), freedom) > tail:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


def two_sided_tail(t: float, freedom: float) -> float:
    """P(|T| > t)."""
    square = t * t
    # Both x and 1 - x are formed without cancelling.
    return _beta_share(freedom / (freedom + square), square / (freedom + square), freedom / 2, 0.5)


def _beta_share(x: float, y: float, a: float, b: float) -> float:
    """The regularised incomplete beta function at x, with y = 1 - x."""
    if x <= 0.0:
        return 0.0
    if y <= 0.0:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _beta_share(y, x, b, a)
    log_front = a * math.log(x) + b * math.log(y) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log_front) * _continued_fraction(x, a, b) / a


def _continued_fraction(x: float, a: float, b: float) -> float:
    """By Lentz's method: numerator and denominator as running ratios."""
    d = 1.0 / (_away_from_zero(1.0 - (a + b) * x / (a + 1)))
    c, value = 1.0, d
    for m in range(1, _STEPS_MAX):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _away_from_zero(1.0 + factor * d)
            c = _away_from_zero(1.0 + factor / c)
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value


def _away_from_zero(number: float) -> float:
    return number if abs(number) > _TINY else _TINY


def estimate(values: Sequence[float], confidence: float) -> Estimate:
    """The mean of independent values with its interval."""
    mean, variance = _moments(values)
    count = len(values)
    if count < 2:
        return Estimate(mean, None, count)
    return Estimate(mean, quantile(confidence, count - 1) * math.sqrt(variance / count), count)


def difference(a: Sequence[float], b: Sequence[float], confidence: float) -> Estimate:
    """The mean of `a` less that of `b`, drawn independently, by Welch: the spreads may differ."""
    (mean_a, variance_a), (mean_b, variance_b) = _moments(a), _moments(b)
    mean = mean_a - mean_b
    if len(a) < 2 or len(b) < 2:
        return Estimate(mean, None, min(len(a), len(b)))
    part_a, part_b = variance_a / len(a), variance_b / len(b)
    count = min(len(a), len(b))
    if part_a + part_b == 0.0:
        return Estimate(mean, 0.0, count)
    freedom = (part_a + part_b) ** 2 / (part_a**2 / (len(a) - 1) + part_b**2 / (len(b) - 1))
    return Estimate(mean, quantile(confidence, freedom) * math.sqrt(part_a + part_b), count)


def _moments(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and variance with one degree of freedom taken off."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, 0.0
    return mean, math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
