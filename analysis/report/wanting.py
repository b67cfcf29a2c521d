"""Publications that an interest wanted while it stood, and that its client did not get: by values, as audits have it.

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

    service: Array
    publication: Array
    change: Array
    client: Array  # entity id
    decided: tuple[bool, ...]  # of each service, whether all such pairs are in


def missed(found: Gathered) -> Missed:
    """Of services whose interests say by their values what they want; nothing of runs too large for that."""
    looks = found.sample.whole and found.has("hops")
    parts = [_of(found, each) for each in found.kinds or ()] if looks else []
    columns = zip(*(each for each in parts if each is not None))
    service, publication, change, client = map(np.concatenate, columns) if any(
        each is not None for each in parts
    ) else [np.empty(0, np.int64)] * 4  # fmt: skip
    decided = tuple(each is not None for each in parts) or (False,) * found.services
    return Missed(service, publication, change, client, decided)


def _of(found: Gathered, service: Service) -> tuple[Array, ...] | None:
    """Columns of `Missed`; None where values do not tell, or there are too many."""
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
    ids, clients, delivered = np.unique(publication), np.unique(client), found.rows("deliveries")
    got = _pairs(ids, delivered["publication"], clients, delivered["client"])
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64))]  # rows of both
    for start in range(0, publication.size, _AT_ONCE):
        p, c = matcher.pairs(values[start : start + _AT_ONCE], ranges)
        p = p + start
        counts = (issued[c] <= end[p]) & ((gone[c] < 0) | (gone[c] >= time[p]))
        counts[counts] = ~np.isin(_pairs(ids, publication[p[counts]], clients, client[c[counts]]), got)
        parts.append((p[counts], c[counts]))
        if sum(each.size for each, _ in parts) > PAIRS_MOST:
            return None
    p, c = (np.concatenate(each) for each in zip(*parts))
    return np.full(p.size, service.number), publication[p], change[c], client[c]


def _pairs(ids: Array, publication: Array, clients: Array, client: Array) -> Array:
    """A number for each publication and client; -1 where there is no such client among some."""
    at = index(clients, client)
    return np.where(at < 0, -1, index(ids, publication) * clients.size + at)


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
