"""Clients of the kind `channels`: boxes on a map, each with a period; they come, move, are replaced and go.

A share of the boxes lies around the first `clusters` hot spots of the service's database, the rest anywhere. With
`snap`, their edges are moved outwards to multiples of it, as map tiles do, so that many are equal. As with
`subscribe`, `churn` replaces queries or lets clients leave and join; `move` puts another box in the place of one.

What query number s of a client asks for, the v-th time, is a function of (client, s, v) alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from pydantic import Field, model_validator

from brokers.contract import Emission, Floats, Ints, Rates, SourceContext
from brokers.workloads.arrivals import ArrivalParameters, Arrivals
from brokers.workloads.common import Parameters, RealRange, WholeRange, emission, subscription_ids
from protocols.channels.database import hot_spots
from protocols.channels.kind import PERIOD_NS_MIN, SUBSCRIBE, Channels
from protocols.content.subscribe import ChurnParameters, Subscribe, rates_over_time
from topology.draws import normal, stream_of, uniform
from topology.units import Duration, PositiveDuration, PositiveRate, format_duration


class MapQueryParameters(Parameters):
    """What each client asks for, and when."""

    number: WholeRange = Field((1, 1), description="queries of each client")
    period: tuple[PositiveDuration, ...] = Field(
        (1_000_000_000,), min_length=1, description="each query has one of these, at least 1 ms"
    )
    width: RealRange = Field((50.0, 50.0), description="length of a box along each axis")
    clusters: int = Field(5, ge=0, le=10_000, description="around how many hot spots of the database boxes gather")
    clustered: float = Field(0.8, ge=0, le=1, description="the clustering factor: part of the boxes that do")
    spread: float = Field(40.0, gt=0, description="how far from it, as a standard deviation")
    snap: float | None = Field(None, gt=0, description="edges lie at multiples of this")
    start: Duration = Field(0, description="when the first queries are issued")
    ramp: Duration = Field(0, description="over how long they are issued")
    churn: ChurnParameters | None = None
    move: PositiveRate | None = Field(None, description="how often each client moves one of its boxes")

    @model_validator(mode="after")
    def _fit_together(self) -> MapQueryParameters:
        if self.width[0] <= 0:
            raise ValueError(f"`width` must be above 0 (got {self.width[0]:g})")
        short = [period for period in self.period if period < PERIOD_NS_MIN]
        if short:
            raise ValueError(f"`period` is at least 1 ms (got {short[0]:,} ns)")
        long = [period for period in self.period if period >= 2**53]
        if long:
            raise ValueError(f"`period` is at most 104 days (got {format_duration(long[0])})")
        if self.number[1] > 1_000_000:
            raise ValueError(f"`number` is at most 1,000,000 queries per client (got {self.number[1]})")
        if self.move is not None and self.churn is not None:
            raise ValueError("`move` and `churn` do not go together; use two sources")
        return self


class MapQueries(Subscribe):
    """Queries, rows of [period_ns, low, high per axis]."""

    Params: ClassVar[type[Parameters]] = MapQueryParameters

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        p = self._asked = MapQueryParameters.model_validate(dict(params))
        kind = Channels(context.service_params)
        points = kind.database().points
        self._low, self._high = points.min(axis=0), points.max(axis=0)
        self._centres = np.zeros((0, kind.dimensions))
        if p.clusters and kind.params["file"] is None:
            self._centres = hot_spots(kind.params["database_seed"], p.clusters, kind.params["side"])
        elif p.clusters:  # a file says nothing of hot spots; some of its objects stand for them
            self._centres = points[np.arange(p.clusters) * len(points) // p.clusters]
        base = {"number": p.number, "start": p.start, "ramp": p.ramp, "churn": p.churn}
        super().__init__(base, replace(context, service_params={"attributes": 1}))
        self._moves = None
        if p.move is not None:
            when = ArrivalParameters.model_validate({"rate": p.move, "start": p.start + p.ramp + 1})
            keys = self._keys("moves", self.clients)
            self._moves = Arrivals(when, keys, context.population, context.duration_ns)

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        p = MapQueryParameters.model_validate(dict(params))
        found = rates_over_time(p, context)
        changes = found.changes
        if p.move is not None and p.number[1]:
            when = ArrivalParameters.model_validate({"rate": p.move, "start": p.start + p.ramp + 1})
            changes += when.expected_per_s(context.population, context.duration_ns)
        each = found.interests / len(p.period)  # queries of one period
        # Those around one hot spot overlap, most others do not.
        apart = min(each, p.clusters + (1.0 - (p.clustered if p.clusters else 0.0)) * each)
        return replace(found, changes=changes, more={"rounds": [(period / 1e9, each, apart) for period in p.period]})

    def _next_event_ns(self) -> int:
        first = super()._next_event_ns()
        return first if self._moves is None else min(first, self._moves.next_event_ns())

    def _emit(self, until_ns: int) -> list[Emission]:
        out = super()._emit(until_ns)
        if self._moves is None:
            return out
        who, when, number = self._moves.until(until_ns)
        has = self._initial[who] > 0
        who, when, number = who[has], when[has], number[has]
        if who.size:
            which = _pick(self._keys("moved", self.clients), who, number, self._initial)
            rows = self._boxes(self._interest_keys, who, which, number + 1)
            ids = subscription_ids(self.context, self.clients[who], which)
            out.append(emission(SUBSCRIBE, when, self.clients[who], ids, rows))
        return out

    def _rows(self, keys: NDArray[np.uint64], who: Ints, number: Ints) -> Floats:
        return self._boxes(keys, who, number, np.zeros_like(number))

    def _boxes(self, keys: NDArray[np.uint64], who: Ints, number: Ints, version: Ints) -> Floats:
        p = self._asked
        periods = np.array(p.period, np.float64)
        rows = np.empty((who.size, 1 + 2 * self._low.size))
        _draw(
            keys, who, number, version, periods, self._low, self._high, self._centres, *p.width, p.clustered, p.spread,
            p.snap or 0.0, rows,
        )  # fmt: skip
        return rows


@njit(cache=True)
def _draw(
    keys, who, number, version, periods, bottom, top, centres, narrow, wide, clustered, spread, snap, out
):
    """One box per row. A query keeps its period when it moves."""
    axes = bottom.size
    for i in range(who.size):
        own = stream_of(keys[who[i]], number[i])
        key = stream_of(own, version[i])
        out[i, 0] = periods[int(uniform(own, 0) * periods.size)]
        spot = -1
        if centres.shape[0] > 0 and uniform(key, 1) < clustered:
            spot = int(uniform(key, 2) * centres.shape[0])
        for k in range(axes):
            width = narrow + (wide - narrow) * uniform(key, 3 + 2 * k)
            share = uniform(key, 4 + 2 * k)
            if spot >= 0:
                centre = centres[spot, k] + spread * normal(share)
            else:
                centre = bottom[k] + (top[k] - bottom[k]) * share
            centre = min(max(centre, bottom[k]), top[k])
            low, high = centre - 0.5 * width, centre + 0.5 * width
            if snap > 0.0:
                low, high = snap * np.floor(low / snap), snap * np.ceil(high / snap)
            out[i, 1 + 2 * k], out[i, 2 + 2 * k] = low, high


@njit(cache=True)
def _pick(keys, who, number, count):
    """Which of its queries each move is about."""
    out = np.empty(who.size, np.int64)
    for i in range(who.size):
        out[i] = int(uniform(keys[who[i]], number[i]) * count[who[i]])
    return out
