"""Holding back: what reached a broker counts in the order in which clients issued it, not in which it came.

Every broker tells each neighbour now and then two *watermarks*: up to when all changes, and up to when all
publications, that come by it have been sent over this link. Links are FIFO, so what arrives behind was issued later.
The least of a broker's own clock and of the watermarks of its links is how far it knows all. What is held is taken in
the order of issue: a publication once all changes before it are here, a change once all publications before it are.
Changes are passed on as they come, publications once decided, so the second watermark lags behind the first. Two
are needed: with one, brokers would wait for each other's publications.

The price: a message per link and direction each `every_ns`, and a latency of the way of a watermark from the far
end of the network, about (delay + every_ns) per hop.

When clients have ceased to act, the watermark becomes NEVER, spreads inward from the leaves, and ends the ticking.
Links that lose messages are refused: a broker would not know that it waits in vain.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any

from brokers.columns import BadState
from brokers.contract import NEVER


class Holding:
    """What one broker holds back, and how far it knows everything."""

    def __init__(self, every_ns: int, links: list[int], duration_ns: int) -> None:
        self.every_ns = every_ns
        self.marks = dict.fromkeys(links, (-1, -1))  # of changes, of publications
        self._duration_ns = duration_ns
        self._held: list[tuple[int, int, int, tuple[Any, ...]]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._held)

    def state(self) -> dict[str, Any]:
        """Plain data, for `load`."""
        return {"marks": self.marks, "held": self._held, "count": self._count}

    def load(self, state: Any, check: Callable[[Any], None]) -> None:
        """Take over what another one held back; `check` refuses what is no act."""
        if type(state) is not dict or state.keys() != self.state().keys():
            raise BadState("what is held back is not told of")
        marks, held, count = state["marks"], state["held"], state["count"]
        if type(marks) is not dict or marks.keys() != self.marks.keys() or not all(map(_is_pair, marks.values())):
            raise BadState("watermarks are not those of the links")
        if type(held) is not list or type(count) is not int:
            raise BadState("what is held back is no list")
        for each in held:
            if type(each) is not tuple or list(map(type, each[:3])) != [int, int, int] or len(each) != 4:
                raise BadState("something held back has no time, rank and number")
            check(each[3])
        heapq.heapify(held)
        self.marks, self._held, self._count = marks, held, count

    def push(self, issued_ns: int, rank: int, act: tuple[Any, ...]) -> None:
        """Hold an act until all that was issued before is here. O(log held)."""
        self._count += 1
        heapq.heappush(self._held, (issued_ns, rank, self._count, act))

    def release(self, clock_ns: int) -> Iterator[tuple[Any, ...]]:
        """What may count by now, in order; all that clients here sent up to `clock_ns` has come."""
        changes_ns, publications_ns = self.mark(clock_ns, -1, held=False)
        while self._held:
            issued_ns, rank, _, act = self._held[0]
            if issued_ns > changes_ns or (rank == 0 and issued_ns > publications_ns + 1):
                break
            heapq.heappop(self._held)
            yield act

    def clock(self, now_ns: int) -> int:
        """Up to when clients here have been heard at a tick: NEVER once they act no more."""
        return NEVER if now_ns >= self._duration_ns else now_ns

    def mark(self, clock_ns: int, link: int, held: bool = True) -> tuple[int, int]:
        """The watermarks for the broker behind a link: it knows itself what comes from there."""
        changes_ns = publications_ns = clock_ns
        for other, (changes, publications) in self.marks.items():
            if other != link:
                changes_ns = min(changes_ns, changes)
                publications_ns = min(publications_ns, publications)
        if held:
            for issued_ns, rank, _, _ in self._held:
                if rank:
                    publications_ns = min(publications_ns, issued_ns - 1)
        return changes_ns, publications_ns

    def is_over(self, clock_ns: int) -> bool:
        """Whether nobody here or elsewhere needs another watermark."""
        return clock_ns == NEVER and all(mark == (NEVER, NEVER) for mark in self.marks.values()) and not self._held


def _is_pair(mark: Any) -> bool:
    return type(mark) is tuple and list(map(type, mark)) == [int, int]
