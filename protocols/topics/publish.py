"""Publishers of the kind `topics`: each client on its own schedule, all of them woken as one group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from brokers.contract import Emission, Rates, SourceContext
from brokers.workloads.arrivals import ArrivalParameters, Arrivals
from brokers.workloads.common import GroupSource, Parameters, emission
from protocols.topics.kind import PUBLISH
from protocols.topics.tree import Tree, TreeParameters


class TopicPublishParameters(ArrivalParameters, TreeParameters):
    """When each client publishes, and under which names."""


class TopicPublish(GroupSource):
    """Publications under the names of a tree of topics."""

    Params: ClassVar[type[Parameters]] = TopicPublishParameters

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        self._params = TopicPublishParameters.model_validate(dict(params))
        super().__init__(self._params, context)
        self._tree = Tree(self._params)
        self._name_keys = self._keys("names", self.clients)
        self._arrivals = Arrivals(
            self._params, self._keys("times", self.clients), context.population, context.duration_ns
        )
        self._set_chunk(self._arrivals.rate)

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        when = TopicPublishParameters.model_validate(dict(params))
        return Rates(publications=when.expected_per_s(context.population, context.duration_ns))

    def _next_event_ns(self) -> int:
        return self._arrivals.next_event_ns()

    def _emit(self, until_ns: int) -> list[Emission]:
        who, when, number = self._arrivals.until(until_ns)
        rows = self._tree.names(self._name_keys[who], number)
        return [emission(PUBLISH, when, self.clients[who], rows=rows)]
