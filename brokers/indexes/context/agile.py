"""EAGER, PARTIAL, GBU and AGILE: one interval skip list per indexed attribute, and how regions follow intervals.

The merge is of bitsets, a bit per conjunct. Each probe sets the bits of the conjuncts that it finds, in a copy of those
it need not find; a candidate has its bit in all of them. A conjunct need not be found where it asks nothing of
the attribute, nor where its region is everything: that is out of scope, and marked nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.context import bits
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


class SkipListFilter(Filter):
    """Message O(log n + regions met + conjuncts / 64 + candidates), update O(log^2 n) expected per moved region."""

    rule = kernels.EXACT

    def __init__(
        self, schema: Schema, indexed: Iterable[str], seed: int = 0,
        scope: tuple[float, float] = (-math.inf, math.inf),
    ) -> None:
        super().__init__(schema, indexed)
        self.lists = [IntervalSkipList(0, seed, scope) for _ in self.indexed]
        self._attributes = [list(schema.message).index(name) for name in self.indexed]
        self._held = np.empty(0, np.uint64)  # a bit per conjunct
        self._rows = np.empty((len(self.lists), 0), np.uint64)

    def _entered(self, slots: NDArray[np.int64]) -> None:
        room = len(self.store.start)
        if room > 64 * len(self._held):
            held = np.zeros((room + 63) // 64, np.uint64)
            held[: len(self._held)] = self._held
            self._held, self._rows = held, np.empty((len(self.lists), len(held)), np.uint64)
            self._out = np.empty(64 * len(held), np.int32)
            for index in self.lists:
                index.reserve(room)
        bits.put(self._held, slots, True)
        rule = kernels.PARTIAL if self.rule == kernels.PARTIAL else kernels.EXACT
        for i, index in enumerate(self.lists):
            entries, asked = self.store.indexed(slots, i)
            bits.put(index.always, slots, True)
            bits.put(index.always, entries, False)
            index.update_many(entries, asked, rule)

    def _left(self, slots: NDArray[np.int64]) -> None:
        bits.put(self._held, slots, False)
        for index in self.lists:
            index.remove_many(slots)
            bits.put(index.always, slots, False)

    def _candidates(self, values: Floats) -> NDArray[np.int32]:
        left = self._held
        for index, attribute, row in zip(self.lists, self._attributes, self._rows):
            self.counters.probed += kernels.gather(index.state, index.always, values[attribute], row)
            left = np.bitwise_and(left, row, out=row)
        return self._out[: bits.write_members(left, self._out)]

    def _exact(self) -> bool:
        return self.rule == kernels.EXACT

    def _asked_anew(self, entries: NDArray[np.int64], asked: Floats) -> None:
        for i, index in enumerate(self.lists):
            self.counters.moved += index.update_mine(i, entries, asked, self.rule)

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        lists = sum(index.memory_bytes() for index in self.lists)
        return super().memory_bytes() + lists + self._held.nbytes + self._rows.nbytes

    def check(self) -> None:
        """Every invariant, K covers I among them. As slow as the skip list's."""
        super().check()
        held = np.flatnonzero(self.store.count[: self.store.conjuncts_used] >= 0)
        claim(np.array_equal(held, bits.members(self._held)), "a conjunct is held by store and lists alike")
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
            found = entries[(reach[:, 0] > -np.inf) | (reach[:, 1] < np.inf)]
            others = np.setdiff1d(held, found)
            claim(np.array_equal(bits.members(index.always), others), "who need not be found has a bit")


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
