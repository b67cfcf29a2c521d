"""The workload of the AGILE paper (table 2): profiles, messages and context updates as arrays.

Each profile is a conjunction of epsilon-environments, one per attribute, around a constant or around a value of the
profile's own context. 90 % of the profiles refer to their context; which of their predicates do is a second
share, over all predicates, which the paper leaves open. Values are uniform in 0..10,000, rounded to three
significant digits. Attributes are ordered by selectivity, and the first ones are indexed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.indexes.context.contract import Schema
from brokers.indexes.context.table import WITHIN, ProfileTable

DOMAIN = 10_000.0
ATTRIBUTES = 8
# The post-filter share of table 5 (0.24 % after two indexed predicates) gives the first two; the rest only ascend.
EPSILONS = (245.0, 245.0, 500.0, 750.0, 1000.0, 1500.0, 2000.0, 2500.0)
NAMES = tuple(f"a{i}" for i in range(ATTRIBUTES))
SCHEMA = Schema(dict.fromkeys(NAMES, "number"), dict.fromkeys(NAMES, "number"))
PROFILES_FULL = 500_000
MESSAGES_FULL = 10_000  # to which "updates per profile" refers


@dataclass(frozen=True)
class Load:
    """One point of the paper's parameter space."""

    profiles: int = 5_000
    share: float = 0.2  # of the predicates, bound to a context
    profile_share: float = 0.9  # of the profiles, with a context
    together: bool = False  # the indexed predicates of a profile are bound all or none
    distance: float = 150.0  # of a new value from the old one
    on_indexed: float = 0.25  # of the updates, on indexed attributes
    indexed: int = 2
    seed: int = 1


class Workload:
    """Profiles at once; messages and updates as they are asked for, from one generator each."""

    def __init__(self, load: Load) -> None:
        self.load = load
        n = load.profiles
        draws = [np.random.Generator(np.random.PCG64([load.seed, purpose])) for purpose in range(3)]
        start, self._messages, self._updates = draws
        self.values = rounded(start.uniform(0, DOMAIN, (n, ATTRIBUTES)))
        constants = rounded(start.uniform(0, DOMAIN, (n, ATTRIBUTES)))
        refers = start.random(n) < load.profile_share
        drawn = start.random((n, ATTRIBUTES))
        if load.together:
            drawn[:, : load.indexed] = drawn[:, :1]
        bound = (drawn < load.share / load.profile_share) & refers[:, None]
        atoms = n * ATTRIBUTES
        attribute = np.tile(np.arange(ATTRIBUTES, dtype=np.int16), n)
        self.table = ProfileTable(
            conjuncts=np.arange(n + 1), atoms=np.arange(n + 1) * ATTRIBUTES, attribute=attribute,
            operator=np.full(atoms, WITHIN, np.int8),
            context=np.where(bound, np.arange(n)[:, None], -1).ravel(),
            context_attribute=np.where(bound.ravel(), attribute, np.int16(-1)).astype(np.int16),
            constant=constants.ravel(), epsilon=np.tile(np.array(EPSILONS), n),
        )

    @property
    def indexed(self) -> tuple[str, ...]:
        return NAMES[: self.load.indexed]

    def contexts(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Every value as it is now: contexts, attributes, values, as `update_many` takes them."""
        n = len(self.values)
        return np.repeat(np.arange(n), ATTRIBUTES), np.tile(np.arange(ATTRIBUTES), n), self.values.ravel().copy()

    def messages(self, count: int) -> NDArray[np.float64]:
        """The next messages."""
        return rounded(self._messages.uniform(0, DOMAIN, (count, ATTRIBUTES)))

    def updates(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """The next updates: contexts, attributes, values."""
        load, draws = self.load, self._updates
        contexts = draws.integers(0, load.profiles, count)
        picked = draws.random(count)
        indexed = draws.random(count) < load.on_indexed
        rest = ATTRIBUTES - load.indexed
        attributes = np.where(indexed, picked * load.indexed, load.indexed + picked * rest).astype(np.int64)
        steps = draws.uniform(-load.distance, load.distance, count)
        return contexts, attributes, _walk(self.values, contexts, attributes, steps)


def rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Three significant digits, but no finer than a thousandth."""
    out = values.copy()
    _round_all(out.reshape(-1))
    return out


@njit(cache=True)
def _round(value):
    if value >= 1000.0:
        return np.rint(value / 10.0) * 10.0
    scale = 1.0 if value >= 100.0 else 10.0 if value >= 10.0 else 100.0 if value >= 1.0 else 1000.0
    return np.rint(value * scale) / scale


@njit(cache=True)
def _round_all(values):
    for i in range(values.size):
        values[i] = _round(values[i])


@njit(cache=True)
def _walk(values, contexts, attributes, steps):
    """Each value moves by its step, within the domain; the same one may move twice."""
    out = np.empty(contexts.size)
    for i in range(contexts.size):
        old = values[contexts[i], attributes[i]]
        out[i] = _round(min(max(old + steps[i], 0.0), DOMAIN))
        values[contexts[i], attributes[i]] = out[i]
    return out
