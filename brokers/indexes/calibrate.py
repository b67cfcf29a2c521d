"""What an index costs on this machine, as a formula over logical quantities.

    ns per event = base_ns + per_entry_ns * subscriptions held + per_match_ns * subscriptions matched

Simulated service time must not depend on how an index happens to be laid out, so the model knows only what
every index with the same answers has in common. The fit is relative: a quarter more at 2 µs weighs as much as
a quarter more at 2 ms. No coefficient is negative; one that would be is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.content.contract import ContentIndex, Floats
from brokers.names import find
from topology.draws import stream, uniforms

COEFFICIENTS = ("base_ns", "per_entry_ns", "per_match_ns")
ENTRIES = (500, 2_000, 8_000, 32_000)
WIDTHS = (0.02, 0.1, 0.4)  # of a range: with two ranges, 0.04 % to 16 % of the subscriptions match
EVENTS = 100
ATTRIBUTES, RANGES = 10, 2
_SEED = 1


def calibrate(index_name: str, *, trust: bool = False) -> dict[str, float]:
    """Measure a content index, by its registered name or `module:Class`, and fit its costs. Some seconds.

    `trust` lets `module:Class` be code from outside, which is imported then.
    """
    _, index = find("indexes", index_name, trust=trust)
    if not issubclass(index, ContentIndex):
        question = getattr(index, "question", None)
        raise InvalidInput(f"index {index_name!r} answers {question!r}; only content-match can be calibrated")
    return fit_costs(*measure(index))


def measure(
    index_class: Callable[[int], ContentIndex],
    entries_held: Sequence[int] = ENTRIES,
    widths: Sequence[float] = WIDTHS,
    events: int = EVENTS,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
) -> tuple[Floats, Floats, Floats]:
    """(entries, matches, ns) per event: one point per size and width, medians over the events."""
    points = []
    asked = uniforms(stream(_SEED, 0, "calibrate events"), 0, events * ATTRIBUTES).reshape(events, ATTRIBUTES)
    for width in widths:
        index = index_class(ATTRIBUTES)
        rows = _rows(max(entries_held), width)
        held = 0
        for count in sorted(entries_held):
            index.insert(np.arange(held, count), rows[held:count])
            held = count
            index.match(asked[0])  # the first call may compile
            spent, matches = np.empty(events), np.empty(events)
            for i, event in enumerate(asked):
                begin = clock_ns()
                found = index.match(event)
                spent[i] = clock_ns() - begin
                matches[i] = len(found)
            points.append((held, np.median(matches), np.median(spent)))
    table = np.array(points)
    return table[:, 0], table[:, 1], table[:, 2]


def fit_costs(entries_held: Any, matches: Any, spent_ns: Any) -> dict[str, float]:
    """The non-negative coefficients with the least sum of squared relative errors."""
    columns = [np.asarray(column, np.float64) for column in (entries_held, matches, spent_ns)]
    if any(column.ndim != 1 or len(column) != len(columns[0]) for column in columns):
        raise InvalidInput("entries, matches and times differ in length; pass one of each per point")
    held, matched, spent = columns
    if len(spent) < len(COEFFICIENTS) or not all(np.isfinite(column).all() for column in columns):
        raise InvalidInput(f"{len(spent)} points; pass at least {len(COEFFICIENTS)}, all finite")
    if (spent <= 0).any():
        raise InvalidInput(f"a time of {spent.min():g} ns; times are above zero")
    model = np.stack([np.ones_like(spent), held, matched], axis=1) / spent[:, None]
    best, best_error = np.zeros(3), float(len(spent))  # all zero: each relative error is one
    for size in range(1, 4):
        for chosen in combinations(range(3), size):
            coefficients = _least_squares(model[:, chosen])
            error = float(((model[:, chosen] @ coefficients - 1) ** 2).sum())
            if (coefficients >= 0).all() and error < best_error:
                best, best_error = np.zeros(3), error
                best[list(chosen)] = coefficients
    return dict(zip(COEFFICIENTS, best.tolist()))


def _least_squares(model: Floats) -> Floats:
    # The columns differ by orders of magnitude; scaled to length one they are solved alike.
    scale = np.sqrt((model**2).sum(axis=0))
    scale[scale == 0] = 1.0
    solution: NDArray[np.float64] = np.linalg.lstsq(model / scale, np.ones(len(model)), rcond=None)[0]
    return solution / scale


def _rows(count: int, width: float) -> Floats:
    """Subscriptions on two different attributes, uniform in 0..1."""
    u = uniforms(stream(_SEED, 0, f"calibrate rows {width}"), 0, 4 * count).reshape(4, count)
    first = np.floor(u[0] * ATTRIBUTES)
    second = (first + 1 + np.floor(u[1] * (ATTRIBUTES - 1))) % ATTRIBUTES
    rows = np.empty((count, 3 * RANGES))
    rows[:, 0], rows[:, 3] = first, second
    rows[:, 1], rows[:, 4] = u[2] * (1 - width), u[3] * (1 - width)
    rows[:, 2], rows[:, 5] = rows[:, 1] + width, rows[:, 4] + width
    return rows
