"""The kind `context`: profiles over messages and over contexts that keep changing.

A publication is a row of the values of all attributes, NaN where one is missing. A context is an entity of a
client, its owner, and has a value per attribute; an update is a row [context, attribute, value], NaN where the
value is no longer known, and its word names the value (`value_word`). A profile is a row of atoms, seven numbers
each, in the order of their conjuncts and padded with NaN:

    [conjunct, attribute, operator, context, context attribute, constant, epsilon]

NaN stands for what an atom does not have: the message attribute, or the context and its attribute, or the
constant. The operator is its place in `brokers.indexes.context.contract.OPERATORS`, which defines what holds;
a conjunct's number alone, six times NaN behind it, is a conjunct without atoms. All values are numbers.

The definition: a publication reaches the clients of whose profiles one holds for it, contexts being as they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator

from brokers.contract import Floats, Ints, Kind
from brokers.errors import InvalidInput
from brokers.indexes.context.brute import Brute
from brokers.indexes.context.contract import OPERATORS, BadProfile, Schema
from brokers.kinds import KindManifest
from protocols.context.manifest import CONTEXT

PUBLISH, UPDATE, SUBSCRIBE, UNSUBSCRIBE = 0, 1, 2, 3
ATOM = 7  # numbers of an atom

_VALUE_BIT = 1 << 62  # tells the name of a value from the id of an interest
_ATTRIBUTE_BITS = 16
CONTEXTS_MAX = 1 << 45
_COLUMNS = ("conjunct", "attribute", "operator", "context", "context attribute")
_HEADER_BYTES = 24
_VALUE_BYTES = 9  # a float64 in msgpack


def value_word(context: Any, attribute: Any) -> Any:
    """The name of a context's value: of numbers, or of arrays."""
    return _VALUE_BIT | (context << _ATTRIBUTE_BITS) | attribute


def is_value(word: int) -> bool:
    """Whether a word names a value, and no interest."""
    return bool(word & _VALUE_BIT)


def value_of(word: Any) -> tuple[Any, Any]:
    """The (context, attribute) that a value's name stands for: of a number, or of arrays."""
    word = word ^ _VALUE_BIT
    return word >> _ATTRIBUTE_BITS, word & ((1 << _ATTRIBUTE_BITS) - 1)


