"""Work that is computed aside: begun now, needed when simulated time reaches its finish.

A protocol that plans names the cost of planning first, and sets a timer for its end. What it plans follows from
what it knows now, so that it can be computed meanwhile, and is joined when the timer comes:

    self.plan = Aside(make_plan, queries, seed)
    node.timer(message, cost_ns, PLANNED)
    ...
    plan = self.plan.result()

The function is pure and at the top level of a module, and its arguments are plain data that nobody changes
afterwards. So the answer does not depend on when or where it was computed, and a checkpoint keeps the function's
name and its arguments: who goes on from it computes again. The protocol declares the function in `keeps`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any


@cache
def _pool() -> ThreadPoolExecutor:
    """One thread: kernels and libraries that release the interpreter run beside the simulation."""
    return ThreadPoolExecutor(1, "aside")


class Aside:
    """A call whose result is needed later."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.function, self.arguments = function, arguments
        self._future: Future[Any] = _pool().submit(function, *arguments)

    def result(self) -> Any:
        """What the function returned, or raised; waits for it if need be."""
        return self._future.result()
