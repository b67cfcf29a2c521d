"""Plain data: what may cross the wire, checked on both sides.

Exact types only. A subclass (an IntEnum, a NumPy float) or a tuple would come back as something else, so it
is refused rather than converted. Reading refuses what msgpack would settle silently: a key given twice
(the last would win), keys that are no strings, timestamps and unknown extensions, and every form of a value
but the one that is written: a 7 in nine bytes would be an equal body of another size and digest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np

from brokers.errors import InvalidInput, WireError
from brokers.wire.locate import first_fault

DEPTH_MAX = 64  # lists and maps within each other
INT_MIN, INT_MAX = -(1 << 63), (1 << 64) - 1
_CONTAINERS = frozenset({list, dict})
PLAIN_TYPES = frozenset({type(None), bool, int, float, str, bytes, list, dict})

_ADVICE = {
    "tuple": "use a list",
    "set": "use a sorted list",
    "frozenset": "use a sorted list",
    "bytearray": "use bytes",
    "memoryview": "use bytes",
}


def refuse(
    value: Any,
    path: str,
    wanted: str,
    array_fault: Callable[[np.ndarray], str] | None = None,
    depth: int = 0,
    ready: type | None = None,
) -> None:
    """Raise InvalidInput, with its path, for the first thing within that cannot be sent; `ready` is not looked into."""
    kind = type(value)
    levels = value.ndim if kind is np.ndarray and ready is not None else int(kind in (list, dict))
    if levels and depth + levels > DEPTH_MAX:
        raise InvalidInput(f"{path[:100]}…: more than {DEPTH_MAX} lists and dicts within each other")
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise InvalidInput(f"{path}: the key {key!r:.60} is of type {type(key).__name__}; use str")
            _refuse_text(key, path)
            refuse(item, f"{path}.{key}", wanted, array_fault, depth + 1, ready)
    elif kind is list:
        for i, item in enumerate(value):
            refuse(item, f"{path}[{i}]", wanted, array_fault, depth + 1, ready)
    elif kind is str:
        _refuse_text(value, path)
    elif kind is int:
        if not INT_MIN <= value <= INT_MAX:
            shown = str(value) if value.bit_length() < 200 else f"an integer of {value.bit_length()} bits"
            raise InvalidInput(f"{path}: {shown} is outside of -2**63..2**64-1 and cannot be sent")
    elif kind is np.ndarray and array_fault is not None:
        if fault := array_fault(value):
            raise InvalidInput(f"{path}: {fault}")
    elif kind is not ready and kind not in PLAIN_TYPES:
        name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        advice = _ADVICE.get(name, "call .tolist()" if isinstance(value, np.generic | np.ndarray) else "")
        raise InvalidInput(f"{path}: type {name} cannot be sent; {advice + '; ' if advice else ''}{wanted}")


def _refuse_text(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{path}: {text!r:.60} is no Unicode text (half a surrogate pair)") from None


def unpack(
    data: Any,
    what: str,
    offset: int,
    ext_hook: Callable[[int, bytes], Any],
    pack: Callable[[Any], bytes],
    depth_max: int = DEPTH_MAX,
    extra_types: frozenset[type] = frozenset(),
    sorted_keys: bool = False,
) -> Any:
    """msgpack to plain data, or WireError with the offset counted from the start of the frame or body.

    What is read has one form, the one that `pack` writes: packed again it has to be the same bytes. That costs less
    than looking at each value here, and leaves nothing out.
    """
    allowed = PLAIN_TYPES | extra_types
    outer = 0  # lists and maps that hold others

    def list_hook(items: list[Any]) -> list[Any]:
        nonlocal outer
        types = set(map(type, items))
        if not allowed.issuperset(types):
            raise WireError(f"{what}: a list holds an extension type that is not part of this version")
        outer += not _CONTAINERS.isdisjoint(types)
        return items

    def pairs_hook(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
        nonlocal outer
        mapping = dict(pairs)
        if len(mapping) != len(pairs):
            raise WireError(f"{what}: a map names a key twice")
        if not all(type(key) is str for key in mapping):
            raise WireError(f"{what}: a map has a key that is no string")
        if sorted_keys and list(mapping) != sorted(mapping):
            raise WireError(f"{what}: the keys of a map are not in order")
        types = set(map(type, mapping.values()))
        if not allowed.issuperset(types):
            raise WireError(f"{what}: a map holds an extension type that is not part of this version")
        outer += not _CONTAINERS.isdisjoint(types)
        return mapping

    try:
        value = msgpack.unpackb(data, ext_hook=ext_hook, list_hook=list_hook, object_pairs_hook=pairs_hook)
    except WireError:
        raise
    except Exception as error:
        # msgpack and its hooks raise ten kinds of exceptions for bad bytes, none with a position.
        at, why = first_fault(data) or (0, str(error) or type(error).__name__)
        raise WireError(f"{what}: at offset {offset + at}: {why}") from None
    if type(value) not in allowed:
        raise WireError(f"{what}: an extension type that is not part of this version")
    if outer >= depth_max and _deeper(value, depth_max):
        raise WireError(f"{what}: more than {DEPTH_MAX} lists and maps within each other")
    again, data = pack(value), bytes(data)
    if again != data:
        at = next((i for i, (x, y) in enumerate(zip(again, data)) if x != y), min(len(again), len(data)))
        raise WireError(f"{what}: at offset {offset + at}: not in the one form that this version writes")
    return value


def _deeper(value: Any, depth_max: int) -> bool:
    """Whether more than so many lists and maps stand within each other; level by level, which takes no stack."""
    level = [value]
    for _ in range(depth_max):
        inner = (each.values() if type(each) is dict else each for each in level)
        level = [item for items in inner for item in items if type(item) in _CONTAINERS]
        if not level:
            return False
    return True
