"""Objects and subscribers of the kind `spatial`: places, by region or everywhere, and keywords by popularity.

`objects`: each client publishes objects on its own schedule and withdraws each after `lifetime`, which makes a window
by time of what it published. `object-subscribe`: as `subscribe`, for places and keywords.

With `region`, every broker has a centre of its own, from which the places of its clients lie at most so far along
each axis. What number n of a client is about is a function of (client, n) alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from pydantic import AfterValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from brokers.contract import NEVER, Emission, Floats, Ints, Rates, SourceContext
from brokers.errors import InvalidInput
from brokers.indexes.spatial.geometry import geometry_named
from brokers.workloads.arrivals import ArrivalParameters, Arrivals
from brokers.workloads.common import (
    SUBSCRIPTIONS_PER_SOURCE,
    Domain,
    GroupSource,
    Parameters,
    WholeRange,
    emission,
    subscription_ids,
)
from protocols.content.subscribe import ChurnParameters, Subscribe, rates_over_time
from protocols.spatial.kind import EXPIRE, PUBLISH
from topology.draws import pick, power_weights, purpose_key, stream_of, streams, uniform
from topology.units import Duration, PositiveDuration

Region = Annotated[
    float | None, Field(gt=0, description="how far from their broker's centre its clients' places lie, along each axis")
]


WORDS_MAX = 1000  # of one object or subscription: a column each in the arrays that carry them


def _a_few(value: tuple[int, int]) -> tuple[int, int]:
    if value[0] < 1:
        raise ValueError(f"must be at least 1, and {value[0]} is not")
    if value[1] > WORDS_MAX:
        raise ValueError(f"must be at most {WORDS_MAX:,}, and {value[1]:,} is not")
    return value


Some = Annotated[
    WholeRange,
    AfterValidator(_a_few),
    WithJsonSchema({
        "anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}],
        "description": "a number, or [low, high] to draw from",
    }),
]  # fmt: skip


_PAIR = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}


def _form(value: Any) -> str:
    nested = isinstance(value, list | tuple) and any(isinstance(each, list | tuple) for each in value)
    return "of each" if nested else "of both"


AxisDomains = Annotated[
    Annotated[Domain, Tag("of both")] | Annotated[tuple[Domain, Domain], Tag("of each")],
    Discriminator(_form),
    WithJsonSchema({
        "anyOf": [_PAIR, {"type": "array", "items": _PAIR, "minItems": 2, "maxItems": 2}],
        "description": "[low, high] of both coordinates, or one of each, as [[-90, 90], [-180, 180]] on a sphere",
    }),
]  # fmt: skip


class PlaceParameters(Parameters):
    """Where things are and what they are about."""

    domain: AxisDomains = Field(
        (0.0, 1.0), description="[low, high] of both coordinates, or one of each, as [[-90, 90], [-180, 180]]"
    )
    region: Region = None
    words: Some = Field((1, 3), description="keywords of each, drawn with repetition")
    popularity: float = Field(1.0, ge=0, le=20, description="Zipf exponent over the keywords, 0 first; 0: all alike")

    @property
    def bounds(self) -> Floats:
        """[low or high, coordinate]."""
        return np.broadcast_to(np.array(self.domain, np.float64), (2, 2)).T.copy()

    def misfits(self, service_params: Mapping[str, Any]) -> list[tuple[str, str]]:
        geometry = geometry_named(service_params.get("geometry", "plane"))
        found = []
        for (low, high), limit, name in zip(self.bounds.T.tolist(), geometry.limits, geometry.numbers):
            if max(-low, high) > limit:
                hint = "; `domain` takes a [low, high] of each coordinate" if np.ndim(self.domain) == 1 else ""
                found.append(("domain", f"{name} lies in {-limit:g}..{limit:g}, not in {low:g}..{high:g}{hint}"))
        if service_params.get("text"):
            message = "keywords of the service are words, and this draws numbers; `replay` serves such a service"
            found.append(("source", message))
        return found


class ObjectParameters(PlaceParameters, ArrivalParameters):
    """When each client publishes objects, what, and how long they last."""

    k: int | None = Field(None, ge=1, description="among how many nearest an object asks to be; default: `k_max`")
    payload: int = Field(0, ge=0, le=1 << 30, description="bytes of an object beside its head")
    lifetime: PositiveDuration | None = Field(None, description="an object is withdrawn after this; default: never")

    def misfits(self, service_params: Mapping[str, Any]) -> list[tuple[str, str]]:
        largest = service_params.get("k_max", NEVER)
        wrong = [("k", f"the service answers up to {largest} (got {self.k})")] if (self.k or 1) > largest else []
        return [*super().misfits(service_params), *wrong]


class ObjectSubscribeParameters(PlaceParameters):
    """What each client asks for, and when."""

    number: WholeRange = Field((1, 1), description="subscriptions of each client")
    start: Duration = Field(0, description="when the first subscriptions are issued")
    ramp: Duration = Field(0, description="over how long they are issued")
    churn: ChurnParameters | None = None

    @model_validator(mode="after")
    def _bounds(self) -> ObjectSubscribeParameters:
        if self.number[1] > 1_000_000:
            raise ValueError(f"`number` is at most 1,000,000 subscriptions per client (got {self.number[1]})")
        return self


class Objects(GroupSource):
    """Objects, rows of [x, y, k, bytes, keyword, ...], and their ends."""

    Params: ClassVar[type[Parameters]] = ObjectParameters

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        self._params = ObjectParameters.model_validate(dict(params))
        super().__init__(self._params, context)
        self._things = _Things(self._params, context)
        self._arrivals = Arrivals(
            self._params, self._keys("times", self.clients), context.population, context.duration_ns
        )
        self._set_chunk(self._arrivals.rate)

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        p = ObjectParameters.model_validate(dict(params))
        objects = p.expected_per_s(context.population, context.duration_ns)
        withdrawn = 0.0 if p.lifetime is None else max(0.0, 1.0 - p.lifetime / max(1, context.duration_ns - p.start))
        return Rates(publications=objects, changes=objects * withdrawn, more={"expiries": objects * withdrawn})

    def _next_event_ns(self) -> int:
        return self._arrivals.next_event_ns()

    def _emit(self, until_ns: int) -> list[Emission]:
        p = self._params
        who, when, number = self._arrivals.until(until_ns)
        clients = self.clients[who]
        things = self._things.rows(self._keys("objects", clients), clients, number)
        asked = np.empty((who.size, 2))
        asked[:] = p.k or self.context.service_params["k_max"], p.payload
        ids = subscription_ids(self.context, clients, number)
        out = [emission(PUBLISH, when, clients, ids, np.hstack([things[:, :2], asked, things[:, 2:]]))]
        if p.lifetime is not None:
            out.append(emission(EXPIRE, when + p.lifetime, clients, ids))
        return out


class ObjectSubscribe(Subscribe):
    """Subscriptions, rows of [x, y, keyword, ...]: the times of `subscribe`, and rows of their own."""

    Params: ClassVar[type[Parameters]] = ObjectSubscribeParameters

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        asked = ObjectSubscribeParameters.model_validate(dict(params))
        times = {name: params[name] for name in ("number", "start", "ramp", "churn") if name in params}
        if misfits := asked.misfits(context.service_params):
            raise InvalidInput("\n".join(f"{path}: {problem}" for path, problem in misfits))
        super().__init__(times, replace(context, service_params={"attributes": 1}))
        self._things = _Things(asked, context)

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        asked = ObjectSubscribeParameters.model_validate(dict(params))
        weights = np.diff(power_weights(context.service_params["keywords"], asked.popularity), prepend=0.0)
        weights = weights / weights.sum()
        words = 0.5 * sum(asked.words)
        # An object with as many words as a subscription has, of the same popularity.
        share = 1.0 - (1.0 - float((weights**2).sum())) ** (words * words)
        more = {"keywords": weights, "words": words, "region": asked.region is not None}
        return replace(rates_over_time(asked, context), share=share, more=more)

    def standing(self, clients: Ints) -> list[Emission]:
        return self._placed(super().standing(clients))

    def _emit(self, until_ns: int) -> list[Emission]:
        return self._placed(super()._emit(until_ns))

    def _placed(self, parts: list[Emission]) -> list[Emission]:
        for part in parts:
            if part.rows is not None:
                number = part.word % SUBSCRIPTIONS_PER_SOURCE
                part.rows = self._things.rows(self._keys("interests", part.client), part.client, number)
        return parts


class _Things:
    """Draws places and keywords."""

    def __init__(self, params: PlaceParameters, context: SourceContext) -> None:
        self._params, self._context = params, context
        self._popularity = power_weights(context.service_params["keywords"], params.popularity)

    def rows(self, keys: NDArray[np.uint64], clients: Ints, numbers: Ints) -> Floats:
        """[x, y, keyword, ...] of thing numbers[i] of clients[i], whose stream is keys[i]."""
        p, context = self._params, self._context
        low, high = p.bounds
        centres = np.empty((clients.size, 2))
        centres[:] = (low + high) / 2
        reach = (high - low) / 2
        if p.region is not None:
            if context.client_broker is None:
                raise InvalidInput("`region` needs to know the clients' brokers")
            reach = np.full(2, p.region)
            brokers = context.client_broker[clients].astype(np.uint64)
            key = purpose_key(context.seed, f"workload/{context.service}/region")
            _scatter(streams(key, brokers), low, high, centres)
        rows = np.full((clients.size, 2 + p.words[1]), np.nan)
        _draw(keys, numbers, centres, reach, low, high, *p.words, self._popularity, rows)
        return rows


@njit(cache=True)
def _scatter(keys, low, high, out):
    for i in range(out.shape[0]):
        for axis in range(2):
            out[i, axis] = low[axis] + (high[axis] - low[axis]) * uniform(keys[i], axis)


@njit(cache=True)
def _draw(keys, numbers, centres, reach, low, high, words_min, words_max, popularity, out):
    """Draws 0 and 1 of a thing's stream are its place, 2 says how many keywords, the next which."""
    for i in range(out.shape[0]):
        key = stream_of(keys[i], numbers[i])
        for axis in range(2):
            place = centres[i, axis] + reach[axis] * (2.0 * uniform(key, axis) - 1.0)
            out[i, axis] = min(max(place, low[axis]), high[axis])
        count = words_min + int(uniform(key, 2) * (words_max - words_min + 1))
        for j in range(count):
            word = pick(popularity, uniform(key, 3 + j))
            known = False
            for other in range(j):
                known = known or out[i, 2 + other] == word
            if not known:
                out[i, 2 + j] = word
