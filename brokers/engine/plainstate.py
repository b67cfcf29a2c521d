"""What a broker object remembers, as plain data, and back: no name in a file leads to code.

A checkpoint lies in a folder that anybody may have written. So it holds values of a fixed set of types, and
reading makes values of these types and nothing else:

    None, bool, int, float, str, bytes            as they are; integers of any size
    list, tuple, set, frozenset, dict, deque,     what they hold
    defaultdict of a builtin, Counter, OrderedDict, bytearray
    NumPy arrays and scalars of numbers           elements and shape
    bodies from `keep`                            by uid
    what brokers share (`node.shared`), the node  by name
    records, and work aside                       by the name of a class or function that the protocol `keeps`

In the wire format a scalar is itself and everything else a list that begins with a tag. What the tags mean is
in `_Reader`; a name in the data is looked up in the protocol's own `keeps`, never imported.

One object in two places stays one object, cycles included: what can be changed is numbered in the order in which
it is met, and met again it is `["@", number]`.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from brokers.aside import Aside
from brokers.columns import BadState

DEPTH_MAX = 24  # values within each other; the wire format has room for 64 lists, and each takes two
_ARRAY_FROM = 16  # numbers in a list from which an array is shorter and quicker

_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_AS_IS = frozenset({type(None), bool, float, str, bytes})
_SHORT = _AS_IS | {int}
# Tag of a container of items. Never change or reuse one: they are part of the format.
_CONTAINERS: dict[type, str] = {list: "l", tuple: "t", set: "s", frozenset: "f"}
_MAPPINGS: dict[type, str] = {dict: "d", OrderedDict: "O", Counter: "C"}
_FACTORIES: dict[str, Any] = {"": None, **{f.__name__: f for f in (list, dict, set, int, float, str, tuple, deque)}}
_DTYPES = {
    name: np.dtype(name)
    for name in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_ON_THE_WIRE = frozenset(_DTYPES[name] for name in ("?", "i1", "i2", "i4", "i8", "u8", "f8"))


class NotPlain(Exception):
    """Something that no checkpoint holds; says what, and what to do about it."""


def kept_by(protocol: type) -> dict[str, Any]:
    """The classes and functions that a protocol and its bases declare in `keeps`, by name."""
    declared: dict[str, Any] = {}
    for base in reversed(protocol.__mro__):
        for each in vars(base).get("keeps", ()):
            declared[each.__name__] = each
    return declared


class Writer:
    """One broker's values to plain data. Holds a number for each object it has met."""

    def __init__(self, keeps: Mapping[str, Any], names: Mapping[int, str], uid_of: Callable[[Any], int | None]) -> None:
        """`names` gives what is shared by identity; `uid_of` the uid of a body, None for what is none."""
        self._keeps = {id(each): name for name, each in keeps.items()}
        self._names = names
        self._uid_of = uid_of
        self._number: dict[int, int] = {}

    def plain(self, value: Any, depth: int = 0) -> Any:
        """The value as the wire format takes it, or NotPlain."""
        kind = type(value)
        if kind in _AS_IS:
            return value
        if kind is int:
            return value if _INT_MIN <= value <= _INT_MAX else ["i", format(value, "x")]
        name = self._names.get(id(value))
        if name is not None:
            return ["shared", name]
        if depth > DEPTH_MAX:
            raise NotPlain(f"holds more than {DEPTH_MAX} values within each other; keep them flat, say by number")
        if kind is tuple or kind is frozenset:
            return [_CONTAINERS[kind], self._items(value, depth)]
        if isinstance(value, np.generic):
            return ["n", self._dtype(value.dtype), value.tobytes()]
        if (uid := self._uid_of(value)) is not None:
            return ["body", uid]
        met = self._number.get(id(value))
        if met is not None:
            return ["@", met]
        if kind is np.ndarray:
            self._met(value)
            return self._array(value)
        return self._mutable(kind, value, depth)

    def _mutable(self, kind: type, value: Any, depth: int) -> Any:
        if kind in _CONTAINERS:
            self._met(value)
            return [_CONTAINERS[kind], self._items(value, depth)]
        if kind in _MAPPINGS:
            self._met(value)
            return [_MAPPINGS[kind], self._items(value.keys(), depth), self._items(value.values(), depth)]
        if kind is deque:
            self._met(value)
            return ["q", value.maxlen, self._items(value, depth)]
        if kind is defaultdict:
            factory = value.default_factory
            name = "" if factory is None else getattr(factory, "__name__", "?")
            if _FACTORIES.get(name, self) is not factory:
                raise NotPlain("is a defaultdict of something else than a builtin type; make it a dict")
            self._met(value)
            return ["D", name, self._items(value.keys(), depth), self._items(value.values(), depth)]
        if kind is bytearray:
            self._met(value)
            return ["y", bytes(value)]
        if kind is Aside:
            return ["w", self._declared(value.function), self._items(value.arguments, depth)]
        return self._record(kind, value, depth)

    def _record(self, kind: type, value: Any, depth: int) -> Any:
        name = self._keeps.get(id(kind))
        if name is None:
            raise NotPlain(f"holds {_described(kind)}, which is no plain data")
        if issubclass(kind, enum.Enum):
            return ["e", name, value.name]
        if issubclass(kind, tuple):
            return ["r", name, self._items(value, depth)]
        self._met(value)
        attributes = _attributes(value)
        return ["o", name, list(attributes), self._items(attributes.values(), depth)]

    def _declared(self, function: Any) -> str:
        name = self._keeps.get(id(function))
        if name is None:
            raise NotPlain(f"holds work aside by {getattr(function, '__name__', function)!r}, which is not declared")
        return name

    def _met(self, value: Any) -> None:
        self._number[id(value)] = len(self._number)

    def _items(self, values: Collection[Any], depth: int) -> Any:
        """A list of items, or, shorter and quicker, one array of numbers or of rows."""
        kinds = set(map(type, values))
        if kinds <= _AS_IS and kinds != {float}:
            return list(values)
        if kinds <= _SHORT and (len(values) < _ARRAY_FROM or not kinds <= {int, float} or len(kinds) > 1):
            items = list(values)
            if all(type(item) is not int or _INT_MIN <= item <= _INT_MAX for item in items):
                return items
        elif kinds == {int} and min(values) >= _INT_MIN and max(values) <= _INT_MAX:
            return np.fromiter(values, np.int64, len(values))
        elif kinds == {float}:
            return np.fromiter(values, np.float64, len(values))
        elif kinds == {np.ndarray} and len(values) > 1 and (rows := self._rows(list(values))) is not None:
            return rows
        return [self.plain(value, depth + 1) for value in values]

    def _rows(self, arrays: list[Any]) -> Any:
        """Rows of one length as one matrix; None where they are not, or one of them was met before."""
        first = arrays[0]
        if first.ndim != 1 or any(a.dtype != np.float64 or a.shape != first.shape for a in arrays):
            return None
        if len({id(a) for a in arrays}) < len(arrays) or any(
            id(a) in self._number or id(a) in self._names for a in arrays
        ):
            return None
        for each in arrays:
            self._met(each)
        return np.array(arrays)

    def _array(self, value: Any) -> Any:
        name = self._dtype(value.dtype)
        if value.ndim in (1, 2) and _DTYPES[name] in _ON_THE_WIRE:
            return value
        return ["a", name, list(value.shape), np.ascontiguousarray(value, _DTYPES[name]).tobytes()]

    def _dtype(self, dtype: Any) -> str:
        name = _NAMES.get(dtype.newbyteorder("="))
        if name is None:
            raise NotPlain(f"holds NumPy data of type {dtype}; keep numbers, or a list")
        return name


