"""EAGER, PARTIAL, GBU and AGILE: one interval skip list per indexed attribute, and how regions follow intervals.

The merge counts. Each conjunct needs as many hits as it has regions in scope; each probe takes one from those it
returns, and what comes to 0 is a candidate. A region that is everything is out of scope: it is marked
nowhere and needs no hit, so that a conjunct all of whose regions are out of scope is a candidate from the start.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.context import skiplist_kernels as kernels
from brokers.indexes.context.contract import Schema
from brokers.indexes.context.filter import Filter
from brokers.indexes.context.policies import Counter, Fixed, Policy
from brokers.indexes.context.skiplist import IntervalSkipList
from brokers.indexes.context.store import Floats
from brokers.indexes.contract import claim

ESCALATIONS = {"piecewise": kernels.PIECEWISE, "range": kernels.RANGE}
DEESCALATIONS = {"full": kernels.FULL, "step": kernels.STEP}
FIXED = Fixed(1000)  # the paper's good value
_NEVER = 255  # needs of a conjunct that is not held
_CHUNK = 64  # words looked at together


class SkipListFilter(Filter):
    """Message O(log n + regions met + candidates), update O(log^2 n) expected for each region that moves."""

    rule = kernels.EXACT

    def __init__(
        self, schema: Schema, indexed: Iterable[str], seed: int = 0,
        scope: tuple[float, float] = (-math.inf, math.inf),
    ) -> None:
        super().__init__(schema, indexed)
        self.lists = [IntervalSkipList(0, seed, scope) for _ in self.indexed]
        self._attributes = [list(schema.message).index(name) for name in self.indexed]
        self._needs = np.empty(0, np.uint8)
        self._hits = np.empty(0, np.uint8)

    def _entered(self, slots: NDArray[np.int64]) -> None:
        room = len(self.store.start)
        if room > len(self._needs):
            needs = np.full((room + 63) // 64 * 64, _NEVER, np.uint8)
            needs[: len(self._needs)] = self._needs
            self._needs, self._hits = needs, np.empty_like(needs)
            self._out = np.empty(len(needs) + 1, np.int32)
            for index in self.lists:
                index.reserve(room)
                index.needs = needs
        self._needs[slots] = 0
        rule = kernels.PARTIAL if self.rule == kernels.PARTIAL else kernels.EXACT
        for i, index in enumerate(self.lists):
            entries, asked = self.store.indexed(slots, i)
            self._needs[entries] += np.uint8(1)
            index.update_many(entries, asked, rule)

    def _left(self, slots: NDArray[np.int64]) -> None:
        for index in self.lists:
            index.remove_many(slots)
        self._needs[slots] = _NEVER

    def _candidates(self, values: Floats) -> NDArray[np.int32]:
        count = _begin(self._needs, self._needs.view(np.uint64), self._hits, self._hits.view(np.uint64), self._out)
        for index, attribute in zip(self.lists, self._attributes):
            value = values[attribute]
            if value == value:
                count, read = kernels.count_off(index.state, value, self._hits, self._out, count)
                self.counters.probed += read
        return self._out[:count]

    def _exact(self) -> bool:
        return self.rule == kernels.EXACT

    def _asked_anew(self, entries: NDArray[np.int64], asked: Floats) -> None:
        for i, index in enumerate(self.lists):
            self.counters.moved += index.update_mine(i, entries, asked, self.rule)

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        lists = sum(index.memory_bytes() for index in self.lists) - max(0, len(self.lists) - 1) * self._needs.nbytes
        return super().memory_bytes() + lists + self._hits.nbytes

    def check(self) -> None:
        """Every invariant, K covers I among them. As slow as the skip list's."""
        super().check()
        held = np.flatnonzero(self.store.count[: self.store.conjuncts_used] >= 0)
        needs = np.zeros(len(held), np.int64)
        for i, index in enumerate(self.lists):
            index.check()
            entries, asked = self.store.indexed(held, i)
            reach = index.reach[entries]
            covered = (reach[:, 0] <= asked[:, 0]) & (asked[:, 1] <= reach[:, 1])
            claim((covered | (asked[:, 0] > asked[:, 1])).all(), "a region covers what its conjunct asks")
            if self.rule == kernels.EXACT:
                claim(np.array_equal(reach, asked), "an exact region is what its conjunct asks")
            others = np.setdiff1d(np.arange(len(index.reach)), entries)
            claim((index.reach[others, 0] > index.reach[others, 1]).all(), "others have no region")
            in_scope = (reach[:, 0] > -np.inf) | (reach[:, 1] < np.inf)
            needs[np.isin(held, entries[in_scope])] += 1
        claim(np.array_equal(self._needs[held], needs), "a conjunct needs a hit per region in scope")
        claim((np.delete(self._needs, held) == _NEVER).all(), "what is not held is never a candidate")


class Eager(SkipListFilter):
    """EAGER: K is I, always."""

    def __init__(self, schema: Schema, indexed: Iterable[str], seed: int = 0) -> None:
        super().__init__(schema, indexed, seed)


class Partial(SkipListFilter):
    """PARTIAL: K is I where I lies within the scope, else everything."""

    rule = kernels.PARTIAL

    def __init__(self, schema: Schema, indexed: Iterable[str], scope: tuple[float, float], seed: int = 0) -> None:
        low, high = scope
        if not low <= high:
            raise InvalidInput(f"the scope {scope} is empty; pass (low, high)")
        super().__init__(schema, indexed, seed, (float(low), float(high)))


class Gbu(SkipListFilter):
    """GBU: an I that leaves K takes it to the nodes around; K never shrinks of itself."""

    rule = kernels.GBU

    def __init__(self, schema: Schema, indexed: Iterable[str], seed: int = 0) -> None:
        super().__init__(schema, indexed, seed)


class Agile(SkipListFilter):
    """AGILE: an I that leaves K escalates it; false positives de-escalate by a policy."""

    def __init__(
        self, schema: Schema, indexed: Iterable[str], escalation: str = "piecewise", deescalation: str = "full",
        policy: Policy = FIXED, seed: int = 0,
    ) -> None:
        for given, known in ((escalation, ESCALATIONS), (deescalation, DEESCALATIONS)):
            if given not in known:
                raise InvalidInput(f"no rule {given!r}; rules: {', '.join(known)}")
        super().__init__(schema, indexed, seed)
        self.rule = ESCALATIONS[escalation]
        self._how = DEESCALATIONS[deescalation]
        self.policy = Counter(policy)

    def _asked_anew(self, entries: NDArray[np.int64], asked: Floats) -> None:
        self.policy.updates += len(entries)
        super()._asked_anew(entries, asked)

    def _false_positives(self, failed: NDArray[np.int64]) -> None:
        for i in self.policy.due(len(failed)).tolist():
            number, conjunct = failed[i].tolist()
            index = self.lists[number]
            self.counters.shrunk += index.shrink(conjunct, *self.store.asked(conjunct, number), self._how)


@njit(cache=True)
def _begin(needs, words, left, left_words, out):
    """Set `left` to what each conjunct needs; those that need nothing are the first candidates."""
    count = 0
    ones, tops = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
    for begin in range(0, words.size, _CHUNK):
        source, target = words[begin : begin + _CHUNK], left_words[begin : begin + _CHUNK]
        zeros = np.uint64(0)
        for w in range(source.size):
            target[w] = source[w]
            zeros |= (source[w] - ones) & ~source[w] & tops  # a bit for each byte that is 0
        if zeros:
            for i in range(8 * begin, 8 * (begin + source.size)):
                out[count] = i
                count += int(needs[i] == 0)
    return count
