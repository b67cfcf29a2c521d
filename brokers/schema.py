"""Tables of the trace as data: what a kind declares of its own is made of these.

`brokers.engine.trace_schema` holds the tables that every run has, with the rules that all of them follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from brokers.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 3
LEVELS = ("none", "summary", "deliveries", "full")

_ENCODING = {
    "int8": "dictionary",
    "int16": "dictionary",
    "int32": "delta",
    "int64": "delta",
    "float64": "plain",
    "string": "plain",
    "list<float64>": "plain",
}


def column_types() -> tuple[str, ...]:
    """The types that columns can have."""
    return tuple(_ENCODING)


@dataclass(frozen=True)
class Column:
    """One column. `encoding` is delta, dictionary or plain; empty means what suits the type."""

    name: str
    type: str
    prose: str
    encoding: str = ""

    def __post_init__(self) -> None:
        if self.type not in _ENCODING:
            raise InvalidInput(f"column {self.name!r}: type {self.type!r} is none of {', '.join(_ENCODING)}")
        allowed = {"", "plain"}
        if self.type != "list<float64>":
            allowed.add("dictionary")
        if self.type.startswith("int"):
            allowed.add("delta")
        if self.encoding not in allowed:
            raise InvalidInput(f"column {self.name!r}: {self.type} cannot be encoded as {self.encoding!r}")
        object.__setattr__(self, "encoding", self.encoding or _ENCODING[self.type])


@dataclass(frozen=True)
class Table:
    """One table: written at `level` and at every level above it.

    `asked_by` is the option of its protocol without which it has no rows, if there is one.
    """

    prose: str
    level: str
    columns: tuple[Column, ...]
    model: bool = True
    asked_by: str = ""

    def __post_init__(self) -> None:
        if self.level not in LEVELS[1:]:
            raise InvalidInput(f"trace level {self.level!r} of a table is none of {', '.join(LEVELS[1:])}")
        names = [column.name for column in self.columns]
        if not names or len(set(names)) != len(names):
            raise InvalidInput(f"the columns of a table need different names, and at least one (got {names})")

    @property
    def levels(self) -> tuple[str, ...]:
        """The trace levels at which the table is written."""
        return LEVELS[LEVELS.index(self.level) :]

    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the table's parts."""
        return _arrow_schema(self.columns)


@lru_cache(maxsize=256)
def _arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    import pyarrow as pa

    plain = {name: pa.type_for_alias(name) for name in _ENCODING if not name.startswith("list")}
    plain["list<float64>"] = pa.list_(pa.field("element", pa.float64(), nullable=False))
    fields = [pa.field(column.name, plain[column.type], nullable=False) for column in columns]
    return pa.schema(fields, metadata={"brokerlab.schema": str(SCHEMA_VERSION)})
