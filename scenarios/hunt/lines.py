"""Which lines of a protocol run: watched in some runs, since it takes time.

A function of which all lines have been seen is watched no longer, and what belongs to others never is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from scenarios.hunt.own_code import OwnCode

WATCHED_EVERY = 7  # runs, one of which is watched; not a divisor of those that dear judges are asked about
_RANGES_MOST = 12


class Lines:
    """The lines of a protocol's own code that have been seen to run."""

    def __init__(self, own: OwnCode) -> None:
        self.own = own
        self.reached: dict[str, set[int]] = {file: set() for file in own.lines}
        self.fresh = 0  # lines seen for the first time; without functions that run once a process
        self._locals: dict[int, Callable[..., Any]] = {}
        for code in own.functions:
            self._watch(code, code in own.remembered)
        self._codes = list(own.functions)  # kept, since they go by their ids

    def _watch(self, code: CodeType, once: bool) -> None:
        left = {line for _, _, line in code.co_lines() if line and line != code.co_firstlineno}
        if left:
            self._locals[id(code)] = self._local(left, self.reached[code.co_filename], once)
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                self._watch(inner, once)

    def _local(self, left: set[int], reached: set[int], once: bool) -> Callable[..., Any]:
        def local(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line" and frame.f_lineno in left:
                left.discard(frame.f_lineno)
                reached.add(frame.f_lineno)
                self.fresh += not once
                if not left:
                    self._locals.pop(id(frame.f_code), None)
                    return None
            return local

        return local

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within, lines that run are noted; not where somebody else watches already, as a debugger does."""
        if sys.gettrace() is not None or not self._locals:
            yield
            return
        known = self._locals.get

        def begins(frame: FrameType, event: str, argument: Any) -> Any:
            return known(id(frame.f_code))

        sys.settrace(begins)
        try:
            yield
        finally:
            sys.settrace(None)


def never(lines: set[int], reached: set[int]) -> list[str]:
    """The lines that were not reached, those that follow each other as one range: 7, 20-24."""
    ranges: list[list[int]] = []
    before_was = False
    for line in sorted(lines):
        if line in reached:
            before_was = False
        elif before_was:
            ranges[-1][1] = line
        else:
            ranges.append([line, line])
            before_was = True
    return [str(low) if low == high else f"{low}-{high}" for low, high in ranges]


def some(ranges: list[str]) -> str:
    """Ranges for people."""
    rest = f" and {len(ranges) - _RANGES_MOST} more" if len(ranges) > _RANGES_MOST else ""
    return ", ".join(ranges[:_RANGES_MOST]) + rest
