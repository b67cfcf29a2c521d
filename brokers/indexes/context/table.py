"""Profiles as flat arrays: what plain data is turned into, and what large workloads are made of directly.

Values become float64 keys in the order of the values: numbers and dates exactly; of a string the first six
bytes (UTF-8, whose order is that of code points), so that an atom on strings is widened to what its keys
say, and settled by the definition once all else in the conjunct holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokers.indexes.context.contract import OPERATORS, Atom, BadProfile, Profile, Schema, Value

LESS, LESS_EQUAL, EQUAL, UNEQUAL, GREATER_EQUAL, GREATER, WITHIN, KNOWN = range(8)
_WIDENED = {LESS: LESS_EQUAL, GREATER: GREATER_EQUAL, UNEQUAL: KNOWN}
_PREFIX_BYTES = 6


@dataclass
class ProfileTable:
    """Profile i has the conjuncts conjuncts[i]:conjuncts[i + 1]; conjunct j the atoms atoms[j]:atoms[j + 1]."""

    conjuncts: NDArray[np.int64]
    atoms: NDArray[np.int64]
    attribute: NDArray[np.int16]  # of the message, in the schema's order; -1: the atom is on the context alone
    operator: NDArray[np.int8]  # LESS .. WITHIN as in OPERATORS; KNOWN holds for any value that is known
    context: NDArray[np.int64]  # -1: the atom compares with its constant
    context_attribute: NDArray[np.int16]
    constant: NDArray[np.float64]
    epsilon: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.conjuncts) - 1

    def check(self, schema: Schema) -> None:
        """Raise BadProfile unless the arrays describe profiles of the schema. O(atoms)."""
        count = len(self.attribute)
        columns = (self.operator, self.context, self.context_attribute, self.constant, self.epsilon)
        _demand(all(len(column) == count for column in columns), "its columns differ in length")
        for name, ptr, end in (("conjuncts", self.conjuncts, len(self.atoms) - 1), ("atoms", self.atoms, count)):
            ascends = len(ptr) > 0 and ptr[0] == 0 and ptr[-1] == end and (ptr[1:] >= ptr[:-1]).all()
            _demand(ascends, f"{name!r} does not ascend from 0 to {end}")
        _demand((self.conjuncts[1:] > self.conjuncts[:-1]).all(), "a profile has no conjunct")
        bound = self.context >= 0
        _demand((bound | (self.attribute >= 0)).all(), "an atom names neither message nor context")
        _demand((self.attribute < len(schema.message)).all(), "a message attribute is not in the schema")
        inside = (self.context_attribute >= 0) & (self.context_attribute < len(schema.context))
        _demand(inside[bound].all(), "a context attribute is not in the schema")
        _demand(((self.operator >= LESS) & (self.operator <= KNOWN)).all(), "an operator is unknown")
        _demand(np.isfinite(self.constant[~bound | (self.attribute < 0)]).all(), "a constant is not finite")
        _demand((np.isfinite(self.epsilon) & (self.epsilon >= 0)).all(), "an epsilon is not finite or below 0")


def from_profiles(profiles: Sequence[Profile], schema: Schema) -> ProfileTable:
    """Checked profiles as a table. O(atoms)."""
    message = {name: i for i, name in enumerate(schema.message)}
    context = {name: i for i, name in enumerate(schema.context)}
    conjuncts = [0]
    atoms = [0]
    rows: list[tuple[int, int, int, int, float, float]] = []
    for profile in profiles:
        for conjunct in profile:
            rows.extend(_row(atom, message, context, schema) for atom in conjunct)
            atoms.append(len(rows))
        conjuncts.append(len(atoms) - 1)
    columns = list(zip(*rows)) if rows else [()] * 6
    return ProfileTable(
        np.array(conjuncts, np.int64), np.array(atoms, np.int64),
        np.array(columns[0], np.int16), np.array(columns[1], np.int8), np.array(columns[2], np.int64),
        np.array(columns[3], np.int16), np.array(columns[4], np.float64), np.array(columns[5], np.float64),
    )


def key_of(value: Value) -> float:
    """A float64 in the order of the values."""
    if isinstance(value, str):
        prefix = value.encode("utf-8", "surrogatepass")[:_PREFIX_BYTES]
        return float(int.from_bytes(prefix.ljust(_PREFIX_BYTES, b"\0"), "big"))
    return value


def is_textual(atom: Atom, schema: Schema) -> bool:
    """Whether an atom compares strings, which keys do not settle."""
    if atom.attribute is not None:
        return schema.message[atom.attribute] == "string"
    assert atom.context is not None
    return schema.context[atom.context[1]] == "string"


def _row(
    atom: Atom, message: dict[str, int], context: dict[str, int], schema: Schema
) -> tuple[int, int, int, int, float, float]:
    operator = OPERATORS.index(atom.operator)
    if is_textual(atom, schema):
        operator = _WIDENED.get(operator, operator)
    number, name = (-1, None) if atom.context is None else atom.context
    return (
        -1 if atom.attribute is None else message[atom.attribute],
        operator,
        number,
        -1 if name is None else context[name],
        0.0 if atom.constant is None else key_of(atom.constant),
        atom.epsilon,
    )


def _demand(holds: object, otherwise: str) -> None:
    if not holds:
        raise BadProfile(f"the table of profiles is no table: {otherwise}")
