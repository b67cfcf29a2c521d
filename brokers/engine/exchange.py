"""What crosses between shards: one blob per pair and window, a frame of the wire format.

Handles are a shard's own. On the way out a body becomes its uid and, once per blob, its content; a cause
becomes its key. On the way in both become handles again; a body known already is not made twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.bodies import Bodies
from brokers.contract import NEVER, Ints
from brokers.engine import layout as L
from brokers.engine.causes import Causes
from brokers.wire import decode_frame, encode_frame

FRAME = "window"


class Outbox:
    """Messages for links whose far end another shard carries, until the window's end."""

    def __init__(self) -> None:
        self.rows = np.zeros((256, L.OUT_ROW), np.int64)  # a row of a ring, then the link
        self.used = L.apart(1)  # rows in use; kernels count on

    def __len__(self) -> int:
        return int(self.used[0])

    def reserve(self, count: int) -> None:
        """Room for `count` more rows; may replace `rows`."""
        used = len(self)
        if used + count > len(self.rows):
            grown = np.zeros((2 * (used + count), L.OUT_ROW), np.int64)
            grown[:used] = self.rows[:used]
            self.rows = grown

    def pack(
        self, peers: int, peers_of: Callable[[Ints], NDArray[np.int32]], bodies: Bodies, causes: Causes
    ) -> tuple[list[bytes], int]:
        """Empty the box: one blob per peer (b"" for nothing), and the earliest arrival in them."""
        blobs = [b""] * peers
        rows = self.rows[: len(self)]
        if not len(rows):
            return blobs, NEVER
        peer = peers_of(rows[:, L.O_LINK])
        for p in np.unique(peer).tolist():
            mine = rows[peer == p]
            body = mine[:, L.M_PACKED] >> 24
            blobs[p] = encode_frame(
                FRAME,
                {
                    "rows": np.ascontiguousarray(mine),
                    "uid": bodies.uids(body),
                    "cause": causes.keys(mine[:, L.M_CAUSE]),
                    "bodies": bodies.pack(np.unique(body[body >= 0]).astype(np.int32)),
                },
            )
        bodies.carry(rows[:, L.M_PACKED] >> 24, -1)
        self.used[0] = 0
        return blobs, int(rows[:, L.M_TIME].min())


def unpack(blob: bytes, bodies: Bodies, causes: Causes) -> tuple[Ints, Ints]:
    """The rows another shard sent, in this shard's handles, and the link of each."""
    _, frame = decode_frame(blob)
    handle_of: dict[int, int] = bodies.unpack(frame["bodies"])
    rows: Any = frame["rows"].copy()
    uid = frame["uid"]
    carried = uid != -1
    body = np.full(len(rows), -1, np.int64)
    body[carried] = [handle_of[u] for u in uid[carried].tolist()]
    rows[:, L.M_PACKED] = (body << 24) | (rows[:, L.M_PACKED] & 0xFFFFFF)
    rows[:, L.M_CAUSE] = causes.handles(frame["cause"])
    bodies.carry(body, 1)
    return rows, rows[:, L.O_LINK].copy()
