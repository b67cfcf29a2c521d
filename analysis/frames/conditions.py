"""Which rows of a table: what people say of clients, brokers, messages and times, as conditions on its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brokers.engine.parts import one_line
from brokers.engine.runfolder import RunFolder
from brokers.errors import InvalidInput
from brokers.faults import REASONS
from brokers.naming import message_id
from topology.errors import TopologyError
from topology.overlay import broker_number
from topology.units import QuantityError, parse_duration

if TYPE_CHECKING:
    import pyarrow as pa

BROKERS, CLIENTS = ("broker", "from", "to"), ("client", "stay")
MESSAGES = ("publication", "change", "depends_on", "interest", "body", "cause")
KINDS = ("fault", "message", "timer")  # of events
_TIMES = ("time_ns", "issued_ns", "begin_ns", "start_ns")  # which of them a table has, it goes by


@dataclass(frozen=True)
class Condition:
    """What Arrow filters by, and how it was said."""

    expression: Any
    text: str


def both(first: Condition | None, second: Condition | None) -> Condition | None:
    """Rows for which both hold; None is no condition."""
    if first is None or second is None:
        return first or second
    return Condition(first.expression & second.expression, f"{first.text}, {second.text}")


def condition_of(
    run: RunFolder, table: str, expressions: Sequence[Any], equal: Mapping[str, Any]
) -> Condition | None:
    """Rows for which expressions of Arrow hold, and whose columns have these values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    schema = _schema(run, table)
    found: Condition | None = None
    for expression in expressions:
        if not isinstance(expression, pc.Expression):
            raise InvalidInput(
                f"where: {expression!r} is no expression of pyarrow; say column=value, or as in "
                "pyarrow.compute.field('time_ns') > 5"
            )
        found = both(found, _tried(schema, table, Condition(expression, str(expression))))
    for column, wanted in equal.items():
        if column not in schema.names:
            raise InvalidInput(f"where: table {table!r} has no column {column!r}; it has {_listed(schema)}")
        several = isinstance(wanted, list | tuple | set | frozenset | range)
        values = [_value(run, table, column, each) for each in (wanted if several else (wanted,))]
        try:
            there = pa.array(values, schema.field(column).type)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise InvalidInput(f"where: {column}={wanted!r}: {one_line(error)}") from None
        found = both(found, _tried(schema, table, Condition(pc.field(column).isin(there), f"{column}={wanted!r}")))
    return found


def _tried(schema: pa.Schema, table: str, wanted: Condition) -> Condition:
    """A condition that Arrow can ask of a table, tried on one without rows."""
    import pyarrow as pa

    try:
        schema.empty_table().filter(wanted.expression)
    except (pa.ArrowException, TypeError) as error:
        raise InvalidInput(f"where: {wanted.text}: {one_line(error)}; {table!r} has {_listed(schema)}") from None
    return wanted


def period(run: RunFolder, table: str, since: str | int | None, until: str | int | None) -> Condition | None:
    """Rows from a time on, up to before another."""
    import pyarrow.compute as pc

    found: Condition | None = None
    for name, moment in (("since", since), ("until", until)):
        if moment is not None:
            column, at = pc.field(time_column(run, table)), nanoseconds(moment, name)
            found = both(found, Condition(column >= at if name == "since" else column < at, f"{name} {moment}"))
    return found


def time_column(run: RunFolder, table: str) -> str:
    """The column that says when a row of a table was."""
    names = _schema(run, table).names
    found = next((name for name in _TIMES if name in names), None)
    if found is None:
        raise InvalidInput(f"table {table!r} has no time to go by; it has {', '.join(names)}")
    return found


def is_timed(run: RunFolder, table: str) -> bool:
    """Whether there is such a column."""
    return not set(_TIMES).isdisjoint(_schema(run, table).names)


def nanoseconds(moment: str | int, what: str) -> int:
    """A time as people write it, or in nanoseconds."""
    if isinstance(moment, int) and not isinstance(moment, bool):
        return moment
    try:
        return parse_duration(moment)
    except (QuantityError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{what}: {error}") from None


def service_number(run: RunFolder, service: str | int) -> int:
    """The number of a service, from its name or its number."""
    names = [each["name"] for each in run.manifest["scenario"]["services"]]
    if service in names:
        return names.index(service)
    if isinstance(service, int) and 0 <= service < len(names):
        return service
    raise InvalidInput(f"{run.path}: there is no service {service!r}; there are {', '.join(names)}")


def _value(run: RunFolder, table: str, column: str, wanted: Any) -> Any:
    """What a column holds, from what was said."""
    if column == "service":
        return service_number(run, wanted)
    if column in BROKERS and wanted != -1 and "brokers" in run.tables():
        return _broker(run, wanted)
    if column in CLIENTS and wanted != -1:
        return _client(run, wanted)
    if column in MESSAGES and isinstance(wanted, str):
        return message_id(wanted, run.rows("brokers"))
    if column.endswith("_ns"):
        return nanoseconds(wanted, column)
    words = {"losses.reason": REASONS, "hops.kind": KINDS}.get(f"{table}.{column}", ())
    if isinstance(wanted, str) and words:
        if wanted not in words:
            raise InvalidInput(f"where: {column}={wanted!r}; there are {', '.join(words)}")
        return words.index(wanted)
    return wanted


def _broker(run: RunFolder, wanted: Any) -> int:
    names = run.read("brokers", ["broker", "name"]).sort_by("broker")["name"].to_pylist()
    try:
        return broker_number(wanted, {name: at for at, name in enumerate(names)}, f"{run.path}")
    except TopologyError as error:
        raise InvalidInput(str(error)) from None


def _client(run: RunFolder, wanted: Any) -> int:
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 0:
        raise InvalidInput(f"where: clients go by their number, from 0 (got {wanted!r})")
    return int(wanted) + run.rows("brokers")


def _schema(run: RunFolder, table: str) -> pa.Schema:
    """Names and types of a table's columns, as the manifest has them. Reads no part."""
    import pyarrow as pa

    def type_of(name: str) -> pa.DataType:
        return pa.list_(type_of(name[5:-1])) if name.startswith("list<") else pa.type_for_alias(name)

    return pa.schema([(name, type_of(told)) for name, told in run.manifest["tables"][table]["columns"]])


def _listed(schema: pa.Schema) -> str:
    return ", ".join(schema.names)
