"""What a filter knows: context values, and of every atom the interval that it asks for now.

Theory of operation
- Every atom is a closed interval of float64 keys on one message attribute; an open end is the neighbouring
  float. A context value is written into the intervals of its atoms as it changes, so that testing a message
  follows no reference. An atom that waits for a value is the empty interval [inf, -inf].
- An atom on the context alone is an interval on one more attribute, which is 0 in every message: everything
  or nothing. `!=` is an interval with its code inverted: the value must lie outside.
- The atoms of a conjunct stand side by side: those on indexed attributes first, in the order of the indexes,
  then the other attributes, then what is on the context alone, then what is inverted. What a conjunct asks of
  one attribute is the intersection of its atoms there.
- Each context value heads a list of the atoms bound to it. An update is O(atoms bound); its memory accesses do
  not depend on each other, so a batch asks for them ahead.
- The first intervals of every conjunct also stand in float32. Rounding is monotone, so a value inside stays
  inside: they rule out, and only what they leave is tested exactly. What is scanned has two in columns; what is
  indexed has the four that a candidate is tried on, side by side in half a cache line. Cells have both.
- A value that changes all the time can be left by indexes and heads: it is hot. The heads of its atoms are everything.
"""

from __future__ import annotations

import math
from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.indexes.context import store_kernels as kernels
from brokers.indexes.context.contract import Schema
from brokers.indexes.context.store_kernels import BLOCK, HEAD, UNSET
from brokers.indexes.context.table import ProfileTable
from brokers.indexes.contract import Ids, claim
from brokers.indexes.ids import IdMap

Floats = NDArray[np.float64]

_LINE = 64  # bytes of a cache line
_NO_HEADS = np.empty((0, 2 * HEAD), np.float32)
# `stamp`: the message before which the value changed last, inverted if regions do not follow the value.
CELL = np.dtype([("value", "f8"), ("first", "i4"), ("stamp", "i4")])
_SCANNED = ("low", "high", "second")
BINDING = np.dtype([
    ("epsilon", "f8"), ("constant", "f8"), ("key", "i8"), ("atom", "i4"), ("conjunct", "i4"),
    ("next", "i4"), ("previous", "i4"), ("operator", "i2"), ("place", "i2"), ("spare", "i4"),
])  # fmt: skip


