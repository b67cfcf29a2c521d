"""The code of a protocol itself: what of its package its class leads to, and the types that it gives to messages.

Beginning with the class, its bases and its other view, every function and class is followed that their code names,
within the packages of these classes. What the program asks of a class before a run, as what it promises, is left out,
and so is what nothing names.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from pydantic import BaseModel

from brokers.contract import FIRST_PROTOCOL_TYPE, BrokerProtocol, Kind, ShardProtocol

_TYPES_MOST = 1 << 15  # a type of a message is less
_SENDS = {"send": 2, "send_row": 2, "timer": 2}  # methods that take a type: its place
_NOT_OURS = ("brokers", "topology")
_CACHED = type(lru_cache(lambda: None))


@dataclass(frozen=True)
class OwnCode:
    """See the module."""

    protocol: Any
    functions: dict[CodeType, FunctionType] = field(default_factory=dict)
    compiled: dict[CodeType, FunctionType] = field(default_factory=dict)  # by Numba: nobody sees their lines run
    remembered: set[CodeType] = field(default_factory=set)  # run once a process, with whatever they call

    @classmethod
    def of(cls, protocol: Any) -> OwnCode:
        """Of a class; of a program nothing is known."""
        found = cls(protocol)
        if inspect.isclass(protocol) and not _is_program(protocol):
            _Walk(found).all()
        return found

    @cached_property
    def lines(self) -> dict[str, set[int]]:
        """The lines that can be seen to run, by file."""
        return _lines(self.functions)

    @cached_property
    def compiled_lines(self) -> int:
        """How many lines are compiled, and cannot be seen."""
        return sum(len(each) for each in _lines(self.compiled).values())

    @cached_property
    def types(self) -> dict[int, str]:
        """The protocol's own types of messages and timers, with the names that its code has for them."""
        found: dict[int, str] = {}
        for function in self.functions.values():
            for name in _names_of_types(function):
                number = function.__globals__.get(name)
                if isinstance(number, int) and FIRST_PROTOCOL_TYPE <= number < _TYPES_MOST:
                    found.setdefault(int(number), name)
        return dict(sorted(found.items()))


def lines_of(code: CodeType) -> set[int]:
    """The lines of a function that run when it does, with those of what it has inside; not the one that begins it."""
    found = {line for _, _, line in code.co_lines() if line and line != code.co_firstlineno}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found |= lines_of(inner)
    return found


