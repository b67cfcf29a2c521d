"""What a protocol answers: sends, deliveries, timers, costs.

Every call takes scalars or arrays of one length. `event` is a row of the batch that was handed in. Outputs
of one event keep the order of the calls, whatever the order between events; the engine sorts by event once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from brokers.bodies import Bodies
from brokers.contract import Batch, CostModel

TYPE_MAX = 127  # a type is an int8 in the trace
SAME = -2  # for a cause: the cause of the event itself
# Of a send beside its event and link: type, body, word, size, cause. Of a timer: event, delay, type, body, word, cause.
SEND_COLUMNS, TIMER_COLUMNS = range(5), range(6)
AS_IT_CAME = -(1 << 62)  # for a type: the event's own, and so are body, word and cause


class Out:
    """The answers of one service to one batch."""

    def __init__(self, service: int, bodies: Bodies, cost: CostModel) -> None:
        self.service = service
        self._bodies = bodies
        self._cost = cost
        self._batch: Batch
        self.sends: list[tuple[Any, ...]] = []
        self.deliveries: list[tuple[Any, ...]] = []
        self.timers: list[tuple[Any, ...]] = []
        self.costs: list[tuple[Any, Any]] = []
        self.dependencies: list[tuple[Any, Any]] = []
        self.leanings: list[tuple[Any, Any]] = []
        self.records: list[tuple[str, Any, dict[str, Any]]] = []

    def begin(self, batch: Batch) -> None:
        self._batch = batch
        self.sends.clear()
        self.deliveries.clear()
        self.timers.clear()
        self.costs.clear()
        self.dependencies.clear()
        self.leanings.clear()
        self.records.clear()

    def forward(self, event: Any, link: Any) -> None:
        """Send what the event brought over `link`: same type, body, word and cause."""
        self.sends.append((event, link))

    def send(
        self,
        event: Any,
        link: Any,
        type: Any,
        body: Any = -1,
        word: Any = 0,
        size: Any = -1,
        cause: Any = SAME,
    ) -> None:
        """Send a message over `link`. `size` in bytes; -1 is the body's own (16 without one)."""
        self.sends.append((event, link, type, body, word, size, cause))

    def deliver(self, event: Any, client: Any, body: Any = None) -> None:
        """Hand a body (by default the event's) to a client, given by its client number."""
        self.deliveries.append((event, client, body))

    def timer(
        self, event: Any, delay_ns: Any, type: Any, word: Any = 0, body: Any = -1, cause: Any = SAME
    ) -> None:
        """Wake this event's broker `delay_ns` after the event."""
        self.timers.append((event, delay_ns, type, body, word, cause))

    def cost(self, event: Any, ns: Any) -> None:
        """Charge service time beyond what the scenario's cost model charges by itself."""
        self.costs.append((event, ns))

    def work(self, event: Any, entries: Any = 0, matches: Any = 0) -> None:
        """Charge the scenario's cost model for table entries looked at and matches found (logical counts)."""
        model = self._cost
        if model.per_entry or model.per_match:
            ns = model.per_entry * np.asarray(entries, np.float64) + model.per_match * np.asarray(
                matches, np.float64
            )
            self.costs.append((event, (ns + 0.5).astype(np.int64)))

    def body(self, body: Any, type: int, about: int | None = None, like: int = -1) -> int:
        """Make a body of plain data; returns its handle. It lives while a message carries it or `held()` names it.

        `about` is an event whose body this one stands for: a delivery of it then counts for that publication.
        `like` is the handle of such a body itself.
        """
        source = like if about is None else int(self._batch.body[about])
        return self._bodies.add_object(self.service, type, body, *self._bodies.stands_for(source))

    def record(self, table: str, event: Any, **columns: Any) -> None:
        """Write rows of one of the kind's own trace tables.

        One row per event; its `service`, `broker` and `time_ns` are filled in, the other columns are given.
        """
        self.records.append((table, event, columns))

    def depends(self, change: Any, on: Any) -> None:
        """Note that a change is settled only once another one is; both by id, -1 is passed over."""
        self.dependencies.append((change, on))

    def leans(self, interest: Any, on: Any) -> None:
        """Note that an interest is in force only while another one is; both by id.

        For one that was kept back because another covers it: a broker knows the ids, not which change issued them.
        """
        self.leanings.append((interest, on))


__all__ = ["SAME", "TYPE_MAX", "Out"]
