"""Frames: a kind and a payload of plain data and arrays, with magic, version, length and checksum.

The layout is in the header of `brokers.wire`. Arrays are copied whole, never element by element; a decoded
array owns its memory, is aligned and writable, so that it looks to Numba like any other.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np

from brokers.errors import InvalidInput, WireError
from brokers.wire.plain import DEPTH_MAX, refuse, unpack

MAGIC = b"BLF\xb1"
VERSION = 1
FRAME_BYTES_MAX = 1 << 32  # msgpack counts bytes in 32 bits

_HEADER = struct.Struct("<4sHHQII")
_ARRAY_HEAD = struct.Struct("<BB6x")
_ARRAY_CODE = 1  # the msgpack extension type
_ARRAYS = frozenset({np.ndarray})
_WANTED = "a frame holds plain data and arrays of one or two dimensions"

# The codes are part of the format: never change or reuse one.
_DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<i8"), 2: np.dtype("<i4"), 3: np.dtype("<i2"), 4: np.dtype("<i1"),
    5: np.dtype("<u8"), 6: np.dtype("<f8"), 7: np.dtype("?"),
}  # fmt: skip
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


def encode_frame(kind: str, payload: dict[str, Any]) -> bytes:
    """One frame, or InvalidInput naming the path of what cannot be sent. O(size)."""
    if type(kind) is not str:
        raise InvalidInput(f"the kind of a frame is a str, not {kind!r:.60}")
    if type(payload) is not dict:
        raise InvalidInput(f"the payload of a frame is a dict, not {type(payload).__name__}")
    if not _is_sendable_shape(payload, 0):
        refuse(payload, "payload", _WANTED, _array_fault)
    try:
        packed = _pack([kind, payload], _pack_array)
    except (TypeError, ValueError, OverflowError) as error:
        refuse(kind, "kind", _WANTED)
        refuse(payload, "payload", _WANTED, _array_fault)
        raise InvalidInput(f"payload: cannot be sent: {error}") from None
    if len(packed) > FRAME_BYTES_MAX:
        raise InvalidInput(f"a frame of {len(packed)} bytes; at most {FRAME_BYTES_MAX} fit, send it in parts")
    return _HEADER.pack(MAGIC, VERSION, 0, len(packed), zlib.crc32(packed), 0) + packed


def decode_frame(frame: Any) -> tuple[str, dict[str, Any]]:
    """(kind, payload) of one whole frame, or WireError. O(size)."""
    data = _bytes_of(frame)
    size = _HEADER.size
    if len(data) < size:
        raise WireError(f"frame: {len(data)} bytes, less than a header of {size}")
    magic, version, zero, length, checksum, zero_too = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise WireError(f"frame: at offset 0: begins with {magic!r}, not {MAGIC!r}: this is no frame")
    if version != VERSION:
        raise WireError(f"frame: at offset 4: version {version}; this program reads version {VERSION}")
    if zero or zero_too:
        raise WireError(f"frame: at offset {6 if zero else 20}: a reserved field is not zero")
    if length != len(data) - size:
        raise WireError(f"frame: at offset 8: announces {length} bytes of content, {len(data) - size} follow")
    packed = data[size:]
    actual = zlib.crc32(packed)
    if actual != checksum:
        raise WireError(f"frame: at offset 16: checksum {checksum:08x}, but the content has {actual:08x}")
    content = _unpack(bytes(packed), size)
    if type(content) is not list or list(map(type, content)) != [str, dict]:
        raise WireError(f"frame: at offset {size}: the content is not a kind and a payload")
    return content[0], content[1]


def _pack(content: Any, default: Callable[[Any], msgpack.ExtType]) -> bytes:
    # strict_types: a tuple or a subclass goes to `default`, which refuses what is no array.
    packed: bytes = msgpack.packb(content, default=default, strict_types=True)
    return packed


def _unpack(packed: bytes, offset: int) -> Any:
    """What stands in a frame. An array has one form, and is not put into bytes once more to be sure of the others."""
    bytes_of: dict[int, bytes] = {}

    def array(code: int, data: bytes) -> np.ndarray:
        found = _unpack_array(code, data)
        bytes_of[id(found)] = data
        return found

    def packed_again(content: Any) -> bytes:
        return _pack(content, lambda found: msgpack.ExtType(_ARRAY_CODE, bytes_of[id(found)]))

    return unpack(packed, "frame", offset, array, packed_again, DEPTH_MAX + 1, _ARRAYS)


def _bytes_of(frame: Any) -> memoryview:
    try:
        view = memoryview(frame)
        return view if view.format == "B" and view.ndim == 1 and view.contiguous else view.cast("B")
    except (TypeError, ValueError):
        raise WireError(f"frame: expected bytes, got {type(frame).__name__}") from None


def _pack_array(value: Any) -> msgpack.ExtType:
    if type(value) is not np.ndarray or _array_fault(value):
        raise TypeError
    little = value.dtype.newbyteorder("<")
    array = np.ascontiguousarray(value, little)
    head = _ARRAY_HEAD.pack(_CODES[little], array.ndim) + struct.pack(f"<{array.ndim}Q", *array.shape)
    return msgpack.ExtType(_ARRAY_CODE, b"".join((head, array.data if array.size else b"")))


def _array_fault(array: np.ndarray) -> str:
    if array.ndim in (1, 2) and array.dtype.newbyteorder("<") in _CODES:
        return ""
    known = ", ".join(dtype.name for dtype in _DTYPES.values())
    return f"an array of {array.ndim} dimensions of {array.dtype} cannot be sent; send 1 or 2 of {known}"


def _unpack_array(code: int, data: bytes) -> np.ndarray:
    if code != _ARRAY_CODE:
        raise WireError(f"frame: extension type {code} is not part of this version")
    head = _ARRAY_HEAD.size
    if len(data) < head or any(data[2:head]):
        raise WireError("frame: an array with a broken head")
    dtype_code, dimensions = _ARRAY_HEAD.unpack_from(data)
    dtype = _DTYPES.get(dtype_code)
    if dtype is None:
        raise WireError(f"frame: an array of element type {dtype_code}, which this version does not have")
    if dimensions not in (1, 2):
        raise WireError(f"frame: an array of {dimensions} dimensions; there are 1 or 2")
    start = head + 8 * dimensions
    if len(data) < start:
        raise WireError("frame: an array that ends within its shape")
    shape = struct.unpack_from(f"<{dimensions}Q", data, head)
    if math.prod(shape) * dtype.itemsize != len(data) - start or max(shape) >= 1 << 62:
        raise WireError(f"frame: an array of shape {shape} in {len(data) - start} bytes of {dtype.name}")
    if dtype_code == _CODES[np.dtype("?")] and data[start:].strip(b"\0\1"):
        raise WireError("frame: a bool that is neither 0 nor 1")
    return np.frombuffer(data, dtype, offset=start).reshape(shape).copy()


def _is_sendable_shape(value: Any, depth: int) -> bool:
    """msgpack writes any key and any depth; readers do not take them. Lists of scalars cost little."""
    kind = type(value)
    if kind is dict:
        return (
            depth < DEPTH_MAX
            and all(type(key) is str for key in value)
            and all(_is_sendable_shape(item, depth + 1) for item in value.values())
        )
    if kind is list:
        deeper = not {list, dict}.isdisjoint(map(type, value))
        return depth < DEPTH_MAX and (not deeper or all(_is_sendable_shape(v, depth + 1) for v in value))
    return True