def _described(kind: type) -> str:
    return "a function" if kind.__name__ in ("function", "builtin_function_or_method", "method") else (
        f"an object of {kind.__module__}.{kind.__qualname__}"
    )  # fmt: skip


def _attributes(value: Any) -> dict[str, Any]:
    """What an object of a declared class holds, in slots or not."""
    held = {
        name: getattr(value, name) for name in _slots(type(value)) if hasattr(value, name)
    }
    return {**held, **getattr(value, "__dict__", {})}


def _slots(kind: type) -> list[str]:
    found: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        found += [slots] if isinstance(slots, str) else list(slots)
    return [name for name in found if name not in ("__dict__", "__weakref__")]


class Reader:
    """Plain data back to one broker's values. Anything that `Writer` does not write is BadState."""

    def __init__(
        self, keeps: Mapping[str, Any], shared: Mapping[str, Any], body_of: Callable[[Any], Any]
    ) -> None:
        self._keeps = keeps
        self._shared = shared
        self._body_of = body_of
        self._met: list[Any] = []
        self._tags: dict[str, Callable[..., Any]] = {
            "i": self._integer,
            "shared": self._named,
            "body": self._body,
            "@": self._again,
            "n": self._scalar,
            "a": self._array,
            "l": self._list,
            "t": lambda items: tuple(self._items(items)),
            "s": self._set,
            "f": lambda items: frozenset(self._items(items)),
            "d": lambda keys, values: self._mapping(self._meet({}), keys, values),
            "O": lambda keys, values: self._mapping(self._meet(OrderedDict()), keys, values),
            "C": lambda keys, values: self._mapping(self._meet(Counter()), keys, values),
            "D": self._defaultdict,
            "q": self._deque,
            "y": lambda data: self._meet(bytearray(_of(bytes, data))),
            "w": self._aside,
            "e": self._enum,
            "r": self._tuple_record,
            "o": self._object,
        }

    def value(self, data: Any) -> Any:
        """The value behind plain data, or BadState."""
        kind = type(data)
        if kind in _SHORT:
            return data
        if kind is np.ndarray:
            return self._meet(data)
        if kind is not list or not data or type(data[0]) is not str or data[0] not in self._tags:
            raise BadState(f"it holds {_shown(data)} where a value is expected")
        try:
            return self._tags[data[0]](*data[1:])
        except BadState:
            raise
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise BadState(f"a value tagged {data[0]!r} cannot be read: {str(error)[:200]}") from None

    def _meet(self, value: Any) -> Any:
        self._met.append(value)
        return value

    def _items(self, data: Any) -> list[Any]:
        if type(data) is list:
            return [self.value(item) for item in data]
        if type(data) is np.ndarray and data.ndim == 1 and data.dtype in (np.int64, np.float64):
            return data.tolist()
        if type(data) is np.ndarray and data.ndim == 2 and data.dtype == np.float64:
            return [self._meet(row.copy()) for row in data]
        raise BadState(f"it holds {_shown(data)} where items are expected")

    def _list(self, items: Any) -> list[Any]:
        made: list[Any] = self._meet([])
        made.extend(self._items(items))
        return made

    def _set(self, items: Any) -> set[Any]:
        made: set[Any] = self._meet(set())
        made.update(self._items(items))
        return made

    def _mapping(self, made: Any, keys: Any, values: Any) -> Any:
        names = self._items(keys)
        found = self._items(values)
        if len(names) != len(found):
            raise BadState(f"a map has {len(names)} keys and {len(found)} values")
        for name, value in zip(names, found):
            made[name] = value
        if len(made) != len(names):
            raise BadState("a map names a key twice")
        return made

    def _defaultdict(self, factory: Any, keys: Any, values: Any) -> Any:
        if _of(str, factory) not in _FACTORIES:
            raise BadState(f"a defaultdict of {factory!r:.60}")
        return self._mapping(self._meet(defaultdict(_FACTORIES[factory])), keys, values)

    def _deque(self, maxlen: Any, items: Any) -> Any:
        if maxlen is not None and (type(maxlen) is not int or maxlen < 0):
            raise BadState(f"a deque of at most {maxlen!r:.60}")
        made: deque[Any] = self._meet(deque(maxlen=maxlen))
        made.extend(self._items(items))
        return made

    def _integer(self, digits: Any) -> int:
        return int(_of(str, digits), 16)

    def _scalar(self, name: Any, data: Any) -> Any:
        return np.frombuffer(_of(bytes, data), _dtype_of(name), 1)[0]

    def _array(self, name: Any, shape: Any, data: Any) -> Any:
        dtype = _dtype_of(name)
        if type(shape) is not list or any(type(n) is not int or n < 0 for n in shape):
            raise BadState(f"an array of shape {shape!r:.60}")
        return self._meet(np.frombuffer(_of(bytes, data), dtype).reshape(shape).copy())

    def _named(self, name: Any) -> Any:
        if _of(str, name) not in self._shared:
            raise BadState(f"it names {name!r:.60}, which brokers do not share")
        return self._shared[name]

    def _body(self, uid: Any) -> Any:
        return self._body_of(_of(int, uid))

    def _again(self, number: Any) -> Any:
        if not 0 <= _of(int, number) < len(self._met):
            raise BadState(f"it names value {number} of {len(self._met)}")
        return self._met[number]

    def _declared(self, name: Any, what: Callable[[Any], bool]) -> Any:
        kind = self._keeps.get(_of(str, name))
        if kind is None or not what(kind):
            raise BadState(f"it names {name!r:.60}, which the protocol does not declare in `keeps`")
        return kind

    def _aside(self, name: Any, arguments: Any) -> Any:
        function = self._declared(name, lambda kind: not isinstance(kind, type))
        return Aside(function, *self._items(arguments))

    def _enum(self, name: Any, member: Any) -> Any:
        kind = self._declared(name, lambda kind: isinstance(kind, type) and issubclass(kind, enum.Enum))
        if _of(str, member) not in kind.__members__:
            raise BadState(f"{name} has no member {member!r:.60}")
        return kind.__members__[member]

    def _tuple_record(self, name: Any, items: Any) -> Any:
        kind = self._declared(name, lambda kind: isinstance(kind, type) and issubclass(kind, tuple))
        values = self._items(items)
        if len(values) != len(kind._fields):
            raise BadState(f"{name} has {len(kind._fields)} fields, not {len(values)}")
        return tuple.__new__(kind, values)

    def _object(self, name: Any, names: Any, values: Any) -> Any:
        """Without calling anything of the class: `__new__` of object, and its attributes."""
        kind = self._declared(
            name, lambda kind: isinstance(kind, type) and not issubclass(kind, tuple | enum.Enum)
        )
        made = self._meet(object.__new__(kind))
        given = self._items(names)
        if is_dataclass(kind) and sorted(map(str, given)) != sorted(field.name for field in fields(kind)):
            raise BadState(f"{name} has the fields {', '.join(f.name for f in fields(kind))}; not {_shown(given)}")
        slots = frozenset(_slots(kind))
        found = self._items(values)
        if len(given) != len(found):
            raise BadState(f"{name} has {len(given)} attributes and {len(found)} values")
        for attribute, value in zip(given, found):
            if not acceptable(kind, attribute):
                raise BadState(f"{name} has no attribute {attribute!r:.60}")
            if attribute in slots:
                object.__setattr__(made, attribute, value)
            else:
                vars(made)[attribute] = value
        return made


def acceptable(kind: type, attribute: Any) -> bool:
    """Whether an object of a class may be given an attribute of this name: it hides nothing that is called."""
    if type(attribute) is not str or not attribute.isidentifier() or attribute.startswith("__"):
        return False
    known = getattr(kind, attribute, None)
    return not callable(known) and not isinstance(known, property)


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise BadState(f"it holds {_shown(value)} where {kind.__name__} is expected")
    return value


def _dtype_of(name: Any) -> Any:
    if _of(str, name) not in _DTYPES:
        raise BadState(f"NumPy data of type {name!r:.60}")
    return _DTYPES[name]


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:60]!r}" if type(value) in _SHORT else f"a {type(value).__name__}"
