"""What the workload sources share: parameter models, named streams, waking, saving.

A source carries the clients of one shard that take part, and wakes as a group. It emits what its clients
do in one chunk of time, and next wakes at the first event after it, so quiet time costs nothing. Rules:

- A client's stream depends on (seed, entity, service, source, purpose) only.
- Chunks are a matter of speed: another `chunk_ns` gives each client the same events.
- Within an emission the events of one client are in its order; clients are not merged by time.
- Nothing happens before 1 ns, nor at or after the end of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from brokers.contract import NEVER, Emission, Floats, Ints, Rates, SourceContext
from brokers.errors import InvalidInput

CHUNK_EVENTS = 4096  # a chunk is as long as this many events take
CHUNK_MIN_NS = 1_000_000
CHUNK_MAX_NS = 60_000_000_000

# A subscription id is `client entity << 32 | number`. Each source of a service numbers in a range of its
# own, so that two of them can serve the same clients.
SUBSCRIPTIONS_PER_SOURCE = 1 << 24


# ---- parameters --------------------------------------------------------------------------------------


class Parameters(BaseModel):
    """Base of the parameter models: unknown keys, NaN and infinities are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def misfits(self, service_params: Mapping[str, Any]) -> list[tuple[str, str]]:
        """What does not fit the parameters of the service: (path, what is wrong)."""
        return []


def _as_range(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value, value)


def _ordered(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] > value[1]:
        raise ValueError(f"a range runs from low to high, and {value[0]} is above {value[1]}")
    return value


def _not_negative(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] < 0:
        raise ValueError(f"must not be negative, and {value[0]} is")
    return value


def _wide(value: tuple[float, float]) -> tuple[float, float]:
    if not value[0] < value[1]:
        raise ValueError(f"a domain needs low < high; {value[0]} and {value[1]} are not")
    if value[1] - value[0] == float("inf"):
        raise ValueError(f"a domain from {value[0]:g} to {value[1]:g} is too wide to draw from")
    return value


def _range_schema(item: str, prose: str) -> WithJsonSchema:
    bounds = {"type": "array", "items": {"type": item}, "minItems": 2, "maxItems": 2}
    return WithJsonSchema({"anyOf": [{"type": item}, bounds], "description": prose})


# One number, or [low, high] to draw from uniformly.
WholeRange = Annotated[
    tuple[int, int],
    BeforeValidator(_as_range),
    AfterValidator(_ordered),
    AfterValidator(_not_negative),
    _range_schema("integer", "a number, or [low, high] to draw from"),
]
RealRange = Annotated[
    tuple[float, float],
    BeforeValidator(_as_range),
    AfterValidator(_ordered),
    AfterValidator(_not_negative),
    _range_schema("number", "a number, or [low, high] to draw from"),
]
Domain = Annotated[
    tuple[float, float],
    AfterValidator(_wide),
    WithJsonSchema({"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}),
]


def attribute_count(service_params: Mapping[str, Any], where: str) -> int:
    """The `attributes` of a service."""
    count = service_params.get("attributes")
    if not isinstance(count, int) or count < 1:
        raise InvalidInput(f"{where}: the service must say how many `attributes` it has (got {count!r})")
    return count


# ---- sources -----------------------------------------------------------------------------------------


class GroupSource:
    """Base of sources whose clients draw what they do. A subclass fills `_next_event_ns` and `_emit`."""

    Params: ClassVar[type[Parameters]]
    publishes: ClassVar[bool] = True  # whether publications enter at its clients' brokers
    paths: ClassVar[tuple[str, ...]] = ()  # parameters that name files, relative to the scenario file

    def __init__(self, params: Parameters, context: SourceContext) -> None:
        self.context = context
        self.where = f"service {context.service}, workload source {context.source}"
        self.clients: Ints = np.asarray(context.clients, np.int64)
        self.chunk_ns = CHUNK_MAX_NS
        self._wake_ns: int | None = None  # asked for far more often than it changes
        misfits = params.misfits(context.service_params)
        if misfits:
            raise InvalidInput("\n".join(f"{self.where}: {path}: {problem}" for path, problem in misfits))

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        """What the clients of the group, all of them `context.clients`, are expected to do; None: nobody knows."""
        return None

    def next_wake(self) -> int:
        if self._wake_ns is None:
            self._wake_ns = self._next_event_ns()
        return self._wake_ns

    def take(self) -> list[Emission]:
        wake = self.next_wake()
        if wake >= NEVER:
            return []
        self._wake_ns = None
        return self._emit(min(wake + max(1, self.chunk_ns), NEVER))

    def standing(self, clients: Ints) -> list[Emission]:
        """The interests or values that these clients have at time 0, with times 0."""
        return []

    def _next_event_ns(self) -> int:
        raise NotImplementedError

    def _emit(self, until_ns: int) -> list[Emission]:
        """Everything before until_ns that has not been emitted yet."""
        raise NotImplementedError

    def _keys(self, purpose: str, clients: Ints) -> NDArray[np.uint64]:
        """The stream of each client for one purpose."""
        return stream_keys(self.context, purpose, clients)

    def _set_chunk(self, events_per_second: float) -> None:
        self.chunk_ns = chunk_for(events_per_second)


def stream_keys(context: SourceContext, purpose: str, clients: Ints) -> NDArray[np.uint64]:
    """The stream of each client for one purpose of one source."""
    from topology.draws import purpose_key, streams

    key = purpose_key(context.seed, f"workload/{context.service}/{context.source}/{purpose}")
    entities = np.asarray(clients, np.int64) + context.entity_base
    return streams(key, entities.astype(np.uint64))


def chunk_for(events_per_second: float) -> int:
    """How long a chunk is, for this many events per second of all clients together."""
    if events_per_second <= 0.0:
        return CHUNK_MAX_NS
    return int(min(CHUNK_MAX_NS, max(CHUNK_MIN_NS, CHUNK_EVENTS * 1e9 / events_per_second)))


def subscription_ids(context: SourceContext, clients: Ints, numbers: Ints) -> Ints:
    """Ids of subscriptions, each given by client number and its number at this source."""
    if numbers.size and int(numbers.max()) >= SUBSCRIPTIONS_PER_SOURCE:
        raise InvalidInput(
            f"service {context.service}, workload source {context.source}: a client made more than "
            f"{SUBSCRIPTIONS_PER_SOURCE:,} subscriptions; lower the churn or the duration"
        )
    entities = np.asarray(clients, np.int64) + context.entity_base
    return (entities << 32) + context.source * SUBSCRIPTIONS_PER_SOURCE + numbers


def emission(
    type: int, time: Ints, client: Ints, word: Ints | None = None, rows: Floats | None = None
) -> Emission:
    """An emission; without words they are 0."""
    return Emission(type, time, client, np.zeros(time.size, np.int64) if word is None else word, rows)
