"""Publishers of the kind `content`: each client on its own schedule, all of them woken as one group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from brokers.contract import Emission, Rates, SourceContext
from brokers.workloads.arrivals import ArrivalParameters, Arrivals
from brokers.workloads.common import GroupSource, Parameters, emission
from brokers.workloads.values import ValueParameters
from protocols.content.kind import PUBLISH
from topology.units import Fraction


class PublishParameters(ArrivalParameters, ValueParameters):
    """When each client publishes, and what."""

    correlation: Fraction = Field(
        0.0, description="how strongly a factor common to all attributes of a message moves them together"
    )
    missing: Fraction = Field(0.0, description="probability that an attribute is absent from a message")


class Publish(GroupSource):
    """Publications with a value per attribute; NaN where it is absent."""

    Params: ClassVar[type[Parameters]] = PublishParameters

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        self._params = PublishParameters.model_validate(dict(params))
        super().__init__(self._params, context)
        self._attributes = context.service_params["attributes"]
        self._laws = self._params.law_table(self._attributes)
        self._value_keys = self._keys("values", self.clients)
        self._arrivals = Arrivals(
            self._params, self._keys("times", self.clients), context.population, context.duration_ns
        )
        self._set_chunk(self._arrivals.rate)

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        when = PublishParameters.model_validate(dict(params))
        return Rates(publications=when.expected_per_s(context.population, context.duration_ns))

    def _next_event_ns(self) -> int:
        return self._arrivals.next_event_ns()

    def _emit(self, until_ns: int) -> list[Emission]:
        from brokers.workloads import kernels

        who, when, number = self._arrivals.until(until_ns)
        rows = np.empty((who.size, self._attributes))
        kernels.publications(
            self._value_keys,
            who,
            number,
            *self._laws.arguments,
            self._params.correlation,
            self._params.missing,
            rows,
        )
        return [emission(PUBLISH, when, self.clients[who], rows=rows)]
