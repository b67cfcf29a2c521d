"""Sizes from which tables and indexes tidy themselves, plan anew or grow, and a knob that lowers all that ask here.

Nothing of that ever shows in what a protocol sends. But it is done from sizes on that small runs do not reach, so
`brokerlab hunt`, with which the kit ends, lowers them for runs in its process: `with lowered(4): ...`.
Those ask here that decide in Python: tables, `cells`, `htree`, `sliced`, contexts; no threshold within a kernel does.
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
