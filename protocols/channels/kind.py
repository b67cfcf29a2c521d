"""The kind `channels`: geographic queries to a server, which answers them again and again.

A client subscribes a query: a row `[period_ns, low_0, high_0, low_1, high_1, ...]`, a closed box with one pair per
axis of the server's database. It is *due* at every multiple of its period. Subscribing again under the same id puts
another box, or period, in its place. The definition: for every time at which a query is due, its client gets exactly
the objects in its box. How many messages carry them, and what else they carry, is the protocol's business: the
client sifts its own out of them, which is what the trace table `received` keeps.

No client publishes. The server does: what it sends has an id, `server << 32 | number`, and deliveries are of that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from brokers.contract import Floats, Ints, Kind
from brokers.errors import InvalidInput
from brokers.kinds import KindManifest
from brokers.planning.model import BadQuery, checked_boxes
from brokers.planning.sizes import Database
from brokers.schema import Column, Table
from protocols.channels.database import database_of
from protocols.channels.manifest import CHANNELS

SUBSCRIBE, UNSUBSCRIBE = 1, 2
PERIOD_NS_MIN = 1_000_000

_HEADER_BYTES = 24
_VALUE_BYTES = 9  # a float64 in msgpack

_SERVICE = Column("service", "int16", "the service")
_TIME = Column("time_ns", "int64", "when")
_SERVER = Column("broker", "int32", "the server")
_PERIOD = Column("period_ns", "int64", "the period of the queries")
_ROUND = Column("round", "int64", "which multiple of the period")


class Params(BaseModel):
    """Parameters of a `channels` service: its database."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    file: Annotated[
        str | None, Field(min_length=1, description="the objects: CSV or Parquet (.parquet), relative to the scenario")
    ] = None
    axes: Annotated[
        list[str], Field(min_length=1, max_length=8, description="columns of the file that queries have ranges of")
    ] = ["x", "y"]
    objects: Annotated[int, Field(ge=1, le=10_000_000, description="without a file: how many")] = 1_000
    side: Annotated[float, Field(gt=0, description="without a file: they lie in [0, side] x [0, side]")] = 1000.0
    hot_spots: Annotated[int, Field(ge=0, le=10_000, description="without a file: around which many lie")] = 8
    spread: Annotated[float, Field(gt=0, description="how far from it, as a standard deviation")] = 40.0
    hot_share: Annotated[float, Field(ge=0, le=1, description="part of the objects that lie at hot spots")] = 0.7
    database_seed: Annotated[int, Field(ge=0, le=2**63 - 1, description="another one, other objects")] = 1
    object_bytes: Annotated[int, Field(ge=1, le=1_000_000, description="size of an object on a link")] = 100

    @model_validator(mode="after")
    def _axes(self) -> Params:
        if len(set(self.axes)) < len(self.axes):
            raise ValueError(f"`axes` names a column twice (got {', '.join(self.axes)})")
        if self.file is None and len(self.axes) != 2:
            raise ValueError("without a `file` objects have two axes; leave `axes` out")
        return self


class Asked(NamedTuple):
    """A query."""

    period_ns: int
    low: Floats
    high: Floats


