"""Options of a protocol, drawn from the model that it declares: by type and bounds, times short enough to pass.

What has no bounds that lead anywhere, as text or a list, is drawn from the field's `examples`, if it has any, and what
only goes together from those of the whole model.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticUndefined

from brokers.kinds import UNDRAWN
from brokers.programs.protocol import Program
from protocols.rehearsing import Dice

_UNITS = {"_ns": 1, "_us": 1_000, "_ms": 1_000_000, "_s": 1_000_000_000}
_TIMES_NS = (40_000_000, 100_000_000, 250_000_000, 500_000_000)  # the longest shorter than a case rests
_LONG_NS = (100_000_000, 4_000_000_000, 20_000_000_000)  # of what is said in seconds
_WHOLES = (0, 1, 2, 3, 5, 13)  # what lies beyond a bound becomes the bound
_TRIES = 20
_SHARE = 3  # an option in so many is said


def options_model(protocol: Any) -> type[BaseModel] | None:
    """The model of the options of a protocol, if it has any."""
    model = getattr(protocol, "Options", None)
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def made_options(protocol: Any, options: Mapping[str, Any]) -> Any:
    """Options as a protocol gets them."""
    model = options_model(protocol)
    return None if model is None else model(**options)


def draw_options(protocol: Any, said: Mapping[str, Any], dice: Dice) -> dict[str, Any]:
    """Some options of a protocol beside those that are `said`; what does not go together is drawn again."""
    if issubclass(protocol, Program):  # those of a program are limits of wall time and size
        return dict(said)
    return draw_fields(options_model(protocol), said, dice)


def draw_fields(
    model: type[BaseModel] | None, said: Mapping[str, Any], dice: Dice, share: int = _SHARE
) -> dict[str, Any]:
    """The same of any model: one field in so many."""
    if model is None:
        return dict(said)
    together = dict(model.model_config).get("json_schema_extra")
    examples = together.get("examples", []) if isinstance(together, dict) else []
    for _ in range(_TRIES):
        found = dict(said)
        if examples and dice.below(share) == 0:
            found = {**examples[dice.below(len(examples))], **said}
        for name, info in model.model_fields.items():
            if name not in found and UNDRAWN not in info.metadata and dice.below(share) == 0:
                value = _value(name, info, dice)
                if value is not None:
                    found[name] = value
        try:
            made = model(**found).model_dump(mode="json")
        except ValidationError:
            continue
        return {key: made[key] for key in found if key in made}
    return dict(said)


def _value(name: str, info: Any, dice: Dice) -> Any:
    """A value of a field; None where none is drawn."""
    annotation = _without_none(info.annotation)
    if info.examples:
        return info.examples[dice.below(len(info.examples))]
    if get_origin(annotation) is Literal:
        choices = get_args(annotation)
        return choices[dice.below(len(choices))]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return draw_fields(annotation, {}, dice) or None
    if annotation is bool:
        return not info.default if dice.below(3) else bool(info.default)
    if annotation not in (int, float):
        return None
    low, high = _bounds(info)
    unit = _unit_ns(name, info)
    if unit is not None:
        times = _LONG_NS if unit == _UNITS["_s"] else _TIMES_NS
        value: float = times[dice.below(len(times))] / unit
        value = value if annotation is float else max(1, int(value))
    elif annotation is int:
        value = _WHOLES[dice.below(len(_WHOLES))]
    else:
        usual = info.default if isinstance(info.default, int | float) and info.default else 1.0
        value = usual * (0.01, 0.1, 0.5, 2.0, 10.0)[dice.below(5)]
    value = min(max(value, low), high)
    return int(value) if annotation is int else float(value)


def _without_none(annotation: Any) -> Any:
    """What an optional field is if it is there, without what is only said about it."""
    if get_origin(annotation) in (Union, types.UnionType):
        there = [each for each in get_args(annotation) if each is not type(None)]
        if len(there) == 1:
            return _without_none(there[0])
    if hasattr(annotation, "__metadata__"):
        return _without_none(annotation.__origin__)
    return annotation


def _bounds(info: Any) -> tuple[float, float]:
    """The least and the largest value of a field."""
    low, high = float("-inf"), float("inf")
    for each in _said_of(info):
        if (least := getattr(each, "ge", None)) is not None:
            low = max(low, least)
        if (above := getattr(each, "gt", None)) is not None:
            low = max(low, above + (1 if isinstance(above, int) and above else 1e-9))
        if (most := getattr(each, "le", None)) is not None:
            high = min(high, most)
        if (below := getattr(each, "lt", None)) is not None:
            high = min(high, below - 1)
    return low, high


def _said_of(info: Any) -> list[Any]:
    """Everything that is said about a field, also about what it is where it is there."""
    found, annotation = list(info.metadata), info.annotation
    ahead = [annotation]
    while ahead:
        each = ahead.pop()
        found += [
            more
            for said in getattr(each, "__metadata__", ())
            for more in (said, *getattr(said, "metadata", ()))
        ]
        ahead += [inner for inner in get_args(each) if not isinstance(inner, str | int | float)]
    return found


def _unit_ns(name: str, info: Any) -> int | None:
    """The nanoseconds of its unit, if a field is a time: by its name, its prose or its type."""
    for suffix, unit in _UNITS.items():
        if name.endswith(suffix):
            return unit
    prose = (info.description or "") + " ".join(
        str(getattr(each, "description", "") or "") for each in _said_of(info)
    )
    if (
        "nanoseconds" in prose
        or " ns " in prose
        or "a duration" in str(_said_of(info))
        or "duration" in prose
    ):
        return 1
    usual = info.default
    big = usual is not PydanticUndefined and isinstance(usual, int) and usual >= 1_000_000
    return 1 if big or _is_duration(info) else None


def _is_duration(info: Any) -> bool:
    from topology.units import parse_duration

    return any(getattr(each, "func", None) is parse_duration for each in _said_of(info))
