"""What is wrong with a scenario, said as `file:line:column: path: what is wrong (got …)`.

A loader collects every `Problem` before it gives up, so that a person repairs a file in one go. The words of
pydantic are for programmers; the table below says the same to whoever wrote the file.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from brokers.errors import InvalidInput
from brokers.registry import did_you_mean as did_you_mean

Path = tuple[str | int, ...]
PROBLEMS_SHOWN_MAX = 50


@dataclass(frozen=True)
class Problem:
    """One thing to repair."""

    where: str  # a file, or "--set a.b" for a value that came from the command line
    line: int  # from 1; 0 where there is none
    column: int
    path: Path
    message: str

    def __str__(self) -> str:
        place = f"{self.where}:{self.line}:{self.column}" if self.line else self.where
        path = f" {path_text(self.path)}:" if self.path else ""
        return f"{place}:{path} {self.message}"


class ScenarioErrors(InvalidInput):
    """All problems of one scenario, in the order of the file."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        ordered = sorted(problems, key=lambda problem: (problem.where, problem.line, problem.column))
        self.problems = tuple(dict.fromkeys(ordered))
        count = len(self.problems)
        shown = [str(problem) for problem in self.problems[:PROBLEMS_SHOWN_MAX]]
        if count > PROBLEMS_SHOWN_MAX:
            shown.append(f"… and {count - PROBLEMS_SHOWN_MAX} more")
        super().__init__("\n".join([*shown, "1 problem" if count == 1 else f"{count} problems"]))


