"""The context-filter contract: which profiles does a message satisfy, given the contexts as they are now?

A filter has two inputs, one after the other: `handle_message` asks, `update_context` sets `context.attribute`.
An update counts from the next message on; no message is answered on an older value.

A profile is plain data, as msgpack carries it: a list of conjuncts, one of which has to hold (disjunctive
normal form); a conjunct is a list of atoms, all of which have to hold; an atom is a list

    [left, operator, right]            operator: <  <=  =  !=  >=  >
    [left, "~", right, epsilon]        right - epsilon <= left <= right + epsilon

whose operands are `["message", attribute]`, `["context", id, attribute]` or a constant. At least one operand
is a reference, and not both of one kind: a message is compared with a constant or a context, a context with
a constant. `~` means the same either way round: the message, or else the context, is taken as the left. A
conjunct without atoms holds for every message; a profile without conjuncts is refused.

Values are of three types, which the schema names for each attribute:
- "number": finite, as float64;
- "date": `date`, `datetime` or an ISO 8601 string, as microseconds since 1970 (UTC where no zone is given);
  an epsilon between dates is in seconds;
- "string": any str, ordered by code points; without `~`.

What is missing fails: an atom on an attribute that the message lacks, or on a context value that is not
known, does not hold, `!=` included.

`Atom.holds` is the one definition of the answer; the oracle asks it, and the fast filters are held to it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, ClassVar

import numpy as np

from brokers.errors import InvalidInput
from brokers.indexes.contract import Ids, Index

Value = float | str  # a checked value: dates are microseconds

TYPES = ("number", "date", "string")
OPERATORS = ("<", "<=", "=", "!=", ">=", ">", "~")
ATTRIBUTES_MAX = 32_000  # attributes are kept as int16
CONTEXT_MAX = (1 << 63) - 1
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS_MAX = 1 << 53  # beyond, a float64 skips microseconds


class BadProfile(InvalidInput):
    """Data that is no profile of this schema."""


class BadMessage(InvalidInput):
    """Data that is no message of this schema."""


class BadValue(InvalidInput):
    """A value that is not finite, or not of the type that the schema names."""


class UnknownAttribute(InvalidInput):
    """An attribute that the schema does not name."""


class UnknownContext(InvalidInput):
    """A context that no profile and no update has named."""


@dataclass(frozen=True)
class Schema:
    """The attributes of messages and of contexts, and the type of each."""

    message: Mapping[str, str]
    context: Mapping[str, str]

    def __post_init__(self) -> None:
        for side, attributes in (("message", self.message), ("context", self.context)):
            if len(attributes) > ATTRIBUTES_MAX:
                raise InvalidInput(f"{len(attributes)} {side} attributes; there are at most {ATTRIBUTES_MAX}")
            for name, type_ in attributes.items():
                if type_ not in TYPES:
                    raise InvalidInput(f"{side} attribute {name!r} has type {type_!r}; types: {', '.join(TYPES)}")

    def message_type(self, attribute: Any) -> str:
        return _type_of(self.message, attribute, "message")

    def context_type(self, attribute: Any) -> str:
        return _type_of(self.context, attribute, "context")


@dataclass(frozen=True)
class Atom:
    """One checked comparison: the message attribute, or else the context value, stands on the left.

    `attribute` is None for an atom that compares a context with `constant`; `context` is None for one that
    compares the message with it.
    """

    attribute: str | None
    operator: str
    context: tuple[int, str] | None
    constant: Value | None
    epsilon: float = 0.0

    def holds(self, message: Mapping[str, Value], contexts: Mapping[tuple[int, str], Value]) -> bool:
        """The definition."""
        known = None if self.context is None else contexts.get(self.context)
        left = known if self.attribute is None else message.get(self.attribute)
        right = known if self.attribute is not None and self.context is not None else self.constant
        if left is None or right is None:
            return False
        return compare(left, self.operator, right, self.epsilon)


def compare(left: Any, operator: str, right: Any, epsilon: float = 0.0) -> bool:
    """Two checked values of one type."""
    if operator == "=":
        return bool(left == right)
    if operator == "!=":
        return bool(left != right)
    if operator == "<":
        return bool(left < right)
    if operator == "<=":
        return bool(left <= right)
    if operator == ">":
        return bool(left > right)
    if operator == ">=":
        return bool(left >= right)
    return bool(right - epsilon <= left <= right + epsilon)


Profile = list[list[Atom]]


class ContextFilter(Index):
    """Profiles and context values in, the ids of the profiles that a message satisfies out, ascending."""

    question: ClassVar[str] = "context-filter"
    schema: Schema

    @abstractmethod
    def insert(self, ids: Any, profiles: Sequence[Any]) -> None:
        """Add profiles: plain data, one per id."""

    @abstractmethod
    def delete(self, ids: Any) -> None:
        """Remove profiles by id. Context values stay."""

    @abstractmethod
    def handle_message(self, message: Mapping[str, Any]) -> Ids:
        """The ids of the profiles that the message satisfies, ascending."""

    @abstractmethod
    def update_context(self, context: int, attribute: str, value: Any) -> None:
        """Set a value; None makes it unknown. A context that no profile refers to is kept as well."""

    @abstractmethod
    def context_value(self, context: int, attribute: str) -> Value | None:
        """The value as it is now (a date in microseconds), None where it is unknown."""


def checked_profile(profile: Any, schema: Schema) -> Profile:
    """A profile from plain data, or an error that says where it is wrong. O(atoms)."""
    if not _is_list(profile):
        raise BadProfile(f"a profile is a list of conjuncts, not {profile!r}")
    if not profile:
        raise BadProfile("a profile without conjuncts never holds; pass at least one")
    checked = []
    for i, conjunct in enumerate(profile):
        if not _is_list(conjunct):
            raise BadProfile(f"conjunct {i} is a list of atoms, not {conjunct!r}")
        atoms = []
        for j, atom in enumerate(conjunct):
            try:
                atoms.append(_checked_atom(atom, schema))
            except InvalidInput as error:
                raise type(error)(f"conjunct {i}, atom {j}: {error}") from None
        checked.append(atoms)
    return checked


def checked_profiles(profiles: Any, schema: Schema, count: int) -> list[Profile]:
    """Profiles of one call, or an error that says which one is wrong."""
    if not _is_list(profiles):
        raise BadProfile(f"profiles are a list, not {type(profiles).__name__}")
    if len(profiles) != count:
        raise BadProfile(f"{len(profiles)} profiles for {count} ids; pass one profile per id")
    checked = []
    for i, profile in enumerate(profiles):
        try:
            checked.append(checked_profile(profile, schema))
        except InvalidInput as error:
            raise type(error)(f"profile {i}: {error}") from None
    return checked


def checked_message(message: Any, schema: Schema) -> dict[str, Value]:
    """A message with every value checked. Attributes may be missing."""
    if not isinstance(message, Mapping):
        raise BadMessage(f"a message is a mapping of attributes to values, not {type(message).__name__}")
    return {
        attribute: checked_value(value, schema.message_type(attribute), f"message attribute {attribute!r}")
        for attribute, value in message.items()
    }


def checked_context(context: Any) -> int:
    """The id of a context."""
    if isinstance(context, bool) or not isinstance(context, int | np.integer):
        raise InvalidInput(f"a context is named by an integer, not {context!r}")
    if not 0 <= context <= CONTEXT_MAX:
        raise InvalidInput(f"context {context} lies outside 0..2**63 - 1")
    return int(context)


def checked_value(value: Any, type_: str, what: str) -> Value:
    """A value of the given type, or BadValue."""
    if type_ == "string":
        if not isinstance(value, str):
            raise BadValue(f"{what} is {value!r}; its type is string")
        return str(value)
    if type_ == "date":
        return _microseconds(value, what)
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise BadValue(f"{what} is {value!r}; its type is number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise BadValue(f"{what} is {value!r}; numbers are finite")
    return number


def references(profile: Profile) -> set[tuple[int, str]]:
    """The context values that a checked profile refers to."""
    return {atom.context for conjunct in profile for atom in conjunct if atom.context is not None}


def _checked_atom(atom: Any, schema: Schema) -> Atom:
    if not _is_list(atom) or len(atom) not in (3, 4):
        raise BadProfile(f"{atom!r} is no [left, operator, right] and no [left, '~', right, epsilon]")
    left, operator, right = atom[:3]
    if operator not in OPERATORS:
        raise BadProfile(f"no operator {operator!r}; operators: {' '.join(OPERATORS)}")
    if (operator == "~") != (len(atom) == 4):
        raise BadProfile(f"{list(atom)!r}: an epsilon goes with '~', and with nothing else")
    sides = [_reference(operand, schema) for operand in (left, right)]
    kinds = [None if side is None else side[0] for side in sides]
    if kinds[0] == kinds[1]:
        raise BadProfile(
            f"{list(atom)!r} compares two {'constants' if kinds[0] is None else kinds[0] + ' values'}; "
            "compare a message with a constant or a context, or a context with a constant"
        )
    first = "message" if "message" in kinds else "context"
    if kinds[1] == first:
        left, right, sides = right, left, sides[::-1]
        operator = _MIRRORED.get(operator, operator)
    subject, other = sides
    assert subject is not None
    type_ = subject[1]
    if other is not None and other[1] != type_:
        raise BadProfile(f"{list(atom)!r} compares a {type_} with a {other[1]}")
    if operator == "~" and type_ == "string":
        raise BadProfile(f"{list(atom)!r}: strings have no '~'; compare them with =, <, <=, > or >=")
    epsilon = _epsilon(atom[3], type_) if operator == "~" else 0.0
    attribute = left[1] if first == "message" else None
    if other is not None:
        return Atom(attribute, operator, (checked_context(right[1]), right[2]), None, epsilon)
    constant = checked_value(right, type_, "the constant")
    context = None if first == "message" else (checked_context(left[1]), left[2])
    return Atom(attribute, operator, context, constant, epsilon)


def _reference(operand: Any, schema: Schema) -> tuple[str, str] | None:
    """(message or context, type) of a reference; None for a constant."""
    if not _is_list(operand):
        return None
    if len(operand) == 2 and operand[0] == "message":
        return "message", schema.message_type(operand[1])
    if len(operand) == 3 and operand[0] == "context":
        return "context", schema.context_type(operand[2])
    raise BadProfile(f"{list(operand)!r} is no ['message', attribute] and no ['context', id, attribute]")


def _epsilon(epsilon: Any, type_: str) -> float:
    checked = checked_value(epsilon, "number", "the epsilon")
    assert isinstance(checked, float)
    if checked < 0:
        raise BadValue(f"the epsilon is {epsilon!r}; it is at least 0")
    return checked * 1e6 if type_ == "date" else checked


def _microseconds(value: Any, what: str) -> float:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise BadValue(f"{what} is {value!r}; a date is an ISO 8601 string, e.g. '2026-11-18'") from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(value, datetime):
        raise BadValue(f"{what} is {value!r}; its type is date")
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    since = value - _EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if abs(micros) > _MICROSECONDS_MAX:
        raise BadValue(f"{what} is {value.isoformat()}; dates lie between 1684 and 2255")
    return float(micros)


def _type_of(attributes: Mapping[str, str], attribute: Any, side: str) -> str:
    if not isinstance(attribute, str) or attribute not in attributes:
        known = ", ".join(attributes) or "none"
        raise UnknownAttribute(f"no {side} attribute {attribute!r}; the schema names: {known}")
    return attributes[attribute]


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