class Params(BaseModel):
    """Parameters of a `context` service."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    attributes: Annotated[
        int, Field(ge=1, le=1000, description="attributes of a publication, and of each context")
    ] = 4
    indexed: Annotated[
        int, Field(ge=1, le=250, description="the first so many attributes are indexed, where the index chooses")
    ] = 2
    domain: Annotated[
        tuple[float, float], Field(description="where values are expected; others are allowed")
    ] = (0.0, 1.0)

    @field_validator("domain")
    @classmethod
    def _wide(cls, domain: tuple[float, float]) -> tuple[float, float]:
        if not 0.0 < domain[1] - domain[0] < float("inf"):
            raise ValueError(f"a domain runs from low to high, not too far; {domain[0]:g} to {domain[1]:g} does not")
        return domain


class Context(Kind):
    """See the module."""

    manifest: ClassVar[KindManifest] = CONTEXT
    types: ClassVar[Mapping[str, int]] = {
        "publish": PUBLISH,
        "update": UPDATE,
        "subscribe": SUBSCRIBE,
        "unsubscribe": UNSUBSCRIBE,
    }
    publications: ClassVar[frozenset[int]] = frozenset({PUBLISH})
    changes: ClassVar[frozenset[int]] = frozenset({UPDATE, SUBSCRIBE, UNSUBSCRIBE})
    interests: ClassVar[frozenset[int]] = frozenset({SUBSCRIBE})
    revocations: ClassVar[frozenset[int]] = frozenset({UNSUBSCRIBE})
    replacements: ClassVar[frozenset[int]] = frozenset({UPDATE})
    Params: ClassVar[type[BaseModel]] = Params

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__({**Params().model_dump(), **params})
        self.attributes: int = self.params["attributes"]
        names = {str(a): "number" for a in range(self.attributes)}
        self.schema = Schema(names, names)

    def new_index(self, index: type) -> Any:
        takes = inspect.signature(index).parameters
        given: dict[str, Any] = {}
        if "indexed" in takes:
            given["indexed"] = tuple(self.schema.message)[: self.params["indexed"]]
        if "scope" in takes:  # PARTIAL's: what reaches beyond where values are expected is always a candidate
            given["scope"] = tuple(self.params["domain"])
        return index(self.schema, **given)

    def row_bytes(self, type: int, rows: Floats) -> Ints:
        present = np.count_nonzero(~np.isnan(rows), axis=1)
        return (_HEADER_BYTES + _VALUE_BYTES * present).astype(np.int64)

    def row_to_object(self, type: int, row: Floats) -> Any:
        """A publication as {attribute: value}, an update as [context, attribute, value], a profile as plain data."""
        if type == PUBLISH:
            return self.message(row)
        if type == UPDATE:
            return list(self.update(row))
        return self.profile(row)

    def amiss(self, type: int, row: Floats | None) -> str | None:
        if type == UNSUBSCRIBE:
            return None if row is None else "a message of this type has no body; leave it out"
        if row is None:
            return "it needs a body: values, or a context, attribute and value, or atoms"
        sizes = {PUBLISH: row.size == self.attributes, UPDATE: row.size == 3, SUBSCRIBE: row.size % ATOM == 0}
        if not sizes[type]:
            told = {PUBLISH: f"{self.attributes} values", UPDATE: "context, attribute, value", SUBSCRIBE: "atoms of 7"}
            return f"{row.size} numbers, where there have to be {told[type]}"
        return super().amiss(type, row)

    def word_of(self, type: int, row: Floats) -> int | None:
        return value_word(int(row[0]), int(row[1])) if type == UPDATE else None

    def message(self, row: Floats) -> dict[str, float]:
        """A publication as an index takes it."""
        return {str(a): v for a, v in enumerate(np.asarray(row)[: self.attributes].tolist()) if v == v}

    def update(self, row: Floats) -> tuple[int, int, float | None]:
        """(context, attribute, value) of an update, the value None where it is not known."""
        context, attribute, value = np.asarray(row)[:3].tolist()
        if not (0 <= context < CONTEXTS_MAX and context == int(context)):
            raise InvalidInput(f"an update of context {context:g}; contexts are whole numbers below 2**45")
        if not (0 <= attribute < self.attributes and attribute == int(attribute)):
            raise InvalidInput(f"an update of attribute {attribute:g}; contexts have 0 to {self.attributes - 1}")
        if value in (np.inf, -np.inf):
            raise InvalidInput(f"context {context:g}: the value {value:g} is not finite; NaN says it is not known")
        return int(context), int(attribute), value if value == value else None

    def atoms(self, row: Floats) -> Floats:
        """The atoms of a profile's row, one per line, or BadProfile."""
        numbers = np.asarray(row, np.float64)
        atoms = numbers[: numbers.size // ATOM * ATOM].reshape(-1, ATOM)
        atoms = atoms[~np.isnan(atoms[:, 0])]
        if not len(atoms):
            raise BadProfile("a profile without conjuncts never holds; pass at least one")
        if (np.diff(atoms[:, 0]) < 0).any():
            raise BadProfile(f"atoms come in the order of their conjuncts, not {atoms[:, 0].tolist()}")
        for column, end in ((1, self.attributes), (2, len(OPERATORS)), (3, CONTEXTS_MAX), (4, self.attributes)):
            said = atoms[~np.isnan(atoms[:, column]), column]
            wrong = said[(said < 0) | (said >= end) | (said != np.floor(said))]
            if wrong.size:
                raise BadProfile(f"the {_COLUMNS[column]} of an atom is {wrong[0]:g}; it is one of 0 to {end - 1}")
        return atoms

    def profile(self, row: Floats) -> list[list[list[Any]]]:
        """A profile as an index takes it: what the contract of context filters calls plain data."""
        conjuncts: dict[float, list[list[Any]]] = {}
        for number, attribute, operator, context, of, constant, epsilon in self.atoms(row).tolist():
            conjunct = conjuncts.setdefault(number, [])
            if operator != operator:
                continue
            sign = OPERATORS[int(operator)]
            operands: list[Any] = []
            if attribute == attribute:
                operands.append(["message", str(int(attribute))])
            if context == context:
                operands.append(["context", int(context), str(int(of))])
            if constant == constant:
                operands.append(constant)
            if len(operands) != 2:
                raise BadProfile(f"an atom has two of message attribute, context and constant, not {len(operands)}")
            conjunct.append([operands[0], sign, operands[1], *([epsilon] if sign == "~" else [])])
        return list(conjuncts.values())

    def oracle(self, interests: Mapping[int, Any], message: Any) -> set[int]:
        """Which profiles hold if the rows under names of values are the values, and all others are profiles."""
        index = Brute(self.schema)
        for id_, row in interests.items():
            if is_value(id_):
                context, attribute, value = self.update(row)
                index.update_context(context, str(attribute), value)
            else:
                index.insert([id_], [self.profile(row)])
        return set(index.handle_message(self.message(message)).tolist())


def row_of(profile: list[list[list[Any]]], width: int = 0) -> list[float]:
    """A profile's row from plain data whose atoms have the message, or else the context, on the left."""
    row: list[float] = []
    nan = float("nan")
    for number, conjunct in enumerate(profile):
        for left, sign, right, *epsilon in conjunct:
            message = left if left[0] == "message" else None
            context = next((o for o in (left, right) if isinstance(o, list) and o[0] == "context"), None)
            constant = nan if isinstance(right, list) else float(right)
            row += [
                number, nan if message is None else int(message[1]), OPERATORS.index(sign),
                *((nan, nan) if context is None else (context[1], int(context[2]))),
                constant, epsilon[0] if epsilon else nan,
            ]  # fmt: skip
        if not conjunct:
            row += [number, *[nan] * (ATOM - 1)]
    return row + [nan] * (width - len(row))
