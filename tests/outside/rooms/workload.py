"""What clients of the kind `rooms` do: stroll, and talk. Each on a schedule of its own, woken as one group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from brokers.contract import Emission, Floats, Ints, Rates, SourceContext
from brokers.workloads.arrivals import ArrivalParameters, Arrivals
from brokers.workloads.common import GroupSource, Parameters, emission, subscription_ids
from rooms.kind import ENTER, LEAVE, SAY
from topology.draws import uniform_each


class StrollParameters(ArrivalParameters):
    """When each client does its next step."""

    moves: int = Field(3, ge=0, le=1000, description="how often a client moves before it leaves")


class TalkParameters(ArrivalParameters):
    """When each client says something, and how loudly."""

    loudness: int = Field(2, ge=0, le=1000, description="through how many walls it carries at most")


class _Steps(GroupSource):
    """Clients that do one thing after the other in rooms that they draw."""

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        self._params: Any = self.Params.model_validate(dict(params))
        super().__init__(self._params, context)
        self._rooms = context.service_params["rooms"]
        self._where = self._keys("rooms", self.clients)
        self._arrivals = Arrivals(
            self._params, self._keys("times", self.clients), context.population, context.duration_ns
        )
        self._set_chunk(self._arrivals.rate)

    def _next_event_ns(self) -> int:
        return self._arrivals.next_event_ns()

    def _drawn(self, who: Ints, number: Ints, choices: int, column: int = 0) -> Floats:
        """A whole number below `choices` for each step."""
        drawn: Floats = np.floor(uniform_each(self._where[who], 2 * number + column) * choices)
        return drawn


class Stroll(_Steps):
    """Clients enter a room, move on some times, leave, and come again."""

    Params: ClassVar[type[Parameters]] = StrollParameters
    publishes: ClassVar[bool] = False

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        when = StrollParameters.model_validate(dict(params))
        steps = when.expected_per_s(context.population, context.duration_ns)
        return Rates(changes=steps, interests=context.population * (1 + when.moves) / (2 + when.moves), share=0.2)

    def _emit(self, until_ns: int) -> list[Emission]:
        who, when, number = self._arrivals.until(until_ns)
        steps = self._params.moves + 2
        stay = subscription_ids(self.context, self.clients[who], number // steps)
        leaves = number % steps == steps - 1
        enters = ~leaves
        room = self._drawn(who, number, self._rooms)[:, None]
        return [
            emission(ENTER, when[enters], self.clients[who[enters]], stay[enters], room[enters]),
            emission(LEAVE, when[leaves], self.clients[who[leaves]], stay[leaves]),
        ]


class Talk(_Steps):
    """Clients say something, in any room."""

    Params: ClassVar[type[Parameters]] = TalkParameters

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        when = TalkParameters.model_validate(dict(params))
        return Rates(publications=when.expected_per_s(context.population, context.duration_ns))

    def _emit(self, until_ns: int) -> list[Emission]:
        who, when, number = self._arrivals.until(until_ns)
        room = self._drawn(who, number, self._rooms)
        loudness = self._drawn(who, number, self._params.loudness + 1, column=1)
        return [emission(SAY, when, self.clients[who], rows=np.stack([room, loudness], axis=1))]
