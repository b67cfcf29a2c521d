"""Where shards that run as threads of one process meet: after each window, twice, and when one needs to be alone.

Each has a row of a table that only it writes: how many meetings it has come to (its *phase*), and what it tells the
others there. Whoever waits looks at the phases of the others: some hundred times, then it lets other threads run in
between. What is written before a phase is seen by everyone who has seen the phase (release and acquire).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from brokers.views import viewed

# Columns of the table: meetings come to; what is next here; where the outbox is and how much is in it; whether it waits
# to be alone. The row behind those of the shards: whether all shall stop, and how often somebody was alone.
PHASE, NEXT, OUT, USED, PAUSED = range(5)
STOP, EPOCH = range(2)
_ROW = 16  # two cache lines, so that nobody waits for a line that a neighbour writes
_LOOKS = 200

_sched_yield: Any = types.ExternalFunction("sched_yield", types.int32())


class Meeting:
    """The meeting place of some shards."""

    def __init__(self, shards: int) -> None:
        self.table = np.zeros((shards + 1, _ROW), np.int64)
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Something went wrong: nobody shall wait for anybody any more."""
        publish(self.table, len(self.table) - 1, STOP, 1)

    @property
    def epoch(self) -> int:
        return int(self.table[-1, EPOCH])

    @contextmanager
    def alone(self, number: int) -> Iterator[None]:
        """While this lasts no other shard handles anything; what all of them see may be replaced."""
        publish(self.table, number, PAUSED, 1)
        with self._lock:
            others_rest(self.table, number)
            try:
                yield
            finally:
                publish(self.table, len(self.table) - 1, EPOCH, self.epoch + 1)
                publish(self.table, number, PAUSED, 0)


@intrinsic
def _loaded(_context: Any, view: Any, _row: Any, _column: Any) -> Any:
    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load_atomic(_place(context, builder, sig, args), "acquire", 8)

    return types.int64(view, types.int64, types.int64), code


@intrinsic
def _stored(_context: Any, view: Any, _row: Any, _column: Any, _value: Any) -> Any:
    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store_atomic(args[3], _place(context, builder, sig, args), "release", 8)
        return context.get_dummy_value()

    return types.void(view, types.int64, types.int64, types.int64), code


_load: Any = _loaded
_store: Any = _stored


def _place(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    view = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0])
    return builder.gep(view.data, [builder.add(builder.mul(args[1], view.columns), args[2])])


@njit(cache=True)
def publish(table, row, column, value):
    """Write a value, for all to see with what was written before."""
    _store(viewed(table), row, column, value)


@njit(inline="always")
def tell(table, me):
    """Come to the next meeting."""
    _store(table, me, PHASE, table[me, PHASE] + 1)


@njit(cache=True)
def await_all(table, me):
    """Wait until everybody has come to the meeting; False if all shall stop."""
    last = table.rows - 1
    for other in range(last):
        looks = 0
        while _load(table, other, PHASE) < table[me, PHASE]:
            if _load(table, last, STOP) != 0:
                return False
            looks += 1
            if looks > _LOOKS:
                _sched_yield()
    return True


@njit(nogil=True, cache=True)
def others_rest(array, me):
    """Wait until every other shard is at the meeting that follows, or waits to be alone itself."""
    table = viewed(array)
    last = table.rows - 1
    for other in range(last):
        if other != me:
            while _load(table, other, PAUSED) == 0 and _load(table, other, PHASE) <= table[me, PHASE]:
                if _load(table, last, STOP) != 0:
                    return
                _sched_yield()
