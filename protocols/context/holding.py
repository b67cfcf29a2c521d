"""Holding back: what reached a broker counts in the order in which clients issued it, not in which it came.

Every broker tells each neighbour now and then a *watermark*: all that was issued up to then, and comes by it, has
been sent over this link. Links are FIFO, so what arrives behind the watermark was issued later. The least of a
broker's own clock and of the watermarks of its links is how far it knows everything; up to there it takes what it
held, in the order of issue. So a publication is decided on profiles and values as they were when it was sent.

The price: a message per link and direction each `every_ns`, and a latency of the way of a watermark from the far
end of the network, about (delay + every_ns) per hop.

When clients have ceased to act, the watermark becomes NEVER, spreads inward from the leaves, and ends the ticking.
Where links lose messages it is repeated for a while.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from brokers.contract import NEVER

_REPEATS = 64


class Holding:
    """What one broker holds back, and how far it knows everything."""

    def __init__(self, every_ns: int, links: list[int], duration_ns: int, overlay: Any) -> None:
        self.every_ns = every_ns
        self.marks = dict.fromkeys(links, -1)
        self._duration_ns = duration_ns
        self._lossy = bool((overlay.loss > 0).any())
        self._held: list[tuple[int, int, int, tuple[Any, ...]]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._held)

    def push(self, issued_ns: int, rank: int, act: tuple[Any, ...]) -> None:
        """Hold an act until all that was issued before is here. O(log held)."""
        self._count += 1
        heapq.heappush(self._held, (issued_ns, rank, self._count, act))

    def release(self, clock_ns: int) -> Iterator[tuple[Any, ...]]:
        """What may count by now, in order; all that clients here sent up to `clock_ns` has come."""
        complete_ns = min(clock_ns, *self.marks.values()) if self.marks else clock_ns
        while self._held and self._held[0][0] <= complete_ns:
            yield heapq.heappop(self._held)[3]

    def clock(self, now_ns: int) -> int:
        """Up to when clients here have been heard at a tick: NEVER once they act no more."""
        return NEVER if now_ns >= self._duration_ns else now_ns

    def mark(self, clock_ns: int, link: int) -> int:
        """The watermark for the broker behind a link: it knows itself what comes from there."""
        return min([clock_ns, *(mark for other, mark in self.marks.items() if other != link)])

    def is_over(self, now_ns: int, clock_ns: int) -> bool:
        """Whether nobody here or elsewhere needs another watermark."""
        if self._lossy:
            return now_ns >= self._duration_ns + _REPEATS * self.every_ns
        return clock_ns == NEVER and all(mark == NEVER for mark in self.marks.values())
