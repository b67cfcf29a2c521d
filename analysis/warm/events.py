"""What Numba compiles while a block lasts. Loading from the cache is no compiling."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from numba.core import event


class Compiled(NamedTuple):
    """One function for one signature."""

    function: str  # module.name
    signature: str
    seconds: float  # of this process's CPU, without what it called and had to compile

    def __str__(self) -> str:
        return f"{self.function}{self.signature}"


class _Listener(event.Listener):
    def __init__(self, found: Callable[[Compiled], None]) -> None:
        self._found = found
        self._open: list[tuple[float, list[float]]] = []  # when it began, and what callees took

    def on_start(self, happened: Any) -> None:
        self._open.append((time.process_time(), []))

    def on_end(self, happened: Any) -> None:
        began, inner = self._open.pop()
        took = time.process_time() - began
        if self._open:
            self._open[-1][1].append(took)
        function = happened.data["dispatcher"].py_func
        self._found(
            Compiled(
                f"{function.__module__}.{function.__qualname__}", str(happened.data["args"]), took - sum(inner)
            )
        )


@contextmanager
def listening(found: Callable[[Compiled], None]) -> Iterator[None]:
    """Tell of every function that is compiled."""
    listener = _Listener(found)
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
