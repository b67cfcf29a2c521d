"""Answers as a shard sifts them: once for all clients that hear them, however many brokers hand them out.

From round to round an answer stays the same while the plan does, so what was sifted is remembered by what it is made
of.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgpack
import numpy as np
from numpy.typing import NDArray

from brokers.contract import Ints
from brokers.wire.numbers import read_ints
from protocols.channels.answers import size_of
from protocols.channels.database import marks

_REMEMBERED = 2048


class Line(NamedTuple):
    """What a query of a client takes out of an answer."""

    row: int  # of the header
    query: int
    parts: int  # messages of the round that carry something for it
    objects: int
    marks: int


class Sifted(NamedTuple):
    """An answer, for all clients in its header."""

    ids: Ints  # of its objects
    wanted: NDArray[np.bool_]  # [lines, objects]
    clients: dict[int, tuple[int, list[Line]]]  # -> (objects that none of its queries asked for, its lines)
    dimensions: int
    tags: int  # -1: lines carry boxes

    def size_bytes(self, object_bytes: int) -> int:
        """What it takes on a link."""
        return size_of(len(self.wanted), len(self.ids), self.dimensions, self.tags, object_bytes)


class Came(NamedTuple):
    """A message with an answer."""

    period_ns: int
    round: int
    data: bytes
    sifted: Sifted


def came(data: bytes) -> Came:
    """What is in the bytes of a body."""
    body = msgpack.unpackb(data)
    low, high, tagged, tags = (body.get(name) for name in ("low", "high", "tagged", "tags"))
    header = msgpack.packb(body["header"])
    sifted = _sifted(header, body["objects"], body["points"], low, high, body.get("dimensions", 0), tagged, tags)
    return Came(body["period_ns"], body["round"], data, sifted)


@lru_cache(maxsize=_REMEMBERED)
def _sifted(
    header: bytes,
    objects: bytes,
    points: bytes,
    low: bytes | None,
    high: bytes | None,
    dimensions: int,
    tagged: bytes | None,
    tags: bytes | None,
) -> Sifted:
    """O(lines * objects)."""
    lines = read_ints(header).reshape(-1, 3)
    ids = np.frombuffer(objects, np.int64)
    wanted: NDArray[np.bool_]
    if low is None or high is None:
        wanted = np.zeros((len(lines), len(ids)), np.bool_)
        of_tag = np.repeat(np.arange(len(ids)), np.frombuffer(tagged or b"", np.int32))
        wanted[np.frombuffer(tags or b"", np.int32), of_tag] = True
    else:
        bottom, top = (np.frombuffer(each).reshape(len(lines), 1, -1) for each in (low, high))
        dimensions = bottom.shape[2]
        at = np.frombuffer(points).reshape(1, len(ids), dimensions)
        wanted = np.asarray(((at >= bottom) & (at <= top)).all(axis=2))
    counts, sums = wanted.sum(axis=1).tolist(), (wanted @ marks(ids)).tolist()
    of_client: dict[int, list[Line]] = {}
    for row, (client, query, parts) in enumerate(lines.tolist()):
        of_client.setdefault(client, []).append(Line(row, query, parts, counts[row], sums[row]))
    clients = {
        client: (len(ids) - int(wanted[[line.row for line in mine]].any(axis=0).sum()), mine)
        for client, mine in of_client.items()
    }
    return Sifted(ids, wanted, clients, dimensions, -1 if tags is None else len(tags) // 4)
