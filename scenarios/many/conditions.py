"""The constraints of a sweep: which combinations of the varied values are wanted.

    where:
      - topology.nodes < 100 or services.news.protocol != "flooding"
      - nodes * attach <= 300

An expression over what is varied, by whole path or by its last part where only one path ends so. Allowed are
comparisons, and, or, not, in, + - * / // %, brackets, numbers, texts, true and false; nothing is called, nothing
is looked up. Texts that are quantities compare as such: "5 ms" < "0.1 s".

It is read with Python's own parser, and only the few forms named here are computed from the tree. Powers are
left out, since a short text could keep a computer busy for ever.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from brokers import units
from brokers.errors import InvalidInput
from scenarios.problems import did_you_mean

LENGTH_MAX = 2000
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_WORDS = {"true": True, "false": False, "none": None, "True": True, "False": False, "None": None}
_TEXT = r"'[^'\n]*'|\"[^\"\n]*\""
_QUANTITIES: tuple[Callable[[object], float], ...] = (
    units.parse_cost,
    units.parse_rate,
    units.parse_size,
    units.parse_bandwidth,
    units.parse_fraction,
)


@dataclass(frozen=True)
class Condition:
    """An expression over varied values."""

    text: str
    _tree: ast.expr = field(repr=False, compare=False)
    _names: Mapping[str, str] = field(repr=False, compare=False)  # placeholder -> path

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether a combination is wanted; InvalidInput where the values do not fit the expression."""
        scope = {placeholder: values[path] for placeholder, path in self._names.items()}
        try:
            return bool(_compute(self._tree, scope))
        except (TypeError, ArithmeticError, ValueError) as error:
            shown = ", ".join(f"{path} = {values[path]!r}" for path in self._names.values())
            raise InvalidInput(f"{self.text!r} cannot be told for {shown}: {error}") from None


def parse(text: str, paths: Sequence[str]) -> Condition:
    """Read an expression over the values at these paths."""
    if len(text) > LENGTH_MAX:
        raise InvalidInput(f"a constraint has at most {LENGTH_MAX} characters (got {len(text)})")
    replaced, names = _with_placeholders(text, paths)
    try:
        with warnings.catch_warnings(action="ignore"):  # of odd escapes in texts
            tree = ast.parse(replaced.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "too deeply nested"
        raise InvalidInput(f"{text!r} is no expression: {reason}") from None
    try:
        _check(tree, names, _short_names(paths))
    except RecursionError:
        raise InvalidInput(f"{text!r} is nested too deeply") from None
    return Condition(text, tree, names)


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    """Last parts of paths that only one path has."""
    lasts = [re.split(r"[.\[\]]+", path.rstrip("]"))[-1] for path in paths]
    return {last: path for last, path in zip(lasts, paths) if lasts.count(last) == 1}


def _with_placeholders(text: str, paths: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Paths become plain names, since `services.by-flooding.protocol` would read as a difference."""
    names: dict[str, str] = {}
    known = {**_short_names(paths), **{path: path for path in paths}}
    longest_first = sorted(known, key=len, reverse=True)
    if not longest_first:
        return text, names
    any_name = "|".join(map(re.escape, longest_first))
    pattern = re.compile(rf"({_TEXT})|(?<![\w.])({any_name})(?![\w\[]|\.\w)")

    def placeholder(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        path = known[match[2]]
        name = f"_v{list(known).index(path)}_"
        names[name] = path
        return name

    return pattern.sub(placeholder, text), names


def _check(node: ast.AST, names: Mapping[str, str], short: Mapping[str, str]) -> None:
    """Refuse every form that `_compute` does not know."""
    if isinstance(node, ast.Name) and node.id in names:
        return
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        name = ast.unparse(node)
        raise InvalidInput(
            f"{name!r} is not varied; {did_you_mean(name, [*names.values(), *short.values(), *short])}"
        )
    fine = (
        (isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str | None))
        or isinstance(node, ast.BoolOp | ast.List | ast.Tuple)
        or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.UAdd))
        or (isinstance(node, ast.BinOp) and type(node.op) in _BINARY)
        or (isinstance(node, ast.Compare) and all(type(each) in _COMPARE for each in node.ops))
    )
    if not fine:
        raise InvalidInput(
            f"{ast.unparse(node)!r} has no meaning in a constraint; it compares varied values with and, or, not, in, "
            "+ - * / // % and numbers or texts"
        )
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            _check(child, names, short)


def _compute(node: ast.AST, scope: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return scope[node.id] if node.id in scope else _WORDS[node.id]
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        return [_compute(each, scope) for each in node.elts]
    if isinstance(node, ast.BoolOp):
        results = (bool(_compute(each, scope)) for each in node.values)
        return all(results) if isinstance(node.op, ast.And) else any(results)
    if isinstance(node, ast.UnaryOp):
        value = _compute(node.operand, scope)
        if isinstance(node.op, ast.Not):
            return not value
        return -_number(value) if isinstance(node.op, ast.USub) else _number(value)
    if isinstance(node, ast.BinOp):
        left, right = _number(_compute(node.left, scope)), _number(_compute(node.right, scope))
        return _BINARY[type(node.op)](left, right)
    assert isinstance(node, ast.Compare)
    left = _compute(node.left, scope)
    for sign, side in zip(node.ops, node.comparators):
        right = _compute(side, scope)
        if not _COMPARE[type(sign)](*_alike(left, right, sign)):
            return False
        left = right
    return True


def _number(value: Any) -> Any:
    """What can be reckoned with: numbers, and texts that are quantities, in their base units."""
    amount = _amount(value)
    if amount is None:
        raise TypeError(f"{value!r} is no number")
    return amount


def _alike(left: Any, right: Any, sign: ast.cmpop) -> tuple[Any, Any]:
    """Both sides as amounts where both are numbers or quantities, else as they are."""
    if isinstance(sign, ast.In | ast.NotIn):
        if not isinstance(right, list):
            raise TypeError(f"{right!r} is no list to look in")
        return (left, right) if _amount(left) is None else (_amount(left), [_amount(e, e) for e in right])
    amounts = _amount(left), _amount(right)
    return (left, right) if None in amounts else amounts


def _amount(value: Any, other: Any = None) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return other
    if not isinstance(value, str):
        return value
    if re.match(r"\s*[\d.]", value):
        for parse_quantity in _QUANTITIES:
            try:
                return parse_quantity(value)
            except units.QuantityError:
                continue
    return other
