"""Publishers of the kind `topics`: each client on its own schedule, all of them woken as one group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from brokers.contract import Emission, Floats, Ints, Rates, SourceContext
from brokers.workloads.arrivals import ArrivalParameters, Arrivals
from brokers.workloads.common import GroupSource, Parameters, emission
from protocols.topics.kind import EMPTY, PUBLISH, RETAIN
from protocols.topics.tree import Tree, TreeParameters
from topology.draws import uniform_each
from topology.units import Fraction


class TopicPublishParameters(ArrivalParameters, TreeParameters):
    """When each client publishes, and under which names."""

    retain: Fraction = Field(0.0, description="which share is retained")
    empty: Fraction = Field(0.0, description="which share of those is empty, and takes back what is retained")

    @model_validator(mode="after")
    def _empty_is_retained(self) -> TopicPublishParameters:
        if self.empty and not self.retain:
            raise ValueError("`empty` is a share of what is retained; say `retain` too")
        return self

    def misfits(self, service_params: Mapping[str, Any]) -> list[tuple[str, str]]:
        found = super().misfits(service_params)
        if self.retain and not service_params.get("retained"):
            found.append(("retain", "the service keeps nothing, unless it says `retained: true`"))
        return found


class TopicPublish(GroupSource):
    """Publications under the names of a tree of topics."""

    Params: ClassVar[type[Parameters]] = TopicPublishParameters

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        self._params = TopicPublishParameters.model_validate(dict(params))
        super().__init__(self._params, context)
        self._tree = Tree(self._params)
        self._name_keys = self._keys("names", self.clients)
        self._flag_keys = self._keys("flags", self.clients)
        self._arrivals = Arrivals(
            self._params, self._keys("times", self.clients), context.population, context.duration_ns
        )
        self._set_chunk(self._arrivals.rate)

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        when = TopicPublishParameters.model_validate(dict(params))
        expected = when.expected_per_s(context.population, context.duration_ns)
        return Rates(publications=expected, more={"retained": expected * when.retain} if when.retain else {})

    def _next_event_ns(self) -> int:
        return self._arrivals.next_event_ns()

    def _emit(self, until_ns: int) -> list[Emission]:
        who, when, number = self._arrivals.until(until_ns)
        rows = self._tree.names(self._name_keys[who], number)
        if self._params.retain:
            rows = self._flagged(rows, who, number)
        return [emission(PUBLISH, when, self.clients[who], rows=rows)]

    def _flagged(self, rows: Floats, who: Ints, number: Ints) -> Floats:
        """Names with flags behind their levels."""
        keys = self._flag_keys[who]
        retained = uniform_each(keys, 2 * number) < self._params.retain
        empty = uniform_each(keys, 2 * number + 1) < self._params.empty
        found = np.pad(rows, ((0, 0), (0, 1)), constant_values=np.nan)
        depth = np.count_nonzero(~np.isnan(rows), axis=1)
        found[np.flatnonzero(retained), depth[retained]] = -(RETAIN + EMPTY * empty[retained])
        return found
