"""The audit of the kind `spatial` in plain Python, for the conformance kit.

A subscription has to be served if it is settled and in RT(q) although all objects that may have been there were:
the certain and the free ones. It may be served if it may have been there and is in RT_delta(q) among the certain
objects alone. Whatever the free ones did, the right answer lies between: more objects make it smaller.

An object is there from when it was published until it was withdrawn. Where only the last n of a broker count, it is
there until the n-th after it at its broker was published; where it has a lifetime, until the first there that is so
much younger was. It is gone when that had settled. A change has settled once all that it leans on has too; of which a
link lost something never settles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.contract import NEVER, Guarantees
from brokers.indexes.spatial.geometry import Geometry, geometry_named, squared_distances
from protocols.judging import Audit, Changes, Tables, judge_pairs, published
from protocols.spatial.kind import EXPIRE, OBJECT_KEYWORDS, PUBLISH, SUBSCRIBE, SUBSCRIPTION_KEYWORDS, Spatial

Times = NDArray[np.int64]


class _Things:
    """Objects or subscriptions: where, about what, and when."""

    def __init__(
        self, rows: list[int], table: Mapping[str, Any], settles: Callable[[int], int], start: int, geometry: Geometry
    ) -> None:
        self.change: Times = np.array([table["change"][row] for row in rows], np.int64)
        self.client: Times = np.array([table["client"][row] for row in rows], np.int64)
        self.broker: Times = np.array([table["broker"][row] for row in rows], np.int64)
        self.interest: Times = np.array([table["interest"][row] for row in rows], np.int64)
        self.issued: Times = np.array([table["issued_ns"][row] for row in rows], np.int64)
        self.settled: Times = np.array([settles(int(c)) for c in self.change], np.int64)
        self.ended: Times = np.full(len(rows), NEVER, np.int64)
        self.gone: Times = np.full(len(rows), NEVER, np.int64)
        values = [np.asarray(table["values"][row], np.float64) for row in rows]
        self.points = geometry.points(np.array([v[:2] for v in values]).reshape(-1, 2), len(rows), "changes")
        self.words = [{int(word) for word in v[start:].tolist() if word == word} for v in values]

    def end(self, at: int, ended: int, gone: int) -> None:
        """Of two ends the earlier one is told to others, and the later one does nothing."""
        if ended == self.ended[at]:
            self.gone[at] = max(int(self.gone[at]), gone)
        elif ended < self.ended[at]:
            self.ended[at], self.gone[at] = ended, gone

    def certain(self, sent: int, end: int) -> NDArray[np.bool_]:
        return (self.settled < sent) & (self.ended > end)

    def possible(self, sent: int, end: int) -> NDArray[np.bool_]:
        return (self.issued <= end) & (self.gone >= sent)


def judge(tables: Tables, kind: Spatial, guarantees: Guarantees, service: int) -> Audit:
    """Judge a run by its full trace. O(publications * subscriptions * objects)."""
    found = Audit.of(tables, guarantees)
    geometry = geometry_named(kind.geometry)
    objects, subscriptions = _things(tables, kind, guarantees, service, geometry)
    related = np.array([[bool(s & o) for o in objects.words] for s in subscriptions.words], np.bool_)
    related = related.reshape(len(subscriptions.words), len(objects.words))
    squared = np.array([squared_distances(objects.points, point) for point in subscriptions.points])
    squared = squared.reshape(related.shape)
    asking = set(subscriptions.client.tolist())
    at = {change: i for i, change in enumerate(objects.change.tolist())}
    for p in published(found, tables, service):
        q, k = at[p.id], kind.asked(np.asarray(p.values))
        nearer = squared < squared[:, [q]]
        much_nearer = squared < geometry.reach(squared[:, q], kind.delta)[:, None]
        others = related & (np.arange(len(at)) != q)
        most = (nearer & others & objects.possible(p.sent, p.end)).sum(axis=1)
        least = (much_nearer & others & objects.certain(p.sent, p.end)).sum(axis=1)
        forced = related[:, q] & (most < k) & subscriptions.certain(p.sent, p.end)
        allowed = related[:, q] & (least < k) & subscriptions.possible(p.sent, p.end)
        must, may = (set(subscriptions.client[which].tolist()) for which in (forced, allowed))
        judge_pairs(found, p, set() if p.lost else must, may, must, asking)
    return found


def _things(
    tables: Tables, kind: Spatial, guarantees: Guarantees, service: int, geometry: Geometry
) -> tuple[_Things, _Things]:
    """Objects and subscriptions, with their ends."""
    table = tables["changes"]
    changes = Changes(tables, service, guarantees)
    rows: dict[int, list[int]] = {}
    for row in changes.rows:
        rows.setdefault(int(table["operation"][row]), []).append(row)
    objects = _Things(rows.pop(PUBLISH, []), table, changes.settles, OBJECT_KEYWORDS, geometry)
    subscriptions = _Things(rows.pop(SUBSCRIBE, []), table, changes.settles, SUBSCRIPTION_KEYWORDS, geometry)
    for operation, ends in rows.items():
        things = objects if operation == EXPIRE else subscriptions
        at = {interest: i for i, interest in enumerate(things.interest.tolist())}
        for row in ends:
            change = int(table["change"][row])
            things.end(at[int(table["interest"][row])], int(table["issued_ns"][row]), changes.settles(change))
    for broker in np.unique(objects.broker).tolist():
        order = np.flatnonzero(objects.broker == broker)  # by time, and at one time by client and number
        for out, by in _put_out(objects.issued[order], kind):
            objects.end(int(order[out]), int(objects.issued[order[by]]), int(objects.settled[order[by]]))
    return objects, subscriptions


def _put_out(issued: Times, kind: Spatial) -> Iterator[tuple[int, int]]:
    """Of the objects of a broker, in their order: which one leaves a window because of which."""
    if kind.last is not None:
        yield from zip(range(issued.size), range(kind.last, issued.size))
    if kind.lifetime_ns is not None:
        by = np.searchsorted(issued, issued + kind.lifetime_ns)
        yield from zip(range(issued.size), by[by < issued.size].tolist())
