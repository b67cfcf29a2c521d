"""Profiles on their way: behind which links may one of them hold, if context values lie within known ranges?

A broker knows of each value a range [low, high] that holds it: a point where it knows the value, everything
where it knows nothing, and nothing, [inf, -inf], where it knows that there is no value. A conjunct *may* hold if
each of its atoms holds for some value within its range. That is asked of each atom by itself, so a conjunct
that names one value twice may be thought to hold when it cannot: a message too many, never one too few.

A profile is a slot: a line of atoms in the order of their conjuncts, where it lives (a *place*: the broker's
links by number, and behind them the broker itself), all flat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.columns import BadState, Column, check_columns
from brokers.contract import Floats
from brokers.indexes.context.table import EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, UNEQUAL
from brokers.indexes.contract import DuplicateId, UnknownId, claim
from brokers.indexes.ids import IdMap

# Columns of an atom here; as in the kind's rows, but a value is named by its number in the broker.
_CONJUNCT, _ATTRIBUTE, _OPERATOR, _KEY, _CONSTANT, _EPSILON = range(6)
_COLUMNS = 6
_FREE = -1
_STATE = {
    "id": Column("i8", ("profiles",), low=0),
    "slot": Column("i8", ("profiles",), low=0),
    "place": Column("i4", ("profiles",), low=0, high="places"),
    "count": Column("i8", ("profiles",), low=1),
    "atoms": Column("f8", (None, _COLUMNS)),
    "spare": Column("i8", (None,), low=0),
}


class Sieve:
    """The profiles that a broker knows, by place. A question is O(atoms), up to the first profile of each place."""

    def __init__(self, places: int) -> None:
        self.places = places
        self._ids = IdMap()
        self._atoms = np.full((8, 1, _COLUMNS), np.nan)
        self._place = np.full(8, _FREE, np.int32)
        self._id = np.zeros(8, np.int64)
        self._used = 0
        self._spare: list[int] = []

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, id: int, place: int, atoms: Floats, keys: NDArray[np.int64]) -> None:
        """Let in a profile: its atoms as the kind has them, and the number of each one's value or -1. O(atoms)."""
        if id in self:
            raise DuplicateId(f"profile {id} is let in already")
        slot = self._spare.pop() if self._spare else self._used
        self._used = max(self._used, slot + 1)
        self._make_room(slot, len(atoms))
        line = self._atoms[slot]
        line[:] = np.nan
        part = line[: len(atoms)]
        part[:, :_KEY] = atoms[:, :3]
        part[:, _KEY] = np.where(keys < 0, np.nan, keys)
        part[:, _CONSTANT:] = atoms[:, 5:]
        self._place[slot], self._id[slot] = place, id
        self._ids.add(np.array([id]), np.array([slot]))

    def remove(self, id: int) -> None:
        """Let go of a profile that is in. O(1)."""
        slot = int(self._ids.find(np.array([id]))[0])
        if slot < 0:
            raise UnknownId(f"profile {id} was not let in")
        self._ids.remove(np.array([id]))
        self._place[slot] = _FREE
        self._spare.append(slot)

    def __contains__(self, id: int) -> bool:
        return bool(self._ids.find(np.array([id]))[0] >= 0)

    def behind(self, values: Floats, ranges: Floats, came_by: int) -> NDArray[np.bool_]:
        """Per place whether a profile there may hold; of `came_by` it is not asked."""
        out = np.zeros(self.places, np.bool_)
        _behind(self._atoms, self._place[: self._used], values, ranges, came_by, out)
        return out

    def culprit(self, values: Floats, told: Floats, ranges: Floats, came_by: int) -> int:
        """The number of a value by which a conjunct fails that under the ranges `told` may hold; -1: none does.

        Of several profiles with such a conjunct it is asked of the one with the least id.
        """
        return int(_culprit(self._atoms, self._place[: self._used], self._id, values, told, ranges, came_by))

    def state(self) -> dict[str, Any]:
        """Plain data, for `load`: the atoms of all profiles, one below the other, and which slots they have."""
        ids, slots = self._ids.items()
        lines = self._atoms[slots]
        real = lines[:, :, _CONJUNCT] == lines[:, :, _CONJUNCT]
        spare = np.array(self._spare, np.int64)
        return {"id": ids, "slot": slots, "place": self._place[slots], "count": real.sum(axis=1),
                "atoms": lines[real], "spare": spare}  # fmt: skip

    def load(self, state: Any, values: int, atoms_of: Callable[[Floats], Any]) -> list[tuple[int, int, Any]]:
        """Hold these profiles, in these slots; there are so many values. Returns (id, place, atoms) of each.

        `atoms_of(lines)` is what of a profile the kind knows: it refuses what is none.
        """
        columns = check_columns(state, _STATE, {"places": self.places, "values": values})
        ids, slots, counts = columns["id"], columns["slot"], columns["count"]
        taken = np.concatenate([slots, columns["spare"]])
        if not np.array_equal(np.sort(taken), np.arange(taken.size)) or len(np.unique(ids)) < ids.size:
            raise BadState("profiles of a sieve share a slot")
        if counts.sum() != len(columns["atoms"]):
            raise BadState(f"{counts.sum()} atoms of profiles, and {len(columns['atoms'])} are there")
        keys = columns["atoms"][:, _KEY]
        named = keys[keys == keys]
        if not ((named >= 0) & (named < values) & (named == np.floor(named))).all():
            raise BadState("an atom of a sieve names a value that is not known")
        found = []
        self._used, self._spare = int(taken.size), columns["spare"].tolist()
        room = max(self._used, 8), int(counts.max(initial=1)), _COLUMNS
        self._atoms, self._place = np.full(room, np.nan), np.full(room[0], _FREE, np.int32)
        self._ids.add(ids, slots)
        self._id = np.zeros(room[0], np.int64)
        self._place[slots], self._id[slots] = columns["place"], ids
        ends = np.cumsum(counts)
        profiles = zip(ids.tolist(), columns["place"].tolist(), slots.tolist(), (ends - counts).tolist(), ends.tolist())
        for id_, place, slot, start, end in profiles:
            lines = columns["atoms"][start:end]
            found.append((id_, place, atoms_of(lines)))
            self._atoms[slot, : end - start] = lines
        return found

    def check(self) -> None:
        """Every invariant. O(slots)."""
        self._ids.check()
        _, slots = self._ids.items()
        taken = np.flatnonzero(self._place[: self._used] != _FREE)
        claim(np.array_equal(np.sort(slots), taken), "every slot that is taken has an id")
        claim(sorted(self._spare) == sorted(set(range(self._used)) - set(taken.tolist())), "the others are spare")
        claim((self._place[taken] < self.places).all(), "every place exists")

    def _make_room(self, slot: int, atoms: int) -> None:
        slots, width = self._atoms.shape[:2]
        if slot < slots and atoms <= width:
            return
        grown = np.full((2 * slots if slot >= slots else slots, max(atoms, width), _COLUMNS), np.nan)
        grown[:slots, :width] = self._atoms
        place = np.full(len(grown), _FREE, np.int32)
        place[:slots] = self._place
        self._atoms, self._place = grown, place
        self._id = np.concatenate((self._id, np.zeros(len(grown) - slots, np.int64)))


