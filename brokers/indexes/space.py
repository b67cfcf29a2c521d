"""Memory for the large arrays of indexes.

With pages of 4 kB, a random access to a large array waits for the page table about as long as for the memory
itself. So large arrays come on large pages where the system has them.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGE_BYTES = 1 << 22
STEP_BYTES = 1 << 21  # arrays grow and are given back in steps of no more than this, so that no change waits long

_LINE = 64
_RESERVED = 16  # times what is asked for: room to grow in place


def array(shape: tuple[int, ...], dtype: Any, fill: Any = 0) -> NDArray[Any]:
    """An array of its own, filled."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    made = zeros(size)[:size].view(dtype).reshape(shape)
    if fill != 0:
        made[...] = fill
    return made


def grown(old: NDArray[Any], shape: tuple[int, ...], fill: Any = 0) -> NDArray[Any]:
    """A larger array with the old one at its beginning, on each axis."""
    larger = array(shape, old.dtype, fill)
    larger[tuple(slice(0, extent) for extent in old.shape)] = old
    return larger


def zeros(size: int, reserved: int = 1, room: int = 0) -> NDArray[np.uint8]:
    """So many zero bytes, or more: a large array has `reserved` times as many, and `room` at least.

    What is reserved is address space. It costs nothing until it is written, so that an array can grow in place.
    """
    if max(size, room) < LARGE_BYTES:
        return np.zeros(size, np.uint8)
    wanted = max(reserved * size, room)
    try:
        mapped = mmap.mmap(-1, wanted, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        if wanted > size:  # address space is limited here: an array that outgrows its place has to be copied
            return zeros(size)
        raise MemoryError(f"no memory for an array of {size:,} bytes") from None
    if hasattr(mmap, "MADV_HUGEPAGE"):
        mapped.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(mapped, np.uint8)


def given_back(memory: NDArray[np.uint8], used: int, step: int) -> Iterator[None]:
    """Give the used bytes of what `zeros` made back to the system, some at a time: a large array takes long at once.

    Nothing may look at it any more.
    """
    mapped = memory.base.obj if isinstance(memory.base, memoryview) else None
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        for start in range(0, used, step):
            mapped.madvise(mmap.MADV_DONTNEED, start, min(step, used - start))
            yield


class Growing:
    """A two-dimensional array that grows at its end in place, its start on a cache line.

    One that will have `room` rows in all likelihood is not copied before it has more.
    """

    def __init__(self, dtype: Any, width: int, count: int, room: int = 0) -> None:
        self.dtype, self.width = np.dtype(dtype), width
        self._raw = zeros(self._bytes(count), _RESERVED, self._bytes(room))
        self._offset = self._start()
        self.rows = self._view(count)

    def grow(self, count: int) -> None:
        """Have `count` rows, new ones zero. O(new rows) while there is room, which for large arrays there mostly is."""
        if self._bytes(count) > len(self._raw):
            before = self.rows
            self._raw = zeros(self._bytes(count), _RESERVED)
            self._offset = self._start()
            self._view(len(before))[:] = before
        self.rows = self._view(count)

    def given_back(self) -> Iterator[None]:
        """Give the memory back in steps; the array must not be used any more."""
        return given_back(self._raw, self._bytes(len(self.rows)), STEP_BYTES)

    def _bytes(self, count: int) -> int:
        return count * self.width * self.dtype.itemsize + _LINE

    def _start(self) -> int:
        return -int(self._raw.ctypes.data) % _LINE

    def _view(self, count: int) -> NDArray[Any]:
        bytes_ = self._bytes(count) - _LINE
        return self._raw[self._offset : self._offset + bytes_].view(self.dtype).reshape(count, self.width)
