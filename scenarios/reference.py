"""The page that lists every key of a scenario: `python -m scenarios.reference > docs/scenarios.md`.

Written from the models that check scenarios, so that page and program cannot drift; a test compares them.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from brokers import names
from scenarios import parameters
from scenarios.schema import ScenarioModel
from topology import units
from topology.sections import Section

_QUANTITIES = {
    units.parse_duration: ("duration", units.format_duration),
    units.parse_cost: ("duration", lambda value: f"{value:g} ns"),
    units.parse_rate: ("rate", units.format_rate),
    units.parse_size: ("size", units.format_size),
    units.parse_bandwidth: ("bandwidth", units.format_bandwidth),
    units.parse_fraction: ("fraction", lambda value: f"{value:g}"),
}
_PLAIN = {int: "whole number", float: "number", str: "text", bool: "true or false", type(None): "nothing"}

INTRODUCTION = """\
# Scenario files

A scenario says what network of brokers there is, who is attached to it, and what they do. It is YAML 1.2;
unknown and repeated keys are refused, and all mistakes are shown at once:

    brokerlab init study                          # a commented scenario to start from
    brokerlab validate study/scenario.yaml
    brokerlab run study/scenario.yaml --set links.delay='5 ms' --set services.news.workload.publish.rate=50/s

`--set` replaces any value for one run; entries of a list go by number, or by their `name` or `source`.
`brokerlab schema` prints a JSON Schema for editors. Wherever a name stands for a kind, protocol, index,
workload or topology, `package.module:Name` may stand as well; the module may lie beside the scenario. Such code is
imported only if you say `--trust` ([security.md](security.md)). Relative paths start at the scenario.

Brokers go by number, from 0, or by name; where a number is also the name of another broker, that is refused until you
write `number:5` or `name:5`. Clients go by number, from 0 in the order of their groups.

This page is written by `python -m scenarios.reference`, from the models that check scenarios.

## Quantities

| quantity | units | without a unit |
|---|---|---|
"""


def page() -> str:
    """The whole page as Markdown."""
    parts = [INTRODUCTION + "\n".join(_unit_rows())]
    parts += ["## Sections", _table(_rows(ScenarioModel, ""))]
    parts += ["## Parameters of topologies", "They stand beside `kind` in the section `topology`."]
    for name, entry in names.table("topologies").items():
        parts += [f"### {name}", _sentence(entry.prose), _table(_rows(parameters.topology_model(name), ""))]
    parts += ["## Parameters of kinds", "They stand beside `kind` in a service."]
    parts += _group("kinds", "Params")
    parts += ["## Options of protocols", "They stand in the section `options` of a service."]
    parts += _group("protocols", "Options")
    parts += ["## Parameters of behaviours", "They stand beside `behaviour` in an entry of `attackers` of a service."]
    parts += _group("behaviours", "Params")
    parts += ["## Parameters of workloads", "They stand beside `source` in an entry of `workload`."]
    parts += _group("workloads", "Params")
    parts += ["## Parameters of faults", "They stand beside `fault` in an entry of `faults.schedule`."]
    parts += _group("faults", "Params")
    parts += ["## Parameters of connections", "They stand beside `kind` in the section `connections` of a group."]
    parts += _group("connections", "Params")
    parts += ["## Parameters of mobility", "They stand beside `kind` in the section `mobility` of a group."]
    parts += _group("mobility", "Params")
    parts.append(SCRIPTS)
    parts += _files()
    return "\n\n".join(parts) + "\n"


def _group(group: str, attribute: str) -> Iterator[str]:
    for name, entry in names.table(group).items():
        yield f"### {name}"
        yield _sentence(entry.prose)
        model = parameters.params_model(names.find(group, name)[1], attribute)
        yield _table(_rows(model, "")) if model.model_fields else "None."


FILES = """\
## Columns of replayed files

