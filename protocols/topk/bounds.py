"""Upper bounds on what the filters of each broker can score, small enough to be told to everybody.

Of each broker: per attribute and cell of its values, the largest weight of the ranges that touch the cell; the
largest number of constraints of a filter; the largest sum of positive weights. A message touches cells too. No
filter there scores more than its `most` largest attributes, each with the largest weight in the cells of the
message, or with the sender's weight where senders weigh; nor more than the largest sum.

Weights are kept in a byte each, as a number of units, rounded up; a unit is a 32nd of a power of two, one per
broker. So a filter much like those that are there changes nothing, and nothing has to be told. A bound adds its
parts in another order than a score does, so it is raised by more than rounding can come to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.columns import Column, check_columns
from brokers.contract import Floats, Ints
from brokers.indexes.topk.contract import RankedMessage

_COLUMNS = {
    "_units": Column("u1", ("brokers", "attributes", "cells")),
    "_unit": Column("f8", ("brokers",), low=0),
    "_most": Column("i8", ("brokers",), low=0),
    "_top": Column("f8", ("brokers",), low=0),
}
_SLACK = 1.0 + 2.0**-40
_UNITS = 32.0
_TINIEST = 5e-324


class Bounds:
    """A bound per broker, empty at first: no filters, nothing to score."""

    def __init__(self, brokers: int, attributes: int, cells: int, domain: tuple[float, float]) -> None:
        self._cells, self._low = cells, domain[0]
        self._scale = cells / (domain[1] - domain[0])
        self._units = np.zeros((brokers, attributes, cells), np.uint8)  # 0: no range touches the cell
        self._unit = np.zeros(brokers)
        self._most = np.zeros(brokers, np.int64)
        self._top = np.zeros(brokers)

    def copy(self) -> Bounds:
        """A bound of its own, the same for now."""
        other = Bounds.__new__(Bounds)
        arrays = {name: value.copy() for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        vars(other).update({**vars(self), **arrays})
        return other

    def all_of(self, broker: int) -> dict[str, Any]:
        """All there is to tell of a broker's bound, as `tell` takes it."""
        units, (unit, most, top) = self._of(broker)
        return {"at": [[a, units[a].tobytes()] for a in range(len(units))], "unit": unit, "most": most, "top": top}

    def state(self) -> dict[str, Any]:
        """Plain data, for `load`."""
        return {name: value for name, value in vars(self).items() if name in _COLUMNS}

    def load(self, state: Any) -> None:
        """Take over the bounds of as many brokers, attributes and cells."""
        brokers, attributes, cells = self._units.shape
        known = {"brokers": brokers, "attributes": attributes, "cells": cells}
        vars(self).update(check_columns(state, _COLUMNS, known))

    def memory_bytes(self) -> int:
        return sum(value.nbytes for value in vars(self).values() if isinstance(value, np.ndarray))

    def limits(self, asked: RankedMessage, among: Ints) -> Floats:
        """What no filter of each of these brokers can exceed. O(brokers * attributes)."""
        present = np.flatnonzero(~np.isnan(asked.low))
        first, last = self._cell(asked.low[present]), self._cell(asked.high[present])
        touched = zip(present.tolist(), first.tolist(), last.tolist())
        reached = [
            self._units[among, a, begin] if begin == end else self._units[among, a, begin : end + 1].max(axis=1)
            for a, begin, end in touched
        ]
        units = np.stack(reached, axis=1) if reached else np.zeros((among.size, 1), np.uint8)
        if asked.weights is None:
            gains = units * self._unit[among, None]
        else:
            gains = np.where(units > 0, np.maximum(asked.weights[present], 0.0), 0.0)
        gains = -np.sort(-gains, axis=1)
        sums = np.concatenate([np.zeros((len(gains), 1)), np.cumsum(gains, axis=1)], axis=1)
        limits = sums[np.arange(len(sums)), np.minimum(self._most[among], gains.shape[1])]
        if asked.weights is None:
            limits = np.minimum(limits, self._top[among])
        return np.asarray(limits * _SLACK)

    def raise_by(self, broker: int, row: Any) -> dict[str, Any]:
        """Let a filter in; what of the bound changed, as `tell` takes it."""
        before = self._of(broker)
        self._raise(broker, row)
        return self._changed(broker, before)

    def reset(self, broker: int, rows: Sequence[Any]) -> dict[str, Any]:
        """The bound of exactly these filters; what of it changed."""
        before = self._of(broker)
        self._units[broker], self._unit[broker], self._most[broker], self._top[broker] = 0, 0.0, 0, 0.0
        for row in rows:
            self._raise(broker, row)
        return self._changed(broker, before)

    def tell(self, broker: int, parts: dict[str, Any]) -> None:
        """Take over what a broker says of its bound."""
        self._unit[broker], self._most[broker], self._top[broker] = parts["unit"], parts["most"], parts["top"]
        for attribute, units in parts["at"]:
            self._units[broker, attribute] = np.frombuffer(units, np.uint8)

    def _raise(self, broker: int, row: Any) -> None:
        quadruples = np.reshape(row, (-1, 4))
        quadruples = quadruples[~np.isnan(quadruples[:, 0])]
        weights = np.maximum(quadruples[:, 3], 0.0)
        self._make_room(broker, float(weights.max(initial=0.0)))
        unit = self._unit[broker]
        units = np.maximum(np.ceil(weights / unit), 1.0).astype(np.uint8) if unit else np.ones(len(weights), np.uint8)
        columns = quadruples[:, 0].astype(np.int64), self._cell(quadruples[:, 1]), self._cell(quadruples[:, 2])
        for attribute, first, last, count in zip(*(column.tolist() for column in columns), units.tolist()):
            cells = self._units[broker, attribute, first : last + 1]
            np.maximum(cells, count, out=cells)
        self._most[broker] = max(int(self._most[broker]), len(quadruples))
        self._top[broker] = max(float(self._top[broker]), _coarse(float(weights.sum())))

    def _make_room(self, broker: int, weight: float) -> None:
        """A unit of which `weight` is at most 32; what is there is rounded up to it."""
        unit = _coarse_unit(weight)
        had = float(self._unit[broker])
        if unit > had:
            if had:
                units = self._units[broker]
                coarser = np.maximum(np.ceil(units * (had / unit)), 1.0).astype(np.uint8)
                self._units[broker] = np.where(units > 0, coarser, 0)
            self._unit[broker] = unit

    def _cell(self, values: Floats) -> Ints:
        """A monotone function, so that ranges and values that meet share a cell."""
        place = np.clip(np.floor((values - self._low) * self._scale), 0, self._cells - 1)
        return np.asarray(place, np.int64)

    def _of(self, broker: int) -> tuple[NDArray[np.uint8], tuple[float, int, float]]:
        rest = float(self._unit[broker]), int(self._most[broker]), float(self._top[broker])
        return self._units[broker].copy(), rest

    def _changed(self, broker: int, before: tuple[NDArray[np.uint8], tuple[float, int, float]]) -> dict[str, Any]:
        units, rest = self._of(broker)
        differs = np.flatnonzero((units != before[0]).any(axis=1)).tolist()
        if not differs and rest == before[1]:
            return {}
        at = [[a, units[a].tobytes()] for a in differs]
        return {"at": at, "unit": rest[0], "most": rest[1], "top": rest[2]}


def _coarse_unit(weight: float) -> float:
    """A 32nd of the power of two that is not below the weight; 0 for 0."""
    fraction, exponent = np.frexp(weight)
    unit = float(np.ldexp(1.0, int(exponent) - (fraction == 0.5)) / _UNITS)
    return max(unit, _TINIEST) if weight > 0 else 0.0


def _coarse(value: float) -> float:
    """Not below the value, and at most a 16th above: five bits, by steps that are exact."""
    fraction, exponent = np.frexp(value)
    return float(np.ldexp(np.ceil(fraction * 32.0) / 32.0, int(exponent)))
