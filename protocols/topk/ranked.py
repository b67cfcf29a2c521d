"""Subscribers and publishers of the kind `topk`: weighted filters, and messages that may be intervals or weigh.

As `subscribe` and `publish` of the kind `content`, and beyond them: weights, which may change; and `region`,
which gives every broker a centre of its own in the space of values, around which its clients ask and publish.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numba import njit
from pydantic import Field, model_validator

from brokers.contract import Emission, Floats, Ints, Rates, SourceContext
from brokers.errors import InvalidInput
from brokers.indexes.topk.contract import WEIGHT_MAX
from brokers.workloads.arrivals import ArrivalParameters, Arrivals
from brokers.workloads.common import Parameters, emission, subscription_ids
from protocols.content.publish import Publish, PublishParameters
from protocols.content.subscribe import Subscribe, SubscribeParameters, rates_over_time
from protocols.topk.kind import REWEIGHT
from topology.draws import purpose_key, stream_of, streams, uniform
from topology.units import PositiveRate

Region = Annotated[
    float | None,
    Field(gt=0, le=1e9, description="how far from their broker's centre its clients' values lie, as domain units"),
]


def _check_weights(name: str, weights: tuple[float, float]) -> None:
    low, high = weights
    if low > high:
        raise ValueError(f"`{name}` runs from low to high, and {low:g} is above {high:g}")
    if max(abs(low), abs(high)) > WEIGHT_MAX:
        raise ValueError(f"`{name}` lies in ±{WEIGHT_MAX:g}")


class RankSubscribeParameters(SubscribeParameters):
    """As of `subscribe`, and what filters weigh."""

    weight: tuple[float, float] = Field((0.0, 1.0), description="weights are drawn from [low, high]")
    weight_values: int | None = Field(None, ge=1, le=1_000_000, description="only so many different weights")
    reweight: PositiveRate | None = Field(
        None, description="how often each client gives one of its filters other weights"
    )
    region: Region = None

    @model_validator(mode="after")
    def _weights(self) -> RankSubscribeParameters:
        _check_weights("weight", self.weight)
        if self.reweight is not None and self.churn is not None:
            raise ValueError("`reweight` and `churn` do not go together; use two sources")
        return self


class RankPublishParameters(PublishParameters):
    """As of `publish`, and how wide a message is and what it weighs."""

    interval: float = Field(0.0, ge=0, description="width of a message's interval in each attribute")
    weights: tuple[float, float] | None = Field(None, description="the sender weighs, drawn from [low, high]")
    region: Region = None

    @model_validator(mode="after")
    def _weights(self) -> RankPublishParameters:
        if self.weights is not None:
            _check_weights("weights", self.weights)
        return self


class RankSubscribe(Subscribe):
    """Weighted filters, rows of [attribute, low, high, weight] per constraint."""

    Params: ClassVar[type[Parameters]] = RankSubscribeParameters

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        self._ranked = RankSubscribeParameters.model_validate(dict(params))
        base = {name: value for name, value in dict(params).items() if name in SubscribeParameters.model_fields}
        super().__init__(base, context)
        self._reweights = None
        if self._ranked.reweight is not None:
            p = self._ranked
            when = ArrivalParameters.model_validate({"rate": p.reweight, "start": p.start + p.ramp + 1})
            self._reweights = Arrivals(
                when, self._keys("reweights", self.clients), context.population, context.duration_ns
            )

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        asked = RankSubscribeParameters.model_validate(dict(params))
        found = rates_over_time(asked, context)
        if asked.reweight is None or not asked.number[1]:
            return found
        more = ArrivalParameters.model_validate({"rate": asked.reweight, "start": asked.start + asked.ramp + 1})
        return replace(found, changes=found.changes + more.expected_per_s(context.population, context.duration_ns))

    def standing(self, clients: Ints) -> list[Emission]:
        found = super().standing(clients)
        for part in found:
            part.rows = self._weighted(np.asarray(clients, np.int64), part.client, part.word, part.rows)
        return found

    def _next_event_ns(self) -> int:
        first = super()._next_event_ns()
        return first if self._reweights is None else min(first, self._reweights.next_event_ns())

    def _emit(self, until_ns: int) -> list[Emission]:
        out = super()._emit(until_ns)
        for part in out:
            if part.rows is not None:
                part.rows = self._weighted(self.clients, part.client, part.word, part.rows)
        if self._reweights is not None:
            out += self._reweigh(until_ns)
        return out

    def _reweigh(self, until_ns: int) -> list[Emission]:
        assert self._reweights is not None
        who, when, number = self._reweights.until(until_ns)
        has = self._initial[who] > 0
        who, when, number = who[has], when[has], number[has]
        if not who.size:
            return []
        which = _pick(self._keys("reweighted", self.clients), who, number, self._initial)
        rows = self._rows(self._interest_keys, who, which)
        ids = subscription_ids(self.context, self.clients[who], which)
        rows = self._weighted(self.clients, self.clients[who], ids, rows, number + 1)
        return [emission(REWEIGHT, when, self.clients[who], ids, rows)]

    def _weighted(
        self, clients: Ints, client: Ints, ids: Ints, rows: Floats | None, version: Ints | None = None
    ) -> Floats:
        """Put weights beside ranges, and ranges into the region of their client's broker."""
        assert rows is not None
        p = self._ranked
        triples = rows.reshape(len(rows), -1, 3)
        if p.region is not None:
            low, high = p.domain
            width = triples[:, :, 2] - triples[:, :, 1]
            attribute = np.nan_to_num(triples[:, :, 0]).astype(np.int64)
            centre = _centres(self.context, client, self._laws.law.size, p.domain)
            centre = np.take_along_axis(centre, attribute, axis=1)
            room = np.maximum(high - low - width, 0.0)
            share = np.divide(triples[:, :, 1] - low, room, out=np.full(room.shape, 0.5), where=room > 0)
            begin = np.clip(centre + p.region * (2.0 * share - 1.0) - 0.5 * width, low, np.maximum(high - width, low))
            triples = np.stack([triples[:, :, 0], begin, begin + width], axis=2)
        weights = np.empty(triples.shape[:2])
        keys = self._keys("weights", client)
        versions = np.zeros_like(ids) if version is None else version
        _weigh(keys, ids & 0xFFFFFF, versions, *p.weight, p.weight_values or 0, weights)
        weights[np.isnan(triples[:, :, 0])] = np.nan
        return np.concatenate([triples, weights[:, :, None]], axis=2).reshape(len(rows), -1)


