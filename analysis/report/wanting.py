"""Publications that an interest wanted while it stood, and that its client did not get: by values alone, as an audit has it.

A page has no values. Of these pairs it knows that something was wanted; of all others that did not come, that nothing
of the client's wanted them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from analysis.report.copies import index
from analysis.report.gather import Array, Gathered
from analysis.spark import tabled
from analysis.spark.rules import matcher_of, rule_of
from analysis.spark.trace import Service

PAIRS_MOST = 100_000  # of a service, in a page
CELLS_MOST = 100_000_000  # publications times interests that are tried
_AT_ONCE = 256  # publications
_SENT = ("publication", "time_ns")
_ASKED = ("change", "client", "operation", "issued_ns", "gone_ns")


class Missed(NamedTuple):
    """A row for each publication and change, as ids, that wants it and may count; its client did not get it."""

    publication: Array
    change: Array
    decided: tuple[bool, ...]  # of each service, whether all such pairs are in


def missed(found: Gathered) -> Missed:
    """Of services whose interests say by their values what they want; nothing of runs too large for that."""
    parts = [_of(found, each) for each in found.kinds or ()] if found.sample.whole and found.has("hops") else []
    known = [each for each in parts if each is not None]
    publication, change = (np.concatenate([np.empty(0, np.int64), *each]) for each in zip(*known)) if known else (
        np.empty(0, np.int64), np.empty(0, np.int64)
    )  # fmt: skip
    return Missed(publication, change, tuple(each is not None for each in parts) or (False,) * found.services)


def _of(found: Gathered, service: Service) -> tuple[Array, Array] | None:
    """Publications and changes; None where values do not tell, or there are too many."""
    if not service.kind.pair_by_pair or not service.kind.manifest.audit_rule:
        return None
    matcher = matcher_of(rule_of(service))
    if matcher is None or not hasattr(matcher, "pairs"):
        return None
    sent, (publication, time) = _rows(found, "publications", service.number, _SENT)
    asked, (change, client, operation, issued, gone) = _rows(found, "changes", service.number, _ASKED)
    wants = np.isin(operation, sorted(service.kind.wants()))
    asked = asked.filter(wants)
    change, client, issued, gone = (column[wants] for column in (change, client, issued, gone))
    if publication.size * change.size > CELLS_MOST:
        return None
    values, ranges = matcher.publications(*tabled.values(sent)), matcher.interests(*tabled.values(asked))
    end = np.maximum(time, _last_handled(found, publication))
    delivered = found.rows("deliveries")
    ids, clients = np.sort(publication), 1 + max(client.max(initial=0), delivered["client"].max(initial=0))
    got = index(ids, delivered["publication"]) * clients + delivered["client"]
    parts: list[tuple[Array, Array]] = []
    count = 0
    for start in range(0, publication.size, _AT_ONCE):
        p, c = matcher.pairs(values[start : start + _AT_ONCE], ranges)
        p = p + start
        counts = (issued[c] <= end[p]) & ((gone[c] < 0) | (gone[c] >= time[p]))
        p, c = p[counts], c[counts]
        came = np.isin(index(ids, publication[p]) * clients + client[c], got)
        parts.append((publication[p[~came]], change[c[~came]]))
        count += int((~came).sum())
        if count > PAIRS_MOST:
            return None
    return (np.concatenate([each[0] for each in parts]), np.concatenate([each[1] for each in parts])) if parts else (
        np.empty(0, np.int64), np.empty(0, np.int64)
    )  # fmt: skip


def _rows(found: Gathered, table: str, service: int, names: tuple[str, ...]) -> tuple[Any, tuple[Array, ...]]:
    """A service's rows with their values, and columns of them as numbers."""
    read = found.run.read(table, [*names, "service", "values"])
    mine = read.filter(pc.equal(read["service"], service)).combine_chunks()
    return mine, tuple(mine[name].to_numpy(zero_copy_only=False).astype(np.int64) for name in names)


def _last_handled(found: Gathered, publication: Array) -> Array:
    """When each was last handled by a broker."""
    hops = found.rows("hops")
    order = np.argsort(publication, kind="stable")
    at = index(publication[order], hops["body"])
    last = np.full(publication.size, -1, np.int64)
    np.maximum.at(last, order[at[at >= 0]], hops["time_ns"][at >= 0])
    return last