What a file of the workload `replay` may hold, in any order; [replay.md](replay.md) shows it. Every file has one of the
columns for the time, and `client` and `op` unless parameters stand for them. `<i>` is the number of an attribute, or
its name where the service has `names`; the value of a named attribute is called by the name alone.

| column | what |
|---|---|
| `time` | when: dates as in `2024-05-01 12:00:00.5+02:00` (UTC without a zone), timestamps, or numbers in the `unit` |
| `time_s`, `time_ns` | when, in seconds or whole nanoseconds from the start of the run |
| `client` | which client of the group, counted from 0 |
| `op` | what it does: one of those below |
"""


SCRIPTS = """\
## Bodies in scripts

What the workload `script` takes as `body`, numbers in this order; null where one is missing. Where a service has text,
numbers are those of words. What begins or ends something goes by the client's own `number` of it.

| kind | op | body |
|---|---|---|
| `content` | `publish` | a value for each attribute |
| | `subscribe` | attribute, low, high for each range |
| `topk` | `publish` | a value for each attribute; behind them upper ends, for intervals; behind these weights |
| | `subscribe`, `reweight` | attribute, low, high, weight for each range |
| `context` | `publish` | a value for each attribute |
| | `update` | context, attribute, value; of the client whose context it is |
| | `subscribe` | conjunct, attribute, operator, context, its attribute, constant, epsilon for each atom |
| `channels` | `subscribe` | period in ns, low and high for each axis |
| `spatial` | `publish` | x, y, k, bytes, keywords; its `number` is none of the client's subscriptions |
| | `subscribe` | x, y, keywords |