class RankPublish(Publish):
    """Publications of points or intervals, with weights of the sender or without."""

    Params: ClassVar[type[Parameters]] = RankPublishParameters

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        self._ranked = RankPublishParameters.model_validate(dict(params))
        base = {name: value for name, value in dict(params).items() if name in PublishParameters.model_fields}
        super().__init__(base, context)
        self._sent = np.zeros(self.clients.size, np.int64)

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        when = RankPublishParameters.model_validate(dict(params))
        return Rates(publications=when.expected_per_s(context.population, context.duration_ns))

    def _emit(self, until_ns: int) -> list[Emission]:
        p = self._ranked
        out = super()._emit(until_ns)
        for part in out:
            assert part.rows is not None
            values = part.rows
            if p.region is not None:
                low, high = p.domain
                centre = _centres(self.context, part.client, self._attributes, p.domain)
                values = np.clip(centre + p.region * (2.0 * (values - low) / (high - low) - 1.0), low, high)
            columns = [values]
            if p.interval > 0 or p.weights is not None:
                columns.append(values + p.interval)
            if p.weights is not None:
                number = self._numbers(part.client)
                weights = np.empty(values.shape)
                _weigh(self._keys("weights", part.client), number, np.zeros_like(number), *p.weights, 0, weights)
                columns.append(np.where(np.isnan(values), np.nan, weights))
            part.rows = np.concatenate(columns, axis=1)
        return out

    def _numbers(self, client: Ints) -> Ints:
        """How many messages each of these had sent before, counting within the array too."""
        place = np.searchsorted(self.clients, client)
        order = np.argsort(place, kind="stable")
        begins = np.searchsorted(place[order], np.arange(self.clients.size))
        number = np.empty(client.size, np.int64)
        number[order] = np.arange(client.size) - begins[place[order]] + self._sent[place[order]]
        self._sent += np.bincount(place, minlength=self.clients.size)
        return number


def _centres(context: SourceContext, client: Ints, attributes: int, domain: tuple[float, float]) -> Floats:
    """The centre of the region of each client's broker: one value per attribute."""
    if context.client_broker is None:
        raise InvalidInput("`region` needs to know the clients' brokers")
    brokers = context.client_broker[client].astype(np.uint64)
    keys = streams(purpose_key(context.seed, f"workload/{context.service}/region"), brokers)
    centres = np.empty((client.size, attributes))
    zeros = np.zeros(client.size, np.int64)
    _weigh(keys, zeros, zeros, *domain, 0, centres)
    return centres


@njit(cache=True)
def _weigh(keys, number, version, low, high, values, out):
    """One draw per column of out[i], from stream keys[i], named by number and version."""
    for i in range(out.shape[0]):
        key = stream_of(stream_of(keys[i], number[i]), version[i])
        for j in range(out.shape[1]):
            u = uniform(key, j)
            if values > 1:
                u = np.floor(u * values) / (values - 1)
            elif values == 1:
                u = 1.0
            out[i, j] = low + (high - low) * u


@njit(cache=True)
def _pick(keys, who, number, count):
    """Which of its filters each reweighting is about."""
    out = np.empty(who.size, np.int64)
    for i in range(who.size):
        out[i] = int(uniform(keys[who[i]], number[i]) * count[who[i]])
    return out
