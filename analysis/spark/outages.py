"""What faults cost and how soon it was over: how much was delivered when, and what came after each outage.

An outage is a stretch of time in which something is broken. Of what was wanted in time (forced, or free only because of
losses) the share that was delivered is told by when it was published; after each outage, until the next, when the last
was published of which a delivery was missing, and how many messages repaired: those over links that no client caused
and that carry no publication.

Numbers only, and NumPy: this module goes to the tasks by value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Columns = dict[str, Array]

STRETCHES_MAX = 60  # of a run, of which the share is told


def outages(begin_ns: Any, end_ns: Any) -> list[tuple[int, int]]:
    """The stretches in which something is broken; the end of one that is never over is -1."""
    never = np.int64(1 << 62)
    begin, end = np.asarray(begin_ns, np.int64), np.asarray(end_ns, np.int64)
    found: list[list[int]] = []
    for first, last in sorted(zip(begin.tolist(), np.where(end < 0, never, end).tolist())):
        if found and first <= found[-1][1]:
            found[-1][1] = max(found[-1][1], last)
        else:
            found.append([first, last])
    return [(first, -1 if last >= never else last) for first, last in found]


def width_ns(duration_ns: int) -> int:
    """Of a stretch: whole seconds, or tenths where a run is short."""
    step = 100_000_000 if duration_ns <= 6_000_000_000 else 1_000_000_000
    return max(step, -(-duration_ns // STRETCHES_MAX // step) * step)


def marks_of(spans: list[tuple[int, int]]) -> Array:
    """Beginnings and ends in turn: what lies after outage i and before the next has 2 i + 2 of them before it."""
    return np.array([each if each >= 0 else 1 << 62 for span in spans for each in span], np.int64)


def by_stretch(sent_ns: Array, wanted: Array, came: Array, marks: Array, width: int) -> Columns:
    """Of pairs by when they were published, and after how many marks: wanted, got, and the last that was missing."""
    keys = np.stack([sent_ns[wanted] // width, np.searchsorted(marks, sent_ns[wanted], side="right")])
    groups, group = np.unique(keys, axis=1, return_inverse=True)
    got, last = came[wanted], np.full(groups.shape[1], -1, np.int64)
    np.maximum.at(last, group[~got], sent_ns[wanted][~got])
    return {
        "stretch": groups[0], "mark": groups[1], "wanted": np.bincount(group, minlength=groups.shape[1]),
        "got": np.bincount(group, got, groups.shape[1]).astype(np.int64), "last_missed_ns": last,
    }  # fmt: skip


def told(
    rows: Iterable[Mapping[str, int]], spans: list[tuple[int, int]], repairs: Mapping[int, int] | None, width: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The share by stretch, and a line for each outage; `repairs` by marks before them, None where nobody knows."""
    shares: dict[int, list[int]] = {}
    last: dict[int, int] = {}
    for row in rows:
        share = shares.setdefault(row["stretch"], [0, 0])
        share[0] += row["wanted"]
        share[1] += row["got"]
        last[row["mark"]] = max(last.get(row["mark"], -1), row["last_missed_ns"])
    by_time = [
        {"from_ns": stretch * width, "wanted": wanted, "delivered": got}
        for stretch, (wanted, got) in sorted(shares.items())
    ]
    after = [
        {
            "begin_ns": begin,
            "end_ns": end,
            "missing_for_ns": max(0, last.get(2 * number + 2, -1) - end + 1) if end >= 0 else None,
            "repair_messages": None if repairs is None or end < 0 else repairs.get(2 * number + 2, 0),
        }
        for number, (begin, end) in enumerate(spans)
    ]
    return by_time, after