`unsubscribe` and `expire` have none. [contract.md](contract.md#which-part-each-kind-leans-on) leads to what the kinds
make of them."""


def _files() -> Iterator[str]:
    """The columns of files, kind by kind."""
    from brokers.replaying import form_of

    yield FILES.rstrip()
    for name in names.table("kinds"):
        kind = names.find("kinds", name)[1]
        form = form_of(kind(parameters.params_model(kind)().model_dump()))
        lines = ["| column | ops | |", "|---|---|---|"]
        for column in form.header:
            lines.append(f"| `{column.name}` | {', '.join(column.ops)} | {column.prose} |")
        yield f"### Files for {name}"
        yield f"Ops: {', '.join(f'`{op}`' for op in form.op_table())}."
        yield "\n".join(lines)


def _sentence(prose: str) -> str:
    return f"{prose[:1].upper()}{prose[1:]}."


def _unit_rows() -> Iterator[str]:
    for quantity, table, base in (
        ("duration", units.DURATION_UNITS, "nanoseconds"),
        ("rate", units.RATE_UNITS, "per second"),
        ("size", units.SIZE_UNITS, "bytes"),
        ("bandwidth", units.BANDWIDTH_UNITS, "bits per second; `unlimited` is 0"),
        ("fraction", units.FRACTION_UNITS, "0 to 1"),
    ):
        yield f"| {quantity} | {', '.join(table)} | {base} |"


def _table(rows: Iterator[tuple[str, str, str, str]]) -> str:
    lines = ["| key | value | default | |", "|---|---|---|---|"]
    for key, value, default, prose in rows:
        lines.append(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in (key, value, default, prose)) + " |"
        )
    return "\n".join(lines)


def _rows(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    """(key, what it takes, default, prose) of a model and of the sections in it."""
    for name, info in model.model_fields.items():
        key = f"{prefix}{name}"
        annotation = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
        sections = list(_models(annotation))
        is_list, is_named = "[list" in _shape(annotation), "[dict" in _shape(annotation)
        yield (
            f"`{key}`",
            _takes(annotation),
            _default(info, annotation),
            info.description or _summary(sections),
        )
        for section in sections:
            below = f"{key}[]." if is_list else f"{key}.<name>." if is_named else f"{key}."
            kind = section.model_fields.get("kind")
            if kind is not None and get_origin(kind.annotation) is Literal:
                chosen = get_args(kind.annotation)[0]
                yield f"`{key}` `kind: {chosen}`", "section", "", _summary([section])
                below = f"{key}."
                rows = [row for row in _rows(section, below) if row[0] != f"`{below}kind`"]
                yield from ((f"{row[0]} ({chosen})", *row[1:]) for row in rows)
            else:
                yield from _rows(section, below)


def _shape(annotation: Any) -> str:
    """A trail of the containers around the models of an annotation."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _shape(get_args(annotation)[0])
    here = "[list" if origin is list else "[dict" if origin is dict else ""
    return here + "".join(_shape(each) for each in get_args(annotation) if origin is not Literal)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is not Literal:
        for each in get_args(annotation):
            yield from _models(each)


def _summary(sections: list[type[BaseModel]]) -> str:
    own = [each for each in sections if issubclass(each, Section) or each.__doc__]
    return (own[0].__doc__ or "").strip().splitlines()[0] if len(own) == 1 else ""


def _takes(annotation: Any) -> str:
    """What may be written, in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        quantity = _quantity(annotation)
        bounds = _bounds(arguments[1:], quantity[1] if quantity else _number)
        if get_origin(arguments[0]) is tuple and Ellipsis in get_args(arguments[0]):
            words = _takes(arguments[0])
        elif quantity:
            words = quantity[0]
        elif get_origin(arguments[0]) is tuple and any(
            isinstance(each, BeforeValidator) for each in arguments
        ):
            words = f"one value or [low, high]: {_takes(get_args(arguments[0])[0])}"
        else:
            words = _takes(arguments[0])
        return f"{words}, {bounds}" if bounds else words
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_takes(each) for each in arguments if each is not type(None)))
    if origin is list:
        return "list" if list(_models(annotation)) else f"list of: {_takes(arguments[0])}"
    if origin is tuple:
        return f"{'list' if Ellipsis in arguments else 'pair'} of: {_takes(arguments[0])}"
    if origin is dict:
        return "section by name"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    return _PLAIN.get(annotation, "any")


def _quantity(annotation: Any) -> tuple[str, Any] | None:
    for each in get_args(annotation)[1:] if get_origin(annotation) is Annotated else ():
        if isinstance(each, BeforeValidator) and each.func in _QUANTITIES:
            return _QUANTITIES[each.func]
    found = (
        [_quantity(each) for each in get_args(annotation)] if get_origin(annotation) is not Literal else []
    )
    return next((each for each in found if each is not None), None)


def _number(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"


def _bounds(metadata: tuple[Any, ...], text_of: Callable[[Any], str]) -> str:
    """Bounds in words, from annotations of `Field` and of annotated-types."""
    words = []
    flat = [each for item in metadata for each in (item.metadata if isinstance(item, FieldInfo) else [item])]
    for each in flat:
        for attribute, text in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "below")):
            bound = getattr(each, attribute, None)
            if bound is not None:
                words.append(f"{text} {text_of(bound)}")
    return ", ".join(words)


def _default(info: FieldInfo, annotation: Any) -> str:
    if info.default is PydanticUndefined:
        return "required"
    value = info.default
    if value is None or value in ({}, [], (), ""):
        return ""
    quantity = _quantity(annotation)
    if quantity is not None and isinstance(value, int | float):
        return f"`{quantity[1](value)}`"
    if isinstance(value, BaseModel):
        kind = getattr(value, "kind", None)
        return f"`{kind}`" if kind else ""
    if isinstance(value, tuple) and len(set(value)) == 1:
        value = value[0]
        if quantity is not None and Ellipsis in get_args(info.annotation):
            value = f"[{quantity[1](value)}]"
    if isinstance(value, bool):
        value = str(value).lower()
    return f"`{list(value) if isinstance(value, tuple) else value}`"


if __name__ == "__main__":
    print(page(), end="")
