"""Sets of whole numbers as ranges: what is known of a stream, and what has been asked for.

    known = Ranges()
    known.add(0, 3)
    known.add(5, 8)
    list(known.gaps(0, 8))     # [(3, 5)]
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any


class Ranges:
    """Disjoint ranges from a number until before another, ascending, that do not touch."""

    def __init__(self, spans: Any = ()) -> None:
        self.begins: list[int] = []
        self.ends: list[int] = []
        for begin, end in spans:
            self.add(begin, end)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self.begins, self.ends))

    def __contains__(self, number: int) -> bool:
        """Whether a number is in it. O(log ranges)."""
        at = bisect_right(self.begins, number) - 1
        return at >= 0 and number < self.ends[at]

    def add(self, begin: int, end: int) -> None:
        """Have all from `begin` until before `end` in it. O(ranges) at worst, O(log ranges) at its end."""
        if begin >= end:
            return
        first, last = bisect_left(self.ends, begin), bisect_right(self.begins, end)
        if first < last:
            begin, end = min(begin, self.begins[first]), max(end, self.ends[last - 1])
        self.begins[first:last] = [begin]
        self.ends[first:last] = [end]

    def start(self, number: int) -> int:
        """Where the range begins that a number is in."""
        return self.begins[bisect_right(self.begins, number) - 1]

    def first_gap(self) -> int:
        """The first number from 0 on that is not in it. O(1)."""
        return self.ends[0] if self.begins and self.begins[0] == 0 else 0

    def gaps(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """The ranges between these two that are not in it."""
        at = bisect_right(self.ends, begin)
        while begin < end:
            if at == len(self.begins) or self.begins[at] >= end:
                yield begin, end
                return
            if self.begins[at] > begin:
                yield begin, self.begins[at]
            begin = self.ends[at]
            at += 1

    def within(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Its ranges, as far as they lie between these two."""
        for at in range(bisect_right(self.ends, begin), len(self.begins)):
            if self.begins[at] >= end:
                return
            yield max(begin, self.begins[at]), min(end, self.ends[at])

    def check(self) -> None:
        """Every invariant."""
        edges = [edge for span in self for edge in span]
        assert edges == sorted(set(edges)), edges
