"""Message bodies: plain data as canonical msgpack.

Equal means the same types and values: 1, 1.0 and True differ, and so do 0.0 and -0.0. Every NaN is written
as the same quiet NaN. An array of numbers stands for the list of them, and gives its bytes.
"""

from __future__ import annotations

import math
from typing import Any

import msgpack
import numpy as np

from brokers.errors import InvalidInput, WireError
from brokers.wire.numbers import fault_of, head_of, pack_numbers
from brokers.wire.plain import DEPTH_MAX, INT_MAX, INT_MIN, refuse, unpack

_WANTED = "a body holds None, bool, int, float, str, bytes, list and dict, and arrays in the place of lists of numbers"
_NAN = math.nan


class _Unfit(Exception):
    """Something within cannot be sent; what and where is found by a second, slower walk."""


class _Arrays(Exception):
    """There are arrays within, or parts that are encoded already."""


class Encoded:
    """A part of a body that is encoded already, by `encode_body` or in the same form; it stands where its value would.

    Who makes it vouches for it: it is not looked into.
    """

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def encode_body(body: Any) -> bytes:
    """The one encoding of a body, or InvalidInput naming the path of what cannot be sent. O(size)."""
    return encoded_body(body)[0]


def encoded_body(body: Any) -> tuple[bytes, bool]:
    """The encoding of a body, and whether it is plain: without arrays and parts that are encoded already."""
    try:
        try:
            return bytes(msgpack.packb(_canonical(body, 0))), True
        except _Arrays:
            parts: list[bytes] = []
            _write(body, 0, parts)
            return b"".join(parts), False
    except (_Unfit, ValueError) as error:  # ValueError: text that is no Unicode, or 2**32 bytes at once
        refuse(body, "body", _WANTED, fault_of, ready=Encoded)
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
    if kind is np.ndarray or kind is Encoded:
        raise _Arrays
    raise _Unfit


def _write(value: Any, depth: int, parts: list[bytes]) -> None:
    """The pieces of an encoding, around arrays and what is encoded already."""
    kind = type(value)
    if kind is Encoded:
        parts.append(value.data)
    elif kind is np.ndarray:
        if fault_of(value) or depth + value.ndim > DEPTH_MAX:
            raise _Unfit
        parts.append(pack_numbers(value))
    elif kind is list and depth < DEPTH_MAX:
        parts.append(head_of(len(value)))
        for item in value:
            _write(item, depth + 1, parts)
    elif kind is dict and depth < DEPTH_MAX and all(type(key) is str for key in value):
        parts.append(msgpack.Packer().pack_map_header(len(value)))
        for key in sorted(value):
            parts.append(msgpack.packb(key))
            _write(value[key], depth + 1, parts)
    else:
        parts.append(msgpack.packb(_canonical(value, depth)))
