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


def zeros(size: int, reserved: int = 1) -> NDArray[np.uint8]:
    """So many zero bytes, or more: a large array has `reserved` times as many.

    What is reserved is address space. It costs nothing until it is written, so that an array can grow in place.
    """
    if size < LARGE_BYTES:
        return np.zeros(size, np.uint8)
    try:
        mapped = mmap.mmap(-1, reserved * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        if reserved > 1:  # address space is limited here: an array that outgrows its place has to be copied
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
