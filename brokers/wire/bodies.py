"""Message bodies: plain data as canonical msgpack.

Equal means the same types and values: 1, 1.0 and True differ, and so do 0.0 and -0.0. Every NaN is written
as the same quiet NaN.
"""

from __future__ import annotations

import math
from typing import Any

import msgpack

from brokers.errors import InvalidInput, WireError
from brokers.wire.plain import DEPTH_MAX, INT_MAX, INT_MIN, refuse, unpack

_WANTED = "a body holds None, bool, int, float, str, bytes, list and dict"
_NAN = math.nan


class _Unfit(Exception):
    """Something within cannot be sent; what and where is found by a second, slower walk."""


def encode_body(body: Any) -> bytes:
    """The one encoding of a body, or InvalidInput naming the path of what cannot be sent. O(size)."""
    try:
        return bytes(msgpack.packb(_canonical(body, 0)))
    except (_Unfit, ValueError) as error:  # ValueError: text that is no Unicode, or 2**32 bytes at once
        refuse(body, "body", _WANTED)
        raise InvalidInput(f"body: cannot be sent: {error}") from None


def decode_body(data: bytes) -> Any:
    """The body that was encoded, or WireError: every body has one encoding, and no other is read. O(size)."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise WireError(f"body: expected bytes, got {type(data).__name__}")
    data = bytes(data)
    value = unpack(data, "body", 0, _no_extension, msgpack.packb, sorted_keys=True)
    # Bytes that begin an infinity or a NaN: of NaNs, one form is written.
    if (b"\xcb\x7f" in data or b"\xcb\xff" in data) and encode_body(value) != data:
        raise WireError("body: a NaN in another form than the one that is written")
    return value


def _no_extension(code: int, data: bytes) -> Any:
    raise WireError(f"body: extension type {code}; a body is plain data")


def _canonical(value: Any, depth: int) -> Any:
    """The same with maps in the order of their keys and NaN in one form."""
    kind = type(value)
    if kind is float:
        return value if value == value else _NAN
    if kind is str or kind is bytes or value is None or kind is bool:
        return value
    if kind is int and INT_MIN <= value <= INT_MAX:
        return value
    if depth < DEPTH_MAX:
        if kind is list:
            return [_canonical(item, depth + 1) for item in value]
        if kind is dict and all(type(key) is str for key in value):
            return {key: _canonical(value[key], depth + 1) for key in sorted(value)}
    raise _Unfit