def _lines(functions: Iterable[CodeType]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for code in functions:
        found.setdefault(code.co_filename, set()).update(lines_of(code))
    return found


def _is_program(protocol: Any) -> bool:
    from brokers.programs.protocol import Program

    return issubclass(protocol, Program)


# ---- what leads to what ------------------------------------------------------------------------------


class _Walk:
    def __init__(self, into: OwnCode) -> None:
        self._into = into
        self._own = _Packages(into.protocol)
        self._seen: set[int] = set()
        self._ahead: list[tuple[Any, bool]] = []

    def all(self) -> None:
        self._ahead.append((self._into.protocol, False))
        while self._ahead:
            thing, once = self._ahead.pop()
            if id(thing) not in self._seen:
                self._seen.add(id(thing))
                self._take(thing, once)

    def _take(self, thing: Any, once: bool) -> None:
        if isinstance(thing, _CACHED):
            thing, once = thing.__wrapped__, True
        if inspect.isclass(thing):
            self._class(thing, once)
        elif hasattr(thing, "py_func"):
            if self._own.has(thing.py_func):
                self._into.compiled[thing.py_func.__code__] = thing.py_func
                self._named_in(thing.py_func, once)
        elif isinstance(thing, FunctionType):
            if self._own.has(thing) and _written(thing):
                self._into.functions[thing.__code__] = thing
                if once:
                    self._into.remembered.add(thing.__code__)
                self._named_in(thing, once)
        else:
            self._ahead += [(each, once) for each in _inside(thing)]

    def _class(self, kind: type, once: bool) -> None:
        for base in kind.__mro__[1:]:
            if self._own.has(base):
                self._ahead.append((base, once))
        if not self._own.has(kind) or issubclass(kind, Kind | BaseModel):
            return
        for name, attribute in vars(kind).items():
            if name not in _ASKED_BEFORE:
                self._ahead += [(each, once) for each in _unwrapped(attribute)]

    def _named_in(self, function: FunctionType, once: bool) -> None:
        """Everything that its code names, of the module where it stands and of those that it imports."""
        scope = function.__globals__
        names = set(_names(function.__code__))
        for name in sorted(names):
            value = scope.get(name)
            if isinstance(value, ModuleType):
                if self._own.has_module(value.__name__):
                    self._ahead += [(vars(value)[each], once) for each in sorted(names & vars(value).keys())]
            elif value is not None:
                self._ahead.append((value, once))
        for cell in function.__closure__ or ():
            try:
                self._ahead.append((cell.cell_contents, once))
            except ValueError:  # nothing is in it yet
                continue


class _Packages:
    """The packages of a class and its bases; of what is in none, the folder."""

    def __init__(self, protocol: Any) -> None:
        views = [protocol, getattr(protocol, "plain", None), getattr(protocol, "server", None)]
        modules = {base.__module__ for each in views if each is not None for base in each.__mro__}
        modules = {name for name in modules if not _foreign(name)}
        self._modules = modules
        self._packages = {name.rpartition(".")[0] for name in modules if "." in name}
        files = [getattr(sys.modules.get(name), "__file__", None) for name in modules if "." not in name]
        self._folders = {Path(file).parent for file in files if file}

    def has(self, thing: Any) -> bool:
        return self.has_module(getattr(thing, "__module__", None) or "")

    def has_module(self, name: str) -> bool:
        if not name or _foreign(name):
            return False
        if "." in name:
            return name.rpartition(".")[0] in self._packages
        file = getattr(sys.modules.get(name), "__file__", None)
        return name in self._modules or bool(file and Path(file).parent in self._folders)


def _written(function: FunctionType) -> bool:
    """Whether it stands in the file of its module, and was not made by a decorator from elsewhere."""
    file = getattr(sys.modules.get(function.__module__), "__file__", None)
    return file is None or function.__code__.co_filename == file


def _foreign(module: str) -> bool:
    return module.partition(".")[0] in _NOT_OURS or module in ("builtins", "abc", "typing")


# What is asked of a class before a run, for other purposes.
_ASKED_BEFORE = frozenset(
    name
    for base in (BrokerProtocol, ShardProtocol)
    for name, each in vars(base).items()
    if isinstance(each, classmethod)
) | {"Options", "kind", "guarantees", "__doc__", "__module__", "expected_deliveries", "expected_subscriptions"}


def _unwrapped(attribute: Any) -> Iterator[Any]:
    """The functions behind an attribute of a class."""
    if isinstance(attribute, classmethod | staticmethod):
        yield attribute.__func__
    elif isinstance(attribute, property):
        yield from (each for each in (attribute.fget, attribute.fset) if each is not None)
    elif isinstance(attribute, cached_property):
        yield attribute.func
    elif attribute is not None:
        yield attribute


def _inside(thing: Any) -> Iterator[Any]:
    """What stands in a table of functions, or in a record of some."""
    values: Iterable[Any] = ()
    if isinstance(thing, dict):
        values = thing.values()
    elif isinstance(thing, list | tuple):
        values = thing
    elif type(thing).__module__.startswith("brokers.compiled"):
        values = [getattr(thing, "kernel", None)]
    for each in values:
        if inspect.isclass(each) or isinstance(each, FunctionType | _CACHED | dict | tuple) or hasattr(each, "py_func"):
            yield each


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


# ---- types -------------------------------------------------------------------------------------------


def _names_of_types(function: FunctionType) -> Iterator[str]:
    """Names that a function's source gives as the type of what it sends, or compares a type with."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):  # made without a file; a lambda in the middle of something
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SENDS:
            place = _SENDS[node.func.attr]
            given = [each.value for each in node.keywords if each.arg == "type"] + node.args[place : place + 1]
            yield from _plain_names(given)
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(isinstance(each, ast.Attribute) and each.attr == "type" for each in sides):
                yield from _plain_names(sides)


def _plain_names(nodes: Iterable[ast.expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Tuple | ast.Set | ast.List):
            yield from _plain_names(node.elts)
        elif isinstance(node, ast.IfExp):
            yield from _plain_names([node.body, node.orelse])
