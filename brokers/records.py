"""Records: arrays by name, as compiled code sees them where every nanosecond counts.

    STATE = Record("relay", {"seen": WORDS, "entries": INTS})
    state_at = reader(STATE)

    @njit
    def enter(address, broker):
        state = state_at(address)
        state.entries[broker] += 1

    held = STATE.of({"seen": seen, "entries": entries})
    enter(held.address, 3)

A record is an address, in compiled code as in Python; what lies there says where each array is. So it travels as one
number, and what is read of it are views (`brokers.views`). Whoever makes one keeps it as long as it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from operator import attrgetter, is_
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, intrinsic, lower_getattr_generic, models, register_model, unbox
from numba.np.numpy_support import as_dtype
from numpy.typing import NDArray

from brokers.views import View

_WORDS = 3  # of a field: address, rows, columns


class Record(types.Opaque):
    """The type of a record: names of arrays, and the view that each is seen by."""

    def __init__(self, name: str, fields: Mapping[str, View]) -> None:
        self.fields = dict(fields)
        self.place = {field: i for i, field in enumerate(self.fields)}
        self.forms = {field: (view.ndim, as_dtype(view.dtype)) for field, view in self.fields.items()}
        listed = ", ".join(f"{field}: {view}" for field, view in self.fields.items())
        super().__init__(f"Record[{name} {blake2b(listed.encode(), digest_size=8).hexdigest()}]")

    def of(self, arrays: Mapping[str, NDArray[Any]]) -> Held:
        """A record of these arrays; TypeError where one is not as its view has it."""
        return Held(self, arrays)


class Held:
    """A record with the arrays that it names."""

    __slots__ = ("_arrays", "_numba_type_", "_watched", "address", "table")

    def __init__(self, record: Record, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._numba_type_ = record
        self._arrays: dict[str, NDArray[Any] | None] = dict.fromkeys(record.fields)
        self.table = np.zeros((len(record.fields), _WORDS), np.int64)
        self._watched: list[Any] = []  # owners, what gets their arrays, as what, and what was found last
        self.address = address_of(self.table)
        self.follow({name: arrays[name] for name in record.fields})

    def follow(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Name these arrays from now on; those that it names already cost next to nothing."""
        known, record = self._arrays, self._numba_type_
        for name, array in arrays.items():
            if known[name] is not array:
                ndim, dtype = record.forms[name]
                if array.ndim != ndim or array.dtype != dtype or not array.flags.c_contiguous:
                    view = record.fields[name]
                    raise TypeError(f"{name!r} is {array.dtype} in {array.ndim} dimensions; compiled code takes {view}")
                self.table[record.place[name]] = address_of(array), array.shape[0], array.shape[-1]
                known[name] = array

    def watch(self, owners: Mapping[str, tuple[Any, str]]) -> None:
        """Where arrays are that may be replaced: by field, an object and the name of its attribute."""
        by_owner: dict[int, tuple[Any, list[str], list[str]]] = {}
        for name, (owner, attribute) in owners.items():
            _, names, attributes = by_owner.setdefault(id(owner), (owner, [], []))
            names.append(name)
            attributes.append(attribute)
        # An attribute twice, since of a single one a getter makes no tuple.
        self._watched = [
            [owner, attrgetter(*attributes, attributes[0]), names, ()] for owner, names, attributes in by_owner.values()
        ]

    def renew(self) -> None:
        """Follow those of the arrays watched that were replaced."""
        for watched in self._watched:
            owner, get, names, seen = watched
            found = get(owner)
            if not all(map(is_, found, seen)) or not seen:
                self.follow(dict(zip(names, found)))
                watched[3] = found


def address_of(array: NDArray[Any]) -> int:
    """Where the elements of an array are."""
    where: int = array.__array_interface__["data"][0]
    return where


# ---- in compiled code --------------------------------------------------------------------------------

register_model(Record)(models.OpaqueModel)


@unbox(Record)
def _unbox(record: Any, held: Any, c: Any) -> NativeValue:
    number = c.pyapi.object_getattr_string(held, "address")
    address = c.pyapi.long_as_longlong(number)
    c.pyapi.decref(number)
    return NativeValue(c.builder.inttoptr(address, cgutils.voidptr_t), is_error=cgutils.is_not_null(
        c.builder, c.pyapi.err_occurred()
    ))  # fmt: skip


@infer_getattr
class _Fields(AttributeTemplate):
    key = Record

    def generic_resolve(self, record: Any, name: str) -> Any:  # type: ignore[override]
        return record.fields.get(name)


@lower_getattr_generic(Record)
def _field(context: Any, builder: Any, record: Any, value: Any, name: str) -> Any:
    word = context.get_value_type(types.int64)
    table = builder.bitcast(value, word.as_pointer())
    first = _WORDS * record.place[name]
    found = [builder.load(builder.gep(table, [context.get_constant(types.int64, first + i)])) for i in range(_WORDS)]
    for load in found:  # while compiled code runs nobody replaces an array, so one look at the table is enough
        load.set_metadata("invariant.load", builder.module.add_metadata([]))
    address, rows, columns = found
    view = record.fields[name]
    made = cgutils.create_struct_proxy(view)(context, builder)
    made.data = builder.inttoptr(address, context.get_value_type(types.CPointer(view.dtype)))
    made.rows, made.columns = rows, columns
    return made._getvalue()


def reader(record: Record) -> Any:
    """What makes this record of an address, in compiled code."""

    @intrinsic
    def at(_context: Any, address: Any) -> Any:
        def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], cgutils.voidptr_t)

        return record(types.int64), code

    return at
