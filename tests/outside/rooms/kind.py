"""The kind `rooms`: rooms along a corridor.

A client is in a room from when it says `enter`, with a row [room], until it says `leave`; to enter again by the same
word is to move. What is said, a row [room, loudness], carries through as many walls as it is loud. The definition: it
reaches every client that is in a room so near.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from brokers.contract import Floats, Ints, Kind
from brokers.kinds import KindManifest
from brokers.schema import Column, Table
from rooms.manifest import ROOMS

SAY, ENTER, LEAVE = 0, 1, 2


class Params(BaseModel):
    """Parameters of a `rooms` service."""

    model_config = ConfigDict(extra="forbid")

    rooms: int = Field(10, ge=1, le=1_000_000, description="rooms along the corridor")


class Rooms(Kind):
    """See the module."""

    manifest: ClassVar[KindManifest] = ROOMS
    types: ClassVar[Mapping[str, int]] = {"say": SAY, "enter": ENTER, "leave": LEAVE}
    publications: ClassVar[frozenset[int]] = frozenset({SAY})
    changes: ClassVar[frozenset[int]] = frozenset({ENTER, LEAVE})
    interests: ClassVar[frozenset[int]] = frozenset({ENTER})
    replacements: ClassVar[frozenset[int]] = frozenset({ENTER})
    revocations: ClassVar[frozenset[int]] = frozenset({LEAVE})
    tables: ClassVar[Mapping[str, Table]] = {
        "heard": Table(
            "Through how many walls each client heard what was said.",
            "deliveries",
            (
                Column("service", "int16", "the service"),
                Column("broker", "int32", "the client's broker"),
                Column("time_ns", "int64", "when"),
                Column("publication", "int64", "what was said"),
                Column("client", "int64", "entity id of the client"),
                Column("walls", "int32", "between the two rooms"),
            ),
        )
    }
    Params: ClassVar[type[BaseModel]] = Params

    def row_bytes(self, type: int, rows: Floats) -> Ints:
        return np.full(len(rows), 16, np.int64)

    def oracle(self, interests: Mapping[int, Any], message: Any) -> set[int]:
        room, loudness = message[:2]
        return {stay for stay, row in interests.items() if abs(row[0] - room) <= loudness}
