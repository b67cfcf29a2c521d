"""Columns of whole numbers, packed for a page: differences, zigzag, byte planes, deflate, five letters for four bytes.

Bytes of one weight lie together, so that deflate sees like beside like: eight columns of 89,541 events take some 320 kB
as text. `columns.js` takes them apart again.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TRIED = 1 << 16  # values by which it is decided whether differences are smaller
_EXACT = 1 << 53  # from which on a number of JavaScript is not exact
_IN_HTML = str.maketrans("<>&", ",.:")  # letters of base85 that mean something in HTML, and others for them
_IN_PYTHON = str.maketrans(",.:", "<>&")


class TooLarge(ValueError):
    """A number that no run has, and that a page could not hold."""


class Columns:
    """Columns under way to one page."""

    def __init__(self) -> None:
        self.directory: list[dict[str, Any]] = []
        self._planes: list[bytes] = []

    def add(self, name: str, values: Any) -> None:
        """One more column; |values| < 2^53."""
        column = np.ascontiguousarray(values, np.int64)
        most = int(np.abs(column).max()) if column.size else 0
        if most >= _EXACT:
            raise TooLarge(f"column {name}: {most} is not exact in a page")
        running = _smaller(np.diff(column[:_TRIED], prepend=0), column[:_TRIED])
        coded = _zigzag(np.diff(column, prepend=0) if running else column)
        planes = _planes(coded)
        self.directory.append(
            {"name": name, "rows": column.size, "planes": len(planes), "running": running, "wide": most >= 1 << 31}
        )
        self._planes += planes

    def packed(self) -> str:
        """All of it, as text for the page."""
        squeeze = zlib.compressobj(9 if sum(map(len, self._planes)) < 1 << 22 else 6)
        parts = [squeeze.compress(plane) for plane in self._planes]
        return lettered(b"".join([*parts, squeeze.flush()]))


def lettered(data: bytes) -> str:
    """Bytes as text that stands in HTML as it is: base85, with no letter that means something there."""
    return base64.b85encode(data).decode().translate(_IN_HTML)


def unpacked(directory: list[dict[str, Any]], text: str) -> dict[str, NDArray[np.int64]]:
    """What `columns.js` does, for tests and for whoever wants the numbers of a page."""
    data = np.frombuffer(zlib.decompress(base64.b85decode(text.translate(_IN_PYTHON))), np.uint8)
    found, at = {}, 0
    for each in directory:
        coded = np.zeros(each["rows"], np.uint64)
        for plane in range(each["planes"]):
            coded |= data[at : at + each["rows"]].astype(np.uint64) << np.uint64(8 * plane)
            at += each["rows"]
        column = (coded >> np.uint64(1)).astype(np.int64) ^ -(coded & np.uint64(1)).astype(np.int64)
        found[each["name"]] = np.cumsum(column) if each["running"] else column
    return found


def _zigzag(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def _planes(coded: NDArray[np.uint64]) -> list[bytes]:
    most = int(coded.max()) if coded.size else 0
    count = max(1, (most.bit_length() + 7) // 8)
    as_bytes = coded.astype("<u8").view(np.uint8).reshape(-1, 8)
    return [as_bytes[:, plane].tobytes() for plane in range(count)]


def _smaller(running: NDArray[np.int64], plain: NDArray[np.int64]) -> bool:
    sizes = [sum(len(zlib.compress(plane, 1)) for plane in _planes(_zigzag(each))) for each in (running, plain)]
    return sizes[0] < sizes[1]
