"""What a file of events holds for the kind `content`: values, and the ranges that are asked for or advertised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from brokers.contract import Floats
from brokers.replaying import Cells, Column, Form, Op, attribute_places, finite, packed, stacked, upside_down
from protocols.content.kind import ADVERTISE, PUBLISH, SUBSCRIBE, UNADVERTISE, UNSUBSCRIBE

_ONE = {"subscribe": "a subscription", "advertise": "an advertisement"}
_RANGED = tuple(_ONE)


class ContentForm(Form):
    """See the module."""

    ops: ClassVar = {
        "publish": Op(PUBLISH),
        "subscribe": Op(SUBSCRIBE, "begins", "subscription"),
        "unsubscribe": Op(UNSUBSCRIBE, "ends", "subscription"),
    }
    adverts: ClassVar = {
        "advertise": Op(ADVERTISE, "begins", "advert"),
        "unadvertise": Op(UNADVERTISE, "ends", "advert"),
    }
    header: ClassVar = (
        Column("a<i>", ("publish",), "the value of attribute i; empty where it is absent"),
        Column("low_<i>", _RANGED, "the least value that is wanted of attribute i; empty: any, from below"),
        Column("high_<i>", _RANGED, "the largest value that is wanted; empty: any, from above"),
        Column("is_<i>", _RANGED, "the one value that is wanted, instead of `low_<i>` and `high_<i>`"),
        Column("prefix_<i>", _RANGED, "how the text begins that is wanted, where attribute i holds text"),
        Column(
            "subscription", ("subscribe", "unsubscribe"),
            "the client's own number of a subscription. unsubscribe: which one ends; subscribe: may be empty, then "
            "a client's subscriptions are counted 0, 1, 2, ...",
        ),
        Column("advert", ("advertise", "unadvertise"), "the same of an advertisement; both are counted together"),
    )  # fmt: skip

    def op_table(self) -> Mapping[str, Op]:
        return {**self.ops, **self.adverts} if self.kind.advertised else self.ops

    def places(self) -> dict[str, list[tuple[str, str]]]:
        attributes = self.kind.params.get("attributes", 4)
        return {"i": attribute_places(attributes, self.kind.params.get("names", ()))}

    def words(self) -> dict[str, int]:
        text = self.kind.params.get("text", ())
        return {f"{before}{a}": a for a in text for before in ("a", "low_", "high_", "is_")}

    def rows(self, op: str, cells: Cells) -> Floats | None:
        attributes, text = self.kind.params.get("attributes", 4), set(self.kind.params.get("text", ()))

        def read(name: str, a: int) -> Floats:
            return cells.codes(name, a) if a in text else cells.numbers(name)

        if op == "publish":
            values = stacked(cells, "a", attributes, read)
            finite(cells, values)
            return values
        if op not in _RANGED:
            return None
        low, high = (stacked(cells, before, attributes, read) for before in ("low_", "high_"))
        upside_down(cells, low, high)
        ranged = ~(np.isnan(low) & np.isnan(high))
        ways = ranged.astype(np.int64)
        same = stacked(cells, "is_", attributes, read)
        given = ~np.isnan(same)
        ways += given
        low, high = np.where(given, same, low), np.where(given, same, high)
        for a in range(attributes):
            if not cells.has(f"prefix_{a}"):
                continue
            first, last = cells.prefixes(f"prefix_{a}", a)
            given = ~np.isnan(first)
            ways[:, a] += given
            nobody = first > last  # no word begins so; codes begin at 0
            low[:, a] = np.where(given, np.where(nobody, -1.0, first), low[:, a])
            high[:, a] = np.where(given, np.where(nobody, -1.0, last), high[:, a])
        cells.wrong(
            (ways > 1).any(axis=1),
            lambda row: (
                f"attribute {int(np.argmax(ways[row] > 1))} is constrained in several ways; give its low and "
                "high, or the one value that it is, or a prefix"
            ),
        )
        cells.wrong(~(ways > 0).any(axis=1), lambda row: f"{_ONE[op]} needs at least one constraint")
        low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
        return packed(ways > 0, low, high)
