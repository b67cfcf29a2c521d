"""Which losses excuse that a publication or a change did not arrive."""

from __future__ import annotations

from enum import IntEnum


class Heeded(IntEnum):
    """By how many links count; what was lost over none, -1 in place of a link, comes before the first."""

    NONE = 0
    OVER_NO_LINK = 1  # of who makes good what is lost between brokers (`brokers.promises.excusing`)
    ALL = 1 << 31

    @property
    def before(self) -> int:
        """What is lost over a link of a lower number counts."""
        return self - 1
