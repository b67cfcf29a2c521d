"""What all brokers of a protocol have in common, seen before and after a run, and put back as it was."""

from __future__ import annotations

import copy
import sys
from typing import Any

from brokers.contract import BrokerProtocol, ShardProtocol

_CONTAINERS = (dict, list, set, bytearray)
_FIXED = (int, float, str, bytes, type, type(None))
_PLAIN = (*_CONTAINERS, int, float, str, bytes)


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
            setattr(owner, key, value)
        return found


_UNKNOWN = object()


def _places(protocol: Any) -> list[tuple[str, Any, str, Any]]:
    """(name, owner, attribute, value) of all that is plain data."""
    found = []
    for kind in protocol.__mro__:
        if kind in (BrokerProtocol, ShardProtocol, object) or kind.__module__ in ("abc", "typing"):
            continue
        owners = [(kind.__name__, kind)]
        if (module := sys.modules.get(kind.__module__)) is not None:
            owners.append((kind.__module__, module))
        for told, owner in owners:
            for key, value in list(vars(owner).items()):
                if isinstance(value, _PLAIN) and not key.startswith(("__", "_abc")):
                    found.append((f"{told}.{key}", owner, key, value))
    return found


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
