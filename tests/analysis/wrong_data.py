"""Tables that lie, one column at a time: a claim that none of them breaks can hardly fail.

A claim that does not hold of what was measured is no better off: it has to hold of some table, of one that lies or of
one that was made by hand, or nobody knows whether it ever would.
"""

from __future__ import annotations

import copy
from collections.abc import Container, Iterator
from typing import Any

from analysis.papers.claims import FAILS, HOLDS, REPORTED, judged
from analysis.papers.experiment import Experiment, Tables


def broken_by(
    experiment: Experiment, tables: Tables, key: str, axes: Container[str], right: Tables | None = None
) -> bool:
    """Whether a claim comes to the opposite by some lie. What is only reported cannot; `axes` say what rows are of.

    `right` are tables of which a claim that does not hold of the others holds, and which are lied about in their place.
    """
    true = verdict_of(experiment, tables, key)
    if true == FAILS and right is not None and verdict_of(experiment, right, key) == HOLDS:
        true, tables = HOLDS, right
    opposite = HOLDS if true == FAILS else FAILS
    return true == REPORTED or any(verdict_of(experiment, each, key) == opposite for each in lies(tables, axes))


def verdict_of(experiment: Experiment, tables: Tables, key: str) -> str:
    claim = next(each for each in experiment.judge(tables) if each.key == key)
    return judged(experiment.name, (1,), [claim]).verdict


def lies(tables: Tables, axes: Container[str]) -> Iterator[Tables]:
    """Each column of figures upside down, larger, a thousand times as large or small, negative, one row too large."""
    for name, rows in tables.items():
        for column in rows[0]:
            at = [row for row, each in enumerate(rows) if each[column] is not None]
            values = [rows[row][column] for row in at]
            if column in axes or not values or not all(isinstance(each, int | float) for each in values):
                continue
            booleans = all(isinstance(each, bool) for each in values)
            for wrong in [[not each for each in values]] if booleans else _wrong(values):
                lie = copy.deepcopy(tables)
                for row, value in zip(at, wrong):
                    lie[name][row][column] = value
                yield lie


def _wrong(values: list[Any]) -> Iterator[list[Any]]:
    yield values[::-1]
    for more in (1, 100):
        yield [each + more for each in values]
    for factor in (1e3, 1e-3, -1.0):
        yield [each * factor for each in values]
    for row in range(len(values)):
        yield [each * (1e3 if at == row else 1) for at, each in enumerate(values)]
