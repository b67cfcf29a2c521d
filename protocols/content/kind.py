"""The kind `content`: ranges over numeric attributes.

A publication is a row of values, NaN where one is missing. A subscription is a conjunction of closed
ranges, `[attribute, low, high] * k`, padded with NaN. The definition: a publication reaches every client
that has a subscription whose every range holds the publication's value; once per client, and its own
publisher too if that subscribed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from brokers.contract import Floats, Ints, Kind

PUBLISH, SUBSCRIBE, UNSUBSCRIBE = 0, 1, 2

_HEADER_BYTES = 24
_VALUE_BYTES = 9  # a float64 in msgpack


class Params(BaseModel):
    """Parameters of a `content` service."""

    model_config = ConfigDict(extra="forbid")

    attributes: Annotated[int, Field(ge=1, le=1000, description="numeric attributes of a publication")] = 4


class Content(Kind):
    """See the module."""

    name: ClassVar[str] = "content"
    prose: ClassVar[str] = (
        "ranges over numeric attributes: a publication reaches everyone whose ranges hold it"
    )
    question: ClassVar[str | None] = "content-match"
    types: ClassVar[Mapping[str, int]] = {
        "publish": PUBLISH,
        "subscribe": SUBSCRIBE,
        "unsubscribe": UNSUBSCRIBE,
    }
    publications: ClassVar[frozenset[int]] = frozenset({PUBLISH})
    changes: ClassVar[frozenset[int]] = frozenset({SUBSCRIBE, UNSUBSCRIBE})
    interests: ClassVar[frozenset[int]] = frozenset({SUBSCRIBE})
    revocations: ClassVar[frozenset[int]] = frozenset({UNSUBSCRIBE})
    rehearsal: ClassVar[str] = "protocols.content.rehearsal:script"
    Params: ClassVar[type[BaseModel]] = Params

    def new_index(self, index: type) -> Any:
        return index(self.params.get("attributes", 4))

    def row_bytes(self, type: int, rows: Floats) -> Ints:
        present = np.count_nonzero(~np.isnan(rows), axis=1)
        return (_HEADER_BYTES + _VALUE_BYTES * present).astype(np.int64)

    def row_to_object(self, type: int, row: Floats) -> Any:
        """A publication as {attribute: value}; a subscription as {attribute: (low, high)}."""
        if type == PUBLISH:
            return {a: v for a, v in enumerate(row.tolist()) if v == v}
        triples = row.reshape(-1, 3).tolist()
        return {int(a): (low, high) for a, low, high in triples if a == a}

    def oracle(self, interests: Mapping[int, Any], message: Any) -> set[int]:
        return {
            id_
            for id_, row in interests.items()
            if all(
                low <= message[int(a)] <= high for a, low, high in np.reshape(row, (-1, 3)).tolist() if a == a
            )
        }