def path_text(path: Path) -> str:
    """("services", 0, "kind") as services[0].kind."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def got(value: object) -> str:
    """The wrong value, short enough for a line."""
    if isinstance(value, Mapping):
        return "(got a section)"
    if isinstance(value, list | tuple):
        return f"(got a list of {len(value)})"
    if value is None:
        return "(got nothing)"
    if isinstance(value, int) and abs(value) > 10**60:  # Python refuses to print what has 4,300 digits
        return "(got a number of more than 60 digits)"
    text = repr(value)
    return f"(got {text if len(text) <= 60 else text[:57] + '...'})"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


_Words = str | Callable[[dict[str, Any]], str]
_WORDS: dict[str, _Words] = {
    "missing": "is missing",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "is too large a number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a text",
    "string_too_short": lambda ctx: f"must have at least {_counted(ctx['min_length'], 'character', 'characters')}",
    "string_too_long": lambda ctx: f"must have at most {_counted(ctx['max_length'], 'character', 'characters')}",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a section (key: value)",
    "model_type": "must be a section (key: value)",
    "model_attributes_type": "must be a section (key: value)",
    "none_required": "must be left out",
    "greater_than": lambda ctx: f"must be greater than {ctx['gt']}",
    "greater_than_equal": lambda ctx: f"must be at least {ctx['ge']}",
    "less_than": lambda ctx: f"must be less than {ctx['lt']}",
    "less_than_equal": lambda ctx: f"must be at most {ctx['le']}",
    "too_short": lambda ctx: f"must have at least {_counted(ctx['min_length'], 'entry', 'entries')}",
    "too_long": lambda ctx: f"must have at most {_counted(ctx['max_length'], 'entry', 'entries')}",
    "literal_error": lambda ctx: f"must be {ctx['expected']}",
    "enum": lambda ctx: f"must be {ctx['expected']}",
    "union_tag_not_found": lambda ctx: f"needs the key {ctx['discriminator']}",
    "union_tag_invalid": lambda ctx: f"must be {ctx['expected_tags']}",
}


def explain(
    error: ValidationError, data: object, model: type[BaseModel], extra_keys: Iterable[str] = ()
) -> list[tuple[Path, bool, str]]:
    """Each mistake as (path inside `data`, whether it is about the key itself, message).

    `extra_keys` are further names that would have been right at the top of `data`, for "did you mean".
    """
    found: dict[tuple[Path, bool], list[str]] = {}
    hints: dict[Path, str] = {}
    for item in error.errors(include_url=False, include_input=False):
        location, kind, context = item["loc"], item["type"], item.get("ctx", {})
        path = _in_data(location, data, kind)
        if kind == "union_tag_invalid" and isinstance(_value_at(path, data), Mapping):
            path = (*path, str(context["discriminator"]).strip("'"))
        if kind == "extra_forbidden":
            known = _keys_at(model, location[:-1])
            if len(location) == 1:
                known |= set(extra_keys)
            name = str(location[-1])
            found.setdefault((path, True), []).append(f"unknown key; {did_you_mean(name, known)}")
            continue
        if kind == "missing":
            found.setdefault((path, False), []).append("is missing")
            continue
        words = _WORDS.get(kind)
        if kind in ("value_error", "assertion_error"):
            message = str(context.get("error", item["msg"]))
        elif words is None:
            message = item["msg"].replace("Input should be", "must be")
            message = message[:1].lower() + message[1:]
        else:
            message = words if isinstance(words, str) else words(context)
        value = _value_at(path, data)
        if kind in ("literal_error", "union_tag_invalid") and isinstance(value, str):
            choices = str(context.get("expected", context.get("expected_tags", ""))).split("'")[1::2]
            close = get_close_matches(value, choices, n=1)
            if close:
                hints[path] = f"; did you mean {close[0]!r}?"
        found.setdefault((path, False), []).append(message)
    result = []
    for (path, about_key), messages in found.items():
        text = _one_sentence(list(dict.fromkeys(messages)))
        if not about_key and text != "is missing" and "(got " not in text:
            text += f"{hints.get(path, '')} {got(_value_at(path, data))}"
        result.append((path, about_key, text))
    return result


def _one_sentence(messages: list[str]) -> str:
    """One mistake against the forms of a union: what it has to be, or what is wrong with it and what else it may be."""
    told = [each for each in messages if not each.startswith("must be ")]
    if not told:
        return " or ".join(messages)
    others = [each.removeprefix("must be ") for each in messages if each.startswith("must be ")]
    return " or ".join(told) + (f"; it may also be {' or '.join(others)}" if others else "")


def _in_data(location: tuple[int | str, ...], data: object, kind: str) -> Path:
    """The part of a pydantic location that exists in the data: tags of unions are left out."""
    path: list[str | int] = []
    current = data
    for place, part in enumerate(location):
        known: Any = current if isinstance(current, Mapping) else {}
        if isinstance(current, list | tuple):
            known = dict(enumerate(current))
        if part in known:
            current = known[part]
        elif kind != "missing" or place < len(location) - 1:
            continue
        path.append(part)
    return tuple(path)


def _value_at(path: Path, data: object) -> object:
    current: Any = data
    for part in path:
        try:
            current = current[part]
        except (KeyError, IndexError, TypeError):
            return None
    return current


def _keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> set[str]:
    """The keys that the models at a pydantic location know."""
    candidates = _forms(model)
    for part in location:
        inner: list[Any] = []
        for form in candidates:
            if isinstance(form, type) and issubclass(form, BaseModel):
                if part in form.model_fields:
                    inner += _forms(form.model_fields[str(part)].annotation)
            elif get_origin(form) in (list, tuple, dict, Mapping, Sequence):
                inner += [each for argument in get_args(form)[-1:] for each in _forms(argument)]
        candidates = inner or candidates  # a tag of a union leads nowhere: stay
    return {
        name
        for form in candidates
        if isinstance(form, type) and issubclass(form, BaseModel)
        for name in form.model_fields
    }


def _forms(annotation: Any) -> list[Any]:
    """The plain types behind aliases, annotations and unions."""
    if get_origin(annotation) is Annotated:
        return _forms(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [form for member in get_args(annotation) for form in _forms(member)]
    return [annotation]
