"""The kind `topk`: weighted partial matching, the k best of the whole network.

A filter is a row of weighted ranges, `[attribute, low, high, weight] * n`, padded with NaN. A publication is a
row of the values of all attributes, NaN where one is missing; for intervals, their upper ends follow (NaN: a
point), and where the sender weighs, its weights (all NaN: it gives none). `brokers.indexes.topk.contract` defines
scores and their order. The definition: a publication reaches the clients whose filters are among the first k of
all filters in the network.

A client subscribes, unsubscribes, and may give a filter other weights: `reweight` brings the whole row again,
under the same id, and takes the place of the one before, as subscribing once more would.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator

from brokers.contract import Floats, Ints, Kind
from brokers.errors import InvalidInput
from brokers.indexes.contract import RowIndex
from brokers.indexes.topk.contract import Answer, Query, RankedMessage, message
from brokers.indexes.topk.scan import Scan
from brokers.kinds import KindManifest
from brokers.schema import Column, Table
from protocols.content.kind import amiss_of_ranges
from protocols.topk.manifest import TOPK

PUBLISH, SUBSCRIBE, UNSUBSCRIBE, REWEIGHT = 0, 1, 2, 3

_HEADER_BYTES = 24
_VALUE_BYTES = 9  # a float64 in msgpack


class Params(BaseModel):
    """Parameters of a `topk` service."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    attributes: Annotated[int, Field(ge=1, le=1000, description="numeric attributes of a publication")] = 8
    k: Annotated[int, Field(ge=1, le=1_000_000, description="how many are reached")] = 10
    threshold: Annotated[float, Field(ge=0, description="scores have to be above it")] = 0.0
    ties: Annotated[
        Literal["deterministic", "all", "none"],
        Field(description="of equal scores at rank k: those of lowest id, all of them, or none of them"),
    ] = "deterministic"
    unit: Annotated[
        Literal["filter", "receiver"],
        Field(description="what k counts: filters, or clients, each by its best filter"),
    ] = "filter"
    exclude_publisher: Annotated[bool, Field(description="a publisher's own filters are not ranked")] = True
    prorate: Annotated[
        bool, Field(description="a weight counts by the share of the range that an interval covers")
    ] = False
    domain: Annotated[
        tuple[float, float], Field(description="where values are expected; others are allowed")
    ] = (0.0, 1.0)

    @field_validator("domain")
    @classmethod
    def _wide(cls, domain: tuple[float, float]) -> tuple[float, float]:
        if not 0.0 < domain[1] - domain[0] < float("inf"):
            raise ValueError(f"a domain runs from low to high, not too far; {domain[0]:g} to {domain[1]:g} does not")
        return domain


