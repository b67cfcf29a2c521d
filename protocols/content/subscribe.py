"""Subscribers of the kind `content`: the subscriptions they begin with, and their churn.

A client begins with `number` subscriptions, issued over the `ramp` (or standing at time 0, where the service
says `subscriptions: settled`). With `churn` it then either replaces one of its own now and then, or leaves
(all its subscriptions end) and joins again with as many new ones. Churn begins when the ramp is over, and
at the same times whether the first subscriptions were sent or stood.

What subscription number s of a client asks for is a function of (client, s) alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import comb
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from brokers.contract import NEVER, Emission, Floats, Ints, Rates, SourceContext
from brokers.errors import InvalidInput
from brokers.workloads.common import (
    SUBSCRIPTIONS_PER_SOURCE,
    GroupSource,
    Parameters,
    RealRange,
    WholeRange,
    emission,
    subscription_ids,
)
from brokers.workloads.values import ValueParameters
from protocols.content.kind import SUBSCRIBE, UNSUBSCRIBE
from topology.units import Duration, PositiveDuration, PositiveRate

_ROOM = 8192  # rows of a buffer; a chunk with more is written in several parts
_SOURCES_MAX = (1 << 32) // SUBSCRIPTIONS_PER_SOURCE  # their numbers share half of an id


class ChurnParameters(Parameters):
    """How the subscriptions of a client change."""

    process: Literal["replace", "leave-and-join"] = "replace"
    rate: PositiveRate | None = Field(None, description="replace: how often each client replaces one")
    stay: PositiveDuration | None = Field(None, description="leave-and-join: mean time with subscriptions")
    away: PositiveDuration | None = Field(None, description="leave-and-join: mean time without")
    times: Literal["exponential", "constant"] = Field("exponential", description="leave-and-join: times")
    start: Duration = Field(0, description="no churn before, nor before the ramp is over")
    stop: Duration | None = Field(None, description="no churn from here on; default: to the end")

    @model_validator(mode="after")
    def _own_numbers_only(self) -> ChurnParameters:
        needed = {"replace": ("rate",), "leave-and-join": ("stay", "away")}[self.process]
        for name in ("rate", "stay", "away"):
            if (getattr(self, name) is not None) != (name in needed):
                verb = "needs" if name in needed else "knows no"
                raise ValueError(f"the churn process {self.process} {verb} `{name}`")
        return self


class SubscribeParameters(ValueParameters):
    """What each client asks for, and when."""

    number: WholeRange = Field((1, 1), description="subscriptions of each client")
    constraints: WholeRange = Field((1, 1), description="constrained attributes of each subscription")
    width: RealRange = Field((0.1, 0.1), description="width of each constraint, in units of the domain")
    popularity: float = Field(
        0.0, ge=0, le=20, description="Zipf exponent over the attributes, 0 first; 0: all alike"
    )
    start: Duration = Field(0, description="when the first subscriptions are issued")
    ramp: Duration = Field(0, description="over how long they are issued")
    churn: ChurnParameters | None = None

    @model_validator(mode="after")
    def _bounds(self) -> SubscribeParameters:
        low, high = self.domain
        if self.width[1] > high - low:
            raise ValueError(f"`width` {self.width[1]} is wider than the domain of {high - low}")
        if self.constraints[0] < 1:
            raise ValueError("`constraints` must be at least 1 (got 0)")
        if self.number[1] > 1_000_000:
            raise ValueError(f"`number` is at most 1,000,000 subscriptions per client (got {self.number[1]})")
        return self

    def misfits(self, service_params: Mapping[str, Any]) -> list[tuple[str, str]]:
        found = super().misfits(service_params)
        count = service_params.get("attributes")
        if isinstance(count, int) and self.constraints[1] > count:
            found.append(("constraints", f"the service has {count} attributes (got {self.constraints[1]})"))
        return found


def rates_over_time(params: Any, context: SourceContext) -> Rates:
    """Changes and standing interests of a group, from its `number`, `start`, `ramp` and `churn`."""
    duration_ns, churn = context.duration_ns, params.churn
    each = 0.5 * sum(params.number)
    ramp_end_ns = params.start + params.ramp
    issued = 1.0 if ramp_end_ns <= duration_ns else max(0, duration_ns - params.start) / max(1, params.ramp)
    changes = 0.0 if context.settled else each * issued
    standing = each * issued
    if churn is not None:
        begin_ns = max(ramp_end_ns, churn.start)
        active_ns = max(0, min(duration_ns, NEVER if churn.stop is None else churn.stop) - begin_ns)
        if churn.rate is not None and each:
            changes += 2.0 * churn.rate * active_ns / 1e9
        elif churn.stay is not None and churn.away is not None:
            cycle_ns = churn.stay + churn.away
            changes += 2.0 * each * active_ns / cycle_ns
            standing *= 1.0 - churn.away / cycle_ns * active_ns / duration_ns
    population = context.population
    return Rates(changes=population * changes * 1e9 / duration_ns, interests=population * standing)


def asked_of(params: SubscribeParameters, attributes: int) -> tuple[float, float]:
    """(part of evenly spread publications that a subscription asks for, part of other subscriptions that cover it)."""
    from topology.draws import power_weights

    low, high = params.domain
    fewest, most = params.constraints
    extent = high - low
    widths = np.linspace(params.width[0] / extent, params.width[1] / extent, 9)
    share = float(np.mean([widths.mean() ** count for count in range(fewest, most + 1)]))
    # Both ranges lie evenly over the domain: the outer holds the inner with (outer - inner) / (1 - inner).
    outer, inner = np.meshgrid(widths, widths)
    holds = float((np.maximum(outer - inner, 0.0) / np.maximum(1.0 - inner, 1e-12)).mean())
    weights = np.diff(power_weights(attributes, params.popularity), prepend=0.0)
    weights = weights / weights.sum()
    alike = 1.0 / float((weights**2).sum())  # so many attributes, all equally popular, would meet as often
    pairs = [(mine, theirs) for mine in range(fewest, most + 1) for theirs in range(fewest, most + 1)]
    # Each of theirs is on an attribute of mine, and holds it; no choice of `theirs` of fewer than that.
    covered = sum(
        comb(mine, theirs) / max(1, comb(max(mine, round(alike)), theirs)) * holds**theirs for mine, theirs in pairs
    )
    return share, min(1.0, covered / len(pairs))


class Subscribe(GroupSource):
    """Subscriptions, rows of [attribute, low, high] per constraint."""

    Params: ClassVar[type[Parameters]] = SubscribeParameters
    publishes: ClassVar[bool] = False
    begins: ClassVar[int] = SUBSCRIBE
    ends: ClassVar[int] = UNSUBSCRIBE
    _times: tuple[int, int, int, int, int]

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        from brokers.workloads import kernels
        from topology.draws import power_weights

        self._params = SubscribeParameters.model_validate(dict(params))
        super().__init__(self._params, context)
        if context.source >= _SOURCES_MAX:
            raise InvalidInput(f"{self.where}: a service has at most {_SOURCES_MAX} workload sources")
        attributes = context.service_params["attributes"]
        self._laws = self._params.law_table(attributes)
        self._popularity = power_weights(attributes, self._params.popularity)
        self._interest_keys = self._keys("interests", self.clients)
        self._time_keys = self._keys("times", self.clients)
        self._initial = self._initial_numbers(self.clients)
        self._live_at = np.concatenate(([0], np.cumsum(self._initial))).astype(np.int64)
        self._live = np.zeros(int(self._live_at[-1]), np.int64)
        self._progress = np.zeros((self.clients.size, kernels.SUBSCRIBER_COLUMNS), np.int64)
        self._plan()
        kernels.begin_subscribers(
            self._process,
            context.settled,
            *self._times,
            self._gap_ns,
            self._stay_ns,
            self._constant,
            self._time_keys,
            self._initial,
            self._live_at,
            self._live,
            self._progress,
        )

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        base = {name: value for name, value in params.items() if name in SubscribeParameters.model_fields}
        asked = SubscribeParameters.model_validate(base)
        share, covered = asked_of(asked, context.service_params["attributes"])
        return replace(rates_over_time(asked, context), share=share, covered=covered)

    def standing(self, clients: Ints) -> list[Emission]:
        clients = np.asarray(clients, np.int64)
        counts = self._initial_numbers(clients)
        if not counts.any():
            return []
        who = np.repeat(np.arange(clients.size), counts)
        number = np.arange(who.size) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = self._rows(self._keys("interests", clients), who, number)
        ids = subscription_ids(self.context, clients[who], number)
        return [emission(self.begins, np.zeros(who.size, np.int64), clients[who], ids, rows)]

    def _plan(self) -> None:
        """When who may do what, in numbers for the kernels."""
        from brokers.workloads import kernels

        params, context, churn = self._params, self.context, self._params.churn
        duration_ns = context.duration_ns
        ramp_end_ns = params.start + params.ramp + 1
        churn_start_ns, churn_stop_ns = ramp_end_ns, duration_ns
        self._process, self._constant = kernels.STEADY, False
        self._gap_ns = self._stay_ns = self._away_ns = 1.0
        subscriptions = float(self._initial.sum())
        rate = subscriptions * 1e9 / (params.ramp or 1) if not context.settled else 0.0
        if churn is not None:
            churn_start_ns = max(ramp_end_ns, churn.start)
            churn_stop_ns = min(duration_ns, NEVER if churn.stop is None else churn.stop)
            self._constant = churn.times == "constant"
            if churn.rate is not None:
                self._process, self._gap_ns = kernels.REPLACE, 1e9 / churn.rate
                rate = 2.0 * churn.rate * self.clients.size
            elif churn.stay is not None and churn.away is not None:
                self._process = kernels.LEAVE_AND_JOIN
                self._stay_ns, self._away_ns = float(churn.stay), float(churn.away)
                rate = 2e9 * subscriptions / (churn.stay + churn.away)
        self._times = (params.start, params.ramp, churn_start_ns, duration_ns, churn_stop_ns)
        self._set_chunk(rate)

    def _next_event_ns(self) -> int:
        return int(self._progress[:, 0].min(initial=NEVER))

    def _emit(self, until_ns: int) -> list[Emission]:
        from brokers.workloads import kernels

        room = max(_ROOM, int(self._initial.max(initial=0)))  # the largest single act must fit
        parts = []
        first = 0
        while first < self.clients.size:
            begins = np.empty(room, np.bool_)
            who, when, number = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
            filled, first = kernels.subscriber_acts(
                self._process,
                until_ns,
                *self._times,
                self._gap_ns,
                self._stay_ns,
                self._away_ns,
                self._constant,
                self._time_keys,
                self._initial,
                self._live_at,
                self._live,
                self._progress,
                first,
                begins,
                who,
                when,
                number,
            )
            parts.append((begins[:filled], who[:filled], when[:filled], number[:filled]))
        begins, who, when, number = (np.concatenate(column) for column in zip(*parts))
        ids = subscription_ids(self.context, self.clients[who], number)
        out = []
        ends = ~begins
        # Ends first: who replaces a subscription takes the old one back before sending the new one.
        if ends.any():
            out.append(emission(self.ends, when[ends], self.clients[who[ends]], ids[ends]))
        if begins.any():
            rows = self._rows(self._interest_keys, who[begins], number[begins])
            out.append(emission(self.begins, when[begins], self.clients[who[begins]], ids[begins], rows))
        return out

    def _rows(self, keys: NDArray[np.uint64], who: Ints, number: Ints) -> Floats:
        from brokers.workloads import kernels

        params = self._params
        rows = np.empty((who.size, 3 * params.constraints[1]))
        kernels.interests(
            keys,
            who,
            number,
            self._popularity,
            *params.constraints,
            *params.width,
            *self._laws.arguments,
            rows,
        )
        return rows

    def _initial_numbers(self, clients: Ints) -> Ints:
        from brokers.workloads import kernels

        return kernels.whole_numbers(self._keys("number", clients), *self._params.number)
