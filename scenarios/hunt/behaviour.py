"""What a run did, as a set of marks: a case is worth keeping that left one that no case before it had left.

A mark is a type of message or timer with the one that its broker handled before, in buckets: how many of them, how
many entries a broker had at the end. So it is told apart what happened after what, and not when.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scenarios.hunt.running import Outcome


def marks(outcome: Outcome) -> set[tuple[Any, ...]]:
    """The marks that a run left."""
    if outcome.failed:
        return {("failed", outcome.sort)}
    hops = outcome.tables["hops"]
    order = np.lexsort((hops["sequence"], hops["source"], hops["kind"], hops["time_ns"], hops["broker"]))
    broker, kind, type_ = (hops[name][order].astype(np.int64) for name in ("broker", "kind", "type"))
    from_client = hops["link"][order] < 0
    code = kind * 1000 + type_ * 4 + from_client
    same = broker[1:] == broker[:-1]
    found: set[tuple[Any, ...]] = set()
    pairs, counts = np.unique(np.stack([code[:-1][same], code[1:][same]]), axis=1, return_counts=True)
    for (before, after), count in zip(pairs.T.tolist(), counts.tolist()):
        found.add((before, after, _bucket(count)))
    at_once = same & (hops["time_ns"][order][1:] == hops["time_ns"][order][:-1])
    found.update(("at once", a, b) for a, b in zip(code[:-1][at_once].tolist(), code[1:][at_once].tolist()))
    found.update(("entries", _bucket(each)) for each in outcome.entries)
    found.update(("lost", reason) for reason in np.unique(outcome.tables["losses"]["reason"]).tolist())
    found.add(("delivered", _bucket(len(outcome.tables["deliveries"]["client"]))))
    return found


def _bucket(count: int) -> int:
    return int(count).bit_length()
