"""When a false positive shrinks the region that let it through.

One counter per filter, over all its indexes: so many false positives are ignored, then the one at hand is
acted on, and the counter starts again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import InvalidInput


@dataclass(frozen=True)
class Fixed:
    """Every `false_positives`-th false positive; 1 is the policy `always`."""

    false_positives: int = 1000

    def __post_init__(self) -> None:
        if isinstance(self.false_positives, bool) or self.false_positives < 1:
            raise InvalidInput(f"fixed({self.false_positives!r}): pass an integer of at least 1")


@dataclass(frozen=True)
class Auto:
    """Fixed, with constant * updates / false positives so far, at least 1, in the place of the number."""

    constant: float = 3000.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.constant) and self.constant > 0):
            raise InvalidInput(f"auto({self.constant!r}): pass a number above 0")


_COUNT_MAX = 1 << 62

Policy = Fixed | Auto
ALWAYS = Fixed(1)


class Counter:
    """A policy at work."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.updates = 0  # of values that an indexed atom refers to, cheap ones included
        self.false_positives = 0
        self._ignored = 0

    def state(self) -> list[int]:
        """Plain data, for `load`."""
        return [self.updates, self.false_positives, self._ignored]

    def load(self, state: Any) -> None:
        """Take over what a counter with the same policy has counted."""
        every = self.policy.false_positives if isinstance(self.policy, Fixed) else _COUNT_MAX
        if type(state) is not list or list(map(type, state)) != [int, int, int]:
            raise InvalidInput(f"the counts of a policy are {str(state)[:60]}; pass what state() gave")
        if not all(0 <= count < _COUNT_MAX for count in state) or not state[2] < every:
            raise InvalidInput(f"the counts of a policy are {str(state)[:60]}; they lie in 0..{_COUNT_MAX}")
        self.updates, self.false_positives, self._ignored = state

    def due(self, count: int) -> NDArray[np.int64]:
        """Which of the next `count` false positives are acted on. O(acted on), for Auto O(count)."""
        before = self.false_positives
        self.false_positives += count
        if isinstance(self.policy, Auto):
            due, self._ignored = _due(count, self._ignored, self.policy.constant * self.updates, before)
            return due
        every = self.policy.false_positives
        due = np.arange(every - 1 - self._ignored, count, every)
        self._ignored = (self._ignored + count) % every
        return due


@njit(cache=True)
def _due(count, ignored, budget, before):
    out = np.empty(count, np.int64)
    n = 0
    for i in range(count):
        ignored += 1
        if ignored >= max(1.0, budget / (before + i + 1)):
            out[n] = i
            n += 1
            ignored = 0
    return out[:n], ignored
