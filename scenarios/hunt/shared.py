"""What all brokers of a protocol have in common, seen before and after a run, and put back as it was.

That is plain data in attributes of its classes, in variables of their modules, and in what their functions remember:
arguments by default, closures, attributes of functions; and records of the protocol's own modules in any of these.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from brokers.contract import BrokerProtocol, ShardProtocol

_CONTAINERS = (dict, list, set, bytearray)
_FIXED = (int, float, str, bytes, type, type(None))
_PLAIN = (*_CONTAINERS, int, float, str, bytes)
_NOT_ITS_OWN = (BrokerProtocol, ShardProtocol, object)
_NO_MODULES = ("abc", "typing")


class Shared:
    """Attributes of the classes of a protocol and variables of their modules, as they were when this was made."""

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol
        self._was = {
            name: (owner, key, value, _copied(value)) for name, owner, key, value in _places(protocol)
        }

    def changed(self) -> list[str]:
        """The names of those that are other now; all of them are put back."""
        found = []
        now = {name: value for name, _, _, value in _places(self._protocol)}
        for name, (owner, key, value, copied) in self._was.items():
            if copied is _UNKNOWN or (now.get(name) is value and _same(value, copied)):
                continue
            found.append(name)
            _put_back(value, copied)
            if owner is not None:
                setattr(owner, key, value)
        return found


_UNKNOWN = object()


def _places(protocol: Any) -> list[tuple[str, Any, str, Any]]:
    """(name, owner, attribute, value) of all that is plain data; no owner where it can only change in itself."""
    found: list[tuple[str, Any, str, Any]] = []
    kinds = [each for each in protocol.__mro__ if each not in _NOT_ITS_OWN and each.__module__ not in _NO_MODULES]
    modules = {each.__module__ for each in kinds}
    seen: set[int] = set()
    for kind in kinds:
        owners = [(kind.__name__, kind)]
        if (module := sys.modules.get(kind.__module__)) is not None:
            owners.append((kind.__module__, module))
        for told, owner in owners:
            if id(owner) not in seen:
                seen.add(id(owner))
                for key, value in list(vars(owner).items()):
                    found += _found(f"{told}.{key}", owner, key, value, modules)
    return found


def _found(name: str, owner: Any, key: str, value: Any, modules: set[str]) -> Iterator[tuple[str, Any, str, Any]]:
    if isinstance(value, _PLAIN):
        if not key.startswith(("__", "_abc")):
            yield name, owner, key, value
    elif isinstance(value, classmethod | staticmethod):
        yield from _found(name, owner, key, value.__func__, modules)
    elif isinstance(value, FunctionType):
        if value.__module__ in modules:
            yield from ((f"{name}({argument}=…)", None, "", each) for argument, each in _remembered(value))
    elif type(value).__module__ in modules and hasattr(value, "__dict__"):
        yield name, None, "", vars(value)


def _remembered(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function keeps from call to call, where that can change: (name, container)."""
    code = function.__code__
    given = function.__defaults__ or ()
    named = [*zip(code.co_varnames[code.co_argcount - len(given) : code.co_argcount], given)]
    named += (function.__kwdefaults__ or {}).items()
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        try:
            named.append((name, cell.cell_contents))
        except ValueError:  # nothing is in it yet
            continue
    if function.__dict__:
        named.append(("attributes", function.__dict__))
    yield from ((name, each) for name, each in named if isinstance(each, _CONTAINERS))


def _copied(value: Any) -> Any:
    if not isinstance(value, _CONTAINERS):
        return value
    try:
        return _flat(value) or copy.deepcopy(value)
    except Exception:  # whatever lies in it
        return _UNKNOWN


def _flat(value: Any) -> Any:
    """A copy of a container in which nothing can change, made quickly; None where something can."""
    inside = (*value, *value.values()) if isinstance(value, dict) else value
    return value.copy() if all(_fixed(each) for each in inside) else None


def _fixed(value: Any) -> bool:
    return isinstance(value, _FIXED) or (isinstance(value, tuple) and all(map(_fixed, value)))


def _same(value: Any, copied: Any) -> bool:
    try:
        return bool(value == copied)
    except Exception:  # arrays in it, say
        return True


def _put_back(value: Any, copied: Any) -> None:
    """What was in a container."""
    if isinstance(value, dict | set):
        value.clear()
        value.update(copied)
    elif isinstance(value, list | bytearray):
        value[:] = copied