class Store:
    """Contexts, conjuncts, atoms. Conjuncts are slots that are reused; each knows the profile it is of."""

    def __init__(self, schema: Schema, indexed: tuple[str, ...], scanned: bool) -> None:
        names = list(schema.message)
        self.attributes = len(names)
        self.scanned, self.headed = scanned, bool(indexed)
        self.context_attributes = len(schema.context)
        rest = [name for name in names if name not in indexed]
        self.rank = np.array([[*indexed, *rest].index(name) for name in names], np.int32)
        # The index on each attribute, -1 for none; the attribute of the context atoms has none.
        self.index_of = np.full(self.attributes + 1, -1, np.int16)
        for i, name in enumerate(indexed):
            self.index_of[names.index(name)] = i
        self._no_index = np.full_like(self.index_of, -1)
        self.contexts = IdMap()
        self.cells = np.empty(0, CELL)  # row * context_attributes + attribute
        self.profiles = IdMap()  # profile id -> its first conjunct
        # by conjunct
        self.conjuncts_used = 0
        self._free_conjuncts = array("q")
        self._spans = np.empty((0, 2), np.int32)  # first atom, number of atoms; -1: free
        self.owner = np.empty(0, np.int64)
        self.following = np.empty(0, np.int32)  # the next conjunct of the profile
        self.low = np.empty(0, np.float32)  # the first interval, if scanned
        self.high = np.empty(0, np.float32)
        self.second = np.empty((0, 2), np.float32)
        self.heads = np.empty((0, 2 * HEAD), np.float32)  # the first four, if something is indexed
        self.codes = np.empty((0, HEAD if self.headed else 2), np.int16)  # attributes of these
        # Per block: the attributes that the first intervals of all its conjuncts are on.
        self.uniform = np.empty((0, self.codes.shape[1]), np.int16)
        # by atom
        self._atoms_used = 0
        self._free_atoms: dict[int, array[int]] = {}  # blocks by their number of atoms
        self.bounds = np.empty((0, 2))
        self.code = np.empty(0, np.int16)
        self.binding_of = np.empty(0, np.int32)
        self._bindings_used = 0
        self._free_bindings = array("q")
        self.bindings = np.empty(0, BINDING)

    def insert(self, ids: Ids, table: ProfileTable) -> NDArray[np.int64]:
        """Enter profiles that are not held; returns their conjuncts. O(atoms)."""
        sizes = np.diff(table.atoms)
        slots = self._take_conjuncts(len(sizes))
        starts = self._take_atoms(sizes)
        bound = int((table.context >= 0).sum())
        bindings = self._take_bindings(bound)
        rows = self.rows(table.context[table.context >= 0], make=True)
        self.owner[slots] = np.repeat(ids, np.diff(table.conjuncts))
        last = np.zeros(len(slots), np.bool_)
        last[table.conjuncts[1:] - 1] = True
        self.following[slots] = np.where(last, -1, np.append(slots[1:], -1))
        self.profiles.add(ids, slots[table.conjuncts[:-1]])
        kernels.enter(
            slots, starts, table.atoms, table.attribute, table.operator, rows, bindings,
            table.context, table.context_attribute, table.constant, table.epsilon, self.rank,
            self.context_attributes, self.cells, self.bindings, self.start, self.count, self.bounds, self.code,
            self.binding_of,
        )  # fmt: skip
        self._fill(slots, self._columns())
        return slots

    def delete(self, ids: Ids) -> NDArray[np.int64]:
        """Remove profiles that are held; returns what were their conjuncts. O(atoms)."""
        slots = kernels.conjuncts_of(self.following, self.profiles.find(ids))
        self.profiles.remove(ids)
        freed = kernels.leave(slots, self.start, self.count, self.binding_of, self.bindings, self.cells)
        self._free_bindings.frombytes(freed.tobytes())
        sizes, starts = self.count[slots], self.start[slots].astype(np.int64)
        for size in np.unique(sizes):
            blocks = self._free_atoms.setdefault(int(size), array("q"))
            blocks.frombytes(starts[sizes == size].tobytes())
        self.count[slots] = -1
        if self.scanned:
            self.low[slots], self.high[slots] = np.inf, -np.inf
        self._free_conjuncts.frombytes(slots.tobytes())
        return slots

    def rows(self, contexts: Ids, make: bool) -> NDArray[np.int64]:
        """The row of each context, -1 or a new one where it has none. O(1) expected each."""
        rows = self.contexts.find(contexts)
        if make and len(rows) and rows.min() < 0:
            fresh = np.unique(contexts[rows < 0])
            begin = len(self.contexts)
            self.contexts.add(fresh, np.arange(begin, begin + len(fresh)))
            needed = len(self.contexts) * self.context_attributes
            if needed > len(self.cells):
                old = len(self.cells)
                self.cells = grown(self.cells, needed)
                self.cells["value"][old:], self.cells["first"][old:], self.cells["stamp"][old:] = np.nan, -1, 0
            rows = self.contexts.find(contexts)
        return rows

    def update(
        self, keys: NDArray[np.int64], values: Floats, clock: int = 0, gap: int = 0
    ) -> tuple[NDArray[np.int64], Floats]:
        """Set context values, one after the other, NaN for unknown.

        Returns what conjuncts ask of indexed attributes after each change, in order: rows of (index, conjunct),
        and (low, high) each. A value that changes again within `gap` messages is followed no longer: that is said
        once, by the inverted index, until `indexed_again` takes it back.
        """
        return kernels.update(
            keys, values, self.cells, self.cells.view(np.int64), self.bindings, self.bindings.view(np.int64),
            self.bounds, self.bounds.reshape(-1), self.code, self.start, self.count, self.low, self.high,
            self.second, self.second.reshape(-1), self.heads, self.heads.reshape(-1), self.index_of,
            clock, gap,
        )  # fmt: skip

    def asked(self, conjunct: int, index: int) -> tuple[float, float]:
        """What a conjunct asks of an indexed attribute now."""
        attribute = int(np.flatnonzero(self.index_of == index)[0])
        low, high = kernels.asked_interval(conjunct, attribute, self.start, self.count, self.bounds, self.code)
        return float(low), float(high)

    def indexed(self, conjuncts: NDArray[np.int64], index: int) -> tuple[NDArray[np.int64], Floats]:
        """Those of the conjuncts with an atom on the indexed attribute, and (low, high) each."""
        attribute = int(np.flatnonzero(self.index_of == index)[0])
        return kernels.indexed(conjuncts, attribute, self.start, self.count, self.bounds, self.code)

    def indexed_again(
        self, conjuncts: NDArray[np.int64], index: int, clock: int, gap: int
    ) -> tuple[NDArray[np.int64], Floats, NDArray[np.bool_]]:
        """As `indexed`, and of each whether it hangs on a value that is not followed.

        Values that have not changed in `gap` messages are followed again.
        """
        attribute = int(np.flatnonzero(self.index_of == index)[0])
        return kernels.indexed_again(
            conjuncts, attribute, clock, gap, self.start, self.count, self.bounds, self.code, self.binding_of,
            self.bindings, self.cells, self.heads,
        )  # fmt: skip

    def scan(self, message: Floats, out: NDArray[np.int32]) -> int:
        """Append to `out` the conjuncts whose first two intervals do not rule the message out."""
        return int(kernels.scan(message, self.conjuncts_used, self.low, self.high, self.second,
                                self.second.reshape(-1), self.codes, self.uniform, out))

    def verify(
        self, candidates: NDArray[np.int32], message: Floats, skip_indexed: bool, scanned: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """(conjuncts that hold, rows of (index, conjunct) that failed on an indexed attribute, conjuncts tested).

        With `skip_indexed`, what is asked of indexed attributes is taken to hold. What `scan` left is not tried
        on its heads again, and no index is blamed for it.
        """
        heads = _NO_HEADS if scanned else self.heads
        return kernels.verify(
            candidates, message, skip_indexed, self.start, self.count, self.bounds,
            self.bounds.reshape(-1), self.code, heads, heads.reshape(-1), self.codes, self.uniform,
            self._no_index if scanned else self.index_of,
        )  # fmt: skip

    # Side by side in memory: whoever needs one needs the other.
    @property
    def start(self) -> NDArray[np.int32]:
        return self._spans[:, 0]

    @property
    def count(self) -> NDArray[np.int32]:
        return self._spans[:, 1]

    @property
    def conjuncts_held(self) -> int:
        return self.conjuncts_used - len(self._free_conjuncts)

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        names = (
            "cells", "_spans", "owner", "following", "low", "high", "second", "heads", "codes", "uniform",
            "bounds", "code", "binding_of", "bindings",
        )  # fmt: skip
        return (sum(getattr(self, name).nbytes for name in names)
                + self.contexts.memory_bytes() + self.profiles.memory_bytes())

    def check(self) -> None:
        """Every invariant. O(atoms)."""
        self.contexts.check()
        self.profiles.check()
        ids, firsts = self.profiles.items()
        held = kernels.conjuncts_of(self.following, firsts)
        both = np.concatenate([held, np.array(self._free_conjuncts, np.int64)])
        claim(np.array_equal(np.sort(both), np.arange(self.conjuncts_used)), "a conjunct is held or free, once")
        claim((self.count[held] >= 0).all(), "a held conjunct counts its atoms")
        claim(set(self.owner[held].tolist()) == set(ids.tolist()), "conjuncts belong to the profiles held")
        free = np.array(self._free_conjuncts, np.int64)
        if self.scanned:
            claim((self.low[free] > self.high[free]).all(), "a free conjunct holds for nothing")
        bound = 0
        for conjunct in held.tolist():
            begin = int(self.start[conjunct])
            for atom in range(begin, begin + int(self.count[conjunct])):
                if self.binding_of[atom] >= 0:
                    bound += 1
                    self._check_binding(conjunct, atom, self.bindings[self.binding_of[atom]])
        claim(bound == self._bindings_used - len(self._free_bindings), "a binding is held or free")
        fresh = {name: column.copy() for name, column in self._columns().items()}
        self._fill(held, fresh)
        for name, column in self._columns().items():
            same = column[held] == fresh[name][held] if name != "uniform" else column == fresh[name]
            if name == "heads":  # of a value that is followed again, but that has not been come to
                open_ = (column[held].reshape(-1, HEAD, 2) == (-np.inf, np.inf)).all(axis=2)
                same |= open_.repeat(2, axis=1)
            claim(same.all(), "columns repeat the first intervals")

    def _check_binding(self, conjunct: int, atom: int, binding: Any) -> None:
        claim((binding["atom"], binding["conjunct"]) == (atom, conjunct), "a binding names its atom")
        claim(binding["place"] == atom - self.start[conjunct], "a binding knows its place")
        value = float(self.cells["value"][binding["key"]])
        low, high = kernels.interval(
            int(binding["operator"]), value, float(binding["epsilon"]), float(binding["constant"]),
            self.code[atom] == self.attributes,
        )  # fmt: skip
        claim((low, high) == tuple(self.bounds[atom].tolist()), "an interval follows from the value")
        walk, seen = int(self.cells["first"][binding["key"]]), 0
        while walk >= 0 and seen <= self._bindings_used:
            if self.bindings[walk]["atom"] == atom:
                return
            walk, seen = int(self.bindings[walk]["next"]), seen + 1
        claim(False, "a context value reaches the atoms bound to it")

    def _columns(self) -> dict[str, NDArray[Any]]:
        names = (*(_SCANNED if self.scanned else ()), *(("heads",) if self.headed else ()), "codes", "uniform")
        return {name: getattr(self, name) for name in names}

    def _fill(self, conjuncts: NDArray[np.int64], columns: dict[str, NDArray[Any]]) -> None:
        """Repeat the first intervals of these conjuncts in the columns."""
        known = (conjuncts, self.attributes, self.start, self.count, self.bounds, self.code)
        both = columns["codes"], columns["uniform"]
        if self.headed:
            bound = self.binding_of, self.bindings, self.cells
            kernels.fill_heads(*known, *bound, columns["heads"], *both)
        if self.scanned:
            kernels.fill_columns(*known, columns["low"], columns["high"], columns["second"], *both)

    def _take_conjuncts(self, wanted: int) -> NDArray[np.int64]:
        slots = _reused(self._free_conjuncts, wanted, self.conjuncts_used)
        self.conjuncts_used += int((slots >= self.conjuncts_used).sum())
        if self.conjuncts_used > len(self.start):
            old = len(self.start)
            size = max(2 * old, self.conjuncts_used, BLOCK)
            size = (size + BLOCK - 1) // BLOCK * BLOCK
            by_conjunct = [name for name in self._columns() if name != "uniform"]
            for name in ("_spans", "owner", "following", *by_conjunct):
                setattr(self, name, grown(getattr(self, name), size, exact=True))
            self.count[old:] = -1
            if self.scanned:
                self.low[old:], self.high[old:] = np.inf, -np.inf
            self.codes[old:] = self.attributes
            blocks = len(self.uniform)
            self.uniform = grown(self.uniform, size // BLOCK, exact=True)
            self.uniform[blocks:] = UNSET
        return slots

    def _take_atoms(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        starts = np.empty(len(sizes), np.int64)
        for size in np.unique(sizes):
            mine = np.flatnonzero(sizes == size)
            free = self._free_atoms.get(int(size), array("q"))
            reused = min(len(free), len(mine))
            if reused:
                starts[mine[:reused]] = np.array(free[-reused:], np.int64)
                del free[-reused:]
            fresh = len(mine) - reused
            starts[mine[reused:]] = self._atoms_used + np.arange(fresh) * size
            self._atoms_used += fresh * int(size)
        if self._atoms_used > len(self.code):
            for name in ("bounds", "code", "binding_of"):
                setattr(self, name, grown(getattr(self, name), self._atoms_used))
        return starts

    def _take_bindings(self, wanted: int) -> NDArray[np.int64]:
        slots = _reused(self._free_bindings, wanted, self._bindings_used)
        self._bindings_used += int((slots >= self._bindings_used).sum())
        if self._bindings_used > len(self.bindings):
            self.bindings = grown(self.bindings, self._bindings_used)
        return slots


def grown(old: NDArray[Any], size: int, exact: bool = False) -> NDArray[Any]:
    """The array with room for `size` rows, half as much again unless exact; what is new is not set.

    It begins on a cache line, so that no row of half a line stands in two.
    """
    if not exact:
        size = max(size, len(old) + len(old) // 2)
    shape = (size, *old.shape[1:])
    raw = np.empty(math.prod(shape) * old.itemsize + _LINE, np.uint8)
    begin = -int(raw.ctypes.data) % _LINE
    new = raw[begin : begin + len(raw) - _LINE].view(old.dtype).reshape(shape)
    new[: len(old)] = old
    return new


def _reused(free: array[int], wanted: int, used: int) -> NDArray[np.int64]:
    """So many slots: free ones first, then unused ones."""
    reused = min(wanted, len(free))
    slots = np.empty(wanted, np.int64)
    if reused:
        slots[:reused] = np.array(free[-reused:], np.int64)
        del free[-reused:]
    slots[reused:] = np.arange(used, used + wanted - reused)
    return slots
