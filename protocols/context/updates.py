"""Changing contexts, the workload of the kind `context`: values that entities report as they change.

Each client holds `contexts` contexts with a value per attribute. It begins by reporting all of them (or they
stand at time 0, where the service says `subscriptions: settled`), and then changes one value at a time,
drawn uniformly: by a random walk of at most `step`, clamped to the domain, or drawn anew.

Row of an UPDATE: [context number, attribute, value]; context number = client number * contexts + its own.
Its word names the value (`protocols.context.kind.value_word`), so that an update replaces the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from brokers.contract import NEVER, Emission, Ints, Rates, SourceContext
from brokers.workloads.arrivals import ArrivalParameters, Arrivals
from brokers.workloads.common import GroupSource, Parameters, emission
from brokers.workloads.values import ValueParameters
from protocols.context.kind import UPDATE, value_word


def _words(rows: NDArray[np.float64]) -> Ints:
    """The name of each row's value."""
    words: Ints = value_word(rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64))
    return words


class ContextUpdatesParameters(ArrivalParameters, ValueParameters):
    """How contexts change; `values` is what they begin with and what is drawn anew."""

    contexts: int = Field(1, ge=1, le=1_000_000, description="contexts of each client")
    change: Literal["walk", "redraw"] = "walk"
    step: float | None = Field(None, gt=0, description="walk: largest change; default a tenth of the domain")

    @model_validator(mode="after")
    def _step_for_walks(self) -> ContextUpdatesParameters:
        if self.change == "redraw" and self.step is not None:
            raise ValueError("`step` belongs to the change `walk`, and this one is `redraw`")
        return self


class ContextUpdates(GroupSource):
    """Updates of context values."""

    Params: ClassVar[type[Parameters]] = ContextUpdatesParameters
    publishes: ClassVar[bool] = False

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        self._params = ContextUpdatesParameters.model_validate(dict(params))
        super().__init__(self._params, context)
        self._attributes = context.service_params["attributes"]
        self._laws = self._params.law_table(self._attributes)
        low, high = self._params.domain
        self._step = (self._params.step or 0.1 * (high - low)) if self._params.change == "walk" else 0.0
        self._change_keys = self._keys("changes", self.clients)
        self._values = self._first_values(self.clients)
        self._arrivals = Arrivals(
            self._params, self._keys("times", self.clients), context.population, context.duration_ns
        )
        first_ns = self._params.start + 1
        reports = not context.settled and first_ns < context.duration_ns
        self._report_at = np.full(self.clients.size, first_ns if reports else NEVER, np.int64)
        self._set_chunk(self._arrivals.rate)

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        p = ContextUpdatesParameters.model_validate(dict(params))
        values = context.population * p.contexts * int(context.service_params["attributes"])
        updates = p.expected_per_s(context.population, context.duration_ns)
        if not context.settled and p.start + 1 < context.duration_ns:
            updates += values * 1e9 / context.duration_ns
        return Rates(changes=updates, more={"updates": updates, "values": values})

    def standing(self, clients: Ints) -> list[Emission]:
        clients = np.asarray(clients, np.int64)
        return [self._report(clients, self._first_values(clients), 0)]

    def _next_event_ns(self) -> int:
        return min(int(self._report_at.min(initial=NEVER)), self._arrivals.next_event_ns())

    def _emit(self, until_ns: int) -> list[Emission]:
        from brokers.workloads import kernels

        out = []
        due = self._report_at < until_ns
        if due.any():
            # The values of the moment: a client's report precedes its first change, and nothing changed yet.
            out.append(self._report(self.clients[due], self._values[due], self._params.start + 1))
            self._report_at[due] = NEVER
        who, when, number = self._arrivals.until(until_ns)
        if who.size:
            rows = np.empty((who.size, 3))
            kernels.context_updates(
                self._change_keys, who, number, self._step, *self._laws.arguments, self._values, rows
            )
            rows[:, 0] += self.clients[who] * self._params.contexts
            out.append(emission(UPDATE, when, self.clients[who], _words(rows), rows))
        return out

    def _report(self, clients: Ints, values: NDArray[np.float64], time_ns: int) -> Emission:
        contexts, attributes = self._params.contexts, self._attributes
        who = np.repeat(clients, contexts * attributes)
        number = np.repeat((clients[:, None] * contexts + np.arange(contexts)).ravel(), attributes)
        attribute = np.tile(np.arange(attributes), clients.size * contexts)
        rows = np.column_stack((number, attribute, values.ravel())).astype(np.float64)
        return emission(UPDATE, np.full(who.size, time_ns, np.int64), who, _words(rows), rows)

    def _first_values(self, clients: Ints) -> NDArray[np.float64]:
        from brokers.workloads import kernels

        values = np.empty((clients.size, self._params.contexts, self._attributes))
        kernels.first_values(self._keys("first values", clients), *self._laws.arguments, values)
        return values
