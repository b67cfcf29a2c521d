"""Which of the ranges learned after an event was matched it satisfies too."""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.indexes.contract import Floats, Ids

_PAIRS_AT_FIRST = 1024


def late_matches(values: Floats, since: Ids, log: Ids, rows: Floats) -> tuple[Ids, Ids]:
    """Pairs of an event i and an id of log[since[i]:] that it satisfies. O(events · log · ranges)."""
    size = _PAIRS_AT_FIRST
    while True:
        event, id_ = np.empty(size, np.int64), np.empty(size, np.int64)
        found = _late_matches(values, since, log, rows, event, id_)
        if found <= size:
            return event[:found], id_[:found]
        size = found


@njit(cache=True)
def _late_matches(values, since, log, rows, out_event, out_id):
    found = 0
    for i in range(since.size):
        for j in range(max(since[i], 0), log.size):
            row = rows[log[j]]
            ok = True
            for c in range(0, row.size, 3):
                a = row[c]
                if a != a:
                    break
                v = values[i, np.int64(a)]
                if not (row[c + 1] <= v <= row[c + 2]):
                    ok = False
                    break
            if ok:
                if found < out_event.size:
                    out_event[found] = i
                    out_id[found] = log[j]
                found += 1
    return found