class Channels(Kind):
    """See the module."""

    manifest: ClassVar[KindManifest] = CHANNELS
    server: ClassVar[bool] = True
    types: ClassVar[Mapping[str, int]] = {"subscribe": SUBSCRIBE, "unsubscribe": UNSUBSCRIBE}
    publications: ClassVar[frozenset[int]] = frozenset()
    changes: ClassVar[frozenset[int]] = frozenset({SUBSCRIBE, UNSUBSCRIBE})
    interests: ClassVar[frozenset[int]] = frozenset({SUBSCRIBE})
    revocations: ClassVar[frozenset[int]] = frozenset({UNSUBSCRIBE})
    replacements: ClassVar[frozenset[int]] = frozenset({SUBSCRIBE})
    paths: ClassVar[tuple[str, ...]] = ("file",)  # parameters that name files, relative to the scenario
    tables: ClassVar[Mapping[str, Table]] = {
        "objects": Table(
            "The server's database, one row per object.",
            "deliveries",
            (
                _SERVICE, _SERVER, _TIME,
                Column("object", "int64", "id of the object"),
                Column("mark", "int64", "40 bits that follow from the id"),
                Column("point", "list<float64>", "where it lies"),
            ),
        ),
        "plans": Table(
            "Each plan of the server, from when it is in force: one row per period that was planned.",
            "summary",
            (
                _SERVICE, _SERVER, _TIME,
                Column("plan", "int64", "number of the plan"),
                Column("began_ns", "int64", "when planning began"),
                Column("cause", "int64", "the change that led to it (-1: what stood from the start)"),
                _PERIOD,
                Column("queries", "int32", "queries with this period"),
                Column("merged", "int32", "merged queries that stand for them"),
                Column("channels", "int32", "channels on which they are answered"),
                Column("cost", "float64", "the differential cost by the model"),
                Column("sent", "float64", "objects sent per round by the model"),
                Column("irrelevant", "float64", "objects per round, over queries, not asked for, by the model"),
            ),
        ),
        "answers": Table(
            "What the server sent: one row per merged query and round.",
            "deliveries",
            (
                _SERVICE, _SERVER, _TIME,
                Column("publication", "int64", "id of the message: server << 32 | number"),
                _PERIOD, _ROUND,
                Column("channel", "int64", "the channel it was sent on"),
                Column("queries", "int32", "queries in its header"),
                Column("listeners", "int32", "clients that listen to the channel"),
                Column("objects", "int32", "objects in it"),
                Column("size_bytes", "int64", "its size on a link"),
            ),
        ),
        "heard": Table(
            "What each client heard on its channels: one row per message.",
            "deliveries",
            (
                _SERVICE, Column("broker", "int32", "the client's broker"), _TIME,
                Column("publication", "int64", "the message"),
                Column("client", "int64", "entity id of the client"),
                Column("objects", "int32", "objects in the message"),
                Column("irrelevant", "int32", "those that none of the client's queries asked for"),
            ),
        ),
        "received": Table(
            "What clients made of it: one row per query and round, once all parts are there.",
            "deliveries",
            (
                _SERVICE, Column("broker", "int32", "the client's broker"), _TIME,
                Column("client", "int64", "entity id of the client"),
                Column("query", "int64", "the query's id"),
                _PERIOD, _ROUND,
                Column("objects", "int32", "how many objects answer it"),
                Column("marks", "int64", "the sum of their marks"),
                Column("irrelevant", "int32", "objects in the messages for it that do not answer it"),
            ),
        ),
    }  # fmt: skip
    Params: ClassVar[type[BaseModel]] = Params

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__({**Params().model_dump(), **params})

    @classmethod
    def misfits(cls, params: Mapping[str, Any], index: type | None) -> list[tuple[str, str]]:
        if params.get("file") is None:
            return []
        try:
            cls(params).database()
        except InvalidInput as error:
            return [("file", str(error))]
        return []

    @property
    def dimensions(self) -> int:
        return len(self.params["axes"])

    def database(self) -> Database:
        """The server's objects. O(objects) the first time in a process."""
        return database_of(self.params)

    def asked(self, row: Floats, id: int = 0) -> Asked:
        """A query's row, checked; BadQuery names it by its id."""
        d = self.dimensions
        numbers = np.asarray(row, np.float64)[: 1 + 2 * d]
        if (quick := _as_it_is(numbers, d)) is not None:
            return quick
        name = f"query {id >> 32}#{id & 0xFFFFFFFF}"
        if numbers.size < 1 + 2 * d:
            raise BadQuery(f"{name} has {numbers.size} numbers; pass its period and two ends for each of {d} axes")
        period = float(numbers[0])
        if not period.is_integer() or not PERIOD_NS_MIN <= period < 2**53:
            raise BadQuery(f"{name} has a period of {period:g} ns; pass whole nanoseconds, at least {PERIOD_NS_MIN:,}")
        try:
            low, high = checked_boxes(numbers[None, 1::2].copy(), numbers[None, 2::2].copy())
        except BadQuery as error:
            raise BadQuery(f"{name}: {str(error).removeprefix('query 0: ')}") from None
        return Asked(int(period), low[0], high[0])

    def row_bytes(self, type: int, rows: Floats) -> Ints:
        present = np.count_nonzero(~np.isnan(rows), axis=1)
        return (_HEADER_BYTES + _VALUE_BYTES * present).astype(np.int64)

    def row_to_object(self, type: int, row: Floats) -> Any:
        """A query as {"period_ns": ..., "box": [[low, high], ...]}."""
        asked = self.asked(row)
        return {"period_ns": asked.period_ns, "box": np.stack([asked.low, asked.high], axis=1).tolist()}

    def amiss(self, type: int, row: Floats | None) -> str | None:
        if type == UNSUBSCRIBE:
            return None if row is None else "a message of this type has no body; leave it out"
        if row is None or row.size != 1 + 2 * self.dimensions:
            return f"a query has {1 + 2 * self.dimensions} numbers: its period in ns and two ends for each axis"
        return super().amiss(type, row)

    def oracle(self, interests: Mapping[int, Any], message: Any) -> set[int]:
        """Which queries (id -> row) an object at the point `message` answers."""
        found = set()
        for id_, row in interests.items():
            asked = self.asked(row, id_)
            if ((message >= asked.low) & (message <= asked.high)).all():
                found.add(id_)
        return found

    def answer(self, asked: Asked) -> Ints:
        """The definition: the ids of the objects that answer a query, ascending. By brute force, O(objects)."""
        database = self.database()
        inside = ((database.points >= asked.low) & (database.points <= asked.high)).all(axis=1)
        return np.sort(database.ids[inside])


def _as_it_is(numbers: Floats, d: int) -> Asked | None:
    """A query in which nothing is wrong; None where something may be, which is for a closer look."""
    if numbers.size != 1 + 2 * d:
        return None
    period, *ends = numbers.tolist()
    if not period.is_integer() or not PERIOD_NS_MIN <= period < 2**53:
        return None
    if not all(-math.inf < low < high < math.inf for low, high in zip(ends[::2], ends[1::2])):
        return None
    return Asked(int(period), numbers[1::2].copy(), numbers[2::2].copy())
