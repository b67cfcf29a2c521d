"""Arrays in bodies: packed as the lists of their numbers are, and read back as arrays.

    >>> import numpy as np
    >>> from brokers.wire import encode_body
    >>> pack_numbers(np.array([[1, 200], [-3, 70_000]])) == encode_body([[1, 200], [-3, 70_000]])
    True
    >>> read_ints(encode_body([1, 200, -3])).tolist()
    [1, 200, -3]

An array of int64 or float64 with one or two dimensions is a list of numbers, or a list of such lists. The bytes are the
same, so that a body has one form whoever made it and however; only the way there is shorter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import WireError

Bytes = NDArray[np.uint8]

WIDEST = 9  # bytes of a number, with its head
_HEAD_WIDEST = 5  # bytes of the head of a list
_NAN = np.frombuffer(b"\x7f\xf8\0\0\0\0\0\0", np.uint8)


def fault_of(array: NDArray[Any]) -> str:
    """Why an array cannot stand in a body; nothing if it can."""
    if array.ndim in (1, 2) and array.dtype in (np.int64, np.float64):
        return ""
    return f"an array of {array.ndim} dimensions of {array.dtype} cannot be sent; send 1 or 2 of int64 or float64"


def pack_numbers(array: NDArray[Any]) -> bytes:
    """The bytes of `array.tolist()` in a body. O(numbers), compiled."""
    if fault := fault_of(array):
        raise ValueError(fault)
    rows = np.require(array if array.ndim == 2 else array[None], None, ["C", "W"])  # one form for the kernel
    if array.dtype == np.float64:
        body = _floats(rows)
    else:
        out = np.empty(rows.shape[0] * (_HEAD_WIDEST + WIDEST * rows.shape[1]) + 1, np.uint8)
        body = out[: _write_rows(rows, out)].tobytes()
    return head_of(rows.shape[0]) + body if array.ndim == 2 else body


def head_of(count: int) -> bytes:
    """How a list of so many begins."""
    if count < 16:
        return bytes([0x90 | count])
    return b"\xdc" + count.to_bytes(2, "big") if count < 1 << 16 else b"\xdd" + count.to_bytes(4, "big")


def _floats(rows: NDArray[np.float64]) -> bytes:
    """Each row with its head."""
    count, width = rows.shape
    head = np.frombuffer(head_of(width), np.uint8)
    out = np.empty((count, len(head) + WIDEST * width), np.uint8)
    out[:, : len(head)] = head
    each = out[:, len(head) :].reshape(count, width, WIDEST)
    each[:, :, 0] = 0xCB
    each[:, :, 1:] = rows.astype(">f8").view(np.uint8).reshape(count, width, WIDEST - 1)
    each[np.isnan(rows), 1:] = _NAN
    return out.tobytes()


def read_ints(data: bytes) -> NDArray[np.int64]:
    """The array that a list of whole numbers of 64 bits, or a list of equally long such lists, stands for."""
    found = np.empty(len(data) + 1, np.int64)
    rows, width, count = _read_rows(np.frombuffer(data, np.uint8), found)
    if count < 0:
        raise WireError("body: no list of whole numbers of 64 bits, or of equally long lists of them")
    return found[:count].reshape((rows, width) if rows >= 0 else count).copy()


def read_floats(data: bytes) -> NDArray[np.float64]:
    """The array that a list of floats stands for."""
    size = {0xDC: 3, 0xDD: 5}.get(data[0], 1) if data else 1
    count = max(0, len(data) - size) // WIDEST
    each = np.frombuffer(data, np.uint8, offset=min(size, len(data)))
    if data[:size] != head_of(count) or len(each) != WIDEST * count or (each[::WIDEST] != 0xCB).any():
        raise WireError("body: no list of floats")
    return each.reshape(count, WIDEST)[:, 1:].copy().view(">f8").reshape(count).astype(np.float64)


# ---- kernels -----------------------------------------------------------------------------------------


@njit(cache=True)
def _write_rows(rows, out):
    """Rows of whole numbers, each with its head; returns where they end."""
    at = 0
    for i in range(rows.shape[0]):
        at = write_head(out, at, rows.shape[1])
        for k in range(rows.shape[1]):
            at = write_int(out, at, rows[i, k])
    return at


@njit(cache=True)
def write_head(out, at, count):
    """The head of a list of so many; returns what comes after it."""
    if count < 16:
        out[at] = 0x90 | count
        return at + 1
    if count < 1 << 16:
        out[at] = 0xDC
        return _big_endian(out, at + 1, np.uint64(count), 2)
    out[at] = 0xDD
    return _big_endian(out, at + 1, np.uint64(count), 4)


@njit(cache=True)
def write_int(out, at, value):
    """A whole number in its shortest form; returns what comes after it."""
    if -32 <= value < 128:
        out[at] = value & 0xFF
        return at + 1
    bits = np.uint64(value)
    if value >= 0:
        if value < 1 << 8:
            out[at], size = 0xCC, 1
        elif value < 1 << 16:
            out[at], size = 0xCD, 2
        elif value < 1 << 32:
            out[at], size = 0xCE, 4
        else:
            out[at], size = 0xCF, 8
    elif value >= -(1 << 7):
        out[at], size = 0xD0, 1
    elif value >= -(1 << 15):
        out[at], size = 0xD1, 2
    elif value >= -(1 << 31):
        out[at], size = 0xD2, 4
    else:
        out[at], size = 0xD3, 8
    return _big_endian(out, at + 1, bits, size)


@njit(cache=True)
def _big_endian(out, at, bits, size):
    for k in range(size):
        out[at + k] = (bits >> np.uint64(8 * (size - 1 - k))) & np.uint64(0xFF)
    return at + size


@njit(cache=True)
def read_head(data, at):
    """(How many a list holds, what comes after its head); a count of -1: no list begins here."""
    if at >= data.size:
        return -1, at
    first = np.int64(data[at])
    if 0x90 <= first < 0xA0:
        return first & 0x0F, at + 1
    size = 2 if first == 0xDC else 4 if first == 0xDD else 0
    if size == 0 or at + size >= data.size:
        return -1, at
    return np.int64(_bits(data, at + 1, size)), at + 1 + size


@njit(cache=True)
def read_int(data, at):
    """(A whole number, what comes after it); what comes after is -1 where there is none of 64 bits with a sign."""
    if at >= data.size:
        return np.int64(0), -1
    first = np.int64(data[at])
    if first < 0x80:
        return first, at + 1
    if first >= 0xE0:
        return first - 256, at + 1
    if not 0xCC <= first <= 0xD3:
        return np.int64(0), -1
    size = 1 << ((first - 0xCC) & 3)
    if at + size >= data.size:
        return np.int64(0), -1
    value = np.int64(_bits(data, at + 1, size))
    if first == 0xCF and value < 0:
        return np.int64(0), -1
    if first >= 0xD0 and size < 8 and value >= 1 << (8 * size - 1):
        value -= 1 << (8 * size)
    return value, at + 1 + size


@njit(cache=True)
def _bits(data, at, size):
    bits = np.uint64(0)
    for k in range(size):
        bits = (bits << np.uint64(8)) | np.uint64(data[at + k])
    return bits


@njit(cache=True)
def _read_rows(data, found):
    """(Rows, or -1 for a plain list; their width; how many numbers), the last -1 where it is something else."""
    count, at = read_head(data, 0)
    if count < 0:
        return -1, 0, -1
    held, width = 0, -1
    for i in range(count):
        inner, after = read_head(data, at)
        if i == 0:
            width = inner
        if inner != width:
            return -1, 0, -1
        if inner >= 0:
            at = after
        for _ in range(max(inner, 1) if inner != 0 else 0):
            found[held], at = read_int(data, at)
            if at < 0:
                return -1, 0, -1
            held += 1
    if at != data.size:
        return -1, 0, -1
    return (count if width >= 0 else -1), max(width, 0), held
