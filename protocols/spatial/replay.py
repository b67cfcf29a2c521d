"""What a file of events holds for the kind `spatial`: objects that come and go, and subscriptions, at places."""

from __future__ import annotations

from typing import ClassVar, cast

import numpy as np

from brokers.contract import Floats
from brokers.indexes.spatial.geometry import geometry_named
from brokers.replaying import Cells, Column, Form, Op
from brokers.words import KEYWORDS
from protocols.spatial.kind import EXPIRE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, Spatial

_PLACED = ("publish", "subscribe")
_BYTES_MAX = 1 << 30


class SpatialForm(Form):
    """See the module."""

    ops: ClassVar = {
        "publish": Op(PUBLISH, "begins", "object"),
        "expire": Op(EXPIRE, "ends", "object"),
        "subscribe": Op(SUBSCRIBE, "begins", "subscription"),
        "unsubscribe": Op(UNSUBSCRIBE, "ends", "subscription"),
    }
    header: ClassVar = (
        Column("x", _PLACED, "the place; on the sphere the latitude, in degrees"),
        Column("y", _PLACED, "on the sphere the longitude"),
        Column(
            "keywords", _PLACED,
            "a list, or with blanks between, as in `3 17`: numbers, or words where the service says `text: true`",
        ),
        Column("k", ("publish",), "among how many nearest the object asks to be; empty: the service's `k_max`"),
        Column("bytes", ("publish",), "the size of its payload; empty: 0"),
        Column(
            "object", ("publish", "expire"),
            "the client's own number of an object; publish: may be empty. What a client publishes and subscribes is "
            "counted together, 0, 1, 2, ...",
        ),
        Column("subscription", ("subscribe", "unsubscribe"), "the same of a subscription"),
    )  # fmt: skip

    def words(self) -> dict[str, int]:
        return {"keywords": KEYWORDS} if self.kind.params.get("text") else {}

    def rows(self, op: str, cells: Cells) -> Floats | None:
        if op not in _PLACED:
            return None
        kind = cast(Spatial, self.kind)
        geometry = geometry_named(kind.geometry)
        columns = []
        for name, limit, what in zip(("x", "y"), geometry.limits, geometry.numbers):
            values = cells.numbers(name)
            cells.wrong(
                ~(np.abs(values) <= limit),
                lambda row, name=name, what=what, limit=limit: (  # type: ignore[misc]
                    f"{name}, the {what}, lies in {-limit:g}..{limit:g} (got {cells.texts(name)[row]})"
                ),
            )
            columns.append(values)
        words = cells.lists("keywords", KEYWORDS if self.words() else None)
        there = ~np.isnan(words)
        cells.wrong(~there.any(axis=1), lambda row: "it has no keywords; give at least one")
        if not self.words():
            last = kind.params["keywords"] - 1
            wrong = there & ~((words >= 0) & (words <= last) & (words == np.floor(words)))
            cells.wrong(wrong.any(axis=1), lambda row: f"keywords are whole numbers in 0..{last}")
        if op == "publish":
            k, size = cells.wholes("k", kind.k_max), cells.wholes("bytes", 0)
            cells.wrong((k < 1) | (k > kind.k_max), lambda row: f"k lies in 1..{kind.k_max}")
            cells.wrong((size < 0) | (size > _BYTES_MAX), lambda row: f"bytes lies in 0..{_BYTES_MAX:,}")
            columns += [k.astype(np.float64), np.clip(size, 0, _BYTES_MAX).astype(np.float64)]
        return np.concatenate([np.stack(columns, axis=1), words], axis=1)