class TopK(Kind):
    """See the module."""

    manifest: ClassVar[KindManifest] = TOPK
    types: ClassVar[Mapping[str, int]] = {
        "publish": PUBLISH,
        "subscribe": SUBSCRIBE,
        "unsubscribe": UNSUBSCRIBE,
        "reweight": REWEIGHT,
    }
    publications: ClassVar[frozenset[int]] = frozenset({PUBLISH})
    changes: ClassVar[frozenset[int]] = frozenset({SUBSCRIBE, UNSUBSCRIBE, REWEIGHT})
    interests: ClassVar[frozenset[int]] = frozenset({SUBSCRIBE, REWEIGHT})
    revocations: ClassVar[frozenset[int]] = frozenset({UNSUBSCRIBE})
    replacements: ClassVar[frozenset[int]] = frozenset({SUBSCRIBE, REWEIGHT})
    tables: ClassVar[Mapping[str, Table]] = {
        "rankings": Table(
            "What each publication was answered with, in rank order: a row per filter, or one of rank -1 if nobody.",
            "deliveries",
            (
                Column("service", "int16", "the service"),
                Column("broker", "int32", "the broker that decided: where the publication entered"),
                Column("time_ns", "int64", "when"),
                Column("publication", "int64", "the publication"),
                Column("rank", "int32", "from 0"),
                Column("interest", "int64", "the filter"),
                Column("client", "int64", "whose it is"),
                Column("score", "float64", "its score"),
                Column("tie", "int8", "1 if the score at the boundary was also that of a filter behind it"),
            ),
        )
    }
    Params: ClassVar[type[BaseModel]] = Params

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__({**Params().model_dump(), **params})
        p = self.params
        self.attributes: int = p["attributes"]
        self.exclude_publisher: bool = p["exclude_publisher"]
        self._query = Query(p["k"], p["threshold"], p["ties"], p["unit"], None, p["prorate"])

    def new_index(self, index: type) -> Any:
        return index(self.attributes)

    def row_index(self, index: Any) -> RowIndex:
        from protocols.topk.scored import Scored

        return Scored(self, index)

    def query(self, publisher: int) -> Query:
        """What is asked about a publication of this client."""
        return self._query if not self.exclude_publisher else _excluding(self._query, publisher)

    def asked(self, row: Floats) -> RankedMessage:
        """A publication's row as the indexes take it."""
        m = self.attributes
        if row.size < m:
            raise InvalidInput(f"a publication of {row.size} numbers; it has at least one for each of {m} attributes")
        low, high, weights = row[:m], row[m : 2 * m], row[2 * m : 3 * m]
        ends = np.stack([low, low], axis=1)
        if high.size == m:
            ends[:, 1] = np.where(np.isnan(high), low, high)
        if weights.size < m or np.isnan(weights).all():
            return message(ends)
        return message(ends, np.where(np.isnan(weights), 0.0, weights))

    def row_bytes(self, type: int, rows: Floats) -> Ints:
        present = np.count_nonzero(~np.isnan(rows), axis=1)
        return (_HEADER_BYTES + _VALUE_BYTES * present).astype(np.int64)

    def row_to_object(self, type: int, row: Floats) -> Any:
        """A publication as {attribute: [low, high]}; a filter as {attribute: (low, high, weight)}."""
        if type == PUBLISH:
            asked = self.asked(row)
            pairs = enumerate(zip(asked.low.tolist(), asked.high.tolist()))
            return {a: [low, high] for a, (low, high) in pairs if low == low}
        quadruples = row.reshape(-1, 4).tolist()
        return {int(a): (low, high, weight) for a, low, high, weight in quadruples if a == a}

    def amiss(self, type: int, row: Floats | None) -> str | None:
        asks = type in (SUBSCRIBE, REWEIGHT)
        wrong = amiss_of_ranges(type == PUBLISH, asks, row, self.attributes, (1, 2, 3), 4)
        if wrong is None and row is not None and asks and np.isnan(row.reshape(-1, 4)).any(axis=1).any():
            whole = row.reshape(-1, 4)
            if np.isnan(whole[~np.isnan(whole[:, 0])]).any():
                return "a range of a filter has an attribute, low, high and a weight"
        return wrong

    def oracle(self, interests: Mapping[int, Any], message: Any) -> set[int]:
        """Which filters are in the answer if these are all there are, and no publisher is excluded."""
        return set(self.answer(interests, message, None).ids.tolist())

    def answer(self, interests: Mapping[int, Any], message: Any, publisher: int | None) -> Answer:
        """The definition: the answer to a publication's row if these filters (id -> row) are all there are."""
        index = Scan(self.attributes)
        for id_, row in interests.items():
            receiver = np.array([id_ >> 32])
            index.insert([id_], np.reshape(row, (1, -1)), receiver)
        query = self._query if publisher is None else self.query(publisher)
        return index.match(self.asked(np.asarray(message, np.float64)), query)


def _excluding(query: Query, receiver: int) -> Query:
    return Query(query.k, query.threshold, query.ties, query.unit, receiver, query.prorate)
