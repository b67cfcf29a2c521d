"""Bodies of plain data in compiled handlers: made by them, and read.

    at = begin(desk)
    at = write_head(desk.bytes, at, 2)  # of brokers.wire.numbers
    at = write_int(desk.bytes, at, 7)
    at = write_int(desk.bytes, at, 11)
    send(desk, row, link, ASK, finish(desk, row, ASK, at))

    data = data_of(desk, desk.body[row])
    count, at = read_head(data, 0)

A body so made is the same as one that `Out.body` makes of the same numbers: its fingerprint, its size and what it
stands for (what its row's body is or stands for). It takes one of the handles that its shard was lent, and its bytes
lie in a chunk of the shard's, which goes when no body in it is needed any more.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from brokers.records import address_of
from brokers.views import FLAGS, INTS, NARROW, WORDS, View, where
from brokers.wire.blake import fingerprint

if TYPE_CHECKING:
    from brokers.bodies import Bodies

BYTES, SHORT = View(types.uint8, 1), View(types.int16, 1)
POOL_AT, POOL_END, BYTES_AT = range(3)  # of `making`: which handles are left, and where bytes go
WRAPPING_BYTES = 16  # of a body, beside what it is encoded to
FIELDS = {
    "making": INTS, "pool": NARROW, "bytes": BYTES,
    "body_hash": WORDS, "body_size": INTS, "body_type": SHORT, "body_service": SHORT, "body_used": FLAGS,
    "data_at": INTS, "data_size": INTS,  # of each body of plain data, where its bytes are
}  # fmt: skip
_BODY_COLUMNS = {
    "body_hash": "hash", "body_size": "size", "body_type": "type", "body_service": "service", "body_used": "_used",
    "data_at": "data_at", "data_size": "data_size",
}  # fmt: skip
_HANDLES_FEW, _CHUNK_BYTES = 1024, 1 << 20


class Making:
    """Room for the bodies that compiled handlers of one shard make."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self.pool = np.empty(0, np.int32)
        self.making = np.zeros(3, np.int64)
        self.bytes = np.empty(0, np.uint8)
        self._chunks: list[NDArray[np.uint8]] = []

    def reserve(self, bodies: int, size: int) -> None:
        """Room for so many more bodies, of so many bytes together. Handlers see it once their desks are renewed."""
        left = self.pool[self.making[POOL_AT] : self.making[POOL_END]]
        if left.size < bodies:
            self.pool = np.concatenate([left, self._bodies.lend(max(_HANDLES_FEW, 2 * bodies))])
            self.making[POOL_AT], self.making[POOL_END] = 0, self.pool.size
        if self.bytes.size - self.making[BYTES_AT] < size:
            self.bytes = np.empty(max(_CHUNK_BYTES, 2 * size), np.uint8)
            self.making[BYTES_AT] = 0
            self._chunks.append(self.bytes)

    def let_go(self, used_at: NDArray[np.int64]) -> None:
        """Of chunks in which no body is that is still needed; `used_at` are the places of bodies, in order."""
        self._chunks = [each for each in self._chunks if each is self.bytes or _any_in(used_at, each)]

    def columns(self) -> dict[str, Any]:
        """What a desk has of it, and of bodies to write to."""
        return {name: getattr(owner, attribute) for name, (owner, attribute) in self.growing().items()}

    def growing(self) -> dict[str, tuple[Any, str]]:
        """Where these are, for `Held.watch`."""
        own = {name: (self, name) for name in ("making", "pool", "bytes")}
        return {**own, **{name: (self._bodies, column) for name, column in _BODY_COLUMNS.items()}}


def _any_in(places: NDArray[np.int64], chunk: NDArray[np.uint8]) -> bool:
    first = address_of(chunk)
    return bool(np.searchsorted(places, first) < np.searchsorted(places, first + chunk.size))


def bytes_at(address: int, size: int) -> bytes:
    """The bytes of a body that compiled code made."""
    return ctypes.string_at(address, size)


# ---- in compiled code --------------------------------------------------------------------------------


@njit(inline="always")
def begin(desk):
    """Where the bytes of a body begin in `desk.bytes`; `makes` has to have said that there is room."""
    return desk.making[BYTES_AT]


@njit(cache=True)
def finish(desk, row, type_, stop):
    """The body whose bytes end there: its handle. It stands for what the row's body is or stands for."""
    making, first = desk.making, desk.making[BYTES_AT]
    if making[POOL_AT] >= making[POOL_END] or stop > desk.bytes.size:
        raise IndexError("it makes more bodies, or larger ones, than it asked `makes` for")
    body, about = desk.pool[making[POOL_AT]], desk.body[row]
    making[POOL_AT] += 1
    making[BYTES_AT] = stop
    service = np.int64(desk.service[row])
    desk.body_hash[body] = fingerprint(desk.bytes, first, stop, service | (np.int64(type_) << 16))
    desk.body_size[body] = stop - first + WRAPPING_BYTES
    desk.body_type[body] = type_
    desk.body_service[body] = service
    desk.published_ns[body] = desk.published_ns[about] if about >= 0 else -1
    desk.key[body] = desk.key[about] if about >= 0 else -1
    desk.origin[body] = desk.origin[about] if about >= 0 else -1
    desk.data_at[body] = where(desk.bytes) + first
    desk.data_size[body] = stop - first
    desk.body_used[body] = True
    return np.int64(body)


@njit(inline="always")
def data_of(desk, body):
    """The bytes of a body of plain data; none of any other."""
    return _shown(desk.data_at[body], desk.data_size[body])


@intrinsic
def _bytes_at(_context: Any, address: Any, size: Any) -> Any:
    """The bytes there."""

    def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        made = cgutils.create_struct_proxy(BYTES)(context, builder)
        made.data = builder.inttoptr(args[0], context.get_value_type(types.CPointer(types.uint8)))
        made.rows = made.columns = args[1]
        return made._getvalue()

    return BYTES(types.int64, types.int64), code


_shown: Any = _bytes_at
