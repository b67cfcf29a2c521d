"""What a file of events holds for the kind `topk`: points or intervals, and weighted filters."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from brokers.contract import Floats
from brokers.indexes.topk.contract import WEIGHT_MAX
from brokers.replaying import Cells, Column, Form, Op, attribute_places, finite, packed, stacked, upside_down
from protocols.topk.kind import PUBLISH, REWEIGHT, SUBSCRIBE, UNSUBSCRIBE

_FILTER = ("subscribe", "reweight")


class TopKForm(Form):
    """See the module."""

    ops: ClassVar = {
        "publish": Op(PUBLISH),
        "subscribe": Op(SUBSCRIBE, "begins", "subscription"),
        "reweight": Op(REWEIGHT, "changes", "subscription"),
        "unsubscribe": Op(UNSUBSCRIBE, "ends", "subscription"),
    }
    header: ClassVar = (
        Column("a<i>", ("publish",), "the value of attribute i; empty where it is absent"),
        Column("to_<i>", ("publish",), "of an interval in attribute i, the upper end; empty: the value alone"),
        Column("low_<i>", _FILTER, "the least value that the filter wants of attribute i; empty: any, from below"),
        Column("high_<i>", _FILTER, "the largest value that it wants; empty: any, from above"),
        Column(
            "weight_<i>", ("publish", *_FILTER),
            "what the constraint on attribute i weighs; publish: the sender's weight of it, empty in all: none",
        ),
        Column(
            "subscription", ("subscribe", "reweight", "unsubscribe"),
            "the client's own number of a filter; subscribe: may be empty, then they are counted 0, 1, 2, ... A filter "
            "that is there may be subscribed again, or be given other weights by its whole row",
        ),
    )  # fmt: skip

    def places(self) -> dict[str, list[tuple[str, str]]]:
        return {"i": attribute_places(self.kind.params["attributes"])}

    def rows(self, op: str, cells: Cells) -> Floats | None:
        if op == "unsubscribe":
            return None
        attributes = self.kind.params["attributes"]
        weights = stacked(cells, "weight_", attributes)
        cells.wrong(
            (np.abs(weights) > WEIGHT_MAX).any(axis=1), lambda row: f"a weight lies in ±{WEIGHT_MAX:g}"
        )
        if op == "publish":
            return self._publications(cells, attributes, weights)
        low, high = stacked(cells, "low_", attributes), stacked(cells, "high_", attributes)
        upside_down(cells, low, high)
        given = ~(np.isnan(low) & np.isnan(high))
        cells.wrong(
            (given != ~np.isnan(weights)).any(axis=1),
            lambda row: "a filter has a weight for each attribute that it constrains, and for no other",
        )
        cells.wrong(~given.any(axis=1), lambda row: "a filter needs at least one constraint")
        low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
        return packed(given, low, high, weights)

    def _publications(self, cells: Cells, attributes: int, weights: Floats) -> Floats:
        values, ends = stacked(cells, "a", attributes), stacked(cells, "to_", attributes)
        finite(cells, values)
        finite(cells, ends)
        upside_down(cells, values, ends, ("a", "to_"))
        cells.wrong(
            (np.isnan(values) & ~(np.isnan(ends) & np.isnan(weights))).any(axis=1),
            lambda row: "an attribute without a value has no upper end and no weight",
        )
        parts = [values]
        if not (np.isnan(ends).all() and np.isnan(weights).all()):
            parts.append(ends)
        if not np.isnan(weights).all():
            parts.append(weights)
        return np.concatenate(parts, axis=1)