def everything(count: int) -> Floats:
    """Ranges of so many values of which nothing is known."""
    ranges = np.empty((count, 2))
    ranges[:] = -np.inf, np.inf
    return ranges


def range_of(value: Any) -> tuple[float, float]:
    """The range of a value that is known, or known not to be there."""
    return (np.inf, -np.inf) if value is None else (value, value)


@njit(cache=True)
def _may(atom, values, ranges):
    """Whether an atom holds for some value within its range."""
    operator = int(atom[_OPERATOR])
    epsilon = atom[_EPSILON] if atom[_EPSILON] == atom[_EPSILON] else 0.0
    if atom[_KEY] == atom[_KEY]:
        low, high = ranges[int(atom[_KEY]), 0], ranges[int(atom[_KEY]), 1]
        if low > high:
            return False
    else:
        low, high = atom[_CONSTANT], atom[_CONSTANT]
    if atom[_ATTRIBUTE] == atom[_ATTRIBUTE]:
        left = values[int(atom[_ATTRIBUTE])]
        if left != left:
            return False
        first, last = left, left
    else:
        # A context with a constant: the range stands on the left.
        first, last = low, high
        low, high = atom[_CONSTANT], atom[_CONSTANT]
    if operator == LESS:
        return first < high
    if operator == LESS_EQUAL:
        return first <= high
    if operator == EQUAL:
        return first <= high and last >= low
    if operator == UNEQUAL:
        return not (first == last and low == high and first == low)
    if operator == GREATER_EQUAL:
        return last >= low
    if operator == GREATER:
        return last > low
    return first <= high + epsilon and last >= low - epsilon


@njit(cache=True)
def _fails_at(line, values, ranges, start):
    """The first atom that cannot hold in the conjunct that begins at `start`, or -1; and where the next begins."""
    number = line[start, _CONJUNCT]
    failed = -1
    i = start
    while i < line.shape[0] and line[i, _CONJUNCT] == number:
        if failed < 0 and line[i, _OPERATOR] == line[i, _OPERATOR] and not _may(line[i], values, ranges):
            failed = i
        i += 1
    return failed, i


@njit(cache=True)
def _behind(atoms, place, values, ranges, came_by, out):
    for slot in range(place.size):
        at = place[slot]
        if at < 0 or at == came_by or out[at]:
            continue
        line = atoms[slot]
        i = 0
        while i < line.shape[0] and line[i, _CONJUNCT] == line[i, _CONJUNCT]:
            failed, i = _fails_at(line, values, ranges, i)
            if failed < 0:
                out[at] = True
                break


@njit(cache=True)
def _culprit(atoms, place, ids, values, told, ranges, came_by):
    best = found = -1
    for slot in range(place.size):
        if place[slot] < 0 or place[slot] == came_by or (best >= 0 and ids[slot] > best):
            continue
        line = atoms[slot]
        i = 0
        while i < line.shape[0] and line[i, _CONJUNCT] == line[i, _CONJUNCT]:
            start = i
            believed, i = _fails_at(line, values, told, start)
            if believed < 0:
                failed, _ = _fails_at(line, values, ranges, start)
                if failed >= 0 and line[failed, _KEY] == line[failed, _KEY]:
                    best, found = ids[slot], int(line[failed, _KEY])
                    break
    return found
