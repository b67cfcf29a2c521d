"""What a file of events holds for the kind `channels`: queries, boxes with a period, that come, move and go."""

from __future__ import annotations

from typing import ClassVar, cast

import numpy as np

from brokers.contract import Floats
from brokers.replaying import Cells, Column, Form, Op
from protocols.channels.kind import PERIOD_NS_MIN, SUBSCRIBE, UNSUBSCRIBE, Channels

_ASKS = ("subscribe", "move")
_EXACT = 2.0**53


class ChannelsForm(Form):
    """See the module."""

    ops: ClassVar = {
        "subscribe": Op(SUBSCRIBE, "begins", "subscription"),
        "move": Op(SUBSCRIBE, "changes", "subscription"),
        "unsubscribe": Op(UNSUBSCRIBE, "ends", "subscription"),
    }
    header: ClassVar = (
        Column("low_<axis>", _ASKS, "the lower end of the box along an axis of the database, e.g. `low_x`"),
        Column("high_<axis>", _ASKS, "its upper end"),
        Column("period_s", _ASKS, "the period in seconds, at least 1 ms"),
        Column("period_ns", _ASKS, "or in nanoseconds"),
        Column(
            "subscription", (*_ASKS, "unsubscribe"),
            "the client's own number of a query; subscribe: may be empty, then they are counted 0, 1, 2, ... move: the "
            "query that gets another box or period",
        ),
    )  # fmt: skip

    def places(self) -> dict[str, list[tuple[str, str]]]:
        return {"axis": [(axis, axis) for axis in self._axes]}

    @property
    def _axes(self) -> list[str]:
        return list(cast(Channels, self.kind).params["axes"])

    def rows(self, op: str, cells: Cells) -> Floats | None:
        if op == "unsubscribe":
            return None
        seconds, nanoseconds = cells.numbers("period_s"), cells.numbers("period_ns")
        cells.wrong(
            np.isnan(seconds) == np.isnan(nanoseconds),
            lambda row: "a query has one of period_s and period_ns",
        )
        period = np.where(np.isnan(seconds), nanoseconds, np.rint(seconds * 1e9))
        fine = (period >= PERIOD_NS_MIN) & (period < _EXACT) & (period == np.floor(period))
        said = ~(np.isnan(seconds) & np.isnan(nanoseconds))
        cells.wrong(said & ~fine, lambda row: "a period is a whole number of nanoseconds, at least 1 ms")
        columns = [np.where(fine, period, PERIOD_NS_MIN)]
        for axis in self._axes:
            low, high = cells.numbers(f"low_{axis}"), cells.numbers(f"high_{axis}")
            finite = np.isfinite(low) & np.isfinite(high)
            cells.wrong(~finite, lambda row, axis=axis: f"a box has finite ends low_{axis} and high_{axis}")  # type: ignore[misc]
            cells.wrong(low > high, lambda row, axis=axis: f"low_{axis} is above high_{axis}")  # type: ignore[misc]
            columns += [low, high]
        return np.stack(columns, axis=1)
