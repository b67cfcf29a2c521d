"""Sizes from which tables tidy themselves or grow, and a knob that lowers all of them.

Neither ever shows in what a protocol sends. But it is done from sizes on that small runs do not reach, so the
conformance kit and `brokerlab hunt` lower them, for runs in this process: `with lowered(4): ...`. Nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_most: int | None = None


def usually(size: int) -> int:
    """The size, or what all of them are lowered to."""
    return size if _most is None else max(1, min(size, _most))


def usual_room(size: int) -> int:
    """The same of a room whose size is a power of two."""
    return 1 << (usually(size).bit_length() - 1)


@contextmanager
def lowered(to: int | None) -> Iterator[None]:
    """Within, sizes are at most this; None: as usual."""
    global _most
    before, _most = _most, to
    try:
        yield
    finally:
        _most = before
